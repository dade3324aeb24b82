//! Changes of a call between the question about it and the approval.

use std::path::Path;
use std::sync::Arc;

use super::{Pending, ReplyTo, RequestKey};
use crate::connection::Connection;
use crate::connection::policy::is_said;
use crate::messages::ToolCallInfo;

impl Connection {
    /// Returns the reason if an approval came too late: the agent has described the call in another way since it asked.
    pub(in super::super) fn change_of_call(&mut self, key: RequestKey) -> Option<String> {
        let Pending { about, reply_to: ReplyTo::Agent(_), .. } = self.requests.pending.get(&key)? else { return None };
        let dialect = &self.dialect;
        let Some(asked) = &about.tool_call else {
            // The agent asked about a call before it described the call, as kimi-cli 1.30 does for subagents.
            let newest = self.tool_calls.find(about.agent.as_deref(), &about.call, &|id| dialect.call_details(id))?;
            let refusal = self.refusal_of_newer(&newest.call);
            return refusal.map(|reason| format!("the agent described this call while it was decided: {reason}"));
        };
        let (asked, agent, is_partial) = (Arc::clone(&asked.call), about.agent.clone(), about.is_partial);
        let is_new = |hash: &u64| !about.shown.contains(hash);
        let details = dialect.call_details(&asked.id);
        let shows_more = details.shown.iter().any(is_new);
        let is_replaced = details.replacements != about.replacements;
        let newest = self.tool_calls.find(agent.as_deref(), &asked.id, &|id| dialect.call_details(id))?.call;
        let is_completed = is_partial && asked.arguments != newest.arguments;
        let change = change_between(&asked, &newest)
            .or_else(|| is_completed.then_some("the arguments"))
            .or_else(|| shows_more.then_some("the change of a file"))
            .or_else(|| is_replaced.then_some("the description"))
            .or_else(|| (names_more(&asked, &newest) && !self.allows(&newest)).then_some("the files"));
        if let Some(change) = change {
            return Some(format!("the agent changed {change} of this call while it was decided"));
        }
        // The copy of large arguments takes long.
        let is_same = Arc::ptr_eq(&newest, &asked)
            || ToolCallInfo { changed: asked.changed, ..ToolCallInfo::clone(&newest) } == *asked;
        let refusal = if is_same { None } else { self.refusal_of_newer(&newest) };
        refusal.map(|reason| format!("the agent changed this call while it was decided: {reason}"))
    }
}

/// Returns what the agent has changed in a call since the program was asked about it.
pub(super) fn change_between(asked: &ToolCallInfo, newest: &ToolCallInfo) -> Option<&'static str> {
    if is_said(asked) && asked.arguments != newest.arguments {
        return Some("the arguments");
    }
    // A kind that says nothing is completed by a later one.
    let kind = |call: &ToolCallInfo| call.kind.clone().filter(|kind| kind.as_str() != "other");
    if kind(asked).is_some_and(|before| kind(newest).is_some_and(|now| now != before)) {
        return Some("the kind");
    }
    let known = |path: &String| asked.diffs.iter().flatten().any(|known| known == path);
    let shows_more = newest.diffs.iter().flatten().any(|path| !known(path));
    shows_more.then_some("the changed files")
}

/// Returns whether the agent names files of which the program knew nothing when it was asked.
pub(super) fn names_more(asked: &ToolCallInfo, newest: &ToolCallInfo) -> bool {
    let arguments = asked.arguments.iter().flat_map(|arguments| arguments.values());
    let named: Vec<&str> = arguments.filter_map(serde_json::Value::as_str).filter(|text| !text.is_empty()).collect();
    let is_named = |path: &str| named.iter().any(|text| Path::new(path).ends_with(text));
    let known = |path: &String| asked.locations.iter().chain(&asked.diffs).flatten().any(|known| known == path);
    newest.locations.iter().flatten().any(|path| !known(path) && !is_named(path))
}
