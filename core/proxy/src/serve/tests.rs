//! The mailboxes of a client over HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kimi_agent_protocol::jsonrpc::relayed::id_key;
use serde_json::{Value, json};

use super::mailboxes::{Mailboxes, NoStream, Route, Stream};
use super::socket::one_line;

async fn deliver(mailboxes: &Mailboxes, message: &Value) {
    mailboxes.deliver(message.to_string().as_bytes()).await.unwrap();
}

fn expect(mailboxes: &Mailboxes, id: u64, method: &str, session: Option<&str>) {
    assert!(mailboxes.expect(id_key(&id.to_string()).unwrap(), Route::of(method, session)));
}

/// The next event of a stream. `None` at its end.
async fn next(stream: &mut Stream) -> Option<Value> {
    loop {
        let data = stream.frame().await?.unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&data).unwrap();
        assert!(text.ends_with("\n\n"), "{text:?}");
        if let Some(event) = text.strip_prefix("data: ") {
            return Some(serde_json::from_str(event).unwrap());
        }
    }
}

fn update(session: &str, n: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "n": n}})
}

fn answer(id: u64, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

#[tokio::test]
async fn message_reaches_the_stream_of_its_session() {
    let mailboxes = Arc::new(Mailboxes::new());
    let mut of_connection = mailboxes.open(None).unwrap();
    let error = json!({"jsonrpc": "2.0", "id": 9, "error": {"code": 1, "message": "x"}});
    let cancel = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1, "sessionId": "a"}});
    for (method, session, id, message, is_of_session) in [
        ("session/new", None, 1, answer(1, &json!({"sessionId": "a"})), false),
        ("session/prompt", Some("a"), 2, answer(2, &json!({})), true),
        ("session/load", Some("a"), 3, answer(3, &json!({})), true),
        ("session/fork", Some("a"), 4, answer(4, &json!({"sessionId": "b"})), false),
        ("session/prompt", Some("unknown"), 9, error, false),
        ("authenticate", None, 5, answer(5, &Value::Null), false),
        ("", None, 6, update("a", 1), true),
        ("", None, 7, cancel, false),
        // No call has this id.
        ("", None, 8, answer(77, &json!({})), false),
    ] {
        if !method.is_empty() {
            expect(&mailboxes, id, method, session);
        }
        deliver(&mailboxes, &message).await;
        let got = match is_of_session {
            true => next(&mut mailboxes.open(Some("a")).unwrap()).await,
            false => next(&mut of_connection).await,
        };
        assert_eq!(got, Some(message), "{method}");
    }
}

#[tokio::test]
async fn direct_answer_passes_by_the_streams() {
    let mailboxes = Arc::new(Mailboxes::new());
    let (sender, waiting) = tokio::sync::oneshot::channel();
    mailboxes.expect("0".to_owned(), Route::Direct(sender));
    assert!(mailboxes.idle_since().is_none());
    let before = json!({"jsonrpc": "2.0", "method": "hello"});
    deliver(&mailboxes, &before).await;
    deliver(&mailboxes, &answer(0, &json!({"protocolVersion": 1}))).await;
    assert!(waiting.await.unwrap().starts_with(b"{"));
    assert!(mailboxes.idle_since().is_some());
    assert_eq!(next(&mut mailboxes.open(None).unwrap()).await, Some(before));
}

#[tokio::test]
async fn closed_session_ends_its_stream_after_the_answer() {
    let mailboxes = Arc::new(Mailboxes::new());
    deliver(&mailboxes, &update("a", 1)).await;
    let mut stream = mailboxes.open(Some("a")).unwrap();
    expect(&mailboxes, 1, "session/close", Some("a"));
    deliver(&mailboxes, &answer(1, &json!({}))).await;
    assert_eq!(next(&mut stream).await, Some(update("a", 1)));
    assert_eq!(next(&mut stream).await, Some(answer(1, &json!({}))));
    assert_eq!(next(&mut stream).await, None);
    drop(stream);
    // Without a stream of the session, the connection gets the answer.
    deliver(&mailboxes, &update("b", 1)).await;
    expect(&mailboxes, 2, "session/close", Some("b"));
    deliver(&mailboxes, &answer(2, &json!({}))).await;
    assert_eq!(next(&mut mailboxes.open(None).unwrap()).await, Some(answer(2, &json!({}))));
}

#[tokio::test]
async fn stream_is_read_once_and_after_a_break() {
    let mailboxes = Arc::new(Mailboxes::new());
    deliver(&mailboxes, &update("a", 1)).await;
    deliver(&mailboxes, &update("a", 2)).await;
    let mut stream = mailboxes.open(Some("a")).unwrap();
    assert_eq!(mailboxes.open(Some("a")).err(), Some(NoStream::IsOpen));
    assert!(mailboxes.idle_since().is_none());
    assert_eq!(next(&mut stream).await, Some(update("a", 1)));
    drop(stream);
    assert!(mailboxes.idle_since().is_some());
    assert_eq!(next(&mut mailboxes.open(Some("a")).unwrap()).await, Some(update("a", 2)));
}

#[tokio::test]
async fn streams_of_unknown_sessions_are_few() {
    let mailboxes = Arc::new(Mailboxes::new());
    let open: Vec<_> = (0..16).map(|n| mailboxes.open(Some(&n.to_string())).unwrap()).collect();
    assert_eq!(mailboxes.open(Some("16")).err(), Some(NoStream::Unknown));
    deliver(&mailboxes, &update("0", 1)).await;
    let _known = mailboxes.open(Some("16")).unwrap();
    drop(open);
    let _another = mailboxes.open(Some("17")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn unread_messages_stop_the_agent_and_then_end_it() {
    let mailboxes = Arc::new(Mailboxes::new());
    let large = json!({"jsonrpc": "2.0", "method": "x", "params": {"text": "x".repeat(16 << 20)}});
    deliver(&mailboxes, &large).await;
    let line = update("a", 1).to_string();
    let began = tokio::time::Instant::now();
    assert!(mailboxes.deliver(line.as_bytes()).await.is_err());
    assert_eq!(began.elapsed().as_secs(), 60);
    let mut stream = mailboxes.open(None).unwrap();
    let (delivered, read) = tokio::join!(mailboxes.deliver(line.as_bytes()), next(&mut stream));
    assert!(delivered.is_ok() && read == Some(large));
}

#[tokio::test(start_paused = true)]
async fn silent_stream_has_a_comment_now_and_then() {
    let mailboxes = Arc::new(Mailboxes::new());
    let mut stream = mailboxes.open(None).unwrap();
    let began = tokio::time::Instant::now();
    for seconds in [0, 15, 30] {
        assert_eq!(stream.frame().await.unwrap().unwrap().into_data().unwrap(), ":\n\n");
        assert_eq!(began.elapsed(), Duration::from_secs(seconds));
    }
    mailboxes.end();
    assert_eq!(next(&mut stream).await, None);
    assert_eq!(mailboxes.open(None).err(), Some(NoStream::Unknown));
}

#[test]
fn message_becomes_one_line() {
    assert_eq!(&*one_line(b"{\"a\":\r\n 1}"), b"{\"a\":   1}");
    assert_eq!(&*one_line(b"{\"a\":\"\\n\"}"), b"{\"a\":\"\\n\"}");
}
