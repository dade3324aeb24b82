use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::process::Pid;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};

use super::*;
use crate::SessionOptions;
use crate::options::Inherited;

fn launch(program: impl Into<PathBuf>, args: &[&str]) -> Launch {
    Launch {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        env: Vec::new(),
        inherited: Inherited::default(),
        current_dir: std::env::temp_dir(),
        private: PrivateFiles::default(),
        server: None,
        is_gateway: false,
        placed: Default::default(),
    }
}

async fn sh(script: &str) -> Transport {
    spawn(launch("/bin/sh", &["-c", script]), None).await.unwrap()
}

async fn refused(launch: Launch) -> String {
    let error = spawn(launch, None).await.err().unwrap();
    assert_eq!(error.code(), "spawn_error");
    error.to_string()
}

async fn line(reader: &mut (impl AsyncRead + Unpin)) -> String {
    let mut line = String::new();
    BufReader::with_capacity(1, reader).read_line(&mut line).await.unwrap();
    line.trim_end().to_owned()
}

/// Writes a program. On the spawner thread: were another test's child forked meanwhile, it would hold the file open
/// for writing, and so nobody could run it.
async fn program(dir: &TempDir, content: &'static [u8], mode: u32) -> PathBuf {
    let path = dir.path().join("program");
    let file = path.clone();
    let write = move || {
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    spawner::run(write).await.unwrap().unwrap();
    path
}

/// Returns when the child has been reaped, and hangs if it never is.
fn await_reaped(pid: u32) {
    loop {
        // SAFETY: zeros are a valid `siginfo_t`.
        let result = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT)
        };
        if result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            return;
        }
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn child_gets_arguments_environment_and_directory() {
    let dir = TempDir::new().unwrap();
    let here = dir.path().canonicalize().unwrap();
    let script = "printf '%s\\n' \"$@\" \"$CANARY\" \"${HOME+inherited}\"; pwd; cat";
    let mut launch = launch("/bin/sh", &["-c", script, "sh", "--flag=-x y", "", "ü\"$'"]);
    launch.env = vec![("CANARY".into(), "first".into()), ("CANARY".into(), "last".into())];
    launch.current_dir = here.clone();
    let Transport { mut reader, writer, mut process, .. } = spawn(launch, None).await.unwrap();
    drop(writer);
    let mut out = String::new();
    reader.read_to_string(&mut out).await.unwrap();
    assert_eq!(out, format!("--flag=-x y\n\nü\"$'\nlast\ninherited\n{}\n", here.display()));
    assert_eq!(process.wait().await, Exit { code: Some(0), ..Exit::default() });
}

#[tokio::test]
async fn exit_code_and_signal_are_reported() {
    let mut agent = sh("exit 3").await;
    assert_eq!(agent.process.wait().await, Exit { code: Some(3), ..Exit::default() });
    assert_eq!(agent.process.wait().await, Exit { code: Some(3), ..Exit::default() });
    // Its id is free for others by now; these must do nothing.
    agent.process.terminate();
    agent.process.kill();

    let mut agent = sh("kill -SEGV $$").await;
    assert_eq!(agent.process.wait().await, Exit { signal: Some("SIGSEGV".into()), ..Exit::default() });

    let mut agent = sh("trap 'exit 5' TERM; echo ready; sleep 100000 & wait").await;
    assert_eq!(line(&mut agent.reader).await, "ready");
    agent.process.terminate();
    assert_eq!(agent.process.wait().await, Exit { code: Some(5), ..Exit::default() });
}

#[tokio::test]
async fn dropped_wait_can_be_repeated() {
    let mut agent = sh("echo ready; read line; exit 4").await;
    line(&mut agent.reader).await;
    tokio::select! {
        biased;
        _ = agent.process.wait() => unreachable!("its input is open"),
        () = std::future::ready(()) => {}
    }
    drop(agent.writer);
    assert_eq!(agent.process.wait().await.code, Some(4));
}

