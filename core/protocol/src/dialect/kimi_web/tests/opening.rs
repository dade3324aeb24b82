//! How a session opens: the calls in their order, and their failures.

use super::*;
use crate::endpoint::{Endpoint, HandshakeRole, Route, first_id};
use crate::jsonrpc;

fn params() -> KimiWebParams {
    KimiWebParams { work_dir: "/project".into(), nonce: "p".to_owned(), ..KimiWebParams::default() }
}

/// Opens with these answers: a result, or a code and a message. Returns what was asked, and the outputs.
fn open(params: KimiWebParams, answers: &[Value]) -> (Vec<(String, Value)>, Vec<String>) {
    let mut player = Player::new(KimiWeb::new(params));
    let mut asked = Vec::new();
    for answer in answers {
        let sent = player.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        asked.push((sent[0]["method"].as_str().expect("a method").to_owned(), sent[0]["params"].clone()));
        match answer.get("code").and_then(Value::as_i64) {
            Some(code) => player.refuse(&sent[0], code, answer["message"].as_str().expect("a reason")),
            None => player.answer(&sent[0], answer.clone()),
        }
    }
    let more = player.sent();
    assert!(more.is_empty() || answers.is_empty(), "{more:?}");
    (asked, player.trace())
}

fn meta() -> Value {
    json!({"server_version": "2.1.0", "features": []})
}

fn subscribed(session: &str) -> Value {
    json!({"accepted": [session], "not_found": [], "resync_required": [], "cursors": {session: {"seq": 2, "epoch": "e"}}})
}

#[test]
fn new_session_uses_default_model_and_subscribes() {
    let (asked, trace) = open(
        params(),
        &[
            meta(),
            json!({"id": "s"}),
            json!({"default_model": "__kimi_env_model__"}),
            json!({}),
            json!({"skills": [{"name": "greet", "description": "Greets."}, {"name": "theme", "scopes": ["tui"]}, {}]}),
            subscribed("s"),
        ],
    );
    let config = json!({"agent_config": {"permission_mode": "manual", "model": "__kimi_env_model__"}});
    let expected = [
        ("GET /api/v1/meta", Value::Null),
        ("POST /api/v1/sessions", json!({"metadata": {"cwd": "/project"}})),
        ("GET /api/v1/config", Value::Null),
        ("POST /api/v1/sessions/s/profile", config),
        ("GET /api/v1/sessions/s/skills", Value::Null),
        ("WS subscribe", json!({"session_ids": ["s"]})),
    ];
    assert_eq!(asked, expected.map(|(method, params)| (method.to_owned(), params)));
    assert_eq!(trace, ["opened s"]);
}

#[test]
fn unreadable_optional_members_do_not_fail_the_opening() {
    for (meta, id) in [(json!({}), json!("7")), (json!({"server_version": 2}), json!(7))] {
        let (asked, trace) = open(
            KimiWebParams { model: Some("m".into()), ..params() },
            &[meta, json!({"id": id, "title": 7}), json!({}), json!({}), subscribed("7")],
        );
        assert_eq!(trace, ["opened 7"], "{asked:?}");
    }
}

#[test]
fn handshake_result_has_agent_skills_and_capabilities() {
    let mut dialect = KimiWeb::new(KimiWebParams { model: Some("m".into()), thinking: Some(false), ..params() });
    let mut line = dialect.call("open", &Call::Initialize(InitializeParams::default())).expect("a call");
    let answers = [
        meta(),
        json!({"id": "s"}),
        json!({}),
        json!({"skills": [{"name": "greet", "description": "Greets."}]}),
        subscribed("s"),
    ];
    let mut last = Ok(Json::null());
    for answer in answers {
        let sent: Value = serde_json::from_slice(&line).expect("JSON");
        if sent["method"] == "POST /api/v1/sessions/s/profile" {
            let config = json!({"permission_mode": "manual", "model": "m", "thinking": "off"});
            assert_eq!(sent["params"]["agent_config"], config);
        }
        let text = json!({"jsonrpc": "2.0", "id": sent["id"], "result": answer}).to_string();
        let Incoming::Response { id: Some(id), outcome } = dialect.read_line(text.as_bytes()) else { panic!("{text}") };
        assert_eq!(id, "open");
        line = dialect.next_handshake_request("open", &outcome).unwrap_or_default();
        last = outcome;
    }
    let handshake = dialect.finish_handshake(last).expect("an open session");
    assert_eq!(handshake.protocol_version, "kimi-web-2");
    assert_eq!(
        handshake.server.map(|server| (server.name, server.version)),
        Some(("Kimi Code".into(), "2.1.0".into()))
    );
    assert_eq!(json!(handshake.slash_commands), json!([{"name": "greet", "description": "Greets.", "aliases": []}]));
    let can = handshake.capabilities;
    assert!(can.steer && can.replay && can.plan_mode && can.questions && can.approval_feedback && can.undo && can.fork);
    assert!(!can.external_tools && can.hooks.is_empty());
}

