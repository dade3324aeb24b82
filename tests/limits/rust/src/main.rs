//! Does what `tests/limits` asks of a program in Rust: one operation a line on stdin, one answer a line on stdout.
//! `tests/limits/README.md` lists the operations.

mod allocations;
mod cycles;

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use kimi_agent::batch::{BatchOptions, Job};
use kimi_agent::wire::{Content, Event};
use kimi_agent::{Agent, Approval, Dialect, ExternalTool, Session, SessionOptions, Turn, run_batch};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

type Outcome = Result<Value, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let (sender, mut lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let mut program = Program::default();
    while let Some(line) = lines.recv().await {
        let answer = match serde_json::from_str(&line) {
            Ok(op) => program.run(&op).await.unwrap_or_else(|error| json!({"error": error.to_string()})),
            Err(error) => json!({"error": format!("not JSON: {error}")}),
        };
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(())
}

/// What the operations work on.
struct Program {
    agent: Option<Arc<Agent>>,
    sessions: Vec<Session>,
    turn: Option<Turn>,
    /// A permit for each call of `on_approval`.
    asked: Arc<Semaphore>,
    /// A permit for each answer that may go.
    may_answer: Arc<Semaphore>,
}

impl Default for Program {
    fn default() -> Self {
        let none = || Arc::new(Semaphore::new(0));
        Self { agent: None, sessions: Vec::new(), turn: None, asked: none(), may_answer: none() }
    }
}

impl Program {
    async fn run(&mut self, op: &Value) -> Outcome {
        let count = op["count"].as_u64().unwrap_or_default();
        Ok(match op["op"].as_str().unwrap_or_default() {
            "open_agent" => {
                let agent = Agent::builder().executable(words(&op["options"])).dialect(Dialect::Acp).open()?;
                self.agent = Some(Arc::new(agent));
                json!({})
            }
            "close_agent" => {
                self.agent.take().ok_or("no agent is open")?.close().await?;
                json!({})
            }
            "open" => {
                let session = self.opening(op).await?;
                let pid = session.pid();
                self.sessions.push(session);
                json!({"pid": pid})
            }
            "open_many" => {
                let opening: Vec<_> = (0..count).map(|_| tokio::spawn(self.opening(op))).collect();
                for session in opening {
                    self.sessions.push(session.await??);
                }
                json!({})
            }
            "batch" => {
                let jobs =
                    (0..count).map(|n| Job::from_json(json!({"prompt": format!("job {n}"), "max_steps_per_turn": 0})));
                let mut batch = run_batch(
                    jobs,
                    BatchOptions::new().concurrency(32).session(SessionOptions::new().executable("sh")),
                );
                let mut failed = 0;
                while let Some(result) = batch.next().await {
                    failed += u64::from(result?.error.is_some());
                }
                json!({"failed": failed})
            }
            "turns" => self.turns().await?,
            "prompt" => {
                let session = self.sessions.last().ok_or("no session is open")?;
                self.turn = Some(session.prompt(op["input"].as_str().unwrap_or_default())?);
                json!({})
            }
            "read" => self.read(count, Duration::from_secs_f64(op["pause"].as_f64().unwrap_or_default())).await?,
            // A loop that is left needs no word in Rust.
            "leave" => json!({}),
            "result" => {
                let turn = self.turn()?;
                let status = turn.result().await?.status;
                json!({"status": status.as_str(), "discarded": turn.discarded()})
            }
            "cancel" => {
                let turn = self.turn()?;
                turn.cancel().await?;
                json!({"discarded": turn.discarded()})
            }
            "asked" => {
                self.asked.acquire().await?.forget();
                json!({})
            }
            "answer" => {
                self.may_answer.add_permits(1);
                json!({})
            }
            "forget" => {
                self.turn = None;
                json!({})
            }
            "close" => {
                self.turn = None;
                for session in self.sessions.drain(..) {
                    session.close().await?;
                }
                json!({})
            }
            "cycle" => cycles::run(op, &self.options(&op["options"])).await?,
            "counts" => allocations::counts(),
            other => return Err(format!("there is no operation `{other}`").into()),
        })
    }

    fn turn(&mut self) -> Result<&mut Turn, &'static str> {
        self.turn.as_mut().ok_or("no turn runs")
    }

    /// Reads so many events, or to the end where `count` is 0; `pause` lies between any two.
    async fn read(&mut self, count: u64, pause: Duration) -> Outcome {
        let turn = self.turn()?;
        let (mut events, mut chars, mut ended) = (0, 0, false);
        while count == 0 || events < count {
            let Some(event) = turn.next().await else {
                ended = true;
                break;
            };
            events += 1;
            chars += length(&event?);
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        Ok(json!({"events": events, "chars": chars, "ended": ended}))
    }

    /// One turn in every session, all at once, each with a text of its own; how many were answered as they should.
    async fn turns(&self) -> Outcome {
        let turns = self.sessions.iter().enumerate().map(|(n, session)| session.prompt(format!("turn {n}")));
        let turns = turns.collect::<Result<Vec<_>, _>>()?;
        let mut right = 0;
        let outcomes: Vec<_> =
            turns.into_iter().map(|mut turn| tokio::spawn(async move { turn.result().await })).collect();
        for (n, outcome) in outcomes.into_iter().enumerate() {
            right += usize::from(outcome.await??.text == format!("Hello, turn {n}!"));
        }
        Ok(json!({"right": right}))
    }

    /// Opens a session, of the agent where one is open.
    fn opening(&self, op: &Value) -> impl Future<Output = kimi_agent::Result<Session>> + use<> {
        let (agent, options) = (self.agent.clone(), self.options(&op["options"]));
        async move {
            match agent {
                Some(agent) => agent.create_session(options).await,
                None => options.start().await,
            }
        }
    }

    fn options(&self, options: &Value) -> SessionOptions {
        let mut made = Session::builder();
        if self.agent.is_none() {
            made = made.executable(words(options));
        }
        if let Some(seconds) = options["close_timeout"].as_f64() {
            made = made.close_timeout(Duration::from_secs_f64(seconds));
        }
        if options["dialect"] == "acp" {
            made = made.dialect(Dialect::Acp);
        }
        if options["tool"] == true {
            made =
                made.tool(ExternalTool::new("big", "Gives much", json!({"type": "object"}), |arguments| async move {
                    Ok("x".repeat(arguments["size"].as_u64().and_then(|size| size.try_into().ok()).unwrap_or(0)))
                }));
        }
        if options["approval"] == true {
            let (asked, may_answer) = (Arc::clone(&self.asked), Arc::clone(&self.may_answer));
            made = made.on_approval(move |_| {
                let may_answer = Arc::clone(&may_answer);
                asked.add_permits(1);
                async move {
                    may_answer.acquire().await?.forget();
                    Ok(Approval::Approve)
                }
            });
        }
        made
    }
}

/// The words of an agent's command line.
fn words(options: &Value) -> Vec<String> {
    options["executable"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// How much text an event brings.
fn length(event: &Event) -> usize {
    match event {
        Event::ToolResult(result) => match &result.return_value.output {
            Content::Text(text) => text.len(),
            Content::Parts(_) => 0,
        },
        event => event.text().map_or(0, str::len),
    }
}
