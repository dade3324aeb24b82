//! The operations of a program.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use kimi_agent::testing::{ScriptedAgent, scripted_agent};
use kimi_agent::wire::Event;
use kimi_agent::{
    Agent, Budget, ConfigOption, ConfigValue, Error, Executable, HandlerError, PromptOptions, Result, Session,
    SessionInfo, SessionOptions, Turn,
};
use kimi_agent_client::host::{Naming, parse_answers, parse_approval, parse_budget};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::behaviour::{Records, agent_options, options, prompt_output};
use crate::case::{Case, Problem, text};
use crate::input::input;
use crate::recorder::Recorder;
use crate::trace::{detailed_outcome, outcome, print, print_done, print_error, print_event, print_tool_call};
use crate::turns::Held;

/// Plays one scenario.
pub(crate) struct Player<'a> {
    case: &'a Case,
    /// Keeps the script's file.
    agent: Option<ScriptedAgent>,
    executable: Executable,
    records: Records,
    outside: mpsc::UnboundedReceiver<Event>,
    stderr: mpsc::UnboundedReceiver<String>,
    agents: HashMap<String, Agent>,
    sessions: HashMap<String, Session>,
    turns: HashMap<String, Held>,
    /// The requests that were printed, the last one last.
    requests: Vec<Event>,
    /// Records spans and metrics, if the sessions have telemetry: with `SCENARIO_TELEMETRY=1`.
    recorder: Option<Recorder>,
}

impl<'a> Player<'a> {
    pub(crate) fn new(case: &'a Case) -> Result<Self, Problem> {
        let agent = case.agent.script.clone().map(scripted_agent);
        let executable = match (&agent, std::env::var("SCENARIO_EXECUTABLE")) {
            (Some(agent), _) => agent.into(),
            (None, Ok(list)) => {
                let list: Vec<String> = serde_json::from_str(&list).map_err(|error| error.to_string())?;
                list.into()
            }
            (None, Err(_)) => return Err("there is neither a script nor $SCENARIO_EXECUTABLE".to_owned()),
        };
        let (events, outside) = mpsc::unbounded_channel();
        let (lines, stderr) = mpsc::unbounded_channel();
        let records = Records { events, stderr: lines, trace_handlers: case.trace_handlers };
        let (agents, sessions, turns, requests) = (HashMap::new(), HashMap::new(), HashMap::new(), Vec::new());
        let recorder = std::env::var_os("SCENARIO_TELEMETRY").map(|_| Recorder::new());
        Ok(Self { case, agent, executable, records, outside, stderr, agents, sessions, turns, requests, recorder })
    }

    /// Ends what the program left open.
    pub(crate) async fn finish(mut self) {
        self.turns.clear();
        for (_, session) in self.sessions.drain() {
            drop(session.close().await);
        }
        for (_, agent) in self.agents.drain() {
            drop(agent.close().await);
        }
        drop(self.agent);
        if let Some(recorder) = &self.recorder {
            let recorded = recorder.recorded().map_err(|error| error.to_string());
            print(&json!({"recorded": recorded.unwrap_or_else(Value::String)}));
        }
    }

