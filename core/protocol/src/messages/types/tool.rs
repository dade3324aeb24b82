//! Tool calls and their results.

use serde_json::{Map, Value};

use super::content::Content;
use super::display::DisplayBlock;

message! {
    /// The model calls a tool.
    ToolCall tagged "function" since "1.0" {
        /// The id of the call. The model makes it, and it may repeat in later turns.
        id or number: String,
        /// The tool and its arguments.
        function: FunctionCall,
        /// Further data.
        extras or raw: Option<Map<String, Value>>,
    }

    /// The name of a tool, and its arguments.
    FunctionCall since "1.0" {
        /// The name of the tool.
        name: String,
        /// The beginning of the arguments as JSON text. The rest follows in [`ToolCallPart`] events.
        arguments or json: Option<String>,
    }

    /// The next piece of the arguments of the last [`ToolCall`].
    ToolCallPart since "1.0" {
        /// The next piece of JSON text.
        arguments_part or json: Option<String>,
    }

    /// A tool call has ended.
    ToolResult since "1.0" adds tool_call {
        /// The id of the tool call.
        tool_call_id or number: String,
        /// The result.
        return_value: ToolReturnValue,
    }

    /// A tool call as a whole: its name and its arguments, put together from the pieces that the agent sent. The SDK makes it.
    ToolCallInfo since "1.0" derive Default {
        /// The id of the call. The model makes it, and it may repeat in later turns.
        id: String,
        /// The name of the tool.
        name: String,
        /// The arguments, parsed. Absent if they are not a JSON object, or larger than 1 MiB.
        arguments: Option<Map<String, Value>>,
        /// The kind of the tool, over ACP and if the agent sends it. In a decision about a tool of the program it is `mcp`.
        kind: Option<ToolKind>,
        /// The paths that the agent names for the call in addition to its arguments, over ACP.
        locations: Option<Vec<String>>,
        /// The paths of the files whose change the agent shows.
        diffs: Option<Vec<String>>,
        /// Whether the agent described the call differently before. The other fields are the newest.
        changed: Option<bool>,
    }

    /// The result of a tool call.
    ToolReturnValue since "1.0" {
        /// Whether the call failed.
        is_error: bool,
        /// The output, which the model reads.
        output: Content,
        /// A note on the result, for the model.
        message: String,
        /// Blocks that show the result.
        display: Vec<DisplayBlock>,
        /// Further data.
        extras or raw: Option<Map<String, Value>>,
    }
}

string_enum! {
    /// The kind of a tool.
    ToolKind {
        /// Reads files or data.
        Read = "read",
        /// Changes files or data.
        Edit = "edit",
        /// Deletes files or data.
        Delete = "delete",
        /// Moves or renames files.
        Move = "move",
        /// Searches files or data.
        Search = "search",
        /// Runs commands or code.
        Execute = "execute",
        /// Thinks or plans.
        Think = "think",
        /// Fetches data from outside, for example from the web.
        Fetch = "fetch",
        /// Switches the mode of the session.
        SwitchMode = "switch_mode",
    }
}

impl ToolCallInfo {
    /// Makes a tool call with these arguments, for unit tests of handlers and policies. Arguments that are not an object are left
    /// out.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let call = kimi_agent::wire::ToolCallInfo::new("Shell", serde_json::json!({"command": "git status"}));
    /// assert_eq!(call.arguments.unwrap()["command"], "git status");
    /// ```
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        let arguments = match arguments {
            Value::Object(arguments) => Some(arguments),
            _ => None,
        };
        Self { id: "call-1".to_owned(), name: name.into(), arguments, ..Self::default() }
    }
}

impl ToolCall {
    /// Whether the agent sent no such event and the SDK made it, which happens over ACP.
    pub fn is_synthesized(&self) -> bool {
        self.extra.get("synthesized").is_some_and(|value| value == true)
    }
}

impl ToolReturnValue {
    /// Makes the result of a successful call.
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

    /// Makes the result of a failed call. The model reads the message.
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
