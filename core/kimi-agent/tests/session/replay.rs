//! Recordings that are played: the same events over every protocol, and the comparison of the program with a recording.

use std::path::{Path, PathBuf};

use kimi_agent::testing::{ReplayMode, replayed_agent, scripted_agent};
use kimi_agent::{Answers, Approval, Dialect, ExternalTool, Session, SessionOptions};
use serde_json::{Value, json};

/// A folder with a recording, and the program that was recorded.
struct Recorded {
    folder: tempfile::TempDir,
    dialect: &'static str,
}

/// The view of a program: the events of each turn, and how the turn ended.
type Seen = Vec<(Vec<Value>, Value)>;

impl Recorded {
    async fn new(dialect: &'static str) -> (Self, Seen) {
        let recorded = Self { folder: tempfile::tempdir().unwrap(), dialect };
        let mut script = json!({"turns": [
            [
                {"think": "hm"},
                {"text": ["Look ", "at {{work_dir}}"]},
                {"tool_call": {"name": "Shell", "arguments": {"command": "ls {{work_dir}}"}, "approve": true,
                    "result": "a.txt"}},
                {"question": {"questions": [{"question": "Sure?", "options": [{"label": "yes"}]}]}},
                {"usage": {"input_other": 10, "output": 2}},
                {"text": "Done"},
            ],
            [{"text": "wait"}, {"wait_cancel": true}],
            [{"error": {"code": -32003, "message": "down"}}],
        ]});
        match dialect {
            "wire" => script["turns"][0]
                .as_array_mut()
                .unwrap()
                .push(json!({"external_tool": {"name": "add", "arguments": {"a": 1}}})),
            "acp" => {
                script["release"] = "2.1.0".into();
                script["session_files"] = true.into();
            }
            "legacy" => {
                script["release"] = "0.50.0".into();
                script["turns"] =
                    json!([[{"text": "Look"}], [{"text": "wait"}], [{"error": {"code": -32003, "message": "down"}}]]);
            }
            _ => {}
        }
        let agent = scripted_agent(script);
        let mut options = recorded.options().executable(&agent).record(recorded.file());
        if dialect == "kimi-web" {
            options = options.dialect(Dialect::KimiWeb);
        }
        let seen = recorded.run(options).await;
        (recorded, seen)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("run.jsonl")
    }

    /// The options of the program, but for the executable.
    fn options(&self) -> SessionOptions {
        let options = SessionOptions::new().work_dir(self.folder.path()).env([("KIMI_CODE_HOME", self.folder.path())]);
        match self.dialect {
            "legacy" => return options.yolo(true).dialect(Dialect::Legacy),
            "wire" => options.tool(add("2")),
            _ => options,
        }
        .on_approval(|_| async { Ok(Approval::Approve) })
        .on_question(|_| async { Ok(Some(Answers::new().answer("Sure?", "yes"))) })
    }

    /// The program: three turns, of which the second is cancelled.
    async fn run(&self, options: SessionOptions) -> Seen {
        let session = options.start().await.unwrap();
        let mut seen = Vec::new();
        for (number, prompt) in ["go", "wait", "third"].into_iter().enumerate() {
            let cancels = number == 1 && self.dialect != "legacy";
            seen.push(turn(&session, prompt, cancels).await);
        }
        session.close().await.unwrap();
        seen
    }
}

fn add(result: &'static str) -> ExternalTool {
    ExternalTool::new("add", "Adds", json!({"type": "object"}), move |_: Value| async move { Ok(result) })
}

/// Runs a turn, which is cancelled after its first text.
async fn turn(session: &Session, prompt: &str, cancels: bool) -> (Vec<Value>, Value) {
    let mut turn = session.prompt(prompt).unwrap();
    let mut events = Vec::new();
    while let Some(Ok(event)) = turn.next().await {
        if cancels && event.type_name() == "ContentPart" {
            turn.cancel().await.unwrap();
        }
        events.push(without_times(json!({"type": event.type_name(), "event": event})));
    }
    let end = match turn.result().await {
        Ok(result) => without_times(serde_json::to_value(result).unwrap()),
        Err(error) => json!({"code": error.code(), "message": error.to_string()}),
    };
    (events, end)
}

