//! The option `record`: the file of a session's recording, its header, and what is replaced in it.
//!
//! A [`FileRecorder`] is a part of the connection. It adds the time to each entry, and passes it to the
//! [writer](writer), a thread that all recordings of the program share.

mod file;
mod replayed;
mod tape;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Instant, SystemTime};

use kimi_agent_protocol::options::OPTIONS;
use kimi_agent_protocol::recording::{
    Entry, FORMAT, HeaderEntry, Place, Recorder, Redactor, SdkName, SecretTexts, Side, ToolOfProgram, masked_arguments,
};
use serde_json::{Map, Value};

use crate::dialect::InitializeParams;
use crate::error::Result;
use crate::options::{SessionOptions, Setting};
pub(crate) use file::{RecordingFile, Used};
#[cfg(feature = "testing")]
pub(crate) use replayed::CASSETTE_FLAG;
pub(crate) use replayed::Replayed;
#[cfg(feature = "batch")]
pub(crate) use tape::is_cassette;
pub(crate) use tape::{Opening, TAKEN};
#[cfg(feature = "testing")]
pub(crate) use tape::{add_cassette, add_played_cassette};
use writer::{Job, Message};

/// The environment variable with the path of recordings.
const VARIABLE: &str = "KIMI_AGENT_RECORD";

/// The recorder of one session.
#[derive(Debug)]
pub(crate) struct FileRecorder {
    file: Arc<RecordingFile>,
    /// The number of this attempt to open the session.
    attempt: u32,
    began: Instant,
    /// The time of the last entry, and that time in seconds since the beginning.
    last: (Instant, f64),
}

impl FileRecorder {
    /// Begins a recording, with its header. An earlier attempt to open the session is removed from the file.
    fn new(file: Arc<RecordingFile>, redactor: Redactor, header: HeaderEntry) -> Self {
        let attempt = file.begin();
        let began = Instant::now();
        let recorder = Self { file, attempt, began, last: (began, 0.0) };
        let (header, redactor) = (Box::new(header), Box::new(redactor));
        recorder.push(Job::Header { header, redactor, began, is_first: attempt == 1 });
        recorder
    }

    fn push(&self, job: Job) {
        self.file.push(self.attempt, job);
    }

    /// Returns the seconds since the beginning. They never decrease, although lines that were read at once have the time
    /// of the reading.
    fn seconds(&mut self, now: Instant) -> f64 {
        let (last, seconds) = self.last;
        if now <= last {
            return seconds;
        }
        // Microseconds are enough, and take less space.
        let seconds = now.duration_since(self.began).as_micros() as f64 / 1e6;
        self.last = (now, seconds);
        seconds
    }
}

impl Recorder for FileRecorder {
    fn message(&mut self, now: Instant, from: Side, line: &[u8], is_json: bool) {
        let time = self.seconds(now);
        self.file.push_line(self.attempt, Message { time, from, is_json, length: line.len() }, line);
    }

    fn entry(&mut self, entry: Entry) {
        let is_end = matches!(entry, Entry::End(_));
        let time = self.seconds(Instant::now());
        self.push(Job::of_entry(time, entry));
        if is_end {
            self.file.end(self.attempt);
        }
    }
}

impl SessionOptions {
    /// Makes the file of the recording, if the session is recorded. `id` is the id of the session.
    pub(crate) fn recording_file(&self, id: &str) -> Result<Option<Arc<RecordingFile>>> {
        /// The recordings of the environment variable, which all sessions have in common.
        static OF_VARIABLE: LazyLock<Used> = LazyLock::new(Used::default);
        let (path, used) = match (&self.record, recording_variable()) {
            (Some(path), _) => (path.clone(), self.recorded.as_ref()),
            (None, Some(path)) => (path, Some(&*OF_VARIABLE)),
            (None, None) => return Ok(None),
        };
        let path = self
            .absolute("record", &path)
            .map(|absolute| if is_folder(&path) { absolute.join("") } else { absolute })?;
        if self.replayed.as_ref().is_some_and(|replayed| is_same_file(&replayed.path, &path)) {
            let reason = format!("{} is the recording that the agent plays; choose another path", path.display());
            return Err(self.invalid("record", reason));
        }
        let file = RecordingFile::create(&path, id, used);
        file.map(Some).map_err(|error| self.invalid("record", format!("can't write {}: {error}", path.display())))
    }

