//! Opening a session: the checks of the options, the start of the agent, and the handshake.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::Session;
use super::checks::{Pricing, check_budget, check_capabilities, check_reach, check_services, half_duplex};
use super::detect::{self, AgentCommand};
use super::output;
use super::policy::SessionPolicy;
use super::processes::{Processes, Source};
use crate::connection::{AnswerSource, AnswerSources, Connection, POLICY_HOOK, Timing};
use crate::dialect::{
    Acp, AgentKind, Dialect as Protocol, Handshake, HookOffer, InitializeParams, KimiWeb, Legacy, Release, ToolOffer,
    Wire, WireVersion, unsupported_option,
};
use crate::driver::shared::{Shared, intern};
use crate::driver::{Command, Handlers, SessionSetup};
use crate::error::{Error, Result};
use crate::handler::{Hook, Responder};
use crate::options::{Dialect, SessionOptions};
use crate::output::SessionOutput;
use crate::recording;
use crate::secrets::Secrets;
use crate::session_files::RECORDS_TIMEOUT;
use crate::telemetry::SessionTelemetry;
use crate::tools_server::ToolsServer;
use crate::tools_server::calls;
#[cfg(any(test, feature = "measured"))]
use crate::transport::Transport;

/// After this time in a turn without a message from the agent, the log says what the agent is busy with.
const QUIET: Duration = Duration::from_secs(30);

impl SessionOptions {
    /// Starts the agent and performs the handshake. Dropping the future stops the agent.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a wrong option, [`Error::Spawn`] if the agent cannot be started,
    /// [`Error::Handshake`] or [`Error::Timeout`] if it does not answer the handshake as expected,
    /// [`Error::AgentExited`] if it exits, [`Error::Unsupported`] for an option that this agent does not support.
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

    /// Starts the agent with this id for the session if the program has not set one. An agent that cannot be given an
    /// id ignores it. The options are boxed, because each of the following futures would contain them twice.
    pub(crate) async fn start_as(self: Box<Self>, id: String) -> Result<Session> {
        let processes = Processes::of_one(self.close_timeout);
        self.start_in(&processes, id).await
    }

