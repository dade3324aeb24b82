//! Checks a value against the nodes of a schema.

mod collections;
mod unions;
mod violations;

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::{Number, Value};

use super::pattern::Pattern;
use super::rules::{Groups, Node, NodeId, NumberRules, TextRules, type_of};
use super::{OutputError, listed, number, quoted};
use violations::{At, Violations};

/// The limit of work for one answer. A unit is about 4 ns of an optimised build, so all of it is less than 50 ms.
const MAX_WORK: usize = 10_000_000;
/// The work of a byte that a small pattern reads, and of a byte that is compared.
const PATTERN: usize = 16;
const BYTE: usize = 6;
/// The work of applying a schema to a part of a value.
const SCHEMA: usize = 16;
/// The work of a result that is kept: so the results take few megabytes.
const KEPT: usize = 48;
/// The limit of schemas that are applied within each other. JSON has at most 127 levels.
const MAX_DEPTH: usize = 512;

/// The marks of the members or items that a schema has evaluated.
type Seen = Vec<bool>;

/// The work that the values of one answer may still take together.
#[derive(Debug)]
pub(in super::super) struct Work {
    left: usize,
}

impl Default for Work {
    fn default() -> Self {
        Self { left: MAX_WORK }
    }
}

impl Work {
    /// Counts work. Returns whether more is allowed.
    fn spend(&mut self, work: usize) -> bool {
        self.left = self.left.saturating_sub(work);
        !self.is_exhausted()
    }

    /// Returns whether no check is complete any more.
    pub(in super::super) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    #[cfg(test)]
    pub(in super::super) fn spent(&self) -> usize {
        MAX_WORK - self.left
    }
}

/// The result of a schema for a part of a value.
#[derive(Clone, Copy)]
struct Outcome {
    is_valid: bool,
    /// Whether it depends on a pattern that the validator does not read.
    is_unread: bool,
    /// Whether its violations were collected.
    is_reported: bool,
}

/// A schema, the part of the value that it was applied to, and the number of the name that is checked, or zero.
type Applied = (NodeId, *const Value, usize);

struct Checker<'n, 'w> {
    nodes: &'n [Node],
    work: &'w mut Work,
    /// The results so far. Without them, a recursive schema takes exponential time.
    outcomes: HashMap<Applied, Outcome>,
    /// The number of the name that is checked. Each name is a value of its own, whose address is used again.
    name: usize,
    names: usize,
    depth: usize,
    /// How many patterns that the validator does not read were taken as matching.
    unread: usize,
    violations: Violations,
}

/// Returns the violations of a value; none if it is valid.
pub(super) fn check(nodes: &[Node], value: &Value, work: &mut Work) -> Vec<OutputError> {
    let mut checker = Checker::new(nodes, work);
    // Most values are valid, and a check without violations is faster.
    let is_valid = checker.quietly(0, At::root(value), None);
    if !is_valid && !checker.work.is_exhausted() {
        checker.node(0, At::root(value), None);
    }
    if checker.work.is_exhausted() {
        return vec![OutputError::new("", TOO_COMPLEX)];
    }
    if is_valid { Vec::new() } else { checker.violations.finish() }
}

/// The violation of a value whose check takes too much work.
pub(in super::super) const TOO_COMPLEX: &str = "the value is too complex to check";

impl<'n, 'w> Checker<'n, 'w> {
    fn new(nodes: &'n [Node], work: &'w mut Work) -> Self {
        Self {
            nodes,
            work,
            outcomes: HashMap::new(),
            name: 0,
            names: 0,
            depth: 0,
            unread: 0,
            violations: Violations::default(),
        }
    }

    fn is_exhausted(&self) -> bool {
        self.work.is_exhausted()
    }

    /// Counts work. Returns whether more is allowed.
    fn spend(&mut self, work: usize) -> bool {
        self.work.spend(work)
    }

    /// Adds a violation, and returns false.
    fn report(&mut self, at: At<'_>, message: impl FnOnce() -> String) -> bool {
        self.violations.add(at, message);
        false
    }

    /// Checks without violations.
    fn quietly(&mut self, id: NodeId, at: At<'_>, seen: Option<&mut Seen>) -> bool {
        self.violations.silence += 1;
        let is_valid = self.node(id, at, seen);
        self.violations.silence -= 1;
        is_valid
    }

