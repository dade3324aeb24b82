//! Batches, with the scripted agent as child processes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[cfg(unix)]
mod attacks;
mod child;
#[cfg(unix)]
mod git_programs;
mod journal;
mod run;
mod workspace;

use std::time::Duration;

use kimi_agent::SessionOptions;
use kimi_agent::batch::{Batch, BatchOptions, JobResult, Retry};
use kimi_agent::testing::{ScriptedAgent, scripted_agent};
use serde_json::Value;

/// Options for an agent with this script, and the agent, which must be kept. Retries have no long delays.
fn with(script: Value) -> (BatchOptions, ScriptedAgent) {
    let agent = scripted_agent(script);
    let retry = Retry::new().initial_delay(Duration::from_millis(1));
    (BatchOptions::new().retry(retry).session(SessionOptions::new().executable(&agent)), agent)
}

/// Reads all results; the batch must not fail.
async fn all(mut batch: Batch) -> Vec<JobResult> {
    let mut results = Vec::new();
    while let Some(result) = batch.next().await {
        results.push(result.expect("a result"));
    }
    results.sort_by_key(|result| result.index);
    results
}

/// The text of each result.
fn texts(results: &[JobResult]) -> Vec<&str> {
    results.iter().map(|result| result.result.as_ref().map_or("", |done| done.text.as_str())).collect()
}

/// Options for an agent that plays `first` in its first session, and `then` in the later ones.
#[cfg(unix)]
fn first_then(first: Value, then: Value, folder: &std::path::Path) -> (BatchOptions, [ScriptedAgent; 2]) {
    let agents = [scripted_agent(first), scripted_agent(then)];
    let quoted = |agent: &ScriptedAgent| {
        let words = agent.iter().map(|word| format!("'{}'", word.to_string_lossy()));
        words.collect::<Vec<_>>().join(" ")
    };
    let script = format!(
        "if mkdir '{}/first' 2>/dev/null; then exec {} \"$@\"; else exec {} \"$@\"; fi",
        folder.display(),
        quoted(&agents[0]),
        quoted(&agents[1])
    );
    let (options, _) = with(serde_json::json!([]));
    (options.session(SessionOptions::new().executable(["sh", "-c", &script, "sh"])), agents)
}
