//! The parsers of a policy.

use std::sync::LazyLock;

use kimi_agent_policy::Policy;
use kimi_agent_protocol::worst::{Parser, Text, halves, repeated, within};
use serde_json::{Value, json};

pub(crate) const PARSERS: &[Parser] = &[
    Parser { name: "commands of a policy", read: command, texts: COMMANDS },
    Parser {
        name: "paths of a policy",
        read: path,
        texts: &[repeated("../"), repeated("a/"), repeated("/"), repeated("é"), repeated("\\")],
    },
    Parser {
        name: "addresses of a policy",
        read: address,
        texts: &[
            repeated("://"),
            repeated("http://a"),
            repeated("@"),
            repeated("%41"),
            repeated("."),
            repeated("http://1.1.1.1 "),
            repeated("é"),
        ],
    },
    Parser {
        name: "globs of a policy",
        read: glob,
        texts: &[repeated("*"), repeated("**/"), repeated("["), repeated("{a,"), repeated("{a,b}")],
    },
    Parser { name: "sets in braces of a policy", read: sets, texts: SETS },
    Parser { name: "sets in braces of a command", read: sets_of_command, texts: SETS },
    Parser {
        name: "patches of a policy",
        read: patch,
        texts: &[repeated("--- a\n"), repeated("*** Add File: a\n"), repeated("\n"), repeated("rename to a\n")],
    },
    Parser {
        name: "arguments of a policy",
        read: arguments,
        texts: &[
            within("{", "\"a\":1,", "\"b\":1}"),
            within("{\"paths\":[", "\"a\",", "\"a\"]}"),
            within("{\"edits\":[", "{\"path\":\"a/b\"},", "{}]}"),
            within("{\"edits\":[", "[],", "{}]}"),
            within("{\"command\":[", "\"a\",", "\"a\"]}"),
            within("{\"command\":[\"xargs\",", "\"git\",", "\"a\"]}"),
        ],
    },
    Parser {
        name: "names of tools of a policy",
        read: name,
        texts: &[repeated("a__"), within("mcp__", "a__", "a"), repeated("\u{130}"), repeated("a")],
    },
];

const SETS: &[Text] = &[
    repeated("{aaaaaaaaaa,bbbbbbbbbbb}"),
    repeated("{a,b}"),
    repeated("{*a,*b}"),
    repeated("{a,b}/**/"),
    repeated("{**/a,b}/"),
    repeated("*a"),
    repeated("?"),
    repeated("{a,{b,{c,d}}}"),
    repeated("{abcdefghijklmnopqrstuvwxyz,,,,,,,,,,,,,,,,,,,,,,,,,,,,}"),
    repeated("self/{a,b}"),
];

const COMMANDS: &[Text] = &[
    repeated("("),
    repeated("((((((((a a a "),
    repeated("$("),
    repeated("\"$("),
    repeated("a a "),
    repeated("a;"),
    repeated("git;"),
    repeated("a|"),
    repeated("xargs "),
    repeated("env "),
    within("xargs ", "git ", ""),
    within("xargs ", "'git git' ", ""),
    within("find . -exec ", "git status ", ""),
    halves(
        "xargs git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git git ",
        "a ",
        "",
        "b",
        "",
    ),
    within("sh -c '", "git status;", "'"),
    repeated("eval \""),
    repeated("sh -c \""),
    repeated("bash -lc \""),
    repeated("git bisect run \""),
    repeated("find . -exec sh -c \""),
    repeated("wrapper 'git status' "),
    within("sh -c 'sh -c \"", "git status;", "\"'"),
    within("cat ", "/etc/passwd ", ""),
    within("cat ", "../../../a ", ""),
    within("cat ", "a/b/c/d/e/f/g/h/i/j/k ", ""),
    within("", "cat a > b;", "x"),
    within("cat <<'E'\n", "a\n", "E\n"),
    repeated("cat <<'E'\n"),
    repeated("if "),
    repeated("{ "),
    repeated("`"),
    repeated("'"),
    repeated("\\\n"),
    repeated("$x"),
    repeated("\u{200b}"),
    repeated("# "),
    repeated("git push https://a.example ;"),
    repeated("a=b "),
    repeated("<<E "),
    repeated("git status || "),
    repeated("rm -r\\f '' \"\" "),
];

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    Policy::from_toml(
        r#"extends = "edit-files"
        deny = ["execute(rm *)", "execute(git push *)", "read(**/.env*)", "fetch(169.254.169.254)", "fetch(*.corp)", "mcp(github/delete_*)", "edit(secrets/**)", "Other(x*)"]
        ask = ["execute(git *)", "execute(* --force *)"]
        allow = ["execute(xargs *)", "execute(echo *)", "read(**)", "edit(src/**)", "fetch(a.example)"]"#,
    )
    .unwrap()
});

fn check(name: &str, arguments: Value) {
    drop(std::hint::black_box(POLICY.check_json(&json!({"name": name, "arguments": arguments}), "/usr/lib")));
}

fn beginning(text: &str, bytes: usize) -> &str {
    (0..=bytes.min(text.len())).rev().find_map(|end| text.get(..end)).unwrap_or_default()
}

fn command(text: &str) {
    check("Shell", json!({"command": text}));
    // The longest text that is read.
    let start = beginning(text, 63 << 10);
    check("Shell", json!({"command": start}));
}

fn path(text: &str) {
    check("ReadFile", json!({"path": text}));
    let start = beginning(text, 240);
    check("ReadFile", json!({"paths": vec![start; 400]}));
}

fn address(text: &str) {
    check("FetchURL", json!({"url": text, "prompt": text}));
}

fn glob(text: &str) {
    let start = beginning(text, 400);
    check("Glob", json!({"pattern": text, "globs": vec![start; 400]}));
}

/// As many paths as a call may have, which are short and long sets.
fn sets_of(text: &str) -> Vec<String> {
    let path = |number: usize| {
        let start = beginning(text, [27, 60, 125, 380][number % 4]);
        // A set that is not closed is none.
        let start = start.rfind(['}', '/', '*', '?']).map_or(start, |end| &start[..=end]);
        format!("{start}{number}")
    };
    (0..400).map(path).collect()
}

fn sets(text: &str) {
    check("Edit", json!({"paths": sets_of(text)}));
}

fn sets_of_command(text: &str) {
    let words: String = sets_of(text).iter().take(100).map(|path| format!(" '{path}' -g '{path}'")).collect();
    check("Shell", json!({"command": format!("cat{words}")}));
}

fn patch(text: &str) {
    check("apply_patch", json!({"input": text}));
}

fn arguments(text: &str) {
    let arguments: Value = serde_json::from_str(text).unwrap_or_else(|_| json!({"a": text}));
    let mut call = json!({"arguments": arguments});
    for name in ["Edit", "Shell"] {
        call["name"] = name.into();
        drop(std::hint::black_box(POLICY.check_json(&call, "/usr/lib")));
    }
}

fn name(text: &str) {
    check(text, json!({"path": "a"}));
    drop(std::hint::black_box(POLICY.check_json(&json!({"name": text}), "/usr/lib")));
}
