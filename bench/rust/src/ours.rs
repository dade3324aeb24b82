//! This SDK.

use kimi_agent::{Approval, ExternalTool, Session, SessionOptions};
use serde_json::json;

use crate::measure::{Measure, cpu_seconds, status_kb};

fn options(agent: &str) -> SessionOptions {
    Session::builder().executable(agent).on_approval(|_| async { Ok(Approval::Approve) }).tool(ExternalTool::new(
        "look_up",
        "Looks an item up.",
        json!({"type": "object"}),
        |_| async { Ok("12") },
    ))
}

pub async fn run(agent: &str, task: &str) {
    match task {
        "turn" => turn(agent).await,
        "sessions" => sessions(agent, 50).await,
        "idle" => idle(agent, 100).await,
        other => panic!("no task is called {other}"),
    }
}

async fn turn(agent: &str) {
    let session = options(agent).start().await.expect("a session");
    let mut measure = Measure::begin();
    let mut turn = session.prompt("go").expect("a turn");
    while let Some(event) = turn.next().await {
        std::hint::black_box(event.expect("an event"));
        measure.event();
    }
    measure.end();
    session.close().await.expect("it ends");
}

/// Opens that many, one after the other, and closes them together.
async fn sessions(agent: &str, count: usize) {
    let measure = Measure::begin();
    let mut open = Vec::new();
    for _ in 0..count {
        open.push(options(agent).start().await.expect("a session"));
    }
    measure.end_with(json!({"sessions": count, "all_cpu_s": cpu_seconds()}));
    for session in open {
        session.close().await.expect("it ends");
    }
}

/// What sessions take that do nothing.
async fn idle(agent: &str, count: usize) {
    let first = options(agent).start().await.expect("a session");
    let measure = Measure::begin();
    let (kb, files) = (status_kb("VmRSS:"), open_files());
    let mut open = Vec::new();
    for _ in 0..count {
        open.push(options(agent).start().await.expect("a session"));
    }
    measure.end_with(json!({
        "sessions": count,
        "kb_each": (status_kb("VmRSS:") - kb) as f64 / count as f64,
        "files_each": (open_files() - files) as f64 / count as f64,
        "threads": status_kb("Threads:"),
    }));
    for session in open.into_iter().chain([first]) {
        session.close().await.expect("it ends");
    }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
