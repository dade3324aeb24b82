//! The known agents, their releases, and the protocol that each release speaks.

use std::fmt;

use super::{Dialect, KnownAgent, Legacy, Wire, WireVersion};
use crate::messages::ServerInfo;

/// A release of kimi-cli.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Release {
    /// Makes a release of its numbers.
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

    /// Returns the protocol of a release that does not answer a handshake.
    pub fn without_handshake(self) -> Option<Box<dyn Dialect>> {
        if self < Self::new(0, 59) {
            Some(Box::new(Legacy::new(Some(self.server()))))
        } else if self < Self::new(0, 80) {
            Some(Box::new(Wire::without_handshake(self.server())))
        } else {
            None
        }
    }

    /// Returns whether the release speaks the legacy dialect.
    pub fn is_legacy(self) -> bool {
        self < Self::new(0, 59)
    }

    /// Returns the protocol for the handshake.
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

/// A known agent, with its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentKind {
    /// kimi-cli, which speaks Wire or the legacy protocol.
    KimiCli(Release),
    /// Kimi Code, which speaks ACP.
    KimiCode(Release),
    /// Another agent that speaks ACP.
    Other(&'static KnownAgent),
}

impl AgentKind {
    /// Reads the output of `--version`: `kimi, version 1.49.0` of kimi-cli, or `2.1.0` of Kimi Code.
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
            Self::Other(agent) => agent.fmt(f),
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
    fn releases_compare_as_numbers_and_select_protocol() {
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
