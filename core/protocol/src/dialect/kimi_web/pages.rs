//! The answers of Kimi Code's server as types: pages of a transcript, and tokens.

use serde::Deserialize;
use serde_json::{Value, json};

use super::MAIN;
use crate::json::{object, whole_number};
use crate::jsonrpc::is_too_deep;
use crate::messages::{Json, TokenUsage};

/// A page of the transcript. Items that cannot be read are kept as unknown items.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Page {
    #[serde(deserialize_with = "items")]
    pub(super) items: Vec<Item>,
    pub(super) has_more: bool,
    /// The prompts that the server knows, if it sends them.
    #[serde(deserialize_with = "prompts")]
    prompts: Option<Vec<PromptState>>,
}

#[derive(Debug)]
pub(super) enum Item {
    Turn(Box<Turn>),
    /// An item outside of turns.
    Other,
    Unreadable(Json, String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptState {
    prompt_id: String,
    status: String,
}

/// A turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Turn {
    pub(super) ordinal: i64,
    #[serde(rename = "triggerPromptId")]
    pub(super) trigger: Option<String>,
    pub(super) state: String,
    pub(super) origin: Option<Origin>,
    pub(super) prompt: Option<String>,
    pub(super) steps: Vec<Step>,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Origin {
    #[serde(default)]
    pub(super) kind: String,
    pub(super) payload: Option<Value>,
}

/// A step of a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Step {
    pub(super) ordinal: i64,
    pub(super) state: String,
    pub(super) frames: Vec<Part>,
    #[serde(deserialize_with = "usage")]
    pub(super) usage: Option<Usage>,
}

/// Text, a tool call or another item of a step.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Part {
    pub(super) kind: String,
    role: Option<String>,
    pub(super) text: String,
    pub(super) tool_call_id: String,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) input: Option<Json>,
    pub(super) output: Option<Json>,
    pub(super) error: Option<String>,
    display: Option<Json>,
    /// The subagents that the call has started.
    agent_refs: Option<Vec<AgentRef>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentRef {
    agent_id: String,
}

fn items<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<Item>, D::Error> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    let items = Vec::<Json>::deserialize(deserializer)?;
    Ok(items
        .into_iter()
        .map(|item| {
            if is_too_deep(item.get()) {
                return Item::Unreadable(Json::null(), "nested too deep, and left out".to_owned());
            }
            match item.decode::<Kind>() {
                Ok(kind) if kind.kind != "turn" => Item::Other,
                _ => match item.decode() {
                    Ok(turn) => Item::Turn(Box::new(turn)),
                    Err(error) => Item::Unreadable(item, error.to_string()),
                },
            }
        })
        .collect())
}

fn prompts<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Vec<PromptState>>, D::Error> {
    let prompts = Vec::<Json>::deserialize(deserializer)?;
    Ok(Some(prompts.into_iter().filter_map(|prompt| prompt.decode().ok()).collect()))
}

impl Page {
    pub(super) fn read(answer: &Json) -> std::result::Result<Self, String> {
        object(answer.get()).map_err(|error| error.to_string())
    }

    pub(super) fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.items.iter().filter_map(|item| if let Item::Turn(turn) = item { Some(&**turn) } else { None })
    }

    pub(super) fn into_turns(self) -> Vec<Turn> {
        let turns = self.items.into_iter();
        turns.filter_map(|item| if let Item::Turn(turn) = item { Some(*turn) } else { None }).collect()
    }

    /// Returns whether the server lists its pending prompts.
    pub(super) fn names_prompts(&self) -> bool {
        self.prompts.is_some()
    }

    /// Returns how a prompt ended.
    pub(super) fn state_of(&self, prompt: &str) -> Option<&str> {
        let state =
            self.prompts.iter().flatten().find(|state| state.prompt_id == prompt).map(|state| state.status.as_str());
        let of_turn = || {
            let turn = self.turns().find(|turn| turn.trigger.as_deref() == Some(prompt))?;
            Some(turn.state.as_str())
        };
        state.or_else(of_turn)
    }
}

