//! What no recording has: races between calls and frames, uploads, skills, replays, and frames that are not as they should
//! be.

use super::*;
use crate::messages::{Content, ContentPart};

mod approvals;
mod replays;

const PATH: &str = "/api/v1/sessions/session_0001";

fn image(bytes: usize) -> ContentPart {
    ContentPart::image_url(format!("data:image/png;base64,{}", "A".repeat(bytes)))
}

#[test]
fn large_images_are_uploaded_before_prompt() {
    let mut player = Player::open();
    let input = Content::from(vec![ContentPart::text("see"), image(100), image(2 << 20), image(3 << 20)]);
    player.connection.prompt(1, input, player.now);
    player.look();
    let sent = player.sent();
    assert_eq!(sent.len(), 2);
    for (upload, name) in sent.iter().zip(["3.png", "4.png"]) {
        assert_eq!(upload["method"], "UPLOAD /api/v1/files");
        assert_eq!((&upload["params"]["media_type"], &upload["params"]["name"]), (&json!("image/png"), &json!(name)));
    }
    // In any order.
    player.answer(&sent[1], json!({"id": "f2"}));
    assert!(player.sent().is_empty());
    player.answer(&sent[0], json!({"id": "f1"}));
    let sent = player.sent();
    assert_eq!(sent[0]["method"], format!("POST {PATH}/prompts"));
    let file = |id: &str| json!({"type": "image", "source": {"kind": "file", "file_id": id}});
    let small = json!({"kind": "base64", "media_type": "image/png", "data": "A".repeat(100)});
    assert_eq!(
        sent[0]["params"],
        json!({"prompt_id": "p-1", "content": [
            {"type": "text", "text": "see"}, {"type": "image", "source": small}, file("f1"), file("f2")]})
    );
}

#[test]
fn failed_upload_fails_prompt() {
    let upload = || {
        let mut player = Player::open();
        player.connection.prompt(1, Content::from(vec![image(2 << 20)]), player.now);
        player.look();
        let sent = player.sent().remove(0);
        (player, sent)
    };
    let (mut player, call) = upload();
    player.refuse(&call, 50001, "disk full");
    assert_eq!(player.trace(), ["turn rpc_error: disk full (50001)"]);
    let (mut player, call) = upload();
    player.answer(&call, json!({"file": 1}));
    let trace = player.trace();
    assert!(trace[0].starts_with("turn rpc_error: the server named no uploaded file: missing field `id`"), "{trace:?}");
    let (mut player, call) = upload();
    player.connection.cancel(1, player.now);
    player.look();
    player.answer(&call, json!({"id": "f"}));
    assert!(player.sent().is_empty());
    assert_eq!(player.trace(), ["TurnEnd", "turn cancelled 0 \"\""]);
}

#[test]
fn prompt_of_unsupported_content_is_refused() {
    let mut player = Player::open();
    let sound = json!({"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,AAAA"}});
    let sound: ContentPart = serde_json::from_value(sound).expect("a part");
    for (input, reason) in [
        (Content::from("x".repeat(1 << 20)), "prompts with more than 1 MiB of text; write it to a file"),
        (Content::from("\u{1}".repeat(1 << 18)), "prompts with more than 1 MiB of text"),
        (Content::from(vec![sound]), "prompts with sounds"),
    ] {
        player.connection.prompt(1, input, player.now);
        player.look();
        let trace = player.trace();
        assert!(
            trace[0].starts_with(&format!("turn unsupported: the agent (its server) does not support {reason}")),
            "{trace:?}"
        );
    }
    assert!(player.sent().is_empty());
}

