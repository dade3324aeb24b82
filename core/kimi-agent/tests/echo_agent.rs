//! The example of an agent on the public server, driven by the SDK's own sessions. This program is that agent, too: it
//! starts itself.

use std::ffi::OsString;

use kimi_agent::{Approval, Session, TurnStatus};

#[path = "../examples/echo_agent.rs"]
#[allow(dead_code, reason = "its `main` is the one of an example")]
mod example;

fn echo_agent() -> Vec<OsString> {
    vec![std::env::current_exe().expect("a path").into()]
}

fn main() {
    if std::env::args().any(|argument| argument == "--wire") {
        return example::run().expect("streams");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        it_repeats_and_asks().await;
        reject_and_cancel_end_turn().await;
    });
}

async fn it_repeats_and_asks() {
    let session = Session::builder()
        .executable(echo_agent())
        .on_approval(|request| async move {
            assert_eq!((&*request.action, &*request.description), ("shout", "Shout `hey`"));
            Ok(Approval::Approve)
        })
        .start()
        .await
        .expect("it starts");
    assert_eq!(session.server().map(|server| &*server.name), Some("echo"));
    assert_eq!(session.prompt("hello").expect("free").result().await.expect("fine").text, "hello");
    assert_eq!(session.prompt("hey!").expect("free").result().await.expect("fine").text, "HEY");
    session.set_plan_mode(true).await.expect("it has it");
    session.close().await.expect("it closes");
}

async fn reject_and_cancel_end_turn() {
    let session = Session::builder().executable(echo_agent()).start().await.expect("it starts");
    let result = session.prompt("hey!").expect("free").result().await.expect("fine");
    assert_eq!((result.status, &*result.text), (TurnStatus::Finished, "(whispers)"));
    session.close().await.expect("it closes");

    let session = Session::builder().executable(echo_agent()).on_approval_manual().start().await.expect("it starts");
    let mut turn = session.prompt("hey!").expect("free");
    while let Some(event) = turn.next().await {
        if event.expect("fine").request_id().is_some() {
            turn.cancel().await.expect("it can");
        }
    }
    assert_eq!(turn.result().await.expect("fine").status, TurnStatus::Cancelled);
    session.close().await.expect("it closes");
}
