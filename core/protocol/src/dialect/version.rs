//! Versions as numbers: "1.10" is after "1.9".

use std::fmt;
use std::str::FromStr;

/// A version of the Wire protocol.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::WireVersion;
/// let ten: WireVersion = "1.10".parse()?;
/// assert!(ten > "1.9".parse()?);
/// assert_eq!(ten.to_string(), "1.10");
/// # Ok::<(), kimi_agent::VersionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireVersion {
    /// The number before the dot.
    pub major: u32,
    /// The number after it.
    pub minor: u32,
}

impl WireVersion {
    /// The version of an agent without a handshake.
    pub const V1_0: Self = Self::new(1, 0);
    /// The newest version.
    pub const LATEST: Self = Self::new(1, 10);

    /// Makes a version from its numbers.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::WireVersion;
    /// assert_eq!(WireVersion::new(1, 10).to_string(), "1.10");
    /// ```
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Reads the name of a supported version. Only the version's own text is accepted: "1.01" is not 1.1.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::WireVersion;
    /// assert_eq!(WireVersion::spoken("1.10"), Some(WireVersion::new(1, 10)));
    /// assert_eq!(WireVersion::spoken("9.9"), None);
    /// ```
    pub fn spoken(text: &str) -> Option<Self> {
        let known = Self::V1_0..=Self::LATEST;
        text.parse().ok().filter(|version| known.contains(version) && version.to_string() == text)
    }
}

impl fmt::Display for WireVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The error for text that is not a version.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::WireVersion;
/// assert_eq!("new".parse::<WireVersion>().unwrap_err().0, "new");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no Wire version (one looks like `1.10`)")]
pub struct VersionError(pub String);

impl FromStr for WireVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let numbers = text.split_once('.').and_then(|(major, minor)| {
            let minor = minor.split('.').next()?;
            Some(Self::new(major.trim().parse().ok()?, minor.trim().parse().ok()?))
        });
        // A bare "2", as an early specification has it, is 2.0.
        numbers
            .or_else(|| text.trim().parse().ok().map(|major| Self::new(major, 0)))
            .ok_or_else(|| VersionError(text.to_owned()))
    }
}