#[test]
fn prompt_with_skill_name_activates_skill() {
    let mut player = Player::open();
    player.prompt("/greet  Ann and Bob");
    let sent = player.sent();
    assert_eq!(sent[0]["method"], format!("POST {PATH}/skills/greet:activate"));
    assert_eq!(sent[0]["params"], json!({"args": "Ann and Bob"}));
    // The turn begins before the answer, under an id of the server's.
    let origin = json!({"kind": "skill_activation", "skillName": "greet", "trigger": "user-slash"});
    player
        .frame("turn.started", json!({"turnId": 4, "promptId": "msg_1", "origin": origin, "prompt": "User activated"}));
    player.answer(&sent[0], json!({"activated": true}));
    player.connection.cancel(1, player.now);
    player.look();
    assert_eq!(player.methods(), [format!("POST {PATH}/prompts/msg_1:abort")]);
    player.frame("turn.ended", json!({"turnId": 4, "reason": "cancelled"}));
    player.frame("prompt.aborted", json!({"promptId": "msg_1"}));
    assert_eq!(player.trace(), ["TurnBegin \"/greet  Ann and Bob\"", "TurnEnd", "turn cancelled 0 \"\""]);
    player.prompt("/unknown x");
    assert_eq!(player.methods(), [format!("POST {PATH}/prompts")]);
}

#[test]
fn cancel_waits_until_server_has_prompt() {
    for accepts in ["answer", "frame"] {
        let mut player = Player::open();
        player.prompt("go");
        let prompt = player.sent().remove(0);
        player.connection.cancel(1, player.now);
        player.look();
        assert!(player.sent().is_empty());
        match accepts {
            "answer" => player.answer(&prompt, json!({"prompt_id": "p-1", "status": "running"})),
            _ => player.frame("prompt.submitted", json!({"promptId": "p-1"})),
        }
        let abort = player.sent();
        assert_eq!(abort[0]["method"], format!("POST {PATH}/prompts/p-1:abort"));
        player.answer(&abort[0], json!({"aborted": true}));
        player.frame("turn.started", json!({"turnId": 0, "promptId": "p-1"}));
        player.frame("turn.ended", json!({"turnId": 0, "reason": "cancelled"}));
        player.frame("prompt.aborted", json!({"promptId": "p-1"}));
        assert_eq!(player.trace(), ["TurnBegin", "TurnEnd", "turn cancelled 0 \"\""]);
        assert!(player.sent().is_empty());
    }
}

#[test]
fn late_cancel_settles() {
    let mut player = Player::prompted();
    player.connection.cancel(1, player.now);
    player.look();
    let abort = player.sent();
    player.refuse(&abort[0], 40903, "prompt is done");
    player.end();
    assert_eq!(player.trace(), ["TurnEnd", "turn finished 1 \"\""]);
}

#[test]
fn turn_without_prompt_end_times_out() {
    let mut player = Player::prompted();
    player.frame("turn.ended", json!({"turnId": 0, "reason": "completed"}));
    assert_eq!(player.trace(), ["TurnEnd"]);
    player.now = player.connection.poll_timeout().expect("a deadline");
    player.connection.handle_timeout(player.now);
    player.look();
    assert_eq!(player.trace(), ["turn finished 1 \"\""]);
    // The end of the prompt means nothing any more.
    player.frame("prompt.completed", json!({"promptId": "p-1", "reason": "completed"}));
    player.frame("turn.ended", json!({"turnId": 0, "reason": "completed"}));
    assert_eq!(player.trace(), ["outside: TurnEnd"]);
    assert_eq!(player.connection.poll_timeout(), None);
}

#[test]
fn failed_prompt_aborts_late_turn() {
    let mut player = Player::open();
    player.prompt("go");
    let prompt = player.sent().remove(0);
    player.refuse(&prompt, -32010, "the connection was lost");
    assert_eq!(player.trace(), ["turn rpc_error: the connection was lost (-32010)"]);
    // The server has received it: its turn is stopped.
    player.frame("turn.started", json!({"turnId": 0, "promptId": "p-1"}));
    player.frame("turn.step.started", json!({"turnId": 0, "step": 1}));
    player.frame("turn.ended", json!({"turnId": 0, "reason": "cancelled"}));
    assert_eq!(player.methods(), [format!("POST {PATH}/prompts/p-1:abort")]);
    assert_eq!(player.trace(), [""; 0]);
    player.frame("turn.started", json!({"turnId": 1}));
    assert_eq!(player.trace(), ["outside: TurnBegin \"\""]);
}

