//! Calls of ours that an agent never answers.

use super::*;
use crate::Error;

fn impatient() -> SessionOptions {
    SessionOptions::new().handshake_timeout(7 * SECOND)
}

#[tokio::test(start_paused = true)]
async fn unanswered_call_times_out_and_turn_continues() {
    let (session, mut agent, mut turn) = in_turn(impatient()).await;
    let before = Instant::now();
    for (name, call) in [("steer", turn.steer("more").await), ("set_plan_mode", session.set_plan_mode(true).await)] {
        let Err(Error::Timeout(message)) = call else { panic!("{call:?}") };
        assert!(message.starts_with(&format!("the agent did not answer `{name}` within 7s; the session")), "{message}");
        agent.expect(name).await;
    }
    assert_eq!(Instant::now() - before, 14 * SECOND);
    agent.answer("steer", json!({"status": "steered"})).await;
    agent.finish().await;
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
}

#[tokio::test(start_paused = true)]
async fn call_to_non_reading_agent_times_out() {
    let (session, agent) = open(impatient()).await;
    // More than fits in the pipe: the call waits behind it.
    let turn = session.prompt("x".repeat(1 << 20)).expect("a turn");
    let before = Instant::now();
    assert!(turn.steer("more").await.unwrap_err().is_timeout());
    assert_eq!(Instant::now() - before, 7 * SECOND);
    drop(agent);
}

#[tokio::test(start_paused = true)]
async fn only_silent_replay_ends_session() {
    let (session, mut agent) = open(impatient().event_buffer_bytes(1024)).await;
    let mut past = session.replay();
    let agent = tokio::spawn(async move {
        agent.expect("replay").await;
        for _ in 0..100 {
            agent.text("some words").await;
        }
        agent.answer("replay", json!({"status": "finished", "events": 100, "requests": 0})).await;
        agent.expect("replay").await;
        agent.text("some words").await;
        agent
    });
    let mut seen = 0;
    while let Some(event) = past.next().await {
        event.expect("an event");
        seen += 1;
        tokio::time::sleep(8 * SECOND).await;
    }
    assert_eq!(seen, 100);
    let mut again = session.replay();
    assert!(again.next().await.expect("an event").is_ok());
    let before = Instant::now();
    let error = again.next().await.expect("an error").unwrap_err();
    assert!(error.to_string().starts_with("the agent sent nothing of the replay for 7s, and the session"), "{error}");
    assert_eq!(Instant::now() - before, 7 * SECOND);
    assert_eq!(session.prompt("hi").unwrap_err(), error);
    drop(agent.await);
}

/// The host is suspended: time passes, and the agent writes, while the driver does not run.
async fn while_suspended(agent: &mut Agent, messages: &[Value], time: Duration) {
    for message in messages {
        agent.send(message.clone()).await;
    }
    tokio::time::advance(time).await;
}

fn text(text: &str) -> Value {
    json!({"method": "event", "params": {"type": "ContentPart", "payload": {"type": "text", "text": text}}})
}

#[tokio::test(start_paused = true)]
async fn waiting_events_are_read_before_idle_timeout() {
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new().idle_timeout(10 * SECOND)).await;
    for n in 0..30 {
        while_suspended(&mut agent, &[text(&n.to_string())], 11 * SECOND).await;
        let event = turn.next().await.expect("an event").expect("no timeout");
        assert_eq!(text_of(&event), Some(n.to_string()));
    }
    let before = Instant::now();
    assert!(turn.next().await.expect("an end").unwrap_err().is_timeout());
    assert!(Instant::now() - before >= 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn waiting_result_is_read_before_turn_timeout() {
    // The driver takes one of two events that come at once, by chance.
    for _ in 0..30 {
        // A timer that was set before that of the driver fires before it, at the same time.
        let mut end = std::pin::pin!(tokio::time::sleep(10 * SECOND));
        tokio::select! {
            biased;
            () = &mut end => panic!("no time has passed"),
            () = std::future::ready(()) => {}
        }
        let (_session, mut agent, mut turn) = in_turn(SessionOptions::new().turn_timeout(10 * SECOND)).await;
        let id = agent.ids["prompt"].clone();
        end.await;
        agent.send(text("done")).await;
        agent.send(json!({"jsonrpc": "2.0", "id": id, "result": {"status": "finished"}})).await;
        assert_eq!(turn.result().await.expect("an outcome").text, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn endless_output_does_not_delay_turn_timeout() {
    let (_session, agent, mut turn) = in_turn(SessionOptions::new().turn_timeout(10 * SECOND)).await;
    let Agent { mut writer, mut reader, .. } = agent;
    let line = format!("{}\n", text("word")).repeat(8);
    let flood = tokio::spawn(async move { while writer.write_all(line.as_bytes()).await.is_ok() {} });
    let reading = tokio::spawn(async move { while turn.next().await.is_some_and(|event| event.is_ok()) {} });
    tokio::time::advance(11 * SECOND).await;
    let mut cancel = String::new();
    reader.read_line(&mut cancel).await.expect("a line");
    assert!(cancel.contains("cancel"), "{cancel}");
    flood.abort();
    reading.abort();
}

/// Each decision can be about a large call.
#[cfg(feature = "policy")]
#[tokio::test]
async fn cancel_comes_between_decisions() {
    // The driver reads first, or sees the cancel first.
    for _ in 0..12 {
        let policy = kimi_agent_policy::Policy::from_value(&json!({"default": "deny"})).expect("a policy");
        let (session, mut agent) = opening(SessionOptions::new().policy(policy), 1 << 20);
        let (session, ()) = tokio::join!(session, agent.welcome());
        let session = session.expect("open");
        let turn = session.prompt("hi").expect("a turn");
        agent.expect("prompt").await;
        let payload = json!({"id": "a", "tool_call_id": "t", "sender": "Shell", "action": "run", "description": "ls"});
        let line = |number: usize| {
            let params = json!({"type": "ApprovalRequest", "payload": payload});
            json!({"jsonrpc": "2.0", "id": number.to_string(), "method": "request", "params": params}).to_string()
                + "\n"
        };
        agent.write((0..300).map(line).collect::<String>().as_bytes()).await;
        let cancelled = async {
            let mut decided = 0;
            let cancel = loop {
                let line = agent.read().await;
                if line["method"] == "cancel" {
                    break line;
                }
                decided += 1;
            };
            agent.send(json!({"jsonrpc": "2.0", "id": cancel["id"], "result": {}})).await;
            agent.answer("prompt", json!({"status": "cancelled"})).await;
            tokio::spawn(agent.obey());
            decided
        };
        let (_, decided) = tokio::join!(turn.cancel(), cancelled);
        assert!(decided < 100, "{decided} decisions before the cancel");
    }
}
