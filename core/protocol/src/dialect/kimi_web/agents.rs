//! The progress of each agent of the session, and the events of subagents.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use serde::Deserialize;

use super::pages::Turn;
use super::{KimiWeb, MAIN};
use crate::dialect::Incoming;
use crate::messages::{Event, SubagentEvent, decode_body};

/// The limit of known subagents, and of calls of each.
const MAX_AGENTS: usize = 1024;
pub(super) const MAX_CALLS: usize = 1024;

/// The scope of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The program's turn.
    Turn,
    /// Another turn, or none.
    Outside,
    /// A turn whose events are discarded.
    Nowhere,
}

/// A tool call whose result has not come.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    pub(super) name: String,
    /// Pieces of its arguments may be missing.
    pub(super) is_partial: bool,
    /// It was emitted with all of its arguments.
    pub(super) is_whole: bool,
    /// The pieces of its arguments that were emitted.
    pieces: String,
    /// The hash of its arguments, if it is whole.
    whole: u64,
}

/// The limit of the pieces that are kept of a call, in bytes. A call with more is emitted again when it is complete.
const MAX_PIECES: usize = 256 << 10;

impl Call {
    /// Makes a call that was emitted without arguments.
    pub(super) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Makes a call that was emitted with these arguments.
    pub(super) fn of_whole(name: &str, arguments: &str) -> Self {
        Self { is_whole: true, whole: Self::hash(arguments), ..Self::named(name) }
    }

    /// Makes a call whose arguments are not known.
    pub(super) fn unknown(name: &str) -> Self {
        Self { is_partial: true, ..Self::named(name) }
    }

    /// Adds a piece of the arguments that was emitted.
    pub(super) fn add(&mut self, piece: &str) {
        if self.pieces.len() + piece.len() > MAX_PIECES {
            self.is_partial = true;
            self.pieces = String::new();
        } else {
            self.pieces.push_str(piece);
        }
    }

    /// Whether the call was emitted with these arguments.
    pub(super) fn has(&self, arguments: &str) -> bool {
        let known = if self.is_whole { self.whole } else { Self::hash(&self.pieces) };
        !self.is_partial && known == Self::hash(arguments)
    }

    /// Returns a hash that does not depend on the form of the JSON text.
    fn hash(arguments: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        match crate::json::of_text(arguments) {
            Some(value) => value.to_string().hash(&mut hasher),
            None => arguments.hash(&mut hasher),
        }
        hasher.finish()
    }
}

/// The progress of an agent in its turn.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) turn: i64,
    pub(super) step: i64,
    /// The step of new frames. It is earlier than `step` if a transcript has emitted later steps.
    pub(super) frames_step: i64,
    /// How much of the step's text was emitted, in UTF-16 units, as the server counts.
    pub(super) text: u64,
    pub(super) thinking: u64,
    pub(super) calls: HashMap<String, Call>,
    /// The calls of the turn that have a result.
    done: HashSet<String>,
    /// The call to which the next piece of arguments belongs.
    pub(super) last: Option<String>,
    /// Whether the step's end was emitted.
    pub(super) is_over: bool,
    /// The word that says that the step's answer was cut or refused.
    pub(super) cut: Option<String>,
}

impl Progress {
    pub(super) fn begin_turn(&mut self, turn: i64) {
        *self = Self { turn, ..Self::default() };
    }

    pub(super) fn begin_step(&mut self, turn: i64, step: i64) {
        (self.turn, self.step, self.text, self.thinking, self.last) = (turn, step, 0, 0, None);
        (self.is_over, self.cut) = (false, None);
    }

    /// Returns whether a call of the turn has its result.
    pub(super) fn is_done(&self, call: &str) -> bool {
        self.done.contains(call)
    }

    pub(super) fn end_call(&mut self, call: &str) {
        self.calls.remove(call);
        if self.done.len() < MAX_CALLS {
            self.done.insert(call.to_owned());
        }
    }

    /// Marks open calls as partial, because frames may have been lost.
    pub(super) fn doubt(&mut self) {
        self.calls.values_mut().filter(|call| !call.is_whole).for_each(|call| call.is_partial = true);
    }
}

/// A subagent.
#[derive(Debug, Default)]
struct Subagent {
    progress: Progress,
    name: Option<String>,
    parent_call: Option<String>,
    is_background: bool,
    is_known: bool,
    /// The begin of its turn. It arrives before the server says which call started the subagent.
    begin: Option<Box<Event>>,
    /// In a replay: turns of its transcript that were not emitted yet.
    past: VecDeque<Turn>,
}

/// The agents of the session.
#[derive(Debug, Default)]
pub(super) struct Agents {
    pub(super) main: Progress,
    /// The turn of the main agent whose events are discarded.
    pub(super) muted: Option<i64>,
    /// In a replay: the nesting of subagents around the current turn.
    pub(super) depth: usize,
    subagents: HashMap<String, Subagent>,
}

