//! The agent's questions: their texts and their choices, with the server's ids of them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::members::id_of;
use crate::dialect::Answer;
use crate::json::is_true;
use crate::messages::{Question, QuestionOption};

/// A question, with the server's ids of it and of its choices.
#[derive(Debug)]
pub(super) struct Asking {
    id: String,
    text: String,
    is_multiple: bool,
    /// Ids, as the server writes them, and labels. A choice without an id is answered with its label.
    options: Vec<(Option<Value>, String)>,
}

/// Reads questions. An id may be a number or absent.
///
/// # Errors
/// Returns the problem if a question or a choice has no text: the program must see all of them.
pub(super) fn read(questions: &Value) -> Result<(Vec<Asking>, Vec<Question>), String> {
    let items = match questions {
        Value::Array(items) => &items[..],
        Value::Object(_) | Value::String(_) => std::slice::from_ref(questions),
        _ => return Err("questions: not a list".to_owned()),
    };
    let read = items.iter().enumerate().map(|(at, item)| read_one(at, item));
    Ok(read.collect::<Result<Vec<_>, _>>()?.into_iter().unzip())
}

fn read_one(at: usize, item: &Value) -> Result<(Asking, Question), String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
    let (header, body) = (text("header"), text("body"));
    let said = item.as_str().map(str::to_owned).or_else(|| text("question"));
    let said = said.or_else(|| header.clone()).or_else(|| body.clone());
    let question = said.ok_or_else(|| format!("questions[{at}]: it has no text"))?;
    let options =
        read_options(item.get("options").unwrap_or_default()).map_err(|reason| format!("questions[{at}].{reason}"))?;
    let is_multiple = item.get("multi_select").is_some_and(is_true);
    let asking = Asking {
        // The server counts questions in this way.
        id: item.get("id").and_then(id_of).unwrap_or_else(|| format!("q_{at}")),
        text: question.clone(),
        is_multiple,
        options: options.iter().map(|(id, option)| (id.clone(), option.label.clone())).collect(),
    };
    let question = Question {
        question,
        header,
        options: options.into_iter().map(|(_, option)| option).collect(),
        multi_select: Some(is_multiple),
        body,
        other_label: text("other_label"),
        other_description: text("other_description"),
        extra: Default::default(),
    };
    Ok((asking, question))
}

/// Reads choices, with their ids.
///
/// # Errors
/// Returns the problem of the first choice that has no text.
pub(super) fn read_options(options: &Value) -> Result<Vec<(Option<Value>, QuestionOption)>, String> {
    let items = match options {
        Value::Null => &[],
        Value::Array(items) => &items[..],
        _ => return Err("options: not a list".to_owned()),
    };
    let read = items.iter().enumerate().map(|(at, item)| {
        let description = item.get("description").and_then(Value::as_str);
        let id = item.get("id").filter(|id| id_of(id).is_some());
        let label = [Some(item), item.get("label")].into_iter().flatten().find_map(id_of);
        let label = label.or_else(|| description.map(str::to_owned)).or_else(|| id_of(id?));
        let label = label.ok_or_else(|| format!("options[{at}]: it has no text"))?;
        let description = description.map(str::to_owned);
        Ok((id.cloned(), QuestionOption { label, description, extra: Default::default() }))
    });
    read.collect()
}

/// Returns the answers; `None` if the questions are dismissed.
pub(super) fn answers_body(answer: &Answer, questions: &[Asking]) -> Option<Value> {
    let Answer::Question(Some(answers)) = answer else { return None };
    let mut body = Map::new();
    let mut is_answered = false;
    for question in questions {
        let given = answers.get(&question.text);
        is_answered |= given.is_some();
        body.insert(question.id.clone(), given.map_or_else(|| json!({"kind": "skipped"}), |text| one(question, text)));
    }
    is_answered.then(|| json!({"answers": body}))
}

/// Returns the answer to one question: choices, another text, or both.
fn one(question: &Asking, text: &str) -> Value {
    // Of several options with the same label, the first one is meant.
    let known = question.options.iter().rev().filter_map(|(id, label)| Some((&**label, id.as_ref()?)));
    let ids: HashMap<&str, &Value> = known.collect();
    let find = |label: &str| ids.get(label).copied();
    if let Some(id) = find(text) {
        return if question.is_multiple {
            json!({"kind": "multi", "option_ids": [id]})
        } else {
            json!({"kind": "single", "option_id": id})
        };
    }
    if !question.is_multiple {
        return json!({"kind": "other", "text": text});
    }
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    for label in text.split(',').map(str::trim).filter(|label| !label.is_empty()) {
        match find(label) {
            Some(id) => chosen.push(id),
            None => others.push(label),
        }
    }
    match (chosen.is_empty(), others.is_empty()) {
        (true, _) => json!({"kind": "other", "text": text}),
        (false, true) => json!({"kind": "multi", "option_ids": chosen}),
        (false, false) => {
            json!({"kind": "multi_with_other", "option_ids": chosen, "other_text": others.join(", ")})
        }
    }
}
