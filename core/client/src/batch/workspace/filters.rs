//! Filters of git: programs of the user that convert files, such as Git LFS. They run in a worktree, so one that takes
//! a program or a script from there would run what an agent has written.

use std::collections::HashMap;
use std::path::Path;

/// Programs that take nothing to run from the working directory. The second word of `git` is the name of the program.
///
/// Sources: `git-lfs-config(5)`, by which `.lfsconfig` cannot name programs; `git-annex-smudge(1)`; the documentation of `git-crypt` and
/// `nbstripout`; POSIX for the others.
const KNOWN: [&str; 9] = ["git-lfs", "git-annex", "git-crypt", "nbstripout", "cat", "expand", "gzip", "tr", "unexpand"];
const OF_GIT: [&str; 2] = ["lfs", "annex"];
/// The beginnings of the names of programs that run what an argument or the working directory names.
const RUNNERS: [&str; 29] = [
    "awk", "ash", "bash", "bun", "busybox", "csh", "dash", "deno", "env", "fish", "gawk", "guile", "java", "julia",
    "ksh", "lua", "make", "mawk", "node", "npx", "perl", "php", "pypy", "python", "ruby", "sed", "sh", "uv", "zsh",
];
/// The names of the settings of a filter that are commands.
const COMMANDS: [&str; 3] = ["clean", "smudge", "process"];

/// Returns the names of the filters that an agent could lead to a program of its own, each with its command. `settings` are
/// the keys of the configuration with their values, `top` is the repository.
pub(super) fn unsafe_filters<'a>(
    settings: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    top: &Path,
) -> HashMap<&'a str, &'a str> {
    let commands = settings.filter_map(|(key, command)| {
        let (name, setting) = key.strip_prefix("filter.")?.rsplit_once('.')?;
        COMMANDS.contains(&setting).then_some((name, command.unwrap_or_default()))
    });
    commands.filter(|(_, command)| !is_safe(command, top)).collect()
}

/// Returns whether a command, which git gives to the shell, runs only a program that no file of a worktree can change.
fn is_safe(command: &str, top: &Path) -> bool {
    // Git puts the path of the file here, and quotes it.
    let command = command.replace("\"%f\"", "%f").replace("'%f'", "%f");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || " -_=/%,:+@.".contains(letter);
    if !command.chars().all(is_plain) {
        return false;
    }
    let mut words = command.split(' ').filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return true };
    let program = Path::new(first);
    let Some(name) = program.file_name().and_then(|name| name.to_str()) else { return false };
    if first.contains('/') && (!program.is_absolute() || first.contains("/../") || program.starts_with(top)) {
        return false;
    }
    let is_known = KNOWN.contains(&name) || name == "git" && words.next().is_some_and(|word| OF_GIT.contains(&word));
    if is_known {
        return words.all(|word| word == "%f" || !word.contains(['/', '.']));
    }
    let is_runner = RUNNERS.iter().any(|runner| name.starts_with(runner));
    program.is_absolute()
        && !is_runner
        && words.all(|word| word == "%f" || word.starts_with('-') && !word.contains('/'))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn filters_that_worktree_can_change_are_found() {
        let top = Path::new("/home/ada/app");
        for command in [
            "",
            "git-lfs clean -- %f",
            "git-lfs filter-process",
            "git lfs smudge --skip -- '%f'",
            "/usr/bin/git-lfs clean -- \"%f\"",
            "tr a-z A-Z",
            "nbstripout",
            "/home/ada/bin/strip-keys --all %f",
        ] {
            assert!(is_safe(command, top), "{command}");
        }
        for command in [
            "./strip.sh",
            "strip.sh",
            "tools/strip",
            "sh strip.sh",
            "python -m nbstripout",
            "/usr/bin/python3 strip.py",
            "/usr/bin/python3.12 -m nbstripout",
            "/home/ada/app/tools/strip",
            "/home/../home/ada/app/strip",
            "git crypt clean",
            "git -c core.fsmonitor=x lfs clean",
            "git-lfs clean -- %f; ./x",
            "git-lfs clean $(./x)",
            "cat %f | ./x",
            "/usr/bin/sed -f clean.sed",
            "/home/ada/bin/strip config.json",
            "X=1 git-lfs clean",
        ] {
            assert!(!is_safe(command, top), "{command}");
        }
    }

    #[test]
    fn one_command_makes_filter_unsafe() {
        let settings = [
            ("filter.lfs.clean", Some("git-lfs clean -- %f")),
            ("filter.a.b.smudge", Some("cat")),
            ("filter.a.b.clean", Some("./x")),
            ("filter.c.required", Some("./x")),
            ("diff.a.textconv", Some("./x")),
        ];
        assert_eq!(unsafe_filters(settings.into_iter(), Path::new("/home/ada")), HashMap::from([("a.b", "./x")]));
    }
}