#[test]
fn running_turn_survives_failed_prompt_answer() {
    let mut player = Player::open();
    player.prompt("go");
    let prompt = player.sent().remove(0);
    player.frame("turn.started", json!({"turnId": 0, "promptId": "p-1"}));
    player.refuse(&prompt, -32010, "the connection was lost");
    player.end();
    assert_eq!(player.trace(), ["TurnBegin", "TurnEnd", "turn finished 0 \"\""]);
}

impl Player {
    fn steer(&mut self, text: &str) {
        self.connection.steer(1, text.into(), self.now).expect("a turn");
        self.look();
    }
}

#[test]
fn steer_waits_for_prompt_answer() {
    let mut player = Player::open();
    player.prompt("go");
    let prompt = player.sent().remove(0);
    player.steer("more");
    assert!(player.sent().is_empty());
    player.answer(&prompt, json!({"prompt_id": "p-1", "status": "running"}));
    let sent = player.sent();
    assert_eq!(sent[0]["params"], json!({"prompt_id": "p-2", "content": [{"type": "text", "text": "more"}]}));
    player.answer(&sent[0], json!({"prompt_id": "p-2", "status": "queued"}));
    let sent = player.sent();
    assert_eq!(sent[0]["method"], format!("POST {PATH}/prompts:steer"));
    assert_eq!(sent[0]["params"], json!({"prompt_ids": ["p-2"]}));
    player.answer(&sent[0], json!({"steered": true}));
    assert_eq!(player.trace(), ["call ok"]);
}

#[test]
fn late_steer_begins_no_turn() {
    let late = "call no_active_turn: the turn has ended; call `prompt()` instead (40402)";
    // The turn ended before: the text would be a prompt of its own.
    let mut player = Player::prompted();
    player.steer("more");
    let steer = player.sent().remove(0);
    player.end();
    assert_eq!(player.trace(), ["TurnEnd", "turn finished 1 \"\""]);
    player.frame("turn.started", json!({"turnId": 1, "promptId": "p-2"}));
    player.frame("turn.step.started", json!({"turnId": 1, "step": 1}));
    player.answer(&steer, json!({"prompt_id": "p-2", "status": "running"}));
    assert_eq!(player.methods(), [format!("POST {PATH}/prompts/p-2:abort")]);
    assert_eq!(player.trace(), [late]);
    // The turn ended between the two calls.
    let mut player = Player::prompted();
    player.steer("more");
    let steer = player.sent().remove(0);
    player.answer(&steer, json!({"prompt_id": "p-2", "status": "queued"}));
    let call = player.sent().remove(0);
    player.refuse(&call, 40402, "no active prompt to steer into");
    assert_eq!(player.methods(), [format!("POST {PATH}/prompts/p-2:abort")]);
    assert_eq!(player.trace(), [late]);
    // It must not reach the next turn.
    let mut player = Player::prompted();
    player.steer("more");
    let steer = player.sent().remove(0);
    player.end();
    player.prompt("next");
    player.sent();
    player.trace();
    player.answer(&steer, json!({"prompt_id": "p-2", "status": "queued"}));
    assert_eq!(player.methods(), [format!("POST {PATH}/prompts/p-2:abort")]);
    assert_eq!(player.trace(), [late]);
}

#[test]
fn cancel_takes_waiting_texts_with_it() {
    let mut player = Player::prompted();
    player.steer("more");
    let steer = player.sent().remove(0);
    player.connection.cancel(1, player.now);
    player.look();
    assert_eq!(player.methods(), [format!("POST {PATH}/prompts/p-2:abort"), format!("POST {PATH}/prompts/p-1:abort")]);
    player.answer(&steer, json!({"prompt_id": "p-2", "status": "queued"}));
    assert_eq!(player.methods(), [format!("POST {PATH}/prompts/p-2:abort")]);
}

