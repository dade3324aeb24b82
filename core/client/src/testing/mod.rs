//! The scripted agent: it replaces a real agent in tests, without a key and without a network.
//!
//! It is started as a child process, speaks Wire, and follows a script. It reacts to answers: an approved action is
//! executed, a rejected one is not. Use it for tests of programs and for demos.
//!
//! ```
//! use kimi_agent::Session;
//! use kimi_agent::testing::scripted_agent;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> kimi_agent::Result<()> {
//! let agent = scripted_agent(json!([
//!     [{"think": "A greeting."}, {"text": ["Hello, ", "you who said: {{prompt}}"]}],
//!     [{"error": {"code": -32003, "message": "the model is down"}}],
//! ]));
//! let session = Session::builder().executable(&agent).start().await?;
//! assert_eq!(session.prompt("hi")?.result().await?.text, "Hello, you who said: hi");
//! assert_eq!(session.prompt("again")?.result().await.unwrap_err().code(), "llm_service_error");
//! # session.close().await
//! # }
//! ```
//!
//! [`replayed_agent`] plays the agent of a recording instead of a script, and a [`Cassette`] makes the recording a test.

pub(crate) mod cassette;

use std::ffi::OsString;
use std::hint::black_box;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Executable;
use crate::error::invalid_option;
use crate::private::PrivateDir;
use crate::recording::CASSETTE_FLAG;
use kimi_agent_entry as entry;
use serde_json::Value;

pub use cassette::{Cassette, CassetteMode};

/// The longest script that is read, in bytes.
const MAX_SCRIPT: u64 = 256 << 20;

/// A script for the scripted agent: JSON, or the path of a JSON file.
///
/// ```
/// use kimi_agent::testing::Script;
/// let value = Script::from(serde_json::json!([[{"text": "hi"}]]));
/// let text = Script::from(r#"[[{"text": "hi"}]]"#);
/// let file = Script::from(std::path::Path::new("tests/greeting.json"));
/// assert_eq!(format!("{value:?}"), r#"Json("[[{\"text\":\"hi\"}]]")"#);
/// # let _ = (text, file);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Script {
    /// JSON text.
    Json(String),
    /// The path of a JSON file.
    File(PathBuf),
}

impl From<Value> for Script {
    fn from(script: Value) -> Self {
        Self::Json(script.to_string())
    }
}

impl From<&str> for Script {
    fn from(json: &str) -> Self {
        Self::Json(json.to_owned())
    }
}

impl From<String> for Script {
    fn from(json: String) -> Self {
        Self::Json(json)
    }
}

impl From<&Path> for Script {
    fn from(file: &Path) -> Self {
        Self::File(file.to_owned())
    }
}

impl From<PathBuf> for Script {
    fn from(file: PathBuf) -> Self {
        Self::File(file)
    }
}

impl Script {
    /// Returns the problem of the script and its place, without running it.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for the option `script`.
    ///
    /// ```
    /// use kimi_agent::testing::Script;
    /// let error = Script::from(r#"[[{"text": "hi", "delay": "long"}]]"#).check().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     r#"invalid option `script`: turn 1, action 1: "delay" must be a number of seconds, not "long""#,
    /// );
    /// ```
    pub fn check(&self) -> crate::Result<()> {
        self.problem().map_or(Ok(()), |reason| Err(invalid_option("script", reason)))
    }

    fn problem(&self) -> Option<String> {
        match self {
            Self::Json(json) => {
                kimi_agent_testing::scripted::check(json).map_err(|error| match json.ends_with(".json") {
                    true => format!("{error}; text is the script itself: for a file, pass `Path::new({json:?})`"),
                    false => error,
                })
            }
            Self::File(path) => read_script(path)
                .map_err(|error| format!("can't read it: {error}"))
                .and_then(|json| kimi_agent_testing::scripted::check(&json))
                .map_err(|error| format!("{}: {error}", path.display())),
        }
        .err()
    }
}

fn read_script(path: &Path) -> std::io::Result<String> {
    // A link may lead to the script.
    let bytes = kimi_agent_files::read_regular(&std::fs::canonicalize(path)?, MAX_SCRIPT)?;
    String::from_utf8(bytes).map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}

/// The agent of a recording. Pass a reference to it as the option `executable`.
///
/// ```
/// let agent = kimi_agent::testing::replayed_agent("tests/recordings/run.jsonl");
/// let command: &[std::ffi::OsString] = &agent;
/// assert_eq!(command[command.len() - 2], "--play-recording");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedAgent {
    command: Vec<OsString>,
}

