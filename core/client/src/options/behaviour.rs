//! Setters for what the program does when the agent asks or tells, and for deadlines and limits.

use std::ffi::OsString;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{Dialect, SessionOptions};
use crate::handler::Responder;
use crate::wire::{ApprovalRequest, Event, QuestionRequest};
use crate::{Answers, Approval, HandlerError, Hook};

/// Setters for what the program does when the agent asks or tells.
impl SessionOptions {
    /// Who decides what the agent may do; unset, [`yolo`](Self::yolo) approves, else everything is rejected. There is
    /// no deadline on it.
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

    /// Whoever reads the stream of events answers approval requests.
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

    /// Who answers the model's questions, or dismisses them with `None`; unset, the model can't ask any. There is no
    /// deadline on it.
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

    /// Whoever reads the stream of events answers the model's questions.
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

    /// Gets the events that come outside a turn. It runs beside the reading of the agent's messages and should return
    /// soon.
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

    /// Gets the lines that the agent writes to stderr, without their ends. It must not block.
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

/// Setters for how the agent is spoken to, for deadlines and for limits.
impl SessionOptions {
    /// The name that this program gives itself to the agent; unset, this SDK's.
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

    /// The version that this program gives itself; unset, this SDK's.
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

    /// Arguments that the agent gets after all others, for flags that there is no option for.
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

    /// Which protocol to speak; unset, [`Dialect::Auto`].
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

    /// How long the agent may take to open the session (a loaded machine needs most of it), and later to answer a call
    /// that it need not work for: `steer`, `set_plan_mode`, and silence in a `replay`. Unset, 60 seconds.
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

    /// How long the agent may take to end a cancelled turn before the SDK ends it by itself; unset, 10 seconds.
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

    /// How long the agent may take to exit when the session closes, before it is made to; unset, 10 seconds.
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

    /// How long a turn may go without anything from the agent, while it is not waiting for this program; unset, for
    /// ever.
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

    /// How long a turn may take in all; unset, for ever.
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

    /// How long a line of the agent's may be, in bytes, before the session fails; unset, 256 MiB, and at least 1 KiB.
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

    /// How much is read ahead of the program, in bytes of events, before the agent has to wait; unset, 256 KiB, and at
    /// least 1 KiB.
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

/// As [`SessionOptions::on_event`], for handlers that take time or fail.
pub fn on_event_async<F, R>(mut options: SessionOptions, handler: F) -> SessionOptions
where
    F: Fn(Event) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    options.on_event = Some(Arc::new(move |event| Box::pin(handler(event))));
    options
}
