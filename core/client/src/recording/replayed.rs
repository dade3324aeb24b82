//! Sessions with an agent that plays a recording: the protocol is known from the recording, and so are the agent's own
//! records of turns.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kimi_agent_protocol::recording::{Entry, HeaderEntry, PROGRAM_DIFFERS, PROGRAM_NEVER, Recording};

use super::{Opening, TAKEN};
use crate::connection::TurnKey;
use crate::error::{Error, Result, RpcError, RpcErrorKind};
use crate::handler::StderrHandler;
use crate::options::{Dialect, SessionOptions};
use crate::turn_records::TurnReport;

/// The argument before the path of a recording.
const FLAG: &str = "--play-recording";

/// The argument after the path of a recording that is a cassette.
pub(crate) const CASSETTE_FLAG: &str = "--cassette";

/// The parts of a recording that the SDK needs to open a session.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The recording. A session must not record into it.
    pub(super) path: PathBuf,
    /// Whether it is a cassette, which one session plays.
    is_cassette: bool,
    dialect: Dialect,
    /// The agent's own records of turns.
    pub(crate) reports: BTreeMap<TurnKey, Option<TurnReport>>,
    /// The agent's report about something that the program has left out. `close()` takes it.
    left_out: Mutex<Option<String>>,
}

impl SessionOptions {
    /// Finds out whether the agent plays a recording. If so, the protocol is that of the recording.
    pub(crate) async fn find_replayed(&mut self) -> Result<()> {
        let Some((path, is_cassette)) = self.program().ok().and_then(|(_, args)| path_after_flag(&args)) else {
            return Ok(());
        };
        // The agent is started in the session's directory.
        let path = self.work_dir.as_ref().map_or_else(|| path.clone(), |dir| dir.join(&path));
        let file = path.clone();
        let read = tokio::task::spawn_blocking(move || Replayed::read(&file, is_cassette));
        let read = read.await.map_err(|_| Error::Internal("the reading of a recording has failed".to_owned()))?;
        let replayed = read.map_err(|reason| {
            self.invalid("executable", format!("the recording {} can't be read: {reason}", path.display()))
        })?;
        let is_same = match (self.dialect, replayed.dialect) {
            (Dialect::Auto, _) | (Dialect::Wire(_), Dialect::Wire(_) | Dialect::Auto) => true,
            (own, recorded) => own == recorded,
        };
        if !is_same {
            let reason = format!("{} was recorded with {:?}", path.display(), replayed.dialect.to_string());
            return Err(self.invalid("dialect", format!("{reason}; set that, or leave it out")));
        }
        if self.dialect == Dialect::Auto {
            self.dialect = replayed.dialect;
        }
        let replayed = Arc::new(replayed);
        self.on_stderr = Some(with_warning(self.on_stderr.take(), Arc::clone(&replayed)));
        self.replayed = Some(replayed);
        Ok(())
    }

    /// Begins to play a cassette, if the agent plays one.
    ///
    /// # Errors
    /// Fails if another session plays the cassette, or has played it.
    pub(crate) fn play_cassette(&self) -> Result<Option<Opening>> {
        let Some(replayed) = self.replayed.as_ref().filter(|replayed| replayed.is_cassette) else { return Ok(None) };
        let taken = || self.invalid("executable", format!("can't play {}: {TAKEN}", replayed.path.display()));
        Opening::of_player(&replayed.path).map(Some).ok_or_else(taken)
    }

    /// Returns whether the agent plays a cassette.
    #[cfg(feature = "batch")]
    pub(crate) fn plays_cassette(&self) -> bool {
        let found = self.program().ok().and_then(|(_, args)| path_after_flag(&args));
        found.is_some_and(|(_, is_cassette)| is_cassette)
    }
}

/// Logs and keeps what the program has left out. The agent notices it when the session is closed.
fn with_warning(next: Option<StderrHandler>, replayed: Arc<Replayed>) -> StderrHandler {
    Arc::new(move |line: String| {
        if let Some(text) = left_out(&line) {
            tracing::warn!("{text}");
            *replayed.left_out.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
        }
        if let Some(next) = &next {
            next(line);
        }
    })
}

/// Returns the report of the agent about something that the program has left out, if a line of stderr has one.
pub(super) fn left_out(line: &str) -> Option<&str> {
    let report = &line[line.find(PROGRAM_DIFFERS)?..];
    report.contains(PROGRAM_NEVER).then_some(report)
}

/// Returns the path of the recording, and whether it is a cassette.
fn path_after_flag(args: &[OsString]) -> Option<(PathBuf, bool)> {
    let mut rest = args.iter().skip_while(|arg| *arg != FLAG).skip(1);
    let path = rest.next().map(PathBuf::from)?;
    Some((path, rest.next().is_some_and(|arg| arg == CASSETTE_FLAG)))
}

impl Replayed {
    /// Reads a recording, and checks whether the agent can play it.
    fn read(path: &Path, is_cassette: bool) -> std::result::Result<Self, String> {
        let text = kimi_agent_files::read_file(path).map_err(|error| error.to_string())?;
        let recording = Recording::read(&String::from_utf8_lossy(&text)).map_err(|error| error.to_string())?;
        let dialect = dialect(&recording.header)?;
        let mut reports = BTreeMap::new();
        for timed in recording.entries {
            match timed.entry {
                Entry::Records(records) if dialect == Dialect::Acp => {
                    drop(reports.insert(records.turn, records.report))
                }
                Entry::Gap(gap) => {
                    let missing = gap.entries;
                    return Err(format!("{missing} of its entries are missing, because its disk was too slow"));
                }
                _ => {}
            }
        }
        Ok(Self { path: path.to_owned(), is_cassette, dialect, reports, left_out: Mutex::default() })
    }

    /// Fails if the program has left out something of the recording, once.
    pub(crate) fn check_complete(&self) -> Result<()> {
        let left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(message) = left_out else { return Ok(()) };
        let hint = Some("if the program has failed before, that is the cause".into());
        Err(Error::Rpc(RpcError { hint, ..RpcError::new(RpcErrorKind::Other, message) }))
    }
}

/// Returns the protocol of a recording. A version of Wire is known only if the recorded program had set it.
fn dialect(header: &HeaderEntry) -> std::result::Result<Dialect, String> {
    let option = header.options.get("dialect").and_then(|dialect| dialect.as_str()?.parse::<Dialect>().ok());
    match (&*header.dialect, option) {
        ("wire", Some(Dialect::Wire(version))) => Ok(Dialect::Wire(version)),
        ("wire", _) => Ok(Dialect::Auto),
        (other, _) => other.parse().map_err(|_| format!("its protocol {other:?} is not known to this version")),
    }
}
