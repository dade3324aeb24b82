//! A list of rules, with an index of those that a part can match: the time of a decision does not grow with the other rules.

use std::collections::{HashMap, HashSet};

use crate::Tool;
use crate::command::pattern::plain_path;
use crate::command::{Word, base_name};
use crate::kinds::Kind;
use crate::rule::{Rule, Subject};
use crate::tools::{Part, Target};

/// Rules of one list, in the order of the policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleList {
    pub(crate) rules: Vec<Rule>,
    /// Rules for kinds of tools, and for tools whose name has `*`.
    kinds: Index,
    /// Rules for a tool, by its name in lower case.
    tools: HashMap<String, Index>,
}

/// Rules by what they are about.
#[derive(Clone, Debug, Default)]
struct Index {
    /// Rules for commands by the name of the command.
    commands: HashMap<String, Commands>,
    /// Rules for paths by a name in the path, or by the ending of a name.
    paths: HashMap<String, Vec<usize>>,
    /// Rules for requests by host.
    hosts: HashMap<String, Vec<usize>>,
    all_commands: Vec<usize>,
    all_paths: Vec<usize>,
    all_hosts: Vec<usize>,
    /// Rules for paths without a literal name.
    wide_paths: Vec<usize>,
    /// All others.
    rest: Vec<usize>,
}

/// Rules for one command.
#[derive(Clone, Debug, Default)]
struct Commands {
    /// Rules with no word that a command needs to have.
    any: Vec<usize>,
    by_word: HashMap<String, Vec<usize>>,
}

impl Commands {
    /// Finds the rules for a command with these words, in lower case. Nothing stands for a word that is not known.
    fn find(&self, words: Option<&HashSet<String>>, found: &mut Vec<usize>) {
        found.extend(&self.any);
        match words {
            Some(words) if words.len() < self.by_word.len() => {
                found.extend(words.iter().filter_map(|word| self.by_word.get(word)).flatten());
            }
            Some(words) => {
                let has = |(word, _): &(&String, &Vec<usize>)| words.contains(*word);
                found.extend(self.by_word.iter().filter(has).flat_map(|(_, rules)| rules));
            }
            None => found.extend(self.by_word.values().flatten()),
        }
    }
}

/// The words of a command as rules compare them.
fn known_words<'a>(words: impl Iterator<Item = Option<&'a str>>) -> Option<HashSet<String>> {
    let mut known = HashSet::new();
    for word in words {
        let word = word?.to_lowercase();
        if word.contains('/') {
            known.insert(plain_path(&word));
        }
        known.insert(base_name(&word));
        known.insert(word);
    }
    Some(known)
}

fn is_path(kind: Kind) -> bool {
    matches!(kind, Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search)
}

impl Index {
    fn add(&mut self, at: usize, rule: &Rule) {
        let (Some(kind), Some(pattern)) = (rule.kind(), &rule.pattern) else { return self.rest.push(at) };
        match (kind, &pattern.path, &pattern.host) {
            (Kind::Execute, ..) => {
                self.all_commands.push(at);
                match pattern.command.name() {
                    Some(name) => {
                        let commands = self.commands.entry(name).or_default();
                        match pattern.command.key_word() {
                            Some(word) => commands.by_word.entry(word.to_owned()).or_default().push(at),
                            None => commands.any.push(at),
                        }
                    }
                    None => self.rest.push(at),
                }
            }
            (kind, Some(path), _) if is_path(kind) => {
                self.all_paths.push(at);
                match path.literal_part().or_else(|| path.ending()) {
                    Some(part) => self.paths.entry(part.to_owned()).or_default().push(at),
                    None => self.wide_paths.push(at),
                }
            }
            (Kind::Fetch, _, Some(host)) => {
                self.all_hosts.push(at);
                match host.keys() {
                    Some(names) => names.for_each(|name| self.hosts.entry(name.to_owned()).or_default().push(at)),
                    None => self.rest.push(at),
                }
            }
            _ => self.rest.push(at),
        }
    }

    fn find(&self, part: &Part, found: &mut Vec<usize>) {
        found.extend(&self.rest);
        match &part.target {
            Target::Command(command) => match command.words().first() {
                Some(Word::Literal(name)) => {
                    if let Some(commands) = self.commands.get(&base_name(name)) {
                        let words = known_words(command.words()[1..].iter().map(Word::literal));
                        commands.find(words.as_ref(), found);
                    }
                }
                _ => found.extend(&self.all_commands),
            },
            Target::Path(path) if self.all_paths.is_empty() || path.is_wide() => found.extend(&self.all_paths),
            Target::Path(path) => {
                for name in path.names() {
                    found.extend(self.paths.get(name).into_iter().flatten());
                    if let Some((_, ending)) = name.rsplit_once('.') {
                        found.extend(self.paths.get(&format!("*.{ending}")).into_iter().flatten());
                    }
                }
                found.extend(&self.wide_paths);
                if !path.is_certain() {
                    found.extend(self.all_paths.first());
                }
            }
            Target::Host(host) => {
                found.extend(host.keys().filter_map(|name| self.hosts.get(name)).flatten());
                if !host.is_known() {
                    // All others may match as well, so the first stands for them.
                    found.extend(self.all_hosts.first());
                }
            }
            Target::Opaque(text) => {
                if !self.commands.is_empty() {
                    let words = known_words(text.words.iter().map(|word| Some(&**word))).unwrap_or_default();
                    let names: HashSet<String> = words.iter().map(|word| base_name(word)).collect();
                    let commands = names.iter().filter_map(|name| self.commands.get(name));
                    commands.for_each(|commands| commands.find(Some(&words), found));
                }
                // All others may match as well, so the first of each kind stands for them.
                found.extend(
                    [&self.all_commands, &self.all_paths, &self.all_hosts].into_iter().filter_map(|all| all.first()),
                );
                found.extend(&self.wide_paths);
                if part.kind.is_some_and(is_path) {
                    found.extend(&self.all_paths);
                }
            }
            Target::Mcp(_) | Target::Nothing => {}
        }
    }
}

impl RuleList {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        let mut list = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            let index = match &rule.subject {
                // Other names of a tool of an MCP server are meant, too.
                Subject::Tool(name) if !name.contains('*') && !rule.names_mcp() => {
                    list.tools.entry(name.to_lowercase()).or_default()
                }
                _ => &mut list.kinds,
            };
            index.add(at, rule);
        }
        list.rules = rules;
        list
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    fn indexes(&self) -> impl Iterator<Item = &Index> {
        std::iter::once(&self.kinds).chain(self.tools.values())
    }

    /// Whether a rule is about files.
    pub(crate) fn has_paths(&self) -> bool {
        let is_about_files = |rule: &Rule| rule.kind().is_none_or(is_path) && !rule.is_bare();
        self.indexes()
            .any(|index| !index.all_paths.is_empty() || index.rest.iter().any(|at| is_about_files(&self.rules[*at])))
    }

    /// Whether a rule is about hosts.
    pub(crate) fn has_hosts(&self) -> bool {
        self.indexes().any(|index| !index.all_hosts.is_empty())
    }

    /// The places of the rules that can match a part, in their order.
    pub(crate) fn candidates(&self, tool: Tool<'_>, part: &Part) -> Vec<usize> {
        let mut found = Vec::new();
        self.kinds.find(part, &mut found);
        if let Some(index) = self.tools.get(tool.lower) {
            index.find(part, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
