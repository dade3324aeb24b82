//! Decisions by policies with 10,000 rules. A text repeats the name of a case.

use std::sync::OnceLock;

use kimi_agent_policy::Policy;
use kimi_agent_protocol::worst::{Parser, repeated};
use serde_json::{Value, json};

pub(crate) const DECISIONS: Parser = Parser {
    name: "decisions by 10,000 rules",
    read: decide,
    texts: &[
        repeated("program "),
        repeated("one-program "),
        repeated("unknown-word "),
        repeated("unknown-name "),
        repeated("option "),
        repeated("wild-name "),
        repeated("unread-text "),
        repeated("folder "),
        repeated("unknown-file "),
        repeated("wild-file "),
        repeated("ending "),
        repeated("tree "),
        repeated("search "),
        repeated("search-below "),
        repeated("operands "),
        repeated("host "),
        repeated("unknown-host "),
        repeated("server "),
        repeated("server-tool "),
        repeated("tool "),
        repeated("tool-name "),
        repeated("title "),
    ],
};

/// The name of a case, its rules, in which `#` is a number, the name of the tool that is called, and an argument.
const CASES: &[(&str, &str, &str, [&str; 2])] = &[
    ("program", "execute(program# *)", "Shell", ["command", "cd src && ls -la; program19998 x | wc -l"]),
    ("one-program", "execute(git remote prune name# *)", "Shell", ["command", "git remote prune name19999"]),
    ("unknown-word", "execute(git remote prune name#)", "Shell", ["command", "git remote prune $NAME"]),
    ("unknown-name", "execute(program# x)", "Shell", ["command", "$PROGRAM y"]),
    ("option", "execute(git --option# *)", "Shell", ["command", "git log --stat src/a.py"]),
    ("wild-name", "execute(tool#-* *)", "Shell", ["command", "tool19998-x a; ls"]),
    ("unread-text", "execute(program# *)", "Shell", ["command", "for x in a b; do program19998 $x; done"]),
    ("folder", "edit(packages/package#/src/**)", "WriteFile", ["path", "packages/package19999/src/a.py"]),
    ("unknown-file", "edit(packages/package#/**)", "WriteFile", ["path", "$HOME/packages/x"]),
    ("wild-file", "read(**/secret#-*)", "ReadFile", ["path", "src/secret19999-x"]),
    ("ending", "read(**/*.x#)", "ReadFile", ["path", "src/a.x19999"]),
    ("tree", "edit(packages/package#/**)", "delete_file", ["path", "src"]),
    ("search", "read(folder#/secret.txt)", "Glob", ["pattern", "**/*.py"]),
    ("search-below", "read(packages/package#/**)", "Glob", ["pattern", "packages/package19998/**/*.py"]),
    ("operands", "read(folder#/**)", "Shell", ["command", "cat folder19999/a src/*.py docs/a.md; rm -r x"]),
    ("host", "fetch(host#.example)", "FetchURL", ["url", "https://a.b.host19998.example/x"]),
    ("unknown-host", "fetch(*.host#.example)", "FetchURL", ["url", "https://user@x.example\\@y.example/"]),
    ("server", "mcp(server#/*)", "mcp__server19999__get", ["id", "1"]),
    ("server-tool", "mcp(server#/get_issue)", "get_issue", ["id", "1"]),
    ("tool", "mcp(github/tool#_*)", "mcp__github__tool19999_x", ["id", "1"]),
    ("tool-name", "mcp__server#__tool*", "server19998_tool (MCP)", ["id", "1"]),
    ("title", "mcp(server#/tool)", "Run the tests of this folder, and show what failed", ["command", "make test"]),
];

/// The policy of the case; a process has one.
static POLICY: OnceLock<Policy> = OnceLock::new();

fn policy(rule: &str) -> Policy {
    let rules = |from: usize| -> Vec<String> {
        (10_000 + from..20_000).step_by(2).map(|n| rule.replace('#', &n.to_string())).collect()
    };
    Policy::from_value(&json!({"deny": rules(0), "allow": rules(1)})).unwrap()
}

fn decide(text: &str) {
    let Some((_, rule, name, [key, value])) = CASES.iter().find(|(name, ..)| text.starts_with(&format!("{name} ")))
    else {
        return;
    };
    let call: Value = json!({"name": name, "arguments": {*key: value}});
    let policy = POLICY.get_or_init(|| policy(rule));
    std::hint::black_box(policy.check_json(&call, "/usr/lib").unwrap());
}
