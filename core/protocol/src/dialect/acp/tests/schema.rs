//! The table of the schema of ACP, `docs/reference/acp.md`: each method, update, capability and member, and how the SDK
//! uses it. `schema.json` has the judgements. `KIMI_UPDATE=1` writes the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use agent_client_protocol_schema::v1 as acp;
use schemars::schema_for;
use serde::Deserialize;
use serde_json::Value;

const HEAD: &str = "\
# The schema of ACP

Each method of version 1 of the Agent Client Protocol, and each member and value of its messages, with how the SDK uses
it. A test compares this page with the schema. It fails if a new release of the schema has a row without a judgement.

Every message may have `_meta`. [Metadata](events.md) of updates and requests is in the fields of the events, and the option
`agent_meta` adds metadata to the request that opens a session.

Names of tests are scenarios of `tests/scenarios`, which run in all languages, or unit tests.
";

/// What the schema has: the methods with their senders, and the types with their members and values.
#[derive(Debug, Default)]
struct Schema {
    /// With the side that handles each.
    methods: BTreeMap<String, String>,
    types: BTreeMap<String, BTreeSet<String>>,
}

impl Schema {
    /// Reads the definitions of all messages.
    fn read() -> Self {
        let mut read = Self::default();
        read.add(schema_for!(acp::ClientRequest));
        read.add(schema_for!(acp::AgentResponse));
        read.add(schema_for!(acp::ClientNotification));
        read.add(schema_for!(acp::AgentRequest));
        read.add(schema_for!(acp::ClientResponse));
        read.add(schema_for!(acp::AgentNotification));
        read.add(schema_for!(acp::ProtocolLevelNotification));
        read
    }

    fn add(&mut self, root: schemars::Schema) {
        let root = serde_json::to_value(root).expect("JSON");
        for (name, definition) in root["$defs"].as_object().into_iter().flatten() {
            if let (Some(method), Some(side)) = (definition["x-method"].as_str(), definition["x-side"].as_str()) {
                self.methods.entry(method.to_owned()).or_insert_with(|| side.to_owned());
            }
            let mut members = BTreeSet::new();
            collect(definition, &mut members);
            members.remove("_meta");
            self.types.entry(name.clone()).or_insert(members);
        }
    }
}

/// Collects the members and the constant values of a definition, those of its inline variants included.
fn collect(schema: &Value, members: &mut BTreeSet<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        match property["const"].as_str() {
            Some(value) => members.insert(format!("{name}={value}")),
            None => members.insert(name.clone()),
        };
    }
    if let Some(value) = schema["const"].as_str() {
        members.insert(format!("={value}"));
    }
    for value in schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        members.insert(format!("={value}"));
    }
    for list in ["oneOf", "anyOf", "allOf"] {
        for variant in schema[list].as_array().into_iter().flatten() {
            collect(variant, members);
        }
    }
}

#[derive(Deserialize)]
struct Judgements {
    methods: BTreeMap<String, Judgement>,
    types: BTreeMap<String, Judgement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judgement {
    /// The members that the SDK uses.
    #[serde(default)]
    members: BTreeSet<String>,
    #[serde(default)]
    not: Not,
    #[serde(default)]
    note: String,
    #[serde(default)]
    tests: BTreeSet<String>,
}

/// What is not used, and why.
#[derive(Deserialize)]
#[serde(untagged)]
enum Not {
    All(String),
    Some(BTreeMap<String, String>),
}

impl Default for Not {
    fn default() -> Self {
        Self::Some(BTreeMap::new())
    }
}

impl Judgement {
    fn problems(&self, name: &str, members: &BTreeSet<String>, problems: &mut Vec<String>) {
        let Not::Some(not) = &self.not else { return };
        let judged: BTreeSet<_> = self.members.iter().chain(not.keys()).cloned().collect();
        problems.extend(members.difference(&judged).map(|member| format!("{name}: {member} is not judged")));
        problems.extend(judged.difference(members).map(|member| format!("{name}: the schema has no {member}")));
        if self.tests.is_empty() {
            problems.push(format!("{name}: no test"));
        }
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the names of all scenarios, and the sources that have unit tests of the dialect.
fn tests() -> (BTreeSet<String>, String) {
    let mut sources = String::new();
    let mut folders = vec![root().join("core/protocol/src/dialect/acp"), root().join("core/protocol/src/endpoint")];
    sources += &std::fs::read_to_string(root().join("core/client/src/options/mcp.rs")).expect("a source");
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources += &std::fs::read_to_string(path).expect("a source");
            }
        }
    }
    let scenarios = std::fs::read_dir(root().join("tests/scenarios")).expect("scenarios");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        Some(entry.ok()?.file_name().to_str()?.strip_suffix(".json")?.to_owned())
    };
    (scenarios.filter_map(name).collect(), sources)
}

