use super::*;
use crate::messages::ContentPart;

fn result(peer: &mut Peer) -> PromptResult {
    let outputs: Vec<_> = std::iter::from_fn(|| peer.next_output()).collect();
    match outputs.into_iter().last() {
        Some(Output::TurnEnded { outcome: Ok(result), .. }) => *result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn turn_lives_until_its_prompt_is_answered() {
    let mut peer = Peer::open();
    peer.event("Notification", &json!({}));
    peer.prompt(1);
    peer.event("TurnBegin", &json!({"user_input": "hi"}));
    peer.event("StepBegin", &json!({"n": 1}));
    peer.event("ContentPart", &json!({"type": "text", "text": "Hello"}));
    peer.event("TurnEnd", &json!({}));
    // Real agents say something after the end, at times.
    peer.event("ApprovalResponse", &json!({"request_id": "a", "response": "reject"}));
    peer.finish();
    peer.event("StatusUpdate", &json!({}));
    assert_eq!(
        peer.trace(),
        [
            "outside Notification",
            "1.0 TurnBegin",
            "1.0 StepBegin",
            "1.0 ContentPart",
            "1.0 TurnEnd",
            "1.0 ApprovalResponse",
            "turn 1 finished",
            "outside StatusUpdate",
        ]
    );
}

#[test]
fn missing_turn_end_is_synthesized_once() {
    let mut peer = Peer::open();
    for turn in [1, 2] {
        peer.prompt(turn);
        peer.finish();
        let Some(Output::Event { event, .. }) = peer.next_output() else { panic!("no end") };
        let Event::TurnEnd(end) = *event else { panic!("another event") };
        assert_eq!(end.synthesized, Some(true));
        assert_eq!(peer.trace(), [format!("turn {turn} finished")]);
    }
}

#[test]
fn restarted_step_numbers_keep_unique_index() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.event("TurnBegin", &json!({"user_input": "hi"}));
    for n in [1, 2, 1] {
        peer.event("StepBegin", &json!({"n": n}));
        peer.event("ContentPart", &json!({"type": "text", "text": format!("step {n} ")}));
        peer.event("ContentPart", &json!({"type": "text", "text": "goes on"}));
    }
    let steps: Vec<_> = std::iter::from_fn(|| peer.next_output())
        .filter_map(|output| match output {
            Output::Event { scope: Scope::Turn(_, step), event, .. } if event.type_name() == "StepBegin" => {
                Some((step.index, step.n))
            }
            _ => None,
        })
        .collect();
    assert_eq!(steps, [(0, 1), (1, 2), (2, 1)]);
    peer.finish();
    let result = result(&mut peer);
    assert_eq!((result.steps, result.text.as_str()), (3, "step 1 goes on"));
}

#[test]
fn step_count_from_agent_is_used() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.event("StepBegin", &json!({"n": 1}));
    peer.answer("prompt", &json!({"status": "max_steps_reached", "steps": 7}));
    let result = result(&mut peer);
    assert_eq!((result.status, result.steps), (TurnStatus::MaxStepsReached, 7));
    assert_eq!(result.raise_for_status().unwrap_err().code(), "max_steps_reached");
}

#[test]
fn usage_is_summed_with_subagents() {
    let mut peer = Peer::open();
    for turn in [1, 2] {
        peer.prompt(turn);
        peer.event("StepBegin", &json!({"n": 1}));
        peer.event("StatusUpdate", &json!({"token_usage": usage(10), "context_usage": 0.25}));
        let inner = json!({"type": "StatusUpdate", "payload": {"token_usage": usage(3), "context_usage": 0.5}});
        let nested = json!({"type": "SubagentEvent", "payload": {"parent_tool_call_id": "b", "event": inner}});
        peer.event("SubagentEvent", &json!({"parent_tool_call_id": "a", "event": nested}));
        // A subagent's steps and words are its own.
        let inner = json!({"type": "StepBegin", "payload": {"n": 2}});
        peer.event("SubagentEvent", &json!({"parent_tool_call_id": "a", "event": inner}));
        let inner = json!({"type": "ContentPart", "payload": {"type": "text", "text": "inner"}});
        peer.event("SubagentEvent", &json!({"parent_tool_call_id": "a", "event": inner}));
        peer.event("StatusUpdate", &json!({"token_usage": null, "context_usage": null}));
        let changes = std::iter::from_fn(|| peer.connection.poll_output()).filter_map(|output| match output {
            Output::StatusChanged(change) => Some(change),
            _ => None,
        });
        let (key, so_far) = changes.last().and_then(|change| change.turn).expect("a turn");
        assert_eq!((key, so_far.output, so_far.input_other), (turn, 13, 2));
        peer.finish();
        let result = result(&mut peer);
        assert_eq!((result.usage.output, result.steps, result.text.as_str()), (13, 1, ""));
    }
    peer.event("StatusUpdate", &json!({"token_usage": usage(1)}));
    assert_eq!(peer.connection.usage().output, 27);
    assert_eq!(peer.connection.status().unwrap().context_usage, Some(0.25));
}

