//! Structured output: over a tool, in the text, after a correction, and never.

use kimi_agent::wire::Event;
use kimi_agent::{
    Budget, Error, ExternalTool, Output, OutputError, OutputMode, PromptOptions, SessionOptions, TurnStatus,
};
use serde_json::{Value, json};

use super::with;

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Review {
    approved: bool,
    problems: Vec<String>,
}

fn approved() -> Value {
    json!({"approved": true, "problems": []})
}

fn call(arguments: &Value) -> Value {
    json!({"external_tool": {"name": "final_result", "arguments": arguments}})
}

async fn one_shot(script: Value, output: Output) -> kimi_agent::Result<kimi_agent::PromptResult> {
    let (options, _agent) = with(script);
    kimi_agent::prompt(PromptOptions::new("Review").output(output), options).result().await
}

fn invalid(outcome: kimi_agent::Result<kimi_agent::PromptResult>) -> kimi_agent::OutputInvalid {
    match outcome {
        Err(Error::OutputInvalid(invalid)) => *invalid,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_shot_returns_typed_value() {
    let script = json!([[call(&approved()), {"text": "Done."}]]);
    let result = one_shot(script, Output::of::<Review>()).await.expect("a result");
    assert_eq!((result.text.as_str(), result.tool_calls.len()), ("Done.", 1));
    assert_eq!(result.output::<Review>().expect("a review"), Review { approved: true, problems: vec![] });
    assert_eq!(result.output::<Vec<u8>>().expect_err("another type").code(), "invalid_option");
}

#[tokio::test]
async fn model_corrects_call_in_turn() {
    let script = json!([[call(&json!({"approved": "yes"})), {"text": "{{last.message}}"}, call(&approved())]]);
    let (options, _agent) = with(script);
    let mut turn = kimi_agent::prompt(PromptOptions::new("Review").output(Output::of::<Review>()), options);
    let mut told = String::new();
    while let Some(event) = turn.next().await {
        told.push_str(event.expect("an event").text().unwrap_or_default());
    }
    assert!(
        told.contains("- /approved: want boolean, but got string") && told.contains("missing properties 'problems'"),
        "{told}"
    );
    let result = turn.result().await.expect("a result");
    assert_eq!(result.output, Some(approved()));
    assert_eq!(result.tool_calls.iter().map(|call| call.is_error).collect::<Vec<_>>(), [Some(true), Some(false)]);
}

#[tokio::test]
async fn missing_call_is_asked_for() {
    let script = json!([[{"text": "Looks good."}], [{"text": "{{prompt}}"}, call(&approved())]]);
    let (options, _agent) = with(script);
    let session = options.output(Output::of::<Review>()).start().await.expect("a session");
    // The tool is not one of the program.
    assert!(session.external_tools().accepted.is_empty() && session.external_tools().rejected.is_empty());
    let mut turn = session.prompt("Review").expect("a turn");
    let mut kinds = Vec::new();
    while let Some(event) = turn.next().await {
        kinds.push(event.expect("an event").type_name().to_owned());
    }
    assert_eq!(
        (kinds.first().map(String::as_str), kinds.last().map(String::as_str)),
        (Some("TurnBegin"), Some("TurnEnd"))
    );
    assert_eq!(kinds.iter().filter(|kind| *kind == "TurnEnd" || *kind == "TurnBegin").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| *kind == "SteerInput").count(), 1);
    let result = turn.result().await.expect("a result");
    assert_eq!((result.output, result.steps), (Some(approved()), 2));
}

#[tokio::test]
async fn value_never_comes() {
    let script = json!([[{"text": "one"}], [{"text": "two"}], [{"text": "three"}], [{"text": "four"}]]);
    let (options, _agent) = with(script);
    let session = options.output(Output::of::<Review>()).start().await.expect("a session");
    let error = invalid(session.prompt("Review").expect("a turn").result().await);
    assert_eq!((error.attempts, error.text.as_str(), error.result.text.as_str()), (3, "three", "three"));
    let messages = ["the tool `final_result` was not called", "the answer has no complete JSON value"];
    assert_eq!(error.errors, messages.map(|message| OutputError::new("", message)));
    assert_eq!(error.result.steps, 3);
    // The session can still be used.
    let plain =
        PromptOptions::new("Again").output(Output::new(json!({"type": "string"})).mode(OutputMode::Text).retries(0));
    assert_eq!(invalid(session.prompt(plain).expect("a turn").result().await).text, "four");
}

#[tokio::test]
async fn invalid_calls_cancel_turn() {
    let bad = call(&json!({}));
    let script = json!([[bad, bad, {"text": "Half"}, {"wait_cancel": true}]]);
    let error = invalid(one_shot(script, Output::of::<Review>().retries(1)).await);
    assert_eq!((error.attempts, error.text.as_str()), (2, "{}"));
    assert_eq!(error.result.status, TurnStatus::Cancelled);
}

#[tokio::test]
async fn prompt_of_open_session_uses_text() {
    for text in
        ["{\"n\": 1}", "So:\n```json\n{\"n\": 1}\n```\n", "It is {\"output\": {\"n\": 1}}.", "\"{\\\"n\\\": 1}\""]
    {
        let (options, _agent) = with(json!([[{"text": text}]]));
        let session = options.start().await.expect("a session");
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let mut turn = session.prompt(PromptOptions::new("Count").output(Output::new(schema))).expect("a turn");
        let Some(Ok(Event::TurnBegin(begin))) = turn.next().await else { panic!("no begin") };
        assert!(begin.user_input.text().starts_with("Count\n\n") && begin.user_input.text().contains("\"integer\""));
        assert_eq!(turn.result().await.expect("a result").output, Some(json!({"n": 1})), "{text}");
    }
}

#[tokio::test]
async fn legacy_protocol_uses_text() {
    let (options, _agent) = with(json!([[{"text": "[1]"}]]));
    let options = options.dialect("1.0".parse().expect("a dialect")).output(Output::of::<Vec<u8>>());
    let session = options.clone().start().await.expect("a session");
    assert_eq!(session.prompt("Go").expect("a turn").result().await.expect("a result").output, Some(json!([1])));
    let required = options.output(Output::of::<Vec<u8>>().mode(OutputMode::Tool));
    assert_eq!(required.start().await.expect_err("no tools").code(), "unsupported");
}

#[tokio::test]
async fn other_schemas_are_wrapped() {
    let script = json!([[call(&json!({"result": [{"approved": true, "problems": []}]}))]]);
    let result = one_shot(script, Output::of::<Vec<Review>>()).await.expect("a result");
    assert_eq!(result.output::<Vec<Review>>().expect("reviews").len(), 1);
}

#[tokio::test]
async fn program_refuses_value() {
    let output = Output::new(json!({"type": "object"})).check(|value| async move {
        match value["n"].as_i64() {
            Some(2) => Ok(()),
            Some(7) => panic!("seven"),
            _ => Err(vec![OutputError::new("/n", "expected 2")]),
        }
    });
    let calls = [1, 7].map(|n| call(&json!({"n": n})));
    let script = json!([[calls[0], {"text": "{{last.message}}"}, calls[1]], [{"text": "{\"n\": 2}"}]]);
    let result = one_shot(script, output.retries(3)).await.expect("a result");
    assert_eq!(result.output, Some(json!({"n": 2})));
    assert!(result.handler_failures[0].message.contains("seven"));
}

#[tokio::test]
async fn approval_never_reaches_handler() {
    let request =
        json!({"id": "a", "tool_call_id": "t", "sender": "final_result", "action": "call", "description": "…"});
    let script = json!([[
        {"request": {"type": "ApprovalRequest", "payload": request}},
        call(&approved())
    ]]);
    let (options, _agent) = with(script);
    let policy =
        kimi_agent::Policy::from_value(&json!({"default": "deny", "deny": ["final_result"]})).expect("a policy");
    let options = options
        .policy(policy)
        .on_approval(|request| async move { panic!("asked about {}", request.sender) })
        .output(Output::of::<Review>());
    let session = options.start().await.expect("a session");
    let result = session.prompt("Review").expect("a turn").result().await.expect("a result");
    assert_eq!(result.output, Some(approved()));
    assert!(result.rejected.is_empty() && result.handler_failures.is_empty());
}

#[tokio::test]
async fn cancel_during_correction_ends_turn() {
    let (options, _agent) = with(json!([[{"text": "?"}], [{"text": "{\"n\""}, {"wait_cancel": true}]]));
    let session = options.start().await.expect("a session");
    let prompt = PromptOptions::new("Go").output(Output::new(json!({"type": "object"})));
    let mut turn = session.prompt(prompt).expect("a turn");
    super::until(&mut turn, "SteerInput").await;
    super::until(&mut turn, "ContentPart").await;
    turn.cancel().await.expect("an end");
    let result = turn.result().await.expect("a result");
    assert_eq!((result.status, &result.output), (TurnStatus::Cancelled, &None));
    assert_eq!(result.output::<Value>().expect_err("no value").code(), "turn_cancelled");
}

#[tokio::test]
async fn budget_covers_follow_ups() {
    let (options, _agent) =
        with(json!([[{"text": "?"}], [{"text": "?"}, {"step": 2}, {"text": "!"}, {"wait_cancel": true}]]));
    let session = options.start().await.expect("a session");
    let prompt = PromptOptions::new("Go").output(Output::new(json!({"type": "object"}))).budget(Budget::new().steps(2));
    let Err(Error::BudgetExceeded(error)) = session.prompt(prompt).expect("a turn").result().await else {
        panic!("no error")
    };
    assert_eq!((error.used, error.result.output.is_none()), (3.0, true));
}

#[tokio::test]
async fn agent_dies_during_correction() {
    let (options, _agent) = with(json!([[{"text": "?"}], [{"text": "{"}, {"exit": 3}]]));
    let session = options.start().await.expect("a session");
    let prompt = PromptOptions::new("Go").output(Output::new(json!({"type": "object"})));
    let error = session.prompt(prompt).expect("a turn").result().await.expect_err("an exit");
    assert_eq!(error.code(), "agent_exited");
}

#[tokio::test]
async fn wrong_output_fails_where_given() {
    let tool = ExternalTool::new("final_result", "", json!({"type": "object"}), |_| async { Ok("") });
    let object = || Output::new(json!({"type": "object"}));
    for (options, part) in [
        (SessionOptions::new().tool(tool.clone()).output(object()), "`tools` has a tool named `final_result`"),
        (SessionOptions::new().output(object().name("a b")), "letters, digits"),
        (SessionOptions::new().output(Output::new(json!({"type": "text"}))), "at `/type`"),
        (SessionOptions::new().output(Output::new(json!({"$ref": "https://example.com/x"}))), "at `/$ref`"),
        (SessionOptions::new().output(Output::new(json!({"pattern": "(?=x)"}))), "at `/pattern`"),
    ] {
        let error = options.validate().expect_err("a wrong output");
        assert!(matches!(&error, Error::InvalidOption { option, .. } if option == "output"));
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(SessionOptions::new().tool(tool).output(object().name("other")).validate().is_ok());
    let (options, _agent) = with(json!([[]]));
    let session = options.start().await.expect("a session");
    let late = PromptOptions::new("Go").output(object().mode(OutputMode::Tool));
    assert_eq!(session.prompt(late).expect_err("too late").code(), "invalid_option");
}

#[tokio::test]
async fn large_value_passes() {
    let text = "0123456789abcdef".repeat(1 << 16);
    let values: Vec<_> = (0..10).map(|_| text.as_str()).collect();
    let value = json!({"parts": values});
    let result = one_shot(json!([[call(&value)]]), Output::new(json!({"type": "object"}))).await.expect("a result");
    assert_eq!(result.output, Some(value.clone()));
    let (options, _agent) = with(json!([[{"text": value.to_string()}]]));
    let session = options.start().await.expect("a session");
    let prompt = PromptOptions::new("Go").output(Output::new(json!({"type": "object"})));
    assert_eq!(session.prompt(prompt).expect("a turn").result().await.expect("a result").output, Some(value));
}