    /// Does one operation.
    ///
    /// # Errors
    /// What is wrong with the program; what the SDK fails with is printed.
    pub(crate) async fn step(&mut self, op: &Value) -> Result<(), Problem> {
        let done = match text(op, "op")? {
            "open" => self.open(op).await?,
            "open_agent" => self.open_agent(op),
            "list_sessions" => {
                let (agent, work_dir) = (self.agent(op)?, op["work_dir"].as_str().map(Path::new));
                let listed = match op["archived"] == true {
                    true => agent.list_archived_sessions(work_dir).await,
                    false => agent.list_sessions(work_dir).await,
                };
                let fact = |session: &SessionInfo| {
                    let mut fact = listed_session(session);
                    if !op["archived"].is_null() {
                        fact["archived"] = json!(session.archived);
                    }
                    fact
                };
                listed.map(|sessions| json!({"sessions": sessions.iter().map(fact).collect::<Vec<_>>()}))
            }
            "delete_session" => {
                let deleted = self.past(op, "of").ok_or("`of` must name a session")?;
                self.agent(op)?.delete_session(deleted).await.map(|()| Value::Null)
            }
            "rename_session" => {
                let (renamed, title) = (self.past(op, "of").ok_or("`of` must name a session")?, text(op, "title")?);
                let stored = self.agent(op)?.rename_session(renamed, title).await;
                stored.map(|title| json!({"title": title}))
            }
            "archive_session" => {
                let archived = self.past(op, "of").ok_or("`of` must name a session")?;
                self.agent(op)?.archive_session(archived).await.map(|()| Value::Null)
            }
            "unarchive_session" => {
                let unarchived = self.past(op, "of").ok_or("`of` must name a session")?;
                self.agent(op)?.unarchive_session(unarchived).await.map(|()| Value::Null)
            }
            "close_agent" => {
                let agent = self.agent(op)?;
                let closed = match op["timeout"].as_f64() {
                    Some(timeout) => agent.close_with_timeout(Duration::from_secs_f64(timeout)).await,
                    None => agent.close().await,
                };
                closed.map(|()| Value::Null)
            }
            "prompt" => {
                let session = self.session(op)?;
                match prompt_options(op, &self.records)?.and_then(|prompt| session.prompt(prompt)) {
                    Ok(turn) => {
                        self.turns.insert(name(op), Held::Here(Box::new(turn)));
                        Ok(Value::Null)
                    }
                    Err(error) => Err(error),
                }
            }
            "next" => self.next(op).await?,
            "drain" => {
                let mut requests = Vec::new();
                let read = drain(self.turn(op)?, &mut requests, op["tool_calls"] == true).await;
                self.requests.append(&mut requests);
                read
            }
            "steps" => self.steps(op).await?,
            "result" if op["details"] == true => self.turn(op)?.result().await.map(|result| detailed_outcome(&result)),
            "result" => self.turn(op)?.result().await.map(|result| {
                let mut line = outcome(&result);
                if op["ended"] == true {
                    line["stop_reason"] = json!(result.stop_reason);
                }
                line
            }),
            "raise_for_status" => match self.turn(op)?.result().await {
                Ok(result) => result.raise_for_status().map(|_| Value::Null),
                Err(error) => Err(error),
            },
            "text_stream" => {
                let mut failure = None;
                let mut text = self.turn(op)?.text_stream();
                while let Some(piece) = text.next().await {
                    match piece {
                        Ok(piece) => print(&json!({"text": piece})),
                        Err(error) => failure = Some(error),
                    }
                }
                failure.map_or(Ok(Value::Null), Err)
            }
            "cancel_session" => self.session(op)?.cancel().await.map(|()| Value::Null),
            "cancel" => self.held(op)?.cancel().await?.map(|()| Value::Null),
            "steer" => match input(op)? {
                Ok(input) => self.held(op)?.steer(input).await?.map(|()| Value::Null),
                Err(error) => Err(error),
            },
            "cancel_subagent" => {
                let subagent = op["subagent"].as_str().ok_or("`subagent` must be text")?;
                self.held(op)?.cancel_subagent(subagent.to_owned()).await?.map(|()| Value::Null)
            }
            "respond" => self.respond(op).await?,
            "set_plan_mode" => {
                let on = op["on"].as_bool().ok_or("`on` must be a boolean")?;
                self.session(op)?.set_plan_mode(on).await.map(|()| Value::Null)
            }
            "config_options" => {
                let options = self.session(op)?.config_options();
                Ok(json!({"options": options.iter().map(config_option).collect::<Vec<_>>()}))
            }
            "set_config_option" => {
                let value = match &op["value"] {
                    Value::Bool(on) => ConfigValue::from(*on),
                    value => value.as_str().ok_or("`value` must be text or a boolean")?.into(),
                };
                self.session(op)?.set_config_option(text(op, "id")?, value).await.map(|()| Value::Null)
            }
            "undo" => {
                let count = op.get("count").map_or(Some(1), Value::as_u64).and_then(|count| u32::try_from(count).ok());
                self.session(op)?.undo(count.ok_or("`count` must be a number")?).await.map(|()| Value::Null)
            }
            "replay" => self.replay(op).await?,
            "usage" => {
                let turn = self.held(op)?.usage().await?;
                Ok(json!({"turn": turn, "session": self.session(op)?.usage()}))
            }
            "state" => self.state(op).await?,
            "wait_closed" => {
                let closed = self.session(op)?.closed().await;
                Ok(json!({"by": closed.map(|error| error.code())}))
            }
            "info" => Ok(info(self.session(op)?)),
            "session" => {
                let session = self.session(op)?;
                let (id, work_dir, runs) = (session.id(), session.work_dir(), session.pid().is_some());
                Ok(json!({"id": id, "work_dir": work_dir, "runs": runs, "status": session.status()}))
            }
            "turn" => {
                let turn = self.turn(op)?;
                Ok(json!({"id": turn.id(), "discarded": turn.discarded()}))
            }
            "leave" => {
                self.take(op)?.leave();
                Ok(Value::Null)
            }
            "one_shot" => self.one_shot(op).await?,
            "close" => {
                let session = self.session(op)?;
                let closed = match op["timeout"].as_f64() {
                    Some(timeout) => session.close_with_timeout(Duration::from_secs_f64(timeout)).await,
                    None => session.close().await,
                };
                closed.map(|()| Value::Null)
            }
            "run" => run(op)?,
            "remove" => remove(Path::new(text(op, "path")?))?,
            "wait_file" => {
                wait_file(Path::new(text(op, "path")?)).await;
                Ok(Value::Null)
            }
            "touch" => touch(Path::new(text(op, "path")?), op["text"].as_str().unwrap_or_default())?,
            "read" => Ok(json!({"content": std::fs::read_to_string(text(op, "path")?).ok()})),
            "exists" => Ok(json!({"exists": Path::new(text(op, "path")?).exists()})),
            "wait_outside" => self.wait_outside(text(op, "until")?).await?,
            "spawn_result" => {
                let waiting = self.take(op)?.wait()?;
                self.turns.insert(name(op), waiting);
                Ok(Value::Null)
            }
            "spawn_drain" => {
                let reading = self.take(op)?.read()?;
                self.turns.insert(name(op), reading);
                Ok(Value::Null)
            }
            "result_and_drain" => self.result_and_drain(op).await?,
            "join" => {
                let (turn, joined) = self.take(op)?.join().await?;
                self.turns.insert(name(op), turn);
                for event in joined.events {
                    show(event, &mut self.requests);
                }
                joined.outcome.map(|result| result.map_or(Value::Null, |result| outcome(&result)))
            }
            other => return Err(format!("there is no operation `{other}`")),
        };
        match done {
            Ok(outputs) => print_done(op, outputs),
            Err(error) => print_error(op, &error),
        }
        Ok(())
    }

