//! Agents that change files which git or the SDK reads, in batches with worktrees. Programs that git runs: see `workspace`.

use std::fs;
use std::path::Path;

use kimi_agent::batch::{BatchOptions, JobResult, JobStatus, Workspace};
use kimi_agent::run_batch;
use serde_json::json;

use super::workspace::{assert_clean, git, repository, result_after, within};
use super::{all, with};

const COMMON: &str = "c=$(git rev-parse --git-common-dir); g=$(git rev-parse --git-dir)";

/// Checks that a worktree was kept without a diff, and deletes it.
fn assert_kept(result: JobResult, command: &str) {
    assert_eq!((result.status, result.diff), (JobStatus::Finished, None), "{command}");
    fs::remove_dir_all(result.workspace.unwrap().parent().unwrap()).unwrap();
}

#[tokio::test]
async fn pipe_in_worktree_keeps_it() {
    for command in [
        "rm .gitignore; mkfifo .gitignore",
        "mkfifo pipe; ln -s pipe .gitattributes",
        "mkfifo sub/.gitattributes",
        "mkfifo .gitmodules",
        "rm .git; mkfifo .git",
        "mkdir s; mkfifo s/.git",
        "mkdir -p u/.git/objects u/.git/refs; mkfifo u/.git/HEAD u/.git/config",
        "mkdir -p u other/objects other/refs; mkfifo other/HEAD; echo 'gitdir: ../other' > u/.git",
        &format!("{COMMON}; mkfifo $c/objects/info/alternates"),
    ] {
        let (_folder, repository) = repository();
        let command = format!("{command}; echo mine > a.txt");
        assert_kept(result_after(&command, json!([{"text": "x"}]), &repository).await, &command);
    }
}

#[tokio::test]
async fn pipe_in_git_folder_stops_no_batch() {
    let of_worktree = "for f in HEAD index gitdir commondir; do rm -f $g/$f; mkfifo $g/$f; done; mkfifo $g/locked";
    let states = "mkdir $g/rebase-merge; mkfifo $g/rebase-merge/head-name $g/BISECT_LOG";
    for (command, is_clean) in [
        (of_worktree, true),
        (states, true),
        ("mkfifo pipe a.fifo; rm a.txt; mkfifo a.txt; git checkout -q a.txt", true),
        ("mkfifo ../.index.new; mv ../.index.new ../.index", true),
        ("mkfifo $c/kimi-agent/other.lock", false),
        ("rm -f $c/info/exclude; mkfifo $c/info/exclude", false),
        ("mv $c/config $c/other; mkfifo $c/config", false),
        ("mkfifo $c/packed-refs $c/shallow", false),
    ] {
        let (_folder, repository) = repository();
        let command = format!("{COMMON}; {command}; echo mine > sub/b.txt");
        let result = result_after(&command, json!([{"text": "x"}]), &repository).await;
        assert!(result.diff.as_ref().is_some_and(|diff| diff.contains("+mine")), "{command}: {:?}", result.diff);
        assert_eq!(result.workspace, None, "{command}");
        if is_clean {
            assert_clean(&repository);
        }
    }
}

/// Options of a batch with one agent at a time. This command runs before each agent.
fn after(command: &str, repository: &Path) -> (BatchOptions, kimi_agent::testing::ScriptedAgent) {
    let (options, agent) = with(json!([[{"text": "x"}]]));
    let command = format!("{command}; exec \"$@\"");
    let start = ["sh", "-c", &command, "sh"].map(Into::into).into_iter();
    let start: Vec<_> = start.chain(agent.iter().cloned()).collect();
    (within(&options, &start, repository, Workspace::Worktree).concurrency(1), agent)
}

#[tokio::test]
async fn job_after_pipe_in_repository_fails() {
    let (_folder, repository) = repository();
    let (options, _agent) = after(&format!("({COMMON}; rm $c/config; mkfifo $c/config)"), &repository);
    let results = all(run_batch(["a", "b"], options)).await;
    assert_eq!((results[0].status, results[1].status), (JobStatus::Finished, JobStatus::Failed));
    let error = results[1].error.as_ref().unwrap().to_string();
    assert!(error.contains("config is neither a file nor a folder"), "{error}");
}

#[tokio::test]
async fn next_job_keeps_its_repository() {
    let ((_folder, repository), (_other, other)) = (repository(), repository());
    let command = format!("({COMMON}; git config --file $c/config core.worktree {})", other.display());
    let (options, _agent) = after(&format!("{command}; echo mine > a.txt"), &repository);
    let results = all(run_batch(["a", "b"], options)).await;
    assert!(
        results.iter().all(|result| result.diff.as_ref().is_some_and(|diff| diff.contains("+mine"))),
        "{results:?}"
    );
    assert_clean(&other);
    git(&repository, &["config", "--file", ".git/config", "--unset", "core.worktree"]);
    assert_clean(&repository);
}

#[tokio::test]
async fn replaced_worktree_is_not_read() {
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("secret.txt"), "secret\n").unwrap();
    let replace = |by: &str| format!("p=$PWD; cd ..; rm -rf \"$p\"; {by} \"$p\"; cd /");
    let by_link = replace(&format!("ln -s {}", secret.path().display()));
    let by_folder = format!("mkdir ../other; {}", replace("mv other"));
    for command in [by_link, by_folder] {
        let (_folder, repository) = repository();
        assert_kept(result_after(&command, json!([{"text": "x"}]), &repository).await, &command);
        assert!(secret.path().join("secret.txt").exists());
    }
}

#[tokio::test]
async fn changed_files_of_the_sdk() {
    let (_folder, repository) = repository();
    let hide = "GIT_INDEX_FILE=$PWD/../.index git update-index --skip-worktree a.txt; rm -f ../.index.lock";
    let command = format!("ls -A .. > names; {hide}; echo mine > a.txt");
    let diff = result_after(&command, json!([{"text": "x"}]), &repository).await.diff.unwrap();
    assert!(diff.contains("-a\n+mine"), "{diff}");
    // No git folder of the SDK is next to the worktree.
    assert!(diff.contains("+.index\n") && !diff.contains("+.git"), "{diff}");
    assert_clean(&repository);
}

#[tokio::test]
async fn forged_worktree_deletes_no_folder() {
    let (_folder, repository) = repository();
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(folder.path().join("lock"), "").unwrap();
    let forge = format!(
        "mkdir -p $c/worktrees/x; echo {}/.git > $c/worktrees/x/gitdir; echo ../.. > $c/worktrees/x/commondir; \
         echo ref: refs/heads/kimi-agent/dead/a > $c/worktrees/x/HEAD; touch $c/kimi-agent/dead.lock",
        precious.display()
    );
    for command in [format!("{COMMON}; {forge}"), "true".to_owned()] {
        let result = result_after(&command, json!([{"text": "x"}]), &repository).await;
        assert_eq!(result.diff.as_deref(), Some(""));
        assert!(precious.is_dir());
    }
}
