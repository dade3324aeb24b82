use kimi_agent_protocol::recording::{
    EndEntry, EndReason, PROGRAM_DIFFERS, PROGRAM_NEVER, Recording, TimedEntry, ToolResultEntry,
};

use std::borrow::Cow;

use super::file::lock;
use super::*;

fn started(file: &Arc<RecordingFile>) -> FileRecorder {
    let redactor = Redactor::new(&[], [], &[]).unwrap();
    FileRecorder::new(Arc::clone(file), redactor, SessionOptions::new().header("wire"))
}

fn read(path: &Path) -> Recording {
    Recording::read(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[tokio::test]
async fn slow_disk_leaves_gap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = RecordingFile::create(&path, "id", None).unwrap();
    let mut recorder = started(&file);
    file.complete().await;
    let line = vec![b'1'; 1 << 20];
    {
        // The writer waits for this lock as it would for a disk.
        let _slow = lock(&file.output);
        (0..70).for_each(|_| recorder.message(Instant::now(), Side::Agent, &line, false));
    }
    file.complete().await;
    recorder.message(Instant::now(), Side::Sdk, b"{}", true);
    let is_last = |entry: &TimedEntry| matches!(&entry.entry, Entry::Message(message) if message.from == Side::Sdk);
    // A busy machine takes longer than the limit of this wait.
    while !read(&path).entries.last().is_some_and(is_last) {
        file.complete().await;
    }
    let entries = read(&path).entries;
    let written = entries.iter().filter(|entry| matches!(entry.entry, Entry::Message(_))).count();
    let missing: u64 =
        entries.iter().map(|entry| if let Entry::Gap(gap) = entry.entry { gap.entries } else { 0 }).sum();
    assert_eq!((written as u64 + missing, missing > 0), (71, true));
    assert!(matches!(entries[entries.len() - 2].entry, Entry::Gap(_)));
}

#[tokio::test]
async fn slow_disk_limits_all_entries_but_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = RecordingFile::create(&path, "id", None).unwrap();
    let mut recorder = started(&file);
    file.complete().await;
    let output = "x".repeat(1 << 20);
    let entry = |value: serde_json::Value| serde_json::from_value::<ToolResultEntry>(value).unwrap();
    {
        // The writer waits for this lock as it would for a disk.
        let _slow = lock(&file.output);
        for id in 0..70 {
            let result = entry(serde_json::json!({"id": id.to_string(), "result": {"output": output}}));
            recorder.entry(Entry::ToolResult(result));
        }
        recorder.entry(Entry::End(EndEntry { reason: EndReason::Closed, error: None, exit_code: None, signal: None }));
    }
    file.complete().await;
    while !matches!(read(&path).entries.last().map(|timed| &timed.entry), Some(Entry::End(_))) {
        file.complete().await;
    }
    let entries = read(&path).entries;
    let results = entries.iter().filter(|timed| matches!(timed.entry, Entry::ToolResult(_))).count() as u64;
    let Entry::Gap(gap) = &entries[entries.len() - 2].entry else { panic!("{:?}", entries.len()) };
    assert_eq!((results + gap.entries, gap.bytes >= gap.entries << 20, gap.entries > 0), (70, true, true));
}

#[cfg(unix)]
#[tokio::test]
async fn changed_file_is_a_problem() {
    let changes: [fn(&Path); 2] =
        [|path| std::fs::remove_file(path).unwrap(), |path| std::fs::write(path, "").unwrap()];
    for (change, how) in changes.iter().zip(["deleted", "shortened"]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let file = RecordingFile::create(&path, "id", None).unwrap();
        let mut recorder = started(&file);
        file.complete().await;
        assert_eq!(file.problem(), None);
        change(&path);
        recorder.message(Instant::now(), Side::Agent, b"{}", true);
        file.complete().await;
        assert!(file.problem().unwrap().contains(how), "{:?}", file.problem());
    }
}

