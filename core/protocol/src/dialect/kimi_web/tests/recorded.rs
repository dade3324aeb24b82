//! What Kimi Code 2.1.0 said to a client of its server.

use std::collections::VecDeque;
use std::path::Path;

use super::*;

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

/// A recording and the outputs that it leads to.
struct Recording {
    case: &'static str,
    shows: &'static str,
    trace: &'static [&'static str],
}

const RECORDINGS: &[Recording] = &[
    Recording {
        case: "text",
        shows: "text arrives live with steps and tokens",
        trace: &[
            "outside: unknown session.meta.updated",
            r#"TurnBegin "Say hello""#,
            r#"status {"context_usage":0.00004,"context_tokens":4,"max_context_tokens":100000}"#,
            r#"status {"context_usage":0.00062,"context_tokens":62,"max_context_tokens":100000}"#,
            "StepBegin 1",
            r#"think "Let me ""#,
            r#"think "think.""#,
            r#"text "Hello ""#,
            r#"text "world.""#,
            r#"status {"context_usage":0.00065,"context_tokens":65,"max_context_tokens":100000}"#,
            r#"status {"context_usage":0.0011,"context_tokens":110,"max_context_tokens":100000}"#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 1 "Hello world.""#,
        ],
    },
    Recording {
        case: "approve",
        shows: "approval names the call and its answer is told",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"call c1 Bash """#,
            r#"part "{\"command\":""#,
            r#"part " \"echo hi\"}""#,
            r#"may Bash approval_0003: Running: echo hi (run command) {"command":"echo hi"}"#,
            "resolved approval_0003 approve",
            "unknown tool.progress",
            r#"result c1 Bash ok "hi\n""#,
            r#"status "80 + 10""#,
            "StepBegin 2",
            r#"text "done""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 2 "done""#,
        ],
    },
    Recording {
        case: "approve_for_session",
        shows: "approval for the session holds for the same command",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"call c1 Bash """#,
            r#"part "{\"command\":""#,
            r#"part " \"echo hi\"}""#,
            r#"may Bash approval_0003: Running: echo hi (run command) {"command":"echo hi"}"#,
            "resolved approval_0003 approve_for_session",
            "unknown tool.progress",
            r#"result c1 Bash ok "hi\n""#,
            r#"status "80 + 10""#,
            "StepBegin 2",
            r#"call c2 Bash """#,
            r#"part "{\"command\":""#,
            r#"part " \"echo hi\"}""#,
            "unknown tool.progress",
            r#"result c2 Bash ok "hi\n""#,
            r#"status "80 + 10""#,
            "StepBegin 3",
            r#"call c3 Bash """#,
            r#"part "{\"command\": \"""#,
            r#"part "echo other\"}""#,
            r#"may Bash approval_0006: Running: echo other (run command) {"command":"echo other"}"#,
            "resolved approval_0006 approve",
            "unknown tool.progress",
            r#"result c3 Bash ok "other\n""#,
            r#"status "80 + 10""#,
            "StepBegin 4",
            r#"text "done""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 4 "done""#,
        ],
    },
    Recording {
        case: "background_task",
        shows: "background turn is told outside of turns",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"call b1 Bash """#,
            r#"part "{\"command\": \"sleep 1; echo bgdone\", \"run_i""#,
            r#"part "n_background\": true, \"description\": \"bg\"}""#,
            r#"note task.started "bg" "running""#,
            r#"result b1 Bash ok "task_id: bash-8tglbn9q\npid: 22697\ndescription: bg\nstatus: runn"#,
            r#"status "80 + 10""#,
            "StepBegin 2",
            r#"text "started it""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 2 "started it""#,
            r#"outside: note task.terminated "bg" "completed""#,
            r#"outside: TurnBegin """#,
            r#"outside: note task.completed "Background process completed" "Wall time: 1.003 second"#,
            "outside: StepBegin 1",
            r#"outside: text "saw the result""#,
            r#"outside: status "80 + 10""#,
            "outside: TurnEnd",
        ],
    },
    Recording {
        case: "cancel_approval_pending",
        shows: "cancel during approval rejects it",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"call c1 Bash """#,
            r#"part "{\"command\":""#,
            r#"part " \"echo hi\"}""#,
            r#"may Bash approval_0003: Running: echo hi (run command) {"command":"echo hi"}"#,
            "StepInterrupted",
            "TurnEnd",
            "resolved approval_0003 reject",
            r#"turn cancelled 1 """#,
        ],
    },
    Recording {
        case: "cancel_in_stream",
        shows: "cancel ends the turn and the next one runs",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"text "abc""#,
            "StepInterrupted",
            "TurnEnd",
            r#"turn cancelled 1 "abc""#,
            r#"TurnBegin "again""#,
            "StepBegin 1",
            r#"text "next""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 1 "next""#,
        ],
    },
    Recording {
        case: "cancel_with_a_queue",
        shows: "turn of another prompt does not end this one",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"text "abc""#,
            "turn turn_in_progress: a turn is running; wait for its result, cancel it, or leave i",
            "StepInterrupted",
            r#"outside: TurnBegin "queued one""#,
            "TurnEnd",
            r#"turn cancelled 1 "abc""#,
            "outside: StepBegin 1",
            r#"outside: text "next""#,
            r#"outside: status "80 + 10""#,
            "outside: TurnEnd",
        ],
    },
    Recording {
        case: "max_steps",
        shows: "used up steps are a status",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"call c1 Bash """#,
            r#"part "{\"command\":""#,
            r#"part " \"echo 1\"}""#,
            "unknown tool.progress",
            r#"result c1 Bash ok "1\n""#,
            r#"status "80 + 10""#,
            "StepBegin 2",
            r#"call c2 Bash """#,
            r#"part "{\"command\":""#,
            r#"part " \"echo 2\"}""#,
            "unknown tool.progress",
            r#"result c2 Bash ok "2\n""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn max_steps_reached 2 """#,
        ],
    },
    Recording {
        case: "model_500_retried",
        shows: "failed attempts are retries and end as service error",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            "StepRetry 1 2/2 APIStatusError",
            "StepBegin 2",
            "StepInterrupted",
            "TurnEnd",
            "turn llm_service_error: 500 no (provider.api_error) (-32003)",
        ],
    },
    Recording {
        case: "model_401",
        shows: "refused key is a missing login",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            "StepInterrupted",
            "TurnEnd",
            "turn auth_expired: 401 no (provider.auth_error) (-32004); log in again with `kimi lo",
        ],
    },
    Recording {
        case: "model_not_set",
        shows: "missing model is an error with advice",
        trace: &[
            "TurnBegin",
            "StepInterrupted",
            "TurnEnd",
            "turn llm_not_set: Model not set (model.not_configured) (-32001); set `model`, set `d",
        ],
    },
    Recording {
        case: "plan_review",
        shows: "plan is shown and chosen by a question",
        trace: &[
            "call ok",
            r#"TurnBegin "plan it""#,
            "StepBegin 1",
            r#"text "one""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 1 "one""#,
            r#"TurnBegin "go on""#,
            "StepBegin 1",
            r#"call w1 Write """#,
            r#"part "{\"path\": \"/home/user/.kimi-code/sessions/wd_project_000000000000/session_54"#,
            r#"part "ba1aca/agents/main/plans/adam-warlock-moon-knight-carnage.md\", \"content\": \"#,
            // The recording has another session in the pieces than in the whole call.
            r#"call w1 Write "{\"path\":\"/home/user/.kimi-code/sessions/wd_project_000000000000/se"#,
            r#"result w1 Write ok "Wrote 16 bytes to /home/user/.kimi-code/sessions/wd_project_0000"#,
            r#"status "80 + 10""#,
            "StepBegin 2",
            r#"call x1 ExitPlanMode """#,
            r#"part "{\"options\": [{\"label\": \"A way\", \"description\": ""#,
            r#"part "\"a\"}, {\"label\": \"B way\", \"description\": \"b\"}]}""#,
            "unknown plan.revision",
            r##"plan "# Plan\n1. do it\n""##,
            "which approval_0005: Approve this plan [A way, B way, Reject]",
            r#"result x1 ExitPlanMode ok "Exited plan mode. Selected approach: B way\nExecute ONLY "#,
            r#"status "80 + 10""#,
            "StepBegin 3",
            r#"text "after exit""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 3 "after exit""#,
        ],
    },
    Recording {
        case: "question",
        shows: "questions take choices and texts of ones own",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"call q1 AskUserQuestion """#,
            r#"part "{\"questions\": [{\"question\": \"Which color?\", \"header\": \"Color\", \"opt"#,
            r#"part "\": \"Apple\", \"description\": \"a\"}, {\"label\": \"Pear\", \"description\":"#,
            "which question_0003: Which color? [Red, Blue]; Which fruits? [Apple, Pear, Plum]; Yo",
            r#"result q1 AskUserQuestion ok "{\"answers\":{\"Which color?\":\"Blue\",\"Which fruits"#,
            r#"status "80 + 10""#,
            "StepBegin 2",
            r#"text "done""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 2 "done""#,
        ],
    },
    Recording {
        case: "question_dismissed",
        shows: "question without answer is dismissed",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"call q1 AskUserQuestion """#,
            r#"part "{\"questions\": [{\"question\": \"Which color?\", \"header\": \"Color\", \"opt"#,
            r#"part "el\": \"Red\", \"description\": \"warm\"}, {\"label\": \"Blue\", \"description"#,
            "which question_0003: Which color? [Red, Blue]",
            r#"result q1 AskUserQuestion ok "{\"answers\":{},\"note\":\"User dismissed the question"#,
            r#"status "80 + 10""#,
            "StepBegin 2",
            r#"text "done""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 2 "done""#,
        ],
    },
    Recording {
        case: "reject_with_feedback",
        shows: "reject with feedback lets the turn go on",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"call c1 Bash """#,
            r#"part "{\"command\":""#,
            r#"part " \"echo hi\"}""#,
            r#"may Bash approval_0003: Running: echo hi (run command) {"command":"echo hi"}"#,
            "resolved approval_0003 reject",
            r#"result c1 Bash failed "Tool \"Bash\" was not run because the user rejected the appro"#,
            r#"status "80 + 10""#,
            "StepBegin 2",
            r#"text "done""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 2 "done""#,
        ],
    },
    Recording {
        case: "steer",
        shows: "steered text is told when the model gets it",
        trace: &[
            "TurnBegin",
            "StepBegin 1",
            r#"call c1 Bash """#,
            r#"part "{\"command\": \"sle""#,
            r#"part "ep 1; echo hi\"}""#,
            "call ok",
            "unknown tool.progress",
            r#"result c1 Bash ok "hi\n""#,
            r#"status "80 + 10""#,
            r#"SteerInput "also do B""#,
            "StepBegin 2",
            r#"text "done""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 2 "done""#,
        ],
    },
    Recording {
        case: "subagent",
        shows: "subagent events name the call that started it",
        trace: &[
            r#"TurnBegin "delegate""#,
            "StepBegin 1",
            r#"call a1 Agent """#,
            r#"part "{\"description\": \"Sub work\", \"prompt\": \"do""#,
            r#"part " the sub task\", \"subagent_type\": \"coder\"}""#,
            r#"[agent-0 a1 coder] TurnBegin "do the sub task""#,
            "[agent-0 a1 coder] StepBegin 1",
            r#"[agent-0 a1 coder] call s1 Bash """#,
            r#"[agent-0 a1 coder] part "{\"command\": ""#,
            r#"[agent-0 a1 coder] part "\"echo sub\"}""#,
            r#"may Bash of agent-0 approval_0004: Running: echo sub (run command) {"command":"echo "#,
            "resolved approval_0004 approve",
            "[agent-0 a1 coder] unknown tool.progress",
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
            r#"turn finished 2 "main done""#,
        ],
    },
    Recording {
        case: "two_sessions",
        shows: "sessions of one socket do not mix",
        trace: &[
            r#"TurnBegin "AAA""#,
            "StepBegin 1",
            r#"text "a1""#,
            r#"text "a2""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 1 "a1a2""#,
        ],
    },
    Recording {
        case: "resume_replay_fork",
        shows: "journal of an earlier process is told outside of turns",
        trace: &[
            r#"outside: TurnBegin "delegate""#,
            "outside: StepBegin 1",
            r#"outside: call a1 Agent "{\"description\":\"Sub work\",\"prompt\":\"do the sub task\""#,
            r#"outside: [agent-0 a1 coder] TurnBegin "do the sub task""#,
            "outside: [agent-0 a1 coder] StepBegin 1",
            r#"outside: [agent-0 a1 coder] call s1 Bash """#,
            r#"outside: may Bash of agent-0 approval_0004: Running: echo sub (run command) {"comman"#,
            "outside: resolved approval_0004 approve",
            r#"outside: [agent-0 a1 coder] call s1 Bash "{\"command\":\"echo sub\"}""#,
            r#"outside: [agent-0 a1 coder] result s1 Bash ok "sub\n""#,
            r#"outside: [agent-0 a1 coder] status "80 + 10""#,
            "outside: [agent-0 a1 coder] StepBegin 2",
            r#"outside: [agent-0 a1 coder] status "80 + 10""#,
            "outside: [agent-0 a1 coder] TurnEnd",
            r#"outside: result a1 Agent ok "agent_id: agent-0\nactual_subagent_type: coder\nstatus:"#,
            r#"outside: status "80 + 10""#,
            "outside: StepBegin 2",
            r#"outside: status "80 + 10""#,
            "outside: TurnEnd",
            r#"TurnBegin "go on""#,
            "StepBegin 1",
            r#"text "resumed""#,
            r#"status "80 + 10""#,
            "TurnEnd",
            r#"turn finished 1 "resumed""#,
        ],
    },
];

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
