//! Plays scenarios through the Rust crate: `scenario-runner CASE.json …`. `tests/README.md` has the format.
//!
//! The trace goes to stdout, one JSON object a line. What is wrong with a scenario itself is a line, too:
//! `{"error": "runner_problem", "message": …}`.

mod behaviour;
mod case;
mod program;
mod trace;
mod turns;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use case::Case;
use program::Player;
use trace::print;

/// Longer than any scenario takes, even on a machine that does much else.
const WATCHDOG: Duration = Duration::from_secs(120);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    if files.is_empty() {
        print(&json!({"error": "runner_problem", "message": "usage: scenario-runner CASE.json …"}));
        return ExitCode::from(2);
    }
    for file in files {
        let case = match Case::read(Path::new(&file)) {
            Ok(case) => case,
            Err(problem) => {
                print(&json!({"error": "runner_problem", "message": problem}));
                return ExitCode::from(2);
            }
        };
        print(&json!({"case": case.name}));
        if tokio::time::timeout(WATCHDOG, play(&case)).await.is_err() {
            print(&json!({"error": "runner_watchdog"}));
        }
    }
    ExitCode::SUCCESS
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
