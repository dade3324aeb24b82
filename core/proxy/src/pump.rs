//! The lines between the client and the agent. Each side waits while the other one does not read.

use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use kimi_agent_client::{Error, Result};
use kimi_agent_protocol::AgentExit;
use kimi_agent_protocol::jsonrpc::framing::{LineBuffer, LineTooLong, MAX_VALUES, has_too_many_values};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::guard::{Guard, Outbox};

/// The bytes that are read at a time.
const CHUNK: usize = 64 << 10;
/// The limit of bytes that wait for one side. Then the other side is not read.
const MAX_WAITING: usize = 1 << 20;
/// The limit of bytes of the guard that wait for a side, and how long the side may then read nothing.
const MAX_OWN: usize = 16 << 20;
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// After the exit of the agent: how long descendants that hold the pipe may delay the end of the output.
const DRAIN: Duration = Duration::from_millis(500);
/// After the client has ended: how long the agent may take to write the rest and to exit.
const PATIENCE: Duration = Duration::from_secs(5);
/// At the end: how long the client may take to read the last lines.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// One side: what it writes and what it reads.
pub(crate) struct Side<R, W> {
    reader: R,
    /// `None` if nothing more is written.
    writer: Option<W>,
    lines: LineBuffer,
    has_ended: bool,
    is_flushed: bool,
    /// Since when too much of the guard waits for it, and it reads nothing.
    stalled: Option<Instant>,
}

impl<R, W> Side<R, W> {
    pub(crate) fn new(reader: R, writer: W, max_line_bytes: usize) -> Self {
        let lines = LineBuffer::new(max_line_bytes);
        Self { reader, writer: Some(writer), lines, has_ended: false, is_flushed: true, stalled: None }
    }

    fn written(&mut self, outbox: &mut Outbox, count: usize) {
        self.is_flushed = count == 0;
        self.stalled = None;
        outbox.written(count);
    }

    fn has_read(&mut self, bytes: &mut BytesMut, is_open: bool) {
        self.lines.extend(bytes);
        bytes.clear();
        if !is_open {
            self.lines.end();
            self.has_ended = true;
        }
    }

    fn note_stall(&mut self, outbox: &Outbox, now: Instant) {
        self.stalled = if outbox.own > MAX_OWN { self.stalled.or(Some(now)) } else { None };
    }
}

/// How the relay ended, without an error.
pub(crate) enum Ended {
    /// The client has closed its output.
    Client,
    /// The agent has closed its output, or has exited.
    Agent(Option<AgentExit>),
}

enum Woken {
    FromClient(io::Result<bool>),
    FromAgent(io::Result<bool>),
    ToClient(io::Result<usize>),
    ToAgent(io::Result<usize>),
    Exited(AgentExit),
    Time,
}

