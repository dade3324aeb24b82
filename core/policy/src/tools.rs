//! The kinds of the tools of known agents, and the targets of a call: commands, paths, hosts and MCP tools.

use std::path::Path;

use serde_json::{Map, Value};

use crate::arguments::{self, Arguments, all_texts, plain};
use crate::command::pattern::loose_words;
use crate::command::{self, Command, Item, Word};
use crate::path::{FilePath, GlobUse, WorkDir, resolve};
use crate::programs::{self, FileUse};
use crate::{Call, host};

/// How many addresses are looked for in the texts of a call.
const MAX_ADDRESSES: usize = 100;
/// How many files the words of the commands of a call may name.
const MAX_OPERANDS: usize = 200;

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

/// Lines of a patch that name a file.
const PATCH_LINES: &[&str] = &["*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: "];

/// Words that people write for kinds.
const MEANT: &[(&str, &str)] = &[
    ("exec", "execute"),
    ("run", "execute"),
    ("command", "execute"),
    ("file", "read"),
    ("url", "fetch"),
    ("http", "fetch"),
    ("web", "fetch"),
    ("network", "fetch"),
    ("remove", "delete"),
];

/// Which parts the policy needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// A rule is about files, so the words of commands are looked at as files, too.
    pub(crate) paths: bool,
    /// A rule is about hosts.
    pub(crate) hosts: bool,
}

/// A part of a call that needs a decision.
#[derive(Debug)]
pub(crate) struct Part {
    /// Unknown for a tool of no known agent, if the agent sends no kind.
    pub(crate) kind: Option<Kind>,
    pub(crate) target: Target,
    /// Only rules that deny or ask look at it: the part may exist, or is decided as another part as well.
    pub(crate) shadow: bool,
    /// It may be something else that a rule denies, although it is a shadow.
    pub(crate) hides: bool,
    /// It may not exist at all: a rule that matches it is not certain.
    pub(crate) vague: bool,
    /// A file that a command of the shell writes or reads, which a rule for the tool itself does not allow.
    pub(crate) redirection: bool,
    /// Why no allow rule with a pattern may speak about it.
    pub(crate) doubt: Option<String>,
    /// The command that hides this part. If an allow rule spells the command, the part needs no decision.
    pub(crate) spelled: Option<Box<Part>>,
}

impl Part {
    fn new(kind: Option<Kind>, target: Target) -> Self {
        Self { kind, target, shadow: false, hides: false, vague: false, redirection: false, doubt: None, spelled: None }
    }

    /// A copy of the part, if it is a command.
    fn of_command(&self) -> Box<Self> {
        let target = match &self.target {
            Target::Command(command) => Target::Command(command.clone()),
            _ => Target::Nothing,
        };
        Box::new(Self { doubt: self.doubt.clone(), ..Self::new(self.kind, target) })
    }

    /// The part as people read it.
    pub(crate) fn text(&self, tool: &str) -> String {
        match &self.target {
            Target::Command(command) => command.text(),
            Target::Path(path) => path.text.clone(),
            Target::Host(host) => host.text.clone(),
            Target::Opaque(opaque) if !opaque.text.is_empty() => opaque.text.clone(),
            Target::Mcp(_) | Target::Nothing | Target::Opaque(_) => tool.to_owned(),
        }
    }

    /// What a comparison with a rule takes, in bytes that are compared.
    pub(crate) fn weight(&self) -> usize {
        let words = |words: &[Word]| words.iter().map(|word| word.text().len() + 8).sum();
        match &self.target {
            Target::Command(command) => words(command.words()),
            Target::Path(path) => path.weight(),
            Target::Host(host) => host.text.len(),
            Target::Opaque(opaque) => opaque.words.iter().map(|word| word.len() + 8).sum(),
            Target::Mcp(names) => names.iter().map(|(server, tool)| server.len() + tool.len()).sum(),
            Target::Nothing => 0,
        }
    }

