//! The members of a script that describe the agent itself: its profile, its logins and its server.

use std::time::Duration;

use serde_json::Value;

use super::decoded;
use crate::dialect::{Release, WireVersion};
use crate::fields::{Fields, Wrong};
use crate::messages::SlashCommand;
use crate::release;
use crate::types::{Login, Profile};

/// The behaviour as Kimi Code's server, if it differs from the real server's.
#[cfg_attr(not(feature = "web"), allow(dead_code, reason = "the server is left out"))]
#[derive(Clone, Debug)]
pub(crate) struct WebServer {
    /// The version in the first frame of the WebSocket.
    pub(crate) protocol_version: i64,
    /// The time between two pings. The server disconnects a client that has answered neither of two.
    pub(crate) heartbeat: Duration,
    /// Calls that are answered with an HTTP status only, by name.
    pub(crate) status: Vec<(String, u16)>,
    /// Calls within a turn that are answered after the turn.
    pub(crate) late: Vec<String>,
    /// The server refuses the client's password.
    pub(crate) refuses: bool,
    /// The server is that of another program, which does not have the API.
    pub(crate) foreign: bool,
}

pub(super) fn web_server(fields: &Fields<'_>) -> Result<WebServer, Wrong> {
    let mut web = WebServer {
        protocol_version: 2,
        heartbeat: Duration::from_secs(10),
        status: Vec::new(),
        late: Vec::new(),
        refuses: false,
        foreign: false,
    };
    let Some(given) = fields.object("web")? else { return Ok(web) };
    web.protocol_version = given.whole("protocol_version")?.unwrap_or(web.protocol_version);
    web.heartbeat = given.seconds("heartbeat")?.unwrap_or(web.heartbeat);
    if let Some(Value::Object(status)) = given.shaped::<std::collections::BTreeMap<String, u16>>("status")? {
        let number = |value: Value| value.as_u64().and_then(|number| u16::try_from(number).ok()).unwrap_or(500);
        web.status = status.into_iter().map(|(name, value)| (name, number(value))).collect();
    }
    web.late = given.texts("late")?.unwrap_or_default();
    web.refuses = given.flag("refuses")?.unwrap_or(false);
    web.foreign = given.flag("foreign")?.unwrap_or(false);
    given.finish()?;
    Ok(web)
}

pub(super) fn profile(fields: &Fields<'_>) -> Result<(Option<Release>, Profile), Wrong> {
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
        Some("kimi-web") => profile = Profile::web(own.0, own.1),
        Some(text) => {
            profile.legacy = false;
            profile.version = WireVersion::spoken(text).ok_or_else(|| {
                let latest = WireVersion::LATEST;
                fields.wrong(
                    "wire",
                    format_args!(
                        "must be \"legacy\", \"acp\", \"kimi-web\" or one of \"1.0\" to \"{latest}\", not \"{text}\""
                    ),
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
    profile.session_files = fields.flag("session_files")?.unwrap_or(profile.session_files);
    profile.forms = fields.flag("forms")?.unwrap_or(profile.forms);
    profile.embedded_context = fields.flag("embedded_context")?.unwrap_or(profile.embedded_context);
    profile.login = login(fields)?;
    profile.sessions_per_page = match fields.whole("sessions_per_page")?.map(usize::try_from) {
        None => None,
        Some(Ok(size)) if size > 0 => Some(size),
        Some(_) => return Err(fields.wrong("sessions_per_page", "must be a whole number from 1 on")),
    };
    profile.silent = fields.flag("silent_errors")?.unwrap_or(profile.silent);
    Ok((release, profile))
}

/// Reads the ways to log in. `variables` of a way are not sent.
fn login(fields: &Fields<'_>) -> Result<Login, Wrong> {
    let Some(given) = fields.object("login")? else { return Ok(Login::default()) };
    let mut login = Login { is_required: given.flag("required")?.unwrap_or(true), ..Login::default() };
    for method in given.list("methods")?.into_iter().flatten() {
        let method = Fields::new("login.methods", method)?;
        let id = method.required_text("id")?;
        let variables = method.texts("variables")?.unwrap_or_default();
        let members = method.names().filter(|name| *name != "variables");
        login.methods.push(members.map(|name| (name.to_owned(), method.value(name))).collect());
        login.variables.push((id, variables));
    }
    given.finish()?;
    Ok(login)
}
