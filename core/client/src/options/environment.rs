//! The variables of this process that an agent inherits.

use std::ffi::{OsStr, OsString};

/// The variables of this process that an agent inherits.
///
/// # Examples
/// ```
/// use kimi_agent::{InheritEnv, SessionOptions};
/// let options = SessionOptions::new().inherit_env(InheritEnv::Only(vec!["SSL_CERT_*".into()]));
/// # options.validate().unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InheritEnv {
    /// All variables.
    #[default]
    All,
    /// Only the variables that a process needs: `PATH`, `HOME`, `TMPDIR`, those of the locale and the time zone, and on
    /// Windows those of the system.
    Needed,
    /// The variables that a process needs, and those with these names. In a name, `*` stands for any characters and `?`
    /// for one.
    Only(Vec<String>),
}

/// The variables that a process needs.
#[cfg(unix)]
const NEEDED: &[&str] = &["PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "LC_*", "TZ"];
#[cfg(windows)]
const NEEDED: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TEMP",
    "TMP",
    "PATHEXT",
    "ComSpec",
    "SystemRoot",
    "SystemDrive",
    "windir",
    "OS",
    "USERNAME",
    "USERPROFILE",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "ALLUSERSPROFILE",
    "ProgramData",
    "ProgramFiles*",
    "ProgramW6432",
    "CommonProgram*",
    "PUBLIC",
    "PROCESSOR_*",
    "NUMBER_OF_PROCESSORS",
];

/// What an agent inherits: a rule, and the variables that the program has removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited {
    pub(crate) rule: InheritEnv,
    pub(crate) removed: Vec<OsString>,
}

impl Inherited {
    /// Returns whether the agent inherits the variable with this name.
    pub(crate) fn has(&self, name: &OsStr) -> bool {
        if self.removed.iter().any(|removed| is_same(removed, name)) {
            return false;
        }
        let name = name.to_string_lossy();
        let is_needed = || NEEDED.iter().any(|needed| matches(needed, &name));
        match &self.rule {
            InheritEnv::All => true,
            InheritEnv::Needed => is_needed(),
            InheritEnv::Only(names) => is_needed() || names.iter().any(|given| matches(given, &name)),
        }
    }

    /// Returns a variable of this process, if the agent inherits it.
    pub(crate) fn var(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|_| self.has(name.as_ref()))
    }
}

/// Returns whether two names are those of one variable.
pub(crate) fn is_same(one: &OsStr, other: &OsStr) -> bool {
    if cfg!(windows) { one.eq_ignore_ascii_case(other) } else { one == other }
}

fn matches(pattern: &str, name: &str) -> bool {
    if cfg!(windows) {
        return is_match(&pattern.to_uppercase(), &name.to_uppercase());
    }
    is_match(pattern, name)
}

/// Matches `*` and `?`. Returns to the last `*` only, so that the time is at most the product of the lengths.
fn is_match(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen, mut star) = (0, 0, None);
    while seen < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(&c) if c == '?' || c == name[seen] => (at, seen) = (at + 1, seen + 1),
            _ => {
                let Some((place, from)) = star else { return false };
                star = Some((place, from + 1));
                (at, seen) = (place + 1, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inherits_what_is_needed_and_named() {
        let of = |rule: InheritEnv| Inherited { rule, removed: vec!["TZ".into()] };
        let all = of(InheritEnv::All);
        assert!(all.has("SECRET".as_ref()) && all.has("PATH".as_ref()) && !all.has("TZ".as_ref()));
        let needed = of(InheritEnv::Needed);
        assert!(needed.has("LC_ALL".as_ref()) && !needed.has("SECRET".as_ref()) && !needed.has("XPATH".as_ref()));
        let named = of(InheritEnv::Only(vec!["SSL_*".into(), "MY?".into(), "*".repeat(2) + "_KEY"]));
        for (name, is_inherited) in [
            ("SSL_CERT_FILE", true),
            ("MYX", true),
            ("MY", false),
            ("A_B_KEY", true),
            ("A_KEYS", false),
            ("PATH", true),
        ] {
            assert_eq!(named.has(name.as_ref()), is_inherited, "{name}");
        }
    }

    #[test]
    fn pattern_of_many_stars_takes_no_exponential_time() {
        assert!(!is_match(&("*a".repeat(200) + "b"), &"a".repeat(5000)));
    }
}
