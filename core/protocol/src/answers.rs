//! The answers to requests of the agent: an approval, answers to questions, the decision of a hook.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::error::Error;
use crate::error::invalid_option;
use crate::wire::Question;

/// What a handler may fail with: any error. Its text reaches the model (from tools) and the program
/// (as [`HandlerFailed`](crate::wire::HandlerFailed)).
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// The answer to an [`ApprovalRequest`](crate::wire::ApprovalRequest).
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::Approval;
/// assert_eq!(Approval::reject("not on a Friday"), Approval::Reject { feedback: Some("not on a Friday".into()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Yes, this once.
    Approve,
    /// Yes, and to all like it in this session.
    ApproveForSession,
    /// No; with feedback the model goes on and takes it into account (from Wire 1.6 on).
    Reject {
        /// What the model is told.
        feedback: Option<String>,
    },
}

impl Approval {
    /// No, with a word to the model.
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

/// An answer that is none of those expected.
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

    /// The error if a handler gave the answer.
    fn returned(self) -> HandlerError {
        let Self { got, expected, what } = self;
        format!("the handler returned {got}; expected {expected} as {what}").into()
    }

    /// The error if `respond()` was called with the answer.
    pub(crate) fn given(self) -> Error {
        let Self { got, expected, what } = self;
        invalid_option("answer", format!("expected {expected} as {what}, got {got}"))
    }
}

/// A text in quotation marks, cut to what an error needs of it.
fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(80).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Answers to a [`QuestionRequest`](crate::wire::QuestionRequest), by the text of the question; several choices are joined by commas.
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
    /// No answers yet; left so, it dismisses the questions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an answer.
    #[must_use]
    pub fn answer(mut self, question: impl Into<String>, label: impl Into<String>) -> Self {
        self.0.insert(question.into(), label.into());
        self
    }

    /// Adds an answer of several choices.
    #[must_use]
    pub fn answer_all<L: AsRef<str>>(self, question: impl Into<String>, labels: impl IntoIterator<Item = L>) -> Self {
        let labels: Vec<String> = labels.into_iter().map(|label| label.as_ref().to_owned()).collect();
        self.answer(question, labels.join(","))
    }

    /// The answer to one question.
    pub fn get(&self, question: &str) -> Option<&str> {
        self.0.get(question).map(String::as_str)
    }

    /// What is wrong with these as answers to these questions: an answer to a question that was not asked, or, unless `free`
    /// allows any text, one that is not among the choices.
    pub fn problem(&self, questions: &[Question], free: bool) -> Option<String> {
        let listed = |texts: &mut dyn Iterator<Item = &str>| texts.map(quoted).collect::<Vec<_>>().join(", ");
        for (text, answer) in &self.0 {
            let Some(question) = questions.iter().find(|question| question.question == *text) else {
                let asked = listed(&mut questions.iter().map(|question| &*question.question));
                return Some(format!("it answers {}, which was not asked; the questions are: {asked}", quoted(text)));
            };
            let is_choice = |answer: &str| question.options.iter().any(|option| option.label == answer);
            let fits = is_choice(answer)
                || question.multi_select == Some(true) && answer.split(',').all(|answer| is_choice(answer.trim()));
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
        const EXPECTED: &str = "an object of answers by question text, or nothing to dismiss";
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

/// What a hook decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookDecision {
    /// Go on.
    Allow,
    /// Do not, for this reason.
    Block(String),
}

/// Reads an answer to an approval request from JSON: `"approve"`, `"approve_for_session"`, `"reject"`, or
/// `{"reject": feedback}`.
///
/// # Errors
/// Names anything else.
pub fn parse_approval(value: &Value) -> Result<Approval, HandlerError> {
    Approval::read(value).map_err(WrongAnswer::returned)
}

/// Reads answers to questions from JSON: null to dismiss the questions, or an object of text or lists of text.
///
/// # Errors
/// Names anything else.
pub fn parse_answers(value: &Value) -> Result<Option<Answers>, HandlerError> {
    Answers::read(value).map_err(WrongAnswer::returned)
}

/// Reads the decision of a hook from JSON: null, true or `"allow"`; or `{"block": reason}`.
///
/// # Errors
/// Names anything else.
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

/// What counts where a hook's function fails or takes too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Go on, as if it had allowed.
    #[default]
    Allow,
    /// Do not go on.
    Block,
}
