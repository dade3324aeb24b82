//! Structured output: the tool, the text, the prompts that ask again, and the end of the turn.

use std::sync::Arc;

use super::*;
use crate::budget::Budget;
use crate::output::{OutputError, OutputInvalid, OutputPlan, OutputSpec};

fn plan(retries: u32) -> Arc<OutputPlan> {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    Arc::new(OutputPlan::new(&OutputSpec { retries, ..OutputSpec::new(schema) }).expect("a plan"))
}

fn sources() -> AnswerSources {
    let output_tool = Some(Box::new(OutputTool::new(&plan(2), None)));
    AnswerSources { approval: AnswerSource::Handler, output_tool, ..AnswerSources::default() }
}

fn begin(peer: &mut Peer, by_tool: bool, is_checked: bool, retries: u32, limits: TurnLimits) {
    let output = TurnOutput { plan: plan(retries), by_tool, is_checked };
    peer.connection.prompt_for(1, "Count".into(), limits, Some(output), peer.now);
}

fn with_tool(retries: u32) -> Peer {
    let mut peer = Peer::open_with(timing(), sources());
    begin(&mut peer, true, false, retries, TurnLimits::default());
    peer
}

fn with_text(retries: u32) -> Peer {
    let mut peer = Peer::open_with(timing(), sources());
    begin(&mut peer, false, false, retries, TurnLimits::default());
    peer
}

fn say(peer: &mut Peer, text: &str) {
    peer.event("ContentPart", &json!({"type": "text", "text": text}));
}

/// Sends a call of the tool, and returns the answer to it.
fn call(peer: &mut Peer, id: &str, arguments: &Value) -> Value {
    let call = json!({"id": id, "name": "final_result", "arguments": arguments.to_string()});
    peer.request(id, "ToolCallRequest", &call);
    answer_to(peer, id)
}

fn answer_to(peer: &mut Peer, id: &str) -> Value {
    peer.look();
    let answer = peer.sent.iter().rev().find(|sent| sent["id"] == id);
    answer.map_or(Value::Null, |answer| answer["result"]["return_value"].clone())
}

fn prompts(peer: &mut Peer) -> Vec<String> {
    peer.look();
    let prompts = peer.sent.iter().filter(|sent| sent["method"] == "prompt");
    prompts.map(|sent| sent["params"]["user_input"].as_str().unwrap_or_default().to_owned()).collect()
}

fn outputs(peer: &mut Peer) -> Vec<Output> {
    std::iter::from_fn(|| peer.next_output()).collect()
}

fn outcome(peer: &mut Peer) -> Result<PromptResult> {
    match outputs(peer).pop() {
        Some(Output::TurnEnded { outcome, .. }) => outcome.map(|result| *result),
        other => panic!("{other:?}"),
    }
}

fn invalid(peer: &mut Peer) -> OutputInvalid {
    match outcome(peer) {
        Err(Error::OutputInvalid(invalid)) => *invalid,
        other => panic!("{other:?}"),
    }
}

fn check_key(peer: &mut Peer) -> RequestKey {
    let found = outputs(peer).into_iter().find_map(|output| match output {
        Output::CheckOutput { key, value, turn: 1 } => Some((key, value)),
        _ => None,
    });
    let (key, value) = found.expect("a check");
    assert_eq!(value, json!({"n": 1}));
    key
}

#[test]
fn valid_call_gives_value() {
    let mut peer = with_tool(2);
    assert_eq!(call(&mut peer, "a", &json!({"n": 1}))["is_error"], false);
    // A second value replaces the first.
    assert_eq!(call(&mut peer, "b", &json!({"output": {"n": 2}}))["is_error"], false);
    peer.finish();
    assert_eq!(outcome(&mut peer).expect("a result").output, Some(json!({"n": 2})));
    assert_eq!(prompts(&mut peer), ["Count"]);
}

