//! Messages of Wire that are generated from the catalogue: every optional member may be absent, null, of another type or
//! of an unknown value, in any order, next to unknown members. New messages of the catalogue extend the generator.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Map;

use super::*;
use crate::answers::Approval;
use crate::dialect::Answer;
use crate::generated::{Random, TEXT, line, seeds};
use crate::json::held_value;
use crate::messages::catalog::{FieldType, MessageType, catalog};
use crate::messages::{ContentPart, DisplayBlock, TypeRef};

/// Nested events and other messages are generated up to this depth.
const DEEPEST: usize = 6;

static MESSAGES: LazyLock<HashMap<&str, MessageType>> =
    LazyLock::new(|| catalog().messages.into_iter().map(|message| (message.name, message)).collect());

/// A generator of messages that have all that is required.
struct Generator {
    random: Random,
    /// The number of the last text.
    texts: usize,
}

impl Generator {
    fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), texts: 0 }
    }

    /// A text that no other member has, in a message that must not lose it.
    fn text(&mut self) -> Value {
        self.texts += 1;
        format!("<{}>{}", self.texts, self.random.text()).into()
    }

    fn message(&mut self, name: &str, depth: usize) -> Value {
        let message = MESSAGES.get(name).unwrap_or_else(|| panic!("the catalogue lacks {name}"));
        let mut made = Map::new();
        if let Some(tag) = message.tag {
            made.insert("type".to_owned(), tag.into());
        }
        for field in &message.fields {
            if let Some(value) = self.field(field, depth) {
                made.insert(field.name.to_owned(), value);
            }
        }
        if self.random.one_in(3) {
            let value = if self.random.one_in(2) { self.text() } else { self.random.strange() };
            made.insert("x-novelty".to_owned(), value);
        }
        Value::Object(self.random.shuffled(made))
    }

    fn field(&mut self, field: &FieldType, depth: usize) -> Option<Value> {
        if field.required {
            return Some(self.value(&field.ty, depth));
        }
        match self.random.below(5) {
            0 | 1 => Some(self.value(&field.ty, depth)),
            2 => None,
            _ => Some(self.random.strange()),
        }
    }

    fn value(&mut self, ty: &TypeRef, depth: usize) -> Value {
        match ty {
            TypeRef::Int => self.random.below(1000).into(),
            TypeRef::Float => self.random.pick(&[json!(0.5), json!(3), json!(1e300)]),
            TypeRef::Bool => self.random.one_in(2).into(),
            TypeRef::Json => self.random.strange(),
            TypeRef::Object => json!({"member": self.random.strange(), "text": self.text()}),
            TypeRef::Optional(inner) => self.value(inner, depth),
            TypeRef::List(inner) => (0..self.random.below(3)).map(|_| self.value(inner, depth + 1)).collect(),
            TypeRef::Words(words) if !self.random.one_in(3) => self.random.pick(words).into(),
            TypeRef::Ref("Content") if self.random.one_in(2) || depth > DEEPEST => self.text(),
            TypeRef::Ref("Content") => {
                (0..self.random.below(3)).map(|_| self.value(&TypeRef::Ref("ContentPart"), depth + 1)).collect()
            }
            TypeRef::Ref("ContentPart") => self.member_of(ContentPart::MEMBERS, depth),
            TypeRef::Ref("DisplayBlock") => self.member_of(DisplayBlock::MEMBERS, depth),
            TypeRef::Ref("Event") if depth > DEEPEST => json!({"type": "Novelty", "payload": {"text": self.text()}}),
            TypeRef::Ref("Event") => {
                let kind = self.random.pick(Event::EVENT_TYPES);
                json!({"type": kind, "payload": self.payload(kind, depth + 1)})
            }
            TypeRef::Ref(name) => self.message(name, depth + 1),
            // Text, and unknown words.
            _ => self.text(),
        }
    }

    /// A member of a union, or an object of an unknown type.
    fn member_of(&mut self, members: &[&str], depth: usize) -> Value {
        if self.random.one_in(6) {
            return json!({"type": "novelty", "text": self.text()});
        }
        let member = self.random.pick(members);
        self.message(member, depth)
    }

    /// The payload of an event.
    fn payload(&mut self, kind: &str, depth: usize) -> Value {
        match kind {
            "ContentPart" => self.member_of(ContentPart::MEMBERS, depth),
            _ => self.message(kind, depth),
        }
    }
}

