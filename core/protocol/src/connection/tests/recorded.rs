//! Sessions with real releases, played again: what the program did is done once more where it did it, and the agent's
//! bytes come in any pieces.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::OnError;
use crate::answers::{Answers, Approval, HookDecision};
use crate::dialect::recorded::{self, Line, Recording};
use crate::dialect::{Answer, HookOffer, ToolOffer};
use crate::jsonrpc::framing::LineBuffer;
use crate::messages::Content;

/// A recorded session while it is played.
struct Player {
    connection: Connection,
    now: Instant,
    buffer: LineBuffer,
    /// Our ids by those of the recording.
    ids: HashMap<String, String>,
    asked: Vec<(String, RequestKey, Event)>,
    turn: TurnKey,
    /// By our id: the turns and calls that were begun.
    made: BTreeSet<CallKey>,
    /// Answers that were written.
    answers: Vec<Value>,
    /// All outputs, as text, where they are kept.
    trace: Option<Vec<String>>,
    /// Types of the agent's events and requests, in order.
    events: Vec<String>,
    /// The plans, with the status of each entry.
    plans: Vec<String>,
    ended: BTreeMap<TurnKey, String>,
    calls: BTreeMap<CallKey, String>,
}

/// The offers in the handshake of the recording.
fn hello(recording: &Recording) -> InitializeParams {
    let mut hello = InitializeParams::default();
    for line in &recording.lines {
        let Line::In(line) = line else { continue };
        let call: Value = serde_json::from_str(line).expect("JSON");
        for tool in call["params"]["external_tools"].as_array().into_iter().flatten() {
            hello.tools.push(ToolOffer {
                name: tool["name"].as_str().unwrap_or_default().to_owned(),
                description: String::new(),
                parameters: tool["parameters"].clone(),
            });
        }
        for hook in call["params"]["hooks"].as_array().into_iter().flatten() {
            let text = |name: &str| hook[name].as_str().unwrap_or_default().to_owned();
            hello.hooks.push(HookOffer { id: text("id"), event: text("event"), matcher: None, timeout: None });
        }
    }
    hello
}

impl Player {
    fn new(recording: &Recording, dialect: Box<dyn Dialect>) -> Self {
        let hello = hello(recording);
        let policy = AnswerSources {
            approval: AnswerSource::Handler,
            question: AnswerSource::Handler,
            tools: hello.tools.iter().map(|tool| tool.name.clone()).collect(),
            hooks: hello.hooks.iter().map(|hook| (hook.id.clone(), (OnError::Allow, hook.event.clone()))).collect(),
            observed: true,
            ..AnswerSources::default()
        };
        let mut player = Self {
            connection: Connection::new(dialect, timing(), policy),
            now: Instant::now(),
            buffer: LineBuffer::new(1 << 20),
            ids: HashMap::new(),
            asked: Vec::new(),
            turn: 0,
            made: BTreeSet::new(),
            answers: Vec::new(),
            trace: None,
            events: Vec::new(),
            plans: Vec::new(),
            ended: BTreeMap::new(),
            calls: BTreeMap::new(),
        };
        player.connection.open(hello, player.now);
        player
    }

    /// Plays a recording.
    fn play(recording: &Recording, dialect: Box<dyn Dialect>) -> Self {
        Self::new(recording, dialect).go(recording, &[])
    }

    /// All that comes out where the agent's bytes come in pieces of these sizes, by turns.
    fn trace(recording: &Recording, sizes: &[usize]) -> Vec<String> {
        let mut player = Self::new(recording, recording.dialect());
        player.trace = Some(Vec::new());
        player.go(recording, sizes).trace.unwrap_or_default()
    }

    fn go(mut self, recording: &Recording, sizes: &[usize]) -> Self {
        let player = &mut self;
        let mut waiting = Vec::new();
        let mut sizes = sizes.iter().cycle();
        for line in &recording.lines {
            match line {
                Line::Out(line) => {
                    waiting.extend_from_slice(player.renamed(line).as_bytes());
                    waiting.push(b'\n');
                }
                Line::In(line) => {
                    player.hear(&std::mem::take(&mut waiting), &mut sizes);
                    player.tell(line);
                }
            }
        }
        player.hear(&waiting, &mut sizes);
        player.end();
        self
    }

