//! A session.

use kimi_agent::bridge::{BridgeSession, Callbacks, Mode, Naming, next_id, parse_content, parse_options};
use kimi_agent::wire::{Content, Event};
use napi_derive::napi;
use serde_json::{Map, Value, json};

use crate::bell::Bridge;
use crate::turn::{NativeTurn, request_origin};
use crate::{parse, parse_object, runtime, thrown};

/// What a prompt or a steer may be: text, or content parts.
pub(crate) fn content(text: &str) -> napi::Result<Content> {
    parse_content(parse("content", text)?).map_err(|error| thrown(&error))
}

/// Tells the functions from what goes into the core's options with them.
pub(crate) fn callbacks(text: &str, options: &mut Map<String, Value>) -> napi::Result<Callbacks> {
    let mut given = parse_object("callbacks", text)?;
    for name in ["tools", "hooks"] {
        if let Some(list) = given.remove(name) {
            options.insert(name.to_owned(), list);
        }
    }
    let mode = |name: &str| match given.get(name) {
        Some(Value::String(word)) if word == "manual" => Mode::Manual,
        Some(Value::String(word)) if word == "handler" => Mode::Handler,
        _ => Mode::Unset,
    };
    let set = |name: &str| given.get(name) == Some(&Value::Bool(true));
    Ok(Callbacks {
        on_approval: mode("on_approval"),
        on_question: mode("on_question"),
        on_event: set("on_event"),
        on_stderr: set("on_stderr"),
    })
}

/// A session on its way, and the ticket that ends when it is open.
#[napi(object, object_from_js = false)]
pub struct Opening {
    /// The session.
    pub session: NativeSession,
    /// Its ticket.
    pub ticket: f64,
}

impl Opening {
    pub(crate) fn new(session: BridgeSession, ticket: u64) -> Self {
        Self { session: NativeSession { session }, ticket: ticket as f64 }
    }
}

/// A turn in a session of its own.
#[napi(object, object_from_js = false)]
pub struct OneShot {
    /// The turn.
    pub turn: NativeTurn,
    /// By this the session's jobs name it.
    pub session_key: f64,
}

/// A session. Collected, it closes in the background.
#[napi]
pub struct NativeSession {
    session: BridgeSession,
}

#[napi]
impl NativeSession {
    /// Opens a session.
    #[napi]
    pub fn open(bridge: &Bridge, options_json: String, callbacks_json: String) -> napi::Result<Opening> {
        let mut options = parse_options(&options_json).map_err(|error| thrown(&error))?;
        let callbacks = callbacks(&callbacks_json, &mut options)?;
        let mailbox = bridge.mailbox.clone();
        let opened = BridgeSession::open(next_id(), mailbox, runtime()?, options, Naming::Camel, callbacks);
        let (session, ticket) = opened.map_err(|error| thrown(&error))?;
        Ok(Opening::new(session, ticket))
    }

    /// A turn in a session of its own.
    #[napi]
    pub fn one_shot(
        bridge: &Bridge,
        content_json: String,
        prompt_json: String,
        options_json: String,
        callbacks_json: String,
    ) -> napi::Result<OneShot> {
        let content = self::content(&content_json)?;
        let prompt_options = parse_options(&prompt_json).map_err(|error| thrown(&error))?;
        let mut options = parse_options(&options_json).map_err(|error| thrown(&error))?;
        let callbacks = callbacks(&callbacks_json, &mut options)?;
        let key = next_id();
        let mailbox = bridge.mailbox.clone();
        let turn = BridgeSession::one_shot(
            key,
            mailbox,
            runtime()?,
            (content, prompt_options),
            options,
            Naming::Camel,
            callbacks,
        )
        .map_err(|error| thrown(&error))?;
        Ok(OneShot { turn: NativeTurn::new(turn), session_key: key as f64 })
    }

    /// By this its jobs name it.
    #[napi(getter)]
    pub fn key(&self) -> f64 {
        self.session.key as f64
    }

    /// Its id.
    #[napi(getter)]
    pub fn id(&self) -> String {
        self.session.id().to_owned()
    }

    /// Its working directory.
    #[napi(getter)]
    pub fn work_dir(&self) -> String {
        self.session.work_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// `idle`, `active` or `closed`.
    #[napi(getter)]
    pub fn state(&self) -> &'static str {
        self.session.state()
    }

    /// The version of the protocol that the agent speaks.
    #[napi(getter)]
    pub fn protocol_version(&self) -> String {
        self.session.protocol_version().unwrap_or_default().to_owned()
    }

    /// The agent's process id.
    #[napi(getter)]
    pub fn pid(&self) -> Option<u32> {
        self.session.pid()
    }

    /// What the agent said when the session opened.
    #[napi]
    pub fn info(&self) -> String {
        json!({
            "server": self.session.server(),
            "capabilities": self.session.capabilities(),
            "external_tools": self.session.external_tools(),
        })
        .to_string()
    }

    /// The commands that a prompt may begin with, as they were told last.
    #[napi]
    pub fn slash_commands(&self) -> String {
        json!(self.session.slash_commands()).to_string()
    }

    /// All tokens so far.
    #[napi]
    pub fn usage(&self) -> String {
        json!(self.session.usage()).to_string()
    }

    /// The payload of a `StatusUpdate`, all updates put together.
    #[napi]
    pub fn status(&self) -> String {
        match self.session.status() {
            Event::StatusUpdate(status) => json!(status).to_string(),
            other => json!(other).to_string(),
        }
    }

    /// Begins a turn, with options of its own.
    #[napi]
    pub fn prompt(&self, content_json: String, options_json: String) -> napi::Result<NativeTurn> {
        let options = parse_options(&options_json).map_err(|error| thrown(&error))?;
        let turn = self.session.prompt(content(&content_json)?, options);
        turn.map(NativeTurn::new).map_err(|error| thrown(&error))
    }

    /// The past.
    #[napi]
    pub fn replay(&self) -> napi::Result<NativeTurn> {
        self.session.replay().map(NativeTurn::new).map_err(|error| thrown(&error))
    }

    /// Switches plan mode.
    #[napi]
    pub fn set_plan_mode(&self, on_json: String) -> napi::Result<f64> {
        self.session.set_plan_mode(&parse("on", &on_json)?).map(|ticket| ticket as f64).map_err(|error| thrown(&error))
    }

    /// Answers a request by hand.
    #[napi]
    pub fn respond(&self, request_id: String, origin: Option<Vec<f64>>, answer_json: String) -> napi::Result<f64> {
        let ticket = self.session.respond(request_id, request_origin(origin), parse("answer", &answer_json)?);
        ticket.map(|ticket| ticket as f64).map_err(|error| thrown(&error))
    }

    /// Cancels the turn that runs.
    #[napi]
    pub fn cancel(&self) -> f64 {
        self.session.cancel() as f64
    }

    /// Closes it, with a timeout of its own.
    #[napi]
    pub fn close(&self, timeout_json: String) -> napi::Result<f64> {
        let ticket = self.session.close(&parse("timeout", &timeout_json)?);
        ticket.map(|ticket| ticket as f64).map_err(|error| thrown(&error))
    }

    /// Closes it in the background.
    #[napi]
    pub fn abandon(&self) {
        self.session.abandon();
    }
}
