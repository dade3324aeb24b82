//! Tool calls. The agent sends the whole call with each update; this module converts the updates to parts and one
//! result.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use agent_client_protocol_schema::v1::{self as acp, ToolCallContent, ToolCallStatus, ToolCallUpdateFields};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use self::late::ReportedEnd;
use super::{Acp, content, failure, meta, updates};
use crate::dialect::{CallDetails, Incoming};
use crate::json::scan::for_each_member;
use crate::json::{Key, of_text, parsed_object};
use crate::messages::{
    DisplayBlock, Event, FunctionCall, ToolCall, ToolCallPart, ToolKind, ToolResult, ToolReturnValue,
};

mod late;

/// The limit of remembered tool calls, open or ended. No model makes as many at once.
const MAX_CALLS: usize = 1024;
/// The limit of the text of all remembered calls of a session and its subagents, in bytes. Beyond it the oldest are forgotten.
const MAX_KEPT: usize = 32 << 20;
/// The limit of titles, kinds and paths that are remembered of a call, each.
const MAX_DETAILS: usize = 64;
/// The approximate size of a location without its path, in bytes.
const LOCATION: usize = 200;
/// The limit of the text of a title or path that is remembered, in bytes.
const MAX_DETAIL: usize = 16 << 10;

/// The limit of the size of a call that is known after its turn, in bytes.
const MAX_LATE: usize = 64 << 10;
/// The message in the result of a call that has not ended with its turn.
const UNFINISHED: &str = "the turn ended before the call did; the output is what the call had shown";

/// The tool calls of a turn, oldest first.
#[derive(Debug, Default)]
pub(super) struct Tools {
    calls: VecDeque<Call>,
    /// The call to which the next part belongs.
    last: Option<String>,
    order: u64,
    kept: Arc<Kept>,
}

/// The counts of a session and its subagents together.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The size of the calls, in bytes.
    bytes: AtomicUsize,
    /// Whether a call was forgotten in the turn that had not ended. The agent may say anything about it now.
    has_forgotten: AtomicBool,
    /// The number of subagents.
    pub(super) subagents: AtomicUsize,
    /// Whether a subagent was ignored, because there were too many.
    pub(super) has_ignored: AtomicBool,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    /// The arguments that the program has received.
    arguments: String,
    /// Whether the arguments are complete.
    called: bool,
    /// Whether the agent sent an empty object, which may mean that the arguments are not known yet.
    blank: bool,
    ended: bool,
    /// The hash of the arguments of a call that has ended. `None` if there were none.
    ended_with: Option<u64>,
    /// What the agent has reported as the end of the call.
    reported_end: ReportedEnd,
    /// Whether the agent has asked about it.
    is_asked: bool,
    /// Whether the agent has announced it, and not only sent updates or a request.
    is_announced: bool,
    /// Whether an announcement itself has come.
    is_called: bool,
    /// Whether a request has named another tool, or other arguments.
    is_restated: bool,
    title: Option<String>,
    /// The titles that the agent has sent, the first ones.
    titles: Vec<String>,
    /// Whether the agent has named a kind of tool that changes something.
    may_change_something: bool,
    details: CallDetails,
    about: Map<String, Value>,
    meta: meta::Gathered,
    /// The newest content, without changes of files.
    content: Vec<ToolCallContent>,
    /// The newest raw output with a text, of an update before the end.
    raw_output: Option<Value>,
    /// Whether it has ended only because its turn did.
    is_unfinished: bool,
    display: Vec<DisplayBlock>,
    /// The hashes of the changes in `display`.
    displayed: HashSet<u64>,
    /// The sizes of `about`, `content`, the raw output and `display`, in bytes.
    about_size: usize,
    raw_size: usize,
    content_size: usize,
    display_size: usize,
    /// The size of the call, as it was counted last.
    counted: usize,
}

impl Call {
    /// Whether these are other arguments than those of the call, which has ended.
    fn has_other_input(&self, fields: &ToolCallUpdateFields) -> bool {
        let raw = fields.raw_input.as_ref().filter(|raw| !is_blank(raw) && !raw.is_null());
        raw.is_some_and(|raw| hash_of(&whole_arguments(raw, None)) != self.ended_with)
    }
}

/// Returns a hash of JSON that does not depend on the order of its members; `None` if the text is not JSON.
fn hash_of(arguments: &str) -> Option<u64> {
    let value = of_text(arguments)?;
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    Some(hasher.finish())
}

/// Whether an announcement or an update says that the call has ended.
pub(super) fn is_end(fields: &ToolCallUpdateFields) -> bool {
    matches!(fields.status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed))
}

/// A question in the arguments of an asking tool.
#[derive(Deserialize)]
pub(super) struct AskedQuestion {
    pub(super) question: String,
    pub(super) header: Option<String>,
    #[serde(default)]
    options: Vec<AskedChoice>,
}

#[derive(Deserialize)]
struct AskedChoice {
    label: String,
    description: Option<String>,
}

