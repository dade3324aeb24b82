//! A client and an agent that send anything: no crash, and no approval that nobody gave.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Play, RULES, permission, selected};

/// What one side sends.
#[derive(Clone, Debug)]
enum Act {
    Agent(Value),
    Client(Value),
    /// A message with some bytes replaced.
    Broken(bool, Value, Vec<(usize, u8)>),
    Bytes(bool, Vec<u8>),
}

const COMMANDS: [&str; 5] = ["git status", "make", "rm x", "git status; rm x", ""];

fn id() -> impl Strategy<Value = Value> {
    prop_oneof![(0..4).prop_map(|id| json!(id)), Just(json!("a")), Just(json!(1.0)), Just(json!(null))]
}

fn of_agent() -> impl Strategy<Value = Value> {
    let command = || prop::sample::select(&COMMANDS[..]);
    let call = || prop::sample::select(vec!["c1", "c2"]);
    let status = prop::sample::select(vec!["pending", "in_progress", "completed", "failed"]);
    let methods =
        prop::sample::select(vec!["fs/read_text_file", "fs/write_text_file", "terminal/create", "fs/x", "_x"]);
    prop_oneof![
        4 => (id(), command(), call(), any::<bool>()).prop_map(|(id, command, call, is_bare)| {
            let mut request = permission(id, command);
            request["params"]["toolCall"]["toolCallId"] = json!(call);
            if is_bare {
                request["params"]["toolCall"] = json!({"toolCallId": call});
            }
            request
        }),
        3 => (command(), call(), status, any::<bool>()).prop_map(|(command, call, status, is_new)| {
            let kind = if is_new { "tool_call" } else { "tool_call_update" };
            let update = json!({"sessionUpdate": kind, "toolCallId": call, "title": command, "kind": "execute",
                "status": status, "rawInput": {"command": command}});
            json!({"method": "session/update", "params": {"sessionId": "s", "update": update}})
        }),
        2 => (id(), methods, command()).prop_map(|(id, method, command)| {
            let params = json!({"sessionId": "s", "path": "/a", "content": "", "command": command});
            json!({"id": id, "method": method, "params": params})
        }),
        1 => id().prop_map(|id| json!({"id": id, "result": {"stopReason": "end_turn", "sessionId": "s"}})),
        1 => id().prop_map(|id| json!({"method": "$/cancel_request", "params": {"requestId": id}})),
    ]
}

fn of_client() -> impl Strategy<Value = Value> {
    let option = prop::sample::select(vec!["yes", "no", "always", "allow", "other"]);
    prop_oneof![
        4 => (id(), option).prop_map(|(id, option)| selected(id, option)),
        1 => id().prop_map(|id| json!({"id": id, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}})),
        1 => id().prop_map(|id| json!({"id": id, "method": "session/close", "params": {"sessionId": "s"}})),
        1 => Just(json!({"method": "session/cancel", "params": {"sessionId": "s"}})),
        1 => id().prop_map(|id| json!({"id": id, "result": {"content": ""}})),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let changes = || prop::collection::vec((any::<usize>(), any::<u8>()), 1..3);
    prop_oneof![
        6 => of_agent().prop_map(Act::Agent),
        6 => of_client().prop_map(Act::Client),
        2 => (of_agent(), changes()).prop_map(|(message, changes)| Act::Broken(true, message, changes)),
        1 => (of_client(), changes()).prop_map(|(message, changes)| Act::Broken(false, message, changes)),
        1 => (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(of_agent, bytes)| Act::Bytes(of_agent, bytes)),
    ]
}

/// The approvals among lines for the agent: the id, as text.
fn approvals(lines: &[Value]) -> Vec<String> {
    let outcome = |line: &Value| line["result"]["outcome"]["optionId"].as_str().map(str::to_owned);
    let is_approval = |line: &&Value| matches!(outcome(line).as_deref(), Some("yes" | "always"));
    lines.iter().filter(is_approval).map(key).collect()
}

/// The id of a message, with one text for all spellings of a number.
fn key(line: &Value) -> String {
    line["id"].as_f64().map_or_else(|| line["id"].to_string(), |number| number.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn no_approval_that_nobody_gave(acts in prop::collection::vec(act(), 1..40), enforces in any::<bool>()) {
        let settings = if enforces { format!("{RULES}\nenforce = \"calls\"\n") } else { RULES.to_owned() };
        let mut play = Play::prompted(&settings);
        // The requests that the client has got and not answered, by id.
        let mut shown: HashSet<String> = HashSet::new();
        for act in acts {
            let (is_agent, bytes) = match act {
                Act::Agent(message) => (true, message.to_string().into_bytes()),
                Act::Client(message) => (false, message.to_string().into_bytes()),
                Act::Broken(is_agent, message, changes) => {
                    let mut bytes = message.to_string().into_bytes();
                    for (at, byte) in changes {
                        let at = at % bytes.len();
                        bytes[at] = if byte == b'\n' { b' ' } else { byte };
                    }
                    (is_agent, bytes)
                }
                Act::Bytes(is_agent, bytes) => (is_agent, bytes.into_iter().filter(|byte| *byte != b'\n').collect()),
            };
            let now = play.now;
            let passed = match is_agent {
                true => play.guard.agent_line(&bytes, now),
                false => play.guard.client_line(&bytes, now),
            };
            prop_assert!(passed.is_ok());
            let got = play.agent_got();
            for id in approvals(&got) {
                if is_agent {
                    // The rules have decided, about a call without `rm`.
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    prop_assert!(!text.contains("rm x") && text.contains("request_permission"), "{text}");
                } else {
                    // The user has decided about a request that was shown, and the answer passes as it is.
                    prop_assert!(shown.contains(&id), "{id} {got:?}");
                    let line: Value = serde_json::from_slice(&bytes).unwrap();
                    prop_assert!(got.contains(&line));
                }
            }
            for line in got.iter().filter(|line| line["method"].is_null()) {
                shown.remove(&key(line));
            }
            for line in play.client_got() {
                let id = key(&line);
                if line["method"] == "session/request_permission" {
                    // A byte can make `git status; rm x` one command, which nothing denies.
                    let command = line["params"]["toolCall"]["rawInput"]["command"].as_str().unwrap_or_default();
                    let is_denied = COMMANDS.contains(&command) && command.contains("rm x");
                    prop_assert!(id.contains("kimi-agent-proxy") || !is_denied, "{line}");
                }
                if line["method"].is_string() && !id.contains("kimi-agent-proxy") {
                    shown.insert(id);
                }
            }
        }
    }
}
