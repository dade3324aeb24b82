//! Requests for a permission that offer a choice, and messages with a member twice.

use super::*;

#[test]
fn choice_of_options_is_judged_as_an_approval() {
    let command = |command: &str| json!({"kind": "execute", "rawInput": {"command": command}});
    for kinds in [
        ["allow_once", "allow_once", "reject_once"],
        ["allow_once", "reject_once", "reject_once"],
        ["allow_twice", "allow_once", "later"],
    ] {
        let mut session = Decided::new();
        let (seen, body) = session.choose(command("rm -rf ~"), kinds);
        assert_eq!(seen.decision.map(|(outcome, _)| outcome.as_str().to_owned()).as_deref(), Some("deny"), "{kinds:?}");
        assert_ne!(seen.selected.as_deref(), Some("allow_once"), "{kinds:?}");
        assert_eq!(body, None, "{kinds:?}");
        let (seen, body) = session.choose(merged(command("git push"), json!({"toolCallId": "u"})), kinds);
        assert_eq!(seen.decision.map(|(outcome, _)| outcome.as_str().to_owned()).as_deref(), Some("ask"), "{kinds:?}");
        assert!(body.is_some_and(|body| body.contains("git push")), "{kinds:?}");
    }
}

#[test]
fn option_of_unknown_kind_is_beside_an_approval() {
    let mut session = Decided::new();
    let (seen, body) = session.choose(
        json!({"kind": "execute", "rawInput": {"command": "ls"}}),
        ["allow_once", "allow_persistent", "reject_once"],
    );
    assert_eq!((seen.selected.as_deref(), body), (Some("allow_once"), None));
}

#[test]
fn choice_about_a_call_that_changes_is_rejected() {
    let kinds = ["allow_once", "allow_once", "reject_once"];
    for (change, chosen) in [(json!({}), "1"), (json!({"rawInput": {"command": "rm x"}}), "2")] {
        let mut session = Decided::new();
        session.number += 1;
        let option =
            |(at, kind): (usize, &&str)| json!({"optionId": at.to_string(), "name": at.to_string(), "kind": kind});
        let options: Vec<_> = kinds.iter().enumerate().map(option).collect();
        let call = json!({"toolCallId": "t", "title": "Go?", "kind": "execute", "rawInput": {"command": "make"}});
        let params = json!({"sessionId": "s", "options": options, "toolCall": call});
        session.hear(&json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}));
        let outputs: Vec<_> = std::iter::from_fn(|| session.connection.poll_output()).collect();
        let key = outputs.iter().find_map(|output| match output {
            Output::Ask { key, .. } => Some(*key),
            _ => None,
        });
        session.update(merged(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"}), change));
        session.seen();
        let answers = crate::answers::Answers::new().answer("Go?", "1");
        session.connection.answer(key.expect("a question"), &Answer::Question(Some(answers)), session.now);
        assert_eq!(session.seen().selected.as_deref(), Some(chosen));
    }
}

#[test]
fn question_has_title_of_call() {
    for (asked, expected) in
        [(json!({}), "Which way?"), (json!({"title": ""}), "Which way?"), (json!({"title": "Go?"}), "Go?")]
    {
        let mut session = Decided::new();
        session
            .update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Which way?", "kind": "execute",
            "rawInput": {"command": "make"}}));
        let option = |id: &str| json!({"optionId": id, "name": id, "kind": "allow_once"});
        let call = merged(json!({"toolCallId": "t"}), asked);
        let params = json!({"sessionId": "s", "options": [option("a"), option("b")], "toolCall": call});
        session.hear(&json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}));
        let mut outputs = std::iter::from_fn(|| session.connection.poll_output());
        let question = outputs.find_map(|output| match output {
            Output::Ask { request, .. } => match *request {
                Event::QuestionRequest(request) => Some(request.questions[0].question.clone()),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(question.as_deref(), Some(expected));
    }
}

/// Programs differ in which of two members with one name they take.
#[test]
fn repeated_members_are_not_allowed_by_a_rule() {
    let params = |call: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{call},"options":[
            {{"optionId":"once","name":"once","kind":"allow_once"}},{{"optionId":"no","name":"no","kind":"reject_once"}}]}}}}"#
        )
        .replace('\n', "")
    };
    for (call, decision) in [
        (r#"{"toolCallId":"t","kind":"execute","rawInput":{"command":"ls"}}"#, "allow"),
        (r#"{"toolCallId":"t","kind":"execute","rawInput":{"command":"git push","command":"ls"}}"#, "ask"),
        (r#"{"toolCallId":"t","kind":"execute","rawInput":{"command":"ls","a":[{"b":1,"b":2}]}}"#, "ask"),
        (r#"{"toolCallId":"t","kind":"execute","rawInput":{"command":"git push"},"rawInput":{"command":"ls"}}"#, "ask"),
    ] {
        let mut session = Decided::new();
        session.seen();
        session.connection.handle_line(params(call).as_bytes(), session.now);
        let seen = session.seen();
        assert_eq!(seen.decision.expect("a decision").0.as_str(), decision, "{call}");
    }
}

/// The members are not those of the arguments.
#[test]
fn repeated_members_of_message() {
    let options =
        r#"[{"optionId":"once","name":"once","kind":"allow_once"},{"optionId":"no","name":"no","kind":"reject_once"}]"#;
    let call = |command: &str| format!(r#"{{"toolCallId":"t","kind":"execute","rawInput":{{"command":"{command}"}}}}"#);
    let params = |command: &str| format!(r#"{{"sessionId":"s","toolCall":{},"options":{options}}}"#, call(command));
    let request =
        |params: &str| format!(r#"{{"jsonrpc":"2.0","id":9,"method":"session/request_permission",{params}}}"#);
    let announced = |more: &str| {
        let call = format!(
            r#""sessionUpdate":"tool_call","toolCallId":"t","title":"Bash",{more}"rawInput":{{"command":"ls"}}"#
        );
        format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{{call}}}}}}}"#)
    };
    let plain = request(&format!(r#""params":{}"#, params("ls")));
    for (lines, decision) in [
        (vec![plain.clone()], "allow"),
        (vec![request(&format!(r#""params":{},"params":{}"#, params("git push"), params("ls")))], "ask"),
        (vec![request(&format!(r#""id":8,"params":{}"#, params("ls")))], "ask"),
        (vec![announced(r#""kind":"execute","#), plain.clone()], "allow"),
        (vec![announced(r#""kind":"delete","kind":"execute","#), plain.clone()], "ask"),
        (vec![announced(r#""kind":"execute","#).replace(r#""params":"#, r#""params":{},"params":"#), plain], "ask"),
    ] {
        let mut session = Decided::new();
        session.seen();
        lines.iter().for_each(|line| session.connection.handle_line(line.as_bytes(), session.now));
        let (outcome, call) = session.seen().decision.expect("a decision");
        assert_eq!(outcome.as_str(), decision, "{lines:?}");
        assert_eq!(call.changed, (decision == "ask").then_some(true), "{lines:?}");
    }
}
