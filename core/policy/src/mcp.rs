//! Names of tools of MCP servers: agents write them in several ways, or show a title instead.

use crate::command::pattern::wildcard;
use crate::kinds::{is_name, kind_of_tool, mcp_names};
use crate::rule::Certainty;

/// The server and the tool that a name of a tool can be split into.
#[derive(Clone, Debug)]
pub(crate) struct McpName {
    pub(crate) server: String,
    pub(crate) tool: String,
    plain: (String, String),
}

impl McpName {
    pub(crate) fn new(server: &str, tool: &str) -> Self {
        let plain = (plain_name(server), plain_name(tool));
        Self { server: server.to_owned(), tool: tool.to_owned(), plain }
    }

    /// The name of the tool in plain form.
    pub(crate) fn plain_tool(&self) -> &str {
        &self.plain.1
    }
}

/// A name as rules that deny compare it: only its letters and digits, in lower case.
pub(crate) fn plain_name(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The names of a tool of an MCP server, or of one of the program's own tools, without the server and in lower case.
pub(crate) fn names_without_server(name: &str) -> Vec<String> {
    const OF_PROGRAM: [&str; 6] = ["mcp_program_", "program_", "program/", "program.", "program:", "program-"];
    let name = name.trim();
    let lower = name.to_lowercase();
    let mut found: Vec<String> = mcp_names(name).iter().map(|name| name.tool.to_lowercase()).collect();
    found.extend(OF_PROGRAM.iter().find_map(|start| lower.strip_prefix(start)).map(str::to_owned));
    found.extend(lower.split_once(" (program").map(|(tool, _)| tool.to_owned()));
    found
}

/// A name of a tool without what can be its server, for rules that name a tool and no server.
#[derive(Debug)]
pub(crate) struct ToolName {
    pub(crate) plain: String,
    /// Its words, with `_` between them.
    words: String,
    /// Nothing else can be meant.
    is_certain: bool,
}

/// Longer names of tools are compared as a whole only.
const MAX_NAME: usize = 256;

impl ToolName {
    /// Returns nothing if this cannot be a name.
    fn new(text: &str, is_certain: bool) -> Option<Self> {
        let text = Some(text.trim()).filter(|text| !text.is_empty() && text.len() <= MAX_NAME)?;
        Some(Self { plain: plain_name(text), words: words_of(text), is_certain }).filter(|name| !name.plain.is_empty())
    }
}

/// The words of a name in lower case, with `_` between them: `createIssue` has two.
pub(crate) fn words_of(name: &str) -> String {
    let mut words = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        let is_part = c.is_alphanumeric() || c == '*';
        if (!is_part || (c.is_uppercase() && was_lower)) && !words.ends_with('_') {
            words.push('_');
        }
        words.extend(c.to_lowercase().filter(|_| is_part));
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    words
}

/// The names that a tool can have without its server: `github_create_issue`, `github: create_issue` and `create_issue (github)`
/// have the name `create_issue`.
pub(crate) fn names_of_any_server(name: &str) -> Vec<ToolName> {
    /// Behind a name, these begin a server, a title or arguments.
    const ENDS: [&str; 12] =
        ["(", "[", "<", "{", "@", ": ", " - ", " \u{2013} ", " \u{2014} ", " from ", " on ", " via "];
    let name = name.trim().trim_matches('`');
    let split = mcp_names(name);
    if !split.is_empty() {
        return split.iter().flat_map(|name| tails(&name.tool, false, false)).collect();
    }
    let has_kind = kind_of_tool(name).is_some();
    let ends = ENDS.iter().filter_map(|end| name.find(end)).filter(|end| *end > 0);
    std::iter::once(name.len()).chain(ends).flat_map(|end| tails(&name[..end], true, has_kind)).collect()
}

/// The ends of a name that can be the name of the tool. `has_server` means that a server can be before a single word, and `has_kind`
/// that the whole name is that of a tool of a known agent.
fn tails(name: &str, has_server: bool, has_kind: bool) -> Vec<ToolName> {
    /// Names with more words are compared by these.
    const MAX_TAILS: usize = 32;
    let name = name.trim_end();
    let mut found: Vec<ToolName> = ToolName::new(name, true).into_iter().collect();
    let mut after: Option<char> = None;
    for (at, c) in name.char_indices().rev() {
        let is_hump = c.is_lowercase() && after.is_some_and(char::is_uppercase);
        let is_end = !c.is_alphanumeric() && after.is_some_and(char::is_alphanumeric);
        after = Some(c);
        if !is_hump && !is_end {
            continue;
        }
        let (before, tail) = name.split_at(at + c.len_utf8());
        if found.len() > MAX_TAILS || tail.len() > MAX_NAME {
            break;
        }
        // A longer beginning is no name of a server.
        let start = before.len().saturating_sub(MAX_NAME);
        let before = before.get(start..).unwrap_or_default();
        let server = before.trim_end_matches(|c: char| !c.is_alphanumeric());
        let sign = &before[server.len()..];
        let is_server = !server.contains(char::is_whitespace) || plain_name(server).contains("mcp");
        let is_several = words_of(tail).contains('_');
        let is_split =
            !is_hump && (sign.contains(['/', ':', '.', '>', '|', ')', ']']) || sign.contains("__") || sign == " - ");
        let is_alone = server.is_empty() || (is_split && has_server);
        if is_server && (is_alone || !has_kind && (is_several || has_server && is_end)) {
            let is_of_mcp = is_end && server.to_lowercase().starts_with("mcp");
            found.extend(ToolName::new(tail, is_alone || is_several || is_of_mcp));
        }
    }
    found
}

/// The name of a tool in a rule, in which `*` stands for any characters.
#[derive(Clone, Debug)]
pub(crate) struct NamePattern {
    plain: String,
    words: Option<String>,
}

impl NamePattern {
    pub(crate) fn new(name: &str) -> Self {
        let words = name.contains('*').then(|| words_of(name));
        Self { plain: plain_name(&name.to_lowercase()), words }
    }

    /// The name in plain form.
    pub(crate) fn plain(&self) -> &str {
        &self.plain
    }

    /// Whether a tool of any server has the name.
    pub(crate) fn matches(&self, name: &ToolName) -> Certainty {
        let is_named = match &self.words {
            Some(words) => wildcard(words, &name.words),
            None => self.plain == name.plain,
        };
        match is_named {
            true if name.is_certain => Certainty::Yes,
            true => Certainty::Maybe,
            false => Certainty::No,
        }
    }

    /// Whether a call names the tool in its arguments.
    pub(crate) fn matches_split(&self, names: &[McpName]) -> bool {
        names.iter().any(|name| match &self.words {
            Some(words) => wildcard(words, &words_of(&name.tool)),
            None => self.plain == name.plain.1,
        })
    }
}

/// The server and the tool of a rule, in which `*` stands for any characters.
#[derive(Clone, Debug)]
pub(crate) struct McpPattern {
    pub(crate) server: String,
    pub(crate) tool: String,
    plain: (String, String),
    /// Names and titles of the tool in plain form, as agents write them without `mcp__`.
    other: Vec<String>,
    /// Names of servers such as `plugin_github` that may be meant.
    longer: Option<String>,
}

impl McpPattern {
    pub(crate) fn new(server: &str, tool: &str) -> Self {
        let plain = |text: &str| -> String {
            text.chars().filter(|c| c.is_alphanumeric() || *c == '*').flat_map(char::to_lowercase).collect()
        };
        let (plain_server, plain_tool) = (plain(server), plain(tool));
        let is_any = plain_tool.chars().all(|c| c == '*');
        let mut other = Vec::new();
        if !is_any {
            let name = format!("{plain_server}{plain_tool}");
            other = vec![
                name.clone(),
                format!("mcp{name}"),
                format!("*mcp{name}"),
                format!("{plain_server}mcp{plain_tool}"),
            ];
            other.push(format!("{plain_tool}{plain_server}*"));
        }
        let longer = (!is_any && !plain_server.starts_with('*')).then(|| format!("*{plain_server}{plain_tool}"));
        Self { server: server.to_owned(), tool: tool.to_owned(), plain: (plain_server, plain_tool), other, longer }
    }

    /// The server and the tool in plain form.
    pub(crate) fn plain(&self) -> (&str, &str) {
        (&self.plain.0, &self.plain.1)
    }

    /// Whether the tool surely has one of these names. A name with several `__` can be read in several ways.
    pub(crate) fn matches_strictly(&self, names: &[McpName]) -> bool {
        names.iter().all(|name| wildcard(&self.server, &name.server) && wildcard(&self.tool, &name.tool))
    }

    /// Whether the tool may be meant by one of these names.
    pub(crate) fn matches_split(&self, names: &[McpName]) -> bool {
        names.iter().any(|name| wildcard(&self.plain.0, &name.plain.0) && wildcard(&self.plain.1, &name.plain.1))
    }

    /// Whether the tool may be meant by a name or a title of another form. `plain` is the name in plain form.
    pub(crate) fn matches_other(&self, name: &str, plain: &str) -> Certainty {
        if !self.plain.0.contains('*') && !plain.contains(&*self.plain.0) {
            return Certainty::No;
        }
        let is_title = !is_name(name) && !name.contains('/');
        if self.other.iter().any(|other| wildcard(other, plain)) || self.is_prefix_of(name) {
            return if is_title { Certainty::Maybe } else { Certainty::Yes };
        }
        let is_longer = self.longer.as_ref().is_some_and(|longer| wildcard(longer, plain));
        if is_longer { Certainty::Maybe } else { Certainty::No }
    }

    /// Whether one of these tools, of a server that is not known, may be meant.
    pub(crate) fn may_match_split(&self, names: &[McpName]) -> bool {
        names.iter().any(|name| name.server.is_empty() && self.is_named(name.plain_tool()))
    }

    /// Whether the tool has the name of the rule without a server.
    pub(crate) fn is_named(&self, plain: &str) -> bool {
        !self.other.is_empty() && wildcard(&self.plain.1, plain)
    }

    /// Whether the rule is about all tools of the server.
    pub(crate) fn is_any_tool(&self) -> bool {
        self.other.is_empty()
    }

    /// Whether the name begins with the server, or is a title such as `get (github MCP Server)`, for a rule about all of its tools.
    fn is_prefix_of(&self, name: &str) -> bool {
        if !self.is_any_tool() {
            return false;
        }
        let lower = name.to_lowercase();
        let server = self.server.to_lowercase();
        // Any title could be that of a tool of any server: only one that says so is meant.
        if !is_name(name) && server.chars().all(|c| c == '*') {
            let (tool, rest) = lower.split_once(['(', '@']).unwrap_or((&lower, ""));
            return lower.contains("mcp") || (!rest.is_empty() && is_name(tool.trim_end()));
        }
        let begins = |text: &str| {
            let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
            match text.strip_prefix(&*server) {
                Some(rest) => rest.starts_with(|c: char| !c.is_alphanumeric()),
                None => {
                    server.contains('*')
                        && wildcard(&format!("{server}_*"), &text.replace(['/', '.', '-', ':', ' '], "_"))
                }
            }
        };
        let is_server_of = |text: &str| text.split(['(', '@']).skip(1).any(|rest| begins(&format!("{rest} ")));
        begins(&lower)
            || lower.match_indices("mcp").any(|(at, found)| begins(&lower[at + found.len()..]))
            || is_server_of(&lower)
    }
}
