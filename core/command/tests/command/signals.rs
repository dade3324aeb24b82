//! Signals that end a batch in the middle of its jobs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{agent, command, ended};

/// Runs git, which must succeed.
fn git(dir: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    let output = Command::new("git").arg("-C").arg(dir).args(identity).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Sends signals to a batch with two running jobs, the second one after the batch has handled the first one.
fn assert_drained(workspace: &str, deaf_to: &[&str], signals: &[Signal]) {
    let folder = tempfile::tempdir().unwrap();
    let (repository, temp) = (folder.path().join("repository"), folder.path().join("temp"));
    fs::create_dir(&repository).unwrap();
    fs::create_dir(&temp).unwrap();
    git(&repository, &["init", "-q"]);
    git(&repository, &["commit", "-q", "--allow-empty", "-m", "first"]);
    let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(name("jobs.jsonl"), "\"a\"\n\"b\"\n\"c\"\n").unwrap();
    // The agent writes a file with the name of the prompt next to the repository.
    let ready = json!({"write_file": name("{{prompt}}"), "content": "x"});
    let ready = json!({"tool_call": {"name": "WriteFile", "effect": ready, "result": ""}});
    let agent = agent(json!({"deaf_to": deaf_to, "turns": [[ready, {"wait_cancel": true}]]}));
    let (jobs, journal, work_dir) = (name("jobs.jsonl"), name("batch.jsonl"), repository.to_str().unwrap());
    let arguments =
        ["batch", &jobs, "-c", "2", "--yolo", "--workspace", workspace, "--journal", &journal, "-C", work_dir];
    let mut command = command(Some(&agent), &arguments);
    let mut child = command.env("TMPDIR", &temp).spawn().unwrap();
    while !["a", "b"].iter().all(|prompt| folder.path().join(prompt).exists()) {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    send(&child, signals[0]);
    let noted = notes.by_ref().map(Result::unwrap).find(|line| line.contains("cancelling; "));
    assert!(noted.is_some());
    signals[1..].iter().for_each(|signal| send(&child, *signal));
    let rest: Vec<_> = notes.map(Result::unwrap).collect();
    let ran = ended(child);
    assert_eq!(ran.code, 130, "{rest:?}");
    let lines = fs::read_to_string(&journal).unwrap();
    let lines: Vec<Value> = lines.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    for results in [&lines, &ran.lines()] {
        let statuses: Vec<_> = results.iter().map(|line| &line["status"]).collect();
        assert_eq!(statuses, ["cancelled", "cancelled"], "{rest:?}");
    }
    assert_eq!(git(&repository, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&repository, &["branch", "--list", "kimi-agent/*"]), "");
    assert_eq!(fs::read_dir(&temp).unwrap().count(), 0);
}

#[test]
fn interrupt_leaves_nothing() {
    assert_drained("worktree", &[], &[Signal::INT]);
    assert_drained("copy", &[], &[Signal::INT]);
}

#[test]
fn termination_leaves_nothing() {
    assert_drained("worktree", &[], &[Signal::TERM]);
}

/// Whether this process ignores SIGHUP, as `nohup` wants it. Then the programs that it starts do so, too.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    ignored.is_some_and(|mask| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & 1 != 0))
}

#[test]
fn hangup_leaves_nothing() {
    if ignores_hangup() {
        eprintln!("skipped: this process ignores SIGHUP");
        return;
    }
    assert_drained("worktree", &[], &[Signal::HUP]);
}

#[test]
fn second_interrupt_leaves_nothing() {
    // The agent does not answer the cancel, so that the batch still waits for it.
    assert_drained("worktree", &["cancel"], &[Signal::INT, Signal::INT]);
    assert_drained("copy", &["cancel"], &[Signal::INT, Signal::TERM]);
}

#[test]
fn full_disk_ends_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("batch.jsonl");
    let jobs = folder.path().join("jobs.jsonl");
    fs::write(&jobs, (0..40).map(|n| format!("{{\"prompt\": \"x\", \"key\": \"{n}\"}}\n")).collect::<String>())
        .unwrap();
    let agent = agent(json!([[{"text": "x"}]]));
    let arguments = ["batch", jobs.to_str().unwrap(), "--journal", journal.to_str().unwrap(), "-q", "-c", "2"];
    let plain = command(Some(&agent), &arguments);
    let mut limited = Command::new("sh");
    // As if the disk was full after 8 KiB.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""]);
    limited.arg(plain.get_program()).args(plain.get_args()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = ended(limited.spawn().unwrap());
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("batch.jsonl: ") && ran.err.contains("not recorded"), "{}", ran.err);
    let recorded = fs::read_to_string(&journal).unwrap().lines().count() - 1;
    // The results of the jobs that had started are there, and no other job has started.
    assert!(
        recorded > 0 && (recorded + 1..recorded + 6).contains(&ran.lines().len()),
        "{recorded} {}",
        ran.lines().len()
    );
    let again = ended(command(Some(&agent), &arguments).spawn().unwrap());
    assert_eq!(again.code, 0, "{}", again.err);
    let known = again.lines().iter().filter(|line| line["from_journal"] == true).count();
    assert_eq!((again.lines().len(), known), (40, recorded));
}

#[test]
fn ignored_hangup_stays_ignored() {
    let agent = agent(json!([[{"text": "x"}]]));
    let plain = command(Some(&agent), &["batch", "-", "-c", "1"]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut results = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(input, "\"one\"").unwrap();
    results.next().unwrap().unwrap();
    send(&child, Signal::HUP);
    writeln!(input, "\"two\"").unwrap();
    drop(input);
    assert!(results.next().unwrap().unwrap().contains("finished"));
    assert_eq!(ended(child).code, 0);
}
