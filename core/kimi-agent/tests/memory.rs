//! The allocations of sessions, counted exactly. One test, as the counters are the process's.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kimi_agent::testing::scripted_agent;
use kimi_agent::{ExternalTool, Session};
use serde_json::json;
use tokio::sync::Semaphore;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The address of the last allocation. Memory that is given back before anything else is allocated was asked for only to see
/// whether there is so much, and never touched: it does not count towards the peak.
static LAST: AtomicUsize = AtomicUsize::new(0);

fn note_peak() {
    PEAK.fetch_max(LIVE.load(Relaxed), Relaxed);
}

// SAFETY: all of it is the system's allocator; the counters allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note_peak();
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promises are handed on.
        let pointer = unsafe { System.alloc(layout) };
        LAST.store(pointer.addr(), Relaxed);
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if LAST.swap(0, Relaxed) != pointer.addr() {
            note_peak();
        }
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note_peak();
        LAST.store(0, Relaxed);
        LIVE.fetch_sub(layout.size(), Relaxed);
        LIVE.fetch_add(size, Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn live() -> usize {
    LIVE.load(Relaxed)
}

fn peak() -> usize {
    note_peak();
    PEAK.load(Relaxed)
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const LARGE: usize = 8 * MIB;

#[tokio::test]
async fn sessions_use_bounded_memory() {
    idle_sessions_are_small().await;
    large_answer_is_held_twice().await;
    large_event_is_held_twice().await;
}

async fn idle_sessions_are_small() {
    const SESSIONS: usize = 16;
    let agent = scripted_agent(json!([[{"text": "Hello"}]]));
    // The first session of a process makes things that all others share.
    let first = Session::builder().executable(&agent).start().await.unwrap();
    first.prompt("Hi").unwrap().result().await.unwrap();
    let before = live();
    let mut sessions = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        let session = Session::builder().executable(&agent).start().await.unwrap();
        session.prompt("Hi").unwrap().result().await.unwrap();
        sessions.push(session);
    }
    let each = (live() - before) / SESSIONS;
    assert!(each <= 12 * KIB, "an idle session holds {each} bytes");
}

/// Its text, and the line that carries it.
async fn large_answer_is_held_twice() {
    let agent = scripted_agent(json!([[{"external_tool": {"name": "big"}}, {"text": "thanks"}]]));
    // So that what is measured begins where the handler is done.
    let (called, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handles = (Arc::clone(&called), Arc::clone(&go));
    let tool = ExternalTool::new("big", "Gives much", json!({"type": "object"}), move |_| {
        let (called, go) = (Arc::clone(&handles.0), Arc::clone(&handles.1));
        async move {
            called.add_permits(1);
            go.acquire().await?.forget();
            Ok("x".repeat(LARGE))
        }
    });
    let session = Session::builder().executable(&agent).tool(tool).start().await.unwrap();
    let mut turn = session.prompt("Hi").unwrap();
    called.acquire().await.unwrap().forget();
    let before = live();
    PEAK.store(before, Relaxed);
    go.add_permits(1);
    while turn.next().await.transpose().unwrap().is_some_and(|event| event.text().is_none()) {
        // The agent sends the result back, as an event.
    }
    let peak = peak() - before;
    // A vector that grows has up to twice the capacity that it needs.
    assert!(peak <= 3 * LARGE + MIB, "{peak} bytes for an answer of {LARGE}");
    let result = turn.result().await.unwrap();
    assert_eq!(result.text, "thanks");
    // The outcome keeps the beginning of the tool's output.
    drop((result, turn));
    let left = live().saturating_sub(before);
    assert!(left <= 64 * KIB, "{left} bytes are held after it is written");
    session.close().await.unwrap();
}

/// The line that carries it, and its text.
async fn large_event_is_held_twice() {
    let call = json!({"name": "ReadFile", "result": {"output": "x".repeat(LARGE)}});
    let agent = scripted_agent(json!([[{"tool_call": call}]]));
    let session = Session::builder().executable(&agent).start().await.unwrap();
    let before = live();
    PEAK.store(before, Relaxed);
    let mut turn = session.prompt("Hi").unwrap();
    while turn.next().await.transpose().unwrap().is_some() {}
    let peak = peak() - before;
    assert!(peak >= 2 * LARGE, "what is measured is not what happens: {peak} bytes");
    assert!(peak <= 3 * LARGE + MIB, "{peak} bytes for an event of {LARGE}");
    turn.result().await.unwrap();
    drop(turn);
    let left = live().saturating_sub(before);
    assert!(left <= 64 * KIB, "{left} bytes are held after it is read");
    session.close().await.unwrap();
}
