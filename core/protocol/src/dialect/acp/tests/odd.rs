//! Messages that are not in the forms of the protocol, as agents in the world send them. Their content arrives.

use super::*;

fn heard(lines: &[Value]) -> Vec<String> {
    let mut player = prompted();
    for line in lines {
        player.hear(&update(line.clone()));
    }
    player.trace.retain(|told| told != "StepBegin");
    player.trace
}

#[test]
fn calls_without_title_or_with_number_as_id() {
    for title in [json!({}), json!({"title": null}), json!({"title": 3})] {
        let mut call = json!({"sessionUpdate": "tool_call", "toolCallId": 7, "rawInput": {"a": 1}});
        call.as_object_mut().unwrap().extend(title.as_object().unwrap().clone());
        let end =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": 7, "status": "completed", "rawOutput": "b"});
        assert_eq!(heard(&[call, end]), ["call 7  \"{\\\"a\\\":1}\"", "result 7 ok \"b\""], "{title}");
    }
    let mut player = prompted();
    let option = json!({"optionId": "yes", "name": "Allow", "kind": "allow_once"});
    let params = json!({"sessionId": "s", "toolCall": {"toolCallId": 7, "title": "ls"}, "options": [option]});
    player.hear(
        &json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": params}).to_string(),
    );
    let (_, request) = player.asked.remove(0);
    let Event::ApprovalRequest(request) = request else { panic!("{request:?}") };
    assert_eq!(request.tool_call_id, "7");
}

#[test]
fn unreadable_parts_of_request_are_described() {
    let mut player = prompted();
    let option = json!({"optionId": "yes", "name": "Allow", "kind": "allow_once"});
    let call = json!({"toolCallId": "t", "title": "Edit", "kind": "edit", "rawInput": "rm -rf /", "locations": ["/etc"],
        "content": ["delete it", {"type": "diff", "path": "/b"}]});
    let params = json!({"sessionId": "s", "toolCall": call, "options": [option]});
    player.hear(
        &json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": params}).to_string(),
    );
    let (_, request) = player.asked.remove(0);
    let Event::ApprovalRequest(request) = request else { panic!("{request:?}") };
    for part in ["rawInput: \"rm -rf /\"", "locations: [\"/etc\"]", "delete it", "\"path\":\"/b\""] {
        assert!(request.description.contains(part), "{part}: {}", request.description);
    }
}

#[test]
fn output_after_the_end_of_a_call_arrives_once() {
    let text = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let diff = json!([{"type": "diff", "path": "/a", "oldText": "", "newText": "b"}]);
    for (end, late, is_told) in [
        (json!({}), json!({"rawOutput": "b"}), true),
        (json!({}), json!({"status": "completed", "rawOutput": "b"}), true),
        (json!({}), json!({"content": diff}), true),
        (json!({"content": text("a")}), json!({"status": "completed", "content": text("a b")}), true),
        (json!({"content": text("a")}), json!({"status": "in_progress", "content": text("b")}), true),
        (json!({"content": text("a")}), json!({"status": "failed"}), true),
        (json!({"rawOutput": "a"}), json!({"rawOutput": "b"}), true),
        (json!({"rawOutput": "a"}), json!({"status": "completed", "rawOutput": {"error": "b"}}), true),
        (json!({"content": text("a"), "rawOutput": {"code": 0}}), json!({"rawOutput": "b"}), true),
        (json!({"content": text("a")}), json!({"rawOutput": {"output": "b"}}), true),
        // These say nothing new.
        (json!({"content": text("a")}), json!({"status": "completed", "content": text("a")}), false),
        (json!({"content": text("a")}), json!({"status": "completed", "rawOutput": {"output": "a"}}), false),
        (json!({"content": diff}), json!({"content": diff}), false),
        (json!({"rawOutput": {"code": 0}}), json!({"rawOutput": {"code": 0}}), false),
        (json!({"content": text("a"), "rawOutput": {"code": 0}}), json!({"rawOutput": {"code": 0}}), false),
        (json!({"rawOutput": "b"}), json!({"title": "Done", "content": []}), false),
    ] {
        let updated = |fields: &Value| {
            let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"});
            update.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            update
        };
        let mut end = end.clone();
        end["status"] = json!("completed");
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"});
        let trace = heard(&[call, updated(&end), updated(&late), updated(&late)]);
        let told: Vec<_> = trace[2..].iter().map(String::as_str).collect();
        assert_eq!(told, if is_told { vec!["unknown tool_call_update"] } else { vec![] }, "{end} {late}");
    }
}

