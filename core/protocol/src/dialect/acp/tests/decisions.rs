//! Decisions of a policy: they are about the call as its permission request describes it.

mod choices;
mod during;
mod granted;
mod texts;

use std::collections::HashSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::connection::{RequestKey, ToolRules};
use crate::messages::{PolicyDecision, PolicyOutcome, ToolCallInfo};

/// Allows `ls`, reading and the tool `add`, denies `rm` and files below `/etc`, and asks about the rest.
#[derive(Debug)]
struct Rules;

impl ToolRules for Rules {
    fn decide(&self, call: &ToolCallInfo, _: &str) -> PolicyDecision {
        let text = |name: &str| call.arguments.as_ref().and_then(|arguments| arguments.get(name)?.as_str());
        let mut paths = call.locations.iter().chain(&call.diffs).flatten().map(String::as_str).chain(text("path"));
        let kind = call.kind.as_ref().map(|kind| kind.as_str());
        let words = format!("{} {}", call.name, text("command").unwrap_or_default());
        let decision = if paths.any(|path| path.starts_with("/etc")) || words.contains("rm ") {
            PolicyOutcome::Deny
        } else if text("command") == Some("ls") && kind != Some("delete") || kind == Some("read") || kind == Some("mcp")
        {
            PolicyOutcome::Allow
        } else {
            PolicyOutcome::Ask
        };
        let (tool_call, extra) = (call.clone(), Default::default());
        PolicyDecision { tool_call, decision, rule: None, source: None, reason: None, part: None, extra }
    }
}

/// A turn of a session with rules.
struct Decided {
    connection: Connection,
    now: Instant,
    number: u64,
}

/// What was seen of a request.
#[derive(Debug, PartialEq)]
struct Seen {
    /// The decision, and the call that it was about.
    decision: Option<(PolicyOutcome, ToolCallInfo)>,
    /// The option that was selected, unless the handler is asked.
    selected: Option<String>,
    /// The commands of the calls in the event stream.
    calls: Vec<String>,
}

impl Decided {
    fn new() -> Self {
        Self::with(Some(Arc::new(Box::new(Rules))))
    }