#[test]
fn prompt_during_turn_is_refused() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.prompt(2);
    assert_eq!(peer.trace(), ["turn 2 turn_in_progress"]);
    assert_eq!(peer.said(), ["prompt"]);
}

#[test]
fn unreadable_answer_ends_turn_only() {
    let mut peer = Peer::open();
    for result in [json!(7), json!([])] {
        peer.prompt(1);
        peer.answer("prompt", &result);
        assert_eq!(peer.trace(), ["turn 1 protocol_error"], "{result}");
    }
    peer.prompt(2);
    peer.finish();
    assert_eq!(peer.trace(), ["2.0 TurnEnd", "turn 2 finished"]);
}

#[test]
fn words_for_the_end_of_turn_are_those_of_all_agents() {
    let cases = [
        (json!({}), "finished", "cancelled"),
        (json!(null), "finished", "cancelled"),
        (json!({"status": null}), "finished", "cancelled"),
        (json!({"status": 5}), "finished", "cancelled"),
        (json!({"status": "finished"}), "finished", "finished"),
        (json!({"status": "canceled"}), "cancelled", "cancelled"),
        (json!({"status": "Aborted"}), "cancelled", "cancelled"),
        (json!({"status": "interrupted"}), "cancelled", "cancelled"),
        (json!({"status": "max_tokens"}), "truncated", "truncated"),
        (json!({"status": "length"}), "truncated", "truncated"),
        (json!({"status": "content_filter"}), "refused", "refused"),
        (json!({"status": "refusal"}), "refused", "refused"),
        (json!({"status": "maxTurnRequests"}), "max_steps_reached", "max_steps_reached"),
        (json!({"status": "error"}), "finished", "cancelled"),
        (json!({"status": "failed"}), "finished", "cancelled"),
    ];
    for (answer, end, after_cancel) in cases {
        for (is_cancelled, end) in [(false, end), (true, after_cancel)] {
            let mut peer = Peer::open();
            peer.prompt(1);
            if is_cancelled {
                peer.connection.cancel(1, peer.now);
                peer.answer("cancel", &json!({}));
            }
            peer.answer("prompt", &answer);
            let result = std::iter::from_fn(|| peer.next_output()).find_map(|output| match output {
                Output::TurnEnded { outcome, .. } => Some(outcome.expect("a result")),
                _ => None,
            });
            let result = result.expect("an end");
            assert_eq!(result.status.as_str(), end, "{answer} {is_cancelled}");
            assert_eq!(result.stop_reason.as_deref(), answer["status"].as_str());
        }
    }
}

#[test]
fn error_with_code_of_cancel_ends_cancelled_turn() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.connection.cancel(1, peer.now);
    peer.answer("cancel", &json!({}));
    peer.refuse("prompt", -32800);
    assert_eq!(peer.trace().last().map(String::as_str), Some("turn 1 cancelled"));
}

#[test]
fn unknown_status_finishes_turn_with_reason() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.event("ContentPart", &json!({"type": "text", "text": "done"}));
    peer.answer("prompt", &json!({"status": "exploded", "steps": 2}));
    let result = std::iter::from_fn(|| peer.next_output()).find_map(|output| match output {
        Output::TurnEnded { outcome, .. } => outcome.ok(),
        _ => None,
    });
    let result = result.expect("a result");
    assert_eq!((result.status.as_str(), result.stop_reason.as_deref()), ("finished", Some("exploded")));
    assert_eq!((&*result.text, result.steps), ("done", 2));
}

#[test]
fn failed_turn_has_its_text() {
    let fail = |fail: &dyn Fn(&mut Peer)| {
        let mut peer = Peer::open();
        peer.prompt(1);
        peer.event("ContentPart", &json!({"type": "text", "text": "half"}));
        fail(&mut peer);
        let error = std::iter::from_fn(|| peer.next_output()).find_map(|output| match output {
            Output::TurnEnded { outcome, .. } => outcome.err(),
            _ => None,
        });
        error.expect("an error").result().map(|result| result.text.clone())
    };
    let half = Some("half".to_owned());
    assert_eq!(fail(&|peer| peer.answer("prompt", &json!([5]))), half);
    assert_eq!(fail(&|peer| peer.connection.close(&Error::AgentExited(Default::default()))), half);
    assert_eq!(fail(&|peer| peer.connection.close(&Error::Timeout("too late".into()))), half);
}

