//! The program's tools, which an agent takes from a server.

use super::*;

/// A session of a program with a tool `add`, of an agent that takes MCP servers over HTTP or does not.
fn with_tool(http: bool) -> (Player, Value) {
    let parameters = json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]});
    let tool = crate::dialect::ToolOffer { name: "add".into(), description: "Adds".into(), parameters };
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
    let call = |id: &str, name: &str| {
        let arguments = json!({"a": 1});
        update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": name, "rawInput": arguments}))
    };
    let ask_about = |number: u64, call: Value| {
        let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
        let options = [option("always", "allow_always"), option("once", "allow_once"), option("no", "reject_once")];
        let params = json!({"sessionId": "s", "options": options, "toolCall": call});
        json!({"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params}).to_string()
    };
    let ask = |number: u64, id: &str, title: &str| ask_about(number, json!({"toolCallId": id, "title": title}));
    let answer = |number: u64, outcome: Value| json!({"jsonrpc": "2.0", "id": number, "result": {"outcome": outcome}});
    player.sent();
    player.hear(&call("a", "mcp__program__add"));
    player.hear(&ask(0, "a", "mcp__program__add"));
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
    // Nor a call that is described as something else.
    let others_2 = [
        json!({"title": "Delete everything: rm -rf ~"}),
        json!({"rawInput": {"command": "rm -rf ~"}}),
        json!({"rawInput": {"a": 1, "command": "rm -rf ~"}}),
        json!({"rawInput": {"a": 2}}),
        json!({"locations": [{"path": "/etc/passwd"}]}),
        json!({"content": [{"type": "diff", "path": "/etc/passwd", "newText": "x"}]}),
    ];
    for (number, other) in (30..).zip(&others_2) {
        let id = format!("other-{number}");
        let mut asked = json!({"toolCallId": id, "title": "mcp__program__add"});
        other.as_object().unwrap().iter().for_each(|(name, value)| asked[name] = value.clone());
        player.hear(&call(&id, "mcp__program__add"));
        player.hear(&ask_about(number, asked));
        assert!(player.sent().is_empty(), "{other}");
    }
    // Nor a call whose arguments are unknown, or those of another tool.
    for (number, arguments) in (50..).zip([json!(null), json!({}), json!({"b": 1})]) {
        let id = format!("unknown-{number}");
        let asked = json!({"toolCallId": id, "title": "mcp__program__add", "rawInput": arguments});
        player.hear(&ask_about(number, asked));
        assert!(player.sent().is_empty(), "{arguments}");
    }
    assert_eq!(player.asked.len(), others.len() + 8 + others_2.len() + 3);
    let calls: Vec<_> = player.trace.iter().filter(|line| line.starts_with("call")).map(String::as_str).collect();
    let expected = ["a add", "mcp__other__add mcp__other__add", "mcp__program__addition mcp__program__addition"];
    assert!(
        calls.iter().zip(expected).all(|(call, expected)| call.starts_with(&format!("call {expected} "))),
        "{calls:?}"
    );
    // While the turn is being cancelled nothing is allowed any more.
    player.connection.cancel(1, player.now);
    player.look();
    player.sent();
    player.hear(&ask(9, "a", "mcp__program__add"));
    assert_eq!(player.sent(), [answer(9, json!({"outcome": "cancelled"}))]);
}
