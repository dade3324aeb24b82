use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::router::{Key, Output, Router};

fn line(message: &Value) -> Vec<u8> {
    message.to_string().into()
}

fn value(line: &[u8]) -> Value {
    serde_json::from_slice(line).expect("JSON")
}

/// All that comes out: what goes to the agent, what to each session, and who has left.
#[derive(Debug, Default, PartialEq)]
struct Out {
    agent: Vec<Value>,
    sessions: Vec<(Key, Value)>,
    left: Vec<Key>,
    failed: Vec<(Key, String)>,
}

fn out(router: &mut Router) -> Out {
    let mut out = Out::default();
    while let Some(output) = router.poll_output() {
        match output {
            Output::ToAgent(line) => out.agent.push(value(&line)),
            Output::ToSession(key, line) => out.sessions.push((key, value(&line))),
            Output::Left(key) => out.left.push(key),
            Output::Failed(key, error) => out.failed.push((key, format!("{}: {error}", error.code()))),
        }
    }
    out
}

fn says(router: &mut Router, key: Key, message: &Value) -> Out {
    router.session_says(key, &line(message));
    out(router)
}

fn hears(router: &mut Router, message: &Value) -> Out {
    router.agent_says(&line(message));
    out(router)
}

fn hello(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {}})
}

fn able() -> Value {
    json!({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}})
}

fn new(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/new", "params": {"cwd": "/"}})
}

fn prompt(id: u64, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": {"sessionId": name}})
}

fn update(name: &str, n: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": name, "update": n}})
}

fn ask(id: Value, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {"sessionId": name}})
}

fn answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn refusal(id: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32800, "message": "the session is closed"}})
}

/// Two sessions, 1 named `a` and 2 named `b`, of an agent that can close them.
fn two() -> Router {
    let mut router = Router::default();
    for (key, name) in [(1, "a"), (2, "b")] {
        router.attach(key);
        let asked = says(&mut router, key, &hello(0));
        if key == 1 {
            let told = hears(&mut router, &answer(&asked.agent[0]["id"], able()));
            assert_eq!(told.sessions, [(1, answer(&json!(0), able()))]);
        } else {
            // It is not asked twice.
            assert_eq!(asked, Out { sessions: vec![(2, answer(&json!(0), able()))], ..Out::default() });
        }
        let asked = says(&mut router, key, &new(1));
        let told = hears(&mut router, &answer(&asked.agent[0]["id"], json!({"sessionId": name})));
        assert_eq!(told.sessions, [(key, answer(&json!(1), json!({"sessionId": name})))]);
    }
    router
}

#[test]
fn who_asks_while_the_agent_is_asked_gets_the_same_answer() {
    let mut router = Router::default();
    (1..=3).for_each(|key| router.attach(key));
    let first = says(&mut router, 1, &hello(0));
    assert_eq!(first.agent.len(), 1);
    assert_eq!(says(&mut router, 2, &hello(7)), Out::default());
    assert_eq!(says(&mut router, 3, &hello(8)), Out::default());
    // The one that asked is gone, and so is another: the answer counts all the same.
    router.leave(1);
    router.leave(3);
    assert_eq!(out(&mut router).left, [1, 3]);
    let told = hears(&mut router, &answer(&first.agent[0]["id"], able()));
    assert_eq!(told, Out { sessions: vec![(2, answer(&json!(7), able()))], ..Out::default() });
}

#[test]
fn a_refused_handshake_is_refused_for_all_and_asked_again() {
    let mut router = Router::default();
    (1..=2).for_each(|key| router.attach(key));
    let first = says(&mut router, 1, &hello(0));
    says(&mut router, 2, &hello(5));
    let error = json!({"code": -32603, "message": "no"});
    let told = hears(&mut router, &json!({"jsonrpc": "2.0", "id": first.agent[0]["id"], "error": error}));
    let refused = |id: u64| json!({"jsonrpc": "2.0", "id": id, "error": error});
    assert_eq!(told.sessions, [(1, refused(0)), (2, refused(5))]);
    assert_eq!(says(&mut router, 2, &hello(6)).agent.len(), 1);
}

