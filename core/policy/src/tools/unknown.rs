//! Tools of MCP servers and of the program, and arguments whose meaning is not known, for rules that deny or ask.

use serde_json::Value;

use super::operands::{Place, is_like_path};
use super::requests::find_addresses;
use super::{Part, Taker, Target};
use crate::arguments::{self, plain, texts};
use crate::command::{self, Item};
use crate::host;
use crate::kinds::{Kind, kind_of_tool, mcp_names};
use crate::mcp::{McpName, plain_name, words_of};
use crate::path::resolve;

/// How many texts are looked at as commands, and how long they are.
const MAX_COMMANDS: usize = 32;
const MAX_COMMAND: usize = 4096;
/// Arguments that name a server of MCP, and its tool.
const SERVERS: &[&str] =
    &["server", "servername", "serverid", "mcpserver", "mcpservername", "mcp", "connector", "integration"];
const TOOLS: &[&str] =
    &["tool", "toolname", "mcptool", "mcptoolname", "name", "method", "function", "functionname", "operation"];

/// Arguments that name a tool in any case.
const CALLED: &[&str] = &["tool", "toolname", "mcptool", "mcptoolname"];

/// The texts in a text that is JSON.
fn inner_texts(text: &str) -> Vec<String> {
    const MAX_JSON: usize = 64 << 10;
    if text.len() > MAX_JSON || !text.trim_start().starts_with(['{', '[']) {
        return Vec::new();
    }
    let mut open: Vec<Value> = serde_json::from_str(text).into_iter().collect();
    let mut found = Vec::new();
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => found.push(text),
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
    found
}

