//! Results of tools, which stubs report as the recording has them.

use super::*;

#[test]
fn stub_reports_present_result() {
    let request = |id: &str| {
        let payload = json!({"id": id, "name": "add", "arguments": "{}"});
        json!({"jsonrpc": "2.0", "id": id, "method": "request", "params": {"type": "ToolCallRequest", "payload": payload}})
    };
    let value = |output: &str| json!({"is_error": false, "output": output, "message": "", "display": []});
    let returned = |id: &str, value: Value| json!({"tool_call_id": id, "return_value": value});
    let result = |id: &str, value: Value| json!({"type": "ToolResult", "payload": returned(id, value)});
    let event = |params: Value| json!({"jsonrpc": "2.0", "method": "event", "params": params});
    let of_subagent = |inner: Value| json!({"type": "SubagentEvent", "payload": {"event": inner}});
    let entries = [
        opened(),
        turn(1),
        sdk(call("p", "prompt", json!({"user_input": "go"}))),
        agent(request("t")),
        sdk(answer("t", returned("t", value("2")))),
        agent(event(result("t", value("2")))),
        agent(event(of_subagent(result("t", value("2"))))),
        agent(event(result("own", value("2")))),
        agent(answer("p", json!({"status": "finished"}))),
    ];
    for (mode, expected) in [(Mode::Stub, "3"), (Mode::Replay, "2")] {
        let mut played = Played::new(mode, &entries);
        assert_eq!(played.send(call("1", "prompt", json!({"user_input": "else"}))), [request("t")]);
        let sent = played.send(answer("t", returned("t", value("3"))));
        let value = |output| value(output);
        assert_eq!(sent[0], event(result("t", value(expected))));
        assert_eq!(sent[1], event(of_subagent(result("t", value(expected)))));
        assert_eq!(sent[2], event(result("own", value("2"))));
        assert!(played.complaints.is_empty());
    }
}

fn update(update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
}

/// The end of a tool call over ACP.
fn ended(id: &str, status: &str, content: &str, raw: Value) -> Value {
    let content = json!([{"type": "content", "content": {"type": "text", "text": content}}]);
    update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": content,
        "rawOutput": raw}))
}

/// A turn over ACP with calls of a tool of the program, each with its arguments and its result, and other messages.
fn over_mcp(calls: &[(Value, &str)], others: &[Value]) -> Vec<Value> {
    let mut entries = vec![
        sdk(json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "{{work_dir}}"}})),
        agent(json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}})),
    ];
    for (number, (arguments, _)) in calls.iter().enumerate() {
        let id = format!("mcp-{number}");
        entries.push(json!({"time": 0, "type": "tool_call", "id": id, "name": "add", "arguments": arguments}));
    }
    for (number, (_, output)) in calls.iter().enumerate() {
        let result = json!({"is_error": false, "output": output, "message": ""});
        entries.push(json!({"time": 0, "type": "tool_result", "id": format!("mcp-{number}"), "result": result}));
    }
    entries.extend(others.iter().cloned().map(agent));
    entries
}

/// Plays these calls in the mode `stub` with other results. Returns the messages of the agent.
fn stubbed(entries: &[Value], results: &[Value]) -> Vec<Value> {
    let mut played = Played::new(Mode::Stub, entries);
    let server = json!({"type": "http", "name": "program", "url": "http://127.0.0.1:1/mcp", "headers": []});
    let params = json!({"cwd": "/src/now", "mcpServers": [server]});
    played.send(json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}));
    for (number, result) in results.iter().enumerate() {
        played.player.tool_answered(format!("mcp-{number}"), ToolAnswer::Result(result.clone()));
    }
    played.output()
}

fn mcp_result(text: &str, is_error: bool) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}

#[test]
fn stub_finds_result_in_update() {
    for (content, raw, new_content, new_raw) in [
        ("2", json!("2"), "3", json!("3")),
        (
            "```\n2\n```",
            json!({"output": "2", "metadata": {"n": 2}}),
            "```\n3\n```",
            json!({"output": "3", "metadata": {"n": 2}}),
        ),
        ("22", json!([{"type": "text", "text": "2"}]), "22", json!([{"type": "text", "text": "3"}])),
        ("2\n", json!("[{\"text\":\"2\"}]"), "3", json!("[{\"text\":\"3\"}]")),
    ] {
        let entries = over_mcp(&[(json!({}), "2")], &[ended("c", "completed", content, raw)]);
        let sent = stubbed(&entries, &[mcp_result("3", false)]);
        assert_eq!(sent, [ended("c", "completed", new_content, new_raw)]);
    }
}

#[test]
fn stub_reports_failure_over_acp() {
    let entries =
        over_mcp(&[(json!({}), "in {{work_dir}}")], &[ended("c", "completed", "in {{work_dir}}", json!(null))]);
    let sent = stubbed(&entries, &[mcp_result("no {{work_dir}}", true)]);
    assert_eq!(sent, [ended("c", "failed", "no {{work_dir}}", json!(null))]);
}

#[test]
fn stub_distinguishes_equal_results() {
    let begun = |id: &str, title: &str, input: Value| {
        update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "rawInput": input}))
    };
    let others = [
        begun("own", "Shell", json!({"command": "echo 2"})),
        begun("b", "mcp__program__add", json!({"a": 0})),
        begun("a", "mcp__program__add", json!({"a": 1})),
        ended("own", "completed", "2", json!("2")),
        ended("b", "completed", "2", json!("2")),
        ended("a", "completed", "2", json!("2")),
    ];
    let entries = over_mcp(&[(json!({"a": 1}), "2"), (json!({"a": 0}), "2")], &others);
    let sent = stubbed(&entries, &[mcp_result("of 1", false), mcp_result("of 0", false)]);
    let expected = [
        ended("own", "completed", "2", json!("2")),
        ended("b", "completed", "of 0", json!("of 0")),
        ended("a", "completed", "of 1", json!("of 1")),
    ];
    assert_eq!(sent[3..], expected);
}
