//! How a session opens: the handshake, then the session itself, then what the program wants otherwise.

use std::collections::VecDeque;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    self as acp, SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory as Category,
    SessionConfigSelectOptions,
};
use serde_json::{Value, json};

use super::{Acp, SessionParams};
use crate::dialect::{Capabilities, Handshake, InitializeParams, agent_name};
use crate::error::invalid_option;
use crate::error::{Error, Result, RpcError, RpcErrorKind};
use crate::wire::jsonrpc::RpcFailure;
use crate::wire::{Json, ServerInfo, decode_body};

/// The protocol's name where a version is asked for.
pub(super) const NAME: &str = "acp-1";
const PLAN: &str = "plan";
const UNAUTHORISED: i64 = -32000;
const INVALID_PARAMS: i64 = -32602;

/// How far the opening is.
#[derive(Debug)]
pub(super) enum Stage {
    /// The agent is asked what it is.
    Greeting,
    /// It is asked for a session.
    Session,
    /// What is left to set, each with the option's name.
    Setting(&'static str, VecDeque<(&'static str, Value)>),
    /// It has failed, for this reason.
    Failed(Error),
}

pub(super) fn initialize_request(params: &InitializeParams) -> acp::InitializeRequest {
    let client = acp::Implementation::new(&*params.client_name, &*params.client_version);
    acp::InitializeRequest::new(ProtocolVersion::V1).client_info(client)
}

/// The modes of a session, as far as plan mode goes.
#[derive(Debug, Default)]
pub(super) struct Modes {
    /// The configuration option that chooses among them, where there is one.
    option: Option<acp::SessionConfigId>,
    known: Vec<String>,
    current: Option<String>,
    /// What plan mode is left for.
    normal: Option<String>,
}

impl Modes {
    fn new(modes: Option<&acp::SessionModeState>, options: &[SessionConfigOption]) -> Self {
        let mut all = Self::default();
        if let Some((option, current, values)) = options.iter().find_map(mode_option) {
            all.option = Some(option);
            all.known = values;
            all.enter(&current);
        } else if let Some(modes) = modes {
            all.known = modes.available_modes.iter().map(|mode| mode.id.0.to_string()).collect();
            all.enter(&modes.current_mode_id.0);
        }
        all
    }

    fn has_plan(&self) -> bool {
        self.known.iter().any(|mode| mode == PLAN) && self.known.len() > 1
    }

    /// The agent is in this mode now. Tells whether that is new.
    pub(super) fn enter(&mut self, mode: &str) -> bool {
        if mode != PLAN {
            self.normal = Some(mode.to_owned());
        }
        let new = self.current.as_deref() != Some(mode);
        self.current = Some(mode.to_owned());
        new
    }

    pub(super) fn in_plan(&self) -> bool {
        self.current.as_deref() == Some(PLAN)
    }

    /// The mode to switch to, where there is a plan mode.
    pub(super) fn for_plan(&self, on: bool) -> Option<&str> {
        if !self.has_plan() {
            return None;
        }
        let other = || self.known.iter().map(String::as_str).find(|mode| *mode != PLAN);
        if on { Some(PLAN) } else { self.normal.as_deref().or_else(other) }
    }

    pub(super) fn switch(&self, session: &acp::SessionId, mode: &str) -> (&'static str, Value) {
        match &self.option {
            Some(option) => set(session, option, json!(mode)),
            None => ("session/set_mode", json!({"sessionId": session, "modeId": mode})),
        }
    }
}

fn set(session: &acp::SessionId, option: &acp::SessionConfigId, value: Value) -> (&'static str, Value) {
    ("session/set_config_option", json!({"sessionId": session, "configId": option, "value": value}))
}

/// The option that chooses the mode: its id, its value, and the values that it has.
pub(super) fn mode_option(option: &SessionConfigOption) -> Option<(acp::SessionConfigId, String, Vec<String>)> {
    let SessionConfigKind::Select(select) = &option.kind else { return None };
    let is_mode = option.category == Some(Category::Mode) || &*option.id.0 == "mode";
    is_mode.then(|| (option.id.clone(), select.current_value.0.to_string(), values(&select.options)))
}

fn values(options: &SessionConfigSelectOptions) -> Vec<String> {
    match options {
        SessionConfigSelectOptions::Ungrouped(options) => {
            options.iter().map(|option| option.value.0.to_string()).collect()
        }
        SessionConfigSelectOptions::Grouped(groups) => {
            groups.iter().flat_map(|group| &group.options).map(|option| option.value.0.to_string()).collect()
        }
        _ => Vec::new(),
    }
}

