//! Opening a session: check the options, start the agent, shake hands.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{Notify, oneshot};
use tracing::Instrument as _;

use super::detect::{self, Subject};
use super::link::Link;
use super::processes::{Processes, Source};
use super::{Session, Turn, TurnInner};
use crate::connection::{Connection, Policy, PromptResult, Timing, TurnStatus, Who};
use crate::dialect::{
    Acp, AgentKind, Dialect as Protocol, Handshake, HookOffer, InitializeParams, Legacy, Release, ToolOffer, Wire,
    WireVersion, agent_name, unsupported_option,
};
use crate::driver::event_channel::EventChannel;
use crate::driver::shared::{Shared, in_common};
use crate::driver::{Command, Handlers, SessionSetup, tool_calls};
use crate::error::{Error, Result};
use crate::handler::{Hook, Responder};
use crate::options::{Dialect, PromptOptions, SessionOptions};
use crate::secrets::Secrets;
use crate::tools_server::ToolsServer;
#[cfg(any(test, feature = "measured"))]
use crate::transport::Transport;

impl SessionOptions {
    /// Starts the agent and shakes hands with it. Dropping the future stops the agent again.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names a wrong option, [`Error::Spawn`] what could not be started,
    /// [`Error::Handshake`] or [`Error::Timeout`] what the agent did instead of answering, [`Error::AgentExited`] how
    /// it ended, [`Error::Unsupported`] an option that this agent has no use for.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use kimi_agent::Session;
    /// let error = Session::builder().executable("/no/such/kimi").start().await.unwrap_err();
    /// assert_eq!(error.code(), "spawn_error");
    /// # }
    /// ```
    pub async fn start(self) -> Result<Session> {
        Box::new(self).start_as(uuid::Uuid::new_v4().to_string()).await
    }

    /// The same, with the id that the session has where the program gives none. It is no wish of the program's: an agent
    /// that can't be told it is none the worse. The options are boxed, as each of the futures from here on would hold them
    /// twice over.
    pub(crate) async fn start_as(self: Box<Self>, id: String) -> Result<Session> {
        let processes = Processes::of_one(self.close_timeout);
        self.start_in(&processes, id).await
    }

