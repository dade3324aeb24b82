//! Several sessions of one agent: over one process where the agent speaks ACP, over one each where it speaks Wire.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use kimi_agent::testing::scripted_agent;
use kimi_agent::{Agent, Approval, Dialect, Error, Session, SessionOptions, SessionState};
use serde_json::json;
use tokio::sync::Notify;

/// An agent with as many sessions as are wanted, `s1`, `s2`, …; what a prompt says decides what becomes of it. Each start
/// and each `session/close` leaves a line in `$NOTES`.
const SHELL: &str = r#"#!/bin/sh
echo start >> "$NOTES"
n=0
result() { echo '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
ends() { result "$1" '{"stopReason":"'"$2"'"}'; }
text() {
    echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'"$1"'","update":{"sessionUpdate":'\
'"agent_message_chunk","content":{"type":"text","text":"'"$2"'"}}}}'
}
# So many texts of 64 KiB.
pours() {
    big=$(printf '%065536d' 0); i=0
    while [ $i -lt "$2" ]; do text "$1" "$big"; i=$((i + 1)); done
}
while read -r line; do
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    session=${line#*\"sessionId\":\"}; session=${session%%\"*}
    case "$line" in
    *'"initialize"'*) result "$id" '{"protocolVersion":1,"agentInfo":{"name":"shell","version":"1"},"agentCapabilities":'\
'{"sessionCapabilities":{"list":{},"resume":{},"fork":{},"close":{}}}}';;
    *'"session/new"'* | *'"session/fork"'*) n=$((n + 1)); result "$id" '{"sessionId":"s'"$n"'"}';;
    *'"session/resume"'*) result "$id" '{}';;
    *'"session/list"'*) result "$id" '{"sessions":[{"sessionId":"old","cwd":"/srv","title":"An old one"}]}';;
    *'"session/close"'*) echo "close $session" >> "$NOTES"; result "$id" '{}';;
    *'"session/cancel"'*) eval "ends \$open_$session cancelled";;
    *'"session/prompt"'*)
        eval "open_$session=$id"
        case "$line" in
        *hang*) ;;
        *odd*) echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'"$session"'","update":'\
'{"sessionUpdate":"odd"}}}'; ends "$id" end_turn;;
        *spill*) pours "$session" 32; ends "$id" end_turn;;
        *flood*) pours "$session" 320; ends "$id" end_turn;;
        *die*) echo 'out of luck' >&2; exit 7;;
        *ask*) echo '{"jsonrpc":"2.0","id":"ask-'"$session"'","method":"session/request_permission","params":{"sessionId":"'\
"$session"'","toolCall":{"toolCallId":"t","title":"Bash"},"options":[{"optionId":"yes","name":"Yes",'\
'"kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}';;
        *) text "$session" "I am $session"; ends "$id" end_turn;;
        esac;;
    *'"outcome"'*)
        session=${line#*ask-}; session=${session%%\"*}
        case "$line" in *yes*) text "$session" allowed;; *) text "$session" rejected;; esac
        eval "ends \$open_$session end_turn";;
    esac
done
"#;

struct Shell {
    dir: tempfile::TempDir,
    agent: Agent,
}

impl Shell {
    fn open() -> Self {
        Self::with_script(SHELL)
    }

    fn with_script(script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let program = dir.path().join("agent");
        std::fs::write(&program, script).expect("a script");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("a program");
        let words = [Path::new("/bin/sh"), &program];
        let agent = Agent::builder().executable(words).dialect(Dialect::Acp).env([("NOTES", dir.path().join("notes"))]);
        Self { agent: agent.open().expect("an agent"), dir }
    }

    async fn session(&self) -> Session {
        self.agent.create_session(SessionOptions::new()).await.expect("a session")
    }

    fn notes(&self) -> Vec<String> {
        let notes = std::fs::read_to_string(self.dir.path().join("notes")).unwrap_or_default();
        notes.lines().map(str::to_owned).collect()
    }
}

async fn says(session: &Session, text: &str) -> String {
    session.prompt(text).expect("a turn").result().await.expect("an end").text
}

