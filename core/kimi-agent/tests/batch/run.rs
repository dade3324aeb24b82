use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kimi_agent::batch::{BatchOptions, Job, JobStatus, Progress, Retry, run_batch_stream};
use kimi_agent::run_batch;
use kimi_agent::testing::scripted_agent;
use kimi_agent::{Dialect, SessionOptions};
use serde_json::json;

use super::{all, texts, with};

#[tokio::test]
async fn each_job_has_a_result() {
    let (options, _agent) = with(json!([[{"text": "Done: {{prompt}}"}, {"usage": {"input_other": 3, "output": 4}}]]));
    let jobs = [Job::new("a").key("first").data(json!({"n": 1})), Job::from("b")];
    let results = all(run_batch(jobs, options)).await;
    assert_eq!(texts(&results), ["Done: a", "Done: b"]);
    let first = &results[0];
    assert_eq!((first.key.as_str(), first.attempts, &first.data), ("first", 1, &json!({"n": 1})));
    assert_eq!((first.status, first.usage.total(), first.from_journal), (JobStatus::Finished, 7, false));
    assert_eq!(results[1].key.len(), 32);
    assert!(first.error.is_none() && first.duration > Duration::ZERO);
    assert_eq!(first.to_json()["result"]["text"], "Done: a");
}

#[tokio::test]
async fn no_jobs_end_at_once() {
    let (options, _agent) = with(json!([]));
    assert!(all(run_batch(Vec::<Job>::new(), options)).await.is_empty());
}

#[tokio::test]
async fn large_batch_keeps_its_limits() {
    let (options, _agent) = with(json!([[{"text": "{{prompt}}"}]]));
    let pulled = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (counted, seen) = (Arc::clone(&pulled), Arc::clone(&most));
    let jobs = (0..200).map(move |n| {
        counted.fetch_add(1, Ordering::Relaxed);
        format!("job {n}")
    });
    let options = options.concurrency(32).on_progress(move |progress: Progress| {
        seen.fetch_max(progress.running as usize, Ordering::Relaxed);
    });
    let mut batch = run_batch(jobs, options);
    let mut read = 0;
    while let Some(result) = batch.next().await {
        let result = result.unwrap();
        assert_eq!(result.result.unwrap().text, format!("job {}", result.index));
        read += 1;
        let ahead = pulled.load(Ordering::Relaxed) - read;
        assert!(ahead <= 64, "{ahead} jobs were taken ahead");
    }
    assert_eq!((read, most.load(Ordering::Relaxed)), (200, 32));
}

