//! Schemas and values in the ways of programs.

use serde_json::json;

use super::*;

mod differential;
mod hostile;
mod keywords;
mod suite;

fn problem_of(schema: Value) -> String {
    Schema::compile(&schema, false).expect_err("a problem")
}

fn errors(schema: Value, value: Value) -> Vec<String> {
    let schema = Schema::compile(&schema, false).expect("a schema");
    schema.check(&value, &mut Work::default()).iter().map(ToString::to_string).collect()
}

#[test]
fn unknown_pattern_is_left_to_program() {
    // pydantic writes this one for a `Decimal`.
    let decimal =
        json!({"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}]});
    let schema = json!({"type": "object", "properties": {
        "a": {"$ref": "#/$defs/Amount"}, "c": {"type": "string", "pattern": "^[A-Z]{3}$"},
    }, "$defs": {"Amount": decimal}});
    assert!(problem_of(schema.clone()).contains("at `/$defs/Amount/anyOf/1/pattern`"));
    let schema = Schema::compile(&schema, true).expect("a schema");
    assert!(schema.check(&json!({"a": "19.90", "c": "EUR"}), &mut Work::default()).is_empty());
    assert_eq!(schema.check(&json!({"c": "euro"}), &mut Work::default())[0].pointer, "/c");
}

#[test]
fn violation_has_json_pointer() {
    let schema = json!({
        "type": "object",
        "properties": {"a/b": {"type": "array", "items": {"type": "integer"}}, "id": {"type": "string"}},
        "required": ["id"],
    });
    let found = errors(schema.clone(), json!({"a/b": [1, "x", 2.5]}));
    assert_eq!(
        found,
        ["missing properties 'id'", "/a~1b/1: want integer, but got string", "/a~1b/2: want integer, but got number"]
    );
    assert!(errors(schema, json!({"id": "1"})).is_empty());
}

#[test]
fn draft_follows_schema_keyword() {
    // In draft 7 the siblings of `$ref` are ignored.
    let schema = |draft: &str| json!({"$schema": draft, "definitions": {"A": {}}, "properties": {"x": {"$ref": "#/definitions/A", "type": "string"}}});
    assert!(errors(schema("http://json-schema.org/draft-07/schema#"), json!({"x": 1})).is_empty());
    assert_eq!(errors(schema("https://json-schema.org/draft/2020-12/schema"), json!({"x": 1})).len(), 1);
    assert_eq!(errors(json!({"$defs": {"A": {}}, "$ref": "#/$defs/A", "type": "string"}), json!(1)).len(), 1);
}

#[test]
fn recursive_schema_is_followed() {
    let node = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
        "required": ["name"],
    });
    let schema = json!({"$ref": "#/$defs/Node", "$defs": {"Node": node}});
    assert!(errors(schema.clone(), json!({"name": "a", "children": [{"name": "b"}]})).is_empty());
    let found = errors(schema, json!({"name": "a", "children": [{"children": []}]}));
    assert_eq!(found, ["/children/0: missing properties 'name'"]);
    assert!(problem_of(json!({"$ref": "#"})).contains("without an end"));
}

#[test]
fn foreign_reference_is_refused() {
    for target in ["https://example.com/item.json", "file:///etc/passwd", "item.json#/a", "urn:x:y"] {
        let problem = problem_of(json!({"properties": {"a": {"items": {"$ref": target}}}}));
        let expected = format!("refers to {target:?} at `/properties/a/items/$ref`");
        assert!(problem.contains(&expected), "{problem}");
    }
    let problem = problem_of(json!({"$schema": "https://example.com/meta"}));
    assert!(problem.contains("\"https://example.com/meta\" at `/$schema`"), "{problem}");
}

#[test]
fn wrong_schema_names_place() {
    for (schema, part) in [
        (json!([]), "expected an object"),
        (json!(true), "expected an object"),
        (json!({"properties": {"a": {"type": "text"}}}), "at `/properties/a/type`"),
        (json!({"required": "a"}), "at `/required`: want array, but got string"),
        (json!({"$ref": "#/$defs/None"}), "/$defs/None"),
        (
            json!({"properties": {"a": {"pattern": "(?=x)"}}}),
            "at `/properties/a/pattern` of the schema cannot be used: look-around",
        ),
        (json!({"patternProperties": {"(?<!a)b": {}}}), "at `/patternProperties`"),
    ] {
        let problem = problem_of(schema);
        assert!(problem.contains(part) && !problem.contains("output.invalid"), "{problem}");
    }
}

#[test]
fn large_value_is_checked() {
    let items: Vec<Value> = (0..50_000).map(|n| json!({"n": n, "text": "0123456789012345678901234567"})).collect();
    let item = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let schema = Schema::compile(&json!({"type": "array", "items": item}), false).expect("a schema");
    assert!(schema.check(&Value::Array(items), &mut Work::default()).is_empty());
    let wrong = schema.check(&json!(vec![1; 50_000]), &mut Work::default());
    assert!(wrong.len() <= 1000);
}
