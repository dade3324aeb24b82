//! The usage of a day by all guarded sessions: a file in the user's folder for states, with a lock. The day is that of UTC.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use kimi_agent_protocol::budget::Amounts;
use serde_json::{Map, Value};

/// The path of the file in the folder for states.
const FILE: &str = "kimi-agent/day.json";
/// The limit of the file, in bytes.
const MAX_FILE: u64 = 4 << 10;
/// How often the lock is tried, and the pause between. Each guard holds it for a moment.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);
/// The shortest time between two counts of one session while a turn runs.
const INTERVAL: Duration = Duration::from_secs(1);

/// The part of one session in the file.
#[derive(Debug)]
pub(crate) struct DayShare {
    path: PathBuf,
    /// The amounts of this session that are in the file.
    counted: Amounts,
    last: Option<Instant>,
}

impl DayShare {
    /// Begins to count a session.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, counted: Amounts::default(), last: None }
    }

    /// Whether it is time to count again while a turn runs.
    pub(crate) fn is_due(&self, used: &Amounts, now: Instant) -> bool {
        *used != self.counted && self.last.is_none_or(|last| now.saturating_duration_since(last) >= INTERVAL)
    }

    /// Counts what the session has used so far. Returns what the others have used today.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn count(&mut self, used: Amounts, now: Instant) -> Result<Amounts, String> {
        // Also after a failure: waiting for the lock blocks the thread.
        self.last = Some(now);
        let total = add(&self.path, used.minus(self.counted), SystemTime::now())
            .map_err(|error| format!("the usage of the day cannot be counted in {}: {error}", self.path.display()))?;
        self.counted = used;
        Ok(total.minus(used))
    }
}

/// Returns the path of the user's file.
///
/// # Errors
/// The user has no folder for states.
pub(crate) fn user_file() -> io::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match cfg!(windows) {
        true => variable("LOCALAPPDATA"),
        false => variable("XDG_STATE_HOME").or_else(|| {
            let home = std::env::home_dir().filter(|home| home.is_absolute())?;
            Some(home.join(".local").join("state"))
        }),
    };
    let folder = folder.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the home directory is not known"))?;
    Ok(folder.join(FILE))
}

/// Adds to the file, and returns the total of the day.
fn add(path: &Path, more: Amounts, now: SystemTime) -> io::Result<Amounts> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = kimi_agent_files::open_private(path, OpenOptions::new().read(true).write(true))?;
    lock(&file)?;
    let today = humantime::format_rfc3339_seconds(now).to_string().chars().take(10).collect::<String>();
    let before = read(&mut file, &today)?;
    let total = before.plus(more);
    let mut content = total.to_json();
    content.insert("day".to_owned(), today.into());
    let text = format!("{}\n", Value::Object(content));
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    Ok(total)
}

fn lock(file: &File) -> io::Result<()> {
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "another program keeps it locked"))
}

/// Reads what the file has of this day.
fn read(file: &mut File, today: &str) -> io::Result<Amounts> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it is not readable; delete it to begin the day again");
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text)?;
    if text.trim().is_empty() {
        return Ok(Amounts::default());
    }
    let content: Map<String, Value> = serde_json::from_str(&text).map_err(|_| wrong())?;
    match content.get("day").and_then(Value::as_str) {
        Some(day) if day == today => Amounts::from_json(&content).ok_or_else(wrong),
        Some(_) => Ok(Amounts::default()),
        None => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn amounts(tokens: u64, usd: f64) -> Amounts {
        let value = json!({"tokens": tokens, "usd": usd});
        Amounts::from_json(value.as_object().unwrap()).unwrap()
    }

    #[test]
    fn sessions_are_counted_together_for_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/day.json");
        let day = |n: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(n * 86_400 + 100);
        assert_eq!(add(&path, amounts(5, 0.5), day(1)).unwrap(), amounts(5, 0.5));
        assert_eq!(add(&path, amounts(3, 0.25), day(1)).unwrap(), amounts(8, 0.75));
        assert_eq!(add(&path, amounts(1, 0.0), day(2)).unwrap(), amounts(1, 0.0));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"day\":\"1970-01-03\"") && text.contains("\"tokens\":1,"), "{text}");
    }

    #[test]
    fn share_counts_each_amount_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("day.json");
        let (mut one, mut other) = (DayShare::new(path.clone()), DayShare::new(path));
        let now = Instant::now();
        assert_eq!(one.count(amounts(5, 0.0), now).unwrap(), amounts(0, 0.0));
        assert_eq!(other.count(amounts(2, 0.0), now).unwrap(), amounts(5, 0.0));
        assert_eq!(one.count(amounts(6, 0.0), now).unwrap(), amounts(2, 0.0));
        assert!(!one.is_due(&amounts(6, 0.0), now + INTERVAL) && !one.is_due(&amounts(7, 0.0), now));
        assert!(one.is_due(&amounts(7, 0.0), now + INTERVAL));
    }

    #[test]
    fn unreadable_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("day.json");
        for text in
            ["x", "{}", "{\"day\": \"1970-01-01\", \"tokens\": -1}", "{\"day\": \"1970-01-01\", \"tokens\": \"x\"}"]
        {
            std::fs::write(&path, text).unwrap();
            let error = add(&path, Amounts::default(), SystemTime::UNIX_EPOCH).unwrap_err().to_string();
            assert!(error.contains("delete it"), "{text}: {error}");
        }
        std::fs::write(&path, "").unwrap();
        assert!(add(&path, Amounts::default(), SystemTime::UNIX_EPOCH).is_ok());
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        let error = add(&path, Amounts::default(), SystemTime::UNIX_EPOCH).unwrap_err().to_string();
        assert!(error.contains("locked"), "{error}");
    }
}
