//! Messages that are generated from the schema of ACP: every optional member may be absent, null, of another type or of an
//! unknown value, in any order, next to unknown members. New releases of the schema extend the generator.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;

use agent_client_protocol_schema::v1 as acp;
use schemars::{JsonSchema, schema_for};
use serde_json::Map;

use super::*;

/// The number of generated messages of each kind. `KIMI_GENERATED` overrides it, for longer runs.
const CASES: u64 = 300;
/// The text that must reach the program. It is written as the halves of a character, among others.
const TEXT: &str = "Deployed 🚀";
/// Stands for half of a surrogate pair until the message is a line.
const HALF: char = '\u{f8ff}';

fn cases() -> u64 {
    std::env::var("KIMI_GENERATED").ok().and_then(|count| count.parse().ok()).unwrap_or(CASES)
}

/// A generator of values that fit a schema in all that is required.
struct Generator {
    random: u64,
    schemas: HashMap<TypeId, Arc<Value>>,
    definitions: Arc<Value>,
    deep: Value,
}

impl Generator {
    fn new() -> Self {
        let deep = (0..150).fold(json!(1), |inner, _| json!([inner]));
        Self { random: 1, schemas: HashMap::new(), definitions: Arc::default(), deep }
    }

    fn seed(&mut self, seed: u64) {
        self.random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap_or_default() % limit.max(1)
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    fn message<T: JsonSchema + 'static>(&mut self) -> Value {
        let make = || Arc::new(serde_json::to_value(schema_for!(T)).expect("JSON"));
        let schema = Arc::clone(self.schemas.entry(TypeId::of::<T>()).or_insert_with(make));
        self.definitions = Arc::clone(&schema);
        self.value(&schema, 0)
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        let Value::Object(members) = schema else { return self.strange() };
        if let Some(name) = members.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
            let root = Arc::clone(&self.definitions);
            return if depth > 12 { Value::Null } else { self.value(&root["$defs"][name], depth + 1) };
        }
        if let Some(value) = members.get("const") {
            return value.clone();
        }
        if let Some(values) = members.get("enum").and_then(Value::as_array) {
            return self.pick(values);
        }
        let mut made = self.object(members, depth);
        for name in ["allOf", "oneOf", "anyOf"] {
            let Some(list) = members.get(name).and_then(Value::as_array) else { continue };
            let one = self.below(list.len());
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
            return Value::Object(self.shuffled(made));
        }
        match members.get("type").and_then(|kind| kind.as_str().or(kind[0].as_str())) {
            Some("string") => self.text().into(),
            Some("integer" | "number") => self.below(1000).into(),
            Some("boolean") => (self.below(2) == 0).into(),
            Some("array") => (0..self.below(3)).map(|_| self.value(&members["items"], depth + 1)).collect(),
            Some("object") => json!({}),
            Some("null") => Value::Null,
            _ => self.strange(),
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Map<String, Value>> {
        let properties = schema.get("properties")?.as_object()?;
        let required = schema.get("required").and_then(Value::as_array);
        let mut made = Map::new();
        for (name, property) in properties {
            let is_required = required.is_some_and(|required| required.iter().any(|other| other == name));
            let value = match self.below(if is_required { 1 } else { 5 }) {
                0 | 1 => self.value(property, depth + 1),
                2 => continue,
                _ => self.strange(),
            };
            made.insert(name.clone(), value);
        }
        if self.below(3) == 0 {
            made.insert("x-novelty".to_owned(), self.strange());
        }
        Some(made)
    }

    fn shuffled(&mut self, members: Map<String, Value>) -> Map<String, Value> {
        let mut members: Vec<_> = members.into_iter().collect();
        let mut shuffled = Map::new();
        while !members.is_empty() {
            let (name, value) = members.swap_remove(self.below(members.len()));
            shuffled.insert(name, value);
        }
        shuffled
    }

    fn text(&mut self) -> String {
        self.pick(&["a", "", "/a/b", "novelty", "\u{1}\t", "\u{2028}", "ü🚀", "{\"a\":1}"]).to_owned()
    }

    /// A value that most likely has the wrong type.
    fn strange(&mut self) -> Value {
        if self.below(12) == 0 {
            return self.deep.clone();
        }
        self.pick(&[
            json!(null),
            json!(5),
            json!(-1.5),
            json!(true),
            json!("novelty"),
            json!(HALF.to_string()),
            json!([]),
            json!([{}]),
            json!({}),
            json!({"type": "novelty"}),
        ])
    }
}

/// Writes a message as an agent may.
fn line(message: &Value) -> String {
    message.to_string().replace(HALF, "\\ud83d").replace("-1.5", "1e999").replace('🚀', "\\ud83d\\ude80")
}

fn update(update: &Value) -> String {
    line(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}))
}

#[test]
fn no_optional_member_fails_a_session() {
    let mut generator = Generator::new();
    for seed in 0..cases() {
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
    for seed in 0..cases() {
        generator.seed(seed);
        let mut player = prompted();
        for _ in 0..4 {
            let other = generator.message::<acp::SessionUpdate>();
            player.hear(&update(&other));
        }
        let kind = generator.pick(&["agent_message_chunk", "agent_thought_chunk"]);
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
        ended["stopReason"] = generator.pick(&[json!("end_turn"), json!("novelty")]);
        player.hear(&line(&json!({"jsonrpc": "2.0", "id": 2, "result": ended})));
        let last = player.trace.iter().rfind(|told| told.starts_with("turn ")).cloned().unwrap_or_default();
        assert!(last.starts_with("turn finished"), "{seed}: {last}\n{ended}");
    }
}

#[test]
fn every_request_is_asked_or_answered() {
    let mut generator = Generator::new();
    for seed in 0..cases() {
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
