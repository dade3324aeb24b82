//! The steps of an agent, from its events.

use std::collections::HashMap;

use kimi_agent_protocol::messages::{
    ContentPart, Event, MESSAGE_BREAK, StatusUpdate, SubagentEvent, TokenUsage, ToolCall, ToolResult,
};
use kimi_agent_protocol::recording::DecisionEntry;
use serde_json::{Map, Value, json};

use super::step::{Call, Observed, Source, Step};
use super::{content, system_message};

type Time = Option<String>;

/// Collects the steps of an agent or of a subagent.
#[derive(Debug)]
pub(super) struct Builder {
    /// The id of its trajectory; empty for the agent of the session.
    id: String,
    /// The kind of subagent, as the agent names it.
    kind: Option<String>,
    steps: Vec<Step>,
    /// The last call of each id: its step, and its place in the step.
    calls: HashMap<String, (usize, usize)>,
    /// Whether the next event of the agent begins a step.
    is_closed: bool,
    /// Whether the agent reports when a step begins.
    reports_steps: bool,
    subagents: Vec<Builder>,
    /// The subagents by their ids and the tool calls that started them.
    known: HashMap<(String, Option<String>), usize>,
    /// The numbers of subagents with each id.
    taken: HashMap<String, usize>,
    /// The subagents that each tool call started.
    started: HashMap<String, Vec<usize>>,
}

impl Builder {
    pub(super) fn new(id: String) -> Self {
        Self {
            id,
            kind: None,
            steps: Vec::new(),
            calls: HashMap::new(),
            is_closed: true,
            reports_steps: false,
            subagents: Vec::new(),
            known: HashMap::new(),
            taken: HashMap::new(),
            started: HashMap::new(),
        }
    }

    pub(super) fn event(&mut self, event: &Event, time: &Time) {
        match event {
            Event::TurnBegin(begin) => self.said(content::of(&begin.user_input), time, Map::new()),
            Event::SteerInput(steer) => {
                let extra = Map::from_iter([("is_steer".to_owned(), true.into())]);
                self.said(content::of(&steer.user_input), time, extra);
            }
            Event::StepBegin(begin) => {
                self.is_closed = true;
                self.reports_steps = !begin.is_synthesized();
                self.step(time).is_reported = !begin.is_synthesized();
            }
            Event::ContentPart(part) => self.part(part, time),
            Event::ToolCall(call) => self.call(call, time),
            Event::ToolCallPart(part) => {
                let last = self.steps.last_mut().and_then(|step| step.calls.last_mut());
                if let (Some(call), Some(more)) = (last, &part.arguments_part) {
                    call.arguments.push_str(more);
                }
            }
            Event::ToolResult(result) => self.result(result, time),
            Event::StatusUpdate(StatusUpdate { token_usage: Some(usage), .. }) => {
                *self.last_of_agent(time).usage.get_or_insert_with(TokenUsage::default) += usage;
            }
            Event::SubagentEvent(event) => self.subagent(event, time),
            event => {
                if let Some(message) = system_message(event) {
                    self.system(message.to_owned(), time, json!({"event": event.type_name()}));
                }
            }
        }
    }

    /// Adds the approval of a tool call, or the decision of a rule.
    pub(super) fn decision(&mut self, decision: &DecisionEntry) {
        let id = decision.tool_call.as_deref();
        let Some(call) = id.and_then(|id| self.found(id)) else { return };
        let about =
            json!({"by": decision.by, "answer": decision.answer, "rule": decision.rule, "seconds": decision.duration});
        call.extra.insert(decision.kind.clone(), about);
    }

    /// Adds a step of the system.
    pub(super) fn system(&mut self, message: String, time: &Time, extra: Value) {
        let mut step = Step::new(Source::System, time, message.into());
        if let Value::Object(extra) = extra {
            step.extra = extra;
        }
        self.steps.push(step);
        self.is_closed = true;
    }

    pub(super) fn end_turn(&mut self) {
        self.is_closed = true;
    }

    fn said(&mut self, message: Value, time: &Time, extra: Map<String, Value>) {
        let mut step = Step::new(Source::User, time, message);
        step.extra = extra;
        self.steps.push(step);
        self.is_closed = true;
    }

