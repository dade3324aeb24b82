//! Running the program's functions: off the read path, several at once, each stopped when its request needs no
//! answer any more. Whatever one of them does, a panic included, ends up as an answer.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::commands::Command;
use super::event_channel::EventChannel;
use super::now;
use super::shared::Shared;
use super::turn_reader::TurnReader;
use crate::answers::HandlerError;
use crate::connection::RequestKey;
use crate::dialect::Answer;
use crate::handler::{ApprovalHandler, EventHandler, ExternalTool, Hook, QuestionHandler, Responder};
use crate::wire::{Event, HandlerKind, ToolCallRequest};

/// How long a handler waits at most for the reader of its turn.
const READER_FIRST: Duration = Duration::from_secs(1);
/// What an agent allows a hook by itself.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);

tokio::task_local! {
    static TURN: Option<Arc<EventChannel>>;
}

/// The turn that waits for the calling handler, if one does.
pub fn served_turn() -> Option<Arc<EventChannel>> {
    TURN.try_with(Option::clone).ok().flatten()
}

type Outcome = Result<Answer, HandlerError>;

/// The session's functions, and those of them that run.
pub(crate) struct Handlers {
    pub(crate) on_approval: Responder<ApprovalHandler>,
    pub(crate) on_question: Responder<QuestionHandler>,
    pub(crate) tools: HashMap<String, ExternalTool>,
    pub(crate) hooks: HashMap<String, Hook>,
    pub(crate) on_event: Option<EventHandler>,
    running: JoinSet<Outcome>,
    keys: HashMap<Id, RequestKey>,
    stops: HashMap<RequestKey, AbortHandle>,
    /// Those that wait until the reader of their turn has got what came before their requests.
    after_reader: Vec<AfterReader>,
}

/// A handler has ended.
pub(super) struct Handled {
    pub(super) request: RequestKey,
    pub(super) outcome: Outcome,
}

/// A handler that waits until the reader of its turn has got so many events.
struct AfterReader {
    key: RequestKey,
    channel: Arc<EventChannel>,
    position: u64,
    deadline: Instant,
    request: Box<Event>,
}

impl Handlers {
    pub(crate) fn new(
        on_approval: Responder<ApprovalHandler>,
        on_question: Responder<QuestionHandler>,
        tools: Vec<ExternalTool>,
        hooks: HashMap<String, Hook>,
        on_event: Option<EventHandler>,
    ) -> Self {
        Self {
            on_approval,
            on_question,
            tools: tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect(),
            hooks,
            on_event,
            running: JoinSet::new(),
            keys: HashMap::new(),
            stops: HashMap::new(),
            after_reader: Vec::new(),
        }
    }

    /// Whether somebody wants events outside turns.
    pub(super) fn observes(&self) -> bool {
        self.on_event.is_some()
    }

    /// Hands events outside turns to `on_event`, one after the other.
    pub(super) fn observe(&self, outside: &Arc<EventChannel>, session: Weak<Shared>) {
        let Some(on_event) = self.on_event.clone() else { return };
        let mut outside = TurnReader::new(Arc::clone(outside));
        tokio::spawn(async move {
            while let Some(Ok(next)) = std::future::poll_fn(|cx| outside.poll_event(None, cx)).await {
                let on_event = Arc::clone(&on_event);
                // A task of its own, so that a panic stays there.
                let outcome = tokio::spawn(async move { on_event(*next).await }).await;
                let message = match outcome {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(error) => panic_message(error),
                };
                if let Some(session) = session.upgrade() {
                    session.send(Command::ObserverFailed { kind: HandlerKind::Event, message });
                }
            }
        });
    }

    /// Starts a handler: of a turn that somebody reads, once the reader has got what came before the request.
    pub(super) fn ask_after_reader(&mut self, key: RequestKey, turn: Option<Arc<EventChannel>>, request: Box<Event>) {
        let Some(channel) = turn else { return self.ask(key, None, *request) };
        let position = channel.events.before_last();
        if channel.events.notify_when_delivered(position) {
            let deadline = now() + READER_FIRST;
            self.after_reader.push(AfterReader { key, channel, position, deadline, request });
        } else {
            self.ask(key, Some(channel), *request);
        }
    }

