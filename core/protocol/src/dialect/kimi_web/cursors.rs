//! Which frames were received, and how a session continues after a lost connection: the server repeats the frames that
//! it stores. It does not store pieces of texts, so these come from the transcript. No event is emitted twice.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::agents::Place;
use super::events::{Head, after_units};
use super::frames::Frame;
use super::pages::{Page, Turn};
use super::{Asked, KimiWeb, MAIN};
use crate::dialect::Incoming;
use crate::error::Error;
use crate::jsonrpc::RpcFailure;
use crate::messages::{Json, decode_body};

/// The gateway has a new connection.
pub(super) const CONNECTED: &str = "gateway/connected";
/// The code of a call to which the gateway got no answer.
pub(super) const NO_ANSWER: i64 = -32010;
/// The limit of frames that are held until the transcript arrives, in bytes.
const MAX_HELD: usize = 16 << 20;
const MAX_HELD_FRAMES: usize = 100_000;
/// How often snapshot and transcript are requested again if they do not identify the step of a text.
const MAX_REPEATS: u32 = 3;
/// The number of turns that are searched for lost events.
const LAST_TURNS: usize = 3;

/// Which of the session's frames were received.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    seq: Option<u64>,
    epoch: Option<String>,
    /// Whether texts were emitted from the transcript, so that frames may repeat pieces of them.
    pub(super) has_filled: bool,
    /// The number of lost connections.
    attempts: u32,
}

impl Cursor {
    /// Returns whether a frame was not received before. Volatile frames have no number.
    pub(super) fn is_new(&mut self, frame: &Frame<'_>) -> bool {
        let Some(seq) = frame.seq.filter(|_| frame.volatile != Some(true)) else { return true };
        let epoch = frame.epoch.as_ref().map(|epoch| &*epoch.0);
        if epoch.is_some() && self.epoch.is_some() && epoch != self.epoch.as_deref() {
            // The server has a new journal, with new numbers.
            (self.seq, self.epoch) = (Some(seq), epoch.map(str::to_owned));
            return true;
        }
        if self.seq.is_some_and(|last| seq <= last) {
            return false;
        }
        self.seq = Some(seq);
        if self.epoch.is_none() {
            self.epoch = epoch.map(str::to_owned);
        }
        true
    }

    fn forget(&mut self) {
        (self.seq, self.epoch) = (None, None);
    }
}

/// The server's answer to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subscribed {
    /// The server repeats all frames since the cursor.
    Yes,
    /// Earlier frames are lost.
    Behind,
    /// The session is unknown, or not loaded yet.
    No,
}

/// The recovery from a lost connection.
#[derive(Debug)]
pub(super) struct Resync {
    /// Answers to calls of an earlier attempt are ignored.
    attempt: u32,
    step: Step,
    /// Whether events are lost, and not only pieces of texts.
    is_behind: bool,
    /// The frames that arrived meanwhile, each with its type.
    held: Vec<(String, String)>,
    size: usize,
    snapshot: Snapshot,
    /// The number of repeated requests for snapshot and transcript, and the last step of the former transcript.
    repeats: u32,
    former_last: Option<(i64, i64)>,
    /// The transcript, until all frames that it already covers have arrived.
    page: Page,
    /// The journal number of the last held frame.
    last_held: Option<u64>,
}

