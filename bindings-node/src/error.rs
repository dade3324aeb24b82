//! The core's errors for JavaScript: a typed object, thrown or as part of another value.

use kimi_agent::{Error, printable};
use kimi_agent_bridge::{Naming, error_text, spelled};
use napi::Env;
use napi::bindgen_prelude::JsValue;
use napi_derive::napi;

use crate::delivery::to_json;

/// An error of the core. `lib/errors.ts` makes the public class of it.
#[napi(object, object_from_js = false)]
pub struct NativeError {
    /// The stable name, the same in every language.
    pub code: String,
    /// The text. Of an agent's answer it is only what the agent says, without the hint.
    pub message: String,
    /// Whether the same call can succeed later.
    pub retryable: bool,
    /// Of `invalid_option` and `budget_exceeded`: the option, as it is named in Node.
    pub option: Option<String>,
    /// Of `agent_exited`: the exit code, unless a signal ended the process.
    pub exit_code: Option<i32>,
    /// Of `agent_exited`: the signal that ended the process.
    pub signal: Option<String>,
    /// Of `agent_exited`: the end of what the agent wrote to stderr.
    pub stderr: Option<String>,
    /// Of an agent's answer: its number.
    pub rpc_code: Option<i64>,
    /// Of an agent's answer: what it attached, as JSON.
    pub data: Option<String>,
    /// Of an agent's answer: what to do about it.
    pub hint: Option<String>,
    /// Of `budget_exceeded`: what was exceeded.
    pub budget: Option<ExceededBudget>,
    /// Of `output_invalid`: the attempts.
    pub output: Option<InvalidOutput>,
    /// Of an error of the model's service: the HTTP status.
    pub status: Option<u16>,
    /// Of an error of the model's service: the seconds until the next attempt.
    pub retry_after: Option<f64>,
    /// Of `auth_expired`: the ways to log in, as JSON.
    pub methods_json: Option<String>,
    /// Of an error that ended a turn: the result of the turn up to its end, as JSON.
    pub result_json: Option<String>,
}

/// A budget that a turn has exceeded.
#[napi(object, object_from_js = false)]
pub struct ExceededBudget {
    /// The name of the limit, as it is written in Node.
    pub counter: String,
    /// The limit.
    pub limit: f64,
    /// The amount that was used.
    pub used: f64,
    /// The result of the turn up to its end, as JSON.
    pub result_json: String,
}

/// The end of a turn without a valid value of structured output.
#[napi(object, object_from_js = false)]
pub struct InvalidOutput {
    /// How many values were invalid or missing.
    pub attempts: u32,
    /// The last attempt.
    pub text: String,
    /// The violations of the last attempt.
    pub errors: Vec<OutputError>,
    /// The result of the turn up to its end, as JSON.
    pub result_json: String,
}

/// A violation in a value of structured output.
#[napi(object, object_from_js = false)]
pub struct OutputError {
    /// The place, as a JSON Pointer.
    pub pointer: String,
    /// The violation.
    pub message: String,
}

impl From<kimi_agent::OutputError> for OutputError {
    fn from(error: kimi_agent::OutputError) -> Self {
        Self { pointer: error.pointer, message: error.message }
    }
}

impl From<&Error> for NativeError {
    fn from(error: &Error) -> Self {
        let message = error_text(error, Naming::Camel);
        let mut native = Self {
            code: error.code().to_owned(),
            message,
            retryable: error.is_retryable(),
            option: None,
            exit_code: None,
            signal: None,
            stderr: None,
            rpc_code: None,
            data: None,
            hint: None,
            budget: None,
            output: None,
            status: None,
            retry_after: None,
            methods_json: None,
            result_json: match error {
                Error::BudgetExceeded(_) | Error::OutputInvalid(_) => None,
                _ => error.result().map(to_json),
            },
        };
        match spelled(error.clone(), Naming::Camel) {
            Error::InvalidOption { option, .. } => native.option = Some(option),
            Error::AgentExited(exit) => {
                native.exit_code = exit.exit_code;
                native.signal = exit.signal;
                native.stderr = Some(exit.stderr);
            }
            Error::BudgetExceeded(exceeded) => {
                native.option = Some(Naming::Camel.name(exceeded.option));
                native.budget = Some(ExceededBudget {
                    counter: Naming::Camel.name(exceeded.counter.as_str()),
                    limit: exceeded.limit,
                    used: exceeded.used,
                    result_json: to_json(&exceeded.result),
                });
            }
            Error::OutputInvalid(invalid) => {
                native.output = Some(InvalidOutput {
                    attempts: invalid.attempts,
                    text: invalid.text,
                    errors: invalid.errors.into_iter().map(OutputError::from).collect(),
                    result_json: to_json(&invalid.result),
                });
            }
            Error::Rpc(answer) => {
                native.status = answer.status();
                native.retry_after = answer.retry_after().map(|delay| delay.as_secs_f64());
                native.methods_json = (!answer.methods.is_empty()).then(|| to_json(&answer.methods));
                native.message = printable(&answer.message).into_owned();
                native.rpc_code = answer.rpc_code;
                native.data = answer.data.map(|data| data.to_value().to_string());
                native.hint = answer.hint.map(Into::into);
            }
            _ => {}
        }
        native
    }
}

/// A JavaScript `Error` with the core's error as its property `native`, to be returned from a call and thrown by it.
pub(crate) fn thrown(env: &Env, error: &Error) -> napi::Error {
    let make = || {
        let native = NativeError::from(error);
        let mut object = env.create_error(napi::Error::from_reason(native.message.clone()))?;
        object.set("native", native)?;
        Ok(object.to_unknown().into())
    };
    make().unwrap_or_else(|failure: napi::Error| failure)
}

/// Has an error of the core's thrown.
pub(crate) trait OrThrow<T> {
    fn or_throw(self, env: &Env) -> napi::Result<T>;
}

impl<T> OrThrow<T> for Result<T, Error> {
    fn or_throw(self, env: &Env) -> napi::Result<T> {
        self.map_err(|error| thrown(env, &error))
    }
}
