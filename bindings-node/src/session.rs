//! A session.

use kimi_agent::wire::Event;
use kimi_agent_bridge::{BridgeSession, Mode, Naming, next_id, parse_options};
use napi::Env;
use napi_derive::napi;
use serde_json::{Map, Value};

use crate::bridge::Bridge;
use crate::delivery::{RequestOrigin, to_json};
use crate::error::OrThrow;
use crate::turn::NativeTurn;
use crate::{content, parse, runtime};

/// Which handlers the program has. Tools and hooks are in the options, without their handlers.
#[napi(object, object_to_js = false)]
pub struct Callbacks {
    /// `onApproval` is a function.
    pub on_approval: bool,
    /// `onQuestion` is a function.
    pub on_question: bool,
    /// `onEvent` is set.
    pub on_event: bool,
    /// `onStderr` is set.
    pub on_stderr: bool,
    /// `onReadFile` is set.
    pub on_read_file: bool,
    /// `onWriteFile` is set.
    pub on_write_file: bool,
    /// `onTerminal` is set.
    pub on_terminal: bool,
}

impl From<Callbacks> for kimi_agent_bridge::Callbacks {
    fn from(given: Callbacks) -> Self {
        let mode = |is_function| if is_function { Mode::Handler } else { Mode::Unset };
        Self {
            on_approval: mode(given.on_approval),
            on_question: mode(given.on_question),
            on_event: given.on_event,
            on_stderr: given.on_stderr,
            on_read_file: given.on_read_file,
            on_write_file: given.on_write_file,
            on_terminal: given.on_terminal,
        }
    }
}

pub(crate) fn options(env: &Env, json: &str) -> napi::Result<Map<String, Value>> {
    parse_options(json).or_throw(env)
}

/// A session that opens, and the ticket that ends when it is open.
#[napi(object, object_from_js = false)]
pub struct Opening {
    /// The session.
    pub session: NativeSession,
    /// The ticket.
    pub ticket: f64,
}

impl From<(BridgeSession, u64)> for Opening {
    fn from((session, ticket): (BridgeSession, u64)) -> Self {
        Self { session: NativeSession { session }, ticket: ticket as f64 }
    }
}

/// A turn in a session of its own.
#[napi(object, object_from_js = false)]
pub struct OneShot {
    /// The turn.
    pub turn: NativeTurn,
    /// Jobs of the session name it by this number.
    pub session_key: f64,
}

/// The capabilities of an agent.
#[napi(object, object_from_js = false)]
pub struct NativeCapabilities {
    /// The program can offer tools.
    pub external_tools: bool,
    /// The agent can ask questions.
    pub questions: bool,
    /// The model sees the feedback of a rejection.
    pub approval_feedback: bool,
    /// A running turn can be steered.
    pub steer: bool,
    /// Plan mode can be switched.
    pub plan_mode: bool,
    /// The session has options that can be set while it is open.
    pub config_options: bool,
    /// A session's past can be replayed.
    pub replay: bool,
    /// The last turns of a session can be undone.
    pub undo: bool,
    /// A session can begin with the past of another.
    pub fork: bool,
    /// The events that hooks can be set on.
    pub hooks: Vec<String>,
    /// The program can offer to read and write files.
    pub files: bool,
    /// The program can offer to run commands.
    pub terminals: bool,
    /// The tool calls that a policy sees.
    #[napi(ts_type = "'approvals' | 'tool_calls'")]
    pub policy: String,
}

/// A session. If it is garbage collected, it is closed in the background.
#[napi]
pub struct NativeSession {
    session: BridgeSession,
}

#[napi]
impl NativeSession {
    /// Opens a session with an agent of its own.
    #[napi(catch_unwind)]
    pub fn open(env: &Env, bridge: &Bridge, options_json: String, callbacks: Callbacks) -> napi::Result<Opening> {
        let options = options(env, &options_json)?;
        let mailbox = bridge.mailbox.clone();
        BridgeSession::open(next_id(), mailbox, runtime(env)?, options, Naming::Camel, callbacks.into())
            .map(Opening::from)
            .or_throw(env)
    }

    /// Opens a session for one prompt. It is closed when the turn has ended.
    #[napi(catch_unwind)]
    pub fn one_shot(
        env: &Env,
        bridge: &Bridge,
        content_json: String,
        prompt_options_json: String,
        options_json: String,
        callbacks: Callbacks,
    ) -> napi::Result<OneShot> {
        let prompt = (content(env, &content_json)?, options(env, &prompt_options_json)?);
        let options = options(env, &options_json)?;
        let key = next_id();
        let mailbox = bridge.mailbox.clone();
        BridgeSession::one_shot(key, mailbox, runtime(env)?, prompt, options, Naming::Camel, callbacks.into())
            .map(|turn| OneShot { turn: NativeTurn::new(turn), session_key: key as f64 })
            .or_throw(env)
    }

    /// The operation that starts the span of a turn with a session of its own, as JSON.
    #[napi(catch_unwind)]
    pub fn begin_one_shot(
        env: &Env,
        content_json: String,
        prompt_options_json: String,
        options_json: String,
    ) -> napi::Result<Option<String>> {
        let (given, options) = (options(env, &prompt_options_json)?, options(env, &options_json)?);
        BridgeSession::begin_one_shot(&content(env, &content_json)?, &given, &options, Naming::Camel).or_throw(env)
    }

    /// Jobs name the session by this number.
    #[napi(catch_unwind, getter)]
    pub fn key(&self) -> f64 {
        self.session.key as f64
    }

    /// The session's id.
    #[napi(catch_unwind, getter)]
    pub fn id(&self) -> String {
        self.session.id().to_owned()
    }