    /// Why the part cannot be decided, for people.
    pub(crate) fn why(&self) -> Option<String> {
        let why = match &self.target {
            Target::Command(command) => match command.altered {
                Some(altered) => Some(altered.to_owned()),
                None => command
                    .words()
                    .iter()
                    .find(|word| word.literal().is_none())
                    .map(|word| format!("only the shell knows what `{}` stands for", word.text()))
                    .or_else(|| command.dangers.first().map(|danger| format!("`{}` {}", danger.option, danger.effect))),
            },
            Target::Path(path) => path.doubt().map(str::to_owned),
            Target::Host(host) if !host.is_known() => Some("programs can read the address differently".to_owned()),
            Target::Opaque(opaque) => Some(opaque.reason.clone()),
            _ => None,
        };
        self.doubt.clone().or(why)
    }

    /// The narrowest rule that allows the part.
    pub(crate) fn allowing_rule(&self, tool: &str) -> Option<String> {
        let kind = self.kind?;
        let name = Kind::ALL.iter().find(|(_, known)| *known == kind).map(|(name, _)| *name)?;
        if self.doubt.is_some() {
            return None;
        }
        let is_plain =
            |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '*' || c.is_control());
        match &self.target {
            Target::Command(command) if command.altered.is_none() => {
                let words: Option<Vec<&str>> =
                    command.words().iter().map(|word| word.literal().filter(|word| is_plain(word))).collect();
                words.filter(|words| words.len() < 100).map(|words| format!("{name}({})", words.join(" ")))
            }
            Target::Path(path) => path.pattern().map(|path| format!("{name}({path})")),
            Target::Host(host) => host.pattern().map(|host| format!("{name}({host})")),
            Target::Mcp(names) => match &**names {
                [(server, tool)] => Some(format!("{name}({server}/{tool})")),
                _ => is_name(tool).then(|| tool.to_owned()),
            },
            Target::Nothing => Some(name.to_owned()),
            _ => None,
        }
    }
}

/// The target of a part.
#[derive(Debug)]
pub(crate) enum Target {
    Command(Command),
    Path(FilePath),
    Host(host::Host),
    /// The servers and tools that the name can be split into.
    Mcp(Vec<(String, String)>),
    /// The tool has no target that a pattern could describe.
    Nothing,
    /// The target cannot be decided.
    Opaque(Opaque),
}

/// What is known of a target that cannot be decided.
#[derive(Debug)]
pub(crate) struct Opaque {
    pub(crate) text: String,
    pub(crate) reason: String,
    /// The words of the text, in lower case.
    pub(crate) words: Vec<String>,
}

impl Target {
    fn opaque(text: String, reason: String) -> Self {
        let words = loose_words(&text);
        Self::Opaque(Opaque { text, reason, words })
    }
}

/// The kind that a word means, if the word is neither a kind nor a tool of a known agent.
pub(crate) fn misspelt_kind(name: &str) -> Option<&'static str> {
    if kind_of_tool(name).is_some() || Kind::parse(name).is_some() {
        return None;
    }
    let kinds = || Kind::ALL.iter().map(|(kind, _)| *kind);
    let meant = MEANT.iter().find(|(word, _)| *word == name).map(|(_, kind)| *kind);
    meant
        .or_else(|| kinds().find(|kind| kind.eq_ignore_ascii_case(name)))
        .or_else(|| kinds().find(|kind| is_near(kind, &name.to_lowercase())))
}

/// Whether one letter differs, is missing or is too much, or two neighbours are exchanged.
fn is_near(kind: &str, name: &str) -> bool {
    let (kind, name) = (kind.as_bytes(), name.as_bytes());
    let start = kind.iter().zip(name).take_while(|(a, b)| a == b).count();
    let (kind, name) = (&kind[start..], &name[start..]);
    let end = kind.iter().rev().zip(name.iter().rev()).take_while(|(a, b)| a == b).count();
    match (&kind[..kind.len() - end], &name[..name.len() - end]) {
        ([a, b], [c, d]) => a == d && b == c,
        (kind, name) => kind.len().max(name.len()) == 1,
    }
}

