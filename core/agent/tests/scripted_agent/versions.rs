//! One script, spoken as each version.

use serde_json::{Value, json};

use super::client::Client;

fn script(wire: u32) -> Value {
    json!({"wire": format!("1.{wire}"), "turns": [[
        {"text": "a"},
        {"usage": {"output": 1}, "context_tokens": 5, "plan_mode": false,
            "mcp_status": {"loading": false, "connected": 0, "total": 0, "tools": 0, "servers": []}},
        {"tool_call": {"id": "t", "name": "Shell", "approve": {"id": "ap", "source_kind": "foreground_turn"}, "result": "x"}},
        {"event": {"type": "SubagentEvent", "payload": {"parent_tool_call_id": "t", "agent_id": "a",
            "event": {"type": "ApprovalResponse", "payload": {"request_id": "r", "response": "approve"}}}}},
        {"event": {"type": "MCPLoadingBegin"}},
        {"event": {"type": "Notification", "payload": {"id": "n"}}},
        {"event": {"type": "PlanDisplay", "payload": {"content": "", "file_path": ""}}},
        {"event": {"type": "BtwBegin", "payload": {"id": "b", "question": "q"}}},
        {"event": {"type": "StepRetry", "payload": {"n": 1}}},
        {"event": {"type": "StepRetry", "payload": {"n": 2}}, "verbatim": true},
        {"question": {"questions": [{"question": "Q?", "options": ["A"]}]}},
        {"external_tool": {"name": "open"}},
    ]]})
}

/// Everything the client gets, as messages.
fn conversation(wire: u32) -> (Value, Vec<Value>) {
    let mut client = Client::start(script(wire), &[]);
    let hello = client.initialize(json!({
        "external_tools": [{"name": "open", "description": "", "parameters": {}}],
        "hooks": [{"id": "h", "event": "Stop"}],
    }));
    let id = client.prompt("go");
    let mut all = Vec::new();
    loop {
        let message = client.read();
        let payload = &message["params"]["payload"];
        let answer = match message["params"]["type"].as_str() {
            Some("ApprovalRequest") => json!({"request_id": payload["id"], "response": "approve"}),
            Some("QuestionRequest") => json!({"request_id": payload["id"], "answers": {}}),
            Some("HookRequest") => json!({"request_id": payload["id"], "action": "allow", "reason": ""}),
            Some("ToolCallRequest") => json!({"tool_call_id": payload["id"],
                "return_value": {"is_error": false, "output": "", "message": "", "display": []}}),
            _ => Value::Null,
        };
        if message["method"] == "request" {
            client.answer(&message["id"], answer);
        }
        let last = message["id"] == *id;
        all.push(message);
        if last {
            return (hello, all);
        }
    }
}

#[test]
fn versions_offer_exactly_their_features() {
    for wire in 0..=10 {
        let (hello, all) = conversation(wire);
        let payloads = |kind: &str| -> Vec<&Value> {
            all.iter().map(|message| &message["params"]).filter(|params| params["type"] == kind).collect()
        };
        let has = |kind: &str| !payloads(kind).is_empty();
        let field = |kind: &str, path: &str| payloads(kind)[0]["payload"].pointer(path).is_some();
        let check = |what: &str, there: bool, since: u32| assert_eq!(there, wire >= since, "{what} in 1.{wire}");

        if wire == 0 {
            assert_eq!(hello["code"], -32601);
        } else {
            assert_eq!(hello["protocol_version"], format!("1.{wire}"));
        }
        check("external_tools", hello.get("external_tools").is_some(), 1);
        check("ToolCallRequest", has("ToolCallRequest"), 1);
        check("ApprovalResponse", has("ApprovalResponse"), 1);
        assert_eq!(has("ApprovalRequestResolved"), wire == 0);
        check("TurnEnd", has("TurnEnd"), 2);
        check("MCPLoadingBegin", has("MCPLoadingBegin"), 3);
        check("context_tokens", field("StatusUpdate", "/context_tokens"), 3);
        check("capabilities", hello.get("capabilities").is_some(), 4);
        check("QuestionRequest", has("QuestionRequest"), 4);
        check("plan_mode", field("StatusUpdate", "/plan_mode"), 4);
        check("Notification", has("Notification"), 5);
        check("mcp_status", field("StatusUpdate", "/mcp_status"), 5);
        check("source_kind", field("ApprovalRequest", "/source_kind"), 6);
        check("parent_tool_call_id", field("SubagentEvent", "/parent_tool_call_id"), 6);
        check("agent_id", field("SubagentEvent", "/agent_id"), 6);
        assert_eq!(field("SubagentEvent", "/task_tool_call_id"), wire < 6);
        check("PlanDisplay", has("PlanDisplay"), 7);
        check("hooks", hello.get("hooks").is_some(), 8);
        check("HookRequest", has("HookRequest") && has("HookTriggered") && has("HookResolved"), 8);
        check("BtwBegin", has("BtwBegin"), 9);
        assert_eq!(payloads("StepRetry").len(), if wire == 10 { 2 } else { 1 }, "one is verbatim");
        assert_eq!(all.last().expect("an answer")["result"]["status"], "finished");
    }
}

#[test]
fn feedback_is_used_from_1_6() {
    for (wire, goes_on) in [("1.5", false), ("1.6", true)] {
        let script =
            json!({"wire": wire, "turns": [[{"tool_call": {"name": "Shell", "approve": true}}, {"text": "on"}]]});
        let mut client = Client::open(script);
        let id = client.prompt("go");
        let told = client.answering(&id, |params| {
            Some(json!({"request_id": params["payload"]["id"], "response": "reject", "feedback": "no"}))
        });
        assert_eq!(told.contains(&"ContentPart on".to_owned()), goes_on, "{wire}: {told:?}");
    }
}

#[test]
fn late_1_3_release_supports_steer() {
    let turn = json!([{"question": {"questions": [{"question": "Q?", "options": []}]}}, {"wait_steer": true}]);
    let mut client = Client::open(json!({"wire": "1.3", "steer": true, "questions": true, "turns": [turn]}));
    let id = client.prompt("go");
    let request = client.read_until("QuestionRequest");
    client.answer(&request["id"], json!({"answers": {}}));
    client.call("steer", json!({"user_input": "x"}));
    let told = client.rest(&id);
    assert!(told.contains(&"= {\"status\":\"steered\"}".to_owned()), "{told:?}");
    assert!(!told.iter().any(|line| line.starts_with("SteerInput")), "{told:?}");
}

#[test]
fn first_releases_may_be_silent() {
    let mut client = Client::start(json!({"wire": "1.0", "silent_errors": true, "turns": [[{"text": "a"}]]}), &[]);
    client.call("initialize", json!({"protocol_version": "1.10"}));
    client.send_line("{");
    assert_eq!(client.turn("go")[0], "TurnBegin go");
}