    /// Checks a value against a node. Marks in `seen` what the node has evaluated if the value is valid.
    fn node(&mut self, id: NodeId, at: At<'_>, seen: Option<&mut Seen>) -> bool {
        if self.depth >= MAX_DEPTH {
            self.spend(usize::MAX);
        }
        if !self.spend(SCHEMA) {
            return false;
        }
        // Marks are only needed within one part of a value, where no recursion can be.
        let is_kept = seen.is_none() && self.nodes[id].applies_others();
        let applied: Applied = (id, at.value, self.name);
        if is_kept && let Some(outcome) = self.outcomes.get(&applied) {
            self.unread += usize::from(outcome.is_unread);
            if outcome.is_valid || outcome.is_reported || self.violations.is_silent() {
                return outcome.is_valid;
            }
        }
        let unread = self.unread;
        self.depth += 1;
        let is_valid = self.rules(id, at, seen);
        self.depth -= 1;
        if is_kept {
            let is_reported = !self.violations.is_silent();
            self.spend(KEPT);
            self.outcomes.insert(applied, Outcome { is_valid, is_unread: self.unread > unread, is_reported });
        }
        is_valid
    }

    fn rules(&mut self, id: NodeId, at: At<'_>, seen: Option<&mut Seen>) -> bool {
        let node = &self.nodes[id];
        if let Some(always) = node.always {
            return always || self.report(at, || "false schema".to_owned());
        }
        if !self.kind(node, at) {
            return false;
        }
        let length = match at.value {
            Value::Array(items) if seen.is_some() || node.unevaluated_items.is_some() => Some(items.len()),
            Value::Object(map) if seen.is_some() || node.unevaluated_properties.is_some() => Some(map.len()),
            _ => None,
        };
        self.spend(length.unwrap_or_default() / 4);
        let mut own = length.filter(|_| !self.is_exhausted()).map(|length| vec![false; length]);
        let mut is_valid = node.reference.is_none_or(|target| self.node(target, at, own.as_mut()));
        is_valid &= match at.value {
            Value::Object(map) => node.object.as_ref().is_none_or(|rules| self.object(rules, map, at, own.as_mut())),
            Value::Array(items) => node.array.as_ref().is_none_or(|rules| self.array(rules, items, at, own.as_mut())),
            Value::String(text) => node.text.as_ref().is_none_or(|rules| self.text(rules, text, at)),
            Value::Number(number) => node.number.as_ref().is_none_or(|rules| self.number(rules, number, at)),
            _ => true,
        };
        if !is_valid && self.violations.is_silent() {
            return false;
        }
        if let Some(groups) = &node.groups {
            is_valid &= self.groups(groups, at, own.as_mut());
        }
        if let Some(own) = own.as_mut().filter(|_| is_valid) {
            is_valid &= self.unevaluated(node, at, own);
        }
        if let Some((seen, own)) = seen.zip(own).filter(|_| is_valid) {
            seen.iter_mut().zip(own).for_each(|(seen, own)| *seen |= own);
        }
        is_valid
    }

    /// Checks the keywords after which no other violation says more.
    fn kind(&mut self, node: &Node, at: At<'_>) -> bool {
        let is_whole = |value: &Value| matches!(value, Value::Number(number) if number::is_whole(number));
        let kind = type_of(at.value);
        if let Some(types) = node.types
            && !types.has(kind)
            && !(types.has("integer") && is_whole(at.value))
        {
            let want = || listed(types.names().map(str::to_owned), " or ");
            return self.report(at, || format!("want {}, but got {kind}", want()));
        }
        for choice in &node.choices {
            let own = at.value.as_str().map_or(choice.weight, str::len) * BYTE;
            if !self.spend(own) {
                return false;
            }
            if !choice.has(at.value) {
                return self.report(at, || choice.message.clone());
            }
        }
        true
    }

