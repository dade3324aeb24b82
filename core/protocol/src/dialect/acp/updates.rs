//! The agent's updates during a turn.

use std::borrow::Cow;

use agent_client_protocol_schema::v1::{
    self as acp, CompactionStatus, CompactionUpdate, ContentBlock, SessionUpdate, ToolCall, ToolCallUpdateFields,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::opening::Stage;
use super::pieces::Turn;
use super::tools::is_end;
use super::unreadable::Of;
use super::{Acp, config, content, failure, meta, plan, requests, subagents, tools, unknown};
use crate::cost::money;
use crate::dialect::Incoming;
use crate::json::scan::{for_each_member, plain_text_part, text_of};
use crate::json::{lenient, object, whole_number};
use crate::jsonrpc::Params;
use crate::messages::value::keep_unknown;
use crate::messages::{
    CompactionBegin, CompactionEnd, ContentPart, Cost, CostSource, Json, SlashCommand, StatusUpdate,
};
use crate::printable::printable_line;

/// The other updates that concern the session, and not the running turn.
const ASIDE: [&str; 3] = ["available_commands_update", "session_info_update", "config_option_update"];

/// Notices for the user.
const NOTICE: &str = "notice";
const MODE_UPDATE: &str = "current_mode_update";

/// Updates about the present, even while the past of a session is loaded.
const STATE: [&str; 3] = [NOTICE, "usage_update", MODE_UPDATE];

/// An update as text, with the members that say how to read the rest.
struct Update<'a> {
    text: &'a str,
    kind: Cow<'a, str>,
    /// The content, if there are no other members, and no `_meta` next to the update.
    content: Option<&'a str>,
    message: Option<Cow<'a, str>>,
    meta: Option<acp::Meta>,
}

impl<'a> Update<'a> {
    fn scan(params: &Params<'a>) -> Result<Self, String> {
        let text = params.member("update")?.ok_or("missing field `update`")?;
        if !text.starts_with('{') {
            return Err("update: not an object".to_owned());
        }
        let (mut kind, mut content, mut message, mut meta, mut others) = (None, None, None, None, 0);
        let read = for_each_member(text, |name, value| {
            match name.decode().as_deref() {
                Some("sessionUpdate") => kind = Some(value),
                Some("content") => content = Some(value),
                name => {
                    others += 1;
                    match name {
                        Some("_meta") => meta = Some(value),
                        Some("messageId") => message = Some(value),
                        _ => {}
                    }
                }
            }
            Ok(())
        });
        let kind = kind.filter(|_| read.is_ok()).and_then(text_of);
        let kind = kind.ok_or("sessionUpdate: missing, or not a string")?;
        let beside = params.member("_meta").unwrap_or_default();
        let content = content.filter(|_| others == 0 && beside.is_none());
        let message = message.and_then(text_of);
        Ok(Self { text, kind, content, message, meta: meta::of_both(meta::read(beside), meta::read(meta).as_ref()) })
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
            "compaction_update" => object(self.text).map(SessionUpdate::CompactionUpdate),
            _ => return None,
        })
    }

    /// Decodes an update of a tool call, whose content is kept as text if it has no known form.
    fn tool_object<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        // The types of the protocol's crate leave out what they cannot read.
        let readable =
            if tools::is_plain(self.text, self.kind == "tool_call") { None } else { tools::readable(self.text) };
        object(readable.as_deref().unwrap_or(self.text))
    }

    /// Reads a piece of the answer or of the thinking that is only text. Most updates are such pieces.
    fn plain_text(&self) -> Option<ContentPart> {
        let text = || plain_text_part(self.content?);
        match &*self.kind {
            "agent_message_chunk" => text().map(ContentPart::text),
            "agent_thought_chunk" => text().map(ContentPart::think),
            _ => None,
        }
    }
}

