//! A batch, for the bindings. The host gives the jobs one by one, and reads the results one by one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::mailbox::{JobKind, Mailbox, Payload, Reply};
use super::session::prepare;
use super::{Callbacks, Naming, log, telemetry};
use crate::HandlerError;
use crate::error::{Result, invalid_option};
use kimi_agent_client::batch::{Batch, Job, Progress};
use kimi_agent_client::host::{self, BatchControl, Jobs};

/// The host's call for the next job, which it has not answered yet.
type NextJob = Pin<Box<dyn Future<Output = std::result::Result<Value, HandlerError>> + Send>>;

/// A running batch.
#[derive(Debug)]
pub struct BridgeBatch {
    /// The key of the batch in its jobs.
    pub key: u64,
    batch: Arc<Mutex<Batch>>,
    control: Arc<BatchControl>,
    mailbox: Arc<Mailbox>,
    runtime: Handle,
    /// The route of its log records.
    _route: log::Route,
}

impl BridgeBatch {
    /// Starts a batch. `options` are those of the batch and of its sessions, with the names and units of the host, and
    /// `total`: the number of jobs, if the host knows it. Handlers of all sessions get `key`, from
    /// [`next_id`](crate::next_id).
    ///
    /// The batch asks for its jobs with [`JobKind::NextJob`], one by one: the answer is a job as JSON, or null after the last
    /// one. If `reports_progress`, it sends [`JobKind::Progress`], which needs no answer.
    ///
    /// # Errors
    /// Returns the error for a wrong option. Other errors end a ticket of [`next`](Self::next).
    pub fn open(
        key: u64,
        mailbox: Arc<Mailbox>,
        runtime: Handle,
        mut options: Map<String, Value>,
        naming: Naming,
        callbacks: Callbacks,
        reports_progress: bool,
    ) -> Result<Self> {
        let total = match options.remove("total") {
            None | Some(Value::Null) => None,
            Some(total) => total.as_u64(),
        };
        let traced = telemetry::take(&mut options, naming)?;
        let is_remote = options.remove("on").is_some_and(|on| on == true);
        let mut batch = host::take_batch_options(&mut options, naming)?;
        let mut session = prepare(key, &mailbox, options, naming, callbacks)?;
        // The machines that run jobs have spans of their own.
        if let Some(traced) = traced.filter(|_| !is_remote) {
            traced.apply_to_jobs(&mut session, key, &mailbox);
        }
        batch = batch.session(session);
        if is_remote {
            let mailbox = Arc::clone(&mailbox);
            host::set_runner(&mut batch, move |request| {
                let answer = mailbox.call(key, JobKind::RunJob, None, Payload::Arguments(request));
                async move { answer.await.map_err(|error| error.to_string()) }
            });
        }
        if reports_progress {
            let mailbox = Arc::clone(&mailbox);
            batch = batch.on_progress(move |progress| mailbox.call_progress(key, progress_json(&progress, naming)));
        }
        batch.validate()?;
        let source = HostJobs { key, mailbox: Arc::clone(&mailbox), naming, left: total, next: None };
        let name = format!("batch-{key}");
        let route = log::Route::new(&name, &mailbox);
        let span = tracing::info_span!("batch", session = name.as_str());
        let batch = span.in_scope(|| host::start_batch(Box::pin(source), batch, runtime.clone()));
        let control = host::batch_control(&batch);
        Ok(Self { key, batch: Arc::new(Mutex::new(batch)), control, mailbox, runtime, _route: route })
    }

    /// Waits for the next result. The ticket ends with [`Reply::JobResult`], which is empty after the last result, or with the
    /// error that ended the batch.
    pub fn next(&self) -> u64 {
        let batch = Arc::clone(&self.batch);
        self.mailbox.run(&self.runtime, async move {
            let next = batch.lock().await.next().await;
            next.transpose().map(|result| Reply::JobResult(result.map(Box::new)))
        })
    }

    /// Cancels the batch. The ticket ends when all jobs have ended; their results can still be read.
    pub fn cancel(&self) -> u64 {
        let control = Arc::clone(&self.control);
        control.begin_cancel();
        self.mailbox.run(&self.runtime, async move {
            control.ended().await;
            Ok(Reply::Nothing)
        })
    }

    /// Cancels the batch in the background, because the program has left it.
    pub fn abandon(&self) {
        self.control.leave();
    }
}

