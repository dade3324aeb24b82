//! The messages of an answer: a blank line is between two of one step.

use super::TextPart;

/// The blank line between two messages.
pub const MESSAGE_BREAK: &str = "\n\n";

/// The limit of an id that is remembered, in bytes. A longer one is like none.
const MAX_ID: usize = 4 << 10;

/// Where a text of several messages has its blank lines.
#[derive(Debug, Default)]
pub struct Messages {
    /// The id of the last part with text.
    last: Option<String>,
}

impl Messages {
    /// Returns whether a part with text begins another message than the part before it, and remembers its message. A part without
    /// an id belongs to any message.
    pub fn is_next(&mut self, part: &TextPart) -> bool {
        let Some(id) = part.message_id.as_ref().filter(|id| id.len() <= MAX_ID && !part.text.is_empty()) else {
            return false;
        };
        match &self.last {
            Some(last) if last == id => false,
            last => {
                let is_next = last.is_some();
                self.last = Some(id.clone());
                is_next
            }
        }
    }

    /// Returns whether a part of this message continues the message of the part before it.
    pub(crate) fn continues(&self, message: Option<&str>) -> bool {
        message.is_some() && message == self.last.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str, id: Option<&str>) -> TextPart {
        TextPart { text: text.to_owned(), message_id: id.map(str::to_owned), extra: Default::default() }
    }

    #[test]
    fn message_begins_where_id_changes() {
        let mut messages = Messages::default();
        let parts =
            [("a", Some("1")), ("b", Some("1")), ("c", None), ("", Some("2")), ("d", Some("1")), ("e", Some("2"))];
        let next: Vec<_> = parts.iter().map(|(text, id)| messages.is_next(&part(text, *id))).collect();
        assert_eq!(next, [false, false, false, false, false, true]);
        assert!(!messages.is_next(&part("f", Some(&"x".repeat(MAX_ID + 1)))), "a long id is like none");
    }
}
