//! The recordings of real releases of kimi-cli (`tests/recorded`), read by every dialect: by the one that the release speaks
//! each line as what it is, by the others without harm.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Dialect, Incoming, Legacy, Wire, WireVersion};
use crate::messages::{Event, Json, Node, Reflect, TypeRef, catalog};

/// One process of a release's, line by line.
pub struct Recording {
    /// The release of the agent.
    pub release: String,
    /// The name of the case.
    pub case: String,
    /// The lines, in order.
    pub lines: Vec<Line>,
}

/// A line, with its direction.
pub enum Line {
    /// The lines to the agent.
    In(String),
    /// The lines of the agent.
    Out(String),
}

impl Recording {
    /// Returns the release and the case.
    pub fn title(&self) -> String {
        format!("{} {}", self.release, self.case)
    }

    /// The lines of the agent.
    pub fn said(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| match line {
            Line::Out(line) => Some(line.as_str()),
            Line::In(_) => None,
        })
    }

    /// The lines to the agent, parsed.
    fn told(&self) -> impl Iterator<Item = Value> {
        self.lines.iter().filter_map(|line| match line {
            Line::In(line) => Some(serde_json::from_str(line).expect("we write JSON")),
            Line::Out(_) => None,
        })
    }

    /// The protocol that the release speaks, as the session that was recorded found out.
    pub fn dialect(&self) -> Box<dyn Dialect> {
        if self.told().any(|call| call["method"] == "run") {
            Box::new(Legacy::new(None))
        } else if self.told().any(|call| call["method"] == "initialize") {
            Box::new(Wire::new(WireVersion::LATEST))
        } else {
            Box::new(Wire::pinned(WireVersion::V1_0))
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded")
}

/// Loads all recordings, in order.
///
/// # Panics
/// If a recording cannot be read.
pub fn load() -> Vec<Recording> {
    let mut found = Vec::new();
    for release in sorted(&folder()) {
        for path in sorted(&release) {
            if path.extension().is_none_or(|extension| extension != "wire") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a recording");
            // Not `lines()`: a carriage return would be the agent's.
            let lines = text.strip_suffix('\n').expect("whole lines").split('\n').map(|line| match line.split_at(2) {
                ("> ", line) => Line::In(line.to_owned()),
                ("< ", line) => Line::Out(line.to_owned()),
                _ => panic!("{}: neither said nor told: {line:.60}", path.display()),
            });
            let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
            found.push(Recording {
                release: release.file_name().expect("a name").to_string_lossy().into_owned(),
                case: name(&path),
                lines: lines.collect(),
            });
        }
    }
    assert!(found.len() > 100, "only {} recordings", found.len());
    found
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// The dialects that a session can have.
pub fn dialects() -> Vec<Box<dyn Dialect>> {
    let mut all: Vec<Box<dyn Dialect>> = vec![Box::new(Legacy::new(None)), Box::new(Wire::new(WireVersion::LATEST))];
    all.extend((0..=10).map(|minor| Box::new(Wire::pinned(WireVersion::new(1, minor))) as Box<dyn Dialect>));
    all
}

/// The current name of a type of the wire.
pub fn modern(kind: &str) -> String {
    match kind {
        "approval" => "ApprovalRequest".to_owned(),
        "ApprovalRequestResolved" => "ApprovalResponse".to_owned(),
        legacy if legacy.starts_with(char::is_lowercase) => legacy
            .split('_')
            .map(|word| {
                let (first, rest) = word.split_at(1);
                first.to_uppercase() + rest
            })
            .collect(),
        same => same.to_owned(),
    }
}

/// A message without what is null, and with the names of today.
fn tidy(value: &Value) -> Value {
    match value {
        // A tool's result as legacy has it.
        Value::Object(map) if map.contains_key("ok") && map.contains_key("result") => {
            let result = &map["result"];
            let brief = result["brief"].as_str().filter(|brief| !brief.is_empty());
            let display: Vec<_> = brief.iter().map(|text| json!({"type": "brief", "text": text})).collect();
            json!({"tool_call_id": map["tool_call_id"], "return_value": {
                "is_error": map["ok"] != true, "output": result["output"], "message": result["message"],
                "display": display}})
        }
        Value::Object(map) => {
            let mut tidied = Map::new();
            for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                let name = if name == "task_tool_call_id" { "parent_tool_call_id" } else { name };
                tidied.insert(name.to_owned(), tidy(value));
            }
            if let (Some(Value::String(kind)), true) = (tidied.get("type").cloned(), tidied.contains_key("payload")) {
                tidied.insert("type".to_owned(), modern(&kind).into());
            }
            Value::Object(tidied)
        }
        Value::Array(list) => list.iter().map(tidy).collect(),
        other => other.clone(),
    }
}

/// The properties to find in the events.
#[derive(Default)]
struct Survey {
    /// `Type.field` of what no type has a name for, and which version has it.
    extra: BTreeMap<String, BTreeSet<String>>,
    /// The types of messages, by the version that was spoken.
    types: BTreeMap<String, BTreeSet<String>>,
    /// Words that are none of the protocol's.
    words: BTreeSet<String>,
}

impl Survey {
    fn look(&mut self, version: &str, message: &dyn Reflect, catalog: &catalog::Catalog) {
        let name = message.type_name();
        self.types.entry(version.to_owned()).or_default().insert(name.to_owned());
        for (field, _) in message.extra().iter() {
            self.extra.entry(format!("{name}.{field}")).or_default().insert(version.to_owned());
        }
        let described = catalog.messages.iter().find(|described| described.name == name).expect("in the catalogue");
        message.for_each_field(&mut |field, node| {
            let ty = &described.fields.iter().find(|described| described.name == field).expect("a field").ty;
            let ty = if let TypeRef::Optional(inner) = ty { inner } else { ty };
            if let (TypeRef::Words(words), Node::Str(word)) = (ty, &node)
                && !words.contains(word)
            {
                self.words.insert(format!("{name}.{field}: {word}"));
            }
            self.descend(version, node, catalog);
        });
    }

    fn descend(&mut self, version: &str, node: Node<'_>, catalog: &catalog::Catalog) {
        match node {
            Node::Message(message) => self.look(version, message, catalog),
            Node::List(nodes) => nodes.into_iter().for_each(|node| self.descend(version, node, catalog)),
            _ => {}
        }
    }
}

/// Fields that releases send and that no specification names; a program finds them in `extra`.
const EXTRA: &[&str] = &[];

/// Events that the specifications have and these releases don't send in a session over stdin and stdout.
const NEVER_SENT: &[&str] = &[
    // Nothing in kimi-cli calls what sends them.
    "BtwBegin",
    "BtwEnd",
    // Of the SDK's own.
    "Plan",
    "PolicyDecision",
    "HandlerFailed",
    // Made of requests of ACP.
    "ReadFileRequest",
    "WriteFileRequest",
    "TerminalRequest",
];

/// The additions of releases that report 1.3, after the recorded release.
const NOT_IN_EARLY_1_3: &[&str] = &["QuestionRequest", "MCPLoadingBegin", "MCPLoadingEnd"];

#[test]
fn recorded_lines_arrive_as_their_types() {
    let catalog = catalog::catalog();
    let mut survey = Survey::default();
    for recording in load() {
        let mut dialect = recording.dialect();
        let mut version = if recording.told().any(|call| call["method"] == "run") { LEGACY } else { "1.0" }.to_owned();
        let calls: BTreeSet<_> = recording.told().map(|call| call["id"].to_string()).collect();
        for line in recording.said() {
            let title = recording.title();
            let raw: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{title}: {error}: {line}"));
            let kind = modern(raw["params"]["type"].as_str().unwrap_or_default());
            let event = match (raw["method"].as_str(), dialect.read_line(line.as_bytes())) {
                (Some("event"), Incoming::Event(event)) => *event,
                (Some("request"), Incoming::Request { rpc_id, request }) => {
                    assert_eq!(rpc_id, raw["id"].to_string(), "{title}");
                    *request
                }
                (None, Incoming::Response { id: Some(id), outcome }) => {
                    assert!(calls.contains(&json!(id).to_string()), "{title}: nobody called {id}");
                    assert_eq!(outcome.is_ok(), raw.get("error").is_none(), "{title}: {line}");
                    if raw["result"]["protocol_version"].is_string() {
                        let welcome =
                            dialect.finish_handshake(outcome).unwrap_or_else(|error| panic!("{title}: {error}"));
                        assert_eq!(json!(welcome.protocol_version), raw["result"]["protocol_version"]);
                        version = welcome.protocol_version;
                    }
                    continue;
                }
                (_, other) => panic!("{title}: {other:?}: {line}"),
            };
            assert!(!matches!(event, Event::Unknown(_)), "{title}: {event:?}");
            assert_eq!(event.type_name(), kind, "{title}");
            assert_eq!(tidy(&json!(event)), tidy(&with_defaults(&kind, raw["params"].clone())), "{title}");
            survey.descend(&version, event.node(), &catalog);
        }
    }
    assert_eq!(survey.words, BTreeSet::new(), "words that the protocol has not");
    let extra: Vec<_> = survey.extra.keys().map(String::as_str).collect();
    assert_eq!(extra, EXTRA, "what is sent beside the specifications has changed: {:?}", survey.extra);
    for (version, types) in &survey.types {
        assert!(types.iter().all(|name| !name.starts_with("Unknown")), "{version}: {types:?}");
        if version == LEGACY {
            continue;
        }
        let missing: Vec<_> = can_send(version, &catalog).into_iter().filter(|name| !types.contains(*name)).collect();
        assert_eq!(missing, [""; 0], "Wire {version}: not among the recordings");
    }
    assert!(survey.types[LEGACY].is_superset(&ALL_OF_LEGACY.map(str::to_owned).into()), "{:?}", survey.types[LEGACY]);
    assert_eq!(survey.types.len(), 11, "{:?}", survey.types.keys());
    let parts = catalog.content_parts.iter().chain(catalog.display_blocks);
    // Wire has no resources.
    for part in parts.filter(|name| !name.starts_with("Unknown") && **name != "ResourcePart") {
        assert!(survey.types.values().any(|types| types.contains(*part)), "{part} is not among the recordings");
    }
}

const LEGACY: &str = "legacy";
/// All that legacy sends, of what can be had without approvals.
const ALL_OF_LEGACY: [&str; 9] = [
    "StepBegin",
    "StepInterrupted",
    "CompactionBegin",
    "CompactionEnd",
    "StatusUpdate",
    "ToolCall",
    "ToolCallPart",
    "ToolResult",
    "SubagentEvent",
];

/// Fields that are filled in where they are absent.
fn with_defaults(kind: &str, mut params: Value) -> Value {
    if params.get("payload").is_none() {
        params["payload"] = json!({});
    }
    if kind == "ApprovalRequest" && params["payload"].get("display").is_none() {
        params["payload"]["display"] = json!([]);
    }
    params
}

/// The types of events and requests that agents of a version send.
fn can_send(version: &str, catalog: &catalog::Catalog) -> Vec<&'static str> {
    let version: WireVersion = version.parse().expect("a version");
    let since = |name: &str| -> WireVersion {
        let message = catalog.messages.iter().find(|message| message.name == name);
        // Of content parts there are several types.
        message.map_or(WireVersion::V1_0, |message| message.since.parse().expect("a version"))
    };
    let not_here: &[&str] = if version == WireVersion::new(1, 3) { NOT_IN_EARLY_1_3 } else { &[] };
    let all = catalog.events.iter().chain(catalog.requests).copied();
    all.filter(|name| *name != "ContentPart" && !NEVER_SENT.contains(name) && !not_here.contains(name))
        .filter(|name| since(name) <= version)
        .collect()
}

