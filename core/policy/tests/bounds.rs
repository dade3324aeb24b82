//! Large and malformed input: rules, files and calls.

#![allow(clippy::unwrap_used, reason = "a test")]

use kimi_agent_policy::{Decision, Policy};
use serde_json::{Value, json};

fn policy() -> Policy {
    let rules = json!({
        "deny": ["execute(rm *)", "read(**/.env*)", "fetch(169.254.169.254)", "mcp(github/delete_*)", "edit(secrets/**)"],
        "ask": ["execute(git push *)"],
        "allow": ["execute(xargs *)", "execute(echo *)", "read(**)", "edit(src/**)", "fetch(a.example)"],
    });
    Policy::from_value(&rules).unwrap()
}

/// The worst text of each parser, of about 16 KB: `tests/limits/inputs` counts what longer ones take.
fn large_texts() -> Vec<String> {
    [
        "(", "((", "$(", "a a ", "'", "\"", "\"$(", "xargs ", "env ", "a=b ", "a;", "a|", "{ ", "if ", "`", "\\\n",
        "\n", "<<'E'\n", "a>b ", "*", "**/", "[", "{a,", "../", "/", "a/", "://", "http://a", "@", "%41", ".", "0x",
        "\u{200b}", "é", "-a ", "$x", "x__", "mcp__a", "--- a\n", "# ",
    ]
    .iter()
    .map(|piece| piece.repeat((1 << 14) / piece.len()))
    .collect()
}

#[test]
fn large_commands_are_decided() {
    let policy = policy();
    for text in large_texts() {
        for text in [&format!("xargs {text}"), &format!("sh -c '{text}'"), &text] {
            let call = json!({"name": "Shell", "arguments": {"command": text}});
            assert!(!policy.check_json(&call, "/").unwrap().reason.is_empty());
        }
    }
}

#[test]
fn large_calls_are_decided() {
    let policy = policy();
    for text in &large_texts() {
        for (name, arguments) in [
            ("ReadFile", json!({ "path": text })),
            ("Grep", json!({ "pattern": text, "glob": text })),
            ("FetchURL", json!({ "url": text })),
            ("apply_patch", json!({ "input": text })),
            (&**text, json!({ "x": text })),
            ("other", json!({ "command": text, "path": text, "url": text })),
        ] {
            let verdict = policy.check_json(&json!({"name": name, "arguments": arguments}), "/").unwrap();
            assert!(!verdict.reason.is_empty());
        }
    }
}

#[test]
fn call_with_long_name_is_denied() {
    let call = json!({"name": "x".repeat((64 << 10) + 1), "arguments": {"command": "ls"}});
    let verdict = policy().check_json(&call, "/").unwrap();
    assert_eq!(verdict.decision.as_str(), "deny");
    assert!(verdict.reason.len() + verdict.part.unwrap_or_default().len() < 2000);
}

#[test]
fn call_with_many_values_is_not_allowed() {
    let policy = policy();
    let mut deep = json!({ "path": "other/a" });
    for _ in 0..50 {
        deep = json!({ "edits": [deep] });
    }
    let many: Vec<String> = (0..100_000).map(|n| format!("src/{n}")).collect();
    for arguments in [
        json!({ "paths": many }),
        json!({ "path": "src/a", "edits": deep }),
        json!({ "edits": many.iter().map(|path| json!({"path": path})).collect::<Vec<_>>() }),
    ] {
        let verdict = policy.check_json(&json!({"name": "Edit", "arguments": arguments}), "/work").unwrap();
        assert_ne!(verdict.decision, Decision::Allow);
    }
}

