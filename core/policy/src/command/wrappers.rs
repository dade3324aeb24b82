//! Commands that run other commands.

use super::Word;
use crate::programs::first_operand;

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
    "ts",
    "sem",
    "winpty",
    "call",
    "start",
    "arch",
    "i386",
    "i486",
    "i586",
    "i686",
    "x86_64",
    "arm",
    "arm64",
    "aarch64",
    "armv7l",
    "armv8l",
    "ppc32",
    "ppc64le",
    "s390x",
    "sparc64",
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
    "run0",
    "tini",
    "dumb-init",
    "catatonit",
    "numactl",
    "choom",
    "chronic",
    "ifne",
    "pee",
    "systemd-inhibit",
    "systemd-nspawn",
    "watchexec",
    "nodemon",
    "concurrently",
    "ld.so",
    "lxc",
    "lxc-attach",
    "incus",
    "chpst",
    "setuidgid",
    "softlimit",
    "envdir",
    "daemonize",
    "dtach",
    "abduco",
    "faketime",
    "catchsegv",
    "heaptrack",
    "uftrace",
    "rsh",
    "mosh",
    "pssh",
    "apptainer",
    "singularity",
    "uname26",
    "s6-setuidgid",
    "s6-softlimit",
    "s6-envdir",
    "s6-env",
    "s6-applyuidgid",
    "execlineb",
    "with-contenv",
    "eatmydata",
    "tsocks",
    "graftcp",
    "trickle",
    "aa-exec",
    "capsh",
    "runcon",
    "newrole",
    "cgexec",
    "cset",
    "sshpass",
    "autossh",
    "schroot",
    "fakechroot",
    "nsjail",
    "minijail0",
    "sandbox-exec",
    "runc",
    "crun",
    "youki",
    "runsc",
    "buildah",
    "finch",
    "ctr",
    "crictl",
    "docker-compose",
    "podman-compose",
    "oc",
    "k3s",
    "microk8s",
    "minikube",
    "distrobox-enter",
    "chruby-exec",
    "pkgx",
    "envchain",
    "envconsul",
    "consul-template",
    "summon",
    "berglas",
    "ssm-exec",
    "lockf",
    "setlock",
    "lckdo",
    "with-lock-ex",
    "run-one",
    "mpirun",
    "mpiexec",
    "srun",
    "sbatch",
    "salloc",
    "qsub",
    "bsub",
    "torchrun",
    "pexec",
    "xjobs",
    "nq",
    "pueue",
    "tsp",
    "taskpolicy",
    "dtruss",
    "dtrace",
    "bpftrace",
    "samply",
    "flamegraph",
    "py-spy",
    "memray",
    "scalene",
    "multitime",
    "viddy",
    "hwatch",
    "reflex",
    "xwfb-run",
    "startx",
    "xinit",
    "xterm",
    "gnome-terminal",
    "konsole",
    "alacritty",
    "kitty",
    "wezterm",
    "urxvt",
    "x-terminal-emulator",
    "tmate",
    "zellij",
    "byobu",
    "reptyr",
    "pfexec",
    "dzdo",
    "pbrun",
    "gksu",
    "gksudo",
    "kdesu",
    "wine",
    "wine64",
    "box64",
    "muvm",
    // It sets variables for the command.
    "cross-env",
    "cross-env-shell",
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
    "test", "[", "printf", "exit", "kill", "wait", "jobs", "fg", "bg", "disown", "suspend", "sleep", "cd", "chdir",
    "logout", "type", "true", "false", "echo", "seq",
];

/// The name of a command without its directory, in lower case.
pub(crate) fn base_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name).to_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    name.strip_prefix('g').filter(|name| GNU.contains(name)).unwrap_or(name).to_owned()
}

/// Programs that have a `g` before their name on systems with programs of their own.
const GNU: &[&str] = &[
    "env", "nice", "nohup", "timeout", "stdbuf", "chroot", "xargs", "time", "rm", "rmdir", "unlink", "shred", "cp",
    "mv", "ln", "dd", "install", "chmod", "chown", "chgrp", "truncate", "tee", "touch", "mkdir", "mkfifo", "mknod",
    "cat", "tac", "nl", "head", "tail", "ls", "wc", "cut", "paste", "od", "stat", "base64", "base32", "kill", "split",
    "csplit", "date", "uniq", "tr", "readlink", "realpath", "sort", "sed", "awk", "tar", "find", "make", "diff",
];

