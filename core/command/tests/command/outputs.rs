//! What the command prints and writes, with names, texts and environments that somebody else has chosen.

use std::fs;
use std::path::Path;

use kimi_agent_protocol::printable::printable_line;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Ran, agent, command, ended, ran};

/// A text that sets the clipboard, hides what follows, and reverses the order of letters.
const HOSTILE: &str = "a\u{1b}]52;c;aGk=\u{7}\u{1b}[8m\u{9b}31m\u{202e}b\nkimi-agent: c";

fn assert_harmless(ran: &Ran, case: &[&str]) {
    for text in [&ran.out, &ran.err] {
        for line in text.lines() {
            assert_eq!(printable_line(line), line, "{case:?}");
        }
        // The names of programs that this user starts keep their line ends.
        assert!(case.contains(&"--executable") || !text.contains("\nkimi-agent: c"), "{case:?}: {text}");
    }
}

#[test]
fn hostile_arguments_and_names_are_escaped() {
    let folder = TempDir::new().unwrap();
    let path = |end: &str| folder.path().join(format!("{HOSTILE}{end}")).into_os_string().into_string().unwrap();
    let (bad, missing) = (path(".jsonl"), path(".none"));
    fs::write(&bad, format!("{HOSTILE}\n")).unwrap();
    let flag = format!("--{HOSTILE}");
    let invalid = format!("--max-steps-per-turn={HOSTILE}");
    for file in [&bad, &missing] {
        for case in [
            &["inspect", file][..],
            &["inspect", "--json", file],
            &["inspect", "--atif", file, file],
            &["inspect", "--output", file, file],
            &["inspect", "--output", folder.path().to_str().unwrap(), file],
            &["report", file],
            &["report", "--html", file, file],
            &["verify", file],
            &["verify", "--executable", file, file],
            &["batch", file, "--executable", file],
            &["policy", "check", file, "ls"],
            &["policy", "check", "read-only", file],
            &["policy", "check", "read-only", file, "--json"],
            &["policy", "explain", file],
            &["policy", "explain", file, "--json"],
            &["run", "hi", "--policy", file, "--executable", file],
            &["run", "hi", "--executable", file],
            &["run", "hi", "--work-dir", file, "--executable", "/bin/true"],
            &["run", "hi", "--output-schema", file],
            &["doctor", file],
            &["completions", file],
            &[file],
            &["inspect", &flag],
            &["run", &flag],
            &["run", &invalid],
        ] {
            let ran = ended(command(None, case).spawn().unwrap());
            assert!(ran.code != 101 && !(ran.out.is_empty() && ran.err.is_empty()), "{case:?}: {}", ran.err);
            assert_harmless(&ran, case);
        }
    }
}

#[test]
fn recorded_text_is_escaped() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.jsonl");
    let path = path.to_str().unwrap();
    let turn = json!([[{"text": HOSTILE}, {"tool_call": {"name": HOSTILE, "arguments": {"command": HOSTILE}}}]]);
    assert_eq!(ran(&agent(turn), &["run", "hi", "--record", path]).code, 0);
    for case in [&["inspect", "--json", path][..], &["inspect", "--atif", path], &["verify", "--text", path]] {
        let ran = match case[0] {
            "verify" => ran(&agent(json!([[{"text": "other"}]])), case),
            _ => ended(command(None, case).spawn().unwrap()),
        };
        assert!(ran.out.contains(r"52;c;") || ran.err.contains(r"52;c;") || case[0] == "verify", "{case:?}");
        assert_harmless(&ran, case);
    }
}

/// With the mask 0777, new files have no permissions at all.
#[cfg(unix)]
#[test]
fn recordings_and_journals_are_readable_with_any_mask() {
    use std::os::unix::fs::MetadataExt as _;

    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).into_os_string().into_string().unwrap();
    let (recording, journal, jobs, results) = (path("r.jsonl"), path("j.jsonl"), path("jobs.jsonl"), path("o.jsonl"));
    fs::write(&jobs, "{\"prompt\":\"hi\"}\n").unwrap();
    let agent = agent(json!([[{"text": "hi"}]]));
    for mask in ["0777", "0277", "0700", "0077"] {
        for case in [
            &["run", "hi", "--record", &recording][..],
            &["verify", &recording],
            &["batch", &jobs, "--journal", &journal, "--out", &results],
            &["batch", &jobs, "--journal", &journal, "--out", &results],
        ] {
            let plain = command(Some(&agent), case);
            let mut masked = std::process::Command::new("/bin/sh");
            masked.args(["-c", r#"umask "$1"; shift; exec "$@""#, "sh", mask]);
            masked.arg(plain.get_program()).args(plain.get_args());
            let output = masked.output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{mask} {case:?}: {err}");
        }
        for private in [&recording, &journal] {
            assert_eq!(Path::new(private).metadata().unwrap().mode() & 0o7777, 0o600, "{mask}: {private}");
            fs::remove_file(private).unwrap();
        }
    }
}
