//! The types for the border between a server and the agent behind it.

use serde::Deserialize;
use serde_json::Value;

use super::tools::{BUILTIN_TOOLS, OfferedTool};
use crate::dialect::WireVersion;
use crate::jsonrpc::RpcFailure;
use crate::messages::{Content, Json, ServerInfo, SlashCommand};

/// The handshake and the behaviour of a server.
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
    /// The version of Wire that the server speaks, 1.0 to [`WireVersion::LATEST`].
    pub version: WireVersion,
    /// Whether the server speaks the legacy protocol before Wire 1.0 instead.
    pub legacy: bool,
    /// Whether the server speaks ACP instead, as Kimi Code does. Only the scripted agent can.
    pub(crate) acp: bool,
    /// Whether the server speaks the API of Kimi Code's server instead. Only the scripted agent can.
    pub(crate) web: bool,
    /// The name and the version of the agent, for the handshake.
    pub server: ServerInfo,
    /// The commands that a prompt may begin with, for the handshake.
    pub slash_commands: Vec<SlashCommand>,
    /// The names that a program's tool cannot have. Default: the names of kimi-cli's own tools.
    pub builtin_tools: Vec<String>,
    /// Whether a turn can be steered.
    pub steer: bool,
    /// Whether the agent can ask questions.
    pub questions: bool,
    /// Whether the agent asks by a form, if the protocol has forms and the client answers them.
    pub(crate) forms: bool,
    /// Whether the agent takes embedded resources, if it speaks ACP.
    pub(crate) embedded_context: bool,
    /// Whether the agent writes records of turns into `KIMI_CODE_HOME`, as Kimi Code does.
    pub(crate) session_files: bool,
    /// The login of the agent, if it speaks ACP.
    pub(crate) login: Login,
    /// The number of sessions in a page of their list, if the agent speaks ACP. `None`: all are one page.
    pub(crate) sessions_per_page: Option<usize>,
    /// Whether invalid calls are ignored instead of refused, as in the first releases.
    pub silent: bool,
}

impl Profile {
    /// Makes the profile of a server that speaks the newest Wire, with all features.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            version: WireVersion::LATEST,
            legacy: false,
            acp: false,
            web: false,
            server: ServerInfo { name: name.into(), version: version.into(), extra: Default::default() },
            slash_commands: Vec::new(),
            builtin_tools: BUILTIN_TOOLS.map(str::to_owned).to_vec(),
            steer: true,
            questions: true,
            forms: true,
            embedded_context: true,
            session_files: false,
            login: Login::default(),
            sessions_per_page: None,
            silent: false,
        }
    }

    /// Makes the profile of a server that speaks the legacy protocol.
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

    /// Makes the profile of a server that speaks ACP. It ignores invalid calls.
    pub(crate) fn acp(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { acp: true, steer: false, silent: true, ..Self::new(name, version) }
    }

    /// Makes the profile of a server that speaks the API of Kimi Code's server.
    pub(crate) fn web(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { web: true, silent: true, ..Self::new(name, version) }
    }

    /// Returns whether the server behaves as Kimi Code, over either of its protocols.
    pub(crate) fn is_kimi_code(&self) -> bool {
        self.acp || self.web
    }
}

/// The login of an agent that speaks ACP.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    /// Whether sessions need a login.
    pub(crate) is_required: bool,
    /// The ways to log in, as the handshake has them.
    pub(crate) methods: Vec<Value>,
    /// Variables of which one must be set, by the id of the way.
    pub(crate) variables: Vec<(String, Vec<String>)>,
}

/// The client's parameters in the handshake.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Client {
    /// Whether the client answers questions. If not, do not ask any.
    pub supports_question: bool,
    /// The accepted tools of the client, including tools of earlier handshakes.
    pub tools: Vec<OfferedTool>,
    /// The hooks of the client.
    pub hooks: Vec<HookSubscription>,
}

impl Client {
    /// Returns whether the client has a tool of this name.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Returns the client's hooks on this event whose matchers find a match in the target, for example the name of a
    /// tool.
    pub fn hooks_on<'a>(&'a self, event: &'a str, target: &'a str) -> impl Iterator<Item = &'a HookSubscription> {
        self.hooks.iter().filter(move |hook| hook.matches(event, target))
    }
}

/// A hook that the client set.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct HookSubscription {
    /// The `subscription_id` of its requests.
    pub id: String,
    /// The event.
    pub event: String,
    /// A regular expression that is searched in the target. `None` or empty: every target.
    #[serde(default)]
    pub matcher: Option<String>,
    /// How long to wait for the hook's answer, in seconds. After that the action is allowed.
    #[serde(default)]
    pub timeout: Option<f64>,
}

impl HookSubscription {
    /// Returns whether the hook is for this event and target. A matcher that is not a regular expression matches
    /// nothing.
    pub fn matches(&self, event: &str, target: &str) -> bool {
        let matcher = self.matcher.as_deref().unwrap_or_default();
        self.event == event
            && (matcher.is_empty()
                || regex_lite::Regex::new(matcher).is_ok_and(|expression| expression.is_match(target)))
    }
}

/// An input for the agent.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum Incoming {
    /// A turn begins. It ends with [`Server::finish`](super::Server::finish).
    Prompt(Content),
    /// The turn is to stop. The client has got the confirmation. The turn still ends with `finish`.
    Cancel,
    /// The user adds a message while the turn runs.
    Steer(Content),
    /// The answer to a request, by the request's id, once. By the kind of request, an error is a rejection, a
    /// dismissal, or an allow.
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
    /// The turn took this many steps, and another one is not allowed.
    MaxStepsReached(i64),
    /// The turn ended for another reason: `truncated`, `refused`, or a word of the protocol.
    Other(String),
    /// The prompt is answered with an error.
    Failed(Failure),
}

/// An error that is sent as an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The kind of error; [`Server::failure`](super::Server::failure) knows the codes of a dialect.
    pub code: i64,
    /// The text for people.
    pub message: String,
    /// Additional data for programs.
    pub data: Option<Json>,
}

impl Failure {
    /// Makes an error with any code.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

impl From<RpcFailure> for Failure {
    fn from(failure: RpcFailure) -> Self {
        Self { code: failure.code, message: failure.message, data: failure.data }
    }
}
