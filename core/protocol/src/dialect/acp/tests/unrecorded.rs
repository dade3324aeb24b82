//! Behaviour that no recording has, from made-up agents.

use proptest::prelude::*;

use super::*;
use crate::dialect::ConfigValue;

#[test]
fn model_and_thinking_are_set_while_opening() {
    let params = SessionParams { model: Some("big".into()), thinking: Some(true), ..params() };
    let mut player = Player::new(params);
    player.hear(&initialized(json!({})).to_string());
    let option = |id: &str, category: &str, current: &str, values: [&str; 2]| {
        let options = values.map(|value| json!({"value": value, "name": value}));
        json!({"type": "select", "id": id, "name": id, "category": category, "currentValue": current, "options": options})
    };
    let options =
        json!([option("m", "model", "small", ["small", "big"]), option("t", "thought_level", "off", ["off", "high"]),]);
    player.sent();
    player.hear(&answer(1, json!({"sessionId": "s", "configOptions": options})));
    assert_eq!(player.sent()[0]["params"], json!({"sessionId": "s", "configId": "m", "value": "big"}));
    player.hear(&answer(2, json!({"configOptions": options})));
    assert_eq!(player.sent()[0]["params"], json!({"sessionId": "s", "configId": "t", "value": "high"}));
    assert!(player.trace.is_empty());
    player.hear(&answer(3, json!({"configOptions": options})));
    assert_eq!(player.trace, ["opened s"]);
}

#[test]
fn session_continues_by_resume_or_load() {
    let resumed = |capabilities: Value| {
        let mut player = Player::new(SessionParams { session_id: Some("s".into()), ..params() });
        player.sent();
        player.hear(&initialized(capabilities).to_string());
        (player.sent(), player)
    };
    let (sent, mut player) = resumed(json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}));
    assert_eq!(sent[0]["method"], "session/resume");
    player.hear(&answer(1, json!({})));
    assert_eq!(player.trace, ["opened s"]);

    let (sent, mut player) = resumed(json!({"loadSession": true}));
    assert_eq!(sent[0]["method"], "session/load");
    player.hear(&update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}})));
    player.hear(&answer(1, Value::Null));
    // The past is not emitted again.
    assert_eq!(player.trace, ["opened s"]);

    let (sent, player) = resumed(json!({}));
    assert!(sent.is_empty());
    assert!(player.trace[0].starts_with("not opened: unsupported: fake 1 (ACP 1) does not support `session_id`"));
}

#[test]
fn session_fork_needs_capability() {
    let forked = |capabilities: Value| {
        let mut player = Player::new(SessionParams { fork_of: Some("s".into()), ..params() });
        player.sent();
        player.hear(&initialized(capabilities).to_string());
        (player.sent(), player)
    };
    let (sent, mut player) = forked(json!({"sessionCapabilities": {"fork": {}}}));
    assert_eq!((&sent[0]["method"], &sent[0]["params"]["sessionId"]), (&json!("session/fork"), &json!("s")));
    player.hear(&answer(1, json!({"sessionId": "t"})));
    assert_eq!(player.trace, ["opened t"]);

    let (sent, player) = forked(json!({}));
    assert!(sent.is_empty());
    assert_eq!(
        player.trace,
        [
            "not opened: unsupported: fake 1 (ACP 1) does not support `fork`; check `session.capabilities.fork` before; it \
          works with Claude Code, Codex, Kimi Code, Mistral Vibe and OpenCode"
        ]
    );
}

#[test]
fn approve_once_never_selects_allow_always() {
    let ask = |options: Value, approval: Approval| {
        let mut player = prompted();
        let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "t", "title": "Bash"}, "options": options});
        let request = json!({"jsonrpc": "2.0", "id": "r", "method": "session/request_permission", "params": params});
        player.hear(&request.to_string());
        let (key, _) = player.asked.remove(0);
        player.connection.answer(key, &Answer::Approval(approval), player.now);
        player.look();
        let sent = player.sent();
        assert_eq!(sent[0]["id"], "r");
        sent[0]["result"]["outcome"].clone()
    };
    let option = |kind: &str| json!({"optionId": kind, "name": kind, "kind": kind});
    let selected = |kind: &str| json!({"outcome": "selected", "optionId": kind});
    let none = json!({"outcome": "cancelled"});
    let always = json!([option("allow_always"), option("reject_once")]);
    assert_eq!(ask(always.clone(), Approval::Approve), none);
    assert_eq!(ask(always.clone(), Approval::ApproveForSession), selected("allow_always"));
    assert_eq!(ask(always, Approval::reject("no")), selected("reject_once"));
    let once = json!([option("allow_once"), option("reject_always")]);
    assert_eq!(ask(once.clone(), Approval::ApproveForSession), selected("allow_once"));
    assert_eq!(ask(once, Approval::reject("no")), selected("reject_always"));
    assert_eq!(ask(json!([option("allow_once")]), Approval::reject("no")), none);
}

