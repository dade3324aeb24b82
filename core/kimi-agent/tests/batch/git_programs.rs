//! Programs that an agent has written or named, and that plain git would run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use kimi_agent::batch::{JobStatus, Workspace};
use kimi_agent::run_batch;
use serde_json::json;

use super::workspace::{git, repository_with_submodule, within};
use super::{all, with};

/// A name, and shell commands after which plain git runs the program `$EVIL` in the worktree: `git add`, `git status`,
/// `git diff`, `git commit` or a checkout.
type Attack = (&'static str, &'static str);

const FILTERS: [Attack; 6] = [
    ("clean filter", "git config filter.x.clean $EVIL; echo '* filter=x' > .gitattributes; echo mine > a.txt"),
    ("filter process", "git config filter.x.process $EVIL; echo '* filter=x' > .gitattributes; echo mine > a.txt"),
    (
        "included file",
        "printf '[filter \"x\"]\\nclean = %s\\n' $EVIL > inc; git config include.path \"$PWD/inc\"; echo '* filter=x' > .gitattributes; echo mine > a.txt",
    ),
    (
        "conditional include",
        "printf '[filter \"x\"]\\nclean = %s\\n' $EVIL > inc; git config 'includeIf.gitdir:/**.path' \"$PWD/inc\"; echo '* filter=x' > .gitattributes; echo mine > a.txt",
    ),
    (
        "attributes of the repository",
        "git config filter.x.clean $EVIL; echo '* filter=x' > \"$(git rev-parse --git-common-dir)/info/attributes\"; echo mine > a.txt",
    ),
    (
        "configuration of the worktree",
        "git config extensions.worktreeConfig true; git config --worktree filter.x.clean $EVIL; echo '* filter=x' > .gitattributes; echo mine > a.txt",
    ),
];

const DRIVERS: [Attack; 5] = [
    ("monitor of files", "git config core.fsmonitor $EVIL"),
    ("hooks", "git config core.hooksPath \"$HOOKS\""),
    ("textconv", "git config diff.x.textconv $EVIL; echo '*.txt diff=x' > .gitattributes; echo mine > a.txt"),
    ("external diff", "git config diff.external $EVIL; echo mine > a.txt"),
    ("diff driver", "git config diff.x.command $EVIL; echo '*.txt diff=x' > .gitattributes; echo mine > a.txt"),
];

const REPOSITORIES: [Attack; 5] = [
    (
        "replaced link",
        "rm -rf .git; git init -q .; git config filter.x.clean $EVIL; git config core.fsmonitor $EVIL; echo '* filter=x' > .gitattributes",
    ),
    (
        "new repository",
        "git init -q n; cd n; git config core.fsmonitor $EVIL; git config filter.x.clean $EVIL; echo '* filter=x' > .gitattributes; echo x > f; git -c user.name=t -c user.email=t@example.com -c core.fsmonitor=false -c filter.x.clean=cat commit -q --allow-empty -m x",
    ),
    (
        "repository in the submodule",
        "cd vendor; git init -q .; git config core.fsmonitor $EVIL; git config filter.x.clean $EVIL; echo '* filter=x' > .gitattributes; echo x > s.txt; git -c user.name=t -c user.email=t@example.com -c core.fsmonitor=false commit -q --allow-empty -m x",
    ),
    (
        "submodule",
        "git -c protocol.file.allow=always submodule -q update --init; cd vendor; git config core.fsmonitor $EVIL; git config filter.x.clean $EVIL; mkdir -p \"$(git rev-parse --git-dir)/info\"; echo '* filter=x' > \"$(git rev-parse --git-dir)/info/attributes\"; echo longer > s.txt",
    ),
    (
        "touched submodule",
        "git -c protocol.file.allow=always submodule -q update --init; cd vendor; git config core.fsmonitor $EVIL; git config filter.x.clean $EVIL; mkdir -p \"$(git rev-parse --git-dir)/info\"; echo '* filter=x' > \"$(git rev-parse --git-dir)/info/attributes\"; touch s.txt",
    ),
];

