//! The crate kimi-wire, as its documentation uses it.

use kimi_wire::message::WireMessage;
use kimi_wire::protocol::InitializeParams;
use kimi_wire::transport::{ChildProcessTransport, TransportWireClient};
use kimi_wire::{RequestExt, WireClient, WireClientExt};
use serde_json::json;

use crate::measure::Measure;

pub async fn run(agent: &str) {
    let transport = ChildProcessTransport::spawn(agent, None, None, None).await.expect("the agent starts");
    let mut client = TransportWireClient::new(transport);
    client.initialize(InitializeParams::new("1.10")).await.expect("a handshake");
    let mut measure = Measure::begin();
    let prompt = client.start_prompt("go").await.expect("it listens");
    loop {
        match client.read_message().await.expect("a message") {
            WireMessage::Event(event) => {
                measure.event();
                std::hint::black_box(&event);
            }
            WireMessage::Request(request) => {
                measure.event();
                let id = &request.id;
                let result = match request.params.kind().as_str() {
                    "ApprovalRequest" => json!({"request_id": id, "response": "approve"}),
                    _ => json!({"tool_call_id": id, "return_value": {
                        "is_error": false, "output": "12", "message": "", "display": [],
                    }}),
                };
                client.send_response(id, result).await.expect("it listens");
            }
            WireMessage::SuccessResponse(response) if response.id == prompt => break,
            _ => {}
        }
    }
    measure.end();
    client.shutdown().await.expect("it ends");
}
