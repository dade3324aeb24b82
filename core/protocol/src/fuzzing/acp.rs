//! A program and an agent of ACP that do anything in any order. What one line of it becomes is up to the dialect's own
//! tests; here are the promises above it: what ends, ends once; what is answered is answered once; and nothing is allowed
//! that the program has not allowed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use serde_json::{Value, json};

use super::scenario::{Answering, Deed};
use crate::answers::{Answers, Approval};
use crate::connection::{AnswerSources, Connection, Output, Scope, Timing};
use crate::dialect::{Acp, Answer, InitializeParams, SessionParams};
use crate::error::Error;
use crate::messages::Event;

/// The values of each kind that can share one name.
const NAMES: u8 = 3;

#[derive(Clone, Debug, Arbitrary)]
pub(crate) struct Conversation {
    pub(crate) approval: Answering,
    pub(crate) question: Answering,
    pub(crate) limited: bool,
    /// Whether the session is opened as it should be, before anything else happens.
    pub(crate) opened: bool,
    pub(crate) moves: Vec<Move>,
}

/// Numbers count from the newest of what they mean.
#[derive(Clone, Debug, Arbitrary)]
pub(crate) enum Move {
    // The program:
    Prompt,
    Cancel(u8),
    PlanMode(bool),
    Steer,
    /// A function that was asked comes back.
    Handle(u8, Deed),
    Listen(bool),
    Close,
    // The agent:
    /// To one of our calls, maybe again.
    Answer(u8, Reply),
    Say {
        ours: bool,
        update: u8,
        tool: u8,
    },
    Ask {
        ours: bool,
        id: u8,
        tool: u8,
        options: u8,
    },
    Line(Vec<u8>),
    // The clock:
    Wait(u8),
    Deadline,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub(crate) enum Reply {
    /// As it should be.
    Right,
    Cancelled,
    Refused,
    Nonsense,
    Failed,
}

/// Choices that agents offer, each by the kinds of its options.
const OPTIONS: [&[&str]; 8] = [
    &["allow_once", "allow_always", "reject_once"],
    &["allow_always", "allow_always", "allow_once", "reject_once"],
    &["allow_once", "allow_once", "reject_once"],
    &["allow_once"],
    &["reject_once", "reject_always"],
    &["allow_always"],
    &["whim", "allow_once", "reject_once"],
    &[],
];

#[derive(Debug)]
struct Asked {
    key: u64,
    request: Event,
    open: bool,
}

struct Books {
    connection: Connection,
    now: Instant,
    yolo: bool,
    /// Calls that were written: their ids and methods.
    sent: Vec<(u64, String)>,
    turns: BTreeMap<u64, bool>,
    calls: BTreeMap<u64, bool>,
    asked: Vec<Asked>,
    withdrawn: BTreeSet<u64>,
    opened: Option<bool>,
    /// By the text of its id: how often the agent asked under it, and how often it was answered.
    answers: HashMap<String, (usize, usize)>,
    /// How often the program has allowed something that was open.
    granted: usize,
    allowed: usize,
    /// Whether lines of any kind came, which may be requests of which the books know nothing.
    odd: bool,
}

/// Plays a conversation to its end.
pub(crate) fn play(conversation: &Conversation) {
    let seconds = |seconds| conversation.limited.then(|| Duration::from_secs(seconds));
    let timing = Timing {
        handshake: Duration::from_secs(60),
        cancel: Duration::from_secs(10),
        answer: Duration::from_secs(20),
        turn: seconds(40),
        idle: seconds(15),
        quiet: seconds(5),
    };
    let question = match conversation.question {
        // There is no such thing.
        Answering::Yolo => Answering::Handler,
        other => other,
    };
    let policy = AnswerSources {
        approval: conversation.approval.into(),
        question: question.into(),
        observed: true,
        ..AnswerSources::default()
    };
    let wishes = SessionParams { work_dir: "/project".into(), ..SessionParams::default() };
    let mut books = Books {
        connection: Connection::new(Box::new(Acp::new(wishes)), timing, policy),
        now: Instant::now(),
        yolo: matches!(conversation.approval, Answering::Yolo),
        sent: Vec::new(),
        turns: BTreeMap::new(),
        calls: BTreeMap::new(),
        asked: Vec::new(),
        withdrawn: BTreeSet::new(),
        opened: None,
        answers: HashMap::new(),
        granted: 0,
        allowed: 0,
        odd: false,
    };
    books.connection.open(InitializeParams::default(), books.now);
    books.look();
    if conversation.opened {
        books.reply(0, Reply::Right);
        books.reply(0, Reply::Right);
        assert_eq!(books.opened, Some(true));
    }
    for one in &conversation.moves {
        books.make(one);
        books.look();
    }
    books.end();
}

impl Books {
    fn make(&mut self, one: &Move) {
        let open = self.opened == Some(true);
        match one {
            Move::Answer(which, reply) => self.reply(*which, *reply),
            Move::Say { ours, update, tool } => self.say(*ours, *update, *tool),
            Move::Ask { ours, id, tool, options } => self.ask(*ours, *id, *tool, *options),
            Move::Line(line) => {
                self.odd = true;
                self.connection.handle_line(line, self.now);
            }
            Move::Wait(seconds) => self.now += Duration::from_secs(u64::from(*seconds)),
            Move::Deadline => self.deadline(),
            Move::Listen(listening) => self.connection.set_reading(*listening, self.now),
            Move::Close => self.connection.close(&Error::session_closed()),
            // Nobody has a session before it is open.
            Move::Prompt if open => {
                let turn = self.turns.len() as u64 + 1;
                self.turns.insert(turn, false);
                self.connection.prompt(turn, "hi".into(), self.now);
            }
            Move::Cancel(which) if open => {
                let begun = self.turns.len() as u64;
                let turn = if begun == 0 { 0 } else { begun - u64::from(*which) % begun };
                self.connection.cancel(turn, self.now);
            }
            Move::PlanMode(on) if open => {
                if let Ok(call) = self.connection.set_plan_mode(*on, self.now) {
                    assert!(self.calls.insert(call, false).is_none(), "two calls have one key");
                }
            }
            Move::Steer if open => {
                let turn = self.turns.len() as u64;
                assert!(self.connection.steer(turn, "more".into(), self.now).is_err(), "there is no steer");
            }
            Move::Handle(which, deed) if open => self.handle(*which, *deed),
            _ => {}
        }
    }

