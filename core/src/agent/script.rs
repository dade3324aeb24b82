//! The script: what the agent does, turn by turn. `docs/testing.md` documents the format.

use std::time::Duration;

use base64::Engine;
use serde_json::{Map, Value, json};

use super::cut::Cut;
use super::fields::{Fields, Wrong, a, wrong};
use super::release;
use super::types::{Failure, Profile};
use crate::dialect::WireVersion;
use crate::session::Release;
use crate::wire::{ApprovalRequest, Question, SlashCommand, StatusUpdate, ToolReturnValue};

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) profile: Profile,
    /// The release that it plays, command line included.
    pub(crate) release: Option<Release>,
    /// Whether it reads nothing while a turn runs.
    pub(crate) half_duplex: bool,
    pub(crate) before_handshake: Vec<Action>,
    pub(crate) turns: Vec<Turn>,
    /// Where the session's history is kept.
    pub(crate) session_file: Option<String>,
    /// Where it is cut short.
    pub(crate) cut: Option<Cut>,
    /// Methods whose calls it passes over, as if they had never come.
    pub(crate) deaf_to: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) actions: Vec<Action>,
    /// How it ends when its actions have run out.
    pub(crate) end: End,
}

#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) delay: Duration,
    /// Written in one piece.
    pub(crate) bulk: bool,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Nothing but its delay.
    Pause,
    Parts {
        thinking: bool,
        pieces: Vec<String>,
        delay_between: Duration,
    },
    Step(Option<i64>),
    Calls(Vec<Call>),
    Hook {
        event: String,
        target: String,
        input_data: Map<String, Value>,
        subscription_id: Option<String>,
    },
    Status(Value),
    Event {
        kind: String,
        payload: Value,
        verbatim: bool,
    },
    Request {
        kind: String,
        payload: Value,
        id: Option<String>,
        wait: bool,
    },
    /// A line, to be completed with its end; what is repeated stands between the two texts.
    Raw {
        before: String,
        repeat: String,
        times: usize,
        after: String,
    },
    RawBytes(Vec<u8>),
    End(End),
    NeverAnswer,
    WaitCancel,
    WaitSteer,
    WaitFile(String),
    Repeat {
        times: i64,
        actions: Vec<Action>,
    },
    Stderr(String),
    Exit(i32),
    Signal(i32),
    IgnoreSignal(i32),
    CloseStdout,
    IgnoreEof,
    Stall,
}

/// How a prompt is answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Finished,
    Cancelled,
    /// After so many steps; by default those that there were.
    MaxSteps(Option<i64>),
    Failed(Failure),
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// Text as it is; anything else as JSON text.
    pub(crate) arguments: Value,
    /// Into how many pieces the arguments are split; none: they come with the call.
    pub(crate) split: usize,
    pub(crate) does: Does,
}

/// What a call of a tool does.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// One of the agent's own tools.
    Tool {
        /// Fields for the approval request; none: it does not ask.
        approve: Option<Value>,
        effect: Option<Effect>,
        result: Value,
        /// Instead of the usual result where it was rejected with feedback.
        feedback_result: Option<Value>,
    },
    /// One of the program's tools.
    External {
        /// Even if the program has no such tool.
        force: bool,
    },
    /// Asks the user.
    Question { questions: Value, request_id: Option<String> },
}

#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) write_file: String,
    pub(crate) content: String,
}

const ACTIONS: [&str; 28] = [
    "text",
    "think",
    "step",
    "tool_call",
    "external_tool",
    "question",
    "parallel",
    "hook",
    "usage",
    "status",
    "event",
    "request",
    "raw",
    "raw_base64",
    "end",
    "error",
    "never_answer",
    "wait_cancel",
    "wait_steer",
    "wait_file",
    "repeat",
    "stderr",
    "exit",
    "signal",
    "ignore_signal",
    "close_stdout",
    "ignore_eof",
    "stall",
];

