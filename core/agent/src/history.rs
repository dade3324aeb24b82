//! The events that a session has sent. `replay` sends them again, with streamed pieces merged.

use serde_json::{Map, Value, json};

/// An event, or a request with its id.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) request_id: Option<String>,
    pub(crate) kind: String,
    pub(crate) payload: Value,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    records: Vec<Record>,
    /// The number of records that are stored already.
    stored: usize,
}

impl History {
    pub(crate) fn push(&mut self, record: Record) {
        let last = self.records[self.stored..].last_mut();
        if !last.is_some_and(|last| merge(last, &record)) {
            self.records.push(record);
        }
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the lines that the session file does not have yet.
    pub(crate) fn take_unstored(&mut self, session: &str) -> String {
        let new = &self.records[self.stored..];
        let lines = new.iter().map(|record| {
            let params = json!({"type": record.kind, "payload": record.payload});
            let mut line = json!({"session": session, "params": params});
            if let (Some(id), Some(fields)) = (&record.request_id, line.as_object_mut()) {
                fields.insert("request_id".to_owned(), json!(id));
            }
            format!("{line}\n")
        });
        let lines = lines.collect();
        self.stored = self.records.len();
        lines
    }

    /// Continues after these records, which are stored.
    pub(crate) fn take_over(&mut self, records: Vec<Record>) {
        self.stored = records.len();
        self.records = records;
    }

    /// Keeps only this many records. A session file keeps its content.
    pub(crate) fn truncate(&mut self, records: usize) {
        self.records.truncate(records);
        self.stored = self.stored.min(records);
    }

    /// Marks all records as not stored, because another session has them now.
    pub(crate) fn store_again(&mut self) {
        self.stored = 0;
    }

    /// Adds the records that a session file has of this session.
    pub(crate) fn load(&mut self, session: &str, file: &str) {
        self.records.extend(file.lines().filter_map(|line| {
            let mut line: Map<String, Value> = serde_json::from_str(line).ok()?;
            if line.get("session")?.as_str()? != session {
                return None;
            }
            let params = line.get_mut("params")?;
            Some(Record {
                kind: params.get("type")?.as_str()?.to_owned(),
                payload: params.get_mut("payload")?.take(),
                request_id: line.get("request_id").and_then(Value::as_str).map(str::to_owned),
            })
        }));
        self.stored = self.records.len();
    }
}

/// Returns the last session in a session file.
pub(crate) fn last_session(file: &str) -> Option<String> {
    let line: Value = serde_json::from_str(file.lines().last()?).ok()?;
    Some(line.get("session")?.as_str()?.to_owned())
}

/// Appends a streamed piece to the record that it continues.
fn merge(last: &mut Record, piece: &Record) -> bool {
    match (last.kind.as_str(), piece.kind.as_str()) {
        ("ContentPart", "ContentPart") => ["text", "think"].into_iter().any(|name| {
            let plain =
                |value: &Value| value["type"] == name && value.as_object().is_some_and(|fields| fields.len() == 2);
            plain(&last.payload) && plain(&piece.payload) && append(last.payload.get_mut(name), piece.payload.get(name))
        }),
        ("ToolCall", "ToolCallPart") => {
            append(last.payload.pointer_mut("/function/arguments"), piece.payload.get("arguments_part"))
        }
        _ => false,
    }
}

fn append(text: Option<&mut Value>, piece: Option<&Value>) -> bool {
    match (text, piece) {
        (Some(Value::String(text)), Some(Value::String(piece))) => {
            text.push_str(piece);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, payload: Value) -> Record {
        Record { request_id: None, kind: kind.to_owned(), payload }
    }

    fn sample() -> History {
        let mut history = History::default();
        for piece in ["a", "b"] {
            history.push(event("ContentPart", json!({"type": "think", "think": piece})));
        }
        for piece in ["c", "d"] {
            history.push(event("ContentPart", json!({"type": "text", "text": piece})));
        }
        history.push(event(
            "ToolCall",
            json!({"type": "function", "id": "t", "function": {"name": "n", "arguments": ""}}),
        ));
        history.push(event("ToolCallPart", json!({"arguments_part": "{"})));
        history.push(event("ToolCallPart", json!({"arguments_part": "}"})));
        history.push(Record {
            request_id: Some("r".to_owned()),
            kind: "ApprovalRequest".to_owned(),
            payload: json!({}),
        });
        history
    }

    #[test]
    fn history_merges_parts() {
        let history = sample();
        assert_eq!(history.records().len(), 4);
        assert_eq!(history.records()[0].payload, json!({"type": "think", "think": "ab"}));
        assert_eq!(history.records()[1].payload, json!({"type": "text", "text": "cd"}));
        assert_eq!(history.records()[2].payload["function"]["arguments"], "{}");
    }

    #[test]
    fn stored_session_is_found_again_among_others() {
        let mut history = sample();
        let mut file = history.take_unstored("one");
        assert_eq!(history.take_unstored("one"), "");
        file.push_str(&sample().take_unstored("two"));
        assert_eq!(last_session(&file).as_deref(), Some("two"));
        let mut loaded = History::default();
        loaded.load("one", &file);
        assert_eq!(loaded.records(), history.records());
        assert_eq!(loaded.take_unstored("one"), "");
    }
}