    /// The working directory.
    #[napi(catch_unwind, getter)]
    pub fn work_dir(&self) -> String {
        self.session.work_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Whether a turn is running, or none can be any more.
    #[napi(catch_unwind, getter, ts_return_type = "'idle' | 'active' | 'closed'")]
    pub fn state(&self) -> &'static str {
        self.session.state()
    }

    /// The version of the protocol.
    #[napi(catch_unwind, getter)]
    pub fn protocol_version(&self) -> String {
        self.session.protocol_version().unwrap_or_default().to_owned()
    }

    /// The agent's process id.
    #[napi(catch_unwind, getter)]
    pub fn pid(&self) -> Option<u32> {
        self.session.pid()
    }

    /// The agent's name and version as JSON; `null` if unknown.
    #[napi(catch_unwind)]
    pub fn server_json(&self) -> String {
        to_json(&self.session.server())
    }

    /// The agent's capabilities.
    #[napi(catch_unwind)]
    pub fn capabilities(&self) -> Option<NativeCapabilities> {
        self.session.capabilities().map(|known| NativeCapabilities {
            external_tools: known.external_tools,
            questions: known.questions,
            approval_feedback: known.approval_feedback,
            files: known.files,
            terminals: known.terminals,
            policy: known.policy.as_str().to_owned(),
            steer: known.steer,
            plan_mode: known.plan_mode,
            config_options: known.config_options,
            replay: known.replay,
            undo: known.undo,
            fork: known.fork,
            hooks: known.hooks.clone(),
        })
    }

    /// Which tools the agent accepted, as JSON.
    #[napi(catch_unwind)]
    pub fn external_tools_json(&self) -> String {
        to_json(&self.session.external_tools())
    }

    /// The commands that a prompt may begin with, as JSON.
    #[napi(catch_unwind)]
    pub fn slash_commands_json(&self) -> String {
        to_json(&self.session.slash_commands())
    }

    /// The options that can be set, as JSON.
    #[napi(catch_unwind)]
    pub fn config_options_json(&self) -> String {
        to_json(&self.session.config_options())
    }

    /// The tokens so far as JSON.
    #[napi(catch_unwind)]
    pub fn usage_json(&self) -> String {
        to_json(&self.session.usage())
    }

    /// The payload of a `StatusUpdate` as JSON, all updates put together.
    #[napi(catch_unwind)]
    pub fn status_json(&self) -> String {
        match self.session.status() {
            Event::StatusUpdate(status) => to_json(&status),
            other => to_json(&other),
        }
    }

    /// The operation that starts the span of the next turn, as JSON. Null without the option `telemetry`.
    #[napi(catch_unwind)]
    pub fn begin_turn(&self, env: &Env, content_json: String, options_json: String) -> napi::Result<Option<String>> {
        let options = options(env, &options_json)?;
        Ok(self.session.begin_turn(&content(env, &content_json)?, &options))
    }

    /// Begins a turn with options of its own.
    #[napi(catch_unwind)]
    pub fn prompt(&self, env: &Env, content_json: String, options_json: String) -> napi::Result<NativeTurn> {
        let options = options(env, &options_json)?;
        self.session.prompt(content(env, &content_json)?, options).map(NativeTurn::new).or_throw(env)
    }

    /// Begins a replay of the session's messages.
    #[napi(catch_unwind)]
    pub fn replay(&self, env: &Env) -> napi::Result<NativeTurn> {
        self.session.replay().map(NativeTurn::new).or_throw(env)
    }

    /// A ticket for switching plan mode.
    #[napi(catch_unwind)]
    pub fn set_plan_mode(&self, env: &Env, on_json: String) -> napi::Result<f64> {
        self.session.set_plan_mode(&parse(env, "on", &on_json)?).map(|ticket| ticket as f64).or_throw(env)
    }

    /// A ticket for setting an option.
    #[napi(catch_unwind)]
    pub fn set_config_option(&self, env: &Env, id: String, value_json: String) -> napi::Result<f64> {
        let value = parse(env, "value", &value_json)?;
        self.session.set_config_option(id, &value).map(|ticket| ticket as f64).or_throw(env)
    }

    /// A ticket for taking back the last turns.
    #[napi(catch_unwind)]
    pub fn undo(&self, env: &Env, count_json: String) -> napi::Result<f64> {
        self.session.undo(&parse(env, "count", &count_json)?).map(|ticket| ticket as f64).or_throw(env)
    }

    /// A ticket for a manual answer to a request; without `origin`, only its id says which one.
    #[napi(catch_unwind)]
    pub fn respond(
        &self,
        env: &Env,
        request_id: String,
        origin: Option<RequestOrigin>,
        answer_json: String,
    ) -> napi::Result<f64> {
        let answer = parse(env, "answer", &answer_json)?;
        self.session.respond(request_id, origin.map(Into::into), answer).map(|ticket| ticket as f64).or_throw(env)
    }

    /// A ticket for the end of the running turn, which is cancelled.
    #[napi(catch_unwind)]
    pub fn cancel(&self) -> f64 {
        self.session.cancel() as f64
    }

    /// A ticket for the end of the agent. `null` stands for the option `closeTimeout`.
    #[napi(catch_unwind)]
    pub fn close(&self, env: &Env, timeout_json: String) -> napi::Result<f64> {
        self.session.close(&parse(env, "timeout", &timeout_json)?).map(|ticket| ticket as f64).or_throw(env)
    }

    /// A ticket for the end of the session. It fails with the error that closed the session.
    #[napi(catch_unwind)]
    pub fn wait_closed(&self) -> f64 {
        self.session.wait_closed() as f64
    }

    /// Closes the session in the background.
    #[napi(catch_unwind)]
    pub fn abandon(&self) {
        self.session.abandon();
    }
}
