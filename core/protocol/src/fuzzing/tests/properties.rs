//! The contract holds for random steps in any order, in any dialect and in any pieces.

use proptest::prelude::*;

use crate::fuzzing::play::{EVENTS, REQUESTS, play, trace};
use crate::fuzzing::scenario::{Answering, Deed, Reply, Scenario, Spoken, Step};
use crate::fuzzing::{dialects, envelope, framing};

fn spoken() -> impl Strategy<Value = Spoken> {
    (0..Spoken::all().len()).prop_map(|which| Spoken::all()[which])
}

fn answering() -> impl Strategy<Value = Answering> {
    prop_oneof![
        1 => Just(Answering::Nobody),
        1 => Just(Answering::Yolo),
        2 => Just(Answering::Manual),
        3 => Just(Answering::Handler),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![Just(Deed::Yes), Just(Deed::No), Just(Deed::Fail)]
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        4 => Just(Reply::Finished),
        3 => Just(Reply::Cancelled),
        1 => Just(Reply::MaxSteps),
        3 => Just(Reply::Nothing),
        1 => Just(Reply::Nonsense),
        1 => Just(Reply::NotFound),
        1 => Just(Reply::Busy),
        1 => Just(Reply::Failed),
    ]
}

/// The agent's own steps.
fn agent() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..EVENTS.len() as u8).prop_map(Step::Event),
        4 => (0..REQUESTS.len() as u8, 0..3_u8, 0..12_u8).prop_map(|(kind, id, rpc)| Step::Request { kind, id, rpc }),
        1 => (0..2000_u16).prop_map(Step::Long),
        1 => prop::sample::select(vec![
            &b"null"[..], b"{", b"\xff", b" ", b"[]", b"{\"id\":null,\"error\":{\"code\":-32700}}",
            b"{\"id\":\"prompt-999\",\"result\":{\"status\":\"finished\"}}", b"{\"id\":7,\"method\":\"request\"}",
        ]).prop_map(|line| Step::Line(line.to_vec())),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => agent(),
        8 => (0..3_u8, reply()).prop_map(|(which, reply)| Step::Answer(which, reply)),
        5 => Just(Step::Prompt),
        1 => Just(Step::PromptImage),
        4 => (0..3_u8).prop_map(Step::Cancel),
        2 => (0..2_u8).prop_map(Step::Steer),
        1 => any::<bool>().prop_map(Step::PlanMode),
        1 => Just(Step::Replay),
        1 => (0..3_u8).prop_map(Step::Forget),
        2 => (0..3_u8, deed()).prop_map(|(id, deed)| Step::Respond(id, deed)),
        1 => (0..3_u8).prop_map(Step::Unseen),
        5 => (0..4_u8, deed()).prop_map(|(which, deed)| Step::Handle(which, deed)),
        1 => Just(Step::ObserverFailed),
        1 => any::<bool>().prop_map(Step::Listen),
        1 => Just(Step::Close),
        1 => (0..40_u8).prop_map(Step::Exit),
        1 => Just(Step::Assume),
        3 => (0..200_u8).prop_map(Step::Pieces),
        2 => (0..8_u8).prop_map(Step::Wait),
        2 => Just(Step::Deadline),
    ]
}

fn scenario(steps: impl Strategy<Value = Vec<Step>>) -> impl Strategy<Value = Scenario> {
    let greeted = prop::bool::weighted(0.9);
    (spoken(), answering(), answering(), any::<bool>(), any::<bool>(), greeted, steps).prop_map(
        |(spoken, approval, question, observed, limited, greeted, steps)| Scenario {
            spoken,
            approval,
            question,
            observed,
            limited,
            greeted,
            steps,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn conversation_counts_are_consistent(scenario in scenario(proptest::collection::vec(step(), 0..60))) {
        play(&scenario);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn result_is_independent_of_chunking(
        whole in scenario(proptest::collection::vec(agent(), 0..20)),
        pieces in 1..64_u8,
    ) {
        let mut whole = whole;
        whole.steps.insert(0, Step::Prompt);
        whole.steps.push(Step::Answer(0, Reply::Finished));
        whole.steps.push(Step::Exit(0));
        let mut split = whole.clone();
        split.steps.insert(1, Step::Pieces(pieces));
        prop_assert_eq!(trace(&split), trace(&whole));
    }

    #[test]
    fn any_line_keeps_parser_invariants(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        envelope::check(&line);
        framing::check(&line);
        for which in 0..Spoken::all().len() {
            dialects::check(which as u8, &line);
        }
    }

    #[test]
    fn any_json_keeps_parser_invariants(value in json(), wrap in 0..4_u8, kind in 0..EVENTS.len()) {
        let text = match wrap {
            0 => value,
            1 => format!(r#"{{"method":"event","params":{{"type":"{}","payload":{value}}}}}"#, EVENTS[kind].0),
            2 => format!(r#"{{"id":{value},"method":"request","params":{{"type":"HookRequest","payload":{value}}}}}"#),
            _ => format!(r#"{{"id":"prompt-1","result":{value},"error":{value}}}"#),
        };
        envelope::check(text.as_bytes());
        crate::fuzzing::lenient(text.as_bytes());
        for which in 0..Spoken::all().len() {
            dialects::check(which as u8, text.as_bytes());
        }
    }
}

/// JSON as text, so that it may hold what no value can: repeated names, halves of surrogate pairs, enormous numbers.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "0",
            "-1",
            "1.5",
            "1e400",
            "123456789012345678901234567890",
            "-9223372036854775808",
            "1e-7",
            "0.30000000000000004",
            "\"\\ud800\"",
            "\"\\u0000\"",
            "\"text\"",
            "\"\u{2028}\"",
            "{}",
            "[]",
        ])
        .prop_map(str::to_owned),
        any::<f64>()
            .prop_filter("JSON has no others", |number| number.is_finite())
            .prop_map(|number| format!("{number:?}")),
        any::<i64>().prop_map(|number| number.to_string()),
    ];
    let name = prop::sample::select(vec![
        "id",
        "type",
        "payload",
        "event",
        "n",
        "text",
        "method",
        "params",
        "error",
        "code",
        "extra",
        "user_input",
        "display",
        "request_id",
        "response",
        "task_tool_call_id",
        "parent_tool_call_id",
        "token_usage",
        "wait_s",
    ]);
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((name.clone(), inner), 0..5).prop_map(|fields| {
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}
