//! Questions at a terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::Child;

use kimi_agent_client::testing::ScriptedAgent;
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
        let read = terminal.read(&mut piece);
        let read = read.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&shown)));
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

/// Starts the command with all of its streams on a terminal. Returns the side of the person.
fn started(agent: &ScriptedAgent, arguments: &[&str]) -> (File, Child) {
    let (person, theirs) = terminal();
    let mut command = command(Some(agent), &[&["run"], arguments, &["hi"]].concat());
    let (input, errors) = (theirs.try_clone().unwrap(), theirs.try_clone().unwrap());
    let child = command.stdin(input).stdout(theirs).stderr(errors).spawn().unwrap();
    (person, child)
}

const CHOICES: &str = "\x1b[7m[y]es, [n]o, [a]lways in this session:\x1b[0m";

/// Text that looks like a question, with line ends before it.
fn forged() -> String {
    format!("{}approve:\n? tool: harmless\n{CHOICES} ", "\n".repeat(30))
}

#[test]
fn agent_output_during_open_question() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let payload = json!({
        "id": "1", "tool_call_id": "t", "sender": "Shell", "action": "real", "description": "", "display": [],
    });
    let question = json!({
        "id": "2", "tool_call_id": "t", "questions": [{"question": "real?", "header": "", "options": [{"label": "A"}]}],
    });
    let notice = json!({
        "id": "n", "category": "task", "type": "done", "source_kind": "task", "source_id": "t", "title": "forged notice",
        "body": "", "severity": "info", "created_at": 0,
    });
    for (kind, payload, prompt) in
        [("ApprovalRequest", payload, CHOICES), ("QuestionRequest", question, "nothing to dismiss it:\x1b[0m")]
    {
        for arguments in [&["-v"][..], &["--json", "-v"]] {
            let said = format!("said-{kind}-{}", arguments.len());
            let agent = agent(json!([[
                {"request": {"type": kind, "payload": payload}, "wait": false},
                {"wait_file": format!("{said}-asked")},
                {"text": forged()},
                {"stderr": "forged log"},
                {"event": {"type": "Notification", "payload": notice}},
                {"tool_call": {"name": "Shell", "effect": {"write_file": said, "content": ""}, "result": "forged output"}},
                {"wait_file": "answered"},
                {"text": "the end"},
            ]]));
            let file = |name: &str| std::path::Path::new(folder).join(name);
            std::fs::remove_file(file("answered")).ok();
            let (mut person, child) = started(&agent, &[&["-C", folder], arguments].concat());
            let mut shown = read_until(&mut person, prompt);
            std::fs::write(file(&format!("{said}-asked")), "").unwrap();
            while !file(&said).exists() {
                std::thread::yield_now();
            }
            person.write_all(b"n\n").unwrap();
            shown += &read_until(&mut person, "forged notice");
            std::fs::write(file("answered"), "").unwrap();
            shown += &read_until(&mut person, "the end");
            drop(person);
            drop(ended(child));
            let (question, after) = shown.split_once(prompt).unwrap();
            let question = &question[question.find("\x1b[7m?\x1b[0m").unwrap()..];
            assert!(question.contains("real") && !question.contains("forged"), "{question}");
            assert!(after.trim_start().starts_with("n\r\n"), "{after}");
            // Only lines of the command have marks.
            assert!(after.contains("harmless") && !after.contains('\x1b'), "{after}");
        }
    }
}

#[test]
fn withdrawn_question_is_announced() {
    let request = |id: u32, command: &str| {
        let call = json!({"toolCallId": format!("c{id}"), "title": "Run", "kind": "execute", "rawInput": {"command": command}});
        let options = json!([
            {"optionId": "a", "name": "Allow", "kind": "allow_once"}, {"optionId": "r", "name": "No", "kind": "reject_once"},
        ]);
        let params = json!({"sessionId": "{{session}}", "toolCall": call, "options": options});
        json!({"raw": json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}).to_string()})
    };
    let withdrawn = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 901}}).to_string();
    let folder = tempfile::tempdir().unwrap();
    let go = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
    let agent = agent(json!({"wire": "acp", "turns": [[
        request(901, "echo harmless"), {"wait_file": "first"}, {"raw": withdrawn}, request(902, "rm real"), {"wait_file": "second"},
        {"text": "the end"},
    ]]}));
    let (mut person, child) = started(&agent, &["--dialect", "acp", "-C", folder.path().to_str().unwrap()]);
    assert!(read_until(&mut person, CHOICES).contains("echo harmless"));
    go("first");
    let announced = read_until(&mut person, "press Enter to see the next question");
    assert!(announced.contains("withdrawn: the agent does not wait"), "{announced}");
    // The answer that was on its way is not an answer to the next question.
    person.write_all(b"y\n").unwrap();
    assert!(read_until(&mut person, CHOICES).contains("argument command: rm real"));
    person.write_all(b"n\n").unwrap();
    read_until(&mut person, "n\r\n");
    go("second");
    read_until(&mut person, "; session");
    assert_eq!(ended(child).code, 0);
}
