//! The rules for objects and arrays.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::number::canonical;
use super::super::rules::{ArrayRules, Bounds, Contains, Dependent, Node, ObjectRules};
use super::super::{listed, quoted};
use super::{At, BYTE, Checker, KEPT, SCHEMA, Seen};

impl Checker<'_, '_> {
    /// Checks a number of members or items.
    fn size(&mut self, bounds: Bounds, got: usize, things: &str, at: At<'_>) -> bool {
        let mut is_valid = true;
        if let Some(want) = bounds.min.filter(|want| got < *want) {
            is_valid = self.report(at, || format!("minimum {want} {things} required, but got {got} {things}"));
        }
        if let Some(want) = bounds.max.filter(|want| got > *want) {
            is_valid = self.report(at, || format!("maximum {want} {things} required, but got {got} {things}"));
        }
        is_valid
    }

    pub(super) fn object(
        &mut self,
        rules: &ObjectRules,
        map: &Map<String, Value>,
        at: At<'_>,
        mut own: Option<&mut Seen>,
    ) -> bool {
        let mut is_valid = self.size(rules.length, map.len(), "properties", at);
        is_valid &= self.required(&rules.required, map, at, None);
        if !is_valid && self.violations.is_silent() {
            return false;
        }
        for (name, dependent) in rules.dependent.iter().filter(|(name, _)| map.contains_key(name)) {
            is_valid &= match dependent {
                Dependent::Names(required) => self.required(required, map, at, Some(name)),
                Dependent::Schema(id) => self.node(*id, at, own.as_deref_mut()),
            };
        }
        if rules.has_members() {
            is_valid &= self.members(rules, map, at, own);
        }
        is_valid & self.names(rules, map, at)
    }

    fn required(&mut self, names: &[String], map: &Map<String, Value>, at: At<'_>, cause: Option<&str>) -> bool {
        if !self.spend(names.len() * 4) || names.iter().all(|name| map.contains_key(name)) {
            return true;
        }
        let missing = || listed(names.iter().filter(|name| !map.contains_key(*name)).map(|name| quoted(name)), ", ");
        self.report(at, || match cause {
            None => format!("missing properties {}", missing()),
            Some(cause) => format!("properties {} required, if {} property exists", missing(), quoted(cause)),
        })
    }

    fn members(
        &mut self,
        rules: &ObjectRules,
        map: &Map<String, Value>,
        at: At<'_>,
        mut own: Option<&mut Seen>,
    ) -> bool {
        let mut is_valid = true;
        let mut refused: Vec<&String> = Vec::new();
        for (index, (name, value)) in map.iter().enumerate() {
            if !self.spend(SCHEMA) || (!is_valid && self.violations.is_silent()) {
                return false;
            }
            let inner = at.member(name, value);
            let mut is_known = false;
            if let Some(id) = rules.properties.get(name) {
                is_known = true;
                is_valid &= self.node(*id, inner, None);
            }
            for (pattern, id) in &rules.patterns {
                let found = self.matches(pattern, name);
                is_known |= found != Some(false);
                is_valid &= found != Some(true) || self.node(*id, inner, None);
            }
            if let Some(id) = rules.additional.filter(|_| !is_known) {
                is_known = true;
                if self.nodes[id].always == Some(false) {
                    refused.push(name);
                    is_valid = false;
                } else {
                    is_valid &= self.node(id, inner, None);
                }
            }
            if let Some(own) = own.as_deref_mut().filter(|_| is_known) {
                own[index] = true;
            }
        }
        if !refused.is_empty() {
            let names = || listed(refused.into_iter().map(|name| quoted(name)), ", ");
            is_valid = self.report(at, || format!("additionalProperties {} not allowed", names()));
        }
        is_valid
    }

