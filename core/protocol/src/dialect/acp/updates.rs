//! What the agent tells while it works.

use std::borrow::Cow;

use agent_client_protocol_schema::v1::{
    self as acp, AvailableCommand, ContentBlock, SessionUpdate, ToolCall, ToolCallUpdateFields, UsageUpdate,
};
use serde_json::json;

use super::opening::{Stage, mode_option};
use super::{Acp, content, unknown};
use crate::dialect::Incoming;
use crate::wire::jsonrpc::{MAX_DEPTH, Params, is_too_deep};
use crate::wire::scan::{for_each_member, plain_text_part, text_of};
use crate::wire::value::object;
use crate::wire::{ContentPart, Event, Json, SlashCommand, StatusUpdate, ThinkPart, UnknownEvent};

/// Of others, those that tell of the session, and not of the turn that happens to run.
const ASIDE: [&str; 3] = ["available_commands_update", "session_info_update", "config_option_update"];

/// An update, as text, with the members that tell how to read the rest.
struct Update<'a> {
    text: &'a str,
    kind: Cow<'a, str>,
    /// The content, if the update has no other members.
    content: Option<&'a str>,
}

impl<'a> Update<'a> {
    fn scan(params: &Params<'a>) -> Result<Self, String> {
        let text = params.member("update")?.ok_or("missing field `update`")?;
        if !text.starts_with('{') {
            return Err("update: not an object".to_owned());
        }
        let (mut kind, mut content, mut others) = (None, None, 0);
        let mut is_repeated = false;
        let read = for_each_member(text, |name, value| {
            match name.decode().as_deref() {
                Some("sessionUpdate") => is_repeated |= kind.replace(value).is_some(),
                Some("content") => content = Some(value),
                _ => others += 1,
            }
            Ok(())
        });
        let kind = kind.filter(|_| read.is_ok() && !is_repeated).and_then(text_of);
        let kind = kind.ok_or("sessionUpdate: missing, repeated or not a string")?;
        Ok(Self { text, kind, content: content.filter(|_| others == 0) })
    }

    /// Decodes the updates that have a canonical form; nothing for others. The type is known, so it is decoded by itself:
    /// serde would copy everything before it looks for the tag.
    fn decode(&self) -> Option<serde_json::Result<SessionUpdate>> {
        Some(match &*self.kind {
            "agent_message_chunk" => object(self.text).map(SessionUpdate::AgentMessageChunk),
            "agent_thought_chunk" => object(self.text).map(SessionUpdate::AgentThoughtChunk),
            "tool_call" => object(self.text).map(SessionUpdate::ToolCall),
            "tool_call_update" => object(self.text).map(SessionUpdate::ToolCallUpdate),
            "current_mode_update" => object(self.text).map(SessionUpdate::CurrentModeUpdate),
            "config_option_update" => object(self.text).map(SessionUpdate::ConfigOptionUpdate),
            "usage_update" => object(self.text).map(SessionUpdate::UsageUpdate),
            "available_commands_update" => object(self.text).map(SessionUpdate::AvailableCommandsUpdate),
            _ => return None,
        })
    }

    /// A piece of the answer, or of the thinking, that is only text. Such pieces are most of what an agent sends.
    fn plain_text(&self) -> Option<ContentPart> {
        let text = || plain_text_part(self.content?);
        match &*self.kind {
            "agent_message_chunk" => text().map(ContentPart::text),
            "agent_thought_chunk" => {
                text().map(|think| ContentPart::Think(ThinkPart { think, encrypted: None, extra: Default::default() }))
            }
            _ => None,
        }
    }
}

impl Acp {
    pub(super) fn read_update(&mut self, params: &Params<'_>) -> Incoming {
        let noise = |reason: String| Incoming::InvalidLine(format!("an update that is none: {reason}"));
        let read = params.text("sessionId").and_then(|session| Update::scan(params).map(|update| (session, update)));
        let (session, update) = match read {
            Ok(read) => read,
            Err(error) => return noise(error),
        };
        if !self.is_ours(&session) {
            return noise(format!("of another session, `{session}`"));
        }
        if is_too_deep(update.text) {
            let left_out = Event::Unknown(UnknownEvent {
                kind: update.kind.into_owned(),
                payload: Json::null(),
                error: Some(format!("nested deeper than {MAX_DEPTH} levels, and left out")),
                extra: Default::default(),
            });
            return Incoming::event(left_out);
        }
        if matches!(self.stage, Stage::Session) && self.params.session_id.is_some() && !ASIDE.contains(&&*update.kind) {
            // A session that is loaded tells of its past.
            return Incoming::Batch(Vec::new());
        }
        let mut all = Vec::new();
        if let Some(part) = update.plain_text() {
            self.begin_step(&mut all);
            if all.is_empty() {
                return Incoming::event(part);
            }
            all.push(Incoming::event(part));
            return Incoming::Batch(all);
        }
        match update.decode() {
            Some(Ok(decoded)) => self.update(&update.kind, decoded, update.text, &mut all),
            Some(Err(error)) => self.pass_on(&update.kind, update.text, Some(error.to_string()), &mut all),
            None => self.pass_on(&update.kind, update.text, None, &mut all),
        }
        Incoming::batch(all)
    }

    /// An update that has no counterpart, as it came.
    fn pass_on(&mut self, kind: &str, update: &str, error: Option<String>, all: &mut Vec<Incoming>) {
        let event = unknown(kind, update, error);
        if ASIDE.contains(&kind) {
            all.push(Incoming::out_of_turn(event));
        } else {
            self.begin_step(all);
            all.push(Incoming::event(event));
        }
    }

    fn update(&mut self, kind: &str, update: SessionUpdate, raw: &str, all: &mut Vec<Incoming>) {
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
            SessionUpdate::UsageUpdate(usage) => all.push(Incoming::out_of_turn(context(&usage))),
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
        all.push(Incoming::out_of_turn(update));
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