impl AskedQuestion {
    /// Returns the descriptions of the choices that have one, by label.
    pub(super) fn descriptions(&self) -> HashMap<&str, &str> {
        // Of several choices with the same label, the first one is described.
        let described = self.options.iter().rev().map(|choice| (&*choice.label, choice.description.as_deref()));
        let first: HashMap<_, _> = described.collect();
        first.into_iter().filter_map(|(label, description)| Some((label, description?))).collect()
    }
}

/// Returns whether the id, the title, the status and the content of an update have the forms of the protocol.
pub(super) fn is_plain(update: &str, needs_title: bool) -> bool {
    const STATUSES: [&str; 5] = ["\"pending\"", "\"in_progress\"", "\"completed\"", "\"failed\"", "null"];
    let (mut is_plain, mut has_title) = (true, !needs_title);
    let read = for_each_member(update, |name, value| {
        is_plain &= match name.written() {
            "status" => STATUSES.contains(&value),
            "title" => {
                has_title |= value.starts_with('"');
                value.starts_with('"') || value == "null"
            }
            "toolCallId" => value.starts_with('"'),
            "content" => value == "null" || has_plain_items(value),
            _ => true,
        };
        Ok(())
    });
    read.is_ok() && is_plain && has_title
}

fn has_plain_items(content: &str) -> bool {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow, rename = "type")]
        kind: Key<'a>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow)]
        path: Option<&'a RawValue>,
        #[serde(borrow, rename = "oldText")]
        old_text: Option<&'a RawValue>,
        #[serde(borrow, rename = "newText")]
        new_text: Option<&'a RawValue>,
    }
    let is_text = |value: &RawValue| value.get().starts_with('"');
    let Ok(items) = serde_json::from_str::<Vec<Item<'_>>>(content) else { return false };
    items.iter().all(|item| match &*item.kind.0 {
        "content" => item.content.is_some_and(|block| serde_json::from_str::<acp::ContentBlock>(block.get()).is_ok()),
        "diff" => {
            item.path.is_some_and(is_text) && item.new_text.is_some_and(is_text) && item.old_text.is_none_or(is_text)
        }
        "terminal" => true,
        _ => false,
    })
}

/// Makes an update of a tool call readable: a number as the id becomes text, a status of other agents becomes one of the protocol,
/// and content without a known form becomes text. `None` if the update is not an object.
pub(super) fn readable(update: &str) -> Option<String> {
    let mut update = parsed_object(update)?;
    if let Some(Value::String(status)) = update.get("status") {
        let word = failure::in_snake_case(status);
        let status = match &*word {
            "cancelled" | "canceled" | "error" | "errored" | "failure" | "aborted" | "rejected" | "denied"
            | "timeout" | "timed_out" | "interrupted" | "killed" | "refused" => "failed",
            "success" | "successful" | "succeeded" | "complete" | "done" | "finished" | "ok" => "completed",
            "running" | "started" | "executing" => "in_progress",
            word => word,
        };
        let status = status.to_owned();
        update.insert("status".to_owned(), status.into());
    }
    if let Some(Value::Number(id)) = update.get("toolCallId") {
        let id = id.to_string();
        update.insert("toolCallId".to_owned(), id.into());
    }
    if !update.get("title").is_none_or(Value::is_string) {
        update.remove("title");
    }
    if update.get("sessionUpdate").is_some_and(|kind| kind == "tool_call") {
        update.entry("title").or_insert_with(|| "".into());
    }
    if let Some(content) = update.get_mut("content").filter(|content| !content.is_null()) {
        let items = match content.take() {
            Value::Array(items) => items,
            single => vec![single],
        };
        *content = items.into_iter().map(readable_content).collect();
    }
    Some(Value::Object(update).to_string())
}

