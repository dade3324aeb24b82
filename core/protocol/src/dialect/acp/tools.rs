//! Tool calls. The agent sends the whole call with each update; this module converts the updates to parts and one
//! result.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use agent_client_protocol_schema::v1::{ToolCallContent, ToolCallStatus, ToolCallUpdateFields};
use serde_json::{Map, Value};

use self::earlier::EarlierCalls;
use self::late::ReportedEnd;
pub(super) use self::questions::AskedQuestion;
pub(super) use self::readable::{is_plain, readable};
use super::{Acp, meta};
use crate::dialect::CallDetails;
use crate::json::parsed_object;
use crate::messages::{DisplayBlock, Event};

mod arguments;
mod completed;
mod description;
mod earlier;
mod late;
mod lifecycle;
mod output;
mod questions;
mod readable;
mod restated;

/// The limit of remembered tool calls, open or ended. No model makes as many at once.
const MAX_CALLS: usize = 1024;
/// The limit of the text of all remembered calls of a session and its subagents, in bytes. Beyond it the oldest are forgotten.
const MAX_KEPT: usize = 32 << 20;
/// The limit of titles, kinds and paths that are remembered of a call, each.
const MAX_DETAILS: usize = 64;
/// The limit of the text of a title or path that is remembered, in bytes.
const MAX_DETAIL: usize = 16 << 10;

/// The limit of the size of a call that is known after its turn, in bytes.
const MAX_LATE: usize = 64 << 10;
/// The message in the result of a call that has not ended with its turn.
const UNFINISHED: &str = "the turn ended before the call did; the output is what the call had shown";

/// The tool calls of a turn, oldest first.
#[derive(Debug, Default)]
pub(super) struct Tools {
    calls: VecDeque<Call>,
    /// The call to which the next part belongs.
    last: Option<String>,
    earlier: EarlierCalls,
    order: u64,
    kept: Arc<Kept>,
}

/// The counts of a session and its subagents together.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The size of the calls, in bytes.
    bytes: AtomicUsize,
    /// Whether a call was forgotten in the turn that had not ended. The agent may say anything about it now.
    has_forgotten: AtomicBool,
    /// The number of subagents.
    pub(super) subagents: AtomicUsize,
    /// Whether a subagent was ignored, because there were too many.
    pub(super) has_ignored: AtomicBool,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    /// The arguments that the program has received.
    arguments: String,
    /// Whether the arguments are complete.
    called: bool,
    /// Whether the agent sent an empty object, which may mean that the arguments are not known yet.
    blank: bool,
    ended: bool,
    /// The hash of the arguments of a call that has ended. `None` if there were none.
    ended_with: Option<u64>,
    /// What the agent has reported as the end of the call.
    reported_end: ReportedEnd,
    /// Whether the agent has asked about it.
    is_asked: bool,
    /// Whether the agent has announced it, and not only sent updates or a request.
    is_announced: bool,
    /// Whether an announcement itself has come.
    is_called: bool,
    /// Whether its arguments came after its end. They may be those of another call with the same id.
    is_completed_late: bool,
    /// Whether a request has named another tool, or other arguments.
    is_restated: bool,
    title: Option<String>,
    /// Hashes of the newest title and of the newest text.
    described: (Option<u64>, Option<u64>),
    /// The titles that the agent has sent, the first ones.
    titles: Vec<String>,
    /// Whether the agent has named a kind of tool that changes something.
    may_change_something: bool,
    details: CallDetails,
    about: Map<String, Value>,
    meta: meta::Gathered,
    /// The newest content, without changes of files.
    content: Vec<ToolCallContent>,
    /// The newest raw output with a text, of an update before the end.
    raw_output: Option<Value>,
    /// Whether it has ended only because its turn did.
    is_unfinished: bool,
    /// Whether it may end after its turn.
    outlives_turn: bool,
    /// The arguments of a call that has ended only because its turn did.
    unfinished_arguments: String,
    /// Whether the call began in an earlier turn.
    is_of_earlier_turn: bool,
    display: Vec<DisplayBlock>,
    /// The hashes of the changes in `display`.
    displayed: HashSet<u64>,
    /// The sizes of `about`, `content`, the raw output and `display`, in bytes.
    about_size: usize,
    raw_size: usize,
    content_size: usize,
    display_size: usize,
    /// The size of the call, as it was counted last.
    counted: usize,
}