    /// Returns the step of the agent that runs.
    fn step(&mut self, time: &Time) -> &mut Step {
        // An agent that reports no steps calls its model again after a result.
        let has_results = self.steps.last().is_some_and(|step| !step.results.is_empty());
        if std::mem::take(&mut self.is_closed) || self.steps.is_empty() || (has_results && !self.reports_steps) {
            self.steps.push(Step::new(Source::Agent, time, "".into()));
        }
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    /// Returns the last step of the agent in this turn, for a report about it.
    fn last_of_agent(&mut self, time: &Time) -> &mut Step {
        match self.steps.iter().rposition(|step| step.source == Source::Agent) {
            Some(at) => &mut self.steps[at],
            None => self.step(time),
        }
    }

    fn part(&mut self, part: &ContentPart, time: &Time) {
        let step = self.step(time);
        match (part, &mut step.message) {
            (ContentPart::Think(part), _) => step.reasoning.push_str(&part.think),
            (ContentPart::Text(part), Value::String(message)) => {
                if step.messages.is_next(part) {
                    message.push_str(MESSAGE_BREAK);
                }
                message.push_str(&part.text);
            }
            (part, Value::Array(parts)) => parts.push(content::part(part)),
            (part, message) => {
                let text = message.as_str().filter(|text| !text.is_empty());
                let text = text.map(|text| json!({"type": "text", "text": text}));
                *message = text.into_iter().chain([content::part(part)]).collect();
            }
        }
    }

    fn call(&mut self, call: &ToolCall, time: &Time) {
        let (id, name) = (&call.id, &call.function.name);
        let arguments = call.function.arguments.clone().unwrap_or_default();
        // Over ACP a call arrives again when more of it is known.
        if let Some((step, at)) =
            self.calls.get(id).copied().filter(|(step, _)| !self.is_closed && step + 1 == self.steps.len())
        {
            let known = &mut self.steps[step].calls[at];
            known.name.clone_from(name);
            known.arguments = arguments;
            return;
        }
        let calls = &mut self.step(time).calls;
        calls.push(Call { id: id.clone(), name: name.clone(), arguments, extra: Map::new() });
        let at = calls.len() - 1;
        self.calls.insert(id.clone(), (self.steps.len() - 1, at));
    }

    fn result(&mut self, result: &ToolResult, time: &Time) {
        let id = &result.tool_call_id;
        let value = &result.return_value;
        let mut observed = Observed { content: content::of(&value.output), ..Observed::default() };
        if value.is_error {
            observed.extra.insert("is_error".to_owned(), true.into());
        }
        if !value.message.is_empty() {
            observed.extra.insert("message".to_owned(), value.message.clone().into());
        }
        // A subagent without a step has no trajectory.
        let is_shown = |subagent: &&Self| subagent.steps.iter().any(|step| !step.is_empty());
        let started = self.started.get(id).into_iter().flatten().map(|at| &self.subagents[*at]).filter(is_shown);
        observed.subagents = started.map(|subagent| subagent.id.clone()).collect();
        if let Some((step, _)) = self.calls.get(id) {
            observed.call = Some(id.clone());
            return self.steps[*step].results.push(observed);
        }
        observed.extra.insert("tool_call_id".to_owned(), id.clone().into());
        self.step(time).results.push(observed);
    }

    fn found(&mut self, id: &str) -> Option<&mut Call> {
        let (step, at) = self.calls.get(id)?;
        Some(&mut self.steps[*step].calls[*at])
    }

    fn subagent(&mut self, event: &SubagentEvent, time: &Time) {
        let parent = event.parent_tool_call_id.as_ref();
        let id = event.agent_id.as_ref().or(parent).map_or("subagent", String::as_str);
        let at = *self.known.entry((id.to_owned(), parent.cloned())).or_insert_with(|| {
            // An agent can resume a subagent with another tool call. Ids of trajectories are unique.
            let taken = self.taken.entry(id.to_owned()).or_default();
            *taken += 1;
            let unique = if *taken == 1 { id.to_owned() } else { format!("{id}#{taken}") };
            let kind = event.subagent_type.clone();
            self.subagents.push(Self { kind, ..Self::new(unique) });
            let at = self.subagents.len() - 1;
            if let Some(parent) = parent {
                self.started.entry(parent.clone()).or_default().push(at);
            }
            at
        });
        self.subagents[at].event(&event.event, time);
    }

    /// Returns the tokens of all steps.
    pub(super) fn usage(&self) -> TokenUsage {
        let mut sum = TokenUsage::default();
        self.steps.iter().filter_map(|step| step.usage.as_ref()).for_each(|usage| sum += usage);
        sum
    }

    /// Returns the trajectory. `None` if it has no step.
    pub(super) fn into_trajectory(
        self,
        schema: &str,
        agent: &Map<String, Value>,
        session: Option<&str>,
    ) -> Option<Value> {
        let steps: Vec<Step> = self.steps.into_iter().filter(|step| !step.is_empty()).collect();
        if steps.is_empty() {
            return None;
        }
        let mut trajectory = Map::new();
        let mut set = |name: &str, value: Value| drop(trajectory.insert(name.to_owned(), value));
        set("schema_version", schema.into());
        if let Some(session) = session {
            set("session_id", session.into());
        }
        if !self.id.is_empty() {
            set("trajectory_id", self.id.into());
        }
        set("agent", agent.clone().into());
        let steps: Vec<Value> = steps.into_iter().enumerate().map(|(at, step)| step.into_json(at + 1)).collect();
        set("steps", steps.into());
        let subagents: Vec<Value> = self
            .subagents
            .into_iter()
            .filter_map(|one| {
                let mut agent = agent.clone();
                agent.remove("tool_definitions");
                if let Some(kind) = &one.kind {
                    agent.insert("name".to_owned(), kind.clone().into());
                }
                one.into_trajectory(schema, &agent, session)
            })
            .collect();
        if !subagents.is_empty() {
            set("subagent_trajectories", subagents.into());
        }
        Some(trajectory.into())
    }
}