#[test]
fn resumed_session_keeps_its_model() {
    let resumed = KimiWebParams { session_id: Some("old/..".into()), ..params() };
    let (asked, trace) =
        open(resumed, &[meta(), json!({"model": "m"}), json!({}), json!({"skills": []}), subscribed("old/..")]);
    let methods: Vec<_> = asked.iter().map(|(method, _)| method.as_str()).collect();
    let session = "/api/v1/sessions/old%2F..";
    assert_eq!(
        methods,
        [
            "GET /api/v1/meta".to_owned(),
            format!("GET {session}/status"),
            format!("POST {session}/profile"),
            format!("GET {session}/skills"),
            "WS subscribe".to_owned(),
        ]
    );
    assert_eq!(asked[2].1, json!({"agent_config": {"permission_mode": "manual"}}));
    assert_eq!(trace, ["opened old/.."]);
    let forked = KimiWebParams { fork_of: Some("old".into()), ..params() };
    let (asked, trace) = open(
        forked,
        &[
            meta(),
            json!({"id": "new"}),
            json!({"model": "m"}),
            json!({}),
            json!({"code": 40400, "message": "no such route"}),
            json!({"accepted": [], "not_found": ["new"]}),
            json!({}),
            subscribed("new"),
        ],
    );
    let methods: Vec<_> = asked.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(
        methods,
        [
            "GET /api/v1/meta",
            "POST /api/v1/sessions/old:fork",
            "GET /api/v1/sessions/new/status",
            "POST /api/v1/sessions/new/profile",
            "GET /api/v1/sessions/new/skills",
            "WS subscribe",
            "GET /api/v1/sessions/new/status",
            "WS subscribe",
        ]
    );
    assert_eq!(trace, ["opened new"]);
}

#[test]
fn opening_failure_has_hint() {
    let failed = |code: i64, message: &str| json!({"code": code, "message": message});
    let with_model = || KimiWebParams { model: Some("m".into()), ..params() };
    let resumed = || KimiWebParams { session_id: Some("s".into()), ..params() };
    let new = || json!({"id": "s"});
    let not_found = || json!({"accepted": [], "not_found": ["s"]});
    let cases: [(KimiWebParams, Vec<Value>, &str); 8] = [
        (
            params(),
            vec![failed(-32010, "connection refused")],
            "handshake_error: the server refuses `GET /meta`; check that",
        ),
        (params(), vec![json!("ready")], "handshake_error: the server's answer to `GET /meta` can't be read: "),
        (
            params(),
            vec![meta(), failed(40409, "no /project")],
            "invalid_option: invalid option `work_dir`: no /project",
        ),
        (
            resumed(),
            vec![meta(), failed(40401, "no s")],
            "rpc_error: no s (40401); Kimi Code makes the ids of sessions itself",
        ),
        (
            params(),
            vec![meta(), new(), json!({})],
            "llm_not_set: Kimi Code 2.1.0 (its server) has no model for the session: its configuration has no \
             `default_model`; set `model`, set `default_model` in",
        ),
        (with_model(), vec![meta(), new(), failed(40001, "no m")], "invalid_option: invalid option `model`: no m"),
        (
            with_model(),
            vec![meta(), new(), json!({}), json!({}), not_found(), json!({}), not_found()],
            "handshake_error: the server has the session `s`, and tells no events of it",
        ),
        (
            params(),
            vec![meta(), json!({"name": "s"})],
            "handshake_error: the server's answer about the session can't be read",
        ),
    ];
    for (params, answers, expected) in cases {
        let (_, trace) = open(params, &answers);
        let expected = format!("not opened: {expected}");
        assert!(trace[0].starts_with(&expected), "{}\nis not\n{expected}", trace[0]);
    }
}

#[test]
fn subscription_on_lost_connection_is_repeated() {
    let lost = json!({"code": -32010, "message": "the connection was lost"});
    let with_model = KimiWebParams { model: Some("m".into()), ..params() };
    let answers = [meta(), json!({"id": "s"}), json!({}), json!({}), lost, subscribed("s")];
    let (asked, trace) = open(with_model, &answers);
    assert_eq!((asked[4].0.as_str(), asked[5].0.as_str()), ("WS subscribe", "WS subscribe"));
    assert_eq!(trace, ["opened s"]);
}

#[test]
fn endpoint_routes_by_session_ids_of_server() {
    let mut endpoint = Endpoint::kimi_web();
    let route = |endpoint: &mut Endpoint, message: Value| {
        let line = message.to_string();
        endpoint.route(&jsonrpc::parse(line.as_bytes()), line.as_bytes())
    };
    for key in [0, 1] {
        endpoint.attach(key);
        let role = endpoint.join_handshake(key);
        if key == 0 {
            assert!(matches!(role, HandshakeRole::Ask));
            assert_eq!(route(&mut endpoint, json!({"id": 0, "result": meta()})), Route::Handshake(vec![0]));
        } else {
            assert!(matches!(role, HandshakeRole::Answered(_)));
        }
        endpoint.set_opening(key, Some(&OpeningSession::New)).expect("nothing to refuse");
        let created = json!({"method": "event.session.created", "params": {"session_id": format!("s{key}"), "seq": 1}});
        assert_eq!(route(&mut endpoint, created.clone()), Route::Nowhere);
        let named = json!({"id": first_id(key) + 1, "result": {"id": format!("s{key}")}});
        assert_eq!(route(&mut endpoint, named), Route::Named(key, vec![created.to_string().into_bytes()]));
    }
    let of = |session: Value| json!({"method": "turn.started", "params": {"session_id": session, "payload": {}}});
    assert_eq!(route(&mut endpoint, of(json!("s1"))), Route::To(1));
    assert_eq!(route(&mut endpoint, of(json!("__global__"))), Route::Nowhere);
    assert_eq!(route(&mut endpoint, of(json!(7))), Route::Nowhere);
    let behind = json!({"method": "resync_required", "params": {"payload": {"session_id": "s0", "current_seq": 1}}});
    assert_eq!(route(&mut endpoint, behind), Route::To(0));
    let connected = json!({"method": "gateway/connected", "params": {"count": 2}});
    assert_eq!(route(&mut endpoint, connected.clone()), Route::All(vec![0, 1]));
    assert!(!endpoint.leave(1));
    assert_eq!(route(&mut endpoint, connected), Route::All(vec![0]));
}
