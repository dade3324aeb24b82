//! A quick search for places where something may begin.

/// The pairs of bytes with which something begins. All first bytes share eight bits: a pair in which the two bytes have a
/// bit in common may be one of them.
pub(super) struct Pairs {
    first: [u8; 256],
    second: [u8; 256],
}

impl Pairs {
    pub(super) const NONE: Self = Self { first: [0; 256], second: [0; 256] };

    /// Adds the pair that a text begins with, and the pair for a text that ends after its first byte.
    pub(super) fn add(&mut self, text: &[u8]) {
        self.add_whole(text);
        // No text ends between a backslash and a quotation mark.
        if let [first, rest @ ..] = text
            && (*first != b'\\' || rest.is_empty())
        {
            self.second[usize::from(b'"')] |= 1 << (first % 8);
        }
    }

    /// Adds the pair that a text begins with. The text is only found as a whole.
    pub(super) fn add_whole(&mut self, text: &[u8]) {
        let [first, rest @ ..] = text else { return };
        let bit = 1 << (first % 8);
        self.first[usize::from(*first)] |= bit;
        match rest {
            [] => self.second.iter_mut().for_each(|bits| *bits |= bit),
            [second, ..] => self.second[usize::from(*second)] |= bit,
        }
    }

    /// Returns whether one of the pairs may be at a place in a text, or the first byte of one at its end.
    pub(super) fn may_be_at(&self, text: &[u8], at: usize) -> bool {
        let first = self.first[usize::from(text[at])];
        first != 0 && text.get(at + 1).is_none_or(|second| first & self.second[usize::from(*second)] != 0)
    }

    /// Returns whether `begins` is true for a place in a line, from `start` on, where one of the pairs may be, or for its
    /// last byte.
    pub(super) fn any(&self, line: &[u8], start: usize, mut begins: impl FnMut(usize) -> bool) -> bool {
        let mut before = 0;
        for (at, byte) in line[start..].iter().enumerate() {
            if before & self.second[usize::from(*byte)] != 0 && begins(start + at - 1) {
                return true;
            }
            before = self.first[usize::from(*byte)];
        }
        before != 0 && begins(line.len() - 1)
    }
}
