//! The forms of the errors that agents quote from the service of the model.

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
        (-32603, "Internal error: API Error: 529 Overloaded. This is temporary", json!(null), SERVICE, Some(529), true),
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
        (-32603, "Internal error", json!({"name": "APIError", "data": {"statusCode": 408}}), SERVICE, Some(408), true),
        (-32603, "Invalid request: Your request exceeded model token limit: 131072", json!(null), LONG, None, false),
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
fn reported_texts_are_recognised() {
    const TEXTS: &[(&str, RpcErrorKind, bool)] = &[
        // Libraries of HTTP: undici, Node, httpx, reqwest, Envoy, Chromium.
        ("TypeError: terminated", SERVICE, true),
        ("Headers Timeout Error", SERVICE, true),
        ("Body Timeout Error", SERVICE, true),
        ("Client network socket disconnected before secure TLS connection was established", SERVICE, true),
        ("upstream connect error or disconnect/reset before headers", SERVICE, true),
        ("Server disconnected without sending a response.", SERVICE, true),
        ("httpx.ReadTimeout: The read operation timed out", SERVICE, true),
        ("error decoding response body", SERVICE, true),
        ("operation timed out", SERVICE, true),
        ("The operation was aborted due to timeout", SERVICE, true),
        ("idle timeout waiting for SSE", SERVICE, true),
        ("net::ERR_NETWORK_CHANGED", SERVICE, true),
        // Services and agents.
        ("You have exhausted your capacity on this model. Your quota will reset after 12s.", SERVICE, true),
        ("Model stream ended with empty response text.", SERVICE, true),
        ("ServiceUnavailableException: Bedrock is unable to process your request.", SERVICE, true),
        ("API request failed: 500", SERVICE, true),
        ("server responded with 502", SERVICE, true),
        ("provider returned 503", SERVICE, true),
        ("Error from provider (openai): 502 x", SERVICE, true),
        ("provider.api_error: 500 Internal", SERVICE, true),
        ("[provider.api_error] 502 x", SERVICE, true),
        ("provider.rate_limit", SERVICE, true),
        ("prompt token count of 140000 exceeds the limit of 128000", LONG, false),
        ("Input tokens exceed the configured limit of 272000 tokens.", LONG, false),
        ("Please reduce the length of the messages or completion.", LONG, false),
        ("Your access token could not be refreshed. Please sign in again.", AUTH, false),
        ("Your authentication token has been invalidated. Please try signing in again.", AUTH, false),
        ("ExpiredTokenException: The security token included in the request is expired", AUTH, false),
        ("Invalid Authentication", AUTH, false),
        ("provider.auth_error: 401 Invalid Authentication", AUTH, false),
        ("provider.auth_error", AUTH, false),
        ("LLM request failed: 401 x", AUTH, false),
        ("PERMISSION_DENIED", AUTH, false),
        ("Forbidden", AUTH, false),
        ("invalid_grant", AUTH, false),
        ("Failed to refresh token", AUTH, false),
        ("Login required", AUTH, false),
        ("You must be logged in", AUTH, false),
        ("rpc error: code = DeadlineExceeded desc = context deadline exceeded", SERVICE, true),
        ("4 DEADLINE_EXCEEDED", SERVICE, true),
        ("Post \"https://api.example/v1\": unexpected EOF", SERVICE, true),
        ("[Errno 101] Network is unreachable", SERVICE, true),
        ("litellm.ServiceUnavailableError: x", SERVICE, true),
        ("litellm.Timeout: x", SERVICE, true),
        ("aiohttp.ClientConnectorError: Cannot connect to host api.x:443", SERVICE, true),
        ("Server is busy, please try later", SERVICE, true),
        // Accounts that must be paid first, and limits that the service says the end of.
        ("429 Your account org-x is suspended, please check your plan and billing details", SERVICE, false),
        ("429 You exceeded your current quota, please check your plan and billing details.", SERVICE, false),
        ("429 You exceeded your current quota, please check your plan. Please retry in 36.5s.", SERVICE, true),
        ("429 resets in 2h 30m", SERVICE, true),
        ("429 {'code': 'insufficient_quota'}", SERVICE, false),
        ("429 {'code': '1113', 'message': 'Insufficient balance or no resource package.'}", SERVICE, false),
    ];
    for (text, kind, is_retryable) in TEXTS {
        let data = json!({"details": text});
        let found =
            recognised(Some(-32603), "Internal error", Some(&data)).map(|found| (found.kind, found.is_retryable));
        assert_eq!(found, Some((*kind, *is_retryable)), "{text}");
    }
}

