//! An option that was checked: its schema is compiled, and the tool for the model is made.

use serde_json::{Map, Value, json};

use super::error::limited;
use super::extract::{candidates, has_many_parts, unwrapped};
use super::schema::{Schema, TOO_COMPLEX, Work};
use super::{OutputError, OutputSpec};
use crate::dialect::ToolOffer;
use crate::json::parsed;

/// The property with the value of a schema that is not of an object.
const WRAPPER: &str = "result";
/// The keywords whose values are not schemas: references in them mean nothing.
const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// A checked option `output`.
#[derive(Debug)]
pub struct OutputPlan {
    spec: OutputSpec,
    schema: Schema,
    /// Whether the tool takes the value in an object, because the schema allows other values.
    is_wrapped: bool,
}

impl OutputPlan {
    /// Checks an option.
    ///
    /// # Errors
    /// Returns the problem of the schema, with the place in it.
    pub fn new(spec: &OutputSpec) -> Result<Self, String> {
        let schema = Schema::compile(&spec.schema, spec.is_checked)?;
        let is_wrapped = spec.schema.get("type").is_none_or(|kind| kind != "object");
        Ok(Self { spec: spec.clone(), schema, is_wrapped })
    }

    /// Returns the option.
    pub fn spec(&self) -> &OutputSpec {
        &self.spec
    }

    /// Returns whether two options mean the same tool.
    pub fn has_same_tool(&self, other: &Self) -> bool {
        self.spec.name == other.spec.name && self.spec.schema == other.spec.schema
    }

    /// Returns the tool that takes the value.
    pub fn tool(&self) -> ToolOffer {
        let mut description =
            "Returns the final result of the task. Call this tool when the task is done, with the complete \
                               result as its arguments."
                .to_owned();
        if let Some(of_program) = &self.spec.description {
            description = format!("{description}\n\n{of_program}");
        }
        let parameters = if self.is_wrapped { wrapped(&self.spec.schema) } else { self.spec.schema.clone() };
        ToolOffer { name: self.spec.name.clone(), description, parameters }
    }

    /// Returns the first violations of a value, with their texts shortened. None for a value that matches the schema.
    pub fn violations(&self, value: &Value) -> Vec<OutputError> {
        limited(self.schema.check(value, &mut Work::default())).0
    }

    /// Returns the value in the arguments of a call.
    ///
    /// # Errors
    /// Returns the violations.
    pub(super) fn read_call(&self, arguments: Option<&str>) -> Result<Value, Vec<OutputError>> {
        let arguments = arguments.filter(|text| !text.is_empty()).unwrap_or("{}");
        if has_many_parts(arguments) {
            return Err(vec![OutputError::new("", TOO_COMPLEX)]);
        }
        let given = parsed(arguments)
            .map_err(|error| vec![OutputError::new("", format!("the arguments are not valid JSON: {error}"))])?;
        // The wrapper of the tool is removed first: a permissive schema would accept it, too.
        let inner = given.as_object().filter(|map| self.is_wrapped && map.len() == 1).and_then(|map| map.get(WRAPPER));
        let work = &mut Work::default();
        let inner = inner.filter(|inner| self.schema.check(inner, work).is_empty());
        if let Some(value) = inner.cloned().or_else(|| self.valid(&given, work)) {
            return Ok(value);
        }
        if !self.is_wrapped {
            return Err(self.schema.check(&given, work));
        }
        let Some(inner) = given.get(WRAPPER) else {
            return Err(vec![OutputError::new("", format!("missing properties '{WRAPPER}'"))]);
        };
        let mut errors = self.schema.check(inner, work);
        // The model knows only the arguments of the tool.
        errors.iter_mut().for_each(|error| error.pointer.insert_str(0, "/result"));
        Err(errors)
    }

    /// Returns the value in the text of an answer.
    ///
    /// # Errors
    /// Returns the violations of the first value in it, or says that the text has no value.
    pub(super) fn read_text(&self, text: &str) -> Result<Value, Vec<OutputError>> {
        let mut errors = None;
        let work = &mut Work::default();
        for candidate in candidates(text) {
            if let Some(value) = self.valid(&candidate, work) {
                return Ok(value);
            }
            if work.is_exhausted() {
                return Err(vec![OutputError::new("", TOO_COMPLEX)]);
            }
            // Not the value: that of a long answer takes much more memory than its text.
            errors.get_or_insert_with(|| self.schema.check(&candidate, work));
        }
        Err(errors.unwrap_or_else(|| vec![OutputError::new("", "the answer has no complete JSON value")]))
    }

    fn valid(&self, value: &Value, work: &mut Work) -> Option<Value> {
        unwrapped(value, &mut |value| self.schema.check(value, work).is_empty())
    }
}

