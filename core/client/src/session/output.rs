//! Structured output of a session: the tool that the agent is offered, and the output of each turn.

use std::sync::Arc;

use crate::connection::OutputTool;
use crate::dialect::{Handshake, ToolOffer, unsupported_option};
use crate::error::{Result, invalid_option};
use crate::handler::ExternalTool;
use crate::messages::ToolReturnValue;
use crate::options::{PromptOptions, SessionOptions};
use crate::output::{PromptOutput, SessionOutput};
use crate::{Error, OutputMode};

impl SessionOptions {
    /// Returns the output of the session with its compiled schema, before the agent is known.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a wrong schema.
    pub(super) fn session_output(&self) -> Result<Option<SessionOutput>> {
        let Some(output) = self.output.as_deref() else { return Ok(None) };
        let plan = output.plan().map_err(|reason| self.invalid("output", reason))?;
        let by_tool = output.spec().mode != OutputMode::Text;
        Ok(Some(SessionOutput { output: output.clone(), plan, by_tool }))
    }
}

impl SessionOutput {
    /// Returns the tool to offer, if one is to be offered.
    pub(super) fn offer(&self) -> Option<ToolOffer> {
        self.by_tool.then(|| self.plan.tool())
    }

    /// Returns the tool for the connection, which answers its calls. `server` is the MCP server that offers it.
    pub(super) fn tool(&self, server: Option<&str>) -> Option<Box<OutputTool>> {
        self.by_tool.then(|| Box::new(OutputTool::new(&self.plan, server.map(str::to_owned))))
    }

    /// Notes whether the agent has taken the tool, and removes the tool from the list for the program.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the program requires the tool and the agent does not take it.
    pub(super) fn settle(&mut self, handshake: &mut Handshake) -> Result<()> {
        let name = &self.output.spec().name;
        let tools = &mut handshake.external_tools;
        let refused = tools.rejected.iter().find(|tool| tool.name == *name).map(|tool| tool.reason.clone());
        let is_refused = refused.is_some();
        if self.by_tool {
            tools.accepted.retain(|tool| tool != name);
            tools.rejected.retain(|tool| tool.name != *name);
        }
        let is_taken = self.by_tool && handshake.capabilities.external_tools && !is_refused;
        if !is_taken && self.output.spec().mode == OutputMode::Tool {
            let what = if is_refused {
                format!("the tool `{name}` of `output`: it refuses the name; set another `name`")
            } else {
                "the mode `tool` of `output`; set `mode` to \"auto\" or \"text\"".to_owned()
            };
            return Err(unsupported_option(handshake, &what));
        }
        if let Some(reason) = refused.filter(|_| self.by_tool) {
            tracing::warn!(
                tool = name,
                reason,
                "the agent refused the tool of the output, so values are taken from the text; another name may be accepted"
            );
        }
        self.by_tool = is_taken;
        Ok(())
    }
}

/// Returns the output of a turn: that of its prompt, else that of the session.
///
/// # Errors
/// [`Error::InvalidOption`] for a wrong schema, or for a tool that was not offered when the session opened.
pub(super) fn of_turn(session: Option<&SessionOutput>, prompt: &PromptOptions) -> Result<Option<Box<PromptOutput>>> {
    let Some(output) = prompt.output.as_deref() else {
        return Ok(session.map(|session| session.output.for_turn(Arc::clone(&session.plan), session.by_tool)));
    };
    let plan = output.plan().map_err(|reason| invalid_option("output", reason))?;
    let has_tool = session.is_some_and(|session| session.by_tool && session.plan.has_same_tool(&plan));
    let by_tool = match output.spec().mode {
        OutputMode::Text => false,
        OutputMode::Tool if !has_tool => return Err(too_late()),
        _ => has_tool,
    };
    Ok(Some(output.for_turn(plan, by_tool)))
}

fn too_late() -> Error {
    let reason = "its mode is `tool`, and agents take tools only when a session opens; set the `output` of the session, or the \
                  mode `text`";
    invalid_option("output", reason)
}

/// Makes the entry of the MCP server for the tool. The connection answers its calls, and its handler is never called.
pub(super) fn listed_tool(offer: &ToolOffer) -> ExternalTool {
    ExternalTool::new(&*offer.name, &*offer.description, offer.parameters.clone(), |_| async {
        Ok(ToolReturnValue::error("the turn has ended"))
    })
}

/// Moves the output of a prompt to the session of its own, where the agent can get a tool for it.
pub(super) fn move_to_session(prompt: &mut PromptOptions, options: &mut SessionOptions) {
    if let Some(output) = prompt.output.take() {
        options.output = Some(output);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Output;
    use crate::messages::RejectedTool;

    fn is_by_tool(session: Option<&SessionOutput>, output: Output) -> bool {
        let prompt = PromptOptions::new("hi").output(output);
        of_turn(session, &prompt).ok().flatten().is_some_and(|output| output.turn.by_tool)
    }

    fn session(output: Output) -> SessionOutput {
        let options = SessionOptions::new().output(output);
        options.session_output().expect("a valid output").expect("an output")
    }

    fn handshake(external_tools: bool) -> Handshake {
        let mut handshake = Handshake::default();
        handshake.capabilities.external_tools = external_tools;
        handshake
    }

    #[test]
    fn text_replaces_missing_tool() {
        let plain = Output::new(json!({"type": "object"}));
        let mut output = session(plain.clone());
        output.settle(&mut handshake(false)).expect("auto");
        assert!(!output.by_tool);
        let error = session(plain.mode(OutputMode::Tool)).settle(&mut handshake(false)).expect_err("no tools");
        assert_eq!(error.code(), "unsupported");
    }

    #[test]
    fn refused_tool_is_not_used() {
        let mut output = session(Output::new(json!({"type": "object"})));
        let mut handshake = handshake(true);
        let refused =
            |name: &str| RejectedTool { name: name.to_owned(), reason: String::new(), extra: Default::default() };
        handshake.external_tools.rejected = vec![refused("other"), refused("final_result")];
        output.settle(&mut handshake).expect("auto");
        assert!(!output.by_tool);
        assert_eq!(handshake.external_tools.rejected.len(), 1);
    }

    #[test]
    fn prompt_shares_tool_of_session() {
        let schema = json!({"type": "object"});
        let mut of_session = session(Output::new(schema.clone()));
        of_session.settle(&mut handshake(true)).expect("tools");
        assert!(is_by_tool(Some(&of_session), Output::new(schema.clone()).retries(7)));
        assert!(!is_by_tool(Some(&of_session), Output::new(schema.clone()).mode(OutputMode::Text)));
        assert!(!is_by_tool(Some(&of_session), Output::new(json!({"type": "array"}))));
        assert!(!is_by_tool(None, Output::new(schema.clone())));
        let late = PromptOptions::new("hi").output(Output::new(schema).mode(OutputMode::Tool));
        assert_eq!(of_turn(None, &late).expect_err("too late").code(), "invalid_option");
    }
}
