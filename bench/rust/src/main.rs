//! The clients in Rust: ours, what one would write by hand, the crate kimi-wire, and the limit.
//!
//! `kimi-agent-bench CLIENT AGENT` does what `BENCH_TASK` says, and prints what it cost as one line of JSON;
//! `bench/README.md` describes both.

mod acp_by_hand;
mod by_hand;
mod kimi_wire_client;
mod limit;
mod measure;
mod ours;
mod server_by_hand;

fn main() {
    let mut args = std::env::args().skip(1);
    let client = args.next().expect("a client's name");
    let agent = args.next().expect("the agent's path");
    if client == "limit" {
        return limit::run(&agent);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match client.as_str() {
            "ours" => ours::run(&agent).await,
            "by-hand" => by_hand::run(&agent).await,
            "acp-by-hand" => acp_by_hand::run(&agent).await,
            "server-by-hand" => server_by_hand::run(&agent).await,
            "kimi-wire" => kimi_wire_client::run(&agent).await,
            other => panic!("no client is called {other}"),
        }
    });
}
