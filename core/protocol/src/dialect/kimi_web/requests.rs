//! The agent's approval requests and questions.

use std::hash::BuildHasher as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::agents::Place;
use super::questions::{self, Asking, answers_body};
use super::{Asked, KimiWeb, MAIN, content, members, segment};
use crate::answers::Approval;
use crate::dialect::{Answer, Incoming};
use crate::json::exact;
use crate::messages::{
    ApprovalKind, ApprovalRequest, ApprovalResponse, ApprovalSource, Event, PlanDisplay, Question, QuestionOption,
    QuestionRequest, decode_body,
};

/// The tool whose approval is the review of a plan, and the kind of what is shown.
const PLAN_TOOL: &str = "ExitPlanMode";
pub(super) const PLAN_REVIEW: &str = "plan_review";
/// The limit of open requests.
const MAX_OPEN: usize = 2048;
/// The labels of a plan's review that the server adds to the plan's own.
const APPROVE: &str = "Approve";
const REJECT: &str = "Reject";
const REVISE: &str = "Revise";

/// An open request of the agent.
#[derive(Debug)]
pub(super) struct Pending {
    /// The agent's id of the request.
    id: String,
    what: What,
    /// Whether it was sent during the turn, and so ends with it.
    pub(super) of_turn: bool,
    /// Whether it was answered. The agent confirms that.
    is_answered: bool,
    /// The subject of an approval: its hash. The size of the subject is not limited.
    about: Option<u64>,
    /// The call of an open approval.
    call: String,
    /// How many approvals with the same id were answered before, and are not reported as resolved.
    unresolved: u32,
}

#[derive(Debug)]
enum What {
    Approval,
    /// A plan, with the labels of its options.
    Plan(Vec<String>),
    Questions(Vec<Asking>),
}

#[derive(Deserialize)]
struct ApprovalPayload {
    #[serde(deserialize_with = "members::id")]
    approval_id: String,
    #[serde(default, deserialize_with = "members::turn")]
    turn_id: Option<i64>,
    #[serde(default, deserialize_with = "members::optional_id")]
    tool_call_id: String,
    #[serde(default, deserialize_with = "members::text")]
    tool_name: String,
    #[serde(default, deserialize_with = "members::text")]
    action: String,
    #[serde(default)]
    tool_input_display: Value,
    #[serde(default, deserialize_with = "members::agent")]
    agent_id: Option<String>,
}

#[derive(Deserialize)]
struct QuestionPayload {
    #[serde(deserialize_with = "members::id")]
    question_id: String,
    #[serde(default, deserialize_with = "members::turn")]
    turn_id: Option<i64>,
    #[serde(default, deserialize_with = "members::optional_id")]
    tool_call_id: String,
    #[serde(default, deserialize_with = "members::agent")]
    agent_id: Option<String>,
    #[serde(default)]
    questions: Value,
}

/// Returns the id of a request, unique in the session.
fn rpc_id(kind: &str, id: &str) -> String {
    format!("{kind}:{id}")
}

