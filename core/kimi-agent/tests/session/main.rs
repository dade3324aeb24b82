//! Sessions as programs have them, with the scripted agent as a child process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[cfg(unix)]
mod acp;
#[cfg(unix)]
mod agent;
mod cassette;
mod ends;
mod errors;
#[cfg(target_os = "linux")]
mod left_behind;
mod output;
mod recording;
mod replay;
mod requests;
#[cfg(target_os = "linux")]
mod security;
mod services;
mod table;
mod telemetry;
mod turns;
mod unread;

use kimi_agent::testing::{ScriptedAgent, scripted_agent};
use kimi_agent::wire::Event;
use kimi_agent::{Session, SessionOptions, Turn};
use serde_json::Value;

/// The options for an agent with this script, and the agent, which must be kept.
fn with(script: Value) -> (SessionOptions, ScriptedAgent) {
    let agent = scripted_agent(script);
    (SessionOptions::new().executable(&agent), agent)
}

/// Writes a recording with these entries.
#[cfg(feature = "mcp")]
fn write_recording(file: &std::path::Path, entries: &[Value]) {
    let text: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
    std::fs::write(file, text).unwrap();
}

async fn open(script: Value) -> Session {
    let (options, _agent) = with(script);
    options.start().await.expect("a session")
}

/// A running turn of a session with one turn's script.
async fn running(actions: Value) -> (Session, Turn) {
    let session = open(Value::Array(vec![actions])).await;
    let turn = session.prompt("go").expect("a turn");
    (session, turn)
}

/// Reads up to the next event of this type.
async fn until(turn: &mut Turn, kind: &str) -> Event {
    loop {
        let event = turn.next().await.expect("no end yet").expect("no error");
        if event.type_name() == kind {
            return event;
        }
    }
}

/// The types of what is left; an error by its code.
async fn rest(turn: &mut Turn) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(next) = turn.next().await {
        seen.push(next.map_or_else(|error| error.code().to_owned(), |event| event.type_name().to_owned()));
    }
    seen
}
