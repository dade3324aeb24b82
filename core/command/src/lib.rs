//! The command `kimi-agent`, which the Python and the Node package install, too.

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod inspect;
mod page;
mod summary;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

/// The exit code of a command that failed.
const FAILED: i32 = 1;

/// Shows recordings of coding agents such as Kimi Code.
#[derive(Debug, Parser)]
#[command(name = "kimi-agent", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 the command succeeded, 1 it failed, 2 its arguments are wrong.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a page of HTML that shows recordings.
    ///
    /// The page is one file. It needs no server and no network, and opens in every browser. With several recordings it
    /// has an index, and compares two of them.
    ///
    /// The option `record` of a session, or the variable KIMI_AGENT_RECORD, makes recordings.
    Inspect {
        /// The recordings.
        #[arg(required = true, value_name = "RECORDING")]
        recordings: Vec<PathBuf>,
        /// The file to write; `-` is the standard output. Default: the name of the first recording, with `.html`.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Writes a summary as JSON instead, by default to the standard output.
        #[arg(long)]
        json: bool,
    },
    /// Writes the completions for a shell.
    ///
    /// For example: kimi-agent completions bash > ~/.local/share/bash-completion/completions/kimi-agent
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Runs the command with these arguments, of which the first is the name of the program. Returns the exit code: 0 if it
/// succeeded, 1 if it failed, 2 for wrong arguments.
///
/// # Examples
/// ```
/// assert_eq!(kimi_agent_command::main(["kimi-agent", "inspect", "/no/such/run.jsonl"]), 1);
/// ```
pub fn main(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> i32 {
    let command = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments.command,
        Err(error) => {
            // A closed output is no reason to fail.
            error.print().ok();
            return error.exit_code();
        }
    };
    match run(command) {
        Ok(()) => 0,
        Err(Failure::Closed) => 0,
        Err(Failure::Because(reason)) => {
            writeln!(io::stderr(), "kimi-agent: {reason}").ok();
            FAILED
        }
    }
}

/// Why a command ended early.
#[derive(Debug)]
enum Failure {
    /// The reader of the output needs no more, as `head` does.
    Closed,
    Because(String),
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Inspect { recordings, output, json } => inspect::run(&recordings, output, json),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "kimi-agent", &mut script);
            write_out(&script)
        }
    }
}

/// Writes to the standard output.
fn write_out(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::Because(format!("the standard output cannot be written: {error}")),
    })
}