    fn options(&self, op: &Value) -> Result<SessionOptions> {
        let mut described = self.case.options.clone();
        described.extend(op["options"].as_object().cloned().unwrap_or_default());
        let executable = op["agent"].is_null().then(|| self.executable.clone());
        let options = options(&described, executable, &self.records)?;
        Ok(match &self.recorder {
            Some(recorder) if !described.contains_key("telemetry") => options.telemetry(recorder.telemetry()),
            _ => options,
        })
    }

    async fn open(&mut self, op: &Value) -> Result<Result<Value>, Problem> {
        let options = match self.options(op) {
            Ok(options) => options,
            Err(error) => return Ok(Err(error)),
        };
        let opened = if op["agent"].is_null() {
            match op["resume"].as_str() {
                Some(name) => {
                    let id = self.session(&json!({"session": name}))?.id().to_owned();
                    options.session_id(id).start().await
                }
                None => options.start().await,
            }
        } else if let Some(past) = self.past(op, "resume") {
            self.agent(op)?.resume(past, options).await
        } else if let Some(past) = self.past(op, "fork") {
            self.agent(op)?.fork(past, options).await
        } else {
            self.agent(op)?.create_session(options).await
        };
        Ok(opened.map(|session| {
            self.sessions.insert(session_name(op).to_owned(), session);
            Value::Null
        }))
    }

