//! Kimi Code 2.1.0, and agents of others, as they were recorded (`tests/recorded`): what it said is read, and what it was told is written, to the
//! byte but for the order of fields.

mod others;

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::connection::{Connection, Output, Policy, Scope, Timing, Who};
use crate::dialect::Hello;
use crate::handler::{Answers, Approval};
use crate::wire::ContentPart;

const MINUTE: Duration = Duration::from_secs(60);

fn wishes() -> Wishes {
    Wishes { work_dir: "/project".into(), ..Wishes::default() }
}

/// A connection to what a recording has.
struct Player {
    connection: Connection,
    now: Instant,
    written: Vec<u8>,
    /// What comes out, in short.
    trace: Vec<String>,
    /// The open requests, and what the agent calls them.
    asked: Vec<(u64, Event)>,
    turn: u64,
}

impl Player {
    fn new(wishes: Wishes) -> Self {
        Self::with(wishes, Hello::default())
    }

    fn with(wishes: Wishes, hello: Hello) -> Self {
        let timing = Timing { handshake: MINUTE, cancel: MINUTE, answer: MINUTE, turn: None, idle: None };
        let policy = Policy { approval: Who::Handler, question: Who::Handler, observed: true, ..Policy::default() };
        let mut player = Self {
            connection: Connection::new(Box::new(Acp::new(wishes)), timing, policy),
            now: Instant::now(),
            written: Vec::new(),
            trace: Vec::new(),
            asked: Vec::new(),
            turn: 0,
        };
        let hello = Hello { client_name: "kimi-agent".into(), client_version: "0.1.0".into(), ..hello };
        player.connection.open(hello, player.now);
        player.look();
        player
    }

    fn look(&mut self) {
        self.written.extend(self.connection.take_transmit());
        while let Some(output) = self.connection.poll_output() {
            let told = match output {
                Output::Opened(Ok(welcome)) => format!("opened {}", welcome.session_id.unwrap_or_default()),
                Output::Opened(Err(error)) => format!("not opened: {}: {error}", error.code()),
                Output::Event { scope, event, .. } => told(scope, &event.open()),
                Output::Ask { key, request, .. } => {
                    self.asked.push((key, *request));
                    continue;
                }
                Output::Withdrawn(key) => {
                    self.asked.retain(|(asked, _)| *asked != key);
                    continue;
                }
                Output::CallEnded { outcome, .. } => format!("call {}", outcome.map_or_else(|e| e.code(), |_| "ok")),
                Output::TurnEnded { outcome: Ok(result), .. } => {
                    format!("turn {} {} {:?}", result.status.as_str(), result.steps, result.text)
                }
                Output::TurnEnded { outcome: Err(error), .. } => format!("turn {}: {error}", error.code()),
                Output::Hopeless(error) => format!("hopeless: {error}"),
            };
            self.trace.push(told);
        }
    }

    fn hear(&mut self, line: &str) {
        self.connection.receive(line.as_bytes(), self.now);
        self.look();
    }

    /// Does what made the program write this line, unless it is written already.
    fn tell(&mut self, line: &Value) {
        let params = &line["params"];
        if self.written.is_empty() {
            match line["method"].as_str() {
                Some("session/prompt") => {
                    self.turn += 1;
                    let text = params["prompt"][0]["text"].as_str().expect("text");
                    self.connection.prompt(self.turn, text.into(), self.now);
                }
                Some("session/cancel") => self.connection.cancel(self.turn, self.now),
                Some("session/set_config_option") => {
                    let on = params["value"] == "plan";
                    self.connection.set_plan_mode(on, self.now).expect("plan mode");
                }
                None => self.answer(&line["result"]["outcome"]),
                Some(other) => panic!("nothing of ours is {other}"),
            }
            self.look();
        }
        let end = self.written.iter().position(|byte| *byte == b'\n').expect("a line of ours");
        let rest = self.written.split_off(end + 1);
        let ours = std::mem::replace(&mut self.written, rest);
        assert_eq!(serde_json::from_slice::<Value>(&ours).expect("JSON"), *line);
    }

