//! The options of a batch.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kimi_agent_protocol::batch::Retry;

use super::runner::Runner;
use crate::Result;
use crate::error::invalid_option;
use crate::handler::Responder;
use crate::options::{SessionOptions, duration_problem};
use crate::recording::{is_cassette, recording_variable};

/// The default of `concurrency`.
const CONCURRENCY: usize = 4;
/// The largest value of `concurrency`.
const MOST_CONCURRENCY: usize = 10_000;

/// The directory in which a job of a batch works.
///
/// # Examples
/// ```
/// use kimi_agent::batch::{BatchOptions, Workspace};
/// let options = BatchOptions::new().workspace(Workspace::Worktree);
/// # drop(options);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workspace {
    /// All jobs work in the working directory itself.
    #[default]
    Shared,
    /// Each job works in a copy of the working directory, with everything in it, ignored files included. Symbolic links are
    /// copied as links. Sockets, pipes and devices are left out. Files share their blocks with the original if the file system
    /// can do that.
    Copy,
    /// Each job works in a new worktree of the git repository, at the commit of `HEAD`. The result has the changes as a diff.
    Worktree,
}

impl Workspace {
    /// Returns the word for the workspace: `shared`, `copy`, `worktree`.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(kimi_agent::batch::Workspace::Copy.as_str(), "copy");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Copy => "copy",
            Self::Worktree => "worktree",
        }
    }

    /// Returns the workspace that the word names.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::batch::Workspace;
    /// assert_eq!(Workspace::parse("copy"), Some(Workspace::Copy));
    /// assert_eq!(Workspace::parse("clone"), None);
    /// ```
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Shared, Self::Copy, Self::Worktree].into_iter().find(|workspace| workspace.as_str() == word)
    }
}

/// The numbers of a running batch, for [`BatchOptions::on_progress`].
///
/// # Examples
/// ```
/// fn show(progress: kimi_agent::batch::Progress) {
///     eprintln!("{} done, {} failed, {} tokens", progress.done, progress.failed, progress.tokens);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The number of jobs, if the source of the jobs reports it.
    pub total: Option<u64>,
    /// The jobs that have ended, failed jobs and results from the journal included.
    pub done: u64,
    /// The jobs that have failed.
    pub failed: u64,
    /// The jobs that run.
    pub running: u64,
    /// The jobs that wait for another attempt.
    pub waiting: u64,
    /// The attempts after the first one, of all jobs.
    pub retried: u64,
    /// The tokens that the attempts of this run took.
    pub tokens: u64,
    /// How many jobs may run at once at the moment. An overloaded model lowers it.
    pub concurrency: u64,
    /// The time since the batch began.
    pub elapsed: Duration,
}

/// Receives the progress.
pub(super) type ProgressHandler = Arc<dyn Fn(Progress) + Send + Sync>;

/// How a batch runs its jobs.
///
/// # Examples
/// ```
/// use kimi_agent::SessionOptions;
/// use kimi_agent::batch::BatchOptions;
/// let options = BatchOptions::new()
///     .concurrency(8)
///     .journal("batch.jsonl")
///     .session(SessionOptions::new().work_dir(".").yolo(true));
/// options.validate()?;
/// # Ok::<(), kimi_agent::Error>(())
/// ```
#[derive(Clone)]
pub struct BatchOptions {
    pub(super) concurrency: usize,
    pub(super) retry: Retry,
    pub(super) journal: Option<PathBuf>,
    pub(super) workspace: Workspace,
    pub(super) keep_failed: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) job_timeout: Option<Duration>,
    pub(super) on_progress: Option<ProgressHandler>,
    pub(super) session: SessionOptions,
    pub(super) runner: Option<Runner>,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            concurrency: CONCURRENCY,
            retry: Retry::default(),
            journal: None,
            workspace: Workspace::default(),
            keep_failed: false,
            timeout: None,
            job_timeout: None,
            on_progress: None,
            session: SessionOptions::default(),
            runner: None,
        }
    }
}

