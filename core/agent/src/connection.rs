//! A server on two blocking streams.

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};

use super::server::Server;
use super::types::Incoming;

/// A server with the streams of its client: for an agent that does one thing after the other. One that streams while it
/// listens has threads, or a runtime, and a [`Server`] alone.
#[derive(Debug)]
pub struct Connection<R, W> {
    /// The server. What it is made to say is written with the next [`flush`](Self::flush) or [`next`](Self::next).
    pub server: Server,
    input: R,
    output: W,
    last: VecDeque<Incoming>,
}

impl<R: BufRead, W: Write> Connection<R, W> {
    /// A server that reads `input` and writes `output`.
    pub fn new(server: Server, input: R, output: W) -> Self {
        Self { server, input, output, last: VecDeque::new() }
    }

    /// Writes what the server has said, and reads until there is something to act on. At the end of input the requests
    /// without an answer get theirs, errors; then comes `None`.
    ///
    /// # Errors
    /// Whatever goes wrong with the streams.
    #[allow(clippy::should_implement_trait, reason = "an iterator would hold on to the server")]
    pub fn next(&mut self) -> io::Result<Option<Incoming>> {
        loop {
            self.flush()?;
            if let Some(incoming) = self.last.pop_front() {
                return Ok(Some(incoming));
            }
            let mut line = Vec::new();
            if self.input.read_until(b'\n', &mut line)? == 0 {
                self.last.extend(self.server.hang_up());
                if self.last.is_empty() {
                    return Ok(None);
                }
                continue;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if let Some(incoming) = self.server.receive(&line) {
                self.flush()?;
                return Ok(Some(incoming));
            }
        }
    }

    /// Writes what the server has said.
    ///
    /// # Errors
    /// Whatever goes wrong with the output.
    pub fn flush(&mut self) -> io::Result<()> {
        let output = self.server.take_output();
        if output.is_empty() {
            return Ok(());
        }
        self.output.write_all(&output)?;
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use serde_json::json;

    #[test]
    fn at_the_end_of_input_pending_requests_come_back_as_errors() {
        let prompt = br#"{"jsonrpc":"2.0","id":"1","method":"prompt","params":{"user_input":"hi"}}"#;
        let mut output = Vec::new();
        let server = Server::new(Profile::new("s", "1"));
        let mut client = Connection::new(server, &prompt[..], &mut output);
        assert_eq!(client.next().expect("memory"), Some(Incoming::Prompt("hi".into())));
        client.server.request_of("a", "ApprovalRequest", json!({"id": "a"}));
        assert!(matches!(client.next().expect("memory"), Some(Incoming::Answer(id, Err(_))) if id == "a"));
        assert_eq!(client.next().expect("memory"), None);
        assert_eq!(String::from_utf8(output).expect("UTF-8").lines().count(), 1);
    }
}
