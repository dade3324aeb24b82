//! The shared state of the server's connections and of the agents of its sessions: which agent has a session, the
//! frames of each session, its subscribers, and the calls that wait for an answer.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::net::TcpStream;
use std::process;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, oneshot, watch};

use crate::io::{Io, Output};
use crate::run::{Agent, Options, SharedCut};
use crate::script::{Script, SocketBreak};
use crate::server::Sessions;
use crate::server::web::{Route, listed, now};

/// The server replays at most this many frames. A client that is further behind has to read the transcript.
const MOST_REPLAYED: usize = 1000;
/// How long an agent waits until its output is sent.
const SETTLE: Duration = Duration::from_secs(5);

pub(crate) struct Hub {
    pub(crate) script: Script,
    options: Options,
    cut: SharedCut,
    sessions: Sessions,
    runtime: Handle,
    /// The server's own secret, which the server prints.
    pub(crate) token: String,
    /// The secret that the parent process set.
    pub(crate) password: Option<String>,
    pub(crate) shutdown: Notify,
    closed: Notify,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The channels to the agents. The first agent has number 1.
    agents: Vec<Sender<Vec<u8>>>,
    /// Sessions that are being opened again, with the agent of each.
    opening: HashMap<String, usize>,
    feeds: HashMap<String, Feed>,
    sockets: Vec<Socket>,
    sockets_so_far: u64,
    calls: HashMap<u64, oneshot::Sender<Value>>,
    calls_so_far: u64,
    /// The number of answers that are not written yet.
    writing: usize,
    files: HashMap<String, Value>,
}

/// A session's frames.
#[derive(Default)]
struct Feed {
    agent: usize,
    /// Whether clients can subscribe to it.
    live: bool,
    epoch: String,
    seq: u64,
    /// The durable frames with their numbers.
    journal: Vec<(u64, String)>,
}

struct Socket {
    number: u64,
    queue: UnboundedSender<Out>,
    stream: TcpStream,
    /// Says to the socket's tasks how the socket breaks.
    broken: watch::Sender<Option<SocketBreak>>,
    has_ponged: bool,
    subscribed: HashSet<String>,
}

/// An output of a socket.
pub(crate) enum Out {
    Text(String),
    /// Bytes that are written unchanged in place of a frame.
    Raw(Vec<u8>),
    Close(u16, &'static str),
    /// Reports that everything before it is written.
    Settled(std::sync::mpsc::SyncSender<()>),
}

#[derive(Deserialize)]
struct Head<'a> {
    jsonrpc: Option<Value>,
    id: Option<u64>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    seq: Option<u64>,
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    epoch: Option<Cow<'a, str>>,
    #[serde(default)]
    volatile: bool,
}

