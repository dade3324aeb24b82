//! `kimi-agent verify`.

use std::path::{Path, PathBuf};

use kimi_agent_client::testing::{ScriptedAgent, replayed_agent};
use kimi_agent_client::{Answers, Approval, ExternalTool, Session};
use serde_json::{Value, json};

use super::support::{Ran, agent, command, ended};

/// A turn in which the agent asks for approval, calls a tool of the program and asks a question, and a turn that is
/// cancelled.
fn script(command: &str, text: &str) -> Value {
    json!([
        [
            {"think": "Hm."},
            {"tool_call": {"name": "Shell", "arguments": {"command": command}, "approve": true, "result": "a.txt"}},
            {"external_tool": {"name": "add", "arguments": {"a": 1}}},
            {"question": {"questions": [{"question": "Sure?", "options": [{"label": "yes"}]}]}},
            {"text": text},
        ],
        [{"text": "Working"}, {"wait_cancel": true}],
    ])
}

/// Records a session with this script.
async fn recorded(folder: &tempfile::TempDir, script: Value) -> PathBuf {
    let path = folder.path().join("run.jsonl");
    let agent = agent(script);
    let add = ExternalTool::new("add", "Adds", json!({"type": "object"}), |_: Value| async { Ok("2") });
    let session = Session::builder()
        .executable(&agent)
        .work_dir(folder.path())
        .record(&path)
        .tool(add)
        .on_approval(|_| async { Ok(Approval::Approve) })
        .on_question(|_| async { Ok(Some(Answers::new().answer("Sure?", "yes"))) })
        .start()
        .await
        .unwrap();
    session.prompt("Go").unwrap().result().await.unwrap();
    let turn = session.prompt("Work").unwrap();
    turn.text_stream().next().await.unwrap().unwrap();
    turn.cancel().await.unwrap();
    session.close().await.unwrap();
    path
}

/// Compares a recording with this agent.
fn verified(recording: &Path, script: Value, further: &[&str]) -> Ran {
    let agent = agent(script);
    let arguments: Vec<&str> = ["verify", recording.to_str().unwrap()].iter().chain(further).copied().collect();
    ended(command(Some(&agent), &arguments).spawn().unwrap())
}

fn differences(ran: &Ran) -> Vec<Value> {
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    report["differences"].as_array().unwrap().clone()
}

#[tokio::test]
async fn same_agent_is_as_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let recording = recorded(&folder, script("ls", "Done")).await;
    let ran = verified(&recording, script("ls", "Done"), &["--text"]);
    assert_eq!((ran.code, &*ran.out), (0, "turns as recorded: 2 of 2\n"), "{}", ran.err);
}

#[tokio::test]
async fn other_text_counts_only_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let recording = recorded(&folder, script("ls", "Done")).await;
    assert_eq!(verified(&recording, script("ls", "Finished"), &[]).code, 0);
    let ran = verified(&recording, script("ls", "Finished"), &["--text"]);
    assert_eq!(
        (ran.code, ran.out.contains("turn 1: text\n  expected  Done\n  got       Finished\n")),
        (1, true),
        "{}",
        ran.out
    );
}

#[tokio::test]
async fn other_arguments_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let recording = recorded(&folder, script("ls", "Done")).await;
    let ran = verified(&recording, script("ls -la", "Done"), &["--json"]);
    let found: Vec<_> = differences(&ran).iter().map(|one| (one["turn"].clone(), one["subject"].clone())).collect();
    assert_eq!((ran.code, found), (1, vec![(json!(1), json!("tool_calls")), (json!(1), json!("approvals"))]));
    let ran = verified(&recording, script("ls -la", "Done"), &[]);
    assert!(ran.out.contains("turn 1: approvals\n  expected  Shell ls\n  got       Shell ls -la\n"), "{}", ran.out);
    assert!(ran.out.ends_with("turns as recorded: 1 of 2\n"), "{}", ran.out);
}

#[tokio::test]
async fn recorded_answers_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let recording = recorded(&folder, script("ls", "Answers")).await;
    let again = folder.path().join("again.jsonl");
    let ran = verified(&recording, script("ls", "Answers"), &["--record", again.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    let answers = |path: &Path| -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        let entries = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.filter(|entry| entry["type"] == "decision").map(|entry| entry["answer"].clone()).collect()
    };
    assert_eq!(answers(&again), answers(&recording));
    assert_eq!(answers(&again).len(), 3);
}

