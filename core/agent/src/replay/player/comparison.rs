//! The comparison of the program's calls with the recorded ones.

use kimi_agent_protocol::recording::{PROGRAM_NEVER, Purpose, difference};
use serde_json::{Value, json};

use super::{Action, FAILED, Mode, Player, failure, value, without_trace};
use crate::jsonrpc;
use crate::replay::plan::StepKind;

const METHOD_NOT_FOUND: i64 = -32601;

impl Player {
    /// Returns the step of the recording for a call.
    pub(super) fn find_call(&self, method: &str, params: &str, purpose: Purpose) -> Option<usize> {
        let mut calls = self.plan.calls().filter(|(at, call)| !self.done[*at] && call.method == method);
        if matches!(purpose, Purpose::Cancel | Purpose::Steer | Purpose::Withdraw) {
            return calls.find(|(at, _)| self.plan.steps[*at].turn == self.turn).map(|(at, _)| at);
        }
        // A steer of Kimi Code's server looks like a prompt.
        let is_in_turn = |at: usize| self.plan.steps[at].turn == self.turn;
        let mut steers = Vec::new();
        for (at, call) in calls {
            if !call.is_timing() {
                let is_steer = |steer: &&usize| self.next != at && self.equals(**steer, params);
                return steers.iter().find(is_steer).copied().or(Some(at));
            }
            if is_in_turn(at) {
                steers.push(at);
            }
        }
        steers.first().copied()
    }

    /// Compares a call with the recorded one, if calls are compared.
    pub(super) fn is_as_recorded(&self, at: usize, params: &str) -> bool {
        let Some(call) = self.call(at) else { return false };
        if self.mode != Mode::Verify || call.is_opening || call.purpose == Purpose::Close {
            return true;
        }
        let is_next = call.is_timing() || self.first_awaited_call().is_none_or(|first| first >= at);
        let is_bare = matches!(call.purpose, Purpose::Cancel | Purpose::Withdraw);
        is_next && (is_bare || self.equals(at, params))
    }

    pub(super) fn refuse_call(&mut self, at: usize, method: &str, params: &str) {
        let first = self.first_awaited_call().filter(|first| *first < at && !self.is_timing(at));
        if let Some(expected) = first.and_then(|first| self.call(first)) {
            let text = format!("expected a call of `{}`, got one of `{method}`", expected.method);
            return self.fail(self.turn_of(first), &text);
        }
        let Some(call) = self.call(at) else { return };
        let found = difference(&without_trace(value(&call.params)), &without_trace(self.redacted(params)));
        let text = found.map_or_else(String::new, |found| found.to_string());
        self.fail(self.turn_of(Some(at)), &format!("`{method}`: {text}"));
    }

    pub(super) fn unrecorded(&mut self, id: Option<&str>, method: &str, purpose: Purpose) {
        // Older recordings lack the requests with which the SDK finds the end of a loaded session's history.
        let is_probe = method.starts_with("_kimi-agent/");
        let is_of_program = !is_probe && !matches!(purpose, Purpose::Close | Purpose::Withdraw);
        let is_different = self.mode == Mode::Verify && self.is_open() && is_of_program;
        let count = self.plan.prompts;
        let text = match purpose {
            Purpose::Prompt => format!(
                "the recording has {count} prompt{}; this is one more: record the session again",
                if count == 1 { "" } else { "s" }
            ),
            _ => format!("the recording has no such call of `{method}` here; record the session again"),
        };
        if is_different {
            self.pending.extend(id.map(str::to_owned));
            let turn = self.turn + u64::from(purpose == Purpose::Prompt);
            let text = if purpose == Purpose::Prompt { text } else { format!("`{method}`: {text}") };
            return self.fail(turn, &text);
        }
        let Some(id) = id else { return };
        let line = match purpose {
            Purpose::Cancel | Purpose::Close => jsonrpc::answer(id, &json!({})),
            Purpose::Prompt | Purpose::Steer => jsonrpc::refusal(id, &failure(FAILED, &text)),
            Purpose::Replay | Purpose::Withdraw | Purpose::Other => {
                jsonrpc::refusal(id, &failure(METHOD_NOT_FOUND, &text))
            }
        };
        self.actions.push_back(Action::Write(line));
    }

    // --- ends ---

    /// Fails if the program has left out something of the recording.
    pub(super) fn check_missing(&mut self) {
        let close = self.plan.steps.iter().position(|step| matches!(step.kind, StepKind::Close));
        let end = close.unwrap_or(self.plan.steps.len());
        let is_awaited = |cause: usize| {
            let mut lines = (self.next..end).filter_map(|at| self.line(at));
            lines.any(|line| line.awaits.contains(&cause))
        };
        let missing = (0..end).filter(|at| !self.done[*at]).find_map(|at| match &self.plan.steps[at].kind {
            StepKind::Call(call) if call.purpose == Purpose::Close => None,
            StepKind::Call(call) if call.is_timing() && !is_awaited(at) => None,
            StepKind::Call(call) => {
                let difference = difference(&value(&call.params), &Value::Null);
                let shown = difference.map_or_else(String::new, |found| found.to_string());
                let shown = shown.strip_suffix(", got null").unwrap_or(&shown);
                Some((at, format!("{PROGRAM_NEVER}called `{}`: {shown}", call.method)))
            }
            StepKind::Answer { .. } if self.cancelled == Some(self.turn_of(Some(at))) => None,
            StepKind::Answer { name, .. } => Some((at, format!("{PROGRAM_NEVER}answered {name}"))),
            _ => None,
        });
        if let Some((at, text)) = missing {
            self.fail(self.turn_of(Some(at)), &text);
        }
    }

    fn equals(&self, at: usize, params: &str) -> bool {
        let Some(call) = self.call(at) else { return false };
        if call.params == params {
            return true;
        }
        let [expected, got] = [value(&call.params), self.redacted(params)].map(without_trace);
        difference(&expected, &got).is_none()
    }
}