#[tokio::test]
async fn killing_reaches_descendants() {
    let mut agent = sh("sh -c 'echo ready; sleep 100000' & wait").await;
    line(&mut agent.reader).await;
    agent.process.kill();
    assert_eq!(agent.process.wait().await.signal.as_deref(), Some("SIGKILL"));
    // The end comes when no process holds the pipe.
    assert_eq!(agent.reader.read(&mut [0]).await.unwrap(), 0);
}

/// This test once more, in a process of its own: it changes what belongs to the whole process.
fn alone(name: &str) -> bool {
    const ALONE: &str = "KIMI_AGENT_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("transport::child::tests::{name}"), "--nocapture"]).env(ALONE, "1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", output.status);
    false
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[tokio::test]
async fn agent_leads_session_without_terminal() {
    // An interrupt at a terminal is sent to the program's process group. A process without a terminal cannot open one, and
    // the leader of a session cannot leave its group, be it for that of its parent or of a child.
    let script = "exec 2>&1; (: </dev/tty) && echo opened; python3 -c 'import os\n\
        for group in (0, os.getppid()):\n try: os.setpgid(0, group); print(group)\n except OSError: pass'; echo end; cat";
    let mut agent = sh(script).await;
    let pid = Pid::from_raw(agent.process.pid().unwrap() as i32);
    assert_eq!(rustix::process::getsid(pid).ok(), pid);
    assert_eq!(rustix::process::getpgid(pid).ok(), pid);
    let mut output = String::new();
    while !output.ends_with("end") {
        output += &line(&mut agent.reader).await;
    }
    assert!(!output.contains("opened") && output.contains("/dev/tty"), "{output}");
}

#[cfg(target_os = "linux")]
#[test]
fn closed_pipe_raises_no_sigpipe() {
    if !alone("closed_pipe_raises_no_sigpipe") {
        return;
    }
    // As command lines have it. Nothing else in this process may write to a closed pipe, and nothing does.
    // SAFETY: the default action of a signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    run(async {
        for _ in 0..10 {
            let mut agent = sh("exec 0<&-; echo ready; sleep 100000").await;
            assert_eq!(line(&mut agent.reader).await, "ready");
            let error = agent.writer.write_all(b"hello").await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
        }
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let pending = |name: &str| signal_set(&status, name) & 1 << (libc::SIGPIPE - 1);
        assert_eq!([pending("SigPnd"), pending("ShdPnd"), pending("SigBlk")], [0; 3]);
    });
}

#[cfg(target_os = "linux")]
fn signal_set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    u64::from_str_radix(line.unwrap(), 16).unwrap()
}

#[cfg(target_os = "linux")]
extern "C" fn ignored(_: i32) {}

#[cfg(target_os = "linux")]
#[test]
fn agent_inherits_neither_mask_nor_handlers() {
    if !alone("agent_inherits_neither_mask_nor_handlers") {
        return;
    }
    // SAFETY: the handler does nothing; the set is initialized by the first call.
    unsafe {
        libc::signal(libc::SIGUSR1, ignored as *const () as libc::sighandler_t);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        // Threads inherit the mask, also the one that starts agents.
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
    run(async {
        let mut agent = spawn(launch("/bin/cat", &["/proc/self/status"]), None).await.unwrap();
        let mut status = String::new();
        agent.reader.read_to_string(&mut status).await.unwrap();
        let set = |name: &str| signal_set(&status, name);
        assert_eq!((set("SigBlk"), set("SigCgt")), (0, 0));
        assert_eq!(set("SigIgn") & 1 << (libc::SIGPIPE - 1), 0);
    });
}

#[test]
fn host_may_have_closed_its_own_streams() {
    use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

    if !alone("host_may_have_closed_its_own_streams") {
        return;
    }
    std::io::Write::flush(&mut std::io::stdout()).unwrap();
    run(async {
        // SAFETY: these three are put back below, before anybody writes to them.
        let kept = [0, 1, 2].map(|number| unsafe {
            let kept = OwnedFd::from_raw_fd(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 100));
            libc::close(number);
            kept
        });
        let mut agent = sh("read line; echo \"$line\"; echo \"$line\" >&2; read line; exit 3").await;
        // Text that others write to these does not reach the agent.
        for number in [0, 1, 2] {
            // SAFETY: writes a constant.
            unsafe { libc::write(number, c"noise\n".as_ptr().cast(), 6) };
        }
        agent.writer.write_all(b"hello\n").await.unwrap();
        let answer = line(&mut agent.reader).await;
        drop(agent.writer);
        let exit = agent.process.wait().await;
        agent.process.stderr_done().await;
        let told = agent.process.stderr_tail();
        drop((agent.reader, agent.process));
        for (kept, number) in kept.into_iter().zip(0..) {
            // SAFETY: no descriptor has this number any more.
            assert_eq!(unsafe { libc::dup2(kept.into_raw_fd(), number) }, number);
        }
        assert_eq!((&*answer, exit.code, &*told), ("hello", Some(3), "hello\n"));
    });
}

