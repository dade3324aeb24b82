//! How a session opens: the server's version, the session, its settings, its skills, and the subscription to its
//! events.

use serde::Deserialize;
use serde_json::{Value, json};

use super::cursors::{NO_ANSWER, Subscribed};
use super::{Asked, KimiWeb, KimiWebParams, NAME, segment};
use crate::dialect::{Capabilities, Handshake, OpeningSession, PolicyReach, agent_name};
use crate::error::{Error, Result, RpcError, RpcErrorKind, invalid_option};
use crate::json::object;
use crate::jsonrpc::RpcFailure;
use crate::messages::lenient::Number;
use crate::messages::{Json, ServerInfo, SlashCommand, decode_body};

/// The server refuses the parameters.
const INVALID: i64 = 40001;
/// The session does not exist.
const NO_SESSION: i64 = 40401;
/// The directory does not exist.
const NO_DIRECTORY: i64 = 40409;
/// The remedy for a session without a model.
pub(super) const NO_MODEL: &str = "set `model`, set `default_model` in Kimi Code's config.toml, or set KIMI_MODEL_NAME in \
                                   `env`; log in with `kimi login` if no model is configured";
/// The limit of skills that are known by name.
const MAX_SKILLS: usize = 1000;

/// The state of the opening.
#[derive(Debug)]
pub(super) enum Stage {
    /// The server's version is requested.
    Greeting,
    /// The session is created, resumed or forked.
    Session,
    /// The session is loaded, and its model is requested.
    Status,
    /// The configuration is requested, for the default model.
    Config,
    /// The program's settings are set.
    Profile,
    /// The session's skills are requested.
    Skills,
    /// The subscription is requested. The server may know the session only after a request for its state.
    Subscribing {
        is_retry: bool,
    },
    Waking,
    Open,
    /// The opening has failed for this reason.
    Failed(Error),
}

/// The next call of the opening.
enum Next {
    Get(String),
    Post(String, Value),
    Subscribe,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    model: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Skill {
    name: String,
    description: String,
    /// Where the skill can be used. `None`: everywhere.
    scopes: Option<Vec<String>>,
}

impl KimiWeb {
    pub(super) fn opening(&self) -> Option<OpeningSession> {
        let KimiWebParams { session_id, fork_of, .. } = &self.params;
        // The id of a resumed session is known from the first call; that of a new session is in the call's answer.
        matches!(self.stage, Stage::Session).then(|| OpeningSession::of(session_id.as_ref(), fork_of.as_ref()))
    }

    /// Reads an answer. Returns the next call of the opening; `None` if the opening is complete.
    pub(super) fn next_of_opening(
        &mut self,
        id: &str,
        outcome: &std::result::Result<Json, RpcFailure>,
    ) -> Option<Vec<u8>> {
        let next = match (&self.stage, outcome) {
            (Stage::Failed(_) | Stage::Open, _) => return None,
            (_, Err(failure)) => self.opening_refused(failure),
            (Stage::Greeting, Ok(answer)) => self.greeted(answer).map(Some),
            (Stage::Session, Ok(answer)) => self.has_session(answer).map(Some),
            (Stage::Status, Ok(answer)) => self.has_status(answer).map(Some),
            (Stage::Config, Ok(answer)) => self.has_config(answer).map(Some),
            (Stage::Profile, Ok(_)) => self.ask_for_skills().map(Some),
            (Stage::Skills, Ok(answer)) => {
                self.take_skills(answer);
                Ok(Some(self.subscribe(false)))
            }
            (Stage::Waking, Ok(_)) => Ok(Some(self.subscribe(true))),
            (Stage::Subscribing { is_retry }, Ok(answer)) => self.has_subscribed(*is_retry, answer),
        };
        let asked = Asked::Opening(id.to_owned());
        match next {
            Ok(Some(Next::Get(path))) => Some(self.get(asked, &path)),
            Ok(Some(Next::Post(path, body))) => Some(self.post(asked, &path, &body)),
            Ok(Some(Next::Subscribe)) => Some(self.subscription(asked)),
            Ok(None) => None,
            Err(error) => {
                self.stage = Stage::Failed(error);
                None
            }
        }
    }