#[tokio::test]
async fn sessions_share_only_process() {
    let shell = Shell::open();
    let (first, second) = tokio::join!(shell.session(), shell.session());
    assert_eq!(first.pid(), second.pid());
    let mut ids = [first.id(), second.id()];
    ids.sort_unstable();
    assert_eq!((ids, shell.notes()), (["s1", "s2"], vec!["start".to_owned()]));
    let mut hanging = first.prompt("hang").expect("a turn");
    for _ in 0..3 {
        assert_eq!(says(&second, "who").await, format!("I am {}", second.id()));
    }
    assert_eq!((first.state(), second.state()), (SessionState::Active, SessionState::Idle));
    hanging.cancel().await.expect("an answer");
    assert_eq!(hanging.result().await.expect("an end").status.as_str(), "cancelled");
    assert_eq!(says(&first, "who").await, format!("I am {}", first.id()));
    shell.agent.close().await.expect("an end");
}

#[tokio::test]
async fn session_opened_during_close_opens_at_once() {
    // Without `session/close` a session leaves in the same moment in which it is closed.
    let shell = Shell::with_script(&SHELL.replace(r#","close":{}"#, ""));
    let first = shell.session().await;
    let (closed, second) = tokio::join!(first.close(), shell.session());
    closed.expect("an end");
    assert_eq!(says(&second, "who").await, "I am s2");
    shell.agent.close().await.expect("an end");
}

#[tokio::test]
async fn open_approval_blocks_its_own_session_only() {
    let shell = Shell::open();
    let (asked, decided) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (asks, decides) = (Arc::clone(&asked), Arc::clone(&decided));
    let options = SessionOptions::new().on_approval(move |_| {
        let (asks, decides) = (Arc::clone(&asks), Arc::clone(&decides));
        async move {
            asks.notify_one();
            decides.notified().await;
            Ok(Approval::Approve)
        }
    });
    let first = shell.agent.create_session(options).await.expect("a session");
    let second = shell.session().await;
    let mut asking = first.prompt("ask").expect("a turn");
    asked.notified().await;
    assert_eq!(says(&second, "who").await, "I am s2");
    // That session has no handler, so its request is rejected; the other session's is still open.
    assert_eq!(says(&second, "ask").await, "rejected");
    assert_eq!(first.state(), SessionState::Active);
    decided.notify_one();
    assert_eq!(asking.result().await.expect("an end").text, "allowed");
}

#[tokio::test]
async fn slow_session_blocks_no_other() {
    let shell = Shell::open();
    let (first, second) = (shell.session().await, shell.session().await);
    let mut unread = first.prompt("spill").expect("a turn");
    // The agent has said all of it before it says this.
    assert_eq!(says(&second, "who").await, "I am s2");
    let mut read = 0;
    while let Some(event) = unread.next().await {
        read += event.expect("an event").text().map_or(0, str::len);
    }
    assert_eq!(read, 32 << 16);
    assert_eq!(unread.result().await.expect("an end").status.as_str(), "finished");
}

#[tokio::test]
async fn session_with_too_much_unread_fails_alone() {
    let shell = Shell::open();
    let (first, second) = (shell.session().await, shell.session().await);
    let mut unread = first.prompt("flood").expect("a turn");
    assert_eq!(says(&second, "who").await, "I am s2");
    assert_eq!(unread.result().await.unwrap_err().code(), "event_buffer_full");
    first.close().await.expect("an end");
    assert_eq!(says(&second, "who").await, "I am s2");
    assert_eq!(shell.notes(), ["start", "close s1"]);
}

#[tokio::test]
async fn agent_death_fails_sessions_and_restarts() {
    let shell = Shell::open();
    let (first, second) = (shell.session().await, shell.session().await);
    let waiting = first.prompt("hang").expect("a turn");
    let dying = second.prompt("die").expect("a turn");
    for mut turn in [waiting, dying] {
        let Err(Error::AgentExited(exit)) = turn.result().await else { panic!("it lives") };
        assert_eq!((exit.exit_code, exit.stderr.trim()), (Some(7), "out of luck"));
    }
    assert_eq!(first.prompt("who").expect_err("it is gone").code(), "agent_exited");
    first.close().await.expect("an end");
    second.close().await.expect("an end");
    let third = shell.session().await;
    assert_eq!(says(&third, "who").await, "I am s1");
    assert_ne!(third.pid(), first.pid());
    assert_eq!(shell.notes(), ["start", "start"]);
}

#[tokio::test]
async fn agent_close_closes_remaining_sessions() {
    let shell = Shell::open();
    let (first, second) = (shell.session().await, shell.session().await);
    let mut running = second.prompt("hang").expect("a turn");
    let mut open = first.prompt("hang").expect("a turn");
    first.close().await.expect("an end");
    assert_eq!(open.result().await.expect("an end").status.as_str(), "cancelled");
    assert_eq!(shell.notes(), ["start", "close s1"]);
    assert_eq!((first.state(), second.state()), (SessionState::Closed, SessionState::Active));
    shell.agent.close().await.expect("an end");
    assert_eq!(running.result().await.expect("an end").status.as_str(), "cancelled");
    assert_eq!(second.state(), SessionState::Closed);
    let error = shell.agent.create_session(SessionOptions::new()).await.unwrap_err();
    assert_eq!(error.code(), "session_closed");
    shell.agent.close().await.expect("twice is fine");
}

#[tokio::test]
async fn closing_last_session_skips_session_close() {
    let shell = Shell::open();
    let program = shell.dir.path().join("agent");
    let options = SessionOptions::new().executable([Path::new("/bin/sh"), &program]).dialect(Dialect::Acp);
    let session = options.env([("NOTES", shell.dir.path().join("notes"))]).start().await.expect("a session");
    assert_eq!(says(&session, "who").await, "I am s1");
    session.close().await.expect("an end");
    assert_eq!(shell.notes(), ["start"]);
}

#[tokio::test]
async fn sessions_are_listed_resumed_and_forked() {
    let shell = Shell::open();
    let listed = shell.agent.list_sessions(None).await.expect("a list");
    let [old] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&*old.id, &*old.work_dir, old.title.as_deref()), ("old", Path::new("/srv"), Some("An old one")));
    let resumed = shell.agent.resume("old", SessionOptions::new()).await.expect("a session");
    assert_eq!((resumed.id(), says(&resumed, "who").await), ("old", "I am old".to_owned()));
    let error = shell.agent.resume("old", SessionOptions::new()).await.unwrap_err();
    assert!(error.to_string().contains("the session `old` is open already"), "{error}");
    let fork = shell.agent.fork("old", SessionOptions::new()).await.expect("a session");
    assert_eq!((fork.id(), says(&fork, "who").await), ("s1", "I am s1".to_owned()));
    assert_eq!(shell.notes(), ["start"]);
    let error = shell.agent.create_session(SessionOptions::new().env([("A", "b")])).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid option `env`: it is an option of the agent; pass it to `open_agent()`");
}