fn readable_content(item: Value) -> Value {
    let is_plain = serde_json::from_value::<ToolCallContent>(item.clone()).is_ok();
    if is_plain {
        return item;
    }
    let text = match &item {
        Value::String(text) => Some(text),
        item => match item.get("text").or_else(|| item.get("content")?.get("text")).or_else(|| item.get("content")) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
    };
    let text = text.cloned().unwrap_or_else(|| item.to_string());
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

impl Tools {
    /// Returns the calls of a subagent, which count with those of the session.
    pub(super) fn of_subagent(&self) -> Self {
        Self { kept: Arc::clone(&self.kept), ..Self::default() }
    }

    pub(super) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Forgets the calls of a turn that has ended. Small ones that have not ended with it are known until the next one begins, because
    /// they may end late.
    pub(super) fn clear(&mut self) {
        let mut size = 0;
        self.calls.retain_mut(|call| {
            let is_unfinished = !call.ended || std::mem::take(&mut call.is_unfinished);
            let is_kept = is_unfinished && call.counted <= MAX_LATE;
            call.ended = true;
            size += if is_kept { 0 } else { call.counted };
            is_kept
        });
        self.kept.bytes.fetch_sub(size, Relaxed);
        self.last = None;
    }

    /// Begins a turn of the session itself.
    pub(super) fn begin_turn(&mut self) {
        self.kept.has_forgotten.store(false, Relaxed);
    }

    /// Counts what a message has added to a call. If all calls take too much, the oldest are forgotten.
    pub(super) fn count(&mut self, id: &str) {
        let Some(call) = self.find(id) else { return };
        let size = call.size();
        let before = std::mem::replace(&mut call.counted, size);
        self.kept.bytes.fetch_add(size, Relaxed);
        self.kept.bytes.fetch_sub(before, Relaxed);
        while self.kept.bytes.load(Relaxed) > MAX_KEPT && !self.calls.is_empty() {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(call) = self.calls.pop_front() else { return };
        self.kept.bytes.fetch_sub(call.counted, Relaxed);
        if !call.ended && !self.kept.has_forgotten.swap(true, Relaxed) {
            tracing::warn!(
                "the open tool calls are too many or too large: the oldest are forgotten, and rules ask about further ones"
            );
        }
    }

    /// Returns the results of the calls that have shown output, but have not ended with the turn, and their sizes.
    pub(super) fn unfinished(&mut self, is_failure: bool) -> Vec<(Event, usize)> {
        self.calls.iter_mut().filter_map(|call| call.end_unfinished(is_failure)).collect()
    }

    fn find(&mut self, id: &str) -> Option<&mut Call> {
        self.calls.iter_mut().rev().find(|call| call.id == id)
    }

    /// Returns the agent's name for the tool of a call.
    pub(super) fn name(&self, id: &str) -> Option<&str> {
        self.calls.iter().rev().find(|call| call.id == id).map(|call| &*call.name)
    }

    /// Remembers the title of an announced call, unless it is the name of the tool.
    pub(super) fn titled(&mut self, id: &str, title: &str) {
        if let Some(call) = self.find(id).filter(|call| !call.ended && call.name != title) {
            call.add_title(title);
        }
    }

    /// Returns the newest title of a call that is not only the name of its tool.
    pub(super) fn title(&self, id: &str) -> Option<&str> {
        let call = self.calls.iter().rev().find(|call| call.id == id)?;
        call.titles.iter().rev().map(String::as_str).find(|title| !title.is_empty())
    }

    /// Returns a text that says exactly what a call would do. It includes the title, unless that is only the tool's
    /// name; without a text, it is then the command. Some agents send a command as the title, and the model's description of
    /// it as the text.
    pub(super) fn described(&self, id: &str, title: &str, text: String) -> String {
        let is_name = |call: &&Call| call.name == title && !call.arguments.is_empty();
        let named = self.calls.iter().rev().find(|call| call.id == id).filter(is_name);
        let names_tool = named.is_some();
        if text.is_empty() {
            let arguments = named.and_then(|call| parsed_object(&call.arguments));
            let command = arguments.as_ref().and_then(|arguments| arguments.get("command")?.as_str());
            command.unwrap_or(title).to_owned()
        } else if names_tool || text.contains(title) {
            text
        } else {
            format!("{title}\n\n{text}")
        }
    }

    /// Returns the description of a call besides its name and arguments.
    pub(super) fn details(&self, id: &str) -> CallDetails {
        let known = self.calls.iter().rev().find(|call| call.id == id).map(|call| call.details.clone());
        let is_incomplete = self.kept.has_forgotten.load(Relaxed);
        known.unwrap_or_else(|| CallDetails { is_incomplete, ..CallDetails::default() })
    }

    /// Returns whether a request has described a call as another one.
    pub(super) fn is_restated(&self, id: &str) -> bool {
        self.calls.iter().rev().find(|call| call.id == id).is_some_and(|call| call.is_restated)
    }

    /// Returns the arguments of a call, if they are known.
    pub(super) fn arguments(&self, id: &str) -> Option<Map<String, Value>> {
        let call = self.calls.iter().rev().find(|call| call.id == id)?;
        match &*call.arguments {
            "" if call.blank => Some(Map::new()),
            text => parsed_object(text),
        }
    }

    /// Returns whether the agent has ever reported that the tool of a call runs commands, or changes or deletes data.
    pub(super) fn may_change_something(&self, id: &str) -> bool {
        self.calls.iter().rev().find(|call| call.id == id).is_some_and(|call| call.may_change_something)
    }

    /// Notes that the description of a call lacks something.
    pub(super) fn set_incomplete(&mut self, id: &str) {
        if let Some(call) = self.find(id) {
            call.details.is_incomplete = true;
        }
    }

    fn add(&mut self, mut call: Call) {
        if self.calls.len() == MAX_CALLS {
            self.forget_oldest();
        }
        call.details.is_incomplete |= self.kept.has_forgotten.load(Relaxed);
        self.calls.push_back(call);
    }

    /// Returns the questions in the arguments of a call.
    pub(super) fn questions(&self, id: &str) -> Vec<AskedQuestion> {
        #[derive(Deserialize)]
        struct Arguments {
            questions: Vec<AskedQuestion>,
        }
        let call = self.calls.iter().rev().find(|call| call.id == id);
        let arguments = call.and_then(|call| crate::json::object::<Arguments>(&call.arguments).ok());
        arguments.map_or_else(Vec::new, |arguments| arguments.questions)
    }
}

impl Call {
    /// Returns about how many bytes the call takes.
    fn size(&self) -> usize {
        let texts = [&self.id, &self.name, &self.arguments].into_iter().chain(&self.title).chain(&self.titles);
        let CallDetails { locations, diffs, earlier_locations, earlier_diffs, title, .. } = &self.details;
        let details = [locations, diffs, earlier_locations, earlier_diffs].into_iter().flatten().chain(title);
        let texts: usize = texts.chain(details).map(String::len).sum();
        texts
            + self.displayed.len() * size_of::<u64>()
            + self.meta.size()
            + self.about_size
            + self.content_size
            + self.raw_size
            + self.display_size
    }

    fn keep_content(&mut self, content: Vec<ToolCallContent>) {
        self.content_size = content.iter().map(content::size).sum();
        self.content = content;
    }

    /// Takes the changes of files from the newest content, and returns the rest.
    fn take_content(&mut self, content: Vec<ToolCallContent>) -> Vec<ToolCallContent> {
        let mut others = Vec::new();
        for item in content {
            let diff = match item {
                ToolCallContent::Diff(diff) => diff,
                ToolCallContent::Content(_) => {
                    others.push(item);
                    continue;
                }
                _ => continue,
            };
            if self.displayed.insert(self.displayed.hasher().hash_one((&diff.path, &diff.old_text, &diff.new_text))) {
                let block = content::change(diff);
                self.display_size +=
                    size_of::<DisplayBlock>() + block.path.len() + block.old_text.len() + block.new_text.len();
                self.display.push(DisplayBlock::Diff(block));
            }
        }
        others
    }

    /// Takes in the newest description.
    fn describe(&mut self, fields: &ToolCallUpdateFields) {
        use acp::ToolKind::{Delete, Edit, Execute, Move};
        if let Some(kind) = fields.kind {
            self.may_change_something |= matches!(kind, Execute | Edit | Delete | Move);
            let kind = serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(ToolKind::from));
            let former = std::mem::replace(&mut self.details.kind, kind);
            // A kind that says nothing is completed by a later one.
            let former =
                former.filter(|former| former.as_str() != "other" && Some(former) != self.details.kind.as_ref());
            let earlier = &mut self.details.earlier_kinds;
            let is_other = former.is_some();
            earlier.extend(former.filter(|former| !earlier.contains(former)));
            earlier.retain(|kind| Some(kind) != self.details.kind.as_ref());
            if is_other {
                self.note_replaced();
            }
        }
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let locations = fields.locations.iter().flatten().map(|location| text(&location.path)).collect();
        let diffs = fields.content.iter().flatten().filter_map(|content| match content {
            ToolCallContent::Diff(diff) => Some(diff),
            _ => None,
        });
        let CallDetails { shown, is_incomplete, .. } = &mut self.details;
        for diff in diffs.clone() {
            let mut hasher = DefaultHasher::new();
            (&diff.path, &diff.old_text, &diff.new_text).hash(&mut hasher);
            let hash = hasher.finish();
            match shown.contains(&hash) {
                true => {}
                false if shown.len() < MAX_DETAILS => shown.push(hash),
                false => *is_incomplete = true,
            }
        }
        let diffs = diffs.map(|diff| text(&diff.path)).collect();
        let CallDetails { locations: newest, earlier_locations: earlier, is_incomplete, .. } = &mut self.details;
        *is_incomplete |= renew(newest, earlier, locations);
        let CallDetails { diffs: newest, earlier_diffs: earlier, is_incomplete, .. } = &mut self.details;
        *is_incomplete |= renew(newest, earlier, diffs);
        if let Some(title) = &fields.title {
            self.add_title(title);
        }
    }

    /// Whether the program was asked about the call, and knows only the agent's texts about it.
    fn is_known_by_texts(&self) -> bool {
        self.is_asked && self.may_change_something && self.arguments.is_empty()
    }

    /// Notes that the agent has replaced what it said about the call. An approval that was asked for before is not about this.
    fn note_replaced(&mut self) {
        self.details.replacements = self.details.replacements.saturating_add(1);
    }

    fn add_title(&mut self, title: &str) {
        if title.len() <= MAX_DETAIL
            && self.titles.len() < MAX_DETAILS
            && !self.titles.iter().any(|known| known == title)
        {
            self.titles.push(title.to_owned());
        }
    }

    /// Whether the agent has not sent this title or name before.
    fn is_new_title(&self, title: &str) -> bool {
        self.name != title && !self.titles.iter().any(|known| known == title)
    }

    /// Whether the arguments have this text as a value.
    fn has_argument(&self, text: &str) -> bool {
        let arguments = parsed_object(&self.arguments).unwrap_or_default();
        arguments.values().any(|value| value.as_str() == Some(text))
    }

    /// Whether a title of a request says what the arguments say: it is a value of theirs, in words of the agent or before
    /// an explanation.
    fn explains(&self, title: &str) -> bool {
        let arguments = parsed_object(&self.arguments).unwrap_or_default();
        let is_around = |before: &str, after: &str| {
            let word = before.strip_suffix(' ').unwrap_or(before);
            let is_verb = word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphanumeric);
            (before.is_empty() || before == "`" || before.trim_end().ends_with(':') || is_verb)
                && (after.is_empty() || after == "`" || after.starts_with(" (") || after.starts_with(" ["))
        };
        let mut values =
            arguments.values().take(MAX_DETAILS).filter_map(Value::as_str).filter(|value| !value.is_empty());
        title.len() <= MAX_DETAIL
            && values.any(|value| title.split_once(value).is_some_and(|(before, after)| is_around(before, after)))
    }
}

