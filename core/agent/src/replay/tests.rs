use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use kimi_agent_protocol::recording::{Places, Recording};
use serde_json::{Value, json};

use super::mcp::Line;
use super::plan::{Exit, Plan};
use super::player::{Action, Mode, Player, ToolAnswer, without_trace};
use super::{Event, Io, Process};

mod stubs;

fn sdk(message: Value) -> Value {
    json!({"time": 0, "type": "message", "from": "sdk", "message": message})
}

fn agent(message: Value) -> Value {
    json!({"time": 0, "type": "message", "from": "agent", "message": message})
}

fn call(id: &str, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn answer(id: &str, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn event(text: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "event", "params": {"type": "ContentPart", "payload": {"text": text}}})
}

fn turn(number: u64) -> Value {
    json!({"time": 0, "type": "call", "call": "prompt", "turn": number})
}

fn opened() -> Value {
    json!({"time": 0, "type": "opened", "protocol_version": "1.10"})
}

fn close() -> Value {
    json!({"time": 0, "type": "call", "call": "close"})
}

fn closed() -> Value {
    json!({"time": 0, "type": "end", "reason": "closed"})
}

fn plan(dialect: &str, entries: &[Value]) -> Result<Plan, String> {
    let header = json!({"type": "header", "format": 1, "started": "", "dialect": dialect, "executable": [], "options": {},
        "sdk": {"name": "kimi-agent", "version": "0.1.0", "language": "rust"}});
    let lines: String = std::iter::once(&header).chain(entries).map(|entry| format!("{entry}\n")).collect();
    Plan::new(Recording::read(&lines).unwrap())
}

fn places(paths: &[(&'static str, &str)]) -> Places {
    Places::new(paths.iter().map(|(name, path)| (*name, PathBuf::from(path))))
}

/// A player whose output is read as messages.
struct Played {
    player: Player,
    exit: Option<Exit>,
    complaints: Vec<String>,
    tools: Vec<(String, String, Value)>,
}

impl Played {
    fn new(mode: Mode, entries: &[Value]) -> Self {
        let folders = places(&[("work_dir", "/src/now"), ("home", "/home/now")]);
        let player = Player::new(plan("wire", entries).unwrap(), mode, folders);
        Self { player, exit: None, complaints: Vec::new(), tools: Vec::new() }
    }

    fn send(&mut self, message: Value) -> Vec<Value> {
        self.player.receive(message.to_string().as_bytes());
        self.output()
    }

    fn end(&mut self) -> Vec<Value> {
        self.player.end_of_input();
        self.output()
    }

    fn output(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(action) = self.player.poll_action() {
            match action {
                Action::Write(line) => messages.push(serde_json::from_slice(&line).unwrap()),
                Action::CallTool { id, name, arguments, .. } => {
                    self.tools.push((id, name, arguments.unwrap_or_default()));
                }
                Action::WithdrawTool(id) => self.tools.push((id, "withdrawn".to_owned(), Value::Null)),
                Action::Complain(text) => self.complaints.push(text),
                Action::Exit(exit) => self.exit = Some(exit),
            }
        }
        messages
    }
}

/// Two turns; the first has a request of the agent.
fn two_turns() -> Vec<Value> {
    let request = json!({"jsonrpc": "2.0", "id": "r", "method": "request", "params": {"type": "ApprovalRequest"}});
    vec![
        sdk(call("i", "initialize", json!({"client": {"version": "1"}}))),
        agent(answer("i", json!({}))),
        opened(),
        turn(1),
        sdk(call("p1", "prompt", json!({"user_input": "one in {{work_dir}}"}))),
        agent(event("in {{work_dir}} of {{home:slug}}")),
        agent(request),
        sdk(answer("r", json!({"response": "approve"}))),
        agent(answer("p1", json!({"status": "finished"}))),
        turn(2),
        sdk(call("p2", "prompt", json!({"user_input": "two"}))),
        agent(answer("p2", json!({"status": "finished"}))),
        close(),
    ]
}

#[test]
fn messages_wait_for_program() {
    let mut played = Played::new(Mode::Replay, &two_turns());
    assert!(played.output().is_empty());
    assert_eq!(played.send(call("i", "initialize", json!({}))), [answer("i", json!({}))]);
    let sent = played.send(call("p", "prompt", json!({"user_input": "else"})));
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], event("in /src/now of -home-now"));
    assert_eq!(played.send(answer("r", json!({"response": "reject"}))), [answer("p", json!({"status": "finished"}))]);
    assert_eq!(played.send(call("q", "prompt", json!({}))), [answer("q", json!({"status": "finished"}))]);
    assert_eq!(played.exit, None);
    let refusal = &played.send(call("r", "prompt", json!({})))[0];
    assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!("r"), &json!(-32603)));
    assert!(played.end().is_empty());
    assert_eq!(played.exit, Some(Exit::Code(0)));
}

