//! Permission requests, and the answers of the user.

use serde_json::{Value, json};

use super::{Play, RULES, note, options, permission, selected};

#[test]
fn denied_request_is_rejected_and_the_user_told() {
    let mut play = Play::prompted(RULES);
    let got = play.agent(&permission(json!("p"), "rm -rf build"));
    assert!(note(&got).contains("denied: ") && note(&got).contains("rm"), "{got:?}");
    assert_eq!(play.agent_got(), [selected(json!("p"), "no")]);
    // The client has not got the request, so an answer of the client is none.
    assert!(play.client(&selected(json!("p"), "yes")).is_empty());
}

#[test]
fn allowed_request_is_approved_once() {
    let mut play = Play::prompted(RULES);
    assert!(play.agent(&permission(json!(0), "git status")).is_empty());
    assert_eq!(play.agent_got(), [selected(json!(0), "yes")]);
}

#[test]
fn each_part_of_a_command_is_decided() {
    let mut play = Play::prompted(RULES);
    play.agent(&permission(json!(0), "git status && rm -rf /"));
    assert_eq!(play.agent_got(), [selected(json!(0), "no")]);
}

#[test]
fn other_requests_are_for_the_user() {
    for choice in ["yes", "always", "no"] {
        let mut play = Play::prompted(RULES);
        let request = permission(json!(3), "make");
        assert_eq!(play.agent(&request), [request]);
        assert!(play.agent_got().is_empty());
        assert_eq!(play.client(&selected(json!(3), choice)), [selected(json!(3), choice)]);
    }
    let mut play = Play::prompted("");
    let request = permission(json!(3), "rm -rf x");
    assert_eq!(play.agent(&request), [request]);
    let cancelled = json!({"jsonrpc": "2.0", "id": 3, "result": {"outcome": {"outcome": "cancelled"}}});
    assert_eq!(play.client(&cancelled), [cancelled]);
}

#[test]
fn newest_description_of_the_call_decides() {
    let call = |input: Value| {
        json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "name": "Bash", "title": "Run", "kind": "execute",
            "status": "pending", "rawInput": input})
    };
    let bare = || {
        let mut request = permission(json!(1), "x");
        request["params"]["toolCall"] = json!({"toolCallId": "c1"});
        request
    };
    let mut play = Play::prompted(RULES);
    play.update(call(json!({"command": "rm -rf x"})));
    play.agent(&bare());
    assert_eq!(play.agent_got(), [selected(json!(1), "no")]);
    let mut play = Play::prompted(RULES);
    play.update(call(json!({})));
    play.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "rawInput": {"command": "git status"}}),
    );
    assert!(play.agent(&bare()).is_empty());
    assert_eq!(play.agent_got(), [selected(json!(1), "yes")]);
    // What the agent said before counts, too.
    let mut play = Play::prompted(RULES);
    play.update(call(json!({"command": "rm -rf x"})));
    play.agent(&permission(json!(1), "git status"));
    assert_eq!(play.agent_got(), [selected(json!(1), "no")]);
}

#[test]
fn approval_of_changed_call_is_refused() {
    let mut play = Play::prompted(RULES);
    assert_eq!(play.agent(&permission(json!(1), "make")).len(), 1);
    play.update(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "rawInput": {"command": "make install"}}),
    );
    assert_eq!(play.client(&selected(json!(1), "yes")), [selected(json!(1), "no")]);
    assert!(note(&play.client_got()).contains("changed"));
}

#[test]
fn unclear_answers_approve_nothing() {
    let clear = selected(json!(1), "yes").to_string();
    for line in [
        clear.replacen("\"yes\"", "\"future\"", 1),
        clear.replacen("\"selected\"", "\"future\"", 1),
        clear.replacen("\"optionId\":", "\"optionId\":\"no\",\"optionId\":", 1),
        clear.replacen("\"outcome\":\"selected\"", "\"outcome\":\"cancelled\",\"outcome\":\"selected\"", 1),
        clear.replacen("\"optionId\":", "\"OptionId\":\"no\",\"optionId\":", 1),
    ] {
        let mut play = Play::prompted(RULES);
        play.agent(&permission(json!(1), "make"));
        play.client_line(&line);
        assert_eq!(play.agent_got(), [selected(json!(1), "no")], "{line}");
        assert!(note(&play.client_got()).contains("not passed on"));
    }
    let mut play = Play::prompted(RULES);
    play.agent(&permission(json!(1), "make"));
    let error = json!({"id": 1, "error": {"code": -32603, "message": "the window was closed"}});
    assert_eq!(play.client(&error), [error]);
}

