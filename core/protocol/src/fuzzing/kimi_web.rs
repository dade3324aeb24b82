//! A program and Kimi Code's server, in any order, over a connection that breaks. The server is modelled as it is: it keeps
//! a journal without texts, and a transcript. So here is more than what ends once: what the server said arrives whole,
//! once, and in order.

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use serde_json::{Value, json};

use self::server::Server;
use super::scenario::{Answering, Deed};
use crate::answers::Approval;
use crate::connection::{AnswerSources, Connection, Output, Scope, Timing, TurnStatus};
use crate::dialect::{Answer, InitializeParams, KimiWeb, KimiWebParams};
use crate::error::Error;
use crate::messages::{ContentPart, Event};

const SESSION: &str = "s";
const PATH: &str = "/api/v1/sessions/s";

#[derive(Clone, Debug, Arbitrary)]
pub(crate) struct Course {
    pub(crate) approval: Answering,
    pub(crate) moves: Vec<Move>,
}

/// Numbers count from the oldest of what they mean.
#[derive(Clone, Debug, Arbitrary)]
pub(crate) enum Move {
    // The program:
    Prompt,
    Cancel,
    Steer,
    Replay,
    /// A handler comes back.
    Handle(u8, Deed),
    // The server:
    /// A call of ours reaches it.
    Arrive(u8),
    /// An answer of its reaches us.
    Deliver(u8),
    /// It goes on with what it does.
    Work(u8),
    /// It begins a turn that nobody has asked for.
    Background,
    /// The connection breaks.
    Break,
    /// It is there again. Events may be lost then.
    Reconnect {
        is_behind: bool,
    },
    /// A line of any kind.
    Line(Vec<u8>),
    // The clock:
    Wait(u8),
    Deadline,
}

/// A call of ours on its way.
#[derive(Clone, Debug)]
struct Call {
    id: u64,
    method: String,
    params: Value,
}

/// What arrived of a turn: the texts and the results of each step.
#[derive(Debug, Default, PartialEq)]
struct Told {
    steps: Vec<(String, String, Vec<String>)>,
    is_ended: bool,
}

struct World {
    connection: Connection,
    server: Server,
    now: Instant,
    calls: Vec<Call>,
    answers: Vec<Value>,
    turns: BTreeMap<u64, bool>,
    told: BTreeMap<u64, Told>,
    /// The server's number of each turn of ours, once it has begun there.
    prompts: BTreeMap<u64, String>,
    ended_calls: BTreeSet<u64>,
    our_calls: BTreeSet<u64>,
    asked: Vec<(u64, String, bool)>,
    ids: BTreeSet<String>,
    granted: usize,
    allowed: usize,
    is_yolo: bool,
    /// Lines of any kind came.
    is_odd: bool,
    is_dead: bool,
}

/// Plays a course to its end.
pub(crate) fn play(course: &Course) {
    let minute = Duration::from_secs(60);
    let timing = Timing { handshake: minute, cancel: minute, answer: minute, turn: None, idle: None, quiet: None };
    let policy = AnswerSources { approval: course.approval.into(), observed: true, ..AnswerSources::default() };
    let dialect = KimiWeb::new(KimiWebParams { nonce: "n".to_owned(), model: Some("m".into()), ..Default::default() });
    let mut world = World {
        connection: Connection::new(Box::new(dialect), timing, policy),
        server: Server { is_connected: true, ..Server::default() },
        now: Instant::now(),
        calls: Vec::new(),
        answers: Vec::new(),
        turns: BTreeMap::new(),
        told: BTreeMap::new(),
        prompts: BTreeMap::new(),
        ended_calls: BTreeSet::new(),
        our_calls: BTreeSet::new(),
        asked: Vec::new(),
        ids: BTreeSet::new(),
        granted: 0,
        allowed: 0,
        is_yolo: matches!(course.approval, Answering::Yolo),
        is_odd: false,
        is_dead: false,
    };
    world.connection.open(InitializeParams::default(), world.now);
    world.look();
    world.settle();
    for one in &course.moves {
        world.make(one);
        world.look();
    }
    world.end();
}

