//! Approvals fail closed: an ambiguous answer or request is a rejection. `docs/evidence/security.md` lists the cases.

use proptest::prelude::*;

use super::*;
use crate::Approval;
use crate::dialect::Answer;

fn by_hand() -> AnswerSources {
    AnswerSources { approval: AnswerSource::Manual, observed: true, ..AnswerSources::default() }
}

fn in_turn(policy: AnswerSources) -> Peer {
    let mut peer = Peer::open_with(timing(), policy);
    peer.prompt(1);
    peer.said();
    peer.trace();
    peer
}

fn rejected(rpc: &str, id: &str) -> String {
    format!(r#""{rpc}" {{"request_id":"{id}","response":"reject"}}"#)
}

#[test]
fn manual_requests_with_same_id_are_rejected() {
    let mut peer = in_turn(by_hand());
    peer.request("r1", "ApprovalRequest", &approval("a"));
    peer.request("r2", "ApprovalRequest", &approval("b"));
    assert_eq!(peer.said(), [""; 0]);
    peer.request("r3", "ApprovalRequest", &approval("a"));
    assert_eq!(peer.said(), [rejected("r1", "a"), rejected("r3", "a")]);
    let failures = peer.trace().into_iter().filter(|line| line.ends_with("HandlerFailed")).count();
    assert_eq!(failures, 2, "the program is told");
    // An answer of the program's now comes too late for either. The other request is not touched.
    peer.connection.respond("a", ManualAnswer::Approval(Approval::Approve), peer.now).expect("late");
    assert_eq!(peer.said(), [""; 0]);
    peer.connection.respond("b", ManualAnswer::Approval(Approval::Approve), peer.now).expect("answered");
    assert_eq!(peer.said(), [r#""r2" {"request_id":"b","response":"approve"}"#]);
}

#[test]
fn manual_answer_never_answers_later_request() {
    let mut peer = in_turn(by_hand());
    peer.request("r1", "ApprovalRequest", &approval("a"));
    // Somebody else resolves it while a person still looks at it; then the agent asks for something else.
    peer.event("ApprovalResponse", &json!({"request_id": "a", "response": "reject"}));
    peer.request("r2", "ApprovalRequest", &approval("a"));
    peer.connection.respond("a", ManualAnswer::Approval(Approval::Approve), peer.now).expect("late");
    assert_eq!(peer.said(), [rejected("r2", "a")]);
    // Also one that is rejected because the turn is being cancelled, while another waits.
    let mut background = approval("b");
    background["source_kind"] = json!("background_agent");
    peer.request("r3", "ApprovalRequest", &background);
    peer.cancel(1);
    peer.said();
    peer.request("r4", "ApprovalRequest", &approval("b"));
    assert_eq!(peer.said(), [rejected("r3", "b"), rejected("r4", "b")]);
    // In another turn it is another request.
    peer.finish();
    peer.prompt(2);
    peer.said();
    peer.request("r5", "ApprovalRequest", &approval("a"));
    peer.connection.respond("a", ManualAnswer::Approval(Approval::Approve), peer.now).expect("answered");
    assert_eq!(peer.said(), [r#""r5" {"request_id":"a","response":"approve"}"#]);
}

#[test]
fn unreadable_request_is_refused_with_any_policy() {
    let full = || approval("a");
    let without = |name: &str| {
        let mut payload = full();
        payload.as_object_mut().expect("an object").remove(name);
        payload
    };
    let with = |name: &str, value: Value| {
        let mut payload = full();
        payload[name] = value;
        payload
    };
    let odd = [
        json!(null),
        json!(7),
        json!("approve"),
        json!([full()]),
        json!({}),
        without("id"),
        with("id", json!(null)),
        with("id", json!(7)),
        with("id", json!({"a": 1})),
        with("display", json!("a text")),
        with("display", json!({"type": "shell"})),
        with("description", json!(["ls"])),
        with("action", json!(false)),
    ];
    for who in [AnswerSource::Default, AnswerSource::Yolo, AnswerSource::Manual, AnswerSource::Handler] {
        for payload in &odd {
            let mut peer = in_turn(AnswerSources { approval: who, ..by_hand() });
            peer.request("r", "ApprovalRequest", payload);
            assert_eq!(peer.said(), [r#""r" -32602"#], "{who:?} {payload}");
            assert_eq!(peer.trace(), ["1.0 ApprovalRequest"], "{who:?} {payload}");
        }
        // Nothing at all where a payload should be, and a spelling that is not the type's.
        let mut peer = in_turn(AnswerSources { approval: who, ..by_hand() });
        peer.line(
            &json!({"jsonrpc": "2.0", "id": "r", "method": "request", "params": {"type": "approvalrequest", "payload": full()}}),
        );
        peer.line(&json!({"jsonrpc": "2.0", "id": "s", "method": "request", "params": {"type": "ApprovalRequest"}}));
        assert_eq!(peer.said(), [r#""r" -32601"#, r#""s" -32602"#], "{who:?}");
    }
}

#[test]
fn unknown_request_fields_do_not_change_answer() {
    let mut odd = approval("a");
    odd["response"] = json!("approve");
    odd["source_kind"] = json!("something new");
    odd["pre_approved"] = json!(true);
    let mut peer = in_turn(AnswerSources::default());
    peer.request("r", "ApprovalRequest", &odd);
    assert_eq!(peer.said(), [rejected("r", "a")]);
    let mut peer = in_turn(by_hand());
    peer.request("r", "ApprovalRequest", &odd);
    assert_eq!(peer.said(), [""; 0]);
    peer.connection.answer_undelivered("a", peer.now);
    assert_eq!(peer.said(), [rejected("r", "a")]);
}

/// Invalid answers that a handler may return.
fn answers() -> Vec<Value> {
    vec![
        json!("approve"),
        json!("approve_for_session"),
        json!("reject"),
        json!({"reject": "no"}),
        json!(null),
        json!(true),
        json!(1),
        json!(""),
        json!("Approve"),
        json!("APPROVE"),
        json!(" approve"),
        json!("approve\n"),
        json!("approved"),
        json!("approve_for_ever"),
        json!("yes"),
        json!("\u{ff41}pprove"),
        json!(["approve"]),
        json!({"approve": true}),
        json!({"response": "approve"}),
        json!({"reject": null}),
        json!({"reject": "no", "approve": true}),
    ]
}

fn is_yes(answer: &Value) -> bool {
    matches!(answer.as_str(), Some("approve" | "approve_for_session"))
}

#[test]
fn approval_needs_exact_words() {
    for answer in answers() {
        let read = crate::answers::parse_approval(&answer);
        let approves = matches!(read, Ok(Approval::Approve | Approval::ApproveForSession));
        assert_eq!(approves, is_yes(&answer), "{answer} is {read:?}");
        // As a manual answer it is an error, and the request stays open.
        let mut peer = in_turn(by_hand());
        peer.request("r", "ApprovalRequest", &approval("a"));
        let done = peer.connection.respond("a", ManualAnswer::Json(answer.clone()), peer.now);
        let said = peer.said();
        assert_eq!(done.is_ok(), read.is_ok(), "{answer}");
        assert_eq!(said.len(), usize::from(done.is_ok()), "{answer}: {said:?}");
        assert_eq!(said.iter().any(|line| line.contains(r#""response":"approve"#)), is_yes(&answer), "{said:?}");
    }
}

#[derive(Clone, Debug)]
enum Deed {
    Ask { id: u8, background: bool },
    Question(u8),
    Handle(u8, Outcome),
    Respond(u8, usize),
    Resolved(u8),
    Unseen(u8),
    Prompt,
    Finish,
    Cancel,
    Replay,
    Replayed(u8),
    Garbage(usize),
    Deadline,
    Close,
}

/// The result of a handler.
#[derive(Clone, Debug)]
enum Outcome {
    Said(usize),
    Failed,
}

const GARBAGE: [&str; 6] = [
    "null",
    r#"{"jsonrpc":"2.0","id":"r1","result":{"request_id":"id-1","response":"approve"}}"#,
    r#"{"jsonrpc":"2.0","method":"event","params":{"type":"ApprovalResponse","payload":{"request_id":7}}}"#,
    r#"{"jsonrpc":"2.0","id":"x","method":"request","params":{"type":"ApprovalRequest","payload":{"id":"id-1"}}}"#,
    r#"{"jsonrpc":"2.0","id":null,"method":"request","params":{"type":"ApprovalRequest","payload":{}}}"#,
    r#"{"jsonrpc":"2.0","method":"event","params":{"type":"HandlerFailed","payload":{"request_id":"id-1"}}}"#,
];

fn deed() -> impl Strategy<Value = Deed> {
    let outcome =
        prop_oneof![(0..answers().len()).prop_map(Outcome::Said), Just(Outcome::Said(0)), Just(Outcome::Failed)];
    prop_oneof![
        8 => (0..4_u8, any::<bool>()).prop_map(|(id, background)| Deed::Ask { id, background }),
        1 => (0..4_u8).prop_map(Deed::Question),
        6 => (0..6_u8, outcome).prop_map(|(which, outcome)| Deed::Handle(which, outcome)),
        6 => (0..4_u8, prop_oneof![Just(0), Just(1), 0..answers().len()]).prop_map(|(id, said)| Deed::Respond(id, said)),
        2 => (0..4_u8).prop_map(Deed::Resolved),
        1 => (0..4_u8).prop_map(Deed::Unseen),
        2 => Just(Deed::Prompt),
        1 => Just(Deed::Finish),
        1 => Just(Deed::Cancel),
        1 => Just(Deed::Replay),
        1 => (0..3_u8).prop_map(Deed::Replayed),
        1 => (0..GARBAGE.len()).prop_map(Deed::Garbage),
        1 => Just(Deed::Deadline),
        1 => Just(Deed::Close),
    ]
}

/// A request to the program, its source, and the answer to it.
struct Witness {
    peer: Peer,
    /// The ids of all approvals that were asked, by the envelope's id.
    ids: Vec<(String, String)>,
    /// The requests to handlers: their keys, and the envelope's id.
    asked: Vec<(RequestKey, String)>,
    by_hand: bool,
    turns: TurnKey,
}

impl Witness {
    /// The approvals that are sent now; a function that is asked is remembered with the request that made it so.
    fn look(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        while let Some(output) = self.peer.next_output() {
            match output {
                Output::Event { event, .. } => {
                    if let Event::ApprovalRequest(request) = *event {
                        seen.push(request.tool_call_id);
                    }
                }
                // It is shown before it is asked; its tool call is the envelope's id, here.
                Output::Ask { key, request, .. } => {
                    if let Event::ApprovalRequest(request) = *request {
                        assert!(seen.contains(&request.tool_call_id));
                        self.asked.push((key, request.tool_call_id));
                    }
                }
                _ => {}
            }
        }
        let mut said = self.peer.said();
        said.retain(|line| line.contains(r#"","response":"approve"#));
        said
    }

    fn step(&mut self, deed: &Deed) {
        let mut allowed: Option<String> = None;
        let peer = &mut self.peer;
        match deed {
            Deed::Ask { id, background } => {
                let (id, rpc) = (format!("id-{id}"), format!("r{}", self.ids.len()));
                let mut payload = approval(&id);
                payload["tool_call_id"] = json!(rpc);
                if *background {
                    payload["source_kind"] = json!("background_agent");
                }
                peer.request(&rpc, "ApprovalRequest", &payload);
                self.ids.push((rpc, id));
            }
            Deed::Question(id) => {
                let payload = json!({"id": format!("id-{id}"), "tool_call_id": "q", "questions": []});
                peer.request("q", "QuestionRequest", &payload);
            }
            Deed::Handle(which, outcome) if !self.asked.is_empty() => {
                let (key, rpc) = self.asked[usize::from(*which) % self.asked.len()].clone();
                match outcome {
                    Outcome::Failed => peer.connection.handler_failed(key, "boom".to_owned(), peer.now),
                    Outcome::Said(which) => match crate::answers::parse_approval(&answers()[*which]) {
                        Ok(answer) => {
                            allowed = is_yes(&answers()[*which]).then_some(rpc);
                            peer.connection.answer(key, &Answer::Approval(answer), peer.now);
                        }
                        Err(error) => peer.connection.handler_failed(key, error.to_string(), peer.now),
                    },
                }
            }
            Deed::Respond(id, which) => {
                let (id, answer) = (format!("id-{id}"), answers()[*which].clone());
                let mut meant = self.ids.iter().filter(|(_, its)| *its == id).map(|(rpc, _)| rpc.clone());
                // Exactly one request was ever made by that id.
                let only = meant.next().filter(|_| meant.next().is_none());
                allowed = only.filter(|_| is_yes(&answer) && self.by_hand);
                drop(peer.connection.respond(&id, ManualAnswer::Json(answer), peer.now));
            }
            Deed::Resolved(id) => {
                peer.event("ApprovalResponse", &json!({"request_id": format!("id-{id}"), "response": "approve"}));
            }
            Deed::Unseen(id) => peer.connection.answer_undelivered(&format!("id-{id}"), peer.now),
            // By hand, ids may come again in a later turn: one turn is looked at.
            Deed::Prompt if !self.by_hand => {
                self.turns += 1;
                peer.prompt(self.turns);
            }
            Deed::Finish if !self.by_hand => peer.finish(),
            Deed::Cancel => peer.cancel(self.turns),
            Deed::Replay if !self.by_hand => drop(peer.connection.start_replay(peer.now)),
            Deed::Replayed(requests) if peer.sent.iter().any(|sent| sent["method"] == "replay") => {
                peer.answer("replay", &json!({"status": "finished", "events": 1, "requests": requests}));
            }
            Deed::Garbage(which) => peer.text(GARBAGE[*which]),
            Deed::Deadline if peer.connection.poll_timeout().is_some() => peer.pass(),
            Deed::Close => peer.connection.close(&Error::session_closed()),
            _ => {}
        }
        let approved = self.look();
        let expected: Vec<_> = allowed.iter().map(|rpc| format!("\"{rpc}\" ")).collect();
        assert!(approved.len() <= expected.len(), "{deed:?}: approved {approved:?}, where {expected:?} may be");
        assert!(approved.iter().zip(&expected).all(|(line, rpc)| line.starts_with(rpc)), "{approved:?} {expected:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    /// An approval is sent only for a request that was just approved, in any order of handlers, manual answers and the agent.
    #[test]
    fn approval_is_sent_only_after_approval(
        who in prop::sample::select(vec![AnswerSource::Default, AnswerSource::Manual, AnswerSource::Handler]),
        observed in any::<bool>(),
        deeds in proptest::collection::vec(deed(), 1..50),
    ) {
        let policy = AnswerSources { approval: who, question: who, observed, ..AnswerSources::default() };
        let mut witness =
            Witness { peer: in_turn(policy), ids: Vec::new(), asked: Vec::new(), by_hand: who == AnswerSource::Manual, turns: 1 };
        for deed in &deeds {
            witness.step(deed);
        }
    }

    #[test]
    fn other_text_never_approves(text in ".{0,20}") {
        let read = crate::answers::parse_approval(&json!(text));
        prop_assert_eq!(matches!(read, Ok(Approval::Approve | Approval::ApproveForSession)), is_yes(&json!(text)));
    }
}