/// The kind of a tool of a known agent, by its name.
pub(crate) fn kind_of_tool(name: &str) -> Option<Kind> {
    if !mcp_names(name).is_empty() {
        return Some(Kind::Mcp);
    }
    if name.len() > 64 {
        return None;
    }
    let name = plain(name);
    TOOLS.iter().find(|(_, names)| names.contains(&&*name)).map(|(kind, _)| *kind)
}

/// The servers and tools that an MCP tool's name can be split into.
fn mcp_names(name: &str) -> Vec<(String, String)> {
    let Some(rest) = name.strip_prefix("mcp__").filter(|_| name.len() < 256 && is_name(name)) else {
        return Vec::new();
    };
    let splits =
        (1..rest.len().saturating_sub(2)).filter(|at| rest.is_char_boundary(*at) && rest[*at..].starts_with("__"));
    splits.map(|at| (rest[..at].to_owned(), rest[at + 2..].to_owned())).collect()
}

/// Whether the text can be the name of a tool. Some agents send a title instead, which can be a command.
pub(crate) fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}

/// Takes a call apart.
pub(crate) fn parts(call: Call<'_>, work_dir: &Path, needs: Needs) -> Vec<Part> {
    let empty = Map::new();
    let work_dir = &WorkDir::new(work_dir);
    let known = arguments::read(call.arguments.unwrap_or(&empty));
    let mut taker = Taker { call, known, work_dir, needs, parts: Vec::new(), operands: 0 };
    let by_name = kind_of_tool(call.name);
    let by_agent = call.kind.and_then(Kind::parse);
    match (by_name, by_agent) {
        (_, Some(Kind::Mcp)) => taker.take(Kind::Mcp),
        (Some(Kind::Mcp), by_agent) => {
            taker.take(Kind::Mcp);
            // A title can look like the name of an MCP tool.
            let is_title = |command: &&Value| command.as_str() == Some(call.name);
            if by_agent == Some(Kind::Execute) && !taker.known.commands.iter().all(is_title) {
                taker.take(Kind::Execute);
            }
        }
        (Some(kind), Some(other)) if kind != other => {
            taker.take(kind);
            // Both could be true: the call needs a decision as each of them.
            taker.take(other);
        }
        (Some(kind), _) | (None, Some(kind)) => taker.take(kind),
        (None, None) => taker.take_unknown(),
    }
    taker.take_further_paths();
    if taker.known.is_cut {
        taker.opaque(by_agent.or(by_name), "it has more targets than are looked at");
    }
    taker.parts
}

struct Taker<'a> {
    call: Call<'a>,
    known: Arguments<'a>,
    work_dir: &'a WorkDir,
    needs: Needs,
    parts: Vec<Part>,
    /// How many words of commands were looked at as files.
    operands: usize,
}

impl<'a> Taker<'a> {
    fn add(&mut self, kind: Option<Kind>, target: Target) {
        let mut part = Part::new(kind, target);
        if kind != Some(Kind::Mcp) {
            part.doubt =
                self.known.doubt.as_ref().map(|name| format!("the meaning of the argument `{name}` is not known"));
        }
        self.parts.push(part);
    }

    fn opaque(&mut self, kind: Option<Kind>, reason: &str) {
        // Some agents send a title, such as the command, instead of the name of the tool.
        let title = Some(self.call.name).filter(|name| kind_of_tool(name).is_none());
        let (texts, _) = self.call.arguments.map(all_texts).unwrap_or_default();
        let mut text = String::new();
        for piece in texts.into_iter().chain(title).chain(self.call.about) {
            // The rest is not searched either.
            if text.len() + piece.len() > 1 << 20 {
                text.extend(piece.chars().take(64 << 10));
                break;
            }
            text.push_str(piece);
            text.push('\n');
        }
        self.add(kind, Target::opaque(text.trim_end().to_owned(), reason.to_owned()));
    }

