//! Functions for the bindings only: options as JSON, sessions whose handlers run in the host, and the inner state of a
//! turn. The crate `kimi-agent` does not re-export this module.

use std::any::Any;
use std::time::Duration;

pub use crate::answers::{parse_answers, parse_approval, parse_file, parse_hook_decision, parse_terminal_result};
#[cfg(feature = "batch")]
pub use crate::batch::{
    Control as BatchControl, Jobs, UnreadLines, check_batch_names, read_journal, running_batches, set_runner,
    take_batch_options,
};
pub use crate::connection::{TextRun, TurnLimits};
pub use crate::driver::event_channel::EventChannel;
pub use crate::driver::event_queue::QueuedEvents;
pub use crate::driver::shared::Shared;
pub use crate::driver::turn_reader::TurnReader;
pub use crate::driver::{served_span, served_turn};
pub use crate::error::fields as error_fields;
pub use crate::naming::Naming;
pub use crate::options::{
    HookSpec, ToolSpec, agent_options, check_names, check_prompt_names, close_timeout, for_session, kind_of,
    on_event_async, parse_content, parse_hook, parse_tool, prompt_options, session_options, too_deep, wrong_type,
};
pub use crate::session::{LIVE, LoginOffer, TurnInner, one_shot_on};
pub use crate::telemetry::{GivenSpan, PostingHost, TelemetryHost};
#[cfg(feature = "testing")]
pub use crate::testing::cassette::open_cassette;

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
#[cfg(feature = "batch")]
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
#[cfg(feature = "batch")]
use tokio::runtime::Handle;

pub use kimi_agent_protocol::budget::parse_budget;
pub use kimi_agent_protocol::output::{parse_output, parse_violations};
use kimi_agent_protocol::recording::Redactor;
use kimi_agent_protocol::telemetry::{SpanStart, TraceContext};

#[cfg(any(doc, feature = "batch"))]
use crate::Error;
#[cfg(feature = "batch")]
use crate::batch::{self, Batch, BatchOptions, Job};
use crate::dialect::AuthMethod;
use crate::messages::Content;
use crate::recording::RecordingFile;
use crate::telemetry::{SessionTelemetry, TelemetryOptions};
use crate::{
    Agent, ExternalTool, HandlerError, Hook, Output, OutputError, PromptOptions, Replay, Result, Session,
    SessionOptions, Turn,
};

/// Returns what a session's handles and its driver share.
pub fn shared(session: &Session) -> &Arc<Shared> {
    session.shared()
}

/// Returns the inner state of a turn.
pub fn into_inner(turn: Turn) -> Arc<TurnInner> {
    turn.into_inner()
}

/// Returns the events of a replay, with its outcome.
pub fn replay_channel(replay: &Replay) -> &Arc<EventChannel> {
    &replay.channel
}

/// Checks the options of a prompt and returns its limits.
///
/// # Errors
/// [`Error::InvalidOption`] names the option.
pub fn limits(prompt: &PromptOptions) -> Result<TurnLimits> {
    prompt.limits()
}

/// Returns what replaces the secrets of a session.
///
/// # Errors
/// [`Error::InvalidOption`] if a pattern of `redact` is not a regular expression.
pub fn secrets_redactor(options: &SessionOptions) -> Result<Redactor> {
    options.secrets_redactor()
}

/// Returns what an agent shows of itself: the name of its program, its state, and the id of the process that its sessions share.
pub fn described(agent: &Agent) -> (&str, &'static str, Option<u32>) {
    let (state, pid) = agent.state();
    (agent.name(), state, pid)
}

/// Closes an agent in the background.
pub fn begin_close(agent: &Agent) {
    agent.begin_close();
}

/// Returns the ways to log in that an agent of ACP offers, with its command line.
///
/// # Errors
/// The errors of the agent's start; [`Error::Timeout`] if it takes longer than `handshake_timeout`.
pub async fn login_offer(agent: &Agent) -> Result<LoginOffer> {
    agent.login_ways().await
}

/// Returns the ways to log in that the agent of a session offers.
pub fn auth_methods(session: &Session) -> &[AuthMethod] {
    session.auth_methods()
}

/// Returns the program of the agent that the options name, with its first arguments.
///
/// # Errors
/// [`Error::Spawn`] if the program does not exist.
pub fn program(options: &SessionOptions) -> Result<(PathBuf, Vec<OsString>)> {
    options.program()
}

/// Returns options with values that a recording has: in snake case, with durations in seconds.
///
/// # Errors
/// [`Error::InvalidOption`] for a value that is not what its option expects.
pub fn recorded_options(values: Map<String, Value>) -> Result<SessionOptions> {
    Ok(SessionOptions { language: SessionOptions::default().language, ..session_options(values, Naming::Snake)? })
}

/// The recording of a session that the options open.
#[derive(Debug, Default)]
pub struct Recorded(Arc<OnceLock<Arc<RecordingFile>>>);

impl Recorded {
    /// Returns why the recording could not be written to its end. It is complete when the session is closed.
    pub fn problem(&self) -> Option<&str> {
        self.0.get().and_then(|file| file.problem())
    }
}

/// Returns the options, and the recording of the session that they open.
pub fn recorded(mut options: SessionOptions) -> (SessionOptions, Recorded) {
    let recorded = Recorded::default();
    options.recorded_at = Some(Arc::clone(&recorded.0));
    (options, recorded)
}

