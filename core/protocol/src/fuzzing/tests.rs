//! The kept inputs, as plain tests; and the same promises with the inputs of proptest.

mod acp;
mod kimi_web;
mod properties;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::play::{EVENTS, REQUESTS};
use crate::messages::Event;

/// The inputs that are kept for a target: seeds that lead a fuzzer somewhere, and what once was a crash.
fn kept(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut found = Vec::new();
    for folder in ["seeds", "crashes"] {
        let folder = root.join(folder).join(target);
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            let bytes = std::fs::read(&path).expect("a file");
            found.push((path, bytes));
        }
    }
    assert!(found.len() >= 3, "{}: only {} inputs for {target}", root.display(), found.len());
    found
}

fn run(target: &str, check: fn(&[u8])) {
    for (path, bytes) in kept(target) {
        // A failing test shows what was printed last.
        println!("{}", path.display());
        check(&bytes);
    }
}

#[test]
fn kept_inputs_of_framing() {
    run("framing", super::framing);
}

#[test]
fn kept_inputs_of_envelope() {
    run("envelope", super::envelope);
}

#[test]
fn kept_inputs_of_lenient() {
    run("lenient", super::lenient);
}

#[test]
fn kept_inputs_of_dialects() {
    run("dialect", super::dialect);
}

#[test]
fn kept_inputs_of_shapes() {
    run("shapes", super::shapes);
}

#[test]
fn kept_inputs_of_connection() {
    run("connection", super::connection);
}

#[test]
fn kept_inputs_of_kimi_web() {
    run("kimi_web", super::kimi_web);
}

#[test]
fn kept_inputs_of_turn_records() {
    run("turn_records", super::turn_records);
}

#[test]
fn kept_inputs_of_texts() {
    run("texts", super::texts);
}

#[test]
fn kept_inputs_of_schema() {
    run("schema", super::schema);
}

#[test]
fn kept_inputs_of_acp() {
    run("acp", super::acp);
}

#[test]
fn kept_inputs_of_conversations() {
    for (path, bytes) in kept("conversation") {
        assert!(super::script::read(&bytes).is_some(), "{} is no script", path.display());
    }
    run("conversation", super::conversation);
}

#[test]
fn recordings_of_real_agents() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded");
    let mut played = 0;
    for release in std::fs::read_dir(&root).expect("recordings") {
        for file in std::fs::read_dir(release.expect("a release").path()).expect("a folder") {
            let path = file.expect("a file").path();
            if path.extension().is_some_and(|extension| extension == "wire") {
                println!("{}", path.display());
                let whole = std::fs::read(&path).expect("a recording");
                super::conversation(&whole);
                // And in pieces, cut short at its end.
                super::conversation(&[&whole[..], b"\n> prompt\n> exit 3"].concat());
                super::conversation(&[&whole[..], b"\n> pieces 7"].concat());
                played += 1;
            }
        }
    }
    assert!(played > 100, "{played}");
}

#[test]
fn scenarios_have_every_type() {
    let has: BTreeSet<&str> = EVENTS.iter().map(|(kind, _)| *kind).chain(REQUESTS.iter().copied()).collect();
    for kind in Event::EVENT_TYPES.iter().chain(Event::REQUEST_TYPES) {
        assert!(has.contains(kind), "{kind} never happens");
    }
}
