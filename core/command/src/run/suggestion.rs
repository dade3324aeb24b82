//! The rules of a policy that would allow a tool call.

use std::path::Path;

use kimi_agent_policy::{Decision, Policy, PolicyVerdict};
use kimi_agent_protocol::messages::{ToolCallInfo, ToolKind};
use serde_json::{Value, json};

/// Arguments that a rule can have as its pattern.
const PATTERNS: [&str; 4] = ["command", "file_path", "path", "abs_path"];

/// How many rules are suggested at most.
const MAX_RULES: usize = 8;

/// Returns the narrowest rules that are known to allow this call: one, or one for each part of a compound command. A rule for all
/// commands is never suggested.
pub(crate) fn rules_for(call: &ToolCallInfo, work_dir: &Path) -> Vec<String> {
    let kind = call.kind.as_ref().map(ToolKind::as_str);
    let subjects = || kind.into_iter().chain([&*call.name]);
    let argument = |key: &&str| call.arguments.as_ref()?.get(*key)?.as_str();
    let narrow = PATTERNS
        .iter()
        .filter_map(argument)
        .flat_map(|pattern| subjects().map(move |name| format!("{name}({pattern})")));
    let narrow =
        narrow.collect::<Vec<_>>().into_iter().map(|rule| vec![rule]).find(|rules| allows(rules, call, work_dir));
    let parts = || subjects().find_map(|name| rules_for_parts(name, call, work_dir));
    let is_command = argument(&"command").is_some();
    let whole =
        || subjects().map(|name| vec![name.to_owned()]).find(|rules| !is_command && allows(rules, call, work_dir));
    narrow.or_else(parts).or_else(whole).unwrap_or_default()
}

/// Allows one part of the call after the other.
fn rules_for_parts(name: &str, call: &ToolCallInfo, work_dir: &Path) -> Option<Vec<String>> {
    let mut rules = Vec::new();
    while rules.len() < MAX_RULES {
        let verdict = verdict(&rules, call, work_dir)?;
        if verdict.decision == Decision::Allow {
            return Some(rules);
        }
        let rule = format!("{name}({})", verdict.part?);
        if rules.contains(&rule) {
            return None;
        }
        rules.push(rule);
    }
    verdict(&rules, call, work_dir).filter(|verdict| verdict.decision == Decision::Allow).map(|_| rules)
}

fn allows(rules: &[String], call: &ToolCallInfo, work_dir: &Path) -> bool {
    verdict(rules, call, work_dir).is_some_and(|verdict| verdict.decision == Decision::Allow)
}

fn verdict(rules: &[String], call: &ToolCallInfo, work_dir: &Path) -> Option<PolicyVerdict> {
    let policy: Value = json!({"default": "ask", "allow": rules});
    Policy::from_value(&policy).ok().map(|policy| policy.check(call, work_dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(call: Value) -> Vec<String> {
        rules_for(&serde_json::from_value(call).unwrap(), &std::env::temp_dir())
    }

    #[test]
    fn rule_allows_this_call() {
        let call = json!({"id": "1", "name": "Bash", "arguments": {"command": "git status"}});
        assert_eq!(rules(call), ["Bash(git status)"]);
        let call = json!({"id": "1", "name": "Write a.txt", "kind": "edit", "arguments": {"path": "a.txt"}});
        assert_eq!(rules(call), ["edit(a.txt)"]);
    }

    #[test]
    fn compound_command_has_a_rule_for_each_part() {
        let call = json!({"id": "1", "name": "Shell", "arguments": {"command": "git status && make test | tail -1"}});
        assert_eq!(rules(call), ["Shell(git status)", "Shell(make test)", "Shell(tail -1)"]);
    }

    #[test]
    fn unreadable_command_has_no_narrow_rule() {
        let call = json!({"id": "1", "name": "Shell", "arguments": {"command": "$(cat x"}});
        assert_eq!(rules(call), Vec::<String>::new());
    }
}
