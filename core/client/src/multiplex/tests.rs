use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream};

use super::{Handle, MAX_BEHIND, share};
use crate::error::Error;
use crate::transport::memory::{AgentEnd, ExitHandle, pair};
use crate::transport::{Exit, Process, Transport};

/// One side of a conversation in lines.
struct Side<R, W> {
    reader: BufReader<R>,
    writer: W,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Side<R, W> {
    async fn hears(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    async fn says(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.expect("somebody hears it");
    }

    async fn hears_the_end(&mut self) {
        let mut rest = String::new();
        self.reader.read_to_string(&mut rest).await.expect("an end");
        assert_eq!(rest, "");
    }
}

type Agent = Side<DuplexStream, DuplexStream>;
type Session = Side<Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>>;

fn agent() -> (Handle, Agent, ExitHandle) {
    let (transport, AgentEnd { reader, writer, exit }) = pair(4096);
    let (handle, task) = share(transport, std::time::Duration::from_secs(10));
    tokio::spawn(task.run());
    (handle, Side { reader: BufReader::new(reader), writer }, exit)
}

/// A session that is open under a name.
async fn open(handle: &Handle, agent: &mut Agent, name: &str) -> (Session, Box<dyn Process>) {
    let Transport { reader, writer, process } = handle.attach(1 << 20).expect("a process");
    let mut session = Side { reader: BufReader::new(reader), writer };
    session.says(&json!({"id": 0, "method": "initialize"})).await;
    if name == "a" {
        let id = agent.hears().await["id"].clone();
        let able = json!({"agentCapabilities": {"sessionCapabilities": {"close": {}}}});
        agent.says(&json!({"id": id, "result": able})).await;
    }
    assert_eq!(session.hears().await["id"], 0);
    session.says(&json!({"id": 1, "method": "session/new"})).await;
    let id = agent.hears().await["id"].clone();
    agent.says(&json!({"id": id, "result": {"sessionId": name}})).await;
    assert_eq!(session.hears().await["result"]["sessionId"], name);
    (session, process)
}

fn prompt(name: &str) -> Value {
    json!({"id": 2, "method": "session/prompt", "params": {"sessionId": name}})
}

fn update(name: &str, size: usize) -> Value {
    json!({"method": "session/update", "params": {"sessionId": name, "update": "x".repeat(size)}})
}

#[tokio::test]
async fn a_death_reaches_every_session_after_what_was_said() {
    let (handle, mut agent, exit) = agent();
    let (mut a, mut of_a) = open(&handle, &mut agent, "a").await;
    let (mut b, mut of_b) = open(&handle, &mut agent, "b").await;
    agent.says(&update("b", 3)).await;
    agent.writer.write_all(update("a", 5).to_string().as_bytes()).await.expect("a last line without its end");
    exit.stderr("it broke");
    exit.signal("SIGKILL");
    drop(agent);
    assert_eq!(a.hears().await, update("a", 5));
    assert_eq!(b.hears().await, update("b", 3));
    for (session, process) in [(&mut a, &mut of_a), (&mut b, &mut of_b)] {
        session.hears_the_end().await;
        assert_eq!(process.wait().await, Exit { signal: Some("SIGKILL".into()), ..Exit::default() });
        assert_eq!(process.stderr_tail(), "it broke");
        assert!(session.writer.write_all(b"{}\n").await.is_err());
    }
    handle.until_over().await.expect("ended");
    assert!(handle.is_over() && handle.attach(1 << 20).is_none());
}

#[tokio::test(start_paused = true)]
async fn exit_reaches_a_session_that_is_opening() {
    let (handle, agent, exit) = agent();
    let Transport { mut reader, writer, mut process } = handle.attach(1 << 20).expect("a process");
    // The agent's output ends before its exit is known, and the session hangs up meanwhile.
    drop(agent);
    assert_eq!(reader.read(&mut [0]).await.expect("an end"), 0);
    drop(writer);
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    exit.code(3);
    assert_eq!(process.wait().await.code, Some(3));
}

#[tokio::test]
async fn one_is_closed_while_another_goes_on_and_the_last_ends_the_process() {
    let (handle, mut agent, exit) = agent();
    let (a, mut of_a) = open(&handle, &mut agent, "a").await;
    let (mut b, mut of_b) = open(&handle, &mut agent, "b").await;
    b.says(&prompt("b")).await;
    let asked = agent.hears().await;
    drop(a.writer);
    let close = agent.hears().await;
    assert_eq!((&close["method"], &close["params"]["sessionId"]), (&json!("session/close"), &json!("a")));
    agent.says(&json!({"id": close["id"], "result": {}})).await;
    assert_eq!(of_a.wait().await, Exit::default());
    agent.says(&json!({"id": asked["id"], "result": {"stopReason": "end_turn"}})).await;
    assert_eq!(b.hears().await, json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}}));
    drop(handle);
    drop(b.writer);
    // Its input is closed, and it goes.
    agent.hears_the_end().await;
    exit.code(0);
    drop(agent);
    assert_eq!(of_b.wait().await.code, Some(0));
}