    /// The id of the session whose past another begins with: it is given, or it is that of a session of the program.
    fn past(&self, op: &Value, key: &str) -> Option<String> {
        let named = op[key].as_str()?;
        Some(self.sessions.get(named).map_or(named, Session::id).to_owned())
    }

    fn open_agent(&mut self, op: &Value) -> Result<Value> {
        let described = op["options"].as_object().cloned().unwrap_or_default();
        let agent = agent_options(described, self.executable.clone(), &self.records)?.open()?;
        self.agents.insert(agent_name(op).to_owned(), agent);
        Ok(Value::Null)
    }

    fn agent(&self, op: &Value) -> Result<&Agent, Problem> {
        self.agents.get(agent_name(op)).ok_or_else(|| "no agent is open".to_owned())
    }

    fn session(&self, op: &Value) -> Result<&Session, Problem> {
        self.sessions.get(session_name(op)).ok_or_else(|| "no session is open".to_owned())
    }

    fn held(&self, op: &Value) -> Result<&Held, Problem> {
        self.turns.get(&name(op)).ok_or_else(|| format!("there is no turn `{}`", name(op)))
    }

    fn take(&mut self, op: &Value) -> Result<Held, Problem> {
        self.turns.remove(&name(op)).ok_or_else(|| format!("there is no turn `{}`", name(op)))
    }

    fn turn(&mut self, op: &Value) -> Result<&mut Turn, Problem> {
        let name = name(op);
        self.turns.get_mut(&name).ok_or_else(|| format!("there is no turn `{name}`"))?.here()
    }

    async fn next(&mut self, op: &Value) -> Result<Result<Value>, Problem> {
        let until = op["until"].as_str();
        let mut left = match (op["count"].as_u64(), until) {
            (Some(count), None) => count,
            (None, Some(_)) => u64::MAX,
            _ => return Err("either `count` or `until` must be there".to_owned()),
        };
        while left > 0 {
            match self.turn(op)?.next().await {
                Some(Ok(event)) => {
                    left = if until == Some(event.type_name()) { 0 } else { left - 1 };
                    show(event, &mut self.requests);
                }
                Some(Err(error)) => return Ok(Err(error)),
                None => return Ok(Ok(json!({"ended": true}))),
            }
        }
        Ok(Ok(Value::Null))
    }