/// Writes violations as a list, for the model.
pub(super) fn listed(errors: &[OutputError]) -> String {
    let (errors, more) = limited(errors.to_vec());
    let mut lines: Vec<_> = errors.iter().map(|error| format!("- {error}")).collect();
    if more > 0 {
        lines.push(format!("- and {more} more"));
    }
    lines.join("\n")
}

/// Puts a schema into that of an object, because arguments of tools are objects. Its references must still be found.
fn wrapped(schema: &Value) -> Value {
    let mut inner = schema.clone();
    let mut outer = Map::new();
    outer.insert("type".to_owned(), "object".into());
    if let Value::Object(map) = &mut inner
        && let Some(draft) = map.remove("$schema")
    {
        outer.insert("$schema".to_owned(), draft);
    }
    if inner.get("$id").is_none() {
        move_references(&mut inner);
    }
    outer.insert("properties".to_owned(), json!({WRAPPER: inner}));
    outer.insert("required".to_owned(), json!([WRAPPER]));
    outer.insert("additionalProperties".to_owned(), false.into());
    Value::Object(outer)
}

fn move_references(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(target) if key == "$ref" && (target == "#" || target.starts_with("#/")) => {
                        target.insert_str(1, "/properties/result");
                    }
                    value if !DATA.contains(&key.as_str()) => move_references(value),
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(move_references),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(schema: Value) -> OutputPlan {
        OutputPlan::new(&OutputSpec::new(schema)).expect("a plan")
    }

    fn list_of_nodes() -> Value {
        json!({
            "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["id"]}},
            "type": "array",
            "items": {"$ref": "#/$defs/Node"},
        })
    }

    #[test]
    fn tool_has_schema_of_object() {
        let object = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        assert_eq!(plan(object.clone()).tool().parameters, object);
        let tool = plan(list_of_nodes()).tool();
        assert_eq!((tool.name.as_str(), &tool.parameters["type"]), ("final_result", &json!("object")));
        // The wrapped schema still finds its definitions.
        let wrapped = Schema::compile(&tool.parameters, false).expect("a schema");
        assert!(wrapped.check(&json!({"result": [{"id": 1, "next": {"id": 2}}]}), &mut Work::default()).is_empty());
        assert_eq!(
            wrapped.check(&json!({"result": [{"id": 1, "next": {}}]}), &mut Work::default())[0].pointer,
            "/result/0/next"
        );
    }

    #[test]
    fn call_of_other_schema_is_unwrapped() {
        let list = plan(list_of_nodes());
        assert_eq!(list.read_call(Some(r#"{"result": [{"id": 1}]}"#)), Ok(json!([{"id": 1}])));
        assert_eq!(list.read_call(Some(r#"{"result": "[]"}"#)), Ok(json!([])));
        let errors = list.read_call(Some(r#"{"result": [{}]}"#)).expect_err("violations");
        assert_eq!(errors, [OutputError::new("/result/0", "missing properties 'id'")]);
        assert!(list.read_call(None).expect_err("violations")[0].message.contains("'result'"));
        assert!(list.read_call(Some("{")).expect_err("violations")[0].message.contains("not valid JSON"));
        // The wrapper of the SDK is removed even if the schema accepts it.
        assert_eq!(plan(json!({})).read_call(Some(r#"{"result": {"result": 1}}"#)), Ok(json!({"result": 1})));
    }

    #[test]
    fn numbers_above_64_bits_are_rounded() {
        let whole = plan(json!({"type": "integer"}));
        for exact in ["18446744073709551615", "-9223372036854775808", "9007199254740993"] {
            assert_eq!(whole.read_text(exact).map(|value| value.to_string()), Ok(exact.to_owned()));
        }
        assert_eq!(whole.read_text("18446744073709551617"), Ok(json!(18446744073709551616.0)));
    }

    #[test]
    fn text_with_value_is_read() {
        let review = plan(json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}));
        let value = Ok(json!({"ok": true}));
        assert_eq!(review.read_text("{\"ok\": true}"), value);
        assert_eq!(plan(json!({})).read_text("{\"result\": 1}"), Ok(json!({"result": 1})));
        assert_eq!(review.read_text("```\n{\"ok\": true}\n```\nor\n```\n{\"ok\": 1}\n```"), value);
        assert_eq!(review.read_text("Here: {\"output\": {\"ok\": true}}."), value);
        assert_eq!(
            review.read_text("Done.").expect_err("no value")[0].message,
            "the answer has no complete JSON value"
        );
        assert_eq!(review.read_text("{\"ok\": 1}").expect_err("violations")[0].pointer, "/ok");
    }

    #[test]
    fn list_of_errors_is_limited() {
        let errors: Vec<_> = (0..50).map(|n| OutputError::new(format!("/{n}"), "é".repeat(1000))).collect();
        let text = listed(&errors);
        assert!(text.ends_with("\n- and 30 more") && text.len() < 20 * 400, "{}", text.len());
        assert_eq!(listed(&[OutputError::new("", "wrong")]), "- wrong");
    }
}
