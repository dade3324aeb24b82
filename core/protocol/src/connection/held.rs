//! Requests for tools, files and terminals of the program that a rule asks about. They wait for an approval, which the SDK makes,
//! and no handler is called before.

use std::time::Instant;

use super::policy::AskedAbout;
use super::requests::{INTERNAL_ERROR, ReplyTo, RequestKey};
use super::{Connection, Output, Scope};
use crate::answers::Approval;
use crate::dialect::Answer;
use crate::messages::value::RequestOrigin;
use crate::messages::{
    ApprovalRequest, DiffDisplayBlock, DisplayBlock, Event, PolicyDecision, ShellDisplayBlock, TerminalRequest,
    ToolCallInfo, ToolReturnValue,
};

/// A request that waits for an approval.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) key: RequestKey,
    pub(super) reply_to: ReplyTo,
    pub(super) scope: Scope,
    pub(super) request: Box<Event>,
    /// The size of the request, in bytes.
    pub(super) size: usize,
    /// The call, as rules see it.
    pub(super) call: ToolCallInfo,
    /// What the program is asked.
    pub(super) asked: Option<AskedAbout>,
}

impl Connection {
    /// Sends an answer, or goes on with the request that waits for it.
    pub(super) fn send_answer_or_go_on(&mut self, reply_to: ReplyTo, request_id: &str, answer: &Answer, now: Instant) {
        let ReplyTo::Held(held) = reply_to else { return self.send_answer(reply_to, request_id, answer) };
        match answer {
            Answer::Approval(Approval::Approve | Approval::ApproveForSession) => {
                let Held { key, reply_to, scope, request, size, .. } = *held;
                self.dispatch(key, reply_to, scope, (request, size), true, now);
            }
            Answer::Approval(Approval::Reject { feedback: Some(feedback) }) => {
                self.refuse_held(*held, INTERNAL_ERROR, format!("the user rejected this: {feedback}"));
            }
            _ => self.refuse_held(*held, INTERNAL_ERROR, "the user rejected this".to_owned()),
        }
    }

    pub(super) fn refuse_held(&mut self, held: Held, code: i64, reason: String) {
        self.refuse_request(held.reply_to, &held.request, code, reason);
    }

    /// Refuses a request for a tool, a file or a terminal. The model reads the reason.
    pub(super) fn refuse_request(&mut self, reply_to: ReplyTo, request: &Event, code: i64, reason: String) {
        match &reply_to {
            ReplyTo::Agent(rpc_id) if !matches!(request, Event::ToolCallRequest(_)) => {
                self.refuse_with(rpc_id, code, &reason)
            }
            _ => {
                let request_id = request.request_id().unwrap_or_default();
                self.send_answer(reply_to, request_id, &Answer::Tool(ToolReturnValue::error(reason)));
            }
        }
    }

    /// Asks the program about a request that a rule asks about.
    pub(super) fn ask_first(&mut self, mut held: Held, decision: PolicyDecision, now: Instant) {
        let key = self.new_key();
        let scope = held.scope;
        let asked = approval_of(&held.request, &held.call);
        held.asked = Some(self.approved_calls().asked(&asked, &decision, &[]));
        let mut asked = Box::new(Event::from(asked));
        asked.set_origin(RequestOrigin { session: self.number, request: key });
        let (of_held, size) = (held.size, serde_json::to_string(&asked).map_or(0, |json| json.len()));
        self.outputs.push_back(Output::Event { scope, event: asked.clone(), size });
        self.report_decision(decision, scope);
        self.dispatch(key, ReplyTo::Held(Box::new(held)), scope, (asked, size + of_held), false, now);
    }
}

/// Returns the request for an approval of a request that a rule asks about.
pub(super) fn approval_of(request: &Event, call: &ToolCallInfo) -> ApprovalRequest {
    let (action, description, display) = match request {
        Event::ReadFileRequest(request) => ("read file", request.path.clone(), None),
        Event::WriteFileRequest(request) => {
            let diff = DiffDisplayBlock {
                path: request.path.clone(),
                old_text: String::new(),
                new_text: request.content.clone(),
                old_start: None,
                new_start: None,
                is_summary: None,
                extra: Default::default(),
            };
            ("edit file", request.path.clone(), Some(DisplayBlock::Diff(diff)))
        }
        Event::TerminalRequest(request) => {
            let command = command_line(request);
            let (language, extra) = ("bash".to_owned(), Default::default());
            let shell = ShellDisplayBlock { language, command: command.clone(), extra };
            ("run command", command, Some(DisplayBlock::Shell(shell)))
        }
        _ => ("call tool", call.name.clone(), None),
    };
    let mut approval = ApprovalRequest::new(call.name.clone(), action, description);
    approval.id = format!("approval of {}", request.request_id().unwrap_or_default());
    approval.tool_call_id.clone_from(&call.id);
    approval.display.extend(display);
    approval.tool_call = call.clone().into();
    approval
}

/// The command of a terminal in one line. Without arguments, it is the text for a shell.
pub(super) fn command_line(request: &TerminalRequest) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "-_./:=@%+,".contains(character);
    let quoted = |word: &String| match word.is_empty() || !word.chars().all(is_plain) {
        true => format!("'{}'", word.replace('\'', r"'\''")),
        false => word.clone(),
    };
    if request.args.is_empty() {
        return request.command.clone();
    }
    std::iter::once(&request.command).chain(&request.args).map(quoted).collect::<Vec<_>>().join(" ")
}
