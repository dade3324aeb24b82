//! What `run` and `verify` print: text on the standard output, and lines about it on the standard error.

use std::io::{self, IsTerminal, Write};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kimi_agent_protocol::printable::{printable, visible, visible_json, visible_line};
use serde::Serialize;
use tokio::sync::Notify;

use crate::Failure;

/// Begins and ends what only the command can print: reverse video. Text of an agent has no control characters.
const MARK: &str = "\x1b[7m";
const UNMARK: &str = "\x1b[0m";
/// How many bytes wait at most until a question is answered, before the events of the turn wait, too.
const MAX_HELD: usize = 4 << 20;

/// The two outputs. Lines never end up inside of a line of text. Until a question is answered, nothing else is printed.
#[derive(Debug)]
pub(crate) struct Console {
    state: Mutex<State>,
    answered: Notify,
    is_quiet: bool,
    /// Whether both outputs may be the same terminal.
    is_shared: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the text is in the middle of a line.
    is_mid_line: bool,
    /// Whether the next text begins on a line of its own.
    needs_break: bool,
    /// Whether the last piece of text ended with a carriage return, which belongs to the next piece.
    has_return: bool,
    /// The failure that ended the standard output.
    failure: Option<io::Error>,
    /// Whether a question waits for its answer.
    is_asking: bool,
    /// The output that waits for the answer.
    held: Vec<(Stream, String)>,
    held_bytes: usize,
    /// How many notes were left out, because too much waits.
    left_out: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stream {
    Out,
    Err,
}

impl Console {
    /// With `is_quiet`, no notes are written.
    pub(crate) fn new(is_quiet: bool) -> Self {
        let is_shared = io::stdout().is_terminal() && io::stderr().is_terminal();
        Self { state: Mutex::default(), answered: Notify::new(), is_quiet, is_shared }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the reader of the standard output has closed it, or it cannot be written.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().failure.is_some()
    }

    /// Checks that everything was written. An output that its reader has closed is not a failure.
    ///
    /// # Errors
    /// The standard output cannot be written, for example because the disk is full.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.state().failure {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::unwritten(error)),
            _ => Ok(()),
        }
    }

    /// Writes a piece of text of the agent.
    pub(crate) fn text(&self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let mut state = self.state();
        let whole = if mem::take(&mut state.has_return) { format!("\r{piece}") } else { piece.to_owned() };
        let piece = whole.strip_suffix('\r').unwrap_or(&whole);
        state.has_return = piece.len() < whole.len();
        let mut shown = String::new();
        if mem::take(&mut state.needs_break) && state.is_mid_line {
            shown.push('\n');
        }
        shown.push_str(&visible(piece));
        state.is_mid_line = if shown.is_empty() { state.is_mid_line } else { !shown.ends_with('\n') };
        state.write(&shown);
    }

    /// Begins the next text on a line of its own.
    pub(crate) fn break_text(&self) {
        self.state().needs_break = true;
    }

    /// Ends the last line of text.
    pub(crate) fn end_text(&self) {
        let mut state = self.state();
        if mem::take(&mut state.is_mid_line) {
            state.write("\n");
        }
    }

    /// Writes a value as a line of JSON. Characters that control a terminal or are invisible become escapes of JSON.
    pub(crate) fn json(&self, value: &impl Serialize) {
        self.state().write(&json_line(value));
    }

    /// Writes a note on the standard error, in one line.
    pub(crate) fn note(&self, text: &str) {
        if !self.is_quiet {
            self.warn(text);
        }
    }

    /// Writes a line on the standard error, also if no notes are wanted.
    pub(crate) fn warn(&self, text: &str) {
        let mut state = self.state();
        if state.is_asking && state.held_bytes >= MAX_HELD {
            state.left_out += 1;
            return;
        }
        if self.is_shared && mem::take(&mut state.is_mid_line) {
            state.write("\n");
        }
        state.write_to(Stream::Err, &format!("{}\n", visible_line(text)));
    }

    /// Writes a line of the command itself on the standard error, also while a question waits.
    pub(crate) fn announce(&self, text: &str) {
        if self.is_quiet {
            return;
        }
        let state = self.state();
        match state.is_asking {
            true => write_stderr(&format!("\n{}\n", marked(text))),
            false => {
                drop(state);
                self.warn(text);
            }
        }
    }

    /// Begins a question. Until it ends, nothing of the agent is printed.
    pub(crate) fn begin_question(&self) {
        let mut state = self.state();
        if self.is_shared && mem::take(&mut state.is_mid_line) {
            state.write("\n");
        }
        state.is_asking = true;
    }

    /// Writes lines of the question that has begun on the standard error.
    pub(crate) fn question(&self, lines: &str) {
        let _state = self.state();
        let shown: String = printable(lines).lines().map(|line| format!("{MARK}?{UNMARK} {line}\n")).collect();
        write_stderr(&shown);
    }

    /// Writes how to answer the question. The answer follows on the same line.
    pub(crate) fn choices(&self, text: &str) {
        let _state = self.state();
        write_stderr(&format!("{} ", marked(text)));
    }

    /// Ends the question if there is one, and prints the output that waits.
    pub(crate) fn end_question(&self, is_answered: bool) {
        let mut state = self.state();
        if !state.is_asking {
            return;
        }
        if !is_answered {
            write_stderr(&format!("\n{}\n", marked("withdrawn: the agent does not wait for this answer any more")));
        }
        state.is_asking = false;
        state.held_bytes = 0;
        for (stream, text) in mem::take(&mut state.held) {
            state.write_to(stream, &text);
        }
        let left_out = mem::take(&mut state.left_out);
        drop(state);
        if left_out > 0 {
            self.note(&format!("{left_out} notes were left out, because too many came before the answer"));
        }
        self.answered.notify_waiters();
    }

    /// Waits until there is room for more output.
    pub(crate) async fn room(&self) {
        loop {
            let answered = self.answered.notified();
            if self.state().held_bytes < MAX_HELD {
                return;
            }
            answered.await;
        }
    }
}

