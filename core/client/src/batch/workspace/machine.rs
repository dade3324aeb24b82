//! The machine on which a batch runs, as a line in its lock file.

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    /// The name of the host.
    pub(super) host: String,
    /// The id of the installation. Empty if the system has none.
    id: String,
    /// The id of the running kernel, which containers of a machine share. Empty if the system has none.
    boot: String,
}

impl Machine {
    /// Returns the machine of this process.
    pub(super) fn this() -> Self {
        Self { host: host(), id: text_of("/etc/machine-id"), boot: text_of("/proc/sys/kernel/random/boot_id") }
    }

    /// Returns whether a lock of this machine that can be taken belongs to a process that has ended. This is so under the same
    /// kernel, and after a restart of the machine.
    pub(super) fn is_this(&self) -> bool {
        let this = Self::this();
        let has_kernel = !self.boot.is_empty() && self.boot == this.boot;
        has_kernel || (&self.host, &self.id) == (&this.host, &this.id)
    }

    /// Returns the machine as a line of JSON.
    pub(super) fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Reads a line of JSON.
    pub(super) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_known_again() {
        let this = Machine::this();
        assert!(this.is_this() && !this.host.is_empty());
        assert_eq!(Machine::parse(&this.to_line()), Some(this.clone()));
        let restarted = Machine { boot: "other".to_owned(), ..this.clone() };
        assert!(restarted.is_this());
        let other = Machine { host: "other".to_owned(), ..restarted };
        assert!(!other.is_this());
        assert_eq!(Machine::parse("host"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn container_of_same_kernel_is_this_machine() {
        let container = Machine { host: "container".to_owned(), id: String::new(), ..Machine::this() };
        assert!(container.is_this());
        assert!(!Machine { boot: String::new(), ..container }.is_this());
    }
}
