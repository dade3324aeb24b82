//! The answers to approval requests that no rule has decided: a person's, or a rejection.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kimi_agent_client::{Answers, Approval, HandlerError, SessionOptions};
use kimi_agent_protocol::messages::{ApprovalRequest, Question, QuestionRequest};
use tokio::sync::{Mutex, MutexGuard, mpsc};

use super::suggestion::rules_for;
use super::tools::{decided, pages, whole, whole_line};
use crate::console::Console;

/// The feedback for the model if the command rejects an action.
const FEEDBACK: &str = "The action was rejected: no person can approve it, and no rule of the policy allows it.";
/// How long a new request is shown before it can be answered. Keys that were on their way answer nothing.
const READING_TIME: Duration = Duration::from_secs(1);

/// Adds the handlers of approvals and questions. Both ask the person at the terminal, if there is one.
pub(crate) fn answering(options: SessionOptions, console: &Arc<Console>, work_dir: PathBuf) -> SessionOptions {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return rejecting(options, console, &work_dir);
    }
    crate::console::enable_marks();
    let lines = Mutex::new(Lines { typed: early_lines(), is_withdrawn: false });
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

/// Adds a handler that rejects what the policy does not decide, with a note.
pub(crate) fn rejecting(options: SessionOptions, console: &Arc<Console>, work_dir: &Path) -> SessionOptions {
    let (console, work_dir) = (Arc::clone(console), work_dir.to_owned());
    options.on_approval(move |request| {
        console.note(&rejection(&request, &work_dir));
        async { Ok(Approval::reject(FEEDBACK)) }
    })
}

/// Describes a rejection, and how to allow the action.
fn rejection(request: &ApprovalRequest, work_dir: &Path) -> String {
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
    /// One question at a time.
    lines: Mutex<Lines>,
}

/// The answers.
struct Lines {
    /// The lines that were typed, once a thread reads them.
    typed: Option<mpsc::UnboundedReceiver<String>>,
    /// Whether the last question was withdrawn. Its answer may still be on its way.
    is_withdrawn: bool,
}

/// A request that the person reads. Until it is dropped, others wait, and nothing of the agent is printed.
struct Asked<'a> {
    console: &'a Console,
    lines: MutexGuard<'a, Lines>,
    is_new: bool,
    is_answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.lines.is_withdrawn |= !self.is_answered;
        self.console.end_question(self.is_answered);
    }
}

impl Asked<'_> {
    /// Shows a part of the request, and returns the line that is typed then. `None` at the end of the input.
    async fn line(&mut self, part: &str, choices: &str) -> Option<String> {
        let is_new = std::mem::take(&mut self.is_new);
        if is_new && self.lines.is_withdrawn {
            self.typed("press Enter to see the next question:").await?;
            self.lines.is_withdrawn = false;
        }
        self.console.question(part);
        if is_new {
            tokio::time::sleep(READING_TIME).await;
        }
        self.typed(choices).await
    }

    /// Returns the next line that is typed. Keys that were typed before the choices are shown are not an answer.
    async fn typed(&mut self, choices: &str) -> Option<String> {
        let lines = self.lines.typed.get_or_insert_with(read_lines);
        discard_typed();
        while lines.try_recv().is_ok() {}
        self.console.choices(choices);
        Some(lines.recv().await?.trim().to_owned())
    }

    /// Shows a text in parts, and returns the line that is typed after the last one. `None` at the end of the input, or if the
    /// person reads no further.
    async fn read(&mut self, title: &str, text: &[String], choices: &str) -> Option<String> {
        let pages = pages(text);
        let count = pages.len();
        let mut shown = 0;
        while shown + 1 < count {
            let part = format!("{title} (part {} of {count}):\n{}", shown + 1, pages[shown]);
            match self.line(&part, "[m]ore, [n]o:").await?.to_lowercase().as_str() {
                "m" | "more" => shown += 1,
                "n" | "no" => return None,
                _ => {}
            }
        }
        self.line(&format!("{title}:\n{}", pages[shown]), choices).await
    }
}

impl Person {
    /// Waits until nothing else is asked.
    async fn begin(&self) -> Asked<'_> {
        let lines = self.lines.lock().await;
        self.console.begin_question();
        Asked { console: &self.console, lines, is_new: true, is_answered: false }
    }

    async fn approval(&self, request: &ApprovalRequest) -> Result<Approval, HandlerError> {
        let text = decided(request, &self.work_dir);
        let mut asked = self.begin().await;
        // An action can be approved when all of it was shown.
        let approval = loop {
            let line = asked.read("approve", &text, "[y]es, [n]o, [a]lways in this session:").await;
            match line.map(|line| line.to_lowercase()).as_deref() {
                Some("y" | "yes") => break Approval::Approve,
                Some("a" | "always") => break Approval::ApproveForSession,
                Some("n" | "no") | None => break Approval::Reject { feedback: None },
                Some(_) => {}
            }
        };
        asked.is_answered = true;
        Ok(approval)
    }

    /// Asks the agent's questions. `None` dismisses them.
    async fn answers(&self, request: &QuestionRequest) -> Option<Answers> {
        let mut asked = self.begin().await;
        let answers = asked.answers(request).await;
        asked.is_answered = true;
        answers
    }
}

impl Asked<'_> {
    async fn answers(&mut self, request: &QuestionRequest) -> Option<Answers> {
        let mut answers = Answers::new();
        for question in &request.questions {
            let line = self.read("question", &posed(question), "answer, or nothing to dismiss it:").await;
            let line = line.filter(|line| !line.is_empty())?;
            let number = line.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let chosen = number.and_then(|number| question.options.get(number));
            answers = answers.answer(&question.question, chosen.map_or(line, |option| option.label.clone()));
        }
        Some(answers)
    }
}

/// Returns the lines of a question with its choices.
fn posed(question: &Question) -> Vec<String> {
    let options = question.options.iter().enumerate();
    let choices = options.map(|(at, option)| format!("  {}. {}", at + 1, whole_line(&option.label)));
    std::iter::once(format!("  {}", whole_line(&question.question))).chain(choices).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Answers an approval request with these lines, each at its time in seconds after the question appears.
    async fn answered(is_withdrawn: bool, typed: &[(f64, &'static str)]) -> Approval {
        let (sender, receiver) = mpsc::unbounded_channel();
        let console = Arc::new(Console::new(true));
        let lines = Lines { typed: Some(receiver), is_withdrawn };
        let person = Person { console, work_dir: PathBuf::from("."), lines: Mutex::new(lines) };
        for &(seconds, line) in typed {
            let sender = sender.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                sender.send(line.to_owned())
            });
        }
        drop(sender);
        let request = json!({
            "id": "1", "tool_call_id": "t", "sender": "Shell", "action": "run command", "description": "List", "display": [],
        });
        person.approval(&serde_json::from_value(request).unwrap()).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn keys_before_readable_question() {
        for early in [0.0, 0.3, 0.9] {
            let approval = answered(false, &[(early, "y"), (early, "a"), (2.0, "n")]).await;
            assert_eq!(approval, Approval::Reject { feedback: None }, "{early}");
        }
        assert_eq!(answered(false, &[(1.1, "y")]).await, Approval::Approve);
    }

    #[tokio::test(start_paused = true)]
    async fn answer_to_withdrawn_question() {
        assert_eq!(answered(true, &[(9.0, "y"), (9.5, "y"), (12.0, "n")]).await, Approval::Reject { feedback: None });
        assert_eq!(answered(true, &[(9.0, ""), (12.0, "y")]).await, Approval::Approve);
    }
}
