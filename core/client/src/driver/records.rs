//! Reads a turn's records, concurrently with its session.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::connection::TurnKey;
use crate::session_files::SessionFiles;
use crate::turn_records::TurnReport;

type Reading = Pin<Box<dyn Future<Output = (Option<SessionFiles>, Option<TurnReport>)> + Send>>;

/// The records of a session's turns.
pub(super) struct Records {
    /// `None` while they are being read, or if they are not needed.
    files: Option<Box<SessionFiles>>,
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
    pub(super) fn new(files: Option<SessionFiles>) -> Self {
        Self { files: files.map(Box::new), reading: None, session: None, began: 0 }
    }

    pub(super) fn turn_begins(&mut self) {
        if self.files.is_some() {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.began = since.as_millis().try_into().unwrap_or(u64::MAX);
        }
    }

    /// Starts to read the records of a turn. Returns whether the agent writes any.
    pub(super) fn begin(&mut self, turn: TurnKey) -> bool {
        let Some(session) = self.session.clone() else { return false };
        let Some(files) = self.files.take() else { return false };
        self.reading = Some((turn, Box::pin(files.read_turn(session, self.began))));
        true
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RecordsRead> {
        let Some((turn, reading)) = &mut self.reading else { return Poll::Pending };
        let (files, report) = ready!(reading.as_mut().poll(cx));
        let turn = *turn;
        self.reading = None;
        self.files = files.map(Box::new);
        Poll::Ready(RecordsRead { turn, report })
    }
}
