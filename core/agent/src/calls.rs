//! Tool calls of the scripted agent: announced together; each then passes hooks, the approval, and the program or the
//! user.

use std::fs;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::hooks::Hooks;
use super::run::{Agent, Answer, Flow, Stop, new_id};
use super::script::{Call, Does, Effect};
use crate::messages::{
    ApprovalKind, ApprovalRequest, ApprovalResponse, Content, FunctionCall, Question, QuestionRequest, ToolCall,
    ToolCallPart, ToolCallRequest, ToolResult, ToolReturnValue,
};

struct Running<'a> {
    call: &'a Call,
    id: String,
    arguments: String,
    stage: Stage,
    /// Rejected without feedback: the turn ends.
    rejected: bool,
}

enum Stage {
    Announced,
    Before(Hooks),
    /// Its approval request is sent after the earlier ones are answered.
    Queued,
    /// The approval request, and the action that it is about.
    Asking(String, String),
    /// A call of a tool of the program, or a question to the user.
    Asked(String),
    After(Hooks),
    Done,
}

impl Running<'_> {
    fn awaits(&self, request_id: &str) -> bool {
        match &self.stage {
            Stage::Before(hooks) | Stage::After(hooks) => hooks.await_answer(request_id),
            Stage::Asking(id, _) | Stage::Asked(id) => id == request_id,
            Stage::Announced | Stage::Queued | Stage::Done => false,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Before(hooks) | Stage::After(hooks) => hooks.deadline(),
            _ => None,
        }
    }

    /// The input of hooks on tools.
    fn hook_input(&self, result: Option<&ToolReturnValue>) -> Map<String, Value> {
        let input = serde_json::from_str(&self.arguments).unwrap_or_else(|_| json!(self.arguments));
        let mut data = Map::from_iter([
            ("tool_name".to_owned(), json!(self.call.name)),
            ("tool_input".to_owned(), input),
            ("tool_call_id".to_owned(), json!(self.id)),
        ]);
        if let Some(result) = result {
            data.insert("tool_output".to_owned(), json!(result.output.text()));
        }
        data
    }
}

impl Agent {
    /// Makes calls concurrently. Returns when all have their results.
    pub(crate) fn calls(&mut self, calls: &[Call]) -> Flow {
        self.begin_step()?;
        let mut running = Vec::new();
        for call in calls {
            running.push(self.announce(call)?);
        }
        for call in &mut running {
            self.before(call)?;
        }
        loop {
            let answered = self.answers.keys().find(|id| running.iter().any(|call| call.awaits(id))).cloned();
            if let Some((id, answer)) = answered.and_then(|id| self.answers.remove_entry(&id)) {
                for call in running.iter_mut().filter(|call| call.awaits(&id)) {
                    self.answered(call, &id, &answer)?;
                }
            }
            for call in &mut running {
                self.advance(call)?;
            }
            if running.iter().all(|call| matches!(call.stage, Stage::Done)) {
                break;
            }
            if !self.answers.keys().any(|id| running.iter().any(|call| call.awaits(id))) {
                self.wait(running.iter().filter_map(Running::deadline).min())?;
            }
        }
        self.step_is_open = false;
        if running.iter().any(|call| call.rejected) { Err(Stop::Rejected) } else { Ok(()) }
    }

