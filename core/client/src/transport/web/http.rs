//! Calls of the server's API: HTTP/1 over connections that are kept, to loopback only.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::lines::{self, Call, Kind, Upload};
use super::{MAX_MESSAGE_BYTES, Target};
use crate::transport::websocket::READ_BUFFER;

/// How long an idle connection is kept. Servers of Node close theirs after 5 seconds.
const KEPT: Duration = Duration::from_secs(4);
/// The limit of idle connections that are kept.
const MAX_KEPT: usize = 4;

/// A client of one server. Cheap to clone, because clones share the connections.
#[derive(Clone)]
pub(super) struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    target: Target,
    limit: Duration,
}

impl Http {
    pub(super) fn new(target: &Target, limit: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEPT)
            .pool_max_idle_per_host(MAX_KEPT)
            .http1_read_buf_exact_size(READ_BUFFER)
            .build(connector);
        Self { client, target: target.clone(), limit }
    }

    /// Executes a call. Returns the line with its answer, and whether the server has answered.
    pub(super) async fn call(self, call: Call) -> (Vec<u8>, bool) {
        let Call { id, kind } = call;
        let done = match kind {
            Kind::Http { method, path, body } => {
                let content = body.map(|body| ("application/json".to_owned(), Bytes::from(body)));
                self.send(method, &path, content).await
            }
            Kind::Upload { path, file } => match multipart(&file) {
                Ok(content) => self.send(Method::POST, &path, Some(content)).await,
                Err(reason) => Err(reason),
            },
            Kind::Frame { .. } => Err("a frame is no call of HTTP".to_owned()),
        };
        match done {
            Ok((status, body)) => (lines::answer(&id, status, &body), true),
            Err(reason) => (lines::failure(&id, &reason), false),
        }
    }

    async fn send(&self, method: Method, path: &str, content: Option<(String, Bytes)>) -> Result<(u16, Bytes), String> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://127.0.0.1:{}{path}", self.target.port))
            .header(AUTHORIZATION, self.target.authorization.clone())
            .header(ACCEPT, "application/json");
        let mut body = Bytes::new();
        if let Some((media_type, bytes)) = content {
            request = request.header(CONTENT_TYPE, media_type);
            body = bytes;
        }
        let request = request.body(Full::new(body)).map_err(|error| format!("`{path}` is no path: {error}"))?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| reasons(&error))?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), MAX_MESSAGE_BYTES).collect().await;
            let body = body.map_err(|error| format!("the server's answer can't be read: {}", reasons(&*error)))?;
            Ok((status, body.to_bytes()))
        };
        let answered = tokio::time::timeout(self.limit, exchange).await;
        answered.unwrap_or_else(|_| Err(format!("the server did not answer within {:?}", self.limit)))
    }
}

/// An error with its causes.
fn reasons(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Returns the body that uploads a file, and its media type.
fn multipart(file: &Upload) -> Result<(String, Bytes), String> {
    let is_plain = |text: &str| text.chars().all(|c| !c.is_control() && c != '"' && c != '\\');
    if !is_plain(&file.name) || !is_plain(&file.media_type) {
        return Err("a file's name and media type may have no quotes, backslashes and control characters".to_owned());
    }
    let data = BASE64.decode(&file.data).map_err(|error| format!("a file's data is not base64: {error}"))?;
    let boundary = uuid::Uuid::new_v4().simple().to_string();
    let mut body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\nContent-Type: {}\r\n\r\n",
        file.name, file.media_type
    )
    .into_bytes();
    body.extend(data);
    body.extend(format!("\r\n--{boundary}--\r\n").into_bytes());
    Ok((format!("multipart/form-data; boundary={boundary}"), body.into()))
}
