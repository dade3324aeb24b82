//! The compiled form of a schema: nodes that refer to each other by number.

use std::collections::{HashMap, HashSet};

use serde_json::{Number, Value};

use super::number::canonical;
use super::pattern::Pattern;

/// The number of a node.
pub(super) type NodeId = usize;

/// The names of types. The place of a name is its bit in [`Types`].
pub(super) const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

/// A set of types.
#[derive(Clone, Copy, Default)]
pub(super) struct Types(pub(super) u8);

impl Types {
    pub(super) fn insert(&mut self, name: &str) -> bool {
        let bit = TYPES.iter().position(|known| *known == name).map_or(0, |at| 1 << at);
        let is_new = bit & !self.0 != 0;
        self.0 |= bit;
        is_new
    }

    pub(super) fn has(self, name: &str) -> bool {
        TYPES.iter().position(|known| *known == name).is_some_and(|at| self.0 & (1 << at) != 0)
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        TYPES.into_iter().filter(move |name| self.has(name))
    }
}

/// Returns the type of a value, `number` for all numbers.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The values of `enum` or `const`.
pub(super) struct Choice {
    scalars: HashSet<String>,
    compounds: Vec<Value>,
    /// The work of a comparison with the compounds.
    pub(super) weight: usize,
    pub(super) message: String,
}

impl Choice {
    pub(super) fn new(values: &[Value], message: String) -> Self {
        let mut choice = Self { scalars: HashSet::new(), compounds: Vec::new(), weight: 0, message };
        for value in values {
            if value.is_array() || value.is_object() {
                choice.weight += canonical(value).len();
                choice.compounds.push(value.clone());
            } else {
                choice.scalars.insert(canonical(value));
            }
        }
        choice
    }

    pub(super) fn has(&self, value: &Value) -> bool {
        match value {
            Value::Array(_) | Value::Object(_) => self.compounds.iter().any(|own| super::number::equal(own, value)),
            scalar => self.scalars.contains(&canonical(scalar)),
        }
    }
}

/// The rules of a schema. Most schemas have few of them.
#[derive(Default)]
pub(super) struct Node {
    /// The result of a schema `true` or `false`.
    pub(super) always: Option<bool>,
    pub(super) types: Option<Types>,
    /// `const`, then `enum`.
    pub(super) choices: Vec<Choice>,
    pub(super) reference: Option<NodeId>,
    pub(super) number: Option<Box<NumberRules>>,
    pub(super) text: Option<Box<TextRules>>,
    pub(super) array: Option<Box<ArrayRules>>,
    pub(super) object: Option<Box<ObjectRules>>,
    pub(super) groups: Option<Box<Groups>>,
    pub(super) unevaluated_properties: Option<NodeId>,
    pub(super) unevaluated_items: Option<NodeId>,
}

/// The rules that apply other schemas to the same value.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) not: Option<NodeId>,
    pub(super) all_of: Vec<NodeId>,
    pub(super) any_of: Vec<NodeId>,
    pub(super) one_of: Vec<NodeId>,
    pub(super) condition: Option<NodeId>,
    pub(super) then: Option<NodeId>,
    pub(super) otherwise: Option<NodeId>,
}

#[derive(Default)]
pub(super) struct NumberRules {
    pub(super) minimum: Option<Number>,
    pub(super) maximum: Option<Number>,
    pub(super) exclusive_minimum: Option<Number>,
    pub(super) exclusive_maximum: Option<Number>,
    pub(super) multiple_of: Option<Number>,
}

/// The bounds of a length.
#[derive(Clone, Copy, Default)]
pub(super) struct Bounds {
    pub(super) min: Option<usize>,
    pub(super) max: Option<usize>,
}

#[derive(Default)]
pub(super) struct TextRules {
    pub(super) length: Bounds,
    pub(super) pattern: Option<Pattern>,
}

#[derive(Default)]
pub(super) struct ArrayRules {
    pub(super) length: Bounds,
    pub(super) is_unique: bool,
    pub(super) first: Vec<NodeId>,
    pub(super) rest: Option<NodeId>,
    pub(super) contains: Option<Contains>,
}

pub(super) struct Contains {
    pub(super) item: NodeId,
    pub(super) bounds: Bounds,
    /// Whether matching items count as evaluated.
    pub(super) evaluates: bool,
}

#[derive(Default)]
pub(super) struct ObjectRules {
    pub(super) length: Bounds,
    pub(super) required: Vec<String>,
    pub(super) dependent: Vec<(String, Dependent)>,
    pub(super) properties: HashMap<String, NodeId>,
    pub(super) patterns: Vec<(Pattern, NodeId)>,
    pub(super) additional: Option<NodeId>,
    pub(super) names: Option<NodeId>,
}

pub(super) enum Dependent {
    Names(Vec<String>),
    Schema(NodeId),
}

impl ArrayRules {
    pub(super) fn has_items(&self) -> bool {
        !self.first.is_empty() || self.rest.is_some()
    }
}

impl ObjectRules {
    pub(super) fn has_members(&self) -> bool {
        !self.properties.is_empty() || !self.patterns.is_empty() || self.additional.is_some()
    }
}

impl Node {
    /// Returns whether the schema applies other schemas.
    pub(super) fn applies_others(&self) -> bool {
        self.reference.is_some() || self.groups.is_some() || self.object.is_some() || self.array.is_some()
    }

    /// Returns the nodes that apply to the same value.
    pub(super) fn in_place(&self) -> Vec<NodeId> {
        let mut found: Vec<_> = self.reference.into_iter().collect();
        if let Some(groups) = &self.groups {
            found.extend(groups.not);
            found.extend(groups.all_of.iter().chain(&groups.any_of).chain(&groups.one_of));
            found.extend([groups.condition, groups.then, groups.otherwise].into_iter().flatten());
        }
        if let Some(object) = &self.object {
            found.extend(object.dependent.iter().filter_map(|(_, dependent)| match dependent {
                Dependent::Schema(id) => Some(*id),
                Dependent::Names(_) => None,
            }));
        }
        found
    }
}
