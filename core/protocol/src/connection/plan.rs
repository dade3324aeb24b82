//! The plan of a turn: the to-do list that a tool shows becomes a plan, and the outcome has the last plan.

use super::tool_calls::MAX_ID;
use super::turn::ActiveTurn;
use crate::messages::{DisplayBlock, Event, Plan, PlanEntry, PlanStatus, SubagentEvent, TodoDisplayBlock, TodoStatus};

/// The limit of entries in an outcome, and of their texts together, in bytes.
const MAX_ENTRIES: usize = 1000;
const MAX_TEXTS: usize = 256 << 10;

/// Returns the plan that an event shows as a to-do list, and about how many bytes it takes.
pub(super) fn shown_in(event: &Event) -> Option<(Event, usize)> {
    match event {
        Event::ToolResult(result) => {
            let blocks = result.return_value.display.iter().rev();
            let list = blocks.into_iter().find_map(|block| match block {
                DisplayBlock::Todo(list) => Some(list),
                _ => None,
            })?;
            let (plan, size) = plan(list);
            Some((plan.into(), size))
        }
        Event::SubagentEvent(subagent) => {
            let (plan, size) = shown_in(&subagent.event)?;
            let event = SubagentEvent {
                parent_tool_call_id: subagent.parent_tool_call_id.clone(),
                agent_id: subagent.agent_id.clone(),
                subagent_type: subagent.subagent_type.clone(),
                event: Box::new(plan),
                session_id: subagent.session_id.clone(),
                title: subagent.title.clone(),
                state: subagent.state.clone(),
                extra: Default::default(),
            };
            Some((event.into(), size))
        }
        _ => None,
    }
}

fn plan(list: &TodoDisplayBlock) -> (Plan, usize) {
    let mut size = size_of::<Event>();
    let entries = list.items.iter().map(|item| {
        let status = match &item.status {
            TodoStatus::Pending => PlanStatus::Pending,
            TodoStatus::InProgress => PlanStatus::InProgress,
            TodoStatus::Done => PlanStatus::Completed,
            TodoStatus::Other(word) => PlanStatus::from(&**word),
        };
        size += size_of::<PlanEntry>() + item.title.len();
        PlanEntry { content: item.title.clone(), status, priority: None, extra: Default::default() }
    });
    let entries = entries.collect();
    (Plan { entries, ..Plan::default() }, size)
}

impl ActiveTurn {
    /// Keeps a plan for the outcome, within the limits.
    pub(super) fn take_plan(&mut self, plan: &Plan) {
        if plan.removed == Some(true) {
            self.plan.take_if(|kept| kept.plan_id == plan.plan_id);
            return;
        }
        let mut room = MAX_TEXTS;
        let entries = plan.entries.iter().take(MAX_ENTRIES).map_while(|entry| {
            let PlanEntry { content, status, priority, .. } = entry;
            let words = status.as_str().len() + priority.as_ref().map_or(0, |priority| priority.as_str().len());
            room = room.checked_sub(content.len() + words)?;
            let (content, status, priority) = (content.clone(), status.clone(), priority.clone());
            Some(PlanEntry { content, status, priority, extra: Default::default() })
        });
        let entries: Vec<_> = entries.collect();
        if entries.len() < plan.entries.len() {
            tracing::debug!(limit = MAX_ENTRIES, "the plan is too long: the result has its first entries");
        }
        let plan_id = plan.plan_id.clone().filter(|id| id.len() <= MAX_ID);
        self.plan = Some(Box::new(Plan { entries, plan_id, ..Plan::default() }));
    }
}
