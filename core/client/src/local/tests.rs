//! What an agent asks of the ready handlers.

use serde_json::json;

use super::*;

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::create_dir(folder.path().join("root-of-others")).unwrap();
        std::fs::write(root.join("a.txt"), "text").unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        std::fs::write(folder.path().join("root-of-others/secret"), "secret").unwrap();
        Self { folder }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn path(&self, name: &str) -> String {
        self.root().join(name).to_string_lossy().into_owned()
    }

    async fn read(&self, path: &str) -> Result<Option<String>, String> {
        let request = serde_json::from_value(json!({"id": "1", "path": path})).unwrap();
        files(self.root()).max_bytes(100).reader()(request).await.map_err(|error| error.to_string())
    }

    async fn write(&self, path: &str, content: &str) -> Result<(), String> {
        let request = serde_json::from_value(json!({"id": "1", "path": path, "content": content})).unwrap();
        let files = files(self.root()).writable().max_bytes(100);
        files.writer()(request).await.map_err(|error| error.to_string())
    }

    async fn run(&self, script: &str, cwd: &str, limit: Duration) -> Result<TerminalResult, String> {
        let fields = json!({"command": "sh", "args": ["-c", script], "env": {"WORD": "word"}, "cwd": cwd});
        self.start(fields, limit).await
    }

    async fn start(&self, mut fields: Value, limit: Duration) -> Result<TerminalResult, String> {
        for (name, value) in
            [("id", json!("1")), ("args", json!([])), ("env", json!({})), ("cwd", json!(self.path(".")))]
        {
            fields.as_object_mut().unwrap().entry(name).or_insert(value);
        }
        let request = serde_json::from_value(fields).unwrap();
        terminals(self.root()).timeout(limit).runner()(request).await.map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn files_below_root_are_read_and_written() {
    let project = Project::new();
    assert_eq!(project.read(&project.path("a.txt")).await, Ok(Some("text".to_owned())));
    assert_eq!(project.read(&project.path("sub/../a.txt")).await, Ok(Some("text".to_owned())));
    project.write(&project.path("sub/new.txt"), "longer text").await.unwrap();
    project.write(&project.path("sub/new.txt"), "new").await.unwrap();
    assert_eq!(std::fs::read_to_string(project.root().join("sub/new.txt")).unwrap(), "new");
    project.write(&project.path("made/./of/x/../parts/new.txt"), "made").await.unwrap();
    assert_eq!(std::fs::read_to_string(project.root().join("made/of/parts/new.txt")).unwrap(), "made");
    assert!(!project.root().join("made/of/x").exists());
    assert!(project.read(&project.path("missing/new.txt")).await.is_err());
    assert!(!project.root().join("missing").exists());
    let request = serde_json::from_value(json!({"id": "1", "path": project.path("a.txt"), "content": "x"})).unwrap();
    let refused = files(project.root()).writer()(request).await.unwrap_err();
    assert!(refused.to_string().contains("does not allow writing"), "{refused}");
    let missing = serde_json::from_value(json!({"id": "1", "path": project.path("missing")})).unwrap();
    let missing = files(project.root()).reader()(missing).await.unwrap_err();
    assert_eq!(missing.downcast_ref::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::NotFound));
}

