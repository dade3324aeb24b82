//! A session whose agent sends more than there is memory for. One test, as the allocator is the process's.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kimi_agent::testing::scripted_agent;
use kimi_agent::{Error, Session};
use serde_json::{Value, json};

/// Refuses large allocations. An allocation without an earlier check ends the process.
struct Scarce;

#[global_allocator]
static SCARCE: Scarce = Scarce;

static LARGEST: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: all of it is the system's allocator; null is how an allocator says that there is no memory.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST.load(Relaxed) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > LARGEST.load(Relaxed) {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

const MIB: usize = 1 << 20;

/// An event of about so many bytes. `\n` in its text has to be decoded.
fn event(bytes: usize) -> Value {
    let before =
        r#"{"jsonrpc":"2.0","method":"event","params":{"type":"ContentPart","payload":{"type":"text","text":""#;
    json!({"raw": {"before": before, "repeat": "abcdefgh\\n", "times": bytes / 10, "after": "\"}}}"}})
}

#[tokio::test]
async fn line_exceeding_memory_fails_its_session_only() {
    // The buffer, and what is decoded of a line that the buffer could hold.
    for (bytes, largest) in [(64 * MIB, 41 * MIB), (15 * MIB, 41 * MIB)] {
        let agent = scripted_agent(json!([[event(bytes), {"text": "end"}]]));
        let session = Session::builder().executable(&agent).max_line_bytes(1 << 30).start().await.unwrap();
        let mut turn = session.prompt("go").unwrap();
        LARGEST.store(largest, Relaxed);
        let outcome = turn.result().await;
        LARGEST.store(usize::MAX, Relaxed);
        let Err(Error::Protocol(text)) = outcome else { panic!("{bytes}: {outcome:?}") };
        assert!(text.contains("not enough memory for a line of"), "{text}");
        session.close().await.unwrap();
    }
    let agent = scripted_agent(json!([[event(12 * MIB)]]));
    let session = Session::builder().executable(&agent).start().await.unwrap();
    session.prompt("go").unwrap().result().await.unwrap();
    session.close().await.unwrap();
}
