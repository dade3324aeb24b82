use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::*;
use crate::{Error, HookDecision, OnError};

fn plain(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn wrong(result: crate::Result<impl Sized>) -> (String, String) {
    match result.err().unwrap() {
        Error::InvalidOption { option, reason } => (option, reason),
        other => unreachable!("{other}"),
    }
}

fn args(options: &SessionOptions) -> Vec<String> {
    options.launch().unwrap().args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
}

/// A program that is there on every system.
fn program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// An absolute path that leads to nothing.
const NOWHERE: &str = if cfg!(windows) { "C:\\no\\such" } else { "/no/such" };

fn tool(name: &str, parameters: Value) -> ExternalTool {
    ExternalTool::new(name, "", parameters, |_| async { Ok("") })
}

#[test]
fn unset_options_add_no_arguments() {
    let here = std::env::current_dir().unwrap();
    let options = SessionOptions::new().executable(program());
    assert_eq!(args(&options), ["--wire", &format!("--work-dir={}", here.display())]);
    assert_eq!(options.launch().unwrap().current_dir, here);
}

#[test]
fn set_options_become_arguments() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, "").unwrap();
        path
    };
    let options = SessionOptions::new()
        .executable([program().as_os_str(), "-m".as_ref(), "kimi_cli".as_ref()])
        .work_dir(dir.path())
        .session_id("s-1")
        .model("--looks-like-a-flag")
        .thinking(false)
        .yolo(true)
        .config_file(path("config.toml"))
        .agent_file(path("agent.yaml"))
        .skills_dir(dir.path())
        .max_steps_per_turn(7)
        .max_retries_per_step(2)
        .extra_args(["--afk"]);
    options.validate().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let dir = dir.path().display();
    let expected = [
        "-m".into(),
        "kimi_cli".into(),
        "--wire".into(),
        format!("--work-dir={dir}"),
        "--session=s-1".into(),
        "--model=--looks-like-a-flag".into(),
        "--no-thinking".into(),
        "--yolo".into(),
        format!("--config-file={}", file("config.toml")),
        format!("--agent-file={}", file("agent.yaml")),
        format!("--skills-dir={dir}"),
        "--max-steps-per-turn=7".into(),
        "--max-retries-per-step=2".into(),
        "--afk".into(),
    ];
    assert_eq!(args(&options), expected);
    assert!(args(&options.thinking(true)).contains(&"--thinking".to_owned()));
}

