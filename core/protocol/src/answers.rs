//! The answers to requests of the agent: an approval, answers to questions, the decision of a hook.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::error::invalid_option;
use crate::messages::{Question, TerminalResult};

/// The error of a handler: any error. Its text reaches the model (from tools) and the program
/// (as [`HandlerFailed`](crate::messages::HandlerFailed)).
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// The error of a handler in a host language. Its text is that of the exception, which the model reads. The program also gets the
/// class.
#[derive(Debug)]
pub struct HostError {
    text: String,
    /// The text for the program, if it is another one.
    reported: Option<String>,
}

impl HostError {
    /// Makes the error of an exception of this class, which is left out if it says nothing.
    pub fn new(text: String, class: Option<String>) -> Self {
        let reported = class.map(|class| format!("{class}: {text}"));
        Self { text, reported }
    }

    /// Makes the error for an answer that cannot be sent. The model does not read the text, which is advice for programmers.
    pub fn unsendable(reported: String) -> Self {
        Self { text: "the handler returned a value that cannot be sent".to_owned(), reported: Some(reported) }
    }

    /// Returns the text for the program: that of the error, after its class if it is known.
    pub fn reported(error: &HandlerError) -> String {
        let own = error.downcast_ref::<Self>().and_then(|error| error.reported.clone());
        own.unwrap_or_else(|| error.to_string())
    }
}

impl std::fmt::Display for HostError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for HostError {}

/// The answer to an [`ApprovalRequest`](crate::messages::ApprovalRequest).
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::Approval;
/// assert_eq!(Approval::reject("not on a Friday"), Approval::Reject { feedback: Some("not on a Friday".into()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// The action is approved once.
    Approve,
    /// The action is approved, and so are similar actions in this session.
    ApproveForSession,
    /// The action is rejected. With feedback the model continues and considers it (from Wire 1.6 on).
    Reject {
        /// The text that the model reads.
        feedback: Option<String>,
    },
}

impl Approval {
    /// Makes a rejection with feedback, which the model reads.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::Approval;
    /// let answer = Approval::reject("use git instead");
    /// ```
    pub fn reject(feedback: impl Into<String>) -> Self {
        Self::Reject { feedback: Some(feedback.into()) }
    }

    pub(crate) fn read(value: &Value) -> Result<Self, WrongAnswer> {
        match value {
            Value::String(word) if word == "approve" => Ok(Self::Approve),
            Value::String(word) if word == "approve_for_session" => Ok(Self::ApproveForSession),
            Value::String(word) if word == "reject" => Ok(Self::Reject { feedback: None }),
            Value::Object(map) if map.len() == 1 => match map.get("reject") {
                Some(Value::String(feedback)) => Ok(Self::reject(feedback)),
                _ => Err(WrongAnswer::new("an approval", value, APPROVALS)),
            },
            _ => Err(WrongAnswer::new("an approval", value, APPROVALS)),
        }
    }
}

const APPROVALS: &str = "\"approve\", \"approve_for_session\", \"reject\" or a Reject with feedback";

/// The error for an answer of a wrong type or value.
pub(crate) struct WrongAnswer {
    got: String,
    expected: &'static str,
    what: &'static str,
}

impl WrongAnswer {
    fn new(what: &'static str, got: &Value, expected: &'static str) -> Self {
        let mut got = if got.is_null() { "nothing".to_owned() } else { got.to_string() };
        if got.len() > 200 {
            let end = (0..=200).rev().find(|&at| got.is_char_boundary(at)).unwrap_or(0);
            got.truncate(end);
            got.push('…');
        }
        Self { got, expected, what }
    }

    /// Converts it to the error of a handler that gave the answer.
    fn returned(self) -> HandlerError {
        let Self { got, expected, what } = self;
        format!("the handler returned {got}; expected {expected} as {what}").into()
    }

    /// Converts it to the error of `respond()`.
    pub(crate) fn given(self) -> Error {
        let Self { got, expected, what } = self;
        invalid_option("answer", format!("expected {expected} as {what}, got {got}"))
    }
}

/// The limit of questions or choices that an error lists.
const MAX_LISTED: usize = 20;

/// Returns a text in quotation marks, shortened for an error.
fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(80).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Answers to a [`QuestionRequest`](crate::messages::QuestionRequest), by the text of the question; several choices are joined by commas.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::Answers;
/// let answers = Answers::new().answer("Which language?", "Rust");
/// assert_eq!(answers.get("Which language?"), Some("Rust"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Answers(BTreeMap<String, String>);

