use super::*;
use crate::Approval;
use crate::dialect::Answer;
use crate::messages::{ToolKind, ToolReturnValue};
use crate::{RejectedBy, ToolCallRecord};

const ASKED: AnswerSource = AnswerSource::Handler;

fn asking() -> AnswerSources {
    AnswerSources {
        approval: ASKED,
        question: ASKED,
        tools: ["add".to_owned()].into(),
        observed: true,
        ..AnswerSources::default()
    }
}

fn in_turn(policy: AnswerSources) -> Peer {
    let mut peer = Peer::open_with(timing(), policy);
    peer.prompt(1);
    peer
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function", "id": id, "function": {"name": name, "arguments": arguments}})
}

fn tool_result(id: &str, output: &str) -> Value {
    json!({"tool_call_id": id, "return_value": {"is_error": false, "output": output, "message": "", "display": []}})
}

fn in_subagent(agent: &str, kind: &str, payload: &Value) -> Value {
    json!({"parent_tool_call_id": "p", "agent_id": agent, "subagent_type": "coder", "event": {"type": kind, "payload": payload}})
}

impl Peer {
    /// The events that have come out, and the requests that handlers are asked.
    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next_output())
            .filter_map(|output| match output {
                Output::Event { event, .. } => Some(*event),
                Output::Ask { request, .. } => Some(*request),
                _ => None,
            })
            .collect()
    }

    fn outcome(&mut self) -> PromptResult {
        self.finish();
        let ended = |output| match output {
            Output::TurnEnded { outcome, .. } => Some(*outcome.unwrap()),
            _ => None,
        };
        std::iter::from_fn(|| self.next_output()).find_map(ended).expect("the end of the turn")
    }
}

/// The tool call that the SDK has added, as `name arguments`.
fn added(event: &Event) -> Option<String> {
    let call = match event {
        Event::ApprovalRequest(request) => &request.tool_call,
        Event::ToolResult(result) => &result.tool_call,
        Event::SubagentEvent(subagent) => return added(&subagent.event),
        _ => return None,
    };
    call.get().map(|call| format!("{} {}", call.name, json!(call.arguments)))
}

