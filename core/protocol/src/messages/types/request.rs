//! Requests of the agent to the program. Each also appears in the event stream, for display.

use serde_json::{Map, Value};

use super::display::DisplayBlock;

message! {
    /// The agent asks for approval of an action.
    ApprovalRequest since "1.0" adds tool_call {
        /// The id of the request.
        id: String,
        /// The id of the tool call.
        tool_call_id: String,
        /// The name of the tool that asks.
        sender: String,
        /// The kind of action, for example `run command` or `edit file`. Compare it exactly; unknown values are possible.
        action: String,
        /// The action in detail, for example the command.
        description: String,
        /// Whether a turn or an agent in the background asks.
        source_kind: Option<ApprovalSource> = "1.6",
        /// The id of the turn or agent that asks.
        source_id: Option<String> = "1.6",
        /// The id of the subagent that asks.
        agent_id: Option<String> = "1.6",
        /// The kind of subagent, as the agent names it.
        subagent_type: Option<String> = "1.6",
        /// A description of the source.
        source_description: Option<String> = "1.6",
        /// Blocks that show the action, for example a diff.
        display: Vec<DisplayBlock>,
    }

    /// The model calls a tool that the program registered.
    ToolCallRequest since "1.1" {
        /// The id of the tool call. The model makes it, and it may repeat in later turns.
        id: String,
        /// The name of the tool.
        name: String,
        /// The arguments as JSON text.
        arguments: Option<String>,
    }

    /// The agent asks the user one or more questions.
    QuestionRequest since "1.3" {
        /// The id of the request.
        id: String,
        /// The id of the tool call that asks.
        tool_call_id: String,
        /// The questions.
        questions: Vec<Question>,
    }

    /// A question with its options.
    Question since "1.3" {
        /// The text of the question. The answer is given under this text.
        question: String,
        /// A short label for the question.
        header: Option<String>,
        /// The options to choose from.
        options: Vec<QuestionOption>,
        /// Whether several options may be chosen.
        multi_select: Option<bool>,
        /// Markdown to show above the options.
        body: Option<String>,
        /// The label of the option to type an own answer.
        other_label: Option<String>,
        /// The description of the option to type an own answer.
        other_description: Option<String>,
    }

    /// An option of a question.
    QuestionOption since "1.3" {
        /// The text of the option, which is also the answer.
        label: String,
        /// The meaning of the option.
        description: Option<String>,
    }

    /// The agent calls a hook of the program.
    HookRequest since "1.8" {
        /// The id of the request.
        id: String,
        /// The id of the hook in this session.
        subscription_id: String,
        /// The hook's event, for example `PreToolUse`.
        event: String,
        /// The target of the event. For hooks on tools, the name of the tool.
        target: Option<String>,
        /// The details of the event.
        input_data: Option<Map<String, Value>>,
    }

    /// The agent reads a file through `on_read_file`. Only over ACP.
    ReadFileRequest since "" {
        /// The request.
        id: String,
        /// The absolute path of the file, as the agent names it.
        path: String,
        /// The first line that the agent wants, from 1 on. The SDK cuts the lines out of the text.
        line: Option<i64>,
        /// The number of lines that the agent wants. The SDK cuts the lines out of the text.
        limit: Option<i64>,
    }

    /// The agent writes a file through `on_write_file`. Only over ACP.
    WriteFileRequest since "" {
        /// The request.
        id: String,
        /// The absolute path of the file, as the agent names it.
        path: String,
        /// The whole new content of the file.
        content: String,
    }

    /// The agent runs a command through `on_terminal`. Only over ACP.
    TerminalRequest since "" {
        /// The terminal, and the request.
        id: String,
        /// The program to run. Agents often pass a whole command line to a shell.
        command: String,
        /// The arguments of the program.
        args: Vec<String>,
        /// Environment variables for the command, in addition to those that it has anyway.
        env: Map<String, Value>,
        /// The absolute path of the directory to run it in.
        cwd: String,
        /// How much of the end of the output the agent wants, in bytes. The SDK cuts the output.
        output_byte_limit: Option<i64>,
    }

    /// The outcome of a command, which `on_terminal` returns.
    TerminalResult since "" {
        /// The text that the command has written to stdout and stderr.
        output: String,
        /// The exit code. A negative number is that of the signal which ended the command, as Python reports it.
        exit_code: Option<i64>,
        /// The name of the signal that ended the command, for example `SIGTERM`.
        signal: Option<String>,
    }
}

impl TerminalResult {
    /// The outcome of a command with this output and exit code.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::TerminalResult;
    /// let result = TerminalResult::new("hello\n", 0);
    /// assert_eq!((&*result.output, result.exit_code), ("hello\n", Some(0)));
    /// ```
    pub fn new(output: impl Into<String>, exit_code: impl Into<Option<i32>>) -> Self {
        let exit_code = exit_code.into().map(i64::from);
        Self { output: output.into(), exit_code, signal: None, extra: Default::default() }
    }
}

string_enum! {
    /// The source of an approval request.
    ApprovalSource {
        /// The turn that runs.
        ForegroundTurn = "foreground_turn",
        /// An agent in the background.
        BackgroundAgent = "background_agent",
    }
}

impl ApprovalRequest {
    /// Returns the options that the agent offers over ACP, each an object with `optionId`, `name` and `kind`. `None` over other
    /// protocols.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::ApprovalRequest;
    /// fn names(request: &ApprovalRequest) -> Vec<&str> {
    ///     request.options().unwrap_or_default().iter().filter_map(|option| option["name"].as_str()).collect()
    /// }
    /// ```
    pub fn options(&self) -> Option<&[Value]> {
        self.extra.get("options")?.as_array().map(Vec::as_slice)
    }
}
