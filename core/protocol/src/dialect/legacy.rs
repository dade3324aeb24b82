//! The protocol of kimi-cli 0.52 to 0.58, before Wire 1.0: `run` and `interrupt`, event types in snake_case, no
//! handshake, other error codes. During a run such an agent reads nothing. It cannot be cancelled, and an approval
//! would deadlock it, so a session needs `yolo`.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Answer, Call, Capabilities, Dialect, Handshake, Incoming, wire};
use crate::answers::Approval;
use crate::error::{Error, Result, RpcErrorKind};
use crate::json::borrowed;
use crate::jsonrpc::{self, Message, RpcFailure};
use crate::messages::{BriefDisplayBlock, Content, ContentPart, Event, Json, ServerInfo, ToolResult, ToolReturnValue};
use crate::resource::as_texts;

/// The protocol's name where a version is asked for.
const NAME: &str = "legacy";

/// The legacy protocol.
#[derive(Debug)]
pub struct Legacy {
    server: Option<ServerInfo>,
}

impl Legacy {
    /// Makes the dialect. `server` is the output of the executable's `--version`, if it was run.
    pub fn new(server: Option<ServerInfo>) -> Self {
        Self { server }
    }

    fn unsupported(&self, feature: &str) -> Error {
        super::unsupported(self.server.as_ref(), NAME, feature)
    }
}

/// The canonical names of types. Types of 1.0 and later are in CamelCase.
fn canonical(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "step_begin" => "StepBegin",
        "step_interrupted" => "StepInterrupted",
        "compaction_begin" => "CompactionBegin",
        "compaction_end" => "CompactionEnd",
        "status_update" => "StatusUpdate",
        "content_part" => "ContentPart",
        "tool_call" => "ToolCall",
        "tool_call_part" => "ToolCallPart",
        "subagent_event" => "SubagentEvent",
        "approval" => "ApprovalRequest",
        _ => return None,
    })
}

fn decode(kind: &str, payload: &str) -> Event {
    match (kind, canonical(kind)) {
        ("tool_result", _) => match tool_result(payload) {
            Ok(result) => result.into(),
            Err(error) => Event::undecoded("tool_result", payload, error),
        },
        ("subagent_event", _) => match modern_subagent(payload) {
            Ok(modern) => Event::decode("SubagentEvent", modern.get()),
            Err(error) => Event::undecoded("subagent_event", payload, error),
        },
        (_, Some(known)) => Event::decode(known, payload),
        (_, None) => Event::decode(kind, payload),
    }
}

/// `{tool_call_id, ok, result: {output, message, brief}}`; the output may be text, parts, or any object.
fn tool_result(payload: &str) -> std::result::Result<ToolResult, String> {
    #[derive(serde::Deserialize)]
    struct Body {
        output: Value,
        #[serde(default)]
        message: String,
        #[serde(default)]
        brief: String,
    }
    #[derive(serde::Deserialize)]
    struct Legacy {
        tool_call_id: String,
        ok: bool,
        result: Json,
    }
    if payload.starts_with('[') {
        return Err("a list, not an object".to_owned());
    }
    let legacy: Legacy = crate::messages::decode_body(payload)?;
    let result: Body = borrowed(legacy.result.get()).map_err(|error| format!("result: {error}"))?;
    let output = match result.output {
        Value::Null => Content::from(""),
        Value::String(text) => text.into(),
        Value::Array(parts) => match serde_json::from_value::<Vec<Value>>(Value::Array(parts.clone()))
            .ok()
            .and_then(|parts| parts.into_iter().map(|part| serde_json::from_value::<ContentPart>(part).ok()).collect())
        {
            Some(parts) => Content::Parts(parts),
            None => Value::Array(parts).to_string().into(),
        },
        other => other.to_string().into(),
    };
    let brief = Some(result.brief).filter(|brief| !brief.is_empty());
    let return_value = ToolReturnValue {
        is_error: !legacy.ok,
        output,
        message: result.message,
        display: brief.map(|text| BriefDisplayBlock { text, extra: Default::default() }.into()).into_iter().collect(),
        extras: None,
        extra: Default::default(),
    };
    Ok(ToolResult {
        tool_call_id: legacy.tool_call_id,
        return_value,
        extra: Default::default(),
        tool_call: Default::default(),
    })
}

