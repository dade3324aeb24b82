//! Agents of others, as they were recorded, and what they do otherwise than Kimi Code.

use super::*;
use crate::budget::Budget;
use crate::connection::TurnLimits;

/// The trace of a turn's tools and requests.
fn tools(case: &str) -> Vec<String> {
    let told = ["call ", "part ", "may ", "which ", "result ", "turn "];
    Player::play(case).into_iter().filter(|line| told.iter().any(|word| line.starts_with(word))).collect()
}

#[test]
fn recorded_qwen_code_gives_expected_events() {
    let told = tools("qwen-code-0.24.4/work");
    let expected = [
        r#"turn finished 1 "Hello""#,
        r#"call c1 run_shell_command """#,
        r#"part "{\"command\":\"echo one > one.txt\",\"description\":\"Write one\"}""#,
        "may run_shell_command 0: echo one > one.txt (Write one)",
        r#"result c1 ok "Command: echo one > one.txt\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: 0\nSignal: (none)\nProcess Group PGID: (none)""#,
        r#"turn finished 1 "Done""#,
        r#"call c2 run_shell_command """#,
        r#"part "{\"command\":\"echo two > two.txt\",\"description\":\"Write two\"}""#,
        "may run_shell_command 2: echo two > two.txt (Write two)",
        r#"result c2 failed "Tool \"run_shell_command\" was canceled by the user.""#,
        r#"turn finished 1 """#,
        r#"turn cancelled 1 "On and on""#,
    ];
    assert_eq!(told[..expected.len()], expected);
    // Plan mode, on and off.
    assert_eq!(told[told.len() - 3..], [r#"turn finished 1 "Fresh""#, "call ok", "call ok"]);
}

#[test]
fn recorded_opencode_gives_expected_events() {
    let told = tools("opencode-1.18.33/work");
    let expected = [
        r#"turn finished 1 "Hello""#,
        r#"call c1 bash "{\"cwd\":\"/project\"}""#,
        r#"call c1 bash "{\"command\":\"echo one > one.txt\",\"description\":\"Write one\",\"cwd\":\"/project\"}" (made here)"#,
        "may bash 0: echo one > one.txt",
        r#"result c1 ok "(no output)""#,
        r#"turn finished 1 "Done""#,
    ];
    assert_eq!(told[..expected.len()], expected);
    let ends: Vec<_> = told.iter().filter(|line| line.starts_with("turn ")).skip(2).map(String::as_str).collect();
    assert_eq!(
        ends,
        [
            "turn finished 1 \"\"",
            "turn cancelled 1 \"On and on\"",
            "turn cancelled 1 \"\"",
            "turn finished 1 \"Fresh\""
        ]
    );
}

fn tool(kind: &str, fields: Value) -> String {
    let mut told = json!({"sessionUpdate": kind, "toolCallId": "t", "title": "T"});
    for (key, value) in fields.as_object().expect("fields") {
        told[key] = value.clone();
    }
    update(told)
}

#[test]
fn empty_input_is_absent_until_tool_runs() {
    let mut player = prompted();
    player.hear(&tool("tool_call", json!({"status": "pending", "rawInput": {}})));
    player.hear(&tool("tool_call_update", json!({"status": "in_progress", "rawInput": {"path": "a"}})));
    player.hear(&tool("tool_call_update", json!({"status": "completed", "rawOutput": "ok"})));
    assert_eq!(player.trace[1..], ["call t T \"\"", r#"part "{\"path\":\"a\"}""#, "result t ok \"ok\""]);

    let mut player = prompted();
    player.hear(&tool("tool_call", json!({"status": "pending", "rawInput": {}})));
    player.hear(&tool("tool_call_update", json!({"status": "completed", "rawOutput": "ok"})));
    assert_eq!(player.trace[1..], ["call t T \"\"", r#"part "{}""#, "result t ok \"ok\""]);
}

#[test]
fn last_tool_output_wins_over_progress() {
    let text = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let mut player = prompted();
    player.hear(&tool("tool_call", json!({"status": "in_progress", "rawInput": {"k": 1}, "content": text("Working")})));
    player.hear(&tool("tool_call_update", json!({"status": "completed", "rawOutput": "raw"})));
    assert_eq!(player.trace.last().map(String::as_str), Some("result t ok \"raw\""));

    let mut player = prompted();
    player.hear(&tool("tool_call", json!({"status": "in_progress", "rawInput": {"k": 1}})));
    player.hear(&tool("tool_call_update", json!({"status": "completed", "rawOutput": "", "content": text("shown")})));
    assert_eq!(player.trace.last().map(String::as_str), Some("result t ok \"shown\""));
}

#[test]
fn output_beside_arguments_is_kept() {
    let text = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let ended = |content: &str| json!({"status": "completed", "rawInput": {"k": 1}, "content": text(content)});
    for (content, expected) in [("done", "done"), ("{\"n\":2}", "{\\\"n\\\":2}"), ("{ \"k\": 1 }", "")] {
        let mut player = prompted();
        player.hear(&tool("tool_call", ended(content)));
        assert_eq!(player.trace.last(), Some(&format!("result t ok \"{expected}\"")));
    }
    let mut player = prompted();
    player.hear(&tool("tool_call", json!({"status": "in_progress", "rawInput": {"k": 1}, "content": text("half")})));
    player.hear(&tool("tool_call_update", json!({"status": "completed"})));
    assert_eq!(player.trace.last().map(String::as_str), Some("result t ok \"half\""));
}

/// The outcome of a request with these options, by the names of the kinds, if the program gives this answer.
fn asked(kinds: &[&str]) -> (Player, u64, Event) {
    let mut player = prompted();
    let option =
        |(n, kind): (usize, &&str)| json!({"optionId": format!("o{n}"), "name": format!("Way {n}"), "kind": kind});
    let options: Vec<_> = kinds.iter().enumerate().map(option).collect();
    let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "Do it"}, "options": options});
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params});
    player.hear(&request.to_string());
    let (key, request) = player.asked.remove(0);
    (player, key, request)
}

fn chosen(kinds: &[&str], answer: &Answer) -> Value {
    let (mut player, key, _) = asked(kinds);
    player.connection.answer(key, answer, player.now);
    player.look();
    player.sent()[0]["result"]["outcome"].clone()
}

#[test]
fn ambiguous_allow_always_selects_allow_once() {
    let (once, no) =
        (json!({"outcome": "selected", "optionId": "o2"}), json!({"outcome": "selected", "optionId": "o3"}));
    let kinds = ["allow_always", "allow_always", "allow_once", "reject_once"];
    let (_, _, request) = asked(&kinds);
    assert!(matches!(request, Event::ApprovalRequest(_)), "{request:?}");
    assert_eq!(chosen(&kinds, &Answer::Approval(Approval::Approve)), once);
    // The scope of each of the two is unknown.
    assert_eq!(chosen(&kinds, &Answer::Approval(Approval::ApproveForSession)), once);
    assert_eq!(chosen(&kinds, &Answer::Approval(Approval::reject("no"))), no);
}

#[test]
fn unknown_option_kinds_become_question() {
    let kinds = ["allow_once", "allow_on_sundays", "reject_once", "reject_once"];
    let (_, _, request) = asked(&kinds);
    let Event::QuestionRequest(request) = request else { panic!("{request:?}") };
    let labels: Vec<_> = request.questions[0].options.iter().map(|option| &*option.label).collect();
    assert_eq!(labels, ["Way 0", "Way 1", "Way 2", "Way 3"]);
    let selected = |id: &str| json!({"outcome": "selected", "optionId": id});
    let sundays = Answer::Question(Some(Answers::new().answer("Do it", "Way 1")));
    assert_eq!(chosen(&kinds, &sundays), selected("o1"));
    // Without a choice the answer rejects; if no option is known to reject, none is selected.
    assert_eq!(chosen(&kinds, &Answer::Question(None)), selected("o2"));
    assert_eq!(chosen(&["allow_once", "whim"], &Answer::Question(None)), json!({"outcome": "cancelled"}));
    let unknown = Answer::Question(Some(Answers::new().answer("Do it", "Way 9")));
    assert_eq!(chosen(&kinds, &unknown), selected("o2"));
}

#[test]
fn permission_without_readable_options_is_not_granted() {
    for options in [json!([]), json!([{"name": "x"}]), json!(3), Value::Null] {
        let mut player = prompted();
        let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "Do it"}, "options": options});
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params});
        player.hear(&request.to_string());
        if let Some((key, _)) = player.asked.pop() {
            player.connection.answer(key, &Answer::Approval(Approval::ApproveForSession), player.now);
            player.look();
        }
        let sent = player.sent();
        let refused = sent[0]["error"].is_object() || sent[0]["result"]["outcome"]["outcome"] == "cancelled";
        assert!(refused && sent.len() == 1, "{options}: {sent:?}");
    }
}

