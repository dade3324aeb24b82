//! Events: the agent's reports while it works.

use serde_json::{Map, Value};

use super::content::Content;
use super::tool::ToolCallInfo;
use crate::messages::{Event, Json};

message! {
    /// A turn began.
    TurnBegin since "1.0" {
        /// The user's input.
        user_input: Content,
        /// True if the SDK made the event because the agent sent none.
        synthesized: Option<bool>,
    }

    /// A turn ended. Events of the turn may still follow; only the turn's outcome ends the stream.
    TurnEnd since "1.2" {
        /// True if the SDK made the event because the agent sent none.
        synthesized: Option<bool>,
    }

    /// A message that the user sent while the turn ran has reached the model.
    SteerInput since "1.5" {
        /// The user's message.
        user_input: Content,
    }

    /// A step began: one call of the model, and the tools that it asks for.
    StepBegin since "1.0" {
        /// The number of the step in the turn, from 1.
        n: i64,
    }

    /// The step was interrupted, for example by a cancel.
    StepInterrupted since "1.0" {}

    /// The step's call of the model failed, and the agent will retry it.
    StepRetry since "1.10" {
        /// The number of the step in the turn, from 1.
        n: i64,
        /// The number of the next attempt, from 1.
        next_attempt: i64,
        /// The largest number of attempts.
        max_attempts: i64,
        /// The time until the next attempt, in seconds.
        wait_s: f64,
        /// The type of the error, as the agent names it.
        error_type: String,
        /// The HTTP status of the failed call, if it had one.
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

    /// The state of the session has changed. A field that is absent has not changed.
    StatusUpdate since "1.0" {
        /// The part of the context that is in use, from 0 to 1.
        context_usage: Option<f64>,
        /// The number of tokens in the context.
        context_tokens: Option<i64> = "1.3",
        /// The largest number of tokens that the context can hold.
        max_context_tokens: Option<i64> = "1.3",
        /// The tokens that the current step used.
        token_usage: Option<TokenUsage>,
        /// The id of the model's message in the current step.
        message_id: Option<String>,
        /// Whether plan mode is on.
        plan_mode: Option<bool> = "1.4",
        /// The state of the MCP servers.
        mcp_status: Option<MCPStatus> = "1.5",
        /// The cost of the session so far.
        cost: Option<Cost>,
    }

    /// An amount of money.
    Cost since "" {
        /// The amount.
        amount: f64,
        /// The currency, for example `USD`, or another unit that the agent counts in, for example `credits`.
        currency: String,
        /// The origin of the amount: the agent (`reported`), or tokens times the option `prices` (`estimated`).
        source: CostSource,
    }

    /// Numbers of tokens that were used.
    TokenUsage since "1.0" derive Default {
        /// Input tokens that were neither read from a cache nor written to one.
        input_other: i64,
        /// Output tokens.
        output: i64,
        /// Input tokens that were read from a cache.
        input_cache_read: i64,
        /// Input tokens that were written to a cache.
        input_cache_creation: i64,
    }

    /// The state of the MCP servers.
    MCPStatus since "1.5" {
        /// Whether servers are still being connected.
        loading: bool,
        /// The number of servers that are connected.
        connected: i64,
        /// The number of all servers.
        total: i64,
        /// The number of tools that the servers offer.
        tools: i64,
        /// The servers.
        servers: Vec<MCPServer>,
    }

    /// An MCP server.
    MCPServer since "1.5" {
        /// The name of the server in the agent's configuration.
        name: String,
        /// The state of the connection.
        status: MCPServerStatus,
        /// The names of the server's tools.
        tools: Vec<String>,
    }

    /// A notification for observers.
    Notification since "1.5" {
        /// The id of the notification.
        id: String,
        /// The category of the sender.
        category: String,
        /// The kind of notification.
        kind as "type": String,
        /// The kind of sender.
        source_kind: String,
        /// The id of the sender.
        source_id: String,
        /// The title of the notification.
        title: String,
        /// The text of the notification.
        body: String,
        /// The severity, as the agent names it.
        severity: String,
        /// The time of the notification, in seconds since 1970-01-01 UTC.
        created_at: f64,
        /// Further data.
        payload: Option<Map<String, Value>>,
    }

    /// The agent shows a plan.
    PlanDisplay since "1.7" {
        /// The plan, in Markdown.
        content: String,
        /// The path of the file with the plan. Empty if there is no file.
        file_path: String,
    }

    /// The agent's plan. It replaces the plan before it. The SDK makes it of a to-do list that a tool shows over Wire.
    Plan since "1.0" derive Default {
        /// The entries, in order.
        entries: Vec<PlanEntry>,
        /// The id of the plan, if the agent names one. A plan replaces only the plan with the same id.
        plan_id: Option<String>,
        /// Whether the agent has removed the plan. It has no entries then.
        removed: Option<bool>,
    }

    /// An entry of a plan.
    PlanEntry since "1.0" {
        /// The text of the entry, for example `Write tests`.
        content: String,
        /// The progress of the entry.
        status: PlanStatus,
        /// The importance of the entry, if the agent names it.
        priority: Option<PlanPriority>,
    }

    /// Hooks are running.
    HookTriggered since "1.8" {
        /// The hook's event, for example `PreToolUse`.
        event: String,
        /// The target of the event. For hooks on tools, the name of the tool.
        target: Option<String>,
        /// The number of hooks that run.
        hook_count: Option<i64>,
    }

    /// Hooks have run.
    HookResolved since "1.8" {
        /// The hook's event, for example `PreToolUse`.
        event: String,
        /// The target of the event. For hooks on tools, the name of the tool.
        target: Option<String>,
        /// `block` if at least one hook blocked the action.
        action: Option<HookAction>,
        /// The reason, if a hook blocked the action.
        reason: Option<String>,
        /// The time that the hooks took, in milliseconds.
        duration_ms: Option<i64>,
    }

    /// A side question is being answered.
    BtwBegin since "1.9" {
        /// The id of the question, which its [`BtwEnd`] has too.
        id: String,
        /// The question.
        question: String,
    }

    /// A side question has been answered, or has failed.
    BtwEnd since "1.9" {
        /// The id of the question, which its [`BtwBegin`] has too.
        id: String,
        /// The answer, if there is one.
        response: Option<String>,
        /// The reason for the missing answer.
        error: Option<String>,
    }

    /// An approval request has been resolved, by the program or by the agent.
    ApprovalResponse since "1.1" {
        /// The id of the request.
        request_id: String,
        /// The decision.
        response: ApprovalKind,
        /// The feedback of a rejection.
        feedback: Option<String> = "1.6",
    }

    /// An event of a subagent.
    SubagentEvent since "1.0" {
        /// The id of the tool call that started the subagent.
        parent_tool_call_id or number: Option<String> = "1.6",
        /// The id of the subagent.
        agent_id: Option<String> = "1.6",
        /// The kind of subagent, as the agent names it.
        subagent_type: Option<String> = "1.6",
        /// The subagent's event.
        event: Box<Event>,
        /// The id of the subagent's session, over ACP. `turn.cancel_subagent()` accepts it.
        session_id: Option<String>,
        /// The title of the subagent for people, over ACP.
        title: Option<String>,
        /// The state of the subagent, over ACP: `running`, `idle`, `requires_action`, `unknown`, or another word of the agent.
        state: Option<String>,
    }

    /// An event of a type that this SDK does not know, or one that it knows with a payload that it could not read.
    UnknownEvent since "1.0" {
        /// The name of the type in the message.
        kind as "type": String,
        /// The payload as it was received.
        payload: Json,
        /// For a known type: the problem of the payload, and its place.
        error: Option<String>,
    }

    /// A rule of the session's policy, or its default, decided about a tool call. The SDK makes this event.
    PolicyDecision since "1.0" {
        /// The tool call. Of a call that the agent never named, only the name of the tool is known.
        tool_call: ToolCallInfo,
        /// The decision. With `ask`, `on_approval` decides.
        decision: PolicyOutcome,
        /// The rule. Absent if the default decided, or if a part of the call cannot be decided.
        rule: Option<String>,
        /// The place of the rule, for example `policy.toml:3`. For a policy without a file, `deny[0]`.
        source: Option<String>,
        /// The reason, as a sentence for people.
        reason: Option<String>,
        /// The part of the call that decided: a simple command, a path or a host.
        part: Option<String>,
    }

    /// A handler of the program failed. The agent got the default answer and continues. If the check of `output` failed, the
    /// model gets the error and can return another value. The SDK makes this event.
    HandlerFailed since "1.0" {
        /// The kind of handler.
        handler: HandlerKind,
        /// The name of the tool, or the event of the hook.
        name: Option<String>,
        /// The id of the request that the handler was called for. Absent for a check of a value in the text of the answer.
        request_id: Option<String>,
        /// The text of the error.
        message: String,
    }
}

string_enum! {
    /// The decision of a policy.
    PolicyOutcome {
        /// The call may run.
        Allow = "allow",
        /// `on_approval` decides.
        Ask = "ask",
        /// The call must not run.
        Deny = "deny",
    }
}

string_enum! {
    /// The progress of an entry of a plan.
    PlanStatus {
        /// The entry is not begun.
        Pending = "pending",
        /// The agent works on the entry.
        InProgress = "in_progress",
        /// The entry is done.
        Completed = "completed",
    }

    /// The importance of an entry of a plan.
    PlanPriority {
        /// The entry is critical.
        High = "high",
        /// The entry is important.
        Medium = "medium",
        /// The entry can be left out.
        Low = "low",
    }

    /// The origin of a cost.
    CostSource {
        /// The agent has reported it.
        Reported = "reported",
        /// It is the number of tokens times the option `prices`.
        Estimated = "estimated",
    }

    /// The status of an MCP server.
    MCPServerStatus {
        /// The connection is not begun.
        Pending = "pending",
        /// The server is being connected.
        Connecting = "connecting",
        /// The server is connected.
        Connected = "connected",
        /// The server could not be connected.
        Failed = "failed",
        /// The server requires a login.
        Unauthorized = "unauthorized",
    }

    /// The decision of a hook.
    HookAction {
        /// The action goes ahead.
        Allow = "allow",
        /// The action is blocked.
        Block = "block",
    }

    /// The decision on an approval request.
    ApprovalKind {
        /// The action is approved, this time.
        Approve = "approve",
        /// The action is approved, and all actions like it in this session.
        ApproveForSession = "approve_for_session",
        /// The action is rejected.
        Reject = "reject",
    }

    /// The kind of a handler.
    HandlerKind {
        /// `on_approval`.
        Approval = "approval",
        /// `on_question`.
        Question = "question",
        /// A tool.
        Tool = "tool",
        /// The check of `output`: the validators of its type.
        Output = "output",
        /// A hook.
        Hook = "hook",
        /// `on_event`.
        Event = "event",
        /// `on_read_file`.
        ReadFile = "read_file",
        /// `on_write_file`.
        WriteFile = "write_file",
        /// `on_terminal`.
        Terminal = "terminal",
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
