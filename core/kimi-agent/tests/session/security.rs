//! Secrets stay secret, and passed values arrive unchanged. `docs/evidence/security.md` has the whole promise.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kimi_agent::testing::scripted_agent;
use kimi_agent::{Session, SessionOptions};
use kimi_agent_protocol::error::fields;
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt;

/// Different secrets, so that a leak shows its source.
const CONFIG: &str = "canary-of-config-71f0";
const MCP: &str = "canary-of-mcp-52aa";
const ENV: &str = "canary-of-env-9c3d";

fn secretive(options: SessionOptions) -> SessionOptions {
    options
        .config(json!({"providers": {"p": {"type": "kimi", "api_key": CONFIG}}}))
        .mcp_configs([json!({"mcpServers": {"docs": {"command": "x", "env": {"TOKEN": MCP}}}})])
        .env([("API_TOKEN", ENV)])
}

#[track_caller]
fn holds_no_secret(what: &str, text: &str) {
    for secret in [CONFIG, MCP, ENV] {
        assert!(!text.contains(secret), "{what} holds {secret}: {text}");
    }
}

/// A program that records its arguments and environment, and then runs these commands.
fn recorder(dir: &Path, then: &str) -> PathBuf {
    let path = dir.join("re corder $(x) ü");
    let text = format!(
        "#!/bin/sh\nd=$(dirname \"$0\")\ncat /proc/$$/cmdline > \"$d/argv\"\ncat /proc/$$/environ > \"$d/environ\"\n{then}\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn recorded(dir: &Path, what: &str) -> Vec<OsString> {
    let text = std::fs::read(dir.join(what)).unwrap();
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    text.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect()
}

fn private_files(arguments: &[OsString]) -> Vec<PathBuf> {
    let file = |argument: &OsString| {
        let (flag, path) = argument.to_str()?.split_once('=')?;
        ["--config-file", "--mcp-config-file"].contains(&flag).then(|| PathBuf::from(path))
    };
    arguments.iter().filter_map(file).collect()
}

/// Waits until a folder is deleted. The system reports that.
async fn gone(path: &Path) {
    use rustix::fs::inotify;

    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    match inotify::add_watch(&watch, path, inotify::WatchFlags::DELETE_SELF) {
        Err(rustix::io::Errno::NOENT) => return,
        added => drop(added.unwrap()),
    }
    let waiting = tokio::task::spawn_blocking(move || {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
        let mut told = inotify::Reader::new(&watch, &mut buffer);
        told.next().map(|event| event.events())
    });
    let events = waiting.await.unwrap().unwrap();
    assert!(events.contains(inotify::ReadFlags::DELETE_SELF) && !path.exists(), "{events:?}");
}

/// Everything that is logged, at the finest level, on every thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn secrets_appear_in_no_output() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).init();
    let dir = tempfile::TempDir::new().unwrap();

    // An agent that works, one that exits at once, one that can't be started, and one that is refused.
    // Lines that are not messages are shown without the values.
    let echo = format!("echo {CONFIG} and {MCP}, {ENV}");
    let agent = scripted_agent(json!([[{"raw": echo}, {"text": "fine"}, {"exit": 3}]]));
    let options = secretive(SessionOptions::new().executable(&agent));
    holds_no_secret("the options' debug output", &format!("{options:?} {options:#?}"));
    let session = options.start().await.unwrap();
    holds_no_secret("the session's debug output", &format!("{session:?}"));
    let arguments = std::fs::read(format!("/proc/{}/cmdline", session.pid().unwrap())).unwrap();
    holds_no_secret("the command line", &String::from_utf8_lossy(&arguments));
    let mut turn = session.prompt("hi").unwrap();
    holds_no_secret("the turn's debug output", &format!("{turn:?}"));
    let mut errors = vec![turn.result().await.unwrap_err()];
    errors.push(session.set_plan_mode(true).await.unwrap_err());
    let exits = recorder(dir.path(), "exit 3");
    errors.push(secretive(SessionOptions::new().executable(&exits)).start().await.unwrap_err());
    errors.push(secretive(SessionOptions::new().executable(dir.path())).start().await.unwrap_err());
    errors.push(secretive(SessionOptions::new()).executable("/no/such").start().await.unwrap_err());
    errors.push(secretive(SessionOptions::new()).config_file("/no/such").start().await.unwrap_err());
    errors.push(SessionOptions::new().env([(format!("API_TOKEN={ENV}"), "x")]).start().await.unwrap_err());
    errors.push(SessionOptions::new().env([("API_TOKEN", format!("{ENV}\0"))]).start().await.unwrap_err());
    errors.push(SessionOptions::new().config(json!([CONFIG])).start().await.unwrap_err());
    errors.push(SessionOptions::new().config(json!(CONFIG)).start().await.unwrap_err());
    errors.push(SessionOptions::new().mcp_configs([json!(MCP)]).start().await.unwrap_err());
    for error in &errors {
        holds_no_secret("an error", &format!("{error} {error:?} {:?}", fields(error)));
    }
    let codes: Vec<_> = errors.iter().map(kimi_agent::Error::code).collect();
    let (exited, spawn, option) = ("agent_exited", "spawn_error", "invalid_option");
    assert_eq!(
        codes,
        [exited, exited, exited, spawn, spawn, option, option, option, option, option, option],
        "{errors:?}"
    );

    let log = log.0.lock().unwrap().clone();
    assert!(log.contains("agent started"), "{log}");
    holds_no_secret("the log", &log);
}

