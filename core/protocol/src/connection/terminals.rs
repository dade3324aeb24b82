//! Terminals: commands of the agent that a handler of the program runs. They outlive turns, because the agent releases
//! them.

use std::collections::BTreeMap;

use super::requests::MAX_REQUEST_ID;
use super::requests::{INTERNAL_ERROR, INVALID_PARAMS, REQUEST_CANCELLED, RequestKey};
use super::{Connection, Output};
use crate::dialect::{TerminalAnswer, TerminalCall, TerminalExit};
use crate::json::start_of_encoded_end;
use crate::messages::{TerminalRequest, TerminalResult};

/// The limit of unreleased terminals in a session. With [`MAX_OUTPUT`] they keep at most 128 MiB.
pub(super) const MAX_TERMINALS: usize = 32;
/// The limit of bytes that are kept of an output. Kimi Code requests this many.
const MAX_OUTPUT: usize = 4 << 20;
/// The limit of an output as JSON, in bytes, because each call for the output encodes it.
const MAX_ENCODED: usize = 8 << 20;
/// From this size on, an output takes long to encode.
const LARGE: usize = 4 << 10;
/// The limit of calls that wait for the end of one terminal.
const MAX_WAITING: usize = 64;

/// The names of signals by number, for exit codes below zero.
const SIGNALS: [(i64, &str); 10] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (6, "SIGABRT"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
];

/// The terminals that the agent has not released.
#[derive(Debug, Default)]
pub(super) struct Terminals {
    open: BTreeMap<String, Terminal>,
    created: u64,
}

#[derive(Debug)]
struct Terminal {
    /// The request that the handler answers.
    key: RequestKey,
    limit: usize,
    state: State,
    /// The calls that wait for the end of the command.
    waiting: Vec<String>,
}

#[derive(Debug)]
enum State {
    Running,
    Ended {
        output: String,
        truncated: bool,
        exit: TerminalExit,
    },
    /// The handler failed, for this reason.
    Failed(String),
}

impl Terminals {
    /// Returns the id of the next terminal.
    pub(super) fn next_id(&mut self) -> String {
        self.created += 1;
        format!("terminal-{}", self.created)
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= MAX_TERMINALS
    }

    pub(super) fn add(&mut self, key: RequestKey, request: &TerminalRequest) {
        let limit = request.output_byte_limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.map_or(MAX_OUTPUT, |limit| limit.min(MAX_OUTPUT));
        self.open.insert(request.id.clone(), Terminal { key, limit, state: State::Running, waiting: Vec::new() });
    }

    /// Returns whether the agent waits for the end of a command.
    pub(super) fn is_awaited(&self) -> bool {
        self.open.values().any(|terminal| !terminal.waiting.is_empty())
    }

    /// Returns whether a call can ask for an output that takes long to encode.
    pub(super) fn has_large_output(&self) -> bool {
        self.open
            .values()
            .any(|terminal| matches!(&terminal.state, State::Ended { output, .. } if output.len() > LARGE))
    }

    /// Removes a terminal that the client has.
    pub(super) fn forget(&mut self, id: &str) {
        self.open.remove(id);
    }

    /// Removes a waiting call. Returns whether it existed.
    pub(super) fn stop_waiting(&mut self, rpc_id: &str) -> bool {
        let mut waits = self.open.values_mut().flat_map(|terminal| terminal.waiting.extract_if(.., |id| id == rpc_id));
        waits.next().is_some()
    }

    /// Removes all terminals. Returns the waiting calls.
    pub(super) fn take_waiting(&mut self) -> Vec<String> {
        let mut waiting: Vec<_> =
            std::mem::take(&mut self.open).into_values().flat_map(|terminal| terminal.waiting).collect();
        waiting.sort_unstable();
        waiting
    }
}

impl Connection {
    /// Answers a call about a terminal, or keeps it until the command ends.
    pub(super) fn terminal_call(&mut self, rpc_id: &str, id: &str, call: TerminalCall) {
        if rpc_id.len() > MAX_REQUEST_ID {
            let reason = format!("the id of the request exceeds {MAX_REQUEST_ID} bytes");
            return self.refuse_with(rpc_id, INVALID_PARAMS, &reason);
        }
        let Some(terminal) = self.terminals.open.get_mut(id) else {
            return self.refuse_with(rpc_id, INVALID_PARAMS, &format!("there is no terminal `{id}`"));
        };
        match (call, &terminal.state) {
            (TerminalCall::Output, State::Running) => {
                let answer = TerminalAnswer::Output { output: "", truncated: false, exit: None };
                let bytes = self.dialect.answer_terminal(rpc_id, answer);
                self.transmit(bytes);
            }
            (TerminalCall::Output, State::Ended { output, truncated, exit }) => {
                let answer = TerminalAnswer::Output { output, truncated: *truncated, exit: Some(exit) };
                let bytes = self.dialect.answer_terminal(rpc_id, answer);
                self.transmit(bytes);
            }
            (TerminalCall::WaitForExit, State::Running) if terminal.waiting.len() < MAX_WAITING => {
                terminal.waiting.push(rpc_id.to_owned());
            }
            (TerminalCall::WaitForExit, State::Running) => {
                let message = format!("{MAX_WAITING} calls wait for the end of this terminal already");
                self.refuse_with(rpc_id, INTERNAL_ERROR, &message);
            }
            (TerminalCall::WaitForExit, State::Ended { exit, .. }) => {
                let bytes = self.dialect.answer_terminal(rpc_id, TerminalAnswer::Exited(exit));
                self.transmit(bytes);
            }
            (TerminalCall::Output | TerminalCall::WaitForExit, State::Failed(message)) => {
                let message = message.clone();
                self.refuse_with(rpc_id, INTERNAL_ERROR, &message);
            }
            (TerminalCall::Kill | TerminalCall::Release, _) => {
                self.stop_terminal(id);
                if call == TerminalCall::Release {
                    self.terminals.open.remove(id);
                }
                let bytes = self.dialect.answer_terminal(rpc_id, TerminalAnswer::Done);
                self.transmit(bytes);
            }
        }
    }