/// Removes what two runs of a program differ in.
fn without_times(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            map.retain(|name, _| {
                !matches!(&**name, "time" | "started" | "duration" | "executable" | "dialect" | "options")
            });
            map.values_mut().for_each(|value| *value = without_times(value.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| *value = without_times(value.take())),
        _ => {}
    }
    value
}

/// The entries of a recording, without times and ids of the SDK.
fn entries(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let first: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let prompt = first.iter().find_map(|entry| entry["message"]["params"]["prompt_id"].as_str());
    let nonce = prompt.and_then(|prompt| prompt.rsplit_once('-')).map(|(nonce, _)| nonce.to_owned());
    let text = nonce.map_or(text.clone(), |nonce| text.replace(&nonce, "nonce"));
    text.lines().map(|line| without_times(serde_json::from_str(line).unwrap())).collect()
}

fn assert_same(list: &[Value], recorded: &[Value]) {
    for (value, recorded) in list.iter().zip(recorded) {
        assert_eq!(value, recorded);
    }
    assert_eq!(list.len(), recorded.len());
}

async fn replays(dialect: &'static str) {
    let (recorded, seen) = Recorded::new(dialect).await;
    let again = recorded.folder.path().join("again.jsonl");
    for agent in [replayed_agent(recorded.file()), replayed_agent(recorded.file()).mode(ReplayMode::Verify)] {
        let options = recorded.options().executable(&agent).record(&again);
        let replayed = recorded.run(options).await;
        assert_eq!(replayed.len(), seen.len());
        for ((events, end), (recorded, recorded_end)) in replayed.iter().zip(&seen) {
            assert_same(events, recorded);
            assert_eq!(end, recorded_end);
        }
        // How many messages come between the last of a turn and its end depends on timing.
        let parts = |file: &Path| entries(file).into_iter().partition(|entry| entry["type"] == "message");
        let (mut messages, others): (Vec<_>, Vec<_>) = parts(&again);
        let (mut recorded_messages, recorded_others): (Vec<_>, Vec<_>) = parts(&recorded.file());
        if dialect == "kimi-web" {
            // Answers over HTTP and events over the WebSocket reach the program independently. So the answer to a
            // prompt can come before or after the cancel. The order of each side is fixed.
            for list in [&mut messages, &mut recorded_messages] {
                list.sort_by_key(|entry| entry["from"] == "sdk");
            }
        }
        assert_same(&messages, &recorded_messages);
        assert_same(&others, &recorded_others);
    }
}

#[tokio::test]
async fn wire_is_replayed() {
    replays("wire").await;
}

#[tokio::test]
async fn legacy_is_replayed() {
    replays("legacy").await;
}

#[tokio::test]
async fn acp_is_replayed() {
    replays("acp").await;
}

#[cfg(feature = "kimi-web")]
#[tokio::test]
async fn kimi_web_is_replayed() {
    replays("kimi-web").await;
}

/// A recording of two turns over Wire, with an approval and a tool.
async fn two_turns() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let agent = scripted_agent(json!([
        [
            {"tool_call": {"name": "Shell", "arguments": {"command": "ls"}, "approve": true, "result": "a.txt"}},
            {"external_tool": {"name": "add", "arguments": {"a": 1}}},
            {"text": "one"},
        ],
        [{"text": "two"}],
    ]));
    let session = program("2", true).executable(&agent).record(&file).start().await.unwrap();
    for prompt in ["first", "second"] {
        session.prompt(prompt).unwrap().result().await.unwrap();
    }
    session.close().await.unwrap();
    (folder, file)
}

fn program(sum: &'static str, approves: bool) -> SessionOptions {
    SessionOptions::new().tool(add(sum)).on_approval(move |_| async move {
        Ok(if approves { Approval::Approve } else { Approval::Reject { feedback: None } })
    })
}

