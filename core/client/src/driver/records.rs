//! Reads a turn's records, concurrently with its session.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::connection::TurnKey;
use crate::options::SessionOptions;
use crate::recording::Replayed;
use crate::session_files::{self, SessionFiles};
use crate::turn_records::TurnReport;

type Reading = Pin<Box<dyn Future<Output = (Option<RecordsSource>, Option<TurnReport>)> + Send>>;

/// The source of the records of a session.
#[derive(Debug)]
pub(crate) enum RecordsSource {
    /// The files that the agent writes.
    Files(SessionFiles),
    /// The recording that the agent plays.
    Recording(Arc<Replayed>),
}

impl SessionOptions {
    /// Returns the source of the records of turns, if the agent writes them.
    pub(crate) fn records_source(&self, work_dir: &Path) -> Option<RecordsSource> {
        if let Some(replayed) = &self.replayed {
            return self.read_session_files.then(|| RecordsSource::Recording(Arc::clone(replayed)));
        }
        if self.paths.is_some() || self.remote_address().is_some() {
            // They are in the place of the agent.
            return None;
        }
        let variable = |name: &str| {
            let own = self.env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            own.or_else(|| self.inherited.var(name)).map(Into::into)
        };
        let home = session_files::home(&variable, work_dir).filter(|_| self.read_session_files)?;
        Some(RecordsSource::Files(SessionFiles::new(home)))
    }
}

impl RecordsSource {
    async fn read_turn(self, turn: TurnKey, session: String, since: u64) -> (Option<Self>, Option<TurnReport>) {
        match self {
            Self::Files(files) => {
                let (files, report) = files.read_turn(session, since).await;
                (files.map(Self::Files), report)
            }
            Self::Recording(replayed) => {
                let report = replayed.reports.get(&turn).cloned().flatten();
                (Some(Self::Recording(replayed)), report)
            }
        }
    }
}

/// The records of a session's turns.
pub(super) struct Records {
    /// `None` while they are being read, or if they cannot be read.
    source: Option<RecordsSource>,
    reading: Option<(TurnKey, Reading)>,
    /// The agent's id of the session.
    pub(super) session: Option<String>,
    /// When the last turn began, in milliseconds since 1970.
    began: u64,
}

/// The records of a turn were read. The report is `None` if they say nothing about it.
pub(super) struct RecordsRead {
    pub(super) turn: TurnKey,
    pub(super) report: Option<TurnReport>,
}

impl Records {
    pub(super) fn new(source: RecordsSource) -> Self {
        Self { source: Some(source), reading: None, session: None, began: 0 }
    }

    pub(super) fn turn_begins(&mut self) {
        if self.source.is_some() {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.began = since.as_millis().try_into().unwrap_or(u64::MAX);
        }
    }

    /// Starts to read the records of a turn. Returns whether the agent writes any.
    pub(super) fn begin(&mut self, turn: TurnKey) -> bool {
        let Some(session) = self.session.clone() else { return false };
        let Some(source) = self.source.take() else { return false };
        self.reading = Some((turn, Box::pin(source.read_turn(turn, session, self.began))));
        true
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RecordsRead> {
        let Some((turn, reading)) = &mut self.reading else { return Poll::Pending };
        let (source, report) = ready!(reading.as_mut().poll(cx));
        let turn = *turn;
        self.reading = None;
        self.source = source;
        Poll::Ready(RecordsRead { turn, report })
    }
}