    fn answer(&mut self, outcome: &Value) {
        let (key, request) = self.asked.remove(0);
        let option = outcome["optionId"].as_str().expect("an option");
        let answer = match &request {
            Event::ApprovalRequest(request) => {
                let offered = request.extra.get("options").and_then(Value::as_array).expect("options");
                let chosen = offered.iter().find(|offer| offer["optionId"] == option).expect("one of them");
                Answer::Approval(match chosen["kind"].as_str() {
                    Some("allow_once") => Approval::Approve,
                    Some("allow_always") => Approval::ApproveForSession,
                    _ => Approval::Reject { feedback: Some("unheard".to_owned()) },
                })
            }
            Event::QuestionRequest(request) => Answer::Question(match option.rsplit_once("opt_") {
                Some((_, n)) => {
                    let question = &request.questions[0];
                    let label = &question.options[n.parse::<usize>().expect("a number")].label;
                    Some(Answers::new().answer(&*question.question, label))
                }
                None => None,
            }),
            other => panic!("{other:?}"),
        };
        self.connection.answer(key, &answer, self.now);
    }

    fn play(case: &str) -> Vec<String> {
        let mut player = Self::new(wishes());
        for (ours, line) in recording(case) {
            if ours {
                player.tell(&serde_json::from_str(&line).expect("JSON"));
            } else {
                player.hear(&line);
            }
        }
        assert!(player.written.is_empty(), "{}", String::from_utf8_lossy(&player.written));
        player.trace
    }
}

fn recording(case: &str) -> Vec<(bool, String)> {
    let case = if case.contains('/') { case.to_owned() } else { format!("kimi-code-2.1.0/{case}") };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recorded").join(format!("{case}.acp"));
    let text = std::fs::read_to_string(path).expect("a recording");
    text.lines().map(|line| (line.starts_with("> "), line[2..].to_owned())).collect()
}

fn told(scope: Scope, event: &Event) -> String {
    let told = match event {
        Event::ContentPart(ContentPart::Text(part)) => format!("text {:?}", part.text),
        Event::ContentPart(ContentPart::Think(part)) => format!("think {:?}", part.think),
        Event::ToolCall(call) => {
            let made = if call.extra.is_empty() { "" } else { " (made here)" };
            let arguments = call.function.arguments.as_deref().unwrap_or_default();
            format!("call {} {} {arguments:?}{made}", call.id, call.function.name)
        }
        Event::ToolCallPart(part) => format!("part {:?}", part.arguments_part.as_deref().unwrap_or_default()),
        Event::ToolResult(result) => {
            let value = &result.return_value;
            let failed = if value.is_error { "failed" } else { "ok" };
            let displays = value.display.iter().map(|block| format!(" {}", json!(block)));
            format!("result {} {failed} {:?}{}", result.tool_call_id, value.output.text(), displays.collect::<String>())
        }
        Event::ApprovalRequest(request) => {
            let displays = request.display.iter().map(|block| format!(" {}", json!(block)));
            format!("may {} {}: {}{}", request.sender, request.id, request.description, displays.collect::<String>())
        }
        Event::QuestionRequest(request) => format!("which {} {}", request.id, json!(request.questions)),
        Event::StatusUpdate(update) => format!("status {}", json!(update)),
        Event::Unknown(unknown) => format!("unknown {}", unknown.kind),
        other => other.type_name().to_owned(),
    };
    if scope == Scope::Outside { format!("outside: {told}") } else { told }
}

/// What a turn is, as a trace: without what tells of the session.
fn turn(case: &str) -> Vec<String> {
    let trace = Player::play(case);
    assert_eq!(trace[0], "opened session-1");
    trace.into_iter().filter(|line| !line.starts_with("outside: ") && !line.starts_with("opened ")).collect()
}

#[test]
fn a_turn_has_one_step_and_ends_with_its_answer() {
    let trace = Player::play("text");
    assert_eq!(
        trace,
        [
            "opened session-1",
            "outside: unknown available_commands_update",
            "TurnBegin",
            "outside: unknown session_info_update",
            "StepBegin",
            "think \"Hmm\"",
            "think \"…ok\"",
            "text \"Hel\"",
            "text \"lo\"",
            "TurnEnd",
            "turn finished 1 \"Hello\"",
            r#"outside: status {"context_usage":0.0011,"context_tokens":110,"max_context_tokens":100000}"#,
        ]
    );
}

