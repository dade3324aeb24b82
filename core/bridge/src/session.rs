//! A session, for the bindings.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::mailbox::{JobKind, Mailbox, Payload, Reply};
use super::{BridgeTurn, Naming, RequestOrigin, log, output, parse_hook, parse_tool, telemetry};
use crate::answers::{parse_answers, parse_approval, parse_file, parse_hook_decision, parse_terminal_result};
use crate::connection::{ManualAnswer, RequestRef};
use crate::dialect::{ConfigOption, ConfigValue};
use crate::error::invalid_option;
use crate::error::{Error, Result};
use crate::messages::{Content, Event, ExternalToolsResult, ServerInfo, SlashCommand, TokenUsage};
use crate::{Agent, Capabilities, Session};
use kimi_agent_client::SessionOptions;
use kimi_agent_client::host::{self, close_timeout, kind_of, one_shot_on, prompt_options, session_options, too_deep};
use kimi_agent_client::{ExternalTool, Hook, IntoToolReturn};

/// The source of the answers to requests of one kind, as the host sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The default answer.
    #[default]
    Unset,
    /// A handler of the host.
    Handler,
    /// The reader of the events answers with `respond()`.
    Manual,
}

/// The handlers that the program has set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Callbacks {
    /// `on_approval`.
    pub on_approval: Mode,
    /// `on_question`.
    pub on_question: Mode,
    /// `on_event`.
    pub on_event: bool,
    /// `on_stderr`.
    pub on_stderr: bool,
    /// `on_read_file`.
    pub on_read_file: bool,
    /// `on_write_file`.
    pub on_write_file: bool,
    /// `on_terminal`.
    pub on_terminal: bool,
}

/// How a session of an agent begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// A new session.
    New,
    /// It continues this session.
    Resume(String),
    /// It is a fork of this session.
    Fork(String),
}

/// The agent of the session.
pub(super) enum Origin {
    /// The session has an agent of its own.
    Alone,
    Agent(Arc<Agent>, Start),
}

/// A session that is being opened, open, or closed.
#[derive(Debug)]
pub struct BridgeSession {
    /// The key of the session in its jobs.
    pub key: u64,
    id: String,
    slot: Arc<OnceLock<Arc<Session>>>,
    /// Ends an opening that is not complete.
    closing: Arc<tokio::sync::watch::Sender<bool>>,
    mailbox: Arc<Mailbox>,
    runtime: Handle,
    naming: Naming,
    /// The route of its log records.
    route: Option<log::Route>,
}

impl BridgeSession {
    /// Opens a session. The ticket ends when it is open. Jobs contain `key`, from [`next_id`](crate::next_id).
    ///
    /// # Errors
    /// Returns the error for a wrong option.
    pub fn open(
        key: u64,
        mailbox: Arc<Mailbox>,
        runtime: Handle,
        options: Map<String, Value>,
        naming: Naming,
        callbacks: Callbacks,
    ) -> Result<(Self, u64)> {
        Self::open_in(key, mailbox, runtime, options, naming, callbacks, Origin::Alone)
    }

