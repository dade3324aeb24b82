//! A list of rules, with an index of those that a part can match: the time of a decision does not grow with the other rules.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;

use crate::Tool;
use crate::command::pattern::{long_option, plain_path};
use crate::command::{Word, base_name};
use crate::kinds::Kind;
use crate::mcp::{McpName, plain_name};
use crate::names::NameIndex;
use crate::path_index::PathIndex;
use crate::pieces::{Pieces, longest_piece};
use crate::rule::{Certainty, Rule, Subject, concerns_file};
use crate::tools::{Part, Target};

/// Rules of one list, in the order of the policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleList {
    pub(crate) rules: Vec<Rule>,
    /// Rules for kinds of tools.
    kinds: Index,
    /// Rules for a tool, by its name in plain form.
    tools: HashMap<String, Index>,
    /// Rules for tools that have a certain text in their names.
    names: NameIndex,
    has_paths: bool,
    has_hosts: bool,
    /// Each rule is compared with each part.
    #[cfg(test)]
    pub(crate) is_linear: bool,
}

/// How often a text occurs in the rules of a list. A rule is found by its rarest text.
#[derive(Debug, Default)]
pub(crate) struct Counts<'a>(HashMap<&'a str, usize>);

impl<'a> Counts<'a> {
    pub(crate) fn add(&mut self, text: &'a str) {
        *self.0.entry(text).or_default() += 1;
    }

    /// The rarest of some texts; of equally rare ones, the longest.
    pub(crate) fn rarest<'b>(&self, texts: impl Iterator<Item = &'b str>) -> Option<&'b str> {
        texts.min_by_key(|text| (self.of(text), std::cmp::Reverse(text.len())))
    }

    pub(crate) fn of(&self, text: &str) -> usize {
        self.0.get(text).copied().unwrap_or_default()
    }
}

/// Rules by what they are about.
#[derive(Clone, Debug, Default)]
struct Index {
    commands: CommandIndex,
    /// Rules for files by kind. Rules for one tool are of one kind.
    paths: Vec<(Kind, PathIndex)>,
    /// Rules for requests by host.
    hosts: HashMap<String, Vec<usize>>,
    first_host: Option<usize>,
    /// All others.
    rest: Vec<usize>,
}

/// Rules for commands.
#[derive(Clone, Debug, Default)]
struct CommandIndex {
    /// Rules by the name of the command.
    by_name: HashMap<String, Commands>,
    /// Rules for names with `*` that have a word which a command needs to have.
    of_any_name: HashMap<String, Vec<usize>>,
    /// Rules for names with `*`, by a text in the name.
    by_piece: Pieces<Vec<usize>>,
    /// All rules with a word that a command needs to have, by this word, and all others.
    by_word: HashMap<String, Vec<usize>>,
    without_word: Vec<usize>,
    first: Option<usize>,
}

/// Rules for one command.
#[derive(Clone, Debug, Default)]
struct Commands {
    /// Rules with no word that a command needs to have.
    any: Vec<usize>,
    by_word: HashMap<String, Vec<usize>>,
    /// Rules without such a word, by the name of a long option.
    by_option: BTreeMap<String, Vec<usize>>,
    /// The first rule with such a word or option.
    first: Option<usize>,
}

impl Commands {
    fn find(&self, known: &KnownWords, found: &mut Vec<usize>) {
        found.extend(&self.any);
        known.find(&self.by_word, found);
        if self.by_option.is_empty() {
            return;
        }
        for word in known.words.iter().filter(|word| word.starts_with('-')) {
            match long_option(word) {
                Some("") => {}
                // Options can be abbreviated.
                Some(name) => {
                    self.find_options(name, found);
                    let shorter = name.char_indices().skip(1).map(|(at, _)| &name[..at]);
                    found.extend(shorter.filter_map(|name| self.by_option.get(name)).flatten());
                }
                // Each letter can be the option in its other spelling.
                None => word.char_indices().skip(1).for_each(|(at, c)| {
                    self.find_options(&word[at..at + c.len_utf8()], found);
                }),
            }
        }
    }

    /// Finds the rules for options that begin with a text.
    fn find_options(&self, text: &str, found: &mut Vec<usize>) {
        let options = self.by_option.range::<str, _>((Bound::Included(text), Bound::Unbounded));
        found.extend(options.take_while(|(name, _)| name.starts_with(text)).flat_map(|(_, rules)| rules));
    }
}

/// The words of a command as rules compare them.
#[derive(Default)]
struct KnownWords {
    words: HashSet<String>,
    /// There are words whose value only the shell knows.
    has_unknown: bool,
}

