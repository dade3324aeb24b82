//! `kimi-agent batch` and `kimi-agent report`.
//!
//! - `jobs`: the lines of the file of jobs
//! - `status`: the progress on the standard error
//! - `page`: the report as a page of HTML

mod jobs;
mod page;
mod status;

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kimi_agent_client::Error;
use kimi_agent_client::batch::{Batch, BatchOptions, JobResult, JobStatus, Retry, Workspace};
use kimi_agent_client::host::{LIVE, UnreadLines, batch_control, read_journal, start_batch};
use kimi_agent_files::check_output;
use kimi_agent_protocol::printable::visible_json;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::console::Console;
use crate::interrupts::Interrupts;
use crate::session_arguments::{Seconds, SessionArguments, duration};
use crate::{Failure, exit, inspect, write_out, write_path};
use page::Page;
use status::Status;

/// How long a batch may take after the second Ctrl-C to write its results and to remove its directories.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The directory in which each job works.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Directory {
    /// The working directory itself.
    Shared,
    /// A copy of the working directory.
    Copy,
    /// A new worktree of its git repository.
    Worktree,
}

/// The arguments of `batch`.
#[derive(Args, Debug)]
pub(crate) struct BatchArguments {
    /// The jobs: a file with a line of JSON for each; `-` is the standard input.
    ///
    /// A line is a text, or an object with `prompt` and, if needed, `key`, `work_dir`, `data`, `timeout`, and options of the
    /// session such as `model`.
    jobs: PathBuf,
    #[command(flatten)]
    session: SessionArguments,
    /// The file for the results, one line of JSON each; `-` is the standard output. An existing file is replaced.
    #[arg(short, long, value_name = "FILE", default_value = "-", help_heading = "Batch")]
    out: PathBuf,
    /// How many jobs run at once.
    #[arg(
        short,
        long,
        value_name = "NUMBER",
        default_value_t = 4,
        allow_negative_numbers = true,
        help_heading = "Batch"
    )]
    concurrency: usize,
    /// The file that makes the batch resumable. Jobs with a result in it do not run again.
    #[arg(long, value_name = "FILE", help_heading = "Batch")]
    journal: Option<PathBuf>,
    /// The directory in which each job works.
    #[arg(long, value_enum, default_value_t = Directory::Shared, help_heading = "Batch")]
    workspace: Directory,
    /// Keeps the copy or the worktree of a failed job.
    #[arg(long, help_heading = "Batch")]
    keep_failed: bool,
    /// How often a job is retried after its first attempt, if its error is retryable, such as an overloaded model.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, allow_negative_numbers = true, help_heading = "Batch")]
    retries: u32,
    /// The time for one attempt of a job, in seconds. Default: no limit.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, help_heading = "Batch")]
    job_timeout: Option<Seconds>,
    /// Writes a report as a page of HTML. Its rows, one for each job, stay in memory until the end.
    #[arg(long, value_name = "FILE", help_heading = "Batch")]
    html: Option<PathBuf>,
    /// Shows no progress.
    #[arg(short, long, help_heading = "Batch")]
    quiet: bool,
}

impl BatchArguments {
    /// Checks that no output replaces another file of the batch.
    fn check_files(&self) -> Result<(), Failure> {
        let out = Some(&self.out).filter(|path| path.as_os_str() != "-");
        let written = [("--out", out), ("--html", self.html.as_ref()), ("--journal", self.journal.as_ref())];
        let written: Vec<_> = written.iter().filter_map(|(name, path)| path.map(|path| (*name, path))).collect();
        for (at, (name, path)) in written.iter().enumerate() {
            let others = written[..at].iter().map(|(_, other)| *other).chain([&self.jobs]);
            if others.into_iter().any(|other| inspect::is_same(other, path)) {
                return Err(Failure::wrong(name, format!("{} is another file of this batch", path.display())));
            }
        }
        Ok(())
    }

    fn options(&self) -> Result<BatchOptions, Failure> {
        let mut of_session = self.session.clone();
        // Of a batch, it is the time for all jobs.
        let timeout = of_session.timeout.take();
        let workspace = match self.workspace {
            Directory::Shared => Workspace::Shared,
            Directory::Copy => Workspace::Copy,
            Directory::Worktree => Workspace::Worktree,
        };
        let mut options = BatchOptions::new()
            .concurrency(self.concurrency)
            .workspace(workspace)
            .keep_failed(self.keep_failed)
            .retry(Retry::new().attempts(self.retries.saturating_add(1)))
            .session(of_session.options()?);
        if let Some(path) = &self.journal {
            options = options.journal(path);
        }
        if let Some(seconds) = &timeout {
            options = options.timeout(duration("--timeout", seconds)?);
        }
        if let Some(seconds) = &self.job_timeout {
            options = options.job_timeout(duration("--job-timeout", seconds)?);
        }
        Ok(options)
    }
}

/// Runs a batch. Returns the exit code.
pub(crate) async fn run(arguments: BatchArguments) -> Result<i32, Failure> {
    let mut interrupts = Interrupts::new()?;
    let options = arguments.options()?;
    options.validate()?;
    arguments.check_files()?;
    let jobs = jobs::open(&arguments.jobs)?;
    let mut out = Output::open(&arguments.out)?;
    let status = Arc::new(Status::new(arguments.quiet));
    let shown = Arc::clone(&status);
    let options = options.on_progress(move |progress| shown.show(&progress));
    let mut page = arguments.html.as_deref().map(Page::open).transpose()?;
    // A file that is not a journal is refused when the batch starts.
    let read = arguments.journal.as_deref().and_then(|journal| read_journal(journal, drop).ok());
    if let (Some(journal), Some(Some(lines))) = (&arguments.journal, read) {
        status.warn(&format!("warning: {}: {}, so their jobs run again", journal.display(), unread(lines)));
    }
    let batch = start_batch(jobs, options, Handle::current());
    let ended = follow(batch, &mut interrupts, &status, |result| {
        if let Some(page) = &mut page {
            page.add(&result);
        }
        out.write(&result)
    })
    .await;
    status.end();
    // The page of an earlier batch stays if this one was refused.
    if let Some(page) = page.filter(|page| ended.is_ok() || !page.is_empty()) {
        page.write()?;
    }
    let outcome = ended?;
    out.end()?;
    Ok(outcome)
}

