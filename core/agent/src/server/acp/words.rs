//! Conversion of parts of events to the types of ACP.

use serde_json::{Map, Value, json};

use super::super::super::history::Record;
use crate::messages::{Content, ContentPart};

/// The history of a session, as `session/load` sends it.
pub(super) fn past(records: &[Record]) -> Vec<Value> {
    let mut updates = Vec::new();
    for Record { kind, payload, .. } in records {
        match kind.as_str() {
            "TurnBegin" => updates.push(json!({"sessionUpdate": "user_message_chunk",
                "content": {"type": "text", "text": text_of(&payload["user_input"])}})),
            "ContentPart" => updates.extend(chunk(payload)),
            "ToolCall" => {
                let arguments = payload["function"]["arguments"].as_str().unwrap_or_default();
                let name = payload["function"]["name"].as_str().unwrap_or_default();
                let mut update = json!({"sessionUpdate": "tool_call", "toolCallId": payload["id"], "title": name,
                    "kind": kind_of(name), "status": "in_progress"});
                if let Ok(input) = serde_json::from_str::<Value>(arguments) {
                    update["rawInput"] = input;
                }
                updates.push(update);
            }
            "ToolResult" => {
                let id = payload["tool_call_id"].as_str().unwrap_or_default();
                let mut update = ended(id, &payload["return_value"]);
                if let Some(fields) = update.as_object_mut() {
                    fields.shift_remove("rawOutput");
                }
                updates.push(update);
            }
            _ => {}
        }
    }
    updates
}

pub(super) fn text_block(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// Makes a form for questions. Returns the question of each property, the message, and the schema.
pub(super) fn form(questions: &Value) -> (Vec<(String, String)>, String, Value) {
    let (mut asked, mut properties) = (Vec::new(), Map::new());
    for (number, question) in questions.as_array().into_iter().flatten().enumerate() {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let full = text(&question["question"]).unwrap_or_default();
        let constants = question["options"].as_array().into_iter().flatten().map(|option| {
            let mut constant = json!({"const": option["label"], "title": option["label"]});
            if let Some(description) = text(&option["description"]) {
                constant["description"] = json!(description);
            }
            constant
        });
        let constants: Vec<Value> = constants.collect();
        let title = text(&question["header"]).unwrap_or_else(|| full.clone());
        let property = if question["multi_select"] == true {
            json!({"type": "array", "title": title, "minItems": 1, "items": {"anyOf": constants}})
        } else {
            json!({"type": "string", "title": title, "oneOf": constants})
        };
        properties.insert(format!("q{number}"), property);
        asked.push((format!("q{number}"), full));
    }
    let message = asked.iter().map(|(_, question)| question.as_str()).collect::<Vec<_>>().join("\n");
    let required: Vec<&String> = properties.keys().collect();
    let schema = json!({"type": "object", "required": required, "properties": properties});
    (asked, message, schema)
}

pub(super) fn kind_of(tool: &str) -> &'static str {
    match tool {
        "Bash" | "Shell" => "execute",
        "Write" | "WriteFile" | "Edit" | "StrReplaceFile" => "edit",
        "Read" | "ReadFile" => "read",
        "Glob" | "Grep" => "search",
        "FetchURL" => "fetch",
        _ => "other",
    }
}

/// Converts a part of the answer. Only text and images have a counterpart.
pub(super) fn chunk(part: &Value) -> Option<Value> {
    let (kind, content) = match part["type"].as_str()? {
        "think" => ("agent_thought_chunk", json!({"type": "text", "text": part["think"]})),
        _ => ("agent_message_chunk", block(part)?),
    };
    let mut update = json!({"sessionUpdate": kind, "content": content});
    if let Some(id) = part.get("message_id") {
        update["messageId"] = id.clone();
    }
    Some(update)
}

fn block(part: &Value) -> Option<Value> {
    match part["type"].as_str()? {
        "text" => Some(json!({"type": "text", "text": part["text"]})),
        "image_url" => {
            let (head, data) = part["image_url"]["url"].as_str()?.strip_prefix("data:")?.split_once(',')?;
            Some(json!({"type": "image", "data": data, "mimeType": head.strip_suffix(";base64")?}))
        }
        _ => None,
    }
}

