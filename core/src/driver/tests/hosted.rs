//! Functions of a host's, which the driver polls itself: whatever one of them does ends up as an answer, as elsewhere.

use std::sync::{Arc, Mutex};

use super::*;
use crate::ExternalTool;

fn hosted(mut options: SessionOptions) -> SessionOptions {
    options.hosted = true;
    options
}

fn tool<R>(name: &str, handler: impl Fn(Value) -> R + Send + Sync + 'static) -> ExternalTool
where
    R: Future<Output = Result<String, crate::HandlerError>> + Send + 'static,
{
    ExternalTool::new(name, "Works", json!({"type": "object"}), handler)
}

async fn call(agent: &mut Agent, id: &str, name: &str) {
    agent.request(id, "ToolCallRequest", json!({"id": id, "name": name, "arguments": "{}"})).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_an_error_and_a_limit_are_answers() {
    let options = SessionOptions::new()
        .tool(tool("panics", |_| async { panic!("boom") }))
        .tool(tool("fails", |_| async { Err("no idea".into()) }))
        .tool(tool("hangs", |_| std::future::pending()).timeout(5 * SECOND))
        .tool(tool("works", |_| async { Ok("done".to_owned()) }));
    let (_session, mut agent, mut turn) = in_turn(hosted(options)).await;
    let before = Instant::now();
    let mut said = Vec::new();
    for name in ["panics", "fails", "hangs", "works"] {
        call(&mut agent, name, name).await;
        let value = agent.read().await["result"]["return_value"].clone();
        said.push(format!("{} {}", value["message"].as_str().unwrap_or("?"), value["output"].as_str().unwrap_or("?")));
    }
    assert_eq!(Instant::now() - before, 5 * SECOND);
    assert_eq!(said, ["the handler panicked: boom ", "no idea ", "the handler took longer than its 5s ", " done"]);
    agent.finish().await;
    let failed = rest(&mut turn).await.into_iter().filter(|kind| kind == "HandlerFailed").count();
    assert_eq!(failed, 3);
}

#[tokio::test(start_paused = true)]
async fn several_run_at_once_and_answer_as_they_end() {
    let (answers, waiting): (Vec<_>, Vec<_>) = (0..3).map(|_| tokio::sync::oneshot::channel::<String>()).unzip();
    let waiting = Arc::new(Mutex::new(waiting));
    let options = SessionOptions::new().tool(tool("waits", move |_| {
        let answer = waiting.lock().unwrap().remove(0);
        async move { Ok(answer.await?) }
    }));
    let (_session, mut agent, turn) = in_turn(hosted(options)).await;
    for id in ["0", "1", "2"] {
        call(&mut agent, id, "waits").await;
    }
    idle().await;
    for (id, answer) in answers.into_iter().enumerate().rev() {
        answer.send(format!("answer {id}")).expect("it waits");
        let answer = agent.read().await;
        assert_eq!(
            (answer["id"].as_str(), answer["result"]["return_value"]["output"].as_str()),
            (Some(&*id.to_string()), Some(&*format!("answer {id}")))
        );
    }
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_turn_stops_them() {
    super::handlers::stopped_at_the_end(hosted(SessionOptions::new())).await;
}
