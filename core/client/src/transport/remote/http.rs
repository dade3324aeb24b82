//! Messages over HTTP: a POST for each message of the driver, and streams of server-sent events for those of the agent: one of the
//! connection, and one of each session.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::address::Address;
use super::client::{Client, Failure, Ids, text};
use super::connector::connector;
use super::failure::refused;
use super::message::Message;
use super::stream::{self, News};
use super::{End, Input, Limits, deliver, too_long};
use crate::error::{Error, Result};
use crate::jsonrpc::{self, RpcFailure};
use crate::transport::outbox::Outbox;

/// The code of the answer to a request that the server refused.
const INTERNAL_ERROR: i64 = -32603;
/// The limit of messages that wait to be sent.
const MAX_WAITING: usize = 16;
/// How long a message waits for the stream of its session. A server may send the head of a stream with its first event only.
const OPENED: Duration = Duration::from_secs(5);
/// How long the server may take to accept a message.
const ACCEPT: Duration = Duration::from_secs(120);

pub(super) struct HttpLink {
    client: Client,
    max_message_bytes: usize,
    limits: Limits,
}

impl HttpLink {
    /// Prepares the requests. The first one is sent with the first message.
    ///
    /// # Errors
    /// [`Error::Spawn`] if TLS cannot be used.
    pub(super) async fn connect(address: &Address, max_message_bytes: usize, limits: Limits) -> Result<Self> {
        let connector = connector(address.is_secure, false).await.map_err(|cause| cause.error(address))?;
        Ok(Self { client: Client::new(connector, address.clone()), max_message_bytes, limits })
    }

    /// Runs until the driver, the agent or the connection ends.
    pub(super) async fn run(
        self,
        mut input: Input<impl AsyncRead + Unpin>,
        outbox: &Outbox,
        mut stopped: watch::Receiver<bool>,
    ) -> End {
        let (sender, mut news) = mpsc::channel(4);
        let mut exchange = Exchange {
            client: self.client.clone(),
            max_message_bytes: self.max_message_bytes,
            connection: None,
            streams: JoinSet::new(),
            opened: HashMap::new(),
            news: sender,
            requests: HashMap::new(),
            asked: HashMap::new(),
            ordered: Lane::default(),
            answers: Lane::default(),
        };
        let end = loop {
            while exchange.has_room()
                && let Some(line) = input.next()
            {
                exchange.send(line);
            }
            if input.has_ended && exchange.is_idle() {
                break End::Closed;
            }
            let is_full = outbox.is_full();
            let may_take = !input.has_ended && exchange.has_room();
            let next = tokio::select! {
                posted = exchange.ordered.next() => exchange.posted(posted, outbox),
                posted = exchange.answers.next() => exchange.posted(posted, outbox),
                Some(news) = news.recv(), if !is_full => exchange.take(news, outbox),
                () = outbox.has_space(), if is_full => Ok(()),
                () = input.read(), if may_take => Ok(()),
                _ = stopped.wait_for(|stopped| *stopped) => break End::Closed,
            };
            if let Err(end) = next {
                break end;
            }
        };
        if let Some(connection) = exchange.connection {
            // The server ends the agent.
            drop(tokio::time::timeout(self.limits.close, self.client.delete(connection)).await);
        }
        end
    }
}

/// A message that was sent.
struct Posted {
    message: Message,
    result: std::result::Result<Accepted, Failure>,
}

/// What the server answered to a message.
enum Accepted {
    Later,
    /// The answer to `initialize`, and the name of the connection.
    Initialized(String, Option<HeaderValue>),
    /// It refuses the connection.
    Refused(Error),
    /// It refuses the message, with this status and text.
    Not(StatusCode, String),
}

type Posting = Pin<Box<dyn Future<Output = Posted> + Send>>;

/// Messages that are sent one after the other, so that they arrive in order.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Posting>,
}

impl Lane {
    /// Waits for the first message. Cancel-safe.
    async fn next(&mut self) -> Posted {
        match self.waiting.front_mut() {
            Some(posting) => {
                let posted = posting.await;
                self.waiting.pop_front();
                posted
            }
            None => std::future::pending().await,
        }
    }
}

struct Exchange {
    client: Client,
    max_message_bytes: usize,
    connection: Option<HeaderValue>,
    streams: JoinSet<()>,
    /// The sessions with a stream, each with a signal that its first attempt is over.
    opened: HashMap<String, watch::Receiver<bool>>,
    news: mpsc::Sender<News>,
    /// Requests of the driver that wait for an answer: their ids, and their sessions.
    requests: HashMap<String, Option<String>>,
    /// Requests of the agent that wait for an answer, with their sessions.
    asked: HashMap<String, String>,
    ordered: Lane,
    /// Answers do not wait for other messages, because the agent may wait for them.
    answers: Lane,
}

impl Exchange {
    fn has_room(&self) -> bool {
        // Nothing else can be sent before the connection has a name.
        let is_opening = self.connection.is_none() && !self.ordered.waiting.is_empty();
        !is_opening && self.ordered.waiting.len() + self.answers.waiting.len() < MAX_WAITING
    }

    fn is_idle(&self) -> bool {
        self.ordered.waiting.is_empty() && self.answers.waiting.is_empty()
    }

