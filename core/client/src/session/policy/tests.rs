//! Ids and races: the table `tests/policy/sequences.json`, played with a policy over Wire and over ACP.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::connection::{AnswerSource, AnswerSources, Connection, Output, Timing, TurnLimits};
use crate::dialect::{Acp, Dialect, InitializeParams, Wire};
use crate::messages::{Event, PolicyOutcome};
use crate::{Approval, WireVersion};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn own_tool_denied_by_default_only() {
    let forgets = |rules: Value| {
        let policy = Arc::new(Policy::from_value(&rules).unwrap());
        SessionPolicy { policy, work_dir: "/work".into(), paths: None }.forgets("lookup")
    };
    assert!(forgets(json!({"extends": "read-only", "default": "deny"})));
    for known in ["allow", "ask", "deny"] {
        assert!(!forgets(json!({"default": "deny", known: ["lookup"]})), "{known}");
        assert!(!forgets(json!({"default": "deny", known: ["mcp(program/*)"]})), "{known}");
    }
    assert!(!forgets(json!({"extends": "read-only"})));
}

/// A turn of a session with a policy.
struct Played {
    connection: Connection,
    is_acp: bool,
    now: Instant,
    asked: u64,
}

impl Played {
    fn new(policy: &Arc<Policy>, is_acp: bool) -> Self {
        let timing = Timing { handshake: MINUTE, cancel: MINUTE, answer: MINUTE, turn: None, idle: None, quiet: None };
        let rules = SessionPolicy { policy: Arc::clone(policy), work_dir: "/work".into(), paths: None };
        let rules: Option<Arc<Box<dyn ToolRules>>> = Some(Arc::new(Box::new(rules)));
        let sources = AnswerSources { approval: AnswerSource::Handler, rules, ..AnswerSources::default() };
        let dialect: Box<dyn Dialect> =
            if is_acp { Box::new(Acp::new(Default::default())) } else { Box::new(Wire::new(WireVersion::LATEST)) };
        let mut played =
            Self { connection: Connection::new(dialect, timing, sources), is_acp, now: Instant::now(), asked: 0 };
        played.connection.open(InitializeParams::default(), played.now);
        if is_acp {
            played.hear(&json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}}}));
            played.hear(&json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}));
        } else {
            let written = String::from_utf8(played.connection.poll_transmit()).expect("text");
            let sent: Value = serde_json::from_str(written.lines().next().expect("a handshake")).expect("JSON");
            let server = json!({"name": "Agent", "version": "1"});
            let result = json!({"protocol_version": "1.10", "server": server, "slash_commands": []});
            played.hear(&json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
        }
        played.connection.prompt_for(1, "go".into(), TurnLimits::default(), None, played.now);
        if !is_acp {
            played.event("TurnBegin", &json!({"user_input": "go"}));
            played.event("StepBegin", &json!({"n": 1}));
        }
        played.decision();
        played
    }

    fn hear(&mut self, line: &Value) {
        self.connection.handle_line(line.to_string().as_bytes(), self.now);
    }

    fn event(&mut self, kind: &str, payload: &Value) {
        self.hear(&json!({"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}}));
    }

    fn update(&mut self, kind: &str, id: &str, fields: &Value) {
        let mut update = json!({"sessionUpdate": kind, "toolCallId": id});
        update.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        self.hear(
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
        );
    }

    /// Plays a step. Returns the decision about a request.
    fn step(&mut self, step: &[Value]) -> Option<String> {
        let text = |at: usize| step.get(at).and_then(Value::as_str).unwrap_or_default();
        match (text(0), self.is_acp) {
            ("call", true) => {
                let mut fields = json!({"title": "Shell"});
                fields.as_object_mut()?.extend(of_acp(&step[2]).as_object()?.clone());
                self.update("tool_call", text(1), &fields);
            }
            ("change", true) => self.update("tool_call_update", text(1), &of_acp(&step[2])),
            ("end", true) => self.update("tool_call_update", text(1), &json!({"status": "completed"})),
            ("call" | "change", false) => self.event("ToolCall", &of_wire(text(1), text(2))),
            ("end", false) => {
                let value = json!({"is_error": false, "output": "", "message": "", "display": []});
                self.event("ToolResult", &json!({"tool_call_id": text(1), "return_value": value}));
            }
            ("sub", _) => {
                let event = json!({"type": "ToolCall", "payload": of_wire(text(2), text(3))});
                let about =
                    json!({"parent_tool_call_id": "p", "agent_id": text(1), "subagent_type": "coder", "event": event});
                self.event("SubagentEvent", &about);
            }
            ("ask", is_acp) => return Some(self.ask(is_acp, None, text(1), &step[2])),
            ("ask_sub", _) => return Some(self.ask(false, Some(text(1)), text(2), &step[3])),
            _ => return Some(format!("unknown step {}", text(0))),
        }
        None
    }

    fn ask(&mut self, is_acp: bool, agent: Option<&str>, id: &str, what: &Value) -> String {
        self.asked += 1;
        let number = self.asked;
        if is_acp {
            let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
            let options = [option("approve", "allow_once"), option("reject", "reject_once")];
            let mut call = json!({"toolCallId": id});
            call.as_object_mut().expect("an object").extend(of_acp(what).as_object().expect("an object").clone());
            let params = json!({"sessionId": "s", "options": options, "toolCall": call});
            self.hear(
                &json!({"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params}),
            );
        } else {
            let shown = what.as_str().map(|command| json!({"type": "shell", "language": "bash", "command": command}));
            let shown: Vec<Value> = shown.into_iter().collect();
            let mut payload =
                json!({"id": format!("a{number}"), "tool_call_id": id, "sender": "Shell", "action": "run command"});
            payload["description"] = json!("Run it");
            payload["display"] = json!(shown);
            payload["agent_id"] = json!(agent);
            let params = json!({"type": "ApprovalRequest", "payload": payload});
            self.hear(&json!({"jsonrpc": "2.0", "id": format!("r{number}"), "method": "request", "params": params}));
        }
        self.decision()
    }

    /// What came of a request: `allow` or `deny` if the policy has answered it, and `ask` if the handler was asked. The answer of the
    /// handler is to approve, so that nothing but the decision stops the next call.
    fn decision(&mut self) -> String {
        let (mut decided, mut asked) = (String::new(), None);
        while let Some(output) = self.connection.poll_output() {
            match output {
                Output::Event { event, .. } => {
                    if let Event::PolicyDecision(decision) = *event {
                        decision.decision.as_str().clone_into(&mut decided);
                    }
                }
                Output::Ask { key, .. } => asked = Some(key),
                _ => {}
            }
        }
        let written = String::from_utf8(self.connection.poll_transmit()).expect("text");
        let is = |word: &str| written.contains(&format!("\"{word}\""));
        let seen = match (asked.is_some(), is("approve"), is("reject")) {
            (true, false, false) => "ask",
            (false, true, false) => "allow",
            (false, false, true) => "deny",
            _ => "",
        };
        if let Some(key) = asked {
            self.connection.answer(key, &crate::dialect::Answer::Approval(Approval::Approve), self.now);
            self.connection.poll_transmit();
        }
        if decided.is_empty() || seen == decided { seen.to_owned() } else { format!("{seen}, although {decided}") }
    }
}

fn of_acp(what: &Value) -> Value {
    match what {
        Value::String(command) => json!({"kind": "execute", "rawInput": {"command": command}}),
        Value::Null => json!({}),
        fields => fields.clone(),
    }
}

fn of_wire(id: &str, command: &str) -> Value {
    let arguments = json!({ "command": command }).to_string();
    json!({"type": "function", "id": id, "function": {"name": "Shell", "arguments": arguments}})
}

#[test]
fn each_statement_about_a_call_counts() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/policy/sequences.json");
    let table: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("a table")).expect("JSON");
    let policy = Arc::new(Policy::from_value(&table["policy"]).expect("a policy"));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for group in table["groups"].as_array().expect("groups") {
        for (row, is_acp) in group["rows"].as_array().expect("rows").iter().flat_map(|row| [(row, false), (row, true)])
        {
            let protocol = if is_acp { "acp" } else { "wire" };
            if group["only"].as_str().is_some_and(|only| only != protocol) {
                continue;
            }
            count += 1;
            let mut played = Played::new(&policy, is_acp);
            for step in row.as_array().expect("steps") {
                let step = step.as_array().expect("a step");
                if let Some(decision) = played.step(step)
                    && step.last().is_some_and(|expected| *expected != decision)
                {
                    wrong.push(format!("{}, {protocol}: {row}: {step:?}: {decision}", group["about"]));
                }
            }
        }
    }
    assert!(wrong.is_empty() && count >= 800, "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

#[cfg(unix)]
#[test]
fn placed_path_is_judged_as_host_path() {
    let rules = json!({
        "allow": ["read(src/**)", "edit(src/**)", "read(/etc/**)", "read(/work/**)", "execute(rm *)"],
        "deny": ["edit(secrets/**)"],
    });
    let paths = PathMap::new([("/home/ada/app".into(), "/work".to_owned())]).expect("paths");
    let rules = SessionPolicy {
        policy: Arc::new(Policy::from_value(&rules).expect("a policy")),
        work_dir: "/home/ada/app".into(),
        paths: Some(paths),
    };
    let call = |kind: &str, arguments: Value| ToolCallInfo {
        kind: Some(kind.into()),
        name: "Tool".to_owned(),
        arguments: arguments.as_object().cloned(),
        ..ToolCallInfo::default()
    };
    let path = |kind: &str, path: &str| rules.decide(&call(kind, json!({ "path": path })), "").decision;
    for (kind, text, expected) in [
        ("read", "/work/src/a", PolicyOutcome::Allow),
        ("read", "src/a", PolicyOutcome::Allow),
        ("edit", "/work/src/a", PolicyOutcome::Allow),
        // The paths of the rules are this machine's.
        ("read", "/etc/passwd", PolicyOutcome::Ask),
        ("read", "/work/other", PolicyOutcome::Ask),
        ("read", "/home/ada/app/src/a", PolicyOutcome::Ask),
        ("read", "~/x", PolicyOutcome::Ask),
        ("read", "/work/src/../src/a", PolicyOutcome::Ask),
        ("read", "/wor*/src/a", PolicyOutcome::Ask),
        ("edit", "/work/secrets/key", PolicyOutcome::Deny),
        ("edit", "/work/./secrets//key", PolicyOutcome::Deny),
        ("edit", "secrets/key", PolicyOutcome::Deny),
        ("edit", "/work/src/../secrets/key", PolicyOutcome::Ask),
        ("edit", "/wor*/secrets/key", PolicyOutcome::Ask),
    ] {
        assert_eq!(path(kind, text), expected, "{kind} {text}");
    }
    let command = |text: &str| rules.decide(&call("execute", json!({ "command": text })), "").decision;
    assert_eq!(command("rm /work/secrets/key"), PolicyOutcome::Deny);
    assert_eq!(command("cd /work && rm secrets/key"), PolicyOutcome::Deny);
    assert_eq!(command("rm /work/src/a"), PolicyOutcome::Allow);

    // Locations are translated already.
    let mut located = call("edit", json!({"path": "/work/src/a"}));
    located.locations = Some(vec!["/home/ada/app/src/a".to_owned()]);
    assert_eq!(rules.decide(&located, "").decision, PolicyOutcome::Allow);
    located.locations = Some(vec!["place:/etc/passwd".to_owned()]);
    assert_eq!(rules.decide(&located, "").decision, PolicyOutcome::Ask);
    // The program's own files are not the agent's.
    let own = call("read", json!({"path": "/home/ada/app/src/a"}));
    assert_eq!(rules.decide_request(&own, "").decision, PolicyOutcome::Allow);
}
