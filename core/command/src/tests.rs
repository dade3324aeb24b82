use std::fs;

use clap::CommandFactory;
use kimi_agent_protocol::recording::Recording;
use serde_json::Value;

use super::*;

const RECORDING: &str = concat!(
    r#"{"type":"header","format":1,"started":"2026-01-01T00:00:00Z","sdk":{"name":"kimi-agent","version":"0.1.0","language":"rust"},"dialect":"wire","executable":["kimi"],"options":{}}"#,
    "\n",
    r#"{"time":0.1,"type":"message","from":"sdk","message":{"jsonrpc":"2.0","method":"initialize","id":"initialize-1","params":{}}}"#,
    "\n",
    r#"{"time":0.2,"type":"message","from":"agent","message":{"jsonrpc":"2.0","id":"initialize-1","result":{"protocol_version":"1.10","server":{"name":"a","version":"1"},"slash_commands":[]}}}"#,
    "\n",
    r#"{"time":0.3,"type":"opened","agent":{"name":"a","version":"1"},"protocol_version":"1.10"}"#,
    "\n",
    r#"{"time":1.0,"type":"call","call":"prompt","turn":1,"arguments":{"input":"hi"}}"#,
    "\n",
    r#"{"time":1.0,"type":"message","from":"sdk","message":{"jsonrpc":"2.0","method":"prompt","id":"prompt-2","params":{"user_input":"hi"}}}"#,
    "\n",
    r#"{"time":1.2,"type":"message","from":"agent","message":{"jsonrpc":"2.0","method":"event","params":{"type":"ContentPart","payload":{"type":"text","text":"</script><script>alert(1)</script>"}}}}"#,
    "\n",
    r#"{"time":1.5,"type":"turn","turn":1,"result":{"status":"finished","steps":1,"text":"x","usage":{},"tool_calls":[],"rejected":[]}}"#,
    "\n",
    r#"{"time":2.0,"type":"end","reason":"closed"}"#,
    "\n",
);

fn ran(arguments: &[&str]) -> i32 {
    main(["kimi-agent"].iter().chain(arguments))
}

#[test]
fn arguments_are_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn completions_have_commands() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let script = completions(shell);
        for word in ["run", "batch", "report", "doctor", "verify", "inspect", "output-schema", "work-dir", "atif"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn reference_lists_options() {
    let reference = include_str!("../../../docs/reference/command.md");
    for command in Arguments::command().get_subcommands() {
        let name = command.get_name();
        assert!(reference.contains(&format!("## `kimi-agent {name}")), "{name}");
        for option in command.get_arguments().filter_map(|option| option.get_long()) {
            let is_listed =
                reference.lines().any(|line| line.starts_with("| `") && line.contains(&format!("`--{option}")));
            assert!(is_listed, "{name} --{option}");
        }
    }
}

#[test]
fn help_has_examples() {
    let all = help::command().render_long_help().to_string();
    for name in ["run", "batch", "report", "doctor", "verify", "inspect"] {
        assert!(name == "report" || all.contains(&format!("\n  kimi-agent {name} ")), "{all}");
        let mut command = help::command();
        let page = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
        assert!(page.contains(&format!("Examples:\n  kimi-agent {name}")) && page.contains("Exit code"), "{page}");
    }
}

#[test]
fn page_has_recording() {
    let recording = Recording::read(RECORDING).unwrap();
    let empty = r#"<title>x</title><script type="application/json" id="kimi-agent-recordings"></script><p>end</p>"#;
    let page = page::filled(empty, &[("run.jsonl".to_owned(), recording)]).unwrap();
    let (_, rest) = page.split_once(r#"id="kimi-agent-recordings">"#).unwrap();
    let (model, end) = rest.split_once("</script>").unwrap();
    assert_eq!(end, "<p>end</p>");
    let model: Value = serde_json::from_str(model).unwrap();
    let recording = &model["recordings"][0];
    assert_eq!((&model["inspector"], &recording["name"]), (&1.into(), &"run.jsonl".into()));
    let entries = recording["entries"].as_array().unwrap();
    let event = entries.iter().find_map(|entry| entry["events"].get(0)).unwrap();
    assert_eq!((&event["turn"], &event["event"]["type"]), (&1.into(), &"ContentPart".into()));
    assert_eq!(event["event"]["payload"]["text"], "</script><script>alert(1)</script>");
}

#[test]
fn page_without_place_is_refused() {
    assert_eq!(page::filled("", &[]), None);
}

#[test]
fn recording_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.html");
    fs::write(&file, RECORDING).unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(ran(&["inspect", path, "--json", "-o", path]), 1);
    let other = folder.path().join(".").join("run.html");
    assert_eq!(ran(&["inspect", path, "--json", "-o", other.to_str().unwrap()]), 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), RECORDING);
}

#[test]
fn summary_counts_turns() {
    let folder = tempfile::tempdir().unwrap();
    let (file, output) = (folder.path().join("run.jsonl"), folder.path().join("summary.json"));
    fs::write(&file, RECORDING).unwrap();
    assert_eq!(ran(&["inspect", "--json", file.to_str().unwrap(), "-o", output.to_str().unwrap()]), 0);
    let summary: Value = serde_json::from_str(&fs::read_to_string(output).unwrap()).unwrap();
    let turn = &summary[0]["turns"][0];
    assert_eq!((&turn["status"], &turn["duration"]), (&"finished".into(), &0.5.into()));
    assert_eq!((&summary[0]["agent"]["name"], &summary[0]["end"]["reason"]), (&"a".into(), &"closed".into()));
}

#[test]
fn summary_has_unfinished_turn() {
    let folder = tempfile::tempdir().unwrap();
    let (file, output) = (folder.path().join("run.jsonl"), folder.path().join("summary.json"));
    let killed = RECORDING.split_once(r#"{"time":1.5"#).unwrap().0;
    fs::write(&file, format!("{killed}{{\"time\":1.5")).unwrap();
    assert_eq!(ran(&["inspect", "--json", file.to_str().unwrap(), "-o", output.to_str().unwrap()]), 0);
    let summary: Value = serde_json::from_str(&fs::read_to_string(output).unwrap()).unwrap();
    assert_eq!((&summary[0]["is_cut"], &summary[0]["end"]), (&true.into(), &Value::Null));
    let turn = &summary[0]["turns"][0];
    assert_eq!((&turn["turn"], &turn["status"], &turn["error"]), (&1.into(), &Value::Null, &Value::Null));
    assert_eq!((&turn["duration"], &turn["tool_calls"]), (&0.2.into(), &0.into()));
}

#[cfg(unix)]
#[test]
fn device_is_no_recording() {
    assert_eq!(ran(&["inspect", "/dev/zero"]), 1);
    assert_eq!(ran(&["report", "/dev/zero"]), 2);
}

#[test]
fn problems_have_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    fs::write(&file, "{}\n").unwrap();
    assert_eq!(ran(&["inspect", file.to_str().unwrap()]), 1);
    assert_eq!(ran(&["inspect", "/no/such/run.jsonl"]), 1);
    assert_eq!(ran(&["inspect"]), 2);
    assert_eq!(ran(&["inspekt"]), 2);
}
