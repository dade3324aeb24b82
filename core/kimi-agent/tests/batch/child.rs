//! A batch in a process of its own, which tests kill.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Mutex;

use kimi_agent::batch::{BatchOptions, Job, Workspace};
use kimi_agent::{ExternalTool, SessionOptions, run_batch};
use serde_json::{Value, json};

use super::with;

/// The beginning of lines for the parent.
const MARK: &str = "child: ";

/// The other process.
pub(super) struct Child {
    process: std::process::Child,
    lines: Mutex<Lines<BufReader<ChildStdout>>>,
}

impl Child {
    /// Starts this program again, which then runs only the test below.
    pub(super) fn start(variables: &[(&str, &OsStr)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child::batch_of_child", "--nocapture"]).envs(variables.iter().copied());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = Mutex::new(BufReader::new(process.stdout.take().unwrap()).lines());
        Self { process, lines }
    }

    /// The lines that the batch has written for the parent.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        std::iter::from_fn(|| self.lines.lock().unwrap().next()?.ok())
            .filter_map(|line| line.split_once(MARK).map(|(_, rest)| rest.to_owned()))
    }

    #[cfg(unix)]
    pub(super) fn interrupt(&self) {
        let process = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    }

    /// Waits for the end, and returns the exit code.
    #[cfg(unix)]
    pub(super) fn code(mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }

    pub(super) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{text}").unwrap();
}

/// Runs in the child only: jobs in directories that never end until Ctrl-C, or jobs with a journal.
#[tokio::test]
async fn batch_of_child() {
    let workspace = std::env::var("KIMI_BATCH_WORKSPACE").ok().and_then(|word| Workspace::parse(&word));
    let workspace = workspace.unwrap_or_default();
    if let Some(work_dir) = std::env::var_os("KIMI_BATCH_WORK_DIR") {
        let call = json!({"external_tool": {"name": "say", "arguments": {"text": "{{work_dir}}"}}});
        let (_, agent) = with(json!([[call, {"wait_cancel": true}]]));
        let tool =
            ExternalTool::new("say", "Writes a line", json!({"type": "object"}), |arguments: Value| async move {
                say(arguments["text"].as_str().unwrap_or_default());
                Ok("said")
            });
        let session = SessionOptions::new().executable(&agent).work_dir(work_dir).tool(tool);
        let options = BatchOptions::new().concurrency(2).workspace(workspace).session(session);
        let mut batch = run_batch(["a", "b", "c"], options);
        tokio::signal::ctrl_c().await.unwrap();
        batch.cancel().await;
        while let Some(result) = batch.next().await {
            say(result.unwrap().status.as_str());
        }
        // Without the agents' scripts, which the end of the test would remove.
        drop(agent);
        std::process::exit(130);
    } else if let Some(journal) = std::env::var_os("KIMI_BATCH_JOURNAL") {
        let (options, _agent) = with(json!([[{"text": "{{prompt}}"}]]));
        let options = options.workspace(workspace);
        let mut batch = run_batch(jobs(), options.concurrency(3).journal(journal));
        while let Some(result) = batch.next().await {
            say(&result.unwrap().key);
        }
    }
}

/// The jobs of the child with a journal.
pub(super) fn jobs() -> impl Iterator<Item = Job> {
    (0..20).map(|n| Job::new(format!("prompt {n}")).key(format!("job-{n}")))
}
