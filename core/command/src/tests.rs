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
    for name in ["run", "batch", "report", "doctor", "verify", "inspect", "policy", "proxy", "mcp"] {
        assert!(name == "report" || all.contains(&format!("\n  kimi-agent {name} ")), "{all}");
        let mut command = help::command();
        let page = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
        assert!(page.contains(&format!("Examples:\n  kimi-agent {name}")) && page.contains("Exit code"), "{page}");
    }
}

#[test]
fn page_has_recording() {
    let model: Value = serde_json::from_str(&embedded(RECORDING)).unwrap();
    let recording = &model["recordings"][0];
    assert_eq!((&model["inspector"], &recording["name"]), (&2.into(), &"run.jsonl".into()));
    assert_eq!((&recording["header"]["type"], &recording["is_cut"]), (&"header".into(), &false.into()));
    let entries = recording["entries"].as_array().unwrap();
    let lines: Vec<Value> = RECORDING.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.iter().map(|entry| &entry["entry"]).collect::<Vec<_>>(), lines.iter().collect::<Vec<_>>());
    assert!(entries[0].get("events").is_none());
    let event = &entries[5]["events"][0];
    assert_eq!((&event["turn"], &event["event"]["type"]), (&1.into(), &"ContentPart".into()));
    assert_eq!(event["event"]["payload"]["text"], "</script><script>alert(1)</script>");
}

/// Returns the text that a page has of a recording.
fn embedded(text: &str) -> String {
    let (name, recording) = ("run.jsonl".to_owned(), Recording::read(text).unwrap());
    let file = inspect::RecordingFile { name, text: text.to_owned(), recording };
    let empty = r#"<title>x</title><script type="application/json" id="kimi-agent-recordings"></script><p>end</p>"#;
    let page = page::filled(empty, &[file]).unwrap();
    let (_, rest) = page.split_once(r#"id="kimi-agent-recordings">"#).unwrap();
    let (embedded, end) = rest.split_once("</script>").unwrap();
    assert_eq!(end, "<p>end</p>");
    embedded.to_owned()
}

#[test]
fn page_has_json_that_no_value_holds() {
    let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    // The event of deep nesting has a text instead, and that of half a character U+FFFD.
    for (raw, places) in [("1e999", 2), (r#""\ud800""#, 1), (&nested, 1), ("12345678901234567890123", 1)] {
        let raw = format!(r#""x":{raw}"#);
        let text = RECORDING.replace(r#""payload":{"type""#, &format!(r#""payload":{{{raw},"type""#));
        assert_eq!(embedded(&text).matches(&raw).count(), places, "{raw}");
    }
}

#[test]
fn page_has_entries_of_unknown_types_and_members() {
    let unknown = r#"{"time":1.8,"type":"mood","events":[1],"mood":"<good>"}"#;
    let text = RECORDING.replace(r#"{"time":2.0,"#, &format!("\n{unknown}\n{{\"new\":1,\"time\":2.0,"));
    let model: Value = serde_json::from_str(&embedded(&text)).unwrap();
    let entries = model["recordings"][0]["entries"].as_array().unwrap();
    assert_eq!(entries[7]["entry"], serde_json::from_str::<Value>(unknown).unwrap());
    assert_eq!((entries[7].get("events"), &entries[8]["entry"]["new"]), (None, &1.into()));
}

#[test]
fn page_says_that_recording_is_cut() {
    let model: Value = serde_json::from_str(&embedded(&format!("{RECORDING}{{\"time\":3"))).unwrap();
    assert_eq!(model["recordings"][0]["is_cut"], true);
    assert_eq!(model["recordings"][0]["entries"].as_array().unwrap().len(), 8);
}

#[test]
fn files_of_one_name_have_distinct_names() {
    let folder = tempfile::tempdir().unwrap();
    let paths =
        ["a/x/run.jsonl", "b/x/run.jsonl", "b/y/run.jsonl", "b/other.jsonl"].map(|path| folder.path().join(path));
    for path in &paths {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, RECORDING).unwrap();
    }
    let output = folder.path().join("summary.json");
    let mut arguments = vec!["inspect", "--json", "-o", output.to_str().unwrap()];
    arguments.extend(paths.iter().map(|path| path.to_str().unwrap()));
    assert_eq!(ran(&arguments), 0);
    let summary: Vec<Value> = serde_json::from_str(&fs::read_to_string(output).unwrap()).unwrap();
    let names: Vec<_> = summary.iter().map(|each| each["name"].as_str().unwrap().replace('\\', "/")).collect();
    assert_eq!(names, ["a/x/run.jsonl", "b/x/run.jsonl", "y/run.jsonl", "other.jsonl"]);
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
