use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use super::super::{Transport, child};
use super::*;
use crate::options::{Launch, PrivateFiles};

/// Which test a process of its own is to play, and what it is told.
const PART: &str = "KIMI_AGENT_TEST_WATCHER";

pub(in super::super) async fn sh(script: &str) -> Transport {
    let launch = Launch {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: Vec::new(),
        current_dir: std::env::temp_dir(),
        private: PrivateFiles::default(),
    };
    child::spawn(launch, None).await.unwrap()
}

pub(in super::super) async fn end(mut agent: Transport) {
    agent.process.kill();
    agent.process.wait().await;
}

/// The watcher that there is now. What was asked of the spawner before has been done then.
async fn watcher() -> Option<libc::pid_t> {
    spawner::run(|| WATCHER.with_borrow_mut(|watcher| watcher.as_mut().and_then(Watcher::running)))
        .await
        .unwrap()
        .unwrap()
}

/// This test once more, in a process of its own: watchers are counted, or the whole process is killed.
fn this_test(name: &str, part: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(PART, part);
    command
}

/// Plays the test alone in a process of its own; there, says so.
pub(in super::super) fn alone(name: &str) -> bool {
    if std::env::var_os(PART).is_some() {
        return true;
    }
    let output = this_test(name, Path::new("alone")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

fn here(name: &str) -> String {
    format!("transport::watcher::tests::{name}")
}

fn alone_here(name: &str) -> bool {
    alone(&here(name))
}

pub(in super::super) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn status(pid: libc::pid_t, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

/// It has done what it does first: its name is the last of that.
fn await_ready(pid: libc::pid_t) {
    while status(pid, "Name") != "kimi-watcher" {
        std::thread::yield_now();
    }
}

#[test]
fn one_watches_as_long_as_an_agent_runs() {
    if !alone_here("one_watches_as_long_as_an_agent_runs") {
        return;
    }
    run(async {
        assert_eq!(watcher().await, None);
        let first = sh("cat").await;
        let pid = watcher().await.unwrap();
        let second = sh("cat").await;
        assert_eq!(watcher().await, Some(pid));
        end(first).await;
        assert_eq!(watcher().await, Some(pid));
        end(second).await;
        assert_eq!(watcher().await, None);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it was not reaped");

        // Dropped ones are let go of by another thread.
        drop(sh("cat").await);
        while watcher().await.is_some() {
            tokio::task::yield_now().await;
        }
        // Nor does one stay for what can't be started.
        let nowhere = Launch {
            program: "/bin/sh".into(),
            args: Vec::new(),
            env: Vec::new(),
            current_dir: "/nowhere".into(),
            private: PrivateFiles::default(),
        };
        assert!(child::spawn(nowhere, None).await.is_err());
        assert_eq!(watcher().await, None);
    });
}

#[test]
fn it_holds_nothing_and_hears_nothing() {
    if !alone_here("it_holds_nothing_and_hears_nothing") {
        return;
    }
    run(async {
        let agent = sh("cat").await;
        let pid = watcher().await.unwrap();
        await_ready(pid);
        assert_eq!(fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(), 0);
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::getsid(pid) }, pid);
        // All but the one that it waits for; and KILL and STOP, which nobody can block.
        let others = !(1 << (HOST_IS_GONE - 1) | 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1));
        assert_eq!(u64::from_str_radix(&status(pid, "SigBlk"), 16).unwrap() & others, others);
        // Who waits for any child of his does not get it.
        // SAFETY: the status may be null.
        assert_eq!(unsafe { libc::waitpid(pid, ptr::null_mut(), libc::WNOHANG) }, -1);
        // SAFETY: no pointers. From another process it is not the host's end.
        let sent = Command::new("/bin/sh").args(["-c", &format!("kill -PWR {pid}; kill -TERM {pid}")]).status();
        assert!(sent.unwrap().success());
        // That it has come shows in the set of those that wait no more.
        while u64::from_str_radix(&status(pid, "ShdPnd"), 16).unwrap() & 1 << (HOST_IS_GONE - 1) != 0 {
            std::thread::yield_now();
        }
        assert_eq!(watcher().await, Some(pid));
        end(agent).await;
    });
}