#[tokio::test]
async fn other_files_are_refused() {
    let project = Project::new();
    std::fs::write(project.root().join("long"), "x".repeat(101)).unwrap();
    std::fs::write(project.root().join("binary"), b"\xff").unwrap();
    let outside = project.folder.path().join("secret").to_string_lossy().into_owned();
    let mut paths = vec![
        outside.clone(),
        project.path("../secret"),
        project.path("sub/../../secret"),
        project.path("../root-of-others/secret"),
        project.path("../root-of-others/made/secret"),
        project.path("a.txt/made"),
        project.path(&"a/".repeat(200)),
        project.path("sub"),
        project.path("."),
        project.path("long"),
        project.path("binary"),
        "/etc/passwd".to_owned(),
    ];
    #[cfg(unix)]
    {
        use rustix::fs::{CWD, Mode, mkfifoat};

        std::os::unix::fs::symlink(&outside, project.root().join("link")).unwrap();
        std::os::unix::fs::symlink(project.folder.path(), project.root().join("up")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", project.root().join("zero")).unwrap();
        std::os::unix::fs::symlink("missing", project.root().join("dangling")).unwrap();
        mkfifoat(CWD, project.root().join("fifo"), Mode::RWXU).unwrap();
        std::os::unix::net::UnixListener::bind(project.root().join("socket")).unwrap();
        paths.extend(
            ["link", "up/secret", "up/made/secret", "dangling/made", "fifo/made", "zero", "dangling", "fifo", "socket"]
                .map(|name| project.path(name)),
        );
    }
    for path in paths {
        assert!(project.read(&path).await.is_err(), "{path}");
        if !path.ends_with("long") && !path.ends_with("binary") {
            assert!(project.write(&path, "mine").await.is_err(), "{path}");
        }
    }
    assert!(project.write(&project.path("a.txt"), &"x".repeat(101)).await.is_err());
    assert_eq!(std::fs::read_to_string(project.folder.path().join("secret")).unwrap(), "secret");
    assert_eq!(std::fs::read_to_string(project.root().join("a.txt")).unwrap(), "text");
    for name in ["root/missing", "made", "root-of-others/made", "root/a/a"] {
        assert!(!project.folder.path().join(name).exists(), "{name}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn replaced_root_is_refused() {
    use std::fs::{create_dir, read_to_string, rename};
    use std::os::unix::fs::symlink;

    for is_parent in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (parent, outside) = (folder.path().join("parent"), folder.path().join("outside"));
        let root = parent.join("root");
        std::fs::create_dir_all(&root).unwrap();
        create_dir(&outside).unwrap();
        create_dir(outside.join("root")).unwrap();
        for file in [root.join("a"), outside.join("a"), outside.join("root/a")] {
            std::fs::write(file, "text").unwrap();
        }
        let (project, commands) = (files(&root).writable(), terminals(&root));
        let path = root.join("a").to_string_lossy().into_owned();
        let read = async || {
            let request = serde_json::from_value(json!({"id": "1", "path": path})).unwrap();
            project.reader()(request).await
        };
        assert_eq!(read().await.unwrap().as_deref(), Some("text"));
        let replaced = if is_parent { &parent } else { &root };
        rename(replaced, folder.path().join("moved")).unwrap();
        symlink(&outside, replaced).unwrap();
        let reason = read().await.unwrap_err().to_string();
        assert!(reason.contains("moved or replaced"), "{reason}");
        let request = serde_json::from_value(json!({"id": "1", "path": path, "content": "mine"})).unwrap();
        project.writer()(request).await.unwrap_err();
        let request = json!({"id": "1", "command": "pwd", "args": [], "env": {}, "cwd": root});
        commands.runner()(serde_json::from_value(request).unwrap()).await.unwrap_err();
        for file in [outside.join("a"), outside.join("root/a")] {
            assert_eq!(read_to_string(file).unwrap(), "text");
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn written_file_keeps_mode_and_names() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    let project = Project::new();
    let (script, linked) = (project.root().join("script"), project.root().join("linked"));
    std::fs::write(&script, "old").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o750)).unwrap();
    std::fs::write(&linked, "old").unwrap();
    std::fs::hard_link(&linked, project.root().join("other name")).unwrap();
    for name in ["script", "linked"] {
        project.write(&project.path(name), "new").await.unwrap();
    }
    assert_eq!(script.metadata().unwrap().mode() & 0o7777, 0o750);
    assert_eq!(std::fs::read_to_string(&script).unwrap(), "new");
    assert_eq!(std::fs::read_to_string(project.root().join("other name")).unwrap(), "new");
    let names = std::fs::read_dir(project.root()).unwrap().count();
    assert_eq!(names, ["a.txt", "sub", "script", "linked", "other name"].len());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn full_disk_keeps_old_content() {
    let project = Project::new();
    let file = project.root().join("a.txt");
    let path = project.path("a.txt");
    // The limit of the size of files counts for the process, so a child process has it.
    if std::env::var_os("KIMI_AGENT_TEST_FULL").is_none() {
        let test = "local::tests::full_disk_keeps_old_content";
        let script = format!("trap '' XFSZ; ulimit -f 1; exec \"$0\" --exact {test}");
        let mut child = std::process::Command::new("sh");
        child.args(["-c", &script]).arg(std::env::current_exe().unwrap()).env("KIMI_AGENT_TEST_FULL", "1");
        assert!(child.output().unwrap().status.success());
        return;
    }
    let request = serde_json::from_value(json!({"id": "1", "path": path, "content": "x".repeat(100_000)})).unwrap();
    files(project.root()).writable().writer()(request).await.unwrap_err();
    assert_eq!(std::fs::read_to_string(file).unwrap(), "text");
    assert_eq!(std::fs::read_dir(project.root()).unwrap().count(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn commands_run_below_root() {
    let project = Project::new();
    let minute = Duration::from_secs(60);
    let result = project.run("pwd -P; echo $WORD; echo bad >&2; exit 3", &project.path("sub"), minute).await.unwrap();
    let real = project.root().canonicalize().unwrap().join("sub");
    assert_eq!(result.exit_code, Some(3));
    assert!(result.output.contains(&*real.to_string_lossy()) && result.output.contains("word\n"), "{result:?}");
    assert!(result.output.contains("bad\n"));
    std::os::unix::fs::symlink("/", project.root().join("out")).unwrap();
    for cwd in ["/", &project.path(".."), &project.path("out"), &project.path("a.txt"), &project.path("missing")] {
        assert!(project.run("true", cwd, minute).await.is_err(), "{cwd}");
    }
    let ended = project.run("kill -TERM $$", &project.path("."), minute).await.unwrap();
    assert_eq!((ended.exit_code, ended.signal.as_deref()), (None, Some("SIGTERM")));
    let missing = project.start(json!({"command": "no-such-program"}), minute).await.unwrap_err();
    assert_eq!(missing, "no-such-program: not found");
    std::fs::write(project.root().join("program"), "#!/bin/sh\n").unwrap();
    let here = project.start(json!({"command": "program", "env": {"PATH": ".::sub"}}), minute).await;
    assert_eq!(here.unwrap_err(), "program: not found");
}

#[cfg(unix)]
#[tokio::test]
async fn output_and_time_of_command_are_limited() {
    let project = Project::new();
    let root = project.path(".");
    let flood = project.run("head -c 20000000 /dev/zero; echo end", &root, Duration::from_secs(60)).await.unwrap();
    assert!(
        flood.output.len() == MAX_OUTPUT + MAX_CHARACTER && flood.output.ends_with("end\n"),
        "{}",
        flood.output.len()
    );
    // A process in the background keeps the output open.
    let left = project.run("sleep 1000 & echo done", &root, Duration::from_secs(60)).await.unwrap();
    assert_eq!((left.output.as_str(), left.exit_code), ("done\n", Some(0)));
    let killed = project.run("echo begun; sleep 1000", &root, Duration::from_millis(200)).await.unwrap();
    assert_eq!((killed.output.as_str(), killed.signal.as_deref()), ("begun\n", Some("SIGKILL")));
}