    fn number(&mut self, rules: &NumberRules, got: &Number, at: At<'_>) -> bool {
        let mut is_valid = true;
        let mut limit = |limit: &Option<Number>, is_allowed: fn(Ordering) -> bool, text: &str| {
            if let Some(want) = limit.as_ref().filter(|want| !is_allowed(number::compare(got, want))) {
                is_valid = self.report(at, || format!("{}{got}", text.replace("{}", &want.to_string())));
            }
        };
        limit(&rules.minimum, Ordering::is_ge, "must be >={}, but got ");
        limit(&rules.maximum, Ordering::is_le, "must be <={}, but got ");
        limit(&rules.exclusive_minimum, Ordering::is_gt, "must be > {} but got ");
        limit(&rules.exclusive_maximum, Ordering::is_lt, "must be < {} but got ");
        if let Some(of) = rules.multiple_of.as_ref().filter(|of| !number::is_multiple(got, of)) {
            is_valid = self.report(at, || format!("{got} is not multipleOf {of}"));
        }
        is_valid
    }

    fn text(&mut self, rules: &TextRules, text: &str, at: At<'_>) -> bool {
        let mut is_valid = true;
        if rules.length.min.is_some() || rules.length.max.is_some() {
            if !self.spend(text.len() / 16) {
                return false;
            }
            let got = text.chars().count();
            if let Some(want) = rules.length.min.filter(|want| got < *want) {
                is_valid = self.report(at, || format!("length must be >={want}, but got {got}"));
            }
            if let Some(want) = rules.length.max.filter(|want| got > *want) {
                is_valid = self.report(at, || format!("length must be <={want}, but got {got}"));
            }
        }
        if let Some(pattern) = &rules.pattern
            && self.matches(pattern, text) == Some(false)
        {
            let message = || format!("{} does not match pattern {}", quoted(text), quoted(&pattern.source));
            is_valid = self.report(at, message);
        }
        is_valid
    }

    /// Returns whether a text matches; nothing if the validator does not know it.
    fn matches(&mut self, pattern: &Pattern, text: &str) -> Option<bool> {
        if !self.spend(text.len().saturating_mul(pattern.weight).saturating_mul(PATTERN)) {
            return Some(false);
        }
        let found = pattern.matches(text);
        self.unread += usize::from(found.is_none());
        found
    }

    fn groups(&mut self, groups: &Groups, at: At<'_>, mut own: Option<&mut Seen>) -> bool {
        let mut is_valid = true;
        let unread = self.unread;
        if let Some(not) = groups.not
            && self.quietly(not, at, None)
            && self.unread == unread
        {
            is_valid = self.report(at, || "not failed".to_owned());
        }
        for id in &groups.all_of {
            is_valid &= self.node(*id, at, own.as_deref_mut());
            if !is_valid && self.violations.is_silent() {
                return false;
            }
        }
        is_valid &= groups.any_of.is_empty() || self.any_of(&groups.any_of, at, own.as_deref_mut());
        is_valid &= groups.one_of.is_empty() || self.one_of(&groups.one_of, at, own.as_deref_mut());
        is_valid & groups.condition.is_none_or(|condition| self.condition(condition, groups, at, own))
    }

    fn any_of(&mut self, schemas: &[NodeId], at: At<'_>, mut own: Option<&mut Seen>) -> bool {
        let mut is_valid = false;
        for id in schemas {
            is_valid |= self.quietly(*id, at, own.as_deref_mut());
            // If the evaluated members matter, all schemas must be applied.
            if is_valid && own.is_none() {
                break;
            }
        }
        if !is_valid {
            self.report_union(schemas, at);
        }
        is_valid
    }

    fn one_of(&mut self, schemas: &[NodeId], at: At<'_>, mut own: Option<&mut Seen>) -> bool {
        let unread = self.unread;
        let mut first = None;
        for (n, id) in schemas.iter().enumerate() {
            let is_valid = self.quietly(*id, at, own.as_deref_mut());
            match first {
                Some(first) if is_valid && self.unread == unread => {
                    return self.report(at, || format!("oneOf failed, subschemas {first}, {n} matched"));
                }
                None if is_valid => first = Some(n),
                _ => {}
            }
        }
        if first.is_none() {
            self.report_union(schemas, at);
        }
        first.is_some()
    }

    fn condition(&mut self, condition: NodeId, groups: &Groups, at: At<'_>, mut own: Option<&mut Seen>) -> bool {
        let unread = self.unread;
        let branch = if self.quietly(condition, at, own.as_deref_mut()) { groups.then } else { groups.otherwise };
        if self.unread == unread {
            return branch.is_none_or(|id| self.node(id, at, own));
        }
        // The validator does not know the branch, so that the program checks the value.
        own.into_iter().flatten().for_each(|mark| *mark = true);
        true
    }
}