#[test]
fn undo_and_plan_mode_send_their_calls() {
    let mut player = Player::open();
    player.connection.undo(2, player.now).expect("undo");
    player.connection.set_plan_mode(true, player.now).expect("plan mode");
    player.look();
    let sent = player.sent();
    assert_eq!((&sent[0]["method"], &sent[0]["params"]), (&json!(format!("POST {PATH}:undo")), &json!({"count": 2})));
    assert_eq!(sent[1]["params"], json!({"agent_config": {"plan_mode": true}}));
    player.refuse(&sent[0], 40911, "Nothing to undo");
    player.answer(&sent[1], json!({}));
    assert_eq!(player.trace(), ["call rpc_error: Nothing to undo (40911)", "call ok"]);
    let mut player = Player::prompted();
    assert_eq!(player.connection.undo(1, player.now).unwrap_err().code(), "turn_in_progress");
    assert!(player.sent().is_empty());
}

#[test]
fn left_session_aborts_turn_and_requests() {
    let mut player = Player::prompted();
    player.frame("event.approval.requested", json!({"approval_id": "a1", "turn_id": 0, "tool_call_id": "c1"}));
    player.frame("event.question.requested", json!({"question_id": "q1", "turn_id": 0, "questions": []}));
    player.connection.leave();
    player.look();
    let sent = player.sent();
    let methods: Vec<_> = sent.iter().map(|line| line["method"].as_str().expect("a method")).collect();
    assert_eq!(
        methods,
        [
            format!("POST {PATH}/approvals/a1"),
            format!("POST {PATH}/questions/q1:dismiss"),
            format!("POST {PATH}:abort"),
            "WS unsubscribe".to_owned(),
        ]
    );
    assert_eq!(sent[0]["params"], json!({"decision": "rejected"}));
}

/// The lines that answer the last request.
fn answered(player: &mut Player, answer: &Answer) -> Value {
    let (key, _) = player.asked.pop().expect("a request");
    player.connection.answer(key, answer, player.now);
    player.look();
    let mut sent = player.sent();
    assert_eq!(sent.len(), 1);
    sent.remove(0)
}

#[test]
fn plan_is_approved_only_by_offered_label() {
    let ways = json!([{"label": "A way", "description": "a"}, {"label": "Reject", "description": "trap"}]);
    let pick = |options: Value, answer: Option<&str>| {
        let mut player = Player::prompted();
        let display = json!({"kind": "plan_review", "plan": "# P", "path": "/p.md", "options": options});
        let payload = json!({"approval_id": "a1", "turn_id": 0, "tool_call_id": "x1", "tool_name": "ExitPlanMode",
            "tool_input_display": display});
        player.frame("event.approval.requested", payload);
        let answers = answer.map(|answer| Answers::new().answer("Approve this plan", answer));
        answered(&mut player, &Answer::Question(answers))["params"].clone()
    };
    let rejected = || json!({"decision": "rejected"});
    assert_eq!(pick(ways.clone(), Some("A way")), json!({"decision": "approved", "selected_label": "A way"}));
    assert_eq!(pick(ways.clone(), Some("Reject")), rejected());
    assert_eq!(pick(ways.clone(), Some("Approve")), json!({"decision": "rejected", "feedback": "Approve"}));
    assert_eq!(pick(ways.clone(), Some("add tests")), json!({"decision": "rejected", "feedback": "add tests"}));
    assert_eq!(pick(ways, None), rejected());
    assert_eq!(pick(Value::Null, Some("Approve")), json!({"decision": "approved"}));
    assert_eq!(pick(Value::Null, Some("")), rejected());
}

#[test]
fn answers_become_choices_texts_or_both() {
    let mut player = Player::prompted();
    let options = |n: usize| json!([{"id": format!("o{n}a"), "label": "A"}, {"id": format!("o{n}b"), "label": "B, b"}]);
    let questions: Vec<_> = (0..5)
        .map(|n| json!({"id": format!("q{n}"), "question": format!("Q{n}"), "options": options(n), "multi_select": n > 1}))
        .collect();
    player.frame("event.question.requested", json!({"question_id": "q/1", "turn_id": 0, "questions": questions}));
    let answers =
        Answers::new().answer("Q0", "B, b").answer("Q1", "mine, A").answer("Q2", "A, other").answer("Q3", "A");
    let sent = answered(&mut player, &Answer::Question(Some(answers)));
    assert_eq!(sent["method"], format!("POST {PATH}/questions/q%2F1"));
    assert_eq!(
        sent["params"]["answers"],
        json!({
            "q0": {"kind": "single", "option_id": "o0b"},
            "q1": {"kind": "other", "text": "mine, A"},
            "q2": {"kind": "multi_with_other", "option_ids": ["o2a"], "other_text": "other"},
            "q3": {"kind": "multi", "option_ids": ["o3a"]},
            "q4": {"kind": "skipped"},
        })
    );
}

