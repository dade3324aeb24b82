//! The program's own functions, which the agent's requests reach: what they get, and what they may say.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::answers::{Answers, Approval, HandlerError, HookDecision, OnError};
use crate::wire::{
    ApprovalRequest, Content, ContentPart, DisplayBlock, Event, HookRequest, QuestionRequest, ToolReturnValue,
};

pub(crate) type HandlerFuture<T> = Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send>>;
type Handler<A, T> = Arc<dyn Fn(A) -> HandlerFuture<T> + Send + Sync>;

pub(crate) type ApprovalHandler = Handler<ApprovalRequest, Approval>;
pub(crate) type QuestionHandler = Handler<QuestionRequest, Option<Answers>>;
pub(crate) type ToolHandler = Handler<Value, ToolReturnValue>;
pub(crate) type HookHandler = Handler<HookRequest, HookDecision>;
pub(crate) type EventHandler = Arc<dyn Fn(Event) -> HandlerFuture<()> + Send + Sync>;
pub(crate) type StderrHandler = Arc<dyn Fn(String) + Send + Sync>;

/// Who answers requests of one kind.
#[derive(Clone, Default)]
pub(crate) enum Responder<H> {
    /// Nobody: the safe default.
    #[default]
    Unset,
    /// Whoever reads the stream.
    Manual,
    /// A function.
    Handler(H),
}

impl<H> Responder<H> {
    pub(crate) fn is_set(&self) -> bool {
        !matches!(self, Self::Unset)
    }
}

impl<H> fmt::Debug for Responder<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unset => "unset",
            Self::Manual => "manual",
            Self::Handler(_) => "handler",
        })
    }
}

/// A function that the agent asks before or after it does something (from Wire 1.8 on).
///
/// ```
/// use kimi_agent::{Hook, HookDecision};
/// let hook = Hook::new("PreToolUse", |request| async move {
///     let command = request.input_data.as_ref().and_then(|data| data["tool_input"]["command"].as_str());
///     Ok(if command.is_some_and(|command| command.contains("rm ")) {
///         HookDecision::Block("no deleting".into())
///     } else {
///         HookDecision::Allow
///     })
/// })
/// .matcher("Shell");
/// assert_eq!(hook.event(), "PreToolUse");
/// ```
#[derive(Clone)]
pub struct Hook {
    pub(crate) event: String,
    pub(crate) matcher: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_error: OnError,
    pub(crate) handler: HookHandler,
}

impl Hook {
    /// A hook on an event of the agent's, as `PreToolUse`, `PostToolUse`, `UserPromptSubmit` or `Stop`.
    pub fn new<F, R>(event: impl Into<String>, handler: F) -> Self
    where
        F: Fn(HookRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HookDecision, HandlerError>> + Send + 'static,
    {
        Self {
            event: event.into(),
            matcher: None,
            timeout: None,
            on_error: OnError::Allow,
            handler: Arc::new(move |request| Box::pin(handler(request))),
        }
    }

    /// Only for targets (tool names, for tool hooks) that this regular expression of the agent's matches.
    #[must_use]
    pub fn matcher(mut self, matcher: impl Into<String>) -> Self {
        self.matcher = Some(matcher.into());
        self
    }

    /// How long the function may take; unset, the agent's own 30 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What counts where the function fails or takes too long.
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// The event that it is on.
    pub fn event(&self) -> &str {
        &self.event
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook")
            .field("event", &self.event)
            .field("matcher", &self.matcher)
            .field("timeout", &self.timeout)
            .field("on_error", &self.on_error)
            .finish_non_exhaustive()
    }
}

/// A tool of the program's own, for the model to call (from Wire 1.1 on).
///
/// ```
/// use kimi_agent::ExternalTool;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, schemars::JsonSchema)]
/// struct Add {
///     /// The first number.
///     a: i64,
///     /// The second number.
///     b: i64,
/// }
///
/// let tool = ExternalTool::typed("add", "Adds two numbers", |args: Add| async move { Ok(args.a + args.b) });
/// assert_eq!(tool.parameters()["properties"]["a"]["type"], "integer");
/// ```
#[derive(Clone)]
pub struct ExternalTool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Value,
    pub(crate) timeout: Option<Duration>,
    pub(crate) handler: ToolHandler,
}

