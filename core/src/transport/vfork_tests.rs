use std::io::Write;
use std::os::fd::IntoRawFd;
use std::sync::atomic::AtomicUsize;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::watcher::tests::{alone, end, run, sh};
use super::super::{Transport, child, spawner};
use super::*;
use crate::options::{Launch, PrivateFiles};

/// Where it is set, agents are forked: what other systems do, and older ones.
pub(super) const FORK: &str = "KIMI_AGENT_TEST_FORK";

fn alone_here(name: &str) -> bool {
    alone(&format!("transport::vfork::tests::{name}"))
}

async fn output(mut agent: Transport) -> String {
    let mut text = String::new();
    agent.reader.read_to_string(&mut text).await.unwrap();
    assert_eq!(agent.process.wait().await.code, Some(0));
    text
}

static FORKS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn the_program_is_not_copied() {
    if !alone_here("the_program_is_not_copied") {
        return;
    }
    // SAFETY: the function does nothing but count.
    assert_eq!(unsafe { libc::pthread_atfork(Some(forked), None, None) }, 0);
    run(async { assert_eq!(output(sh("echo hello").await).await, "hello\n") });
    assert_eq!(FORKS.load(Ordering::Relaxed), 0);
    // That this would be seen.
    // SAFETY: the child does nothing, and is awaited; the status may be null.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(0);
        }
        assert_eq!(libc::waitpid(pid, ptr::null_mut(), 0), pid);
    }
    assert_eq!(FORKS.load(Ordering::Relaxed), 1);
}

#[test]
fn signals_are_as_for_any_program() {
    if !alone_here("signals_are_as_for_any_program") {
        return;
    }
    // Threads have the mask of whoever started them: the one that starts agents gets this one.
    set_signal_mask(1 << (libc::SIGTERM - 1)).unwrap();
    // SAFETY: the handler does nothing but count.
    unsafe { libc::signal(libc::SIGUSR1, forked as *const () as libc::sighandler_t) };
    run(async {
        let launch = Launch {
            program: "/bin/cat".into(),
            args: vec!["/proc/self/status".into()],
            env: Vec::new(),
            current_dir: std::env::temp_dir(),
            private: PrivateFiles::default(),
        };
        let status = output(child::spawn(launch, None).await.unwrap()).await;
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
            u64::from_str_radix(line.unwrap(), 16).unwrap()
        };
        assert_eq!((set("SigBlk"), set("SigCgt")), (0, 0));
        // Rust ignores it in its own programs.
        assert_eq!(set("SigIgn") & 1 << (libc::SIGPIPE - 1), 0);
        // SAFETY: the program of this test has the disposition that it began with.
        assert_eq!(unsafe { libc::signal(libc::SIGUSR1, libc::SIG_DFL) }, forked as *const () as libc::sighandler_t);
    });
}

#[test]
fn a_host_may_have_closed_its_own_streams() {
    if !alone_here("a_host_may_have_closed_its_own_streams") {
        return;
    }
    std::io::stdout().flush().unwrap();
    run(async {
        // SAFETY: these three are put back below, before anybody writes to them.
        let kept = [0, 1, 2].map(|number| unsafe {
            let kept = OwnedFd::from_raw_fd(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 100));
            libc::close(number);
            kept
        });
        let mut agent = sh("read line; echo \"$line\"; echo \"$line\" >&2; read line; exit 3").await;
        agent.writer.write_all(b"hello\n").await.unwrap();
        let mut line = [0; 6];
        agent.reader.read_exact(&mut line).await.unwrap();
        drop(agent.writer);
        let exit = agent.process.wait().await;
        agent.process.stderr_done().await;
        let told = agent.process.stderr_tail();
        drop((agent.reader, agent.process));
        for (kept, number) in kept.into_iter().zip(0..) {
            // SAFETY: nobody has this number any more.
            assert_eq!(unsafe { libc::dup2(kept.into_raw_fd(), number) }, number);
        }
        assert_eq!((&line, exit.code, &*told), (b"hello\n", Some(3), "hello\n"));
    });
}

#[test]
fn what_has_not_become_the_program_leaves_nothing() {
    if !alone_here("what_has_not_become_the_program_leaves_nothing") {
        return;
    }
    run(async {
        // So that a watcher is there, and what the first start makes for all; behind it old folders are looked for.
        let agent = sh("cat").await;
        spawner::run(|| ()).await.unwrap().unwrap();
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = descriptors();
        for (program, dir) in [("/no/such/program", "/"), ("/", "/"), ("/bin/sh", "/no/such/folder")] {
            let launch = Launch {
                program: program.into(),
                args: Vec::new(),
                env: Vec::new(),
                current_dir: dir.into(),
                private: PrivateFiles::default(),
            };
            let error = child::spawn(launch, None).await.err().unwrap();
            assert_eq!(error.code(), "spawn_error");
        }
        assert_eq!(descriptors(), before);
        end(agent).await;
        // No child is left, not even one that nobody has reaped.
        // SAFETY: the status may be null.
        assert_eq!(unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) }, -1);
    });
}

#[test]
fn forked_agents_are_no_different() {
    let mut tests = std::process::Command::new(std::env::current_exe().unwrap());
    let output = tests.args(["transport::child::tests::", "--nocapture"]).env(FORK, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains(" 0 failed") && !text.contains(" 0 passed"), "{text}");
}