impl Acp {
    pub(super) fn read_update(&mut self, params: &Params<'_>) -> Incoming {
        let read = params.id("sessionId").and_then(|session| Update::scan(params).map(|update| (session, update)));
        let (session, update) = match read {
            Ok(read) => read,
            Err(error) => match params.id("sessionId") {
                Ok(session) if !self.is_ours(&session) => return self.of_another("session/update", &session, params),
                _ => return Incoming::event(unknown("session/update", params.to_json().get(), Some(error))),
            },
        };
        if !self.is_ours(&session) {
            return self.of_another("session/update", &session, params);
        }
        if update.kind == subagents::UPDATE {
            let mut all = Vec::new();
            self.subagent_updated(update.text, update.meta, &mut all);
            return Incoming::batch(all);
        }
        if update.kind == "usage_update" {
            self.usage_of_session(update.meta.as_ref());
        }
        if update.kind == MODE_UPDATE && matches!(self.stage, Stage::Session) {
            return self.mode_entered_early(update.text);
        }
        if !STATE.contains(&&*update.kind) && !ASIDE.contains(&&*update.kind) && self.is_past() {
            return Incoming::Batch(Vec::new());
        }
        let mut all = Vec::new();
        if update.kind == "tool_call" && self.prompting && self.has_waiting() {
            // The text stays before the call.
            self.deliver_waiting(&mut all);
            all.push(self.read_live(update));
            return Incoming::batch(all);
        }
        if !matches!(&*update.kind, "agent_message_chunk" | "agent_thought_chunk") {
            return self.read_live(update);
        }
        let size = update.text.len();
        let turn = self.turn_of_piece(update.message.as_deref());
        if turn == Turn::Own {
            if !self.has_waiting() {
                return self.read_live(update);
            }
            self.leave_waiting(&mut all);
            all.push(self.read_live(update));
        } else {
            // It begins no step of this turn.
            let is_prompting = std::mem::replace(&mut self.prompting, false);
            let incoming = self.read_live(update);
            self.prompting = is_prompting;
            self.place_piece(turn, incoming, size, &mut all);
        }
        Incoming::batch(all)
    }

