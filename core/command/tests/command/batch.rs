//! `kimi-agent batch`.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::support::{Ran, agent, command, ended, ran, ran_with};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: &str) -> String {
        fs::write(self.path(name), content).unwrap();
        self.name(name)
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

const JOBS: &str = "\"one\"\n\n{\"prompt\": \"two\", \"key\": \"second\", \"data\": {\"n\": 2}}\n";

#[test]
fn results_are_lines_of_json() {
    let folder = Folder::new();
    let jobs = folder.write("jobs.jsonl", JOBS);
    let agent = agent(json!([[{"text": "Done: {{prompt}}"}]]));
    let out = folder.name("results.jsonl");
    let ran = ran(&agent, &["batch", &jobs, "--out", &out, "--concurrency", "1"]);
    assert_eq!((ran.code, &*ran.out), (0, ""), "{}", ran.err);
    let results = folder.lines("results.jsonl");
    assert_eq!(results[0]["result"]["text"], "Done: one");
    assert_eq!((&results[1]["key"], &results[1]["data"]), (&json!("second"), &json!({"n": 2})));
    assert!(ran.err.contains("second: finished; ") && ran.err.contains(" of 2 done, 0 failed"), "{}", ran.err);
}

#[test]
fn jobs_come_from_stdin() {
    let agent = agent(json!([[{"text": "{{prompt}}"}]]));
    let ran = ran_with(&agent, JOBS, &["batch", "-", "--quiet", "-c", "1"]);
    assert_eq!((ran.code, &*ran.err), (0, ""));
    let texts: Vec<_> = ran.lines().iter().map(|line| line["result"]["text"].clone()).collect();
    assert_eq!(texts, ["one", "two"]);
}

#[cfg(unix)]
#[test]
fn jobs_come_from_a_pipe() {
    let agent = agent(json!([[{"text": "{{prompt}}"}]]));
    let ran = ran_with(&agent, JOBS, &["batch", "/dev/stdin", "--quiet", "-c", "1"]);
    assert_eq!((ran.code, &*ran.err), (0, ""));
    let texts: Vec<_> = ran.lines().iter().map(|line| line["result"]["text"].clone()).collect();
    assert_eq!(texts, ["one", "two"]);
}

#[test]
fn failed_job_sets_exit_code() {
    let agent = agent(json!([[{"text": "{{prompt}}"}]]));
    let ran =
        ran_with(&agent, "\"one\"\nnot json\n{\"prompt\": \"x\", \"modle\": \"y\"}\n", &["batch", "-", "-c", "1"]);
    assert_eq!(ran.code, 1);
    let lines = ran.lines();
    assert_eq!((&lines[0]["status"], &lines[1]["error"]["code"]), (&json!("finished"), &json!("invalid_option")));
    let message = lines[1]["error"]["message"].as_str().unwrap();
    assert!(
        message.contains(
            "line 2 of the jobs is not JSON: see column 2; expected a text in quotes, or an object such as {"
        ),
        "{message}"
    );
    assert!(lines[2]["error"]["message"].as_str().unwrap().contains("did you mean `model`"));
    let line = ran.err.lines().find(|line| line.contains("failed (invalid_option): ") && line.contains("line 2 of"));
    assert!(line.is_some_and(|line| line.ends_with(" tokens")), "{}", ran.err);
}

#[test]
fn journal_resumes_the_batch() {
    let folder = Folder::new();
    let journal = folder.name("batch.jsonl");
    let once = |text: &str| {
        let agent = agent(json!([[{"text": text}]]));
        ran_with(&agent, JOBS, &["batch", "-", "--journal", &journal, "-q"])
    };
    assert_eq!(once("first").code, 0);
    let again = once("second");
    assert_eq!(again.code, 0);
    let lines = again.lines();
    assert!(lines.iter().all(|line| line["result"]["text"] == "first" && line["from_journal"] == true), "{lines:?}");
}

#[test]
fn refused_batch_keeps_results() {
    let folder = Folder::new();
    let (journal, out) = (folder.write("other", "notes\n"), folder.write("out.jsonl", "results\n"));
    let page = folder.write("report.html", "report\n");
    let agent = agent(json!([[{"text": "x"}]]));
    let once = |arguments: &[&str]| {
        let all = [&["batch", "-", "-q", "--out", &out, "--html", &page], arguments].concat();
        ran_with(&agent, "\"one\"\n", &all).code
    };
    let read = |path: &str| fs::read_to_string(path).unwrap();
    assert_ne!(once(&["--journal", &journal]), 0);
    assert_eq!((&*read(&out), &*read(&page)), ("results\n", "report\n"));
    assert_eq!(once(&[]), 0);
    let text = read(&out);
    assert!(text.starts_with('{') && text.lines().count() == 1, "{text}");
    assert!(read(&page).starts_with("<!doctype html>"));
}

