//! Consecutive parts of an answer in one buffer: most events of a turn, without an allocation for each.

use std::borrow::Cow;
use std::collections::VecDeque;

/// The limit of the bytes in one buffer. It is freed only after its last part was taken.
const MAX_BYTES: usize = 16 << 10;

/// The space for further parts when there is a second one.
const MORE_BYTES: usize = 512;
const MORE_PARTS: usize = 31;

/// Consecutive parts of an answer that have nothing but their texts. At least one.
#[derive(Debug, PartialEq, Eq)]
pub struct TextRun {
    text: String,
    /// The start of the first part, in bytes.
    begin: usize,
    parts: VecDeque<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    end: usize,
    /// The approximate size of the event in memory, in bytes.
    size: usize,
}

impl TextRun {
    /// Makes a run of one part. `size` is the approximate size of its event in memory, in bytes.
    pub fn new(text: String, size: usize) -> Self {
        Self { begin: 0, parts: VecDeque::from([Part { end: text.len(), size }]), text }
    }

    /// Adds a part.
    ///
    /// # Errors
    /// Returns the text if the buffer would exceed its limit.
    pub fn push<'a>(&mut self, text: Cow<'a, str>, size: usize) -> Result<(), Cow<'a, str>> {
        if self.text.len() + text.len() > MAX_BYTES {
            return Err(text);
        }
        if self.parts.len() == 1 {
            // A second part is seldom the last one.
            self.text.reserve(text.len().max(MORE_BYTES));
            self.parts.reserve(MORE_PARTS);
        }
        self.text.push_str(&text);
        self.parts.push_back(Part { end: self.text.len(), size });
        Ok(())
    }

    /// Takes the first part: its text and its size.
    pub fn pop(&mut self) -> Option<(String, usize)> {
        let Part { end, size } = self.parts.pop_front()?;
        let begin = std::mem::replace(&mut self.begin, end);
        // A long text is alone, and not copied.
        let is_whole = begin == 0 && self.parts.is_empty();
        let text = if is_whole { std::mem::take(&mut self.text) } else { self.text.get(begin..end)?.to_owned() };
        Some((text, size))
    }

    /// Takes the first parts, at most `count`.
    #[must_use]
    pub fn split_front(&mut self, count: usize) -> Self {
        let count = count.min(self.parts.len());
        if count == self.parts.len() {
            return std::mem::replace(self, Self { text: String::new(), begin: 0, parts: VecDeque::new() });
        }
        let parts: VecDeque<_> = self.parts.drain(..count).collect();
        let begin = self.begin;
        self.begin = parts.back().map_or(begin, |part| part.end);
        let text = self.text.get(begin..self.begin).unwrap_or_default().to_owned();
        let parts = parts.into_iter().map(|part| Part { end: part.end - begin, ..part }).collect();
        Self { text, begin: 0, parts }
    }

    /// Returns the number of parts.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns whether all parts were taken.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the sizes of the parts.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|part| part.size)
    }

    /// Returns the texts of the parts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let mut begin = self.begin;
        self.parts
            .iter()
            .map(move |part| self.text.get(std::mem::replace(&mut begin, part.end)..part.end).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(texts: &[&str]) -> TextRun {
        let mut run = TextRun::new(texts[0].to_owned(), 100);
        for (text, size) in texts[1..].iter().zip(101..) {
            run.push(Cow::Borrowed(text), size).expect("space");
        }
        run
    }

    #[test]
    fn parts_come_in_order_with_their_sizes() {
        let mut run = run(&["a", "", "é\u{1f600}", "b"]);
        assert_eq!(run.texts().collect::<Vec<_>>(), ["a", "", "é\u{1f600}", "b"]);
        assert_eq!(run.pop(), Some(("a".to_owned(), 100)));
        assert_eq!(run.texts().collect::<Vec<_>>(), ["", "é\u{1f600}", "b"]);
        assert_eq!((run.len(), run.sizes().collect::<Vec<_>>()), (3, vec![101, 102, 103]));
        let mut front = run.split_front(2);
        assert_eq!(front.texts().collect::<Vec<_>>(), ["", "é\u{1f600}"]);
        assert_eq!(run.pop(), Some(("b".to_owned(), 103)));
        assert_eq!((run.pop(), run.is_empty()), (None, true));
        assert_eq!(front.pop(), Some((String::new(), 101)));
        assert_eq!(front.split_front(9).pop(), Some(("é\u{1f600}".to_owned(), 102)));
        assert!(front.is_empty());
    }

    #[test]
    fn empty_part_at_the_end_is_a_part() {
        let mut run = run(&["a", ""]);
        assert_eq!(run.pop(), Some(("a".to_owned(), 100)));
        assert_eq!(run.pop(), Some((String::new(), 101)));
    }

    #[test]
    fn long_text_is_alone_and_not_copied() {
        let long = "x".repeat(2 * MAX_BYTES);
        let mut short = run(&["a"]);
        assert_eq!(short.push(Cow::Borrowed(&long), 1), Err(Cow::Borrowed(&*long)));
        let place = long.as_ptr();
        let mut run = TextRun::new(long, 1);
        assert_eq!(run.push(Cow::Borrowed("a"), 1), Err(Cow::Borrowed("a")));
        assert_eq!(run.pop().map(|(text, _)| text.as_ptr()), Some(place));
    }
}
