//! `testing::scripted_agent`: this test binary starts itself as the agent.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use kimi_agent::testing::{Script, ScriptedAgent, scripted_agent};
use kimi_agent::{AgentOptions, Error, Executable, Session};
use serde_json::json;

fn start(agent: &ScriptedAgent) -> Child {
    Command::new(&agent[0])
        .args(&agent[1..])
        .arg("--wire")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent starts")
}

#[test]
fn host_program_can_run_as_agent() {
    let agent = scripted_agent(json!({"server": {"name": "myself"}}));
    let mut child = start(&agent);
    let line = "{\"id\":\"1\",\"method\":\"initialize\",\"params\":{\"protocol_version\":\"1.10\"}}\n";
    child.stdin.as_mut().expect("stdin").write_all(line.as_bytes()).expect("it listens");
    let mut answer = String::new();
    BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut answer).expect("it answers");
    assert!(answer.contains("\"name\":\"myself\""), "{answer}");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn script_lives_as_long_as_agent() {
    let agent = scripted_agent(r#"[[{"text": "hi"}]]"#);
    let command: Vec<OsString> = (&agent).into();
    let path = std::path::PathBuf::from(command.last().expect("a script"));
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), r#"[[{"text": "hi"}]]"#);
    assert_eq!(Executable::from(&agent).args().last(), command.last());
    drop(agent);
    assert!(!path.exists());
}

#[tokio::test]
async fn options_own_script_of_dropped_agent() -> kimi_agent::Result<()> {
    let options = Session::builder().executable(scripted_agent(r#"[[{"text": "hi"}]]"#));
    let session = options.clone().start().await?;
    assert_eq!(session.prompt("hello")?.result().await?.text, "hi");
    session.close().await?;
    let session = options.start().await?;
    session.close().await
}

#[test]
fn script_file_is_kept() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[]").expect("written");
    let agent = scripted_agent(file.path());
    assert_eq!(agent.last().map(OsString::as_os_str), Some(file.path().as_os_str()));
    drop(agent);
    assert!(file.path().exists());
}

#[test]
fn script_can_be_checked_without_being_run() {
    assert_eq!(Script::from(json!([[{"text": "hi"}]])).check(), Ok(()));
    let error = Script::from("[[{}]]").check().expect_err("wrong");
    assert!(
        matches!(&error, Error::InvalidOption { option, reason } if option == "script" && reason.contains("turn 1"))
    );
    let error = Script::from(std::path::Path::new("no/such.json")).check().expect_err("wrong");
    assert!(error.to_string().contains("no/such.json: can't read it"));
}

#[tokio::test]
async fn session_runs_with_scripted_agent() -> kimi_agent::Result<()> {
    let agent = scripted_agent(json!([[{"text": "You said {{prompt}}."}]]));
    let session = Session::builder().executable(&agent).start().await?;
    assert_eq!(session.server().map(|server| &*server.name), Some("kimi-scripted-agent"));
    assert_eq!(session.prompt("hi")?.result().await?.text, "You said hi.");
    session.close().await
}

#[tokio::test]
async fn invalid_script_error_names_problem() {
    let agent = scripted_agent(json!([[{"txt": "hi"}]]));
    let error = Session::builder().executable(&agent).start().await.expect_err("wrong");
    assert!(error.to_string().contains("turn 1, action 1: unknown action \"txt\""), "{error}");
    assert_eq!(error.code(), "invalid_option");
}

#[test]
fn path_as_text_of_script_error_names_remedy() {
    let options = Session::builder().executable(scripted_agent("greeting.json"));
    let error = options.validate().expect_err("wrong").to_string();
    assert!(error.contains("for a file, pass `Path::new(\"greeting.json\")`"), "{error}");
    let error = AgentOptions::new().executable(scripted_agent("{}{}")).open().expect_err("wrong").to_string();
    assert!(error.contains("the script of the agent is wrong"), "{error}");
}

#[test]
fn scripts_in_documentation_are_right() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/scripted-agent.md");
    let page = std::fs::read_to_string(page).expect("the page on testing");
    let scripts: Vec<_> = page.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(scripts.len() > 10, "the page has lost its examples");
    for script in scripts {
        assert_eq!(Script::from(script).check(), Ok(()), "{script}");
    }
}
