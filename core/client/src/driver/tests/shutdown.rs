//! The ways a session ends.

use super::*;
use crate::Error;

#[tokio::test(start_paused = true)]
async fn idle_agent_leaves_when_its_input_ends() {
    let (session, agent) = open(SessionOptions::new()).await;
    tokio::spawn(agent.obey());
    let before = Instant::now();
    session.close().await.expect("closed");
    assert_eq!(Instant::now(), before);
    session.close().await.expect("twice is fine");
    assert_eq!(session.state().as_str(), "closed");
    let errors = [
        session.prompt("hi").unwrap_err(),
        session.set_plan_mode(true).await.unwrap_err(),
        session.replay().next().await.expect("an error").unwrap_err(),
    ];
    assert_eq!(errors, [Error::session_closed(), Error::session_closed(), Error::session_closed()]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_closes_close_once() {
    let (session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
    let agent = tokio::spawn(async move {
        agent.expect("cancel").await;
        agent.answer("cancel", json!({})).await;
        agent.answer("prompt", json!({"status": "cancelled"})).await;
        assert_eq!(agent.read().await, Value::Null);
        agent.exit.code(0);
        // The agent's ends of the pipes are dropped here.
    });
    let (one, other) = tokio::join!(session.close(), session.close());
    one.and(other).expect("closed");
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "cancelled");
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn agent_ignoring_terminate_is_killed() {
    let (session, agent) = open(SessionOptions::new().close_timeout(4 * SECOND)).await;
    let exit = agent.exit.clone();
    let before = Instant::now();
    let killing = async {
        exit.terminated().await;
        assert_eq!(Instant::now() - before, 4 * SECOND);
        exit.killed().await;
        assert_eq!(Instant::now() - before, 6 * SECOND);
        exit.signal("SIGKILL");
    };
    let (closed, ()) = tokio::join!(session.close(), killing);
    closed.expect("closed");
    drop(agent);
}

#[tokio::test(start_paused = true)]
async fn close_ends_endlessly_writing_agent() {
    let (session, agent, turn) = in_turn(SessionOptions::new().event_buffer_bytes(1024)).await;
    let Agent { reader, mut writer, exit, ids } = agent;
    let line = format!("{}\n", json!({"method": "event", "params": {"type": "StepBegin", "payload": {"n": 1}}}));
    let talking = tokio::spawn(async move {
        for n in 0.. {
            if n == 500 {
                let cancelled = json!({"id": ids["prompt"], "result": {"status": "cancelled"}});
                writer.write_all(format!("{cancelled}\n").as_bytes()).await.expect("written");
            }
            if writer.write_all(line.as_bytes()).await.is_err() {
                break;
            }
            if n > 500 {
                tokio::time::sleep(SECOND / 100).await;
            }
        }
    });
    exit.obey();
    session.close().await.expect("closed");
    exit.terminated().await;
    talking.abort();
    drop((reader, turn));
}

#[tokio::test(start_paused = true)]
async fn close_ends_non_reading_agent() {
    let (session, agent) = open(SessionOptions::new()).await;
    agent.exit.obey();
    // More than fits in the pipe.
    let mut turn = session.prompt("x".repeat(1 << 20)).expect("a turn");
    let before = Instant::now();
    let ending = async {
        agent.exit.terminated().await;
        // It does not read the cancel, so the close does not wait for its answer.
        assert_eq!(Instant::now() - before, SECOND);
    };
    let (closed, ()) = tokio::join!(session.close(), ending);
    closed.expect("closed");
    assert!(turn.result().await.unwrap_err().is_timeout());
    drop(agent);
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_slowly_reading_agent() {
    let (session, mut agent) = open(SessionOptions::new()).await;
    let mut turn = session.prompt("x".repeat(64 << 10)).expect("a turn");
    let reading = tokio::spawn(async move {
        // A pipeful at a time.
        let mut prompt = Vec::new();
        while !prompt.ends_with(b"\n") {
            tokio::time::sleep(SECOND / 2).await;
            let piece = agent.reader.fill_buf().await.expect("a piece");
            let read = piece.iter().position(|&byte| byte == b'\n').map_or(piece.len(), |end| end + 1);
            prompt.extend_from_slice(&piece[..read]);
            agent.reader.consume(read);
        }
        let id = serde_json::from_slice::<Value>(&prompt).expect("JSON")["id"].clone();
        agent.ids.insert("prompt".into(), id);
        agent.expect("cancel").await;
        agent.answer("cancel", json!({})).await;
        agent.answer("prompt", json!({"status": "cancelled"})).await;
        agent.obey().await;
    });
    session.close().await.expect("closed");
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "cancelled");
    reading.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn close_timeout_limits_wait_for_cancel() {
    let (session, mut agent, mut turn) = in_turn(SessionOptions::new().close_timeout(3 * SECOND)).await;
    agent.exit.obey();
    let before = Instant::now();
    let exit = agent.exit.clone();
    let ending = async {
        exit.terminated().await;
        assert_eq!(Instant::now() - before, 3 * SECOND);
    };
    let (closed, ()) = tokio::join!(session.close(), ending);
    closed.expect("closed");
    let error = turn.result().await.unwrap_err();
    // Not the ten seconds of `cancel_timeout`.
    assert!(error.is_timeout() && error.to_string().contains("did not answer the cancel within 3s"), "{error}");
    agent.expect("cancel").await;
}

#[tokio::test(start_paused = true)]
async fn close_works_without_turn_end() {
    let (session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
    let before = Instant::now();
    let agent = tokio::spawn(async move {
        agent.expect("cancel").await;
        agent.answer("cancel", json!({})).await;
        assert_eq!(agent.read().await, Value::Null);
        agent.exit.code(0);
    });
    session.close().await.expect("closed");
    assert_eq!(Instant::now() - before, SECOND);
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "cancelled");
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn agent_not_reading_handshake_is_terminated() {
    let tool = crate::ExternalTool::new("t", "x".repeat(1 << 20), json!({"type": "object"}), |_| async { Ok("") });
    let (session, agent) = opening(SessionOptions::new().tool(tool), 4096);
    agent.exit.obey();
    assert!(session.await.unwrap_err().is_timeout());
    agent.exit.terminated().await;
}

#[tokio::test(start_paused = true)]
async fn dropped_session_closes_in_background() {
    let (session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
    drop(session);
    agent.expect("cancel").await;
    agent.answer("cancel", json!({})).await;
    agent.answer("prompt", json!({"status": "cancelled"})).await;
    assert_eq!(agent.read().await, Value::Null);
    assert_eq!(turn.result().await.unwrap_err().code(), "session_closed");
    assert_eq!(turn.steer("more").await.unwrap_err().code(), "session_closed");
}

#[tokio::test(start_paused = true)]
async fn dropped_handshake_stops_agent() {
    let (session, mut agent) = opening(SessionOptions::new(), 4096);
    assert!(tokio::time::timeout(SECOND, session).await.is_err());
    agent.expect("initialize").await;
    // The end of its input first, then the rest, as it does not leave.
    assert_eq!(agent.read().await, Value::Null);
    let before = Instant::now();
    agent.exit.terminated().await;
    // Not the 10 seconds of `close_timeout`.
    assert_eq!(Instant::now() - before, SECOND);
    agent.exit.killed().await;
    assert_eq!(Instant::now() - before, 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn refused_handshake_ends_agent() {
    let (session, mut agent) = opening(SessionOptions::new(), 4096);
    let refusing = async {
        let call = agent.expect("initialize").await;
        agent.send(json!({"id": call["id"], "error": {"code": -32602, "message": "what?"}})).await;
    };
    let (session, ()) = tokio::join!(session, refusing);
    let error = session.unwrap_err();
    assert_eq!(error.code(), "handshake_error");
    assert!(error.to_string().contains("what? (-32602)"), "{error}");
    assert_eq!(agent.read().await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn prompt_behind_cancelled_turn_ends_with_close() {
    let (session, mut agent, turn) = in_turn(SessionOptions::new()).await;
    drop(turn);
    let mut next = session.prompt("again").expect("a turn");
    agent.expect("cancel").await;
    let closing = async {
        idle().await;
        agent.answer("cancel", json!({})).await;
        agent.answer("prompt", json!({"status": "cancelled"})).await;
        agent.exit.code(0);
        drop(agent);
    };
    let (closed, ()) = tokio::join!(session.close(), closing);
    closed.expect("closed");
    let outcome = next.result().await;
    assert_eq!(outcome.expect("an outcome").status.as_str(), "cancelled");
}

#[tokio::test(start_paused = true)]
async fn close_ends_running_turn_with_partial_text() {
    let (session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
    agent.text("word").await;
    idle().await;
    tokio::spawn(agent.obey());
    session.close().await.expect("closed");
    assert_eq!(rest(&mut turn).await, ["ContentPart", "TurnEnd"]);
    assert_eq!(turn.result().await.expect("an outcome").text, "word");
}

#[tokio::test(start_paused = true)]
async fn hook_unknown_to_agent_is_unsupported() {
    let hook = crate::Hook::new("SessionStart", |_| async { Ok(crate::HookDecision::Allow) });
    let (session, mut agent) = opening(SessionOptions::new().hook(hook), 4096);
    let (session, ()) = tokio::join!(session, agent.welcome());
    let error = session.unwrap_err();
    assert_eq!(error.code(), "unsupported");
    assert!(error.to_string().contains("`SessionStart`; it has: PreToolUse"), "{error}");
    assert_eq!(agent.read().await, Value::Null);
}