impl Script {
    pub(crate) fn parse(text: &str) -> Result<Self, Wrong> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        Self::from_value(&value)
    }

    pub(crate) fn from_value(value: &Value) -> Result<Self, Wrong> {
        let whole;
        let fields = match value {
            Value::Array(_) => {
                whole = json!({"turns": value});
                Fields::new("", &whole)?
            }
            Value::Object(_) => Fields::new("", value)?,
            other => return Err(format!("a script is a list of turns or an object, not {}", a(other))),
        };
        let (release, profile) = profile(&fields)?;
        let half_duplex = fields.flag("half_duplex")?.unwrap_or(profile.legacy);
        let before_handshake = match fields.get("before_handshake") {
            None => Vec::new(),
            Some(list) => actions("before_handshake", list, &mut false)?,
        };
        let turns = fields.list("turns")?.into_iter().flatten().enumerate();
        let turns = turns.map(|(i, value)| turn(&format!("turn {}", i + 1), value)).collect::<Result<_, _>>()?;
        let session_file = fields.text("session_file")?;
        let cut = Cut::parse(&fields)?;
        let deaf_to = fields.texts("deaf_to")?.unwrap_or_default();
        fields.finish()?;
        Ok(Self { profile, release, half_duplex, before_handshake, turns, session_file, cut, deaf_to })
    }
}

fn profile(fields: &Fields<'_>) -> Result<(Option<Release>, Profile), Wrong> {
    let release = match fields.text("release")? {
        None => None,
        Some(text) => {
            let release = Release::parse(&text);
            Some(
                release
                    .ok_or_else(|| fields.wrong("release", format_args!("must be one as \"0.58\", not \"{text}\"")))?,
            )
        }
    };
    let own = ("kimi-scripted-agent", env!("CARGO_PKG_VERSION"));
    let mut profile = release.map_or_else(|| Profile::new(own.0, own.1), release::profile);
    match fields.text("wire")?.as_deref() {
        None => {}
        Some("legacy") => profile = Profile::legacy(own.0, own.1),
        Some("acp") => profile = Profile::acp(own.0, own.1),
        Some(text) => {
            profile.legacy = false;
            profile.version = WireVersion::spoken(text).ok_or_else(|| {
                let latest = WireVersion::LATEST;
                fields.wrong(
                    "wire",
                    format_args!("must be \"legacy\", \"acp\" or one of \"1.0\" to \"{latest}\", not \"{text}\""),
                )
            })?;
            profile.steer = profile.version >= WireVersion::new(1, 4);
            profile.questions = profile.steer;
        }
    }
    if let Some(server) = fields.object("server")? {
        profile.server.name = server.text("name")?.unwrap_or(profile.server.name);
        profile.server.version = server.text("version")?.unwrap_or(profile.server.version);
        server.finish()?;
    }
    profile.slash_commands = decoded::<Vec<SlashCommand>>(fields.shaped::<Vec<SlashCommand>>("slash_commands")?);
    profile.steer = fields.flag("steer")?.unwrap_or(profile.steer);
    profile.questions = fields.flag("questions")?.unwrap_or(profile.questions);
    profile.silent = fields.flag("silent_errors")?.unwrap_or(profile.silent);
    Ok((release, profile))
}

