//! The release that a script plays, of kimi-cli or of its successor Kimi Code: its protocol, and the command-line flags
//! that it does not have.

use super::types::Profile;
use crate::dialect::Release;
use crate::dialect::WireVersion;

/// The minor versions of Wire, each with the first release that has it.
const WIRE: [((u32, u32), u32); 11] = [
    ((1, 42), 10),
    ((1, 31), 9),
    ((1, 28), 8),
    ((1, 27), 7),
    ((1, 25), 6),
    ((1, 21), 5),
    ((1, 20), 4),
    ((1, 9), 3),
    ((1, 6), 2),
    ((0, 80), 1),
    ((0, 59), 0),
];

const ALWAYS: [&str; 22] = [
    "--wire",
    "--work-dir",
    "--continue",
    "--model",
    "--agent-file",
    "--mcp-config-file",
    "--mcp-config",
    "--yolo",
    "--yes",
    "--auto-approve",
    "--thinking",
    "--verbose",
    "--debug",
    "--version",
    "--help",
    "-w",
    "-C",
    "-m",
    "-y",
    "-h",
    "-V",
    "-c",
];

const SINCE: [(&str, Release); 14] = [
    ("--session", Release::new(0, 64)),
    ("-S", Release::new(0, 64)),
    ("--no-thinking", Release::new(0, 67)),
    ("--config", Release::new(0, 68)),
    ("--config-file", Release::new(0, 68)),
    ("--skills-dir", Release::new(0, 69)),
    ("--max-steps-per-turn", Release::new(0, 73)),
    ("--max-retries-per-step", Release::new(0, 73)),
    ("--add-dir", Release::new(1, 16)),
    ("--plan", Release::new(1, 30)),
    ("--resume", Release::new(1, 30)),
    ("-r", Release::new(1, 30)),
    ("--afk", Release::new(1, 40)),
    ("--max-ralph-iterations", Release::new(1, 0)),
];

/// Returns whether this is a release of Kimi Code.
pub(super) fn is_kimi_code(release: Release) -> bool {
    release >= Release::new(2, 0)
}

/// Returns the handshake and the behaviour of a release.
pub(super) fn profile(release: Release) -> Profile {
    let name = "Kimi Code CLI";
    if is_kimi_code(release) {
        return Profile::acp(name, release.to_string());
    }
    let wire = WIRE.into_iter().find(|((major, minor), _)| release >= Release::new(*major, *minor));
    let Some((_, minor)) = wire else { return Profile::legacy(name, release.to_string()) };
    let mut profile = Profile::new(name, release.to_string());
    profile.version = WireVersion::new(1, minor);
    profile.steer = release >= Release::new(1, 14);
    profile.questions = profile.steer;
    profile.silent = release < Release::new(0, 79);
    profile
}

/// Returns the first argument that is a flag which this release does not have.
pub(super) fn unknown_flag(release: Release, arguments: &[String]) -> Option<&str> {
    arguments.iter().filter(|argument| argument.starts_with('-')).find_map(|argument| {
        let flag = argument.split_once('=').map_or(argument.as_str(), |(flag, _)| flag);
        if is_kimi_code(release) {
            return (flag == "--wire").then_some(flag);
        }
        let known = ALWAYS.contains(&flag) || SINCE.iter().any(|(name, since)| *name == flag && release >= *since);
        (!known).then_some(flag)
    })
}

/// Returns whether an argument is a flag of any release of kimi-cli.
pub(super) fn is_known_flag(argument: &str) -> bool {
    let flag = argument.split_once('=').map_or(argument, |(flag, _)| flag);
    ALWAYS.contains(&flag) || SINCE.iter().any(|(name, _)| *name == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_selects_protocol_version() {
        for (release, version, silent) in [
            ((0, 59), "1.0", true),
            ((0, 79), "1.0", false),
            ((0, 80), "1.1", false),
            ((1, 13), "1.3", false),
            ((1, 20), "1.4", false),
            ((1, 51), "1.10", false),
        ] {
            let profile = profile(Release::new(release.0, release.1));
            assert_eq!((&*profile.version.to_string(), profile.silent, profile.legacy), (version, silent, false));
        }
        assert!(profile(Release::new(0, 58)).legacy);
        assert!(profile(Release::new(2, 1)).acp && !profile(Release::new(1, 52)).acp);
        assert!(profile(Release::new(1, 14)).steer && !profile(Release::new(1, 13)).steer);
    }

    #[test]
    fn flags_unknown_to_release_are_refused() {
        let arguments: Vec<String> = ["--wire", "--work-dir=/x", "--session=a", "-y"].map(str::to_owned).to_vec();
        assert_eq!(unknown_flag(Release::new(0, 58), &arguments), Some("--session"));
        assert_eq!(unknown_flag(Release::new(0, 64), &arguments), None);
        assert_eq!(unknown_flag(Release::new(1, 49), &["--invented".to_owned()]), Some("--invented"));
        assert_eq!(unknown_flag(Release::new(2, 1), &arguments), Some("--wire"));
        assert_eq!(unknown_flag(Release::new(2, 1), &["acp".to_owned()]), None);
    }
}