/// Replaces the newest paths, unless the agent names none. Those that are no longer named are kept as earlier ones.
/// Returns whether paths were left out.
fn renew(newest: &mut Vec<String>, earlier: &mut Vec<String>, mut paths: Vec<String>) -> bool {
    if paths.is_empty() {
        return false;
    }
    let is_small = |path: &String| path.len() <= MAX_DETAIL;
    let all = paths.len();
    paths.retain(is_small);
    paths.truncate(MAX_DETAILS);
    let mut is_incomplete = paths.len() < all;
    for path in newest.drain(..) {
        if !paths.contains(&path) && !earlier.contains(&path) {
            is_incomplete |= earlier.len() >= MAX_DETAILS;
            earlier.truncate(MAX_DETAILS - 1);
            earlier.push(path);
        }
    }
    earlier.retain(|path| !paths.contains(path));
    *newest = paths;
    is_incomplete
}

impl Acp {
    pub(super) fn next_order(&mut self) -> u64 {
        self.tools.order += 1;
        self.tools.order
    }

    /// Emits a tool call that the agent has not announced.
    pub(super) fn announce(&mut self, id: &str, name: Option<&str>, all: &mut Vec<Incoming>) {
        if self.tools.find(id).is_none() {
            let name = name.unwrap_or_default().to_owned();
            self.tools.add(Call { id: id.to_owned(), name: name.clone(), ..Call::default() });
            self.tell(id, &name, "", true, all);
        }
    }

