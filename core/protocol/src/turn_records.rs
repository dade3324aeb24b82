//! Reads the records of a turn that Kimi Code writes into a file of its session. Over ACP it does not report the number
//! of steps, the tokens and the failure of a turn; these records do. The format is internal to Kimi Code, and the
//! content is not trusted: unexpected content gives no report.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, RpcError, RpcErrorKind};
use crate::jsonrpc::is_too_deep;
use crate::messages::TokenUsage;

/// The supported version of the records. It is not the version of Wire.
const VERSION: &str = "1.5";
/// The main agent of the session. Other agents are its subagents.
const MAIN: &str = "main";
const MAX_STEPS: &str = "loop.max_steps_exceeded";

/// The report of a turn that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnReport {
    /// The number of steps, without retried attempts.
    pub steps: i64,
    /// The tokens of the turn, including subagents that ended in the turn.
    pub usage: TokenUsage,
    /// The failure of the turn, if it failed.
    pub failure: Option<TurnFailure>,
}

/// The failure of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnFailure {
    code: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<Value>,
}

impl TurnFailure {
    /// Returns whether the turn reached its limit of steps.
    pub fn is_max_steps(&self) -> bool {
        self.code == MAX_STEPS
    }

    /// Converts it to the error of the turn.
    pub fn into_error(self) -> Error {
        let Self { code, message, details } = self;
        let kind = match &*code {
            "provider.auth_error" => RpcErrorKind::AuthExpired,
            "model.not_configured" => RpcErrorKind::LlmNotSet,
            code if code.starts_with("provider.") => RpcErrorKind::LlmServiceError,
            _ => RpcErrorKind::Other,
        };
        let message = if message.is_empty() { code.clone() } else { format!("{message} [{code}]") };
        let data = Some(json!({"code": code, "details": details}).into());
        Error::Rpc(RpcError { data, ..RpcError::new(kind, message) })
    }
}

/// Reads the records of one turn, line by line.
#[derive(Debug)]
pub struct TurnRecords {
    /// The turn began at this time or later, in milliseconds since 1970. Older records are of other turns.
    since: u64,
    turn: Option<Turn>,
}

#[derive(Debug)]
struct Turn {
    /// The ids of the prompt and of the turn. Kimi Code 0.38 writes neither; its turns end with `turn.ended`.
    ids: Option<(String, i64)>,
    report: TurnReport,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "agentId")]
    agent: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prompt {
    prompt_id: Option<String>,
    turn_id: Option<i64>,
    time: f64,
    origin: Origin,
}

#[derive(Deserialize)]
struct Origin {
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    turn_id: i64,
    reason: String,
    error: Option<TurnFailure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Completed {
    prompt_id: String,
}

#[derive(Deserialize)]
struct Used {
    usage: Usage,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Usage {
    input_other: i64,
    output: i64,
    input_cache_read: i64,
    input_cache_creation: i64,
}

#[derive(Deserialize)]
struct Looped {
    event: LoopEvent,
}

#[derive(Deserialize)]
struct LoopEvent {
    #[serde(rename = "type")]
    kind: String,
}

impl TurnRecords {
    /// Makes a reader for the turn that began at this time or later, in milliseconds since 1970.
    pub fn since(since: u64) -> Self {
        Self { since, turn: None }
    }

    /// Returns whether the begin of the turn was among the records.
    pub fn has_begun(&self) -> bool {
        self.turn.is_some()
    }

