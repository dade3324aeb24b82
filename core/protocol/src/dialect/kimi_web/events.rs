//! Conversion of the server's frames to events.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::agents::{Place, push};
use super::ends::{Ended, cut_word};
use super::frames::Frame;
use super::{KimiWeb, MAIN, content, unknown};
use crate::dialect::Incoming;
use crate::json::{Key, borrowed, whole_number};
use crate::jsonrpc::{MAX_DEPTH, Params, is_too_deep};
use crate::messages::{
    CompactionBegin, CompactionEnd, Content, ContentPart, Event, Json, Notification, SteerInput, StepBegin,
    StepInterrupted, StepRetry, TurnBegin, TurnEnd, UnknownEvent, decode_body,
};

/// Frames without information for programs: their content also arrives in another form, or concerns other sessions.
const IGNORED: [&str; 14] = [
    "agent.created",
    "agent.disposed",
    "background.task.started",
    "background.task.terminated",
    "context.spliced",
    "event.session.created",
    "event.session.status_changed",
    "event.session.work_changed",
    "permission.approval.requested",
    "permission.approval.resolved",
    "prompt.queued",
    "prompt.started",
    "prompt.steered",
    "subagent.started",
];

/// The fields of nearly all payloads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head<'a> {
    #[serde(borrow, default)]
    agent_id: Option<Key<'a>>,
    #[serde(default)]
    pub(super) turn_id: Option<i64>,
}

impl<'a> Head<'a> {
    /// Reads the fields. A field that cannot be read is left out, and the other is kept.
    fn read(payload: &'a str) -> Self {
        borrowed(payload).unwrap_or_else(|_| {
            let members: BTreeMap<String, &RawValue> = borrowed(payload).unwrap_or_default();
            let member = |name| members.get(name).map(|member| member.get());
            let turn = member("turnId").and_then(|text| serde_json::from_str::<Value>(text).ok());
            Self {
                agent_id: member("agentId").and_then(|text| serde_json::from_str(text).ok()),
                turn_id: turn.and_then(|turn| whole_number(&turn)?.try_into().ok()),
            }
        })
    }

    pub(super) fn agent(&self) -> &str {
        self.agent_id.as_ref().map_or(MAIN, |agent| &*agent.0)
    }
}

impl KimiWeb {
    pub(super) fn read_frame(&mut self, kind: &str, params: &Params<'_>) -> Incoming {
        let invalid = |reason: String| Incoming::InvalidLine(format!("a frame that is none: {reason}"));
        if is_too_deep(params.get()) {
            let left_out = Event::Unknown(UnknownEvent {
                kind: kind.to_owned(),
                payload: Json::null(),
                error: Some(format!("nested deeper than {MAX_DEPTH} levels, and left out")),
                extra: Default::default(),
            });
            return Incoming::out_of_turn(left_out);
        }
        let frame = match Frame::read(params.get()) {
            Ok(frame) => frame,
            Err(reason) => return invalid(reason),
        };
        frame.log_left_out();
        if kind == "resync_required" {
            return self.is_behind(frame.payload());
        }
        match frame.session() {
            None => return invalid("it names no session".to_owned()),
            // Such frames are sent before the session's id is known, or concern all sessions.
            Some(session) if !self.is_ours(&session) && !self.is_open() => return Incoming::batch(Vec::new()),
            Some(session) if !self.is_ours(&session) => {
                return invalid(format!("of another session, `{session}`"));
            }
            Some(_) => {}
        }
        let mut all = Vec::new();
        if !self.holds(kind, &frame, params.get(), &mut all) {
            self.take_frame(kind, &frame, &mut all);
        }
        Incoming::batch(all)
    }

    /// Handles a frame of this session, unless it was received before.
    pub(super) fn take_frame(&mut self, kind: &str, frame: &Frame<'_>, all: &mut Vec<Incoming>) {
        if !self.cursor.is_new(frame) {
            return;
        }
        let payload = frame.payload();
        let head = Head::read(payload);
        if self.is_of_told_turn(kind, &head) {
            return;
        }
        self.fill_before(kind, &head, frame.offset, all);
        let agent = head.agent();
        let place = self.place(agent, head.turn_id);
        if place == Place::Nowhere && kind != "turn.ended" {
            return;
        }
        if let Err(error) = self.event(kind, payload, agent, place, frame.offset, all) {
            self.push(agent, place, unknown(kind, payload, Some(error)), all);
        }
    }

