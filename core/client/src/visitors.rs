//! The connections of a server on a port: those that may use it, and strangers, which have little time to show that they may.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The pause before a retry if connections cannot be accepted, for example because no descriptor is left.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection, for the choice of the connection to close.
#[derive(Default)]
pub struct Visitor {
    is_trusted: AtomicBool,
    /// Closes it to make space for another one.
    expelled: CancellationToken,
}

impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor").field("is_trusted", &self.is_trusted()).finish_non_exhaustive()
    }
}

impl Visitor {
    /// Marks the connection as one that may use the server.
    pub fn trust(&self) {
        self.is_trusted.store(true, Ordering::Release);
    }

    fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Acquire)
    }

    /// Runs a connection. Returns `None` if it is closed because it was not trusted within `patience`, or because others wait.
    pub async fn attended<T>(&self, connection: impl Future<Output = T>, patience: Duration) -> Option<T> {
        tokio::pin!(connection);
        let late = tokio::time::sleep(patience);
        tokio::pin!(late);
        let mut is_trusted = false;
        loop {
            tokio::select! {
                // The connection first: its authentication counts even if this process was suspended meanwhile.
                biased;
                outcome = &mut connection => return Some(outcome),
                () = self.expelled.cancelled(), if !is_trusted => {}
                () = &mut late, if !is_trusted => {}
            }
            is_trusted = self.is_trusted();
            if !is_trusted {
                return None;
            }
        }
    }
}

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// The limit of trusted connections. Further connections wait in the queue of the listener.
    pub trusted: usize,
    /// The limit of the others. At the limit the oldest is closed.
    pub strangers: usize,
}

/// Accepts connections until `stop` is cancelled. Then all connections are closed.
pub async fn accept<C: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    crowd: Crowd,
    stop: &CancellationToken,
    converse: impl Fn(TcpStream, Arc<Visitor>) -> C,
) {
    let mut connections = JoinSet::new();
    // Oldest first.
    let mut strangers: VecDeque<Weak<Visitor>> = VecDeque::new();
    loop {
        strangers.retain(|visitor| visitor.upgrade().is_some_and(|visitor| !visitor.is_trusted()));
        let trusted = connections.len().saturating_sub(strangers.len());
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if trusted < crowd.trusted => match accepted {
                Ok((stream, _)) => {
                    if strangers.len() >= crowd.strangers
                        && let Some(oldest) = strangers.pop_front().and_then(|oldest| oldest.upgrade())
                    {
                        oldest.expelled.cancel();
                    }
                    let visitor = Arc::new(Visitor::default());
                    strangers.push_back(Arc::downgrade(&visitor));
                    connections.spawn(converse(stream, visitor));
                    // The pending request of this connection is handled before the next connection.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection can't be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}
