//! The MCP sessions of the server's clients. Their number is limited, because some clients do not end their sessions,
//! or open one for each call. At the limit, the session that has been idle for longest is closed.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

type Inner = LocalSessionManager;

/// A [`LocalSessionManager`] with a limit.
pub(super) struct Clients {
    inner: Inner,
    most: usize,
    /// Least recently used first. The count of references to the shared value shows whether the session has open
    /// streams.
    known: Mutex<VecDeque<(SessionId, Arc<()>)>>,
}

impl Clients {
    pub(super) fn new(inner: Inner, most: usize) -> Self {
        Self { inner, most, known: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(SessionId, Arc<()>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a session as used. It counts as in use while the returned value exists.
    fn used(&self, id: &SessionId) -> Option<Arc<()>> {
        let mut known = self.lock();
        let at = known.iter().position(|(known, _)| known == id)?;
        let (id, streams) = known.remove(at)?;
        let used = Arc::clone(&streams);
        known.push_back((id, streams));
        Some(used)
    }

    /// Returns the session to close before another is opened. `None` if all are in use; the number of connections is
    /// limited as well.
    fn surplus(&self) -> Option<SessionId> {
        let mut known = self.lock();
        if known.len() < self.most {
            return None;
        }
        let idle = known.iter().position(|(_, streams)| Arc::strong_count(streams) == 1)?;
        known.remove(idle).map(|(id, _)| id)
    }
}

/// A stream of a session, which is in use while the stream exists.
struct InUse<S> {
    stream: Pin<Box<S>>,
    _used: Option<Arc<()>>,
}

impl<S: Stream> Stream for InUse<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.stream.as_mut().poll_next(cx)
    }
}

type Failure = <Inner as SessionManager>::Error;

impl SessionManager for Clients {
    type Error = Failure;
    type Transport = <Inner as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Failure> {
        while let Some(id) = self.surplus() {
            tracing::debug!("the MCP session that has been idle for longest is closed");
            self.inner.close_session(&id).await?;
        }
        let (id, transport) = self.inner.create_session().await?;
        self.lock().push_back((id.clone(), Arc::default()));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Failure> {
        let _used = self.used(id);
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Failure> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Failure> {
        self.lock().retain(|(known, _)| known != id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failure> {
        let used = self.used(id);
        let stream = self.inner.create_stream(id, message).await?;
        Ok(InUse { stream: Box::pin(stream), _used: used })
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Failure> {
        let _used = self.used(id);
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failure> {
        let used = self.used(id);
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(InUse { stream: Box::pin(stream), _used: used })
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Failure> {
        let used = self.used(id);
        let stream = self.inner.resume(id, last_event_id).await?;
        Ok(InUse { stream: Box::pin(stream), _used: used })
    }
}
