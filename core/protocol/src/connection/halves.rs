//! Joins characters that an agent has cut in the middle. JavaScript counts a character beyond U+FFFF as two halves of a
//! surrogate pair, so an agent that cuts its text into pieces can send half of it at the end of a piece.

use super::Connection;
use crate::json::lenient::{Huge, rewrite};
use crate::messages::{ContentPart, Event, SubagentEvent, ToolCallPart};

/// What stands for half of a character in the text of an event.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// The limit of texts that wait for the other half of a character. Agents that work in parallel write several texts.
const MAX_WAITING: usize = 16;

/// The halves of characters that wait for their other halves, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Halves(Vec<Half>);

/// Half of a character at the end of a piece, which was taken off. The next piece may begin with the other half.
#[derive(Debug)]
struct Half {
    /// The piece with nothing but the replacement, for the case that the other half never comes.
    event: Box<Event>,
    high: u16,
}

/// A text that comes in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Answer,
    Thinking,
    Arguments,
}

/// Makes the piece that only has the replacement.
fn replacement_piece(event: &Event) -> Event {
    match event {
        Event::ContentPart(ContentPart::Think(part)) => {
            ContentPart::think(REPLACEMENT).of_message(part.message_id.clone()).into()
        }
        Event::ToolCallPart(_) | Event::ToolCall(_) => {
            ToolCallPart { arguments_part: Some(REPLACEMENT.into()), extra: Default::default() }.into()
        }
        Event::SubagentEvent(subagent) => {
            SubagentEvent { event: Box::new(replacement_piece(&subagent.event)), ..subagent.clone() }.into()
        }
        Event::ContentPart(part) => {
            ContentPart::text(REPLACEMENT).of_message(part.message_id().map(str::to_owned)).into()
        }
        _ => ContentPart::text(REPLACEMENT).into(),
    }
}

/// Returns the innermost event, and the id of its agent.
fn innermost(event: &Event) -> (&Event, Option<&str>) {
    match event {
        Event::SubagentEvent(subagent) => {
            let (inner, agent) = innermost(&subagent.event);
            (inner, agent.or(subagent.agent_id.as_deref()).or(subagent.parent_tool_call_id.as_deref()))
        }
        other => (other, None),
    }
}

fn kind(event: &Event) -> Option<Kind> {
    match event {
        Event::ContentPart(ContentPart::Text(_)) => Some(Kind::Answer),
        Event::ContentPart(ContentPart::Think(_)) => Some(Kind::Thinking),
        Event::ToolCallPart(_) | Event::ToolCall(_) => Some(Kind::Arguments),
        _ => None,
    }
}

fn message_id(event: &Event) -> Option<&str> {
    match event {
        Event::ContentPart(part) => part.message_id(),
        _ => None,
    }
}

/// Returns whether an event has nothing but its piece of text.
fn is_only_text(event: &Event) -> bool {
    match event {
        Event::ContentPart(ContentPart::Text(part)) => part.extra.is_empty(),
        Event::ContentPart(ContentPart::Think(part)) => part.encrypted.is_none() && part.extra.is_empty(),
        Event::ToolCallPart(part) => part.extra.is_empty(),
        Event::SubagentEvent(subagent) => subagent.extra.is_empty() && is_only_text(&subagent.event),
        _ => false,
    }
}

/// How an event follows a piece with half of a character.
#[derive(Debug, PartialEq, Eq)]
enum Follows {
    /// It is the next piece of the same text.
    SameText,
    /// The text can still continue.
    Between,
    /// The text has ended.
    AnotherText,
}

fn follows(event: &Event, before: &Event) -> Follows {
    let ((event, agent), (before, of)) = (innermost(event), innermost(before));
    if agent != of {
        return Follows::Between;
    }
    // A message with an id can continue after something else.
    let is_named = message_id(before).is_some() && !matches!(event, Event::TurnEnd(_) | Event::StepBegin(_));
    match (event, kind(event)) {
        (Event::StatusUpdate(_) | Event::Unknown(_), _) => Follows::Between,
        (_, own) if is_named && own != kind(before) => Follows::Between,
        (Event::ToolCall(_), _) => Follows::AnotherText,
        (Event::ContentPart(part), own) if own == kind(before) && part.message_id() != message_id(before) => {
            Follows::AnotherText
        }
        (_, own) if own.is_some() && own == kind(before) => Follows::SameText,
        _ => Follows::AnotherText,
    }
}

fn is_cut(event: &mut Event) -> bool {
    event.piece_mut().is_some_and(|text| may_be_cut(text))
}

/// Returns whether a text may begin or end with half of a character.
pub(super) fn may_be_cut(text: &str) -> bool {
    text.starts_with(REPLACEMENT) || text.ends_with(REPLACEMENT)
}

impl Connection {
    /// Joins the halves of a character at the ends of pieces. Returns the event if something of it is to be delivered now.
    pub(super) fn join_halves(&mut self, mut event: Box<Event>, line: &[u8]) -> Option<Box<Event>> {
        if !is_cut(&mut event) && self.half.is_none() {
            return Some(event);
        }
        let halves = if is_cut(&mut event) { rewrite(line, Huge::Kept).map(|read| read.halves) } else { None };
        let halves = halves.unwrap_or_default();
        for half in self.half.take().unwrap_or_default().0 {
            match follows(&event, &half.event) {
                Follows::Between => self.keep_half(half),
                Follows::AnotherText => self.deliver(half),
                // An empty piece is not the other half.
                Follows::SameText if event.piece_mut().is_some_and(|text| text.is_empty()) => self.keep_half(half),
                Follows::SameText => {
                    if let Some(text) = event.piece_mut() {
                        let low = halves.leading.filter(|_| text.starts_with(REPLACEMENT));
                        let joined = low.map(|low| String::from_utf16_lossy(&[half.high, low]));
                        let rest = if joined.is_some() { &text[REPLACEMENT.len_utf8()..] } else { &text[..] };
                        *text = format!("{}{rest}", joined.unwrap_or_else(|| REPLACEMENT.into()));
                    }
                }
            }
        }
        let Some(high) = halves.trailing else { return Some(event) };
        let Some(text) = event.piece_mut().filter(|text| text.ends_with(REPLACEMENT)) else {
            return Some(event);
        };
        text.pop();
        let is_empty = text.is_empty();
        self.keep_half(Half { event: Box::new(replacement_piece(&event)), high });
        (!is_empty || !is_only_text(&event)).then_some(event)
    }

    fn keep_half(&mut self, half: Half) {
        let waiting = &mut self.half.get_or_insert_default().0;
        waiting.push(half);
        if waiting.len() > MAX_WAITING {
            let oldest = waiting.remove(0);
            self.deliver(oldest);
        }
    }

    /// Delivers the halves whose other halves did not come.
    pub(super) fn deliver_half(&mut self) {
        for half in self.half.take().unwrap_or_default().0 {
            self.deliver(half);
        }
    }

    fn deliver(&mut self, half: Half) {
        let size = std::mem::size_of::<Event>();
        self.process_event(&half.event);
        self.push_event(half.event, size);
    }
}
