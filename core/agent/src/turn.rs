//! A turn: its actions in order, its steps, and its possible ends.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::run::{Agent, Flow, Stop, new_id, sleep_until};
use super::script::{Action, End, Kind, Turn};
use super::types::Outcome;
use crate::messages::{
    ApprovalKind, ApprovalResponse, Content, ContentPart, SteerInput, StepBegin, StepInterrupted, ThinkPart, TurnBegin,
    TurnEnd,
};

/// The interval between two looks for a file that the script waits for.
const LOOK: Duration = Duration::from_millis(5);

impl Turn {
    /// The text of a turn after the end of the script.
    pub(crate) fn exhausted() -> Self {
        let text = Kind::Parts {
            thinking: false,
            pieces: vec!["(script exhausted)".to_owned()],
            delay_between: Duration::ZERO,
        };
        Self { actions: vec![Action { delay: Duration::ZERO, bulk: false, kind: text }], end: End::Finished }
    }
}

impl Agent {
    pub(crate) fn turn(&mut self, prompt: Content, turn: Turn) -> Flow {
        self.prompt = prompt.text();
        self.steers.clear();
        self.steers_unawaited = 0;
        self.in_turn = true;
        self.cancelled = false;
        self.step = 0;
        self.step_is_open = false;
        let mut outcome = self.play(prompt, &turn);
        if matches!(outcome, Err(Stop::Rejected)) {
            outcome = self.end(End::Finished);
        }
        match outcome {
            Err(Stop::Cancelled) => self.end(End::Cancelled),
            Err(Stop::MaxSteps) => self.end(End::MaxSteps(None)),
            outcome => outcome,
        }
    }

    fn play(&mut self, prompt: Content, turn: &Turn) -> Flow {
        let text = self.prompt.clone();
        let input = Map::from_iter([("prompt".to_owned(), json!(text))]);
        let blocked = self.run_hooks("UserPromptSubmit", &text, None, input)?;
        self.server.event(TurnBegin { user_input: prompt, synthesized: None, extra: Default::default() });
        self.sent()?;
        if let Some(reason) = blocked {
            self.part(false, reason)?;
            return self.end(End::Finished);
        }
        self.cancellable(&turn.actions)?;
        if self.in_turn {
            let end = if self.cancelled { End::Cancelled } else { turn.end.clone() };
            self.end(end)?;
        }
        Ok(())
    }

    /// Runs actions. A cancel ends the turn, unless the script has actions for a cancel: then the script continues with
    /// these.
    fn cancellable(&mut self, actions: &[Action]) -> Flow {
        let mut next = 0;
        while let Some(action) = actions.get(next) {
            next = match self.action(action) {
                Ok(()) => next + 1,
                Err(Stop::Cancelled) => {
                    let waits = |action: &Action| matches!(action.kind, Kind::WaitCancel | Kind::NeverAnswer);
                    self.cancelled = true;
                    next + actions[next..].iter().position(waits).ok_or(Stop::Cancelled)?
                }
                Err(stop) => return Err(stop),
            };
        }
        Ok(())
    }

    pub(crate) fn actions(&mut self, actions: &[Action]) -> Flow {
        actions.iter().try_for_each(|action| self.action(action))
    }

    fn action(&mut self, action: &Action) -> Flow {
        if !action.delay.is_zero() {
            self.pause(action.delay)?;
        }
        if !action.bulk {
            return self.act_out(&action.kind);
        }
        self.bulk += 1;
        let outcome = self.act_out(&action.kind);
        self.bulk -= 1;
        outcome?;
        self.sent()
    }

