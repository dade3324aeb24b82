//! The tools of the server, and the answers to calls.

use std::sync::Arc;

use kimi_agent_client::{Error, Output, PromptOptions};
use kimi_agent_protocol::PromptResult;
use kimi_agent_protocol::connection::RejectedApproval;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::sessions::{Known, NotOpened, Sessions};
use crate::spelling;

/// The server for the client on the standard input.
pub(super) struct Service {
    sessions: Arc<Sessions>,
    tools: Arc<[Tool]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    agent: Option<String>,
    prompt: String,
    schema: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Continue {
    session: String,
    prompt: String,
    schema: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfSession {
    session: String,
}

impl Service {
    pub(super) fn new(sessions: Arc<Sessions>) -> Self {
        let tools = tools(&sessions.agents()).into();
        Self { sessions, tools }
    }

    async fn run(&self, run: Run, context: &RequestContext<RoleServer>) -> CallToolResult {
        match self.sessions.open(run.agent.as_deref()).await {
            Err(NotOpened::Because(reason)) => failed(None, &reason),
            Err(NotOpened::Sdk(error)) => of_error(None, &error),
            Ok(known) => {
                let begun = known.turn(prompt(run.prompt, run.schema), context).await;
                if let Err(error @ Error::InvalidOption { .. }) = &begun {
                    // Nothing has begun that could be continued.
                    self.sessions.close_one(&known).await;
                    return of_error(None, error);
                }
                told(&known, begun)
            }
        }
    }

    /// Calls a tool. Returns `None` if no tool has the name.
    async fn called(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<CallToolResult, String>> {
        Some(match name {
            "run" => match read(arguments) {
                Ok(run) => Ok(self.run(run, context).await),
                Err(reason) => Err(reason),
            },
            "continue" => match read::<Continue>(arguments) {
                Ok(Continue { session, prompt: text, schema }) => match self.found(&session) {
                    Ok(known) => Ok(told(&known, known.turn(prompt(text, schema), context).await)),
                    Err(reason) => Err(reason),
                },
                Err(reason) => Err(reason),
            },
            "cancel" => match read::<OfSession>(arguments).and_then(|of| self.found(&of.session)) {
                Ok(known) => Ok(match known.cancel().await {
                    Ok(()) => said("cancelled", json!({"session": known.id})),
                    Err(error) => of_error(Some(&known.id), &error),
                }),
                Err(reason) => Err(reason),
            },
            "diff" => read::<OfSession>(arguments).and_then(|of| self.found(&of.session)).map(|known| changes(&known)),
            _ => return None,
        })
    }

    fn found(&self, session: &str) -> Result<Arc<Known>, String> {
        let not_open = || format!("no session {session:?} is open; begin one with `run`");
        self.sessions.find(session).ok_or_else(not_open)
    }
}

impl ServerHandler for Service {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("kimi-agent", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = self.called(&request.name, request.arguments.unwrap_or_default(), &context).await;
        let unknown = || ErrorData::invalid_params(format!("no tool has the name {:?}", request.name), None);
        let result = result.ok_or_else(unknown)?.unwrap_or_else(|reason| failed(None, &reason));
        Ok(result.into())
    }
}

fn prompt(text: String, schema: Option<Value>) -> PromptOptions {
    let options = PromptOptions::new(text);
    match schema {
        Some(schema) => options.output(Output::new(schema)),
        None => options,
    }
}

/// Returns what a call gets of its turn.
fn told(known: &Known, outcome: Result<PromptResult, Error>) -> CallToolResult {
    match outcome {
        Ok(result) => answer(&known.id, &result),
        Err(error) => of_error(Some(&known.id), &error),
    }
}

fn answer(session: &str, result: &PromptResult) -> CallToolResult {
    let status = result.status.as_str();
    let mut fields = json!({"session": session, "status": status, "text": result.text, "usage": result.usage});
    if let Some(output) = &result.output {
        fields["output"] = output.clone();
    }
    let described = |rejected: &RejectedApproval| match &rejected.reason {
        Some(reason) => format!("{} ({reason})", rejected.description),
        None => rejected.description.clone(),
    };
    let rejected: Vec<String> = result.rejected.iter().map(described).collect();
    if !rejected.is_empty() {
        fields["rejected"] = json!(rejected);
    }
    let text = result.output.as_ref().map_or_else(|| result.text.clone(), Value::to_string);
    let mut note = format!("session: {session}, {status}");
    if !rejected.is_empty() {
        note.push_str(&format!("; rejected: {}", rejected.join(", ")));
    }
    let mut told = CallToolResult::success(vec![ContentBlock::text(text), ContentBlock::text(note)]);
    told.structured_content = Some(fields);
    told
}

fn changes(known: &Known) -> CallToolResult {
    let changes = known.changes();
    let files = json!(changes.files);
    let text = if changes.files.is_empty() { "no changes were reported".to_owned() } else { files.to_string() };
    said(&text, json!({"session": known.id, "files": files, "left_out": changes.left_out}))
}

fn said(text: &str, fields: Value) -> CallToolResult {
    let mut told = CallToolResult::success(vec![ContentBlock::text(text)]);
    told.structured_content = Some(fields);
    told
}

fn of_error(session: Option<&str>, error: &Error) -> CallToolResult {
    let mut told = match error {
        // The arguments of the tools.
        Error::InvalidOption { option, reason } if option == "content" => {
            failed(session, &format!("`prompt`: {reason}"))
        }
        Error::InvalidOption { option, reason } if option == "output" => {
            failed(session, &format!("`schema`: {reason}"))
        }
        error => failed(session, &spelling::message(error)),
    };
    if let Some(Value::Object(fields)) = &mut told.structured_content {
        fields.insert("code".to_owned(), error.code().into());
    }
    told
}

/// A failure that the model of the client reads, so that it can do something else.
fn failed(session: Option<&str>, reason: &str) -> CallToolResult {
    let mut content = vec![ContentBlock::text(reason)];
    let mut fields = json!({"message": reason});
    if let Some(session) = session {
        content.push(ContentBlock::text(format!("session: {session}")));
        fields["session"] = session.into();
    }
    let mut told = CallToolResult::error(content);
    told.structured_content = Some(fields);
    told
}

fn read<T: for<'a> Deserialize<'a>>(arguments: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(arguments.into()).map_err(|error| format!("wrong arguments: {error}"))
}

/// The tools, as clients see them.
fn tools(agents: &[&str]) -> Vec<Tool> {
    let prompt = json!({"type": "string", "description": "The task for the agent."});
    let schema = json!({"type": "object", "description": "A JSON Schema. The answer is a JSON value of it."});
    let session = json!({"type": "string", "description": "The session, as `run` has named it."});
    let agent = json!({"type": "string", "enum": agents, "description": "The agent. Default: the first one."});
    [
        (
            "run",
            "Lets a coding agent do a task in its own session, and returns its answer. The session stays open for `continue`.",
            json!({"agent": agent, "prompt": prompt, "schema": schema}),
            json!(["prompt"]),
        ),
        (
            "continue",
            "Sends a further prompt to a session, and returns the agent's answer.",
            json!({"session": session, "prompt": prompt, "schema": schema}),
            json!(["session", "prompt"]),
        ),
        ("cancel", "Cancels what a session is doing.", json!({"session": session}), json!(["session"])),
        (
            "diff",
            "Returns the changes of files that the agent has reported in a session: path, old_text and new_text. What commands \
             changed is not in it.",
            json!({"session": session}),
            json!(["session"]),
        ),
    ]
    .into_iter()
    .map(|(name, description, properties, required)| {
        let parameters = Map::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), properties),
            ("required".to_owned(), required),
            ("additionalProperties".to_owned(), json!(false)),
        ]);
        Tool::new(name, description, Arc::new(parameters))
    })
    .collect()
}
