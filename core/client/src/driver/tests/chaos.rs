//! Programs and agents that do anything in any order: nothing is waited for in vain.

use proptest::prelude::*;

use super::*;
use crate::{Approval, Replay};

#[derive(Clone, Debug)]
enum Act {
    Events(u16),
    Approval,
    Tool,
    Wait,
    Steps,
}

#[derive(Clone, Copy, Debug)]
enum OnCancel {
    Obey,
    /// As agents up to 1.8 do.
    Forget,
    Refuse,
    Ignore,
    /// The turn was over already.
    Late,
}

#[derive(Clone, Debug)]
struct Behaviour {
    acts: Vec<Act>,
    on_cancel: OnCancel,
    fails: bool,
    /// The agent exits after this many acts.
    dies_after: Option<u8>,
    obeys: bool,
}

#[derive(Clone, Debug)]
enum Op {
    Prompt,
    Read(u8),
    ReadAll,
    Steps,
    Result,
    Cancel,
    Drop,
    Steer,
    PlanMode,
    Replay(u8),
    DropReplay,
    Pass(u16),
    Close,
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    let act = prop_oneof![
        3 => (0..400_u16).prop_map(Act::Events),
        1 => Just(Act::Approval),
        1 => Just(Act::Tool),
        1 => Just(Act::Wait),
        1 => Just(Act::Steps),
    ];
    let on_cancel = prop_oneof![
        6 => Just(OnCancel::Obey),
        1 => Just(OnCancel::Forget),
        1 => Just(OnCancel::Refuse),
        1 => Just(OnCancel::Ignore),
        1 => Just(OnCancel::Late),
    ];
    let dies_after = prop_oneof![5 => Just(None), 1 => (0..12_u8).prop_map(Some)];
    let acts = proptest::collection::vec(act, 0..6);
    (acts, on_cancel, any::<bool>(), dies_after, prop::bool::weighted(0.8))
        .prop_map(|(acts, on_cancel, fails, dies_after, obeys)| Behaviour { acts, on_cancel, fails, dies_after, obeys })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Prompt),
        3 => (0..50_u8).prop_map(Op::Read),
        1 => Just(Op::ReadAll),
        1 => Just(Op::Steps),
        2 => Just(Op::Result),
        2 => Just(Op::Cancel),
        3 => Just(Op::Drop),
        2 => Just(Op::Steer),
        2 => Just(Op::PlanMode),
        1 => (0..50_u8).prop_map(Op::Replay),
        1 => Just(Op::DropReplay),
        2 => (0..2000_u16).prop_map(Op::Pass),
        1 => Just(Op::Close),
    ]
}

/// Plays the agent until its input ends or it dies.
async fn play(mut agent: Agent, behaviour: Behaviour) {
    if behaviour.obeys {
        agent.exit.obey();
    }
    let exit = agent.exit.clone();
    let killed = exit.killed();
    tokio::select! {
        () = act_out(&mut agent, &behaviour) => {}
        () = killed => agent.exit.signal("SIGKILL"),
        // An obedient agent has exited now.
        () = obeyed(&exit, behaviour.obeys) => {}
    }
    agent.exit.code(0);
}

async fn obeyed(exit: &ExitHandle, obeys: bool) {
    if obeys { exit.terminated().await } else { std::future::pending().await }
}

/// Writes until the reader closes the pipe.
async fn say(agent: &mut Agent, message: Value) -> Option<()> {
    agent.writer.write_all(format!("{message}\n").as_bytes()).await.ok()
}