    /// Returns whether frames of the agent's turn may repeat events from a transcript.
    pub(super) fn is_retold(&self, agent: &str) -> bool {
        agent == MAIN && self.cursor.has_filled
    }

    /// Returns whether the end of the main agent's step was emitted.
    fn has_told_end(&self, payload: &str) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Step {
            turn_id: i64,
            step: i64,
        }
        let main = &self.agents.main;
        decode_body::<Step>(payload).is_ok_and(|ended| {
            ended.turn_id == main.turn && (ended.step < main.step || ended.step == main.step && main.is_over)
        })
    }

    /// Converts a frame. The error describes the problem of its payload.
    fn event(
        &mut self,
        kind: &str,
        payload: &str,
        agent: &str,
        place: Place,
        offset: Option<u64>,
        all: &mut Vec<Incoming>,
    ) -> Result<(), String> {
        match kind {
            "assistant.delta" | "thinking.delta" => self.delta(kind, payload, agent, place, offset, all),
            "tool.call.delta" => self.call_delta(payload, agent, place, all),
            "tool.call.started" => self.call_started(payload, agent, place, all),
            "tool.result" => self.tool_result(payload, agent, place, all),
            "turn.started" => self.turn_started(payload, agent, all),
            "turn.step.started" => {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Step {
                    turn_id: i64,
                    step: i64,
                }
                let Step { turn_id, step } = decode_body(payload)?;
                let main = &self.agents.main;
                if self.is_retold(agent) && main.turn == turn_id && step <= main.step {
                    self.agents.main.frames_step = step;
                    return Ok(());
                }
                let progress = self.agents.progress(agent);
                progress.begin_step(turn_id, step);
                progress.frames_step = step;
                self.push(agent, place, StepBegin { n: step, extra: Default::default() }.into(), all);
                Ok(())
            }
            "turn.step.completed" | "turn.step.interrupted" if self.is_retold(agent) && self.has_told_end(payload) => {
                // The transcript does not say it.
                self.note_cut(payload);
                Ok(())
            }
            "turn.step.completed" => self.step_completed(payload, agent, place, all),
            "turn.step.interrupted" => {
                self.agents.progress(agent).is_over = true;
                self.push(agent, place, StepInterrupted { extra: Default::default() }.into(), all);
                Ok(())
            }
            "turn.step.retrying" => {
                let event = retry(payload)?;
                self.push(agent, place, event, all);
                Ok(())
            }
            "turn.steer" => {
                #[derive(Deserialize)]
                struct Steer {
                    input: Json,
                }
                let user_input = content::content(&decode_body::<Steer>(payload)?.input);
                self.push(agent, place, SteerInput { user_input, extra: Default::default() }.into(), all);
                Ok(())
            }
            "turn.ended" => self.turn_over(payload, agent, place, all),
            "prompt.submitted" | "prompt.completed" | "prompt.aborted" => self.prompt_event(kind, payload, agent, all),
            "agent.status.updated" => self.status(payload, agent, place, all),
            "event.approval.requested" => self.approval_requested(payload, all),
            "event.approval.resolved" => self.approval_resolved(payload, all),
            "event.question.requested" => self.question_requested(payload, all),
            "event.question.answered" | "event.question.dismissed" => self.question_resolved(payload),
            "subagent.spawned" => self.subagent_spawned(payload, place, all),
            "subagent.completed" => Ok(()),
            "compaction.started" => {
                self.push(agent, place, CompactionBegin { extra: Default::default() }.into(), all);
                Ok(())
            }
            "compaction.completed" | "compaction.cancelled" => {
                self.push(agent, place, CompactionEnd { extra: Default::default() }.into(), all);
                Ok(())
            }
            "task.started" | "task.terminated" | "task.notified" => {
                let event = notification(kind, payload)?;
                self.push(agent, place, event, all);
                Ok(())
            }
            // The turn's end contains it.
            "error" if self.is_prompt_ending() => Ok(()),
            _ if IGNORED.contains(&kind) => Ok(()),
            "session.meta.updated" => {
                all.push(Incoming::out_of_turn(unknown(kind, payload, None)));
                Ok(())
            }
            _ => {
                self.push(agent, place, unknown(kind, payload, None), all);
                Ok(())
            }
        }
    }

    pub(super) fn turn_started(&mut self, payload: &str, agent: &str, all: &mut Vec<Incoming>) -> Result<(), String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Started {
            turn_id: i64,
            prompt_id: Option<String>,
            prompt: Option<Json>,
            origin: Option<Map<String, Value>>,
        }
        let started: Started = decode_body(payload)?;
        if agent == MAIN && self.prompt.as_ref().is_some_and(|prompt| prompt.turn == Some(started.turn_id)) {
            // The begin was emitted before.
            return Ok(());
        }
        self.agents.progress(agent).begin_turn(started.turn_id);
        if agent == MAIN && self.fill.is_none() {
            self.cursor.has_filled = false;
        }
        let said =
            |prompt: &Option<Json>| prompt.as_ref().map_or_else(|| Content::Text(String::new()), content::content);
        let begin = |user_input, origin: Option<Map<String, Value>>| {
            let mut begin = TurnBegin { user_input, synthesized: None, extra: Default::default() };
            if let Some(origin) = origin {
                begin.extra.insert("origin", Value::Object(origin));
            }
            Event::from(begin)
        };
        if agent != MAIN {
            let place = self.place(agent, None);
            self.push(agent, place, begin(said(&started.prompt), None), all);
            return Ok(());
        }
        let word = |name: &str| started.origin.as_ref().and_then(|origin| origin.get(name)).and_then(Value::as_str);
        let skill = word("skillName").filter(|_| word("kind") == Some("skill_activation"));
        // Releases before 0.43 do not name the prompt.
        let is_unnamed = started.prompt_id.is_none() && word("kind") == Some("user");
        if let Some(prompt) = self.prompt.as_mut().filter(|prompt| is_unnamed && prompt.turn.is_none()) {
            prompt.turn = Some(started.turn_id);
            let input = prompt.take_input();
            push(Place::Turn, begin(input, None), all);
            return Ok(());
        }
        if let Some(id) = &started.prompt_id {
            if self.knows_prompt(id, skill, all) {
                if let Some(prompt) = self.prompt.as_mut().filter(|prompt| prompt.turn.is_none()) {
                    prompt.turn = Some(started.turn_id);
                    let input = prompt.take_input();
                    push(Place::Turn, begin(input, None), all);
                }
                return Ok(());
            }
            if self.stops_orphan(id, all) {
                self.agents.muted = Some(started.turn_id);
                return Ok(());
            }
        }
        push(Place::Outside, begin(said(&started.prompt), started.origin), all);
        Ok(())
    }

    pub(super) fn turn_over(
        &mut self,
        payload: &str,
        agent: &str,
        place: Place,
        all: &mut Vec<Incoming>,
    ) -> Result<(), String> {
        let ended: Ended = decode_body(payload)?;
        if place == Place::Nowhere {
            self.agents.muted = None;
            return Ok(());
        }
        if agent == MAIN && place == Place::Turn {
            if self.is_prompt_ending() || ended.turn_id.is_none() {
                return Ok(());
            }
            let cut = cut_word(payload).or_else(|| self.cut_of(ended.turn_id));
            self.turn_ended(ended, cut.as_deref());
        }
        self.push(agent, place, TurnEnd { synthesized: None, extra: Default::default() }.into(), all);
        Ok(())
    }

    fn prompt_event(&mut self, kind: &str, payload: &str, agent: &str, all: &mut Vec<Incoming>) -> Result<(), String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Prompted {
            prompt_id: String,
            reason: Option<String>,
        }
        let prompted: Prompted = decode_body(payload)?;
        if agent != MAIN {
            return Ok(());
        }
        match (kind, prompted.reason.as_deref()) {
            ("prompt.submitted", _) => drop(self.knows_prompt(&prompted.prompt_id, None, all)),
            ("prompt.completed", reason) => {
                self.prompt_ended(&prompted.prompt_id, reason.unwrap_or("completed"), all);
            }
            _ => self.prompt_ended(&prompted.prompt_id, "aborted", all),
        }
        Ok(())
    }

    fn delta(
        &mut self,
        kind: &str,
        payload: &str,
        agent: &str,
        place: Place,
        offset: Option<u64>,
        all: &mut Vec<Incoming>,
    ) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Delta {
            delta: String,
        }
        let Delta { delta } = decode_body(payload)?;
        let is_text = kind == "assistant.delta";
        if self.is_retold(agent) && self.agents.main.frames_step < self.agents.main.step {
            return Ok(());
        }
        let progress = self.agents.progress(agent);
        let told = if is_text { progress.text } else { progress.thinking };
        // Frames repeat events from a transcript only after a lost connection.
        let known =
            offset.filter(|_| agent == MAIN && self.cursor.has_filled).map_or(0, |offset| told.saturating_sub(offset));
        let new = after_units(&delta, known);
        if new.is_empty() {
            return Ok(());
        }
        let new = if new.len() == delta.len() { delta } else { new.to_owned() };
        self.push_text(agent, is_text, new, place, all);
        Ok(())
    }

    /// Emits a part of an agent's step.
    pub(super) fn push_text(
        &mut self,
        agent: &str,
        is_text: bool,
        text: String,
        place: Place,
        all: &mut Vec<Incoming>,
    ) {
        let progress = self.agents.progress(agent);
        let told = if is_text { &mut progress.text } else { &mut progress.thinking };
        *told = told.saturating_add(units(&text));
        self.push(agent, place, part(is_text, text), all);
    }
}

