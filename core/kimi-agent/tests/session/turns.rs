use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream;
use kimi_agent::wire::TokenUsage;
use kimi_agent::{Error, PromptOptions, SessionState, TurnStatus};
use kimi_agent_protocol::error::fields;
use serde_json::json;

use super::*;

fn tokens(output: i64) -> Value {
    json!({"usage": {"input_other": 10, "output": output, "input_cache_read": 1, "input_cache_creation": 2}})
}

#[tokio::test]
async fn session_reports_its_agent() {
    let (options, _agent) = with(json!({
        "server": {"name": "Test", "version": "3.2"},
        "slash_commands": [{"name": "compact", "description": "Shorten", "aliases": ["c"]}],
        "turns": [],
    }));
    let dir = tempfile::tempdir().unwrap();
    let session = options.work_dir(dir.path()).session_id("my-own").start().await.unwrap();
    assert_eq!((session.id(), session.state()), ("my-own", SessionState::Idle));
    assert_eq!(session.work_dir().canonicalize().unwrap(), dir.path().canonicalize().unwrap());
    assert_eq!(session.protocol_version(), "1.10");
    assert_eq!(session.server().unwrap().version, "3.2");
    assert_eq!(session.slash_commands()[0].name, "compact");
    assert!(session.capabilities().steer && !session.capabilities().hooks.is_empty());
    assert!(session.pid().is_some());
    assert!(session.external_tools().accepted.is_empty());
    assert_eq!(session.usage(), TokenUsage::default());
    session.close().await.unwrap();
    assert_eq!(session.state(), SessionState::Closed);
}

#[tokio::test]
async fn sessions_without_id_get_unique_ids() {
    let (one, other) = (open(json!([])).await, open(json!([])).await);
    assert_ne!(one.id(), other.id());
    assert_eq!(one.id().len(), 36);
}

#[tokio::test]
async fn turn_yields_events_then_outcome() {
    let session = open(json!([[{"think": "Hm."}, {"text": ["Hel", "lo"]}, tokens(5)], [{"text": "Again"}]])).await;
    let mut turn = session.prompt("hi").unwrap();
    assert_eq!((turn.id(), session.state()), ("turn-1", SessionState::Active));
    assert_eq!(
        rest(&mut turn).await,
        ["TurnBegin", "StepBegin", "ContentPart", "ContentPart", "ContentPart", "StatusUpdate", "TurnEnd"]
    );
    assert_eq!(session.state(), SessionState::Idle);
    let result = turn.result().await.unwrap();
    assert_eq!((result.status, result.steps, result.text.as_str()), (TurnStatus::Finished, 1, "Hello"));
    assert_eq!(turn.result().await.unwrap(), result);
    assert_eq!((turn.usage(), turn.discarded()), (result.usage, 0));
    let mut turn = session.prompt("hi").unwrap();
    assert_eq!(turn.id(), "turn-2");
    assert_eq!(turn.result().await.unwrap().text, "Again");
}

#[tokio::test]
async fn turn_streams_its_events() {
    let (_session, mut turn) = running(json!([{"text": "one"}])).await;
    let mut seen = 0;
    while let Some(event) = std::future::poll_fn(|cx| Pin::new(&mut turn).poll_next(cx)).await {
        event.unwrap();
        seen += 1;
    }
    assert_eq!(seen, 4);
}

#[tokio::test]
async fn outcome_comes_without_reader() {
    let session = open(json!([[{"repeat": {"times": 20_000, "actions": [{"text": "x"}]}, "bulk": true}], []])).await;
    let mut turn = session.prompt("go").unwrap();
    assert_eq!(turn.result().await.unwrap().text.len(), 20_000);
    let discarded = turn.discarded();
    let kept = rest(&mut turn).await.len() as u64;
    assert!(kept > 100 && discarded > 10_000 && kept + discarded == 20_003, "{kept} and {discarded}");
    session.prompt("next").unwrap().result().await.unwrap();
}

#[tokio::test]
async fn steps_are_read_separately_despite_repeated_numbers() {
    let script = json!([{"text": "a"}, {"step": 2}, {"text": "b"}, {"text": "unread"}, {"step": 1}, {"text": "c"}]);
    let (_session, mut turn) = running(script).await;
    let mut seen = Vec::new();
    let mut steps = turn.steps();
    while let Some(mut step) = steps.next().await {
        let n = step.n();
        while let Some(event) = step.next().await {
            if let Some(text) = event.unwrap().text() {
                seen.push((n, text.to_owned()));
                if text == "b" {
                    break;
                }
            }
        }
    }
    assert_eq!(seen, [(1, "a".to_owned()), (2, "b".to_owned()), (1, "c".to_owned())]);
    assert_eq!(turn.result().await.unwrap().steps, 3);
}