#[cfg(feature = "kimi-web")]
#[tokio::test]
async fn server_secret_is_only_in_environment() {
    let lines = Log::default();
    let (stderr, dialect) = (lines.clone(), kimi_agent::Dialect::KimiWeb);
    let agent = scripted_agent(json!([[{"text": "fine"}], [{"exit": 3}]]));
    let options = SessionOptions::new().executable(&agent).dialect(dialect);
    let options = options.on_stderr(move |line| stderr.0.lock().unwrap().push_str(line));
    let session = options.start().await.unwrap();
    let pid = session.pid().unwrap();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let secret = environment.split('\0').find_map(|row| row.strip_prefix("KIMI_CODE_PASSWORD=")).unwrap();
    assert!(secret.len() >= 64);
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains(secret));
    let mut turn = session.prompt("hi").unwrap();
    while let Some(event) = turn.next().await {
        assert!(!format!("{event:?}").contains(secret));
    }
    let error = session.prompt("go").unwrap().result().await.unwrap_err();
    assert_eq!(error.code(), "agent_exited");
    let shown = format!("{session:?} {error} {error:?} {:?} {}", fields(&error), lines.0.lock().unwrap());
    assert!(!shown.contains(secret), "{shown}");
}

#[test]
fn leak_is_found_by_these_tests() {
    for secret in [CONFIG, MCP, ENV] {
        let leak = format!("Options {{ deep: Some([\"{secret}\"]) }}");
        assert!(std::panic::catch_unwind(|| holds_no_secret("this", &leak)).is_err());
    }
    holds_no_secret("this", "harmless");
}

#[tokio::test]
async fn private_files_are_deleted_with_session() {
    let dir = tempfile::TempDir::new().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
    for ends in ["close", "drop", "exit", "refusal"] {
        let agent = match ends {
            "exit" => scripted_agent(json!([[{"exit": 3}]])),
            "refusal" => scripted_agent(json!({"before_handshake": [{"exit": 4}]})),
            _ => scripted_agent(json!([[{"text": "fine"}]])),
        };
        let words: Vec<_> = agent.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        let program = recorder(dir.path(), &format!("exec {} \"$@\"", words.join(" ")));
        let opened = secretive(SessionOptions::new().executable(&program)).start().await;
        if ends == "refusal" {
            assert_eq!(opened.unwrap_err().code(), "agent_exited");
        } else {
            let session = opened.unwrap();
            let files = private_files(&recorded(dir.path(), "argv"));
            assert_eq!(files.len(), 2);
            for (file, secret) in files.iter().zip([CONFIG, MCP]) {
                assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700));
                assert!(std::fs::read_to_string(file).unwrap().contains(secret));
            }
            match ends {
                "close" => session.close().await.unwrap(),
                "drop" => drop(session),
                _ => drop(session.prompt("hi").unwrap().result().await.unwrap_err()),
            }
        }
        let files = private_files(&recorded(dir.path(), "argv"));
        let folder = files[0].parent().unwrap().to_owned();
        assert!(ends != "close" || !folder.exists(), "{folder:?} is still there");
        // The driver does the rest in the background.
        gone(&folder).await;
    }
}