/// Makes an agent that plays a recording, which the option
/// [`record`](crate::SessionOptions::record) wrote. It needs no model, no key and no network, and is this program,
/// started again, like the [`scripted_agent`]: a program with this call becomes the agent before its `main` runs if its first
/// argument is `--kimi-scripted-agent`.
///
/// The agent sends each recorded message as soon as the calls and answers have come that the recording has before it.
/// The place of a cancel and of a steer may differ. The protocol is that of the recording, so `dialect` can be left
/// out. If the program sends more prompts than the recording has, the next prompt fails with
/// [`Error::Rpc`](crate::Error::Rpc).
///
/// The file is read when a session starts. A file that is missing or not a recording fails the session with
/// [`Error::InvalidOption`](crate::Error::InvalidOption) for the option `executable`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kimi_agent::Session;
/// use kimi_agent::testing::{replayed_agent, scripted_agent};
/// use serde_json::json;
///
/// let file = "run.jsonl";
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join(file);
/// let agent = scripted_agent(json!([[{"text": "4"}]])); // or a real one
/// let session = Session::builder().executable(&agent).record(&file).start().await?;
/// session.prompt("2 + 2?")?.result().await?;
/// session.close().await?;
///
/// let session = Session::builder().executable(replayed_agent(&file)).start().await?;
/// assert_eq!(session.prompt("2 + 2?")?.result().await?.text, "4");
/// # session.close().await?;
/// # Ok(()) }
/// ```
pub fn replayed_agent(path: impl AsRef<Path>) -> ReplayedAgent {
    black_box(entry::request());
    replayed(path.as_ref())
}

/// Makes an agent that plays a recording, for a caller that has asked for the entry.
fn replayed(path: &Path) -> ReplayedAgent {
    let mut command = program();
    command.push("--play-recording".into());
    command.push(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).into_os_string());
    ReplayedAgent { command }
}

/// How a [`ReplayedAgent`] plays its recording.
///
/// ```
/// use kimi_agent::testing::{ReplayMode, replayed_agent};
/// let agent = replayed_agent("run.jsonl").mode(ReplayMode::Verify);
/// # let _ = agent;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReplayMode {
    /// Plays the recording. This is the default.
    #[default]
    Replay,
    /// Compares what the program does with the recording: its prompts and other calls, its answers, and their order.
    /// Ids, times, secrets and versions do not count.
    ///
    /// The first difference fails the pending calls with [`Error::Rpc`](crate::Error::Rpc), whose message has the
    /// turn, the call, the expected value and the actual one. The agent writes it to stderr, too, and exits with code
    /// 1. It also does so at the end of the session if the program has left out something.
    Verify,
    /// Reports the results that the tools of the program return now, instead of the recorded results.
    ///
    /// The answers of the model, and the tools of the agent itself, stay as recorded: the agent calls the tools of the
    /// program with the recorded arguments, and the next text of the model is the recorded one. Over ACP, a result is
    /// replaced if the agent showed the text that the tool returned. The protocols `legacy` and `kimi-web` report
    /// recorded results.
    Stub,
}

impl ReplayedAgent {
    /// Marks the recording as a cassette, which one session plays.
    fn of_cassette(mut self) -> Self {
        self.command.push(CASSETTE_FLAG.into());
        self
    }

    /// Sets how the agent plays the recording.
    ///
    /// ```
    /// use kimi_agent::testing::{ReplayMode, replayed_agent};
    /// let agent = replayed_agent("run.jsonl").mode(ReplayMode::Stub);
    /// assert_eq!(agent.last().unwrap(), "--stub");
    /// ```
    #[must_use]
    pub fn mode(mut self, mode: ReplayMode) -> Self {
        // The path is absolute, so it is not a flag.
        self.command.pop_if(|last| *last == "--verify" || *last == "--stub");
        match mode {
            ReplayMode::Replay => {}
            ReplayMode::Verify => self.command.push("--verify".into()),
            ReplayMode::Stub => self.command.push("--stub".into()),
        }
        self
    }
}

impl Deref for ReplayedAgent {
    type Target = [OsString];

    fn deref(&self) -> &[OsString] {
        &self.command
    }
}

impl From<&ReplayedAgent> for Executable {
    fn from(agent: &ReplayedAgent) -> Self {
        agent.command.clone().into()
    }
}

impl From<ReplayedAgent> for Executable {
    fn from(agent: ReplayedAgent) -> Self {
        agent.command.into()
    }
}

impl From<&ReplayedAgent> for Vec<OsString> {
    fn from(agent: &ReplayedAgent) -> Self {
        agent.command.clone()
    }
}