impl Drop for BridgeBatch {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Returns the progress for the host. Its duration has the unit of the host.
fn progress_json(progress: &Progress, naming: Naming) -> Value {
    json!({
        "total": progress.total,
        "done": progress.done,
        "failed": progress.failed,
        "running": progress.running,
        "waiting": progress.waiting,
        "retried": progress.retried,
        "tokens": progress.tokens,
        "concurrency": progress.concurrency,
        "elapsed": progress.elapsed.as_secs_f64() / naming.unit().1,
    })
}

/// Reads a job. If the host has found a mistake in one of its values, the key `$mistake` has `{"option", "reason"}`.
fn parse_job(mut job: Value, naming: Naming) -> Job {
    let mistake = job.as_object_mut().and_then(|fields| fields.remove("$mistake"));
    match mistake {
        None => host::parse_job(job, naming),
        Some(mistake) => {
            let text = |name: &str| mistake[name].as_str().unwrap_or_default();
            host::failing_job(job, naming, invalid_option(text("option"), text("reason")))
        }
    }
}

/// The jobs of the host.
struct HostJobs {
    key: u64,
    mailbox: Arc<Mailbox>,
    naming: Naming,
    /// The number of jobs that are left, if the host knows it.
    left: Option<u64>,
    next: Option<NextJob>,
}

impl Jobs for HostJobs {
    fn poll_job(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Job>>> {
        let this = &mut *self;
        let next = this.next.get_or_insert_with(|| {
            Box::pin(this.mailbox.call(this.key, JobKind::NextJob, None, Payload::Arguments(Value::Null)))
        });
        let answer = ready!(next.as_mut().poll(cx));
        this.next = None;
        this.left = this.left.map(|left| left.saturating_sub(1));
        Poll::Ready(match answer {
            Ok(Value::Null) => None,
            Ok(job) => Some(Ok(parse_job(job, this.naming))),
            Err(error) => Some(Err(invalid_option("jobs", format!("the source of the jobs failed: {error}")))),
        })
    }

    fn total(&self) -> Option<u64> {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use kimi_agent_client::testing::scripted_agent;

    use super::super::{Delivery, Mode};
    use super::*;

    /// A host with jobs, which answers as a binding does.
    struct Host {
        mailbox: Arc<Mailbox>,
        bell: mpsc::Receiver<()>,
        jobs: std::vec::IntoIter<std::result::Result<Value, String>>,
        progress: Vec<Value>,
        asked: usize,
    }

    impl Host {
        fn new(jobs: Vec<std::result::Result<Value, String>>) -> Self {
            let (sender, bell) = mpsc::channel();
            let mailbox = Mailbox::new(move || sender.send(()).unwrap_or_default());
            Self { mailbox, bell, jobs: jobs.into_iter(), progress: Vec::new(), asked: 0 }
        }

        fn open(&self, options: Value) -> Result<BridgeBatch> {
            let options = options.as_object().cloned().unwrap_or_default();
            let runtime = crate::runtime()?.handle().clone();
            let callbacks = Callbacks::default();
            BridgeBatch::open(7, Arc::clone(&self.mailbox), runtime, options, Naming::Snake, callbacks, true)
        }

        /// Answers deliveries until the ticket ends.
        fn outcome(&mut self, ticket: u64) -> Result<Reply> {
            loop {
                self.bell.recv().expect("a delivery");
                let mut ended = None;
                for delivery in self.mailbox.drain() {
                    match delivery {
                        Delivery::Done { ticket: done, outcome } if done == ticket => ended = Some(outcome),
                        Delivery::Job { id, session: 7, kind: JobKind::NextJob, .. } => {
                            self.asked += 1;
                            self.mailbox.finish_job(id, self.jobs.next().unwrap_or(Ok(Value::Null)));
                        }
                        Delivery::Job { kind: JobKind::Progress, payload: Payload::Arguments(progress), .. } => {
                            self.progress.push(progress);
                        }
                        _ => {}
                    }
                }
                if let Some(outcome) = ended {
                    return outcome;
                }
            }
        }

        fn next(&mut self, batch: &BridgeBatch) -> Result<Option<Value>> {
            match self.outcome(batch.next())? {
                Reply::JobResult(result) => Ok(result.map(|result| result.to_json())),
                other => panic!("{other:?}"),
            }
        }
    }

    fn executable(script: Value) -> (Vec<String>, kimi_agent_client::testing::ScriptedAgent) {
        let agent = scripted_agent(script);
        (agent.iter().map(|word| word.to_string_lossy().into_owned()).collect(), agent)
    }

    #[test]
    fn host_jobs_are_run() {
        let (executable, _agent) = executable(json!([[{"text": "{{prompt}}"}]]));
        let mut host = Host::new(vec![Ok(json!("a")), Ok(json!({"prompt": "b", "key": "k", "data": [1]}))]);
        let batch = host.open(json!({"executable": executable, "concurrency": 1, "total": 2})).unwrap();
        let first = host.next(&batch).unwrap().unwrap();
        assert_eq!((&first["result"]["text"], &first["status"]), (&json!("a"), &json!("finished")));
        let second = host.next(&batch).unwrap().unwrap();
        assert_eq!((&second["key"], &second["data"], &second["index"]), (&json!("k"), &json!([1]), &json!(1)));
        assert!(host.next(&batch).unwrap().is_none());
        assert_eq!(host.asked, 3);
        let last = host.progress.last().unwrap();
        assert_eq!((&last["total"], &last["done"], &last["running"]), (&json!(2), &json!(2), &json!(0)));
    }

    #[test]
    fn mistake_of_host_fails_the_job() {
        let mistake = json!({"option": "prompt", "reason": "expected text"});
        let mut host = Host::new(vec![Ok(json!({"key": "k", "$mistake": mistake})), Ok(json!("b"))]);
        let (executable, _agent) = executable(json!([[{"text": "{{prompt}}"}]]));
        let batch = host.open(json!({"executable": executable, "concurrency": 1})).unwrap();
        let first = host.next(&batch).unwrap().unwrap();
        assert_eq!((&first["key"], &first["status"]), (&json!("k"), &json!("failed")));
        assert_eq!(first["error"]["message"], "invalid option `prompt`: expected text");
        assert_eq!(host.next(&batch).unwrap().unwrap()["result"]["text"], "b");
    }

    #[test]
    fn failing_source_ends_the_batch() {
        let (executable, _agent) = executable(json!([[{"text": "{{prompt}}"}]]));
        let mut host = Host::new(vec![Ok(json!("a")), Err("boom".to_owned())]);
        let batch = host.open(json!({"executable": executable})).unwrap();
        assert_eq!(host.next(&batch).unwrap().unwrap()["result"]["text"], "a");
        assert!(host.next(&batch).unwrap_err().to_string().contains("the source of the jobs failed: boom"));
        assert!(host.next(&batch).unwrap().is_none());
    }

    #[test]
    fn cancelled_batch_ends() {
        let (executable, _agent) = executable(json!([[{"wait_cancel": true}]]));
        let mut host = Host::new(vec![Ok(json!("a"))]);
        let batch = host.open(json!({"executable": executable})).unwrap();
        while !host.progress.iter().any(|progress| progress["running"] == 1) {
            host.bell.recv().unwrap();
            for delivery in host.mailbox.drain() {
                match delivery {
                    Delivery::Job { id, kind: JobKind::NextJob, .. } => {
                        host.mailbox.finish_job(id, host.jobs.next().unwrap_or(Ok(Value::Null)));
                    }
                    Delivery::Job { payload: Payload::Arguments(progress), .. } => host.progress.push(progress),
                    _ => {}
                }
            }
        }
        host.outcome(batch.cancel()).unwrap();
        assert_eq!(host.next(&batch).unwrap().unwrap()["status"], "cancelled");
        assert!(host.next(&batch).unwrap().is_none());
    }

    #[test]
    fn wrong_option_is_refused_at_once() {
        let host = Host::new(Vec::new());
        assert!(host.open(json!({"concurrency": 0})).unwrap_err().to_string().contains("`concurrency`"));
        assert!(host.open(json!({"modle": "m"})).unwrap_err().to_string().contains("did you mean `model`"));
        assert!(host.open(json!({"telemetry": 1})).unwrap_err().to_string().contains("`telemetry`"));
        let callbacks = Callbacks { on_approval: Mode::Manual, ..Callbacks::default() };
        let runtime = crate::runtime().unwrap().handle().clone();
        let mailbox = Arc::clone(&host.mailbox);
        let opened = BridgeBatch::open(7, mailbox, runtime, Map::new(), Naming::Snake, callbacks, false);
        assert!(opened.unwrap_err().to_string().contains("set a function"));
    }
}
