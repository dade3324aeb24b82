use std::time::Duration;

use kimi_agent::{Error, prompt};
use kimi_agent_protocol::error::fields;
use serde_json::json;

use super::*;

/// An agent that is a line of shell.
#[cfg(unix)]
fn shell(line: &str) -> SessionOptions {
    SessionOptions::new().executable(["sh", "-c", line])
}

async fn failure(options: SessionOptions) -> Error {
    options.start().await.expect_err("it can't be opened")
}

#[tokio::test]
async fn missing_executable_is_spawn_error() {
    let error = failure(SessionOptions::new().executable("/no/such/kimi")).await;
    assert_eq!(error.code(), "spawn_error");
    assert!(error.to_string().contains("/no/such/kimi"), "{error}");
    let error = failure(SessionOptions::new().executable("no-such-kimi").env([("PATH", "/no/such/dir")])).await;
    assert_eq!(error.code(), "spawn_error");
    assert!(error.to_string().contains("no-such-kimi") && error.to_string().contains("/no/such/dir"), "{error}");
}

#[tokio::test]
async fn agent_of_other_protocol_is_handshake_error() {
    // It refuses the handshake with an answer that has no id.
    let agent = kimi_agent::testing::scripted_agent(json!([]));
    let error = failure(SessionOptions::new().executable(&agent).dialect(kimi_agent::Dialect::Acp)).await;
    assert_eq!(error.code(), "handshake_error");
    assert!(error.to_string().contains("set `dialect` to \"auto\" if it speaks Wire"), "{error}");
}

