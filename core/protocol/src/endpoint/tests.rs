use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The effect of a message: its route, and the lines to the agent.
#[derive(Debug, PartialEq)]
struct Heard {
    route: Route,
    written: Vec<Value>,
}

fn values(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
}

fn hear(endpoint: &mut Endpoint, message: &Value) -> Heard {
    let line = message.to_string();
    let route = endpoint.route(&jsonrpc::parse(line.as_bytes()), line.as_bytes());
    Heard { route, written: values(&endpoint.poll_transmit()) }
}

fn heard(route: Route) -> Heard {
    Heard { route, written: Vec::new() }
}

fn refused(id: Value) -> Heard {
    let error = json!({"code": -32800, "message": "the session is closed"});
    Heard { route: Route::Nowhere, written: vec![json!({"jsonrpc": "2.0", "id": id, "error": error})] }
}

fn not_open(id: Value, session: &str) -> Heard {
    let error = json!({"code": -32800, "message": format!("no session `{session}` is open here")});
    Heard { route: Route::Nowhere, written: vec![json!({"jsonrpc": "2.0", "id": id, "error": error})] }
}

fn able() -> Value {
    json!({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}})
}

fn update(session: &str, n: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": n}})
}

fn ask(id: Value, session: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {"sessionId": session}})
}

fn answer(id: u64, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn named(session: &str) -> Value {
    json!({"sessionId": session})
}

/// Begins to open a session; its call has the second id of the connection.
fn opening(endpoint: &mut Endpoint, key: ConnectionKey) -> u64 {
    endpoint.attach(key);
    endpoint.set_opening(key, Some(&OpeningSession::New)).expect("allowed");
    first_id(key) + 1
}

/// Two connections with the sessions `a` and `b`, of an agent that can close sessions.
fn two() -> Endpoint {
    let mut endpoint = Endpoint::default();
    assert!(matches!(endpoint.join_handshake(0), HandshakeRole::Ask));
    endpoint.attach(0);
    assert_eq!(hear(&mut endpoint, &answer(0, able())), heard(Route::Handshake(vec![0])));
    for (key, session) in [(0, "a"), (1, "b")] {
        let id = opening(&mut endpoint, key);
        assert_eq!(hear(&mut endpoint, &answer(id, named(session))), heard(Route::Named(key, vec![])));
        endpoint.set_opening(key, None).expect("nothing to refuse");
    }
    endpoint
}

#[test]
fn handshake_is_shared_by_connections() {
    let mut endpoint = Endpoint::default();
    (0..3).for_each(|key| endpoint.attach(key));
    assert!(matches!(endpoint.join_handshake(0), HandshakeRole::Ask));
    assert!(matches!(endpoint.join_handshake(1), HandshakeRole::Wait));
    assert!(matches!(endpoint.join_handshake(2), HandshakeRole::Wait));
    // The answer counts also if the one that asked has left.
    assert!(!endpoint.leave(0));
    assert_eq!(hear(&mut endpoint, &answer(0, able())), heard(Route::Handshake(vec![0, 1, 2])));
    let HandshakeRole::Answered(told) = endpoint.join_handshake(3) else { panic!("not answered") };
    assert_eq!(told.get(), able().to_string());
}

#[test]
fn refused_handshake_is_asked_again() {
    for id in [json!(0), json!(null)] {
        let mut endpoint = Endpoint::default();
        (0..2).for_each(|key| endpoint.attach(key));
        endpoint.join_handshake(0);
        endpoint.join_handshake(1);
        let refusal = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no"}});
        assert_eq!(hear(&mut endpoint, &refusal), heard(Route::Handshake(vec![0, 1])));
        assert!(matches!(endpoint.join_handshake(2), HandshakeRole::Ask));
    }
}

#[test]
fn message_is_routed_by_session_id() {
    let mut endpoint = two();
    assert_eq!(hear(&mut endpoint, &update("b", 1)), heard(Route::To(1)));
    assert_eq!(hear(&mut endpoint, &update("a", 2)), heard(Route::To(0)));
    assert_eq!(hear(&mut endpoint, &ask(json!(0), "b")), heard(Route::To(1)));
    assert_eq!(hear(&mut endpoint, &update("c", 3)), heard(Route::Nowhere));
    assert_eq!(hear(&mut endpoint, &ask(json!("x"), "c")), not_open(json!("x"), "c"));
    let late = json!({"method": "session/update", "params": {"update": {"sessionId": "a"}, "sessionId": "b"}});
    assert_eq!(hear(&mut endpoint, &late), heard(Route::To(1)));
}

#[test]
fn message_of_unknown_session_goes_to_the_only_connection_ever() {
    let mut endpoint = Endpoint::default();
    let id = opening(&mut endpoint, 0);
    assert_eq!(hear(&mut endpoint, &answer(id, named("a"))), heard(Route::Named(0, vec![])));
    endpoint.set_opening(0, None).expect("nothing to refuse");
    assert_eq!(hear(&mut endpoint, &update("c", 3)), heard(Route::To(0)));
    assert_eq!(hear(&mut endpoint, &ask(json!("x"), "c")), not_open(json!("x"), "c"));
}

#[test]
fn message_without_session_goes_to_oldest_connection() {
    let mut endpoint = two();
    let messages = [
        json!({"jsonrpc": "2.0", "method": "_kimi/news", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "unheard/of"}),
        json!([1]),
    ];
    // Any of the connections may have sent what the agent could not read.
    let unread = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}});
    assert_eq!(hear(&mut endpoint, &unread), heard(Route::Nowhere));
    for message in &messages {
        assert_eq!(hear(&mut endpoint, message), heard(Route::To(0)), "{message}");
    }
    endpoint.remove(0);
    assert_eq!(hear(&mut endpoint, &messages[0]), heard(Route::To(1)));
    assert_eq!(hear(&mut endpoint, &unread), heard(Route::To(1)));
    // It has had another session, whose late messages these may be.
    assert_eq!(hear(&mut endpoint, &update("c", 3)), heard(Route::Nowhere));
    endpoint.remove(1);
    assert_eq!(hear(&mut endpoint, &messages[1]), refused(json!(3)));
}

