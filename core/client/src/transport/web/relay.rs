//! The task between the lines and the server. The outbox holds what the driver has not read. While it is full, nothing is read
//! from the socket.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use kimi_agent_protocol::json::rewritten;
use kimi_agent_protocol::recording::MASK;
use tokio::io::AsyncRead;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::http::Http;
use super::lines::{self, Call, Frame, Kind};
use super::process::{self, Stage};
use super::socket::{Reconnecting, Socket};
use super::{Limits, Target, read_some};
use crate::error::Result;
use crate::jsonrpc::framing::LineBuffer;
use crate::transport::outbox::Outbox;

/// The limit of pending calls. More calls wait in the pipe.
const MAX_CALLS: usize = 128;
const CHUNK: usize = 16 << 10;

enum Link {
    Up(Box<Socket>),
    Down(Box<Reconnecting>),
    Closed,
}

/// An event of the socket.
enum News {
    Frame(Utf8Bytes),
    Broken(String),
    Again(Box<Socket>),
}

impl Link {
    /// Waits for the next event. Cancel-safe.
    async fn next(&mut self) -> Result<News> {
        match self {
            Self::Up(socket) => Ok(socket.next().await.map_or_else(News::Broken, News::Frame)),
            Self::Down(reconnecting) => reconnecting.socket().await.map(|socket| News::Again(Box::new(socket))),
            Self::Closed => std::future::pending().await,
        }
    }
}

pub(super) struct Relay<'a, R> {
    target: Target,
    secret: String,
    limits: Limits,
    http: Http,
    link: Link,
    /// The number of connections.
    connections: u64,
    /// Frames that wait for a connection, with the ids of their calls.
    unsent: Vec<(String, String)>,
    /// The ids of calls whose frames were sent and not acknowledged.
    unacknowledged: HashSet<String>,
    calls: JoinSet<Vec<u8>>,
    stage: watch::Receiver<Stage>,
    lines: R,
    buffer: LineBuffer,
    outbox: &'a Outbox,
    /// When the server last sent something. Set after its first heartbeat.
    heard: Option<Instant>,
}

impl<'a, R: AsyncRead + Unpin> Relay<'a, R> {
    pub(super) fn new(
        target: &Target,
        secret: String,
        socket: Socket,
        limits: Limits,
        lines: R,
        outbox: &'a Outbox,
        stage: watch::Receiver<Stage>,
    ) -> Self {
        Self {
            stage,
            target: target.clone(),
            secret,
            http: Http::new(target, limits.call),
            limits,
            link: Link::Up(Box::new(socket)),
            connections: 0,
            unsent: Vec::new(),
            unacknowledged: HashSet::new(),
            calls: JoinSet::new(),
            lines,
            buffer: LineBuffer::new(usize::MAX),
            outbox,
            heard: None,
        }
    }

    /// Runs until the driver ends its lines, the process ends, or the server cannot be reached. Then the socket is
    /// closed.
    pub(super) async fn run(mut self, stage: &mut watch::Receiver<Stage>) -> Result<()> {
        let ended = self.relay(stage).await;
        let Link::Up(mut socket) = std::mem::replace(&mut self.link, Link::Closed) else { return ended };
        if *stage.borrow() != Stage::Exited {
            socket.close().await;
            return ended;
        }
        // Frames that the server sent before its end are delivered.
        let until = Instant::now() + self.limits.finish;
        let next = async |socket: &mut Socket| {
            self.outbox.has_space().await;
            socket.next().await
        };
        while let Ok(Ok(text)) = tokio::time::timeout_at(until, next(&mut socket)).await {
            self.take_frame(&text);
        }
        ended
    }

    async fn relay(&mut self, stage: &mut watch::Receiver<Stage>) -> Result<()> {
        // Set after the lines have ended: the deadline of pending calls.
        let mut until: Option<Instant> = None;
        // Set while the outbox is full: the end of the patience with the driver.
        let mut patience: Option<Instant> = None;
        loop {
            self.take_lines()?;
            let is_full = self.outbox.is_full();
            patience = if is_full { patience.or_else(|| Some(Instant::now() + self.limits.stalled)) } else { None };
            if until.is_some() && self.calls.is_empty() && self.unacknowledged.is_empty() {
                return Ok(());
            }
            let silence = self.silence();
            let silent = self.heard.filter(|_| !is_full).map(|heard| heard + silence);
            let deadline = until.into_iter().chain(silent).chain(patience).min();
            let may_read = until.is_none() && self.has_capacity();
            let buffer = &mut self.buffer;
            tokio::select! {
                news = self.link.next(), if !is_full => self.take_news(news?),
                // The server was not silent: nothing was read.
                () = self.outbox.has_space(), if is_full => self.heard = self.heard.map(|_| Instant::now()),
                Some(answer) = self.calls.join_next(), if !is_full => match answer {
                    Ok(line) => self.push(line),
                    Err(error) => tracing::error!(%error, "a call of the agent's server failed"),
                },
                read = read_some::<CHUNK>(&mut self.lines, |bytes| buffer.extend(bytes)), if may_read => match read {
                    Ok(count) if count > 0 => {}
                    _ => until = Some(Instant::now() + self.limits.finish),
                },
                () = process::ended(stage) => return Ok(()),
                () = sleep_until(deadline) => {
                    if until.is_some_and(|until| Instant::now() >= until) {
                        return Ok(());
                    }
                    if is_full {
                        if self.outbox.is_full() && patience.is_some_and(|patience| Instant::now() >= patience) {
                            return Err(self.outbox.error());
                        }
                        continue;
                    }
                    // This task may have been delayed, so frames that arrived in time are handled first.
                    match self.link.next().now_or_never() {
                        Some(news) => self.take_news(news?),
                        None => self.broken(format!("the server was silent for {silence:?}")),
                    }
                }
            }
        }
    }

