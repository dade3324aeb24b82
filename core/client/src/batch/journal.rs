//! The journal of a batch: a file with one line of JSON for each job that has ended. `docs/reference/batch-journal.md`
//! describes it.

use std::collections::HashMap;
#[cfg(unix)]
use std::fs::TryLockError;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kimi_agent_protocol::recording::Redactor;
use serde::Deserialize;
use serde_json::{Value, json};

use super::job::{Hash, hex, parse_hex};
use super::redaction;
use super::result::{JobResult, JobStatus, StoredResult};
use crate::Result;
use crate::error::invalid_option;

/// The format, in the first line.
const FORMAT: &str = "kimi-agent-batch/1";

/// How often a locked journal is tried, and the delay between two attempts.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_DELAY: Duration = Duration::from_millis(25);

/// The open journal of a batch.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Locked while the batch runs, on Windows by its share mode.
    file: File,
    redactor: Redactor,
    /// The places of the results in the file.
    known: HashMap<Hash, u64>,
    end: u64,
}

/// The part of a line that is read when the journal is opened.
#[derive(Deserialize)]
struct Line {
    format: Option<String>,
    id: Option<String>,
    status: Option<JobStatus>,
}

impl Journal {
    /// Opens a journal, and makes the file if it does not exist. A last line that was not written completely is removed.
    ///
    /// # Errors
    /// `InvalidOption` if the file cannot be written, is used by another batch, or is not a journal.
    pub(super) fn open(path: &Path, redactor: Redactor, batch: &str) -> Result<Self> {
        let wrong = |reason: String| invalid_option("journal", reason);
        let failed = |error: io::Error| wrong(format!("can't write {}: {error}", path.display()));
        check_kind(path)?;
        let is_new = !path.exists();
        let Some(file) = open_alone(path).map_err(failed)? else {
            let reason = "another batch uses it; wait for its end, or choose another path";
            return Err(wrong(format!("{}: {reason}", path.display())));
        };
        let mut journal = Self { path: path.to_owned(), file, redactor, known: HashMap::new(), end: 0 };
        journal.load()?;
        if journal.end == 0 {
            journal.append(&header(batch)).map_err(failed)?;
        }
        if is_new {
            sync_folder(path);
        }
        Ok(journal)
    }

    /// Finds the results in the file.
    fn load(&mut self) -> Result<()> {
        let mut known = HashMap::new();
        let (end, unread) = scan(&self.path, &self.file, |hash, status, place| {
            if status.has_result() {
                known.insert(hash, place.offset);
            } else {
                known.remove(&hash);
            }
        })?;
        if let Some(UnreadLines { count, first }) = unread {
            let path = self.path.display();
            tracing::warn!(%path, count, first, "lines of the journal cannot be read; their jobs run again");
        }
        self.file.set_len(end).map_err(unreadable)?;
        (self.end, self.known) = (end, known);
        Ok(())
    }

    /// Returns the result of a job, if an earlier run has written it and it can be read.
    pub(super) fn find(&mut self, hash: &Hash, index: u64) -> Option<JobResult> {
        let place = *self.known.get(hash)?;
        let read = read_at(&mut self.file, place).and_then(|stored| {
            let is_complete = stored.result.is_some();
            if is_complete { Ok(stored) } else { Err(io::Error::other("it has no field `result`")) }
        });
        match read {
            Ok(stored) => Some(JobResult { index, ..stored.into_result() }),
            Err(error) => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "a result in the journal cannot be read; its job runs again");
                None
            }
        }
    }

    /// Appends a result. Returns when it is on the disk.
    ///
    /// # Errors
    /// `InvalidOption` if the file cannot be written.
    pub(super) fn record(&mut self, hash: &Hash, result: &JobResult) -> Result<()> {
        let mut fields = result.to_json();
        redaction::redact(&self.redactor, &mut fields);
        let mut line = json!({"id": hex(hash)});
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields.into_iter().filter(|(name, _)| name != "from_journal"));
            line.insert("ended".to_owned(), now().into());
        }
        self.append(&line).map_err(|error| {
            let path = self.path.display();
            invalid_option("journal", format!("can't write {path}: {error}; results after this are not recorded"))
        })
    }

    /// Appends a line with one write, so that a killed process leaves at most one incomplete line.
    fn append(&mut self, line: &Value) -> io::Result<()> {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        // A line in a deleted file, or after a gap, is lost.
        kimi_agent_files::check_in_place(&self.file, &self.path, self.end)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        if let Err(error) = self.file.write_all(&bytes).and_then(|()| self.file.sync_data()) {
            // A part of the line would make the next one unreadable.
            self.file.set_len(self.end).ok();
            return Err(error);
        }
        self.end += bytes.len() as u64;
        Ok(())
    }
}

