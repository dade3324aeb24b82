//! The command `kimi-agent`, which the Python and the Node package install, too.

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod atif;
mod batch;
mod console;
mod doctor;
mod exit;
mod failure;
mod help;
mod inspect;
mod interrupts;
mod login;
mod mcp;
mod otel;
mod page;
mod policy;
mod proxy;
mod run;
mod serve;
mod session_arguments;
mod spelling;
mod summary;
#[cfg(test)]
mod tests;
mod verify;
mod words;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use kimi_agent_protocol::printable::printable_line;

use failure::Failure;

/// Runs coding agents such as Kimi Code, checks them, and shows recordings of them.
#[derive(Debug, Parser)]
#[command(name = "kimi-agent", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs one prompt with an agent.
    ///
    /// The text of the answer is printed as it comes. Tool calls, decisions and notes are on the standard error, in one
    /// line each. The policy decides about actions that need approval, then the person at the terminal. Without a
    /// terminal, such an action is rejected.
    ///
    /// Ctrl-C cancels the turn. A second Ctrl-C ends the agent immediately.
    Run(Box<run::RunArguments>),
    /// Runs many prompts, several concurrently.
    ///
    /// Each job is a prompt in a session of its own. Each result is written as a line of JSON when its job has ended. With
    /// a journal, a batch that was interrupted can be started again, and runs only the jobs without a result.
    ///
    /// The policy decides about actions that need approval. An action without a rule is rejected.
    ///
    /// Ctrl-C cancels the running jobs, and writes their results. A second Ctrl-C ends the agents immediately. SIGTERM and
    /// SIGHUP do the same as Ctrl-C.
    Batch(Box<batch::BatchArguments>),
    /// Makes the report of a batch: a page of HTML.
    ///
    /// It reads the journal that `kimi-agent batch --journal` wrote, or the option `journal` of a batch in any language. The
    /// batch may still run. The page has no scripts, and links to a page of the inspector for each recording.
    Report(batch::ReportArguments),
    /// Shows which agents are installed, and what works with them.
    ///
    /// Each agent is started and opens a session in a temporary directory. Nothing is sent to a model, so this costs no
    /// tokens. Keys are not shown.
    Doctor(doctor::DoctorArguments),
    /// Logs in to an agent, with the agent's own login in this terminal.
    ///
    /// For most agents this is a command of their own. Other agents of ACP name the ways to log in when they start. Keys are not
    /// read or stored by this command.
    Login(login::LoginArguments),
    /// Checks whether an agent still behaves as recorded.
    ///
    /// The agent gets the recorded prompts. Its requests for approval, its questions and its calls of external tools
    /// are answered as in the recording. Then the status, the tool calls, the requests and the kinds of events of each turn
    /// are compared. Models vary, so the texts are compared only with --text.
    ///
    /// The agent is that of --executable. With --trust, it is the command that the recording names. The agent works in the
    /// current directory, or in --work-dir, and can change files there.
    Verify(Box<verify::VerifyArguments>),
    /// Makes a page of HTML that shows recordings.
    ///
    /// The page is one file. It needs no server and no network, and opens in every browser. With several recordings it
    /// has an index, and compares two of them.
    ///
    /// The option `record` of a session, or the variable KIMI_AGENT_RECORD, makes recordings.
    Inspect {
        /// The recordings, or folders of recordings.
        #[arg(required = true, value_name = "RECORDING")]
        recordings: Vec<PathBuf>,
        /// The file to write; `-` is the standard output. Default: the name of the first recording or folder, with `.html`.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Writes a summary as JSON instead, by default to the standard output.
        #[arg(long)]
        json: bool,
        /// Writes the trajectory in the format ATIF 1.8 of Harbor instead, by default to the standard output.
        ///
        /// One recording is one trajectory. With several recordings, each trajectory is one line.
        #[arg(long, conflicts_with = "json")]
        atif: bool,
    },
    /// Guards an agent of an editor: a policy, budgets and recordings, between the editor and an ACP agent.
    ///
    /// Set this command as the agent of an editor, with the command of the agent after `--`. The policy decides about permission
    /// requests, and about files and terminals that the agent uses through the editor. A denied request is answered, and the
    /// conversation shows the reason. What the policy asks about is asked in the editor.
    ///
    /// ~/.config/kimi-agent/settings.toml has defaults. The file .kimi-agent.toml in the directory of a session can be stricter
    /// only.
    Proxy(Box<proxy::GuardArguments>),
    /// Serves an agent on an address, over WebSocket and HTTP.
    ///
    /// Clients speak ACP, as its transport proposal says. Each client has an agent of its own, which ends with the client. The
    /// options are those of `proxy`: the policy decides, budgets hold, and sessions are recorded.
    ///
    /// The URL is printed on the standard output. Without a token, only programs of this machine can be clients. Pages of the web
    /// are refused. There is no encryption: use a tunnel or a server with TLS in front of it.
    ///
    /// Ctrl-C ends the agents. A second Ctrl-C ends them immediately. SIGTERM and SIGHUP do the same as Ctrl-C.
    Serve(Box<serve::ServeArguments>),
    /// Serves agents as tools of MCP, so that one agent can call another.
    ///
    /// Set this command as an MCP server of an agent or of another client. The tools are `run`, `continue`, `cancel` and `diff`. The
    /// policy decides about actions that need approval. An action without a rule is rejected.
    Mcp(Box<mcp::McpArguments>),
    /// Shows what a policy decides, and what its rules are.
    Policy {
        /// What to show.
        #[command(subcommand)]
        command: policy::PolicyCommand,
    },
    /// Writes the completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Runs the command with these arguments, of which the first is the name of the program. Returns the exit code, for
