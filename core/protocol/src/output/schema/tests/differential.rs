//! The validator agrees with the crate boon about random schemas and values of a small vocabulary.

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::number::equal;
use super::super::{Schema, Work};

/// A schema that boon has compiled.
pub(super) struct Reference {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Reference {
    /// Compiles a schema; nothing if boon refuses it.
    pub(super) fn new(schema: &Value) -> Option<Self> {
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        let mut schemas = Schemas::new();
        compiler.add_resource("https://output.invalid/schema", schema.clone()).ok()?;
        let index = compiler.compile("https://output.invalid/schema", &mut schemas).ok()?;
        Some(Self { schemas, index })
    }

    pub(super) fn is_valid(&self, value: &Value) -> bool {
        self.schemas.validate(value, self.index).is_ok()
    }
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "aa", "é/~"]).prop_map(str::to_owned)
}

/// Removes `const` next to `$ref`, which draft 7 ignores, and boon does not.
fn without_constants(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.contains_key("$ref") {
                map.shift_remove("const");
            }
            map.values_mut().for_each(without_constants);
        }
        Value::Array(items) => items.iter_mut().for_each(without_constants),
        _ => {}
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    let known = json!([null, true, false, 0, 1, 1.0, 2, 3, -1, 0.5, 2.5, 1e20, "", "a", "b", "aa", "ab", "éé", "1"]);
    prop::sample::select(known.as_array().cloned().unwrap_or_default())
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn names() -> impl Strategy<Value = Value> {
    prop::collection::btree_set(name(), 0..3).prop_map(|names| json!(names))
}

/// Removes repeated values, which boon refuses.
fn distinct(values: Vec<Value>) -> Value {
    let mut kept: Vec<Value> = Vec::new();
    for value in values {
        if !kept.iter().any(|other| equal(other, &value)) {
            kept.push(value);
        }
    }
    Value::Array(kept)
}

/// Returns keywords without schemas in them.
fn plain() -> impl Strategy<Value = (String, Value)> {
    let types = ["null", "boolean", "number", "integer", "string", "array", "object"];
    let count = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
    let limit = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    let limits = json!([0, 1, 1.0, 2, 0.5, 2.5, -1]).as_array().cloned().unwrap_or_default();
    let pattern = ["^a", "b$", "^[ab]+$", "^\\w*$", "^.{2}$", "\\d", "(a|b)b?"];
    let of = |keys: &[&str]| prop::sample::select(keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>());
    prop_oneof![
        4 => of(&types).prop_map(|kind| ("type".to_owned(), json!(kind))),
        1 => prop::sample::subsequence(types.to_vec(), 1..3).prop_map(|kinds| ("type".to_owned(), json!(kinds))),
        2 => (of(&count), 0..4).prop_map(|(key, count)| (key, json!(count))),
        2 => (of(&limit), prop::sample::select(limits)).prop_map(|(key, limit)| (key, limit)),
        1 => prop::sample::select(vec![json!(1), json!(2), json!(0.5), json!(2.0)]).prop_map(|of| ("multipleOf".to_owned(), of)),
        1 => value().prop_map(|value| ("const".to_owned(), value)),
        1 => prop::collection::vec(value(), 1..4).prop_map(|values| ("enum".to_owned(), distinct(values))),
        1 => of(&pattern).prop_map(|pattern| ("pattern".to_owned(), json!(pattern))),
        1 => any::<bool>().prop_map(|is_unique| ("uniqueItems".to_owned(), json!(is_unique))),
        2 => names().prop_map(|names| ("required".to_owned(), names)),
        1 => (name(), names()).prop_map(|(name, names)| ("dependentRequired".to_owned(), json!({name: names}))),
        1 => (name(), names()).prop_map(|(name, names)| ("dependencies".to_owned(), json!({name: names}))),
        1 => (0..3, 0..3).prop_map(|(_, max)| ("maxContains".to_owned(), json!(max))),
        1 => (0..3).prop_map(|min| ("minContains".to_owned(), json!(min))),
        2 => of(&["#", "#/$defs/A", "#/definitions/B", "#second", "#/properties/a", "#/%24defs/A"])
            .prop_map(|target| ("$ref".to_owned(), json!(target))),
    ]
}

