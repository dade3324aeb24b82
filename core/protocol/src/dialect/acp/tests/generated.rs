//! Messages that are generated from the schema of ACP: every optional member may be absent, null, of another type or of an
//! unknown value, in any order, next to unknown members. New releases of the schema extend the generator.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;

use agent_client_protocol_schema::v1 as acp;
use schemars::{JsonSchema, schema_for};
use serde_json::Map;

use super::*;
use crate::generated::{Random, TEXT, line, seeds};

/// A generator of values that fit a schema in all that is required.
struct Generator {
    random: Random,
    schemas: HashMap<TypeId, Arc<Value>>,
    definitions: Arc<Value>,
}

impl Generator {
    fn new() -> Self {
        Self { random: Random::new(0), schemas: HashMap::new(), definitions: Arc::default() }
    }

    fn seed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    fn message<T: JsonSchema + 'static>(&mut self) -> Value {
        let make = || Arc::new(serde_json::to_value(schema_for!(T)).expect("JSON"));
        let schema = Arc::clone(self.schemas.entry(TypeId::of::<T>()).or_insert_with(make));
        self.definitions = Arc::clone(&schema);
        self.value(&schema, 0)
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        let Value::Object(members) = schema else { return self.random.strange() };
        if let Some(name) = members.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
            let root = Arc::clone(&self.definitions);
            let referred = if depth > 12 { Value::Null } else { self.value(&root["$defs"][name], depth + 1) };
            // Members beside the reference, such as the kind of an update.
            return match (referred, self.object(members, depth)) {
                (Value::Object(mut referred), Some(beside)) => {
                    referred.extend(beside);
                    Value::Object(self.random.shuffled(referred))
                }
                (referred, _) => referred,
            };
        }
        if let Some(value) = members.get("const") {
            return value.clone();
        }
        if let Some(values) = members.get("enum").and_then(Value::as_array) {
            return self.random.pick(values);
        }
        let mut made = self.object(members, depth);
        for name in ["allOf", "oneOf", "anyOf"] {
            let Some(list) = members.get(name).and_then(Value::as_array) else { continue };
            let one = self.random.below(list.len());
            let chosen = if name == "allOf" { &list[..] } else { &list[one..=one] };
            for each in chosen {
                match (&mut made, self.value(each, depth + 1)) {
                    (Some(made), Value::Object(more)) => made.extend(more),
                    (made @ None, Value::Object(more)) => *made = Some(more),
                    (_, other) => return other,
                }
            }
        }
        if let Some(made) = made {
            return Value::Object(self.random.shuffled(made));
        }
        match members.get("type").and_then(|kind| kind.as_str().or(kind[0].as_str())) {
            Some("string") => self.random.text().into(),
            Some("integer" | "number") => self.random.below(1000).into(),
            Some("boolean") => (self.random.below(2) == 0).into(),
            Some("array") => (0..self.random.below(3)).map(|_| self.value(&members["items"], depth + 1)).collect(),
            Some("object") => json!({}),
            Some("null") => Value::Null,
            _ => self.random.strange(),
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Map<String, Value>> {
        let properties = schema.get("properties")?.as_object()?;
        let required = schema.get("required").and_then(Value::as_array);
        let mut made = Map::new();
        for (name, property) in properties {
            let is_required = required.is_some_and(|required| required.iter().any(|other| other == name));
            let value = match self.random.below(if is_required { 1 } else { 5 }) {
                0 | 1 => self.value(property, depth + 1),
                2 => continue,
                _ => self.random.strange(),
            };
            made.insert(name.clone(), value);
        }
        if self.random.below(3) == 0 {
            made.insert("x-novelty".to_owned(), self.random.strange());
        }
        Some(made)
    }
}

fn update(update: &Value) -> String {
    line(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}))
}

#[test]
fn no_optional_member_fails_a_session() {
    let mut generator = Generator::new();
    for seed in seeds() {
        generator.seed(seed);
        let mut greeting = generator.message::<acp::InitializeResponse>();
        greeting["protocolVersion"] = json!(1);
        let mut session = generator.message::<acp::NewSessionResponse>();
        session["sessionId"] = json!("s");
        let mut player = Player::new(params());
        player.hear(&line(&json!({"jsonrpc": "2.0", "id": 0, "result": greeting})));
        player.hear(&line(&json!({"jsonrpc": "2.0", "id": 1, "result": session})));
        let opened = player.trace.iter().any(|told| told == "opened s");
        assert!(opened, "{seed}: {:?}\n{greeting}\n{session}", player.trace);
    }
}

#[test]
fn no_text_of_an_update_is_lost() {
    let mut generator = Generator::new();
    for seed in seeds() {
        generator.seed(seed);
        let mut player = prompted();
        for _ in 0..4 {
            let other = generator.message::<acp::SessionUpdate>();
            player.hear(&update(&other));
        }
        let kind = generator.random.pick(&["agent_message_chunk", "agent_thought_chunk"]);
        let mut chunk = generator.message::<acp::ContentChunk>();
        let mut content = generator.message::<acp::TextContent>();
        content["type"] = json!("text");
        content["text"] = json!(TEXT);
        chunk["sessionUpdate"] = json!(kind);
        chunk["content"] = content;
        player.hear(&update(&chunk));
        let word = if kind == "agent_message_chunk" { "text" } else { "think" };
        let expected = format!("{word} {TEXT:?}");
        let is_told = player.trace.iter().any(|told| told.ends_with(&expected));
        assert!(is_told, "{seed}: {:?}\n{chunk}", player.trace.last());
        let mut ended = generator.message::<acp::PromptResponse>();
        ended["stopReason"] = generator.random.pick(&[json!("end_turn"), json!("novelty")]);
        player.hear(&line(&json!({"jsonrpc": "2.0", "id": 2, "result": ended})));
        let last = player.trace.iter().rfind(|told| told.starts_with("turn ")).cloned().unwrap_or_default();
        assert!(last.starts_with("turn finished"), "{seed}: {last}\n{ended}");
    }
}

