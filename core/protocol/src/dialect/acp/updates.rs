//! The agent's updates during a turn.

use std::borrow::Cow;

use agent_client_protocol_schema::v1::{
    self as acp, AvailableCommand, CompactionStatus, CompactionUpdate, ContentBlock, SessionUpdate, ToolCall,
    ToolCallUpdateFields, UsageUpdate,
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Acp, config, content, failure, meta, subagents, tools, unknown};
use crate::dialect::Incoming;
use crate::json::object;
use crate::json::scan::{for_each_member, plain_text_part, text_of};
use crate::jsonrpc::Params;
use crate::messages::{CompactionBegin, CompactionEnd, ContentPart, SlashCommand, StatusUpdate, ThinkPart};

/// The other updates that concern the session, and not the running turn.
const ASIDE: [&str; 3] = ["available_commands_update", "session_info_update", "config_option_update"];

/// Notices for the user. They are live even while the past of a session is loaded.
const NOTICE: &str = "notice";

/// An update as text, with the members that say how to read the rest.
struct Update<'a> {
    text: &'a str,
    kind: Cow<'a, str>,
    /// The content, if there are no other members, and no `_meta` next to the update.
    content: Option<&'a str>,
    meta: Option<acp::Meta>,
}

impl<'a> Update<'a> {
    fn scan(params: &Params<'a>) -> Result<Self, String> {
        let text = params.member("update")?.ok_or("missing field `update`")?;
        if !text.starts_with('{') {
            return Err("update: not an object".to_owned());
        }
        let (mut kind, mut content, mut meta, mut others) = (None, None, None, 0);
        let read = for_each_member(text, |name, value| {
            match name.decode().as_deref() {
                Some("sessionUpdate") => kind = Some(value),
                Some("content") => content = Some(value),
                name => {
                    others += 1;
                    if name == Some("_meta") {
                        meta = Some(value);
                    }
                }
            }
            Ok(())
        });
        let kind = kind.filter(|_| read.is_ok()).and_then(text_of);
        let kind = kind.ok_or("sessionUpdate: missing, or not a string")?;
        let beside = params.member("_meta").unwrap_or_default();
        let content = content.filter(|_| others == 0 && beside.is_none());
        Ok(Self { text, kind, content, meta: meta::of_both(meta::read(beside), meta::read(meta).as_ref()) })
    }

    /// Decodes the updates that have a canonical form. `None` for others. Each type is decoded by itself, because serde
    /// would copy all members before the tag.
    fn decode(&self) -> Option<serde_json::Result<SessionUpdate>> {
        Some(match &*self.kind {
            "agent_message_chunk" => object(self.text).map(SessionUpdate::AgentMessageChunk),
            "agent_thought_chunk" => object(self.text).map(SessionUpdate::AgentThoughtChunk),
            "tool_call" => self.tool_object().map(SessionUpdate::ToolCall),
            "tool_call_update" => self.tool_object().map(SessionUpdate::ToolCallUpdate),
            "current_mode_update" => object(self.text).map(SessionUpdate::CurrentModeUpdate),
            "usage_update" => object(self.text).map(SessionUpdate::UsageUpdate),
            "compaction_update" => object(self.text).map(SessionUpdate::CompactionUpdate),
            "available_commands_update" => object(self.text).map(SessionUpdate::AvailableCommandsUpdate),
            _ => return None,
        })
    }