#[test]
fn response_with_unknown_id_is_ignored() {
    let mut player = prompted();
    for id in ["\"prompt-2\"", "\"2x\"", "2.5", "-2", "999"] {
        player.hear(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}"#));
        assert!(player.trace.is_empty(), "{id}: {:?}", player.trace);
    }
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    assert_eq!(player.trace.last().map(String::as_str), Some("turn finished 1 \"\""));
}

#[test]
fn permission_outside_turn_is_answered_once() {
    let ask = |id: u64| {
        let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
        let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "Do it"}, "options": options});
        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}).to_string()
    };
    let mut player = open(json!({"sessionId": "s"}));
    player.hear(&ask(0));
    player.connection.prompt(1, "hi".into(), player.now);
    player.look();
    player.hear(&ask(1));
    player.sent();
    player.connection.cancel(1, player.now);
    player.look();
    let answered = |sent: Vec<Value>| sent.into_iter().filter(|line| line["result"].is_object()).collect::<Vec<_>>();
    // Only requests of the turn end with it.
    let cancelled = answered(player.sent());
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0], json!({"jsonrpc": "2.0", "id": 1, "result": {"outcome": {"outcome": "cancelled"}}}));
    let (key, _) = player.asked.remove(0);
    player.connection.answer(key, &Answer::Approval(Approval::Approve), player.now);
    player.look();
    let outcome = json!({"outcome": "selected", "optionId": "yes"});
    assert_eq!(answered(player.sent()), [json!({"jsonrpc": "2.0", "id": 0, "result": {"outcome": outcome}})]);
}

