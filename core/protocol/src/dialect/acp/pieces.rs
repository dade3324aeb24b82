//! Pieces of messages that belong to an earlier turn, though they come in a later one.
//!
//! A piece belongs to an earlier turn if that turn had its message. Some agents use the ids of messages again in each turn, so such
//! pieces wait for the first piece of another message. If none comes, they are the text of the turn.

use std::collections::VecDeque;

use super::Acp;
use crate::dialect::Incoming;
use crate::messages::Event;

/// The limit of messages that are remembered, and of the length of an id, in bytes.
const MAX_MESSAGES: usize = 64;
const MAX_ID: usize = 256;
/// The limit of the pieces that wait, and of their text, in bytes. The rest of a message is shorter.
const MAX_WAITING: usize = 16;
const MAX_WAITING_TEXT: usize = 4 << 10;

/// The messages of the turns so far.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    earlier: VecDeque<String>,
    /// The messages since the begin of the turn.
    current: VecDeque<String>,
    /// Pieces of earlier messages that wait.
    waiting: Vec<Event>,
    size: usize,
    /// Whether the turn has had a piece of a message of its own.
    has_own: bool,
    /// Whether the agent uses ids again.
    repeats: bool,
}

/// The turn that a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Own,
    Earlier,
    /// The pieces that follow will say it.
    Unclear,
}

impl Pieces {
    fn begin_turn(&mut self) {
        for id in std::mem::take(&mut self.current) {
            remember(&mut self.earlier, &id);
        }
        self.waiting.clear();
        self.size = 0;
        self.has_own = false;
    }

    /// Returns the turn of a piece of this message.
    fn turn_of(&mut self, message: Option<&str>, is_in_turn: bool) -> Turn {
        let message = message.filter(|id| id.len() <= MAX_ID && !self.repeats);
        if let Some(id) = message.filter(|id| !self.current.iter().any(|known| known == id)) {
            if is_in_turn && self.earlier.iter().any(|known| known == id) {
                return if self.has_own { Turn::Earlier } else { Turn::Unclear };
            }
            remember(&mut self.current, id);
        }
        self.has_own |= is_in_turn;
        Turn::Own
    }

    /// Keeps a piece that waits. Returns whether too much waits.
    fn keep(&mut self, event: Event, size: usize) -> bool {
        self.waiting.push(event);
        self.size += size;
        self.waiting.len() >= MAX_WAITING || self.size >= MAX_WAITING_TEXT
    }

    fn take(&mut self) -> Vec<Event> {
        self.size = 0;
        std::mem::take(&mut self.waiting)
    }
}

fn remember(ids: &mut VecDeque<String>, id: &str) {
    if ids.iter().any(|known| known == id) {
        return;
    }
    if ids.len() == MAX_MESSAGES {
        ids.pop_front();
    }
    ids.push_back(id.to_owned());
}

impl Acp {
    pub(super) fn begin_pieces(&mut self) {
        self.pieces.begin_turn();
    }

    /// Returns the turn of a piece of this message.
    pub(super) fn turn_of_piece(&mut self, message: Option<&str>) -> Turn {
        // The turns of subagents are events of another turn.
        if self.is_subagent() { Turn::Own } else { self.pieces.turn_of(message, self.prompting) }
    }

    /// Places a piece of an earlier message outside of the turn, or makes it wait.
    pub(super) fn place_piece(&mut self, turn: Turn, incoming: Incoming, size: usize, all: &mut Vec<Incoming>) {
        match incoming {
            Incoming::Batch(list) => list.into_iter().for_each(|each| self.place_piece(turn, each, size, all)),
            Incoming::Event(event) if turn == Turn::Unclear && matches!(*event, Event::ContentPart(_)) => {
                if self.pieces.keep(*event, size) {
                    self.deliver_waiting(all);
                }
            }
            Incoming::Event(event) if turn == Turn::Earlier => all.push(Incoming::OutOfTurn(event)),
            other => all.push(other),
        }
    }

    /// Places the pieces that wait outside of the turn, because the turn has a message of its own or is cancelled.
    pub(super) fn leave_waiting(&mut self, all: &mut Vec<Incoming>) {
        all.extend(self.pieces.take().into_iter().map(Incoming::out_of_turn));
    }

    /// Delivers the pieces that wait as the text of the turn.
    pub(super) fn deliver_waiting(&mut self, all: &mut Vec<Incoming>) {
        let waiting = self.take_waiting();
        if !waiting.is_empty() {
            self.begin_step(all);
            all.extend(waiting.into_iter().map(Incoming::event));
        }
    }

    pub(super) fn take_waiting(&mut self) -> Vec<Event> {
        self.pieces.repeats |= !self.pieces.waiting.is_empty();
        self.pieces.take()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.pieces.waiting.is_empty()
    }
}
