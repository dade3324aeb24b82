//! The program's handlers: their types, arguments and answers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use kimi_agent_protocol::output::{OutputPlan, OutputSpec};

pub use self::tool_return::{AsJson, IntoToolReturn};
use crate::ToolContext;
use crate::answers::{Answers, Approval, HandlerError, HookDecision, OnError};
use crate::dialect::Services;
use crate::messages::{
    ApprovalRequest, Event, HookRequest, QuestionRequest, ReadFileRequest, TerminalRequest, TerminalResult,
    ToolReturnValue, WriteFileRequest,
};

mod tool_return;

pub(crate) type HandlerFuture<T> = Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send>>;
type Handler<A, T> = Arc<dyn Fn(A) -> HandlerFuture<T> + Send + Sync>;

pub(crate) type ApprovalHandler = Handler<ApprovalRequest, Approval>;
pub(crate) type QuestionHandler = Handler<QuestionRequest, Option<Answers>>;
pub(crate) type ToolHandler = Arc<dyn Fn(Value, ToolContext) -> HandlerFuture<ToolReturnValue> + Send + Sync>;
pub(crate) type HookHandler = Handler<HookRequest, HookDecision>;
pub(crate) type ReadFileHandler = Handler<ReadFileRequest, Option<String>>;
pub(crate) type WriteFileHandler = Handler<WriteFileRequest, ()>;
pub(crate) type TerminalHandler = Handler<TerminalRequest, TerminalResult>;
pub(crate) type EventHandler = Arc<dyn Fn(Event) -> HandlerFuture<()> + Send + Sync>;
pub(crate) type StderrHandler = Arc<dyn Fn(String) + Send + Sync>;

/// The source of the answers to requests of one kind.
#[derive(Clone, Default)]
pub(crate) enum Responder<H> {
    /// The default answer is sent.
    #[default]
    Unset,
    /// The reader of the events answers with `respond()`.
    Manual,
    /// The handler answers.
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

/// The handlers of files and terminals.
#[derive(Clone, Default)]
pub(crate) struct ServiceHandlers {
    pub(crate) read_file: Option<ReadFileHandler>,
    pub(crate) write_file: Option<WriteFileHandler>,
    pub(crate) terminal: Option<TerminalHandler>,
}

impl ServiceHandlers {
    /// The handlers that are set.
    pub(crate) fn offered(&self) -> Services {
        Services {
            read_file: self.read_file.is_some(),
            write_file: self.write_file.is_some(),
            terminal: self.terminal.is_some(),
        }
    }
}

/// Returns whether an error says that a file does not exist. That is an answer, not a failure: agents look for optional
/// files.
pub(crate) fn is_not_found(error: &HandlerError) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// A handler that the agent calls before or after an action (from Wire 1.8 on).
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
    /// Makes a hook on an event of the agent, for example `PreToolUse`, `PostToolUse`, `UserPromptSubmit` or `Stop`. If the
    /// handler fails or takes too long, [`Hook::on_error`] decides.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{Hook, HookDecision};
    /// let hook = Hook::new("PreToolUse", |_| async { Ok(HookDecision::Allow) });
    /// assert_eq!(hook.event(), "PreToolUse");
    /// ```
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

    /// Calls the hook only for targets that this regular expression matches, in Python's syntax. For hooks on tools the target is
    /// the name of the tool. Default: all targets.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{Hook, HookDecision};
    /// let hook = Hook::new("PreToolUse", |_| async { Ok(HookDecision::Allow) }).matcher("Shell|WriteFile");
    /// # drop(hook);
    /// ```
    #[must_use]
    pub fn matcher(mut self, matcher: impl Into<String>) -> Self {
        self.matcher = Some(matcher.into());
        self
    }