/// The error of a program that differs from the recording in its first turn, and what its agent wrote to stderr.
async fn difference(options: SessionOptions, file: &Path, prompt: &str) -> (String, String) {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let agent = replayed_agent(file).mode(ReplayMode::Verify);
    let options = options.executable(&agent).on_stderr(move |line| drop(tell.send(line.to_owned())));
    let session = options.start().await.unwrap();
    let error = session.prompt(prompt).unwrap().result().await.unwrap_err();
    assert_eq!(error.code(), "rpc_error");
    let line = told.recv().await.unwrap();
    session.close().await.unwrap();
    (error.to_string(), line)
}

#[tokio::test]
async fn verify_shows_first_difference() {
    let (_folder, file) = two_turns().await;
    for (options, prompt, expected) in [
        (program("2", true), "frist", r#"turn 1: `prompt`: expected "first", got "frist" at /user_input"#),
        (
            program("2", false),
            "first",
            r#"turn 1: answer to `ApprovalRequest`: expected "approve", got "reject" at /response"#,
        ),
        (
            program("3", true),
            "first",
            r#"turn 1: answer to `ToolCallRequest` of the tool `add`: expected "2", got "3" at /return_value/output"#,
        ),
    ] {
        let (error, line) = difference(options, &file, prompt).await;
        assert!(error.contains(expected), "{error}");
        assert!(line.contains(expected), "{line}");
    }
}

#[tokio::test]
async fn verify_finds_missing_prompt() {
    let (_folder, file) = two_turns().await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let agent = replayed_agent(&file).mode(ReplayMode::Verify);
    let options = program("2", true).executable(&agent).on_stderr(move |line| drop(tell.send(line.to_owned())));
    let session = options.start().await.unwrap();
    assert_eq!(session.prompt("first").unwrap().result().await.unwrap().text, "one");
    let error = session.close().await.unwrap_err();
    let expected = r#"turn 2: the program never called `prompt`: expected {"user_input":"second"}"#;
    assert!(error.code() == "rpc_error" && error.to_string().contains(expected), "{error}");
    let line = told.recv().await.unwrap();
    assert!(line.contains(expected) && line.contains("the recording is "), "{line}");
    session.close().await.unwrap();
}

#[tokio::test]
async fn prompt_after_recording_fails() {
    let (_folder, file) = two_turns().await;
    let session = program("2", true).executable(replayed_agent(&file)).start().await.unwrap();
    for (prompt, text) in [("anything", "one"), ("else", "two")] {
        assert_eq!(session.prompt(prompt).unwrap().result().await.unwrap().text, text);
    }
    let error = session.prompt("third").unwrap().result().await.unwrap_err();
    assert!(error.to_string().contains("the recording has 2 prompts; this is one more"), "{error}");
    session.close().await.unwrap();
}

/// A recording of a turn with four texts that is cancelled after the second.
async fn cancelled() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let agent = scripted_agent(json!([[
        {"text": "a"},
        {"tool_call": {"name": "Shell", "arguments": {}, "approve": true, "result": "x"}},
        {"text": "b"},
        {"wait_cancel": true},
    ], [{"text": "next"}]]));
    let session = program("2", true).executable(&agent).record(&file).start().await.unwrap();
    cancel_after(&session, 2).await;
    assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, "next");
    session.close().await.unwrap();
    (folder, file)
}

/// Runs a turn that is cancelled after this number of texts. Returns the status.
async fn cancel_after(session: &Session, texts: usize) -> String {
    let mut turn = session.prompt("go").unwrap();
    let mut seen = 0;
    while let Some(event) = turn.next().await {
        seen += usize::from(event.unwrap().type_name() == "ContentPart");
        if seen == texts {
            turn.cancel().await.unwrap();
            break;
        }
    }
    turn.result().await.unwrap().status.as_str().to_owned()
}

