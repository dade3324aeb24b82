//! The violations of a union: those of the schemas that the value was probably meant for.

use serde_json::{Map, Value};

use super::super::rules::{Choice, Node, NodeId, ObjectRules, Types, type_of};
use super::super::{listed, quoted};
use super::{At, BYTE, Checker, SCHEMA};

/// How well a value fits a schema of a union.
#[derive(Default)]
struct Fit<'n> {
    /// Whether the schema does not allow the type of the value.
    is_other_type: bool,
    /// The required properties with fixed values that the value does not have, with these values. Such a property tells the
    /// schemas apart.
    wrong_tags: Vec<(&'n str, &'n Choice)>,
    missing: usize,
}

impl Fit<'_> {
    /// Returns the distance of the value from the schema. The number of missing properties says nothing if a tag is wrong.
    fn distance(&self) -> (bool, usize, usize) {
        let tags = self.wrong_tags.len();
        (self.is_other_type, tags, if tags == 0 { self.missing } else { 0 })
    }
}

impl<'n> Checker<'n, '_> {
    /// Collects the violations of schemas of which none accepts the value. Of schemas that fit worse than others, none are
    /// collected: they would lead the model astray.
    pub(super) fn report_union(&mut self, schemas: &[NodeId], at: At<'_>) {
        if self.violations.is_silent() {
            return;
        }
        let fits: Vec<_> = schemas.iter().map(|id| (*id, self.fit(*id, at.value))).collect();
        let Some(nearest) = fits.iter().map(|(_, fit)| fit.distance()).min() else { return };
        let nearest: Vec<_> = fits.into_iter().filter(|(_, fit)| fit.distance() == nearest).collect();
        if nearest.len() > 1 && nearest.iter().all(|(_, fit)| !fit.is_other_type && !fit.wrong_tags.is_empty()) {
            let tags: Vec<_> = nearest.into_iter().flat_map(|(_, fit)| fit.wrong_tags).collect();
            self.report_tags(&tags, at);
            return;
        }
        for (id, _) in nearest {
            self.node(id, at, None);
        }
    }

    /// Reports the values that the tags of several schemas can have.
    fn report_tags(&mut self, tags: &[(&str, &Choice)], at: At<'_>) {
        for (index, (name, _)) in tags.iter().enumerate() {
            if !self.spend(tags.len()) || tags[..index].iter().any(|(earlier, _)| earlier == name) {
                continue;
            }
            let choices = tags.iter().filter(|(other, _)| other == name).map(|(_, choice)| &*choice.message);
            let values = choices.map(|message| message.strip_prefix("value must be ").unwrap_or(message).to_owned());
            let values = || format!("value must be {}", listed(values, " or "));
            match at.value.get(name) {
                Some(value) => self.report(at.member(name, value), values),
                None => self.report(at, || format!("missing properties {}: {}", quoted(name), values())),
            };
        }
    }

    fn fit(&mut self, id: NodeId, value: &Value) -> Fit<'n> {
        let mut fit = Fit::default();
        self.in_references(id, |checker, node| {
            // Whether a number is whole does not matter here.
            let allows = |types: Types| types.has(type_of(value)) || (value.is_number() && types.has("integer"));
            fit.is_other_type |= node.types.is_some_and(|types| !allows(types));
            if let (Some(rules), Value::Object(map)) = (&node.object, value) {
                checker.fit_members(rules, map, &mut fit);
            }
        });
        fit
    }

    fn fit_members(&mut self, rules: &'n ObjectRules, map: &Map<String, Value>, fit: &mut Fit<'n>) {
        for name in &rules.required {
            if !self.spend(SCHEMA) {
                return;
            }
            let value = map.get(name);
            fit.missing += usize::from(value.is_none());
            let Some(property) = rules.properties.get(name) else { continue };
            self.in_references(*property, |checker, node| {
                for choice in &node.choices {
                    let is_affordable =
                        checker.spend(value.and_then(Value::as_str).map_or(choice.weight, str::len) * BYTE);
                    if is_affordable && !value.is_some_and(|value| choice.has(value)) {
                        fit.wrong_tags.push((name, choice));
                    }
                }
            });
        }
    }

    /// Calls the function with a node and those that it refers to.
    fn in_references(&mut self, id: NodeId, mut visit: impl FnMut(&mut Self, &'n Node)) {
        let nodes = self.nodes;
        let mut next = Some(id);
        while let Some(node) = next.map(|id| &nodes[id])
            && self.spend(SCHEMA)
        {
            visit(self, node);
            next = node.reference;
        }
    }
}