#[test]
fn status_event_comes_on_change() {
    let mut player = Player::prompted();
    for (payload, expected) in [
        (
            json!({"contextTokens": 50, "maxContextTokens": 100}),
            Some(json!({"context_usage": 0.5, "context_tokens": 50, "max_context_tokens": 100})),
        ),
        (json!({"contextTokens": 50, "maxContextTokens": 100, "phase": {}}), None),
        (json!({"planMode": true}), Some(json!({"context_usage": 0.5, "plan_mode": true}))),
        (json!({"planMode": true, "agentId": "agent-0", "contextTokens": 7}), None),
    ] {
        player.frame("agent.status.updated", payload);
        let expected: Vec<_> = expected.iter().map(|update| format!("status {update}")).collect();
        assert_eq!(player.trace(), expected);
    }
}

#[test]
fn concurrent_calls_have_whole_arguments() {
    let mut player = Player::prompted();
    let piece = |id: &str, part: &str| json!({"turnId": 0, "toolCallId": id, "name": "T", "argumentsPart": part});
    for (id, part) in [("a", "{\"x\":"), ("b", "{"), ("a", "1}"), ("b", "}")] {
        player.frame("tool.call.delta", piece(id, part));
    }
    for (id, args) in [("a", json!({"x": 1})), ("b", json!({}))] {
        player.frame("tool.call.started", json!({"turnId": 0, "toolCallId": id, "name": "T", "args": args}));
        player.frame("tool.result", json!({"turnId": 0, "toolCallId": id, "output": [{"type": "text", "text": "ok"}]}));
    }
    assert_eq!(
        player.trace(),
        [
            r#"call a T "{\"x\":""#,
            r#"call b T "{""#,
            r#"part "}""#,
            r#"call a T "{\"x\":1}""#,
            "result a T ok \"ok\"",
            "result b T ok \"ok\"",
        ]
    );
}

