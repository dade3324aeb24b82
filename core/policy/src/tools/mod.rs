//! The targets of a call: commands, paths, hosts and MCP tools.

mod commands;
mod comparisons;
mod elsewhere;
mod further;
mod hosts;
mod operands;
mod patches;
mod possible;
mod requests;
mod sought;
mod tree;
mod unknown;

use std::path::Path;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::arguments::{self, Arguments, all_texts, plain};
use crate::command::pattern::loose_words;
use crate::command::{Command, Word};
use crate::kinds::{Kind, is_name, kind_of_tool};
use crate::mcp::McpName;
use crate::path::{FilePath, GlobUse, WorkDir, leaves_by_braces, resolve};
use crate::work::Budget;
use crate::{Call, host};
use further::{is_extended, ungrouped};
use patches::patch_paths;

/// How many files the words of the commands of a call may name.
const MAX_OPERANDS: usize = 200;

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

/// Parts of names of other tools with code for something else.
const OTHER_LANGUAGES: &[&str] = &[
    "powershell",
    "pwsh",
    "cmdexe",
    "python",
    "jupyter",
    "perl",
    "ruby",
    "node",
    "javascript",
    "typescript",
    "deno",
    "php",
    "lua",
    "julia",
    "repl",
    "fish",
    "nushell",
    "xonsh",
    "elvish",
    "tcsh",
    "sql",
    "groovy",
    "dotnet",
    "csharp",
    "scala",
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
    /// It is in a text that may be for something else: only a rule that names something is about it.
    pub(crate) is_text: bool,
    /// A file that a command of the shell writes or reads, which a rule for the tool itself does not allow.
    pub(crate) redirection: bool,
    /// Why no allow rule with a pattern may speak about it.
    pub(crate) doubt: Option<String>,
    /// The command that hides this part. If an allow rule spells the command, the part needs no decision.
    pub(crate) spelled: Option<Box<Part>>,
    /// Only a rule that spells each word of that command is enough.
    pub(crate) is_name: bool,
}

