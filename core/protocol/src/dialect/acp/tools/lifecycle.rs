//! The life of a call: its announcement, its updates and its end.

use agent_client_protocol_schema::v1::{self as acp, ToolCallStatus, ToolCallUpdateFields};
use serde_json::{Value, json};

use super::arguments::{is_blank, looks_like_arguments, shows_arguments, whole_arguments};
use super::output::has_text;
use super::restated::names_mcp_tool;
use super::{Call, is_end};
use crate::dialect::Incoming;
use crate::dialect::acp::{Acp, content, updates};
use crate::messages::{FunctionCall, ToolCall};

/// The approximate size of a location without its path, in bytes.
const LOCATION: usize = 200;

impl Acp {
    /// Emits a tool call that the agent has not announced.
    pub(in super::super) fn announce(&mut self, id: &str, name: Option<&str>, all: &mut Vec<Incoming>) {
        if self.tools.find(id).is_none() {
            let name = name.unwrap_or_default().to_owned();
            self.tools.add(Call { id: id.to_owned(), name: name.clone(), ..Call::default() });
            self.tell(id, &name, "", true, all);
        }
    }

    pub(super) fn tell(&mut self, id: &str, name: &str, arguments: &str, made_here: bool, all: &mut Vec<Incoming>) {
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
    pub(in super::super) fn tool_call(
        &mut self,
        id: &str,
        name: &str,
        mut fields: ToolCallUpdateFields,
        meta: Option<&acp::Meta>,
        all: &mut Vec<Incoming>,
    ) {
        if self.complete_ended(id, Some(name), &fields, all) {
            return;
        }
        self.complete_begun(id, name, &mut fields, all);
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
    pub(in super::super) fn tool_update(
        &mut self,
        id: &str,
        fields: ToolCallUpdateFields,
        meta: Option<&acp::Meta>,
        all: &mut Vec<Incoming>,
    ) {
        self.announce(id, fields.title.as_deref(), all);
        let Some(call) = self.tools.find(id) else { return };
        if call.ended {
            if self.complete_ended(id, None, &fields, all) {
                return;
            }
            let Some(call) = self.tools.find(id) else { return };
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
        let is_other_text = call.take_texts(&fields);
        if call.is_known_by_texts() && is_other_text {
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

    fn end_call(&mut self, id: &str, failed: bool, raw_output: Option<Value>, all: &mut Vec<Incoming>) {
        let Some(call) = self.tools.find(id) else { return };
        all.push(Incoming::event(call.end(failed, raw_output)));
    }
}
