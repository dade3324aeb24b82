//! Commands that run other commands.

use super::Word;

/// The command that a command runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hidden {
    /// It runs no other command that is known here.
    Nothing,
    /// The command from this word on.
    From(usize),
    /// A text for a shell.
    Text(String),
    /// A command that cannot be decided.
    Unknown,
}

/// Shells whose language the parser knows.
const POSIX_SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash"];
const OTHER_SHELLS: &[&str] = &["fish", "csh", "tcsh", "nu", "xonsh", "elvish", "powershell", "pwsh", "cmd", "wsl"];
/// The command follows directly, if no option is in between.
const PREFIXES: &[&str] = &[
    "nohup",
    "command",
    "exec",
    "builtin",
    "time",
    "setsid",
    "nice",
    "ionice",
    "sudo",
    "doas",
    "env",
    "stdbuf",
    "busybox",
    "toybox",
    "caffeinate",
    "unbuffer",
    "fakeroot",
    "noglob",
    "nocorrect",
];
/// A command follows somewhere, or comes from elsewhere.
const OTHERS: &[&str] = &[
    "xargs",
    "parallel",
    "watch",
    "strace",
    "ltrace",
    "gdb",
    "chroot",
    "flock",
    "taskset",
    "chrt",
    "su",
    "ssh",
    "docker",
    "podman",
    "nerdctl",
    "kubectl",
    "systemd-run",
    "nsenter",
    "unshare",
    "script",
    "runuser",
    "gosu",
    "su-exec",
    "setpriv",
    "firejail",
    "bwrap",
    "proot",
    "entr",
    "tmux",
    "screen",
    "at",
    "batch",
    "expect",
    "rlwrap",
    "proxychains",
    "proxychains4",
    "torsocks",
    "torify",
    "trap",
    "coproc",
    "source",
    ".",
    "alias",
    "enable",
    "hash",
    "crontab",
    "pkexec",
    "start-stop-daemon",
    "run-parts",
    "setarch",
    "linux32",
    "linux64",
    "dbus-run-session",
    "xvfb-run",
    "sg",
    "newgrp",
    "cpulimit",
    "prlimit",
    "perf",
    "valgrind",
    "hyperfine",
    "dotenv",
    "direnv",
];
/// Options with which a command runs another one, or deletes or writes files that no rule can see.
const OPTIONS: &[(&str, &[&str])] = &[
    ("find", &["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"]),
    ("fd", &["-x", "-X", "--exec", "--exec-batch"]),
    ("fdfind", &["-x", "-X", "--exec", "--exec-batch"]),
    ("rg", &["--pre"]),
    ("tar", &["--to-command", "--checkpoint-action", "-I", "--use-compress-program"]),
    (
        "git",
        &[
            "-c",
            "--config-env",
            "run",
            "foreach",
            "-x",
            "--exec",
            "--exec-path",
            "filter-branch",
            "--upload-pack",
            "--receive-pack",
        ],
    ),
];

/// The name of a command without its directory, in lower case.
pub(super) fn base_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name).to_lowercase();
    name.strip_suffix(".exe").map_or_else(|| name.clone(), str::to_owned)
}

pub(super) fn is_posix_shell(word: &Word) -> bool {
    word.literal().is_some_and(|name| POSIX_SHELLS.contains(&&*base_name(name)))
}

/// Whether relative paths mean other files after the command.
pub(crate) fn changes_directory(words: &[Word]) -> bool {
    match words.first() {
        Some(Word::Literal(name)) => matches!(&*base_name(name), "cd" | "pushd" | "popd" | "chroot"),
        _ => true,
    }
}

/// Returns the command that a command runs.
pub(super) fn hidden(words: &[Word]) -> Hidden {
    let Some(name) = words.first().and_then(Word::literal).map(base_name) else { return Hidden::Nothing };
    let name = &*name;
    let rest = &words[1..];
    if POSIX_SHELLS.contains(&name) {
        return of_shell(rest);
    }
    if OTHER_SHELLS.contains(&name) || OTHERS.contains(&name) {
        return Hidden::Unknown;
    }
    if name == "eval" {
        let texts: Option<Vec<&str>> = rest.iter().map(Word::literal).collect();
        return texts.map_or(Hidden::Unknown, |texts| Hidden::Text(texts.join(" ")));
    }
    if name == "timeout" {
        let is_duration = |word: &Word| {
            word.literal().is_some_and(|text| {
                text.starts_with(|c: char| c.is_ascii_digit())
                    && text
                        .trim_end_matches(['s', 'm', 'h', 'd'])
                        .bytes()
                        .all(|byte| byte.is_ascii_digit() || byte == b'.')
            })
        };
        return match rest {
            [duration, ..] if is_duration(duration) => follows(words, 2),
            _ => Hidden::Unknown,
        };
    }
    if PREFIXES.contains(&name) {
        return follows(words, 1);
    }
    let options = OPTIONS.iter().find(|(command, _)| *command == name).map(|(_, options)| *options);
    let is_option = |word: &Word| {
        let Some(text) = word.literal() else { return false };
        let text = text.split_once('=').map_or(text, |(option, _)| option);
        options.is_some_and(|options| options.contains(&text))
    };
    if rest.iter().any(is_option) { Hidden::Unknown } else { Hidden::Nothing }
}

/// The command from this word on, if it is surely its name.
fn follows(words: &[Word], at: usize) -> Hidden {
    match words.get(at) {
        Some(Word::Literal(name)) if !name.starts_with(['-', '+']) && !name.contains('=') && !name.is_empty() => {
            Hidden::From(at)
        }
        // Alone, `env` and `time` run nothing. `exec` and `sudo` do not matter.
        None => Hidden::Nothing,
        _ => Hidden::Unknown,
    }
}

fn of_shell(rest: &[Word]) -> Hidden {
    let Some(first) = rest.first() else { return Hidden::Unknown };
    let Some(first) = first.literal() else { return Hidden::Unknown };
    if !first.starts_with(['-', '+']) {
        // A script. A rule that names it decides.
        return Hidden::Nothing;
    }
    let is_flag = first.starts_with('-') && !first.starts_with("--") && first.ends_with('c');
    match (is_flag, rest.get(1)) {
        (true, Some(Word::Literal(text))) if !text.starts_with(['-', '+']) => Hidden::Text(text.clone()),
        _ => Hidden::Unknown,
    }
}
