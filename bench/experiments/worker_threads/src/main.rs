//! Measures the processor time of eight sessions at once, with a tokio runtime of one thread and of several workers.
//!
//! `cargo run --release` prints one line for each kind of runtime: the processor time of this process, without its agents, and
//! how often its threads were switched.

use std::time::Instant;

use kimi_agent::testing::{ScriptedAgent, scripted_agent};
use kimi_agent::{Session, wire::Event};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

const SESSIONS: usize = 8;
const EVENTS: usize = 20_000;

async fn read_one(agent: &ScriptedAgent) -> kimi_agent::Result<usize> {
    let session = Session::builder().executable(agent).start().await?;
    let mut turn = session.prompt("go")?;
    let mut texts = 0;
    while let Some(event) = turn.next().await {
        texts += usize::from(matches!(event?, Event::ContentPart(_)));
    }
    session.close().await?;
    Ok(texts)
}

fn used() -> (f64, i64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage`, which any bytes are.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_nvcsw)
}

fn measure(name: &str, runtime: &Runtime, agent: &'static ScriptedAgent) {
    let (before, switches) = used();
    let since = Instant::now();
    runtime.block_on(async {
        let readers: Vec<_> = (0..SESSIONS).map(|_| tokio::spawn(read_one(agent))).collect();
        for reader in readers {
            assert_eq!(reader.await.expect("a reader that ends").expect("a turn that ends"), EVENTS);
        }
    });
    let (after, switched) = used();
    println!(
        "{name}: {:.0} ms of processor time, {} switches, {:.0} ms in all",
        (after - before) * 1e3,
        switched - switches,
        since.elapsed().as_secs_f64() * 1e3
    );
}

fn main() {
    let pieces: Vec<String> = (0..EVENTS).map(|n| format!("piece {n} ")).collect();
    let agent: &'static ScriptedAgent = Box::leak(Box::new(scripted_agent(json!([[{"text": pieces}]]))));
    measure("one thread", &Builder::new_current_thread().enable_all().build().expect("a runtime"), agent);
    for workers in [1, 2, 4] {
        let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime");
        measure(&format!("{workers} workers"), &runtime, agent);
    }
}