    fn hear<'a>(&mut self, mut bytes: &[u8], sizes: &mut impl Iterator<Item = &'a usize>) {
        while !bytes.is_empty() {
            let size = sizes.next().map_or(bytes.len(), |size| (*size).min(bytes.len()));
            let (piece, rest) = bytes.split_at(size);
            self.buffer.extend(piece);
            while let Some(line) = self.buffer.next_line().expect("short lines") {
                self.connection.handle_line(line, self.now);
                self.look();
            }
            bytes = rest;
        }
    }

    /// A response, with the id that the call has now.
    fn renamed(&self, line: &str) -> String {
        let message: Value = serde_json::from_str(line).expect("JSON");
        match message["id"].as_str().and_then(|id| Some((id, self.ids.get(id)?))) {
            Some((id, now)) if message["method"].is_null() => {
                line.replacen(&format!("\"id\":\"{id}\""), &format!("\"id\":\"{now}\""), 1)
            }
            _ => line.to_owned(),
        }
    }

    /// Does what the program did when this line was written.
    fn tell(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).expect("JSON");
        let params = &message["params"];
        let content = |name: &str| serde_json::from_value::<Content>(params[name].clone()).expect("a content");
        let call = match message["method"].as_str() {
            // Was sent when the player was made.
            Some("initialize") => Ok(0),
            Some("prompt" | "run") => {
                if self.connection.cancelling().is_some() {
                    // The recorded session, too, gave up waiting here.
                    self.pass();
                }
                self.turn += 1;
                let input = content(if message["method"] == "run" { "input" } else { "user_input" });
                self.connection.prompt(self.turn, input, self.now);
                Ok(0)
            }
            Some("cancel" | "interrupt") => {
                self.connection.cancel(self.turn, self.now);
                Ok(0)
            }
            Some("steer") => self.connection.steer(self.turn, content("user_input"), self.now),
            Some("set_plan_mode") => self.connection.set_plan_mode(params["enabled"] == true, self.now),
            Some("replay") => self.connection.start_replay(self.now),
            Some(other) => panic!("a call of `{other}`"),
            None => {
                self.respond(&message["result"]);
                Ok(0)
            }
        };
        self.made.extend(call.ok().filter(|call| *call > 0));
        for sent in self.sent() {
            if let (true, Some(id), Some(now)) =
                (sent["method"].is_string(), message["id"].as_str(), sent["id"].as_str())
            {
                self.ids.insert(id.to_owned(), now.to_owned());
            }
        }
        self.look();
    }

    fn respond(&mut self, result: &Value) {
        let id = result["request_id"].as_str().or(result["tool_call_id"].as_str()).unwrap_or_default();
        let Some(at) = self.asked.iter().position(|(request_id, ..)| request_id == id) else { return };
        let (_, key, request) = self.asked.remove(at);
        let answer = match request {
            Event::ApprovalRequest(_) => Answer::Approval(match result["response"].as_str() {
                Some("approve") => Approval::Approve,
                Some("approve_for_session") => Approval::ApproveForSession,
                _ => Approval::Reject { feedback: result["feedback"].as_str().map(str::to_owned) },
            }),
            Event::QuestionRequest(request) => {
                // Some were recorded with an answer to another text than that of the question.
                let label = result["answers"].as_object().and_then(|answers| answers.values().next()?.as_str());
                let question = &request.questions[0].question;
                Answer::Question(label.map(|label| Answers::new().answer(question, label)))
            }
            Event::ToolCallRequest(_) => {
                Answer::Tool(serde_json::from_value(result["return_value"].clone()).expect("a return value"))
            }
            Event::HookRequest(_) if result["action"] == "block" => {
                Answer::Hook(HookDecision::Block(result["reason"].as_str().unwrap_or_default().to_owned()))
            }
            Event::HookRequest(_) => Answer::Hook(HookDecision::Allow),
            other => panic!("{other:?}"),
        };
        self.connection.answer(key, &answer, self.now);
    }

    fn sent(&mut self) -> Vec<Value> {
        let bytes = self.connection.poll_transmit();
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let sent: Vec<Value> = lines.map(|line| serde_json::from_slice(line).expect("a line of JSON")).collect();
        self.answers.extend(sent.iter().filter(|sent| sent.get("method").is_none()).cloned());
        sent
    }

    fn look(&mut self) {
        while let Some(output) = self.connection.poll_output() {
            if let Some(trace) = &mut self.trace {
                trace.push(format!("{output:?}"));
            }
            match output {
                Output::Event { scope, event, .. } => {
                    if let Scope::Turn(turn, _) = scope {
                        assert!(!self.ended.contains_key(&turn), "after the end of turn {turn}: {event:?}");
                    }
                    let event = *event;
                    let made_up = match &event {
                        Event::TurnBegin(event) => event.synthesized == Some(true),
                        Event::TurnEnd(event) => event.synthesized == Some(true),
                        Event::Plan(plan) => {
                            self.plans.push(
                                plan.entries.iter().map(|entry| entry.status.to_string()).collect::<Vec<_>>().join(" "),
                            );
                            true
                        }
                        _ => false,
                    };
                    if !made_up {
                        self.events.push(event.type_name().to_owned());
                    }
                }
                Output::Ask { key, request, .. } => {
                    let id = request.request_id().unwrap_or_default().to_owned();
                    self.asked.push((id, key, *request));
                }
                Output::TurnEnded { turn, outcome } => {
                    let outcome = outcome.map_or_else(|error| told(&error), |result| result.status.as_str().to_owned());
                    assert_eq!(self.ended.insert(turn, outcome), None, "turn {turn} ended twice");
                }
                Output::CallEnded { call, outcome } => {
                    let outcome = outcome.map_or_else(|error| told(&error), |json| json.get().to_owned());
                    assert_eq!(self.calls.insert(call, outcome), None, "call {call} ended twice");
                }
                _ => {}
            }
        }
    }

    fn pass(&mut self) {
        self.now = self.connection.poll_timeout().expect("a deadline");
        self.connection.handle_timeout(self.now);
        self.look();
    }

    fn end(&mut self) {
        while self.connection.poll_timeout().is_some() {
            self.pass();
        }
        self.connection.close(&Error::session_closed());
        self.look();
        self.sent();
    }
}

