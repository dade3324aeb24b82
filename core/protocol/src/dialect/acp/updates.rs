//! What the agent tells while it works.

use agent_client_protocol_schema::v1::{
    self as acp, AvailableCommand, ContentBlock, SessionUpdate, ToolCall, ToolCallUpdateFields, UsageUpdate,
};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::opening::{Stage, mode_option};
use super::{Acp, content, unknown};
use crate::dialect::Incoming;
use crate::wire::jsonrpc::{MAX_DEPTH, is_too_deep};
use crate::wire::value::{Key, object};
use crate::wire::{ContentPart, Event, Json, SlashCommand, StatusUpdate, ThinkPart, UnknownEvent};

/// The updates that are read here; others are passed on as they came.
const READ: [&str; 8] = [
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "current_mode_update",
    "config_option_update",
    "usage_update",
    "available_commands_update",
];
/// Of others, those that tell of the session, and not of the turn that happens to run.
const ASIDE: [&str; 3] = ["available_commands_update", "session_info_update", "config_option_update"];

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "sessionId")]
    session: Key<'a>,
    #[serde(borrow)]
    update: &'a RawValue,
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    kind: Key<'a>,
}

impl Acp {
    pub(super) fn read_update(&mut self, params: &RawValue) -> Incoming {
        let noise = |reason: String| Incoming::Noise(format!("an update that is none: {reason}"));
        let params: Params<'_> = match object(params.get()) {
            Ok(params) => params,
            Err(error) => return noise(error.to_string()),
        };
        let kind = match object::<Tag<'_>>(params.update.get()) {
            Ok(tag) => tag.kind.0,
            Err(error) => return noise(error.to_string()),
        };
        if !self.is_ours(&params.session.0) {
            return noise(format!("of another session, `{}`", params.session.0));
        }
        if is_too_deep(params.update.get()) {
            let left_out = Event::Unknown(UnknownEvent {
                kind: kind.into_owned(),
                payload: Json::null(),
                error: Some(format!("nested deeper than {MAX_DEPTH} levels, and left out")),
                extra: Default::default(),
            });
            return Incoming::event(left_out);
        }
        if matches!(self.stage, Stage::Session) && self.wishes.session_id.is_some() && !ASIDE.contains(&&*kind) {
            // A session that is loaded tells of its past.
            return Incoming::Several(Vec::new());
        }
        let mut all = Vec::new();
        if !READ.contains(&&*kind) {
            self.pass_on(&kind, params.update, None, &mut all);
            return Incoming::several(all);
        }
        match object::<SessionUpdate>(params.update.get()) {
            Ok(update) => self.update(&kind, update, params.update, &mut all),
            Err(error) => self.pass_on(&kind, params.update, Some(error.to_string()), &mut all),
        }
        Incoming::several(all)
    }

    /// An update that has no counterpart, as it came.
    fn pass_on(&mut self, kind: &str, update: &RawValue, error: Option<String>, all: &mut Vec<Incoming>) {
        let event = unknown(kind, update, error);
        if ASIDE.contains(&kind) {
            all.push(Incoming::aside(event));
        } else {
            self.begin_step(all);
            all.push(Incoming::event(event));
        }
    }

    fn update(&mut self, kind: &str, update: SessionUpdate, raw: &RawValue, all: &mut Vec<Incoming>) {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.part(content::part(chunk.content), all),
            SessionUpdate::AgentThoughtChunk(chunk) => match chunk.content {
                ContentBlock::Text(text) => {
                    let think = ThinkPart { think: text.text, encrypted: None, extra: Default::default() };
                    self.part(ContentPart::Think(think), all);
                }
                _ => self.pass_on(kind, raw, None, all),
            },
            SessionUpdate::ToolCall(call) => {
                self.begin_step(all);
                let (id, name, fields) = taken_apart(call);
                self.tool_call(&id, &name, fields, all);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.begin_step(all);
                self.tool_update(&update.tool_call_id.0, update.fields, all);
            }
            SessionUpdate::CurrentModeUpdate(update) => {
                self.modes.enter(&update.current_mode_id.0);
                self.tell_mode(all);
            }
            SessionUpdate::ConfigOptionUpdate(update) => {
                let mode = update.config_options.iter().find_map(mode_option);
                if mode.is_some_and(|(_, current, _)| self.modes.enter(&current)) {
                    self.tell_mode(all);
                }
                self.pass_on(kind, raw, None, all);
            }
            // It comes after the turn that it tells of, maybe when the next has begun.
            SessionUpdate::UsageUpdate(usage) => all.push(Incoming::aside(context(&usage))),
            SessionUpdate::AvailableCommandsUpdate(update) => {
                all.push(Incoming::Commands(update.available_commands.into_iter().map(command).collect()));
                // Programs see in it that the list has changed, and what the list has no word for.
                self.pass_on(kind, raw, None, all);
            }
            _ => self.pass_on(kind, raw, None, all),
        }
    }

    fn part(&mut self, part: ContentPart, all: &mut Vec<Incoming>) {
        self.begin_step(all);
        all.push(Incoming::event(part));
    }

    fn tell_mode(&self, all: &mut Vec<Incoming>) {
        let update = StatusUpdate { plan_mode: Some(self.modes.in_plan()), ..StatusUpdate::unchanged() };
        all.push(Incoming::aside(update));
    }
}

fn taken_apart(call: ToolCall) -> (String, String, ToolCallUpdateFields) {
    let ToolCall { tool_call_id, title, name, kind, status, content, locations, raw_input, raw_output, meta, .. } =
        call;
    let mut fields = ToolCallUpdateFields::new().kind(kind).status(status).content(content);
    if !locations.is_empty() {
        fields = fields.locations(locations);
    }
    fields.raw_input = raw_input;
    fields.raw_output = raw_output;
    // Without a name of its own the title is the tool's name, until an update says what it does.
    let name = name.or_else(|| named(meta.as_ref())).unwrap_or(title);
    (tool_call_id.0.to_string(), name, fields)
}

/// The tool's name where Qwen Code and its relatives have it, whose titles are for people.
pub(super) fn named(meta: Option<&acp::Meta>) -> Option<String> {
    Some(meta?.get("toolName")?.as_str()?.to_owned())
}

fn command(command: AvailableCommand) -> SlashCommand {
    let AvailableCommand { name, description, input, .. } = command;
    let mut command = SlashCommand { name, description, aliases: Vec::new(), extra: Default::default() };
    if let Some(input) = input {
        command.extra.insert("input", json!(input));
    }
    command
}

/// How full the context is.
fn context(usage: &UsageUpdate) -> StatusUpdate {
    let tokens = |count: u64| Some(i64::try_from(count).unwrap_or(i64::MAX));
    let mut update = StatusUpdate {
        context_tokens: tokens(usage.used),
        max_context_tokens: tokens(usage.size),
        context_usage: (usage.size > 0).then(|| usage.used as f64 / usage.size as f64),
        ..StatusUpdate::unchanged()
    };
    if let Some(cost) = &usage.cost {
        update.extra.insert("cost", json!(cost));
    }
    update
}
