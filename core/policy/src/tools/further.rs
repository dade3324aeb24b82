//! Reads a call beyond the name of its tool: the command of an editor, thoughts, searches, and further paths.

use std::collections::HashSet;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{MAX_OPERANDS, Taker, Target};
use crate::arguments::{self, plain};
use crate::command::{Word, changes_directory};
use crate::kinds::{Kind, is_name, kind_of_tool};
use crate::path::resolve;
use crate::programs::is_known;
use crate::verbs::{kind_by_title, kind_by_words, may_be_noun};

/// The commands of editors by the kind of their effect on the file.
const EDITOR_COMMANDS: &[(Kind, &[&str])] = &[
    (Kind::Read, &["view", "read", "open", "list"]),
    (Kind::Edit, &["create", "write", "strreplace", "replace", "insert", "append", "edit", "undoedit", "undo"]),
    (Kind::Delete, &["delete", "remove"]),
    (Kind::Move, &["rename", "move"]),
];
/// Arguments of a list of tasks, which are lists, and of a thought.
const LISTS: &[&str] = &["todos", "todolist", "plan", "entries"];
const THOUGHTS: &[&str] = &["thought", "thoughts", "explanation"];
/// Arguments that say what is searched for.
const SEARCHED: &[&str] = &[
    "pattern",
    "patterns",
    "query",
    "queries",
    "regex",
    "regexp",
    "search",
    "searchtext",
    "searchterm",
    "text",
    "symbol",
    "keyword",
    "keywords",
];

/// Whether some tools read a glob in another way: alternatives such as `@(a|b)` and `!(a)`.
pub(super) fn is_extended(glob: &str) -> bool {
    let has_alternatives = glob.split_once('(').is_some_and(|(_, rest)| rest.contains('|'));
    has_alternatives || glob.match_indices('(').any(|(at, _)| glob[..at].ends_with(['@', '+', '!', '?', '*']))
}

/// The glob without its parentheses.
pub(super) fn ungrouped(glob: &str) -> String {
    glob.replace(['(', ')'], "")
}

impl<'a> Taker<'a> {
    /// The kind of the tool by its name. An editor has several commands.
    pub(super) fn kind_by_name(&mut self) -> Option<Kind> {
        let commands = self.known.commands.clone();
        // The title of a command can be the command.
        let is_title = matches!(&*commands, [Value::String(text)] if text.trim() == self.call.name);
        let kind = kind_of_tool(self.call.name);
        if is_title && kind != Some(Kind::Mcp) && self.call.kind.and_then(Kind::parse) == Some(Kind::Execute) {
            return None;
        }
        if !self.is_editor() || commands.is_empty() {
            return kind;
        }
        let word = match &*commands {
            [Value::String(word)] => plain(word),
            _ => String::new(),
        };
        let known = EDITOR_COMMANDS.iter().find(|(_, words)| words.contains(&&*word)).map(|(kind, _)| *kind);
        if known.is_none() {
            self.opaque(None, "the meaning of its `command` is not known");
        }
        known.or(kind)
    }

    /// The kind that the words of the name say, if the agent says that the tool only reads or searches.
    pub(super) fn kind_by_words(&mut self, stated: Kind) -> Option<Kind> {
        if !matches!(stated, Kind::Read | Kind::Search) {
            return None;
        }
        let kind =
            kind_by_words(self.call.name).or_else(|| kind_by_title(self.call.name, |word| self.is_in_text(word)))?;
        // A title can be the name of the file.
        let is_name_of = |name: &str| {
            let rest = self.call.name.strip_prefix(name).filter(|_| !name.is_empty());
            rest.is_some_and(|rest| rest.is_empty() || (rest.starts_with([':', '#']) && name.contains('.')))
        };
        let is_file = |path: &&str| path.rsplit(['/', '\\']).next().is_some_and(is_name_of);
        let locations = self.call.locations.iter().map(|path| &**path);
        let may_be_file = self.call.name.contains('.') || may_be_noun(self.call.name);
        if may_be_file && self.known.paths.iter().copied().chain(locations).any(|path| is_file(&path)) {
            return None;
        }
        let runs = matches!(kind, Kind::Execute | Kind::Fetch) && !self.has_target_of(kind);
        if runs || is_known(self.call.name) {
            self.known.doubt = self.known.doubt.take().or_else(|| Some(self.call.name.chars().take(64).collect()));
        }
        if !runs {
            return Some(kind);
        }
        self.opaque(Some(kind), "its name says that it does more than to read");
        if let Some(part) = self.parts.last_mut() {
            (part.shadow, part.hides) = (true, true);
        }
        None
    }

