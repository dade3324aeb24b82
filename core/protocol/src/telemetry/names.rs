//! The names of spans, attributes, events and metrics. The conventions still change them, so they are in this file alone.
//!
//! Names that begin with `gen_ai.`, `error.` and `http.` are those of the semantic conventions 1.41.1. Names that begin with
//! `kimi_agent.` belong to this SDK.

use serde::Serialize;

/// The name of the instrumentation scope.
pub const SCOPE: &str = "kimi-agent";

/// The schema of the conventions.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.1";

/// The environment variable that allows content if the program does not say whether it is recorded.
pub const CAPTURE_VARIABLE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// The environment variables of an agent with the trace that it belongs to.
pub const ENVIRONMENT: [&str; 2] = ["TRACEPARENT", "TRACESTATE"];

/// The operation of a turn, which begins the name of its span.
pub const INVOKE_AGENT: &str = "invoke_agent";
/// The operation of a step, which begins the name of its span.
pub const CHAT: &str = "chat";
/// The operation of a tool call, which begins the name of its span.
pub const EXECUTE_TOOL: &str = "execute_tool";

/// The operations, each with the kind and the meaning of its span.
pub const SPANS: &[Span] = &[
    Span { operation: INVOKE_AGENT, kind: "client", description: "A turn." },
    Span {
        operation: CHAT,
        kind: "client",
        description: "A call of the model. Only for agents that report their steps, which agents over ACP do not.",
    },
    Span { operation: EXECUTE_TOOL, kind: "internal", description: "A tool call." },
];

/// A kind of span.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Span {
    /// The name of the operation, which begins the name of the span.
    pub operation: &'static str,
    /// `client` or `internal`.
    pub kind: &'static str,
    /// The subject of the span.
    pub description: &'static str,
}

/// An attribute or an event.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Name {
    /// The name.
    pub name: &'static str,
    /// The spans, events or metrics that have it.
    pub on: &'static str,
    /// The meaning.
    pub description: &'static str,
}