#[tokio::test]
async fn unread_results_stop_the_batch() {
    let (options, _agent) = with(json!([[{"text": "x"}]]));
    let pulled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pulled);
    let jobs = std::iter::repeat_with(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Job::new("again")
    });
    let (sender, mut idle) = tokio::sync::watch::channel(0);
    let options = options.concurrency(2).on_progress(move |progress: Progress| {
        sender.send_replace(if progress.running == 0 { progress.done } else { 0 });
    });
    let mut batch = run_batch(jobs, options);
    idle.wait_for(|done| *done == 4).await.unwrap();
    assert_eq!(pulled.load(Ordering::Relaxed), 4);
    batch.next().await.unwrap().unwrap();
    idle.wait_for(|done| *done == 5).await.unwrap();
    batch.cancel().await;
    assert_eq!(pulled.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn progress_reports_differ() {
    let (options, _agent) = with(json!([[{"text": "x"}]]));
    let reports = Arc::new(std::sync::Mutex::new(Vec::new()));
    let list = Arc::clone(&reports);
    let options = options.on_progress(move |progress: Progress| {
        list.lock().unwrap().push((progress.done, progress.running));
    });
    all(run_batch(["one"], options)).await;
    assert_eq!(*reports.lock().unwrap(), [(0, 0), (0, 1), (1, 0)]);
}

#[tokio::test]
async fn stream_of_jobs_is_run() {
    struct Countdown(u32);
    impl futures_core::Stream for Countdown {
        type Item = String;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            _cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<String>> {
            self.0 = self.0.saturating_sub(1);
            std::task::Poll::Ready((self.0 > 0).then(|| self.0.to_string()))
        }
    }
    let (options, _agent) = with(json!([[{"text": "{{prompt}}"}]]));
    let results = all(run_batch_stream(Countdown(4), options)).await;
    assert_eq!(texts(&results), ["3", "2", "1"]);
}

#[tokio::test]
async fn failed_job_does_not_stop_others() {
    let good = scripted_agent(json!([[{"text": "fine"}]]));
    let (options, _bad) = with(json!([[{"error": {"code": -32001, "message": "no model"}}]]));
    let command: Vec<_> = good.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let jobs = [
        Job::new("a"),
        Job::new("b").option("executable", command.clone()),
        Job::new("c").option("modle", "k2"),
        Job::from_json(json!({"key": "no prompt"})),
    ];
    let results = all(run_batch(jobs, options)).await;
    let codes: Vec<_> = results.iter().map(|result| result.error.as_ref().map_or("", |error| error.code())).collect();
    assert_eq!(codes, ["llm_not_set", "", "invalid_option", "invalid_option"]);
    assert_eq!(results[1].result.as_ref().unwrap().text, "fine");
    assert!(results.iter().all(|result| result.attempts == 1));
    assert_eq!(results[3].key, "no prompt");
}

#[tokio::test]
async fn jobs_with_own_executables_need_no_common_agent() {
    let good = scripted_agent(json!([[{"text": "fine"}]]));
    let command: Vec<_> = good.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let missing = SessionOptions::new().executable("no-such-agent");
    let jobs = ["a", "b"].map(|prompt| Job::new(prompt).option("executable", command.clone()));
    let results = all(run_batch(jobs.clone(), BatchOptions::new().session(missing.clone()))).await;
    assert_eq!(texts(&results), ["fine", "fine"]);
    let [first, second] = jobs;
    let mut batch = run_batch([first, Job::new("c"), second], BatchOptions::new().session(missing));
    let mut outcomes = Vec::new();
    while let Some(outcome) = batch.next().await {
        outcomes.push(outcome.map_or_else(|error| error.code().to_owned(), |result| result.status.as_str().to_owned()));
    }
    // The job that needs it ends the batch, those before it run to their end.
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    assert!(outcomes.contains(&"spawn_error".to_owned()));
}

#[cfg(unix)]
#[tokio::test]
async fn overloaded_model_is_retried() {
    let folder = tempfile::tempdir().unwrap();
    let usage = json!({"usage": {"output": 5}});
    let overloaded = json!([[usage, {"error": {"code": -32003, "message": "Error code: 529 - overloaded"}}]]);
    let (options, _agents) = super::first_then(overloaded, json!([[usage, {"text": "fine"}]]), folder.path());
    let least = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&least);
    let options = options.concurrency(4).on_progress(move |progress: Progress| {
        seen.lock().unwrap().push((progress.concurrency, progress.retried));
    });
    let results = all(run_batch(["only"], options)).await;
    assert_eq!((texts(&results), results[0].attempts), (vec!["fine"], 2));
    assert_eq!(results[0].usage.output, 10, "the tokens of both attempts");
    let seen = least.lock().unwrap();
    assert_eq!((seen.first(), seen.last()), (Some(&(4, 0)), Some(&(2, 1))));
}

#[cfg(unix)]
#[tokio::test]
async fn killed_agent_is_retried() {
    let folder = tempfile::tempdir().unwrap();
    let killed = json!([[{"text": "I feel "}, {"signal": "KILL"}]]);
    let (options, _agents) = super::first_then(killed, json!([[{"text": "fine"}]]), folder.path());
    let results = all(run_batch(["only"], options)).await;
    assert_eq!((texts(&results), results[0].attempts), (vec!["fine"], 2));
}

