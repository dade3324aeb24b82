use std::time::{Duration, Instant};

use super::{AttemptOutcome, JobId, Retry, Scheduler, Step, is_overload};
use crate::error::{Error, RpcErrorKind, local_error};

const SECOND: Duration = Duration::from_secs(1);
const OVERLOAD: AttemptOutcome = AttemptOutcome::Failure { may_retry: true, is_overload: true, retry_after: None };
const BROKEN: AttemptOutcome = AttemptOutcome::Failure { may_retry: true, is_overload: false, retry_after: None };
const FINAL: AttemptOutcome = AttemptOutcome::Failure { may_retry: false, is_overload: false, retry_after: None };

/// Starts new jobs until the scheduler wants something else.
fn fill(scheduler: &mut Scheduler, now: Instant) -> Vec<JobId> {
    let mut jobs = Vec::new();
    while scheduler.poll(now, 0) == Step::Pull {
        jobs.push(scheduler.handle_job());
    }
    jobs
}

#[test]
fn jobs_start_up_to_the_limit() {
    let now = Instant::now();
    let mut scheduler = Scheduler::new(3, Retry::new());
    assert_eq!(fill(&mut scheduler, now), [0, 1, 2]);
    assert_eq!(scheduler.poll(now, 0), Step::Wait(None));
    assert_eq!(scheduler.handle_outcome(1, AttemptOutcome::Success, now, 0.5), None);
    assert_eq!(fill(&mut scheduler, now), [3]);
    scheduler.handle_source_end();
    for job in [0, 2, 3] {
        assert_ne!(scheduler.poll(now, 0), Step::End);
        scheduler.handle_outcome(job, AttemptOutcome::Success, now, 0.5);
    }
    assert_eq!(scheduler.poll(now, 7), Step::End);
}

#[test]
fn unread_results_stop_new_jobs() {
    let now = Instant::now();
    let mut scheduler = Scheduler::new(2, Retry::new());
    assert_eq!(scheduler.poll(now, 3), Step::Pull);
    assert_eq!(scheduler.poll(now, 4), Step::Wait(None));
    scheduler.handle_job();
    assert_eq!(scheduler.poll(now, 3), Step::Wait(None));
}

#[test]
fn retry_waits_for_its_delay() {
    let now = Instant::now();
    let mut scheduler = Scheduler::new(1, Retry::new());
    fill(&mut scheduler, now);
    assert_eq!(scheduler.handle_outcome(0, BROKEN, now, 0.5), Some(SECOND / 2));
    scheduler.handle_source_end();
    assert_eq!(scheduler.poll(now, 0), Step::Wait(Some(now + SECOND / 2)));
    let later = now + SECOND;
    assert_eq!(scheduler.poll(later, 0), Step::Retry { job: 0, attempt: 2 });
    scheduler.handle_retry(0);
    assert_eq!((scheduler.counts().retried, scheduler.counts().running), (1, 1));
    assert_eq!(scheduler.handle_outcome(0, BROKEN, later, 1.0), Some(2 * SECOND));
    assert_eq!(scheduler.poll(later + 2 * SECOND, 0), Step::Retry { job: 0, attempt: 3 });
    scheduler.handle_retry(0);
    assert_eq!(scheduler.handle_outcome(0, FINAL, later, 1.0), None);
    assert_eq!(scheduler.poll(later, 0), Step::End);
}

#[test]
fn retry_waits_as_long_as_service_asks() {
    let now = Instant::now();
    for (asked, delay) in [(90, 90), (300, 300), (301, 1), (0, 1)] {
        let mut scheduler = Scheduler::new(1, Retry::new());
        scheduler.handle_job();
        let asked = Some(Duration::from_secs(asked));
        let outcome = AttemptOutcome::Failure { may_retry: true, is_overload: true, retry_after: asked };
        assert_eq!(scheduler.handle_outcome(0, outcome, now, 1.0), Some(Duration::from_secs(delay)));
    }
}

#[test]
fn long_retry_after_ends_job() {
    let limit = |text: &str| local_error(RpcErrorKind::LlmServiceError, &format!("usage limit, try again in {text}"));
    for (text, allows) in [("5 minutes", true), ("5 minutes 1 seconds", false), ("3 days", false)] {
        assert_eq!(Retry::new().allows(1, &limit(text)), allows, "{text}");
        assert_eq!(Retry::new().refused_wait(1, &limit(text)).is_none(), allows, "{text}");
    }
    assert_eq!(Retry::new().refused_wait(3, &limit("3 days")), None, "no attempt is left");
}

#[test]
fn other_jobs_run_during_a_delay() {
    let now = Instant::now();
    let mut scheduler = Scheduler::new(1, Retry::new());
    fill(&mut scheduler, now);
    scheduler.handle_outcome(0, BROKEN, now, 1.0);
    assert_eq!(scheduler.poll(now, 0), Step::Wait(Some(now + SECOND)), "one job waits already");
    let mut scheduler = Scheduler::new(2, Retry::new());
    fill(&mut scheduler, now);
    scheduler.handle_outcome(0, BROKEN, now, 1.0);
    assert_eq!((scheduler.poll(now, 0), scheduler.next_retry()), (Step::Pull, Some(now + SECOND)));
}

