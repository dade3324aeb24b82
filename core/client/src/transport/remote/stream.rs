//! A stream of server-sent events. Each event has a message.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Incoming;
use tokio::sync::{mpsc, watch};

use super::client::{Client, Failure, Ids, lost};
use crate::jsonrpc::framing::LineBuffer;

/// The pause before the second attempt to open the stream of a session that the server does not know yet.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// The pause before a stream that ended is opened again.
const AGAIN: Duration = Duration::from_millis(300);

/// An event of a stream, with its session. Without one it is that of the connection.
pub(super) enum News {
    Message { session: Option<String>, text: String },
    Ended { session: Option<String>, failure: Failure },
}

/// Opens a stream and reads it to its end. `attempted` is set after the first attempt. `is_again`: an
/// earlier stream ended.
pub(super) async fn read(
    client: Client,
    ids: Ids,
    max_message_bytes: usize,
    news: mpsc::Sender<News>,
    attempted: watch::Sender<bool>,
    is_again: bool,
) {
    let session = ids.session.clone();
    if is_again {
        // A server may end each stream at once.
        tokio::time::sleep(AGAIN).await;
    }
    let mut pause = FIRST_PAUSE;
    let failure = loop {
        let response = match client.stream(ids.clone()).await {
            Ok(response) => response,
            Err(failure) => break failure,
        };
        let status = response.status();
        if status.is_success() {
            attempted.send_replace(true);
            let mut events = Events::new(response.into_body(), max_message_bytes);
            break loop {
                match events.next().await {
                    Ok(text) => {
                        let message = News::Message { session: session.clone(), text };
                        if news.send(message).await.is_err() {
                            return;
                        }
                    }
                    Err(failure) => break failure,
                }
            };
        }
        // A server may know a session only after the agent's first message about it, or notice late that an earlier stream ended.
        let is_early = matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::CONFLICT);
        if session.is_none() || !is_early {
            break Failure::Lost(format!("the server refuses the stream of its messages with HTTP status {status}"));
        }
        attempted.send_replace(true);
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LAST_PAUSE);
    };
    attempted.send_replace(true);
    drop(news.send(News::Ended { session, failure }).await);
}

/// The events of a body. Written here, because libraries for it have no limit of a message.
struct Events {
    body: Incoming,
    lines: LineBuffer,
    limit: usize,
    data: String,
}

impl Events {
    fn new(body: Incoming, limit: usize) -> Self {
        Self { body, lines: LineBuffer::new(limit.saturating_add(16)), limit, data: String::new() }
    }

    /// Waits for the data of the next event.
    async fn next(&mut self) -> Result<String, Failure> {
        loop {
            while let Some(line) = self.lines.next_line().map_err(|line| Failure::TooLong(line.size))? {
                if let Some(data) = event_data(line, &mut self.data) {
                    self.lines.release();
                    return Ok(data);
                }
                if self.data.len() > self.limit {
                    return Err(Failure::TooLong(self.data.len()));
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.lines.extend(data);
                    }
                }
                Some(Err(error)) => return Err(lost(&error)),
                None => return Err(Failure::Lost("the server ended the stream of its messages".to_owned())),
            }
        }
    }
}

/// Takes a line of an event stream. Returns the data if the event is complete.
fn event_data(line: &[u8], data: &mut String) -> Option<String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Some(std::mem::take(data)).filter(|data| !data.is_empty());
    }
    let value = line.strip_prefix(b"data:").or_else(|| (line == b"data").then_some(&b""[..]))?;
    let value = value.strip_prefix(b" ").unwrap_or(value);
    if !data.is_empty() {
        data.push('\n');
    }
    data.push_str(&String::from_utf8_lossy(value));
    None
}

#[cfg(test)]
mod tests {
    use super::event_data;

    #[test]
    fn data_of_events_is_read() {
        let read = |text: &str| {
            let mut data = String::new();
            text.split('\n').filter_map(|line| event_data(line.as_bytes(), &mut data)).collect::<Vec<_>>()
        };
        assert_eq!(read("data: {}\n\n"), ["{}"]);
        assert_eq!(read(": ping\n\nid: 1\nevent: message\ndata:{\r\ndata: }\r\n\r\ndata: 2\n\n"), ["{\n}", "2"]);
        assert!(read("data: cut").is_empty());
        assert!(read("\n\ndatabase: 1\n\ndata\n\n").is_empty());
    }
}