#[test]
fn name_in_update_is_the_newest() {
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "git status", "rawInput": {"a": 1}});
    let named = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "name": "mcp__evil__x"});
    let trace = heard(&[call, named.clone(), named]);
    assert_eq!(trace[1..], ["call t mcp__evil__x \"{\\\"a\\\":1}\" (made here)"]);
}

#[test]
fn commands_need_a_name_only() {
    let mut player = prompted();
    let commands =
        json!([{"name": "a"}, {"description": "none"}, {"name": "b", "description": "B", "input": {"hint": "x"}}]);
    player.hear(&update(json!({"sessionUpdate": "available_commands_update", "availableCommands": commands})));
    for unreadable in [json!({}), json!({"availableCommands": null}), json!({"availableCommands": 5})] {
        let mut list = json!({"sessionUpdate": "available_commands_update"});
        list.as_object_mut().unwrap().extend(unreadable.as_object().unwrap().clone());
        player.hear(&update(list));
    }
    let known: Vec<_> =
        player.commands.unwrap().into_iter().map(|command| (command.name, command.description)).collect();
    assert_eq!(known, [("a".to_owned(), String::new()), ("b".to_owned(), "B".to_owned())]);
}

#[test]
fn whole_numbers_may_have_fractions() {
    let trace = heard(&[json!({"sessionUpdate": "usage_update", "used": 50.0, "size": 100.0})]);
    assert!(trace[0].contains("\"context_tokens\":50"), "{trace:?}");
    let mut player = Player::new(params());
    let info = json!({"name": "goose"});
    player
        .hear(&json!({"jsonrpc": "2.0", "id": 0.0, "result": {"protocolVersion": 1.0, "agentInfo": info}}).to_string());
    player.hear(&answer(1, json!({"sessionId": "s"})));
    assert_eq!(player.trace, ["opened s"]);
}

#[test]
fn words_for_the_end_of_a_turn_are_read() {
    for (word, ended, when_cancelled) in [
        ("end_turn", "finished", "cancelled"),
        ("max_tokens", "truncated", "truncated"),
        ("MAX_TOKENS", "truncated", "truncated"),
        ("maxTokens", "truncated", "truncated"),
        ("endTurn", "finished", "cancelled"),
        ("model_context_window_exceeded", "truncated", "cancelled"),
        ("length", "truncated", "cancelled"),
        ("content_filter", "refused", "cancelled"),
        ("canceled", "cancelled", "cancelled"),
        ("interrupted", "cancelled", "cancelled"),
        ("error", "finished", "cancelled"),
        ("overloaded", "finished", "cancelled"),
        ("novelty", "finished", "cancelled"),
    ] {
        for (cancels, expected) in [(false, ended), (true, when_cancelled)] {
            let mut player = prompted();
            if cancels {
                player.connection.cancel(1, player.now);
            }
            player.hear(&answer(2, json!({"stopReason": word})));
            let end = player.trace.last().unwrap();
            assert!(end.starts_with(&format!("turn {expected}")), "{word} {cancels}: {end}");
        }
    }
}

