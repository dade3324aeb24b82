//! What a server and the agent behind it tell each other.

use serde::Deserialize;
use serde_json::Value;

use super::tools::BUILTIN_TOOLS;
use crate::dialect::WireVersion;
use crate::wire::jsonrpc::RpcFailure;
use crate::wire::{Content, Json, ServerInfo, SlashCommand};

/// What the server says of itself, and how it behaves.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::WireVersion;
/// use kimi_agent_testing::Profile;
/// let mut profile = Profile::new("echo", "1.0");
/// profile.version = WireVersion::new(1, 3);
/// profile.steer = false;
/// assert!(!Profile::legacy("echo", "1.0").questions);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// The version of Wire that is spoken, 1.0 to [`WireVersion::LATEST`].
    pub version: WireVersion,
    /// Speaks what was there before Wire 1.0, instead.
    pub legacy: bool,
    /// Speaks the Agent Client Protocol, as Kimi Code does, instead; only the scripted agent can, so far.
    pub(crate) acp: bool,
    /// Name and version, for the handshake.
    pub server: ServerInfo,
    /// The commands that a prompt may begin with, for the handshake.
    pub slash_commands: Vec<SlashCommand>,
    /// The names that a program's tool can't have; those of kimi-cli's tools unless said otherwise.
    pub builtin_tools: Vec<String>,
    /// Whether a turn can be steered.
    pub steer: bool,
    /// Whether it can ask questions.
    pub questions: bool,
    /// Whether what it does not understand is ignored rather than refused, as the first releases did.
    pub silent: bool,
}

impl Profile {
    /// A server of this name and version that speaks the newest Wire, and has all that belongs to it.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            version: WireVersion::LATEST,
            legacy: false,
            acp: false,
            server: ServerInfo { name: name.into(), version: version.into(), extra: Default::default() },
            slash_commands: Vec::new(),
            builtin_tools: BUILTIN_TOOLS.map(str::to_owned).to_vec(),
            steer: true,
            questions: true,
            silent: false,
        }
    }

    /// A server that speaks the legacy protocol.
    pub fn legacy(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            version: WireVersion::V1_0,
            legacy: true,
            steer: false,
            questions: false,
            silent: true,
            ..Self::new(name, version)
        }
    }

    /// A server that speaks the Agent Client Protocol. What it does not understand it does not mention.
    pub(crate) fn acp(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { acp: true, steer: false, silent: true, ..Self::new(name, version) }
    }
}

/// What the client told in the handshake.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Client {
    /// Whether it answers questions; do not ask otherwise.
    pub supports_question: bool,
    /// Its tools that were accepted, those of earlier handshakes included.
    pub tools: Vec<OfferedTool>,
    /// The hooks that it set.
    pub hooks: Vec<HookSubscription>,
}

impl Client {
    /// Whether it has a tool of this name.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Its hooks that want to know of this event, whose target (a tool's name, for one) their matchers search.
    pub fn hooks_on<'a>(&'a self, event: &'a str, target: &'a str) -> impl Iterator<Item = &'a HookSubscription> {
        self.hooks.iter().filter(move |hook| hook.matches(event, target))
    }
}

/// A tool of the client's.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// What the model is told of it.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// A hook that the client set.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct HookSubscription {
    /// What a request for it names as `subscription_id`.
    pub id: String,
    /// The event.
    pub event: String,
    /// A regular expression; none, or an empty one: on anything.
    #[serde(default)]
    pub matcher: Option<String>,
    /// How long to wait for its answer, in seconds; after that it allows.
    #[serde(default)]
    pub timeout: Option<f64>,
}

impl HookSubscription {
    /// Whether it is for this event and target. A matcher that is no expression matches nothing.
    pub fn matches(&self, event: &str, target: &str) -> bool {
        let matcher = self.matcher.as_deref().unwrap_or_default();
        self.event == event
            && (matcher.is_empty()
                || regex_lite::Regex::new(matcher).is_ok_and(|expression| expression.is_match(target)))
    }
}

/// What the agent has to act on.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum Incoming {
    /// A turn begins. It ends with [`Server::finish`](super::Server::finish).
    Prompt(Content),
    /// The turn is to stop; the client has been told that it will. It still ends with `finish`.
    Cancel,
    /// The user says something more while the turn runs.
    Steer(Content),
    /// The answer to a request, by the request's id, once. An error is a reject, a dismissal, or an allow, after the
    /// kind of request.
    Answer(String, Result<Value, Failure>),
}

/// How a turn ends.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The work is done.
    Finished,
    /// The client cancelled it.
    Cancelled,
    /// It took so many steps, and one more is not allowed.
    MaxStepsReached(i64),
    /// The prompt is answered with an error.
    Failed(Failure),
}

/// An error, as an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What kind of error it is; [`Server::failure`](super::Server::failure) knows the codes of a dialect.
    pub code: i64,
    /// For people.
    pub message: String,
    /// More of it, for programs.
    pub data: Option<Json>,
}

impl Failure {
    /// An error of any code.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

impl From<RpcFailure> for Failure {
    fn from(failure: RpcFailure) -> Self {
        Self { code: failure.code, message: failure.message, data: failure.data }
    }
}