    /// Decodes an update of a tool call, whose content is kept as text if it has no known form.
    fn tool_object<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        // The types of the protocol's crate leave out what they cannot read.
        let readable = if tools::is_plain(self.text) { None } else { tools::readable(self.text) };
        object(readable.as_deref().unwrap_or(self.text))
    }

    /// Reads a piece of the answer or of the thinking that is only text. Most updates are such pieces.
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
            Err(error) => match params.text("sessionId") {
                Ok(session) if !self.is_ours(&session) => return noise(format!("of another session, `{session}`")),
                _ => return Incoming::event(unknown("session/update", params.to_json().get(), Some(error))),
            },
        };
        if !self.is_ours(&session) {
            return noise(format!("of another session, `{session}`"));
        }
        if update.kind == subagents::UPDATE {
            let mut all = Vec::new();
            self.subagent_updated(update.text, update.meta, &mut all);
            return Incoming::batch(all);
        }
        if !ASIDE.contains(&&*update.kind) && update.kind != NOTICE && self.is_past() {
            return Incoming::Batch(Vec::new());
        }
        if self.prompting && (self.failure.is_some() || update.kind == failure::STATE_UPDATE) {
            self.note_failure(&update.kind, update.text);
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
            Some(Ok(decoded)) => {
                // The result of the tool call contains it.
                let is_of_tool = matches!(decoded, SessionUpdate::ToolCallUpdate(_));
                self.update(&update, decoded, &mut all);
                let meta = update.meta.filter(|_| !is_of_tool);
                if meta.is_some_and(|meta| !meta::put_into_first(meta, &mut all)) {
                    self.pass_on(&update.kind, update.text, None, &mut all);
                }
            }
            None if update.kind == "config_option_update" => {
                if let Some(options) = config::listed_in(update.text) {
                    self.options_listed(&options, &mut all);
                }
                self.pass_on(&update.kind, update.text, None, &mut all);
            }
            Some(Err(error)) => self.pass_on(&update.kind, update.text, Some(error.to_string()), &mut all),
            None => self.pass_on(&update.kind, update.text, None, &mut all),
        }
        Incoming::batch(all)
    }

    /// Passes on a notification that is not of the protocol. It belongs to the turn, unless it names another session.
    pub(super) fn read_unknown(&mut self, method: &str, params: &Params<'_>) -> Incoming {
        match params.text("sessionId") {
            Ok(session) if !self.is_ours(&session) => {
                Incoming::InvalidLine(format!("a notification `{method}` of another session, `{session}`"))
            }
            _ => Incoming::event(unknown(method, params.to_json().get(), None)),
        }
    }

    /// Converts an update without a counterpart to an unknown event.
    pub(super) fn pass_on(&mut self, kind: &str, update: &str, error: Option<String>, all: &mut Vec<Incoming>) {
        let event = unknown(kind, update, error);
        if ASIDE.contains(&kind) {
            all.push(Incoming::out_of_turn(event));
        } else {
            if kind != NOTICE {
                self.begin_step(all);
            }
            all.push(Incoming::event(event));
        }
    }

    fn update(
        &mut self,
        Update { kind, text: raw, meta, .. }: &Update<'_>,
        update: SessionUpdate,
        all: &mut Vec<Incoming>,
    ) {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                let part = content::part(chunk.content);
                self.part(part, all);
                self.usage_of_chunk(chunk.meta.as_ref(), all);
            }
            SessionUpdate::AgentThoughtChunk(chunk) => match chunk.content {
                ContentBlock::Text(text) => {
                    let think = ThinkPart { think: text.text, encrypted: None, extra: Default::default() };
                    self.part(ContentPart::Think(think), all);
                }
                _ => self.pass_on(kind, raw, None, all),
            },
            SessionUpdate::ToolCall(call) => {
                self.begin_step(all);
                self.note_sessions(&call.tool_call_id.0, &call.content);
                let (id, name, fields) = taken_apart(call);
                self.tool_call(&id, &name, fields, meta.as_ref(), all);
                self.tools.count(&id);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.begin_step(all);
                self.note_sessions(&update.tool_call_id.0, update.fields.content.as_deref().unwrap_or_default());
                self.tool_update(&update.tool_call_id.0, update.fields, meta.as_ref(), all);
                self.tools.count(&update.tool_call_id.0);
            }
            SessionUpdate::CurrentModeUpdate(update) => {
                self.mode_entered(&update.current_mode_id.0, all);
            }
            // It may arrive after its turn, possibly during the next turn.
            SessionUpdate::UsageUpdate(usage) => all.push(Incoming::out_of_turn(context(&usage))),
            SessionUpdate::CompactionUpdate(update) => self.compaction(&update, raw, all),
            SessionUpdate::AvailableCommandsUpdate(update) => {
                all.push(Incoming::Commands(update.available_commands.into_iter().map(command).collect()));
                // The event shows programs that the list has changed, and has fields that the list lacks.
                self.pass_on(kind, raw, None, all);
            }
            _ => self.pass_on(kind, raw, None, all),
        }
    }

    /// Handles an update of a compaction. The agent repeats it with each change; the first and the last become events.
    fn compaction(&mut self, update: &CompactionUpdate, raw: &str, all: &mut Vec<Incoming>) {
        let id = &*update.compaction_id.0;
        if id.len() > subagents::MAX_ID {
            return self.pass_on("compaction_update", raw, None, all);
        }
        let runs = self.compaction.as_deref() == Some(id);
        match update.status {
            CompactionStatus::InProgress if runs => {}
            CompactionStatus::InProgress => {
                self.compaction = Some(id.to_owned());
                self.begin_step(all);
                all.push(Incoming::event(CompactionBegin { extra: Default::default() }));
            }
            CompactionStatus::Completed | CompactionStatus::Failed | CompactionStatus::Cancelled if runs => {
                self.compaction = None;
                let mut end = CompactionEnd { extra: Default::default() };
                end.extra.insert("status", json!(update.status));
                all.push(Incoming::event(end));
            }
            _ => self.pass_on("compaction_update", raw, None, all),
        }
    }

    fn part(&mut self, part: ContentPart, all: &mut Vec<Incoming>) {
        self.begin_step(all);
        all.push(Incoming::event(part));
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
    // If the tool has no name of its own, the title is the tool's name, until an update describes the call.
    let name = name.or_else(|| named(meta.as_ref())).unwrap_or(title);
    (tool_call_id.0.to_string(), name, fields)
}

/// Returns the tool's name from the field that Qwen Code and its forks use. Their titles are for people.
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

/// Returns the size of the context and its use.
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
