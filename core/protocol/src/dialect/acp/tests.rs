//! Kimi Code 2.1.0, and agents of others, as they were recorded (`tests/recorded`): what it said is read, and what it was told is written, to the
//! byte but for the order of fields.

mod completed;
mod config;
mod decisions;
mod forms;
mod generated;
mod late;
mod login;
mod model_errors;
mod odd;
mod opening;
mod others;
mod plans;
mod records;
mod schema;
mod services;
mod steering;
mod subagents;
mod tools;
mod unrecorded;
mod version_2;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::answers::{Answers, Approval};
use crate::connection::{AnswerSource, AnswerSources, Connection, Output, Scope, Timing};
use crate::dialect::InitializeParams;
use crate::messages::catalog::OVER_ACP;
use crate::messages::{ContentPart, Event};

const MINUTE: Duration = Duration::from_secs(60);

fn params() -> SessionParams {
    SessionParams { work_dir: "/project".into(), ..SessionParams::default() }
}

/// A connection to what a recording has.
struct Player {
    connection: Connection,
    now: Instant,
    written: Vec<u8>,
    /// The outputs, in short.
    trace: Vec<String>,
    /// The open requests, and what the agent calls them.
    asked: Vec<(u64, Event)>,
    commands: Option<Vec<crate::messages::SlashCommand>>,
    options: Option<std::sync::Arc<Vec<crate::dialect::ConfigOption>>>,
    turn: u64,
    /// The error of the last turn that failed.
    failed: Option<Error>,
}

impl Player {
    fn new(params: SessionParams) -> Self {
        Self::with(params, InitializeParams::default())
    }

    fn with(params: SessionParams, hello: InitializeParams) -> Self {
        Self::speaking(Box::new(Acp::new(params)), hello)
    }

    fn speaking(dialect: Box<dyn Dialect>, hello: InitializeParams) -> Self {
        let timing = Timing { handshake: MINUTE, cancel: MINUTE, answer: MINUTE, turn: None, idle: None, quiet: None };
        let policy = AnswerSources {
            approval: AnswerSource::Handler,
            question: AnswerSource::Handler,
            observed: true,
            services: hello.services,
            ..AnswerSources::default()
        };
        let mut player = Self {
            connection: Connection::new(dialect, timing, policy),
            now: Instant::now(),
            written: Vec::new(),
            trace: Vec::new(),
            asked: Vec::new(),
            commands: None,
            options: None,
            turn: 0,
            failed: None,
        };
        let hello = InitializeParams { client_name: "kimi-agent".into(), client_version: "0.1.0".into(), ..hello };
        player.connection.open(hello, player.now);
        player.look();
        player
    }

    fn look(&mut self) {
        self.written.extend(self.connection.poll_transmit());
        while let Some(output) = self.connection.poll_output() {
            let told = match output {
                Output::Opened(Ok(handshake)) => format!("opened {}", handshake.session_id.unwrap_or_default()),
                Output::Opened(Err(error)) => format!("not opened: {}: {error}", error.code()),
                Output::Texts { .. } => unreachable!("texts have events here"),
                Output::Event { scope, event, .. } => {
                    let is_listed = matches!(&*event, Event::Unknown(_)) || OVER_ACP.contains(&event.type_name());
                    assert!(is_listed, "the catalogue lacks {}", event.type_name());
                    told(scope, &event)
                }
                Output::Ask { key, request, .. } => {
                    self.asked.push((key, *request));
                    continue;
                }
                Output::Withdrawn(key) => {
                    self.asked.retain(|(asked, _)| *asked != key);
                    continue;
                }
                Output::StatusChanged(_) => continue,
                Output::ConfigChanged(options) => {
                    self.options = Some(options);
                    continue;
                }
                Output::CommandsChanged(commands) => {
                    self.commands = Some(commands);
                    continue;
                }
                Output::ReadRecords { turn } => format!("read records {turn}"),
                Output::ToolAnswered { .. } => unreachable!("tools are called over the connection only"),
                Output::CallEnded { outcome, .. } => format!("call {}", outcome.map_or_else(|e| e.code(), |_| "ok")),
                Output::TurnEnded { outcome: Ok(result), .. } => {
                    format!("turn {} {} {:?}", result.status.as_str(), result.steps, result.text)
                }
                Output::TurnEnded { outcome: Err(error), .. } => {
                    let told = format!("turn {}: {error}", error.code());
                    self.failed = Some(error);
                    told
                }
                Output::CheckOutput { key, .. } => format!("check {key}"),
                Output::PromptSent { turn } => format!("prompt sent {turn}"),
                Output::FatalError(error) => format!("fatal error: {error}"),
            };
            self.trace.push(told);
        }
    }