#[test]
fn invalid_call_lists_violations() {
    let mut peer = with_tool(2);
    let answer = call(&mut peer, "a", &json!({"n": "1"}));
    assert_eq!(answer["is_error"], true);
    assert!(answer.to_string().contains("- /n: want integer, but got string"), "{answer}");
    call(&mut peer, "b", &json!({"n": 1}));
    peer.finish();
    assert_eq!(outcome(&mut peer).expect("a result").output, Some(json!({"n": 1})));
}

#[test]
fn invalid_calls_end_turn() {
    let mut peer = with_tool(1);
    call(&mut peer, "a", &json!({}));
    assert_eq!(peer.connection.cancelling(), None);
    call(&mut peer, "b", &json!({"n": "1"}));
    assert_eq!(peer.connection.cancelling(), Some(1));
    peer.answer("prompt", &json!({"status": "cancelled"}));
    let error = invalid(&mut peer);
    assert_eq!((error.attempts, error.text.as_str()), (2, "{\"n\":\"1\"}"));
    assert_eq!(error.errors, [OutputError::new("/n", "want integer, but got string")]);
    assert_eq!(error.result.status, TurnStatus::Cancelled);
}

#[test]
fn follow_up_joins_turn() {
    let mut peer = with_tool(2);
    for (n, text) in [(1, "one"), (2, "two")] {
        peer.event("StepBegin", &json!({"n": n}));
        say(&mut peer, text);
    }
    peer.event("TurnEnd", &json!({}));
    peer.answer("prompt", &json!({"status": "finished", "steps": 2}));
    assert!(prompts(&mut peer)[1].contains("Call the tool `final_result`"));
    peer.event("TurnBegin", &json!({"user_input": "…"}));
    peer.event("StepBegin", &json!({"n": 1}));
    peer.event("StatusUpdate", &json!({"token_usage": usage(3)}));
    call(&mut peer, "a", &json!({"n": 1}));
    say(&mut peer, "three");
    peer.event("TurnEnd", &json!({}));
    peer.answer("prompt", &json!({"status": "finished", "steps": 1}));
    let outputs = outputs(&mut peer);
    let events: Vec<_> = outputs
        .iter()
        .filter_map(|output| match output {
            Output::Event { event, scope: Scope::Turn(1, tag), .. } => Some((event.type_name(), tag.index, tag.n)),
            _ => None,
        })
        .collect();
    let expected = [
        ("StepBegin", 0, 1),
        ("ContentPart", 0, 1),
        ("StepBegin", 1, 2),
        ("ContentPart", 1, 2),
        ("SteerInput", 1, 2),
        ("StepBegin", 2, 3),
        ("StatusUpdate", 2, 3),
        ("ToolCallRequest", 2, 3),
        ("ContentPart", 2, 3),
        ("TurnEnd", 2, 3),
    ];
    assert_eq!(events, expected);
    let Some(Output::TurnEnded { turn: 1, outcome: Ok(result) }) = outputs.last() else { panic!("{outputs:?}") };
    assert_eq!((result.steps, result.text.as_str(), result.usage.output), (3, "three", 3));
    assert_eq!(result.output, Some(json!({"n": 1})));
}

#[test]
fn text_is_read_after_correction() {
    let mut peer = with_text(2);
    assert!(prompts(&mut peer)[0].starts_with("Count\n\nWhen the task is done"));
    say(&mut peer, "```json\n{\"n\": \"1\"}\n```");
    peer.finish();
    assert!(prompts(&mut peer)[1].contains("/n: want integer"));
    say(&mut peer, "It is {\"n\": 1}.");
    peer.finish();
    assert_eq!(outcome(&mut peer).expect("a result").output, Some(json!({"n": 1})));
}

