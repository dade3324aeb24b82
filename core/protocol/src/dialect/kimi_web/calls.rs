//! The program's calls: prompts, steers, a cancel, and how a turn ends.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::content::{self, Block, Source, Upload};
use super::cursors::NO_ANSWER;
use super::ends::{Ended, status};
use super::{Asked, KimiWeb, failure, segment};
use crate::dialect::Incoming;
use crate::error::Result;
use crate::jsonrpc::RpcFailure;
use crate::messages::{Content, Json};

/// Wire's error codes, for the failure of a turn.
pub(super) const MODEL_NOT_SET: i64 = -32001;
pub(super) const MODEL_FAILED: i64 = -32003;
pub(super) const NOT_LOGGED_IN: i64 = -32004;
/// The server has no such prompt, or it does not run.
pub(super) const NO_PROMPT: i64 = 40402;
/// The prompt has ended.
pub(super) const PROMPT_DONE: i64 = 40903;
/// The limit of remembered prompts whose turns must be stopped.
const MAX_ORPHANS: usize = 64;

/// A message that is being sent to the server.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The id of the connection's call.
    pub(super) call: String,
    /// The id that the dialect gave it.
    pub(super) prompt: String,
    blocks: Vec<Block>,
    /// The number of its files that are being uploaded.
    uploads: usize,
    /// Whether the message was sent.
    is_sent: bool,
    /// Whether the turn of the message is being cancelled.
    is_cancelled: bool,
    /// For a steer, the call of the prompt whose turn it belongs to. Empty for a prompt.
    turn_call: String,
}

/// The prompt of the running turn.
#[derive(Debug)]
pub(super) struct Prompt {
    message: Outgoing,
    /// The name of the skill that it activates. The server chooses the id of such a prompt.
    skill: Option<String>,
    /// The user's input, until the turn has begun.
    input: Option<Content>,
    is_accepted: bool,
    /// The number of its turn, once the turn has begun.
    pub(super) turn: Option<i64>,
    /// How the turn ended. The end of the prompt follows.
    ended: Option<std::result::Result<Json, RpcFailure>>,
    cancel: Option<Cancel>,
    /// Whether the server has confirmed the cancel.
    is_cancelled: bool,
}

/// The connection's call that cancels the turn.
#[derive(Debug)]
struct Cancel {
    call: String,
    is_sent: bool,
}

impl Prompt {
    /// Returns whether it is the prompt with this id.
    fn is(&self, prompt: &str) -> bool {
        self.message.prompt == prompt
    }

    pub(super) fn id(&self) -> &str {
        &self.message.prompt
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.is_accepted
    }

    /// Takes the user's input.
    pub(super) fn take_input(&mut self) -> Content {
        self.input.take().unwrap_or_else(|| Content::Text(String::new()))
    }

    /// Returns whether the turn has begun and not ended.
    pub(super) fn runs(&self) -> bool {
        self.turn.is_some() && self.ended.is_none()
    }
}

impl KimiWeb {
    fn message(&mut self, call: &str, input: &Content) -> Result<(Outgoing, Vec<Upload>)> {
        let (blocks, uploads) =
            content::prompt(input).map_err(|what| self.unsupported(&format!("prompts with {what}")))?;
        self.prompts += 1;
        let message = Outgoing {
            call: call.to_owned(),
            prompt: format!("{}-{}", self.params.nonce, self.prompts),
            blocks,
            uploads: uploads.len(),
            is_sent: false,
            is_cancelled: false,
            turn_call: String::new(),
        };
        Ok((message, uploads))
    }

    fn upload(&mut self, message: &Outgoing, uploads: &[Upload]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for upload in uploads {
            let asked = Asked::Upload { of: message.prompt.clone(), at: upload.at };
            bytes.extend(self.request(asked, "UPLOAD /api/v1/files", upload));
        }
        bytes
    }