impl Answers {
    /// Makes an object without answers. As an answer it dismisses the questions.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::Answers;
    /// assert_eq!(Answers::new().get("Which language?"), None);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the answer to a question: the label of a choice, or other text.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::Answers;
    /// let answers = Answers::new().answer("Which language?", "Rust").answer("Which database?", "SQLite");
    /// assert_eq!(answers.get("Which database?"), Some("SQLite"));
    /// ```
    #[must_use]
    pub fn answer(mut self, question: impl Into<String>, label: impl Into<String>) -> Self {
        self.0.insert(question.into(), label.into());
        self
    }

    /// Adds the answer to a question that allows several choices.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::Answers;
    /// let answers = Answers::new().answer_all("Which languages?", ["Rust", "Python"]);
    /// assert_eq!(answers.get("Which languages?"), Some("Rust,Python"));
    /// ```
    #[must_use]
    pub fn answer_all<L: AsRef<str>>(self, question: impl Into<String>, labels: impl IntoIterator<Item = L>) -> Self {
        let labels: Vec<String> = labels.into_iter().map(|label| label.as_ref().to_owned()).collect();
        self.answer(question, labels.join(","))
    }

    /// Returns the answer to a question.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::Answers;
    /// assert_eq!(Answers::new().answer("Sure?", "yes").get("Sure?"), Some("yes"));
    /// ```
    pub fn get(&self, question: &str) -> Option<&str> {
        self.0.get(question).map(String::as_str)
    }

    /// Returns the problem of these answers to these questions: an answer to a question that was not asked, or, unless `free`
    /// allows any text, one that is not among the choices.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::Answers;
    /// let problem = Answers::new().answer("Sure?", "yes").problem(&[], true);
    /// assert!(problem.unwrap().contains("was not asked"));
    /// ```
    pub fn problem(&self, questions: &[Question], free: bool) -> Option<String> {
        let listed = |texts: &mut dyn Iterator<Item = &str>| {
            let texts: Vec<&str> = texts.collect();
            let mut shown: Vec<_> = texts.iter().take(MAX_LISTED).map(|text| quoted(text)).collect();
            if texts.len() > MAX_LISTED {
                shown.push(format!("{} more", texts.len() - MAX_LISTED));
            }
            shown.join(", ")
        };
        // Of several questions with the same text, the first one is meant.
        let by_text: HashMap<_, _> = questions.iter().rev().map(|question| (&*question.question, question)).collect();
        for (text, answer) in &self.0 {
            let Some(question) = by_text.get(&**text) else {
                let asked = listed(&mut questions.iter().map(|question| &*question.question));
                return Some(format!("it answers {}, which was not asked; the questions are: {asked}", quoted(text)));
            };
            let is_choice = |answer: &str| question.options.iter().any(|option| option.label == answer);
            let labels: Vec<&str> = question.options.iter().map(|option| &*option.label).collect();
            let fits = is_choice(answer) || question.multi_select == Some(true) && labels_in(answer, &labels).is_some();
            if !free && !fits && !question.options.is_empty() {
                let choices = listed(&mut question.options.iter().map(|option| &*option.label));
                return Some(format!(
                    "{} is not among the choices of {}; the choices are: {choices}",
                    quoted(answer),
                    quoted(text)
                ));
            }
        }
        None
    }

    pub(crate) fn read(value: &Value) -> Result<Option<Self>, WrongAnswer> {
        const EXPECTED: &str = "an object of answers by question text, or nothing for a dismissal,";
        let map = match value {
            Value::Null => return Ok(None),
            Value::Object(map) => map,
            _ => return Err(WrongAnswer::new("the answer to a question", value, EXPECTED)),
        };
        let mut answers = Self::new();
        for (question, answer) in map {
            answers = match answer {
                Value::String(label) => answers.answer(question, label),
                Value::Array(labels) if labels.iter().all(Value::is_string) => {
                    answers.answer_all(question, labels.iter().filter_map(Value::as_str))
                }
                _ => return Err(WrongAnswer::new("the answer to a question", value, EXPECTED)),
            };
        }
        Ok(Some(answers))
    }
}

/// The limit of comparisons, in bytes, when an answer is taken apart. An answer that needs more names no choices.
const MAX_COMPARED: usize = 20_000_000;

