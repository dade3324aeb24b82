//! The completions, in the shells that they are for. A shell that is not installed is skipped.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program of a shell. `None` if the shell is not installed.
#[expect(clippy::print_stderr, reason = "the output of a test says that a shell was skipped")]
fn shell(name: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(name).args(arguments).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {name} is not installed");
            return None;
        }
        Err(error) => panic!("{name}: {error}"),
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{name}: {text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

/// Writes the completions for a shell into a file.
fn script(folder: &Path, shell: &str, file: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kimi-agent")).args(["completions", shell]).output().unwrap();
    assert!(output.status.success());
    let path = folder.join(file);
    std::fs::write(&path, output.stdout).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The lines that a word has to be completed to: of commands, and of the options of one.
const CASES: [(&str, &[&str]); 3] = [
    ("kimi-agent ins", &["inspect"]),
    ("kimi-agent inspect --a", &["--atif"]),
    ("kimi-agent run --output", &["--output-schema"]),
];

#[cfg(unix)]
#[test]
fn bash_completes() {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), "bash", "kimi-agent");
    if shell("bash", &["-n", &file]).is_none() {
        return;
    }
    for (line, expected) in CASES {
        // These variables are set for a function of `complete -F`.
        let complete = r#"
            source "$1"
            COMP_LINE=$2 COMP_POINT=${#2}
            read -ra COMP_WORDS <<<"$2"
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            [[ $(complete -p kimi-agent) =~ -F\ ([^ ]+) ]]
            "${BASH_REMATCH[1]}" kimi-agent "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            printf '%s\n' "${COMPREPLY[@]}"
        "#;
        let found = shell("bash", &["--norc", "-c", complete, "bash", &file, line]).unwrap();
        assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{line}");
    }
}

#[cfg(unix)]
#[test]
fn fish_completes() {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), "fish", "kimi-agent.fish");
    for (line, expected) in CASES {
        let complete = format!("source '{file}'; complete --do-complete '{line}'");
        let Some(found) = shell("fish", &["--no-config", "-c", &complete]) else { return };
        // Each line is a word, a tab and its description.
        let words: Vec<_> = found.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(words, expected, "{line}");
    }
}

#[cfg(unix)]
#[test]
fn zsh_completes() {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), "zsh", "_kimi-agent");
    if shell("zsh", &["-f", "-n", &file]).is_none() {
        return;
    }
    for (line, expected) in CASES {
        // Completion works only in an interactive zsh, which runs on a terminal of its own here.
        let complete = r#"
            zmodload zsh/zpty
            zpty shell zsh -f -i
            zpty -w shell "PS1=; fpath=(${1:h} \$fpath); autoload -Uz compinit; compinit -u -D; echo REA''DY"
            zpty -m -r shell before '*READY*'
            zpty -w -n shell "$2"$'\t'
            zpty -m -r shell after "*$3*" && print -r -- "$after"
        "#;
        let found = shell("zsh", &["-f", "-c", complete, "zsh", &file, line, expected[0]]).unwrap();
        assert!(found.contains(expected[0]), "{line}: {found:?}");
    }
}
