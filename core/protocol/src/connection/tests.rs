//! Tests of the connection: lines, calls and times are its input, bytes and outputs its output.

mod ambiguity;
mod budgets;
mod calls;
mod cancel;
mod costs;
mod decided;
mod deltas;
mod early;
mod generated;
mod handshake;
mod order;
mod outputs;
mod plans;
mod policy;
mod recorded;
mod replay;
mod requests;
mod servers;
mod telemetry;
mod tool_calls;
mod turns;
mod warnings;

use serde_json::{Value, json};

use super::*;
use crate::dialect::{InitializeParams, Wire, WireVersion};
use crate::error::AgentExit;
use crate::messages::HandlerKind;

const SECOND: Duration = Duration::from_secs(1);

fn timing() -> Timing {
    Timing { handshake: 60 * SECOND, cancel: 10 * SECOND, answer: 60 * SECOND, turn: None, idle: None, quiet: None }
}

/// A connection with the agent's side in the test's hands.
struct Peer {
    connection: Connection,
    now: Instant,
    /// All that was sent, oldest first.
    sent: Vec<Value>,
    /// How much of it [`Peer::said`] has returned.
    told: usize,
}

impl Peer {
    fn new(timing: Timing, policy: AnswerSources) -> Self {
        Self::speaking(Wire::new(WireVersion::LATEST), timing, policy)
    }

    fn speaking(dialect: Wire, timing: Timing, policy: AnswerSources) -> Self {
        let connection = Connection::new(Box::new(dialect), timing, policy);
        Self { connection, now: Instant::now(), sent: Vec::new(), told: 0 }
    }

    /// A session that is open with an agent of the newest version.
    fn open() -> Self {
        Self::open_with(timing(), AnswerSources::default())
    }

    fn open_with(timing: Timing, policy: AnswerSources) -> Self {
        Self::open_at("1.10", timing, policy)
    }

    fn open_at(version: &str, timing: Timing, policy: AnswerSources) -> Self {
        let mut peer = Self::new(timing, policy);
        peer.connection.open(InitializeParams::default(), peer.now);
        let id = peer.id_of("initialize");
        peer.line(&json!({"jsonrpc": "2.0", "id": id, "result": welcome(version)}));
        assert_eq!(peer.trace(), [format!("opened {version}")]);
        peer.said();
        peer
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// Lets time pass up to the next deadline, and does what is due.
    fn pass(&mut self) {
        self.now = self.connection.poll_timeout().expect("a deadline");
        self.connection.handle_timeout(self.now);
    }

    fn line(&mut self, message: &Value) {
        self.connection.handle_line(message.to_string().as_bytes(), self.now);
    }

    fn text(&mut self, line: &str) {
        self.connection.handle_line(line.as_bytes(), self.now);
    }

    fn event(&mut self, kind: &str, payload: &Value) {
        self.line(&event(kind, payload));
    }

    fn request(&mut self, id: &str, kind: &str, payload: &Value) {
        self.line(
            &json!({"jsonrpc": "2.0", "id": id, "method": "request", "params": {"type": kind, "payload": payload}}),
        );
    }

    /// Answers the newest call of this name.
    fn answer(&mut self, method: &str, result: &Value) {
        let id = self.id_of(method);
        self.line(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn refuse(&mut self, method: &str, code: i64) {
        let id = self.id_of(method);
        self.line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", "data": null}}));
    }

    fn finish(&mut self) {
        self.answer("prompt", &json!({"status": "finished"}));
    }

    fn prompt(&mut self, turn: TurnKey) {
        self.connection.prompt(turn, "hi".into(), self.now);
    }

    fn cancel(&mut self, turn: TurnKey) {
        self.connection.cancel(turn, self.now);
    }

    fn look(&mut self) {
        let bytes = self.connection.poll_transmit();
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        self.sent.extend(lines.map(|line| serde_json::from_slice(line).expect("a line of JSON")));
    }

    fn id_of(&mut self, method: &str) -> Value {
        self.look();
        let call = self.sent.iter().rev().find(|sent| sent["method"] == method);
        call.unwrap_or_else(|| panic!("no `{method}` was sent"))["id"].clone()
    }

    /// The methods of what was sent since the last look; of answers and refusals, what they say.
    fn said(&mut self) -> Vec<String> {
        self.look();
        let said = |sent: &Value| match (&sent["method"], &sent["error"]) {
            (Value::String(method), _) => method.clone(),
            (_, Value::Null) => format!("{} {}", sent["id"], sent["result"]),
            (_, error) => format!("{} {}", sent["id"], error["code"]),
        };
        let from = std::mem::replace(&mut self.told, self.sent.len());
        self.sent[from..].iter().map(said).collect()
    }

    /// The next output that is not a change of status.
    fn next_output(&mut self) -> Option<Output> {
        std::iter::from_fn(|| self.connection.poll_output()).find(|output| !matches!(output, Output::StatusChanged(_)))
    }

    /// The outputs since the last call, in short.
    fn trace(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next_output()).map(|output| short(&output)).collect()
    }

    /// The key of the only request that a function is asked.
    fn asked(&mut self) -> RequestKey {
        let asked: Vec<_> = std::iter::from_fn(|| self.next_output())
            .filter_map(|output| match output {
                Output::Ask { key, .. } => Some(key),
                _ => None,
            })
            .collect();
        assert_eq!(asked.len(), 1);
        asked[0]
    }
}

fn event(kind: &str, payload: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}})
}