#[test]
fn updates_and_requests_go_to_the_session_that_they_name() {
    let mut router = two();
    assert_eq!(hears(&mut router, &update("b", 1)).sessions, [(2, update("b", 1))]);
    assert_eq!(hears(&mut router, &update("a", 2)).sessions, [(1, update("a", 2))]);
    assert_eq!(hears(&mut router, &ask(json!(0), "b")).sessions, [(2, ask(json!(0), "b"))]);
    // An answer goes out as it is: the agent's ids are the process's.
    let yes = answer(&json!(0), json!("yes"));
    assert_eq!(says(&mut router, 2, &yes), Out { agent: vec![yes], ..Out::default() });
    assert_eq!(hears(&mut router, &update("c", 3)), Out::default());
    assert_eq!(hears(&mut router, &ask(json!("x"), "c")).agent, [refusal(json!("x"))]);
}

#[test]
fn what_names_no_session_is_the_eldests() {
    let mut router = two();
    let lines = [
        json!({"jsonrpc": "2.0", "method": "_kimi/news", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "unheard/of"}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}),
        json!([1]),
    ];
    for line in &lines {
        assert_eq!(hears(&mut router, line).sessions, [(1, line.clone())]);
    }
    router.drop_session(1);
    out(&mut router);
    assert_eq!(hears(&mut router, &lines[0]).sessions, [(2, lines[0].clone())]);
}

#[test]
fn an_answer_to_what_was_not_asked_is_nobodys() {
    let mut router = two();
    // A call of this number is open in one session, and another of it has been answered in the process.
    says(&mut router, 1, &prompt(2, "a"));
    for id in [json!(0), json!(2), json!(99), json!("a"), json!(-1), json!(1.5)] {
        assert_eq!(hears(&mut router, &answer(&id, json!({}))), Out::default(), "{id}");
    }
}

#[test]
fn what_comes_before_a_session_has_a_name_is_kept_for_it() {
    let mut router = two();
    router.attach(3);
    let asked = says(&mut router, 3, &new(1));
    assert_eq!(hears(&mut router, &update("c", 1)), Out::default());
    assert_eq!(hears(&mut router, &update("elsewhere", 2)), Out::default());
    assert_eq!(hears(&mut router, &ask(json!(4), "elsewhere")), Out::default());
    let named = json!({"sessionId": "c"});
    let told = hears(&mut router, &answer(&asked.agent[0]["id"], named.clone()));
    assert_eq!(told.sessions, [(3, update("c", 1)), (3, answer(&json!(1), named))]);
    assert_eq!(told.agent, [refusal(json!(4))]);
}

#[test]
fn what_is_kept_is_bounded() {
    let mut router = two();
    router.attach(3);
    let asked = says(&mut router, 3, &new(1));
    let big = "x".repeat(600 << 10);
    let big = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "c", "update": big}});
    for _ in 0..4 {
        assert_eq!(hears(&mut router, &big), Out::default());
    }
    let told = hears(&mut router, &answer(&asked.agent[0]["id"], json!({"sessionId": "c"})));
    // One and the next to fill it, and the answer.
    assert_eq!(told.sessions.len(), 3);
}

#[test]
fn one_is_closed_while_the_other_goes_on() {
    let mut router = two();
    let others = says(&mut router, 2, &prompt(2, "b"));
    says(&mut router, 1, &prompt(2, "a"));
    hears(&mut router, &ask(json!(5), "a"));
    router.leave(1);
    let left = out(&mut router);
    let methods: Vec<_> = left.agent.iter().map(|line| line["method"].as_str()).collect();
    assert_eq!(methods, [Some("session/cancel"), None, Some("session/close")]);
    assert_eq!(left.agent[1], refusal(json!(5)));
    // That it leaves must not wait for others that read slowly.
    assert!(left.left.is_empty() && router.waits(1));
    // It hears nothing any more, nor does it say anything.
    assert_eq!(hears(&mut router, &update("a", 1)), Out::default());
    assert_eq!(hears(&mut router, &ask(json!(6), "a")).agent, [refusal(json!(6))]);
    assert_eq!(says(&mut router, 1, &prompt(3, "a")), Out::default());
    assert_eq!(hears(&mut router, &answer(&left.agent[2]["id"], json!({}))).left, [1]);
    let told = hears(&mut router, &answer(&others.agent[0]["id"], json!({"stopReason": "end_turn"})));
    assert_eq!(told.sessions, [(2, answer(&json!(2), json!({"stopReason": "end_turn"})))]);
    assert!(!router.waits(1) && !router.waits(2));
}