#[test]
fn private_files_are_removed() {
    let options = SessionOptions::new().executable(program()).config(json!({"a": 1}));
    let launch = options.launch().unwrap();
    let dir = launch.private.dir().unwrap().to_owned();
    assert_eq!(
        launch.args.last(),
        Some(&OsString::from(format!("--config-file={}", dir.join("config.json").display())))
    );
    assert_eq!(std::fs::read_to_string(dir.join("config.json")).unwrap(), r#"{"a":1}"#);
    drop(launch);
    assert!(!dir.exists());
}

#[test]
fn wrong_values_are_named() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let does_not_exist = format!("{NOWHERE} does not exist");
    let new = SessionOptions::new;
    let object = || json!({});
    let hook = |event: &str| Hook::new(event, |_| async { Ok(HookDecision::Allow) });
    let cases = [
        ("work_dir", new().work_dir(NOWHERE), does_not_exist.as_str()),
        ("work_dir", new().work_dir(&file), "is not a directory"),
        ("work_dir", new().work_dir(""), "it is empty"),
        ("work_dir", new().work_dir("a\0b"), "NUL"),
        ("session_id", new().session_id(""), "it is empty"),
        ("session_id", new().session_id("-x"), "got \"-x\""),
        ("session_id", new().session_id(".."), "got \"..\""),
        ("session_id", new().session_id("a/b"), "got \"a/b\""),
        ("session_id", new().session_id("x".repeat(129)), "at most 128"),
        ("model", new().model(""), "it is empty"),
        ("model", new().model("\0"), "NUL"),
        ("config_file", new().config_file("/no/such.toml"), "does not exist"),
        ("config_file", new().config_file(dir.path()), "is a directory"),
        ("config", new().config(json!([])), "expected an object, got a list"),
        ("config", new().config(object()).config_file(&file), "it cannot be combined with `config_file`"),
        ("executable", new().executable(""), "it is empty"),
        ("executable", new().executable(Vec::<String>::new()), "the list is empty"),
        ("executable", new().executable(["x", "\0"]), "NUL"),
        ("env", new().env([("", "x")]), "name is empty"),
        ("env", new().env([("A=B", "x")]), "contains `=`: it begins with \"A\""),
        ("env", new().env([("A\0", "x")]), "NUL"),
        ("env", new().env([("A", "secret\0")]), "the value of \"A\" contains a NUL byte"),
        ("mcp_configs", new().mcp_configs([object(), json!("x")]), "got text in it"),
        ("mcp_configs", new().mcp_configs([json!({"servers": {}})]), "expected an object with `mcpServers`"),
        ("enforce", new().enforce(Enforce::Calls), "\"calls\" needs `policy`"),
        ("place", new().place(Place::prefix(Vec::<String>::new())), "expected a program and its arguments"),
        ("place", new().place(Place::prefix(["a\0"])), "NUL"),
        ("agent_file", new().agent_file("/no/such.yaml"), "does not exist"),
        ("skills_dir", new().skills_dir(&file), "is not a directory"),
        ("tools", new().tool(tool("", object())), "needs a name"),
        ("tools", new().tool(tool("a b", object())), "\"a b\""),
        ("tools", new().tool(tool(&"x".repeat(65), object())), "at most 64"),
        ("tools", new().tool(tool("a", json!("x"))), "the parameters of `a` are text"),
        ("tools", new().tool(tool("a", json!({"x": {"type": "string"}}))), "they have `x`, and no `type`"),
        ("tools", new().tool(tool("a", json!({"type": "array"}))), "`a` have the type \"array\""),
        (
            "tools",
            new().tool(tool("a", json!({"properties": 3}))),
            "`properties` must be an object of schemas, got a number",
        ),
        (
            "tools",
            new().tool(tool("a", json!({"properties": {"b": "text"}}))),
            "`properties` must be an object of schemas",
        ),
        ("tools", new().tool(tool("a", json!({"required": "b"}))), "`required` must be a list of texts, got text"),
        ("tools", new().tool(tool("a", json!({"required": [1]}))), "`required` must be a list of texts"),
        ("tools", new().tool(tool("a", object())).tool(tool("a", object())), "two named `a`"),
        ("tools", new().tool(tool("a", object()).timeout(Duration::ZERO)), "the timeout of `a`"),
        ("hooks", new().hook(hook("")), "event is empty"),
        ("hooks", new().hook(hook("Stop").timeout(Duration::MAX)), "the timeout of a hook on `Stop`"),
        ("max_steps_per_turn", new().max_steps_per_turn(0), "at least 1"),
        ("max_retries_per_step", new().max_retries_per_step(0), "at least 1"),
        ("client_name", new().client_name(""), "it is empty"),
        ("client_version", new().client_version(""), "it is empty"),
        ("extra_args", new().extra_args(["\0"]), "NUL"),
        ("handshake_timeout", new().handshake_timeout(Duration::ZERO), "longer than 0"),
        ("cancel_timeout", new().cancel_timeout(Duration::ZERO), "longer than 0"),
        ("close_timeout", new().close_timeout(Duration::MAX), "at most ten years"),
        ("idle_timeout", new().idle_timeout(Duration::ZERO), "longer than 0"),
        ("turn_timeout", new().turn_timeout(Duration::MAX), "at most ten years"),
        ("session_budget", new().session_budget(crate::Budget::new()), "set at least one of `tokens`"),
        (
            "session_budget",
            new().session_budget(crate::Budget::new().usd(0.0)),
            "`usd`: expected more than 0 US dollars",
        ),
        ("prices", new().prices(crate::Prices::new()), "it has no model"),
        ("prices", new().prices(crate::Prices::new().model("m", crate::Price::new(-1.0, 1.0))), "from 0 on, got -1"),
        ("record", new().record(""), "it is empty"),
        ("redact", new().redact(["a", "("]), "redact[1]: \"(\" is not a regular expression"),
        ("max_line_bytes", new().max_line_bytes(0), "at least 1024 bytes, got 0"),
        ("event_buffer_bytes", new().event_buffer_bytes(1023), "at least 1024 bytes, got 1023"),
    ];
    for (expected, options, part) in cases {
        let (option, reason) = wrong(options.validate());
        assert_eq!(option, expected);
        assert!(reason.contains(part), "{expected}: {reason}");
        assert!(!reason.contains("secret"));
    }
}

