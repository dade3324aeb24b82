//! Prompts: how they begin, are steered and are cancelled.

use std::time::Instant;

use serde_json::{Value, json};

use super::words::{self, now, timestamp};
use super::{Answer, INVALID, NO_PROMPT, NO_SKILL, PROMPT_ID_USED, Running, failure};
use crate::messages::Content;
use crate::server::{Server, Turn};
use crate::types::Incoming;

impl Server {
    pub(super) fn web_prompt(&mut self, params: &Value) -> Answer {
        let Some(blocks) = params["content"].as_array() else {
            return Err(failure(INVALID, "content: Invalid input: expected array"));
        };
        let prompt_id =
            params["prompt_id"].as_str().map_or_else(|| format!("msg_{}", uuid::Uuid::new_v4()), str::to_owned);
        if !self.web.prompt_ids.insert(prompt_id.clone()) {
            return Err(failure(PROMPT_ID_USED, format!("prompt_id '{prompt_id}' is already in use")));
        }
        let mut config = params.clone();
        if let Some(config) = config.as_object_mut() {
            config.retain(|name, _| matches!(&**name, "model" | "thinking" | "permission_mode" | "plan_mode"));
        }
        self.web_profile(&config);
        let content = json!(blocks);
        let queued = self.is_running();
        let status = if queued { "queued" } else { "running" };
        let at = timestamp(now());
        let data = json!({"prompt_id": prompt_id, "user_message_id": prompt_id, "status": status, "content": content,
            "created_at": at});
        self.web_frame(
            "prompt.submitted",
            json!({"promptId": prompt_id, "userMessageId": prompt_id, "status": status, "content": content,
                "createdAt": at}),
        );
        if queued {
            self.web.queue.push_back((prompt_id.clone(), content.clone()));
            let length = self.web.queue.len();
            self.web_frame("prompt.queued", json!({"promptId": prompt_id, "content": content, "queueLength": length}));
            return Ok((data, None));
        }
        let input = self.web_begin(prompt_id, &content, json!({"kind": "user"}));
        Ok((data, input.map(Incoming::Prompt)))
    }

    pub(super) fn web_activate(&mut self, name: &str, params: &Value) -> Answer {
        if !self.profile.slash_commands.iter().any(|skill| skill.name == name) {
            return Err(failure(NO_SKILL, format!("Skill \"{name}\" was not found")));
        }
        let args = params["args"].as_str().unwrap_or_default();
        let text = if args.is_empty() { format!("/{name}") } else { format!("/{name} {args}") };
        let prompt_id = format!("msg_{}", uuid::Uuid::new_v4());
        self.web_frame("skill.activated", json!({"skillName": name, "skillArgs": args}));
        let content = json!([{"type": "text", "text": text}]);
        let origin = json!({"kind": "skill_activation", "skillName": name, "skillArgs": args});
        let input = self.web_begin(prompt_id, &content, origin);
        Ok((json!({"activated": true, "skill_name": name}), input.map(Incoming::Prompt)))
    }

    pub(super) fn web_steer(&mut self, params: &Value) -> Answer {
        let ids: Vec<&str> = params["prompt_ids"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let queue = &mut self.web.queue;
        let place = queue.iter().position(|(id, _)| ids.contains(&&**id));
        let (Some((prompt_id, content)), Some(turn)) = (place.and_then(|at| queue.remove(at)), &mut self.web.turn)
        else {
            return Err(failure(NO_PROMPT, "no active prompt to steer into"));
        };
        turn.steered.push(prompt_id.clone());
        let active = turn.prompt_id.clone();
        self.web_frame(
            "prompt.steered",
            json!({"activePromptId": active, "promptIds": [prompt_id], "messageId": prompt_id, "content": content,
                "steeredAt": timestamp(now())}),
        );
        let content = words::content(content.as_array().map(Vec::as_slice).unwrap_or_default());
        let incoming = self.is_running().then_some(Incoming::Steer(content));
        Ok((json!({"steered": true, "prompt_ids": [prompt_id]}), incoming))
    }

    /// Stops the prompt with this id, or without an id the running prompt.
    pub(super) fn web_cancel(&mut self, prompt_id: &str) -> Answer {
        let aborted = json!({"aborted": true});
        let queue = &mut self.web.queue;
        if let Some(place) = queue.iter().position(|(id, _)| id == prompt_id) {
            queue.remove(place);
            self.web_frame("prompt.aborted", json!({"promptId": prompt_id, "abortedAt": timestamp(now())}));
            return Ok((aborted, None));
        }
        let runs = self.web.turn.as_ref().is_some_and(|turn| prompt_id.is_empty() || turn.prompt_id == prompt_id);
        if !runs {
            return match prompt_id {
                "" => Ok((aborted, None)),
                _ => Err(failure(NO_PROMPT, format!("prompt {prompt_id} not found"))),
            };
        }
        let incoming = self.is_running().then_some(Incoming::Cancel);
        if incoming.is_none() {
            // A prompt that is never answered stays unanswered.
            self.turn = None;
            self.web.turn = None;
        }
        Ok((aborted, incoming))
    }

    /// Begins a turn with its input, unless the turn has failed already.
    pub(super) fn web_begin(&mut self, prompt_id: String, content: &Value, origin: Value) -> Option<Content> {
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let input = words::content(blocks);
        let Some(session) = &self.web.session else { return None };
        let (id, has_model) = (session.id.clone(), session.model.is_some());
        if self.web.sessions.title(&id).is_none() {
            let title = input.text();
            self.web.sessions.name(&id, &title);
            let patch = json!({"title": title, "isCustomTitle": false, "lastPrompt": title});
            self.web_frame("session.meta.updated", json!({"title": title, "patch": patch}));
        }
        let number = self.web.turns;
        self.web.turns += 1;
        self.web.turn = Some(Running {
            id: number,
            prompt_id: prompt_id.clone(),
            origin,
            began: Instant::now(),
            step: 0,
            step_is_open: false,
            called: false,
            offsets: [0, 0],
            usage: None,
            steered: Vec::new(),
        });
        self.turn = Some(Turn::Running(prompt_id.clone()));
        if has_model {
            return Some(input);
        }
        self.web_turn_started(&input.text());
        self.finish(crate::types::Outcome::Failed(failure(-32001, "Model not set")));
        None
    }
}
