//! Log records about agents that are quiet, and about handlers that fail, are missing or take long. Each is a warning once a session, and a debug record
//! afterwards.

use std::time::{Duration, Instant};

use super::Connection;
use crate::messages::{Event, HandlerKind};
use crate::printable::printable_line;
use crate::telemetry::cut_at;

/// How many different warnings a session logs.
const MAX_WARNINGS: usize = 1024;
/// How much of a name distinguishes warnings, in bytes.
const MAX_NAME: usize = 256;
/// How many running tools a record names.
const MAX_NAMED: usize = 3;
/// The target of these records, also in the host's log.
pub(super) const HANDLERS: &str = "kimi_agent.handlers";
/// How the bindings report that the host cancelled a handler, for example because its event loop ends.
const HANDLER_CANCELLED: &str = "cancelled";

/// Returns the text of a failure for the log. The class of an exception is in the traceback that the host logs.
pub(super) fn logged_failure<'a>(message: &'a str, reported: &'a str) -> &'a str {
    if reported.ends_with(message) { message } else { reported }
}

/// Returns a duration for the log, in tenths of a second if it is longer than a second.
fn rounded(waited: Duration) -> Duration {
    let millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(if millis < 1000 { millis } else { millis / 100 * 100 })
}

impl Connection {
    /// Returns whether this is to be logged as a warning: only the first time.
    pub(super) fn warns(&mut self, kind: &HandlerKind, name: Option<&str>) -> bool {
        let cut = |name: &str| cut_at(name, MAX_NAME).to_owned();
        let warned = self.warned.get_or_insert_default();
        warned.len() < MAX_WARNINGS && warned.insert((cut(kind.as_str()), name.map(cut)))
    }

    /// Logs a warning, once a session.
    pub(super) fn warn_once(&mut self, text: &'static str) {
        let warned = self.warned.get_or_insert_default();
        if warned.len() < MAX_WARNINGS && warned.insert((text.to_owned(), None)) {
            tracing::warn!("{text}");
        }
    }

    pub(super) fn log_failure(&mut self, kind: &HandlerKind, name: Option<&str>, error: &str) {
        // A warning about a missing handler has no name, or the name of an unknown tool.
        let handler = kind.as_str();
        let events = "HandlerFailed events report each failure, this log the first";
        let (answer, further) = match kind {
            HandlerKind::Output => ("the model gets the error, and can return another value", events),
            HandlerKind::Event => ("it gets the next event", "Further failures are records of the level debug"),
            _ => ("the agent got the default answer", events),
        };
        if error == HANDLER_CANCELLED {
            tracing::debug!(target: HANDLERS, handler, name, "a handler was cancelled; {answer}");
        } else if self.warns(kind, Some(name.unwrap_or_default())) {
            tracing::warn!(
                target: HANDLERS,
                handler,
                name,
                error,
                "a handler failed; {answer}. {further}"
            );
        } else {
            tracing::debug!(target: HANDLERS, handler, name, error, "a handler failed again");
        }
    }

    /// Logs that a request has waited this long for its answer. `subject` is the action, the tool or the hook.
    pub(super) fn log_waiting(&mut self, kind: &HandlerKind, manual: bool, subject: &str, waited: Duration) {
        let handler = kind.as_str();
        let subject = &*self.shown(subject);
        let is_named = matches!(kind, HandlerKind::Tool | HandlerKind::Hook);
        let cause = format!("waiting {}", if is_named { subject } else { "" });
        if !self.warns(kind, Some(&cause)) {
            tracing::debug!(target: HANDLERS, handler, subject, ?waited, "a request still waits for an answer");
            return;
        }
        let waited = rounded(waited);
        let option = match kind {
            HandlerKind::Tool => "tools".to_owned(),
            HandlerKind::Hook => "hooks".to_owned(),
            HandlerKind::Output => "output".to_owned(),
            kind => self.sources.naming.name(&format!("on_{}", kind.as_str())),
        };
        let missing = if manual { "the program has not called `respond()`" } else { "the handler has not returned" };
        tracing::warn!(
            target: HANDLERS,
            handler,
            subject,
            "the agent has waited {waited:?} for an answer of `{option}`: {missing}. Further waits are not logged"
        );
    }

    /// Logs once in a turn that the agent has sent nothing for a long time, and what it is busy with.
    pub(super) fn log_quiet(&mut self, now: Instant) {
        let agent_waits = self.agent_waits();
        let Some(turn) = &mut self.turn else { return };
        if turn.quiet_deadline(&self.timing, agent_waits).is_none_or(|deadline| now < deadline) {
            return;
        }
        turn.is_quiet_logged = true;
        let waited = rounded(now.duration_since(turn.last_activity));
        let option = self.sources.naming.name("idle_timeout");
        let (tools, hidden) = self.tool_calls.running(MAX_NAMED);
        if tools.is_empty() {
            tracing::warn!(
                "the agent has sent nothing for {waited:?}: it waits for its model, or is stuck. `{option}` ends such a turn. \
                 Further silences of this turn are not logged"
            );
        } else {
            let more = if hidden == 0 { String::new() } else { format!(" and {hidden} more") };
            let tools = tools.iter().map(|name| printable_line(name)).collect::<Vec<_>>().join(", ");
            tracing::info!(
                "the agent has sent nothing for {waited:?}, while it runs {tools}{more}. `{option}` ends such a turn. Further \
                 silences of this turn are not logged"
            );
        }
    }

    /// Logs once that requests of this kind get the default answer.
    pub(super) fn log_missing(&mut self, request: &Event, undelivered: bool) {
        if undelivered {
            if self.warns(&HandlerKind::Event, None) {
                let option = self.sources.naming.name("on_event");
                tracing::warn!(
                    target: HANDLERS,
                    "the agent asked for something outside a turn, and got the default answer because no handler gets \
                     events outside turns: set `{option}`. Further such requests are not logged"
                );
            }
            return;
        }
        match request {
            Event::ApprovalRequest(request) if self.warns(&HandlerKind::Approval, None) => {
                let (option, yolo) = (self.sources.naming.name("on_approval"), self.sources.naming.name("yolo"));
                tracing::warn!(
                    target: HANDLERS,
                    action = self.shown(&request.action),
                    "the agent asked for an approval, and it was rejected because no handler answers: set `{option}`, or `{yolo}` to \
                     approve everything. Further rejections are not logged"
                );
            }
            Event::QuestionRequest(_) if self.warns(&HandlerKind::Question, None) => {
                let option = self.sources.naming.name("on_question");
                tracing::warn!(
                    target: HANDLERS,
                    "the agent asked a question, and it was dismissed because no handler answers: set `{option}`. Further \
                     dismissals are not logged"
                );
            }
            Event::ToolCallRequest(call) if self.warns(&HandlerKind::Tool, None) => {
                let option = self.sources.naming.name("tools");
                let name = self.shown(&call.name);
                tracing::warn!(
                    target: HANDLERS,
                    name,
                    "the agent called a tool that is not among the session's `{option}`, and got an error. Further such calls \
                     are not logged"
                );
            }
            Event::HookRequest(hook) if self.warns(&HandlerKind::Hook, None) => {
                let option = self.sources.naming.name("hooks");
                let subscription = self.shown(&hook.subscription_id);
                tracing::warn!(
                    target: HANDLERS,
                    subscription,
                    "the agent asked a hook that is not among the session's `{option}`, and it was allowed. Further such \
                     requests are not logged"
                );
            }
            _ => {}
        }
    }
}
