//! Tool calls in one line.

use kimi_agent_protocol::messages::ToolCallInfo;
use kimi_agent_protocol::printable::printable_line;
use serde_json::{Map, Value};

/// The largest number of characters of a line about a tool call.
const MAX_LINE: usize = 200;
/// Arguments that say the most about a call, in this order.
const TELLING: [&str; 9] =
    ["command", "file_path", "path", "abs_path", "url", "pattern", "query", "description", "prompt"];

/// Describes a tool call: its name, and its most telling argument or all of them.
pub(crate) fn described(call: &ToolCallInfo) -> String {
    named(&call.name, call.arguments.as_ref())
}

/// Describes a tool call by its name and its arguments.
pub(crate) fn named(name: &str, arguments: Option<&Map<String, Value>>) -> String {
    let about = arguments.filter(|arguments| !arguments.is_empty()).map(|arguments| {
        let telling = TELLING.iter().find_map(|key| arguments.get(*key)?.as_str());
        telling.map_or_else(|| Value::Object(arguments.clone()).to_string(), str::to_owned)
    });
    // Over ACP the name may be a title that has the command already.
    match about.filter(|about| !name.contains(&**about)) {
        Some(about) => short(&format!("{name} {about}")),
        None => short(name),
    }
}

/// Returns a text in one line, which is cut if it is long.
pub(crate) fn short(text: &str) -> String {
    let line = printable_line(text.trim());
    match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(name: &str, arguments: &Value) -> String {
        named(name, arguments.as_object())
    }

    #[test]
    fn telling_argument_is_shown() {
        assert_eq!(line("Shell", &json!({"timeout": 5, "command": "ls\n-la"})), r"Shell ls\n-la");
        assert_eq!(line("add", &json!({"a": 1})), r#"add {"a":1}"#);
        assert_eq!(line("Glob", &json!({})), "Glob");
        assert_eq!(line("Run `ls -la`", &json!({"command": "ls -la"})), "Run `ls -la`");
    }

    #[test]
    fn long_line_is_cut() {
        let shown = short(&"ü".repeat(300));
        assert_eq!((shown.chars().count(), shown.ends_with('…')), (MAX_LINE + 1, true));
    }
}
