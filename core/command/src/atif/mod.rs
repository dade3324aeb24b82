//! `kimi-agent inspect --atif`: recordings in the Agent Trajectory Interchange Format (ATIF) of Harbor.
//!
//! - `builder`: the steps of an agent or of a subagent, from its events
//! - `step`: one step, and its JSON
//! - `content`: messages and outputs with images and audio

mod builder;
mod content;
mod step;

use std::time::{Duration, SystemTime};

use kimi_agent_protocol::messages::{CompactionEnd, Event, TokenUsage};
use kimi_agent_protocol::recording::{Entry, HeaderEntry, OpenedEntry, Recording, TurnEntry};
use serde_json::{Map, Value, json};

use builder::Builder;

/// The version of the format.
const SCHEMA: &str = "ATIF-v1.8";

/// Returns the trajectory of a recording. `None` if nothing happened in it: a trajectory has at least one step.
pub(crate) fn of(name: &str, recording: &Recording) -> Option<Value> {
    let clock = Clock::of(&recording.header);
    let mut builder = Builder::new(String::new());
    let mut events = recording.events().into_iter().peekable();
    let mut outcomes = Outcomes::default();
    for (at, timed) in recording.entries.iter().enumerate() {
        let time = clock.at(timed.time);
        while let Some(recorded) = events.next_if(|recorded| recorded.entry <= at) {
            builder.event(&recorded.event, &time);
        }
        match &timed.entry {
            Entry::Decision(decision) => builder.decision(decision),
            Entry::Gap(gap) => {
                let lost = format!("{} entries are missing in the recording.", gap.entries);
                builder.system(lost, &time, json!({"gap": gap}));
            }
            Entry::Turn(turn) => {
                outcomes.add(turn);
                if let Some(error) = &turn.error {
                    builder.system(format!("The turn failed: {}", error.message), &time, json!({"error": error}));
                }
                builder.end_turn();
            }
            _ => {}
        }
    }
    let opened = recording.entries.iter().find_map(|timed| match &timed.entry {
        Entry::Opened(opened) => Some(opened),
        _ => None,
    });
    let agent = agent(&recording.header, opened);
    let session = opened.and_then(|opened| opened.session_id.clone());
    let session = session.or_else(|| Some(recording.header.options.get("session_id")?.as_str()?.to_owned()));
    let extra =
        json!({"recording": name, "is_cut": recording.is_cut, "sdk": recording.header.sdk, "turns": outcomes.turns});
    let usage = builder.usage();
    let mut trajectory = builder.into_trajectory(SCHEMA, &agent, session.as_deref())?;
    let steps = trajectory["steps"].as_array().map_or(0, Vec::len);
    let fields = trajectory.as_object_mut()?;
    fields.insert("final_metrics".to_owned(), outcomes.metrics(steps, usage));
    fields.insert("extra".to_owned(), extra);
    Some(trajectory)
}

/// Describes the agent.
fn agent(header: &HeaderEntry, opened: Option<&OpenedEntry>) -> Map<String, Value> {
    let said = opened.and_then(|opened| opened.agent.as_ref());
    let program = || header.executable.first().and_then(|path| path.rsplit(['/', '\\']).next()).map(str::to_owned);
    let mut agent = Map::new();
    let name = said.map(|agent| agent.name.clone()).or_else(program).unwrap_or_else(|| "unknown".to_owned());
    agent.insert("name".to_owned(), name.into());
    agent.insert("version".to_owned(), said.map_or("unknown", |agent| &agent.version).into());
    if let Some(model) = header.options.get("model").and_then(Value::as_str) {
        agent.insert("model_name".to_owned(), model.into());
    }
    if !header.tools.is_empty() {
        let tools = header.tools.iter().map(|tool| json!({"type": "function", "function": tool}));
        agent.insert("tool_definitions".to_owned(), tools.collect());
    }
    let protocol = opened.map(|opened| opened.protocol_version.clone());
    agent.insert("extra".to_owned(), json!({"dialect": header.dialect, "protocol_version": protocol}));
    agent
}

/// The outcomes of the turns.
#[derive(Default)]
struct Outcomes {
    turns: Vec<Value>,
    usage: TokenUsage,
}

impl Outcomes {
    fn add(&mut self, turn: &TurnEntry) {
        let result = turn.result_value();
        let of = |name: &str| result.get(name);
        self.turns.push(json!({"turn": turn.turn, "status": of("status"), "error": turn.error}));
        let usage = of("usage").and_then(|usage| serde_json::from_value::<TokenUsage>(usage.clone()).ok());
        if let Some(usage) = usage {
            self.usage += &usage;
        }
    }

    /// Returns the sums. A turn that failed has no result, so its tokens are only in its steps.
    fn metrics(&self, steps: usize, of_steps: TokenUsage) -> Value {
        let usage = if of_steps.total() > self.usage.total() { &of_steps } else { &self.usage };
        let mut metrics = json!({"total_steps": steps});
        // Some agents report no tokens. A zero would say that they used none.
        if let (true, Value::Object(fields)) = (usage.total() > 0, &mut metrics) {
            fields.insert("total_prompt_tokens".to_owned(), usage.input().into());
            fields.insert("total_completion_tokens".to_owned(), usage.output.into());
            fields.insert("total_cached_tokens".to_owned(), usage.input_cache_read.into());
        }
        metrics
    }
}

/// Points in time of a recording.
struct Clock(Option<SystemTime>);

impl Clock {
    fn of(header: &HeaderEntry) -> Self {
        Self(humantime::parse_rfc3339(&header.started).ok())
    }

    /// Returns the time that is this many seconds after the beginning, as ISO 8601.
    fn at(&self, seconds: f64) -> Option<String> {
        let time = self.0?.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        Some(humantime::format_rfc3339_millis(time).to_string())
    }
}

/// Returns what an event of the agent itself says, for a step of the system.
fn system_message(event: &Event) -> Option<&'static str> {
    match event {
        Event::CompactionEnd(CompactionEnd { .. }) => Some("The context was compacted."),
        Event::StepInterrupted(_) => Some("The step was interrupted."),
        _ => None,
    }
}
