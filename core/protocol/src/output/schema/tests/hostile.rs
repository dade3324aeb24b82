//! Schemas and values that are made to exhaust the validator.

use serde_json::{Map, Value, json};

use super::errors;
use super::problem_of;
use crate::output::schema::{Schema, Work};

const COMPLEX: &str = "the value is too complex to check";

#[test]
fn endless_reference_is_refused() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"anyOf": [{"type": "string"}, {"not": {"$ref": "#"}}]}),
        json!({"if": {"$ref": "#/$defs/A"}, "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"oneOf": [{"$ref": "#/$defs/A"}]}}}),
        json!({"dependentSchemas": {"a": {"$ref": "#"}}}),
        json!({"$anchor": "a", "$ref": "#a"}),
    ] {
        assert!(problem_of(schema).contains("without an end"));
    }
    let list = json!({"properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]});
    assert!(errors(list, json!({"next": {"next": null}})).is_empty());
}

#[test]
fn exponential_references_are_bounded() {
    let mut definitions = Map::new();
    definitions.insert("0".to_owned(), json!({"type": "string"}));
    for n in 1..60 {
        let inner = json!({"$ref": format!("#/$defs/{}", n - 1)});
        definitions.insert(n.to_string(), json!({"not": {"anyOf": [inner, inner]}}));
    }
    let schema = json!({"$ref": "#/$defs/59", "$defs": definitions});
    let (found, work) = work_of(&schema, "1");
    assert_eq!((found, work < 20_000), (Vec::new(), true), "{work}");
}

#[test]
fn chain_of_references_is_bounded() {
    let chain = |length: usize| {
        let mut definitions = Map::new();
        for n in 0..length {
            let next = json!({"allOf": [{"$ref": format!("#/$defs/{}", n + 1)}]});
            definitions.insert(n.to_string(), next);
        }
        definitions.insert(length.to_string(), json!({"type": "string"}));
        json!({"$ref": "#/$defs/0", "$defs": definitions})
    };
    assert!(errors(chain(100), json!("a")).is_empty());
    assert_eq!(errors(chain(10_000), json!("a")), [COMPLEX]);
}

#[test]
fn deepest_json_is_checked() {
    let node = json!({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Node"}]});
    let node = json!({"type": "object", "properties": {"next": node}, "additionalProperties": false});
    let schema = json!({"$ref": "#/$defs/Node", "$defs": {"Node": node}});
    let text = format!("{}null{}", "{\"next\":".repeat(126), "}".repeat(126));
    let value: Value = serde_json::from_str(&text).expect("a value");
    assert!(errors(schema, value).is_empty());
}

#[test]
fn deep_schema_is_refused() {
    let deep = (0..100).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
    assert!(Schema::compile(&deep, false).is_ok());
    let deeper = (0..300).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
    assert!(problem_of(deeper).contains("levels deep"));
}

#[test]
fn long_names_are_bounded() {
    let members: Map<String, Value> = (0..10_000).map(|n| (n.to_string(), json!({}))).collect();
    let long = "a".repeat(100_000);
    assert!(problem_of(json!({"properties": {long: {"properties": members}}})).contains("too large"));
}

#[test]
fn many_items_are_unique() {
    let schema = json!({"uniqueItems": true});
    let mut items: Vec<Value> = (0..20_000).map(|n| json!({"n": n})).collect();
    assert!(errors(schema.clone(), json!(items)).is_empty());
    items.push(json!({"n": 7.0}));
    assert_eq!(errors(schema, json!(items)), ["items at 7 and 20000 are equal"]);
}

#[test]
fn patterns_on_long_text_are_bounded() {
    let text = json!("ab".repeat(1 << 18));
    assert!(errors(json!({"pattern": "^(a|b)*$"}), text.clone()).is_empty());
    assert_eq!(errors(json!({"pattern": "^(a{0,100}|b{0,100}|c){50}$"}), text), [COMPLEX]);
}

#[test]
fn messages_of_long_values_are_short() {
    let long = "x".repeat(1 << 20);
    let choices: Vec<String> = (0..10_000).map(|n| format!("choice {n}")).collect();
    let schema = json!({"additionalProperties": {"enum": choices, "type": "string"}, "maxProperties": 1});
    let value: Map<String, Value> =
        (0..2000).map(|n| (format!("{n}{long}").chars().take(4000).collect(), json!(long))).collect();
    let found = errors(schema, Value::Object(value));
    assert!(found.len() <= 1000 && found.iter().all(|text| text.len() < 1000));
}

/// A recursive union, as pydantic writes it: each level of a value matches all its branches up to the last member.
fn recursive_union(last: &str) -> Value {
    let branch = |name: &str| {
        let properties = json!({"l": {"$ref": "#/$defs/E"}, name: {"type": "integer"}});
        json!({"type": "object", "properties": properties, "required": ["l", name]})
    };
    let branches = [branch("a"), branch("b"), branch("c"), json!({"type": "integer"})];
    json!({"$ref": "#/$defs/E", "$defs": {"E": {last: branches}}})
}

/// Returns the violations of a value, and the work of its check.
fn work_of(schema: &Value, text: &str) -> (Vec<String>, usize) {
    let (schema, mut work) = (Schema::compile(schema, false).expect("a schema"), Work::default());
    let value = serde_json::from_str(text).expect("a value");
    (schema.check(&value, &mut work).iter().map(ToString::to_string).collect(), work.spent())
}

#[test]
fn recursive_union_takes_linear_work() {
    let nested = |levels: usize, inner: &str, end: &str| {
        format!("{}{inner}{}", "{\"l\":".repeat(levels), format!("{end}}}").repeat(levels))
    };
    for union in ["anyOf", "oneOf"] {
        let schema = recursive_union(union);
        for (inner, end, is_valid) in [("\"x\"", "", false), ("\"x\"", ",\"c\":1", false), ("1", ",\"c\":1", true)] {
            let (found, short) = work_of(&schema, &nested(12, inner, end));
            assert_eq!((found.is_empty(), found == [COMPLEX]), (is_valid, false), "{union} {found:?}");
            let (_, long) = work_of(&schema, &nested(120, inner, end));
            assert!(long < 11 * short, "{union}: 12 levels {short}, 120 levels {long}");
        }
        // A union within allOf, whose members are valid on one side only.
        let both = json!({"$ref": "#/$defs/E", "$defs": {"E": {
            "properties": {"l": {"allOf": [{union: [{"$ref": "#/$defs/E"}, {"type": "string", "minLength": 9}]}, {"$ref": "#/$defs/E"}]}},
            "required": ["z"]}}});
        let (_, short) = work_of(&both, &nested(12, "\"x\"", ""));
        let (found, long) = work_of(&both, &nested(120, "\"x\"", ""));
        assert!(long < 11 * short && found[0].starts_with("missing properties 'z'"), "{short} {long} {found:?}");
    }
}

#[test]
fn names_are_checked_apart() {
    let schema = json!({"propertyNames": {"anyOf": [{"allOf": [{"maxLength": 1}]}, {"const": "long"}]}});
    let value: Map<String, Value> = (b'a'..=b'z').map(|name| (char::from(name).to_string(), json!(1))).collect();
    assert!(errors(schema.clone(), Value::Object(value)).is_empty());
    let found = errors(schema, json!({"a": 1, "bb": 1, "c": 1, "dd": 1, "long": 1}));
    assert_eq!(found.iter().filter(|text| text.contains("'bb'")).count(), found.len() / 2, "{found:?}");
}

#[test]
fn violations_of_a_part_are_found_in_each_place() {
    // The first use of A is silent, the second one is not.
    let schema = json!({"$defs": {"A": {"allOf": [{"required": ["x"]}]}},
        "allOf": [{"not": {"$ref": "#/$defs/A"}}, {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "object"}]}, {"$ref": "#/$defs/A"}]});
    assert_eq!(errors(schema, json!({})), ["missing properties 'x'"]);
}

#[test]
fn values_of_one_answer_share_the_work() {
    let schema = Schema::compile(&recursive_union("anyOf"), false).expect("a schema");
    let (value, mut work) = (json!({"l": {"l": "x"}}), Work::default());
    let checks = (0..100_000).take_while(|_| schema.check(&value, &mut work)[0].message != COMPLEX).count();
    assert!((1_000..100_000).contains(&checks), "{checks}");
}