#[tokio::test]
async fn dropped_agent_closes_its_sessions() {
    let shell = Shell::open();
    let session = shell.session().await;
    let mut running = session.prompt("hang").expect("a turn");
    drop(shell.agent);
    assert_eq!(running.result().await.expect("an end").status.as_str(), "cancelled");
    session.close().await.expect("an end");
}

#[tokio::test]
async fn on_wire_each_session_has_process() {
    let executable = scripted_agent(json!([[{"text": "You said: {{prompt}}"}]]));
    let agent = Agent::builder().executable(&executable).open().expect("an agent");
    let open = || agent.create_session(SessionOptions::new());
    let (first, second) = (open().await.expect("a session"), open().await.expect("a session"));
    assert_ne!(first.pid(), second.pid());
    assert_eq!((says(&first, "a").await, says(&second, "b").await), ("You said: a".into(), "You said: b".into()));
    for error in
        [agent.list_sessions(None).await.unwrap_err(), agent.fork("a", SessionOptions::new()).await.unwrap_err()]
    {
        assert_eq!(error.code(), "unsupported", "{error}");
    }
    let resumed = agent.resume("nightly", SessionOptions::new()).await.expect("a session");
    assert_eq!(resumed.id(), "nightly");
    agent.close().await.expect("an end");
    let states = [&first, &second, &resumed].map(Session::state);
    assert_eq!(states, [SessionState::Closed; 3]);
}