impl Resync {
    /// Returns whether the snapshot's text may belong to an earlier step than the last one of the transcript, which is
    /// newer.
    fn is_ambiguous(&self, page: &Page) -> bool {
        let Some(running) = &self.snapshot.in_flight_turn else { return false };
        let Some((place, false)) = self.snapshot.running_step(page, &self.held) else { return false };
        let texts = |at: (i64, i64)| page.turns().flat_map(move |turn| turn.texts_at(at));
        self.former_last != Some(place)
            && !(running.thinking_text.is_empty() && running.assistant_text.is_empty())
            && texts(place).all(|(thinking, text)| thinking.is_empty() && text.is_empty())
            && (1..place.1).flat_map(|step| texts((place.0, step))).any(|(thinking, text)| {
                thinking.starts_with(&running.thinking_text) && text.starts_with(&running.assistant_text)
            })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Subscribing {
        is_retry: bool,
    },
    Waking,
    Snapshot,
    Transcript,
    /// The number of the last frame in the journal after the transcript is requested.
    Place,
    /// The frames up to this journal number are awaited.
    CatchingUp(u64),
}

/// The texts of steps from which pieces may have been lost.
#[derive(Debug, Default)]
pub(super) struct Fill {
    /// Whether turns were emitted from the transcript.
    is_behind: bool,
    /// Thinking and text, by turn and step.
    steps: HashMap<(i64, i64), (String, String)>,
}

impl Fill {
    /// `held` are the frames since the subscription.
    fn new(page: &Page, snapshot: &Snapshot, held: &[(String, String)]) -> Self {
        let mut fill = Self::default();
        for turn in page.turns() {
            for step in &turn.steps {
                let texts = step.texts();
                if texts != (String::new(), String::new()) {
                    fill.steps.insert((turn.ordinal, step.ordinal), texts);
                }
            }
        }
        let Some(running) = &snapshot.in_flight_turn else { return fill };
        if let Some((place, _)) = snapshot.running_step(page, held) {
            let texts = (running.thinking_text.clone(), running.assistant_text.clone());
            fill.steps.entry(place).or_insert(texts);
        }
        fill
    }

    /// Returns the known thinking and text of a step.
    fn texts(&self, turn: i64, step: i64) -> Option<(&str, &str)> {
        self.steps.get(&(turn, step)).map(|(thinking, text)| (thinking.as_str(), text.as_str()))
    }
}

/// Returns the journal number of a step's begin, its turn and its number.
fn step_begun(frame: &str) -> Option<(u64, (i64, i64))> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Begun {
        turn_id: i64,
        step: i64,
        agent_id: Option<String>,
    }
    let frame = Frame::read(frame).ok()?;
    let begun: Begun = decode_body(frame.payload()).ok()?;
    let is_main = begun.agent_id.is_none_or(|agent| agent == MAIN);
    is_main.then_some((frame.seq?, (begun.turn_id, begun.step)))
}

/// Returns the id of a request from its payload.
fn request_of(payload: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Request {
        approval_id: Option<String>,
        question_id: Option<String>,
    }
    let Request { approval_id, question_id } = decode_body(payload).ok()?;
    approval_id.or(question_id)
}

/// A snapshot of the session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Snapshot {
    /// The journal number of the snapshot.
    as_of_seq: Option<u64>,
    in_flight_turn: Option<InFlight>,
    pending_approvals: Vec<Box<RawValue>>,
    pending_questions: Vec<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InFlight {
    turn_id: i64,
    assistant_text: String,
    thinking_text: String,
}

impl Snapshot {
    /// Returns the running step, and whether it is certain. The snapshot does not name the step.
    fn running_step(&self, page: &Page, held: &[(String, String)]) -> Option<((i64, i64), bool)> {
        let turn = self.in_flight_turn.as_ref()?.turn_id;
        let begun = held.iter().filter(|(kind, _)| kind == "turn.step.started");
        let begun: Vec<_> = begun.filter_map(|(_, frame)| step_begun(frame)).collect();
        let is_later = |seq: u64| self.as_of_seq.is_some_and(|as_of| seq > as_of);
        let later = begun.iter().find(|(seq, _)| is_later(*seq)).map(|(_, place)| *place);
        if let Some((_, step)) = later.filter(|(of, _)| *of == turn) {
            // The step before the first one that began later.
            return Some(((turn, step - 1), true));
        }
        let last_begun = begun.iter().filter(|(seq, _)| !is_later(*seq)).map(|(_, place)| *place).max();
        let last_told = page.turns().flat_map(|told| told.steps.iter().map(|step| (told.ordinal, step.ordinal))).max();
        let last = last_begun.max(last_told).filter(|(of, _)| *of == turn)?;
        Some((last, last_begun == Some(last)))
    }

