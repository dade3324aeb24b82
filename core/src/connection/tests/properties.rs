//! Whatever happens in whatever order: the promises of the connection hold.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::Approval;
use crate::dialect::Answer;
use crate::wire::framing::LineBuffer;

#[derive(Clone, Debug)]
enum Step {
    Prompt,
    Cancel,
    Steer,
    PlanMode,
    Replay,
    /// The agent answers one of our calls that are open, or one that is not.
    Answer(prop::sample::Index, Reply),
    Event(usize),
    Request(usize, u8),
    /// A function's answer, or failure, to anything that was ever asked.
    Handle(prop::sample::Index, bool),
    Respond(u8),
    Unseen(u8),
    Noise(usize),
    Wait(u8),
    Deadline,
    Listen(bool),
    Close,
}

#[derive(Clone, Debug)]
enum Reply {
    Finished,
    Cancelled,
    Nothing,
    Error(i64),
}

const EVENTS: &[(&str, &str)] = &[
    ("TurnBegin", r#"{"user_input":"hi"}"#),
    ("StepBegin", r#"{"n":1}"#),
    ("ContentPart", r#"{"type":"text","text":"word"}"#),
    ("StatusUpdate", r#"{"token_usage":{"input_other":1,"output":1,"input_cache_read":0,"input_cache_creation":0}}"#),
    ("TurnEnd", "{}"),
    ("ApprovalResponse", r#"{"request_id":"id-1","response":"approve"}"#),
    ("Sparkle", "[]"),
    ("StepBegin", "{}"),
];
const REQUESTS: &[&str] = &["ApprovalRequest", "QuestionRequest", "ToolCallRequest", "HookRequest", "Sparkle"];
const NOISE: &[&str] =
    &["null", "{", r#"{"id":"prompt-999","result":{"status":"finished"}}"#, r#"{"id":null,"error":{"code":-32700}}"#];

fn step() -> impl Strategy<Value = Step> {
    let reply = prop_oneof![
        3 => Just(Reply::Finished),
        2 => Just(Reply::Cancelled),
        2 => Just(Reply::Nothing),
        1 => prop_oneof![Just(-32000), Just(-32003), Just(-32603)].prop_map(Reply::Error),
    ];
    prop_oneof![
        4 => Just(Step::Prompt),
        3 => Just(Step::Cancel),
        1 => Just(Step::Steer),
        1 => Just(Step::PlanMode),
        1 => Just(Step::Replay),
        6 => (any::<prop::sample::Index>(), reply).prop_map(|(which, reply)| Step::Answer(which, reply)),
        6 => (0..EVENTS.len()).prop_map(Step::Event),
        4 => (0..REQUESTS.len(), 0..3u8).prop_map(|(kind, id)| Step::Request(kind, id)),
        4 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(which, fine)| Step::Handle(which, fine)),
        2 => (0..3u8).prop_map(Step::Respond),
        1 => (0..3u8).prop_map(Step::Unseen),
        1 => (0..NOISE.len()).prop_map(Step::Noise),
        2 => (0..8u8).prop_map(Step::Wait),
        2 => Just(Step::Deadline),
        1 => any::<bool>().prop_map(Step::Listen),
        1 => Just(Step::Close),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let who = || prop_oneof![Just(Who::Nobody), Just(Who::Manual), Just(Who::Handler)];
    (prop_oneof![1 => Just(Who::Yolo), 3 => who()], who(), any::<bool>()).prop_map(|(approval, question, observed)| {
        Policy {
            approval,
            question,
            observed,
            tools: ["add".to_owned()].into(),
            hooks: [("h".to_owned(), (crate::OnError::Block, "Stop".to_owned()))].into(),
        }
    })
}

/// Keeps the books on what came out.
#[derive(Default)]
struct Books {
    begun: TurnKey,
    ended: BTreeMap<TurnKey, usize>,
    calls: BTreeMap<CallKey, usize>,
    asked: Vec<RequestKey>,
    withdrawn: BTreeSet<RequestKey>,
    events: usize,
    hopeless: usize,
}

impl Books {
    fn look(&mut self, connection: &mut Connection) {
        while let Some(output) = connection.poll_output() {
            match output {
                Output::Event { scope: Scope::Turn(turn, _), .. } => {
                    assert!(!self.ended.contains_key(&turn), "an event after the end of turn {turn}");
                    self.events += 1;
                }
                Output::Event { .. } => self.events += 1,
                Output::Ask { key, .. } => {
                    assert!(!self.asked.contains(&key), "asked twice");
                    self.asked.push(key);
                }
                Output::Withdrawn(key) => assert!(self.withdrawn.insert(key), "withdrawn twice"),
                Output::CallEnded { call, .. } => *self.calls.entry(call).or_default() += 1,
                Output::TurnEnded { turn, .. } => {
                    *self.ended.entry(turn).or_default() += 1;
                    assert_eq!(self.ended[&turn], 1, "turn {turn} ended twice");
                }
                Output::Opened(_) => panic!("opened twice"),
                Output::Hopeless(_) => self.hopeless += 1,
            }
        }
    }
}

fn payload(kind: &str, id: &str) -> Value {
    match kind {
        "ApprovalRequest" => approval(id),
        "QuestionRequest" => json!({"id": id, "tool_call_id": "t", "questions": []}),
        "ToolCallRequest" => json!({"id": id, "name": "add"}),
        "HookRequest" => json!({"id": id, "subscription_id": "h", "event": "Stop"}),
        _ => json!({"id": id}),
    }
}

fn play(steps: &[Step], policy: Policy) {
    let limits = Timing { turn: Some(40 * SECOND), idle: Some(15 * SECOND), ..timing() };
    let mut peer = Peer::open_with(limits, policy);
    let mut books = Books::default();
    let mut made = Vec::new();
    let mut requests = 0;
    let mut delivered = 0;
    for step in steps {
        let closed = peer.connection.is_closed();
        match step {
            Step::Prompt => {
                books.begun += 1;
                peer.prompt(books.begun);
            }
            Step::Cancel => peer.cancel(books.begun.saturating_sub(books.begun % 2)),
            Step::Steer => made.extend(peer.connection.steer(books.begun, "more".into(), peer.now)),
            Step::PlanMode => made.extend(peer.connection.set_plan_mode(true, peer.now)),
            Step::Replay => made.extend(peer.connection.start_replay(peer.now)),
            Step::Answer(which, reply) => {
                peer.look();
                let calls: Vec<_> = peer.sent.iter().filter(|sent| sent["method"].is_string()).collect();
                let id = which.get(&calls)["id"].clone();
                if id.as_str().is_some_and(|id| id.starts_with("initialize")) {
                    continue;
                }
                peer.line(&match reply {
                    Reply::Finished => json!({"id": id, "result": {"status": "finished"}}),
                    Reply::Cancelled => json!({"id": id, "result": {"status": "cancelled"}}),
                    Reply::Nothing => json!({"id": id, "result": {}}),
                    Reply::Error(code) => json!({"id": id, "error": {"code": code, "message": "no"}}),
                });
            }
            Step::Event(which) => {
                let (kind, payload) = EVENTS[*which];
                peer.event(kind, &serde_json::from_str(payload).expect("JSON"));
                delivered += usize::from(!closed);
            }
            Step::Request(kind, id) => {
                requests += 1;
                let kind = REQUESTS[*kind];
                peer.request(&format!("r{requests}"), kind, &payload(kind, &format!("id-{id}")));
                delivered += usize::from(!closed);
            }
            Step::Handle(which, fine) => {
                if !books.asked.is_empty() {
                    let key = *which.get(&books.asked);
                    if *fine {
                        peer.connection.answer(key, &Answer::Approval(Approval::Approve), peer.now);
                    } else {
                        peer.connection.handler_failed(key, "boom".into(), peer.now);
                    }
                }
            }
            Step::Respond(id) => {
                drop(peer.connection.respond(&format!("id-{id}"), ManualAnswer::Json(json!("approve")), peer.now));
            }
            Step::Unseen(id) => peer.connection.unseen(&format!("id-{id}"), peer.now),
            Step::Noise(which) => peer.text(NOISE[*which]),
            Step::Wait(seconds) => peer.wait(u32::from(*seconds) * SECOND),
            Step::Deadline => {
                if peer.connection.next_deadline().is_some() {
                    peer.now = peer.now.max(peer.connection.next_deadline().expect("a deadline"));
                    peer.connection.on_deadline(peer.now);
                }
            }
            Step::Listen(listening) => peer.connection.set_listening(*listening, peer.now),
            Step::Close => peer.connection.close(&Error::SessionClosed),
        }
        books.look(&mut peer.connection);
    }
    // A turn that nobody ends but the clock still ends, where it is to be cancelled.
    peer.connection.set_listening(true, peer.now);
    for turn in 1..=books.begun {
        peer.cancel(turn);
    }
    while peer.connection.next_deadline().is_some() {
        peer.pass();
        books.look(&mut peer.connection);
    }
    assert_eq!(books.ended.len() as u64, books.begun, "a turn did not end");
    peer.connection.close(&Error::SessionClosed);
    books.look(&mut peer.connection);
    for call in made {
        assert_eq!(books.calls.remove(&call), Some(1), "call {call} did not end once");
    }
    assert!(books.calls.is_empty(), "calls ended that were not made");
    assert!(books.hopeless <= 1);
    assert!(books.events >= delivered, "an event was lost");
    peer.look();
    let mut answers = BTreeSet::new();
    for sent in peer.sent.iter().filter(|sent| sent.get("method").is_none()) {
        assert!(answers.insert(sent["id"].to_string()), "{} is answered twice", sent["id"]);
    }
    assert!(answers.len() <= requests);
    assert!(!peer.connection.requests.waiting());
    assert!(peer.connection.calls.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn everything_ends_once_whatever_happens(steps in proptest::collection::vec(step(), 0..60), policy in policy()) {
        play(&steps, policy);
    }

    #[test]
    fn any_split_of_the_bytes_gives_the_same(
        lines in proptest::collection::vec((0..EVENTS.len(), any::<bool>()), 0..12),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut bytes = Vec::new();
        for (which, is_event) in lines {
            let (kind, payload) = EVENTS[which];
            let payload: Value = serde_json::from_str(payload).expect("JSON");
            let line = if is_event { event(kind, &payload).to_string() } else { NOISE[which % NOISE.len()].to_owned() };
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        let feed = |pieces: &[&[u8]]| {
            let mut peer = Peer::open();
            peer.prompt(1);
            let mut buffer = LineBuffer::new(1 << 20);
            for piece in pieces {
                buffer.extend(piece);
                while let Some(line) = buffer.next_line().expect("short lines") {
                    peer.connection.receive(&line, peer.now);
                }
            }
            peer.finish();
            std::iter::from_fn(move || peer.connection.poll_output()).map(|output| format!("{output:?}")).collect::<Vec<_>>()
        };
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(feed(&pieces), feed(&[&bytes]));
    }

    #[test]
    fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200), policy in policy()) {
        let mut peer = Peer::open_with(timing(), policy);
        peer.prompt(1);
        peer.connection.receive(&line, peer.now);
        peer.finish();
        prop_assert!(peer.trace().contains(&"turn 1 finished".to_owned()));
    }
}

#[test]
fn outputs_come_in_the_order_of_their_lines() {
    let mut peer = Peer::open_with(timing(), Policy { approval: Who::Handler, ..Policy::default() });
    peer.prompt(1);
    peer.event("StepBegin", &json!({"n": 1}));
    peer.request("r", "ApprovalRequest", &approval("a"));
    peer.connection.set_plan_mode(true, peer.now).expect("sent");
    peer.event("StatusUpdate", &json!({"plan_mode": true}));
    peer.answer("set_plan_mode", &json!({}));
    peer.event("TurnEnd", &json!({}));
    peer.finish();
    assert_eq!(
        peer.trace(),
        [
            "1.0 StepBegin",
            "1.0 ApprovalRequest",
            "ask ApprovalRequest",
            "1.0 StatusUpdate",
            "call {}",
            "1.0 TurnEnd",
            "withdrawn",
            "turn 1 finished",
        ]
    );
}
