//! Recognises errors of the model's service in the errors that agents answer with. ACP has no codes for them: an agent
//! quotes the service in the message or the data, each in its own form. The table in the tests has the known forms.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::Duration;

use regex_lite::Regex;
use serde_json::Value;

use crate::error::{Error, RpcError, RpcErrorKind};

/// The bytes of a text that are looked at. Agents put long answers of the service into their messages.
const MAX_TEXT: usize = 4096;
/// The number of values in the data that are looked at.
const MAX_VALUES: usize = 256;

/// Members with an HTTP status.
const STATUSES: [&str; 7] =
    ["status", "status_code", "statusCode", "http_status_code", "httpStatusCode", "http_status", "httpStatus"];
/// Members with the seconds until the next attempt.
const RETRY_AFTER: [&str; 6] =
    ["retry_after", "retryAfter", "retry-after", "retry_after_seconds", "retryAfterSeconds", "retryDelay"];
/// Members with the milliseconds until the next attempt.
const RETRY_AFTER_MS: [&str; 3] = ["retry_after_ms", "retryAfterMs", "retry-after-ms"];

/// Texts about a prompt that exceeds the context window, in lower case.
const TOO_LONG: [&str; 22] = [
    "prompt is too long",
    "prompt too long",
    "prompt_too_long",
    "input is too long",
    "input too long",
    "conversation is too long",
    "conversation too long",
    "context_length_exceeded",
    "context_window_exceeded",
    "contextwindowexceeded",
    "contextoverflow",
    "context_overflow",
    "context length exceeded",
    "context window exceeded",
    "exceeds the context",
    "exceed context limit",
    "exceeds context",
    "maximum context length",
    "maximum prompt length",
    "exceeded model token limit",
    "exceeds the maximum number of tokens",
    "range of input length should be",
];
/// Texts about a full context window, which need a second word.
const WINDOW: [&str; 3] = ["context window", "context length", "context size"];
const FULL: [&str; 5] = ["exceed", "too long", "too large", "ran out", "run out"];

/// Texts about a login or a key that the service does not accept.
const LOGIN: [&str; 21] = [
    "authentication_error",
    "authentication_failed",
    "authentication failed",
    "authenticationerror",
    "providerautherror",
    "permission_error",
    "invalid api key",
    "invalid_api_key",
    "invalid x-api-key",
    "incorrect api key",
    "api key not valid",
    "api key is invalid",
    "unauthorized",
    "unauthenticated",
    "please run /login",
    "not logged in",
    "token has expired",
    "token expired",
    "login has expired",
    "login expired",
    "oauth_org_not_allowed",
];

/// Texts about a request that the service would refuse again, whatever its status.
const FINAL: [&str; 7] = [
    "insufficient_quota",
    "credit balance is too low",
    "billing_error",
    "billing_hard_limit",
    "payment required",
    "invalid_request_error",
    "not_found_error",
];

/// Texts about an overloaded or broken service, or a limit that will be lifted.
const OVERLOADED: [&str; 33] = [
    "experiencing high demand",
    "overloaded",
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "resource_exhausted",
    "resource exhausted",
    "resource has been exhausted",
    "quota exceeded",
    "exceeded your current quota",
    "usage limit",
    "usage_limit",
    "hit your limit",
    "hit your session limit",
    "exhausted your daily quota",
    "throttling",
    "hour limit reached",
    "weekly limit reached",
    "no capacity available",
    "at capacity",
    "service unavailable",
    "service_unavailable",
    "temporarily unavailable",
    "internal server error",
    "internal_server_error",
    "internalservererror",
    "server had an error",
    "server_error",
    "bad gateway",
    "gateway timeout",
    "gateway time-out",
    "engine is currently",
];

/// Texts about a lost connection to the service.
const CONNECTION: [&str; 43] = [
    "ended without a finish reason",
    "fetch failed",
    "econnrefused",
    "econnreset",
    "econnaborted",
    "etimedout",
    "enotfound",
    "enetunreach",
    "ehostunreach",
    "eai_again",
    "dns error",
    "failed to lookup address",
    "name or service not known",
    "temporary failure in name resolution",
    "nodename nor servname provided",
    "no such host",
    "getaddrinfo failed",
    "all connection attempts failed",
    "i/o timeout",
    "epipe",
    "und_err",
    "socket hang up",
    "socket connection was closed",
    "other side closed",
    "connection error",
    "connection reset",
    "connection refused",
    "connection closed",
    "connection lost",
    "connection aborted",
    "connection timed out",
    "connectionrefused",
    "network error",
    "network connection lost",
    "unable to connect",
    "error sending request",
    "stream disconnected",
    "premature close",
    "incomplete chunked read",
    "peer closed connection",
    "request timed out",
    "request timeout",
    "apiconnectionerror",
];

