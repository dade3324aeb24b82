//! The paths in messages: those of the agent become the program's, and the reverse. Texts for and of the model stay as they are,
//! and so do the arguments of tool calls.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::paths::{FOREIGN, PathMap};
use crate::json;

/// Where a path is in a message: the names of members, and `*` for each item of a list.
type Place = &'static [&'static str];

/// The paths in messages of the agent.
const FROM_AGENT: &[Place] = &[
    &["params", "path"],
    &["params", "cwd"],
    &["params", "update", "locations", "*", "path"],
    &["params", "update", "content", "*", "path"],
    &["params", "toolCall", "locations", "*", "path"],
    &["params", "toolCall", "content", "*", "path"],
    &["result", "sessions", "*", "cwd"],
    &["params", "payload", "file_path"],
    &["params", "payload", "display", "*", "path"],
    &["params", "payload", "return_value", "display", "*", "path"],
    &["params", "payload", "input_data", "cwd"],
    &["params", "payload", "event", "payload", "file_path"],
    &["params", "payload", "event", "payload", "display", "*", "path"],
    &["params", "payload", "event", "payload", "return_value", "display", "*", "path"],
    &["result", "events", "*", "payload", "return_value", "display", "*", "path"],
];

/// The URLs in messages of the agent.
const URLS_FROM_AGENT: &[Place] = &[
    &["params", "update", "content", "uri"],
    &["params", "update", "content", "resource", "uri"],
    &["params", "update", "content", "*", "content", "uri"],
    &["params", "update", "content", "*", "content", "resource", "uri"],
    &["params", "toolCall", "content", "*", "content", "uri"],
    &["params", "toolCall", "content", "*", "content", "resource", "uri"],
];

/// The paths in messages to the agent.
const TO_AGENT: &[Place] = &[&["params", "cwd"], &["params", "additionalDirectories", "*"], &["error", "data", "uri"]];

/// The URLs in messages to the agent.
const URLS_TO_AGENT: &[Place] = &[&["params", "prompt", "*", "uri"], &["params", "prompt", "*", "resource", "uri"]];

/// Only lines with one of these can have a path. An escape can hide the name of a member.
const SIGNS: [&str; 6] = ["\"path\"", "\"cwd\"", "\"uri\"", "\"file_path\"", "\"additionalDirectories\"", "\\u"];

impl PathMap {
    /// Returns a line of the agent with the program's paths. `None` if nothing changes.
    pub fn line_from_agent(&self, line: &[u8]) -> Option<Vec<u8>> {
        let shown = |path: &str| self.shown(path);
        let shown_url = |url: &str| self.shown_url(url);
        translated(line, &[(FROM_AGENT, &shown), (URLS_FROM_AGENT, &shown_url)])
    }

    /// Returns lines to the agent with the agent's paths.
    pub fn lines_to_agent(&self, lines: Vec<u8>) -> Vec<u8> {
        let told = |path: &str| self.told(path);
        let told_url = |url: &str| self.told_url(url);
        let line = |line| translated(line, &[(TO_AGENT, &told), (URLS_TO_AGENT, &told_url)]);
        let pieces: Vec<_> = lines.split_inclusive(|byte| *byte == b'\n').map(|piece| (piece, line(piece))).collect();
        if pieces.iter().all(|(_, changed)| changed.is_none()) {
            return lines;
        }
        let mut all = Vec::with_capacity(lines.len());
        for (piece, changed) in pieces {
            match changed {
                Some(changed) => {
                    all.extend(changed);
                    all.push(b'\n');
                }
                None => all.extend(piece),
            }
        }
        all
    }
}

/// Places, and the change of the texts there.
type Change<'a> = (&'static [Place], &'a dyn Fn(&str) -> String);