    /// Opens a session with an agent of its own, or of an agent that has other sessions.
    pub(super) fn open_in(
        key: u64,
        mailbox: Arc<Mailbox>,
        runtime: Handle,
        options: Map<String, Value>,
        naming: Naming,
        callbacks: Callbacks,
        origin: Origin,
    ) -> Result<(Self, u64)> {
        let mut options = Box::new(prepare(key, &mailbox, options, naming, callbacks)?);
        let agent = match origin {
            Origin::Alone => None,
            Origin::Agent(agent, start) => {
                options = match start {
                    Start::New => options,
                    Start::Resume(id) => Box::new(host::resuming(*options, id)?),
                    Start::Fork(id) => Box::new(host::forking(*options, id)?),
                };
                Some(agent)
            }
        };
        let id = host::session_id(&options).map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let route = log::Route::new(&id, &mailbox);
        let slot = Arc::new(OnceLock::new());
        let (closing, mut closed) = tokio::sync::watch::channel(false);
        let closing = Arc::new(closing);
        let session = Self {
            key,
            id,
            slot: Arc::clone(&slot),
            closing: Arc::clone(&closing),
            mailbox: Arc::clone(&mailbox),
            runtime: runtime.clone(),
            naming,
            route: Some(route),
        };
        let name = session.id.clone();
        let ticket = mailbox.run(&runtime, async move {
            let opening = async {
                match agent {
                    Some(agent) => host::open_as(&agent, options, name).await,
                    None => host::start_as(options, name).await,
                }
            };
            let session = tokio::select! {
                session = opening => session?,
                _ = closed.wait_for(|closed| *closed) => return Err(Error::session_closed()),
            };
            let session = slot.get_or_init(|| Arc::new(session));
            if *closing.borrow() {
                host::shared(session).begin_close();
            }
            Ok(Reply::Nothing)
        });
        Ok((session, ticket))
    }

    /// Runs a turn in a session of its own. Jobs of that session contain `key`, from [`next_id`](crate::next_id).
    ///
    /// # Errors
    /// Returns the error for a wrong option.
    pub fn one_shot(
        key: u64,
        mailbox: Arc<Mailbox>,
        runtime: Handle,
        (content, mut given): (Content, Map<String, Value>),
        options: Map<String, Value>,
        naming: Naming,
        callbacks: Callbacks,
    ) -> Result<BridgeTurn> {
        let span = telemetry::take_span(&mut given)?;
        let read = || {
            let check = output::take_check(&mut given)?;
            let mut prompt = prompt_options(content, given, naming)?;
            host::limits(&prompt)?;
            output::check_prompt(&mut prompt, check, key, &mailbox);
            Ok((prompt, prepare(key, &mailbox, options, naming, callbacks)?))
        };
        let (mut prompt, options) = match read() {
            Ok(read) => read,
            Err(error) => {
                telemetry::refuse(span, &error, key, &mailbox);
                return Err(error);
            }
        };
        if let Some(span) = span {
            host::give_span(&mut prompt, span);
        }
        let id = host::session_id(&options).map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let route = Arc::new(log::Route::new(&id, &mailbox));
        let turn = one_shot_on(prompt, options, runtime.clone(), id, Box::new(Arc::clone(&route)));
        Ok(BridgeTurn::of_one_shot(host::into_inner(turn), mailbox, runtime, route))
    }

    /// Returns the session once it is open.
    pub(super) fn opened(&self) -> Option<&Session> {
        self.slot.get().map(|session| &**session)
    }

    fn session(&self) -> Result<&Arc<Session>> {
        self.slot.get().ok_or(Error::session_closed())
    }

    /// Returns the session's id. It can change when the session is open, because some agents choose the id.
    pub fn id(&self) -> &str {
        self.slot.get().map_or(&self.id, |session| session.id())
    }

    /// Returns the working directory, once the session is open.
    pub fn work_dir(&self) -> Option<&std::path::Path> {
        self.slot.get().map(|session| session.work_dir())
    }

