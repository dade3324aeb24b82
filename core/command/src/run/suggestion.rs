//! The rule of a policy that would allow a tool call.

use std::path::Path;

use kimi_agent_policy::{Decision, Policy};
use kimi_agent_protocol::messages::{ToolCallInfo, ToolKind};
use serde_json::{Value, json};

/// Arguments that a rule can have as its pattern.
const PATTERNS: [&str; 4] = ["command", "file_path", "path", "abs_path"];

/// Returns the narrowest rule that is known to allow this call.
pub(crate) fn rule_for(call: &ToolCallInfo, work_dir: &Path) -> Option<String> {
    let kind = call.kind.as_ref().map(ToolKind::as_str);
    let subjects = || kind.into_iter().chain([&*call.name]);
    let argument = |key: &&str| call.arguments.as_ref()?.get(*key)?.as_str();
    let narrow = PATTERNS
        .iter()
        .filter_map(argument)
        .flat_map(|pattern| subjects().map(move |name| format!("{name}({pattern})")));
    narrow.chain(subjects().map(str::to_owned)).find(|rule| allows(rule, call, work_dir))
}

fn allows(rule: &str, call: &ToolCallInfo, work_dir: &Path) -> bool {
    let policy: Value = json!({"default": "ask", "allow": [rule]});
    Policy::from_value(&policy).is_ok_and(|policy| policy.check(call, work_dir).decision == Decision::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(call: Value) -> Option<String> {
        rule_for(&serde_json::from_value(call).unwrap(), &std::env::temp_dir())
    }

    #[test]
    fn rule_allows_this_call() {
        let call = json!({"id": "1", "name": "Bash", "arguments": {"command": "git status"}});
        assert_eq!(rule(call).as_deref(), Some("Bash(git status)"));
        let call = json!({"id": "1", "name": "Write a.txt", "kind": "edit", "arguments": {"path": "a.txt"}});
        assert_eq!(rule(call).as_deref(), Some("edit(a.txt)"));
    }

    #[test]
    fn unreadable_command_has_no_narrow_rule() {
        let call = json!({"id": "1", "name": "Shell", "arguments": {"command": "$(cat x"}});
        assert_ne!(rule(call).as_deref(), Some("Shell($(cat x)"));
    }
}
