//! Each keyword with a valid and an invalid value, against the crate boon and with the message.

use serde_json::{Value, json};

use super::differential::Reference;
use super::problem_of;
use crate::output::schema::{Schema, Work};

const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

/// Checks a table: the schema, a valid value, an invalid value, and its violations.
fn check(cases: Value) {
    for case in cases.as_array().expect("cases") {
        let [schema, valid, invalid, expected] = case.as_array().expect("a case").as_slice() else {
            panic!("a case has four parts: {case}")
        };
        let compiled = Schema::compile(schema, false).unwrap_or_else(|problem| panic!("{schema}: {problem}"));
        assert_eq!(compiled.check(valid, &mut Work::default()), [], "{case}");
        let found: Vec<_> = compiled.check(invalid, &mut Work::default()).iter().map(ToString::to_string).collect();
        assert_eq!(json!(found), *expected, "{case}");
        let reference = Reference::new(schema).expect("a schema");
        assert!(reference.is_valid(valid) && !reference.is_valid(invalid), "{case}");
    }
}

#[test]
fn keywords_of_scalars() {
    check(json!([
        [{"type": "integer"}, 1.0, 1.5, ["want integer, but got number"]],
        [{"type": ["string", "null"]}, null, 1, ["want null or string, but got number"]],
        [{"type": "number"}, 1, "1", ["want number, but got string"]],
        [{"type": "boolean"}, false, 0, ["want boolean, but got number"]],
        [{"enum": [1, "a"]}, 1.0, "b", ["value must be one of 1, 'a'"]],
        [{"enum": [[1], {}]}, [1.0], [2], ["enum failed"]],
        [{"const": "it's"}, "it's", 1, ["value must be 'it\\'s'"]],
        [{"const": {"a": 1, "b": 2}}, {"b": 2.0, "a": 1}, {"a": 1}, ["const failed"]],
        [{"const": false}, false, 0, ["value must be false"]],
        [{"const": -0.0}, 0, 1, ["value must be -0.0"]],
        [{"minimum": 1.5}, 2, 1, ["must be >=1.5, but got 1"]],
        [{"maximum": 1}, 1.0, 1.5, ["must be <=1, but got 1.5"]],
        [{"exclusiveMinimum": 1}, 1.5, 1.0, ["must be > 1 but got 1.0"]],
        [{"exclusiveMaximum": 1}, "text", 1, ["must be < 1 but got 1"]],
        [{"multipleOf": 0.5}, 2.5, 2.2, ["2.2 is not multipleOf 0.5"]],
        [{"minLength": 2}, "éé", "é", ["length must be >=2, but got 1"]],
        [{"maxLength": 2.0}, "😀😀", "abc", ["length must be <=2, but got 3"]],
        [{"pattern": "b+$"}, "abb", "a'", ["'a\\'' does not match pattern 'b+$'"]],
    ]));
}

#[test]
fn keywords_of_arrays() {
    check(json!([
        [{"items": {"type": "null"}}, [null], [1, null, 2], ["/0: want null, but got number", "/2: want null, but got number"]],
        [{"prefixItems": [{"type": "null"}], "items": false}, [null], [null, 1], ["/1: false schema"]],
        [{"$schema": DRAFT_7, "items": [{"type": "null"}], "additionalItems": {"type": "string"}}, [null, "a"], [1, 2],
            ["/0: want null, but got number", "/1: want string, but got number"]],
        [{"$schema": DRAFT_7, "items": {"type": "null"}, "additionalItems": false}, [null, null], ["a"],
            ["/0: want null, but got string"]],
        [{"contains": {"type": "null"}}, [1, null], [1], ["no items match contains schema"]],
        [{"contains": {"type": "null"}, "minContains": 2}, [null, null], [1, null],
            ["minimum 2 items required to match contains schema, but found 1 items at 1"]],
        [{"contains": {"type": "null"}, "minContains": 0, "maxContains": 1}, [], [null, 1, null],
            ["maximum 1 items required to match contains schema, but found 2 items at 0, 2"]],
        [{"minItems": 1}, [1], [], ["minimum 1 items required, but got 0 items"]],
        [{"maxItems": 1}, [1], [1, 2], ["maximum 1 items required, but got 2 items"]],
        [{"uniqueItems": true}, [1, "1", [1], {"a": 1}], [{"a": 1, "b": 2}, 3, {"b": 2, "a": 1.0}],
            ["items at 0 and 2 are equal"]],
        [{"prefixItems": [true], "unevaluatedItems": {"type": "null"}}, [1, null], [1, 2], ["/1: want null, but got number"]],
        [{"contains": {"const": 1}, "unevaluatedItems": false}, [1, 1], [1, 2], ["/1: false schema"]],
    ]));
}

