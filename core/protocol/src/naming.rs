//! The spelling of options and methods in the calling language.

/// The calling language's conventions for names and durations.
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

    /// Returns the name of an option as the caller writes it.
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