/// The option that the agent is told where it asks with these, each of (id, label, kind), and the program says this; and
/// the answer as it fits what was asked.
fn answered(options: &[(String, String, &str)], answer: &Answer) -> (Option<String>, Answer) {
    let mut player = prompted();
    let option = |(id, name, kind): &(String, String, &str)| json!({"optionId": id, "name": name, "kind": kind});
    let options: Vec<Value> = options.iter().map(option).collect();
    let content = json!([{"type": "content", "content": {"type": "text", "text": "Go on?"}}]);
    let call = json!({"toolCallId": "t", "title": "Bash", "content": content});
    let params = json!({"sessionId": "s", "toolCall": call, "options": options});
    let request = json!({"jsonrpc": "2.0", "id": "r", "method": "session/request_permission", "params": params});
    player.hear(&request.to_string());
    let (key, request) = player.asked.remove(0);
    let answer = match (&request, answer) {
        // A program answers what it is asked.
        (Event::ApprovalRequest(_), Answer::Question(_)) => Answer::Approval(Approval::Approve),
        (Event::QuestionRequest(_), Answer::Approval(_)) => Answer::Question(None),
        _ => answer.clone(),
    };
    player.connection.answer(key, &answer, player.now);
    player.look();
    (player.sent()[0]["result"]["outcome"]["optionId"].as_str().map(str::to_owned), answer)
}

fn offered<'a>(options: &[(&str, &str, &'a str)]) -> Vec<(String, String, &'a str)> {
    options.iter().map(|(id, name, kind)| ((*id).to_owned(), (*name).to_owned(), *kind)).collect()
}