    /// Returns the ids of the open requests.
    fn requests(&self) -> HashSet<String> {
        let pending = self.pending_approvals.iter().chain(&self.pending_questions);
        pending.filter_map(|request| request_of(request.get())).collect()
    }
}

impl KimiWeb {
    /// Returns the bytes of a subscription, with the cursor if there is one.
    pub(super) fn subscription(&mut self, asked: Asked) -> Vec<u8> {
        let session = self.session.clone().unwrap_or_default();
        let mut params = json!({"session_ids": [session]});
        if let (Some(seq), Some(epoch)) = (self.cursor.seq, &self.cursor.epoch) {
            params["cursors"] = json!({session: {"seq": seq, "epoch": epoch}});
        }
        self.request(asked, "WS subscribe", &params)
    }

    pub(super) fn take_subscription(&mut self, answer: &Json) -> Subscribed {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Answer {
            accepted: Vec<String>,
            resync_required: Vec<String>,
            cursors: HashMap<String, At>,
        }
        #[derive(Deserialize)]
        struct At {
            seq: u64,
            epoch: Option<String>,
        }
        let mut answer: Answer = answer.decode().unwrap_or_default();
        let session = self.session.clone().unwrap_or_default();
        let is_refused = answer.resync_required.contains(&session);
        if !is_refused && !answer.accepted.contains(&session) {
            return Subscribed::No;
        }
        let is_anew = is_refused || self.cursor.seq.is_none() || self.cursor.epoch.is_none();
        if let Some(At { seq, epoch }) = answer.cursors.remove(&session).filter(|_| is_anew) {
            // If not, the repeated frames are held and handled later.
            (self.cursor.seq, self.cursor.epoch) = (Some(seq), epoch);
        }
        let is_behind = is_refused || self.resync.as_ref().is_some_and(|resync| resync.is_behind) && is_anew;
        if is_behind { Subscribed::Behind } else { Subscribed::Yes }
    }

    /// Handles a new connection of the gateway: subscribes to the events since the cursor.
    pub(super) fn connected(&mut self) -> Incoming {
        if !self.is_open() {
            // The opening has not subscribed yet. It fails if its call was pending.
            return Incoming::Batch(Vec::new());
        }
        self.begin_resync(false)
    }

    /// Handles the server's report that events are lost.
    pub(super) fn is_behind(&mut self, payload: &str) -> Incoming {
        #[derive(Deserialize)]
        struct Behind {
            session_id: String,
        }
        match decode_body::<Behind>(payload) {
            Ok(behind) if self.is_ours(&behind.session_id) && self.is_open() => {
                self.cursor.forget();
                self.begin_resync(true)
            }
            Ok(_) => Incoming::InvalidLine("events of another session are lost".to_owned()),
            Err(reason) => Incoming::InvalidLine(format!("a frame that is none: {reason}")),
        }
    }

    fn begin_resync(&mut self, is_behind: bool) -> Incoming {
        let step = Step::Subscribing { is_retry: false };
        let former = self.resync.take().map(|resync| *resync);
        self.cursor.attempts = self.cursor.attempts.wrapping_add(1);
        let attempt = self.cursor.attempts;
        let is_behind = is_behind || former.as_ref().is_some_and(|former| former.is_behind);
        let (held, size) = former.map(|former| (former.held, former.size)).unwrap_or_default();
        self.resync = Some(Box::new(Resync {
            attempt,
            step,
            is_behind,
            held,
            size,
            snapshot: Snapshot::default(),
            repeats: 0,
            former_last: None,
            page: Page::default(),
            last_held: None,
        }));
        self.cursor.has_filled = true;
        self.agents.doubt();
        self.resubscribe(attempt)
    }

