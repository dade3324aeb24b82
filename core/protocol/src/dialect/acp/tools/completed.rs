//! Calls that the agent describes after their end, or after their first update.

use agent_client_protocol_schema::v1::ToolCallUpdateFields;
use serde_json::json;

use super::Call;
use super::arguments::{hash_of, is_blank, whole_arguments};
use crate::connection::LATE;
use crate::dialect::Incoming;
use crate::dialect::acp::Acp;
use crate::messages::Event;

impl Call {
    /// Whether the call has ended without a description: only updates have named it. Other arguments than its own are those of
    /// another call.
    fn is_undescribed(&self, fields: &ToolCallUpdateFields) -> bool {
        self.ended && !self.is_announced && (self.ended_with.is_none() || !self.has_other_input(fields))
    }
}

impl Acp {
    /// Completes a call that has ended, with its name or its arguments. The program gets the call again, with the field `late`.
    /// Returns whether the call was waiting for them.
    pub(super) fn complete_ended(
        &mut self,
        id: &str,
        name: Option<&str>,
        fields: &ToolCallUpdateFields,
        all: &mut Vec<Incoming>,
    ) -> bool {
        let Some(call) = self.tools.find(id).filter(|call| call.ended) else { return false };
        let is_undescribed = name.is_some() && call.is_undescribed(fields);
        let input = fields.raw_input.as_ref().filter(|raw| !is_blank(raw) && !raw.is_null());
        let input = input.filter(|_| call.ended_with.is_none());
        if !is_undescribed && (name.is_some() || input.is_none()) {
            return false;
        }
        call.is_announced |= name.is_some();
        let is_named = name.is_some() && call.name.is_empty();
        if let Some(name) = name.filter(|_| is_named) {
            name.clone_into(&mut call.name);
        }
        let arguments = input.map(|raw| whole_arguments(raw, None));
        if let Some(arguments) = &arguments {
            call.ended_with = hash_of(arguments);
            call.is_completed_late = true;
        }
        if is_named || arguments.is_some() {
            let name = call.name.clone();
            self.tell(id, &name, &arguments.unwrap_or_default(), true, all);
            // No part belongs to it.
            self.tools.last = None;
            if let Some(Incoming::Event(event)) = all.last_mut()
                && let Event::ToolCall(call) = &mut **event
            {
                call.extra.insert(LATE, json!(true));
            }
        }
        true
    }

    /// Completes a call that the agent announces after its first update: with its name, or with the title if it has a name.
    pub(super) fn complete_begun(
        &mut self,
        id: &str,
        name: &str,
        fields: &mut ToolCallUpdateFields,
        all: &mut Vec<Incoming>,
    ) {
        let Some(call) = self.tools.find(id).filter(|call| !call.is_announced && !call.ended) else { return };
        if !call.name.is_empty() {
            fields.title.get_or_insert_with(|| name.to_owned());
        } else if !name.is_empty() {
            name.clone_into(&mut call.name);
            let arguments = call.arguments.clone();
            self.tell(id, name, &arguments, true, all);
        }
    }
}