#[test]
fn keywords_of_objects() {
    check(json!([
        [{"properties": {"a/~": {"type": "null"}}}, {"b": 1}, {"a/~": 1}, ["/a~1~0: want null, but got number"]],
        [{"patternProperties": {"^a": {"type": "null"}}}, {"b": 1}, {"ab": 1}, ["/ab: want null, but got number"]],
        [{"properties": {"a": true}, "patternProperties": {"^b": true}, "additionalProperties": false}, {"a": 1, "b": 1},
            {"a": 1, "c": 1, "d": 1}, ["additionalProperties 'c', 'd' not allowed"]],
        [{"additionalProperties": {"type": "null"}}, {"a": null}, {"a": 1}, ["/a: want null, but got number"]],
        [{"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}, ["invalid property 'ab': length must be <=1, but got 2"]],
        [{"required": ["a", "b"]}, {"a": 1, "b": 1}, {"c": 1}, ["missing properties 'a', 'b'"]],
        [{"minProperties": 1}, {"a": 1}, {}, ["minimum 1 properties required, but got 0 properties"]],
        [{"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 1}, ["maximum 1 properties required, but got 2 properties"]],
        [{"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}, ["properties 'b' required, if 'a' property exists"]],
        [{"dependentSchemas": {"a": {"required": ["b"]}}}, {"b": 1}, {"a": 1}, ["missing properties 'b'"]],
        [{"$schema": DRAFT_7, "dependencies": {"a": ["b"], "c": {"maxProperties": 1}}}, {"b": 1, "a": 1}, {"a": 1, "c": 1},
            ["properties 'b' required, if 'a' property exists", "maximum 1 properties required, but got 2 properties"]],
        [{"properties": {"a": true}, "anyOf": [{"properties": {"b": true}, "required": ["b"]}, true],
            "unevaluatedProperties": false}, {"a": 1, "b": 1}, {"a": 1, "c": 1}, ["/c: false schema"]],
        [{"allOf": [{"$ref": "#/$defs/A"}], "unevaluatedProperties": {"type": "null"}, "$defs": {"A": {"properties": {"a": true}}}},
            {"a": 1, "b": null}, {"b": 1}, ["/b: want null, but got number"]],
    ]));
}

#[test]
fn keywords_that_combine() {
    check(json!([
        [{"allOf": [{"type": "number"}, {"minimum": 2}]}, 2, 1, ["must be >=2, but got 1"]],
        [{"anyOf": [{"type": "null"}, {"type": "string"}]}, "a", 1, ["want null, but got number", "want string, but got number"]],
        [{"oneOf": [{"type": "null"}, {"type": "string"}]}, "a", 1, ["want null, but got number", "want string, but got number"]],
        [{"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 1, 3, ["oneOf failed, subschemas 0, 1 matched"]],
        [{"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 2}]}, 2, 1, ["must be >=2, but got 1"]],
        [{"anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]}, {"a": 1}, {"b": 1}, ["missing properties 'a'", "missing properties 'c'"]],
        [{"anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]}, {"a": 1}, {}, ["missing properties 'a'"]],
        [{"not": {"type": "null"}}, 1, null, ["not failed"]],
        [{"if": {"type": "null"}, "then": true, "else": {"minimum": 2}}, null, 1, ["must be >=2, but got 1"]],
        [{"if": {"type": "integer"}, "then": {"minimum": 2}}, 1.5, 1, ["must be >=2, but got 1"]],
        [{"properties": {"a": false}}, {}, {"a": 1}, ["/a: false schema"]],
        [{"$ref": "#/$defs/a~1b%25", "maximum": 3, "$defs": {"a/b%": {"minimum": 2}}}, 2, 1, ["must be >=2, but got 1"]],
        [{"$ref": "#/$defs/a", "maximum": 1, "$defs": {"a": {"minimum": 2}}}, "x", 1.5,
            ["must be >=2, but got 1.5", "must be <=1, but got 1.5"]],
        [{"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "null"}}}, null, 1, ["want null, but got number"]],
        [{"$ref": "#here", "$defs": {"a": {"$dynamicAnchor": "here", "type": "null"}}}, null, 1, ["want null, but got number"]],
        [{"$schema": DRAFT_7, "$ref": "#here", "type": "string", "definitions": {"a": {"$id": "#here", "type": "null"}}}, null, "a",
            ["want null, but got string"]],
        [{"$id": "https://example.com/a", "properties": {"a": {"$ref": "https://example.com/a#/$defs/b"}}, "$defs": {"b": false}},
            {}, {"a": 1}, ["/a: false schema"]],
        [{"$id": "Node", "properties": {"next": {"$ref": "Node"}}, "required": ["n"]}, {"n": 1}, {"n": 1, "next": {}},
            ["/next: missing properties 'n'"]],
        [{"unknown": {"type": 5}, "x": 1, "type": "null"}, null, 1, ["want null, but got number"]],
    ]));
}

#[test]
fn numbers_are_compared_exactly() {
    for (schema, valid, invalid) in [
        (json!({"multipleOf": 0.01}), json!([19.99, 0.07, 4.35, 1e22, 5]), json!([0.001, 19.999])),
        (json!({"multipleOf": 0.1}), json!([0.3, 1.1, -0.7]), json!([0.35])),
        (json!({"multipleOf": 3}), json!([9_007_199_254_740_993_u64, 1e300]), json!([9_007_199_254_740_994_u64])),
        (
            json!({"maximum": 9_007_199_254_740_992_u64}),
            json!([9_007_199_254_740_992.0]),
            json!([9_007_199_254_740_993_u64]),
        ),
        (json!({"const": u64::MAX}), json!([u64::MAX]), json!([u64::MAX - 1, 18_446_744_073_709_551_616.0, -1])),
        (json!({"minimum": -1e300}), json!([i64::MIN, 0.5]), json!([-1.1e300])),
    ] {
        let compiled = Schema::compile(&schema, false).expect("a schema");
        let check = |value: &Value| compiled.check(value, &mut Work::default()).is_empty();
        assert!(valid.as_array().expect("values").iter().all(check), "{schema}");
        assert!(!invalid.as_array().expect("values").iter().any(check), "{schema}");
    }
}

#[test]
fn wrong_keywords_are_refused() {
    for (schema, part) in [
        (json!({"type": []}), "at `/type`: minimum 1 items"),
        (json!({"type": ["string", "text"]}), "at `/type/1`: value must be one of 'array', 'boolean'"),
        (json!({"type": ["null", "null"]}), "at `/type`: items are equal: 'null'"),
        (json!({"enum": 1}), "at `/enum`: want array, but got number"),
        (json!({"minimum": "1"}), "at `/minimum`: want number, but got string"),
        (json!({"exclusiveMinimum": true}), "at `/exclusiveMinimum`: want number, but got boolean"),
        (json!({"multipleOf": 0}), "at `/multipleOf`: must be > 0 but got 0"),
        (json!({"minLength": -1}), "at `/minLength`: must be >=0, but got -1"),
        (json!({"maxItems": 1.5}), "at `/maxItems`: want integer, but got number"),
        (json!({"pattern": 1}), "at `/pattern`: want string, but got number"),
        (json!({"items": [{}]}), "at `/items`: want boolean or object, but got array"),
        (json!({"allOf": []}), "at `/allOf`: minimum 1 items"),
        (json!({"anyOf": {}}), "at `/anyOf`: want array, but got object"),
        (json!({"oneOf": [1]}), "at `/oneOf/0`: want boolean or object, but got number"),
        (json!({"properties": []}), "at `/properties`: want object, but got array"),
        (json!({"properties": {"a/b": "string"}}), "at `/properties/a~1b`: want boolean or object, but got string"),
        (json!({"required": [1]}), "at `/required/0`: want string, but got number"),
        (json!({"required": ["a", "a"]}), "at `/required`: items are equal: 'a'"),
        (json!({"dependentRequired": {"a": 1}}), "at `/dependentRequired/a`: want array, but got number"),
        (json!({"dependencies": {"a": 1}}), "at `/dependencies/a`: want boolean or object, but got number"),
        (json!({"uniqueItems": 1}), "at `/uniqueItems`: want boolean, but got number"),
        (json!({"title": 1}), "at `/title`: want string, but got number"),
        (json!({"$defs": {"a": {"not": 1}}}), "at `/$defs/a/not`: want boolean or object, but got number"),
        (json!({"$ref": 1}), "at `/$ref`: want string, but got number"),
        (json!({"$ref": "#/required", "required": ["a"]}), "at `/required`: want boolean or object, but got array"),
        (json!({"$schema": 1}), "at `/$schema`: want string, but got number"),
    ] {
        let problem = problem_of(schema.clone());
        assert!(problem.contains(part) && problem.starts_with("the schema is not a JSON Schema"), "{problem}");
        assert!(Reference::new(&schema).is_none(), "{schema}");
    }
}

#[test]
fn unsupported_references_are_refused() {
    for (schema, part) in [
        (json!({"properties": {"a": {"$dynamicRef": "#"}}}), "uses `$dynamicRef` at `/properties/a/$dynamicRef`"),
        (json!({"$recursiveRef": "#"}), "uses `$recursiveRef` at `/$recursiveRef`"),
        (
            json!({"items": {"$id": "b", "$ref": "#/a"}}),
            "refers to \"#/a\" at `/items/$ref`, relative to the `$id` at `/items/$id`",
        ),
        (json!({"items": {"$id": "b", "not": {"$ref": "#"}}}), "relative to the `$id` at `/items/$id`"),
        (json!({"items": {"$ref": "#/items"}}), "without an end"),
        (json!({"items": {"$ref": "#other"}}), "refers to \"#other\" at `/items/$ref`, which it does not have"),
        (json!({"items": {"$ref": "#/%zz"}}), "refers to \"#/%zz\""),
        (json!({"$id": "a/b", "items": {"$ref": "a/b"}}), "refers to \"a/b\" at `/items/$ref`"),
        (
            json!({"$schema": "http://json-schema.org/draft-04/schema#"}),
            "expected \"https://json-schema.org/draft/2020-12/schema\" or",
        ),
        (json!({"items": {"$schema": DRAFT_7}}), "at `/items/$schema`"),
        (json!({"$anchor": "a", "items": {"$anchor": "a"}}), "two anchors \"a\""),
    ] {
        let problem = problem_of(schema);
        assert!(problem.contains(part), "{problem}");
    }
}

#[test]
fn union_reports_branch_of_tag() {
    let branch = |tag: &str, field: &str, kind: &str| {
        let properties = json!({"kind": {"const": tag}, field: {"type": kind}});
        json!({"type": "object", "required": ["kind", field], "properties": properties})
    };
    let union = json!([{"$ref": "#/$defs/cat"}, branch("dog", "name", "string"), {"type": "null"}]);
    let defs = json!({"cat": branch("cat", "lives", "integer")});
    for keyword in ["anyOf", "oneOf"] {
        let schema = json!({keyword: union, "$defs": defs});
        check(json!([
            [schema, {"kind": "cat", "lives": 9}, {"kind": "cat"}, ["missing properties 'lives'"]],
            [schema, null, {"kind": "dog", "name": 3}, ["/name: want string, but got number"]],
            [schema, null, {"kind": "cow", "name": 3}, ["/kind: value must be 'cat' or 'dog'"]],
            [schema, null, {"name": "Rex"}, ["missing properties 'kind': value must be 'cat' or 'dog'"]],
            [schema, null, "cat", ["want object, but got string", "want null, but got string"]],
        ]));
    }
    let nested = json!({"items": {"anyOf": union}, "$defs": defs});
    check(json!([[nested, [null], [{"kind": "cow"}], ["/0/kind: value must be 'cat' or 'dog'"]]]));
}

#[test]
fn unread_pattern_decides_nothing() {
    let unread = json!({"pattern": "(?=a)"});
    for schema in [
        json!({"not": unread}),
        json!({"oneOf": [unread, {"type": "string"}]}),
        json!({"if": unread, "then": false, "else": false}),
        json!({"not": {"not": {"not": unread}}}),
    ] {
        let schema = Schema::compile(&schema, true).expect("a schema");
        assert_eq!(schema.check(&json!("a"), &mut Work::default()), []);
    }
    let names = json!({"patternProperties": {"(?=a)": false, "^b": {"type": "null"}}, "additionalProperties": false});
    let schema = Schema::compile(&names, true).expect("a schema");
    assert_eq!(schema.check(&json!({"a": 1, "b": null}), &mut Work::default()), []);
    assert_eq!(schema.check(&json!({"b": 1}), &mut Work::default()).len(), 1);
}
