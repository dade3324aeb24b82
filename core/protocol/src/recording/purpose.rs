//! The purposes of the SDK's calls, by their methods in every dialect.

use serde_json::Value;

/// The purpose of a call of the SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Begins a turn.
    Prompt,
    /// Cancels a turn.
    Cancel,
    /// Adds a message of the user to a turn.
    Steer,
    /// Replays the messages of the session.
    Replay,
    /// Withdraws another call.
    Withdraw,
    /// Closes the session.
    Close,
    /// Anything else.
    Other,
}

impl Purpose {
    /// Returns the purpose of a method. A steer of Kimi Code's server begins with a call that looks like a prompt.
    pub fn of(method: &str) -> Self {
        match method {
            "prompt" | "run" | "session/prompt" => Self::Prompt,
            "cancel" | "interrupt" | "session/cancel" => Self::Cancel,
            "steer" | "_session/steering" => Self::Steer,
            "replay" => Self::Replay,
            "$/cancel_request" => Self::Withdraw,
            "session/close" => Self::Close,
            path if !path.starts_with("POST ") => Self::Other,
            path if path.ends_with("/prompts") || path.contains("/skills/") => Self::Prompt,
            path if path.ends_with(":abort") => Self::Cancel,
            path if path.ends_with("/prompts:steer") => Self::Steer,
            _ => Self::Other,
        }
    }
}

/// Returns the beginning of the ids that the SDK gives the prompts of a session, over the protocol of Kimi Code's server.
/// `params` are those of a call.
pub fn prompt_nonce(params: &str) -> Option<String> {
    if !params.contains("\"prompt_id\"") {
        return None;
    }
    let params: Value = serde_json::from_str(params).ok()?;
    Some(params["prompt_id"].as_str()?.rsplit_once('-')?.0.to_owned())
}
