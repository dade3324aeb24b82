//! Properties of all policies and calls: more `deny` rules, fewer `allow` rules and more parts never make a decision weaker.

#![allow(clippy::unwrap_used, reason = "a test")]

use kimi_agent_policy::{Decision, Policy};
use proptest::prelude::*;
use serde_json::{Value, json};

const RULES: &[&str] = &[
    "execute",
    "execute(git *)",
    "execute(git status)",
    "execute(git push *)",
    "execute(rm *)",
    "execute(rm -rf *)",
    "execute(cat *)",
    "execute(cat ./**)",
    "execute(find *)",
    "execute(find * -exec grep *)",
    "execute(sh *)",
    "execute(*)",
    "execute(curl *)",
    "execute(ls)",
    "execute(env *)",
    "read",
    "read(**)",
    "read(secrets/**)",
    "read(**/.env*)",
    "read(/etc/**)",
    "read(src/*.py)",
    "edit",
    "edit(src/**)",
    "edit(secrets)",
    "edit(**/.env*)",
    "delete",
    "delete(src/**)",
    "move",
    "search",
    "search(**)",
    "search(src/**)",
    "fetch",
    "fetch(*)",
    "fetch(a.example)",
    "fetch(*.a.example)",
    "fetch(127.0.0.1)",
    "fetch(a.example:8080)",
    "mcp",
    "mcp(github/*)",
    "mcp(github/delete_*)",
    "mcp(*/*)",
    "mcp(my__srv/*)",
    "think",
    "Shell",
    "Shell(git *)",
    "Bash(rm *)",
    "WriteFile",
    "WriteFile(src/**)",
    "other_*",
    "github_*",
    "FetchURL(a.example)",
];
const COMMANDS: &[&str] = &[
    "git status",
    "git push --force",
    "rm -rf x",
    "rm -fr /",
    "cat secrets/key",
    "cat .env",
    "cat $X",
    "cat src/*",
    "find . -exec grep x {} +",
    "find . -exec rm {} +",
    "git -c a=b log",
    "sh -c 'git status'",
    "sh -c 'rm x'",
    "curl http://127.1/",
    "curl http://a.example/",
    "ls",
    "env ls",
    "X=1 ls",
    "ls > src/x",
    "ls > .env",
    "cat < secrets/key",
    "$X",
    "for x in a; do rm x; done",
    "echo `rm x`",
    "cd src && ls",
    "cd / && ls",
    "xargs rm",
    "export PATH=.",
    "(git status)",
    "if ls; then cat x; fi",
    "git status # x",
    "tar xf a",
    "cat <<'E'\nx\nE",
    "git log -p -- secrets",
    "git checkout '*env'",
    "awk 1 secrets",
    "cd secrets; git init",
    "cd $X; awk 1 key",
    "find . -delete",
    "mv secrets x",
];
const PATHS: &[&str] = &[
    "src/a.py",
    "secrets/key",
    "secrets",
    ".",
    "/",
    "/etc/passwd",
    ".env",
    "src/../.env",
    "src/*",
    "a/.env.local",
    "~/x",
    "",
    "/proc/self/cwd/secrets/key",
    "//etc/passwd",
    "SRC/a.py",
];
const URLS: &[&str] = &[
    "http://a.example/",
    "https://b.a.example/x",
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://a.example:8080/",
    "ftp://x/",
    "a.example",
    "",
    "http://u@a.example/",
];
const TOOLS: &[&str] = &[
    "Shell",
    "Bash",
    "ReadFile",
    "WriteFile",
    "delete_file",
    "move_file",
    "Grep",
    "Glob",
    "FetchURL",
    "mcp__github__delete_x",
    "mcp__my__srv__x",
    "github_delete_x",
    "other_tool",
    "Think",
    "apply_patch",
    "PowerShell",
    "rm -rf x",
];