fn names(player: &mut Player) -> Option<Vec<String>> {
    let commands = player.connection.take_commands()?;
    Some(commands.into_iter().map(|command| command.name).collect())
}

#[test]
fn commands_are_the_sessions_as_they_were_told_last() {
    let mut player = Player::new(wishes());
    let mut recorded = recording("text").into_iter().filter_map(|(ours, line)| (!ours).then_some(line));
    let told = |line: &String| line.contains("available_commands_update");
    recorded.by_ref().take(2).for_each(|line| player.hear(&line));
    assert_eq!((player.trace.concat(), names(&mut player)), ("opened session-1".to_owned(), None));
    player.hear(&recorded.find(told).expect("commands"));
    assert!(player.connection.take_news());
    let commands = player.connection.take_commands().expect("commands");
    assert_eq!(
        json!(commands[..2]),
        json!([
            {"name": "compact", "description": "Compact the conversation context", "aliases": [],
                "input": {"hint": "<optional custom summarization instructions>"}},
            {"name": "status", "description": "Show current session status", "aliases": []},
        ])
    );
    assert!(player.trace[1..] == ["outside: unknown available_commands_update"] && commands.len() > 10);
}

#[test]
fn commands_may_come_at_any_time_and_the_newest_list_counts() {
    let commands =
        |names: Value| update(json!({"sessionUpdate": "available_commands_update", "availableCommands": names}));
    let [old, new] = ["old", "new"].map(|name| json!([{"name": name, "description": ""}]));
    // Before the session is open, be it a new one or one that tells of its past.
    for wishes in [wishes(), Wishes { session_id: Some("s".into()), ..wishes() }] {
        let mut player = Player::new(wishes);
        player.hear(&initialized(json!({"loadSession": true})).to_string());
        player.hear(&commands(old.clone()));
        assert_eq!(names(&mut player), Some(vec!["old".to_owned()]));
        player.hear(&answer(1, json!({"sessionId": "s"})));
        assert_eq!((names(&mut player), player.trace.len()), (None, 2));
    }
    // In a turn, and it stays outside of it.
    let mut player = prompted();
    player.trace.clear();
    for (told, now) in [(&old, vec!["old"]), (&new, vec!["new"]), (&json!([]), vec![])] {
        player.hear(&commands(told.clone()));
        assert_eq!(names(&mut player).expect("a list"), now);
    }
    assert_eq!(player.trace, ["outside: unknown available_commands_update"; 3]);
    // What can't be read of it is left out, and another session's leaves the list alone.
    player.hear(&commands(json!([{"name": 1}, {"name": "good", "description": ""}])));
    assert_eq!(names(&mut player).expect("a list"), ["good"]);
    player.hear(&commands(old).replace("\"s\"", "\"t\""));
    assert_eq!(names(&mut player), None);
    assert_eq!(player.trace.len(), 4);
}

#[test]
fn cumulative_arguments_become_parts_and_each_approval_its_option() {
    let trace = turn("tools");
    let parts = [
        "call 0:call_1 Bash \"\"",
        r#"part "{\"command\": \"ec""#,
        r#"part "ho hi\", \"descri""#,
        r#"part "ption\": \"say\"}""#,
        "may Bash 0: Requesting approval to Running: echo hi",
        r#"result 0:call_1 ok "hi\n""#,
    ];
    assert_eq!(trace[3..9], parts);
    let results: Vec<_> = trace.iter().filter(|line| line.starts_with("result")).map(String::as_str).collect();
    assert_eq!(
        results[1..],
        [
            r#"result 0:call_2 ok "hi\n""#,
            r#"result 0:call_3 failed "Process exited with code 3\nCommand failed with exit code: 3.""#,
            r#"result 0:call_4 failed "Tool \"Write\" was not run because the user rejected the approval request.""#,
        ]
    );
    // What was said before the last result is not what the turn comes to.
    assert_eq!(trace.last().map(String::as_str), Some("turn finished 1 \"done\""));
}

