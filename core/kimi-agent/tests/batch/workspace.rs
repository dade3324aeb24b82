use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(unix)]
use kimi_agent::batch::JobResult;
use kimi_agent::batch::{Batch, BatchOptions, Job, JobStatus, Workspace};
use kimi_agent::{ExternalTool, SessionOptions, run_batch};
use serde_json::{Value, json};

use super::{all, texts, with};

/// Runs git, which must succeed.
pub(super) fn git(dir: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"];
    let output = Command::new("git").arg("-C").arg(dir).args(identity).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A repository with one commit: `a.txt` and `sub/b.txt`.
pub(super) fn repository() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    // On Windows git refuses the form that `canonicalize` returns.
    let path = if cfg!(windows) { folder.path().to_owned() } else { folder.path().canonicalize().unwrap() };
    git(&path, &["init", "-q"]);
    // On Windows the default is another one.
    git(&path, &["config", "core.autocrlf", "false"]);
    fs::create_dir(path.join("sub")).unwrap();
    fs::write(path.join("a.txt"), "a\n").unwrap();
    fs::write(path.join("sub/b.txt"), "b\n").unwrap();
    fs::write(path.join(".gitignore"), "ignored\n").unwrap();
    git(&path, &["add", "."]);
    git(&path, &["commit", "-qm", "first"]);
    (folder, path)
}