#[test]
fn missing_login_error_lists_auth_methods() {
    let mut player = Player::new(params());
    let methods = json!([{"id": "a", "name": "With a key"}, {"id": "b", "type": "novel", "name": "By hand"}, 3]);
    player.hear(&answer(0, json!({"protocolVersion": 1, "authMethods": methods})));
    let error = json!({"code": -32000, "message": "Authentication required."});
    player.hear(&json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string());
    let [only] = &player.trace[..] else { panic!("{:?}", player.trace) };
    assert!(
        only.starts_with("not opened: auth_expired: the agent (ACP 1): Authentication required (-32000); log in"),
        "{only}"
    );
    assert!(only.contains("it knows these ways to log in: With a key, By hand"), "{only}");
}

#[test]
fn approval_description_contains_command() {
    let described = |call: Option<Value>, request: Value| {
        let mut player = prompted();
        if let Some(call) = call {
            player.hear(&tool("tool_call", call));
        }
        let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
        let mut tool_call = json!({"toolCallId": "t",
            "content": [{"type": "content", "content": {"type": "text", "text": "List files"}}]});
        for (key, value) in request.as_object().expect("fields") {
            tool_call[key] = value.clone();
        }
        let params = json!({"sessionId": "s", "toolCall": tool_call, "options": options});
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params});
        player.hear(&request.to_string());
        match player.asked.remove(0) {
            (_, Event::ApprovalRequest(request)) => request.description,
            other => panic!("{other:?}"),
        }
    };
    // As Gemini CLI asks, which has not announced the call before.
    let title = json!({"title": "rm -r data", "kind": "execute"});
    assert_eq!(described(None, title.clone()), "rm -r data\n\nList files");
    // As Claude Code asks, whose tool has a name of its own.
    let call = json!({"title": "Terminal", "name": "Bash", "rawInput": {"command": "rm -r data"}});
    assert_eq!(described(Some(call), title), "rm -r data\n\nList files");
    // As Kimi Code asks, whose title is the tool's name.
    let call = json!({"title": "Bash", "rawInput": {"command": "rm -r data"}});
    assert_eq!(described(Some(call), json!({"title": "Bash"})), "List files");
    assert_eq!(described(None, json!({"title": "List files in data", "content": []})), "List files in data");
    // As fast-agent asks, whose title is the tool's name, and which shows nothing else.
    let call = json!({"title": "execute", "rawInput": {"command": "rm -r data"}});
    assert_eq!(described(Some(call), json!({"title": "execute", "content": []})), "rm -r data");
    // As Mistral Vibe asks, whose request has the id of the call alone.
    let call =
        json!({"title": "bash: rm -r data", "rawInput": {"command": "rm -r data"}, "_meta": {"tool_name": "bash"}});
    assert_eq!(described(Some(call), json!({"content": []})), "bash: rm -r data");
}

