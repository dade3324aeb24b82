//! How a session opens: the handshake, then the session, then its settings.

use std::collections::VecDeque;
use std::sync::Arc;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1 as acp;
use serde_json::{Value, json};

use super::config::Config;
use super::login::PreparedLogin;
use super::{Acp, SessionParams, SystemPrompt, config, failure, services, steering};
use crate::dialect::{
    Capabilities, ConfigValue, Handshake, InitializeParams, PolicyReach, agent_name, is_kimi_code, known,
};
use crate::error::invalid_option;
use crate::error::{Error, Result, RpcError, RpcErrorKind};
use crate::json::whole_number;
use crate::jsonrpc::RpcFailure;
use crate::messages::{Json, ServerInfo, decode_body};
use crate::telemetry::cut_at;

/// The name of the protocol for `protocol_version`.
pub(super) const NAME: &str = "acp-1";
pub(super) const UNAUTHORISED: i64 = -32000;
const INVALID_PARAMS: i64 = -32602;
/// How many ways to log in an error names, and how much of each name, in bytes.
const MAX_SHOWN: usize = 20;
const MAX_NAME: usize = 200;

/// The method of the requests after the answer to `session/load`. No agent has it, so the agent refuses it, and the
/// refusal marks a point in the stream.
const END_OF_PAST: &str = "_kimi-agent/end_of_past";

