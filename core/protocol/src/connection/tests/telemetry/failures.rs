//! Spans of steps and turns that fail, or are cancelled.

use super::*;

fn failed(kind: &str) -> (String, Value) {
    (kind.to_owned(), Value::Null)
}

fn ended(reason: &str) -> (String, Value) {
    ("ok".to_owned(), json!([reason]))
}

#[test]
fn open_step_has_error_of_turn() {
    for is_interrupted in [false, true] {
        let mut traced = Traced::open(AnswerSources::default());
        traced.begin_step();
        if is_interrupted {
            traced.peer.event("StepInterrupted", &json!({}));
        }
        traced.peer.refuse("prompt", -32003);
        assert_eq!(traced.steps(), [failed("llm_service_error")]);
        let durations = traced.memory.recorded(names::DURATION);
        assert!(durations.iter().all(|(_, of)| of[names::ERROR_TYPE] == "llm_service_error"), "{durations:?}");
        assert_eq!(durations.len(), 2);
    }
}

#[test]
fn open_step_ends_with_turn() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.peer.event("StepBegin", &json!({"n": 1}));
    traced.drain();
    traced.memory.clock.fetch_add(60_000_000_000, Ordering::Relaxed);
    traced.peer.connection.close(&Error::session_closed());
    assert_eq!(traced.steps(), [failed("session_closed")]);
    let (seconds, _) = traced.memory.recorded(names::DURATION).remove(0);
    assert!(seconds.as_f64().is_some_and(|seconds| seconds >= 60.0), "{seconds}");
}

#[test]
fn timeout_and_budget_are_errors_of_step() {
    let timing = Timing { turn: Some(SECOND), ..timing() };
    let budget = Budget::new().seconds(1.0);
    for (timing, budget, wanted) in [(timing, None, "timeout"), (self::timing(), Some(budget), "budget_exceeded")] {
        let mut traced = Traced::open_timed(timing, AnswerSources::default());
        if let Some(budget) = budget {
            traced.peer.connection.set_session_budget(budget);
        }
        traced.begin_step();
        traced.peer.pass();
        traced.peer.answer("prompt", &json!({"status": "cancelled"}));
        assert_eq!(traced.steps(), [failed(wanted)]);
    }
}

#[test]
fn cancelled_step_is_no_error() {
    for is_interrupted in [false, true] {
        let mut traced = Traced::open(AnswerSources::default());
        traced.begin_step();
        traced.peer.cancel(1);
        if is_interrupted {
            traced.peer.event("StepInterrupted", &json!({}));
        }
        traced.peer.answer("prompt", &json!({"status": "cancelled"}));
        assert_eq!(traced.steps(), [ended("cancelled")]);
        assert_eq!(traced.memory.span("invoke_agent Kimi").attributes[names::FINISH_REASONS], json!(["cancelled"]));
    }
}

#[test]
fn ended_steps_keep_reason_in_failed_turn() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.begin_step();
    traced.call("tc", "Shell");
    traced.result("tc", false);
    traced.peer.event("StepBegin", &json!({"n": 2}));
    traced.peer.event("StatusUpdate", &status(5));
    // The step is over, so this is not about a call of the model.
    traced.peer.event("StepInterrupted", &json!({}));
    traced.peer.refuse("prompt", -32003);
    assert_eq!(traced.steps(), [ended("tool_calls"), ended("stop")]);
}

#[test]
fn interrupted_step_in_turn_that_continues() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.begin_step();
    traced.peer.event("StepInterrupted", &json!({}));
    // Tokens after the interruption do not make it a success.
    traced.peer.event("StatusUpdate", &status(5));
    traced.peer.event("StepBegin", &json!({"n": 2}));
    traced.peer.finish();
    assert_eq!(traced.steps(), [failed("step_interrupted"), ended("stop")]);
    assert_eq!(traced.memory.span("invoke_agent Kimi").end.as_deref(), Some("ok"));
}

#[test]
fn open_step_of_subagent_has_error_of_turn() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.call("task", "Task");
    let begin = json!({"type": "StepBegin", "payload": {"n": 1}});
    traced.peer.event("SubagentEvent", &json!({"parent_tool_call_id": "task", "agent_id": "a1", "event": begin}));
    traced.peer.refuse("prompt", -32003);
    assert_eq!(traced.steps(), [failed("llm_service_error")]);
}

#[test]
fn step_without_valid_output_is_no_error() {
    let mut traced = Traced::open(AnswerSources::default());
    let plan = OutputPlan::new(&OutputSpec { retries: 0, ..OutputSpec::new(json!({"type": "object"})) });
    let output = TurnOutput { plan: Arc::new(plan.expect("a plan")), by_tool: false, is_checked: false };
    traced.trace_turn(1, false);
    let now = traced.peer.now;
    traced.peer.connection.prompt_for(1, "hi".into(), TurnLimits::default(), Some(output), now);
    traced.peer.event("StepBegin", &json!({"n": 1}));
    traced.peer.event("ContentPart", &json!({"type": "text", "text": "not JSON"}));
    traced.peer.finish();
    assert_eq!(traced.steps(), [ended("stop")]);
    assert_eq!(traced.memory.span("invoke_agent Kimi").end.as_deref(), Some("output_invalid"));
    assert_eq!(traced.memory.descriptions(), ["no valid output (attempts: 1)"]);
}

#[test]
fn message_of_failed_step_says_so() {
    let mut traced = Traced::open_capturing(AnswerSources::default(), true);
    traced.begin_step();
    traced.peer.refuse("prompt", -32003);
    traced.drain();
    let messages = &traced.memory.span("chat k2").attributes[names::OUTPUT_MESSAGES];
    let messages: Value = serde_json::from_str(messages.as_str().expect("text")).expect("JSON");
    let parts = json!([{"type": "text", "content": "I look."}]);
    assert_eq!(messages, json!([{"role": "assistant", "parts": parts, "finish_reason": "error"}]));
}

#[test]
fn cancelled_turn_is_no_error() {
    let mut traced = Traced::open(AnswerSources::default());
    traced.prompt();
    traced.call("tc", "Shell");
    traced.peer.cancel(1);
    traced.peer.answer("prompt", &json!({"status": "cancelled"}));
    traced.drain();
    assert_eq!(traced.memory.tree(), ["invoke_agent Kimi: ok", "  execute_tool Shell: cancelled"]);
    assert_eq!(traced.memory.span("invoke_agent Kimi").attributes[names::STATUS], "cancelled");
}
