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
    ToolResult since "1.0" adds tool_call {
        /// Which call.
        tool_call_id: String,
        /// What came of it.
        return_value: ToolReturnValue,
    }

    /// A tool call as a whole: its name and its arguments, put together from the pieces that the agent sent. Made by the SDK.
    ToolCallInfo since "1.0" {
        /// The call; the model's own id, which may repeat in later turns.
        id: String,
        /// The tool.
        name: String,
        /// The arguments, parsed. Absent if they are not a JSON object, or larger than 1 MiB.
        arguments: Option<Map<String, Value>>,
        /// What the tool does, over ACP and if the agent says.
        kind: Option<ToolKind>,
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

string_enum! {
    /// What a tool does.
    ToolKind {
        /// Reads files or data.
        Read = "read",
        /// Changes files or data.
        Edit = "edit",
        /// Deletes files or data.
        Delete = "delete",
        /// Moves or renames files.
        Move = "move",
        /// Searches.
        Search = "search",
        /// Runs commands or code.
        Execute = "execute",
        /// Thinks or plans.
        Think = "think",
        /// Fetches from outside.
        Fetch = "fetch",
        /// Switches the session's mode.
        SwitchMode = "switch_mode",
    }
}

impl ToolCall {
    /// Whether the agent sent no such event and the SDK made it, which happens over ACP.
    pub fn is_synthesized(&self) -> bool {
        self.extra.get("synthesized").is_some_and(|value| value == true)
    }
}

impl ToolReturnValue {
    /// A success with this output.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
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
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::ToolReturnValue;
    /// assert_eq!(ToolReturnValue::error("no such table").message, "no such table");
    /// ```
    pub fn error(message: impl Into<String>) -> Self {
        Self { is_error: true, message: message.into(), ..Self::ok("") }
    }
}
