//! A WebSocket of the server: its first frame, pings, subscriptions, and the frames of sessions.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::hub::{Hub, Out};
use crate::script::SocketBreak;
use crate::server::web::{now, timestamp};

type Stream = WebSocketStream<TokioIo<Upgraded>>;

/// Serves a connection that has become a WebSocket. `stream` is the same connection, with which it can be broken.
pub(super) async fn serve(hub: Arc<Hub>, upgraded: Upgraded, stream: TcpStream) {
    let Ok(raw) = stream.try_clone() else { return };
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    let (sink, source) = socket.split();
    let (queue, queued) = unbounded_channel();
    let (number, breaks) = hub.join(queue.clone(), stream);
    let hello = json!({"type": "server_hello", "timestamp": timestamp(now()), "payload": {
        "ws_connection_id": format!("conn_{number:04}"), "protocol_version": hub.script.web.protocol_version,
        "heartbeat_ms": hub.script.web.heartbeat.as_millis() as u64, "max_event_buffer_size": 1000,
        "capabilities": {"event_batching": false, "compression": false}}});
    let _ = queue.send(Out::Text(hello.to_string()));
    tokio::select! {
        () = write(sink, queued, raw) => {}
        () = read(&hub, number, source, &queue, breaks) => {}
    }
    hub.leave(number);
}

async fn write(mut sink: SplitSink<Stream, Message>, mut queued: UnboundedReceiver<Out>, raw: TcpStream) {
    while let Some(out) = queued.recv().await {
        let sent = match out {
            Out::Text(text) => sink.feed(Message::text(text)).await,
            Out::Raw(bytes) => {
                let flushed = sink.flush().await;
                write_raw(&raw, &bytes).await;
                flushed
            }
            Out::Close(code, reason) => {
                let frame = CloseFrame { code: code.into(), reason: reason.into() };
                let _ = sink.send(Message::Close(Some(frame))).await;
                return;
            }
            Out::Settled(sender) => {
                let flushed = sink.flush().await;
                let _ = sender.try_send(());
                flushed
            }
        };
        if sent.is_err() || (queued.is_empty() && sink.flush().await.is_err()) {
            return;
        }
    }
}

/// Writes bytes outside of any frame.
async fn write_raw(mut stream: &TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match std::io::Write::write(&mut stream, bytes) {
            Ok(0) => return,
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(_) => return,
        }
    }
}

async fn read(
    hub: &Hub,
    number: u64,
    mut source: SplitStream<Stream>,
    queue: &UnboundedSender<Out>,
    breaks: watch::Receiver<Option<SocketBreak>>,
) {
    let heartbeat = hub.script.web.heartbeat.max(Duration::from_millis(1));
    let mut beats = tokio::time::interval(heartbeat);
    beats.tick().await;
    let mut unanswered = 0;
    loop {
        tokio::select! {
            message = source.next() => match message {
                Some(Ok(Message::Text(_))) if *breaks.borrow() == Some(SocketBreak::Silence) => {}
                Some(Ok(Message::Text(text))) => {
                    // Invalid JSON gets no answer.
                    let frame: Value = serde_json::from_str(&text).unwrap_or_default();
                    if frame["type"] == "pong" && breaks.borrow().is_some() {
                        // The script drops it.
                    } else if frame["type"] == "pong" {
                        unanswered = 0;
                        hub.ponged(number);
                    } else if let Some(answer) = answer(hub, number, &frame) {
                        let _ = queue.send(Out::Text(answer.to_string()));
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            _ = beats.tick(), if *breaks.borrow() != Some(SocketBreak::Silence) => {
                if unanswered == 2 {
                    let _ = queue.send(Out::Close(1001, "heartbeat timeout"));
                    // A client that reads nothing does not read this frame either.
                    tokio::time::sleep(heartbeat).await;
                    return;
                }
                unanswered += 1;
                let ping = json!({"type": "ping", "timestamp": timestamp(now()), "payload": {"nonce": format!("{number}-{unanswered}")}});
                let _ = queue.send(Out::Text(ping.to_string()));
            }
        }
    }
}

/// Returns the acknowledgement of a frame. Unknown frames have none.
fn answer(hub: &Hub, number: u64, frame: &Value) -> Option<Value> {
    let payload = match frame["type"].as_str()? {
        "subscribe" => hub.subscribe(number, &frame["payload"])?,
        "unsubscribe" => hub.unsubscribe(number, &frame["payload"]),
        _ => return None,
    };
    Some(json!({"type": "ack", "id": frame["id"], "code": 0, "msg": "success", "payload": payload}))
}