    fn take(&mut self, kind: Kind) {
        if self.call.arguments.is_none() && kind != Kind::Mcp {
            return self.opaque(Some(kind), "the agent did not send the arguments");
        }
        match kind {
            Kind::Execute => self.take_command(Some(kind)),
            Kind::Think => self.add(Some(kind), Target::Nothing),
            Kind::Mcp => self.take_mcp(),
            Kind::Fetch => self.take_hosts(Some(kind)),
            Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search => self.take_paths(kind),
        }
        let name = plain(self.call.name);
        let is_editor = matches!(
            &*name,
            "strreplaceeditor"
                | "strreplacebasededittool"
                | "developertexteditor"
                | "texteditor"
                | "fswrite"
                | "fsread"
        );
        if kind != Kind::Execute && kind != Kind::Think && !is_editor {
            self.add_shadows(kind);
        }
    }

    /// A tool of another kind can still run a command: rules that deny or ask look at it.
    fn add_shadows(&mut self, kind: Kind) {
        let start = self.parts.len();
        if self.has_command() {
            self.take_command(None);
        }
        if matches!(kind, Kind::Mcp | Kind::Fetch) {
            for path in self.known.paths.clone() {
                let target = self.path_target(path, self.work_dir);
                self.add(None, target);
            }
        }
        if kind != Kind::Fetch && !self.known.urls.is_empty() {
            self.take_hosts(None);
        }
        self.parts[start..].iter_mut().for_each(|part| part.shadow = true);
    }

    fn has_command(&self) -> bool {
        self.call.arguments.is_some_and(|arguments| {
            arguments.iter().any(|(name, value)| {
                !value.is_null() && matches!(&*plain(name), "command" | "cmd" | "commandline" | "script" | "commands")
            })
        })
    }

    /// A tool of which only the name and the arguments are known.
    fn take_unknown(&mut self) {
        if self.call.arguments.is_none() {
            return self.opaque(None, "neither the kind of the tool nor its arguments are known");
        }
        if self.has_command() {
            self.take_command(None);
        }
        for path in self.known.paths.clone() {
            let target = self.path_target(path, self.work_dir);
            self.add(None, target);
        }
        for glob in self.known.globs.clone() {
            let target = Target::Path(resolve(glob, self.work_dir, self.work_dir).into_glob(GlobUse::Search));
            self.add(None, target);
        }
        if !self.known.urls.is_empty() {
            self.take_hosts(None);
        }
        for path in self.patch_paths(None) {
            let target = self.path_target(path, self.work_dir);
            self.add(None, target);
        }
        if self.parts.is_empty() {
            self.add(None, Target::Nothing);
        }
    }

