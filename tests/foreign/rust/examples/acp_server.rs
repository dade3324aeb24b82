//! The server of ACP's Rust crates in front of an agent that speaks ACP on stdin and stdout: `acp_server PROGRAM ARG…`. Each
//! connection has a process of its own. It prints its port, and ends with its input.

use agent_client_protocol::{AcpAgent, AcpAgentConfig};
use agent_client_protocol_http::AcpHttpServer;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let agent = move || {
        let config = words[1..].iter().fold(AcpAgentConfig::new(&words[0]), |config, word| config.arg(word));
        AcpAgent::new(config)
    };
    let router = AcpHttpServer::new(agent).into_router();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("an address").port());
    let mut input = Vec::new();
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served.expect("a server"),
        ended = async { tokio::io::stdin().read_to_end(&mut input).await } => drop(ended),
    }
}