#[test]
fn debug_shows_no_secrets() {
    let secret = "sk-canary";
    let options = SessionOptions::new()
        .config(json!({"key": secret}))
        .mcp_configs([json!({"key": secret})])
        .env([("API_KEY", secret)])
        .extra_args([secret])
        .model("kimi");
    let text = format!("{options:?} {options:#?}");
    assert!(!text.contains(secret), "{text}");
    assert!(text.contains("config: set, ") && text.contains("API_KEY") && text.contains("\"kimi\""), "{text}");
}

#[test]
fn json_is_read_in_both_namings() {
    let mut snake = json!({
        "work_dir": ".", "session_id": "s", "model": "m", "thinking": false, "yolo": true, "config_file": "c",
        "config": {"a": 1}, "executable": ["python3", "x.py"], "env": {"A": "B", "C": null},
        "inherit_env": ["D"], "mcp_configs": [{"m": {}}],
        "agent_file": "a", "skills_dir": "s", "max_steps_per_turn": 3, "max_retries_per_step": 2.0,
        "policy": {"allow": ["read"]}, "enforce": "calls", "on_approval": "manual", "on_question": "manual", "client_name": "n", "client_version": "v",
        "extra_args": ["--x"], "read_session_files": false, "dialect": "1.9", "handshake_timeout": 1.5, "cancel_timeout": 2, "close_timeout": 3,
        "idle_timeout": 4, "turn_timeout": 0.001, "max_line_bytes": 2048, "event_buffer_bytes": 4096,
        "session_budget": {"steps": 3}, "output": {"schema": {"type": "object"}},
        "record": "run.jsonl", "redact": ["ACME-[0-9]+"],
        "system_prompt": {"content": "Be brief.", "mode": "override"}, "additional_directories": ["."],
        "agent_meta": {"vendor": 1}, "auth": "api-key",
    });
    // The macro has a limit.
    snake["prices"] = json!({"m": {"input": 1, "output": 2.5}});
    snake["place"] = json!({"type": "prefix", "command": ["nice"]});
    let options = session_options(plain(snake.clone()), Naming::Snake).unwrap();
    assert_eq!(options.executable, Some(["python3", "x.py"].into()));
    assert_eq!(options.env, [("A".into(), "B".into())]);
    assert_eq!(options.inherited.removed, ["C"]);
    assert_eq!(options.inherited.rule, InheritEnv::Only(vec!["D".into()]));
    assert_eq!((options.max_steps_per_turn, options.max_retries_per_step), (Some(3), Some(2)));
    assert_eq!(options.dialect.to_string(), "1.9");
    assert_eq!(options.handshake_timeout, Duration::from_millis(1500));
    assert_eq!(options.turn_timeout, Some(Duration::from_millis(1)));
    assert_eq!((options.max_line_bytes, options.event_buffer_bytes), (2048, 4096));
    let functions =
        ["tools", "hooks", "on_event", "on_stderr", "on_read_file", "on_write_file", "on_terminal", "telemetry"];
    for option in declared::OPTIONS {
        let is_set = options.first_set(|other| other.name == option.name).is_some();
        assert!(is_set || functions.contains(&option.name), "{}", option.name);
    }

    // The same in the other language's words gives the same.
    let camel = snake
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| {
            let value = match name.ends_with("_timeout") {
                true => json!(value.as_f64().unwrap() * 1000.0),
                false => value.clone(),
            };
            (Naming::Camel.name(name), value)
        })
        .collect();
    let camel = session_options(camel, Naming::Camel).unwrap();
    assert_eq!(format!("{camel:?}"), format!("{options:?}"));

    let off = session_options([("telemetry".to_owned(), json!(false))].into_iter().collect(), Naming::Snake).unwrap();
    assert!(off.telemetry.is_none());

    // Null is the default.
    let nulls = snake.as_object().unwrap().keys().map(|name| (name.clone(), Value::Null)).collect();
    let options = session_options(nulls, Naming::Snake).unwrap();
    assert_eq!(format!("{options:?}"), format!("{:?}", SessionOptions::new()));
}

