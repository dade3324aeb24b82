//! Messages over a WebSocket: each line is one text.

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Method, StatusCode};
use tokio::io::AsyncRead;
use tokio::sync::watch;
use tokio::time::Instant;
use tower_service::Service as _;

use super::address::Address;
use super::connector::connector;
use super::failure::{Cause, refused};
use super::{End, Input, Limits, deliver, too_long};
use crate::error::{Error, Result};
use crate::transport::outbox::Outbox;
use crate::transport::websocket::{Ended, Event, Opening, READ_BUFFER, WebSocket};

pub(super) struct SocketLink {
    socket: WebSocket,
    address: Address,
    max_message_bytes: usize,
    limits: Limits,
}

impl SocketLink {
    /// Opens the WebSocket.
    ///
    /// # Errors
    /// [`Error::Spawn`] says why the server cannot be used.
    pub(super) async fn connect(address: &Address, max_message_bytes: usize, limits: Limits) -> Result<Self> {
        let failed = |error: &(dyn std::error::Error + 'static)| Cause::of(error).error(address);
        let mut connector = connector(address.is_secure, true).await.map_err(|cause| cause.error(address))?;
        let connection = connector.call(address.uri.clone()).await.map_err(|error| failed(&*error))?;
        let client = http1::Builder::new().read_buf_exact_size(Some(READ_BUFFER)).handshake(connection);
        let (mut sender, connection) = client.await.map_err(|error| failed(&error))?;
        tokio::spawn(connection.with_upgrades());
        let opening = Opening::new();
        let request = address.request(Method::GET).uri(address.origin_form()).header(HOST, address.host());
        let request = opening.headers(request).body(Empty::<Bytes>::new());
        let request = request.map_err(|error| Error::Internal(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(address, &response));
        }
        if !opening.is_accepted(&response) {
            return Err(Cause::Other("the server opens no WebSocket".to_owned()).error(address));
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(|error| failed(&error))?;
        let socket = WebSocket::new(upgraded, max_message_bytes).await;
        Ok(Self { socket, address: address.clone(), max_message_bytes, limits })
    }

    /// Runs until the driver, the agent or the connection ends.
    pub(super) async fn run(
        mut self,
        mut input: Input<impl AsyncRead + Unpin>,
        outbox: &Outbox,
        mut stopped: watch::Receiver<bool>,
    ) -> End {
        let mut heard = Instant::now();
        let mut asked: Option<Instant> = None;
        loop {
            while !self.socket.has_unsent()
                && let Some(line) = input.next()
            {
                self.socket.send(line);
            }
            if input.has_ended && !self.socket.has_unsent() {
                break;
            }
            let is_full = outbox.is_full();
            let next = match asked {
                None => heard + self.limits.ping,
                Some(_) => heard + self.limits.silence,
            };
            let may_take = !input.has_ended && !self.socket.has_unsent();
            tokio::select! {
                event = self.socket.next(!is_full) => match event {
                    Ok(Event::Sent) => {}
                    Ok(event) => {
                        (heard, asked) = (Instant::now(), None);
                        if let Event::Text(text) = event {
                            deliver(outbox, &text);
                        }
                    }
                    Err(ended) => return self.ended(ended),
                },
                // The agent was not silent: nothing was read.
                () = outbox.has_space(), if is_full => (heard, asked) = (Instant::now(), None),
                () = input.read(), if may_take => {}
                _ = stopped.wait_for(|stopped| *stopped) => break,
                () = tokio::time::sleep_until(next), if !is_full => {
                    if asked.is_some() {
                        let silence = self.limits.silence;
                        return End::Lost(format!("it was silent for {silence:?}, and did not answer a ping"));
                    }
                    asked = Some(Instant::now());
                    self.socket.ping();
                }
            }
        }
        self.socket.close(self.limits.close).await;
        End::Closed
    }

    fn ended(&self, ended: Ended) -> End {
        match ended {
            Ended::TooLong(size) => End::Failed(too_long(size, self.max_message_bytes)),
            other => End::Lost(self.address.masked(&other.to_string())),
        }
    }
}
