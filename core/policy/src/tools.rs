//! The kinds of the tools of known agents, and the targets of a call: commands, paths, hosts and MCP tools.

use std::path::Path;

use serde_json::{Map, Value};

use crate::command::{self, Item, Word};
use crate::path::{FilePath, resolve};
use crate::{Call, host};

/// The kind of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Fetch,
    Think,
    Mcp,
}

impl Kind {
    pub(crate) const ALL: [(&'static str, Self); 9] = [
        ("read", Self::Read),
        ("edit", Self::Edit),
        ("delete", Self::Delete),
        ("move", Self::Move),
        ("search", Self::Search),
        ("execute", Self::Execute),
        ("fetch", Self::Fetch),
        ("think", Self::Think),
        ("mcp", Self::Mcp),
    ];

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
    }

    /// Whether a deny rule of this kind also concerns a call of `other`: a file that must not be edited must not be deleted.
    pub(crate) fn covers(self, other: Self) -> bool {
        self == other
            || (self == Self::Edit && matches!(other, Self::Delete | Self::Move))
            || (self == Self::Read && other == Self::Search)
    }
}

/// Names of tools, in lower case and without `_` and `-`, by kind.
const TOOLS: &[(Kind, &[&str])] = &[
    (
        Kind::Execute,
        &[
            "shell",
            "bash",
            "powershell",
            "pwsh",
            "cmd",
            "runshellcommand",
            "executecommand",
            "runcommand",
            "runinterminal",
            "execcommand",
            "localshell",
            "localshellcall",
            "launchprocess",
            "terminal",
            "developershell",
            "shellcommand",
            "writestdin",
            "sendtoterminal",
            "writebash",
            "executepwsh",
            "runterminalcmd",
            "python",
            "executecode",
            "runcode",
        ],
    ),
    (
        Kind::Read,
        &[
            "readfile",
            "read",
            "view",
            "cat",
            "readmanyfiles",
            "readmediafile",
            "listdirectory",
            "ls",
            "list",
            "listdir",
            "listfiles",
            "viewimage",
            "notebookread",
            "readtextfile",
            "fsread",
        ],
    ),
    (
        Kind::Edit,
        &[
            "writefile",
            "strreplacefile",
            "write",
            "edit",
            "multiedit",
            "notebookedit",
            "replace",
            "strreplace",
            "strreplaceeditor",
            "strreplacebasededittool",
            "create",
            "createfile",
            "applypatch",
            "patch",
            "writetofile",
            "replaceinfile",
            "editfile",
            "savefile",
            "insert",
            "developertexteditor",
            "texteditor",
            "insertcontent",
            "fswrite",
            "writetextfile",
            "applydiff",
        ],
    ),
    (Kind::Delete, &["removefiles", "deletefile", "removefile", "delete"]),
    (Kind::Move, &["movefile", "renamefile", "move", "rename"]),
    (
        Kind::Search,
        &[
            "glob",
            "grep",
            "grepsearch",
            "searchfilecontent",
            "searchfiles",
            "rg",
            "ripgrep",
            "find",
            "findfiles",
            "codesearch",
            "codebasesearch",
            "filesearch",
        ],
    ),
    (
        Kind::Fetch,
        &[
            "fetchurl",
            "webfetch",
            "fetch",
            "searchweb",
            "websearch",
            "googlewebsearch",
            "fetchwebpage",
            "browserpreview",
        ],
    ),
    (
        Kind::Think,
        &[
            "think",
            "settodolist",
            "todowrite",
            "todoread",
            "todolist",
            "updateplan",
            "writetodos",
            "updatetodos",
            "managetodolist",
        ],
    ),
];

/// Tools that search for names, whose pattern is a path.
const GLOBS: &[&str] = &["glob", "find", "findfiles", "filesearch"];
/// Tools whose text is not for a shell that the parser knows.
const OTHER_SHELLS: &[&str] = &[
    "powershell",
    "pwsh",
    "cmd",
    "executepwsh",
    "writestdin",
    "sendtoterminal",
    "writebash",
    "python",
    "executecode",
    "runcode",
];

const COMMAND_KEYS: &[&str] = &["command", "cmd", "commandline", "script", "commands", "code", "input", "chars"];
const ARGUMENT_KEYS: &[&str] = &["args", "argv", "arguments"];
const ENVIRONMENT_KEYS: &[&str] = &["env", "environment", "envvars", "shell", "stdin"];
const DIRECTORY_KEYS: &[&str] = &["cwd", "workdir", "workingdirectory", "directory", "dir"];
const PATH_KEYS: &[&str] = &[
    "path",
    "paths",
    "filepath",
    "filepaths",
    "absolutepath",
    "filename",
    "file",
    "files",
    "notebookpath",
    "targetfile",
    "target",
    "source",
    "destination",
    "src",
    "dst",
    "dest",
    "from",
    "to",
    "oldpath",
    "newpath",
    "directory",
    "dir",
    "dirpath",
    "targetdirectory",
    "relativeworkspacepath",
    "uri",
    "fileuri",
    "folder",
    "filepattern",
    "outputpath",
];
const URL_KEYS: &[&str] = &["url", "urls", "uri", "href", "link"];
const PATCH_KEYS: &[&str] = &["patch", "input", "patchtext", "diff"];
/// Lines of a patch that name a file.
const PATCH_LINES: &[&str] = &["*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: "];

