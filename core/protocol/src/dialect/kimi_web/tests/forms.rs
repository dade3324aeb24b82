//! Requests and calls in several forms: ids as numbers, members that are null, and requests that cannot be read.

use super::*;

/// The calls that were sent, as the end of the path and the body.
fn sent(player: &mut Player) -> Vec<String> {
    let line = |line: &Value| {
        let method = line["method"].as_str().expect("a method");
        format!("{} {}", method.rsplit_once("session_0001/").map_or(method, |(_, end)| end), line["params"])
    };
    player.sent().iter().map(line).collect()
}

#[test]
fn unreadable_request_is_refused() {
    for (kind, payload, expected) in [
        ("question", json!({"question_id": "q", "questions": null}), vec!["questions/q:dismiss {}"]),
        ("question", json!({"question_id": 7, "questions": 5}), vec!["questions/7:dismiss {}"]),
        ("question", json!({"question_id": "q"}), vec!["questions/q:dismiss {}"]),
        ("question", json!({"question_id": "q", "questions": [{"id": "a"}]}), vec!["questions/q:dismiss {}"]),
        ("question", json!({"question_id": "q", "questions": [7]}), vec!["questions/q:dismiss {}"]),
        (
            "question",
            json!({"question_id": "q", "questions": [{"question": "Q", "options": {"a": 1}}]}),
            vec!["questions/q:dismiss {}"],
        ),
        (
            "question",
            json!({"question_id": "q", "questions": [{"question": "Q", "options": [{"label": []}]}]}),
            vec!["questions/q:dismiss {}"],
        ),
        ("question", json!({"question_id": null, "questions": null}), vec![]),
        (
            "approval",
            json!({"approval_id": "a", "tool_name": "Bash", "action": ["rm"]}),
            vec![r#"approvals/a {"decision":"rejected"}"#],
        ),
        (
            "approval",
            json!({"approval_id": 6, "tool_name": 7, "turn_id": 0}),
            vec![r#"approvals/6 {"decision":"rejected"}"#],
        ),
        (
            "approval",
            json!({"approval_id": "a", "tool_name": "Bash", "tool_call_id": ["c"]}),
            vec![r#"approvals/a {"decision":"rejected"}"#],
        ),
        ("approval", json!({"approval_id": [], "tool_name": "Bash"}), vec![]),
    ] {
        let mut player = Player::prompted();
        let kind = format!("event.{kind}.requested");
        player.frame(&kind, payload.clone());
        assert_eq!(sent(&mut player), expected, "{payload}");
        assert!(player.asked.is_empty(), "{payload}");
        let trace = player.trace();
        assert!(trace.len() == 1 && trace[0].starts_with(&format!("unreadable {kind}: ")), "{payload}: {trace:?}");
    }
}

#[test]
fn unreadable_request_with_open_id_rejects_both() {
    let mut player = Player::prompted();
    player.frame("event.approval.requested", json!({"approval_id": 6, "tool_call_id": "c", "tool_name": "Bash"}));
    assert_eq!(player.asked.len(), 1);
    player.frame("event.approval.requested", json!({"approval_id": 6, "tool_call_id": "c", "tool_name": ["Bash"]}));
    assert_eq!(sent(&mut player), [r#"approvals/6 {"decision":"rejected"}"#]);
    assert!(player.asked.is_empty());
}

#[test]
fn ids_of_approval_may_be_numbers() {
    let mut player = Player::prompted();
    player.frame("tool.call.started", json!({"turnId": 0, "toolCallId": 5, "name": "Bash", "args": {"command": "ls"}}));
    let request = json!({"approval_id": 6, "turn_id": "x", "tool_call_id": 5, "tool_name": "Bash", "action": null,
        "agent_id": null});
    player.frame("event.approval.requested", request);
    assert_eq!(player.trace(), [r#"call 5 Bash "{\"command\":\"ls\"}""#, r#"may Bash 6:  () {"command":"ls"}"#],);
    let (key, _) = player.asked.pop().expect("a request");
    player.connection.answer(key, &Answer::Approval(Approval::Approve), player.now);
    player.look();
    assert_eq!(sent(&mut player), [r#"approvals/6 {"decision":"approved"}"#]);
    player.frame("event.approval.resolved", json!({"approval_id": 6, "decision": "approved"}));
    assert_eq!(player.trace(), ["resolved 6 approve"]);
}

#[test]
fn questions_and_choices_need_no_ids() {
    let question = |more: Value| {
        let options = json!([{"id": "o1", "label": "Yes"}, {"id": "o2", "label": "No"}]);
        let mut question = json!({"id": "q_9", "question": "All?", "options": options});
        question.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        question
    };
    for (questions, asked, answer, body) in [
        (json!([question(json!({}))]), "All? [Yes, No]", "No", json!({"q_9": {"kind": "single", "option_id": "o2"}})),
        (
            json!([question(json!({"id": 3}))]),
            "All? [Yes, No]",
            "No",
            json!({"3": {"kind": "single", "option_id": "o2"}}),
        ),
        (
            json!([question(json!({"id": null}))]),
            "All? [Yes, No]",
            "No",
            json!({"q_0": {"kind": "single", "option_id": "o2"}}),
        ),
        (
            json!([question(
                json!({"options": [{"id": "o1"}, {"id": 2, "label": "No"}, {"id": null, "label": "Some"}]})
            )]),
            "All? [o1, No, Some]",
            "No",
            json!({"q_9": {"kind": "single", "option_id": 2}}),
        ),
        (
            json!([question(json!({"options": ["Yes", {"label": "No", "id": null}], "multi_select": "true"}))]),
            "All? [Yes, No]",
            "No",
            json!({"q_9": {"kind": "other", "text": "No"}}),
        ),
        (
            json!([question(json!({"options": null, "header": 7, "body": null}))]),
            "All? []",
            "Most",
            json!({"q_9": {"kind": "other", "text": "Most"}}),
        ),
        (json!(question(json!({}))), "All? [Yes, No]", "Yes", json!({"q_9": {"kind": "single", "option_id": "o1"}})),
        (json!("All?"), "All? []", "Yes", json!({"q_0": {"kind": "other", "text": "Yes"}})),
    ] {
        let mut player = Player::prompted();
        player.frame("event.question.requested", json!({"question_id": 8, "turn_id": 0, "questions": questions}));
        assert_eq!(player.trace(), [format!("which 8: {asked}")], "{questions}");
        let (key, _) = player.asked.pop().expect("a request");
        let answers = Answers::new().answer("All?", answer);
        player.connection.answer(key, &Answer::Question(Some(answers)), player.now);
        player.look();
        assert_eq!(sent(&mut player), [format!("questions/8 {}", json!({"answers": body}))], "{questions}");
    }
}

#[test]
fn choices_of_plan_need_no_description() {
    let mut player = Player::prompted();
    let options = json!([{"label": "A", "description": null}, "B", {"label": "C", "description": ["c"]}]);
    let display = json!({"kind": "plan_review", "plan": "P", "options": options});
    let request = json!({"approval_id": 1, "turn_id": 0, "tool_call_id": 2, "tool_name": "ExitPlanMode", "tool_input_display": display});
    player.frame("event.approval.requested", request);
    assert_eq!(player.trace().last().map(String::as_str), Some("which 1: Approve this plan [A, B, C, Reject]"));
}

#[test]
fn calls_with_numbers_as_ids_or_without_names() {
    let mut player = Player::prompted();
    player.frame("tool.call.delta", json!({"turnId": 0, "toolCallId": 8, "name": "Read", "argumentsPart": "{\"p"}));
    for (id, name) in
        [(json!(5), json!("Bash")), (json!("6"), Value::Null), (json!("7"), json!(7)), (json!(8), Value::Null)]
    {
        let started = json!({"turnId": 0, "toolCallId": id, "name": name, "args": {}});
        player.frame("tool.call.started", started);
        player.frame("tool.result", json!({"turnId": 0, "toolCallId": id, "output": "out"}));
    }
    assert_eq!(
        player.trace(),
        [
            r#"call 8 Read "{\"p""#,
            r#"call 5 Bash "{}""#,
            r#"result 5 Bash ok "out""#,
            r#"call 6  "{}""#,
            r#"result 6  ok "out""#,
            r#"call 7  "{}""#,
            r#"result 7  ok "out""#,
            r#"call 8 Read "{}""#,
            r#"result 8 Read ok "out""#,
        ]
    );
}