fn decoded<T: serde::de::DeserializeOwned + Default>(value: Option<Value>) -> T {
    value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

fn turn(place: &str, value: &Value) -> Result<Turn, Wrong> {
    if value.is_array() {
        return Ok(Turn { actions: actions(place, value, &mut true)?, end: End::Finished });
    }
    let fields = Fields::new(place, value).map_err(|_| wrong(place, "must be a list of actions, or an object"))?;
    let list = fields.required("actions", fields.get("actions"))?;
    let actions = actions(place, list, &mut true)?;
    let end = if fields.has("status") { end(&fields, "status")? } else { End::Finished };
    fields.finish()?;
    Ok(Turn { actions, end })
}

/// Reads a list of actions. `in_turn` tells whether a turn runs, before it and after it.
pub(crate) fn actions(place: &str, value: &Value, in_turn: &mut bool) -> Result<Vec<Action>, Wrong> {
    let Value::Array(list) = value else {
        return Err(wrong(place, format_args!("must be a list of actions, not {}", a(value))));
    };
    let places = (1..).map(|n| format!("{place}, action {n}"));
    list.iter().zip(places).map(|(value, place)| action(&Fields::new(&place, value)?, in_turn)).collect()
}

fn action(fields: &Fields<'_>, in_turn: &mut bool) -> Result<Action, Wrong> {
    let delay = fields.seconds("delay")?.unwrap_or_default();
    let bulk = fields.flag("bulk")?.unwrap_or(false);
    let mut named = ACTIONS.into_iter().filter(|name| fields.has(name));
    let kind = match (named.next(), named.next()) {
        (Some(one), Some(other)) => {
            return Err(wrong(fields.place(), format_args!("is two actions, \"{one}\" and \"{other}\"")));
        }
        (Some(name), None) => kind(name, fields, in_turn)?,
        (None, _) => match fields.names().find(|name| !["delay", "bulk"].contains(name)) {
            None if fields.has("delay") => Kind::Pause,
            None => return Err(wrong(fields.place(), "has no action in it")),
            Some(name) => {
                let known = ACTIONS.join(", ");
                return Err(wrong(fields.place(), format_args!("unknown action \"{name}\" (there are {known})")));
            }
        },
    };
    fields.finish()?;
    Ok(Action { delay, bulk, kind })
}

fn kind(name: &'static str, fields: &Fields<'_>, in_turn: &mut bool) -> Result<Kind, Wrong> {
    const IN_TURN: [&str; 12] = [
        "text",
        "think",
        "step",
        "tool_call",
        "external_tool",
        "question",
        "parallel",
        "end",
        "error",
        "never_answer",
        "wait_cancel",
        "wait_steer",
    ];
    if IN_TURN.contains(&name) && !*in_turn {
        return Err(fields.wrong(name, "is only possible while a turn runs"));
    }
    let flag = |kind| fields.only_true(name).map(|()| kind);
    Ok(match name {
        "text" | "think" => Kind::Parts {
            thinking: name == "think",
            pieces: fields.required(name, fields.texts(name)?)?,
            delay_between: fields.seconds("delay_between")?.unwrap_or_default(),
        },
        // `{"step": null}` and `{"step": true}` let it count by itself.
        "step" => match fields.get(name) {
            Some(Value::Null | Value::Bool(true)) => Kind::Step(None),
            _ => Kind::Step(fields.whole(name)?),
        },
        "tool_call" | "external_tool" | "question" => Kind::Calls(vec![call(name, fields)?]),
        "parallel" => {
            let list = fields.required(name, fields.list(name)?)?;
            Kind::Calls((1..).zip(list).map(|(n, value)| parallel(fields, n, value)).collect::<Result<_, _>>()?)
        }
        "hook" => {
            let hook = fields.required_object(name)?;
            let kind = Kind::Hook {
                event: hook.required_text("event")?,
                target: hook.text("target")?.unwrap_or_default(),
                input_data: decoded(hook.shaped::<Map<String, Value>>("input_data")?),
                subscription_id: hook.text("subscription_id")?,
            };
            hook.finish()?;
            kind
        }
        "usage" => Kind::Status(usage(fields)?),
        "status" => Kind::Status(fields.shaped::<StatusUpdate>(name)?.unwrap_or_default()),
        "event" => {
            let (kind, payload) = message(&fields.required_object(name)?)?;
            Kind::Event { kind, payload, verbatim: fields.flag("verbatim")?.unwrap_or(false) }
        }
        "request" => {
            let (kind, payload) = message(&fields.required_object(name)?)?;
            Kind::Request { kind, payload, id: fields.text("id")?, wait: fields.flag("wait")?.unwrap_or(true) }
        }
        "raw" => raw(fields, name)?,
        "raw_base64" => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(fields.required_text(name)?);
            Kind::RawBytes(bytes.map_err(|error| fields.wrong(name, format_args!("is not base64: {error}")))?)
        }
        "end" => {
            *in_turn = false;
            Kind::End(end(fields, name)?)
        }
        "error" => {
            *in_turn = false;
            let error = fields.required_object(name)?;
            let code = error.required("code", error.whole("code")?)?;
            let mut failure = Failure::new(code, error.text("message")?.unwrap_or_default());
            failure.data = error.get("data").cloned().map(Into::into);
            error.finish()?;
            Kind::End(End::Failed(failure))
        }
        "never_answer" => {
            *in_turn = false;
            flag(Kind::NeverAnswer)?
        }
        "wait_cancel" => flag(Kind::WaitCancel)?,
        "wait_steer" => flag(Kind::WaitSteer)?,
        "wait_file" => Kind::WaitFile(fields.required_text(name)?),
        "repeat" => {
            let repeat = fields.required_object(name)?;
            let times = repeat.required("times", repeat.whole("times")?)?;
            let list = repeat.required("actions", repeat.get("actions"))?;
            let before = *in_turn;
            let actions = actions(&format!("{}, repeat", fields.place()), list, in_turn)?;
            if before != *in_turn {
                return Err(fields.wrong(name, "must not end the turn: put that after it"));
            }
            repeat.finish()?;
            Kind::Repeat { times, actions }
        }
        "stderr" => Kind::Stderr(fields.required_text(name)?),
        "exit" => {
            let code = fields.required(name, fields.whole(name)?)?;
            Kind::Exit(i32::try_from(code).map_err(|_| fields.wrong(name, "must be an exit code"))?)
        }
        "signal" => Kind::Signal(signal(fields, name)?),
        "ignore_signal" => Kind::IgnoreSignal(signal(fields, name)?),
        "close_stdout" => flag(Kind::CloseStdout)?,
        "ignore_eof" => flag(Kind::IgnoreEof)?,
        _ => flag(Kind::Stall)?,
    })
}