impl Acp {
    /// Takes in an answer, and says what the opening has to ask next, if it is not over.
    pub(super) fn next_of_opening(
        &mut self,
        id: &str,
        outcome: &std::result::Result<Json, RpcFailure>,
    ) -> Option<Vec<u8>> {
        let next = match (&mut self.stage, outcome) {
            (Stage::Greeting, Ok(answer)) => self.greeted(answer).map(Some),
            (Stage::Session, Ok(answer)) => self.has_session(answer),
            (Stage::Setting(..), Ok(answer)) => {
                self.take_options(answer);
                Ok(self.next_setting())
            }
            (_, Err(failure)) => Err(self.refused(failure)),
            (Stage::Failed(_), _) => return None,
        };
        match next {
            Ok(Some((method, params))) => Some(self.request(id, method, &params)),
            Ok(None) => None,
            Err(error) => {
                self.stage = Stage::Failed(error);
                None
            }
        }
    }

    /// The agent says what it is: now it is asked for a session.
    fn greeted(&mut self, answer: &Json) -> Result<(&'static str, Value)> {
        let answer: acp::InitializeResponse = decode_body(answer.get()).map_err(|reason| {
            Error::Handshake(format!(
                "the agent's answer to `initialize` can't be read: {reason}; check that `executable` names an agent that \
                 speaks the Agent Client Protocol, or set `dialect` to \"auto\" if it speaks Wire"
            ))
        })?;
        if answer.protocol_version != ProtocolVersion::V1 {
            let version = answer.protocol_version;
            return Err(Error::Handshake(format!(
                "the agent speaks version {version} of the Agent Client Protocol, and this SDK speaks version 1; use \
                 another release of the agent"
            )));
        }
        self.server = server(answer.agent_info);
        self.agent = answer.agent_capabilities;
        self.logins = answer.auth_methods.iter().map(|method| method.name().to_owned()).collect();
        let SessionParams { work_dir, session_id, fork_of, mcp_servers, .. } = &self.params;
        let http = self.agent.mcp_capabilities.http;
        if !http && mcp_servers.iter().any(|server| matches!(server, acp::McpServer::Http(_))) {
            return Err(self.unsupported("MCP servers over HTTP"));
        }
        // Without, the program hears that its tools are not supported.
        let program = self.program.as_ref().filter(|_| http).map(|program| program.server());
        let servers: Vec<_> = mcp_servers.iter().chain(&program).collect();
        let mut params = json!({"cwd": work_dir, "mcpServers": servers});
        let method = match (fork_of, session_id) {
            (Some(id), _) => {
                if self.agent.session_capabilities.fork.is_none() {
                    return Err(self.unsupported("`fork`"));
                }
                params["sessionId"] = json!(id);
                "session/fork"
            }
            (None, None) => "session/new",
            (None, Some(id)) => {
                params["sessionId"] = json!(id);
                match (&self.agent.session_capabilities.resume, self.agent.load_session) {
                    (Some(_), _) => "session/resume",
                    (None, true) => "session/load",
                    (None, false) => {
                        return Err(self.unsupported(
                            "`session_id`: it cannot resume sessions; leave the option out to open a new session",
                        ));
                    }
                }
            }
        };
        self.stage = Stage::Session;
        Ok((method, params))
    }

    /// The session is there: now it is set as the program wants it.
    fn has_session(&mut self, answer: &Json) -> Result<Option<(&'static str, Value)>> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Opened {
            session_id: Option<acp::SessionId>,
            modes: Option<acp::SessionModeState>,
            config_options: Option<Vec<SessionConfigOption>>,
        }
        let unreadable =
            |reason: String| Error::Handshake(format!("the agent's answer about the session can't be read: {reason}"));
        let opened: Opened = decode_body(answer.get()).map_err(unreadable)?;
        let session = opened.session_id.or_else(|| self.params.session_id.as_deref().map(acp::SessionId::new));
        let session = session.ok_or_else(|| unreadable("it names none".to_owned()))?;
        let options = opened.config_options.unwrap_or_default();
        self.modes = Modes::new(opened.modes.as_ref(), &options);
        self.session = Some(session.clone());

