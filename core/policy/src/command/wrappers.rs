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
/// Commands of the shell that change what later commands of the text mean: variables, functions, aliases and options.
const CHANGES: &[&str] = &[
    "export",
    "readonly",
    "local",
    "declare",
    "typeset",
    "integer",
    "float",
    "let",
    "read",
    "readarray",
    "mapfile",
    "getopts",
    "unset",
    "set",
    "shift",
    "shopt",
    "setopt",
    "unsetopt",
    "emulate",
    "alias",
    "unalias",
    "autoload",
    "functions",
    "unfunction",
    "zmodload",
    "zle",
    "bindkey",
    "compdef",
    "vared",
    "zparseopts",
    "zstyle",
    "zformat",
    "sched",
    "fc",
    "history",
    "bind",
    "complete",
    "compopt",
    "compgen",
    "enable",
    "disable",
    "print",
    "rehash",
    "limit",
    "ulimit",
    "umask",
    "return",
    "break",
    "continue",
    "popd",
    "pushd",
    "dirs",
    "nameref",
    "compound",
    "redirect",
    "universal",
    "setenv",
    "unsetenv",
    "whence",
    "log",
];
/// Commands of the shell that evaluate a subscript such as `a[$(id)]` in their words, at least in some shells.
const EVALUATES: &[&str] = &[
    "test", "[", "printf", "exit", "kill", "wait", "jobs", "fg", "bg", "disown", "suspend", "sleep", "cd", "logout",
    "type", "true", "false", "echo", "seq",
];

/// The name of a command without its directory, in lower case.
pub(crate) fn base_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name).to_lowercase();
    name.strip_suffix(".exe").map_or_else(|| name.clone(), str::to_owned)
}

/// Whether this is a shell of the system, not a program with its name.
pub(super) fn is_system_shell(name: &str) -> bool {
    const FOLDERS: [&str; 5] =
        ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];
    match name.rsplit_once('/') {
        Some((folder, name)) => FOLDERS.contains(&folder) && POSIX_SHELLS.contains(&name),
        None => POSIX_SHELLS.contains(&name),
    }
}

/// Why a command changes what the later commands of a text mean, if it does.
pub(super) fn changes_shell(words: &[Word]) -> Option<String> {
    let name = words.first()?.literal()?;
    let arguments = &words[1..];
    if CHANGES.contains(&name) {
        return Some(format!("`{name}` can change what later commands do"));
    }
    let is_variable =
        |word: &Word| word.text().starts_with("-v") || (word.text().starts_with('-') && word.text().contains('v'));
    if name == "printf" && arguments.first().is_some_and(is_variable)
        || name == "wait" && arguments.iter().any(|word| word.text().starts_with("-p"))
    {
        return Some(format!("`{name}` sets a variable"));
    }
    let is_evaluated = |word: &Word| word.text().contains('[') && word.text().contains(['$', '`']);
    if EVALUATES.contains(&name) && arguments.iter().any(is_evaluated) {
        return Some(format!("some shells evaluate a subscript in the words of `{name}`"));
    }
    None
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
        return if words[0].literal().is_some_and(is_system_shell) { of_shell(rest) } else { Hidden::Unknown };
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
    Hidden::Nothing
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
