//! Messages about calls in another order: a result before its call, and a call that the agent describes after its end.

use std::collections::HashMap;
use std::time::Duration;

use super::record::{MAX_OUTPUT, part_size};
use super::statements::object;
use super::{MAX_ID, OpenCall, Record, short};
use crate::jsonrpc::framing::decoded_size;
use crate::messages::{Content, ToolCall, ToolResult, ToolReturnValue};

/// The limit of results that wait for their calls.
const MAX_EARLY: usize = 16;

/// The field of a call that the agent has described only after its end.
pub(crate) const LATE: &str = "late";

/// The field of a call that began in an earlier turn, and of its result.
pub(crate) const EARLIER_TURN: &str = "earlier_turn";

/// Returns whether the call has ended, and the event only completes its description.
pub(crate) fn is_late(call: &ToolCall) -> bool {
    call.extra.get(LATE).is_some_and(|late| late == true)
}

/// Results of calls that the agent has not named yet in this turn.
#[derive(Debug, Default)]
pub(super) struct EarlyResults(Option<Box<Results>>);

/// Results by agent and id. They are rare, and each session would have the size of the table.
#[derive(Debug, Default)]
struct Results(HashMap<(String, String), ToolReturnValue>);

impl EarlyResults {
    /// Keeps a result of a call that is not known in this turn.
    pub(super) fn keep(&mut self, agent: &str, result: &ToolResult, record: &Record) {
        let id = &result.tool_call_id;
        let size = match &result.return_value.output {
            Content::Text(text) => text.len(),
            Content::Parts(parts) => parts.iter().map(part_size).sum(),
        };
        let is_small = size.max(result.return_value.message.len()) <= MAX_OUTPUT && id.len().max(agent.len()) <= MAX_ID;
        let is_known = || record.tool_calls.iter().any(|call| call.id == short(id));
        let count = self.0.as_ref().map_or(0, |known| known.0.len());
        if is_small && count < MAX_EARLY && !is_known() {
            let ToolReturnValue { is_error, output, message, .. } = &result.return_value;
            let kept = ToolReturnValue {
                is_error: *is_error,
                message: message.clone(),
                ..ToolReturnValue::ok(output.clone())
            };
            self.0.get_or_insert_default().0.insert((agent.to_owned(), id.clone()), kept);
        }
    }

    /// Forgets the result, because the call has another one.
    pub(super) fn forget(&mut self, agent: &str, id: &str) {
        self.take(agent, id);
    }

    fn take(&mut self, agent: &str, id: &str) -> Option<ToolReturnValue> {
        self.0.as_mut()?.0.remove(&(agent.to_owned(), id.to_owned()))
    }

    /// Ends a call that has no other result when its turn ends. Returns whether there was a result.
    pub(super) fn end(&mut self, agent: &str, id: &str, open: &mut OpenCall, record: &mut Record) -> bool {
        let Some(place) = open.record else { return false };
        let Some(value) = self.take(agent, id) else { return false };
        record.ended(place, &open.known(id), &value, Some((value.is_error, Duration::ZERO)));
        true
    }
}

impl Record {
    /// Completes a call that has ended.
    pub(super) fn complete(&mut self, call: &ToolCall) {
        let id = short(&call.id);
        let Some(place) = self.tool_calls.iter().rposition(|known| known.id == id) else { return };
        if self.tool_calls[place].name.is_empty() {
            self.rename(place, &call.function.name);
        }
        let text = call.function.arguments.as_deref().filter(|text| !text.is_empty());
        let is_unknown = self.tool_calls[place].arguments.as_ref().is_none_or(|arguments| arguments.is_empty());
        if let Some(arguments) = text.filter(|_| is_unknown).and_then(object)
            && self.take_room(text.map_or(0, |text| decoded_size(text.as_bytes())))
        {
            self.tool_calls[place].arguments = Some(arguments);
        }
    }
}