/// Whether a record of logs is about an unknown event.
struct Find(bool);

impl tracing::field::Visit for Find {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 |= format!("{value:?}").contains("unknown event delivered");
    }
}

/// A subscriber of logs that panics for one record.
struct Panicking;

impl tracing::Subscriber for Panicking {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut find = Find(false);
        event.record(&mut find);
        assert!(!find.0, "on purpose");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn panic_ends_its_own_session_only() {
    let _subscriber = tracing::subscriber::set_default(Panicking);
    let shell = Shell::open();
    let (first, second) = (shell.session().await, shell.session().await);
    let mut waiting = second.prompt("ask").expect("a turn");
    let failed = first.prompt("odd").expect("a turn").result().await.expect_err("an error");
    assert_eq!((failed.code(), failed.to_string().contains("on purpose")), ("internal_error", true), "{failed}");
    assert_eq!(first.prompt("who").expect_err("closed").code(), "internal_error");
    assert_eq!(waiting.result().await.expect("an end").text, "rejected");
    let third = shell.session().await;
    assert_eq!((says(&second, "who").await.as_str(), says(&third, "who").await.as_str()), ("I am s2", "I am s3"));
    first.close().await.ok();
    shell.agent.close().await.expect("an end");
}

/// A subscriber of logs that counts the unknown events of its thread.
struct Counting(Arc<std::sync::atomic::AtomicUsize>);

impl tracing::Subscriber for Counting {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut find = Find(false);
        event.record(&mut find);
        self.0.fetch_add(usize::from(find.0), std::sync::atomic::Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn long_lines_are_taken_on_another_thread() {
    let here = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let _subscriber = tracing::subscriber::set_default(Counting(Arc::clone(&here)));
    let odd = |length: usize, kind: &str| {
        let params = json!({"type": kind, "payload": {"text": "x".repeat(length)}});
        json!({"raw": json!({"jsonrpc": "2.0", "method": "event", "params": params}).to_string()})
    };
    let turn = |first, second| json!([{"text": "a"}, first, {"text": "b"}, second, {"text": "c"}]);
    let script = json!([turn(odd(10, "Odd"), odd(10, "Odder")), turn(odd(100_000, "Oddest"), odd(1 << 20, "Last"))]);
    let executable = scripted_agent(script);
    let session = Session::builder().executable(&executable).start().await.expect("a session");
    let mut counts = Vec::new();
    for _ in 0..2 {
        let result = session.prompt("x").expect("a turn").result().await.expect("a result");
        assert_eq!(result.text, "abc");
        counts.push(here.swap(0, std::sync::atomic::Ordering::Relaxed));
    }
    assert_eq!(counts, [2, 0]);
    session.close().await.expect("an end");
}

#[tokio::test]
async fn line_of_many_values_ends_session() {
    let line = json!({"raw": {
        "before": "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"type\":\"Odd\",\"payload\":{\"list\":[",
        "repeat": "0,", "times": 1_100_000, "after": "0]}}}",
    }});
    let executable = scripted_agent(json!([[{"text": "So far"}, line, {"wait_cancel": true}]]));
    let session = Session::builder().executable(&executable).start().await.expect("a session");
    let failed = session.prompt("x").expect("a turn").result().await.expect_err("an error");
    assert_eq!(failed.code(), "protocol_error");
    assert!(failed.to_string().starts_with("the agent sent a line with more than 1048576 JSON values"), "{failed}");
    session.close().await.ok();
}

#[tokio::test]
async fn panic_of_only_session_ends_the_agent() {
    let _subscriber = tracing::subscriber::set_default(Panicking);
    let executable = scripted_agent(
        json!([[{"raw": "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"type\":\"Odd\",\"payload\":{}}}"}, {"wait_cancel": true}]]),
    );
    let session = Session::builder().executable(&executable).start().await.expect("a session");
    let failed = session.prompt("x").expect("a turn").result().await.expect_err("an error");
    assert_eq!(failed.code(), "internal_error");
    session.close().await.ok();
}
