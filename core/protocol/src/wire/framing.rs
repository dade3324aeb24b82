//! Lines out of bytes: split at `\n` only, up to a limit, each scanned once.

use crate::error::Error;

/// How much that was handed out may stay: lines are mostly short, and a large one is rare.
const SPARE: usize = 64 * 1024;

/// Whether there is memory for so many bytes more at the moment. To ask first turns most failures of large allocations into
/// errors: one that fails unasked ends the process.
pub fn has_memory_for(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// The error for a line that there is no memory for.
pub fn no_memory(size: usize) -> Error {
    Error::Protocol(format!(
        "there is not enough memory for a line of {size} bytes or more from the agent. The session is closed; lower \
         `max_line_bytes`, or give the process more memory"
    ))
}

/// Collects what was read and hands out whole lines, borrowed: whoever keeps one copies what it needs of it.
#[derive(Debug)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Where what has not been handed out begins.
    start: usize,
    /// Up to where it is known to hold no line end.
    scanned: usize,
    limit: usize,
    /// There was no memory for the line that comes next, which has at least so many bytes.
    lost: Option<usize>,
    /// Nothing more is read.
    has_ended: bool,
}

/// A line grew past the limit, or past the memory that there is.
#[derive(Debug, PartialEq, Eq)]
pub struct LineTooLong {
    /// At least this many bytes.
    pub size: usize,
    pub limit: usize,
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
        ))
    }
}

impl LineBuffer {
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, scanned: 0, limit, lost: None, has_ended: false }
    }

    /// From now on lines may be as long as this.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Nothing more is read: the last line may lack its end.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Takes what was read.
    pub fn extend(&mut self, read: &[u8]) {
        // Mostly nothing is left, or a piece of a line.
        self.bytes.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.lost.is_some() {
            return;
        }
        // By doubling, and where that is too much, by what is needed.
        if self.bytes.try_reserve(read.len()).is_err() && self.bytes.try_reserve_exact(read.len()).is_err() {
            let begin = memchr::memrchr(b'\n', &self.bytes).map_or(0, |end| end + 1);
            self.lost = Some(self.bytes.len() - begin + read.len());
            self.bytes.truncate(begin);
            self.bytes.shrink_to_fit();
            self.scanned = self.scanned.min(begin);
            return;
        }
        self.bytes.extend_from_slice(read);
    }

    /// The next line, without its end; `None` until more is read.
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

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self { has_ended: self.has_ended, ..Self::new(self.limit) };
    }

    /// Whether nothing is left, not even a part of a line, or word of one that was lost.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len() && self.lost.is_none()
    }

    /// Gives back what is not needed any more: all of it when nothing is buffered, so that an idle session holds none.
    pub fn release(&mut self) {
        // Not while a large line is still coming in: what is moved here was handed out before.
        if self.is_empty() || self.start > SPARE {
            self.bytes = self.bytes[self.start..].to_vec();
            self.scanned -= self.start;
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(buffer: &mut LineBuffer) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| buffer.next_line().expect("under the limit").map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn a_line_at_the_limit_passes_and_one_over_it_is_named() {
        let mut buffer = LineBuffer::new(4);
        buffer.extend(b"1234\n12345");
        assert_eq!(buffer.next_line(), Ok(Some(&b"1234"[..])));
        assert_eq!(buffer.next_line(), Err(LineTooLong { size: 5, limit: 4, no_memory: false }));
    }

    #[test]
    fn limit_set_later_holds_for_the_lines_after_it() {
        let mut buffer = LineBuffer::new(4);
        buffer.set_limit(5);
        buffer.extend(b"12345\n123456\n");
        assert_eq!(buffer.next_line(), Ok(Some(&b"12345"[..])));
        assert_eq!(buffer.next_line(), Err(LineTooLong { size: 6, limit: 5, no_memory: false }));
    }

    #[test]
    fn memory_is_asked_of_the_allocator() {
        assert!(has_memory_for(1));
        assert!(!has_memory_for(isize::MAX.unsigned_abs()));
    }

    #[test]
    fn separators_other_than_newline_stay_in_the_line() {
        let mut buffer = LineBuffer::new(100);
        buffer.extend("a\u{2028}b\r\n".as_bytes());
        assert_eq!(lines(&mut buffer), vec!["a\u{2028}b\r".as_bytes().to_vec()]);
    }

    #[test]
    fn what_was_large_once_does_not_stay_so() {
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
        fn any_split_of_the_bytes_gives_the_same_lines(
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