#[test]
fn early_messages_are_kept() {
    let mut played = Played::new(Mode::Replay, &two_turns());
    assert!(played.send(answer("r", json!({}))).is_empty());
    assert_eq!(played.send(call("i", "initialize", json!({}))).len(), 1);
    assert_eq!(played.send(call("p", "prompt", json!({}))).len(), 3);
}

#[test]
fn verify_accepts_same_program() {
    let mut played = Played::new(Mode::Verify, &two_turns());
    played.send(call("0", "initialize", json!({"client": {"version": "2"}})));
    played.send(call("1", "prompt", json!({"user_input": "one in /src/now"})));
    played.send(answer("r", json!({"response": "approve"})));
    played.send(call("2", "prompt", json!({"user_input": "two"})));
    played.end();
    assert_eq!((played.exit, played.complaints.len()), (Some(Exit::Code(0)), 0));
}

#[test]
fn verify_names_turn_of_difference() {
    let steps = [
        call("0", "initialize", json!({})),
        call("1", "prompt", json!({"user_input": "one in /src/now"})),
        answer("r", json!({"response": "approve"})),
        call("2", "prompt", json!({"user_input": "two"})),
    ];
    for (at, step, expected) in [
        (
            1,
            call("1", "prompt", json!({"user_input": "x"})),
            r#"turn 1: `prompt`: expected "one in {{work_dir}}", got "x""#,
        ),
        (1, call("1", "steer", json!({"user_input": "x"})), "turn 0: `steer`: the recording has no such call"),
        (2, answer("r", json!({"response": "reject"})), "turn 1: answer to `ApprovalRequest`: expected"),
        (3, call("2", "set_plan_mode", json!({})), "turn 1: `set_plan_mode`: the recording has no such call"),
    ] {
        let mut played = Played::new(Mode::Verify, &two_turns());
        for step in &steps[..at] {
            played.send(step.clone());
        }
        let sent = played.send(step);
        let complaint = played.complaints.pop().unwrap();
        let expected = expected.replace("turn 0", "before the first turn");
        assert!(complaint.starts_with(&format!("the program differs from the recording: {expected}")), "{complaint}");
        assert_eq!(sent.last().unwrap()["error"]["message"], complaint);
        assert_eq!(played.exit, Some(Exit::Code(1)));
        assert!(played.send(call("3", "prompt", json!({}))).is_empty());
    }
}

#[test]
fn verify_tells_rejection_from_cancelled_turn() {
    let request = json!({"jsonrpc": "2.0", "id": "r", "method": "session/request_permission", "params": {}});
    let outcome = |outcome: &str| answer("r", json!({"outcome": {"outcome": outcome}}));
    let finished = |id: &str| answer(id, json!({"stopReason": "end_turn"}));
    for is_cancelled in [false, true] {
        let mut entries = vec![opened(), turn(1), sdk(call("p", "session/prompt", json!({}))), agent(request.clone())];
        if is_cancelled {
            entries.push(sdk(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {}})));
        }
        entries.extend([sdk(outcome("cancelled")), agent(finished("p")), close()]);
        let mut played = Played::new(Mode::Verify, &entries);
        played.send(call("p", "session/prompt", json!({})));
        played.send(outcome("selected"));
        let complaints = if is_cancelled { 0 } else { 1 };
        assert_eq!(played.complaints.len(), complaints, "{:?}", played.complaints);
    }
}