/// Names of errors of the service without a status: OpenCode's, Claude Code's and Codex's. They retry what can be retried.
const NAMES: [&str; 3] = ["apierror", "model_not_found", "systemerror"];

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
    let has = |texts: &[&str]| texts.iter().any(|text| quoted.text.contains(text));
    let failure = |kind, is_retryable| Some(ServiceFailure { kind, status, is_retryable });
    if has(&TOO_LONG) || (has(&WINDOW) && has(&FULL)) {
        return failure(RpcErrorKind::ContextTooLong, false);
    }
    match status {
        Some(401 | 403) => failure(RpcErrorKind::AuthExpired, false),
        Some(400) if has(&LOGIN) => failure(RpcErrorKind::AuthExpired, false),
        Some(status) => failure(RpcErrorKind::LlmServiceError, !is_final(status) && !has(&FINAL)),
        None if has(&LOGIN) => failure(RpcErrorKind::AuthExpired, false),
        None if has(&FINAL) => failure(RpcErrorKind::LlmServiceError, false),
        None if has(&OVERLOADED) || has(&CONNECTION) || quoted.text.trim() == "terminated" => {
            failure(RpcErrorKind::LlmServiceError, true)
        }
        None if quoted.text.lines().any(|text| NAMES.contains(&text)) => failure(RpcErrorKind::LlmServiceError, false),
        None => None,
    }
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
        let data = self.data.as_ref().map(|data| data.to_value());
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

    fn recognised(&self) -> Option<ServiceFailure> {
        let data = self.data.as_ref().map(|data| data.to_value());
        recognised(self.rpc_code, &self.message, data.as_ref())
    }

    /// Returns the kind of an error of the model's service. `None` if it is not one.
    pub(crate) fn kind_of_service(&self) -> Option<RpcErrorKind> {
        self.recognised().map(|failure| failure.kind)
    }

    /// Returns whether the model's service can accept the same request later.
    pub(crate) fn is_service_retryable(&self) -> bool {
        self.recognised().is_none_or(|failure| failure.is_retryable)
    }
}

/// What an error quotes from the model's service.
struct Quoted {
    status: Option<u16>,
    retry_after: Option<Duration>,
    /// All texts, in lower case.
    text: String,
}

impl Quoted {
    fn new(rpc_code: Option<i64>, message: &str, data: Option<&Value>) -> Self {
        let mut texts = vec![prefix(message)];
        let (mut status, mut retry_after) = (None, None);
        let mut values: VecDeque<&Value> = data.into_iter().collect();
        let mut seen = 0;
        // The nearest member counts.
        while let Some(value) = values.pop_front().filter(|_| seen < MAX_VALUES) {
            seen += 1;
            match value {
                Value::String(text) => texts.push(prefix(text)),
                Value::Array(items) => values.extend(items),
                Value::Object(members) => {
                    let found = STATUSES.iter().find_map(|name| http_status(members.get(*name)?.as_u64()?));
                    status = status.or(found).or_else(|| http_status(members.get("code")?.as_u64()?));
                    retry_after = retry_after
                        .or_else(|| RETRY_AFTER.iter().find_map(|name| duration(members.get(*name)?, 1.0)))
                        .or_else(|| RETRY_AFTER_MS.iter().find_map(|name| duration(members.get(*name)?, 0.001)));
                    for (name, value) in members {
                        // Codex names the kind of error by a member.
                        if value.is_object() {
                            texts.push(name);
                        }
                        values.push_back(value);
                    }
                }
                _ => {}
            }
        }
        let text = texts.join("\n");
        let status = status
            .or_else(|| texts.iter().find_map(|text| quoted_status(text)))
            // Gemini CLI answers with the status as the code of the error.
            .or_else(|| http_status(u64::try_from(rpc_code?).ok()?));
        let retry_after = retry_after.or_else(|| quoted_delay(&text));
        Self { status, retry_after, text: text.to_lowercase() }
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

/// Returns the HTTP status that a message quotes, such as `Error code: 429 - {…}`, `API Error: 529 Overloaded` or
/// `503 Service Unavailable`.
pub(crate) fn quoted_status(message: &str) -> Option<u16> {
    static STATUS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let before = r"^|\bstatus(?:[ _]?code)?\W{1,4}|\bcode\W{1,4}|\berror\W{1,4}|\bHTTP(?:/[\d.]+)?\W{1,3}";
        let after = r"$|[^\w.%-]";
        let reason = r"(?:bad request|unauthorized|forbidden|not found|conflict|too many|internal server|bad gateway|service unavailable|gateway time)";
        Regex::new(&format!(r"(?i)(?:(?:{before})([45]\d\d)(?:{after})|\b([45]\d\d) {reason})")).ok()
    });
    let found = STATUS.as_ref()?.captures(prefix(message))?;
    found.get(1).or_else(|| found.get(2))?.as_str().parse().ok()
}

