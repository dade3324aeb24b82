//! The tool calls, rejections and failures of a turn, as its result lists them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::statements::Known;
use crate::messages::{Content, ContentPart, HandlerKind, PolicyDecision, ToolCallInfo, ToolReturnValue};
use crate::telemetry::cut_at;

/// The limit of calls in an outcome, and of rejections and failures.
pub(super) const MAX_CALLS: usize = 10_000;

pub(super) const MAX_REPORTS: usize = 1000;

/// The limit of one output in an outcome, and of all arguments and outputs together, in bytes.
pub(super) const MAX_OUTPUT: usize = 256 << 10;

pub(super) const MAX_KEPT: usize = 4 << 20;

/// The limit of all ids, names, paths, descriptions and errors' texts in an outcome, in bytes.
pub(super) const MAX_DESCRIBED: usize = 8 << 20;

/// The limit of a name, a description or an error's text in an outcome, in bytes.
pub(super) const MAX_TEXT: usize = 4 << 10;

/// One tool call of a turn, in [`PromptResult::tool_calls`](crate::PromptResult::tool_calls).
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(result: &kimi_agent::PromptResult) {
///     for call in &result.tool_calls {
///         println!("{} took {:?}", call.name, call.duration);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCallRecord {
    /// The id of the call, as the model made it.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, parsed. Absent if they are not a JSON object or did not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// The tool's output; of a result without output, its message. If the turn ended before the call did, it is what the call had
    /// shown, or absent. An output above 256 KiB is cut, and ends with a line that says so: `[… 123 more bytes]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Content>,
    /// Whether the tool failed; absent if the turn ended before the call did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// The time from the last piece of the arguments to the result; it includes the wait for an approval. Absent if the turn
    /// ended before the call did.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "milliseconds")]
    pub duration: Option<Duration>,
}

/// A duration as a number of milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(in super::super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(|duration| duration.as_secs_f64() * 1e3).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let number = Option::<f64>::deserialize(deserializer)?;
        number.map(|number| Duration::try_from_secs_f64(number / 1e3).map_err(D::Error::custom)).transpose()
    }
}

/// The reason for a rejection.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(result: &kimi_agent::PromptResult) {
///     let unanswered = result.rejected.iter().filter(|rejected| rejected.by == kimi_agent::RejectedBy::NoHandler);
///     println!("{} requests had no handler", unanswered.count());
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RejectedBy {
    /// The session has no `on_approval`, or no reader of the turn answers manually.
    NoHandler,
    /// `on_approval`, or `respond()`.
    Handler,
    /// `on_approval` failed, or returned something that is not an answer.
    HandlerFailed,
    /// A rule of the session's policy.
    Policy,
    /// The turn was cancelled, or ended, before there was an answer.
    Cancelled,
}