/// The scripted agent with a script. Pass it, or a reference to it, as the option `executable`.
///
/// It owns the file of the script, together with its clones and with all options and cassettes that have it as their
/// executable. The file is deleted with the last of them. The command as a list of words does not own it. If this program is
/// killed, a later program deletes the file.
///
/// ```
/// let agent = kimi_agent::testing::scripted_agent(r#"[[{"text": "hi"}]]"#);
/// let command: &[std::ffi::OsString] = &agent;
/// assert!(std::path::Path::new(command.last().unwrap()).exists());
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedAgent {
    command: Vec<OsString>,
    script: Option<Arc<PrivateDir>>,
    problem: Option<Arc<str>>,
}

/// Makes a scripted agent with this script.
///
/// The agent is this program, started again. A program that contains a call of this function, of [`replayed_agent`] or of
/// [`Cassette::new`] becomes the scripted agent before its `main` runs if its first argument is `--kimi-scripted-agent`. A
/// program without such a call does not, even if it has the feature `testing`. So keep the calls in tests, or start
/// [`run_scripted_agent`] yourself.
///
/// This works for binaries, examples, tests and doctests on Linux, macOS and Windows. On other systems, and if
/// `$KIMI_SCRIPTED_AGENT` is set, the program of that variable is used, or `kimi-scripted-agent`, which
/// `cargo install kimi-agent-testing` installs.
///
/// Text is the script itself, as JSON. For the path of a file, pass a `Path` or a `PathBuf`. With an invalid script, the session does
/// not open: [`Error::InvalidOption`](crate::Error::InvalidOption) for the option `executable` has the problem and its place, as
/// [`Script::check`] returns them.
///
/// # Panics
/// If a script given as JSON can't be written to a temporary file.
///
/// ```
/// # use kimi_agent::Session;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// let agent = kimi_agent::testing::scripted_agent(serde_json::json!([[{"text": "4"}]]));
/// let session = Session::builder().executable(&agent).start().await?;
/// assert_eq!(session.prompt("2 + 2?")?.result().await?.text, "4");
/// # session.close().await
/// # }
/// ```
pub fn scripted_agent(script: impl Into<Script>) -> ScriptedAgent {
    black_box(entry::request());
    scripted(script.into())
}

fn scripted(script: Script) -> ScriptedAgent {
    let problem = script.problem().map(|problem| format!("the script of the agent is wrong: {problem}").into());
    let (dir, path) = match script {
        Script::File(path) => (None, std::path::absolute(&path).unwrap_or(path)),
        Script::Json(json) => {
            let mut dir = PrivateDir::new().expect("a temporary folder for the script can be made");
            let path =
                dir.write("script.json", json.as_bytes()).expect("a temporary file for the script can be written");
            (Some(Arc::new(dir)), path)
        }
    };
    let mut command = program();
    command.push(path.into_os_string());
    ScriptedAgent { command, script: dir, problem }
}

fn program() -> Vec<OsString> {
    if let Some(program) = std::env::var_os("KIMI_SCRIPTED_AGENT").filter(|program| !program.is_empty()) {
        return vec![program];
    }
    match std::env::current_exe() {
        Ok(this) if entry::WORKS => vec![this.into_os_string(), kimi_agent_testing::scripted::FLAG.into()],
        _ => vec!["kimi-scripted-agent".into()],
    }
}

impl Deref for ScriptedAgent {
    type Target = [OsString];

    fn deref(&self) -> &[OsString] {
        &self.command
    }
}

impl From<&ScriptedAgent> for Executable {
    fn from(agent: &ScriptedAgent) -> Self {
        agent.clone().into()
    }
}

impl From<ScriptedAgent> for Executable {
    fn from(agent: ScriptedAgent) -> Self {
        Self::scripted(agent.command, agent.script, agent.problem)
    }
}

impl From<&ScriptedAgent> for Vec<OsString> {
    fn from(agent: &ScriptedAgent) -> Self {
        agent.command.clone()
    }
}

/// Runs the scripted agent in this process, on its standard streams, until its client has closed its end. Returns the
/// exit code. The arguments do not include the program's name: the path of the script, then options like those of
/// kimi-cli.
///
/// This is for hosts in other languages, which start a process for it. The process should then exit immediately,
/// because one of its threads still waits for input.
///
/// ```no_run
/// let code = kimi_agent::testing::run_scripted_agent(std::env::args_os().skip(1));
/// std::process::exit(code);
/// ```
pub fn run_scripted_agent(args: impl IntoIterator<Item = OsString>) -> i32 {
    kimi_agent_testing::scripted::main(args)
}