macro_rules! names {
    ($(#[$doc:meta])* $table:ident: $($constant:ident = $name:literal, on $on:literal: $description:literal;)*) => {
        $(#[doc = $description] pub const $constant: &str = $name;)*
        $(#[$doc])*
        pub const $table: &[Name] = &[$(Name { name: $name, on: $on, description: $description }),*];
    };
}

names! {
    /// The attributes.
    ATTRIBUTES:
    OPERATION = "gen_ai.operation.name", on "all spans, metrics of tokens and durations": "The operation.";
    PROVIDER = "gen_ai.provider.name", on "`invoke_agent`, `chat`, metrics of tokens and durations":
        "`moonshot_ai` for the agents of Kimi. For other agents, the name of the agent.";
    CONVERSATION = "gen_ai.conversation.id", on "all spans": "The id of the session.";
    AGENT_NAME = "gen_ai.agent.name", on "`invoke_agent`": "The name of the agent.";
    AGENT_VERSION = "gen_ai.agent.version", on "`invoke_agent`": "The version of the agent.";
    REQUEST_MODEL = "gen_ai.request.model", on "`invoke_agent`, `chat`, metrics of tokens and durations":
        "The option `model`, if it is set.";
    OUTPUT_TYPE = "gen_ai.output.type", on "`invoke_agent`": "`json` if the prompt has the option `output`.";
    RESPONSE_ID = "gen_ai.response.id", on "`chat`": "The id of the message of the model.";
    FINISH_REASONS = "gen_ai.response.finish_reasons", on "`invoke_agent`, `chat`":
        "A step: `stop`, `tool_calls` or `cancelled`. A turn: `stop`, `cancelled` or `max_steps_reached`. Absent after an error.";
    TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk", on "`chat`":
        "The time from the start of the step to its first piece of text, in seconds.";
    INPUT_TOKENS = "gen_ai.usage.input_tokens", on "`invoke_agent`, `chat`": "All input tokens, cached or not.";
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens", on "`invoke_agent`, `chat`": "The output tokens.";
    CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens", on "`invoke_agent`, `chat`":
        "The input tokens that were read from a cache.";
    CACHE_CREATION_TOKENS = "gen_ai.usage.cache_creation.input_tokens", on "`invoke_agent`, `chat`":
        "The input tokens that were written to a cache.";
    TOKEN_TYPE = "gen_ai.token.type", on "`gen_ai.client.token.usage`": "`input` or `output`.";
    TOOL_NAME = "gen_ai.tool.name", on "`execute_tool`, `kimi_agent.policy`, `kimi_agent.tool_calls`":
        "The name of the tool.";
    TOOL_CALL_ID = "gen_ai.tool.call.id", on "`execute_tool`, `kimi_agent.approval`, `kimi_agent.policy`":
        "The id of the tool call.";
    TOOL_TYPE = "gen_ai.tool.type", on "`execute_tool`":
        "`function` for a tool of the program and for the one that takes a structured answer, `extension` for a tool of the agent.";
    ERROR_TYPE = "error.type", on "all spans, `kimi_agent.step_retry`, `gen_ai.client.operation.duration`, `kimi_agent.tool_calls`":
        "The code of the error of a turn, also for steps and tool calls that were open when the turn failed. `tool_error` for a \
         tool that failed. `cancelled` for a tool call without result in a turn that was cancelled. `step_interrupted` for a \
         step that the agent interrupted in a turn that continued.";
    STATUS = "kimi_agent.turn.status", on "`invoke_agent`": "The status of the result.";
    STEPS = "kimi_agent.turn.steps", on "`invoke_agent`": "The number of steps.";
    APPROVAL = "kimi_agent.approval.decision", on "`kimi_agent.approval`":
        "`approve`, `approve_for_session`, `reject` or `withdrawn`.";
    DECIDED_BY = "kimi_agent.approval.decided_by", on "`kimi_agent.approval`, `kimi_agent.approvals.rejected`":
        "The source of the decision: `handler`, `handler_failed`, `manual`, `policy`, `yolo`, `default`, `cancelled` or `sdk`.";
    APPROVAL_WAIT = "kimi_agent.approval.wait", on "`kimi_agent.approval`":
        "The time from the request to the decision, in seconds.";
    POLICY_DECISION = "kimi_agent.policy.decision", on "`kimi_agent.policy`": "`allow`, `ask` or `deny`.";
    POLICY_RULE = "kimi_agent.policy.rule", on "`kimi_agent.policy`": "The rule. Absent if the default decided.";
    POLICY_SOURCE = "kimi_agent.policy.source", on "`kimi_agent.policy`": "The place of the rule.";
    HANDLER = "kimi_agent.handler.kind", on "`kimi_agent.handler_failed`": "The kind of handler, for example `approval`.";
    RETRY_ATTEMPT = "kimi_agent.retry.attempt", on "`kimi_agent.step_retry`": "The number of the next attempt.";
    HTTP_STATUS = "http.response.status_code", on "`kimi_agent.step_retry`": "The HTTP status of the call that failed.";
    INPUT_MESSAGES = "gen_ai.input.messages", on "`invoke_agent`": "The prompt, as JSON. Content.";
    OUTPUT_MESSAGES = "gen_ai.output.messages", on "`invoke_agent`, `chat`": "The answer, as JSON. Content.";
    TOOL_ARGUMENTS = "gen_ai.tool.call.arguments", on "`execute_tool`": "The arguments, as JSON. Content.";
    TOOL_RESULT = "gen_ai.tool.call.result", on "`execute_tool`": "The text that the tool returned. Content.";
}

/// The attributes with content, which are recorded only if the program allows it.
pub const CONTENT: [&str; 4] = [INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_ARGUMENTS, TOOL_RESULT];

names! {
    /// The events.
    EVENTS:
    APPROVAL_EVENT = "kimi_agent.approval", on "`execute_tool`, or `invoke_agent` if the tool call is not known":
        "An approval was decided.";
    POLICY_EVENT = "kimi_agent.policy", on "`execute_tool`, or `invoke_agent` if the tool call is not known":
        "The policy decided about a tool call.";
    HANDLER_FAILED_EVENT = "kimi_agent.handler_failed", on "`invoke_agent`": "A handler of the program failed.";
    RETRY_EVENT = "kimi_agent.step_retry", on "`chat`": "A call of the model failed, and the agent retries it.";
}

/// The metric of tokens.
pub const TOKEN_USAGE: &str = "gen_ai.client.token.usage";
/// The metric of durations.
pub const DURATION: &str = "gen_ai.client.operation.duration";
/// The metric of the time to the first piece of text.
pub const FIRST_CHUNK: &str = "gen_ai.client.operation.time_to_first_chunk";
/// The metric of tool calls.
pub const TOOL_CALLS: &str = "kimi_agent.tool_calls";
/// The metric of rejected approvals.
pub const REJECTED: &str = "kimi_agent.approvals.rejected";

/// A metric.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The instrument.
    pub kind: Instrument,
    /// The unit, in UCUM.
    pub unit: &'static str,
    /// The meaning.
    pub description: &'static str,
    /// The boundaries of the buckets of a histogram. Empty for a counter.
    pub boundaries: &'static [f64],
}

/// The instrument of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Instrument {
    /// A histogram.
    Histogram,
    /// A counter.
    Counter,
}

const SECONDS: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The metrics.
pub const METRICS: &[Metric] = &[
    Metric {
        name: TOKEN_USAGE,
        kind: Instrument::Histogram,
        unit: "{token}",
        description: "Number of input and output tokens of a turn.",
        boundaries: TOKENS,
    },
    Metric {
        name: DURATION,
        kind: Instrument::Histogram,
        unit: "s",
        description: "Duration of a turn, a step or a tool call.",
        boundaries: SECONDS,
    },
    Metric {
        name: FIRST_CHUNK,
        kind: Instrument::Histogram,
        unit: "s",
        description: "Time from the start of a step to its first piece of text.",
        boundaries: SECONDS,
    },
    Metric {
        name: TOOL_CALLS,
        kind: Instrument::Counter,
        unit: "{call}",
        description: "Number of tool calls.",
        boundaries: &[],
    },
    Metric {
        name: REJECTED,
        kind: Instrument::Counter,
        unit: "{approval}",
        description: "Number of rejected approvals.",
        boundaries: &[],
    },
];
