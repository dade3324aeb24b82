use kimi_agent::Session;

#[tokio::main]
async fn main() -> kimi_agent::Result<()> {
    let session = Session::builder().work_dir(".").start().await?;
    // the block
    session.close().await
}
