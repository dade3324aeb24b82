//! The results of tools of the program that replace the recorded ones in the messages of the agent.
//!
//! Over Wire, the result of a tool has the id of its call. Over ACP, the agent calls the tools of the program over MCP,
//! and the two protocols share no id. So an update of a tool call belongs to the call over MCP whose recorded text it
//! shows, preferably with the same arguments or the name of the tool.

use std::collections::{HashMap, HashSet};

use kimi_agent_protocol::recording::Places;
use serde_json::{Value, json};

use super::mcp::{recorded_result, shown_result};
use super::plan::{Plan, StepKind};
use super::player::ToolAnswer;

/// The results that replace recorded ones.
#[derive(Debug, Default)]
pub(super) struct Stubs {
    /// Over Wire: the results that came, by the ids of their tool calls.
    returned: HashMap<String, Value>,
    /// Over ACP: the call over MCP of each update that shows a result, by the step of the update.
    updates: HashMap<usize, Shown>,
}

/// A recorded result that an update shows.
#[derive(Clone, Debug)]
struct Shown {
    /// The id of the call over MCP.
    call: String,
    /// The texts of the recorded result.
    texts: Vec<String>,
}

impl Stubs {
    /// Finds the messages of a recording that show results of tools of the program.
    pub(super) fn new(plan: &Plan) -> Self {
        Self { returned: HashMap::new(), updates: find_updates(plan) }
    }

    /// Takes an answer of the SDK, which may be the result of a tool.
    pub(super) fn take_answer(&mut self, line: &str) {
        let Ok(mut message) = serde_json::from_str::<Value>(line) else { return };
        let result = &mut message["result"];
        if let Some(id) = result["tool_call_id"].as_str().map(str::to_owned)
            && result["return_value"].is_object()
        {
            self.returned.insert(id, result["return_value"].take());
        }
    }

    /// Returns a message of the agent with the results that came instead of those of the recording. `at` is its step.
    pub(super) fn substitute(
        &self,
        at: usize,
        text: String,
        answers: &HashMap<String, ToolAnswer>,
        places: &Places,
    ) -> String {
        let is_result = !self.returned.is_empty() && text.contains("\"ToolResult\"");
        if !is_result && !self.updates.contains_key(&at) {
            return text;
        }
        let Ok(mut message) = serde_json::from_str::<Value>(&text) else { return text };
        let is_new = match self.updates.get(&at) {
            Some(shown) => answers.get(&shown.call).is_some_and(|answer| {
                let texts: Vec<_> = shown.texts.iter().map(|text| places.fill_text(text)).collect();
                replace_in_update(&mut message["params"]["update"], &texts, answer);
                true
            }),
            None => self.replace_in_event(&mut message["params"]),
        };
        if is_new { message.to_string() } else { text }
    }

    /// Replaces the result in an event `ToolResult`, also one of a subagent. Returns whether it did.
    fn replace_in_event(&self, event: &mut Value) -> bool {
        if event["type"] == "SubagentEvent" {
            return self.replace_in_event(&mut event["payload"]["event"]);
        }
        let payload = &mut event["payload"];
        let Some(returned) = payload["tool_call_id"].as_str().and_then(|id| self.returned.get(id)) else {
            return false;
        };
        let (Some(old), Some(new)) = (payload["return_value"].as_object_mut(), returned.as_object()) else {
            return false;
        };
        old.extend(new.clone());
        true
    }
}

// --- updates of ACP ---

/// A tool call over ACP, as far as its updates have described it.
#[derive(Debug, Default)]
struct Described {
    /// The JSON of its title, name and metadata.
    names: String,
    input: Value,
}

/// Finds the updates that show the results of calls over MCP, in the order of the results.
fn find_updates(plan: &Plan) -> HashMap<usize, Shown> {
    let updates: Vec<_> = updates(plan).collect();
    let mut calls: HashMap<&str, Described> = HashMap::new();
    for (_, id, update) in &updates {
        let call = calls.entry(id).or_default();
        for name in ["title", "name", "_meta"] {
            call.names.push_str(&update.get(name).map(Value::to_string).unwrap_or_default());
        }
        if let Some(input) = update.get("rawInput") {
            call.input = input.clone();
        }
    }
    let mut found = HashMap::new();
    let mut taken: HashSet<&str> = HashSet::new();
    for (at, shown, name, arguments) in results(plan) {
        let rank = |id: &str| {
            let call = calls.get(id)?;
            Some((call.input == arguments, call.names.contains(name)))
        };
        let candidates = updates.iter().filter(|(place, id, update)| {
            *place > at && !taken.contains(&**id) && ends(update) && shows(update, &shown.texts)
        });
        // `max_by_key` returns the last of equal ones.
        let Some((_, call, _)) = candidates.rev().max_by_key(|(_, id, _)| rank(id)) else { continue };
        taken.insert(call);
        let of_call =
            updates.iter().filter(|(place, id, update)| *place > at && id == call && shows(update, &shown.texts));
        found.extend(of_call.map(|(place, ..)| (*place, shown.clone())));
    }
    found
}

