//! The agents that are known, their releases, and the protocol that each release speaks.

use std::fmt;

use super::{Dialect, Legacy, Wire, WireVersion};
use crate::wire::ServerInfo;

/// A release of kimi-cli.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Release {
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor, patch: 0 }
    }

    /// Reads `1.49.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.');
        let mut number = || numbers.next().map(|number| number.trim().parse());
        Some(Self {
            major: number()?.ok()?,
            minor: number()?.ok()?,
            patch: number().and_then(Result::ok).unwrap_or_default(),
        })
    }

    /// Returns the protocol of a release that answers no handshake.
    pub fn without_handshake(self) -> Option<Box<dyn Dialect>> {
        if self < Self::new(0, 59) {
            Some(Box::new(Legacy::new(Some(self.server()))))
        } else if self < Self::new(0, 80) {
            Some(Box::new(Wire::without_handshake(self.server())))
        } else {
            None
        }
    }

    pub fn is_legacy(self) -> bool {
        self < Self::new(0, 59)
    }

    /// Returns the protocol to begin with.
    pub fn dialect(self) -> Box<dyn Dialect> {
        self.without_handshake().unwrap_or_else(|| Box::new(Wire::new(WireVersion::LATEST)))
    }

    fn server(self) -> ServerInfo {
        ServerInfo { name: "kimi-cli".to_owned(), version: self.to_string(), extra: Default::default() }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        // Up to 1.5 releases have two numbers, later ones three.
        if *self < Self::new(1, 6) { Ok(()) } else { write!(f, ".{}", self.patch) }
    }
}

/// An agent that is known, with its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentKind {
    /// kimi-cli, which speaks Wire or what came before it.
    KimiCli(Release),
    /// Kimi Code, which speaks ACP.
    KimiCode(Release),
}

impl AgentKind {
    /// Reads `kimi, version 1.49.0`, as kimi-cli says it, or Kimi Code's bare `2.1.0`.
    pub fn read(text: &str) -> Option<Self> {
        if let Some(number) = text.lines().find_map(|line| line.trim().strip_prefix("kimi, version ")) {
            return Release::parse(number).map(Self::KimiCli);
        }
        let number = text.trim();
        let bare = number.split('.').count() == 3 && number.chars().all(|c| c.is_ascii_digit() || c == '.');
        Release::parse(number).filter(|_| bare).map(Self::KimiCode)
    }
}

impl fmt::Display for AgentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KimiCli(release) => write!(f, "kimi-cli {release}"),
            Self::KimiCode(release) => write!(f, "Kimi Code {release}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_recognised_by_their_version_output() {
        assert_eq!(AgentKind::read("kimi, version 0.58\n"), Some(AgentKind::KimiCli(Release::new(0, 58))));
        let patched = Release { major: 1, minor: 49, patch: 3 };
        assert_eq!(AgentKind::read("note\nkimi, version 1.49.3"), Some(AgentKind::KimiCli(patched)));
        assert_eq!(AgentKind::read("2.1.0\n"), Some(AgentKind::KimiCode(Release::new(2, 1))));
        let others = ["2.1", "2.1.0-beta", "v2.1.0", "2..0", "kimi-scripted-agent, version 0.1.0", "", "kimi, version"];
        for other in others.into_iter().chain(["kimi, version x.y", "note\n2.1.0"]) {
            assert_eq!(AgentKind::read(other), None, "{other}");
        }
    }

    #[test]
    fn releases_compare_as_numbers_and_select_the_protocol() {
        assert!(Release::new(0, 100) > Release::new(0, 59));
        assert_eq!(Release::new(0, 58).to_string(), "0.58");
        assert_eq!(Release::new(1, 49).to_string(), "1.49.0");
        let handshake =
            |release: Release| release.dialect().implicit_handshake().map(|handshake| handshake.protocol_version);
        assert_eq!(handshake(Release::new(0, 58)).as_deref(), Some("legacy"));
        assert_eq!(handshake(Release::new(0, 79)).as_deref(), Some("1.0"));
        assert_eq!(handshake(Release::new(0, 80)), None);
    }
}
