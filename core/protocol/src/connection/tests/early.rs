//! Results before their calls, and calls that are described after their end.

use super::*;

fn call(id: &str, name: &str, arguments: &Value) -> Value {
    json!({"type": "function", "id": id, "function": {"name": name, "arguments": arguments}})
}

fn tool_result(id: &str, output: &str) -> Value {
    json!({"tool_call_id": id, "return_value": {"is_error": false, "output": output, "message": ""}})
}

/// The calls of a turn with these events: name, arguments, output, whether it failed.
fn calls_of(events: &[(&str, Value)]) -> Vec<Value> {
    let mut peer = Peer::open();
    peer.prompt(1);
    for (kind, payload) in events {
        peer.event(kind, payload);
    }
    peer.finish();
    let result = std::iter::from_fn(|| peer.next_output()).find_map(|output| match output {
        Output::TurnEnded { outcome, .. } => Some(outcome.expect("a result")),
        _ => None,
    });
    let calls = result.expect("an end").tool_calls;
    calls.iter().map(|call| json!([call.name, call.arguments, call.output, call.is_error])).collect()
}

#[test]
fn result_before_its_call_is_its_output() {
    let early = ("ToolResult", tool_result("a", "out"));
    let begun = ("ToolCall", call("a", "Shell", &json!("{\"x\":")));
    let rest = ("ToolCallPart", json!({"arguments_part": "1}"}));
    let expected = json!(["Shell", {"x": 1}, "out", false]);
    assert_eq!(calls_of(&[early.clone(), begun.clone(), rest.clone()]), [expected]);
    // A later result of the call has precedence.
    let later = ("ToolResult", tool_result("a", "later"));
    let expected = json!(["Shell", {"x": 1}, "later", false]);
    assert_eq!(calls_of(&[early.clone(), begun.clone(), rest.clone(), later]), [expected]);
    // A second result of a call says nothing about the next call with its id.
    let whole = ("ToolCall", call("a", "Shell", &json!({"x": 1})));
    let first = json!(["Shell", {"x": 1}, "out", false]);
    let second = json!(["Shell", {"x": 1}, null, null]);
    assert_eq!(calls_of(&[whole.clone(), early.clone(), early.clone(), whole]), [first, second]);
    assert!(calls_of(&[early]).is_empty());
}

#[test]
fn late_description_completes_its_call() {
    let unnamed = ("ToolCall", call("a", "", &json!("")));
    let ended = ("ToolResult", tool_result("a", "out"));
    let mut late = call("a", "Shell", &json!({"x": 1}));
    late["late"] = json!(true);
    let expected = json!(["Shell", {"x": 1}, "out", false]);
    assert_eq!(calls_of(&[unnamed, ended, ("ToolCall", late.clone())]), [expected]);
    assert!(calls_of(&[("ToolCall", late)]).is_empty());
}
