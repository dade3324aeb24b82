//! The program's hooks, as the agent sees them: which hooks match, their input, and their decision.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::run::{Agent, Answer, Flow};
use super::types::HookSubscription;
use crate::messages::{HookAction, HookRequest, HookResolved, HookTriggered};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The hooks of one occasion.
#[derive(Debug)]
pub(crate) struct Hooks {
    event: String,
    target: String,
    subscriptions: Vec<HookSubscription>,
    /// The requests without an answer, and the deadline of each.
    asked: Vec<(String, Instant)>,
    /// The reason, if one of the hooks blocked.
    blocked: Option<String>,
    began: Instant,
}

impl Hooks {
    pub(crate) fn await_answer(&self, request_id: &str) -> bool {
        self.asked.iter().any(|(id, _)| id == request_id)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.asked.iter().map(|(_, until)| *until).min()
    }
}

impl HookSubscription {
    fn timeout(&self) -> Duration {
        self.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(DEFAULT_TIMEOUT)
    }
}

impl Agent {
    /// Announces the hooks of an event. `None` if there are none. With `only`, the hook with this id, even if it is not
    /// set.
    pub(crate) fn trigger(&mut self, event: &str, target: &str, only: Option<&str>) -> Flow<Option<Hooks>> {
        let client = self.server.client();
        let subscriptions: Vec<_> = match only {
            None => client.hooks_on(event, target).cloned().collect(),
            Some(id) => {
                let unset =
                    HookSubscription { id: id.to_owned(), event: event.to_owned(), matcher: None, timeout: None };
                vec![client.hooks.iter().find(|hook| hook.id == id).cloned().unwrap_or(unset)]
            }
        };
        if subscriptions.is_empty() || !self.server.speaks(8) {
            return Ok(None);
        }
        self.server.event(HookTriggered {
            event: event.to_owned(),
            target: Some(target.to_owned()),
            hook_count: i64::try_from(subscriptions.len()).ok(),
            extra: Default::default(),
        });
        self.sent()?;
        Ok(Some(Hooks {
            event: event.to_owned(),
            target: target.to_owned(),
            subscriptions,
            asked: Vec::new(),
            blocked: None,
            began: Instant::now(),
        }))
    }

    /// Sends a request to each hook. `input` is added to the fields that every hook gets.
    pub(crate) fn ask_hooks(&mut self, hooks: &mut Hooks, input: Map<String, Value>) -> Flow {
        let mut data = Map::from_iter([
            ("hook_event_name".to_owned(), json!(hooks.event)),
            ("session_id".to_owned(), json!(self.session)),
            ("cwd".to_owned(), json!(self.work_dir.display().to_string())),
        ]);
        data.extend(input);
        for hook in std::mem::take(&mut hooks.subscriptions) {
            let id = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
            let until = Instant::now().checked_add(hook.timeout()).unwrap_or_else(Instant::now);
            hooks.asked.push((id.clone(), until));
            let request = HookRequest {
                id: id.clone(),
                subscription_id: hook.id,
                event: hooks.event.clone(),
                target: Some(hooks.target.clone()),
                input_data: Some(data.clone()),
                extra: Default::default(),
            };
            self.server.request(&id, request);
            self.sent()?;
        }
        Ok(())
    }

    /// Reads an answer. An error allows, as does every answer that is not a clear block.
    pub(crate) fn hook_answered(&mut self, hooks: &mut Hooks, request_id: &str, answer: &Answer) {
        hooks.asked.retain(|(id, _)| id != request_id);
        let text = |name: &str| answer.as_ref().ok().and_then(|answer| answer.get(name)?.as_str()).unwrap_or_default();
        let action = if text("action") == "block" { "block" } else { "allow" };
        self.last = json!({"action": action, "reason": text("reason")});
        if action == "block" && hooks.blocked.is_none() {
            hooks.blocked = Some(text("reason").to_owned());
        }
    }

    /// Gives up the hooks whose deadline was exceeded. Returns whether no request is open.
    pub(crate) fn hooks_are_done(&mut self, hooks: &mut Hooks) -> bool {
        let now = Instant::now();
        for (id, _) in hooks.asked.iter().filter(|(_, until)| *until <= now) {
            self.server.withdraw(id);
        }
        hooks.asked.retain(|(_, until)| *until > now);
        hooks.asked.is_empty()
    }

    /// Announces the decision, with the reason if a hook blocked.
    pub(crate) fn resolve_hooks(&mut self, hooks: Hooks) -> Flow<Option<String>> {
        self.server.event(HookResolved {
            event: hooks.event,
            target: Some(hooks.target),
            action: Some(if hooks.blocked.is_some() { HookAction::Block } else { HookAction::Allow }),
            reason: Some(hooks.blocked.clone().unwrap_or_default()),
            duration_ms: i64::try_from(hooks.began.elapsed().as_millis()).ok(),
            extra: Default::default(),
        });
        self.sent()?;
        Ok(hooks.blocked)
    }

    /// Runs the hooks of an event, and waits for all of them.
    pub(crate) fn run_hooks(
        &mut self,
        event: &str,
        target: &str,
        only: Option<&str>,
        input: Map<String, Value>,
    ) -> Flow<Option<String>> {
        let Some(mut hooks) = self.trigger(event, target, only)? else { return Ok(None) };
        self.ask_hooks(&mut hooks, input)?;
        loop {
            let asked: Vec<String> = hooks.asked.iter().map(|(id, _)| id.clone()).collect();
            for id in asked {
                if let Some(answer) = self.answers.remove(&id) {
                    self.hook_answered(&mut hooks, &id, &answer);
                }
            }
            if self.hooks_are_done(&mut hooks) {
                return self.resolve_hooks(hooks);
            }
            self.wait(hooks.deadline())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_matcher_searches_in_target() {
        let hook = |matcher: Option<&str>| HookSubscription {
            id: "h".to_owned(),
            event: "PreToolUse".to_owned(),
            matcher: matcher.map(str::to_owned),
            timeout: None,
        };
        assert!(hook(None).matches("PreToolUse", "Shell"));
        assert!(hook(Some("")).matches("PreToolUse", "Shell"));
        assert!(hook(Some("hel")).matches("PreToolUse", "Shell"));
        assert!(hook(Some("^(Shell|WriteFile)$")).matches("PreToolUse", "WriteFile"));
        assert!(!hook(Some("^Sh$")).matches("PreToolUse", "Shell"));
        assert!(!hook(Some("(")).matches("PreToolUse", "("));
        assert!(!hook(None).matches("Stop", ""));
    }
}
