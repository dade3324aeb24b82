//! Runs the program's handlers: concurrently with the reading and with each other. A handler is stopped when its
//! request needs no answer any more. Every handler ends as an answer, even after a panic.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::event_channel::EventChannel;
use super::now;
use super::process::LONG;
use super::reads::{self, Reads};
use super::turn_reader::TurnReader;
use crate::OutputError;
use crate::answers::{HandlerError, HostError};
use crate::connection::RequestKey;
use crate::dialect::Answer;
use crate::handler::{
    ApprovalHandler, EventHandler, ExternalTool, HandlerFuture, Hook, QuestionHandler, Responder, ServiceHandlers,
    is_not_found,
};
use crate::host::panic_text;
use crate::json::parsed;
use crate::messages::{Event, ReadFileRequest, ToolCallRequest};
use crate::telemetry::{InSpan, TelemetryHost};
use crate::tool_context::{ProgressSender, ToolContext};

/// How long a handler waits for the reader of its turn.
const READER_FIRST: Duration = Duration::from_secs(1);
/// The default timeout of a hook, which agents have as well.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// The turn and the span that a handler serves.
#[derive(Clone, Default)]
pub(super) struct Served {
    /// The turn that waits for it.
    pub(super) turn: Option<Arc<EventChannel>>,
    /// The span that it runs in.
    pub(super) span: Option<u64>,
    /// Takes the progress of the call, if its caller can get it.
    pub(super) progress: Option<ProgressSender>,
}

tokio::task_local! {
    static SERVED: Served;
}

/// Returns the turn that waits for the calling handler, if one does.
pub fn served_turn() -> Option<Arc<EventChannel>> {
    SERVED.try_with(|served| served.turn.clone()).ok().flatten()
}

/// Returns the span that the calling handler runs in, if it has one.
pub fn served_span() -> Option<u64> {
    SERVED.try_with(|served| served.span).ok().flatten()
}

type Outcome = Result<Handling, HandlerError>;

/// What a handler has returned.
pub(super) enum Handling {
    /// The answer to a request.
    Answered(Answer),
    /// The violations of a value of structured output.
    Checked(Vec<OutputError>),
}

impl From<Answer> for Handling {
    fn from(answer: Answer) -> Self {
        Self::Answered(answer)
    }
}

/// The handlers of the session, and those that run.
pub(crate) struct Handlers {
    pub(crate) on_approval: Responder<ApprovalHandler>,
    pub(crate) on_question: Responder<QuestionHandler>,
    pub(crate) tools: Vec<ExternalTool>,
    pub(crate) hooks: BTreeMap<String, Hook>,
    pub(crate) on_event: Option<EventHandler>,
    services: ServiceHandlers,
    telemetry: Option<Arc<dyn TelemetryHost>>,
    running: JoinSet<Outcome>,
    /// The running handlers whose requests still need an answer.
    awaited: Vec<(RequestKey, AbortHandle)>,
    /// `None` while no file was asked for.
    reads: Option<Box<Reads>>,
    /// The handlers that wait until the reader of their turn has taken the events before their requests.
    after_reader: Vec<AfterReader>,
}

/// A handler has ended.
pub(super) struct Handled {
    pub(super) request: RequestKey,
    pub(super) outcome: Outcome,
}

/// A handler that waits until the reader of its turn has taken this many events.
struct AfterReader {
    key: RequestKey,
    channel: Arc<EventChannel>,
    served: Served,
    position: u64,
    deadline: Instant,
    request: Box<Event>,
}

impl Handlers {
    pub(crate) fn new(
        on_approval: Responder<ApprovalHandler>,
        on_question: Responder<QuestionHandler>,
        tools: Vec<ExternalTool>,
        hooks: BTreeMap<String, Hook>,
        on_event: Option<EventHandler>,
        services: ServiceHandlers,
    ) -> Self {
        Self {
            on_approval,
            on_question,
            tools,
            hooks,
            on_event,
            services,
            telemetry: None,
            running: JoinSet::new(),
            awaited: Vec::new(),
            reads: None,
            after_reader: Vec::new(),
        }
    }