impl World {
    fn make(&mut self, one: &Move) {
        match one {
            _ if self.is_dead => {}
            Move::Prompt => {
                let turn = self.turns.len() as u64 + 1;
                self.turns.insert(turn, false);
                self.connection.prompt(turn, "go".into(), self.now);
            }
            Move::Cancel => self.connection.cancel(self.turns.len() as u64, self.now),
            Move::Steer => {
                if let Ok(call) = self.connection.steer(self.turns.len() as u64, "more".into(), self.now) {
                    assert!(self.our_calls.insert(call), "two calls have one key");
                }
            }
            Move::Replay => {
                if let Ok(call) = self.connection.start_replay(self.now) {
                    assert!(self.our_calls.insert(call), "two calls have one key");
                }
            }
            Move::Handle(which, deed) => self.handle(*which, *deed),
            Move::Arrive(which) => self.arrive(*which),
            Move::Deliver(which) => self.deliver(*which),
            Move::Work(what) => self.server.work(*what),
            Move::Background => {
                if !self.server.is_running {
                    self.server.begin(None);
                }
            }
            Move::Break => self.lose(),
            Move::Reconnect { is_behind } => self.reconnect(*is_behind),
            Move::Line(line) => {
                self.is_odd = true;
                self.connection.handle_line(line, self.now);
            }
            Move::Wait(seconds) => self.now += Duration::from_secs(u64::from(*seconds % 4)),
            Move::Deadline => self.deadline(),
        }
        self.hear_lines();
    }

    fn hear(&mut self, line: &Value) {
        self.connection.handle_line(line.to_string().as_bytes(), self.now);
        self.look();
    }

    fn hear_lines(&mut self) {
        while let Some(line) = self.server.lines.pop_front() {
            self.hear(&line);
        }
    }

    fn deadline(&mut self) {
        if let Some(deadline) = self.connection.poll_timeout() {
            self.now = self.now.max(deadline);
            self.connection.handle_timeout(self.now);
        }
    }

    fn handle(&mut self, which: u8, deed: Deed) {
        let open: Vec<_> = self.asked.iter().enumerate().filter(|(_, (.., open))| *open).map(|(at, _)| at).collect();
        let Some(at) = open.get(usize::from(which) % open.len().max(1)) else { return };
        let key = self.asked[*at].0;
        self.asked[*at].2 = false;
        match deed {
            Deed::Yes => {
                self.granted += 1;
                self.connection.answer(key, &Answer::Approval(Approval::Approve), self.now);
            }
            Deed::No => self.connection.answer(key, &Answer::Approval(Approval::reject("no")), self.now),
            Deed::Fail => self.connection.handler_failed(key, "boom".to_owned(), self.now),
        }
    }

    fn lose(&mut self) {
        (self.server.is_connected, self.server.is_subscribed) = (false, false);
        let lost: Vec<_> = self.calls.extract_if(.., |call| call.method.starts_with("WS ")).collect();
        for call in lost {
            self.fail(&call, -32010, "the connection was lost");
        }
    }

    fn reconnect(&mut self, is_behind: bool) {
        if self.server.is_connected {
            self.lose();
        }
        (self.server.is_connected, self.server.is_behind) = (true, is_behind);
        self.hear(&json!({"jsonrpc": "2.0", "method": "gateway/connected", "params": {"count": 2}}));
    }

    fn reply(&mut self, call: &Call, result: Value) {
        self.answers.push(json!({"jsonrpc": "2.0", "id": call.id, "result": result}));
    }

    fn fail(&mut self, call: &Call, code: i64, message: &str) {
        self.answers.push(json!({"jsonrpc": "2.0", "id": call.id, "error": {"code": code, "message": message}}));
    }

    fn deliver(&mut self, which: u8) {
        if !self.answers.is_empty() {
            let answer = self.answers.remove(usize::from(which) % self.answers.len());
            self.hear(&answer);
        }
    }

    /// A call reaches the server. The connection's own order holds: its answer comes after what it caused.
    fn arrive(&mut self, which: u8) {
        if self.calls.is_empty() {
            return;
        }
        let call = self.calls.remove(usize::from(which) % self.calls.len());
        let path = call.method.split_once(PATH).map_or("", |(_, path)| path).to_owned();
        match &*path {
            _ if call.method == "WS subscribe" => self.subscribe(&call),
            "" => self.reply(&call, json!({"server_version": "1", "id": SESSION})),
            "/prompts" => {
                let prompt = call.params["prompt_id"].as_str().expect("an id").to_owned();
                self.server.keep("prompt.submitted", json!({"promptId": prompt}));
                let status = if self.server.is_running { "queued" } else { "running" };
                if self.server.is_running {
                    self.server.queue.push_back(prompt.clone());
                } else {
                    self.server.begin(Some(prompt.clone()));
                }
                self.reply(&call, json!({"prompt_id": prompt, "status": status}));
            }
            "/prompts:steer" => {
                let prompt = call.params["prompt_ids"][0].as_str().expect("an id").to_owned();
                let before = self.server.queue.len();
                self.server.queue.retain(|queued| *queued != prompt);
                if self.server.is_running && before != self.server.queue.len() {
                    let turn = self.server.ordinal();
                    self.server.keep("turn.steer", json!({"turnId": turn, "input": "more"}));
                    self.reply(&call, json!({"steered": true}));
                } else {
                    self.fail(&call, 40402, "no active prompt to steer into");
                }
            }
            ":abort" => {
                self.server.abort(None);
                self.reply(&call, json!({"aborted": true}));
            }
            "/snapshot" => {
                let snapshot = self.server.snapshot();
                self.reply(&call, snapshot);
            }
            path if path.starts_with("/transcript") => {
                let transcript = self.server.transcript();
                self.reply(&call, transcript);
            }
            path if path.starts_with("/prompts/") => {
                let prompt = path["/prompts/".len()..].trim_end_matches(":abort").to_owned();
                if self.server.abort(Some(&prompt)) {
                    self.reply(&call, json!({"aborted": true}));
                } else {
                    self.fail(&call, 40402, "not found");
                }
            }
            path if path.starts_with("/approvals/") => self.decide(&call, &path["/approvals/".len()..]),
            _ => self.reply(&call, json!({})),
        }
        self.hear_lines();
    }

