//! Plays a scenario with a connection, and counts its outputs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::model::{Books, Expected};
use super::scenario::{Deed, Reply, Scenario, Spoken, Step};
use crate::answers::{Answers, Approval, HookDecision};
use crate::connection::{Connection, ManualAnswer};
use crate::dialect::{Answer, Dialect, Incoming, InitializeParams, Legacy};
use crate::error::{AgentExit, Error};
use crate::jsonrpc::framing::LineBuffer;
use crate::messages::{ContentPart, Event, HandlerKind, ToolReturnValue, UnknownEvent};

/// The limit of a line, small enough that [`Step::Long`] reaches it.
const LIMIT: usize = 16 * 1024;

/// One of each type, and some that are none.
pub(super) const EVENTS: &[(&str, &str)] = &[
    ("TurnBegin", r#"{"user_input":"hi"}"#),
    ("StepBegin", r#"{"n":1}"#),
    ("ContentPart", r#"{"type":"text","text":"word"}"#),
    ("StatusUpdate", r#"{"token_usage":{"input_other":1,"output":2,"input_cache_read":3,"input_cache_creation":4}}"#),
    ("TurnEnd", "{}"),
    ("ApprovalResponse", r#"{"request_id":"id-1","response":"approve"}"#),
    ("Sparkle", "{}"),
    ("StepBegin", "{}"),
    ("SteerInput", r#"{"user_input":[{"type":"text","text":"left"}]}"#),
    ("StepInterrupted", "{}"),
    ("StepRetry", r#"{"n":1,"next_attempt":2,"max_attempts":3,"wait_s":0.5,"error_type":"E","status_code":500}"#),
    ("CompactionBegin", "{}"),
    ("CompactionEnd", "{}"),
    ("MCPLoadingBegin", "{}"),
    ("MCPLoadingEnd", "{}"),
    (
        "Notification",
        r#"{"id":"n","category":"c","type":"t","source_kind":"s","source_id":"i","title":"","body":"","severity":"info","created_at":1.5,"payload":{}}"#,
    ),
    ("PlanDisplay", r#"{"content":"plan","file_path":"/p"}"#),
    ("HookTriggered", r#"{"event":"Stop","target":"","hook_count":1}"#),
    ("HookResolved", r#"{"event":"Stop","target":"","action":"allow","reason":"","duration_ms":1}"#),
    ("BtwBegin", r#"{"id":"b","question":"?"}"#),
    ("BtwEnd", r#"{"id":"b","response":"!"}"#),
    ("ContentPart", r#"{"type":"think","think":"hm"}"#),
    ("ContentPart", r#"{"type":"smell","smell":{}}"#),
    ("ToolCall", r#"{"type":"function","id":"t","function":{"name":"Shell","arguments":"{}"}}"#),
    ("ToolCallPart", r#"{"arguments_part":"{"}"#),
    ("ToolResult", r#"{"tool_call_id":"t","return_value":{"is_error":false,"output":"","message":"","display":[]}}"#),
    ("ApprovalResponse", r#"{"request_id":"id-0","response":"reject"}"#),
    (
        "SubagentEvent",
        r#"{"parent_tool_call_id":"t","event":{"type":"StatusUpdate","payload":{"token_usage":{"input_other":1,"output":1,"input_cache_read":0,"input_cache_creation":0}}}}"#,
    ),
    (
        "SubagentEvent",
        r#"{"parent_tool_call_id":"t","event":{"type":"ContentPart","payload":{"type":"text","text":"under"}}}"#,
    ),
    ("SubagentEvent", r#"{"parent_tool_call_id":"t","event":{"type":"TurnEnd","payload":{}}}"#),
    ("PolicyDecision", r#"{"tool_call":{"id":"t","name":"Shell"},"decision":"deny"}"#),
    ("HandlerFailed", r#"{"handler":"hook","message":"said by the agent"}"#),
    ("Plan", r#"{"entries":[{"content":"a","status":"pending","priority":"high"}]}"#),
    ("TurnEnd", r#"{"synthesized":true}"#),
    ("ApprovalRequest", r#"{"id":"id-0"}"#),
];

pub(super) const REQUESTS: &[&str] = &[
    "ApprovalRequest",
    "QuestionRequest",
    "ToolCallRequest",
    "HookRequest",
    "Sparkle",
    "BackgroundApproval",
    "Foreign",
    "ReadFileRequest",
    "WriteFileRequest",
    "TerminalRequest",
];

/// Plays it to its end; panics if a promise is broken.
pub(crate) fn play(scenario: &Scenario) {
    Play::new(scenario).run(&scenario.steps);
}

/// The same, and gives what came out.
#[cfg(test)]
pub(crate) fn trace(scenario: &Scenario) -> Vec<String> {
    let mut play = Play::new(scenario);
    play.books.trace = Some(Vec::new());
    play.run(&scenario.steps).trace.unwrap_or_default()
}

struct Play {
    spoken: Spoken,
    connection: Connection,
    /// Reads the same lines, by itself.
    reader: Box<dyn Dialect>,
    books: Books,
    yolo: bool,
    now: Instant,
    lines: LineBuffer,
    /// How many bytes are kept of what was read.
    kept: usize,
    /// The agent's unread output.
    pipe: Vec<u8>,
    pieces: usize,
    serial: u32,
    tail_is_read: bool,
}

impl Play {
    fn new(scenario: &Scenario) -> Self {
        let policy = scenario.policy();
        let yolo = policy.approval == crate::connection::AnswerSource::Yolo;
        let mut play = Self {
            spoken: scenario.spoken,
            connection: Connection::new(scenario.spoken.dialect(), scenario.timing(), policy),
            reader: scenario.spoken.dialect(),
            books: Books::new(scenario.spoken),
            yolo,
            now: Instant::now(),
            lines: LineBuffer::new(LIMIT),
            kept: 0,
            pipe: Vec::new(),
            pieces: 0,
            serial: 0,
            tail_is_read: false,
        };
        play.books.may_approve = yolo;
        play.connection.pass_texts();
        play.connection.open(InitializeParams::default(), play.now);
        play.look();
        if scenario.greeted && !scenario.spoken.has_no_handshake() {
            play.answer(0, Reply::Finished);
            play.read_some();
        }
        play
    }

    fn run(mut self, steps: &[Step]) -> Books {
        for step in steps {
            self.step(step);
            self.look();
            self.read_some();
        }
        self.end();
        self.books
    }

    /// Looks at all that came out; gives how many lines were written.
    fn look(&mut self) -> usize {
        self.books.look(&mut self.connection);
        let bytes = self.connection.poll_transmit();
        self.books.read_sent(&bytes)
    }

    fn step(&mut self, step: &Step) {
        let open = self.books.opened == Some(true);
        match step {
            Step::Answer(which, reply) => self.answer(*which, *reply),
            Step::Event(which) => {
                let (kind, payload) = EVENTS[usize::from(*which) % EVENTS.len()];
                let payload = serde_json::from_str(payload).expect("JSON");
                let params = self.spelled(kind, payload);
                self.say(&json!({"jsonrpc": "2.0", "method": "event", "params": params}));
            }
            Step::Request { kind, id, rpc } => self.request(*kind, *id, *rpc),
            Step::Line(line) => self.line(line),
            Step::Long(size) => {
                let text = "x".repeat(usize::from(*size));
                let params = self.spelled("ContentPart", json!({"type": "text", "text": text}));
                self.say(&json!({"jsonrpc": "2.0", "method": "event", "params": params}));
            }
            Step::Exit(cut) => {
                self.pipe.truncate(self.pipe.len().saturating_sub(usize::from(*cut)));
                self.exit();
            }
            Step::Pieces(pieces) => self.pieces = usize::from(*pieces),
            Step::Wait(seconds) => self.now += Duration::from_secs(u64::from(*seconds)),
            Step::Deadline => self.deadline(),
            Step::Listen(listening) => self.connection.set_reading(*listening, self.now),
            Step::Close => self.connection.close(&Error::session_closed()),
            Step::Assume if self.books.opened.is_none() => {
                self.connection.switch_dialect(Box::new(Legacy::new(None)));
                self.reader = Box::new(Legacy::new(None));
                self.spoken = Spoken::Legacy;
                self.books.assume_legacy();
            }
            Step::Assume => {}
            // Nobody has a session before it is open.
            _ if open => self.program(step),
            _ => {}
        }
    }

    fn program(&mut self, step: &Step) {
        match step {
            Step::Prompt => {
                let turn = self.books.begin_turn();
                self.connection.prompt(turn, "hi".into(), self.now);
            }
            Step::PromptImage => {
                let turn = self.books.begin_turn();
                self.connection.prompt(turn, ContentPart::image_url("data:,").into(), self.now);
            }
            Step::Cancel(which) => self.connection.cancel(self.books.turn(*which), self.now),
            Step::Steer(which) => {
                let call = self.connection.steer(self.books.turn(*which), "more".into(), self.now);
                self.made(call, false);
            }
            Step::PlanMode(on) => {
                let call = self.connection.set_plan_mode(*on, self.now);
                self.made(call, false);
            }
            Step::Replay => {
                let call = self.connection.start_replay(self.now);
                self.made(call, true);
            }
            Step::Forget(which) => {
                if let Some(call) = self.books.forget(*which) {
                    self.connection.forget_call(call);
                }
            }
            Step::Respond(id, deed) => {
                let answer = match deed {
                    Deed::Yes => ManualAnswer::Json(json!("approve")),
                    Deed::No => ManualAnswer::Question(None),
                    Deed::Fail => ManualAnswer::Json(json!({"Which?": "A"})),
                };
                self.books.may_approve |= matches!(deed, Deed::Yes);
                let done = self.connection.respond(&format!("id-{}", id % 4), answer, self.now);
                let sent = self.look();
                assert!(sent <= usize::from(done.is_ok()), "{done:?} and {sent} lines");
                self.books.may_approve = self.yolo;
            }
            Step::Unseen(id) => self.connection.answer_undelivered(&format!("id-{}", id % 4), self.now),
            Step::Handle(which, deed) => self.handle(*which, *deed),
            Step::ObserverFailed => self.connection.observer_failed(HandlerKind::Event, "boom", "boom".to_owned()),
            other => panic!("{other:?} is no deed of the program's"),
        }
    }

    fn made(&mut self, call: crate::Result<u64>, is_replay: bool) {
        let bytes = self.connection.poll_transmit();
        let sent = self.books.read_sent(&bytes);
        self.books.made(call, sent, is_replay);
    }

    /// A function that was asked comes back: answered if nothing has come in between, ignored otherwise.
    fn handle(&mut self, which: u8, deed: Deed) {
        let count = self.books.asked.len();
        if count == 0 {
            return;
        }
        let (key, asked) = &mut self.books.asked[count - 1 - usize::from(which) % count];
        let (key, open, rpc_id) = (*key, std::mem::replace(&mut asked.open, false), asked.rpc_id.clone());
        let yes = matches!(deed, Deed::Yes);
        let answer = match &asked.request {
            Event::ApprovalRequest(_) if yes => Answer::Approval(Approval::Approve),
            Event::ApprovalRequest(_) => Answer::Approval(Approval::Reject { feedback: Some("why".to_owned()) }),
            Event::QuestionRequest(_) => Answer::Question(yes.then(|| Answers::new().answer("Which?", "A"))),
            Event::ToolCallRequest(_) => Answer::Tool(ToolReturnValue::ok("3")),
            Event::HookRequest(_) if yes => Answer::Hook(HookDecision::Allow),
            Event::HookRequest(_) => Answer::Hook(HookDecision::Block("no".to_owned())),
            other => panic!("nobody can be asked {other:?}"),
        };
        self.books.may_approve |= yes;
        match deed {
            Deed::Fail => self.connection.handler_failed(key, "boom".to_owned(), self.now),
            Deed::Yes | Deed::No => self.connection.answer(key, &answer, self.now),
        }
        let bytes = self.connection.poll_transmit();
        let sent = self.books.read_sent(&bytes);
        assert_eq!(sent, usize::from(open), "{key} was open: {open}");
        let id = format!("\"id\":{rpc_id},");
        assert!(!open || String::from_utf8_lossy(&bytes).contains(&id), "the answer goes elsewhere");
        self.books.may_approve = self.yolo;
    }

    // --- the agent ---

    /// Writes a message as a whole line.
    fn say(&mut self, message: &Value) {
        self.line(message.to_string().as_bytes());
    }

    fn line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let mut named = None;
        for method in ["initialize", "prompt", "cancel", "steer", "set_plan_mode", "replay"] {
            if text.contains(&format!("\"@{method}\"")) {
                let id =
                    self.books.sent.iter().rfind(|sent| sent.method == self.word(method)).map(|sent| sent.id.as_str());
                named = Some(text.replace(&format!("@{method}"), id.unwrap_or("unknown")));
            }
        }
        self.pipe.extend_from_slice(named.as_deref().map_or(line, str::as_bytes));
        self.pipe.push(b'\n');
    }

    /// The dialect's name of a method.
    fn word<'a>(&self, method: &'a str) -> &'a str {
        match method {
            "prompt" if self.spoken.is_legacy() => "run",
            "cancel" if self.spoken.is_legacy() => "interrupt",
            other => other,
        }
    }

    /// A message as this agent spells it, with a number by which it is told from all others.
    fn spelled(&mut self, kind: &str, mut payload: Value) -> Value {
        self.serial += 1;
        payload["serial"] = self.serial.into();
        if self.spoken.is_old() && kind == "ApprovalResponse" {
            return json!({"type": "ApprovalRequestResolved", "payload": payload});
        }
        if self.spoken.is_old() && kind == "SubagentEvent" {
            let parent = payload.as_object_mut().and_then(|fields| fields.shift_remove("parent_tool_call_id"));
            payload["task_tool_call_id"] = parent.unwrap_or_default();
        }
        if !self.spoken.is_legacy() {
            return json!({"type": kind, "payload": payload});
        }
        let kind = match kind {
            "ToolResult" => {
                let result = json!({"output": "out", "message": "", "brief": "b"});
                payload = json!({"tool_call_id": self.serial.to_string(), "ok": true, "result": result});
                "tool_result"
            }
            "SubagentEvent" => {
                let inner = json!({"type": "content_part", "payload": {"type": "text", "text": "under"}});
                payload = json!({"task_tool_call_id": "t", "event": inner, "serial": self.serial});
                "subagent_event"
            }
            "StepBegin" => "step_begin",
            "StepInterrupted" => "step_interrupted",
            "CompactionBegin" => "compaction_begin",
            "CompactionEnd" => "compaction_end",
            "StatusUpdate" => "status_update",
            "ContentPart" => "content_part",
            "ToolCall" => "tool_call",
            "ToolCallPart" => "tool_call_part",
            "ApprovalRequest" => "approval",
            other => other,
        };
        json!({"type": kind, "payload": payload})
    }

    fn request(&mut self, kind: u8, id: u8, rpc: u8) {
        let kind = REQUESTS[usize::from(kind) % REQUESTS.len()];
        let id = format!("id-{}", id % 4);
        let payload = match kind {
            "ApprovalRequest" | "BackgroundApproval" => {
                json!({"id": id, "tool_call_id": "t", "sender": "Shell", "action": "run", "description": "ls"})
            }
            "QuestionRequest" => json!({"id": id, "tool_call_id": "t", "questions": []}),
            "ToolCallRequest" => json!({"id": id, "name": if rpc.is_multiple_of(2) { "add" } else { "unknown" }}),
            "HookRequest" => {
                json!({"id": id, "subscription_id": if rpc.is_multiple_of(3) { "x" } else { "h" }, "event": "Stop"})
            }
            _ => json!({"id": id}),
        };
        let params = match kind {
            "BackgroundApproval" => {
                let mut payload = payload;
                payload["source_kind"] = "background_agent".into();
                self.spelled("ApprovalRequest", payload)
            }
            _ => self.spelled(kind, payload),
        };
        let method = if kind == "Foreign" { "foreign" } else { "request" };
        // Ids may be of any kind, and may come again.
        let rpc_id = match rpc % 4 {
            0 => json!(format!("r{}", self.serial)),
            1 => json!(self.serial),
            2 => json!("same"),
            _ => json!({"r": self.serial}),
        };
        self.say(&json!({"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}));
    }

    /// Answers the `which`-th newest of our calls.
    fn answer(&mut self, which: u8, reply: Reply) {
        let count = self.books.sent.len();
        if count == 0 {
            return;
        }
        let call = &self.books.sent[count - 1 - usize::from(which) % count];
        let id = &call.id;
        let error =
            |code: i64| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", "data": null}});
        let done = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        let message = match (call.method.as_str(), reply) {
            ("initialize", Reply::Finished | Reply::Cancelled | Reply::MaxSteps) => match self.spoken.names() {
                Some((version, release)) => done(json!({
                    "protocol_version": version,
                    "server": {"name": "Agent", "version": release},
                    "slash_commands": [],
                    "hooks": {"supported_events": ["Stop"], "configured": {}},
                })),
                None => error(-32601),
            },
            (_, Reply::Finished) => done(json!({"status": "finished"})),
            (_, Reply::Cancelled) => done(json!({"status": "cancelled"})),
            (_, Reply::MaxSteps) => done(json!({"status": "max_steps_reached", "steps": 7})),
            (_, Reply::Nothing) => done(json!({})),
            (_, Reply::Nonsense) => done(json!([{"status": 1}])),
            (_, Reply::NotFound) => error(-32601),
            (_, Reply::Busy) => error(-32000),
            (_, Reply::Failed) => error(-32003),
        };
        self.say(&message);
    }

    // --- the pipe ---

    /// Reads as much as is to be read at a time, or everything.
    fn read_some(&mut self) {
        let size = if self.pieces == 0 { self.pipe.len() } else { self.pieces.min(self.pipe.len()) };
        self.read(size);
    }

    fn read(&mut self, size: usize) {
        let piece: Vec<u8> = self.pipe.drain(..size).collect();
        self.lines.extend(&piece);
        self.kept += piece.len();
        // As the driver does.
        while !self.connection.is_closed() {
            match self.lines.next_line() {
                Ok(Some(line)) => {
                    assert!(line.len() <= LIMIT);
                    self.kept -= line.len() + 1;
                    let line = line.to_vec();
                    self.receive(&line);
                }
                Ok(None) => return assert!(self.kept <= LIMIT, "{} bytes are kept", self.kept),
                Err(_) => self.connection.close(&Error::Protocol("too long".into())),
            }
        }
        self.look();
        self.lines.clear();
        self.kept = 0;
    }

    /// Gives a line to the connection, and knows what must come of it.
    fn receive(&mut self, line: &[u8]) {
        let size = line.len();
        if !line.iter().all(u8::is_ascii_whitespace) {
            match self.reader.read_line(line) {
                Incoming::Event(event) => {
                    self.books.expected.push_back(Expected { event: *event, rpc_id: None, size });
                }
                Incoming::Request { rpc_id, request } => {
                    self.books.expected.push_back(Expected { event: *request, rpc_id: Some(rpc_id), size });
                }
                Incoming::UnknownMethod { rpc_id, method, params } => {
                    self.books.expect_refusal(&rpc_id);
                    let event = UnknownEvent { kind: method, payload: params, error: None, extra: Default::default() };
                    self.books.expected.push_back(Expected { event: Event::Unknown(event), rpc_id: None, size });
                }
                Incoming::Response { .. } | Incoming::InvalidLine(_) => {}
                other => panic!("no line of Wire is {other:?}"),
            }
        }
        self.connection.handle_line(line, self.now);
        self.look();
        assert!(self.books.expected.is_empty(), "{:?} did not arrive", self.books.expected);
    }

    /// The agent is gone: what it has written still counts, also a last line without its end.
    fn exit(&mut self) {
        self.read(self.pipe.len());
        if !self.connection.is_closed() && !self.tail_is_read {
            self.lines.end();
            let tail = self.lines.next_line().ok().flatten().unwrap_or_default().to_vec();
            self.kept = 0;
            self.receive(&tail);
        }
        self.tail_is_read = true;
        let error = self.connection.end_of_agent(AgentExit { exit_code: Some(3), ..AgentExit::default() });
        self.connection.close(&error);
    }

    // --- the clock ---

    fn deadline(&mut self) {
        if let Some(deadline) = self.connection.poll_timeout() {
            self.now = self.now.max(deadline);
            self.connection.handle_timeout(self.now);
        }
    }

    /// Nothing more comes: what was begun ends all the same.
    fn end(&mut self) {
        self.read(self.pipe.len());
        self.look();
        self.connection.set_reading(true, self.now);
        for which in 0..self.books.turns() {
            self.connection.cancel(which as u64 + 1, self.now);
            self.look();
        }
        let mut passed = 0;
        while self.connection.poll_timeout().is_some() {
            self.deadline();
            self.look();
            passed += 1;
            assert!(passed <= 8 + self.books.sent.len(), "deadlines do not come to an end");
        }
        self.connection.close(&Error::session_closed());
        self.look();
        self.books.close();
        // And it stays so.
        self.connection.prompt(u64::MAX, "hi".into(), self.now);
        let last: Vec<_> = std::iter::from_fn(|| self.connection.poll_output()).collect();
        assert!(
            matches!(last[..], [crate::connection::Output::TurnEnded { turn: u64::MAX, outcome: Err(_) }]),
            "{last:?}"
        );
        assert!(self.connection.poll_transmit().is_empty());
    }
}