/// Whether this is a shell of the system, not a program with its name.
pub(super) fn is_system_shell(name: &str) -> bool {
    const FOLDERS: [&str; 5] =
        ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];
    match name.rsplit_once('/') {
        Some((folder, name)) => FOLDERS.contains(&folder) && POSIX_SHELLS.contains(&name),
        None => POSIX_SHELLS.contains(&name),
    }
}

/// Whether this is a command of the shell itself.
pub(super) fn is_of_shell(name: &str) -> bool {
    CHANGES.contains(&name) || EVALUATES.contains(&name)
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
        Some(Word::Literal(name)) => matches!(&*base_name(name), "cd" | "chdir" | "pushd" | "popd" | "chroot"),
        _ => true,
    }
}

/// Whether the command changes the directory to the folder that its one word names. Without a word, with an option, a place in
/// the stack of folders or a second word, shells go elsewhere.
pub(super) fn names_folder(words: &[Word]) -> bool {
    matches!(words, [_, Word::Literal(folder)] if !folder.is_empty() && !folder.starts_with(['-', '+']))
}

/// Returns the command that a command runs.
pub(super) fn hidden(words: &[Word]) -> Hidden {
    let Some(name) = words.first().and_then(Word::literal).map(base_name) else { return Hidden::Nothing };
    let name = &*name;
    let rest = &words[1..];
    if POSIX_SHELLS.contains(&name) {
        return if words[0].literal().is_some_and(is_system_shell) { of_shell(rest) } else { Hidden::Unknown };
    }
    if OTHER_SHELLS.contains(&name)
        || OTHERS.contains(&name)
        || ["ld-linux", "ld-musl"].iter().any(|start| name.starts_with(start))
    {
        return Hidden::Unknown;
    }
    if name == "git" {
        return of_git(words);
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
    // Behind `-x` the shell runs a command with the numbers of processes.
    if name == "jobs" && rest.first().is_some_and(|word| word.literal().is_none_or(|text| text.contains('x'))) {
        return if rest[0].literal() == Some("-x") { follows(words, 2) } else { Hidden::Unknown };
    }
    if PREFIXES.contains(&name) {
        return follows(words, 1);
    }
    Hidden::Nothing
}

/// Whether the command is one of a shell.
pub(super) fn is_shell(words: &[Word]) -> bool {
    words.first().and_then(Word::literal).is_some_and(|name| POSIX_SHELLS.contains(&&*base_name(name)))
}

/// The command that a subcommand of git runs.
fn of_git(words: &[Word]) -> Hidden {
    let Some(at) = first_operand(words) else { return Hidden::Nothing };
    let rest = &words[at + 1..];
    let is_any = |is: fn(&str) -> bool| rest.iter().any(|word| is(word.text()));
    // Short options can be joined, and long ones can be abbreviated.
    let is_short = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.contains('x');
    let is_exec = |text: &str| is_short(text) || (text.len() > 2 && text.starts_with("--e"));
    let is_unknown = match words[at].text() {
        "bisect" if rest.first().is_some_and(|word| word.text() == "run") => return follows(words, at + 2),
        "submodule" => is_any(|text| text == "foreach"),
        "bisect" => is_any(|text| text == "run") && rest[0].text().starts_with('-'),
        "rebase" if rest.iter().any(|word| is_exec(word.text())) => return of_rebase(rest),
        "difftool" => rest.iter().any(|word| is_exec(word.text())),
        "filter-branch" => is_any(|text| text.starts_with('-')),
        "for-each-repo" => true,
        _ => false,
    };
    if is_unknown { Hidden::Unknown } else { Hidden::Nothing }
}

/// The texts that `git rebase` runs between the commits.
fn of_rebase(rest: &[Word]) -> Hidden {
    match rest {
        [Word::Literal(option), Word::Literal(text), others @ ..]
            if matches!(&**option, "-x" | "--exec") && !others.iter().any(|word| word.text().starts_with('-')) =>
        {
            Hidden::Text(text.clone())
        }
        _ => Hidden::Unknown,
    }
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
