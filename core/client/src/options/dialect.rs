//! The option `dialect`.

use std::fmt;
use std::str::FromStr;

use crate::dialect::WireVersion;
use crate::error::invalid_option;
use crate::{Error, Result};

/// The protocol to speak with the agent.
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
    /// The protocol that the SDK detects.
    #[default]
    Auto,
    /// This version of Wire; the answer to the handshake does not change it. 1.0 has no handshake. It is for kimi-cli up to 0.79,
    /// where some releases do not even refuse a handshake.
    Wire(WireVersion),
    /// The protocol of kimi-cli 0.52 to 0.58. Such an agent cannot request approvals, so a session needs `yolo`.
    Legacy,
    /// The Agent Client Protocol, as Kimi Code speaks it. An `executable` that is only a program is started as `PROGRAM
    /// acp`; a list is started unchanged.
    Acp,
    /// Kimi Code's own server, started as `PROGRAM web`. Experimental, like the server's API. Needs the feature
    /// `kimi-web`.
    KimiWeb,
}

impl Dialect {
    pub(super) fn expected() -> String {
        format!(r#""auto", "legacy", "acp", "kimi-web" or a version of Wire from "1.0" to "{}""#, WireVersion::LATEST)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "legacy" => Some(Self::Legacy),
            "acp" => Some(Self::Acp),
            "kimi-web" => Some(Self::KimiWeb),
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
            Self::KimiWeb => f.write_str("kimi-web"),
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
        for text in ["auto", "legacy", "acp", "kimi-web", "1.0", "1.9", "1.10"] {
            assert_eq!(text.parse::<Dialect>().map(|dialect| dialect.to_string()), Ok(text.to_owned()));
        }
        for text in ["Auto", "1.01", "1.99", "2.0", "0.9", "wire", "1", " 1.1", ""] {
            assert_eq!(text.parse::<Dialect>().map_err(|error| error.code()), Err("invalid_option"), "{text}");
        }
    }
}
