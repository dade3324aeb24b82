//! The output of Kimi Code's server arrives completely and once, even if the connection is lost.

use proptest::prelude::*;

use crate::fuzzing::kimi_web::{Course, Move, play};
use crate::fuzzing::scenario::{Answering, Deed};

fn approval() -> impl Strategy<Value = Answering> {
    prop_oneof![1 => Just(Answering::Nobody), 1 => Just(Answering::Yolo), 4 => Just(Answering::Handler)]
}

fn one() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => Just(Move::Prompt),
        1 => Just(Move::Cancel),
        2 => Just(Move::Steer),
        1 => Just(Move::Replay),
        4 => (0..4_u8, prop_oneof![Just(Deed::Yes), Just(Deed::No), Just(Deed::Fail)])
            .prop_map(|(which, deed)| Move::Handle(which, deed)),
        12 => (0..4_u8).prop_map(Move::Arrive),
        12 => (0..4_u8).prop_map(Move::Deliver),
        30 => any::<u8>().prop_map(Move::Work),
        1 => Just(Move::Background),
        3 => Just(Move::Break),
        5 => prop::bool::weighted(0.2).prop_map(|is_behind| Move::Reconnect { is_behind }),
        1 => (0..8_u8).prop_map(Move::Wait),
        1 => Just(Move::Deadline),
    ]
}

fn odd() -> impl Strategy<Value = Move> {
    let payload = prop_oneof![
        Just("null".to_owned()),
        Just(r#"{"turnId":0,"promptId":"n-1","reason":"completed","delta":7}"#.to_owned()),
        Just(r#"{"turnId":0,"promptId":"n-1","reason":[],"step":-1,"toolCallId":"x"}"#.to_owned()),
        Just(r#"{"approval_id":"..","turn_id":99999999999,"questions":[{}]}"#.to_owned()),
        Just(r#"{"agentId":"agent-0","turnId":0,"subagentId":"agent-0","step":1,"delta":"d"}"#.to_owned()),
    ];
    let kinds = [
        "turn.started",
        "turn.ended",
        "turn.step.started",
        "turn.step.completed",
        "assistant.delta",
        "tool.call.delta",
        "tool.call.started",
        "tool.result",
        "prompt.completed",
        "prompt.aborted",
        "event.approval.requested",
        "event.question.requested",
        "event.approval.resolved",
        "agent.status.updated",
        "resync_required",
        "novelty",
        "subagent.spawned",
        "task.notified",
        "turn.step.retrying",
        "turn.steer",
    ];
    let frame = (prop::sample::select(kinds.to_vec()), payload, 0..40_u64, prop::sample::select(vec!["s", "other"]));
    prop_oneof![
        frame.prop_map(|(kind, payload, seq, session)| Move::Line(
            format!(
                r#"{{"jsonrpc":"2.0","method":"{kind}","params":{{"session_id":"{session}","seq":{seq},"payload":{payload}}}}}"#
            )
            .into_bytes()
        )),
        prop::sample::select(vec![
            &b"null"[..], b"{", b"\xff", br#"{"jsonrpc":"2.0","id":7,"result":[]}"#,
            br#"{"jsonrpc":"2.0","id":8,"error":{"code":40402,"message":""}}"#,
            br#"{"jsonrpc":"2.0","id":7,"method":"turn.ended","params":{}}"#,
        ]).prop_map(|line| Move::Line(line.to_vec())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn server_events_arrive_complete_and_once(
        approval in approval(),
        moves in proptest::collection::vec(one(), 0..150),
    ) {
        play(&Course { approval, moves });
    }

    #[test]
    fn hostile_frames_approve_nothing(
        approval in approval(),
        moves in proptest::collection::vec(prop_oneof![3 => one(), 1 => odd()], 0..80),
    ) {
        play(&Course { approval, moves });
    }
}