    fn tell(&mut self, id: &str, name: &str, arguments: &str, made_here: bool, all: &mut Vec<Incoming>) {
        self.tools.last = Some(id.to_owned());
        // The name in the program.
        let name = self.own_tool(name).unwrap_or(name);
        let mut call = ToolCall {
            id: id.to_owned(),
            function: FunctionCall {
                name: name.to_owned(),
                arguments: Some(arguments.to_owned()),
                extra: Default::default(),
            },
            extras: None,
            extra: Default::default(),
        };
        if made_here {
            call.extra.insert("synthesized", json!(true));
        }
        all.push(Incoming::event(call));
    }

    /// Handles the announcement of a call, which may be repeated.
    pub(super) fn tool_call(
        &mut self,
        id: &str,
        name: &str,
        fields: ToolCallUpdateFields,
        meta: Option<&acp::Meta>,
        all: &mut Vec<Incoming>,
    ) {
        // After the end of a call, an announcement of its id is a new call, unless it is late or says again that the call has ended.
        let is_same =
            |call: &&mut Call| !call.ended || (is_end(&fields) || !call.is_announced) && !call.has_other_input(&fields);
        if let Some(call) = self.tools.find(id).filter(is_same) {
            // It may be a new call, to which the known arguments do not belong.
            let is_again = std::mem::replace(&mut call.is_called, true) && !call.ended;
            let is_without = fields.raw_input.as_ref().is_none_or(|raw| raw.is_null() || is_blank(raw));
            call.details.is_incomplete |= is_again && is_without && call.called && !is_end(&fields);
            call.is_announced = true;
            return self.tool_update(id, fields, meta, all);
        }
        self.begin_call(id, name, fields, meta, all);
    }

    fn begin_call(
        &mut self,
        id: &str,
        name: &str,
        fields: ToolCallUpdateFields,
        meta: Option<&acp::Meta>,
        all: &mut Vec<Incoming>,
    ) {
        let text = fields.content.as_deref().and_then(content::text);
        let begun = text.filter(|text| fields.raw_input.is_none() && looks_like_arguments(text)).unwrap_or_default();
        let input = fields.raw_input.as_ref().filter(|raw| !is_blank(raw));
        let arguments = input.map_or(begun, |raw| whole_arguments(raw, fields.content.as_deref()));
        let call = Call {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.clone(),
            called: input.is_some(),
            is_announced: true,
            is_called: true,
            ..Call::default()
        };
        self.tools.add(call);
        self.tell(id, name, &arguments, false, all);
        self.tool_update(id, fields, meta, all);
    }

