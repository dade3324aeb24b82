//! The promises hold for any behaviour of an agent of ACP.

use proptest::prelude::*;

use crate::fuzzing::acp::{Conversation, Move, Reply, play};
use crate::fuzzing::scenario::{Answering, Deed};

fn answering() -> impl Strategy<Value = Answering> {
    prop_oneof![
        1 => Just(Answering::Nobody),
        1 => Just(Answering::Yolo),
        1 => Just(Answering::Manual),
        4 => Just(Answering::Handler),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        6 => Just(Reply::Right),
        3 => Just(Reply::Cancelled),
        1 => Just(Reply::Refused),
        1 => Just(Reply::Nonsense),
        1 => Just(Reply::Failed),
    ]
}

fn one() -> impl Strategy<Value = Move> {
    let ours = || prop::bool::weighted(0.9);
    prop_oneof![
        5 => Just(Move::Prompt),
        4 => (0..3_u8).prop_map(Move::Cancel),
        2 => any::<bool>().prop_map(Move::PlanMode),
        1 => Just(Move::Steer),
        6 => (0..4_u8, prop_oneof![Just(Deed::Yes), Just(Deed::No), Just(Deed::Fail)])
            .prop_map(|(which, deed)| Move::Handle(which, deed)),
        1 => any::<bool>().prop_map(Move::Listen),
        1 => Just(Move::Close),
        8 => (0..3_u8, reply()).prop_map(|(which, reply)| Move::Answer(which, reply)),
        10 => (ours(), 0..10_u8, 0..3_u8).prop_map(|(ours, update, tool)| Move::Say { ours, update, tool }),
        8 => (ours(), any::<u8>(), 0..3_u8, any::<u8>())
            .prop_map(|(ours, id, tool, options)| Move::Ask { ours, id, tool, options }),
        1 => prop::sample::select(vec![
            &b"null"[..], b"{", b"\xff", b"[]", br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#,
            br#"{"jsonrpc":"2.0","id":"prompt-2","result":{"stopReason":"end_turn"}}"#,
            br#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{}}"#,
        ]).prop_map(|line| Move::Line(line.to_vec())),
        2 => (0..8_u8).prop_map(Move::Wait),
        2 => Just(Move::Deadline),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn conversation_ends_once_without_unasked_approvals(
        approval in answering(),
        question in answering(),
        limited in any::<bool>(),
        opened in prop::bool::weighted(0.9),
        moves in proptest::collection::vec(one(), 0..60),
    ) {
        play(&Conversation { approval, question, limited, opened, moves });
    }
}
