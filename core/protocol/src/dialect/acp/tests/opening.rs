//! What a program wants of a session, in the request that opens it.

use super::*;

/// The lines that a session with these parameters sends after the answer to `initialize`, and its trace.
fn opened(params: SessionParams, capabilities: Value) -> (Vec<Value>, Vec<String>) {
    let mut player = Player::new(params);
    player.sent();
    player.hear(&initialized(capabilities).to_string());
    (player.sent(), player.trace)
}

fn system_prompt(overrides: bool) -> Option<SystemPrompt> {
    Some(SystemPrompt { content: "Be brief.".to_owned(), overrides })
}

#[test]
fn wishes_are_in_every_opening_request() {
    let able =
        json!({"sessionCapabilities": {"additionalDirectories": {}, "systemPrompt": {}, "fork": {}, "resume": {}}});
    let named = |session_id: Option<&str>, fork_of: Option<&str>| SessionParams {
        session_id: session_id.map(str::to_owned),
        fork_of: fork_of.map(str::to_owned),
        additional_directories: vec!["/other".into()],
        system_prompt: system_prompt(false),
        meta: Some(acp::Meta::from_iter([("vendor".to_owned(), json!({"option": 1}))])),
        ..params()
    };
    let old = json!({"loadSession": true, "sessionCapabilities": {"additionalDirectories": {}, "systemPrompt": {}}});
    for (params, capabilities, method) in [
        (named(None, None), able.clone(), "session/new"),
        (named(Some("s"), None), able.clone(), "session/resume"),
        (named(Some("s"), None), old, "session/load"),
        (named(None, Some("s")), able, "session/fork"),
    ] {
        let (sent, trace) = opened(params, capabilities);
        assert!(trace.is_empty(), "{trace:?}");
        assert_eq!(sent[0]["method"], method);
        let params = &sent[0]["params"];
        assert_eq!(params["additionalDirectories"], json!(["/other"]));
        assert_eq!(params["_meta"], json!({"vendor": {"option": 1}}));
        let content = json!([{"type": "text", "text": "Be brief."}]);
        assert_eq!(params["systemPrompt"], json!({"mode": "append", "content": content}));
    }
}

#[test]
fn session_without_wishes_has_no_members_for_them() {
    let (sent, _) = opened(params(), json!({}));
    assert_eq!(sent[0]["params"], json!({"cwd": "/project", "mcpServers": []}));
}

#[test]
fn system_prompt_needs_its_capability() {
    let with = |overrides| SessionParams { system_prompt: system_prompt(overrides), ..params() };
    let appends = json!({"sessionCapabilities": {"systemPrompt": {}}});
    let overrides = json!({"sessionCapabilities": {"systemPrompt": {"mode": {"override": {}}}}});
    let unsupported =
        |what: &str| format!("not opened: unsupported: fake 1 (ACP 1) does not support {what}; Claude Code does");
    for (params, capabilities, what) in [
        (with(false), json!({}), "`system_prompt`"),
        (with(true), json!({}), "`system_prompt`"),
        (with(true), appends.clone(), "`system_prompt` with the mode \"override\""),
    ] {
        let (sent, trace) = opened(params, capabilities);
        assert_eq!((sent, trace), (vec![], vec![unsupported(what)]));
    }
    assert_eq!(opened(with(false), appends).0[0]["params"]["systemPrompt"]["mode"], "append");
    assert_eq!(opened(with(true), overrides).0[0]["params"]["systemPrompt"]["mode"], "override");
}

#[test]
fn additional_directories_need_their_capability() {
    let (sent, trace) = opened(SessionParams { additional_directories: vec!["/other".into()], ..params() }, json!({}));
    assert!(sent.is_empty());
    assert_eq!(trace, ["not opened: unsupported: fake 1 (ACP 1) does not support `additional_directories`"]);
}

