//! Tests of child processes on Windows. Each child is this test program once more, with a role.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const ROLE: &str = "KIMI_AGENT_TEST_ROLE";
const ADDRESS: &str = "KIMI_AGENT_TEST_ADDRESS";
/// The beginning of each line that a child prints.
const REPORT: &str = "report: ";
/// The arguments of the test program that run [`role_is_played`]. All after these are the role's own.
const RUN_ROLE: [&str; 4] = ["--exact", "transport::child::tests::role_is_played", "--nocapture", "--"];
/// What `cmd` would act on, if it were not escaped.
const HOSTILE: [&str; 10] = [
    "plain",
    "",
    "two words",
    "a\" & echo x>planted & \"b",
    "& echo x>planted",
    "%PATH%",
    "%CANARY%^%",
    "!CANARY! ^& | < > ( )",
    "ends with \\",
    "ü 𝄞 \"quoted\"",
];

fn this() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn launch(role: &str, program: PathBuf, args: &[&str]) -> Launch {
    Launch {
        program,
        args: RUN_ROLE.iter().chain(args).map(OsString::from).collect(),
        env: vec![(ROLE.into(), role.into()), ("CANARY".into(), "first".into()), ("CANARY".into(), "last".into())],
        current_dir: std::env::temp_dir(),
        private: PrivateFiles::default(),
        server: None,
        is_gateway: false,
    }
}

/// A listener, and the launch of a child that connects to it.
async fn listening(role: &str) -> (TcpListener, Launch) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut launch = launch(role, this(), &[]);
    launch.env.push((ADDRESS.into(), listener.local_addr().unwrap().to_string().into()));
    (listener, launch)
}

/// Returns when the process at the other end has ended.
async fn ended(mut connection: TcpStream) {
    // A process that is killed may reset its connection.
    while connection.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
}

async fn report(agent: &mut Transport) -> Value {
    let mut lines = BufReader::with_capacity(1, &mut agent.reader).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some((_, report)) = line.split_once(REPORT) {
            return serde_json::from_str(report).unwrap();
        }
    }
    unreachable!("no report; stderr: {}", agent.process.stderr_tail())
}

/// A link to this program, and a batch file that starts it as the batch files of npm start `node`.
fn batch_file(dir: &Path) -> PathBuf {
    std::fs::hard_link(this(), dir.join("linked.exe")).unwrap();
    let path = dir.join("agent.cmd");
    std::fs::write(&path, "@ECHO off\r\nSETLOCAL\r\n\"%~dp0\\linked.exe\" %*\r\n").unwrap();
    path
}

/// Only for the other tests, which start it in a process of its own.
#[test]
#[expect(clippy::zombie_processes, reason = "a job ends what is left running")]
fn role_is_played() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let connect = || std::net::TcpStream::connect(std::env::var(ADDRESS).unwrap()).unwrap();
    let child = |role: &str| Command::new(this()).args(RUN_ROLE).env(ROLE, role).spawn().unwrap();
    match role.to_str().unwrap() {
        "reports" => {
            let args: Vec<String> = std::env::args().skip(1 + RUN_ROLE.len()).collect();
            let here = std::env::current_dir().unwrap();
            println!("{REPORT}{}", json!({"args": args, "here": here, "canary": std::env::var("CANARY").unwrap()}));
            std::io::stdin().read_line(&mut String::new()).unwrap();
            std::process::exit(3);
        }
        "waits" => drop(std::io::Read::read(&mut connect(), &mut [0])),
        "has_child" => {
            let _connection = connect();
            let mut child = child("waits");
            child.wait().unwrap();
        }
        "leaves_child" => {
            child("waits");
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        "is_host" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut agent = spawn(launch("has_child", this(), &[]), None).await.unwrap();
                agent.process.wait().await;
            });
        }
        role => unreachable!("{role}"),
    }
}

#[tokio::test]
async fn child_gets_arguments_environment_and_directory() {
    let dir = TempDir::new().unwrap();
    let here = dir.path().join("with space and ü");
    std::fs::create_dir(&here).unwrap();
    let program = here.join("the agent ü.exe");
    std::fs::hard_link(this(), &program).unwrap();
    let mut launch = launch("reports", program, &HOSTILE);
    launch.current_dir = here.clone();
    let mut agent = spawn(launch, None).await.unwrap();
    assert_eq!(report(&mut agent).await, json!({"args": HOSTILE, "here": here, "canary": "last"}));
    // Closing its input asks it to end.
    drop(agent.writer);
    assert_eq!(agent.process.wait().await, Exit { code: Some(3), ..Exit::default() });
    assert_eq!(agent.process.wait().await, Exit { code: Some(3), ..Exit::default() });
}