fn part(is_text: bool, text: String) -> Event {
    if is_text { ContentPart::text(text).into() } else { ContentPart::think(text).into() }
}

fn retry(payload: &str) -> Result<Event, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Retry {
        step: i64,
        next_attempt: i64,
        max_attempts: i64,
        delay_ms: Option<f64>,
        error_name: Option<String>,
        status_code: Option<i64>,
    }
    let retry: Retry = decode_body(payload)?;
    Ok(StepRetry {
        n: retry.step,
        next_attempt: retry.next_attempt,
        max_attempts: retry.max_attempts,
        wait_s: retry.delay_ms.unwrap_or_default() / 1e3,
        error_type: retry.error_name.unwrap_or_default(),
        status_code: retry.status_code,
        extra: Default::default(),
    }
    .into())
}

/// A background task.
fn notification(kind: &str, payload: &str) -> Result<Event, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Notified {
        time: Option<f64>,
        notification_type: Option<String>,
        title: Option<String>,
        body: Option<String>,
        severity: Option<String>,
        source_kind: Option<String>,
        source_id: Option<String>,
        info: Option<Map<String, Value>>,
    }
    let told: Notified = decode_body(payload)?;
    let info = |name: &str| {
        let value = told.info.as_ref().and_then(|info| info.get(name)).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let source_id = told.source_id.clone().unwrap_or_else(|| info("taskId"));
    let kind = told.notification_type.clone().unwrap_or_else(|| kind.to_owned());
    Ok(Notification {
        id: format!("{source_id}:{kind}"),
        category: "task".to_owned(),
        source_kind: told.source_kind.clone().unwrap_or_else(|| "background_task".to_owned()),
        title: told.title.clone().unwrap_or_else(|| info("description")),
        body: told.body.clone().unwrap_or_else(|| info("status")),
        severity: told.severity.clone().unwrap_or_else(|| "info".to_owned()),
        created_at: told.time.unwrap_or_default() / 1e3,
        kind,
        source_id,
        payload: told.info,
        extra: Default::default(),
    }
    .into())
}

/// Returns the length of a text in UTF-16 units.
pub(super) fn units(text: &str) -> u64 {
    text.chars().map(|char| char.len_utf16() as u64).sum()
}

/// Returns the text after this many UTF-16 units.
pub(super) fn after_units(text: &str, mut units: u64) -> &str {
    for (at, char) in text.char_indices() {
        if units == 0 {
            return &text[at..];
        }
        units = units.saturating_sub(char.len_utf16() as u64);
    }
    if units == 0 && text.is_empty() { text } else { "" }
}