/// Whether an announcement or an update says that the call has ended.
pub(super) fn is_end(fields: &ToolCallUpdateFields) -> bool {
    matches!(fields.status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed))
}

impl Tools {
    /// Returns the calls of a subagent, which count with those of the session.
    pub(super) fn of_subagent(&self) -> Self {
        Self { kept: Arc::clone(&self.kept), ..Self::default() }
    }

    pub(super) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Forgets the calls of a turn that has ended. Small ones that have not ended with it stay known, because they may end late.
    pub(super) fn clear(&mut self) {
        let mut size = 0;
        self.calls.retain_mut(|call| {
            let is_unfinished = !call.ended || std::mem::take(&mut call.is_unfinished);
            call.outlives_turn |= is_unfinished && call.counted <= MAX_LATE;
            call.ended = true;
            size += if call.outlives_turn { 0 } else { call.counted };
            call.outlives_turn
        });
        self.kept.bytes.fetch_sub(size, Relaxed);
        self.last = None;
    }

    /// Begins a turn of the session itself.
    pub(super) fn begin_turn(&mut self) {
        self.kept.has_forgotten.store(false, Relaxed);
    }

    /// Counts what a message has added to a call. If all calls take too much, the oldest are forgotten.
    pub(super) fn count(&mut self, id: &str) {
        let Some(call) = self.find(id) else { return };
        let size = call.size();
        let before = std::mem::replace(&mut call.counted, size);
        self.kept.bytes.fetch_add(size, Relaxed);
        self.kept.bytes.fetch_sub(before, Relaxed);
        while self.kept.bytes.load(Relaxed) > MAX_KEPT && !self.calls.is_empty() {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(call) = self.calls.pop_front() else { return };
        self.kept.bytes.fetch_sub(call.counted, Relaxed);
        if !call.ended && !self.kept.has_forgotten.swap(true, Relaxed) {
            tracing::warn!(
                "the open tool calls are too many or too large: the oldest are forgotten, and rules ask about further ones"
            );
        }
    }

    /// Returns the results of the calls that have shown output, but have not ended with the turn, and their sizes.
    pub(super) fn unfinished(&mut self, is_failure: bool) -> Vec<(Event, usize)> {
        self.calls.iter_mut().filter_map(|call| call.end_unfinished(is_failure)).collect()
    }

    fn find(&mut self, id: &str) -> Option<&mut Call> {
        self.calls.iter_mut().rev().find(|call| call.id == id)
    }

    /// Returns the agent's name for the tool of a call.
    pub(super) fn name(&self, id: &str) -> Option<&str> {
        self.calls.iter().rev().find(|call| call.id == id).map(|call| &*call.name)
    }

    /// Returns the description of a call besides its name and arguments.
    pub(super) fn details(&self, id: &str) -> CallDetails {
        let known = self.calls.iter().rev().find(|call| call.id == id).map(|call| call.details.clone());
        let is_incomplete = self.kept.has_forgotten.load(Relaxed);
        known.unwrap_or_else(|| CallDetails { is_incomplete, ..CallDetails::default() })
    }

    /// Returns whether a request has described a call as another one.
    pub(super) fn is_restated(&self, id: &str) -> bool {
        self.calls.iter().rev().find(|call| call.id == id).is_some_and(|call| call.is_restated)
    }

    /// Returns the arguments of a call, if they are known.
    pub(super) fn arguments(&self, id: &str) -> Option<Map<String, Value>> {
        let call = self.calls.iter().rev().find(|call| call.id == id)?;
        match &*call.arguments {
            "" if call.blank => Some(Map::new()),
            text => parsed_object(text),
        }
    }

    /// Returns whether the agent has ever reported that the tool of a call runs commands, or changes or deletes data.
    pub(super) fn may_change_something(&self, id: &str) -> bool {
        self.calls.iter().rev().find(|call| call.id == id).is_some_and(|call| call.may_change_something)
    }

    /// Notes that the description of a call lacks something.
    pub(super) fn set_incomplete(&mut self, id: &str) {
        if let Some(call) = self.find(id) {
            call.details.is_incomplete = true;
        }
    }

    fn add(&mut self, mut call: Call) {
        if self.calls.len() == MAX_CALLS {
            self.forget_oldest();
        }
        call.details.is_incomplete |= self.kept.has_forgotten.load(Relaxed);
        self.calls.push_back(call);
    }
}

impl Call {
    /// Returns about how many bytes the call takes.
    fn size(&self) -> usize {
        let texts = [&self.id, &self.name, &self.arguments].into_iter().chain(&self.title).chain(&self.titles);
        let CallDetails { locations, diffs, earlier_locations, earlier_diffs, title, .. } = &self.details;
        let details = [locations, diffs, earlier_locations, earlier_diffs].into_iter().flatten().chain(title);
        let texts: usize = texts.chain(details).map(String::len).sum();
        texts
            + self.displayed.len() * size_of::<u64>()
            + self.meta.size()
            + self.about_size
            + self.content_size
            + self.raw_size
            + self.display_size
    }
}

impl Acp {
    pub(super) fn next_order(&mut self) -> u64 {
        self.tools.order += 1;
        self.tools.order
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1 as acp;
    use serde_json::json;

    use super::*;

    fn call(acp: &mut Acp, id: usize, text: &str) {
        let id = format!("call {id}");
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": text, "kind": "edit"});
        let params = json!({"sessionId": "s", "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string();
        drop(crate::dialect::Dialect::read_line(acp, line.as_bytes()));
    }

    #[test]
    fn each_change_of_a_file_is_displayed_once() {
        let mut call = Call::default();
        for text in ["0", "1", "1"] {
            let diffs = (0..5000).map(|path| ToolCallContent::from(acp::Diff::new(format!("/{path}"), text)));
            assert!(call.take_content(diffs.collect()).is_empty());
        }
        assert_eq!(call.display.len(), 10_000);
        assert!(call.size() > 10_000 * size_of::<DisplayBlock>());
    }

    #[test]
    fn oldest_calls_are_forgotten_beyond_the_limit() {
        let mut acp = Acp::open("s");
        drop(crate::dialect::Dialect::call(&mut acp, "prompt", &crate::dialect::Call::Prompt("go".into())));
        for id in (0..100).map(|id| format!("call {id}")) {
            acp.tools.add(Call { id: id.clone(), name: "x".repeat(4 << 20), ..Call::default() });
            acp.tools.count(&id);
            assert!(acp.tools.kept.bytes.load(Relaxed) <= MAX_KEPT);
        }
        assert!(!acp.tools.calls.is_empty());
        // Rules ask about calls of which something may be forgotten.
        assert!(acp.tools.details("call 0").is_incomplete);
        call(&mut acp, 100, "small");
        assert!(acp.tools.details("call 100").is_incomplete);
        acp.end_turn();
        acp.tools.clear();
        assert!(acp.tools.kept.bytes.load(Relaxed) <= MAX_LATE);
        acp.begin_turn();
        assert_eq!(acp.tools.kept.bytes.load(Relaxed), 0);
        call(&mut acp, 101, "small");
        assert!(!acp.tools.details("call 101").is_incomplete);
    }

    #[test]
    fn calls_of_subagents_count_with_those_of_the_session() {
        let mut acp = Acp::open("s");
        acp.begin_turn();
        let mut child = acp.tools.of_subagent();
        for id in 0..40 {
            let id = format!("call {id}");
            child.add(Call { id: id.clone(), name: "x".repeat(1 << 20), ..Call::default() });
            child.count(&id);
        }
        assert!(acp.tools.kept.bytes.load(Relaxed) <= MAX_KEPT);
        assert!(child.calls.len() < 40);
        assert!(acp.tools.details("call 0").is_incomplete);
    }

    #[test]
    fn title_explains_arguments_only_within_limits() {
        let of = |arguments: &Value| Call { arguments: arguments.to_string(), ..Call::default() };
        assert!(of(&json!({"command": "ls"})).explains("Run ls"));
        assert!(!of(&json!({"command": "ls"})).explains(&format!("Run ls (list {})", "x".repeat(MAX_DETAIL))));
        let many: Map<String, Value> = (0..2 * MAX_DETAILS).map(|n| (format!("k{n:03}"), json!("ls"))).collect();
        assert!(of(&Value::Object(many)).explains("Run ls"));
    }
}
