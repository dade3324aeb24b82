//! The trace: one JSON object a line, keys in alphabetical order, the same in every language.

use std::io::Write;

use kimi_agent::wire::Event;
use kimi_agent::{Error, PromptResult};
use kimi_agent_client::host::error_fields;
use serde_json::{Map, Value, json};

/// Writes a line at once: a runner may be ended at any moment.
pub(crate) fn print(line: &Value) {
    let mut out = std::io::stdout().lock();
    // Without a reader the line is lost.
    drop(writeln!(out, "{}", sorted(line)).and_then(|()| out.flush()));
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// An event as the wire has it: one of an unknown type stands as what it was.
pub(crate) fn canonical(event: &Event) -> Value {
    let mut value = serde_json::to_value(event).unwrap_or_else(|error| json!({"unwritable": error.to_string()}));
    unwrap_unknown(&mut value);
    value
}

fn unwrap_unknown(event: &mut Value) {
    if event["type"] == "UnknownEvent" {
        *event = event["payload"].take();
    } else if event["type"] == "SubagentEvent" {
        unwrap_unknown(&mut event["payload"]["event"]);
    }
}

pub(crate) fn print_event(event: &Event) {
    print(&json!({"event": canonical(event)}));
}

/// The last line of an operation: what it gave, or `ok` where there is nothing to give.
pub(crate) fn print_done(op: &Value, outputs: Value) {
    let mut line = Map::from_iter([("op".to_owned(), op["op"].clone())]);
    match outputs {
        Value::Object(outputs) => line.extend(outputs),
        _ => drop(line.insert("ok".to_owned(), json!(true))),
    }
    print(&Value::Object(line));
}

/// The last line of an operation that failed. Texts differ between systems: they are there only if asked for.
pub(crate) fn print_error(op: &Value, error: &Error) {
    let mut line = json!({"op": op["op"], "error": error.code()});
    let fields = error_fields(error);
    for name in ["exit_code", "signal", "rpc_code", "option"] {
        if let Some(value) = fields.get(name).filter(|value| !value.is_null()) {
            line[name] = value.clone();
        }
    }
    if op["message"] == true {
        line["message"] = json!(error.to_string());
    }
    if op["fields"] == true {
        let told = |name: &str| fields.get(name).filter(|value| !value.is_null()).cloned();
        let names = ["message", "data", "stderr", "steps", "counter", "limit", "used", "attempts", "text", "errors"];
        line["fields"] = names.into_iter().filter_map(|name| Some((name.to_owned(), told(name)?))).collect();
        if let Error::Rpc(answer) = error
            && !answer.methods.is_empty()
        {
            line["fields"]["methods"] = json!(*answer.methods);
        }
        if let Error::BudgetExceeded(exceeded) = error {
            line["fields"]["result"] = outcome(&exceeded.result);
        }
        if let Error::OutputInvalid(invalid) = error {
            line["fields"]["result"] = outcome(&invalid.result);
        }
    }
    if op["ended"] == true {
        let mut ended = json!({"retryable": error.is_retryable()});
        for name in ["status", "retry_after"] {
            if let Some(value) = fields.get(name).filter(|value| !value.is_null()) {
                ended[name] = value.clone();
            }
        }
        if let Some(result) = error.result() {
            ended["text"] = json!(result.text);
        }
        line["ended"] = ended;
    }
    print(&line);
}

pub(crate) fn outcome(result: &PromptResult) -> Value {
    let mut line = json!({"status": result.status, "steps": result.steps, "text": result.text, "usage": result.usage});
    if let Some(output) = &result.output {
        line["output"] = output.clone();
    }
    line
}

/// The same with the turn's tool calls, rejections and failures.
pub(crate) fn detailed_outcome(result: &PromptResult) -> Value {
    let mut line = outcome(result);
    let mut calls = json!(result.tool_calls);
    for call in calls.as_array_mut().into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            let timed = call.remove("duration").is_some();
            call.insert("timed".to_owned(), timed.into());
        }
    }
    line["tool_calls"] = calls;
    line["rejected"] = json!(result.rejected);
    line["handler_failures"] = json!(result.handler_failures);
    if let Some(plan) = &result.plan {
        line["plan"] = json!(plan);
    }
    if let Some(cost) = &result.cost {
        line["cost"] = json!(cost);
    }
    line
}

/// Prints the tool call that the SDK has added to an event, if there is one.
pub(crate) fn print_tool_call(event: &Event) {
    let call = match event {
        Event::ApprovalRequest(request) => request.tool_call.get(),
        Event::ToolResult(result) => result.tool_call.get(),
        Event::SubagentEvent(subagent) => return print_tool_call(&subagent.event),
        _ => None,
    };
    if let Some(call) = call {
        print(&json!({"tool_call": call}));
    }
}
