//! The catalogue of all message types, from which the types of Python and TypeScript are generated.

use serde::Serialize;

use super::Event;
pub use super::description::{FieldType, MessageType};
use super::types::{self, ContentPart, DisplayBlock};

/// The events and requests of a session over ACP. Tests of the dialect check each event against this list.
pub const OVER_ACP: &[&str] = &[
    "TurnBegin",
    "TurnEnd",
    "SteerInput",
    "StepBegin",
    "CompactionBegin",
    "CompactionEnd",
    "StatusUpdate",
    "PlanDisplay",
    "Plan",
    "ContentPart",
    "ToolCall",
    "ToolCallPart",
    "ToolResult",
    "SubagentEvent",
    "PolicyDecision",
    "HandlerFailed",
    "ApprovalRequest",
    "ToolCallRequest",
    "QuestionRequest",
    "ReadFileRequest",
    "WriteFileRequest",
    "TerminalRequest",
];

/// The events and requests of a session with Kimi Code's server. Tests of the dialect check each event against this
/// list.
pub const OVER_KIMI_WEB: &[&str] = &[
    "TurnBegin",
    "TurnEnd",
    "SteerInput",
    "StepBegin",
    "StepInterrupted",
    "StepRetry",
    "CompactionBegin",
    "CompactionEnd",
    "StatusUpdate",
    "Notification",
    "PlanDisplay",
    "ContentPart",
    "ToolCall",
    "ToolCallPart",
    "ToolResult",
    "ApprovalResponse",
    "SubagentEvent",
    "PolicyDecision",
    "HandlerFailed",
    "ApprovalRequest",
    "ToolCallRequest",
    "QuestionRequest",
];

/// The whole catalogue.
#[derive(Debug, Serialize)]
pub struct Catalog {
    /// Every message type.
    pub messages: Vec<MessageType>,
    /// The type names that are events on the wire.
    pub events: &'static [&'static str],
    /// The type names that are requests on the wire.
    pub requests: &'static [&'static str],
    /// The events and requests of a session over ACP, including those that the SDK makes.
    pub over_acp: &'static [&'static str],
    /// The events and requests of a session with Kimi Code's server, including those that the SDK makes.
    pub over_kimi_web: &'static [&'static str],
    /// The members of `ContentPart`.
    pub content_parts: &'static [&'static str],
    /// The members of `DisplayBlock`.
    pub display_blocks: &'static [&'static str],
}

/// Describes every message type.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// let catalog = kimi_agent::wire::catalog::catalog();
/// assert!(catalog.messages.iter().any(|message| message.name == "StepRetry" && message.since == "1.10"));
/// ```
pub fn catalog() -> Catalog {
    Catalog {
        messages: types::described(),
        events: Event::EVENT_TYPES,
        requests: Event::REQUEST_TYPES,
        over_acp: OVER_ACP,
        over_kimi_web: OVER_KIMI_WEB,
        content_parts: ContentPart::MEMBERS,
        display_blocks: DisplayBlock::MEMBERS,
    }
}