    fn act_out(&mut self, kind: &Kind) -> Flow {
        match kind {
            Kind::Pause => {}
            Kind::Parts { thinking, pieces, delay_between } => {
                for (i, piece) in pieces.iter().enumerate() {
                    if i > 0 && !delay_between.is_zero() {
                        self.pause(*delay_between)?;
                    }
                    let piece = self.fill(piece);
                    self.part(*thinking, piece)?;
                }
            }
            Kind::Step(n) => {
                self.step_is_open = false;
                if let Some(n) = n {
                    self.step = n - 1;
                }
                self.begin_step()?;
            }
            Kind::Calls(calls) => self.calls(calls)?,
            Kind::Hook { event, target, input_data, subscription_id } => {
                let (target, data) = (self.fill(target), self.filled(&Value::Object(input_data.clone())));
                let data = if let Value::Object(data) = data { data } else { Map::new() };
                let blocked = self.run_hooks(event, &target, subscription_id.as_deref(), data)?;
                if event == "PreToolUse" {
                    self.pre_tool_use = Some(blocked);
                }
            }
            Kind::Status(status) => {
                if self.in_turn && self.step == 0 {
                    self.begin_step()?;
                }
                let status = self.filled(status);
                self.server.event_of("StatusUpdate", status);
                self.sent()?;
            }
            Kind::Event { kind, payload, verbatim } => {
                let payload = self.filled(payload);
                if *verbatim {
                    self.server.event_verbatim(kind.clone(), payload);
                } else {
                    self.server.event_of(kind, payload);
                }
                self.sent()?;
            }
            Kind::Request { kind, payload, id, wait } => self.request(kind, payload, id.as_deref(), *wait)?,
            Kind::File { method, params } => self.request(method, params, None, true)?,
            Kind::Terminal(params) => self.terminal(params)?,
            Kind::Raw { before, repeat, times, after } => {
                let line = [self.fill(before), repeat.repeat(*times), self.fill(after), "\n".to_owned()].concat();
                self.server.raw(line.as_bytes());
                self.sent()?;
            }
            Kind::RawBytes(bytes) => {
                self.server.raw(bytes);
                self.sent()?;
            }
            Kind::End(end) => self.end(end.clone())?,
            Kind::NeverAnswer => {
                self.flush()?;
                self.in_turn = false;
                self.server.abandon(self.cancelled);
            }
            // A cancel ends the wait through `Stop::Cancelled`.
            Kind::WaitCancel => {
                while !self.cancelled {
                    self.wait(None)?;
                }
            }
            Kind::WaitSteer => {
                while self.steers_unawaited == 0 {
                    self.wait(None)?;
                }
                self.steers_unawaited -= 1;
                self.step_is_open = false;
            }
            Kind::WaitFile(path) => {
                let path = self.path(&self.fill(path));
                while !path.exists() {
                    self.pause(LOOK)?;
                }
            }
            Kind::Repeat { times, actions } => {
                for round in 1..=*times {
                    self.rounds.push(round);
                    let outcome = self.actions(actions);
                    self.rounds.pop();
                    outcome?;
                }
            }
            Kind::Stderr(text) => {
                let text = self.fill(text);
                let newline = if text.ends_with('\n') { "" } else { "\n" };
                // A closed output is not a reason to stop.
                let _ = io::stderr().write_all(format!("{text}{newline}").as_bytes());
            }
            Kind::Exit(code) => {
                self.flush()?;
                self.io.settle();
                return Err(Stop::Exit(*code));
            }
            Kind::Signal(signal) => {
                self.flush()?;
                self.io.settle();
                raise(*signal);
            }
            Kind::IgnoreSignal(signal) => ignore(*signal),
            Kind::CloseStdout => {
                self.flush()?;
                self.io.close_stdout();
            }
            Kind::BreakSocket(how) => {
                self.flush()?;
                self.io.settle();
                while !self.io.break_sockets(*how) {
                    self.pause(LOOK)?;
                }
            }
            Kind::WaitSocket => {
                self.flush()?;
                while !self.io.is_heard() {
                    self.pause(LOOK)?;
                }
            }
            Kind::IgnoreEof => self.ignore_eof = true,
            Kind::Stall => {
                self.flush()?;
                self.io.settle();
                sleep_until(None);
            }
        }
        Ok(())
    }

    fn request(&mut self, kind: &str, payload: &Value, id: Option<&str>, wait: bool) -> Flow {
        let id = self.put_request(kind, payload, id);
        self.sent()?;
        if wait { self.take_answer(&id) } else { Ok(()) }
    }

    /// Writes a request. Returns its id.
    fn put_request(&mut self, kind: &str, payload: &Value, id: Option<&str>) -> String {
        let mut payload = self.filled(payload);
        let own = payload.get("id").and_then(Value::as_str).map(str::to_owned);
        let id = id.map(|id| self.fill(id)).or(own).unwrap_or_else(new_id);
        if let Some(fields) = payload.as_object_mut()
            && !fields.contains_key("id")
        {
            fields.shift_insert(0, "id".to_owned(), json!(id));
        }
        self.server.request_of(&id, kind, payload);
        id
    }

    /// Waits for the answer to a request, and stores it in `last`.
    fn take_answer(&mut self, id: &str) -> Flow {
        loop {
            if let Some(answer) = self.answers.remove(id) {
                self.last = answer.unwrap_or_else(
                    |error| json!({"error": {"code": error.code, "message": error.message, "data": error.data}}),
                );
                return Ok(());
            }
            self.wait(None)?;
        }
    }