#[test]
fn streamed_call_is_in_approval_and_result() {
    let mut peer = in_turn(asking());
    peer.event("ToolCall", &call("tc", "Shell", "{\"comm"));
    peer.event("ToolCallPart", &json!({"arguments_part": "and\":"}));
    peer.event("ToolCallPart", &json!({"arguments_part": "\"ls\"}"}));
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.event("ToolResult", &tool_result("tc", "file"));
    let events = peer.events();
    let expected = Some(r#"Shell {"command":"ls"}"#.to_owned());
    let found: Vec<_> = events.iter().map(added).filter(Option::is_some).collect();
    assert_eq!(found, vec![expected; 3], "the event, the handler's request and the result");
}

#[test]
fn subagent_calls_are_separate_from_turn_calls() {
    let mut peer = in_turn(asking());
    peer.event("ToolCall", &call("tc", "Shell", "{\"a\":"));
    peer.event("SubagentEvent", &in_subagent("s", "ToolCall", &call("tc", "Read", "{\"b\":")));
    peer.event("ToolCallPart", &json!({"arguments_part": "1}"}));
    peer.event("SubagentEvent", &in_subagent("s", "ToolCallPart", &json!({"arguments_part": "2}"})));
    let mut of_subagent = approval("a1");
    of_subagent["agent_id"] = json!("s");
    of_subagent["sender"] = json!("Read");
    peer.request("r1", "ApprovalRequest", &of_subagent);
    peer.event("SubagentEvent", &in_subagent("s", "ToolResult", &tool_result("tc", "")));
    peer.event("ToolResult", &tool_result("tc", ""));
    let mut found: Vec<_> = peer.events().iter().filter_map(added).collect();
    found.dedup();
    assert_eq!(found, [r#"Read {"b":2}"#, r#"Shell {"a":1}"#]);
}

#[test]
fn unknown_tool_call_is_absent() {
    let mut peer = in_turn(asking());
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.event("ToolResult", &tool_result("other", ""));
    assert!(peer.events().iter().all(|event| added(event).is_none()));
}

#[test]
fn malformed_or_large_arguments_are_absent() {
    let mut peer = in_turn(asking());
    peer.event("ToolCall", &call("odd", "Shell", "{\"a\":"));
    peer.event("ToolResult", &tool_result("odd", ""));
    peer.event("ToolCall", &call("large", "Shell", &format!("{{\"a\":\"{}\"}}", "x".repeat(2 << 20))));
    peer.event("ToolResult", &tool_result("large", ""));
    peer.event("ToolCall", &call("many", "Shell", &format!("{{\"a\":[{}0]}}", "0,".repeat(1 << 16))));
    peer.event("ToolResult", &tool_result("many", ""));
    let found: Vec<_> = peer.events().iter().filter_map(added).collect();
    assert_eq!(found, ["Shell null", "Shell null", "Shell null"]);
}

#[test]
fn outcome_lists_calls_in_order_with_durations() {
    let mut peer = in_turn(asking());
    peer.event("ToolCall", &call("a", "Shell", "{\"n\":"));
    peer.wait(SECOND);
    peer.event("ToolCallPart", &json!({"arguments_part": "1}"}));
    peer.event("ToolCall", &call("b", "Read", "{\"n\":2}"));
    peer.event("ToolCall", &call("c", "Read", "{}"));
    peer.wait(2 * SECOND);
    peer.event("ToolResult", &tool_result("b", "two"));
    let mut failed = tool_result("a", "");
    failed["return_value"]["is_error"] = json!(true);
    failed["return_value"]["message"] = json!("no such file");
    peer.wait(SECOND);
    peer.event("ToolResult", &failed);
    let calls = peer.outcome().tool_calls;
    let short = |call: &ToolCallRecord| {
        let output = call.output.as_ref().map(|output| output.text());
        format!(
            "{} {} {} {output:?} {:?} {:?}",
            call.id,
            call.name,
            json!(call.arguments),
            call.is_error,
            call.duration
        )
    };
    assert_eq!(
        calls.iter().map(short).collect::<Vec<_>>(),
        [
            r#"a Shell {"n":1} Some("no such file") Some(true) Some(3s)"#,
            r#"b Read {"n":2} Some("two") Some(false) Some(2s)"#,
            r#"c Read {} None None None"#,
        ]
    );
}

#[test]
fn outcome_keeps_bounded_details() {
    let mut peer = in_turn(asking());
    let output = "x".repeat(1 << 20);
    for n in 0..40 {
        peer.event("ToolCall", &call(&n.to_string(), "Shell", "{}"));
        peer.event("ToolResult", &tool_result(&n.to_string(), &output));
        peer.events();
    }
    for n in 40..20_000 {
        peer.event("ToolCall", &call(&n.to_string(), "Shell", "{}"));
        peer.event("ToolResult", &tool_result(&n.to_string(), ""));
        peer.events();
    }
    let calls = peer.outcome().tool_calls;
    assert_eq!(calls.len(), 10_000);
    let text = |n: usize| calls[n].output.as_ref().unwrap().text();
    assert!(text(0).starts_with('x') && text(0).ends_with("\n[… 786432 more bytes]"), "an output is cut at 256 KiB");
    assert_eq!(text(39), "\n[… 1048576 more bytes]", "4 MiB are full");
    let kept: usize = calls.iter().filter_map(|call| call.output.as_ref()).map(|output| output.text().len()).sum();
    assert!(kept < (4 << 20) + 10_000 * 40, "{kept}");
}

#[test]
fn outcome_omits_large_output_parts() {
    let mut peer = in_turn(asking());
    peer.event("ToolCall", &call("tc", "Shoot", "{}"));
    let url = format!("data:image/png;base64,{}", "A".repeat(300 << 10));
    let mut result = tool_result("tc", "");
    result["return_value"]["output"] =
        json!([{"type": "text", "text": "a picture"}, {"type": "image_url", "image_url": {"url": url}}]);
    peer.event("ToolResult", &result);
    let output = peer.outcome().tool_calls[0].output.clone().unwrap();
    assert_eq!(output, format!("a picture\n[… {} more bytes]", url.len()).into());
}

#[test]
fn outcome_lists_rejections_with_source() {
    let rejected = |policy: AnswerSources, act: &dyn Fn(&mut Peer)| {
        let mut peer = in_turn(policy);
        peer.event("ToolCall", &call("tc", "Shell", "{\"command\":\"ls\"}"));
        peer.events();
        peer.request("r1", "ApprovalRequest", &approval("a1"));
        act(&mut peer);
        let rejected = peer.outcome().rejected;
        assert_eq!(rejected.len(), 1);
        assert_eq!(rejected[0].description, "ls");
        assert_eq!(rejected[0].tool_call.as_ref().unwrap().name, "Shell");
        rejected[0].by
    };
    let no = Answer::Approval(Approval::Reject { feedback: None });
    let manual = || AnswerSources { approval: AnswerSource::Manual, ..asking() };
    assert_eq!(rejected(AnswerSources::default(), &|_| ()), RejectedBy::NoHandler);
    let by_handler = |peer: &mut Peer| {
        let key = peer.asked();
        peer.connection.answer(key, &no, peer.now);
    };
    assert_eq!(rejected(asking(), &by_handler), RejectedBy::Handler);
    let fails = |peer: &mut Peer| {
        let key = peer.asked();
        peer.connection.handler_failed(key, "no".to_owned(), peer.now);
    };
    assert_eq!(rejected(asking(), &fails), RejectedBy::HandlerFailed);
    assert_eq!(rejected(asking(), &|peer| peer.cancel(1)), RejectedBy::Cancelled);
    assert_eq!(rejected(asking(), &|_| ()), RejectedBy::Cancelled, "the turn ends before an answer");
    assert_eq!(rejected(manual(), &|peer| peer.connection.answer_undelivered("a1", peer.now)), RejectedBy::NoHandler);
    let by_hand = |peer: &mut Peer| {
        let answer = ManualAnswer::Approval(Approval::reject("no"));
        peer.connection.respond("a1", answer, peer.now).unwrap();
    };
    assert_eq!(rejected(manual(), &by_hand), RejectedBy::Handler);
}

#[test]
fn outcome_lists_failed_handlers() {
    let mut peer = in_turn(asking());
    peer.event("ToolCall", &call("tc", "add", "{\"a\":1}"));
    peer.events();
    peer.request("r1", "ToolCallRequest", &json!({"id": "tc", "name": "add", "arguments": "{\"a\":1}"}));
    let key = peer.asked();
    peer.connection.handler_failed(key, "it broke".to_owned(), peer.now);
    peer.connection.observer_failed(HandlerKind::Event, "it broke, too", "it broke, too".to_owned());
    let failures = peer.outcome().handler_failures;
    assert_eq!(failures.len(), 2);
    assert_eq!(failures[0].handler, HandlerKind::Tool);
    assert_eq!(failures[0].message, "it broke");
    let call = failures[0].tool_call.as_ref().unwrap();
    assert_eq!((&*call.name, json!(call.arguments)), ("add", json!({"a": 1})));
    assert_eq!((failures[1].handler.clone(), failures[1].tool_call.clone()), (HandlerKind::Event, None));
}

#[test]
fn next_turn_starts_without_tool_calls() {
    let mut peer = in_turn(asking());
    peer.event("ToolCall", &call("tc", "Shell", "{}"));
    assert_eq!(peer.outcome().tool_calls.len(), 1);
    peer.prompt(2);
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    assert!(peer.events().iter().all(|event| added(event).is_none()), "an id may repeat in a later turn");
    assert!(peer.outcome().tool_calls.is_empty());
}

fn questions() -> Value {
    json!({"id": "q1", "tool_call_id": "tc", "questions": [
        {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]},
        {"question": "Why?", "options": []},
    ]})
}

#[test]
fn answer_to_unknown_question_fails_handler() {
    let mut peer = in_turn(asking());
    peer.request("r1", "QuestionRequest", &questions());
    let key = peer.asked();
    peer.said();
    let answers = Answer::Question(Some(crate::Answers::new().answer("Wich?", "A")));
    peer.connection.answer(key, &answers, peer.now);
    assert_eq!(peer.said(), [r#""r1" {"request_id":"q1","answers":{}}"#]);
    let failures = peer.outcome().handler_failures;
    assert_eq!(
        failures[0].message,
        r#"the handler's result cannot be used: it answers "Wich?", which was not asked; the questions are: "Which?", "Why?""#
    );
}

#[test]
fn manual_answer_to_unknown_question_is_refused() {
    let mut peer = in_turn(AnswerSources { question: AnswerSource::Manual, ..asking() });
    peer.request("r1", "QuestionRequest", &questions());
    peer.said();
    let wrong = ManualAnswer::Json(json!({"Wich?": "A"}));
    assert_eq!(peer.connection.respond("q1", wrong, peer.now).unwrap_err().code(), "invalid_option");
    let right = ManualAnswer::Json(json!({"Which?": "something else", "Why?": "because"}));
    peer.connection.respond("q1", right, peer.now).unwrap();
    assert_eq!(peer.said(), [r#""r1" {"request_id":"q1","answers":{"Which?":"something else","Why?":"because"}}"#]);
}

#[test]
fn replayed_results_have_their_calls() {
    let mut peer = Peer::open();
    let _call = peer.connection.start_replay(peer.now).unwrap();
    peer.event("ToolCall", &call("tc", "Shell", "{\"a\":1}"));
    peer.event("ToolResult", &tool_result("tc", ""));
    let found: Vec<_> = peer.events().iter().filter_map(added).collect();
    assert_eq!(found, [r#"Shell {"a":1}"#]);
}

#[test]
fn tool_kind_parses_acp_terms() {
    assert_eq!(ToolKind::from("execute"), ToolKind::Execute);
    assert_eq!(ToolKind::from("other").as_str(), "other");
    assert!(!ToolReturnValue::ok("").is_error);
}

#[test]
fn texts_of_outcome_are_bounded() {
    let mut peer = in_turn(AnswerSources::default());
    let (name, description) = ("n".repeat(5000), "d".repeat(5000));
    for number in 0..700 {
        let id = format!("{number:04000}");
        peer.event("ToolCall", &call(&id, &name, "{}"));
        let mut request = approval(&number.to_string());
        (request["tool_call_id"], request["sender"], request["description"]) =
            (json!(id), json!(name), json!(description));
        peer.request(&number.to_string(), "ApprovalRequest", &request);
        peer.event("ToolResult", &tool_result(&id, ""));
    }
    let outcome = peer.outcome();
    let rejected = |rejected: &crate::RejectedApproval| {
        let call = rejected.tool_call.as_ref();
        rejected.description.len() + call.map_or(0, |call| call.id.len() + call.name.len())
    };
    let calls: usize = outcome.tool_calls.iter().map(|call| call.id.len() + call.name.len()).sum();
    let kept = calls + outcome.rejected.iter().map(rejected).sum::<usize>();
    assert!(kept <= 8 << 20 && kept > 7 << 20, "{kept}");
    let first = &outcome.tool_calls[0];
    assert_eq!((first.id.len(), &first.name[4096..]), (4000, "\n[… 904 more bytes]"));
    assert!(outcome.rejected[0].description.ends_with("\n[… 904 more bytes]"));
}

#[test]
fn names_and_ids_of_open_calls_are_bounded() {
    let mut peer = in_turn(asking());
    let asked = |peer: &mut Peer, id: &str| {
        let mut request = approval("a");
        (request["tool_call_id"], request["sender"]) = (json!(id), json!(""));
        peer.request("r", "ApprovalRequest", &request);
        peer.events().iter().find_map(|event| match event {
            Event::ApprovalRequest(request) => Some(request.tool_call.get().cloned()),
            _ => None,
        })
    };
    let long = "c".repeat(4097);
    peer.event("ToolCall", &call(&long, "Shell", "{}"));
    assert_eq!(asked(&mut peer, &long), Some(None));
    // A name that was cut is not all that the agent said.
    peer.event("ToolCall", &call("cut", &"n".repeat(70_000), "{}"));
    let call_of = asked(&mut peer, "cut").flatten().expect("a call");
    assert_eq!((call_of.name.len(), call_of.changed), ((64 << 10) + "\n[… 4464 more bytes]".len(), Some(true)));
    for number in 0..300 {
        peer.event("ToolCall", &call(&format!("c{number}"), &"n".repeat(64 << 10), "{}"));
    }
    assert!(asked(&mut peer, "c200").flatten().is_some());
    assert_eq!(asked(&mut peer, "c299"), Some(None), "the names of the others take 16 MiB");
}

#[test]
fn pieces_after_unreadable_call() {
    for (second, arguments) in [
        (
            json!({"type": "function", "id": "2", "function": {"name": null, "arguments": ""}}),
            Some(r#"{"command":"rm"}"#),
        ),
        (json!({"type": "function", "id": null, "function": {"name": "Shell", "arguments": ""}}), None),
    ] {
        for first in ["", r#"{"command":"ls"}"#] {
            let mut peer = in_turn(asking());
            peer.event("ToolCall", &call("1", "ListFiles", first));
            peer.event("ToolCall", &second);
            peer.event("ToolCallPart", &json!({"arguments_part": r#"{"command":"rm"}"#}));
            peer.event("ToolResult", &tool_result("1", "one"));
            peer.event("ToolResult", &tool_result("2", "two"));
            let results: Vec<_> = peer.events().iter().filter_map(added).collect();
            let known = if first.is_empty() { "ListFiles null" } else { r#"ListFiles {"command":"ls"}"# };
            let mut expected = vec![known.to_owned()];
            expected.extend(arguments.map(|arguments| format!(" {arguments}")));
            assert_eq!(results, expected, "{second} {first}");
        }
    }
}
