//! The recording of a session between two other programs. The lines are those that were written, and the connection that follows
//! the session adds the other entries.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use kimi_agent_protocol::recording::{Entry, Recorder, Side};

/// A recording, which the connection and the guard share.
#[derive(Clone, Debug)]
pub(crate) struct Tape(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    recorder: Box<dyn Recorder>,
    is_muted: bool,
}

impl Tape {
    pub(crate) fn new(recorder: Box<dyn Recorder>) -> Self {
        Self(Arc::new(Mutex::new(State { recorder, is_muted: false })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records lines that were written to the agent, or by the agent.
    pub(crate) fn lines(&self, from: Side, lines: &[u8], now: Instant) {
        let mut state = self.state();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            state.recorder.message(now, from, line, line.starts_with(b"{"));
        }
    }

    /// Leaves out the entries of the connection for a while.
    pub(crate) fn mute(&self, is_muted: bool) {
        self.state().is_muted = is_muted;
    }

    /// Returns the recorder for the connection: its lines are not those that were written.
    pub(crate) fn of_connection(&self) -> Box<dyn Recorder> {
        Box::new(EntriesOnly(self.clone()))
    }
}

#[derive(Debug)]
struct EntriesOnly(Tape);

impl Recorder for EntriesOnly {
    fn message(&mut self, _: Instant, _: Side, _: &[u8], _: bool) {}

    fn entry(&mut self, entry: Entry) {
        let mut state = self.0.state();
        if !state.is_muted {
            state.recorder.entry(entry);
        }
    }
}