    /// Makes the client run a command, and waits for its end. Stores the result of `terminal/output`, or the error, in
    /// `last`.
    fn terminal(&mut self, params: &Value) -> Flow {
        let create = self.put_request("terminal/create", params, None);
        let mut outcome = self.sent().and_then(|()| self.take_answer(&create));
        if matches!(outcome, Err(Stop::Cancelled)) {
            // The answer names the terminal. It is released even if the turn was cancelled.
            self.take_answer(&create)?;
        }
        let Some(terminal) = self.last.get("terminalId").cloned() else { return outcome };
        let about = json!({"terminalId": terminal});
        outcome = outcome.and_then(|()| self.request("terminal/wait_for_exit", &about, None, true));
        if outcome.is_ok() && self.last.get("error").is_none() {
            outcome = self.request("terminal/output", &about, None, true);
        }
        let last = self.last.clone();
        self.request("terminal/release", &about, None, outcome.is_ok())?;
        self.last = last;
        outcome
    }

    /// Sends a part of the answer. Begins a step if none is open.
    fn part(&mut self, thinking: bool, text: String) -> Flow {
        self.begin_step()?;
        let part = match thinking {
            true => ContentPart::Think(ThinkPart {
                think: text,
                encrypted: None,
                message_id: None,
                extra: Default::default(),
            }),
            false => ContentPart::text(text),
        };
        self.server.event(part);
        self.sent()
    }

    /// Begins a step, unless one is open. The model gets steers here.
    pub(crate) fn begin_step(&mut self) -> Flow {
        if self.step_is_open {
            return Ok(());
        }
        if self.options.max_steps.is_some_and(|most| self.step >= most) {
            return Err(Stop::MaxSteps);
        }
        while let Some(user_input) = self.steers.pop_front() {
            self.server.event(SteerInput { user_input, extra: Default::default() });
            self.sent()?;
        }
        self.step += 1;
        self.step_is_open = true;
        self.server.event(StepBegin { n: self.step, extra: Default::default() });
        self.sent()
    }

    /// Ends the turn. Later actions are outside of it.
    fn end(&mut self, end: End) -> Flow {
        // Only kimi-cli 1.27 and later report the end of a turn that did not finish.
        let cut_short = end != End::Finished;
        if !cut_short {
            self.last_words()?;
        }
        if matches!(end, End::Failed(_)) && self.step_is_open {
            self.server.event(StepInterrupted { extra: Default::default() });
        }
        if !cut_short || self.server.speaks(7) {
            self.server.event(TurnEnd { synthesized: None, extra: Default::default() });
        }
        self.server.withdraw_all();
        self.answers.clear();
        let asking = std::mem::take(&mut self.asking);
        if self.server.speaks(8) {
            for request_id in asking.iter().cloned() {
                let response = ApprovalKind::Reject;
                self.server.event(ApprovalResponse { request_id, response, feedback: None, extra: Default::default() });
            }
        }
        match end {
            // kimi-cli 0.59 to 1.8 never answer such a turn. The next turn works.
            End::Cancelled if !asking.is_empty() && self.server.speaks(0) && !self.server.speaks(3) => {
                self.server.abandon(true);
            }
            End::Cancelled => self.server.finish(Outcome::Cancelled),
            End::Finished => self.server.finish(Outcome::Finished),
            End::MaxSteps(steps) => self.server.finish(Outcome::MaxStepsReached(steps.unwrap_or(self.step))),
            End::Other(word) => self.server.finish(Outcome::Other(word)),
            End::Failed(failure) => self.server.finish(Outcome::Failed(failure)),
        }
        self.in_turn = false;
        self.flush()
    }

    /// Continues the turn after a new steer, and once after a `Stop` hook that blocks.
    fn last_words(&mut self) -> Flow {
        self.answer_steers()?;
        let input = Map::from_iter([("stop_hook_active".to_owned(), json!(false))]);
        if let Some(reason) = self.run_hooks("Stop", "", None, input)? {
            self.step_is_open = false;
            self.part(false, reason)?;
        }
        self.answer_steers()
    }

    fn answer_steers(&mut self) -> Flow {
        self.listen()?;
        while !self.steers.is_empty() {
            let said: Vec<String> = self.steers.iter().map(Content::text).collect();
            self.step_is_open = false;
            self.part(false, format!("(steered: {})", said.join(" ")))?;
        }
        Ok(())
    }
}

#[cfg(unix)]
pub(crate) fn raise(signal: i32) {
    // SAFETY: sends this process a signal, which is what the script asks for.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

#[cfg(unix)]
pub(crate) fn ignore(signal: i32) {
    // SAFETY: sets a disposition, which no other thread relies on.
    unsafe {
        libc::signal(signal, libc::SIG_IGN);
    }
}

#[cfg(not(unix))]
pub(crate) fn raise(_: i32) {
    std::process::abort();
}

#[cfg(not(unix))]
fn ignore(_: i32) {}
