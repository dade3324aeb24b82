//! Texts that the recogniser accepts, executed in the shells of this machine: no command runs that it did not name.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kimi_agent_policy::generated::named_commands;

/// The commands that exist while a text runs. Each writes its name into a file.
const NAMES: [&str; 9] = ["aa", "bb", "cc", "dd", "rm", "git", "x", "y", "sh2"];

/// A generator of numbers: the same texts in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// A text of pieces that mean something to a shell.
fn pieces(random: &mut Random) -> String {
    const PIECES: &[&str] = &[
        "aa",
        "bb",
        "cc",
        "dd",
        "rm",
        "git",
        "x",
        "y",
        " ",
        " ",
        " ",
        "\n",
        "\t",
        ";",
        "&",
        "|",
        "&&",
        "||",
        "(",
        ")",
        "{",
        "}",
        "{ ",
        "; }",
        "$(",
        "`",
        "'",
        "\"",
        "\\",
        "$",
        "$x",
        "${x}",
        "${x:-",
        "${x:=aa}",
        "$((",
        "))",
        "<",
        ">",
        ">>",
        ">&",
        "<&",
        "<>",
        ">|",
        "&>",
        "|&",
        "<<",
        "<<E\n",
        "<<'E'\n",
        "\nE\n",
        "<<<",
        "<(",
        ">(",
        "2>",
        "1>&2",
        "2147483648>",
        "if ",
        "then ",
        "else ",
        "elif ",
        "fi",
        "while ",
        "until ",
        "do ",
        "done",
        "for x in ",
        "case x in ",
        "esac",
        "in ",
        "function ",
        "x() ",
        "() ",
        "! ",
        "time ",
        "[[ ",
        "]]",
        "[ ",
        " ]",
        "#",
        " #",
        "~",
        "~/",
        "*",
        "?",
        "[a]",
        "=",
        "x=",
        "PATH=",
        "x=1 ",
        "=aa",
        "!",
        "!!",
        "%",
        "^",
        ":",
        ",",
        "{a,b}",
        "{}",
        "$'\\x61a'",
        "$\"aa\"",
        "\\\n",
        "\r",
        "&!",
        "&|",
        ";;",
        ";&",
        "-",
        "--",
        "-x",
        "$[",
        "@(",
        "?(",
        "!(",
        "e",
        "'a' ",
        "\"b\"",
        "coproc ",
        "select x in ",
        "repeat 2 ",
        "always ",
        "nocorrect ",
        "noglob ",
        "<1-2>",
        ">!",
        "\u{a0}",
        "\u{2028}",
    ];
    let count = 1 + random.below(9);
    (0..count).map(|_| random.of(PIECES)).collect()
}

/// A text of a grammar that is mostly accepted.
fn sentence(random: &mut Random, depth: usize) -> String {
    let word = |random: &mut Random| {
        random
            .of(&[
                "aa", "bb", "'cc dd'", "\"x y\"", "a$x", "\"${x}\"", "b*", "-x", "k=v", "d\\;d", "{a,b}", "#c", "!",
                "''",
            ])
            .to_owned()
    };
    let simple = |random: &mut Random| {
        let mut text =
            random.of(&["aa", "bb", "cc", "'dd'", "rm", "g''it", "\"x\"", "x=1 aa", "2>f bb", "\\aa"]).to_owned();
        for _ in 0..random.below(3) {
            text.push(' ');
            text.push_str(&word(random));
        }
        text.push_str(random.of(&["", "", "", " >f", " 2>&1", " </dev/null", " >>f", " >|f", "<<'E'\n$(rm)\nE\n"]));
        text
    };
    if depth == 0 {
        return simple(random);
    }
    let mut inner = || sentence(random, depth - 1);
    let (a, b) = (inner(), inner());
    let separator = random.of(&["; ", " && ", " || ", " | ", "\n", " & ", ";", "|", "\n\n"]);
    match random.below(12) {
        0 => format!("({a})"),
        1 => format!("{{ {a}; }}"),
        2 => format!("if {a}; then {b}; fi"),
        3 => format!("while {a}; do {b}; done"),
        4 => format!("aa $({a})"),
        5 => format!("bb \"$({a})\" {b}"),
        6 => format!("! {a}"),
        7 => format!("if {a}\nthen\n{b}\nelse {a}\nfi"),
        8 => format!("x=$({a}) cc"),
        _ => format!("{a}{separator}{b}"),
    }
}

/// The shells of this machine, with the words that start them. `KIMI_AGENT_SHELLS` names further folders with shells.
fn shells() -> Vec<Vec<String>> {
    let further = std::env::var_os("KIMI_AGENT_SHELLS").unwrap_or_default();
    let folders: Vec<PathBuf> = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"]
        .iter()
        .map(PathBuf::from)
        .chain(std::env::split_paths(&further))
        .collect();
    let find = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for (name, words) in [
        ("dash", &[][..]),
        ("bash", &["--norc", "--noprofile"]),
        ("busybox", &["sh"]),
        ("zsh", &["-f"]),
        ("ksh", &[]),
        ("ksh93", &[]),
        ("mksh", &[]),
        ("sh", &[]),
    ] {
        match find(name) {
            Some(path) => {
                let words = words.iter().map(|word| (*word).to_owned());
                found.push(std::iter::once(path.display().to_string()).chain(words).collect());
            }
            None => missing.push(name),
        }
    }
    println!("skipped, because they are not installed: {missing:?}");
    found
}