    fn resubscribe(&mut self, attempt: u32) -> Incoming {
        Incoming::Answered(self.subscription(Asked::Resync(attempt)))
    }

    /// Holds a frame until the transcript arrives. Returns whether it is held.
    pub(super) fn holds(&mut self, kind: &str, frame: &Frame<'_>, text: &str, all: &mut Vec<Incoming>) -> bool {
        let Some(resync) = &mut self.resync else { return false };
        if resync.size + text.len() <= MAX_HELD && resync.held.len() < MAX_HELD_FRAMES {
            resync.size += text.len();
            resync.held.push((kind.to_owned(), text.to_owned()));
            if frame.volatile != Some(true) {
                resync.last_held = resync.last_held.max(frame.seq);
                self.end_resync_when_caught_up(all);
            }
            return true;
        }
        tracing::warn!("too many frames arrived after a lost connection; texts may be missing");
        self.end_resync(Page::default(), all);
        false
    }

    /// Ends the recovery once all frames that the transcript covers have arrived. An earlier frame's text would be
    /// added to a later step.
    fn end_resync_when_caught_up(&mut self, all: &mut Vec<Incoming>) {
        let Some(resync) = &mut self.resync else { return };
        let Step::CatchingUp(place) = resync.step else { return };
        if resync.last_held.max(self.cursor.seq) >= Some(place) {
            let page = std::mem::take(&mut resync.page);
            self.end_resync(page, all);
        }
    }

    pub(super) fn resync_answered(
        &mut self,
        attempt: u32,
        outcome: std::result::Result<Json, RpcFailure>,
        all: &mut Vec<Incoming>,
    ) {
        let Some(resync) = self.resync.as_mut().filter(|resync| resync.attempt == attempt) else { return };
        let step = resync.step;
        let next = match (step, outcome) {
            // The connection is lost again. The gateway reports the next one.
            (Step::Subscribing { .. }, Err(error)) if error.code == NO_ANSWER => return,
            (Step::Subscribing { .. }, Err(error)) => return self.give_up(&error.message, all),
            (Step::Subscribing { is_retry }, Ok(answer)) => match self.take_subscription(&answer) {
                Subscribed::No if is_retry => return self.give_up("it does not know the session", all),
                Subscribed::No => Step::Waking,
                // An incomplete text of the model is in the snapshot. When it is complete, it is in the transcript.
                // Requested in this order, they miss nothing.
                Subscribed::Yes => Step::Snapshot,
                Subscribed::Behind => {
                    if let Some(resync) = &mut self.resync {
                        resync.is_behind = true;
                        // The transcript has the text. The frame no longer identifies the step.
                        resync.held.clear();
                        resync.size = 0;
                    }
                    Step::Snapshot
                }
            },
            (Step::Waking, _) => Step::Subscribing { is_retry: true },
            (Step::Snapshot, answer) => {
                resync.snapshot = answer.ok().and_then(|answer| answer.decode().ok()).unwrap_or_default();
                Step::Transcript
            }
            (Step::Transcript, answer) => {
                let page = answer.ok().and_then(|answer| Page::read(&answer).ok()).unwrap_or_default();
                if resync.repeats == MAX_REPEATS || !resync.is_ambiguous(&page) {
                    if !resync.is_behind {
                        return self.end_resync(page, all);
                    }
                    resync.page = page;
                    Step::Place
                } else {
                    // A step that is the last one before and after the snapshot is the snapshot's step.
                    resync.repeats += 1;
                    resync.former_last = resync.snapshot.running_step(&page, &resync.held).map(|(place, _)| place);
                    Step::Snapshot
                }
            }
            (Step::Place, answer) => {
                let now: Snapshot = answer.ok().and_then(|answer| answer.decode().ok()).unwrap_or_default();
                resync.step = Step::CatchingUp(now.as_of_seq.unwrap_or_default());
                return self.end_resync_when_caught_up(all);
            }
            (Step::CatchingUp(_), _) => return,
        };
        if let Some(resync) = &mut self.resync {
            resync.step = next;
        }
        let path = match next {
            Step::Subscribing { .. } => {
                return all.push(self.resubscribe(attempt));
            }
            Step::Waking => self.path("/status"),
            Step::Transcript => self.path(&format!("/transcript?agent_id={MAIN}&page_size={LAST_TURNS}")),
            Step::Snapshot | Step::Place | Step::CatchingUp(_) => self.path("/snapshot"),
        };
        match path {
            Ok(path) => all.push(Incoming::Answered(self.get(Asked::Resync(attempt), &path))),
            Err(error) => self.give_up(&error.to_string(), all),
        }
    }

