//! Addresses of requests, and the hosts of rules.

/// The address of a tool call.
#[derive(Debug)]
pub(crate) struct Host {
    text: String,
    /// The host and the port, if the address is of a form that every tool understands in the same way.
    known: Option<(String, Option<u16>)>,
}

/// Reads an address.
pub(crate) fn parse(text: &str) -> Host {
    Host { known: known(text), text: text.to_lowercase() }
}

/// `http` or `https`, a host of letters, digits, `-` and `.`, and a port; nothing that could be read in two ways.
fn known(text: &str) -> Option<(String, Option<u16>)> {
    let (scheme, rest) = text.split_once("://")?;
    let usual = match &*scheme.to_ascii_lowercase() {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    if text.contains('\\') || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, Some(port.parse::<u16>().ok()?))
        }
        Some(_) => return None,
        None => (authority, None),
    };
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_name = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    host.split('.').all(is_name).then_some((host, port.filter(|port| *port != usual)))
}

/// The host of a rule: a name, `*.name` for the names below it, or `*`; and a port.
#[derive(Clone, Debug)]
pub(crate) struct HostPattern {
    name: String,
    port: Option<u16>,
}

impl HostPattern {
    /// Reads a host.
    ///
    /// # Errors
    /// Why the pattern is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.to_ascii_lowercase();
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => match port.parse() {
                Ok(port) => (name, Some(port)),
                Err(_) => {
                    return Err(format!(
                        "expected a host such as `example.com`, `*.example.com` or `example.com:8080`, got `{text}`"
                    ));
                }
            },
            None => (&*text, None),
        };
        let labels = name.strip_prefix("*.").unwrap_or(name);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name != "*" && (labels.is_empty() || !labels.chars().all(is_plain)) {
            return Err(format!("expected a host such as `example.com` or `*.example.com`, got `{text}`"));
        }
        Ok(Self { name: name.to_owned(), port })
    }

    fn matches_name(&self, host: &str) -> bool {
        match self.name.strip_prefix("*.") {
            Some(parent) => host.strip_suffix(parent).is_some_and(|below| below.len() > 1 && below.ends_with('.')),
            None => self.name == "*" || self.name == host,
        }
    }

    /// Whether the host matches; nothing if it cannot be decided. A rule without a port denies every port.
    pub(crate) fn matches_liberally(&self, host: &Host) -> Option<bool> {
        if self.name == "*" && self.port.is_none() {
            return Some(true);
        }
        match &host.known {
            Some((name, port)) => {
                let name_matches = self.matches_name(name) || self.name.strip_prefix("*.") == Some(name);
                Some(name_matches && (self.port.is_none() || self.port == *port))
            }
            None => host.text.contains(self.name.trim_start_matches("*.")).then_some(true),
        }
    }

    /// Whether the host matches for certain. A rule without a port allows the usual port only.
    pub(crate) fn matches_strictly(&self, host: &Host) -> bool {
        host.known.as_ref().is_some_and(|(name, port)| self.matches_name(name) && self.port == *port)
    }
}
