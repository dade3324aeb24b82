//! A line of each kind, truncated after each of its bytes: the agent exits or is silent there.

use super::*;
use crate::{Approval, Error, ExternalTool, Hook, HookDecision};

/// The agent's next lines.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Event,
    Approval,
    ToolCall,
    Question,
    Hook,
    UnknownMethod,
    PromptAnswer,
    SteerAnswer,
    HandshakeAnswer,
}

const KINDS: [Kind; 9] = [
    Kind::Event,
    Kind::Approval,
    Kind::ToolCall,
    Kind::Question,
    Kind::Hook,
    Kind::UnknownMethod,
    Kind::PromptAnswer,
    Kind::SteerAnswer,
    Kind::HandshakeAnswer,
];

impl Kind {
    fn line(self, agent: &Agent) -> String {
        let request = |kind: &str, payload: Value| json!({"jsonrpc": "2.0", "id": "r", "method": "request", "params": {"type": kind, "payload": payload}});
        let answer = |method: &str, result: Value| json!({"jsonrpc": "2.0", "id": agent.ids[method], "result": result});
        let message = match self {
            Self::Event => {
                json!({"jsonrpc": "2.0", "method": "event",
                    "params": {"type": "ContentPart", "payload": {"type": "text", "text": "wörd"}}})
            }
            Self::Approval => request(
                "ApprovalRequest",
                json!({"id": "a", "tool_call_id": "t", "sender": "Shell", "action": "run", "description": "ls"}),
            ),
            Self::ToolCall => request("ToolCallRequest", json!({"id": "t", "name": "look", "arguments": "{}"})),
            Self::Question => request(
                "QuestionRequest",
                json!({"id": "q", "tool_call_id": "t", "questions": [{"question": "Which?", "options": []}]}),
            ),
            Self::Hook => request(
                "HookRequest",
                json!({"id": "h", "subscription_id": "hook-1", "event": "PreToolUse", "target": "", "input_data": {}}),
            ),
            Self::UnknownMethod => json!({"jsonrpc": "2.0", "id": "u", "method": "unheard_of", "params": {}}),
            Self::PromptAnswer => answer("prompt", json!({"status": "finished"})),
            Self::SteerAnswer => answer("steer", json!({"status": "steered"})),
            Self::HandshakeAnswer => answer(
                "initialize",
                json!({"protocol_version": "1.10", "server": {"name": "Agent", "version": "1"},
                    "hooks": {"supported_events": ["PreToolUse"]}}),
            ),
        };
        message.to_string()
    }
}

fn options() -> SessionOptions {
    SessionOptions::new()
        .on_approval(|_| async { Ok(Approval::Approve) })
        .on_question_manual()
        .tool(ExternalTool::new("look", "Looks", json!({"type": "object"}), |_| async { Ok("seen") }))
        .hook(Hook::new("PreToolUse", |_| async { Ok(HookDecision::Allow) }))
        .idle_timeout(SECOND)
}

/// How it came out: the events' types, and the error's code.
async fn broken(kind: Kind, length: usize, dies: bool) -> (Vec<String>, &'static str) {
    let (session, mut agent) = opening(options(), 4096);
    if kind == Kind::HandshakeAnswer {
        let opening = tokio::spawn(session);
        agent.expect("initialize").await;
        agent.write(&kind.line(&agent).as_bytes()[..length]).await;
        agent.exit.obey();
        if dies {
            agent.exit.code(3);
            drop(agent);
        }
        return (Vec::new(), opening.await.expect("no panic").map_or_else(|error| error.code(), |_| "open"));
    }
    let (session, ()) = tokio::join!(session, agent.welcome());
    let session = session.expect("open");
    let mut turn = session.prompt("hi").expect("a turn");
    agent.expect("prompt").await;
    let said = async move {
        if kind == Kind::SteerAnswer {
            agent.expect("steer").await;
        }
        let line = kind.line(&agent);
        agent.write(&line.as_bytes()[..length]).await;
        agent.exit.obey();
        if dies {
            agent.exit.code(3);
        } else {
            // Writes nothing more, but reads.
            while agent.read().await != Value::Null {}
        }
    };
    let ends = async {
        let mut code = match kind {
            Kind::SteerAnswer => turn.steer("more").await.map_or_else(|error| error.code(), |()| "steered"),
            _ => "no end",
        };
        let mut events = Vec::new();
        while let Some(next) = turn.next().await {
            match next {
                Ok(event) => events.push(event.type_name().to_owned()),
                Err(error) => code = error.code(),
            }
        }
        let result = turn.result().await;
        assert!(matches!(&result, Err(Error::AgentExited(_) | Error::Timeout(_))) || code != "timeout", "{result:?}");
        session.close().await.expect("closed");
        (events, code)
    };
    tokio::join!(ends, said).0
}

/// The bytes of a line with ids as long as the real ones.
fn length(kind: Kind) -> usize {
    let (_, mut agent) = opening(SessionOptions::new(), 64);
    for method in ["initialize", "prompt", "steer"] {
        agent.ids.insert(method.to_owned(), json!(format!("{method}-1")));
    }
    kind.line(&agent).len()
}

#[tokio::test(start_paused = true)]
async fn agent_death_after_any_byte_ends_waits() {
    for kind in KINDS {
        let whole = length(kind);
        for length in 0..whole {
            // Before the handshake half a line shows that another program was started.
            let early = kind == Kind::HandshakeAnswer && length > 0;
            let expected = (Vec::new(), if early { "handshake_error" } else { "agent_exited" });
            assert_eq!(broken(kind, length, true).await, expected, "{kind:?}, {length} of {whole} bytes");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn agent_silence_after_any_byte_ends_waits() {
    for kind in KINDS {
        let whole = length(kind);
        // Even all of it is none without the end of the line.
        for length in 0..=whole {
            assert_eq!(
                broken(kind, length, false).await,
                (Vec::new(), "timeout"),
                "{kind:?}, {length} of {whole} bytes"
            );
        }
    }
}