#[tokio::test]
async fn end_of_step_keeps_next_step_unread() {
    let (_session, mut turn) = running(json!([{"text": "a"}, {"step": 2}, {"text": "b"}])).await;
    let mut read = 0;
    let mut steps = turn.steps();
    let mut step = steps.next().await.unwrap();
    while step.next().await.is_some() {
        read += 1;
    }
    turn.result().await.unwrap();
    let mut steps = turn.steps();
    let mut step = steps.next().await.unwrap();
    assert_eq!(step.n(), 2);
    let mut left = 0;
    while step.next().await.is_some() {
        left += 1;
    }
    assert_eq!((read, left, turn.discarded()), (3, 3, 0));
}

#[tokio::test]
async fn turn_read_by_event_refuses_steps() {
    let script = json!([{"text": "a"}, {"step": 2}, {"text": "b"}]);
    let (_session, mut turn) = running(script.clone()).await;
    assert_eq!(turn.next().await.unwrap().unwrap().type_name(), "TurnBegin");
    let mut steps = turn.steps();
    let mut step = steps.next().await.unwrap();
    let error = step.next().await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid option `turn`: it has been read by event and can't be read by step any more; prompt again to read a turn by step"
    );
    assert!(step.next().await.is_none());
    assert!(steps.next().await.is_none());
    // The first reader continues, and so does the turn.
    assert_eq!(turn.next().await.unwrap().unwrap().type_name(), "StepBegin");
    assert_eq!(turn.result().await.unwrap().text, "b");

    let (_session, mut turn) = running(script).await;
    turn.steps().next().await.unwrap();
    let error = turn.next().await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid option `turn`: it has been read by step and can't be read by event any more; prompt again to read a turn by event"
    );
    assert!(turn.next().await.is_none());
    // Nothing of it has been read.
    assert_eq!(turn.steps().next().await.unwrap().n(), 1);
}

#[tokio::test]
async fn failure_is_last_thing_of_last_step() {
    let (_session, mut turn) =
        running(json!([{"text": "a"}, {"error": {"code": -32003, "message": "the model is down"}}])).await;
    let mut steps = turn.steps();
    let mut step = steps.next().await.unwrap();
    let error = loop {
        if let Err(error) = step.next().await.unwrap() {
            break error;
        }
    };
    assert_eq!((error.code(), error.is_rpc()), ("llm_service_error", true));
    assert!(step.next().await.is_none());
    assert!(steps.next().await.is_none());
    assert_eq!(turn.result().await.unwrap_err(), error);
}

#[tokio::test]
async fn second_turn_is_refused_while_one_runs() {
    let (session, turn) = running(json!([{"text": "a"}, {"wait_cancel": true}])).await;
    assert_eq!(session.prompt("again").unwrap_err().code(), "turn_in_progress");
    assert_eq!(session.replay().next().await.unwrap().unwrap_err().code(), "turn_in_progress");
    turn.cancel().await.unwrap();
}

#[tokio::test]
async fn cancelled_turn_has_outcome_and_next_works() {
    let session = open(json!([[{"text": "Work"}, {"wait_cancel": true}, {"text": "ing"}], [{"text": "Next"}]])).await;
    let mut turn = session.prompt("go").unwrap();
    until(&mut turn, "ContentPart").await;
    turn.cancel().await.unwrap();
    turn.cancel().await.unwrap();
    assert_eq!(rest(&mut turn).await.last().unwrap(), "TurnEnd");
    let result = turn.result().await.unwrap();
    assert_eq!((result.status, result.text.as_str()), (TurnStatus::Cancelled, "Working"));
    assert_eq!(result.raise_for_status().unwrap_err().code(), "turn_cancelled");
    assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, "Next");
}

#[tokio::test]
async fn dropped_turn_is_cancelled() {
    let session = open(json!([
        [{"repeat": {"times": 10_000, "actions": [{"text": "old"}]}}, {"wait_cancel": true}],
        [{"text": "new"}],
        [{"text": "new"}],
    ]))
    .await;
    let mut turn = session.prompt("go").unwrap();
    until(&mut turn, "ContentPart").await;
    drop(turn);
    // This one waits for the end of the first, and is dropped before.
    drop(session.prompt("never").unwrap());
    let mut turn = session.prompt("go").unwrap();
    assert!(matches!(turn.next().await.unwrap().unwrap(), Event::TurnBegin(_)));
    assert_eq!(turn.result().await.unwrap().text, "new");
}

#[tokio::test]
async fn max_steps_reached_is_reported() {
    let (options, _agent) = with(json!([[{"text": "a"}, {"step": null}, {"text": "b"}, {"step": null}]]));
    let session = options.max_steps_per_turn(2).start().await.unwrap();
    let result = session.prompt("go").unwrap().result().await.unwrap();
    assert_eq!((result.status, result.steps), (TurnStatus::MaxStepsReached, 2));
    let error = result.raise_for_status().unwrap_err();
    assert_eq!((error.code(), fields(&error)["steps"].as_i64()), ("max_steps_reached", Some(2)));
}

