//! Structured output: the first line is a JSON Schema, each further line an answer of the model, or the arguments of a call.

use std::sync::Arc;

use serde_json::Value;

use crate::output::{OutputError, OutputPlan, OutputRun, OutputSpec};

/// The limit of answers, because each may take all of the work that a check is allowed.
const MAX_ANSWERS: usize = 8;
/// The limit of a problem's text, in bytes.
const LONGEST: usize = 4096;

pub(super) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let Some(schema) = lines.next().and_then(|line| serde_json::from_str(line).ok()) else { return };
    let spec = OutputSpec::new(schema);
    let plan = match OutputPlan::new(&spec) {
        Ok(plan) => plan,
        Err(problem) => {
            assert!(!problem.is_empty() && problem.len() < LONGEST, "{problem}");
            assert_eq!(OutputPlan::new(&spec).err(), Some(problem));
            return;
        }
    };
    if let Err(problem) = OutputPlan::new(&OutputSpec::new(plan.tool().parameters)) {
        panic!("the schema is valid, that of its tool is not: {problem}");
    }
    let run = OutputRun::new(Arc::new(plan), false);
    for line in lines.take(MAX_ANSWERS) {
        check_answer(&run, line);
    }
}

/// A value that is accepted once is accepted again, and each violation has a place in the value.
fn check_answer(run: &OutputRun, text: &str) {
    let read = run.read_answer(text);
    if read.as_ref().is_err_and(|errors| errors.iter().any(is_too_complex)) {
        return;
    }
    assert_eq!(read, run.read_answer(text));
    match read {
        Ok(value) => check_accepted(run, value),
        Err(errors) => {
            assert!(!errors.is_empty(), "{text}");
            let value = serde_json::from_str::<Value>(text).ok();
            for error in value.iter().flat_map(|value| errors.iter().map(move |error| (value, error))) {
                assert!(error.0.pointer(&error.1.pointer).is_some(), "{error:?}");
            }
        }
    }
    if let Ok(value) = run.read_call(Some(text)) {
        check_accepted(run, value);
    }
}

fn check_accepted(run: &OutputRun, value: Value) {
    assert_eq!(run.read_answer(&value.to_string()), Ok(value));
}

fn is_too_complex(error: &OutputError) -> bool {
    error.message.contains("too complex")
}
