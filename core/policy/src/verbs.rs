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
/// Further words of names, which are nouns elsewhere: they count in names that do not end with a word for reading, and in no title.
const MAY_BE_NOUNS: &[(Kind, &[&str])] = &[
    (
        Kind::Edit,
        &[
            "writer",
            "rewriter",
            "editor",
            "creator",
            "updater",
            "modifier",
            "saver",
            "replacer",
            "inserter",
            "appender",
            "patcher",
            "readwrite",
            "rw",
            "make",
            "maker",
            "add",
            "format",
            "formatter",
            "reformat",
            "clear",
            "clean",
            "cleaner",
            "cleanup",
            "rollback",
            "extract",
            "extractor",
            "unpack",
            "generate",
            "generator",
            "regenerate",
            "scaffold",
            "archive",
            "sync",
            "synchronize",
            "store",
            "duplicate",
            "clone",
            "stash",
            "autofix",
            "refactor",
            "migrate",
            "redo",
            "fill",
            "dump",
            "export",
            "backup",
            "mutate",
            "persist",
            "alter",
            "amend",
            "fix",
            "prettify",
            "minify",
            "beautify",
            "autocorrect",
            "decompress",
            "swap",
            "bootstrap",
            "populate",
            "inject",
            "transform",
            "mkfile",
            "rotate",
            "encrypt",
            "decrypt",
        ],
    ),
    (Kind::Delete, &["deleter", "remover", "eraser"]),
    (Kind::Move, &["mover", "renamer"]),
    (
        Kind::Execute,
        &[
            "runner",
            "executor",
            "launcher",
            "installer",
            "repl",
            "compile",
            "compiler",
            "build",
            "builder",
            "rebuild",
            "pull",
            "interpreter",
            "terminate",
            "dispatch",
            "trigger",
        ],
    ),
    (
        Kind::Fetch,
        &[
            "post",
            "send",
            "sender",
            "resend",
            "email",
            "mail",
            "sendmail",
            "submit",
            "request",
            "requester",
            "http",
            "https",
            "downloader",
            "uploader",
            "sms",
            "browse",
            "click",
            "visit",
            "connect",
            "webhook",
            "notify",
            "reply",
            "tweet",
            "navigate",
            "crawl",
            "scrape",
        ],
    ),
];
/// Words that count at the begin of a name alone.
const BEGINS: &[(Kind, &[&str])] = &[(Kind::Edit, &["new", "set"]), (Kind::Execute, &["start", "stop"])];
/// Behind these words, a verb is a noun: `pull_request`.
const NOUNS: &[&str] = &["pull_request", "merge_request"];
/// What a name of a tool that only reads ends with, beside the words that it begins with.
const READ_ENDS: &[&str] = &[
    "reader", "viewer", "info", "log", "logs", "output", "result", "results", "history", "details", "summary",
    "searcher",
];
/// What is opened or read over the network.
const ADDRESSES: &[&str] = &["url", "urls", "website", "webpage", "browser"];
/// Nouns that can be joined with a verb in one word, without a sign.
const JOINED: &[&str] = &["files", "file", "directory", "dir", "folder", "text", "content", "url", "command", "code"];
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

/// The kind of a word that is a noun elsewhere.
fn kind_of_noun(word: &str, lists: &[&[(Kind, &[&str])]]) -> Option<Kind> {
    let mut rows = lists.iter().copied().flatten();
    rows.find(|(_, words)| words.contains(&word)).map(|(kind, _)| *kind)
}

/// Whether the name is one word that can be a verb or a noun, such as the name of a folder.
pub(crate) fn may_be_noun(name: &str) -> bool {
    kind_of_noun(&name.to_lowercase(), &[MAY_BE_NOUNS, BEGINS]).is_some()
}

/// The kind of a verb that is joined with a noun in one word.
fn kind_of_joined(word: &str) -> Option<Kind> {
    if word.strip_prefix("open").is_some_and(|noun| ADDRESSES.contains(&noun)) {
        return Some(Kind::Fetch);
    }
    let parts = JOINED.iter().flat_map(|noun| [word.strip_prefix(noun), word.strip_suffix(noun)]).flatten();
    let is_file = word == "makefile" || word == "codebuild";
    let kinds = |part: &str| kind_of_word(part).or_else(|| kind_of_noun(part, &[MAY_BE_NOUNS, BEGINS]));
    parts.filter(|part| part.len() > 2 && !is_file).find_map(kinds)
}

/// The kind of a name by words that are nouns elsewhere.
fn kind_by_nouns(words: &str) -> Option<Kind> {
    let mut text = words.to_owned();
    NOUNS.iter().for_each(|noun| text = text.replace(noun, ""));
    let words: Vec<&str> = text.split('_').filter(|word| !word.is_empty()).collect();
    let (first, last) = (words.first()?, words.last()?);
    let ends_with_reading = words.len() > 1 && (READS.contains(last) || READ_ENDS.contains(last));
    let joins = words.iter().any(|word| matches!(*word, "and" | "or" | "then"));
    if ends_with_reading && !joins {
        return None;
    }
    // Alone, it is a program.
    let is_program = |word: &&&str| words.len() == 1 && **word == "make";
    let found = words.iter().filter(|word| !is_program(word)).find_map(|word| kind_of_noun(word, &[MAY_BE_NOUNS]));
    found.or_else(|| kind_of_noun(first, &[BEGINS])).or_else(|| words.iter().find_map(|word| kind_of_joined(word)))
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
        let kind = kind_of_word(word).or_else(|| kind_of_noun(word, &[MAY_BE_NOUNS]).filter(|_| follows));
        if let Some(kind) = kind.filter(|_| counts) {
            return Some(kind);
        }
        before = Some(word);
    }
    None
}