    /// Handles an update of a call.
    pub(super) fn tool_update(
        &mut self,
        id: &str,
        fields: ToolCallUpdateFields,
        meta: Option<&acp::Meta>,
        all: &mut Vec<Incoming>,
    ) {
        self.announce(id, fields.title.as_deref(), all);
        let Some(call) = self.tools.find(id) else { return };
        if call.ended {
            // Other arguments after the end are those of a new call.
            if call.has_other_input(&fields) && !is_end(&fields) {
                let name = fields.title.clone().unwrap_or_else(|| call.name.clone());
                self.begin_call(id, &name, fields, meta, all);
            }
            return;
        }
        let by_title = fields.title.clone().filter(|title| names_mcp_tool(title) && call.is_new_title(title));
        let renamed =
            fields.name.clone().or_else(|| updates::named(meta)).filter(|name| *name != call.name).or(by_title);
        if call.is_known_by_texts() && fields.title.as_deref().is_some_and(|title| call.is_new_title(title)) {
            call.note_replaced();
        }
        call.describe(&fields);
        if let Some(meta) = meta {
            call.meta.add(meta);
        }
        if let Some(name) = renamed {
            call.name.clone_from(&name);
            call.is_restated = true;
            call.note_replaced();
            let arguments = call.arguments.clone();
            self.tell(id, &name, &arguments, true, all);
        }
        let Some(call) = self.tools.find(id) else { return };
        let ToolCallUpdateFields { kind, status, title, content, locations, mut raw_input, raw_output, .. } = fields;
        let waits = matches!(status, None | Some(ToolCallStatus::Pending));
        if call.arguments.is_empty() {
            call.blank |= raw_input.as_ref().is_some_and(is_blank);
            // Once the tool runs, the arguments are final.
            let blank = || (call.blank && !waits).then(|| json!({}));
            raw_input = raw_input.filter(|raw| !is_blank(raw)).or_else(blank);
        }
        let ends = matches!(status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed));
        if let Some(title) = title {
            call.title = Some(title);
        }
        if let Some(kind) = kind {
            call.about.insert("kind".to_owned(), json!(kind));
        }
        if let Some(locations) = locations {
            let size = |location: &acp::ToolCallLocation| LOCATION + location.path.as_os_str().len();
            call.about_size = locations.iter().map(size).sum();
            call.about.insert("locations".to_owned(), json!(locations));
        }
        let has_text = raw_output.as_ref().is_some_and(has_text);
        let content = content.map(|content| call.take_content(content));
        if call.is_known_by_texts() && content.as_deref().is_some_and(|content| content::text(content).is_some()) {
            call.note_replaced();
        }
        let mut arguments = None;
        if let Some(raw) = raw_input {
            arguments = Some(whole_arguments(&raw, content.as_deref()));
            call.called = true;
        } else if !ends && !call.called {
            // The model's arguments so far. The agent repeats all of them each time.
            let text = content.as_deref().and_then(content::text);
            arguments = text.filter(|text| looks_like_arguments(text) && text.starts_with(&*call.arguments));
        }
        match content {
            // Content beside the arguments may show them. Other content is output.
            Some(content) if arguments.as_deref().is_some_and(|input| shows_arguments(&content, input, ends)) => {}
            // An end without content takes back nothing.
            Some(content) if ends && content.is_empty() && !has_text => {}
            Some(content) => call.keep_content(content),
            // The content that was displayed during the run is not the final output.
            None if ends && has_text => call.keep_content(Vec::new()),
            None => {}
        }
        if let Some(raw) = raw_output.as_ref().filter(|_| has_text && !ends) {
            call.raw_size = raw.to_string().len();
            call.raw_output = Some(raw.clone());
        }
        if let Some(arguments) = arguments {
            self.take_arguments(id, &arguments, all);
        }
        if ends {
            self.end_call(id, status == Some(ToolCallStatus::Failed), raw_output, all);
        }
    }

    /// Takes in the description of a call in a permission request. It is newer than what the agent has said before; what
    /// it leaves out stays. A request about an unknown call, or about one that has ended, is about a new call.
    pub(super) fn restate(
        &mut self,
        id: &str,
        meta: Option<&acp::Meta>,
        fields: &ToolCallUpdateFields,
        all: &mut Vec<Incoming>,
    ) {
        let name = fields.name.clone().or_else(|| updates::named(meta));
        let raw = fields.raw_input.as_ref().filter(|raw| !is_blank(raw) && !raw.is_null());
        // A title alone makes no call one of the program's tools.
        let names_own = fields.title.as_deref().is_some_and(|title| self.own_tool(title).is_some());
        let Some(call) = self.tools.find(id).filter(|call| !call.ended) else {
            let name = name.or_else(|| fields.title.clone()).unwrap_or_default();
            let arguments = raw.map(|raw| whole_arguments(raw, None)).unwrap_or_default();
            let mut call = Call { id: id.to_owned(), name: name.clone(), called: raw.is_some(), ..Call::default() };
            (call.is_announced, call.is_asked) = (true, true);
            call.blank = fields.raw_input.as_ref().is_some_and(is_blank);
            call.arguments.clone_from(&arguments);
            call.describe(fields);
            self.tools.add(call);
            return self.tell(id, &name, &arguments, true, all);
        };
        let title = fields.title.as_deref();
        let is_command = call.may_change_something || matches!(fields.kind, Some(acp::ToolKind::Execute));
        let contradicts = |call: &Call, title: &str| is_command && call.is_new_title(title) && !call.explains(title);
        call.details.title = title.filter(|title| raw.is_none() && contradicts(call, title)).map(str::to_owned);
        // Some agents send the tool's name as the title.
        let is_name = |title: &&str| {
            !names_own
                && (is_tool_name(title) || names_mcp_tool(title))
                && call.is_new_title(title)
                && !call.has_argument(title)
                && raw.is_none_or(|raw| !has_value(raw, title))
        };
        let renamed = name.or_else(|| title.filter(is_name).map(str::to_owned)).filter(|name| *name != call.name);
        call.describe(fields);
        if let Some(name) = &renamed {
            call.name.clone_from(name);
        }
        // A request may leave out arguments that say nothing about the action.
        let is_known = |raw: &Value| {
            let known = parsed_object(&call.arguments);
            known
                .zip(raw.as_object())
                .is_some_and(|(known, raw)| raw.iter().all(|(key, value)| known.get(key) == Some(value)))
        };
        let arguments = raw.filter(|raw| !is_known(raw)).map(|raw| whole_arguments(raw, None));
        (call.is_announced, call.is_asked) = (true, true);
        call.is_restated |= renamed.is_some() || (arguments.is_some() && call.called);
        call.called |= raw.is_some();
        call.blank |= fields.raw_input.as_ref().is_some_and(is_blank);
        match (arguments, renamed) {
            (Some(arguments), None) => self.take_arguments(id, &arguments, all),
            (arguments, Some(name)) => {
                let arguments = arguments.unwrap_or_else(|| call.arguments.clone());
                call.arguments.clone_from(&arguments);
                self.tell(id, &name, &arguments, true, all);
            }
            (None, None) => {}
        }
    }

    /// Emits the new part of the arguments.
    fn take_arguments(&mut self, id: &str, whole: &str, all: &mut Vec<Incoming>) {
        let last = self.tools.last.as_deref() == Some(id);
        let Some(call) = self.tools.find(id) else { return };
        match whole.strip_prefix(&*call.arguments) {
            Some("") => return,
            Some(new) if last => {
                let part = ToolCallPart { arguments_part: Some(new.to_owned()), extra: Default::default() };
                all.push(Incoming::event(part));
            }
            None if is_same_json(&call.arguments, whole) => return,
            // A part can only extend the last call. In any other case the whole call is emitted again.
            _ => {
                let name = call.name.clone();
                self.tell(id, &name, whole, true, all);
            }
        }
        if let Some(call) = self.tools.find(id) {
            if !call.arguments.is_empty() && !whole.starts_with(&*call.arguments) {
                call.note_replaced();
            }
            call.arguments = whole.to_owned();
        }
    }

    fn end_call(&mut self, id: &str, failed: bool, raw_output: Option<Value>, all: &mut Vec<Incoming>) {
        let Some(call) = self.tools.find(id) else { return };
        all.push(Incoming::event(call.end(failed, raw_output)));
    }
}