impl KnownWords {
    fn new<'a>(words: impl Iterator<Item = Option<&'a str>>) -> Self {
        let mut known = Self::default();
        for word in words {
            let Some(word) = word.map(str::to_lowercase) else {
                known.has_unknown = true;
                continue;
            };
            if word.contains('/') {
                known.words.insert(plain_path(&word));
            }
            known.words.insert(base_name(&word));
            known.words.insert(word);
        }
        known
    }

    /// Finds the rules that need one of these words.
    fn find(&self, by_word: &HashMap<String, Vec<usize>>, found: &mut Vec<usize>) {
        if self.words.len() < by_word.len() {
            found.extend(self.words.iter().filter_map(|word| by_word.get(word)).flatten());
        } else {
            let has = |(word, _): &(&String, &Vec<usize>)| self.words.contains(*word);
            found.extend(by_word.iter().filter(has).flat_map(|(_, rules)| rules));
        }
    }
}

impl CommandIndex {
    fn add(&mut self, at: usize, rule: &Rule, counts: &Counts<'_>) -> bool {
        let Some(pattern) = &rule.pattern else { return false };
        let name = pattern.command.name();
        if name.as_ref().is_some_and(|name| name.starts_with('-')) {
            // In a text that cannot be parsed, it is compared as an option.
            return false;
        }
        let word = counts.rarest(pattern.command.key_words());
        let list = match (name, word) {
            (Some(name), word) => {
                let commands = self.by_name.entry(name).or_default();
                match (word, pattern.command.key_option()) {
                    (None, None) => &mut commands.any,
                    (Some(word), _) => {
                        commands.first.get_or_insert(at);
                        commands.by_word.entry(word.to_owned()).or_default()
                    }
                    (None, Some(option)) => {
                        commands.first.get_or_insert(at);
                        commands.by_option.entry(option.to_owned()).or_default()
                    }
                }
            }
            (None, Some(word)) => self.of_any_name.entry(word.to_owned()).or_default(),
            (None, None) => match pattern.command.name_piece() {
                Some(piece) => self.by_piece.entry(piece),
                None => return false,
            },
        };
        list.push(at);
        match word {
            Some(word) => self.by_word.entry(word.to_owned()).or_default().push(at),
            None => self.without_word.push(at),
        }
        self.first.get_or_insert(at);
        true
    }

    fn find(&self, words: &[Word], found: &mut Vec<usize>) {
        if self.first.is_none() {
            return;
        }
        let Some((name, arguments)) = words.split_first() else { return };
        let known = KnownWords::new(arguments.iter().map(Word::literal));
        let Some(name) = name.literal() else {
            found.extend(&self.without_word);
            known.find(&self.by_word, found);
            // With a further word that is not known, all rules may match, so the first stands for them.
            found.extend(self.first.filter(|_| known.has_unknown));
            return;
        };
        if let Some(commands) = self.by_name.get(&base_name(name)) {
            commands.find(&known, found);
            // All others may match as well, so the first stands for them.
            found.extend(commands.first.filter(|_| known.has_unknown));
        }
        if known.has_unknown {
            found.extend(self.of_any_name.values().flatten());
        } else {
            known.find(&self.of_any_name, found);
        }
        self.by_piece.visit(&name.to_lowercase(), |rules| found.extend(rules));
    }

    /// Finds the rules that can match a text that cannot be decided.
    fn find_loosely(&self, words: &[String], found: &mut Vec<usize>) {
        let Some(first) = self.first else { return };
        let known = KnownWords::new(words.iter().map(|word| Some(&**word)));
        let names: HashSet<String> = known.words.iter().map(|word| base_name(word)).collect();
        for commands in names.iter().filter_map(|name| self.by_name.get(name)) {
            commands.find(&known, found);
        }
        found.extend(self.of_any_name.values().flatten());
        self.by_piece.all(|rules| found.extend(rules));
        // All others may match as well, so the first stands for them.
        found.push(first);
    }
}

fn is_path(kind: Kind) -> bool {
    matches!(kind, Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search)
}

impl Index {
    fn add(&mut self, at: usize, rule: &Rule, counts: &Counts<'_>) {
        let (Some(kind), Some(pattern)) = (rule.kind(), &rule.pattern) else { return self.rest.push(at) };
        match (kind, &pattern.path, &pattern.host) {
            (Kind::Execute, ..) if self.commands.add(at, rule, counts) => {}
            (kind, Some(path), _) if is_path(kind) => {
                let known = self.paths.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
                    self.paths.push((kind, PathIndex::default()));
                    self.paths.len() - 1
                });
                self.paths[known].1.add(at, path, counts);
            }
            (Kind::Fetch, _, Some(host)) => {
                self.first_host.get_or_insert(at);
                match host.keys() {
                    Some(names) => names.for_each(|name| self.hosts.entry(name.to_owned()).or_default().push(at)),
                    None => self.rest.push(at),
                }
            }
            _ => self.rest.push(at),
        }
    }

    /// Finds the rules that can match a part. Returns how many steps that took, besides one for each rule.
    fn find(&self, rules: &[Rule], part: &Part, is_of_kinds: bool, found: &mut Vec<usize>) -> usize {
        found.extend(&self.rest);
        let paths = self.paths.iter();
        let mut paths = paths.filter(|(kind, _)| !is_of_kinds || concerns_file(*kind, part) != Certainty::No);
        match &part.target {
            Target::Command(command) => self.commands.find(command.words(), found),
            Target::Path(path) => return paths.map(|(_, index)| index.find(rules, path, found)).sum(),
            Target::Host(host) => {
                found.extend(host.keys().filter_map(|name| self.hosts.get(name)).flatten());
                if !host.is_known() {
                    // All others may match as well, so the first stands for them.
                    found.extend(self.first_host);
                }
            }
            Target::Opaque(text) => {
                self.commands.find_loosely(&text.words, found);
                found.extend(self.first_host);
                paths.by_ref().for_each(|(_, index)| index.find_any(found));
            }
            Target::Mcp(_) | Target::Nothing => {}
        }
        0
    }
}

