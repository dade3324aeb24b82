//! Events: what the agent tells while it works.

use serde_json::{Map, Value};

use super::content::Content;
use crate::wire::{Event, Json};

message! {
    /// A turn began.
    TurnBegin since "1.0" {
        /// What the user said.
        user_input: Content,
        /// Set where the agent sent no such event and the SDK made it.
        synthesized: Option<bool>,
    }

    /// A turn ended. Events of the turn may still follow; only the turn's outcome ends the stream.
    TurnEnd since "1.2" {
        /// Set where the agent sent no such event and the SDK made it.
        synthesized: Option<bool>,
    }

    /// Something the user said while the turn ran has reached the model.
    SteerInput since "1.5" {
        /// What the user said.
        user_input: Content,
    }

    /// A step began: one call of the model, and the tools that it asks for.
    StepBegin since "1.0" {
        /// Its number in the turn, from 1.
        n: i64,
    }

    /// The step was broken off.
    StepInterrupted since "1.0" {}

    /// The step's call of the model failed and is tried again.
    StepRetry since "1.10" {
        /// The step's number.
        n: i64,
        /// Which attempt comes, from 1.
        next_attempt: i64,
        /// How many there are at the most.
        max_attempts: i64,
        /// Seconds until then.
        wait_s: f64,
        /// The name of the error.
        error_type: String,
        /// The HTTP status, if there was one.
        status_code: Option<i64>,
    }

    /// The context is being compacted.
    CompactionBegin since "1.0" {}

    /// The context has been compacted.
    CompactionEnd since "1.0" {}

    /// MCP servers are being connected.
    MCPLoadingBegin since "1.3" {}

    /// MCP servers have been connected, or have failed.
    MCPLoadingEnd since "1.3" {}

    /// How things stand. A field that is absent has not changed.
    StatusUpdate since "1.0" {
        /// How full the context is, from 0 to 1.
        context_usage: Option<f64>,
        /// Tokens in the context.
        context_tokens: Option<i64> = "1.3",
        /// Tokens that fit in the context.
        max_context_tokens: Option<i64> = "1.3",
        /// Tokens that the current step took.
        token_usage: Option<TokenUsage>,
        /// The model's message of the current step.
        message_id: Option<String>,
        /// Whether plan mode is on.
        plan_mode: Option<bool> = "1.4",
        /// How far the MCP servers are.
        mcp_status: Option<MCPStatus> = "1.5",
    }

    /// Tokens that were used.
    TokenUsage since "1.0" derive Default {
        /// Input that came neither from a cache nor went into one.
        input_other: i64,
        /// Output.
        output: i64,
        /// Input read from a cache.
        input_cache_read: i64,
        /// Input that went into a cache.
        input_cache_creation: i64,
    }

    /// How far the MCP servers are.
    MCPStatus since "1.5" {
        /// Whether some are still being connected.
        loading: bool,
        /// How many are connected.
        connected: i64,
        /// How many there are.
        total: i64,
        /// How many tools they offer.
        tools: i64,
        /// Each of them.
        servers: Vec<MCPServer>,
    }

    /// An MCP server.
    MCPServer since "1.5" {
        /// Its name in the configuration.
        name: String,
        /// How far it is.
        status: MCPServerStatus,
        /// The names of its tools.
        tools: Vec<String>,
    }

    /// A notice for whoever watches.
    Notification since "1.5" {
        /// The notice.
        id: String,
        /// What area it is from.
        category: String,
        /// What kind it is.
        kind as "type": String,
        /// What kind of thing sent it.
        source_kind: String,
        /// Which of them.
        source_id: String,
        /// A headline.
        title: String,
        /// The text.
        body: String,
        /// How grave it is.
        severity: String,
        /// When, in seconds since 1970.
        created_at: f64,
        /// More about it.
        payload: Option<Map<String, Value>>,
    }

    /// A plan to show.
    PlanDisplay since "1.7" {
        /// The plan, in Markdown.
        content: String,
        /// The file that holds it.
        file_path: String,
    }

    /// Hooks are running.
    HookTriggered since "1.8" {
        /// The hook's event, as `PreToolUse`.
        event: String,
        /// What it is about: for tool hooks the tool's name.
        target: Option<String>,
        /// How many run.
        hook_count: Option<i64>,
    }

    /// Hooks have run.
    HookResolved since "1.8" {
        /// The hook's event, as `PreToolUse`.
        event: String,
        /// What it is about: for tool hooks the tool's name.
        target: Option<String>,
        /// `block` if any of them said so.
        action: Option<HookAction>,
        /// Why, if blocked.
        reason: Option<String>,
        /// How long they took, in milliseconds.
        duration_ms: Option<i64>,
    }

    /// A side question is being answered.
    BtwBegin since "1.9" {
        /// Pairs it with its [`BtwEnd`].
        id: String,
        /// The question.
        question: String,
    }

    /// A side question has been answered, or not.
    BtwEnd since "1.9" {
        /// Pairs it with its [`BtwBegin`].
        id: String,
        /// The answer.
        response: Option<String>,
        /// Why there is none.
        error: Option<String>,
    }

    /// An approval request has been resolved, by whomever.
    ApprovalResponse since "1.1" {
        /// Which request.
        request_id: String,
        /// How.
        response: ApprovalKind,
        /// What was said with a reject.
        feedback: Option<String> = "1.6",
    }

    /// Something happened in a subagent.
    SubagentEvent since "1.0" {
        /// The tool call that started the subagent.
        parent_tool_call_id: Option<String> = "1.6",
        /// The subagent.
        agent_id: Option<String> = "1.6",
        /// What kind of subagent.
        subagent_type: Option<String> = "1.6",
        /// What happened.
        event: Box<Event>,
    }

    /// An event of a type that this SDK does not know, or one that it knows with a payload that it could not read.
    UnknownEvent since "1.0" {
        /// The type that it says it is.
        kind as "type": String,
        /// What it carried, as it came.
        payload: Json,
        /// For a known type: what was wrong with the payload, and where.
        error: Option<String>,
    }

    /// One of the program's own functions failed; the agent got a safe answer and goes on. Made by the SDK.
    HandlerFailed since "1.0" {
        /// Which kind of function.
        handler: HandlerKind,
        /// The tool's name or the hook's event.
        name: Option<String>,
        /// The request that it was to answer.
        request_id: Option<String>,
        /// What went wrong.
        message: String,
    }
}

