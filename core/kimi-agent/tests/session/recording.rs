//! The option `record`: the files, their entries, and what must not be in them.

use std::path::Path;

use kimi_agent::{
    Answers, Approval, Budget, Dialect, ExternalTool, Output, OutputError, OutputMode, Session, SessionOptions,
};
use kimi_agent_protocol::recording::Recording;
use serde_json::{Value, json};

use super::with;

mod events;

/// Returns a function that checks an entry against the schema of recordings.
fn schema() -> impl Fn(&Value) -> Result<(), String> {
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    let schema = compiler.compile("../../docs/recording.schema.json", &mut schemas).unwrap();
    move |entry| schemas.validate(entry, schema).map_err(|problem| problem.to_string())
}

/// Checks each line of a recording against the schema. Returns the header, and the other entries.
fn valid_entries(text: &str) -> (Value, Vec<Value>) {
    let check = schema();
    let mut lines = text.lines().map(|line| {
        let entry = serde_json::from_str::<Value>(line).unwrap();
        check(&entry).unwrap_or_else(|problem| panic!("{line}: {problem}"));
        entry
    });
    let header = lines.next().unwrap();
    assert_eq!(header["type"], "header");
    (header, lines.collect())
}

/// The entries of a recording, without the header.
fn entries(path: &Path) -> (Value, Vec<Value>) {
    valid_entries(&std::fs::read_to_string(path).unwrap())
}

#[test]
fn committed_recordings_fit_schema() {
    let mut recordings = vec![Path::new("../../docs/assets/repair.jsonl").to_owned()];
    recordings.extend(files(Path::new("../../tests/recordings")));
    recordings.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    assert!(recordings.len() >= 8, "{recordings:?}");
    for file in recordings {
        assert!(!entries(&file).1.is_empty(), "{}", file.display());
    }
    let specification = std::fs::read_to_string("../../docs/recording-format.md").unwrap();
    let example = specification.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(valid_entries(example).1.last().unwrap()["type"], "end");
    assert_eq!(Recording::read(example).unwrap().events().len(), 2);
}

#[test]
fn malformed_entries_do_not_fit_schema() {
    let check = schema();
    let call = json!({"id": "t", "name": "Shell"});
    for entry in [
        json!({}),
        json!([]),
        json!({"type": "later", "time": 1}),
        json!({"type": "end", "reason": "closed"}),
        json!({"type": "end", "time": -1, "reason": "closed"}),
        json!({"type": "end", "time": 1, "reason": "lost"}),
        json!({"type": "end", "time": 1, "reason": "closed", "more": 1}),
        json!({"type": "message", "time": 1, "from": "sdk"}),
        json!({"type": "message", "time": 1, "from": "user", "message": {}}),
        json!({"type": "message", "time": 1, "from": "sdk", "message": {}, "line": "x"}),
        json!({"type": "call", "time": 1, "call": "run"}),
        json!({"type": "turn", "time": 1, "turn": 0, "result": {}}),
        json!({"type": "turn", "time": 1, "turn": 1}),
        json!({"type": "policy", "time": 1, "tool_call": call}),
        json!({"type": "policy", "time": 1, "tool_call": {"id": "t"}, "decision": "ask"}),
        json!({"type": "policy", "time": 1, "tool_call": call, "decision": "maybe"}),
        json!({"type": "gap", "time": 1, "entries": 0, "bytes": 1}),
    ] {
        assert!(check(&entry).is_err(), "{entry}");
    }
    assert_eq!(check(&json!({"type": "policy", "time": 1, "tool_call": call, "decision": "ask"})), Ok(()));
}