#[test]
fn declared_option_has_setter_and_reader() {
    let sources = [
        include_str!("mod.rs"),
        include_str!("behaviour.rs"),
        include_str!("place.rs"),
        include_str!("../telemetry/otel.rs"),
    ]
    .concat();
    let of_agents = include_str!("agent.rs");
    let of_prompts = include_str!("prompt.rs");
    let has_setter = |source: &str, name: &str| {
        source.contains(&format!("pub fn {name}(")) || source.contains(&format!("pub fn {name}<"))
    };
    for option in declared::OPTIONS {
        assert!(has_setter(&sources, option.name), "SessionOptions has no setter {}", option.name);
        let is_of_agent = matches!(option.scope, declared::Scope::Agent | declared::Scope::Both);
        assert_eq!(has_setter(of_agents, option.name), is_of_agent, "AgentOptions: {}", option.name);
        // A value of a wrong type is refused with the declared type.
        let takes_boolean = matches!(option.kind, declared::Kind::Boolean | declared::Kind::InheritEnv);
        let wrong_value = if takes_boolean { json!(1) } else { json!(true) };
        let given = [(option.name.to_owned(), wrong_value)].into_iter().collect();
        let (_, reason) = wrong(session_options(given, Naming::Snake));
        assert!(reason.contains(&option.kind.expected(Naming::Snake)), "{}: {reason}", option.name);
    }
    for option in declared::PROMPT_OPTIONS {
        assert!(has_setter(of_prompts, option.name), "PromptOptions has no setter {}", option.name);
    }
}