#[tokio::test]
async fn an_agent_without_sessions_ends_when_nobody_can_come() {
    let (handle, mut agent, exit) = agent();
    let (a, _) = open(&handle, &mut agent, "a").await;
    drop(a);
    let close = agent.hears().await;
    assert_eq!(close["method"], "session/close");
    handle.close(None);
    agent.hears_the_end().await;
    exit.code(0);
    drop(agent);
    handle.until_over().await.expect("ended");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stays_is_terminated_and_then_killed() {
    let (handle, agent, exit) = agent();
    let (a, mut of_a) = {
        let mut agent = agent;
        let opened = open(&handle, &mut agent, "a").await;
        std::mem::forget(agent);
        opened
    };
    drop(handle);
    drop(a.writer);
    exit.terminated().await;
    exit.obey();
    exit.killed().await;
    assert_eq!(of_a.wait().await.signal.as_deref(), Some("SIGKILL"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_was_asked_to_go_is_killed_at_once_where_the_host_ends() {
    let (handle, mut agent, exit) = agent();
    let (_a, _of_a) = open(&handle, &mut agent, "a").await;
    handle.close(None);
    // Once this one has left it is known that nobody comes.
    let (b, mut of_b) = open(&handle, &mut agent, "b").await;
    drop(b);
    of_b.wait().await;
    handle.commands().upgrade().expect("the process").send(super::Command::Kill).expect("it runs");
    // The clock goes on once nobody has anything left to do.
    tokio::time::timeout(std::time::Duration::from_millis(1), exit.killed()).await.expect("it hears of it");
}

#[tokio::test]
async fn a_session_that_does_not_read_holds_up_nobody_who_waits() {
    let (handle, mut agent, _exit) = agent();
    let (mut a, _of_a) = open(&handle, &mut agent, "a").await;
    let (mut b, _of_b) = open(&handle, &mut agent, "b").await;
    b.says(&prompt("b")).await;
    let asked = agent.hears().await;
    // Far more than the pipes hold, and nobody reads it yet.
    for _ in 0..64 {
        agent.says(&update("a", 64 << 10)).await;
    }
    agent.says(&json!({"id": asked["id"], "result": {}})).await;
    assert_eq!(b.hears().await["id"], 2);
    for _ in 0..64 {
        assert_eq!(a.hears().await, update("a", 64 << 10));
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_else_waits_the_agent_does() {
    let (handle, mut agent, _exit) = agent();
    let (mut a, _of_a) = open(&handle, &mut agent, "a").await;
    let (mut b, _of_b) = open(&handle, &mut agent, "b").await;
    let mut sent = 0;
    // The clock goes on once there is nothing left to do.
    while tokio::time::timeout(std::time::Duration::from_secs(60), agent.says(&update("a", 8 << 10))).await.is_ok() {
        sent += 1;
        assert!(sent < 64, "it is read without end");
    }
    // As soon as another waits, it is read again.
    b.says(&prompt("b")).await;
    assert_eq!(agent.hears().await["method"], "session/prompt");
    for _ in 0..sent {
        assert_eq!(a.hears().await, update("a", 8 << 10));
    }
}

#[tokio::test]
async fn a_session_that_lags_too_far_behind_is_given_up_alone() {
    let (handle, mut agent, _exit) = agent();
    let (a, mut of_a) = open(&handle, &mut agent, "a").await;
    let (mut b, _of_b) = open(&handle, &mut agent, "b").await;
    b.says(&prompt("b")).await;
    let asked = agent.hears().await;
    for _ in 0..=(MAX_BEHIND >> 19) {
        agent.says(&update("a", 1 << 19)).await;
    }
    assert_eq!(agent.hears().await["method"], "session/close");
    agent.says(&json!({"id": asked["id"], "result": {}})).await;
    assert_eq!(b.hears().await["id"], 2);
    let reason = of_a.wait().await.reason;
    assert!(matches!(reason.as_deref(), Some(Error::EventBufferFull(_))), "{reason:?}");
    drop(a);
}

#[tokio::test]
async fn a_line_that_is_longer_than_the_lag_allowed_is_read_like_others() {
    let (handle, mut agent, _exit) = agent();
    let (mut a, _of_a) = open(&handle, &mut agent, "a").await;
    let (mut b, _of_b) = open(&handle, &mut agent, "b").await;
    // The process takes lines as long as any of its sessions does.
    let _wide = handle.attach(2 * MAX_BEHIND).expect("a process");
    let (large, small) = (update("a", MAX_BEHIND + 1), update("a", 1));
    for others_wait in [false, true] {
        let mut asked = Value::Null;
        if others_wait {
            b.says(&prompt("b")).await;
            asked = agent.hears().await;
        }
        // What comes right behind it is there before anybody has had the time to read.
        agent.writer.write_all(format!("{large}\n{small}\n{small}\n").as_bytes()).await.unwrap();
        if others_wait {
            agent.says(&json!({"id": asked["id"], "result": {}})).await;
            assert_eq!(b.hears().await["id"], 2);
        }
        for line in [&large, &small, &small] {
            assert_eq!(a.hears().await, *line);
        }
    }
    a.says(&prompt("a")).await;
    assert_eq!(agent.hears().await["params"]["sessionId"], "a");
}

#[tokio::test]
async fn a_line_without_end_ends_them_all() {
    let (handle, mut agent, exit) = agent();
    let (_a, mut of_a) = open(&handle, &mut agent, "a").await;
    let (_b, mut of_b) = open(&handle, &mut agent, "b").await;
    exit.obey();
    tokio::spawn(async move { drop(agent.writer.write_all(&vec![b'x'; 2 << 20]).await) });
    for process in [&mut of_a, &mut of_b] {
        let reason = process.wait().await.reason;
        assert!(matches!(reason.as_deref(), Some(Error::Protocol(_))), "{reason:?}");
    }
    // Whoever has heard of it does not get into a process that is being ended.
    assert!(handle.attach(1 << 20).is_none());
    handle.until_over().await.expect("ended");
}