/// A part of a call that needs a decision.
#[derive(Debug)]
pub(crate) struct Part {
    /// Unknown for a tool of no known agent, if the agent sends no kind.
    pub(crate) kind: Option<Kind>,
    pub(crate) target: Target,
    /// Only rules that deny or ask look at it: the part may exist, or is decided as another part as well.
    pub(crate) shadow: bool,
    /// A file that a command of the shell writes or reads, which a rule for the tool itself does not allow.
    pub(crate) redirection: bool,
}

/// The target of a part.
#[derive(Debug)]
pub(crate) enum Target {
    Command(Command),
    Path(FilePath),
    Host(host::Host),
    Mcp(String, String),
    /// The tool has no target that a pattern could describe.
    Nothing,
    /// The target cannot be decided. The text is what is known of it.
    Opaque(String),
}

/// A simple command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) words: Vec<Word>,
    /// It runs with another environment or elsewhere, so that an allow rule cannot speak about it.
    pub(crate) altered: bool,
}

/// Returns the name of a tool without case, `_` and `-`, for comparisons.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// The kind of a tool of a known agent, by its name.
pub(crate) fn kind_of_tool(name: &str) -> Option<Kind> {
    if mcp_name(name).is_some() {
        return Some(Kind::Mcp);
    }
    let name = plain(name);
    TOOLS.iter().find(|(_, names)| names.contains(&&*name)).map(|(kind, _)| *kind)
}

/// The server and the tool of an MCP tool's name.
fn mcp_name(name: &str) -> Option<(&str, &str)> {
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    (is_name(name) && !server.is_empty() && !tool.is_empty()).then_some((server, tool))
}

/// Whether the text can be the name of a tool. Some agents send a title instead, which can be a command.
pub(crate) fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}

/// Takes a call apart.
pub(crate) fn parts(call: Call<'_>, work_dir: &Path) -> Vec<Part> {
    let mut taker = Taker { call, work_dir, parts: Vec::new() };
    let by_name = kind_of_tool(call.name);
    let by_agent = call.kind.and_then(Kind::parse).filter(|_| by_name != Some(Kind::Mcp));
    match (by_name, by_agent) {
        (_, Some(Kind::Mcp)) => taker.take(Kind::Mcp),
        (Some(kind), Some(other)) if kind != other => {
            taker.take(kind);
            // Both could be true: the call needs a decision as each of them.
            taker.take(other);
        }
        (Some(kind), _) | (None, Some(kind)) => taker.take(kind),
        (None, None) => taker.take_unknown(),
    }
    taker.take_further_paths();
    taker.parts
}

struct Taker<'a> {
    call: Call<'a>,
    work_dir: &'a Path,
    parts: Vec<Part>,
}