    /// Reads an update that is not of the past.
    fn read_live(&mut self, update: Update<'_>) -> Incoming {
        if self.prompting {
            self.note_agent_error(&update.kind, update.text);
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
        if let Some(read) = plan::read(&update.kind, update.text) {
            match read {
                Ok(event) => {
                    self.begin_step(&mut all);
                    all.push(Incoming::event(event));
                    if let Some(meta) = update.meta {
                        meta::put_into_first(meta, &mut all);
                    }
                }
                Err(error) => self.pass_on(&update.kind, update.text, Some(error), &mut all),
            }
            return Incoming::batch(all);
        }
        match update.decode() {
            // It may arrive after its turn, possibly during the next turn.
            None if update.kind == "usage_update" => match context(update.text) {
                Some(status) => {
                    all.push(Incoming::out_of_turn(status));
                    if let Some(meta) = update.meta {
                        meta::put_into_first(meta, &mut all);
                    }
                }
                None => self.pass_on(&update.kind, update.text, None, &mut all),
            },
            Some(Ok(decoded)) => {
                // The result of the tool call contains it.
                let is_of_tool = matches!(decoded, SessionUpdate::ToolCallUpdate(_));
                self.note_left_out(update.text, &decoded);
                self.update(&update, decoded, &mut all);
                let meta = update.meta.filter(|_| !is_of_tool);
                if meta.is_some_and(|meta| !meta::put_into_first(meta, &mut all)) {
                    self.pass_on(&update.kind, update.text, None, &mut all);
                }
            }
            None if update.kind == "available_commands_update" => {
                all.extend(commands(update.text).map(Incoming::Commands));
                // The event shows programs that the list has changed, and has fields that the list lacks.
                self.pass_on(&update.kind, update.text, None, &mut all);
                if let Some(meta) = update.meta {
                    meta::put_into_first(meta, &mut all);
                }
            }
            None if update.kind == "config_option_update" => {
                if let Some(options) = config::listed_in(update.text) {
                    self.options_listed(&options, &mut all);
                }
                self.pass_on(&update.kind, update.text, None, &mut all);
            }
            Some(Err(error)) => match loose_parts(&update) {
                Some(parts) => parts.into_iter().for_each(|part| self.part(part, &mut all)),
                None => self.pass_on(&update.kind, update.text, Some(error.to_string()), &mut all),
            },
            None => self.pass_on(&update.kind, update.text, None, &mut all),
        }
        Incoming::batch(all)
    }

    /// Passes on a notification of a session that is not known, outside of turns.
    fn of_another(&self, method: &str, session: &str, params: &Params<'_>) -> Incoming {
        let reason = format!("of another session, `{session}`");
        if self.is_observed || !matches!(self.stage, Stage::Setting(..)) {
            return Incoming::InvalidLine(format!("a notification `{method}` {reason}"));
        }
        Incoming::out_of_turn(unknown(method, params.to_json().get(), Some(reason)))
    }

    /// Passes on a notification that is not of the protocol. It belongs to the turn, unless it names another session.
    pub(super) fn read_unknown(&mut self, method: &str, params: &Params<'_>) -> Incoming {
        if requests::is_request(method) && !std::mem::replace(&mut self.has_warned_of_id, true) {
            let method = printable_line(method);
            tracing::warn!(method = &*method, "the agent sends a request without an id, which can't be answered");
        }
        match params.id("sessionId") {
            Ok(session) if !self.is_ours(&session) => self.of_another(method, &session, params),
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
                let part = content::part(chunk.content).of_message(id_of(chunk.message_id));
                self.part(part, all);
                self.usage_of_chunk(chunk.meta.as_ref(), all);
            }
            SessionUpdate::AgentThoughtChunk(chunk) => match chunk.content {
                ContentBlock::Text(text) => {
                    self.part(ContentPart::think(text.text).of_message(id_of(chunk.message_id)), all);
                }
                _ => self.pass_on(kind, raw, None, all),
            },
            SessionUpdate::ToolCall(call) => {
                self.begin_step(all);
                self.note_sessions(&call.tool_call_id.0, &call.content);
                let title = call.title.clone();
                let (id, name, fields) = taken_apart(call);
                self.resume_earlier(&id, &fields, true, all);
                if is_end(&fields) && self.tools.take_late(&id, &fields) {
                    self.pass_on(kind, raw, None, all);
                }
                self.tool_call(&id, &name, fields, meta.as_ref(), all);
                self.note_unreadable(&id, raw, Of::Update);
                self.tools.titled(&id, &title);
                self.tools.count(&id);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.begin_step(all);
                self.note_sessions(&update.tool_call_id.0, update.fields.content.as_deref().unwrap_or_default());
                self.resume_earlier(&update.tool_call_id.0, &update.fields, false, all);
                if self.tools.take_late(&update.tool_call_id.0, &update.fields) {
                    self.pass_on(kind, raw, None, all);
                }
                self.tool_update(&update.tool_call_id.0, update.fields, meta.as_ref(), all);
                self.note_unreadable(&update.tool_call_id.0, raw, Of::Update);
                self.tools.count(&update.tool_call_id.0);
            }
            SessionUpdate::CurrentModeUpdate(update) => {
                self.mode_entered(&update.current_mode_id.0, all);
            }
            SessionUpdate::CompactionUpdate(update) => self.compaction(&update, raw, all),
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

fn id_of(id: Option<acp::MessageId>) -> Option<String> {
    Some(id?.0.to_string())
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

/// Returns the tool's name from the fields that Qwen Code and its forks, and Mistral Vibe use. Their titles are for people.
pub(super) fn named(meta: Option<&acp::Meta>) -> Option<String> {
    let meta = meta?;
    let name = ["toolName", "tool_name"].iter().find_map(|field| meta.get(*field)?.as_str());
    name.map(str::to_owned)
}

/// Returns the commands of a list. A command needs a name only. `None` if the update has no list.
fn commands(update: &str) -> Option<Vec<SlashCommand>> {
    let mut update = lenient::value(update)?;
    let read = |command: Value| {
        let text = |name: &str| command.get(name).and_then(Value::as_str).map(str::to_owned);
        let Some(name) = text("name") else {
            tracing::debug!(field = "availableCommands", "a command without a name is left out");
            return None;
        };
        let description = text("description").unwrap_or_default();
        let mut read = SlashCommand { name, description, aliases: Vec::new(), extra: Default::default() };
        if let Some(input) = command.get("input").filter(|input| !input.is_null()) {
            read.extra.insert("input", input.clone());
        }
        Some(read)
    };
    match update.get_mut("availableCommands").map(Value::take) {
        Some(Value::Array(commands)) => Some(commands.into_iter().filter_map(read).collect()),
        _ => {
            tracing::debug!(field = "availableCommands", "a list of commands that can't be read is left out");
            None
        }
    }
}

/// Returns the size of the context, its use and the cost. `None` if the update has none of them.
fn context(update: &str) -> Option<StatusUpdate> {
    // All members are optional here: Claude Code (0.22.2) sends a cost with `used: null`.
    #[derive(Deserialize)]
    struct Usage {
        used: Option<Json>,
        size: Option<Json>,
        cost: Option<Json>,
    }
    let Usage { used, size, cost } = object(update).ok()?;
    let count = |given: Option<Json>| whole_number(&given?.to_value());
    let (used, size) = (count(used), count(size));
    if used.is_none() && size.is_none() && cost.is_none() {
        return None;
    }
    let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let mut update = StatusUpdate {
        context_tokens: used.map(tokens),
        max_context_tokens: size.map(tokens),
        context_usage: used.zip(size.filter(|size| *size > 0)).map(|(used, size)| used as f64 / size as f64),
        ..StatusUpdate::unchanged()
    };
    if let Some(given) = cost {
        match cost_of(&given) {
            Some(cost) => update.cost = Some(cost),
            None => keep_unknown(&mut update.extra, "cost".to_owned(), given),
        }
    }
    Some(update)
}

/// Reads a cost. `None` if it has no amount from 0 on, or no currency.
fn cost_of(given: &Json) -> Option<Cost> {
    let acp::Cost { amount, currency, meta, .. } = given.decode().ok()?;
    let mut cost = money(amount, &currency)?.into_cost(CostSource::Reported);
    if let Some(meta) = meta {
        cost.extra.insert("_meta", json!(meta));
    }
    Some(cost)
}

/// The limit of parts other than text in a piece of the answer that has several.
const MAX_PARTS: usize = 1000;

/// Reads the content of a piece of the answer or of the thinking that is not one block: a text, a list of blocks, or a text without
/// a type. Texts that follow each other are joined. `None` if anything else is in it.
fn loose_parts(update: &Update<'_>) -> Option<Vec<ContentPart>> {
    let thinks = match &*update.kind {
        "agent_message_chunk" => false,
        "agent_thought_chunk" => true,
        _ => return None,
    };
    let mut read = lenient::value(update.text)?;
    let id = read.get("messageId").and_then(Value::as_str).map(str::to_owned);
    let items = match read.get_mut("content")?.take() {
        Value::Array(items) => items,
        item => vec![item],
    };
    // A block of an unknown type must not hide the texts beside it.
    let is_list = items.len() > 1;
    let mut parts: Vec<ContentPart> = Vec::new();
    for item in items {
        let text = match item {
            Value::String(text) => text,
            item => match serde_json::from_value(item.clone()) {
                Ok(ContentBlock::Text(text)) => text.text,
                Ok(block) if !thinks && parts.len() < MAX_PARTS => {
                    parts.push(content::part(block));
                    continue;
                }
                Ok(_) => return None,
                Err(_) => match item.get("text").and_then(Value::as_str) {
                    Some(text) => text.to_owned(),
                    None if is_list && !thinks && parts.len() < MAX_PARTS => {
                        parts.push(serde_json::from_value(item).ok()?);
                        continue;
                    }
                    None => return None,
                },
            },
        };
        match parts.last_mut() {
            Some(ContentPart::Text(last)) => last.text.push_str(&text),
            Some(ContentPart::Think(last)) => last.think.push_str(&text),
            _ if thinks => parts.push(ContentPart::think(text)),
            _ => parts.push(ContentPart::text(text)),
        }
    }
    let parts = parts.into_iter().map(|part| part.of_message(id.clone()));
    Some(parts.collect()).filter(|parts: &Vec<_>| !parts.is_empty())
}