#[test]
fn verify_finds_missing_answer() {
    let mut played = Played::new(Mode::Verify, &two_turns());
    played.send(call("0", "initialize", json!({})));
    played.send(call("1", "prompt", json!({"user_input": "one in /src/now"})));
    played.end();
    assert!(played.complaints[0].ends_with("turn 1: the program never answered `ApprovalRequest`"));
    assert_eq!(played.exit, Some(Exit::Code(1)));
}

#[test]
fn missing_call_is_quoted_unchanged() {
    let prompt = "compare expected , got null";
    let mut played = Played::new(Mode::Verify, &[opened(), turn(1), sdk(call("p", "prompt", json!(prompt))), close()]);
    played.end();
    let expected = format!("turn 1: the program never called `prompt`: expected \"{prompt}\"");
    assert!(played.complaints[0].ends_with(&expected), "{}", played.complaints[0]);
}

#[test]
fn answered_tool_releases_its_connection() {
    let (sender, events) = channel();
    let player = Player::new(plan("wire", &two_turns()).unwrap(), Mode::Replay, places(&[]));
    let io = Io::fed().0;
    let mut process = Process { player, report: None, io, events, sender, calls: HashMap::new() };
    let line = Line::default();
    process.calls.insert("t".to_owned(), line.clone());
    process.receive(Event::ToolAnswered("t".to_owned(), ToolAnswer::Failed("broken".to_owned())));
    assert_eq!(Arc::strong_count(&line), 1);
}

/// A turn that is cancelled after its first text.
fn cancelled(status: &str) -> Vec<Value> {
    vec![
        opened(),
        turn(1),
        sdk(call("p", "prompt", json!({}))),
        agent(event("a")),
        sdk(call("c", "cancel", json!({}))),
        agent(event("b")),
        agent(answer("c", json!({}))),
        agent(answer("p", json!({"status": status}))),
        turn(2),
        sdk(call("q", "prompt", json!({}))),
        agent(answer("q", json!({"status": "finished"}))),
    ]
}

#[test]
fn end_of_cancelled_turn_waits_for_cancel() {
    let mut played = Played::new(Mode::Replay, &cancelled("cancelled"));
    assert_eq!(played.send(call("1", "prompt", json!({}))), [event("a"), event("b")]);
    let ends = [answer("2", json!({})), answer("1", json!({"status": "cancelled"}))];
    assert_eq!(played.send(call("2", "cancel", json!({}))), ends);
}

#[test]
fn cancel_after_turn_may_be_missing() {
    let mut played = Played::new(Mode::Replay, &cancelled("finished"));
    let finished = |id: &str| answer(id, json!({"status": "finished"}));
    assert_eq!(played.send(call("1", "prompt", json!({}))), [event("a"), event("b"), finished("1")]);
    assert_eq!(played.send(call("2", "prompt", json!({}))), [finished("2")]);
    // The recorded cancel was of the first turn.
    assert_eq!(played.send(call("3", "cancel", json!({}))), [answer("3", json!({}))]);
}

#[test]
fn omitted_call_is_passed_over() {
    let entries = [
        opened(),
        sdk(call("m", "set_plan_mode", json!({}))),
        agent(answer("m", json!({"on": true}))),
        turn(1),
        sdk(call("p", "prompt", json!({}))),
        agent(answer("p", json!({}))),
    ];
    let mut played = Played::new(Mode::Replay, &entries);
    assert_eq!(played.send(call("1", "prompt", json!({}))), [answer("1", json!({}))]);
    assert_eq!(played.send(call("2", "set_plan_mode", json!({}))), [answer("2", json!({"on": true}))]);
    let mut played = Played::new(Mode::Verify, &entries);
    played.send(call("1", "prompt", json!({})));
    let expected = "before the first turn: expected a call of `set_plan_mode`, got one of `prompt`";
    assert!(played.complaints[0].ends_with(expected), "{}", played.complaints[0]);
}