/// Checks that the path is free or names a regular file. Reading a device can have no end, and opening a pipe can wait forever.
fn check_kind(path: &Path) -> Result<()> {
    match path.metadata() {
        Ok(data) if !data.is_file() => {
            let reason = "it is not a regular file, so it cannot be a journal; choose another path";
            Err(invalid_option("journal", format!("{}: {reason}", path.display())))
        }
        _ => Ok(()),
    }
}

/// The complete lines of a journal that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadLines {
    /// How many there are.
    pub count: u64,
    /// The number of the first one, from 1.
    pub first: u64,
}

impl UnreadLines {
    fn add(lines: &mut Option<Self>, number: u64) {
        let lines = lines.get_or_insert(Self { count: 0, first: number });
        lines.count += 1;
        lines.first = lines.first.min(number);
    }
}

/// The place of a line.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    number: u64,
}

/// Calls `found` for each result in the file, with the place of its line. A later line replaces an earlier one. Returns the end
/// of the last complete line, and the lines that cannot be read.
fn scan(path: &Path, file: &File, mut found: impl FnMut(Hash, JobStatus, Place)) -> Result<(u64, Option<UnreadLines>)> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut end = 0;
    let mut number = 0;
    let mut unread = None;
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(unreadable)?;
        if !line.ends_with(b"\n") {
            // The process was killed while it wrote the line.
            let is_journal = number > 0 || header_begins_with(&line);
            return if length > 0 && !is_journal { Err(foreign(path)) } else { Ok((end, unread)) };
        }
        number += 1;
        let read = serde_json::from_slice::<Line>(&line);
        if number == 1 {
            check_format(path, read.ok().and_then(|line| line.format))?;
        } else if let Ok(Line { id: Some(id), status: Some(status), .. }) = read
            && let Some(hash) = parse_hex(&id)
        {
            found(hash, status, Place { offset: end, number });
        } else {
            UnreadLines::add(&mut unread, number);
        }
        end += length as u64;
    }
}

fn check_format(path: &Path, format: Option<String>) -> Result<()> {
    match format {
        Some(format) if format == FORMAT => Ok(()),
        Some(format) => {
            let reason = format!("its format is {format:?}, but this version reads {FORMAT:?}");
            Err(invalid_option("journal", format!("{}: {reason}", path.display())))
        }
        None => Err(foreign(path)),
    }
}

fn foreign(path: &Path) -> crate::Error {
    invalid_option("journal", format!("{} is not the journal of a batch; choose another path", path.display()))
}

fn unreadable(error: io::Error) -> crate::Error {
    invalid_option("journal", format!("can't read the journal: {error}"))
}

fn read_at(file: &mut File, place: u64) -> io::Result<StoredResult> {
    file.seek(SeekFrom::Start(place))?;
    let mut line = Vec::new();
    BufReader::new(file).read_until(b'\n', &mut line)?;
    serde_json::from_slice(&line).map_err(io::Error::other)
}

