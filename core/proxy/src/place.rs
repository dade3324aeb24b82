//! The names of places, as options and settings have them.

use std::path::Path;

use kimi_agent_client::{Place, Result};
use kimi_agent_protocol::error::invalid_option;

/// A place by its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlaceName {
    Sandbox,
    Container {
        image: String,
    },
    Ssh {
        host: String,
        /// `None`: the path of the working directory.
        directory: Option<String>,
    },
}

impl PlaceName {
    /// Reads a name.
    ///
    /// # Errors
    /// Returns what was expected.
    pub(crate) fn parse(name: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("expected sandbox, container:IMAGE, ssh:HOST or ssh:HOST:/DIRECTORY, got {name:?}");
        match name.split_once(':') {
            None if name == "sandbox" => Ok(Self::Sandbox),
            Some(("container", image)) if !image.is_empty() => Ok(Self::Container { image: image.to_owned() }),
            Some(("ssh", rest)) => {
                let (host, directory) = match rest.find(":/") {
                    Some(end) => (&rest[..end], Some(rest[end + 1..].to_owned())),
                    None => (rest, None),
                };
                let is_host = !host.is_empty() && !host.starts_with('-');
                is_host.then(|| Self::Ssh { host: host.to_owned(), directory }).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    /// Returns the place of an agent with this working directory.
    pub(crate) fn in_directory(&self, work_dir: &Path) -> Result<Place> {
        Ok(match self {
            Self::Sandbox => Place::sandbox().into(),
            Self::Container { image } => Place::container(image).into(),
            Self::Ssh { host, directory: Some(directory) } => Place::ssh(host, directory).into(),
            Self::Ssh { host, directory: None } => {
                let same = std::path::absolute(work_dir).ok().and_then(|path| Some(path.to_str()?.to_owned()));
                let same = same.filter(|path| path.starts_with('/'));
                let reason = "the host cannot have the path of the working directory; write ssh:HOST:/DIRECTORY";
                Place::ssh(host, same.ok_or_else(|| invalid_option("place", reason))?).into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_places_are_read() {
        let ssh = |host: &str, directory: Option<&str>| PlaceName::Ssh {
            host: host.to_owned(),
            directory: directory.map(str::to_owned),
        };
        for (name, expected) in [
            ("sandbox", Some(PlaceName::Sandbox)),
            ("container:agents:1", Some(PlaceName::Container { image: "agents:1".to_owned() })),
            ("ssh:build.example", Some(ssh("build.example", None))),
            ("ssh:ada@build.example:/srv/app", Some(ssh("ada@build.example", Some("/srv/app")))),
            ("ssh:[::1]:/srv/a:/b", Some(ssh("[::1]", Some("/srv/a:/b")))),
            ("", None),
            ("Sandbox", None),
            ("sandbox:x", None),
            ("container:", None),
            ("container", None),
            ("ssh:", None),
            ("ssh:-oProxyCommand=x", None),
            ("ssh::/srv", None),
            ("docker:x", None),
        ] {
            assert_eq!(PlaceName::parse(name).ok(), expected, "{name}");
        }
    }
}