impl Agents {
    pub(super) fn progress(&mut self, agent: &str) -> &mut Progress {
        if agent == MAIN { &mut self.main } else { &mut self.subagent(agent).progress }
    }

    fn subagent(&mut self, agent: &str) -> &mut Subagent {
        if self.subagents.len() >= MAX_AGENTS && !self.subagents.contains_key(agent) {
            // Any subagent can be removed, because their ids increase. Only its progress is lost.
            self.subagents.clear();
        }
        self.subagents.entry(agent.to_owned()).or_default()
    }

    pub(super) fn is_background(&self, agent: &str) -> bool {
        self.subagents.get(agent).is_some_and(|subagent| subagent.is_background)
    }

    /// Returns the kind of the subagent.
    pub(super) fn name(&self, agent: &str) -> Option<String> {
        self.subagents.get(agent)?.name.clone()
    }

    /// Adds a subagent whose transcript is to be read. Returns whether it is new.
    pub(super) fn add(&mut self, agent: &str) -> bool {
        let is_new = !self.subagents.contains_key(agent);
        self.subagent(agent);
        is_new
    }

    /// Adds turns of a subagent's transcript.
    pub(super) fn remember(&mut self, agent: &str, turns: impl IntoIterator<Item = Turn>) {
        self.subagent(agent).past.extend(turns);
    }

    /// Takes the turns that a call has started: the next turn of the transcript, and the turns that followed it by
    /// themselves.
    pub(super) fn started_by(&mut self, agent: &str, call: &str, name: Option<String>) -> Vec<Turn> {
        let subagent = self.subagent(agent);
        if subagent.is_known && subagent.past.is_empty() {
            return Vec::new();
        }
        subagent.name = name.or_else(|| subagent.name.take());
        (subagent.parent_call, subagent.is_known) = (Some(call.to_owned()), true);
        let mut turns: Vec<_> = subagent.past.pop_front().into_iter().collect();
        while subagent.past.front().is_some_and(|turn| !turn.is_started_by_call()) {
            turns.extend(subagent.past.pop_front());
        }
        turns
    }

    pub(super) fn doubt(&mut self) {
        self.main.doubt();
        self.subagents.values_mut().for_each(|subagent| subagent.progress.doubt());
    }
}

impl KimiWeb {
    /// Returns the scope of an event in a turn of an agent.
    pub(super) fn place(&self, agent: &str, turn: Option<i64>) -> Place {
        let runs = || self.prompt.as_ref().is_some_and(|prompt| prompt.runs());
        let is_ours = match turn {
            Some(turn) if agent == MAIN => {
                if self.agents.muted == Some(turn) {
                    return Place::Nowhere;
                }
                self.prompt.as_ref().is_some_and(|prompt| prompt.turn == Some(turn))
            }
            _ => runs(),
        };
        if is_ours { Place::Turn } else { Place::Outside }
    }

    /// Emits an event of an agent.
    pub(super) fn push(&mut self, agent: &str, place: Place, event: Event, all: &mut Vec<Incoming>) {
        let event = if agent == MAIN {
            event
        } else {
            let subagent = self.agents.subagent(agent);
            if !subagent.is_known && matches!(event, Event::TurnBegin(_)) {
                subagent.begin = Some(Box::new(event));
                return;
            }
            if let Some(begin) = subagent.begin.take() {
                self.push_wrapped(agent, place, *begin, all);
            }
            return self.push_wrapped(agent, place, event, all);
        };
        push(place, event, all);
    }

    fn push_wrapped(&mut self, agent: &str, place: Place, event: Event, all: &mut Vec<Incoming>) {
        let subagent = self.agents.subagent(agent);
        let wrapped = SubagentEvent {
            parent_tool_call_id: subagent.parent_call.clone(),
            agent_id: Some(agent.to_owned()),
            subagent_type: subagent.name.clone(),
            session_id: None,
            title: None,
            state: None,
            event: Box::new(event),
            extra: Default::default(),
        };
        push(place, wrapped.into(), all);
    }

    pub(super) fn subagent_spawned(
        &mut self,
        payload: &str,
        place: Place,
        all: &mut Vec<Incoming>,
    ) -> Result<(), String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spawned {
            subagent_id: String,
            subagent_name: Option<String>,
            parent_tool_call_id: Option<String>,
            run_in_background: Option<bool>,
        }
        let spawned: Spawned = decode_body(payload)?;
        let subagent = self.agents.subagent(&spawned.subagent_id);
        subagent.name = spawned.subagent_name;
        subagent.parent_call = spawned.parent_tool_call_id;
        subagent.is_background = spawned.run_in_background == Some(true);
        subagent.is_known = true;
        if let Some(begin) = subagent.begin.take() {
            self.push_wrapped(&spawned.subagent_id, place, *begin, all);
        }
        Ok(())
    }
}

pub(super) fn push(place: Place, event: Event, all: &mut Vec<Incoming>) {
    match place {
        Place::Turn => all.push(Incoming::event(event)),
        Place::Outside => all.push(Incoming::out_of_turn(event)),
        Place::Nowhere => {}
    }
}