    /// Makes handlers run in their spans.
    pub(crate) fn traced_by(mut self, telemetry: Option<Arc<dyn TelemetryHost>>) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Returns whether `on_event` is set.
    pub(super) fn observes(&self) -> bool {
        self.on_event.is_some()
    }

    /// Passes events outside turns to `on_event`, one after the other, and each failure of `on_event` to `report`.
    pub(super) fn observe(&self, outside: &Arc<EventChannel>, report: impl Fn(String, String) + Send + 'static) {
        let Some(on_event) = self.on_event.clone() else { return };
        let mut outside = TurnReader::new(Arc::clone(outside));
        tokio::spawn(async move {
            while let Some(Ok(next)) = std::future::poll_fn(|cx| outside.poll_event(None, cx)).await {
                let on_event = Arc::clone(&on_event);
                // A separate task contains a panic.
                let outcome = tokio::spawn(async move { on_event(next).await }).await;
                match outcome {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => report(error.to_string(), HostError::reported(&error)),
                    Err(error) => {
                        let message = panic_message(error);
                        report(message.clone(), message);
                    }
                }
            }
        });
    }

    /// Starts a handler. If the turn has a reader, it waits until the reader has taken the events before the request.
    pub(super) fn ask_after_reader(&mut self, key: RequestKey, served: Served, request: Box<Event>) {
        let Some(channel) = served.turn.clone() else { return self.ask(key, served, *request) };
        let position = channel.events.before_last();
        if channel.events.notify_when_delivered(position) {
            let deadline = now() + READER_FIRST;
            self.after_reader.push(AfterReader { key, channel, served, position, deadline, request });
        } else {
            self.ask(key, served, *request);
        }
    }

    /// Starts the handlers that no longer wait for a reader, and the next readings of files unless too many answers are unwritten.
    pub(super) fn start_due(&mut self, is_behind: bool) {
        while let Some((key, served, request)) = self.reads.as_mut().and_then(|reads| reads.next(is_behind)) {
            self.read_file(key, served, request);
        }
        if self.after_reader.is_empty() {
            return;
        }
        let now = now();
        let is_due =
            |held: &mut AfterReader| now >= held.deadline || !held.channel.events.notify_when_delivered(held.position);
        let due: Vec<_> = self.after_reader.extract_if(.., is_due).collect();
        for held in due {
            self.ask(held.key, held.served, *held.request);
        }
    }

