//! Schemas and values that are made to exhaust the validator.

use serde_json::{Map, Value, json};

use super::errors;
use super::problem_of;
use crate::output::schema::Schema;

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
    assert_eq!(errors(schema, json!(1)), [COMPLEX]);
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
    let mut items: Vec<Value> = (0..100_000).map(|n| json!({"n": n})).collect();
    assert!(errors(schema.clone(), json!(items)).is_empty());
    items.push(json!({"n": 7.0}));
    assert_eq!(errors(schema, json!(items)), ["items at 7 and 100000 are equal"]);
}

#[test]
fn patterns_on_long_text_are_bounded() {
    let text = json!("ab".repeat(1 << 20));
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
