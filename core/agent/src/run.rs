//! The agent as a process: its command line, its loop, and what it knows while it runs.

use std::collections::{HashMap, HashSet, VecDeque};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cut::{self, At, Cut};
use super::history::last_session;
use super::io::{Gone, Input, Io};
use super::lanes::{self, SharedCut};
use super::release::{is_kimi_code, unknown_flag};
use super::script::{Action, Script, Turn};
use super::server::Server;
use super::template::{at, fill, fill_all};
use super::types::{Failure, Incoming, Outcome};
use crate::wire::Content;

/// What collects before it is written all the same.
const BULK_BYTES: usize = 1 << 20;

const USAGE: &str = "usage: kimi-scripted-agent SCRIPT.json [--wire] [--work-dir=DIR] [--session=ID] [--yolo] \
[--max-steps-per-turn=N] [any option of kimi-cli]

Speaks Wire (or ACP, if the script says so) on standard input and output, and does what the script says: a JSON list of turns, one a prompt, each a
list of actions.

    [
      [
        {\"think\": \"A greeting.\"},
        {\"text\": [\"Hel\", \"lo\"], \"delay_between\": 0.1},
        {\"tool_call\": {\"name\": \"Shell\", \"arguments\": {\"command\": \"ls\"}, \"approve\": true, \"result\": \"a.txt\"}},
        {\"text\": \"You said {{prompt}}, and {{last.response}}.\"},
        {\"usage\": {\"input_other\": 10, \"output\": 2}}
      ],
      [{\"error\": {\"code\": -32003, \"message\": \"the model is down\"}}]
    ]

Actions: text, think, step, tool_call, external_tool, question, parallel, hook, usage, status, event, request, raw,
raw_base64, end, error, never_answer, wait_cancel, wait_steer, wait_file, repeat, stderr, exit, signal, ignore_signal,
close_stdout, ignore_eof, stall; each may have a \"delay\" in seconds before it. The package's documentation on testing
describes them all.
";

const VERSION: &str = concat!("kimi-scripted-agent, version ", env!("CARGO_PKG_VERSION"), "\n");

/// Why the agent stops what it does.
pub(crate) enum Stop {
    /// The client cancelled the turn.
    Cancelled,
    /// The user rejected something, without a word on how to go on.
    Rejected,
    /// One step more would be too many.
    MaxSteps,
    /// The process ends.
    Exit(i32),
    /// The client is gone.
    Gone,
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

pub(crate) type Flow<T = ()> = Result<T, Stop>;
pub(crate) type Answer = Result<Value, Failure>;

/// What the command line says.
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
    /// Methods whose calls are passed over.
    deaf_to: Vec<String>,
    /// The ids of the last calls, by method.
    ids: HashMap<String, String>,
    /// Actions of which nothing is written before they are over.
    pub(crate) bulk: usize,
    pub(crate) ignore_eof: bool,
    /// Before it is set nothing is read, so that what comes before the handshake comes before its answer.
    reads: bool,
    /// Whether nothing is read while a turn runs either.
    half_duplex: bool,
    /// Prompts that came while the actions after a turn were still under way.
    prompts: VecDeque<Content>,
    /// What the user has said while the turn ran, and no step has taken up yet.
    pub(crate) steers: VecDeque<Content>,
    /// How many steers have come that no `wait_steer` has waited for.
    pub(crate) steers_unawaited: usize,
    /// Answers that nobody has waited for yet.
    pub(crate) answers: HashMap<String, Answer>,
    /// Actions that were approved for the session.
    pub(crate) approved: HashSet<String>,
    /// Approval requests without an answer.
    pub(crate) asking: Vec<String>,
    /// What an explicit `PreToolUse` hook decided for the next tool call: the reason if it blocked.
    pub(crate) pre_tool_use: Option<Option<String>>,
    /// The answer of last, and other things that templates speak of.
    pub(crate) last: Value,
    pub(crate) prompt: String,
    pub(crate) steer: String,
    pub(crate) rounds: Vec<i64>,
    /// Whether a turn of the script runs; after its end there may be more to do.
    pub(crate) in_turn: bool,
    pub(crate) cancelled: bool,
    pub(crate) step: i64,
    pub(crate) step_is_open: bool,
    pub(crate) tool_calls: u64,
}

/// Runs the agent with these arguments, the program's name left out; gives its exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    ignore_broken_pipes();
    let mut arguments = arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned());
    let Some(first) = arguments.next() else { return complain(USAGE) };
    let rest: Vec<String> = arguments.collect();
    let asked = rest.iter().any(|argument| argument == "--version");
    if first == "--version" {
        return show(VERSION);
    }
    if first == "--help" || first == "-h" {
        return show(USAGE);
    }
    let script = match fs::read_to_string(&first) {
        Ok(text) => Script::parse(&text),
        Err(error) => Err(format!("can't read it: {error}")),
    };
    if asked {
        let release = script.ok().and_then(|script| script.release);
        return show(&match release {
            None => VERSION.to_owned(),
            Some(release) if is_kimi_code(release) => format!("{release}\n"),
            Some(release) => format!("kimi, version {release}\n"),
        });
    }
    if let Ok(Some(release)) = script.as_ref().map(|script| script.release)
        && let Some(flag) = unknown_flag(release, &rest)
    {
        if is_kimi_code(release) {
            complain(&format!("error: unknown option '{flag}'\n"));
            return 1;
        }
        return complain(&format!("No such option: {flag}\n"));
    }
    let (script, options) = match (script, Options::parse(rest)) {
        (Err(error), _) => return complain(&format!("kimi-scripted-agent: {first}: {error}\n")),
        (_, Err(error)) => return complain(&format!("kimi-scripted-agent: {error}\n")),
        (Ok(script), Ok(options)) => (script, options),
    };
    if script.profile.acp {
        return lanes::run(script, options);
    }
    let agent = Agent::new(&script, options, Io::standard());
    agent.run(&script.before_handshake, script.turns).unwrap_or(0)
}

fn show(text: &str) -> i32 {
    let _ = io::stdout().write_all(text.as_bytes());
    0
}

fn complain(text: &str) -> i32 {
    let _ = io::stderr().write_all(text.as_bytes());
    2
}

/// A client that has gone is no reason to die of a signal, as a process that isn't Rust's own would.
fn ignore_broken_pipes() {
    #[cfg(unix)]
    // SAFETY: sets a disposition, which no other thread relies on.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
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
    pub(crate) fn new(script: &Script, options: Options, io: Io) -> Self {
        let work_dir = options.work_dir.clone().or_else(|| env::current_dir().ok()).unwrap_or_default();
        let session_file = script.session_file.as_ref().map(|path| work_dir.join(path));
        let stored = session_file.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let last = options.resume_last.then(|| last_session(&stored)).flatten();
        let session = options.session.clone().or(last).unwrap_or_else(new_id);
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

    /// Lets it be cut short with others.
    pub(crate) fn share_cut(&mut self, cut: SharedCut) {
        self.cut = cut;
    }

    fn cut_of_all(&self) -> MutexGuard<'_, Option<Cut>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs until the client is gone, or until the script ends the process; gives the exit code then.
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
            if let Some(prompt) = self.prompts.pop_front() {
                return Ok(prompt);
            }
            self.wait(None)?;
        }
    }

    /// Waits for the client to answer something, until `until` or for ever; takes in what it says otherwise.
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
                    // Whoever waits for an answer is not to get one: this is the end.
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
                // The caller of a wait without an answer is the loop over the prompts.
                Some(Incoming::Prompt(prompt)) => {
                    self.prompts.push_back(prompt);
                    if until.is_none() {
                        return Ok(None);
                    }
                }
                // It is for a prompt that waits to be taken up.
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

    /// Notes a call that has come; the script may cut the agent short there, or have it pass the call over.
    fn hears(&mut self, line: &[u8]) -> Flow<bool> {
        let Some((method, id)) = cut::call(line) else { return Ok(true) };
        let deaf = self.deaf_to.contains(&method);
        self.ids.insert(method.clone(), id);
        if self.server.profile().acp && matches!(&*method, "new" | "resume" | "load" | "fork") {
            self.remember(line);
        }
        let cut = self.cut_of_all().take_if(|cut| cut.at == At::Call(method));
        if let Some(cut) = cut {
            self.actions(&cut.actions)?;
        }
        Ok(!deaf)
    }

    /// The Agent Client Protocol says in a call what other dialects say on the command line.
    fn follow_session(&mut self) {
        if let Some((session, work_dir, yolo)) = self.server.acp.session() {
            session.clone_into(&mut self.session);
            self.work_dir = work_dir.into();
            self.options.yolo = yolo;
        }
    }

    /// Before a session is opened: where it is kept, and what there was of it.
    fn remember(&mut self, line: &[u8]) {
        let params = serde_json::from_slice::<Value>(line).ok();
        let work_dir = params.as_ref().and_then(|call| Some(call.get("params")?.get("cwd")?.as_str()?.to_owned()));
        if let (Some(work_dir), Some(file)) = (work_dir, &self.session_file) {
            let file = Path::new(&work_dir).join(file);
            self.server.acp.remember(fs::read_to_string(&file).unwrap_or_default());
            self.session_file = Some(file);
        }
    }

    /// Takes in what the client has said so far.
    pub(crate) fn listen(&mut self) -> Flow {
        self.pause(Duration::ZERO)
    }

    /// Lets time pass.
    pub(crate) fn pause(&mut self, time: Duration) -> Flow {
        let until = Instant::now().checked_add(time);
        while self.wait(until)?.is_some() {}
        Ok(())
    }

    /// Writes what has collected.
    pub(crate) fn flush(&mut self) -> Flow {
        let mut output = self.server.take_output();
        if output.is_empty() {
            return Ok(());
        }
        let place = self.cut_of_all().as_mut().and_then(|cut| cut.place(&output));
        if let Some(place) = place {
            let cut = self.cut_of_all().take();
            let rest = output.split_off(place);
            self.io.write(&output)?;
            self.actions(cut.as_ref().map_or(&[], |cut| &cut.actions))?;
            output = rest;
        }
        Ok(self.io.write(&output)?)
    }

    /// After a message: writes it, unless much is to be written in one piece, and listens.
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
        complain(&format!("kimi-scripted-agent: {what}\n"));
    }

    /// A path in the working directory.
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
            "session" => self.session.clone(),
            "work_dir" => self.work_dir.display().to_string(),
            "round" => self.rounds.last().map(i64::to_string).unwrap_or_default(),
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

/// Waits for ever where there is no end, as nothing can come any more.
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
    fn what_is_used_is_read_in_both_spellings_and_the_rest_is_let_pass() {
        let options =
            parse(&["--wire", "--session=s", "--model", "m", "--max-steps-per-turn", "3", "--yolo", "--new=1"]);
        let options = options.expect("fine");
        assert_eq!((options.session.as_deref(), options.max_steps, options.yolo), (Some("s"), Some(3), true));
        assert_eq!(options.argv.len(), 8);
        assert!(!parse(&["--thinking"]).expect("fine").yolo);
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert!(parse(&["--work-dir=/no/such/dir"]).expect_err("wrong").contains("/no/such/dir"));
        assert!(parse(&["--max-steps-per-turn=x"]).expect_err("wrong").contains("--max-steps-per-turn"));
    }
}