fn of_type<'a>(entries: &'a [Value], kind: &str) -> Vec<&'a Value> {
    entries.iter().filter(|entry| entry["type"] == kind).collect()
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn recording_has_messages_calls_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let (options, _agent) = with(json!([
        [
            {"text": "Look"},
            {"tool_call": {"name": "Shell", "arguments": {"command": "ls"}, "approve": true, "result": "a.txt"}},
            {"external_tool": {"name": "add", "arguments": {"a": 1}}},
            {"question": {"questions": [{"question": "Sure?", "options": [{"label": "yes"}]}]}},
            {"text": "Done"},
        ],
        [{"wait_cancel": true}],
    ]));
    let add = ExternalTool::new("add", "Adds", json!({"type": "object"}), |_: Value| async { Ok("2") });
    let session = options
        .work_dir(folder.path())
        .record(&file)
        .tool(add)
        .on_approval(|_| async { Ok(Approval::Approve) })
        .on_question(|_| async { Ok(Some(Answers::new().answer("Sure?", "yes"))) })
        .session_budget(Budget::new().steps(100))
        .start()
        .await
        .unwrap();
    assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, "Done");
    let mut turn = session.prompt("wait").unwrap();
    turn.cancel().await.unwrap();
    turn.result().await.unwrap();
    session.close().await.unwrap();

    let (header, entries) = entries(&file);
    assert_eq!(
        (&header["format"], &header["dialect"], &header["sdk"]["language"]),
        (&json!(1), &json!("wire"), &json!("rust"))
    );
    assert_eq!(header["options"]["work_dir"], "{{work_dir}}");
    assert_eq!(header["tools"][0]["name"], "add");
    assert_eq!(of_type(&entries, "opened")[0]["agent"]["name"], "kimi-scripted-agent");
    let calls: Vec<_> = of_type(&entries, "call").iter().map(|call| (&call["call"], call["turn"].as_u64())).collect();
    let (prompt, cancel, close) = (&json!("prompt"), &json!("cancel"), &json!("close"));
    assert_eq!(calls, [(prompt, Some(1)), (prompt, Some(2)), (cancel, Some(2)), (close, None)]);
    let decisions: Vec<_> =
        of_type(&entries, "decision").iter().map(|entry| (entry["kind"].clone(), entry["by"].clone())).collect();
    let by_handler = ["approval", "tool", "question"].map(|kind| (json!(kind), json!("handler")));
    assert_eq!(decisions, by_handler);
    let turns = of_type(&entries, "turn");
    assert_eq!((&turns[0]["result"]["text"], &turns[1]["result"]["status"]), (&json!("Done"), &json!("cancelled")));
    let (last, messages) = (entries.last().unwrap(), of_type(&entries, "message"));
    assert_eq!((&last["type"], &last["reason"]), (&json!("end"), &json!("closed")));
    assert_eq!((&messages[0]["from"], &messages[0]["message"]["method"]), (&json!("sdk"), &json!("initialize")));
    let times: Vec<_> = entries.iter().map(|entry| entry["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

/// The events of a recording, without those outside turns.
fn recorded(file: &Path) -> Vec<(u64, Value)> {
    entries(file);
    let recording = Recording::read(&std::fs::read_to_string(file).unwrap()).unwrap();
    let events = recording.events().into_iter();
    events.filter_map(|recorded| Some((recorded.turn?, serde_json::to_value(recorded.event).unwrap()))).collect()
}

#[tokio::test]
async fn secrets_are_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let (options, _agent) = with(json!([[
        {"text": "the key is {{prompt}} and sk-proj-abcdefghijkl1234"},
        {"raw": "no JSON: {{prompt}}"},
    ]]));
    let session = options
        .work_dir(folder.path())
        .record(&file)
        .redact([r"ACME-\d+"])
        .env([("TOKEN", "canary-env-1")])
        .config(json!({"providers": {"x": {"api_key": "canary-config-2", "pin": 987_654}}}))
        .mcp_configs([json!({"mcpServers": {"d": {"url": "https://x", "headers": {"K": "canary-mcp-3"}}}})])
        .start()
        .await
        .unwrap();
    let secrets = ["canary-env-1", "canary-config-2", "canary-mcp-3", "ACME-17", "987654"];
    let work_dir = folder.path().to_str().unwrap();
    let input = format!("{} {work_dir}/a.txt", secrets.join(" "));
    assert!(session.prompt(input).unwrap().result().await.unwrap().text.contains("canary-mcp-3"));
    session.close().await.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    for secret in secrets.iter().chain(&["sk-proj", work_dir]) {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert!(text.contains(r"*** *** *** *** *** {{work_dir}}/a.txt and ***"), "{text}");
}

#[tokio::test]
async fn each_session_has_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    std::fs::write(&file, "an earlier recording").unwrap();
    let (options, _agent) = with(json!([[{"text": "hi"}]]));
    let options = options.record(&file);
    let (first, second) = (options.clone().start().await.unwrap(), options.clone().start().await.unwrap());
    for session in [first, second] {
        session.close().await.unwrap();
    }
    assert_eq!(files(folder.path()), [folder.path().join("run-2.jsonl"), file.clone()]);
    assert_eq!(entries(&file).1.last().unwrap()["type"], "end");

    let inner = folder.path().join("new").join("");
    for _ in 0..2 {
        options.clone().record(&inner).session_id("same").start().await.unwrap().close().await.unwrap();
    }
    let names: Vec<_> =
        files(&inner).iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().all(|name| name.contains("-same") && name.ends_with(".jsonl")), "{names:?}");
}