    fn give_up(&mut self, reason: &str, all: &mut Vec<Incoming>) {
        self.resync = None;
        all.push(Incoming::Fatal(Error::Protocol(format!(
            "the server tells no more events of the session after a lost connection: {reason}; open the session again with \
             its `session_id`"
        ).into())));
    }

    /// Emits the lost events, and then the held frames.
    fn end_resync(&mut self, page: Page, all: &mut Vec<Incoming>) {
        let Some(resync) = self.resync.take() else { return };
        let Resync { is_behind, held, snapshot, .. } = *resync;
        self.fill = Some(Box::new(Fill { is_behind, ..Fill::new(&page, &snapshot, &held) }));
        if is_behind {
            self.catch_up(page, &snapshot, all);
            // The frames begin in the step before the first step that they begin, or in the last step of the
            // transcript.
            let main = &mut self.agents.main;
            let begun = held.iter().filter(|(kind, _)| kind == "turn.step.started");
            let mut begun =
                begun.filter_map(|(_, frame)| step_begun(frame)).filter(|(_, (turn, _))| *turn == main.turn);
            main.frames_step = begun.next().map_or(main.step, |(_, (_, first))| first - 1);
        }
        let asked = if is_behind { snapshot.requests() } else { HashSet::new() };
        for (kind, text) in held {
            let Ok(frame) = Frame::read(&text) else { continue };
            if kind.ends_with(".requested") && request_of(frame.payload()).is_some_and(|id| asked.contains(&id)) {
                // The snapshot has the request. A request that is resolved by now must not be emitted.
                self.cursor.is_new(&frame);
                continue;
            }
            self.take_frame(&kind, &frame, all);
        }
        self.fill_step(u64::MAX, u64::MAX, all);
        self.fill = None;
    }

    /// Returns whether the transcript has already emitted a later turn than the frame's.
    pub(super) fn is_of_told_turn(&self, kind: &str, head: &Head<'_>) -> bool {
        self.fill.as_ref().is_some_and(|fill| fill.is_behind)
            && head.agent() == MAIN
            && kind != "turn.ended"
            && head.turn_id.is_some_and(|turn| turn < self.agents.main.turn)
    }

    /// Before a frame of the main agent: emits the lost texts of its step.
    pub(super) fn fill_before(&mut self, kind: &str, head: &Head<'_>, offset: Option<u64>, all: &mut Vec<Incoming>) {
        if self.fill.is_none() || head.agent() != MAIN {
            return;
        }
        let is_of_step = head.turn_id.is_none_or(|turn| turn == self.agents.main.turn);
        match (kind, offset) {
            ("thinking.delta", Some(offset)) if is_of_step => self.fill_step(offset, 0, all),
            ("assistant.delta", Some(offset)) if is_of_step => self.fill_step(u64::MAX, offset, all),
            (
                "tool.call.delta"
                | "tool.call.started"
                | "tool.result"
                | "event.approval.requested"
                | "event.question.requested"
                | "turn.step.completed"
                | "turn.step.interrupted"
                | "turn.ended",
                _,
            ) if is_of_step => self.fill_step(u64::MAX, u64::MAX, all),
            _ => {}
        }
    }