    fn hear(&mut self, line: &str) {
        self.connection.handle_line(line.as_bytes(), self.now);
        self.look();
    }

    /// Does what made the program write this line, unless it is written already.
    fn tell(&mut self, line: &Value) {
        let params = &line["params"];
        if self.written.is_empty() {
            match line["method"].as_str() {
                Some("session/prompt") => {
                    self.turn += 1;
                    let text = params["prompt"][0]["text"].as_str().expect("text");
                    self.connection.prompt(self.turn, text.into(), self.now);
                }
                Some("session/cancel") => self.connection.cancel(self.turn, self.now),
                Some("session/set_config_option" | "session/set_mode") => {
                    let on = params["value"] == "plan" || params["modeId"] == "plan";
                    self.connection.set_plan_mode(on, self.now).expect("plan mode");
                }
                None => self.answer(&line["result"]["outcome"]),
                Some(other) => panic!("nothing of ours is {other}"),
            }
            self.look();
        }
        let end = self.written.iter().position(|byte| *byte == b'\n').expect("a line of ours");
        let rest = self.written.split_off(end + 1);
        let ours = std::mem::replace(&mut self.written, rest);
        let mut ours: Value = serde_json::from_slice(&ours).expect("JSON");
        if line["method"] == "initialize" && params["clientCapabilities"]["elicitation"].is_null() {
            // Recorded before the SDK offered forms.
            let offered = ours["params"]["clientCapabilities"].as_object_mut().expect("capabilities");
            assert_eq!(offered.remove("elicitation"), Some(json!({"form": {}})));
        }
        if line["method"] == "initialize" && params["clientCapabilities"]["session"].is_null() {
            // Recorded before the SDK offered notices.
            let offered = ours["params"]["clientCapabilities"].as_object_mut().expect("capabilities");
            assert_eq!(offered.remove("session"), Some(json!({"compaction": {}, "notices": {}})));
        }
        if line["method"] == "initialize" && params["clientCapabilities"]["subagents"].is_null() {
            // Recorded before the SDK read the sessions of subagents.
            let offered = ours["params"]["clientCapabilities"].as_object_mut().expect("capabilities");
            assert_eq!(offered.remove("subagents"), Some(json!({})));
        }
        if line["method"] == "initialize" && params["clientCapabilities"]["plan"].is_null() {
            // Recorded before the SDK read several plans.
            let offered = ours["params"]["clientCapabilities"].as_object_mut().expect("capabilities");
            assert_eq!(offered.remove("plan"), Some(json!({})));
        }
        if line["method"] == "initialize" && params["clientCapabilities"]["auth"]["terminal"] != true {
            // Recorded before the command ran logins in a terminal.
            let offered = ours["params"]["clientCapabilities"].as_object_mut().expect("capabilities");
            assert_eq!(offered.remove("auth"), Some(json!({"terminal": true})));
            offered.extend(params["clientCapabilities"].get("auth").map(|auth| ("auth".to_owned(), auth.clone())));
        }
        assert_eq!(ours, *line);
    }

    fn answer(&mut self, outcome: &Value) {
        let (key, request) = self.asked.remove(0);
        let option = outcome["optionId"].as_str().expect("an option");
        let answer = match &request {
            Event::ApprovalRequest(request) => {
                let offered = request.extra.get("options").and_then(Value::as_array).expect("options");
                let chosen = offered.iter().find(|offer| offer["optionId"] == option).expect("one of them");
                Answer::Approval(match chosen["kind"].as_str() {
                    Some("allow_once") => Approval::Approve,
                    Some("allow_always") => Approval::ApproveForSession,
                    _ => Approval::Reject { feedback: Some("unheard".to_owned()) },
                })
            }
            Event::QuestionRequest(request) => Answer::Question(match option.rsplit_once("opt_") {
                Some((_, n)) => {
                    let question = &request.questions[0];
                    let label = &question.options[n.parse::<usize>().expect("a number")].label;
                    Some(Answers::new().answer(&*question.question, label))
                }
                None => None,
            }),
            other => panic!("{other:?}"),
        };
        self.connection.answer(key, &answer, self.now);
    }

