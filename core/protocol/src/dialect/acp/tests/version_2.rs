//! A made-up conversation in version 2 of the protocol, which is a draft: the answer to a prompt only says that the agent has
//! got it, and `state_update` says when the turn ends. The seam of dialects takes both without a change above it.

use super::*;

/// Version 2, as far as its turns differ from version 1.
#[derive(Debug)]
struct Version2 {
    version_1: Acp,
    /// The id of the prompt whose turn runs.
    prompt: Option<u64>,
}

fn replaced(text: &str, from: u64, to: u64) -> String {
    text.replace(&format!("\"protocolVersion\":{from}"), &format!("\"protocolVersion\":{to}"))
}

impl Version2 {
    /// Takes an update of the session's state. `None` if this is another message.
    fn state(&mut self, message: &Message<'_>) -> Option<Incoming> {
        let Message::Notification { method, params } = message else { return None };
        let params: Value = serde_json::from_str(params.get()).ok().filter(|_| method == "session/update")?;
        let update = &params["update"];
        if update["sessionUpdate"] != "state_update" {
            return None;
        }
        let prompt = self.prompt.take_if(|_| update["state"] == "idle");
        let ended = |prompt: u64| answer(prompt, json!({"stopReason": update["stopReason"]}));
        Some(prompt.map_or(Incoming::Batch(Vec::new()), |prompt| self.version_1.read_line(ended(prompt).as_bytes())))
    }
}

impl Dialect for Version2 {
    fn reports_turn_begin(&self) -> bool {
        self.version_1.reports_turn_begin()
    }

    fn reports_steps(&self) -> bool {
        self.version_1.reports_steps()
    }

    fn call(&mut self, id: &str, call: &Call) -> Result<Vec<u8>> {
        let bytes = self.version_1.call(id, call)?;
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line: Value = serde_json::from_slice(line).expect("JSON");
        match call {
            Call::Prompt(_) => self.prompt = line["id"].as_u64(),
            Call::Initialize(_) => return Ok(replaced(&String::from_utf8_lossy(&bytes), 1, 2).into_bytes()),
            _ => {}
        }
        Ok(bytes)
    }

    fn read(&mut self, message: Message<'_>) -> Incoming {
        let prompt = self.prompt.map(|prompt| prompt.to_string());
        match &message {
            Message::Response { id: Some(id), outcome: Ok(_) } if prompt.as_deref() == Some(&**id) => {
                Incoming::Batch(Vec::new())
            }
            _ => self.state(&message).unwrap_or_else(|| self.version_1.read(message)),
        }
    }

    fn answer(&mut self, rpc_id: &str, request_id: &str, answer: &Answer) -> Vec<u8> {
        self.version_1.answer(rpc_id, request_id, answer)
    }

    fn refuse(&mut self, rpc_id: &str, code: i64, message: &str) -> Vec<u8> {
        self.version_1.refuse(rpc_id, code, message)
    }

    fn next_handshake_request(&mut self, id: &str, outcome: &std::result::Result<Json, RpcFailure>) -> Option<Vec<u8>> {
        let outcome = outcome.clone().map(|answer| Json::from_text(&replaced(answer.get(), 2, 1)));
        self.version_1.next_handshake_request(id, &outcome)
    }

    fn finish_handshake(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Handshake> {
        self.version_1.finish_handshake(outcome)
    }

    fn map_error_code(&self, call: &Call, code: i64) -> RpcErrorKind {
        self.version_1.map_error_code(call, code)
    }
}

fn state(state: &str, stop: Option<&str>) -> String {
    update(json!({"sessionUpdate": "state_update", "state": state, "stopReason": stop}))
}

fn text(text: &str) -> String {
    update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

#[test]
fn turn_ends_with_idle_state() {
    let dialect = Version2 { version_1: Acp::new(params()), prompt: None };
    let mut player = Player::speaking(Box::new(dialect), InitializeParams::default());
    assert_eq!(player.sent()[0]["params"]["protocolVersion"], 2);
    player.hear(&replaced(&initialized(json!({})).to_string(), 1, 2));
    assert_eq!(player.sent()[0]["method"], "session/new");
    player.hear(&answer(1, json!({"sessionId": "s"})));

    player.connection.prompt(1, "hi".into(), player.now);
    player.hear(&answer(2, json!({"messageId": "m1"})));
    player.hear(&state("running", None));
    player.hear(&text("Hel"));
    player.hear(&state("requires_action", None));
    player.hear(&text("lo"));
    assert!(!player.trace.iter().any(|line| line.starts_with("turn ")), "{:?}", player.trace);
    player.hear(&state("idle", Some("end_turn")));
    let expected =
        ["opened s", "TurnBegin", "StepBegin", "text \"Hel\"", "text \"lo\"", "TurnEnd", "turn finished 1 \"Hello\""];
    assert_eq!(player.trace, expected);

    // The state may come before the answer, and a cancel is settled by the state.
    player.trace.clear();
    player.sent();
    player.connection.prompt(2, "more".into(), player.now);
    player.hear(&text("On"));
    player.connection.cancel(2, player.now);
    player.look();
    assert_eq!(player.sent().last().expect("a cancel")["method"], "session/cancel");
    player.hear(&state("idle", Some("cancelled")));
    assert_eq!(player.trace.last().map(String::as_str), Some("turn cancelled 1 \"On\""));
    player.hear(&answer(3, json!({"messageId": "m2"})));
    player.hear(&state("idle", Some("end_turn")));
    assert_eq!(player.trace.iter().filter(|line| line.starts_with("turn ")).count(), 1);

    // A prompt that the agent refuses has no turn.
    player.connection.prompt(3, "again".into(), player.now);
    player.hear(r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"no"}}"#);
    assert_eq!(player.trace.last().map(String::as_str), Some("turn rpc_error: no (-32602)"));
}