fn translated(line: &[u8], changes: &[Change<'_>]) -> Option<Vec<u8>> {
    if !SIGNS.iter().any(|sign| memmem::find(line, sign.as_bytes()).is_some()) {
        return None;
    }
    let strict = std::str::from_utf8(line).map(|text| text.trim_start_matches('\u{feff}').trim());
    if let Ok(Ok(changed)) = strict.map(|text| all_changed(text, changes)) {
        return changed.map(String::into_bytes);
    }
    if !line.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    // The line is read leniently later, so it has to be read in the same way here. What was lost must be seen as lost again.
    let lenient = json::rewritten(line).map(|text| text.replace(char::REPLACEMENT_CHARACTER, "\\ud800"));
    let changed = lenient.ok_or(Unreadable).and_then(|text| Ok(all_changed(&text, changes)?.unwrap_or(text)));
    // A line whose paths cannot be read must not be used with them.
    Some(changed.map_or_else(|Unreadable| b"{}".to_vec(), String::into_bytes))
}

struct Unreadable;

fn all_changed(text: &str, changes: &[Change<'_>]) -> Result<Option<String>, Unreadable> {
    let mut whole: Option<String> = None;
    for (places, change) in changes {
        if let Some(changed) = changed(whole.as_deref().unwrap_or(text), places, *change)? {
            whole = Some(changed);
        }
    }
    Ok(whole)
}

/// Returns the JSON with other texts at these places. `None` if nothing changes.
fn changed(json: &str, places: &[Place], change: &dyn Fn(&str) -> String) -> Result<Option<String>, Unreadable> {
    match json.as_bytes().first() {
        Some(b'"') if places.iter().any(|place| place.is_empty()) => {
            let text: Result<String, _> = serde_json::from_str(json);
            // A path with half of a surrogate pair is no path of this machine.
            let new = text.as_ref().map_or_else(|_| FOREIGN.to_owned(), |text| change(text));
            Ok((text.ok().as_ref() != Some(&new)).then(|| serde_json::Value::String(new).to_string()))
        }
        Some(b'{') => {
            let Members(mut members) = serde_json::from_str(json).map_err(|_| Unreadable)?;
            let mut is_changed = false;
            for (name, value) in &mut members {
                if let Some(changed) = inner(value, name, places, change)? {
                    *value = Cow::Owned(changed);
                    is_changed = true;
                }
            }
            let text = |(name, value): &(Cow<'_, str>, Cow<'_, str>)| {
                format!("{}:{value}", serde_json::Value::String(name.clone().into_owned()))
            };
            Ok(is_changed.then(|| format!("{{{}}}", members.iter().map(text).collect::<Vec<_>>().join(","))))
        }
        Some(b'[') if places.iter().any(|place| place.first() == Some(&"*")) => {
            let items: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| Unreadable)?;
            let mut items: Vec<Cow<'_, str>> = items.into_iter().map(|item| item.get().into()).collect();
            let mut is_changed = false;
            for item in &mut items {
                if let Some(changed) = inner(item, "*", places, change)? {
                    *item = Cow::Owned(changed);
                    is_changed = true;
                }
            }
            Ok(is_changed.then(|| format!("[{}]", items.join(","))))
        }
        _ => Ok(None),
    }
}

fn inner(
    json: &str,
    name: &str,
    places: &[Place],
    change: &dyn Fn(&str) -> String,
) -> Result<Option<String>, Unreadable> {
    let below = places.iter().filter_map(|place| place.split_first());
    let below: Vec<Place> = below.filter(|(first, _)| **first == name).map(|(_, rest)| rest).collect();
    if below.is_empty() { Ok(None) } else { changed(json, &below, change) }
}

/// The members of an object, in order, also those with the same name.
struct Members<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((json::Key(name), value)) = map.next_entry::<json::Key<'de>, &'de RawValue>()? {
                    members.push((name, value.get().into()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn map() -> PathMap {
        PathMap::new([("/home/ada/app".into(), "/work".to_owned())]).unwrap()
    }

    fn from_agent(line: &Value) -> Value {
        let line = line.to_string();
        let changed = map().line_from_agent(line.as_bytes());
        serde_json::from_slice(&changed.unwrap_or(line.into_bytes())).unwrap()
    }

    #[test]
    fn messages_of_acp_get_paths_of_program() {
        let update = |path: &str, etc: &str, url: &str| {
            json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
                "sessionUpdate": "tool_call", "toolCallId": "c", "rawInput": {"path": "/work/a"},
                "locations": [{"path": path, "line": 3}, {"path": etc}],
                "content": [
                    {"type": "diff", "path": path, "oldText": "/work/a", "newText": "x"},
                    {"type": "content", "content": {"type": "resource_link", "uri": url, "name": "a"}},
                ],
            }}})
        };
        let given = update("/work/a", "/etc/hosts", "file:///work/a");
        assert_eq!(from_agent(&given), update("/home/ada/app/a", "place:/etc/hosts", "file:///home/ada/app/a"));
        for (method, member) in
            [("fs/read_text_file", "path"), ("fs/write_text_file", "path"), ("terminal/create", "cwd")]
        {
            let request = |path: &str| {
                let mut params = json!({"sessionId": "s", "content": "/work/a"});
                params[member] = path.into();
                json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            };
            assert_eq!(from_agent(&request("/work/a")), request("/home/ada/app/a"));
            assert_eq!(from_agent(&request("/home/ada/app/a")), request("place:/home/ada/app/a"));
        }
        let permission = |path: &str| {
            json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {
                "toolCall": {"locations": [{"path": path}], "content": [{"type": "diff", "path": path}]}, "options": [],
            }})
        };
        assert_eq!(from_agent(&permission("/work")), permission("/home/ada/app"));
    }

    #[test]
    fn messages_of_wire_get_paths_of_program() {
        let event = |path: &str| {
            let display = json!([{"type": "diff", "path": path, "old_text": "", "new_text": ""}]);
            let payload = json!({"return_value": {"display": display, "output": "/work/a"}, "tool_call_id": "c"});
            let subagent =
                json!({"event": {"type": "ToolResult", "payload": payload.clone()}, "parent_tool_call_id": "p"});
            [
                json!({"method": "event", "params": {"type": "ToolResult", "payload": payload}}),
                json!({"method": "event", "params": {"type": "SubagentEvent", "payload": subagent}}),
                json!({"method": "request", "id": "1", "params": {"type": "ApprovalRequest", "payload": {"display": display}}}),
            ]
        };
        assert_eq!(event("/work/a").map(|line| from_agent(&line)), event("/home/ada/app/a"));
    }

    #[test]
    fn disguised_paths_are_translated() {
        let escaped = r#"{"id":1,"method":"fs/read_text_file","params":{"p\u0061th":"\/etc/pass\u0077d"}}"#;
        let changed = map().line_from_agent(escaped.as_bytes()).unwrap();
        let value: Value = serde_json::from_slice(&changed).unwrap();
        assert_eq!(value["params"]["path"], "place:/etc/passwd");
        let twice = br#"{"id":1,"params":{"path":"/etc/a","path":"/work/b"},"params":{"path":"/etc/c"}}"#;
        let changed = String::from_utf8(map().line_from_agent(twice).unwrap()).unwrap();
        let expected =
            r#"{"id":1,"params":{"path":"place:/etc/a","path":"/home/ada/app/b"},"params":{"path":"place:/etc/c"}}"#;
        assert_eq!(changed, expected);
    }

    #[test]
    fn lenient_lines_are_translated_and_stay_lenient() {
        let not_utf8 = b"{\"id\":1,\"params\":{\"path\":\"/etc/a\",\"content\":\"\xff\"}}";
        let changed = String::from_utf8(map().line_from_agent(not_utf8).unwrap()).unwrap();
        assert_eq!(changed, r#"{"id":1,"params":{"path":"place:/etc/a","content":"\ud800"}}"#);
        let half = br#"{"id":1,"params":{"path":"/work/\ud800","content":"\ud800"}}"#;
        let changed = String::from_utf8(map().line_from_agent(half).unwrap()).unwrap();
        assert_eq!(changed, r#"{"id":1,"params":{"path":"place:","content":"\ud800"}}"#);
        let odd = br#"{"id":1,"params":{"path":"/etc/a","n":NaN}}"#;
        let changed = String::from_utf8(map().line_from_agent(odd).unwrap()).unwrap();
        assert!(changed.contains("place:/etc/a"), "{changed}");
        assert_eq!(map().line_from_agent(b"a log line with \"path\""), None);
    }

    #[test]
    fn lines_to_agent_get_its_paths() {
        let line = |cwd: &str, url: &str| {
            json!({"method": "session/new", "params": {"cwd": cwd, "additionalDirectories": [cwd], "mcpServers": [],
                "prompt": [{"type": "resource_link", "uri": url}]}})
            .to_string()
        };
        let lines = format!("{}\n{{\"a\":1}}\n", line("/home/ada/app", "file:///home/ada/app/a"));
        let told = map().lines_to_agent(lines.into_bytes());
        assert_eq!(String::from_utf8(told).unwrap(), format!("{}\n{{\"a\":1}}\n", line("/work", "file:///work/a")));
        let texts = b"{\"params\":{\"text\":\"/home/ada/app\"}}\n".to_vec();
        assert_eq!(map().lines_to_agent(texts.clone()), texts);
    }
}