#[test]
fn halves_of_a_character_are_joined() {
    let texts = |lines: &[(&str, &str)]| {
        let mut peer = Peer::open();
        peer.prompt(1);
        for (kind, text) in lines {
            let field = if *kind == "think" { "think" } else { "text" };
            peer.text(&format!(
                r#"{{"method":"event","params":{{"type":"ContentPart","payload":{{"type":"{kind}","{field}":"{text}"}}}}}}"#
            ));
        }
        peer.finish();
        let text = |output| match output {
            Output::Event { event, .. } => match *event {
                Event::ContentPart(ContentPart::Text(part)) => Some(part.text),
                Event::ContentPart(ContentPart::Think(part)) => Some(format!("({})", part.think)),
                _ => None,
            },
            Output::TurnEnded { outcome, .. } => Some(format!("= {}", outcome.expect("a result").text)),
            _ => None,
        };
        std::iter::from_fn(|| peer.next_output()).filter_map(text).collect::<Vec<_>>()
    };
    let (high, low) = (r"a\ud83d", r"\ude80b");
    assert_eq!(texts(&[("text", high), ("text", low)]), ["a", "\u{1f680}b", "= a\u{1f680}b"]);
    assert_eq!(texts(&[("text", high), ("text", "c")]), ["a", "\u{fffd}c", "= a\u{fffd}c"]);
    assert_eq!(texts(&[("text", high)]), ["a", "\u{fffd}", "= a\u{fffd}"]);
    assert_eq!(texts(&[("text", low)]), ["\u{fffd}b", "= \u{fffd}b"]);
    assert_eq!(texts(&[("think", high), ("text", low)]), ["(a)", "(\u{fffd})", "\u{fffd}b", "= \u{fffd}b"]);
    assert_eq!(texts(&[("think", high), ("think", low)]), ["(a)", "(\u{1f680}b)", "= "]);
    assert_eq!(texts(&[("text", r"\ud83d"), ("text", r"\ude80")]), ["\u{1f680}", "= \u{1f680}"]);
    let joined = ["a", "", "\u{1f680}b", "= a\u{1f680}b"];
    assert_eq!(texts(&[("text", high), ("text", ""), ("text", low)]), joined, "an empty piece between them");
}