    /// Begins to record into this file. `secrets` are those that the SDK has made for the session.
    pub(crate) fn recorder(
        &self,
        file: Arc<RecordingFile>,
        dialect: &str,
        work_dir: &Path,
        params: &InitializeParams,
        secrets: Vec<String>,
    ) -> Result<FileRecorder> {
        let mut texts = self.secret_texts();
        params.tools_server.iter().for_each(|server| texts.add(&server.url));
        secrets.iter().for_each(|secret| texts.add(secret));
        let redactor = Redactor::new(&places(work_dir), texts.into_texts(), &self.redact)
            .map_err(|problem| self.invalid("redact", pattern_problem(&self.redact, problem)))?;
        Ok(FileRecorder::new(file, redactor, self.header(dialect)))
    }

    fn header(&self, dialect: &str) -> HeaderEntry {
        HeaderEntry {
            format: FORMAT,
            started: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            sdk: SdkName {
                name: "kimi-agent".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                language: self.language.to_owned(),
            },
            dialect: dialect.to_owned(),
            executable: masked_arguments(&self.command_words()),
            options: self.recorded_options(),
            tools: self
                .tools
                .iter()
                .map(|tool| ToolOfProgram {
                    name: tool.name.clone(),
                    description: tool.description.clone(),
                    parameters: tool.parameters.clone(),
                })
                .collect(),
        }
    }

    /// Returns the program and its arguments, without the arguments of the SDK. The list is empty without a program.
    fn command_words(&self) -> Vec<String> {
        if let Some(address) = self.remote_address() {
            return vec![address.into_owned()];
        }
        let Ok((program, args)) = self.program() else { return Vec::new() };
        let words = std::iter::once(program.into_os_string()).chain(args);
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// Returns the options that are set, without values that may be secrets.
    fn recorded_options(&self) -> Map<String, Value> {
        let mut options = Map::new();
        for option in OPTIONS
            .iter()
            .filter(|option| !matches!(option.name, "executable" | "tools" | "record" | "redact" | "telemetry"))
        {
            let value = match self.setting(option.name) {
                Setting::Unset => continue,
                Setting::Text(text) => text.into(),
                Setting::Path(path) => path.to_string_lossy().into(),
                Setting::Boolean(value) => value.into(),
                Setting::Count(count) => count.into(),
                Setting::Bytes(bytes) => bytes.into(),
                Setting::Duration(duration) => duration.as_secs_f64().into(),
                Setting::Other if option.name == "env" => {
                    self.variables().map(|name| Value::from(name.to_string_lossy())).collect()
                }
                Setting::Other if option.name == "dialect" => self.dialect.to_string().into(),
                Setting::Json(_) | Setting::Other => "set".into(),
            };
            options.insert(option.name.to_owned(), value);
        }
        options
    }

    /// Makes the redactor of secrets only, which leaves paths as they are.
    pub(crate) fn secrets_redactor(&self) -> Result<Redactor> {
        Redactor::new(&[], self.secret_texts().into_texts(), &self.redact)
            .map_err(|problem| self.invalid("redact", pattern_problem(&self.redact, problem)))
    }

    /// Returns the values of options that must not be in a recording.
    fn secret_texts(&self) -> SecretTexts {
        let mut texts = SecretTexts::default();
        self.config.iter().chain(&self.mcp_configs).for_each(|value| texts.add_value(value));
        self.env.iter().for_each(|(_, value)| texts.add(&value.to_string_lossy()));
        texts.add_arguments(&self.command_words());
        let further: Vec<_> = self.extra_args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        texts.add_arguments(&further);
        texts
    }
}

/// Returns the path of the environment variable, which records sessions without the option `record`.
pub(crate) fn recording_variable() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Checks the patterns of the option `redact`.
pub(crate) fn check_patterns(patterns: &[String]) -> std::result::Result<(), String> {
    Redactor::new(&[], [], patterns).map(drop).map_err(|problem| pattern_problem(patterns, problem))
}

fn pattern_problem(patterns: &[String], (at, reason): (usize, String)) -> String {
    format!("redact[{at}]: {:?} is not a regular expression: {reason}", patterns[at])
}

/// Returns whether a path means a folder: it exists, or its name ends with a slash.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.as_os_str().to_string_lossy().ends_with(std::path::is_separator) || path.is_dir()
}

/// Returns whether two paths name the same file, which exists.
fn is_same_file(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Returns the directories that become placeholders, in each spelling.
fn places(work_dir: &Path) -> Vec<Place> {
    let folders = crate::private::known_folders(work_dir).into_iter();
    let spelled = |(name, folder): (&'static str, PathBuf)| {
        crate::private::spellings(&folder).into_iter().map(move |path| Place { name, path })
    };
    folders.flat_map(spelled).collect()
}
