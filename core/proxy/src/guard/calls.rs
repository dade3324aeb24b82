//! The calls of the client, and their answers: the handshake, sessions and prompts.

use std::path::{Path, PathBuf};
use std::time::Instant;

use kimi_agent_client::proxied::{check_budget, check_directory, record, trace};
use kimi_agent_client::{Error, Result};
use kimi_agent_protocol::jsonrpc::relayed::{Relayed, has_ambiguous_names};
use kimi_agent_protocol::jsonrpc::{Message, Params};
use kimi_agent_protocol::messages::ServerInfo;
use kimi_agent_protocol::recording::Side;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Guard, MAX_KEPT, MAX_OPEN, is_absolute, key_of};
use crate::observed::Observed;
use crate::settings::{Limits, Settings};
use crate::tape::Tape;
use crate::texts;

/// An open call of the client.
#[derive(Debug)]
pub(super) struct Call {
    /// The id, as JSON text.
    pub(super) id: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Initialize,
    /// A call that opens a session.
    Open(Box<Opening>),
    Prompt {
        session: String,
    },
    Close {
        session: String,
    },
    Other,
}

#[derive(Debug)]
struct Opening {
    work_dir: PathBuf,
    /// The session that is continued. `None`: a new one.
    session: Option<String>,
    limits: Limits,
    /// The line, for the recording.
    line: Vec<u8>,
    secrets: Vec<String>,
}

impl Guard {
    /// Handles a call of the client.
    pub(super) fn client_calls(&mut self, line: &[u8], read: Relayed<'_>, now: Instant) -> Result<()> {
        let Message::Request { id, method, params } = &read.message else { return Ok(()) };
        let Some(key) = key_of(&read) else { return Ok(()) };
        let refuse = |guard: &mut Self, reason: &str| {
            guard.to_client.say(&texts::error(id, texts::INVALID_REQUEST, reason));
            Ok(())
        };
        if self.calls.contains_key(&key) {
            // An answer could be meant for either.
            return refuse(self, "another call with this id is open");
        }
        if self.calls.len() >= MAX_OPEN {
            return refuse(self, "too many calls are open");
        }
        let is_clear = !read.is_odd && !has_ambiguous_names(params.get());
        let named = params.text("sessionId").ok().map(|session| session.into_owned());
        let kind = match (&**method, named) {
            ("initialize", _) => {
                self.greet(line, params);
                Kind::Initialize
            }
            ("session/prompt", Some(session)) if self.sessions.contains_key(&session) => {
                if !is_clear {
                    return refuse(self, "two programs could read this message differently");
                }
                let text = text_of_prompt(params);
                let Some(observed) = self.sessions.get_mut(&session) else { return Ok(()) };
                match observed.prompt(key.clone(), text, now) {
                    Ok(reported) => {
                        observed.record_sent(line, now);
                        self.settle(&session, reported, now)?;
                    }
                    Err(error) => {
                        self.to_client.say(&texts::error(id, texts::INTERNAL_ERROR, &error.to_string()));
                        return Ok(());
                    }
                }
                Kind::Prompt { session }
            }
            ("session/prompt", Some(session)) if self.session_of(&session).is_some() => Kind::Other,
            ("session/prompt", _) => {
                // Neither rules nor budgets would hold in it.
                return refuse(self, "the prompt names no session that was opened here, so it cannot be guarded");
            }
            ("session/close", Some(session)) => Kind::Close { session },
            (name, session) if name.starts_with("session/") && params.text("cwd").is_ok() => {
                if !is_clear {
                    return refuse(self, "two programs could read this message differently");
                }
                match self.opening(line, params, session) {
                    Ok(opening) => Kind::Open(Box::new(opening)),
                    Err(error) => {
                        self.to_client.say(&texts::error(id, texts::INTERNAL_ERROR, &error.to_string()));
                        return Ok(());
                    }
                }
            }
            _ => Kind::Other,
        };
        self.calls.insert(key, Call { id: (*id).to_owned(), kind });
        self.to_agent.pass(line);
        Ok(())
    }

