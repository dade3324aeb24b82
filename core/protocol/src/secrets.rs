//! Finds values of options that may be secrets in text from the agent, without storing the values.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use crate::recording::decoded;

/// Shorter values, such as `true` or `kimi`, are too common.
const SHORTEST: usize = 6;
/// Longer values are found by their pieces of this length.
const PIECE: usize = 32;
/// The length of a character of a value in its longest spelling, such as `\u0061`.
const LONGEST_SPELLING: usize = 8;
/// The replacement for a secret.
const MASK: &str = "***";

/// Hashes of values, with a random key of the process. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Secrets {
    known: Arc<[Known]>,
    state: RandomState,
}

struct Known {
    /// Hashes of the first bytes, so that only few positions of a text need a complete hash.
    prefix: u16,
    len: u16,
    hash: u64,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} of them)", self.known.len())
    }
}

impl Secrets {
    /// Stores all strings in these values, and these texts.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a Value>, texts: impl IntoIterator<Item = &'a OsStr>) -> Self {
        let mut all = Self::default();
        let mut known = Vec::new();
        let mut waiting: Vec<&Value> = values.into_iter().collect();
        while let Some(value) = waiting.pop() {
            match value {
                Value::String(text) => all.add(text.as_bytes(), &mut known),
                Value::Array(list) => waiting.extend(list),
                Value::Object(map) => waiting.extend(map.values()),
                _ => {}
            }
        }
        texts.into_iter().for_each(|text| all.add(text.as_encoded_bytes(), &mut known));
        all.known = known.into();
        all
    }

    fn add(&self, secret: &[u8], known: &mut Vec<Known>) {
        let as_json = String::from_utf8_lossy(secret);
        let as_json = serde_json::to_string(&as_json).unwrap_or_default();
        let as_json = as_json.get(1..as_json.len().saturating_sub(1)).unwrap_or_default().as_bytes();
        let decoded = decoded(secret, false).0;
        let mut forms = vec![secret, as_json, &decoded];
        forms.dedup();
        for form in forms {
            if form.len() < SHORTEST {
                continue;
            }
            // A remainder would be too short; the last piece overlaps the one before it instead.
            let (pieces, rest) = form.as_chunks::<PIECE>();
            let last = if pieces.is_empty() { rest } else { &form[form.len() - PIECE..] };
            for piece in pieces.iter().map(<[u8; PIECE]>::as_slice).chain([last]) {
                let len = u16::try_from(piece.len()).unwrap_or_default();
                known.push(Known { prefix: prefix(piece), len, hash: self.state.hash_one(piece) });
            }
        }
    }

    /// Returns the beginning of a line as text, with `***` in place of the values, also if they are encoded.
    pub fn shown(&self, line: &[u8], limit: usize) -> String {
        let window = &line[..line.len().min(limit.saturating_add(PIECE * LONGEST_SPELLING))];
        let limit = limit.min(window.len());
        let mut secret = vec![false; window.len()];
        self.find(window, |range| secret[range].fill(true));
        if !self.known.is_empty() && memchr::memchr3(b'\\', b'%', b'&', window).is_some() {
            let (text, starts) = decoded(window, false);
            self.find(&text, |range| secret[starts[range.start]..starts[range.end]].fill(true));
        }
        let mut shown = Vec::with_capacity(limit);
        for at in 0..limit {
            if !secret[at] {
                shown.push(window[at]);
            } else if at == 0 || !secret[at - 1] {
                shown.extend_from_slice(MASK.as_bytes());
            }
        }
        String::from_utf8_lossy(&shown).into_owned()
    }
}

impl Secrets {
    /// Calls `found` with the places of the values in a text.
    fn find(&self, text: &[u8], mut found: impl FnMut(Range<usize>)) {
        for at in 0..text.len() {
            let rest = &text[at..];
            let Some(start) = rest.get(..SHORTEST).map(prefix) else { break };
            for known in self.known.iter().filter(|known| known.prefix == start) {
                let len = usize::from(known.len);
                if rest.get(..len).is_some_and(|piece| self.state.hash_one(piece) == known.hash) {
                    found(at..at + len);
                }
            }
        }
    }
}

fn prefix(bytes: &[u8]) -> u16 {
    bytes.iter().take(4).fold(7, |sum: u16, byte| sum.wrapping_mul(251).wrapping_add(u16::from(*byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn option_values_are_masked_in_lines() {
        let long = "k".repeat(20) + &"0123456789".repeat(30);
        let config = json!({"providers": [{"api_key": "sk-canary-1"}, {"key": long, "quoted": "a\"b\\c\"d"}], "n": 3});
        let secrets = Secrets::new([&config], [OsStr::new("env-canary"), OsStr::new("short")]);
        for (line, shown) in [
            ("key=sk-canary-1 env-canary short".to_owned(), "key=*** *** short"),
            (format!("<{long}>"), "<***>"),
            (r#"{"q":"a\"b\\c\"d"}"#.to_owned(), r#"{"q":"***"}"#),
            ("nothing of it: sk-canary-2".to_owned(), "nothing of it: sk-canary-2"),
            ("sk-canary-1sk-canary-1".to_owned(), "***"),
            (String::new(), ""),
            (r#"{"q":"\u0065\u006e\u0076-canary",}"#.to_owned(), r#"{"q":"***",}"#),
            ("%73k%2Dcanary%2D1, env&#45;canary".to_owned(), "***, ***"),
        ] {
            assert_eq!(secrets.shown(line.as_bytes(), 1000), shown);
        }
        assert!(!format!("{secrets:?}").contains("canary"));
    }

    #[test]
    fn secret_at_limit_is_masked() {
        let config = json!(["sk-canary-1", "p".repeat(5000)]);
        let secrets = Secrets::new([&config], []);
        assert_eq!(secrets.shown(b"12345 sk-canary-1", 10), "12345 ***");
        assert_eq!(secrets.shown("p".repeat(5000).as_bytes(), 10), "***");
    }

    proptest! {
        #[test]
        fn secrets_are_all_masked(
            secret in "[ -~]{6,80}", before in "[ -~]{0,40}", after in "[ -~]{0,40}", limit in 0..200_usize,
        ) {
            let secrets = Secrets::new([], [OsStr::new(&secret)]);
            let shown = secrets.shown(format!("{before}{secret}{after}").as_bytes(), limit);
            prop_assert!(!shown.contains(&secret));
            prop_assert!(shown.starts_with(&before[..before.len().min(limit)]) || shown.contains(MASK));
        }
    }
}