fn welcome(version: &str) -> Value {
    json!({
        "protocol_version": version,
        "server": {"name": "Agent", "version": "1.49.0"},
        "slash_commands": [],
        "hooks": {"supported_events": ["Stop"], "configured": {}},
    })
}

fn usage(output: i64) -> Value {
    json!({"input_other": 1, "output": output, "input_cache_read": 0, "input_cache_creation": 0})
}

fn approval(id: &str) -> Value {
    json!({"id": id, "tool_call_id": "tc", "sender": "Shell", "action": "run", "description": "ls", "display": []})
}

fn short(output: &Output) -> String {
    fn ended<T>(outcome: &Result<T>, fine: impl Fn(&T) -> String) -> String {
        outcome.as_ref().map_or_else(|error| error.code().to_owned(), fine)
    }
    match output {
        Output::Opened(outcome) => format!("opened {}", ended(outcome, |welcome| welcome.protocol_version.clone())),
        Output::Event { scope, event, .. } => format!("{} {}", place(*scope), event.type_name()),
        Output::Texts { turn, step, texts } => {
            format!("{} {:?}", place(Scope::Turn(*turn, *step)), texts.texts().collect::<Vec<_>>())
        }
        Output::Ask { request, .. } => format!("ask {}", request.type_name()),
        Output::Withdrawn(_) => "withdrawn".to_owned(),
        Output::ReadRecords { .. } => "read records".to_owned(),
        Output::ToolAnswered { .. } => "tool answered".to_owned(),
        Output::CallEnded { outcome, .. } => format!("call {}", ended(outcome, |json| json.get().to_owned())),
        Output::TurnEnded { turn, outcome } => {
            format!("turn {turn} {}", ended(outcome, |result| result.status.as_str().to_owned()))
        }
        Output::StatusChanged(_) => "status changed".to_owned(),
        Output::ConfigChanged(_) => "config changed".to_owned(),
        Output::CommandsChanged(_) => "commands changed".to_owned(),
        Output::CheckOutput { key, .. } => format!("check {key}"),
        Output::PromptSent { turn } => format!("prompt sent {turn}"),
        Output::FatalError(error) => format!("fatal error {}", error.code()),
    }
}

fn place(scope: Scope) -> String {
    match scope {
        Scope::Turn(turn, step) => format!("{turn}.{}", step.index),
        Scope::Replay(_) => "replay".to_owned(),
        Scope::Outside => "outside".to_owned(),
    }
}