    /// Takes in the handshake of the client.
    fn greet(&mut self, line: &[u8], params: &Params<'_>) {
        #[derive(Deserialize)]
        struct Hello {
            #[serde(rename = "clientCapabilities")]
            capabilities: Option<Value>,
        }
        let hello = serde_json::from_str::<Hello>(params.get()).ok();
        let capabilities = hello.and_then(|hello| hello.capabilities);
        self.shows_notices =
            capabilities.is_some_and(|offered| offered.pointer("/session/notices").is_some_and(Value::is_object));
        self.handshake.clear();
        self.keep(true, line);
    }

    fn keep(&mut self, is_of_client: bool, line: &[u8]) {
        if line.len() <= MAX_KEPT {
            self.handshake.push((is_of_client, line.to_vec()));
        }
    }

    /// Returns what is known of a session that the client opens, or why it must not be opened.
    fn opening(&self, line: &[u8], params: &Params<'_>, session: Option<String>) -> Result<Opening> {
        let wrong = |reason: String| Error::Unsupported(reason);
        if self.sessions.len() >= MAX_OPEN {
            return Err(wrong("too many sessions are open".to_owned()));
        }
        let work_dir = params.text("cwd").map_err(wrong)?;
        if !is_absolute(&work_dir) {
            return Err(wrong(format!("cwd: expected an absolute path, got {work_dir:?}")));
        }
        let work_dir = PathBuf::from(work_dir.into_owned());
        let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
        let further = params.get("additionalDirectories").and_then(Value::as_array).into_iter().flatten();
        for directory in further.filter_map(Value::as_str).map(Path::new).chain([&*work_dir]) {
            check_directory(&self.options, directory)?;
        }
        let limits = Limits::of(&self.settings, &Settings::of_work_dir(&work_dir)?)?;
        check_budget(self.server.as_ref(), "budget", limits.session_budget)?;
        check_budget(self.server.as_ref(), "turn_budget", limits.turn_budget)?;
        check_budget(self.server.as_ref(), "day_budget", limits.day_budget)?;
        let line = if line.len() <= MAX_KEPT { line.to_vec() } else { Vec::new() };
        Ok(Opening { work_dir, session, limits, line, secrets: secrets_of(&params) })
    }

    /// Handles an answer of the agent.
    pub(super) fn agent_answers(&mut self, line: &[u8], read: &Relayed<'_>, now: Instant) -> Result<()> {
        let Message::Response { outcome, .. } = &read.message else { return Ok(()) };
        let Some(Call { id, kind }) = key_of(read).and_then(|key| self.calls.remove(&key)) else {
            self.to_client.pass(line);
            return Ok(());
        };
        match kind {
            Kind::Initialize => {
                if let Ok(result) = outcome {
                    self.server = server_of(result);
                    self.keep(false, line);
                }
            }
            Kind::Open(opening) => {
                if let Ok(result) = outcome
                    && let Err(error) = self.opened(*opening, line, result, now)
                {
                    self.to_client.say(&texts::error(&id, texts::INTERNAL_ERROR, &error.to_string()));
                    return Ok(());
                }
            }
            Kind::Prompt { session } => {
                if let (Some(key), Some(observed)) = (key_of(read), self.sessions.get_mut(&session)) {
                    observed.record_line(line, now);
                    let reported = observed.prompt_answered(&key, outcome, now);
                    self.settle(&session, reported, now)?;
                    self.count_day(&session, true, now)?;
                }
            }
            Kind::Close { session } => {
                if outcome.is_ok()
                    && let Some(observed) = self.sessions.remove(&session)
                {
                    observed.close(&Error::session_closed());
                }
            }
            Kind::Other => {}
        }
        self.to_client.pass(line);
        Ok(())
    }

