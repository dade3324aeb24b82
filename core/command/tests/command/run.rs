//! `kimi-agent run`.

use std::io::Read;

use serde_json::{Value, json};

use super::support::{Ran, agent, command, ended, ran, ran_with};

/// A turn in which the agent asks before it runs `ls`.
fn asking() -> Value {
    json!([[
        {"think": "I look."},
        {"text": ["Look", "ing"]},
        {"tool_call": {"name": "Shell", "arguments": {"command": "ls"}, "approve": true, "result": "a.txt"}},
        {"text": "Done"},
    ]])
}

fn file(folder: &tempfile::TempDir, name: &str, content: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|one| one == line)
}

#[test]
fn text_is_streamed() {
    let ran = ran(&agent(asking()), &["run", "--yolo", "hi"]);
    assert_eq!((ran.code, &*ran.out), (0, "Looking\nDone\n"));
    assert!(has(&ran.err, "tool: Shell ls"), "{}", ran.err);
    assert!(ran.err.contains("finished: 2 steps") && !ran.err.contains("I look."), "{}", ran.err);
}

#[test]
fn verbose_shows_thoughts() {
    let ran = ran(&agent(asking()), &["run", "--yolo", "--verbose", "hi"]);
    assert!(has(&ran.err, "thought: I look.") && has(&ran.err, "tool finished: Shell ls: a.txt"), "{}", ran.err);
}

#[test]
fn quiet_prints_only_answer() {
    let ran = ran(&agent(asking()), &["run", "--yolo", "--quiet", "hi"]);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "Done\n", ""));
}

#[test]
fn stdin_is_prompt() {
    for arguments in [&["run", "-q"][..], &["run", "-q", "-"]] {
        let ran = ran_with(&agent(json!([[{"text": "{{prompt}}"}]])), "from a pipe", arguments);
        assert_eq!((ran.code, &*ran.out), (0, "from a pipe\n"));
    }
}

#[test]
fn stdin_is_appended() {
    let folder = tempfile::tempdir().unwrap();
    let script = || agent(json!([[{"text": "{{prompt}}"}]]));
    let piped = ran_with(&script(), "my diff", &["run", "-q", "Review this"]);
    assert_eq!((piped.code, &*piped.out), (0, "Review this\n\nmy diff\n"), "{}", piped.err);
    let diff = std::fs::File::open(file(&folder, "diff", "of a file")).unwrap();
    let of_file = ended(command(Some(&script()), &["run", "-q", "Review this"]).stdin(diff).spawn().unwrap());
    assert_eq!((of_file.code, &*of_file.out), (0, "Review this\n\nof a file\n"), "{}", of_file.err);
    let blank = ran_with(&script(), "\n", &["run", "-q", "hi"]);
    assert_eq!((blank.code, &*blank.out), (0, "hi\n"), "{}", blank.err);
}

