//! Changes of a call between the question about it and the approval.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Pending, ReplyTo, RequestKey};
use crate::connection::Connection;
use crate::connection::granted::{AFTER, COMMANDS, CONTENTS, PATHS};
use crate::connection::policy::is_said;
use crate::connection::shown::{shown_commands, shown_files};
use crate::messages::{ApprovalRequest, DisplayBlock, ToolCallInfo, ToolKind};

/// The texts of a request about a call whose arguments are not known.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Texts and commands.
    commands: Vec<String>,
    files: Vec<String>,
    /// The new texts of files.
    contents: Vec<String>,
}

impl Texts {
    pub(super) fn of(request: &ApprovalRequest) -> Self {
        let texts = [request.action.as_str(), request.description.as_str()];
        let contents = request.display.iter().filter_map(|block| match block {
            DisplayBlock::Diff(diff) => Some(diff.new_text.clone()),
            _ => None,
        });
        Self {
            commands: texts.into_iter().chain(shown_commands(request)).map(str::to_owned).collect(),
            files: shown_files(request).map(str::to_owned).collect(),
            contents: contents.collect(),
        }
    }

    fn shows_command(&self, value: &Value) -> bool {
        let command = match value {
            Value::String(text) => text.clone(),
            Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            _ => return false,
        };
        self.commands.iter().any(|text| text.contains(&command))
    }

    fn shows_file(&self, value: &Value) -> bool {
        let Some(path) = value.as_str() else { return false };
        let is_word = |text: &String| text.split_whitespace().any(|word| word.trim_matches('`') == path);
        let path = Path::new(path.strip_prefix("./").unwrap_or(path));
        self.files.iter().any(|file| Path::new(file).ends_with(path)) || self.commands.iter().any(is_word)
    }

    /// A long text can be shown in part.
    fn shows_content(&self, value: &Value) -> bool {
        let Some(text) = value.as_str() else { return false };
        self.contents.iter().any(|shown| shown.contains(text) || !shown.is_empty() && text.contains(&**shown))
    }

    /// Returns whether arguments have a command or a file that the request did not show.
    fn lacks(&self, arguments: &Map<String, Value>) -> bool {
        named(arguments, &COMMANDS).any(|value| !self.shows_command(value))
            || !self.files.is_empty() && named(arguments, &PATHS).any(|value| !self.shows_file(value))
    }

    /// Returns whether the request showed the commands, files and texts of arguments, and there are some.
    fn shows(&self, arguments: &Map<String, Value>) -> bool {
        let mut contents = named(arguments, &CONTENTS).chain(named(arguments, &AFTER));
        let has_target = named(arguments, &COMMANDS).chain(named(arguments, &PATHS)).next().is_some();
        has_target
            && named(arguments, &COMMANDS).all(|value| self.shows_command(value))
            && named(arguments, &PATHS).all(|value| self.shows_file(value))
            && contents.all(|value| self.shows_content(value))
    }
}

/// Returns the arguments with one of these names.
fn named<'a>(arguments: &'a Map<String, Value>, names: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    names.iter().filter_map(|name| arguments.get(*name))
}

