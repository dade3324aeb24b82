//! JSON Schemas: the only module that knows the validator. A schema is compiled once; no file and no network is read.

use std::error::Error;
use std::fmt;

use boon::{CompileError, Compiler, Draft, ErrorKind, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde_json::Value;

use super::{MAX_MESSAGE, OutputError, shortened};

/// The address of the schema. It is never fetched; relative references are resolved against it.
const ADDRESS: &str = "https://output.invalid/schema";

/// Collects no more violations than this from one value.
const MAX_COLLECTED: usize = 1000;

/// A compiled JSON Schema of draft 2020-12, or of the draft that `$schema` names.
pub(super) struct Schema {
    compiled: Schemas,
    index: SchemaIndex,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

/// Refuses every schema that is not part of the given one.
struct Local;

impl UrlLoader for Local {
    fn load(&self, _url: &str) -> Result<Value, Box<dyn Error>> {
        Err("only references within the schema are allowed".into())
    }
}

/// Why a schema cannot be compiled.
enum Problem {
    /// The validator does not read this pattern.
    Pattern {
        regex: String,
        pointer: String,
        reason: String,
    },
    Other(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { regex, pointer, reason } => {
                write!(f, "the pattern {regex:?} at `{pointer}` of the schema cannot be used: {reason}")
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Schema {
    /// Compiles a schema. With `skips_patterns`, a `pattern` that the validator does not read, such as one with look-around,
    /// is not checked.
    ///
    /// # Errors
    /// Returns the problem of the schema, with the place in it.
    pub(super) fn compile(schema: &Value, skips_patterns: bool) -> Result<Self, String> {
        if !schema.is_object() {
            return Err("the schema is not a JSON Schema; expected an object".to_owned());
        }
        let mut checked = schema.clone();
        loop {
            match Self::compile_all(&checked) {
                Err(Problem::Pattern { pointer, .. }) if skips_patterns && remove_pattern(&mut checked, &pointer) => {}
                compiled => return compiled.map_err(|problem| problem.to_string()),
            }
        }
    }

    fn compile_all(schema: &Value) -> Result<Self, Problem> {
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.use_loader(Box::new(Local));
        let mut compiled = Schemas::new();
        compiler.add_resource(ADDRESS, schema.clone()).map_err(|error| problem(&error, schema))?;
        let index = compiler.compile(ADDRESS, &mut compiled).map_err(|error| problem(&error, schema))?;
        Ok(Self { compiled, index })
    }

    /// Returns the violations of a value; none if it is valid.
    pub(super) fn check(&self, value: &Value) -> Vec<OutputError> {
        let mut errors = Vec::new();
        if let Err(error) = self.compiled.validate(value, self.index) {
            collect(&error, &mut errors);
        }
        errors
    }
}

/// Collects the innermost violations, in the order of the validator.
fn collect(error: &ValidationError<'_, '_>, errors: &mut Vec<OutputError>) {
    if errors.len() >= MAX_COLLECTED {
        return;
    }
    if error.causes.is_empty() {
        let message = shortened(&error.kind.to_string(), MAX_MESSAGE);
        let found = OutputError::new(error.instance_location.to_string(), message);
        if !errors.contains(&found) {
            errors.push(found);
        }
    }
    error.causes.iter().for_each(|cause| collect(cause, errors));
}

/// Removes the keyword `pattern` at this place. Returns whether it was there.
fn remove_pattern(schema: &mut Value, pointer: &str) -> bool {
    let Some(parent) = pointer.strip_suffix("/pattern") else { return false };
    let object = schema.pointer_mut(parent).and_then(Value::as_object_mut);
    object.is_some_and(|object| object.remove("pattern").is_some())
}

/// Describes why a schema cannot be compiled.
fn problem(error: &CompileError, schema: &Value) -> Problem {
    let text = match error {
        CompileError::LoadUrlError { url, .. } => match foreign_reference(schema, url) {
            Some((pointer, target)) => format!(
                "the schema refers to {:?} at `{pointer}`; expected references within the schema, such as `#/$defs/Item`",
                shortened(&target, MAX_MESSAGE)
            ),
            None => format!("the schema refers to {:?}, which is not part of it", shortened(url, MAX_MESSAGE)),
        },
        CompileError::ValidationError { src, .. } => return wrong_schema(innermost(src), schema),
        CompileError::InvalidRegex { url, regex, src } => {
            let pointer = url.split_once('#').map_or("", |(_, pointer)| pointer);
            return wrong_pattern(regex, pointer, &src.to_string());
        }
        other => {
            let text = format!("{other:#}").replace(ADDRESS, "");
            format!("the schema cannot be used: {}", shortened(&text, MAX_MESSAGE))
        }
    };
    Problem::Other(text)
}

fn innermost<'e, 's, 'v>(error: &'e ValidationError<'s, 'v>) -> &'e ValidationError<'s, 'v> {
    error.causes.first().map_or(error, innermost)
}

/// Describes a violation of the rules for schemas.
fn wrong_schema(error: &ValidationError<'_, '_>, schema: &Value) -> Problem {
    let pointer = error.instance_location.to_string();
    if let ErrorKind::Format { got, want: "regex", err } = &error.kind
        && let Some(regex) = got.as_str()
    {
        // The name of a property is reported at the place of its object.
        let is_name = !schema.pointer(&pointer).is_some_and(Value::is_string);
        let named = if is_name { place_of_pattern(schema, regex, String::new()) } else { None };
        return wrong_pattern(regex, &named.unwrap_or(pointer), &err.to_string());
    }
    let message = shortened(&error.kind.to_string(), MAX_MESSAGE);
    let place = if pointer.is_empty() { String::new() } else { format!("at `{pointer}`: ") };
    Problem::Other(format!("the schema is not a JSON Schema: {place}{message}"))
}

fn wrong_pattern(regex: &str, pointer: &str, reason: &str) -> Problem {
    // The reason has several lines, with the cause in the last.
    let reason = reason.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
    Problem::Pattern { regex: shortened(regex, MAX_MESSAGE), pointer: pointer.to_owned(), reason: reason.to_owned() }
}

/// Returns the place of the `patternProperties` with this pattern.
fn place_of_pattern(schema: &Value, regex: &str, pointer: String) -> Option<String> {
    let map = schema.as_object()?;
    if map.get("patternProperties").is_some_and(|patterns| patterns.get(regex).is_some()) {
        return Some(format!("{pointer}/patternProperties"));
    }
    map.iter().find_map(|(key, value)| place_of_pattern(value, regex, format!("{pointer}/{}", escaped(key))))
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns the place and the target of the reference that led to this address.
fn foreign_reference(schema: &Value, address: &str) -> Option<(String, String)> {
    let mut found = Vec::new();
    references(schema, String::new(), &mut found);
    let is_meant = |target: &str| address.ends_with(target.split('#').next().unwrap_or(target));
    let at = found.iter().position(|(_, target)| is_meant(target)).unwrap_or(0);
    (at < found.len()).then(|| found.swap_remove(at))
}

/// Collects the references that do not begin with `#`.
fn references(schema: &Value, pointer: String, found: &mut Vec<(String, String)>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                let inner = format!("{pointer}/{}", escaped(key));
                match value {
                    Value::String(target) if key == "$ref" || key == "$dynamicRef" || key == "$schema" => {
                        if !target.starts_with('#') {
                            found.push((inner, target.clone()));
                        }
                    }
                    value => references(value, inner, found),
                }
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| references(item, format!("{pointer}/{n}"), found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem_of(schema: Value) -> String {
        Schema::compile(&schema, false).expect_err("a problem")
    }

    fn errors(schema: Value, value: Value) -> Vec<String> {
        let schema = Schema::compile(&schema, false).expect("a schema");
        schema.check(&value).iter().map(ToString::to_string).collect()
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
        assert!(schema.check(&json!({"a": "19.90", "c": "EUR"})).is_empty());
        assert_eq!(schema.check(&json!({"c": "euro"}))[0].pointer, "/c");
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
            [
                "missing properties 'id'",
                "/a~1b/1: want integer, but got string",
                "/a~1b/2: want integer, but got number"
            ]
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
        assert_eq!(errors(json!({"$ref": "#"}), json!(1)).len(), 1);
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
        let items: Vec<Value> = (0..200_000).map(|n| json!({"n": n, "text": "0123456789012345678901234567"})).collect();
        let item = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let schema = Schema::compile(&json!({"type": "array", "items": item}), false).expect("a schema");
        assert!(schema.check(&Value::Array(items)).is_empty());
        let wrong = schema.check(&json!(vec![1; 100_000]));
        assert!(wrong.len() <= MAX_COLLECTED);
    }
}