impl State {
    fn write(&mut self, text: &str) {
        self.write_to(Stream::Out, text);
    }

    fn write_to(&mut self, stream: Stream, text: &str) {
        if self.is_asking {
            self.held_bytes += text.len();
            match self.held.last_mut() {
                Some((last, held)) if *last == stream => held.push_str(text),
                _ => self.held.push((stream, text.to_owned())),
            }
            return;
        }
        match stream {
            Stream::Err => write_stderr(text),
            Stream::Out if self.failure.is_none() => self.failure = crate::write_stdout(text.as_bytes()).err(),
            Stream::Out => {}
        }
    }
}

/// Returns a line that only the command can print.
fn marked(text: &str) -> String {
    format!("{MARK}{}{UNMARK}", visible_line(text))
}

/// Writes to the standard error. If it is closed, nothing can be shown, and the turn continues.
fn write_stderr(text: &str) {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes()).and_then(|()| err.flush()).ok();
}

/// Lets a terminal of Windows show marks. Others do so from the beginning.
pub(crate) fn enable_marks() {
    #[cfg(windows)]
    ::console::Term::stderr().features().colors_supported();
}

/// Returns a value as a line of JSON. It does not become a `Value`, which cannot hold all JSON that an agent sends.
fn json_line(value: &impl Serialize) -> String {
    format!("{}\n", visible_json(&serde_json::to_string(value).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_control_characters() {
        let value = "a\u{9b}31m\u{202e}\u{7f}\x1b\nü\u{200b}\u{e0041}";
        let line = json_line(&value);
        assert_eq!(line, "\"a\\u009b31m\\u202e\\u007f\\u001b\\nü\\u200b\\udb40\\udc41\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), value);
    }

    #[test]
    fn json_keeps_parts_that_no_value_holds() {
        let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for raw in ["1e999", r#""\ud800""#, &nested] {
            let event = format!(r#"{{"type":"ContentPart","payload":{{"type":"text","text":"a","x":{raw}}}}}"#);
            let event: kimi_agent_protocol::messages::Event = serde_json::from_str(&event).unwrap();
            let line = json_line(&event);
            assert!(line.contains(r#""text":"a""#) && line.contains(&format!(r#""x":{raw}"#)), "{line}");
        }
    }
}
