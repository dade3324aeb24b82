//! Messages that the guard writes itself: errors for both sides, and notes for the user.

use kimi_agent_protocol::jsonrpc::{self, RpcFailure};
use kimi_agent_protocol::printable::printable_line;
use serde_json::{Value, json};

/// The code of an internal error.
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const INVALID_PARAMS: i64 = -32602;

/// The ids of the options of the guard's own requests.
pub(crate) const ALLOW: &str = "allow";
const REJECT: &str = "reject";

/// The limit of a text for the user, in characters.
const MAX_TEXT: usize = 2000;

/// Returns an error as the answer to a request. The id is JSON text.
pub(crate) fn error(id: &str, code: i64, message: &str) -> Vec<u8> {
    jsonrpc::refusal(id, &RpcFailure { code, message: format!("kimi-agent proxy: {message}"), data: None })
}

/// Returns the answer that cancels a permission request.
pub(crate) fn cancelled(id: &str) -> Vec<u8> {
    jsonrpc::answer(id, &json!({"outcome": {"outcome": "cancelled"}}))
}

/// Returns a note for the user. Clients that show no notices get it as text of the agent.
pub(crate) fn note(session: &str, text: &str, shows_notices: bool) -> Vec<u8> {
    let text: String = printable_line(text).chars().take(MAX_TEXT).collect();
    let meta = json!({"kimi-agent": {"proxy": true}});
    let update = if shows_notices {
        json!({"sessionUpdate": "notice", "severity": "warning", "title": "kimi-agent proxy", "description": text,
            "_meta": meta})
    } else {
        let content = json!({"type": "text", "text": format!("\n\n> **kimi-agent proxy:** {text}\n\n")});
        json!({"sessionUpdate": "agent_message_chunk", "content": content, "_meta": meta})
    };
    jsonrpc::notification("session/update", &json!({"sessionId": session, "update": update}))
}

/// Returns a permission request of the guard about a request of the agent.
pub(crate) fn permission(id: &str, session: &str, title: &str, kind: &str, arguments: &Value) -> Vec<u8> {
    let title: String = printable_line(title).chars().take(MAX_TEXT).collect();
    let call = json!({"toolCallId": id, "title": title, "kind": kind, "status": "pending", "rawInput": arguments});
    let options = json!([
        {"optionId": ALLOW, "name": "Allow", "kind": "allow_once"},
        {"optionId": REJECT, "name": "Reject", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": session, "toolCall": call, "options": options});
    jsonrpc::request(id, "session/request_permission", &params)
}

/// Returns the notice that a request of the guard needs no answer any more.
pub(crate) fn withdrawn(id: &str) -> Vec<u8> {
    jsonrpc::notification("$/cancel_request", &json!({"requestId": id}))
}

/// An answer in place of one that is refused, so that the other side does not wait for it.
pub(crate) fn refused_answer(id: &str, reason: &str) -> Vec<u8> {
    error(id, INTERNAL_ERROR, &format!("the answer is refused: {reason}"))
}
