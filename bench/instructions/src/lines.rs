//! What an agent says, spelled as kimi-cli 1.49 spells it or, `compact` being false, with spaces.

use serde_json::{Value, json};

pub(crate) const WELCOME: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"initialize-1","result":{"protocol_version":"1.10","#,
    r#""server":{"name":"Agent","version":"1"},"slash_commands":[]}}"#,
    "\n"
);
pub(crate) const BEGIN: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"event","params":{"type":"TurnBegin","payload":{"user_input":"go"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"event","params":{"type":"StepBegin","payload":{"n":1}}}"#,
    "\n"
);

fn event(kind: &str, payload: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}})
}

pub(crate) fn text(n: usize) -> Value {
    event("ContentPart", &json!({"type": "text", "text": format!(" word{}", n % 1000)}))
}

pub(crate) fn tool_call(n: usize) -> Value {
    event(
        "ToolCall",
        &json!({"type": "function", "id": format!("call_{n:08}"),
            "function": {"name": "Shell", "arguments": "{\"command\":"}, "extras": null}),
    )
}

pub(crate) fn tool_call_part() -> Value {
    event("ToolCallPart", &json!({"arguments_part": "\"ls -la\"}"}))
}

pub(crate) fn tool_result(n: usize) -> Value {
    event(
        "ToolResult",
        &json!({"tool_call_id": format!("call_{n:08}"), "return_value": {
            "is_error": false, "output": "total 12\ndrwxr-xr-x 2 user user 4096 src\n", "message": "done",
            "display": [], "extras": null,
        }}),
    )
}

pub(crate) fn status(n: usize) -> Value {
    event(
        "StatusUpdate",
        &json!({"context_usage": 0.25, "context_tokens": 25000, "max_context_tokens": 100_000, "token_usage": {
            "input_other": 10, "output": 20, "input_cache_read": 30, "input_cache_creation": 0,
        }, "message_id": format!("chatcmpl-{n}"), "plan_mode": false, "mcp_status": null}),
    )
}

fn acp_update(update: &Value) -> Value {
    let params = json!({"sessionId": "session-1", "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
}

pub(crate) fn acp_text(n: usize) -> Value {
    let content = json!({"type": "text", "text": format!(" word{}", n % 1000)});
    acp_update(&json!({"sessionUpdate": "agent_message_chunk", "content": content}))
}

pub(crate) fn turn_end() -> Value {
    event("TurnEnd", &json!({}))
}

pub(crate) fn finished(id: &Value) -> String {
    spelled(&json!({"jsonrpc": "2.0", "id": id, "result": {"status": "finished"}}), true)
}

pub(crate) fn approval(n: usize) -> String {
    let id = format!("00000000-0000-4000-8000-{n:012}");
    let payload = json!({"id": id, "tool_call_id": format!("call_{n}"), "sender": "Shell", "action": "run command",
        "description": "Run command `ls -la`", "source_kind": "foreground_turn",
        "source_id": "00000000000000000000000000000003", "agent_id": null, "subagent_type": null,
        "source_description": null, "display": [{"type": "shell", "language": "bash", "command": "ls -la"}]});
    let params = json!({"type": "ApprovalRequest", "payload": payload});
    spelled(&json!({"jsonrpc": "2.0", "method": "request", "id": id, "params": params}), true)
}

/// A turn's events, mixed as in a real one: of twenty, seventeen are short texts.
pub(crate) fn turn(events: usize, compact: bool) -> Vec<u8> {
    let event = |n: usize| match n % 20 {
        5 => tool_call(n / 20),
        6 => tool_call_part(),
        12 if n % 40 < 20 => tool_result(n / 20),
        12 => status(n),
        _ => text(n),
    };
    (0..events).map(|n| spelled(&event(n), compact)).collect::<String>().into_bytes()
}

/// A line.
pub(crate) fn spelled(value: &Value, compact: bool) -> String {
    let mut line = String::new();
    spell(value, compact, &mut line);
    line + "\n"
}

/// As Python's `json.dumps` does it, with or without its spaces.
fn spell(value: &Value, compact: bool, out: &mut String) {
    let (comma, colon) = if compact { (",", ":") } else { (", ", ": ") };
    match value {
        Value::Object(fields) => {
            out.push('{');
            for (at, (key, value)) in fields.iter().enumerate() {
                out.push_str(if at > 0 { comma } else { "" });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(colon);
                spell(value, compact, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { comma } else { "" });
                spell(item, compact, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}
