//! Splits bytes into lines: at `
//! ` only, up to a limit. Each byte is scanned once.

use crate::error::Error;

/// The buffer's capacity that is kept. Most lines are short, and a large line must not pin memory.
const SPARE: usize = 64 * 1024;
/// From this length on, a buffer grows only while [`LEFT_FREE`] stays available: it doubles, or takes [`STEP`] if there is less
/// memory.
const LARGE: usize = 1 << 20;
const STEP: usize = 16 << 20;
const LEFT_FREE: usize = 32 << 20;

/// Returns whether there is memory for this many more bytes at present. This check turns most failures of large
/// allocations into errors: an allocation that fails without it ends the process.
pub fn has_memory_for(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// The limit of values in a line, and in JSON that a line has as text. Decoded, small values take many times the memory of their
/// text.
pub const MAX_VALUES: usize = 1 << 20;
/// The memory of a decoded value, in bytes, at least.
const VALUE: usize = 64;
/// The number of values whose memory does not count.
const FEW: usize = 1 << 10;

/// Returns whether JSON has more values than are decoded.
pub fn has_too_many_values(json: &[u8]) -> bool {
    // Each value has a byte of its own.
    json.len() > MAX_VALUES && has_more_values(json, MAX_VALUES)
}

/// Returns whether JSON has more values than `max`. Strings are skipped; text that is not JSON may count differently.
pub fn has_more_values(json: &[u8], max: usize) -> bool {
    values(json, max) > max
}

/// Returns the memory that JSON takes when it is decoded, in bytes: the length of its text, or more if it has many small values.
pub fn decoded_size(json: &[u8]) -> usize {
    json.len().max(values(json, MAX_VALUES).saturating_sub(FEW) * VALUE)
}

/// Returns the [`decoded_size`] of JSON, unless it has more values than are decoded.
pub fn decoded_size_within_limit(json: &[u8]) -> Option<usize> {
    let values = values(json, MAX_VALUES);
    (values <= MAX_VALUES).then(|| json.len().max(values.saturating_sub(FEW) * VALUE))
}

/// Counts the values of JSON, until there are more than `max`.
fn values(json: &[u8], max: usize) -> usize {
    let (mut rest, mut values) = (json, 0);
    loop {
        let quote = memchr::memchr(b'"', rest);
        let (plain, from_quote) = rest.split_at(quote.unwrap_or(rest.len()));
        values += memchr::memchr3_iter(b',', b'[', b'{', plain).count();
        let Some(mut string) = from_quote.get(1..).filter(|_| values <= max) else { return values };
        loop {
            // Escapes that follow each other need no search.
            while let [b'\\', _, rest @ ..] = string {
                string = rest;
            }
            match memchr::memchr2(b'"', b'\\', string) {
                Some(at) if string[at] == b'"' => {
                    rest = &string[at + 1..];
                    break;
                }
                Some(at) => string = string.get(at + 2..).unwrap_or_default(),
                None => return values,
            }
        }
    }
}

/// Makes the error for a line with too many values.
pub fn too_many_values(max: usize) -> Error {
    Error::Protocol(format!(
        "the agent sent a line with more than {max} JSON values. The session is closed; open a new one with the same `session_id` \
         to continue the conversation"
    ).into())
}

/// Makes the error for a line that the memory cannot hold.
pub fn no_memory(size: usize) -> Error {
    Error::Protocol(format!(
        "there is not enough memory for a line of {size} bytes or more from the agent. The session is closed; lower \
         `max_line_bytes`, or give the process more memory"
    ).into())
}

/// Collects bytes and returns whole lines, borrowed. Copy a line to keep it.
#[derive(Debug)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// The start of the bytes that have not been returned.
    start: usize,
    /// The end of the bytes that are known to have no line end.
    scanned: usize,
    limit: usize,
    /// Set if there was no memory for the next line: its least size in bytes.
    lost: Option<usize>,
    /// Whether the input has ended.
    has_ended: bool,
}

/// A line exceeded the limit, or the available memory.
#[derive(Debug, PartialEq, Eq)]
pub struct LineTooLong {
    /// The least size of the line, in bytes.
    pub size: usize,
    /// The longest line that is allowed, in bytes.
    pub limit: usize,
    /// Whether memory was missing for a line of allowed length.
    pub no_memory: bool,
}

