//! Tool calls and what comes of them.

use serde_json::{Map, Value};

use super::content::Content;
use super::display::DisplayBlock;

message! {
    /// The model calls a tool.
    ToolCall tagged "function" since "1.0" {
        /// The call; the model's own id, which may repeat in later turns.
        id: String,
        /// Which tool, with what.
        function: FunctionCall,
        /// More about it.
        extras or raw: Option<Map<String, Value>>,
    }

    /// A tool's name and arguments.
    FunctionCall since "1.0" {
        /// The tool.
        name: String,
        /// The arguments as JSON text; the rest follows as [`ToolCallPart`]s.
        arguments: Option<String>,
    }

    /// The next piece of the arguments of the last [`ToolCall`].
    ToolCallPart since "1.0" {
        /// The piece.
        arguments_part: Option<String>,
    }

    /// A tool call has ended.
    ToolResult since "1.0" {
        /// Which call.
        tool_call_id: String,
        /// What came of it.
        return_value: ToolReturnValue,
    }

    /// What comes of a tool call.
    ToolReturnValue since "1.0" {
        /// Whether it failed.
        is_error: bool,
        /// What the model gets to read.
        output: Content,
        /// A note on it for the model.
        message: String,
        /// Blocks for display.
        display: Vec<DisplayBlock>,
        /// More about it.
        extras or raw: Option<Map<String, Value>>,
    }
}

impl ToolReturnValue {
    /// A success with this output.
    ///
    /// ```
    /// use kimi_agent::wire::ToolReturnValue;
    /// assert!(!ToolReturnValue::ok("42").is_error);
    /// ```
    pub fn ok(output: impl Into<Content>) -> Self {
        Self {
            is_error: false,
            output: output.into(),
            message: String::new(),
            display: Vec::new(),
            extras: None,
            extra: Default::default(),
        }
    }

    /// A failure; the message is what the model reads.
    ///
    /// ```
    /// use kimi_agent::wire::ToolReturnValue;
    /// assert_eq!(ToolReturnValue::error("no such table").message, "no such table");
    /// ```
    pub fn error(message: impl Into<String>) -> Self {
        Self { is_error: true, message: message.into(), ..Self::ok("") }
    }
}
