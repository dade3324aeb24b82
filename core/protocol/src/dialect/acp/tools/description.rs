//! The description of a call: kind, titles, and the paths that it names.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use agent_client_protocol_schema::v1::{self as acp, ToolCallContent, ToolCallUpdateFields};

use super::{Call, MAX_DETAIL, MAX_DETAILS, Tools};
use crate::dialect::CallDetails;
use crate::dialect::acp::content;
use crate::json::parsed_object;
use crate::messages::ToolKind;

impl Tools {
    /// Remembers the title of an announced call, unless it is the name of the tool.
    pub(in super::super) fn titled(&mut self, id: &str, title: &str) {
        if let Some(call) = self.find(id).filter(|call| !call.ended && call.name != title) {
            call.add_title(title);
            call.described.0 = Some(hash(title));
        }
    }

    /// Returns the newest title of a call that is not only the name of its tool.
    pub(in super::super) fn title(&self, id: &str) -> Option<&str> {
        let call = self.calls.iter().rev().find(|call| call.id == id)?;
        call.titles.iter().rev().map(String::as_str).find(|title| !title.is_empty())
    }

    /// Returns the title of a request. Mistral Vibe and others send the id of the call alone: then the call's own title, or its name.
    pub(in super::super) fn title_of<'a>(&'a self, id: &str, fields: &'a ToolCallUpdateFields) -> &'a str {
        let title = fields.title.as_deref().filter(|title| !title.is_empty());
        title.or_else(|| self.title(id)).or_else(|| self.name(id)).unwrap_or_default()
    }

    /// Returns the title of the last update of a call.
    pub(in super::super) fn updated_title(&self, id: &str) -> Option<&str> {
        self.calls.iter().rev().find(|call| call.id == id)?.title.as_deref()
    }

    /// Returns a text that says exactly what a call would do. It includes the title, unless that is only the tool's
    /// name; without a text, it is then the command. Some agents send a command as the title, and the model's description of
    /// it as the text.
    pub(in super::super) fn described(&self, id: &str, title: &str, text: String) -> String {
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
}

impl Call {
    /// Takes in the newest description.
    pub(super) fn describe(&mut self, fields: &ToolCallUpdateFields) {
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
    pub(super) fn is_known_by_texts(&self) -> bool {
        self.is_asked && self.arguments.is_empty()
    }

    /// Takes in the newest title and text. Returns whether one of them differs from the one before.
    pub(super) fn take_texts(&mut self, fields: &ToolCallUpdateFields) -> bool {
        let title = fields.title.as_deref().filter(|title| !title.is_empty() && *title != self.name).map(hash);
        let texts = fields.content.as_deref().map(content::texts).unwrap_or_default();
        let text = texts.iter().any(|text| !text.is_empty()).then(|| hash_all(&texts));
        let is_other = |newest: Option<u64>, known: Option<u64>| newest.is_some() && newest != known;
        let is_changed = is_other(title, self.described.0) || is_other(text, self.described.1);
        self.described = (title.or(self.described.0), text.or(self.described.1));
        is_changed
    }

    /// Notes that the agent has replaced what it said about the call. An approval that was asked for before is not about this.
    pub(super) fn note_replaced(&mut self) {
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
    pub(super) fn is_new_title(&self, title: &str) -> bool {
        self.name != title && !self.titles.iter().any(|known| known == title)
    }
}

/// Returns the hash of the joined texts, which can be long.
fn hash_all(texts: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    texts.iter().for_each(|text| hasher.write(text.as_bytes()));
    hasher.finish()
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Replaces the newest paths, unless the agent names none. Those that are no longer named are kept as earlier ones.
/// Returns whether paths were left out.
pub(super) fn renew(newest: &mut Vec<String>, earlier: &mut Vec<String>, mut paths: Vec<String>) -> bool {
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
