//! A decision with the index is the decision of a comparison with every rule.

#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Policy, PolicyVerdict};

const WORDS: &[&str] = &[
    "git", "push", "x", "X.Y", "-f", "--force", "--for", "--form=x", "--no-f", "*", "p*", "*sh", "a/b", "'a b'",
    "./git",
];
const PARTS: &[&str] = &[
    "src",
    "src*",
    "**",
    "*",
    "*.py",
    ".env*",
    "a?c",
    "[ab]c",
    "{src,lib}",
    "{a/mid",
    "mid",
    "x}",
    "é",
    "e*é",
    "SRC",
    "ab*cd*e",
];
const HOSTS: &[&str] = &[
    "a.example",
    "*.example",
    "*",
    "a.example:80",
    "a.example:8080",
    "127.0.0.1",
    "localhost",
    "b.a.example",
    "[::1]",
];
const SERVERS: &[&str] = &["github", "git*", "*", "my_srv", "*hub", "program", "é", "_", "a*b"];
const TOOLS: &[&str] = &["get", "get_*", "*", "delete", "*_file", "get_issue", "_", "é*", "g*t"];
const NAMES: &[&str] = &[
    "github_get",
    "git*",
    "*_issue",
    "get",
    "*",
    "mcp__github__get",
    "mcp__git*__*",
    "mcp__github__*",
    "mcp__git*",
    "Other",
];

fn some(list: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(list)
}

fn joined(list: &'static [&'static str], sign: &'static str) -> impl Strategy<Value = String> {
    prop::collection::vec(some(list), 1..4).prop_map(move |parts| parts.join(sign))
}

fn path() -> impl Strategy<Value = String> {
    let start = some(&["", "/", "/work/", "./", "~/"]);
    (start, joined(PARTS, "/")).prop_map(|(start, rest)| format!("{start}{rest}"))
}

fn rule() -> impl Strategy<Value = String> {
    prop_oneof![
        joined(WORDS, " ").prop_map(|words| format!("execute({words})")),
        (some(&["read", "edit", "delete", "move", "search"]), path())
            .prop_map(|(kind, path)| format!("{kind}({path})")),
        some(HOSTS).prop_map(|host| format!("fetch({host})")),
        (some(SERVERS), some(TOOLS)).prop_map(|(server, tool)| format!("mcp({server}/{tool})")),
        some(NAMES).prop_map(str::to_owned),
        some(&["execute", "read", "edit", "fetch", "mcp", "think"]).prop_map(str::to_owned),
    ]
}

fn call() -> impl Strategy<Value = Value> {
    let command = prop_oneof![
        joined(
            &[
                "git",
                "push",
                "x",
                "x.y",
                "-f",
                "-xfo",
                "--force",
                "--fo",
                "--forced=1",
                "$X",
                "*",
                "a/b",
                "'a b'",
                "src",
                "*.py",
                "/bin/git",
                ";"
            ],
            " "
        ),
        some(&["git `x`", "if x; git push", "cat src/*", "rm -r src", "sh -c 'git push x'"]).prop_map(str::to_owned),
        some(&[
            "cd src; git push mid",
            "cd a; src lib",
            "cd $X; tool src",
            "cd $X; cat s*",
            "cd; git init",
            "cd /work && git init",
            "git log -- 'a?c' 's*'",
            "git log ':!x'",
            "git rm -r src lib",
            "git checkout src",
            "git show x:mid",
            "tool -xsrc --f=lib a=mid,abc",
            "tool $X a*",
            "tool \"$X\"",
            "find -delete",
            "find a -delete",
            "mv src lib",
        ])
        .prop_map(str::to_owned),
    ];
    let file = || {
        let parts = [
            "src", "srcs", "a.py", ".env.x", "abc", "bc", "lib", "mid", "é", "e\u{301}", "*", "**", "*.py", "$X",
            "[ab]c", "ab1cd2e",
        ];
        (some(&["", "/", "/work/", "../", "~/"]), prop::collection::vec(prop::sample::select(parts.to_vec()), 1..4))
            .prop_map(|(start, parts)| format!("{start}{}", parts.join("/")))
    };
    let url = || {
        let host = some(&[
            "a.example",
            "b.a.example",
            "127.1",
            "[::1]",
            "a.example:8080",
            "example",
            "u@a.example",
            "%61.example",
        ]);
        (some(&["http://", "https://", "ftp://", ""]), host).prop_map(|(scheme, host)| format!("{scheme}{host}/"))
    };
    let argument = prop_oneof![
        3 => command.prop_map(|text| ("command", text)),
        3 => file().prop_map(|text| ("path", text)),
        1 => file().prop_map(|text| ("glob", text)),
        2 => url().prop_map(|text| ("url", text)),
        1 => file().prop_map(|text| ("unknown", text)),
    ];
    let name = some(&[
        "Shell",
        "ReadFile",
        "WriteFile",
        "delete_file",
        "move_file",
        "Grep",
        "Glob",
        "read_many_files",
        "FetchURL",
        "mcp__github__get",
        "mcp__my__srv__get_issue",
        "mcp__git__delete_file",
        "github_get_issue",
        "get (github MCP Server)",
        "github: get",
        "get",
        "delete_file_x",
        "get_issue",
        "other",
        "é",
        "git push",
        "plugin_github_get",
        "a1b_get",
    ]);
    let kind = prop::option::of(some(&["read", "edit", "delete", "search", "execute", "fetch", "other", "mcp"]));
    let arguments = prop::option::of(prop::collection::vec(argument, 0..3));
    (name, kind, arguments, prop::collection::vec(file(), 0..2)).prop_map(|(name, kind, arguments, diffs)| {
        let arguments: Option<serde_json::Map<String, Value>> = arguments
            .map(|arguments| arguments.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect());
        json!({"name": name, "kind": kind, "arguments": arguments, "diffs": diffs})
    })
}

/// The verdicts with the index and without it.
fn both(default: &str, deny: &[String], ask: &[String], allow: &[String], call: &Value) -> [PolicyVerdict; 2] {
    let keep = |rules: &[String]| -> Vec<String> {
        let is_valid = |rule: &&String| Policy::from_value(&json!({ "deny": [rule] })).is_ok();
        rules.iter().filter(is_valid).cloned().collect()
    };
    let rules = json!({"default": default, "deny": keep(deny), "ask": keep(ask), "allow": keep(allow)});
    let policy = Policy::from_value(&rules).unwrap();
    let mut linear = policy.clone();
    for list in [&mut linear.deny, &mut linear.ask, &mut linear.allow] {
        list.is_linear = true;
    }
    [policy, linear].map(|policy| policy.check_json(call, "/work").unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn index_changes_no_decision(
        default in some(&["allow", "ask", "deny"]),
        deny in prop::collection::vec(rule(), 0..12),
        ask in prop::collection::vec(rule(), 0..6),
        allow in prop::collection::vec(rule(), 0..6),
        call in call(),
    ) {
        let [indexed, linear] = both(default, &deny, &ask, &allow, &call);
        prop_assert_eq!(indexed.decision, linear.decision, "{} deny {:?} ask {:?} allow {:?}\n{:?}\n{:?}", call, deny, ask, allow, indexed, linear);
    }
}
