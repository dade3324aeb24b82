//! The file of jobs: a line of JSON for each.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use kimi_agent_client::batch::{Job, Jobs};
use kimi_agent_client::host::unreadable_job;
use kimi_agent_client::{Error, Result};
use serde::de::IgnoredAny;
use tokio::sync::mpsc;

use crate::Failure;

/// The longest line of a job, in bytes.
const LONGEST_LINE: u64 = 64 << 20;

/// The jobs, which a thread reads: reading the standard input can take any time.
struct Lines {
    read: mpsc::Receiver<Result<Job>>,
    left: Option<u64>,
}

/// Opens the file of jobs; `-` is the standard input.
///
/// # Errors
/// The file cannot be read.
pub(super) fn open(path: &Path) -> std::result::Result<Pin<Box<dyn Jobs + Send>>, Failure> {
    // One line is read ahead.
    let (sender, read) = mpsc::channel(1);
    if path.as_os_str() == "-" {
        std::thread::spawn(move || read_lines(io::stdin().lock(), &sender));
        return Ok(Box::pin(Lines { read, left: None }));
    }
    let failed = |error: io::Error| Failure::wrong("JOBS", format!("{}: {error}", path.display()));
    let kind = fs::metadata(path).map_err(failed)?;
    #[cfg(unix)]
    if !std::os::unix::fs::FileTypeExt::is_fifo(&kind.file_type()) && !kind.is_file() && !kind.is_dir() {
        let problem =
            format!("{}: it is a device; expected a file, a pipe, or `-` for the standard input", path.display());
        return Err(Failure::wrong("JOBS", problem));
    }
    if !kind.is_file() && !kind.is_dir() {
        let path = path.to_owned();
        std::thread::spawn(move || read_pipe(&path, &sender));
        return Ok(Box::pin(Lines { read, left: None }));
    }
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let left = count(&mut file).and_then(|left| file.rewind().map(|()| left)).map_err(failed)?;
    std::thread::spawn(move || read_lines(file, &sender));
    Ok(Box::pin(Lines { read, left: Some(left) }))
}

/// Reads the jobs of a pipe, which can be read only once. Opening it waits for the program that writes to it.
fn read_pipe(path: &Path, jobs: &mpsc::Sender<Result<Job>>) {
    match File::open(path) {
        Ok(file) => read_lines(BufReader::new(file), jobs),
        Err(error) => {
            let problem = wrong(format!("{} cannot be opened: {error}", path.display()));
            jobs.blocking_send(Err(problem)).ok();
        }
    }
}

/// Returns the number of lines with jobs.
fn count(mut file: impl BufRead) -> io::Result<u64> {
    let (mut line, mut jobs) = (Vec::new(), 0);
    while read_line(&mut file, &mut line)? > 0 {
        jobs += u64::from(!line.trim_ascii().is_empty());
        line.clear();
    }
    Ok(jobs)
}

/// Reads a line with its end, and adds it. Returns its length.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let length = file.take(LONGEST_LINE + 1).read_until(b'\n', line)?;
    if length as u64 > LONGEST_LINE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than 64 MiB"));
    }
    Ok(length)
}

fn read_lines(mut file: impl BufRead, jobs: &mpsc::Sender<Result<Job>>) {
    let mut line = Vec::new();
    let mut is_first = true;
    let not_lines =
        |begin: &str| wrong(format!("the file begins with {begin}; expected JSON Lines: each job is a line"));
    for number in 1_u64.. {
        line.clear();
        let job = match read_line(&mut file, &mut line) {
            Ok(0) => return,
            Ok(_) if line.trim_ascii().is_empty() => continue,
            Ok(_) if is_first && line.trim_ascii().starts_with(b"[") => Err(not_lines("a list")),
            Ok(_) if is_first && is_part(line.trim_ascii()) => Err(not_lines("a JSON value of several lines")),
            Ok(_) => {
                is_first = false;
                Ok(parse(line.trim_ascii_end(), number))
            }
            Err(error) => Err(wrong(format!("line {number} of the jobs cannot be read: {error}"))),
        };
        let is_over = job.is_err();
        if jobs.blocking_send(job).is_err() || is_over {
            return;
        }
    }
}

/// Returns whether a line is the beginning of a JSON value that continues on the next line.
fn is_part(line: &[u8]) -> bool {
    matches!(line.last(), Some(b'{' | b'[' | b',' | b':'))
        && serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof())
}

/// Returns the job of a line. A line that is not JSON is a job that fails.
fn parse(line: &[u8], number: u64) -> Job {
    match serde_json::from_slice(line) {
        Ok(value) => Job::from_json(value),
        Err(error) => {
            let place = match error.is_eof() {
                true => "it ends in the middle of a value".to_owned(),
                false => format!("see column {}", error.column()),
            };
            let expected = "expected a text in quotes, or an object such as {\"prompt\": \"…\"}";
            unreadable_job(wrong(format!("line {number} of the jobs is not JSON: {place}; {expected}")))
        }
    }
}

fn wrong(reason: String) -> Error {
    Error::InvalidOption { option: "jobs".to_owned(), reason }
}

impl Jobs for Lines {
    fn poll_job(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Job>>> {
        self.read.poll_recv(cx)
    }

    fn total(&self) -> Option<u64> {
        self.left
    }
}
