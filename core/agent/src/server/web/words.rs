//! Conversion of content, displays, questions, errors and times to the web API.

use std::time::{SystemTime, UNIX_EPOCH};

use kimi_agent_protocol::error::quoted_status;
use serde_json::{Map, Value, json};

use crate::messages::{Content, ContentPart};
use crate::types::Failure;

/// Converts the blocks of a prompt to its input.
pub(super) fn content(blocks: &[Value]) -> Content {
    if let [only] = blocks
        && only["type"] == "text"
    {
        return Content::Text(only["text"].as_str().unwrap_or_default().to_owned());
    }
    let parts = blocks.iter().map(|block| {
        let source = &block["source"];
        let text = |name: &str| source[name].as_str().unwrap_or_default();
        match block["type"].as_str() {
            Some("image") if source["kind"] == "base64" => {
                ContentPart::image_url(format!("data:{};base64,{}", text("media_type"), text("data")))
            }
            Some("image") => ContentPart::image_url(text(if source["kind"] == "url" { "url" } else { "path" })),
            _ => ContentPart::text(block["text"].as_str().unwrap_or_default()),
        }
    });
    Content::Parts(parts.collect())
}

/// Converts an input to blocks.
pub(super) fn blocks(input: &Value) -> Value {
    match input {
        Value::String(text) => json!([{"type": "text", "text": text}]),
        Value::Array(parts) => parts.iter().map(block).collect(),
        _ => json!([]),
    }
}

fn block(part: &Value) -> Value {
    match part["image_url"]["url"].as_str() {
        Some(url) => match url.strip_prefix("data:").and_then(|url| url.split_once(";base64,")) {
            Some((media_type, data)) => {
                json!({"type": "image", "source": {"kind": "base64", "media_type": media_type, "data": data}})
            }
            None => json!({"type": "image", "source": {"kind": "url", "url": url}}),
        },
        None => json!({"type": "text", "text": part["text"]}),
    }
}

/// Returns the text of a tool's result for the model.
pub(super) fn output(result: &Value) -> Value {
    match &result["output"] {
        Value::String(output) if output.is_empty() => json!(result["message"].as_str().unwrap_or_default()),
        Value::Array(parts) => parts.iter().map(block).collect(),
        output => output.clone(),
    }
}

/// Returns how an approval shows its action.
pub(super) fn display(blocks: &Value) -> Value {
    let first = blocks.as_array().and_then(|blocks| blocks.first()).unwrap_or(&Value::Null);
    match first["type"].as_str() {
        Some("shell") => json!({"kind": "command", "command": first["command"], "language": first["language"]}),
        Some("diff") => json!({"kind": "file_io", "operation": "edit", "path": first["path"],
            "before": first["old_text"], "after": first["new_text"]}),
        _ => json!({}),
    }
}

/// Returns the questions with the ids that answers name.
pub(super) fn questions(questions: &Value) -> Value {
    let option = |number: usize, (at, option): (usize, &Value)| {
        json!({"id": format!("opt_{number}_{at}"), "label": option["label"],
            "description": option["description"].as_str().unwrap_or_default()})
    };
    let question = |(number, question): (usize, &Value)| {
        let options = question["options"].as_array().into_iter().flatten().enumerate();
        let options: Vec<Value> = options.map(|it| option(number, it)).collect();
        let mut told = json!({"id": format!("q_{number}"), "question": question["question"], "options": options});
        if let Some(header) = question["header"].as_str().filter(|header| !header.is_empty()) {
            told["header"] = json!(header);
        }
        if question["multi_select"] == true {
            told["multi_select"] = json!(true);
        }
        told["allow_other"] = json!(true);
        told
    };
    questions.as_array().into_iter().flatten().enumerate().map(question).collect()
}

/// Returns the answers by question, as the model gets them. The id of an unknown option is passed on.
pub(super) fn answers(questions: &Value, given: &Value) -> Map<String, Value> {
    let mut answers = Map::new();
    for question in questions.as_array().into_iter().flatten() {
        let answer = &given[question["id"].as_str().unwrap_or_default()];
        let label = |id: &Value| {
            let options = question["options"].as_array().into_iter().flatten();
            let found = options.into_iter().find(|option| option["id"] == *id).map(|option| &option["label"]);
            found.unwrap_or(id).as_str().unwrap_or_default().to_owned()
        };
        let mut said: Vec<String> = answer["option_ids"].as_array().into_iter().flatten().map(label).collect();
        match answer["kind"].as_str() {
            Some("single") => said = vec![label(&answer["option_id"])],
            Some("other") => said = vec![answer["text"].as_str().unwrap_or_default().to_owned()],
            Some("multi_with_other") => said.extend(answer["other_text"].as_str().map(str::to_owned)),
            Some("multi") => {}
            _ => continue,
        }
        answers.insert(question["question"].as_str().unwrap_or_default().to_owned(), json!(said.join(", ")));
    }
    answers
}

/// Converts the error of a turn. Returns the web API's code for it.
pub(super) fn error(failure: &Failure) -> Value {
    let (code, status) = match failure.code {
        -32001 => ("model.not_configured", None),
        -32002 => ("model.capability_missing", None),
        -32003 => ("provider.api_error", Some(quoted_status(&failure.message).unwrap_or(500))),
        -32004 => ("provider.auth_error", Some(401)),
        _ => ("internal", None),
    };
    let mut error = json!({"code": code, "message": failure.message, "name": "Error2"});
    if let Some(status) = status {
        error["name"] = json!("APIStatusError");
        error["details"] = json!({"statusCode": status, "requestId": null, "traceId": null});
    }
    error["retryable"] = json!(false);
    error
}

/// Returns the time in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a time by ISO 8601.
pub(crate) fn timestamp(millis: u64) -> String {
    let (days, rest) = (millis / 86_400_000, millis % 86_400_000);
    // Days since 1 March of the year 0, in eras of 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, millis) = (rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_iso_8601() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(1_795_331_271_613), "2026-11-22T07:07:51.613Z");
        assert_eq!(timestamp(951_782_400_000), "2000-02-29T00:00:00.000Z");
    }

    #[test]
    fn answers_become_labels_joined_by_commas() {
        let asked = questions(&json!([
            {"question": "Color?", "header": "C", "options": [{"label": "Red"}, {"label": "Blue"}]},
            {"question": "Fruits?", "multi_select": true, "options": [{"label": "Apple"}, {"label": "Pear"}]},
            {"question": "Name?", "options": [{"label": "Ann"}]},
            {"question": "Skipped?", "options": [{"label": "A"}]},
        ]));
        assert_eq!(asked[1]["options"][1], json!({"id": "opt_1_1", "label": "Pear", "description": ""}));
        let given = json!({
            "q_0": {"kind": "single", "option_id": "opt_0_1"},
            "q_1": {"kind": "multi", "option_ids": ["opt_1_0", "nope"]},
            "q_2": {"kind": "other", "text": "Zoe, the 1st"},
            "q_3": {"kind": "skipped"},
        });
        let expected = json!({"Color?": "Blue", "Fruits?": "Apple, nope", "Name?": "Zoe, the 1st"});
        assert_eq!(Value::Object(answers(&asked, &given)), expected);
    }
}