/// Returns the kind of a tool by the second verb of a title such as `Read and Delete`, `read+delete` or `Read/Write`. The words of files, and
/// texts in quotes, are no verbs.
pub(crate) fn kind_by_title(title: &str, is_text: impl Fn(&str) -> bool) -> Option<Kind> {
    /// The rest of a longer title is not looked at.
    const MAX_WORDS: usize = 16;
    const MAX_NOUNS: usize = 3;
    const SIGNS: [char; 10] = ['+', '/', '&', ',', '|', ';', '(', ')', '\\', '>'];
    if is_name(title) || title.contains(['"', '\'', '`']) {
        return None;
    }
    let mut words = Vec::new();
    for (at, word) in title.split_whitespace().take(MAX_WORDS).enumerate() {
        let is_sign = word.chars().all(|c| SIGNS.contains(&c) || c == '-');
        let is_path = at > 0 && word.trim_matches(SIGNS).contains(['/', '.', '\\']);
        if !is_sign && (is_path || is_text(word)) {
            continue;
        }
        for (place, piece) in word.split(SIGNS).enumerate() {
            words.extend((place > 0).then(|| "and".to_owned()));
            words.extend(words_of(piece).split('_').filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
    let mut words = words.iter().map(|word| &**word).skip_while(|word| *word == "and");
    let first = words.next()?;
    // In longer titles, further words are rather nouns.
    let is_short = title.split_whitespace().count() <= MAX_NOUNS;
    let is_reading = READS.contains(&first) || first.strip_suffix('s').is_some_and(|word| READS.contains(&word));
    let mut found = None;
    let mut follows = false;
    for word in words.filter(|_| is_reading) {
        if matches!(word, "and" | "or" | "then" | "n" | "und" | "to") {
            follows = word != "to";
            continue;
        }
        let kind = kind_of_word(word).or_else(|| kind_of_noun(word, &[MAY_BE_NOUNS]).filter(|_| is_short));
        found = found.or(kind.filter(|_| follows));
        follows = false;
    }
    found
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
    let all = words_of(name);
    let mut words = all.split('_').filter(|word| !word.is_empty()).take(MAX_WORDS);
    let first = words.next()?;
    if READS.contains(&first) {
        let is_opened = matches!(first, "open" | "load" | "get" | "read" | "view");
        let second = words.clone().next();
        if is_opened && second.is_some_and(|word| ADDRESSES.contains(&word)) && is_name(name) {
            return Some(Kind::Fetch);
        }
        return if is_name(name) { kind_of_second_verb(words) } else { None };
    }
    let found = kind_of_word(first).or_else(|| kind_by_nouns(&all).filter(|_| is_name(name)));
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
    fn second_verb_of_title_says_kind() {
        for (title, kind) in [
            ("Read and Delete", Kind::Delete),
            ("read+delete", Kind::Delete),
            ("Read/Write", Kind::Edit),
            ("Read & Write", Kind::Edit),
            ("Read, Write", Kind::Edit),
            ("read then delete", Kind::Delete),
            ("Reads and deletes", Kind::Delete),
            ("Read and run rm", Kind::Execute),
            ("Read and format", Kind::Edit),
            ("Read the file and delete it", Kind::Delete),
        ] {
            assert_eq!(kind_by_title(title, |_| false), Some(kind), "{title}");
        }
        for title in [
            "Read notes and todo.txt",
            "Read src/delete/write.py",
            "Read src/delete",
            "Read and search",
            "View docs and build notes",
            "Search for `read and delete`",
            "read_and_delete",
            "Write and delete",
            "Read a, b",
            "",
        ] {
            assert_eq!(kind_by_title(title, |_| false), None, "{title}");
        }
        assert_eq!(kind_by_title("Read create and delete", |word| word == "delete"), None);
        assert_eq!(kind_by_title("View docs and build notes", |word| word == "docs"), None);
    }

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
                    "FileWriter",
                    "file_writer",
                    "filewriter",
                    "FileEditor",
                    "FileCreator",
                    "make_file",
                    "new_file",
                    "newfile",
                    "add_file",
                    "make_directory",
                    "format_file",
                    "readwrite",
                    "clear",
                    "clean",
                    "rollback",
                    "extract",
                    "generate",
                    "read_and_format",
                ],
            ),
            (Kind::Move, &["files_rename", "mv"]),
            (
                Kind::Execute,
                &[
                    "sh",
                    "zsh",
                    "fish",
                    "execute",
                    "git_commit",
                    "uninstall",
                    "node",
                    "xargs",
                    "git",
                    "load_and_run",
                    "repl",
                    "compile",
                    "build",
                    "TestRunner",
                    "make",
                ],
            ),
            (
                Kind::Fetch,
                &["curl", "nc", "download_file", "post", "send", "email", "http_request", "open_url", "openurl"],
            ),
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
            "Make a list",
            "build/notes.txt",
            "pull_request_read",
            "build_log",
            "get_request",
            "get_file",
            "notebook_read",
            "project_structure",
            "my_profile",
            "Makefile",
            "list_builds",
            "",
        ] {
            assert_eq!(kind_by_words(name), None, "{name}");
        }
    }
}
