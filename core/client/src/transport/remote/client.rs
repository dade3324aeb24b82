//! The requests of HTTP, with the headers of the transport and the cookies of the server.

use std::sync::{Arc, Mutex, PoisonError};

use cookie::{Cookie, CookieJar};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderValue, SET_COOKIE};
use hyper::http::request;
use hyper::{Method, Response};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;

use super::address::Address;
use super::connector::Connector;
use super::failure::Cause;
use crate::error::Error;
use crate::transport::websocket::READ_BUFFER;

pub(super) const CONNECTION_ID: &str = "acp-connection-id";
const SESSION_ID: &str = "acp-session-id";

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no connection to the server.
    Unreachable(Error),
    /// The connection ended, for this reason.
    Lost(String),
    /// A message is longer than the limit.
    TooLong(usize),
}

/// The headers that say where a message belongs.
#[derive(Clone)]
pub(super) struct Ids {
    pub(super) connection: Option<HeaderValue>,
    pub(super) session: Option<String>,
}

#[derive(Clone)]
pub(super) struct Client {
    client: legacy::Client<Connector, Full<Bytes>>,
    pub(super) address: Address,
    /// All requests go to one address, so that the cookies are for all of them.
    cookies: Arc<Mutex<CookieJar>>,
}

impl Client {
    pub(super) fn new(connector: Connector, address: Address) -> Self {
        let client =
            legacy::Client::builder(TokioExecutor::new()).http1_read_buf_exact_size(READ_BUFFER).build(connector);
        Self { client, address, cookies: Arc::default() }
    }

    /// Sends a message.
    pub(super) async fn post(&self, ids: Ids, message: String) -> Result<Response<Incoming>, Failure> {
        let request = self.address.request(Method::POST);
        let request =
            request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json, text/event-stream");
        self.send(request, ids, message.into()).await
    }

    /// Opens a stream.
    pub(super) async fn stream(&self, ids: Ids) -> Result<Response<Incoming>, Failure> {
        let request = self.address.request(Method::GET).header(ACCEPT, "text/event-stream");
        self.send(request, ids, Bytes::new()).await
    }

    /// Ends the connection. The server ends the agent.
    pub(super) async fn delete(&self, connection: HeaderValue) {
        let ids = Ids { connection: Some(connection), session: None };
        if let Err(failure) = self.send(self.address.request(Method::DELETE), ids, Bytes::new()).await {
            tracing::debug!(?failure, "the connection to the agent was not ended");
        }
    }

    async fn send(&self, mut request: request::Builder, ids: Ids, body: Bytes) -> Result<Response<Incoming>, Failure> {
        if let Some(connection) = ids.connection {
            request = request.header(CONNECTION_ID, connection);
        }
        if let Some(session) = ids.session {
            request = request.header(SESSION_ID, session);
        }
        let mut request = request.body(Full::new(body)).map_err(|error| {
            // Only the id of a session comes from elsewhere.
            Failure::Lost(format!("its session id cannot be sent in a header: {error}"))
        })?;
        if let Some(cookies) = self.cookie_header(request.headers().get(COOKIE)) {
            request.headers_mut().insert(COOKIE, cookies);
        }
        let sent = self.client.request(request).await;
        let response = sent.map_err(|error| Failure::Unreachable(Cause::of(&error).error(&self.address)))?;
        self.keep_cookies(&response);
        Ok(response)
    }

    /// Returns the cookies of the server, after those of the program.
    fn cookie_header(&self, own: Option<&HeaderValue>) -> Option<HeaderValue> {
        let cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<String> = own.and_then(|own| own.to_str().ok()).map(str::to_owned).into_iter().collect();
        let own = all.len();
        all.extend(cookies.iter().map(|cookie| cookie.stripped().to_string()));
        let mut header = HeaderValue::try_from(all.join("; ")).ok().filter(|_| all.len() > own)?;
        header.set_sensitive(true);
        Some(header)
    }

    fn keep_cookies(&self, response: &Response<Incoming>) {
        let mut cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        let set = response.headers().get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        for cookie in set.filter_map(|value| Cookie::parse(value.to_owned()).ok()) {
            if cookie.max_age().is_some_and(|age| !age.is_positive()) {
                cookies.force_remove(cookie.name());
            } else {
                cookies.add_original(cookie);
            }
        }
    }
}

/// Reads the body of an answer. Fails if it is longer than `max` bytes.
pub(super) async fn text(mut response: Response<Incoming>, max: usize) -> Result<String, Failure> {
    let mut body = Vec::new();
    while let Some(frame) = response.body_mut().frame().await {
        let frame = frame.map_err(|error| lost(&error))?;
        if let Some(data) = frame.data_ref() {
            if body.len() + data.len() > max {
                return Err(Failure::TooLong(body.len() + data.len()));
            }
            body.extend_from_slice(data);
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

pub(super) fn lost(error: &hyper::Error) -> Failure {
    Failure::Lost(Cause::of(error).to_string())
}