#[cfg(unix)]
/// A program without the option `record`, for the test below.
#[tokio::test]
#[ignore = "started by variable_names_path"]
async fn session_without_record() {
    let (options, _agent) = with(json!([[{"text": "Hello!"}]]));
    let session = options.start().await.unwrap();
    session.prompt("hi").unwrap().result().await.unwrap();
    session.close().await.unwrap();
}

#[test]
fn variable_names_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    program.args(["--ignored", "--exact", "recording::session_without_record"]);
    program.env("KIMI_AGENT_RECORD", folder.path().join("runs/"));
    assert!(program.output().unwrap().status.success());
    let [file] = &files(&folder.path().join("runs"))[..] else { panic!("not one file") };
    let (header, entries) = entries(file);
    assert_eq!(header["sdk"]["language"], "rust");
    assert_eq!(entries.last().unwrap()["type"], "end");
}

#[tokio::test]
async fn recording_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let (options, _agent) = with(json!([]));
    options.record(&file).start().await.unwrap().close().await.unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn impossible_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Session::builder().record(folder.path().join("no/such/run.jsonl")).start().await.unwrap_err();
    assert_eq!(error.code(), "invalid_option");
    assert!(error.to_string().starts_with("invalid option `record`: can't write "), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn link_is_refused_and_its_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (precious, link) = (folder.path().join("precious"), folder.path().join("run.jsonl"));
    std::fs::write(&precious, "precious").unwrap();
    for target in [precious.clone(), folder.path().join("nothing")] {
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let (options, _agent) = with(json!([[{"text": "one"}]]));
        let error = options.record(&link).start().await.unwrap_err();
        assert!(error.to_string().starts_with("invalid option `record`: can't write "), "{error}");
        assert!(error.to_string().contains("run.jsonl: it is a link; expected a new file"), "{error}");
        std::fs::remove_file(&link).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    assert!(!folder.path().join("nothing").exists());
    // A directory may be a link: its files are new.
    std::fs::create_dir(folder.path().join("runs")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("runs"), &link).unwrap();
    let (options, _agent) = with(json!([[{"text": "one"}]]));
    options.record(&link).start().await.unwrap().close().await.unwrap();
    assert_eq!(std::fs::read_dir(folder.path().join("runs")).unwrap().count(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn full_disk_ends_recording_only() {
    let (options, _agent) = with(json!([[{"text": "one"}], [{"text": "two"}]]));
    let session = options.record("/dev/full").start().await.unwrap();
    for text in ["one", "two"] {
        assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, text);
    }
    session.close().await.unwrap();
}

#[tokio::test]
async fn failed_session_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let (options, _agent) = with(json!([[{"text": "so"}, {"exit": 3}]]));
    let session = options.record(&file).start().await.unwrap();
    assert_eq!(session.prompt("go").unwrap().result().await.unwrap_err().code(), "agent_exited");
    session.close().await.unwrap();
    let (_, entries) = entries(&file);
    assert_eq!(of_type(&entries, "turn")[0]["error"]["code"], "agent_exited");
    assert_eq!(
        (&entries.last().unwrap()["type"], &entries.last().unwrap()["error"]["code"]),
        (&json!("end"), &json!("agent_exited"))
    );
}

#[tokio::test]
async fn failed_start_keeps_earlier_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let read = || std::fs::read_to_string(&file).unwrap();
    let (options, agent) = with(json!([]));
    let options = options.record(&file);
    options.clone().start().await.unwrap().close().await.unwrap();
    let first = read();
    let exits: Vec<_> = agent.iter().take(1).cloned().chain(["--no-such-flag".into()]).collect();
    for executable in [exits, vec!["/no/such/agent".into()]] {
        options.clone().executable(executable).start().await.unwrap_err();
        assert_eq!(read(), first);
    }
    // The agent that failed may be running still. Then the recording gets another name.
    while read() == first {
        options.clone().start().await.unwrap().close().await.unwrap();
    }
    assert_eq!(of_type(&entries(&file).1, "opened").len(), 1);
}

#[tokio::test]
async fn readable_after_every_turn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let (options, _agent) = with(json!([[{"text": "one"}], [{"text": "two"}]]));
    let session = options.record(&file).start().await.unwrap();
    for (number, text) in [(1, "one"), (2, "two")] {
        session.prompt("go").unwrap().result().await.unwrap();
        let ended = json!({"number": number, "text": text});
        until_file(&file, |entries| {
            let turns = of_type(entries, "turn").into_iter();
            turns.map(|turn| json!({"number": turn["turn"], "text": turn["result"]["text"]})).any(|turn| turn == ended)
        })
        .await;
        assert!(std::fs::read_to_string(&file).unwrap().ends_with('\n'));
    }
    session.close().await.unwrap();
}