#[test]
fn ambiguous_options_never_widen_approval() {
    let says = |label: &str| Answer::Question(Some(Answers::new().answer("Go on?", label)));
    let (yes, always) = (Answer::Approval(Approval::Approve), Answer::Approval(Approval::ApproveForSession));
    let no = Answer::Approval(Approval::reject("no"));
    let nothing: Option<&str> = None;
    // The options (id, label, kind), the answer, and the id that is sent; none for `cancelled`.
    type Case<'a> = (&'a [(&'a str, &'a str, &'a str)], &'a Answer, Option<&'a str>);
    let cases: &[Case<'_>] = &[
        // One id for two options of an approval.
        (&[("x", "Yes", "allow_once"), ("x", "No", "reject_once")], &no, nothing),
        (&[("x", "Yes", "allow_once"), ("x", "No", "reject_once")], &yes, nothing),
        (&[("x", "Yes", "allow_once"), ("x", "Always", "allow_always"), ("n", "No", "reject_once")], &yes, nothing),
        (&[("x", "Yes", "allow_once"), ("x", "Always", "allow_always"), ("n", "No", "reject_once")], &no, Some("n")),
        (&[("y", "Yes", "allow_once"), ("n", "No", "reject_once"), ("n", "Never", "reject_always")], &no, Some("n")),
        (&[("y", "Yes", "allow_once"), ("y", "No", "reject_once"), ("n", "Never", "reject_always")], &no, Some("n")),
        // A label that says the opposite of its kind.
        (&[("y", "No", "allow_once"), ("n", "Yes", "reject_once")], &yes, nothing),
        (&[("y", "No", "allow_once"), ("n", "Yes", "reject_once")], &no, nothing),
        // Questions: two ways to allow once.
        (&[("a", "A", "allow_once"), ("b", "B", "allow_once"), ("n", "No", "reject_once")], &says("B"), Some("b")),
        (&[("a", "A", "allow_once"), ("a", "B", "allow_once"), ("n", "No", "reject_once")], &says("B"), Some("n")),
        (&[("a", "A", "allow_once"), ("b", "A", "allow_once"), ("n", "No", "reject_once")], &says("A"), Some("n")),
        (&[("a", "A", "allow_once"), ("b", "A", "allow_once")], &says("A"), nothing),
        (&[("a", "A", "allow_always"), ("b", "A", "allow_once"), ("c", "C", "allow_once")], &says("A"), Some("b")),
        (&[("a", "A", "allow_once"), ("b", "B", "allow_once"), ("n", "A", "reject_once")], &says("A"), Some("n")),
        (
            &[("a", "No", "allow_once"), ("b", "Yes", "allow_once"), ("n", "Skip", "reject_once")],
            &says("No"),
            Some("n"),
        ),
        (&[("a", "No", "allow_once"), ("b", "Yes", "allow_once")], &says("No"), nothing),
        (&[("a", "no, thanks", "allow_once"), ("b", "Yes", "allow_once")], &says("no, thanks"), nothing),
        // Answers to a question of Kimi Code's are all of this kind.
        (&[("q0_opt_0", "No", "allow_once"), ("q0_opt_1", "Yes", "allow_once")], &says("No"), Some("q0_opt_0")),
        // The agent offers two permanent options: the scope of each is unknown.
        (&[("a", "A", "allow_always"), ("b", "B", "allow_always"), ("c", "Yes", "allow_once")], &always, Some("c")),
        // One of them is for the session.
        (
            &[("y", "Yes", "allow_once"), ("a", "A", "allow_always"), ("s", "A for this session", "allow_always")],
            &always,
            Some("s"),
        ),
        (
            &[("y", "Yes", "allow_once"), ("a", "A", "allow_always"), ("a", "A for this session", "allow_always")],
            &always,
            Some("y"),
        ),
        (
            &[
                ("y", "Yes", "allow_once"),
                ("a", "A for this session", "allow_always"),
                ("b", "B for this session", "allow_always"),
            ],
            &always,
            Some("y"),
        ),
    ];
    for (options, answer, expected) in cases {
        assert_eq!(answered(&offered(options), answer).0.as_deref(), *expected, "{options:?} {answer:?}");
    }
}

proptest! {
    #[test]
    fn answer_never_widens_permission(
        options in proptest::collection::vec(
            ("[xyz]", "(A|B|No|Yes|Always|no!)", prop::sample::select(vec!["allow_once", "allow_always", "reject_once", "reject_always", "later"])),
            1..5,
        ),
        word in 0..4_usize,
        label in "(A|B|No|Yes|Always|no!)",
    ) {
        let power = |kind: &str| match kind {
            "reject_once" | "reject_always" => 0,
            "allow_once" => 1,
            "allow_always" => 2,
            _ => 3,
        };
        let answer = match word {
            0 => Answer::Approval(Approval::Approve),
            1 => Answer::Approval(Approval::ApproveForSession),
            2 => Answer::Approval(Approval::Reject { feedback: None }),
            _ => Answer::Question(Some(Answers::new().answer("Go on?", &*label))),
        };
        let (chosen, answer) = answered(&options, &answer);
        // What that id may mean to the agent, at the most.
        let meant = |id: &String| options.iter().filter(|(other, ..)| other == id).map(|(_, _, kind)| power(kind)).max();
        let sent = chosen.as_ref().and_then(meant).unwrap_or(0);
        let labelled = || options.iter().filter(|(_, name, _)| *name == label).map(|(_, _, kind)| power(kind)).min();
        let granted = match &answer {
            Answer::Approval(Approval::Approve) => 1,
            Answer::Approval(Approval::ApproveForSession) => 2,
            Answer::Question(Some(_)) => match labelled() {
                // The kind is not known, and so not the opposite of the label.
                Some(3) => 3,
                Some(power) if !label.to_lowercase().starts_with("no") => power,
                _ => 0,
            },
            _ => 0,
        };
        prop_assert!(sent <= granted, "{:?} {:?}: {:?}", options, answer, chosen);
    }
}

#[test]
fn stop_reason_decides_turn_end() {
    for (reason, end) in [
        ("end_turn", "turn finished 1 \"\""),
        ("max_tokens", "turn truncated 1 \"\""),
        ("max_turn_requests", "turn max_steps_reached 1 \"\""),
        ("refusal", "turn refused 1 \"\""),
        ("whim", "turn finished 1 \"\""),
    ] {
        let mut player = prompted();
        player.hear(&answer(2, json!({"stopReason": reason})));
        assert!(player.trace.last().is_some_and(|last| last.starts_with(end)), "{reason}: {:?}", player.trace);
    }
    for (result, end) in [
        (json!({"stop_reason": "max_tokens"}), "turn truncated"),
        (json!({"stop_reason": "max_tokens", "stopReason": "refusal"}), "turn refused"),
        (json!({"stopReason": "error"}), "turn finished"),
        (json!({"stopReason": {"type": "refusal"}}), "turn refused"),
        (json!({"stopReason": {"reason": "max_tokens"}}), "turn truncated"),
        (json!({"stopReason": 7, "stop_reason": "refusal"}), "turn refused"),
        (json!("max_tokens"), "turn truncated"),
    ] {
        let mut player = prompted();
        player.hear(&answer(2, result));
        assert!(player.trace.last().is_some_and(|last| last.starts_with(end)), "{:?}", player.trace);
    }
    let mut player = prompted();
    let busy = json!({"code": -32600, "message": "busy", "data": {"code": "turn.agent_busy"}});
    player.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": busy}).to_string());
    assert_eq!(player.trace, ["turn turn_in_progress: busy (-32600)"]);
}

#[test]
fn turn_that_ends_after_a_cancel_is_cancelled() {
    let failed = |code: i64, message: &str| {
        json!({"jsonrpc": "2.0", "id": 2, "error": {"code": code, "message": message}}).to_string()
    };
    for (line, end) in [
        (answer(2, json!({"stopReason": "end_turn"})), "turn cancelled"),
        (answer(2, json!({"stopReason": "cancelled"})), "turn cancelled"),
        (failed(-32800, "Request cancelled"), "turn cancelled"),
        (failed(-32603, "The operation was aborted"), "turn cancelled"),
        (failed(-32603, "the disk is full"), "turn rpc_error: the disk is full"),
    ] {
        let mut player = prompted();
        player.connection.cancel(1, player.now);
        player.look();
        player.hear(&line);
        assert!(player.trace.last().is_some_and(|last| last.starts_with(end)), "{line}: {:?}", player.trace);
    }
}

#[test]
fn unreadable_optional_members_do_not_fail_a_session() {
    let select = json!({"id": "model", "name": "Model", "type": "select", "category": "model", "currentValue": "a",
        "options": [{"value": "a"}, {"name": "B"}, {"name": "Group", "options": [{"value": "c", "name": "C"}]}]});
    for (more, options) in [
        (json!({"configOptions": {}}), vec![]),
        (json!({"configOptions": [{"id": "x", "type": "slider", "currentValue": 3}, select]}), vec!["model=a a c"]),
        (json!({"configOptions": [select, {"type": "select"}, 5]}), vec!["model=a a c"]),
        (json!({"modes": {}}), vec![]),
        (json!({"modes": "code", "models": []}), vec![]),
        (json!({"modes": {"currentModeId": null, "availableModes": [{"id": "plan"}, {}]}}), vec!["mode= plan"]),
        (json!({"_meta": 5}), vec![]),
    ] {
        let mut acp = Acp::new(SessionParams::default());
        let mut opened = more.clone();
        opened["sessionId"] = json!("s");
        let hello = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": "maybe"}, "agentInfo": 5,
            "authMethods": {}});
        acp.call("initialize-1", &Call::Initialize(InitializeParams::default())).expect("a call");
        acp.next_handshake_request("initialize-1", &Ok(Json::from(hello)));
        acp.next_handshake_request("initialize-1", &Ok(Json::from(opened)));
        let handshake = acp.finish_handshake(Ok(Json::null())).unwrap_or_else(|error| panic!("{more}: {error}"));
        let found: Vec<_> = handshake
            .config_options
            .iter()
            .map(|option| {
                let choices: Vec<_> = option.choices.iter().map(|choice| &*choice.value).collect();
                let ConfigValue::Text(value) = &option.value else { panic!("{option:?}") };
                format!("{}={value} {}", option.id, choices.join(" "))
            })
            .collect();
        assert_eq!(found, options, "{more}");
    }
}