/// The event inside has the legacy form, too.
fn modern_subagent(payload: &str) -> std::result::Result<Json, String> {
    #[derive(serde::Deserialize)]
    struct Inner<'a> {
        #[serde(borrow, rename = "type")]
        kind: std::borrow::Cow<'a, str>,
        #[serde(borrow, default)]
        payload: Option<&'a RawValue>,
    }
    let mut body: Map<String, Value> = crate::messages::decode_body(payload)?;
    let inner = body.remove("event").ok_or("event: missing")?.to_string();
    let inner: Inner<'_> = borrowed(&inner).map_err(|error| format!("event: {error}"))?;
    let event = decode(&inner.kind, inner.payload.map_or("null", RawValue::get));
    if let Some(id) = body.remove("task_tool_call_id") {
        body.insert("parent_tool_call_id".to_owned(), id);
    }
    body.insert("event".to_owned(), json!(event));
    Ok(Value::Object(body).into())
}

impl Dialect for Legacy {
    fn id(&self) -> &'static str {
        "legacy"
    }

    fn implicit_handshake(&mut self) -> Option<Handshake> {
        Some(Handshake {
            protocol_version: NAME.to_owned(),
            server: self.server.clone(),
            capabilities: Capabilities::default(),
            ..Handshake::default()
        })
    }

    fn reports_turn_begin(&self) -> bool {
        false
    }

    fn missing(&self, call: &Call) -> Option<Error> {
        (!Capabilities::default().has(call)).then(|| self.unsupported(call.name()))
    }

    fn call(&mut self, id: &str, call: &Call) -> Result<Vec<u8>> {
        Ok(match call {
            Call::Prompt(input) => {
                let input = as_texts(input).map_err(|what| self.unsupported(&format!("prompts with {what}")))?;
                let only_text = match &*input {
                    Content::Text(_) => true,
                    Content::Parts(parts) => parts.iter().all(|part| matches!(part, ContentPart::Text(_))),
                };
                if !only_text {
                    return Err(self.unsupported("prompts of anything but text"));
                }
                jsonrpc::request(id, "run", &json!({"input": input.text()}))
            }
            Call::Cancel => jsonrpc::request(id, "interrupt", &json!({})),
            other => return Err(self.unsupported(other.name())),
        })
    }

    fn is_text_stateless(&self) -> bool {
        true
    }

    fn read(&mut self, message: Message<'_>) -> Incoming {
        wire::read_with(message, |kind, payload| {
            let mut event = decode(kind, payload);
            wire::read_other_forms(&mut event);
            event
        })
    }

    fn answer(&mut self, rpc_id: &str, _request_id: &str, answer: &Answer) -> Vec<u8> {
        // Such an agent requests only approvals. It treats any other answer as a rejection.
        let response = match answer {
            Answer::Approval(Approval::Approve) => "approve",
            Answer::Approval(Approval::ApproveForSession) => "approve_for_session",
            _ => "reject",
        };
        jsonrpc::answer(rpc_id, &json!({"response": response}))
    }

    fn refuse(&mut self, rpc_id: &str, code: i64, message: &str) -> Vec<u8> {
        jsonrpc::refusal(rpc_id, &RpcFailure { code, message: message.to_owned(), data: None })
    }

    fn finish_handshake(&mut self, _outcome: std::result::Result<Json, RpcFailure>) -> Result<Handshake> {
        Err(Error::Handshake("the legacy protocol has no handshake".to_owned()))
    }

    fn map_error_code(&self, call: &Call, code: i64) -> RpcErrorKind {
        match (code, call) {
            (-32000, Call::Prompt(_)) => RpcErrorKind::TurnInProgress,
            (-32001, _) => RpcErrorKind::LlmNotSet,
            // Swapped in 1.0.
            (-32002, _) => RpcErrorKind::LlmServiceError,
            (-32003, _) => RpcErrorKind::LlmNotSupported,
            _ => RpcErrorKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, payload: Value) -> Value {
        let line = json!({"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}});
        match Legacy::new(None).read_line(line.to_string().as_bytes()) {
            Incoming::Event(event) => json!(event),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn events_are_read_as_their_successors() {
        assert_eq!(read("step_begin", json!({"n": 2})), json!({"type": "StepBegin", "payload": {"n": 2}}));
        assert_eq!(
            read(
                "tool_result",
                json!({"tool_call_id": "t", "ok": false, "result": {
                "output": "out", "message": "failed", "brief": "exit 3"}})
            ),
            json!({"type": "ToolResult", "payload": {"tool_call_id": "t", "return_value": {
                "is_error": true, "output": "out", "message": "failed",
                "display": [{"type": "brief", "text": "exit 3"}]}}}),
        );
        assert_eq!(
            read(
                "tool_result",
                json!({"tool_call_id": "t", "ok": true, "result": {
                "output": [{"type": "text", "text": "a"}], "message": "", "brief": ""}})
            )["payload"]["return_value"],
            json!({"is_error": false, "output": [{"type": "text", "text": "a"}], "message": "", "display": []}),
        );
        assert_eq!(
            read(
                "subagent_event",
                json!({"task_tool_call_id": "t", "event":
                {"type": "subagent_event", "payload": {"task_tool_call_id": "u", "event":
                    {"type": "content_part", "payload": {"type": "text", "text": "deep"}}}}})
            ),
            json!({"type": "SubagentEvent", "payload": {"parent_tool_call_id": "t", "event":
                {"type": "SubagentEvent", "payload": {"parent_tool_call_id": "u", "event":
                    {"type": "ContentPart", "payload": {"type": "text", "text": "deep"}}}}}}),
        );
    }

    #[test]
    fn unreadable_line_is_kept() {
        let event = read("tool_result", json!({"tool_call_id": "t", "ok": "perhaps", "result": {"output": ""}}));
        assert_eq!(event["payload"]["type"], "tool_result");
        assert!(event["payload"]["error"].as_str().is_some_and(|error| error.starts_with("ok:")), "{event}");
        assert_eq!(read("novelty", json!({}))["payload"]["type"], "novelty");
        for list in [json!(["t", true, {"output": ""}]), json!({"tool_call_id": "t", "ok": true, "result": ["out"]})] {
            let error = &read("tool_result", list)["payload"]["error"];
            assert!(error.as_str().is_some_and(|error| error.ends_with("a list, not an object")), "{error}");
        }
    }

    #[test]
    fn legacy_error_codes_map_to_kinds() {
        let legacy = Legacy::new(None);
        let prompt = Call::Prompt("x".into());
        assert_eq!(legacy.map_error_code(&prompt, -32002), RpcErrorKind::LlmServiceError);
        assert_eq!(legacy.map_error_code(&prompt, -32003), RpcErrorKind::LlmNotSupported);
        assert_eq!(legacy.map_error_code(&prompt, -32099), RpcErrorKind::Other);
    }

    #[test]
    fn unsupported_calls_are_refused_by_name() {
        let server = ServerInfo { name: "kimi-cli".into(), version: "0.58".into(), extra: Default::default() };
        let error = Legacy::new(Some(server)).call("1", &Call::Steer("x".into())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kimi-cli 0.58 (Wire legacy) does not support `steer`, which came with Wire 1.4; check \
             `session.capabilities.steer` before, or use a newer agent"
        );
        let image = Content::from(ContentPart::image_url("data:,"));
        assert_eq!(Legacy::new(None).call("1", &Call::Prompt(image)).unwrap_err().code(), "unsupported");
    }
}