    /// Queues a message of the driver.
    fn send(&mut self, line: String) {
        let message = Message::read(&line);
        let session = match (&message.id, message.is_answer) {
            (Some(id), true) => self.asked.remove(id),
            _ => message.session.clone(),
        };
        if let (Some(id), false) = (&message.id, message.is_answer) {
            self.requests.insert(id.clone(), session.clone());
        }
        let mut attempted = session.clone().filter(|_| self.connection.is_some()).map(|session| self.open(&session));
        let (client, max) = (self.client.clone(), self.max_message_bytes);
        let ids = Ids { connection: self.connection.clone(), session };
        let is_answer = message.is_answer;
        let posting = async move {
            if let Some(attempted) = &mut attempted {
                // The server may drop what has no stream.
                drop(tokio::time::timeout(OPENED, attempted.wait_for(|is_over| *is_over)).await);
            }
            let sent = tokio::time::timeout(ACCEPT, accepted(&client, ids, line, max)).await;
            let result =
                sent.unwrap_or_else(|_| Err(Failure::Lost(format!("it did not accept a message within {ACCEPT:?}"))));
            Posted { message, result }
        };
        let lane = if is_answer { &mut self.answers } else { &mut self.ordered };
        lane.waiting.push_back(Box::pin(posting));
    }

    /// Opens the stream of a session, unless it is open.
    fn open(&mut self, session: &str) -> watch::Receiver<bool> {
        if let Some(attempted) = self.opened.get(session) {
            return attempted.clone();
        }
        let attempted = self.stream(Some(session.to_owned()), false);
        self.opened.insert(session.to_owned(), attempted.clone());
        attempted
    }

    fn stream(&mut self, session: Option<String>, is_again: bool) -> watch::Receiver<bool> {
        let (sender, attempted) = watch::channel(false);
        let ids = Ids { connection: self.connection.clone(), session };
        let reading =
            stream::read(self.client.clone(), ids, self.max_message_bytes, self.news.clone(), sender, is_again);
        self.streams.spawn(reading);
        attempted
    }

    /// Handles the server's answer to a message.
    fn posted(&mut self, posted: Posted, outbox: &Outbox) -> std::result::Result<(), End> {
        let Posted { message, result } = posted;
        match result {
            Ok(Accepted::Later) => Ok(()),
            Ok(Accepted::Refused(error)) => Err(End::Failed(error)),
            Ok(Accepted::Initialized(answer, connection)) => {
                self.requests.clear();
                self.connection = connection;
                if self.connection.is_some() {
                    self.stream(None, false);
                }
                deliver(outbox, &answer);
                Ok(())
            }
            Ok(Accepted::Not(status, text)) => {
                let reason = format!("the server answered with HTTP status {status}{text}");
                let is_gone = [401, 403, 404, 410].contains(&status.as_u16());
                match message.id.filter(|_| !message.is_answer && !is_gone) {
                    Some(id) => {
                        self.requests.remove(&id);
                        let failure = RpcFailure { code: INTERNAL_ERROR, message: reason, data: None };
                        outbox.push(&jsonrpc::refusal(&id, &failure));
                        Ok(())
                    }
                    None => Err(End::Lost(reason)),
                }
            }
            Err(failure) => Err(self.failed(failure)),
        }
    }

    fn failed(&self, failure: Failure) -> End {
        match failure {
            Failure::TooLong(size) => End::Failed(too_long(size, self.max_message_bytes)),
            Failure::Unreachable(error) if self.connection.is_none() => End::Failed(error),
            Failure::Unreachable(error) => End::Lost(error.to_string()),
            Failure::Lost(reason) => End::Lost(reason),
        }
    }

    /// Handles an event of a stream.
    fn take(&mut self, news: News, outbox: &Outbox) -> std::result::Result<(), End> {
        match news {
            News::Message { session, text } => {
                let message = Message::read(&text);
                match (message.id, message.is_answer) {
                    (Some(id), true) => {
                        // A server cannot make this program open streams for which it has not asked.
                        if self.requests.remove(&id).is_some()
                            && let Some(created) = message.session
                        {
                            self.open(&created);
                        }
                    }
                    (Some(id), false) => {
                        if let Some(session) = session {
                            self.asked.insert(id, session);
                        }
                    }
                    (None, _) => {}
                }
                deliver(outbox, &text);
                Ok(())
            }
            News::Ended { session, failure } => {
                let is_waiting = self.requests.values().any(|waiting| *waiting == session);
                let has_questions = self.asked.values().any(|asked| Some(asked) == session.as_ref());
                let is_clean = matches!(failure, Failure::Lost(_));
                if is_clean && !is_waiting && !has_questions {
                    // Nothing was under way, so that nothing is lost.
                    let attempted = self.stream(session.clone(), true);
                    if let Some(session) = session {
                        self.opened.insert(session, attempted);
                    }
                    return Ok(());
                }
                Err(self.failed(failure))
            }
        }
    }
}

/// Sends a message, and reads the answer.
async fn accepted(
    client: &Client,
    ids: Ids,
    line: String,
    max_message_bytes: usize,
) -> std::result::Result<Accepted, Failure> {
    const SHOWN: usize = 4 << 10;
    let is_first = ids.connection.is_none();
    let response = client.post(ids, line).await?;
    let status = response.status();
    if !is_first {
        if status.is_success() {
            return Ok(Accepted::Later);
        }
        let body = text(response, SHOWN).await.unwrap_or_default();
        let body = client.address.masked(body.lines().next().unwrap_or_default().trim());
        let body = if body.is_empty() { body } else { format!(": {body}") };
        return Ok(Accepted::Not(status, body));
    }
    if status != StatusCode::OK {
        return Ok(Accepted::Refused(refused(&client.address, &response)));
    }
    let connection = response.headers().get(super::client::CONNECTION_ID).cloned();
    let answer = text(response, max_message_bytes).await?;
    let message = Message::read(&answer);
    if !message.is_answer || (connection.is_none() && !message.is_error) {
        let address = &client.address;
        return Ok(Accepted::Refused(Error::Spawn(format!(
            "the server at {address} does not speak ACP over HTTP: its answer to `initialize` names no connection; check the address, or \
             use the scheme `wss` or `ws`"
        ))));
    }
    Ok(Accepted::Initialized(answer, connection))
}