    /// The same, in one of these processes. Boxed, as it is large, and would be part of everything that waits for it.
    pub(super) fn start_in<'a>(
        self: Box<Self>,
        processes: &'a Processes,
        id: String,
    ) -> Pin<Box<impl Future<Output = Result<Session>> + use<'a>>> {
        // Also what is said while the session opens is to be known for its own.
        let span = tracing::info_span!("session", session = self.session_id.as_deref().unwrap_or(&id));
        Box::pin(self.started(processes, id).instrument(span))
    }

    async fn started(self: Box<Self>, processes: &Processes, id: String) -> Result<Session> {
        self.validate()?;
        let subject = self.subject()?;
        let auto = self.dialect == Dialect::Auto;
        let mut known = subject.recall().filter(|_| auto);
        if auto && known.is_none() && self.fork_of.is_some() {
            // Only some can: whether this one does is not found out by starting a session.
            known = subject.ask().await;
        }
        match self.clone().attempt(processes, &subject, known, &id).await {
            Err(error) if auto && known.is_none() && detect::refuses_a_flag(&error) => match subject.ask().await {
                Some(agent) => self.attempt(processes, &subject, Some(agent), &id).await,
                None => Err(error),
            },
            outcome => outcome,
        }
    }

    /// Starts the agent; `agent` is what it is known to be.
    async fn attempt(
        mut self: Box<Self>,
        processes: &Processes,
        subject: &Subject,
        agent: Option<AgentKind>,
        id: &str,
    ) -> Result<Session> {
        let dialect = self.dialect_for(agent)?;
        let id = self.session_id.clone().unwrap_or_else(|| id.to_owned());
        let acp = self.speaks_acp(agent);
        let launch = if acp {
            self.launch_acp(agent.is_some())?
        } else {
            if self.fork_of.is_some() {
                let agent = agent.map_or_else(|| "an agent that speaks Wire".to_owned(), |agent| agent.to_string());
                return Err(Error::Unsupported(format!(
                    "{agent} does not support `fork`; only some agents of ACP can fork a session"
                )));
            }
            if self.names_sessions(agent) {
                // The agent keeps its session under this name; without one, the program could not resume it.
                self.session_id = Some(id.clone());
            }
            self.launch()?
        };
        let work_dir = launch.current_dir.clone();
        let source = Source::Start(launch, self.on_stderr.clone());
        let subject = Some(subject).filter(|_| self.dialect == Dialect::Auto && !acp);
        self.open_as(processes, source, dialect, id, work_dir, subject).await
    }

    pub(super) fn subject(&self) -> Result<Subject> {
        let (program, args) = self.program()?;
        Ok(Subject { program, args, env: self.env.clone(), dir: self.work_dir.clone() })
    }

    /// The protocol to begin with, if this agent can do what the options want.
    fn dialect_for(&self, agent: Option<AgentKind>) -> Result<Box<dyn Protocol>> {
        if self.speaks_acp(agent) {
            let name = agent.map_or_else(|| "an agent that speaks ACP".to_owned(), |agent| agent.to_string());
            return Ok(Box::new(Acp::new(self.wishes(&name)?)));
        }
        let release = match agent {
            Some(AgentKind::KimiCli(release)) => Some(release),
            _ => None,
        };
        if let Some(release) = release {
            self.check_release(release)?;
        }
        let legacy = self.dialect == Dialect::Legacy || release.is_some_and(Release::is_legacy);
        if legacy && !self.yolo {
            let agent = release.map_or_else(|| "a legacy agent".to_owned(), |release| format!("kimi-cli {release}"));
            return Err(half_duplex(&agent));
        }
        match (&self.dialect, release) {
            (Dialect::Auto, Some(release)) => Ok(release.dialect()),
            (Dialect::Wire(version), _) => Ok(Box::new(Wire::pinned(*version))),
            (Dialect::Legacy, _) => Ok(Box::new(Legacy::new(None))),
            _ => Ok(Box::new(Wire::new(WireVersion::LATEST))),
        }
    }

    /// Opens a session over a transport.
    #[cfg(any(test, feature = "measured"))]
    pub(crate) async fn open(self, transport: Transport, id: String, work_dir: std::path::PathBuf) -> Result<Session> {
        let dialect = self.dialect_for(None)?;
        let processes = Processes::of_one(self.close_timeout);
        Box::new(self).open_as(&processes, Source::Running(transport), dialect, id, work_dir, None).await
    }

    /// The same, for an agent that speaks this.
    #[cfg(all(test, feature = "mcp"))]
    pub(crate) async fn open_with(
        self,
        transport: Transport,
        dialect: Box<dyn Protocol>,
        id: String,
        work_dir: std::path::PathBuf,
    ) -> Result<Session> {
        let processes = Processes::of_one(self.close_timeout);
        Box::new(self).open_as(&processes, Source::Running(transport), dialect, id, work_dir, None).await
    }

    /// Opens a session. `subject` is asked what it is if the agent does not tell.
    async fn open_as(
        mut self: Box<Self>,
        processes: &Processes,
        source: Source,
        dialect: Box<dyn Protocol>,
        id: String,
        work_dir: std::path::PathBuf,
        subject: Option<&Subject>,
    ) -> Result<Session> {
        let hooks: HashMap<String, Hook> =
            self.hooks.iter().enumerate().map(|(n, hook)| (format!("hook-{}", n + 1), hook.clone())).collect();
        let mut policy = self.policy(&hooks);
        let mut hello = self.hello();
        let wanted: Vec<String> = self.hooks.iter().map(|hook| hook.event.clone()).collect();
        let tools = !self.tools.is_empty();
        let (mut tools_server, mut offered) = (None, None);
        if tools && dialect.takes_tools_from_server() {
            let (caller, calls) = tool_calls::channel();
            let (server, offer) = ToolsServer::start(&self.tools, self.max_line_bytes, caller).await?;
            hello.tools_server = Some(offer.endpoint);
            offered = Some(offer.tools);
            tools_server = Some((server, calls));
        }
        policy.secrets = self.secrets(&hello);
        let timing = Timing {
            handshake: self.handshake_timeout,
            cancel: self.cancel_timeout,
            answer: self.handshake_timeout,
            turn: self.turn_timeout,
            idle: self.idle_timeout,
        };
        let (opened, welcome) = oneshot::channel();
        let setup = Box::new(SessionSetup {
            connection: Connection::new(dialect, timing, policy),
            handlers: Handlers::new(
                self.on_approval.clone(),
                self.on_question.clone(),
                std::mem::take(&mut self.tools),
                hooks,
                self.on_event.clone(),
            ),
            hello,
            max_line_bytes: self.max_line_bytes,
            close_timeout: self.close_timeout,
            opened,
            tools_server,
        });
        let yolo = self.yolo;
        let event_buffer_bytes = self.event_buffer_bytes;
        // Agents take their time, and many sessions may be on their way at once.
        drop(self);
        let (shared, pid) = processes.open_session(source, setup, event_buffer_bytes).await?;
        // The driver may hold the session for open while its executable is still asked what it is.
        let opening = Opening(Some(Arc::clone(&shared)));
        let mut welcome = find_out(welcome, &shared, subject, yolo).await?;
        if let Some(tools) = offered {
            welcome.external_tools = tools;
        }
        opening.done();
        let id = welcome.session_id.clone().unwrap_or(id);
        let session = Session { shared, id, work_dir, pid, welcome: in_common(&SAID, welcome) };
        check_wishes(&session.welcome, tools, &wanted)?;
        Ok(session)
    }

    fn policy(&self, hooks: &HashMap<String, Hook>) -> Policy {
        fn who<H>(responder: &Responder<H>) -> Who {
            match responder {
                Responder::Unset => Who::Nobody,
                Responder::Manual => Who::Manual,
                Responder::Handler(_) => Who::Handler,
            }
        }
        Policy {
            approval: if self.yolo { Who::Yolo } else { who(&self.on_approval) },
            question: who(&self.on_question),
            tools: self.tools.iter().map(|tool| tool.name.clone()).collect(),
            hooks: hooks.iter().map(|(id, hook)| (id.clone(), (hook.on_error, hook.event.clone()))).collect(),
            observed: self.on_event.is_some(),
            secrets: Secrets::default(),
            naming: self.naming,
        }
    }

    /// The values that may be secrets, for what is shown of the agent's lines.
    fn secrets(&self, hello: &InitializeParams) -> Secrets {
        let values = self.config.iter().chain(&self.mcp_configs);
        let env = self.env.iter().map(|(_, value)| value.as_os_str());
        let headers = hello.tools_server.iter().flat_map(|server| &server.headers);
        Secrets::new(values, env.chain(headers.map(|(_, value)| OsStr::new(value))))
    }

    pub(super) fn hello(&self) -> InitializeParams {
        InitializeParams {
            client_name: self.client_name.clone().unwrap_or_else(|| "kimi-agent".to_owned()),
            client_version: self.client_version.clone().unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned()),
            tools: self
                .tools
                .iter()
                .map(|tool| ToolOffer {
                    name: tool.name.clone(),
                    description: tool.description.clone(),
                    parameters: tool.parameters.clone(),
                })
                .collect(),
            hooks: self
                .hooks
                .iter()
                .enumerate()
                .map(|(n, hook)| HookOffer {
                    id: format!("hook-{}", n + 1),
                    event: hook.event.clone(),
                    matcher: hook.matcher.clone(),
                    // Rounded up: the agent must not give up before we do.
                    timeout: hook.timeout.map(|timeout| timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0)),
                })
                .collect(),
            supports_question: self.on_question.is_set(),
            tools_server: None,
            model: self.model.clone(),
        }
    }
}