/// Returns the updates of tool calls, with their steps and the ids of the calls.
fn updates(plan: &Plan) -> impl Iterator<Item = (usize, String, Value)> {
    plan.steps.iter().enumerate().filter_map(|(at, step)| {
        let text = &step.line().filter(|line| line.text.contains("\"tool_call"))?.text;
        let update = serde_json::from_str::<Value>(text).ok()?["params"]["update"].take();
        let is_tool = matches!(update["sessionUpdate"].as_str(), Some("tool_call" | "tool_call_update"));
        Some((at, update["toolCallId"].as_str().filter(|_| is_tool)?.to_owned(), update))
    })
}

/// Returns the recorded results of calls over MCP, with their steps, and the name and the arguments of the tool.
fn results(plan: &Plan) -> impl Iterator<Item = (usize, Shown, &str, Value)> {
    plan.steps.iter().enumerate().filter_map(|(at, step)| {
        let StepKind::ToolResult { id, name, result: Some(result) } = &step.kind else { return None };
        let called = plan.steps[..at].iter().rev().find_map(|step| match &step.kind {
            StepKind::ToolCall { id: other, arguments, .. } if other == id => Some(arguments.clone()),
            _ => None,
        });
        let texts = texts(&recorded_result(result));
        Some((at, Shown { call: id.clone(), texts }, &**name, called.flatten().unwrap_or_default()))
    })
}

fn ends(update: &Value) -> bool {
    update["status"] == "completed" || update["status"] == "failed"
}

fn texts(result: &Value) -> Vec<String> {
    let parts = result["output"].as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned)).collect()
}

/// Returns whether the output of an update contains the texts of a result.
fn shows(update: &Value, texts: &[String]) -> bool {
    let pairs = pairs(texts, &[]);
    ["content", "rawOutput"].iter().any(|member| replace(&mut update[*member].clone(), &pairs))
}

/// Puts the result of a tool into an update that shows the recorded `texts`.
fn replace_in_update(update: &mut Value, texts: &[String], answer: &ToolAnswer) {
    let (is_error, new) = match answer {
        ToolAnswer::Result(result) => (result["isError"] == true, self::texts(&shown_result(result))),
        ToolAnswer::Failed(reason) => (true, vec![reason.clone()]),
    };
    let pairs = pairs(texts, &new);
    for member in ["content", "rawOutput"] {
        if let Some(value) = update.get_mut(member) {
            replace(value, &pairs);
        }
    }
    if ends(update) {
        update["status"] = json!(if is_error { "failed" } else { "completed" });
    }
}

/// Returns the texts to replace, and their replacements: all texts as one, and each of them.
fn pairs(old: &[String], new: &[String]) -> Vec<(String, String)> {
    let mut pairs = vec![(old.join("\n"), new.join("\n"))];
    if old.len() > 1 {
        // If the numbers differ, the first one takes all new texts.
        let is_same = old.len() == new.len();
        let one = |at: usize| match (is_same, at) {
            (true, _) => new[at].clone(),
            (false, 0) => new.join("\n"),
            (false, _) => String::new(),
        };
        pairs.extend(old.iter().enumerate().map(|(at, old)| (old.clone(), one(at))));
    }
    pairs.retain(|(old, _)| !old.trim().is_empty());
    pairs
}

/// Replaces texts in a value. Returns whether it contains one of them.
fn replace(value: &mut Value, pairs: &[(String, String)]) -> bool {
    match value {
        Value::String(text) => match replaced(text, pairs) {
            Some(new) => {
                *text = new;
                true
            }
            None => false,
        },
        Value::Array(list) => replace_each(list, pairs),
        Value::Object(map) => {
            replace_each(map.iter_mut().filter(|(name, _)| *name != "type").map(|(_, value)| value), pairs)
        }
        _ => false,
    }
}

fn replace_each<'a>(values: impl IntoIterator<Item = &'a mut Value>, pairs: &[(String, String)]) -> bool {
    let mut found = false;
    for value in values {
        found |= replace(value, pairs);
    }
    found
}

/// Returns a text with another result: the text is the old one, has it as whole lines, or is JSON that contains it.
fn replaced(text: &str, pairs: &[(String, String)]) -> Option<String> {
    if let Some((_, new)) = pairs.iter().find(|(old, _)| old.trim_end() == text.trim_end()) {
        return Some(new.clone());
    }
    if text.starts_with(['[', '{'])
        && let Ok(mut inner) = serde_json::from_str::<Value>(text)
        && replace(&mut inner, pairs)
    {
        return Some(inner.to_string());
    }
    pairs.iter().find_map(|(old, new)| {
        let old = old.trim_end();
        let is_line = |at: usize| {
            let (before, after) = (&text[..at], &text[at + old.len()..]);
            (before.is_empty() || before.ends_with('\n')) && (after.is_empty() || after.starts_with('\n'))
        };
        let at = text.match_indices(old).map(|(at, _)| at).find(|at| is_line(*at))?;
        Some(format!("{}{new}{}", &text[..at], &text[at + old.len()..]))
    })
}
