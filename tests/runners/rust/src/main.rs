//! Plays scenarios through the Rust crate: `scenario-runner CASE.json …`. `tests/README.md` has the format.
//!
//! The trace goes to stdout, one JSON object a line. What is wrong with a scenario itself is a line, too:
//! `{"error": "runner_problem", "message": …}`.
//!
//! With `-` in place of the files, each line of stdin names a case, and `{"done": name}` ends its trace.
//!
//! With `--events` before the files, they are recordings: the trace has the events that each recording leads to.

mod behaviour;
mod case;
mod input;
mod program;
mod recorded;
#[path = "../../../telemetry/rust/src/recorder.rs"]
mod recorder;
mod trace;
mod turns;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use case::Case;
use program::Player;
use trace::print;

/// Longer than any scenario takes, even on a machine that does much else. `$SCENARIO_WATCHDOG` has other seconds.
const WATCHDOG: Duration = Duration::from_secs(120);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    if files.is_empty() {
        print(&json!({"error": "runner_problem", "message": "usage: scenario-runner CASE.json …"}));
        return ExitCode::from(2);
    }
    if files[0] == "--events" {
        files[1..].iter().for_each(|file| recorded::print_events(Path::new(file)));
        return ExitCode::SUCCESS;
    }
    let seconds = std::env::var("SCENARIO_WATCHDOG").ok().and_then(|seconds| seconds.parse().ok());
    let watchdog = seconds.map_or(WATCHDOG, Duration::from_secs);
    let streamed = files == ["-"];
    let mut files = files.into_iter();
    while let Some(file) = if streamed { next_line().await.map(Into::into) } else { files.next() } {
        let case = match Case::read(Path::new(&file)) {
            Ok(case) => case,
            Err(problem) => {
                print(&json!({"error": "runner_problem", "message": problem}));
                return ExitCode::from(2);
            }
        };
        print(&json!({"case": case.name}));
        if tokio::time::timeout(watchdog, play(&case)).await.is_err() {
            print(&json!({"error": "runner_watchdog"}));
        }
        if streamed {
            print(&json!({"done": case.name}));
        }
    }
    ExitCode::SUCCESS
}

/// The next line of stdin; the sessions' tasks run on meanwhile.
async fn next_line() -> Option<String> {
    tokio::task::spawn_blocking(|| std::io::stdin().lines().next()?.ok()).await.ok()?
}

async fn play(case: &Case) {
    let mut player = match Player::new(case) {
        Ok(player) => player,
        Err(problem) => return print(&json!({"error": "runner_problem", "message": problem})),
    };
    for op in &case.program {
        if let Err(problem) = player.step(op).await {
            print(&json!({"op": op["op"], "error": "runner_problem", "message": problem}));
        }
    }
    player.finish().await;
}