    fn with(rules: Option<Arc<Box<dyn ToolRules>>>) -> Self {
        let timing = Timing { handshake: MINUTE, cancel: MINUTE, answer: MINUTE, turn: None, idle: None, quiet: None };
        let services = crate::dialect::Services { read_file: true, write_file: true, terminal: true };
        let sources = AnswerSources {
            approval: AnswerSource::Handler,
            question: AnswerSource::Handler,
            rules,
            services,
            ..AnswerSources::default()
        };
        let mut decided = Self {
            connection: Connection::new(Box::new(Acp::new(params())), timing, sources),
            now: Instant::now(),
            number: 0,
        };
        decided.connection.open(InitializeParams { services, ..InitializeParams::default() }, decided.now);
        for line in [
            json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}}}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}),
        ] {
            decided.hear(&line);
        }
        decided.connection.prompt(1, "go".into(), decided.now);
        decided.seen();
        decided
    }

    fn hear(&mut self, line: &Value) {
        self.connection.handle_line(line.to_string().as_bytes(), self.now);
    }

    fn update(&mut self, update: Value) {
        self.hear(
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
        );
    }

    fn call(&mut self, fields: Value) {
        self.update(merged(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Bash"}), fields));
    }

    fn ask(&mut self, fields: Value) -> Seen {
        self.number += 1;
        let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
        let options = [option("once", "allow_once"), option("always", "allow_always"), option("no", "reject_once")];
        let call = merged(json!({"toolCallId": "t"}), fields);
        let params = json!({"sessionId": "s", "options": options, "toolCall": call});
        self.seen();
        self.hear(
            &json!({"jsonrpc": "2.0", "id": self.number, "method": "session/request_permission", "params": params}),
        );
        self.seen()
    }

    /// Asks for a permission with options that are a choice. Returns whether the question is passed on, and its body.
    fn choose(&mut self, fields: Value, kinds: [&str; 3]) -> (Seen, Option<String>) {
        self.number += 1;
        let options: Vec<_> = kinds.iter().map(|kind| json!({"optionId": kind, "name": kind, "kind": kind})).collect();
        let call = merged(json!({"toolCallId": "t"}), fields);
        let params = json!({"sessionId": "s", "options": options, "toolCall": call});
        self.seen();
        self.hear(
            &json!({"jsonrpc": "2.0", "id": self.number, "method": "session/request_permission", "params": params}),
        );
        let mut body = None;
        let outputs: Vec<_> = std::iter::from_fn(|| self.connection.poll_output()).collect();
        let mut decision = None;
        for output in outputs {
            if let Output::Event { event, .. } = output {
                match *event {
                    Event::QuestionRequest(request) => body = request.questions[0].body.clone(),
                    Event::PolicyDecision(event) => decision = Some((event.decision, event.tool_call)),
                    _ => {}
                }
            }
        }
        (Seen { decision, ..self.seen() }, body)
    }

    /// Asks for a permission that the handler decides about.
    fn asked(&mut self, fields: Value) -> RequestKey {
        self.number += 1;
        let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
        let options = [option("once", "allow_once"), option("always", "allow_always"), option("no", "reject_once")];
        let call = merged(json!({"toolCallId": "t"}), fields);
        let params = json!({"sessionId": "s", "options": options, "toolCall": call});
        self.hear(
            &json!({"jsonrpc": "2.0", "id": self.number, "method": "session/request_permission", "params": params}),
        );
        let mut outputs = std::iter::from_fn(|| self.connection.poll_output());
        let asked = outputs.find_map(|output| match output {
            Output::Ask { key, .. } => Some(key),
            _ => None,
        });
        asked.expect("a question")
    }

    fn approve_for_session(&mut self, fields: Value) {
        let asked = self.asked(fields);
        self.connection.answer(asked, &Answer::Approval(Approval::ApproveForSession), self.now);
        assert_eq!(self.seen().selected.as_deref(), Some("once"), "the agent keeps asking");
    }

    fn seen(&mut self) -> Seen {
        let mut seen = Seen { decision: None, selected: None, calls: Vec::new() };
        while let Some(output) = self.connection.poll_output() {
            let Output::Event { event, .. } = output else { continue };
            match *event {
                Event::PolicyDecision(decision) => seen.decision = Some((decision.decision, decision.tool_call)),
                Event::ToolCall(call) => {
                    assert!(seen.decision.is_none(), "the call comes before the decision");
                    seen.calls.push(call.function.arguments.unwrap_or_default());
                }
                _ => {}
            }
        }
        let written = self.connection.poll_transmit();
        for line in written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: Value = serde_json::from_slice(line).expect("JSON");
            let option = &line["result"]["outcome"]["optionId"];
            seen.selected = seen.selected.or_else(|| option.as_str().map(str::to_owned));
        }
        seen
    }
}

fn merged(mut base: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().expect("an object") {
        base[name] = value.clone();
    }
    base
}

#[test]
fn request_counts_over_earlier_data() {
    let command = |command: &str| json!({"kind": "execute", "rawInput": {"command": command}});
    let path = |field: &str| match field {
        "locations" => json!({"locations": [{"path": "/etc/passwd"}]}),
        _ => json!({"content": [{"type": "diff", "path": "/etc/passwd", "newText": "x"}]}),
    };
    for (before, request, decision, is_changed) in [
        (command("ls"), json!({}), "allow", false),
        (command("ls"), command("ls"), "allow", false),
        (json!({"rawInput": {"command": "ls", "cwd": "/"}}), command("ls"), "allow", false),
        (command("ls"), json!({"title": "Running: ls"}), "allow", false),
        (command("ls"), json!({"title": "ls (List files)", "rawInput": {"command": "ls"}}), "allow", false),
        (json!({"kind": "other"}), command("ls"), "allow", false),
        (command("ls"), command("rm -rf ~"), "deny", true),
        (command("rm -rf ~"), command("ls"), "deny", true),
        (command("ls"), command("git push"), "ask", true),
        (command("git push"), command("ls"), "ask", true),
        (command("ls"), json!({"title": "rm -rf ~"}), "deny", true),
        (command("ls"), json!({"title": "rm -rf ~; ls"}), "deny", true),
        (command("ls"), json!({"title": "git push"}), "ask", true),
        (command("ls"), json!({"kind": "delete"}), "ask", true),
        (command("ls"), json!({"name": "Delete"}), "allow", true),
        (command("ls"), path("locations"), "deny", false),
        (command("ls"), path("diffs"), "deny", false),
        (command("ls"), json!({"locations": ["/etc/passwd"]}), "ask", true),
        (command("ls"), json!({"content": [{"type": "diff", "file": "/etc/passwd", "newText": "x"}]}), "ask", true),
        (command("ls"), json!({"content": [{"type": "Diff", "path": "/etc/passwd", "newText": "x"}]}), "ask", true),
        (command("ls"), json!({"content": {"type": "diff", "path": "/etc/passwd", "newText": "x"}}), "ask", true),
        (merged(command("ls"), json!({"locations": {"path": "/etc/passwd"}})), command("ls"), "ask", true),
        (merged(command("ls"), path("locations")), json!({"locations": [{"path": "/tmp/x"}]}), "deny", true),
        (merged(command("ls"), path("diffs")), command("ls"), "deny", false),
        (
            json!({"kind": "read", "rawInput": {"path": "a"}}),
            json!({"rawInput": {"path": "/etc/passwd"}}),
            "deny",
            true,
        ),
    ] {
        let mut session = Decided::new();
        session.call(before.clone());
        let seen = session.ask(request.clone());
        let (outcome, call) = seen.decision.expect("a decision");
        assert_eq!(outcome.as_str(), decision, "{before} {request}");
        assert_eq!(call.changed, is_changed.then_some(true), "{before} {request}");
        if let Some(asked) = request["rawInput"]["command"].as_str() {
            assert_eq!(call.arguments.expect("arguments")["command"], asked, "{before} {request}");
        }
        let selected = match decision {
            "allow" => Some("once"),
            "deny" => Some("no"),
            _ => None,
        };
        assert_eq!(seen.selected.as_deref(), selected, "{before} {request}");
    }
}

