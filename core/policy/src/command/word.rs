//! The value of a word of a shell, if it is known before the shell runs.

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Its value.
    Literal(String),
    /// Its text, whose value only the shell knows: variables, globs, braces, and what shells understand differently.
    Dynamic(String),
}

impl Word {
    /// The value, or else the text.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Literal(text) | Self::Dynamic(text) => text,
        }
    }

    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Dynamic(_) => None,
        }
    }
}