/// example 0 if it succeeded, 1 if it failed, 2 for wrong arguments.
///
/// # Examples
/// ```
/// assert_eq!(kimi_agent_command::main(["kimi-agent", "inspect", "/no/such/run.jsonl"]), 1);
/// ```
pub fn main(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> i32 {
    // Of a program that embeds the command, such as Python, the first file that is opened would get their descriptors.
    if kimi_agent_files::open_standard_descriptors() {
        IS_STDOUT_CLOSED.store(true, Ordering::Relaxed);
    }
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let parsed = help::command().try_get_matches_from(&arguments);
    let outcome = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => run(arguments.command),
        Err(error) if error.use_stderr() => {
            // A closed standard error cannot show the error, and the exit code stays.
            let code = error.exit_code();
            printable_error(&error, &arguments).print().ok();
            return code;
        }
        Err(page) => write_out(page.render().to_string().as_bytes()).map(|()| exit::SUCCEEDED),
    };
    let (code, reason) = match outcome {
        Ok(code) => (code, None),
        Err(failure) => (failure.exit_code(), failure.reason()),
    };
    if let Some(reason) = reason {
        writeln!(io::stderr(), "kimi-agent: {reason}").ok();
    }
    code
}

/// Returns an error of arguments without characters that control a terminal: that of the same arguments with escapes. The
/// name of a file can be an argument, for example by `*`.
fn printable_error(error: &clap::Error, arguments: &[OsString]) -> clap::Error {
    let shown = arguments.iter().map(|argument| printable_line(&argument.to_string_lossy()).into_owned());
    match help::command().try_get_matches_from(shown).and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Err(shown) if shown.use_stderr() => shown,
        _ => clap::Error::new(error.kind()).with_cmd(&help::command()),
    }
}

fn run(command: Command) -> Result<i32, Failure> {
    match command {
        Command::Run(arguments) => waited(Box::pin(run::run(*arguments))),
        Command::Batch(arguments) => waited(Box::pin(batch::run(*arguments))),
        Command::Report(arguments) => batch::report(arguments).map(|()| exit::SUCCEEDED),
        Command::Verify(arguments) => waited(Box::pin(verify::run(*arguments))),
        Command::Doctor(arguments) => waited(Box::pin(doctor::run(arguments))),
        Command::Login(arguments) => waited(Box::pin(login::run(arguments))),
        Command::Inspect { recordings, output, json, atif } => {
            let form = match (json, atif) {
                (true, _) => inspect::Form::Summary,
                (_, true) => inspect::Form::Trajectory,
                _ => inspect::Form::Page,
            };
            inspect::run(&recordings, output, form).map(|()| exit::SUCCEEDED)
        }
        Command::Proxy(arguments) => waited(Box::pin(proxy::run(*arguments))),
        Command::Serve(arguments) => waited(Box::pin(serve::run(*arguments))),
        Command::Mcp(arguments) => waited(Box::pin(mcp::run(*arguments))),
        Command::Policy { command } => policy::run(command),
        Command::Completions { shell } => write_out(completions(shell).as_bytes()).map(|()| exit::SUCCEEDED),
    }
}

/// Returns the completions for a shell.
fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut help::command(), "kimi-agent", &mut script);
    // clap_complete 4.6 gives the states of bash two names if the name of the program has a hyphen (clap-rs/clap#6421).
    String::from_utf8_lossy(&script).replace("kimi__subcmd__agent", "kimi__agent")
}

/// Runs a command that needs a runtime. On one thread, what happens after an event is shown after the event.
fn waited(command: Pin<Box<dyn Future<Output = Result<i32, Failure>>>>) -> Result<i32, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Because(format!("the runtime cannot be started: {error}")))?;
    let outcome = runtime.block_on(command);
    // A thread may still wait for the system.
    runtime.shutdown_background();
    otel::end();
    outcome
}

/// Writes the path of an output to the standard output. A terminal gets it with escapes, a program as it is.
fn write_path(path: &Path) -> Result<(), Failure> {
    let path = path.display().to_string();
    let shown = if io::stdout().is_terminal() { printable_line(&path) } else { path.as_str().into() };
    write_out(format!("{shown}\n").as_bytes())
}

/// Writes to the standard output.
fn write_out(bytes: &[u8]) -> Result<(), Failure> {
    write_stdout(bytes).map_err(|error| Failure::unwritten(&error))
}

/// Whether the standard output was closed when the command began. Its descriptor then leads to no file.
static IS_STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    if IS_STDOUT_CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::other("it is closed"));
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
