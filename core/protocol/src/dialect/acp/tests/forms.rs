//! Questions that come as forms, with lines of Kimi Code 2.1.0, and with forms of agents that are made up.

use super::*;

const FORM: &str = r#"{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{"sessionId":"s","toolCallId":"0:q1","mode":"form","message":"Which color?\nWhich fruits?\nYour name?","requestedSchema":{"type":"object","properties":{"q0":{"type":"string","title":"Color","oneOf":[{"const":"Red","title":"Red","description":"warm"},{"const":"Blue","title":"Blue","description":"cold"}]},"q1":{"type":"array","title":"Which fruits?","minItems":1,"items":{"anyOf":[{"const":"Apple","title":"Apple","description":"a"},{"const":"Pear","title":"Pear","description":"p"},{"const":"Plum, big","title":"Plum, big"}]}},"q2":{"type":"string","title":"Your name?","oneOf":[{"const":"Ann","title":"Ann","description":"x"},{"const":"Bob","title":"Bob","description":"y"}]}},"required":["q0","q1","q2"]}}}"#;

fn form(message: &str, properties: Value) -> String {
    let schema = json!({"type": "object", "properties": properties});
    let params = json!({"sessionId": "s", "mode": "form", "message": message, "requestedSchema": schema});
    json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": params}).to_string()
}

/// The questions that a request of the agent becomes, and the player that has it open.
fn asked(line: &str) -> (Vec<crate::messages::Question>, Player) {
    let mut player = prompted();
    player.hear(line);
    let Some((_, Event::QuestionRequest(request))) = player.asked.first() else { panic!("{:?}", player.trace) };
    (request.questions.clone(), player)
}

fn answered(player: &mut Player, answers: Option<Answers>) -> Value {
    let (key, _) = player.asked.remove(0);
    player.connection.answer(key, &Answer::Question(answers), player.now);
    player.look();
    player.sent()[0]["result"].clone()
}