impl Connection {
    /// Returns the reason if an approval came too late: the agent has described the call in another way since it asked.
    pub(in super::super) fn change_of_call(&mut self, key: RequestKey) -> Option<String> {
        let Pending { about, reply_to: ReplyTo::Agent(_), .. } = &**self.requests.pending.get(&key)? else {
            return None;
        };
        let dialect = &self.dialect;
        let Some(asked) = &about.tool_call else {
            // The agent asked about a call before it described the call, as kimi-cli 1.30 does for subagents.
            let newest = self.tool_calls.find(about.agent.as_deref(), &about.call, &|id| dialect.call_details(id))?;
            let arguments = newest.call.arguments.as_ref();
            if arguments.is_some_and(|arguments| about.texts.as_ref().is_some_and(|texts| texts.lacks(arguments))) {
                return Some("the agent described this call while it was decided, and not as it was shown".to_owned());
            }
            let refusal = self.refusal_of_newer(&newest.call);
            return refusal.map(|reason| format!("the agent described this call while it was decided: {reason}"));
        };
        let (asked, agent, is_partial) = (Arc::clone(&asked.call), about.agent.clone(), about.is_partial);
        let is_new = |hash: &u64| !about.shown.contains(hash);
        let details = dialect.call_details(&asked.id);
        let shows_more = details.shown.iter().any(is_new);
        let is_replaced = details.replacements != about.replacements;
        let newest = self.tool_calls.find(agent.as_deref(), &asked.id, &|id| dialect.call_details(id))?.call;
        let is_completed = is_partial && asked.arguments != newest.arguments;
        let is_late = !is_said(&asked)
            && is_said(&newest)
            && newest
                .arguments
                .as_ref()
                .is_some_and(|newest| !about.texts.as_ref().is_some_and(|texts| texts.shows(newest)));
        let change = change_between(&asked, &newest)
            .or_else(|| is_completed.then_some("the arguments"))
            .or_else(|| shows_more.then_some("the change of a file"))
            .or_else(|| is_late.then_some("the arguments"))
            .or_else(|| is_replaced.then_some("the description"))
            .or_else(|| (changes_more(&asked, &newest) && !self.allows(&newest)).then_some("the kind"))
            .or_else(|| (names_more(&asked, &newest) && !self.allows(&newest)).then_some("the files"));
        if let Some(change) = change {
            return Some(format!("the agent changed {change} of this call while it was decided"));
        }
        // The copy of large arguments takes long.
        let is_same = Arc::ptr_eq(&newest, &asked)
            || ToolCallInfo { changed: asked.changed, ..ToolCallInfo::clone(&newest) } == *asked;
        let refusal = if is_same { None } else { self.refusal_of_newer(&newest) };
        refusal.map(|reason| format!("the agent changed this call while it was decided: {reason}"))
    }
}

/// Returns the kind of a call. A kind that says nothing is completed by a later one.
fn kind_of(call: &ToolCallInfo) -> Option<ToolKind> {
    call.kind.clone().filter(|kind| kind.as_str() != "other")
}

/// Returns what the agent has changed in a call since the program was asked about it.
pub(super) fn change_between(asked: &ToolCallInfo, newest: &ToolCallInfo) -> Option<&'static str> {
    if is_said(asked) && asked.arguments != newest.arguments {
        return Some("the arguments");
    }
    if asked.name != newest.name && !asked.name.is_empty() && !newest.name.is_empty() {
        return Some("the name");
    }
    if kind_of(asked).is_some_and(|before| kind_of(newest).is_some_and(|now| now != before)) {
        return Some("the kind");
    }
    let known = |path: &String| asked.diffs.iter().flatten().any(|known| known == path);
    let shows_more = newest.diffs.iter().flatten().any(|path| !known(path));
    shows_more.then_some("the changed files")
}

/// Returns whether the agent says that a call changes something, and had named no kind when the program was asked.
fn changes_more(asked: &ToolCallInfo, newest: &ToolCallInfo) -> bool {
    let changes = ["execute", "edit", "delete", "move"];
    kind_of(asked).is_none() && kind_of(newest).is_some_and(|kind| changes.contains(&kind.as_str()))
}

/// Returns whether the agent names files of which the program knew nothing when it was asked.
pub(super) fn names_more(asked: &ToolCallInfo, newest: &ToolCallInfo) -> bool {
    let arguments = asked.arguments.iter().flat_map(|arguments| arguments.values());
    let named: Vec<&str> = arguments.filter_map(serde_json::Value::as_str).filter(|text| !text.is_empty()).collect();
    let is_named = |path: &str| named.iter().any(|text| Path::new(path).ends_with(text));
    let known = |path: &String| asked.locations.iter().chain(&asked.diffs).flatten().any(|known| known == path);
    newest.locations.iter().flatten().any(|path| !known(path) && !is_named(path))
}