    fn handle(&mut self, which: u8, deed: Deed) {
        let count = self.asked.len();
        if count == 0 {
            return;
        }
        let asked = &mut self.asked[count - 1 - usize::from(which) % count];
        let (key, was_open) = (asked.key, std::mem::replace(&mut asked.open, false));
        let yes = matches!(deed, Deed::Yes);
        let answer = match &asked.request {
            Event::ApprovalRequest(_) if yes => Answer::Approval(Approval::ApproveForSession),
            Event::ApprovalRequest(_) => Answer::Approval(Approval::reject("why")),
            Event::QuestionRequest(request) => {
                let first = request.questions.first().expect("a question");
                let label = first.options.first().map(|option| &*option.label).unwrap_or("none");
                Answer::Question(yes.then(|| Answers::new().answer(&*first.question, label)))
            }
            other => panic!("nobody can be asked {other:?}"),
        };
        self.granted += usize::from(yes && was_open);
        match deed {
            Deed::Fail => self.connection.handler_failed(key, "boom".to_owned(), self.now),
            Deed::Yes | Deed::No => self.connection.answer(key, &answer, self.now),
        }
        let answered = self.look();
        assert_eq!(answered, usize::from(was_open), "{key} was open: {was_open}");
    }

    fn reply(&mut self, which: u8, reply: Reply) {
        let count = self.sent.len();
        let (id, method) = self.sent[count - 1 - usize::from(which) % count].clone();
        let failed = json!({"code": -32603, "message": "failed"});
        let body = match (reply, &*method) {
            (Reply::Failed, _) => json!({"error": failed}),
            (Reply::Nonsense, _) => json!({"result": [7]}),
            (Reply::Cancelled, "session/prompt") => json!({"result": {"stopReason": "cancelled"}}),
            (Reply::Refused, "session/prompt") => json!({"result": {"stopReason": "refusal"}}),
            (_, "session/prompt") => json!({"result": {"stopReason": "end_turn"}}),
            (_, "initialize") => json!({"result": {"protocolVersion": 1}}),
            (_, "session/new") => {
                let modes = ["plan", "default"].map(|mode| json!({"id": mode, "name": mode}));
                json!({"result": {"sessionId": "s", "modes": {"currentModeId": "default", "availableModes": modes}}})
            }
            _ => json!({"result": {}}),
        };
        let mut line = json!({"jsonrpc": "2.0", "id": id});
        for (key, value) in body.as_object().into_iter().flatten() {
            line[key] = value.clone();
        }
        self.hear(&line);
    }