#[test]
fn unreadable_parts_of_a_tool_call_lose_no_text() {
    let mut player = prompted();
    let call =
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": 5, "kind": "novelty", "rawInput": {"a": 1}});
    let content = json!([{"type": "markdown", "text": "one"}, "two", {"type": "content", "content": {"type": "text", "text": "three"}}]);
    let ended = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "cancelled", "content": content,
        "locations": 5});
    for update in [call, ended] {
        player.hear(
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
                .to_string(),
        );
    }
    let last = player.trace.last().cloned().unwrap_or_default();
    assert!(["one", "two", "three"].iter().all(|text| last.contains(text)), "{:?}", player.trace);
}

#[test]
fn meta_is_field_of_events() {
    let mut acp = Acp::open("s");
    acp.begin_turn();
    let mut read = |line: &str| {
        let mut found = Vec::new();
        gather(acp.read(jsonrpc::parse(line.as_bytes())), &mut found);
        found.into_iter().filter(|(name, _)| name != "StepBegin").collect::<Vec<_>>()
    };
    fn gather(incoming: Incoming, found: &mut Vec<(String, Value)>) {
        match incoming {
            Incoming::Batch(all) => all.into_iter().for_each(|one| gather(one, found)),
            Incoming::Event(event) | Incoming::OutOfTurn(event) | Incoming::Request { request: event, .. } => {
                let wire = serde_json::to_value(&*event).expect("JSON");
                let payload =
                    if let Event::Unknown(_) = *event { &wire["payload"]["payload"] } else { &wire["payload"] };
                found.push((event.type_name().to_owned(), payload["_meta"].clone()));
            }
            _ => {}
        }
    }
    let event = |name: &str, meta: Value| vec![(name.to_owned(), meta)];
    let text = json!({"type": "text", "text": "Hi"});
    for (kind, more, name) in [
        ("agent_message_chunk", json!({"content": text}), "ContentPart"),
        ("agent_thought_chunk", json!({"content": text}), "ContentPart"),
        ("usage_update", json!({"used": 1, "size": 2}), "StatusUpdate"),
        ("current_mode_update", json!({"currentModeId": "plan"}), "StatusUpdate"),
        ("compaction_update", json!({"compactionId": "c", "status": "in_progress"}), "CompactionBegin"),
        ("tool_call", json!({"toolCallId": "t", "title": "T"}), "ToolCall"),
    ] {
        let mut told = json!({"sessionUpdate": kind, "_meta": {"a": 1}});
        told.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
        assert_eq!(read(&update(told)), event(name, json!({"a": 1})), "{kind}");
    }
    // Next to the update.
    let params = json!({"sessionId": "s", "_meta": {"b": 2}, "update": {"sessionUpdate": "agent_message_chunk", "content": text}});
    let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string();
    assert_eq!(read(&line), event("ContentPart", json!({"b": 2})));
    // What other updates of a call say is in its result.
    let change = |status: &str, meta: Value| {
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": status, "_meta": meta}))
    };
    assert_eq!(read(&change("in_progress", json!({"a": 2, "x": {"y": 1}}))), []);
    let merged = json!({"a": 2, "x": {"y": 1, "z": 3}});
    assert_eq!(read(&change("completed", json!({"x": {"z": 3}}))), event("ToolResult", merged));
    // Without an event of its own the update is passed on.
    let again =
        json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress", "_meta": {"a": 1}});
    assert_eq!(read(&update(again)), event("compaction_update", json!({"a": 1})));

    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]);
    let tool_call = json!({"toolCallId": "u", "title": "U", "_meta": {"a": 1}});
    let ask = |method: &str, mut params: Value| {
        params["sessionId"] = json!("s");
        params["_meta"] = json!({"b": 2});
        json!({"jsonrpc": "2.0", "id": 9, "method": method, "params": params}).to_string()
    };
    let asked = read(&ask("session/request_permission", json!({"options": options, "toolCall": tool_call})));
    assert_eq!(asked.last(), Some(&("ApprovalRequest".to_owned(), json!({"b": 2, "a": 1}))));
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    let asked = read(&ask("elicitation/create", json!({"mode": "form", "message": "q", "requestedSchema": schema})));
    assert_eq!(asked, event("QuestionRequest", json!({"b": 2})));
}