    /// Opens the session in one of these processes. Boxed, because the future is large and would be part of every
    /// future that waits for it.
    pub(super) fn start_in<'a>(
        self: Box<Self>,
        processes: &'a Processes,
        id: String,
    ) -> Pin<Box<impl Future<Output = Result<Session>> + use<'a>>> {
        // Log records of the opening belong to the session.
        let span = tracing::info_span!("session", session = self.session_id.as_deref().unwrap_or(&id));
        Box::pin(self.started(processes, id).instrument(span))
    }

    async fn started(mut self: Box<Self>, processes: &Processes, id: String) -> Result<Session> {
        self.find_replayed().await?;
        self.validate()?;
        self.settle_place_of_session()?;
        self.recording = self.recording_file(self.session_id.as_deref().unwrap_or(&id))?;
        if let (Some(slot), Some(file)) = (&self.recorded_at, &self.recording) {
            slot.set(Arc::clone(file)).ok();
        }
        let opening = recording::Opening::of(self.recording.as_ref());
        if self.remote_address().is_some() {
            let session = self.attempt(processes, None, None, &id).await.map_err(of_remote)?;
            opening.succeed();
            return Ok(session);
        }
        let played = self.play_cassette()?;
        let command = self.command()?;
        // An agent that plays a recording is not asked for its version.
        let auto = self.dialect == Dialect::Auto && self.replayed.is_none();
        let mut known = command.recall().filter(|_| auto);
        if auto && known.is_none() && self.fork_of.is_some() {
            // Only some agents can fork. The SDK finds that out without starting a session.
            known = command.ask().await;
        }
        let outcome = match self.clone().attempt(processes, Some(&command), known, &id).await {
            Err(error) if auto && known.is_none() && detect::refuses_a_flag(&error) => match command.ask().await {
                Some(agent) => self.attempt(processes, Some(&command), Some(agent), &id).await,
                None => Err(error),
            },
            outcome => outcome,
        };
        if outcome.is_ok() {
            opening.succeed();
            played.into_iter().for_each(recording::Opening::succeed);
        }
        outcome
    }

    /// Starts the agent with this command, if it is started here. `agent` is its kind, if known.
    async fn attempt(
        mut self: Box<Self>,
        processes: &Processes,
        command: Option<&AgentCommand>,
        agent: Option<AgentKind>,
        id: &str,
    ) -> Result<Session> {
        let dialect = self.dialect_for(agent)?;
        let id = self.session_id.clone().unwrap_or_else(|| id.to_owned());
        let acp = self.speaks_acp(agent);
        let mut launch = if self.remote_address().is_some() {
            self.launch_remote()?
        } else if self.dialect == Dialect::KimiWeb {
            self.launch_web(processes.is_shared(), processes.server_secret())?
        } else if acp {
            self.launch_acp(agent, processes.is_shared())?
        } else {
            if self.fork_of.is_some() {
                let agent = agent.map_or_else(|| "an agent that speaks Wire".to_owned(), |agent| agent.to_string());
                return Err(Error::Unsupported(format!(
                    "{agent} does not support `fork`; check `session.capabilities.fork` before"
                )));
            }
            if self.names_sessions(agent) {
                // The agent stores its session under this id. Without it the program could not resume the session.
                self.session_id = Some(id.clone());
            }
            self.launch()?
        };
        self.add_trace(&mut launch);
        let work_dir = launch.current_dir.clone();
        let launch = self.placed(launch)?;
        let source = Source::Start(Box::new(launch), self.on_stderr.clone());
        let is_known = acp || self.replayed.is_some();
        let command = command.filter(|_| self.dialect == Dialect::Auto && !is_known);
        self.open_as(processes, source, dialect, id, work_dir, command).await
    }

    pub(super) fn command(&self) -> Result<AgentCommand> {
        let (program, args) = self.program()?;
        let (env, inherited) = (self.env.clone(), self.inherited.clone());
        Ok(AgentCommand { program, args, env, inherited, dir: self.work_dir.clone(), place: self.place.clone() })
    }

    /// Returns the protocol for the handshake, if this agent supports the options.
    fn dialect_for(&self, agent: Option<AgentKind>) -> Result<Box<dyn Protocol>> {
        if self.speaks_acp(agent) {
            let name = agent.map_or_else(|| "an agent that speaks ACP".to_owned(), |agent| agent.to_string());
            return Ok(Box::new(Acp::new(self.session_params(&name)?)));
        }
        if self.dialect == Dialect::KimiWeb {
            return Ok(Box::new(KimiWeb::new(self.web_params()?)));
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

    /// Opens a session over a transport, with this dialect.
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

    /// Opens a session. `command` is run with `--version` if the handshake does not report it.
    async fn open_as(
        mut self: Box<Self>,
        processes: &Processes,
        source: Source,
        dialect: Box<dyn Protocol>,
        id: String,
        work_dir: std::path::PathBuf,
        command: Option<&AgentCommand>,
    ) -> Result<Session> {
        let hooks: BTreeMap<String, Hook> =
            self.hooks.iter().enumerate().map(|(n, hook)| (format!("hook-{}", n + 1), hook.clone())).collect();
        let mut sources = self.answer_sources(&hooks);
        let mut params = self.initialize_params();
        let wanted: Vec<String> = self.hooks.iter().map(|hook| hook.event.clone()).collect();
        let tools = !self.tools.is_empty();
        let mut output = self.session_output()?;
        let output_tool = output.as_ref().and_then(SessionOutput::offer);
        let (mut tools_server, mut offered) = (None, None);
        // Without the server the model returns the output in its text.
        if dialect.takes_tools_from_server() {
            self.check_tools_reachable()?;
        }
        let is_reachable = self.reaches_loopback() && cfg!(feature = "mcp");
        let is_served = tools || (output_tool.is_some() && is_reachable);
        if is_served && dialect.takes_tools_from_server() {
            let (caller, calls) = calls::channel();
            let served = self.tools.iter().cloned().chain(output_tool.as_ref().map(output::listed_tool));
            let served: Vec<_> = served.collect();
            let (server, offer) = ToolsServer::start(&served, self.max_line_bytes, caller).await?;
            params.tools_server = Some(offer.endpoint);
            offered = Some(offer.tools);
            tools_server = Some((server, calls));
        }
        params.tools.extend(output_tool);
        let server = params.tools_server.as_ref().map(|server| &*server.name);
        sources.output_tool = output.as_ref().and_then(|output| output.tool(server));
        let is_unserved = dialect.takes_tools_from_server() && server.is_none();
        let mut generated = generated_secrets(&params, source.server_secret());
        generated.extend(self.place.iter().flat_map(|place| place.secrets()));
        sources.secrets = self.secrets(&generated);
        let recording = self.recording.take();
        let recorder = match &recording {
            Some(file) => Some(self.recorder(Arc::clone(file), dialect.id(), &work_dir, &params, generated)?),
            None => None,
        };
        let can_deny = self.policy.as_ref().is_some_and(|policy| policy.denies());
        let enforce = self.policy.as_ref().map(|_| self.enforce);
        if let Some(policy) = self.policy.take() {
            for warning in policy.warnings() {
                tracing::warn!(warning, "a rule of the policy never decides");
            }
            if policy.denies() {
                params.hooks.push(HookOffer {
                    id: POLICY_HOOK.to_owned(),
                    event: "PreToolUse".to_owned(),
                    matcher: None,
                    timeout: None,
                });
            }
            let rules = SessionPolicy { policy, work_dir: work_dir.clone(), paths: self.paths.clone() };
            for tool in self.tools.iter().filter(|tool| rules.forgets(&tool.name)) {
                tracing::warn!(
                    tool = tool.name,
                    "the default of the policy denies a tool of the program; add its name to `allow`"
                );
            }
            sources.rules = Some(Arc::new(Box::new(rules)));
        }
        let timing = Timing {
            handshake: self.handshake_timeout,
            cancel: self.cancel_timeout,
            answer: self.handshake_timeout,
            turn: self.turn_timeout,
            idle: self.idle_timeout,
            quiet: Some(QUIET),
        };
        let (opened, handshake) = oneshot::channel();
        let records = self.records_source(&work_dir).filter(|_| dialect.shares_processes());
        let mut connection = Connection::new(dialect, timing, sources);
        let mut telemetry = SessionTelemetry::of(&self, Some(&id)).map(Box::new);
        if let Some(telemetry) = &telemetry {
            connection.set_telemetry(telemetry.tracker());
        }
        let pricing = self.prices.take().map(|prices| {
            connection.set_prices(prices.clone());
            Box::new(Pricing { prices, model: self.model.clone(), session_budget: self.session_budget })
        });
        let (session_budget, reads_records) = (self.session_budget, records.is_some());
        if let Some(budget) = session_budget {
            connection.set_session_budget(budget);
        }
        if let Some(recorder) = recorder {
            connection.set_recorder(Box::new(recorder));
        }
        if records.is_some() {
            connection.set_records_timeout(RECORDS_TIMEOUT);
        }
        let services = params.services;
        let setup = Box::new(SessionSetup {
            connection,
            handlers: Handlers::new(
                self.on_approval.clone(),
                self.on_question.clone(),
                std::mem::take(&mut self.tools),
                hooks,
                self.on_event.clone(),
                std::mem::take(&mut self.services),
            )
            .traced_by(telemetry.as_ref().map(|telemetry| Arc::clone(telemetry.host()))),
            params,
            max_line_bytes: self.max_line_bytes,
            close_timeout: self.close_timeout,
            opened,
            tools_server,
            records,
            recording,
        });
        let limit = self.first_limit();
        let naming = self.naming;
        let yolo = self.yolo;
        let event_buffer_bytes = self.event_buffer_bytes;
        let replayed = self.replayed.take();
        // A scripted agent reads its script when it starts.
        let executable = self.executable.take();
        // Freed before the handshake: agents take long to start, and many sessions may be opening.
        drop(self);
        let (shared, pid) = processes.open_session(source, setup, event_buffer_bytes).await?;
        // The driver may have opened the session while the executable is still running with `--version`.
        let opening = Opening(Some(Arc::clone(&shared)));
        let mut handshake = await_handshake(handshake, &shared, command, yolo).await?;
        drop(executable);
        if let Some(tools) = offered {
            handshake.external_tools = tools;
        }
        handshake.reads_records = reads_records;
        if let Some(output) = &mut output {
            output.by_tool &= !is_unserved;
            output.settle(&mut handshake)?;
        }
        let id = handshake.session_id.clone().unwrap_or(id);
        if let Some(telemetry) = &mut telemetry {
            telemetry.learn(&handshake);
        }
        let handshake = intern(&LAST_HANDSHAKE, handshake);
        let has_price = pricing.as_ref().is_some_and(|pricing| pricing.has_price(&shared));
        let output = output.map(Arc::new);
        let session = Session { shared, id, work_dir, pid, handshake, output, telemetry, replayed, pricing };
        check_capabilities(&session.handshake, tools, &wanted)?;
        check_services(&session.handshake, services, naming)?;
        if let Some(enforce) = enforce {
            check_reach(&session.handshake, enforce, can_deny, naming)?;
        }
        check_budget(&session.handshake, has_price, "session_budget", session_budget, naming)?;
        if let Some(limit) = limit.filter(|_| !session.handshake.takes_limits()) {
            return Err(unsupported_option(&session.handshake, &format!("`{limit}`")));
        }
        opening.done();
        Ok(session)
    }

    fn answer_sources(&self, hooks: &BTreeMap<String, Hook>) -> AnswerSources {
        fn source<H>(responder: &Responder<H>) -> AnswerSource {
            match responder {
                Responder::Unset => AnswerSource::Default,
                Responder::Manual => AnswerSource::Manual,
                Responder::Handler(_) => AnswerSource::Handler,
            }
        }
        AnswerSources {
            approval: if self.yolo { AnswerSource::Yolo } else { source(&self.on_approval) },
            question: source(&self.on_question),
            tools: self.tools.iter().map(|tool| tool.name.clone()).collect(),
            services: self.services.offered(),
            hooks: hooks.iter().map(|(id, hook)| (id.clone(), (hook.on_error, hook.event.clone()))).collect(),
            observed: self.on_event.is_some(),
            secrets: Secrets::default(),
            rules: None,
            output_tool: None,
            naming: self.naming,
        }
    }

    /// Returns the values that may be secrets, which logs and errors mask.
    fn secrets(&self, generated: &[String]) -> Secrets {
        let values = self.config.iter().chain(&self.mcp_configs);
        let env = self.env.iter().map(|(_, value)| value.as_os_str());
        Secrets::new(values, env.chain(generated.iter().map(OsStr::new)))
    }

    pub(super) fn initialize_params(&self) -> InitializeParams {
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
                    // Rounded up, so that the agent's timeout is not shorter than the SDK's.
                    timeout: hook.timeout.map(|timeout| timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0)),
                })
                .collect(),
            supports_question: self.on_question.is_set(),
            tools_server: None,
            model: self.model.clone(),
            services: self.services.offered(),
        }
    }
}

