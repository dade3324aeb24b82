//! The scripted agent as a process: its options, its loop and its state.

use std::collections::{HashMap, HashSet, VecDeque};
use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cut::{self, At};
use super::history::last_session;
use super::io::{Gone, Input, Io};
use super::script::{Action, Cut, Script, Turn};
use super::server::Server;
use super::template::{at, fill, fill_all};
use super::types::{Failure, Incoming, Outcome};
use crate::messages::Content;

/// How much output is collected before it is written during a turn.
const BULK_BYTES: usize = 1 << 20;

/// Why the agent stops its current action.
pub(crate) enum Stop {
    /// The client cancelled the turn.
    Cancelled,
    /// The user rejected something without feedback.
    Rejected,
    /// The limit of steps is reached.
    MaxSteps,
    /// The process ends.
    Exit(i32),
    /// The client has closed its end.
    Gone,
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// The cut of a script until it is reached, shared by the agents of one process.
pub(crate) type SharedCut = Arc<Mutex<Option<Cut>>>;

pub(crate) type Flow<T = ()> = Result<T, Stop>;
pub(crate) type Answer = Result<Value, Failure>;

/// The options of the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) argv: Vec<String>,
    pub(crate) work_dir: Option<PathBuf>,
    pub(crate) session: Option<String>,
    pub(crate) resume_last: bool,
    pub(crate) yolo: bool,
    pub(crate) max_steps: Option<i64>,
}

pub(crate) struct Agent {
    pub(crate) server: Server,
    pub(crate) io: Io,
    pub(crate) options: Options,
    pub(crate) work_dir: PathBuf,
    pub(crate) session: String,
    session_file: Option<PathBuf>,
    cut: SharedCut,
    /// Methods whose calls are ignored.
    deaf_to: Vec<String>,
    /// The ids of the last calls, by method.
    ids: HashMap<String, String>,
    /// Actions whose output is written only when they are done.
    pub(crate) bulk: usize,
    pub(crate) ignore_eof: bool,
    /// Nothing is read before it is set, so the output of actions before the handshake comes before the handshake's
    /// answer.
    reads: bool,
    /// Whether nothing is read while a turn runs.
    half_duplex: bool,
    /// Prompts that arrived while the actions after a turn were running.
    prompts: VecDeque<Content>,
    /// The user's messages during the turn that no step has used yet.
    pub(crate) steers: VecDeque<Content>,
    /// The number of steers that no `wait_steer` has waited for.
    pub(crate) steers_unawaited: usize,
    /// Answers that no action has waited for yet.
    pub(crate) answers: HashMap<String, Answer>,
    /// Actions that were approved for the session.
    pub(crate) approved: HashSet<String>,
    /// Approval requests without an answer.
    pub(crate) asking: Vec<String>,
    /// The decision of an explicit `PreToolUse` hook for the next tool call: the reason if it blocked.
    pub(crate) pre_tool_use: Option<Option<String>>,
    /// The last answer, and other values for templates.
    pub(crate) last: Value,
    pub(crate) prompt: String,
    pub(crate) steer: String,
    pub(crate) rounds: Vec<i64>,
    /// Whether a turn of the script runs. The script can have more actions after the turn's end.
    pub(crate) in_turn: bool,
    pub(crate) cancelled: bool,
    pub(crate) step: i64,
    pub(crate) step_is_open: bool,
    pub(crate) tool_calls: u64,
}

impl Options {
    pub(crate) fn parse(arguments: Vec<String>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let mut value = || value.clone().or_else(|| rest.next().cloned()).unwrap_or_default();
            match name {
                "--work-dir" | "-w" => options.work_dir = Some(value().into()),
                "--session" | "-S" | "--resume" | "-r" => options.session = Some(value()),
                "--continue" | "-C" => options.resume_last = true,
                "--yolo" | "--yes" | "-y" | "--auto-approve" => options.yolo = true,
                "--max-steps-per-turn" => {
                    let text = value();
                    let steps = text.parse().map_err(|_| format!("--max-steps-per-turn: \"{text}\" is no number"))?;
                    options.max_steps = Some(steps);
                }
                _ => {}
            }
        }
        options.argv = arguments;
        match &options.work_dir {
            Some(dir) if !dir.is_dir() => Err(format!("--work-dir: there is no directory {}", dir.display())),
            _ => Ok(options),
        }
    }
}