/// Waits until the entries of a recording that is being written fulfil a condition.
async fn until_file(file: &Path, is_done: impl Fn(&[Value]) -> bool) {
    let wait = async {
        loop {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let entries: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
            if is_done(&entries) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), wait).await.expect("the file has no such entries");
}

#[tokio::test]
async fn entries_are_written_during_a_turn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let (options, _agent) =
        with(json!([[{"text": "marker-1"}, {"text": "ends like a secret: cana"}, {"wait_cancel": true}]]));
    let session = options.record(&file).env([("TOKEN", "canary-env-12345")]).start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    until_file(&file, |entries| {
        let text = json!(of_type(entries, "message")).to_string();
        text.contains("marker-1") && text.contains("ends like a secret: ***")
    })
    .await;
    turn.cancel().await.unwrap();
    turn.result().await.unwrap();
    session.close().await.unwrap();
}

#[tokio::test]
async fn secret_in_pieces_is_not_recorded() {
    let pieces = ["is cana", "ry-env-", "12345."];
    // The pieces of the arguments end after `can`, `ary-env-` and `12345`.
    let arguments = r#"{"command": "canary-env-12345"}"#;
    let call = json!({"tool_call": {"name": "Shell", "arguments": arguments, "split": 4, "result": "x"}});
    let turns = json!([[{"think": pieces[0]}, {"think": pieces[1]}, {"think": pieces[2]}, {"text": pieces}, call]]);
    for (script, dialect) in [
        (json!({"wire": "1.10", "turns": turns}), Dialect::Auto),
        (json!({"wire": "legacy", "turns": turns}), Dialect::Legacy),
        (json!({"release": "2.1.0", "turns": turns}), Dialect::Acp),
        (json!({"release": "2.1.0", "turns": turns}), Dialect::KimiWeb),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.jsonl");
        let (options, _agent) = with(script);
        let options = options.dialect(dialect).yolo(true).env([("TOKEN", "canary-env-12345")]);
        let session = options.record(&file).start().await.unwrap();
        let mut turn = session.prompt("go").unwrap();
        let mut events = Vec::new();
        while let Some(event) = turn.next().await {
            events.push(serde_json::to_value(event.unwrap()).unwrap());
        }
        session.close().await.unwrap();
        let recorded: Vec<Value> = recorded(&file).into_iter().map(|(_, event)| event).collect();
        // Over some protocols a piece without text is not an event.
        let kinds = |events: &[Value]| {
            let mut kinds: Vec<Value> = events.iter().map(|event| event["type"].clone()).collect();
            if matches!(dialect, Dialect::Acp | Dialect::KimiWeb) {
                kinds.dedup();
            }
            kinds
        };
        assert_eq!(kinds(&recorded), kinds(&events), "{dialect}");
        for part in ["is cana", "ry-env", "12345"] {
            let (original, recorded) = (json!(events).to_string(), json!(recorded).to_string());
            assert!(original.contains(part) && !recorded.contains(part), "{dialect}: {recorded}");
        }
        assert!(!std::fs::read_to_string(&file).unwrap().contains("12345"), "{dialect}");
    }
}

#[tokio::test]
async fn sessions_of_an_agent_replace_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let executable = kimi_agent::testing::scripted_agent(json!([[{"text": "Hello"}]]));
    for _ in 0..2 {
        let agent = kimi_agent::AgentOptions::new().executable(&executable).record(&file).open().unwrap();
        for _ in 0..2 {
            agent.create_session(kimi_agent::SessionOptions::new()).await.unwrap().close().await.unwrap();
        }
        agent.close().await.unwrap();
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["run-2.jsonl", "run.jsonl"]);
    }
}