#[cfg(target_os = "linux")]
#[test]
fn failed_start_leaves_nothing() {
    if !alone("failed_start_leaves_nothing") {
        return;
    }
    run(async {
        // The first start makes what all of them use, and looks for old private folders.
        let mut first = sh("exit").await;
        first.process.wait().await;
        // The task that reads its stderr holds the pipe until then.
        first.process.stderr_done().await;
        drop(first);
        spawner::run(|| ()).await.unwrap().unwrap();
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = descriptors();
        for (program, dir) in [("/no/such/program", "/"), ("/", "/"), ("/bin/sh", "/no/such/folder")] {
            let mut launch = launch(program, &[]);
            launch.current_dir = dir.into();
            refused(launch).await;
        }
        assert_eq!(descriptors(), before);
        // No child is left, not even an unreaped one.
        assert_eq!(rustix::process::wait(rustix::process::WaitOptions::NOHANG).unwrap_err(), rustix::io::Errno::CHILD);
    });
}

/// Makes the system refuse all signals that this process sends, and what it starts.
#[cfg(target_os = "linux")]
fn refuse_signals() {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let equal = libc::BPF_JMP | libc::BPF_JEQ;
    let filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(equal, 1, 0, libc::SYS_kill as u32),
        statement(equal, 0, 1, libc::SYS_pidfd_send_signal as u32),
        statement(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program and its statements are local variables, which the system copies.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn unsignallable_agent_is_given_up() {
    if !alone("unsignallable_agent_is_given_up") {
        return;
    }
    run(async {
        refuse_signals();
        tokio::time::pause();
        let mut agent = sh("echo ready; read line; exit 3").await;
        assert_eq!(line(&mut agent.reader).await, "ready");
        let pid = agent.process.pid().unwrap();
        agent.process.terminate();
        agent.process.kill();
        let before = tokio::time::Instant::now();
        let exit = agent.process.wait().await;
        assert!(before.elapsed() >= std::time::Duration::from_secs(5));
        let error = exit.still_running.clone().unwrap();
        assert_eq!(error.code(), "timeout");
        let text = error.to_string();
        assert!(text.contains(&format!("process {pid} still runs")) && text.contains("another user"), "{text}");
        assert_eq!(agent.process.wait().await, exit);
        // It is reaped all the same once it ends.
        drop(agent);
        tokio::task::spawn_blocking(move || await_reaped(pid)).await.unwrap();
    });
}

#[tokio::test]
async fn descendants_do_not_outlive_agent() {
    let mut agent = sh("sleep 100000 & exit 7").await;
    assert_eq!(agent.process.wait().await.code, Some(7));
    assert_eq!(agent.reader.read(&mut [0]).await.unwrap(), 0);
    agent.process.stderr_done().await;
}

#[tokio::test]
async fn dropping_kills_and_reaps() {
    let Transport { mut reader, writer: _writer, process, .. } = sh("echo ready; sleep 100000 & wait").await;
    line(&mut reader).await;
    let pid = process.pid().unwrap();
    drop(process);
    assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
    await_reaped(pid);
}

#[test]
fn dropping_works_without_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let agent = runtime.block_on(sh("sleep 100000 & wait"));
    let pid = agent.process.pid().unwrap();
    drop(runtime);
    drop(agent);
    await_reaped(pid);
}

#[test]
fn runtime_without_io_is_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let text = runtime.block_on(refused(launch("/bin/sh", &["-c", "exit"])));
    assert!(text.contains("I/O and time enabled"), "{text}");
}