    /// Cancels the handler of a terminal, if it runs.
    fn stop_terminal(&mut self, id: &str) {
        let running = self.terminals.open.get(id).filter(|terminal| matches!(terminal.state, State::Running));
        let Some(key) = running.map(|terminal| terminal.key) else { return };
        self.requests.forget(key);
        self.outputs.push_back(Output::Withdrawn(key));
        let exit = TerminalExit { exit_code: None, signal: Some("SIGKILL".to_owned()) };
        self.set_ended(id, State::Ended { output: String::new(), truncated: false, exit });
    }

    /// Handles the end of a terminal's handler, which has returned or failed.
    pub(super) fn terminal_ended(&mut self, id: &str, result: Result<TerminalResult, String>) {
        let Some(terminal) = self.terminals.open.get(id) else { return };
        let state = match result {
            Ok(result) => {
                let exit = exit(&result);
                let (output, truncated) = end_of(result.output, terminal.limit);
                State::Ended { output, truncated, exit }
            }
            Err(message) => State::Failed(message),
        };
        self.set_ended(id, state);
    }

    fn set_ended(&mut self, id: &str, state: State) {
        let Some(terminal) = self.terminals.open.get_mut(id) else { return };
        terminal.state = state;
        for rpc_id in std::mem::take(&mut terminal.waiting) {
            self.terminal_call(&rpc_id, id, TerminalCall::WaitForExit);
        }
    }

    /// Refuses the calls that wait for the end of a command, because the connection leaves its process.
    pub(super) fn leave_terminals(&mut self) {
        for rpc_id in self.terminals.take_waiting() {
            self.refuse_with(&rpc_id, REQUEST_CANCELLED, "the session is closed");
        }
    }

    pub(super) fn refuse_with(&mut self, rpc_id: &str, code: i64, message: &str) {
        let bytes = self.dialect.refuse(rpc_id, code, message);
        self.transmit(bytes);
    }
}

fn exit(result: &TerminalResult) -> TerminalExit {
    match (result.exit_code, &result.signal) {
        (_, Some(signal)) => TerminalExit { exit_code: None, signal: Some(signal.clone()) },
        (Some(code), None) if code < 0 => {
            let number = code.saturating_neg();
            let name = SIGNALS.iter().find(|(known, _)| *known == number).map(|(_, name)| (*name).to_owned());
            TerminalExit { exit_code: None, signal: Some(name.unwrap_or_else(|| format!("signal {number}"))) }
        }
        (exit_code, None) => TerminalExit { exit_code, signal: None },
    }
}

/// Returns the last bytes of an output, from the start of a character, and whether any bytes are missing.
fn end_of(output: String, limit: usize) -> (String, bool) {
    end_within(output, limit, MAX_ENCODED)
}

fn end_within(mut output: String, limit: usize, encoded: usize) -> (String, bool) {
    let over = output.len().saturating_sub(limit);
    let over = over + start_of_encoded_end(&output.as_bytes()[over..], encoded);
    if over == 0 {
        return (output, false);
    }
    let start = (over..=output.len()).find(|&at| output.is_char_boundary(at)).unwrap_or(output.len());
    output.drain(..start);
    output.shrink_to_fit();
    (output, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_over_limit_loses_its_beginning() {
        for (output, limit, expected) in [
            ("abc", 3, ("abc", false)),
            ("abc", 2, ("bc", true)),
            ("aäb", 3, ("äb", true)),
            ("aäb", 2, ("b", true)),
            ("ä", 1, ("", true)),
            ("a", 0, ("", true)),
            ("", 0, ("", false)),
        ] {
            let (kept, truncated) = end_of(output.to_owned(), limit);
            assert_eq!((&*kept, truncated), expected, "{output} {limit}");
        }
        for (output, encoded, expected) in [
            ("ab", 2, ("ab", false)),
            ("\0ab", 8, ("\0ab", false)),
            ("\0ab", 7, ("ab", true)),
            ("\0äb", 2, ("b", true)),
            ("\0", 5, ("", true)),
        ] {
            let (kept, truncated) = end_within(output.to_owned(), 100, encoded);
            assert_eq!((&*kept, truncated), expected, "{output:?} {encoded}");
        }
        let (kept, truncated) = end_of("\0".repeat(MAX_OUTPUT), MAX_OUTPUT);
        assert_eq!((kept.len(), truncated), (MAX_ENCODED / 6, true));
    }

    #[test]
    fn negative_exit_code_is_signal() {
        let ended = |exit_code: Option<i32>| exit(&TerminalResult::new("", exit_code));
        assert_eq!(ended(Some(3)), TerminalExit { exit_code: Some(3), signal: None });
        assert_eq!(ended(None), TerminalExit::default());
        assert_eq!(ended(Some(-15)).signal.as_deref(), Some("SIGTERM"));
        assert_eq!(ended(Some(-99)).signal.as_deref(), Some("signal 99"));
        let named = TerminalResult { signal: Some("SIGINT".to_owned()), ..TerminalResult::new("", 1) };
        assert_eq!(exit(&named), TerminalExit { exit_code: None, signal: Some("SIGINT".to_owned()) });
    }
}
