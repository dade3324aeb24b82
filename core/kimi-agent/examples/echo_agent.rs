//! An agent on the SDK's own Wire server: it repeats what it is told, and asks before it shouts.
//!
//! `kimi-agent` drives it like any other: `Session::builder().executable([path of this program])`.

use std::io;

use kimi_agent::agent::{Connection, Incoming, Outcome, Profile, Server};
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    run()
}

/// Runs until the client has closed its end.
pub(crate) fn run() -> io::Result<()> {
    let server = Server::new(Profile::new("echo", "1.0"));
    let mut client = Connection::new(server, io::stdin().lock(), io::stdout());
    // The text to shout once the user has approved.
    let mut asked: Option<String> = None;
    while let Some(incoming) = client.next()? {
        let server = &mut client.server;
        match incoming {
            Incoming::Prompt(content) => {
                let text = content.text();
                server.event_of("TurnBegin", json!({"user_input": text}));
                server.event_of("StepBegin", json!({"n": 1}));
                match text.strip_suffix('!') {
                    None => finish(server, &text),
                    Some(words) => {
                        asked = Some(words.to_uppercase());
                        let call = json!({"type": "function", "id": "call-1", "function": {"name": "Shout"}});
                        server.event_of("ToolCall", call);
                        server.request_of(
                            "ask-1",
                            "ApprovalRequest",
                            json!({
                                "id": "ask-1",
                                "tool_call_id": "call-1",
                                "sender": "echo",
                                "action": "shout",
                                "description": format!("Shout `{words}`"),
                                "display": [],
                            }),
                        );
                    }
                }
            }
            Incoming::Answer(_, answer) => {
                // Anything that is not a clear yes is a no.
                let response = answer.as_ref().ok().and_then(|answer| answer.get("response")?.as_str());
                let yes = matches!(response, Some("approve" | "approve_for_session"));
                server.event_of(
                    "ApprovalResponse",
                    json!({"request_id": "ask-1", "response": if yes { "approve" } else { "reject" }}),
                );
                server.event_of("ToolResult", result(!yes));
                finish(server, &asked.take().filter(|_| yes).unwrap_or_else(|| "(whispers)".to_owned()));
            }
            Incoming::Cancel => {
                asked = None;
                server.withdraw_all();
                server.finish(Outcome::Cancelled);
            }
            // Said while the user is asked: it can wait for the next turn.
            _ => {}
        }
    }
    Ok(())
}

fn result(is_error: bool) -> Value {
    json!({"tool_call_id": "call-1", "return_value": {"is_error": is_error, "output": "", "message": "", "display": []}})
}

fn finish(server: &mut Server, text: &str) {
    server.event_of("ContentPart", json!({"type": "text", "text": text}));
    server.event_of("TurnEnd", json!({}));
    server.finish(Outcome::Finished);
}