#[test]
fn changes_of_files_are_shown_with_the_question_and_with_the_result() {
    let trace = turn("edit");
    let diff = r#" {"type":"diff","path":"/project/a.txt","old_text":"two","new_text":"three"}"#;
    let asked = format!("may Edit 1: Requesting approval to Editing a.txt{diff}");
    let done = format!("result 0:call_2 ok \"Replaced 1 occurrence in a.txt\"{diff}");
    assert!(trace.contains(&asked) && trace.contains(&done), "{trace:#?}");
    assert!(trace.contains(&"unknown plan".to_owned()), "{trace:#?}");
}

#[test]
fn calls_side_by_side_keep_their_parts() {
    let trace = turn("parallel");
    let calls: Vec<_> = trace.iter().filter(|line| line.starts_with("call") || line.starts_with("part")).collect();
    assert_eq!(
        calls,
        [
            "call 0:p1 Bash \"\"",
            r#"part "{\"command\":""#,
            r#"part " \"echo 1\"}""#,
            "call 0:p2 Bash \"\"",
            r#"part "{\"command\":""#,
            r#"part " \"echo 2\"}""#,
        ]
    );
}

#[test]
fn a_choice_is_a_question() {
    let question = r#"which 0 [{"question":"Which colour?","header":"Colour","options":[{"label":"Red","description":"warm"},{"label":"Blue","description":"cold"}],"multi_select":false}]"#;
    for (case, answer) in [
        ("question_answered", r#"{\"answers\":{\"Which colour?\":\"Blue\"}}"#),
        ("question_dismissed", r#"{\"answers\":{},\"note\":\"User dismissed the question without answering.\"}"#),
    ] {
        let trace = turn(case);
        assert!(trace.contains(&question.to_owned()), "{trace:#?}");
        assert!(trace.contains(&format!("result 0:call_1 ok \"{answer}\"")), "{trace:#?}");
    }
}

#[test]
fn a_plan_is_offered_with_all_its_ways() {
    let trace = turn("plan_review");
    let asked = trace.iter().find(|line| line.starts_with("which")).expect("a question");
    let questions: Value = serde_json::from_str(&asked["which 0 ".len()..]).expect("JSON");
    let labels: Vec<_> = questions[0]["options"].as_array().into_iter().flatten().map(|it| &it["label"]).collect();
    assert_eq!(labels, ["Fast", "Careful", "Revise", "Reject and Exit"]);
    assert!(questions[0]["body"].as_str().is_some_and(|body| body.ends_with("# Plan\n1. Do it")), "{asked}");
    assert!(trace.iter().any(|line| line.contains("Selected approach: Fast")), "{trace:#?}");
}

#[test]
fn plan_mode_is_a_mode_like_others() {
    let trace = Player::play("plan_mode");
    let told: Vec<_> = trace.iter().filter(|line| line.contains("plan_mode") || line.starts_with("call")).collect();
    let on = r#"outside: status {"plan_mode":true}"#;
    assert_eq!(told, [on, "call ok", r#"outside: status {"plan_mode":false}"#, "call ok"]);
}

#[test]
fn a_cancel_is_settled_by_the_answer_to_the_prompt() {
    let trace = Player::play("cancel_in_stream");
    let end = trace.iter().position(|line| line.starts_with("turn ")).expect("an end");
    assert_eq!(trace[end], "turn cancelled 1 \"On and on\"");
    // The tokens of the first turn are told when the second has begun; they are not of it.
    assert_eq!(trace[end + 1], "TurnBegin");
    assert!(trace[end + 2].starts_with("outside: status"), "{trace:#?}");
    assert!(trace.contains(&"turn finished 1 \"again\"".to_owned()), "{trace:#?}");
}

#[test]
fn a_cancel_answers_what_is_open() {
    let trace = turn("cancel_with_approval_pending");
    assert!(trace.contains(&"turn cancelled 1 \"\"".to_owned()), "{trace:#?}");
    assert!(trace.contains(&"turn finished 1 \"again\"".to_owned()), "{trace:#?}");
}

#[test]
fn an_agent_without_model_or_login_says_what_to_do() {
    let trace = Player::play("no_model");
    let [only] = &trace[..] else { panic!("{trace:#?}") };
    assert!(
        only.starts_with("not opened: llm_not_set: Kimi Code CLI 2.1.0 (ACP 1): Authentication required"),
        "{only}"
    );
    assert!(only.contains("`kimi login`") && only.contains("configure a model"), "{only}");
    let trace = turn("model_answers_401");
    assert_eq!(trace[1], "turn auth_expired: Authentication required: 401 simulated (-32000)");
}

// --- what no recording has ---

fn initialized(capabilities: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentCapabilities": capabilities,
        "agentInfo": {"name": "fake", "version": "1"}}})
}

fn answer(id: u64, result: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn update(update: Value) -> String {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}).to_string()
}