/// Nothing of a batch is left in the repository.
pub(super) fn assert_clean(repository: &Path) {
    assert_eq!(git(repository, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(repository, &["branch", "--list", "kimi-agent/*"]), "");
    assert_eq!(git(repository, &["status", "--porcelain"]), "");
    assert!(!repository.join(".git/kimi-agent").exists());
}

fn writes(files: Value) -> Value {
    let calls = files.as_object().unwrap().iter().map(|(path, content)| {
        json!({"tool_call": {"name": "WriteFile", "effect": {"write_file": path, "content": content}, "result": "ok"}})
    });
    calls.chain([json!({"text": "{{work_dir}}"})]).collect()
}

/// Options of a batch in this directory, with the same agent.
pub(super) fn within(
    options: &BatchOptions,
    agent: &[std::ffi::OsString],
    dir: &Path,
    workspace: Workspace,
) -> BatchOptions {
    let agent: Vec<_> = agent.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    options.clone().workspace(workspace).session(SessionOptions::new().executable(agent).work_dir(dir))
}

#[tokio::test]
async fn worktree_result_has_a_diff() {
    let (_folder, repository) = repository();
    let script = json!([writes(json!({"b.txt": "changed\n", "new.txt": "new\n", "ignored": "x"}))]);
    let (options, agent) = with(script);
    let options = within(&options, &agent, &repository.join("sub"), Workspace::Worktree);
    let results = all(run_batch([Job::new("a").key("one"), Job::new("b").key("two words")], options)).await;
    for result in &results {
        let diff = result.diff.as_deref().unwrap();
        assert!(diff.contains("--- a/sub/b.txt\n+++ b/sub/b.txt") && diff.contains("-b\n+changed"), "{diff}");
        assert!(diff.contains("+++ b/sub/new.txt") && !diff.contains("ignored"), "{diff}");
        assert_eq!((result.status, &result.workspace), (JobStatus::Finished, &None));
    }
    let places = texts(&results);
    assert!(places[0].ends_with("one/sub") && places[0] != places[1], "{places:?}");
    assert!(places.iter().all(|place| !Path::new(place).exists()));
    assert_clean(&repository);
    fs::write(repository.join("patch"), results[0].diff.as_deref().unwrap()).unwrap();
    git(&repository, &["apply", "patch"]);
    assert_eq!(fs::read_to_string(repository.join("sub/b.txt")).unwrap(), "changed\n");
}

#[tokio::test]
async fn unchanged_worktree_has_an_empty_diff() {
    let (_folder, repository) = repository();
    let (options, agent) = with(json!([[{"text": "{{work_dir}}"}]]));
    let options = within(&options, &agent, &repository, Workspace::Worktree);
    let results = all(run_batch((0..12).map(|n| n.to_string()), options.concurrency(6))).await;
    assert!(results.iter().all(|result| result.diff.as_deref() == Some("")));
    assert_clean(&repository);
}

#[tokio::test]
async fn failed_worktree_is_kept() {
    let (_folder, repository) = repository();
    let error = json!({"error": {"code": -32001, "message": "no model"}});
    let mut script = writes(json!({"a.txt": "half\n"}));
    script.as_array_mut().unwrap().push(error);
    let (options, agent) = with(json!([script]));
    let options = within(&options, &agent, &repository, Workspace::Worktree);
    let results = all(run_batch(["a"], options.clone())).await;
    assert!(results[0].diff.as_deref().unwrap().contains("+half") && results[0].workspace.is_none());
    assert_clean(&repository);
    let results = all(run_batch([Job::new("a").key("kept")], options.clone().keep_failed(true))).await;
    let kept = results[0].workspace.clone().unwrap();
    assert_eq!(fs::read_to_string(kept.join("a.txt")).unwrap(), "half\n");
    // Another batch does not delete it.
    all(run_batch(["a"], options)).await;
    assert_eq!(fs::read_to_string(kept.join("a.txt")).unwrap(), "half\n");
    assert_eq!(git(&repository, &["branch", "--list", "kimi-agent/*"]).lines().count(), 1);
    fs::remove_dir_all(kept.parent().unwrap()).unwrap();
}

#[tokio::test]
async fn branches_of_the_user_are_kept() {
    let (_folder, repository) = repository();
    git(&repository, &["branch", "kimi-agent/topic/mine"]);
    let (options, agent) = with(json!([[{"text": "x"}]]));
    all(run_batch(["a"], within(&options, &agent, &repository, Workspace::Worktree))).await;
    let left = git(&repository, &["for-each-ref", "--format=%(refname:short)", "refs/heads/kimi-agent/"]);
    assert_eq!(left, "kimi-agent/topic/mine\n");
}

#[tokio::test]
async fn worktrees_of_other_machines_are_kept() {
    let (_folder, repository) = repository();
    let branch_of = |batch: &str| {
        // The worktree is on the disk of the other machine.
        let path = repository.join(batch);
        git(&repository, &["worktree", "add", "-q", "-b", &format!("kimi-agent/{batch}/a"), path.to_str().unwrap()]);
        fs::remove_dir_all(path).unwrap();
    };
    let locks = repository.join(".git/kimi-agent");
    fs::create_dir(&locks).unwrap();
    let (options, agent) = with(json!([[{"text": "x"}]]));
    let options = within(&options, &agent, &repository, Workspace::Worktree);
    branch_of("remote");
    branch_of("unreadable");
    branch_of("dead");
    fs::write(locks.join("remote.lock"), r#"{"host":"remote","id":"i","boot":"b"}"#).unwrap();
    fs::write(locks.join("unreadable.lock"), "x").unwrap();
    fs::write(locks.join("dead.lock"), "").unwrap();
    all(run_batch(["a"], options)).await;
    let left = git(&repository, &["for-each-ref", "--format=%(refname:short)", "refs/heads/kimi-agent/"]);
    assert_eq!(left, "kimi-agent/remote/a\nkimi-agent/unreadable/a\n");
    assert_eq!(git(&repository, &["worktree", "list"]).lines().count(), 3);
    let mut files: Vec<_> = fs::read_dir(&locks).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["remote.lock", "unreadable.lock"]);
}

#[tokio::test]
async fn changed_link_to_repository_is_ignored() {
    let (_folder, repository) = repository();
    let foreign = tempfile::tempdir().unwrap();
    git(foreign.path(), &["init", "-q"]);
    let link = format!("gitdir: {}\n", foreign.path().join(".git").display());
    let (options, agent) = with(json!([writes(json!({".git": link, "a.txt": "mine\n"}))]));
    let options = within(&options, &agent, &repository, Workspace::Worktree);
    let results = all(run_batch(["a"], options)).await;
    assert!(results[0].diff.as_deref().unwrap().contains("-a\n+mine"), "{:?}", results[0].diff);
    assert_clean(&repository);
}

#[tokio::test]
async fn folder_without_commit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (options, agent) = with(json!([[{"text": "x"}]]));
    let options = within(&options, &agent, folder.path(), Workspace::Worktree);
    let refused = |mut batch: Batch| async move { batch.next().await.unwrap().unwrap_err().to_string() };
    let error = refused(run_batch(["a"], options.clone())).await;
    assert!(error.contains("needs a git repository"), "{error}");
    git(folder.path(), &["init", "-q"]);
    let error = refused(run_batch(["a"], options)).await;
    assert!(error.contains("has none; commit first"), "{error}");
}