#[tokio::test]
async fn steer_reaches_turn_and_only_running_one() {
    let (_session, mut turn) = running(json!([{"text": "a"}, {"wait_steer": true}, {"text": "{{steer}}!"}])).await;
    until(&mut turn, "ContentPart").await;
    turn.steer("to the left").await.unwrap();
    until(&mut turn, "SteerInput").await;
    assert_eq!(turn.result().await.unwrap().text, "to the left!");
    assert_eq!(turn.steer("more").await.unwrap_err().code(), "no_active_turn");
}

#[tokio::test]
async fn loop_over_text_can_cancel_turn() {
    let (_session, mut turn) = running(json!([{"text": ["a", "b"]}, {"wait_cancel": true}])).await;
    let mut text = String::new();
    let mut pieces = turn.text_stream();
    while let Some(piece) = pieces.next().await {
        text.push_str(&piece.unwrap());
        if text == "ab" {
            turn.cancel().await.unwrap();
        }
    }
    assert_eq!((&*text, turn.result().await.unwrap().status.as_str()), ("ab", "cancelled"));
}

#[tokio::test]
async fn older_text_stream_of_turn_fails() {
    let (_session, mut turn) = running(json!([{"text": "a"}, {"wait_steer": true}, {"text": "b"}])).await;
    until(&mut turn, "StepBegin").await;
    let mut first = turn.text_stream();
    assert_eq!(first.next().await.unwrap().unwrap(), "a");
    let later = async {
        let mut second = turn.text_stream();
        turn.steer("on").await.unwrap();
        second.next().await.unwrap().unwrap()
    };
    let (refused, text) = tokio::join!(first.next(), later);
    assert!(refused.unwrap().unwrap_err().to_string().contains("a newer text stream"));
    assert!(first.next().await.is_none());
    assert_eq!(text, "b");
}

#[tokio::test]
async fn plan_mode_change_is_reported() {
    let (outside, events) = std::sync::mpsc::channel();
    let (options, _agent) = with(json!([]));
    let session = options.on_event(move |event| drop(outside.send(event))).start().await.unwrap();
    session.set_plan_mode(true).await.unwrap();
    assert_eq!(session.status().plan_mode, Some(true));
    session.set_plan_mode(false).await.unwrap();
    assert_eq!(session.status().plan_mode, Some(false));
    session.close().await.unwrap();
    drop(session);
    let seen: Vec<_> = events.iter().map(|event| event.type_name().to_owned()).collect();
    assert_eq!(seen, ["StatusUpdate", "StatusUpdate"]);
}

#[tokio::test]
async fn session_can_be_resumed_and_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let script = json!({"session_file": "sessions.jsonl", "turns": [[{"text": ["Hel", "lo"]}]]});
    let (options, _agent) = with(script);
    let options = options.work_dir(dir.path()).session_id("mine");
    let session = options.clone().start().await.unwrap();
    session.prompt("remember me").unwrap().result().await.unwrap();
    session.close().await.unwrap();
    let session = options.start().await.unwrap();
    let mut past = session.replay();
    let mut events = Vec::new();
    while let Some(event) = past.next().await {
        events.push(event.unwrap());
    }
    assert!(matches!(&events[0], Event::TurnBegin(begin) if begin.user_input.text() == "remember me"));
    // Parts come merged.
    assert_eq!(events.iter().filter_map(Event::text).collect::<Vec<_>>(), ["Hello"]);
    session.prompt("go on").unwrap().result().await.unwrap();
}

#[tokio::test]
async fn usage_is_counted_by_turn_and_session() {
    let inner = json!({"type": "StatusUpdate", "payload": {
        "token_usage": {"input_other": 0, "output": 7, "input_cache_read": 0, "input_cache_creation": 0}}});
    let session = open(json!([
        [{"text": "a"}, tokens(1), {"step": null}, tokens(2)],
        [tokens(4), {"event": {"type": "SubagentEvent", "payload": {"parent_tool_call_id": "t", "event": inner}}}],
    ]))
    .await;
    assert_eq!(session.prompt("go").unwrap().result().await.unwrap().usage.output, 3);
    let mut turn = session.prompt("go").unwrap();
    rest(&mut turn).await;
    assert_eq!((turn.usage().output, turn.usage().total()), (11, 24));
    assert_eq!(session.usage().output, 14);
}