    /// In Rust `result()` and `next()` both need the turn for themselves.
    async fn result_and_drain(&mut self, op: &Value) -> Result<Result<Value>, Problem> {
        if op["answer"].is_null() {
            drop(self.turn(op)?.result().await);
        }
        while let Some(event) = self.turn(op)?.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => return Ok(Err(error)),
            };
            let asks = matches!(event, Event::ApprovalRequest(_) | Event::QuestionRequest(_));
            show(event, &mut self.requests);
            if asks
                && !op["answer"].is_null()
                && let Err(error) = self.respond(op).await?
            {
                return Ok(Err(error));
            }
        }
        Ok(self.turn(op)?.result().await.map(|result| outcome(&result)))
    }

    async fn steps(&mut self, op: &Value) -> Result<Result<Value>, Problem> {
        let mut requests = Vec::new();
        let mut steps = self.turn(op)?.steps();
        let mut failure = None;
        while let Some(mut step) = steps.next().await {
            let mut announced = false;
            let n = step.n();
            while let Some(event) = step.next().await {
                match event {
                    Ok(event) => {
                        // Only with an event: a failure between steps is in none.
                        if !std::mem::replace(&mut announced, true) {
                            print(&json!({"step": n}));
                        }
                        show(event, &mut requests);
                    }
                    Err(error) => failure = Some(error),
                }
            }
        }
        self.requests.append(&mut requests);
        Ok(failure.map_or(Ok(Value::Null), Err))
    }

    async fn respond(&mut self, op: &Value) -> Result<Result<Value>, Problem> {
        let wanted = op["request"].as_str();
        let is_it = |request: &&Event| wanted.is_none_or(|id| request.request_id() == Some(id));
        let request = self.requests.iter().rfind(is_it).cloned().ok_or("no such request has been seen")?;
        let answer = &op["answer"];
        let by_session = op["scope"] == "session";
        let done = match &request {
            Event::ApprovalRequest(request) => match parse_approval(answer) {
                Err(error) => Err(nonsense(&error)),
                Ok(answer) if by_session => self.session(op)?.respond(request, answer).await,
                Ok(answer) => self.turn(op)?.respond(request, answer).await,
            },
            Event::QuestionRequest(request) => match parse_answers(answer) {
                Err(error) => Err(nonsense(&error)),
                Ok(answers) if by_session => self.session(op)?.respond_question(request, answers).await,
                Ok(answers) => self.turn(op)?.respond_question(request, answers).await,
            },
            other => return Err(format!("a {} is not answered by hand", other.type_name())),
        };
        Ok(done.map(|()| Value::Null))
    }

    async fn replay(&mut self, op: &Value) -> Result<Result<Value>, Problem> {
        let mut past = self.session(op)?.replay();
        while let Some(event) = past.next().await {
            match event {
                Ok(event) => print_event(&event),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(Value::Null))
    }

    async fn state(&self, op: &Value) -> Result<Result<Value>, Problem> {
        let until = op["until"].as_str();
        let session = self.session(op)?;
        // Nothing announces what happens between turns.
        while until.is_some_and(|until| session.state().as_str() != until) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(Ok(json!({"state": session.state().as_str()})))
    }

    async fn one_shot(&mut self, op: &Value) -> Result<Result<Value>, Problem> {
        let options = match self.options(op) {
            Ok(options) => options,
            Err(error) => return Ok(Err(error)),
        };
        let prompt = match prompt_options(op, &self.records)? {
            Ok(prompt) => prompt,
            Err(error) => return Ok(Err(error)),
        };
        let mut turn = kimi_agent::prompt(prompt, options);
        if let Err(error) = drain(&mut turn, &mut self.requests, false).await {
            return Ok(Err(error));
        }
        Ok(turn.result().await.map(|result| outcome(&result)))
    }

    async fn wait_outside(&mut self, until: &str) -> Result<Result<Value>, Problem> {
        const OVER: &str = "nothing can come any more";
        if until == "stderr" {
            let line = self.stderr.recv().await.ok_or(OVER)?;
            print(&json!({"stderr": line}));
            return Ok(Ok(Value::Null));
        }
        loop {
            let event = self.outside.recv().await.ok_or(OVER)?;
            let found = event.type_name() == until;
            show(event, &mut self.requests);
            if found {
                return Ok(Ok(Value::Null));
            }
        }
    }
}

fn info(session: &Session) -> Value {
    let commands: Vec<_> = session.slash_commands().into_iter().map(|command| command.name).collect();
    let mut info = json!({
        "protocol_version": session.protocol_version(),
        "capabilities": session.capabilities(),
        "external_tools": session.external_tools(),
        "slash_commands": commands,
    });
    if let Some(server) = session.server() {
        info["server"] = json!(server);
    }
    info
}