    /// Returns how long the server may be silent after its first heartbeat.
    fn silence(&self) -> Duration {
        if let Link::Up(socket) = &self.link { socket.silence(&self.limits) } else { self.limits.silence }
    }

    fn has_capacity(&self) -> bool {
        self.calls.len() + self.unacknowledged.len() + self.unsent.len() < MAX_CALLS
    }

    /// Executes a line of the driver.
    fn take_lines(&mut self) -> Result<()> {
        while self.has_capacity() {
            let read = match self.buffer.next_line()? {
                Some(line) => Call::read(line),
                None => break,
            };
            match read {
                Ok(Call { id, kind: Kind::Frame { kind, payload } }) => {
                    let frame = lines::frame(&id, &kind, &payload);
                    match &mut self.link {
                        Link::Up(socket) => {
                            socket.send(frame);
                            self.unacknowledged.insert(id);
                        }
                        Link::Down(_) | Link::Closed => self.unsent.push((id, frame)),
                    }
                }
                Ok(call) => {
                    let answer = self.http.clone().call(call);
                    drop(self.calls.spawn(answered(answer, self.stage.clone(), self.limits.finish)));
                }
                Err((Some(id), reason)) => self.push(lines::failure(&id, &reason)),
                Err((None, reason)) => tracing::warn!(reason, "invalid line for the agent's server dropped"),
            }
        }
        self.buffer.release();
        Ok(())
    }

    fn take_news(&mut self, news: News) {
        match news {
            News::Frame(text) => self.take_frame(&text),
            News::Broken(reason) => self.broken(reason),
            News::Again(mut socket) => {
                self.connections += 1;
                tracing::info!(count = self.connections, "the agent's server is connected again");
                for (id, frame) in self.unsent.drain(..) {
                    socket.send(frame);
                    self.unacknowledged.insert(id);
                }
                self.link = Link::Up(socket);
                self.push(lines::connected(self.connections))
            }
        }
    }

    fn take_frame(&mut self, text: &str) {
        if self.heard.is_some() {
            self.heard = Some(Instant::now());
        }
        match Frame::read(text) {
            Some(Frame::Ping(pong)) => {
                self.heard = Some(Instant::now());
                if let Link::Up(socket) = &mut self.link {
                    socket.send(pong);
                }
            }
            Some(Frame::Ack(id)) if self.unacknowledged.remove(&id) => {
                self.push(lines::answer(&id, 200, text.as_bytes()))
            }
            Some(Frame::Ack(_) | Frame::Hello { .. }) => {}
            Some(Frame::Event(kind)) => self.push(lines::event(&kind, text)),
            None => match rewritten(text.as_bytes()).filter(|again| again != text) {
                Some(again) => self.take_frame(&again),
                None => tracing::warn!("invalid WebSocket frame dropped"),
            },
        }
    }

    /// Handles a lost connection: calls that wait for its acknowledgements fail.
    fn broken(&mut self, reason: String) {
        self.heard = None;
        self.link = Link::Down(Box::new(Reconnecting::new(&self.target, &self.limits, reason)));
        for id in std::mem::take(&mut self.unacknowledged) {
            self.push(lines::failure(&id, "the connection to the agent's server broke before it answered"));
        }
    }

    /// Passes a line to the driver, without the secret.
    fn push(&self, mut line: Vec<u8>) {
        while let Some(at) = memchr::memmem::find(&line, self.secret.as_bytes()) {
            line.splice(at..at + self.secret.len(), MASK.bytes());
        }
        self.outbox.push(&line);
    }
}

/// Waits for an answer. If the server ends before, its end is the answer to all calls.
async fn answered(
    answer: impl Future<Output = (Vec<u8>, bool)>,
    mut stage: watch::Receiver<Stage>,
    patience: Duration,
) -> Vec<u8> {
    let (line, is_answered) = answer.await;
    if !is_answered && tokio::time::timeout(patience, process::ended(&mut stage)).await.is_ok() {
        std::future::pending::<()>().await;
    }
    line
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
