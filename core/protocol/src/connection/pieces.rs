//! Pieces of texts whose lines have a known shape, which most lines of a turn are.

use std::borrow::Cow;
use std::time::Instant;

use super::{Connection, Output, TextRun, halves};
use crate::dialect::shape::Piece;

impl Connection {
    /// Allows [`Output::Texts`], which cost less than an event.
    pub fn pass_texts(&mut self) {
        self.passes_texts = true;
    }

    /// Handles a line that differs from an earlier one of the turn only in its text. Returns whether it does.
    pub fn handle_piece(&mut self, line: &[u8], now: Instant) -> bool {
        let Some(turn) = self.turn.as_mut().filter(|_| self.dialect.is_text_stateless()) else { return false };
        let Some(piece) = turn.shapes.read(line) else { return false };
        self.note_line(line, true, now);
        self.note_activity(now);
        match piece {
            Piece::Answer(text) if self.passes(&text) => self.push_text(text, line.len()),
            piece => self.handle_event(piece.into_event(), line, now),
        }
        self.note_handled(now);
        true
    }

    /// Returns whether a part of the answer needs no event. Observers of events need one, and so does half of a character.
    fn passes(&self, text: &str) -> bool {
        let is_observed = self.telemetry.is_some() || self.replay.is_some();
        self.passes_texts && !is_observed && self.half.is_none() && !halves::may_be_cut(text)
    }

    /// Delivers a part of the answer, as `handle_event` does with an event.
    fn push_text(&mut self, mut text: Cow<'_, str>, size: usize) {
        let Some(active) = &mut self.turn else { return };
        active.continue_text(&text, None);
        active.take_text(&text);
        let (turn, step) = (active.key, active.step);
        if let Some(Output::Texts { turn: of, step: within, texts }) = self.outputs.back_mut()
            && (*of, *within) == (turn, step)
        {
            match texts.push(text, size) {
                Ok(()) => return,
                Err(long) => text = long,
            }
        }
        self.outputs.push_back(Output::Texts { turn, step, texts: TextRun::new(text.into_owned(), size) });
    }
}
