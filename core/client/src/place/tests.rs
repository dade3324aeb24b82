//! Command lines and paths of agents in places. No process is started.

use serde_json::json;

use super::*;
use crate::SessionOptions;
use crate::dialect::AgentKind;
use crate::options::Dialect;

/// A command line of an agent in the root directory.
pub(super) fn launch(program: &str, args: &[&str]) -> Launch {
    Launch {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        env: Vec::new(),
        inherited: Default::default(),
        current_dir: std::path::absolute("/").unwrap(),
        private: Default::default(),
        server: None,
        is_gateway: false,
        placed: Default::default(),
    }
}

fn this() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn words(launch: &Launch) -> Vec<String> {
    let words = std::iter::once(launch.program.as_os_str()).chain(launch.args.iter().map(OsString::as_os_str));
    words.map(|word| word.to_str().unwrap().to_owned()).collect()
}

fn settled(options: SessionOptions) -> SessionOptions {
    let mut options = options;
    options.validate().unwrap();
    options.settle_place().unwrap();
    options.check_placed().unwrap();
    options
}

#[test]
fn prefix_comes_before_the_agent() {
    let this = this();
    let prefix = Place::prefix([this.as_os_str(), "-x".as_ref()]);
    let options = settled(SessionOptions::new().executable([this.to_str().unwrap(), "serve"]).place(prefix));
    let launch = options.placed(options.launch_acp(None, false).unwrap()).unwrap();
    let this = this.to_str().unwrap();
    assert_eq!(words(&launch), [this, "-x", this, "serve"]);
    assert!(launch.placed.paths.is_none());
}

#[test]
fn program_of_another_place_is_not_searched_here() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::prefix([this()]).path(".", "/work");
    let options = settled(SessionOptions::new().work_dir(dir.path()).executable("no-such-agent").place(place));
    let launch = options.placed(options.launch().unwrap()).unwrap();
    assert_eq!(words(&launch), [this().to_str().unwrap(), "no-such-agent", "--wire", "--work-dir=/work"]);
    assert!(launch.placed.paths.is_some());
    let known = Some(AgentKind::Other(crate::dialect::KnownAgent::of_program(Path::new("gemini")).unwrap()));
    let options = options.executable("gemini").dialect(Dialect::Acp);
    assert_eq!(options.launch_acp(known, false).unwrap().args, ["--acp"]);
}

#[test]
fn files_of_the_agent_have_its_paths() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.yaml");
    std::fs::write(&file, "").unwrap();
    let place = || Place::prefix([this()]).path(".", "/work");
    let options = SessionOptions::new().work_dir(dir.path()).executable("kimi");
    let launch = settled(options.clone().agent_file(&file).place(place())).launch().unwrap();
    assert!(launch.args.contains(&"--agent-file=/work/agent.yaml".into()), "{:?}", launch.args);
    // Its file is in a private folder of this machine.
    let error = settled(options.config(json!({"a": 1})).place(place())).launch().err().unwrap().to_string();
    assert!(error.starts_with("invalid option `config`: ") && error.contains("outside of the directories"), "{error}");
}

#[test]
fn directories_outside_are_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut options =
        SessionOptions::new().work_dir(other.path()).place(Place::prefix([this()]).path(dir.path(), "/work"));
    options.settle_place().unwrap();
    let error = options.check_placed().unwrap_err().to_string();
    assert!(error.starts_with("invalid option `work_dir`: "), "{error}");
    let mut options = options.work_dir(dir.path()).additional_directories([other.path()]);
    options.settle_place().unwrap();
    let error = options.check_placed().unwrap_err().to_string();
    assert!(error.starts_with("invalid option `additional_directories`: "), "{error}");
    let mut missing = SessionOptions::new().place(Place::prefix([this()]).path("no-such-folder", "/work"));
    let error = missing.settle_place().unwrap_err().to_string();
    assert!(error.starts_with("invalid option `place`: `paths`: ") && error.ends_with("does not exist"), "{error}");
}

#[test]
fn missing_program_of_place_is_an_error() {
    let options =
        settled(SessionOptions::new().executable([this()]).place(Place::prefix(["no-such-program-anywhere"])));
    let error = options.placed(options.launch().unwrap()).err().unwrap();
    assert_eq!(error.code(), "spawn_error");
    assert!(error.to_string().contains("no-such-program-anywhere (from the option `place`) was not found"), "{error}");
}

#[test]
fn servers_of_this_machine_are_unreachable() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::prefix([this()]).path(dir.path(), "/work");
    let options = settled(SessionOptions::new().work_dir(dir.path()).place(place));
    for (url, is_refused) in [
        ("http://127.0.0.1:8000/mcp", true),
        ("http://LOCALHOST/mcp", true),
        ("http://user@[::1]:80/mcp", true),
        ("http://0.0.0.0/", true),
        ("https://example.com/127.0.0.1", false),
    ] {
        let servers = json!({"mcpServers": {"docs": {"url": url}}});
        assert_eq!(options.clone().mcp_configs([servers.clone()]).session_params("it").is_err(), is_refused, "{url}");
        assert!(SessionOptions::new().mcp_configs([servers]).session_params("it").is_ok());
    }
}

#[test]
fn remote_agent_shows_no_secrets() {
    for (url, shown) in [
        ("wss://agents.example/acp?token=canary", "wss://agents.example/acp"),
        ("wss://me:canary@agents.example/acp#canary", "wss://agents.example/acp"),
        ("wss://a@canary@agents.example", "wss://agents.example"),
        ("wss://agents.example/a@b", "wss://agents.example/a@b"),
        ("canary@agents.example", "agents.example"),
    ] {
        let place = Place::from(Place::remote(url).header("Authorization", "canary"));
        assert_eq!(place.address().as_deref(), Some(shown));
        let debug = format!("{place:?}");
        assert!(debug.contains("Authorization") && !debug.contains("canary"), "{debug}");
    }
}
