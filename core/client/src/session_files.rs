//! Reads the records that Kimi Code writes about a session ([`crate::turn_records`]). The files are not trusted: they
//! are opened without following links out of the agent's home, and read in bounded pieces, outside of the runtime's
//! thread.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use crate::turn_records::{TurnRecords, TurnReport, is_known_version, records_file};

/// How long a turn's end waits for the records. The agent writes them up to 0.12 seconds late.
pub(crate) const RECORDS_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it waits for the record of the turn's begin. A command that the agent answers by itself has no such record.
const BEGIN_TIMEOUT: Duration = Duration::from_millis(300);
/// The pause between two looks at the file.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

const INDEX: &str = "session_index.jsonl";
/// The size of the part of the index that is read, from its end. The sessions that were opened last are there.
const MAX_INDEX: u64 = 4 << 20;
/// The size of the part of a file that is read the first time, from its end.
const MAX_UNREAD: u64 = 8 << 20;
/// The limit for one turn, in bytes.
const MAX_TURN: u64 = 64 << 20;
/// Longer lines are skipped. No line with a needed record is as long.
const MAX_LINE: usize = 1 << 20;
const PIECE: usize = 64 << 10;

/// Reads the records of one session.
#[derive(Debug)]
pub(crate) struct SessionFiles {
    /// An absolute path.
    home: PathBuf,
    /// The file, below the home, once it is known.
    file: Option<PathBuf>,
    /// The offset of the next line.
    offset: Option<u64>,
    /// Whether the line at the offset is too long, so that its rest is skipped.
    skips_line: bool,
    /// The file cannot be read.
    is_useless: bool,
}

/// Returns where Kimi Code stores its sessions, according to its environment variables.
pub(crate) fn home(variable: &dyn Fn(&str) -> Option<PathBuf>, current_dir: &Path) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.as_os_str().is_empty());
    let user = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    let home = set("KIMI_CODE_HOME").or_else(|| Some(set(user)?.join(".kimi-code")))?;
    Some(current_dir.join(home))
}

impl SessionFiles {
    pub(crate) fn new(home: PathBuf) -> Self {
        Self { home, file: None, offset: None, skips_line: false, is_useless: false }
    }