    fn say(&mut self, ours: bool, update: u8, tool: u8) {
        let id = format!("t{}", tool % NAMES);
        let text = json!({"type": "text", "text": "x"});
        let shown = json!([{"type": "content", "content": text}]);
        let update = match update % 10 {
            0 => json!({"sessionUpdate": "agent_message_chunk", "content": text}),
            1 => json!({"sessionUpdate": "agent_thought_chunk", "content": text}),
            2 => json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "T", "rawInput": {}}),
            3 => json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "rawInput": {"k": 1}}),
            4 => {
                json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed", "content": shown})
            }
            5 => json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed", "rawOutput": 3}),
            6 => json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}),
            7 => {
                json!({"sessionUpdate": "usage_update", "used": 7, "size": 100, "cost": {"amount": 0.5, "currency": "USD"}})
            }
            8 => json!({"sessionUpdate": "available_commands_update", "availableCommands": []}),
            _ => json!({"sessionUpdate": "novelty"}),
        };
        let session = if ours { "s" } else { "other" };
        let params = json!({"sessionId": session, "update": update});
        self.hear(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    fn ask(&mut self, ours: bool, id: u8, tool: u8, options: u8) {
        // Some are numbers that our calls have, too.
        let id = if id & 1 == 0 { json!(id / 2 % NAMES) } else { json!(format!("r{}", id / 2 % NAMES)) };
        let kinds = OPTIONS[usize::from(options) % OPTIONS.len()];
        let option = |(n, kind): (usize, &&str)| json!({"optionId": format!("{kind}-{n}"), "name": format!("{n}"), "kind": kind});
        let options: Vec<_> = kinds.iter().enumerate().map(option).collect();
        let tool = json!({"toolCallId": format!("t{}", tool % NAMES), "title": "Do it"});
        let session = if ours { "s" } else { "other" };
        let params = json!({"sessionId": session, "toolCall": tool, "options": options});
        self.answers.entry(id.to_string()).or_default().0 += 1;
        self.hear(&json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}));
    }

    fn hear(&mut self, line: &Value) {
        self.connection.handle_line(line.to_string().as_bytes(), self.now);
        self.look();
    }

    fn deadline(&mut self) {
        if let Some(deadline) = self.connection.poll_timeout() {
            self.now = self.now.max(deadline);
            self.connection.handle_timeout(self.now);
        }
    }

    /// Looks at all that came out; gives how many of the agent's requests were answered.
    fn look(&mut self) -> usize {
        while let Some(output) = self.connection.poll_output() {
            match output {
                Output::Opened(outcome) => {
                    assert!(self.opened.replace(outcome.is_ok()).is_none(), "opened twice");
                }
                Output::Event { scope: Scope::Turn(turn, _), .. } => {
                    assert_eq!(self.turns.get(&turn), Some(&false), "an event of a turn that does not run");
                    assert!(self.turns.range(..turn).all(|(_, ended)| *ended), "turn {turn} runs beside another");
                }
                Output::Event { .. } => {}
                Output::Texts { .. } => unreachable!("texts have events here"),
                Output::Ask { key, request, .. } => {
                    assert!(self.asked.last().is_none_or(|older| older.key < key), "asked twice");
                    self.asked.push(Asked { key, request: *request, open: true });
                }
                Output::ReadRecords { .. } => unreachable!("no records are read"),
                Output::ToolAnswered { .. } => unreachable!("tools are called over the connection only"),
                Output::Withdrawn(key) => {
                    assert!(self.withdrawn.insert(key), "withdrawn twice");
                    if let Some(asked) = self.asked.iter_mut().find(|asked| asked.key == key) {
                        assert!(asked.open, "withdrawn after it was answered");
                        asked.open = false;
                    }
                }
                Output::CallEnded { call, .. } => {
                    let ended = self.calls.get_mut(&call).expect("a call of ours");
                    assert!(!std::mem::replace(ended, true), "call {call} ended twice");
                }
                Output::TurnEnded { turn, .. } => {
                    let ended = self.turns.get_mut(&turn).expect("a turn of ours");
                    assert!(!std::mem::replace(ended, true), "turn {turn} ended twice");
                }
                Output::StatusChanged(_)
                | Output::CommandsChanged(_)
                | Output::ConfigChanged(_)
                | Output::CheckOutput { .. }
                | Output::PromptSent { .. }
                | Output::FatalError(_) => {}
            }
        }
        self.read_sent()
    }

    fn read_sent(&mut self) -> usize {
        let bytes = self.connection.poll_transmit();
        assert!(bytes.is_empty() || bytes.ends_with(b"\n"));
        let mut answered = 0;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: Value = serde_json::from_slice(line).expect("what we write is JSON");
            match (line["method"].as_str(), line.get("id")) {
                (Some("session/cancel"), None) => {}
                (Some("$/cancel_request"), None) => {
                    let id = line["params"]["requestId"].as_u64();
                    assert!(self.sent.iter().any(|(other, _)| Some(*other) == id), "no call is {id:?}");
                }
                (Some(method), Some(id)) => {
                    let id = id.as_u64().expect("ids of ours are numbers");
                    assert!(self.sent.iter().all(|(other, _)| *other != id), "{id} was used before");
                    self.sent.push((id, method.to_owned()));
                }
                (None, Some(id)) => {
                    answered += 1;
                    // The model does not know what a line of any kind has asked.
                    if let Some((asked, answers)) = self.answers.get_mut(&id.to_string()) {
                        *answers += 1;
                        assert!(
                            self.odd || answers <= asked,
                            "{id} was asked {asked} times, and answered {answers} times"
                        );
                    }
                    let chosen = line["result"]["outcome"]["optionId"].as_str().unwrap_or_default();
                    self.allowed += usize::from(!chosen.is_empty() && !chosen.starts_with("reject"));
                    assert!(self.yolo || self.allowed <= self.granted, "allowed without the program: {line}");
                }
                _ => panic!("nothing of ours is {line}"),
            }
        }
        answered
    }

    fn end(&mut self) {
        self.connection.set_reading(true, self.now);
        for turn in 1..=self.turns.len() as u64 {
            self.connection.cancel(turn, self.now);
            self.look();
        }
        let mut passed = 0;
        while self.connection.poll_timeout().is_some() {
            self.deadline();
            self.look();
            passed += 1;
            assert!(passed <= 8 + self.sent.len(), "deadlines do not come to an end");
        }
        self.connection.close(&Error::session_closed());
        self.look();
        assert!(self.opened.is_some(), "nobody was told whether it is open");
        assert!(self.turns.values().chain(self.calls.values()).all(|ended| *ended), "something never ends");
        assert!(self.asked.iter().all(|asked| !asked.open), "a function is waited for though all is over");
    }
}