    /// Reads a line. Returns the report once the turn has ended.
    pub fn take_line(&mut self, line: &[u8]) -> Option<TurnReport> {
        let text = std::str::from_utf8(line).ok()?;
        if is_too_deep(text) {
            return None;
        }
        // Other records may use the same names for other values, so each type is decoded by itself.
        let Kind { kind, agent } = read(text)?;
        if agent.as_deref().is_some_and(|agent| agent != MAIN) {
            return None;
        }
        let Some(turn) = &mut self.turn else {
            if kind == "turn.prompt" {
                self.turn = read(text).filter(|prompt| self.is_of_turn(prompt)).and_then(Turn::new);
            }
            return None;
        };
        match &*kind {
            "context.append_loop_event" => {
                let begins = read::<Looped>(text).is_some_and(|looped| looped.event.kind == "step.begin");
                turn.report.steps += i64::from(begins);
            }
            // The next attempt has a step of its own.
            "turn.step.retrying" => turn.report.steps -= 1,
            "usage.record" | "subagent.completed" | "subagent.failed" | "subagent.cancelled" => {
                if let Some(Used { usage }) = read(text) {
                    turn.add(&usage);
                }
            }
            "turn.ended" => {
                let ended: Ended = read(text)?;
                let is_this = turn.ids.as_ref().is_none_or(|(_, number)| ended.turn_id == *number);
                turn.report.failure = ended.error.filter(|_| is_this && ended.reason == "failed");
                if turn.ids.is_none() {
                    return self.turn.take().map(Turn::end);
                }
            }
            "prompt.completed" | "prompt.aborted" => {
                let completed: Completed = read(text)?;
                let is_this = turn.ids.as_ref().is_some_and(|(prompt, _)| completed.prompt_id == *prompt);
                return is_this.then(|| self.turn.take()).flatten().map(Turn::end);
            }
            _ => {}
        }
        None
    }

    fn is_of_turn(&self, prompt: &Prompt) -> bool {
        // Turns of other origins begin without a prompt, for example after the end of a background command.
        matches!(&*prompt.origin.kind, "user" | "skill_activation") && prompt.time >= self.since as f64
    }
}

impl Turn {
    fn new(prompt: Prompt) -> Option<Self> {
        let ids = match (prompt.prompt_id, prompt.turn_id) {
            (Some(prompt), Some(turn)) => Some((prompt, turn)),
            (None, None) => None,
            // No release is known to write one of them.
            _ => return None,
        };
        Some(Self { ids, report: TurnReport::default() })
    }

    fn add(&mut self, usage: &Usage) {
        let total = &mut self.report.usage;
        let add = |total: &mut i64, tokens: i64| *total = total.saturating_add(tokens.max(0));
        add(&mut total.input_other, usage.input_other);
        add(&mut total.output, usage.output);
        add(&mut total.input_cache_read, usage.input_cache_read);
        add(&mut total.input_cache_creation, usage.input_cache_creation);
    }