#[test]
fn form_of_kimi_code_becomes_its_questions() {
    let (questions, mut player) = asked(FORM);
    assert_eq!(
        json!(questions),
        json!([
            {"question": "Which color?", "header": "Color", "multi_select": false,
                "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]},
            {"question": "Which fruits?", "multi_select": true, "options": [{"label": "Apple", "description": "a"},
                {"label": "Pear", "description": "p"}, {"label": "Plum, big"}]},
            {"question": "Your name?", "multi_select": false,
                "options": [{"label": "Ann", "description": "x"}, {"label": "Bob", "description": "y"}]},
        ])
    );
    let answers = Answers::new()
        .answer("Which color?", "Blue")
        .answer_all("Which fruits?", ["Plum, big", "Apple"])
        .answer("Your name?", "Ann");
    let content = json!({"q0": "Blue", "q1": ["Apple", "Plum, big"], "q2": "Ann"});
    assert_eq!(answered(&mut player, Some(answers)), json!({"action": "accept", "content": content}));
}

#[test]
fn partly_answered_form_sends_given_answers() {
    let (_, mut player) = asked(FORM);
    let answer = answered(&mut player, Some(Answers::new().answer("Your name?", "Bob")));
    assert_eq!(answer, json!({"action": "accept", "content": {"q2": "Bob"}}));
}

#[test]
fn form_without_answers_is_cancelled() {
    for answers in [None, Some(Answers::new())] {
        let (_, mut player) = asked(FORM);
        assert_eq!(answered(&mut player, answers), json!({"action": "cancel"}));
    }
}

#[test]
fn answer_not_offered_by_form_fails_handler() {
    for (question, answer) in [("Which color?", "Green"), ("Which fruits?", "Apple, Kiwi"), ("Which car?", "Red")] {
        let (_, mut player) = asked(FORM);
        let answers = Answers::new().answer(question, answer);
        assert_eq!(answered(&mut player, Some(answers)), json!({"action": "cancel"}));
        assert_eq!(player.trace.last().map(String::as_str), Some("HandlerFailed"), "{answer}");
    }
}

#[test]
fn cancel_with_open_form_cancels_form() {
    let (_, mut player) = asked(FORM);
    player.connection.cancel(1, player.now);
    player.look();
    let sent = player.sent();
    assert_eq!((&sent[0]["method"], &sent[1]["result"]), (&json!("session/cancel"), &json!({"action": "cancel"})));
    assert!(player.asked.is_empty());
}

#[test]
fn multiline_question_comes_from_tool_arguments() {
    let mut player = prompted();
    let questions = json!([{"question": "One\nline?", "options": []}, {"question": "Two?", "options": []}]);
    player.hear(&update(json!({"sessionUpdate": "tool_call", "toolCallId": "0:q1", "title": "AskUserQuestion",
        "status": "in_progress", "rawInput": {"questions": questions}})));
    let line = FORM.replace("Which color?\\nWhich fruits?\\nYour name?", "One\\nline?\\nTwo?");
    let mut line: Value = serde_json::from_str(&line).expect("JSON");
    line["params"]["requestedSchema"]["properties"].as_object_mut().expect("an object").shift_remove("q2");
    player.hear(&line.to_string());
    let Some((_, Event::QuestionRequest(request))) = player.asked.first() else { panic!("{:?}", player.trace) };
    let texts: Vec<_> = request.questions.iter().map(|question| &*question.question).collect();
    assert_eq!(texts, ["One\nline?", "Two?"]);
}

#[test]
fn form_answers_convert_to_property_types() {
    let properties = json!({
        "name": {"type": "string", "title": "Name", "description": "As on the passport"},
        "age": {"type": "integer", "title": "Age"}, "height": {"type": "number"},
        "member": {"type": "boolean", "title": "Member"}, "size": {"type": "string", "enum": ["S", "M"]},
        "z10": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
    });
    let (questions, mut player) = asked(&form("Please fill this in", properties));
    let texts: Vec<_> = questions.iter().map(|question| &*question.question).collect();
    assert_eq!(texts, ["Name", "Age", "height", "Member", "size", "z10"]);
    assert_eq!(questions[0].body.as_deref(), Some("Please fill this in\n\nAs on the passport"));
    assert_eq!(questions[1].body, None);
    let answers = [("Name", "Ada"), ("Age", "36"), ("height", "1.7"), ("Member", "No"), ("size", "M"), ("z10", "y,x")];
    let answers = answers.iter().fold(Answers::new(), |all, (question, answer)| all.answer(*question, *answer));
    let content = json!({"name": "Ada", "age": 36, "height": 1.7, "member": false, "size": "M", "z10": ["x", "y"]});
    assert_eq!(answered(&mut player, Some(answers)), json!({"action": "accept", "content": content}));
    // A text that is not a number is left out.
    let (_, mut player) = asked(&form("Age?", json!({"age": {"type": "integer"}})));
    let answers = Answers::new().answer("Age?", "old");
    assert_eq!(answered(&mut player, Some(answers)), json!({"action": "cancel"}));
}

#[test]
fn repeated_questions_and_labels_get_unique_names() {
    let choice = |value: &str| json!({"const": value, "title": "Same"});
    let property = json!({"type": "string", "oneOf": [choice("a"), choice("b")]});
    let (questions, mut player) = asked(&form("Which?\nWhich?", json!({"q0": property, "q1": property})));
    let texts: Vec<_> = questions.iter().map(|question| &*question.question).collect();
    assert_eq!(texts, ["Which?", "Which? (2)"]);
    let answer = answered(&mut player, Some(Answers::new().answer("Which? (2)", "b")));
    assert_eq!(answer, json!({"action": "accept", "content": {"q1": "b"}}));
}

#[test]
fn unsupported_form_is_refused() {
    let object = json!({"address": {"type": "object", "properties": {}}});
    let lines = [
        form("?", object),
        form("?", json!({"q": {"type": "array", "items": {}}})),
        FORM.replace("\"form\"", "\"voice\""),
        FORM.replace("\"sessionId\":\"s\",", ""),
        FORM.replace("requestedSchema", "schema"),
    ];
    for line in lines {
        let mut player = prompted();
        player.hear(&line);
        assert!(player.asked.is_empty(), "{line}");
        assert_eq!(player.sent()[0]["error"]["code"], -32602, "{line}");
    }
}

#[test]
fn form_without_properties_is_confirmation() {
    let yes_and_no =
        [json!({"action": "accept", "content": {}}), json!({"action": "decline"}), json!({"action": "cancel"})];
    for (answer, sent) in ["Yes", "No", "Maybe"].into_iter().zip(yes_and_no) {
        let (questions, mut player) = asked(&form("Delete it?", json!({})));
        let labels: Vec<_> = questions[0].options.iter().map(|option| &*option.label).collect();
        assert_eq!((questions.len(), &*questions[0].question, labels), (1, "Delete it?", vec!["Yes", "No"]));
        assert_eq!(answered(&mut player, Some(Answers::new().answer("Delete it?", answer))), sent);
    }
    let (questions, mut player) = asked(&form("", json!({})));
    assert_eq!((&*questions[0].question, answered(&mut player, None)), ("Continue?", json!({"action": "cancel"})));
}

#[test]
fn form_by_url_is_declined_and_shown() {
    let mut player = prompted();
    player.hear(
        r#"{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"sessionId":"s","mode":"url","elicitationId":"e","url":"https://example.com/login","message":"Log in"}}"#,
    );
    assert_eq!(player.sent()[0]["result"], json!({"action": "decline"}));
    player.hear(r#"{"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e"}}"#);
    assert_eq!(player.trace, ["unknown elicitation/create", "outside: unknown elicitation/complete"]);
    assert!(player.sent().is_empty());
}

#[test]
fn request_cancelled_by_agent_is_withdrawn() {
    let (_, mut player) = asked(FORM);
    player.hear(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":9}}"#);
    assert_eq!((player.asked.len(), player.sent().len()), (1, 0));
    player.hear(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}"#);
    assert!(player.asked.is_empty());
    assert_eq!(player.sent()[0]["error"]["code"], -32800);
    player.hear(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}"#);
    assert!(player.sent().is_empty());
}

/// The reason for which the agent gets no answers to a form.
fn refused(line: &str) -> String {
    let mut player = prompted();
    player.hear(line);
    assert!(player.asked.is_empty());
    player.sent()[0]["error"]["message"].as_str().expect("a refusal").to_owned()
}

#[test]
fn form_with_too_many_fields_is_refused() {
    let fields = |count: usize| -> Value {
        (0..count).map(|field| (format!("field {field}"), json!({"type": "string"}))).collect()
    };
    assert_eq!(asked(&form("m", fields(1000))).0.len(), 1000);
    let reason = refused(&form("m", fields(1001)));
    assert!(reason.ends_with("requestedSchema: 1001 properties; a form can have at most 1000"), "{reason}");
}

#[test]
fn form_with_too_many_choices_is_refused() {
    let listed = |count: usize| -> Vec<String> { (0..count).map(|choice| format!("choice {choice}")).collect() };
    let fields = |count: usize| json!({"a": {"type": "string", "enum": listed(5000)}, "b": {"type": "array", "items": {"enum": listed(count)}}});
    let (questions, mut player) = asked(&form("m", fields(5000)));
    assert_eq!(questions.iter().map(|question| question.options.len()).collect::<Vec<_>>(), [5000, 5000]);
    let answers = Answers::new().answer("a", "choice 4999").answer_all("b", ["choice 7", "choice 4998"]);
    let content = json!({"a": "choice 4999", "b": ["choice 7", "choice 4998"]});
    assert_eq!(answered(&mut player, Some(answers)), json!({"action": "accept", "content": content}));
    let reason = refused(&form("m", fields(5001)));
    assert!(reason.ends_with("requestedSchema: 10001 choices; a form can have at most 10000"), "{reason}");
}

#[test]
fn answer_that_needs_too_many_comparisons_names_no_choice() {
    let label = ",".repeat(10_000);
    let labels = [&*label, "b", "c"];
    assert_eq!(crate::answers::labels_in("c,b", &labels), Some(vec![2, 1]));
    assert_eq!(crate::answers::labels_in(&label, &labels), Some(vec![0]));
    assert_eq!(crate::answers::labels_in(&format!("{label},b"), &labels), None);
}