impl fmt::Debug for BatchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchOptions")
            .field("concurrency", &self.concurrency)
            .field("retry", &self.retry)
            .field("journal", &self.journal)
            .field("workspace", &self.workspace)
            .field("keep_failed", &self.keep_failed)
            .field("timeout", &self.timeout)
            .field("job_timeout", &self.job_timeout)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl BatchOptions {
    /// Makes options with all defaults.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::batch::BatchOptions::new();
    /// # drop(options);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many jobs run at once, from 1 to 10,000. Default: 4. While the model is overloaded, fewer run.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::batch::BatchOptions::new().concurrency(8);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Sets how often a job is attempted, the first attempt included: a number, or [`Retry`] with the delays. Default: 3 attempts.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use kimi_agent::batch::{BatchOptions, Retry};
    /// let often = BatchOptions::new().retry(5);
    /// let patient = BatchOptions::new().retry(Retry::new().initial_delay(Duration::from_secs(10)));
    /// # often.validate().unwrap();
    /// # patient.validate().unwrap();
    /// ```
    #[must_use]
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        self.retry = retry.into();
        self
    }

    /// Sets the file that makes the batch resumable. Each result is written to it before the program gets it. A batch with
    /// the same file runs only the jobs without a result; failed and cancelled jobs run again. Default: no journal.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::batch::BatchOptions::new().journal("batch.jsonl");
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(path.into());
        self
    }

    /// Sets the directory in which each job works. Default: all jobs share the working directory.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::batch::{BatchOptions, Workspace};
    /// let options = BatchOptions::new().workspace(Workspace::Copy);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = workspace;
        self
    }

    /// Sets whether the copy or the worktree of a failed job is kept. [`JobResult::workspace`](super::JobResult::workspace)
    /// names it. Default: false.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::batch::{BatchOptions, Workspace};
    /// let options = BatchOptions::new().workspace(Workspace::Worktree).keep_failed(true);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn keep_failed(mut self, keep_failed: bool) -> Self {
        self.keep_failed = keep_failed;
        self
    }

    /// Sets the limit of the whole batch. When it is exceeded, running jobs are cancelled, and the batch ends with
    /// [`Error::Timeout`](crate::Error::Timeout) after their results. Default: no limit.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// let options = kimi_agent::batch::BatchOptions::new().timeout(Duration::from_secs(3600));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets the limit of one attempt of a job. It overrides `turn_timeout` of [`session`](Self::session), and a job can override
    /// it. An attempt that exceeds it is retried. Default: `turn_timeout`.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// let options = kimi_agent::batch::BatchOptions::new().job_timeout(Duration::from_secs(600));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn job_timeout(mut self, limit: Duration) -> Self {
        self.job_timeout = Some(limit);
        self
    }

    /// Sets the handler that gets the numbers of the batch when they change. It must not block.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::batch::BatchOptions::new().on_progress(|progress| eprintln!("{}", progress.done));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn on_progress<F: Fn(Progress) + Send + Sync + 'static>(mut self, handler: F) -> Self {
        self.on_progress = Some(Arc::new(handler));
        self
    }

    /// Sets the options of the sessions. `record`, or `$KIMI_AGENT_RECORD`, means a directory, in which each job has a recording of
    /// its own. Default: all defaults.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{SessionOptions, batch::BatchOptions};
    /// let options = BatchOptions::new().session(SessionOptions::new().model("kimi-k2"));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn session(mut self, session: SessionOptions) -> Self {
        self.session = session;
        self
    }

    /// Checks everything that can be checked without starting an agent.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) names the first wrong option.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::batch::BatchOptions::new().concurrency(0);
    /// assert_eq!(options.validate().unwrap_err().code(), "invalid_option");
    /// ```
    pub fn validate(&self) -> Result<()> {
        if !(1..=MOST_CONCURRENCY).contains(&self.concurrency) {
            let expected = format!("expected a number from 1 to {MOST_CONCURRENCY}, got {}", self.concurrency);
            return Err(invalid_option("concurrency", expected));
        }
        if let Some(problem) = self.timeout.and_then(duration_problem) {
            return Err(invalid_option("timeout", problem));
        }
        if let Some(problem) = self.job_timeout.and_then(duration_problem) {
            return Err(invalid_option("job_timeout", problem));
        }
        self.retry.validate()?;
        if self.session.session_id.is_some() {
            return Err(self.session.invalid("session_id", "the jobs of a batch cannot share a session; leave it out"));
        }
        let manual = [
            ("on_approval", matches!(self.session.on_approval, Responder::Manual)),
            ("on_question", matches!(self.session.on_question, Responder::Manual)),
        ];
        if let Some((option, _)) = manual.into_iter().find(|(_, is_manual)| *is_manual) {
            let reason = "nothing reads the turns of a batch, so it cannot be manual; set a function";
            return Err(self.session.invalid(option, reason));
        }
        self.session.validate()?;
        self.check_recordings()
    }

    /// Returns the directory of the recordings: that of the option `record`, else of the environment variable. A runner records
    /// with the variable of its own machine.
    pub(super) fn recordings(&self) -> Option<PathBuf> {
        let variable = || recording_variable().filter(|_| self.runner.is_none());
        // A trailing slash makes it a directory, in which each session has a file of its own.
        self.session.record.clone().or_else(variable).map(|path| path.join(""))
    }

    /// Checks that the recordings have a directory: no file is in its place, and it is not the path of a cassette.
    fn check_recordings(&self) -> Result<()> {
        if self.session.plays_cassette() {
            let reason = "a cassette is the recording of one session, and a batch has a session for each job; play it with \
                          a session";
            return Err(self.session.invalid("executable", reason));
        }
        let Some(path) = self.recordings().filter(|_| self.runner.is_none()) else { return Ok(()) };
        // Without the trailing slash, because a file is not found with it.
        let path: PathBuf = path.components().collect();
        if is_cassette(&path) {
            let reason =
                "a cassette is the recording of one session, and a batch has a session for each job; set a directory";
            return Err(self.session.invalid("record", reason));
        }
        if path.metadata().is_err() || path.is_dir() {
            return Ok(());
        }
        let name = if self.session.record.is_some() { "it" } else { "$KIMI_AGENT_RECORD" };
        let reason = format!("{} is not a directory; in a batch {name} means a directory", path.display());
        Err(self.session.invalid("record", reason))
    }
}