/// Returns the delay that a message quotes, such as `Please retry in 36.5s`, `try again in 3 days 4 hours` or `retry-after: 30`.
/// `None` if it is a time of day or a date, or has another unit.
fn quoted_delay(text: &str) -> Option<Duration> {
    static DELAY: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)\b(?:re-?try|try again|wait)[\w -]{0,16}?[ :=\x22']{1,4}(\d[^\n]{0,63})").ok()
    });
    let mut rest = DELAY.as_ref()?.captures(text)?.get(1)?.as_str();
    let mut seconds = None;
    while rest.starts_with(|first: char| first.is_ascii_digit()) {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len()));
        let spaced = after.strip_prefix(' ').unwrap_or(after);
        let (unit, others) = spaced.split_at(spaced.find(|c: char| !c.is_alphabetic()).unwrap_or(spaced.len()));
        let unit = match &*unit.to_lowercase() {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            "" if seconds.is_none() && !after.starts_with([':', '-', '/']) => 1.0,
            _ => return None,
        };
        let number: f64 = number.trim_end_matches('.').parse().ok()?;
        seconds = Some(seconds.unwrap_or(0.0) + number * unit);
        let next = others.trim_start_matches([' ', ',']);
        rest = next.strip_prefix("and ").unwrap_or(next);
    }
    Duration::try_from_secs_f64(seconds?).ok()
}

