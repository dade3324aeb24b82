//! Backpressure: nothing is dropped, nothing grows without bound, and what matters gets through.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use super::*;
use crate::Approval;
use crate::driver::event_queue::QueuedEvents;
use crate::driver::turn_reader::TurnReader;

const SMALL: usize = 1024;

fn small() -> SessionOptions {
    SessionOptions::new().event_buffer_bytes(SMALL)
}

/// A loop of a host language over a turn.
fn reader_of(turn: &crate::session::TurnInner) -> TurnReader {
    let mut reader = TurnReader::new(Arc::clone(&turn.channel));
    reader.start_loop(false).expect("the only loop");
    reader
}

async fn batch(reader: &mut TurnReader, max: usize) -> Option<Vec<Event>> {
    let batch = std::future::poll_fn(|cx| reader.poll_batch(max, None, cx)).await?;
    Some(batch.expect("no failure").into_iter().flat_map(QueuedEvents::into_events).collect())
}

/// Writes this many events, and then the lines of the test.
async fn flood(agent: &mut Agent, count: usize, text: &str, written: &AtomicUsize) {
    for _ in 0..count {
        agent.text(text).await;
        written.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn unread_turn_blocks_agent_without_loss() {
    const EVENTS: usize = 20_000;
    let (_session, mut agent, mut turn) = in_turn(small()).await;
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let agent = tokio::spawn(async move {
        flood(&mut agent, EVENTS, "some words", &count).await;
        agent.finish().await;
        agent
    });
    idle().await;
    let stalled_at = written.load(Ordering::Relaxed);
    // The queue, what is read at a time, and the pipe.
    assert!(stalled_at * 90 < SMALL + 2 * crate::driver::reader::CHUNK + 4096, "{stalled_at} events were taken");
    // It stays so.
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(written.load(Ordering::Relaxed), stalled_at);
    let mut read = 0;
    while let Some(event) = turn.next().await {
        read += usize::from(event.expect("an event").text().is_some());
        // Never far ahead of the reader.
        assert!(written.load(Ordering::Relaxed) - read < 2 * stalled_at + 100);
    }
    assert_eq!((read, turn.discarded()), (EVENTS, 0));
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn cancel_settles_with_full_queue() {
    let (gone, mut was_gone) = Dropped::new();
    let gone = Arc::new(std::sync::Mutex::new(Some(gone)));
    let options = small().on_approval(move |_| {
        let gone = gone.lock().unwrap().take();
        async move {
            std::future::pending::<()>().await;
            drop(gone);
            Ok(Approval::Approve)
        }
    });
    let (session, mut agent, mut turn) = in_turn(options).await;
    let agent = tokio::spawn(async move {
        agent.ask_approval("a").await;
        flood(&mut agent, 1000, "some words", &AtomicUsize::new(0)).await;
        agent.expect("cancel").await;
        agent.answer("cancel", json!({})).await;
        agent.answer("prompt", json!({"status": "cancelled"})).await;
        agent.expect("prompt").await;
        agent.finish().await;
        agent
    });
    assert_eq!(turn.next().await.expect("an event").expect("fine").type_name(), "ApprovalRequest");
    idle().await;
    assert!(was_gone.try_recv().is_err());
    let before = Instant::now();
    turn.cancel().await.expect("cancelled");
    assert_eq!(Instant::now(), before, "it took a deadline");
    was_gone.await.expect("the handler is stopped");
    // The events that fitted are still there, in order, and the rest is counted.
    let read = rest(&mut turn).await.len() as u64;
    assert!(read > 0 && turn.discarded() > 0 && read + turn.discarded() == 1001, "{read} and {}", turn.discarded());
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "cancelled");
    session.prompt("again").expect("clean").result().await.expect("fine");
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn answer_is_written_with_full_queue() {
    let decided = Arc::new(tokio::sync::Notify::new());
    let decision = Arc::clone(&decided);
    let options = small().on_approval(move |_| {
        let decision = Arc::clone(&decision);
        async move {
            decision.notified().await;
            Ok(Approval::Approve)
        }
    });
    let (_session, mut agent, turn) = in_turn(options).await;
    agent.ask_approval("a").await;
    let mut writer = std::mem::replace(&mut agent.writer, tokio::io::duplex(1).0);
    let flooding = tokio::spawn(async move {
        let line = format!("{}\n", json!({"method": "event", "params": {"type": "StepBegin", "payload": {"n": 1}}}));
        while writer.write_all(line.as_bytes()).await.is_ok() {}
    });
    idle().await;
    decided.notify_one();
    assert_eq!(agent.read().await["result"]["response"], "approve");
    drop(turn);
    flooding.abort();
}

#[tokio::test(start_paused = true)]
async fn call_inside_loop_works_with_full_queue() {
    let (_session, mut agent, mut turn) = in_turn(small()).await;
    let agent = tokio::spawn(async move {
        agent.text("first").await;
        flood(&mut agent, 1000, "some words", &AtomicUsize::new(0)).await;
        agent.expect("steer").await;
        agent.answer("steer", json!({"status": "steered"})).await;
        agent.finish().await;
        agent
    });
    turn.next().await.expect("an event").expect("fine");
    idle().await;
    let before = Instant::now();
    turn.steer("more").await.expect("steered");
    assert_eq!(Instant::now(), before);
    assert_eq!(rest(&mut turn).await.len(), 1001);
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn call_over_hard_bound_fails_alone() {
    let (session, mut agent, mut turn) = in_turn(small()).await;
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let agent = tokio::spawn(async move {
        // Twice the hard bound.
        flood(&mut agent, 256, &"x".repeat(32 << 10), &count).await;
        agent.expect("steer").await;
        agent.answer("steer", json!({"status": "steered"})).await;
        agent.expect("set_plan_mode").await;
        agent.answer("set_plan_mode", json!({"status": "ok"})).await;
        agent.finish().await;
        agent
    });
    turn.next().await.expect("an event").expect("fine");
    let error = turn.steer("more").await.unwrap_err();
    assert_eq!(error.code(), "event_buffer_full");
    assert!(written.load(Ordering::Relaxed) < 150, "the bound did not hold");
    let error = session.set_plan_mode(true).await.unwrap_err();
    assert_eq!(error.code(), "event_buffer_full");
    assert_eq!(rest(&mut turn).await.len(), 256);
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn outcome_and_reader_work_concurrently() {
    for (size, outcome) in [(100, "finished"), (32 << 10, "event_buffer_full")] {
        let (_session, mut agent, turn) = in_turn(small()).await;
        let turn = turn.into_inner();
        let mut reader = reader_of(&turn);
        let agent = tokio::spawn(async move {
            flood(&mut agent, 256, &"x".repeat(size), &AtomicUsize::new(0)).await;
            agent.finish().await;
            agent
        });
        // A `result()` that was dropped does not count.
        let given_up = tokio::time::timeout(Duration::ZERO, turn.channel.result()).await;
        assert!(given_up.is_err());
        idle().await;
        assert!(!turn.channel.events.has_waiting_results());
        let result = turn.channel.result().await;
        assert_eq!(result.map_or_else(|error| error.code(), |result| result.status.as_str()), outcome);
        // Not one event is lost.
        let mut seen = 0;
        while let Some(events) = batch(&mut reader, 64).await {
            seen += events.len();
        }
        assert_eq!(seen, 257);
        agent.await.expect("an agent");
    }
}

#[tokio::test(start_paused = true)]
async fn outcome_arrives_after_reader_leaves() {
    let (_session, mut agent, turn) = in_turn(small()).await;
    let turn = turn.into_inner();
    let mut reader = reader_of(&turn);
    let channel = Arc::clone(&turn.channel);
    let result = tokio::spawn(async move { channel.result().await });
    idle().await;
    reader.leave();
    flood(&mut agent, 1000, "some words", &AtomicUsize::new(0)).await;
    agent.finish().await;
    assert_eq!(result.await.expect("a task").expect("an outcome").text.len(), 10_000);
    let kept = batch(&mut reader, usize::MAX).await.expect("events").len() as u64;
    let discarded = turn.channel.events.discarded();
    assert!(kept > 0 && kept + discarded == 1001, "{kept} and {discarded}");
}

#[tokio::test(start_paused = true)]
async fn capacity_is_freed_when_batch_is_taken() {
    let (_session, mut agent, turn) = in_turn(small()).await;
    let turn = turn.into_inner();
    let agent = tokio::spawn(async move {
        flood(&mut agent, 10_000, "some words", &AtomicUsize::new(0)).await;
        agent.finish().await;
        agent
    });
    let mut reader = reader_of(&turn);
    idle().await;
    let events = batch(&mut reader, usize::MAX).await.expect("events");
    idle().await;
    // A batch was fetched, and the program has got nothing of it.
    assert!(reader.poll_ready(&Context::from_waker(Waker::noop())).is_pending());
    reader.take_batch(events.len());
    idle().await;
    assert!(reader.poll_ready(&Context::from_waker(Waker::noop())).is_ready());
    reader.leave();
    turn.channel.events.discard_all();
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn unread_turn_takes_bounded_memory() {
    const EVENTS: usize = 200_000;
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
    let writing = tokio::spawn(async move {
        let line = json!({"jsonrpc": "2.0", "method": "event", "params": {"type": "StepBegin", "payload": {"n": 1}}});
        let block = format!("{line}\n").repeat(100);
        for _ in 0..EVENTS / 100 {
            agent.write(block.as_bytes()).await;
        }
        agent.finish().await;
        agent
    });
    let result = turn.result().await.expect("an outcome");
    assert_eq!(result.steps, EVENTS as i64);
    let discarded = turn.discarded();
    // As many as one buffer holds are kept. The end that was made for it counts, too.
    let kept = rest(&mut turn).await.len() as u64;
    assert!((1..5000).contains(&kept) && kept + discarded == EVENTS as u64 + 1, "{kept} and {discarded}");
    writing.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn result_before_next_keeps_all_events() {
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
    let agent = tokio::spawn(async move {
        for n in 0..100 {
            agent.text(&n.to_string()).await;
        }
        agent.finish().await;
        agent
    });
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
    for n in 0..100 {
        assert_eq!(text_of(&turn.next().await.expect("an event").expect("fine")), Some(n.to_string()));
    }
    assert_eq!(rest(&mut turn).await, ["TurnEnd"]);
    assert_eq!((turn.next().await, turn.discarded()), (None, 0));
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn result_with_full_buffer_keeps_first_events() {
    let (_session, mut agent, mut turn) = in_turn(small()).await;
    let agent = tokio::spawn(async move {
        for n in 0..1000 {
            // Now and then an event that alone is larger than the buffer, and many that would fit after it.
            let filler = if n % 100 == 50 { "x".repeat(2 * SMALL) } else { String::new() };
            agent.text(&format!("{n} {filler}")).await;
        }
        agent.finish().await;
        agent
    });
    // Given up once: then the agent waits for a reader again, or for the next `result()`.
    let given_up = tokio::time::timeout(Duration::ZERO, turn.result()).await;
    assert!(given_up.is_err());
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
    let mut kept = 0;
    while let Some(event) = turn.next().await {
        let text = text_of(&event.expect("fine")).expect("a text");
        assert!(text.starts_with(&format!("{kept} ")), "{text:.20} instead of {kept}");
        kept += 1;
    }
    assert!(kept > 0 && kept + turn.discarded() == 1001, "{kept} and {}", turn.discarded());
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn late_reader_gets_kept_and_later_events() {
    let (_session, mut agent, turn) = in_turn(small()).await;
    let turn = turn.into_inner();
    let channel = Arc::clone(&turn.channel);
    let result = tokio::spawn(async move { channel.result().await });
    flood(&mut agent, 1000, "early", &AtomicUsize::new(0)).await;
    idle().await;
    let dropped = turn.channel.events.discarded();
    assert!(dropped > 900, "{dropped}");
    let mut reader = reader_of(&turn);
    let agent = tokio::spawn(async move {
        flood(&mut agent, 1000, "late", &AtomicUsize::new(0)).await;
        agent.finish().await;
        agent
    });
    let mut texts = Vec::new();
    while let Some(event) = std::future::poll_fn(|cx| reader.poll_event(None, cx)).await {
        texts.extend(text_of(&event.expect("an event")));
    }
    let early = texts.iter().filter(|text| *text == "early").count() as u64;
    assert_eq!((early + dropped, texts.len() as u64 - early, turn.channel.events.discarded()), (1000, 1000, dropped));
    assert_eq!(result.await.expect("a task").expect("an outcome").status.as_str(), "finished");
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn unread_manual_approval_is_rejected_during_result() {
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new().on_approval_manual()).await;
    let agent = tokio::spawn(async move {
        agent.ask_approval("a").await;
        let before = Instant::now();
        assert_eq!(agent.read().await["result"]["response"], "reject");
        assert_eq!(Instant::now() - before, SECOND);
        agent.finish().await;
        agent
    });
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
    // Its event was kept; an answer comes too late and does nothing.
    let Some(Ok(Event::ApprovalRequest(request))) = turn.next().await else { panic!("no request") };
    turn.respond(&request, Approval::Approve).await.expect("too late is fine");
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn read_manual_approval_waits_without_limit() {
    let (session, mut agent, mut turn) = in_turn(SessionOptions::new().on_approval_manual()).await;
    agent.ask_approval("a").await;
    let Some(Ok(Event::ApprovalRequest(request))) = turn.next().await else { panic!("no request") };
    assert!(tokio::time::timeout(3600 * SECOND, turn.result()).await.is_err());
    session.respond(&request, Approval::Approve).await.expect("an answer");
    assert_eq!(agent.read().await["result"]["response"], "approve");
    agent.finish().await;
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
}

#[tokio::test(start_paused = true)]
async fn reader_started_after_result_can_respond() {
    let (session, mut agent, turn) = in_turn(SessionOptions::new().on_approval_manual()).await;
    let turn = turn.into_inner();
    let channel = Arc::clone(&turn.channel);
    let result = tokio::spawn(async move { channel.result().await });
    agent.ask_approval("a").await;
    idle().await;
    let mut reader = reader_of(&turn);
    // The person who is asked takes an hour.
    tokio::time::sleep(3600 * SECOND).await;
    let events = batch(&mut reader, 64).await.expect("events");
    let [Event::ApprovalRequest(request)] = &events[..] else { panic!("no request") };
    session.respond(request, Approval::Approve).await.expect("an answer");
    assert_eq!(agent.read().await["result"]["response"], "approve");
    agent.finish().await;
    assert_eq!(result.await.expect("a task").expect("an outcome").status.as_str(), "finished");
}

#[tokio::test(start_paused = true)]
async fn slow_reader_does_not_trigger_idle_timeout() {
    let (_session, mut agent, mut turn) = in_turn(small().idle_timeout(90 * SECOND)).await;
    let agent = tokio::spawn(async move {
        flood(&mut agent, 1000, "some words", &AtomicUsize::new(0)).await;
        agent.finish().await;
        agent
    });
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(rest(&mut turn).await.len(), 1001);
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn idle_timeout_cancels_turn() {
    let (session, mut agent, mut turn) = in_turn(SessionOptions::new().idle_timeout(90 * SECOND)).await;
    let before = Instant::now();
    agent.expect("cancel").await;
    assert_eq!(Instant::now() - before, 90 * SECOND);
    agent.answer("cancel", json!({})).await;
    agent.answer("prompt", json!({"status": "cancelled"})).await;
    assert_eq!(turn.result().await.unwrap_err().code(), "timeout");
    assert_eq!(session.state().as_str(), "idle");
}

#[tokio::test(start_paused = true)]
async fn turn_timeout_cancels_with_full_queue() {
    let (session, mut agent, mut turn) = in_turn(small().turn_timeout(60 * SECOND)).await;
    let agent = tokio::spawn(async move {
        flood(&mut agent, 1000, "some words", &AtomicUsize::new(0)).await;
        agent.expect("cancel").await;
        agent.answer("cancel", json!({})).await;
        agent.answer("prompt", json!({"status": "cancelled"})).await;
        agent
    });
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(rest(&mut turn).await.last().expect("an end"), "timeout");
    assert_eq!(session.state().as_str(), "idle");
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn dropped_turn_is_cancelled_before_next() {
    let (session, mut agent, turn) = in_turn(small()).await;
    let agent = tokio::spawn(async move {
        flood(&mut agent, 1000, "old", &AtomicUsize::new(0)).await;
        agent.expect("cancel").await;
        agent.answer("cancel", json!({})).await;
        agent.text("old").await;
        agent.answer("prompt", json!({"status": "cancelled"})).await;
        agent.expect("prompt").await;
        agent.text("new").await;
        agent.finish().await;
        agent
    });
    assert_eq!(session.prompt("again").unwrap_err().code(), "turn_in_progress");
    drop(turn);
    let mut turn = session.prompt("again").expect("a turn");
    let mut texts = Vec::new();
    while let Some(event) = turn.next().await {
        texts.extend(text_of(&event.expect("an event")));
    }
    assert_eq!(texts, ["new"]);
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn unread_replay_waits_and_stays_complete() {
    let (session, mut agent) = open(small()).await;
    let mut past = session.replay();
    let agent = tokio::spawn(async move {
        agent.expect("replay").await;
        flood(&mut agent, 1000, "some words", &AtomicUsize::new(0)).await;
        agent.answer("replay", json!({"status": "finished"})).await;
        agent.expect("prompt").await;
        agent.finish().await;
        agent
    });
    idle().await;
    let mut seen = 0;
    while let Some(event) = past.next().await {
        event.expect("an event");
        seen += 1;
    }
    assert_eq!(seen, 1000);
    // A replay that is dropped is read to its end, and forgotten.
    session.prompt("hi").expect("a turn").result().await.expect("an outcome");
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn slow_on_event_does_not_block_calls() {
    let options = crate::host::on_event_async(small(), |_| std::future::pending());
    let (session, mut agent) = open(options).await;
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let agent = tokio::spawn(async move {
        flood(&mut agent, 1000, "some words", &count).await;
        agent.expect("set_plan_mode").await;
        flood(&mut agent, 1000, "some words", &count).await;
        agent.answer("set_plan_mode", json!({"status": "ok"})).await;
        agent.expect("prompt").await;
        agent.expect("cancel").await;
        agent.answer("cancel", json!({})).await;
        agent.answer("prompt", json!({"status": "cancelled"})).await;
        agent
    });
    idle().await;
    assert!(written.load(Ordering::Relaxed) < 1000);
    let before = Instant::now();
    session.set_plan_mode(true).await.expect("switched");
    let turn = session.prompt("hi").expect("a turn");
    turn.cancel().await.expect("cancelled");
    assert_eq!(Instant::now(), before);
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn slow_reader_task_does_not_deadlock() {
    const EVENTS: usize = 1000;
    let (_session, mut agent, turn) = in_turn(small()).await;
    let turn = turn.into_inner();
    let mut reading = reader_of(&turn);
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let agent = tokio::spawn(async move {
        flood(&mut agent, EVENTS, &"x".repeat(32 << 10), &count).await;
        agent.finish().await;
        agent
    });
    let reader = tokio::spawn(async move {
        let mut seen = 0;
        loop {
            let next = std::future::poll_fn(|cx| reading.poll_event(None, cx)).await;
            if next.is_none() {
                return seen;
            }
            seen += 1;
            // Never further ahead than the hard bound.
            assert!(written.load(Ordering::Relaxed) - seen.min(EVENTS) < 150);
            tokio::time::sleep(4 * SECOND).await;
        }
    });
    assert_eq!(turn.channel.result().await.expect("an outcome").status.as_str(), "finished");
    // And the end.
    assert_eq!(reader.await.expect("a reader"), EVENTS + 1);
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn reader_awaiting_outcome_gets_event_buffer_full() {
    // The second has read on before it began to wait, as one does that awaits in its loop what it began earlier.
    for (reads_on, limit) in [(false, 5 * SECOND), (true, 65 * SECOND)] {
        let (_session, mut agent, turn) = in_turn(small()).await;
        let turn = turn.into_inner();
        let mut reader = reader_of(&turn);
        let agent =
            tokio::spawn(async move { flood(&mut agent, 256, &"x".repeat(32 << 10), &AtomicUsize::new(0)).await });
        let channel = Arc::clone(&turn.channel);
        let result = tokio::spawn(async move { (channel.result().await, Instant::now()) });
        idle().await;
        let before = Instant::now();
        if reads_on {
            std::future::poll_fn(|cx| reader.poll_event(None, cx)).await.expect("an event").expect("fine");
        }
        let (result, at) = result.await.expect("a task");
        assert_eq!(result.unwrap_err().code(), "event_buffer_full");
        assert!(at - before <= limit && at - before > limit - SECOND, "{:?}", at - before);
        agent.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn requesting_agent_without_reading_times_out() {
    let (session, agent, mut turn) = in_turn(SessionOptions::new()).await;
    let Agent { reader, mut writer, exit, .. } = agent;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let asking = tokio::spawn(async move {
        let line = format!("{}\n", json!({"id": "r", "method": "nonsense", "params": {}}));
        while writer.write_all(line.as_bytes()).await.is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    exit.obey();
    let before = Instant::now();
    let reading = async { while turn.next().await.is_some_and(|event| event.is_ok()) {} };
    reading.await;
    assert_eq!(Instant::now() - before, 60 * SECOND);
    let error = turn.result().await.unwrap_err();
    assert_eq!(error.code(), "protocol_error");
    assert!(error.to_string().starts_with("the agent sends requests and does not read the answers: 16"), "{error}");
    // The bytes that wait: the refusals, of some hundred bytes each, and no more than was read at a time.
    let mut dialect = crate::dialect::Wire::new(crate::WireVersion::LATEST);
    let refusal = crate::dialect::Dialect::refuse(&mut dialect, "\"r\"", -32601, "method not found: nonsense").len();
    let waiting = asked.load(Ordering::Relaxed) * refusal;
    assert!(waiting > 16 << 20 && waiting < (16 << 20) + (1 << 20), "{waiting}");
    asking.abort();
    assert_eq!(session.prompt("again").unwrap_err(), error);
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn late_reading_agent_gets_all_answers() {
    const REQUESTS: usize = 100_000;
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new()).await;
    let agent = tokio::spawn(async move {
        for n in 0..REQUESTS {
            agent.write(format!("{{\"id\":\"{n}\",\"method\":\"nonsense\",\"params\":{{}}}}\n").as_bytes()).await;
        }
        for n in 0..REQUESTS {
            assert_eq!(agent.read().await["id"], n.to_string());
        }
        agent.finish().await;
        agent
    });
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn large_answers_may_exceed_queue_limit() {
    // Three of them at once are more than may wait otherwise, and the agent is busy talking meanwhile.
    let tool = crate::ExternalTool::new("t", "t", json!({"type": "object"}), |_| async { Ok("x".repeat(10 << 20)) });
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new().tool(tool)).await;
    let agent = tokio::spawn(async move {
        for id in ["a", "b"] {
            agent.request(id, "ToolCallRequest", json!({"id": id, "name": "t", "arguments": "{}"})).await;
        }
        flood(&mut agent, 5000, "some words", &AtomicUsize::new(0)).await;
        for _ in 0..2 {
            let answer = agent.read().await;
            assert_eq!(answer["result"]["return_value"]["output"].as_str().map(str::len), Some(10 << 20));
        }
        agent.finish().await;
        agent
    });
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn server_events_for_slow_reader_are_bounded() {
    const TEXT: usize = 64 << 10;
    // 12 MiB, which fit, and 20 MiB, which do not.
    for (count, outcome) in [(192, "finished"), (320, "event_buffer_full")] {
        let (session, mut agent, mut turn) = in_turn(small()).await;
        agent.exit.never_wait();
        agent.exit.obey();
        let params = json!({"type": "ContentPart", "payload": {"type": "text", "text": "x".repeat(TEXT)}});
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "method": "event", "params": params}));
        let agent = tokio::spawn(async move {
            for _ in 0..count {
                // The session may have been given up.
                if agent.writer.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
            agent.finish().await;
            agent.obey().await;
        });
        idle().await;
        let ended = loop {
            match turn.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error.code(),
                None => break turn.result().await.unwrap().status.as_str(),
            }
        };
        assert_eq!(ended, outcome);
        let state = if outcome == "finished" {
            crate::session::SessionState::Idle
        } else {
            crate::session::SessionState::Closed
        };
        assert_eq!(session.state(), state);
        drop(session);
        agent.await.unwrap();
    }
}

/// The reads of an agent that writes without end, and the moments that another task gets meanwhile.
#[tokio::test(start_paused = true)]
async fn flood_without_events_lets_other_tasks_run() {
    const LINES: usize = 4096;
    let (session, mut agent) = opening(SessionOptions::new(), 8 << 20);
    let (session, ()) = tokio::join!(session, agent.welcome());
    let session = session.expect("open");
    let mut turn = session.prompt("hi").expect("a turn");
    agent.expect("prompt").await;
    let answer = json!({"jsonrpc": "2.0", "id": "unknown", "result": "x".repeat(1000)});
    agent.write(format!("{answer}\n").repeat(LINES).as_bytes()).await;
    agent.text("end").await;
    let mut moments = 0;
    loop {
        tokio::select! {
            biased;
            event = turn.next() => break assert_eq!(event.expect("an event").expect("no failure").text(), Some("end")),
            () = tokio::task::yield_now() => moments += 1,
        }
    }
    let reads = LINES * 1000 / crate::driver::reader::CHUNK;
    assert!(moments >= reads, "{moments} moments in {reads} reads");
}
