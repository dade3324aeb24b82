//! Approvals that show something: all of it is decided about.

use super::*;
use crate::messages::{PolicyDecision, PolicyOutcome, ToolCallInfo};

/// Denies what names `/etc`, `evil.com` or `rm`, allows other calls with known arguments, and asks about the rest.
#[derive(Debug)]
struct Rules;

impl ToolRules for Rules {
    fn decide(&self, call: &ToolCallInfo, _: &str) -> PolicyDecision {
        const KNOWN: [&str; 9] =
            ["path", "content", "command", "url", "method", "operation", "language", "summary", "before"];
        let text = json!([call.arguments, call.diffs]).to_string();
        let known = |arguments: &serde_json::Map<String, Value>| arguments.keys().all(|name| KNOWN.contains(&&**name));
        let decision = match &call.arguments {
            _ if ["/etc", "evil.com", "rm"].iter().any(|denied| text.contains(denied)) => PolicyOutcome::Deny,
            Some(arguments) if !arguments.is_empty() && known(arguments) => PolicyOutcome::Allow,
            _ => PolicyOutcome::Ask,
        };
        let (tool_call, extra) = (call.clone(), Default::default());
        PolicyDecision { tool_call, decision, rule: None, source: None, reason: None, part: None, extra }
    }
}

/// Returns the decision about a call with these arguments whose approval shows this, and the blocks that a handler gets.
fn decided(tool: &str, arguments: &Value, display: &Value) -> (String, Value) {
    let mut player = Player::prompted_with(Some(Arc::new(Box::new(Rules))));
    let piece = json!({"turnId": 0, "toolCallId": "c", "name": tool, "argumentsPart": arguments.to_string()});
    player.frame("tool.call.delta", piece);
    player.frame(
        "event.approval.requested",
        json!({"approval_id": "a", "turn_id": 0, "tool_call_id": "c", "tool_name": tool, "action": "Go", "tool_input_display": display}),
    );
    let sent = player.sent();
    let answer = sent.first().map(|line| line["params"]["decision"].as_str().unwrap_or_default().to_owned());
    let blocks = match player.asked.pop() {
        Some((_, Event::ApprovalRequest(request))) => json!(request.display),
        _ => Value::Null,
    };
    (answer.unwrap_or_else(|| "asked".to_owned()), blocks)
}

#[test]
fn everything_that_is_shown_is_decided() {
    let write = |more: Value| {
        let mut display = json!({"kind": "file_io", "operation": "write", "path": "/etc/passwd"});
        display.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        display
    };
    let file = || json!({"path": "a.py", "content": "x"});
    for (display, expected) in [
        (write(json!({"path": "a.py", "content": "x"})), "approved"),
        (write(json!({"path": "a.py"})), "approved"),
        (write(json!({"content": "x"})), "rejected"),
        (write(json!({})), "rejected"),
        (write(json!({"content": 7})), "rejected"),
        (write(json!({"path": ["/etc/passwd"], "content": "x"})), "rejected"),
        (write(json!({"path": {"file": "/etc/passwd"}})), "rejected"),
        (write(json!({"path": "a.py", "content": "x", "target": "b.py"})), "asked"),
        (write(json!({"kind": "new"})), "rejected"),
        (write(json!({"kind": 7})), "rejected"),
        (write(json!({"operation": "read"})), "rejected"),
        (json!({"kind": "diff", "path": "a.py", "before": "a", "after": "b", "hunks": 1}), "approved"),
        (json!({"kind": "diff", "path": "/etc/passwd", "before": "a", "after": "b"}), "rejected"),
        (json!({"kind": "diff", "path": "/etc/passwd"}), "rejected"),
        (json!({"kind": "generic", "summary": "Write", "detail": file()}), "approved"),
        (json!({"kind": "generic", "summary": "Write", "detail": {"path": "/etc/passwd"}}), "rejected"),
        (json!({"kind": "generic", "summary": "Write", "detail": "b.py"}), "asked"),
        (json!("write /etc/passwd"), "rejected"),
        (json!("write b.py"), "asked"),
        (json!([{"kind": "file_io", "path": "b.py"}]), "asked"),
        (json!({"kind": "plan_review", "plan": "p", "path": "/etc/passwd"}), "rejected"),
        (json!({}), "approved"),
        (json!(null), "approved"),
    ] {
        assert_eq!(decided("Write", &file(), &display).0, expected, "{display}");
    }
    for (display, expected) in [
        (json!({"kind": "command", "command": "ls"}), "approved"),
        (json!({"kind": "command", "command": "rm -rf /"}), "rejected"),
        (json!({"kind": "command", "command": ["rm", "-rf", "/"]}), "rejected"),
        (json!({"kind": "command", "command": "ls", "env": {"A": "b"}}), "asked"),
        (json!("rm -rf /"), "rejected"),
    ] {
        assert_eq!(decided("Bash", &json!({"command": "ls"}), &display).0, expected, "{display}");
    }
    for (display, expected) in [
        (json!({"kind": "url_fetch", "url": "https://example.com/", "method": "GET"}), "approved"),
        (json!({"kind": "url_fetch", "url": "https://evil.com/"}), "rejected"),
        (json!({"kind": "url_fetch", "url": ["https://evil.com/"]}), "rejected"),
        (json!({"kind": "url_fetch", "address": "https://example.org/"}), "asked"),
    ] {
        assert_eq!(decided("FetchURL", &json!({"url": "https://example.com/"}), &display).0, expected, "{display}");
    }
}

#[test]
fn handler_sees_everything_that_is_shown() {
    let shown = |display: Value| decided("Other", &json!({"unknown": 1}), &display).1;
    let diff = |old: &str, new: &str| json!({"type": "diff", "path": "a", "old_text": old, "new_text": new});
    for (display, expected) in [
        (json!({"kind": "diff", "path": "a", "before": "b", "after": "c"}), json!([diff("b", "c")])),
        (
            json!({"kind": "file_io", "operation": "edit", "path": "a"}),
            json!([{"type": "diff", "path": "a", "old_text": "", "new_text": "", "is_summary": true}]),
        ),
        (
            json!({"kind": "file_io", "operation": "write", "path": ["a"], "content": "b"}),
            json!([{"type": "file_io", "operation": "write", "path": ["a"], "content": "b"}]),
        ),
        (json!({"kind": "command", "command": ["a", "b"]}), json!([{"type": "command", "command": ["a", "b"]}])),
        (json!({"kind": "url_fetch", "url": "b"}), json!([{"type": "url_fetch", "url": "b"}])),
        (json!({"path": "a"}), json!([{"path": "a"}])),
        (json!("a"), json!([{"display": "a"}])),
        (json!(["a"]), json!([{"display": ["a"]}])),
        (json!({}), json!([])),
    ] {
        assert_eq!(shown(display.clone()), expected, "{display}");
    }
}