#[test]
fn messages_of_closing_wait_for_it() {
    let mut entries = two_turns()[..5].to_vec();
    entries.extend([close(), agent(answer("p1", json!({"status": "cancelled"})))]);
    let mut played = Played::new(Mode::Replay, &entries);
    played.send(call("0", "initialize", json!({})));
    assert!(played.send(call("1", "prompt", json!({}))).is_empty());
    assert_eq!(played.end(), [answer("1", json!({"status": "cancelled"}))]);
}

#[test]
fn close_in_turn_begins_with_cancel() {
    let request = json!({"jsonrpc": "2.0", "id": "r", "method": "request", "params": {"type": "ApprovalRequest"}});
    let entries = [
        opened(),
        turn(1),
        sdk(call("p", "prompt", json!({}))),
        agent(request.clone()),
        sdk(call("c", "cancel", json!({}))),
        sdk(answer("r", json!({"response": "reject"}))),
        close(),
        agent(answer("c", json!({}))),
        agent(answer("p", json!({"status": "cancelled"}))),
    ];
    let mut played = Played::new(Mode::Verify, &entries);
    assert_eq!(played.send(call("1", "prompt", json!({}))), [request]);
    let ends = [answer("2", json!({})), answer("1", json!({"status": "cancelled"}))];
    assert_eq!(played.send(call("2", "cancel", json!({}))), ends);
    assert_eq!(played.end(), Vec::<Value>::new());
    assert!(played.complaints.is_empty());
}

#[test]
fn exit_comes_after_last_message() {
    let entries = [
        opened(),
        turn(1),
        sdk(call("p", "prompt", json!({}))),
        agent(event("a")),
        json!({"time": 0, "type": "end", "reason": "failed", "error": {"code": "agent_exited", "message": ""}, "exit_code": 3}),
    ];
    let mut played = Played::new(Mode::Replay, &entries);
    assert_eq!(played.send(call("1", "prompt", json!({}))), [event("a")]);
    assert_eq!(played.exit, Some(Exit::Code(3)));
}

#[test]
fn exit_comes_before_close() {
    let end = json!({"time": 0, "type": "end", "reason": "failed", "error": {"code": "agent_exited", "message": ""},
        "exit_code": 2});
    let entries = [sdk(call("i", "initialize", json!({}))), close(), end];
    let mut played = Played::new(Mode::Replay, &entries);
    assert!(played.send(call("0", "initialize", json!({}))).is_empty());
    assert_eq!(played.exit, Some(Exit::Code(2)));
}

#[test]
fn recording_with_gap_is_refused() {
    let problem = plan("wire", &[json!({"time": 0, "type": "gap", "entries": 7, "bytes": 9})]).unwrap_err();
    assert_eq!(problem, "7 of its entries are missing, because its disk was too slow");
}

#[test]
fn tool_calls_use_present_server() {
    let result = json!({"is_error": false, "output": "3", "message": ""});
    let entries = [
        sdk(json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "{{work_dir}}"}})),
        agent(json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}})),
        json!({"time": 0, "type": "tool_call", "id": "m", "name": "add", "arguments": {"dir": "{{work_dir}}"}}),
        json!({"time": 0, "type": "tool_result", "id": "m", "result": result}),
        agent(event("3")),
        json!({"time": 0, "type": "tool_call", "id": "n", "name": "add"}),
        json!({"time": 0, "type": "tool_result", "id": "n"}),
    ];
    let mut played = Played::new(Mode::Verify, &entries);
    let server = json!({"type": "http", "name": "program", "url": "http://127.0.0.1:1/mcp", "headers": []});
    let params = json!({"cwd": "/other", "mcpServers": [server]});
    let sent = played.send(json!({"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": params}));
    assert_eq!(sent[0]["id"], 7);
    assert_eq!(played.tools, [("m".to_owned(), "add".to_owned(), json!({"dir": "/other"}))]);
    let result = json!({"content": [{"type": "text", "text": "3"}], "isError": false});
    played.player.tool_answered("m".to_owned(), ToolAnswer::Result(result));
    assert_eq!(played.output(), [event("3")]);
    assert_eq!(played.tools[2].1, "withdrawn");
}

