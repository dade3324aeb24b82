//! A server that reads and writes two blocking streams.

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};

use super::server::Server;
use super::types::Incoming;

/// A server with the streams of its client, for an agent that does one thing at a time. An agent that reads input while
/// it streams output needs threads or a runtime, and uses a [`Server`] directly.
#[derive(Debug)]
pub struct Connection<R, W> {
    /// The server. Its output is written by the next [`flush`](Self::flush) or [`next`](Self::next).
    pub server: Server,
    input: R,
    output: W,
    last: VecDeque<Incoming>,
}

impl<R: BufRead, W: Write> Connection<R, W> {
    /// Makes a connection that reads `input` and writes `output`.
    pub fn new(server: Server, input: R, output: W) -> Self {
        Self { server, input, output, last: VecDeque::new() }
    }

    /// Writes the pending output, and reads until there is an input for the agent. At the end of input, each open
    /// request is answered with an error; then this returns `None`.
    ///
    /// # Errors
    /// Returns any error of the streams.
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

    /// Writes the pending output.
    ///
    /// # Errors
    /// Returns any error of the output.
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
    fn end_of_input_fails_pending_requests() {
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