fn listed<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names.into_iter().map(|name| format!("`{}`", name.trim_start_matches('='))).collect::<Vec<_>>().join(", ")
}

fn page(schema: &Schema, judged: &Judgements) -> String {
    let mut page = format!("{HEAD}\n## Methods\n\n| method | from | used | tests |\n| --- | --- | --- | --- |\n");
    for (name, side) in &schema.methods {
        let Some(judgement) = judged.methods.get(name) else { continue };
        // The schema names the side that handles a method.
        let from = match &**side {
            "agent" => "client",
            "client" => "agent",
            _ => "both",
        };
        let used = match &judgement.not {
            Not::All(reason) => format!("no: {reason}"),
            Not::Some(_) => ["yes", &judgement.note].join(if judgement.note.is_empty() { "" } else { ": " }),
        };
        let _ = writeln!(page, "| `{name}` | {from} | {used} | {} |", listed(&judgement.tests));
    }
    page += "\n## Members and values\n\n| type | used | not used | tests |\n| --- | --- | --- | --- |\n";
    for name in schema.types.keys() {
        let Some(judgement) = judged.types.get(name) else { continue };
        let not = match &judgement.not {
            Not::All(reason) => reason.clone(),
            Not::Some(members) => {
                let mut by_reason: BTreeMap<_, Vec<_>> = BTreeMap::new();
                members.iter().for_each(|(member, reason)| by_reason.entry(reason).or_default().push(member));
                let told = by_reason.into_iter().map(|(reason, members)| format!("{}: {reason}", listed(members)));
                told.collect::<Vec<_>>().join(" ")
            }
        };
        let _ = writeln!(page, "| {name} | {} | {not} | {} |", listed(&judgement.members), listed(&judgement.tests));
    }
    page
}

#[test]
fn every_row_of_schema_is_judged_and_on_its_page() {
    let schema = Schema::read();
    let judged: Judgements = serde_json::from_str(include_str!("schema.json")).expect("judgements");
    let mut problems = Vec::new();
    for name in schema.methods.keys() {
        match judged.methods.get(name) {
            None => problems.push(format!("the method {name} is not judged")),
            Some(judgement) => judgement.problems(name, &BTreeSet::new(), &mut problems),
        }
    }
    for (name, members) in schema.types.iter().filter(|(_, members)| !members.is_empty()) {
        match judged.types.get(name) {
            None => problems.push(format!("the type {name} is not judged: {members:?}")),
            Some(judgement) => judgement.problems(name, members, &mut problems),
        }
    }
    let gone = judged.methods.keys().filter(|name| !schema.methods.contains_key(*name));
    let gone = gone.chain(judged.types.keys().filter(|name| !schema.types.contains_key(*name)));
    problems.extend(gone.map(|name| format!("the schema has no {name}")));
    let (scenarios, sources) = tests();
    let named: BTreeSet<_> = judged.methods.values().chain(judged.types.values()).flat_map(|it| &it.tests).collect();
    let is_missing = |test: &&&String| !scenarios.contains(**test) && !sources.contains(&format!("fn {test}("));
    problems.extend(named.iter().filter(is_missing).map(|test| format!("no test is named {test}")));
    assert!(problems.is_empty(), "judge these in schema.json:\n{}", problems.join("\n"));

    let path = root().join("docs/reference/acp.md");
    let page = page(&schema, &judged);
    if std::env::var_os("KIMI_UPDATE").is_some() {
        std::fs::write(&path, &page).expect("the page");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/reference/acp.md is not up to date; run the test with KIMI_UPDATE=1");
}