/// Corrects the advice in an error of the opening for an agent that is reached over the network, and has no program here.
fn of_remote(error: Error) -> Error {
    const WORDS: [(&str, &str); 3] = [
        (
            "`executable` has the arguments that it needs to speak the protocol",
            "the address in `place` is that of an agent of ACP",
        ),
        (", or set `dialect` to \"auto\" if it speaks Wire", ""),
        ("`executable` names", "the address in `place` is that of"),
    ];
    let correct = |text: String| WORDS.iter().fold(text, |text, (from, to)| text.replacen(from, to, 1));
    match error {
        Error::Handshake(text) => Error::Handshake(correct(text)),
        Error::Timeout(text) => Error::Timeout(text.map(correct)),
        other => other,
    }
}

/// The last result of a handshake. Sessions of the same release share it.
static LAST_HANDSHAKE: Mutex<Weak<Handshake>> = Mutex::new(Weak::new());

/// A session that is being opened. Dropped, it is abandoned.
struct Opening(Option<Arc<Shared>>);

impl Opening {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.abandon();
        }
    }
}

/// Waits for the agent to open the session. If the agent does not report its release, runs the executable with
/// `--version`.
async fn await_handshake(
    mut handshake: oneshot::Receiver<Result<Handshake>>,
    shared: &Shared,
    command: Option<&AgentCommand>,
    yolo: bool,
) -> Result<Handshake> {
    let received =
        |answer: std::result::Result<Result<Handshake>, _>| answer.unwrap_or_else(|_| Err(shared.closed_reason()));
    let Some(command) = command else { return received(handshake.await) };
    let release = tokio::select! {
        answer = &mut handshake => {
            let handshake = received(answer)?;
            if handshake.server.is_some() {
                return Ok(handshake);
            }
            // The agent does not know the handshake, so it speaks Wire 1.0.
            let Some(AgentKind::KimiCli(release)) = command.ask().await else { return Ok(handshake) };
            let told = release.dialect().implicit_handshake();
            shared.send(Command::SwitchDialect { dialect: release.dialect() });
            return Ok(told.unwrap_or(handshake));
        }
        release = command.after_silence() => release,
    };
    if release.is_legacy() && !yolo {
        return Err(half_duplex(&format!("kimi-cli {release}")));
    }
    shared.send(Command::SwitchDialect { dialect: release.dialect() });
    received(handshake.await)
}

