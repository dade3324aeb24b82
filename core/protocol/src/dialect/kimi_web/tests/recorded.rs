//! What Kimi Code 2.1.0 said to a client of its server.

use std::collections::VecDeque;
use std::path::Path;

use self::traces::{RECORDINGS, Recording};
use super::*;

mod traces;

/// How much of an event is compared.
const SHOWN: usize = 84;

fn records(case: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/recorded/kimi-code-2.1.0/{case}.web"));
    let text = std::fs::read_to_string(path).expect("a recording");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The id that the server gave the prompt of a call: in the answer, which comes later.
fn prompt_id(records: &[Value]) -> Option<String> {
    let answers = records.iter().filter(|record| record["via"] == "http" && record["dir"] == "out");
    let ids = answers.map(|record| record["body"]["data"]["prompt_id"].as_str());
    ids.flatten().next().map(str::to_owned)
}

/// Plays a recording in which the session is open. Ids of prompts are ours, where the client that was recorded had none.
fn play(case: &str) -> Vec<String> {
    let mut player = Player::open();
    // Our calls that have no answer yet; `None` is a call that only the recorded client made.
    let mut calls: VecDeque<Option<Value>> = VecDeque::new();
    let mut names: Vec<(String, String)> = Vec::new();
    let mut sent: VecDeque<Value> = VecDeque::new();
    let records = records(case);
    for (at, record) in records.iter().enumerate() {
        match (record["via"].as_str(), record["dir"].as_str()) {
            (Some("http"), Some("in")) => {
                let line = rename_all(&names, record["line"].as_str().expect("a line"));
                if sent.is_empty() {
                    make(&mut player, &line, &record["body"], &records[at..]);
                    sent.extend(player.sent());
                }
                let Some(ours) = sent.pop_front() else {
                    calls.push_back(None);
                    continue;
                };
                assert_eq!(ours["method"], line, "{case}");
                let mut params = ours["params"].clone();
                if let Some(id) = params["prompt_id"].as_str()
                    && let Some(theirs) = prompt_id(&records[at..])
                {
                    names.push((theirs, id.to_owned()));
                    params.as_object_mut().expect("an object").remove("prompt_id");
                }
                let mut body = record["body"].clone();
                if let Some(body) = body.as_object_mut() {
                    body.remove("prompt_id");
                }
                assert_eq!(params.to_string(), rename_all(&names, &body.to_string()), "{case}: {line}");
                calls.push_back(Some(ours));
            }
            (Some("http"), Some("out")) => {
                let body: Value = serde_json::from_str(&rename_all(&names, &record["body"].to_string())).expect("JSON");
                if let Some(call) = calls.pop_front().expect("a call") {
                    match body["code"].as_i64() {
                        Some(0) => player.answer(&call, body["data"].clone()),
                        code => player.refuse(&call, code.expect("a code"), body["msg"].as_str().expect("a reason")),
                    }
                }
            }
            (Some("ws"), Some("out")) => {
                let frame: Value =
                    serde_json::from_str(&rename_all(&names, &record["frame"].to_string())).expect("JSON");
                let kind = frame["type"].as_str().expect("a type").to_owned();
                if !matches!(&*kind, "ack" | "ping" | "server_hello") && frame["session_id"] == SESSION {
                    player.hear(&json!({"jsonrpc": "2.0", "method": kind, "params": frame}));
                }
            }
            _ => {}
        }
        sent.extend(player.sent());
    }
    assert!(sent.is_empty(), "{case}: {sent:?}");
    player.trace().into_iter().map(|told| told.chars().take(SHOWN).collect()).collect()
}

fn rename_all(names: &[(String, String)], text: &str) -> String {
    names.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs.as_str(), ours.as_str()))
}

/// Does what makes the SDK send this call, if anything.
fn make(player: &mut Player, line: &str, body: &Value, rest: &[Value]) {
    let path = line.rsplit_once(SESSION).map_or("", |(_, path)| path);
    if path == "/prompts" {
        let text = body["content"][0]["text"].as_str().expect("text");
        let next = rest[1..].iter().find(|record| record["via"] == "http" && record["dir"] == "in");
        let steers = next.is_some_and(|next| next["line"].as_str().is_some_and(|line| line.ends_with(":steer")));
        if steers {
            let (turn, now) = (player.turn, player.now);
            player.connection.steer(turn, text.into(), now).expect("a turn");
            player.look();
        } else {
            player.prompt(text);
        }
    } else if path == "/profile"
        && let Some(on) = body["agent_config"]["plan_mode"].as_bool()
    {
        player.connection.set_plan_mode(on, player.now).expect("plan mode");
        player.look();
    } else if path.ends_with(":abort") {
        player.connection.cancel(player.turn, player.now);
        player.look();
    } else if !player.asked.is_empty() && (path.starts_with("/approvals/") || path.starts_with("/questions/")) {
        let (key, request) = player.asked.remove(0);
        let answer = match &request {
            Event::ApprovalRequest(_) => Answer::Approval(match (&body["decision"], &body["scope"]) {
                (decision, scope) if decision == "approved" && scope == "session" => Approval::ApproveForSession,
                (decision, _) if decision == "approved" => Approval::Approve,
                _ => Approval::Reject { feedback: body["feedback"].as_str().map(str::to_owned) },
            }),
            Event::QuestionRequest(request) => Answer::Question(chosen(request, body)),
            other => panic!("{other:?}"),
        };
        player.connection.answer(key, &answer, player.now);
        player.look();
    }
}

