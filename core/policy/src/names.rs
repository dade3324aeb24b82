//! An index of the rules that the name of a tool leads to: those for tools of MCP servers, and for names with `*`.

use std::collections::HashMap;

use crate::Tool;
use crate::mcp::plain_name;
use crate::pieces::{Pieces, longest_piece};
use crate::rule::Rule;

/// Rules by texts in the name of a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameIndex {
    /// Rules for names with `*`, by a text in the plain name.
    wild: Pieces<Vec<usize>>,
    /// Rules for tools of MCP servers by a text in the plain name.
    mcp: Pieces<Servers>,
    /// Rules for all tools of a server.
    of_any_tool: Servers,
    /// Rules for names that are not those of ASCII.
    rest: Vec<usize>,
    /// All rules for tools of MCP servers.
    all: Vec<usize>,
    first: Option<usize>,
}

/// Rules by a text in the name of the server. The server can be missing in the name of a tool.
#[derive(Clone, Debug, Default)]
struct Servers {
    by_server: Pieces<Vec<usize>>,
    of_any_server: Vec<usize>,
    /// The first rule for each pattern of tools: it stands for all others if the name has no server.
    firsts: HashMap<String, usize>,
}

/// The server of the program's own tools.
const PROGRAM: &str = "program";

impl Servers {
    fn add(&mut self, at: usize, server: &str, tool: &str) {
        match longest_piece(server) {
            Some(piece) => self.by_server.entry(piece).push(at),
            None => self.of_any_server.push(at),
        }
        self.firsts.entry(tool.to_owned()).or_insert(at);
    }

    fn find(&self, plain: &str, found: &mut Vec<usize>) -> usize {
        found.extend(&self.of_any_server);
        found.extend(self.firsts.values());
        self.by_server.visit(PROGRAM, |rules| found.extend(rules))
            + self.by_server.visit(plain, |rules| found.extend(rules))
    }
}

impl NameIndex {
    pub(crate) fn add_wild(&mut self, at: usize, piece: &str) {
        self.wild.entry(piece).push(at);
    }

    /// Adds a rule for tools of MCP servers.
    pub(crate) fn add(&mut self, at: usize, rule: &Rule) {
        let Some(pattern) = rule.mcp() else { return self.rest.push(at) };
        self.all.push(at);
        // Without a pattern in parentheses, nothing but the name is compared.
        if !rule.is_bare() {
            self.first.get_or_insert(at);
        }
        let (server, tool) = pattern.plain();
        if !rule.text.is_ascii() {
            return self.rest.push(at);
        }
        match longest_piece(tool) {
            Some(piece) => self.mcp.entry(piece).add(at, server, tool),
            None => self.of_any_tool.add(at, server, "*"),
        }
    }

    /// All rules for tools of MCP servers, and for names with `*`.
    pub(crate) fn all(&self, found: &mut Vec<usize>) {
        found.extend(&self.all);
        self.wild.all(|rules| found.extend(rules));
    }

    /// The first rule with a pattern for tools of MCP servers.
    pub(crate) fn first(&self) -> Option<usize> {
        self.first
    }

    /// Finds the rules that can be about the tool. Returns how many steps that took.
    pub(crate) fn find(&self, tool: Tool<'_>, found: &mut Vec<usize>) -> usize {
        found.extend(&self.rest);
        let mut steps = self.wild.visit(&plain_name(tool.lower), |rules| found.extend(rules));
        let mut buckets = vec![&self.of_any_tool];
        steps += self.mcp.visit(tool.plain, |servers| buckets.push(servers));
        steps + buckets.iter().map(|servers| servers.find(tool.plain, found)).sum::<usize>()
    }
}