#[test]
fn report_is_a_page() {
    let folder = Folder::new();
    let agent = agent(json!([[{"text": "x"}, {"usage": {"input_other": 3, "output": 4}}]]));
    let (page, records) = (folder.name("report.html"), folder.name("runs"));
    let jobs = "{\"prompt\": \"<script>alert(1)</script>\", \"key\": \"one\"}\n5\n";
    let ran = ran_with(&agent, jobs, &["batch", "-", "-q", "--html", &page, "--record", &records]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let html = fs::read_to_string(&page).unwrap();
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;alert(1)"), "{html}");
    assert!(html.contains("invalid_option: ") && html.contains("href=\"./runs/"), "{html}");
}

fn reported(arguments: &[&str]) -> Ran {
    ended(command(None, arguments).spawn().unwrap())
}

#[test]
fn report_is_made_of_journal() {
    let folder = Folder::new();
    let agent = agent(json!([[{"text": "x"}, {"usage": {"input_other": 3, "output": 4}}]]));
    let (live, records) = (folder.name("live.html"), folder.name("runs"));
    let (journal, page) = (folder.name("batch.jsonl"), folder.name("batch.html"));
    let jobs = "{\"prompt\": \"<script>alert(1)</script>\", \"key\": \"one\"}\n{\"prompt\": \"x\", \"modle\": \"y\"}\n";
    let arguments = ["batch", "-", "-q", "--html", &live, "--record", &records, "--journal", &journal];
    assert_eq!(ran_with(&agent, jobs, &arguments).code, 1);
    let made = reported(&["report", &journal]);
    assert_eq!((made.code, made.out, made.err), (0, format!("{page}\n"), String::new()));
    let html = fs::read_to_string(&page).unwrap();
    assert_eq!(html, fs::read_to_string(&live).unwrap());
    assert!(html.contains("invalid_option: ") && html.contains("href=\"./runs/"), "{html}");
    let other = folder.name("other.html");
    assert_eq!(reported(&["report", &journal, "--html", &other]).code, 0);
    assert_eq!(fs::read_to_string(&other).unwrap(), html);
    let out = reported(&["report", &journal, "--html", "-"]).out;
    assert!(out.starts_with("<!doctype html>"), "{out}");
}

#[test]
fn report_keeps_other_files_beside_recordings() {
    let folder = Folder::new();
    let (journal, records) = (folder.name("batch.jsonl"), folder.name("runs"));
    let jobs = "{\"prompt\": \"x\", \"key\": \"one\"}\n";
    let arguments = ["batch", "-", "-q", "--record", &records, "--journal", &journal];
    assert_eq!(ran_with(&agent(json!([[{"text": "x"}]])), jobs, &arguments).code, 0);
    let recording = fs::read_dir(&records).unwrap().next().unwrap().unwrap().path();
    let other = recording.with_extension("html");
    fs::write(&other, "notes\n").unwrap();

    let page = reported(&["report", &journal, "--html", "-"]).out;
    assert_eq!(fs::read_to_string(&other).unwrap(), "notes\n");
    assert!(page.contains(".jsonl\""), "{page}");
}

#[test]
fn wrong_reports_are_refused() {
    let folder = Folder::new();
    let jobs = folder.write("jobs.jsonl", JOBS);
    let agent = agent(json!([[{"text": "x"}]]));
    let journal = folder.name("batch.jsonl");
    assert_eq!(ran_with(&agent, JOBS, &["batch", "-", "-q", "--journal", &journal]).code, 0);
    let run = folder.name("run.jsonl");
    assert_eq!(ran_with(&agent, "", &["run", "hi", "-q", "--record", &run]).code, 0);
    let ran = reported(&["inspect", &journal]);
    let expected = "batch.jsonl: it is the journal of a batch; `kimi-agent report` makes its page";
    assert!(ran.code == 1 && ran.err.contains(expected), "{} {}", ran.code, ran.err);
    for (arguments, words) in [
        (
            ["report", &*run, "--html", "x"],
            "run.jsonl is not the journal of a batch; choose another path; it is a recording, and `kimi-agent inspect` makes",
        ),
        (["report", "/no/such.jsonl", "--html", "x"], "invalid value of JOURNAL: can't read /no/such.jsonl"),
        (["report", &*jobs, "--html", "x"], "is not the journal of a batch"),
        (["report", &*journal, "--html", &*journal], "is the journal"),
        (["report", ".", "--html", "x"], "it is not a regular file"),
    ] {
        let ran = reported(&arguments);
        assert!(ran.code == 2 && ran.err.contains(words), "{arguments:?}: {} {}", ran.code, ran.err);
    }
    assert_eq!(reported(&["report", &journal, "--html", "/no/such/folder/x"]).code, 1);
}

#[test]
fn wrong_arguments_are_refused() {
    let agent = agent(json!([]));
    for (arguments, words) in [
        (&["batch", "/no/such/jobs.jsonl"][..], "invalid value of JOBS"),
        (&["batch", "-", "-c", "0"], "concurrency"),
        (&["batch", "-", "-c", "-1"], "'--concurrency <NUMBER>'"),
        (&["batch", "-", "--retries", "-1"], "'--retries <NUMBER>'"),
        (&["batch", "-", "--timeout", "-1"], "--timeout"),
        (&["batch", "-", "--out", "/no/such/folder/x"], "--out"),
        (&["batch", "-", "--html", "/no/such/folder/x"], "--html"),
        (&["batch", "-", "--session-id", "x"], "the jobs of a batch cannot share a session"),
    ] {
        let ran = ran(&agent, arguments);
        assert!(ran.code == 2 && ran.err.contains(words), "{arguments:?}: {} {}", ran.code, ran.err);
    }
}

#[test]
fn jobs_that_are_not_json_lines_are_refused() {
    let agent = agent(json!([[{"text": "x"}]]));
    for (jobs, begin) in [
        ("\n[\n\"one\",\n\"two\"\n]\n", "a list"),
        ("{\n  \"prompt\": \"one\"\n}\n", "a JSON value of several lines"),
        ("{\"jobs\": [\n\"one\"]}\n", "a JSON value of several lines"),
    ] {
        let ran = ran_with(&agent, jobs, &["batch", "-"]);
        assert_eq!((ran.code, ran.lines().len()), (2, 0), "{}", ran.err);
        assert!(ran.err.contains(&format!("the file begins with {begin}; expected JSON Lines")), "{}", ran.err);
    }
}

#[test]
fn unread_lines_of_journal_are_reported() {
    let folder = Folder::new();
    let (journal, html) = (folder.name("journal.jsonl"), folder.name("journal.html"));
    let agent = agent(json!([[{"text": "x"}]]));
    let once = || ran_with(&agent, JOBS, &["batch", "-", "-q", "--journal", &journal]);
    assert_eq!(once().code, 0);
    let text = fs::read_to_string(&journal).unwrap();
    let cut: Vec<_> = text.lines().enumerate().map(|(at, line)| if at == 0 { line } else { &line[1..] }).collect();
    fs::write(&journal, cut.join("\n") + "\n").unwrap();
    let problem = "2 lines of the journal cannot be read, the first of which is line 2";
    let reported = reported(&["report", &journal]);
    assert!(
        reported.code == 0 && reported.err.contains(&format!("{problem}, so their jobs are missing")),
        "{}",
        reported.err
    );
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains(problem) && page.contains("jobs<td class=n>0"), "{page}");
    let again = once();
    assert!(again.code == 0 && again.err.contains(&format!("{problem}, so their jobs run again")), "{}", again.err);
    assert!(again.lines().iter().all(|line| line["from_journal"] == false), "{}", again.out);
}

