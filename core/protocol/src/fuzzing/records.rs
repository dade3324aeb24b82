//! The records of turns in the files of a session, whose content is not trusted.

use std::path::{Component, Path};

use crate::turn_records::{TurnRecords, is_known_version, records_file};

const HOME: &str = "/home";
const SESSION: &str = "session_1";

pub(super) fn check(data: &[u8]) {
    let mut records = TurnRecords::since(1);
    for line in data.split(|byte| *byte == b'\n') {
        check_lookup(line);
        let had_begun = records.has_begun();
        let Some(report) = records.take_line(line) else {
            assert!(records.has_begun() || !had_begun, "a turn ended without a report");
            continue;
        };
        assert!(had_begun && !records.has_begun(), "only a turn that has begun ends, and once");
        assert!(report.steps >= 0, "{report:?}");
        let usage = &report.usage;
        let counts = [usage.input_other, usage.output, usage.input_cache_read, usage.input_cache_creation];
        assert!(counts.into_iter().all(|count| count >= 0), "{report:?}");
        if let Some(failure) = report.failure {
            assert!(!failure.into_error().to_string().is_empty());
        }
    }
}

/// A line of the index never leads out of the agent's home, nor to another session.
fn check_lookup(line: &[u8]) {
    is_known_version(line);
    if let Some(file) = records_file(line, SESSION, Path::new(HOME)) {
        let is_plain = file.components().all(|component| matches!(component, Component::Normal(_)));
        assert!(is_plain && file.ends_with("session_1/agents/main/wire.jsonl"), "{}", file.display());
    }
}
