//! One step of a trajectory.

use kimi_agent_protocol::messages::{Messages, TokenUsage};
use serde_json::{Map, Value, json};

/// The originator of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    User,
    Agent,
    System,
}

/// A tool call of a step.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON text.
    pub(super) arguments: String,
    pub(super) extra: Map<String, Value>,
}

/// A result of a tool call.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The call, if it is one of the step.
    pub(super) call: Option<String>,
    pub(super) content: Value,
    /// The ids of the trajectories of subagents.
    pub(super) subagents: Vec<String>,
    pub(super) extra: Map<String, Value>,
}

/// A step.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) source: Source,
    pub(super) time: Option<String>,
    pub(super) message: Value,
    /// The messages of the text.
    pub(super) messages: Messages,
    pub(super) reasoning: String,
    pub(super) calls: Vec<Call>,
    pub(super) results: Vec<Observed>,
    pub(super) usage: Option<TokenUsage>,
    /// Whether the agent has reported that the step is one call of the model.
    pub(super) is_reported: bool,
    pub(super) extra: Map<String, Value>,
}

impl Step {
    pub(super) fn new(source: Source, time: &Option<String>, message: Value) -> Self {
        Self {
            source,
            time: time.clone(),
            message,
            messages: Messages::default(),
            reasoning: String::new(),
            calls: Vec::new(),
            results: Vec::new(),
            usage: None,
            is_reported: false,
            extra: Map::new(),
        }
    }

    /// Whether nothing is known about the step.
    pub(super) fn is_empty(&self) -> bool {
        self.source == Source::Agent
            && self.message == ""
            && self.reasoning.is_empty()
            && self.calls.is_empty()
            && self.results.is_empty()
            && self.usage.is_none()
    }

    pub(super) fn into_json(self, number: usize) -> Value {
        let source = match self.source {
            Source::User => "user",
            Source::Agent => "agent",
            Source::System => "system",
        };
        let mut step = Map::new();
        step.insert("step_id".to_owned(), number.into());
        let mut set = |name: &str, value: Value| drop(step.insert(name.to_owned(), value));
        if let Some(time) = self.time {
            set("timestamp", time.into());
        }
        set("source", source.into());
        set("message", self.message);
        if !self.reasoning.is_empty() {
            set("reasoning_content", self.reasoning.into());
        }
        if !self.calls.is_empty() {
            set("tool_calls", self.calls.into_iter().map(Call::into_json).collect());
        }
        if !self.results.is_empty() {
            let results: Vec<Value> = self.results.into_iter().map(Observed::into_json).collect();
            set("observation", json!({"results": results}));
        }
        if let Some(usage) = &self.usage {
            set("metrics", metrics(usage));
        }
        if self.is_reported {
            set("llm_call_count", 1.into());
        }
        if !self.extra.is_empty() {
            set("extra", self.extra.into());
        }
        step.into()
    }
}

impl Call {
    fn into_json(self) -> Value {
        let mut extra = self.extra;
        let arguments = match serde_json::from_str(&self.arguments) {
            Ok(Value::Object(arguments)) => arguments,
            _ if self.arguments.trim().is_empty() => Map::new(),
            // The format has only objects.
            _ => {
                extra.insert("arguments_text".to_owned(), self.arguments.into());
                Map::new()
            }
        };
        with_extra(json!({"tool_call_id": self.id, "function_name": self.name, "arguments": arguments}), extra)
    }
}

impl Observed {
    fn into_json(self) -> Value {
        let mut result = Map::new();
        if let Some(call) = self.call {
            result.insert("source_call_id".to_owned(), call.into());
        }
        if !self.content.is_null() {
            result.insert("content".to_owned(), self.content);
        }
        if !self.subagents.is_empty() {
            let references = self.subagents.iter().map(|id| json!({"trajectory_id": id}));
            result.insert("subagent_trajectory_ref".to_owned(), references.collect());
        }
        with_extra(result.into(), self.extra)
    }
}

fn metrics(usage: &TokenUsage) -> Value {
    let metrics = json!({
        "prompt_tokens": usage.input(),
        "completion_tokens": usage.output,
        "cached_tokens": usage.input_cache_read,
    });
    let mut extra = Map::new();
    if usage.input_cache_creation > 0 {
        extra.insert("cache_creation_tokens".to_owned(), usage.input_cache_creation.into());
    }
    with_extra(metrics, extra)
}

fn with_extra(mut value: Value, extra: Map<String, Value>) -> Value {
    if let (false, Value::Object(fields)) = (extra.is_empty(), &mut value) {
        fields.insert("extra".to_owned(), extra.into());
    }
    value
}