#[cfg(unix)]
#[tokio::test]
async fn retry_starts_while_source_is_pending() {
    struct OneThenPending(bool);
    impl futures_core::Stream for OneThenPending {
        type Item = &'static str;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            _cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<&'static str>> {
            if std::mem::replace(&mut self.0, true) {
                return std::task::Poll::Pending;
            }
            std::task::Poll::Ready(Some("only"))
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let killed = json!([[{"signal": "KILL"}]]);
    let (options, _agents) = super::first_then(killed, json!([[{"text": "fine"}]]), folder.path());
    let mut batch = run_batch_stream(OneThenPending(false), options.timeout(Duration::from_secs(60)));
    let result = batch.next().await.unwrap().unwrap();
    assert_eq!((result.result.unwrap().text.as_str(), result.attempts), ("fine", 2));
    batch.cancel().await;
}

#[tokio::test]
async fn attempts_are_limited() {
    let (options, _agent) = with(json!([[{"error": {"code": -32003, "message": "overloaded"}}]]));
    let retry = Retry::new().attempts(4).initial_delay(Duration::ZERO);
    let results = all(run_batch(["a"], options.retry(retry))).await;
    assert_eq!((results[0].attempts, results[0].status), (4, JobStatus::Failed));
    assert_eq!(results[0].error.as_ref().unwrap().code(), "llm_service_error");
}

#[tokio::test]
async fn equal_keys_end_the_batch() {
    let (options, _agent) = with(json!([[{"text": "{{prompt}}"}]]));
    let mut batch = run_batch(["a", "b"].map(|prompt| Job::new(prompt).key("same")), options);
    assert_eq!(batch.next().await.unwrap().unwrap().key, "same");
    let error = batch.next().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("two jobs have the key \"same\""), "{error}");
    assert!(batch.next().await.is_none());
}

#[tokio::test]
async fn equal_jobs_have_different_keys() {
    let (options, _agent) = with(json!([[{"text": "{{prompt}}"}]]));
    let results = all(run_batch(["a", "a"], options)).await;
    assert_eq!(results[1].key, format!("{}-2", results[0].key));
}

#[tokio::test]
async fn cancel_ends_running_jobs() {
    let (options, _agent) = with(json!([[{"text": "working"}, {"wait_cancel": true}]]));
    let (sender, mut running) = tokio::sync::watch::channel(0);
    let options = options.concurrency(2).on_progress(move |progress: Progress| {
        sender.send_replace(progress.running);
    });
    let mut batch = run_batch(std::iter::repeat_with(|| Job::new("again")), options);
    running.wait_for(|running| *running == 2).await.unwrap();
    batch.cancel().await;
    batch.cancel().await;
    for _ in 0..2 {
        let result = batch.next().await.unwrap().unwrap();
        assert_eq!((result.status, result.error), (JobStatus::Cancelled, None));
    }
    assert!(batch.next().await.is_none());
}

#[tokio::test]
async fn deadline_cancels_the_batch() {
    let (options, _agent) = with(json!([[{"wait_cancel": true}]]));
    let options = options.timeout(Duration::from_millis(300));
    let mut batch = run_batch(["a"], options);
    assert_eq!(batch.next().await.unwrap().unwrap().status, JobStatus::Cancelled);
    assert!(batch.next().await.unwrap().unwrap_err().is_timeout());
    assert!(batch.next().await.is_none());
}

#[tokio::test]
async fn deadline_of_a_job_fails_it() {
    let (options, _agent) = with(json!([[{"wait_cancel": true}]]));
    let job = Job::new("a").timeout(Duration::from_millis(100));
    let results = all(run_batch([job], options.retry(Retry::new().attempts(1)))).await;
    assert!(results[0].error.as_ref().unwrap().is_timeout());
}

#[tokio::test]
async fn job_timeout_is_kept_with_later_session() {
    let agent = scripted_agent(json!([[{"wait_cancel": true}]]));
    let options = BatchOptions::new().job_timeout(Duration::from_millis(100)).retry(Retry::new().attempts(1));
    let options = options.session(SessionOptions::new().executable(&agent));
    let results = all(run_batch(["a"], options)).await;
    assert!(results[0].error.as_ref().unwrap().is_timeout());
}

#[tokio::test]
async fn wrong_options_end_the_batch() {
    for (options, name) in [
        (BatchOptions::new().concurrency(0), "concurrency"),
        (BatchOptions::new().retry(Retry::new().attempts(0)), "retry"),
        (BatchOptions::new().session(SessionOptions::new().session_id("one")), "session_id"),
        (BatchOptions::new().session(SessionOptions::new().max_steps_per_turn(0)), "max_steps_per_turn"),
        (BatchOptions::new().session(SessionOptions::new().on_approval_manual()), "on_approval"),
    ] {
        let mut batch = run_batch(["a"], options);
        let error = batch.next().await.unwrap().unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert!(batch.next().await.is_none());
    }
}

#[tokio::test]
async fn each_job_has_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let agent = scripted_agent(json!([[{"text": "{{prompt}}"}]]));
    let session = SessionOptions::new().executable(&agent).record(folder.path().join("runs"));
    let results = all(run_batch(["a", "b"], BatchOptions::new().session(session))).await;
    let paths: Vec<_> = results.iter().map(|result| result.recording.clone().unwrap()).collect();
    assert_ne!(paths[0], paths[1]);
    for (path, prompt) in paths.iter().zip(["a", "b"]) {
        let recording = std::fs::read_to_string(path).unwrap();
        assert!(recording.contains(&format!("\"user_input\":\"{prompt}\"")), "{recording}");
    }
}

#[test]
fn variable_names_directory_of_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, runs) = (folder.path().join("batch.jsonl"), folder.path().join("runs"));
    let variables = [("KIMI_BATCH_JOURNAL", journal.as_os_str()), ("KIMI_AGENT_RECORD", runs.as_os_str())];
    let child = super::child::Child::start(&variables);
    assert_eq!(child.lines().count(), 20);
    assert_eq!(std::fs::read_dir(&runs).unwrap().count(), 20);
    child.kill();
}

