//! A replay: the earlier messages, sent again between the call and its answer. A replayed request was answered before,
//! and must not be answered again. A background agent may send a live request at the same time, which needs an answer.
//!
//! The answer says how many requests were replayed. Requests that may be live are held until then. They are answered
//! only if that number proves that they are live; otherwise they count as replayed, as an approval fails closed.

use std::time::Instant;

use super::requests::is_background;
use super::{CallKey, Connection, Output};
use crate::error::Result;
use crate::messages::{Event, Json};

/// At most this many open requests are held, and at most this many bytes of them.
const MAX_HELD: usize = 256;
const MAX_HELD_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Replaying {
    pub(super) call: CallKey,
    pub(super) last_activity: Instant,
    /// Whether a message other than a request has arrived.
    told: bool,
    requests: u64,
    held: Vec<Held>,
    held_bytes: usize,
}

/// A request that no message of the replay has resolved yet.
#[derive(Debug)]
struct Held {
    rpc_id: String,
    request: Box<Event>,
    size: usize,
}

impl Held {
    /// Returns whether a message is about the request, or about its tool call.
    fn is_resolved_by(&self, event: &Event) -> bool {
        let call = match &*self.request {
            Event::ApprovalRequest(request) => Some(&request.tool_call_id),
            Event::QuestionRequest(request) => Some(&request.tool_call_id),
            Event::ToolCallRequest(request) => Some(&request.id),
            _ => None,
        };
        match event {
            Event::ApprovalResponse(response) => self.request.request_id() == Some(&response.request_id),
            Event::ToolResult(result) => call == Some(&result.tool_call_id),
            _ => false,
        }
    }
}

impl Replaying {
    pub(super) fn new(call: CallKey, now: Instant) -> Self {
        Self { call, last_activity: now, told: false, requests: 0, held: Vec::new(), held_bytes: 0 }
    }

    /// Handles a message that is not a request and resolves none.
    pub(super) fn event(&mut self, event: &Event) {
        self.told = true;
        self.release(|held| !held.is_resolved_by(event));
    }

    pub(super) fn request(&mut self, rpc_id: String, request: Box<Event>, size: usize) {
        self.requests += 1;
        if self.held.len() < MAX_HELD && self.held_bytes + size <= MAX_HELD_BYTES {
            self.held_bytes += size;
            self.held.push(Held { rpc_id, request, size });
        }
    }

    fn release(&mut self, keep: impl Fn(&Held) -> bool) {
        self.held.retain(keep);
        self.held_bytes = self.held.iter().map(|held| held.size).sum();
    }

    /// Returns the requests that are live.
    fn live(mut self, outcome: &Result<Json>) -> Vec<Held> {
        #[derive(serde::Deserialize)]
        struct Answer {
            requests: u64,
        }
        let past = match outcome {
            Ok(answer) => answer.decode::<Answer>().ok().map(|answer| answer.requests),
            // The agent refused the replay.
            Err(_) if !self.told => Some(0),
            Err(_) => None,
        };
        let live = past.map_or(0, |past| self.requests.saturating_sub(past));
        if past != Some(0) {
            // While no turn runs, background agents send the requests.
            self.release(|held| is_background(&held.request));
        }
        if self.held.len() as u64 > live {
            if live > 0 {
                let open = self.held.len();
                tracing::warn!(open, live, "live requests during a replay can't be identified; none is answered");
            }
            return Vec::new();
        }
        self.held
    }
}

impl Connection {
    pub(super) fn replay_answered(&mut self, call: CallKey, outcome: Result<Json>, now: Instant) {
        let replay = self.replay.take();
        let live = replay.map(|replay| replay.live(&outcome)).unwrap_or_default();
        self.tool_calls.clear(None);
        self.outputs.push_back(Output::CallEnded { call, outcome });
        for held in live {
            self.request(held.rpc_id, held.request, held.size, now);
        }
    }
}
