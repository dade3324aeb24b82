//! One prompt in a session of its own.

use std::sync::Arc;

use kimi_agent_protocol::telemetry::TurnSpan;
use tokio::sync::Notify;

use super::link::Link;
use super::output;
use super::{Turn, TurnInner};
use crate::connection::{PromptResult, TurnStatus};
use crate::driver::event_channel::EventChannel;
use crate::driver::shared::Shared;
use crate::error::Error;
use crate::options::{PromptOptions, SessionOptions};
use crate::telemetry::SessionTelemetry;

/// Runs one prompt in a session of its own: opens a session, runs the turn, and closes the session. Returns
/// immediately; the turn returns every error, including errors of the start.
///
/// `prompt` is content, or [`PromptOptions`] with content and options of the prompt.
///
/// Needs a tokio runtime, like a session.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let agent = kimi_agent::testing::scripted_agent(serde_json::json!([[{"text": "4"}]]));
/// use kimi_agent::SessionOptions;
/// let options = SessionOptions::new();
/// # let options = options.executable(&agent);
/// let mut turn = kimi_agent::prompt("What is 2 + 2?", options);
/// assert_eq!(turn.result().await?.text, "4");
/// # Ok(()) }
/// ```
pub fn prompt(prompt: impl Into<PromptOptions>, options: SessionOptions) -> Turn {
    let id = uuid::Uuid::new_v4().to_string();
    one_shot(prompt.into(), options, tokio::runtime::Handle::try_current().ok(), id, Box::new(()))
}

/// Starts a turn in a session of its own on this runtime. `id` is the id of the session if the options name none. `kept` is dropped
/// when the agent has exited.
pub fn one_shot_on(
    prompt: PromptOptions,
    options: SessionOptions,
    runtime: tokio::runtime::Handle,
    id: String,
    kept: Box<dyn Send>,
) -> Turn {
    one_shot(prompt, options, Some(runtime), id, kept)
}

fn one_shot(
    mut prompt: PromptOptions,
    mut options: SessionOptions,
    runtime: Option<tokio::runtime::Handle>,
    id: String,
    kept: Box<dyn Send>,
) -> Turn {
    let capacity = Arc::new(Notify::new());
    let channel = Arc::new(EventChannel::new(options.event_buffer_bytes, Arc::clone(&capacity)));
    let link = Arc::new(Link::default());
    let inner = TurnInner::new(Arc::clone(&channel), Arc::clone(&link), "turn-1".to_owned());
    match runtime {
        Some(runtime) => {
            let telemetry = SessionTelemetry::of(&options, None);
            let span = telemetry.and_then(|telemetry| telemetry.begin(&mut prompt, options.output.is_some()));
            if let (Some(span), Some(telemetry)) = (&span, &mut options.telemetry) {
                // The agent starts for this turn alone.
                telemetry.context = Some(span.context().clone());
            }
            let turn = run_one_shot(prompt, options, span, Unfinished(channel), link, capacity, id);
            drop(runtime.spawn(async move {
                if let Some(session) = turn.await {
                    drop(session.until_ended().await);
                }
                drop(kept);
            }));
        }
        None => channel.finish(Err(Error::Spawn(
            "can't start the agent: `prompt` must be called inside a tokio runtime".to_owned(),
        ))),
    }
    Turn::new(inner)
}

/// Ends the turn when it is dropped, even if the runtime ends before the turn's task has begun.
struct Unfinished(Arc<EventChannel>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.finish(Err(Error::session_closed()));
    }
}

/// Ends a turn that could not begin, and its span.
fn fail_one_shot(channel: &EventChannel, span: Option<Box<TurnSpan>>, error: Error) {
    if let Some(span) = span {
        span.fail(&error);
    }
    channel.finish(Err(error));
}

/// Runs the turn to its end. Returns the session, which closes in the background.
async fn run_one_shot(
    mut prompt: PromptOptions,
    mut options: SessionOptions,
    span: Option<Box<TurnSpan>>,
    turn: Unfinished,
    link: Arc<Link>,
    capacity: Arc<Notify>,
    id: String,
) -> Option<Arc<Shared>> {
    let channel = &turn.0;
    if let Err(error) = prompt.limits() {
        fail_one_shot(channel, span, error);
        return None;
    }
    output::move_to_session(&mut prompt, &mut options);
    let started = tokio::select! {
        started = Box::new(options).start_as(id) => started,
        () = link.until_cancelled() => {
            if let Some(span) = span {
                span.cancel();
            }
            channel.finish(Ok(PromptResult::empty(TurnStatus::Cancelled)));
            return None;
        }
    };
    let session = match started {
        Ok(session) => session,
        Err(error) => {
            fail_one_shot(channel, span, error);
            return None;
        }
    };
    match session.send_prompt(Arc::clone(channel), prompt, span) {
        Ok(key) => link.connect(Arc::clone(&session.shared), key),
        Err(error) => {
            channel.finish(Err(error));
            return Some(Arc::clone(&session.shared));
        }
    }
    // The channel was made before the session, so it notifies `capacity`. The driver waits for the session's own notifier.
    let forward = async {
        loop {
            capacity.notified().await;
            session.shared.capacity.notify_one();
        }
    };
    tokio::select! {
        _ = channel.settled() => {}
        () = forward => {}
    }
    Some(Arc::clone(&session.shared))
}