/// What is allowed at the beginning hides nothing behind the limits.
#[test]
fn targets_behind_limits_are_not_allowed() {
    let rules = json!({
        "deny": ["edit(secrets/**)", "fetch(evil.example)"],
        "allow": ["edit(src/**)", "fetch(a.example)", "execute(cat src/*)", "read(src/**)"],
    });
    let policy = Policy::from_value(&rules).unwrap();
    let lines = |line: &str, times: usize| (0..times).map(|n| line.replace('#', &n.to_string())).collect::<String>();
    let list = |item: &str, times: usize, last: &str| {
        let items = (0..times).map(|n| item.replace('#', &n.to_string()));
        items.chain([last.to_owned()]).collect::<Vec<_>>()
    };
    for (name, small, large) in [
        (
            "apply_patch",
            json!({"input": lines("*** Add File: src/#\n+x\n", 9)}),
            json!({"input": lines("*** Add File: src/#\n+x\n", 300) + "*** Add File: secrets/x\n"}),
        ),
        (
            "patch",
            json!({"patch": lines("--- a/src/#\n+++ b/src/#\n", 9)}),
            json!({"patch": lines("--- a/src/#\n+++ b/src/#\n", 300) + "--- a/secrets/x\n+++ b/secrets/x\n"}),
        ),
        ("Edit", json!({"paths": list("src/#", 9, "src/x")}), json!({"paths": list("src/#", 9000, "secrets/x")})),
        (
            "FetchURL",
            json!({"url": "https://a.example/", "content": list("#", 9, "x")}),
            json!({"url": "https://a.example/", "content": [["https://evil.example/"], list("#", 30_000, "x")]}),
        ),
        (
            "Shell",
            json!({"command": lines("cat src/#;", 9)}),
            json!({"command": lines("cat src/#;", 3000) + "rm -rf secrets"}),
        ),
    ] {
        let decide =
            |arguments: Value| policy.check_json(&json!({"name": name, "arguments": arguments}), "/w").unwrap();
        let verdict = decide(small);
        assert_eq!(verdict.decision, Decision::Allow, "{name}: {}", verdict.reason);
        assert_ne!(decide(large).decision, Decision::Allow, "{name}");
    }
}

/// `tests/limits/inputs` counts what the decisions take.
#[test]
fn thousand_rules_are_an_index() {
    let shell = |command: &str| json!({"name": "Shell", "arguments": {"command": command}});
    let file = |name: &str, path: &str| json!({"name": name, "arguments": {"path": path}});
    let fetch = |url: &str| json!({"name": "FetchURL", "arguments": {"url": url}});
    let tool = |name: &str| json!({"name": name, "arguments": {"id": 1}});
    let glob = |pattern: &str| json!({"name": "Glob", "arguments": {"pattern": pattern}});
    for (rule, other, calls) in [
        ("execute(program# *)", "execute(ls *)", [shell("program1999 x"), shell("ls src; $X"), shell("ls src")]),
        (
            "execute(git push b#)",
            "execute(git log *)",
            [shell("git push b1999"), shell("git push $X"), shell("git log")],
        ),
        ("execute(git -c o#)", "execute(git log)", [shell("git -c o1999 x"), shell("git $X"), shell("git log")]),
        (
            "execute(git --option# *)",
            "execute(git log)",
            [shell("git --option1999 x"), shell("git $X"), shell("git log")],
        ),
        ("execute(tool#-* *)", "execute(ls *)", [shell("tool1999-x"), shell("$X"), shell("ls a")]),
        ("edit(pkg/p#/**)", "edit(src/**)", [file("Edit", "pkg/p1999/a"), file("Edit", "$X/a"), file("Edit", "src/a")]),
        (
            "edit(pkg/p#/**)",
            "delete(src/*)",
            [file("delete_file", "."), file("delete_file", "*"), file("delete_file", "src/a")],
        ),
        ("read(**/s#-*)", "read(src/**)", [file("Read", "s1999-x"), file("Read", "$X"), file("Read", "src/a")]),
        ("read(f#/a.txt)", "search(**)", [file("Read", "f1999/a.txt"), glob("f19*/*.txt"), glob("**/*.py")]),
        (
            "fetch(*.h#.example)",
            "fetch(a.example)",
            [fetch("http://x.h1999.example"), fetch("http://h1000@x/"), fetch("http://a.example/")],
        ),
        ("mcp(server#/*)", "mcp(a/b)", [tool("mcp__server1999__x"), tool("convert"), tool("mcp__a__b")]),
        (
            "mcp(server#/get)",
            "mcp(a/b)",
            [tool("mcp__server1999__get"), json!({"name": "get", "kind": "mcp", "arguments": {}}), tool("mcp__a__b")],
        ),
        (
            "mcp(github/get_#_*)",
            "mcp(a/b)",
            [tool("mcp__github__get_1999_x"), json!({"name": "x (get_1999_x)"}), tool("mcp__a__b")],
        ),
        ("mcp__s#x__*", "mcp(a/b)", [tool("mcp__s1999x__get"), json!({"name": "a s1999x get"}), tool("mcp__a__b")]),
        ("tool_#_*", "mcp(a/b)", [tool("tool_1999_x"), json!({"name": "rm", "kind": "execute"}), tool("mcp__a__b")]),
    ] {
        let deny: Vec<String> = (1000..2000).map(|n| rule.replace('#', &n.to_string())).collect();
        let policy = Policy::from_value(&json!({"deny": deny, "allow": [other]})).unwrap();
        let decisions = calls.map(|call| policy.check_json(&call, "/work").unwrap().decision);
        assert_eq!(decisions, [Decision::Deny, Decision::Ask, Decision::Allow], "{rule}");
        assert_eq!(policy.warnings(), [] as [&str; 0], "{rule}");
    }
}