#[test]
fn a_session_that_nobody_waits_for_any_more_is_closed_once_it_is_there() {
    let mut router = two();
    router.attach(3);
    let asked = says(&mut router, 3, &new(1));
    router.leave(3);
    assert_eq!(out(&mut router).left, [3]);
    let told = hears(&mut router, &answer(&asked.agent[0]["id"], json!({"sessionId": "c"})));
    assert_eq!(told.agent[0]["method"], "session/close");
    assert_eq!(told.agent[0]["params"], json!({"sessionId": "c"}));
    assert!(told.sessions.is_empty());
}

#[test]
fn an_id_that_another_session_has_fails_the_second_opening() {
    let failed = |method: &str, params: Value| {
        let mut router = two();
        router.attach(3);
        says(&mut router, 3, &hello(0));
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let asked = says(&mut router, 3, &call);
        let told = hears(&mut router, &answer(&asked.agent[0]["id"], json!({"sessionId": "a"})));
        // The session that has the id is not closed in place of the new one.
        assert_eq!(told.agent, Vec::<Value>::new(), "{method}");
        assert_eq!((told.sessions, told.left), (vec![], vec![3]), "{method}");
        let [(3, error)] = &told.failed[..] else { panic!("{method}: {:?}", told.failed) };
        assert!(error.starts_with("protocol_error: the agent opened a session with the id `a`"), "{error}");
        // Requests go to the first session, as before.
        assert_eq!(hears(&mut router, &ask(json!(9), "a")).sessions, [(1, ask(json!(9), "a"))], "{method}");
        assert_eq!(hears(&mut router, &update("c", 1)), Out::default(), "{method}");
        router
    };
    failed("session/new", json!({}));
    failed("session/fork", json!({"sessionId": "b"}));
    failed("session/load", json!({"sessionId": "c"}));
    let mut router = failed("session/resume", json!({"sessionId": "c"}));
    // The name that was asked for is free again.
    router.attach(4);
    let resume = json!({"jsonrpc": "2.0", "id": 1, "method": "session/resume", "params": {"sessionId": "c"}});
    assert_eq!(says(&mut router, 4, &resume).agent.len(), 1);
}

#[test]
fn two_openings_at_once_with_one_id_leave_the_first() {
    let mut router = Router::default();
    let ids: Vec<Value> = (1..=2)
        .map(|key| {
            router.attach(key);
            says(&mut router, key, &new(1)).agent[0]["id"].clone()
        })
        .collect();
    assert_eq!(hears(&mut router, &answer(&ids[1], json!({"sessionId": "a"}))).sessions.len(), 1);
    let told = hears(&mut router, &answer(&ids[0], json!({"sessionId": "a"})));
    assert_eq!((told.failed.len(), told.left), (1, vec![1]));
    assert_eq!(hears(&mut router, &update("a", 1)).sessions, [(2, update("a", 1))]);
}