#[test]
fn another_takes_over_the_groups_of_one_that_was_killed() {
    if !alone_here("another_takes_over_the_groups_of_one_that_was_killed") {
        return;
    }
    run(async {
        let entered = || spawner::run(|| WATCHER.with_borrow(|watcher| groups(watcher.as_ref().unwrap())));
        let first = sh("cat").await;
        let pid = watcher().await.unwrap();
        // SAFETY: no pointers; it is not reaped before `watcher` asks.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        while watcher().await.is_some() {
            tokio::task::yield_now().await;
        }
        let second = sh("cat").await;
        assert!(watcher().await.is_some_and(|another| another != pid));
        let both = [first.process.pid(), second.process.pid()].map(|pid| pid.unwrap() as i32);
        assert_eq!(entered().await.unwrap().unwrap(), both);
        end(first).await;
        assert_eq!(entered().await.unwrap().unwrap(), [both[1]]);
        end(second).await;
        assert_eq!(watcher().await, None);
    });
}

fn groups(watcher: &Watcher) -> Vec<i32> {
    let slots = watcher.table.get().groups.iter();
    slots.map(|slot| slot.load(Ordering::Relaxed)).filter(|&slot| slot != FREE).collect()
}

/// Refuses system calls on the spawner thread, and on what it starts: those with this number whose first argument has
/// these bits.
async fn refuse(number: i64, bits: u32) {
    let statement = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let (load, and, equal, give) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_ALU | libc::BPF_AND,
        libc::BPF_JMP | libc::BPF_JEQ,
        libc::BPF_RET,
    );
    let [load, and, equal, give] = [load, and, equal, give].map(|code| code as u16);
    // `seccomp_data`: the number comes first, the arguments after 16 bytes.
    let filter = [
        statement(load, 0, 0, 0),
        statement(equal, 0, 4, number as u32),
        statement(load, 0, 0, 16),
        statement(and, 0, 0, bits),
        statement(equal, 0, 1, bits),
        statement(give, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(give, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the program and its statements are local variables, which the system copies.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
        }
    };
    spawner::run(install).await.unwrap().unwrap();
}

#[test]
fn agents_run_where_the_system_refuses_it() {
    if !alone_here("agents_run_where_the_system_refuses_it") {
        return;
    }
    run(async {
        // At first what it does, later that it begins.
        for (number, bits) in [(libc::SYS_close_range, 0), (libc::SYS_clone, libc::CLONE_VM as u32)] {
            refuse(number, bits).await;
            for _ in 0..2 {
                let mut agent = sh("echo ready; cat").await;
                let mut line = [0; 6];
                agent.reader.read_exact(&mut line).await.unwrap();
                assert_eq!(&line, b"ready\n");
                while watcher().await.is_some() {
                    tokio::task::yield_now().await;
                }
                end(agent).await;
            }
        }
    });
}

#[test]
fn valgrind_is_spared() {
    if std::env::var_os(PART).is_some() {
        run(async {
            let agent = sh("cat").await;
            assert_eq!(watcher().await, None);
            end(agent).await;
        });
        return;
    }
    // As Valgrind does it. The dynamic linker remarks that there is no such library.
    let mut command = this_test(&here("valgrind_is_spared"), Path::new("alone"));
    let output = command.env("LD_PRELOAD", "/nowhere/vgpreload_core-amd64-linux.so").output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

#[test]
fn what_agents_have_started_dies_with_the_host() {
    let name = &here("what_agents_have_started_dies_with_the_host");
    if let Some(fifo) = std::env::var_os(PART) {
        // The host.
        let script = |times: usize| {
            let keep = "(trap '' TERM HUP; exec sleep 100000) </dev/null >/dev/null 2>&1 &";
            format!("exec 9>'{}'; {} echo ready >&9; cat", PathBuf::from(&fifo).display(), keep.repeat(times))
        };
        run(async {
            let _agents = (sh(&script(1)).await, sh(&script(3)).await);
            std::future::pending().await
        });
    }
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("alive");
    let text = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: the path is a C string.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
    let mut host = this_test(name, &fifo).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut alive = BufReader::new(fs::File::open(&fifo).unwrap());
    for _ in 0..2 {
        let mut line = String::new();
        alive.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }
    host.kill().unwrap();
    // The end comes when nobody holds it any more.
    assert_eq!(alive.read(&mut [0]).unwrap(), 0);
    host.wait().unwrap();
}
