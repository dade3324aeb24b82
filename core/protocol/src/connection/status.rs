//! The state that a session reports: the agent's status, merged from its updates, and the tokens so far.

use std::sync::Arc;

use super::turn::{TurnKey, for_each_usage};
use super::{Connection, Output};
use crate::messages::{Event, StatusUpdate, TokenUsage};

/// The session's state after a change.
#[derive(Debug)]
pub struct StatusChange {
    /// `None` before the agent has reported its status.
    pub status: Option<Arc<StatusUpdate>>,
    /// All tokens of the session so far.
    pub usage: TokenUsage,
    /// The tokens of the running turn so far.
    pub turn: Option<(TurnKey, TokenUsage)>,
}

impl Connection {
    /// Updates the session's state from an event that does not belong to the running turn.
    pub(super) fn observe_session(&mut self, event: &Event) {
        let mut has_changed = self.observe_cost(event);
        if let Event::StatusUpdate(update) = event {
            let status = self.status.get_or_insert_with(|| Arc::new(StatusUpdate::unchanged()));
            Arc::make_mut(status).merge(update);
            has_changed = true;
        }
        for_each_usage(event, &mut |usage| {
            has_changed = true;
            self.usage += usage;
        });
        if has_changed {
            self.report_status();
        }
    }

    pub(super) fn report_status(&mut self) {
        self.outputs.push_back(Output::StatusChanged(Box::new(StatusChange {
            status: self.status.clone(),
            usage: self.usage.clone(),
            turn: self.turn.as_ref().map(|turn| (turn.key, turn.spent.usage.clone())),
        })));
    }
}

impl StatusUpdate {
    /// Makes an update without values.
    pub fn unchanged() -> Self {
        Self {
            context_usage: None,
            context_tokens: None,
            max_context_tokens: None,
            token_usage: None,
            message_id: None,
            plan_mode: None,
            mcp_status: None,
            cost: None,
            extra: Default::default(),
        }
    }

    /// Adopts the fields that another update sets.
    fn merge(&mut self, other: &Self) {
        fn newer<T: Clone>(mine: &mut Option<T>, other: &Option<T>) {
            if other.is_some() {
                mine.clone_from(other);
            }
        }
        newer(&mut self.context_usage, &other.context_usage);
        newer(&mut self.context_tokens, &other.context_tokens);
        newer(&mut self.max_context_tokens, &other.max_context_tokens);
        newer(&mut self.token_usage, &other.token_usage);
        newer(&mut self.message_id, &other.message_id);
        newer(&mut self.plan_mode, &other.plan_mode);
        newer(&mut self.mcp_status, &other.mcp_status);
    }
}
