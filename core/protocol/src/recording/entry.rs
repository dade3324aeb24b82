//! The entries of a recording.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::json::held_text;
use crate::messages::{PolicyOutcome, ToolCallInfo};
use crate::turn_records::TurnReport;

/// An entry with its time.
#[derive(Clone, Debug, Serialize)]
pub struct TimedEntry {
    /// Seconds since the header was written.
    pub time: f64,
    /// The entry.
    #[serde(flatten)]
    pub entry: Entry,
}

/// An entry of a recording.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Entry {
    /// The beginning of the recording.
    Header(Box<HeaderEntry>),
    /// A message between the SDK and the agent.
    Message(MessageEntry),
    /// The session is open.
    Opened(OpenedEntry),
    /// The program called a function of the session.
    Call(CallEntry),
    /// A request of the agent was answered.
    Decision(Box<DecisionEntry>),
    /// The policy decided about a tool call.
    Policy(Box<PolicyEntry>),
    /// The agent called a tool of the program over the MCP server of the SDK.
    ToolCall(ToolCallEntry),
    /// The call of a tool was answered.
    ToolResult(ToolResultEntry),
    /// The SDK has read the agent's own records of a turn.
    Records(RecordsEntry),
    /// A turn has ended.
    Turn(Box<TurnEntry>),
    /// Entries are missing.
    Gap(GapEntry),
    /// The session has ended.
    End(EndEntry),
    /// An entry of a type that this version does not know.
    #[serde(skip)]
    Unknown,
}

impl Entry {
    /// Returns the length of its texts, which is roughly that of its line. It encodes nothing.
    pub fn text_length(&self) -> usize {
        let of_error = |error: &Option<ErrorText>| error.as_ref().map_or(0, |error| error.message.len());
        match self {
            Self::Message(entry) => {
                entry.message.as_ref().map_or(0, |message| message.get().len()) + of_text(entry.line.as_ref())
            }
            Self::Call(entry) => of_map(&entry.arguments),
            Self::Decision(entry) => of_value(entry.answer.as_ref()) + of_text(entry.error.as_ref()),
            Self::Policy(entry) => entry.tool_call.arguments.as_ref().map_or(0, of_map),
            Self::ToolCall(entry) => of_value(entry.arguments.as_ref()),
            Self::ToolResult(entry) => of_value(entry.result.as_ref()),
            Self::Turn(entry) => entry.result.as_ref().map_or(0, |result| result.get().len()) + of_error(&entry.error),
            Self::End(entry) => of_error(&entry.error),
            Self::Header(_) | Self::Opened(_) | Self::Records(_) | Self::Gap(_) | Self::Unknown => 0,
        }
    }
}

fn of_text(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

/// Returns the length of a value as text, without escapes.
fn of_value(value: Option<&Value>) -> usize {
    match value {
        Some(Value::String(text)) => text.len() + 2,
        Some(Value::Array(list)) => list.iter().map(|value| of_value(Some(value)) + 1).sum::<usize>() + 2,
        Some(Value::Object(map)) => of_map(map),
        Some(Value::Null | Value::Bool(_) | Value::Number(_)) => 4,
        None => 0,
    }
}

fn of_map(map: &Map<String, Value>) -> usize {
    map.iter().map(|(name, value)| name.len() + of_value(Some(value)) + 4).sum::<usize>() + 2
}

/// The beginning of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeaderEntry {
    /// The version of the format.
    pub format: u32,
    /// The time of the beginning, as RFC 3339 spells it.
    pub started: String,
    /// The SDK.
    pub sdk: SdkName,
    /// The protocol of the messages: `wire`, `legacy`, `acp` or `kimi-web`.
    pub dialect: String,
    /// The program of the agent and its arguments.
    pub executable: Vec<String>,
    /// The options of the session, without values that may be secrets.
    pub options: Map<String, Value>,
    /// The tools of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolOfProgram>,
}

/// The name of the SDK that wrote a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SdkName {
    /// The name of the package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The language of the program: `python`, `node` or `rust`.
    pub language: String,
}

/// A tool of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolOfProgram {
    /// The name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub parameters: Value,
}

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The SDK.
    Sdk,
    /// The agent.
    Agent,
}