impl RejectedBy {
    /// Returns the word for the reason: `no_handler`, `handler`, `handler_failed`, `policy`, `cancelled`.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert_eq!(kimi_agent::RejectedBy::NoHandler.as_str(), "no_handler");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoHandler => "no_handler",
            Self::Handler => "handler",
            Self::HandlerFailed => "handler_failed",
            Self::Policy => "policy",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An approval that was rejected, in [`PromptResult::rejected`](crate::PromptResult::rejected).
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(result: &kimi_agent::PromptResult) {
///     for rejected in &result.rejected {
///         println!("{}: {}", rejected.description, rejected.by.as_str());
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RejectedApproval {
    /// The tool call that needed the approval; absent if the agent never named the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<ToolCallInfo>,
    /// The action, as the request described it. For a call that was denied before the agent asked: the model's description of
    /// the command, the command, or the name of the tool. Above 4 KiB it is cut.
    pub description: String,
    /// The reason.
    pub by: RejectedBy,
    /// Of a rejection by the policy: the reason, as a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of a rejection by the policy: the part of the call that decided, for example a simple command or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

/// A handler that failed, in [`PromptResult::handler_failures`](crate::PromptResult::handler_failures).
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(result: &kimi_agent::PromptResult) {
///     for failure in &result.handler_failures {
///         eprintln!("{:?}: {}", failure.handler, failure.message);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HandlerFailure {
    /// The kind of handler, for example `approval` or `tool`.
    pub handler: HandlerKind,
    /// The tool call that the handler was called for. Absent without a tool call, or if the agent never named the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<ToolCallInfo>,
    /// The error. Above 4 KiB it is cut.
    pub message: String,
}

/// The tool calls, rejections and failures of a turn, for its outcome.
#[derive(Debug, Default)]
pub(in super::super) struct Record {
    pub(in super::super) tool_calls: Vec<ToolCallRecord>,
    pub(in super::super) rejected: Vec<RejectedApproval>,
    pub(in super::super) handler_failures: Vec<HandlerFailure>,
    kept: usize,
    described: usize,
    /// Whether the log says that the outcome is incomplete.
    is_full: bool,
}

impl Record {
    /// Adds a call that began. Returns its place.
    pub(super) fn begun(&mut self, id: &str, name: &str) -> Option<usize> {
        if self.tool_calls.len() >= MAX_CALLS {
            return None;
        }
        let (id, name) = (short(id), short(name));
        if !self.takes_description(id.len() + name.len()) {
            return None;
        }
        self.tool_calls.push(ToolCallRecord {
            id,
            name,
            arguments: None,
            output: None,
            is_error: None,
            duration: None,
        });
        Some(self.tool_calls.len() - 1)
    }

    pub(super) fn rename(&mut self, place: usize, name: &str) {
        if self.tool_calls[place].name == name {
            return;
        }
        let name = short(name);
        if self.tool_calls[place].name != name && self.takes_description(name.len()) {
            self.tool_calls[place].name = name;
        }
    }

    /// Counts a description. Returns whether the outcome keeps it.
    fn takes_description(&mut self, size: usize) -> bool {
        let fits = size <= MAX_DESCRIBED - self.described;
        if fits {
            self.described += size;
        } else if !std::mem::replace(&mut self.is_full, true) {
            tracing::warn!(
                limit = MAX_DESCRIBED,
                "the texts of the turn's calls and requests are too large: its result leaves some out"
            );
        }
        fits
    }

    pub(super) fn ended(
        &mut self,
        place: usize,
        known: &Known,
        value: &ToolReturnValue,
        end: Option<(bool, Duration)>,
    ) {
        self.keep_arguments(place, known);
        let output = self.keep_output(value);
        let call = &mut self.tool_calls[place];
        call.output = Some(output);
        (call.is_error, call.duration) = end.unzip();
    }

    pub(super) fn keep_arguments(&mut self, place: usize, known: &Known) {
        if self.take_room(known.size) {
            self.tool_calls[place].arguments.clone_from(&known.call.arguments);
        }
    }

    pub(super) fn take_room(&mut self, size: usize) -> bool {
        let fits = size <= MAX_KEPT - self.kept;
        if fits {
            self.kept += size;
        }
        fits
    }

    fn keep_output(&mut self, value: &ToolReturnValue) -> Content {
        let room = MAX_OUTPUT.min(MAX_KEPT - self.kept);
        let output = match &value.output {
            Content::Text(text) if text.is_empty() => cut([&*value.message], room, 0).into(),
            Content::Text(text) => cut([&**text], room, 0).into(),
            Content::Parts(parts) => {
                let texts = || {
                    parts
                        .iter()
                        .filter_map(|part| if let ContentPart::Text(part) = part { Some(&*part.text) } else { None })
                };
                let size: usize = parts.iter().map(part_size).sum();
                if size <= room {
                    self.kept += size;
                    return value.output.clone();
                }
                let others = size - texts().map(str::len).sum::<usize>();
                cut(texts(), room, others).into()
            }
        };
        if let Content::Text(text) = &output {
            self.kept += text.len().min(room);
        }
        output
    }

    fn keep_call(&mut self, known: Option<Known>) -> Option<ToolCallInfo> {
        let Known { call, size } = known?;
        let paths = |call: &ToolCallInfo| -> usize {
            call.locations.iter().chain(&call.diffs).flatten().map(|path| path.len() + size_of::<String>()).sum()
        };
        let (id, name) = (short(&call.id), short(&call.name));
        if !self.takes_description(id.len() + name.len()) {
            return None;
        }
        let (fits, has_paths) = (self.take_room(size), self.takes_description(paths(&call)));
        Some(ToolCallInfo {
            id,
            name,
            arguments: call.arguments.clone().filter(|_| fits),
            kind: call.kind.clone(),
            locations: call.locations.clone().filter(|_| has_paths),
            diffs: call.diffs.clone().filter(|_| has_paths),
            changed: call.changed,
            extra: Default::default(),
        })
    }

    /// Adds an approval that was rejected. The description is short.
    pub(in super::super) fn rejected(&mut self, known: Option<Known>, description: String, by: RejectedBy) -> bool {
        let fits = self.rejected.len() < MAX_REPORTS && self.takes_description(description.len());
        if fits {
            let tool_call = self.keep_call(known);
            self.rejected.push(RejectedApproval { tool_call, description, by, reason: None, part: None });
        }
        fits
    }

    /// Adds a call that the policy denied.
    pub(in super::super) fn denied(&mut self, known: Known, description: &str, decision: &PolicyDecision) {
        if self.rejected(Some(known), short(description), RejectedBy::Policy) {
            let mut kept =
                |text: &Option<String>| text.as_deref().map(short).filter(|text| self.takes_description(text.len()));
            let (reason, part) = (kept(&decision.reason), kept(&decision.part));
            if let Some(rejected) = self.rejected.last_mut() {
                (rejected.reason, rejected.part) = (reason, part);
            }
        }
    }

    /// Adds a handler that failed.
    pub(in super::super) fn failed(&mut self, handler: HandlerKind, known: Option<Known>, message: &str) {
        let message = short(message);
        if self.handler_failures.len() < MAX_REPORTS && self.takes_description(message.len()) {
            let tool_call = self.keep_call(known);
            self.handler_failures.push(HandlerFailure { handler, tool_call, message });
        }
    }
}

/// Cuts a description or an error's text to the limit of an outcome.
pub(in super::super) fn short(text: &str) -> String {
    cut([text], MAX_TEXT, 0)
}

/// Returns the beginning of a text that comes in pieces. `more` is the number of further bytes that are left out.
pub(super) fn cut<'a>(pieces: impl IntoIterator<Item = &'a str>, room: usize, more: usize) -> String {
    let (mut text, mut left_out) = (String::new(), more);
    for piece in pieces {
        let fits = if left_out == more { room - text.len() } else { 0 };
        let beginning = cut_at(piece, fits);
        text.push_str(beginning);
        left_out += piece.len() - beginning.len();
    }
    if left_out > 0 {
        text.push_str(&format!("\n[… {left_out} more bytes]"));
    }
    text
}

/// Returns the approximate size of a part in memory.
pub(super) fn part_size(part: &ContentPart) -> usize {
    match part {
        ContentPart::Text(part) => part.text.len(),
        ContentPart::Think(part) => part.think.len() + part.encrypted.as_ref().map_or(0, String::len),
        ContentPart::ImageUrl(part) => part.image_url.url.len(),
        ContentPart::AudioUrl(part) => part.audio_url.url.len(),
        ContentPart::VideoUrl(part) => part.video_url.url.len(),
        ContentPart::Resource(part) => {
            [&part.text, &part.data].into_iter().flatten().map(String::len).sum::<usize>() + part.uri.len()
        }
        other => serde_json::to_string(other).map_or(0, |json| json.len()),
    }
}