    /// Begins to follow a session that the agent has opened.
    fn opened(&mut self, opening: Opening, line: &[u8], result: &RawValue, now: Instant) -> Result<()> {
        #[derive(Deserialize)]
        struct Opened {
            #[serde(rename = "sessionId")]
            session: Option<String>,
        }
        let wrong = |reason: &str| Error::Protocol(reason.to_owned().into());
        let unclear = || wrong("the agent's answer about the session can be read in two ways");
        if has_ambiguous_names(result.get()) {
            return Err(unclear());
        }
        let named = serde_json::from_str::<Opened>(result.get()).map_err(|_| unclear())?.session;
        let Opening { work_dir, session: continued, limits, line: call, secrets } = opening;
        let session = match (named, continued) {
            (Some(named), _) => named,
            (None, Some(continued)) => continued,
            (None, None) => return Err(wrong("the agent has opened a session without an id")),
        };
        if let Some(known) = self.sessions.get(&session) {
            // The agent must not move a session to other rules.
            if known.has_turn() || !call_names(&call, &session) {
                return Err(wrong("the agent gave two sessions the same id"));
            }
        }
        let recorded = record(&self.options, &session, &work_dir, secrets)?;
        let tape = recorded.map(|(recorder, file)| {
            self.recordings.push(file);
            Tape::new(recorder)
        });
        if let Some(tape) = &tape {
            for (is_of_client, line) in &self.handshake {
                tape.lines(if *is_of_client { Side::Sdk } else { Side::Agent }, line, now);
            }
            tape.lines(Side::Sdk, &call, now);
            tape.lines(Side::Agent, line, now);
        }
        let trace = trace(&self.options, &session, self.server.as_ref());
        let mut observed = Observed::new(&session, work_dir, self.server.clone(), limits, tape, trace, now);
        observed.share_day(self.day_file.as_deref())?;
        if let Some(former) = self.sessions.insert(session, observed) {
            former.close(&Error::session_closed());
        }
        Ok(())
    }

    /// Handles a notification of the client.
    pub(super) fn client_notifies(&mut self, line: &[u8], read: &Relayed<'_>, now: Instant) -> Result<()> {
        if let Message::Notification { method, params } = &read.message
            && method == "session/cancel"
            && let Ok(session) = params.text("sessionId")
            && let Some(observed) = self.sessions.get_mut(&*session)
        {
            let mut reported = observed.cancel(now);
            observed.record_sent(line, now);
            // The client cancels itself. Requests that the guard has withdrawn are answered by the guard.
            let session = session.into_owned();
            let answers = without_cancel(&reported.sent);
            reported.sent = answers;
            self.to_agent.pass(line);
            return self.settle(&session, reported, now);
        }
        self.to_agent.pass(line);
        Ok(())
    }
}

/// Returns the lines without the notification that cancels a turn.
fn without_cancel(lines: &[u8]) -> Vec<u8> {
    let is_cancel = |line: &[u8]| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        matches!(kimi_agent_protocol::jsonrpc::parse(line), Message::Notification { .. })
    };
    lines.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_cancel(line)).flatten().copied().collect()
}

/// Whether a call continues this session.
fn call_names(call: &[u8], session: &str) -> bool {
    let Message::Request { params, .. } = kimi_agent_protocol::jsonrpc::parse(call) else { return false };
    params.text("sessionId").is_ok_and(|named| named == session)
}

/// Returns the text of a prompt, for the events of the recording.
fn text_of_prompt(params: &Params<'_>) -> String {
    #[derive(Deserialize)]
    struct Prompt {
        prompt: Vec<Value>,
    }
    let prompt = serde_json::from_str::<Prompt>(params.get()).map(|params| params.prompt).unwrap_or_default();
    let text = |block: &Value| match (block.get("text").and_then(Value::as_str), block.get("type")) {
        (Some(text), _) => text.to_owned(),
        (None, kind) => format!("[{}]", kind.and_then(Value::as_str).unwrap_or("content")),
    };
    prompt.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// Returns the name and the version of the agent.
fn server_of(result: &RawValue) -> Option<ServerInfo> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "agentInfo")]
        agent: Option<Value>,
    }
    let agent = serde_json::from_str::<Answer>(result.get()).ok()?.agent?;
    let text = |key: &str| agent.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(ServerInfo { name: text("name"), version: text("version"), extra: Default::default() })
}

/// Returns the values that MCP servers get from the client: variables and headers. They can be keys.
fn secrets_of(params: &Value) -> Vec<String> {
    let servers = params.get("mcpServers").and_then(Value::as_array).into_iter().flatten();
    let pairs = servers.flat_map(|server| {
        let lists = ["env", "headers"].into_iter().filter_map(|key| server.get(key)?.as_array());
        lists.flatten().filter_map(|pair| pair.get("value")?.as_str().map(str::to_owned)).collect::<Vec<_>>()
    });
    pairs.collect()
}
