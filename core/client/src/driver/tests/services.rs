//! Files and terminals of an agent over ACP: the thread that encodes their answers, and how many of them wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::messages::TerminalResult;
use crate::options::Dialect;

/// Counts the messages to the agent that are encoded on the thread of the test: short ones and long ones.
#[derive(Clone, Default)]
struct Encoded(Arc<[AtomicUsize; 2]>);

impl Encoded {
    fn counts(&self) -> [usize; 2] {
        [0, 1].map(|index| self.0[index].load(Ordering::Relaxed))
    }
}

impl tracing::field::Visit for Encoded {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let text = format!("{value:?}");
        if text.starts_with('>') {
            self.0[usize::from(text.len() > crate::driver::process::LONG)].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl tracing::Subscriber for Encoded {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

impl Agent {
    async fn ask(&mut self, id: u64, method: &str, mut params: Value) {
        params["sessionId"] = json!("s1");
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    async fn asked(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.ask(id, method, params).await;
        let answer = self.read().await;
        assert_eq!(answer["id"], id, "{answer:.200}");
        answer["result"].clone()
    }

    /// Makes a terminal, and waits until its command has ended.
    async fn ended_terminal(&mut self) -> Value {
        let made = self.asked(900, "terminal/create", json!({"command": "ls", "cwd": "/"})).await;
        self.asked(901, "terminal/wait_for_exit", made.clone()).await;
        made
    }
}

/// A session over ACP with a turn under way.
async fn acp_turn(options: SessionOptions) -> (Session, Agent, Turn) {
    let (session, mut agent) = opening(options.dialect(Dialect::Acp), 4096);
    let handshake = async {
        agent.expect("initialize").await;
        agent.answer("initialize", json!({"protocolVersion": 1, "agentCapabilities": {}})).await;
        agent.expect("session/new").await;
        agent.answer("session/new", json!({"sessionId": "s1"})).await;
    };
    let (session, ()) = tokio::join!(session, handshake);
    let session = session.expect("open");
    let turn = session.prompt("hi").expect("a turn");
    agent.expect("session/prompt").await;
    (session, agent, turn)
}

async fn finish(session: Session, mut agent: Agent, mut turn: Turn) {
    agent.answer("session/prompt", json!({"stopReason": "end_turn"})).await;
    let _ = rest(&mut turn).await;
    tokio::spawn(agent.obey());
    session.close().await.expect("closed");
}

#[tokio::test]
async fn large_answers_are_encoded_on_another_thread() {
    let encoded = Encoded::default();
    let _subscriber = tracing::subscriber::set_default(encoded.clone());
    let text = |length: usize| "x".repeat(length);
    let options = SessionOptions::new()
        .on_read_file(move |request| async move { Ok(Some(text(if request.path == "/short" { 10 } else { 200_000 }))) })
        .on_terminal(move |_| async move { Ok(TerminalResult::new(text(200_000), 0)) });
    let (session, mut agent, turn) = acp_turn(options).await;
    let [before, _] = encoded.counts();
    let length = |result: Value, field: &str| result[field].as_str().map(str::len);
    assert_eq!(length(agent.asked(1, "fs/read_text_file", json!({"path": "/short"})).await, "content"), Some(10));
    assert_eq!(length(agent.asked(2, "fs/read_text_file", json!({"path": "/long"})).await, "content"), Some(200_000));
    let terminal = agent.ended_terminal().await;
    assert_eq!(length(agent.asked(3, "terminal/output", terminal).await, "output"), Some(200_000));
    let [short, long] = encoded.counts();
    assert_eq!((short > before, long), (true, 0));
    finish(session, agent, turn).await;
}

#[tokio::test(start_paused = true)]
async fn four_files_are_read_at_a_time() {
    let (begun, free) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let (count, place) = (Arc::clone(&begun), Arc::clone(&free));
    let options = SessionOptions::new().on_read_file(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        let place = Arc::clone(&place);
        async move {
            place.acquire().await?.forget();
            Ok(Some("text".to_owned()))
        }
    });
    let (session, mut agent, turn) = acp_turn(options).await;
    for id in 0..10 {
        agent.ask(id, "fs/read_text_file", json!({"path": "/a"})).await;
    }
    idle().await;
    assert_eq!(begun.load(Ordering::Relaxed), 4);
    // A request that waits can be withdrawn.
    agent.send(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 9}})).await;
    assert_eq!(agent.read().await["id"], 9);
    for answered in 1..=9 {
        free.add_permits(1);
        assert_eq!(agent.read().await["result"]["content"], "text");
        idle().await;
        assert_eq!(begun.load(Ordering::Relaxed), 9.min(4 + answered));
    }
    finish(session, agent, turn).await;
}

#[tokio::test(start_paused = true)]
async fn files_wait_while_large_answers_are_unwritten() {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let options = SessionOptions::new().on_read_file(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(Some("x".repeat(9 << 20))) }
    });
    let (session, mut agent, turn) = acp_turn(options).await;
    for id in 0..12 {
        agent.ask(id, "fs/read_text_file", json!({"path": "/a"})).await;
    }
    idle().await;
    assert!(begun.load(Ordering::Relaxed) <= 6, "{begun:?}");
    for _ in 0..12 {
        assert_eq!(agent.read().await["result"]["content"].as_str().map(str::len), Some(9 << 20));
    }
    assert_eq!(begun.load(Ordering::Relaxed), 12);
    finish(session, agent, turn).await;
}

#[tokio::test(start_paused = true)]
async fn reading_with_unwritten_outputs_of_terminals() {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let options = SessionOptions::new()
        .on_terminal(|_| async { Ok(TerminalResult::new("x".repeat(4 << 20), 0)) })
        .on_read_file(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok(Some("text".to_owned())) }
        });
    let (session, mut agent, turn) = acp_turn(options).await;
    let terminal = agent.ended_terminal().await;
    for id in 0..10 {
        agent.ask(id, "terminal/output", terminal.clone()).await;
    }
    agent.ask(10, "fs/read_text_file", json!({"path": "/a"})).await;
    idle().await;
    // The request behind the outputs, which exceed the limit together, is not taken.
    assert_eq!(begun.load(Ordering::Relaxed), 0);
    for _ in 0..10 {
        assert_eq!(agent.read().await["result"]["output"].as_str().map(str::len), Some(4 << 20));
    }
    assert_eq!(agent.read().await["result"]["content"], "text");
    finish(session, agent, turn).await;
}