#[tokio::test]
async fn batch_file_passes_hostile_arguments_unchanged() {
    let dir = TempDir::new().unwrap();
    // The `cmd` of Wine expands variables in another order than that of Windows, for which the standard library escapes.
    let is_wine = Path::new(r"C:\windows\system32\winecfg.exe").exists();
    let args: Vec<&str> = HOSTILE.into_iter().filter(|arg| !(is_wine && arg.contains('%'))).collect();
    let mut launch = launch("reports", batch_file(dir.path()), &args);
    launch.current_dir = dir.path().to_owned();
    let mut agent = spawn(launch, None).await.unwrap();
    assert_eq!(report(&mut agent).await["args"], json!(args));
    assert!(!dir.path().join("planted").exists());
    drop(agent.writer);
    assert_eq!(agent.process.wait().await.code, Some(3));
}

#[tokio::test]
async fn batch_file_with_line_break_in_argument_is_refused() {
    let dir = TempDir::new().unwrap();
    let error = spawn(launch("reports", batch_file(dir.path()), &["a\r\nb"]), None).await.err().unwrap();
    assert_eq!(error.code(), "spawn_error");
    assert!(error.to_string().contains("agent.cmd: it is a batch file, and an argument cannot be passed"), "{error}");
}

#[tokio::test]
async fn program_that_cannot_be_started_is_explained() {
    let dir = TempDir::new().unwrap();
    let text = dir.path().join("text.exe");
    std::fs::write(&text, "no program").unwrap();
    for (program, reason) in [(dir.path().join("missing.exe"), "does not exist"), (text, "kind of machine")] {
        let error = spawn(launch("reports", program.clone(), &[]), None).await.err().unwrap().to_string();
        assert!(error.starts_with(&format!("can't start the agent {}: ", program.display())), "{error}");
        assert!(error.contains(reason), "{error}");
    }
    let mut launch = launch("reports", this(), &[]);
    launch.current_dir = dir.path().join("nowhere");
    let error = spawn(launch, None).await.err().unwrap().to_string();
    assert!(error.contains("its working directory") && error.contains("does not exist"), "{error}");
}

#[test]
fn path_too_long_for_windows_is_explained() {
    let dir = TempDir::new().unwrap();
    let long = dir.path().join("a".repeat(150)).join("b".repeat(150));
    std::fs::create_dir_all(&long).unwrap();
    let length = long.as_os_str().len();
    let mut launch = launch("reports", this(), &[]);
    launch.current_dir = long;
    let refused = std::io::Error::from_raw_os_error(267);
    let error = failure::describe(&launch, &refused).to_string();
    let expected = format!("the path of its working directory has {length} characters, and Windows starts programs");
    assert!(error.contains(&expected), "{error}");
}

#[tokio::test]
async fn kill_and_drop_reach_descendants() {
    for drops in [false, true] {
        let (listener, launch) = listening("has_child").await;
        let mut agent = spawn(launch, None).await.unwrap();
        let connections = [listener.accept().await.unwrap().0, listener.accept().await.unwrap().0];
        if drops {
            drop(agent);
        } else {
            agent.process.kill();
            assert_eq!(agent.process.wait().await.code, Some(1));
        }
        for connection in connections {
            ended(connection).await;
        }
    }
}

#[tokio::test]
async fn descendants_end_with_the_agent() {
    let (listener, launch) = listening("leaves_child").await;
    let mut agent = spawn(launch, None).await.unwrap();
    let (connection, _) = listener.accept().await.unwrap();
    drop(agent.writer);
    assert_eq!(agent.process.wait().await.code, Some(0));
    ended(connection).await;
}

#[tokio::test]
async fn agents_end_with_a_killed_host() {
    let (listener, launch) = listening("is_host").await;
    let mut host = Command::new(this()).args(RUN_ROLE).envs(launch.env.clone()).spawn().unwrap();
    let connections = [listener.accept().await.unwrap().0, listener.accept().await.unwrap().0];
    host.kill().unwrap();
    host.wait().unwrap();
    for connection in connections {
        ended(connection).await;
    }
}

#[tokio::test]
async fn waiting_can_be_given_up_and_taken_up_again() {
    let mut agent = spawn(launch("reports", this(), &[]), None).await.unwrap();
    report(&mut agent).await;
    tokio::select! {
        biased;
        _ = agent.process.wait() => unreachable!("its input is open"),
        () = std::future::ready(()) => {}
    }
    drop(agent.writer);
    assert_eq!(agent.process.wait().await.code, Some(3));
}