/// `tests/limits/inputs` counts what the decisions take. Few sets are compared, many are denied.
#[test]
fn sets_in_braces_share_the_work() {
    let policy = Policy::preset("read-only").unwrap();
    let set = "{aaaaaaaaaa,bbbbbbbbbbb}{cccccccc,dddddddddd}{eeeeeeeeee,ffffffffff}{gggggggggg,hhhhhhhhhhhhh}{i,jj}";
    let decide = |call: Value| policy.check_json(&call, "/work").unwrap();
    for shape in [set, "{*a,*b}{*c,*d}{*e,*f}{*g,*h}{*i,*j}", "{a,b}/**/{c,d}/**/{e,f}/**/{g,h}/**/{i,j}/"] {
        let paths = |count: usize| (0..count).map(|number| format!("{shape}{number}")).collect::<Vec<_>>();
        let few = decide(json!({"name": "ReadFile", "arguments": {"paths": paths(2)}}));
        assert!(few.decision != Decision::Deny || shape != set, "{few:?}");
        let words = paths(100).join("' '");
        for call in [
            json!({"name": "ReadFile", "arguments": {"paths": paths(390)}}),
            json!({"name": "ReadFile", "arguments": {"path": "a"}, "locations": paths(190)}),
            json!({"name": "Shell", "arguments": {"command": format!("cat '{words}'; rg -g '{words}'")}}),
        ] {
            let verdict = decide(call);
            assert_ne!(verdict.decision, Decision::Allow, "{shape}");
            let is_cut = verdict.reason.contains("too many parts") && verdict.decision == Decision::Deny;
            assert!(is_cut || !shape.contains("**"), "{verdict:?}");
        }
    }
}

/// Each search for a name looks at folders of the disk.
#[test]
fn many_searches_ask() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::from_value(&json!({"deny": ["read(secrets/**)"], "allow": ["search(**)"]})).unwrap();
    let decide = |count: usize| {
        let globs: Vec<_> = (0..count).map(|number| format!("**/name{number}")).collect();
        policy.check_json(&json!({"name": "Glob", "arguments": {"patterns": globs}}), dir.path()).unwrap()
    };
    assert_eq!(decide(2).decision, Decision::Allow, "{:?}", decide(2));
    let verdict = decide(50);
    assert_eq!(verdict.decision, Decision::Ask, "{verdict:?}");
    assert!(verdict.reason.contains("too many names"), "{verdict:?}");
}