impl Call {
    /// Ends the call, and returns its result.
    fn end(&mut self, failed: bool, raw_output: Option<Value>) -> ToolResult {
        let call = self;
        call.ended = true;
        let mut extras = std::mem::take(&mut call.about);
        if let Some(title) = call.title.take() {
            extras.insert("title".to_owned(), json!(title));
        }
        let content = std::mem::take(&mut call.content);
        let meta = call.meta.take();
        let shown = call.raw_output.take();
        let raw_output = if shown.is_some() && !raw_output.as_ref().is_some_and(has_text) { shown } else { raw_output };
        let output = content::output(raw_output, content);
        call.reported_end = ReportedEnd::new(failed, &output);
        let mut result = ToolResult {
            tool_call_id: call.id.clone(),
            return_value: ToolReturnValue {
                is_error: failed,
                output,
                message: String::new(),
                display: std::mem::take(&mut call.display),
                extras: (!extras.is_empty()).then_some(extras),
                extra: Default::default(),
            },
            extra: Default::default(),
            tool_call: Default::default(),
        };
        (call.about_size, call.content_size, call.raw_size, call.display_size) = (0, 0, 0, 0);
        call.ended_with = hash_of(&std::mem::take(&mut call.arguments));
        meta::put(&mut result.extra, meta);
        result
    }

    /// Returns the result of a call that has not ended with its turn. `None` if it has shown no output.
    fn end_unfinished(&mut self, is_failure: bool) -> Option<(Event, usize)> {
        if self.ended || (self.content.is_empty() && self.raw_output.is_none()) {
            return None;
        }
        let size = self.size();
        let mut result = self.end(is_failure, None);
        self.is_unfinished = true;
        result.return_value.message = UNFINISHED.to_owned();
        result.extra.insert("synthesized", json!(true));
        Some((result.into(), size))
    }
}

/// Returns whether a raw output has a text that is output. A status or the command itself is not.
fn has_text(raw: &Value) -> bool {
    const OUTPUT: [&str; 10] = [
        "output",
        "stdout",
        "stderr",
        "text",
        "content",
        "result",
        "aggregated_output",
        "aggregatedOutput",
        "formatted_output",
        "formattedOutput",
    ];
    match raw {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(has_text),
        Value::Object(members) => OUTPUT.iter().any(|name| members.get(*name).is_some_and(has_text)),
        _ => false,
    }
}