#[tokio::test]
async fn recordings_in_a_file_end_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs");
    std::fs::write(&path, "notes").unwrap();
    let agent = scripted_agent(json!([[{"text": "x"}]]));
    for given in [path.clone(), path.join("")] {
        let session = SessionOptions::new().executable(&agent).record(given);
        let mut batch = run_batch(["a", "b"], BatchOptions::new().session(session));
        let error = batch.next().await.unwrap().unwrap_err().to_string();
        assert!(error.starts_with("invalid option `record`: ") && error.contains("is not a directory"), "{error}");
        assert!(batch.next().await.is_none());
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes");
}

#[cfg(unix)]
#[tokio::test]
async fn sessions_over_acp_share_a_process() {
    let agent = scripted_agent(json!({"wire": "acp", "turns": [[{"text": "{{prompt}}"}]]}));
    let folder = tempfile::tempdir().unwrap();
    let words: Vec<_> = agent.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let script = "echo >> \"$0\"; exec \"$@\"";
    let starts = folder.path().join("starts");
    let mut command = vec!["sh".to_owned(), "-c".to_owned(), script.to_owned(), starts.to_string_lossy().into_owned()];
    command.extend(words);
    let session = SessionOptions::new().executable(command).dialect(Dialect::Acp);
    let options = BatchOptions::new().concurrency(5).session(session);
    let results = all(run_batch((0..20).map(|n| n.to_string()), options)).await;
    assert_eq!(texts(&results), (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(std::fs::read_to_string(starts).unwrap().lines().count(), 1);
}

#[test]
fn batch_without_runtime_fails() {
    let mut batch = run_batch(["a"], BatchOptions::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert_eq!(batch.next().await.unwrap().unwrap_err().code(), "spawn_error");
        batch.cancel().await;
    });
}

#[tokio::test]
async fn panic_of_source_ends_the_batch() {
    let (options, _agent) = with(json!([[{"text": "{{prompt}}"}]]));
    let jobs = (0..3).map(|number| if number == 2 { panic!("no more") } else { number.to_string() });
    let mut batch = run_batch(jobs, options);
    let mut texts = Vec::new();
    let error = loop {
        match batch.next().await.unwrap() {
            Ok(result) => texts.push(result.result.unwrap().text),
            Err(error) => break error,
        }
    };
    texts.sort();
    assert_eq!(texts, ["0", "1"]);
    assert!(error.to_string().contains("the source of the jobs has panicked"), "{error}");
    assert!(batch.next().await.is_none());
}

#[tokio::test]
async fn panic_of_batch_is_an_error() {
    struct NoHint;
    impl Iterator for NoHint {
        type Item = String;
        fn next(&mut self) -> Option<String> {
            None
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            panic!("no hint")
        }
    }
    let (options, _agent) = with(json!([]));
    let mut batch = run_batch(NoHint, options);
    let error = batch.next().await.unwrap().unwrap_err();
    assert_eq!(error.code(), "internal_error");
    assert!(error.to_string().contains("has panicked"), "{error}");
    assert!(batch.next().await.is_none());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn work_dir_that_is_not_utf8_is_contained() {
    use std::os::unix::ffi::OsStringExt as _;
    let folder = tempfile::tempdir().unwrap();
    let work_dir = folder.path().join(std::ffi::OsString::from_vec(vec![b'd', 0xff]));
    std::fs::create_dir(&work_dir).unwrap();
    let (options, _agent) = with(json!([[{"text": "{{prompt}}"}]]));
    let results = all(run_batch([Job::new("a").work_dir(work_dir), Job::new("b")], options)).await;
    assert_eq!((results.len(), texts(&results)[1]), (2, "b"));
}

#[tokio::test]
async fn panic_of_progress_is_contained() {
    let (options, _agent) = with(json!([[{"text": "x"}]]));
    let results = all(run_batch(["a", "b"], options.on_progress(|_| panic!("no terminal")))).await;
    assert!(results.iter().all(|result| result.status == JobStatus::Finished));
}

#[tokio::test]
async fn job_has_agent_of_its_own_and_owns_it() {
    let (options, _agent) = with(json!([[{"text": "of the batch"}]]));
    let own = Job::new("a").option("executable", scripted_agent(json!([[{"text": "of the job"}]])));
    let results = all(run_batch([own, Job::new("b")], options.retry(1))).await;
    assert_eq!(texts(&results), ["of the job", "of the batch"]);
}

#[tokio::test]
async fn number_of_attempts_is_retry() {
    let script = json!([[{"error": {"code": -32003, "message": "overloaded"}}]]);
    let (options, _agent) = with(script);
    assert_eq!(all(run_batch(["a"], options.clone().retry(1))).await[0].attempts, 1);
    assert_eq!(options.retry(0).validate().unwrap_err().code(), "invalid_option");
    assert_eq!(Retry::from(3), Retry::new());
}