#[tokio::test]
async fn cancel_may_come_earlier() {
    let (_folder, file) = cancelled().await;
    let session = program("2", true).executable(replayed_agent(&file)).start().await.unwrap();
    assert_eq!(cancel_after(&session, 1).await, "cancelled");
    assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, "next");
    session.close().await.unwrap();
}

#[tokio::test]
async fn cancel_may_come_later() {
    let (folder, file) = cancelled().await;
    // In this recording, the cancel came before the second text.
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    let cancel = lines.iter().position(|line| line.contains(r#""method":"cancel""#)).unwrap();
    let b = lines.iter().position(|line| line.contains(r#""text":"b""#)).unwrap();
    let line = lines.remove(cancel);
    lines.insert(b, line);
    let file = folder.path().join("early.jsonl");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    for agent in [replayed_agent(&file), replayed_agent(&file).mode(ReplayMode::Verify)] {
        let session = program("2", true).executable(&agent).start().await.unwrap();
        assert_eq!(cancel_after(&session, 2).await, "cancelled");
        assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, "next");
        session.close().await.unwrap();
    }
}

#[tokio::test]
async fn cut_recording_is_played() {
    let (_folder, file) = two_turns().await;
    let text = std::fs::read_to_string(&file).unwrap();
    let second = text.match_indices('\n').filter(|(at, _)| text[*at..].starts_with("\n{\"time\"")).count();
    assert!(second > 5);
    let at = text.find(r#""second""#).unwrap();
    std::fs::write(&file, &text[..at]).unwrap();
    let session = program("2", true).executable(replayed_agent(&file).mode(ReplayMode::Verify)).start().await.unwrap();
    assert_eq!(session.prompt("first").unwrap().result().await.unwrap().text, "one");
    session.close().await.unwrap();
}

#[tokio::test]
async fn killed_recording_fails_turn() {
    for dialect in ["wire", "acp", "kimi-web"] {
        if dialect == "kimi-web" && !cfg!(feature = "kimi-web") {
            continue;
        }
        let (recorded, _) = Recorded::new(dialect).await;
        let text = std::fs::read_to_string(recorded.file()).unwrap();
        let at = text.find("Done").unwrap();
        let killed = recorded.folder.path().join("killed.jsonl");
        std::fs::write(&killed, &text[..at + text[at..].find('\n').unwrap() + 1]).unwrap();
        for agent in [replayed_agent(&killed), replayed_agent(&killed).mode(ReplayMode::Verify)] {
            let session = recorded.options().executable(agent).start().await.unwrap();
            let error = session.prompt("go").unwrap().result().await.unwrap_err();
            let code = if dialect == "kimi-web" { "agent_exited" } else { "rpc_error" };
            assert_eq!(error.code(), code, "{dialect}");
            assert!(format!("{error:?}").contains("the recording ends here: "), "{dialect}: {error:?}");
            session.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn exit_of_agent_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let again = folder.path().join("again.jsonl");
    let agent = scripted_agent(json!([[{"text": "so"}, {"exit": 3}]]));
    let replayed = replayed_agent(&file);
    for options in [
        SessionOptions::new().executable(&agent).record(&file),
        SessionOptions::new().executable(&replayed).record(&again),
    ] {
        let session = options.start().await.unwrap();
        let error = session.prompt("go").unwrap().result().await.unwrap_err();
        assert_eq!(error.to_string(), "the agent exited with code 3");
        session.close().await.unwrap();
    }
    assert_same(&entries(&again), &entries(&file));
}

#[tokio::test]
async fn unusable_recording_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let refused = async |text: Option<&str>| {
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let error = SessionOptions::new().executable(replayed_agent(&file)).start().await.unwrap_err();
        assert_eq!(error.code(), "invalid_option");
        error.to_string()
    };
    let begin = format!("invalid option `executable`: the recording {} can't be read: ", file.display());
    let missing = refused(None).await;
    assert!(missing.starts_with(&begin) && missing.contains("No such file") || cfg!(windows), "{missing}");
    assert_eq!(refused(Some("")).await, format!("{begin}line 1: the file is empty"));
    let other = refused(Some("{\"jsonrpc\":\"2.0\"}\n")).await;
    assert!(other.starts_with(&format!("{begin}line 1: it is not the header of a recording")), "{other}");
    std::fs::write(&file, b"\x89PNG\r\n6\n\0").unwrap();
    assert_eq!(refused(None).await, format!("{begin}line 1: it is not the header of a recording"));
    assert_eq!(refused(Some("6")).await, format!("{begin}line 1: it is not the header of a recording"));
    let newer = refused(Some("{\"type\":\"header\",\"format\":2}\n")).await;
    assert!(newer.contains("the format 2 is newer"), "{newer}");
}

#[tokio::test]
async fn damaged_recording_is_refused() {
    let (_folder, file) = two_turns().await;
    let text = std::fs::read_to_string(&file).unwrap();
    let last = text.trim_end().rfind('\n').unwrap() + 1;
    let number = text[..last].lines().count() + 1;
    for (line, problem) in [
        (r#"{"time":1,"#, format!("line {number}: it cannot be read: ")),
        (r#"{"time":1,"type":"gap","entries":7,"bytes":9}"#, "7 of its entries are missing".to_owned()),
    ] {
        std::fs::write(&file, format!("{}{line}\n{}", &text[..last], &text[last..])).unwrap();
        let error = program("2", true).executable(replayed_agent(&file)).start().await.unwrap_err();
        let begin = format!("invalid option `executable`: the recording {} can't be read: ", file.display());
        assert!(error.to_string().starts_with(&format!("{begin}{problem}")), "{error}");
    }
}

#[tokio::test]
async fn played_recording_is_not_replaced() {
    let (folder, file) = two_turns().await;
    let old = std::fs::read_to_string(&file).unwrap();
    for path in [file.clone(), folder.path().join(".").join("run.jsonl")] {
        let options = program("2", true).executable(replayed_agent(&file)).record(path);
        let error = options.start().await.unwrap_err().to_string();
        assert!(error.starts_with("invalid option `record`: "), "{error}");
        assert!(error.ends_with("is the recording that the agent plays; choose another path"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), old);
}

#[tokio::test]
async fn other_dialect_is_refused() {
    let (_folder, file) = two_turns().await;
    let options = SessionOptions::new().executable(replayed_agent(&file)).dialect(Dialect::Acp);
    let error = options.start().await.unwrap_err();
    assert_eq!(error.code(), "invalid_option");
    assert!(error.to_string().starts_with("invalid option `dialect`: "), "{error}");
}

/// Writes a recording over ACP in which the agent calls two tools at the same time.
#[cfg(feature = "mcp")]
fn with_tools(file: &Path) {
    let update = |update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": update}});
    let sdk = |message: Value| json!({"time": 0, "type": "message", "from": "sdk", "message": message});
    let agent = |message: Value| json!({"time": 0, "type": "message", "from": "agent", "message": message});
    let text = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "3 and 7"}});
    let result = |output: &str| json!({"is_error": false, "output": output, "message": "", "display": []});
    let entries = [
        json!({"type": "header", "format": 1, "started": "2026-01-01T00:00:00Z", "dialect": "acp", "executable": ["kimi"],
            "sdk": {"name": "kimi-agent", "version": "0.1.0", "language": "rust"}, "options": {}}),
        sdk(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})),
        agent(json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1,
            "agentCapabilities": {"mcpCapabilities": {"http": true, "sse": false}}}})),
        sdk(json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "{{work_dir}}"}})),
        agent(json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s1"}})),
        json!({"time": 0, "type": "opened", "protocol_version": "acp-1", "session_id": "s1"}),
        json!({"time": 0, "type": "call", "call": "prompt", "turn": 1, "arguments": {"input": "go"}}),
        sdk(json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt",
            "params": {"sessionId": "s1", "prompt": [{"type": "text", "text": "go"}]}})),
        json!({"time": 0, "type": "tool_call", "id": "mcp-1", "name": "add", "arguments": {"a": 1, "b": 2}}),
        json!({"time": 0, "type": "tool_call", "id": "mcp-2", "name": "add", "arguments": {"a": 3, "b": 4}}),
        json!({"time": 0, "type": "tool_result", "id": "mcp-1", "result": result("3")}),
        json!({"time": 0, "type": "tool_result", "id": "mcp-2", "result": result("7")}),
        agent(update(text)),
        agent(json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}})),
        json!({"time": 0, "type": "call", "call": "close"}),
        json!({"time": 0, "type": "end", "reason": "closed"}),
    ];
    super::write_recording(file, &entries);
}

