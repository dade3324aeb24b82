//! Sessions opened and left, many times, a few at once.

use std::sync::Arc;

use kimi_agent::SessionOptions;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::Outcome;

/// How far the opening of a session that is given up at once gets: so many turns of the event loop.
const YIELDS: u64 = 20;

/// `times` sessions, `width` at once, left in the `way` that the operation says.
pub(crate) async fn run(op: &Value, options: &SessionOptions) -> Outcome {
    let number = |name: &str| op[name].as_u64().unwrap_or(1);
    let way = op["way"].as_str().unwrap_or_default();
    let mut running = JoinSet::new();
    for n in 0..number("times") {
        if running.len() as u64 >= number("width") {
            running.join_next().await.transpose()?.transpose()?;
        }
        let options = options.clone();
        match way {
            "close" => drop(running.spawn(close(options))),
            "drop" | "collect" => drop(running.spawn(leave(options, n))),
            "cancel" => drop(running.spawn(give_up(options, n))),
            other => return Err(format!("sessions are not left in the way `{other}`").into()),
        }
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(json!({}))
}

type Done = Result<(), kimi_agent::Error>;

async fn close(options: SessionOptions) -> Done {
    let session = options.start().await?;
    session.prompt("again")?.result().await?;
    session.close().await
}

/// Before a turn, in the middle of one, or after it; on this thread or on one that knows no runtime.
async fn leave(options: SessionOptions, n: u64) -> Done {
    let session = options.start().await?;
    let mut turn = None;
    if !n.is_multiple_of(3) {
        let mut begun = session.prompt("again")?;
        begun.next().await.transpose()?;
        if n % 3 == 2 {
            begun.result().await?;
        }
        turn = Some(begun);
    }
    if n.is_multiple_of(2) {
        drop(std::thread::spawn(move || drop((session, turn))).join());
    }
    Ok(())
}

/// At once, or when the agent has begun to run and does not answer.
async fn give_up(options: SessionOptions, n: u64) -> Done {
    let runs = Arc::new(Notify::new());
    let options = match n % 2 {
        0 => options,
        _ => {
            let heard = Arc::clone(&runs);
            options.on_stderr(move |_| heard.notify_one())
        }
    };
    let opening = tokio::spawn(async move { options.start().await.map(|session| session.pid()) });
    if n.is_multiple_of(2) {
        for _ in 0..n % YIELDS {
            tokio::task::yield_now().await;
        }
    } else {
        runs.notified().await;
    }
    opening.abort();
    // It may have come to its end before.
    drop(opening.await);
    Ok(())
}