#[test]
fn mcp_servers_need_their_capability() {
    let http = acp::McpServer::Http(acp::McpServerHttp::new("a", "http://127.0.0.1:1/"));
    let sse = acp::McpServer::Sse(acp::McpServerSse::new("a", "http://127.0.0.1:1/"));
    for (server, name) in [(http, "HTTP"), (sse, "SSE")] {
        let params = SessionParams { mcp_servers: vec![server], ..params() };
        let (sent, trace) = opened(params.clone(), json!({}));
        assert!(sent.is_empty());
        let expected = format!("not opened: unsupported: fake 1 (ACP 1) does not support MCP servers over {name}");
        assert_eq!(trace, [expected]);
        let able = json!({"mcpCapabilities": {"http": name == "HTTP", "sse": name == "SSE"}});
        assert_eq!(opened(params, able).0[0]["method"], "session/new");
    }
}

#[test]
fn stdio_server_that_is_not_started_is_unsupported() {
    let command = acp::McpServer::Stdio(acp::McpServerStdio::new("a", "mcp-a"));
    let http = acp::McpServer::Http(acp::McpServerHttp::new("a", "http://127.0.0.1:1/"));
    let opened = |server: &acp::McpServer, name: &str, version: &str| {
        let mut player = Player::new(SessionParams { mcp_servers: vec![server.clone()], ..params() });
        player.sent();
        let mut hello = initialized(json!({"mcpCapabilities": {"http": true}}));
        hello["result"]["agentInfo"] = json!({"name": name, "version": version});
        player.hear(&hello.to_string());
        (player.sent(), player.trace)
    };
    for version in ["0.37.0", "0.38.0"] {
        let (sent, trace) = opened(&command, "Kimi Code CLI", version);
        let expected = format!(
            "not opened: unsupported: Kimi Code CLI {version} (ACP 1) does not support MCP servers that a command starts; \
             install a release before 0.37 or after 0.38, or use a server over HTTP"
        );
        assert_eq!((sent, trace), (vec![], vec![expected]));
        assert_eq!(opened(&http, "Kimi Code CLI", version).0[0]["method"], "session/new");
        assert_eq!(opened(&command, "Other", version).0[0]["method"], "session/new");
    }
    let expected = "not opened: unsupported: cline 3.0.65 (ACP 1) does not support MCP servers that a command starts; configure \
                    the server in the agent";
    assert_eq!(opened(&command, "cline", "3.0.65"), (vec![], vec![expected.to_owned()]));
    for version in ["0.36.0", "0.39.0", "2.1.0", "of today"] {
        assert_eq!(opened(&command, "Kimi Code CLI", version).0[0]["method"], "session/new", "{version}");
    }
}

#[test]
fn usage_update_becomes_status_with_cost() {
    let mut player = prompted();
    let cost = json!({"amount": 0.25, "currency": "USD"});
    player.hear(&update(json!({"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": cost})));
    let status = r#"outside: status {"context_usage":0.1,"context_tokens":10,"max_context_tokens":100,"cost":{"amount":0.25,"currency":"USD","source":"reported"}}"#;
    assert_eq!(player.trace, [status]);
}

#[test]
fn cost_counts_next_to_invalid_tokens() {
    let mut player = prompted();
    let cost = json!({"amount": 0.25, "currency": "USD"});
    player.hear(&update(json!({"sessionUpdate": "usage_update", "used": -10, "size": "100", "cost": cost})));
    assert_eq!(player.trace, [r#"outside: status {"cost":{"amount":0.25,"currency":"USD","source":"reported"}}"#]);
}

#[test]
fn invalid_cost_is_kept_as_sent() {
    for cost in [
        r#"{"amount":-0.25,"currency":"USD"}"#,
        r#"{"amount":1e16,"currency":"USD"}"#,
        r#"{"amount":1e999,"currency":"USD"}"#,
        r#"{"amount":0.25}"#,
        r#"{"amount":"0.25","currency":"USD"}"#,
        r#"{"amount":0.25,"currency":""}"#,
        "0.25",
    ] {
        let mut player = prompted();
        player.hear(
            &update(json!({"sessionUpdate": "usage_update", "used": 10, "cost": "COST"})).replace("\"COST\"", cost),
        );
        let status = match cost.contains("1e16") {
            true => cost.replace("1e16", "1e+16"),
            false => cost.to_owned(),
        };
        assert_eq!(player.trace, [format!(r#"outside: status {{"context_tokens":10,"cost":{status}}}"#)]);
    }
}
