//! The program's tools, which an agent takes from a server.

use super::*;

/// A session of a program with a tool `add`, of an agent that takes MCP servers over HTTP or does not.
fn with_tool(http: bool) -> (Player, Value) {
    let tool = crate::dialect::ToolOffer { name: "add".into(), description: "Adds".into(), parameters: json!({}) };
    let endpoint = crate::dialect::ToolsEndpoint {
        name: "program".into(),
        url: "http://127.0.0.1:1/mcp".into(),
        headers: vec![("Authorization".into(), "Bearer secret".into())],
    };
    let hello = InitializeParams { tools: vec![tool], tools_server: Some(endpoint), ..InitializeParams::default() };
    let mut player = Player::with(params(), hello);
    player.sent();
    let result = json!({"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"http": http}}});
    player.hear(&json!({"jsonrpc": "2.0", "id": 0, "result": result}).to_string());
    let session = player.sent().remove(0);
    player.hear(&json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}).to_string());
    assert_eq!(player.trace, ["opened s"]);
    (player, session)
}

#[test]
fn tools_server_is_passed_to_http_agents() {
    let (_, session) = with_tool(true);
    let headers = json!([{"name": "Authorization", "value": "Bearer secret"}]);
    let server = json!({"type": "http", "name": "program", "url": "http://127.0.0.1:1/mcp", "headers": headers});
    assert_eq!(session["params"]["mcpServers"], json!([server]));
    let (_, session) = with_tool(false);
    assert_eq!(session["params"]["mcpServers"], json!([]));
}

#[test]
fn own_tools_are_approved_under_own_names() {
    let (mut player, _) = with_tool(true);
    player.connection.prompt(1, "go".into(), player.now);
    player.look();
    let update = |update: Value| {
        let params = json!({"sessionId": "s", "update": update});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
    };
    let call = |id: &str, name: &str| update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": name}));
    let ask = |number: u64, id: &str, title: &str| {
        let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
        let options = [option("always", "allow_always"), option("once", "allow_once"), option("no", "reject_once")];
        let params = json!({"sessionId": "s", "options": options, "toolCall": {"toolCallId": id, "title": title}});
        json!({"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params}).to_string()
    };
    let answer = |number: u64, outcome: Value| json!({"jsonrpc": "2.0", "id": number, "result": {"outcome": outcome}});
    player.sent();
    player.hear(&call("a", "mcp__program__add"));
    player.hear(&ask(0, "a", "Running: something"));
    assert_eq!(player.sent(), [answer(0, json!({"outcome": "selected", "optionId": "once"}))]);
    assert!(player.asked.is_empty());
    // Neither another server's, nor one that the program has not, nor one that only says so when it asks.
    let others = ["mcp__other__add", "mcp__program__addition", "mcp__program", "add", "Shell"];
    for (number, name) in (1..).zip(others) {
        player.hear(&call(name, name));
        player.hear(&ask(number, name, "mcp__program__add"));
        assert!(player.sent().is_empty(), "{name}");
        assert_eq!(player.asked.len(), number as usize, "{name}");
    }
    // Nor a call of a kind that changes something, whether the call names the kind or the request.
    let with_kind = |line: String, kind: &str| line.replace("\"title\"", &format!("\"kind\":\"{kind}\",\"title\""));
    for (number, kind) in (10..).step_by(2).zip(["execute", "edit", "delete", "move"]) {
        let [first, second] = [format!("{kind}-1"), format!("{kind}-2")];
        player.hear(&with_kind(call(&first, "mcp__program__add"), kind));
        player.hear(&with_kind(ask(number, &first, "mcp__program__add"), "other"));
        player.hear(&call(&second, "mcp__program__add"));
        player.hear(&with_kind(ask(number + 1, &second, "mcp__program__add"), kind));
        assert!(player.sent().is_empty(), "{kind}");
    }
    assert_eq!(player.asked.len(), others.len() + 8);
    let calls: Vec<_> = player.trace.iter().filter(|line| line.starts_with("call")).map(String::as_str).collect();
    let expected = ["a add", "mcp__other__add mcp__other__add", "mcp__program__addition mcp__program__addition"];
    assert_eq!(calls[..3], expected.map(|call| format!("call {call} \"\"")));
    // While the turn is being cancelled nothing is allowed any more.
    player.connection.cancel(1, player.now);
    player.look();
    player.sent();
    player.hear(&ask(9, "a", "mcp__program__add"));
    assert_eq!(player.sent(), [answer(9, json!({"outcome": "cancelled"}))]);
}