/// A folder with the commands that exist, and the file with the names of those that ran.
fn stand_ins(dir: &Path) -> (PathBuf, PathBuf) {
    let (bin, log) = (dir.join("bin"), dir.join("log"));
    std::fs::create_dir(&bin).unwrap();
    for name in NAMES {
        let path = bin.join(name);
        // A loop of commands that end well would not end.
        let end = if matches!(name, "aa" | "git") { 1 } else { 0 };
        let script = format!(
            "#!/bin/sh\necho {name} >>{log}\nwhile read -r line; do :; done </dev/null\n[ $(/usr/bin/wc -l <{log}) -lt 40 ] || kill -9 $PPID\nexit {end}\n",
            log = log.display()
        );
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    (bin, log)
}

/// Executes texts in every shell. Returns the number of texts that were executed.
fn execute(texts: impl Iterator<Item = String>) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let (bin, log) = stand_ins(dir.path());
    let work = dir.path().join("work");
    let shells = shells();
    assert!(!shells.is_empty());
    let mut executed = 0;
    for text in texts {
        let Some(named) = named_commands(&text) else { continue };
        let named: HashSet<String> = named.into_iter().collect();
        executed += 1;
        for shell in &shells {
            std::fs::write(&log, "").unwrap();
            let _ = std::fs::remove_dir_all(&work);
            std::fs::create_dir(&work).unwrap();
            let status = Command::new("/bin/sh")
                .args(["-c", "ulimit -t 2; exec \"$@\"", "sh"])
                .args(shell)
                .args(["-c", &text])
                .env_clear()
                .env("PATH", &bin)
                .env("HOME", &work)
                .current_dir(&work)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            assert!(status.is_ok());
            let ran = std::fs::read_to_string(&log).unwrap();
            for name in ran.lines() {
                assert!(named.contains(name), "{shell:?} runs `{name}` for {text:?}, of which {named:?} is known");
            }
        }
    }
    executed
}

/// How many texts are made: few in each run, more at night.
fn rounds(usual: usize) -> usize {
    std::env::var("KIMI_AGENT_SHELL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

#[test]
fn shells_run_no_command_that_is_not_named() {
    let seed = std::env::var("KIMI_AGENT_SHELL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut random = Random(seed);
    let sentences = rounds(60);
    let made: Vec<String> = (0..sentences).map(|n| sentence(&mut random, n % 4)).collect();
    assert!(execute(made.into_iter()) > sentences / 4);
    // Most of these are not accepted, and cost nothing.
    let made: Vec<String> = (0..sentences * 20).map(|_| pieces(&mut random)).collect();
    assert!(execute(made.into_iter()) > 0);
}

#[test]
fn text_that_shells_read_differently_is_not_accepted() {
    for text in [
        "cat <<$(  ",
        "echo hi 2147483648>x",
        "<<EOF;$((()",
        "ls &>/dev/null rm -rf x",
        "ls |& rm",
        "echo a >& f",
        "cat <(rm)",
        "for HOME in src; do git status; done",
        "case ${HOME:=src} in x) git status;; esac",
        "case x in x) rm;; esac",
        "f() { rm; }; f",
        "function f { rm; }; f",
        "echo $'a'",
        "echo $\"a\"",
        "echo ${x:=rm}",
        "echo $((1))",
        "((1))",
        "[[ -n x ]]",
        "a[$(rm)]=1 ls",
        "echo `rm`",
        "cat <<E\n$(rm)\nE",
        "cat <<-E\nx\nE",
        "cat <<<x",
        "X=1",
        "X+=1 ls",
        "=ls",
        "ls\r\nrm",
        "ls\u{a0}rm",
        "ls\0rm",
        "ls # ; rm",
        "ls # -R",
        "ls \\",
        "ls 'a",
        "ls \"a",
        "ls (a)",
        "ls *(rm)",
        "{ ls }",
        "ls }",
        "ls &! rm",
        "ls &| rm",
        "ls ;; rm",
        "! ! ls",
        "ls &&",
        "| ls",
        "(",
        "()",
        "> f",
        "< f",
        "echo a >! f",
        "ls <1-2>",
        "ls &\\\n& rm",
        "coproc rm",
        "time { rm; }",
        "%1",
        "- rm",
        "repeat 2 rm",
        "echo $x[1]",
        "if ls; fi",
        "while ls; do done",
    ] {
        assert_eq!(named_commands(text), None, "{text:?}");
    }
    for text in [
        "git status",
        "git status && git diff | cat",
        "(git status; ls) > f 2>&1",
        "{ ls; rm x; }",
        "if a; then b; elif c; then d; else e; fi",
        "while a; do b; done",
        "X=1 ls",
        "cat <<'E' > f\n$(rm) `x` \\\nE\nls",
        "echo \"$(ls \"$x\")\"",
        "ls 2>/dev/null; ls >&2",
        "! ls",
        "ls \\\n  -la",
        "ls # a comment",
        "echo a#b 'c d' \"e\\\"f\"",
        "time ls",
        "ls &",
        "git commit -m 'it works' && ls",
    ] {
        assert!(named_commands(text).is_some(), "{text:?}");
    }
}
