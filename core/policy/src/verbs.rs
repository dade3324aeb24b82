//! The kind that the words of a name of a tool say, for tools of no known agent: an agent can state another kind.

use crate::command::{is_program_of_shell, is_unknown_program};
use crate::file_use::{is_reading, kind_of_program};
use crate::kinds::{Kind, is_name};
use crate::mcp::words_of;
use crate::programs::is_network;

/// Words of names for what a tool does, without a plural.
const VERBS: &[(Kind, &[&str])] = &[
    (
        Kind::Delete,
        &[
            "delete", "remove", "rm", "rmdir", "unlink", "erase", "trash", "destroy", "purge", "wipe", "shred", "del",
            "drop", "discard", "prune", "rimraf",
        ],
    ),
    (Kind::Move, &["move", "mv", "rename", "relocate"]),
    (
        Kind::Edit,
        &[
            "write",
            "overwrite",
            "rewrite",
            "edit",
            "append",
            "prepend",
            "patch",
            "create",
            "insert",
            "replace",
            "update",
            "modify",
            "save",
            "put",
            "truncate",
            "touch",
            "chmod",
            "chown",
            "mkdir",
            "copy",
            "cp",
            "symlink",
            "upsert",
            "apply",
            "revert",
            "restore",
            "undo",
        ],
    ),
    (
        Kind::Execute,
        &[
            "execute",
            "exec",
            "run",
            "shell",
            "spawn",
            "eval",
            "evaluate",
            "invoke",
            "launch",
            "install",
            "uninstall",
            "reinstall",
            "commit",
            "push",
            "checkout",
            "merge",
            "rebase",
            "reset",
            "cherry",
            "deploy",
            "publish",
            "kill",
            "restart",
            "reboot",
            "sudo",
        ],
    ),
    (Kind::Fetch, &["download", "upload", "curl", "wget"]),
];
/// A name that begins with one of these says that the tool reads.
const READS: &[&str] = &[
    "read", "get", "list", "view", "show", "search", "find", "grep", "glob", "cat", "ls", "head", "tail", "stat",
    "describe", "inspect", "check", "query", "lookup", "count", "diff", "status", "open", "load", "look", "peek",
    "preview", "explain", "analyze", "can", "is", "has",
];

fn kind_of_word(word: &str) -> Option<Kind> {
    let singular = word.strip_suffix('s').unwrap_or(word);
    let is = |words: &&[&str]| words.contains(&word) || words.contains(&singular);
    VERBS.iter().find(|(_, words)| is(words)).map(|(kind, _)| *kind)
}

/// Returns the kind of a second verb in a name that begins with a word for reading: `read_and_delete`, `search_replace`. Most other
/// words are nouns, for example in `get_commit`.
fn kind_of_second_verb<'a>(words: impl Iterator<Item = &'a str>) -> Option<Kind> {
    const CERTAIN: [&str; 12] = [
        "replace",
        "write",
        "overwrite",
        "rewrite",
        "delete",
        "remove",
        "rename",
        "modify",
        "edit",
        "execute",
        "exec",
        "eval",
    ];
    let mut before = None;
    for word in words {
        let follows = matches!(before, Some("and" | "or" | "then"));
        let counts = follows || (before.is_none() && CERTAIN.contains(&word));
        if let Some(kind) = kind_of_word(word).filter(|_| counts) {
            return Some(kind);
        }
        before = Some(word);
    }
    None
}

/// What a tool does by the words of its name, if that is more than to read. Of a title, only the first word counts.
pub(crate) fn kind_by_words(name: &str) -> Option<Kind> {
    /// Names with more words are titles.
    const MAX_WORDS: usize = 16;
    /// The rest of a longer name is not looked at.
    const MAX_NAME: usize = 256;
    let name = name.trim();
    let end = name.char_indices().nth(MAX_NAME).map_or(name.len(), |(at, _)| at);
    let name = &name[..end];
    let words = words_of(name);
    let mut words = words.split('_').filter(|word| !word.is_empty()).take(MAX_WORDS);
    let first = words.next()?;
    if READS.contains(&first) {
        return if is_name(name) { kind_of_second_verb(words) } else { None };
    }
    let found = kind_of_word(first);
    if found.is_some() || !is_name(name) {
        return found;
    }
    if words.clone().next().is_none() && is_reading(name) {
        return None;
    }
    if words.clone().next().is_none() {
        return kind_of_program(name).or_else(|| {
            let is_program = is_program_of_shell(name) || !is_unknown_program(name);
            if is_network(name) { Some(Kind::Fetch) } else { is_program.then_some(Kind::Execute) }
        });
    }
    words.find_map(kind_of_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_name_say_kind() {
        for (kind, names) in [
            (
                Kind::Delete,
                &[
                    "rm",
                    "unlink",
                    "delete_files",
                    "deletesFile",
                    "file.delete",
                    "fs:remove",
                    "Delete a.txt",
                    "read_and_delete",
                ][..],
            ),
            (
                Kind::Edit,
                &[
                    "overwrite",
                    "fs.write",
                    "tee",
                    "updateFile",
                    "search_replace",
                    "find_and_replace",
                    "getOrCreateFile",
                ],
            ),
            (Kind::Move, &["files_rename", "mv"]),
            (
                Kind::Execute,
                &["sh", "zsh", "fish", "execute", "git_commit", "uninstall", "node", "xargs", "git", "load_and_run"],
            ),
            (Kind::Fetch, &["curl", "nc", "download_file"]),
        ] {
            for name in names {
                assert_eq!(kind_by_words(name), Some(kind), "{name}");
            }
        }
        for name in [
            "read_file",
            "cat",
            "ls",
            "getUpdates",
            "list_commands",
            "open",
            "git_diff",
            "get_commit",
            "list_edits",
            "view_run",
            "search_and_sort",
            "outline",
            "a title to write",
            "",
        ] {
            assert_eq!(kind_by_words(name), None, "{name}");
        }
    }
}
