//! Fuzzing of dialects: reading and writing.

use serde_json::{Value, json};

use super::scenario::Spoken;
use crate::answers::{Answers, Approval, HookDecision};
use crate::dialect::{Acp, Answer, Call, Dialect, Incoming, TerminalAnswer, Wire, WireVersion};
use crate::jsonrpc::{Message, parse};
use crate::messages::{Event, Node, SlashCommand, ToolReturnValue};

/// The byte that picks ACP. Its dialect remembers what was told, so the rest is lines.
const ACP: u8 = u8::MAX;

pub(super) fn check(which: u8, line: &[u8]) {
    if which == ACP {
        return check_acp(line);
    }
    let spoken = Spoken::all()[usize::from(which) % Spoken::all().len()];
    let mut dialect = spoken.dialect();
    match dialect.read_line(line) {
        Incoming::Event(event) => {
            stable(&event);
            if !spoken.is_legacy() {
                kept(&event, line);
            }
        }
        Incoming::Request { rpc_id, request } => {
            stable(&request);
            answers(&mut *dialect, &rpc_id, request.request_id().unwrap_or_default());
        }
        Incoming::UnknownMethod { rpc_id, method, params } => {
            assert!(serde_json::from_str::<&serde_json::value::RawValue>(params.get()).is_ok());
            written(&dialect.refuse(&rpc_id, -32601, &method), &rpc_id);
        }
        Incoming::Response { outcome, .. } => {
            if let Ok(welcome) = dialect.finish_handshake(outcome) {
                assert!(!spoken.is_legacy(), "{welcome:?}");
                assert!(welcome.protocol_version.parse::<WireVersion>().is_ok(), "{welcome:?}");
            }
        }
        Incoming::InvalidLine(reason) => assert!(!reason.is_empty()),
        other => panic!("no line of Wire is {other:?}"),
    }
}

/// Checks that every event of a turn can be written, and that every request gets one answer.
fn check_acp(lines: &[u8]) {
    let mut dialect = Acp::open("s");
    dialect.call("prompt-1", &Call::Prompt("hi".into())).expect("a prompt");
    for line in lines.split(|byte| *byte == b'\n') {
        let mut told = vec![dialect.read_line(line)];
        while let Some(incoming) = told.pop() {
            match incoming {
                Incoming::Batch(several) => told.extend(several),
                Incoming::Answered(bytes) => {
                    assert!(bytes.ends_with(b"\n") && bytes.iter().filter(|byte| **byte == b'\n').count() == 1)
                }
                Incoming::Event(event) | Incoming::OutOfTurn(event) => stable(&event),
                Incoming::ConfigOptions(_) => {}
                Incoming::Commands(commands) => {
                    let text = serde_json::to_string(&commands).expect("JSON");
                    let again: Vec<SlashCommand> = serde_json::from_str(&text).expect("what was written");
                    assert_eq!(again, commands);
                }
                Incoming::Request { rpc_id, request } | Incoming::OwnToolRequest { rpc_id, request } => {
                    stable(&request);
                    answers(&mut dialect, &rpc_id, request.request_id().unwrap_or_default());
                }
                Incoming::Choice { rpc_id, question, approval } => {
                    stable(&(*approval).into());
                    stable(&question);
                    answers(&mut dialect, &rpc_id, question.request_id().unwrap_or_default());
                }
                Incoming::UnknownMethod { rpc_id, method, .. } => {
                    written(&dialect.refuse(&rpc_id, -32601, &method), &rpc_id);
                }
                Incoming::Response { id, outcome } => {
                    if id.as_deref() == Some("prompt-1") {
                        let begun = dialect.call("prompt-1", &Call::Prompt("again".into()));
                        assert!(begun.is_ok_and(|line| line.ends_with(b"\n")));
                    }
                    let open = dialect.finish_handshake(outcome).expect("it was open before");
                    assert_eq!(open.session_id.as_deref(), Some("s"));
                }
                Incoming::Terminal { rpc_id, .. } => {
                    written(&dialect.answer_terminal(&rpc_id, TerminalAnswer::Done), &rpc_id);
                }
                Incoming::Cancelled { rpc_id } => assert!(!rpc_id.is_empty()),
                Incoming::InvalidLine(reason) => assert!(!reason.is_empty()),
                Incoming::Fatal(error) => panic!("nothing is fatal here: {error}"),
            }
        }
    }
    let cancel = dialect.call("cancel-2", &Call::Cancel).expect("a notification");
    assert!(cancel.ends_with(b"\n"));
}