impl Part {
    fn new(kind: Option<Kind>, target: Target) -> Self {
        Self {
            kind,
            target,
            shadow: false,
            hides: false,
            vague: false,
            is_text: false,
            redirection: false,
            doubt: None,
            spelled: None,
            is_name: false,
        }
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

    /// Whether no rule but one about any target surely matches it: a glob, or a command whose name only the shell knows.
    pub(crate) fn is_never_certain(&self) -> bool {
        match &self.target {
            Target::Path(path) => path.is_glob_of_call(),
            Target::Command(command) => matches!(command.words().first(), Some(Word::Dynamic(_))),
            _ => false,
        }
    }

    /// Whether it is a word that may name no file.
    pub(crate) fn is_word(&self) -> bool {
        matches!(&self.target, Target::Path(path) if path.is_word())
    }

    /// Whether it is a file that may be any.
    pub(crate) fn is_any_path(&self) -> bool {
        matches!(&self.target, Target::Path(path) if path.is_any())
    }

    /// What a comparison with a rule takes, in bytes that are compared.
    pub(crate) fn weight(&self) -> usize {
        let words = |words: &[Word]| words.iter().map(|word| word.text().len() + 8).sum();
        match &self.target {
            Target::Command(command) => words(command.words()),
            Target::Path(path) => path.weight(),
            Target::Host(host) => host.text.len(),
            Target::Opaque(opaque) => opaque.words.iter().map(|word| word.len() + 8).sum(),
            Target::Mcp(names) => names.iter().map(|name| name.server.len() + name.tool.len()).sum(),
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
        // A word as a rule spells it.
        let spelled = |text: &str| match text {
            _ if text.contains(|c: char| c.is_control() || "*'\"()".contains(c)) => None,
            _ if text.is_empty() || text.contains(char::is_whitespace) => Some(format!("'{text}'")),
            _ => Some(text.to_owned()),
        };
        match &self.target {
            Target::Command(command) if command.altered.is_none() => {
                let words: Option<Vec<String>> =
                    command.words().iter().map(|word| word.literal().and_then(spelled)).collect();
                words.filter(|words| words.len() < 100).map(|words| format!("{name}({})", words.join(" ")))
            }
            Target::Path(path) => path.pattern().map(|path| format!("{name}({path})")),
            Target::Host(host) => host.pattern().map(|host| format!("{name}({host})")),
            Target::Mcp(names) => match &**names {
                [mcp] => Some(format!("{name}({}/{})", mcp.server, mcp.tool)),
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
    Mcp(Vec<McpName>),
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

/// Takes a call apart.
pub(crate) fn parts(call: Call<'_>, work_dir: &Path, needs: Needs, budget: &Rc<Budget>) -> Vec<Part> {
    let empty = Map::new();
    let work_dir = &WorkDir::new(work_dir, budget).in_place(call.place);
    let known = arguments::read(call.arguments.unwrap_or(&empty));
    let mut taker = Taker { call, known, work_dir, needs, parts: Vec::new(), operands: 0, searches: 0 };
    let by_name = taker.kind_by_name();
    let by_agent = call.kind.and_then(Kind::parse);
    let by_name = by_name.or_else(|| taker.kind_by_words(by_agent?));
    for kind in [by_name, by_agent].into_iter().flatten() {
        taker.doubt_other_targets(kind);
    }
    match (by_name, by_agent) {
        (_, Some(Kind::Mcp)) => taker.take(Kind::Mcp),
        (Some(Kind::Mcp), by_agent) => {
            taker.take(Kind::Mcp);
            match by_agent {
                // A title can look like the name of an MCP tool.
                Some(kind) if taker.has_target_of(kind) => taker.take(kind),
                Some(kind) => taker.add_stated_kind(kind),
                None => {}
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
    taker.take_commands_of_others(by_name, by_agent);
    taker.take_described(by_name, by_agent);
    taker.take_further_paths();
    taker.add_sent_files(by_name, by_agent);
    taker.add_unknown(by_name.or(by_agent));
    let of_files = [by_name, by_agent.filter(|_| by_agent != by_name)];
    match of_files {
        [None, None] => taker.add_possible_files(None),
        kinds => kinds.into_iter().flatten().for_each(|kind| taker.add_possible_files(Some(kind))),
    }
    taker.add_named_tool();
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
    /// How many searches for names were looked at.
    searches: usize,
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

    /// Whether the call names something that tools of this kind act on.
    fn has_target_of(&self, kind: Kind) -> bool {
        match kind {
            Kind::Execute => {
                let is_title = |command: &&Value| command.as_str() == Some(self.call.name);
                !self.known.commands.iter().all(is_title)
            }
            Kind::Fetch => !self.known.urls.is_empty(),
            Kind::Think | Kind::Mcp => false,
            _ => !self.known.paths.is_empty() || !self.call.locations.is_empty() || !self.call.diffs.is_empty(),
        }
    }

    /// Adds the kind that the agent states for a tool of an MCP server. The name allows such a call unless the kind changes something.
    fn add_stated_kind(&mut self, kind: Kind) {
        self.opaque(Some(kind), "the agent states another kind than the name");
        // A command that is the title says nothing more.
        let is_title = kind == Kind::Execute && self.command_name().is_some();
        let changes = !is_title && matches!(kind, Kind::Execute | Kind::Edit | Kind::Delete | Kind::Move);
        if let Some(part) = self.parts.last_mut().filter(|_| !changes) {
            (part.shadow, part.hides) = (true, true);
        }
    }

    /// Another target than those of its kind makes the meaning of a call unknown: a request that also names a file or a command,
    /// a file that comes with a command or an address, and a command that comes with a file.
    fn doubt_other_targets(&mut self, kind: Kind) {
        let words = self.known.words_name;
        let other = match kind {
            Kind::Execute => self.known.beside_command.or(self.known.patch_name),
            Kind::Think | Kind::Mcp => None,
            Kind::Fetch => self.known.path_name.or(self.known.patch_name).or_else(|| self.command_name()).or(words),
            _ => self.known.url_name.or_else(|| self.command_name().filter(|_| !self.is_editor())).or(words),
        };
        // Arguments that say how a file is changed say something else than the kind.
        let other = other.or(match kind {
            Kind::Read => self.known.change.or(self.known.text),
            Kind::Search => self.known.change.or_else(|| self.asked_of_model()),
            Kind::Edit => self.known.deletion.or(self.known.glob_name),
            Kind::Delete | Kind::Move => self.known.glob_name,
            _ => None,
        });
        let other = other.map(|name| name.chars().take(64).collect());
        self.known.doubt = self.known.doubt.take().or(other);
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
            Kind::Think => {
                self.add(Some(kind), Target::Nothing);
                if self.is_unknown_thought() {
                    self.add(None, Target::Nothing);
                }
                let is_code = |name: &String| arguments::key(name) == "code";
                if self.call.arguments.is_some_and(|arguments| arguments.keys().any(is_code)) {
                    self.opaque(None, "it has code");
                }
                let named = [&self.known.paths, &self.known.urls, &self.known.globs];
                let has_files = !patch_paths(&self.known.patches).0.is_empty();
                if has_files || self.command_name().is_some() || named.iter().any(|texts| !texts.is_empty()) {
                    self.take_unknown();
                }
            }
            Kind::Mcp => self.take_mcp(),
            Kind::Fetch => self.take_hosts(Some(kind)),
            Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search => self.take_paths(kind),
        }
        if kind != Kind::Execute && kind != Kind::Think && !self.is_editor() {
            self.add_shadows(kind);
        }
    }

    /// A tool of another kind can still run a command: rules that deny or ask look at it.
    fn add_shadows(&mut self, kind: Kind) {
        let start = self.parts.len();
        if self.command_name().is_some() {
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

    /// The name of the argument with a command.
    fn command_name(&self) -> Option<&str> {
        let is_command = |(name, value): &(&String, &Value)| {
            let name = arguments::key(name);
            !value.is_null() && arguments::COMMAND_NAMES.contains(&&*name)
        };
        self.call.arguments?.iter().find(is_command).map(|(name, _)| &**name)
    }

    /// A tool of which only the name and the arguments are known.
    fn take_unknown(&mut self) {
        if self.call.arguments.is_none() {
            return self.opaque(None, "neither the kind of the tool nor its arguments are known");
        }
        if self.command_name().is_some() {
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
        for (path, _) in self.patch_paths(None) {
            let target = self.path_target(path, self.work_dir);
            self.add(None, target);
        }
        if self.parts.is_empty() {
            self.add(None, Target::Nothing);
        }
    }

    /// The files that the patches of the call name, and whether they are deleted.
    fn patch_paths(&mut self, kind: Option<Kind>) -> Vec<(&'a str, bool)> {
        let (paths, is_cut) = patch_paths(&self.known.patches);
        if is_cut {
            self.opaque(kind, "its patch names more files than are looked at, or some in quotes");
        }
        paths
    }

    fn path_target(&self, text: &str, base: &Path) -> Target {
        Target::Path(resolve(text, base, self.work_dir))
    }

    fn file_target(&self, kind: Option<Kind>, text: &str) -> Target {
        let path = resolve(text, self.work_dir, self.work_dir);
        Target::Path(if matches!(kind, Some(Kind::Delete | Kind::Move)) { path.with_content() } else { path })
    }

    fn take_paths(&mut self, kind: Kind) {
        let start = self.parts.len();
        let name = plain(self.call.name);
        let mut paths: Vec<&str> = self.known.paths.clone();
        if kind == Kind::Edit && !self.known.patches.is_empty() {
            let of_patch = self.patch_paths(Some(kind));
            if of_patch.is_empty() && paths.is_empty() {
                self.opaque(Some(kind), "the patch names no file that is known here");
            }
            for (path, is_deleted) in of_patch {
                if is_deleted {
                    let target = self.file_target(Some(Kind::Delete), path);
                    self.add(Some(Kind::Delete), target);
                }
                paths.push(path);
            }
        }
        if kind == Kind::Edit {
            for path in self.known.deleted.clone() {
                let target = self.file_target(Some(Kind::Delete), path);
                self.add(Some(Kind::Delete), target);
            }
        }
        if matches!(kind, Kind::Read | Kind::Search) {
            for path in self.known.written.clone() {
                let target = self.path_target(path, self.work_dir);
                self.add(Some(Kind::Edit), target);
            }
        }
        let mut globs: Vec<&str> = self.known.globs.clone();
        let lists = matches!(&*name, "listdirectory" | "ls" | "list" | "listdir" | "listfiles");
        if (kind == Kind::Search && GLOBS.contains(&&*name)) || lists {
            let patterns = self
                .call
                .arguments
                .into_iter()
                .flatten()
                .filter(|(name, _)| matches!(&*arguments::key(name), "pattern" | "patterns" | "query" | "queries"));
            patterns.for_each(|(_, value)| arguments::texts(value, &mut globs));
        }
        let leaves = |pattern: &&&str| {
            pattern.starts_with(['/', '~', '\\'])
                || pattern.contains("..")
                || pattern.contains([':', '$', '`'])
                || leaves_by_braces(pattern)
        };
        if let Some(glob) = globs.iter().find(leaves) {
            let reason = format!("the glob `{glob}` can lead out of the working directory");
            self.opaque(Some(kind), &reason);
        } else if let Some(glob) = globs.iter().chain(&paths).find(|glob| is_extended(glob)) {
            let reason = format!("the extended glob `{glob}` can stand for other files");
            self.opaque(Some(kind), &reason);
        }
        let glob_use = if kind == Kind::Read && !lists { GlobUse::Contents } else { GlobUse::Search };
        let mut leads_out = false;
        let bases: Vec<&str> = if paths.is_empty() { vec!["."] } else { paths.clone() };
        // Some tools take what is in parentheses for a group.
        let grouped: Vec<String> = globs.iter().filter(|glob| glob.contains('(')).map(|glob| ungrouped(glob)).collect();
        for glob in globs.iter().copied().chain(grouped.iter().map(|glob| &**glob)) {
            // Folders in the arguments are where the glob begins.
            for base in bases.iter().take(8) {
                let base = resolve(base, self.work_dir, self.work_dir);
                let folder = base.directory(self.work_dir);
                let mut path = resolve(glob, &folder, self.work_dir).into_glob(glob_use);
                if matches!(kind, Kind::Read | Kind::Search) {
                    path = path.into_existing(&folder, self.work_dir, true);
                }
                leads_out |= path.leads_out() || (!path.is_glob_of_call() && path.is_behind_link(&base));
                let mut part = Part::new(Some(kind), Target::Path(path));
                (part.shadow, part.hides) = (true, true);
                self.parts.push(part);
                self.add_sought(Some(kind), glob, &folder);
            }
        }
        if leads_out {
            self.opaque(Some(kind), "its glob can lead through links out of the working directory");
        }
        // The globs of a tool that reads files begin at the working directory, also beside paths.
        if kind == Kind::Read && !lists && !globs.is_empty() && !paths.is_empty() {
            paths.push(".");
        }
        if paths.is_empty() {
            // Without arguments, only a tool that is known to list or search is about the working directory.
            let is_named = self.searches();
            let searches = lists || !globs.is_empty() || (kind == Kind::Search && is_named);
            if searches && matches!(kind, Kind::Search | Kind::Read) {
                paths.push(".");
            } else if self.parts[start..].iter().all(|part| part.shadow) {
                return self.opaque(Some(kind), "the arguments name no path");
            }
        }
        for path in paths {
            let target = match self.file_target(Some(kind), path) {
                Target::Path(path) if name == "readmanyfiles" => Target::Path(path.into_glob(glob_use)),
                target => target,
            };
            self.add(Some(kind), target);
        }
    }
}
