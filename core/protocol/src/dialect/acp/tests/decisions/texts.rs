//! Texts of requests that say something else than the arguments, and calls of subagents that work elsewhere.

use super::*;
use crate::messages::PolicyDecision;

/// Allows `make`, denies `rm`, and asks about the rest. Says why arguments are missing, as policies do.
#[derive(Debug)]
struct Make;

impl ToolRules for Make {
    fn decide(&self, call: &ToolCallInfo, _: &str) -> PolicyDecision {
        let command = call.arguments.as_ref().and_then(|arguments| arguments.get("command")?.as_str());
        let is_rm = |text: &str| text.starts_with("rm ");
        let decision = if command.is_some_and(is_rm) {
            PolicyOutcome::Deny
        } else if command == Some("make") && !is_rm(&call.name) {
            PolicyOutcome::Allow
        } else {
            PolicyOutcome::Ask
        };
        let rule = is_rm(&call.name).then(|| "execute(rm *)".to_owned());
        let reason = command.is_none().then(|| "the agent did not send the arguments".to_owned());
        let (tool_call, extra) = (call.clone(), Default::default());
        PolicyDecision { tool_call, decision, rule, source: None, reason, part: None, extra }
    }
}

fn with_rules() -> Decided {
    Decided::with(Some(Arc::new(Box::new(Make))))
}

#[test]
fn shown_command_must_be_allowed_too() {
    for (title, decision) in [
        ("make", "allow"),
        ("`make`", "allow"),
        ("Running: make", "allow"),
        ("Running: mak…", "allow"),
        ("Run command `make`", "allow"),
        ("make (Build the program)", "allow"),
        ("Running: mak", "ask"),
        ("Running: rm…", "ask"),
        ("Build the program", "allow"),
        ("rm x", "ask"),
        ("`rm x`", "deny"),
        ("Running: rm x", "deny"),
        ("$ rm x", "deny"),
        ("`git push`", "ask"),
    ] {
        let command = json!({"kind": "execute", "rawInput": {"command": "make"}});
        for is_announced in [false, true] {
            let mut session = with_rules();
            if is_announced {
                session.call(command.clone());
            }
            let seen = session.ask(merged(command.clone(), json!({"title": title})));
            let (outcome, _) = seen.decision.expect("a decision");
            assert_eq!(outcome.as_str(), decision, "{title} {is_announced}");
        }
    }
}

#[test]
fn call_of_subagent_elsewhere_has_true_reason() {
    for (cwd, expected) in [("/project", None), ("/tmp", Some("the subagent works in another directory"))] {
        let mut session = with_rules();
        session.update(json!({"sessionUpdate": "subagent_update", "sessionId": "c", "cwd": cwd, "title": "Task",
            "state": {"state": "running"}}));
        let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
        let options = [option("once", "allow_once"), option("no", "reject_once")];
        let call = json!({"toolCallId": "t", "title": "Bash", "kind": "execute", "rawInput": {"command": "make"}});
        let params = json!({"sessionId": "c", "options": options, "toolCall": call});
        session.hear(&json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}));
        let mut outputs = std::iter::from_fn(|| session.connection.poll_output());
        let decision = outputs.find_map(|output| match output {
            Output::Event { event, .. } => match *event {
                Event::PolicyDecision(decision) => Some(decision),
                _ => None,
            },
            _ => None,
        });
        let decision = decision.expect("a decision");
        assert_eq!(decision.tool_call.changed, None, "{cwd}");
        assert!(decision.tool_call.arguments.is_some(), "{cwd}");
        let reason = decision.reason.unwrap_or_default();
        match expected {
            Some(expected) => assert!(reason.contains(expected), "{cwd}: {reason}"),
            None => assert_eq!(decision.decision, PolicyOutcome::Allow),
        }
    }
}