#[test]
fn malformed_frame_does_no_harm() {
    let mut player = Player::prompted();
    for (kind, payload) in [
        ("assistant.delta", json!({"turnId": 0, "delta": 1})),
        ("tool.call.started", json!({"turnId": 0})),
        ("event.approval.requested", json!({"turnId": 0, "turn_id": "x"})),
        ("turn.step.started", json!({"turnId": 0, "step": 1.5})),
        ("novelty", json!({"turnId": 0, "a": 1})),
    ] {
        player.frame(kind, payload);
        let trace = player.trace();
        let expected = if kind == "novelty" { "unknown novelty".to_owned() } else { format!("unreadable {kind}: ") };
        assert!(trace.len() == 1 && trace[0].starts_with(&expected), "{trace:?}");
    }
    let frame = |params: Value| json!({"jsonrpc": "2.0", "method": "turn.ended", "params": params});
    let payload = json!({"turnId": 0, "reason": "completed"});
    for params in [
        Value::Null,
        json!([]),
        json!({"session_id": "other", "payload": payload}),
        json!({"session_id": 7, "payload": payload}),
        json!({"payload": payload}),
        json!({"session_id": null, "payload": payload}),
        json!({"session_id": null, "payload": {"turnId": 0, "reason": "completed", "sessionId": "other"}}),
    ] {
        player.hear(&frame(params));
        assert_eq!(player.trace(), [""; 0]);
    }
    // Of another turn, or twice.
    player.frame("turn.ended", json!({"turnId": 9, "reason": "completed"}));
    player.frame("prompt.completed", json!({"promptId": "p-9", "reason": "completed"}));
    assert_eq!(player.trace(), ["outside: TurnEnd"]);
    player.end();
    player.end();
    assert_eq!(player.trace(), ["TurnEnd", "turn finished 1 \"\"", "outside: TurnEnd"]);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let line =
        format!(r#"{{"jsonrpc":"2.0","method":"novelty","params":{{"session_id":"{SESSION}","payload":{deep}}}}}"#);
    player.connection.handle_line(line.as_bytes(), player.now);
    player.look();
    assert_eq!(player.trace(), ["outside: unknown novelty"]);
}

#[test]
fn call_that_differs_from_its_pieces_is_told_again() {
    let mut player = Player::prompted();
    let started =
        |command: &str| json!({"turnId": 0, "toolCallId": "c1", "name": "Bash", "args": {"command": command}});
    let piece = json!({"turnId": 0, "toolCallId": "c1", "name": "Bash", "argumentsPart": "{\"command\": \"ls\"}"});
    player.frame("tool.call.delta", piece);
    for command in ["ls", "rm x", "rm x", "ls"] {
        player.frame("tool.call.started", started(command));
    }
    let calls = player.trace().into_iter().filter(|line| line.starts_with("call c1")).collect::<Vec<_>>();
    assert_eq!(calls.len(), 3, "{calls:?}");
}

#[test]
fn ambiguous_or_nameless_approval_is_rejected() {
    let payload = |call: &str, command: &str| {
        json!({"approval_id": "a1", "turn_id": 0, "tool_call_id": call, "tool_name": "Bash",
            "tool_input_display": {"kind": "command", "command": command}})
    };
    let mut player = Player::prompted();
    player.frame("event.approval.requested", payload("c1", "make"));
    player.frame("event.approval.requested", payload("c2", "rm x"));
    let sent = player.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["params"], json!({"decision": "rejected"}));
    assert!(player.asked.is_empty());
    let mut player = Player::prompted();
    player.frame("event.approval.requested", json!({"approval_id": "a1", "turn_id": 0}));
    assert!(player.asked.is_empty());
    assert_eq!(player.sent()[0]["params"], json!({"decision": "rejected"}));
}

#[test]
fn plan_of_another_tool_is_an_approval() {
    let mut player = Player::prompted();
    let payload = json!({"approval_id": "a1", "turn_id": 0, "tool_call_id": "c1", "tool_name": "Bash",
        "tool_input_display": {"kind": "plan_review", "plan": "harmless"}});
    player.frame("event.approval.requested", payload);
    let sent = answered(&mut player, &Answer::Approval(Approval::Approve));
    assert_eq!(sent["params"], json!({"decision": "approved"}));
}

#[test]
fn directory_and_variables_of_a_shown_command_are_kept() {
    let mut player = Player::prompted();
    for (id, cwd, kept) in [("a1", "", false), ("a2", "/etc", true)] {
        let payload = json!({"approval_id": id, "turn_id": 0, "tool_call_id": "c1", "tool_name": "Bash",
            "tool_input_display": {"kind": "command", "command": "git status", "cwd": cwd, "language": "bash"}});
        player.frame("event.approval.requested", payload);
        let (_, request) = player.asked.pop().expect("a request");
        assert_eq!(json!(request)["payload"]["display"][0].get("cwd").is_some(), kept, "{cwd}");
    }
}

#[test]
fn pieces_of_a_call_that_is_decided_reject_it() {
    let mut player = Player::prompted();
    let payload = json!({"approval_id": "a1", "turn_id": 0, "tool_call_id": "c1", "tool_name": "Bash",
        "tool_input_display": {"kind": "command", "command": "ls"}});
    player.frame("event.approval.requested", payload);
    assert_eq!(player.asked.len(), 1);
    let piece = json!({"turnId": 0, "toolCallId": "c1", "name": "Bash", "argumentsPart": "{\"command\":\"rm x\"}"});
    player.frame("tool.call.delta", piece);
    assert!(player.asked.is_empty());
    assert_eq!(player.sent()[0]["params"], json!({"decision": "rejected"}));
}