    fn play(case: &str) -> Vec<String> {
        let mut player = Self::new(params());
        for (ours, line) in recording(case) {
            if ours {
                player.tell(&serde_json::from_str(&line).expect("JSON"));
            } else {
                player.hear(&line);
            }
        }
        assert!(player.written.is_empty(), "{}", String::from_utf8_lossy(&player.written));
        player.trace
    }
}

fn recording(case: &str) -> Vec<(bool, String)> {
    let case = if case.contains('/') { case.to_owned() } else { format!("kimi-code-2.1.0/{case}") };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded").join(format!("{case}.acp"));
    let text = std::fs::read_to_string(path).expect("a recording");
    text.lines().map(|line| (line.starts_with("> "), line[2..].to_owned())).collect()
}

fn told(scope: Scope, event: &Event) -> String {
    let told = match event {
        Event::ContentPart(ContentPart::Text(part)) => format!("text {:?}", part.text),
        Event::ContentPart(ContentPart::Think(part)) => format!("think {:?}", part.think),
        Event::ToolCall(call) => {
            let made = if call.extra.get("synthesized").is_none() { "" } else { " (made here)" };
            let arguments = call.function.arguments.as_deref().unwrap_or_default();
            format!("call {} {} {arguments:?}{made}", call.id, call.function.name)
        }
        Event::ToolCallPart(part) => format!("part {:?}", part.arguments_part.as_deref().unwrap_or_default()),
        Event::ToolResult(result) => {
            let value = &result.return_value;
            let failed = if value.is_error { "failed" } else { "ok" };
            let displays = value.display.iter().map(|block| format!(" {}", json!(block)));
            format!("result {} {failed} {:?}{}", result.tool_call_id, value.output.text(), displays.collect::<String>())
        }
        Event::ApprovalRequest(request) => {
            let displays = request.display.iter().map(|block| format!(" {}", json!(block)));
            format!("may {} {}: {}{}", request.sender, request.id, request.description, displays.collect::<String>())
        }
        Event::QuestionRequest(request) => format!("which {} {}", request.id, json!(request.questions)),
        // A `Value` cannot hold all numbers of unknown members.
        Event::StatusUpdate(update) => format!("status {}", serde_json::to_string(update).expect("JSON")),
        Event::Plan(plan) => format!("plan {}", serde_json::to_string(plan).expect("JSON")),
        Event::PlanDisplay(plan) => format!("plan text {}", serde_json::to_string(plan).expect("JSON")),
        Event::Unknown(unknown) => format!("unknown {}", unknown.kind),
        Event::SubagentEvent(subagent) => {
            let of = [&subagent.session_id, &subagent.title, &subagent.state, &subagent.parent_tool_call_id];
            let of = of.map(|name| name.as_deref().unwrap_or("-")).join(" ");
            format!("[{of}] {}", told(Scope::Replay(0), &subagent.event))
        }
        other => other.type_name().to_owned(),
    };
    if scope == Scope::Outside { format!("outside: {told}") } else { told }
}

/// The trace of a turn, without events of the session.
fn turn(case: &str) -> Vec<String> {
    let trace = Player::play(case);
    assert_eq!(trace[0], "opened session-1");
    trace.into_iter().filter(|line| !line.starts_with("outside: ") && !line.starts_with("opened ")).collect()
}

fn initialized(capabilities: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentCapabilities": capabilities,
        "agentInfo": {"name": "fake", "version": "1"}}})
}

fn answer(id: u64, result: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn update(update: Value) -> String {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}).to_string()
}

/// A session that is open, without events so far.
fn open(session: Value) -> Player {
    let mut player = Player::new(params());
    player.hear(&initialized(json!({})).to_string());
    player.hear(&answer(1, session));
    assert_eq!(std::mem::take(&mut player.trace), ["opened s"]);
    player.written.clear();
    player
}

fn prompted() -> Player {
    let mut player = open(json!({"sessionId": "s"}));
    player.connection.prompt(1, "hi".into(), player.now);
    player.look();
    player.written.clear();
    player.trace.clear();
    player
}

impl Player {
    /// The lines written since the last call.
    fn sent(&mut self) -> Vec<Value> {
        let lines = std::mem::take(&mut self.written);
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
    }
}

