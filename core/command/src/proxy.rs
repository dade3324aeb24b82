//! `kimi-agent proxy`: a guard between an editor and an ACP agent.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use kimi_agent_client::Enforce;
use kimi_agent_policy::Policy;
use kimi_agent_protocol::printable::printable_line;
use kimi_agent_proxy::{ProxyOptions, proxy};

use crate::exit;
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::session_arguments::budget;

/// The arguments of commands with an agent behind the guard.
#[derive(Args, Debug)]
pub(crate) struct GuardArguments {
    /// Rules that decide about tool calls: a file of TOML or JSON, or the name of a preset.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The calls that the policy must see: approvals or calls. With calls, a call without a request that the policy does not
    /// allow cancels the turn.
    #[arg(long, value_name = "CALLS", value_parser = ["approvals", "calls"])]
    enforce: Option<String>,
    /// A limit of each session: tokens, output-tokens, steps, tool-calls, seconds or usd. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    budget: Vec<String>,
    /// A limit of each turn. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    turn_budget: Vec<String>,
    /// A limit of all sessions of a day, in all guards of this user that have one. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    day_budget: Vec<String>,
    /// Records each session into a new file of this directory. Default: $KIMI_AGENT_RECORD.
    #[arg(long, value_name = "DIRECTORY")]
    record: Option<PathBuf>,
    /// A regular expression of secrets that recordings show as ***. Can be repeated.
    #[arg(long, value_name = "PATTERN")]
    redact: Vec<String>,
    /// The directory that the agent is started in. Default: the current directory.
    #[arg(short = 'C', long, value_name = "DIRECTORY")]
    work_dir: Option<PathBuf>,
    /// The place of the agent: sandbox, container:IMAGE, ssh:HOST or ssh:HOST:/DIRECTORY. Default: on this machine.
    ///
    /// In a container the working directory is /work. On another machine it has the same path, or is DIRECTORY. Paths in messages
    /// are translated.
    #[arg(long, value_name = "PLACE")]
    place: Option<String>,
    /// Exports spans and metrics of the sessions over OTLP, as the variables OTEL_… say. Only in builds with the feature otel.
    #[arg(long)]
    otel: bool,
    /// The agent: a program and its arguments.
    #[arg(required = true, last = true, value_name = "AGENT")]
    agent: Vec<String>,
}

impl GuardArguments {
    /// Returns the options of the guard.
    ///
    /// # Errors
    /// A value that is not what its option expects.
    pub(crate) fn options(&self) -> Result<ProxyOptions, Failure> {
        let mut options = ProxyOptions::new(self.agent.clone()).with_user_settings().redact(&self.redact);
        if let Some(path) = &self.policy {
            let policy =
                Policy::named_os(path).map_err(|error| Failure::wrong("--policy", crate::policy::reason(error)))?;
            options = options.policy(policy);
        }
        options = match self.enforce.as_deref() {
            Some("calls") => options.enforce(Enforce::Calls),
            Some(_) => options.enforce(Enforce::Approvals),
            None => options,
        };
        if let Some(budget) = budget("--budget", &self.budget)? {
            options = options.session_budget(budget);
        }
        if let Some(budget) = budget("--turn-budget", &self.turn_budget)? {
            options = options.turn_budget(budget);
        }
        if let Some(budget) = budget("--day-budget", &self.day_budget)? {
            options = options.day_budget(budget);
        }
        if let Some(directory) = &self.record {
            options = options.record_to(directory);
        }
        if let Some(work_dir) = &self.work_dir {
            options = options.work_dir(work_dir);
        }
        if let Some(place) = &self.place {
            options = options.place_named(place)?;
        }
        if self.otel {
            options = crate::otel::export(options)?;
        }
        Ok(options.on_stderr(|line| {
            // An editor shows it in its log. Nobody may read it.
            writeln!(std::io::stderr(), "{}", printable_line(line)).ok();
        }))
    }
}

/// Runs the proxy until the editor or the agent ends.
pub(crate) async fn run(arguments: GuardArguments) -> Result<i32, Failure> {
    let mut interrupts = Interrupts::new()?;
    let options = arguments.options()?;
    tokio::select! {
        biased;
        // The agent ends with the future.
        () = interrupts.next() => Err(Failure::Cancelled),
        ended = proxy(tokio::io::stdin(), tokio::io::stdout(), options) => ended.map(|()| exit::SUCCEEDED).map_err(Failure::from),
    }
}
