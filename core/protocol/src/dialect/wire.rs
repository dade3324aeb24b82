//! Wire 1.0 to 1.10. The newest version is nearly the canonical model. This file has the differences of older versions,
//! and the behaviour of real agents that no version describes.
//!
//! - `forms`: messages that have former names, or another form that is clear.

mod forms;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

pub(super) use forms::read_other_forms;

use super::{Answer, Call, Capabilities, Dialect, Handshake, Incoming, PolicyReach, WireVersion, unknown};
use crate::answers::{Approval, HookDecision};
use crate::error::{Error, Result, RpcErrorKind};
use crate::json::parsed_object;
use crate::jsonrpc::{self, Message, Params, RpcFailure};
use crate::messages::{Content, Event, InitializeResult, Json, ServerInfo, ToolReturnValue, decode_body};
use crate::resource::as_texts;

const METHOD_NOT_FOUND: i64 = -32601;

/// The Wire protocol, as one agent speaks it.
#[derive(Debug)]
pub struct Wire {
    version: WireVersion,
    /// The version that the agent reports.
    pinned: bool,
    /// The version in the handshake.
    announced: Option<WireVersion>,
    server: Option<ServerInfo>,
    /// Without the names of the hooks, which this file does not need.
    capabilities: Capabilities,
}

impl Wire {
    /// Makes a dialect that offers `version` in the handshake, and then speaks the version of the agent's answer.
    pub fn new(version: WireVersion) -> Self {
        Self { version, pinned: false, announced: None, server: None, capabilities: Capabilities::default() }
    }

    /// Makes a dialect that always speaks `version`. With 1.0 it sends no handshake, because some agents do not answer
    /// it.
    pub fn pinned(version: WireVersion) -> Self {
        Self { pinned: true, ..Self::new(version) }
    }

    /// Makes a dialect for an agent that does not answer a handshake. `server` is the output of the executable's
    /// `--version`.
    pub fn without_handshake(server: ServerInfo) -> Self {
        Self { server: Some(server), ..Self::pinned(WireVersion::V1_0) }
    }

    fn welcome_without_handshake(&mut self) -> Handshake {
        self.version = WireVersion::V1_0;
        self.find_capabilities(None);
        Handshake {
            protocol_version: self.version.to_string(),
            server: self.server.clone(),
            capabilities: self.capabilities.clone(),
            ..Handshake::default()
        }
    }

    fn unsupported(&self, feature: &str) -> Error {
        super::unsupported(self.server.as_ref(), &self.version.to_string(), feature)
    }

    /// Returns the content with resources as texts. Wire has no resources.
    fn texts<'a>(&self, input: &'a Content) -> Result<Cow<'a, Content>> {
        as_texts(input).map_err(|what| self.unsupported(&format!("prompts with {what}")))
    }

    /// Returns the agent's capabilities. The version is not enough: kimi-cli 1.14 to 1.19 report Wire 1.3, but support
    /// steering and questions.
    fn find_capabilities(&mut self, declared: Option<&Map<String, Value>>) {
        let at_least = |minor| self.version >= WireVersion::new(1, minor);
        let release: Option<WireVersion> = self.server.as_ref().and_then(|server| server.version.parse().ok());
        let ahead_of_its_number =
            self.version == WireVersion::new(1, 3) && release.is_some_and(|release| release >= WireVersion::new(1, 14));
        let says_question = declared.filter(|_| self.has_word(3)).and_then(|map| map.get("supports_question"));
        self.capabilities = Capabilities {
            external_tools: at_least(1),
            questions: says_question.and_then(Value::as_bool).unwrap_or(at_least(4) || ahead_of_its_number),
            approval_feedback: at_least(6),
            steer: at_least(4) || ahead_of_its_number,
            plan_mode: at_least(4),
            config_options: false,
            replay: at_least(3),
            undo: false,
            fork: false,
            hooks: Vec::new(),
            policy: PolicyReach::Approvals,
            files: false,
            terminals: false,
        };
    }

    /// Returns whether the handshake's answer decides about a feature of this version. It does not if the program has
    /// set an older version, whose handshake does not name the feature.
    fn has_word(&self, since: u32) -> bool {
        !self.pinned || self.version >= WireVersion::new(1, since)
    }
}

