//! The index of the beginning, and folders that git passes over.

use std::process::Command;

use tokio::sync::watch;

use super::*;

/// A worktree of a repository with one commit.
fn worktree() -> (tempfile::TempDir, Worktree, Limits) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap().join("repository");
    let script = "git init -q \"$0\" && cd \"$0\" && echo a > a.txt && git add . && git -c user.name=t -c user.email=t commit -qm first";
    assert!(Command::new("sh").args(["-c", script]).arg(&top).status().unwrap().success());
    let limits = Limits::new(watch::Sender::new(false).subscribe());
    let repository = Repositories::new("batch").open(&top, &limits).unwrap();
    let worktree = Worktree::add(&repository, "job", &top.with_file_name("job"), &limits).unwrap();
    (folder, worktree, limits)
}

#[test]
fn first_index_keeps_its_time() {
    let (_folder, worktree, limits) = worktree();
    let isolated = Isolated::make(&worktree.path, &worktree.config, &limits).unwrap();
    worktree.write_first_index(&isolated).unwrap();

    let times = [worktree.admin.0.join("index"), isolated.file("index")].map(|path| fs::metadata(path).unwrap());
    assert_eq!(times[0].modified().unwrap(), times[1].modified().unwrap());
}

#[test]
fn folder_that_git_passes_over_is_an_error() {
    let (_folder, worktree, limits) = worktree();
    let folders =
        "(name=$(printf '%0200d' 0); for _ in $(seq 30); do mkdir $name; cd $name; done; echo b > file) 2>/dev/null";
    assert!(Command::new("sh").args(["-c", folders]).current_dir(&worktree.path).status().unwrap().success());

    let error = worktree.diff(&limits).unwrap_err();
    assert!(error.contains("could not open directory"), "{error}");
}

#[test]
fn files_below_folder_named_git_are_an_error() {
    let (_folder, worktree, limits) = worktree();
    let make = |folder: &str| {
        fs::create_dir_all(worktree.path.join(folder).join(".git")).unwrap();
        fs::write(worktree.path.join(folder).join(".git/work.txt"), "work").unwrap();
    };
    fs::write(worktree.path.join(".gitignore"), "ignored\n").unwrap();
    make("ignored/module");
    assert!(worktree.diff(&limits).unwrap().contains("+ignored"));

    make("library");
    let error = worktree.diff(&limits).unwrap_err();
    assert!(error.contains("library/.git"), "{error}");
}