#[test]
fn second_announcement_inherits_no_arguments() {
    let command = json!({"kind": "execute", "rawInput": {"command": "ls"}});
    for (second, decision) in [
        (json!({"kind": "execute"}), "ask"),
        (json!({"kind": "execute", "rawInput": {}}), "ask"),
        (command.clone(), "allow"),
    ] {
        let mut session = Decided::new();
        session.call(command.clone());
        session.call(second.clone());
        let seen = session.ask(json!({}));
        assert_eq!(seen.decision.expect("a decision").0.as_str(), decision, "{second}");
    }
}

#[test]
fn approval_for_session_is_about_shown_change() {
    let edit = |id: &str, text: &str| {
        json!({
            "toolCallId": id, "kind": "edit", "rawInput": {"path": "/w/a"},
            "content": [{"type": "diff", "path": "/w/a", "oldText": "", "newText": text}],
        })
    };
    let mut session = Decided::new();
    session.call(edit("t", "x"));
    session.approve_for_session(json!({}));
    session.call(edit("u", "x"));
    assert_eq!(session.ask(json!({"toolCallId": "u"})).selected.as_deref(), Some("once"));
    session.call(edit("v", "y"));
    assert_eq!(session.ask(json!({"toolCallId": "v"})).selected, None);
}

#[test]
fn ended_call_has_all_paths_and_kinds() {
    let update = |fields: Value| merged(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"}), fields);
    let mut session = Decided::new();
    session.call(json!({"kind": "read", "rawInput": {"path": "a"}, "locations": [{"path": "/w/a"}]}));
    session.update(update(json!({"kind": "edit", "locations": [{"path": "/w/b"}]})));
    session.update(update(json!({
        "status": "completed", "content": [{"type": "diff", "path": "/w/c", "newText": "x"}],
    })));
    let mut outputs = std::iter::from_fn(|| session.connection.poll_output());
    let call = outputs.find_map(|output| match output {
        Output::Event { event, .. } => match *event {
            Event::ToolResult(result) => result.tool_call.get().cloned(),
            _ => None,
        },
        _ => None,
    });
    let call = call.expect("a call");
    assert_eq!(call.locations, Some(vec!["/w/b".to_owned(), "/w/a".to_owned()]));
    assert_eq!((call.diffs, call.changed), (Some(vec!["/w/c".to_owned()]), Some(true)));
}

#[test]
fn announcement_after_end_is_new_call() {
    let mut session = Decided::new();
    session.call(json!({"rawInput": {"command": "ls"}, "status": "completed"}));
    session.seen();
    session.call(json!({"rawInput": {"command": "ls"}, "status": "completed"}));
    assert!(session.seen().calls.is_empty(), "it says again that the call has ended");
    session.call(json!({"rawInput": {"command": "rm x"}, "status": "completed"}));
    assert_eq!(session.seen().calls, [r#"{"command":"rm x"}"#]);
}

#[test]
fn changed_arguments_are_told_before_decision() {
    let mut session = Decided::new();
    session.call(json!({"rawInput": {"command": "ls"}}));
    let seen = session.ask(json!({"rawInput": {"command": "rm -rf ~"}}));
    assert_eq!(seen.calls, [r#"{"command":"rm -rf ~"}"#]);
}

#[test]
fn call_with_id_of_ended_call_is_new() {
    let mut session = Decided::new();
    session.call(json!({"rawInput": {"command": "ls"}}));
    assert_eq!(session.ask(json!({})).selected.as_deref(), Some("once"));
    session.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}));
    let seen = session.ask(json!({"rawInput": {"command": "rm -rf ~"}}));
    assert_eq!(seen.selected.as_deref(), Some("no"));
    session.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "failed"}));
    // Nothing is known of this call but its id.
    assert_eq!(session.ask(json!({})).selected, None);
    session.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}));
    session.call(json!({"rawInput": {"command": "ls"}}));
    assert_eq!(session.ask(json!({})).selected.as_deref(), Some("once"), "the earlier calls have ended");
}