#[test]
fn comparison_of_rules_is_bounded() {
    let allow: Vec<String> = (10_000..15_000).map(|n| format!("execute(* --option{n})")).collect();
    let policy = Policy::from_value(&json!({ "allow": allow })).unwrap();
    let [warning] = policy.warnings() else { panic!("{} warnings", policy.warnings().len()) };
    assert!(warning.contains("rules were not compared with the others"), "{warning}");
}

/// Tests of the packages play this table, too.
fn malformed() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/policy/malformed.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn malformed_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for file in malformed()["files"].as_array().unwrap() {
        let bytes = match file["hex"].as_str() {
            Some(hex) => {
                let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                (0..hex.len()).step_by(2).map(byte).collect()
            }
            None => file["repeat"].as_str().unwrap().repeat(file["times"].as_u64().unwrap() as usize).into_bytes(),
        };
        let path = dir.path().join(file["name"].as_str().unwrap());
        std::fs::write(&path, bytes).unwrap();
        let error = Policy::load(&path).map(drop).map_err(|error| error.to_string());
        match file["error"].as_str() {
            Some(text) => assert!(error.as_ref().is_err_and(|error| error.contains(text)), "{file} {error:?}"),
            None => assert!(error.is_ok(), "{file} {error:?}"),
        }
    }
    assert!(Policy::load(dir.path()).is_err());
}

#[test]
fn call_of_megabytes_is_decided() {
    let table = malformed();
    let policy = Policy::from_value(&table["policy"]).unwrap();
    for call in table["calls"].as_array().unwrap() {
        let [name, argument, piece] = ["name", "argument", "piece"].map(|key| call[key].as_str().unwrap());
        let text = piece.repeat((2 << 20) / piece.len());
        let verdict = policy.check_json(&json!({"name": name, "arguments": {argument: text}}), "/").unwrap();
        assert_eq!(verdict.decision.as_str(), call["expect"], "{call}: {}", verdict.reason);
    }
}

#[test]
fn rule_set_with_too_much_is_an_error() {
    let many: Vec<&str> = vec!["read"; 20_001];
    assert!(Policy::from_value(&json!({ "allow": many })).unwrap_err().to_string().contains("at most 20000 rules"));
    let long = format!("read({})", "a".repeat(10_000));
    assert!(Policy::from_value(&json!({ "allow": [long] })).unwrap_err().to_string().contains("longer than"));
    assert!(Policy::from_value(&json!({ "allow": [format!("read({})", "{a,".repeat(9) + &"}".repeat(9))] })).is_err());
    assert!(Policy::from_value(&json!({ "allow": ["read(a\u{0})"] })).unwrap_err().to_string().contains("control"));
}