#[test]
fn usage_in_update_and_answer_counts_once() {
    let usage = |player: &Player| player.trace.iter().filter(|line| line.contains("token_usage")).count();
    let counts = json!({"inputTokens": 100, "outputTokens": 10, "totalTokens": 110});
    let mut player = prompted();
    player.hear(&answer(2, json!({"stopReason": "end_turn", "usage": counts})));
    assert_eq!(usage(&player), 1, "{:?}", player.trace);
    let mut player = prompted();
    let content = json!({"type": "text", "text": ""});
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": content, "_meta": {"usage": counts}});
    player.hear(&super::update(update));
    player.hear(&answer(2, json!({"stopReason": "end_turn", "usage": counts})));
    assert_eq!(usage(&player), 1, "{:?}", player.trace);
    let mut player = prompted();
    player.hear(&answer(2, json!({"stopReason": "end_turn", "usage": 3})));
    assert_eq!(usage(&player), 0, "{:?}", player.trace);
}

#[test]
fn usage_of_session_becomes_that_of_turn() {
    let mut player = Player::new(SessionParams { session_id: Some("s".into()), ..params() });
    let mut hello = initialized(json!({"loadSession": true}));
    hello["result"]["agentInfo"] = json!({"name": "vibe", "title": "Mistral Vibe", "version": "3.0.3"});
    player.hear(&hello.to_string());
    let so_far = json!({"promptTokens": 100, "completionTokens": 10, "cachedTokens": 0, "totalTokens": 110});
    player.hear(&update(json!({"sessionUpdate": "usage_update", "used": 1, "size": 9, "_meta": so_far})));
    player.hear(&answer(1, json!({})));
    for (turn, input) in [(1, 320), (2, 540)] {
        player.connection.prompt(turn, "hi".into(), player.now);
        player.look();
        let counts = json!({"inputTokens": input, "outputTokens": 10 + 5 * turn, "totalTokens": input + 10 + 5 * turn});
        player.hear(&answer(turn + 1, json!({"stopReason": "end_turn", "usage": counts})));
    }
    let usage = player.connection.usage();
    assert_eq!((usage.input_other, usage.output), (440, 10), "{:?}", player.trace);
}