#[test]
fn invalid_json_error_uses_caller_naming() {
    let does_not_exist = format!("{NOWHERE} does not exist");
    let cases = [
        (json!({"workDir": 5}), "workDir", "expected a path, got a number"),
        (json!({"workDir": NOWHERE}), "workDir", does_not_exist.as_str()),
        (json!({"thinking": "yes"}), "thinking", "expected a boolean, got text"),
        (json!({"config": "secret"}), "config", "expected an object, got text"),
        (json!({"config": {}, "configFile": "/"}), "configFile", "is a directory"),
        (json!({"executable": 1}), "executable", "expected a path, or a list"),
        (json!({"executable": ["a", 1]}), "executable", "got a number in it"),
        (json!({"executable": [[{"text": "a"}]]}), "executable", "did you mean `scriptedAgent(…)`"),
        (json!({"env": {"A": 1}}), "env", "got a number for \"A\""),
        (json!({"mcpConfigs": {}}), "mcpConfigs", "expected a list of objects, got an object"),
        (json!({"mcpConfigs": ["x"]}), "mcpConfigs", "got text in it"),
        (json!({"maxStepsPerTurn": 0}), "maxStepsPerTurn", "got 0"),
        (json!({"maxStepsPerTurn": -1}), "maxStepsPerTurn", "got -1"),
        (json!({"maxStepsPerTurn": 1.5}), "maxStepsPerTurn", "got 1.5"),
        (json!({"maxStepsPerTurn": 1e12}), "maxStepsPerTurn", "expected a whole number from 1 on"),
        (json!({"onApproval": "yes"}), "onApproval", "expected a function or \"manual\", got \"yes\""),
        (json!({"onQuestion": true}), "onQuestion", "expected a function or \"manual\", got a boolean"),
        (json!({"onEvent": "x"}), "onEvent", "expected a function"),
        (json!({"tools": 1}), "tools", "expected a list of tools"),
        (json!({"dialect": "1.99"}), "dialect", "got \"1.99\""),
        (json!({"dialect": 1.1}), "dialect", "expected text"),
        (json!({"handshakeTimeout": 0}), "handshakeTimeout", "a duration longer than 0 (milliseconds), got 0"),
        (json!({"handshakeTimeout": -5}), "handshakeTimeout", "got -5"),
        (json!({"handshakeTimeout": 1e300}), "handshakeTimeout", "at most ten years"),
        (json!({"handshakeTimeout": "5s"}), "handshakeTimeout", "expected a number of milliseconds, got text"),
        (json!({"eventBufferBytes": 10}), "eventBufferBytes", "at least 1024"),
        (json!({"maxLineBytes": -1}), "maxLineBytes", "got -1"),
        (
            json!({"place": {}}),
            "place",
            "`type`: expected \"container\", \"prefix\", \"remote\", \"sandbox\" or \"ssh\", got none",
        ),
        (json!({"place": {"type": "sandbox", "write": "."}}), "place", "`write`: expected a list of text, got text"),
        (json!({"place": {"type": "sandbox", "network": 1}}), "place", "`network`: expected a boolean, got a number"),
        (json!({"place": {"type": "container"}}), "place", "expected either `image`, for a fresh container, or `name`"),
        (json!({"place": {"type": "container", "image": 1}}), "place", "`image`: expected text, got a number"),
        (json!({"place": {"type": "ssh", "host": "a"}}), "place", "`work_dir`: expected an absolute path on the host"),
        (json!({"place": {"type": "prefix", "command": "x"}}), "place", "`command`: expected a list of text, got text"),
        (json!({"place": {"type": "prefix", "paths": {"a": 1}}}), "place", "expected an object of paths, got a number"),
        (json!({"place": {"type": "prefix", "command": ["x"], "image": ""}}), "place", "it has no setting `image`"),
        (json!({"extraArgs": "--x"}), "extraArgs", "expected a list of text, got text"),
    ];
    for (value, expected, part) in cases {
        let result = session_options(plain(value), Naming::Camel).and_then(|options| options.validate());
        let (option, reason) = wrong(result);
        assert_eq!(option, expected);
        assert!(reason.contains(part), "{expected}: {reason}");
        assert!(!reason.contains("secret"));
    }
}

#[test]
fn unknown_name_error_has_suggestion() {
    let reason = |name: &str, naming| {
        let (option, reason) = wrong(session_options([(name.into(), json!(1))].into_iter().collect(), naming));
        assert_eq!(option, name);
        reason
    };
    let suggests = |known: &str| format!("unknown option; did you mean `{known}`?");
    assert_eq!(reason("workdir", Naming::Snake), suggests("work_dir"));
    assert_eq!(reason("workDir", Naming::Snake), suggests("work_dir"));
    assert_eq!(reason("work_dir", Naming::Camel), suggests("workDir"));
    assert_eq!(reason("modle", Naming::Camel), suggests("model"));
    assert_eq!(reason("on_aproval", Naming::Snake), suggests("on_approval"));
    assert_eq!(reason("onapproval", Naming::Camel), suggests("onApproval"));
    for (alias, known) in [
        ("cwd", "work_dir"),
        ("resume", "session_id"),
        ("timeout", "turn_timeout"),
        ("timout", "turn_timeout"),
        ("mcp_servers", "mcp_configs"),
        ("add_dirs", "additional_directories"),
        ("allowed_tools", "policy"),
        ("permission_mode", "policy"),
        ("output_schema", "output"),
        ("max_budget_usd", "session_budget"),
        ("append_system_prompt", "system_prompt"),
        ("model_name", "model"),
        ("api_key", "env"),
    ] {
        assert_eq!(reason(alias, Naming::Snake), suggests(known));
    }
    let of_prompt = format!("{} `budget` is an option of `prompt()`", suggests("session_budget"));
    assert_eq!(reason("budget", Naming::Snake), of_prompt);
    assert_eq!(reason("timeout", Naming::Camel), suggests("turnTimeout"));
    assert_eq!(reason("mcpServers", Naming::Camel), suggests("mcpConfigs"));
    assert_eq!(reason("addDirs", Naming::Camel), suggests("additionalDirectories"));
    assert_eq!(reason("pathToClaudeCodeExecutable", Naming::Camel), suggests("executable"));
    assert_eq!(reason("temperature", Naming::Snake), "unknown option");
    assert_eq!(reason("", Naming::Snake), "unknown option");
}