fn listed_session(session: &SessionInfo) -> Value {
    let SessionInfo { id, work_dir, title, updated_at, .. } = session;
    json!({"id": id, "work_dir": work_dir, "title": title, "dated": updated_at.is_some()})
}

fn config_option(option: &ConfigOption) -> Value {
    let choices: Vec<_> = option.choices.iter().map(|choice| &choice.value).collect();
    json!({"id": option.id, "category": option.category, "value": option.value, "choices": choices})
}

fn agent_name(op: &Value) -> &str {
    op["agent"].as_str().unwrap_or("agent")
}

fn session_name(op: &Value) -> &str {
    op["session"].as_str().unwrap_or("session")
}

fn name(op: &Value) -> String {
    op["as"].as_str().unwrap_or("turn").to_owned()
}

/// What `prompt` and `one_shot` say, with the options of the prompt in seconds.
fn prompt_options(op: &Value, records: &Records) -> Result<Result<PromptOptions>, Problem> {
    let mut prompt = match input(op)? {
        Ok(input) => PromptOptions::new(input),
        Err(error) => return Ok(Err(error)),
    };
    for (name, value) in op["prompt_options"].as_object().into_iter().flatten() {
        if name == "budget" {
            prompt = prompt.budget(budget(value)?);
            continue;
        }
        if name == "output" {
            prompt = match prompt_output(prompt, value, records) {
                Ok(prompt) => prompt,
                Err(error) => return Ok(Err(error)),
            };
            continue;
        }
        let limit = Duration::from_secs_f64(value.as_f64().ok_or("a deadline is a number")?);
        prompt = match name.as_str() {
            "timeout" => prompt.timeout(limit),
            "idle_timeout" => prompt.idle_timeout(limit),
            other => return Err(format!("a prompt has no option `{other}`")),
        };
    }
    Ok(Ok(prompt))
}

fn budget(value: &Value) -> Result<Budget, Problem> {
    let limits = value.as_object().cloned().ok_or("a budget is an object")?;
    parse_budget(limits, Naming::Snake)
}

/// Prints an event, and keeps a request for `respond`.
fn show(event: Event, requests: &mut Vec<Event>) {
    print_event(&event);
    if matches!(event, Event::ApprovalRequest(_) | Event::QuestionRequest(_)) {
        requests.push(event);
    }
}

async fn drain(turn: &mut Turn, requests: &mut Vec<Event>, tool_calls: bool) -> Result<Value> {
    while let Some(event) = turn.next().await {
        let event = event?;
        let seen = tool_calls.then(|| event.clone());
        show(event, requests);
        seen.iter().for_each(print_tool_call);
    }
    Ok(Value::Null)
}

fn nonsense(error: &HandlerError) -> Error {
    Error::InvalidOption { option: "answer".to_owned(), reason: error.to_string() }
}

fn remove(path: &Path) -> Result<Result<Value>, Problem> {
    std::fs::remove_file(path).map(|()| Ok(Value::Null)).map_err(|error| format!("{}: {error}", path.display()))
}

/// Files are made by others, who do not announce it.
async fn wait_file(path: &Path) {
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs another program to its end; `{pid}` stands for this process.
fn run(op: &Value) -> Result<Result<Value>, Problem> {
    let argv: Vec<String> = serde_json::from_value(op["argv"].clone()).map_err(|error| format!("`argv`: {error}"))?;
    let argv: Vec<String> = argv.iter().map(|word| word.replace("{pid}", &std::process::id().to_string())).collect();
    let (program, args) = argv.split_first().ok_or("`argv` is empty")?;
    let status = std::process::Command::new(program).args(args).stdin(std::process::Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(Ok(Value::Null)),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

fn touch(path: &Path, content: &str) -> Result<Result<Value>, Problem> {
    std::fs::write(path, content).map(|()| Ok(Value::Null)).map_err(|error| format!("{}: {error}", path.display()))
}
