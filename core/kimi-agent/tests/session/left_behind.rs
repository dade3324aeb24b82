//! Nothing of an agent survives its program, however the program ends: neither the agent nor a process that it has started.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kimi_agent::testing::scripted_agent;
use kimi_agent::{Dialect, SessionOptions};
use rustix::fs::{Mode, OFlags};
use serde_json::json;

/// A group that is not ended would hold the test for ever. Servers get up to 9 seconds; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// The process that the agent starts: it stays in the group, and only KILL ends it. Both hold the FIFO open.
const BEFORE: &str = r#"exec 9>"$FIFO"; (trap '' HUP INT TERM; exec sleep 100000) </dev/null >/dev/null 2>&1 & "#;

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    Dropped,
    /// The agent is refused, and ignores the end of its input.
    FailedStart,
    /// The agent does not answer, and the future of the start was dropped.
    DroppedStart,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Return,
    Exit,
    Panic,
    Abort,
    Term,
    Kill,
}

const STATES: [State; 4] = [State::Open, State::Dropped, State::FailedStart, State::DroppedStart];
const ENDS: [End; 6] = [End::Return, End::Exit, End::Panic, End::Abort, End::Term, End::Kill];

fn dialect(name: &str) -> Dialect {
    match name {
        "acp" => Dialect::Acp,
        "kimi-web" => Dialect::KimiWeb,
        _ => Dialect::Auto,
    }
}

/// Not a test of its own: the program whose end is tried.
#[test]
#[ignore = "started by the tests below"]
fn program() {
    let Ok(case) = std::env::var("KIMI_AGENT_TEST_CASE") else { return };
    let case: Vec<&str> = case.split(' ').collect();
    let [name, state, end] = case[..] else { panic!("{case:?}") };
    let state = STATES.into_iter().find(|known| format!("{known:?}") == state).unwrap();
    let end = ENDS.into_iter().find(|known| format!("{known:?}") == end).unwrap();
    let protocol = if name == "wire" { "1.10" } else { name };
    let agent = scripted_agent(json!({"wire": protocol, "turns": [[{"text": "fine"}]]}));
    // A refused start fails when the FIFO is open: by a line that is too long, or by a port on which nobody listens.
    let refused =
        if name == "kimi-web" { "echo '  Local: http://127.0.0.1:1/#token=x';" } else { "printf '%070000d' 0;" };
    let stays = "while :; do sleep 100000; done";
    let script = match state {
        State::Open | State::Dropped => r#"exec "$@""#.to_owned(),
        State::FailedStart => format!("{refused} {stays}"),
        State::DroppedStart => stays.to_owned(),
    };
    let mut command: Vec<OsString> =
        vec!["/bin/sh".into(), "-c".into(), format!("{BEFORE}{script}").into(), "sh".into()];
    command.extend(Vec::from(&agent));
    let options = SessionOptions::new().executable(command).dialect(dialect(name)).max_line_bytes(65_536);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _session = runtime.block_on(async {
        if matches!(state, State::DroppedStart) {
            let start = options.start();
            // The agent is certainly there when the FIFO has a writer.
            let opened =
                tokio::task::spawn_blocking(|| std::fs::File::open(std::env::var_os("FIFO").unwrap()).unwrap());
            tokio::select! {
                _ = start => unreachable!("the agent says nothing"),
                _ = opened => None,
            }
        } else {
            options.start().await.ok().filter(|_| matches!(state, State::Open))
        }
    });
    assert_eq!(_session.is_some(), matches!(state, State::Open));
    match end {
        End::Return => {}
        End::Exit => std::process::exit(0),
        End::Panic => panic!("on purpose"),
        End::Abort => std::process::abort(),
        End::Term => rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap(),
        End::Kill => rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap(),
    }
}

fn fifo(folder: &Path) -> PathBuf {
    let path = folder.join("alive");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    path
}

fn leaves_nothing(name: &'static str) {
    for state in STATES {
        let tries = ENDS.map(|end| std::thread::spawn(move || (end, program_ends(name, state, end))));
        for ended in tries {
            let (end, ended) = ended.join().unwrap();
            ended.unwrap_or_else(|reason| panic!("{name}, {state:?}, {end:?}: {reason}"));
        }
    }
}

/// Runs the program, and waits until nobody holds the FIFO.
fn program_ends(name: &str, state: State, end: End) -> Result<(), String> {
    let folder = tempfile::TempDir::new().unwrap();
    let fifo = fifo(folder.path());
    // Before the first writer comes, which may be gone before a thread of this process runs.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut alive = std::fs::File::from(rustix::fs::open(&fifo, flags, Mode::empty()).unwrap());
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "left_behind::program", "--include-ignored", "--nocapture"]);
    program.env("KIMI_AGENT_TEST_CASE", format!("{name} {state:?} {end:?}"));
    program.env("FIFO", &fifo).env("TMPDIR", folder.path());
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut program = program.spawn().unwrap();
    let status = program.wait().unwrap();
    let expected = match end {
        End::Return | End::Exit => status.code() == Some(0),
        End::Panic => status.code() == Some(101),
        End::Abort => status.signal() == Some(6),
        End::Term => status.signal() == Some(15),
        End::Kill => status.signal() == Some(9),
    };
    if !expected {
        return Err(format!("the program ended with {status}"));
    }
    let (ended, end_seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // It blocks as long as there is a writer.
        let blocks = rustix::fs::fcntl_setfl(&alive, OFlags::empty()).is_ok();
        ended.send(blocks && alive.read_to_end(&mut Vec::new()).is_ok()).ok();
    });
    match end_seen.recv_timeout(PATIENCE) {
        Ok(true) => Ok(()),
        _ => Err("a process of the agent's group is left".to_owned()),
    }
}

#[test]
fn wire_agent_and_its_children_end_with_program() {
    leaves_nothing("wire");
}

#[test]
fn acp_agent_and_its_children_end_with_program() {
    leaves_nothing("acp");
}

#[cfg(feature = "kimi-web")]
#[test]
fn server_and_its_children_end_with_program() {
    leaves_nothing("kimi-web");
}

/// An agent whose start has failed does not get the 10 seconds of `close_timeout`: attempts would pile agents up.
#[tokio::test]
async fn failed_start_ends_stubborn_agent_without_close_timeout() {
    for name in ["wire", "acp"] {
        let folder = tempfile::TempDir::new().unwrap();
        let fifo = fifo(folder.path());
        let script = r#"exec 9>"$FIFO"; read -r line; id=$(printf %s "$line" | sed -E 's/.*"id":("[^"]*"|[0-9]+).*/\1/'); \
            echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32603,"message":"no"}}'; while :; do sleep 100000 & wait $!; done"#;
        let options = SessionOptions::new()
            .executable(["/bin/sh", "-c", script])
            .env([("FIFO", &fifo)])
            .dialect(dialect(name))
            // The test would not end within its patience.
            .close_timeout(Duration::from_secs(100_000));
        let alive = tokio::task::spawn_blocking(move || {
            std::fs::File::open(fifo).and_then(|mut alive| alive.read_to_end(&mut Vec::new())).unwrap()
        });
        options.start().await.unwrap_err();
        tokio::time::timeout(PATIENCE, alive).await.expect("the agent has ended").unwrap();
    }
}
