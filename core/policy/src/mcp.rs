//! Names of tools of MCP servers: agents write them in several ways, or show a title instead.

use crate::command::pattern::wildcard;
use crate::kinds::{is_name, mcp_names};
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
            other = vec![name.clone(), format!("mcp{name}"), format!("*mcp{name}")];
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
