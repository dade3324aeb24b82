//! A list of rules, with an index of those that a part can match: the time of a decision does not grow with the other rules.

use std::collections::HashMap;

use crate::command::{Word, base_name};
use crate::rule::{Rule, Subject};
use crate::tools::{Kind, Part, Target};

/// Rules of one list, in the order of the policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleList {
    pub(crate) rules: Vec<Rule>,
    /// Rules for commands by the name of the command.
    commands: HashMap<String, Vec<usize>>,
    /// Rules for paths by a name in the path.
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

fn is_path(kind: Kind) -> bool {
    matches!(kind, Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search)
}

impl RuleList {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        let mut list = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            let (Subject::Kind(kind), Some(pattern)) = (&rule.subject, &rule.pattern) else {
                list.rest.push(at);
                continue;
            };
            match (kind, &pattern.path, &pattern.host) {
                (Kind::Execute, ..) => {
                    list.all_commands.push(at);
                    match pattern.command.name() {
                        Some(name) => list.commands.entry(name).or_default().push(at),
                        None => list.rest.push(at),
                    }
                }
                (kind, Some(path), _) if is_path(*kind) => {
                    list.all_paths.push(at);
                    match path.literal_part() {
                        Some(part) => list.paths.entry(part.to_owned()).or_default().push(at),
                        None => list.wide_paths.push(at),
                    }
                }
                (Kind::Fetch, _, Some(host)) => {
                    list.all_hosts.push(at);
                    match host.exact() {
                        Some(names) => names.for_each(|name| list.hosts.entry(name.clone()).or_default().push(at)),
                        None => list.rest.push(at),
                    }
                }
                _ => list.rest.push(at),
            }
        }
        list.rules = rules;
        list
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a rule is about files.
    pub(crate) fn has_paths(&self) -> bool {
        let is_about_files = |rule: &Rule| rule.kind().is_none_or(is_path) && !rule.is_bare();
        !self.all_paths.is_empty() || self.rest.iter().any(|at| is_about_files(&self.rules[*at]))
    }

    /// Whether a rule is about hosts.
    pub(crate) fn has_hosts(&self) -> bool {
        !self.all_hosts.is_empty()
    }

    /// The places of the rules that can match a part, in their order.
    pub(crate) fn candidates(&self, part: &Part) -> Vec<usize> {
        let mut found = self.rest.clone();
        let mut add = |map: &HashMap<String, Vec<usize>>, name: &str| {
            if let Some(places) = map.get(name) {
                found.extend(places);
            }
        };
        match &part.target {
            Target::Command(command) => match command.words().first() {
                Some(Word::Literal(name)) => add(&self.commands, &base_name(name)),
                _ => found.extend(&self.all_commands),
            },
            Target::Path(path) => {
                if path.is_wide() {
                    found.extend(&self.all_paths);
                } else {
                    path.names().for_each(|name| add(&self.paths, name));
                    found.extend(&self.wide_paths);
                }
            }
            Target::Host(host) => {
                host.names().iter().for_each(|name| add(&self.hosts, name));
                if !host.is_known() {
                    found.extend(&self.all_hosts);
                }
            }
            Target::Opaque(text) => {
                for word in &text.words {
                    add(&self.commands, &base_name(word));
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
        found.sort_unstable();
        found.dedup();
        found
    }
}
