//! Events from the transcript of an agent: the texts and calls of each step of a turn.

use serde_json::json;

use super::KimiWeb;
use super::agents::Place;
use super::events::{after_units, units};
use super::pages::{Part, Step};
use super::tools::tool_result;
use crate::dialect::Incoming;
use crate::messages::{Content, Event, Json, StatusUpdate, SteerInput, StepBegin, StepInterrupted};

/// The limit of nested subagents in a replay.
const MAX_NESTED: usize = 8;

impl KimiWeb {
    /// Emits a step of an agent, or the missing part of a step that has begun.
    pub(super) fn tell_step(
        &mut self,
        agent: &str,
        turn: i64,
        step: &Step,
        is_new: bool,
        place: Place,
        all: &mut Vec<Incoming>,
    ) {
        if is_new {
            self.agents.progress(agent).begin_step(turn, step.ordinal);
            self.push(agent, place, StepBegin { n: step.ordinal, extra: Default::default() }.into(), all);
        }
        // The start of each text among the texts of its kind.
        let (mut text_at, mut thinking_at) = (0, 0);
        for part in &step.frames {
            match part.kind.as_str() {
                "text" if part.is_users() && is_new => {
                    let user_input = Content::Text(part.text.clone());
                    let steer = SteerInput { user_input, extra: Default::default() };
                    self.push(agent, place, steer.into(), all);
                }
                "text" if part.is_users() => {}
                "text" | "thinking" => {
                    let is_text = part.kind == "text";
                    let progress = self.agents.progress(agent);
                    let (at, told) =
                        if is_text { (&mut text_at, progress.text) } else { (&mut thinking_at, progress.thinking) };
                    let missing = after_units(&part.text, told.saturating_sub(*at));
                    *at += units(&part.text);
                    if !missing.is_empty() {
                        self.push_text(agent, is_text, missing.to_owned(), place, all);
                    }
                }
                "tool" => self.tell_tool(agent, part, place, all),
                _ => {}
            }
        }
        self.tell_end_of_step(agent, step, place, all);
    }

    fn tell_tool(&mut self, agent: &str, part: &Part, place: Place, all: &mut Vec<Incoming>) {
        let id = &part.tool_call_id;
        if self.agents.progress(agent).is_done(id) {
            return;
        }
        let arguments = part.input.as_ref().map_or_else(|| "{}".to_owned(), |input| input.get().to_owned());
        self.tell_call(agent, id.clone(), part.name.clone(), arguments, place, all);
        self.agents.depth += 1;
        let is_near = self.agents.depth <= MAX_NESTED;
        for subagent in part.subagents().filter(|_| is_near) {
            for turn in self.agents.started_by(subagent, id, part.subagent_name()) {
                self.tell_turn(subagent, turn, all);
            }
        }
        self.agents.depth -= 1;
        if part.state == "running" {
            return;
        }
        self.agents.progress(agent).end_call(id);
        let output = part.output.clone().or_else(|| part.error.clone().map(|error| Json::from(json!(error))));
        let event = tool_result(id.clone(), &output.unwrap_or_default(), part.state == "error");
        self.push(agent, place, event, all);
    }

    fn tell_end_of_step(&mut self, agent: &str, step: &Step, place: Place, all: &mut Vec<Incoming>) {
        if self.agents.progress(agent).is_over {
            return;
        }
        let event: Event = match (step.state.as_str(), step.usage) {
            // The state of a running step is not reliable.
            ("interrupted" | "failed", _) => StepInterrupted { extra: Default::default() }.into(),
            (_, Some(usage)) => StatusUpdate { token_usage: Some(usage.into()), ..StatusUpdate::unchanged() }.into(),
            _ => return,
        };
        self.agents.progress(agent).is_over = true;
        self.push(agent, place, event, all);
    }
}
