//! Commands that hide a simple command, for property tests and for the fuzzing target.

use std::path::Path;

use serde_json::json;

use crate::{Call, Decision, Policy};

/// The rules of the checks: one command is denied, and the wrappers are allowed.
pub const RULES: &str = r#"
deny = ["execute(rm *)"]
allow = [
    "execute(git *)", "execute(echo *)", "execute(env *)", "execute(sudo *)", "execute(sh *)", "execute(bash *)", "execute(xargs *)",
    "execute(find *)", "execute(timeout *)", "execute(nohup *)", "execute(command *)", "execute(exec *)", "execute(eval *)",
    "execute(cat *)", "execute(true *)", "execute(cd *)", "execute(nice *)", "execute(time *)", "edit(**)",
]
"#;

/// Ways to put a command into another one. `%` stands for the command, and `'%'` for the command in quotes.
pub const SHAPES: &[&str] = &[
    "%",
    "git status; %",
    "git status && %",
    "git status || %",
    "git status | %",
    "% | cat",
    "git status & %",
    "git status\n%",
    "(%)",
    "{ %; }",
    "echo $(%)",
    "echo \"$(%)\"",
    "echo \"a $(%) b\"",
    "if true; then %; fi",
    "if %; then true; fi",
    "if true; then true; else %; fi",
    "while true; do %; done",
    "until %; do true; done",
    "for x in a b; do %; done",
    "case a in a) % ;; esac",
    "f() { %; }; f",
    "cat <(%)",
    "cat < <(%)",
    "! %",
    "time %",
    "env %",
    "env A=1 %",
    "A=1 %",
    "env -i %",
    "sudo %",
    "sudo -u root %",
    "nohup %",
    "command %",
    "exec %",
    "timeout 5 %",
    "timeout -k 1 5 %",
    "nice -n 5 %",
    "sh -c '%'",
    "bash -lc '%'",
    "eval '%'",
    "echo a | xargs %",
    "find . -exec % {} \\;",
    "cat <<X\n$(%)\nX",
    "bash <<'X'\n%\nX",
    "echo ${A:-$(%)}",
    "echo > out; %",
    "true # comment\n%",
    "tr\\\nue; %",
];

/// Spellings of the denied command.
pub const COMMANDS: &[&str] = &[
    "rm -rf x",
    "/bin/rm x",
    "\\rm x",
    "\"rm\" x",
    "r\"m\" x",
    "RM x",
    "./rm x",
    "rm",
    "rm $X",
    "$(echo rm) x",
    "$RM x",
    "r? x",
];

/// Puts a command into shapes, the last one outside.
pub fn compose(command: &str, shapes: impl IntoIterator<Item = usize>) -> String {
    shapes.into_iter().fold(command.to_owned(), |inner, shape| {
        let shape = SHAPES[shape % SHAPES.len()];
        let quoted = format!("'{}'", inner.replace('\'', r"'\''"));
        shape.replace("'%'", &quoted).replace('%', &inner)
    })
}

/// Decides about a command by [`RULES`].
///
/// # Panics
/// If the rules cannot be read.
pub fn decide(policy: &Policy, command: &str) -> Decision {
    let arguments = json!({ "command": command });
    policy
        .check_call(Call { name: "Bash", arguments: arguments.as_object(), ..Call::default() }, Path::new("/"))
        .decision
}

/// Checks that any bytes are decided, as a rule set, as a command and as the arguments of a call.
pub fn decide_anything(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = Policy::from_toml(&text);
    let _ = Policy::from_json(&text);
    named_commands(&text);
    let Ok(policy) = Policy::from_toml(RULES) else { return };
    decide(&policy, &text);
    for (name, key) in
        [("Read", "path"), ("FetchURL", "url"), ("apply_patch", "patch"), ("mcp__a__b", "x"), ("other", "command")]
    {
        let arguments = json!({ key: &*text });
        policy.check_call(Call { name, arguments: arguments.as_object(), ..Call::default() }, Path::new("/"));
    }
}

/// The names of the commands of a text, also those inside of substitutions. Nothing, if the text is not recognised, or if a name is
/// known only to the shell.
pub fn named_commands(text: &str) -> Option<Vec<String>> {
    crate::command::names(text)
}
