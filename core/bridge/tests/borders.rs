//! No panic of the core leaves a call of Python or Node: each function that the bindings export catches panics.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the sources of a binding.
fn sources(binding: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(binding).join("src");
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.map(|path| (path.clone(), fs::read_to_string(&path).expect("a source"))).collect()
}

/// Returns the functions after an attribute: the attribute, and the text from `fn` to the next function.
fn exported<'s>(source: &'s str, attribute: &str) -> Vec<(&'s str, &'s str)> {
    let found = source.match_indices(attribute).map(|(at, _)| {
        let item = &source[at..];
        let (head, rest) = item.split_once("\n").expect("an item");
        let is_item = |line: &&str| !line.trim().starts_with("#[") && !line.trim().starts_with("///");
        let rest = rest.lines().find(is_item).map_or("", |line| &rest[rest.find(line).unwrap_or(0)..]);
        (head, rest)
    });
    found.filter(|(_, item)| item.lines().next().is_some_and(|line| line.contains("fn "))).collect()
}

#[test]
fn functions_of_node_catch_panics() {
    let mut count = 0;
    for (path, source) in sources("bindings-node") {
        for (attribute, item) in exported(&source, "#[napi") {
            count += 1;
            let name = item.lines().next().unwrap_or_default();
            assert!(attribute.contains("catch_unwind"), "{}: {name} has no catch_unwind", path.display());
        }
    }
    assert!(count > 70, "{count}");
}

#[test]
fn functions_of_python_catch_panics() {
    let mut count = 0;
    for (path, source) in sources("bindings-python") {
        let functions = exported(&source, "#[pyfunction]").into_iter().map(|(_, item)| item);
        let methods = source.split("#[pymethods]").skip(1).flat_map(|block| {
            let end = block.find("\n}\n").unwrap_or(block.len());
            let block = &block[..end];
            block.match_indices("\n    fn ").map(move |(at, _)| &block[at + 1..]).collect::<Vec<_>>()
        });
        for item in functions.chain(methods) {
            count += 1;
            let body = &item[item.find('{').expect("a body")..];
            let name = item.lines().next().unwrap_or_default();
            let is_guarded = body[1..].trim_start().trim_start_matches("crate::").starts_with("guarded(");
            assert!(is_guarded, "{}: {name} has no guard", path.display());
        }
    }
    assert!(count > 70, "{count}");
}
