//! Calls that the agent announces or describes after their first update, or after their end.

use super::*;

/// The calls of a turn with these updates: name, arguments, output, whether it failed; and the results' `extras`.
fn played(updates: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let mut player = prompted();
    let mut extras = Vec::new();
    for update in updates {
        let mut update = update.clone();
        update["toolCallId"] = json!("a");
        let params = json!({"sessionId": "s", "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string();
        player.connection.handle_line(line.as_bytes(), player.now);
        while let Some(output) = player.connection.poll_output() {
            if let Output::Event { event, .. } = output
                && let Event::ToolResult(result) = *event
            {
                extras.push(json!(result.return_value.extras));
            }
        }
    }
    player.connection.handle_line(answer(2, json!({"stopReason": "end_turn"})).as_bytes(), player.now);
    let mut calls = Vec::new();
    while let Some(output) = player.connection.poll_output() {
        if let Output::TurnEnded { outcome, .. } = output {
            let result = outcome.expect("a result");
            calls.extend(
                result.tool_calls.iter().map(|call| json!([call.name, call.arguments, call.output, call.is_error])),
            );
        }
    }
    (calls, extras)
}

fn announced(more: Value) -> Value {
    with(json!({"sessionUpdate": "tool_call", "title": "run tests", "kind": "execute"}), more)
}

fn updated(more: Value) -> Value {
    with(json!({"sessionUpdate": "tool_call_update"}), more)
}

fn with(mut update: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more}") };
    update.as_object_mut().expect("an object").extend(more);
    update
}

fn shown(text: &str) -> Value {
    json!([{"type": "content", "content": {"type": "text", "text": text}}])
}

#[test]
fn announcement_after_update_names_its_call() {
    let ended = updated(json!({"status": "completed", "content": shown("out")}));
    let input = json!({"rawInput": {"c": 1}});
    let (calls, _) = played(&[updated(json!({"status": "in_progress"})), announced(input.clone()), ended.clone()]);
    assert_eq!(calls, [json!(["run tests", {"c": 1}, "out", false])]);
    // A title of an update is the name. The title of the announcement is that of the result.
    let (calls, extras) = played(&[updated(json!({"title": "one"})), announced(input), ended]);
    assert_eq!(calls, [json!(["one", {"c": 1}, "out", false])]);
    assert_eq!(extras[0]["title"], "run tests");
}

#[test]
fn description_after_end_makes_no_second_call() {
    let ended = updated(json!({"status": "completed", "content": shown("out")}));
    let input = json!({"rawInput": {"c": 1}});
    let whole = json!(["run tests", {"c": 1}, "out", false]);
    let (calls, _) = played(&[ended.clone(), announced(input.clone())]);
    assert_eq!(calls, std::slice::from_ref(&whole));
    let (calls, _) = played(&[announced(json!({})), ended.clone(), updated(input.clone())]);
    assert_eq!(calls, std::slice::from_ref(&whole));
    // Other arguments are those of another call.
    let (calls, _) = played(&[announced(input.clone()), ended.clone(), updated(json!({"rawInput": {"c": 2}}))]);
    assert_eq!(calls, [whole.clone(), json!(["run tests", {"c": 2}, null, null])]);
    let (calls, _) =
        played(&[announced(input.clone()), ended.clone(), announced(json!({"rawInput": {"c": 2}})), ended]);
    assert_eq!(calls, [whole, json!(["run tests", {"c": 2}, "out", false])]);
}

#[test]
fn raw_output_beside_content_is_kept() {
    let end = |raw: Value| updated(json!({"status": "failed", "content": shown("see output"), "rawOutput": raw}));
    let (calls, extras) = played(&[announced(json!({})), end(json!({"stderr": "SEGFAULT"}))]);
    assert_eq!(calls, [json!(["run tests", null, "see output", true])]);
    assert_eq!(extras[0]["rawOutput"], json!({"stderr": "SEGFAULT"}));
    let (_, extras) = played(&[announced(json!({})), end(json!("see output"))]);
    assert_eq!(extras[0].get("rawOutput"), None);
}