#[test]
fn recorded_gemini_cli_gives_expected_events() {
    let told: Vec<_> = tools("gemini-cli-0.61.0/work").into_iter().map(|line| without_ids(&line)).collect();
    let expected = [
        r#"turn finished 1 "Hello""#,
        r#"call <id> echo one > one.txt "" (made here)"#,
        "may echo one > one.txt 0: echo one > one.txt\n\n[current working directory /project] (Write one)",
        r#"result <id> ok """#,
        r#"turn finished 1 "Done""#,
        r#"call <id> echo two > two.txt "" (made here)"#,
        "may echo two > two.txt 1: echo two > two.txt\n\n[current working directory /project] (Write two)",
        r#"turn finished 1 "I see""#,
        r#"turn cancelled 1 "On and on""#,
    ];
    assert_eq!(told[..expected.len()], expected);
    assert_eq!(told[told.len() - 3..], [r#"turn finished 1 "Fresh""#, "call ok", "call ok"]);
}

/// Without the ids that Gemini CLI makes of the time.
fn without_ids(line: &str) -> String {
    let clean = |word: &str| if word.starts_with("run_shell_command__") { "<id>".to_owned() } else { word.to_owned() };
    line.split(' ').map(clean).collect::<Vec<_>>().join(" ")
}

#[test]
fn recorded_claude_code_gives_expected_events() {
    let told = tools("claude-agent-acp-0.101.0/work");
    let expected = [
        r#"turn finished 1 "Hello""#,
        r#"call c1 Bash """#,
        r#"part "{\"command\":\"echo one > one.txt\",\"description\":\"Write one\"}""#,
        "may Bash 0: echo one > one.txt\n\nWrite one",
        r#"result c1 ok "(Bash completed with no output)""#,
        // The scripted service gave all its messages one id, so the text is one message.
        r#"turn finished 1 "Done""#,
        r#"call c2 Bash """#,
        r#"part "{\"command\":\"echo two > two.txt\",\"description\":\"Write two\"}""#,
        "may Bash 1: echo two > two.txt\n\nWrite two",
        r#"result c2 failed "```\nUser refused permission to run tool\n```""#,
        r#"turn finished 1 "I see""#,
        r#"turn cancelled 1 "On and on""#,
    ];
    assert_eq!(told[..expected.len()], expected);
    assert_eq!(told[told.len() - 3..], [r#"turn finished 1 "Fresh""#, "call ok", "call ok"]);
}

#[test]
fn recorded_approvals_of_others_contain_command() {
    let asked = |case: &str| -> Vec<String> {
        tools(case).into_iter().filter_map(|line| line.strip_prefix("may ").map(str::to_owned)).collect()
    };
    let commands = ["echo one > one.txt", "echo two > two.txt", "echo three > three.txt"];
    let vibe = (0..).zip(commands).map(|(n, command)| format!("bash {n}: bash: {command}"));
    assert_eq!(asked("mistral-vibe-3.0.3/work"), vibe.collect::<Vec<_>>());
    // The name of a tool of Cline is its title.
    let cline = (0..).zip(commands).map(|(n, command)| format!("run_commands: {command} {n}: run_commands: {command}"));
    assert_eq!(asked("cline-3.0.65/work"), cline.collect::<Vec<_>>());
}

fn said(text: &str) -> String {
    update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

fn refused(id: u64) -> String {
    let error = json!({"code": -32601, "message": "\"Method not found\""});
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

/// A session that Gemini CLI loads, up to its answer to `session/load`.
fn loaded_by_gemini(params: SessionParams) -> Player {
    let mut player = Player::new(SessionParams { session_id: Some("s".into()), ..params });
    let mut hello = initialized(json!({"loadSession": true}));
    hello["result"]["agentInfo"] = json!({"name": "gemini-cli", "title": "Gemini CLI", "version": "0.61.0"});
    player.hear(&hello.to_string());
    assert_eq!(player.sent().last().expect("a call")["method"], "session/load");
    player.hear(&said("one"));
    player
}

#[test]
fn past_after_load_answer_is_not_live() {
    let mut player = loaded_by_gemini(params());
    player.hear(&answer(1, json!({"modes": {"currentModeId": "default", "availableModes": []}})));
    let asked = player.sent();
    assert_eq!((asked.len(), &asked[0]["id"], &asked[0]["method"]), (1, &json!(2), &json!("_kimi-agent/end_of_past")));
    player.hear(&said("two"));
    player.hear(&refused(2));
    // More may have been written since.
    assert_eq!(player.sent()[0]["id"], 3);
    player.hear(&said("three"));
    player.hear(&answer(3, json!({})));
    assert_eq!(player.sent()[0]["id"], 4);
    player.hear(&update(json!({"sessionUpdate": "available_commands_update", "availableCommands": []})));
    assert_eq!(std::mem::take(&mut player.trace), ["outside: unknown available_commands_update"]);
    player.hear(&refused(4));
    assert_eq!((player.sent().len(), std::mem::take(&mut player.trace)), (0, vec!["opened s".to_owned()]));
    player.connection.prompt(1, "hi".into(), player.now);
    player.look();
    player.hear(&said("new"));
    player.hear(&answer(5, json!({"stopReason": "end_turn"})));
    assert_eq!(player.trace.last().map(String::as_str), Some("turn finished 1 \"new\""));
}

#[test]
fn loaded_session_is_configured_after_past() {
    let mut player = loaded_by_gemini(SessionParams { model: Some("big".into()), ..params() });
    let options = json!([{"type": "select", "id": "m", "name": "M", "category": "model", "currentValue": "small",
        "options": [{"value": "big", "name": "Big"}]}]);
    player.hear(&answer(1, json!({"configOptions": options})));
    assert_eq!(player.sent()[0]["method"], "_kimi-agent/end_of_past");
    player.hear(&refused(2));
    assert_eq!(player.sent()[0]["params"], json!({"sessionId": "s", "configId": "m", "value": "big"}));
    player.hear(&answer(3, json!({"configOptions": options})));
    assert_eq!(player.trace, ["opened s"]);
}

/// A session that an agent loads which is not known, without its past.
fn loading() -> Player {
    let mut player = Player::new(SessionParams { session_id: Some("s".into()), ..params() });
    player.hear(&initialized(json!({"loadSession": true})).to_string());
    player.sent();
    player
}

#[test]
fn past_before_load_answer_needs_no_probe() {
    let mut player = loading();
    player.hear(&said("old"));
    player.hear(&answer(1, json!({})));
    assert_eq!((player.sent().len(), player.trace), (0, vec!["opened s".to_owned()]));
}

#[test]
fn probe_without_answer_session_opens() {
    let mut player = loading();
    player.hear(&answer(1, json!({})));
    assert_eq!(player.sent()[0]["method"], "_kimi-agent/end_of_past");
    let wait = Duration::from_millis(900);
    for text in ["old ", "answer"] {
        player.now += wait;
        player.connection.handle_timeout(player.now);
        player.hear(&said(text));
    }
    assert!(player.trace.is_empty(), "{:?}", player.trace);
    player.now = player.connection.poll_timeout().expect("a deadline");
    player.connection.handle_timeout(player.now);
    player.look();
    assert_eq!((std::mem::take(&mut player.trace), player.sent().len()), (vec!["opened s".to_owned()], 0));
    // A late answer to the probe changes nothing.
    player.connection.prompt(1, "hi".into(), player.now);
    player.hear(&refused(2));
    player.hear(&said("new"));
    player.hear(&answer(3, json!({"stopReason": "end_turn"})));
    assert_eq!(player.trace.last().map(String::as_str), Some("turn finished 1 \"new\""));
}

#[test]
fn late_answer_to_probe_is_not_the_answer_to_a_setting() {
    let mut player = Player::new(SessionParams { session_id: Some("s".into()), model: Some("big".into()), ..params() });
    player.hear(&initialized(json!({"loadSession": true})).to_string());
    let options = json!([{"type": "select", "id": "m", "name": "M", "category": "model", "currentValue": "small",
        "options": [{"value": "big", "name": "Big"}]}]);
    player.hear(&answer(1, json!({"configOptions": options})));
    player.sent();
    player.now = player.connection.poll_timeout().expect("a deadline");
    player.connection.handle_timeout(player.now);
    player.look();
    assert_eq!(player.sent()[0]["params"]["configId"], "m");
    player.hear(&refused(2));
    assert!(player.trace.is_empty(), "{:?}", player.trace);
    player.hear(&answer(3, json!({"configOptions": options})));
    assert_eq!(player.trace, ["opened s"]);
}

#[test]
fn state_before_answer_about_session_is_kept() {
    let cost = |amount: f64| {
        let cost = json!({"amount": amount, "currency": "USD"});
        update(json!({"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": cost}))
    };
    let mode = update(json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}));
    let mut player = loading();
    player.hear(&cost(4.0));
    player.hear(&cost(5.0));
    player.hear(&mode);
    player.hear(&said("old"));
    player.hear(&answer(1, json!({})));
    assert_eq!(player.trace.last().map(String::as_str), Some("opened s"));
    let status = player.connection.status().expect("a status");
    assert_eq!((status.context_tokens, status.plan_mode), (Some(10), Some(true)));
    // The cost is the base of the first turn.
    let limits = TurnLimits { budget: Some(Budget::new().usd(1.0)), ..TurnLimits::default() };
    player.connection.prompt_within(1, "hi".into(), limits, player.now);
    player.look();
    player.hear(&cost(5.5));
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    assert_eq!(player.trace.last().map(String::as_str), Some("turn finished 1 \"\""));
    // The answer wins over the mode before it.
    let mut player = Player::new(params());
    player.hear(&initialized(json!({})).to_string());
    player.hear(&mode);
    let modes = json!([{"id": "default", "name": "D"}, {"id": "plan", "name": "P"}]);
    player.hear(&answer(1, json!({"sessionId": "s", "modes": {"currentModeId": "default", "availableModes": modes}})));
    assert_eq!(player.trace, ["opened s"]);
}