/// A session that is open, with nothing told yet.
fn open(session: Value) -> Player {
    let mut player = Player::new(wishes());
    player.hear(&initialized(json!({})).to_string());
    player.hear(&answer(1, session));
    assert_eq!(std::mem::take(&mut player.trace), ["opened s"]);
    player.written.clear();
    player
}

fn prompted() -> Player {
    let mut player = open(json!({"sessionId": "s"}));
    player.connection.prompt(1, "hi".into(), player.now);
    player.look();
    player.written.clear();
    player.trace.clear();
    player
}

impl Player {
    fn sent(&mut self) -> Vec<Value> {
        let lines = std::mem::take(&mut self.written);
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

#[test]
fn what_the_program_wants_is_set_before_the_session_is_open() {
    let wishes = Wishes { model: Some("big".into()), thinking: Some(true), ..wishes() };
    let mut player = Player::new(wishes);
    player.hear(&initialized(json!({})).to_string());
    let option = |id: &str, category: &str, current: &str, values: [&str; 2]| {
        let options = values.map(|value| json!({"value": value, "name": value}));
        json!({"type": "select", "id": id, "name": id, "category": category, "currentValue": current, "options": options})
    };
    let options =
        json!([option("m", "model", "small", ["small", "big"]), option("t", "thought_level", "off", ["off", "high"]),]);
    player.sent();
    player.hear(&answer(1, json!({"sessionId": "s", "configOptions": options})));
    assert_eq!(player.sent()[0]["params"], json!({"sessionId": "s", "configId": "m", "value": "big"}));
    player.hear(&answer(2, json!({"configOptions": options})));
    assert_eq!(player.sent()[0]["params"], json!({"sessionId": "s", "configId": "t", "value": "high"}));
    assert!(player.trace.is_empty());
    player.hear(&answer(3, json!({"configOptions": options})));
    assert_eq!(player.trace, ["opened s"]);
}

#[test]
fn a_session_goes_on_where_the_agent_can() {
    let resumed = |capabilities: Value| {
        let mut player = Player::new(Wishes { session_id: Some("s".into()), ..wishes() });
        player.sent();
        player.hear(&initialized(capabilities).to_string());
        (player.sent(), player)
    };
    let (sent, mut player) = resumed(json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}));
    assert_eq!(sent[0]["method"], "session/resume");
    player.hear(&answer(1, json!({})));
    assert_eq!(player.trace, ["opened s"]);

    let (sent, mut player) = resumed(json!({"loadSession": true}));
    assert_eq!(sent[0]["method"], "session/load");
    player.hear(&update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}})));
    player.hear(&answer(1, Value::Null));
    // The past is not told again.
    assert_eq!(player.trace, ["opened s"]);

    let (sent, player) = resumed(json!({}));
    assert!(sent.is_empty());
    assert!(player.trace[0].starts_with("not opened: unsupported: fake 1 (ACP 1) does not support `session_id`"));
}

#[test]
fn a_session_begins_with_anothers_past_where_the_agent_can() {
    let forked = |capabilities: Value| {
        let mut player = Player::new(Wishes { fork_of: Some("s".into()), ..wishes() });
        player.sent();
        player.hear(&initialized(capabilities).to_string());
        (player.sent(), player)
    };
    let (sent, mut player) = forked(json!({"sessionCapabilities": {"fork": {}}}));
    assert_eq!((&sent[0]["method"], &sent[0]["params"]["sessionId"]), (&json!("session/fork"), &json!("s")));
    player.hear(&answer(1, json!({"sessionId": "t"})));
    assert_eq!(player.trace, ["opened t"]);

    let (sent, player) = forked(json!({}));
    assert!(sent.is_empty());
    assert_eq!(player.trace, ["not opened: unsupported: fake 1 (ACP 1) does not support `fork`"]);
}

