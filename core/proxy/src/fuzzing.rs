//! A client and an agent whose lines come from a fuzzer. The target `proxy` of `fuzz/` calls this, and the tests below do so with
//! the inputs that are kept. A broken promise panics.

#![allow(clippy::panic, clippy::unwrap_used, reason = "that is how a fuzzer hears of it")]

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use kimi_agent_client::SessionOptions;
use kimi_agent_protocol::jsonrpc::relayed;
use serde_json::{Value, json};

use crate::guard::Guard;
use crate::settings::{Owner, Settings};

/// The requests that no agent gets past the user, if no rule allows anything.
const SERVICES: [&str; 3] = ["fs/read_text_file", "fs/write_text_file", "terminal/create"];
/// Stands in inputs for the random beginning of the ids of the guard's requests.
const OWN_ID: &str = "@own@";

/// Checks that the agent gets no approval that the client has not sent, and that the client gets no file to write and no
/// command to run before the user has approved it. Each line of the input begins with `<` (of the agent), `>` (of the client)
/// or `!` (a minute passes). A session `s` with a running prompt is open at first.
pub fn proxy(data: &[u8]) {
    let mut play = Play::new();
    for line in data.split(|byte| *byte == b'\n') {
        if !play.step(line) {
            return;
        }
    }
    play.guard.end(&kimi_agent_client::Error::session_closed());
}

struct Play {
    guard: Guard,
    now: Instant,
    /// The ids of requests that the client has got and not answered.
    shown: HashSet<String>,
    /// The options that the agent has offered, by the id of the request: their ids and kinds.
    offered: HashMap<String, Vec<(String, String)>>,
}

impl Play {
    fn new() -> Self {
        let rules = json!({"proxy": {"policy": {"deny": ["execute(rm *)"], "ask": ["read", "edit", "execute"]}, "enforce": "calls"}});
        let settings = Settings::of_value(&rules, Path::new("settings.toml"), Owner::User).unwrap();
        let mut play = Self {
            guard: Guard::new(SessionOptions::new(), settings, None),
            now: Instant::now(),
            shown: HashSet::new(),
            offered: HashMap::new(),
        };
        let begin = [
            (false, json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 1}})),
            (true, json!({"id": 0, "result": {"protocolVersion": 1}})),
            (
                false,
                json!({"id": 1, "method": "session/new", "params": {"cwd": std::env::temp_dir(), "mcpServers": []}}),
            ),
            (true, json!({"id": 1, "result": {"sessionId": "s"}})),
            (false, json!({"id": 2, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}})),
        ];
        for (is_agent, mut message) in begin {
            message["jsonrpc"] = json!("2.0");
            play.handle(is_agent, message.to_string().as_bytes());
        }
        play
    }

    /// Handles a line of the input. Returns false if the proxy would end here.
    fn step(&mut self, line: &[u8]) -> bool {
        match line.split_first() {
            Some((b'<', line)) => self.handle(true, line),
            Some((b'>', line)) => {
                let text = String::from_utf8_lossy(line);
                let own = self.guard.prefix();
                match text.contains(OWN_ID) {
                    true => self.handle(false, text.replace(OWN_ID, own).as_bytes()),
                    false => self.handle(false, line),
                }
            }
            Some((b'!', _)) => {
                self.now += Duration::from_secs(60);
                let is_open = self.guard.handle_timeout(self.now).is_ok();
                self.check(None, b"");
                is_open
            }
            _ => true,
        }
    }

    fn handle(&mut self, is_agent: bool, line: &[u8]) -> bool {
        self.now += Duration::from_millis(1);
        if is_agent {
            self.note_options(line);
        }
        let passed = match is_agent {
            true => self.guard.agent_line(line, self.now),
            false => self.guard.client_line(line, self.now),
        };
        self.check(Some(is_agent), line);
        passed.is_ok()
    }

    /// Keeps the options of a permission request.
    fn note_options(&mut self, line: &[u8]) {
        let Ok(request) = serde_json::from_slice::<Value>(line) else { return };
        let options = request["params"]["options"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let options = options.map(|option| (text(&option["optionId"]), text(&option["kind"])));
        self.offered.entry(key(&request)).or_default().extend(options);
    }

    /// Checks what a line has led to.
    fn check(&mut self, of_agent: Option<bool>, line: &[u8]) {
        let (to_agent, to_client) = (taken(&mut self.guard.to_agent.bytes), taken(&mut self.guard.to_client.bytes));
        for (bytes, message) in to_agent {
            if let Some(option) = selected(&message) {
                let options = self.offered.get(&key(&message)).map(Vec::as_slice).unwrap_or_default();
                let is_rejection = options.iter().any(|(id, kind)| id == option && kind.starts_with("reject"));
                let is_answer = of_agent == Some(false) && bytes == line && self.shown.contains(&key(&message));
                assert!(is_rejection || is_answer, "the client has not approved {message}");
            }
            if message["method"].is_null() {
                self.shown.remove(&key(&message));
            }
        }
        for (_, message) in to_client {
            let Some(method) = message["method"].as_str() else { continue };
            let is_asked = of_agent == Some(false) || !SERVICES.contains(&method);
            assert!(is_asked, "the user was not asked about {message}");
            self.shown.insert(key(&message));
        }
    }
}

/// The option that an answer selects.
fn selected(message: &Value) -> Option<&str> {
    let is_answer = message["method"].is_null();
    message["result"]["outcome"]["optionId"].as_str().filter(|_| is_answer)
}

/// The id of a message, the same for each spelling.
fn key(message: &Value) -> String {
    let id = message["id"].to_string();
    relayed::id_key(&id).unwrap_or(id)
}

/// Takes the lines that wait, with what they say.
fn taken(bytes: &mut bytes::BytesMut) -> Vec<(Vec<u8>, Value)> {
    let bytes = std::mem::take(bytes).to_vec();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| (line.to_vec(), serde_json::from_slice(line).unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_inputs() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        let mut count = 0;
        for folder in ["seeds/proxy", "crashes/proxy"] {
            for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten() {
                let path = entry.unwrap().path();
                println!("{}", path.display());
                proxy(&std::fs::read(&path).unwrap());
                count += 1;
            }
        }
        assert!(count >= 3, "only {count} inputs");
    }

    #[test]
    fn model_notices_a_forged_approval() {
        let mut play = Play::new();
        play.guard.to_agent.bytes.extend_from_slice(
            br#"{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"yes"}}}"#,
        );
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play.check(Some(true), b"")));
        assert!(found.is_err());
    }
}