#[test]
fn other_dialects_read_it_without_harm() {
    for recording in load() {
        for mut dialect in dialects() {
            let spoken = format!("{dialect:?}");
            for line in recording.said() {
                let raw: Value = serde_json::from_str(line).expect("JSON");
                let title = || format!("{} as {spoken}: {line}", recording.title());
                match dialect.read_line(line.as_bytes()) {
                    Incoming::Event(event) => {
                        assert_eq!(raw["method"], "event", "{}", title());
                        unharmed(&event, &raw["params"], &title);
                    }
                    Incoming::Request { rpc_id, request } => {
                        assert_eq!(rpc_id, raw["id"].to_string(), "{}", title());
                        unharmed(&request, &raw["params"], &title);
                    }
                    Incoming::Response { id: Some(id), outcome } => {
                        assert_eq!(raw["id"], id, "{}", title());
                        assert_eq!(outcome.is_ok(), raw.get("error").is_none(), "{}", title());
                    }
                    other => panic!("{}: {other:?}", title()),
                }
            }
        }
    }
}

/// It is known by its name, or whole.
fn unharmed(event: &Event, params: &Value, title: &dyn Fn() -> String) {
    match event {
        Event::Unknown(unknown) => {
            assert_eq!(params["type"], unknown.kind, "{}", title());
            assert_eq!(unknown.payload, Json::from(params["payload"].clone()), "{}", title());
        }
        known => assert_eq!(known.type_name(), modern(params["type"].as_str().expect("a type")), "{}", title()),
    }
}