#[test]
fn turn_has_one_step_and_ends() {
    let trace = Player::play("text");
    assert_eq!(
        trace,
        [
            "opened session-1",
            "outside: unknown available_commands_update",
            "TurnBegin",
            "outside: unknown session_info_update",
            "StepBegin",
            "think \"Hmm\"",
            "think \"…ok\"",
            "text \"Hel\"",
            "text \"lo\"",
            "TurnEnd",
            "turn finished 1 \"Hello\"",
            r#"outside: status {"context_usage":0.0011,"context_tokens":110,"max_context_tokens":100000}"#,
        ]
    );
}

fn names(player: &mut Player) -> Option<Vec<String>> {
    let commands = player.commands.take()?;
    Some(commands.into_iter().map(|command| command.name).collect())
}

#[test]
fn recorded_commands_are_latest_of_session() {
    let mut player = Player::new(params());
    let mut recorded = recording("text").into_iter().filter_map(|(ours, line)| (!ours).then_some(line));
    let told = |line: &String| line.contains("available_commands_update");
    recorded.by_ref().take(2).for_each(|line| player.hear(&line));
    assert_eq!((player.trace.concat(), names(&mut player)), ("opened session-1".to_owned(), None));
    player.hear(&recorded.find(told).expect("commands"));
    let commands = player.commands.take().expect("commands");
    assert_eq!(
        json!(commands[..2]),
        json!([
            {"name": "compact", "description": "Compact the conversation context", "aliases": [],
                "input": {"hint": "<optional custom summarization instructions>"}},
            {"name": "status", "description": "Show current session status", "aliases": []},
        ])
    );
    assert!(player.trace[1..] == ["outside: unknown available_commands_update"] && commands.len() > 10);
}

#[test]
fn newest_command_list_replaces_older() {
    let commands =
        |names: Value| update(json!({"sessionUpdate": "available_commands_update", "availableCommands": names}));
    let [old, new] = ["old", "new"].map(|name| json!([{"name": name, "description": ""}]));
    // Before the session is open: a new one, or one whose past is being loaded.
    for params in [params(), SessionParams { session_id: Some("s".into()), ..params() }] {
        let mut player = Player::new(params);
        player.hear(&initialized(json!({"loadSession": true})).to_string());
        player.hear(&commands(old.clone()));
        assert_eq!(names(&mut player), Some(vec!["old".to_owned()]));
        player.hear(&answer(1, json!({"sessionId": "s"})));
        // The request after a past that has not come.
        player.hear(&answer(2, json!({})));
        assert_eq!((names(&mut player), player.trace.len()), (None, 2));
    }
    // In a turn, and it stays outside of it.
    let mut player = prompted();
    player.trace.clear();
    for (told, now) in [(&old, vec!["old"]), (&new, vec!["new"]), (&json!([]), vec![])] {
        player.hear(&commands(told.clone()));
        assert_eq!(names(&mut player).expect("a list"), now);
    }
    assert_eq!(player.trace, ["outside: unknown available_commands_update"; 3]);
    // What can't be read of it is left out, and another session's leaves the list alone.
    player.hear(&commands(json!([{"name": 1}, {"name": "good", "description": ""}])));
    assert_eq!(names(&mut player).expect("a list"), ["good"]);
    player.hear(&commands(old).replace("\"s\"", "\"t\""));
    assert_eq!(names(&mut player), None);
    assert_eq!(player.trace[4..], ["outside: unknown session/update"]);
}

#[test]
fn cumulative_arguments_become_parts() {
    let trace = turn("tools");
    let parts = [
        "call 0:call_1 Bash \"\"",
        r#"part "{\"command\": \"ec""#,
        r#"part "ho hi\", \"descri""#,
        r#"part "ption\": \"say\"}""#,
        "may Bash 0: Requesting approval to Running: echo hi",
        r#"result 0:call_1 ok "hi\n""#,
    ];
    assert_eq!(trace[3..9], parts);
    let results: Vec<_> = trace.iter().filter(|line| line.starts_with("result")).map(String::as_str).collect();
    assert_eq!(
        results[1..],
        [
            r#"result 0:call_2 ok "hi\n""#,
            r#"result 0:call_3 failed "Process exited with code 3\nCommand failed with exit code: 3.""#,
            r#"result 0:call_4 failed "Tool \"Write\" was not run because the user rejected the approval request.""#,
        ]
    );
    // What was said before the last result is not what the turn comes to.
    assert_eq!(trace.last().map(String::as_str), Some("turn finished 1 \"done\""));
}