    /// The files that the patches of the call name.
    fn patch_paths(&mut self, kind: Option<Kind>) -> Vec<&'a str> {
        let (paths, is_cut) = patch_paths(&self.known.patches);
        if is_cut {
            self.opaque(kind, "its patch names more files than are looked at, or some in quotes");
        }
        paths
    }

    fn take_mcp(&mut self) {
        let mut names = mcp_names(self.call.name);
        if names.is_empty() {
            names.push(("program".to_owned(), self.call.name.to_owned()));
        }
        self.add(Some(Kind::Mcp), Target::Mcp(names));
    }

    /// The paths that the agent names beside the arguments.
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
        let (locations, diffs) = (self.call.locations, self.call.diffs);
        if locations.len() + diffs.len() > MAX_OPERANDS {
            return self.opaque(None, "it has more paths than are looked at");
        }
        for (path, kind) in locations.iter().flat_map(|path| kinds.iter().map(move |kind| (path, *kind))) {
            let target = self.file_target(kind, path);
            self.add(kind, target);
            if let Some(part) = self.parts.last_mut() {
                part.shadow = shadow;
            }
        }
        for path in diffs {
            let target = self.path_target(path, self.work_dir);
            self.add(Some(Kind::Edit), target);
        }
    }

    fn path_target(&self, text: &str, base: &Path) -> Target {
        Target::Path(resolve(text, base, self.work_dir))
    }

    fn file_target(&self, kind: Option<Kind>, text: &str) -> Target {
        let path = resolve(text, self.work_dir, self.work_dir);
        Target::Path(if matches!(kind, Some(Kind::Delete | Kind::Move)) { path.with_content() } else { path })
    }

    fn take_paths(&mut self, kind: Kind) {
        let name = plain(self.call.name);
        let mut paths: Vec<&str> = self.known.paths.clone();
        if kind == Kind::Edit && !self.known.patches.is_empty() {
            let of_patch = self.patch_paths(Some(kind));
            if of_patch.is_empty() && paths.is_empty() {
                self.opaque(Some(kind), "the patch names no file that is known here");
            }
            paths.extend(of_patch);
        }
        let mut globs: Vec<&str> = self.known.globs.clone();
        if kind == Kind::Search && GLOBS.contains(&&*name) {
            let patterns = self
                .call
                .arguments
                .into_iter()
                .flatten()
                .filter(|(key, _)| matches!(&*plain(key), "pattern" | "patterns"));
            globs.extend(patterns.filter_map(|(_, value)| value.as_str()));
        }
        let leaves = |pattern: &&&str| {
            pattern.starts_with(['/', '~', '\\']) || pattern.contains("..") || pattern.contains([':', '$', '`'])
        };
        if let Some(glob) = globs.iter().find(leaves) {
            let reason = format!("the glob `{glob}` can lead out of the working directory");
            self.opaque(Some(kind), &reason);
        }
        let bases: Vec<&str> = if paths.is_empty() { vec!["."] } else { paths.clone() };
        for glob in &globs {
            // Folders in the arguments are where the glob begins.
            for base in bases.iter().take(8) {
                let base = resolve(base, self.work_dir, self.work_dir);
                let path = resolve(glob, &base.directory(self.work_dir), self.work_dir).into_glob(GlobUse::Search);
                let mut part = Part::new(Some(kind), Target::Path(path));
                (part.shadow, part.hides) = (true, true);
                self.parts.push(part);
            }
        }
        if paths.is_empty() {
            // Without arguments, only a tool that is known to list or search is about the working directory.
            let is_named =
                !self.call.arguments.is_none_or(Map::is_empty) || kind_of_tool(self.call.name) == Some(Kind::Search);
            let lists = matches!(&*name, "listdirectory" | "ls" | "list" | "listdir" | "listfiles");
            let searches = lists || !globs.is_empty() || (kind == Kind::Search && is_named);
            if searches && matches!(kind, Kind::Search | Kind::Read) {
                paths.push(".");
            } else if self.parts.iter().all(|part| part.shadow) {
                return self.opaque(Some(kind), "the arguments name no path");
            }
        }
        for path in paths {
            let target = match self.file_target(Some(kind), path) {
                Target::Path(path) if name == "readmanyfiles" => Target::Path(path.into_glob(GlobUse::Search)),
                target => target,
            };
            self.add(Some(kind), target);
        }
    }

    fn take_hosts(&mut self, kind: Option<Kind>) {
        /// Longer addresses in a text are cut.
        const MAX_ADDRESS: usize = 2048;
        let mut hosts: Vec<host::Host> = self.known.urls.iter().map(|text| host::parse(text)).collect();
        // Some tools take the address inside of a text for the model.
        let (texts, mut is_cut) = self.call.arguments.map(all_texts).unwrap_or_default();
        for text in texts {
            for (at, _) in text.match_indices("://") {
                if hosts.len() >= MAX_ADDRESSES {
                    is_cut = true;
                    break;
                }
                let scheme = text[..at].bytes().rev().take(16).take_while(u8::is_ascii_alphanumeric).count();
                let rest = &text[at..];
                let end = rest
                    .char_indices()
                    .take(MAX_ADDRESS)
                    .find(|(_, c)| c.is_whitespace() || matches!(c, '"' | '<' | '>'))
                    .map_or_else(
                        || rest.char_indices().nth(MAX_ADDRESS).map_or(rest.len(), |(at, _)| at),
                        |(at, _)| at,
                    );
                hosts.push(host::parse(&text[at - scheme..at + end]));
            }
        }
        if hosts.is_empty() || is_cut {
            self.opaque(
                kind,
                if is_cut { "it has more addresses than are looked at" } else { "the arguments name no address" },
            );
        }
        for host in hosts {
            self.add(kind, Target::Host(host));
        }
    }

    fn take_command(&mut self, kind: Option<Kind>) {
        let name = plain(self.call.name);
        let mut base = resolve(".", self.work_dir, self.work_dir);
        for directory in self.known.directories.clone() {
            match directory {
                Value::Null => {}
                Value::String(text) if text.is_empty() => {}
                Value::String(text) => {
                    // A rule for the files of a folder is also about a command in it.
                    base = resolve(text, self.work_dir, self.work_dir);
                    if self.needs.paths {
                        let mut part = Part::new(Some(Kind::Read), self.path_target(text, self.work_dir));
                        (part.shadow, part.vague) = (true, true);
                        self.parts.push(part);
                    }
                }
                _ => return self.opaque(kind, "the working directory is no text"),
            }
        }
        let mut altered = if self.known.environment {
            Some("the call sets its environment")
        } else if base.is_outside() {
            Some("it runs outside of the working directory, or the directory is a link")
        } else {
            None
        };
        let base_dir = base.directory(self.work_dir);
        let other_shell = OTHER_SHELLS.contains(&&*name) || (cfg!(windows) && name != "bash");
        let mut items = Vec::new();
        let words_of =
            |words: &'_ [Value]| words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        match (&*self.known.commands, &*self.known.more) {
            ([Value::String(text)], []) if other_shell => items.push(Item::Opaque {
                text: text.clone(),
                reason: format!("text for `{}` is not read", self.call.name),
                shadow: false,
                of_command: false,
            }),
            ([Value::String(text)], []) => command::take_text(text, &mut items),
            ([Value::Array(words)], []) => match words_of(words) {
                Some(words) if !other_shell && !words.is_empty() => {
                    command::take_words(&words.iter().map(|word| &**word).collect::<Vec<_>>(), &mut items);
                }
                _ => return self.opaque(kind, "the words of the command are no texts"),
            },
            ([Value::String(program)], [Value::Array(words)])
                if !program.contains(char::is_whitespace) && !other_shell =>
            {
                match words_of(words) {
                    Some(words) => {
                        let words: Vec<&str> =
                            std::iter::once(&**program).chain(words.iter().map(|word| &**word)).collect();
                        command::take_words(&words, &mut items);
                        // Some tools join them for a shell.
                        if words
                            .iter()
                            .any(|word| word.contains(|c: char| c.is_control() || ";&|<>()$`'\"\\#".contains(c)))
                        {
                            command::take_text(&words.join(" "), &mut items);
                        }
                    }
                    None => return self.opaque(kind, "the words of the command are no texts"),
                }
            }
            ([], []) => return self.opaque(kind, "the arguments name no command"),
            _ => return self.opaque(kind, "the arguments have several commands"),
        }
        if items.is_empty() {
            return self.opaque(kind, "the arguments name no command");
        }
        let moves: Vec<&[Word]> = items
            .iter()
            .filter_map(|item| match item {
                Item::Command { command, shadow: false } if command::changes_directory(command.words()) => {
                    Some(command.words())
                }
                _ => None,
            })
            .collect();
        // The one folder in which the commands run from then on.
        let folder = match &*moves {
            [] => None,
            [[_, Word::Literal(folder)]] if !folder.starts_with('-') => Some(resolve(folder, &base_dir, self.work_dir)),
            _ => Some(resolve("", self.work_dir, self.work_dir)),
        };
        if folder.as_ref().is_some_and(FilePath::is_outside) {
            altered = altered.or(Some("it runs outside of the working directory, or in a folder that is not known"));
        }
        let moves = folder.is_some();
        let folder = folder.filter(|folder| !folder.is_outside()).map(|folder| folder.directory(self.work_dir));
        for item in items {
            match item {
                Item::Command { mut command, shadow } => {
                    let is_move = command::changes_directory(command.words());
                    command.altered = command.altered.or(altered.filter(|_| !is_move || !moves));
                    self.add_operands(&mut command, shadow, &base_dir, folder.as_deref(), moves);
                    self.add(kind, Target::Command(command));
                    if let Some(part) = self.parts.last_mut() {
                        part.shadow = shadow;
                    }
                }
                Item::Opaque { text, reason, shadow, of_command } => {
                    let command =
                        self.parts.iter().rev().find(|part| !part.shadow && matches!(part.target, Target::Command(_)));
                    let spelled = command.filter(|_| of_command).map(Part::of_command);
                    self.add(kind, Target::opaque(text, reason));
                    if let Some(part) = self.parts.last_mut() {
                        (part.shadow, part.hides, part.spelled) = (shadow, shadow, spelled);
                    }
                }
                Item::Write(word) => self.add_redirection(Kind::Edit, &word, moves, &base_dir, false),
                Item::Read(word) => {
                    // Reading a file of the project needs no rule of its own.
                    let is_inside =
                        matches!(&word, Word::Literal(text) if !resolve(text, &base_dir, self.work_dir).is_outside());
                    self.add_redirection(Kind::Read, &word, moves, &base_dir, is_inside && !moves);
                }
            }
        }
    }

    /// Adds the files and hosts that the words of a command may name.
    fn add_operands(&mut self, command: &mut Command, shadow: bool, base: &Path, folder: Option<&Path>, moves: bool) {
        if shadow && !self.needs.paths && !self.needs.hosts {
            return;
        }
        let words = command.words().to_vec();
        let Some(name) = words.first().and_then(Word::literal) else { return };
        let usage = programs::file_use(name);
        let is_network = programs::is_network(name);
        let writes =
            usage == Some(FileUse::Write) || command.dangers.iter().any(|danger| danger.effect.starts_with("write"));
        let mut outside = Vec::new();
        for (at, word) in words.iter().enumerate().skip(1) {
            let text = word.text();
            if self.needs.hosts
                && (text.contains("://") || (is_network && !text.starts_with('-')))
                && self.operands < MAX_OPERANDS
            {
                self.operands += 1;
                let start = text.find("http").filter(|_| text.contains("://")).unwrap_or(0);
                let mut part = Part::new(Some(Kind::Fetch), Target::Host(host::parse(&text[start..])));
                part.shadow = true;
                self.parts.push(part);
            }
            for (piece, is_whole) in pieces(text) {
                let is_like_path = piece.contains(['/', '.', '~']);
                let is_option = text.starts_with('-') && is_whole;
                if self.operands >= MAX_OPERANDS {
                    if self.operands == MAX_OPERANDS && (self.needs.paths || self.needs.hosts) {
                        let mut part = Part::new(
                            Some(Kind::Execute),
                            Target::opaque(command.text(), "it names more files than are looked at".to_owned()),
                        );
                        (part.shadow, part.hides) = (true, true);
                        self.parts.push(part);
                        self.operands += 1;
                    }
                    outside.push(at);
                    break;
                }
                if is_option || (!shadow && !self.needs.paths && !is_like_path) {
                    continue;
                }
                self.operands += 1;
                let path = resolve(piece, folder.unwrap_or(base), self.work_dir);
                if is_like_path && path.is_outside() || (!is_like_path && path.is_link()) {
                    outside.push(at);
                }
                if !self.needs.paths || usage == Some(FileUse::None) {
                    continue;
                }
                let kind = match usage {
                    Some(FileUse::Read) if !writes => Some(Kind::Read),
                    Some(FileUse::Delete) => Some(Kind::Delete),
                    Some(_) => Some(Kind::Edit),
                    None => None,
                };
                // The words of an unknown program are files only if they look like files.
                if (kind.is_none() || !is_whole) && !is_like_path {
                    continue;
                }
                if usage == Some(FileUse::Write) {
                    // It may also copy the file, and all that is in it.
                    let path = resolve(piece, folder.unwrap_or(base), self.work_dir).with_content();
                    let mut part = Part::new(Some(Kind::Read), Target::Path(path));
                    (part.shadow, part.vague) = (true, true);
                    self.parts.push(part);
                }
                let path =
                    if moves && folder.is_none() && !Path::new(piece).is_absolute() { path.into_doubt() } else { path };
                let path = if kind == Some(Kind::Delete) { path.with_content() } else { path };
                let is_dynamic = word.literal().is_none();
                let mut part =
                    Part::new(kind, Target::Path(if is_dynamic { path.into_glob(GlobUse::Shell) } else { path }));
                (part.shadow, part.hides, part.vague) = (true, is_dynamic || moves, kind.is_none() || !is_whole);
                self.parts.push(part);
            }
        }
        command.outside = outside;
    }

    fn add_redirection(&mut self, kind: Kind, word: &Word, moves: bool, base: &Path, shadow: bool) {
        let target = match word {
            Word::Literal(text) => {
                let mut path = resolve(text, base, self.work_dir);
                if moves && !Path::new(text).is_absolute() {
                    path = path.into_doubt();
                }
                Target::Path(path)
            }
            Word::Dynamic(text) => {
                Target::opaque(text.clone(), "only the shell knows the file of the redirection".to_owned())
            }
        };
        let mut part = Part::new(Some(kind), target);
        (part.shadow, part.hides, part.redirection) = (shadow, shadow, true);
        self.parts.push(part);
    }
}