impl RuleList {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        let mut counts = Counts::default();
        for pattern in rules.iter().filter_map(|rule| rule.pattern.as_ref()) {
            pattern.command.key_words().for_each(|word| counts.add(word));
            let parts = pattern.path.iter().flat_map(|path| path.literal_parts().chain(path.pieces()));
            parts.for_each(|part| counts.add(part));
        }
        let mut list = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            match &rule.subject {
                Subject::Kind(Kind::Mcp) => {
                    list.names.add(at, rule);
                    if rule.is_bare() {
                        list.kinds.rest.push(at);
                    }
                }
                Subject::Kind(_) => list.kinds.add(at, rule, &counts),
                // Other names of a tool of an MCP server are meant, too.
                Subject::Tool(_) if rule.names_mcp() => list.names.add(at, rule),
                Subject::Tool(name) if name.contains('*') => {
                    let piece = longest_piece(rule.lower()).map(plain_name).filter(|piece| !piece.is_empty());
                    match piece {
                        Some(piece) => list.names.add_wild(at, &piece),
                        None => list.kinds.rest.push(at),
                    }
                }
                Subject::Tool(_) => {
                    let name = rule.plain_name().unwrap_or(rule.lower());
                    list.tools.entry(name.to_owned()).or_default().add(at, rule, &counts);
                }
            }
        }
        // A rule for a tool without a pattern is about its name alone.
        let is_about_targets = |rule: &Rule| !rule.is_bare() || matches!(rule.subject, Subject::Kind(_));
        let has = |is: fn(Kind) -> bool| rules.iter().any(|rule| is_about_targets(rule) && rule.kind().is_some_and(is));
        list.has_paths = has(is_path) || rules.iter().any(|rule| !rule.is_bare() && rule.kind().is_none());
        list.has_hosts = has(|kind| kind == Kind::Fetch);
        drop(counts);
        list.rules = rules;
        list
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a rule is about files.
    pub(crate) fn has_paths(&self) -> bool {
        self.has_paths
    }

    /// Whether a rule is about hosts.
    pub(crate) fn has_hosts(&self) -> bool {
        self.has_hosts
    }

    /// The rules that the name of the tool leads to, and the steps that finding them took.
    pub(crate) fn named(&self, tool: Tool<'_>) -> (Vec<usize>, usize) {
        let mut found = Vec::new();
        let steps = self.names.find(tool, &mut found);
        (found, steps)
    }

    /// The places of the rules that can match a part, in their order, and the steps that finding them took. `named` are those that
    /// the name of the tool leads to.
    pub(crate) fn candidates(&self, tool: Tool<'_>, part: &Part, named: &[usize]) -> (Vec<usize>, usize) {
        #[cfg(test)]
        if self.is_linear {
            return ((0..self.rules.len()).collect(), 0);
        }
        let mut found = named.to_vec();
        if matches!(part.target, Target::Opaque(_)) {
            // All rules for MCP tools may match, so the first stands for them.
            found.extend(self.names.first());
        }
        if part.shadow && matches!(part.target, Target::Mcp(_)) {
            // Arguments name the tool.
            self.names.all(&mut found);
        }
        let mut steps = self.kinds.find(&self.rules, part, true, &mut found);
        let plain = plain_name(tool.lower);
        let others: Vec<String> = tool.others.iter().map(|other| plain_name(other)).collect();
        let mut names: Vec<&str> =
            [tool.lower, &plain].into_iter().chain(others.iter().map(|other| &**other)).collect();
        names.extend(tool.names.iter().map(|name| &*name.plain));
        if let Target::Mcp(split) = &part.target {
            names.extend(split.iter().map(McpName::plain_tool));
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            if let Some(index) = self.tools.get(name) {
                steps += index.find(&self.rules, part, false, &mut found);
            }
        }
        found.sort_unstable();
        found.dedup();
        (found, steps)
    }
}

#[cfg(test)]
mod tests;