/// Reads a message of an agent that wraps events as Wire does; `decode` knows their types.
pub(super) fn read_with(message: Message<'_>, decode: impl Fn(&str, &str) -> Event) -> Incoming {
    let event = |params: &Params<'_>| -> std::result::Result<Event, String> {
        let kind = params.text("type")?;
        let payload = params.member("payload")?.unwrap_or("null");
        Ok(decode(&kind, payload))
    };
    match message {
        Message::Notification { method, params } if method == "event" => match event(&params) {
            Ok(event) => Incoming::event(event),
            Err(reason) => Incoming::event(unknown(&method, params.to_json().get(), Some(reason))),
        },
        Message::Notification { method, params } => Incoming::event(unknown(&method, params.to_json().get(), None)),
        Message::Request { id, method, params } => match event(&params) {
            Ok(request) if method == "request" => {
                Incoming::Request { rpc_id: id.to_owned(), request: Box::new(request) }
            }
            _ => {
                Incoming::UnknownMethod { rpc_id: id.to_owned(), method: method.into_owned(), params: params.to_json() }
            }
        },
        Message::Response { id, outcome } => {
            Incoming::Response { id: id.map(|id| id.into_owned()), outcome: outcome.map(Json::from_raw) }
        }
        Message::Invalid(reason) => Incoming::InvalidLine(reason),
    }
}

/// Reads the answer to `initialize`. A session can exist without the agent's name, so that part may be missing.
fn read_welcome(json: &str) -> std::result::Result<(InitializeResult, Option<ServerInfo>), String> {
    let reason = match decode_body::<InitializeResult>(json) {
        Ok(result) => {
            let server = result.server.clone();
            return Ok((result, Some(server)));
        }
        Err(reason) => reason,
    };
    let Some(mut members) = parsed_object(json) else { return Err(reason) };
    let given = members.remove("server").unwrap_or_default();
    let text = |name: &str| given[name].as_str().unwrap_or_default().to_owned();
    let server = ServerInfo { name: text("name"), version: text("version"), extra: Default::default() };
    members.insert("server".to_owned(), json!(server));
    let result = decode_body(&Value::Object(members).to_string()).map_err(|_| reason.clone())?;
    tracing::debug!(field = "server", reason, "unreadable optional field left out");
    let is_named = !server.name.is_empty() || !server.version.is_empty();
    Ok((result, is_named.then_some(server)))
}

impl Dialect for Wire {
    fn implicit_handshake(&mut self) -> Option<Handshake> {
        let none = self.pinned && self.version == WireVersion::V1_0;
        none.then(|| self.welcome_without_handshake())
    }

    fn missing(&self, call: &Call) -> Option<Error> {
        (!self.capabilities.has(call)).then(|| self.unsupported(call.name()))
    }

    fn call(&mut self, id: &str, call: &Call) -> Result<Vec<u8>> {
        if let Some(error) = self.missing(call) {
            return Err(error);
        }
        Ok(match call {
            Call::Initialize(hello) => {
                let mut params = json!({
                    "protocol_version": self.version.to_string(),
                    "client": {"name": hello.client_name, "version": hello.client_version},
                    // The agent enters and leaves plan mode through questions, so only clients that answer questions
                    // get it.
                    "capabilities": {
                        "supports_question": hello.supports_question,
                        "supports_plan_mode": hello.supports_question,
                    },
                });
                if !hello.tools.is_empty() {
                    params["external_tools"] = json!(hello.tools);
                }
                if !hello.hooks.is_empty() {
                    params["hooks"] = json!(hello.hooks);
                }
                jsonrpc::request(id, "initialize", &params)
            }
            Call::Prompt(input) => jsonrpc::request(id, "prompt", &json!({"user_input": self.texts(input)?})),
            // Agents of 1.0 accept no parameters here, not even an empty object.
            Call::Cancel if self.version == WireVersion::V1_0 => jsonrpc::bare_request(id, "cancel"),
            Call::Cancel => jsonrpc::request(id, "cancel", &json!({})),
            Call::Steer(input) => jsonrpc::request(id, "steer", &json!({"user_input": self.texts(input)?})),
            Call::SetPlanMode(on) => jsonrpc::request(id, "set_plan_mode", &json!({"enabled": on})),
            Call::Replay => jsonrpc::request(id, "replay", &json!({})),
            Call::SetConfigOption { .. } | Call::Undo(_) | Call::CancelSubagent(_) => {
                return Err(self.unsupported(call.name()));
            }
        })
    }

    fn is_text_stateless(&self) -> bool {
        true
    }

    fn read(&mut self, message: Message<'_>) -> Incoming {
        read_with(message, |kind, payload| {
            let mut event = Event::decode(kind, payload);
            read_other_forms(&mut event);
            event
        })
    }

