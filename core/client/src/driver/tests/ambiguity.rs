//! Approvals fail closed: no end of a handler, a turn or a session approves a request. `docs/evidence/security.md` has the
//! table.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::messages::ApprovalRequest;
use crate::{Approval, HandlerError};

/// The behaviour of a handler for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Approve,
    ApproveForSession,
    Reject,
    Fail,
    /// Before there is a future.
    PanicAtOnce,
    PanicLater,
    /// It never answers.
    Never,
    /// It says yes when the turn is long over.
    TooLate,
}

impl Deed {
    fn approves(self) -> bool {
        matches!(self, Self::Approve | Self::ApproveForSession)
    }

    async fn run(self) -> Result<Approval, HandlerError> {
        match self {
            Self::Approve => Ok(Approval::Approve),
            Self::ApproveForSession => Ok(Approval::ApproveForSession),
            Self::Reject => Ok(Approval::reject("no")),
            Self::Fail => Err("no idea".into()),
            Self::PanicAtOnce | Self::PanicLater => panic!("on purpose"),
            Self::Never => std::future::pending().await,
            Self::TooLate => {
                tokio::time::sleep(3600 * SECOND).await;
                Ok(Approval::Approve)
            }
        }
    }
}

/// An action while handlers may still run.
#[derive(Clone, Copy, Debug)]
enum End {
    Finish,
    Cancel,
    /// Somebody else resolves all of them.
    Resolved,
    Close,
    Drop,
    AgentGone,
}

/// Plays a turn in which so much is asked; gives what the agent was answered, by the request's number.
async fn played(deeds: &[Deed], end: End) -> Vec<(usize, String)> {
    let plan: Arc<[Deed]> = deeds.into();
    let options = SessionOptions::new().on_approval(move |request: ApprovalRequest| {
        let deed = plan[request.id.parse::<usize>().expect("a number")];
        assert_ne!(deed, Deed::PanicAtOnce, "on purpose");
        deed.run()
    });
    let (session, mut agent, mut turn) = in_turn(options).await;
    for n in 0..deeds.len() {
        agent.ask_approval(&n.to_string()).await;
    }
    idle().await;
    match end {
        End::Finish => agent.finish().await,
        End::Resolved => {
            for n in 0..deeds.len() {
                agent.event("ApprovalResponse", json!({"request_id": n.to_string(), "response": "approve"})).await;
            }
            idle().await;
            agent.finish().await;
        }
        End::AgentGone => agent.exit.code(3),
        End::Cancel | End::Close | End::Drop => {}
    }
    let program = async move {
        match end {
            End::Finish | End::Resolved | End::AgentGone => drop(turn.result().await),
            End::Cancel => drop(turn.cancel().await),
            End::Close => session.close().await.expect("closed"),
            End::Drop => {}
        }
        drop((session, turn));
    };
    let agent = async move {
        let mut answers = Vec::new();
        agent.exit.obey();
        loop {
            let line = agent.read().await;
            if line.is_null() {
                agent.exit.code(0);
                return answers;
            }
            if line["method"] == "cancel" {
                agent.send(json!({"jsonrpc": "2.0", "id": line["id"], "result": {}})).await;
                agent.answer("prompt", json!({"status": "cancelled"})).await;
            } else if let Some(response) = line["result"]["response"].as_str() {
                assert_eq!(line["id"], line["result"]["request_id"]);
                let n = line["id"].as_str().expect("text").parse().expect("a number");
                answers.push((n, response.to_owned()));
            }
        }
    };
    let ((), answers) = tokio::join!(program, agent);
    answers
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

const DEEDS: [Deed; 8] = [
    Deed::Approve,
    Deed::ApproveForSession,
    Deed::Reject,
    Deed::Fail,
    Deed::PanicAtOnce,
    Deed::PanicLater,
    Deed::Never,
    Deed::TooLate,
];

#[test]
fn handler_without_approval_rejects() {
    for end in [End::Finish, End::Cancel, End::Resolved, End::Close, End::Drop, End::AgentGone] {
        let mut answers = runtime().block_on(played(&DEEDS, end));
        answers.sort();
        let answers: Vec<_> = answers.iter().map(|(n, response)| (*n, response.as_str())).collect();
        let expected =
            [(0, "approve"), (1, "approve_for_session"), (2, "reject"), (3, "reject"), (4, "reject"), (5, "reject")];
        assert_eq!(answers, expected, "{end:?}: what never answers is withdrawn, and not approved");
    }
}

fn deed() -> impl Strategy<Value = Deed> {
    prop::sample::select(&DEEDS[..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn concurrent_requests_get_own_answers(
        deeds in proptest::collection::vec(deed(), 0..12),
        end in prop::sample::select(vec![End::Finish, End::Cancel, End::Close, End::Drop, End::AgentGone]),
    ) {
        let answers = runtime().block_on(played(&deeds, end));
        let mut seen = std::collections::HashSet::new();
        for (n, response) in answers {
            prop_assert!(seen.insert(n), "{} is answered twice", n);
            prop_assert_eq!(response.starts_with("approve"), deeds[n].approves(), "{:?}", deeds[n]);
        }
    }
}
