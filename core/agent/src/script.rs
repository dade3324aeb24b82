//! The script of the agent: its actions, turn by turn. `docs/reference/scripted-agent.md` documents the format.

mod calls;
mod profile;

use std::time::Duration;

use base64::Engine;
use serde_json::{Map, Value, json};

use super::cut::At;
use super::fields::{Fields, Wrong, a, wrong};
use super::types::{Failure, Profile};
use crate::dialect::Release;
use crate::messages::StatusUpdate;
pub(crate) use calls::{Call, Does, Effect};
use calls::{call, parallel};
pub(crate) use profile::WebServer;
use profile::{profile, web_server};

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) profile: Profile,
    /// The release that the agent plays, with its command line.
    pub(crate) release: Option<Release>,
    /// Whether the agent reads nothing while a turn runs.
    pub(crate) half_duplex: bool,
    pub(crate) before_handshake: Vec<Action>,
    pub(crate) turns: Vec<Turn>,
    /// The file with the session's history.
    pub(crate) session_file: Option<String>,
    /// The place at which the agent stops early.
    pub(crate) cut: Option<Cut>,
    /// Methods whose calls the agent ignores.
    pub(crate) deaf_to: Vec<String>,
    /// Whether it says what it speaks.
    pub(crate) chooses: bool,
    /// The behaviour as Kimi Code's server.
    #[cfg_attr(not(feature = "web"), allow(dead_code, reason = "the server is left out"))]
    pub(crate) web: WebServer,
}

#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) actions: Vec<Action>,
    /// How the turn ends after its last action.
    pub(crate) end: End,
}

#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) delay: Duration,
    /// The output of these actions is written at once.
    pub(crate) bulk: bool,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Only a delay.
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
    /// A call of the client about a file.
    File {
        method: &'static str,
        params: Value,
    },
    /// A command that the client runs; the agent waits for its end.
    Terminal(Value),
    /// A line: the first text, a repeated text, and the last text.
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
    BreakSocket(SocketBreak),
    WaitSocket,
    IgnoreEof,
    Stall,
}

/// How a client's WebSockets break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketBreak {
    /// The connections are cut.
    Cut,
    /// The client's pongs are dropped, so the server closes the connections after two more pings.
    Pongs,
    /// The connections stay open, but transport nothing.
    Silence,
}

/// How a prompt is answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Finished,
    Cancelled,
    /// Returns after this many steps. Default: the number of steps so far.
    MaxSteps(Option<i64>),
    /// The status, or the agent's own word for the reason.
    Other(String),
    Failed(Failure),
}

/// All actions, and whether each is possible only while a turn runs.
const ACTIONS: [(&str, bool); 33] = [
    ("text", true),
    ("think", true),
    ("step", true),
    ("tool_call", true),
    ("external_tool", true),
    ("question", true),
    ("parallel", true),
    ("hook", false),
    ("usage", false),
    ("status", false),
    ("event", false),
    ("request", false),
    ("read_file", false),
    ("write_file", false),
    ("terminal", false),
    ("raw", false),
    ("raw_base64", false),
    ("end", true),
    ("error", true),
    ("never_answer", true),
    ("wait_cancel", true),
    ("wait_steer", true),
    ("wait_file", false),
    ("repeat", false),
    ("stderr", false),
    ("exit", false),
    ("signal", false),
    ("ignore_signal", false),
    ("close_stdout", false),
    ("break_socket", false),
    ("wait_socket", false),
    ("ignore_eof", false),
    ("stall", false),
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
        let web = web_server(&fields)?;
        let chooses = fields.has("wire") || fields.has("release");
        fields.finish()?;
        Ok(Self { profile, release, half_duplex, before_handshake, turns, session_file, cut, deaf_to, chooses, web })
    }
}

/// Actions that run at a position of the output, in any turn.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) at: At,
    pub(crate) actions: Vec<Action>,
}

impl Cut {
    fn parse(fields: &Fields<'_>) -> Result<Option<Self>, Wrong> {
        let Some(cut) = fields.object("cut")? else { return Ok(None) };
        let at = At::parse(fields, &cut)?;
        let actions = actions("cut", cut.required("actions", cut.get("actions"))?, &mut false)?;
        cut.finish()?;
        Ok(Some(Self { at, actions }))
    }
}

fn decoded<T: serde::de::DeserializeOwned + Default>(value: Option<Value>) -> T {
    value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

fn turn(place: &str, value: &Value) -> Result<Turn, Wrong> {
    if value.is_array() {
        return Ok(Turn { actions: actions(place, value, &mut true)?, end: End::Finished });
    }
    let fields = Fields::new(place, value).map_err(|_| wrong(place, "must be a list of actions, or an object"))?;
    // A turn has a status, too.
    if !fields.has("actions") && ACTIONS.into_iter().any(|(name, _)| name != "status" && fields.has(name)) {
        return Err(wrong(
            place,
            "is an action: a script is a list of turns, and a turn a list of actions, as in [[{…}]]",
        ));
    }
    let list = fields.required("actions", fields.get("actions"))?;
    let actions = actions(place, list, &mut true)?;
    let end = if fields.has("status") { end(&fields, "status")? } else { End::Finished };
    fields.finish()?;
    Ok(Turn { actions, end })
}

/// Reads a list of actions. `in_turn` says whether a turn runs, and is updated.
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
    let mut named = ACTIONS.into_iter().filter(|(name, _)| fields.has(name));
    let kind = match (named.next(), named.next()) {
        (Some((one, _)), Some((other, _))) => {
            return Err(wrong(fields.place(), format_args!("is two actions, \"{one}\" and \"{other}\"")));
        }
        (Some((name, true)), None) if !*in_turn => {
            return Err(fields.wrong(name, "is only possible while a turn runs"));
        }
        (Some((name, _)), None) => kind(name, fields, in_turn)?,
        (None, _) => match fields.names().find(|name| !["delay", "bulk"].contains(name)) {
            None if fields.has("delay") => Kind::Pause,
            None => return Err(wrong(fields.place(), "has no action in it")),
            Some(name) => {
                let known = ACTIONS.map(|(name, _)| name).join(", ");
                return Err(wrong(fields.place(), format_args!("unknown action \"{name}\" (there are {known})")));
            }
        },
    };
    fields.finish()?;
    Ok(Action { delay, bulk, kind })
}

