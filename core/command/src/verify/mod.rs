//! `kimi-agent verify`: does an agent still behave as recorded?
//!
//! - `setup`: the options of the recorded session
//! - `answers`: the recorded answers to requests
//! - `play`: the recorded calls
//! - `observed`: what is compared of a turn
//!
//! The new session is recorded, too. So both sides of a comparison are recordings.

mod answers;
mod observed;
mod play;
mod setup;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kimi_agent_client::SessionOptions;
use kimi_agent_client::host::secrets_redactor;
use kimi_agent_files::{PrivateDir, known_folders};
use kimi_agent_protocol::recording::{Places, Recording, Redactor};
use serde::Serialize;
use serde_json::Value;

use crate::console::Console;
use crate::interrupts::Interrupts;
use crate::run::tools::{named, short};
use crate::session_arguments::SessionArguments;
use crate::{Failure, exit, inspect};
use answers::RecordedAnswers;
use observed::{Difference, Observed};
use setup::Setup;

/// The arguments of `verify`.
#[derive(Args, Debug)]
pub(crate) struct VerifyArguments {
    /// The recording.
    recording: PathBuf,
    #[command(flatten)]
    session: SessionArguments,
    /// Starts the agent that the recording names, with the recorded options that can lead to programs and files.
    ///
    /// Use it for your own recordings only. Without it, --executable is needed.
    #[arg(long, help_heading = "Agent")]
    trust: bool,
    /// Compares the texts of the answers, too.
    #[arg(long, help_heading = "Output")]
    text: bool,
    /// Prints the differences as JSON.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The outcome of the comparison.
#[derive(Debug, Default, Serialize)]
struct Report {
    is_same: bool,
    /// The number of recorded turns.
    turns: usize,
    differences: Vec<Difference>,
    /// The options that are not as recorded.
    missing: Vec<String>,
    /// The reasons why the recording lacks something.
    warnings: Vec<String>,
    /// The error because of which not all recorded calls were made.
    error: Option<Value>,
}

/// Plays the recorded prompts with the agent and compares. Returns the exit code.
pub(crate) async fn run(arguments: VerifyArguments) -> Result<i32, Failure> {
    let mut interrupts = Interrupts::new()?;
    let console = Console::new(false);
    let mut report = Report::default();
    let code = match compare(&arguments, &mut report, &console, &mut interrupts).await {
        Ok(()) => {
            if report.is_same {
                exit::SUCCEEDED
            } else {
                exit::FAILED
            }
        }
        Err(failure) if arguments.json => {
            report.error = Some(failure.to_json());
            failure.exit_code()
        }
        Err(failure) => return Err(failure),
    };
    match arguments.json {
        true => console.json(&report),
        false => show(&report, &console),
    }
    console.check()?;
    Ok(code)
}

/// Fills the report.
///
/// # Errors
/// Nothing can be compared, for example because the agent cannot be started.
async fn compare(
    arguments: &VerifyArguments,
    report: &mut Report,
    console: &Console,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    // A pipe can take any time.
    let path = arguments.recording.clone();
    let reading = tokio::task::spawn_blocking(move || inspect::read(&path));
    let read = tokio::select! {
        biased;
        () = interrupts.next() => return Err(Failure::Cancelled),
        read = reading => read.map_err(|error| Failure::Because(error.to_string()))?,
    };
    let recording = read.map_err(|failure| failure.of_argument("RECORDING"))?.recording;
    let expected = observed::turns(&recording);
    report.turns = expected.len();
    report.warnings = setup::defects(&recording);
    let notes = |lines: &[String]| {
        for line in lines.iter().filter(|_| !arguments.json) {
            console.note(&format!("note: {line}"));
        }
    };
    notes(&report.warnings);
    if expected.is_empty() {
        let path = arguments.recording.display();
        return Err(Failure::wrong("RECORDING", format!("{path}: it has no turn to verify")));
    }
    let places = Places::new(known_folders(&setup::work_dir(&arguments.session)));
    let Setup { options, missing } = Setup::of(&recording, &places, &arguments.session, arguments.trust)?;
    notes(&missing);
    report.missing = missing;
    let folder = PrivateDir::new();
    let folder = folder.map_err(|error| Failure::Because(format!("no temporary folder can be made: {error}")))?;
    let record = record_path(arguments, folder.path())?;
    let options = RecordedAnswers::of(&recording, &places).answering(options, &recording).record(&record);
    let redactor = secrets_redactor(&options)?;
    let failure = played(options, &recording, &places, interrupts).await?;
    let played = inspect::read(&record)?.recording;
    report.differences = compared(&expected, &observed::turns(&played), arguments.text, &redactor);
    report.is_same = report.differences.is_empty() && failure.is_none();
    report.error = failure.map(|error| Failure::Sdk(error).to_json());
    Ok(())
}

/// Returns the file of the recording of the new session. In a directory it has the name of the compared recording.
fn record_path(arguments: &VerifyArguments, folder: &Path) -> Result<PathBuf, Failure> {
    let Some(given) = &arguments.session.record else { return Ok(folder.join("verify.jsonl")) };
    let is_folder = given.is_dir() || given.to_string_lossy().ends_with(std::path::is_separator);
    let name = arguments.recording.file_name().unwrap_or_default();
    let path = if is_folder { given.join(name) } else { given.clone() };
    if inspect::is_same(&path, &arguments.recording) {
        return Err(Failure::wrong("--record", "it is the compared recording, which would be replaced"));
    }
    Ok(path)
}

/// Plays the recording. Returns the error that ended the session early.
async fn played(
    options: SessionOptions,
    recording: &Recording,
    places: &Places,
    interrupts: &mut Interrupts,
) -> Result<Option<kimi_agent_client::Error>, Failure> {
    let session = tokio::select! {
        biased;
        () = interrupts.next() => return Err(Failure::Cancelled),
        opened = options.start() => opened?,
    };
    let failure = tokio::select! {
        biased;
        () = interrupts.next() => {
            session.close_with_timeout(Duration::ZERO).await.ok();
            return Err(Failure::Cancelled);
        }
        played = play::played(&session, recording, places) => played.err(),
    };
    // The recording is complete when the agent has ended.
    match session.close().await {
        // The agent plays a recording itself, and compares.
        Err(error @ kimi_agent_client::Error::Rpc(_)) => Ok(failure.or(Some(error))),
        closed => closed.map(|()| failure).map_err(Into::into),
    }
}

/// Returns the differences of all turns.
fn compared(
    expected: &BTreeMap<u64, Observed>,
    got: &BTreeMap<u64, Observed>,
    with_text: bool,
    redactor: &Redactor,
) -> Vec<Difference> {
    let missing = Observed::default();
    let pairs = expected.iter().map(|(turn, expected)| (*turn, expected, got.get(turn).unwrap_or(&missing)));
    pairs.flat_map(|(turn, expected, got)| expected.differences(turn, got, with_text, redactor)).collect()
}

fn show(report: &Report, console: &Console) {
    for difference in &report.differences {
        let subject = difference.subject.replace('_', " ");
        console.text(&format!("turn {}: {subject}\n", difference.turn));
        console.text(&format!("  expected  {}\n", listed(&difference.expected)));
        console.text(&format!("  got       {}\n", listed(&difference.got)));
    }
    if let Some(error) = &report.error {
        console.text(&format!("the session ended early: {}\n", error["message"].as_str().unwrap_or_default()));
    }
    let mut different: Vec<u64> = report.differences.iter().map(|difference| difference.turn).collect();
    different.dedup();
    let (same, turns) = (report.turns - different.len(), report.turns);
    console.text(&format!("turns as recorded: {same} of {turns}\n"));
}

/// Returns a value of a difference, with an item a line if it has several.
fn listed(value: &Value) -> String {
    let item = |value: &Value| match value {
        Value::String(text) => short(text),
        Value::Object(call) => {
            named(call["name"].as_str().unwrap_or_default(), call.get("arguments").and_then(Value::as_object))
        }
        other => other.to_string(),
    };
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(items) if items.is_empty() => "nothing".to_owned(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().map(item).collect::<Vec<_>>().join(", ")
        }
        Value::Array(items) => items.iter().map(item).collect::<Vec<_>>().join("\n            "),
        other => item(other),
    }
}