#[test]
fn error_beside_the_reason_ends_the_turn() {
    for (answered, ended) in [
        (
            json!({"_meta": {"codebuddy.ai/errorMessage": "429 quota exceeded"}}),
            "llm_service_error: 429 quota exceeded",
        ),
        (json!({"_meta": {"error": {"message": "Overloaded", "status": 529}}}), "llm_service_error: Overloaded"),
        (json!({"error": "API Error: 529 Overloaded"}), "llm_service_error: API Error: 529 Overloaded"),
        (json!({"error": {"message": "novel"}}), "rpc_error: novel"),
        (json!({"stopReason": "refusal", "_meta": {"error": "novel"}}), "rpc_error: novel"),
        (json!({"error": null, "_meta": {"isError": false, "error": "", "errors": 0}}), "finished"),
        (
            json!({"lastError": {"message": "529"}, "_meta": {"recoveredError": "429", "onError": "continue"}}),
            "finished",
        ),
        (
            json!({"error": {"code": 0, "message": "fine"}, "_meta": {"errorMessage": "No error", "error": {}}}),
            "finished",
        ),
        (json!({"stopReason": "cancelled", "error": "aborted"}), "cancelled"),
        (json!({"stopReason": "max_tokens", "error": "cut"}), "truncated"),
    ] {
        let mut player = prompted();
        let mut result = json!({"stopReason": "end_turn"});
        result.as_object_mut().unwrap().extend(answered.as_object().unwrap().clone());
        player.hear(&answer(2, result));
        let end = player.trace.last().unwrap();
        assert!(end.starts_with(&format!("turn {ended}")), "{answered}: {end}");
    }
}

#[test]
fn agent_error_without_continuation_ends_turn() {
    let said = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}});
    let limit = json!({"type": "rate_limit", "message": "429 Too Many Requests", "retryable": true});
    for (error, continues, ended) in [
        (limit.clone(), false, "llm_service_error: 429 Too Many Requests"),
        (json!("novel"), false, "rpc_error: novel"),
        (json!({"type": "novel"}), false, "finished"),
        (limit, true, "finished"),
    ] {
        let mut player = prompted();
        // The text before does not continue.
        (0..3).for_each(|_| player.hear(&update(said.clone())));
        player.hear(&update(json!({"sessionUpdate": "agent_error", "error": error, "stopReason": "error"})));
        assert_eq!(player.trace.last().map(String::as_str), Some("unknown agent_error"));
        if continues {
            player.hear(&update(said.clone()));
        }
        player.hear(&answer(2, json!({"stopReason": "end_turn"})));
        let end = player.trace.last().unwrap();
        assert!(end.starts_with(&format!("turn {ended}")), "{error} {continues}: {end}");
    }
}

#[test]
fn abort_error_after_cancel_is_cancelled_turn() {
    for (error, ended) in [
        (json!({"message": "x", "data": {"name": "MessageAbortedError"}}), "cancelled"),
        (json!({"message": "x", "data": {"name": "AbortError"}}), "cancelled"),
        (json!({"message": "x", "data": {"code": "ABORT_ERR"}}), "cancelled"),
        (json!({"message": "stopped by user"}), "cancelled"),
        (json!({"message": "aborted"}), "cancelled"),
        (json!({"message": "no disk"}), "rpc_error"),
    ] {
        let mut player = prompted();
        player.connection.cancel(1, player.now);
        let mut error = error;
        error["code"] = json!(-32603);
        player.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": error}).to_string());
        let end = player.trace.last().unwrap();
        assert!(end.starts_with(&format!("turn {ended}")), "{error}: {end}");
    }
}