/// A message between the SDK and the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessageEntry {
    /// The sender.
    pub from: Side,
    /// The message as it was sent. `None` if the line was not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<RawValue>>,
    /// The line, if it was not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// The session is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedEntry {
    /// The agent, if it said its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The version of the protocol.
    pub protocol_version: String,
    /// The id of the session, if the agent named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// The name of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentName {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
}

/// A function of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallKind {
    /// `session.prompt()`.
    Prompt,
    /// `turn.cancel()`.
    Cancel,
    /// `turn.steer()`.
    Steer,
    /// `session.set_plan_mode()`.
    SetPlanMode,
    /// `session.set_config_option()`.
    SetConfigOption,
    /// `session.undo()`.
    Undo,
    /// `turn.cancel_subagent()`.
    CancelSubagent,
    /// `session.replay()`.
    Replay,
    /// `session.respond()`.
    Respond,
    /// `session.close()`.
    Close,
}

/// The program called a function of the session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallEntry {
    /// The function.
    pub call: CallKind,
    /// The number of the turn, if the call is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The arguments.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
}

/// The source of the answer to a request of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decider {
    /// A handler of the program.
    Handler,
    /// The program, with `respond()`.
    Manual,
    /// A rule of the policy.
    Policy,
    /// The option `yolo`.
    Yolo,
    /// The SDK, because no handler was set or the program did not read the request.
    Default,
    /// The SDK, because the handler failed.
    HandlerFailed,
    /// The SDK, because the turn was cancelled or the agent withdrew the request.
    Cancelled,
    /// The SDK, for its own tool of structured output.
    Sdk,
}

impl Decider {
    /// Returns the word for the source: `handler`, `manual`, `policy`, `yolo`, `default`, `handler_failed`, `cancelled`, `sdk`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Handler => "handler",
            Self::Manual => "manual",
            Self::Policy => "policy",
            Self::Yolo => "yolo",
            Self::Default => "default",
            Self::HandlerFailed => "handler_failed",
            Self::Cancelled => "cancelled",
            Self::Sdk => "sdk",
        }
    }
}

/// A request of the agent was answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecisionEntry {
    /// The id of the request.
    pub request: String,
    /// The kind of the request: `approval`, `question`, `tool`, `output`, `hook`, `read_file`, `write_file` or `terminal`.
    pub kind: String,
    /// The source of the answer.
    pub by: Decider,
    /// The answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// The id of the tool call that the request is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// The rule of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why the handler failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Seconds from the request to the answer.
    pub duration: f64,
}

/// The policy decided about a tool call. If it asks, a [`DecisionEntry`] of another source follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyEntry {
    /// The number of the turn. `None` outside turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The tool call.
    pub tool_call: ToolCallInfo,
    /// The decision.
    pub decision: PolicyOutcome,
    /// The rule. `None` if the default decided, or if a part of the call cannot be decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The place of the rule, for example `policy.toml:3` or `deny[0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The reason, as a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The part of the call that decided: a simple command, a path or a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

/// The agent called a tool of the program over the MCP server of the SDK.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallEntry {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
}

/// The call of a tool was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResultEntry {
    /// The id of the call.
    pub id: String,
    /// The result; `None` if the agent withdrew the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// The SDK has read the agent's own records of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordsEntry {
    /// The number of the turn.
    pub turn: u64,
    /// The steps, tokens and failure in the records. `None` if they say nothing about the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<TurnReport>,
}

/// A turn has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnEntry {
    /// The number of the turn.
    pub turn: u64,
    /// The result, if the turn did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorText>,
}

impl TurnEntry {
    /// Returns the parsed result, `Value::Null` without a result. A part that a [`Value`] cannot hold is a text with its JSON.
    pub fn result_value(&self) -> Value {
        self.result.as_ref().map(|result| held_text(result.get())).unwrap_or_default()
    }
}

/// An error, with its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorText {
    /// The code.
    pub code: String,
    /// The text.
    pub message: String,
}

/// Entries are missing, because the disk was too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapEntry {
    /// The number of missing entries.
    pub entries: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The program closed it.
    Closed,
    /// It failed.
    Failed,
}

/// The session has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndEntry {
    /// How it ended.
    pub reason: EndReason,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorText>,
    /// The exit code of the agent, if its exit ended the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The name of the signal that ended the agent, for example `SIGKILL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}
