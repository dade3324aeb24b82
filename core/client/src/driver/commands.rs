//! The commands to the driver of a session.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::event_channel::EventChannel;
use crate::connection::{ManualAnswer, RequestRef, TurnKey, TurnLimits};
use crate::dialect::ConfigValue;
use crate::error::{Error, Result};
use crate::messages::{Content, HandlerKind};
use crate::output::PromptOutput;
use kimi_agent_protocol::telemetry::TurnSpan;

/// A command to the driver of a session.
#[derive(Debug)]
pub(crate) enum Command {
    Prompt {
        turn: TurnKey,
        channel: Arc<EventChannel>,
        input: Content,
        limits: TurnLimits,
        output: Option<Box<PromptOutput>>,
        span: Option<Box<TurnSpan>>,
    },
    Cancel {
        turn: TurnKey,
    },
    Steer {
        turn: TurnKey,
        input: Content,
        reply: oneshot::Sender<Result<()>>,
    },
    CancelSubagent {
        session: String,
        reply: oneshot::Sender<Result<()>>,
    },
    SetPlanMode {
        on: bool,
        reply: oneshot::Sender<Result<()>>,
    },
    SetConfigOption {
        option: String,
        value: ConfigValue,
        reply: oneshot::Sender<Result<()>>,
    },
    Undo {
        turns: u32,
        reply: oneshot::Sender<Result<()>>,
    },
    Replay {
        channel: Arc<EventChannel>,
    },
    Respond {
        request: RequestRef,
        answer: Box<ManualAnswer>,
        reply: oneshot::Sender<Result<()>>,
    },
    /// The agent speaks this protocol, as it turned out.
    SwitchDialect {
        dialect: Box<dyn crate::dialect::Dialect>,
    },
    ObserverFailed {
        kind: HandlerKind,
        message: String,
        /// The message with the class of the exception.
        reported: String,
    },
    /// Closes the session, with this `close_timeout` if one is given.
    Close(Option<Duration>),
    /// Closes the session within [`LINGER`](super::shutdown::LINGER), because it was never opened.
    Abandon,
    Kill,
}

impl Command {
    /// Fails the command, because the session has ended.
    pub(super) fn fail(self, error: &Error) {
        match self {
            Self::Prompt { channel, span, .. } => {
                if let Some(span) = span {
                    span.fail(error);
                }
                channel.finish(Err(error.clone()));
            }
            Self::Replay { channel } => channel.finish(Err(error.clone())),
            Self::Steer { reply, .. }
            | Self::CancelSubagent { reply, .. }
            | Self::SetPlanMode { reply, .. }
            | Self::SetConfigOption { reply, .. }
            | Self::Undo { reply, .. }
            | Self::Respond { reply, .. } => {
                drop(reply.send(Err(error.clone())));
            }
            _ => {}
        }
    }
}
