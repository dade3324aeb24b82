//! Changes of a call while the program decides about it.

use super::*;

#[test]
fn approval_of_changed_call_is_not_sent() {
    let diff = |text: &str| json!({"content": [{"type": "diff", "path": "/w/a", "oldText": "", "newText": text}]});
    let places = |path: &str| json!({"locations": [{"path": path}]});
    for (asked, later, selected) in [
        (json!({}), json!({"kind": "edit"}), "no"),
        (json!({}), places("/etc/passwd"), "no"),
        (json!({}), diff("x"), "no"),
        (diff("x"), diff("y"), "no"),
        (json!({}), json!({"rawInput": {"path": "/w/b"}}), "no"),
        (json!({}), json!({"title": "Searching"}), "once"),
        (json!({}), places("/w/b"), "no"),
        (json!({}), places("/w/a"), "once"),
        (places("/w/b"), places("/w/b"), "once"),
        (diff("x"), diff("x"), "once"),
        (json!({}), json!({"rawInput": {"path": "/w/a"}, "kind": "search", "status": "in_progress"}), "once"),
    ] {
        let mut session = Decided::new();
        session.call(json!({"kind": "search", "rawInput": {"path": "/w/a"}}));
        let key = session.asked(asked.clone());
        session.update(merged(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"}), later.clone()));
        session.connection.answer(key, &Answer::Approval(Approval::Approve), session.now);
        assert_eq!(session.seen().selected.as_deref(), Some(selected), "{asked} {later}");
    }
}

/// What the agent says at the end can be what it said at first.
#[test]
fn approval_of_replaced_description_is_not_sent() {
    let text = |text: &str| json!({"content": [{"type": "content", "content": {"type": "text", "text": text}}]});
    for (asked, later, selected) in [
        (json!({"title": "ls -l"}), vec![json!({"title": "rm -rf /"})], "no"),
        (json!({"title": "ls -l"}), vec![json!({"title": "ls -l"})], "once"),
        (json!({"title": "ls -l"}), vec![text("$ rm -rf /")], "no"),
        (json!({"rawInput": {"command": "foo"}}), vec![json!({"name": "mcp__evil__x"})], "no"),
        (
            json!({"rawInput": {"command": "foo"}}),
            vec![json!({"rawInput": {"command": "bar"}}), json!({"rawInput": {"command": "foo"}})],
            "no",
        ),
        (json!({"rawInput": {"command": "foo"}}), vec![json!({"kind": "delete"}), json!({"kind": "execute"})], "no"),
        // A title of a known command explains it.
        (json!({"rawInput": {"command": "foo"}}), vec![json!({"title": "Build"}), text("building")], "once"),
    ] {
        let mut session = Decided::new();
        let key = session.asked(merged(json!({"kind": "execute"}), asked.clone()));
        for fields in &later {
            session.update(merged(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"}), fields.clone()));
        }
        session.connection.answer(key, &Answer::Approval(Approval::Approve), session.now);
        assert_eq!(session.seen().selected.as_deref(), Some(selected), "{asked} {later:?}");
    }
}

#[test]
fn approval_of_changed_call_is_rejected() {
    for (before, after, selected) in [
        (json!({"rawInput": {"command": "git"}}), json!({"rawInput": {"command": "git push"}}), "no"),
        (json!({"rawInput": {"command": "git"}}), json!({"rawInput": {"command": "rm x"}}), "no"),
        (json!({}), json!({"rawInput": {"command": "rm x"}}), "no"),
        (json!({}), json!({"rawInput": {"command": "git"}}), "no"),
        (json!({"rawInput": {"command": "git"}}), json!({"locations": [{"path": "/etc/passwd"}]}), "no"),
        (json!({"rawInput": {"command": "git"}}), json!({"locations": [{"path": "/project/a"}]}), "no"),
        (json!({"rawInput": {"command": "git"}}), json!({"rawInput": {"command": "git"}, "status": "pending"}), "once"),
    ] {
        let mut session = Decided::new();
        session.call(before.clone());
        let asked = session.asked(before.clone());
        session.update(merged(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"}), after.clone()));
        session.connection.answer(asked, &Answer::Approval(Approval::Approve), session.now);
        assert_eq!(session.seen().selected.as_deref(), Some(selected), "{before} {after}");
    }
}

/// Asks about a call that the agent has announced as `before`, describes it as `later`, and approves. Returns the selected option
/// with rules and without them.
fn approved(before: &Value, asked: &Value, later: &[Value]) -> [Option<String>; 2] {
    [Decided::new(), Decided::with(None)].map(|mut session| {
        if !before.is_null() {
            session.update(merged(json!({"sessionUpdate": "tool_call", "toolCallId": "t"}), before.clone()));
        }
        let key = session.asked(asked.clone());
        for fields in later {
            session.update(merged(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"}), fields.clone()));
        }
        session.connection.answer(key, &Answer::Approval(Approval::Approve), session.now);
        session.seen().selected
    })
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "content", "content": {"type": "text", "text": text}}]})
}

fn diff(path: &str, text: &str) -> Value {
    json!({"content": [{"type": "diff", "path": path, "oldText": "", "newText": text}]})
}

#[test]
fn approval_of_replaced_texts_is_not_sent() {
    let titled = |title: &str| json!({"title": title});
    let x = |fields: Value| merged(titled("x"), fields);
    let none = Value::Null;
    for (before, asked, later, selected) in [
        (&none, titled("make"), vec![titled("rm x")], "no"),
        (&none, titled("make"), vec![titled("rm x"), titled("make")], "no"),
        (&none, titled("make"), vec![titled("make")], "once"),
        (&none, titled("make"), vec![json!({"status": "pending"})], "once"),
        (&none, x(text("make")), vec![text("rm x")], "no"),
        (&none, x(text("make")), vec![text("make")], "once"),
        (&x(text("make")), json!({}), vec![text("rm x")], "no"),
        (&x(text("make")), json!({}), vec![text("make")], "once"),
        // The request has shown another title than the announcement.
        (&titled("git x"), titled("make"), vec![titled("git x")], "no"),
        (&none, x(diff("/w/a", "b")), vec![diff("/w/a", "c")], "no"),
        (&none, x(diff("/w/a", "b")), vec![diff("/w/b", "b")], "no"),
        (&none, titled("x"), vec![json!({"kind": "delete"})], "no"),
        (&none, x(json!({"kind": "other"})), vec![json!({"kind": "execute"})], "no"),
        (&none, titled("x"), vec![json!({"kind": "search"})], "once"),
    ] {
        let expected = Some(selected.to_owned());
        assert_eq!(approved(before, &asked, &later), [expected.clone(), expected], "{before} {asked} {later:?}");
    }
}

#[test]
fn approval_of_late_arguments() {
    let command = |command: &str| json!({"rawInput": {"command": command}});
    let bash = json!({"title": "Bash", "kind": "execute"});
    let running = merged(bash.clone(), text("Requesting approval to Running: foo 1"));
    let edit = |more: Value| merged(json!({"title": "Edit", "kind": "edit"}), more);
    let write = |path: &str, content: &str| json!({"rawInput": {"path": path, "content": content}});
    let none = Value::Null;
    for (before, asked, later, selected) in [
        (&none, bash.clone(), command("foo"), "no"),
        (&bash, json!({}), command("foo"), "no"),
        (&bash, json!({"rawInput": {}}), command("foo"), "no"),
        (&none, running.clone(), command("foo 1"), "once"),
        (&none, running.clone(), command("foo 2"), "no"),
        (&none, merged(bash.clone(), text("Run foo")), json!({"rawInput": {"words": ["foo"]}}), "no"),
        (&none, edit(diff("/w/a", "b")), write("a", "b"), "once"),
        (&none, edit(diff("/w/a", "b")), write("a", "c"), "no"),
        (&none, edit(diff("/w/a", "b")), write("/w/b", "b"), "no"),
        (&none, edit(diff("/w/a", "b")), command("foo"), "no"),
    ] {
        let expected = Some(selected.to_owned());
        assert_eq!(
            approved(before, &asked, std::slice::from_ref(&later)),
            [expected.clone(), expected],
            "{before} {asked} {later}"
        );
    }
}
