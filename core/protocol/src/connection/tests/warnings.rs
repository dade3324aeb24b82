//! Log records about handlers.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::*;
use crate::answers::Approval;
use crate::dialect::Answer;
use crate::messages::HandlerKind;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("a log").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The warnings that are logged meanwhile.
fn warnings_of(action: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .without_time()
        .finish();
    tracing::subscriber::with_default(subscriber, action);
    let text = String::from_utf8(log.0.lock().expect("a log").clone()).expect("text");
    text.lines().map(str::to_owned).collect()
}

fn asking(source: AnswerSource) -> Peer {
    let policy = AnswerSources {
        approval: source,
        tools: ["add".to_owned(), "find".to_owned()].into(),
        ..AnswerSources::default()
    };
    let mut peer = Peer::open_with(timing(), policy);
    peer.prompt(1);
    peer
}

#[test]
fn unanswered_approval_is_logged_once() {
    let mut peer = asking(AnswerSource::Handler);
    let began = peer.now;
    let warnings = warnings_of(|| {
        peer.request("r1", "ApprovalRequest", &approval("a1"));
        peer.wait(SECOND);
        peer.request("r2", "ApprovalRequest", &approval("a2"));
        peer.pass();
        assert_eq!(peer.now - began, MINUTE);
        peer.pass();
    });
    assert_eq!(peer.connection.poll_timeout(), None);
    let [warning] = &warnings[..] else { panic!("{warnings:#?}") };
    for part in ["WARN kimi_agent.handlers:", "waited 60s", "`on_approval`", "has not returned", "subject=\"run\""] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
}

#[test]
fn unanswered_manual_approval_names_respond() {
    let mut peer = asking(AnswerSource::Manual);
    let warnings = warnings_of(|| {
        peer.request("r1", "ApprovalRequest", &approval("a1"));
        peer.pass();
    });
    assert!(warnings.len() == 1 && warnings[0].contains("the program has not called `respond()`"), "{warnings:#?}");
}

#[test]
fn slow_tools_are_logged_by_name() {
    let mut peer = asking(AnswerSource::Handler);
    let warnings = warnings_of(|| {
        for (id, name) in [("1", "add"), ("2", "find"), ("3", "add")] {
            peer.request(id, "ToolCallRequest", &json!({"id": id, "name": name, "arguments": "{}"}));
        }
        peer.pass();
    });
    assert_eq!(warnings.len(), 2, "{warnings:#?}");
    assert!(warnings[0].contains("subject=\"add\"") && warnings[1].contains("subject=\"find\""), "{warnings:#?}");
}

#[test]
fn answered_approval_is_not_logged() {
    let mut peer = asking(AnswerSource::Handler);
    peer.trace();
    let warnings = warnings_of(|| {
        peer.request("r1", "ApprovalRequest", &approval("a1"));
        peer.wait(MINUTE - SECOND);
        let key = peer.asked();
        peer.connection.answer(key, &Answer::Approval(Approval::Approve), peer.now);
    });
    assert_eq!(peer.connection.poll_timeout(), None);
    assert!(warnings.is_empty(), "{warnings:#?}");
}

#[test]
fn failed_check_of_output_is_logged() {
    let mut peer = asking(AnswerSource::Handler);
    let warnings = warnings_of(|| {
        for error in ["no memory", "no disk"] {
            peer.connection.log_failure(&HandlerKind::Output, None, error);
        }
    });
    let [warning] = &warnings[..] else { panic!("{warnings:#?}") };
    assert!(
        warning.contains("a handler failed; the model gets the error") && warning.contains("no memory"),
        "{warning}"
    );
}

/// A timer is late, and the log has a rounded number.
const LATE: Duration = Duration::from_micros(1981);

fn quiet() -> Peer {
    let mut peer = Peer::open_with(Timing { quiet: Some(30 * SECOND + LATE), ..timing() }, AnswerSources::default());
    peer.prompt(1);
    peer
}

#[test]
fn quiet_agent_is_logged_once_a_turn() {
    let mut peer = quiet();
    let began = peer.now;
    let warnings = warnings_of(|| {
        peer.wait(SECOND);
        peer.event("TurnBegin", &json!({"user_input": "hi"}));
        peer.pass();
        assert_eq!(peer.now - began, 31 * SECOND + LATE);
        peer.event("StepBegin", &json!({"n": 1}));
    });
    assert_eq!(peer.connection.poll_timeout(), None);
    let [warning] = &warnings[..] else { panic!("{warnings:#?}") };
    assert!(warning.contains("has sent nothing for 30s: it waits for its model") && warning.contains("`idle_timeout`"));
}

#[test]
fn quiet_agent_that_runs_a_tool_is_no_warning() {
    let mut peer = quiet();
    let warnings = warnings_of(|| {
        let function = json!({"name": "Shell", "arguments": "{}"});
        peer.event("ToolCall", &json!({"type": "function", "id": "1", "function": function}));
        peer.pass();
    });
    assert_eq!(peer.connection.poll_timeout(), None);
    assert!(warnings.is_empty(), "{warnings:#?}");
}

#[test]
fn agent_that_waits_for_the_program_is_not_quiet() {
    let sources = AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() };
    let mut peer = Peer::open_with(Timing { quiet: Some(30 * SECOND), ..timing() }, sources);
    peer.prompt(1);
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    assert_eq!(peer.connection.poll_timeout(), Some(peer.now + MINUTE));
}
