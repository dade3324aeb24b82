//! The history of a session: as the transcript with turns, steps and frames, and as messages.

use serde_json::{Value, json};

use super::super::super::history::Record;
use super::words::{blocks, output};

/// The kind of a record that says how a turn ended.
pub(super) const TURN_OVER: &str = "turn.over";

/// The items of `GET …/transcript`.
pub(super) fn turns(records: &[Record]) -> Vec<Value> {
    let mut turns: Vec<Value> = Vec::new();
    for Record { kind, payload, request_id } in records {
        if request_id.is_some() {
            continue;
        }
        if kind == "TurnBegin" {
            let number = turns.len();
            turns.push(json!({"kind": "turn", "turnId": format!("t{number}"), "ordinal": number, "state": "completed",
                "origin": {"kind": "user", "payload": {"kind": "user"}},
                "triggerPromptId": payload["prompt_id"], "prompt": super::text_of(&payload["user_input"]), "steps": []}));
            continue;
        }
        let number = turns.len().saturating_sub(1);
        if kind == TURN_OVER {
            if let Some(turn) = turns.last_mut() {
                over(turn, payload);
            }
            continue;
        }
        let Some(steps) = turns.last_mut().and_then(|turn| turn["steps"].as_array_mut()) else { continue };
        match kind.as_str() {
            "StepBegin" => steps.push(json!({"kind": "step", "stepId": format!("t{number}.{}", payload["n"]),
                "turnId": format!("t{number}"), "ordinal": payload["n"], "state": "completed", "frames": []})),
            "SteerInput" => {
                let text = super::text_of(&payload["user_input"]);
                add(steps, json!({"kind": "text", "role": "user", "text": text}));
            }
            "ContentPart" if payload["type"] == "think" => {
                add(steps, json!({"kind": "thinking", "text": payload["think"]}));
            }
            "ContentPart" => add(steps, json!({"kind": "text", "role": "assistant", "text": payload["text"]})),
            "ToolCall" => {
                let function = &payload["function"];
                let input = function["arguments"].as_str().unwrap_or_default();
                let input: Value = serde_json::from_str(input).unwrap_or_else(|_| json!(input));
                add(
                    steps,
                    json!({"kind": "tool", "toolCallId": payload["id"], "name": function["name"], "state": "running",
                        "input": input}),
                );
            }
            "ToolResult" => {
                let frames = steps.iter_mut().rev().filter_map(|step| step["frames"].as_array_mut()).flatten();
                let mut calls = frames.filter(|frame| frame["toolCallId"] == payload["tool_call_id"]);
                if let Some(call) = calls.find(|call| call["state"] == "running") {
                    let result = &payload["return_value"];
                    call["state"] = json!(if result["is_error"] == true { "error" } else { "done" });
                    call["output"] = output(result);
                }
            }
            "StatusUpdate" => {
                if let (Some(step), Some(usage)) = (steps.last_mut(), super::usage_of(payload)) {
                    step["usage"] = json!(usage);
                }
            }
            _ => {}
        }
    }
    turns
}

fn over(turn: &mut Value, payload: &Value) {
    turn["state"] = payload["reason"].clone();
    if let Some(error) = payload["error"].as_object() {
        let [code, message] = ["code", "message"].map(|name| error[name].as_str().unwrap_or_default());
        turn["error"] = json!(format!("[{code}] {message}"));
    }
    if payload["is_interrupted"] == true
        && let Some(step) = turn["steps"].as_array_mut().and_then(|steps| steps.last_mut())
    {
        step["state"] = json!("interrupted");
    }
}

/// The texts of a step are in the transcript once the model's answer is complete. Removes the incomplete texts, and
/// returns the thinking and the text of the step.
pub(super) fn take_running(turn: &mut Value) -> [String; 2] {
    let step = turn["steps"].as_array_mut().and_then(|steps| steps.last_mut());
    let Some(frames) = step.and_then(|step| step["frames"].as_array_mut()) else { return Default::default() };
    let text = |kind: &str| {
        let own = frames.iter().filter(|frame| frame["kind"] == kind && frame["role"] != "user");
        own.filter_map(|frame| frame["text"].as_str()).collect::<String>()
    };
    let texts = [text("thinking"), text("text")];
    if frames.iter().all(|frame| frame["kind"] != "tool") {
        frames.retain(|frame| frame["role"] == "user");
    }
    texts
}

/// Returns a page of turns, and whether there are more: the last turns, or the turns after a turn.
pub(super) fn page(mut turns: Vec<Value>, query: &str) -> (Vec<Value>, bool) {
    let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let size = field("page_size").and_then(|size| size.parse().ok()).unwrap_or(50);
    if let Some(after) = field("after_turn").and_then(|turn| turn.strip_prefix('t')?.parse::<i64>().ok()) {
        turns.retain(|turn| turn["ordinal"].as_i64() > Some(after));
        let has_more = turns.len() > size;
        turns.truncate(size);
        return (turns, has_more);
    }
    let first = turns.len().saturating_sub(size);
    (turns.split_off(first), first > 0)
}

/// Adds a frame to the last step, with its number.
fn add(steps: &mut [Value], mut frame: Value) {
    let Some(step) = steps.last_mut() else { return };
    let place = step["frames"].as_array().map_or(0, Vec::len) + 1;
    let id = match frame["toolCallId"].as_str() {
        Some(call) => format!("{}.{call}", step["stepId"].as_str().unwrap_or_default()),
        None => format!("{}.f{place}", step["stepId"].as_str().unwrap_or_default()),
    };
    if let Some(fields) = frame.as_object_mut() {
        fields.shift_insert(1, "frameId".to_owned(), json!(id));
    }
    if let Some(frames) = step["frames"].as_array_mut() {
        frames.push(frame);
    }
}

/// Returns the items of `GET …/messages`, the newest first.
pub(super) fn messages(session: &str, records: &[Record]) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for Record { kind, payload, request_id } in records {
        let (role, content) = match (kind.as_str(), request_id) {
            ("TurnBegin", None) => ("user", blocks(&payload["user_input"])),
            ("ContentPart", None) if payload["type"] == "think" => {
                ("assistant", json!([{"type": "thinking", "thinking": payload["think"]}]))
            }
            ("ContentPart", None) => ("assistant", json!([{"type": "text", "text": payload["text"]}])),
            _ => continue,
        };
        let more = content.as_array().cloned().unwrap_or_default();
        match messages.last_mut().filter(|last| role == "assistant" && last["role"] == role) {
            Some(last) => {
                if let Some(content) = last["content"].as_array_mut() {
                    content.extend(more);
                }
            }
            None => {
                let id = format!("msg_{session}_{:06}", messages.len());
                messages.push(json!({"id": id, "session_id": session, "role": role, "content": more}));
            }
        }
    }
    messages.reverse();
    messages
}

/// Returns where the last `count` turns begin. `None` if there are fewer.
pub(super) fn before(records: &[Record], count: usize) -> Option<usize> {
    let begins: Vec<usize> = (0..records.len()).filter(|place| records[*place].kind == "TurnBegin").collect();
    begins.len().checked_sub(count.max(1)).map(|at| begins[at])
}