    pub(super) fn send_prompt(&mut self, call: &str, input: &Content) -> Result<Vec<u8>> {
        let skill = self.skill_in(input);
        let (mut message, uploads) = self.message(call, input)?;
        let bytes = if let Some((name, arguments)) = &skill {
            let path = self.path(&format!("/skills/{}:activate", segment(name)))?;
            self.post(Asked::Prompt, &path, &json!({"args": arguments}))
        } else if uploads.is_empty() {
            self.post_message(Asked::Prompt, &message)?
        } else {
            self.upload(&message, &uploads)
        };
        message.is_sent = uploads.is_empty();
        let (skill, input) = (skill.map(|(name, _)| name), Some(input.clone()));
        self.prompt = Some(Box::new(Prompt {
            message,
            skill,
            input,
            is_accepted: false,
            turn: None,
            ended: None,
            is_cancelled: false,
            cancel: None,
        }));
        Ok(bytes)
    }

    /// Returns the skill at the beginning of a prompt, and the text after it.
    fn skill_in(&self, input: &Content) -> Option<(String, String)> {
        let text = match input {
            Content::Text(text) => text.as_str(),
            Content::Parts(parts) => match parts.as_slice() {
                [crate::messages::ContentPart::Text(part)] => part.text.as_str(),
                _ => return None,
            },
        };
        let command = text.strip_prefix('/')?;
        let (name, arguments) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let is_known = self.skills.iter().any(|skill| skill == name);
        is_known.then(|| (name.to_owned(), arguments.trim().to_owned()))
    }