#[cfg(feature = "mcp")]
#[tokio::test]
async fn tools_are_called_over_mcp() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    with_tools(&file);
    let options = |error: i64| {
        let sum = move |arguments: Value| async move {
            let sum = arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap();
            Ok((sum + error).to_string())
        };
        SessionOptions::new().tool(ExternalTool::new("add", "Adds", json!({"type": "object"}), sum))
    };
    for agent in [replayed_agent(&file), replayed_agent(&file).mode(ReplayMode::Verify)] {
        let again = folder.path().join("again.jsonl");
        let session = options(0).executable(&agent).record(&again).start().await.unwrap();
        assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, "3 and 7");
        session.close().await.unwrap();
        // The address and the secret of the server with the tools are not in the file.
        let sent = entries(&again);
        let server = sent.iter().find_map(|entry| entry["message"]["params"]["mcpServers"].get(0)).unwrap();
        assert_eq!((&server["url"], &server["headers"][0]["value"]), (&json!("***"), &json!("***")));
        assert!(!json!(sent).to_string().contains("127.0.0.1"));
        let of_tools = |file: &Path| {
            let mut tools: Vec<_> = entries(file)
                .iter()
                .filter(|entry| entry["type"] == "tool_call")
                .map(|entry| entry["arguments"].to_string())
                .collect();
            tools.sort();
            tools
        };
        assert_eq!(of_tools(&again), of_tools(&file));
    }
    let session = options(1).executable(replayed_agent(&file).mode(ReplayMode::Verify)).start().await.unwrap();
    let error = session.prompt("go").unwrap().result().await.unwrap_err().to_string();
    assert!(error.contains(r#"turn 1: result of the tool `add`: expected "3", got "4" at /output/0"#), "{error}");
    session.close().await.unwrap();
}

#[tokio::test]
async fn recordings_of_python_are_played() {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings");
    for dialect in ["wire", "legacy", "acp", "kimi-web"] {
        let file = recordings.join(dialect).with_extension("jsonl");
        for agent in [replayed_agent(&file), replayed_agent(&file).mode(ReplayMode::Verify)] {
            let options = SessionOptions::new().executable(agent);
            let options = match dialect {
                "legacy" => options.yolo(true),
                _ => options.on_approval(|_| async { Ok(Approval::Approve) }),
            };
            let session = options.start().await.unwrap();
            for (prompt, text) in [("List the files", "There is a.txt."), ("Thanks", "Bye.")] {
                assert_eq!(session.prompt(prompt).unwrap().result().await.unwrap().text, text, "{dialect}");
            }
            session.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn steer_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let agent = scripted_agent(json!([[{"text": "a"}, {"wait_steer": true}, {"text": "{{steer}}"}]]));
    let replayed = replayed_agent(&file).mode(ReplayMode::Verify);
    let mut seen = Vec::new();
    for options in [SessionOptions::new().executable(&agent).record(&file), SessionOptions::new().executable(&replayed)]
    {
        let session = options.start().await.unwrap();
        let mut turn = session.prompt("go").unwrap();
        let mut events = Vec::new();
        while let Some(event) = turn.next().await {
            let event = event.unwrap();
            if events.is_empty() && event.type_name() == "ContentPart" {
                turn.steer("left").await.unwrap();
            }
            events.extend((event.type_name() == "ContentPart").then(|| json!(event)));
        }
        session.close().await.unwrap();
        seen.push(events);
    }
    assert_eq!(seen[0], seen[1]);
}
