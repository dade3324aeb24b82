//! The server's lines compared with recordings of Kimi Code 2.1.0, line by line.

use std::collections::VecDeque;
use std::path::Path;

use super::super::super::types::{Outcome, Profile};
use super::*;

fn server() -> Server {
    let mut server = Server::new(Profile::acp("Kimi Code CLI", "2.1.0"));
    server.acp.open("session-1".to_owned(), "/work");
    server
}

fn said(server: &mut Server) -> Vec<Value> {
    let output = String::from_utf8(server.take_output()).expect("UTF-8");
    output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn hears(server: &mut Server, message: &Value) -> Option<Incoming> {
    server.receive(message.to_string().as_bytes())
}

/// The answer to a call that the agent does not handle.
fn answers(server: &mut Server, method: &str, params: Value) -> Vec<Value> {
    let incoming = hears(server, &json!({"jsonrpc": "2.0", "id": "c", "method": method, "params": params}));
    assert_eq!(incoming, None, "{method}");
    let said = said(server);
    assert!(said.iter().any(|message| message["id"] == "c"), "{method}: {said:?}");
    said
}

/// A recorded turn, played again: the server has to say what the agent said.
struct Play {
    server: Server,
    /// Whether it is the client's, and the message.
    lines: VecDeque<(bool, Value)>,
}

impl Play {
    fn new(case: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/kimi-code-2.1.0");
        let text = std::fs::read_to_string(folder.join(format!("{case}.acp"))).expect("a recording");
        let line = |line: &str| (line.starts_with('>'), serde_json::from_str::<Value>(&line[2..]).expect("JSON"));
        let lines = text.lines().map(line).skip_while(|(_, message)| message["method"] != "session/prompt");
        let mut play = Self { server: server(), lines: lines.collect() };
        let Some(Incoming::Prompt(prompt)) = play.hears() else { panic!("no prompt") };
        play.server.event_of("TurnBegin", json!({"user_input": prompt}));
        play
    }

    /// Takes the client's next message, after all that was said before it.
    fn hears(&mut self) -> Option<Incoming> {
        self.said();
        let (ours, message) = self.lines.pop_front().expect("a message");
        assert!(ours, "not said: {message}");
        hears(&mut self.server, &message)
    }

    fn said(&mut self) {
        for message in said(&mut self.server) {
            assert_eq!(Some((false, message)), self.lines.pop_front());
        }
    }

    fn ends(mut self, outcome: Outcome) {
        self.server.finish(outcome);
        self.said();
        assert!(self.lines.is_empty(), "not said: {:?}", self.lines);
    }

    fn part(&mut self, kind: &str, text: &str) {
        self.server.event_of("ContentPart", json!({"type": kind, kind: text}));
    }

    fn tool(&mut self, id: &str, name: &str, pieces: &[&str]) {
        let function = json!({"name": name, "arguments": ""});
        self.server.event_of("ToolCall", json!({"type": "function", "id": id, "function": function}));
        for piece in pieces {
            self.server.event_of("ToolCallPart", json!({"arguments_part": piece}));
        }
    }

    fn asks(&mut self, id: &str, description: &str) {
        let request =
            json!({"id": "own", "tool_call_id": id, "sender": "Bash", "action": "run", "description": description});
        self.server.request_of("own", "ApprovalRequest", request);
    }

    fn result(&mut self, id: &str, output: &str) {
        let value = json!({"is_error": false, "output": output, "message": "", "display": []});
        self.server.event_of("ToolResult", json!({"tool_call_id": id, "return_value": value}));
    }

    fn context(&mut self, tokens: u64) {
        self.server.event_of("StatusUpdate", json!({"context_tokens": tokens, "max_context_tokens": 100_000}));
    }
}

fn answer(incoming: Option<Incoming>) -> Value {
    let Some(Incoming::Answer(id, Ok(answer))) = incoming else { panic!("no answer: {incoming:?}") };
    assert_eq!(id, "own");
    answer
}

#[test]
fn thoughts_and_text_match_recording() {
    let mut play = Play::new("text");
    for (kind, text) in [("think", "Hmm"), ("think", "…ok"), ("text", "Hel"), ("text", "lo")] {
        play.part(kind, text);
    }
    play.context(110);
    play.ends(Outcome::Finished);
}

#[test]
fn tools_and_permissions_match_recording() {
    let mut play = Play::new("parallel");
    play.tool("0:p1", "Bash", &["{\"command\":", " \"echo 1\"}"]);
    play.tool("0:p2", "Bash", &["{\"command\":", " \"echo 2\"}"]);
    for (id, description) in [("0:p1", "Running: echo 1"), ("0:p2", "Running: echo 2")] {
        play.asks(id, description);
        assert_eq!(answer(play.hears())["response"], "approve");
    }
    play.result("0:p1", "1\n");
    play.result("0:p2", "2\n");
    play.part("text", "done");
    play.context(110);
    play.ends(Outcome::Finished);
}

#[test]
fn questions_match_recording() {
    let answered = (json!({"Which colour?": "Blue"}), r#"{"answers":{"Which colour?":"Blue"}}"#);
    let dismissed = (json!({}), r#"{"answers":{},"note":"User dismissed the question without answering."}"#);
    for (case, (answers, output)) in [("question_answered", answered), ("question_dismissed", dismissed)] {
        let mut play = Play::new(case);
        let pieces = [
            r#"{"questions": [{"question": "Which colour?", "header": "Colour"#,
            r#"", "options": [{"label": "Red", "description": "warm"}, {"labe"#,
            r#"l": "Blue", "description": "cold"}], "multi_select": false}]}"#,
        ];
        play.tool("0:call_1", "AskUserQuestion", &pieces);
        let arguments: Value = serde_json::from_str(&pieces.concat()).expect("JSON");
        let request = json!({"id": "own", "tool_call_id": "0:call_1", "questions": arguments["questions"]});
        play.server.request_of("own", "QuestionRequest", request);
        assert_eq!(answer(play.hears())["answers"], answers);
        play.result("0:call_1", output);
        play.part("text", "done");
        play.context(110);
        play.ends(Outcome::Finished);
    }
}

#[test]
fn cancel_during_permission_matches_recording() {
    let mut play = Play::new("cancel_with_approval_pending");
    play.tool("0:call_1", "Bash", &["{\"command\": \"ec", "ho hi\", \"descri", "ption\": \"say\"}"]);
    play.asks("0:call_1", "Running: echo hi");
    assert_eq!(play.hears(), Some(Incoming::Cancel));
    assert_eq!(answer(play.hears())["response"], "reject");
    play.server.finish(Outcome::Cancelled);
    play.said();
}

#[test]
fn missing_login_matches_recording() {
    let mut play = Play::new("model_answers_401");
    play.context(63);
    play.ends(Outcome::Failed(Failure::new(-32004, "401 simulated")));
}

#[test]
fn calls_are_answered_and_refused() {
    let mut server = Server::new(Profile::acp("it", "1.0"));
    let hello = answers(&mut server, "initialize", json!({"protocolVersion": 1}));
    assert_eq!(hello[0]["result"]["agentInfo"], json!({"name": "it", "version": "1.0"}));
    assert_eq!(hello[0]["result"]["protocolVersion"], 1);
    let refused = |server: &mut Server, method: &str, params: Value| {
        answers(server, method, params)[0]["error"]["code"].as_i64().expect("an error")
    };
    assert_eq!(refused(&mut server, "session/new", json!({"cwd": "/work"})), INVALID_PARAMS);
    assert_eq!(refused(&mut server, "session/prompt", json!({"sessionId": "none", "prompt": []})), INVALID_PARAMS);
    assert_eq!(refused(&mut server, "session/resume", json!({"sessionId": "none", "cwd": "/work"})), INVALID_PARAMS);
    assert_eq!(refused(&mut server, "steer", json!({})), METHOD_NOT_FOUND);

    let opened = answers(&mut server, "session/new", json!({"cwd": "/work", "mcpServers": []}));
    let id = opened[0]["result"]["sessionId"].clone();
    assert!(id.as_str().is_some_and(|id| id.starts_with("session_")), "{id}");
    let set = |value: &str| json!({"sessionId": id, "configId": "mode", "value": value});
    let modes = answers(&mut server, "session/set_config_option", set("yolo"));
    let kinds: Vec<&Value> = modes.iter().map(|it| &it["params"]["update"]["sessionUpdate"]).collect();
    assert_eq!(kinds, [&json!("current_mode_update"), &json!("config_option_update"), &Value::Null]);
    assert_eq!(server.acp.session().map(|(_, work_dir, yolo)| (work_dir, yolo)), Some(("/work", true)));
    assert_eq!(refused(&mut server, "session/set_config_option", set("none")), INVALID_PARAMS);

    let prompt = json!({"sessionId": id, "prompt": [{"type": "text", "text": "hi"}]});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": prompt});
    assert_eq!(hears(&mut server, &message), Some(Incoming::Prompt("hi".into())));
    let busy = answers(&mut server, "session/prompt", prompt);
    assert_eq!(busy[0]["error"]["data"]["code"], "turn.agent_busy");
    // Another agent of the process has another session.
    let mut next = Server::new(Profile::acp("it", "1.0"));
    next.acp.join(server.acp.sessions.clone(), 1);
    let other = answers(&mut next, "session/new", json!({"cwd": "/other", "mcpServers": []}));
    let other = other[0]["result"]["sessionId"].clone();
    assert_eq!(refused(&mut server, "session/prompt", json!({"sessionId": other, "prompt": []})), INVALID_PARAMS);
    let cancel =
        |session: &Value| json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
    assert_eq!(hears(&mut server, &cancel(&other)), None);
    assert_eq!(server.acp.session().map(|(session, ..)| json!(session)), Some(id.clone()));
    assert_eq!(hears(&mut server, &cancel(&id)), Some(Incoming::Cancel));
    server.finish(Outcome::MaxStepsReached(3));
    assert_eq!(said(&mut server)[0], json!({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "max_turn_requests"}}));
    let listed = answers(&mut server, "session/list", json!({}));
    let ids: Vec<&Value> =
        listed[0]["result"]["sessions"].as_array().into_iter().flatten().map(|it| &it["sessionId"]).collect();
    assert_eq!(ids, [&id, &other]);
    let listed = answers(&mut server, "session/list", json!({"cwd": "/other"}));
    assert_eq!(
        listed[0]["result"]["sessions"],
        json!([{"sessionId": other, "cwd": "/other", "title": null, "archived": false}])
    );
    answers(&mut server, "session/close", json!({"sessionId": id}));
    assert_eq!(refused(&mut server, "session/close", json!({"sessionId": id})), INVALID_PARAMS);
    answers(&mut server, "session/delete", json!({"sessionId": id}));
    assert_eq!(refused(&mut server, "session/delete", json!({"sessionId": id})), INVALID_PARAMS);
}

#[test]
fn closed_session_cancels_turn_silently() {
    let mut server = server();
    let prompt = json!({"sessionId": "session-1", "prompt": [{"type": "text", "text": "hi"}]});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": prompt});
    assert_eq!(hears(&mut server, &message), Some(Incoming::Prompt("hi".into())));
    let close = json!({"jsonrpc": "2.0", "id": 2, "method": "session/close", "params": {"sessionId": "session-1"}});
    assert_eq!(hears(&mut server, &close), Some(Incoming::Cancel));
    server.event_of("ContentPart", json!({"type": "text", "text": "late"}));
    server.finish(Outcome::Cancelled);
    let ended = json!({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "cancelled"}});
    assert_eq!(said(&mut server), [json!({"jsonrpc": "2.0", "id": 2, "result": {}}), ended]);
}

#[test]
fn lines_without_call_are_not_answered() {
    let mut server = server();
    for line in ["", "{", "[]", "[{}]", r#"{"jsonrpc":"2.0","id":99,"result":{}}"#, r#"{"jsonrpc":"2.0","method":"x"}"#]
    {
        assert_eq!(server.receive(line.as_bytes()), None, "{line}");
    }
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "session-1"}});
    assert_eq!(hears(&mut server, &cancel), None);
    assert_eq!((server.take_output(), server.unasked_answers()), (Vec::new(), 1));
}