#[test]
fn open_stdin_is_ignored() {
    let script = agent(json!([[{"text": "{{prompt}}"}]]));
    let mut child = command(Some(&script), &["run", "-q", "hi"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    let ran = ended(child);
    drop(input);
    assert_eq!((ran.code, &*ran.out), (0, "hi\n"), "{}", ran.err);
    assert!(ran.err.contains("the standard input is open, but had no text"), "{}", ran.err);
}

#[cfg(unix)]
#[test]
fn unreadable_stdin_is_ignored() {
    let script = agent(json!([[{"text": "{{prompt}}"}]]));
    let folder = std::fs::File::open(".").unwrap();
    let ran = ended(command(Some(&script), &["run", "-q", "hi"]).stdin(folder).spawn().unwrap());
    assert_eq!((ran.code, &*ran.out), (0, "hi\n"), "{}", ran.err);
}

#[test]
fn empty_prompt_is_refused() {
    for arguments in [&["run"][..], &["run", ""], &["run", " \n"], &["run", "-"]] {
        let ran = ran(&agent(json!([[{"text": "x"}]])), arguments);
        assert_eq!((ran.code, &*ran.out), (2, ""), "{arguments:?}");
        assert!(ran.err.contains("invalid value of PROMPT: it is empty"), "{}", ran.err);
    }
}

#[test]
fn approval_without_rule_is_rejected() {
    let ran = ran(&agent(asking()), &["run", "hi"]);
    assert_eq!(ran.code, 0);
    let note = ran.err.lines().find(|line| line.starts_with("rejected: ")).unwrap();
    assert!(ran.err.find("tool: Shell ls") < ran.err.find(note), "{}", ran.err);
    assert!(note.contains("Shell ls") && note.contains(r#"add the rule "Shell(ls)""#), "{note}");
}

#[test]
fn acp_agent_is_run() {
    let script = json!({"wire": "acp", "turns": asking()});
    let ran = ran(&agent(script), &["run", "--dialect", "acp", "hi"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let rejection = ran.err.find("rejected: Shell ls").unwrap();
    assert!(ran.err.find("tool: Shell ls").is_some_and(|tool| tool < rejection), "{}", ran.err);
}

#[test]
fn suggested_rule_allows_action() {
    let folder = tempfile::tempdir().unwrap();
    let policy = file(&folder, "rules.toml", "allow = [\"Shell(ls)\"]");
    let ran = ran(&agent(asking()), &["run", "--policy", &policy, "hi"]);
    assert!(ran.err.contains("policy: allow Shell ls (rule \"Shell(ls)\""), "{}", ran.err);
    assert!(!ran.err.contains("rejected: ") && !ran.err.contains("tool failed: "), "{}", ran.err);
}

#[test]
fn json_has_events_before_result() {
    let ran = ran(&agent(asking()), &["run", "--yolo", "--json", "hi"]);
    let lines = ran.lines();
    assert_eq!(lines[0]["type"], "TurnBegin");
    let result = lines.last().unwrap();
    assert_eq!(
        (&result["type"], &result["status"], &result["text"], &result["exit_code"]),
        (&json!("result"), &json!("finished"), &json!("Done"), &json!(0))
    );
    assert_eq!(ran.err, "");
}

#[test]
fn json_of_failure_ends_with_error() {
    let ran = ran(&agent(json!([[{"error": {"code": -32004, "message": "login"}}]])), &["run", "--json", "hi"]);
    let error = ran.lines().pop().unwrap();
    assert_eq!(
        (&error["type"], &error["error"]["code"], &error["exit_code"]),
        (&json!("error"), &json!("auth_expired"), &json!(3))
    );
    assert_eq!(ran.code, 3);
}

#[test]
fn json_has_exit_code_of_agent() {
    let ran = ran(&agent(json!([[{"text": "x"}, {"exit": 7}]])), &["run", "--json", "hi"]);
    let line = ran.lines().pop().unwrap();
    let (error, code) = (&line["error"], &line["exit_code"]);
    assert_eq!((ran.code, code, &error["code"]), (1, &json!(1), &json!("agent_exited")));
    assert_eq!((&error["exit_code"], &error["retryable"]), (&json!(7), &json!(true)));
    assert!(error["message"].as_str().unwrap().contains("code 7"), "{error}");
}

#[test]
fn json_has_wrong_arguments() {
    for (option, value) in [("--budget", "step=1"), ("--policy", "/no/such/file")] {
        let ran = ran(&agent(json!([])), &["run", "--json", option, value, "hi"]);
        let line = ran.lines().pop().unwrap();
        assert_eq!((ran.code, &line["type"], &line["exit_code"]), (2, &json!("error"), &json!(2)));
        assert_eq!((&line["error"]["code"], &line["error"]["option"]), (&json!("invalid_option"), &json!(option)));
    }
}

#[test]
fn control_characters_are_escaped() {
    let text = "\u{1b}[2J\u{9b}31m\u{202e}end\r\n";
    let script = || {
        let call =
            json!({"tool_call": {"name": "Shell", "arguments": {"command": "\u{1b}]52;c;aGk=\u{7}"}, "result": text}});
        agent(json!([[{"think": text}, {"text": [text, "a\r", "\nb"]}, call, {"text": text}]]))
    };
    for arguments in [&["run", "-v", "hi"][..], &["run", "-q", "hi"], &["run", "--json", "hi"]] {
        let Ran { out, err, .. } = ran(&script(), arguments);
        let raw =
            |text: &str| text.contains(|letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}');
        assert!(!raw(&out) && !raw(&err), "{arguments:?}\n{out}\n{err}");
    }
    let ran = ran(&script(), &["run", "hi"]);
    assert_eq!(ran.out, "\\x1b[2J\\x9b31m\\u202eend\na\nb\n\\x1b[2J\\x9b31m\\u202eend\n");
}

#[test]
fn output_schema_prints_value() {
    let folder = tempfile::tempdir().unwrap();
    let schema = file(&folder, "schema.json", r#"{"type": "object", "required": ["total"]}"#);
    let valid = agent(json!([[{"external_tool": {"name": "final_result", "arguments": {"total": 4}}}]]));
    let ran_valid = ran(&valid, &["run", "--output-schema", &schema, "hi"]);
    assert_eq!((ran_valid.code, &*ran_valid.out), (0, "{\"total\":4}\n"));
    let invalid = agent(json!([[{"text": "no"}], [{"text": "no"}], [{"text": "no"}], [{"text": "no"}]]));
    assert_eq!(ran(&invalid, &["run", "--output-schema", &schema, "hi"]).code, 5);
}

#[test]
fn outcomes_have_exit_codes() {
    let steps = json!([{"actions": [{"text": "That was enough."}], "status": "max_steps_reached"}]);
    let budget = json!([[{"text": "a"}, {"step": 2}, {"text": "b"}, {"step": 3}, {"wait_cancel": true}]]);
    let waiting = json!([[{"wait_cancel": true}]]);
    for (script, arguments, code) in [
        (steps, &[][..], 6),
        (budget, &["--budget", "steps=1"], 4),
        (waiting.clone(), &["--timeout", "0.2"], 124),
        (json!([{"actions": [], "status": "cancelled"}]), &[], 130),
        (json!([[{"error": {"code": -32003, "message": "down"}}]]), &[], 1),
        (json!([[{"error": {"code": -32001, "message": "no model"}}]]), &[], 3),
        (json!([]), &["--work-dir", "/no/such/directory"], 2),
        (json!([]), &["--budget", "steps"], 2),
        (json!([]), &["--budget", "step=1"], 2),
        (json!([]), &["--policy", "/no/such/file"], 2),
        (json!([]), &["--timeout", "0"], 2),
    ] {
        let arguments: Vec<&str> = ["run", "hi"].iter().chain(arguments).copied().collect();
        let ran = ran(&agent(script), &arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(code == 130 || code == 6 || ran.err.contains("kimi-agent: "), "{}", ran.err);
    }
}

#[test]
fn deadlines_are_shown_as_written() {
    for (name, seconds, expected) in [
        ("--timeout", "-1", "above 0, got -1"),
        ("--idle-timeout", "-0.5", "above 0, got -0.5"),
        ("--handshake-timeout", "1e99", "a smaller number of seconds, got 1e99"),
    ] {
        let ran = ran(&agent(json!([])), &["run", name, seconds, "hi"]);
        let is_shown = ran.err.contains(&format!("invalid value of {name}: ")) && ran.err.contains(expected);
        assert_eq!((ran.code, is_shown), (2, true), "{}", ran.err);
    }
}

#[test]
fn errors_name_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let schema = file(&folder, "schema.json", r#"{"type": "object"}"#);
    let no = json!([[{"text": "no"}], [{"text": "no"}], [{"text": "no"}], [{"text": "no"}]]);
    let steps = json!([[{"text": "a"}, {"step": 2}, {"text": "b"}, {"step": 3}, {"wait_cancel": true}]]);
    for (script, option, value, argument) in [
        (json!([[{"wait_cancel": true}]]), "--timeout", "0.2", "`--timeout`"),
        (steps, "--budget", "steps=1", "`--budget`"),
        (json!([]), "--budget", "step=1", "`output-tokens`"),
        (no, "--output-schema", &schema, "simplify the schema"),
        (json!([]), "--work-dir", "/no/such/directory", "`--work-dir`"),
    ] {
        let ran = ran(&agent(script), &["run", option, value, "hi"]);
        let message = ran.err.lines().find(|line| line.starts_with("kimi-agent: ")).unwrap();
        assert!(message.contains(argument), "{message}");
        assert!(!message.contains("further prompt"), "{message}");
        for name in ["turn_timeout", "session_budget", "output_tokens", "retries", "work_dir"] {
            assert!(!message.contains(name), "{message}");
        }
    }
}

#[test]
fn missing_agent_is_reported() {
    let ran = ended(command(None, &["run", "-x", "no-such-agent", "hi"]).spawn().unwrap());
    assert_eq!((ran.code, ran.err.contains("`--executable`")), (127, true), "{}", ran.err);
    assert!(ran.err.contains("no-such-agent") && ran.err.contains("errors.md#spawn_error"), "{}", ran.err);
}

#[cfg(target_os = "linux")]
#[test]
fn run_with_unwritable_recording_fails() {
    let ran = ran(&agent(asking()), &["run", "--yolo", "--record", "/dev/full", "hi"]);
    assert_eq!((ran.code, &*ran.out), (1, "Looking\nDone\n"));
    assert!(ran.err.contains("the recording is incomplete") && ran.err.contains("No space left"), "{}", ran.err);
}

#[test]
fn run_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    assert_eq!(ran(&agent(asking()), &["run", "--yolo", "--record", path.to_str().unwrap(), "hi"]).code, 0);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().last().unwrap().contains(r#""type":"end","reason":"closed""#), "{text}");
}

#[test]
fn closed_output_cancels_turn() {
    let script = agent(json!([[{"text": "one"}, {"wait_cancel": true}], [{"text": "never"}]]));
    let mut child = command(Some(&script), &["run", "hi"]).spawn().unwrap();
    drop(child.stdout.take());
    let ran = ended(child);
    assert_eq!(ran.code, 130);
    assert_eq!(ran.err, "");
}

/// A full disk fails every write.
#[cfg(target_os = "linux")]
#[test]
fn lost_answer_is_failure() {
    let folder = tempfile::tempdir().unwrap();
    let schema = file(&folder, "schema.json", r#"{"type": "object"}"#);
    let value = json!([[{"external_tool": {"name": "final_result", "arguments": {}}}]]);
    for (script, arguments) in [
        (asking(), &["run", "--yolo", "hi"][..]),
        (asking(), &["run", "--yolo", "-q", "hi"]),
        (asking(), &["run", "--yolo", "--json", "hi"]),
        (value, &["run", "--output-schema", &schema, "hi"]),
        (json!([[{"error": {"code": -32004, "message": "login"}}]]), &["run", "--json", "hi"]),
    ] {
        let script = agent(script);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = ended(command(Some(&script), arguments).stdout(full).spawn().unwrap());
        let is_said = ran.err.contains("kimi-agent: the standard output cannot be written: ");
        assert_eq!((ran.code, is_said), (1, true), "{arguments:?}: {}", ran.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn lost_page_is_failure() {
    let recording = "../../tests/recordings/wire.jsonl";
    for arguments in [&["--help"][..], &["run", "--help"], &["--version"], &["verify", recording]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = command(None, arguments);
        if arguments.contains(&recording) {
            for word in kimi_agent_client::testing::replayed_agent(recording).iter() {
                command.arg("-x").arg(word);
            }
        }
        let ran = ended(command.stdout(full).spawn().unwrap());
        let is_said = ran.err.contains("kimi-agent: the standard output cannot be written: ");
        assert_eq!((ran.code, is_said), (1, true), "{arguments:?}: {}", ran.err);
    }
}

#[cfg(unix)]
mod interrupts {
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// Starts the command with this agent and interrupts it after its first text.
    fn interrupted(script: Value, further: &[&str]) -> Ran {
        let script = agent(script);
        let mut child = command(Some(&script), &["run", "hi"]).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut err = child.stderr.take().unwrap();
        until(&mut out, "Working");
        kill_process(pid, Signal::INT).unwrap();
        let mut shown = String::new();
        for text in further {
            shown += &until(&mut err, text);
            kill_process(pid, Signal::INT).unwrap();
        }
        let code = child.wait().unwrap().code().unwrap();
        let mut rest = String::new();
        err.read_to_string(&mut rest).unwrap();
        Ran { code, out: String::new(), err: shown + &rest }
    }

    /// Reads until this text has come.
    fn until(stream: &mut impl Read, text: &str) -> String {
        let (mut read, mut byte) = (Vec::new(), [0]);
        while !read.ends_with(text.as_bytes()) {
            stream.read_exact(&mut byte).unwrap();
            read.push(byte[0]);
        }
        String::from_utf8(read).unwrap()
    }

    #[test]
    fn interrupt_cancels_turn() {
        let ran = interrupted(json!([[{"text": "Working"}, {"wait_cancel": true}]]), &[]);
        assert_eq!(ran.code, 130);
        assert!(ran.err.contains("cancelled: 1 step"), "{}", ran.err);
    }

    #[test]
    fn second_interrupt_ends_agent() {
        let stubborn = json!({"deaf_to": ["cancel"], "turns": [[{"text": "Working"}, {"stall": true}]]});
        let ran = interrupted(stubborn, &["end immediately"]);
        assert_eq!(ran.code, 130);
        assert!(ran.err.contains("kimi-agent: cancelled"), "{}", ran.err);
    }
}
