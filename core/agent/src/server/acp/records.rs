//! The records of a turn that Kimi Code writes into the session's files. They have details that ACP does not report.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::super::super::types::Outcome;

/// The files of one session.
#[derive(Debug, Default)]
pub(super) struct Records {
    file: Option<PathBuf>,
    turn: u64,
    steps: u64,
}

impl Records {
    /// Creates the session's file below the agent's home, and adds it to the index.
    pub(super) fn open(&mut self, home: &Path, session: &str, work_dir: &str) -> io::Result<()> {
        let dir = home.join("sessions").join("wd_scripted").join(session);
        let main = dir.join("agents").join("main");
        fs::create_dir_all(&main)?;
        let entry = json!({"sessionId": session, "sessionDir": dir, "workDir": work_dir});
        append(&home.join("session_index.jsonl"), &[entry])?;
        let file = main.join("wire.jsonl");
        if !file.exists() {
            append(&file, &[json!({"type": "metadata", "protocol_version": "1.5", "created_at": now()})])?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Writes the records of an event.
    pub(super) fn event(&mut self, kind: &str, payload: &Value) {
        match kind {
            "TurnBegin" => {
                self.steps = 0;
                let prompt = self.prompt();
                self.write(&[json!({"type": "turn.prompt", "agentId": "main", "input": payload["user_input"],
                    "origin": {"kind": "user"}, "promptId": prompt, "turnId": self.turn, "time": now()})]);
            }
            "StepBegin" => {
                self.steps += 1;
                let event = json!({"type": "step.begin", "turnId": self.turn.to_string(), "step": self.steps});
                self.write(&[json!({"type": "context.append_loop_event", "agentId": "main", "event": event})]);
            }
            "StatusUpdate" => {
                let usage = &payload["token_usage"];
                if usage.is_object() {
                    let usage = json!({"inputOther": usage["input_other"], "output": usage["output"],
                        "inputCacheRead": usage["input_cache_read"], "inputCacheCreation": usage["input_cache_creation"]});
                    self.write(&[json!({"type": "usage.record", "agentId": "main", "usage": usage})]);
                }
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, outcome: &Outcome) {
        let failed = |code: &str, message: &str| {
            json!({"type": "turn.ended", "agentId": "main", "turnId": self.turn, "reason": "failed",
                "error": {"code": code, "message": message}})
        };
        let ended = match outcome {
            Outcome::Finished | Outcome::Other(_) => {
                json!({"type": "turn.ended", "turnId": self.turn, "reason": "completed"})
            }
            Outcome::Cancelled => json!({"type": "turn.ended", "turnId": self.turn, "reason": "cancelled"}),
            Outcome::MaxStepsReached(_) => failed("loop.max_steps_exceeded", "Turn exceeded maxSteps."),
            Outcome::Failed(failure) => failed("provider.api_error", &failure.message),
        };
        let prompt = self.prompt();
        self.write(&[ended, json!({"type": "prompt.completed", "agentId": "main", "promptId": prompt})]);
        self.turn += 1;
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    fn prompt(&self) -> String {
        format!("msg_{}", self.turn)
    }

    fn write(&self, lines: &[Value]) {
        if let Some(file) = &self.file
            && let Err(error) = append(file, lines)
        {
            let _ = writeln!(io::stderr(), "kimi-scripted-agent: {}: {error}", file.display());
        }
    }
}

fn append(file: &Path, lines: &[Value]) -> io::Result<()> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    OpenOptions::new().append(true).create(true).open(file)?.write_all(text.as_bytes())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}
