//! Setters for handlers, for deadlines and for limits.

use std::ffi::OsString;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{Dialect, SessionOptions};
use crate::handler::Responder;
use crate::messages::{
    ApprovalRequest, Event, QuestionRequest, ReadFileRequest, TerminalRequest, TerminalResult, WriteFileRequest,
};
use crate::{Answers, Approval, Budget, HandlerError, Hook, Output, Prices};

/// Setters for handlers.
/// The tool calls that a session's policy must see.
///
/// # Examples
/// ```
/// use kimi_agent::{Enforce, Policy, SessionOptions};
/// let options = SessionOptions::new().policy(Policy::preset("read-only").unwrap()).enforce(Enforce::Calls);
/// # options.validate().unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Enforce {
    /// Those that the agent asks about. If the agent runs other calls that the policy cannot see first, the log has one
    /// warning.
    #[default]
    Approvals,
    /// All. A session of an agent that runs calls which the policy cannot see first fails to open.
    Calls,
}

impl Enforce {
    /// Returns the value with this name: `approvals` or `calls`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "approvals" => Some(Self::Approvals),
            "calls" => Some(Self::Calls),
            _ => None,
        }
    }
}

impl SessionOptions {
    /// Sets the rules that decide about approval requests before any handler. What they leave open goes to
    /// [`on_approval`](Self::on_approval), and is rejected without it. If the agent has hooks, rules that deny also see calls
    /// that need no approval.
    ///
    /// ```
    /// use kimi_agent::{Policy, SessionOptions};
    /// let policy = Policy::from_toml(r#"
    ///     deny = ["edit(**/.env*)"]
    ///     allow = ["read", "execute(git status)"]
    /// "#)?;
    /// let options = SessionOptions::new().policy(policy);
    /// # options.validate()?;
    /// # Ok::<(), kimi_agent::Error>(())
    /// ```
    #[cfg(feature = "policy")]
    #[must_use]
    pub fn policy(mut self, policy: kimi_agent_policy::Policy) -> Self {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// Sets the calls that the [policy](Self::policy) must see. [`Enforce::Calls`] needs a policy. Default: [`Enforce::Approvals`].
    ///
    /// ```
    /// use kimi_agent::{Enforce, Policy, SessionOptions};
    /// let options = SessionOptions::new().policy(Policy::preset("read-only").unwrap()).enforce(Enforce::Calls);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn enforce(mut self, enforce: Enforce) -> Self {
        self.enforce = enforce;
        self
    }

    /// Sets the login that an agent of ACP gets if it requires one: the ID of a login method of the agent, or `auto` for the method
    /// whose key is in [`env`](Self::env). Default: `none`.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// let options = SessionOptions::new().executable("codex-acp").env([("CODEX_API_KEY", "sk-…")]).auth("auto");
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn auth(mut self, auth: impl Into<String>) -> Self {
        self.auth = Some(auth.into());
        self
    }

