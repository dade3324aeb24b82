//! Questions at a terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use super::support::{agent, command, ended};

/// A terminal: the side of the person, and that of the command.
fn terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (ours.into(), theirs)
}

/// Reads what the terminal shows, up to this text.
fn read_until(terminal: &mut File, end: &str) -> String {
    let (mut shown, mut piece) = (Vec::new(), [0; 1024]);
    while !String::from_utf8_lossy(&shown).contains(end) {
        let read = terminal.read(&mut piece).unwrap();
        shown.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn keys_before_first_question_are_discarded() {
    for early in ["y\n", "y\ny\n", "a\n"] {
        let call = json!({"name": "Shell", "arguments": {"command": "ls"}, "approve": true, "result": "a.txt"});
        let agent = agent(json!([[{"tool_call": call}]]));
        let (mut person, theirs) = terminal();
        person.write_all(early.as_bytes()).unwrap();
        let mut command = command(Some(&agent), &["run", "--json", "hi"]);
        let child = command.stdin(theirs.try_clone().unwrap()).stderr(theirs).spawn().unwrap();
        drop(command);
        read_until(&mut person, "[y]es, [n]o");
        person.write_all(b"n\n").unwrap();
        let ran = ended(child);
        assert!(ran.out.contains("rejected") && !ran.out.contains("a.txt"), "{early:?}: {}", ran.out);
    }
}