#[test]
fn nothing_is_allowed_for_good_that_was_allowed_once() {
    let ask = |options: Value, approval: Approval| {
        let mut player = prompted();
        let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "Bash"}, "options": options});
        let request = json!({"jsonrpc": "2.0", "id": "r", "method": "session/request_permission", "params": params});
        player.hear(&request.to_string());
        let (key, _) = player.asked.remove(0);
        player.connection.answer(key, &Answer::Approval(approval), player.now);
        player.look();
        let sent = player.sent();
        assert_eq!(sent[0]["id"], "r");
        sent[0]["result"]["outcome"].clone()
    };
    let option = |kind: &str| json!({"optionId": kind, "name": kind, "kind": kind});
    let selected = |kind: &str| json!({"outcome": "selected", "optionId": kind});
    let none = json!({"outcome": "cancelled"});
    let always = json!([option("allow_always"), option("reject_once")]);
    assert_eq!(ask(always.clone(), Approval::Approve), none);
    assert_eq!(ask(always.clone(), Approval::ApproveForSession), selected("allow_always"));
    assert_eq!(ask(always, Approval::reject("no")), selected("reject_once"));
    let once = json!([option("allow_once"), option("reject_always")]);
    assert_eq!(ask(once.clone(), Approval::ApproveForSession), selected("allow_once"));
    assert_eq!(ask(once, Approval::reject("no")), selected("reject_always"));
    assert_eq!(ask(json!([option("allow_once")]), Approval::reject("no")), none);
}

#[test]
fn stop_reasons_are_ends() {
    for (reason, end) in [
        ("end_turn", "turn finished 1 \"\""),
        ("max_tokens", "turn finished 1 \"\""),
        ("max_turn_requests", "turn max_steps_reached 1 \"\""),
        ("refusal", "turn rpc_error: the turn was refused: by the model's provider, or by a hook of the agent's (0)"),
        ("whim", "turn protocol_error: the agent's answer to `prompt` can't be read: missing field `status`"),
    ] {
        let mut player = prompted();
        player.hear(&answer(2, json!({"stopReason": reason})));
        assert!(player.trace.last().is_some_and(|last| last.starts_with(end)), "{reason}: {:?}", player.trace);
    }
    let mut player = prompted();
    let busy = json!({"code": -32600, "message": "busy", "data": {"code": "turn.agent_busy"}});
    player.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": busy}).to_string());
    assert_eq!(player.trace, ["turn turn_in_progress: busy (-32600)"]);
}

#[test]
fn parts_that_would_go_to_another_call_are_told_anew() {
    let mut player = prompted();
    let call = |id: &str| update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "Bash"}));
    let text = |id: &str, text: &str| {
        let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress", "content": content}),
        )
    };
    for line in [call("a"), call("b"), text("b", "{\"x"), text("a", "{\"y"), text("a", "{\"y\":1}")] {
        player.hear(&line);
    }
    assert_eq!(
        player.trace,
        [
            "StepBegin",
            "call a Bash \"\"",
            "call b Bash \"\"",
            "part \"{\\\"x\"",
            "call a Bash \"{\\\"y\" (made here)",
            "part \"\\\":1}\"",
        ]
    );
}

#[test]
fn what_is_not_of_this_session_or_not_known_does_no_harm() {
    let mut player = prompted();
    player.hear(&update(json!({"sessionUpdate": "novelty", "mood": "good"})));
    player.hear(&update(json!({"sessionUpdate": "agent_message_chunk", "content": 3})));
    player.hear(
        &update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}))
            .replace("\"s\"", "\"other\""),
    );
    player.hear("[]");
    player.hear(r#"{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}"#);
    assert_eq!(player.trace[..3], ["StepBegin", "unknown novelty", "unknown agent_message_chunk"]);
    assert_eq!(player.trace[3..], ["unknown fs/read_text_file"]);
    let sent = player.sent();
    assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(5), &json!(-32601)));
}

