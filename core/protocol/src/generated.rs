//! Random values for the tests that generate messages: of an optional member's type, of another type, and texts that are
//! written in unusual ways.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// The number of generated messages of each kind. `KIMI_GENERATED` overrides it, for longer runs.
const CASES: u64 = 300;
/// The text that must reach the program. It is written as the halves of a character, among others.
pub(crate) const TEXT: &str = "Deployed 🚀";
/// Stands for half of a surrogate pair until the message is a line.
const HALF: char = '\u{f8ff}';

/// A value that is nested more deeply than parsers allow by default.
static DEEP: LazyLock<Value> = LazyLock::new(|| (0..150).fold(json!(1), |inner, _| json!([inner])));

/// The seeds of a run. `KIMI_GENERATED_FROM` sets the first one, so that a failure can be repeated.
pub(crate) fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|count| count.parse::<u64>().ok());
    let first = number("KIMI_GENERATED_FROM").unwrap_or_default();
    first..first.saturating_add(number("KIMI_GENERATED").unwrap_or(CASES))
}

/// A source of random choices.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % limit.max(1)
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// The members in another order.
    pub(crate) fn shuffled(&mut self, members: Map<String, Value>) -> Map<String, Value> {
        let mut members: Vec<_> = members.into_iter().collect();
        let mut shuffled = Map::new();
        while !members.is_empty() {
            let (name, value) = members.swap_remove(self.below(members.len()));
            shuffled.insert(name, value);
        }
        shuffled
    }

    pub(crate) fn text(&mut self) -> String {
        self.pick(&["a", "", "/a/b", "novelty", "\u{1}\t", "\u{2028}", "ü🚀", "{\"a\":1}"]).to_owned()
    }

    /// A value that most likely has the wrong type.
    pub(crate) fn strange(&mut self) -> Value {
        if self.one_in(12) {
            return DEEP.clone();
        }
        self.pick(&[
            json!(null),
            json!(5),
            json!(-1.5),
            json!(true),
            json!("novelty"),
            json!(HALF.to_string()),
            json!([]),
            json!([{}]),
            json!({}),
            json!({"type": "novelty"}),
        ])
    }
}

/// Writes a message as an agent may.
pub(crate) fn line(message: &Value) -> String {
    message.to_string().replace(HALF, "\\ud83d").replace("-1.5", "1e999").replace('🚀', "\\ud83d\\ude80")
}