#[test]
fn ids_of_web_prompts_are_replaced() {
    let prompt = |nonce: &str| {
        let params = json!({"prompt_id": format!("{nonce}-1"), "content": [{"type": "text", "text": "go"}]});
        json!({"jsonrpc": "2.0", "id": 6, "method": "POST /api/v1/sessions/s/prompts", "params": params})
    };
    let started = |nonce: &str| json!({"jsonrpc": "2.0", "method": "turn.started", "params": {"payload": {"promptId": format!("{nonce}-1")}}});
    let entries = [opened(), turn(1), sdk(prompt("0abc")), agent(started("0abc")), closed()];
    let mut played = Played::new(Mode::Verify, &entries);
    assert_eq!(played.send(prompt("1def")), [started("1def")]);
    assert!(played.complaints.is_empty());
}

#[test]
fn recording_without_end_fails_calls() {
    let mut entries = two_turns();
    let reply = entries.iter().position(|entry| entry["message"]["id"] == "r" && entry["from"] == "sdk").unwrap();
    for (kept, answers) in [(reply, false), (reply + 1, true)] {
        entries.truncate(kept);
        for mode in [Mode::Replay, Mode::Verify] {
            let mut played = Played::new(mode, &entries);
            played.send(call("i", "initialize", json!({})));
            let mut sent = played.send(call("p", "prompt", json!({"user_input": "one in /src/now"})));
            if answers {
                sent = played.send(answer("r", json!({"response": "approve"})));
            }
            let refusal = sent.last().unwrap();
            assert_eq!(refusal["id"], "p");
            let text = refusal["error"]["message"].as_str().unwrap();
            assert!(text.starts_with("the recording ends here: the recorded program was killed"), "{text}");
            assert_eq!((played.exit.clone(), played.complaints.len()), (None, 0));
        }
        entries = two_turns();
    }
}

#[test]
fn closed_recording_awaits_program() {
    let mut entries = two_turns();
    entries.truncate(6);
    entries.extend([close(), closed()]);
    let mut played = Played::new(Mode::Replay, &entries);
    played.send(call("i", "initialize", json!({})));
    assert_eq!(played.send(call("p", "prompt", json!({}))).len(), 1);
    assert_eq!((played.end().len(), played.exit), (0, Some(Exit::Code(0))));
}

