use kimi_agent::Session;
use kimi_agent::testing::scripted_agent;
use serde_json::json;

#[tokio::main]
async fn main() -> kimi_agent::Result<()> {
    let agent = scripted_agent(json!([[{"text": ["hello ", "{{prompt}}"]}]]));
    let session = Session::builder().executable(&agent).start().await?;
    let mut turn = session.prompt("world")?;
    while let Some(event) = turn.next().await {
        print!("{}", event?.text().unwrap_or_default());
    }
    session.close().await
}