fn kind(name: &'static str, fields: &Fields<'_>, in_turn: &mut bool) -> Result<Kind, Wrong> {
    let flag = |kind| fields.only_true(name).map(|()| kind);
    Ok(match name {
        "text" | "think" => Kind::Parts {
            thinking: name == "think",
            pieces: fields.required(name, fields.texts(name)?)?,
            delay_between: fields.seconds("delay_between")?.unwrap_or_default(),
        },
        // With `{"step": null}` and `{"step": true}` the agent counts by itself.
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
        "read_file" => {
            let file = fields.required_object(name)?;
            let mut params = json!({"path": file.required_text("path")?});
            for name in ["line", "limit"] {
                if let Some(number) = file.whole(name)? {
                    params[name] = json!(number);
                }
            }
            file.finish()?;
            Kind::File { method: "fs/read_text_file", params }
        }
        "write_file" => {
            let file = fields.required_object(name)?;
            let params = json!({"path": file.required_text("path")?, "content": file.required_text("content")?});
            file.finish()?;
            Kind::File { method: "fs/write_text_file", params }
        }
        "terminal" => Kind::Terminal(terminal(&fields.required_object(name)?)?),
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
        "break_socket" => Kind::BreakSocket(match fields.get(name) {
            Some(Value::Bool(true)) => SocketBreak::Cut,
            Some(Value::String(how)) if how == "pongs" => SocketBreak::Pongs,
            Some(Value::String(how)) if how == "silence" => SocketBreak::Silence,
            _ => return Err(fields.wrong(name, "must be true, \"pongs\" or \"silence\"")),
        }),
        "wait_socket" => flag(Kind::WaitSocket)?,
        "ignore_eof" => flag(Kind::IgnoreEof)?,
        _ => flag(Kind::Stall)?,
    })
}

/// The parameters of a terminal.
fn terminal(fields: &Fields<'_>) -> Result<Value, Wrong> {
    let mut params = json!({"command": fields.required_text("command")?});
    params["args"] = json!(fields.texts("args")?.unwrap_or_default());
    if let Some(Value::Object(env)) = fields.shaped::<std::collections::BTreeMap<String, String>>("env")? {
        params["env"] = env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    }
    if let Some(cwd) = fields.text("cwd")? {
        params["cwd"] = json!(cwd);
    }
    if let Some(limit) = fields.whole("output_byte_limit")? {
        params["outputByteLimit"] = json!(limit);
    }
    fields.finish()?;
    Ok(params)
}

/// A line, or the parts of a long line.
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
    let status = fields.required_text(name)?;
    if let Some(reason) = fields.text("stop_reason")? {
        return Ok(End::Other(reason));
    }
    match status.as_str() {
        "finished" => Ok(End::Finished),
        "truncated" | "refused" => Ok(End::Other(status)),
        "cancelled" => Ok(End::Cancelled),
        "max_steps_reached" => Ok(End::MaxSteps(fields.whole("steps")?)),
        other => Err(fields.wrong(
            name,
            format_args!(
                "must be \"finished\", \"cancelled\", \"max_steps_reached\", \"truncated\" or \"refused\", not \"{other}\""
            ),
        )),
    }
}

/// `usage` and the fields next to it, which are the other fields of a `StatusUpdate`.
fn usage(fields: &Fields<'_>) -> Result<Value, Wrong> {
    let usage = fields.required_object("usage")?;
    let mut tokens = Map::new();
    for name in ["input_other", "output", "input_cache_read", "input_cache_creation"] {
        tokens.insert(name.to_owned(), json!(usage.whole(name)?.unwrap_or(0)));
    }
    usage.finish()?;
    let mut status = Map::new();
    for name in
        ["context_usage", "context_tokens", "max_context_tokens", "message_id", "plan_mode", "mcp_status", "cost"]
    {
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
const SIGNALS: [(&str, i32); 7] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ABRT", libc::SIGABRT),
    ("KILL", libc::SIGKILL),
    ("SEGV", libc::SIGSEGV),
    ("TERM", libc::SIGTERM),
];

/// Returns the number of a signal by its name, with or without `SIG`.
#[cfg(unix)]
pub(crate) fn signal_number(name: &str) -> Option<i32> {
    SIGNALS.into_iter().find(|(signal, _)| *signal == name.trim_start_matches("SIG")).map(|(_, number)| number)
}

#[cfg(not(unix))]
pub(crate) fn signal_number(_: &str) -> Option<i32> {
    Some(0)
}

#[cfg(unix)]
fn signal(fields: &Fields<'_>, name: &'static str) -> Result<i32, Wrong> {
    let known = SIGNALS.map(|(signal, _)| signal).join(", ");
    let number = signal_number(&fields.required_text(name)?);
    number.ok_or_else(|| fields.wrong(name, format_args!("must be one of {known}")))
}

#[cfg(not(unix))]
fn signal(fields: &Fields<'_>, name: &'static str) -> Result<i32, Wrong> {
    fields.required_text(name).map(|_| 0)
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