#[tokio::test]
async fn dying_agent_ends_run() {
    let folder = tempfile::tempdir().unwrap();
    let recording = recorded(&folder, script("ls", "Done")).await;
    let ran = verified(&recording, json!([[{"text": "x"}, {"exit": 3}]]), &["--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &report["error"]["code"]), (1, &json!("agent_exited")));
    assert_eq!(differences(&ran)[0]["got"], "agent_exited");
}

#[test]
fn recordings_of_dialects_are_verified() {
    for name in ["wire", "acp", "kimi-web", "legacy"] {
        let path = format!("../../tests/recordings/{name}.jsonl");
        let mut verify = command(None, &["verify", &path, "--trust"]);
        for word in replayed_agent(&path).iter() {
            verify.arg("-x").arg(word);
        }
        let ran = ended(verify.spawn().unwrap());
        assert_eq!((ran.code, &*ran.out), (0, "turns as recorded: 2 of 2\n"), "{name}: {}", ran.err);
    }
}

#[tokio::test]
async fn missing_options_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let agent = agent(json!([[{"text": "hi"}]]));
    let options = Session::builder().executable(&agent).record(&path).env([("KIMI_TEST_VARIABLE", "a value")]);
    let session = options.session_budget(kimi_agent_client::Budget::new().steps(9)).start().await.unwrap();
    session.prompt("Go").unwrap().result().await.unwrap();
    session.close().await.unwrap();
    let ran = verified(&path, json!([[{"text": "hi"}]]), &[]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.err.contains("set --budget") && ran.err.contains("--env KIMI_TEST_VARIABLE=VALUE"), "{}", ran.err);
    let ran = verified(&path, json!([[{"text": "hi"}]]), &["--budget", "steps=9", "--env", "KIMI_TEST_VARIABLE=1"]);
    assert_eq!((ran.code, &*ran.err), (0, ""));
}

#[tokio::test]
async fn inherited_variable_is_masked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let command_of =
        |word: &str| json!({"name": "Shell", "arguments": {"command": word}, "approve": true, "result": ""});
    let script = |word: &str| json!([[{"tool_call": command_of(word)}, {"text": "canary-value"}]]);
    let agent = agent(script("login canary-value"));
    let options = Session::builder().executable(&agent).record(&path).env([("KIMI_TEST_VARIABLE", "canary-value")]);
    let session = options.on_approval(|_| async { Ok(Approval::Approve) }).start().await.unwrap();
    session.prompt("Go").unwrap().result().await.unwrap();
    session.close().await.unwrap();
    let verified = |agent: &ScriptedAgent, further: &[&str]| {
        let arguments = [&["verify", path.to_str().unwrap(), "--text"], further].concat();
        ended(command(Some(agent), &arguments).env("KIMI_TEST_VARIABLE", "canary-value").spawn().unwrap())
    };
    let ran = verified(&agent, &[]);
    assert_eq!((ran.code, &*ran.out), (0, "turns as recorded: 1 of 1\n"), "{}", ran.err);
    for further in [&[][..], &["--json"]] {
        let other = super::support::agent(script("logout canary-value"));
        let ran = verified(&other, further);
        assert_eq!((ran.code, ran.out.contains("logout ***")), (1, true), "{}", ran.out);
        assert!(!ran.out.contains("canary-value") && !ran.err.contains("canary-value"), "{}{}", ran.out, ran.err);
    }
}

#[test]
fn unusable_recordings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    std::fs::write(&path, "{}\n").unwrap();
    for path in [path.to_str().unwrap(), "/no/such/run.jsonl"] {
        let ran = ended(command(None, &["verify", path]).spawn().unwrap());
        assert_eq!((ran.code, ran.err.contains("invalid value of RECORDING: ")), (2, true), "{}", ran.err);
    }
    let recording = "../../tests/recordings/wire.jsonl";
    let ran =
        ended(command(None, &["verify", recording, "--trust", "--record", "../../tests/recordings/"]).spawn().unwrap());
    assert_eq!((ran.code, ran.err.contains("--record")), (2, true), "{}", ran.err);
    assert_eq!(ended(command(None, &["verify", recording, "-x", "no-such-agent"]).spawn().unwrap()).code, 127);
}