#[test]
fn data_says_whether_a_retry_can_help() {
    for (data, expected) in [
        (json!({"data": {"message": "quota", "statusCode": 429, "isRetryable": false}}), Some(false)),
        (json!({"data": {"message": "Provider overload", "isRetryable": true}}), Some(true)),
        (json!({"statusCode": 429, "isRetryable": "false"}), Some(false)),
        (json!({"statusCode": 429, "isRetryable": 0}), Some(false)),
        (json!({"statusCode": 400, "retryable": "True"}), Some(true)),
        (json!({"statusCode": 429, "isRetryable": "maybe"}), Some(true)),
        (json!({"name": "UnknownError", "is_retryable": true}), Some(true)),
        (json!({"statusCode": 400, "isRetryable": true}), Some(true)),
        (json!({"name": "UnknownError", "isRetryable": false}), None),
        (json!({"codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": null}}}), Some(true)),
        (json!({"codexErrorInfo": "usageLimitExceeded"}), Some(true)),
        (json!({"code": "provider.quota_exhausted", "message": "429 Quota exhausted"}), Some(false)),
        (json!({"code": "provider.credential_invalid", "message": "429 malformed"}), Some(false)),
    ] {
        let found = recognised(Some(-32603), "Internal error", Some(&data)).map(|found| found.is_retryable);
        assert_eq!(found, expected, "{data}");
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
        // Of files, programs and servers of MCP.
        (-32603, "ENOENT: no such file or directory, open '/root/overloaded.txt'"),
        (-32603, "MCP server docs failed to start: connect ECONNREFUSED 127.0.0.1:3000"),
        (-32603, "MCP error -32000: Connection closed"),
        (-32603, "Git fetch failed: not a repository"),
        (-32603, "Process exited with code 403"),
        (-32603, "rg: error 429 files skipped"),
        (-32603, "500 tokens used of 400"),
        (-32602, "file not found: overloaded_functions.py"),
        (-32602, "cannot read /srv/rate_limit.py"),
        (-32603, "ENOENT: cannot open '/x/429/unauthorized.txt'"),
        (-32603, "sh: unexpected EOF while looking for matching `\"'"),
    ] {
        assert_eq!(recognised(Some(code), message, None), None, "{message}");
    }
}

#[test]
fn long_data_type_no_error() {
    let typed = |rest: usize| {
        let data = json!({"error": {"status": 429}, "rest": "x".repeat(rest)});
        RpcError { data: Some(data.into()), ..RpcError::new(RpcErrorKind::Other, "Internal error") }.kind_of_service()
    };
    assert_eq!((typed(0), typed(MAX_DATA)), (Some(SERVICE), None));
}

#[test]
fn members_about_other_things_type_no_error() {
    for data in [
        json!({"sessionId": "429"}),
        json!({"line": "503"}),
        json!({"path": "500"}),
        json!({"file": "src/overloaded.py"}),
        json!({"name": "overloaded.py"}),
        json!({"type": "429", "name": "401"}),
        json!({"branch": "401"}),
        json!({"query": "rate limit"}),
        json!({"input": {"text": "prompt is too long", "message": "overloaded", "status": 429}}),
        json!({"request": {"status": "429"}}),
        json!({"command": "curl: HTTP 503"}),
        json!({"unauthorized": {"by": "policy"}}),
        json!({"details": "cannot open /srv/rate_limit/a"}),
        json!([{"title": "overloaded"}]),
    ] {
        assert_eq!(recognised(Some(-32602), "Invalid params", Some(&data)), None, "{data}");
    }
}

#[test]
fn members_about_the_error_type_it() {
    for data in [
        json!("429"),
        json!({"status": 429}),
        json!({"status": 429.0}),
        json!({"status": "429"}),
        json!({"code": "429"}),
        json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}),
        json!({"error": {"type": "rate_limit_error", "message": "slow down"}}),
        json!({"error": "rate_limited: too many requests"}),
        json!({"errorKind": "rate_limit"}),
        json!({"cause": {"reason": "Too Many Requests"}}),
        json!({"errors": [{"reason": "rateLimitExceeded"}]}),
        json!({"body": "{\"error\":{\"type\":\"overloaded_error\"}}"}),
        json!({"codebuddy.ai/errorMessage": "429 slow down"}),
        json!({"attempts": [{"message": "overloaded"}]}),
    ] {
        let found = recognised(Some(-32603), "Internal error", Some(&data));
        assert_eq!(found.map(|found| (found.kind, found.is_retryable)), Some((SERVICE, true)), "{data}");
    }
}

#[test]
fn delays_are_read() {
    let delay =
        |message: &str, data: Value| Quoted::new(None, message, Some(&data)).retry_after.map(|delay| delay.as_millis());
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
        ("429 please try again later in 2026", None),
        ("try again in 999999999999 days", None),
        ("try again in 8 days", None),
        ("Your quota will reset after 2h30m12s.", Some(9_012_000)),
        ("429 resets in 2h 30m", Some(9_000_000)),
        ("resets 5pm", None),
    ] {
        assert_eq!(delay(message, json!(null)), millis, "{message}");
    }
    assert_eq!(delay("", json!({"responseHeaders": {"retry-after": "7"}})), Some(7000));
    assert_eq!(delay("", json!({"error": {"details": [{"retryDelay": "36s"}]}})), Some(36_000));
    assert_eq!(delay("", json!({"retry_after_ms": 1500})), Some(1500));
    assert_eq!(delay("", json!({"retry_after": -1})), None);
    assert_eq!(delay("", json!({"retry_after": 1e9})), None);
    assert_eq!(delay("", json!({"retryDelay": "2h30m12s"})), Some(9_012_000));
    assert_eq!(delay("", json!({"headers": {"Retry-After": ["7"]}})), Some(7000));
    assert_eq!(delay("", json!({"headers": [["date", "x"], ["retry-after", "7"]]})), Some(7000));
    assert_eq!(delay("", json!({"retryDelayMs": 7000})), Some(7000));
    assert_eq!(delay("", json!({"retryDelay": {"seconds": 7, "nanos": 500_000_000}})), Some(7500));
    assert_eq!(delay("", json!({"retryDelay": {"seconds": "7"}})), Some(7000));
    assert_eq!(delay("", json!({"retryAfter": "PT7S"})), Some(7000));
    let until = "Mon, 01 Mar 2027 00:00:30 GMT";
    let dated = |date: &str| json!({"headers": {"Date": date, "Retry-After": until}});
    assert_eq!(delay("", dated("Sun, 28 Feb 2027 23:59:00 GMT")), Some(90_000));
    for date in ["Mon, 01 Mar 2027 00:01:00 GMT", "now"] {
        assert_eq!(delay("", dated(date)), None, "{date}");
    }
}