#[test]
fn file_diff_is_in_approval_and_result() {
    let trace = turn("edit");
    let diff = r#" {"type":"diff","path":"/project/a.txt","old_text":"two","new_text":"three"}"#;
    let asked = format!("may Edit 1: Requesting approval to Editing a.txt{diff}");
    let done = format!("result 0:call_2 ok \"Replaced 1 occurrence in a.txt\"{diff}");
    assert!(trace.contains(&asked) && trace.contains(&done), "{trace:#?}");
    let plan = r#"plan {"entries":[{"content":"a","status":"in_progress","priority":"medium"}]}"#;
    assert!(trace.contains(&plan.to_owned()), "{trace:#?}");
}

#[test]
fn parallel_calls_keep_their_parts() {
    let trace = turn("parallel");
    let calls: Vec<_> = trace.iter().filter(|line| line.starts_with("call") || line.starts_with("part")).collect();
    assert_eq!(
        calls,
        [
            "call 0:p1 Bash \"\"",
            r#"part "{\"command\":""#,
            r#"part " \"echo 1\"}""#,
            "call 0:p2 Bash \"\"",
            r#"part "{\"command\":""#,
            r#"part " \"echo 2\"}""#,
        ]
    );
}

#[test]
fn choice_becomes_question() {
    let question = r#"which 0 [{"question":"Which colour?","header":"Colour","options":[{"label":"Red","description":"warm"},{"label":"Blue","description":"cold"}],"multi_select":false}]"#;
    for (case, answer) in [
        ("question_answered", r#"{\"answers\":{\"Which colour?\":\"Blue\"}}"#),
        ("question_dismissed", r#"{\"answers\":{},\"note\":\"User dismissed the question without answering.\"}"#),
    ] {
        let trace = turn(case);
        assert!(trace.contains(&question.to_owned()), "{trace:#?}");
        assert!(trace.contains(&format!("result 0:call_1 ok \"{answer}\"")), "{trace:#?}");
    }
}

#[test]
fn plan_approval_offers_all_options() {
    let trace = turn("plan_review");
    let asked = trace.iter().find(|line| line.starts_with("which")).expect("a question");
    let questions: Value = serde_json::from_str(&asked["which 0 ".len()..]).expect("JSON");
    let labels: Vec<_> = questions[0]["options"].as_array().into_iter().flatten().map(|it| &it["label"]).collect();
    assert_eq!(labels, ["Fast", "Careful", "Revise", "Reject and Exit"]);
    assert!(questions[0]["body"].as_str().is_some_and(|body| body.ends_with("# Plan\n1. Do it")), "{asked}");
    assert!(trace.iter().any(|line| line.contains("Selected approach: Fast")), "{trace:#?}");
}

#[test]
fn plan_mode_is_set_as_mode() {
    let trace = Player::play("plan_mode");
    let told: Vec<_> = trace.iter().filter(|line| line.contains("plan_mode") || line.starts_with("call")).collect();
    let on = r#"outside: status {"plan_mode":true}"#;
    assert_eq!(told, [on, "call ok", r#"outside: status {"plan_mode":false}"#, "call ok"]);
}

#[test]
fn prompt_answer_settles_cancel() {
    let trace = Player::play("cancel_in_stream");
    let end = trace.iter().position(|line| line.starts_with("turn ")).expect("an end");
    assert_eq!(trace[end], "turn cancelled 1 \"On and on\"");
    // The tokens of the first turn arrive after the second has begun. They do not count for it.
    assert_eq!(trace[end + 1], "TurnBegin");
    assert!(trace[end + 2].starts_with("outside: status"), "{trace:#?}");
    assert!(trace.contains(&"turn finished 1 \"again\"".to_owned()), "{trace:#?}");
}

#[test]
fn cancel_answers_pending_approval() {
    let trace = turn("cancel_with_approval_pending");
    assert!(trace.contains(&"turn cancelled 1 \"\"".to_owned()), "{trace:#?}");
    assert!(trace.contains(&"turn finished 1 \"again\"".to_owned()), "{trace:#?}");
}

#[test]
fn missing_model_or_login_error_has_hint() {
    let trace = Player::play("no_model");
    let [only] = &trace[..] else { panic!("{trace:#?}") };
    assert!(
        only.starts_with("not opened: llm_not_set: Kimi Code CLI 2.1.0 (ACP 1): Authentication required"),
        "{only}"
    );
    assert!(only.contains("`kimi login`") && only.contains("configure a model"), "{only}");
    let trace = turn("model_answers_401");
    assert_eq!(
        trace[1],
        "turn auth_expired: Authentication required: 401 simulated (-32000); log in again with `kimi login`"
    );
}