    /// Returns `idle`, `active` or `closed`.
    pub fn state(&self) -> &'static str {
        self.slot.get().map_or("closed", |session| session.state().as_str())
    }

    /// Returns the version of the protocol that the agent speaks.
    pub fn protocol_version(&self) -> Option<&str> {
        self.slot.get().map(|session| session.protocol_version())
    }

    /// Returns the agent's process id.
    pub fn pid(&self) -> Option<u32> {
        self.slot.get().and_then(|session| session.pid())
    }

    /// Returns the agent's name and version.
    pub fn server(&self) -> Option<&ServerInfo> {
        self.slot.get().and_then(|session| session.server())
    }

    /// Returns the agent's capabilities.
    pub fn capabilities(&self) -> Option<&Capabilities> {
        self.slot.get().map(|session| session.capabilities())
    }

    /// Returns the commands that a prompt may begin with.
    pub fn slash_commands(&self) -> Vec<SlashCommand> {
        self.slot.get().map(|session| session.slash_commands()).unwrap_or_default()
    }

    /// Returns the accepted and the rejected tools of the program.
    pub fn external_tools(&self) -> Option<&ExternalToolsResult> {
        self.slot.get().map(|session| session.external_tools())
    }

    /// Returns the options that can be set.
    pub fn config_options(&self) -> Vec<ConfigOption> {
        self.slot.get().map(|session| session.config_options()).unwrap_or_default()
    }

    /// Returns all tokens so far.
    pub fn usage(&self) -> TokenUsage {
        self.slot.get().map(|session| session.usage()).unwrap_or_default()
    }

    /// Returns the latest value of each field of all status updates.
    pub fn status(&self) -> Event {
        self.slot.get().map_or_else(crate::messages::StatusUpdate::unchanged, |session| session.status()).into()
    }

    /// Begins a turn. The names of its options are those of the host.
    ///
    /// # Errors
    /// Returns the errors of [`Session::prompt`].
    pub fn prompt(&self, content: Content, mut options: Map<String, Value>) -> Result<BridgeTurn> {
        let span = telemetry::take_span(&mut options)?;
        let read = || {
            let check = output::take_check(&mut options)?;
            let mut prompt = prompt_options(content, options, self.naming)?;
            output::check_prompt(&mut prompt, check, self.key, &self.mailbox);
            Ok((prompt, self.session()?))
        };
        let (mut prompt, session) = match read() {
            Ok(read) => read,
            Err(error) => {
                telemetry::refuse(span, &error, self.key, &self.mailbox);
                return Err(error);
            }
        };
        if let Some(span) = span {
            host::give_span(&mut prompt, span);
        }
        let turn = session.prompt(prompt)?;
        Ok(BridgeTurn::new(host::into_inner(turn), Arc::clone(&self.mailbox), self.runtime.clone()))
    }

    /// Starts a replay of the earlier messages.
    ///
    /// # Errors
    /// Fails only before the session is open.
    pub fn replay(&self) -> Result<BridgeTurn> {
        let replay = self.session()?.replay();
        Ok(BridgeTurn::of_replay(replay, Arc::clone(&self.mailbox), self.runtime.clone()))
    }

    /// Switches plan mode.
    ///
    /// # Errors
    /// Returns the error for a value that is not a boolean; other errors end the ticket.
    pub fn set_plan_mode(&self, on: &Value) -> Result<u64> {
        let on =
            on.as_bool().ok_or_else(|| invalid_option("on", format!("expected a boolean, got {}", kind_of(on))))?;
        let session = Arc::clone(self.session()?);
        Ok(self.mailbox.run(&self.runtime, async move { session.set_plan_mode(on).await.map(|()| Reply::Nothing) }))
    }

    /// Sets an option.
    ///
    /// # Errors
    /// Returns the error for a value that is neither text nor a boolean; other errors end the ticket.
    pub fn set_config_option(&self, id: String, value: &Value) -> Result<u64> {
        let value = match value {
            Value::Bool(on) => ConfigValue::from(*on),
            Value::String(text) => text.as_str().into(),
            other => {
                let got = kind_of(other);
                return Err(invalid_option("value", format!("expected text or a boolean, got {got}")));
            }
        };
        let session = Arc::clone(self.session()?);
        Ok(self
            .mailbox
            .run(&self.runtime, async move { session.set_config_option(id, value).await.map(|()| Reply::Nothing) }))
    }

    /// Removes this many of the last turns.
    ///
    /// # Errors
    /// Returns the error for a count that is not a whole number from 1 on; other errors end the ticket.
    pub fn undo(&self, count: &Value) -> Result<u64> {
        let turns = count.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
        let turns = turns.ok_or_else(|| {
            let got = if count.is_number() { count.to_string() } else { kind_of(count).to_owned() };
            invalid_option("count", format!("expected a whole number from 1 on, got {got}"))
        })?;
        let session = Arc::clone(self.session()?);
        Ok(self.mailbox.run(&self.runtime, async move { session.undo(turns).await.map(|()| Reply::Nothing) }))
    }

    /// Answers a request manually. `origin` is the result of [`origin_of`](super::origin_of) for its event. `None`:
    /// only the id is known.
    ///
    /// # Errors
    /// Fails only before the session is open. Other errors end the ticket.
    pub fn respond(&self, request_id: String, origin: Option<RequestOrigin>, answer: Value) -> Result<u64> {
        let request = RequestRef { id: request_id, origin };
        let shared = Arc::clone(host::shared(self.session()?));
        Ok(self.mailbox.run(&self.runtime, async move {
            shared.respond(request, ManualAnswer::Json(answer)).await.map(|()| Reply::Nothing)
        }))
    }

    /// Cancels the running turn, if there is one. The ticket ends with the turn.
    pub fn cancel(&self) -> u64 {
        let session = self.slot.get().cloned();
        self.mailbox.run(&self.runtime, async move {
            if let Some(session) = session {
                session.cancel().await?;
            }
            Ok(Reply::Nothing)
        })
    }

    /// Closes the session. The ticket ends when the agent has exited. An opening that is not complete is ended.
    /// `timeout`, in the host's unit, overrides `close_timeout`; null is the default.
    ///
    /// # Errors
    /// Returns the error for a wrong timeout.
    pub fn close(&self, timeout: &Value) -> Result<u64> {
        let timeout = close_timeout(timeout, self.naming)?;
        self.closing.send_replace(true);
        let session = self.slot.get().cloned();
        if let Some(session) = &session {
            host::shared(session).warn_of_ended_turns();
            host::shared(session).begin_close_within(timeout);
        }
        Ok(self.mailbox.run(&self.runtime, async move {
            if let Some(session) = session {
                session.close().await?;
            }
            Ok(Reply::Nothing)
        }))
    }

    /// Waits until the session is closed. The ticket fails with the error that closed it; it succeeds after
    /// [`close`](Self::close).
    pub fn wait_closed(&self) -> u64 {
        let closed = self.slot.get().map(|session| session.closed());
        self.mailbox.run(&self.runtime, async move {
            match closed {
                Some(closed) => closed.await.map_or(Ok(Reply::Nothing), Err),
                None => Ok(Reply::Nothing),
            }
        })
    }

    /// Closes the session in the background.
    pub fn abandon(&self) {
        self.closing.send_replace(true);
        if let Some(session) = self.slot.get() {
            host::shared(session).begin_close();
        }
    }
}