/// An error as the recording has it: by its code.
fn told(error: &Error) -> String {
    match error {
        Error::Rpc(error) => error.rpc_code.unwrap_or_default().to_string(),
        other => other.code().to_owned(),
    }
}

/// Types of the agent's events and requests, in order, as the recording has them.
fn recorded_types(recording: &Recording) -> Vec<String> {
    let params = recording.said().filter_map(|line| {
        let message: Value = serde_json::from_str(line).expect("JSON");
        message["params"]["type"].as_str().map(str::to_owned)
    });
    params.collect()
}

/// How the recorded prompts ended: by status, or by error code; those that were never answered are left out.
fn recorded_ends(recording: &Recording) -> BTreeMap<TurnKey, String> {
    let mut turns = HashMap::new();
    let mut ends = BTreeMap::new();
    for line in &recording.lines {
        match line {
            Line::In(line) => {
                let call: Value = serde_json::from_str(line).expect("JSON");
                if call["method"] == "prompt" || call["method"] == "run" {
                    turns.insert(call["id"].to_string(), turns.len() as TurnKey + 1);
                }
            }
            Line::Out(line) => {
                let message: Value = serde_json::from_str(line).expect("JSON");
                if let (true, Some(turn)) = (message["method"].is_null(), turns.get(&message["id"].to_string())) {
                    let status = message["result"]["status"].as_str().map(str::to_owned);
                    ends.insert(*turn, status.unwrap_or_else(|| message["error"]["code"].to_string()));
                }
            }
        }
    }
    ends
}

/// The answers that the agent was given, by id.
fn recorded_answers(recording: &Recording) -> BTreeMap<String, Value> {
    let told = recording.lines.iter().filter_map(|line| match line {
        Line::In(line) => Some(serde_json::from_str::<Value>(line).expect("JSON")),
        Line::Out(_) => None,
    });
    let answers = told.filter(|message| message.get("method").is_none());
    answers.map(|answer| (answer["id"].to_string(), without_questions(answer))).collect()
}