#[test]
fn json_has_early_failures() {
    let recording = "../../tests/recordings/wire.jsonl";
    let ran = |arguments: &[&str]| {
        let ran = ended(command(None, &[&["verify", "--json"], arguments].concat()).spawn().unwrap());
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        (ran.code, report["is_same"].clone(), report["turns"].clone(), report["error"]["code"].clone())
    };
    let report = |code, turns, error| (code, json!(false), json!(turns), json!(error));
    assert_eq!(ran(&[recording, "-x", "no-such-agent"]), report(127, 2, "spawn_error"));
    assert_eq!(ran(&[recording, "--budget", "step=1"]), report(2, 2, "invalid_option"));
    assert_eq!(ran(&["/no/such/run.jsonl"]), report(2, 0, "invalid_option"));
}

#[tokio::test]
async fn defects_of_recording_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(&folder, script("ls", "Done")).await;
    let text = std::fs::read_to_string(&path).unwrap();
    let (rest, _) = text.trim_end().rsplit_once('\n').unwrap();
    std::fs::write(&path, format!("{rest}\n{{\"time\":9,\"type\":\"gap\",\"entries\":3,\"bytes\":90}}\n")).unwrap();
    let ran = verified(&path, script("ls", "Done"), &[]);
    let names = |text: &str| text.contains("the recording is incomplete") && text.contains("lacks 3 entries");
    assert_eq!((ran.code, names(&ran.err)), (0, true), "{}", ran.err);
    let ran = verified(&path, script("ls", "Done"), &["--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(names(&report["warnings"].to_string()), "{report}");
}

#[tokio::test]
async fn masked_values_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let of_model = agent(json!([[{"text": "hi"}]]));
    let options = Session::builder().executable(&of_model).record(&path).redact(["canary-[a-z]+"]);
    let session = options.model("canary-model").start().await.unwrap();
    session.prompt("Use canary-prompt").unwrap().result().await.unwrap();
    session.close().await.unwrap();
    let ran = verified(&path, json!([[{"text": "hi"}]]), &[]);
    let says = |text: &str| ran.err.contains(text);
    assert!(
        says("`model` is masked in the recording; set --model") && says("prompt of turn 1 contains `***`"),
        "{}",
        ran.err
    );
    let ran = verified(&path, json!([[{"text": "hi"}]]), &["--model", "canary-model"]);
    assert_eq!((ran.code, ran.err.contains("`model`")), (0, false), "{}", ran.err);

    let text = std::fs::read_to_string(&path).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(header).unwrap();
    header["executable"] = json!(["/opt/***/agent"]);
    std::fs::write(&path, format!("{header}\n{rest}")).unwrap();
    let ran = ended(command(None, &["verify", path.to_str().unwrap()]).spawn().unwrap());
    assert_eq!((ran.code, ran.err.contains("set the agent with -x")), (2, true), "{}", ran.err);
}

#[test]
fn help_names_agent_of_recording() {
    for option in ["-h", "--help"] {
        let page = ended(command(None, &["verify", option]).spawn().unwrap()).out;
        assert!(
            page.contains("the agent that the recording names") && !page.contains("KIMI_AGENT_EXECUTABLE"),
            "{page}"
        );
    }
}

/// A recording whose agent leaves a mark, also by an option.
fn hostile_recording(folder: &Path) -> PathBuf {
    let text = std::fs::read_to_string("../../tests/recordings/wire.jsonl").unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(header).unwrap();
    header["executable"] = json!(["/bin/sh", "-c", format!("touch {}", folder.join("mark").display())]);
    header["options"]["extra_args"] = json!(["--mcp-config", "{}"]);
    header["options"]["yolo"] = json!(true);
    let path = folder.join("run.jsonl");
    std::fs::write(&path, format!("{header}\n{rest}")).unwrap();
    path
}

#[test]
fn foreign_recording_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = hostile_recording(folder.path());
    let ran = ended(command(None, &["verify", path.to_str().unwrap()]).spawn().unwrap());
    assert_eq!((ran.code, folder.path().join("mark").exists()), (2, false), "{}", ran.err);
    assert!(ran.err.contains("invalid value of --executable") && ran.err.contains("touch"), "{}", ran.err);
    // With an agent of the user, the options of the recording start nothing either.
    let mut verify = command(None, &["verify", path.to_str().unwrap()]);
    for word in replayed_agent("../../tests/recordings/wire.jsonl").iter() {
        verify.arg("-x").arg(word);
    }
    let ran = ended(verify.spawn().unwrap());
    assert!(ran.err.contains("`extra_args` of the recording is not used") && ran.err.contains("`yolo`"), "{}", ran.err);
    let ran = ended(command(None, &["verify", path.to_str().unwrap(), "--trust"]).spawn().unwrap());
    assert_eq!((ran.code == 2, folder.path().join("mark").exists()), (false, true), "{}", ran.err);
}
