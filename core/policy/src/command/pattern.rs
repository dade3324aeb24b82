//! Command patterns of rules: words, in which `*` stands for any characters.

use super::Word;
use super::wrappers::base_name;
use crate::rule::Certainty;

/// The words of a command pattern.
#[derive(Clone, Debug)]
pub(crate) struct CommandPattern {
    words: Vec<String>,
    /// It ends with `*`: any further words may follow.
    open: bool,
}

impl CommandPattern {
    pub(crate) fn parse(text: &str) -> Self {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let open = words.last().is_some_and(|word| word == "*");
        if open {
            words.pop();
        }
        Self { words, open }
    }

    /// Whether the command has exactly these words.
    pub(crate) fn matches_strictly(&self, words: &[Word]) -> bool {
        let fits = if self.open { words.len() >= self.words.len() } else { words.len() == self.words.len() };
        // Words behind the pattern are anything, but they have to be known.
        let known: Option<Vec<&str>> = words.iter().map(Word::literal).collect();
        let Some(known) = known.filter(|_| fits) else { return false };
        self.words.iter().zip(known).all(|(pattern, word)| {
            // What `*` stands for must not lead out of a directory.
            (pattern == word) || (wildcard(pattern, word) && !(pattern.len() > 1 && word.contains("..")))
        })
    }

    /// Whether the command may be one that is meant: with other options, in another directory, in another case.
    pub(crate) fn matches_liberally(&self, words: &[Word]) -> Certainty {
        let Some((name, arguments)) = self.words.split_first() else { return Certainty::Yes };
        let mut certainty = match words.first() {
            None => return Certainty::No,
            Some(Word::Dynamic(_)) => Certainty::Maybe,
            Some(Word::Literal(word)) => {
                let (pattern, word) = (name.to_lowercase(), word.to_lowercase());
                if !wildcard(&pattern, &word) && !wildcard(&base_name(&pattern), &base_name(&word)) {
                    return Certainty::No;
                }
                Certainty::Yes
            }
        };
        let mut rest = &words[1..];
        for pattern in arguments.iter().map(|pattern| pattern.to_lowercase()).filter(|pattern| pattern != "*") {
            let is_meant = |word: &Word| word.literal().is_some_and(|word| wildcard(&pattern, &word.to_lowercase()));
            match rest.iter().position(is_meant) {
                Some(at) => rest = &rest[at + 1..],
                None if words[1..].iter().any(|word| word.literal().is_none()) => certainty = Certainty::Maybe,
                None => return Certainty::No,
            }
        }
        certainty
    }

    /// Whether the words occur in a text, in this order. For texts that cannot be parsed.
    pub(crate) fn occurs_in(&self, text: &str) -> bool {
        let text: String = text.to_lowercase().chars().filter(|c| !matches!(c, '\\' | '\'' | '"' | '^')).collect();
        let is_end = |c: char| c.is_whitespace() || ";&|()<>{}$`,=".contains(c);
        let words = text.split(is_end).filter(|word| !word.is_empty());
        let mut patterns =
            self.words.iter().map(|pattern| pattern.to_lowercase()).filter(|pattern| pattern != "*").peekable();
        if self.words.first().is_none_or(|name| name == "*") {
            return true;
        }
        for word in words {
            let is_meant = |pattern: &String| wildcard(pattern, word) || wildcard(pattern, &base_name(word));
            if patterns.peek().is_some_and(is_meant) {
                patterns.next();
            }
        }
        patterns.peek().is_none()
    }
}

/// Whether the text matches a pattern in which `*` stands for any characters.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pattern.rsplit_once('*').map(|(_, last)| last) else { return rest.is_empty() };
    let middle: Vec<&str> = pieces.collect();
    for piece in &middle[..middle.len() - 1] {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
