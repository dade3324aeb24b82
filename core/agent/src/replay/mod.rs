//! The agent of a recording, as a process: `--play-recording PATH [--cassette] [--verify | --stub] [--report=FILE]`.
//!
//! | file | |
//! | --- | --- |
//! | `plan` | a recording as a list of steps |
//! | `player` | the agent, without I/O |
//! | `stub` | results of tools of the program that replace the recorded ones |
//! | `places` | the redactor for the directories of the machine |
//! | `mcp` | calls of tools of the program over MCP |

mod mcp;
mod places;
mod plan;
mod player;
mod stub;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{env, fs, thread};

use kimi_agent_files::known_folders;
use kimi_agent_protocol::recording::{Places, Recording};
use kimi_agent_protocol::spelling::nearest;
use serde_json::Value;

use super::io::{Io, read_standard};
use super::release::is_known_flag;
use super::turn::raise;
use mcp::{Line, ToolsServer};
use plan::{Exit, Plan};
use player::{Action, Mode, Player, ToolAnswer};

/// The exit code for a recording that cannot be played.
const UNUSABLE: i32 = 2;
const MISSING: &str = "--play-recording: a path is missing";
/// The arguments of this agent after the path.
const FLAGS: [&str; 3] = ["--verify", "--stub", "--report"];
/// The first argument that a program passes to an agent.
const OF_PROGRAM: [&str; 4] = ["--wire", "acp", "--acp", "web"];

/// Plays a recording until the client has closed its end, or the recording ends the process. `arguments` begin with the
/// path. Returns the exit code.
pub(crate) fn main(arguments: &[String]) -> i32 {
    let Some((path, rest)) = arguments.split_first() else {
        return complain(MISSING, UNUSABLE);
    };
    if path.starts_with('-') {
        return complain(&format!("{MISSING} before {path}"), UNUSABLE);
    }
    let mode = match mode(rest) {
        Ok(mode) => mode,
        Err(reason) => return complain(&reason, UNUSABLE),
    };
    let work_dir = rest.iter().find_map(|argument| argument.strip_prefix("--work-dir="));
    let work_dir = work_dir.map(PathBuf::from).or_else(|| env::current_dir().ok()).unwrap_or_default();
    let report = rest.iter().find_map(|argument| argument.strip_prefix("--report=")).map(PathBuf::from);
    match read(path) {
        Ok(plan) => play(Player::new(plan, mode, Places::new(known_folders(&work_dir))).recorded_in(path), report),
        Err(reason) => complain(&format!("the recording {path} cannot be played: {reason}"), UNUSABLE),
    }
}

/// Reads the arguments after the path. Arguments that a program passes to each agent are ignored.
fn mode(arguments: &[String]) -> Result<Mode, String> {
    let end = arguments.iter().position(|argument| OF_PROGRAM.contains(&argument.as_str()));
    let mut mode = Mode::Replay;
    let mut is_value = false;
    for argument in &arguments[..end.unwrap_or(arguments.len())] {
        let is_known = is_known_flag(argument);
        match argument.as_str() {
            "--verify" => mode = Mode::Verify,
            "--stub" => mode = Mode::Stub,
            // For the program, which plays it in one session.
            "--cassette" => {}
            report if report.starts_with("--report=") => {}
            _ if is_known || is_value => {}
            other => {
                let meant = nearest(other, FLAGS.map(|flag| (flag, flag)));
                // Without a mark, it can be an argument of the program for an agent of ACP.
                if end.is_some() || meant.is_some() {
                    let hint = meant.map(|flag| format!("; did you mean {flag}?")).unwrap_or_default();
                    return Err(format!("unknown argument {other} after the path of the recording{hint}"));
                }
            }
        }
        is_value = is_known && !argument.contains('=');
    }
    Ok(mode)
}

fn read(path: &str) -> Result<Plan, String> {
    let text = kimi_agent_files::read_file(Path::new(path)).map_err(|error| error.to_string())?;
    let recording = Recording::read(&String::from_utf8_lossy(&text)).map_err(|error| error.to_string())?;
    Plan::new(recording)
}

/// An event that the player waits for.
enum Event {
    Line(Vec<u8>),
    Eof,
    ToolAnswered(String, ToolAnswer),
}

fn play(player: Player, report: Option<PathBuf>) -> i32 {
    let (sender, events) = channel();
    let lines = sender.clone();
    thread::spawn(move || {
        read_standard(|line| lines.send(Event::Line(line)).is_ok());
        let _ = lines.send(Event::Eof);
    });
    Process { player, report, io: Io::fed().0, events, sender, calls: HashMap::new() }.run()
}

struct Process {
    player: Player,
    /// The file for the difference of the program from the recording.
    report: Option<PathBuf>,
    io: Io,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// The connections of the calls of tools, by their ids.
    calls: HashMap<String, Line>,
}

impl Process {
    fn run(mut self) -> i32 {
        loop {
            if let Some(code) = self.act() {
                return code;
            }
            let event = self.events.recv().unwrap_or(Event::Eof);
            self.receive(event);
        }
    }

    fn receive(&mut self, event: Event) {
        match event {
            Event::Line(line) => self.player.receive(&line),
            Event::ToolAnswered(id, answer) => {
                // The entry keeps the connection of the call open.
                self.calls.remove(&id);
                self.player.tool_answered(id, answer);
            }
            Event::Eof => self.player.end_of_input(),
        }
    }

    /// Performs the actions of the player. Returns the exit code if the process ends.
    fn act(&mut self) -> Option<i32> {
        let mut output = Vec::new();
        while let Some(action) = self.player.poll_action() {
            match action {
                Action::Write(line) => output.extend(line),
                Action::CallTool { id, name, arguments, server } => self.call_tool(id, name, arguments, server),
                Action::WithdrawTool(id) => self.withdraw(&id),
                Action::Complain(text) => self.report(&text),
                Action::Exit(exit) => {
                    let _ = self.io.write(&output);
                    return Some(match exit {
                        Exit::Code(code) => code,
                        Exit::Signal(name) => die(&name),
                    });
                }
            }
        }
        if !output.is_empty() && self.io.write(&output).is_err() {
            // The client reads nothing more. The end of the input follows.
            self.io.close_stdout();
        }
        None
    }

    fn report(&self, text: &str) {
        complain(text, 1);
        if let Some(report) = &self.report
            && let Err(error) = fs::write(report, text)
        {
            complain(&format!("can't write {}: {error}", report.display()), 1);
        }
    }

    fn call_tool(&mut self, id: String, name: String, arguments: Option<Value>, server: ToolsServer) {
        let line = Line::default();
        self.calls.insert(id.clone(), line.clone());
        let sender = self.sender.clone();
        thread::spawn(move || {
            let answer = server.call(&name, arguments, &line);
            let _ = sender.send(Event::ToolAnswered(id, answer));
        });
    }

    fn withdraw(&mut self, id: &str) {
        let Some(line) = self.calls.remove(id) else { return };
        if let Some(stream) = &*line.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Ends this process by a signal, as the recorded agent ended.
fn die(name: &str) -> i32 {
    match super::script::signal_number(name) {
        Some(signal) => {
            raise(signal);
            1
        }
        None => 1,
    }
}

fn complain(text: &str, code: i32) -> i32 {
    let _ = io::stderr().write_all(format!("kimi-scripted-agent: {text}\n").as_bytes());
    code
}
