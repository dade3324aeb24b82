//! The limit: reads, finds the line ends, understands nothing. What is asked is answered with a ready line.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::measure::Measure;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocol_version":"1.10"}}"#;
const PROMPT: &str = r#"{"jsonrpc":"2.0","id":"2","method":"prompt","params":{"user_input":"go"}}"#;
const ANSWER: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{\"request_id\":\"1\",\"response\":\"approve\"}}\n";

pub fn run(agent: &str) {
    let mut child = Command::new(agent).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the agent starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = child.stdout.take().expect("a pipe");
    let mut bytes = vec![0; 1 << 16];
    input.write_all(format!("{INITIALIZE}\n").as_bytes()).expect("it listens");
    let mut n = output.read(&mut bytes).expect("it answers");
    while bytes[n - 1] != b'\n' {
        n += output.read(&mut bytes[n..]).expect("it answers");
    }
    let mut measure = Measure::begin();
    input.write_all(format!("{PROMPT}\n").as_bytes()).expect("it listens");
    let finder = memchr::memmem::Finder::new(b"\"status\":\"finished\"");
    let asked = memchr::memmem::Finder::new(b"\"method\":\"request\"");
    loop {
        let n = output.read(&mut bytes).expect("it talks");
        for _ in memchr::memchr_iter(b'\n', &bytes[..n]) {
            measure.event();
        }
        let tail = &bytes[n.saturating_sub(512)..n];
        if asked.find(tail).is_some() {
            input.write_all(ANSWER).expect("it listens");
        }
        if n == 0 || finder.find(tail).is_some() {
            break;
        }
    }
    measure.end();
    drop(input);
    child.wait().expect("it ends");
}