    fn decide(&mut self, call: &Call, approval: &str) {
        let Some((_, tool)) = self.server.approval.take_if(|(open, _)| open == approval) else {
            return self.fail(call, 40902, "already resolved");
        };
        let decision = call.params["decision"].as_str().expect("a decision").to_owned();
        self.allowed += usize::from(decision != "rejected");
        assert!(self.is_yolo || self.allowed <= self.granted, "allowed without the program");
        self.server.keep("event.approval.resolved", json!({"approval_id": approval, "decision": decision}));
        self.server.started(&tool);
        self.server.result(&tool);
        self.reply(call, json!({"resolved": true}));
    }

    fn subscribe(&mut self, call: &Call) {
        if !self.server.is_connected {
            return self.fail(call, -32010, "the connection was lost");
        }
        let at = &call.params["cursors"][SESSION]["seq"];
        let at = at.as_u64();
        let is_behind = self.server.is_behind && at.is_some();
        self.server.is_subscribed = true;
        if let Some(at) = at.filter(|_| !is_behind) {
            let again: Vec<_> =
                self.server.journal.iter().filter(|(seq, _)| *seq > at).map(|(_, line)| line.clone()).collect();
            for line in again {
                self.hear(&line);
            }
        }
        let (lists, seq) = (if is_behind { "resync_required" } else { "accepted" }, self.server.seq);
        let mut answer = json!({"accepted": [], "not_found": [], "resync_required": []});
        answer[lists] = json!([SESSION]);
        answer["cursors"] = json!({SESSION: {"seq": seq, "epoch": "e"}});
        // An answer over the socket comes in its order with the frames.
        self.hear(&json!({"jsonrpc": "2.0", "id": call.id, "result": answer}));
    }

    fn look(&mut self) {
        while let Some(output) = self.connection.poll_output() {
            match output {
                Output::Event { scope: Scope::Turn(turn, _), event, .. } => {
                    assert_eq!(self.turns.get(&turn), Some(&false), "an event of a turn that does not run");
                    self.tell(turn, &event);
                }
                Output::Ask { key, request, .. } => {
                    let id = request.request_id().unwrap_or_default().to_owned();
                    assert!(self.is_odd || self.ids.insert(id.clone()), "{id} is asked twice");
                    self.asked.push((key, id, true));
                }
                Output::Withdrawn(key) => {
                    if let Some(asked) = self.asked.iter_mut().find(|asked| asked.0 == key) {
                        assert!(asked.2, "withdrawn after it was answered");
                        asked.2 = false;
                    }
                }
                Output::CallEnded { call, .. } => assert!(self.ended_calls.insert(call), "a call ended twice"),
                Output::TurnEnded { turn, outcome } => {
                    let ended = self.turns.get_mut(&turn).expect("a turn of ours");
                    assert!(!std::mem::replace(ended, true), "turn {turn} ended twice");
                    if outcome.is_ok_and(|result| result.status == TurnStatus::Finished) && !self.is_odd {
                        self.compare(turn);
                    }
                }
                Output::FatalError(_) => self.is_dead = true,
                _ => {}
            }
        }
        self.take_calls();
    }