/// What the agents that are there said last, to be shared by all that say the same, as agents of one release do.
static SAID: Mutex<Weak<Handshake>> = Mutex::new(Weak::new());

/// A session on its way; given up, it is closed.
struct Opening(Option<Arc<Shared>>);

impl Opening {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.begin_close();
        }
    }
}

/// Waits for the agent to open the session. Where it does not tell what it is, its executable is asked.
async fn find_out(
    mut welcome: oneshot::Receiver<Result<Handshake>>,
    shared: &Shared,
    subject: Option<&Subject>,
    yolo: bool,
) -> Result<Handshake> {
    let heard =
        |answer: std::result::Result<Result<Handshake>, _>| answer.unwrap_or_else(|_| Err(shared.closed_reason()));
    let Some(subject) = subject else { return heard(welcome.await) };
    let release = tokio::select! {
        answer = &mut welcome => {
            let welcome = heard(answer)?;
            if welcome.server.is_some() {
                return Ok(welcome);
            }
            // It knows no handshake: 1.0, of some release.
            let Some(AgentKind::KimiCli(release)) = subject.ask().await else { return Ok(welcome) };
            let told = release.dialect().implicit_handshake();
            shared.send(Command::Assume { dialect: release.dialect() });
            return Ok(told.unwrap_or(welcome));
        }
        release = subject.after_silence() => release,
    };
    if release.is_legacy() && !yolo {
        return Err(half_duplex(&format!("kimi-cli {release}")));
    }
    shared.send(Command::Assume { dialect: release.dialect() });
    heard(welcome.await)
}

/// An agent that can't be asked for approvals must not be given the chance to ask.
fn half_duplex(agent: &str) -> Error {
    Error::Unsupported(format!(
        "{agent} does not support approvals: it reads nothing while a turn runs, so one would block it for ever; \
         set `yolo` to do without them"
    ))
}

