//! A program that has the feature `testing` and never asks for an agent stays itself, with any arguments.

#![allow(clippy::print_stdout, reason = "the parent reads it")]

use std::process::Command;

use kimi_agent::testing::{CassetteMode, Script};

fn main() {
    // Code of the feature, so that the linker takes it.
    let checked = Script::from(r#"[[{"text": "hi"}]]"#).check();
    if std::env::args().nth(1).as_deref() == Some("--kimi-scripted-agent") {
        println!("{checked:?} {}", CassetteMode::Once);
        return;
    }
    let this = std::env::current_exe().expect("a path");
    let done = Command::new(this).args(["--kimi-scripted-agent", "script.json"]).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "Ok(()) once\n");
    assert!(done.status.success());
}