#[test]
fn a_resumed_session_may_get_another_id() {
    let mut router = two();
    router.attach(3);
    let resume = json!({"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"sessionId": "c"}});
    let asked = says(&mut router, 3, &resume);
    let told = hears(&mut router, &answer(&asked.agent[0]["id"], json!({"sessionId": "d"})));
    assert_eq!(told.sessions.len(), 1);
    assert_eq!(hears(&mut router, &update("d", 1)).sessions, [(3, update("d", 1))]);
}

#[test]
fn a_session_is_open_once() {
    let mut router = two();
    router.attach(3);
    let load = |name| json!({"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"sessionId": name}});
    let told = says(&mut router, 3, &load("b"));
    assert!(told.agent.is_empty());
    assert_eq!(told.sessions[0].1["error"]["message"], "the session `b` is open already");
    // Its past comes before the answer, and if there is none, the name is free again.
    let asked = says(&mut router, 3, &load("c"));
    assert_eq!(hears(&mut router, &update("c", 1)).sessions, [(3, update("c", 1))]);
    hears(&mut router, &json!({"jsonrpc": "2.0", "id": asked.agent[0]["id"], "error": {"code": 1, "message": "no"}}));
    assert_eq!(hears(&mut router, &update("c", 2)), Out::default());
    router.drop_session(2);
    out(&mut router);
    assert_eq!(says(&mut router, 3, &load("b")).agent.len(), 1);
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Act {
    /// A session prompts.
    Prompt(usize),
    /// The agent tells of a session.
    Update(usize),
    /// The agent asks it something; it answers in its own time.
    Ask(usize),
    Answer(usize),
    /// The agent answers one of the calls that it has got.
    Settle(prop::sample::Index),
    Leave(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let session = 0..3_usize;
    let act = prop_oneof![
        4 => session.clone().prop_map(Act::Prompt),
        6 => session.clone().prop_map(Act::Update),
        3 => session.clone().prop_map(Act::Ask),
        3 => session.clone().prop_map(Act::Answer),
        5 => any::<prop::sample::Index>().prop_map(Act::Settle),
        1 => session.prop_map(Act::Leave),
    ];
    proptest::collection::vec(act, 0..80)
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Lines that are none, or nearly some.
fn odd() -> impl Strategy<Value = Vec<u8>> {
    let whole: Vec<Vec<u8>> = [
        hello(0),
        new(1),
        prompt(1, "a"),
        update("b", 1),
        ask(json!(7), "a"),
        answer(&json!(7), json!(1)),
        answer(&json!(1), json!({"sessionId": "a"})),
        json!({"id": 2, "method": "session/load", "params": {"sessionId": "b"}}),
    ]
    .iter()
    .map(line)
    .collect();
    let cut = (proptest::sample::select(whole.clone()), any::<prop::sample::Index>())
        .prop_map(|(line, at)| line[..at.index(line.len())].to_vec());
    prop_oneof![
        4 => proptest::sample::select(whole),
        1 => cut,
        1 => proptest::collection::vec(any::<u8>().prop_filter("one line", |byte| *byte != b'\n'), 0..40),
        2 => r#"\{"(id|method|params)":["a0-9{}]{1,4},"(method|result|error)":["a-d0-9{}:]{1,9}\}"#
            .prop_map(String::into_bytes),
    ]
}

proptest! {
    /// Whatever anybody writes: the agent gets whole messages, and sessions that are there get what comes.
    #[test]
    fn nothing_breaks_it(lines in proptest::collection::vec((0..4_u64, odd()), 0..40), leaves in 0..40_usize) {
        let mut failed = std::collections::HashSet::new();
        let mut router = Router::default();
        (1..=3).for_each(|key| router.attach(key));
        for (n, (who, line)) in lines.into_iter().enumerate() {
            match who {
                0 => router.agent_says(&line),
                key => router.session_says(key, &line),
            }
            if n == leaves {
                router.drop_session(2);
            }
            while let Some(output) = router.poll_output() {
                match output {
                    Output::ToAgent(line) => {
                        prop_assert!(!line.contains(&b'\n') && value(&line).is_object());
                    }
                    Output::ToSession(key, _) => prop_assert!((1..=3).contains(&key) && (key != 2 || n <= leaves)),
                    Output::Left(key) => prop_assert!((key, n) == (2, leaves) || failed.remove(&key)),
                    Output::Failed(key, _) => prop_assert!(failed.insert(key) && (1..=3).contains(&key)),
                }
            }
        }
    }

    /// Whatever comes in whatever order: each session gets its own lines, all of them, in order, under its own ids, and
    /// the agent gets each call once, under an id that it has not seen.
    #[test]
    fn each_session_gets_exactly_its_own(acts in acts()) {
        let mut router = Router::default();
        let (mut expected, mut got) = (BTreeMap::<Key, Vec<Value>>::new(), BTreeMap::<Key, Vec<Value>>::new());
        let mut seen = std::collections::HashSet::new();
        // What the agent has got: the id it got, whose it is, and the id that it has there.
        let mut calls: Vec<(Value, usize, u64)> = Vec::new();
        let mut asked: [Vec<Value>; 3] = Default::default();
        let mut next = [1_u64; 3];
        let mut gone = [false; 3];
        let mut count = 0_u64;
        for (n, name) in NAMES.iter().enumerate() {
            let key = n as Key;
            router.attach(key);
            let sent = says(&mut router, key, &new(0));
            prop_assert!(seen.insert(sent.agent[0]["id"].to_string()));
            hears(&mut router, &answer(&sent.agent[0]["id"], json!({"sessionId": name})));
        }
        for act in acts {
            count += 1;
            match act {
                Act::Prompt(n) if !gone[n] => {
                    let id = next[n];
                    next[n] += 1;
                    let sent = says(&mut router, n as Key, &prompt(id, NAMES[n])).agent;
                    prop_assert_eq!(sent.len(), 1);
                    prop_assert_eq!(&sent[0]["params"], &json!({"sessionId": NAMES[n]}));
                    prop_assert!(seen.insert(sent[0]["id"].to_string()));
                    calls.push((sent[0]["id"].clone(), n, id));
                }
                Act::Update(n) => {
                    let line = update(NAMES[n], count);
                    if !gone[n] {
                        expected.entry(n as Key).or_default().push(line.clone());
                    }
                    let told = hears(&mut router, &line);
                    told.sessions.into_iter().for_each(|(key, line)| got.entry(key).or_default().push(line));
                    prop_assert!(told.agent.is_empty());
                }
                Act::Ask(n) => {
                    let line = ask(json!(count), NAMES[n]);
                    let told = hears(&mut router, &line);
                    if gone[n] {
                        prop_assert_eq!(told.agent, vec![refusal(json!(count))]);
                    } else {
                        expected.entry(n as Key).or_default().push(line);
                        asked[n].push(json!(count));
                    }
                    told.sessions.into_iter().for_each(|(key, line)| got.entry(key).or_default().push(line));
                }
                Act::Answer(n) if !gone[n] => {
                    if let Some(id) = asked[n].pop() {
                        let line = answer(&id, json!("yes"));
                        let told = says(&mut router, n as Key, &line);
                        prop_assert_eq!(told, Out { agent: vec![line], ..Out::default() });
                    }
                }
                Act::Settle(index) if !calls.is_empty() => {
                    let (outer, n, inner) = calls.swap_remove(index.index(calls.len()));
                    let told = hears(&mut router, &answer(&outer, json!(count)));
                    if !gone[n] {
                        expected.entry(n as Key).or_default().push(answer(&json!(inner), json!(count)));
                    }
                    told.sessions.into_iter().for_each(|(key, line)| got.entry(key).or_default().push(line));
                }
                Act::Leave(n) if !gone[n] => {
                    gone[n] = true;
                    router.leave(n as Key);
                    let left = out(&mut router);
                    // What it left open is answered for it, each once.
                    let mut refused: Vec<_> = left.agent.iter().filter(|line| line.get("error").is_some()).cloned().collect();
                    let mut open: Vec<_> = asked[n].drain(..).map(refusal).collect();
                    refused.sort_by_key(|line| line["id"].as_u64());
                    open.sort_by_key(|line| line["id"].as_u64());
                    prop_assert_eq!(refused, open);
                    prop_assert_eq!(left.left, vec![n as Key]);
                }
                _ => {}
            }
            for (n, gone) in gone.iter().enumerate() {
                let busy = !gone && calls.iter().any(|(_, of, _)| *of == n);
                prop_assert_eq!(router.waits(n as Key), busy);
            }
        }
        prop_assert_eq!(got, expected);
    }
}