/// Relays lines until one side ends. All that the agent has written is passed on before.
///
/// # Errors
/// A line that cannot be read, a session that cannot be followed, or a side that reads nothing.
pub(crate) async fn relay<CR, CW, AR, AW>(
    client: &mut Side<CR, CW>,
    agent: &mut Side<AR, AW>,
    guard: &mut Guard,
    exit: impl Future<Output = AgentExit>,
) -> Result<Ended>
where
    CR: AsyncRead + Unpin,
    CW: AsyncWrite + Unpin,
    AR: AsyncRead + Unpin,
    AW: AsyncWrite + Unpin,
{
    let mut exit = std::pin::pin!(exit);
    let (mut exited, mut drained_at, mut leaves_at, mut gone_at) = (None, None, None, None);
    let (mut of_client, mut of_agent) = (BytesMut::new(), BytesMut::new());
    loop {
        take_lines(client, agent, guard)?;
        let now = Instant::now();
        if agent.has_ended && guard.to_client.bytes.is_empty() && client.is_flushed {
            return Ok(if client.has_ended { Ended::Client } else { Ended::Agent(exited) });
        }
        if client.has_ended && leaves_at.is_none() && guard.to_agent.bytes.is_empty() && agent.is_flushed {
            // The end of its input asks the agent to exit. What it still writes is passed on.
            if let Some(mut writer) = agent.writer.take() {
                writer.shutdown().await.ok();
            }
            leaves_at = Some(now + PATIENCE);
        }
        if client.has_ended {
            // An agent that does not read its input does not see the end of it either.
            gone_at = gone_at.or(Some(now + STALL_TIMEOUT));
        }
        if [leaves_at, gone_at].into_iter().flatten().any(|at| at <= now) {
            return Ok(Ended::Client);
        }
        if agent.writer.is_none() {
            guard.to_agent.clear();
            agent.is_flushed = true;
        }
        client.note_stall(&guard.to_client, now);
        agent.note_stall(&guard.to_agent, now);
        let stalled = [client.stalled, agent.stalled].into_iter().flatten().map(|since| since + STALL_TIMEOUT).min();
        if stalled.is_some_and(|at| at <= now) {
            return Err(Error::Protocol("one side has read nothing for a minute".to_owned().into()));
        }
        let deadline = [stalled, guard.poll_timeout(), drained_at, leaves_at, gone_at].into_iter().flatten().min();
        let reads_client =
            !client.has_ended && guard.to_agent.bytes.len() < MAX_WAITING && guard.to_client.own <= MAX_OWN;
        let reads_agent =
            !agent.has_ended && guard.to_client.bytes.len() < MAX_WAITING && guard.to_agent.own <= MAX_OWN;
        let writes_client = !guard.to_client.bytes.is_empty() || !client.is_flushed;
        let writes_agent = !guard.to_agent.bytes.is_empty() || !agent.is_flushed;
        let woken = {
            let (client_reader, client_writer) = (&mut client.reader, &mut client.writer);
            let (agent_reader, agent_writer) = (&mut agent.reader, &mut agent.writer);
            tokio::select! {
                written = write(client_writer, &guard.to_client.bytes), if writes_client => Woken::ToClient(written),
                written = write(agent_writer, &guard.to_agent.bytes), if writes_agent => Woken::ToAgent(written),
                read = read(client_reader, &mut of_client), if reads_client => Woken::FromClient(read),
                read = read(agent_reader, &mut of_agent), if reads_agent => Woken::FromAgent(read),
                exit = &mut exit, if exited.is_none() => Woken::Exited(exit),
                () = sleep_until(deadline) => Woken::Time,
            }
        };
        match woken {
            Woken::FromClient(read) => client.has_read(&mut of_client, read.unwrap_or(false)),
            Woken::FromAgent(read) => agent.has_read(&mut of_agent, read.unwrap_or(false)),
            Woken::ToClient(Ok(count)) => client.written(&mut guard.to_client, count),
            Woken::ToAgent(Ok(count)) => agent.written(&mut guard.to_agent, count),
            // Nobody reads any more.
            Woken::ToClient(Err(error)) => {
                tracing::debug!(%error, "the client reads no more");
                return Ok(Ended::Client);
            }
            Woken::ToAgent(Err(error)) => {
                tracing::debug!(%error, "the agent reads no more");
                agent.writer = None;
                drained_at = drained_at.or(Some(Instant::now() + DRAIN));
            }
            Woken::Exited(exit) => {
                exited = Some(exit);
                drained_at = Some(Instant::now() + DRAIN);
            }
            Woken::Time => {
                let now = Instant::now();
                if drained_at.take_if(|at| *at <= now).is_some() {
                    agent.has_read(&mut of_agent, false);
                }
                guard.handle_timeout(now)?;
            }
        }
    }
}

/// Writes what waits for the client, for some time.
pub(crate) async fn last_words<R, W: AsyncWrite + Unpin>(client: &mut Side<R, W>, guard: &mut Guard) {
    let bytes = std::mem::take(&mut guard.to_client).bytes;
    let Some(writer) = &mut client.writer else { return };
    let written = async {
        writer.write_all(&bytes).await?;
        writer.flush().await
    };
    match tokio::time::timeout(LAST_WORDS, written).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the client reads no more"),
        Err(_) => tracing::debug!("the client does not read"),
    }
}

/// Passes on the lines that were read, as far as the other side has capacity.
fn take_lines<CR, CW, AR, AW>(client: &mut Side<CR, CW>, agent: &mut Side<AR, AW>, guard: &mut Guard) -> Result<()> {
    let now = Instant::now();
    let too_long = |from: &str, too_long: LineTooLong| {
        let LineTooLong { size, limit, .. } = too_long;
        Error::Protocol(format!("{from} sent a line of {size} bytes or more; the limit is {limit}").into())
    };
    while let Some(line) = client.lines.next_line().map_err(|error| too_long("the client", error))? {
        check_values("the client", line)?;
        guard.client_line(line, now)?;
    }
    while let Some(line) = agent.lines.next_line().map_err(|error| too_long("the agent", error))? {
        check_values("the agent", line)?;
        guard.agent_line(line, now)?;
    }
    Ok(())
}

/// Refuses a line whose values take too much memory.
fn check_values(from: &str, line: &[u8]) -> Result<()> {
    if has_too_many_values(line) {
        return Err(Error::Protocol(format!("{from} sent a line with more than {MAX_VALUES} JSON values").into()));
    }
    Ok(())
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// Writes some of what waits, or flushes what was written. Cancel-safe.
async fn write(writer: &mut Option<impl AsyncWrite + Unpin>, outbox: &[u8]) -> io::Result<usize> {
    let Some(writer) = writer else { return Err(io::ErrorKind::BrokenPipe.into()) };
    if outbox.is_empty() {
        return writer.flush().await.map(|()| 0);
    }
    match writer.write(outbox).await {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        written => written,
    }
}

/// Reads some bytes. Returns false at the end. Cancel-safe.
async fn read(reader: &mut (impl AsyncRead + Unpin), bytes: &mut BytesMut) -> io::Result<bool> {
    bytes.reserve(CHUNK);
    reader.read_buf(bytes).await.map(|count| count > 0)
}
