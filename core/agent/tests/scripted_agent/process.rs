//! The agent as a process: how it starts, how it ends, and its scripted faults.

use std::io::Read;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::client::Client;

fn run(args: &[&str]) -> Output {
    let agent = env!("CARGO_BIN_EXE_kimi-scripted-agent");
    Command::new(agent).args(args).stdin(Stdio::null()).output().expect("the agent starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn agent_prints_version_and_usage() {
    let version = run(&["--version"]);
    assert_eq!(text(&version.stdout), concat!("kimi-scripted-agent, version ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(version.status.success());
    assert!(run(&["anything", "--version"]).status.success());
    let help = run(&["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("external_tool"));
    let nothing = run(&[]);
    assert_eq!((nothing.status.code(), text(&nothing.stdout)), (Some(2), String::new()));
    assert!(text(&nothing.stderr).starts_with("usage: "));
}

#[test]
fn wrong_script_is_named_on_stderr() {
    let wrong = |script: &str| {
        let mut client = Client::start(Value::Null, &[]);
        client.close_stdin();
        let path = client.dir().join("wrong.json");
        std::fs::write(&path, script).expect("a script");
        let output = run(&[path.to_str().expect("UTF-8")]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
        let stderr = text(&output.stderr);
        assert!(stderr.contains("wrong.json: "), "{stderr}");
        stderr
    };
    assert!(wrong("[[{}").contains("not JSON: "));
    assert!(
        wrong(r#"[[], [{"text": "a"}, {"text": "b", "delay": "x"}]]"#)
            .contains(r#"turn 2, action 2: "delay" must be a number of seconds, not "x""#)
    );
    assert!(wrong(r#"[[{"txt": "a"}]]"#).contains(r#"turn 1, action 1: unknown action "txt""#));
    assert!(text(&run(&["no/such.json"]).stderr).contains("no/such.json: can't read it"));
}

#[test]
fn missing_working_directory_is_named() {
    let mut client = Client::start(json!([]), &["--work-dir=no/such/dir"]);
    let (status, stderr) = client.wait();
    assert_eq!(status.code(), Some(2));
    assert!(stderr.contains("no/such/dir"), "{stderr}");
}

#[test]
fn agent_exits_at_end_of_stdin() {
    let client = Client::open(json!([]));
    assert!(client.close().0.success());
    // In the middle of a turn, without an answer to the prompt.
    for waiting in
        [json!({"delay": 1e6}), json!({"wait_cancel": true}), json!({"tool_call": {"name": "n", "approve": true}})]
    {
        let mut client = Client::open(json!([[{"text": "a"}, waiting]]));
        client.prompt("go");
        client.read_until("ContentPart");
        client.close_stdin();
        while let Some(line) = client.read_line() {
            assert!(!line.contains("status"), "{line}");
        }
        assert!(client.wait().0.success());
    }
}

#[test]
fn agent_exits_with_code_of_its_script() {
    let mut client = Client::open(json!([[{"text": "a"}, {"stderr": "panic!"}, {"exit": 3}]]));
    client.prompt("go");
    let (status, stderr) = client.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(3), "panic!\n"));
    let mut client = Client::start(json!({"before_handshake": [{"raw": "moved"}, {"exit": 0}]}), &[]);
    assert_eq!(client.read_line().as_deref(), Some("moved"));
    assert!(client.wait().0.success());
}

#[test]
fn agent_exits_quietly_if_nobody_reads() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s.json");
    let script = json!({"before_handshake": [{"repeat": {"times": 100_000, "actions": [{"raw": "x".repeat(100)}]}}]});
    std::fs::write(&path, script.to_string()).expect("a script");
    let mut child = Command::new(env!("CARGO_BIN_EXE_kimi-scripted-agent"))
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the agent starts");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().expect("stderr").read_to_string(&mut stderr).expect("text");
    assert_eq!((child.wait().expect("an exit").code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn agent_can_close_its_output_and_stay() {
    let mut client =
        Client::open(json!([[{"text": "a"}, {"close_stdout": true}, {"text": "unheard"}, {"wait_file": "go"},
        {"tool_call": {"name": "n", "effect": {"write_file": "done"}}}, {"exit": 4}]]));
    client.prompt("go");
    client.read_until("ContentPart");
    assert_eq!(client.read_line(), None);
    std::fs::write(client.dir().join("go"), "").expect("a file");
    assert_eq!(client.wait().0.code(), Some(4));
    assert!(client.file("done").is_some());
}

#[test]
fn agent_can_ignore_end_of_input() {
    let mut client = Client::open(json!([[{"ignore_eof": true}, {"text": "a"}, {"wait_file": "go"}, {"exit": 5}]]));
    client.prompt("go");
    client.read_until("ContentPart");
    client.close_stdin();
    std::fs::write(client.dir().join("go"), "").expect("a file");
    assert_eq!(client.wait().0.code(), Some(5));
}

#[cfg(unix)]
mod signals {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn agent_can_end_by_signal() {
        for (signal, number) in [("KILL", 9), ("SIGTERM", 15), ("SEGV", 11)] {
            let mut client = Client::open(json!([[{"text": "a"}, {"signal": signal}]]));
            client.prompt("go");
            client.read_until("ContentPart");
            assert_eq!(client.wait().0.signal(), Some(number), "{signal}");
        }
    }

    #[test]
    fn stalled_agent_can_ignore_sigterm() {
        // Without `ignore_eof` the end of its input might come before it stalls.
        let turn = json!([{"ignore_signal": "TERM"}, {"ignore_eof": true}, {"text": "a"}, {"stall": true}]);
        let mut client = Client::open(json!([turn]));
        client.prompt("go");
        client.read_until("ContentPart");
        client.close_stdin();
        let kill = |signal: i32| {
            let pid = i32::try_from(client.pid()).expect("a pid");
            // SAFETY: the process is our own child and not yet reaped.
            assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        };
        kill(libc::SIGTERM);
        kill(libc::SIGUSR1);
        // USR1 is not ignored, so it is what ended the agent.
        assert_eq!(client.wait().0.signal(), Some(libc::SIGUSR1));
    }
}

#[test]
fn cut_ends_output_at_given_place() {
    let turns = json!([[{"text": "a"}, {"wait_cancel": true}]]);
    let mut client = Client::open(json!({"turns": turns, "cut": {"lines": 3, "actions": [{"exit": 3}]}}));
    client.prompt("hi");
    assert_eq!(
        (client.read()["params"]["type"].clone(), client.read()["params"]["type"].clone()),
        (json!("TurnBegin"), json!("StepBegin"))
    );
    assert_eq!((client.read_line(), client.wait().0.code()), (None, Some(3)));

    let raw = "x".repeat(100);
    let mut client = Client::start(
        json!({"before_handshake": [{"raw": raw}], "cut": {"bytes": 60, "actions": [{"raw": "!"}, {"exit": 0}]}}),
        &[],
    );
    assert_eq!(client.read_line(), Some("x".repeat(60) + "!"));
    assert_eq!(client.wait().0.code(), Some(0));

    let mut client = Client::open(json!({"turns": turns, "cut": {"call": "steer", "actions": [{"exit": 4}]}}));
    client.prompt("hi");
    (0..3).for_each(|_| drop(client.read()));
    client.call("steer", json!({"user_input": "more"}));
    assert_eq!((client.read_line(), client.wait().0.code()), (None, Some(4)));
}

#[test]
fn scripted_methods_are_ignored() {
    let answer = r#"{"id":"{{id.steer}}","result":"late"}"#;
    let mut client = Client::open(json!({
        "turns": [[{"raw": {"before": "[", "repeat": "1,", "times": 3, "after": "{{prompt}}]"}}, {"wait_cancel": true}, {"raw": answer}]],
        "deaf_to": ["steer"],
    }));
    client.prompt("4");
    client.read();
    assert_eq!(client.read_line().as_deref(), Some("[1,1,1,4]"));
    let steer = client.call("steer", json!({"user_input": "more"}));
    let cancel = client.call("cancel", json!({}));
    assert_eq!(client.read()["id"], json!(cancel));
    assert_eq!(client.read(), json!({"id": steer, "result": "late"}));
}