#[test]
fn calls_that_it_has_not_are_refused_by_name() {
    let mut acp = Acp::open("s");
    for call in [Call::Steer("x".into()), Call::Replay, Call::SetPlanMode(true)] {
        let error = acp.call("1", &call).unwrap_err();
        assert_eq!(error.to_string(), format!("the agent (ACP 1) does not support {}", call.name()));
    }
    let image = crate::wire::Content::from(ContentPart::image_url("data:image/png;base64,AAAA"));
    let error = acp.call("1", &Call::Prompt(image)).unwrap_err();
    assert_eq!(error.to_string(), "the agent (ACP 1) does not support prompts with images");
}

/// What an agent may tell of a few tool calls, and say between.
fn tellings() -> impl Strategy<Value = Vec<Value>> {
    let id = prop::sample::select(vec!["a", "b", "c"]);
    let status = prop::sample::select(vec!["pending", "in_progress", "completed", "failed", "whim"]);
    let text = prop::sample::select(vec!["", "{", "{\"k\":", "{\"k\":1}", "{\"k\": 1}", "output", "{\"other\":2}"]);
    let raw =
        prop::sample::select(vec![Value::Null, json!({}), json!({"k": 1}), json!({"k": 2}), json!("text"), json!([1])]);
    let tool =
        (id, status, text, raw.clone(), raw, any::<bool>()).prop_map(|(id, status, text, input, output, new)| {
            let kind = if new { "tool_call" } else { "tool_call_update" };
            json!({"sessionUpdate": kind, "toolCallId": id, "title": "T", "status": status, "rawInput": input,
            "rawOutput": output, "content": [{"type": "content", "content": {"type": "text", "text": text}}]})
        });
    let said = "[a-z\u{e9}\n]{0,4}"
        .prop_map(|text| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}));
    prop::collection::vec(prop_oneof![3 => tool, 1 => said], 0..40)
}

