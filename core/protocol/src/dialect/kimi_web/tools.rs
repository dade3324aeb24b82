//! Tool calls, whose arguments arrive in pieces and then complete, and their results.

use serde::Deserialize;
use serde_json::Value;

use super::agents::{Call, MAX_CALLS, Place};
use super::{KimiWeb, content, members};
use crate::dialect::Incoming;
use crate::json::is_true;
use crate::messages::{Event, FunctionCall, Json, ToolCall, ToolCallPart, ToolResult, ToolReturnValue, decode_body};

impl KimiWeb {
    pub(super) fn call_delta(
        &mut self,
        payload: &str,
        agent: &str,
        place: Place,
        all: &mut Vec<Incoming>,
    ) -> Result<(), String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Piece {
            #[serde(deserialize_with = "members::id")]
            tool_call_id: String,
            name: Option<String>,
            arguments_part: Option<String>,
        }
        let piece: Piece = decode_body(payload)?;
        if self.is_retold(agent) && self.agents.main.is_done(&piece.tool_call_id) {
            return Ok(());
        }
        self.reject_changed(&piece.tool_call_id, all);
        let progress = self.agents.progress(agent);
        let is_full = progress.calls.len() >= MAX_CALLS;
        match progress.calls.get_mut(&piece.tool_call_id) {
            None if is_full => {}
            None => {
                // The server names the tool with each piece; older releases name it only with the first.
                let Some(name) = piece.name else { return Ok(()) };
                let mut call = Call::named(&name);
                call.add(piece.arguments_part.as_deref().unwrap_or_default());
                progress.calls.insert(piece.tool_call_id.clone(), call);
                progress.last = Some(piece.tool_call_id.clone());
                self.push(agent, place, tool_call(piece.tool_call_id, name, piece.arguments_part), all);
            }
            // A part belongs to the call before it. If two calls are mixed, the complete call is emitted again.
            Some(call) if call.is_whole => {}
            Some(call) if progress.last.as_ref() != Some(&piece.tool_call_id) => call.is_partial = true,
            Some(call) if call.is_partial => {}
            Some(call) => {
                call.add(piece.arguments_part.as_deref().unwrap_or_default());
                let part = ToolCallPart { arguments_part: piece.arguments_part, extra: Default::default() };
                self.push(agent, place, part.into(), all);
            }
        }
        Ok(())
    }

    pub(super) fn call_started(
        &mut self,
        payload: &str,
        agent: &str,
        place: Place,
        all: &mut Vec<Incoming>,
    ) -> Result<(), String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Started {
            #[serde(deserialize_with = "members::id")]
            tool_call_id: String,
            name: Option<String>,
            args: Option<Json>,
        }
        let started: Started = decode_body(payload)?;
        if self.is_retold(agent) && self.agents.main.is_done(&started.tool_call_id) {
            return Ok(());
        }
        let arguments = started.args.map_or_else(|| "{}".to_owned(), |args| args.get().to_owned());
        // A call without a name is the one that was announced, or one of a tool that is not known.
        let known = self.agents.progress(agent).calls.get(&started.tool_call_id).map(|call| call.name.clone());
        let name = started.name.or(known).unwrap_or_default();
        self.tell_call(agent, started.tool_call_id, name, arguments, place, all);
        Ok(())
    }

    /// Emits a call with all of its arguments, unless that was done. The arguments may differ from the pieces before, or from
    /// those of another call with the same id.
    pub(super) fn tell_call(
        &mut self,
        agent: &str,
        id: String,
        name: String,
        arguments: String,
        place: Place,
        all: &mut Vec<Incoming>,
    ) {
        let progress = self.agents.progress(agent);
        if progress.calls.get(&id).is_some_and(|call| call.has(&arguments)) {
            return;
        }
        if progress.calls.len() < MAX_CALLS || progress.calls.contains_key(&id) {
            progress.calls.insert(id.clone(), Call::of_whole(&name, &arguments));
        }
        progress.last = Some(id.clone());
        self.push(agent, place, tool_call(id, name, Some(arguments)), all);
    }

    /// A request names a call that was not emitted: its pieces were lost, and the complete call arrives only after the
    /// answer.
    pub(super) fn tell_call_of_request(
        &mut self,
        agent: &str,
        id: &str,
        name: &str,
        place: Place,
        all: &mut Vec<Incoming>,
    ) {
        let progress = self.agents.progress(agent);
        if id.is_empty() || progress.calls.contains_key(id) || progress.calls.len() >= MAX_CALLS {
            return;
        }
        progress.calls.insert(id.to_owned(), Call::unknown(name));
        progress.last = Some(id.to_owned());
        self.push(agent, place, tool_call(id.to_owned(), name.to_owned(), None), all);
    }

    pub(super) fn tool_result(
        &mut self,
        payload: &str,
        agent: &str,
        place: Place,
        all: &mut Vec<Incoming>,
    ) -> Result<(), String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Returned {
            #[serde(deserialize_with = "members::id")]
            tool_call_id: String,
            output: Option<Json>,
            is_error: Option<Value>,
        }
        let result: Returned = decode_body(payload)?;
        if self.is_retold(agent) && self.agents.main.is_done(&result.tool_call_id) {
            return Ok(());
        }
        self.agents.progress(agent).end_call(&result.tool_call_id);
        let output = result.output.unwrap_or_default();
        let event = tool_result(result.tool_call_id, &output, result.is_error.as_ref().is_some_and(is_true));
        self.push(agent, place, event, all);
        Ok(())
    }
}

fn tool_call(id: String, name: String, arguments: Option<String>) -> Event {
    let function = FunctionCall { name, arguments, extra: Default::default() };
    ToolCall { id, function, extras: None, extra: Default::default() }.into()
}

pub(super) fn tool_result(tool_call_id: String, output: &Json, is_error: bool) -> Event {
    let return_value = ToolReturnValue { is_error, ..ToolReturnValue::ok(content::content(output)) };
    ToolResult { tool_call_id, return_value, extra: Default::default(), tool_call: Default::default() }.into()
}
