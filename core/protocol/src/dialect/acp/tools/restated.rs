//! The description of a call in a permission request.

use agent_client_protocol_schema::v1::{self as acp, ToolCallUpdateFields};
use serde_json::Value;

use super::arguments::{has_value, is_blank, whole_arguments};
use super::{Call, MAX_DETAIL, MAX_DETAILS};
use crate::dialect::Incoming;
use crate::dialect::acp::{Acp, updates};
use crate::json::parsed_object;

impl Call {
    /// Whether the arguments have this text as a value.
    fn has_argument(&self, text: &str) -> bool {
        let arguments = parsed_object(&self.arguments).unwrap_or_default();
        arguments.values().any(|value| value.as_str() == Some(text))
    }

    /// Whether a title of a request says what the arguments say: it is a value of theirs, in words of the agent or before
    /// an explanation.
    pub(super) fn explains(&self, title: &str) -> bool {
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

impl Acp {
    /// Takes in the description of a call in a permission request. It is newer than what the agent has said before; what
    /// it leaves out stays. A request about an unknown call, or about one that has ended, is about a new call.
    pub(in super::super) fn restate(
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
        let is_completed_late = self.tools.find(id).is_some_and(|call| call.is_completed_late);
        let Some(call) = self.tools.find(id).filter(|call| !call.ended) else {
            let name = name.or_else(|| fields.title.clone()).unwrap_or_default();
            let arguments = raw.map(|raw| whole_arguments(raw, None)).unwrap_or_default();
            let mut call = Call { id: id.to_owned(), name: name.clone(), called: raw.is_some(), ..Call::default() };
            (call.is_announced, call.is_asked) = (true, true);
            call.details.is_incomplete = is_completed_late;
            call.blank = fields.raw_input.as_ref().is_some_and(is_blank);
            call.arguments.clone_from(&arguments);
            call.describe(fields);
            call.take_texts(fields);
            self.tools.add(call);
            return self.tell(id, &name, &arguments, true, all);
        };
        // A request without a title has that of the last update.
        let updated = call.title.clone().filter(|title| fields.title.is_none() && *title != call.name);
        let title = fields.title.as_deref();
        let is_command = call.may_change_something || matches!(fields.kind, Some(acp::ToolKind::Execute));
        let contradicts = |call: &Call, title: &str| is_command && call.is_new_title(title) && !call.explains(title);
        let names_other = |title: &String| !call.has_argument(title) && (is_tool_name(title) || names_mcp_tool(title));
        let updated = updated.filter(names_other);
        call.details.title =
            title.filter(|title| raw.is_none() && contradicts(call, title)).map(str::to_owned).or(updated);
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
        call.take_texts(fields);
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
}

/// Returns whether a title names a tool of an MCP server, in one of the two forms that agents have.
pub(super) fn names_mcp_tool(title: &str) -> bool {
    (is_tool_name(title) && title.starts_with("mcp__")) || title.ends_with(" MCP Server)")
}

/// Returns whether a title can be the name of a tool.
pub(super) fn is_tool_name(title: &str) -> bool {
    !title.is_empty() && title.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}
