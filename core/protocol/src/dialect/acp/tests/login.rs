//! The login that an agent asks for when a session opens.

use super::*;

fn with_login(auth: Option<&str>, variables: &[&str]) -> SessionParams {
    let variables = variables.iter().map(|name| (*name).to_owned()).collect();
    SessionParams { login: Login { auth: auth.map(str::to_owned), variables }, ..params() }
}

/// A session whose agent offers these ways, after its answer to `initialize`.
fn greeted(params: SessionParams) -> Player {
    let methods = json!([{"id": "api-key", "name": "API Key", "_meta": {"api-key": {"provider": "openai"}}},
        {"id": "tty", "name": "Terminal", "type": "terminal", "args": ["login"]}]);
    let mut player = Player::new(params);
    player.sent();
    player.hear(&answer(0, json!({"protocolVersion": 1, "authMethods": methods})));
    player
}

fn refuse(player: &mut Player, id: u64) {
    refuse_with(player, id, -32000, "Authentication required");
}

fn refuse_with(player: &mut Player, id: u64, code: i64, message: &str) {
    player.hear(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string());
}

#[test]
fn terminal_login_is_announced() {
    let sent = Player::new(params()).sent();
    assert_eq!(sent[0]["params"]["clientCapabilities"]["auth"], json!({"terminal": true}));
}

#[test]
fn agent_that_asks_for_login_gets_it_once() {
    let mut player = greeted(with_login(Some("auto"), &["CODEX_API_KEY"]));
    let opening = player.sent();
    assert_eq!(opening[0]["method"], "session/new");
    refuse(&mut player, 1);
    let login = player.sent();
    assert_eq!((&login[0]["method"], &login[0]["params"]), (&json!("authenticate"), &json!({"methodId": "api-key"})));
    player.hear(&answer(2, json!({})));
    let again = player.sent();
    assert_eq!((&again[0]["method"], &again[0]["params"]), (&opening[0]["method"], &opening[0]["params"]));
    refuse(&mut player, 3);
    assert!(player.sent().is_empty());
    let [only] = &player.trace[..] else { panic!("{:?}", player.trace) };
    assert!(
        only.starts_with("not opened: auth_expired: the agent (ACP 1): Authentication required (-32000); "),
        "{only}"
    );

    let mut player = greeted(with_login(Some("api-key"), &[]));
    refuse(&mut player, 1);
    player.hear(&answer(2, json!({})));
    player.hear(&answer(3, json!({"sessionId": "s"})));
    assert_eq!(player.trace, ["opened s"]);
}

#[test]
fn agent_that_needs_no_login_gets_none() {
    let mut player = greeted(with_login(Some("api-key"), &[]));
    player.sent();
    player.hear(&answer(1, json!({"sessionId": "s"})));
    assert!(player.sent().is_empty());
    assert_eq!(player.trace, ["opened s"]);
}

#[test]
fn refused_login_names_way() {
    let mut player = greeted(with_login(Some("api-key"), &[]));
    refuse(&mut player, 1);
    refuse_with(&mut player, 2, -32603, "OPENAI_API_KEY is not set");
    let expected = "not opened: auth_expired: the agent (ACP 1) refuses the login with \"api-key\": OPENAI_API_KEY is not set \
                    (-32603); check the key in `env`, or set `auth` to another way: \"api-key\", \"tty\"";
    assert_eq!(player.trace, [expected]);
}

#[test]
fn unknown_way_is_refused_before_session_opens() {
    let mut player = greeted(with_login(Some("key"), &[]));
    assert!(player.sent().is_empty());
    let [only] = &player.trace[..] else { panic!("{:?}", player.trace) };
    assert!(only.starts_with("not opened: invalid_option: ") && only.contains("offers \"api-key\", \"tty\""), "{only}");
}

#[test]
fn missing_login_error_says_what_to_set() {
    let told = |auth: Option<&str>, variables: &[&str]| {
        let mut player = greeted(with_login(auth, variables));
        refuse(&mut player, 1);
        player.trace.remove(0)
    };
    let told_of_key = told(None, &["OPENAI_API_KEY"]);
    assert!(
        told_of_key.ends_with("; set `auth` to \"auto\": `env` has the key for the way \"api-key\""),
        "{told_of_key}"
    );
    let no_key = told(Some("auto"), &["OTHER"]);
    assert!(no_key.ends_with("set one of these in `env`: CODEX_API_KEY, OPENAI_API_KEY"), "{no_key}");
    assert!(told(None, &[]).ends_with("; it knows these ways to log in: API Key, Terminal"));
}

#[test]
fn login_without_answer_times_out() {
    let mut player = greeted(with_login(Some("api-key"), &[]));
    refuse(&mut player, 1);
    player.connection.handle_timeout(player.now + MINUTE);
    player.look();
    let [only] = &player.trace[..] else { panic!("{:?}", player.trace) };
    assert!(
        only.starts_with("not opened: timeout: the agent did not answer `authenticate` with the way \"api-key\""),
        "{only}"
    );
}

#[test]
fn closed_session_withdraws_its_login() {
    let mut acp = Acp::new(with_login(Some("api-key"), &[]));
    acp.call("open", &Call::Initialize(InitializeParams::default())).expect("bytes");
    let methods = json!({"protocolVersion": 1, "authMethods": [{"id": "api-key"}]});
    acp.read_line(answer(0, methods.clone()).as_bytes());
    acp.next_handshake_request("open", &Ok(Json::from(methods))).expect("session/new");
    let failure = RpcFailure { code: UNAUTHORISED, message: String::new(), data: None };
    acp.read_line(&jsonrpc::refusal("1", &failure));
    acp.next_handshake_request("open", &Err(failure)).expect("authenticate");
    let left = String::from_utf8(acp.leave()).expect("text");
    assert!(left.contains("$/cancel_request") && left.contains("\"requestId\":2"), "{left}");
}

#[test]
fn error_of_prompt_lists_ways() {
    let mut player = greeted(params());
    player.hear(&answer(1, json!({"sessionId": "s"})));
    player.connection.prompt(1, "Hello".into(), player.now);
    player.look();
    refuse(&mut player, 2);
    let Some(Error::Rpc(error)) = player.failed else { panic!("{:?}", player.trace) };
    assert_eq!(error.methods.iter().map(|method| &*method.id).collect::<Vec<_>>(), ["api-key", "tty"]);
}

#[test]
fn parameters_with_secrets_are_not_shown() {
    let servers =
        vec![acp::McpServer::Stdio(acp::McpServerStdio::new("x", "y").env(vec![acp::EnvVariable::new("K", "hush")]))];
    let mut acp = Acp::new(SessionParams { mcp_servers: servers, ..with_login(Some("api-key"), &[]) });
    acp.call("open", &Call::Initialize(InitializeParams::default())).expect("bytes");
    let methods = json!({"protocolVersion": 1, "authMethods": [{"id": "api-key"}]});
    acp.next_handshake_request("open", &Ok(Json::from(methods))).expect("session/new");
    let shown = format!("{acp:?}");
    assert!(shown.contains("PreparedLogin") && !shown.contains("hush"), "{shown}");
}
