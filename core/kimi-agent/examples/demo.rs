//! The main job in Rust: `demo WORK_DIR [EXECUTABLE]`. Without an executable the scripted agent plays along.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::io::{IsTerminal, Write};

use kimi_agent::wire::{ContentPart, Event, ToolReturnValue};
use kimi_agent::{Answers, Approval, Executable, ExternalTool, Session, testing::scripted_agent};

const PROMPT: &str = "With 20 % off, prices.py makes tea cost 10; it should be 40. Look up its list price with the \
                      tool list_price, read prices.py, and fix the mistake.";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ListPrice {
    /// The item, as `tea`.
    item: String,
}

async fn list_price(ListPrice { item }: ListPrice) -> Result<u32, kimi_agent::HandlerError> {
    let prices = [("tea", 50), ("coffee", 80)];
    let found = prices.iter().find(|(name, _)| *name == item);
    found.map(|(_, price)| *price).ok_or_else(|| format!("no such item: {item}").into())
}

/// Writes what streams in; what is of another kind begins on a line of its own.
struct Screen(String);

impl Screen {
    fn write(&mut self, kind: &str, text: &str) {
        if self.0 != kind && !self.0.is_empty() {
            println!();
        }
        kind.clone_into(&mut self.0);
        let colours =
            std::io::stdout().is_terminal() || std::env::var_os("FORCE_COLOR").is_some_and(|on| !on.is_empty());
        if kind == "thinking" && colours {
            print!("\x1b[2m{text}\x1b[0m")
        } else {
            print!("{text}")
        }
        drop(std::io::stdout().flush());
    }

    async fn ask(&mut self, question: &str, default: &str) -> String {
        self.write("question", &format!("? {question}: "));
        self.0.clear();
        if !std::io::stdin().is_terminal() {
            println!("{default}");
            return default.to_owned();
        }
        // A person takes time to answer. The runtime continues meanwhile.
        let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next()).await;
        let line = line.ok().flatten().and_then(Result::ok).unwrap_or_default();
        if line.trim().is_empty() { default.to_owned() } else { line.trim().to_owned() }
    }
}

fn summary(value: &ToolReturnValue) -> String {
    let output = value.output.text();
    let text = if output.is_empty() { &value.message } else { &output };
    let mut lines = text.lines();
    lines.next().unwrap_or("done").trim().to_owned() + if lines.next().is_some() { " …" } else { "" }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> kimi_agent::Result<()> {
    let mut args = std::env::args().skip(1);
    let work_dir = args.next().unwrap_or_else(|| ".".to_owned());
    let scripted = scripted_agent(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/script.json")));
    let named = args.next().filter(|name| !name.is_empty());
    let executable = named.map_or_else(|| Executable::from(&scripted), Executable::from);
    let session = Session::builder()
        .work_dir(work_dir)
        .executable(executable)
        .tool(ExternalTool::typed("list_price", "Looks up what an item costs before any discount.", list_price))
        .on_approval_manual() // answered below, so that all is shown in its order; a function does, too
        .on_question_manual()
        .start()
        .await?;
    println!("> {PROMPT}");
    let mut screen = Screen(String::new());
    let mut turn = session.prompt(PROMPT)?;
    while let Some(event) = turn.next().await {
        match event? {
            Event::ContentPart(ContentPart::Think(part)) => screen.write("thinking", &part.think),
            Event::ContentPart(ContentPart::Text(part)) => screen.write("text", &part.text),
            Event::ToolCall(call) => {
                let arguments = call.function.arguments.unwrap_or_default();
                screen.write(&call.id, &format!("* {} {arguments}", call.function.name));
            }
            Event::ToolCallPart(part) => {
                let kind = screen.0.clone();
                screen.write(&kind, &part.arguments_part.unwrap_or_default());
            }
            Event::ToolResult(result) => {
                let kind = format!("{} result", result.tool_call_id);
                screen.write(&kind, &format!("  = {}", summary(&result.return_value)));
            }
            Event::ApprovalRequest(request) => {
                let word = screen.ask(&format!("{} (approve, or why not)", request.description), "approve").await;
                let approval = if word == "approve" { Approval::Approve } else { Approval::reject(word) };
                turn.respond(&request, approval).await?;
            }
            Event::QuestionRequest(request) => {
                let mut answers = Answers::new();
                for question in &request.questions {
                    let labels: Vec<&str> = question.options.iter().map(|option| option.label.as_str()).collect();
                    let asked = format!("{} ({})", question.question, labels.join(", "));
                    let answer = screen.ask(&asked, labels.first().unwrap_or(&"")).await;
                    answers = answers.answer(&question.question, answer);
                }
                turn.respond_question(&request, Some(answers)).await?;
            }
            _ => {}
        }
    }
    let result = turn.result().await?;
    let (status, usage) = (result.status.as_str(), &result.usage);
    let end = format!("{status} in {} steps, {} tokens in, {} out\n", result.steps, usage.input(), usage.output);
    screen.write("end", &end);
    session.close().await
}