    fn end(mut self) -> TurnReport {
        self.report.steps = self.report.steps.max(0);
        self.report
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// Returns whether the first line of a file of records has the supported version.
pub fn is_known_version(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(rename = "type")]
        kind: String,
        protocol_version: String,
    }
    let metadata: Option<Metadata> = std::str::from_utf8(line).ok().and_then(read);
    metadata.is_some_and(|metadata| metadata.kind == "metadata" && metadata.protocol_version == VERSION)
}

/// Returns the file with the records of a session, as a path below the agent's home, if this line of the index is about
/// the session.
pub fn records_file(line: &[u8], session_id: &str, home: &Path) -> Option<PathBuf> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Entry {
        session_id: String,
        session_dir: PathBuf,
    }
    let entry: Entry = std::str::from_utf8(line).ok().and_then(read)?;
    let below = entry.session_dir.strip_prefix(home).ok()?;
    let is_plain = below.components().all(|component| matches!(component, Component::Normal(_)));
    let is_of_session = entry.session_id == session_id && below.file_name().is_some_and(|name| name == session_id);
    (is_plain && is_of_session).then(|| below.join("agents").join(MAIN).join("wire.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn with two steps, as Kimi Code 2.1.0 wrote it, shortened.
    const STEPS: &str = r#"{"type":"turn.prompt","agentId":"main","input":[{"type":"text","text":"hi"}],"origin":{"kind":"user"},"promptId":"msg_1","turnId":0,"time":1795364733556}
{"type":"context.append_loop_event","agentId":"main","event":{"type":"step.begin","uuid":"1","turnId":"0","step":1},"time":1795364733609}
{"type":"usage.record","agentId":"main","model":"scripted","usage":{"inputOther":80,"output":10,"inputCacheRead":20,"inputCacheCreation":0},"usageScope":"turn","time":1795364733656}
{"type":"subagent.completed","subagentId":"agent-0","resultSummary":"sub result","usage":{"inputOther":160,"output":20,"inputCacheRead":40,"inputCacheCreation":0},"contextTokens":110,"time":1795364733705}
{"type":"context.append_loop_event","agentId":"main","event":{"type":"step.end","uuid":"1","turnId":"0","step":1,"finishReason":"tool_use","usage":{"inputOther":80,"output":10,"inputCacheRead":20,"inputCacheCreation":0}},"time":1795364733837}
{"type":"context.append_loop_event","agentId":"main","event":{"type":"step.begin","uuid":"2","turnId":"0","step":2},"time":1795364733838}
{"type":"usage.record","agentId":"main","model":"scripted","usage":{"inputOther":100,"output":10,"inputCacheRead":0,"inputCacheCreation":0},"usageScope":"turn","time":1795364733921}
"#;
    const COMPLETED: &str = r#"{"turnId":0,"outcome":"done","type":"agent.turn.ended","time":1795364733995,"kind":"event"}
{"type":"turn.ended","agentId":"main","turnId":0,"reason":"completed","durationMs":353,"time":1795364734004}
{"type":"prompt.completed","agentId":"main","promptId":"msg_1","finishedAt":"2026-11-22T16:25:34.012Z","reason":"completed","time":1795364734013}
"#;
    const BEGAN: u64 = 1_795_364_733_500;

    fn report(since: u64, lines: &str) -> Option<TurnReport> {
        let mut records = TurnRecords::since(since);
        lines.lines().find_map(|line| records.take_line(line.as_bytes()))
    }

    fn failed(error: &str) -> TurnReport {
        let ended = json!({"type": "turn.ended", "agentId": "main", "turnId": 0, "reason": "failed"}).to_string();
        let ended = ended.replace("\"failed\"", &format!("\"failed\",\"error\":{error}"));
        let completed = COMPLETED.lines().last().unwrap();
        report(BEGAN, &format!("{STEPS}{ended}\n{completed}")).unwrap()
    }

    #[test]
    fn turn_records_give_steps_and_tokens() {
        let usage = TokenUsage { input_other: 340, output: 40, input_cache_read: 60, ..TokenUsage::default() };
        let expected = TurnReport { steps: 2, usage, failure: None };
        assert_eq!(report(BEGAN, &format!("{STEPS}{COMPLETED}")), Some(expected.clone()));
        let aborted = COMPLETED.replace("prompt.completed", "prompt.aborted");
        assert_eq!(report(BEGAN, &format!("{STEPS}{aborted}")), Some(expected));
    }

    #[test]
    fn records_without_ids_need_turn_end() {
        let steps = STEPS.replace(r#","promptId":"msg_1","turnId":0,"time""#, r#","time""#);
        assert_eq!(report(BEGAN, &format!("{steps}{COMPLETED}")).unwrap().steps, 2);
        let ended = COMPLETED.lines().nth(1).unwrap();
        assert_eq!(report(BEGAN, &format!("{steps}{ended}")).unwrap().steps, 2);
        let failed = ended.replace(r#""completed""#, r#""failed","error":{"code":"loop.max_steps_exceeded"}"#);
        assert!(report(BEGAN, &format!("{steps}{failed}")).unwrap().failure.unwrap().is_max_steps());
        assert_eq!(report(BEGAN, &steps), None);
        // An id of the prompt without one of the turn.
        let half = STEPS.replace(r#","turnId":0,"time""#, r#","time""#);
        assert_eq!(report(BEGAN, &format!("{half}{COMPLETED}")), None);
    }

    #[test]
    fn retry_records_do_not_count_attempt() {
        let retrying = r#"{"type":"turn.step.retrying","agentId":"main","turnId":0,"step":1,"nextAttempt":2}"#;
        assert_eq!(report(BEGAN, &format!("{STEPS}{retrying}\n{COMPLETED}")).unwrap().steps, 1);
    }

    #[test]
    fn records_of_other_turns_are_ignored() {
        let turn = format!("{STEPS}{COMPLETED}");
        assert_eq!(report(BEGAN + 1000, &turn), None);
        assert_eq!(report(BEGAN, &turn.replace("\"kind\":\"user\"", "\"kind\":\"task\"")), None);
        assert_eq!(report(BEGAN, &turn.replace("\"main\"", "\"agent-0\"")), None);
        assert_eq!(report(BEGAN, &format!("{STEPS}{}", COMPLETED.replace("msg_1", "msg_2"))), None);
        let later = turn.replace("17953647", "17953648").replace("msg_1", "msg_3");
        assert_eq!(report(BEGAN + 1000, &format!("{turn}{later}")).unwrap().steps, 2);
    }

    #[test]
    fn failed_turn_record_gives_error() {
        for (code, kind) in [
            ("provider.api_error", RpcErrorKind::LlmServiceError),
            ("provider.rate_limit", RpcErrorKind::LlmServiceError),
            ("provider.auth_error", RpcErrorKind::AuthExpired),
            ("model.not_configured", RpcErrorKind::LlmNotSet),
            ("new.code", RpcErrorKind::Other),
        ] {
            let error = json!({"code": code, "message": "500 no", "details": {"statusCode": 500}}).to_string();
            let failure = failed(&error).failure.unwrap();
            assert!(!failure.is_max_steps());
            let Error::Rpc(error) = failure.into_error() else { panic!("no error of the agent's") };
            assert_eq!((error.kind, error.message), (kind, format!("500 no [{code}]")));
        }
        assert!(failed(r#"{"code":"loop.max_steps_exceeded"}"#).failure.unwrap().is_max_steps());
    }

    #[test]
    fn failed_turn_without_readable_error_is_ignored() {
        assert_eq!(failed("\"text\"").failure, None);
    }

    #[test]
    fn hostile_records_are_ignored() {
        let deep = format!("{{\"type\":\"turn.prompt\",\"x\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
        for line in ["", "null", "[]", "{", "{\"type\":1}", "{\"type\":\"turn.prompt\"}", &*deep, "\u{feff}{}"] {
            let mut records = TurnRecords::since(0);
            assert_eq!(records.take_line(line.as_bytes()), None);
            assert!(!records.has_begun());
        }
        assert_eq!(TurnRecords::since(0).take_line(b"\xff\xfe"), None);
        let huge = STEPS.replace("\"output\":10", &format!("\"output\":{}", i64::MAX));
        assert_eq!(report(BEGAN, &format!("{huge}{COMPLETED}")).unwrap().usage.output, i64::MAX);
        let negative = STEPS.replace("\"output\":10", "\"output\":-5");
        assert_eq!(report(BEGAN, &format!("{negative}{COMPLETED}")).unwrap().usage.output, 20);
        let retries = "{\"type\":\"turn.step.retrying\",\"agentId\":\"main\"}\n".repeat(9);
        assert_eq!(report(BEGAN, &format!("{STEPS}{retries}{COMPLETED}")).unwrap().steps, 0);
    }

    #[test]
    fn unknown_record_version_is_not_read() {
        assert!(is_known_version(br#"{"type":"metadata","protocol_version":"1.5","created_at":1}"#));
        for line in [
            r#"{"type":"metadata","protocol_version":"1.6"}"#,
            r#"{"type":"metadata","protocol_version":1.5}"#,
            r#"{"type":"meta","protocol_version":"1.5"}"#,
            r#"{"protocol_version":"1.5"}"#,
            "",
        ] {
            assert!(!is_known_version(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn session_file_is_below_home() {
        let home = Path::new("/home/user/.kimi-code");
        let file = |id: &str, dir: &str| {
            let line = json!({"sessionId": id, "sessionDir": dir, "workDir": "/project"}).to_string();
            records_file(line.as_bytes(), "session_1", home)
        };
        let expected = "sessions/wd_project_0/session_1/agents/main/wire.jsonl";
        assert_eq!(
            file("session_1", "/home/user/.kimi-code/sessions/wd_project_0/session_1"),
            Some(PathBuf::from(expected))
        );
        for (id, dir) in [
            ("session_2", "/home/user/.kimi-code/sessions/wd_project_0/session_1"),
            ("session_1", "/home/user/.kimi-code/sessions/wd_project_0/session_2"),
            ("session_1", "/home/user/.kimi-code/sessions/../../session_1"),
            ("session_1", "/home/user/.kimi-code-2/session_1"),
            ("session_1", "/etc/session_1"),
            ("session_1", "sessions/session_1"),
        ] {
            assert_eq!(file(id, dir), None, "{dir}");
        }
        assert_eq!(records_file(b"{}", "session_1", home), None);
    }
}
