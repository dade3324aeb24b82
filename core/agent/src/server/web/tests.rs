//! Compares the scripted server with recordings of Kimi Code 2.1.0, frame by frame.

use std::collections::VecDeque;
use std::path::Path;

use super::super::super::types::{Outcome, Profile};
use super::*;

/// Frames that say nothing of a turn, or that the scripted agent leaves out.
const LEFT_OUT: [&str; 7] = [
    "agent.status.updated",
    "context.spliced",
    "event.session.work_changed",
    "prompt.started",
    "session.meta.updated",
    "tool.progress",
    "plan.revision",
];
/// Fields that differ between two runs: times, generated names, and values that are read from a tool's arguments.
const OWN: [&str; 21] = [
    "time",
    "createdAt",
    "created_at",
    "expires_at",
    "resolved_at",
    "dismissed_at",
    "finishedAt",
    "abortedAt",
    "steeredAt",
    "durationMs",
    "stepId",
    "providerFinishReason",
    "rawFinishReason",
    "description",
    "display",
    "tool_input_display",
    "name",
    "message",
    "usage",
    "request_id",
    "stack",
];

/// A recorded turn, played again.
struct Play {
    server: Server,
    calls: VecDeque<(String, Value)>,
    answers: VecDeque<Value>,
    frames: VecDeque<(String, Value)>,
    number: u64,
}

fn bare(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OWN.contains(&&**name) && !name.starts_with("llm"));
            fields.values_mut().for_each(|field| *field = bare(field.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|item| *item = bare(item.take())),
        _ => {}
    }
    value
}

fn shown(mut frame: Value) -> Option<(String, Value)> {
    let kind = frame["type"].as_str().expect("a type").to_owned();
    let offset = frame["offset"].take();
    let payload = json!({"payload": bare(frame["payload"].take()), "offset": offset});
    (!LEFT_OUT.contains(&&*kind)).then_some((kind, payload))
}

impl Play {
    fn new(case: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/kimi-code-2.1.0");
        let text = std::fs::read_to_string(folder.join(format!("{case}.web"))).expect("a recording");
        let mut server = Server::new(Profile::web("Kimi Code CLI", "2.1.0"));
        server.web.open("session_0001".to_owned(), "/project");
        server.web_profile(&json!({"model": "fake"}));
        let mut play =
            Self { server, calls: VecDeque::new(), answers: VecDeque::new(), frames: VecDeque::new(), number: 0 };
        for line in text.lines() {
            let mut line: Value = serde_json::from_str(line).expect("JSON");
            let path = line["line"].as_str().unwrap_or_default().to_owned();
            match (line["via"].as_str(), line["dir"].as_str()) {
                (Some("http"), Some("in")) => play.calls.push_back((path, line["body"].take())),
                (Some("http"), Some("out")) => play.answers.push_back(line["body"].take()),
                (Some("ws"), Some("out")) => play.frames.extend(shown(line["frame"].take())),
                _ => {}
            }
        }
        play
    }

    /// Takes the client's next call; the frames so far, and the answer, are the recorded ones.
    fn hears(&mut self) -> Option<Incoming> {
        self.said();
        let (method, mut params) = self.calls.pop_front().expect("a call");
        let expected = self.answers.pop_front().expect("an answer");
        if let Some(id) = expected["data"]["prompt_id"].as_str() {
            params["prompt_id"] = json!(id);
        }
        self.number += 1;
        let line = json!({"id": self.number, "method": method, "params": params});
        let incoming = self.server.receive(line.to_string().as_bytes());
        let output = self.server.take_output();
        let mut answer = None;
        for line in String::from_utf8(output).expect("UTF-8").lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            match line["jsonrpc"].is_string() {
                true => answer = Some(line),
                false => self.frame(line),
            }
        }
        let answer = answer.expect("an answer");
        let (code, data) = match answer.get("error") {
            None => (json!(0), &answer["result"]),
            Some(error) => (error["code"].clone(), &error["data"]),
        };
        assert_eq!(code, expected["code"], "{method}");
        assert_eq!(bare(data.clone()), bare(expected["data"].clone()), "{method}");
        incoming
    }

    fn frame(&mut self, frame: Value) {
        if let Some(frame) = shown(frame) {
            assert_eq!(Some(frame), self.frames.pop_front());
        }
    }

    fn said(&mut self) {
        for line in String::from_utf8(self.server.take_output()).expect("UTF-8").lines() {
            self.frame(serde_json::from_str(line).expect("JSON"));
        }
    }

    fn begins(case: &str) -> Self {
        let mut play = Self::new(case);
        play.turn();
        play
    }

    fn turn(&mut self) {
        let Some(Incoming::Prompt(prompt)) = self.hears() else { panic!("no prompt") };
        self.server.event_of("TurnBegin", json!({"user_input": prompt}));
    }

    fn step(&mut self, n: i64) {
        self.server.event_of("StepBegin", json!({"n": n}));
    }

    fn text(&mut self, text: &str) {
        self.server.event_of("ContentPart", json!({"type": "text", "text": text}));
    }

    fn tool(&mut self, id: &str, name: &str, pieces: &[&str]) {
        let function = json!({"name": name, "arguments": ""});
        self.server.event_of("ToolCall", json!({"type": "function", "id": id, "function": function}));
        for piece in pieces {
            self.server.event_of("ToolCallPart", json!({"arguments_part": piece}));
        }
    }

    fn asks(&mut self) {
        let request =
            json!({"tool_call_id": "c1", "sender": "Bash", "action": "run", "description": "Running: echo hi"});
        self.server.request_of("approval_0003", "ApprovalRequest", request);
    }

    fn decided(&mut self) -> Value {
        let Some(Incoming::Answer(id, Ok(answer))) = self.hears() else { panic!("no answer") };
        assert!(["approval_0003", "question_0003"].contains(&&*id));
        answer
    }

    fn resolved(&mut self) {
        self.server.event_of("ApprovalResponse", json!({"request_id": "approval_0003", "response": "approve"}));
    }

    fn result(&mut self, id: &str, output: &str, is_error: bool) {
        let value = json!({"is_error": is_error, "output": output, "message": "", "display": []});
        self.server.event_of("ToolResult", json!({"tool_call_id": id, "return_value": value}));
    }

    fn last_step(&mut self, n: i64) {
        self.step(n);
        self.text("done");
        self.server.finish(Outcome::Finished);
    }

    fn ends(mut self) {
        self.said();
        assert!(self.frames.is_empty(), "not said: {:?}", self.frames);
        assert!(self.calls.is_empty(), "not heard: {:?}", self.calls);
    }
}

