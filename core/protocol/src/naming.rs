//! How the calling language spells the names of options and methods, for error texts and log lines.

use crate::options::OPTIONS;

/// The habits of the calling language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// `handshake_timeout`, in seconds.
    #[default]
    Snake,
    /// `handshakeTimeout`, in milliseconds.
    Camel,
}

impl Naming {
    /// The unit of durations, and its length in seconds.
    pub fn unit(self) -> (&'static str, f64) {
        match self {
            Self::Snake => ("seconds", 1.0),
            Self::Camel => ("milliseconds", 1e-3),
        }
    }
}

/// Names of methods and fields that texts mention, beside the options.
const OTHER_NAMES: [&str; 14] = [
    "approval_feedback",
    "create_session",
    "external_tools",
    "list_sessions",
    "on_error",
    "one_shot",
    "open_agent",
    "plan_mode",
    "raise_for_status",
    "scripted_agent",
    "set_plan_mode",
    "slash_commands",
    "text_stream",
    "tool_calls",
];

impl Naming {
    /// The first line of a text with the names of options and methods, which stand in backticks, as the caller writes
    /// them. What follows is quoted, and stays as it is.
    pub fn spell(self, text: &str) -> String {
        if self == Self::Snake {
            return text.to_owned();
        }
        let (line, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
        let mut spelled = String::with_capacity(text.len());
        for (n, piece) in line.split('`').enumerate() {
            if n > 0 {
                spelled.push('`');
            }
            if n % 2 == 0 {
                spelled.push_str(piece);
                continue;
            }
            let mut left = piece;
            while !left.is_empty() {
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = left.find(|c| is_word(c) != left.starts_with(is_word)).unwrap_or(left.len());
                let (word, more) = left.split_at(end);
                let known = OPTIONS.iter().any(|option| option.name == word) || OTHER_NAMES.contains(&word);
                if known {
                    spelled.push_str(&self.name(word))
                } else {
                    spelled.push_str(word)
                }
                left = more;
            }
        }
        spelled + rest
    }

    /// An option's name as the caller writes it.
    pub fn name(self, option: &str) -> String {
        match self {
            Self::Snake => option.to_owned(),
            Self::Camel => {
                let mut words = option.split('_');
                let first = words.next().unwrap_or_default().to_owned();
                words.fold(first, |mut name, word| {
                    let mut letters = word.chars();
                    name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
                    name.extend(letters);
                    name
                })
            }
        }
    }
}