#[tokio::test]
async fn second_attempt_replaces_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = RecordingFile::create(&path, "id", None).unwrap();
    let mut first = started(&file);
    first.message(Instant::now(), Side::Sdk, br#"{"of":"the first attempt"}"#, true);
    let mut second = started(&file);
    first.message(Instant::now(), Side::Sdk, br#"{"of":"the first attempt"}"#, true);
    second.message(Instant::now(), Side::Sdk, br#"{"of":"the second attempt"}"#, true);
    file.complete().await;
    let entries = read(&path).entries;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert!(std::fs::read_to_string(&path).unwrap().contains("the second attempt"));
}

#[test]
fn header_shows_no_secret_values() {
    let options = SessionOptions::new()
        .env([("TOKEN", "canary")])
        .config(serde_json::json!({"key": "canary"}))
        .mcp_configs([serde_json::json!({"key": "canary"})])
        .model("kimi");
    let header = serde_json::to_value(options.header("acp")).unwrap();
    assert_eq!((&header["options"]["env"][0], &header["options"]["model"]), (&"TOKEN".into(), &"kimi".into()));
    assert!(!header.to_string().contains("canary"), "{header}");
}

#[tokio::test]
async fn secrets_in_arguments_are_masked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = RecordingFile::create(&path, "id", None).unwrap();
    let program = std::env::current_exe().unwrap();
    let options = SessionOptions::new()
        .executable([program.to_str().unwrap(), "--api-key", "abc", "--token=canary-1", "--depth", "123456"])
        .extra_args(["--password", "canary-2", "--add-dir=canary-3"])
        .env([("DATABASE", "postgres://ada:canary-4@db/app")])
        .mcp_configs([serde_json::json!({"headers": {"Authorization": "Basic YWRhOmNhbmFyeS01"}})]);
    let params = InitializeParams::default();
    let mut recorder = options.recorder(Arc::clone(&file), "wire", folder.path(), &params, Vec::new()).unwrap();
    let line = br#"{"text":"canary-1 canary-2 canary-3 canary-4 canary-5 Y2FuYXJ5LTQ= 123456"}"#;
    recorder.message(Instant::now(), Side::Agent, line, true);
    file.complete().await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(r#""--api-key","***","--token=***","--depth","123456"]"#), "{text}");
    assert!(text.contains(r#"{"text":"*** *** canary-3 *** *** *** 123456"}"#), "{text}");
}

#[tokio::test]
async fn secret_of_server_is_masked_across_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = RecordingFile::create(&path, "id", None).unwrap();
    let (options, params) = (SessionOptions::new(), InitializeParams::default());
    let secrets = vec!["canary-1".to_owned()];
    let mut recorder = options.recorder(Arc::clone(&file), "wire", folder.path(), &params, secrets).unwrap();
    recorder.message(Instant::now(), Side::Agent, br#"{"method":"event","params":{"text":"a can"}}"#, true);
    recorder.message(Instant::now(), Side::Agent, br#"{"method":"event","params":{"text":"ary-1"}}"#, true);
    file.complete().await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("***") && !text.contains("ary-1"), "{text}");
}

#[tokio::test]
async fn path_is_free_after_complete() {
    let folder = tempfile::tempdir().unwrap();
    let create = |name: &str| RecordingFile::create(&folder.path().join(name), "id", None).unwrap();
    // The writer takes these after the file of the test, in the same batch.
    let others: Vec<_> = (0..20).map(|number| create(&format!("other-{number}.jsonl"))).collect();
    let mut recorders: Vec<_> = others.iter().map(started).collect();
    let line = vec![b'1'; 64 << 10];
    for round in 0..10 {
        let file = create("run.jsonl");
        assert_eq!(file.path().file_name().unwrap(), "run.jsonl", "round {round}");
        let mut recorder = started(&file);
        recorder.message(Instant::now(), Side::Agent, b"{}", true);
        recorders.iter_mut().for_each(|other| other.message(Instant::now(), Side::Agent, &line, false));
        drop(recorder);
        file.complete().await;
    }
}

#[test]
fn omission_is_found_in_stderr() {
    let text = format!("{PROGRAM_DIFFERS}turn 2: {PROGRAM_NEVER}called `prompt`: expected {{}}");
    assert_eq!(replayed::left_out(&format!("kimi-scripted-agent: {text}")), Some(&*text));
    for other in [format!("{PROGRAM_DIFFERS}turn 1: `prompt`: expected 1, got 2"), "a log of the agent".to_owned()] {
        assert_eq!(replayed::left_out(&other), None);
    }
}

#[tokio::test]
async fn piece_waits_only_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = RecordingFile::create(&path, "id", None).unwrap();
    let redactor = Redactor::new(&[], [Cow::Borrowed("canary-1")], &[]).unwrap();
    let mut recorder = FileRecorder::new(Arc::clone(&file), redactor, SessionOptions::new().header("wire"));
    file.complete().await;
    recorder.message(Instant::now(), Side::Agent, br#"{"method":"event","params":{"text":"a can"}}"#, true);
    // The writer's thread releases it, without another entry.
    while read(&path).entries.is_empty() {
        tokio::task::yield_now().await;
    }
    recorder.message(Instant::now(), Side::Agent, br#"{"method":"event","params":{"text":"ary-1"}}"#, true);
    file.complete().await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("a can") && text.contains("***") && !text.contains("ary-1"), "{text}");
}