impl ExternalTool {
    /// A tool whose parameters are described by a JSON Schema (`{"type": "object", …}`) of the caller's.
    ///
    /// ```
    /// use kimi_agent::ExternalTool;
    /// use serde_json::json;
    /// let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    /// let tool = ExternalTool::new("greet", "Greets somebody", schema, |args| async move {
    ///     Ok(format!("Hello, {}!", args["name"].as_str().unwrap_or("you")))
    /// });
    /// assert_eq!(tool.name(), "greet");
    /// ```
    pub fn new<F, R, T>(name: impl Into<String>, description: impl Into<String>, parameters: Value, handler: F) -> Self
    where
        F: Fn(Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: IntoToolReturn,
    {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            timeout: None,
            handler: Arc::new(move |args| {
                let running = handler(args);
                Box::pin(async move { running.await?.into_tool_return() })
            }),
        }
    }

    /// A tool whose parameters are a type: its schema is derived, arguments are decoded before the function is
    /// called, and arguments that do not fit become an error that the model reads.
    pub fn typed<A, F, R, T>(name: impl Into<String>, description: impl Into<String>, handler: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(A) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: IntoToolReturn,
    {
        let mut parameters = schemars::schema_for!(A).to_value();
        if let Some(schema) = parameters.as_object_mut() {
            // Models get along without them, and some agents refuse what they do not know.
            schema.remove("$schema");
            schema.remove("title");
        }
        let handler = Arc::new(handler);
        Self::new(name, description, parameters, move |args| {
            let handler = Arc::clone(&handler);
            async move {
                let args = match serde_path_to_error::deserialize(&args) {
                    Ok(args) => args,
                    // The model's mistake, which it reads and mends; no handler has failed.
                    Err(error) => {
                        return Ok(ToolReturnValue::error(match error.path().to_string() {
                            path if path == "." => format!("invalid arguments: {}", error.inner()),
                            path => format!("invalid arguments: {path}: {}", error.inner()),
                        }));
                    }
                };
                handler(args).await?.into_tool_return()
            }
        })
    }

    /// How long the function may take before the model gets an error instead; unset, as long as the turn.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the model is told of it.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The JSON Schema of its parameters.
    pub fn parameters(&self) -> &Value {
        &self.parameters
    }
}

impl fmt::Debug for ExternalTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalTool")
            .field("name", &self.name)
            .field("description", &self.description)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// What a tool's function may return: text, content parts, a [`ToolReturnValue`], or anything that serializes, which
/// the model reads as JSON.
pub trait IntoToolReturn: Send {
    /// Turns it into what goes to the agent.
    ///
    /// # Errors
    /// What can't be written as JSON.
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

/// JSON as a tool's result: text stays text, an object that is a `ToolReturnValue` is taken as one, and anything
/// else is written out for the model to read.
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
                // What an agent sends may be unreadable in part; what the program makes may not.
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

/// Whether JSON is a content part of a type that carries an image, audio or video.
fn is_media_part(value: &Value) -> bool {
    let Some(kind) = value["type"].as_str() else { return false };
    matches!(kind, "image_url" | "audio_url" | "video_url") && value[kind]["url"].is_string()
}

/// Whether JSON is a content part.
fn is_content_part(value: &Value) -> bool {
    is_media_part(value) || ["text", "think"].iter().any(|kind| value["type"] == *kind && value[*kind].is_string())
}

/// A list of text and content parts, as `prompt()` takes it; nothing for JSON that only resembles one. A list with an image,
/// audio or video is meant to be content, and its data must not be sent as JSON text.
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

/// A value of a type of one's own as a tool's result: the model reads it as JSON.
#[derive(Clone, Debug)]
pub struct AsJson<T>(pub T);

impl<T: Serialize + Send> IntoToolReturn for AsJson<T> {
    fn into_tool_return(self) -> Result<ToolReturnValue, HandlerError> {
        serde_json::to_value(self.0)?.into_tool_return()
    }
}