    /// Starts the handlers that need not wait for a reader any more.
    pub(super) fn start_due(&mut self) {
        if self.after_reader.is_empty() {
            return;
        }
        let now = now();
        let is_due =
            |held: &mut AfterReader| now >= held.deadline || !held.channel.events.notify_when_delivered(held.position);
        let due: Vec<_> = self.after_reader.extract_if(.., is_due).collect();
        for held in due {
            self.ask(held.key, Some(held.channel), *held.request);
        }
    }

    /// When one of them no longer waits for the reader.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.after_reader.iter().map(|held| held.deadline).min()
    }

    /// Starts the function that is to answer a request.
    fn ask(&mut self, key: RequestKey, turn: Option<Arc<EventChannel>>, request: Event) {
        match request {
            Event::ApprovalRequest(request) => {
                if let Responder::Handler(handler) = self.on_approval.clone() {
                    self.start(key, turn, None, async move { Ok(Answer::Approval(handler(request).await?)) });
                }
            }
            Event::QuestionRequest(request) => {
                if let Responder::Handler(handler) = self.on_question.clone() {
                    self.start(key, turn, None, async move { Ok(Answer::Question(handler(request).await?)) });
                }
            }
            Event::ToolCallRequest(call) => {
                if let Some(tool) = self.tools.get(&call.name).cloned() {
                    let timeout = tool.timeout;
                    self.start(key, turn, timeout, async move {
                        let arguments = arguments(&call)?;
                        Ok(Answer::Tool((tool.handler)(arguments).await?))
                    });
                }
            }
            Event::HookRequest(request) => {
                if let Some(hook) = self.hooks.get(&request.subscription_id).cloned() {
                    let timeout = hook.timeout.unwrap_or(HOOK_TIMEOUT);
                    self.start(
                        key,
                        turn,
                        Some(timeout),
                        async move { Ok(Answer::Hook((hook.handler)(request).await?)) },
                    );
                }
            }
            _ => {}
        }
    }

    fn start(
        &mut self,
        key: RequestKey,
        turn: Option<Arc<EventChannel>>,
        timeout: Option<Duration>,
        handler: impl Future<Output = Outcome> + Send + 'static,
    ) {
        let bounded = async move {
            match timeout {
                None => handler.await,
                Some(limit) => tokio::time::timeout(limit, handler)
                    .await
                    .unwrap_or_else(|_| Err(format!("the handler took longer than its {limit:?}").into())),
            }
        };
        let bounded = TURN.scope(turn, bounded);
        let stop = self.running.spawn(bounded);
        self.keys.insert(stop.id(), key);
        self.stops.insert(key, stop);
    }

    /// Stops the function that was to answer this.
    pub(super) fn withdraw(&mut self, key: RequestKey) {
        self.after_reader.retain(|held| held.key != key);
        if let Some(stop) = self.stops.remove(&key) {
            stop.abort();
        }
    }

    /// The next one that ends and was not withdrawn.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Handled> {
        loop {
            let (id, outcome) = match ready!(self.running.poll_join_next_with_id(cx)) {
                // A set without handlers says so at once.
                None => return Poll::Pending,
                Some(Ok((id, outcome))) => (id, outcome),
                Some(Err(error)) => (error.id(), Err(panic_message(error).into())),
            };
            if let Some(request) = self.keys.remove(&id)
                && self.stops.remove(&request).is_some()
            {
                return Poll::Ready(Handled { request, outcome });
            }
        }
    }
}

/// The arguments of a tool call, parsed; the model reads the error.
fn arguments(call: &ToolCallRequest) -> Result<Value, HandlerError> {
    match call.arguments.as_deref() {
        None | Some("") => Ok(Value::Object(Default::default())),
        Some(text) => {
            serde_json::from_str(text).map_err(|error| format!("the arguments are not valid JSON: {error}").into())
        }
    }
}

fn panic_message(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the handler was stopped".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", text.as_deref().unwrap_or("without a message"))
}