#[test]
fn delay_grows_to_its_limit() {
    let retry = Retry::new().initial_delay(SECOND).max_delay(5 * SECOND).multiplier(3.0);
    let delays = [1, 2, 3, 4, u32::MAX].map(|attempt| retry.delay(attempt, 1.0));
    assert_eq!(delays, [SECOND, 3 * SECOND, 5 * SECOND, 5 * SECOND, 5 * SECOND]);
    assert_eq!(retry.delay(3, 0.0), Duration::ZERO);
    assert_eq!(retry.initial_delay(Duration::ZERO).delay(u32::MAX, 1.0), Duration::ZERO);
}

#[test]
fn overload_halves_the_limit_once() {
    let now = Instant::now();
    let mut scheduler = Scheduler::new(8, Retry::new());
    for job in fill(&mut scheduler, now) {
        scheduler.handle_outcome(job, OVERLOAD, now, 0.5);
    }
    assert_eq!((scheduler.counts().concurrency, scheduler.counts().waiting), (4, 8));
    assert_eq!(scheduler.poll(now, 0), Step::Wait(Some(now + SECOND / 2)));
    let later = now + SECOND;
    let mut started = Vec::new();
    while let Step::Retry { job, .. } = scheduler.poll(later, 0) {
        scheduler.handle_retry(job);
        started.push(job);
    }
    assert_eq!(started.len(), 4);
    scheduler.handle_outcome(started[0], OVERLOAD, later, 0.5);
    assert_eq!(scheduler.counts().concurrency, 2);
}

#[test]
fn limit_never_reaches_zero() {
    let now = Instant::now();
    let mut scheduler = Scheduler::new(1, Retry::new());
    fill(&mut scheduler, now);
    scheduler.handle_outcome(0, OVERLOAD, now, 1.0);
    assert_eq!(scheduler.counts().concurrency, 1);
}

#[test]
fn successes_raise_the_limit() {
    let now = Instant::now();
    let mut scheduler = Scheduler::new(4, Retry::new());
    fill(&mut scheduler, now);
    scheduler.handle_outcome(
        0,
        AttemptOutcome::Failure { may_retry: false, is_overload: true, retry_after: None },
        now,
        0.0,
    );
    let mut limits = Vec::new();
    for job in 1..12 {
        scheduler.handle_outcome(job, AttemptOutcome::Success, now, 0.0);
        limits.push(scheduler.counts().concurrency);
        fill(&mut scheduler, now);
    }
    assert_eq!(limits, [2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4]);
}

#[test]
fn failure_interrupts_a_row_of_successes() {
    let now = Instant::now();
    let mut scheduler = Scheduler::new(4, Retry::new());
    fill(&mut scheduler, now);
    scheduler.handle_outcome(0, OVERLOAD, now, 0.0);
    scheduler.handle_outcome(1, AttemptOutcome::Success, now, 0.0);
    scheduler.handle_outcome(2, FINAL, now, 0.0);
    scheduler.handle_outcome(3, AttemptOutcome::Success, now, 0.0);
    assert_eq!(scheduler.counts().concurrency, 2);
}

#[test]
fn stop_returns_waiting_jobs() {
    let now = Instant::now();
    let mut scheduler = Scheduler::new(3, Retry::new());
    fill(&mut scheduler, now);
    scheduler.handle_outcome(1, BROKEN, now, 1.0);
    assert_eq!(scheduler.handle_stop(), [1]);
    assert!(scheduler.is_stopped());
    assert_eq!(scheduler.poll(now, 0), Step::Wait(None));
    assert_eq!(scheduler.handle_outcome(0, BROKEN, now, 1.0), None);
    scheduler.handle_outcome(2, AttemptOutcome::Cancelled, now, 1.0);
    assert_eq!(scheduler.poll(now, 0), Step::End);
}

#[test]
fn wrong_retry_is_refused() {
    assert!(Retry::new().validate().is_ok());
    for wrong in [
        Retry::new().attempts(0),
        Retry::new().multiplier(0.5),
        Retry::new().multiplier(f64::NAN),
        Retry::new().max_delay(Duration::MAX),
    ] {
        assert_eq!(wrong.validate().unwrap_err().code(), "invalid_option");
    }
}

#[test]
fn service_error_is_an_overload() {
    assert!(is_overload(&local_error(RpcErrorKind::LlmServiceError, "overloaded")));
    assert!(!is_overload(&local_error(RpcErrorKind::LlmServiceError, "Error code: 400 - {}")));
    assert!(!is_overload(&Error::Timeout("slow".into())));
}