/// Calls `take` with the latest result of each job in a journal, in the order of the file. The journal stays unchanged, and a
/// batch may use it meanwhile. Returns the lines that cannot be read. They are left out.
///
/// # Errors
/// `InvalidOption` if the file cannot be read, or is not a journal.
pub fn read_journal(path: &Path, mut take: impl FnMut(JobResult)) -> Result<Option<UnreadLines>> {
    let failed = |error: io::Error| invalid_option("journal", format!("can't read {}: {error}", path.display()));
    check_kind(path)?;
    let mut file = File::open(path).map_err(failed)?;
    let mut known = HashMap::new();
    let (end, mut unread) = scan(path, &file, |hash, _, place| {
        known.insert(hash, place);
    })?;
    if end == 0 {
        return Err(foreign(path));
    }
    let mut places: Vec<Place> = known.into_values().collect();
    places.sort_unstable_by_key(|place| place.offset);
    for place in places {
        match read_at(&mut file, place.offset) {
            Ok(stored) => take(stored.into_result()),
            Err(_) => UnreadLines::add(&mut unread, place.number),
        }
    }
    Ok(unread)
}

/// Opens the file for this batch alone; readers are admitted. `None` if another batch uses it.
fn open_alone(path: &Path) -> io::Result<Option<File>> {
    for _ in 1..LOCK_ATTEMPTS {
        match try_open_alone(path)? {
            None => std::thread::sleep(LOCK_DELAY),
            opened => return Ok(opened),
        }
    }
    try_open_alone(path)
}

/// After the death of a process, an agent that it was starting holds the lock until its program runs.
#[cfg(unix)]
fn try_open_alone(path: &Path) -> io::Result<Option<File>> {
    let file = kimi_agent_files::open_private(path, OpenOptions::new().read(true).write(true))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        // Some network file systems have no locks.
        Err(TryLockError::Error(error)) => {
            tracing::warn!(path = %path.display(), %error, "the journal cannot be locked");
        }
        Ok(()) => {}
    }
    Ok(Some(file))
}

/// A lock of Windows would also refuse readers, so the file is not shared with further writers.
#[cfg(windows)]
fn try_open_alone(path: &Path) -> io::Result<Option<File>> {
    use std::os::windows::fs::OpenOptionsExt as _;

    // https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-createfilew, and its errors:
    // https://learn.microsoft.com/windows/win32/debug/system-error-codes--0-499-
    const SHARE_READ: u32 = 1;
    const SHARE_DELETE: u32 = 4;
    const SHARING_VIOLATION: i32 = 32;
    let mut options = OpenOptions::new();
    options.read(true).write(true).share_mode(SHARE_READ | SHARE_DELETE);
    match kimi_agent_files::open_private(path, &mut options) {
        Err(error) if error.raw_os_error() == Some(SHARING_VIOLATION) => Ok(None),
        opened => opened.map(Some),
    }
}

#[cfg(unix)]
impl Drop for Journal {
    /// Closing the file is not enough: an agent that is being started has a copy of the descriptor until its program runs.
    fn drop(&mut self) {
        self.file.unlock().ok();
    }
}

fn header(batch: &str) -> Value {
    json!({
        "format": FORMAT,
        "sdk": {"name": "kimi-agent", "version": env!("CARGO_PKG_VERSION")},
        "batch": batch,
        "started": now(),
    })
}

/// Returns whether an incomplete first line is the beginning of a header.
fn header_begins_with(line: &[u8]) -> bool {
    let begin = format!("{{\"format\":\"{FORMAT}\"");
    let length = line.len().min(begin.len());
    line[..length] == begin.as_bytes()[..length]
}

fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