#[test]
fn other_arguments_after_end() {
    let good = json!({"command": "ls"});
    let bad = json!({"command": "git push"});
    let update = |fields: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"});
        update.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        update
    };
    let mut announced = Decided::new();
    announced.call(json!({"rawInput": good, "status": "completed"}));
    announced.update(update(json!({"rawInput": bad, "title": "Run", "kind": "execute"})));
    let mut updated = Decided::new();
    updated.update(update(json!({"rawInput": good, "status": "completed"})));
    updated.call(json!({"rawInput": bad}));
    // The call may be another one than that which has ended without arguments.
    let mut completed = Decided::new();
    completed.call(json!({"status": "completed"}));
    completed.update(update(json!({"rawInput": bad})));
    let mut described = Decided::new();
    described.update(update(json!({"status": "completed"})));
    described.call(json!({"rawInput": bad}));
    for mut session in [announced, updated, completed, described] {
        assert_eq!(session.ask(json!({"rawInput": good})).selected, None);
    }
    // What an agent repeats after the end says nothing new.
    let mut repeated = Decided::new();
    repeated.call(json!({"rawInput": good}));
    repeated.update(update(json!({"status": "completed"})));
    repeated.seen();
    repeated.update(update(json!({"rawInput": good})));
    repeated.update(update(json!({"rawInput": bad, "status": "completed"})));
    assert!(repeated.seen().calls.is_empty());
}

#[test]
fn arguments_in_pieces_are_one_statement() {
    let mut session = Decided::new();
    let text = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    session.call(json!({"status": "pending", "content": text("")}));
    for piece in ["{\"command\":", "{\"command\": \"l", "{\"command\": \"ls\"}"] {
        session.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": text(piece)}));
    }
    let (outcome, call) = session.ask(json!({"rawInput": {"command":"ls"}})).decision.expect("a decision");
    assert_eq!((outcome, call.changed), (PolicyOutcome::Allow, None));
    let (outcome, call) = session.ask(json!({"rawInput": {"command":"ls -la"}})).decision.expect("a decision");
    assert_eq!((outcome, call.changed), (PolicyOutcome::Ask, Some(true)));
}

#[test]
fn approval_for_session_covers_same_call_only() {
    let mut session = Decided::new();
    session.call(json!({"rawInput": {"command": "git push"}}));
    session.approve_for_session(json!({}));
    assert_eq!(
        session
            .ask(json!({"toolCallId": "u", "title": "Bash", "rawInput": {"command": "git push"}}))
            .selected
            .as_deref(),
        Some("once")
    );
    assert_eq!(
        session.ask(json!({"toolCallId": "v", "title": "Bash", "rawInput": {"command": "git push -f"}})).selected,
        None
    );
    let elsewhere =
        json!({"toolCallId": "w", "title": "Bash", "rawInput": {"command": "git push"}, "locations": [{"path": "/x"}]});
    assert_eq!(session.ask(elsewhere).selected, None);
}

#[test]
fn approval_for_session_covers_what_was_shown() {
    let mut session = Decided::new();
    let edit = |id: &str, text: &str| {
        let diff = json!({"type": "diff", "path": "/project/a", "oldText": "", "newText": text});
        json!({"toolCallId": id, "title": "Edit", "rawInput": {"path": "/project/a"}, "content": [diff]})
    };
    session.approve_for_session(edit("a", "good"));
    assert_eq!(session.ask(edit("b", "good")).selected.as_deref(), Some("once"));
    assert_eq!(session.ask(edit("c", "evil")).selected, None);
}