#[test]
fn response_is_routed_by_id_range() {
    let mut endpoint = two();
    for (id, key) in [(5, 0), (first_id(1) + 7, 1), (first_id(9), 9)] {
        assert_eq!(hear(&mut endpoint, &answer(id, json!({}))), heard(Route::To(key)));
    }
    for id in [json!("a"), json!(-1), json!(1.5)] {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        assert_eq!(hear(&mut endpoint, &message), heard(Route::Nowhere), "{id}");
    }
}

#[test]
fn message_before_session_id_is_buffered() {
    let mut endpoint = two();
    let id = opening(&mut endpoint, 2);
    assert_eq!(hear(&mut endpoint, &update("c", 1)), heard(Route::Nowhere));
    assert_eq!(hear(&mut endpoint, &update("elsewhere", 2)), heard(Route::Nowhere));
    assert_eq!(hear(&mut endpoint, &ask(json!(4), "elsewhere")), heard(Route::Nowhere));
    let Heard { route, written } = hear(&mut endpoint, &answer(id, named("c")));
    assert_eq!(route, Route::Named(2, vec![update("c", 1).to_string().into_bytes()]));
    assert_eq!(written, not_open(json!(4), "elsewhere").written);
}

#[test]
fn request_before_session_id_reaches_the_only_connection() {
    let mut endpoint = Endpoint::default();
    let id = opening(&mut endpoint, 0);
    assert_eq!(hear(&mut endpoint, &update("a", 1)), heard(Route::Nowhere));
    let kept = vec![update("a", 1).to_string().into_bytes()];
    assert_eq!(hear(&mut endpoint, &ask(json!(7), "a")), heard(Route::Named(0, kept)));
    assert_eq!(hear(&mut endpoint, &answer(id, named("a"))), heard(Route::Named(0, vec![])));
    assert_eq!(hear(&mut endpoint, &ask(json!(8), "a")), heard(Route::To(0)));
    // The answer can name another session.
    let mut endpoint = Endpoint::default();
    let id = opening(&mut endpoint, 0);
    assert_eq!(hear(&mut endpoint, &ask(json!(7), "a")), heard(Route::Named(0, vec![])));
    assert_eq!(hear(&mut endpoint, &answer(id, named("b"))), heard(Route::Named(0, vec![])));
    assert_eq!(hear(&mut endpoint, &ask(json!(8), "b")), heard(Route::To(0)));
}

#[test]
fn kept_messages_are_bounded() {
    let mut endpoint = two();
    let id = opening(&mut endpoint, 2);
    let large = json!({"method": "session/update", "params": {"sessionId": "c", "update": "x".repeat(600 << 10)}});
    for _ in 0..4 {
        hear(&mut endpoint, &large);
    }
    let Route::Named(2, kept) = hear(&mut endpoint, &answer(id, named("c"))).route else { panic!("not named") };
    assert_eq!(kept.len(), 2);
}

