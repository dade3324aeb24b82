//! The agent's side of a process, which all its sessions use: the endpoint, the agent's input, and the process.

use kimi_agent_protocol::place::PathMap;

use super::writer::PipeWriter;
use crate::endpoint::Endpoint;
use crate::error::{Error, STDERR};
use crate::transport::Process;

/// The parts that the sessions of a process share.
pub(super) struct Io {
    pub(super) endpoint: Endpoint,
    pub(super) writer: PipeWriter,
    pub(super) process: Box<dyn Process>,
    /// The paths of an agent that has others than the program.
    pub(super) paths: Option<PathMap>,
}

impl Io {
    /// Adds the last part of stderr to an error of the opening. It often has the cause.
    pub(super) fn with_stderr(&self, error: Error) -> Error {
        const SHOWN: usize = 2000;
        let add = |text: String| {
            let stderr = self.process.stderr_tail();
            let stderr = stderr.trim();
            if stderr.is_empty() || text.contains(STDERR) {
                return text;
            }
            let start = (stderr.len().saturating_sub(SHOWN)..).find(|at| stderr.is_char_boundary(*at)).unwrap_or(0);
            format!("{text}\n{STDERR}\n{}", &stderr[start..])
        };
        match error {
            Error::Timeout(text) => Error::Timeout(text.map(add)),
            Error::Handshake(text) => Error::Handshake(add(text)),
            other => other,
        }
    }
}