#[tokio::test]
async fn copies_are_separate() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "old").unwrap();
    let (options, agent) = with(json!([writes(json!({"a.txt": "new", "b.txt": "new"}))]));
    let options = within(&options, &agent, folder.path(), Workspace::Copy);
    let results = all(run_batch(["a", "b"], options)).await;
    assert!(results.iter().all(|result| result.status == JobStatus::Finished && result.diff.is_none()));
    assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "old");
    assert!(!folder.path().join("b.txt").exists());
    let places = texts(&results);
    assert!(places[0] != places[1] && places.iter().all(|place| !Path::new(place).exists()));
}

#[tokio::test]
async fn cancelled_job_leaves_no_worktree() {
    let (_folder, repository) = repository();
    let (options, agent) = with(json!([[{"text": "x"}, {"wait_cancel": true}]]));
    let (sender, mut running) = tokio::sync::watch::channel(0);
    let options = within(&options, &agent, &repository, Workspace::Worktree).on_progress(move |progress| {
        sender.send_replace(progress.running);
    });
    let batch = run_batch(["a", "b", "c"], options.concurrency(2));
    running.wait_for(|running| *running == 2).await.unwrap();
    batch.cancel().await;
    assert_clean(&repository);
}

/// The folders in which a batch has made directories of jobs.
fn folders(places: &[String]) -> Vec<&Path> {
    places.iter().map(|place| Path::new(place).parent().unwrap()).collect()
}

#[tokio::test]
async fn cancelled_job_leaves_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "a").unwrap();
    let call = json!({"external_tool": {"name": "say", "arguments": {"text": "{{work_dir}}"}}});
    let (options, agent) = with(json!([[call, {"wait_cancel": true}]]));
    let (sender, mut places) = tokio::sync::mpsc::unbounded_channel();
    let say = move |arguments: Value| {
        sender.send(arguments["text"].as_str().unwrap_or_default().to_owned()).ok();
        async { Ok("said") }
    };
    let tool = ExternalTool::new("say", "Says where it is", json!({"type": "object"}), say);
    let session = SessionOptions::new().executable(&agent).work_dir(folder.path()).tool(tool);
    let batch = run_batch(["a", "b", "c"], options.concurrency(2).workspace(Workspace::Copy).session(session));
    let places = [places.recv().await.unwrap(), places.recv().await.unwrap()];
    assert!(folders(&places).iter().all(|folder| folder.exists()), "{places:?}");
    batch.cancel().await;
    assert!(folders(&places).iter().all(|folder| !folder.exists()), "{places:?}");
}

/// Runs a job in a worktree of the repository. This command runs in the worktree before the agent.
#[cfg(unix)]
pub(super) async fn result_after(command: &str, script: Value, repository: &Path) -> JobResult {
    let (options, agent) = with(json!([script]));
    let command = format!("{command}; exec \"$@\"");
    let start = ["sh", "-c", &command, "sh"].map(Into::into).into_iter();
    let start: Vec<_> = start.chain(agent.iter().cloned()).collect();
    all(run_batch(["a"], within(&options, &start, repository, Workspace::Worktree))).await.remove(0)
}