    /// Sets the handler of approval requests. Without it [`yolo`](Self::yolo) approves all of them; otherwise all are
    /// rejected. It has no deadline.
    ///
    /// ```
    /// use kimi_agent::{Approval, SessionOptions};
    /// let options = SessionOptions::new().on_approval(|request| async move {
    ///     Ok(if request.action == "run command" { Approval::reject("no commands, please") } else { Approval::Approve })
    /// });
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn on_approval<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(ApprovalRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Approval, HandlerError>> + Send + 'static,
    {
        self.on_approval = Responder::Handler(Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// Lets the reader of the events answer approval requests, with [`respond()`](crate::Turn::respond).
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().on_approval_manual();
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn on_approval_manual(mut self) -> Self {
        self.on_approval = Responder::Manual;
        self
    }

    /// Sets the handler of the model's questions. `None` dismisses a question. Without it the model cannot ask
    /// questions. It has no deadline.
    ///
    /// ```
    /// use kimi_agent::{Answers, SessionOptions};
    /// let options = SessionOptions::new().on_question(|request| async move {
    ///     let question = &request.questions[0];
    ///     Ok(question.options.first().map(|option| Answers::new().answer(&question.question, &option.label)))
    /// });
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn on_question<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(QuestionRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Answers>, HandlerError>> + Send + 'static,
    {
        self.on_question = Responder::Handler(Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// Lets the reader of the events answer the model's questions, with
    /// [`respond_question()`](crate::Turn::respond_question).
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().on_question_manual();
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn on_question_manual(mut self) -> Self {
        self.on_question = Responder::Manual;
        self
    }

    /// Offers the agent to read files with this handler instead of from its own disk. The handler returns the whole
    /// text; the SDK selects the lines that the agent wants. `None` or an [`std::io::Error`] of the kind `NotFound`
    /// means that the file does not exist. Only agents that speak ACP use it, and not all of them. Default: not
    /// offered.
    ///
    /// No rule of the agent restricts the handler. Refuse paths that the agent must not read.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// let options = SessionOptions::new().on_read_file(|request| async move {
    ///     Ok((request.path == "/virtual/notes.txt").then(|| "buy milk".to_owned()))
    /// });
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn on_read_file<F, R, T>(mut self, handler: F) -> Self
    where
        F: Fn(ReadFileRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: Into<Option<String>>,
    {
        self.services.read_file = Some(Arc::new(move |request| {
            let reading = handler(request);
            Box::pin(async move { reading.await.map(Into::into) })
        }));
        self
    }

    /// Offers the agent to write files with this handler instead of to its own disk. Only agents that speak ACP use it,
    /// and not all of them. Default: not offered.
    ///
    /// No rule of the agent restricts the handler. Refuse paths that the agent must not write.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// let options = SessionOptions::new().on_write_file(|request| async move {
    ///     Err(format!("{} is read only", request.path).into())
    /// });
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn on_write_file<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(WriteFileRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.services.write_file = Some(Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// Offers the agent to run its commands with this handler instead of by itself. The handler returns the output and
    /// how the command ended. Its future is dropped if the agent kills the command, and when the session closes. Only
    /// agents that speak ACP use it, and not all of them. Default: not offered.
    ///
    /// No rule of the agent restricts the handler. Run commands where they can do no harm, for example in a container.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// use kimi_agent::wire::TerminalResult;
    /// let options = SessionOptions::new().on_terminal(|request| async move {
    ///     Ok(TerminalResult::new(format!("{} is not available\n", request.command), 127))
    /// });
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn on_terminal<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(TerminalRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<TerminalResult, HandlerError>> + Send + 'static,
    {
        self.services.terminal = Some(Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// Adds a hook.
    ///
    /// ```
    /// use kimi_agent::{Hook, HookDecision, SessionOptions};
    /// let hook = Hook::new("PreToolUse", |_| async { Ok(HookDecision::Block("read only".into())) }).matcher("WriteFile");
    /// let options = SessionOptions::new().hook(hook);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn hook(self, hook: Hook) -> Self {
        self.hooks([hook])
    }

    /// Adds hooks.
    ///
    /// ```
    /// use kimi_agent::{Hook, HookDecision, SessionOptions};
    /// let hooks = ["Stop", "SessionEnd"].map(|event| Hook::new(event, |_| async { Ok(HookDecision::Allow) }));
    /// let options = SessionOptions::new().hooks(hooks);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn hooks(mut self, hooks: impl IntoIterator<Item = Hook>) -> Self {
        self.hooks.extend(hooks);
        self
    }

    /// Sets the handler of events outside turns. It runs while messages are read, and should return soon.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// let (outside, events) = std::sync::mpsc::channel();
    /// let options = SessionOptions::new().on_event(move |event| drop(outside.send(event)));
    /// # options.validate().unwrap();
    /// # drop(events);
    /// ```
    #[must_use]
    pub fn on_event<F: Fn(Event) + Send + Sync + 'static>(mut self, handler: F) -> Self {
        self.on_event = Some(Arc::new(move |event| {
            handler(event);
            Box::pin(std::future::ready(Ok(())))
        }));
        self
    }

    /// Sets the handler of the lines that the agent writes to stderr, without their ends. It must not block.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().on_stderr(|line| eprintln!("agent: {line}"));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn on_stderr<F: Fn(&str) + Send + Sync + 'static>(mut self, handler: F) -> Self {
        self.on_stderr = Some(Arc::new(move |line| handler(&line)));
        self
    }
}

/// Setters for the handshake, for deadlines and for limits.
impl SessionOptions {
    /// Sets the name of this program, for the agent. Default: `kimi-agent`.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().client_name("nightly-reviewer");
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn client_name(mut self, client_name: impl Into<String>) -> Self {
        self.client_name = Some(client_name.into());
        self
    }

    /// Sets the version of this program, for the agent. Default: the version of this crate.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().client_name("nightly-reviewer").client_version("2.1");
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn client_version(mut self, client_version: impl Into<String>) -> Self {
        self.client_version = Some(client_version.into());
        self
    }

    /// Adds arguments of the agent after all others, for flags without an option.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().extra_args(["--add-dir=../shared-library"]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn extra_args<A: Into<OsString>>(mut self, extra_args: impl IntoIterator<Item = A>) -> Self {
        self.extra_args.extend(extra_args.into_iter().map(Into::into));
        self
    }

    /// Sets the protocol to speak. Default: [`Dialect::Auto`].
    ///
    /// ```
    /// use kimi_agent::{Dialect, SessionOptions, WireVersion};
    /// let options = SessionOptions::new().dialect(Dialect::Wire(WireVersion::new(1, 9)));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets the time for the agent to open the session, and later to answer a call that needs no work: `steer`,
    /// `set_plan_mode`, and silence in a `replay`. A slow machine may need most of it. Default: 60 seconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// let options = kimi_agent::SessionOptions::new().handshake_timeout(Duration::from_secs(120));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn handshake_timeout(mut self, handshake_timeout: Duration) -> Self {
        self.handshake_timeout = handshake_timeout;
        self
    }

    /// Sets the time for the agent to end a cancelled turn. After that the SDK ends it. Default: 10 seconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// let options = kimi_agent::SessionOptions::new().cancel_timeout(Duration::from_secs(3));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn cancel_timeout(mut self, cancel_timeout: Duration) -> Self {
        self.cancel_timeout = cancel_timeout;
        self
    }

    /// Sets the time for the agent to exit when the session closes, before it gets SIGTERM. Zero kills the agent at once, as
    /// [`Session::close_with_timeout`](crate::Session::close_with_timeout) does. Default: 10 seconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// let options = kimi_agent::SessionOptions::new().close_timeout(Duration::from_secs(2));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn close_timeout(mut self, close_timeout: Duration) -> Self {
        self.close_timeout = close_timeout;
        self
    }

    /// Sets the longest time in a turn without a message from the agent, while the agent does not wait for this
    /// program. Default: no limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// let options = kimi_agent::SessionOptions::new().idle_timeout(Duration::from_secs(90));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn idle_timeout(mut self, idle_timeout: Duration) -> Self {
        self.idle_timeout = Some(idle_timeout);
        self
    }

    /// Sets the time for a turn. Default: no limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// let options = kimi_agent::SessionOptions::new().turn_timeout(Duration::from_secs(600));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn turn_timeout(mut self, turn_timeout: Duration) -> Self {
        self.turn_timeout = Some(turn_timeout);
        self
    }

    /// Limits what all turns of the session may use together. The turn that exceeds the budget is cancelled. That turn and
    /// every later prompt fail with [`Error::BudgetExceeded`](crate::Error::BudgetExceeded). Default: no limit.
    ///
    /// ```
    /// use kimi_agent::{Budget, SessionOptions};
    /// let options = SessionOptions::new().session_budget(Budget::new().tokens(1_000_000).tool_calls(200));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn session_budget(mut self, budget: Budget) -> Self {
        self.session_budget = Some(budget);
        self
    }

    /// Sets the prices of models. With agents that report tokens and no costs,
    /// [`PromptResult::cost`](crate::connection::PromptResult::cost) and the limit [`Budget::usd`] use them. Default: none.
    ///
    /// ```
    /// use kimi_agent::{Price, Prices, SessionOptions};
    /// let prices = Prices::new().model("kimi-k2", Price::new(0.6, 2.5).cache_read(0.15));
    /// let options = SessionOptions::new().model("kimi-k2").prices(prices);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// Sets the value that each turn of the session must return. A prompt can have an output of its own. Default: none; a
    /// turn returns text.
    ///
    /// With agents that take tools, the model returns the value with a tool of the SDK, which no policy and no
    /// `on_approval` has to allow.
    ///
    /// ```
    /// use kimi_agent::{Output, SessionOptions};
    /// let options = SessionOptions::new().output(Output::new(serde_json::json!({"type": "object"})));
    /// options.validate()?;
    /// // References to other documents are refused.
    /// let foreign = Output::new(serde_json::json!({"$ref": "https://example.com/schema.json"}));
    /// assert!(SessionOptions::new().output(foreign).validate().is_err());
    /// # Ok::<(), kimi_agent::Error>(())
    /// ```
    #[must_use]
    pub fn output(mut self, output: Output) -> Self {
        self.output = Some(Box::new(output));
        self
    }

    /// Sets the limit of a line of the agent, in bytes. A longer line fails the session. Default: 256 MiB. Minimum: 1
    /// KiB.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().max_line_bytes(16 << 20);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn max_line_bytes(mut self, max_line_bytes: usize) -> Self {
        self.max_line_bytes = max_line_bytes;
        self
    }

    /// Sets the limit of unread events, in bytes. At the limit the agent has to wait. Default: 256 KiB. Minimum: 1 KiB.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// assert!(SessionOptions::new().event_buffer_bytes(1 << 20).validate().is_ok());
    /// assert!(SessionOptions::new().event_buffer_bytes(100).validate().is_err());
    /// ```
    #[must_use]
    pub fn event_buffer_bytes(mut self, event_buffer_bytes: usize) -> Self {
        self.event_buffer_bytes = event_buffer_bytes;
        self
    }
}

/// Sets `on_event` as [`SessionOptions::on_event`] does, for handlers that take time or fail.
pub fn on_event_async<F, R>(mut options: SessionOptions, handler: F) -> SessionOptions
where
    F: Fn(Event) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    options.on_event = Some(Arc::new(move |event| Box::pin(handler(event))));
    options
}
