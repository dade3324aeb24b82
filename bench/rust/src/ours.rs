//! This SDK.

use kimi_agent::batch::BatchOptions;
use kimi_agent::{Agent, Approval, Dialect, ExternalTool, Session, SessionOptions, run_batch};
use serde_json::json;

use crate::measure::Measure;

fn options(agent: &str) -> SessionOptions {
    Session::builder().executable(agent).on_approval(|_| async { Ok(Approval::Approve) }).tool(ExternalTool::new(
        "look_up",
        "Looks an item up.",
        json!({"type": "object"}),
        |_| async { Ok("12") },
    ))
}

pub async fn run(agent: &str) {
    match std::env::var("BENCH_TASK").as_deref() {
        Ok("sessions") => sessions(agent).await,
        Ok("batch") => batch(agent).await,
        Ok("acp") => turn(Session::builder().executable([agent, "acp"]).dialect(Dialect::Acp)).await,
        Ok("server") => {
            let options = Session::builder().executable([agent]).dialect(Dialect::KimiWeb);
            turn(options.on_approval(|_| async { Ok(Approval::Approve) })).await;
        }
        Ok("server sessions") => server_sessions(agent).await,
        _ => turn(options(agent)).await,
    }
}

async fn turn(options: SessionOptions) {
    let session = options.start().await.expect("a session");
    let mut measure = Measure::begin();
    let mut turn = session.prompt("go").expect("a turn");
    while let Some(event) = turn.next().await {
        std::hint::black_box(event.expect("an event"));
        measure.event();
    }
    measure.end();
    session.close().await.expect("it ends");
}

/// Sessions of one process of Kimi Code's server, each with a turn, and all open at last.
async fn server_sessions(agent: &str) {
    let count: usize = std::env::var("BENCH_SESSIONS").expect("how many").parse().expect("a number");
    let agent = Agent::builder().executable([agent]).dialect(Dialect::KimiWeb).open().expect("an agent");
    let measure = Measure::begin();
    let mut open = Vec::new();
    for _ in 0..count {
        let session = agent.create_session(Session::builder()).await.expect("a session");
        let mut turn = session.prompt("go").expect("a turn");
        while let Some(event) = turn.next().await {
            event.expect("an event");
        }
        open.push(session);
    }
    measure.end_sessions(open.len());
    agent.close().await.expect("it ends");
}

/// Runs a batch of jobs.
async fn batch(agent: &str) {
    let number = |name| std::env::var(name).expect("how many").parse::<usize>().expect("a number");
    let measure = Measure::begin();
    let options = BatchOptions::new().concurrency(number("BENCH_CONCURRENCY"));
    let jobs = (0..number("BENCH_JOBS")).map(|number| format!("job {number}"));
    let mut batch = run_batch(jobs, options.session(Session::builder().executable([agent])));
    let mut finished = 0;
    while let Some(result) = batch.next().await {
        let result = result.expect("a result").result.expect("it finished");
        finished += usize::from(result.text == "Hello");
    }
    measure.end_sessions(finished);
}

/// Opens sessions one after the other, each with a turn, and closes them together.
async fn sessions(agent: &str) {
    let count: usize = std::env::var("BENCH_SESSIONS").expect("how many").parse().expect("a number");
    let measure = Measure::begin();
    let mut open = Vec::new();
    for _ in 0..count {
        let session = options(agent).start().await.expect("a session");
        let mut turn = session.prompt("go").expect("a turn");
        while let Some(event) = turn.next().await {
            event.expect("an event");
        }
        open.push(session);
    }
    measure.end_sessions(count);
    for session in open {
        session.close().await.expect("it ends");
    }
}
