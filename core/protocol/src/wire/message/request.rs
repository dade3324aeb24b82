//! Requests: what the agent asks the program. Each also appears in the event stream, for display.

use serde_json::{Map, Value};

use super::display::DisplayBlock;

message! {
    /// The agent wants to do something and asks whether it may.
    ApprovalRequest since "1.0" adds tool_call {
        /// The request.
        id: String,
        /// The tool call that wants it.
        tool_call_id: String,
        /// Who asks: the tool's name.
        sender: String,
        /// What kind of action.
        action: String,
        /// What exactly.
        description: String,
        /// Whether a turn or an agent in the background asks.
        source_kind: Option<ApprovalSource> = "1.6",
        /// Which of them.
        source_id: Option<String> = "1.6",
        /// The subagent that asks.
        agent_id: Option<String> = "1.6",
        /// What kind of subagent.
        subagent_type: Option<String> = "1.6",
        /// More about who asks.
        source_description: Option<String> = "1.6",
        /// Blocks for display.
        display: Vec<DisplayBlock>,
    }

    /// The model calls a tool that the program registered.
    ToolCallRequest since "1.1" {
        /// The tool call; the model's own id, which may repeat in later turns.
        id: String,
        /// The tool.
        name: String,
        /// The arguments as JSON text.
        arguments: Option<String>,
    }

    /// The agent asks the user something.
    QuestionRequest since "1.3" {
        /// The request.
        id: String,
        /// The tool call that asks.
        tool_call_id: String,
        /// The questions.
        questions: Vec<Question>,
    }

    /// A question with its choices.
    Question since "1.3" {
        /// The question; the answer is given under this text.
        question: String,
        /// A short label.
        header: Option<String>,
        /// The choices.
        options: Vec<QuestionOption>,
        /// Whether several may be chosen.
        multi_select: Option<bool>,
        /// More to show above the choices, in Markdown.
        body: Option<String>,
        /// A label for an answer in one's own words.
        other_label: Option<String>,
        /// What such an answer would mean.
        other_description: Option<String>,
    }

    /// A choice.
    QuestionOption since "1.3" {
        /// The choice; this text is the answer.
        label: String,
        /// What it means.
        description: Option<String>,
    }

    /// The agent asks a hook of the program's.
    HookRequest since "1.8" {
        /// The request.
        id: String,
        /// Which of the session's hooks.
        subscription_id: String,
        /// The hook's event, as `PreToolUse`.
        event: String,
        /// What it is about: for tool hooks the tool's name.
        target: Option<String>,
        /// All about it.
        input_data: Option<Map<String, Value>>,
    }
}

string_enum! {
    /// Who asks for an approval.
    ApprovalSource {
        /// The turn.
        ForegroundTurn = "foreground_turn",
        /// An agent in the background.
        BackgroundAgent = "background_agent",
    }
}

impl ApprovalRequest {
    /// Over ACP the options that the agent offers, each an object with `optionId`, `name` and `kind`; otherwise nothing.
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
