//! The command as a child process, and scripted agents for it.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use kimi_agent_client::testing::{ScriptedAgent, scripted_agent};
use serde_json::Value;

/// The outcome of the command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The lines of the standard output, as JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub(crate) fn agent(script: Value) -> ScriptedAgent {
    scripted_agent(script)
}

/// The command, with this scripted agent and without the variables of this process that change it.
pub(crate) fn command(agent: Option<&ScriptedAgent>, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kimi-agent"));
    command.env_remove("KIMI_AGENT_RECORD").env_remove("KIMI_AGENT_EXECUTABLE");
    let (name, rest) = arguments.split_first().unwrap();
    command.arg(name);
    for word in agent.map_or(&[][..], |agent| agent) {
        command.args([OsStr::new("-x"), word]);
    }
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command.
pub(crate) fn ran(agent: &ScriptedAgent, arguments: &[&str]) -> Ran {
    ended(command(Some(agent), arguments).spawn().unwrap())
}

/// Runs the command with this standard input.
pub(crate) fn ran_with(agent: &ScriptedAgent, input: &str, arguments: &[&str]) -> Ran {
    let mut child = command(Some(agent), arguments).stdin(Stdio::piped()).spawn().unwrap();
    // A command that refuses its arguments exits without reading.
    match child.stdin.take().unwrap().write_all(input.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("{error}"),
        _ => {}
    }
    ended(child)
}

pub(crate) fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}
