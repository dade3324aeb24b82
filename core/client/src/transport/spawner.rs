//! The one thread that forks. Linux sends the parent-death signal when the *thread* that forked ends. So agents must
//! not be started from threads that may end earlier than the program, such as those of a runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

struct Spawner {
    /// The process of the thread. Threads do not survive a fork, so another id means that the thread does not exist
    /// here.
    host: u32,
    jobs: Sender<Job>,
}

static SPAWNER: Mutex<Option<Spawner>> = Mutex::new(None);

/// Runs a job on the spawner thread. None if it panicked.
pub(super) async fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> std::io::Result<Option<T>> {
    let (reply, answer) = oneshot::channel();
    submit(Box::new(move || {
        if let Ok(done) = catch_unwind(AssertUnwindSafe(job)) {
            // If the caller no longer waits, dropping the result ends the process.
            drop(reply.send(done));
        }
    }))?;
    Ok(answer.await.ok())
}

/// Runs a job on the spawner thread if it exists, because the job is not worth a new thread.
pub(super) fn submit_if_running(job: Job) {
    let spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = spawner.as_ref().filter(|spawner| spawner.host == std::process::id()) {
        drop(running.jobs.send(job));
    }
}

fn submit(job: Job) -> std::io::Result<()> {
    let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    let job = match spawner.as_ref().filter(|spawner| spawner.host == std::process::id()) {
        Some(running) => match running.jobs.send(job) {
            Ok(()) => return Ok(()),
            Err(unsent) => unsent.0,
        },
        None => job,
    };
    let (jobs, queue) = channel::<Job>();
    std::thread::Builder::new()
        .name("kimi-agent-spawn".to_owned())
        .spawn(move || queue.into_iter().for_each(|job| job()))?;
    drop(jobs.send(job));
    *spawner = Some(Spawner { host: std::process::id(), jobs });
    Ok(())
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn spawner_thread_survives_panics() {
        let id = || std::thread::current().id();
        let first = super::run(id).await.unwrap();

        let panicked = super::run(|| -> () { panic!("on purpose") }).await.unwrap();
        assert_eq!(panicked, None);
        assert_eq!(super::run(id).await.unwrap(), first);
        assert_ne!(first, Some(id()));
    }
}