/// Returns keywords with schemas in them.
fn nested(inner: impl Strategy<Value = Value> + Clone + 'static) -> impl Strategy<Value = (String, Value)> {
    let of = |keys: &[&str]| prop::sample::select(keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>());
    let one = [
        "not",
        "if",
        "then",
        "else",
        "items",
        "contains",
        "additionalProperties",
        "propertyNames",
        "additionalItems",
        "unevaluatedProperties",
        "unevaluatedItems",
    ];
    let map = ["properties", "properties", "dependentSchemas", "dependencies"];
    prop_oneof![
        5 => (of(&one), inner.clone()).prop_map(|(key, schema)| (key, schema)),
        3 => (of(&["allOf", "anyOf", "oneOf", "prefixItems"]), prop::collection::vec(inner.clone(), 1..4))
            .prop_map(|(key, schemas)| (key, json!(schemas))),
        1 => prop::collection::vec(inner.clone(), 1..3).prop_map(|schemas| ("items".to_owned(), json!(schemas))),
        3 => (of(&map), prop::collection::btree_map(name(), inner.clone(), 1..3))
            .prop_map(|(key, schemas)| (key, json!(schemas))),
        1 => (of(&["^a", "b", "^.$"]), inner).prop_map(|(pattern, schema)| ("patternProperties".to_owned(), json!({pattern: schema}))),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let object = |members: Vec<(String, Value)>| Value::Object(members.into_iter().collect());
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Value::Bool),
        8 => prop::collection::vec(plain(), 0..3).prop_map(object),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        (prop::collection::vec(plain(), 0..2), prop::collection::vec(nested(inner), 1..4))
            .prop_map(move |(plain, nested)| object(plain.into_iter().chain(nested).collect()))
    })
}

/// Returns a schema with definitions, in one of the drafts.
fn document() -> impl Strategy<Value = Value> {
    (schema(), schema(), schema(), any::<bool>()).prop_map(|(root, a, b, is_draft_7)| {
        let mut root = match root {
            Value::Object(map) => map,
            other => Map::from_iter([("not".to_owned(), other)]),
        };
        let (draft, anchor, id) = if is_draft_7 {
            ("http://json-schema.org/draft-07/schema#", "$id", "#second")
        } else {
            ("https://json-schema.org/draft/2020-12/schema", "$anchor", "second")
        };
        root.insert("$schema".to_owned(), json!(draft));
        root.insert("$defs".to_owned(), json!({"A": a, "C": {anchor: id, "type": "string"}}));
        root.insert("definitions".to_owned(), json!({"B": b, "D": {anchor: id, "type": ["integer", "array"]}}));
        let hidden = if is_draft_7 { "$defs" } else { "definitions" };
        // Only one of the two anchors may remain.
        if let Some(map) = root.get_mut(hidden).and_then(Value::as_object_mut) {
            map.shift_remove(if is_draft_7 { "C" } else { "D" });
        }
        let mut schema = Value::Object(root);
        if is_draft_7 {
            without_constants(&mut schema);
        }
        schema
    })
}

/// Returns a keyword that both validators read in both drafts.
fn keyword() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "type",
        "const",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "items",
        "additionalItems",
        "contains",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxProperties",
        "minProperties",
        "required",
        "additionalProperties",
        "definitions",
        "properties",
        "patternProperties",
        "dependencies",
        "propertyNames",
        "if",
        "then",
        "else",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "prefixItems",
        "maxContains",
        "minContains",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$defs",
        "contentSchema",
        "$ref",
        "title",
        "description",
        "format",
        "examples",
        "readOnly",
        "$comment",
        "contentEncoding",
        "unknown",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn validity_agrees_with_boon(schema in document(), values in prop::collection::vec(value(), 8)) {
        let reference = Reference::new(&schema);
        let compiled = match Schema::compile(&schema, false) {
            Ok(compiled) => compiled,
            Err(problem) => {
                // Boon compiles schemas that refer to themselves without an end. It does not read unused definitions.
                let is_unused = problem.contains("does not have") && schema.pointer("/properties/a").is_none();
                prop_assert!(reference.is_none() || problem.contains("without an end") || is_unused, "{} {}", schema, problem);
                return Ok(());
            }
        };
        for value in values {
            let errors = compiled.check(&value, &mut Work::default());
            let expected = reference.as_ref().map(|reference| reference.is_valid(&value));
            prop_assert_eq!(Some(errors.is_empty()), expected, "{} {} {:?}", schema, value, errors);
            for error in &errors {
                prop_assert!(value.pointer(&error.pointer).is_some(), "{:?} {}", error, value);
            }
        }
    }

    #[test]
    fn wrong_keywords_agree_with_boon(key in keyword(), value in value(), is_draft_7: bool) {
        let draft = if is_draft_7 { "http://json-schema.org/draft-07/schema#" } else { "https://json-schema.org/draft/2020-12/schema" };
        let schema = json!({"$schema": draft, "properties": {"a": {key: value}}});
        let compiled = Schema::compile(&schema, false).map(|_| ());
        prop_assert_eq!(compiled.is_ok(), Reference::new(&schema).is_some(), "{} {:?}", schema, compiled);
    }
}