async fn act_out(agent: &mut Agent, behaviour: &Behaviour) {
    let mut life = behaviour.dies_after.map_or(u32::MAX, u32::from);
    let event = |kind: &str, payload: Value| json!({"method": "event", "params": {"type": kind, "payload": payload}});
    loop {
        let mut call = agent.read().await;
        if call.is_null() {
            return;
        }
        if call["method"].is_null() {
            continue;
        }
        let ok = |call: &Value, result: Value| json!({"id": call["id"], "result": result});
        let error = |call: &Value, code: i64| json!({"id": call["id"], "error": {"code": code, "message": "no"}});
        let said = match call["method"].as_str() {
            Some("prompt") => {
                let mut said = say(agent, event("TurnBegin", json!({"user_input": "hi"}))).await;
                let mut awaited = 0;
                for act in &behaviour.acts {
                    if life == 0 {
                        return;
                    }
                    life -= 1;
                    match act {
                        Act::Events(count) => {
                            for n in 0..*count {
                                said = say(agent, event("ContentPart", json!({"type": "text", "text": n.to_string()})))
                                    .await;
                            }
                        }
                        Act::Steps => said = say(agent, event("StepBegin", json!({"n": 1}))).await,
                        Act::Wait => tokio::time::sleep(SECOND).await,
                        Act::Approval => {
                            awaited += 1;
                            let payload = json!({"id": format!("a{awaited}"), "tool_call_id": "t", "sender": "s",
                                "action": "a", "description": "d"});
                            said = say(
                                agent,
                                json!({"id": format!("a{awaited}"), "method": "request",
                                "params": {"type": "ApprovalRequest", "payload": payload}}),
                            )
                            .await;
                        }
                        Act::Tool => {
                            awaited += 1;
                            said = say(
                                agent,
                                json!({"id": format!("t{awaited}"), "method": "request",
                                "params": {"type": "ToolCallRequest", "payload": {"id": "same", "name": "add"}}}),
                            )
                            .await;
                        }
                    }
                    if said.is_none() {
                        return;
                    }
                }
                // Then the answers, unless a cancel comes instead.
                let prompt = call.clone();
                let mut cancelled = false;
                while awaited > 0 && !cancelled {
                    call = agent.read().await;
                    match call["method"].as_str() {
                        None if call.is_null() => return,
                        None => awaited -= 1,
                        Some("cancel") => cancelled = true,
                        Some(_) => drop(say(agent, ok(&call, json!({"status": "ok"}))).await),
                    }
                }
                match (cancelled, behaviour.on_cancel) {
                    (false, _) if behaviour.fails => say(agent, error(&prompt, -32003)).await,
                    (false, _) | (true, OnCancel::Late) => {
                        let said = say(agent, ok(&prompt, json!({"status": "finished"}))).await;
                        if cancelled { say(agent, error(&call, -32000)).await } else { said }
                    }
                    (true, OnCancel::Obey) => {
                        say(agent, ok(&call, json!({}))).await;
                        say(agent, ok(&prompt, json!({"status": "cancelled"}))).await
                    }
                    (true, OnCancel::Forget) => say(agent, ok(&call, json!({}))).await,
                    (true, OnCancel::Refuse) => say(agent, error(&call, -32603)).await,
                    (true, OnCancel::Ignore) => Some(()),
                }
            }
            Some("cancel") => say(agent, error(&call, -32000)).await,
            Some("replay") => {
                for _ in 0..100 {
                    say(agent, event("CompactionBegin", json!({}))).await;
                }
                say(agent, ok(&call, json!({"status": "finished"}))).await
            }
            _ => say(agent, ok(&call, json!({"status": "ok"}))).await,
        };
        if said.is_none() {
            return;
        }
    }
}

/// An operation that takes longer than this is considered stuck.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(3600 * SECOND, future).await {
        Ok(done) => done,
        Err(_) => panic!("`{what}` waits for ever"),
    }
}

async fn run(behaviour: Behaviour, ops: Vec<Op>) {
    let options = SessionOptions::new()
        .event_buffer_bytes(2048)
        .on_approval(|request| async move {
            assert_ne!(request.id, "a2", "on purpose");
            Ok(Approval::Approve)
        })
        .tool(crate::ExternalTool::new("add", "", json!({"type": "object"}), |_| async { Ok("3") }));
    let (session, agent) = open(options).await;
    let exit = agent.exit.clone();
    let agent = tokio::spawn(play(agent, behaviour));
    let mut turn: Option<Turn> = None;
    let mut replay: Option<Replay> = None;
    for op in ops {
        match (&op, &mut turn) {
            (Op::Prompt, _) => {
                if let Ok(next) = session.prompt("hi") {
                    turn = Some(next);
                }
            }
            (Op::Read(count), Some(turn)) => {
                for _ in 0..*count {
                    if soon("next", turn.next()).await.is_none() {
                        break;
                    }
                }
            }
            (Op::ReadAll, Some(turn)) => drop(soon("all", rest(turn)).await),
            (Op::Steps, Some(turn)) => {
                let mut steps = turn.steps();
                while let Some(mut step) = soon("steps", steps.next()).await {
                    soon("step", step.next()).await;
                }
            }
            (Op::Result, Some(turn)) => drop(soon("result", turn.result()).await),
            (Op::Cancel, Some(turn)) => drop(soon("cancel", turn.cancel()).await),
            (Op::Drop, _) => turn = None,
            (Op::Steer, Some(turn)) => drop(soon("steer", turn.steer("more")).await),
            (Op::PlanMode, _) => drop(soon("plan mode", session.set_plan_mode(true)).await),
            (Op::Replay(count), _) => {
                let mut past = session.replay();
                for _ in 0..*count {
                    // A replay that is dropped unread blocks nothing, nor does a replay during an unread turn.
                    if soon("replay", past.next()).await.is_none_or(|event| event.is_err()) {
                        break;
                    }
                }
                replay = Some(past);
            }
            (Op::DropReplay, _) => replay = None,
            (Op::Pass(seconds), _) => tokio::time::sleep(u32::from(*seconds) * SECOND / 100).await,
            (Op::Close, _) => soon("close", session.close()).await.expect("closed"),
            _ => {}
        }
    }
    soon("close", session.close()).await.expect("closed");
    if let Some(mut turn) = turn {
        let outcome = soon("result", turn.result()).await;
        assert_eq!(soon("result", turn.result()).await, outcome);
        // Unread events are still there; a failure is the last item.
        while let Some(event) = soon("next", turn.next()).await {
            if event.is_err() {
                break;
            }
        }
        assert!(soon("next", turn.next()).await.is_none());
    }
    drop(replay);
    // Reaped, however it ended.
    exit.code(0);
    soon("the agent", agent).await.expect("an agent");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_program_never_hangs(behaviour in behaviour(), ops in proptest::collection::vec(op(), 0..16)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(run(behaviour, ops));
    }
}