impl KimiWeb {
    pub(super) fn approval_requested(&mut self, payload: &str, all: &mut Vec<Incoming>) -> Result<(), String> {
        let asked: ApprovalPayload = match exact(payload) {
            Ok(asked) => asked,
            Err(reason) => return Err(self.refuse_unreadable("approval", payload, reason, all)),
        };
        let rpc_id = rpc_id("approval", &asked.approval_id);
        // The id and the name of the call, the action, and the display.
        let about = (&asked.tool_call_id, &asked.tool_name, &asked.action, &asked.tool_input_display);
        let about = self.requests.hasher().hash_one(about);
        let known = self.requests.get(&rpc_id);
        let agent = asked.agent_id.as_deref().unwrap_or(MAIN).to_owned();
        // After an answer, the id can be that of another approval.
        let is_again = known.is_some_and(|known| known.is_answered && known.about != Some(about));
        let unresolved = known.filter(|_| is_again).map_or(0, |known| known.unresolved.saturating_add(1));
        if let Some(known) = known.filter(|_| !is_again) {
            if known.about != Some(about) && !known.is_answered {
                // An answer could be meant for either.
                tracing::warn!("two approvals have the same id; both are rejected");
                let bytes = self.answer_request(&rpc_id, &Answer::Question(None));
                all.push(Incoming::Cancelled { rpc_id });
                all.push(Incoming::Answered(bytes));
            }
            return Ok(());
        }
        let place = self.place(&agent, asked.turn_id);
        if place == Place::Nowhere {
            return Ok(());
        }
        let names_call = [&asked.tool_call_id, &asked.tool_name, &asked.action].iter().any(|text| !text.is_empty());
        if !names_call && asked.tool_input_display.is_null() {
            // The session goes on: the server waits for an answer.
            let (id, of_turn) = (asked.approval_id, place == Place::Turn);
            let what = What::Approval;
            let pending =
                Pending { id, what, of_turn, is_answered: false, about: None, call: String::new(), unresolved };
            self.requests.insert(rpc_id.clone(), pending);
            all.push(Incoming::Answered(self.answer_request(&rpc_id, &Answer::Question(None))));
            // The agent can send any number of such requests.
            self.requests.remove(&rpc_id);
            return Err("it names no call".to_owned());
        }
        self.tell_call_of_request(&agent, &asked.tool_call_id, &asked.tool_name, place, all);
        let display = &asked.tool_input_display;
        // Another tool does more than to end the planning.
        let is_plan = asked.tool_name == PLAN_TOOL && display.get("kind").and_then(Value::as_str) == Some(PLAN_REVIEW);
        let is_background = place != Place::Turn || self.agents.is_background(&agent);
        let approval = ApprovalRequest {
            id: asked.approval_id.clone(),
            tool_call_id: asked.tool_call_id.clone(),
            sender: asked.tool_name,
            action: action(display).map_or_else(|| asked.action.clone(), str::to_owned),
            description: asked.action,
            source_kind: Some(if is_background {
                ApprovalSource::BackgroundAgent
            } else {
                ApprovalSource::ForegroundTurn
            }),
            source_id: asked.turn_id.map(|turn| turn.to_string()),
            subagent_type: self.agents.name(&agent),
            agent_id: Some(agent.clone()).filter(|agent| agent != MAIN),
            source_description: None,
            display: content::display(display, self.params.work_dir.to_str(), is_plan).into_iter().collect(),
            extra: Default::default(),
            tool_call: Default::default(),
        };
        let (what, request, approval) = if is_plan {
            let plan = display.get("plan").and_then(Value::as_str).unwrap_or_default();
            let path = display.get("path").and_then(Value::as_str).unwrap_or_default();
            let shown = PlanDisplay { content: plan.to_owned(), file_path: path.to_owned(), extra: Default::default() };
            self.push(&agent, place, shown.into(), all);
            let options = questions::read_options(display.get("options").unwrap_or_default()).unwrap_or_default();
            let ways: Vec<_> = options.into_iter().map(|(_, way)| way).collect();
            let labels = ways.iter().map(|way| way.label.clone()).collect();
            let question = plan_question(ways, plan);
            let request = QuestionRequest {
                id: asked.approval_id.clone(),
                tool_call_id: asked.tool_call_id.clone(),
                questions: vec![question],
                extra: Default::default(),
            };
            (What::Plan(labels), request.into(), Some(Box::new(approval)))
        } else {
            (What::Approval, approval.into(), None)
        };
        let of_turn = !is_background;
        let (id, call, about) = (asked.approval_id, asked.tool_call_id, Some(about));
        let pending = Pending { id, what, of_turn, is_answered: false, about, call, unresolved };
        self.ask(rpc_id, pending, request, approval, all);
        Ok(())
    }

    pub(super) fn question_requested(&mut self, payload: &str, all: &mut Vec<Incoming>) -> Result<(), String> {
        let asked = exact::<QuestionPayload>(payload);
        let asked = asked.and_then(|asked| questions::read(&asked.questions).map(|questions| (asked, questions)));
        let (asked, (known, questions)) = match asked {
            Ok(read) => read,
            Err(reason) => return Err(self.refuse_unreadable("question", payload, reason, all)),
        };
        let rpc_id = rpc_id("question", &asked.question_id);
        if self.requests.contains_key(&rpc_id) {
            return Ok(());
        }
        let agent = asked.agent_id.as_deref().unwrap_or(MAIN).to_owned();
        let place = self.place(&agent, asked.turn_id);
        if place == Place::Nowhere {
            return Ok(());
        }
        self.tell_call_of_request(&agent, &asked.tool_call_id, "AskUserQuestion", place, all);
        let request = QuestionRequest {
            id: asked.question_id.clone(),
            tool_call_id: asked.tool_call_id,
            questions,
            extra: Default::default(),
        };
        let of_turn = place == Place::Turn && !self.agents.is_background(&agent);
        let what = What::Questions(known);
        let (id, call) = (asked.question_id, String::new());
        let pending = Pending { id, what, of_turn, is_answered: false, about: None, call, unresolved: 0 };
        self.ask(rpc_id, pending, request.into(), None, all);
        Ok(())
    }

