//! The recorded calls, made again.

use std::collections::BTreeMap;

use kimi_agent_client::host::prompt_options;
use kimi_agent_client::{ConfigValue, Error, Session, Turn};
use kimi_agent_protocol::messages::Content;
use kimi_agent_protocol::recording::{CallEntry, CallKind, Entry, Places, Recording};
use serde_json::{Map, Value};

use super::observed::kind_of;
use super::setup::NAMING;

/// A call during a turn.
#[derive(Debug)]
enum During {
    Cancel,
    Steer(Content),
}

/// The calls during the turns, by the number of the turn, each with the number of kinds of events before it.
type Interventions = BTreeMap<u64, Vec<(usize, During)>>;

/// Makes the recorded calls. A turn that fails does not end the run, but a session that is closed does.
///
/// # Errors
/// The error that closed the session.
pub(super) async fn played(session: &Session, recording: &Recording, places: &Places) -> Result<(), Error> {
    let mut interventions = interventions(recording, places);
    for timed in &recording.entries {
        let Entry::Call(call) = &timed.entry else { continue };
        match call.call {
            CallKind::Prompt => {
                let during = call.turn.and_then(|turn| interventions.remove(&turn)).unwrap_or_default();
                prompt(session, call, during, places).await?;
            }
            CallKind::SetPlanMode => {
                session.set_plan_mode(call.arguments.get("on") == Some(&Value::Bool(true))).await?;
            }
            CallKind::SetConfigOption => set_config_option(session, &call.arguments).await?,
            CallKind::Undo => {
                let turns = call.arguments.get("turns").and_then(Value::as_u64).unwrap_or(1);
                session.undo(u32::try_from(turns).unwrap_or(1)).await?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the cancels and steers of the recording.
fn interventions(recording: &Recording, places: &Places) -> Interventions {
    let mut interventions = Interventions::new();
    let events = recording.events();
    for (at, timed) in recording.entries.iter().enumerate() {
        let Entry::Call(CallEntry { call, turn: Some(turn), arguments }) = &timed.entry else { continue };
        let during = match call {
            CallKind::Cancel => During::Cancel,
            CallKind::Steer => During::Steer(content(arguments, places)),
            _ => continue,
        };
        let before = events.iter().filter(|event| event.turn == Some(*turn) && event.entry < at);
        let mut counter = Counter::default();
        before.for_each(|event| counter.count(kind_of(&event.event)));
        interventions.entry(*turn).or_default().push((counter.kinds, during));
    }
    interventions
}

/// Counts kinds of events. Repeated ones count once.
#[derive(Debug, Default)]
struct Counter {
    kinds: usize,
    last: Option<&'static str>,
}

impl Counter {
    fn count(&mut self, kind: Option<&'static str>) {
        if kind.is_some() && kind != self.last {
            self.kinds += 1;
            self.last = kind;
        }
    }
}

/// Makes a prompt and waits for the end of its turn, whose outcome is in the recording of this session.
async fn prompt(
    session: &Session,
    call: &CallEntry,
    during: Vec<(usize, During)>,
    places: &Places,
) -> Result<(), Error> {
    let is_of_session = session_output(call);
    let options = call.arguments.iter().filter(|(name, _)| *name != "input" && !(is_of_session && *name == "output"));
    let options: Map<String, Value> = options.map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut turn = session.prompt(prompt_options(content(&call.arguments, places), options, NAMING)?)?;
    let mut during = during.into_iter().peekable();
    let mut counter = Counter::default();
    loop {
        while let Some((_, call)) = during.next_if(|(before, _)| *before <= counter.kinds) {
            intervene(&turn, call).await;
        }
        match turn.next().await {
            Some(Ok(event)) => counter.count(kind_of(&event)),
            Some(Err(_)) => {}
            None => break,
        }
    }
    match session.state().as_str() {
        "closed" => turn.result().await.map(drop),
        _ => Ok(()),
    }
}

/// Whether the output of a prompt is that of its session, which is a tool.
fn session_output(call: &CallEntry) -> bool {
    call.arguments.get("output").is_some_and(|output| output["mode"] == "tool")
}

/// Cancels or steers the turn. A refusal shows in what follows.
async fn intervene(turn: &Turn, call: During) {
    let made = match call {
        During::Cancel => turn.cancel().await,
        During::Steer(input) => turn.steer(input).await,
    };
    made.ok();
}

fn content(arguments: &Map<String, Value>, places: &Places) -> Content {
    let input = arguments.get("input").map(|input| places.filled(input)).unwrap_or_default();
    serde_json::from_value(input).unwrap_or_else(|_| "".into())
}

async fn set_config_option(session: &Session, arguments: &Map<String, Value>) -> Result<(), Error> {
    let option = arguments.get("option").and_then(Value::as_str).unwrap_or_default();
    let value: ConfigValue = match arguments.get("value") {
        Some(Value::Bool(value)) => (*value).into(),
        Some(Value::String(value)) => value.as_str().into(),
        _ => return Ok(()),
    };
    session.set_config_option(option, value).await
}