    fn greeted(&mut self, answer: &Json) -> Result<Next> {
        #[derive(Deserialize)]
        struct Meta {
            server_version: Option<String>,
        }
        let meta: Meta = object(answer.get()).map_err(|reason| {
            Error::Handshake(format!(
                "the server's answer to `GET /meta` can't be read: {reason}; check that `executable` names Kimi Code, or set \
                 `dialect` to \"auto\""
            ))
        })?;
        let version = meta.server_version.unwrap_or_default();
        self.server = Some(ServerInfo { name: "Kimi Code".to_owned(), version, extra: Default::default() });
        let KimiWebParams { work_dir, session_id, fork_of, .. } = &self.params;
        self.stage = Stage::Session;
        Ok(match (fork_of, session_id) {
            (Some(id), _) => Next::Post(format!("/sessions/{}:fork", segment(id)), json!({})),
            // The server loads a session of an earlier process when its state is requested.
            (None, Some(id)) => Next::Get(format!("/sessions/{}/status", segment(id))),
            (None, None) => Next::Post("/sessions".to_owned(), json!({"metadata": {"cwd": work_dir}})),
        })
    }

    fn has_session(&mut self, answer: &Json) -> Result<Next> {
        if self.params.fork_of.is_none()
            && let Some(id) = &self.params.session_id
        {
            self.session = Some(id.clone());
            return self.has_status(answer);
        }
        #[derive(Deserialize)]
        struct Created {
            id: Number<String>,
        }
        let created: Created = decode_body(answer.get()).map_err(|reason| {
            Error::Handshake(format!("the server's answer about the session can't be read: {reason}"))
        })?;
        self.session = Some(created.id.0);
        if self.params.fork_of.is_some() {
            self.stage = Stage::Status;
            return Ok(Next::Get(self.path("/status")?));
        }
        self.choose_model(None)
    }

    fn has_status(&mut self, answer: &Json) -> Result<Next> {
        let status: Status = answer.decode().unwrap_or_default();
        self.choose_model(status.model.filter(|model| !model.is_empty()))
    }

    /// The server has no default model of its own: a session without a model fails each turn.
    fn choose_model(&mut self, has: Option<String>) -> Result<Next> {
        match self.params.model.clone() {
            Some(model) => self.set_profile(Some(model)),
            None if has.is_some() => self.set_profile(None),
            None => {
                self.stage = Stage::Config;
                Ok(Next::Get("/config".to_owned()))
            }
        }
    }

    fn has_config(&mut self, answer: &Json) -> Result<Next> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Config {
            default_model: Option<String>,
        }
        let config: Config = answer.decode().unwrap_or_default();
        let Some(model) = config.default_model.filter(|model| !model.is_empty()) else {
            let agent = agent_name(self.server.as_ref(), NAME);
            let message = format!("{agent} has no model for the session: its configuration has no `default_model`");
            let hint = Some(NO_MODEL.into());
            return Err(Error::Rpc(RpcError { hint, ..RpcError::new(RpcErrorKind::LlmNotSet, message) }));
        };
        self.set_profile(Some(model))
    }

    fn set_profile(&mut self, model: Option<String>) -> Result<Next> {
        // The program decides, or the SDK for it. A configuration that approves everything must not decide first.
        let mut config = json!({"permission_mode": "manual"});
        if let Some(model) = model {
            config["model"] = json!(model);
        }
        if let Some(thinking) = self.params.thinking {
            config["thinking"] = json!(if thinking { "on" } else { "off" });
        }
        self.stage = Stage::Profile;
        Ok(Next::Post(self.path("/profile")?, json!({"agent_config": config})))
    }

    fn ask_for_skills(&mut self) -> Result<Next> {
        self.stage = Stage::Skills;
        Ok(Next::Get(self.path("/skills")?))
    }

    fn take_skills(&mut self, answer: &Json) {
        self.commands = skills(answer);
        self.skills = self.commands.iter().map(|command| command.name.clone()).collect();
    }

    fn subscribe(&mut self, is_retry: bool) -> Next {
        self.stage = Stage::Subscribing { is_retry };
        Next::Subscribe
    }