#[test]
fn presets_allow_reading_forms_alone() {
    let decide = |preset: &str, call: Value| Policy::preset(preset).unwrap().check_json(&call, "/work").unwrap();
    let shell = |command: &str| json!({"name": "Shell", "arguments": {"command": command}});
    for command in [
        "ls",
        "ls -la src",
        "cat src/a.py",
        "git status",
        "git log --oneline -5",
        "git diff HEAD~1",
        "rg -n foo src",
        "find . -name a.py",
        "grep -n foo src/a.py",
        "head -n 5 README.md",
        "git show HEAD",
        "ls | wc -l",
        "cd src && ls",
        "git branch",
        "sed -n p x",
        "git grep x",
        "test -f x",
    ] {
        for preset in ["read-only", "edit-files"] {
            let verdict = decide(preset, shell(command));
            assert_eq!(verdict.decision, Decision::Allow, "{preset} {command}: {}", verdict.reason);
        }
    }
    for command in [
        "cat /etc/passwd",
        "cat ../x",
        "cat ~/.ssh/id_rsa",
        "cat .env",
        "cat src/.env.local",
        "cat id_rsa",
        "head -c5 /etc/passwd",
        "git diff --output=x",
        "git log --output x",
        "git -c a=b log",
        "git diff --no-index /etc/passwd x",
        "git diff --ext-diff",
        "git log --outp=x",
        "git grep -O./evil x",
        "git branch -D main",
        "git tag x",
        "git show HEAD:.env",
        "git --exec-path=x status",
        "git -C / status",
        "find . -delete",
        "find . -exec rm {} +",
        "find / -name x",
        "find . -fprint x",
        "fd -Hx rm",
        "fd -x rm",
        "rg --pre x y",
        "rg --hidden x",
        "rg -uu x",
        "rg -g .env x",
        "rg -g.env x",
        "rg --hostname-bin x y",
        "grep -r x .",
        "grep -rn x",
        "grep -f .env x",
        "sort -o x y",
        "sort --compress-program=x y",
        "sed -i s/a/b/ x",
        "sed -n 'w y' x",
        "tar xf x",
        "awk '{print}' x",
        "less x",
        "man x",
        "xargs ls",
        "curl x",
        "rm x",
        "mv a b",
        "cp a b",
        "ls > x",
        "echo x > x",
        "cat < /etc/passwd",
        "cat $X",
        "cat *",
        "X=1 ls",
        "ls &>/dev/null rm -rf x",
        "sh -c ls",
        "env ls",
        "python x",
        "export X=1",
        "cd / && ls",
        "cd .. && cat x",
        "diff -r a b",
        "tail -f x",
        "tree -o x",
        "date -s 0",
        "jq -f x y",
        "ls `id`",
        "ls $(id)",
        "for x in a; do ls; done",
        "cat -- /etc/passwd",
        "cat -n/etc/passwd",
        "git diff -Ox",
        "git log -p --textconv",
        "rg x --no-ignore",
        "rg -.x y",
        "find -L . -name x",
        "file -m x y",
        "wc --files0-from=x",
        "git config x y",
    ] {
        // An edit of a file of the project is allowed, also by a redirection.
        let presets =
            if matches!(command, "ls > x" | "echo x > x") { &["read-only"][..] } else { &["read-only", "edit-files"] };
        for preset in presets {
            let verdict = decide(preset, shell(command));
            assert_ne!(verdict.decision, Decision::Allow, "{preset} {command}: {}", verdict.reason);
        }
    }
    for (preset, name, arguments, expected) in [
        ("read-only", "ReadFile", json!({"path": "src/a.py"}), Decision::Allow),
        ("read-only", "Grep", json!({"pattern": "x", "path": "src"}), Decision::Allow),
        ("read-only", "ReadFile", json!({"path": ".env"}), Decision::Deny),
        ("read-only", "Grep", json!({"pattern": "x", "glob": ".env"}), Decision::Deny),
        ("read-only", "ReadFile", json!({"path": "/etc/passwd"}), Decision::Ask),
        ("read-only", "WriteFile", json!({"path": "src/a.py", "content": ""}), Decision::Ask),
        ("edit-files", "WriteFile", json!({"path": "src/a.py", "content": ""}), Decision::Allow),
        ("edit-files", "WriteFile", json!({"path": "../a.py", "content": ""}), Decision::Ask),
        ("edit-files", "WriteFile", json!({"path": ".git/config", "content": ""}), Decision::Deny),
        ("edit-files", "WriteFile", json!({"path": "src/.gitconfig", "content": ""}), Decision::Deny),
        ("edit-files", "delete_file", json!({"path": "src/a.py"}), Decision::Ask),
        ("read-only", "FetchURL", json!({"url": "https://a.example"}), Decision::Ask),
        ("read-only", "mcp__a__b", json!({}), Decision::Ask),
    ] {
        let verdict = decide(preset, json!({"name": name, "arguments": arguments}));
        assert_eq!(verdict.decision, expected, "{preset} {name} {arguments}: {}", verdict.reason);
    }
}