#[tokio::test]
async fn prompt_reaches_agent_unchanged() {
    use kimi_agent::wire::{Content, ContentPart};
    let session = open(json!([[{"text": "{{prompt}}"}], [{"text": "{{prompt}}"}]])).await;
    let text = "a\nb \u{2028} \u{1f600} \"\\ \u{0}";
    assert_eq!(session.prompt(text).unwrap().result().await.unwrap().text, text);
    let parts = vec![ContentPart::text("see "), ContentPart::image_url("data:image/png;base64,AAAA")];
    let mut turn = session.prompt(parts.clone()).unwrap();
    let Event::TurnBegin(begin) = until(&mut turn, "TurnBegin").await else { panic!("another") };
    assert_eq!(begin.user_input, Content::Parts(parts));
}

#[tokio::test]
async fn older_agents_work_with_fewer_capabilities() {
    for (version, replay) in [("1.0", false), ("1.1", false), ("1.3", true)] {
        let session = open(json!({"wire": version, "turns": [[{"text": "old"}], [{"wait_cancel": true}]]})).await;
        assert_eq!(session.protocol_version(), version);
        assert_eq!(session.capabilities().replay, replay);
        assert_eq!(session.set_plan_mode(true).await.unwrap_err().code(), "unsupported");
        let mut turn = session.prompt("go").unwrap();
        assert_eq!(rest(&mut turn).await.last().unwrap(), "TurnEnd");
        let turn = session.prompt("go").unwrap();
        turn.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn text_stream_yields_only_answer_text() {
    let script = json!([{"think": "Hm."}, {"text": ["Hel", "lo"]}, {"step": 2}, {"text": "!"}]);
    let (_session, mut turn) = running(script).await;
    let mut pieces = Vec::new();
    let mut text = turn.text_stream();
    while let Some(piece) = text.next().await {
        pieces.push(piece.unwrap());
    }
    assert_eq!(pieces, ["Hel", "lo", "!"]);
    assert_eq!(turn.result().await.unwrap().text, "!");
}

#[tokio::test]
async fn prompt_options_override_session_options() {
    let waiting = json!([{"text": "One"}, {"wait_cancel": true}]);
    let session = open(json!([waiting, waiting, [{"text": "Two"}]])).await;
    let brief = Duration::from_millis(50);
    let too_long = session.prompt(PromptOptions::new("go").timeout(brief)).unwrap().result().await.unwrap_err();
    assert!(too_long.to_string().contains("the prompt's `timeout`"), "{too_long}");
    let silent = session.prompt(PromptOptions::new("go").idle_timeout(brief)).unwrap().result().await.unwrap_err();
    assert!(matches!(silent, Error::Timeout(_)), "{silent}");
    let wrong = session.prompt(PromptOptions::new("go").timeout(Duration::ZERO)).unwrap_err();
    assert_eq!(fields(&wrong)["option"], "timeout");
    let minute = Duration::from_secs(60);
    let prompt = PromptOptions::new("go").timeout(minute).idle_timeout(minute);
    assert_eq!(session.prompt(prompt).unwrap().result().await.unwrap().text, "Two");
}

#[tokio::test]
async fn session_cancel_ends_running_and_dropped_turns() {
    let waiting = json!([{"text": "One"}, {"wait_cancel": true}]);
    let session = open(json!([waiting, waiting, waiting])).await;
    let mut turn = session.prompt("go").unwrap();
    session.cancel().await.unwrap();
    assert_eq!(turn.result().await.unwrap().status, TurnStatus::Cancelled);
    drop(session.prompt("go").unwrap());
    session.cancel().await.unwrap();
    assert_eq!(session.state(), SessionState::Idle);
    // One is under way, and another one behind it.
    drop(session.prompt("go").unwrap());
    let mut queued = session.prompt("again").unwrap();
    session.cancel().await.unwrap();
    assert_eq!(session.state(), SessionState::Idle);
    assert_eq!(queued.result().await.unwrap().status, TurnStatus::Cancelled);
    session.cancel().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(session.cancel().await.unwrap_err().code(), "session_closed");
    assert_eq!(queued.steer("more").await.unwrap_err().code(), "session_closed");
}

#[tokio::test]
async fn close_with_timeout_zero_kills_at_once() {
    const LONG: Duration = Duration::from_secs(3600);
    let script = json!([[{"text": "One"}, {"ignore_eof": true}, {"ignore_signal": "TERM"}, {"stall": true}]]);
    let (options, _agent) = with(script.clone());
    let session = options.close_timeout(LONG).cancel_timeout(LONG).start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    while turn.next().await.unwrap().unwrap().text().is_none() {}
    session.close_with_timeout(Duration::ZERO).await.unwrap();
    assert_eq!(turn.result().await.unwrap_err(), Error::session_closed());

    // A second close shortens the first.
    let (options, _agent) = with(script);
    let session = options.close_timeout(LONG).cancel_timeout(LONG).start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    while turn.next().await.unwrap().unwrap().text().is_none() {}
    let (closed, killed) = tokio::join!(session.close(), session.close_with_timeout(Duration::ZERO));
    closed.and(killed).unwrap();
}