    /// Refuses a request that cannot be read in full, if its id can: the server waits for an answer. Returns the reason.
    fn refuse_unreadable(&mut self, kind: &str, payload: &str, reason: String, all: &mut Vec<Incoming>) -> String {
        #[derive(Deserialize)]
        struct Request {
            #[serde(alias = "approval_id", alias = "question_id", deserialize_with = "members::id")]
            id: String,
            #[serde(default, deserialize_with = "members::turn")]
            turn_id: Option<i64>,
            #[serde(default, deserialize_with = "members::agent")]
            agent_id: Option<String>,
        }
        let Ok(request) = exact::<Request>(payload) else { return reason };
        if self.place(request.agent_id.as_deref().unwrap_or(MAIN), request.turn_id) == Place::Nowhere {
            return reason;
        }
        let rpc_id = rpc_id(kind, &request.id);
        if self.requests.get(&rpc_id).is_some_and(|known| !known.is_answered) {
            // An answer could be meant for either.
            let bytes = self.answer_request(&rpc_id, &Answer::Question(None));
            all.push(Incoming::Cancelled { rpc_id });
            all.push(Incoming::Answered(bytes));
            return reason;
        }
        let id = segment(&request.id);
        let (path, body) = match kind {
            "approval" => (format!("/approvals/{id}"), json!({"decision": "rejected"})),
            _ => (format!("/questions/{id}:dismiss"), json!({})),
        };
        if let Ok(path) = self.path(&path) {
            all.push(Incoming::Answered(self.post(Asked::Aside("answer"), &path, &body)));
        }
        reason
    }

    /// Passes a request on. `approval` is for the rules, if the request is a question.
    fn ask(
        &mut self,
        rpc_id: String,
        pending: Pending,
        request: Event,
        approval: Option<Box<ApprovalRequest>>,
        all: &mut Vec<Incoming>,
    ) {
        if self.requests.len() >= MAX_OPEN {
            self.requests.retain(|_, request| !request.is_answered);
        }
        let is_full = self.requests.len() >= MAX_OPEN;
        self.requests.insert(rpc_id.clone(), pending);
        if is_full {
            tracing::warn!("too many requests are open; this one is rejected");
            let bytes = self.answer_request(&rpc_id, &Answer::Question(None));
            self.requests.remove(&rpc_id);
            return all.push(Incoming::Answered(bytes));
        }
        let request = Box::new(request);
        let request = match approval {
            Some(approval) => Incoming::Choice { rpc_id, question: request, approval },
            None => Incoming::Request { rpc_id, request },
        };
        match &mut self.replay {
            Some(replay) => replay.waiting.push(request),
            None => all.push(request),
        }
    }

    /// Returns the bytes of an answer. Empty for a request that is no longer open, which must not be granted.
    pub(super) fn answer_request(&mut self, rpc_id: &str, answer: &Answer) -> Vec<u8> {
        let Some(pending) = self.requests.get_mut(rpc_id).filter(|pending| !pending.is_answered) else {
            return Vec::new();
        };
        pending.is_answered = true;
        pending.call = String::new();
        let id = segment(&pending.id);
        let (path, body) = match &pending.what {
            What::Approval => (format!("/approvals/{id}"), approval_body(answer)),
            What::Plan(labels) => (format!("/approvals/{id}"), plan_body(answer, labels)),
            What::Questions(questions) => match answers_body(answer, questions) {
                Some(body) => (format!("/questions/{id}"), body),
                None => (format!("/questions/{id}:dismiss"), json!({})),
            },
        };
        self.path(&path).map(|path| self.post(Asked::Aside("answer"), &path, &body)).unwrap_or_default()
    }

    /// Rejects the open approvals of a call whose arguments go on: they were about less than the call.
    pub(super) fn reject_changed(&mut self, call: &str, all: &mut Vec<Incoming>) {
        let is_about = |pending: &Pending| pending.about.is_some() && pending.call == call;
        let open = self.requests.iter().filter(|(_, pending)| !pending.is_answered && is_about(pending));
        let open: Vec<_> = open.map(|(rpc_id, _)| rpc_id.clone()).collect();
        for rpc_id in open {
            tracing::warn!("the agent changed a call while it was decided; it is rejected");
            let bytes = self.answer_request(&rpc_id, &Answer::Question(None));
            all.push(Incoming::Cancelled { rpc_id });
            all.push(Incoming::Answered(bytes));
        }
    }

    /// Rejects the open requests. Returns the bytes.
    pub(super) fn reject_all(&mut self) -> Vec<u8> {
        let mut open: Vec<_> = self.requests.keys().cloned().collect();
        open.sort();
        let mut bytes = Vec::new();
        for rpc_id in open {
            bytes.extend(self.answer_request(&rpc_id, &Answer::Question(None)));
        }
        self.requests.clear();
        bytes
    }

