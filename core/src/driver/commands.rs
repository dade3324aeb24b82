//! What a session's handles ask of its driver, in the order that they asked. A channel of tokio's would keep room for 32
//! commands, which is more than anything else that an idle session takes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Command;

/// Commands on their way to the driver.
#[derive(Debug, Default)]
pub(crate) struct Commands(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Command>,
    closed: bool,
    driver: Option<Waker>,
}

impl Commands {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command. Whether the driver will hear of it.
    pub(crate) fn send(&self, command: Command) -> bool {
        let driver = {
            let mut state = self.lock();
            if state.closed {
                return false;
            }
            state.queue.push_back(command);
            state.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        true
    }

    /// The next one. For the driver, which alone may wait here.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Command> {
        let mut state = self.lock();
        let Some(command) = state.queue.pop_front() else {
            match &mut state.driver {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        };
        if state.queue.is_empty() {
            state.queue = VecDeque::new();
        }
        Poll::Ready(command)
    }

    /// From now on nothing arrives; what has is given back.
    pub(super) fn close(&self) -> VecDeque<Command> {
        let mut state = self.lock();
        state.closed = true;
        state.driver = None;
        std::mem::take(&mut state.queue)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn they_come_in_order_and_wake_the_driver() {
        let commands = Arc::new(Commands::default());
        assert!(commands.send(Command::Cancel { turn: 1 }) && commands.send(Command::Close(None)));
        assert!(matches!(poll_fn(|cx| commands.poll_next(cx)).await, Command::Cancel { turn: 1 }));
        assert!(matches!(poll_fn(|cx| commands.poll_next(cx)).await, Command::Close(None)));
        let sender = Arc::clone(&commands);
        // Begins only when this task waits.
        tokio::spawn(async move { assert!(sender.send(Command::Cancel { turn: 2 })) });
        assert!(matches!(poll_fn(|cx| commands.poll_next(cx)).await, Command::Cancel { turn: 2 }));
    }

    #[test]
    fn after_the_end_nothing_arrives() {
        let commands = Commands::default();
        assert!(commands.send(Command::Cancel { turn: 1 }));
        assert!(matches!(commands.close().make_contiguous(), [Command::Cancel { turn: 1 }]));
        assert!(!commands.send(Command::Close(None)));
        assert!(commands.close().is_empty());
    }
}
