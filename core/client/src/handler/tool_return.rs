//! The values that a tool may return.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::answers::HandlerError;
use crate::messages::{Content, ContentPart, DisplayBlock, ToolReturnValue};

/// The result of a tool's handler: text, content parts, a [`ToolReturnValue`], or a value that is serialized, which the
/// model reads as JSON.
///
/// # Examples
/// ```
/// use kimi_agent::IntoToolReturn;
/// let result = "It is noon.".into_tool_return()?;
/// assert!(!result.is_error);
/// # Ok::<(), kimi_agent::HandlerError>(())
/// ```
///
/// A struct is wrapped in [`AsJson`]. Without it, the program does not compile:
/// ```compile_fail,E0277
/// use kimi_agent::IntoToolReturn;
/// #[derive(serde::Serialize)]
/// struct Time {
///     hour: u8,
/// }
/// let result = Time { hour: 12 }.into_tool_return();
/// ```
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "this handler returns `{Self}`",
    note = "return text, a number, a `serde_json::Value` or a `ToolReturnValue`; wrap a value that implements `Serialize` in \
            `kimi_agent::AsJson`: `Ok(AsJson(value))`"
)]
pub trait IntoToolReturn: Send {
    /// Converts the value to the result of the tool.
    ///
    /// # Errors
    /// Returns the error of a value that cannot be serialized to JSON.
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError>;
}

impl IntoToolReturn for ToolReturnValue {
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
        Ok(self)
    }
}

impl IntoToolReturn for Content {
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
        Ok(ToolReturnValue::ok(self))
    }
}

impl IntoToolReturn for Vec<ContentPart> {
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
        Ok(ToolReturnValue::ok(self))
    }
}

impl IntoToolReturn for ContentPart {
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
        Ok(ToolReturnValue::ok(self))
    }
}

impl IntoToolReturn for String {
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
        Ok(ToolReturnValue::ok(self))
    }
}

impl IntoToolReturn for &str {
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
        Ok(ToolReturnValue::ok(self))
    }
}

impl IntoToolReturn for () {
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
        Ok(ToolReturnValue::ok(""))
    }
}

macro_rules! json_tool_return {
    ($($ty:ty),*) => {$(
        impl IntoToolReturn for $ty {
            fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
                Ok(ToolReturnValue::ok(serde_json::to_string(&self)?))
            }
        }
    )*};
}

json_tool_return!(bool, i32, i64, u32, u64, usize, f32, f64, Map<String, Value>);

/// JSON as a tool's result: text stays text, an object with the fields of a `ToolReturnValue` becomes one, and any
/// other value becomes JSON text for the model.
impl IntoToolReturn for Value {
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
        match self {
            Value::Null => Ok(ToolReturnValue::ok("")),
            Value::String(text) => Ok(ToolReturnValue::ok(text)),
            Value::Object(ref map) if map.contains_key("is_error") && map.contains_key("output") => {
                let mut map = map.clone();
                map.entry("message").or_insert_with(|| Value::String(String::new()));
                let value: ToolReturnValue = serde_path_to_error::deserialize(Value::Object(map))
                    .map_err(|error| format!("the handler returned an invalid ToolReturnValue: {error}"))?;
                // An agent's message may have parts that can't be read. The program's own result may not.
                let parts = match &value.output {
                    Content::Parts(parts) => parts.as_slice(),
                    Content::Text(_) => &[],
                };
                let wrong = parts.iter().position(ContentPart::is_unreadable).map(|at| ("output", at));
                let wrong = wrong
                    .or_else(|| value.display.iter().position(DisplayBlock::is_unreadable).map(|at| ("display", at)));
                match wrong {
                    Some((field, at)) => Err(format!(
                        "the handler returned an invalid ToolReturnValue: {field}[{at}] lacks a field of its type, or has a \
                         wrong one"
                    )
                    .into()),
                    None => Ok(value),
                }
            }
            Value::Array(ref items) if items.iter().any(is_content_part) => match mixed_content(items)? {
                Some(parts) => Ok(ToolReturnValue::ok(parts)),
                None => Ok(ToolReturnValue::ok(serde_json::to_string(&self)?)),
            },
            ref part if is_media_part(part) => Ok(ToolReturnValue::ok(serde_json::from_value::<ContentPart>(self)?)),
            other => Ok(ToolReturnValue::ok(serde_json::to_string(&other)?)),
        }
    }
}

/// Returns whether JSON is a content part with an image, audio or video.
fn is_media_part(value: &Value) -> bool {
    let Some(kind) = value["type"].as_str() else { return false };
    matches!(kind, "image_url" | "audio_url" | "video_url") && value[kind]["url"].is_string()
}

/// Returns whether JSON is a content part.
fn is_content_part(value: &Value) -> bool {
    is_media_part(value) || ["text", "think"].iter().any(|kind| value["type"] == *kind && value[*kind].is_string())
}

/// Converts a list of text and content parts, as `prompt()` accepts it. `None` for JSON that only resembles one. A list
/// with an image, audio or video is always content: its data must not be sent as JSON text.
fn mixed_content(items: &[Value]) -> Result<Option<Vec<ContentPart>>, HandlerError> {
    let other = items.iter().position(|item| !item.is_string() && !is_content_part(item));
    if let Some(at) = other {
        if !items.iter().any(is_media_part) {
            return Ok(None);
        }
        let kind = match &items[at] {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Array(_) => "a list",
            _ => "an object that is not a content part",
        };
        return Err(format!(
            "the handler returned a list with content parts whose item {at} is {kind}: expected text and content parts only"
        )
        .into());
    }
    let part = |item: &Value| match item {
        Value::String(text) => Ok(ContentPart::text(text)),
        part => serde_json::from_value(part.clone()).map_err(HandlerError::from),
    };
    items.iter().map(part).collect::<Result<_, _>>().map(Some)
}

/// A serializable value as the result of a tool. The model reads it as JSON.
///
/// # Examples
/// ```
/// use kimi_agent::{AsJson, ExternalTool};
///
/// #[derive(serde::Serialize)]
/// struct Time {
///     hour: u8,
/// }
///
/// let schema = serde_json::json!({"type": "object"});
/// let tool = ExternalTool::new("now", "Returns the time", schema, |_| async { Ok(AsJson(Time { hour: 12 })) });
/// # drop(tool);
/// ```
#[derive(Clone, Debug)]
pub struct AsJson<T>(pub T);

impl<T: Serialize + Send> IntoToolReturn for AsJson<T> {
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
        serde_json::to_value(self.0)?.into_tool_return()
    }
}
