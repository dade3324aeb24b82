//! The commands and files that an agent shows with a request for a permission.

use crate::messages::{ApprovalRequest, DisplayBlock};

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