impl Taker<'_> {
    fn add(&mut self, kind: Option<Kind>, target: Target) {
        self.parts.push(Part { kind, target, shadow: false, redirection: false });
    }

    fn opaque(&mut self, kind: Option<Kind>) {
        let mut texts = self.call.arguments.map(strings).unwrap_or_default();
        // Some agents send a title, such as the command, instead of the name of the tool.
        texts.extend(Some(self.call.name).filter(|name| kind_of_tool(name).is_none()).map(str::to_owned));
        texts.extend(self.call.about.map(str::to_owned));
        self.add(kind, Target::Opaque(texts.join("\n")));
    }

    fn take(&mut self, kind: Kind) {
        let Some(arguments) = self.call.arguments else {
            // The name says everything that a rule for an MCP tool is about.
            return if kind == Kind::Mcp { self.take_mcp() } else { self.opaque(Some(kind)) };
        };
        match kind {
            Kind::Execute => self.take_command(Some(kind), arguments),
            Kind::Think => self.add(Some(kind), Target::Nothing),
            Kind::Mcp => self.take_mcp(),
            Kind::Fetch => self.take_hosts(Some(kind), arguments),
            Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search => self.take_paths(kind, arguments),
        }
        if kind != Kind::Execute
            && !matches!(
                &*plain(self.call.name),
                "strreplaceeditor" | "strreplacebasededittool" | "developertexteditor" | "texteditor"
            )
        {
            self.add_shadows(arguments, kind != Kind::Mcp);
        }
    }

    /// A tool of another kind can still run a command: rules that deny or ask look at it.
    fn add_shadows(&mut self, arguments: &Map<String, Value>, has_kind: bool) {
        let start = self.parts.len();
        if values(arguments, &COMMAND_KEYS[..4]).next().is_some() {
            self.take_command(None, arguments);
        }
        if !has_kind {
            for path in path_texts(arguments) {
                let target = self.path_target(&path, self.work_dir);
                self.add(None, target);
            }
            if values(arguments, URL_KEYS).next().is_some() {
                self.take_hosts(None, arguments);
            }
        }
        self.parts[start..].iter_mut().for_each(|part| part.shadow = true);
    }

    /// A tool of which only the name and the arguments are known.
    fn take_unknown(&mut self) {
        let Some(arguments) = self.call.arguments else { return self.opaque(None) };
        if values(arguments, &COMMAND_KEYS[..4]).next().is_some() {
            self.take_command(None, arguments);
        }
        for path in path_texts(arguments) {
            let target = self.path_target(&path, self.work_dir);
            self.add(None, target);
        }
        if values(arguments, URL_KEYS).next().is_some() {
            self.take_hosts(None, arguments);
        }
        if self.parts.is_empty() {
            self.add(None, Target::Nothing);
        }
    }

    fn take_mcp(&mut self) {
        // A tool of the program has the name that the program gave it.
        let (server, tool) = mcp_name(self.call.name).unwrap_or(("program", self.call.name));
        self.add(Some(Kind::Mcp), Target::Mcp(server.to_owned(), tool.to_owned()));
    }

    /// The paths that the agent names in addition to the arguments. A change of a file is an edit, whatever the kind.
    fn take_further_paths(&mut self) {
        let touches_files = |kind: &Kind| !matches!(kind, Kind::Execute | Kind::Fetch | Kind::Think | Kind::Mcp);
        let mut kinds: Vec<Option<Kind>> =
            self.parts.iter().filter(|part| !part.shadow).map(|part| part.kind).collect();
        kinds.retain(|kind| kind.is_none_or(|kind| touches_files(&kind)));
        kinds.dedup();
        let shadow = kinds.is_empty();
        if shadow {
            kinds.push(None);
        }
        for (path, kind) in self.call.locations.iter().flat_map(|path| kinds.iter().map(move |kind| (path, *kind))) {
            let target = self.path_target(path, self.work_dir);
            self.parts.push(Part { kind, target, shadow, redirection: false });
        }
        for path in self.call.diffs {
            let target = self.path_target(path, self.work_dir);
            self.add(Some(Kind::Edit), target);
        }
    }

    fn path_target(&self, text: &str, base: &Path) -> Target {
        Target::Path(resolve(text, base, self.work_dir))
    }

    fn take_paths(&mut self, kind: Kind, arguments: &Map<String, Value>) {
        let mut paths = path_texts(arguments);
        let name = plain(self.call.name);
        if kind == Kind::Edit {
            for text in values(arguments, PATCH_KEYS).filter_map(Value::as_str) {
                let lines = text
                    .lines()
                    .flat_map(|line| PATCH_LINES.iter().filter_map(|start| line.trim_start().strip_prefix(start)));
                let before = paths.len();
                paths.extend(lines.map(str::to_owned));
                if paths.len() == before {
                    self.opaque(Some(kind));
                }
            }
        }
        let patterns = values(arguments, &["pattern", "glob", "globpattern"]).filter_map(Value::as_str);
        let leaves = |pattern: &str| {
            pattern.starts_with(['/', '~', '\\'])
                || pattern.contains("..")
                || pattern.contains(':')
                || pattern.contains('$')
        };
        if kind == Kind::Search {
            if GLOBS.contains(&&*name) && patterns.into_iter().any(leaves) {
                return self.opaque(Some(kind));
            }
            if paths.is_empty() {
                paths.push(".".to_owned());
            }
        }
        if paths.is_empty() {
            let lists = kind == Kind::Read && arguments.is_empty();
            if !lists && self.parts.is_empty() {
                return self.opaque(Some(kind));
            }
            if lists {
                paths.push(".".to_owned());
            }
        }
        for path in paths {
            let target = self.path_target(&path, self.work_dir);
            self.add(Some(kind), target);
        }
    }

    fn take_hosts(&mut self, kind: Option<Kind>, arguments: &Map<String, Value>) {
        let mut found = false;
        for value in values(arguments, URL_KEYS) {
            let mut texts = Vec::new();
            collect(value, &mut texts);
            for text in texts {
                found = true;
                self.add(kind, Target::Host(host::parse(&text)));
            }
        }
        // Some tools take the address inside of a text for the model.
        for text in strings(arguments) {
            for (at, _) in text.match_indices("://") {
                let start = text[..at]
                    .rfind(|c: char| !c.is_ascii_alphanumeric())
                    .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
                let end = text[at..]
                    .find(|c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>'))
                    .map_or(text.len(), |length| at + length);
                found = true;
                self.add(kind, Target::Host(host::parse(&text[start..end])));
            }
        }
        if !found {
            self.opaque(kind);
        }
    }

    fn take_command(&mut self, kind: Option<Kind>, arguments: &Map<String, Value>) {
        let name = plain(self.call.name);
        let commands: Vec<&Value> = values(arguments, COMMAND_KEYS).collect();
        let more: Vec<&Value> = values(arguments, ARGUMENT_KEYS).collect();
        let altered = values(arguments, ENVIRONMENT_KEYS).any(|value| !value.is_null());
        let mut base = resolve(".", self.work_dir, self.work_dir);
        for directory in values(arguments, DIRECTORY_KEYS) {
            match directory {
                Value::Null => {}
                Value::String(text) if text.is_empty() => {}
                Value::String(text) => base = resolve(text, self.work_dir, self.work_dir),
                _ => return self.opaque(kind),
            }
        }
        let altered = altered || !base.is_below();
        let base_dir = base.directory(self.work_dir);
        let other_shell = OTHER_SHELLS.contains(&&*name) || (cfg!(windows) && name != "bash");
        let mut items = Vec::new();
        match (&*commands, &*more) {
            ([Value::String(text)], []) if other_shell => items.push(Item::Opaque(text.clone())),
            ([Value::String(text)], []) => command::take_text(text, &mut items),
            ([Value::Array(words)], []) => match words.iter().map(Value::as_str).collect::<Option<Vec<_>>>() {
                Some(words) if !other_shell && !words.is_empty() => command::take_words(words, &mut items),
                _ => return self.opaque(kind),
            },
            ([Value::String(program)], [Value::Array(words)])
                if !program.contains(char::is_whitespace) && !other_shell =>
            {
                match words.iter().map(Value::as_str).collect::<Option<Vec<_>>>() {
                    Some(words) => {
                        command::take_words(std::iter::once(&**program).chain(words).collect(), &mut items);
                    }
                    None => return self.opaque(kind),
                }
            }
            _ => return self.opaque(kind),
        }
        if items.is_empty() {
            return self.opaque(kind);
        }
        let moves =
            items.iter().any(|item| matches!(item, Item::Command { words, .. } if command::changes_directory(words)));
        for item in items {
            match item {
                Item::Command { words, altered: own, shadow } => {
                    let target = Target::Command(Command { words, altered: own || altered });
                    self.parts.push(Part { kind, target, shadow, redirection: false });
                }
                Item::Opaque(text) => self.add(kind, Target::Opaque(text)),
                Item::Write(word) => self.add_redirection(Kind::Edit, word, moves, &base_dir, false),
                Item::Read(word) => self.add_redirection(Kind::Read, word, moves, &base_dir, true),
            }
        }
    }

    fn add_redirection(&mut self, kind: Kind, word: Word, moves: bool, base: &Path, shadow: bool) {
        let target = match word {
            Word::Literal(text) => {
                let mut path = resolve(&text, base, self.work_dir);
                if moves && !Path::new(&text).is_absolute() {
                    path.make_undecidable();
                }
                Target::Path(path)
            }
            Word::Dynamic(text) => Target::Opaque(text),
        };
        self.parts.push(Part { kind: Some(kind), target, shadow, redirection: true });
    }
}

/// The values under these names.
fn values<'a>(arguments: &'a Map<String, Value>, keys: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    arguments.iter().filter(|(key, value)| !value.is_null() && keys.contains(&&*plain(key))).map(|(_, value)| value)
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(fields) => fields.values().for_each(|item| collect(item, texts)),
        _ => {}
    }
}

/// All texts of the arguments.
fn strings(arguments: &Map<String, Value>) -> Vec<String> {
    let mut texts = Vec::new();
    arguments.values().for_each(|value| collect(value, &mut texts));
    texts
}

/// The paths of the arguments, also inside of lists and objects.
fn path_texts(arguments: &Map<String, Value>) -> Vec<String> {
    let mut texts = Vec::new();
    for (key, value) in arguments {
        match value {
            Value::String(text) if PATH_KEYS.contains(&&*plain(key)) => texts.push(text.clone()),
            Value::Array(items) => {
                for item in items {
                    match item {
                        Value::String(text) if PATH_KEYS.contains(&&*plain(key)) => texts.push(text.clone()),
                        Value::Object(fields) => texts.extend(path_texts(fields)),
                        _ => {}
                    }
                }
            }
            Value::Object(fields) => texts.extend(path_texts(fields)),
            _ => {}
        }
    }
    texts
}