#[test]
fn loaded_session_replays_past_resumed_does_not() {
    let mut server = server();
    server.event_of("TurnBegin", json!({"user_input": "hi"}));
    server.event_of("ContentPart", json!({"type": "text", "text": "hello"}));
    let function = json!({"name": "Bash", "arguments": "{\"command\":\"ls\"}"});
    server.event_of("ToolCall", json!({"type": "function", "id": "c", "function": function}));
    let value = json!({"is_error": false, "output": "a", "message": "", "display": []});
    server.event_of("ToolResult", json!({"tool_call_id": "c", "return_value": value}));
    let stored = server.history.take_unstored("session-1");

    let mut next = Server::new(Profile::acp("it", "1.0"));
    let call = json!({"sessionId": "session-1", "cwd": "/work", "mcpServers": []});
    next.acp.remember(stored.clone());
    assert_eq!(answers(&mut next, "session/resume", call.clone()).len(), 1);
    let loaded = answers(&mut next, "session/load", call.clone());
    let updates: Vec<&Value> = loaded.iter().map(|it| &it["params"]["update"]).collect();
    let kinds: Vec<&Value> = updates.iter().map(|update| &update["sessionUpdate"]).collect();
    let past = ["user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update"];
    assert_eq!(kinds[..4], past.map(Value::from).iter().collect::<Vec<_>>());
    assert_eq!(updates[2]["rawInput"], json!({"command": "ls"}));
    assert_eq!((&updates[3]["status"], updates[3].get("rawOutput")), (&json!("completed"), None));
    assert_eq!(next.history.take_unstored("session-1"), "");
    let forked = answers(&mut next, "session/fork", call);
    let id = forked[0]["result"]["sessionId"].as_str().expect("an id");
    assert_ne!(id, "session-1");
    // The file gets the past of the new session, too.
    assert_eq!(next.history.take_unstored(id), stored.replace("session-1", id));
}

#[test]
fn repeated_call_id_gets_suffix() {
    let mut server = server();
    let call = json!({"type": "function", "id": "c", "function": {"name": "Bash", "arguments": "{}"}});
    let value = json!({"is_error": false, "output": "a", "message": "", "display": []});
    for _ in 0..2 {
        server.event_of("ToolCall", call.clone());
        server.event_of("ToolResult", json!({"tool_call_id": "c", "return_value": value}));
    }
    let said = said(&mut server);
    let ids: Vec<&str> = said.iter().filter_map(|it| it["params"]["update"]["toolCallId"].as_str()).collect();
    assert_eq!(ids, ["c", "c", "c", "c", "c__2", "c__2", "c__2", "c__2"]);
}
