//! A policy: its decisions come before any handler, and are reported.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::answers::Approval;
use crate::dialect::Answer;
use crate::messages::{PolicyDecision, PolicyOutcome, ToolCallInfo, ToolCallRequest, ToolReturnValue};

/// Denies a command with `rm`, asks about one with `git`, and allows other known commands. A rule asks about `git push`, and the
/// default about all others.
#[derive(Debug)]
struct Rules;

impl ToolRules for Rules {
    fn decide(&self, call: &ToolCallInfo, description: &str) -> PolicyDecision {
        let known = call.arguments.as_ref().and_then(|arguments| arguments.get("command")?.as_str());
        let command = known.or(Some(description).filter(|description| description.contains("rm")));
        let decision = match command {
            Some(command) if command.contains("rm") => PolicyOutcome::Deny,
            Some(command) if !command.contains("git") => PolicyOutcome::Allow,
            _ => PolicyOutcome::Ask,
        };
        let rule = match decision {
            PolicyOutcome::Deny => Some("execute(rm *)"),
            PolicyOutcome::Ask if command.is_some_and(|command| command.contains("push")) => {
                Some("execute(git push *)")
            }
            _ => None,
        };
        let rule = rule.map(str::to_owned);
        let (tool_call, extra) = (call.clone(), Default::default());
        PolicyDecision { tool_call, decision, rule, source: None, reason: None, part: None, extra }
    }
}

fn sources(approval: AnswerSource) -> AnswerSources {
    AnswerSources { approval, rules: Some(Arc::new(Box::new(Rules))), ..AnswerSources::default() }
}

fn in_turn(approval: AnswerSource) -> Peer {
    let mut peer = Peer::open_with(timing(), sources(approval));
    peer.prompt(1);
    peer.said();
    peer
}

fn call(peer: &mut Peer, command: &str) {
    let arguments = json!({ "command": command }).to_string();
    let function = json!({"name": "Shell", "arguments": arguments});
    peer.event("ToolCall", &json!({"type": "function", "id": "tc", "function": function}));
}

fn ask(peer: &mut Peer) -> Vec<String> {
    let request = json!({"id": "a", "tool_call_id": "tc", "sender": "Shell", "action": "run", "description": "Run"});
    peer.request("r", "ApprovalRequest", &request);
    peer.said()
}

const APPROVED: &str = r#""r" {"request_id":"a","response":"approve"}"#;
const REJECTED: &str = r#""r" {"request_id":"a","response":"reject"}"#;
const REJECTED_RM: &str = r#""r" {"request_id":"a","response":"reject","feedback":"the user's policy denies this"#;
const DENIED: &str =
    r#""r" {"request_id":"a","response":"reject","feedback":"the user's policy denies this: execute(rm *)"}"#;

#[test]
fn rules_decide_before_any_source() {
    for source in [AnswerSource::Default, AnswerSource::Handler, AnswerSource::Manual, AnswerSource::Yolo] {
        for (command, sent) in [("ls", APPROVED), ("rm x", DENIED)] {
            let mut peer = in_turn(source);
            call(&mut peer, command);
            peer.trace();
            assert_eq!(ask(&mut peer), [sent], "{command} {source:?}");
            assert_eq!(peer.trace(), ["1.0 ApprovalRequest", "1.0 PolicyDecision"]);
        }
    }
}

#[test]
fn open_decision_goes_to_the_source() {
    let mut peer = in_turn(AnswerSource::Handler);
    call(&mut peer, "git push");
    assert!(ask(&mut peer).is_empty());
    let mut peer = in_turn(AnswerSource::Default);
    call(&mut peer, "git push");
    assert_eq!(ask(&mut peer), [REJECTED]);
}

#[test]
fn unknown_call_is_decided_without_arguments() {
    let mut peer = in_turn(AnswerSource::Default);
    assert_eq!(ask(&mut peer), [REJECTED]);
}

#[test]
fn unknown_call_is_denied_by_description() {
    let mut peer = in_turn(AnswerSource::Yolo);
    let request =
        json!({"id": "a", "tool_call_id": "tc", "sender": "Shell", "action": "run", "description": "Run `rm x`"});
    peer.request("r", "ApprovalRequest", &request);
    assert_eq!(peer.said(), [DENIED]);
}