    fn announce<'a>(&mut self, call: &'a Call) -> Flow<Running<'a>> {
        self.tool_calls += 1;
        let id = call.id.as_ref().map_or_else(|| format!("tc_{}", self.tool_calls), |id| self.fill(id));
        let arguments = match self.filled(&call.arguments) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let whole = if call.split == 0 { arguments.clone() } else { String::new() };
        self.server.event(ToolCall {
            id: id.clone(),
            function: FunctionCall { name: call.name.clone(), arguments: Some(whole), extra: Default::default() },
            extras: None,
            extra: Default::default(),
        });
        self.sent()?;
        if call.split > 0 {
            for piece in pieces(&arguments, call.split) {
                self.server.event(ToolCallPart { arguments_part: Some(piece), extra: Default::default() });
                self.sent()?;
            }
        }
        Ok(Running { call, id, arguments, stage: Stage::Announced, rejected: false })
    }

    fn before(&mut self, running: &mut Running<'_>) -> Flow {
        match self.pre_tool_use.take() {
            Some(Some(reason)) => return self.blocked(running, reason),
            Some(None) => return self.begin(running),
            None => {}
        }
        match self.trigger("PreToolUse", &running.call.name, None)? {
            None => self.begin(running),
            Some(mut hooks) => {
                self.ask_hooks(&mut hooks, running.hook_input(None))?;
                running.stage = Stage::Before(hooks);
                Ok(())
            }
        }
    }

    /// Continues the calls that no longer wait for an answer.
    fn advance(&mut self, running: &mut Running<'_>) -> Flow {
        let ready = match &mut running.stage {
            Stage::Before(hooks) | Stage::After(hooks) => self.hooks_are_done(hooks),
            // Another call of the same action was approved for the session, which approves this call too.
            Stage::Asking(_, action) => self.approved.contains(action),
            Stage::Queued => self.asking.is_empty(),
            _ => false,
        };
        if !ready {
            return Ok(());
        }
        match std::mem::replace(&mut running.stage, Stage::Done) {
            Stage::Before(hooks) => match self.resolve_hooks(hooks)? {
                Some(reason) => self.blocked(running, reason),
                None => self.begin(running),
            },
            Stage::After(hooks) => self.resolve_hooks(hooks).map(drop),
            Stage::Asking(id, _) => {
                self.server.withdraw(&id);
                self.approval_is_resolved(id, ApprovalKind::Approve, None)?;
                self.act(running)
            }
            Stage::Queued => self.begin(running),
            Stage::Announced | Stage::Asked(_) | Stage::Done => Ok(()),
        }
    }

    fn begin(&mut self, running: &mut Running<'_>) -> Flow {
        match &running.call.does {
            Does::Tool { approve: Some(approve), .. } if !self.options.yolo => self.ask(running, approve),
            Does::Tool { .. } => self.act(running),
            Does::External { force } => {
                let name = &running.call.name;
                if !force && !self.server.client().has_tool(name) {
                    let result = ToolReturnValue::error(format!("There is no tool `{name}`."));
                    return self.result(running, result);
                }
                let request = ToolCallRequest {
                    id: running.id.clone(),
                    name: name.clone(),
                    arguments: Some(running.arguments.clone()),
                    extra: Default::default(),
                };
                running.stage = Stage::Asked(running.id.clone());
                self.server.request(&running.id, request);
                self.sent()
            }
            Does::Question { questions, request_id } => {
                let able = self.server.profile().is_kimi_code() || self.server.client().supports_question;
                if !self.server.profile().questions || !able {
                    let result = ToolReturnValue::error("The client does not support questions.");
                    return self.result(running, result);
                }
                let id = request_id.as_ref().map_or_else(new_id, |id| self.fill(id));
                let questions: Vec<Question> = serde_json::from_value(self.filled(questions)).unwrap_or_default();
                let tool_call_id = running.id.clone();
                running.stage = Stage::Asked(id.clone());
                let request = QuestionRequest { id: id.clone(), tool_call_id, questions, extra: Default::default() };
                self.server.request(&id, request);
                self.sent()
            }
        }
    }

    fn ask(&mut self, running: &mut Running<'_>, approve: &Value) -> Flow {
        let name = &running.call.name;
        let mut fields = json!({
            "id": new_id(), "tool_call_id": running.id, "sender": name,
            "action": format!("use {name}"), "description": format!("Use {name}"),
        });
        if let (Some(fields), Value::Object(given)) = (fields.as_object_mut(), self.filled(approve)) {
            fields.extend(given);
        }
        // Only ACP's request describes the call anew; the others show the command.
        let command = fields["tool_call"]["rawInput"]["command"].clone();
        if command.is_string() && !self.server.profile().acp {
            fields["display"] = json!([{"type": "shell", "language": "bash", "command": command}]);
        }
        if let Some(fields) = fields.as_object_mut().filter(|_| !self.server.profile().acp) {
            fields.shift_remove("tool_call");
        }
        let Ok(request) = serde_json::from_value::<ApprovalRequest>(fields) else { return self.act(running) };
        if self.approved.contains(&request.action) {
            return self.act(running);
        }
        // Kimi Code sends one approval request at a time.
        if self.server.profile().is_kimi_code() && !self.asking.is_empty() {
            running.stage = Stage::Queued;
            return Ok(());
        }
        let id = request.id.clone();
        running.stage = Stage::Asking(id.clone(), request.action.clone());
        self.asking.push(id.clone());
        self.server.request(&id, request);
        self.sent()
    }

    fn answered(&mut self, running: &mut Running<'_>, id: &str, answer: &Answer) -> Flow {
        match std::mem::replace(&mut running.stage, Stage::Done) {
            Stage::Before(mut hooks) => {
                self.hook_answered(&mut hooks, id, answer);
                running.stage = Stage::Before(hooks);
                Ok(())
            }
            Stage::After(mut hooks) => {
                self.hook_answered(&mut hooks, id, answer);
                running.stage = Stage::After(hooks);
                Ok(())
            }
            Stage::Asking(_, action) => self.approval_answered(running, id, &action, answer),
            Stage::Asked(_) => {
                let result = match &running.call.does {
                    Does::Question { .. } => self.question_answered(answer),
                    _ => self.tool_answered(&running.id, answer),
                };
                self.result(running, result)
            }
            Stage::Announced | Stage::Queued | Stage::Done => Ok(()),
        }
    }

    /// Reads an answer. Everything that is not a clear approval is a rejection.
    fn approval_answered(&mut self, running: &mut Running<'_>, id: &str, action: &str, answer: &Answer) -> Flow {
        let text = |name: &str| answer.as_ref().ok().and_then(|answer| answer.get(name)?.as_str()).unwrap_or_default();
        let response = match text("response") {
            "approve" => ApprovalKind::Approve,
            "approve_for_session" => ApprovalKind::ApproveForSession,
            _ => ApprovalKind::Reject,
        };
        let feedback = if response == ApprovalKind::Reject && self.server.speaks(6) { text("feedback") } else { "" };
        let feedback = Some(feedback.to_owned()).filter(|feedback| !feedback.is_empty());
        self.last = json!({"response": response, "feedback": feedback});
        self.approval_is_resolved(id.to_owned(), response.clone(), feedback.clone())?;
        if response == ApprovalKind::ApproveForSession {
            self.approved.insert(action.to_owned());
        }
        if response != ApprovalKind::Reject {
            return self.act(running);
        }
        // Over ACP a turn continues after a rejection.
        running.rejected = feedback.is_none() && !self.server.profile().is_kimi_code();
        let message = match &feedback {
            None => "Rejected by the user.".to_owned(),
            Some(feedback) => format!("Rejected by the user: {feedback}"),
        };
        let result = match &running.call.does {
            Does::Tool { feedback_result: Some(result), .. } if feedback.is_some() => self.scripted(result),
            _ => brief_error(message, "Rejected by the user"),
        };
        self.plain_result(running, result)
    }

    fn approval_is_resolved(&mut self, id: String, response: ApprovalKind, feedback: Option<String>) -> Flow {
        self.asking.retain(|asking| *asking != id);
        self.server.event(ApprovalResponse { request_id: id, response, feedback, extra: Default::default() });
        self.sent()
    }

    fn question_answered(&mut self, answer: &Answer) -> ToolReturnValue {
        let given = answer.as_ref().ok().and_then(|answer| answer.get("answers")?.as_object());
        let given = given.filter(|answers| !answers.is_empty() && answers.values().all(Value::is_string));
        let (output, message, brief) = match given {
            Some(answers) => (json!({"answers": answers}), "The user has answered.", "User answered"),
            None => {
                let note = "The user dismissed the question.";
                (json!({"answers": {}, "note": note}), note, "User dismissed")
            }
        };
        self.last = json!({"answers": output["answers"], "output": output.to_string(), "message": message});
        let mut result = ToolReturnValue::ok(output.to_string());
        message.clone_into(&mut result.message);
        result.display = brief_display(brief);
        result
    }

    fn tool_answered(&mut self, tool_call_id: &str, answer: &Answer) -> ToolReturnValue {
        let result = match answer {
            Err(failure) => Err(failure.message.clone()),
            Ok(answer) => serde_json::from_value::<ToolResult>(answer.clone())
                .map_err(|error| format!("The tool's answer makes no sense: {error}"))
                .and_then(|result| match result.tool_call_id == tool_call_id {
                    true => Ok(result.return_value),
                    false => Err(format!("The tool's answer is for another call, {}", result.tool_call_id)),
                }),
        };
        let result = result.unwrap_or_else(ToolReturnValue::error);
        self.last = serde_json::to_value(&result).unwrap_or_default();
        result
    }

    /// Runs the tool, and returns its result.
    fn act(&mut self, running: &mut Running<'_>) -> Flow {
        let Does::Tool { effect, result, .. } = &running.call.does else { return Ok(()) };
        let result = match effect.as_ref().map(|effect| self.carry_out(effect)) {
            Some(Err(error)) => ToolReturnValue::error(error),
            _ => self.scripted(result),
        };
        self.result(running, result)
    }

    fn carry_out(&self, effect: &Effect) -> Result<(), String> {
        let path = self.path(&self.fill(&effect.write_file));
        fs::write(&path, self.fill(&effect.content)).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn scripted(&self, result: &Value) -> ToolReturnValue {
        // The form was checked when the script was read. Templates change texts only.
        serde_json::from_value(self.filled(result)).unwrap_or_else(|error| ToolReturnValue::error(error.to_string()))
    }

    fn blocked(&mut self, running: &mut Running<'_>, reason: String) -> Flow {
        self.plain_result(running, brief_error(reason, "Hook blocked"))
    }

    /// Makes the result of a call that was executed.
    fn result(&mut self, running: &mut Running<'_>, result: ToolReturnValue) -> Flow {
        let event = if result.is_error { "PostToolUseFailure" } else { "PostToolUse" };
        let hooks = self.trigger(event, &running.call.name, None)?;
        let input = running.hook_input(Some(&result));
        self.plain_result(running, result)?;
        if let Some(mut hooks) = hooks {
            self.ask_hooks(&mut hooks, input)?;
            running.stage = Stage::After(hooks);
        }
        Ok(())
    }

    fn plain_result(&mut self, running: &mut Running<'_>, return_value: ToolReturnValue) -> Flow {
        running.stage = Stage::Done;
        let tool_call_id = running.id.clone();
        self.server.event(ToolResult {
            tool_call_id,
            return_value,
            extra: Default::default(),
            tool_call: Default::default(),
        });
        self.sent()
    }
}

fn brief_display(text: &str) -> Vec<crate::messages::DisplayBlock> {
    vec![crate::messages::BriefDisplayBlock { text: text.to_owned(), extra: Default::default() }.into()]
}

fn brief_error(message: String, brief: &str) -> ToolReturnValue {
    let mut result = ToolReturnValue::error(message);
    result.display = brief_display(brief);
    result.output = Content::Text(String::new());
    result
}

/// Splits text into this many pieces of about the same length, or into fewer if there are not enough characters.
fn pieces(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let length = characters.len().div_ceil(count.max(1)).max(1);
    characters.chunks(length).map(|chunk| chunk.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn text_is_split_between_characters() {
        assert_eq!(pieces("äbcd", 2), ["äb", "cd"]);
        assert_eq!(pieces("abc", 2), ["ab", "c"]);
        assert_eq!(pieces("ab", 9), ["a", "b"]);
        assert!(pieces("", 3).is_empty());
    }
}