/// Returns the session ID that the options name.
pub fn session_id(options: &SessionOptions) -> Option<&str> {
    options.session_id.as_deref()
}

/// Makes options of a session that continues the conversation of another.
///
/// # Errors
/// [`Error::InvalidOption`] if the options name another session.
pub fn resuming(options: SessionOptions, id: String) -> Result<SessionOptions> {
    options.resuming(id)
}

/// Makes options of a session that begins with a copy of the conversation of another.
///
/// # Errors
/// [`Error::InvalidOption`] if the options name another session.
pub fn forking(options: SessionOptions, id: String) -> Result<SessionOptions> {
    options.forking(id)
}

/// Opens a session of an agent with an id that the host chose.
///
/// # Errors
/// The errors of [`Agent::create_session`].
pub async fn open_as(agent: &Agent, options: Box<SessionOptions>, name: String) -> Result<Session> {
    agent.open_as(options, name).await
}

/// Opens a session with an agent of its own, with an id that the host chose.
///
/// # Errors
/// The errors of [`SessionOptions::start`].
pub async fn start_as(options: Box<SessionOptions>, name: String) -> Result<Session> {
    options.start_as(name).await
}

/// Reads a job with the names and units of the host. A job with a mistake fails when it is its turn.
#[cfg(feature = "batch")]
pub fn parse_job(job: Value, naming: Naming) -> Job {
    Job::from_json_named(job, naming)
}

/// Reads a job in which the binding has found this mistake. It fails with the error when it is its turn.
#[cfg(feature = "batch")]
pub fn failing_job(job: Value, naming: Naming, problem: Error) -> Job {
    Job::from_json_named(job, naming).failing(problem)
}

/// Makes a job that fails with this error, in place of one that cannot be read.
#[cfg(feature = "batch")]
pub fn unreadable_job(problem: Error) -> Job {
    Job::unreadable(problem)
}

/// Starts a batch on this runtime.
#[cfg(feature = "batch")]
pub fn start_batch(jobs: Pin<Box<dyn Jobs + Send>>, options: BatchOptions, runtime: Handle) -> Batch {
    batch::start(jobs, options, Some(runtime))
}

/// Returns the part of a batch that cancels it.
#[cfg(feature = "batch")]
pub fn batch_control(batch: &Batch) -> Arc<BatchControl> {
    batch.control()
}

/// Sets the timeout of a tool, if the host has one.
pub fn set_tool_timeout(tool: &mut ExternalTool, timeout: Option<Duration>) {
    tool.timeout = timeout;
}

/// Sets the `output` of a prompt, as JSON.
///
/// # Errors
/// [`Error::InvalidOption`] for a wrong value.
pub fn with_output(mut prompt: PromptOptions, output: Value, naming: Naming) -> Result<PromptOptions> {
    let read = prompt_options("".into(), [("output".to_owned(), output)].into_iter().collect(), naming)?;
    prompt.output = read.output;
    Ok(prompt)
}

/// Sets the check of a prompt's `output`, if it has one. `check` returns the violations.
pub fn check_prompt_output<F, R>(prompt: &mut PromptOptions, check: F)
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = std::result::Result<Vec<OutputError>, HandlerError>> + Send + 'static,
{
    prompt.output = prompt.output.take().map(|output| checked(*output, check));
}

/// Sets the check of a session's `output`, if it has one. `check` returns the violations.
pub fn check_session_output<F, R>(options: &mut SessionOptions, check: F)
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = std::result::Result<Vec<OutputError>, HandlerError>> + Send + 'static,
{
    options.output = options.output.take().map(|output| checked(*output, check));
}

fn checked<F, R>(output: Output, check: F) -> Box<Output>
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = std::result::Result<Vec<OutputError>, HandlerError>> + Send + 'static,
{
    Box::new(output.checked_by(Arc::new(move |value| Box::pin(check(value)))))
}

/// Sets the matcher and the timeout of a hook, if the host has them.
pub fn set_hook_limits(hook: &mut Hook, matcher: Option<String>, timeout: Option<Duration>) {
    hook.matcher = matcher;
    hook.timeout = timeout;
}

/// Makes the session report its spans and metrics to this host. `captures_content`: `None` if the environment decides.
/// `context`: the context in which the session is opened.
pub fn set_telemetry(
    options: &mut SessionOptions,
    host: Arc<dyn TelemetryHost>,
    captures_content: Option<bool>,
    context: TraceContext,
) {
    let telemetry = TelemetryOptions { host, captures_content, context: Some(context) };
    options.telemetry = Some(Box::new(telemetry));
}

/// Sets the span of the turn that the prompt begins, which the host has started.
pub fn give_span(prompt: &mut PromptOptions, span: GivenSpan) {
    prompt.span = Some(span);
}

/// Returns the operation that starts the span of the session's next turn. `None` without telemetry. `has_output`: the prompt has
/// an `output` of its own.
pub fn start_of_turn(session: &Session, content: &Content, has_output: bool) -> Option<SpanStart> {
    session.start_of_turn(content, has_output)
}

/// Returns the operation that starts the span of a turn with a session of its own. `None` without telemetry.
pub fn start_of_one_shot(options: &SessionOptions, content: &Content, has_output: bool) -> Option<SpanStart> {
    let telemetry = SessionTelemetry::of(options, None)?;
    Some(telemetry.start(content, has_output || options.output.is_some()))
}

/// Returns the message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}