#[test]
fn approval_for_session_needs_arguments() {
    for arguments in [json!({}), json!({"command": ""}), json!({"command": null}), json!({"words": [""]})] {
        let mut session = Decided::new();
        let call = |id: &str| json!({"toolCallId": id, "title": "Bash", "rawInput": arguments});
        session.approve_for_session(call("a"));
        assert_eq!(session.ask(call("b")).selected, None, "{arguments}");
    }
}

#[test]
fn files_and_terminals_are_denied_before_handler() {
    for (method, params, is_denied) in [
        ("fs/read_text_file", json!({"path": "/project/a"}), false),
        ("fs/read_text_file", json!({"path": "/etc/passwd"}), true),
        ("fs/write_text_file", json!({"path": "/etc/passwd", "content": "x"}), true),
        ("terminal/create", json!({"command": "ls"}), false),
        ("terminal/create", json!({"command": "rm x"}), true),
    ] {
        let mut session = Decided::new();
        let params = merged(json!({"sessionId": "s"}), params);
        session.hear(&json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params}));
        let outputs: Vec<_> = std::iter::from_fn(|| session.connection.poll_output()).collect();
        let is_asked = outputs.iter().any(|output| matches!(output, Output::Ask { .. }));
        assert_eq!(is_asked, !is_denied, "{method} {params}");
        let written = String::from_utf8(session.connection.poll_transmit()).expect("text");
        assert_eq!(written.contains("the user's policy denies this"), is_denied, "{written}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Call(Option<&'static str>),
    Update(Option<&'static str>),
    Ask(Option<&'static str>),
    End,
}

fn steps() -> impl Strategy<Value = Vec<(&'static str, Step)>> {
    let command = || prop::sample::select(vec![None, Some("ls"), Some("ls"), Some("git"), Some("rm x")]);
    let step = prop_oneof![
        1 => command().prop_map(Step::Call),
        1 => command().prop_map(Step::Update),
        3 => command().prop_map(Step::Ask),
        1 => Just(Step::End),
    ];
    prop::collection::vec((prop::sample::select(vec!["a", "b"]), step), 1..24)
}

proptest! {
    /// A model that remembers all commands that were named for an open id, and the newest.
    #[test]
    fn no_decision_is_about_older_data_than_newest(steps in steps()) {
        let mut session = Decided::new();
        let mut open: HashMap<&str, Vec<&str>> = HashMap::new();
        // Announced ids, and those that were announced again without arguments.
        let (mut announced, mut unsure) = (HashSet::new(), HashSet::new());
        for (id, step) in steps {
            let with = |mut fields: Value, command: Option<&str>| {
                if let Some(command) = command {
                    fields["rawInput"] = json!({"command": command});
                }
                fields
            };
            match step {
                Step::Call(command) => {
                    session.call(with(json!({"toolCallId": id}), command));
                    let known = open.entry(id).or_default();
                    if !announced.insert(id) && command.is_none() && !known.is_empty() {
                        unsure.insert(id);
                    }
                    known.extend(command);
                }
                Step::Update(command) if open.contains_key(id) => {
                    session.update(with(json!({"sessionUpdate": "tool_call_update", "toolCallId": id}), command));
                    open.entry(id).or_default().extend(command);
                }
                Step::End if open.contains_key(id) => {
                    let ended = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed"});
                    session.update(ended);
                    open.remove(id);
                    announced.remove(id);
                    unsure.remove(id);
                }
                Step::Ask(command) => {
                    let seen = session.ask(with(json!({"toolCallId": id}), command));
                    let known = open.entry(id).or_default();
                    known.extend(command);
                    let (outcome, call) = seen.decision.expect("a decision");
                    let decided = call.arguments.as_ref().and_then(|arguments| arguments.get("command")?.as_str());
                    prop_assert_eq!(decided, known.last().copied());
                    let expected = if known.contains(&"rm x") {
                        PolicyOutcome::Deny
                    } else if known.is_empty() || known.contains(&"git") || unsure.contains(id) {
                        PolicyOutcome::Ask
                    } else {
                        PolicyOutcome::Allow
                    };
                    prop_assert_eq!(outcome, expected);
                    let is_changed = known.iter().any(|command| Some(command) != known.last()) || unsure.contains(id);
                    prop_assert_eq!(call.changed, is_changed.then_some(true));
                }
                Step::Update(_) | Step::End => {}
            }
        }
    }
}
