//! The delays between the attempts of a job: exponential backoff with full jitter, as in "Exponential Backoff And Jitter"
//! of the AWS Architecture Blog.

use std::time::Duration;

use crate::error::{Error, Result, invalid_option};
use crate::options::LONGEST;

/// The limit of the time that a service may ask to wait before the next attempt.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How often a job of a batch is attempted, and how long the batch waits before the next attempt.
///
/// Only errors that [`Error::is_retryable`] names are retried. The delay before attempt `n + 1` is a random time between
/// zero and `initial_delay * multiplier^(n - 1)`, at most `max_delay`. If the model's service asks for a longer delay, the
/// batch waits that long. If the service asks for more than five minutes, the job is not retried.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use std::time::Duration;
///
/// use kimi_agent::batch::Retry;
/// let retry = Retry::new().attempts(5).initial_delay(Duration::from_secs(2));
/// assert_ne!(retry, Retry::new());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    attempts: u32,
    initial_delay: Duration,
    max_delay: Duration,
    multiplier: f64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 3, initial_delay: Duration::from_secs(1), max_delay: Duration::from_secs(60), multiplier: 2.0 }
    }
}

/// A number of attempts, with the delays of the default.
impl From<u32> for Retry {
    fn from(attempts: u32) -> Self {
        Self::new().attempts(attempts)
    }
}

impl Retry {
    /// Makes the default: 3 attempts, with delays of up to 1 second and up to 2 seconds between them.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let retry = kimi_agent::batch::Retry::new();
    /// # assert_eq!(retry, Default::default());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how often a job is attempted, including the first time, at least 1. Default: 3. With 1 nothing is retried.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let never = kimi_agent::batch::Retry::new().attempts(1);
    /// # assert_ne!(never, Default::default());
    /// ```
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the longest delay before the second attempt. Default: 1 second.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use std::time::Duration;
    /// let retry = kimi_agent::batch::Retry::new().initial_delay(Duration::from_millis(500));
    /// # assert_ne!(retry, Default::default());
    /// ```
    #[must_use]
    pub fn initial_delay(mut self, initial_delay: Duration) -> Self {
        self.initial_delay = initial_delay;
        self
    }

    /// Sets the longest delay before any attempt. Default: 60 seconds.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use std::time::Duration;
    /// let retry = kimi_agent::batch::Retry::new().max_delay(Duration::from_secs(300));
    /// # assert_ne!(retry, Default::default());
    /// ```
    #[must_use]
    pub fn max_delay(mut self, max_delay: Duration) -> Self {
        self.max_delay = max_delay;
        self
    }

    /// Sets the factor between two delays, at least 1. Default: 2.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let retry = kimi_agent::batch::Retry::new().multiplier(3.0);
    /// # assert_ne!(retry, Default::default());
    /// ```
    #[must_use]
    pub fn multiplier(mut self, multiplier: f64) -> Self {
        self.multiplier = multiplier;
        self
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for the option `retry`.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert!(kimi_agent::batch::Retry::new().attempts(0).validate().is_err());
    /// ```
    pub fn validate(&self) -> Result<()> {
        let wrong = |reason: String| Err(invalid_option("retry", reason));
        if self.attempts == 0 {
            return wrong("`attempts` is 0; expected at least 1".to_owned());
        }
        if !(self.multiplier >= 1.0 && self.multiplier.is_finite()) {
            return wrong(format!("`multiplier` is {}; expected a number from 1 on", self.multiplier));
        }
        for (name, delay) in [("initial_delay", self.initial_delay), ("max_delay", self.max_delay)] {
            if delay > LONGEST {
                return wrong(format!("`{name}` is longer than ten years"));
            }
        }
        Ok(())
    }

    /// Returns whether a job may run again after this attempt has failed with an error. The first attempt is 1.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::{Error, batch::Retry};
    /// let timeout = Error::Timeout("too slow".into());
    /// assert!(Retry::new().allows(1, &timeout) && !Retry::new().allows(3, &timeout));
    /// assert!(!Retry::new().allows(1, &Error::session_closed()));
    /// ```
    pub fn allows(&self, attempt: u32, error: &Error) -> bool {
        self.may_retry(attempt, error) && error.retry_after().is_none_or(|asked| asked <= LONGEST_WAIT)
    }

    /// Returns the wait that the model's service asks for, if a job does not run again only because that wait is too long.
    #[doc(hidden)]
    pub fn refused_wait(&self, attempt: u32, error: &Error) -> Option<Duration> {
        error.retry_after().filter(|asked| *asked > LONGEST_WAIT && self.may_retry(attempt, error))
    }

    fn may_retry(&self, attempt: u32, error: &Error) -> bool {
        attempt < self.attempts && error.is_retryable()
    }

    /// Returns the delay after this attempt. `random` is a random number from 0 to 1.
    pub(super) fn delay(&self, attempt: u32, random: f64) -> Duration {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let longest = self.max_delay.as_secs_f64();
        let seconds = self.initial_delay.as_secs_f64() * self.multiplier.powi(exponent);
        // Infinity times zero is not a number.
        let limited = if seconds.is_nan() { 0.0 } else { seconds.min(longest) };
        Duration::from_secs_f64(limited * random.clamp(0.0, 1.0))
    }
}