impl Drop for BridgeSession {
    fn drop(&mut self) {
        self.abandon();
        if let (Some(session), Some(route)) = (self.slot.get(), self.route.take()) {
            let shared = Arc::clone(host::shared(session));
            // The route is kept until the agent has exited, so that the agent's warnings reach the host.
            self.runtime.spawn(async move {
                drop(shared.until_ended().await);
                drop(route);
            });
        }
    }
}

/// Reads options from JSON text.
///
/// # Errors
/// Names the option whose value cannot be read.
pub fn parse_options(json: &str) -> Result<Map<String, Value>> {
    let wrong = |error: serde_json::Error| invalid_option("options", format!("expected an object: {error}"));
    let error = match serde_json::from_str(json) {
        Ok(options) => return Ok(options),
        Err(error) => error,
    };
    // Finds the option with the error. Other values may have any nesting.
    let Ok(values) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json) else { return Err(wrong(error)) };
    let deep = values.iter().find(|(_, value)| serde_json::from_str::<Value>(value.get()).is_err());
    Err(deep.map_or_else(|| wrong(error), |(name, _)| invalid_option(name, too_deep())))
}

/// Reads the host's options, and adds handlers that call those of the host.
pub(super) fn prepare(
    key: u64,
    mailbox: &Arc<Mailbox>,
    mut map: Map<String, Value>,
    naming: Naming,
    callbacks: Callbacks,
) -> Result<SessionOptions> {
    let tools = take_list(&mut map, "tools")?;
    let hooks = take_list(&mut map, "hooks")?;
    let check = output::take_check(&mut map)?;
    let traced = telemetry::take(&mut map, naming)?;
    let mut options = session_options(map, naming)?;
    if let Some(traced) = traced {
        traced.apply(&mut options, key, mailbox);
    }
    output::check_session(&mut options, check, key, mailbox);
    for (index, tool) in tools.into_iter().enumerate() {
        let spec = parse_tool(tool, naming)?;
        let mailbox = Arc::clone(mailbox);
        let mut tool =
            ExternalTool::with_context(spec.name, spec.description, spec.parameters, move |arguments, call| {
                let call = mailbox.call_tool(key, index, arguments, call);
                async move { call.await?.into_tool_return() }
            });
        host::set_tool_timeout(&mut tool, spec.timeout);
        options = options.tool(tool);
    }
    for (index, hook) in hooks.into_iter().enumerate() {
        let spec = parse_hook(hook, naming)?;
        let mailbox = Arc::clone(mailbox);
        let mut hook = Hook::new(spec.event, move |request| {
            let call = mailbox.call(key, JobKind::Hook, Some(index), Payload::Event(Box::new(request.into())));
            async move { parse_hook_decision(&call.await?) }
        })
        .on_error(spec.on_error);
        host::set_hook_limits(&mut hook, spec.matcher, spec.timeout);
        options = options.hook(hook);
    }
    match callbacks.on_approval {
        Mode::Unset => {}
        Mode::Manual => options = options.on_approval_manual(),
        Mode::Handler => {
            let mailbox = Arc::clone(mailbox);
            options = options.on_approval(move |request| {
                let call = mailbox.call(key, JobKind::Approval, None, Payload::Event(Box::new(request.into())));
                async move { parse_approval(&call.await?) }
            });
        }
    }
    match callbacks.on_question {
        Mode::Unset => {}
        Mode::Manual => options = options.on_question_manual(),
        Mode::Handler => {
            let mailbox = Arc::clone(mailbox);
            options = options.on_question(move |request| {
                let call = mailbox.call(key, JobKind::Question, None, Payload::Event(Box::new(request.into())));
                async move { parse_answers(&call.await?) }
            });
        }
    }
    if callbacks.on_event {
        let mailbox = Arc::clone(mailbox);
        options = host::on_event_async(options, move |event| {
            let call = mailbox.call(key, JobKind::Event, None, Payload::Event(Box::new(event)));
            async move { call.await.map(drop) }
        });
    }
    if callbacks.on_read_file {
        let mailbox = Arc::clone(mailbox);
        options = options.on_read_file(move |request| {
            let call = mailbox.call(key, JobKind::ReadFile, None, Payload::Event(Box::new(request.into())));
            async move { parse_file(call.await?) }
        });
    }
    if callbacks.on_write_file {
        let mailbox = Arc::clone(mailbox);
        options = options.on_write_file(move |request| {
            let call = mailbox.call(key, JobKind::WriteFile, None, Payload::Event(Box::new(request.into())));
            async move { call.await.map(drop) }
        });
    }
    if callbacks.on_terminal {
        let mailbox = Arc::clone(mailbox);
        options = options.on_terminal(move |request| {
            let call = mailbox.call(key, JobKind::Terminal, None, Payload::Event(Box::new(request.into())));
            async move { parse_terminal_result(call.await?) }
        });
    }
    if callbacks.on_stderr {
        let mailbox = Arc::clone(mailbox);
        options = options.on_stderr(move |line: &str| mailbox.call_stderr(key, line.to_owned()));
    }
    options.validate()?;
    Ok(options)
}

pub(super) fn take_list(map: &mut Map<String, Value>, name: &str) -> Result<Vec<Value>> {
    match map.remove(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => Err(invalid_option(name, format!("expected a list, got {}", kind_of(&other)))),
    }
}
