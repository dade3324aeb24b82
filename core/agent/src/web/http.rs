//! The server's HTTP: authentication, the calls that need no agent, and the upgrade to a WebSocket.

use std::convert::Infallible;
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, SEC_WEBSOCKET_ACCEPT};
use hyper::header::{SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::hub::Hub;
use super::socket;
use crate::server::web::{Route, now, timestamp};

const API: &str = "/api/v1";
/// The largest body of JSON.
const JSON_LIMIT: usize = 1 << 20;
const FILE_LIMIT: usize = 64 << 20;

type Answer = Response<Written>;

/// A body that reports when it is written.
pub(super) struct Written {
    body: Full<Bytes>,
    hub: Option<Arc<Hub>>,
}

impl Body for Written {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if let Some(hub) = &self.hub {
            hub.written();
        }
    }
}

/// Serves a connection.
pub(super) async fn serve(hub: Arc<Hub>, stream: tokio::net::TcpStream) {
    let Ok(stream) = stream.into_std() else { return };
    let (Ok(copy), Ok(stream)) = (stream.try_clone(), tokio::net::TcpStream::from_std(stream)) else { return };
    let copy = Arc::new(copy);
    let service = service_fn(move |request| {
        let (hub, copy) = (hub.clone(), copy.clone());
        async move { Ok::<_, Infallible>(answer(hub, request, &copy).await) }
    });
    // The server ignores a connection that the client breaks.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}

fn plain(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Written { body: Full::new(text.into()), hub: None });
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn told(status: StatusCode, code: i64, message: &str, data: Value) -> Answer {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let body = json!({"code": code, "msg": message, "data": data, "request_id": id});
    plain(status, "application/json; charset=utf-8", body.to_string())
}

fn success(data: Value) -> Answer {
    told(StatusCode::OK, 0, "success", data)
}

fn failure(code: i64, message: &str) -> Answer {
    told(StatusCode::OK, code, message, Value::Null)
}

async fn answer(hub: Arc<Hub>, request: Request<Incoming>, stream: &TcpStream) -> Answer {
    let method = format!("{} {}", request.method(), request.uri().path_and_query().map_or("/", |path| path.as_str()));
    let path = request.uri().path().to_owned();
    let web = &hub.script.web;
    if web.foreign {
        return plain(StatusCode::NOT_FOUND, "text/html", "<html><body><h1>It works!</h1></body></html>".to_owned());
    }
    if path == format!("{API}/healthz") {
        return success(json!({"ok": true}));
    }
    let headers = request.headers();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    if !matches!(host, "127.0.0.1" | "localhost") {
        return told(StatusCode::FORBIDDEN, 40301, &format!("Invalid Host header: {host}"), Value::Null);
    }
    if web.refuses || !may(&hub, headers) {
        return told(StatusCode::UNAUTHORIZED, 40101, "Unauthorized", Value::Null);
    }
    let name = Route::parse(&method).map(|route| route.name).or_else(|| path.strip_prefix(API)?.strip_prefix('/'));
    if let Some((_, status)) = web.status.iter().find(|(failing, _)| Some(&**failing) == name) {
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return plain(status, "text/plain", "the server has failed".to_owned());
    }
    match (request.method(), path.strip_prefix(API).unwrap_or_default()) {
        (&Method::GET, "/ws") => upgrade(hub, request, stream),
        (&Method::GET, "/meta") => success(json!({"server_version": hub.script.profile.server.version,
            "capabilities": {"websocket": true, "file_upload": true}, "features": []})),
        (&Method::GET, "/auth") => {
            success(json!({"models_ready": true, "providers_count": 1, "managed_provider": null}))
        }
        (&Method::GET, "/models") => success(json!({"items": [{"provider": "scripted", "model": "scripted",
            "display_name": "scripted", "max_context_size": 100_000}]})),
        (&Method::GET, "/config") => success(json!({"default_model": "scripted", "providers": {}, "models": {}})),
        (&Method::POST, "/shutdown") => {
            hub.shutdown.notify_one();
            success(json!({}))
        }
        (&Method::POST, "/files") => upload(&hub, request).await,
        _ if Route::parse(&method).is_some() => call(&hub, &method, request).await,
        _ => {
            let message = format!("Route {} not found", method.replacen(' ', ":", 1));
            let body = json!({"message": message, "error": "Not Found", "statusCode": 404});
            plain(StatusCode::NOT_FOUND, "application/json; charset=utf-8", body.to_string())
        }
    }
}

/// Returns whether the caller knows a secret.
fn may(hub: &Hub, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let bearer = text(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let mut protocols = text(SEC_WEBSOCKET_PROTOCOL).into_iter().flat_map(|value| value.split(',')).map(str::trim);
    let offered = bearer.or_else(|| protocols.find_map(|protocol| protocol.strip_prefix("kimi-code.bearer.")));
    offered.is_some_and(|offered| offered == hub.token || Some(offered) == hub.password.as_deref())
}

async fn call(hub: &Arc<Hub>, method: &str, request: Request<Incoming>) -> Answer {
    let Ok(body) = Limited::new(request.into_body(), JSON_LIMIT).collect().await else {
        return failure(50001, "Request body is too large");
    };
    let body = body.to_bytes();
    let params = match &*body {
        b"" => Value::Null,
        body => match serde_json::from_slice(body) {
            Ok(params) => params,
            Err(_) => return failure(50001, "Body is not valid JSON but content-type is set to 'application/json'"),
        },
    };
    if let Some(dir) = params["metadata"]["cwd"].as_str().filter(|dir| !std::path::Path::new(dir).is_dir()) {
        return failure(40409, &format!("workspace root {dir} does not exist"));
    }
    let Some(answer) = hub.call(method, params).await else {
        return std::future::pending().await;
    };
    let mut told = match answer.get("error") {
        None => success(answer["result"].clone()),
        Some(error) => {
            let message = error["message"].as_str().unwrap_or_default();
            told(StatusCode::OK, error["code"].as_i64().unwrap_or(50001), message, error["data"].clone())
        }
    };
    if answer.get("id").is_some() {
        told.body_mut().hub = Some(hub.clone());
    }
    told
}

/// Stores the first file of a form.
async fn upload(hub: &Arc<Hub>, request: Request<Incoming>) -> Answer {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    let boundary = kind.split_once("boundary=").map(|(_, boundary)| format!("\r\n--{}", boundary.trim_matches('"')));
    let Ok(body) = Limited::new(request.into_body(), FILE_LIMIT).collect().await else {
        return failure(50001, "Request body is too large");
    };
    let body = [b"\r\n", &*body.to_bytes()].concat();
    let file = boundary.and_then(|boundary| file(&body, boundary.as_bytes()));
    let Some((name, media_type, data)) = file else { return failure(40001, "file: expected a form with a file") };
    let id = hub.keep_file(&media_type, &base64::engine::general_purpose::STANDARD.encode(data));
    success(
        json!({"id": id, "name": name, "media_type": media_type, "size": data.len(), "created_at": timestamp(now())}),
    )
}

/// Returns the name, the media type and the content of the first file in a form.
fn file<'a>(body: &'a [u8], boundary: &[u8]) -> Option<(String, String, &'a [u8])> {
    let find = |haystack: &[u8], needle: &[u8]| haystack.windows(needle.len()).position(|window| window == needle);
    let mut rest = body;
    while let Some(begin) = find(rest, boundary) {
        rest = &rest[begin + boundary.len()..];
        let part = &rest[..find(rest, boundary)?];
        let end = find(part, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&part[..end]).into_owned();
        let Some((_, name)) = head.split_once("filename=\"") else { continue };
        let media_type = head.lines().find_map(|line| {
            line.split_once(':')
                .filter(|(name, _)| name.eq_ignore_ascii_case("content-type"))
                .map(|(_, kind)| kind.trim())
        });
        let name = name.split('"').next().unwrap_or_default().to_owned();
        return Some((name, media_type.unwrap_or("application/octet-stream").to_owned(), &part[end + 4..]));
    }
    None
}

fn upgrade(hub: Arc<Hub>, request: Request<Incoming>, stream: &TcpStream) -> Answer {
    let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY) else {
        return plain(StatusCode::BAD_REQUEST, "text/plain", "not a WebSocket".to_owned());
    };
    let accept = derive_accept_key(key.as_bytes());
    let Ok(stream) = stream.try_clone() else { return failure(50001, "no descriptor left") };
    let protocol = request.headers().get(SEC_WEBSOCKET_PROTOCOL).cloned();
    tokio::spawn(async move {
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            socket::serve(hub, upgraded, stream).await;
        }
    });
    let mut answer = plain(StatusCode::SWITCHING_PROTOCOLS, "", String::new());
    let headers = answer.headers_mut();
    headers.remove(CONTENT_TYPE);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    if let Some(protocol) = protocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    answer
}
