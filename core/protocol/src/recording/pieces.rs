//! Finds the texts of a message that may be pieces of a longer one, and what each is a piece of.
//!
//! This works without knowledge of the protocols: two texts belong together if they are at the same place in messages of
//! the same kind, about the same tool call and the same agent.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::redact::end_of_text;

/// A text of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    /// Its place in the line, without quotation marks.
    pub(super) range: Range<usize>,
    /// Texts with the same stream are pieces of one text.
    pub(super) stream: u64,
}

struct Frame {
    path: u64,
    /// The path of the tool call that arguments belong to: a function is a part of its call.
    call: u64,
    is_object: bool,
    name: Range<usize>,
    expects_name: bool,
    index: usize,
}

/// Returns the texts of a message, except names and other words that are not streamed. The message is valid JSON.
pub(super) fn texts(line: &[u8]) -> Vec<Text> {
    let (mut texts, mut kind) = (Vec::new(), 0_u64);
    let mut frames: Vec<Frame> = Vec::new();
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        match byte {
            b'{' | b'[' => {
                let path = frames.last().map_or(0, |frame| frame.child(line));
                let is_function = frames.last().is_some_and(|frame| &line[frame.name.clone()] == b"function");
                let call = frames.last().filter(|_| is_function).map_or(path, |frame| frame.path);
                let is_object = *byte == b'{';
                frames.push(Frame { path, call, is_object, name: 0..0, expects_name: is_object, index: 0 });
            }
            b'}' | b']' => drop(frames.pop()),
            b',' => {
                if let Some(frame) = frames.last_mut() {
                    frame.expects_name = frame.is_object;
                    frame.index += 1;
                }
            }
            b'"' => {
                let range = at + 1..end_of_text(line, at + 1);
                at = range.end;
                if let Some(frame) = frames.last_mut() {
                    if frame.expects_name {
                        frame.name = range;
                        frame.expects_name = false;
                    } else if let Some(marked) = mark(&line[frame.name.clone()], &line[range.clone()]) {
                        kind = kind.wrapping_add(marked);
                    } else if !is_fixed(&line[frame.name.clone()]) {
                        texts.push(Text { stream: frame.stream(line), range });
                    }
                }
            }
            _ => {}
        }
        at += 1;
    }
    for text in &mut texts {
        text.stream = hashed((text.stream, kind));
    }
    texts
}

impl Frame {
    fn child(&self, line: &[u8]) -> u64 {
        if self.is_object { hashed((self.path, &line[self.name.clone()])) } else { hashed((self.path, self.index)) }
    }

    /// Arguments begin in a tool call, and go on in parts that have another form.
    fn stream(&self, line: &[u8]) -> u64 {
        let is_arguments = matches!(&line[self.name.clone()], b"arguments" | b"arguments_part" | b"argumentsPart");
        if is_arguments { hashed((self.call, "arguments")) } else { self.child(line) }
    }
}