#[test]
fn handshake_of_other_session_is_answered() {
    let entries =
        [agent(json!({"jsonrpc": "2.0", "id": 4_294_967_296_u64, "result": {"protocolVersion": 1}})), opened()];
    let plan = plan("acp", &entries).unwrap();
    let mut player = Player::new(plan, Mode::Replay, places(&[]));
    assert_eq!(player.poll_action(), None);
    player.receive(br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#);
    let expected = br#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#;
    assert_eq!(player.poll_action(), Some(Action::Write([&expected[..], b"\n"].concat())));
}

#[test]
fn paths_are_escaped_at_their_depth() {
    let folders = places(&[("work_dir", r"C:\a")]);
    let nested = json!({"command": "dir {{work_dir}}"}).to_string();
    let message = json!({"path": "{{work_dir}}\\b", "arguments": nested, "{{work_dir}}": "{{other}}"});
    let filled: Value = serde_json::from_str(&folders.fill(&message.to_string())).unwrap();
    assert_eq!(filled["path"], r"C:\a\b");
    assert_eq!(filled[r"C:\a"], "{{other}}");
    let inner: Value = serde_json::from_str(filled["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(inner["command"], r"dir C:\a");
}

#[test]
fn effects_of_steer_wait_for_it() {
    let steered = json!({"jsonrpc": "2.0", "method": "event", "params": {"type": "SteerInput", "payload": {}}});
    let entries = [
        opened(),
        turn(1),
        sdk(call("p", "prompt", json!({}))),
        agent(event("a")),
        sdk(call("s", "steer", json!({"user_input": "left"}))),
        agent(event("b")),
        agent(answer("s", json!({"status": "steered"}))),
        agent(steered.clone()),
        agent(answer("p", json!({"status": "finished"}))),
    ];
    let mut played = Played::new(Mode::Verify, &entries);
    assert_eq!(played.send(call("1", "prompt", json!({}))), [event("a"), event("b")]);
    let rest = [answer("2", json!({"status": "steered"})), steered, answer("1", json!({"status": "finished"}))];
    assert_eq!(played.send(call("2", "steer", json!({"user_input": "left"}))), rest);
    assert_eq!(played.end(), Vec::<Value>::new());
    assert!(played.complaints.is_empty());
}

#[test]
fn steer_of_web_is_no_prompt() {
    let post = |id: &str, text: &str| call(id, "POST /api/v1/sessions/s/prompts", json!({"content": text}));
    let steer = json!({"time": 0, "type": "call", "call": "steer", "turn": 1});
    let ended = json!({"jsonrpc": "2.0", "method": "turn.ended", "params": {"payload": {"reason": "completed"}}});
    let entries = [
        opened(),
        turn(1),
        sdk(post("p", "one")),
        agent(event("a")),
        steer,
        sdk(post("s", "left")),
        agent(answer("s", json!({"status": "queued"}))),
        agent(ended.clone()),
        turn(2),
        sdk(post("q", "two")),
        agent(event("b")),
        closed(),
    ];
    let mut played = Played::new(Mode::Verify, &entries);
    assert_eq!(played.send(post("1", "one")), [event("a")]);
    assert_eq!(played.send(post("2", "left")), [answer("2", json!({"status": "queued"})), ended]);
    assert_eq!(played.send(post("3", "two")), [event("b")]);
    assert!(played.complaints.is_empty());
}

#[test]
fn line_that_is_no_call_is_sent() {
    let line = json!({"time": 0, "type": "message", "from": "agent", "line": "no {{work_dir}}"});
    let entries = [sdk(call("i", "initialize", json!({}))), agent(Value::Null), line];
    let mut player = Player::new(plan("wire", &entries).unwrap(), Mode::Replay, places(&[("work_dir", "/src")]));
    player.receive(br#"{"jsonrpc":"2.0","id":"1","method":"initialize","params":{}}"#);
    assert_eq!(player.poll_action(), Some(Action::Write(b"null\n".to_vec())));
    assert_eq!(player.poll_action(), Some(Action::Write(b"no /src\n".to_vec())));
}

#[test]
fn arguments_after_path_are_checked() {
    let read = |words: &[&str]| super::mode(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    assert_eq!(read(&["--wire", "--work-dir=/", "--new"]), Ok(Mode::Replay));
    assert_eq!(read(&["--report=x", "--verify", "--wire"]), Ok(Mode::Verify));
    assert_eq!(read(&["--model", "m", "--stub", "acp"]), Ok(Mode::Stub));
    assert_eq!(read(&["--sandbox"]), Ok(Mode::Replay));
    for words in [&["--verfy", "--wire"][..], &["--verfy"], &["verify", "--wire"], &["other.jsonl", "--wire"]] {
        assert!(read(words).unwrap_err().contains(&format!("unknown argument {}", words[0])), "{words:?}");
    }
    assert!(read(&["--verfy"]).unwrap_err().contains("did you mean --verify?"));
}

#[test]
fn missing_path_is_an_error() {
    assert_eq!(super::main(&[]), 2);
    assert_eq!(super::main(&["--verify".to_owned()]), 2);
}

#[test]
fn trace_is_left_out() {
    let traced = json!({"prompt": [], "_meta": {"traceparent": "00-1-2-01", "tracestate": "a=b"}});
    assert_eq!(without_trace(traced), json!({"prompt": []}));
    let other = json!({"_meta": {"traceparent": "00-1-2-01", "own": 1}});
    assert_eq!(without_trace(other), json!({"_meta": {"own": 1}}));
    assert_eq!(without_trace(json!({"_meta": {}})), json!({"_meta": {}}));
    assert_eq!(without_trace(json!([1])), json!([1]));
}