#[test]
fn interleaved_argument_parts_repeat_their_call() {
    let mut player = prompted();
    let call = |id: &str| update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "Bash"}));
    let text = |id: &str, text: &str| {
        let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress", "content": content}),
        )
    };
    for line in [call("a"), call("b"), text("b", "{\"x"), text("a", "{\"y"), text("a", "{\"y\":1}")] {
        player.hear(&line);
    }
    assert_eq!(
        player.trace,
        [
            "StepBegin",
            "call a Bash \"\"",
            "call b Bash \"\"",
            "part \"{\\\"x\"",
            "call a Bash \"{\\\"y\" (made here)",
            "part \"\\\":1}\"",
        ]
    );
}

#[test]
fn foreign_or_unknown_messages_are_harmless() {
    let mut player = prompted();
    player.hear(&update(json!({"sessionUpdate": "novelty", "mood": "good"})));
    player.hear(&update(json!({"sessionUpdate": "agent_message_chunk", "content": 3})));
    player.hear(
        &update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}))
            .replace("\"s\"", "\"other\""),
    );
    player.hear("[]");
    player.hear(r#"{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}"#);
    assert_eq!(player.trace[..3], ["StepBegin", "unknown novelty", "unknown agent_message_chunk"]);
    assert_eq!(player.trace[3..], ["outside: unknown session/update", "unknown fs/read_text_file"]);
    let sent = player.sent();
    assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(5), &json!(-32601)));
}