/// A line, or what a long one is made of.
fn raw(fields: &Fields<'_>, name: &'static str) -> Result<Kind, Wrong> {
    if let Some(Value::String(line)) = fields.get(name) {
        return Ok(Kind::Raw { before: line.clone(), repeat: String::new(), times: 0, after: String::new() });
    }
    let parts = fields.required_object(name)?;
    let times = parts.required("times", parts.whole("times")?)?;
    let kind = Kind::Raw {
        before: parts.text("before")?.unwrap_or_default(),
        repeat: parts.required_text("repeat")?,
        times: usize::try_from(times).map_err(|_| parts.wrong("times", "must not be negative"))?,
        after: parts.text("after")?.unwrap_or_default(),
    };
    parts.finish()?;
    Ok(kind)
}

fn message(fields: &Fields<'_>) -> Result<(String, Value), Wrong> {
    let kind = fields.required_text("type")?;
    let payload = fields.get("payload").cloned().unwrap_or_else(|| json!({}));
    fields.finish()?;
    Ok((kind, payload))
}

fn end(fields: &Fields<'_>, name: &'static str) -> Result<End, Wrong> {
    match fields.required_text(name)?.as_str() {
        "finished" => Ok(End::Finished),
        "cancelled" => Ok(End::Cancelled),
        "max_steps_reached" => Ok(End::MaxSteps(fields.whole("steps")?)),
        other => Err(fields.wrong(
            name,
            format_args!("must be \"finished\", \"cancelled\" or \"max_steps_reached\", not \"{other}\""),
        )),
    }
}

/// `usage` with its neighbours, which are the other fields of a `StatusUpdate`.
fn usage(fields: &Fields<'_>) -> Result<Value, Wrong> {
    let usage = fields.required_object("usage")?;
    let mut tokens = Map::new();
    for name in ["input_other", "output", "input_cache_read", "input_cache_creation"] {
        tokens.insert(name.to_owned(), json!(usage.whole(name)?.unwrap_or(0)));
    }
    usage.finish()?;
    let mut status = Map::new();
    for name in ["context_usage", "context_tokens", "max_context_tokens", "message_id", "plan_mode", "mcp_status"] {
        if let Some(value) = fields.get(name) {
            status.insert(name.to_owned(), value.clone());
        }
    }
    status.insert("token_usage".to_owned(), Value::Object(tokens));
    let status = Value::Object(status);
    match serde_path_to_error::deserialize::<_, StatusUpdate>(&status) {
        Ok(_) => Ok(status),
        Err(error) => Err(fields.wrong(&error.path().to_string(), error.inner())),
    }
}

#[cfg(unix)]
fn signal(fields: &Fields<'_>, name: &'static str) -> Result<i32, Wrong> {
    let signals = [
        ("HUP", libc::SIGHUP),
        ("INT", libc::SIGINT),
        ("QUIT", libc::SIGQUIT),
        ("ABRT", libc::SIGABRT),
        ("KILL", libc::SIGKILL),
        ("SEGV", libc::SIGSEGV),
        ("TERM", libc::SIGTERM),
    ];
    let text = fields.required_text(name)?;
    let found = signals.into_iter().find(|(signal, _)| *signal == text.trim_start_matches("SIG"));
    let known = signals.map(|(signal, _)| signal).join(", ");
    found.map(|(_, number)| number).ok_or_else(|| fields.wrong(name, format_args!("must be one of {known}")))
}

#[cfg(not(unix))]
fn signal(fields: &Fields<'_>, name: &'static str) -> Result<i32, Wrong> {
    fields.required_text(name).map(|_| 0)
}

fn parallel(fields: &Fields<'_>, n: usize, value: &Value) -> Result<Call, Wrong> {
    let inner = Fields::new(&format!("{}, parallel {n}", fields.place()), value)?;
    let mut names = ["tool_call", "external_tool", "question"].into_iter().filter(|name| inner.has(name));
    let name = names
        .next()
        .ok_or_else(|| wrong(inner.place(), "must be a \"tool_call\", an \"external_tool\" or a \"question\""))?;
    let call = call(name, &inner)?;
    inner.finish()?;
    Ok(call)
}

