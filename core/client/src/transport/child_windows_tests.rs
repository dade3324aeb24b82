//! Tests of child processes on Windows. Each child is this test program once more, with a role.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use windows::Win32::System::Console::{
    CTRL_C_EVENT, GenerateConsoleCtrlEvent, GetConsoleProcessList, GetConsoleWindow,
};
use windows::Win32::System::Threading::CREATE_NEW_CONSOLE;

use super::*;
use crate::options::Inherited;

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

/// Wine's consoles, and its `cmd`, differ from those of Windows.
fn is_wine() -> bool {
    Path::new(r"C:\windows\system32\winecfg.exe").exists()
}

fn this() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn launch(role: &str, program: PathBuf, args: &[&str]) -> Launch {
    Launch {
        program,
        args: RUN_ROLE.iter().chain(args).map(OsString::from).collect(),
        env: vec![(ROLE.into(), role.into()), ("CANARY".into(), "first".into()), ("CANARY".into(), "last".into())],
        inherited: Inherited::default(),
        current_dir: std::env::temp_dir(),
        private: PrivateFiles::default(),
        server: None,
        is_gateway: false,
        placed: Default::default(),
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
        "reports_console" => {
            println!("{REPORT}{}", json!(console_of(std::process::id())));
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        "reports_program" => println!("{REPORT}{}", json!(this())),
        "writes_lines" => std::io::Write::write_all(&mut std::io::stdout(), b"\none\r\ntwo\nthree\r\n").unwrap(),
        "gets_ctrl_c" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            println!("{REPORT}{}", json!(runtime.block_on(interrupt_agent_and_other())));
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

/// Whether this process has a console window, and whether no process but that of this id uses its console.
fn console_of(pid: u32) -> (bool, bool) {
    let mut pids = [0; 16];
    // SAFETY: the list is as long as its slice says.
    let (window, count) = unsafe { (GetConsoleWindow(), GetConsoleProcessList(&mut pids)) };
    (!window.is_invalid(), count == 1 && pids[0] == pid)
}

/// Starts an agent, and another process as a program would, and presses Ctrl-C in their console. Returns whether the agent
/// ended as it does by itself, and whether the other process did.
async fn interrupt_agent_and_other() -> (bool, bool) {
    let mut agent = spawn(launch("reports", this(), &[]), None).await.unwrap();
    report(&mut agent).await;
    let mut other = Command::new(this());
    other.args(RUN_ROLE).env(ROLE, "reports").env("CANARY", "").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut other = other.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(other.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains(REPORT)));
    let mut pressed = tokio::signal::windows::ctrl_c().unwrap();
    // SAFETY: the call has no pointers.
    unsafe { GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0) }.unwrap();
    pressed.recv().await.unwrap();
    // It either has ended, or ends now.
    let code = other.wait().unwrap().code();
    drop(agent.writer);
    (agent.process.wait().await.code == Some(3), code == Some(3))
}

#[tokio::test]
async fn agent_and_helper_get_no_console_window() {
    let mut agent = spawn(launch("reports_console", this(), &[]), None).await.unwrap();
    let mut helper = super::super::helper(this());
    helper.args(RUN_ROLE).env(ROLE, "reports_console").stdin(Stdio::null());
    let output = String::from_utf8(helper.output().unwrap().stdout).unwrap();
    let line = output.lines().find_map(|line| line.split_once(REPORT)).unwrap().1;
    assert_eq!((report(&mut agent).await, line), (json!([false, true]), "[false,true]"));
}

#[tokio::test]
async fn ctrl_c_does_not_reach_agent() {
    // A console of its own, so that this Ctrl-C does not end the tests.
    let mut host = Command::new(this());
    std::os::windows::process::CommandExt::creation_flags(&mut host, CREATE_NEW_CONSOLE.0);
    let output = host.args(RUN_ROLE).env(ROLE, "gets_ctrl_c").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("{REPORT}[true,false]")), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// A batch file of npm starts `node` by its name. A program of that name in the working directory must not run.
///
/// Only on Windows: the `cmd` of Wine 8 ignores the variable.
#[tokio::test]
async fn batch_file_ignores_programs_of_working_directory() {
    if is_wine() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let [installed, here] = ["installed", "here"].map(|name| dir.path().join(name));
    for folder in [&installed, &here] {
        std::fs::create_dir(folder).unwrap();
        std::fs::hard_link(this(), folder.join("node.exe")).unwrap();
    }
    std::fs::write(here.join("node.cmd"), "@echo report: \"planted\"\r\n").unwrap();
    let batch = dir.path().join("agent.cmd");
    std::fs::write(&batch, "@node %*\r\n").unwrap();
    let mut launch = launch("reports_program", batch, &[]);
    launch.env.push(("PATH".into(), installed.clone().into()));
    launch.current_dir = here;
    let mut agent = spawn(launch, None).await.unwrap();
    assert_eq!(report(&mut agent).await, json!(installed.join("node.exe")));
}

/// Windows changes no line end in a pipe: the protocol sees the bytes of the agent, of which some write `\r\n`.
#[tokio::test]
async fn line_ends_of_agent_are_not_changed() {
    let mut agent = spawn(launch("writes_lines", this(), &[]), None).await.unwrap();
    let mut bytes = Vec::new();
    agent.reader.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\none\r\ntwo\nthree\r\n"), "{text:?}");
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
    let args: Vec<&str> = HOSTILE.into_iter().filter(|arg| !(is_wine() && arg.contains('%'))).collect();
    let folder = dir.path().join("with space & ü (x86)");
    std::fs::create_dir(&folder).unwrap();
    let mut launch = launch("reports", batch_file(&folder), &args);
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