#[test]
fn missing_text_ends_with_error() {
    let mut peer = with_text(1);
    for text in ["one", "two"] {
        say(&mut peer, text);
        peer.event("TurnEnd", &json!({}));
        peer.finish();
    }
    let outputs = outputs(&mut peer);
    let ends = outputs
        .iter()
        .filter(|output| matches!(output, Output::Event { event, .. } if matches!(**event, Event::TurnEnd(_))));
    assert_eq!(ends.count(), 1);
    let Some(Output::TurnEnded { outcome: Err(Error::OutputInvalid(error)), .. }) = outputs.last() else {
        panic!("{outputs:?}")
    };
    assert_eq!((error.attempts, error.text.as_str(), error.result.text.as_str()), (2, "two", "two"));
    assert_eq!(error.result.status, TurnStatus::Finished);
    peer.prompt(2);
    peer.finish();
    assert!(peer.trace().contains(&"turn 2 finished".to_owned()));
}

#[test]
fn cancelled_turn_is_not_followed() {
    let mut peer = with_text(2);
    peer.cancel(1);
    // The agent finished before it read the cancel.
    peer.finish();
    let result = outcome(&mut peer).expect("a result");
    assert_eq!((result.status, result.output), (TurnStatus::Cancelled, None));
    assert_eq!(prompts(&mut peer).len(), 1);
}

#[test]
fn cancel_during_correction_ends_turn() {
    let mut peer = with_text(2);
    peer.finish();
    assert_eq!(prompts(&mut peer).len(), 2);
    peer.cancel(1);
    peer.answer("prompt", &json!({"status": "cancelled"}));
    assert_eq!(outcome(&mut peer).expect("a result").status, TurnStatus::Cancelled);
    assert_eq!(prompts(&mut peer).len(), 2);
}

#[test]
fn step_limit_is_not_followed() {
    let mut peer = with_text(2);
    peer.answer("prompt", &json!({"status": "max_steps_reached", "steps": 9}));
    let result = outcome(&mut peer).expect("a result");
    assert_eq!((result.status, result.output), (TurnStatus::MaxStepsReached, None));
}

#[test]
fn budget_spans_follow_ups() {
    let mut peer = Peer::open_with(timing(), sources());
    let limits = TurnLimits { budget: Some(Budget::new().steps(2)), ..TurnLimits::default() };
    begin(&mut peer, false, false, 5, limits);
    for _ in 0..2 {
        peer.event("StepBegin", &json!({"n": 1}));
        peer.finish();
    }
    peer.event("StepBegin", &json!({"n": 1}));
    assert_eq!(peer.connection.cancelling(), Some(1));
    peer.answer("prompt", &json!({"status": "cancelled"}));
    let Err(Error::BudgetExceeded(error)) = outcome(&mut peer) else { panic!("no budget error") };
    assert_eq!((error.used, error.result.steps), (3.0, 3));
}

#[test]
fn deadline_spans_follow_ups() {
    let mut peer = Peer::open_with(timing(), sources());
    begin(&mut peer, false, false, 5, TurnLimits { turn: Some(5 * SECOND), ..TurnLimits::default() });
    peer.wait(4 * SECOND);
    peer.finish();
    peer.wait(SECOND);
    peer.connection.handle_timeout(peer.now);
    assert_eq!(peer.connection.cancelling(), Some(1));
}

#[test]
fn program_checks_call() {
    let mut peer = Peer::open_with(timing(), sources());
    begin(&mut peer, true, true, 2, TurnLimits::default());
    assert_eq!(call(&mut peer, "a", &json!({"n": 1})), Value::Null);
    let key = check_key(&mut peer);
    peer.connection.output_checked(key, Ok(vec![OutputError::new("/n", "too small")]), peer.now);
    assert!(answer_to(&mut peer, "a").to_string().contains("- /n: too small"));
    call(&mut peer, "b", &json!({"n": 1}));
    let key = check_key(&mut peer);
    peer.connection.output_checked(key, Ok(vec![]), peer.now);
    assert_eq!(answer_to(&mut peer, "b")["is_error"], false);
    peer.finish();
    assert_eq!(outcome(&mut peer).expect("a result").output, Some(json!({"n": 1})));
}

