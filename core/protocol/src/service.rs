//! Recognises errors of the model's service in the errors that agents answer with. ACP has no codes for them: an agent
//! quotes the service in the message or the data, each in its own form. The table in the tests has the known forms.
//!
//! - `texts`: the texts that services and agents use.
//! - `quoted`: statuses and delays in texts.
//! - `members`: the members of an error's data that say something about the error.
//! - `prose`: texts without paths and names, whose words say nothing about the error.

mod members;
mod prose;
mod quoted;
#[cfg(test)]
mod tests;
mod texts;

use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, RpcError, RpcErrorKind};
use members::Quoted;
pub(crate) use quoted::quoted_status;
use texts::Texts;

/// The bytes of a text that are looked at. Agents put long answers of the service into their messages.
const MAX_TEXT: usize = 4096;
/// The bytes of the data of an error that is looked at. Each property of the error reads them anew.
const MAX_DATA: usize = 256 << 10;

/// The code of a call that was cancelled.
pub(crate) const CANCELLED: i64 = -32800;

/// An error of the model's service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ServiceFailure {
    pub(crate) kind: RpcErrorKind,
    /// The HTTP status, if the agent reports it.
    pub(crate) status: Option<u16>,
    /// Whether the same request can succeed later.
    pub(crate) is_retryable: bool,
}

/// Returns what an agent's error says about the model's service. `None` if it says nothing.
pub(crate) fn recognised(rpc_code: Option<i64>, message: &str, data: Option<&Value>) -> Option<ServiceFailure> {
    let quoted = Quoted::new(rpc_code, message, data);
    let status = quoted.status;
    let texts = Texts(&quoted.text);
    let failure = |kind, is_retryable| Some(ServiceFailure { kind, status, is_retryable });
    let of_service = |may_retry: bool| {
        // A limit that the service says the end of is not the end of an account.
        let is_refused = texts.refuse() || (texts.need_payment() && quoted.retry_after.is_none());
        failure(RpcErrorKind::LlmServiceError, quoted.is_retryable.unwrap_or(may_retry && !is_refused))
    };
    if texts.are_about_context() {
        return failure(RpcErrorKind::ContextTooLong, false);
    }
    match status {
        Some(401 | 403) => failure(RpcErrorKind::AuthExpired, false),
        Some(400) | None if texts.are_about_login() => failure(RpcErrorKind::AuthExpired, false),
        Some(status) => of_service(!is_final(status)),
        None if texts.refuse() || texts.need_payment() || texts.are_about_overload() => of_service(true),
        None if texts.name_service() || quoted.is_retryable == Some(true) => of_service(false),
        None => None,
    }
}

/// Returns whether an error says that something was cancelled.
pub(crate) fn says_cancelled(message: &str, data: Option<&Value>) -> bool {
    Texts(&Quoted::new(None, message, data).text).are_about_cancel()
}

/// Returns whether the service would answer the same request in the same way.
fn is_final(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 408 | 409 | 425 | 429)
}

impl Error {
    /// Returns how long the model's service asks to wait before the next attempt. `None` if the agent does not report it, and for
    /// all other errors.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use std::time::Duration;
    /// fn delay(error: &kimi_agent::Error) -> Duration {
    ///     error.retry_after().unwrap_or(Duration::from_secs(5))
    /// }
    /// # assert_eq!(delay(&kimi_agent::Error::session_closed()), Duration::from_secs(5));
    /// ```
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Rpc(answer) = self { answer.retry_after() } else { None }
    }
}

impl RpcError {
    fn quoted(&self) -> Quoted {
        let data = self.readable_data();
        Quoted::new(self.rpc_code, &self.message, data.as_ref())
    }

    /// Returns the HTTP status of the model's service, if the agent reports it.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::Error;
    /// fn is_overloaded(error: &Error) -> bool {
    ///     matches!(error, Error::Rpc(answer) if answer.status() == Some(529))
    /// }
    /// # assert!(!is_overloaded(&Error::session_closed()));
    /// ```
    pub fn status(&self) -> Option<u16> {
        if self.kind.is_of_service() { self.quoted().status } else { None }
    }

    /// Returns how long the model's service asks to wait before the next attempt, if the agent reports it.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::{RpcError, RpcErrorKind};
    /// use std::time::Duration;
    /// let error = RpcError::new(RpcErrorKind::LlmServiceError, "429 Too Many Requests; retry-after: 30");
    /// assert_eq!(error.retry_after(), Some(Duration::from_secs(30)));
    /// ```
    pub fn retry_after(&self) -> Option<Duration> {
        if self.kind.is_of_service() { self.quoted().retry_after } else { None }
    }

    /// Returns the data, unless they are too long to be an error of the service.
    fn readable_data(&self) -> Option<Value> {
        self.data.as_ref().filter(|data| data.get().len() <= MAX_DATA).map(|data| data.to_value())
    }

    fn recognised(&self) -> Option<ServiceFailure> {
        let data = self.readable_data();
        recognised(self.rpc_code, &self.message, data.as_ref())
    }

    /// Returns whether the error says that something was cancelled.
    pub(crate) fn says_cancelled(&self) -> bool {
        let data = self.readable_data();
        self.rpc_code == Some(CANCELLED) || says_cancelled(&self.message, data.as_ref())
    }

    /// Returns the kind of an error of the model's service. `None` if it is not one.
    pub(crate) fn kind_of_service(&self) -> Option<RpcErrorKind> {
        self.recognised().map(|failure| failure.kind)
    }

    /// Returns whether the model's service can accept the same request later.
    pub(crate) fn is_service_retryable(&self) -> bool {
        let said = self.quoted().is_retryable;
        said.unwrap_or_else(|| self.recognised().is_none_or(|failure| failure.is_retryable))
    }
}

fn prefix(text: &str) -> &str {
    let mut end = MAX_TEXT.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn http_status(number: u64) -> Option<u16> {
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}