#[test]
fn cost_of_an_update_is_an_amount_of_a_currency() {
    let mut generator = Generator::new();
    for seed in seeds() {
        generator.seed(seed);
        let mut player = prompted();
        let mut told = generator.message::<acp::UsageUpdate>();
        told["sessionUpdate"] = json!("usage_update");
        let mut cost = generator.message::<acp::Cost>();
        let amounts = [json!(0), json!(0.25), json!(-0.25), json!(1e308), json!("1"), Value::Null];
        cost["amount"] = generator.random.pick(&amounts);
        let strange = generator.random.strange();
        told["cost"] = generator.random.pick(&[cost, strange]);
        player.hear(&update(&told));
        for status in player.trace.iter().filter_map(|line| line.strip_prefix("outside: status ")) {
            // A number out of the range of `Value` is no cost.
            let Ok(status) = serde_json::from_str::<Value>(status) else { continue };
            let cost = &status["cost"];
            let is_read = cost.get("source").is_some_and(|source| source == "reported");
            let is_right =
                cost["amount"].as_f64().is_some_and(|amount| (0.0..=1e15).contains(&amount)) && cost["currency"] != "";
            assert!(is_right || !is_read, "{seed}: {status}\n{told}");
        }
        player.hear(&line(&json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}})));
        assert!(player.trace.iter().any(|told| told.starts_with("turn finished")), "{seed}: {told}");
    }
}

#[test]
fn every_request_is_asked_or_answered() {
    let mut generator = Generator::new();
    for seed in seeds() {
        generator.seed(seed);
        let mut player = prompted();
        let mut asked = generator.message::<acp::RequestPermissionRequest>();
        asked["sessionId"] = json!("s");
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": asked});
        player.hear(&line(&request));
        let answers = player.sent().len();
        assert_eq!(answers + player.asked.len(), 1, "{seed}: {asked}");
    }
}

#[test]
fn no_text_of_a_tool_result_is_lost() {
    let mut generator = Generator::new();
    for seed in seeds() {
        generator.seed(seed);
        let mut player = prompted();
        let mut call = generator.message::<acp::ToolCall>();
        (call["sessionUpdate"], call["toolCallId"]) = (json!("tool_call"), json!("t"));
        call["status"] = generator.random.pick(&[json!(null), json!("pending"), json!("in_progress")]);
        player.hear(&update(&call));
        let mut ended = generator.message::<acp::ToolCallUpdate>();
        (ended["sessionUpdate"], ended["toolCallId"]) = (json!("tool_call_update"), json!("t"));
        ended["status"] = generator.random.pick(&[json!("completed"), json!("failed")]);
        let mut content = generator.message::<acp::TextContent>();
        (content["type"], content["text"]) = (json!("text"), json!(TEXT));
        ended["content"] = json!([{"type": "content", "content": content}]);
        player.hear(&update(&ended));
        let is_told = player.trace.iter().any(|told| told.starts_with("result t") && told.contains(TEXT));
        assert!(is_told, "{seed}: {:?}\n{call}\n{ended}", player.trace);
    }
}

#[test]
fn approvals_are_about_the_newest_arguments() {
    let mut generator = Generator::new();
    for seed in seeds() {
        generator.seed(seed);
        let mut player = prompted();
        let updates = 1 + generator.random.below(3);
        let mut told = Vec::new();
        for number in 0..updates {
            let mut call = if number == 0 {
                generator.message::<acp::ToolCall>()
            } else {
                generator.message::<acp::ToolCallUpdate>()
            };
            call["sessionUpdate"] = if number == 0 { "tool_call".into() } else { "tool_call_update".into() };
            call["toolCallId"] = "t".into();
            call["rawInput"] = json!({"command": format!("command {number}")});
            // A call that has ended has no more updates: a request about it would be about a new call.
            call["status"] =
                generator.random.pick(&[json!(null), json!("pending"), json!("in_progress"), json!("novelty")]);
            told.push(update(&call));
        }
        let mut asked = generator.message::<acp::RequestPermissionRequest>();
        asked["sessionId"] = "s".into();
        asked["toolCall"]["toolCallId"] = "t".into();
        let is_newer = generator.random.one_in(2);
        let newest = format!("command {}", if is_newer { updates } else { updates - 1 });
        asked["toolCall"]["rawInput"] = if is_newer { json!({"command": newest}) } else { Value::Null };
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": asked});
        told.push(line(&request));
        told.iter().for_each(|line| player.hear(line));
        for (_, request) in &player.asked {
            let Event::ApprovalRequest(request) = request else { continue };
            let arguments = request.tool_call.get().and_then(|call| call.arguments.as_ref());
            let command = arguments.and_then(|arguments| arguments.get("command")).and_then(Value::as_str);
            assert_eq!(command, Some(&*newest), "{seed}: {}", told.join("\n"));
        }
    }
}