        let mut wanted = VecDeque::new();
        let of = |category: Category| options.iter().find(move |option| option.category.as_ref() == Some(&category));
        if let Some(model) = &self.params.model {
            let Some(option) = of(Category::Model) else {
                return Err(self.unsupported("`model`; choose the model in the agent's own configuration"));
            };
            wanted.push_back(("model", set(&session, &option.id, json!(model)).1));
        }
        if let Some(thinking) = self.params.thinking {
            let choice = of(Category::ThoughtLevel).and_then(|option| Some((option, thought(option, thinking)?)));
            match choice {
                Some((option, value)) => wanted.push_back(("thinking", set(&session, &option.id, value).1)),
                // Without a choice it is as it was wanted, or can't be.
                None if thinking => return Err(self.unsupported("`thinking` with this model")),
                None => {}
            }
        }
        self.stage = Stage::Setting("", wanted);
        Ok(self.next_setting())
    }

    fn next_setting(&mut self) -> Option<(&'static str, Value)> {
        let Stage::Setting(current, wanted) = &mut self.stage else { return None };
        let (name, params) = wanted.pop_front()?;
        *current = name;
        Some(("session/set_config_option", params))
    }

    /// The agent tells how the session is set.
    pub(super) fn take_options(&mut self, answer: &Json) {
        if let Ok(answer) = answer.decode::<acp::SetSessionConfigOptionResponse>()
            && let Some((_, current, _)) = answer.config_options.iter().find_map(mode_option)
        {
            self.modes.enter(&current);
        }
    }

    /// Why there is no session.
    fn refused(&self, failure: &RpcFailure) -> Error {
        let RpcFailure { code, message, .. } = failure;
        let rpc = |kind, message| {
            Error::Rpc(RpcError { kind, rpc_code: Some(*code), message, data: failure.data.clone(), hint: None })
        };
        match (&self.stage, *code) {
            (_, UNAUTHORISED) => {
                let agent = agent_name(self.server.as_ref(), NAME);
                let message = message.trim_end_matches('.');
                let mut hint = "log in (for Kimi Code: `kimi login`), or configure a model and its provider".to_owned();
                if !self.logins.is_empty() {
                    hint += &format!("; it knows these ways to log in: {}", self.logins.join(", "));
                }
                let mut error = rpc(RpcErrorKind::LlmNotSet, format!("{agent}: {message}"));
                if let Error::Rpc(error) = &mut error {
                    error.hint = Some(hint);
                }
                error
            }
            (Stage::Greeting, _) => Error::Handshake(format!(
                "the agent refuses `initialize`; check that `executable` names an agent that speaks the Agent \
                 Client Protocol, or set `dialect` to \"auto\" if it speaks Wire\nit says: {message} ({code})"
            )),
            (Stage::Setting(option, _), INVALID_PARAMS) => invalid_option(*option, message.clone()),
            (Stage::Session, _) if self.params.session_id.is_some() => {
                let mut error = rpc(RpcErrorKind::Other, message.clone());
                if let Error::Rpc(error) = &mut error {
                    error.hint = Some(
                        "an agent of ACP makes the ids of sessions itself: leave `session_id` out to open a new session, \
                         or pass the `id` of an earlier one"
                            .to_owned(),
                    );
                }
                error
            }
            _ => rpc(RpcErrorKind::Other, message.clone()),
        }
    }

    /// The opening is over.
    pub(super) fn opened(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Handshake> {
        if let Stage::Failed(error) = &self.stage {
            return Err(error.clone());
        }
        let Some(session) = &self.session else {
            return Err(match outcome {
                Err(failure) => self.refused(&failure),
                Ok(_) => Error::Handshake("the agent has opened no session".to_owned()),
            });
        };
        self.capabilities = Capabilities {
            external_tools: self.agent.mcp_capabilities.http,
            // A permission request may offer more than yes and no.
            questions: true,
            approval_feedback: false,
            steer: false,
            plan_mode: self.modes.has_plan(),
            replay: false,
            hooks: Vec::new(),
        };
        Ok(Handshake {
            protocol_version: NAME.to_owned(),
            server: self.server.clone(),
            capabilities: self.capabilities.clone(),
            session_id: Some(session.0.to_string()),
            ..Handshake::default()
        })
    }
}

/// What an agent says that it is.
pub(super) fn server(agent: Option<acp::Implementation>) -> Option<ServerInfo> {
    agent.map(|agent| ServerInfo {
        name: agent.title.unwrap_or(agent.name),
        version: agent.version,
        extra: Default::default(),
    })
}

/// The value that turns thinking on or off.
fn thought(option: &SessionConfigOption, on: bool) -> Option<Value> {
    match &option.kind {
        SessionConfigKind::Boolean(_) => Some(json!(on)),
        SessionConfigKind::Select(select) => {
            let values = values(&select.options);
            let is_off = |value: &&String| matches!(value.as_str(), "off" | "none");
            let current = select.current_value.0.to_string();
            if !on {
                return values.iter().find(is_off).map(|value| json!(value));
            }
            // How much, the agent's configuration says; if it says none, what comes next to none.
            if !is_off(&&current) {
                return Some(json!(current));
            }
            values.iter().find(|value| !is_off(value)).map(|value| json!(value))
        }
        _ => None,
    }
}
