//! Calls of earlier turns that had not ended with them, because they run in the background.

use std::collections::VecDeque;

use agent_client_protocol_schema::v1::ToolCallUpdateFields;
use serde_json::json;

use super::arguments::hash_of;
use super::{Call, Tools, is_end};
use crate::connection::EARLIER_TURN;
use crate::dialect::Incoming;
use crate::dialect::acp::Acp;
use crate::messages::Event;

/// The limit of calls of earlier turns.
const MAX_EARLIER: usize = 64;

/// The calls of earlier turns that may still end, oldest first. No request is about them until the agent sends an update.
#[derive(Debug, Default)]
pub(super) struct EarlierCalls(VecDeque<Call>);

impl EarlierCalls {
    fn take(&mut self, id: &str) -> Option<Call> {
        let place = self.0.iter().rposition(|call| call.id == id)?;
        self.0.remove(place)
    }

    fn add(&mut self, call: Call) {
        self.take(&call.id);
        if self.0.len() == MAX_EARLIER {
            self.0.pop_front();
        }
        self.0.push_back(call);
    }
}

impl Tools {
    /// Moves the calls that have not ended with their turn to those of earlier turns.
    pub(in super::super) fn set_aside(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        for call in &calls {
            self.kept.bytes.fetch_sub(call.counted, std::sync::atomic::Ordering::Relaxed);
        }
        for mut call in calls {
            if call.outlives_turn {
                if call.arguments.is_empty() {
                    call.arguments = std::mem::take(&mut call.unfinished_arguments);
                }
                call.counted = 0;
                self.earlier.add(call);
            }
        }
        self.last = None;
    }
}

impl Acp {
    /// Continues with a call of an earlier turn if this update is about it. The program gets the call again.
    pub(in super::super) fn resume_earlier(
        &mut self,
        id: &str,
        fields: &ToolCallUpdateFields,
        is_announcement: bool,
        all: &mut Vec<Incoming>,
    ) {
        if self.tools.find(id).is_some() {
            return;
        }
        let Some(mut call) = self.tools.earlier.take(id) else { return };
        call.ended_with = hash_of(&call.arguments);
        // An announcement, or other arguments, are those of a new call with the same id.
        if (is_announcement && !is_end(fields)) || call.has_other_input(fields) {
            return;
        }
        // Rules ask about it, because requests of this turn may mean another call.
        call.details.is_incomplete = true;
        (call.ended, call.ended_with, call.outlives_turn) = (false, None, false);
        call.is_of_earlier_turn = true;
        let (name, arguments) = (call.name.clone(), call.arguments.clone());
        self.tools.add(call);
        self.tell(id, &name, &arguments, true, all);
        if let Some(Incoming::Event(event)) = all.last_mut()
            && let Event::ToolCall(call) = &mut **event
        {
            call.extra.insert(EARLIER_TURN, json!(true));
        }
    }
}