/// The arguments of `report`.
#[derive(Args, Debug)]
pub(crate) struct ReportArguments {
    /// The journal of the batch.
    journal: PathBuf,
    /// The file to write; `-` is the standard output. Default: the name of the journal, with `.html`.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Writes the report of a journal.
pub(crate) fn report(arguments: ReportArguments) -> Result<(), Failure> {
    let journal = &arguments.journal;
    let path = arguments.html.unwrap_or_else(|| journal.with_extension("html"));
    let mut page = Page::new(&path);
    let read = read_journal(journal, |result| page.add(&result)).map_err(|error| match error {
        Error::InvalidOption { reason, .. } => {
            let is_recording = journal.is_file() && inspect::read(journal).is_ok();
            let remedy = if is_recording { "; it is a recording, and `kimi-agent inspect` makes its page" } else { "" };
            Failure::wrong("JOURNAL", format!("{reason}{remedy}"))
        }
        other => other.into(),
    })?;
    if inspect::is_same(journal, &path) {
        return Err(Failure::wrong("--html", format!("{} is the journal", path.display())));
    }
    if let Some(lines) = read {
        let note = format!("{}, so their jobs are missing", unread(lines));
        Console::new(false).warn(&format!("warning: {}: {note}", journal.display()));
        page.set_note(format!("{note}."));
    }
    if path.as_os_str() == "-" {
        return write_out(page.finished().as_bytes());
    }
    page.write()?;
    write_path(&path)
}

fn unread(UnreadLines { count, first }: UnreadLines) -> String {
    match count {
        1 => format!("line {first} of the journal cannot be read"),
        count => format!("{count} lines of the journal cannot be read, the first of which is line {first}"),
    }
}

/// Passes on all results. Returns the exit code.
async fn follow(
    mut batch: Batch,
    interrupts: &mut Interrupts,
    status: &Status,
    mut take: impl FnMut(JobResult) -> Result<(), Failure>,
) -> Result<i32, Failure> {
    let control = batch_control(&batch);
    let mut failure = None;
    let (mut is_cancelled, mut is_incomplete) = (false, false);
    let mut killed_until = None;
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => {
                if is_cancelled {
                    killed_until.get_or_insert_with(|| Instant::now() + KILL_TIMEOUT);
                    LIVE.kill_all();
                    continue;
                }
                is_cancelled = true;
                status.note("cancelling; press Ctrl-C again to end immediately");
                control.begin_cancel();
            }
            () = until(killed_until), if killed_until.is_some() => return Err(Failure::Cancelled),
            result = batch.next() => match result {
                Some(Ok(result)) => {
                    is_incomplete |= result.status != JobStatus::Finished;
                    status.result(&result);
                    if let Err(error) = take(result) {
                        failure.get_or_insert(error);
                        control.begin_cancel();
                    }
                }
                Some(Err(error)) => drop(failure.get_or_insert(error.into())),
                None => break,
            },
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None if is_cancelled => Err(Failure::Cancelled),
        None => Ok(if is_incomplete { exit::FAILED } else { exit::SUCCEEDED }),
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The file of the results, or the standard output.
enum Output {
    Standard(Console),
    File {
        path: PathBuf,
        file: BufWriter<File>,
        /// Whether the earlier content is still in the file.
        is_old: bool,
    },
}

impl Output {
    fn open(path: &Path) -> Result<Self, Failure> {
        // The path is a link to a file, a pipe or a terminal.
        if path.as_os_str() == "-" || cfg!(unix) && path.as_os_str() == "/dev/stdout" {
            return Ok(Self::Standard(Console::new(true)));
        }
        // The earlier content stays until the first result, because the batch may be refused.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        // Another program may put a pipe or a link there meanwhile.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOFOLLOW);
        let opened = check_output(path).and_then(|()| options.open(path));
        let file = opened.map_err(|error| Failure::wrong("--out", format!("{}: {error}", path.display())))?;
        Ok(Self::File { path: path.to_owned(), file: BufWriter::new(file), is_old: true })
    }

    /// Removes the earlier content of the file, once.
    fn clear(&mut self) -> Result<(), Failure> {
        match self {
            Self::File { path, file, is_old } if *is_old => {
                *is_old = false;
                file.get_ref().set_len(0).map_err(|error| unwritten(path, &error))
            }
            _ => Ok(()),
        }
    }

    /// Writes a result as a line of JSON.
    fn write(&mut self, result: &JobResult) -> Result<(), Failure> {
        self.clear()?;
        match self {
            Self::Standard(console) => {
                console.json(&result.to_json());
                if console.is_closed() { Err(Failure::Closed) } else { Ok(()) }
            }
            Self::File { path, file, .. } => {
                let line = result.to_json().to_string();
                let line = visible_json(&line);
                // Each line at once, for programs that follow the file.
                writeln!(file, "{line}").and_then(|()| file.flush()).map_err(|error| unwritten(path, &error))
            }
        }
    }

    /// Ends a batch that was not refused.
    fn end(&mut self) -> Result<(), Failure> {
        match self {
            Self::Standard(console) => console.check(),
            Self::File { .. } => self.clear(),
        }
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Because(format!("{} cannot be written: {error}", path.display()))
}
