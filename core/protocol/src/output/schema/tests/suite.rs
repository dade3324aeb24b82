//! The official tests of JSON Schema: <https://github.com/json-schema-org/JSON-Schema-Test-Suite>.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;

/// Why a schema of the tests is refused, by a part of the message: it has several resources, or its meaning depends on the caller.
const REFUSED: [&str; 3] =
    ["expected references within the schema", "uses `$dynamicRef`", "the schema names the draft"];

/// Returns the folder of the tests.
fn folder() -> PathBuf {
    let name = "JSON_SCHEMA_TEST_SUITE";
    std::env::var_os(name)
        .unwrap_or_else(|| panic!("set {name} to the folder of the tests; `make test-schema` does"))
        .into()
}

/// Plays the files of a draft. Returns the number of values, and of refused schemas for each reason.
fn play(folder: &Path, draft: &str) -> (usize, BTreeMap<&'static str, usize>) {
    let (mut values, mut refused, mut wrong) = (0, BTreeMap::new(), Vec::new());
    let files = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).filter(|path| path.is_file()).collect();
    files.sort();
    for file in files {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let groups: Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
        for group in groups.as_array().expect("groups") {
            let about = format!("{name}: {}", group["description"]);
            // A schema for `output` is an object.
            let mut schema = match &group["schema"] {
                Value::Bool(any) => json!({"allOf": [any]}),
                schema => schema.clone(),
            };
            if schema.get("$schema").is_none() {
                schema["$schema"] = draft.into();
            }
            let compiled = match Schema::compile(&schema, false) {
                Ok(compiled) => compiled,
                Err(problem) => {
                    match REFUSED.into_iter().find(|reason| problem.contains(reason)) {
                        Some(reason) => *refused.entry(reason).or_default() += 1,
                        None => wrong.push(format!("{about} is refused: {problem}")),
                    }
                    continue;
                }
            };
            for test in group["tests"].as_array().expect("tests") {
                values += 1;
                let found = compiled.check(&test["data"], &mut Work::default());
                if found.is_empty() != test["valid"] {
                    wrong.push(format!("{about}, {}: {found:?}", test["description"]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    (values, refused)
}

#[test]
#[ignore = "the tests are downloaded by `make test-schema`"]
fn official_tests_agree() {
    let folder = folder();
    for (name, draft, at_least) in [
        ("draft2020-12", "https://json-schema.org/draft/2020-12/schema", 1000),
        ("draft7", "http://json-schema.org/draft-07/schema#", 700),
    ] {
        let (values, refused) = play(&folder.join(name), draft);
        println!("{name}: {values} values agree; schemas that are refused, by reason: {refused:?}");
        assert!(values > at_least, "{values} values of {name} were checked");
    }
}