const TRANSPORTS: [Attack; 4] = [
    (
        "missing object behind a transport",
        "git config core.repositoryformatversion 1; git config extensions.partialClone evil; git config remote.evil.promisor true; echo 1234567812345678123456781234567812345678 > \"$(git rev-parse --git-common-dir)/$(git symbolic-ref HEAD)\"; git config remote.evil.url ext::$QUIT; git config protocol.ext.allow always",
    ),
    (
        "missing object behind SSH",
        "git config core.repositoryformatversion 1; git config extensions.partialClone evil; git config remote.evil.promisor true; echo 1234567812345678123456781234567812345678 > \"$(git rev-parse --git-common-dir)/$(git symbolic-ref HEAD)\"; git config remote.evil.url ssh://host/path; git config core.sshCommand $QUIT",
    ),
    (
        "missing object in a local repository",
        "git config core.repositoryformatversion 1; git config extensions.partialClone evil; git config remote.evil.promisor true; echo 1234567812345678123456781234567812345678 > \"$(git rev-parse --git-common-dir)/$(git symbolic-ref HEAD)\"; git config remote.evil.url \"$PWD\"; git config remote.evil.uploadpack $QUIT; git config protocol.file.allow always",
    ),
    (
        "missing object behind a proxy",
        "git config core.repositoryformatversion 1; git config extensions.partialClone evil; git config remote.evil.promisor true; echo 1234567812345678123456781234567812345678 > \"$(git rev-parse --git-common-dir)/$(git symbolic-ref HEAD)\"; git config remote.evil.url git://127.0.0.1/path; git config core.gitProxy $QUIT",
    ),
];

/// A program that leaves a mark: its path, the settings of a shell for an [`Attack`], and the path of the mark.
fn evil(folder: &Path) -> (String, PathBuf) {
    let (mark, hooks) = (folder.join("mark"), folder.join("hooks"));
    fs::create_dir_all(&hooks).unwrap();
    let names =
        ["pre-commit", "post-checkout", "reference-transaction", "post-index-change", "post-commit", "evil", "quit"];
    for name in names {
        let path = hooks.join(name);
        // A transport that copies its input would never end.
        let rest = if name == "quit" { "exit 1" } else { "cat 2>/dev/null || true" };
        fs::write(&path, format!("#!/bin/sh\n: > {}\n{rest}\n", mark.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let hooks = hooks.display();
    (format!("HOOKS={hooks}; EVIL={hooks}/evil; QUIT={hooks}/quit"), mark)
}

/// A repository with a submodule whose changes plain git looks for.
fn repository_with_seen_submodule() -> ([tempfile::TempDir; 2], PathBuf) {
    let (folders, path) = repository_with_submodule();
    git(&path, &["config", "--file", ".gitmodules", "--unset", "submodule.vendor.ignore"]);
    git(&path, &["commit", "-qam", "seen"]);
    (folders, path)
}

/// The program runs in plain git, and not in a batch.
async fn assert_not_run(attacks: &[Attack]) {
    for (name, attack) in attacks {
        let folder = tempfile::tempdir().unwrap();
        let (settings, mark) = evil(folder.path());
        let (_folders, repository) = repository_with_seen_submodule();
        // The next job gets a worktree after the first agent has run.
        let (options, agent) = with(json!([[{"text": "x"}]]));
        let start = [
            "sh",
            "-c",
            &format!("({settings}; {attack}) >/dev/null 2>&1; rm -f {}; exec \"$@\"", mark.display()),
            "sh",
        ]
        .map(Into::into)
        .into_iter();
        let start: Vec<_> = start.chain(agent.iter().cloned()).collect();
        let options = within(&options, &start, &repository, Workspace::Worktree).concurrency(1);
        let results = all(run_batch(["a", "b"], options)).await;
        assert!(!mark.exists(), "{name}");
        for result in results {
            assert_eq!(result.status, JobStatus::Finished, "{name}: {:?}", result.error);
            if let Some(kept) = result.workspace {
                fs::remove_dir_all(kept.parent().unwrap()).unwrap();
            }
        }
        // Plain git runs the program.
        let (_folders, plain) = repository_with_seen_submodule();
        let calls =
            "git add --all; git status; git diff; git diff --cached; git commit -qm x; git checkout -q --detach";
        let script = format!("{settings}; ({attack}); rm -f {}; {calls}", mark.display());
        let config = ["-c", &script];
        Command::new("sh").args(config).current_dir(&plain).output().unwrap();
        assert!(mark.exists(), "{name} has no effect on plain git");
    }
}

#[tokio::test]
async fn no_filter_is_run() {
    assert_not_run(&FILTERS).await;
}

#[tokio::test]
async fn no_monitor_hook_or_diff_driver_is_run() {
    assert_not_run(&DRIVERS).await;
}

#[tokio::test]
async fn no_program_of_new_repository_is_run() {
    assert_not_run(&REPOSITORIES).await;
}

#[tokio::test]
async fn no_transport_is_run() {
    assert_not_run(&TRANSPORTS).await;
}