fn call(name: &'static str, fields: &Fields<'_>) -> Result<Call, Wrong> {
    let given = fields.required_object(name)?;
    let call = match name {
        "question" => {
            let questions = questions(&given)?;
            let does = Does::Question { questions: questions.clone(), request_id: given.text("request_id")? };
            Call {
                id: given.text("id")?,
                name: "AskUserQuestion".to_owned(),
                arguments: json!({"questions": questions}),
                split: split(&given)?,
                does,
            }
        }
        _ => Call {
            id: given.text("id")?,
            name: given.required_text("name")?,
            arguments: given.get("arguments").cloned().unwrap_or_else(|| json!({})),
            split: split(&given)?,
            does: if name == "external_tool" {
                Does::External { force: given.flag("force")?.unwrap_or(false) }
            } else {
                Does::Tool {
                    approve: approve(&given)?,
                    effect: effect(&given)?,
                    result: result(&given, "result")?.unwrap_or_else(no_result),
                    feedback_result: result(&given, "feedback_result")?,
                }
            },
        },
    };
    given.finish()?;
    Ok(call)
}

fn split(fields: &Fields<'_>) -> Result<usize, Wrong> {
    let pieces = fields.whole("split")?.unwrap_or(0);
    usize::try_from(pieces).map_err(|_| fields.wrong("split", "must be a number of pieces"))
}

/// An option may be written as its label alone.
fn questions(fields: &Fields<'_>) -> Result<Value, Wrong> {
    let mut value = Value::Array(fields.required("questions", fields.list("questions")?)?.clone());
    for question in value.as_array_mut().into_iter().flatten() {
        for option in question.get_mut("options").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::String(label) = option {
                *option = json!({"label": label});
            }
        }
    }
    match serde_path_to_error::deserialize::<_, Vec<Question>>(&value) {
        Ok(_) => Ok(value),
        Err(error) => Err(fields.wrong(&format!("questions{}", error.path()), error.inner())),
    }
}

/// `true`, or what the approval request says.
fn approve(fields: &Fields<'_>) -> Result<Option<Value>, Wrong> {
    let given = match fields.get("approve") {
        None | Some(Value::Bool(false) | Value::Null) => return Ok(None),
        Some(Value::Bool(true)) => return Ok(Some(json!({}))),
        Some(_) => fields.required_object("approve")?,
    };
    let mut request = json!({"id": "", "tool_call_id": "", "sender": "", "action": "", "description": ""});
    let mut written = Map::new();
    let names = ["id", "sender", "action", "description", "source_kind", "source_id", "agent_id", "subagent_type"];
    for name in names.into_iter().chain(["source_description", "display"]) {
        if let Some(value) = given.get(name) {
            request[name] = value.clone();
            written.insert(name.to_owned(), value.clone());
        }
    }
    given.finish()?;
    match serde_path_to_error::deserialize::<_, ApprovalRequest>(&request) {
        Ok(_) => Ok(Some(Value::Object(written))),
        Err(error) => Err(given.wrong(&error.path().to_string(), error.inner())),
    }
}

fn effect(fields: &Fields<'_>) -> Result<Option<Effect>, Wrong> {
    let Some(given) = fields.object("effect")? else { return Ok(None) };
    let effect =
        Effect { write_file: given.required_text("write_file")?, content: given.text("content")?.unwrap_or_default() };
    given.finish()?;
    Ok(Some(effect))
}

fn no_result() -> Value {
    json!({"is_error": false, "output": "", "message": "", "display": []})
}

/// Text is the output of a success.
fn result(fields: &Fields<'_>, name: &'static str) -> Result<Option<Value>, Wrong> {
    let mut result = no_result();
    match fields.get(name) {
        None => return Ok(None),
        Some(Value::String(output)) => result["output"] = json!(output),
        Some(_) => {
            let given = fields.required_object(name)?;
            for part in ["is_error", "output", "message", "display", "extras"] {
                if let Some(value) = given.get(part) {
                    result[part] = value.clone();
                }
            }
            given.finish()?;
            serde_path_to_error::deserialize::<_, ToolReturnValue>(&result)
                .map_err(|error| given.wrong(&error.path().to_string(), error.inner()))?;
        }
    }
    Ok(Some(result))
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
