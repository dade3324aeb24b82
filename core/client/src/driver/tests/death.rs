//! The agent exits: everything that waits gets the reason immediately.

use super::*;
use crate::{Approval, Error};

fn check(error: &Error) {
    let Error::AgentExited(exit) = error else { panic!("{error:?}") };
    assert_eq!((exit.exit_code, exit.signal.as_deref()), (Some(3), None));
    assert_eq!(exit.stderr, "the end of it\n");
}

impl Agent {
    fn die(self) {
        self.exit.stderr("the end of it\n");
        self.exit.code(3);
    }
}

#[tokio::test(start_paused = true)]
async fn death_before_handshake_names_exit() {
    let (session, agent) = opening(SessionOptions::new(), 4096);
    agent.die();
    check(&session.await.unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn death_after_invalid_output_is_handshake_error() {
    for line in ["use the new thing\n", "use the new thing"] {
        let (session, mut agent) = opening(SessionOptions::new(), 4096);
        agent.write(line.as_bytes()).await;
        agent.die();
        let error = session.await.unwrap_err();
        assert_eq!(error.code(), "handshake_error");
        let text = error.to_string();
        assert!(text.contains("\"use the new thing\"") && text.contains("code 3"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn death_fails_everything_pending() {
    for signal in [false, true] {
        let options = SessionOptions::new().on_approval(|_| std::future::pending());
        let (session, mut agent, mut turn) = in_turn(options).await;
        agent.ask_approval("a").await;
        let before = Instant::now();
        let dying = async {
            agent.expect("steer").await;
            agent.expect("set_plan_mode").await;
            if signal {
                agent.exit.signal("SIGSEGV");
            }
            agent.die();
        };
        // A second turn that waits behind a cancelled one is in `shutdown.rs`.
        let replay = session.replay();
        let (steer, plan, ()) = tokio::join!(turn.steer("more"), session.set_plan_mode(true), dying);
        drop(replay);
        assert_eq!(Instant::now(), before, "a deadline was waited for");
        let errors = [steer.unwrap_err(), plan.unwrap_err(), turn.result().await.unwrap_err()];
        for error in &errors {
            if signal {
                let Error::AgentExited(exit) = error else { panic!("{error:?}") };
                assert_eq!((exit.exit_code, exit.signal.as_deref()), (None, Some("SIGSEGV")));
            } else {
                check(error);
            }
        }
        // And from then on.
        assert_eq!(session.prompt("again").unwrap_err(), errors[0]);
        assert_eq!(session.set_plan_mode(true).await.unwrap_err(), errors[0]);
        assert_eq!(session.replay().next().await.expect("an error").unwrap_err(), errors[0]);
        assert_eq!(session.state().as_str(), "closed");
        session.close().await.expect("closed");
    }
}

#[tokio::test(start_paused = true)]
async fn death_during_replay_ends_replay() {
    let (session, mut agent) = open(SessionOptions::new()).await;
    let mut past = session.replay();
    agent.expect("replay").await;
    agent.text("old").await;
    agent.die();
    past.next().await.expect("an event").expect("fine");
    check(&past.next().await.expect("an error").unwrap_err());
    assert!(past.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn agent_death_anywhere_ends_turn() {
    // The agent dies after so many of its messages, the last one of which may be half a line.
    for (messages, half) in (0..4).flat_map(|messages| [(messages, false), (messages, true)]) {
        let options = SessionOptions::new().on_approval(|_| async { Ok(Approval::Approve) });
        let (_session, mut agent, mut turn) = in_turn(options).await;
        for n in 0..messages {
            match n {
                0 => agent.event("StepBegin", json!({"n": 1})).await,
                1 => agent.ask_approval("a").await,
                _ => agent.text("word").await,
            }
        }
        if half {
            agent.write(br#"{"method":"event","params":{"type":"Step"#).await;
        }
        agent.die();
        let mut seen = 0;
        let error = loop {
            match turn.next().await.expect("an end") {
                Ok(_) => seen += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(seen, messages, "half a line: {half}");
        check(&error);
        assert!(turn.next().await.is_none());
        check(&turn.result().await.unwrap_err());
    }
}

#[tokio::test(start_paused = true)]
async fn unterminated_last_line_counts() {
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
    let id = agent.ids["prompt"].clone();
    agent.write(json!({"id": id, "result": {"status": "finished"}}).to_string().as_bytes()).await;
    agent.die();
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
}

#[tokio::test(start_paused = true)]
async fn unterminated_last_line_counts_with_open_pipe() {
    for whole in [true, false] {
        let (_session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
        let id = agent.ids["prompt"].clone();
        agent.text("word").await;
        let answer = json!({"id": id, "result": {"status": "finished"}}).to_string();
        agent.write(&answer.as_bytes()[..answer.len() - usize::from(!whole)]).await;
        agent.exit.stderr("the end of it\n");
        // The pipe stays open.
        agent.exit.code(3);
        assert_eq!(turn.next().await.expect("an event").expect("fine").text(), Some("word"));
        if whole {
            assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
        } else {
            check(&turn.result().await.unwrap_err());
        }
        drop(agent.writer);
    }
}

#[tokio::test(start_paused = true)]
async fn half_handshake_with_descendant_is_quoted() {
    let (session, mut agent) = opening(SessionOptions::new(), 4096);
    agent.write(b"use the new thing").await;
    agent.exit.code(3);
    let error = session.await.unwrap_err();
    assert_eq!(error.code(), "handshake_error");
    let text = error.to_string();
    assert!(text.contains("\"use the new thing\"") && text.contains("code 3"), "{text}");
    drop(agent.writer);
}

#[tokio::test(start_paused = true)]
async fn full_queue_keeps_events_before_death() {
    let (session, mut agent) = opening(SessionOptions::new().event_buffer_bytes(1024), 1 << 16);
    let (session, ()) = tokio::join!(session, agent.welcome());
    let mut turn = session.as_ref().expect("open").prompt("hi").expect("a turn");
    agent.expect("prompt").await;
    for _ in 0..100 {
        agent.text("word").await;
    }
    idle().await;
    agent.write(br#"{"jsonrpc":"2.0","method":"event","params":{"type":"CompactionEnd"}}"#).await;
    agent.die();
    idle().await;
    let seen = rest(&mut turn).await;
    assert_eq!(seen.len(), 102);
    assert_eq!(seen[100..], ["CompactionEnd", "agent_exited"]);
}

#[tokio::test(start_paused = true)]
async fn agent_closing_only_output_is_terminated() {
    let (session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
    agent.text("last words").await;
    drop(agent.writer);
    agent.exit.obey();
    agent.exit.terminated().await;
    assert_eq!(turn.next().await.expect("an event").expect("fine").text(), Some("last words"));
    let error = turn.result().await.unwrap_err();
    // That it was ended by us is not the news.
    let Error::AgentExited(exit) = &error else { panic!("{error:?}") };
    assert_eq!((exit.exit_code, exit.signal.as_deref()), (None, None));
    assert!(error.to_string().contains("closed its pipes"), "{error}");
    session.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn agent_exit_after_closing_output_is_reported() {
    let (_session, agent, mut turn) = in_turn(SessionOptions::new()).await;
    drop(agent.writer);
    idle().await;
    agent.exit.stderr("the end of it\n");
    agent.exit.code(3);
    check(&turn.result().await.unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn agent_closing_only_input_ends_on_write() {
    let (session, mut agent) = open(SessionOptions::new()).await;
    let (_ours, closed) = tokio::io::duplex(1);
    agent.reader = BufReader::new(closed);
    agent.exit.obey();
    let mut turn = session.prompt("hi").expect("a turn");
    assert_eq!(turn.result().await.unwrap_err().code(), "agent_exited");
    session.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn open_pipe_of_descendant_delays_exit_briefly() {
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
    agent.text("word").await;
    agent.exit.stderr("the end of it\n");
    // The pipe stays open.
    agent.exit.code(3);
    check(&turn.result().await.unwrap_err());
    drop(agent.writer);
}

#[tokio::test(start_paused = true)]
async fn line_over_limit_ends_session_and_agent() {
    let (session, mut agent, mut turn) = in_turn(SessionOptions::new().max_line_bytes(1024)).await;
    agent.text("short").await;
    let exit = agent.exit.clone();
    let mut writer = agent.writer;
    let shouting = tokio::spawn(async move {
        // Writes until the reader closes the pipe. TERM is ignored, KILL cannot be.
        let mut written = 0_u64;
        while written < (64 << 20) && writer.write_all(&[b'x'; 4096]).await.is_ok() {
            written += 4096;
        }
        std::future::pending::<()>().await;
    });
    assert_eq!(turn.next().await.expect("an event").expect("fine").text(), Some("short"));
    let error = turn.result().await.unwrap_err();
    assert_eq!(error.code(), "protocol_error");
    assert!(error.to_string().contains("`max_line_bytes` is 1024"), "{error}");
    assert_eq!(session.prompt("again").unwrap_err(), error);
    exit.terminated().await;
    exit.killed().await;
    exit.signal("SIGKILL");
    session.close().await.expect("closed");
    shouting.abort();
}

#[tokio::test(start_paused = true)]
async fn unanswered_cancel_ends_session_with_timeout() {
    let (session, mut agent, turn) = in_turn(SessionOptions::new()).await;
    agent.exit.obey();
    let before = Instant::now();
    let error = turn.cancel().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(Instant::now() - before, 10 * SECOND);
    agent.exit.terminated().await;
    assert_eq!(session.prompt("again").unwrap_err(), error);
    agent.expect("cancel").await;
    session.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn unanswered_cancelled_prompt_keeps_session_usable() {
    let (session, mut agent, turn) = in_turn(SessionOptions::new()).await;
    let agent = tokio::spawn(async move {
        agent.expect("cancel").await;
        agent.answer("cancel", json!({})).await;
        agent.expect("prompt").await;
        agent.finish().await;
        agent
    });
    turn.cancel().await.expect("cancelled");
    drop(turn);
    assert_eq!(session.prompt("again").expect("a turn").result().await.expect("fine").status.as_str(), "finished");
    agent.await.expect("an agent");
}

#[test]
fn end_of_runtime_fails_everything() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (session, agent, mut turn) = runtime.block_on(in_turn(SessionOptions::new()));
    let mut past = session.replay();
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        assert_eq!(turn.result().await.unwrap_err().code(), "session_closed");
        assert_eq!(past.next().await.expect("an error").unwrap_err().code(), "session_closed");
        assert_eq!(session.prompt("again").unwrap_err().code(), "session_closed");
        session.close().await.expect("closed");
        agent.exit.killed().await;
    });
}

#[tokio::test(start_paused = true)]
async fn agent_death_after_cancel_begins_is_reported() {
    let (_session, mut agent, turn) = in_turn(SessionOptions::new()).await;
    let turn = turn.into_inner();
    assert!(turn.begin_cancel());
    agent.expect("cancel").await;
    agent.die();
    drop(turn.channel.settled().await);
    check(&turn.cancelled().await.unwrap_err());
    assert!(!turn.begin_cancel(), "nothing is left to cancel");
}