/// An option that this agent would silently ignore is an error.
fn check_wishes(welcome: &Handshake, tools: bool, hooks: &[String]) -> Result<()> {
    let can = &welcome.capabilities;
    let agent = agent_name(welcome.server.as_ref(), &welcome.protocol_version);
    if tools && !can.external_tools {
        return Err(unsupported_option(welcome, "tools"));
    }
    for event in hooks {
        if can.hooks.is_empty() {
            return Err(unsupported_option(welcome, "hooks"));
        }
        if !can.hooks.contains(event) {
            let known = can.hooks.join(", ");
            return Err(Error::Unsupported(format!("{agent} has no hook on `{event}`; it has: {known}")));
        }
    }
    for tool in &welcome.external_tools.rejected {
        tracing::warn!(tool = tool.name, reason = tool.reason, "the agent refuses a tool");
    }
    Ok(())
}

/// One prompt, one turn: opens a session, runs the turn, closes the session again. Returns at once; whatever goes
/// wrong, the start of the agent included, comes out of the turn.
///
/// `prompt` is content, or [`PromptOptions`] with content and options of the prompt.
///
/// Needs a tokio runtime, as a session does.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let agent = kimi_agent::testing::scripted_agent(serde_json::json!([[{"text": "4"}]]));
/// use kimi_agent::SessionOptions;
/// let mut turn = kimi_agent::prompt("What is 2 + 2?", SessionOptions::new().executable(&agent));
/// assert_eq!(turn.result().await?.text, "4");
/// # Ok(()) }
/// ```
pub fn prompt(prompt: impl Into<PromptOptions>, options: SessionOptions) -> Turn {
    one_shot(prompt.into(), options, tokio::runtime::Handle::try_current().ok())
}

/// Starts a turn in a session of its own on this runtime.
pub fn one_shot_on(prompt: PromptOptions, options: SessionOptions, runtime: tokio::runtime::Handle) -> Turn {
    one_shot(prompt, options, Some(runtime))
}

fn one_shot(prompt: PromptOptions, options: SessionOptions, runtime: Option<tokio::runtime::Handle>) -> Turn {
    let room = Arc::new(Notify::new());
    let channel = Arc::new(EventChannel::new(options.event_buffer_bytes, Arc::clone(&room)));
    let link = Arc::new(Link::default());
    let inner = TurnInner::new(Arc::clone(&channel), Arc::clone(&link), "turn-1".to_owned());
    match runtime {
        Some(runtime) => drop(runtime.spawn(run_one_shot(prompt, options, Unfinished(channel), link, room))),
        None => channel.finish(Err(Error::Internal("`prompt` was called outside a tokio runtime".to_owned()))),
    }
    Turn::new(inner)
}

/// A turn that ends whatever happens, be it that the runtime is gone before its task has begun.
struct Unfinished(Arc<EventChannel>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.finish(Err(Error::SessionClosed));
    }
}

async fn run_one_shot(
    prompt: PromptOptions,
    options: SessionOptions,
    turn: Unfinished,
    link: Arc<Link>,
    room: Arc<Notify>,
) {
    let channel = &turn.0;
    let limits = match prompt.limits() {
        Ok(limits) => limits,
        Err(error) => return channel.finish(Err(error)),
    };
    let started = tokio::select! {
        started = options.start() => started,
        () = link.until_cancelled() => {
            return channel.finish(Ok(PromptResult::empty(TurnStatus::Cancelled)));
        }
    };
    let session = match started {
        Ok(session) => session,
        Err(error) => return channel.finish(Err(error)),
    };
    match session.shared.prompt(Arc::clone(channel), prompt.content, limits) {
        Ok(key) => link.connect(Arc::clone(&session.shared), key),
        Err(error) => return channel.finish(Err(error)),
    }
    // The channel is older than the session, whose driver is notified of capacity by the session's own notifier.
    let forward = async {
        loop {
            room.notified().await;
            session.shared.room.notify_one();
        }
    };
    tokio::select! {
        _ = channel.settled() => {}
        () = forward => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_say_alike_is_there_once() {
        let said = Mutex::new(Weak::new());
        let hears = |version: &str| {
            in_common(&said, Handshake { protocol_version: version.to_owned(), ..Handshake::default() })
        };
        let (first, same, other) = (hears("1.10"), hears("1.10"), hears("1.9"));
        assert!(Arc::ptr_eq(&first, &same));
        assert_eq!((&*first.protocol_version, &*other.protocol_version), ("1.10", "1.9"));
        drop((first, same, other));
        assert!(said.lock().unwrap().upgrade().is_none(), "kept for nobody");
    }
}