/// Returns the positions of the labels in an answer that joins several labels by commas. Labels may contain commas.
/// `None` if the answer contains anything else.
pub(crate) fn labels_in(answer: &str, labels: &[&str]) -> Option<Vec<usize>> {
    let whole = labels.iter().position(|label| *label == answer);
    if let Some(place) = whole {
        return Some(vec![place]);
    }
    let starts: Vec<usize> = std::iter::once(0).chain(answer.match_indices(',').map(|(at, _)| at + 1)).collect();
    let compared = labels.iter().map(|label| label.len() + 1).sum::<usize>().saturating_mul(starts.len());
    if compared > MAX_COMPARED {
        return None;
    }
    // By start: the label, and the start of the next one, if the rest of the answer can be read.
    let mut found: BTreeMap<usize, (usize, Option<usize>)> = BTreeMap::new();
    for &start in starts.iter().rev() {
        let text = answer[start..].trim_start();
        let readable = labels.iter().enumerate().find_map(|(place, label)| {
            let rest = text.strip_prefix(label.trim())?.trim_start();
            let next = answer.len() - rest.len() + 1;
            match rest.is_empty() {
                true => Some((place, None)),
                false => (rest.starts_with(',') && found.contains_key(&next)).then_some((place, Some(next))),
            }
        });
        found.extend(readable.map(|label| (start, label)));
    }
    let mut places = Vec::new();
    let mut start = Some(0);
    while let Some(at) = start {
        let (place, next) = found.get(&at)?;
        places.push(*place);
        start = *next;
    }
    Some(places)
}

/// The decision of a hook.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::HookDecision;
/// let decision = HookDecision::Block("nothing is deleted here".into());
/// # drop(decision);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookDecision {
    /// The action is allowed.
    Allow,
    /// The action is blocked, for this reason.
    Block(String),
}

/// Reads an answer to an approval request from JSON: `"approve"`, `"approve_for_session"`, `"reject"`, or
/// `{"reject": feedback}`.
///
/// # Errors
/// Describes any other value.
pub fn parse_approval(value: &Value) -> Result<Approval, HandlerError> {
    Approval::read(value).map_err(WrongAnswer::returned)
}

/// Reads answers to questions from JSON: null to dismiss the questions, or an object of text or lists of text.
///
/// # Errors
/// Describes any other value.
pub fn parse_answers(value: &Value) -> Result<Option<Answers>, HandlerError> {
    Answers::read(value).map_err(WrongAnswer::returned)
}

/// Reads the decision of a hook from JSON: null, true or `"allow"`; or `{"block": reason}`.
///
/// # Errors
/// Describes any other value.
pub fn parse_hook_decision(value: &Value) -> Result<HookDecision, HandlerError> {
    let wrong =
        || WrongAnswer::new("a hook's decision", value, "nothing, \"allow\" or a Block with a reason").returned();
    match value {
        Value::Null | Value::Bool(true) => Ok(HookDecision::Allow),
        Value::String(word) if word == "allow" => Ok(HookDecision::Allow),
        Value::Object(map) if map.len() == 1 => match map.get("block") {
            Some(Value::String(reason)) => Ok(HookDecision::Block(reason.clone())),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// Reads the text of a file from JSON: text, or null if the file does not exist.
///
/// # Errors
/// Describes any other value.
pub fn parse_file(value: Value) -> Result<Option<String>, HandlerError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        other => {
            const WHAT: &str = "the content of a file, or nothing if the file does not exist";
            Err(WrongAnswer::new(WHAT, &other, "text").returned())
        }
    }
}

/// Reads the outcome of a command from JSON.
///
/// # Errors
/// Describes any other value, and missing or unknown fields.
pub fn parse_terminal_result(value: Value) -> Result<TerminalResult, HandlerError> {
    const EXPECTED: &str = "an object with `output`, and with `exit_code` or `signal`,";
    let result: Result<TerminalResult, _> = TerminalResult::deserialize(&value);
    match result {
        Ok(result) if result.extra.is_empty() => Ok(result),
        _ => Err(WrongAnswer::new("the outcome of a command", &value, EXPECTED).returned()),
    }
}

/// The decision if a hook's handler fails or takes too long.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// assert_eq!(kimi_agent::OnError::default(), kimi_agent::OnError::Allow);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The hook allows the action.
    #[default]
    Allow,
    /// The hook blocks the action.
    Block,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_in_answer_may_contain_commas() {
        let labels = ["a", "b, c", "b", " d"];
        for (answer, expected) in [
            ("a", Some(vec![0])),
            ("b, c,a", Some(vec![1, 0])),
            ("a , b, c", Some(vec![0, 1])),
            ("b,a", Some(vec![2, 0])),
            ("a, d", Some(vec![0, 3])),
            ("b, x", None),
            ("", None),
            ("a,", None),
        ] {
            assert_eq!(labels_in(answer, &labels), expected, "{answer}");
        }
        let long = vec!["a"; 100_000].join(",");
        assert_eq!(labels_in(&long, &labels).map(|places| places.len()), Some(100_000));
    }
}