/// Some sessions were recorded with answers to another text than that of the question, which is refused now.
fn without_questions(mut answer: Value) -> Value {
    if let Some(answers) = answer.pointer_mut("/result/answers")
        && let Some(given) = answers.as_object().map(|answers| answers.values().cloned().collect::<Vec<_>>())
    {
        *answers = given.into();
    }
    answer
}

#[test]
fn recorded_session_replays_with_same_outcome() {
    for recording in recordings() {
        let title = recording.title();
        let player = Player::play(recording, recording.dialect());
        assert_eq!(player.events.len(), recorded_types(recording).len(), "{title}: {:?}", player.events);
        assert_eq!(player.ended.len() as TurnKey, player.turn, "{title}: {:?}", player.ended);
        for (turn, end) in recorded_ends(recording) {
            assert_eq!(player.ended[&turn], end, "{title}: turn {turn}");
        }
        let ended: BTreeSet<_> = player.calls.keys().copied().collect();
        assert_eq!(ended, player.made, "{title}");
        let answers = recorded_answers(recording);
        assert_eq!(player.answers.len(), answers.len(), "{title}: {:#?}", player.answers);
        for answer in &player.answers {
            let found = without_questions(answer.clone());
            assert_eq!(answers.get(&answer["id"].to_string()), Some(&found), "{title}");
        }
    }
}

#[test]
fn recorded_todo_list_becomes_plan() {
    let has_list = |recording: &&Recording| recording.said().any(|line| line.contains(r#"{"type":"todo","items":["#));
    let mut releases = BTreeSet::new();
    for recording in recordings().iter().filter(has_list) {
        let player = Player::play(recording, recording.dialect());
        assert_eq!(player.plans, ["completed in_progress"], "{}", recording.title());
        releases.insert(recording.release.clone());
    }
    assert!(releases.len() >= 8, "{releases:?}");
}

#[test]
fn recorded_prompts_without_answer_end_cancelled() {
    let mut found = Vec::new();
    for recording in recordings() {
        let player = Player::play(recording, recording.dialect());
        let answered = recorded_ends(recording);
        for (turn, end) in player.ended.iter().filter(|(turn, _)| !answered.contains_key(turn)) {
            found.push(format!("{} {turn} {end}", recording.title()));
        }
    }
    assert_eq!(found, NEVER_ANSWERED);
}

/// Prompts without an answer, and what became of their turns.
const NEVER_ANSWERED: &[&str] = &[
    // Legacy reads nothing while a run is going: the session is given up.
    "0.58 cancel_in_stream 1 timeout",
    "0.79 cancel_with_approval_pending 1 cancelled",
    "1.13.0 mcp_failed 1 cancelled",
    "1.5 cancel_with_approval_pending 1 cancelled",
    "1.8.0 cancel_with_approval_pending 1 cancelled",
];

#[test]
fn recorded_session_is_harmless_in_other_dialects() {
    for recording in recordings() {
        let types = recorded_types(recording);
        for dialect in recorded::dialects() {
            let name = format!("{dialect:?}");
            let player = Player::play(recording, dialect);
            let title = || format!("{} as {name}", recording.title());
            assert_eq!(player.ended.len() as TurnKey, player.turn, "{}: {:?}", title(), player.ended);
            let ended: BTreeSet<_> = player.calls.keys().copied().collect();
            assert_eq!(ended, player.made, "{}", title());
            if !player.ended.values().any(|end| end == "timeout") {
                // Messages that were not renamed come under their name, all in order.
                assert_eq!(player.events.len(), types.len(), "{}", title());
                for (event, kind) in player.events.iter().zip(&types) {
                    assert!(event == kind || recorded::modern(kind) == *event, "{}: {event} for {kind}", title());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn recorded_session_is_independent_of_chunking(
        which in any::<prop::sample::Index>(),
        sizes in proptest::collection::vec(1..300usize, 1..20),
    ) {
        let recordings = recordings();
        let recording = which.get(recordings);
        prop_assert_eq!(Player::trace(recording, &sizes), Player::trace(recording, &[]));
    }
}

/// All of them, read once.
fn recordings() -> &'static [Recording] {
    static ALL: std::sync::LazyLock<Vec<Recording>> = std::sync::LazyLock::new(recorded::load);
    &ALL
}