    /// Handles the resolution of an approval, by any client.
    pub(super) fn approval_resolved(&mut self, payload: &str, all: &mut Vec<Incoming>) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Resolved {
            #[serde(deserialize_with = "members::id")]
            approval_id: String,
            decision: Option<String>,
            scope: Option<String>,
            feedback: Option<String>,
        }
        let resolved: Resolved = decode_body(payload)?;
        let rpc_id = rpc_id("approval", &resolved.approval_id);
        if let Some(pending) = self.requests.get_mut(&rpc_id).filter(|pending| pending.unresolved > 0) {
            // It is the end of an earlier approval with this id.
            pending.unresolved -= 1;
            return Ok(());
        }
        let pending = self.requests.remove(&rpc_id);
        // The review of a plan was emitted as a question, whose end has no event.
        let Some(Pending { what: What::Approval, of_turn, .. }) = pending else { return Ok(()) };
        let response = match (resolved.decision.as_deref(), resolved.scope.as_deref()) {
            (Some("approved"), Some("session")) => ApprovalKind::ApproveForSession,
            (Some("approved"), _) => ApprovalKind::Approve,
            _ => ApprovalKind::Reject,
        };
        let event = ApprovalResponse {
            request_id: resolved.approval_id,
            response,
            feedback: resolved.feedback,
            extra: Default::default(),
        };
        let is_running = self.prompt.as_ref().is_some_and(|prompt| prompt.turn.is_some());
        let place = if of_turn && is_running { Place::Turn } else { Place::Outside };
        self.push(MAIN, place, event.into(), all);
        Ok(())
    }

    /// Handles the answer to a question or its dismissal, by any client.
    pub(super) fn question_resolved(&mut self, payload: &str) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Resolved {
            #[serde(deserialize_with = "members::id")]
            question_id: String,
        }
        let resolved: Resolved = decode_body(payload)?;
        self.requests.remove(&rpc_id("question", &resolved.question_id));
        Ok(())
    }
}

/// Makes Wire's question about a plan. The answer is one of the plan's options, or a change to the plan.
fn plan_question(ways: Vec<QuestionOption>, plan: &str) -> Question {
    let own = |label: &str, description: &str| QuestionOption {
        label: label.to_owned(),
        description: Some(description.to_owned()),
        extra: Default::default(),
    };
    let mut options: Vec<_> = ways.into_iter().filter(|way| way.label != REJECT).collect();
    if options.is_empty() {
        options.push(own(APPROVE, "Exit plan mode and carry out the plan"));
    }
    options.push(own(REJECT, "Stop the turn and stay in plan mode"));
    Question {
        question: "Approve this plan".to_owned(),
        header: Some("Plan".to_owned()),
        options,
        multi_select: Some(false),
        body: Some(plan.to_owned()).filter(|plan| !plan.is_empty()),
        other_label: Some(REVISE.to_owned()),
        other_description: Some("What to change in the plan".to_owned()),
        extra: Default::default(),
    }
}

/// Returns the kind of the action, in the form of Wire.
fn action(display: &Value) -> Option<&'static str> {
    match (display.get("kind")?.as_str()?, display.get("operation").and_then(Value::as_str)) {
        ("command", _) => Some("run command"),
        ("diff", _) | ("file_io", Some("write" | "edit")) => Some("edit file"),
        _ => None,
    }
}

fn approval_body(answer: &Answer) -> Value {
    match answer {
        Answer::Approval(Approval::Approve) => json!({"decision": "approved"}),
        Answer::Approval(Approval::ApproveForSession) => json!({"decision": "approved", "scope": "session"}),
        Answer::Approval(Approval::Reject { feedback: Some(feedback) }) => {
            json!({"decision": "rejected", "feedback": feedback})
        }
        _ => json!({"decision": "rejected"}),
    }
}

fn plan_body(answer: &Answer, labels: &[String]) -> Value {
    let Answer::Question(Some(answers)) = answer else {
        // A rule can reject a plan, and nothing else decides about it as about an approval.
        return match answer {
            Answer::Approval(Approval::Reject { .. }) => approval_body(answer),
            _ => json!({"decision": "rejected"}),
        };
    };
    match answers.get("Approve this plan") {
        None | Some("" | REJECT) => json!({"decision": "rejected"}),
        Some(label) if labels.iter().any(|known| known == label) => {
            json!({"decision": "approved", "selected_label": label})
        }
        Some(APPROVE) if labels.iter().all(|label| label == REJECT) => json!({"decision": "approved"}),
        Some(REVISE) => json!({"decision": "rejected", "feedback": "Revise the plan."}),
        Some(feedback) => json!({"decision": "rejected", "feedback": feedback}),
    }
}
