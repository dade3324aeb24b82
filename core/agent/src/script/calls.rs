//! Calls of tools in a script.

use serde_json::{Map, Value, json};

use crate::fields::{Fields, Wrong, wrong};
use crate::messages::{ApprovalRequest, Question, ToolReturnValue};

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// The arguments: text unchanged, other values as JSON text.
    pub(crate) arguments: Value,
    /// The number of pieces that the arguments are split into. `None`: they come with the call.
    pub(crate) split: usize,
    pub(crate) does: Does,
}

/// The actions of a tool call.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// One of the agent's own tools.
    Tool {
        /// Fields of the approval request. `None`: no approval is requested.
        approve: Option<Value>,
        effect: Option<Effect>,
        result: Value,
        /// Replaces the result if the call was rejected with feedback.
        feedback_result: Option<Value>,
    },
    /// One of the program's tools.
    External {
        /// Whether to call the tool even if the program does not have it.
        force: bool,
    },
    /// Asks the user.
    Question { questions: Value, request_id: Option<String> },
}

#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) write_file: String,
    pub(crate) content: String,
}

/// One of several calls.
pub(super) fn parallel(fields: &Fields<'_>, n: usize, value: &Value) -> Result<Call, Wrong> {
    let inner = Fields::new(&format!("{}, parallel {n}", fields.place()), value)?;
    let mut names = ["tool_call", "external_tool", "question"].into_iter().filter(|name| inner.has(name));
    let name = names
        .next()
        .ok_or_else(|| wrong(inner.place(), "must be a \"tool_call\", an \"external_tool\" or a \"question\""))?;
    let call = call(name, &inner)?;
    inner.finish()?;
    Ok(call)
}

/// Reads the call in the field with this name.
pub(super) fn call(name: &'static str, fields: &Fields<'_>) -> Result<Call, Wrong> {
    let given = fields.required_object(name)?;
    let call = match name {
        "question" => {
            let questions = questions(&given)?;
            let does = Does::Question { questions: questions.clone(), request_id: given.text("request_id")? };
            Call {
                id: given.text("id")?,
                name: "AskUserQuestion".to_owned(),
                arguments: json!({"questions": questions}),
                split: split(&given)?,
                does,
            }
        }
        _ => Call {
            id: given.text("id")?,
            name: given.required_text("name")?,
            arguments: given.get("arguments").cloned().unwrap_or_else(|| json!({})),
            split: split(&given)?,
            does: if name == "external_tool" {
                Does::External { force: given.flag("force")?.unwrap_or(false) }
            } else {
                Does::Tool {
                    approve: approve(&given)?,
                    effect: effect(&given)?,
                    result: result(&given, "result")?.unwrap_or_else(no_result),
                    feedback_result: result(&given, "feedback_result")?,
                }
            },
        },
    };
    given.finish()?;
    Ok(call)
}

fn split(fields: &Fields<'_>) -> Result<usize, Wrong> {
    let pieces = fields.whole("split")?.unwrap_or(0);
    usize::try_from(pieces).map_err(|_| fields.wrong("split", "must be a number of pieces"))
}

/// An option can be written as its label only.
fn questions(fields: &Fields<'_>) -> Result<Value, Wrong> {
    let mut value = Value::Array(fields.required("questions", fields.list("questions")?)?.clone());
    for question in value.as_array_mut().into_iter().flatten() {
        for option in question.get_mut("options").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::String(label) = option {
                *option = json!({"label": label});
            }
        }
    }
    match serde_path_to_error::deserialize::<_, Vec<Question>>(&value) {
        Ok(_) => Ok(value),
        Err(error) => Err(fields.wrong(&format!("questions{}", error.path()), error.inner())),
    }
}

/// `true`, or the fields of the approval request.
fn approve(fields: &Fields<'_>) -> Result<Option<Value>, Wrong> {
    let given = match fields.get("approve") {
        None | Some(Value::Bool(false) | Value::Null) => return Ok(None),
        Some(Value::Bool(true)) => return Ok(Some(json!({}))),
        Some(_) => fields.required_object("approve")?,
    };
    let mut request = json!({"id": "", "tool_call_id": "", "sender": "", "action": "", "description": ""});
    let mut written = Map::new();
    let names = ["id", "sender", "action", "description", "source_kind", "source_id", "agent_id", "subagent_type"];
    for name in names.into_iter().chain(["source_description", "display", "tool_call"]) {
        if let Some(value) = given.get(name) {
            request[name] = value.clone();
            written.insert(name.to_owned(), value.clone());
        }
    }
    given.finish()?;
    match serde_path_to_error::deserialize::<_, ApprovalRequest>(&request) {
        Ok(_) => Ok(Some(Value::Object(written))),
        Err(error) => Err(given.wrong(&error.path().to_string(), error.inner())),
    }
}

fn effect(fields: &Fields<'_>) -> Result<Option<Effect>, Wrong> {
    let Some(given) = fields.object("effect")? else { return Ok(None) };
    let effect =
        Effect { write_file: given.required_text("write_file")?, content: given.text("content")?.unwrap_or_default() };
    given.finish()?;
    Ok(Some(effect))
}

fn no_result() -> Value {
    json!({"is_error": false, "output": "", "message": "", "display": []})
}

/// Text is the output of a successful call.
fn result(fields: &Fields<'_>, name: &'static str) -> Result<Option<Value>, Wrong> {
    let mut result = no_result();
    match fields.get(name) {
        None => return Ok(None),
        Some(Value::String(output)) => result["output"] = json!(output),
        Some(_) => {
            let given = fields.required_object(name)?;
            for part in ["is_error", "output", "message", "display", "extras"] {
                if let Some(value) = given.get(part) {
                    result[part] = value.clone();
                }
            }
            given.finish()?;
            serde_path_to_error::deserialize::<_, ToolReturnValue>(&result)
                .map_err(|error| given.wrong(&error.path().to_string(), error.inner()))?;
        }
    }
    Ok(Some(result))
}
