//! Walks one of the core's hot paths so many times: `instruction-paths PATH TIMES`. Without arguments it prints the
//! paths' names. `count.py` counts what each takes.
//!
//! What a path needs is made for [`MOST`] times, however often it is walked, so that the difference between two counts
//! is the path alone.

#![allow(clippy::print_stdout, clippy::panic, clippy::unwrap_used, reason = "a program that fails loudly")]

mod lines;

use kimi_agent::{Approval, Session, SessionOptions};
use kimi_agent_client::measured;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// More is not asked for.
const MOST: usize = 2000;
/// What Linux's pipes hold.
const PIPE: usize = 64 << 10;

type Path = fn(usize);

const PATHS: &[(&str, Path)] = &[
    ("framing, a line", framing),
    ("decode text", |times| decode(times, &lines::text(1), true)),
    ("decode text, spaced", |times| decode(times, &lines::text(1), false)),
    ("decode tool call", |times| decode(times, &lines::tool_call(1), true)),
    ("decode tool call, spaced", |times| decode(times, &lines::tool_call(1), false)),
    ("decode tool call part", |times| decode(times, &lines::tool_call_part(), true)),
    ("decode tool result", |times| decode(times, &lines::tool_result(1), true)),
    ("decode status", |times| decode(times, &lines::status(1), true)),
    ("decode status, spaced", |times| decode(times, &lines::status(1), false)),
    ("decode text, ACP", |times| decode_acp(times, &lines::acp_text(1), true)),
    ("decode text, ACP, spaced", |times| decode_acp(times, &lines::acp_text(1), false)),
    ("turn in memory, an event", |times| run(turn(times, true))),
    ("turn in memory, an event, spaced", |times| run(turn(times, false))),
    ("approval in memory, a round trip", |times| run(approvals(times))),
];

fn framing(times: usize) {
    let bytes = lines::turn(MOST, true);
    let end = end_of_line(&bytes, times);
    assert_eq!(measured::framing(&bytes[..end], 32 << 10), times);
}

/// Where that many lines end. All are looked at, so that it costs the same for any number.
fn end_of_line(bytes: &[u8], lines: usize) -> usize {
    let ends: Vec<_> = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    ends[lines - 1]
}

fn decode(times: usize, event: &serde_json::Value, compact: bool) {
    let line = lines::spelled(event, compact);
    // Dialects get lines without their ends.
    assert_eq!(measured::decode(std::iter::repeat_n(line.trim_end().as_bytes(), times)), times);
}

fn decode_acp(times: usize, update: &serde_json::Value, compact: bool) {
    let line = lines::spelled(update, compact);
    assert_eq!(measured::decode_acp(std::iter::repeat_n(line.trim_end().as_bytes(), times)), times);
}

fn run(path: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(path);
}

/// A session over pipes in memory; the agent is played by `play`, which is given each line of ours but the handshake.
async fn session(options: SessionOptions, play: impl AsyncFnOnce(&mut Agent), program: impl AsyncFnOnce(&Session)) {
    let (opening, agent) = measured::in_memory(options, PIPE);
    let mut agent = Agent { lines: BufReader::new(agent.reader), writer: agent.writer, line: String::new() };
    tokio::join!(
        async {
            agent.hear().await;
            agent.say(lines::WELCOME.as_bytes()).await;
            play(&mut agent).await;
        },
        async {
            let session = opening.await.unwrap();
            program(&session).await;
        }
    );
}

struct Agent {
    lines: BufReader<tokio::io::DuplexStream>,
    writer: tokio::io::DuplexStream,
    line: String,
}

impl Agent {
    async fn hear(&mut self) {
        self.line.clear();
        assert!(self.lines.read_line(&mut self.line).await.unwrap() > 0, "the session has gone");
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.unwrap();
    }

    async fn finish(&mut self, prompt: &serde_json::Value) {
        let end = format!("{}{}", lines::spelled(&lines::turn_end(), true), lines::finished(&prompt["id"]));
        self.say(end.as_bytes()).await;
    }
}

async fn turn(times: usize, compact: bool) {
    let all = lines::turn(MOST, compact);
    let events = &all[..end_of_line(&all, times)];
    session(
        SessionOptions::new(),
        async |agent| {
            agent.hear().await;
            let prompt = serde_json::from_str(&agent.line).unwrap();
            agent.say(lines::BEGIN.as_bytes()).await;
            agent.say(events).await;
            agent.finish(&prompt).await;
        },
        async |session| {
            let mut turn = session.prompt("go").unwrap();
            let mut count = 0;
            while let Some(event) = turn.next().await {
                std::hint::black_box(event.unwrap());
                count += 1;
            }
            // The turn's beginning and end, and the step's beginning.
            assert_eq!(count, times + 3);
        },
    )
    .await;
}

async fn approvals(times: usize) {
    let requests: Vec<_> = (0..MOST).map(lines::approval).collect();
    session(
        SessionOptions::new().on_approval(|_| async { Ok(Approval::Approve) }),
        async |agent| {
            agent.hear().await;
            let prompt = serde_json::from_str(&agent.line).unwrap();
            agent.say(lines::BEGIN.as_bytes()).await;
            for request in &requests[..times] {
                agent.say(request.as_bytes()).await;
                agent.hear().await;
                assert!(agent.line.contains("\"approve\""), "{}", agent.line);
            }
            agent.finish(&prompt).await;
        },
        async |session| {
            let mut turn = session.prompt("go").unwrap();
            while let Some(event) = turn.next().await {
                std::hint::black_box(event.unwrap());
            }
        },
    )
    .await;
}

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(name) = args.next() else {
        return PATHS.iter().for_each(|(name, _)| println!("{name}"));
    };
    let times: usize = args.next().and_then(|times| times.parse().ok()).unwrap_or(1).clamp(1, MOST);
    let Some((_, path)) = PATHS.iter().find(|(known, _)| *known == name) else {
        panic!("no path is called {name:?}");
    };
    path(times);
}