impl From<LineTooLong> for Error {
    fn from(too_long: LineTooLong) -> Self {
        let LineTooLong { size, limit, no_memory } = too_long;
        if no_memory {
            return self::no_memory(size);
        }
        Self::Protocol(format!(
            "the agent sent a line of {size} bytes or more; `max_line_bytes` is {limit}. The session is closed; raise the \
             option if the agent may send such lines"
        ).into())
    }
}

impl LineBuffer {
    /// Makes an empty buffer for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, scanned: 0, limit, lost: None, has_ended: false }
    }

    /// Raises the limit of lines to this many bytes.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Marks the end of the input. The last line may lack its line end.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Adds bytes.
    pub fn extend(&mut self, read: &[u8]) {
        // The buffer is usually empty, or has a part of a line.
        self.bytes.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.lost.is_some() {
            return;
        }
        if !self.has_space_for(read.len()) {
            let begin = memchr::memrchr(b'\n', &self.bytes).map_or(0, |end| end + 1);
            self.lost = Some(self.bytes.len() - begin + read.len());
            self.bytes.truncate(begin);
            self.bytes.shrink_to_fit();
            self.scanned = self.scanned.min(begin);
            return;
        }
        self.bytes.extend_from_slice(read);
    }

    /// Makes space for more bytes, and returns whether there is memory for them. A large line leaves some memory to the rest of the
    /// program. The garbage collector of Node, for example, ends the process without it.
    fn has_space_for(&mut self, more: usize) -> bool {
        let length = self.bytes.len();
        if self.bytes.capacity() - length >= more {
            return true;
        }
        if length < LARGE {
            return self.bytes.try_reserve(more).is_ok();
        }
        let step = [length, STEP].map(|step| step.max(more)).into_iter().find(|step| has_memory_for(step + LEFT_FREE));
        step.is_some_and(|step| self.bytes.try_reserve_exact(step).is_ok())
    }

    /// Returns the next line, without its end; `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`LineTooLong`] if a line exceeds the limit, or if there is no memory for it.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, LineTooLong> {
        let found = memchr::memchr(b'\n', &self.bytes[self.scanned..]);
        let end = found.map_or(self.bytes.len(), |offset| self.scanned + offset);
        self.scanned = end;
        let size = end - self.start;
        if size > self.limit {
            return Err(LineTooLong { size, limit: self.limit, no_memory: false });
        }
        if found.is_none() {
            if let Some(size) = self.lost {
                return Err(LineTooLong { size, limit: self.limit, no_memory: true });
            }
            if !self.has_ended || size == 0 {
                return Ok(None);
            }
        }
        let line = &self.bytes[self.start..end];
        self.start = self.bytes.len().min(end + 1);
        self.scanned = self.start;
        Ok(Some(line))
    }

    /// Returns the line that [`next_line`](Self::next_line) returns next, if it is there and not too long.
    pub fn peek_line(&mut self) -> Option<&[u8]> {
        let found = memchr::memchr(b'\n', &self.bytes[self.scanned..]);
        self.scanned = found.map_or(self.bytes.len(), |offset| self.scanned + offset);
        let is_rest = self.has_ended && self.lost.is_none() && self.start < self.scanned;
        let is_line = found.is_some() || is_rest;
        Some(&self.bytes[self.start..self.scanned]).filter(|line| is_line && line.len() <= self.limit)
    }

    /// Takes the line that [`peek_line`](Self::peek_line) has returned.
    pub fn skip_line(&mut self) {
        self.start = self.bytes.len().min(self.scanned + 1);
        self.scanned = self.start;
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        *self = Self { has_ended: self.has_ended, ..Self::new(self.limit) };
    }

    /// Returns whether the buffer is empty, without a part of a line or a lost line to report.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len() && self.lost.is_none()
    }

    /// Frees memory that is no longer needed. An empty buffer frees all, so that an idle session holds none.
    pub fn release(&mut self) {
        // Not while a large line is arriving: only bytes that were returned before are moved over.
        if self.is_empty() || self.start > SPARE {
            self.bytes = self.bytes[self.start..].to_vec();
            self.scanned -= self.start;
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_are_counted_outside_of_strings() {
        use super::has_more_values;
        let list = format!("{{\"a,[{{\\\"\":[{}0]}}", "0,".repeat(10));
        // The object, the list and ten commas.
        assert!(has_more_values(list.as_bytes(), 11) && !has_more_values(list.as_bytes(), 12));
        let text = format!("{{\"text\":\"{}\"}}", ",\\\"[{".repeat(1000));
        assert!(!has_more_values(text.as_bytes(), 1));
        for odd in ["", "\"", "\"\\", "{\"a\\"] {
            assert!(!has_more_values(odd.as_bytes(), 1));
        }
    }

    #[test]
    fn many_small_values_take_more_than_their_text() {
        assert_eq!(decoded_size(br#"{"command":"ls"}"#), 16);
        assert_eq!(decoded_size("x".repeat(100_000).as_bytes()), 100_000);
        assert_eq!(decoded_size(format!("[{}0]", "0,".repeat(100_000)).as_bytes()), (100_001 - 1024) * 64);
        let many = format!("[{}0]", "0,".repeat(MAX_VALUES));
        assert!(has_too_many_values(many.as_bytes()) && !has_too_many_values(&many.as_bytes()[..MAX_VALUES]));
    }

    use super::*;

    #[test]
    fn line_that_is_seen_is_the_next_one() {
        for text in ["", "a", "a\n", "\n", "a\n\nb"] {
            for has_ended in [false, true] {
                let mut lines = LineBuffer::new(10);
                lines.extend(text.as_bytes());
                if has_ended {
                    lines.end();
                }
                for _ in 0..4 {
                    let seen = lines.peek_line().map(<[u8]>::to_vec);
                    assert_eq!(lines.next_line().unwrap().map(<[u8]>::to_vec), seen, "{text:?} {has_ended}");
                }
            }
        }
    }
    use proptest::prelude::*;

    fn lines(buffer: &mut LineBuffer) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| buffer.next_line().expect("under the limit").map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn line_over_limit_is_refused_with_size() {
        let mut buffer = LineBuffer::new(4);
        buffer.extend(b"1234\n12345");
        assert_eq!(buffer.next_line(), Ok(Some(&b"1234"[..])));
        assert_eq!(buffer.next_line(), Err(LineTooLong { size: 5, limit: 4, no_memory: false }));
    }

    #[test]
    fn new_limit_applies_to_later_lines() {
        let mut buffer = LineBuffer::new(4);
        buffer.set_limit(5);
        buffer.extend(b"12345\n123456\n");
        assert_eq!(buffer.next_line(), Ok(Some(&b"12345"[..])));
        assert_eq!(buffer.next_line(), Err(LineTooLong { size: 6, limit: 5, no_memory: false }));
    }

    #[test]
    fn memory_check_refuses_impossible_size() {
        assert!(has_memory_for(1));
        assert!(!has_memory_for(isize::MAX.unsigned_abs()));
    }

    #[test]
    fn other_separators_stay_in_line() {
        let mut buffer = LineBuffer::new(100);
        buffer.extend("a\u{2028}b\r\n".as_bytes());
        assert_eq!(lines(&mut buffer), vec!["a\u{2028}b\r".as_bytes().to_vec()]);
    }

    #[test]
    fn buffer_shrinks_after_large_line() {
        let mut buffer = LineBuffer::new(1 << 20);
        buffer.extend(&[b'x'; 1 << 20]);
        buffer.extend(b"\nthe next");
        assert_eq!(lines(&mut buffer).len(), 1);
        buffer.release();
        assert!(buffer.bytes.capacity() <= SPARE, "{} bytes", buffer.bytes.capacity());
        buffer.extend(b" line\n");
        assert_eq!(lines(&mut buffer), [b"the next line"]);
        buffer.release();
        assert_eq!(buffer.bytes.capacity(), 0);
    }

    proptest! {
        #[test]
        fn lines_are_independent_of_splits(
            text in proptest::collection::vec("[a-c]{0,5}", 0..8),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let whole: Vec<u8> = text.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
            at.sort_unstable();
            let mut buffer = LineBuffer::new(1000);
            let mut seen = Vec::new();
            let mut from = 0;
            for to in at.into_iter().chain([whole.len()]) {
                buffer.extend(&whole[from..to]);
                while let Some(line) = buffer.next_line().expect("under the limit").map(<[u8]>::to_vec) {
                    seen.push(line);
                }
                buffer.release();
                from = to;
            }
            prop_assert_eq!(seen, text.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>());
            prop_assert!(buffer.is_empty());
        }
    }
}
