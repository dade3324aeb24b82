//! Plays the scenarios with the Rust crate. Reads them from stdin, and prints the recorded spans and metrics.

mod recorder;

use std::error::Error;
use std::io::Write as _;

use kimi_agent::batch::{BatchOptions, Job};
use kimi_agent::testing::{ScriptedAgent, scripted_agent};
use kimi_agent::{Approval, ExternalTool, HandlerError, SessionOptions, Turn, prompt, run_batch};
use kimi_agent_client::host::{self, Naming};
use opentelemetry::Context;
use opentelemetry::trace::{FutureExt as _, TraceContextExt as _, Tracer as _, TracerProvider as _};
use opentelemetry_sdk::trace::SdkTracer;
use serde_json::{Map, Value, json};

use recorder::Recorder;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let scenarios: Vec<Value> = serde_json::from_reader(std::io::stdin().lock())?;
    let mut found = Map::new();
    for scenario in &scenarios {
        let recorder = Recorder::new();
        play(scenario, &recorder).await?;
        found.insert(scenario["name"].as_str().unwrap_or_default().to_owned(), recorder.recorded()?);
    }
    writeln!(std::io::stdout(), "{}", Value::Object(found))?;
    Ok(())
}

/// Plays a scenario.
async fn play(scenario: &Value, recorder: &Recorder) -> Outcome {
    let agent = agent(scenario);
    let options = options(scenario, &agent, recorder)?;
    let cancel_at = scenario["cancel_at"].as_str();
    if scenario["one_shot"] == true {
        return with_caller(recorder, async { finish(prompt("Go", options), cancel_at).await }).await;
    }
    if let Some(jobs) = scenario["jobs"].as_array() {
        return with_caller(recorder, run_jobs(jobs, options)).await;
    }
    let session = options.start().await?;
    let turn = async { finish(session.prompt("Go")?, cancel_at).await };
    if scenario["without_caller"] == true {
        turn.await?;
    } else {
        with_caller(recorder, turn).await?;
    }
    Ok(session.close().await?)
}

/// Runs jobs one by one.
async fn run_jobs(jobs: &[Value], options: SessionOptions) -> Outcome {
    let jobs: Vec<_> = jobs.iter().cloned().map(Job::from_json).collect();
    let mut batch = run_batch(jobs, BatchOptions::new().concurrency(1).session(options));
    while let Some(result) = batch.next().await {
        result?.error.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Runs a future below a span of the program.
async fn with_caller(recorder: &Recorder, future: impl Future<Output = Outcome>) -> Outcome {
    let caller = Context::current_with_span(tracer(recorder).start("caller"));
    let outcome = future.with_context(caller.clone()).await;
    caller.span().end();
    outcome
}

/// The tracer of the program itself.
fn tracer(recorder: &Recorder) -> SdkTracer {
    recorder.tracers.tracer("program")
}

/// Waits for the end of a turn, and cancels it at the first event of a type. The span has the error of a turn that fails.
async fn finish(mut turn: Turn, cancel_at: Option<&str>) -> Outcome {
    if let Some(kind) = cancel_at {
        while let Some(Ok(event)) = turn.next().await {
            if event.type_name() == kind {
                turn.cancel().await?;
            }
        }
    }
    drop(turn.result().await);
    Ok(())
}

/// The agent that plays the script of a scenario.
fn agent(scenario: &Value) -> ScriptedAgent {
    let mut script = scenario["script"].as_object().cloned().unwrap_or_default();
    script.insert("turns".to_owned(), scenario["turns"].clone());
    scripted_agent(Value::Object(script))
}

/// The options of the session of a scenario.
fn options(scenario: &Value, agent: &ScriptedAgent, recorder: &Recorder) -> Outcome<SessionOptions> {
    let mut plain = scenario["options"].as_object().cloned().unwrap_or_default();
    if !scenario["output"].is_null() {
        plain.insert("output".to_owned(), json!({"schema": scenario["output"]}));
    }
    let mut telemetry = recorder.telemetry();
    if let Some(capture) = scenario["capture_content"].as_bool() {
        telemetry = telemetry.capture_content(capture);
    }
    let mut options = host::session_options(plain, Naming::Snake)?.executable(agent).telemetry(telemetry);
    options = match scenario["on_approval"].as_str() {
        Some("approve") => options.on_approval(|_| async { Ok(Approval::Approve) }),
        Some("reject") => options.on_approval(|_| async { Ok(Approval::reject("not now")) }),
        Some("fail") => options.on_approval(|_| async { Err(broken()) }),
        _ => options,
    };
    if scenario["tools"] == true {
        let fail = ExternalTool::new("broken", "", json!({"type": "object"}), |_| async { Err::<&str, _>(broken()) });
        options = options.tool(add(tracer(recorder))).tool(fail);
    }
    Ok(options)
}

/// A tool whose handler makes a span of its own.
fn add(tracer: SdkTracer) -> ExternalTool {
    ExternalTool::new("add", "", json!({"type": "object"}), move |_| {
        let tracer = tracer.clone();
        async move {
            tracer.in_span("work", |_| ());
            Ok("3")
        }
    })
}

fn broken() -> HandlerError {
    "broken on purpose".into()
}
