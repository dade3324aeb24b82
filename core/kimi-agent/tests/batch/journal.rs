use kimi_agent::batch::{Job, JobStatus};
use kimi_agent::{Output, OutputMode, SessionOptions, run_batch};
use serde_json::json;

use super::{all, texts, with};

#[tokio::test]
async fn second_run_takes_results_from_journal() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("batch.jsonl");
    let (first, _agent) = with(json!([[{"text": "first {{prompt}}"}]]));
    let jobs = || ["a", "b", "a"].map(Job::from).into_iter().chain([Job::new("c").key("named").data(1)]);
    all(run_batch(jobs().take(2), first.clone().journal(&journal))).await;
    let (second, _agent) = with(json!([[{"text": "second {{prompt}}"}]]));
    let results = all(run_batch(jobs(), second.journal(&journal))).await;
    assert_eq!(texts(&results), ["first a", "first b", "second a", "second c"]);
    let from_journal: Vec<_> = results.iter().map(|result| result.from_journal).collect();
    assert_eq!(from_journal, [true, true, false, false]);
    let results = all(run_batch(jobs(), first.journal(&journal))).await;
    assert!(results.iter().all(|result| result.from_journal));
    assert_eq!(texts(&results), ["first a", "first b", "second a", "second c"]);
}

#[tokio::test]
async fn known_result_has_present_data() {
    let folder = tempfile::tempdir().unwrap();
    let (options, _agent) = with(json!([[{"text": "done"}]]));
    let options = options.journal(folder.path().join("batch.jsonl"));
    let job = |secret: &str, data: i32| Job::new(format!("use {secret}")).key("one").data(data);
    all(run_batch([job("s1", 1)], options.clone())).await;
    let results = all(run_batch([job("s2", 2)], options)).await;
    assert_eq!((&results[0].prompt, &results[0].data), (&"use s2".into(), &json!(2)));
    assert!(results[0].from_journal);
}

#[tokio::test]
async fn result_without_value_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let (options, agent) = with(json!([[{"text": "{\"n\": 1}"}]]));
    let options = options.journal(folder.path().join("batch.jsonl"));
    all(run_batch(["a"], options.clone())).await;
    let output = Output::new(json!({"type": "object", "required": ["n"]})).mode(OutputMode::Text);
    let with_output = options.session(SessionOptions::new().executable(&agent).output(output));
    for is_known in [false, true] {
        let results = all(run_batch(["a"], with_output.clone())).await;
        let value = results[0].result.as_ref().and_then(|result| result.output.clone());
        assert_eq!((value, results[0].from_journal), (Some(json!({"n": 1})), is_known));
    }
}

#[tokio::test]
async fn failed_jobs_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("batch.jsonl");
    let (broken, _agent) = with(json!([[{"error": {"code": -32001, "message": "no model"}}]]));
    let results = all(run_batch(["a"], broken.journal(&journal))).await;
    assert_eq!(results[0].status, JobStatus::Failed);
    let (fine, _agent) = with(json!([[{"text": "fine"}]]));
    let results = all(run_batch(["a"], fine.journal(&journal))).await;
    assert_eq!((texts(&results), results[0].from_journal), (vec!["fine"], false));
}

#[tokio::test]
async fn dropped_batch_completes_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("batch.jsonl");
    let (options, _agent) = with(json!([[{"wait_cancel": true}]]));
    let (sender, mut running) = tokio::sync::watch::channel(0);
    let dropped = options.clone().journal(&journal).on_progress(move |progress| {
        sender.send_replace(progress.running);
    });
    let batch = run_batch([Job::new("a").key("a")], dropped);
    running.wait_for(|running| *running == 1).await.unwrap();
    drop(batch);
    // The end of the batch drops the handler.
    while running.changed().await.is_ok() {}
    let text = std::fs::read_to_string(&journal).unwrap();
    assert!(text.lines().last().unwrap().contains("\"status\":\"cancelled\""), "{text}");
}

#[tokio::test]
async fn journal_in_use_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("batch.jsonl");
    let (options, _agent) = with(json!([[{"wait_cancel": true}]]));
    let (sender, mut running) = tokio::sync::watch::channel(0);
    let first = options.clone().journal(&journal).on_progress(move |progress| {
        sender.send_replace(progress.running);
    });
    let first = run_batch(["a"], first);
    running.wait_for(|running| *running == 1).await.unwrap();
    let mut second = run_batch(["a"], options.journal(&journal));
    let error = second.next().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("another batch uses it"), "{error}");
    first.cancel().await;
}

#[tokio::test]
async fn killed_batch_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    for killed_after in [0, 1, 7, 15] {
        let journal = folder.path().join(format!("{killed_after}.jsonl"));
        let child = super::child::Child::start(&[("KIMI_BATCH_JOURNAL", journal.as_os_str())]);
        let known: Vec<_> = child.lines().take(killed_after).collect();
        child.kill();
        let (options, _agent) = with(json!([[{"text": "again: {{prompt}}"}]]));
        let results = all(run_batch(super::child::jobs(), options.journal(&journal))).await;
        assert_eq!(results.len(), 20);
        for result in &results {
            let text = &result.result.as_ref().unwrap().text;
            let expected = if result.from_journal { "prompt" } else { "again: prompt" };
            assert_eq!(*text, format!("{expected} {}", result.index));
            assert!(result.from_journal || !known.contains(&result.key), "{} was known", result.key);
        }
    }
}
