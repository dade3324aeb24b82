//! The state of a batch: which jobs run, which wait for another attempt, and how many may run at once.
//!
//! The number of concurrent jobs follows the rule of TCP's congestion control (additive increase, multiplicative decrease,
//! RFC 5681): an overloaded service halves it, and as many successes in a row as may run at once raise it by one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::retry::{LONGEST_WAIT, Retry};

/// The number of a job in its batch, from 0 on.
pub type JobId = u64;

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Get the next job from the source, and report it with [`Scheduler::handle_job`], [`Scheduler::handle_known`] or
    /// [`Scheduler::handle_source_end`]. Wait for it at most until [`Scheduler::next_retry`].
    Pull,
    /// Run this job, for the `attempt`-th time.
    Retry {
        /// The job.
        job: JobId,
        /// The number of the attempt, from 2 on.
        attempt: u32,
    },
    /// Wait for something to happen, at most until this time.
    Wait(Option<Instant>),
    /// All jobs have ended.
    End,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// It has a result.
    Success,
    /// It failed.
    Failure {
        /// Whether another attempt is allowed.
        may_retry: bool,
        /// Whether the model's service is overloaded.
        is_overload: bool,
        /// How long the model's service asks to wait.
        retry_after: Option<Duration>,
    },
    /// It was cancelled.
    Cancelled,
}

/// Numbers for the progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that run.
    pub running: usize,
    /// Jobs that wait for another attempt.
    pub waiting: usize,
    /// Attempts after the first one.
    pub retried: u64,
    /// How many may run at once at the moment.
    pub concurrency: usize,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    number: u32,
    /// The number of the start among all starts.
    start: u64,
}

/// The state of a batch.
#[derive(Debug)]
pub struct Scheduler {
    retry: Retry,
    /// The configured limit of jobs that run at once.
    most: usize,
    /// The present limit.
    limit: usize,
    /// The successes since the last change of the limit.
    successes: usize,
    running: BTreeMap<JobId, Attempt>,
    /// The jobs that wait for their next attempt, with the number of the last one.
    waiting: BTreeMap<(Instant, JobId), u32>,
    /// Nothing starts before.
    hold: Option<Instant>,
    starts: u64,
    /// Attempts that began before this start do not halve the limit again: they met the same overload.
    halved_at: u64,
    next_job: JobId,
    retried: u64,
    is_source_over: bool,
}

impl Scheduler {
    /// Makes the state of a batch that runs up to `concurrency` jobs at once.
    pub fn new(concurrency: usize, retry: Retry) -> Self {
        let most = concurrency.max(1);
        Self {
            retry,
            most,
            limit: most,
            successes: 0,
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            hold: None,
            starts: 0,
            halved_at: 0,
            next_job: 0,
            retried: 0,
            is_source_over: false,
        }
    }

    /// Returns the next thing to do. `unread` is the number of results that wait for the program: while there are many,
    /// nothing starts.
    pub fn poll(&self, now: Instant, unread: usize) -> Step {
        if self.is_source_over && self.running.is_empty() && self.waiting.is_empty() {
            return Step::End;
        }
        if self.running.len() >= self.limit || self.running.len() + unread >= 2 * self.most {
            return Step::Wait(None);
        }
        if let Some(hold) = self.hold.filter(|hold| *hold > now) {
            return Step::Wait(Some(hold));
        }
        let due = self.waiting.first_key_value().filter(|((due, _), _)| *due <= now);
        if let Some(((_, job), attempt)) = due {
            return Step::Retry { job: *job, attempt: attempt + 1 };
        }
        // Jobs that wait are kept in memory, so their number is limited, too.
        if !self.is_source_over && self.waiting.len() < self.most {
            return Step::Pull;
        }
        Step::Wait(self.next_retry())
    }

    /// Returns when the first job that waits may start its next attempt. While the source has no job to pull, call
    /// [`poll`](Self::poll) again at this time.
    pub fn next_retry(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// The source has a job, which now runs for the first time. Returns its number.
    pub fn handle_job(&mut self) -> JobId {
        let job = self.handle_known();
        self.start(job, 1);
        job
    }

    /// The source has a job whose result is known already. Returns its number.
    pub fn handle_known(&mut self) -> JobId {
        let job = self.next_job;
        self.next_job += 1;
        job
    }

    /// Returns the number of the next job of the source.
    pub fn next_job(&self) -> JobId {
        self.next_job
    }

    /// The job of [`Step::Retry`] runs now.
    pub fn handle_retry(&mut self, job: JobId) {
        let waiting =
            self.waiting.iter().find(|((_, waiting), _)| *waiting == job).map(|(key, number)| (*key, *number));
        if let Some((key, number)) = waiting {
            self.waiting.remove(&key);
            self.retried += 1;
            self.start(job, number + 1);
        }
    }

    /// The source has no more jobs.
    pub fn handle_source_end(&mut self) {
        self.is_source_over = true;
    }

    /// An attempt has ended. `random` is a random number from 0 to 1. Returns the delay before the next attempt; `None` if
    /// the job has ended.
    pub fn handle_outcome(
        &mut self,
        job: JobId,
        outcome: AttemptOutcome,
        now: Instant,
        random: f64,
    ) -> Option<Duration> {
        let attempt = self.running.remove(&job)?;
        match outcome {
            AttemptOutcome::Success => self.count_success(),
            AttemptOutcome::Cancelled => {}
            AttemptOutcome::Failure { may_retry, is_overload, retry_after } => {
                self.successes = 0;
                // A wait that is too long is not waited for, and must not stop the other jobs.
                let asked = retry_after.filter(|asked| *asked <= LONGEST_WAIT).unwrap_or_default();
                let delay = self.retry.delay(attempt.number, random).max(asked);
                if is_overload {
                    self.slow_down(attempt, now + delay);
                }
                if may_retry && !self.is_stopped() {
                    self.waiting.insert((now + delay, job), attempt.number);
                    return Some(delay);
                }
            }
        }
        None
    }

    /// Starts nothing more. Returns the jobs that wait for another attempt, which they do not get.
    pub fn handle_stop(&mut self) -> Vec<JobId> {
        self.is_source_over = true;
        self.most = 0;
        std::mem::take(&mut self.waiting).into_keys().map(|(_, job)| job).collect()
    }

    /// Returns whether nothing starts any more.
    pub fn is_stopped(&self) -> bool {
        self.most == 0
    }

    /// Returns the numbers for the progress.
    pub fn counts(&self) -> Counts {
        Counts {
            running: self.running.len(),
            waiting: self.waiting.len(),
            retried: self.retried,
            concurrency: self.limit,
        }
    }

    fn start(&mut self, job: JobId, number: u32) {
        self.starts += 1;
        self.running.insert(job, Attempt { number, start: self.starts });
    }

    fn count_success(&mut self) {
        self.successes += 1;
        if self.successes >= self.limit && self.limit < self.most {
            self.limit += 1;
            self.successes = 0;
        }
    }

    fn slow_down(&mut self, attempt: Attempt, until: Instant) {
        self.hold = self.hold.max(Some(until));
        if attempt.start > self.halved_at {
            self.limit = (self.limit / 2).max(1);
            self.halved_at = self.starts;
        }
    }
}
