//! Functions for the bindings only: options as JSON, sessions whose handlers run in the host, and the inner state of a
//! turn. The crate `kimi-agent` does not re-export this module.

use std::time::Duration;

pub use crate::answers::{parse_answers, parse_approval, parse_file, parse_hook_decision, parse_terminal_result};
pub use crate::connection::TurnLimits;
pub use crate::driver::event_channel::EventChannel;
pub use crate::driver::served_turn;
pub use crate::driver::shared::Shared;
pub use crate::driver::turn_reader::TurnReader;
pub use crate::error::fields as error_fields;
pub use crate::naming::Naming;
pub use crate::options::{
    HookSpec, ToolSpec, agent_options, check_names, close_timeout, for_session, kind_of, on_event_async, parse_hook,
    parse_tool, prompt_options, session_options, too_deep, wrong_type,
};
pub use crate::session::{LIVE, TurnInner, one_shot_on};

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

pub use kimi_agent_protocol::budget::parse_budget;
pub use kimi_agent_protocol::output::{parse_output, parse_violations};

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
/// [`Error::InvalidOption`](crate::Error::InvalidOption) names the option.
pub fn limits(prompt: &PromptOptions) -> Result<TurnLimits> {
    prompt.limits()
}

/// Closes an agent in the background.
pub fn begin_close(agent: &Agent) {
    agent.begin_close();
}

/// Returns the session ID that the options name.
pub fn session_id(options: &SessionOptions) -> Option<&str> {
    options.session_id.as_deref()
}

/// Makes options of a session that continues the conversation of another.
///
/// # Errors
/// [`Error::InvalidOption`](crate::Error::InvalidOption) if the options name another session.
pub fn resuming(options: SessionOptions, id: String) -> Result<SessionOptions> {
    options.resuming(id)
}

/// Makes options of a session that begins with a copy of the conversation of another.
///
/// # Errors
/// [`Error::InvalidOption`](crate::Error::InvalidOption) if the options name another session.
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

/// Sets the timeout of a tool, if the host has one.
pub fn set_tool_timeout(tool: &mut ExternalTool, timeout: Option<Duration>) {
    tool.timeout = timeout;
}

/// Sets the `output` of a prompt, as JSON.
///
/// # Errors
/// [`Error::InvalidOption`](crate::Error::InvalidOption) for a wrong value.
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