/// Returns the secrets that the SDK makes for a session: the headers of the tools server with the bare token, and the password
/// of Kimi Code's server.
fn generated_secrets(params: &InitializeParams, server_secret: Option<&str>) -> Vec<String> {
    let headers = params.tools_server.iter().flat_map(|server| &server.headers).map(|(_, value)| &**value);
    // An agent can write the token without the word in front of it.
    let tokens = headers.clone().filter_map(|value| value.strip_prefix("Bearer "));
    headers.chain(tokens).chain(server_secret).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::dialect::ToolsEndpoint;

    #[test]
    fn generated_secrets_have_bare_token() {
        let headers = vec![("Authorization".to_owned(), "Bearer canary-1".to_owned())];
        let server = ToolsEndpoint { name: "tools".to_owned(), url: "http://127.0.0.1:1/".to_owned(), headers };
        let params = InitializeParams { tools_server: Some(server), ..InitializeParams::default() };
        assert_eq!(generated_secrets(&params, Some("canary-2")), ["Bearer canary-1", "canary-1", "canary-2"]);
        assert!(generated_secrets(&InitializeParams::default(), None).is_empty());
    }

    #[test]
    fn errors_of_remote_agents_name_no_executable() {
        let texts = [
            (
                "the agent refuses `initialize`; check that `executable` names an agent that speaks ACP, or set `dialect` to \"auto\" if it \
                 speaks Wire\nit says: no",
                "the agent refuses `initialize`; check that the address in `place` is that of an agent that speaks ACP\nit says: no",
            ),
            (
                "check that it is logged in, and that `executable` has the arguments that it needs to speak the protocol",
                "check that it is logged in, and that the address in `place` is that of an agent of ACP",
            ),
        ];
        for (text, expected) in texts {
            assert_eq!(of_remote(Error::Handshake(text.to_owned())).to_string(), expected);
            assert_eq!(of_remote(Error::Timeout(text.to_owned().into())).to_string(), expected);
        }
    }

    #[test]
    fn server_secret_is_shared() {
        let (first, second) = (Processes::of_agent(Duration::ZERO), Processes::of_agent(Duration::ZERO));
        assert_eq!((first.server_secret().len(), first.server_secret()), (64, first.server_secret()));
        assert_ne!(first.server_secret(), second.server_secret());
        assert!(!format!("{first:?}").contains(first.server_secret()));
    }

    #[test]
    fn intern_equal_handshakes_shares_one() {
        let last = Mutex::new(Weak::new());
        let hears =
            |version: &str| intern(&last, Handshake { protocol_version: version.to_owned(), ..Handshake::default() });
        let (first, same, other) = (hears("1.10"), hears("1.10"), hears("1.9"));
        assert!(Arc::ptr_eq(&first, &same));
        assert_eq!((&*first.protocol_version, &*other.protocol_version), ("1.10", "1.9"));
        drop((first, same, other));
        assert!(last.lock().unwrap().upgrade().is_none(), "kept for nobody");
    }
}