    fn has_subscribed(&mut self, is_retry: bool, answer: &Json) -> Result<Option<Next>> {
        match self.take_subscription(answer) {
            Subscribed::Yes | Subscribed::Behind => {
                self.stage = Stage::Open;
                Ok(None)
            }
            Subscribed::No if !is_retry => {
                self.stage = Stage::Waking;
                Ok(Some(Next::Get(self.path("/status")?)))
            }
            Subscribed::No => {
                let session = self.session.as_deref().unwrap_or_default();
                Err(Error::Handshake(format!(
                    "the server has the session `{session}`, and tells no events of it; open the session again"
                )))
            }
        }
    }

    /// Returns whether the opening continues although this call was refused.
    fn opening_refused(&mut self, failure: &RpcFailure) -> Result<Option<Next>> {
        let RpcFailure { code, message, .. } = failure;
        if matches!(self.stage, Stage::Skills) {
            // Older releases have no such call. Then no commands are known.
            tracing::debug!(code, message, "the server lists no skills");
            return Ok(Some(self.subscribe(false)));
        }
        if let (Stage::Subscribing { is_retry: false }, NO_ANSWER) = (&self.stage, *code) {
            // The connection was lost, and is restored now or soon.
            return Ok(Some(self.subscribe(true)));
        }
        let rpc = |hint: Option<&str>| {
            Error::Rpc(RpcError {
                hint: hint.map(Into::into),
                ..RpcError::of_answer(RpcErrorKind::Other, failure.clone())
            })
        };
        Err(match (&self.stage, *code) {
            (Stage::Greeting, _) => Error::Handshake(format!(
                "the server refuses `GET /meta`; check that `executable` names Kimi Code, or set `dialect` to \"auto\"\nit \
                 says: {failure}"
            )),
            (Stage::Session, NO_DIRECTORY) => invalid_option("work_dir", message.clone()),
            (Stage::Session, NO_SESSION) => rpc(Some(
                "Kimi Code makes the ids of sessions itself: leave `session_id` out to open a new session, or pass the `id` of \
                 an earlier one",
            )),
            (Stage::Profile, INVALID) if self.params.model.is_some() => invalid_option("model", message.clone()),
            _ => rpc(None),
        })
    }

    /// Ends the opening. The last answer was that of the subscription.
    pub(super) fn opened(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Handshake> {
        match (&self.stage, outcome) {
            (Stage::Failed(error), _) => return Err(error.clone()),
            (Stage::Open, _) => {}
            (_, Err(failure)) => return Err(Error::Rpc(RpcError::of_answer(RpcErrorKind::Other, failure))),
            (_, Ok(_)) => return Err(Error::Handshake("the server has opened no session".to_owned())),
        }
        let slash_commands = std::mem::take(&mut self.commands);
        Ok(Handshake {
            protocol_version: NAME.to_owned(),
            server: self.server.clone(),
            slash_commands,
            capabilities: capabilities(),
            session_id: self.session.clone(),
            ..Handshake::default()
        })
    }
}

fn capabilities() -> Capabilities {
    Capabilities {
        external_tools: false,
        questions: true,
        approval_feedback: true,
        steer: true,
        plan_mode: true,
        config_options: false,
        replay: true,
        undo: true,
        fork: true,
        hooks: Vec::new(),
        policy: PolicyReach::Approvals,
        files: false,
        terminals: false,
    }
}

/// Returns the skills that a program can use, as commands.
fn skills(answer: &Json) -> Vec<SlashCommand> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Skills {
        skills: Vec<Skill>,
    }
    let known: Skills = answer.decode().unwrap_or_default();
    let usable = |skill: &Skill| {
        let everywhere = skill.scopes.as_ref().is_none_or(|scopes| scopes.iter().any(|scope| scope == "web"));
        everywhere && !skill.name.is_empty() && !skill.name.contains(char::is_whitespace)
    };
    let command = |skill: Skill| SlashCommand {
        name: skill.name,
        description: skill.description,
        aliases: Vec::new(),
        extra: Default::default(),
    };
    known.skills.into_iter().filter(usable).take(MAX_SKILLS).map(command).collect()
}