proptest! {
    #[test]
    fn in_any_order_nothing_is_lost_and_nothing_comes_twice(tellings in tellings()) {
        let mut acp = Acp::open("s");
        acp.call("prompt-1", &Call::Prompt("hi".into())).unwrap();
        let (mut said, mut read) = (String::new(), String::new());
        let mut arguments: HashMap<String, String> = HashMap::new();
        let (mut last, mut steps) = (None, 0);
        let mut ended = HashMap::new();
        for telling in &tellings {
            if telling["sessionUpdate"] == "agent_message_chunk" {
                said.push_str(telling["content"]["text"].as_str().unwrap());
            }
            let mut events = vec![acp.read(update(telling.clone()).as_bytes())];
            while !events.is_empty() {
                let event = match events.remove(0) {
                    Incoming::Several(several) => {
                        events.splice(0..0, several);
                        continue;
                    }
                    Incoming::Event(event) => event.open(),
                    other => return Err(TestCaseError::fail(format!("{other:?}"))),
                };
                match event {
                    Event::StepBegin(_) => steps += 1,
                    Event::ContentPart(ContentPart::Text(part)) => read.push_str(&part.text),
                    Event::ToolCall(call) => {
                        arguments.insert(call.id.clone(), call.function.arguments.unwrap_or_default());
                        last = Some(call.id);
                    }
                    Event::ToolCallPart(part) => {
                        let call = last.as_ref().expect("a part of some call");
                        arguments.get_mut(call).unwrap().push_str(&part.arguments_part.unwrap());
                    }
                    Event::ToolResult(result) => {
                        prop_assert!(arguments.contains_key(&result.tool_call_id));
                        let failed = telling["status"] == "failed";
                        prop_assert_eq!(result.return_value.is_error, failed);
                        prop_assert!(ended.insert(result.tool_call_id, ()).is_none(), "ended twice");
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            let id = telling["toolCallId"].as_str().unwrap_or_default();
            if !ended.contains_key(id) && telling["rawInput"].is_object() {
                let known: Value = serde_json::from_str(&arguments[id]).unwrap_or_default();
                // An empty one may only mean that it is not known yet; then a text may tell it.
                let open = telling["rawInput"] == json!({}) && telling["status"] != "in_progress";
                prop_assert!(open || known == telling["rawInput"], "{known} {telling}");
            }
            let ends = matches!(telling["status"].as_str(), Some("completed" | "failed"));
            prop_assert!(!ends || ended.contains_key(id));
        }
        prop_assert_eq!(read, said);
        prop_assert!(steps <= 1);
    }
}

/// What was written since, line by line.
fn sent(player: &mut Player) -> Vec<Value> {
    let lines = std::mem::take(&mut player.written);
    lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect()
}

/// A session of a program with a tool `add`, of an agent that takes MCP servers over HTTP or does not.
fn with_tool(http: bool) -> (Player, Value) {
    let tool = crate::dialect::ToolOffer { name: "add".into(), description: "Adds".into(), parameters: json!({}) };
    let endpoint = crate::tools_server::Endpoint {
        name: "program".into(),
        url: "http://127.0.0.1:1/mcp".into(),
        headers: vec![("Authorization".into(), "Bearer secret".into())],
    };
    let hello = Hello { tools: vec![tool], tools_server: Some(endpoint), ..Hello::default() };
    let mut player = Player::with(wishes(), hello);
    sent(&mut player);
    let result = json!({"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"http": http}}});
    player.hear(&json!({"jsonrpc": "2.0", "id": 0, "result": result}).to_string());
    let session = sent(&mut player).remove(0);
    player.hear(&json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}).to_string());
    assert_eq!(player.trace, ["opened s"]);
    (player, session)
}

#[test]
fn the_programs_tools_go_along_as_a_server_where_the_agent_takes_one() {
    let (_, session) = with_tool(true);
    let headers = json!([{"name": "Authorization", "value": "Bearer secret"}]);
    let server = json!({"type": "http", "name": "program", "url": "http://127.0.0.1:1/mcp", "headers": headers});
    assert_eq!(session["params"]["mcpServers"], json!([server]));
    let (_, session) = with_tool(false);
    assert_eq!(session["params"]["mcpServers"], json!([]));
}

#[test]
fn the_programs_own_tools_keep_their_names_and_need_no_permission() {
    let (mut player, _) = with_tool(true);
    player.connection.prompt(1, "go".into(), player.now);
    player.look();
    let update = |update: Value| {
        let params = json!({"sessionId": "s", "update": update});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
    };
    let call = |id: &str, name: &str| update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": name}));
    let ask = |number: u64, id: &str, title: &str| {
        let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
        let options = [option("always", "allow_always"), option("once", "allow_once"), option("no", "reject_once")];
        let params = json!({"sessionId": "s", "options": options, "toolCall": {"toolCallId": id, "title": title}});
        json!({"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params}).to_string()
    };
    let answer = |number: u64, outcome: Value| json!({"jsonrpc": "2.0", "id": number, "result": {"outcome": outcome}});
    sent(&mut player);
    player.hear(&call("a", "mcp__program__add"));
    player.hear(&ask(0, "a", "Running: something"));
    assert_eq!(sent(&mut player), [answer(0, json!({"outcome": "selected", "optionId": "once"}))]);
    assert!(player.asked.is_empty());
    // Neither another server's, nor one that the program has not, nor one that only says so when it asks.
    let others = ["mcp__other__add", "mcp__program__addition", "mcp__program", "add", "Shell"];
    for (number, name) in (1..).zip(others) {
        player.hear(&call(name, name));
        player.hear(&ask(number, name, "mcp__program__add"));
        assert!(sent(&mut player).is_empty(), "{name}");
        assert_eq!(player.asked.len(), number as usize, "{name}");
    }
    let calls: Vec<_> = player.trace.iter().filter(|line| line.starts_with("call")).map(String::as_str).collect();
    let expected = ["a add", "mcp__other__add mcp__other__add", "mcp__program__addition mcp__program__addition"];
    assert_eq!(calls[..3], expected.map(|call| format!("call {call} \"\"")));
    // While the turn is being cancelled nothing is allowed any more.
    player.connection.cancel(1, player.now);
    player.look();
    sent(&mut player);
    player.hear(&ask(9, "a", "mcp__program__add"));
    assert_eq!(sent(&mut player), [answer(9, json!({"outcome": "cancelled"}))]);
}