fn chosen(request: &crate::messages::QuestionRequest, body: &Value) -> Option<Answers> {
    if let Some(label) = body["selected_label"].as_str() {
        return Some(Answers::new().answer(&*request.questions[0].question, label));
    }
    let mut answers = Answers::new();
    for (question, given) in request.questions.iter().zip(body["answers"].as_object()?.values()) {
        let label = |id: &Value| {
            let n: usize = id.as_str().and_then(|id| id.rsplit_once('_')).expect("an id").1.parse().expect("a number");
            question.options[n].label.clone()
        };
        answers = match given["kind"].as_str().expect("a kind") {
            "single" => answers.answer(&*question.question, label(&given["option_id"])),
            "multi" => {
                let ids = given["option_ids"].as_array().expect("ids");
                answers.answer_all(&*question.question, ids.iter().map(label))
            }
            _ => answers.answer(&*question.question, given["text"].as_str().expect("text")),
        };
    }
    Some(answers)
}

#[test]
fn recordings_give_expected_traces() {
    for Recording { case, shows, trace } in RECORDINGS {
        assert_eq!(play(case), *trace, "{case}: {shows}");
    }
}

#[test]
fn recordings_are_all_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/kimi-code-2.1.0");
    let names = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").file_name());
    let mut found: Vec<_> = names.filter_map(|name| Some(name.to_str()?.strip_suffix(".web")?.to_owned())).collect();
    let mut played: Vec<_> = RECORDINGS.iter().map(|recording| recording.case.to_owned()).collect();
    found.sort();
    played.sort();
    assert_eq!(found, played);
}

/// The answer to the last call for the transcript of this agent.
fn transcript(case: &str, agent: &str) -> Value {
    let records = records(case);
    let asks = |record: &Value| record["line"].as_str().is_some_and(|line| line.contains(&format!("agent_id={agent}")));
    let at = records.iter().rposition(asks).expect("a call for the transcript");
    let answer = records[at..].iter().find(|record| record["via"] == "http" && record["dir"] == "out");
    answer.expect("an answer")["body"]["data"].clone()
}

#[test]
fn recorded_transcript_is_replayed_with_its_subagent() {
    let mut player = Player::open();
    player.connection.start_replay(player.now).expect("a replay");
    player.look();
    for (case, agent) in [("resume_replay_fork", MAIN), ("subagent", "agent-0")] {
        let call = player.sent().remove(0);
        assert!(call["method"].as_str().is_some_and(|method| method.contains(&format!("agent_id={agent}&"))), "{call}");
        player.answer(&call, transcript(case, agent));
    }
    let trace: Vec<String> = player
        .trace()
        .into_iter()
        .map(|told| told.trim_start_matches("replay: ").chars().take(SHOWN).collect())
        .collect();
    assert_eq!(
        trace,
        [
            r#"TurnBegin "delegate""#,
            "StepBegin 1",
            r#"call a1 Agent "{\"description\":\"Sub work\",\"prompt\":\"do the sub task\",\"subage"#,
            r#"[agent-0 a1 coder] TurnBegin "do the sub task""#,
            "[agent-0 a1 coder] StepBegin 1",
            r#"[agent-0 a1 coder] call s1 Bash "{\"command\":\"echo sub\"}""#,
            r#"[agent-0 a1 coder] result s1 Bash ok "sub\n""#,
            r#"[agent-0 a1 coder] status "80 + 10""#,
            "[agent-0 a1 coder] StepBegin 2",
            r#"[agent-0 a1 coder] text "sub result""#,
            r#"[agent-0 a1 coder] status "80 + 10""#,
            "[agent-0 a1 coder] TurnEnd",
            r#"result a1 Agent ok "agent_id: agent-0\nactual_subagent_type: coder\nstatus: complete"#,
            r#"status "80 + 10""#,
            "StepBegin 2",
            r#"text "main done""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            "call ok",
        ]
    );
}