impl Agent {
    pub(crate) fn new(script: &Script, mut options: Options, io: Io) -> Self {
        if script.profile.acp && options.max_steps.is_none() {
            let steps = env::var("KIMI_LOOP_MAX_STEPS_PER_TURN").ok();
            options.max_steps = steps.and_then(|steps| steps.parse().ok());
        }
        let work_dir = options.work_dir.clone().or_else(|| env::current_dir().ok()).unwrap_or_default();
        let session_file = script.session_file.as_ref().map(|path| work_dir.join(path));
        let stored = session_file.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let last = options.resume_last.then(|| last_session(&stored)).flatten();
        let session = options.session.clone().or(last).unwrap_or_else(new_id);
        let mut options = options;
        let limit = env::var("KIMI_LOOP_MAX_STEPS_PER_TURN").ok().and_then(|steps| steps.parse().ok());
        if script.profile.web {
            options.max_steps = limit;
        }
        let mut server = Server::new(script.profile.clone());
        server.history.load(&session, &stored);
        Self {
            server,
            io,
            options,
            work_dir,
            session,
            session_file,
            cut: Arc::new(Mutex::new(script.cut.clone())),
            deaf_to: script.deaf_to.clone(),
            ids: HashMap::new(),
            bulk: 0,
            ignore_eof: false,
            reads: false,
            half_duplex: script.half_duplex,
            prompts: VecDeque::new(),
            steers: VecDeque::new(),
            steers_unawaited: 0,
            answers: HashMap::new(),
            approved: HashSet::new(),
            asking: Vec::new(),
            pre_tool_use: None,
            last: Value::Null,
            prompt: String::new(),
            steer: String::new(),
            rounds: Vec::new(),
            in_turn: false,
            cancelled: false,
            step: 0,
            step_is_open: false,
            tool_calls: 0,
        }
    }

    pub(crate) fn cut(&self) -> SharedCut {
        self.cut.clone()
    }

    /// Shares the script's `cut` with the other agents of the process.
    pub(crate) fn share_cut(&mut self, cut: SharedCut) {
        self.cut = cut;
    }

    fn cut_of_all(&self) -> MutexGuard<'_, Option<Cut>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the actions before the handshake, and no others. Returns the exit code if the script ends the process.
    #[cfg(feature = "web")]
    pub(crate) fn run_before(mut self, before_handshake: &[Action]) -> Option<i32> {
        let outcome = self.actions(before_handshake);
        let _ = self.flush();
        match outcome {
            Err(Stop::Exit(code)) => Some(code),
            _ => None,
        }
    }

    /// Runs until the client has closed its end, or until the script ends the process. Returns the exit code.
    pub(crate) fn run(mut self, before_handshake: &[Action], turns: Vec<Turn>) -> Option<i32> {
        let mut turns = turns.into_iter();
        let mut run = || -> Flow {
            self.actions(before_handshake)?;
            self.reads = true;
            loop {
                let prompt = self.next_prompt()?;
                self.turn(prompt, turns.next().unwrap_or_else(Turn::exhausted))?;
                self.store();
            }
        };
        let outcome = run();
        let _ = self.flush();
        self.store();
        match outcome {
            Err(Stop::Exit(code)) => Some(code),
            _ => None,
        }
    }

    fn next_prompt(&mut self) -> Flow<Content> {
        loop {
            if let Some(prompt) = self.prompts.pop_front().or_else(|| self.server.web.take_next()) {
                return Ok(prompt);
            }
            self.wait(None)?;
        }
    }