/// Writes the entry of a new file in its folder to the disk, so that a crash of the system does not lose the file.
fn sync_folder(path: &Path) {
    #[cfg(unix)]
    {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
            tracing::debug!(path = %path.display(), %error, "the folder of the journal cannot be synced");
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::job::hash_of_key;
    use super::*;
    use crate::connection::{PromptResult, TurnStatus};
    use crate::messages::TokenUsage;
    use crate::options::SessionOptions;

    fn redactor() -> Redactor {
        SessionOptions::new().env([("TOKEN", "very-secret")]).secrets_redactor().unwrap()
    }

    fn open(path: &Path) -> Result<Journal> {
        Journal::open(path, redactor(), "b1")
    }

    fn result(key: &str, status: JobStatus) -> JobResult {
        let mut done = PromptResult::empty(TurnStatus::Finished);
        done.text = "very-secret".to_owned();
        JobResult {
            key: key.to_owned(),
            index: 0,
            prompt: "p".into(),
            data: json!({"n": 1}),
            status,
            result: Some(done).filter(|_| status.has_result()),
            error: None,
            usage: TokenUsage::default(),
            attempts: 1,
            duration: Duration::from_millis(1500),
            recording: None,
            diff: Some("+line\n".to_owned()),
            workspace: None,
            from_journal: false,
        }
    }

    #[test]
    fn recorded_result_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let mut journal = open(&path).unwrap();
        journal.record(&hash_of_key("a"), &result("a", JobStatus::Finished)).unwrap();
        journal.record(&hash_of_key("b"), &result("b", JobStatus::Failed)).unwrap();
        journal.record(&hash_of_key("c"), &result("c", JobStatus::Cancelled)).unwrap();
        assert!(journal.find(&hash_of_key("a"), 0).is_none(), "known from earlier runs only");
        drop(journal);
        let mut journal = open(&path).unwrap();
        let found = journal.find(&hash_of_key("a"), 7).unwrap();
        assert_eq!((found.index, found.from_journal, found.data), (7, true, json!({"n": 1})));
        assert_eq!((found.diff.as_deref(), found.duration), (Some("+line\n"), Duration::from_millis(1500)));
        assert_eq!(found.result.unwrap().text, "***");
        assert!(journal.find(&hash_of_key("b"), 0).is_none() && journal.find(&hash_of_key("c"), 0).is_none());
    }

    #[test]
    fn result_beyond_values_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let text = serde_json::to_string(&PromptResult::empty(TurnStatus::Finished)).unwrap();
        let call = r#"[{"id":"t","name":"Shell","output":[{"type":"text","text":"x","n":1e999}]}]"#;
        let mut done = result("a", JobStatus::Finished);
        done.result = Some(
            serde_json::from_str(&text.replace(r#""tool_calls":[]"#, &format!(r#""tool_calls":{call}"#))).unwrap(),
        );
        assert_eq!(done.to_json()["result"]["tool_calls"][0]["output"][0]["n"], "1e999");
        open(&path).unwrap().record(&hash_of_key("a"), &done).unwrap();
        let found = open(&path).unwrap().find(&hash_of_key("a"), 0).unwrap().result.unwrap();
        assert_eq!((found.status, found.tool_calls[0].name.as_str()), (TurnStatus::Finished, "Shell"));
    }

    #[test]
    fn cut_at_any_byte_loses_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let mut journal = open(&path).unwrap();
        journal.record(&hash_of_key("a"), &result("a", JobStatus::Finished)).unwrap();
        let first = fs::metadata(&path).unwrap().len() as usize;
        journal.record(&hash_of_key("b"), &result("b", JobStatus::Finished)).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let mut journal = open(&path).unwrap();
            assert_eq!(journal.find(&hash_of_key("a"), 0).is_some(), length >= first, "cut at {length}");
            assert!(journal.find(&hash_of_key("b"), 0).is_none());
            journal.record(&hash_of_key("c"), &result("c", JobStatus::Finished)).unwrap();
            drop(journal);
            assert!(open(&path).unwrap().find(&hash_of_key("c"), 0).is_some(), "cut at {length}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn changed_file_is_reported() {
        let changes: [fn(&Path); 4] = [
            |path| fs::remove_file(path).unwrap(),
            |path| fs::write(path, "").unwrap(),
            |path| fs::rename(path, path.with_extension("moved")).unwrap(),
            |path| {
                fs::copy(path, path.with_extension("copy")).unwrap();
                fs::rename(path.with_extension("copy"), path).unwrap();
            },
        ];
        for (change, how) in changes.iter().zip(["deleted", "shortened", "moved", "replaced"]) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("j.jsonl");
            let mut journal = open(&path).unwrap();
            change(&path);
            let reason = journal.record(&hash_of_key("a"), &result("a", JobStatus::Finished)).unwrap_err().to_string();
            assert!(reason.contains(how) && reason.contains("j.jsonl"), "{reason}");
        }
    }

    #[test]
    fn later_line_replaces_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let mut journal = open(&path).unwrap();
        let hash = hash_of_key("x");
        journal.record(&hash, &result("x", JobStatus::Failed)).unwrap();
        journal.record(&hash, &result("x", JobStatus::MaxStepsReached)).unwrap();
        drop(journal);
        assert_eq!(open(&path).unwrap().find(&hash, 0).unwrap().status, JobStatus::MaxStepsReached);
    }

    #[test]
    fn journal_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let mut journal = open(&path).unwrap();
        let (first, second) = (hash_of_key("x"), hash_of_key("y"));
        let failed =
            JobResult { error: Some(crate::Error::session_closed()), index: 4, ..result("x", JobStatus::Failed) };
        journal.record(&first, &result("x", JobStatus::Finished)).unwrap();
        journal.record(&second, &result("y", JobStatus::Finished)).unwrap();
        journal.record(&first, &failed).unwrap();
        journal.file.write_all(b"{\"id\"").unwrap();
        let before = fs::read(&path).unwrap();
        let mut read = Vec::new();
        assert_eq!(read_journal(&path, |result| read.push(result)).unwrap(), None);
        let found: Vec<_> = read.iter().map(|result| (&*result.key, result.index, &result.error)).collect();
        assert_eq!(found, [("y", 0, &None), ("x", 4, &Some(crate::Error::session_closed()))]);
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn unread_lines_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let mut journal = open(&path).unwrap();
        for key in ["a", "b", "c"] {
            journal.record(&hash_of_key(key), &result(key, JobStatus::Finished)).unwrap();
        }
        drop(journal);
        let good = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = good.lines().collect();
        for (second, third, unread) in [
            ("{garbage", lines[2], Some(UnreadLines { count: 1, first: 2 })),
            (lines[1], &*lines[2].replace("finished", "weird"), Some(UnreadLines { count: 1, first: 3 })),
            ("{}", &*lines[2].replace(r#""attempts""#, r#""attempt""#), Some(UnreadLines { count: 2, first: 2 })),
            (lines[1], lines[2], None),
        ] {
            fs::write(&path, [lines[0], second, third, lines[3], ""].join("\n")).unwrap();
            let mut read = 0;
            assert_eq!(read_journal(&path, |_| read += 1).unwrap(), unread, "{second} {third}");
            assert_eq!(read, 3 - unread.map_or(0, |unread| unread.count), "{second} {third}");
        }
    }

    #[test]
    fn other_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        assert!(read_journal(&path, |_| {}).unwrap_err().to_string().contains("can't read"));
        for text in ["", "notes", "notes\n"] {
            fs::write(&path, text).unwrap();
            assert!(read_journal(&path, |_| {}).unwrap_err().to_string().contains("not the journal"));
        }
    }

    #[test]
    fn other_kinds_of_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = vec![folder.path().to_owned()];
        #[cfg(unix)]
        {
            let pipe = folder.path().join("pipe");
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            paths.extend([pipe, "/dev/zero".into()]);
        }
        for path in paths {
            assert!(open(&path).unwrap_err().to_string().contains("not a regular file"), "{path:?}");
            assert!(read_journal(&path, |_| {}).unwrap_err().to_string().contains("not a regular file"), "{path:?}");
        }
    }

    #[test]
    fn journal_in_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let _journal = open(&path).unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("another batch uses it"));
    }

    #[test]
    fn other_files_stay_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        for (text, reason) in [
            ("notes\n", "not the journal"),
            ("notes", "not the journal"),
            ("{\"format\":\"kimi-agent-batch/9\"}\n", "this version reads"),
        ] {
            fs::write(&path, text).unwrap();
            assert!(open(&path).unwrap_err().to_string().contains(reason));
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn damaged_line_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let mut journal = open(&path).unwrap();
        journal.record(&hash_of_key("a"), &result("a", JobStatus::Finished)).unwrap();
        drop(journal);
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(b"\0\0\0\n{}\n");
        fs::write(&path, text).unwrap();
        assert!(open(&path).unwrap().find(&hash_of_key("a"), 0).is_some());
    }
}