    /// Waits for the records of the turn that began at `since`, in milliseconds since 1970. Returns the reader for the
    /// next turn.
    pub(crate) async fn read_turn(mut self, session_id: String, since: u64) -> (Option<Self>, Option<TurnReport>) {
        let began = Instant::now();
        let mut records = TurnRecords::since(since);
        let mut left = MAX_TURN;
        let mut pause = FIRST_PAUSE;
        loop {
            let id = session_id.clone();
            let read = move || {
                let report = self.read(&id, &mut records, &mut left);
                (self, records, left, report)
            };
            // Fails if the runtime ends.
            let Ok(read) = tokio::task::spawn_blocking(read).await else { return (None, None) };
            let report;
            (self, records, left, report) = read;
            let limit = if records.has_begun() { RECORDS_TIMEOUT } else { BEGIN_TIMEOUT };
            match report {
                Ok(None) if began.elapsed() < limit && left > 0 && !self.is_useless => {}
                Ok(report) => return (Some(self), report),
                Err(error) => {
                    tracing::debug!(%error, "the records of a turn cannot be read");
                    return (Some(self), None);
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reads the new records. `left` is the remaining limit in bytes.
    fn read(&mut self, session_id: &str, records: &mut TurnRecords, left: &mut u64) -> io::Result<Option<TurnReport>> {
        if self.is_useless {
            return Ok(None);
        }
        let Some(mut file) = self.open(session_id)? else { return Ok(None) };
        let length = file.metadata()?.len();
        let offset = match self.offset {
            // The file was replaced.
            Some(offset) if offset > length => length,
            Some(offset) => offset,
            None => {
                let start = length.saturating_sub(MAX_UNREAD);
                self.skips_line = start > 0;
                start
            }
        };
        self.offset = Some(offset);
        if length - offset > MAX_TURN {
            self.offset = Some(length);
            self.skips_line = true;
            return Ok(None);
        }
        file.seek(SeekFrom::Start(offset))?;
        self.read_lines(&mut file, records, left)
    }

    /// Reads whole lines. Leaves the last line if it has no end yet.
    fn read_lines(
        &mut self,
        file: &mut impl Read,
        records: &mut TurnRecords,
        left: &mut u64,
    ) -> io::Result<Option<TurnReport>> {
        let mut line = Vec::new();
        let mut piece = vec![0; PIECE];
        while *left > 0 {
            let count = file.read(&mut piece)?;
            if count == 0 {
                break;
            }
            *left = left.saturating_sub(count as u64);
            let mut rest = &piece[..count];
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                line.extend_from_slice(&rest[..end]);
                rest = &rest[end + 1..];
                self.consume(line.len() + 1);
                let is_skipped = std::mem::take(&mut self.skips_line);
                let report = if is_skipped { None } else { records.take_line(&line) };
                line.clear();
                if report.is_some() {
                    return Ok(report);
                }
            }
            line.extend_from_slice(rest);
            if line.len() > MAX_LINE {
                self.consume(line.len());
                self.skips_line = true;
                line.clear();
            }
        }
        Ok(None)
    }

    fn consume(&mut self, count: usize) {
        self.offset = self.offset.map(|offset| offset + count as u64);
    }

    /// Opens the file with the records. `None` if it does not exist yet.
    fn open(&mut self, session_id: &str) -> io::Result<Option<File>> {
        if self.file.is_none() {
            self.file = self.find(session_id)?;
            // The index has a session as soon as it is open.
            self.is_useless = self.file.is_none();
        }
        let Some(path) = &self.file else { return Ok(None) };
        let mut file = match open_below(&self.home, path) {
            // The file is created with the first records.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if self.offset.is_none() {
            let Some(line) = first_line(&mut file)? else { return Ok(None) };
            if !is_known_version(&line) {
                tracing::debug!("the agent writes its records in another version than the known one");
                self.is_useless = true;
                return Ok(None);
            }
        }
        Ok(Some(file))
    }

    /// Returns the file of a session, according to the agent's index of sessions.
    fn find(&self, session_id: &str) -> io::Result<Option<PathBuf>> {
        let mut index = match open_below(&self.home, Path::new(INDEX)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            index => index?,
        };
        let length = index.metadata()?.len();
        index.seek(SeekFrom::Start(length.saturating_sub(MAX_INDEX)))?;
        let mut text = Vec::new();
        index.take(MAX_INDEX).read_to_end(&mut text)?;
        // The agent resolves links in the path of its home.
        let resolved = self.home.canonicalize()?;
        let homes = [&self.home, &resolved];
        let lines = text.rsplit(|byte| *byte == b'\n').filter(|line| line.len() <= MAX_LINE);
        Ok(lines.flat_map(|line| homes.map(|home| records_file(line, session_id, home))).flatten().next())
    }
}

/// Returns the first line of a file, if it is complete and not too long.
fn first_line(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let mut start = Vec::new();
    file.take(4096).read_to_end(&mut start)?;
    let end = start.iter().position(|byte| *byte == b'\n');
    Ok(end.map(|end| start[..end].to_vec()))
}

/// Opens a regular file below a directory, without following links and without waiting for the writer of a pipe.
#[cfg(unix)]
fn open_below(home: &Path, path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open, openat};
    let safe = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut file = open(home, safe | OFlags::DIRECTORY, Mode::empty())?;
    for component in path.components() {
        let Component::Normal(name) = component else { return Err(io::ErrorKind::InvalidInput.into()) };
        file = openat(&file, name, safe | OFlags::NOFOLLOW, Mode::empty())?;
    }
    regular(File::from(file))
}

#[cfg(not(unix))]
fn open_below(home: &Path, path: &Path) -> io::Result<File> {
    let mut whole = home.to_owned();
    for component in path.components() {
        let Component::Normal(name) = component else { return Err(io::ErrorKind::InvalidInput.into()) };
        whole.push(name);
        if whole.symlink_metadata()?.is_symlink() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a link below the agent's home"));
        }
    }
    regular(File::open(whole)?)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use tempfile::TempDir;

    use super::*;

    const METADATA: &str = "{\"type\":\"metadata\",\"protocol_version\":\"1.5\",\"created_at\":1}\n";

    fn turn(number: u32, time: u64) -> String {
        let lines = [
            format!(
                r#"{{"type":"turn.prompt","origin":{{"kind":"user"}},"promptId":"p{number}","turnId":{number},"time":{time}}}"#
            ),
            r#"{"type":"context.append_loop_event","event":{"type":"step.begin"}}"#.to_owned(),
            r#"{"type":"usage.record","usage":{"inputOther":100,"output":10}}"#.to_owned(),
            format!(r#"{{"type":"turn.ended","turnId":{number},"reason":"completed"}}"#),
            format!(r#"{{"type":"prompt.completed","promptId":"p{number}"}}"#),
        ];
        lines.map(|line| line + "\n").concat()
    }

    struct Home {
        dir: TempDir,
        files: Option<SessionFiles>,
    }

    impl Home {
        /// A home with a session `s`, whose file has this text.
        fn new(text: &str) -> Self {
            let dir = TempDir::new().unwrap();
            let session = dir.path().join("sessions/wd/s");
            fs::create_dir_all(session.join("agents/main")).unwrap();
            let entry = |id: &str| serde_json::json!({"sessionId": id, "sessionDir": session}).to_string() + "\n";
            fs::write(dir.path().join(INDEX), format!("{}not JSON\n{}", entry("other"), entry("s"))).unwrap();
            fs::write(session.join("agents/main/wire.jsonl"), text).unwrap();
            let files = Some(SessionFiles::new(dir.path().to_owned()));
            Self { dir, files }
        }

        fn file(&self) -> PathBuf {
            self.dir.path().join("sessions/wd/s/agents/main/wire.jsonl")
        }

        fn append(&self, text: &str) {
            fs::OpenOptions::new().append(true).open(self.file()).unwrap().write_all(text.as_bytes()).unwrap();
        }

        /// How many steps the records tell, read at once.
        fn steps(&mut self, since: u64) -> Option<i64> {
            let files = self.files.as_mut().unwrap();
            let report = files.read("s", &mut TurnRecords::since(since), &mut MAX_TURN.clone());
            report.ok().flatten().map(|report| report.steps)
        }

        fn offset(&self) -> u64 {
            self.files.as_ref().unwrap().offset.unwrap_or(0)
        }
    }

    #[test]
    fn home_comes_from_agent_environment() {
        let found = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| PathBuf::from(value))
            };
            home(&variable, Path::new("/project"))
        };
        let user = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        assert_eq!(found(&[(user, "/home/me")]), Some("/home/me/.kimi-code".into()));
        assert_eq!(found(&[(user, "/home/me"), ("KIMI_CODE_HOME", "/else")]), Some("/else".into()));
        assert_eq!(found(&[(user, "/home/me"), ("KIMI_CODE_HOME", "")]), Some("/home/me/.kimi-code".into()));
        assert_eq!(found(&[("KIMI_CODE_HOME", "here")]), Some("/project/here".into()));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn records_are_read_from_last_turn_end() {
        let mut home = Home::new(&format!("{METADATA}{}", turn(0, 100)));
        assert_eq!(home.steps(100), Some(1));
        let offset = home.offset();
        assert_eq!(offset, fs::metadata(home.file()).unwrap().len());
        assert_eq!(home.steps(100), None);
        let next = turn(1, 200);
        let (half, rest) = next.split_at(next.len() - 30);
        home.append(half);
        assert_eq!(home.steps(200), None);
        let mut records = TurnRecords::since(200);
        let files = home.files.as_mut().unwrap();
        files.offset = Some(offset);
        assert_eq!(files.read("s", &mut records, &mut MAX_TURN.clone()).unwrap(), None);
        assert!(records.has_begun());
        home.append(rest);
        let files = home.files.as_mut().unwrap();
        assert_eq!(files.read("s", &mut records, &mut MAX_TURN.clone()).unwrap().unwrap().steps, 1);
    }

    #[test]
    fn past_turns_are_skipped() {
        let mut home = Home::new(&format!("{METADATA}{}{}{}", turn(0, 100), turn(1, 200), turn(2, 300)));
        assert_eq!(home.steps(250), Some(1));
        assert_eq!(home.steps(250), None);
    }

    #[test]
    fn file_with_unknown_metadata_is_not_read() {
        for start in [METADATA.replace("1.5", "1.6"), String::new(), "x".repeat(5000), "\n".to_owned()] {
            let mut home = Home::new(&format!("{start}{}", turn(0, 100)));
            assert_eq!(home.steps(0), None, "{start:.40}");
        }
    }

    #[test]
    fn missing_home_or_session_gives_nothing() {
        let mut home = Home::new(METADATA);
        fs::remove_file(home.dir.path().join(INDEX)).unwrap();
        assert_eq!(home.steps(0), None);
        assert!(home.files.as_ref().unwrap().is_useless);
        home.files = Some(SessionFiles::new("/no/such/home".into()));
        assert_eq!(home.steps(0), None);
        let mut other = SessionFiles::new(Home::new(METADATA).dir.path().to_owned());
        assert!(other.read("t", &mut TurnRecords::since(0), &mut MAX_TURN.clone()).is_ok_and(|read| read.is_none()));
    }

    #[test]
    fn long_lines_are_skipped() {
        let long = format!("{{\"type\":\"llm.tools_snapshot\",\"x\":\"{}\"}}\n", "y".repeat(3 * MAX_LINE));
        let mut home = Home::new(&format!("{METADATA}{long}{}", turn(0, 100)));
        assert_eq!(home.steps(100), Some(1));
        // A long line that has no end yet, and that grows.
        home.append(&"z".repeat(MAX_LINE + PIECE));
        assert_eq!(home.steps(200), None);
        assert!(home.files.as_ref().unwrap().skips_line);
        home.append(&format!("zz\n{}", turn(1, 200)));
        assert_eq!(home.steps(200), Some(1));
    }

    #[test]
    fn large_file_is_read_near_its_end() {
        let mut home = Home::new(METADATA);
        let filler = format!("{{\"x\":\"{}\"}}\n", "y".repeat(1000));
        home.append(&filler.repeat(12_000));
        home.append(&turn(0, 100));
        let mut left = MAX_TURN;
        let files = home.files.as_mut().unwrap();
        let report = files.read("s", &mut TurnRecords::since(100), &mut left).unwrap();
        assert_eq!(report.unwrap().steps, 1);
        assert!(MAX_TURN - left <= MAX_UNREAD + PIECE as u64);
    }

    #[test]
    fn reading_stops_at_its_limit() {
        let mut home = Home::new(METADATA);
        home.append(&"{\"type\":\"x\"}\n".repeat(50_000));
        home.append(&turn(0, 100));
        let files = home.files.as_mut().unwrap();
        let mut left = 100_000;
        assert_eq!(files.read("s", &mut TurnRecords::since(100), &mut left).unwrap(), None);
        assert_eq!(left, 0);
    }

    #[test]
    fn truncated_file_is_read_from_new_end() {
        let mut home = Home::new(&format!("{METADATA}{}", turn(0, 100)));
        assert_eq!(home.steps(100), Some(1));
        fs::write(home.file(), METADATA).unwrap();
        assert_eq!(home.steps(200), None);
        home.append(&turn(1, 200));
        assert_eq!(home.steps(200), Some(1));
    }

    #[cfg(unix)]
    #[test]
    fn links_pipes_and_directories_are_not_read() {
        use std::os::unix::fs::symlink;
        let outside = TempDir::new().unwrap();
        let good = format!("{METADATA}{}", turn(0, 100));
        let secret = outside.path().join("wire.jsonl");
        fs::write(&secret, &good).unwrap();

        let mut home = Home::new(&good);
        fs::remove_file(home.file()).unwrap();
        symlink(&secret, home.file()).unwrap();
        assert_eq!(home.steps(100), None);

        let mut home = Home::new(&good);
        let main = home.file().parent().unwrap().to_owned();
        fs::remove_dir_all(&main).unwrap();
        symlink(outside.path(), &main).unwrap();
        assert_eq!(home.steps(100), None);

        let mut home = Home::new(&good);
        fs::remove_file(home.file()).unwrap();
        let status = std::process::Command::new("mkfifo").arg(home.file()).status().unwrap();
        assert!(status.success());
        assert_eq!(home.steps(100), None);

        let mut home = Home::new(&good);
        fs::remove_file(home.file()).unwrap();
        fs::create_dir(home.file()).unwrap();
        assert_eq!(home.steps(100), None);

        // The home itself may be a link, and the index names its target.
        let home = Home::new(&good);
        let link = outside.path().join("home");
        symlink(home.dir.path(), &link).unwrap();
        let mut files = SessionFiles::new(link);
        let report = files.read("s", &mut TurnRecords::since(100), &mut MAX_TURN.clone()).unwrap();
        assert_eq!(report.unwrap().steps, 1);
    }

    #[tokio::test]
    async fn read_turn_waits_for_its_records() {
        let home = Home::new(METADATA);
        let (files, report) = SessionFiles::new(home.dir.path().to_owned()).read_turn("s".to_owned(), 100).await;
        assert_eq!(report, None);
        home.append(&turn(0, 100));
        let (files, report) = files.unwrap().read_turn("s".to_owned(), 100).await;
        assert_eq!(report.unwrap().steps, 1);
        assert!(files.is_some());
        let (_, report) = SessionFiles::new("/no/such/home".into()).read_turn("s".to_owned(), 0).await;
        assert_eq!(report, None);
    }
}