    /// Waits until the client answers a request, or until `until`. Handles the other messages that arrive.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> Flow<Option<String>> {
        loop {
            self.flush()?;
            if !self.reads && until.is_some() {
                sleep_until(until);
                return Ok(None);
            }
            if self.half_duplex && self.in_turn {
                sleep_until(until);
                return Ok(None);
            }
            let line = match self.io.read(until) {
                Input::Line(line) => line,
                Input::Nothing => return Ok(None),
                Input::Eof if self.ignore_eof => {
                    sleep_until(until);
                    return Ok(None);
                }
                Input::Eof => {
                    // Waiting callers get no answer, because the process ends here.
                    self.server.hang_up();
                    return Err(Stop::Gone);
                }
            };
            if !self.hears(&line)? {
                continue;
            }
            let incoming = self.server.receive(&line);
            self.follow_session();
            match incoming {
                None => {}
                // The caller of a wait without an answer is the loop that takes prompts.
                Some(Incoming::Prompt(prompt)) => {
                    self.prompts.push_back(prompt);
                    if until.is_none() {
                        return Ok(None);
                    }
                }
                // The message is for a prompt that has not begun.
                Some(Incoming::Cancel) if !self.in_turn => {
                    self.prompts.pop_back();
                    self.server.finish(Outcome::Cancelled);
                }
                Some(Incoming::Cancel) if self.cancelled => {}
                Some(Incoming::Cancel) => return Err(Stop::Cancelled),
                Some(Incoming::Steer(content)) => {
                    self.steer = content.text();
                    self.steers.push_back(content);
                    self.steers_unawaited += 1;
                    if until.is_none() {
                        return Ok(None);
                    }
                }
                Some(Incoming::Answer(id, answer)) => {
                    self.answers.insert(id.clone(), answer);
                    return Ok(Some(id));
                }
            }
        }
    }

    /// Handles a call that has arrived. The script may stop the agent there, or ignore the call.
    fn hears(&mut self, line: &[u8]) -> Flow<bool> {
        let Some((method, id)) = cut::call(line) else { return Ok(true) };
        let deaf = self.deaf_to.contains(&method);
        self.ids.insert(method.clone(), id);
        let opens = match self.server.profile().web {
            true => self.server.web.session().is_none(),
            false => self.server.profile().acp && matches!(&*method, "new" | "resume" | "load" | "fork"),
        };
        if opens {
            self.remember(line);
        }
        let cut = self.cut_of_all().take_if(|cut| cut.at == At::Call(method));
        if let Some(cut) = cut {
            self.actions(&cut.actions)?;
        }
        Ok(!deaf)
    }

    /// ACP sends in a call what other dialects have on the command line.
    fn follow_session(&mut self) {
        if let Some((session, work_dir, yolo)) = self.server.session() {
            session.clone_into(&mut self.session);
            self.work_dir = work_dir.into();
            self.options.yolo = yolo;
        }
    }

    /// Called before a session is opened. Sets the session's directory, and loads its history.
    fn remember(&mut self, line: &[u8]) {
        let call: Value = serde_json::from_slice(line).unwrap_or_default();
        let params = &call["params"];
        let work_dir = params["cwd"].as_str().or_else(|| params["metadata"]["cwd"].as_str());
        let Some(file) = &self.session_file else { return };
        // A call of the web API that resumes a session does not name a directory.
        let file = Path::new(work_dir.unwrap_or_default()).join(file);
        let stored = fs::read_to_string(&file).unwrap_or_default();
        if self.server.profile().web {
            self.server.web.remember(stored);
        } else if work_dir.is_some() {
            self.server.acp.remember(stored);
        } else {
            return;
        }
        self.session_file = Some(file);
    }

    /// Handles the messages that have arrived.
    pub(crate) fn listen(&mut self) -> Flow {
        self.pause(Duration::ZERO)
    }

    /// Waits for this time, and handles messages that arrive meanwhile.
    pub(crate) fn pause(&mut self, time: Duration) -> Flow {
        let until = Instant::now().checked_add(time);
        while self.wait(until)?.is_some() {}
        Ok(())
    }

    /// Writes the collected output.
    pub(crate) fn flush(&mut self) -> Flow {
        let mut output = self.server.take_output();
        if output.is_empty() {
            return Ok(());
        }
        let place = self.cut_of_all().as_mut().and_then(|cut| cut.at.place(&output));
        if let Some(place) = place {
            let cut = self.cut_of_all().take();
            let rest = output.split_off(place);
            self.io.write(&output)?;
            self.actions(cut.as_ref().map_or(&[], |cut| &cut.actions))?;
            output = rest;
        }
        Ok(self.io.write(&output)?)
    }

    /// Called after each message. Writes it, unless the output is collected, and handles messages that have arrived.
    pub(crate) fn sent(&mut self) -> Flow {
        if self.bulk > 0 && self.server.output_len() < BULK_BYTES { Ok(()) } else { self.listen() }
    }

    fn store(&mut self) {
        let lines = self.server.history.take_unstored(&self.session);
        if let Some(path) = self.session_file.as_ref().filter(|_| !lines.is_empty()) {
            let file = fs::OpenOptions::new().create(true).append(true).open(path);
            if let Err(error) = file.and_then(|mut file| file.write_all(lines.as_bytes())) {
                self.complain(&format!("session file {}: {error}", path.display()));
            }
        }
    }

    pub(crate) fn complain(&self, what: &str) {
        let _ = io::stderr().write_all(format!("kimi-scripted-agent: {what}\n").as_bytes());
    }

    /// Returns a path in the working directory.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.work_dir.join(Path::new(path))
    }

    /// Fills the templates in a text.
    pub(crate) fn fill(&self, text: &str) -> String {
        fill(text, &|name| self.look_up(name)).into_owned()
    }

    /// Fills the templates in all texts of a value.
    pub(crate) fn filled(&self, value: &Value) -> Value {
        let mut value = value.clone();
        fill_all(&mut value, &|name| self.look_up(name));
        value
    }

    fn look_up(&self, name: &str) -> Option<String> {
        let (root, path) = name.split_once('.').unwrap_or((name, ""));
        Some(match root {
            "prompt" => self.prompt.clone(),
            "steer" => self.steer.clone(),
            "opening" => at(&self.server.acp.opened_with, path).unwrap_or_default(),
            "session" => self.session.clone(),
            "work_dir" => self.work_dir.display().to_string(),
            "round" => self.rounds.last().map(i64::to_string).unwrap_or_default(),
            "seq" => self.server.web.seq().to_string(),
            "prompt_id" => self.server.web.prompt_id().unwrap_or_default().to_owned(),
            "unasked" => self.server.unasked_answers().to_string(),
            "argv" => at(&json!(self.options.argv), path).unwrap_or_default(),
            "last" => at(&self.last, path).unwrap_or_default(),
            "env" => env::var(path).unwrap_or_default(),
            "id" => self.ids.get(path).cloned().unwrap_or_default(),
            _ => return None,
        })
    }
}

pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Waits. Without a limit it waits forever, because nothing more can arrive.
pub(crate) fn sleep_until(until: Option<Instant>) {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match left {
            Some(left) if left.is_zero() => return,
            _ => std::thread::sleep(left.unwrap_or(Duration::from_secs(60))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        Options::parse(arguments.iter().map(|argument| (*argument).to_owned()).collect())
    }

    #[test]
    fn flags_are_parsed_in_both_spellings() {
        let options =
            parse(&["--wire", "--session=s", "--model", "m", "--max-steps-per-turn", "3", "--yolo", "--new=1"]);
        let options = options.expect("fine");
        assert_eq!((options.session.as_deref(), options.max_steps, options.yolo), (Some("s"), Some(3), true));
        assert_eq!(options.argv.len(), 8);
        assert!(!parse(&["--thinking"]).expect("fine").yolo);
    }

    #[test]
    fn impossible_arguments_are_named() {
        assert!(parse(&["--work-dir=/no/such/dir"]).expect_err("wrong").contains("/no/such/dir"));
        assert!(parse(&["--max-steps-per-turn=x"]).expect_err("wrong").contains("--max-steps-per-turn"));
    }
}
