//! `kimi-agent run`.
//!
//! - `prompt`: the argument and the standard input
//! - `report`: the events of a turn, as they are shown
//! - `approvals`: the answers to the agent's requests
//! - `suggestion`: the rule that would allow an action
//! - `tools`: tool calls in one line

pub(crate) mod approvals;
mod prompt;
mod report;
mod suggestion;
pub(crate) mod tools;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use kimi_agent_client::{Error, Partial, Session, Turn, TurnStatus, host};
use kimi_agent_protocol::PromptResult;
use serde_json::json;

use crate::console::Console;
use crate::interrupts::Interrupts;
use crate::session_arguments::SessionArguments;
use crate::{Failure, exit, spelling};
use report::{Format, Report};

/// The arguments of `run`.
#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// The prompt. `-` reads it from the standard input. Without this argument, a pipe or a file is the prompt.
    ///
    /// If there is a prompt, the text of a pipe or a file is appended to it, after an empty line.
    prompt: Option<String>,
    #[command(flatten)]
    session: SessionArguments,
    /// Prints each event as a line of JSON. The last line is the result or the error.
    #[arg(long, conflicts_with = "quiet", help_heading = "Output")]
    json: bool,
    /// Prints only the final text.
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
    /// Shows thoughts, outputs of tools and the agent's own log, too.
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Output")]
    verbose: bool,
}

/// Runs one prompt. Returns the exit code.
pub(crate) async fn run(arguments: RunArguments) -> Result<i32, Failure> {
    let mut interrupts = Interrupts::new()?;
    let format = match (arguments.json, arguments.quiet || arguments.session.output_schema.is_some()) {
        (true, _) => Format::Json,
        (false, true) => Format::Answer,
        (false, false) => Format::Text,
    };
    let console = Arc::new(Console::new(arguments.quiet || (arguments.json && !arguments.verbose)));
    let outcome = match played(&arguments, format, &console, &mut interrupts).await {
        Err(failure) if format == Format::Json => {
            let code = failure.exit_code();
            console.json(&json!({"type": "error", "error": failure.to_json(), "exit_code": code}));
            Ok(code)
        }
        outcome => outcome,
    };
    // Nothing waits for an answer any more.
    console.end_question(false);
    // Without its output the turn was cancelled, or its answer is lost.
    console.check().and(outcome)
}

/// Reads the prompt, opens the session, runs the turn and closes the session.
async fn played(
    arguments: &RunArguments,
    format: Format,
    console: &Arc<Console>,
    interrupts: &mut Interrupts,
) -> Result<i32, Failure> {
    let prompt = tokio::select! {
        biased;
        () = interrupts.next() => return Err(Failure::Cancelled),
        prompt = prompt::read(arguments.prompt.as_deref(), console) => prompt?,
    };
    let mut options = arguments.session.options()?;
    if !arguments.session.yolo {
        let work_dir = arguments.session.work_dir.clone().unwrap_or_else(|| PathBuf::from("."));
        let work_dir = std::path::absolute(&work_dir).unwrap_or(work_dir);
        options = approvals::answering(options, console, work_dir);
    }
    if arguments.verbose {
        let console = Arc::clone(console);
        options = options.on_stderr(move |line| {
            if !line.trim().is_empty() {
                console.note(&format!("agent: {line}"));
            }
        });
    }
    let (options, recorded) = host::recorded(options);
    let session = tokio::select! {
        biased;
        () = interrupts.next() => return Err(Failure::Cancelled),
        opened = options.start() => opened?,
    };
    let report = Report::new(console, format, arguments.verbose);
    let outcome = turn(&session, &prompt, report, console, interrupts).await;
    let is_hurried = matches!(outcome, Err(Failure::Cancelled));
    let ended = tokio::select! {
        biased;
        () = interrupts.next(), if !is_hurried => session.close_with_timeout(Duration::ZERO).await,
        closed = closed(&session, is_hurried) => closed,
    };
    if let (Ok(exit::SUCCEEDED), Some(problem)) = (&outcome, recorded.problem()) {
        return Err(Failure::Because(format!(
            "the recording is incomplete, because its file cannot be written: {problem}"
        )));
    }
    match (&outcome, ended) {
        // The agent plays a recording, and the prompt was not all of it.
        (Ok(_), Err(error @ Error::Rpc(_))) => Err(error.into()),
        (Ok(_), Err(error)) => {
            console.warn(&format!("kimi-agent: the agent did not end: {}", spelling::message(&error)));
            outcome
        }
        _ => outcome,
    }
}

/// Closes the session. With `is_hurried` the agent gets no time to end.
async fn closed(session: &Session, is_hurried: bool) -> Result<(), Error> {
    match is_hurried {
        true => session.close_with_timeout(Duration::ZERO).await,
        false => session.close().await,
    }
}

/// Runs the turn, and shows its events. Returns the exit code.
async fn turn(
    session: &Session,
    prompt: &str,
    mut report: Report,
    console: &Console,
    interrupts: &mut Interrupts,
) -> Result<i32, Failure> {
    let mut turn = session.prompt(prompt)?;
    let mut cancelling: Option<Pin<Box<dyn Future<Output = ()> + '_>>> = None;
    let mut failure = None;
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => {
                if cancelling.is_some() {
                    return Err(Failure::Cancelled);
                }
                console.announce("cancelling; press Ctrl-C again to end immediately");
                cancelling = Some(Box::pin(cancelled(session)));
            }
            () = async { match &mut cancelling { Some(end) => end.await, None => std::future::pending().await } } => {
                cancelling = Some(Box::pin(std::future::pending()));
            }
            event = async { console.room().await; turn.next().await } => match event {
                Some(Ok(event)) => report.event(&event),
                Some(Err(error)) => failure = Some(error),
                None => break,
            },
        }
        if console.is_closed() && cancelling.is_none() {
            cancelling = Some(Box::pin(cancelled(session)));
        }
    }
    report.flush();
    if failure.is_some() {
        console.end_text();
    }
    ended(session, &mut turn, failure, &mut report).await
}

/// Reports the end of the turn. Returns the exit code.
async fn ended(
    session: &Session,
    turn: &mut Turn,
    failure: Option<Error>,
    report: &mut Report,
) -> Result<i32, Failure> {
    let result = match failure {
        Some(error) => Err(error),
        None => turn.result().await,
    }?;
    let code = exit_code(&result);
    report.finished(&result, session.id(), code);
    Ok(code)
}

fn exit_code(result: &PromptResult) -> i32 {
    match result.status {
        TurnStatus::Finished => exit::SUCCEEDED,
        TurnStatus::Cancelled => exit::of(&Error::TurnCancelled(Partial::default())),
        TurnStatus::Truncated => exit::of(&Error::AnswerTruncated(Box::new(result.clone()))),
        TurnStatus::Refused => exit::of(&Error::AnswerRefused(Box::new(result.clone()))),
        _ => exit::of(&Error::MaxStepsReached { steps: Some(result.steps), result: Partial::default() }),
    }
}

/// Cancels the turn. Its outcome is that of the turn.
async fn cancelled(session: &Session) {
    session.cancel().await.ok();
}
