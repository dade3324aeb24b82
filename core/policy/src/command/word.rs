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
    /// Reads a word as it stands in a command, with its quotes.
    pub(crate) fn of_shell(text: &str) -> Self {
        value(text).map_or_else(|| Self::Dynamic(text.to_owned()), Self::Literal)
    }

    /// The value, or else the text.
    pub(crate) fn into_text(self) -> String {
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

/// Removes the quotes of a word without expansions.
fn value(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut chars = text.chars().peekable();
    let mut previous = None;
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let mut last = None;
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => {
                            value.push(c);
                            last = Some(c);
                        }
                    }
                }
                // In fish, this quote would not end here.
                if last == Some('\\') {
                    return None;
                }
            }
            '"' => loop {
                match chars.next()? {
                    '"' => break,
                    '$' | '`' | '!' => return None,
                    '\\' => match chars.next()? {
                        '\n' => {}
                        c @ ('"' | '\\') => value.push(c),
                        '$' | '`' | '!' => return None,
                        c => {
                            value.push('\\');
                            value.push(c);
                        }
                    },
                    c => value.push(c),
                }
            },
            '\\' => match chars.next()? {
                '\n' => {}
                c => value.push(c),
            },
            '$' | '`' | '*' | '?' | '[' | ']' | '<' | '>' | '(' | ')' | ';' | '&' | '|' => return None,
            // Braces expand in most shells. Alone they are the `{}` of find, which is replaced as well.
            '{' | '}' => return None,
            '!' if !(previous.is_none() && matches!(chars.peek(), None | Some('='))) => return None,
            '~' if matches!(previous, None | Some('=' | ':')) => return None,
            '=' if previous.is_none() && text.len() > 1 => return None,
            '^' if previous.is_none() => return None,
            c => value.push(c),
        }
        previous = Some(c);
    }
    Some(value)
}