    /// Sets how long the handler may take. Default: 30 seconds, which the agent sets.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use kimi_agent::{Hook, HookDecision};
    /// let hook = Hook::new("PreToolUse", |_| async { Ok(HookDecision::Allow) }).timeout(Duration::from_secs(5));
    /// # drop(hook);
    /// ```
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the decision if the handler fails or takes too long. Default: [`OnError::Allow`].
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::OnError;
    /// use kimi_agent::{Hook, HookDecision};
    /// let hook = Hook::new("PreToolUse", |_| async { Ok(HookDecision::Allow) }).on_error(OnError::Block);
    /// # drop(hook);
    /// ```
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// Returns the event of the hook.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{Hook, HookDecision};
    /// let hook = Hook::new("Stop", |_| async { Ok(HookDecision::Allow) });
    /// assert_eq!(hook.event(), "Stop");
    /// ```
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

/// A tool of the program that the model can call (from Wire 1.1 on).
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
    /// Makes a tool whose parameters a JSON Schema (`{"type": "object", …}`) describes.
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
        Self::with_context(name, description, parameters, move |args, _| handler(args))
    }

    /// Makes a tool as [`ExternalTool::new`] does. The handler also gets the [`ToolContext`] of the call.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{ExternalTool, ToolContext};
    /// let schema = serde_json::json!({"type": "object"});
    /// let tool = ExternalTool::with_context("build", "Builds the project", schema, |_, context: ToolContext| async move {
    ///     context.progress(Some(0.5), Some("linking"));
    ///     Ok("built")
    /// });
    /// assert_eq!(tool.name(), "build");
    /// ```
    pub fn with_context<F, R, T>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        handler: F,
    ) -> Self
    where
        F: Fn(Value, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: IntoToolReturn,
    {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            timeout: None,
            handler: Arc::new(move |args, context| {
                let running = handler(args, context);
                Box::pin(async move { running.await?.into_tool_return() })
            }),
        }
    }

    /// Makes a tool whose parameters are a type. The schema of the type is derived, and arguments are decoded before the handler
    /// is called. If they do not fit, the model reads what is wrong with each of them. It also reads the error of the handler.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::ExternalTool;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Greet {
    ///     /// The name of the person.
    ///     name: String,
    /// }
    ///
    /// let tool = ExternalTool::typed("greet", "Greets a person", |args: Greet| async move { Ok(format!("Hello, {}!", args.name)) });
    /// assert_eq!(tool.parameters()["required"][0], "name");
    /// ```
    pub fn typed<A, F, R, T>(name: impl Into<String>, description: impl Into<String>, handler: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(A) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: IntoToolReturn,
    {
        Self::typed_with_context(name, description, move |args, _| handler(args))
    }

    /// Makes a tool as [`ExternalTool::typed`] does. The handler also gets the [`ToolContext`] of the call.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{ExternalTool, ToolContext};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Build {
    ///     /// The name of the crate.
    ///     package: String,
    /// }
    ///
    /// let tool = ExternalTool::typed_with_context("build", "Builds a crate", |args: Build, context: ToolContext| async move {
    ///     context.progress(None, Some(&args.package));
    ///     Ok("built")
    /// });
    /// assert_eq!(tool.parameters()["required"][0], "package");
    /// ```
    pub fn typed_with_context<A, F, R, T>(name: impl Into<String>, description: impl Into<String>, handler: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: IntoToolReturn,
    {
        let mut parameters = schemars::schema_for!(A).to_value();
        if let Some(schema) = parameters.as_object_mut() {
            // Models do not need it, and some agents refuse unknown keywords.
            schema.remove("$schema");
            schema.remove("title");
        }
        let schema = parameters.clone();
        Self::with_context(name, description, parameters, move |args, context| {
            let decoded = serde_path_to_error::deserialize(&args);
            let running = decoded.map(|args| handler(args, context));
            let running = running.map_err(|error| wrong_arguments(&schema, &args, &error));
            async move {
                match running {
                    Ok(running) => running.await?.into_tool_return(),
                    // The model made the mistake and can correct it; the handler has not failed.
                    Err(problem) => Ok(ToolReturnValue::error(problem)),
                }
            }
        })
    }

    /// Sets how long the handler may take before the model gets an error instead. Default: as long as the turn.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// # use kimi_agent::ExternalTool;
    /// let tool = ExternalTool::new("now", "Returns the time", serde_json::json!({"type": "object"}), |_| async { Ok("noon") }).timeout(Duration::from_secs(5));
    /// # drop(tool);
    /// ```
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the name of the tool.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent::ExternalTool;
    /// let tool = ExternalTool::new("now", "Returns the time", serde_json::json!({"type": "object"}), |_| async { Ok("noon") });
    /// assert_eq!(tool.name(), "now");
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description that the model reads.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent::ExternalTool;
    /// let tool = ExternalTool::new("now", "Returns the time", serde_json::json!({"type": "object"}), |_| async { Ok("noon") });
    /// assert_eq!(tool.description(), "Returns the time");
    /// ```
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the JSON Schema of the parameters.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent::ExternalTool;
    /// let tool = ExternalTool::new("now", "Returns the time", serde_json::json!({"type": "object"}), |_| async { Ok("noon") });
    /// assert_eq!(tool.parameters()["type"], "object");
    /// ```
    pub fn parameters(&self) -> &Value {
        &self.parameters
    }
}

/// Describes arguments that cannot be decoded: all violations of the schema, or the error of a value that only the type refuses.
fn wrong_arguments(schema: &Value, args: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let violations = OutputPlan::new(&OutputSpec::new(schema.clone())).map(|plan| plan.violations(args));
    let mut mistakes: Vec<(String, String)> = violations
        .unwrap_or_default()
        .into_iter()
        .map(|violation| (violation.pointer.trim_start_matches('/').replace('/', "."), violation.message))
        .collect();
    if mistakes.is_empty() {
        let path = error.path().to_string();
        mistakes.push((if path == "." { String::new() } else { path }, error.inner().to_string()));
    }
    let shown = |(path, message): (String, String)| match path.is_empty() {
        true => message,
        false => format!("{path}: {message}"),
    };
    format!("invalid arguments: {}", mistakes.into_iter().map(shown).collect::<Vec<_>>().join("; "))
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