impl Turn {
    /// Returns whether a call of another agent has started the turn.
    pub(super) fn is_started_by_call(&self) -> bool {
        let payload = self.origin.as_ref().and_then(|origin| origin.payload.as_ref());
        payload.is_some_and(|payload| payload["kind"] == "system_trigger" && payload["name"] == "subagent")
    }

    /// Returns thinking and text of the step with this turn and number, if the turn has it.
    pub(super) fn texts_at(&self, (turn, step): (i64, i64)) -> Option<(String, String)> {
        let steps = self.steps.iter().filter(|_| self.ordinal == turn);
        steps.into_iter().find(|told| told.ordinal == step).map(Step::texts)
    }

    /// Returns the subagents that its calls have started.
    pub(super) fn subagents(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().flat_map(|step| &step.frames).flat_map(Part::subagents)
    }

    /// Returns the reason for its failure, in the form of the frame that ends a turn.
    pub(super) fn error(&self) -> Option<Value> {
        let error = self.error.as_ref()?;
        // `[provider.api_error] 500 no`
        let parts = error.strip_prefix('[').and_then(|rest| rest.split_once("] "));
        Some(parts.map_or_else(|| json!(error), |(code, message)| json!({"code": code, "message": message})))
    }
}

impl Step {
    /// Returns its thinking and its text.
    pub(super) fn texts(&self) -> (String, String) {
        let of = |kind: &str| {
            let parts = self.frames.iter().filter(|part| part.kind == kind && !part.is_users());
            parts.map(|part| part.text.as_str()).collect::<String>()
        };
        (of("thinking"), of("text"))
    }
}

impl Part {
    pub(super) fn is_users(&self) -> bool {
        self.role.as_deref() == Some("user")
    }

    pub(super) fn subagents(&self) -> impl Iterator<Item = &str> {
        self.agent_refs.iter().flatten().map(|agent| &*agent.agent_id).filter(|agent| *agent != MAIN)
    }

    /// Returns the kind of subagent that the call has started.
    pub(super) fn subagent_name(&self) -> Option<String> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Display {
            agent_name: Option<String>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Input {
            subagent_type: Option<String>,
        }
        let display: Display = self.display.as_ref().and_then(|display| display.decode().ok()).unwrap_or_default();
        let input = || self.input.as_ref()?.decode::<Input>().ok()?.subagent_type;
        display.agent_name.or_else(input)
    }
}

/// Tokens in the server's form.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    input_other: i64,
    output: i64,
    input_cache_read: i64,
    input_cache_creation: i64,
}

impl Usage {
    /// Reads the counts one by one. Without a count that can be read, there is no usage.
    fn read(value: &Value) -> Option<Self> {
        let given = value.as_object()?;
        let mut is_read = false;
        let mut count = |name: &str| {
            let value = given.get(name).filter(|value| !value.is_null())?;
            let count = whole_number(value).and_then(|count| i64::try_from(count).ok());
            is_read |= count.is_some();
            if count.is_none() {
                tracing::debug!(field = name, %value, "a count of tokens that can't be read is left out");
            }
            count
        };
        let usage = Self {
            input_other: count("inputOther").unwrap_or(0),
            output: count("output").unwrap_or(0),
            input_cache_read: count("inputCacheRead").unwrap_or(0),
            input_cache_creation: count("inputCacheCreation").unwrap_or(0),
        };
        is_read.then_some(usage)
    }
}

/// Reads the tokens of a step, which are optional.
pub(super) fn usage<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Usage>, D::Error> {
    Ok(Option::<Value>::deserialize(deserializer)?.as_ref().and_then(Usage::read))
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_other: usage.input_other,
            output: usage.output,
            input_cache_read: usage.input_cache_read,
            input_cache_creation: usage.input_cache_creation,
            extra: Default::default(),
        }
    }
}