#[cfg(unix)]
#[test]
fn outputs_are_regular_files() {
    let folder = Folder::new();
    let agent = agent(json!([[{"text": "x"}]]));
    let once = |out: &str| ran_with(&agent, "\"one\"\n", &["batch", "-", "-q", "--out", out]);
    let (pipe, link, precious) = (folder.name("pipe"), folder.name("link"), folder.write("precious", "text"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    std::os::unix::fs::symlink("nothing", folder.path("dangling")).unwrap();
    for out in [&*pipe, &link, &folder.name("dangling"), "/dev/null"] {
        let refused = once(out);
        assert!(refused.code == 2 && refused.err.contains("expected a new file, or a regular file"), "{}", refused.err);
    }
    assert_eq!((&*fs::read_to_string(&precious).unwrap(), folder.path("nothing").exists()), ("text", false));
    for out in ["-", "/dev/stdout"] {
        let shown = once(out);
        assert_eq!((shown.code, shown.lines().len()), (0, 1), "{out}: {}", shown.err);
    }
}

#[test]
fn jobs_are_not_replaced() {
    let folder = Folder::new();
    let jobs = folder.write("jobs.jsonl", JOBS);
    let agent = agent(json!([]));
    for option in ["--out", "--html", "--journal"] {
        let ran = ran(&agent, &["batch", &jobs, option, &jobs]);
        assert!(ran.code == 2 && ran.err.contains("is another file of this batch"), "{}", ran.err);
    }
    assert_eq!(fs::read_to_string(&jobs).unwrap(), JOBS);
}

#[cfg(unix)]
#[test]
fn interrupt_writes_cancelled_results() {
    let folder = Folder::new();
    let jobs = folder.write("jobs.jsonl", "\"a\"\n\"b\"\n\"c\"\n");
    let ready = folder.name("ready");
    let effect =
        json!({"tool_call": {"name": "WriteFile", "effect": {"write_file": &ready, "content": "x"}, "result": ""}});
    let agent = agent(json!([[effect, {"wait_cancel": true}]]));
    let child = command(Some(&agent), &["batch", &jobs, "-c", "1", "--yolo"]).spawn().unwrap();
    while !folder.path("ready").exists() {
        std::thread::yield_now();
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let ran = ended(child);
    assert_eq!(ran.code, 130, "{}", ran.err);
    let lines = ran.lines();
    assert_eq!((lines.len(), &lines[0]["status"]), (1, &json!("cancelled")));
}