#[test]
fn leaving_connection_closes_its_session() {
    let mut endpoint = two();
    assert!(endpoint.leave(0));
    let close = values(&endpoint.poll_transmit());
    assert_eq!((&close[0]["method"], &close[0]["params"]), (&json!("session/close"), &named("a")));
    assert_eq!(hear(&mut endpoint, &update("a", 1)), heard(Route::Nowhere));
    assert_eq!(hear(&mut endpoint, &ask(json!(6), "a")), refused(json!(6)));
    assert_eq!(hear(&mut endpoint, &answer(3, json!({}))), heard(Route::Nowhere));
    assert!(endpoint.is_leaving(0));
    let id = close[0]["id"].as_u64().expect("a number");
    assert_eq!(hear(&mut endpoint, &answer(id, json!({}))), heard(Route::Left(0)));
    assert!(!endpoint.is_leaving(0));
    assert_eq!(hear(&mut endpoint, &update("b", 1)), heard(Route::To(1)));
}

#[test]
fn session_opened_after_leave_is_closed() {
    let mut endpoint = two();
    let id = opening(&mut endpoint, 2);
    assert!(!endpoint.leave(2));
    let Heard { route, written } = hear(&mut endpoint, &answer(id, named("c")));
    assert_eq!(
        (route, &written[0]["method"], &written[0]["params"]),
        (Route::Nowhere, &json!("session/close"), &named("c"))
    );
}

#[test]
fn id_of_another_session_fails_second_opening() {
    let resume = || OpeningSession::Resume("c".to_owned());
    for call in [OpeningSession::New, resume()] {
        let mut endpoint = two();
        endpoint.attach(2);
        endpoint.set_opening(2, Some(&call)).expect("allowed");
        let Heard { route, written } = hear(&mut endpoint, &answer(first_id(2) + 1, named("a")));
        let Route::Conflict(2, error) = route else { panic!("{route:?}") };
        assert!(error.to_string().starts_with("the agent opened a session with the id `a`"), "{error}");
        // The session that has the id is not closed.
        assert!(!endpoint.leave(2) && written.is_empty() && endpoint.poll_transmit().is_empty());
        assert_eq!(hear(&mut endpoint, &ask(json!(9), "a")), heard(Route::To(0)));
        assert_eq!(hear(&mut endpoint, &update("c", 1)), heard(Route::Nowhere));
        // The id that was asked for is free again.
        endpoint.attach(3);
        endpoint.set_opening(3, Some(&resume())).expect("allowed");
    }
}

#[test]
fn second_opening_with_same_id_is_refused() {
    let mut endpoint = Endpoint::default();
    let ids = [0, 1].map(|key| opening(&mut endpoint, key));
    assert_eq!(hear(&mut endpoint, &answer(ids[1], named("a"))), heard(Route::Named(1, vec![])));
    assert!(matches!(hear(&mut endpoint, &answer(ids[0], named("a"))).route, Route::Conflict(0, _)));
    assert_eq!(hear(&mut endpoint, &update("a", 1)), heard(Route::To(1)));
}

#[test]
fn resumed_session_gets_past_before_answer() {
    let mut endpoint = two();
    endpoint.attach(2);
    endpoint.set_opening(2, Some(&OpeningSession::Resume("c".to_owned()))).expect("allowed");
    assert_eq!(hear(&mut endpoint, &update("c", 1)), heard(Route::To(2)));
    assert_eq!(hear(&mut endpoint, &answer(first_id(2) + 1, named("d"))), heard(Route::Named(2, vec![])));
    assert_eq!(hear(&mut endpoint, &update("d", 1)), heard(Route::To(2)));
    assert_eq!(hear(&mut endpoint, &update("c", 1)), heard(Route::Nowhere));
}

#[test]
fn concurrent_resume_of_session_is_refused() {
    let resume = |id: &str| OpeningSession::Resume(id.to_owned());
    let mut endpoint = two();
    endpoint.attach(2);
    let refusal = endpoint.set_opening(2, Some(&resume("b"))).expect_err("refused");
    assert_eq!((refusal.code, &*refusal.message), (-32602, "the session `b` is open already"));
    // If the agent refuses, the id is free again.
    endpoint.set_opening(2, Some(&resume("c"))).expect("allowed");
    let refusal = json!({"jsonrpc": "2.0", "id": first_id(2) + 1, "error": {"code": 1, "message": "no"}});
    assert_eq!(hear(&mut endpoint, &refusal), heard(Route::Named(2, vec![])));
    assert_eq!(hear(&mut endpoint, &update("c", 2)), heard(Route::Nowhere));
    endpoint.remove(1);
    endpoint.set_opening(2, Some(&resume("b"))).expect("allowed");
}

