//! The open requests of the agent, and the answers to them.

use serde_json::json;

use super::form::Form;
use super::permission::Permission;
use super::{CANCELLED, form, permission, services};
use crate::dialect::{Answer, Services};
use crate::jsonrpc::{self, RpcFailure};

/// An open request of the agent.
#[derive(Debug)]
pub(super) struct OpenRequest {
    pub(super) order: u64,
    /// Whether it was sent during the turn, and so ends with it. Requests of background agents do not.
    pub(super) of_turn: bool,
    pub(super) asks: Asks,
}

#[derive(Debug)]
pub(super) enum Asks {
    Permission(Permission),
    Form(Form),
    /// A number of lines of a file, after a number of skipped lines.
    ReadFile {
        path: String,
        line: u32,
        limit: Option<u32>,
    },
    WriteFile,
}

/// Returns whether agents ask the program with this method.
pub(super) fn is_request(method: &str) -> bool {
    let all = Services { read_file: true, write_file: true, terminal: true };
    let is_service = services::Method::named(method, all).is_some();
    is_service || method == "session/request_permission" || method == form::METHOD
}

impl OpenRequest {
    /// Returns the bytes of the answer.
    pub(super) fn answer(&self, rpc_id: &str, answer: &Answer) -> Vec<u8> {
        let outcome = match (&self.asks, answer) {
            (Asks::ReadFile { .. }, Answer::ReadFile(text)) => {
                return services::file_read(rpc_id, &self.asks, text.as_deref());
            }
            (Asks::WriteFile, Answer::WriteFile) => json!({}),
            (Asks::Permission(permission), answer) => json!(permission.outcome(answer)),
            (Asks::Form(form), Answer::Question(Some(answers))) => form.answer(answers),
            _ => return self.cancelled(rpc_id),
        };
        jsonrpc::answer(rpc_id, &outcome)
    }

    /// Returns the bytes of the answer if the turn was cancelled before the answer.
    pub(super) fn cancelled(&self, rpc_id: &str) -> Vec<u8> {
        match self.asks {
            Asks::Permission(_) => jsonrpc::answer(rpc_id, &json!(permission::cancelled())),
            Asks::Form(_) => jsonrpc::answer(rpc_id, &form::cancelled()),
            Asks::ReadFile { .. } | Asks::WriteFile => {
                let message = "the turn was cancelled".to_owned();
                jsonrpc::refusal(rpc_id, &RpcFailure { code: CANCELLED, message, data: None })
            }
        }
    }
}

/// Returns a request's id for programs.
pub(super) fn request_id(rpc_id: &str) -> String {
    rpc_id.trim_matches('"').to_owned()
}