#[test]
fn halves_of_parallel_subagents_are_joined() {
    let mut peer = Peer::open();
    peer.prompt(1);
    for (agent, text) in [("A", r"1\ud83d"), ("B", r"2\ud83d"), ("A", r"\ude80"), ("B", r"\ude80")] {
        let event = format!(r#"{{"type":"ContentPart","payload":{{"type":"text","text":"{text}"}}}}"#);
        let payload = format!(r#"{{"parent_tool_call_id":"{agent}","agent_id":"{agent}","event":{event}}}"#);
        peer.text(&format!(r#"{{"method":"event","params":{{"type":"SubagentEvent","payload":{payload}}}}}"#));
    }
    peer.finish();
    let text = |output| match output {
        Output::Event { event, .. } => match *event {
            Event::SubagentEvent(subagent) => subagent.event.text().map(str::to_owned),
            _ => None,
        },
        _ => None,
    };
    let texts: Vec<_> = std::iter::from_fn(|| peer.next_output()).filter_map(text).collect();
    assert_eq!(texts, ["1", "2", "\u{1f680}", "\u{1f680}"]);
}

#[test]
fn half_of_a_character_keeps_other_fields_of_its_event() {
    let mut peer = Peer::open();
    peer.prompt(1);
    for payload in [
        r#"{"type":"ContentPart","payload":{"type":"think","think":"\ud83d","encrypted":"secret"}}"#,
        r#"{"type":"ContentPart","payload":{"type":"think","think":"\ude80"}}"#,
        r#"{"type":"ToolCallPart","payload":{"arguments_part":"\ud83d","mood":"good"}}"#,
    ] {
        peer.text(&format!(r#"{{"method":"event","params":{payload}}}"#));
    }
    peer.finish();
    let json = |output| match output {
        Output::Event { event, .. } => Some(serde_json::to_string(&*event).expect("JSON")),
        _ => None,
    };
    let told = std::iter::from_fn(|| peer.next_output()).filter_map(json).collect::<String>();
    for kept in [r#""encrypted":"secret""#, r#""mood":"good""#, "\u{1f680}", "\u{fffd}"] {
        assert!(told.contains(kept), "{kept} is lost: {told}");
    }
}

#[test]
fn turn_over_its_timeout_is_cancelled() {
    let limits = Timing { turn: Some(30 * SECOND), ..timing() };
    let mut peer =
        Peer::open_with(limits, AnswerSources { approval: AnswerSource::Manual, ..AnswerSources::default() });
    peer.prompt(1);
    peer.wait(29 * SECOND);
    // Also while a person is asked: it was asked for.
    peer.request("r", "ApprovalRequest", &approval("a"));
    peer.connection.handle_timeout(peer.now);
    assert_eq!(peer.trace(), ["1.0 ApprovalRequest"]);
    peer.pass();
    assert_eq!(peer.trace(), ["withdrawn"]);
    assert_eq!(peer.said(), ["prompt", "cancel"]);
    peer.answer_both();
    assert_eq!(peer.trace(), ["1.0 TurnEnd", "turn 1 timeout"]);
}

impl Peer {
    fn answer_both(&mut self) {
        self.answer("cancel", &json!({}));
        self.answer("prompt", &json!({"status": "cancelled"}));
    }
}

#[test]
fn timed_out_turn_fails_with_timeout() {
    let mut peer = Peer::open_with(Timing { turn: Some(SECOND), ..timing() }, AnswerSources::default());
    peer.prompt(1);
    peer.pass();
    peer.refuse("prompt", -32003);
    assert_eq!(peer.trace(), ["turn 1 timeout"]);
}

#[test]
fn idle_timeout_pauses_while_agent_waits() {
    let limits = Timing { idle: Some(90 * SECOND), ..timing() };
    let mut peer =
        Peer::open_with(limits, AnswerSources { approval: AnswerSource::Manual, ..AnswerSources::default() });
    assert_eq!(peer.connection.poll_timeout(), None);
    peer.prompt(1);
    peer.wait(80 * SECOND);
    peer.request("r", "ApprovalRequest", &approval("a"));
    // After a minute only the log reports the missing answer.
    assert_eq!(peer.connection.poll_timeout(), Some(peer.now + 60 * SECOND));
    peer.wait(3600 * SECOND);
    peer.connection.handle_timeout(peer.now);
    assert_eq!(peer.connection.poll_timeout(), None);
    peer.connection.respond("a", ManualAnswer::Approval(crate::Approval::Approve), peer.now).expect("answered");
    // From the answer on, not from the question.
    assert_eq!(peer.connection.poll_timeout(), Some(peer.now + 90 * SECOND));
    // Nor while its output is not read.
    peer.connection.set_reading(false, peer.now);
    assert_eq!(peer.connection.poll_timeout(), None);
    peer.wait(3600 * SECOND);
    peer.connection.set_reading(true, peer.now);
    assert_eq!(peer.connection.poll_timeout(), Some(peer.now + 90 * SECOND));
    peer.wait(80 * SECOND);
    peer.event("StepBegin", &json!({"n": 1}));
    peer.connection.set_reading(true, peer.now);
    assert_eq!(peer.connection.poll_timeout(), Some(peer.now + 90 * SECOND));
    peer.trace();
    peer.pass();
    assert_eq!(peer.said(), ["prompt", "\"r\" {\"request_id\":\"a\",\"response\":\"approve\"}", "cancel"]);
    peer.answer_both();
    assert_eq!(peer.trace(), ["1.0 TurnEnd", "turn 1 timeout"]);
}

#[test]
fn idle_timeout_counts_read_messages_only() {
    let limits = Timing { idle: Some(90 * SECOND), ..timing() };
    let mut peer = Peer::open_with(limits, AnswerSources::default());
    peer.prompt(1);
    let deadline = Some(peer.now + 90 * SECOND);
    let dropped = ["hi", "1", "{}", "", r#"{"id":"unknown","result":{}}"#, r#"{"id":null,"result":{}}"#];
    for line in dropped {
        peer.wait(SECOND);
        peer.text(line);
        assert_eq!(peer.connection.poll_timeout(), deadline, "{line}");
    }
    // An event counts, whether its shape is known already or not.
    for text in ["a", "b"] {
        peer.wait(SECOND);
        peer.event("ContentPart", &json!({"type": "text", "text": text}));
        assert_eq!(peer.connection.poll_timeout(), Some(peer.now + 90 * SECOND));
    }
    peer.wait(90 * SECOND);
    peer.text("hi");
    peer.pass();
    peer.answer_both();
    assert_eq!(peer.trace().last().map(String::as_str), Some("turn 1 timeout"));
}

#[test]
fn deep_nesting_becomes_text() {
    let mut peer = Peer::open();
    peer.prompt(1);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    peer.text(&format!(
        r#"{{"method":"event","params":{{"type":"ContentPart","payload":{{"type":"text","more":{deep}}}}}}}"#
    ));
    let Some(Output::Event { event, .. }) = peer.next_output() else { panic!("none") };
    let Event::Unknown(event) = *event else { panic!("it is known") };
    assert_eq!(event.kind, "ContentPart");
    assert!(event.error.is_some_and(|error| error.starts_with("missing field `text`")));
    assert_eq!(event.payload.get().matches('[').count(), 100_000);
    peer.text(&format!(
        r#"{{"method":"event","params":{{"type":"ContentPart","payload":{{"type":"text","text":"a","more":{deep}}}}}}}"#
    ));
    assert_eq!(peer.trace(), ["1.0 ContentPart"]);
    // A request is refused, as one is whose payload can't be read otherwise.
    peer.text(&format!(
        r#"{{"id":"r","method":"request","params":{{"type":"ApprovalRequest","payload":{{"id":"r","display":{deep}}}}}}}"#
    ));
    assert_eq!(peer.trace(), ["1.0 ApprovalRequest"]);
    assert_eq!(peer.said(), ["prompt", r#""r" -32602"#]);
    peer.finish();
    assert_eq!(peer.trace().last().map(String::as_str), Some("turn 1 finished"));
}

#[test]
fn long_result_text_is_truncated_with_note() {
    let text_of = |parts: &[&str]| {
        let mut peer = Peer::open();
        peer.prompt(1);
        for part in parts {
            peer.event("ContentPart", &json!({"type": "text", "text": part}));
        }
        peer.finish();
        let text = std::iter::from_fn(|| peer.next_output()).find_map(|output| match output {
            Output::TurnEnded { outcome: Ok(result), .. } => Some(result.text),
            _ => None,
        });
        text.expect("a result")
    };
    let (half, most) = ("x".repeat(2 << 20), 4 << 20);
    assert_eq!(text_of(&[&half, &half]), half.repeat(2));
    let cut = text_of(&[&half, &half, "more", " and more"]);
    assert_eq!(cut, format!("{}\n[… 13 more bytes]", half.repeat(2)));
    // Never in the middle of a character; what comes after a cut is left out, though it would fit.
    let cut = text_of(&[&half, &half[1..], "é", "e"]);
    assert_eq!(&cut[most - 1..], "\n[… 3 more bytes]");
}

#[test]
fn new_step_has_capacity_for_text_again() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.event("ContentPart", &json!({"type": "text", "text": "x".repeat(5 << 20)}));
    peer.event("StepBegin", &json!({"n": 2}));
    peer.event("ContentPart", &json!({"type": "text", "text": "short"}));
    peer.finish();
    let text = std::iter::from_fn(|| peer.next_output()).find_map(|output| match output {
        Output::TurnEnded { outcome: Ok(result), .. } => Some(result.text),
        _ => None,
    });
    assert_eq!(text.as_deref(), Some("short"));
}

#[test]
fn text_without_event_is_the_same_event() {
    let play = |passes: bool| {
        let mut peer = Peer::open();
        if passes {
            peer.connection.pass_texts();
        }
        peer.prompt(1);
        for step in 1..3 {
            peer.event("StepBegin", &json!({"n": step}));
            for text in ["a", "b", "c\n", "", "\u{fffd}", "d\u{e9}", "\u{1f600}"] {
                peer.event("ContentPart", &json!({"type": "text", "text": text}));
            }
            for half in [r"\ud83d", r"\ude80", r"\ud83d"] {
                peer.text(&event("ContentPart", &json!({"type": "text", "text": "?"})).to_string().replace('?', half));
            }
        }
        peer.finish();
        let mut texts = 0;
        let mut outputs = Vec::new();
        while let Some(output) = peer.next_output() {
            let Output::Texts { turn, step, texts: mut run } = output else {
                outputs.push(format!("{output:?}"));
                continue;
            };
            while let Some((text, size)) = run.pop() {
                texts += 1;
                let event = Box::new(ContentPart::text(text).into());
                outputs.push(format!("{:?}", Output::Event { scope: Scope::Turn(turn, step), event, size }));
            }
        }
        (outputs, texts)
    };
    let ((with, texts), (without, none)) = (play(true), play(false));
    assert_eq!(with, without);
    assert_eq!((texts, none), (10, 0), "texts after the second, unless they may be cut");
}
