//! Rules that can never decide: no call matches them, or another rule decides first.

use crate::Decision;
use crate::rule::{Rule, Subject};
use crate::tools::{Kind, kind_of_tool};

/// Words that people write for kinds.
const MEANT: &[(&str, &str)] = &[
    ("exec", "execute"),
    ("run", "execute"),
    ("cmd", "execute"),
    ("command", "execute"),
    ("write", "edit"),
    ("file", "read"),
    ("url", "fetch"),
    ("http", "fetch"),
    ("web", "fetch"),
    ("network", "fetch"),
    ("remove", "delete"),
    ("rename", "move"),
    ("grep", "search"),
    ("glob", "search"),
];

/// Returns the warnings of a rule set.
pub(crate) fn find(default: Decision, deny: &[Rule], ask: &[Rule], allow: &[Rule]) -> Vec<String> {
    let lists = [("deny", deny), ("ask", ask), ("allow", allow)];
    let mut warnings = Vec::new();
    let mut earlier: Vec<(&str, &Rule)> = Vec::new();
    for (list, rules) in lists {
        for rule in rules {
            let mut warn = |reason: String| warnings.push(format!("{}: {list} {:?}: {reason}", rule.source, rule.text));
            if let Some(reason) = never_matches(rule) {
                warn(reason);
            } else if let Some((first, by)) = earlier.iter().find(|(_, by)| covers(by, rule)) {
                warn(format!("it has no effect, because {first} {:?} decides first", by.text));
            } else if list == "allow" && default == Decision::Allow {
                warn("it has no effect, because the default is `allow`".to_owned());
            } else if list == "allow"
                && let Some(reason) = never_allows(rule)
            {
                warn(reason);
            }
            earlier.push((list, rule));
        }
    }
    warnings
}

/// Whether every call that the second rule matches is matched by the first.
fn covers(first: &Rule, second: &Rule) -> bool {
    let wider = match (&first.subject, &second.subject) {
        (Subject::Kind(kind), _) => second.kind() == Some(*kind),
        (first, second) => first == second,
    };
    let pattern = |rule: &Rule| rule.pattern.as_ref().map(|pattern| pattern.text.clone());
    wider && (first.pattern.is_none() || pattern(first) == pattern(second))
}

fn never_matches(rule: &Rule) -> Option<String> {
    let Subject::Tool(name) = &rule.subject else { return None };
    let meant = MEANT.iter().find(|(word, _)| *word == name).map(|(_, kind)| *kind);
    let meant = meant.or_else(|| {
        Kind::ALL.iter().map(|(kind, _)| *kind).find(|kind| kind.eq_ignore_ascii_case(name) && kind != name)
    });
    let meant = meant.or_else(|| Kind::ALL.iter().map(|(kind, _)| *kind).find(|kind| is_near(kind, name)));
    match meant {
        Some(kind) if rule.pattern.is_some() || kind_of_tool(name).is_none() => {
            Some(format!("`{name}` is the name of a tool here; for tools of every agent write `{kind}`"))
        }
        _ => None,
    }
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

/// A command is compared word by word, after the shell text was taken apart.
fn never_allows(rule: &Rule) -> Option<String> {
    let pattern = rule.pattern.as_ref().filter(|_| rule.kind() == Some(Kind::Execute))?;
    let sign = pattern.text.chars().find(|c| ";|&<>$`".contains(*c))?;
    Some(format!("it never matches, because no simple command contains `{sign}`; write a rule for each simple command"))
}