#[test]
fn schemas_without_object_type_are_accepted() {
    for schema in [
        json!({}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
        json!({"anyOf": [{"type": "object"}]}),
        json!({"properties": {"x": {}}}),
        json!({"type": "strange"}),
    ] {
        SessionOptions::new()
            .tool(tool("a", schema.clone()))
            .validate()
            .unwrap_or_else(|error| panic!("{schema}: {error}"));
    }
}

#[test]
fn mcp_server_named_program_is_refused() {
    let config = json!({"mcpServers": {"program": {"url": "http://127.0.0.1:1/"}}});
    let options = SessionOptions::new().mcp_configs([config]);
    assert_eq!(options.session_params("an agent").expect("no tools, no such server").mcp_servers.len(), 1);
    let tool = crate::ExternalTool::new("a", "", json!({}), |_| async { Ok(()) });
    let error = options.tool(tool).session_params("an agent").expect_err("taken");
    assert_eq!(error.code(), "invalid_option");
    assert!(error.to_string().contains("`program`"), "{error}");
}

#[test]
fn tool_json_is_validated() {
    let value = json!({"name": "t", "description": "d", "parameters": {"type": "object"}, "timeout": 500});
    let spec = parse_tool(value, Naming::Camel).unwrap();
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("t", "d"));
    assert_eq!(spec.parameters, json!({"type": "object"}));
    assert_eq!(spec.timeout, Some(Duration::from_millis(500)));
    let cases = [
        (json!(1), "got a number in it"),
        (json!({"description": "x"}), "a tool needs a name"),
        (json!({"name": 5}), "expected text in `name`, got a number"),
        (json!({"name": "a b", "parameters": {}}), "which \"a b\" is not"),
        (json!({"name": "t"}), "the tool `t`: expected an object (a JSON Schema) in `parameters`, got nothing"),
        (json!({"name": "t", "parameters": []}), "got a list"),
        (json!({"name": "t", "parameters": {}, "timeout": 0}), "the tool `t`: in `timeout`: expected a duration"),
        (
            json!({"name": "t", "params": {}}),
            "one of the tools has an unknown key `params`; expected only name, description, parameters, timeout",
        ),
    ];
    for (value, part) in cases {
        let (option, reason) = wrong(parse_tool(value, Naming::Snake));
        assert_eq!(option, "tools");
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn hook_json_is_validated() {
    let value = json!({"event": "Stop", "matcher": null, "timeout": 2.5, "onError": "block"});
    let spec = parse_hook(value, Naming::Camel).unwrap();
    let expected = HookSpec { event: "Stop".into(), matcher: None, timeout: None, on_error: OnError::Block };
    assert_eq!(HookSpec { timeout: None, ..spec.clone() }, expected);
    assert_eq!(spec.timeout, Some(Duration::from_micros(2500)));
    let cases = [
        (json!({"event": ""}), "a hook needs the name of an event"),
        (json!({}), "a hook needs the name of an event"),
        (
            json!({"event": "Stop", "on_error": "ignore"}),
            "expected \"allow\" or \"block\" in `on_error`, got \"ignore\"",
        ),
        (json!({"event": "Stop", "matcher": 1}), "expected text in `matcher`, got a number"),
        (json!({"event": "Stop", "timeout": "x"}), "expected a number of seconds, got text"),
    ];
    for (value, part) in cases {
        let (option, reason) = wrong(parse_hook(value, Naming::Snake));
        assert_eq!(option, "hooks");
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn program_without_acp_error_names_adapter() {
    let refused = |options: SessionOptions| options.program().unwrap_err().to_string();
    let options = SessionOptions::new().executable("codex");
    let expected = "invalid option `executable`: `codex` speaks ACP only through its adapter; pass `codex-acp` as \
                    `executable` (to install it, run `npm install -g @agentclientprotocol/codex-acp`)";
    assert_eq!(refused(options.clone()), expected);
    assert_eq!(refused(options.clone().dialect(Dialect::Acp)), expected);
    for other in [options.dialect(Dialect::Legacy), SessionOptions::new().executable("/no/such/codex")] {
        assert_eq!(other.program().unwrap_err().code(), "spawn_error");
    }
}

#[cfg(unix)]
mod look_up;

#[cfg(windows)]
mod look_up {
    use super::super::executable::{Surroundings, resolve};
    use super::*;

    fn put(dir: &Path, names: &[&str]) {
        std::fs::create_dir_all(dir).unwrap();
        for name in names {
            std::fs::write(dir.join(name), "").unwrap();
        }
    }

    fn find(program: impl Into<Executable>, path: &[&Path]) -> Result<PathBuf, String> {
        let path = std::env::join_paths(path).unwrap();
        let host = |name: &str| (name == "PATH").then(|| path.clone());
        let around = Surroundings { env: &[], host: &host, dialect: Dialect::Auto, paths: None };
        resolve(Some(&program.into()), &around).map(|(path, _)| path).map_err(|error| {
            assert_eq!(error.code(), "spawn_error");
            error.to_string()
        })
    }

    #[test]
    fn name_without_extension_finds_same_as_shell() {
        let dir = TempDir::new().unwrap();
        let [npm, uv, both] = ["npm ü", "uv", "both"].map(|name| dir.path().join(name));
        // npm leaves a script for other shells, too.
        put(&npm, &["kimi", "kimi.cmd", "kimi.ps1", "kimi-1.5", "kimi-1.5.CMD"]);
        put(&uv, &["kimi.exe"]);
        put(&both, &["kimi.cmd", "kimi.exe"]);
        assert_eq!(find("kimi", &[&npm, &uv]), Ok(npm.join("kimi.cmd")));
        assert_eq!(find("kimi", &[&uv, &npm]), Ok(uv.join("kimi.exe")));
        assert_eq!(find("kimi", &[&both]), Ok(both.join("kimi.exe")));
        assert_eq!(find("kimi.cmd", &[&uv, &both]), Ok(both.join("kimi.cmd")));
        assert_eq!(find("kimi-1.5", &[&npm]), Ok(npm.join("kimi-1.5.CMD")));
        assert_eq!(find(npm.join("kimi"), &[]), Ok(npm.join("kimi.cmd")));
        assert_eq!(find(uv.join("kimi.exe"), &[]), Ok(uv.join("kimi.exe")));
    }

    #[test]
    fn program_in_current_directory_is_not_found() {
        let here = std::env::current_dir().unwrap();
        let program = tempfile::Builder::new().suffix(".exe").tempfile_in(here).unwrap();
        let name = program.path().file_stem().unwrap();
        for path in [[Path::new("")].as_slice(), &[Path::new(NOWHERE)]] {
            let text = find(name, path).unwrap_err();
            assert!(text.contains("not found on PATH") || text.contains("PATH is empty"), "{text}");
        }
    }

    #[test]
    fn script_is_not_reported_missing() {
        let dir = TempDir::new().unwrap();
        put(dir.path(), &["agent.js", "agent.py", "shell", "run.ps1"]);
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        for name in ["agent.js", "agent.py", "shell", "run.ps1"] {
            let expected = "is not a program that Windows can start (.com, .exe, .bat, .cmd); for a script, pass a list of \
                            its interpreter and its path";
            let script = dir.path().join(name);
            let text = find(&script, &[]).unwrap_err();
            assert!(text.contains(&script.display().to_string()) && text.ends_with(expected), "{text}");
            let text = find(name, &[dir.path()]).unwrap_err();
            assert!(text.contains("on PATH there is only what can't be run") && text.contains(expected), "{text}");
        }
        assert!(find(dir.path().join("folder"), &[]).unwrap_err().ends_with("is a directory"));
        let text = find("missing", &[dir.path()]).unwrap_err();
        let expected = "can't start the agent: `missing` (from the `executable` option): not found on PATH: ";
        assert_eq!(text, format!("{expected}{}", dir.path().display()));
    }
}
