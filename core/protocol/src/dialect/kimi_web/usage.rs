//! The tokens of steps, and the state of the session: its context and its mode.

use serde::Deserialize;

use super::agents::Place;
use super::pages::{Usage, usage};
use super::{KimiWeb, MAIN};
use crate::dialect::Incoming;
use crate::messages::{StatusUpdate, decode_body};

/// The last reported status of the session, so that each change is emitted once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    context_tokens: Option<i64>,
    max_context_tokens: Option<i64>,
    plan_mode: Option<bool>,
}

impl KimiWeb {
    pub(super) fn step_completed(
        &mut self,
        payload: &str,
        agent: &str,
        place: Place,
        all: &mut Vec<Incoming>,
    ) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Step {
            #[serde(default, deserialize_with = "usage")]
            usage: Option<Usage>,
        }
        let usage = decode_body::<Step>(payload)?.usage;
        self.agents.progress(agent).is_over = true;
        if agent == MAIN {
            self.note_cut(payload);
        }
        if let Some(usage) = usage {
            let update = StatusUpdate { token_usage: Some(usage.into()), ..StatusUpdate::unchanged() };
            self.push(agent, place, update.into(), all);
        }
        Ok(())
    }

    pub(super) fn status(
        &mut self,
        payload: &str,
        agent: &str,
        place: Place,
        all: &mut Vec<Incoming>,
    ) -> Result<(), String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Updated {
            context_tokens: Option<i64>,
            max_context_tokens: Option<i64>,
            plan_mode: Option<bool>,
        }
        let updated: Updated = decode_body(payload)?;
        if agent != MAIN {
            return Ok(());
        }
        let now = Told {
            context_tokens: updated.context_tokens.or(self.told.context_tokens),
            max_context_tokens: updated.max_context_tokens.or(self.told.max_context_tokens),
            plan_mode: updated.plan_mode.or(self.told.plan_mode),
        };
        if now == self.told {
            return Ok(());
        }
        let usage = now.context_tokens.zip(now.max_context_tokens.filter(|max| *max > 0));
        let update = StatusUpdate {
            context_usage: usage.map(|(used, max)| used as f64 / max as f64),
            context_tokens: updated.context_tokens,
            max_context_tokens: updated.max_context_tokens,
            plan_mode: updated.plan_mode.filter(|on| self.told.plan_mode != Some(*on)),
            ..StatusUpdate::unchanged()
        };
        self.told = now;
        self.push(MAIN, place, update.into(), all);
        Ok(())
    }
}
