use std::time::Duration;

use kimi_agent::{Answers, Approval, Error, ExternalTool, Hook, HookDecision, OnError, Session, SessionOptions};

#[tokio::main]
async fn main() -> kimi_agent::Result<()> {
    // the block
    Ok(())
}