#[test]
fn options_that_can_be_mistaken_are_rejected() {
    for (place, key, value) in [(1, "name", "Reject"), (2, "optionId", "yes"), (1, "name", "No, never")] {
        let mut play = Play::prompted(RULES);
        let mut request = permission(json!(1), "make");
        request["params"]["options"][place][key] = json!(value);
        assert!(note(&play.agent(&request)).contains("mistaken"), "{request}");
        let [answer] = &play.agent_got()[..] else { panic!("no answer") };
        let outcome = &answer["result"]["outcome"];
        assert!(outcome["outcome"] == "cancelled" || outcome["optionId"] == "no", "{answer}");
    }
}

#[test]
fn question_about_a_denied_call_is_rejected() {
    let mut several = options();
    several[0] = json!({"optionId": "other", "name": "Run it later", "kind": "allow_once"});
    let request = |command: &str| {
        let mut request = permission(json!(1), command);
        request["params"]["options"] = several.clone();
        request
    };
    let mut play = Play::prompted(RULES);
    assert!(note(&play.agent(&request("rm -rf x"))).contains("denied"));
    assert_eq!(play.agent_got(), [selected(json!(1), "no")]);
    // The rules say nothing about which of several permissions is meant.
    let mut play = Play::prompted(RULES);
    assert_eq!(play.agent(&request("git status")), [request("git status")]);
    assert_eq!(play.client(&selected(json!(1), "other")), [selected(json!(1), "other")]);
}

#[test]
fn cancel_of_the_client_answers_open_requests() {
    let mut play = Play::prompted(RULES);
    play.agent(&permission(json!(1), "make"));
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}});
    let got = play.client(&cancel);
    assert_eq!(got.len(), 2, "{got:?}");
    assert_eq!((&got[0], &got[1]["result"]["outcome"]["outcome"]), (&cancel, &json!("cancelled")));
    assert!(play.client(&selected(json!(1), "yes")).is_empty());
    // The agent goes on asking.
    play.agent(&permission(json!(2), "git status"));
    let [answer] = &play.agent_got()[..] else { panic!("no answer") };
    assert_ne!(answer["result"]["outcome"]["optionId"], "yes");
    play.agent(&json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled"}}));
    play.prompt("s");
    play.agent(&permission(json!(3), "git status"));
    assert_eq!(play.agent_got(), [selected(json!(3), "yes")]);
}

#[test]
fn request_that_the_agent_withdraws_is_answered() {
    let mut play = Play::prompted(RULES);
    play.agent(&permission(json!(1), "make"));
    let withdrawn = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}});
    assert_eq!(play.agent(&withdrawn), [withdrawn]);
    let [answer] = &play.agent_got()[..] else { panic!("no answer") };
    assert!(answer["error"]["code"] == -32800 && answer["id"] == 1, "{answer}");
    assert!(play.client(&selected(json!(1), "yes")).is_empty());
}

#[test]
fn request_outside_a_turn_is_decided() {
    let mut play = Play::new(RULES);
    play.open("s");
    play.agent(&permission(json!(1), "rm x"));
    assert_eq!(play.agent_got(), [selected(json!(1), "no")]);
    assert_eq!(play.agent(&permission(json!(2), "make")).len(), 1);
}

#[test]
fn sessions_of_a_process_are_decided_apart() {
    let mut play = Play::prompted(RULES);
    let params = json!({"cwd": play.work_dir(), "mcpServers": []});
    play.client(&json!({"id": 5, "method": "session/new", "params": params}));
    play.agent(&json!({"id": 5, "result": {"sessionId": "t"}}));
    play.update(
        json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "name": "Bash", "title": "Run", "kind": "execute",
        "rawInput": {"command": "git status"}}),
    );
    let mut request = permission(json!(1), "x");
    request["params"]["toolCall"] = json!({"toolCallId": "c1"});
    request["params"]["sessionId"] = json!("t");
    // The call of the other session says nothing about this one.
    assert_eq!(play.agent(&request), [request.clone()]);
    assert!(play.agent_got().is_empty());
}
