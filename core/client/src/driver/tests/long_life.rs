//! Hours of a session: nothing times out that has no timeout by its documentation. Each test plays over Wire and ACP.

use super::*;
use crate::dialect::{Acp, SessionParams, ToolsEndpoint};
use crate::tools_server::tests::{call, client};
use crate::{Approval, ExternalTool};

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Speech {
    Wire,
    Acp,
}

const BOTH: [Speech; 2] = [Speech::Wire, Speech::Acp];

/// The agent's side of a session over one of the protocols.
struct Peer {
    speech: Speech,
    agent: Agent,
    /// The server of the program's tools. Only over ACP.
    tools: Option<ToolsEndpoint>,
}

impl Peer {
    async fn open(speech: Speech, options: SessionOptions) -> (Session, Self) {
        if speech == Speech::Wire {
            let (session, agent) = open(options).await;
            return (session, Self { speech, agent, tools: None });
        }
        let (transport, end) = memory::pair(4096);
        let mut agent =
            Agent { reader: BufReader::new(end.reader), writer: end.writer, exit: end.exit, ids: Default::default() };
        let acp = Acp::new(SessionParams { work_dir: "/project".into(), ..SessionParams::default() });
        let opening = options.open_with(transport, Box::new(acp), "id".to_owned(), PathBuf::from("."));
        let greeting = async {
            agent.expect("initialize").await;
            let capabilities = json!({"mcpCapabilities": {"http": true}});
            agent.answer("initialize", json!({"protocolVersion": 1, "agentCapabilities": capabilities})).await;
            let new = agent.expect("session/new").await;
            agent.answer("session/new", json!({"sessionId": "s"})).await;
            let server = &new["params"]["mcpServers"][0];
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let header = &server["headers"][0];
            Some(ToolsEndpoint {
                name: text(&server["name"])?,
                url: text(&server["url"])?,
                headers: vec![(text(&header["name"])?, text(&header["value"])?)],
            })
        };
        let (session, tools) = tokio::join!(opening, greeting);
        (session.expect("open"), Self { speech, agent, tools })
    }

    fn prompt_name(&self) -> &'static str {
        if self.speech == Speech::Wire { "prompt" } else { "session/prompt" }
    }

    async fn prompted(&mut self, session: &Session) -> Turn {
        let turn = session.prompt("hi").expect("a turn");
        self.agent.expect(self.prompt_name()).await;
        turn
    }

    async fn text(&mut self, text: &str) {
        if self.speech == Speech::Wire {
            return self.agent.text(text).await;
        }
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
        let params = json!({"sessionId": "s", "update": update});
        self.agent.send(json!({"jsonrpc": "2.0", "method": "session/update", "params": params})).await;
    }

    async fn ask_approval(&mut self) {
        if self.speech == Speech::Wire {
            return self.agent.ask_approval("a").await;
        }
        let options = json!([
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]);
        let call = json!({"toolCallId": "t", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}});
        let params = json!({"sessionId": "s", "toolCall": call, "options": options});
        let method = "session/request_permission";
        self.agent.send(json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params})).await;
    }

    /// Whether the agent's request was approved.
    async fn is_approved(&mut self) -> bool {
        let answer = self.agent.read().await;
        assert_eq!(answer["id"], "a", "{answer}");
        answer["result"]["response"] == "approve" || answer["result"]["outcome"]["optionId"] == "yes"
    }

    /// Calls a tool of the program, and returns its output.
    async fn call_tool(&mut self, name: &'static str) -> String {
        let Some(endpoint) = &self.tools else {
            self.agent.request("c", "ToolCallRequest", json!({"id": "c", "name": name, "arguments": "{}"})).await;
            let answer = self.agent.read().await;
            return answer["result"]["return_value"]["output"].as_str().unwrap_or_default().to_owned();
        };
        let client = client(endpoint, true).await;
        let (failed, text) = call(&client, name, json!({})).await;
        assert!(!failed, "{text}");
        client.cancel().await.expect("gone");
        text
    }

    async fn finish(&mut self) {
        let result =
            if self.speech == Speech::Wire { json!({"status": "finished"}) } else { json!({"stopReason": "end_turn"}) };
        self.agent.answer(self.prompt_name(), result).await;
    }
}

#[tokio::test(start_paused = true)]
async fn session_idle_for_hours_takes_next_prompt() {
    for speech in BOTH {
        let (session, mut peer) = Peer::open(speech, SessionOptions::new()).await;
        for _ in 0..3 {
            tokio::time::sleep(HOUR).await;
            assert_eq!(session.state().as_str(), "idle", "{speech:?}");
            let mut turn = peer.prompted(&session).await;
            peer.text("here").await;
            peer.finish().await;
            assert_eq!(turn.result().await.expect("an outcome").text, "here", "{speech:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn approval_open_for_an_hour_is_answered() {
    for speech in BOTH {
        let options = SessionOptions::new().on_approval(|_| async {
            tokio::time::sleep(HOUR).await;
            Ok(Approval::Approve)
        });
        let (session, mut peer) = Peer::open(speech, options).await;
        let mut turn = peer.prompted(&session).await;
        let before = Instant::now();
        peer.ask_approval().await;
        assert!(peer.is_approved().await, "{speech:?}");
        assert!(Instant::now() - before >= HOUR, "{speech:?}");
        peer.finish().await;
        assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished", "{speech:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn tool_of_ten_minutes_returns_result() {
    for speech in BOTH {
        let (began, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
        let slow = ExternalTool::new("slow", "", json!({"type": "object"}), move |_| {
            let _ = began.send(());
            async {
                tokio::time::sleep(600 * SECOND).await;
                Ok("done")
            }
        });
        let (session, mut peer) = Peer::open(speech, SessionOptions::new().tool(slow)).await;
        let mut turn = peer.prompted(&session).await;
        let before = Instant::now();
        // The server of the tools reads the system's clock for its signs of life, so it never waits while this one is ahead.
        let minutes = async {
            has_begun.recv().await.expect("a call");
            for _ in 0..10 {
                tokio::time::advance(60 * SECOND).await;
            }
        };
        let (output, ()) = tokio::join!(peer.call_tool("slow"), minutes);
        assert_eq!(output, "done", "{speech:?}");
        assert!(Instant::now() - before >= 600 * SECOND, "{speech:?}");
        peer.finish().await;
        assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished", "{speech:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn turn_of_an_hour_loses_no_event() {
    const EVENTS: u32 = 10_000;
    for speech in BOTH {
        let (session, mut peer) = Peer::open(speech, SessionOptions::new()).await;
        let mut turn = peer.prompted(&session).await;
        let before = Instant::now();
        let speaking = tokio::spawn(async move {
            for _ in 0..EVENTS {
                tokio::time::sleep(HOUR / EVENTS).await;
                peer.text("word ").await;
            }
            // The longest command of the agent reports nothing.
            tokio::time::sleep(HOUR).await;
            peer.finish().await;
            peer
        });
        let mut texts = 0;
        while let Some(event) = turn.next().await {
            texts += u32::from(event.expect("an event").text().is_some());
        }
        assert_eq!((texts, turn.discarded()), (EVENTS, 0), "{speech:?}");
        let result = turn.result().await.expect("an outcome");
        assert_eq!((result.status.as_str(), result.text.len()), ("finished", 50_000), "{speech:?}");
        assert!(Instant::now() - before >= 2 * HOUR, "{speech:?}");
        drop(speaking.await.expect("an agent"));
    }
}