/// Reads a delay: a number, or a text such as `30` or `36.5s`.
fn duration(value: &Value, unit: f64) -> Option<Duration> {
    let number = match value {
        Value::String(text) => text.trim().trim_end_matches('s').parse().ok()?,
        other => other.as_f64()?,
    };
    Duration::try_from_secs_f64(number * unit).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AUTH: RpcErrorKind = RpcErrorKind::AuthExpired;
    const SERVICE: RpcErrorKind = RpcErrorKind::LlmServiceError;
    const LONG: RpcErrorKind = RpcErrorKind::ContextTooLong;

    #[test]
    fn known_forms_are_recognised() {
        let overloaded = r#"Internal error: API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}"#;
        let codex = |info: Value| json!({"message": "stream disconnected before completion", "codex_error_info": info});
        for (code, message, data, kind, status, is_retryable) in [
            // Claude Code.
            (-32603, overloaded, json!(null), SERVICE, Some(529), true),
            (
                -32603,
                "Internal error: API Error: 529 Overloaded. This is temporary",
                json!(null),
                SERVICE,
                Some(529),
                true,
            ),
            (-32603, "Internal error: API Error: Connection error.", json!(null), SERVICE, None, true),
            (-32603, "Internal error: Prompt is too long", json!(null), LONG, None, false),
            (-32603, "Internal error: Credit balance is too low", json!(null), SERVICE, None, false),
            (-32603, "Internal error", json!({"errorKind": "rate_limit"}), SERVICE, None, true),
            (-32603, "Internal error", json!({"errorKind": "authentication_failed"}), AUTH, None, false),
            // Gemini CLI.
            (429, "Rate limit exceeded. Try again later.", json!(null), SERVICE, Some(429), true),
            (500, "fetch failed", json!(null), SERVICE, Some(500), true),
            (400, "API key not valid. Please pass a valid API key.", json!(null), AUTH, Some(400), false),
            (
                400,
                "The input token count (1) exceeds the maximum number of tokens allowed (0).",
                json!(null),
                LONG,
                Some(400),
                false,
            ),
            // Codex.
            (
                -32603,
                "Internal error",
                codex(json!({"http_connection_failed": {"http_status_code": 503}})),
                SERVICE,
                Some(503),
                true,
            ),
            (
                -32603,
                "Internal error",
                codex(json!({"response_stream_disconnected": {"http_status_code": null}})),
                SERVICE,
                None,
                true,
            ),
            (
                -32603,
                "Internal error",
                json!({"message": "x", "codex_error_info": "context_window_exceeded"}),
                LONG,
                None,
                false,
            ),
            (
                -32603,
                "Internal error",
                json!({"message": "x", "codex_error_info": "usage_limit_exceeded"}),
                SERVICE,
                None,
                true,
            ),
            (-32603, "Internal error", json!({"message": "x", "codex_error_info": "unauthorized"}), AUTH, None, false),
            (
                -32603,
                "Internal error",
                json!({"message": "unexpected status 401 Unauthorized: no"}),
                AUTH,
                Some(401),
                false,
            ),
            // Kimi Code, Qwen Code, OpenCode.
            (-32603, "Internal error", json!({"details": "429 slow down"}), SERVICE, Some(429), true),
            (-32603, "Internal error", json!({"details": "400 no such model"}), SERVICE, Some(400), false),
            (-32603, "Error code: 404 - {'error': …}", json!(null), SERVICE, Some(404), false),
            (
                -32603,
                "Internal error",
                json!({"name": "APIError", "data": {"statusCode": 408}}),
                SERVICE,
                Some(408),
                true,
            ),
            (
                -32603,
                "Invalid request: Your request exceeded model token limit: 131072",
                json!(null),
                LONG,
                None,
                false,
            ),
            (-32603, "connect ECONNREFUSED 127.0.0.1:1", json!(null), SERVICE, None, true),
            (-32603, "terminated", json!(null), SERVICE, None, true),
            (-32603, "got status: 409", json!(null), SERVICE, Some(409), true),
            // Names of hosts, as Rust, Python and Go report them.
            (-32603, "dns error: failed to lookup address information", json!(null), SERVICE, None, true),
            (-32603, "[Errno -2] Name or service not known", json!(null), SERVICE, None, true),
            (-32603, "dial tcp: lookup api.example: no such host", json!(null), SERVICE, None, true),
            // Limits of Claude Code's accounts.
            (-32603, "Internal error: You've hit your limit · resets 5pm", json!(null), SERVICE, None, true),
            (-32603, "5-hour limit reached ∙ resets 2pm", json!(null), SERVICE, None, true),
        ] {
            let found = recognised(Some(code), message, Some(&data));
            assert_eq!(found, Some(ServiceFailure { kind, status, is_retryable }), "{code} {message} {data}");
        }
    }

    #[test]
    fn other_errors_are_not_of_the_service() {
        for (code, message) in [
            (-32603, "Internal error"),
            (-32603, "aborted"),
            (-32602, "no such session"),
            (-32603, "wrote 500 files in 401 ms"),
            (-32000, "Authentication required"),
            (-32603, "EACCES: permission denied, open 'a'"),
        ] {
            assert_eq!(recognised(Some(code), message, None), None, "{message}");
        }
    }

    #[test]
    fn delays_are_read() {
        let delay = |message: &str, data: Value| {
            Quoted::new(None, message, Some(&data)).retry_after.map(|delay| delay.as_millis())
        };
        for (message, millis) in [
            ("Please retry in 36.5s.", Some(36_500)),
            ("rate limit, try again in 20 seconds", Some(20_000)),
            ("retry-after: 30", Some(30_000)),
            ("Retry after 250ms", Some(250)),
            ("Please try again in 6m0s.", Some(360_000)),
            ("Please wait 2 minutes", Some(120_000)),
            ("Try again later", None),
            ("You've hit your usage limit. Try again in 3 days 4 hours.", Some(273_600_000)),
            ("try again in 1 hour, 5 minutes and 10 seconds", Some(3_910_000)),
            ("Please try again after 1 seconds", Some(1000)),
            ("wait 2 hours", Some(7_200_000)),
            ("Please retry in 1h2m3.5s.", Some(3_723_500)),
            ("retry-after: 30 (request 7)", Some(30_000)),
            ("Try again at 3 PM", None),
            ("Try again at 3:30", None),
            ("Try again after 2026-12-01", None),
            ("try again in 2 weeks", None),
            ("overloaded", None),
        ] {
            assert_eq!(delay(message, json!(null)), millis, "{message}");
        }
        assert_eq!(delay("", json!({"responseHeaders": {"retry-after": "7"}})), Some(7000));
        assert_eq!(delay("", json!({"error": {"details": [{"retryDelay": "36s"}]}})), Some(36_000));
        assert_eq!(delay("", json!({"retry_after_ms": 1500})), Some(1500));
        assert_eq!(delay("", json!({"retry_after": -1})), None);
    }
}
