//! The one thread that forks. Linux sends the parent-death signal when the *thread* that forked ends, so agents must
//! not be started from threads that come and go, as a runtime's do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

struct Spawner {
    /// Threads do not survive a fork: another id means that ours is gone.
    host: u32,
    jobs: Sender<Job>,
}

static SPAWNER: Mutex<Option<Spawner>> = Mutex::new(None);

/// Runs a job on the spawner thread. None if it panicked.
pub(super) async fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> std::io::Result<Option<T>> {
    let (reply, answer) = oneshot::channel();
    submit(Box::new(move || {
        if let Ok(done) = catch_unwind(AssertUnwindSafe(job)) {
            // If nobody waits any more, dropping the result undoes it.
            drop(reply.send(done));
        }
    }))?;
    Ok(answer.await.ok())
}

/// Has a job done for which no thread is worth being started.
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
    async fn jobs_share_a_thread_that_survives_panics() {
        let id = || std::thread::current().id();
        let first = super::run(id).await.unwrap();

        let panicked = super::run(|| -> () { panic!("on purpose") }).await.unwrap();
        assert_eq!(panicked, None);
        assert_eq!(super::run(id).await.unwrap(), first);
        assert_ne!(first, Some(id()));
    }
}