#[test]
fn code_of_a_missing_login_has_other_meanings() {
    for (message, data, ended) in [
        ("API Error: 529 Overloaded", json!(null), "llm_service_error"),
        ("Server error", json!({"status": 429, "retry_after": 5}), "llm_service_error"),
        ("prompt is too long: 208310 tokens > 200000 maximum", json!(null), "context_too_long"),
        ("Already processing a prompt", json!(null), "turn_in_progress"),
        ("Connection is not initialized", json!(null), "rpc_error"),
        ("Server error", json!(null), "auth_expired"),
        ("Authentication required", json!(null), "auth_expired"),
    ] {
        let error = json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": message, "data": data}});
        let with_id = |id: u64| {
            let mut error = error.clone();
            error["id"] = json!(id);
            error.to_string()
        };
        let mut player = prompted();
        player.hear(&with_id(2));
        let end = player.trace.last().unwrap();
        assert!(end.starts_with(&format!("turn {ended}")), "{message}: {end}");
        let mut player = Player::new(params());
        player.hear(&initialized(json!({})).to_string());
        player.hear(&with_id(1));
        let end = player.trace.last().unwrap();
        let ended = ended.replace("turn_in_progress", "rpc_error");
        assert!(end.starts_with(&format!("not opened: {ended}")), "{message}: {end}");
    }
}

#[test]
fn shown_output_stays() {
    let text = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    for (shown, end, result) in [
        (json!({"content": text("a")}), json!({"rawOutput": {"exit_code": 0}}), "ok \"a\""),
        (json!({"content": text("a")}), json!({"rawOutput": {}}), "ok \"a\""),
        (json!({"content": text("a")}), json!({"rawOutput": {"status": "ok", "command": "ls"}}), "ok \"a\""),
        (json!({"content": text("a")}), json!({"rawOutput": ""}), "ok \"a\""),
        (json!({"content": text("a")}), json!({"content": []}), "ok \"a\""),
        (json!({"content": text("a")}), json!({"rawOutput": "b"}), "ok \"b\""),
        (json!({"rawOutput": "a"}), json!({}), "ok \"a\""),
        (json!({"rawOutput": "a"}), json!({"rawOutput": {"exit_code": 0}}), "ok \"a\""),
        (json!({"rawOutput": "a"}), json!({"content": text("b")}), "ok \"b\""),
        (json!({"content": text("a")}), json!({"status": "COMPLETED"}), "ok \"a\""),
        (json!({"content": text("a")}), json!({"status": "timed_out"}), "failed \"a\""),
        (json!({"content": text("a")}), json!({"status": "timedOut"}), "failed \"a\""),
        (json!({"content": text("a")}), json!({"status": "canceled"}), "failed \"a\""),
    ] {
        let updated = |fields: &Value| {
            let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"});
            update.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            update
        };
        let mut last = json!({"status": "completed"});
        last.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"});
        assert_eq!(
            heard(&[call, updated(&shown), updated(&last)])[1..],
            [format!("result t {result}")],
            "{shown} {end}"
        );
    }
}

#[test]
fn unfinished_call_output_precedes_turn_end() {
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "kind": "execute"});
    let shown = |fields: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"});
        update.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        update
    };
    let content = json!({"content": [{"type": "content", "content": {"type": "text", "text": "a"}}]});
    let said = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "done"}});
    for (fields, end, result) in [
        (content.clone(), json!({"result": {"stopReason": "end_turn"}}), Some("ok")),
        (json!({"rawOutput": {"output": "a"}}), json!({"result": {"stopReason": "end_turn"}}), Some("ok")),
        (content.clone(), json!({"error": {"code": -32603, "message": "Overloaded"}}), Some("failed")),
        (content.clone(), json!({"result": {"stopReason": "cancelled"}}), Some("failed")),
        // The agent exits.
        (content, json!(null), Some("failed")),
        (json!({}), json!({"result": {"stopReason": "end_turn"}}), None),
    ] {
        let mut player = prompted();
        for line in [&call, &shown(fields.clone()), &said] {
            player.hear(&update(line.clone()));
        }
        player.trace.clear();
        let mut outcome = None;
        if end.is_null() {
            player.connection.close(&Error::session_closed());
        } else {
            let mut line = end.clone();
            line["id"] = json!(2);
            line["jsonrpc"] = json!("2.0");
            player.connection.handle_line(line.to_string().as_bytes(), player.now);
        }
        let mut trace = Vec::new();
        while let Some(output) = player.connection.poll_output() {
            match output {
                Output::Event { scope, event, .. } => trace.push(told(scope, &event)),
                Output::TurnEnded { outcome: ended, .. } => {
                    outcome =
                        Some(ended.map_or_else(|error| error.result().cloned().expect("a result"), |result| *result));
                }
                _ => {}
            }
        }
        let expected = result.map(|result| format!("result t {result} "));
        let first = trace.first().filter(|first| expected.as_ref().is_some_and(|expected| first.starts_with(expected)));
        assert_eq!(first.is_some(), result.is_some(), "{trace:?}");
        let outcome = outcome.expect("an end");
        let record = &outcome.tool_calls[0];
        assert_eq!((record.is_error, record.duration), (None, None), "{fields} {end}");
        assert_eq!(record.output.is_some(), result.is_some(), "{fields} {end}");
        assert_eq!(outcome.text, "done", "{fields} {end}");
    }
}

