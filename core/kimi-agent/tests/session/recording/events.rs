//! The events of a recording: they are those that the program has read.

use super::*;

/// Plays two turns with everything that a script can do in every dialect, and returns the events of both.
async fn played(options: SessionOptions, file: &Path) -> Vec<(u64, Value)> {
    let session = options
        .work_dir(file.parent().unwrap())
        .record(file)
        .on_approval(|_| async { Ok(Approval::reject("no")) })
        .on_question(|_| async { Ok(Some(Answers::new().answer("Sure?", "yes"))) })
        .start()
        .await
        .unwrap();
    let mut events = Vec::new();
    for turn in 1..=2 {
        let mut running = session.prompt("go").unwrap();
        while let Some(event) = running.next().await {
            events.push((turn, serde_json::to_value(event.unwrap()).unwrap()));
        }
    }
    session.close().await.unwrap();
    events
}

#[tokio::test]
async fn recorded_events_are_those_of_the_session() {
    let approval =
        json!({"tool_call": {"name": "Shell", "arguments": {"command": "ls"}, "approve": true, "result": "a"}});
    let question = json!({"question": {"questions": [{"question": "Sure?", "options": [{"label": "yes"}]}]}});
    let tool = json!({"external_tool": {"name": "add", "arguments": {"a": 1}}});
    let second = json!([{"think": "So"}, {"text": ["Do", "ne"]}, {"usage": {"input_other": 3, "output": 2}}]);
    let turns = |first: Vec<&Value>| {
        let first: Vec<Value> = std::iter::once(json!({"text": "Look"})).chain(first.into_iter().cloned()).collect();
        json!([first, second])
    };
    let wire = turns(vec![&approval, &question, &tool]);
    for (name, script, dialect) in [
        ("wire", json!({"wire": "1.10", "turns": wire}), Dialect::Auto),
        ("wire-1.0", json!({"wire": "1.0", "turns": turns(vec![&approval])}), Dialect::Auto),
        ("acp", json!({"release": "2.1.0", "turns": turns(vec![&approval])}), Dialect::Auto),
        ("kimi-web", json!({"release": "2.1.0", "turns": turns(vec![&approval, &question])}), Dialect::KimiWeb),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.jsonl");
        let (mut options, _agent) = with(script);
        if name == "wire" {
            let parameters = json!({"type": "object"});
            options = options.tool(ExternalTool::new("add", "Adds", parameters, |_: Value| async { Ok("2") }));
        }
        let events = played(options.dialect(dialect), &file).await;
        let recorded = recorded(&file);
        for (at, (original, decoded)) in events.iter().zip(&recorded).enumerate() {
            assert_eq!(original, decoded, "{name}: event {at}");
        }
        assert_eq!((events.len(), events.is_empty()), (recorded.len(), false), "{name}: {recorded:?}");
    }
}

#[tokio::test]
async fn steers_are_among_recorded_events() {
    let turns = json!([[{"text": "On"}, {"wait_steer": true}, {"text": "Done"}], [{"text": "Bye"}]]);
    for (script, dialect) in [
        (json!({"wire": "1.10", "turns": turns}), Dialect::Auto),
        (json!({"release": "2.1.0", "turns": turns}), Dialect::KimiWeb),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.jsonl");
        let (options, _agent) = with(script);
        let session = options.dialect(dialect).record(&file).start().await.unwrap();
        let mut events = Vec::new();
        for number in 1..=2 {
            let mut turn = session.prompt("go").unwrap();
            while let Some(event) = turn.next().await {
                let event = event.unwrap();
                if event.text() == Some("On") {
                    turn.steer("faster").await.unwrap();
                }
                events.push((number, serde_json::to_value(event).unwrap()));
            }
        }
        session.close().await.unwrap();
        assert_eq!(recorded(&file), events, "{dialect}");
        assert_eq!(events.iter().filter(|(_, event)| event["type"] == "SteerInput").count(), 1, "{events:?}");
    }
}

#[tokio::test]
async fn cancels_are_among_recorded_events() {
    let turns = json!([[{"text": "On"}, {"wait_cancel": true}], [{"text": "Bye"}]]);
    for (script, dialect) in [
        (json!({"wire": "1.10", "turns": turns}), Dialect::Auto),
        (json!({"wire": "legacy", "half_duplex": false, "turns": turns}), Dialect::Legacy),
        (json!({"release": "2.1.0", "turns": turns}), Dialect::Acp),
        (json!({"release": "2.1.0", "turns": turns}), Dialect::KimiWeb),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.jsonl");
        let (options, _agent) = with(script);
        let session = options.dialect(dialect).yolo(true).record(&file).start().await.unwrap();
        let mut events = Vec::new();
        for number in 1..=2 {
            let mut turn = session.prompt("go").unwrap();
            while let Some(event) = turn.next().await {
                let event = event.unwrap();
                if event.text() == Some("On") {
                    turn.cancel().await.unwrap_or_else(|error| panic!("{dialect}: {error}"));
                }
                events.push((number, serde_json::to_value(event).unwrap()));
            }
        }
        session.close().await.unwrap();
        assert_eq!(recorded(&file), events, "{dialect}");
        assert!(events.iter().any(|(turn, _)| *turn == 2), "{events:?}");
    }
}