/// The texts inside of a word that can be a path, and whether it is the word itself: values of options, `of=…`, `HEAD:…`, `@…`.
fn pieces(text: &str) -> Vec<(&str, bool)> {
    let mut pieces = vec![(text, true)];
    let is_option = text.starts_with('-');
    for sign in ['=', ':', '@'] {
        if let Some((_, rest)) = text.split_once(sign) {
            pieces.push((rest, false));
        }
    }
    if is_option && !text.starts_with("--") {
        let value = text.char_indices().nth(2).map_or("", |(at, _)| &text[at..]);
        // Behind joined options, a path begins anywhere.
        let path = text.find(['/', '.', '~']).map_or("", |at| &text[at..]);
        pieces.extend([(value, false), (path, false)]);
    }
    pieces.retain(|(piece, _)| !piece.is_empty());
    pieces
}

/// The files that patches name, and whether there are more than are looked at, or some in quotes.
fn patch_paths<'a>(patches: &[&'a str]) -> (Vec<&'a str>, bool) {
    const RENAMES: &[&str] = &["rename from ", "rename to ", "copy from ", "copy to ", "Index: "];
    let mut found = Vec::new();
    for line in patches.iter().flat_map(|patch| patch.lines()) {
        let line = line.trim_start();
        let path = PATCH_LINES.iter().find_map(|start| line.strip_prefix(start));
        let path = path.or_else(|| {
            let path = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ "))?;
            let path = path.split('\t').next().unwrap_or(path).trim_end();
            Some(path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path))
                .filter(|path| *path != "/dev/null")
        });
        let path = path.or_else(|| RENAMES.iter().find_map(|start| line.strip_prefix(start)));
        // A file of bytes, or an empty one, has no other line with its name.
        let path = path.or_else(|| line.strip_prefix("diff --git ").map(path_of_git));
        if path.is_some_and(|path| path.starts_with('"') || found.len() == MAX_OPERANDS) {
            return (found, true);
        }
        found.extend(path);
    }
    (found, false)
}

/// The file in `a/file b/file`. If the names differ, further lines have them.
fn path_of_git(names: &str) -> &str {
    let (first, second) = names.split_at_checked(names.len() / 2).unwrap_or((names, ""));
    match (first.strip_prefix("a/"), second.strip_prefix(" b/")) {
        (Some(one), Some(other)) if one == other => one,
        _ => names.rsplit_once(" b/").map_or(names, |(_, path)| path),
    }
}