#[test]
fn unsupported_calls_are_refused_by_name() {
    let mut acp = Acp::open("s");
    for call in [Call::Steer("x".into()), Call::Replay, Call::SetPlanMode(true)] {
        let error = acp.call("1", &call).unwrap_err();
        assert_eq!(error.to_string(), {
            let field = if call.name() == "set_plan_mode" { "plan_mode" } else { call.name() };
            let name = call.name();
            let having = match name {
                "steer" => "; it works with Claude Code, Codex, kimi-cli, and Kimi Code with the dialect \"kimi-web\"",
                "replay" => "; it works with kimi-cli, and Kimi Code with the dialect \"kimi-web\"",
                _ => "",
            };
            format!("the agent (ACP 1) does not support `{name}`; check `session.capabilities.{field}` before{having}")
        });
    }
    let image = crate::messages::Content::from(ContentPart::image_url("data:image/png;base64,AAAA"));
    let error = acp.call("1", &Call::Prompt(image)).unwrap_err();
    assert_eq!(error.to_string(), "the agent (ACP 1) does not support prompts with images");
}

/// Updates of a few tool calls, with text between them.
fn tellings() -> impl Strategy<Value = Vec<Value>> {
    let id = prop::sample::select(vec!["a", "b", "c"]);
    let status = prop::sample::select(vec!["pending", "in_progress", "completed", "failed", "whim"]);
    let text = prop::sample::select(vec!["", "{", "{\"k\":", "{\"k\":1}", "{\"k\": 1}", "output", "{\"other\":2}"]);
    let raw =
        prop::sample::select(vec![Value::Null, json!({}), json!({"k": 1}), json!({"k": 2}), json!("text"), json!([1])]);
    let tool =
        (id, status, text, raw.clone(), raw, any::<bool>()).prop_map(|(id, status, text, input, output, new)| {
            let kind = if new { "tool_call" } else { "tool_call_update" };
            json!({"sessionUpdate": kind, "toolCallId": id, "title": "T", "status": status, "rawInput": input,
            "rawOutput": output, "content": [{"type": "content", "content": {"type": "text", "text": text}}]})
        });
    let said = "[a-z\u{e9}\n]{0,4}"
        .prop_map(|text| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}));
    prop::collection::vec(prop_oneof![3 => tool, 1 => said], 0..40)
}

