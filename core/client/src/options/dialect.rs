//! Which protocol to speak.

use std::fmt;
use std::str::FromStr;

use crate::dialect::WireVersion;
use crate::error::invalid_option;
use crate::{Error, Result};

/// Which protocol to speak with the agent.
///
/// ```
/// use kimi_agent::{Dialect, WireVersion};
/// assert_eq!("auto".parse::<Dialect>()?, Dialect::Auto);
/// assert_eq!("1.10".parse::<Dialect>()?, Dialect::Wire(WireVersion::new(1, 10)));
/// assert!("1.99".parse::<Dialect>().is_err());
/// # Ok::<(), kimi_agent::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// Whatever the agent turns out to speak.
    #[default]
    Auto,
    /// This version of Wire, whatever the agent says. 1.0 has no handshake: it is for kimi-cli up to 0.79, some of
    /// which do not even refuse one.
    Wire(WireVersion),
    /// What kimi-cli 0.52 to 0.58 speaks. Such an agent can't ask for approvals: a session with it needs `yolo`.
    Legacy,
    /// The Agent Client Protocol, as Kimi Code speaks it. With a program alone as `executable`, it is started as
    /// `PROGRAM acp`; a list is started as it is, whatever agent it names.
    Acp,
}

impl Dialect {
    pub(super) fn expected() -> String {
        format!(r#""auto", "legacy", "acp" or a version of Wire from "1.0" to "{}""#, WireVersion::LATEST)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "legacy" => Some(Self::Legacy),
            "acp" => Some(Self::Acp),
            text => WireVersion::spoken(text).map(Self::Wire),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Wire(version) => version.fmt(f),
            Self::Legacy => f.write_str("legacy"),
            Self::Acp => f.write_str("acp"),
        }
    }
}

impl FromStr for Dialect {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
            .ok_or_else(|| invalid_option("dialect", format!("expected {}, got {text:?}", Self::expected())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_known_names() {
        for text in ["auto", "legacy", "acp", "1.0", "1.9", "1.10"] {
            assert_eq!(text.parse::<Dialect>().map(|dialect| dialect.to_string()), Ok(text.to_owned()));
        }
        for text in ["Auto", "1.01", "1.99", "2.0", "0.9", "wire", "1", " 1.1", ""] {
            assert_eq!(text.parse::<Dialect>().map_err(|error| error.code()), Err("invalid_option"), "{text}");
        }
    }
}
