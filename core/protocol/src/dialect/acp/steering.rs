//! Steering, as Claude Code and Codex serve it: the request `_session/steering`, which they announce in `_meta` of their
//! answer to `initialize`. ACP itself has no such call.

use agent_client_protocol_schema::v1 as acp;
use serde::Deserialize;
use serde_json::json;

use super::{Acp, Asked, content};
use crate::dialect::{Call, Incoming};
use crate::error::Result;
use crate::jsonrpc::{self, RpcFailure};
use crate::messages::{Content, Json, SteerInput};

const METHOD: &str = "_session/steering";

/// The code of a steer whose turn has ended. No agent sends it.
pub(super) const NOT_RUNNING: i64 = i64::MIN;

/// A pending steer.
#[derive(Debug)]
pub(super) struct Steer {
    /// The number of the turn.
    turn: u64,
    input: Content,
}

/// Returns whether an agent announces that it can be steered.
pub(super) fn is_offered(meta: Option<&acp::Meta>) -> bool {
    meta.and_then(|meta| meta.get("steering")?.get("supported")?.as_bool()).unwrap_or(false)
}

impl Acp {
    pub(super) fn steer(&mut self, id: &str, call: &Call, input: &Content) -> Result<Vec<u8>> {
        if !self.capabilities.steer {
            return Err(self.unsupported(call.name()));
        }
        let blocks = content::prompt(input, &self.offers.prompt)
            .map_err(|what| self.unsupported(&format!("steers with {what}")))?;
        // Otherwise an agent without a running turn begins a turn that no prompt waits for.
        let meta = json!({"steering": {"idleBehavior": "promptRequired"}});
        let params = json!({"sessionId": self.session()?, "prompt": blocks, "_meta": meta});
        let steer = Steer { turn: self.turns, input: input.clone() };
        Ok(self.send_call(METHOD, &params, Asked { steers: Some(steer), ..Asked::of(id) }))
    }

    /// Reads the answer to a steer. A successful answer does not mean that the turn has taken the message.
    pub(super) fn steered(
        &mut self,
        id: String,
        steer: Steer,
        outcome: std::result::Result<Json, RpcFailure>,
    ) -> Incoming {
        #[derive(Deserialize)]
        struct Steered {
            outcome: String,
        }
        let mut all = Vec::new();
        let failed = |code, message: &str| Err(RpcFailure { code, message: message.to_owned(), data: None });
        let outcome = outcome.and_then(|answer| match answer.decode::<Steered>().map(|steered| steered.outcome).as_deref() {
            Ok("injected") => {
                if self.prompting && steer.turn == self.turns {
                    self.stepped = false;
                    let mut event = SteerInput { user_input: steer.input, extra: Default::default() };
                    event.extra.insert("synthesized", json!(true));
                    all.push(Incoming::event(event));
                }
                Ok(answer)
            }
            Ok("promptRequired") => failed(NOT_RUNNING, "the turn has ended; call `prompt()` instead"),
            Ok("startedNewTurn") if self.prompting => failed(
                0,
                "the turn had ended, and the agent begins a turn of its own for the message; it may run after the current turn",
            ),
            Ok("startedNewTurn") => {
                // Nothing would wait for this turn, and its approvals would come unexpectedly.
                let session = json!({"sessionId": self.session});
                all.push(Incoming::Answered(jsonrpc::notification("session/cancel", &session)));
                failed(NOT_RUNNING, "the turn had ended; the turn that the agent began instead was cancelled; call `prompt()`")
            }
            Ok("failed") => failed(0, "the agent could not add the message to the turn"),
            Ok(other) => failed(0, &format!("the agent answered the steer with the unknown outcome {other:?}")),
            Err(error) => failed(0, &format!("the agent's answer to the steer can't be read: {error}")),
        });
        all.push(Incoming::Response { id: Some(id), outcome });
        Incoming::batch(all)
    }
}