    /// Whether a word of the title is one of a path or of a text that is searched for.
    fn is_in_text(&self, word: &str) -> bool {
        let is_word =
            |text: &str| text.split(|c: char| c.is_whitespace() || "/\\".contains(c)).any(|known| known == word);
        let locations = self.call.locations.iter().map(|path| &**path);
        let searched = self.call.arguments.into_iter().flatten();
        let searched = searched.filter(|(name, _)| SEARCHED.contains(&&*arguments::key(name)));
        let mut searched = searched.filter_map(|(_, value)| value.as_str());
        self.known.paths.iter().copied().chain(locations).any(is_word) || searched.any(is_word)
    }

    /// Whether the argument `command` of the tool is not for a shell.
    pub(super) fn is_editor(&self) -> bool {
        matches!(
            &*plain(self.call.name),
            "strreplaceeditor"
                | "strreplacebasededittool"
                | "developertexteditor"
                | "texteditor"
                | "fswrite"
                | "fsread"
        )
    }

    /// Whether only the agent says that the tool thinks, and the arguments are not those of thoughts or of a list of tasks.
    pub(super) fn is_unknown_thought(&self) -> bool {
        let is_thought = |(name, value): (&String, &Value)| {
            let key = arguments::key(name);
            match value {
                Value::Null => true,
                Value::Array(_) => LISTS.contains(&&*key),
                Value::String(_) => THOUGHTS.contains(&&*key),
                _ => false,
            }
        };
        // A title is not a name: many agents send a title for a list of tasks.
        let is_title = !is_name(self.call.name);
        let is_meant = |fields: &Map<String, Value>| fields.is_empty() || is_title && fields.iter().all(is_thought);
        kind_of_tool(self.call.name).is_none() && !self.call.arguments.is_none_or(is_meant)
    }

    /// Takes what the arguments and the title say beside the kind.
    pub(super) fn take_described(&mut self, by_name: Option<Kind>, by_agent: Option<Kind>) {
        let reads = |kind: Kind| matches!(kind, Kind::Read | Kind::Search);
        if [by_name, by_agent].into_iter().flatten().all(reads) {
            // That the agent calls it a read is not enough.
            let is_called_read = by_name.or(by_agent).is_some();
            if self.replaces_text() || is_called_read && self.known.writes {
                self.take(Kind::Edit);
            }
            if is_called_read && self.known.deletes {
                self.take(Kind::Delete);
            }
        }
        self.add_followed(by_name.or(by_agent));
        self.add_title_command(by_agent);
        if let Some(kind) = by_agent.or(by_name) {
            self.add_titled_paths(kind);
        }
    }

    /// Adds what links lead to, for a call that follows them.
    fn add_followed(&mut self, kind: Option<Kind>) {
        let Some(name) = self.known.follows else { return };
        if matches!(kind, Some(Kind::Execute | Kind::Fetch | Kind::Think | Kind::Mcp)) {
            return;
        }
        let reason = format!("`{name}` follows links, and what they lead to is not known");
        for kind in [Some(Kind::Read), kind.filter(|kind| *kind != Kind::Read)].into_iter().flatten() {
            self.opaque(Some(kind), &reason);
            self.parts.last_mut().into_iter().for_each(|part| (part.shadow, part.hides) = (true, true));
        }
    }

    /// Whether the arguments have a text and another one in its place, or a patch.
    fn replaces_text(&self) -> bool {
        const OLD: &[&str] = &["oldstring", "oldstr", "oldtext", "oldcontent"];
        const NEW: &[&str] = &["newstring", "newstr", "newtext", "newcontent"];
        let Some(arguments) = self.call.arguments else { return false };
        let has = |names: &[&str]| {
            arguments.iter().any(|(name, value)| value.is_string() && names.contains(&&*arguments::key(name)))
        };
        let is_patch = |text: &&str| {
            let starts = ["--- ", "+++ ", "@@ ", "*** ", "diff --git "];
            text.lines().take(MAX_OPERANDS).any(|line| starts.iter().any(|start| line.starts_with(start)))
        };
        has(OLD) && has(NEW) || self.known.patches.iter().any(is_patch)
    }

