//! The answers to approval requests that no rule has decided: a person's, or a rejection.

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

use kimi_agent_client::{Answers, Approval, HandlerError, SessionOptions};
use kimi_agent_protocol::messages::{ApprovalRequest, Question, QuestionRequest};
use tokio::sync::{Mutex, mpsc};

use super::suggestion::rules_for;
use super::tools::{decided, pages, short, whole, whole_line};
use crate::console::Console;

/// The feedback for the model if the command rejects an action.
const FEEDBACK: &str = "The action was rejected: no person can approve it, and no rule of the policy allows it.";

/// Adds the handlers of approvals and questions. Both ask the person at the terminal, if there is one.
pub(crate) fn answering(options: SessionOptions, console: &Arc<Console>, work_dir: PathBuf) -> SessionOptions {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let console = Arc::clone(console);
        return options.on_approval(move |request| {
            console.note(&rejection(&request, &work_dir));
            async { Ok(Approval::reject(FEEDBACK)) }
        });
    }
    let lines = Mutex::new(early_lines());
    let person = Arc::new(Person { console: Arc::clone(console), work_dir, lines });
    let asked = Arc::clone(&person);
    options
        .on_approval(move |request| {
            let person = Arc::clone(&person);
            async move { person.approval(&request).await }
        })
        .on_question(move |request| {
            let person = Arc::clone(&asked);
            async move { Ok(person.answers(&request).await) }
        })
}

/// Describes a rejection, and how to allow the action.
fn rejection(request: &ApprovalRequest, work_dir: &std::path::Path) -> String {
    let action = about(request);
    let rules = request.tool_call.get().map(|call| rules_for(call, work_dir)).unwrap_or_default();
    match &rules[..] {
        [rule] => format!(
            "rejected: {action}; to allow it, add the rule {rule:?} to `allow` of a file for --policy, or set --yolo"
        ),
        [_, _, ..] => format!(
            "rejected: {action}; to allow it, add the rules {} to `allow` of a file for --policy, or set --yolo",
            rules.iter().map(|rule| format!("{rule:?}")).collect::<Vec<_>>().join(", ")
        ),
        [] => format!("rejected: {action}; to allow it, set --yolo, or a --policy whose rules allow it"),
    }
}

/// Describes the action of a request.
fn about(request: &ApprovalRequest) -> String {
    let call = request.tool_call.get().map_or_else(|| whole_line(&request.sender), whole);
    let description = whole_line(&request.description);
    if description.is_empty() || call.contains(&description) {
        return call;
    }
    format!("{call} ({description})")
}

/// The person at the terminal.
struct Person {
    console: Arc<Console>,
    work_dir: PathBuf,
    /// The lines that were typed, once a thread reads them. One question at a time.
    lines: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
}

impl Person {
    /// Asks for a line. `None` at the end of the input.
    async fn line(&self, question: &str) -> Option<String> {
        let mut lines = self.lines.lock().await;
        let lines = lines.get_or_insert_with(read_lines);
        // Keys that were typed before the question are not an answer to it.
        discard_typed();
        while lines.try_recv().is_ok() {}
        self.console.ask(question);
        Some(lines.recv().await?.trim().to_owned())
    }

    async fn approval(&self, request: &ApprovalRequest) -> Result<Approval, HandlerError> {
        let pages = pages(&decided(request, &self.work_dir));
        let count = pages.len();
        let mut shown = 0;
        loop {
            // An action can be approved when all of it was shown.
            let (page, is_last) = (&pages[shown], shown + 1 == count);
            let question = match is_last {
                true => format!("approve:\n{page}[y]es, [n]o, [a]lways in this session: "),
                false => format!("approve (part {} of {count}):\n{page}[m]ore, [n]o: ", shown + 1),
            };
            match self.line(&question).await.map(|line| line.to_lowercase()).as_deref() {
                Some("y" | "yes") if is_last => return Ok(Approval::Approve),
                Some("a" | "always") if is_last => return Ok(Approval::ApproveForSession),
                Some("n" | "no") | None => return Ok(Approval::Reject { feedback: None }),
                Some("m" | "more") if !is_last => shown += 1,
                Some(_) => {}
            }
        }
    }

    /// Asks the agent's questions. `None` dismisses them.
    async fn answers(&self, request: &QuestionRequest) -> Option<Answers> {
        let mut answers = Answers::new();
        for question in &request.questions {
            let line = self.line(&posed(question)).await.filter(|line| !line.is_empty())?;
            let number = line.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let chosen = number.and_then(|number| question.options.get(number));
            answers = answers.answer(&question.question, chosen.map_or(line, |option| option.label.clone()));
        }
        Some(answers)
    }
}

/// Returns a question with its choices.
fn posed(question: &Question) -> String {
    let options = question.options.iter().enumerate();
    let choices: String = options.map(|(at, option)| format!("  {}. {}\n", at + 1, short(&option.label))).collect();
    format!("question: {}\n{choices}answer, or nothing to dismiss it: ", short(&question.question))
}

/// Returns the lines that are read from now on. On Unix the first question starts the thread: a command in the background
/// that reads the terminal is stopped.
fn early_lines() -> Option<mpsc::UnboundedReceiver<String>> {
    cfg!(windows).then(read_lines)
}

/// Discards the keys that the terminal keeps.
fn discard_typed() {
    // A terminal that was closed has none.
    #[cfg(unix)]
    rustix::termios::tcflush(rustix::stdio::stdin(), rustix::termios::QueueSelector::IFlush).ok();
}

/// Reads the standard input in a thread, which ends with the input or with the process.
fn read_lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}