    fn names(&mut self, rules: &ObjectRules, map: &Map<String, Value>, at: At<'_>) -> bool {
        let Some(id) = rules.names else { return true };
        let mut is_valid = true;
        for name in map.keys() {
            if !self.spend(SCHEMA + name.len()) || (!is_valid && self.violations.is_silent()) {
                self.name = 0;
                return false;
            }
            self.names += 1;
            self.name = self.names;
            let before = self.violations.len();
            let value = Value::String(name.clone());
            if !self.node(id, At::root(&value), None) {
                is_valid = false;
                self.violations.relocate(before, at, &format!("invalid property {}", quoted(name)));
            }
        }
        self.name = 0;
        is_valid
    }

    pub(super) fn array(
        &mut self,
        rules: &ArrayRules,
        items: &[Value],
        at: At<'_>,
        mut own: Option<&mut Seen>,
    ) -> bool {
        let mut is_valid = self.size(rules.length, items.len(), "items", at);
        if rules.is_unique
            && let Some((first, second)) = self.duplicates(items)
        {
            is_valid = self.report(at, || format!("items at {first} and {second} are equal"));
        }
        for (index, item) in items.iter().enumerate().take(if rules.has_items() { usize::MAX } else { 0 }) {
            let Some(id) = rules.first.get(index).copied().or(rules.rest) else { break };
            if self.is_exhausted() || (!is_valid && self.violations.is_silent()) {
                return false;
            }
            is_valid &= self.node(id, at.item(index, item), None);
            if let Some(own) = own.as_deref_mut() {
                own[index] = true;
            }
        }
        if let Some(contains) = &rules.contains {
            is_valid &= self.contains(contains, items, at, own);
        }
        is_valid
    }

    /// Returns the places of two equal items.
    fn duplicates(&mut self, items: &[Value]) -> Option<(usize, usize)> {
        let mut known = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            let text = canonical(item);
            if !self.spend(SCHEMA + KEPT + text.len() * BYTE) {
                return None;
            }
            if let Some(first) = known.insert(text, index) {
                return Some((first, index));
            }
        }
        None
    }

    fn contains(&mut self, rules: &Contains, items: &[Value], at: At<'_>, mut own: Option<&mut Seen>) -> bool {
        let unread = self.unread;
        let mut matched = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if self.is_exhausted() {
                return false;
            }
            if self.quietly(rules.item, at.item(index, item), None) {
                matched.push(index);
                if let Some(own) = own.as_deref_mut().filter(|_| rules.evaluates) {
                    own[index] = true;
                }
            }
        }
        let got = matched.len();
        let places = || listed(matched.iter().map(usize::to_string), ", ");
        let found = || if got == 0 { "none".to_owned() } else { format!("{got} items at {}", places()) };
        let mut is_valid = true;
        match rules.bounds.min {
            None if got == 0 => is_valid = self.report(at, || "no items match contains schema".to_owned()),
            Some(want) if got < want => {
                let text = || format!("minimum {want} items required to match contains schema, but found {}", found());
                is_valid = self.report(at, text);
            }
            _ => {}
        }
        if let Some(want) = rules.bounds.max.filter(|want| got > *want && self.unread == unread) {
            let text = || format!("maximum {want} items required to match contains schema, but found {}", found());
            is_valid = self.report(at, text);
        }
        is_valid
    }

    /// Checks the members or items that no other keyword has evaluated, and marks all.
    pub(super) fn unevaluated(&mut self, node: &Node, at: At<'_>, own: &mut Seen) -> bool {
        let mut is_valid = true;
        match at.value {
            Value::Object(map) => {
                let Some(id) = node.unevaluated_properties else { return true };
                for ((name, value), _) in map.iter().zip(own.iter()).filter(|(_, is_known)| !**is_known) {
                    is_valid &= self.node(id, at.member(name, value), None);
                }
            }
            Value::Array(items) => {
                let Some(id) = node.unevaluated_items else { return true };
                for ((index, item), _) in items.iter().enumerate().zip(own.iter()).filter(|(_, is_known)| !**is_known) {
                    is_valid &= self.node(id, at.item(index, item), None);
                }
            }
            _ => return true,
        }
        own.fill(true);
        is_valid
    }
}