    /// Whether the tool searches, and not only the agent says so.
    pub(super) fn searches(&self) -> bool {
        let says = |name: &String| SEARCHED.contains(&&*arguments::key(name));
        kind_of_tool(self.call.name) == Some(Kind::Search)
            || self.call.arguments.is_some_and(|arguments| arguments.keys().any(says))
    }

    /// The name of an argument for another model, if only the agent says that the tool searches.
    pub(super) fn asked_of_model(&self) -> Option<&'a str> {
        const ASKED: &[&str] = &["prompt", "task", "tasks", "instruction", "instructions", "goal", "message"];
        let is_asked = |name: &&String| ASKED.contains(&&*arguments::key(name));
        let arguments = self.call.arguments.filter(|_| kind_of_tool(self.call.name).is_none())?;
        arguments.keys().find(is_asked).map(|name| &**name)
    }

    /// The paths that the agent names beside the arguments.
    pub(super) fn take_further_paths(&mut self) {
        let touches_files = |kind: &Kind| !matches!(kind, Kind::Execute | Kind::Fetch | Kind::Think | Kind::Mcp);
        let mut kinds: Vec<Option<Kind>> =
            self.parts.iter().filter(|part| !part.shadow).map(|part| part.kind).collect();
        let runs = kinds.contains(&Some(Kind::Execute));
        kinds.retain(|kind| kind.is_none_or(|kind| touches_files(&kind)));
        kinds.dedup();
        let shadow = kinds.is_empty();
        if shadow {
            kinds.push(None);
        }
        let (locations, diffs) = (self.call.locations, self.call.diffs);
        if locations.len() + diffs.len() > MAX_OPERANDS {
            return self.opaque(None, "it has more paths than are looked at");
        }
        let named = if runs && shadow && !locations.is_empty() { self.named_files() } else { HashSet::new() };
        for (path, kind) in locations.iter().flat_map(|path| kinds.iter().map(move |kind| (path, *kind))) {
            let target = self.file_target(kind, path);
            let is_named = matches!(&target, Target::Path(path) if path.places().any(|place| named.contains(place)));
            self.add(kind, target);
            if let Some(part) = self.parts.last_mut() {
                // A file that no word of the command names is one that the command does not speak about.
                part.shadow = shadow && (is_named || !runs);
            }
        }
        for path in diffs {
            let target = self.path_target(path, self.work_dir);
            self.add(Some(Kind::Edit), target);
        }
    }

    /// The files that the words of the commands name, and the directories in which they run.
    fn named_files(&self) -> HashSet<PathBuf> {
        /// The words of more directories are not looked at.
        const MAX_FOLDERS: usize = 4;
        let texts = self.known.directories.iter().filter_map(|directory| directory.as_str());
        let commands = || {
            self.parts.iter().filter_map(|part| match &part.target {
                Target::Command(command) => Some(command.words()),
                _ => None,
            })
        };
        let moves =
            commands().filter(|words| changes_directory(words)).filter_map(|words| words.get(1)).map(Word::text);
        let folders = std::iter::once(".").chain(texts).chain(moves).take(MAX_FOLDERS);
        let folders: Vec<PathBuf> = folders
            .flat_map(|text| {
                resolve(text, self.work_dir, self.work_dir).places().map(PathBuf::from).collect::<Vec<_>>()
            })
            .collect();
        let words = commands().flatten().map(Word::text).take(MAX_OPERANDS);
        let files = words.flat_map(|word| {
            let values = [Some(word), word.split_once('=').map(|(_, value)| value)];
            let folders = &folders;
            values
                .into_iter()
                .flatten()
                .flat_map(move |name| folders.iter().map(move |folder| crate::links::normalized(&folder.join(name))))
        });
        files.chain(folders.iter().cloned()).collect()
    }
}
