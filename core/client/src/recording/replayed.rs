//! Sessions with an agent that plays a recording: the protocol is known from the recording, and so are the agent's own
//! records of turns.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kimi_agent_protocol::recording::{HeaderEntry, Recording, RecordsEntry};

use crate::connection::TurnKey;
use crate::error::{Error, Result};
use crate::options::{Dialect, SessionOptions};
use crate::turn_records::TurnReport;

/// The argument before the path of a recording.
const FLAG: &str = "--play-recording";
/// The limit of a header, in bytes.
const MAX_HEADER: u64 = 16 << 20;

/// The parts of a recording that the SDK needs to open a session.
#[derive(Debug)]
pub(crate) struct Replayed {
    dialect: Dialect,
    /// The agent's own records of turns.
    pub(crate) reports: BTreeMap<TurnKey, Option<TurnReport>>,
}

impl SessionOptions {
    /// Finds out whether the agent plays a recording. If so, the protocol is that of the recording.
    pub(crate) async fn find_replayed(&mut self) -> Result<()> {
        let Some(path) = self.program().ok().and_then(|(_, args)| path_after_flag(&args)) else { return Ok(()) };
        // The agent is started in the session's directory.
        let path = self.work_dir.as_ref().map_or_else(|| path.clone(), |dir| dir.join(&path));
        let file = path.clone();
        let read = tokio::task::spawn_blocking(move || Replayed::read(&file));
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
        self.replayed = Some(Arc::new(replayed));
        Ok(())
    }
}

fn path_after_flag(args: &[OsString]) -> Option<PathBuf> {
    args.iter().skip_while(|arg| *arg != FLAG).nth(1).map(PathBuf::from)
}

impl Replayed {
    fn read(path: &Path) -> std::result::Result<Self, String> {
        let show = |error: io::Error| error.to_string();
        let mut file = BufReader::new(File::open(path).map_err(show)?);
        let mut line = Vec::new();
        file.by_ref().take(MAX_HEADER).read_until(b'\n', &mut line).map_err(show)?;
        let recording = Recording::read(&String::from_utf8_lossy(&line)).map_err(|error| error.to_string())?;
        let dialect = dialect(&recording.header)?;
        let reports = if dialect == Dialect::Acp { reports(file).map_err(show)? } else { BTreeMap::new() };
        Ok(Self { dialect, reports })
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

/// Reads the agent's own records of turns.
fn reports(mut file: impl BufRead) -> io::Result<BTreeMap<TurnKey, Option<TurnReport>>> {
    let mut reports = BTreeMap::new();
    let mut line = String::new();
    while file.read_line(&mut line)? > 0 {
        if line.contains(r#""type":"records""#)
            && let Ok(entry) = serde_json::from_str::<RecordsEntry>(&line)
        {
            reports.insert(entry.turn, entry.report);
        }
        line.clear();
    }
    Ok(reports)
}
