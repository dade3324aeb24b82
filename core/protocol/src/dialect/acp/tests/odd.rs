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
        // These say nothing new.
        (json!({"content": text("a")}), json!({"status": "completed", "content": text("a")}), false),
        (json!({"content": text("a")}), json!({"status": "completed", "rawOutput": {"output": "a"}}), false),
        (json!({"content": diff}), json!({"content": diff}), false),
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
        ("MAX_TOKENS", "truncated", "cancelled"),
        ("length", "truncated", "cancelled"),
        ("content_filter", "refused", "cancelled"),
        ("canceled", "cancelled", "cancelled"),
        ("interrupted", "cancelled", "cancelled"),
        ("error", "rpc_error", "cancelled"),
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
