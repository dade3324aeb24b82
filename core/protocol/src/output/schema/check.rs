//! Checks a value against the nodes of a schema.

mod collections;
mod violations;

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::pattern::Pattern;
use super::rules::{Groups, Node, NodeId, NumberRules, TextRules, type_of};
use super::{OutputError, listed, number, quoted};
use violations::{At, Violations};

/// The limit of work for one value. A step is a schema that is applied, a member, or a character that a pattern reads.
const MAX_WORK: usize = 100_000_000;
/// The limit of schemas that are applied within each other. JSON has at most 127 levels.
const MAX_DEPTH: usize = 512;

/// The marks of the members or items that a schema has evaluated.
type Seen = Vec<bool>;

struct Checker<'n> {
    nodes: &'n [Node],
    work: usize,
    depth: usize,
    /// How many patterns that the validator does not read were taken as matching.
    unread: usize,
    violations: Violations,
}

/// Returns the violations of a value; none if it is valid.
pub(super) fn check(nodes: &[Node], value: &Value) -> Vec<OutputError> {
    // Most values are valid, and a check without violations is faster.
    let mut quick = Checker::new(nodes, Violations::quiet());
    let is_valid = quick.node(0, At::root(value), None);
    let too_complex = || vec![OutputError::new("", "the value is too complex to check")];
    if quick.is_exhausted() {
        return too_complex();
    }
    if is_valid {
        return Vec::new();
    }
    let mut thorough = Checker::new(nodes, Violations::default());
    thorough.node(0, At::root(value), None);
    if thorough.is_exhausted() { too_complex() } else { thorough.violations.finish() }
}

impl<'n> Checker<'n> {
    fn new(nodes: &'n [Node], violations: Violations) -> Self {
        Self { nodes, work: 0, depth: 0, unread: 0, violations }
    }

    fn is_exhausted(&self) -> bool {
        self.work > MAX_WORK
    }

    /// Counts work. Returns whether more is allowed.
    fn spend(&mut self, work: usize) -> bool {
        self.work = self.work.saturating_add(work);
        !self.is_exhausted()
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
            self.work = usize::MAX;
        }
        if !self.spend(1) {
            return false;
        }
        self.depth += 1;
        let is_valid = self.rules(id, at, seen);
        self.depth -= 1;
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
        self.spend(length.unwrap_or_default());
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
            let own = at.value.as_str().map_or(choice.weight, |text| text.len() / 64);
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
            if !self.spend(text.len() / 64) {
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
        if !self.spend(text.len().saturating_mul(pattern.weight)) {
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
        let before = self.violations.len();
        let mut is_valid = false;
        for id in schemas {
            is_valid |= self.node(*id, at, own.as_deref_mut());
            // If the evaluated members matter, all schemas must be applied.
            if is_valid && own.is_none() {
                break;
            }
        }
        if is_valid {
            self.violations.truncate(before);
        }
        is_valid
    }

    fn one_of(&mut self, schemas: &[NodeId], at: At<'_>, mut own: Option<&mut Seen>) -> bool {
        let (before, unread) = (self.violations.len(), self.unread);
        let mut first = None;
        for (n, id) in schemas.iter().enumerate() {
            let is_valid = match first {
                None => self.node(*id, at, own.as_deref_mut()),
                Some(_) => self.quietly(*id, at, own.as_deref_mut()),
            };
            match first {
                Some(first) if is_valid && self.unread == unread => {
                    self.violations.truncate(before);
                    return self.report(at, || format!("oneOf failed, subschemas {first}, {n} matched"));
                }
                None if is_valid => first = Some(n),
                _ => {}
            }
        }
        if first.is_some() {
            self.violations.truncate(before);
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