    /// Returns when the next handler stops waiting for its reader.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.after_reader.iter().map(|held| held.deadline).min()
    }

    /// Starts the handler for a request.
    fn ask(&mut self, key: RequestKey, served: Served, request: Event) {
        match request {
            Event::ApprovalRequest(request) => {
                if let Responder::Handler(handler) = self.on_approval.clone() {
                    self.start(key, served, None, async move { Ok(Answer::Approval(handler(request).await?)) });
                }
            }
            Event::QuestionRequest(request) => {
                if let Responder::Handler(handler) = self.on_question.clone() {
                    self.start(key, served, None, async move { Ok(Answer::Question(handler(request).await?)) });
                }
            }
            Event::ToolCallRequest(call) => {
                if let Some(tool) = self.tools.iter().find(|tool| tool.name == call.name).cloned() {
                    let timeout = tool.timeout;
                    let (context, running) = ToolContext::new(call.id.clone(), served.progress.clone());
                    self.start(key, served, timeout, async move {
                        let _running = running;
                        let arguments = arguments(call).await?;
                        Ok(Answer::Tool((tool.handler)(arguments, context).await?))
                    });
                }
            }
            Event::HookRequest(request) => {
                if let Some(hook) = self.hooks.get(&request.subscription_id).cloned() {
                    let timeout = hook.timeout.unwrap_or(HOOK_TIMEOUT);
                    self.start(
                        key,
                        served,
                        Some(timeout),
                        async move { Ok(Answer::Hook((hook.handler)(request).await?)) },
                    );
                }
            }
            Event::ReadFileRequest(request) => {
                if let Some(request) = self.reads.get_or_insert_default().admit(key, &served, request) {
                    self.read_file(key, served, request);
                }
            }
            Event::WriteFileRequest(request) => {
                if let Some(handler) = self.services.write_file.clone() {
                    self.start(key, served, None, async move { handler(request).await.map(|()| Answer::WriteFile) });
                }
            }
            Event::TerminalRequest(request) => {
                if let Some(handler) = self.services.terminal.clone() {
                    // The command outlives the turn, so no turn waits for the handler.
                    let served = Served { turn: None, ..served };
                    self.start(key, served, None, async move { Ok(Answer::Terminal(handler(request).await?)) });
                }
            }
            _ => {}
        }
    }

    fn read_file(&mut self, key: RequestKey, served: Served, request: ReadFileRequest) {
        let Some(handler) = self.services.read_file.clone() else { return };
        self.reads.get_or_insert_default().begun(key);
        self.start(key, served, None, async move {
            let range = reads::Range::of(&request);
            match handler(request).await {
                Err(error) if is_not_found(&error) => Ok(Answer::ReadFile(None)),
                text => Ok(Answer::ReadFile(reads::checked(text?, range).await?)),
            }
        });
    }

    /// Runs the program's check of a value of structured output.
    pub(super) fn check(&mut self, key: RequestKey, served: Served, checking: HandlerFuture<Vec<OutputError>>) {
        self.start(key, served, None, async move { checking.await.map(Handling::Checked) });
    }

    fn start(
        &mut self,
        key: RequestKey,
        served: Served,
        timeout: Option<Duration>,
        handler: impl Future<Output = Result<impl Into<Handling>, HandlerError>> + Send + 'static,
    ) {
        // Boxed, because each of the futures around it would copy the request.
        let handler = Box::pin(async move { handler.await.map(Into::into) });
        let bounded = async move {
            match timeout {
                None => handler.await,
                Some(limit) => tokio::time::timeout(limit, handler)
                    .await
                    .unwrap_or_else(|_| Err(format!("the handler took longer than its {limit:?}").into())),
            }
        };
        let span = served.span.zip(self.telemetry.clone());
        let bounded = SERVED.scope(served, bounded);
        let stop = match span {
            None => self.running.spawn(bounded),
            Some((span, host)) => self.running.spawn(InSpan::new(bounded, span, host)),
        };
        self.awaited.push((key, stop));
    }

    fn read_ended(&mut self, key: RequestKey) {
        if let Some(reads) = &mut self.reads {
            reads.ended(key);
        }
    }

    /// Stops the handler of this request.
    pub(super) fn withdraw(&mut self, key: RequestKey) {
        self.after_reader.retain(|held| held.key != key);
        self.read_ended(key);
        self.awaited.extract_if(.., |(awaited, _)| *awaited == key).for_each(|(_, stop)| stop.abort());
    }

    /// Returns the next handler that ended and was not withdrawn.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Handled> {
        loop {
            let (id, outcome) = match ready!(self.running.poll_join_next_with_id(cx)) {
                // An empty set returns this immediately.
                None => return Poll::Pending,
                Some(Ok((id, outcome))) => (id, outcome),
                Some(Err(error)) => (error.id(), Err(panic_message(error).into())),
            };
            if let Some(ended) = self.awaited.iter().position(|(_, stop)| stop.id() == id) {
                let (request, _) = self.awaited.swap_remove(ended);
                self.read_ended(request);
                return Poll::Ready(Handled { request, outcome });
            }
        }
    }
}

/// Parses the arguments of a tool call, on a thread of its own if they are long. The model reads the error.
async fn arguments(call: ToolCallRequest) -> Result<Value, HandlerError> {
    let parsed = |text: &str| parsed(text).map_err(|error| format!("the arguments are not valid JSON: {error}").into());
    match call.arguments {
        None => Ok(Value::Object(Default::default())),
        Some(text) if text.is_empty() => Ok(Value::Object(Default::default())),
        Some(text) if text.len() <= LONG => parsed(&text),
        Some(text) => tokio::task::spawn_blocking(move || parsed(&text)).await?,
    }
}

fn panic_message(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => format!("the handler panicked: {}", panic_text(&*panic)),
        Err(_) => "the handler was stopped".to_owned(),
    }
}
