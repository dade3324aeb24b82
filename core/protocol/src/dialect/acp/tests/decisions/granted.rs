//! Commands and writes through the program, if only the default asks.

use super::*;

impl Decided {
    fn read_file(&mut self, path: &str, text: &str) {
        let params = json!({"sessionId": "s", "path": path});
        self.hear(&json!({"jsonrpc": "2.0", "id": "read", "method": "fs/read_text_file", "params": params}));
        let mut outputs = std::iter::from_fn(|| self.connection.poll_output());
        let key = outputs.find_map(|output| match output {
            Output::Ask { key, .. } => Some(key),
            _ => None,
        });
        self.connection.answer(key.expect("the handler"), &Answer::ReadFile(Some(text.to_owned())), self.now);
    }

    /// Sends a request for a file or a terminal. Returns what is asked: `approval`, the handler, or nothing.
    fn serve(&mut self, method: &str, params: Value) -> &'static str {
        self.number += 1;
        let params = merged(json!({"sessionId": "s"}), params);
        self.hear(&json!({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}));
        let outputs: Vec<_> = std::iter::from_fn(|| self.connection.poll_output()).collect();
        outputs.iter().fold("nothing", |found, output| match output {
            Output::Ask { request, .. } if matches!(**request, Event::ApprovalRequest(_)) => "approval",
            Output::Ask { .. } => "handler",
            _ => found,
        })
    }
}

#[test]
fn what_runs_or_writes_needs_an_approval() {
    let terminal = |params: Value| ("terminal/create", params);
    let write = |content: &str| ("fs/write_text_file", json!({"path": "/project/a", "content": content}));
    let make = json!({"kind": "execute", "rawInput": {"command": "make x"}});
    let in_folder = json!({"kind": "execute", "rawInput": {"command": "make x", "cwd": "sub"}});
    let words = json!({"kind": "execute", "rawInput": {"command": ["bash", "-lc", "make x"]}});
    let two = json!({"kind": "execute", "rawInput": {"command": "make x", "cmd": "make y"}});
    let appended = json!({"kind": "edit", "rawInput": {"path": "a", "content": "new", "mode": "append"}});
    let twice =
        json!({"kind": "edit", "content": [{"type": "diff", "path": "/project/a", "oldText": " ", "newText": "x"}]});
    let whole = json!({"kind": "edit", "rawInput": {"path": "a", "content": "new"}});
    let other_text = merged(
        json!({"rawInput": {"path": "b", "content": "new"}}),
        json!({"kind": "edit", "content": [{"type": "diff", "path": "/project/a", "oldText": "b", "newText": "x"}]}),
    );
    let same_text = merged(
        json!({"rawInput": {"file_path": "a", "old_string": "b", "new_string": "x"}}),
        json!({"kind": "edit", "content": [{"type": "diff", "path": "/project/a", "oldText": "b", "newText": "x"}]}),
    );
    let change =
        json!({"kind": "edit", "content": [{"type": "diff", "path": "/project/a", "oldText": "b", "newText": "x"}]});
    for (approved, (method, params), asked) in [
        (None, ("fs/read_text_file", json!({"path": "/project/a"})), "handler"),
        (None, terminal(json!({"command": "ls"})), "handler"),
        (None, terminal(json!({"command": "make x"})), "approval"),
        (None, write("new"), "approval"),
        (Some(&make), terminal(json!({"command": "make x"})), "handler"),
        (Some(&make), terminal(json!({"command": "make", "args": ["x"], "cwd": "/project"})), "handler"),
        (Some(&make), terminal(json!({"command": "/bin/sh", "args": ["-lc", "make x"]})), "handler"),
        (Some(&make), terminal(json!({"command": "make x", "env": [{"name": "CLAUDECODE", "value": "1"}]})), "handler"),
        (Some(&make), terminal(json!({"command": "make x", "env": [{"name": "PATH", "value": "/x"}]})), "approval"),
        (Some(&make), terminal(json!({"command": "make x", "cwd": "/project/sub"})), "approval"),
        (Some(&make), terminal(json!({"command": "make y"})), "approval"),
        (Some(&make), terminal(json!({"command": "/tmp/sh", "args": ["-lc", "make x"]})), "approval"),
        (Some(&make), write("new"), "approval"),
        (Some(&in_folder), terminal(json!({"command": "make x", "cwd": "/project/sub"})), "handler"),
        (Some(&in_folder), terminal(json!({"command": "make x"})), "approval"),
        // The description does not say the command.
        (Some(&words), terminal(json!({"command": "bash", "args": ["-lc", "make x"]})), "approval"),
        (Some(&two), terminal(json!({"command": "make y"})), "approval"),
        (Some(&appended), write("new"), "approval"),
        (Some(&change), write("x"), "approval"),
        (Some(&twice), write("a x c"), "approval"),
        (Some(&whole), write("new"), "handler"),
        (Some(&whole), write("other"), "approval"),
        (Some(&change), write("a x c"), "handler"),
        (Some(&same_text), write("a x c"), "handler"),
        // The arguments say something else than the change that is shown.
        (Some(&other_text), write("a x c"), "approval"),
        (Some(&change), write("a x c; more"), "approval"),
    ] {
        let about = format!("{approved:?} {method} {params}");
        let mut session = Decided::new();
        session.read_file("/project/a", "a b c");
        if let Some(approved) = approved {
            let key = session.asked(approved.clone());
            session.connection.answer(key, &Answer::Approval(Approval::Approve), session.now);
        }
        assert_eq!(session.serve(method, params.clone()), asked, "{about}");
        if asked == "handler" && approved.is_some() {
            assert_eq!(session.serve(method, params), "approval", "an approval counts once: {about}");
        }
    }
}

#[test]
fn rejection_ends_earlier_approval_of_same_command() {
    let make = json!({"kind": "execute", "rawInput": {"command": "make x"}});
    let mut session = Decided::new();
    for answer in [Approval::Approve, Approval::reject("no")] {
        let key = session.asked(make.clone());
        session.connection.answer(key, &Answer::Approval(answer), session.now);
    }
    assert_eq!(session.serve("terminal/create", json!({"command": "make x"})), "approval");
}

/// A rule that approves a call of another kind approves no command.
#[test]
fn approved_reading_covers_no_command() {
    let mut session = Decided::new();
    session.ask(json!({"title": "Read", "kind": "read", "rawInput": {"path": "a", "command": "make x"}}));
    assert_eq!(session.serve("terminal/create", json!({"command": "make x"})), "approval");
    session.ask(json!({"title": "Read", "kind": "read", "rawInput": {"path": "a", "content": "new"}}));
    assert_eq!(session.serve("fs/write_text_file", json!({"path": "/project/a", "content": "new"})), "approval");
}

#[test]
fn large_approval_covers_nothing() {
    let mut session = Decided::new();
    let large = "x".repeat((1 << 20) + 1);
    let key = session.asked(json!({"kind": "execute", "rawInput": {"command": large}}));
    session.connection.answer(key, &Answer::Approval(Approval::Approve), session.now);
    assert_eq!(session.serve("terminal/create", json!({"command": large})), "approval");
}

#[test]
fn approval_ends_with_its_turn() {
    let mut session = Decided::new();
    let key = session.asked(json!({"kind": "execute", "rawInput": {"command": "make x"}}));
    session.connection.answer(key, &Answer::Approval(Approval::Approve), session.now);
    session.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}}));
    assert_eq!(session.serve("terminal/create", json!({"command": "make x"})), "approval");
}