/// Returns whether a title names a tool of an MCP server, in one of the two forms that agents have.
fn names_mcp_tool(title: &str) -> bool {
    (is_tool_name(title) && title.starts_with("mcp__")) || title.ends_with(" MCP Server)")
}

/// Returns whether a title can be the name of a tool.
fn is_tool_name(title: &str) -> bool {
    !title.is_empty() && title.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}

/// Returns whether an object has this text as a value.
fn has_value(raw: &Value, text: &str) -> bool {
    raw.as_object().is_some_and(|raw| raw.values().any(|value| value.as_str() == Some(text)))
}

/// Returns whether the arguments are an empty object.
fn is_blank(raw: &Value) -> bool {
    raw.as_object().is_some_and(Map::is_empty)
}

/// Arguments are an object. Other text is output of the tool.
fn looks_like_arguments(text: &str) -> bool {
    text.is_empty() || text.trim_start().starts_with('{')
}

/// Returns whether the content of an update shows the arguments of the call, or a part of them while the call runs.
fn shows_arguments(content: &[ToolCallContent], arguments: &str, ends: bool) -> bool {
    content::text(content).is_some_and(|text| {
        is_same_json(&text, arguments) || text == arguments || (!ends && looks_like_arguments(&text))
    })
}

fn is_same_json(a: &str, b: &str) -> bool {
    of_text(a).is_some_and(|a| of_text(b) == Some(a))
}

/// Returns the arguments as text, with the agent's formatting if it displays them.
fn whole_arguments(raw: &Value, content: Option<&[ToolCallContent]>) -> String {
    let shown = content.and_then(content::text).filter(|text| of_text(text).as_ref() == Some(raw));
    shown.unwrap_or_else(|| raw.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(acp: &mut Acp, id: usize, text: &str) {
        let id = format!("call {id}");
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": text, "kind": "edit"});
        let params = json!({"sessionId": "s", "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string();
        drop(crate::dialect::Dialect::read_line(acp, line.as_bytes()));
    }

    #[test]
    fn each_change_of_a_file_is_displayed_once() {
        let mut call = Call::default();
        for text in ["0", "1", "1"] {
            let diffs = (0..5000).map(|path| ToolCallContent::from(acp::Diff::new(format!("/{path}"), text)));
            assert!(call.take_content(diffs.collect()).is_empty());
        }
        assert_eq!(call.display.len(), 10_000);
        assert!(call.size() > 10_000 * size_of::<DisplayBlock>());
    }

    #[test]
    fn oldest_calls_are_forgotten_beyond_the_limit() {
        let mut acp = Acp::open("s");
        drop(crate::dialect::Dialect::call(&mut acp, "prompt", &crate::dialect::Call::Prompt("go".into())));
        for id in (0..100).map(|id| format!("call {id}")) {
            acp.tools.add(Call { id: id.clone(), name: "x".repeat(4 << 20), ..Call::default() });
            acp.tools.count(&id);
            assert!(acp.tools.kept.bytes.load(Relaxed) <= MAX_KEPT);
        }
        assert!(!acp.tools.calls.is_empty());
        // Rules ask about calls of which something may be forgotten.
        assert!(acp.tools.details("call 0").is_incomplete);
        call(&mut acp, 100, "small");
        assert!(acp.tools.details("call 100").is_incomplete);
        acp.end_turn();
        acp.tools.clear();
        assert!(acp.tools.kept.bytes.load(Relaxed) <= MAX_LATE);
        acp.tools.clear();
        assert_eq!(acp.tools.kept.bytes.load(Relaxed), 0);
        acp.begin_turn();
        call(&mut acp, 101, "small");
        assert!(!acp.tools.details("call 101").is_incomplete);
    }

    #[test]
    fn calls_of_subagents_count_with_those_of_the_session() {
        let mut acp = Acp::open("s");
        acp.begin_turn();
        let mut child = acp.tools.of_subagent();
        for id in 0..40 {
            let id = format!("call {id}");
            child.add(Call { id: id.clone(), name: "x".repeat(1 << 20), ..Call::default() });
            child.count(&id);
        }
        assert!(acp.tools.kept.bytes.load(Relaxed) <= MAX_KEPT);
        assert!(child.calls.len() < 40);
        assert!(acp.tools.details("call 0").is_incomplete);
    }

    #[test]
    fn title_explains_arguments_only_within_limits() {
        let of = |arguments: &Value| Call { arguments: arguments.to_string(), ..Call::default() };
        assert!(of(&json!({"command": "ls"})).explains("Run ls"));
        assert!(!of(&json!({"command": "ls"})).explains(&format!("Run ls (list {})", "x".repeat(MAX_DETAIL))));
        let many: Map<String, Value> = (0..2 * MAX_DETAILS).map(|n| (format!("k{n:03}"), json!("ls"))).collect();
        assert!(of(&Value::Object(many)).explains("Run ls"));
    }
}