    fn take_calls(&mut self) {
        let bytes = self.connection.poll_transmit();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut line: Value = serde_json::from_slice(line).expect("what we write is JSON");
            // A line of any kind may be a request, which is refused.
            let Some(method) = line["method"].as_str().map(str::to_owned) else { continue };
            let id = line["id"].as_u64().expect("ids of ours are numbers");
            if method.ends_with("/prompts") {
                let prompt = line["params"]["prompt_id"].as_str().expect("an id").to_owned();
                let is_turn = line["params"]["content"][0]["text"] == "go";
                if is_turn {
                    let turn = self.turns.iter().find(|(turn, ended)| !**ended && !self.prompts.contains_key(turn));
                    self.prompts.extend(turn.map(|(turn, _)| (*turn, prompt)));
                }
            }
            self.calls.push(Call { id, method, params: line["params"].take() });
        }
    }

    fn tell(&mut self, turn: u64, event: &Event) {
        let told = self.told.entry(turn).or_default();
        let is_odd = self.is_odd;
        match event {
            Event::StepBegin(step) => {
                told.steps.push(Default::default());
                assert!(
                    is_odd || step.n as usize == told.steps.len(),
                    "step {} is told as {}",
                    step.n,
                    told.steps.len()
                );
            }
            Event::TurnEnd(_) => {
                assert!(!std::mem::replace(&mut told.is_ended, true) || is_odd, "TurnEnd is told twice")
            }
            Event::ContentPart(part) => {
                let Some((thinking, text, _)) = told.steps.last_mut() else { return };
                match part {
                    ContentPart::Text(part) => text.push_str(&part.text),
                    ContentPart::Think(part) => thinking.push_str(&part.think),
                    _ => {}
                }
            }
            Event::ToolCall(call) => {
                let is_done = told.steps.iter().any(|(.., results)| results.contains(&call.id));
                assert!(is_odd || !is_done, "{} is told after its result", call.id);
            }
            Event::ToolResult(result) => {
                let known = result.tool_call.get().map(|call| json!(call.arguments));
                assert!(is_odd || known == Some(json!({"a": 1})), "{}: {known:?}", result.tool_call_id);
                if let Some((.., results)) = told.steps.last_mut() {
                    results.push(result.tool_call_id.clone());
                }
            }
            _ => {}
        }
    }

    /// What arrived is what was said.
    fn compare(&mut self, turn: u64) {
        let prompt = self.prompts.get(&turn).cloned();
        let said = self.server.turns.iter().find(|turn| turn.prompt.is_some() && turn.prompt == prompt);
        let said = said.into_iter().flat_map(|turn| &turn.steps).map(|step| {
            let results = step.tools.iter().filter(|tool| tool.is_done).map(|tool| tool.id.clone()).collect();
            (step.thinking.clone(), step.text.clone(), results)
        });
        let sorted = |(thinking, text, mut results): (String, String, Vec<String>)| {
            // Calls run side by side.
            results.sort();
            (thinking, text, results)
        };
        let told = self.told.remove(&turn).unwrap_or_default().steps;
        let [told, said] = [told, said.collect()].map(|steps| steps.into_iter().map(sorted).collect::<Vec<_>>());
        assert_eq!(told, said, "turn {turn}");
    }

    /// All that is on its way arrives.
    fn settle(&mut self) {
        let mut rounds = 0;
        while !self.calls.is_empty() || !self.answers.is_empty() {
            self.arrive(0);
            self.deliver(0);
            self.look();
            rounds += 1;
            assert!(rounds < 10_000, "calls do not come to an end");
        }
    }

    fn end(&mut self) {
        if !self.is_dead {
            self.reconnect(false);
            self.settle();
            // Turns that run come to their end by themselves.
            for _ in 0..3 * (self.turns.len() + 2) {
                for _ in 0..20 {
                    if let Some((approval, _)) = self.server.approval.clone() {
                        let call =
                            Call { id: u64::MAX, method: String::new(), params: json!({"decision": "rejected"}) };
                        self.decide(&call, &approval);
                        self.answers.pop();
                    }
                    self.server.work(6);
                    self.server.work(15);
                }
                self.hear_lines();
                self.settle();
            }
        }
        let running = self.turns.values().filter(|ended| !**ended).count();
        assert!(self.is_odd || self.is_dead || running == 0, "{running} turns never end");
        for turn in 1..=self.turns.len() as u64 {
            self.connection.cancel(turn, self.now);
            self.look();
        }
        self.settle();
        let mut passed = 0;
        while self.connection.poll_timeout().is_some() {
            self.deadline();
            self.look();
            self.settle();
            passed += 1;
            assert!(passed < 1000, "deadlines do not come to an end");
        }
        self.connection.close(&Error::session_closed());
        self.look();
        assert!(self.turns.values().all(|ended| *ended), "a turn never ends");
        assert_eq!(self.our_calls, self.ended_calls, "a call never ends");
        assert!(self.asked.iter().all(|(.., open)| !open), "a handler is waited for though all is over");
    }
}