/// The texts of the generator in a value, without what a line writes differently.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.extend(text.starts_with('<').then(|| text.clone())),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(members) => members.values().for_each(|member| texts(member, found)),
        _ => {}
    }
}

/// All strings of a value, also of one that is JSON in a text.
fn strings(value: &Value, all: &mut String) {
    match value {
        Value::String(text) => all.push_str(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, all)),
        Value::Object(members) => members.values().for_each(|member| strings(member, all)),
        _ => {}
    }
    all.push('\n');
}

fn handled() -> Peer {
    let policy = AnswerSources {
        approval: AnswerSource::Handler,
        question: AnswerSource::Handler,
        observed: true,
        ..AnswerSources::default()
    };
    Peer::open_with(timing(), policy)
}

#[test]
fn no_optional_member_fails_a_session() {
    for seed in seeds() {
        let mut generator = Generator::new(seed);
        let mut welcome = generator.message("InitializeResult", 0);
        welcome["protocol_version"] = "1.10".into();
        match generator.random.below(4) {
            0 => drop(welcome.as_object_mut().map(|members| members.remove("server"))),
            1 => welcome["server"] = generator.random.strange(),
            _ => {}
        }
        let mut peer = Peer::new(timing(), AnswerSources::default());
        peer.connection.open(InitializeParams::default(), peer.now);
        let id = peer.id_of("initialize");
        peer.text(&line(&json!({"jsonrpc": "2.0", "id": id, "result": welcome})));
        assert_eq!(peer.trace(), ["opened 1.10"], "{seed}: {welcome}");
        peer.prompt(1);
        peer.finish();
        assert_eq!(peer.trace().last().expect("an end"), "turn 1 finished", "{seed}: {welcome}");
    }
}

#[test]
fn no_text_of_an_event_is_lost() {
    for seed in seeds() {
        let mut generator = Generator::new(seed);
        let mut peer = handled();
        peer.prompt(1);
        let (mut sent, mut lines) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let kind = generator.random.pick(Event::EVENT_TYPES);
            let payload = generator.payload(kind, 0);
            texts(&payload, &mut sent);
            lines.push(line(&event(kind, &payload)));
            peer.text(&lines[lines.len() - 1]);
        }
        let mut part = generator.message("TextPart", 0);
        part["text"] = TEXT.into();
        lines.push(line(&event("ContentPart", &part)));
        peer.text(&lines[5]);
        let mut answer = json!({"status": generator.random.pick(&["finished", "novelty"])});
        for name in ["stop_reason", "steps", "x-novelty"] {
            if generator.random.one_in(2) {
                answer[name] = generator.random.strange();
            }
        }
        let id = peer.id_of("prompt");
        lines.push(line(&json!({"jsonrpc": "2.0", "id": id, "result": answer})));
        peer.text(&lines[6]);
        let (mut told, mut ended) = (String::new(), Vec::new());
        while let Some(output) = peer.next_output() {
            match output {
                Output::Event { event, .. } => {
                    strings(&held_value(&*event), &mut told);
                }
                Output::Texts { texts, .. } => told.extend(texts.texts()),
                Output::TurnEnded { outcome, .. } => ended.push(outcome),
                _ => {}
            }
        }
        for text in sent {
            assert!(told.contains(&text), "{seed}: {text:?} is lost\n{}", lines.join("\n"));
        }
        let [Ok(result)] = &*ended else { panic!("{seed}: {ended:?}\n{}", lines.join("\n")) };
        assert!(result.text.ends_with(TEXT), "{seed}: {:?}\n{}", result.text, lines.join("\n"));
        assert_eq!(result.status.as_str(), "finished", "{seed}");
    }
}