impl Hub {
    pub(crate) fn new(script: Script, options: Options, cut: SharedCut, runtime: Handle) -> Self {
        Self {
            script,
            options,
            cut,
            sessions: Sessions::default(),
            runtime,
            token: uuid::Uuid::new_v4().simple().to_string(),
            password: std::env::var("KIMI_CODE_PASSWORD").ok().filter(|password| !password.is_empty()),
            shutdown: Notify::new(),
            closed: Notify::new(),
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when no socket is open.
    pub(crate) async fn no_sockets(&self) {
        loop {
            let closed = self.closed.notified();
            if self.lock().sockets.is_empty() {
                return;
            }
            closed.await;
        }
    }

    /// Passes a call to its agent. Returns the answer, `{"result"}` or `{"error"}`; `None` without an answer.
    pub(crate) async fn call(self: &Arc<Self>, method: &str, mut params: Value) -> Option<Value> {
        let route = Route::parse(method)?;
        if route.name == "list" {
            let items: Vec<Value> = self
                .sessions
                .all()
                .iter()
                .map(|(id, work_dir, title)| listed(id, work_dir, title.as_deref(), "", now()))
                .collect();
            return Some(json!({"result": {"items": items, "has_more": false}}));
        }
        let Some(agent) = self.agent_for(&route) else {
            let message = format!("session {} does not exist", route.session);
            return Some(json!({"error": {"code": 40401, "message": message}}));
        };
        self.fill_files(&mut params);
        let (sender, answer) = oneshot::channel();
        {
            let mut inner = self.lock();
            inner.calls_so_far += 1;
            let number = inner.calls_so_far;
            inner.calls.insert(number, sender);
            if route.resumes() {
                inner.feeds.entry(route.session.to_owned()).or_default().live = true;
            }
            let line = json!({"id": number, "method": method, "params": params}).to_string();
            // An agent that has exited does not answer.
            inner.agents.get(agent - 1)?.send(line.into_bytes()).ok()?;
        }
        let answer = answer.await.ok()?;
        if let ("new", Some(id)) = (route.name, answer["result"]["id"].as_str()) {
            self.lock().feeds.entry(id.to_owned()).or_default().live = true;
        }
        Some(answer)
    }

    /// Ends the wait for an answer to be written.
    pub(crate) fn written(&self) {
        let mut inner = self.lock();
        inner.writing = inner.writing.saturating_sub(1);
    }

    /// Stores an uploaded file. Returns its id.
    pub(crate) fn keep_file(&self, media_type: &str, data: &str) -> String {
        let id = format!("f_{}", uuid::Uuid::new_v4());
        self.lock().files.insert(id.clone(), json!({"kind": "base64", "media_type": media_type, "data": data}));
        id
    }

    /// Replaces the ids of uploaded files by their content.
    fn fill_files(&self, params: &mut Value) {
        let Some(blocks) = params.get_mut("content").and_then(Value::as_array_mut) else { return };
        for source in blocks.iter_mut().filter_map(|block| block.get_mut("source")) {
            let file = source["file_id"].as_str().and_then(|id| self.lock().files.get(id).cloned());
            if let Some(file) = file {
                *source = file;
            }
        }
    }

    /// Returns the number of the agent for a call. Starts an agent for a session without one.
    fn agent_for(self: &Arc<Self>, route: &Route<'_>) -> Option<usize> {
        if route.name == "new" {
            return Some(self.start());
        }
        let known = self.sessions.agent(route.session);
        if known.is_none() && !self.is_stored(route.session) {
            return None;
        }
        if route.name == "fork" {
            return Some(self.start());
        }
        if let Some(Some(agent)) = known {
            return Some(agent);
        }
        if let Some(agent) = self.lock().opening.get(route.session) {
            return Some(*agent);
        }
        let agent = self.start();
        self.lock().opening.insert(route.session.to_owned(), agent);
        Some(agent)
    }

    fn is_stored(&self, session: &str) -> bool {
        let Some(file) = &self.script.session_file else { return false };
        let stored = std::fs::read_to_string(file).unwrap_or_default();
        let of = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line["session"] == session);
        stored.lines().any(of)
    }

    fn start(self: &Arc<Self>) -> usize {
        let (sender, lines) = channel();
        let number = {
            let mut inner = self.lock();
            inner.agents.push(sender);
            inner.agents.len()
        };
        let hub = self.clone();
        thread::spawn(move || {
            let output = Pen { hub: hub.clone(), agent: number, rest: Vec::new() };
            let mut agent = Agent::new(&hub.script, hub.options.clone(), Io::with(lines, Box::new(output)));
            agent.server.web.join(hub.sessions.clone(), number, hub.script.web.late.clone());
            agent.share_cut(hub.cut.clone());
            if let Some(code) = agent.run(&[], hub.script.turns.clone()) {
                process::exit(code);
            }
        });
        number
    }

    /// Adds a socket. Returns its number, and the channel that says how it breaks.
    pub(crate) fn join(
        &self,
        queue: UnboundedSender<Out>,
        stream: TcpStream,
    ) -> (u64, watch::Receiver<Option<SocketBreak>>) {
        let mut inner = self.lock();
        inner.sockets_so_far += 1;
        let number = inner.sockets_so_far;
        let (broken, breaks) = watch::channel(None);
        inner.sockets.push(Socket { number, queue, stream, broken, has_ponged: false, subscribed: HashSet::new() });
        (number, breaks)
    }

    /// The client has answered a ping on this socket.
    pub(crate) fn ponged(&self, number: u64) {
        if let Some(socket) = self.lock().sockets.iter_mut().find(|socket| socket.number == number) {
            socket.has_ponged = true;
        }
    }

    pub(crate) fn leave(&self, number: u64) {
        self.lock().sockets.retain(|socket| socket.number != number);
        self.closed.notify_waiters();
    }

    /// Subscribes a socket: queues the events that it has missed, and returns the acknowledgement's payload. A socket that
    /// was broken meanwhile has none.
    pub(crate) fn subscribe(&self, number: u64, payload: &Value) -> Option<Value> {
        let mut inner = self.lock();
        let Inner { sockets, feeds, .. } = &mut *inner;
        let socket = sockets.iter_mut().find(|socket| socket.number == number)?;
        let mut said = json!({"accepted": [], "not_found": [], "resync_required": [], "cursors": {}});
        let mut note = |list: &str, id: &str| {
            if let Some(list) = said[list].as_array_mut() {
                list.push(json!(id));
            }
        };
        let mut cursors = json!({});
        for id in payload["session_ids"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let Some(feed) = feeds.get(id).filter(|feed| feed.live) else {
                note("not_found", id);
                continue;
            };
            let cursor = &payload["cursors"][id];
            if let Some(seq) = cursor["seq"].as_u64() {
                let missed: Vec<&String> = feed.journal.iter().filter(|it| it.0 > seq).map(|it| &it.1).collect();
                let other = cursor["epoch"].as_str().is_some_and(|epoch| epoch != feed.epoch);
                if missed.len() > MOST_REPLAYED || other || seq > feed.seq {
                    note("resync_required", id);
                } else {
                    for frame in missed {
                        let _ = socket.queue.send(Out::Text(frame.clone()));
                    }
                }
            }
            socket.subscribed.insert(id.to_owned());
            note("accepted", id);
            cursors[id] = json!({"seq": feed.seq, "epoch": feed.epoch});
        }
        said["cursors"] = cursors;
        Some(said)
    }

    pub(crate) fn unsubscribe(&self, number: u64, payload: &Value) -> Value {
        let mut inner = self.lock();
        let socket = inner.sockets.iter_mut().find(|socket| socket.number == number);
        let ids = payload["session_ids"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(socket) = socket {
            ids.for_each(|id| _ = socket.subscribed.remove(id));
        }
        json!({"accepted": payload["session_ids"]})
    }

    /// Reads a line of an agent: an answer, a frame, or any text of the script.
    fn line(&self, agent: usize, line: &[u8]) {
        let mut inner = self.lock();
        let Ok(text) = std::str::from_utf8(line) else {
            let frame = socket_frame(line, line.len());
            return inner.tell(agent, |_| true, || Out::Raw(frame.clone()));
        };
        let head = serde_json::from_str::<Head<'_>>(text).ok();
        if let Some(Head { jsonrpc: Some(_), id: Some(id), .. }) = head
            && let Some(call) = inner.calls.remove(&id)
        {
            inner.writing += 1;
            if call.send(serde_json::from_str(text).unwrap_or_default()).is_err() {
                inner.writing -= 1;
            }
            return;
        }
        let Some(Head { kind: Some(kind), seq: Some(seq), session_id: Some(id), epoch: Some(epoch), volatile, .. }) =
            head
        else {
            return inner.tell(agent, |_| true, || Out::Text(text.to_owned()));
        };
        let feed = inner.feeds.entry(id.clone().into_owned()).or_default();
        feed.agent = agent;
        if feed.epoch != epoch {
            *feed = Feed { agent, live: feed.live, epoch: epoch.into_owned(), ..Feed::default() };
        }
        if !volatile {
            feed.seq = seq;
            feed.journal.push((seq, text.to_owned()));
        }
        let to_all = kind == "event.session.created";
        inner.tell(agent, |socket| to_all || socket.subscribed.contains(&*id), || Out::Text(text.to_owned()));
    }

    fn settle(&self) {
        let (sender, settled) = sync_channel(64);
        let mut waiting = 0;
        for socket in &self.lock().sockets {
            waiting += usize::from(socket.queue.send(Out::Settled(sender.clone())).is_ok());
        }
        drop(sender);
        for _ in 0..waiting {
            if settled.recv_timeout(SETTLE).is_err() {
                break;
            }
        }
        let until = std::time::Instant::now() + SETTLE;
        while self.lock().writing > 0 && std::time::Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        // The connection's own task is done with its answer when another one runs.
        let (sender, settled) = sync_channel(1);
        self.runtime.spawn(async move { sender.send(()) });
        let _ = settled.recv_timeout(SETTLE);
    }
}

impl Inner {
    /// Queues an output for the sockets of a session that `wanted` selects.
    fn tell(&self, agent: usize, wanted: impl Fn(&Socket) -> bool, out: impl Fn() -> Out) {
        let hears = |socket: &&Socket| {
            let of_agent = |id: &String| self.feeds.get(id).is_some_and(|feed| feed.agent == agent);
            wanted(socket) && (socket.subscribed.is_empty() || socket.subscribed.iter().any(of_agent))
        };
        for socket in self.sockets.iter().filter(hears) {
            let _ = socket.queue.send(out());
        }
    }
}

/// Makes a text frame that announces this length, with fewer bytes of text.
fn socket_frame(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut frame = vec![0x81];
    match length {
        0..126 => frame.push(length as u8),
        126..65_536 => {
            frame.push(126);
            frame.extend((length as u16).to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(bytes);
    frame
}

/// The output of an agent. It passes whole lines to the hub.
struct Pen {
    hub: Arc<Hub>,
    agent: usize,
    rest: Vec<u8>,
}

impl Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(bytes.len()) };
        let rest = self.rest.split_off(end + 1);
        for line in self.rest[..end].split(|byte| *byte == b'\n') {
            self.hub.line(self.agent, line);
        }
        self.rest = rest;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Pen {
    /// A line without an end becomes the first half of a frame.
    fn settle(&mut self) {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            let frame = socket_frame(&rest, rest.len() * 2);
            self.hub.lock().tell(self.agent, |_| true, || Out::Raw(frame.clone()));
        }
        self.hub.settle();
    }

    fn break_sockets(&mut self, how: SocketBreak) -> bool {
        // Under one lock: a client that connects again meanwhile gets a new socket, which stays. The broken sockets get
        // nothing more, although their tasks have not ended yet.
        let mut inner = self.hub.lock();
        // A client waits for heartbeats only after the first heartbeat.
        if how == SocketBreak::Silence && !inner.sockets.iter().all(|socket| socket.has_ponged) {
            return false;
        }
        for socket in inner.sockets.drain(..) {
            let _ = socket.broken.send(Some(how));
            if how == SocketBreak::Cut {
                let _ = socket.stream.shutdown(std::net::Shutdown::Both);
            }
        }
        drop(inner);
        self.hub.closed.notify_waiters();
        true
    }

    fn is_heard(&self) -> bool {
        let inner = self.hub.lock();
        let of_agent = |id: &String| inner.feeds.get(id).is_some_and(|feed| feed.agent == self.agent);
        inner.sockets.iter().any(|socket| socket.subscribed.iter().any(of_agent))
    }
}