#[tokio::test]
async fn canaries_are_not_recorded() {
    let canaries: Value = serde_json::from_str(include_str!("../../../../tests/recordings/canaries.json")).unwrap();
    let echo = json!([[{"text": "{{prompt}}"}]]);
    for (script, dialect, groups) in [
        (json!({"wire": "1.10", "turns": echo}), Dialect::Auto, &["config", "mcp_configs", "mcp_urls"][..]),
        (json!({"release": "2.1.0", "turns": echo}), Dialect::Acp, &["mcp_configs"]),
        (json!({"release": "2.1.0", "turns": echo}), Dialect::KimiWeb, &[]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.jsonl");
        let (mut options, _agent) = with(script);
        options = options.work_dir(folder.path()).record(&file).dialect(dialect).redact([r"ACME-\d+"]);
        let env = canaries["env"]["value"].as_object().unwrap();
        options = options.env(env.iter().map(|(name, value)| (name, value.as_str().unwrap())));
        if groups.contains(&"config") {
            options = options.config(canaries["config"]["value"].clone());
        }
        let servers = groups.iter().filter(|group| group.starts_with("mcp_"));
        options = options.mcp_configs(servers.flat_map(|group| canaries[group]["value"].as_array().unwrap().clone()));
        let texts =
            ["env", "redact", "keys"].iter().chain(groups).flat_map(|group| canaries[group]["texts"].as_array());
        let mut texts: Vec<String> = texts.flatten().map(|text| text.as_str().unwrap().to_owned()).collect();
        let work_dir = folder.path().to_str().unwrap();
        let slug: String = work_dir.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect();
        let home = std::env::home_dir().unwrap();
        texts.extend([work_dir.to_owned(), slug, home.join("canary").to_str().unwrap().to_owned()]);
        texts.push(std::env::temp_dir().join("canary").to_str().unwrap().to_owned());
        let session = options.start().await.unwrap();
        let result = session.prompt(texts.join(" ")).unwrap().result().await.unwrap();
        session.close().await.unwrap();
        // The program gets what the agent said.
        assert_eq!(result.text, texts.join(" "), "{dialect}");
        let recorded = std::fs::read_to_string(&file).unwrap();
        for text in &texts {
            assert!(!recorded.contains(text.as_str()), "{dialect}: {text} in {recorded}");
        }
    }
}

#[cfg(feature = "mcp")]
#[tokio::test]
async fn token_of_tools_is_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (played, file) = (folder.path().join("played.jsonl"), folder.path().join("run.jsonl"));
    // An agent that takes tools over HTTP.
    let text = std::fs::read_to_string("../../tests/recordings/acp.jsonl").unwrap();
    std::fs::write(&played, text.replace(r#""http":false"#, r#""http":true"#)).unwrap();
    let add = ExternalTool::new("add", "Adds", json!({"type": "object"}), |_: Value| async { Ok("2") });
    let agent = kimi_agent::testing::replayed_agent(&played);
    let options = SessionOptions::new().executable(&agent).record(&file).tool(add);
    options.start().await.unwrap().close().await.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(r#""Authorization","value":"***""#), "{text}");
    let has_token = text.split(|letter: char| !letter.is_ascii_hexdigit()).any(|digits| digits.len() >= 64);
    assert!(!has_token, "{text}");
}
#[tokio::test]
async fn secrets_are_not_recorded_over_other_protocols() {
    for dialect in [Dialect::Acp, Dialect::KimiWeb] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.jsonl");
        // On Windows agents do not use the form that `canonicalize` returns.
        let resolved = folder.path().canonicalize().unwrap();
        let work_dir = if cfg!(windows) { folder.path().to_owned() } else { resolved };
        let given = work_dir.to_str().unwrap();
        let slug: String = given.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect();
        let text = json!({"text": format!("{{{{prompt}}}} sessions/{slug}/1")});
        let (options, _agent) = with(json!({"release": "2.1.0", "turns": [[text]]}));
        let options = options.work_dir(&work_dir).dialect(dialect).env([("TOKEN", "canary-env-1")]);
        let session = options.record(&file).start().await.unwrap();
        session.prompt("canary-env-1").unwrap().result().await.unwrap();
        session.close().await.unwrap();
        entries(&file);
        let text = std::fs::read_to_string(&file).unwrap();
        for secret in ["canary-env-1", &slug, given] {
            assert!(!text.contains(secret), "{dialect}: {secret} in {text}");
        }
        assert!(text.contains("*** sessions/{{work_dir:slug}}/1"), "{dialect}: {text}");
    }
}