/// Settings to set: the name of the program's option, the id of the agent's option, and the value.
type Settings = VecDeque<(&'static str, String, ConfigValue)>;

/// What an agent offers, as far as the SDK uses it.
#[derive(Debug, Default)]
pub(super) struct Offers {
    pub(super) prompt: acp::PromptCapabilities,
    http: bool,
    sse: bool,
    load: bool,
    resume: bool,
    fork: bool,
    directories: bool,
    system_prompt: bool,
    override_prompt: bool,
    pub(super) steering: bool,
}

impl Offers {
    fn read(agent: acp::AgentCapabilities, meta: Option<&acp::Meta>) -> Self {
        let session = &agent.session_capabilities;
        let system_prompt = session.system_prompt.as_ref();
        Self {
            http: agent.mcp_capabilities.http,
            sse: agent.mcp_capabilities.sse,
            load: agent.load_session,
            resume: session.resume.is_some(),
            fork: session.fork.is_some(),
            directories: session.additional_directories.is_some(),
            system_prompt: system_prompt.is_some(),
            override_prompt: system_prompt
                .is_some_and(|offered| offered.mode.as_ref().is_some_and(|modes| modes.override_.is_some())),
            steering: steering::is_offered(meta),
            prompt: agent.prompt_capabilities.meta(None),
        }
    }
}

/// The state of the opening.
#[derive(Debug)]
pub(super) enum Stage {
    /// `initialize` is pending.
    Greeting,
    /// The call that opens the session is pending.
    Session,
    /// The agent has asked for a login, and `authenticate` is pending.
    Login(Box<PreparedLogin>),
    /// The agent still sends the past of the loaded session. These settings are set afterwards.
    Past { received: bool, count: u64, settings: Settings },
    /// The setting with this option's name is pending; these settings follow.
    Setting(&'static str, Settings),
    /// The opening has failed for this reason.
    Failed(Error),
}

pub(super) fn initialize_request(params: &InitializeParams) -> acp::InitializeRequest {
    let client = acp::Implementation::new(&*params.client_name, &*params.client_version);
    // One handshake serves all sessions of a process, so this does not depend on the handlers of one session.
    let form = acp::ElicitationCapabilities::new().form(acp::ElicitationFormCapabilities::new());
    let session = acp::ClientSessionCapabilities::new()
        .notices(acp::NoticeCapabilities::new())
        .compaction(acp::CompactionCapabilities::new());
    let capabilities =
        services::offered(params.services, acp::ClientCapabilities::new().elicitation(form).session(session))
            .subagents(acp::SubagentCapabilities::new())
            .plan(acp::PlanCapabilities::new())
            // `kimi-agent login` runs these ways; a session lists them in its error.
            .auth(acp::AuthCapabilities::new().terminal(true));
    acp::InitializeRequest::new(ProtocolVersion::V1).client_info(client).client_capabilities(capabilities)
}

impl Acp {
    /// Reads an answer. Returns the next call of the opening; `None` if the opening is complete.
    pub(super) fn next_of_opening(
        &mut self,
        id: &str,
        outcome: &std::result::Result<Json, RpcFailure>,
    ) -> Option<Vec<u8>> {
        let next = match (&self.stage, outcome) {
            (Stage::Greeting, Ok(answer)) => {
                self.greeted(answer).map(|(method, params)| Some(self.request(id, method, &params)))
            }
            (Stage::Session, Ok(answer)) => self.has_session(answer).map(|()| self.next_after_session(id)),
            (Stage::Session, Err(failure)) if self.login.is_some() && failure::is_login_missing(failure) => {
                Ok(self.log_in(id))
            }
            (Stage::Login(_), Ok(_)) => Ok(self.open_again(id)),
            (Stage::Past { .. }, _) => Ok(self.next_after_past(id)),
            (Stage::Setting(..), Ok(_)) => Ok(self.next_setting(id)),
            (_, Err(failure)) => Err(self.refused(failure)),
            (Stage::Failed(_), _) => return None,
        };
        next.unwrap_or_else(|error| {
            self.stage = Stage::Failed(error);
            None
        })
    }

    /// Handles the answer to `initialize`, and requests a session.
    fn greeted(&mut self, body: &Json) -> Result<(&'static str, Value)> {
        let answer = greeting(body).map_err(|reason| {
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
        self.note_left_out(body.get(), &answer);
        self.server = server(body);
        self.offers = Offers::read(answer.agent_capabilities, answer.meta.as_ref());
        let way = self.read_login_ways(body)?;
        let SessionParams { work_dir, session_id, fork_of, mcp_servers, .. } = &self.params;
        let http = self.offers.http;
        if !http && mcp_servers.iter().any(|server| matches!(server, acp::McpServer::Http(_))) {
            return Err(self.unsupported("MCP servers over HTTP"));
        }
        if !self.offers.sse && mcp_servers.iter().any(|server| matches!(server, acp::McpServer::Sse(_))) {
            return Err(self.unsupported("MCP servers over SSE"));
        }
        let has_commands = mcp_servers.iter().any(|server| matches!(server, acp::McpServer::Stdio(_)));
        if has_commands && known::ignores_mcp_commands(self.server.as_ref()) {
            return Err(self.unsupported("MCP servers that a command starts; configure the server in the agent"));
        }
        if has_commands && known::refuses_mcp_commands(self.server.as_ref()) {
            return Err(self.unsupported(
                "MCP servers that a command starts; install a release before 0.37 or after 0.38, or use a server over HTTP",
            ));
        }
        // Without this the program gets an error that its tools are not supported.
        let program = self.program.as_ref().filter(|_| http).map(|program| program.server());
        let servers: Vec<_> = mcp_servers.iter().chain(&program).collect();
        let mut params = json!({"cwd": work_dir, "mcpServers": servers});
        self.add_wishes(&mut params)?;
        let method = match (fork_of, session_id) {
            (Some(id), _) => {
                if !self.offers.fork {
                    return Err(self.unsupported("fork"));
                }
                params["sessionId"] = json!(id);
                "session/fork"
            }
            (None, None) => "session/new",
            (None, Some(id)) => {
                params["sessionId"] = json!(id);
                match (self.offers.resume, self.offers.load) {
                    (true, _) => "session/resume",
                    (false, true) => "session/load",
                    (false, false) => {
                        return Err(self.unsupported(
                            "`session_id`: it cannot resume sessions; leave the option out to open a new session",
                        ));
                    }
                }
            }
        };
        self.loads = method == "session/load";
        self.stage = Stage::Session;
        self.login = way.map(|way| Box::new(PreparedLogin { way, method, params: params.clone() }));
        Ok((method, params))
    }

    /// Adds what the program wants of the session beyond its directory and its servers.
    fn add_wishes(&self, params: &mut Value) -> Result<()> {
        let SessionParams { additional_directories, system_prompt, meta, .. } = &self.params;
        if !additional_directories.is_empty() {
            if !self.offers.directories {
                return Err(self.unsupported("`additional_directories`"));
            }
            params["additionalDirectories"] = json!(additional_directories);
        }
        if let Some(SystemPrompt { content, overrides }) = system_prompt {
            let offers = &self.offers;
            if !(if *overrides { offers.override_prompt } else { offers.system_prompt }) {
                let mode = if *overrides && offers.system_prompt { " with the mode \"override\"" } else { "" };
                return Err(self.unsupported(&format!("`system_prompt`{mode}; Claude Code does")));
            }
            let mode = if *overrides { "override" } else { "append" };
            params["systemPrompt"] = json!({"mode": mode, "content": [{"type": "text", "text": content}]});
        }
        if let Some(meta) = meta {
            params["_meta"] = json!(meta);
        }
        Ok(())
    }

    /// Handles the answer with the session, and sets the program's settings.
    fn has_session(&mut self, answer: &Json) -> Result<()> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Opened {
            session_id: Option<acp::SessionId>,
            modes: Option<Value>,
            models: Option<Value>,
        }
        let unreadable =
            |reason: String| Error::Handshake(format!("the agent's answer about the session can't be read: {reason}"));
        let opened: Opened = decode_body(answer.get()).map_err(unreadable)?;
        let number = || Some(acp::SessionId::new(answer.to_value().get("sessionId")?.as_number()?.to_string()));
        let session =
            opened.session_id.or_else(number).or_else(|| self.params.session_id.as_deref().map(acp::SessionId::new));
        let session = session.ok_or_else(|| unreadable("it names none".to_owned()))?;
        let options = config::listed_in(answer.get()).unwrap_or_default();
        self.config = Config::new(&options, opened.modes.as_ref(), opened.models.as_ref());
        self.session = Some(session);
        self.login = None;

        let mut settings = Settings::new();
        if let Some(model) = &self.params.model {
            let Some(option) = self.config.model() else {
                return Err(self.unsupported("`model`; choose the model in the agent's own configuration"));
            };
            settings.push_back(("model", option.id.clone(), model.as_str().into()));
        }
        if let Some(thinking) = self.params.thinking {
            match self.config.thinking(thinking) {
                Some((option, value)) => settings.push_back(("thinking", option.id.clone(), value)),
                // The option has no such choice, so it already has the value, or cannot have it.
                None if thinking => return Err(self.unsupported("`thinking` with this model")),
                None => {}
            }
        }
        if !self.config.has_mode()
            && let Some(mode) = self.early_mode.take()
        {
            self.config.enter(&mode);
        }
        // An agent that has sent the past before its answer has sent all of it.
        self.stage = if self.loads && (!self.has_past || known::sends_past_late(self.server.as_ref())) {
            Stage::Past { received: false, count: 0, settings }
        } else {
            Stage::Setting("", settings)
        };
        Ok(())
    }

    fn next_after_session(&mut self, id: &str) -> Option<Vec<u8>> {
        match self.stage {
            Stage::Past { .. } => Some(self.request(id, END_OF_PAST, &json!({}))),
            _ => self.next_setting(id),
        }
    }

    /// Handles the answer to a request that was sent after the answer to `session/load`. The past has ended if no part
    /// of it came in between, because such an agent writes its messages one after the other.
    fn next_after_past(&mut self, id: &str) -> Option<Vec<u8>> {
        let Stage::Past { received, settings, .. } = &mut self.stage else { return None };
        if std::mem::take(received) {
            return Some(self.request(id, END_OF_PAST, &json!({})));
        }
        self.stage = Stage::Setting("", std::mem::take(settings));
        self.next_setting(id)
    }

    /// Returns whether an update is part of the past of a session that is being loaded.
    pub(super) fn is_past(&mut self) -> bool {
        match &mut self.stage {
            Stage::Session => {
                self.has_past |= self.params.session_id.is_some();
                self.params.session_id.is_some()
            }
            Stage::Past { received, count, .. } => {
                *received = true;
                *count += 1;
                true
            }
            _ => false,
        }
    }

    fn next_setting(&mut self, id: &str) -> Option<Vec<u8>> {
        let Stage::Setting(current, settings) = &mut self.stage else { return None };
        let (name, option, value) = settings.pop_front()?;
        *current = name;
        self.set_option(id, &option, &value).ok()
    }

    /// Returns the reason for the missing session.
    fn refused(&self, failure: &RpcFailure) -> Error {
        let failure = &failure::with_details(failure.clone());
        let RpcFailure { code, message, .. } = failure;
        let rpc = |kind, message| Error::Rpc(RpcError::of_answer(kind, RpcFailure { message, ..failure.clone() }));
        // Some agents know aliases that are not in their lists, so the agent decides. ACP does not define the code of
        // the refusal.
        if matches!(self.stage, Stage::Setting("model", _))
            && *code != UNAUTHORISED
            && let Some(problem) = self.params.model.as_deref().and_then(|model| self.config.unknown_model(model))
        {
            return invalid_option("model", format!("{problem}\nit says: {failure}"));
        }
        match (&self.stage, *code) {
            (Stage::Login(login), _) => self.login_refused(&login.way, failure),
            (_, UNAUTHORISED) if failure::is_login_missing(failure) => {
                let agent = agent_name(self.server.as_ref(), NAME);
                let message = message.trim_end_matches('.');
                let mut hint = self.login_of_another().unwrap_or_else(|| {
                    "log in (for Kimi Code: `kimi login`), or configure a model and its provider".to_owned()
                });
                if !self.auth_methods.is_empty() {
                    let shown = self.auth_methods.iter().take(MAX_SHOWN);
                    let names: Vec<_> = shown.map(|method| cut_at(&method.name, MAX_NAME)).collect();
                    hint += &format!("; it knows these ways to log in: {}", names.join(", "));
                    if let more @ 1.. = self.auth_methods.len() - names.len() {
                        hint += &format!(", and {more} more");
                    }
                }
                if let Some(advice) = &self.login_advice {
                    hint += &format!("; {advice}");
                }
                // Kimi Code reports a missing model in the same way.
                let is_kimi_code = is_kimi_code(self.server.as_ref());
                let kind = if is_kimi_code { RpcErrorKind::LlmNotSet } else { RpcErrorKind::AuthExpired };
                let mut error = rpc(kind, format!("{agent}: {message}"));
                if let Error::Rpc(error) = &mut error {
                    error.hint = Some(hint.into());
                }
                error
            }
            (Stage::Greeting, _) => Error::Handshake(format!(
                "the agent refuses `initialize`; check that `executable` names an agent that speaks the Agent \
                 Client Protocol, or set `dialect` to \"auto\" if it speaks Wire\nit says: {failure}"
            )),
            (Stage::Setting(option, _), INVALID_PARAMS) => invalid_option(*option, message.clone()),
            (Stage::Session, _) if self.params.session_id.is_some() => {
                let mut error = self.of_service(rpc(RpcErrorKind::Other, message.clone()));
                if let Error::Rpc(error) = &mut error
                    && error.kind == RpcErrorKind::Other
                {
                    error.hint = Some(
                        "an agent of ACP makes the ids of sessions itself: leave `session_id` out to open a new session, \
                         or pass the `id` of an earlier one"
                            .into(),
                    );
                }
                error
            }
            _ => self.of_service(rpc(RpcErrorKind::Other, message.clone())),
        }
    }

    /// Handles the end of the opening.
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
            external_tools: self.offers.http,
            // Asked by a form, or by a permission request with more choices than yes and no.
            questions: true,
            approval_feedback: false,
            steer: self.offers.steering,
            plan_mode: self.config.has_plan(),
            config_options: !self.config.options().is_empty(),
            replay: false,
            undo: false,
            fork: self.offers.fork,
            hooks: Vec::new(),
            policy: PolicyReach::Approvals,
            files: true,
            terminals: true,
        };
        Ok(Handshake {
            protocol_version: NAME.to_owned(),
            server: self.server.clone(),
            capabilities: self.capabilities.clone(),
            session_id: Some(session.0.to_string()),
            auth_methods: Some(Arc::clone(&self.auth_methods)).filter(|methods| !methods.is_empty()),
            config_options: Arc::clone(self.config.options()),
            ..Handshake::default()
        })
    }
}

/// Returns the agent's name and version.
pub(super) fn server(greeting: &Json) -> Option<ServerInfo> {
    let greeting = greeting.to_value();
    let agent = greeting.get("agentInfo")?;
    let text = |name: &str| agent.get(name).and_then(Value::as_str).map(str::to_owned);
    let name = text("title").or_else(|| text("name"))?;
    let number = || Some(agent.get("version")?.as_number()?.to_string());
    Some(ServerInfo { name, version: text("version").or_else(number).unwrap_or_default(), extra: Default::default() })
}

/// Reads the answer to `initialize`.
///
/// # Errors
/// Returns the problem if it has no version that can be read.
pub(super) fn greeting(body: &Json) -> std::result::Result<acp::InitializeResponse, String> {
    let mut read = body.to_value();
    // The types of the protocol read a text as version 0.
    if let Some(version) = read["protocolVersion"].as_str().and_then(|text| text.trim().parse::<u16>().ok()) {
        read["protocolVersion"] = version.into();
        return decode_body(&read.to_string());
    }
    decode_body(body.get()).or_else(|problem| {
        // Some libraries write all numbers as floating-point ones.
        let version = read.get("protocolVersion").filter(|version| version.is_f64()).and_then(whole_number);
        read["protocolVersion"] = version.ok_or(problem)?.into();
        decode_body(&read.to_string())
    })
}
