//! The turns of a program, by name; if the program waits for an outcome concurrently, the turn lives in a task.

use kimi_agent::wire::{Content, Event, TokenUsage};
use kimi_agent::{PromptResult, Result, Turn};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::case::Problem;

/// The outcome of a turn in a task.
pub(crate) struct Joined {
    /// What was read of it.
    pub(crate) events: Vec<Event>,
    pub(crate) outcome: Result<Option<PromptResult>>,
}

/// What the program may want of a turn whose outcome is being waited for.
pub(crate) enum Ask {
    Cancel(oneshot::Sender<Result<()>>),
    Steer(Content, oneshot::Sender<Result<()>>),
    CancelSubagent(String, oneshot::Sender<Result<()>>),
    Usage(oneshot::Sender<TokenUsage>),
}

pub(crate) enum Held {
    Here(Box<Turn>),
    Waiting { asks: mpsc::UnboundedSender<Ask>, task: JoinHandle<(Box<Turn>, Joined)> },
}

impl Held {
    /// Starts to wait for the outcome.
    pub(crate) fn wait(self) -> Result<Self, Problem> {
        self.beside(false)
    }

    /// Starts to read its events.
    pub(crate) fn read(self) -> Result<Self, Problem> {
        self.beside(true)
    }

    fn beside(self, read: bool) -> Result<Self, Problem> {
        let Self::Here(turn) = self else { return Err("its outcome is waited for already".to_owned()) };
        let (asks, asked) = mpsc::unbounded_channel();
        Ok(Self::Waiting { asks, task: tokio::spawn(wait(turn, asked, read)) })
    }

    /// What came of it, and the turn itself again.
    pub(crate) async fn join(self) -> Result<(Self, Joined), Problem> {
        let Self::Waiting { asks, task } = self else { return Err("its outcome is not waited for".to_owned()) };
        drop(asks);
        task.await.map(|(turn, joined)| (Self::Here(turn), joined)).map_err(|error| error.to_string())
    }

    /// Leaves it, as a program does that drops it.
    pub(crate) fn leave(self) {
        match self {
            Self::Here(turn) => drop(turn),
            Self::Waiting { task, .. } => task.abort(),
        }
    }

    pub(crate) fn here(&mut self) -> Result<&mut Turn, Problem> {
        match self {
            Self::Here(turn) => Ok(turn),
            Self::Waiting { .. } => Err("its outcome is waited for, nothing else".to_owned()),
        }
    }

    pub(crate) async fn cancel(&self) -> Result<Result<()>, Problem> {
        match self {
            Self::Here(turn) => Ok(turn.cancel().await),
            Self::Waiting { asks, .. } => ask(asks, Ask::Cancel).await,
        }
    }

    pub(crate) async fn steer(&self, input: Content) -> Result<Result<()>, Problem> {
        match self {
            Self::Here(turn) => Ok(turn.steer(input).await),
            Self::Waiting { asks, .. } => ask(asks, |reply| Ask::Steer(input, reply)).await,
        }
    }

    pub(crate) async fn cancel_subagent(&self, session: String) -> Result<Result<()>, Problem> {
        match self {
            Self::Here(turn) => Ok(turn.cancel_subagent(session).await),
            Self::Waiting { asks, .. } => ask(asks, |reply| Ask::CancelSubagent(session, reply)).await,
        }
    }

    pub(crate) async fn usage(&self) -> Result<TokenUsage, Problem> {
        match self {
            Self::Here(turn) => Ok(turn.usage()),
            Self::Waiting { asks, .. } => ask(asks, Ask::Usage).await,
        }
    }
}

async fn ask<T>(asks: &mpsc::UnboundedSender<Ask>, make: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, Problem> {
    let (reply, answer) = oneshot::channel();
    asks.send(make(reply)).map_err(|_| "its outcome is there already; `join` it first".to_owned())?;
    answer.await.map_err(|_| "its outcome came meanwhile; `join` it first".to_owned())
}

/// What comes next of a turn.
enum Next {
    Event(Event),
    End(Result<Option<PromptResult>>),
}

async fn next(turn: &mut Turn, read: bool) -> Next {
    if !read {
        return Next::End(turn.result().await.map(Some));
    }
    match turn.next().await {
        Some(Ok(event)) => Next::Event(event),
        Some(Err(error)) => Next::End(Err(error)),
        None => Next::End(Ok(None)),
    }
}

async fn wait(mut turn: Box<Turn>, mut asks: mpsc::UnboundedReceiver<Ask>, read: bool) -> (Box<Turn>, Joined) {
    let (mut events, mut ended, mut is_joined) = (Vec::new(), None, false);
    loop {
        if is_joined && let Some(outcome) = ended.take() {
            return (turn, Joined { events, outcome });
        }
        // A turn that has ended still takes calls, until the program joins it.
        let ask = tokio::select! {
            next = next(&mut turn, read), if ended.is_none() => {
                match next {
                    Next::Event(event) => events.push(event),
                    Next::End(outcome) => ended = Some(outcome),
                }
                continue;
            }
            ask = asks.recv(), if !is_joined => ask,
        };
        // The reply may have no recipient.
        match ask {
            None => is_joined = true,
            Some(Ask::Cancel(reply)) => drop(reply.send(turn.cancel().await)),
            Some(Ask::Steer(input, reply)) => drop(reply.send(turn.steer(input).await)),
            Some(Ask::CancelSubagent(session, reply)) => drop(reply.send(turn.cancel_subagent(session).await)),
            Some(Ask::Usage(reply)) => drop(reply.send(turn.usage())),
        }
    }
}
