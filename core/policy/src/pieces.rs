//! An index by texts that names contain.

use std::collections::{BTreeSet, HashMap};

/// Values by a text that every name which is meant contains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces<T> {
    by_piece: HashMap<String, T>,
    lengths: BTreeSet<usize>,
}

/// The longest text between the wildcards of a pattern, if its letters are those of ASCII: others have several forms.
pub(crate) fn longest_piece(pattern: &str) -> Option<&str> {
    if !pattern.is_ascii() {
        return None;
    }
    pattern.split('*').max_by_key(|piece| piece.len()).filter(|piece| !piece.is_empty())
}

impl<T: Default> Pieces<T> {
    /// The value of a piece, which is not empty.
    pub(crate) fn entry(&mut self, piece: &str) -> &mut T {
        self.lengths.insert(piece.len());
        self.by_piece.entry(piece.to_owned()).or_default()
    }

    /// Visits at least the values whose pieces occur in the text. Returns how many steps that took.
    pub(crate) fn visit<'a>(&'a self, text: &str, mut visit: impl FnMut(&'a T)) -> usize {
        let steps = text.len().saturating_mul(self.lengths.len());
        if steps >= self.by_piece.len() {
            self.all(visit);
            return self.by_piece.len();
        }
        for length in &self.lengths {
            for at in 0..(text.len() + 1).saturating_sub(*length) {
                let piece = text.get(at..at + length);
                piece.and_then(|piece| self.by_piece.get(piece)).into_iter().for_each(&mut visit);
            }
        }
        steps
    }

    pub(crate) fn all<'a>(&'a self, visit: impl FnMut(&'a T)) {
        self.by_piece.values().for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_text_are_found() {
        let mut pieces = Pieces::<Vec<usize>>::default();
        for n in 0..500 {
            pieces.entry(&format!("piece{n}x")).push(n);
        }
        let find = |text: &str| {
            let mut found: Vec<usize> = Vec::new();
            pieces.visit(text, |values| found.extend(values));
            found
        };
        assert_eq!(find("a_piece7x_b"), [7]);
        assert_eq!(find("piece499xpiece3x"), [3, 499]);
        assert_eq!(find("épiece12xé"), [12]);
        assert_eq!(find("piece"), [0_usize; 0]);
        assert_eq!(find(&"é".repeat(200)).len(), 500);
        assert_eq!(longest_piece("a*bcd*"), Some("bcd"));
        assert_eq!((longest_piece("**"), longest_piece("é*")), (None, None));
    }
}