    fn answer(&mut self, rpc_id: &str, request_id: &str, answer: &Answer) -> Vec<u8> {
        #[derive(serde::Serialize)]
        struct Approved<'a> {
            request_id: &'a str,
            response: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            feedback: Option<&'a str>,
        }
        let result = match answer {
            Answer::Approval(approval) => {
                let (response, feedback) = match approval {
                    Approval::Approve => ("approve", None),
                    Approval::ApproveForSession => ("approve_for_session", None),
                    Approval::Reject { feedback } => ("reject", feedback.as_deref()),
                };
                let feedback = feedback.filter(|_| self.capabilities.approval_feedback);
                return jsonrpc::answer(rpc_id, &Approved { request_id, response, feedback });
            }
            Answer::Question(answers) => {
                json!({"request_id": request_id, "answers": answers.clone().unwrap_or_default()})
            }
            Answer::Tool(value) => {
                // Serialized without a `Value`, because the result of a tool can be large.
                #[derive(serde::Serialize)]
                struct Returned<'a> {
                    tool_call_id: &'a str,
                    return_value: &'a ToolReturnValue,
                }
                return jsonrpc::answer(rpc_id, &Returned { tool_call_id: request_id, return_value: value });
            }
            Answer::Hook(decision) => {
                let (action, reason) = match decision {
                    HookDecision::Allow => ("allow", ""),
                    HookDecision::Block(reason) => ("block", reason.as_str()),
                };
                json!({"request_id": request_id, "action": action, "reason": reason})
            }
            // Wire has no such requests.
            Answer::ReadFile(_) | Answer::WriteFile | Answer::Terminal(_) => json!({}),
        };
        jsonrpc::answer(rpc_id, &result)
    }

    fn refuse(&mut self, rpc_id: &str, code: i64, message: &str) -> Vec<u8> {
        jsonrpc::refusal(rpc_id, &RpcFailure { code, message: message.to_owned(), data: None })
    }

    fn finish_handshake(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Handshake> {
        match outcome {
            Ok(result) => {
                let (result, server) = read_welcome(result.get()).map_err(|reason| {
                    // The name of the version in ACP.
                    let acp = result.get().contains("\"protocolVersion\"");
                    let hint = if acp {
                        "it speaks the Agent Client Protocol: set `dialect` to \"acp\""
                    } else {
                        "check that `executable` names an agent that speaks Wire, or set `dialect`"
                    };
                    Error::Handshake(format!("the agent's answer to `initialize` can't be read: {reason}; {hint}"))
                })?;
                let version = result.protocol_version.parse().map_err(|error| {
                    Error::Handshake(format!(
                        "the agent's answer to `initialize` names no version: {error}; check that `executable` names an agent \
                         that speaks Wire, or set `dialect`"
                    ))
                })?;
                self.announced = Some(version);
                if !self.pinned {
                    self.version = version;
                }
                self.server = server.clone();
                self.find_capabilities(result.capabilities.as_ref());
                let hooks = result.hooks.filter(|_| self.has_word(8)).map(|hooks| hooks.supported_events);
                let hooks = hooks.unwrap_or_default();
                let policy = PolicyReach::of_hooks(&hooks);
                Ok(Handshake {
                    protocol_version: if self.pinned { self.version.to_string() } else { result.protocol_version },
                    server,
                    slash_commands: result.slash_commands,
                    external_tools: result.external_tools.unwrap_or_default(),
                    capabilities: Capabilities { hooks, policy, ..self.capabilities.clone() },
                    ..Handshake::default()
                })
            }
            Err(failure) if failure.code == METHOD_NOT_FOUND => Ok(self.welcome_without_handshake()),
            Err(failure) => {
                let hint = "if it speaks the Agent Client Protocol, set `dialect` to \"acp\"; otherwise try an older \
                            version of Wire in `dialect`, or another release of the agent";
                Err(Error::Handshake(format!("the agent refuses `initialize`; {hint}\nit says: {failure}")))
            }
        }
    }

    fn map_error_code(&self, call: &Call, code: i64) -> RpcErrorKind {
        match (code, call) {
            (-32000, Call::Prompt(_) | Call::Initialize(_)) => RpcErrorKind::TurnInProgress,
            (-32000, Call::Cancel | Call::Steer(_)) => RpcErrorKind::NoActiveTurn,
            (-32000, Call::Replay) => RpcErrorKind::TurnInProgress,
            (-32001, _) => RpcErrorKind::LlmNotSet,
            (-32002, _) => RpcErrorKind::LlmNotSupported,
            (-32003, _) => RpcErrorKind::LlmServiceError,
            (-32004, _) => RpcErrorKind::AuthExpired,
            _ => RpcErrorKind::Other,
        }
    }

    fn refused(&self, call: &Call, failure: RpcFailure) -> Error {
        match call {
            // The version has the call, but the agent does not: the program may have set a version newer than the
            // agent's.
            Call::Steer(_) | Call::SetPlanMode(_) | Call::Replay if failure.code == METHOD_NOT_FOUND => {
                let version = self.announced.unwrap_or(self.version).to_string();
                super::unsupported(self.server.as_ref(), &version, call.name())
            }
            _ => self.failed(call, failure),
        }
    }
}
