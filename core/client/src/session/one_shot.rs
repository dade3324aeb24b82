//! One prompt in a session of its own.

use std::sync::Arc;

use kimi_agent_protocol::telemetry::TurnSpan;
use tokio::sync::Notify;

use super::link::Link;
use super::output;
use super::{Turn, TurnInner};
use crate::connection::{PromptResult, TurnStatus};
use crate::driver::event_channel::EventChannel;
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
/// let mut turn = kimi_agent::prompt("What is 2 + 2?", SessionOptions::new().executable(&agent));
/// assert_eq!(turn.result().await?.text, "4");
/// # Ok(()) }
/// ```
pub fn prompt(prompt: impl Into<PromptOptions>, options: SessionOptions) -> Turn {
    one_shot(prompt.into(), options, tokio::runtime::Handle::try_current().ok())
}

/// Starts a turn in a session of its own on this runtime.
pub fn one_shot_on(prompt: PromptOptions, options: SessionOptions, runtime: tokio::runtime::Handle) -> Turn {
    one_shot(prompt, options, Some(runtime))
}

fn one_shot(mut prompt: PromptOptions, mut options: SessionOptions, runtime: Option<tokio::runtime::Handle>) -> Turn {
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
            drop(runtime.spawn(run_one_shot(prompt, options, span, Unfinished(channel), link, capacity)));
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

async fn run_one_shot(
    prompt: PromptOptions,
    options: SessionOptions,
    span: Option<Box<TurnSpan>>,
    turn: Unfinished,
    link: Arc<Link>,
    capacity: Arc<Notify>,
) {
    let channel = &turn.0;
    if let Err(error) = prompt.limits() {
        return fail_one_shot(channel, span, error);
    }
    let (mut prompt, mut options) = (prompt, options);
    output::move_to_session(&mut prompt, &mut options);
    let started = tokio::select! {
        started = options.start() => started,
        () = link.until_cancelled() => {
            if let Some(span) = span {
                span.cancel();
            }
            return channel.finish(Ok(PromptResult::empty(TurnStatus::Cancelled)));
        }
    };
    let session = match started {
        Ok(session) => session,
        Err(error) => return fail_one_shot(channel, span, error),
    };
    match session.send_prompt(Arc::clone(channel), prompt, span) {
        Ok(key) => link.connect(Arc::clone(&session.shared), key),
        Err(error) => return channel.finish(Err(error)),
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
}