impl Taker<'_> {
    /// Adds the texts of arguments whose meaning is not known: they can be files, addresses and commands.
    pub(super) fn add_unknown(&mut self, kind: Option<Kind>) {
        // A thought acts on nothing. That only the agent calls it a thought is not enough.
        if kind == Some(Kind::Think) && !self.is_unknown_thought() {
            return;
        }
        // These tools can mean anything by a text: only what looks like a path is a file, and only rules that name something count.
        let is_free = matches!(kind, Some(Kind::Mcp | Kind::Think));
        let start = self.parts.len();
        let runs = kind == Some(Kind::Execute) || (kind.is_none() && self.command_name().is_some());
        let mut unknown = std::mem::take(&mut self.known.unknown);
        if runs || self.known.words_name.is_some() {
            unknown.append(&mut self.known.beside);
        }
        unknown.extend(self.known.variables.iter().map(|(_, value)| *value));
        if runs {
            let is_directory = |path: &&str| self.known.directories.iter().any(|known| known.as_str() == Some(path));
            unknown.extend(self.known.paths.iter().copied().filter(|path| !is_directory(path)));
            unknown.extend(self.known.globs.iter().chain(&self.known.urls).copied());
        }
        unknown.retain(|text| !text.is_empty());
        let inner: Vec<String> = unknown.iter().flat_map(|text| inner_texts(text)).collect();
        let mut addresses = Vec::new();
        let mut items = Vec::new();
        for (at, text) in unknown.iter().copied().chain(inner.iter().map(|text| &**text)).enumerate() {
            if !is_free || is_like_path(text) {
                self.add_unknown_target(kind, text);
            }
            if kind != Some(Kind::Fetch) && self.needs.hosts && find_addresses(text, &mut addresses) {
                self.opaque(Some(Kind::Fetch), "it has more addresses than are looked at");
                if let Some(part) = self.parts.last_mut() {
                    (part.shadow, part.hides) = (true, true);
                }
            }
            if at < MAX_COMMANDS && text.len() <= MAX_COMMAND {
                command::take_text(text, &mut items);
            }
        }
        for list in self.known.lists.iter().take(MAX_COMMANDS) {
            let mut words = Vec::new();
            if let Value::Array(_) = list {
                texts(list, &mut words);
            }
            if words.len() > 1 {
                words.reverse();
                command::take_words(&words, &mut items);
            }
        }
        for address in addresses {
            self.add_shadow(None, Target::Host(host::parse(&address)));
        }
        let place = Place::of(&[], resolve(".", self.work_dir, self.work_dir), self.work_dir);
        for item in items {
            match item {
                Item::Command { mut command, .. } => {
                    self.add_operands(&mut command, true, &place);
                    self.add_shadow(None, Target::Command(command));
                }
                Item::Opaque { text, reason, .. } => self.add_shadow(None, Target::opaque(text, reason)),
                _ => {}
            }
        }
        // An address says what it is.
        let is_address = |part: &Part| part.kind == Some(Kind::Fetch) || matches!(part.target, Target::Host(_));
        let texts = self.parts[start..].iter_mut().filter(|part| is_free && !is_address(part));
        texts.for_each(|part| part.is_text = true);
    }

    fn add_unknown_target(&mut self, kind: Option<Kind>, text: &str) {
        let is_file = |kind: &Kind| !matches!(kind, Kind::Execute | Kind::Fetch | Kind::Think | Kind::Mcp);
        if kind == Some(Kind::Fetch) && self.needs.hosts {
            self.add_shadow(kind, Target::Host(host::parse(text)));
        }
        if self.needs.paths {
            let kind = kind.filter(is_file);
            let target = self.file_target(kind, text);
            self.add_shadow(kind, target);
            // A second path of a call that reads may be the file that it writes.
            if matches!(kind, Some(Kind::Read | Kind::Search)) && is_like_path(text) {
                let target = self.file_target(Some(Kind::Edit), text);
                self.add_shadow(Some(Kind::Edit), target);
            }
        }
    }

    pub(super) fn add_shadow(&mut self, kind: Option<Kind>, target: Target) {
        let mut part = Part::new(kind, target);
        part.shadow = true;
        self.parts.push(part);
    }

    /// Takes a tool of an MCP server or of the program.
    pub(super) fn take_mcp(&mut self) {
        let mut names = mcp_names(self.call.name);
        if names.is_empty() {
            names.push(McpName::new("program", self.call.name));
            // A tool of the program with the name of a kind, or of a tool of one, does what the name says.
            let name = plain(self.call.name);
            if let Some(kind) = Kind::parse(&name).or_else(|| kind_of_tool(&name)).filter(|kind| *kind != Kind::Mcp) {
                self.add_shadow(Some(kind), Target::Nothing);
            }
        }
        self.add(Some(Kind::Mcp), Target::Mcp(names));
        let is_of_mcp = kind_of_tool(self.call.name) == Some(Kind::Mcp);
        // A tool of the program has a plain name: another one can be the title of a tool of any server.
        let is_plain = self.call.name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        let is_unusual = if is_of_mcp { !self.call.name.starts_with("mcp__") } else { !is_plain };
        if let Some(part) = self.parts.last_mut().filter(|_| is_unusual) {
            part.doubt = Some("the name is unusual".to_owned());
        }
    }

    /// Whether the name says that the tool calls others: `call_tool`, `use_mcp_tool`.
    fn calls_tools(&self) -> bool {
        let words = words_of(self.call.name);
        let has = |known: &[&str]| words.split('_').any(|word| known.contains(&word));
        has(&["tool", "tools", "function", "mcp"])
            && has(&["call", "use", "invoke", "execute", "exec", "run", "dispatch"])
    }

    /// Adds the tool of a server of MCP that arguments name, for a tool that calls others.
    pub(super) fn add_named_tool(&mut self) {
        /// More names are not looked at.
        const MAX_NAMES: usize = 8;
        let Some(arguments) = self.call.arguments else { return };
        let named = |keys: &[&str]| {
            let mut found = Vec::new();
            let meant = arguments.iter().filter(|(name, _)| keys.contains(&&*arguments::key(name)));
            meant.for_each(|(_, value)| texts(value, &mut found));
            found
        };
        let (servers, tools) = (named(SERVERS), named(TOOLS));
        if servers.len().max(tools.len()) > MAX_NAMES {
            return self.opaque(Some(Kind::Mcp), "it names more tools than are looked at");
        }
        // The server is not known.
        let called = if self.calls_tools() { tools.clone() } else { named(CALLED) };
        for tool in called.iter().filter(|tool| servers.is_empty() && mcp_names(tool).is_empty()) {
            let with_server = ["__", "/", ".", ":"].iter().filter_map(|sign| tool.split_once(sign));
            let mut names: Vec<McpName> = with_server.map(|(server, tool)| McpName::new(server, tool)).collect();
            names.push(McpName::new("", tool));
            self.add_shadow(Some(Kind::Mcp), Target::Mcp(names));
            self.parts.last_mut().into_iter().for_each(|part| part.hides = true);
        }
        for tool in &tools {
            let mut names = mcp_names(tool);
            names.extend(servers.iter().map(|server| McpName::new(server, tool)));
            if names.is_empty() && plain_name(self.call.name).contains("mcp") && mcp_names(self.call.name).is_empty() {
                self.opaque(Some(Kind::Mcp), "it calls a tool of a server that is not known");
            } else if !names.is_empty() {
                self.add_shadow(Some(Kind::Mcp), Target::Mcp(names));
            }
        }
    }
}