#[test]
fn failed_check_names_call() {
    let mut peer = Peer::open_with(timing(), sources());
    begin(&mut peer, true, true, 0, TurnLimits::default());
    call(&mut peer, "a", &json!({"n": 1}));
    let key = check_key(&mut peer);
    peer.connection.handler_failed(key, "no memory".to_owned(), peer.now);
    assert!(answer_to(&mut peer, "a").to_string().contains("no memory"));
    let reported = outputs(&mut peer).into_iter().find_map(|output| match output {
        Output::Event { event, .. } => match *event {
            Event::HandlerFailed(failed) => Some((failed.handler, failed.name, failed.request_id)),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(reported, Some((HandlerKind::Output, None, Some("a".to_owned()))));
    peer.answer("prompt", &json!({"status": "cancelled"}));
    let error = invalid(&mut peer);
    assert!(error.to_string().contains("correct the check of `output`"), "{error}");
    let failure = &error.result.handler_failures[0];
    let name = failure.tool_call.as_ref().map(|call| call.name.as_str());
    assert_eq!((&failure.handler, name), (&HandlerKind::Output, Some("final_result")));
}

#[test]
fn program_checks_answer() {
    let mut peer = Peer::open_with(timing(), sources());
    begin(&mut peer, false, true, 2, TurnLimits::default());
    say(&mut peer, "{\"n\": 1}");
    peer.finish();
    let key = check_key(&mut peer);
    // A check that fails counts as an attempt, and is reported.
    peer.connection.handler_failed(key, "no memory".to_owned(), peer.now);
    assert!(prompts(&mut peer)[1].contains("the check of the value failed: no memory"));
    say(&mut peer, "{\"n\": 1}");
    peer.finish();
    let key = check_key(&mut peer);
    peer.connection.output_checked(key, Ok(vec![]), peer.now);
    let result = outcome(&mut peer).expect("a result");
    assert_eq!((result.output, result.handler_failures.len()), (Some(json!({"n": 1})), 1));
}

#[test]
fn cancel_during_check_ends_turn() {
    let mut peer = Peer::open_with(timing(), sources());
    begin(&mut peer, false, true, 2, TurnLimits::default());
    say(&mut peer, "{\"n\": 1}");
    peer.finish();
    let key = check_key(&mut peer);
    peer.said();
    peer.cancel(1);
    assert!(peer.said().is_empty(), "the agent has nothing to cancel");
    let outputs = outputs(&mut peer);
    assert!(outputs.iter().any(|output| matches!(output, Output::Withdrawn(withdrawn) if *withdrawn == key)));
    let Some(Output::TurnEnded { outcome: Ok(result), .. }) = outputs.last() else { panic!("{outputs:?}") };
    assert_eq!((result.status, &result.output), (TurnStatus::Cancelled, &None));
    peer.connection.output_checked(key, Ok(vec![]), peer.now);
    assert!(peer.next_output().is_none());
}

#[test]
fn tool_is_approved_by_sdk() {
    let mut peer = with_tool(2);
    let function =
        |name: &str| json!({"type": "function", "id": "c", "function": {"name": name, "arguments": "{\"n\": 1}"}});
    peer.event("ToolCall", &function("final_result"));
    peer.request("r", "ApprovalRequest", &approval_of("c", "final_result"));
    assert!(peer.said().iter().any(|said| said.contains("\"approve\"")));
    assert!(!outputs(&mut peer).iter().any(|output| matches!(output, Output::Ask { .. })));
    // A call of another tool is asked about, also with the id of the first call.
    peer.event("ToolCall", &function("Shell"));
    peer.request("s", "ApprovalRequest", &approval_of("c", "final_result"));
    assert!(outputs(&mut peer).iter().any(|output| matches!(output, Output::Ask { .. })));
}

fn approval_of(call: &str, sender: &str) -> Value {
    json!({"id": format!("approval-{sender}-{call}"), "tool_call_id": call, "sender": sender, "action": "call", "description": "…"})
}

#[test]
fn tool_of_server_has_many_names() {
    let tool = OutputTool::new(&plan(2), Some("program".to_owned()));
    let call = |name: &str, kind: Option<&str>, arguments: Value| crate::messages::ToolCallInfo {
        id: "c".to_owned(),
        name: name.to_owned(),
        arguments: arguments.as_object().cloned(),
        kind: kind.map(Into::into),
        ..Default::default()
    };
    let good = json!({"n": 1});
    for name in ["final_result", "mcp__program__final_result", "program_final_result", "program.final_result"] {
        assert!(tool.is_called_by(&call(name, None, good.clone())), "{name}");
        assert!(tool.is_called_by(&call(name, Some("other"), good.clone())), "{name}");
        assert!(!tool.is_called_by(&call(name, Some("execute"), good.clone())), "{name}");
        assert!(!tool.is_called_by(&call(name, None, json!({"n": 1, "command": "rm"}))), "{name}");
        assert!(!tool.is_called_by(&call(name, None, json!({}))), "{name}");
    }
    for name in ["mcp__other__final_result", "final_result_2", "Run final_result", "programfinal_result"] {
        assert!(!tool.is_called_by(&call(name, None, good.clone())), "{name}");
    }
}

#[test]
fn tool_is_refused_outside_its_turn() {
    let mut peer = Peer::open_with(timing(), sources());
    assert_eq!(call(&mut peer, "a", &json!({"n": 1}))["is_error"], true);
    peer.prompt(1);
    assert_eq!(call(&mut peer, "b", &json!({"n": 1}))["is_error"], true);
    peer.finish();
    assert_eq!(outcome(&mut peer).expect("a result").output, None);
}

/// What can happen in a turn.
fn act(peer: &mut Peer, action: u8, checks: &mut Vec<RequestKey>) {
    match action {
        0 => say(peer, "{\"n\": 1}"),
        1 => say(peer, "{\"n\": \"1\"} ["),
        2 => drop(call(peer, "a", &json!({"n": 1}))),
        3 => drop(call(peer, "b", &json!({}))),
        4 => peer.cancel(1),
        5 => peer.event("TurnEnd", &json!({})),
        6 => peer.answer("prompt", &json!({"status": "max_steps_reached"})),
        7 | 8 => {
            let errors = if action == 7 { vec![] } else { vec![OutputError::new("/n", "wrong")] };
            let Some(key) = checks.pop() else { return };
            peer.connection.output_checked(key, Ok(errors), peer.now);
        }
        9 => peer.event("StepBegin", &json!({"n": 1})),
        _ => peer.finish(),
    }
}

proptest::proptest! {
    #[test]
    fn success_always_has_value(
        actions in proptest::collection::vec(0..14_u8, 0..30),
        by_tool in proptest::bool::ANY,
        is_checked in proptest::bool::ANY,
        retries in 0..3_u32,
    ) {
        let mut peer = Peer::open_with(timing(), sources());
        begin(&mut peer, by_tool, is_checked, retries, TurnLimits::default());
        let (mut checks, mut ends, mut turn_ends) = (Vec::new(), Vec::new(), 0);
        // In the end the agent answers every prompt, and the program refuses every value.
        let rest = (0..8).flat_map(|_| [10, 8]);
        for action in actions.into_iter().chain(rest) {
            act(&mut peer, action, &mut checks);
            for output in outputs(&mut peer) {
                match output {
                    Output::CheckOutput { key, .. } => checks.push(key),
                    Output::Withdrawn(key) => checks.retain(|check| *check != key),
                    Output::TurnEnded { outcome, .. } => ends.push(outcome),
                    Output::Event { event, scope: Scope::Turn(..), .. } => {
                        turn_ends += usize::from(matches!(*event, Event::TurnEnd(_)));
                    }
                    _ => {}
                }
            }
        }
        proptest::prop_assert_eq!((ends.len(), turn_ends), (1, 1));
        match &ends[0] {
            Ok(result) if result.status == TurnStatus::Finished => {
                proptest::prop_assert_eq!(&result.output, &Some(json!({"n": 1})));
            }
            Err(Error::OutputInvalid(error)) => proptest::prop_assert_eq!(error.attempts, retries + 1),
            other => proptest::prop_assert!(other.is_ok(), "{:?}", other),
        }
    }
}