#[tokio::test]
async fn siblings_do_not_hold_each_others_pipes() {
    let mut first = sh("cat; exit 1").await;
    let mut second = sh("cat; exit 2").await;
    drop(first.writer);
    assert_eq!(first.process.wait().await.code, Some(1));
    drop(second.writer);
    assert_eq!(second.process.wait().await.code, Some(2));
}

#[tokio::test]
async fn large_stderr_is_drained() {
    let bytes = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&bytes);
    let handler: StderrHandler = Arc::new(move |line| {
        counter.fetch_add(line.len(), Ordering::Relaxed);
    });
    let script = "head -c 10000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo 'last words' >&2; echo out; exit 1";
    let mut agent = spawn(launch("/bin/sh", &["-c", script]), Some(handler)).await.unwrap();
    assert_eq!(line(&mut agent.reader).await, "out");
    assert_eq!(agent.process.wait().await.code, Some(1));
    agent.process.stderr_done().await;
    assert_eq!(bytes.load(Ordering::Relaxed), 10_000_000 + "last words".len());
    assert_eq!(agent.process.stderr_tail(), "last words\n");
}

#[tokio::test]
async fn secrets_in_private_files_end_with_process() {
    const CANARY: &str = "sk-canary-7731";
    let dir = TempDir::new().unwrap();
    let script = "for arg; do case $arg in --*-file=*) cat \"${arg#*=}\"; echo;; esac; done; cat";
    let options = SessionOptions::new()
        .work_dir(dir.path())
        .executable(["/bin/sh", "-c", script, "kimi"])
        .config(json!({"api_key": CANARY}))
        .mcp_configs([json!({"mcpServers": {"a": {"headers": {"key": CANARY}}}}), json!({"b": {}})]);
    let launch = options.launch().unwrap();
    assert!(!format!("{:?} {options:?}", launch.args).contains(CANARY));
    let private = launch.private.dir().unwrap().to_owned();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&private), 0o700);
    for name in ["config.json", "mcp-0.json", "mcp-1.json"] {
        assert_eq!(mode(&private.join(name)), 0o600);
    }
    let mut agent = spawn(launch, None).await.unwrap();
    assert_eq!(line(&mut agent.reader).await, format!(r#"{{"api_key":"{CANARY}"}}"#));
    assert_eq!(
        line(&mut agent.reader).await,
        format!(r#"{{"mcpServers":{{"a":{{"headers":{{"key":"{CANARY}"}}}}}}}}"#)
    );
    assert_eq!(line(&mut agent.reader).await, r#"{"b":{}}"#);
    assert!(private.exists());
    drop(agent);
    assert!(!private.exists());
}

#[tokio::test]
async fn failures_name_cause() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("program");
    let begins = format!("can't start the agent {}: ", path.display());
    let told = |text: String| text.strip_prefix(&begins).map(str::to_owned).unwrap_or(text);

    assert!(told(refused(launch(&path, &[])).await).starts_with("it does not exist"));

    program(&dir, b"#!/no/such/interpreter -x\n", 0o755).await;
    let text = told(refused(launch(&path, &[])).await);
    assert!(text.starts_with("its first line names \"/no/such/interpreter -x\" to run it"), "{text}");

    program(&dir, b"exit 0\n", 0o755).await;
    let text = told(refused(launch(&path, &[])).await);
    assert!(text.starts_with("it is neither a binary nor a script"), "{text}");

    program(&dir, b"\x7fELF of no machine", 0o755).await;
    let text = told(refused(launch(&path, &[])).await);
    assert!(text.starts_with("it is a binary for another kind of machine"), "{text}");

    program(&dir, b"#!/bin/sh\n", 0o644).await;
    let text = told(refused(launch(&path, &[])).await);
    assert!(text.starts_with("permission denied"), "{text}");

    program(&dir, b"#!/bin/sh\n", 0o755).await;
    let text = told(refused(launch(&path, &[&"x".repeat(10 << 20)])).await);
    assert!(text.starts_with("its arguments (10485761 bytes) and environment are longer"), "{text}");

    let mut elsewhere = launch(&path, &[]);
    elsewhere.current_dir = dir.path().join("nowhere");
    assert!(told(refused(elsewhere).await).ends_with("nowhere does not exist"));

    let mut elsewhere = launch(&path, &[]);
    elsewhere.current_dir = path.clone();
    assert!(told(refused(elsewhere).await).ends_with("program is not a directory"));

    for (code, words) in [(libc::EMFILE, "this process has too many open files"), (libc::EAGAIN, "limit of processes")]
    {
        let error = failure::describe(&launch(&path, &[]), &std::io::Error::from_raw_os_error(code)).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn dropped_start_ends_agent() {
    let (alive, mut ended) = tokio::sync::mpsc::unbounded_channel::<()>();
    let handler: StderrHandler = Arc::new(move |_| alive.send(()).unwrap_or_default());
    let mut started = Box::pin(spawn(launch("/bin/sh", &["-c", "sleep 100000 & wait"]), Some(handler)));
    // Polled once, the start is under way, or done already; then it is the agent itself that is let go.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = started.as_mut().poll(&mut context);
    drop((polled, started));
    // The handler is dropped when no process holds stderr.
    assert_eq!(ended.recv().await, None);
}

#[cfg(target_os = "linux")]
fn fifo(dir: &TempDir, name: &str) -> PathBuf {
    let path = dir.path().join(name);
    let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the path is a C string.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
    path
}

/// Not a test of its own: the host that `killed_host_ends_agent` kills.
#[cfg(target_os = "linux")]
#[test]
fn host_to_be_killed() {
    let Some(fifo) = std::env::var_os("KIMI_AGENT_TEST_FIFO") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let script = format!("exec 9>{}; exec sleep 100000", Path::new(&fifo).display());
    let _agent = runtime.block_on(sh(&script));
    loop {
        std::thread::park();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn killed_host_ends_agent() {
    let dir = TempDir::new().unwrap();
    let fifo = fifo(&dir, "alive");
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "transport::child::tests::host_to_be_killed"]).env("KIMI_AGENT_TEST_FIFO", &fifo);
    command.stdout(std::process::Stdio::null());
    let mut host = spawner::run(move || command.spawn()).await.unwrap().unwrap().unwrap();
    // Opens when the agent has opened its end; reads the end when the agent has exited.
    let read = tokio::task::spawn_blocking(move || {
        let mut alive = std::fs::File::open(fifo).unwrap();
        host.kill().unwrap();
        host.wait().unwrap();
        std::io::Read::read(&mut alive, &mut [0]).unwrap()
    });
    assert_eq!(read.await.unwrap(), 0);
}

#[tokio::test]
async fn on_stderr_gets_lines() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    let handler: StderrHandler = Arc::new(move |line| seen.lock().unwrap().push(line));
    let mut agent = spawn(launch("/bin/sh", &["-c", "echo one >&2; printf two >&2"]), Some(handler)).await.unwrap();
    agent.process.stderr_done().await;
    assert_eq!(*lines.lock().unwrap(), ["one", "two"]);
    agent.process.wait().await;
}