#[test]
fn every_request_is_asked_or_answered() {
    for seed in seeds() {
        let mut generator = Generator::new(seed);
        let mut peer = handled();
        peer.prompt(1);
        peer.said();
        let kind = generator.random.pick(Event::REQUEST_TYPES);
        let mut payload = generator.message(kind, 0);
        payload["id"] = "r".into();
        let mut sent = Vec::new();
        texts(&payload, &mut sent);
        let params = json!({"type": kind, "payload": payload});
        let request = line(&json!({"jsonrpc": "2.0", "id": "r", "method": "request", "params": params}));
        peer.text(&request);
        let mut asked = Vec::new();
        while let Some(output) = peer.next_output() {
            if let Output::Ask { key, request, .. } = output {
                asked.push((key, request));
            }
        }
        let answers = peer.said().len();
        assert_eq!(answers + asked.len(), 1, "{seed}: {request}");
        for (key, event) in asked {
            // A decision is about all that the agent sent.
            let mut told = String::new();
            strings(&held_value(&*event), &mut told);
            let lost: Vec<_> = sent.iter().filter(|text| !told.contains(*text)).collect();
            assert!(lost.is_empty(), "{seed}: {lost:?} is lost\n{request}");
            if matches!(*event, Event::ApprovalRequest(_)) {
                peer.connection.answer(key, &Answer::Approval(Approval::Approve), peer.now);
                assert_eq!(peer.said().len(), 1, "{seed}: {request}");
            }
        }
        peer.finish();
        assert_eq!(peer.trace().last().expect("an end"), "turn 1 finished", "{seed}: {request}");
    }
}

#[test]
fn approvals_are_about_the_newest_arguments() {
    for seed in seeds() {
        let mut generator = Generator::new(seed);
        let mut peer = handled();
        peer.prompt(1);
        let mut lines = Vec::new();
        let calls = 1 + generator.random.below(3);
        for number in 0..calls {
            let arguments = json!({"command": format!("command {number}")}).to_string();
            let cut = generator.random.below(arguments.len());
            let mut call = generator.message("ToolCall", 0);
            call["id"] = "t".into();
            call["function"]["arguments"] = arguments[..cut].into();
            lines.push(line(&event("ToolCall", &call)));
            let mut rest = generator.message("ToolCallPart", 0);
            rest["arguments_part"] = arguments[cut..].into();
            lines.push(line(&event("ToolCallPart", &rest)));
            if generator.random.one_in(3) {
                let kind = generator.random.pick(&["StatusUpdate", "Notification", "BtwBegin"]);
                lines.push(line(&event(kind, &generator.payload(kind, 0))));
            }
        }
        let mut asked = generator.message("ApprovalRequest", 0);
        (asked["id"], asked["tool_call_id"]) = ("r".into(), "t".into());
        // A command that the request shows would be newer.
        asked["display"] = generator.random.pick(&[json!([]), json!(null), json!([{"type": "novelty"}])]);
        let params = json!({"type": "ApprovalRequest", "payload": asked});
        lines.push(line(&json!({"jsonrpc": "2.0", "id": "r", "method": "request", "params": params})));
        lines.iter().for_each(|line| peer.text(line));
        while let Some(output) = peer.next_output() {
            let Output::Ask { request, .. } = output else { continue };
            let Event::ApprovalRequest(request) = *request else { panic!("{seed}: another request") };
            let arguments = request.tool_call.get().and_then(|call| call.arguments.as_ref());
            let command = arguments.and_then(|arguments| arguments.get("command")).and_then(Value::as_str);
            let newest = format!("command {}", calls - 1);
            assert_eq!(command, Some(&*newest), "{seed}: {}", lines.join("\n"));
        }
    }
}
