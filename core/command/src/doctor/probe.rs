//! The answers of an agent when a session opens. Nothing is sent to its model.

use std::path::PathBuf;
use std::time::Duration;

use kimi_agent_client::host::auth_methods;
use kimi_agent_client::{Capabilities, Error, Session, SessionOptions};
use kimi_agent_files::PrivateDir;
use kimi_agent_protocol::dialect::{AuthMethod, checks_login};
use kimi_agent_protocol::recording::Redactor;
use serde::Serialize;
use serde_json::Value;

use super::search::Candidate;
use crate::{exit, login, spelling};

/// The findings about an agent.
#[derive(Debug, Default, Serialize)]
pub(super) struct Finding {
    /// The agent as it was looked for.
    pub(super) agent: String,
    pub(super) path: Option<PathBuf>,
    pub(super) state: State,
    pub(super) login: Login,
    /// The name and the version that the agent sent.
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    /// For example `acp-1`, or the version of Wire.
    pub(super) protocol: Option<String>,
    /// The ways to log in that the agent offers.
    pub(super) login_methods: Vec<AuthMethod>,
    /// The command that logs in.
    pub(super) login_command: Option<String>,
    pub(super) capabilities: Option<Capabilities>,
    pub(super) error: Option<Problem>,
}

/// Whether the agent can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Usable,
    LoginNeeded,
    #[default]
    Failed,
}

/// Whether the agent has a login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Login {
    /// The model's service has not been asked whether it is valid.
    Found,
    Missing,
    /// The first prompt shows it.
    #[default]
    Unknown,
}

/// Why no session opened.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Finding {
    pub(super) fn is_usable(&self) -> bool {
        self.state == State::Usable
    }
}

/// Opens a session with the agent and closes it.
pub(super) async fn probed(
    candidate: Candidate,
    place: usize,
    options: SessionOptions,
    folder: &PrivateDir,
) -> Finding {
    let Candidate { name, executable, found } = candidate;
    let finding = Finding { agent: name, ..Finding::default() };
    let path = match found {
        Ok(path) => path,
        Err(error) => return finding.failed(&error),
    };
    let finding = Finding { path: Some(path), ..finding };
    // A recording of its own keeps the file of $KIMI_AGENT_RECORD.
    let mut options = options
        .work_dir(folder.path())
        .record(folder.path().join(format!("probe-{place}.jsonl")))
        .close_timeout(Duration::from_secs(2));
    let finding = Finding { login_command: executable.as_ref().and_then(login::hint), ..finding };
    if let Some(executable) = executable {
        options = options.executable(executable);
    }
    match options.start().await {
        Ok(session) => {
            let finding = finding.opened(&session);
            // The agent has said everything. It is ended also if it does not end by itself.
            session.close().await.ok();
            finding
        }
        Err(error) => finding.failed(&error),
    }
}

impl Finding {
    fn opened(self, session: &Session) -> Self {
        let has_login = checks_login(session.server(), session.protocol_version());
        Self {
            state: State::Usable,
            login: if has_login { Login::Found } else { Login::Unknown },
            name: session.server().map(|server| server.name.clone()),
            version: session.server().map(|server| server.version.clone()),
            protocol: Some(session.protocol_version().to_owned()),
            login_methods: auth_methods(session).to_vec(),
            capabilities: Some(session.capabilities().clone()),
            ..self
        }
    }

    fn failed(self, error: &Error) -> Self {
        let needs_login = exit::of(error) == exit::LOGIN_NEEDED;
        let methods = match error {
            Error::Rpc(answer) => answer.methods.to_vec(),
            _ => Vec::new(),
        };
        let (state, login) = match needs_login {
            true => (State::LoginNeeded, Login::Missing),
            false => (State::Failed, Login::Unknown),
        };
        Self {
            state,
            login,
            login_methods: methods,
            error: Some(Problem { code: error.code(), message: masked(&spelling::message_of_doctor(error)) }),
            ..self
        }
    }
}

/// Returns a text without what looks like a key.
pub(super) fn masked(text: &str) -> String {
    let line = Value::from(text).to_string();
    let line = Redactor::of_places(&[]).redacted(line.as_bytes()).into_owned();
    serde_json::from_slice(&line).unwrap_or_else(|_| "***".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_masked() {
        let text = masked("refused \"sk-abcdefghijklmnopqrstuvwx\"\nas a key");
        assert_eq!(text, "refused \"***\"\nas a key");
    }
}