/// Written as today's version has it and read again, an event is the same, to the byte.
fn stable(event: &Event) {
    let text = serde_json::to_string(event).expect("every event can be written");
    let again = match event {
        // Not of the wire: only programs are told of it, under this name.
        Event::Unknown(_) => serde_json::from_str(&text).expect("what was written can be read"),
        _ => {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"event","params":{text}}}"#);
            match Wire::new(WireVersion::LATEST).read_line(line.as_bytes()) {
                Incoming::Event(event) => *event,
                other => panic!("{text} is read as {other:?}"),
            }
        }
    };
    assert_eq!(&again, event, "{text}");
    assert_eq!(serde_json::to_string(&again).expect("JSON"), text);
    walk(&event.node());
}

/// The bindings' use of every event.
fn walk(node: &Node<'_>) {
    match node {
        Node::List(items) => items.iter().for_each(walk),
        Node::Message(message) => message.for_each_field(&mut |_, node| walk(&node)),
        Node::Json(json) => drop(json.to_value()),
        _ => {}
    }
}

/// Nothing that the agent wrote is missing from what the program gets.
fn kept(event: &Event, line: &[u8]) {
    let Message::Notification { params, .. } = parse(line) else { return };
    let Ok(params) = serde_json::from_str::<Value>(params.get()) else { return };
    if matches!(event, Event::Unknown(_)) || renamed(&params) {
        return;
    }
    let ours = serde_json::to_value(event).expect("JSON");
    let theirs = params.get("payload").cloned().unwrap_or_default();
    if let (Value::Array(items), "text") = (&theirs, ours["payload"]["type"].as_str().unwrap_or_default()) {
        // A part of the answer without a type: its texts are joined.
        let text = ours["payload"]["text"].as_str().expect("a text");
        return assert!(items.iter().filter_map(Value::as_str).all(|item| text.contains(item)), "{text}");
    }
    holds(&ours["payload"], &theirs, &mut vec!["payload".to_owned()]);
}

/// Former names become today's, wherever they stand.
fn renamed(value: &Value) -> bool {
    match value {
        Value::String(text) => text == "ApprovalRequestResolved" || text == "UnknownEvent",
        Value::Array(items) => items.iter().any(renamed),
        Value::Object(map) => map.iter().any(|(name, value)| name == "task_tool_call_id" || renamed(value)),
        _ => false,
    }
}

fn holds(ours: &Value, theirs: &Value, path: &mut Vec<String>) {
    match (ours, theirs) {
        // An event inside an event that can't be read is told as such, with all that came.
        (Value::Object(ours), _) if ours.get("type") == Some(&json!("UnknownEvent")) => {}
        (Value::Object(ours), Value::Object(theirs)) => {
            // The `type` of a tool call is a constant of the protocol: it is written, and whatever came is not looked at.
            let constant = ours.get("type") == Some(&json!("function"));
            // Of an event inside an event, only the type and the payload are kept.
            let envelope = ours.len() == 2 && ours.contains_key("type") && ours.contains_key("payload");
            let told = theirs.iter().filter(|(name, value)| {
                let passed_over = constant && *name == "type" || envelope && !ours.contains_key(*name);
                !value.is_null() && !passed_over
            });
            for (name, value) in told {
                path.push(name.clone());
                let Some(kept) = ours.get(name) else { panic!("{} is lost", path.join(".")) };
                holds(kept, value, path);
                path.pop();
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{}", path.join("."));
            ours.iter().zip(theirs).for_each(|(ours, theirs)| holds(ours, theirs, path));
        }
        // A whole number may be read as a fraction.
        (Value::Number(ours), Value::Number(theirs)) => {
            assert!(ours == theirs || ours.as_f64() == theirs.as_f64(), "{}: {ours}, not {theirs}", path.join("."));
        }
        (_, Value::Null) => {}
        _ => assert_eq!(ours, theirs, "{}", path.join(".")),
    }
}

fn answers(dialect: &mut dyn Dialect, rpc_id: &str, request_id: &str) {
    let answers = [
        Answer::Approval(Approval::ApproveForSession),
        Answer::Approval(Approval::Reject { feedback: Some("no\n\u{2028}\"".to_owned()) }),
        Answer::Question(None),
        Answer::Question(Some(Answers::new().answer("Which?", "A"))),
        Answer::Tool(ToolReturnValue::error("no")),
        Answer::Hook(HookDecision::Block("no".to_owned())),
    ];
    for answer in &answers {
        written(&dialect.answer(rpc_id, request_id, answer), rpc_id);
    }
    written(&dialect.refuse(rpc_id, -32602, request_id), rpc_id);
}

/// One line, an answer to that very id.
fn written(bytes: &[u8], rpc_id: &str) {
    #[derive(serde::Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        id: &'a serde_json::value::RawValue,
    }
    let line = bytes.strip_suffix(b"\n").expect("a whole line");
    assert!(!line.contains(&b'\n'), "two lines");
    let answer: Answer<'_> = serde_json::from_slice(line).expect("an answer");
    assert_eq!(answer.id.get(), rpc_id);
    assert!(matches!(parse(line), Message::Response { id: Some(_), .. }), "no answer");
}