#[test]
fn change_that_cannot_be_read_becomes_text() {
    for change in [
        json!({"type": "diff", "newText": "b"}),
        json!({"type": "diff", "path": "a", "oldText": "b", "newText": null}),
        json!({"type": "diff", "path": "a", "oldText": "b"}),
        json!({"type": "diff", "path": "a", "old_text": "x", "new_text": "b"}),
    ] {
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"});
        let end = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed",
            "content": [change.clone()]});
        assert_eq!(heard(&[call, end])[1..], [format!("result t ok {:?}", change.to_string())]);
    }
}

#[test]
fn request_with_id_alone_has_description() {
    for (call, described) in [
        (json!({"title": "Write /etc/passwd", "kind": "edit"}), "Write /etc/passwd"),
        (json!({"title": "Bash", "kind": "execute", "rawInput": {"command": "rm -rf x"}}), "rm -rf x"),
    ] {
        for fields in [json!({}), json!({"title": null}), json!({"title": ""}), json!({"status": "pending"})] {
            let with_id = |fields: &Value| {
                let mut call = json!({"toolCallId": "t"});
                call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
                call
            };
            let mut announced = with_id(&call);
            announced["sessionUpdate"] = json!("tool_call");
            let mut player = prompted();
            player.hear(&update(announced));
            let option = json!({"optionId": "yes", "name": "Allow", "kind": "allow_once"});
            let params = json!({"sessionId": "s", "toolCall": with_id(&fields), "options": [option]});
            let request = json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": params});
            player.hear(&request.to_string());
            let (_, Event::ApprovalRequest(request)) = player.asked.remove(0) else { panic!("no approval") };
            assert_eq!(request.description, described, "{fields}");
            assert_eq!(Some(&*request.action), call["title"].as_str(), "{fields}");
        }
    }
}

#[test]
fn error_without_id_ends_no_call() {
    for line in [
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}),
        json!({"jsonrpc": "2.0", "error": {"code": -32601, "message": "session/cancel"}}),
    ] {
        let mut player = prompted();
        player.hear(&line.to_string());
        assert!(player.trace.is_empty(), "{:?}", player.trace);
        player.hear(&answer(2, json!({"stopReason": "end_turn"})));
        assert!(player.trace.last().unwrap().starts_with("turn finished"), "{:?}", player.trace);
    }
}

#[test]
fn ids_and_versions_of_another_type_are_read() {
    let mut player = Player::new(params());
    player.hear(&json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "1"}}).to_string());
    player.hear(&answer(1, json!({"sessionId": 5})));
    assert_eq!(player.trace, ["opened 5"]);
    player.connection.prompt(1, "hi".into(), player.now);
    player.look();
    player.trace.clear();
    player.hear(
        &update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}))
            .replace(r#""sessionId":"s""#, r#""sessionId":5"#),
    );
    assert_eq!(player.trace, ["StepBegin", "text \"a\""]);
}

