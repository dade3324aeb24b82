//! A transport without a process, for tests and for counting instructions.

#![cfg_attr(
    not(all(test, feature = "kimi-web")),
    allow(dead_code, reason = "the tests, and those of the gateway, do more with it than what is counted does")
)]

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{DuplexStream, duplex};
use tokio::sync::watch;

use super::{Exit, Process, ProcessFuture, Transport};

/// The agent's side.
pub(crate) struct AgentEnd {
    /// The output of the session arrives here.
    pub(crate) reader: DuplexStream,
    /// The input of the session is written here.
    pub(crate) writer: DuplexStream,
    pub(crate) exit: ExitHandle,
}

/// Controls the simulated process, and reports what the session did to it.
#[derive(Clone)]
pub(crate) struct ExitHandle(Arc<watch::Sender<State>>);

#[derive(Clone, Debug, Default)]
struct State {
    exit: Option<Exit>,
    stderr: String,
    terminated: bool,
    interrupted: bool,
    never_waits: bool,
    killed: bool,
    obeys: bool,
}

impl ExitHandle {
    /// Exits with a code. The test has to drop the streams.
    pub(crate) fn code(&self, code: i32) {
        self.end(Exit { code: Some(code), ..Exit::default() });
    }

    /// Ends by a signal, for example `SIGKILL`.
    pub(crate) fn signal(&self, signal: &str) {
        self.end(Exit { signal: Some(signal.to_owned()), ..Exit::default() });
    }

    /// Makes the process exit when it is terminated or killed.
    pub(crate) fn obey(&self) {
        self.0.send_modify(|state| state.obeys = true);
    }

    /// Writes text to stderr.
    pub(crate) fn stderr(&self, text: &str) {
        self.0.send_modify(|state| state.stderr.push_str(text));
    }

    /// Makes the process behave as a server, which does not wait for a slow reader.
    pub(crate) fn never_wait(&self) {
        self.0.send_modify(|state| state.never_waits = true);
    }

    /// Returns whether the process was interrupted.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.0.borrow().interrupted
    }

    /// Waits until the process is terminated.
    pub(crate) async fn terminated(&self) {
        self.until(|state| state.terminated).await;
    }

    /// Waits until the process is killed, or dropped.
    pub(crate) async fn killed(&self) {
        self.until(|state| state.killed).await;
    }

    async fn until(&self, condition: impl FnMut(&State) -> bool) {
        // The sender exists as long as this handle.
        let _ = self.0.subscribe().wait_for(condition).await;
    }

    fn end(&self, exit: Exit) {
        self.0.send_modify(|state| state.exit = state.exit.take().or(Some(exit)));
    }
}

/// Makes both sides of pipes with this capacity in bytes.
pub(crate) fn pair(capacity: usize) -> (Transport, AgentEnd) {
    let (agent_reader, ours_out) = duplex(capacity);
    let (agent_writer, ours_in) = duplex(capacity);
    let state = Arc::new(watch::Sender::new(State::default()));
    let process = MemoryProcess { state: state.subscribe(), control: ExitHandle(Arc::clone(&state)), waiting: None };
    let transport = Transport {
        reader: Box::new(ours_in),
        writer: Box::new(ours_out),
        process: Box::new(process),
        paths: Default::default(),
    };
    (transport, AgentEnd { reader: agent_reader, writer: agent_writer, exit: ExitHandle(state) })
}

struct MemoryProcess {
    state: watch::Receiver<State>,
    control: ExitHandle,
    waiting: Option<ProcessFuture<'static, Exit>>,
}

impl MemoryProcess {
    fn act(&self, signal: &str, action: impl FnOnce(&mut State)) {
        self.control.0.send_modify(|state| {
            action(state);
            if state.obeys && state.exit.is_none() {
                state.exit = Some(Exit { signal: Some(signal.to_owned()), ..Exit::default() });
            }
        });
    }
}

impl Process for MemoryProcess {
    fn pid(&self) -> Option<u32> {
        None
    }

    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        let mut state = self.state.clone();
        let waiting = self.waiting.get_or_insert_with(|| {
            Box::pin(async move {
                match state.wait_for(|state| state.exit.is_some()).await {
                    Ok(state) => state.exit.clone().unwrap_or_default(),
                    Err(_) => Exit::default(),
                }
            })
        });
        let exit = ready!(waiting.as_mut().poll(cx));
        self.waiting = Some(Box::pin(std::future::ready(exit.clone())));
        Poll::Ready(exit)
    }

    fn terminate(&mut self) {
        self.act("SIGTERM", |state| state.terminated = true);
    }

    fn interrupt(&mut self) {
        self.act("SIGINT", |state| state.interrupted = true);
    }

    fn kill(&mut self) {
        self.act("SIGKILL", |state| state.killed = true);
    }

    fn stderr_tail(&self) -> String {
        self.state.borrow().stderr.clone()
    }

    fn waits_for_reader(&self) -> bool {
        !self.state.borrow().never_waits
    }

    fn release(&mut self) {}

    fn stderr_done(&mut self) -> ProcessFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl Drop for MemoryProcess {
    fn drop(&mut self) {
        if self.state.borrow().exit.is_none() {
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn memory_pipe_passes_bytes_and_eof() {
        let (mut ours, mut agent) = pair(64);
        ours.writer.write_all(b"ask").await.unwrap();
        let mut got = [0; 3];
        agent.reader.read_exact(&mut got).await.unwrap();
        agent.writer.write_all(&got).await.unwrap();
        drop(agent.writer);
        let mut back = String::new();
        ours.reader.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "ask");
        drop(ours.writer);
        assert_eq!(agent.reader.read(&mut got).await.unwrap(), 0);
        agent.exit.stderr("note");
        agent.exit.code(3);
        assert_eq!(ours.process.wait().await, Exit { code: Some(3), ..Exit::default() });
        assert_eq!(ours.process.stderr_tail(), "note");
    }

    #[tokio::test]
    async fn memory_process_exits_as_set() {
        let (mut ours, agent) = pair(64);
        ours.process.terminate();
        agent.exit.terminated().await;
        agent.exit.obey();
        ours.process.kill();
        assert_eq!(ours.process.wait().await.signal.as_deref(), Some("SIGKILL"));

        let (ours, agent) = pair(64);
        drop(ours);
        agent.exit.killed().await;

        // Only the first exit counts.
        let (mut ours, agent) = pair(64);
        agent.exit.signal("SIGSEGV");
        agent.exit.code(0);
        assert_eq!(ours.process.wait().await.signal.as_deref(), Some("SIGSEGV"));
    }
}
