//! The open sessions of the server, and their turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kimi_agent_client::{Error, PromptOptions, Session, SessionOptions};
use kimi_agent_protocol::PromptResult;
use kimi_agent_protocol::messages::{DiffDisplayBlock, DisplayBlock, Event, ToolResult};
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio::task::JoinSet;

use super::progress::Progress;

/// The limit of the texts of changes that are kept for a session, in bytes.
const MAX_CHANGES: usize = 4 << 20;

/// The agents, and the open sessions with them.
pub(super) struct Sessions {
    agents: Vec<(String, SessionOptions)>,
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    count: u64,
    /// How many sessions are about to open.
    opening: usize,
    /// Least recently used first.
    open: Vec<Arc<Known>>,
}

/// Why a session is not open.
pub(super) enum NotOpened {
    Because(String),
    Sdk(Error),
}

/// The place of a session that is about to open, until this is dropped.
struct Opening<'a>(&'a Sessions);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.lock().opening -= 1;
    }
}

/// An open session.
pub(super) struct Known {
    /// The name for the tools: that of the agent, with a number.
    pub(super) id: String,
    session: Session,
    changes: Mutex<Changes>,
}

/// The changes of files that the agent has reported.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) files: Vec<DiffDisplayBlock>,
    /// How many reports did not fit.
    pub(super) left_out: usize,
    bytes: usize,
}

impl Sessions {
    pub(super) fn new(agents: Vec<(String, SessionOptions)>, most: usize) -> Self {
        Self { agents, most, state: Mutex::default() }
    }

    /// Returns the names of the agents.
    pub(super) fn agents(&self) -> Vec<&str> {
        self.agents.iter().map(|(name, _)| name.as_str()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session with an agent. Without a name it is the first one.
    ///
    /// # Errors
    /// No agent has the name, all sessions are in use, or the agent cannot be started or refuses the session.
    pub(super) async fn open(&self, agent: Option<&str>) -> Result<Arc<Known>, NotOpened> {
        let named = self.agents.iter().find(|(name, _)| agent.is_none_or(|agent| agent == name));
        let (name, options) = named.ok_or_else(|| {
            NotOpened::Because(format!("no agent has this name; the agents are: {}", self.agents().join(", ")))
        })?;
        let (_place, surplus) = self.place()?;
        if let Some(surplus) = surplus {
            surplus.session.close().await.ok();
        }
        let session = options.clone().start().await.map_err(NotOpened::Sdk)?;
        let mut state = self.lock();
        state.count += 1;
        let known = Arc::new(Known { id: format!("{name}-{}", state.count), session, changes: Mutex::default() });
        state.open.push(Arc::clone(&known));
        Ok(known)
    }

    /// Takes a place for a session. Returns the session that has to close for it, if all places are taken.
    fn place(&self) -> Result<(Opening<'_>, Option<Arc<Known>>), NotOpened> {
        let mut state = self.lock();
        let mut surplus = None;
        if state.open.len() + state.opening >= self.most {
            // A session with a turn is in use: its tool call has a reference.
            let idle = state.open.iter().position(|known| Arc::strong_count(known) == 1).ok_or_else(|| {
                let most = self.most;
                NotOpened::Because(format!("all {most} sessions are in use; wait for one, or set --max-sessions"))
            })?;
            surplus = Some(state.open.remove(idle));
        }
        state.opening += 1;
        drop(state);
        Ok((Opening(self), surplus))
    }

    /// Returns an open session.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Known>> {
        let mut state = self.lock();
        let at = state.open.iter().position(|known| known.id == id)?;
        let known = state.open.remove(at);
        state.open.push(Arc::clone(&known));
        Some(known)
    }

    /// Closes a session.
    pub(super) async fn close_one(&self, known: &Known) {
        self.lock().open.retain(|open| open.id != known.id);
        known.session.close().await.ok();
    }

    /// Closes all sessions.
    pub(super) async fn close(&self) {
        let open = std::mem::take(&mut self.lock().open);
        let mut closing = JoinSet::new();
        for known in open {
            closing.spawn(async move { known.session.close().await });
        }
        while closing.join_next().await.is_some() {}
    }
}

impl Known {
    /// Runs a turn. If the client cancels the call, the turn is cancelled.
    ///
    /// # Errors
    /// The error of the turn.
    pub(super) async fn turn(
        self: &Arc<Self>,
        prompt: PromptOptions,
        context: &RequestContext<RoleServer>,
    ) -> Result<PromptResult, Error> {
        let mut turn = self.session.prompt(prompt)?;
        let mut progress = Progress::new(context);
        let (mut failure, mut is_cancelled) = (None, false);
        loop {
            tokio::select! {
                biased;
                () = context.ct.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    let known = Arc::clone(self);
                    tokio::spawn(async move { known.session.cancel().await.ok() });
                }
                event = turn.next() => match event {
                    Some(Ok(event)) => {
                        self.note(&event);
                        progress.event(&event).await;
                    }
                    Some(Err(error)) => failure = Some(error),
                    None => break,
                },
            }
        }
        match failure {
            Some(error) => Err(error),
            None => turn.result().await,
        }
    }

    /// Cancels the turn that runs.
    ///
    /// # Errors
    /// The agent cannot be told.
    pub(super) async fn cancel(&self) -> Result<(), Error> {
        self.session.cancel().await
    }

    /// Returns the changes that the agent has reported.
    pub(super) fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, event: &Event) {
        let result = match event {
            Event::ToolResult(result) => result,
            Event::SubagentEvent(inner) => return self.note(&inner.event),
            _ => return,
        };
        self.changes().add(result);
    }
}

impl Changes {
    /// Adds what a tool has changed. Of several changes of a file, the first old and the last new text are kept.
    fn add(&mut self, result: &ToolResult) {
        if result.return_value.is_error {
            return;
        }
        for block in &result.return_value.display {
            let DisplayBlock::Diff(diff) = block else { continue };
            let known = self.files.iter_mut().find(|known| known.path == diff.path && known.new_text == diff.old_text);
            let freed = known.as_ref().map_or(0, |known| known.new_text.len());
            let bytes = diff.new_text.len() + if known.is_some() { 0 } else { diff.path.len() + diff.old_text.len() };
            if self.bytes - freed + bytes > MAX_CHANGES {
                self.left_out += 1;
                continue;
            }
            self.bytes = self.bytes - freed + bytes;
            match known {
                Some(known) => known.new_text.clone_from(&diff.new_text),
                None => self.files.push(diff.clone()),
            }
        }
    }
}