#[test]
fn all_calls_of_one_id_must_be_allowed() {
    for (commands, sent) in [
        (["curl example.com", "ls"], APPROVED),
        (["git push", "ls"], REJECTED),
        (["ls", "git push"], REJECTED),
        (["ls", "rm x"], DENIED),
    ] {
        let mut peer = in_turn(AnswerSource::Default);
        commands.iter().for_each(|command| call(&mut peer, command));
        assert_eq!(ask(&mut peer), [sent], "{commands:?}");
    }
}

#[test]
fn turn_being_cancelled_asks_no_rule() {
    let mut peer = in_turn(AnswerSource::Default);
    call(&mut peer, "ls");
    peer.cancel(1);
    peer.said();
    assert_eq!(ask(&mut peer), [REJECTED]);
}

#[test]
fn policy_hook_blocks_denied_calls_unseen() {
    let hook = |command: &str| {
        let data = json!({"tool_call_id": "tc", "tool_name": "Shell", "tool_input": {"command": command}});
        json!({"id": "k", "subscription_id": POLICY_HOOK, "event": "PreToolUse", "target": "Shell", "input_data": data})
    };
    let mut peer = in_turn(AnswerSource::Default);
    for command in ["ls", "git push"] {
        peer.request("r", "HookRequest", &hook(command));
        assert_eq!(peer.said(), [r#""r" {"request_id":"k","action":"allow","reason":""}"#]);
        assert!(peer.trace().is_empty());
    }
    peer.request("r", "HookRequest", &hook("rm x"));
    let reason = "the user's policy denies this: execute(rm *)";
    assert_eq!(peer.said(), [format!(r#""r" {{"request_id":"k","action":"block","reason":"{reason}"}}"#)]);
    assert_eq!(peer.trace(), ["1.0 PolicyDecision"]);
}

#[test]
fn policy_hook_reads_input_that_is_text() {
    let mut peer = in_turn(AnswerSource::Default);
    let input = r#"{"command": "rm x"}"#;
    let data = json!({"tool_call_id": "tc", "tool_name": "Shell", "tool_input": input});
    let hook = json!({"id": "k", "subscription_id": POLICY_HOOK, "event": "PreToolUse", "target": "Shell", "input_data": data});
    peer.request("r", "HookRequest", &hook);
    assert!(peer.said()[0].contains(r#""action":"block""#));
}

#[test]
fn arguments_with_repeated_names_are_not_known() {
    for (arguments, sent) in [
        (r#"{"command": "git status", "command": "ls"}"#, REJECTED),
        (r#"{"command": "ls", "x": {"a": 1, "\u0061": 2}}"#, REJECTED),
        (r#"{"command": "ls", "x": {"a": 1, "b": 2}, "y": {"a": 1}}"#, APPROVED),
    ] {
        let mut peer = in_turn(AnswerSource::Default);
        let function = json!({"name": "Shell", "arguments": arguments});
        peer.event("ToolCall", &json!({"type": "function", "id": "tc", "function": function}));
        assert_eq!(ask(&mut peer), [sent], "{arguments}");
    }
}

#[test]
fn policy_hook_blocks_calls_without_tool() {
    let mut peer = in_turn(AnswerSource::Default);
    for data in [json!({}), json!({"tool_input": {"command": "ls"}}), json!(null)] {
        let hook = json!({"id": "k", "subscription_id": POLICY_HOOK, "event": "PreToolUse", "input_data": data});
        peer.request("r", "HookRequest", &hook);
        assert_eq!(
            peer.said(),
            [
                r#""r" {"request_id":"k","action":"block","reason":"the call names no tool, so the user's policy cannot check it"}"#
            ]
        );
    }
}

#[test]
fn request_that_shows_another_command_is_a_change() {
    for (before, shown, sent) in [("ls", "rm x", REJECTED_RM), ("rm x", "ls", REJECTED_RM), ("ls", "ls", APPROVED)] {
        let mut peer = in_turn(AnswerSource::Handler);
        call(&mut peer, before);
        peer.trace();
        let display = json!([{"type": "shell", "language": "bash", "command": shown}]);
        let request = json!({"id": "a", "tool_call_id": "tc", "sender": "Shell", "action": "run", "description": "Run",
            "display": display});
        peer.request("r", "ApprovalRequest", &request);
        let answer = peer.said();
        assert!(answer.len() == 1 && answer[0].starts_with(sent), "{before} {shown}: {answer:?}");
        let mut expected = vec!["1.0 ApprovalRequest", "1.0 PolicyDecision"];
        if before != shown {
            expected.insert(0, "1.0 ToolCall");
        }
        assert_eq!(peer.trace(), expected, "{before} {shown}");
    }
}

#[test]
fn blocks_in_any_form_are_parts_of_the_call() {
    for (block, sent) in [
        (json!({"type": "shell", "language": "bash", "command": "ls"}), APPROVED),
        (json!({"type": "shell", "command": "ls"}), APPROVED),
        (json!({"type": "shell", "command": "rm x"}), REJECTED_RM),
        (json!({"type": "shell", "language": null, "command": ["rm", "x"]}), REJECTED),
        (json!({"type": "console", "command": "rm x"}), REJECTED_RM),
        (json!({"type": 7, "command": "git push"}), REJECTED),
        (json!({"type": "brief", "text": "rm x"}), APPROVED),
    ] {
        let mut peer = in_turn(AnswerSource::Default);
        call(&mut peer, "ls");
        let request = json!({"id": "a", "tool_call_id": "tc", "sender": "Shell", "action": "run", "description": "Run",
            "display": [block]});
        peer.request("r", "ApprovalRequest", &request);
        let answer = peer.said();
        assert!(answer.len() == 1 && answer[0].starts_with(sent), "{block}: {answer:?}");
    }
}

#[test]
fn description_of_another_command_is_a_change() {
    let described = |command: &str| format!("Run command `{command}`");
    for (before, text, sent) in [
        ("ls", described("rm x"), REJECTED_RM),
        ("rm x", described("ls"), REJECTED_RM),
        ("ls", described("ls"), APPROVED),
    ] {
        let mut peer = in_turn(AnswerSource::Default);
        call(&mut peer, before);
        let request = json!({"id": "a", "tool_call_id": "tc", "sender": "Shell", "action": "run", "description": text});
        peer.request("r", "ApprovalRequest", &request);
        let answer = peer.said();
        assert!(answer.len() == 1 && answer[0].starts_with(sent), "{before} {text}: {answer:?}");
    }
}

#[test]
fn request_of_another_tool_is_a_change() {
    let mut peer = in_turn(AnswerSource::Handler);
    call(&mut peer, "ls");
    peer.trace();
    let request = json!({"id": "a", "tool_call_id": "tc", "sender": "Delete", "action": "run", "description": "Run"});
    peer.request("r", "ApprovalRequest", &request);
    let decision = std::iter::from_fn(|| peer.connection.poll_output()).find_map(|output| match output {
        Output::Event { event, .. } => match *event {
            Event::PolicyDecision(decision) => Some(decision),
            _ => None,
        },
        _ => None,
    });
    let call = decision.expect("a decision").tool_call;
    assert_eq!((&*call.name, call.changed), ("Delete", Some(true)));
}

#[test]
fn pieces_after_changed_call_belong_to_call_before() {
    let mut peer = in_turn(AnswerSource::Handler);
    call(&mut peer, "ls");
    let other = json!({"name": "Shell", "arguments": "{\"command\":"});
    peer.event("ToolCall", &json!({"type": "function", "id": "other", "function": other}));
    let display = json!([{"type": "shell", "language": "bash", "command": "git push"}]);
    let request = |id: &str, call: &str, display: Value| json!({"id": id, "tool_call_id": call, "sender": "Shell", "action": "run", "description": "Run", "display": display});
    peer.request("r", "ApprovalRequest", &request("a", "tc", display));
    peer.event("ToolCallPart", &json!({"arguments_part": "\"ls\"}"}));
    peer.said();
    peer.request("s", "ApprovalRequest", &request("b", "other", json!([])));
    assert_eq!(peer.said(), [r#""s" {"request_id":"b","response":"approve"}"#]);
}

#[test]
fn policy_denies_own_tools() {
    let tools = ["query".to_owned()].into();
    let mut peer = Peer::open_with(timing(), AnswerSources { tools, ..sources(AnswerSource::Yolo) });
    peer.prompt(1);
    peer.said();
    for (command, is_denied) in [("ls", false), ("rm x", true)] {
        peer.trace();
        let arguments = json!({ "command": command }).to_string();
        peer.request("r", "ToolCallRequest", &json!({"id": "q", "name": "query", "arguments": arguments}));
        let answer = peer.said();
        assert_eq!(answer.iter().any(|answer| answer.contains("policy denies")), is_denied, "{answer:?}");
        assert_eq!(peer.trace().contains(&"1.0 PolicyDecision".to_owned()), is_denied);
    }
}

/// A session with a tool of the program, `query`, and a turn.
fn with_tool(approval: AnswerSource) -> Peer {
    let tools = ["query".to_owned()].into();
    let mut peer = Peer::open_with(timing(), AnswerSources { tools, ..sources(approval) });
    peer.prompt(1);
    peer.said();
    peer.trace();
    peer
}

fn query(peer: &mut Peer, id: &str, command: &str) {
    let arguments = json!({ "command": command }).to_string();
    peer.request(id, "ToolCallRequest", &json!({"id": "q", "name": "query", "arguments": arguments}));
}

/// Returns the result of an own tool's call that was refused.
fn refused(id: &str, reason: &str) -> String {
    let value = json!({"is_error": true, "output": "", "message": reason, "display": []});
    format!("\"{id}\" {}", json!({"tool_call_id": "q", "return_value": value}))
}

#[test]
fn rule_asks_before_own_tool_is_called() {
    let value = || Answer::Tool(ToolReturnValue::ok("done"));
    let mut peer = with_tool(AnswerSource::Handler);
    query(&mut peer, "r", "git push");
    assert!(peer.said().is_empty());
    let approval = peer.asked();
    peer.connection.answer(approval, &Answer::Approval(Approval::Approve), Instant::now());
    let tool = peer.asked();
    peer.connection.answer(tool, &value(), Instant::now());
    assert!(peer.said()[0].contains("done"));
    // An approval is for one call.
    query(&mut peer, "s", "git push");
    let approval = peer.asked();
    peer.connection.answer(approval, &Answer::Approval(Approval::ApproveForSession), Instant::now());
    let tool = peer.asked();
    peer.connection.answer(tool, &value(), Instant::now());
    peer.said();
    // Exactly this call is approved for the session.
    query(&mut peer, "t", "git push");
    let tool = peer.asked();
    peer.connection.answer(tool, &value(), Instant::now());
    peer.said();
    query(&mut peer, "u", "git push --force");
    let approval = peer.asked();
    peer.connection.answer(approval, &Answer::Approval(Approval::reject("not today")), Instant::now());
    assert_eq!(peer.said(), [refused("u", "the user rejected this: not today")]);
    assert!(!peer.trace().iter().any(|output| output.starts_with("ask")));
}

#[test]
fn own_tool_is_not_called_without_approval() {
    for (source, told) in [
        (AnswerSource::Default, Some(refused("r", "the user rejected this"))),
        (AnswerSource::Manual, None),
        (AnswerSource::Yolo, None),
    ] {
        let mut peer = with_tool(source);
        query(&mut peer, "r", "git push");
        assert_eq!(peer.said(), Vec::from_iter(told), "{source:?}");
        let events = ["1.0 ToolCallRequest", "1.0 ApprovalRequest", "1.0 PolicyDecision"];
        let trace = peer.trace();
        assert_eq!(trace[..3], events, "{source:?}");
        // With `yolo` the SDK approves what rules ask about.
        assert_eq!(trace.len() > 3, source == AnswerSource::Yolo, "{trace:?}");
    }
    // Only the default asks.
    let mut peer = with_tool(AnswerSource::Default);
    query(&mut peer, "r", "git status");
    peer.asked();
}

#[test]
fn failed_handler_approves_no_own_tool() {
    let mut peer = with_tool(AnswerSource::Handler);
    query(&mut peer, "r", "git push");
    let approval = peer.asked();
    peer.connection.handler_failed(approval, "boom".to_owned(), Instant::now());
    assert_eq!(peer.said(), [refused("r", "the user rejected this")]);
}

#[test]
fn cancel_refuses_what_waits_for_an_approval() {
    let mut peer = with_tool(AnswerSource::Handler);
    query(&mut peer, "r", "git push");
    let approval = peer.asked();
    peer.cancel(1);
    assert!(peer.said().contains(&refused("r", "the turn was cancelled")));
    peer.connection.answer(approval, &Answer::Approval(Approval::Approve), Instant::now());
    assert!(peer.said().is_empty());
    assert!(!peer.trace().iter().any(|output| output.starts_with("ask")));
}

#[test]
fn report_of_agent_withdraws_no_question_of_sdk() {
    let mut peer = with_tool(AnswerSource::Handler);
    query(&mut peer, "r", "git push");
    let approval = peer.asked();
    peer.event("ApprovalResponse", &json!({"request_id": "approval of q", "response": "approve"}));
    assert!(!peer.trace().contains(&"withdrawn".to_owned()));
    peer.connection.answer(approval, &Answer::Approval(Approval::reject("no")), Instant::now());
    assert_eq!(peer.said(), [refused("r", "the user rejected this: no")]);
}

#[test]
fn manual_answer_lets_own_tool_be_called() {
    let mut peer = with_tool(AnswerSource::Manual);
    query(&mut peer, "r", "git push");
    peer.trace();
    let answer = ManualAnswer::Approval(Approval::Approve);
    peer.connection.respond("approval of q", answer, Instant::now()).expect("an open request");
    peer.asked();
}

#[test]
fn refusal_over_tools_server() {
    let call = || ToolCallRequest {
        id: "m".to_owned(),
        name: "query".to_owned(),
        arguments: Some(json!({"command": "git push"}).to_string()),
        extra: Default::default(),
    };
    let mut peer = with_tool(AnswerSource::Handler);
    let key = peer.connection.call_tool(call(), 0, Instant::now()).expect("an open connection");
    let approval = peer.asked();
    peer.connection.answer(approval, &Answer::Approval(Approval::reject("no")), Instant::now());
    let answered = std::iter::from_fn(|| peer.connection.poll_output()).find_map(|output| match output {
        Output::ToolAnswered { key, result } => Some((key, result.message)),
        _ => None,
    });
    assert_eq!(answered, Some((key, "the user rejected this: no".to_owned())));
    let key = peer.connection.call_tool(call(), 0, Instant::now()).expect("an open connection");
    let approval = peer.asked();
    peer.connection.cancel_tool_call("m", Instant::now());
    assert_eq!(withdrawn(&mut peer), [approval, key]);
    peer.connection.answer(approval, &Answer::Approval(Approval::Approve), Instant::now());
    assert!(peer.trace().is_empty());
    let key = peer.connection.call_tool(call(), 0, Instant::now()).expect("an open connection");
    let approval = peer.asked();
    peer.cancel(1);
    assert_eq!(withdrawn(&mut peer), [approval, key]);
}

fn withdrawn(peer: &mut Peer) -> Vec<RequestKey> {
    let outputs = std::iter::from_fn(|| peer.connection.poll_output());
    let key = |output| if let Output::Withdrawn(key) = output { Some(key) } else { None };
    outputs.filter_map(key).collect()
}

#[test]
fn command_that_is_only_shown_is_denied() {
    for (shown, sent) in [("ls", REJECTED), ("rm x", REJECTED_RM)] {
        let mut peer = in_turn(AnswerSource::Default);
        let display = json!([{"type": "shell", "language": "bash", "command": shown}]);
        let request = json!({"id": "a", "tool_call_id": "tc", "sender": "Shell", "action": "run", "description": "Run",
            "display": display});
        peer.request("r", "ApprovalRequest", &request);
        assert!(peer.said()[0].starts_with(sent), "{shown}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call with all of its arguments.
    Call(&'static str, &'static str),
    /// A call whose arguments follow.
    Begin(&'static str),
    /// The arguments of the last call.
    Part(&'static str),
    /// A request, which can show another command.
    Ask(&'static str, Option<&'static str>),
    End(&'static str),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || prop::sample::select(vec!["a", "b"]);
    let command = || prop::sample::select(vec!["ls", "ls", "pwd", "git", "rm x"]);
    let shown = prop::option::of(command());
    let step = prop_oneof![
        2 => (id(), command()).prop_map(|(id, command)| Step::Call(id, command)),
        1 => id().prop_map(Step::Begin),
        1 => command().prop_map(Step::Part),
        3 => (id(), shown).prop_map(|(id, shown)| Step::Ask(id, shown)),
        1 => id().prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..24)
}

/// What a model knows of the calls of an agent: the commands of each open id, the newest last. Nothing stands for arguments
/// that are not complete.
#[derive(Default)]
struct Model {
    open: HashMap<&'static str, Vec<Option<&'static str>>>,
    /// The call whose arguments are not complete, if no other call came after it.
    begun: Option<&'static str>,
}

fn decided(peer: &mut Peer) -> Option<PolicyDecision> {
    let outputs = std::iter::from_fn(|| peer.connection.poll_output());
    outputs
        .filter_map(|output| match output {
            Output::Event { event, .. } => match *event {
                Event::PolicyDecision(decision) => Some(decision),
                _ => None,
            },
            _ => None,
        })
        .last()
}

proptest! {
    #[test]
    fn no_decision_is_about_older_data_than_newest(steps in steps()) {
        let mut peer = in_turn(AnswerSource::Handler);
        let mut model = Model::default();
        for (number, step) in steps.into_iter().enumerate() {
            let send = |peer: &mut Peer, id: &str, arguments: &str| {
                let function = json!({"name": "Shell", "arguments": arguments});
                peer.event("ToolCall", &json!({"type": "function", "id": id, "function": function}));
            };
            match step {
                Step::Call(id, command) => {
                    send(&mut peer, id, &json!({ "command": command }).to_string());
                    model.open.entry(id).or_default().push(Some(command));
                    model.begun = None;
                }
                Step::Begin(id) => {
                    send(&mut peer, id, "{\"command\":");
                    model.open.entry(id).or_default().push(None);
                    model.begun = Some(id);
                }
                Step::Part(command) => {
                    let Some(known) = model.begun.take().and_then(|id| model.open.get_mut(id)) else { continue };
                    peer.event("ToolCallPart", &json!({"arguments_part": format!("{}}}", json!(command))}));
                    known.pop();
                    known.push(Some(command));
                }
                Step::End(id) => {
                    if model.open.remove(id).is_none() {
                        continue;
                    }
                    let value = json!({"is_error": false, "output": "", "message": "", "display": []});
                    peer.event("ToolResult", &json!({"tool_call_id": id, "return_value": value}));
                    model.begun = model.begun.filter(|begun| *begun != id);
                }
                Step::Ask(id, shown) => {
                    let display = shown.map(|command| json!({"type": "shell", "language": "bash", "command": command}));
                    let display: Vec<Value> = display.into_iter().collect();
                    let request = json!({"id": format!("q{number}"), "tool_call_id": id, "sender": "Shell",
                        "action": "run", "description": "Run", "display": display});
                    decided(&mut peer);
                    peer.request(&format!("r{number}"), "ApprovalRequest", &request);
                    let decision = decided(&mut peer);
                    prop_assert!(decision.is_some());
                    let Some(decision) = decision else { continue };
                    let mut known = model.open.get(id).cloned().unwrap_or_default();
                    let is_named = known.last().is_some_and(Option::is_some);
                    known.extend(shown.map(Some));
                    // The begin of the arguments is completed by a call with all of them.
                    known.retain(Option::is_some);
                    let is_open = is_named && !known.contains(&Some("git"));
                    let expected = if known.contains(&Some("rm x")) {
                        PolicyOutcome::Deny
                    } else if is_open {
                        PolicyOutcome::Allow
                    } else {
                        PolicyOutcome::Ask
                    };
                    prop_assert_eq!(decision.decision, expected, "{:?}", known);
                    if is_named {
                        let command = decision.tool_call.arguments.as_ref().and_then(|all| all.get("command")?.as_str());
                        prop_assert_eq!(command, known.last().copied().flatten());
                        let is_changed = known.iter().any(|command| command != known.last().unwrap_or(&None));
                        prop_assert_eq!(decision.tool_call.changed, is_changed.then_some(true), "{:?}", known);
                        if let Some(shown) = shown {
                            model.open.entry(id).or_default().push(Some(shown));
                        }
                    }
                }
            }
        }
    }
}