fn hashed(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns a hash if the value of this member says what the message is about.
fn mark(name: &[u8], value: &[u8]) -> Option<u64> {
    let about = match name {
        b"type" | b"method" | b"sessionUpdate" => {
            let value = value.strip_suffix(b"Part").or(value.strip_suffix(b"_part")).unwrap_or(value);
            if value == b"function" { return Some(0) } else { value }
        }
        _ if is_id(name) && (contains(name, b"call") || contains(name, b"agent")) => value,
        _ => return None,
    };
    Some(hashed(about))
}

fn is_id(name: &[u8]) -> bool {
    name.len() >= 2 && name[name.len() - 2..].eq_ignore_ascii_case(b"id")
}

fn contains(name: &[u8], word: &[u8]) -> bool {
    name.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

/// Returns whether a member has words that are not streamed: they would be held for nothing.
fn is_fixed(name: &[u8]) -> bool {
    is_id(name)
        || matches!(
            name,
            b"jsonrpc"
                | b"name"
                | b"status"
                | b"role"
                | b"kind"
                | b"timestamp"
                | b"epoch"
                | b"mimeType"
                | b"state"
                // A path is whole: `/` before the working directory is not its beginning.
                | b"cwd"
                | b"path"
                | b"uri"
        )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn streams(message: &Value) -> Vec<(String, u64)> {
        let line = message.to_string();
        texts(line.as_bytes()).into_iter().map(|text| (line[text.range].to_owned(), text.stream)).collect()
    }

    fn only(message: &Value) -> u64 {
        let found = streams(message);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].1
    }

    fn wire(kind: &str, payload: Value) -> Value {
        json!({"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}})
    }

    fn web(kind: &str, call: &str, name: &str, time: u32) -> Value {
        let payload = json!({"type": kind, "time": time, "agentId": "main", "toolCallId": call, name: "x \" y"});
        let timestamp = format!("2026-01-01T00:00:{time:02}.000Z");
        json!({"method": kind, "params": {"type": kind, "seq": time, "timestamp": timestamp, "payload": payload}})
    }

    #[test]
    fn pieces_of_one_text_have_one_stream() {
        let update = |kind: &str, call: Value| {
            let content = json!([{"type": "content", "content": {"type": "text", "text": "x"}}]);
            let update = json!({"content": content, "toolCallId": call, "sessionUpdate": kind});
            json!({"method": "session/update", "params": {"sessionId": "s", "update": update}})
        };
        let call = json!({"type": "function", "id": "t", "function": {"name": "Shell", "arguments": "{"}});
        let nested = |event: Value| json!({"parent_tool_call_id": "p", "agent_id": "a", "event": event});
        let inner = |kind: &str, payload: &Value| nested(json!({"type": kind, "payload": payload}));
        let part = json!({"arguments_part": "x"});
        for (one, other) in [
            (
                wire("ContentPart", json!({"type": "text", "text": "a"})),
                wire("ContentPart", json!({"text": "b", "type": "text"})),
            ),
            (wire("ToolCall", call.clone()), wire("ToolCallPart", part.clone())),
            (wire("SubagentEvent", inner("ToolCall", &call)), wire("SubagentEvent", inner("ToolCallPart", &part))),
            (web("assistant.delta", "", "delta", 1), web("assistant.delta", "", "delta", 2)),
            (web("tool.call.delta", "t", "argumentsPart", 1), web("tool.call.delta", "t", "argumentsPart", 2)),
            (update("tool_call_update", "t".into()), update("tool_call_update", "t".into())),
        ] {
            assert_eq!(only(&one), only(&other), "{one} {other}");
        }
        for (one, other) in [
            (
                wire("ContentPart", json!({"type": "text", "text": "a"})),
                wire("ContentPart", json!({"type": "think", "think": "b"})),
            ),
            (wire("ToolCallPart", part.clone()), wire("SubagentEvent", inner("ToolCallPart", &part))),
            (web("assistant.delta", "", "delta", 1), web("thinking.delta", "", "delta", 2)),
            (web("tool.call.delta", "t", "argumentsPart", 1), web("tool.call.delta", "u", "argumentsPart", 2)),
            (update("tool_call_update", "t".into()), update("tool_call_update", "u".into())),
        ] {
            assert_ne!(only(&one), only(&other), "{one} {other}");
        }
    }

    #[test]
    fn texts_are_found_with_escapes() {
        let message =
            json!({"method": "m", "params": {"a\"b": ["x\\", {"c": "y"}], "id": "no", "n": 1, "d": {}, "e": ""}});
        let found: Vec<String> = streams(&message).into_iter().map(|(text, _)| text).collect();
        assert_eq!(found, [r"x\\", "y", ""]);
    }

    #[test]
    fn invalid_json_is_harmless() {
        for line in [r#"{"a":"#, r#"]}"x"#, r#"{"a""b":"c\"#, "", "\"", "{]}[{,"] {
            texts(line.as_bytes());
        }
    }
}