#[tokio::test]
async fn arguments_arrive_unchanged() {
    let dir = tempfile::TempDir::new().unwrap();
    let program = recorder(dir.path(), "exit 0");
    let odd = dir.path().join("a b\n\"c\" 'd' $(touch owned) `x` ; & | * ? ~ \\ -- é 文");
    std::fs::create_dir(&odd).unwrap();
    let bytes = OsString::from_vec(b"not unicode \xff".to_vec());
    let extra = ["$(touch owned)", "`touch owned`", ";touch owned", "*", "~", "", " ", "\n", "'", "\"", "\\", "--"];
    let error = SessionOptions::new()
        .executable([program.as_os_str(), "first $HOME".as_ref(), bytes.as_os_str()])
        .work_dir(&odd)
        .model("--yolo")
        .agent_file(&program)
        .extra_args(extra.iter().map(OsString::from).chain([bytes.clone()]))
        .dialect(kimi_agent::Dialect::Wire(kimi_agent::WireVersion::LATEST))
        .start()
        .await
        .unwrap_err();
    assert_eq!(error.code(), "agent_exited");
    let argv = recorded(dir.path(), "argv");
    let own = argv.iter().position(|word| word == "first $HOME").unwrap();
    let flag =
        |name: &str, value: &Path| OsString::from_vec([name.as_bytes(), b"=", value.as_os_str().as_bytes()].concat());
    let mut expected: Vec<OsString> = vec!["first $HOME".into(), bytes.clone(), "--wire".into()];
    expected.push(flag("--work-dir", &odd));
    expected.push(argv[own + 4].clone());
    assert!(argv[own + 4].to_str().unwrap().starts_with("--session="));
    expected.push("--model=--yolo".into());
    expected.push(flag("--agent-file", &program));
    expected.extend(extra.iter().map(OsString::from));
    expected.push(bytes);
    assert_eq!(argv[own..], expected);
    // Nothing of it was run by a shell.
    assert!(!odd.join("owned").exists() && !Path::new("owned").exists());
}

/// Every option that becomes an argument, with values that a careless agent could take for flags of its own.
#[tokio::test]
async fn flag_like_option_values_stay_values() {
    type Set = fn(SessionOptions, &str, &Path) -> SessionOptions;
    let table: [(&str, bool, Set); 6] = [
        ("--model", false, |options, value, _| options.model(value)),
        ("--work-dir", true, |options, _, path| options.work_dir(path)),
        ("--skills-dir", true, |options, _, path| options.skills_dir(path)),
        ("--config-file", true, |options, _, path| options.config_file(path.join("file"))),
        ("--agent-file", true, |options, _, path| options.agent_file(path.join("file"))),
        ("--session", false, |options, value, _| options.session_id(value)),
    ];
    let dir = tempfile::TempDir::new().unwrap();
    let program = recorder(dir.path(), "exit 0");
    for value in ["--yolo", "-x", "--", "-", "--config-file=x", "--yolo\n--yolo", "--yolo --yolo"] {
        let odd = dir.path().join(value);
        std::fs::create_dir(&odd).unwrap();
        std::fs::write(odd.join("file"), "").unwrap();
        for (name, is_path, set) in &table {
            let wire = kimi_agent::Dialect::Wire(kimi_agent::WireVersion::LATEST);
            let options = SessionOptions::new().executable(&program).dialect(wire);
            let error = set(options, value, &odd).start().await.unwrap_err();
            if *name == "--session" {
                // A directory is made of it: it is refused before anything is started.
                assert_eq!(fields(&error)["option"], "session_id", "{value}: {error}");
                continue;
            }
            assert_eq!(error.code(), "agent_exited", "{name} {value}: {error}");
            let argv = recorded(dir.path(), "argv");
            let own = argv.iter().position(|word| word == "--wire").unwrap();
            let words: Vec<_> = argv[own + 1..].iter().map(|word| word.to_str().unwrap()).collect();
            let given = if *is_path { odd.display().to_string() } else { value.to_owned() };
            let expected = format!("{name}={given}{}", if name.ends_with("-file") { "/file" } else { "" });
            assert!(words.contains(&expected.as_str()), "{words:?} {expected}");
            let known = ["--work-dir=", "--session=", name];
            assert!(words.iter().all(|word| known.iter().any(|flag| word.starts_with(flag))), "{words:?}");
        }
    }
}