#[cfg(all(unix, feature = "kimi-web"))]
#[tokio::test]
async fn server_that_is_not_ready_has_one_error() {
    let options = shell("exec sleep 600").dialect(kimi_agent::Dialect::KimiWeb);
    let error = failure(options.handshake_timeout(Duration::from_millis(100))).await;
    assert_eq!(error.code(), "timeout");
    let (begin, hint) =
        ("the agent did not answer the handshake within 100ms", "check that `executable` names Kimi Code");
    assert!(error.to_string().starts_with(begin) && error.to_string().contains(hint), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn non_executable_file_is_spawn_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = failure(SessionOptions::new().executable(file.path())).await;
    assert_eq!(error.code(), "spawn_error");
    assert!(error.to_string().contains("not executable"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn immediate_agent_exit_is_error() {
    let error = failure(shell("echo 'no model, no fun' >&2; exit 3")).await;
    let Error::AgentExited(exit) = &error else { panic!("{error:?}") };
    assert_eq!((exit.exit_code, exit.signal.as_deref(), exit.stderr.as_str()), (Some(3), None, "no model, no fun\n"));
    assert_eq!(fields(&error)["exit_code"], 3);
}

#[cfg(unix)]
#[tokio::test]
async fn stderr_of_failed_start_is_quoted() {
    let error = failure(shell("echo 'kimi --wire has moved, please install something else'")).await;
    assert_eq!(error.code(), "handshake_error");
    let text = error.to_string();
    assert!(text.contains("has moved, please install") && text.contains("0.52 to 1.51"), "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn program_without_wire_fails_handshake() {
    // A busy machine may not let it say that in time.
    let mut limit = Duration::from_millis(100);
    let error = loop {
        let error = failure(shell("echo 'Welcome!'; cat > /dev/null").handshake_timeout(limit)).await;
        assert!(error.is_timeout(), "{error}");
        if error.to_string().contains("Welcome!") || limit > Duration::from_secs(20) {
            break error;
        }
        limit *= 4;
    };
    assert!(error.to_string().contains("Welcome!"), "{error}");
}

#[tokio::test]
async fn wrong_script_names_its_place() {
    let (options, _agent) = with(json!([[{"text": "a", "delay": "soon"}]]));
    let error = failure(options).await;
    assert_eq!(fields(&error)["option"], "executable");
    assert!(error.to_string().contains("turn 1, action 1"), "{error}");
}

#[tokio::test]
async fn wrong_options_are_named_before_anything_starts() {
    let error = failure(SessionOptions::new().max_steps_per_turn(0)).await;
    assert!(matches!(&error, Error::InvalidOption { option, .. } if option == "max_steps_per_turn"), "{error}");
    let (options, _agent) = with(json!({"wire": "1.5", "turns": []}));
    let hook = kimi_agent::Hook::new("Stop", |_| async { Ok(kimi_agent::HookDecision::Allow) });
    assert_eq!(failure(options.hook(hook)).await.code(), "unsupported");
}

#[tokio::test]
async fn turn_errors_have_their_codes() {
    let codes = [
        (-32000, "turn_in_progress"),
        (-32001, "llm_not_set"),
        (-32002, "llm_not_supported"),
        (-32003, "llm_service_error"),
        (-32004, "auth_expired"),
        (-32603, "rpc_error"),
    ];
    let error = |code: i64| json!([{"text": "a"}, {"error": {"code": code, "message": "m", "data": {"x": 1}}}]);
    let session = open(codes.iter().map(|(code, _)| error(*code)).collect()).await;
    for (number, code) in codes {
        let mut turn = session.prompt("go").unwrap();
        let error = turn.result().await.unwrap_err();
        assert_eq!((error.code(), error.is_rpc()), (code, true));
        assert_eq!(fields(&error)["rpc_code"], number);
        assert_eq!(fields(&error)["data"], json!({"x": 1}));
        // A reader that comes later gets the events, and then the error, once.
        let seen = rest(&mut turn).await;
        assert_eq!((&*seen[2], seen.last().map(String::as_str)), ("ContentPart", Some(error.code())));
        assert!(turn.next().await.is_none());
    }
}

#[tokio::test]
async fn agent_death_is_reported_after_last_events() {
    for (last, code, signal) in [
        (json!({"exit": 0}), Some(0), None),
        (json!({"exit": 3}), Some(3), None),
        (json!({"signal": "KILL"}), None, Some("SIGKILL")),
    ] {
        let (session, mut turn) = running(json!([{"text": "I feel "}, {"stderr": "fatal: memory"}, last])).await;
        let seen = rest(&mut turn).await;
        assert_eq!(seen[seen.len() - 2..], ["ContentPart", "agent_exited"]);
        let error = turn.result().await.unwrap_err();
        let Error::AgentExited(exit) = &error else { panic!("{error:?}") };
        assert_eq!((exit.exit_code, exit.signal.as_deref()), (code, signal));
        assert!(exit.stderr.contains("fatal: memory"), "{}", exit.stderr);
        assert_eq!(error.result().map(|result| &*result.text), Some("I feel "));
        // Later calls fail in the same way, but they end no turn.
        for later in [session.prompt("again").unwrap_err(), session.set_plan_mode(true).await.unwrap_err()] {
            assert_eq!((later.to_string(), later.result()), (error.to_string(), None));
        }
        assert_eq!(session.state().as_str(), "closed");
        session.close().await.unwrap();
    }
}

#[tokio::test]
async fn line_over_limit_ends_session() {
    let (options, _agent) = with(json!([[{"text": "x".repeat(5000)}]]));
    let session = options.max_line_bytes(4096).start().await.unwrap();
    let error = session.prompt("go").unwrap().result().await.unwrap_err();
    assert_eq!(error.code(), "protocol_error");
    assert!(error.to_string().contains("4096"), "{error}");
    assert_eq!(session.prompt("again").unwrap_err(), error);
    session.close().await.unwrap();
}

#[tokio::test]
async fn timeouts_end_turn_and_not_session() {
    let limit = Duration::from_millis(100);
    for deadline in [SessionOptions::idle_timeout, SessionOptions::turn_timeout] {
        let (options, _agent) = with(json!([[{"text": "a"}, {"wait_cancel": true}], [{"text": "b"}]]));
        let session = deadline(options, limit).start().await.unwrap();
        assert!(session.prompt("go").unwrap().result().await.unwrap_err().is_timeout());
        assert_eq!(session.state().as_str(), "idle");
    }
}

#[tokio::test]
async fn one_shot_fails_like_session() {
    let mut turn = prompt("hi", SessionOptions::new().executable("/no/such/kimi"));
    assert_eq!(turn.next().await.unwrap().unwrap_err().code(), "spawn_error");
    assert!(turn.next().await.is_none());
    assert_eq!(turn.result().await.unwrap_err().code(), "spawn_error");
    assert_eq!(turn.steer("more").await.unwrap_err().code(), "no_active_turn");
    let mut turn = prompt("hi", SessionOptions::new().max_steps_per_turn(0));
    assert_eq!(turn.result().await.unwrap_err().code(), "invalid_option");
}

#[test]
fn one_shot_without_runtime_fails() {
    let mut turn = prompt("hi", SessionOptions::new());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(turn.result()).unwrap_err().to_string().contains("runtime"));
}