#[test]
fn update_of_another_session_is_delivered_outside_of_turns() {
    let mut player = prompted();
    let said = update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}));
    player.hear(&said.replace(r#""sessionId":"s""#, r#""sessionId":"resumed""#));
    assert_eq!(player.trace, ["outside: unknown session/update"]);
}

#[test]
fn halves_around_a_tool_call_are_joined() {
    let mut player = prompted();
    let said = |text: &str| {
        update(
            json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "T"}}),
        )
        .replace("\"T\"", &format!("\"{text}\""))
    };
    player.hear(&said(r"a\ud83d"));
    player.hear(&update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Bash"})));
    player.hear(&said(r"\ude80b"));
    assert_eq!(player.trace, ["StepBegin", "text \"a\"", "call t Bash \"\"", "text \"\u{1f680}b\""]);
}

#[test]
fn codes_of_kimi_code_are_read() {
    for (code, ended) in [
        ("provider.auth_error", "auth_expired"),
        ("provider.rate_limit", "llm_service_error"),
        ("provider.api_error", "llm_service_error"),
        ("provider.filtered", "refused"),
        ("loop.max_steps_exceeded", "max_steps_reached"),
        ("model.not_configured", "llm_not_set"),
    ] {
        let mut player = prompted();
        let error = json!({"code": -32603, "message": "Internal error", "data": {"code": code}});
        player.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": error}).to_string());
        let end = player.trace.last().unwrap();
        assert!(end.starts_with(&format!("turn {ended}")), "{code}: {end}");
    }
}

fn permission(id: Value, kinds: &[&str]) -> String {
    let options: Vec<_> = kinds.iter().map(|kind| json!({"optionId": kind, "name": kind, "kind": kind})).collect();
    let call = json!({"toolCallId": "t", "title": "Bash", "kind": "execute", "rawInput": {"command": "ls"}});
    let params = json!({"sessionId": "s", "toolCall": call, "options": options});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}).to_string()
}

#[test]
fn option_kind_in_other_spelling_read() {
    for kinds in [
        ["allowOnce", "rejectOnce"],
        ["ALLOW_ONCE", "REJECT_ONCE"],
        ["allow-once", "reject-once"],
        ["AllowOnce", "RejectOnce"],
    ] {
        for (answer, chosen) in [(Approval::Approve, kinds[0]), (Approval::Reject { feedback: None }, kinds[1])] {
            let mut player = prompted();
            player.hear(&permission(json!(7), &kinds));
            let (key, request) = player.asked.remove(0);
            assert!(matches!(request, Event::ApprovalRequest(_)), "{request:?}");
            player.connection.answer(key, &Answer::Approval(answer), player.now);
            player.look();
            assert_eq!(player.sent()[0]["result"]["outcome"]["optionId"], chosen);
        }
    }
}

#[test]
fn permission_request_before_session_is_asked() {
    let mut player = Player::new(params());
    player.hear(&initialized(json!({})).to_string());
    player.sent();
    player.hear(&permission(json!(7), &["allow_once", "reject_once"]));
    let (key, _) = player.asked.remove(0);
    player.connection.answer(key, &Answer::Approval(Approval::Approve), player.now);
    player.look();
    assert_eq!(player.sent()[0]["result"]["outcome"]["optionId"], "allow_once");
    player.hear(&answer(1, json!({"sessionId": "s"})));
    assert_eq!(player.trace.last().map(String::as_str), Some("opened s"));
}

#[test]
fn request_without_id_is_an_event() {
    let mut player = prompted();
    player.hear(&permission(Value::Null, &["allow_once"]));
    assert_eq!(
        (player.trace.last().map(String::as_str), player.asked.len()),
        (Some("unknown session/request_permission"), 0)
    );
    assert!(player.sent().is_empty());
}