#[tokio::test]
async fn agent_gets_host_environment_and_env() {
    let dir = tempfile::TempDir::new().unwrap();
    let program = recorder(dir.path(), "exit 0");
    let odd = "a b\n$(touch owned) = é";
    let options = SessionOptions::new().executable(&program).env([("KIMI_SDK_TEST", odd), ("HOME", "/elsewhere")]);
    assert_eq!(options.start().await.unwrap_err().code(), "agent_exited");
    let split = |word: &OsString| {
        let bytes = word.as_bytes();
        let equals = bytes.iter().position(|&byte| byte == b'=').unwrap();
        (OsString::from_vec(bytes[..equals].to_vec()), OsString::from_vec(bytes[equals + 1..].to_vec()))
    };
    let found: BTreeMap<_, _> = recorded(dir.path(), "environ").iter().map(split).collect();
    let mut expected: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    expected.insert("KIMI_SDK_TEST".into(), odd.into());
    expected.insert("HOME".into(), "/elsewhere".into());
    assert_eq!(found, expected);
}

/// Not a test of its own: a program that is killed in the middle of a session.
#[tokio::test]
#[ignore = "started by the test below"]
async fn host_killed_during_session() {
    let agent = scripted_agent(json!([[{"text": "fine"}]]));
    let options = secretive(SessionOptions::new().executable(&agent));
    let _session = options.start().await.unwrap();
    println!("it is open");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn files_of_killed_host_are_swept() {
    let tmp = tempfile::TempDir::new().unwrap();
    let inside =
        |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    // All stand in the common folder.
    let entries = || match &inside(tmp.path())[..] {
        [common] => inside(common),
        others => panic!("{others:?}"),
    };
    let mut first = host(tmp.path()).await;
    // The script's, and that of the configuration.
    let left = entries();
    assert_eq!(left.len(), 2, "{left:?}");
    first.kill().await.unwrap();
    assert_eq!(entries().len(), 2);
    // The next one, whose own stay.
    let mut second = host(tmp.path()).await;
    for path in &left {
        gone(path).await;
    }
    assert_eq!(entries().len(), 2);
    second.kill().await.unwrap();
}

/// The program above, with a folder of its own for temporary files, when its session is open.
async fn host(tmp: &Path) -> tokio::process::Child {
    let mut host = tokio::process::Command::new(std::env::current_exe().unwrap());
    host.args(["--exact", "security::host_killed_during_session", "--include-ignored", "--nocapture"]);
    host.env("TMPDIR", tmp).stdout(std::process::Stdio::piped()).kill_on_drop(true);
    let mut host = host.spawn().unwrap();
    let mut said = tokio::io::BufReader::new(host.stdout.take().unwrap()).lines();
    while !said.next_line().await.unwrap().expect("the program has ended").contains("it is open") {}
    host
}

/// A value that an agent sends may name any path: nothing of the SDK's opens it.
#[tokio::test]
async fn paths_from_agent_are_not_opened() {
    let dir = tempfile::TempDir::new().unwrap();
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "untouched").unwrap();
    let path = victim.to_str().unwrap();
    let script = json!([[
        {"event": {"type": "PlanDisplay", "payload": {"content": "x", "file_path": path}}},
        {"event": {"type": "ContentPart", "payload": {"type": "image_url", "image_url": {"url": format!("file://{path}")}}}},
        {"text": "fine"},
    ]]);
    let session = Session::builder().executable(scripted_agent(script)).start().await.unwrap();
    let before = std::fs::metadata(&victim).unwrap();
    let mut turn = session.prompt("hi").unwrap();
    let mut told = Vec::new();
    while let Some(event) = turn.next().await {
        let event: Value = serde_json::to_value(event.unwrap()).unwrap();
        told.push(event.to_string());
    }
    assert_eq!(told.iter().filter(|event| event.contains(path)).count(), 2);
    let after = std::fs::metadata(&victim).unwrap();
    assert_eq!((after.atime_nsec(), after.mtime_nsec()), (before.atime_nsec(), before.mtime_nsec()));
    session.close().await.unwrap();
}
