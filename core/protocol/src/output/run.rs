//! The state of the structured output of one turn: its value, its failed attempts, and the texts that follow.

use std::sync::Arc;

use serde_json::Value;

use super::error::limited;
use super::plan::listed;
use super::{OutputError, OutputInvalid, OutputPlan, shortened};
use crate::connection::{PromptResult, TurnStatus};
use crate::messages::{Content, ContentPart};

/// The limit of the last attempt's text in an error, in bytes.
const MAX_TEXT: usize = 64 << 10;

/// The state of one turn.
#[derive(Debug)]
pub(crate) struct OutputRun {
    plan: Arc<OutputPlan>,
    /// Whether the model has the tool.
    by_tool: bool,
    value: Option<Value>,
    failures: u32,
    /// The last failed attempt.
    text: String,
    errors: Vec<OutputError>,
}

impl OutputRun {
    pub(crate) fn new(plan: Arc<OutputPlan>, by_tool: bool) -> Self {
        Self { plan, by_tool, value: None, failures: 0, text: String::new(), errors: Vec::new() }
    }

    /// Returns whether the model is to call the tool.
    pub(crate) fn is_by_tool(&self) -> bool {
        self.by_tool
    }

    /// Returns the prompt with the instruction for the model.
    pub(crate) fn instructed(&self, prompt: Content) -> Content {
        if self.by_tool {
            return prompt;
        }
        let spec = self.plan.spec();
        let description = spec.description.as_ref().map(|text| format!("{text}\n\n")).unwrap_or_default();
        let instruction = format!(
            "{description}When the task is done, answer with JSON only, without any other text. The JSON must match this JSON \
             Schema:\n{}",
            spec.schema
        );
        match prompt {
            Content::Text(text) => Content::Text(format!("{text}\n\n{instruction}")),
            Content::Parts(mut parts) => {
                parts.push(ContentPart::text(instruction));
                Content::Parts(parts)
            }
        }
    }

    /// Returns the value in the arguments of a call, or the violations.
    pub(crate) fn read_call(&self, arguments: Option<&str>) -> Result<Value, Vec<OutputError>> {
        self.plan.read_call(arguments)
    }

    /// Returns the value in the answer of a prompt, or the violations. If the model has the tool, its text counts only
    /// after a follow-up, which allows that.
    pub(crate) fn read_answer(&self, text: &str) -> Result<Value, Vec<OutputError>> {
        if !self.by_tool {
            return self.plan.read_text(text);
        }
        let read = if self.failures == 0 { Err(Vec::new()) } else { self.plan.read_text(text) };
        read.map_err(|mut errors| {
            let message = format!("the tool `{}` was not called", self.plan.spec().name);
            errors.insert(0, OutputError::new("", message));
            errors
        })
    }

    /// Stores a valid value. It replaces an earlier value.
    pub(crate) fn accept(&mut self, value: Value) {
        self.value = Some(value);
    }

    /// Counts a failed attempt. Returns whether another one is allowed. After a valid value, none counts.
    pub(crate) fn reject(&mut self, text: &str, errors: Vec<OutputError>) -> bool {
        if self.value.is_some() {
            return true;
        }
        self.failures = self.failures.saturating_add(1);
        self.text = shortened(text, MAX_TEXT);
        self.errors = limited(errors).0;
        self.failures <= self.plan.spec().retries
    }

    pub(crate) fn has_value(&self) -> bool {
        self.value.is_some()
    }

    pub(crate) fn take_value(&mut self) -> Option<Value> {
        self.value.take()
    }

    /// Returns the answer to an invalid call.
    pub(crate) fn refusal(&self, errors: &[OutputError]) -> String {
        let name = &self.plan.spec().name;
        format!("The result is not valid:\n{}\nCorrect it, and call `{name}` again.", listed(errors))
    }

    /// Returns the prompt that asks for the value again.
    pub(crate) fn follow_up(&self) -> String {
        let spec = self.plan.spec();
        if !self.by_tool {
            return format!(
                "Your answer is not valid:\n{}\nAnswer again, with JSON only, which matches the JSON Schema.",
                listed(&self.errors)
            );
        }
        format!(
            "The result is missing:\n{}\nCall the tool `{}` with the complete result. If you do not have this tool, answer with \
             JSON only, which matches this JSON Schema:\n{}",
            listed(&self.errors),
            spec.name,
            spec.schema
        )
    }

    /// Returns the error for a turn without a value. Its result is added at the end of the turn.
    pub(crate) fn invalid(&self) -> OutputInvalid {
        OutputInvalid {
            attempts: self.failures,
            text: self.text.clone(),
            errors: self.errors.clone(),
            result: PromptResult::empty(TurnStatus::Cancelled),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::OutputSpec;

    fn run(by_tool: bool, retries: u32) -> OutputRun {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let spec = OutputSpec { retries, description: Some("A count.".to_owned()), ..OutputSpec::new(schema) };
        OutputRun::new(Arc::new(OutputPlan::new(&spec).expect("a plan")), by_tool)
    }

    #[test]
    fn text_mode_adds_schema_to_prompt() {
        let run_of_text = run(false, 2);
        let text = run_of_text.instructed("Count".into()).text();
        assert!(text.starts_with("Count\n\nA count.\n\nWhen") && text.contains(r#""required":["n"]"#), "{text}");
        let parts = run_of_text.instructed(Content::Parts(vec![ContentPart::text("Count")]));
        assert!(matches!(parts, Content::Parts(parts) if parts.len() == 2));
        assert_eq!(run(true, 2).instructed("Count".into()), "Count".into());
    }

    #[test]
    fn failures_beyond_retries_end_attempts() {
        let mut run = run(false, 1);
        let errors = run.read_answer("{\"n\": \"1\"}").expect_err("violations");
        assert!(run.reject("{\"n\": \"1\"}", errors));
        assert!(run.follow_up().contains("- /n: want integer, but got string"));
        let errors = run.read_answer("Done.").expect_err("no value");
        assert!(!run.reject("Done.", errors));
        let invalid = run.invalid();
        assert_eq!((invalid.attempts, invalid.text.as_str(), invalid.errors.len()), (2, "Done.", 1));
    }

    #[test]
    fn value_outlives_later_failures() {
        let mut run = run(true, 0);
        let value = run.read_call(Some("{\"n\": 1}")).expect("a value");
        run.accept(value);
        assert!(run.reject("{}", vec![OutputError::new("", "wrong")]));
        run.accept(json!({"n": 2}));
        assert_eq!(run.take_value(), Some(json!({"n": 2})));
    }

    #[test]
    fn tool_mode_reads_text_after_nudge() {
        let mut run = run(true, 2);
        let errors = run.read_answer("{\"n\": 1}").expect_err("no call");
        assert_eq!(errors[0].message, "the tool `final_result` was not called");
        assert!(run.reject("{\"n\": 1}", errors));
        assert!(run.follow_up().contains("Call the tool `final_result`"));
        let errors = run.read_answer("{\"n\": \"1\"}").expect_err("violations");
        assert_eq!(errors[0].message, "the tool `final_result` was not called");
        assert_eq!(errors[1].pointer, "/n");
        assert_eq!(run.read_answer("{\"n\": 1}"), Ok(json!({"n": 1})));
    }

    #[test]
    fn long_attempt_is_cut() {
        let mut run = run(false, 0);
        let text = "é".repeat(1 << 20);
        run.reject(&text, vec![OutputError::new("", "x".repeat(10_000))]);
        let invalid = run.invalid();
        assert!(invalid.text.len() < 65 << 10 && invalid.errors[0].message.len() < 400);
    }
}
