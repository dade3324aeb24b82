//! Approvals over Wire of calls that the agent describes during the decision, and messages with a member twice.

use std::sync::Arc;

use super::*;
use crate::answers::Approval;
use crate::dialect::Answer;
use crate::messages::{PolicyDecision, PolicyOutcome, ToolCallInfo};

/// Allows `make` and asks about the rest.
#[derive(Debug)]
struct Rules;

impl ToolRules for Rules {
    fn decide(&self, call: &ToolCallInfo, _: &str) -> PolicyDecision {
        let command = call.arguments.as_ref().and_then(|arguments| arguments.get("command")?.as_str());
        let is_make = command == Some("make") && call.name == "Shell";
        let decision = if is_make { PolicyOutcome::Allow } else { PolicyOutcome::Ask };
        let (tool_call, extra) = (call.clone(), Default::default());
        PolicyDecision { tool_call, decision, rule: None, source: None, reason: None, part: None, extra }
    }
}

fn in_turn(has_rules: bool) -> Peer {
    let rules: Option<Arc<Box<dyn ToolRules>>> = has_rules.then(|| Arc::new(Box::new(Rules) as Box<dyn ToolRules>));
    let sources = AnswerSources { approval: AnswerSource::Handler, rules, ..AnswerSources::default() };
    let mut peer = Peer::open_with(timing(), sources);
    peer.prompt(1);
    peer.said();
    peer
}

fn call(name: &str, arguments: Option<&str>) -> Value {
    json!({"type": "function", "id": "tc", "function": {"name": name, "arguments": arguments}})
}

/// Returns the answer to an approval that has this description, and during whose decision the agent sends these events.
fn approved(has_rules: bool, before: &[Value], description: &str, later: &[(&str, Value)]) -> Vec<String> {
    let mut peer = in_turn(has_rules);
    before.iter().for_each(|call| peer.event("ToolCall", call));
    let request = json!({"id": "a", "tool_call_id": "tc", "sender": "Shell", "action": "run command", "description": description});
    peer.request("r", "ApprovalRequest", &request);
    let mut outputs = std::iter::from_fn(|| peer.connection.poll_output());
    let key = outputs.find_map(|output| match output {
        Output::Ask { key, .. } => Some(key),
        _ => None,
    });
    let key = key.expect("a question");
    later.iter().for_each(|(kind, payload)| peer.event(kind, payload));
    peer.connection.answer(key, &Answer::Approval(Approval::Approve), peer.now);
    peer.said()
}

const APPROVED: &str = r#""r" {"request_id":"a","response":"approve"}"#;
const REJECTED: &str = r#""r" {"request_id":"a","response":"reject"}"#;

#[test]
fn approval_of_later_call() {
    let command = |command: &str| json!({"command": command, "timeout": 60}).to_string();
    let path = |path: &str| json!({"path": path, "content": "x"}).to_string();
    let part = |text: &str| ("ToolCallPart", json!({"arguments_part": text}));
    let none = || call("Shell", None);
    for (before, description, later, sent) in [
        // kimi-cli 1.30 describes the calls of subagents only now.
        (vec![], "Run command `foo`", vec![("ToolCall", call("Shell", Some(&command("foo"))))], APPROVED),
        (vec![], "Run command `foo`", vec![("ToolCall", call("Shell", Some(&command("rm x"))))], REJECTED),
        (vec![], "Go on", vec![("ToolCall", call("Shell", Some(&command("rm x"))))], REJECTED),
        (vec![], "Write file `/w/a`", vec![("ToolCall", call("WriteFile", Some(&path("a"))))], APPROVED),
        (vec![], "Write file `/w/a`", vec![("ToolCall", call("WriteFile", Some(&path("/w/b"))))], REJECTED),
        (vec![], "Call the tool", vec![("ToolCall", call("lookup", Some(r#"{"key":"a"}"#)))], APPROVED),
        (vec![none()], "Go on", vec![part(&command("foo"))], REJECTED),
        (vec![none()], "Run command `foo`", vec![part(&command("rm x"))], REJECTED),
        (
            vec![call("Shell", Some(&command("foo")))],
            "Run command `foo`",
            vec![("ToolCall", call("Delete", Some(&command("foo"))))],
            REJECTED,
        ),
    ] {
        for has_rules in [false, true] {
            assert_eq!(approved(has_rules, &before, description, &later), [sent], "{before:?} {description} {later:?}");
        }
    }
}

#[test]
fn repeated_members_are_not_allowed_by_a_rule() {
    let event = |kind: &str, payload: &Value| {
        json!({"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}}).to_string()
    };
    let known = event("ToolCall", &call("Shell", Some(r#"{"command":"make"}"#)));
    let payload = json!({"id": "a", "tool_call_id": "tc", "sender": "Shell", "action": "run", "description": "Run"});
    let params = json!({"type": "ApprovalRequest", "payload": payload});
    let asked = json!({"jsonrpc": "2.0", "id": "r", "method": "request", "params": params}).to_string();
    let none = ("", "");
    for (of_call, of_request, is_allowed) in [
        (none, none, true),
        ((r#""arguments":"#, r#""arguments":"{\"command\":\"rm x\"}","arguments":"#), none, false),
        ((r#""name":"#, r#""name":"Delete","name":"#), none, false),
        ((r#""id":"tc""#, r#""id":"other","id":"tc""#), none, false),
        ((r#""payload":"#, r#""payload":{},"payload":"#), none, false),
        (none, (r#""tool_call_id":"#, r#""tool_call_id":"other","tool_call_id":"#), false),
        (none, (r#""sender":"#, r#""sender":"Delete","sender":"#), false),
        (none, (r#""params":"#, r#""params":{},"params":"#), false),
    ] {
        let twice = |line: &str, (from, to): (&str, &str)| {
            assert!(line.contains(from), "{line}");
            line.replacen(from, to, 1)
        };
        let mut peer = in_turn(true);
        for line in [twice(&known, of_call), twice(&asked, of_request)] {
            peer.connection.handle_line(line.as_bytes(), peer.now);
        }
        let expected: &[&str] = if is_allowed { &[APPROVED] } else { &[] };
        assert_eq!(peer.said(), expected, "{of_call:?} {of_request:?}");
        // A handler sees that it is not the whole of what the agent said.
        let asked = std::iter::from_fn(|| peer.connection.poll_output()).find_map(|output| match output {
            Output::Ask { request, .. } => match *request {
                Event::ApprovalRequest(request) => request.tool_call.get().cloned(),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(asked.and_then(|call| call.changed), (!is_allowed).then_some(true), "{of_call:?} {of_request:?}");
    }
}