#[test]
fn single_connection_gets_everything() {
    let mut endpoint = Endpoint::single();
    endpoint.attach(0);
    assert!(matches!(endpoint.join_handshake(0), HandshakeRole::Ask));
    for message in [update("a", 1), json!({"id": "prompt-1", "result": {}}), json!([])] {
        assert_eq!(hear(&mut endpoint, &message), heard(Route::To(0)));
    }
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Act {
    Update(usize),
    Ask(usize),
    /// The agent answers a call of a session's.
    Answer(usize, u32),
    Leave(usize),
    /// The agent says what it likes.
    Say(String),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let session = 0..3_usize;
    let odd = r#"\{"(id|method|params)":["a0-9{}]{1,4},"(method|result|error)":["a-d0-9{}:]{1,9}\}"#;
    let act = prop_oneof![
        6 => session.clone().prop_map(Act::Update),
        3 => session.clone().prop_map(Act::Ask),
        5 => (session.clone(), 2..u32::MAX).prop_map(|(session, id)| Act::Answer(session, id)),
        1 => session.prop_map(Act::Leave),
        2 => odd.prop_map(Act::Say),
    ];
    proptest::collection::vec(act, 0..80)
}

proptest! {
    /// Each session gets exactly its own messages in any order, and each request without a session is refused.
    #[test]
    fn sessions_get_exactly_their_own_messages(acts in acts()) {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let mut endpoint = two();
        let id = opening(&mut endpoint, 2);
        hear(&mut endpoint, &answer(id, named("c")));
        endpoint.set_opening(2, None).expect("nothing to refuse");
        let mut is_gone = BTreeMap::from([(0, false), (1, false), (2, false)]);
        for (n, act) in acts.into_iter().enumerate() {
            match act {
                Act::Update(key) => {
                    let to = if is_gone[&key] { Route::Nowhere } else { Route::To(key as u64) };
                    prop_assert_eq!(hear(&mut endpoint, &update(NAMES[key], 1)), heard(to));
                }
                Act::Ask(key) => {
                    let expected = if is_gone[&key] { refused(json!(n)) } else { heard(Route::To(key as u64)) };
                    prop_assert_eq!(hear(&mut endpoint, &ask(json!(n), NAMES[key])), expected);
                }
                Act::Answer(key, id) if !is_gone[&key] => {
                    let message = answer(first_id(key as u64) + u64::from(id), json!({}));
                    prop_assert_eq!(hear(&mut endpoint, &message), heard(Route::To(key as u64)));
                }
                Act::Leave(key) if !is_gone[&key] => {
                    prop_assert!(endpoint.leave(key as u64));
                    prop_assert_eq!(values(&endpoint.poll_transmit()).len(), 1);
                    is_gone.insert(key, true);
                }
                Act::Say(line) => {
                    let route = endpoint.route(&jsonrpc::parse(line.as_bytes()), line.as_bytes());
                    prop_assert!(matches!(route, Route::To(_) | Route::Nowhere), "{:?}", route);
                    values(&endpoint.poll_transmit());
                }
                _ => {}
            }
        }
    }
}

fn announcement(parent: &str, child: &str) -> Value {
    let update = json!({"sessionUpdate": "subagent_update", "sessionId": child});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": parent, "update": update}})
}

#[test]
fn child_messages_reach_connection_of_parent() {
    let mut endpoint = Endpoint::default();
    for (key, session) in [(0, "a"), (1, "b")] {
        let call = opening(&mut endpoint, key);
        hear(&mut endpoint, &answer(call, named(session)));
    }
    assert_eq!(hear(&mut endpoint, &ask(json!(5), "child")), not_open(json!(5), "child"));
    assert_eq!(hear(&mut endpoint, &announcement("b", "child")), heard(Route::To(1)));
    assert_eq!(hear(&mut endpoint, &announcement("child", "deep")), heard(Route::To(1)));
    // A session of another connection is not a subagent.
    assert_eq!(hear(&mut endpoint, &announcement("b", "a")), heard(Route::To(1)));
    assert_eq!(hear(&mut endpoint, &update("a", 1)), heard(Route::To(0)));
    for child in ["child", "deep"] {
        assert_eq!(hear(&mut endpoint, &ask(json!(6), child)), heard(Route::To(1)));
    }
    endpoint.remove(1);
    for child in ["child", "deep"] {
        assert_eq!(hear(&mut endpoint, &ask(json!(7), child)), refused(json!(7)));
    }
}