    fn post_message(&mut self, asked: Asked, message: &Outgoing) -> Result<Vec<u8>> {
        #[derive(Serialize)]
        struct Body<'a> {
            prompt_id: &'a str,
            content: &'a [Block],
        }
        let path = self.path("/prompts")?;
        Ok(self.post(asked, &path, &Body { prompt_id: &message.prompt, content: &message.blocks }))
    }

    /// Handles the upload of a file. After the last file the message is sent.
    pub(super) fn uploaded(
        &mut self,
        of: &str,
        at: usize,
        outcome: std::result::Result<Json, RpcFailure>,
        all: &mut Vec<Incoming>,
    ) {
        #[derive(Deserialize)]
        struct Uploaded {
            id: String,
        }
        let file = outcome.and_then(|answer| {
            answer
                .decode::<Uploaded>()
                .map_err(|error| failure(0, format!("the server named no uploaded file: {error}")))
        });
        let is_prompt = self.prompt.as_ref().is_some_and(|prompt| prompt.is(of));
        let message = match &mut self.prompt {
            Some(prompt) if is_prompt => Some(&mut prompt.message),
            _ => self.steers.iter_mut().find(|message| message.prompt == of),
        };
        // Another file may have failed, and the message with it.
        let Some(message) = message else { return };
        let failed = match file {
            Ok(file) => {
                if let Some(Block::Image { source } | Block::Video { source }) = message.blocks.get_mut(at) {
                    *source = Source::File { file_id: file.id };
                }
                message.uploads = message.uploads.saturating_sub(1);
                None
            }
            Err(error) => Some(error),
        };
        if is_prompt {
            let is_cancelled = self.prompt.as_ref().is_some_and(|prompt| prompt.cancel.is_some());
            match failed {
                Some(error) => self.end_prompt(Err(error), all),
                None if is_cancelled => self.end_prompt(Ok(status("cancelled")), all),
                None => self.post_prompt_when_uploaded(all),
            }
        } else if let Some(error) = failed {
            self.fail_steer(of, error, all);
        } else {
            self.send_steers(all);
        }
    }

    fn post_prompt_when_uploaded(&mut self, all: &mut Vec<Incoming>) {
        let Some(mut prompt) = self.prompt.take() else { return };
        if prompt.message.uploads == 0 && !prompt.message.is_sent {
            prompt.message.is_sent = true;
            match self.post_message(Asked::Prompt, &prompt.message) {
                Ok(bytes) => all.push(Incoming::Answered(bytes)),
                Err(error) => tracing::warn!(%error, "the prompt could not be sent"),
            }
        }
        self.prompt = Some(prompt);
    }

    /// Handles the server's answer to the prompt. Frames of its turn may have arrived before.
    pub(super) fn prompt_accepted(&mut self, outcome: std::result::Result<Json, RpcFailure>, all: &mut Vec<Incoming>) {
        match outcome {
            Ok(_) => self.prompt_is_there(all),
            Err(error) => {
                let Some(prompt) = &self.prompt else { return };
                if prompt.turn.is_some() {
                    return;
                }
                if error.code == NO_ANSWER {
                    // The server may still have received it.
                    let id = prompt.message.prompt.clone();
                    self.disown(id);
                }
                self.end_prompt(Err(error), all);
            }
        }
    }

    /// Sends the calls that had to wait until the server has the prompt.
    pub(super) fn prompt_is_there(&mut self, all: &mut Vec<Incoming>) {
        let Some(prompt) = &mut self.prompt else { return };
        prompt.is_accepted = true;
        let cancel = prompt.cancel.as_mut().filter(|cancel| !cancel.is_sent);
        if let Some(cancel) = cancel {
            cancel.is_sent = true;
            let call = cancel.call.clone();
            let is_skill = prompt.skill.is_some();
            let id = Some(prompt.message.prompt.clone()).filter(|_| !is_skill || prompt.turn.is_some());
            match self.abort(Asked::Cancel(call), id.as_deref()) {
                Ok(bytes) => all.push(Incoming::Answered(bytes)),
                Err(error) => tracing::warn!(%error, "the cancel could not be sent"),
            }
        }
        self.send_steers(all);
    }

    /// Returns whether a frame's prompt is the running one.
    pub(super) fn knows_prompt(&mut self, id: &str, skill: Option<&str>, all: &mut Vec<Incoming>) -> bool {
        let Some(prompt) = &mut self.prompt else { return false };
        if prompt.turn.is_none()
            && let Some(name) = skill
            && prompt.skill.as_deref() == Some(name)
        {
            id.clone_into(&mut prompt.message.prompt);
        }
        if !prompt.is(id) {
            return false;
        }
        if !prompt.is_accepted {
            self.prompt_is_there(all);
        }
        true
    }

    /// Stops a prompt, or without an id the running prompt.
    fn abort(&mut self, asked: Asked, prompt: Option<&str>) -> Result<Vec<u8>> {
        let path = match prompt {
            Some(prompt) => self.path(&format!("/prompts/{}:abort", segment(prompt)))?,
            None => self.path(":abort")?,
        };
        Ok(self.post(asked, &path, &json!({})))
    }

    pub(super) fn cancel(&mut self, call: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // A waiting steer would begin a turn of its own.
        let waiting: Vec<_> =
            self.steers.iter_mut().map(|message| (&mut message.is_cancelled, &message.prompt)).collect();
        let mut queued = Vec::new();
        for (is_cancelled, prompt) in waiting {
            *is_cancelled = true;
            queued.push(prompt.clone());
        }
        for prompt in queued {
            let is_sent = self.steers.iter().any(|message| message.prompt == prompt && message.is_sent);
            if is_sent {
                bytes.extend(self.abort(Asked::Aside("abort"), Some(&prompt))?);
            }
        }
        let Some(prompt) = &mut self.prompt else {
            bytes.extend(self.abort(Asked::Cancel(call.to_owned()), None)?);
            return Ok(bytes);
        };
        // The server would not find a prompt that is still being sent.
        let is_sent = prompt.is_accepted;
        prompt.cancel = Some(Cancel { call: call.to_owned(), is_sent });
        if is_sent {
            let is_named = prompt.skill.is_none() || prompt.turn.is_some();
            let id = Some(prompt.message.prompt.clone()).filter(|_| is_named);
            bytes.extend(self.abort(Asked::Cancel(call.to_owned()), id.as_deref())?);
        }
        Ok(bytes)
    }

    pub(super) fn cancel_answered(
        &mut self,
        call: String,
        outcome: std::result::Result<Json, RpcFailure>,
        all: &mut Vec<Incoming>,
    ) {
        if let Some(prompt) = &mut self.prompt
            && prompt.cancel.as_ref().is_some_and(|cancel| cancel.call == call)
        {
            prompt.cancel = None;
            prompt.is_cancelled = outcome.is_ok();
        }
        all.push(Incoming::Response { id: Some(call), outcome });
    }

    /// Adds a text to the running turn: it is sent as a prompt, which waits, and then is moved to the turn.
    pub(super) fn steer(&mut self, call: &str, input: &Content) -> Result<Vec<u8>> {
        let (mut message, uploads) = self.message(call, input)?;
        let bytes = self.upload(&message, &uploads);
        message.turn_call = self.prompt.as_ref().map(|prompt| prompt.message.call.clone()).unwrap_or_default();
        self.steers.push(message);
        let mut all = vec![Incoming::Answered(bytes)];
        self.send_steers(&mut all);
        let bytes = all.into_iter().filter_map(|incoming| match incoming {
            Incoming::Answered(bytes) => Some(bytes),
            _ => None,
        });
        Ok(bytes.flatten().collect())
    }

    /// Sends the steers that are ready, once the server has the prompt of their turn.
    fn send_steers(&mut self, all: &mut Vec<Incoming>) {
        if self.prompt.as_ref().is_none_or(|prompt| !prompt.is_accepted) {
            return;
        }
        let mut steers = std::mem::take(&mut self.steers);
        for message in steers.iter_mut().filter(|message| !message.is_sent && message.uploads == 0) {
            message.is_sent = true;
            match self.post_message(Asked::Queued(message.prompt.clone()), message) {
                Ok(bytes) => all.push(Incoming::Answered(bytes)),
                Err(error) => tracing::warn!(%error, "the text for the running turn could not be sent"),
            }
        }
        steers.append(&mut self.steers);
        self.steers = steers;
    }

    /// Handles the acceptance of a steer, which waits as a prompt.
    pub(super) fn steer_queued(
        &mut self,
        prompt: &str,
        outcome: std::result::Result<Json, RpcFailure>,
        all: &mut Vec<Incoming>,
    ) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Queued {
            status: String,
        }
        let Some(message) = self.steers.iter().find(|message| message.prompt == prompt) else { return };
        let takes_it = |prompt: &Prompt| prompt.ended.is_none() && prompt.message.call == message.turn_call;
        let is_late = message.is_cancelled || !self.prompt.as_ref().is_some_and(|prompt| takes_it(prompt));
        let queued = outcome.map(|answer| answer.decode::<Queued>().unwrap_or_default());
        match queued {
            Err(error) => self.fail_steer(prompt, error, all),
            Ok(queued) if is_late || queued.status == "running" => self.withdraw_steer(prompt, turn_over(), all),
            Ok(_) => match self.path("/prompts:steer") {
                Ok(path) => {
                    let asked = Asked::Steered(prompt.to_owned());
                    all.push(Incoming::Answered(self.post(asked, &path, &json!({"prompt_ids": [prompt]}))));
                }
                Err(error) => self.fail_steer(prompt, failure(0, error.to_string()), all),
            },
        }
    }

    pub(super) fn steered(
        &mut self,
        prompt: &str,
        outcome: std::result::Result<Json, RpcFailure>,
        all: &mut Vec<Incoming>,
    ) {
        match outcome {
            Ok(answer) => {
                if let Some(message) = self.take_steer(prompt) {
                    all.push(Incoming::Response { id: Some(message.call), outcome: Ok(answer) });
                }
            }
            Err(error) => {
                let error = if matches!(error.code, NO_PROMPT | PROMPT_DONE) { turn_over() } else { error };
                self.withdraw_steer(prompt, error, all);
            }
        }
    }

    fn take_steer(&mut self, prompt: &str) -> Option<Outgoing> {
        let at = self.steers.iter().position(|message| message.prompt == prompt)?;
        Some(self.steers.remove(at))
    }

    fn fail_steer(&mut self, prompt: &str, error: RpcFailure, all: &mut Vec<Incoming>) {
        if let Some(message) = self.take_steer(prompt) {
            all.push(Incoming::Response { id: Some(message.call), outcome: Err(error) });
        }
    }

    /// Withdraws a steer that the turn has not used. It must not begin a turn of its own.
    fn withdraw_steer(&mut self, prompt: &str, error: RpcFailure, all: &mut Vec<Incoming>) {
        self.disown(prompt.to_owned());
        if let Ok(bytes) = self.abort(Asked::Aside("abort"), Some(prompt)) {
            all.push(Incoming::Answered(bytes));
        }
        self.fail_steer(prompt, error, all);
    }

    /// Remembers a prompt whose turn must be stopped.
    fn disown(&mut self, prompt: String) {
        if self.orphans.len() >= MAX_ORPHANS {
            self.orphans.remove(0);
        }
        self.orphans.push(prompt);
    }

    /// Returns whether the events of this prompt's turn are discarded. Stops such a turn when it begins.
    pub(super) fn stops_orphan(&mut self, prompt: &str, all: &mut Vec<Incoming>) -> bool {
        let is_orphan = self.orphans.iter().any(|orphan| orphan == prompt);
        if is_orphan && let Ok(bytes) = self.abort(Asked::Aside("abort"), Some(prompt)) {
            all.push(Incoming::Answered(bytes));
        }
        is_orphan || self.steers.iter().any(|message| message.prompt == prompt)
    }

    /// Handles the end of the turn. The end of the prompt follows, or becomes overdue.
    pub(super) fn turn_ended(&mut self, ended: Ended, cut: Option<&str>) {
        if let Some(prompt) = self.prompt.as_mut().filter(|_| ended.is_told()) {
            prompt.ended = Some(ended.outcome(cut));
        }
    }

    /// Handles the end of the prompt. Its outcome is that of its turn, or else the one that the server reports for the
    /// prompt.
    pub(super) fn prompt_ended(&mut self, id: &str, reason: &str, all: &mut Vec<Incoming>) {
        self.orphans.retain(|orphan| orphan != id);
        let cut = self.cut_of(self.prompt.as_ref().and_then(|prompt| prompt.turn));
        let Some(prompt) = self.prompt.as_mut().filter(|prompt| prompt.is(id)) else { return };
        let said = prompt.ended.take().unwrap_or_else(|| Ended::of_prompt(reason).outcome(cut.as_deref()));
        self.end_prompt(said, all);
    }

    /// Ends the prompt of a turn that has ended, because the server has not reported the prompt's end.
    pub(super) fn end_overdue_prompt(&mut self, all: &mut Vec<Incoming>) {
        if let Some(said) = self.prompt.as_mut().and_then(|prompt| prompt.ended.take()) {
            self.end_prompt(said, all);
        }
    }

    /// Ends a prompt that the server no longer knows.
    pub(super) fn end_lost_prompt(&mut self, all: &mut Vec<Incoming>) {
        let is_cancelled = self.prompt.as_ref().is_some_and(|prompt| prompt.is_cancelled);
        let reason = "the server knows nothing of the prompt after a lost connection; prompt again";
        self.end_prompt(if is_cancelled { Ok(status("cancelled")) } else { Err(failure(0, reason)) }, all);
    }

    pub(super) fn is_prompt_ending(&self) -> bool {
        self.prompt.as_ref().is_some_and(|prompt| prompt.ended.is_some())
    }

    pub(super) fn end_prompt(&mut self, outcome: std::result::Result<Json, RpcFailure>, all: &mut Vec<Incoming>) {
        let Some(prompt) = self.prompt.take() else { return };
        self.requests.retain(|_, request| !request.of_turn);
        if let Some(cancel) = prompt.cancel.filter(|cancel| !cancel.is_sent) {
            all.push(Incoming::Response { id: Some(cancel.call), outcome: Ok(Json::from(json!({}))) });
        }
        all.push(Incoming::Response { id: Some(prompt.message.call), outcome });
        // These steers wait for a prompt that has ended.
        let waiting: Vec<_> = self.steers.extract_if(.., |message| !message.is_sent).collect();
        for message in waiting {
            all.push(Incoming::Response { id: Some(message.call), outcome: Err(turn_over()) });
        }
    }

    /// Stops the running prompt and unsubscribes from the session. Returns the bytes.
    pub(super) fn end_all(&mut self) -> Vec<u8> {
        let Some(session) = self.session.clone() else { return Vec::new() };
        let mut bytes = self.reject_all();
        if self.prompt.is_some() || !self.steers.is_empty() {
            bytes.extend(self.abort(Asked::Aside("abort"), None).unwrap_or_default());
        }
        bytes.extend(self.request(Asked::Aside("unsubscribe"), "WS unsubscribe", &json!({"session_ids": [session]})));
        bytes
    }
}

fn turn_over() -> RpcFailure {
    failure(NO_PROMPT, "the turn has ended; call `prompt()` instead")
}