    /// Emits the missing texts of the main agent's step, up to these offsets.
    fn fill_step(&mut self, thinking_to: u64, text_to: u64, all: &mut Vec<Incoming>) {
        let main = &self.agents.main;
        let (turn, step) = (main.turn, main.step);
        let Some((thinking, text)) = self.fill.as_ref().and_then(|fill| fill.texts(turn, step)) else { return };
        let missing = |whole: &str, told: u64, to: u64| {
            let rest = after_units(whole, told.min(to));
            let beyond = after_units(rest, to.saturating_sub(told));
            rest[..rest.len() - beyond.len()].to_owned()
        };
        let missing =
            [(false, missing(thinking, main.thinking, thinking_to)), (true, missing(text, main.text, text_to))];
        let place = self.place(MAIN, Some(turn));
        for (is_text, text) in missing {
            if !text.is_empty() {
                self.push_text(MAIN, is_text, text, place, all);
            }
        }
    }

    /// Emits the lost events from the transcript.
    fn catch_up(&mut self, page: Page, snapshot: &Snapshot, all: &mut Vec<Incoming>) {
        let state_of_prompt = self.prompt.as_ref().and_then(|prompt| page.state_of(prompt.id()).map(str::to_owned));
        let names_prompts = page.names_prompts();
        let at = self.agents.main.turn;
        let begun = self.prompt.as_ref().and_then(|prompt| prompt.turn);
        for turn in page.into_turns().into_iter().filter(|turn| turn.ordinal >= at) {
            let is_ours = begun == Some(turn.ordinal)
                || turn.trigger.as_deref().is_some_and(|id| self.knows_prompt(id, None, all));
            if is_ours {
                self.catch_up_turn(turn, all);
            }
        }
        for (payloads, is_approval) in [(&snapshot.pending_approvals, true), (&snapshot.pending_questions, false)] {
            for payload in payloads {
                let asked = if is_approval {
                    self.approval_requested(payload.get(), all)
                } else {
                    self.question_requested(payload.get(), all)
                };
                if let Err(reason) = asked {
                    tracing::warn!(reason, "a request of the session can't be read");
                }
            }
        }
        let Some(prompt) = &self.prompt else { return };
        let id = prompt.id().to_owned();
        match state_of_prompt.as_deref() {
            Some("completed" | "failed" | "aborted" | "cancelled" | "blocked") => {
                let reason = state_of_prompt.unwrap_or_default();
                self.prompt_ended(&id, &reason, all);
            }
            None if prompt.is_accepted() && prompt.turn.is_none() && names_prompts => self.end_lost_prompt(all),
            _ if self.is_prompt_ending() => self.end_overdue_prompt(all),
            _ => {}
        }
    }

    fn catch_up_turn(&mut self, turn: Turn, all: &mut Vec<Incoming>) {
        let payload = |rest: Value| {
            let mut payload = Map::from_iter([("turnId".to_owned(), json!(turn.ordinal))]);
            payload.extend(rest.as_object().cloned().unwrap_or_default());
            Value::Object(payload).to_string()
        };
        if self.prompt.as_ref().is_some_and(|prompt| prompt.turn.is_none()) {
            let started = payload(json!({"promptId": turn.trigger}));
            if self.turn_started(&started, MAIN, all).is_err() {
                return;
            }
        }
        let place = self.place(MAIN, Some(turn.ordinal));
        for step in &turn.steps {
            let is_known = self.agents.main.turn == turn.ordinal && self.agents.main.step >= step.ordinal;
            if !is_known || self.agents.main.step == step.ordinal {
                self.tell_step(MAIN, turn.ordinal, step, !is_known, place, all);
            }
        }
        if !matches!(turn.state.as_str(), "running" | "queued") && !self.is_prompt_ending() {
            let ended = payload(json!({"reason": turn.state, "error": turn.error()}));
            if place == Place::Turn && self.turn_over(&ended, MAIN, place, all).is_err() {
                tracing::warn!("the end of a turn can't be read");
            }
        }
    }
}
