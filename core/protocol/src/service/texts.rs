//! The texts about errors of the model's service, as services and agents use them.

/// Texts about a prompt that exceeds the context window, in lower case.
const TOO_LONG: &[&str] = &[
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
    "context.overflow",
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
    "reduce the length of the messages",
    "input tokens exceed",
];
/// Texts about a full context window, which need a second word.
const WINDOW: &[&str] = &["context window", "context length", "context size", "prompt token count"];
const FULL: &[&str] = &["exceed", "too long", "too large", "ran out", "run out"];

/// Texts about a login or a key that the service does not accept.
const LOGIN: &[&str] = &[
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
    "auth_error",
    "invalid authentication",
    "sign in again",
    "signing in again",
    "token could not be refreshed",
    "token has been invalidated",
    "expiredtokenexception",
    "security token included in the request is",
    "permission_denied",
    "invalid_grant",
    "login required",
    "must be logged in",
    "failed to refresh token",
];
/// Texts that are the whole message about a login.
const NO_LOGIN: &[&str] = &["forbidden", "error: forbidden", "internal error: forbidden"];

/// Texts about a request that the service would refuse again, whatever its status.
const FINAL: &[&str] = &[
    "insufficient_quota",
    "credit balance is too low",
    "billing_error",
    "billing_hard_limit",
    "quota_exhausted",
    "credential_invalid",
    "payment required",
    "invalid_request_error",
    "not_found_error",
];

/// Texts about an account that must be paid first. With a time for the next attempt they are about a limit.
const UNPAID: &[&str] = &[
    "exceeded_current_quota",
    "exceeded your current quota",
    "insufficient balance",
    "account is suspended",
    "is suspended, please check",
    "plan and billing details",
];

/// Texts about an overloaded or broken service, or a limit that will be lifted.
const OVERLOADED: &[&str] = &[
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
    "usage limit",
    "usage_limit",
    "usagelimit",
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
    "exhausted your capacity",
    "rate-limit",
    "serviceunavailableexception",
    "internalserverexception",
    "modelnotreadyexception",
    "modelstreamerrorexception",
    "is unable to process your request",
    "serviceunavailableerror",
    "server is busy",
];

/// Texts about a lost connection to the service.
const CONNECTION: &[&str] = &[
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
    "cannot connect to api",
    "responsestreamdisconnected",
    "responsestreamconnectionfailed",
    "httpconnectionfailed",
    "headers timeout error",
    "body timeout error",
    "socket disconnected before secure tls",
    "upstream connect error",
    "server disconnected without sending",
    "readtimeout",
    "connecttimeout",
    "modeltimeoutexception",
    "read operation timed out",
    "operation timed out",
    "aborted due to timeout",
    "idle timeout waiting for sse",
    "net::err_",
    "error decoding response body",
    "stream ended with empty response",
    "deadline_exceeded",
    "deadline exceeded",
    "network is unreachable",
    "litellm.timeout",
    "clientconnectorerror",
];

/// Texts that are the whole message about a lost connection.
const LOST: &[&str] = &["terminated", "typeerror: terminated", "internal error: terminated"];

/// Texts that end a message about a lost connection. Go and curl report an answer that breaks off so.
const BROKEN_OFF: &[&str] = &["unexpected eof"];

/// Texts about the machine of the agent or a server of MCP, whose connections are not those of the model's service.
const ELSEWHERE: &[&str] = &["mcp server", "mcp error", "no such file or directory"];

/// Names of errors of the service without a status: OpenCode's, Claude Code's, Codex's and Kimi Code's. They retry what can be
/// retried.
const NAMES: &[&str] = &["apierror", "model_not_found", "systemerror", "provider.api_error"];

/// Texts about something that was cancelled.
const CANCELLED: &[&str] = &["abort", "cancel", "interrupt", "stopped by user", "stopped by the user"];

/// The texts of an error, in lower case, one on each line.
#[derive(Clone, Copy)]
pub(super) struct Texts<'a>(pub(super) &'a str);

impl Texts<'_> {
    fn have(self, texts: &[&str]) -> bool {
        texts.iter().any(|text| self.0.contains(text))
    }

    /// The prompt exceeds the context window.
    pub(super) fn are_about_context(self) -> bool {
        self.have(TOO_LONG) || (self.have(WINDOW) && self.have(FULL))
    }

    pub(super) fn are_about_login(self) -> bool {
        self.have(LOGIN) || self.have_line(NO_LOGIN)
    }

    /// The service would refuse the request again.
    pub(super) fn refuse(self) -> bool {
        self.have(FINAL)
    }

    pub(super) fn need_payment(self) -> bool {
        self.have(UNPAID)
    }

    /// The service is overloaded or broken, or cannot be reached.
    pub(super) fn are_about_overload(self) -> bool {
        if self.have(ELSEWHERE) {
            return false;
        }
        // A failure of git has the words of a failure of JavaScript's `fetch`.
        let is_lost = |text: &str| match text {
            "fetch failed" => self.0.matches("fetch failed").count() > self.0.matches("git fetch failed").count(),
            text => self.0.contains(text),
        };
        self.have(OVERLOADED)
            || CONNECTION.iter().any(|text| is_lost(text))
            || self.have_line(LOST)
            || self.end_with(BROKEN_OFF)
    }

    pub(super) fn name_service(self) -> bool {
        self.have_line(NAMES)
    }

    pub(super) fn are_about_cancel(self) -> bool {
        self.have(CANCELLED)
    }

    fn end_with(self, texts: &[&str]) -> bool {
        self.0.lines().any(|line| texts.iter().any(|text| line.trim_end_matches(['.', ' ']).ends_with(text)))
    }

    fn have_line(self, texts: &[&str]) -> bool {
        self.0.lines().any(|line| texts.contains(&line.trim()))
    }
}
