//! Lines out of bytes: split at `\n` only, up to a limit, each scanned once.

use bytes::{Bytes, BytesMut};

/// Collects what was read and hands out whole lines.
#[derive(Debug)]
pub(crate) struct LineBuffer {
    bytes: BytesMut,
    /// How much of `bytes` is known to hold no line end.
    scanned: usize,
    limit: usize,
}

/// A line grew past the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineTooLong {
    /// At least this many bytes.
    pub(crate) size: usize,
    pub(crate) limit: usize,
}

impl LineBuffer {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: BytesMut::new(), scanned: 0, limit }
    }

    /// Takes what was read.
    pub(crate) fn extend(&mut self, read: &[u8]) {
        self.bytes.extend_from_slice(read);
    }

    /// The next whole line, without its end; `None` until more is read.
    pub(crate) fn next_line(&mut self) -> Result<Option<Bytes>, LineTooLong> {
        match memchr::memchr(b'\n', &self.bytes[self.scanned..]) {
            Some(offset) => {
                let end = self.scanned + offset;
                self.scanned = 0;
                if end > self.limit {
                    return Err(LineTooLong { size: end, limit: self.limit });
                }
                let line = self.bytes.split_to(end + 1).freeze();
                Ok(Some(line.slice(..end)))
            }
            None => {
                self.scanned = self.bytes.len();
                if self.scanned > self.limit {
                    return Err(LineTooLong { size: self.scanned, limit: self.limit });
                }
                Ok(None)
            }
        }
    }

    /// What is left when the stream ends: a line without its end, if any.
    pub(crate) fn take_rest(&mut self) -> Bytes {
        self.scanned = 0;
        self.bytes.split().freeze()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.limit);
    }

    /// Whether nothing is left, not even a part of a line.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Gives the memory back when nothing is buffered, so that an idle session holds none.
    pub(crate) fn release_if_empty(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > 0 {
            self.bytes = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(buffer: &mut LineBuffer) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| buffer.next_line().expect("under the limit")).map(|line| line.to_vec()).collect()
    }

    #[test]
    fn a_line_at_the_limit_passes_and_one_over_it_is_named() {
        let mut buffer = LineBuffer::new(4);
        buffer.extend(b"1234\n12345");
        assert_eq!(buffer.next_line(), Ok(Some(Bytes::from_static(b"1234"))));
        assert_eq!(buffer.next_line(), Err(LineTooLong { size: 5, limit: 4 }));
    }

    #[test]
    fn separators_other_than_newline_stay_in_the_line() {
        let mut buffer = LineBuffer::new(100);
        buffer.extend("a\u{2028}b\r\n".as_bytes());
        assert_eq!(lines(&mut buffer), vec!["a\u{2028}b\r".as_bytes().to_vec()]);
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
                seen.extend(lines(&mut buffer));
                from = to;
            }
            prop_assert_eq!(seen, text.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>());
            prop_assert!(buffer.take_rest().is_empty());
        }
    }
}