string_enum! {
    /// How far an MCP server is.
    MCPServerStatus {
        /// Not begun.
        Pending = "pending",
        /// Being connected.
        Connecting = "connecting",
        /// Connected.
        Connected = "connected",
        /// Could not be connected.
        Failed = "failed",
        /// Wants a login.
        Unauthorized = "unauthorized",
    }

    /// What a hook decides.
    HookAction {
        /// Go on.
        Allow = "allow",
        /// Do not.
        Block = "block",
    }

    /// How an approval request is answered.
    ApprovalKind {
        /// Yes, this once.
        Approve = "approve",
        /// Yes, and to all like it in this session.
        ApproveForSession = "approve_for_session",
        /// No.
        Reject = "reject",
    }

    /// Which of the program's functions.
    HandlerKind {
        /// `on_approval`.
        Approval = "approval",
        /// `on_question`.
        Question = "question",
        /// A tool.
        Tool = "tool",
        /// A hook.
        Hook = "hook",
        /// `on_event`.
        Event = "event",
    }
}

impl StepBegin {
    /// Whether the agent sent no such event and the SDK made it, which happens over ACP.
    pub fn is_synthesized(&self) -> bool {
        self.extra.get("synthesized").is_some_and(|value| value == true)
    }
}

impl std::ops::AddAssign<&TokenUsage> for TokenUsage {
    fn add_assign(&mut self, other: &TokenUsage) {
        self.input_other = self.input_other.saturating_add(other.input_other);
        self.output = self.output.saturating_add(other.output);
        self.input_cache_read = self.input_cache_read.saturating_add(other.input_cache_read);
        self.input_cache_creation = self.input_cache_creation.saturating_add(other.input_cache_creation);
    }
}

impl TokenUsage {
    /// All input tokens, cached or not.
    pub fn input(&self) -> i64 {
        self.input_other.saturating_add(self.input_cache_read).saturating_add(self.input_cache_creation)
    }

    /// Input and output together.
    pub fn total(&self) -> i64 {
        self.input().saturating_add(self.output)
    }
}