#[cfg(unix)]
#[tokio::test]
async fn new_repository_is_kept() {
    let commit = "git -c user.name=t -c user.email=t@example.com commit --quiet --allow-empty --message x";
    for command in ["git init --quiet new", &format!("git init --quiet new && (cd new && {commit})")] {
        let (_folder, repository) = repository();
        let result = result_after(command, writes(json!({"new/mine.txt": "mine\n"})), &repository).await;
        assert_eq!((result.status, result.diff), (JobStatus::Finished, None));
        let kept = result.workspace.unwrap();
        assert_eq!(fs::read_to_string(kept.join("new/mine.txt")).unwrap(), "mine\n");
        fs::remove_dir_all(kept.parent().unwrap()).unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn retry_discards_new_repository() {
    let (_folder, repository) = repository();
    let (options, agent) = with(json!([[{"error": {"code": -32003, "message": "overloaded"}}]]));
    let start = ["sh", "-c", "git init --quiet new; exec \"$@\"", "sh"].map(Into::into).into_iter();
    let start: Vec<_> = start.chain(agent.iter().cloned()).collect();
    let result = all(run_batch(["a"], within(&options, &start, &repository, Workspace::Worktree))).await.remove(0);
    assert_eq!((result.attempts, result.error.unwrap().code()), (3, "llm_service_error"));
    // Only the last attempt is kept.
    let kept = result.workspace.unwrap();
    assert!(kept.join("new").exists());
    assert_eq!(git(&repository, &["worktree", "list"]).lines().count(), 2);
    fs::remove_dir_all(kept.parent().unwrap()).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn left_lock_of_index_is_deleted() {
    let (_folder, repository) = repository();
    let command = "touch \"$(git rev-parse --git-dir)/index.lock\"";
    let result = result_after(command, writes(json!({"a.txt": "mine\n"})), &repository).await;
    assert!(result.diff.unwrap().contains("-a\n+mine"));
    assert_clean(&repository);
}

/// A repository with a submodule `vendor`, which has the file `s.txt`.
#[cfg(unix)]
pub(super) fn repository_with_submodule() -> ([tempfile::TempDir; 2], PathBuf) {
    let ((folder, path), (other, source)) = (repository(), repository());
    fs::write(source.join("s.txt"), "s\n").unwrap();
    git(&source, &["add", "."]);
    git(&source, &["commit", "-qm", "second"]);
    let source = source.to_str().unwrap();
    git(&path, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, "vendor"]);
    // Diffs in the configuration of the user or of the submodule must not hide its changes.
    git(&path, &["config", "--file", ".gitmodules", "submodule.vendor.ignore", "all"]);
    git(&path, &["config", "diff.submodule", "log"]);
    git(&path, &["add", "."]);
    git(&path, &["commit", "-qm", "submodule"]);
    ([folder, other], path)
}

#[cfg(unix)]
#[tokio::test]
async fn changes_in_submodule_are_kept() {
    let init = "git -c protocol.file.allow=always submodule --quiet update --init";
    let commit = "git -C vendor -c user.name=t -c user.email=t@example.com commit --quiet --all --message x";
    for command in [
        format!("{init}; echo mine > vendor/s.txt"),
        format!("{init}; echo mine > vendor/new.txt"),
        format!("{init}; echo mine > vendor/s.txt; git -C vendor add ."),
        format!("{init}; echo mine > vendor/s.txt; {commit}"),
        format!("{init}; echo mine > vendor/s.txt; {commit}; git add vendor; git reset --quiet"),
    ] {
        let (_folders, repository) = repository_with_submodule();
        let result = result_after(&command, writes(json!({"a.txt": "mine\n"})), &repository).await;
        assert_eq!((result.status, result.diff), (JobStatus::Finished, None), "{command}");
        let kept = result.workspace.unwrap();
        let name = if command.contains("new.txt") { "new.txt" } else { "s.txt" };
        assert_eq!(fs::read_to_string(kept.join("vendor").join(name)).unwrap(), "mine\n");
        fs::remove_dir_all(kept.parent().unwrap()).unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn files_in_missing_submodule_are_kept() {
    // A clone in a repository is a submodule that `.gitmodules` does not name.
    for is_named in [true, false] {
        let (_folders, repository) = repository_with_submodule();
        if !is_named {
            git(&repository, &["rm", "--quiet", ".gitmodules"]);
            git(&repository, &["commit", "--quiet", "-m", "x"]);
        }
        let result = result_after("echo mine > vendor/s.txt", json!([{"text": "x"}]), &repository).await;
        assert_eq!((result.status, result.diff), (JobStatus::Finished, None), "{is_named}");
        let kept = result.workspace.unwrap();
        assert_eq!(fs::read_to_string(kept.join("vendor/s.txt")).unwrap(), "mine\n");
        fs::remove_dir_all(kept.parent().unwrap()).unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn unchanged_submodule_is_removed() {
    let init = "git -c protocol.file.allow=always submodule --quiet update --init";
    for (command, is_deleted) in [("true", false), (init, false), ("git rm -q vendor", true)] {
        let (_folders, repository) = repository_with_submodule();
        let result = result_after(command, writes(json!({"a.txt": "mine\n"})), &repository).await;
        let diff = result.diff.unwrap();
        assert!(diff.contains("-a\n+mine") && result.workspace.is_none(), "{command}");
        assert_eq!(diff.contains("deleted file mode 160000"), is_deleted, "{diff}");
        assert_clean(&repository);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn branch_that_stays_is_deleted_by_next_batch() {
    let (_folder, repository) = repository();
    let lock = "touch \"$(git rev-parse --git-common-dir)/packed-refs.lock\"";
    let result = result_after(lock, json!([{"text": "x"}]), &repository).await;
    assert_eq!((result.diff.as_deref(), result.workspace), (Some(""), None));
    assert_eq!(git(&repository, &["branch", "--list", "kimi-agent/*"]).lines().count(), 1);
    // Nor can the next batch delete it.
    result_after("true", json!([{"text": "x"}]), &repository).await;
    assert_ne!(git(&repository, &["branch", "--list", "kimi-agent/*"]), "");
    fs::remove_file(repository.join(".git/packed-refs.lock")).unwrap();
    result_after("true", json!([{"text": "x"}]), &repository).await;
    assert_clean(&repository);
}

#[cfg(unix)]
#[tokio::test]
async fn branch_that_stays_is_deleted_at_the_end() {
    let (_folder, repository) = repository();
    // The first job makes the lock, and the second one deletes it.
    let lock = "cd \"$(git rev-parse --git-common-dir)\"; [ ! -e packed-refs.lock ]; has_lock=$?";
    let toggle = "if [ $has_lock = 1 ]; then rm packed-refs.lock; else touch packed-refs.lock; fi";
    let (options, agent) = with(json!([[{"text": "x"}]]));
    let command = format!("({lock}; {toggle}); exec \"$@\"");
    let start = ["sh", "-c", &command, "sh"].map(Into::into).into_iter();
    let start: Vec<_> = start.chain(agent.iter().cloned()).collect();
    let options = within(&options, &start, &repository, Workspace::Worktree).concurrency(1);
    let results = all(run_batch(["a", "b"], options)).await;
    assert_eq!(results.len(), 2);
    assert!(!repository.join(".git/packed-refs.lock").exists());
    assert_clean(&repository);
}

#[cfg(unix)]
#[tokio::test]
async fn diff_of_latin_1_applies() {
    let (_folder, repository) = repository();
    let command = r"printf 'caf\351\n' > a.txt; printf 'b\nnew\n' > sub/b.txt";
    let diff = result_after(command, json!([{"text": "x"}]), &repository).await.diff.unwrap();
    assert_clean(&repository);
    fs::write(repository.join("patch"), diff).unwrap();
    git(&repository, &["apply", "patch"]);
    assert_eq!(fs::read(repository.join("a.txt")).unwrap(), b"caf\xe9\n");
    assert_eq!(fs::read(repository.join("sub/b.txt")).unwrap(), b"b\nnew\n");
}

#[cfg(unix)]
#[tokio::test]
async fn locked_worktree_is_removed() {
    let (_folder, repository) = repository();
    let result = result_after("git worktree lock .", json!([{"text": "x"}]), &repository).await;
    assert_eq!((result.diff.as_deref(), result.workspace), (Some(""), None));
    assert_clean(&repository);
}

#[cfg(unix)]
#[tokio::test]
async fn missing_worktree_of_user_is_kept() {
    let (_folder, repository) = repository();
    let disk = tempfile::tempdir().unwrap();
    let mine = disk.path().join("mine");
    git(&repository, &["worktree", "add", "-q", mine.to_str().unwrap()]);
    // As if its disk was not mounted. The agent deletes the link to the repository, too.
    fs::rename(&mine, disk.path().join("elsewhere")).unwrap();
    let result = result_after("rm .git", json!([{"text": "x"}]), &repository).await;
    assert_eq!((result.diff.as_deref(), result.workspace), (Some(""), None));
    fs::rename(disk.path().join("elsewhere"), &mine).unwrap();
    assert_eq!(git(&mine, &["status", "--porcelain"]), "");
    assert_eq!(git(&repository, &["worktree", "list"]).lines().count(), 2);
}

/// A batch in another process, with two jobs in directories of this kind.
#[cfg(unix)]
fn started(repository: &Path, workspace: &str, temp: &Path) -> super::child::Child {
    super::child::Child::start(&[
        ("KIMI_BATCH_WORK_DIR", repository.as_os_str()),
        ("KIMI_BATCH_WORKSPACE", workspace.as_ref()),
        ("TMPDIR", temp.as_os_str()),
    ])
}

/// Runs a batch in another process, whose folder for temporary files is this one.
#[cfg(unix)]
fn sweep(temp: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("batch.jsonl");
    let variables = [("KIMI_BATCH_JOURNAL", journal.as_os_str()), ("KIMI_BATCH_WORKSPACE", "copy".as_ref())];
    let child = super::child::Child::start(&[&variables[..], &[("TMPDIR", temp.as_os_str())]].concat());
    assert_eq!(child.lines().count(), super::child::jobs().count());
}

#[cfg(unix)]
#[tokio::test]
async fn killed_batch_leaves_no_copy() {
    let (folder, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let child = started(folder.path(), "copy", temp.path());
    let places: Vec<_> = child.lines().take(2).collect();
    assert!(places.iter().all(|place| Path::new(place).is_dir()), "{places:?}");
    child.kill();
    sweep(temp.path());
    assert!(folders(&places).iter().all(|folder| !folder.exists()), "{places:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn interrupted_program_cancels_its_batch() {
    let (_folder, repository) = repository();
    let temp = tempfile::tempdir().unwrap();
    let child = started(&repository, "worktree", temp.path());
    assert_eq!(child.lines().take(2).count(), 2);
    child.interrupt();
    assert_eq!(child.lines().collect::<Vec<_>>(), ["cancelled", "cancelled"]);
    assert_eq!(child.code(), Some(130));
    assert_clean(&repository);
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[tokio::test]
async fn killed_batch_leaves_no_worktree() {
    let (_folder, repository) = repository();
    let temp = tempfile::tempdir().unwrap();
    let child = started(&repository, "worktree", temp.path());
    // The agents of both jobs are at work in their worktrees.
    let places: Vec<_> = child.lines().take(2).collect();
    assert!(places.iter().all(|place| Path::new(place).is_dir()), "{places:?}");
    assert_eq!(git(&repository, &["worktree", "list"]).lines().count(), 3);
    child.kill();
    let (options, agent) = with(json!([[{"text": "x"}]]));
    let options = within(&options, &agent, &repository, Workspace::Worktree);
    all(run_batch(["a"], options)).await;
    assert_clean(&repository);
}

#[cfg(unix)]
#[tokio::test]
async fn flags_of_index_hide_nothing() {
    for command in [
        "git update-index --skip-worktree a.txt; echo mine > a.txt",
        "git update-index --assume-unchanged a.txt; echo mine > a.txt",
        "git config core.ignoreStat true; git update-index a.txt; echo mine > a.txt",
        "git config core.sparseCheckout true; echo 'sub/' > \"$(git rev-parse --git-dir)/info/sparse-checkout\"; git read-tree -mu HEAD; echo mine > a.txt",
        "touch -r a.txt stamp; git config core.trustctime false; git config core.checkStat minimal; git update-index --refresh; printf 'm\\n' > a.txt; touch -r stamp a.txt; rm stamp; echo mine >> a.txt",
    ] {
        let (_folder, repository) = repository();
        let result = result_after(command, json!([{"text": "x"}]), &repository).await;
        assert!(result.diff.as_ref().is_some_and(|diff| diff.contains("mine")), "{command}: {:?}", result.diff);
        assert_clean(&repository);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn ignored_file_of_index_is_in_diff() {
    let (_folder, repository) = repository();
    let command = "echo mine > ignored; git add --force ignored";
    let diff = result_after(command, json!([{"text": "x"}]), &repository).await.diff.unwrap();
    assert!(diff.contains("+++ b/ignored\n@@ -0,0 +1 @@\n+mine"), "{diff}");
    assert_clean(&repository);
}

#[cfg(unix)]
#[tokio::test]
async fn filter_of_user_works() {
    let (_folder, repository) = repository();
    git(&repository, &["config", "filter.up.clean", "tr a-z A-Z"]);
    git(&repository, &["config", "filter.up.smudge", "tr A-Z a-z"]);
    fs::write(repository.join(".gitattributes"), "a.txt filter=up\n").unwrap();
    fs::write(repository.join("a.txt"), "words\n").unwrap();
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "-qm", "filter"]);
    let command = "[ \"$(cat a.txt)\" = words ] && echo more >> a.txt";
    let diff = result_after(command, json!([{"text": "x"}]), &repository).await.diff.unwrap();
    assert!(diff.ends_with("@@ -1 +1,2 @@\n WORDS\n+MORE\n"), "{diff}");
    assert_clean(&repository);
}
