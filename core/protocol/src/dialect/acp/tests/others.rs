//! Agents of others, as they were recorded, and what they do otherwise than Kimi Code.

use super::*;

/// What a turn's tools and requests come to.
fn tools(case: &str) -> Vec<String> {
    let told = ["call ", "part ", "may ", "which ", "result ", "turn "];
    Player::play(case).into_iter().filter(|line| told.iter().any(|word| line.starts_with(word))).collect()
}

#[test]
fn qwen_code_tells_arguments_with_its_request_and_offers_two_ways_to_allow_for_good() {
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
fn opencode_tells_of_a_call_before_it_knows_what_is_asked() {
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
fn an_empty_input_is_none_until_the_tool_runs() {
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
fn what_is_shown_in_the_end_is_what_came_out() {
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

/// What becomes of a request with these options, by the kinds' names, where the program gives this answer.
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
fn for_good_is_no_more_than_the_program_means() {
    let (once, no) =
        (json!({"outcome": "selected", "optionId": "o2"}), json!({"outcome": "selected", "optionId": "o3"}));
    let kinds = ["allow_always", "allow_always", "allow_once", "reject_once"];
    let (_, _, request) = asked(&kinds);
    assert!(matches!(request, Event::ApprovalRequest(_)), "{request:?}");
    assert_eq!(chosen(&kinds, &Answer::Approval(Approval::Approve)), once);
    // How far each of the two goes is not known.
    assert_eq!(chosen(&kinds, &Answer::Approval(Approval::ApproveForSession)), once);
    assert_eq!(chosen(&kinds, &Answer::Approval(Approval::reject("no"))), no);
}

#[test]
fn options_of_a_kind_that_is_not_known_are_offered_by_name() {
    let kinds = ["allow_once", "allow_on_sundays", "reject_once"];
    let (_, _, request) = asked(&kinds);
    let Event::QuestionRequest(request) = request else { panic!("{request:?}") };
    let labels: Vec<_> = request.questions[0].options.iter().map(|option| &*option.label).collect();
    assert_eq!(labels, ["Way 0", "Way 1", "Way 2"]);
    let selected = |id: &str| json!({"outcome": "selected", "optionId": id});
    let sundays = Answer::Question(Some(Answers::new().answer("Do it", "Way 1")));
    assert_eq!(chosen(&kinds, &sundays), selected("o1"));
    // Whoever does not choose rejects; where nothing is known to reject, nothing is chosen.
    assert_eq!(chosen(&kinds, &Answer::Question(None)), selected("o2"));
    assert_eq!(chosen(&["allow_once", "whim"], &Answer::Question(None)), json!({"outcome": "cancelled"}));
    let unknown = Answer::Question(Some(Answers::new().answer("Do it", "Way 9")));
    assert_eq!(chosen(&kinds, &unknown), selected("o2"));
}

#[test]
fn a_request_without_options_or_with_none_that_can_be_read_allows_nothing() {
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
fn an_answer_under_a_name_that_only_the_connection_has_is_none() {
    let mut player = prompted();
    for id in ["\"prompt-2\"", "\"2x\"", "2.0", "-2", "999"] {
        player.hear(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}"#));
        assert!(player.trace.is_empty(), "{id}: {:?}", player.trace);
    }
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    assert_eq!(player.trace.last().map(String::as_str), Some("turn finished 1 \"\""));
}

#[test]
fn what_is_asked_outside_of_a_turn_is_answered_once_whatever_becomes_of_turns() {
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
    // Only what was asked in the turn goes with it.
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
fn the_ways_to_log_in_are_told() {
    let mut player = Player::new(params());
    let methods = json!([{"id": "a", "name": "With a key"}, {"id": "b", "type": "novel", "name": "By hand"}, 3]);
    player.hear(&answer(0, json!({"protocolVersion": 1, "authMethods": methods})));
    let error = json!({"code": -32000, "message": "Authentication required."});
    player.hear(&json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string());
    let [only] = &player.trace[..] else { panic!("{:?}", player.trace) };
    assert!(
        only.starts_with("not opened: llm_not_set: the agent (ACP 1): Authentication required (-32000); log in"),
        "{only}"
    );
    assert!(only.contains("it knows these ways to log in: With a key, By hand"), "{only}");
}