pub(super) fn diff(display: &Value) -> Option<Value> {
    let of = |name: &str| display[name].clone();
    (display["type"] == "diff")
        .then(|| json!({"type": "diff", "path": of("path"), "oldText": of("old_text"), "newText": of("new_text")}))
}

/// Makes the update with a call's result, as the model gets it.
pub(super) fn ended(call: &str, result: &Value) -> Value {
    let status = if result["is_error"] == true { "failed" } else { "completed" };
    let mut content: Vec<Value> = result["display"].as_array().into_iter().flatten().filter_map(diff).collect();
    let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status});
    match result["output"].as_array() {
        Some(parts) => {
            let blocks = parts.iter().filter_map(block);
            content.extend(blocks.map(|block| json!({"type": "content", "content": block})));
            update["content"] = json!(content);
        }
        None => {
            let [output, message] = ["output", "message"].map(|name| result[name].as_str().unwrap_or_default());
            let text = if output.is_empty() { message } else { output };
            content.push(text_block(text));
            update["content"] = json!(content);
            update["rawOutput"] = json!(text);
        }
    }
    update
}

/// Makes the update of a plan. Only clients that announce it read plans with ids.
pub(super) fn plan(plan: &Value, has_ids: bool) -> Option<Value> {
    let id = &plan["plan_id"];
    if id.is_null() {
        return Some(json!({"sessionUpdate": "plan", "entries": plan["entries"]}));
    }
    has_ids.then(|| match &plan["removed"] {
        Value::Bool(true) => json!({"sessionUpdate": "plan_removed", "planId": id}),
        _ => json!({"sessionUpdate": "plan_update",
            "plan": {"type": "items", "planId": id, "entries": plan["entries"]}}),
    })
}

/// Makes the update of a plan that is a text.
pub(super) fn plan_text(plan: &Value) -> Value {
    let id = plan["plan_id"].as_str().unwrap_or("plan");
    let mut update = json!({"type": "markdown", "planId": id, "content": plan["content"]});
    if plan["file_path"].as_str().is_some_and(|path| !path.is_empty()) {
        update["path"] = plan["file_path"].clone();
    }
    json!({"sessionUpdate": "plan_update", "plan": update})
}

/// Makes the update of the plan that a tool's result shows as a to-do list.
pub(super) fn plan_of(result: &Value) -> Option<Value> {
    let list = result["display"].as_array()?.iter().rev().find(|block| block["type"] == "todo")?;
    let entries = list["items"].as_array()?.iter().map(|item| {
        let status = if item["status"] == "done" { json!("completed") } else { item["status"].clone() };
        json!({"content": item["title"], "status": status, "priority": "medium"})
    });
    Some(json!({"sessionUpdate": "plan", "entries": entries.collect::<Value>()}))
}

pub(in super::super) fn text_of(input: &Value) -> String {
    serde_json::from_value::<Content>(input.clone()).map(|input| input.text()).unwrap_or_default()
}

pub(super) fn content(blocks: &[Value]) -> Content {
    if let [only] = blocks
        && only["type"] == "text"
    {
        return Content::Text(only["text"].as_str().unwrap_or_default().to_owned());
    }
    let parts = blocks.iter().map(|block| match block["type"].as_str() {
        Some("image") => {
            let text = |name: &str| block[name].as_str().unwrap_or_default();
            ContentPart::image_url(format!("data:{};base64,{}", text("mimeType"), text("data")))
        }
        // Real agents show resources to the model in this form.
        Some("resource_link") => {
            let text = |name: &str| block[name].as_str().unwrap_or_default();
            ContentPart::text(format!("[@{}]({})", text("name"), text("uri")))
        }
        Some("resource") => {
            let text = |name: &str| block["resource"][name].as_str();
            let (uri, content) = (text("uri").unwrap_or_default(), text("text").or(text("blob")).unwrap_or_default());
            let kind = text("mimeType").map(|kind| format!(" mimeType={kind:?}")).unwrap_or_default();
            ContentPart::text(format!("<context ref={uri:?}{kind}>\n{content}\n</context>"))
        }
        _ => ContentPart::text(block["text"].as_str().unwrap_or_default()),
    });
    Content::Parts(parts.collect())
}