const ECHO: [&str; 2] = ["{\"command\":", " \"echo hi\"}"];

#[test]
fn approval_frames_match_recordings() {
    let rejected = "Tool \"Bash\" was not run because the user rejected the approval request. Reason: use printf";
    for (case, response, output, is_error) in
        [("approve", "approve", "hi\n", false), ("reject_with_feedback", "reject", rejected, true)]
    {
        let mut play = Play::begins(case);
        play.step(1);
        play.tool("c1", "Bash", &ECHO);
        play.asks();
        assert_eq!(play.decided()["response"], response);
        play.resolved();
        play.result("c1", output, is_error);
        play.last_step(2);
        play.ends();
    }
}

#[test]
fn question_frames_match_recordings() {
    for case in ["question", "question_dismissed"] {
        let mut play = Play::begins(case);
        play.step(1);
        let pieces: Vec<String> = play
            .frames
            .iter()
            .filter(|(kind, _)| kind == "tool.call.delta")
            .map(|(_, frame)| frame["payload"]["argumentsPart"].as_str().expect("text").to_owned())
            .collect();
        let pieces: Vec<&str> = pieces.iter().skip(1).map(|piece| &**piece).collect();
        play.tool("q1", "AskUserQuestion", &pieces);
        let arguments: Value = serde_json::from_str(&pieces.concat()).expect("JSON");
        let request = json!({"tool_call_id": "q1", "questions": arguments["questions"]});
        play.server.request_of("question_0003", "QuestionRequest", request);
        let answers = play.decided()["answers"].take();
        let output = match case {
            "question" => json!({"answers": answers}),
            _ => json!({"answers": {}, "note": "User dismissed the question without answering."}),
        };
        play.result("q1", &output.to_string(), false);
        play.last_step(2);
        play.ends();
    }
}

#[test]
fn cancel_frames_match_recordings() {
    let mut play = Play::begins("cancel_in_stream");
    play.step(1);
    play.text("abc");
    assert_eq!(play.hears(), Some(Incoming::Cancel));
    play.server.finish(Outcome::Cancelled);
    assert_eq!(play.hears(), None);
    play.turn();
    play.step(1);
    play.text("next");
    play.server.finish(Outcome::Finished);
    play.ends();

    let mut play = Play::begins("cancel_approval_pending");
    play.step(1);
    play.tool("c1", "Bash", &ECHO);
    play.asks();
    assert_eq!(play.hears(), Some(Incoming::Cancel));
    play.server.finish(Outcome::Cancelled);
    assert_eq!(play.hears(), None);
    play.ends();
}

#[test]
fn steer_frames_match_recordings() {
    let mut play = Play::begins("steer");
    play.step(1);
    play.tool("c1", "Bash", &["{\"command\": \"sle", "ep 1; echo hi\"}"]);
    play.server.web_call_begins("c1");
    assert_eq!(play.hears(), None);
    let Some(Incoming::Steer(content)) = play.hears() else { panic!("no steer") };
    play.result("c1", "hi\n", false);
    play.server.event_of("SteerInput", json!({"user_input": content}));
    play.last_step(2);
    assert_eq!(play.hears(), None);
    play.ends();
}

#[test]
fn failure_frames_match_recordings() {
    let mut play = Play::begins("model_401");
    play.step(1);
    play.server.finish(Outcome::Failed(Failure::new(-32004, "401 no")));
    play.ends();

    let mut play = Play::begins("max_steps");
    for n in 1..=2 {
        play.step(n);
        let command = format!(" \"echo {n}\"}}");
        play.tool(&format!("c{n}"), "Bash", &["{\"command\":", &command]);
        play.result(&format!("c{n}"), &format!("{n}\n"), false);
    }
    play.server.finish(Outcome::MaxStepsReached(2));
    play.ends();
}