proptest! {
    #[test]
    fn updates_in_any_order_arrive_once(tellings in tellings()) {
        let mut acp = Acp::open("s");
        acp.call("prompt-1", &Call::Prompt("hi".into())).unwrap();
        let (mut said, mut read) = (String::new(), String::new());
        let mut arguments: HashMap<String, String> = HashMap::new();
        let (mut last, mut steps) = (None, 0);
        let mut ended = HashMap::new();
        for telling in &tellings {
            if telling["sessionUpdate"] == "agent_message_chunk" {
                said.push_str(telling["content"]["text"].as_str().unwrap());
            }
            let mut events = vec![acp.read_line(update(telling.clone()).as_bytes())];
            while !events.is_empty() {
                let event = match events.remove(0) {
                    Incoming::Batch(several) => {
                        events.splice(0..0, several);
                        continue;
                    }
                    Incoming::Event(event) => *event,
                    other => return Err(TestCaseError::fail(format!("{other:?}"))),
                };
                match event {
                    Event::StepBegin(_) => steps += 1,
                    Event::ContentPart(ContentPart::Text(part)) => read.push_str(&part.text),
                    Event::ToolCall(call) if call.extra.get("late").is_some() => {
                        prop_assert!(ended.contains_key(&call.id), "{:?}", call);
                        last = None;
                    }
                    Event::ToolCall(call) => {
                        // A new call may have an old id.
                        ended.remove(&call.id);
                        arguments.insert(call.id.clone(), call.function.arguments.unwrap_or_default());
                        last = Some(call.id);
                    }
                    Event::ToolCallPart(part) => {
                        let call = last.as_ref().expect("a part of some call");
                        arguments.get_mut(call).unwrap().push_str(&part.arguments_part.unwrap());
                    }
                    Event::ToolResult(result) => {
                        prop_assert!(arguments.contains_key(&result.tool_call_id));
                        let failed = telling["status"] == "failed";
                        prop_assert_eq!(result.return_value.is_error, failed);
                        prop_assert!(ended.insert(result.tool_call_id, ()).is_none(), "ended twice");
                    }
                    // What the result lacks.
                    Event::Unknown(late) => {
                        prop_assert!(late.kind.starts_with("tool_call") && late.error.is_none(), "{:?}", late);
                        prop_assert!(ended.contains_key(telling["toolCallId"].as_str().unwrap()), "{telling}");
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            let id = telling["toolCallId"].as_str().unwrap_or_default();
            if !ended.contains_key(id) && telling["rawInput"].is_object() {
                let known: Value = serde_json::from_str(&arguments[id]).unwrap_or_default();
                // An empty object may mean that the arguments are not known yet. Then a text may have them.
                let open = telling["rawInput"] == json!({}) && telling["status"] != "in_progress";
                prop_assert!(open || known == telling["rawInput"], "{known} {telling}");
            }
            let ends = matches!(telling["status"].as_str(), Some("completed" | "failed"));
            prop_assert!(!ends || ended.contains_key(id));
        }
        prop_assert_eq!(read, said);
        prop_assert!(steps <= 1);
    }
}

#[test]
fn compaction_update_gives_begin_and_end() {
    let mut player = prompted();
    let compaction = |status: &str| {
        update(json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": status, "summary": []}))
    };
    for status in ["in_progress", "in_progress", "completed", "completed", "odd"] {
        player.hear(&compaction(status));
    }
    let unknown = "unknown compaction_update";
    assert_eq!(player.trace, ["StepBegin", "CompactionBegin", "CompactionEnd", unknown, unknown]);
}

#[test]
fn prompts_carry_trace() {
    let trace = TraceContext { traceparent: Some("00-1-2-01".to_owned()), tracestate: Some("a=b".to_owned()) };
    let mut acp = Acp::new(params());
    acp.session = Some("s".into());
    let mut meta = |trace: Option<&TraceContext>| {
        acp.set_trace(trace);
        let prompt = acp.call("1", &Call::Prompt("hi".into())).expect("a prompt");
        serde_json::from_slice::<Value>(&prompt).expect("JSON")["params"]["_meta"].clone()
    };
    assert_eq!(meta(Some(&trace)), json!({"traceparent": "00-1-2-01", "tracestate": "a=b"}));
    assert_eq!(meta(Some(&TraceContext::default())), Value::Null);
    assert_eq!(meta(None), Value::Null);
}
