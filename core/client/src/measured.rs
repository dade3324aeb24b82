//! The performance-critical functions, for `bench/instructions`.

use std::path::PathBuf;

use tokio::io::DuplexStream;

use crate::dialect::{Acp, Call, Dialect as _, Incoming, Wire};
use crate::jsonrpc::framing::LineBuffer;
use crate::messages::Event;
use crate::transport::memory;
use crate::{Result, Session, SessionOptions, WireVersion};

/// Splits bytes into lines; they arrive in chunks of this size. Returns the number of lines.
pub fn framing(bytes: &[u8], chunk: usize) -> usize {
    let mut lines = LineBuffer::new(usize::MAX);
    let mut count = 0;
    for chunk in bytes.chunks(chunk) {
        lines.extend(chunk);
        while let Ok(Some(line)) = lines.next_line() {
            std::hint::black_box(&line);
            count += 1;
        }
    }
    count
}

/// Reads each line with the dialect of the newest Wire. Returns the number of known events.
pub fn decode<'a>(lines: impl Iterator<Item = &'a [u8]>) -> usize {
    let mut dialect = Wire::new(WireVersion::LATEST);
    lines
        .filter(|line| match std::hint::black_box(dialect.read_line(line)) {
            Incoming::Event(event) => !matches!(*event, Event::Unknown(_)),
            _ => false,
        })
        .count()
}

/// Reads lines of ACP as a session during a turn does. Returns the number of lines with a known event.
pub fn decode_acp<'a>(lines: impl Iterator<Item = &'a [u8]>) -> usize {
    let mut dialect = Acp::open("session-1");
    let prompt = dialect.call("prompt-1", &Call::Prompt("go".into()));
    assert!(prompt.is_ok(), "a prompt that is text");
    let is_known = |incoming: &Incoming| match incoming {
        Incoming::Event(event) | Incoming::OutOfTurn(event) => !matches!(**event, Event::Unknown(_)),
        _ => false,
    };
    lines
        .filter(|line| match std::hint::black_box(dialect.read_line(line)) {
            Incoming::Batch(all) => all.iter().any(is_known),
            one => is_known(&one),
        })
        .count()
}

/// The agent's side of a session that has no process.
pub struct Agent {
    /// The bytes that the session writes.
    pub reader: DuplexStream,
    /// The bytes that the session reads.
    pub writer: DuplexStream,
}

/// Opens a session over pipes in memory with this capacity in bytes.
pub fn in_memory(options: SessionOptions, pipe: usize) -> (impl Future<Output = Result<Session>>, Agent) {
    let (transport, end) = memory::pair(pipe);
    let agent = Agent { reader: end.reader, writer: end.writer };
    (options.open(transport, "measured".to_owned(), PathBuf::from(".")), agent)
}
