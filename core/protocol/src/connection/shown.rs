//! The commands and files that an agent shows with a request for a permission.

use serde_json::Value;

use super::granted::COMMANDS;
use crate::messages::{ApprovalRequest, DisplayBlock, ToolCallInfo, ToolKind};

/// The beginnings of descriptions of files that change, as kimi-cli writes them before the path in backticks.
const FILES: [&str; 3] = ["Write file", "Edit file", "Replace file"];

/// Returns the commands that the agent shows.
pub(super) fn shown_commands(request: &ApprovalRequest) -> impl Iterator<Item = &str> {
    let blocks = request.display.iter().filter_map(|block| match block {
        DisplayBlock::Shell(shell) => Some(&*shell.command),
        _ => None,
    });
    blocks.chain(described(request, &["Run command"]))
}

/// Returns the files whose changes the agent shows, and the file that it describes if the call does not name it.
pub(super) fn shown_files(request: &ApprovalRequest) -> impl Iterator<Item = &str> {
    let blocks = request.display.iter().filter_map(|block| match block {
        DisplayBlock::Diff(diff) => Some(&*diff.path),
        _ => None,
    });
    let arguments = request.tool_call.get().and_then(|call| call.arguments.as_ref());
    let is_named = move |path: &&str| {
        arguments.is_some_and(|arguments| arguments.values().any(|value| value.as_str() == Some(*path)))
    };
    blocks.chain(described(request, &FILES).filter(move |path| !is_named(path)))
}

/// Returns what a description has in backticks behind one of these beginnings: ``Run command `ls` ``.
fn described<'a>(request: &'a ApprovalRequest, beginnings: &[&str]) -> Option<&'a str> {
    let (beginning, rest) = request.description.split_once(" `")?;
    rest.strip_suffix('`').filter(|_| beginnings.contains(&beginning))
}

/// Returns a call about a command as the texts of its request describe it, if they say something else than its arguments: with each
/// text that has the form of a command, and with each other text as a title, in which rules that deny or ask look for commands.
pub(super) fn shown_texts(request: &ApprovalRequest, call: &ToolCallInfo) -> (Vec<ToolCallInfo>, Vec<ToolCallInfo>) {
    let none = serde_json::Map::new();
    let arguments = call.arguments.as_ref().unwrap_or(&none);
    let has_command = arguments.keys().any(|name| COMMANDS.contains(&&**name));
    let shows_command = request.display.iter().any(|block| matches!(block, DisplayBlock::Shell(_)));
    if call.kind != Some(ToolKind::Execute) && !has_command && !shows_command {
        return Default::default();
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: Vec<_> = arguments.values().map(said_by).chain(shown_commands(request).map(str::to_owned)).collect();
    let said: Vec<_> = said.iter().map(|text| words(text)).collect();
    let first_line = request.description.lines().next().unwrap_or_default();
    let (mut commands, mut titles) = (Vec::new(), Vec::new());
    for text in [request.action.as_str(), first_line] {
        let (command, has_form) = match command_in(text) {
            Some(command) => (words(command), true),
            None => (words(text), false),
        };
        let is_said = said.iter().any(|said| says(said, &command));
        if is_said || command.is_empty() || command == call.name {
            continue;
        }
        let mut shown = ToolCallInfo { kind: Some(ToolKind::Execute), ..call.clone() };
        let calls = if has_form { &mut commands } else { &mut titles };
        if has_form {
            shown.arguments = Some([("command".to_owned(), command.into())].into_iter().collect());
        } else {
            shown.name = text.to_owned();
        }
        if !calls.contains(&shown) {
            calls.push(shown);
        }
    }
    (commands, titles)
}

/// Whether an argument has the words of a text, which may be cut or followed by an explanation.
fn says(said: &str, text: &str) -> bool {
    let cut = text.strip_suffix('…').or_else(|| text.strip_suffix("...")).map(str::trim_end);
    let rest = text.strip_prefix(said).filter(|_| !said.is_empty());
    format!(" {said} ").contains(&format!(" {text} "))
        || cut.is_some_and(|beginning| !beginning.is_empty() && said.starts_with(beginning))
        || rest.is_some_and(|rest| rest.starts_with(" (") || rest.starts_with(" ["))
}

/// Returns the command in a text with the form of a command: in backticks, or after the words that agents write before it.
fn command_in(text: &str) -> Option<&str> {
    let text = text.trim();
    let rest = ["Running: ", "Run: ", "$ ", "Run command "].into_iter().find_map(|before| text.strip_prefix(before));
    let inner = rest.unwrap_or(text).strip_prefix('`').and_then(|inner| inner.strip_suffix('`'));
    inner.filter(|inner| !inner.contains('`')).or(rest).filter(|command| !command.trim().is_empty())
}

/// The text of an argument, or its words.
fn said_by(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}