#[tokio::test]
async fn corrections_are_among_recorded_events() {
    let call = |value: Value| json!({"external_tool": {"name": "final_result", "arguments": {"n": value}}});
    let texts = json!([[{"text": "?"}], [{"text": "{\"n\": \"x\"}"}], [{"text": "{\"n\": 1}"}], [{"text": "Bye"}]]);
    let calls = json!([[call("x".into()), {"step": 2}, call(1.into()), {"text": "Done"}], [{"text": "Bye"}]]);
    let late = json!([[{"text": "?"}], [call("x".into()), call(2.into())], [{"text": "Bye"}]]);
    let checked = json!([[{"text": "{\"n\": 0}"}], [{"text": "{\"n\": 9}"}]]);
    for (name, script, dialect, mode) in [
        ("wire text", json!({"wire": "1.10", "turns": texts}), Dialect::Auto, OutputMode::Text),
        ("wire tool", json!({"wire": "1.10", "turns": calls}), Dialect::Auto, OutputMode::Tool),
        ("wire late", json!({"wire": "1.10", "turns": late}), Dialect::Auto, OutputMode::Tool),
        ("wire checked", json!({"wire": "1.10", "turns": checked}), Dialect::Auto, OutputMode::Text),
        ("acp text", json!({"release": "2.1.0", "turns": texts}), Dialect::Acp, OutputMode::Text),
        ("kimi-web text", json!({"release": "2.1.0", "turns": texts}), Dialect::KimiWeb, OutputMode::Text),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.jsonl");
        let (options, _agent) = with(script);
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let output = Output::new(schema).mode(mode).check(|value: Value| async move {
            if value["n"] == 0 { Err(vec![OutputError::new("/n", "zero")]) } else { Ok(()) }
        });
        let session = options.dialect(dialect).output(output).record(&file).start().await.unwrap();
        let mut events = Vec::new();
        let mut turn = session.prompt("go").unwrap();
        while let Some(event) = turn.next().await {
            events.push((1, serde_json::to_value(event.unwrap_or_else(|error| panic!("{name}: {error}"))).unwrap()));
        }
        session.close().await.unwrap();
        for (at, (original, decoded)) in events.iter().zip(&recorded(&file)).enumerate() {
            assert_eq!(original, decoded, "{name}: event {at}");
        }
        assert_eq!(recorded(&file).len(), events.len(), "{name}");
    }
}

#[tokio::test]
async fn policy_decisions_are_among_recorded_events() {
    let call = |command: &str| json!({"tool_call": {"name": "Shell", "arguments": {"command": command}, "approve": true, "result": "x"}});
    let turns = json!([[call("ls"), call("git push"), call("rm x"), call("make"), {"text": "Done"}]]);
    let policy =
        json!({"default": "ask", "deny": ["execute(rm *)"], "ask": ["execute(git push*)"], "allow": ["execute(ls)"]});
    for (script, dialect) in [
        (json!({"wire": "1.10", "turns": turns}), Dialect::Auto),
        (json!({"release": "2.1.0", "turns": turns}), Dialect::Acp),
        (json!({"release": "2.1.0", "turns": turns}), Dialect::KimiWeb),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.jsonl");
        let (options, _agent) = with(script);
        let options = options.dialect(dialect).policy(kimi_agent::Policy::from_value(&policy).unwrap());
        let options = options.on_approval(|_| async { Ok(Approval::Approve) });
        let session = options.record(&file).start().await.unwrap();
        let mut turn = session.prompt("go").unwrap();
        let mut events = Vec::new();
        while let Some(event) = turn.next().await {
            events.push((1, serde_json::to_value(event.unwrap()).unwrap()));
        }
        session.close().await.unwrap();
        assert_eq!(recorded(&file), events, "{dialect}");
        let (_, entries) = entries(&file);
        let shown = |entry: &&Value| (entry["decision"].clone(), entry["source"].clone());
        let decisions: Vec<_> = of_type(&entries, "policy").iter().map(shown).collect();
        let expected = [
            (json!("allow"), json!("allow[0]")),
            (json!("ask"), json!("ask[0]")),
            (json!("deny"), json!("deny[0]")),
            (json!("ask"), Value::Null),
        ];
        assert_eq!(decisions, expected, "{dialect}");
    }
}
