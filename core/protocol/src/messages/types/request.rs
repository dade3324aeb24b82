//! Requests of the agent to the program. Each also appears in the event stream, for display.

use serde_json::{Map, Value};

use super::display::DisplayBlock;

message! {
    /// The agent asks for approval of an action.
    ApprovalRequest since "1.0" adds tool_call {
        /// The id of the request.
        id: String,
        /// The id of the tool call.
        tool_call_id or number: String,
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
        id or number: String,
        /// The name of the tool.
        name: String,
        /// The arguments as JSON text.
        arguments or json: Option<String>,
    }

    /// The agent asks the user one or more questions.
    QuestionRequest since "1.3" {
        /// The id of the request.
        id: String,
        /// The id of the tool call that asks.
        tool_call_id or number: String,
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

/// Constructors for unit tests of handlers. Other fields are public: set them afterwards.
impl ApprovalRequest {
    /// Makes a request of a tool that wants to do an action, described for the user. A handler that looks at the tool call
    /// needs `tool_call`, too.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::{ApprovalRequest, ToolCallInfo};
    /// let mut request = ApprovalRequest::new("Shell", "run command", "Run `git status`");
    /// request.tool_call = ToolCallInfo::new("Shell", serde_json::json!({"command": "git status"})).into();
    /// assert_eq!(request.tool_call.get().unwrap().name, request.sender);
    /// ```
    pub fn new(sender: impl Into<String>, action: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            id: "request-1".to_owned(),
            tool_call_id: "call-1".to_owned(),
            sender: sender.into(),
            action: action.into(),
            description: description.into(),
            source_kind: None,
            source_id: None,
            agent_id: None,
            subagent_type: None,
            source_description: None,
            display: Vec::new(),
            extra: Default::default(),
            tool_call: Default::default(),
        }
    }
}

impl QuestionRequest {
    /// Makes a request with these questions.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::{Question, QuestionRequest};
    /// let request = QuestionRequest::new([Question::new("Which database?", ["PostgreSQL", "SQLite"])]);
    /// assert_eq!(request.questions[0].options[1].label, "SQLite");
    /// ```
    pub fn new(questions: impl IntoIterator<Item = Question>) -> Self {
        Self {
            id: "request-1".to_owned(),
            tool_call_id: "call-1".to_owned(),
            questions: questions.into_iter().collect(),
            extra: Default::default(),
        }
    }
}

impl Question {
    /// Makes a question with the labels of its options.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let question = kimi_agent::wire::Question::new("Which database?", ["PostgreSQL", "SQLite"]);
    /// assert_eq!(question.options.len(), 2);
    /// ```
    pub fn new<L: Into<String>>(question: impl Into<String>, options: impl IntoIterator<Item = L>) -> Self {
        let option = |label: L| QuestionOption { label: label.into(), description: None, extra: Default::default() };
        Self {
            question: question.into(),
            header: None,
            options: options.into_iter().map(option).collect(),
            multi_select: None,
            body: None,
            other_label: None,
            other_description: None,
            extra: Default::default(),
        }
    }
}

impl HookRequest {
    /// Makes a request for a hook on this event, with its target, for example the name of a tool.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let request = kimi_agent::wire::HookRequest::new("PreToolUse", "Shell");
    /// assert_eq!(request.target.as_deref(), Some("Shell"));
    /// ```
    pub fn new(event: impl Into<String>, target: impl Into<String>) -> Self {
        Self {
            id: "request-1".to_owned(),
            subscription_id: "hook-1".to_owned(),
            event: event.into(),
            target: Some(target.into()),
            input_data: None,
            extra: Default::default(),
        }
    }
}

impl ReadFileRequest {
    /// Makes a request for the whole file with this absolute path.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let request = kimi_agent::wire::ReadFileRequest::new("/src/main.rs");
    /// assert_eq!(request.line, None);
    /// ```
    pub fn new(path: impl Into<String>) -> Self {
        Self { id: "request-1".to_owned(), path: path.into(), line: None, limit: None, extra: Default::default() }
    }
}

impl WriteFileRequest {
    /// Makes a request to write this content to the file with this absolute path.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let request = kimi_agent::wire::WriteFileRequest::new("/src/main.rs", "fn main() {}\n");
    /// assert_eq!(request.content.len(), 13);
    /// ```
    pub fn new(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self { id: "request-1".to_owned(), path: path.into(), content: content.into(), extra: Default::default() }
    }
}

impl TerminalRequest {
    /// Makes a request to run a program with these arguments in this directory.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let request = kimi_agent::wire::TerminalRequest::new("sh", ["-c", "ls"], "/src");
    /// assert_eq!(request.args, ["-c", "ls"]);
    /// ```
    pub fn new<A: Into<String>>(
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
        cwd: impl Into<String>,
    ) -> Self {
        Self {
            id: "request-1".to_owned(),
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Map::new(),
            cwd: cwd.into(),
            output_byte_limit: None,
            extra: Default::default(),
        }
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