fn call() -> impl Strategy<Value = Value> {
    let some = |list: &'static [&'static str]| prop::sample::select(list);
    let argument = prop_oneof![
        some(COMMANDS).prop_map(|text| ("command", json!(text))),
        some(PATHS).prop_map(|text| ("path", json!(text))),
        some(PATHS).prop_map(|text| ("destination_path", json!(text))),
        some(PATHS).prop_map(|text| ("glob", json!(text))),
        some(URLS).prop_map(|text| ("url", json!(text))),
        some(PATHS).prop_map(|text| ("working_dir", json!(text))),
        Just(("unknown_name", json!("x"))),
        Just(("content", json!("x"))),
    ];
    let kind = prop::option::of(prop::sample::select(vec![
        "read", "edit", "delete", "move", "search", "execute", "fetch", "think", "other", "mcp",
    ]));
    let arguments = prop::option::of(prop::collection::vec(argument, 0..4));
    (some(TOOLS), kind, arguments, prop::collection::vec(some(PATHS), 0..2)).prop_map(
        |(name, kind, arguments, diffs)| {
            let mut call = json!({"name": name, "diffs": diffs});
            if let Some(kind) = kind {
                call["kind"] = json!(kind);
            }
            if let Some(arguments) = arguments {
                call["arguments"] = arguments.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            }
            call
        },
    )
}

fn rules(at_most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(RULES), 0..at_most)
}

fn default() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["allow", "ask", "deny"])
}

fn decide(default: &str, deny: &[&str], ask: &[&str], allow: &[&str], call: &Value) -> Decision {
    let policy = Policy::from_value(&json!({"default": default, "deny": deny, "ask": ask, "allow": allow})).unwrap();
    policy.check_json(call, "/nonexistent/work").unwrap().decision
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn deny_rule_never_weakens(
        default in default(), deny in rules(4), ask in rules(3), allow in rules(4), more in prop::sample::select(RULES), call in call(),
    ) {
        let before = decide(default, &deny, &ask, &allow, &call);
        let with: Vec<&str> = deny.iter().copied().chain([more]).collect();
        prop_assert!(decide(default, &with, &ask, &allow, &call) >= before, "{call} deny {with:?} ask {ask:?} allow {allow:?}");
    }

    #[test]
    fn fewer_allow_rules_never_weaken(default in default(), deny in rules(4), ask in rules(3), allow in rules(5), call in call()) {
        let before = decide(default, &deny, &ask, &allow, &call);
        for at in 0..allow.len() {
            let mut without = allow.clone();
            without.remove(at);
            prop_assert!(decide(default, &deny, &ask, &without, &call) >= before, "{call} deny {deny:?} ask {ask:?} allow {allow:?} without {at}");
        }
    }

    #[test]
    fn ask_rule_never_weakens_below_ask(default in default(), deny in rules(3), ask in rules(3), allow in rules(4), more in prop::sample::select(RULES), call in call()) {
        let before = decide(default, &deny, &ask, &allow, &call);
        let with: Vec<&str> = ask.iter().copied().chain([more]).collect();
        let after = decide(default, &deny, &with, &allow, &call);
        prop_assert!(after >= before.min(Decision::Ask), "{call} deny {deny:?} ask {with:?} allow {allow:?}");
    }

    #[test]
    fn compound_is_as_strict_as_its_strictest_part(
        default in default(), deny in rules(4), ask in rules(3), allow in rules(5), first in prop::sample::select(COMMANDS), second in prop::sample::select(COMMANDS),
        sign in prop::sample::select(vec!["; ", " && ", " || ", "\n"]),
    ) {
        let call = |command: String| json!({"name": "Shell", "arguments": {"command": command}});
        // The rest of a line with a comment, or with the end of a here-document, is not a command.
        prop_assume!(sign == "\n" || !(first.contains(" #") || first.contains("<<")));
        let decide = |command: String| decide(default, &deny, &ask, &allow, &call(command));
        let both = decide(format!("{first}{sign}{second}"));
        let strictest = decide(first.to_owned()).max(decide(second.to_owned()));
        // A text that is not recognised as a whole is searched for what is denied, and asked about in any case.
        let is_readable = [first, second].iter().all(|text| kimi_agent_policy::generated::named_commands(text).is_some());
        prop_assert!(both >= if is_readable { strictest } else { strictest.min(Decision::Ask) }, "{first}{sign}{second}: {both} deny {deny:?} ask {ask:?} allow {allow:?}");
    }

    #[test]
    fn verdict_has_a_reason_and_a_part(default in default(), deny in rules(4), ask in rules(3), allow in rules(4), call in call()) {
        let policy = Policy::from_value(&json!({"default": default, "deny": deny, "ask": ask, "allow": allow})).unwrap();
        let verdict = policy.check_json(&call, "/nonexistent/work").unwrap();
        prop_assert!(!verdict.reason.is_empty() && verdict.part.is_some());
    }
}
