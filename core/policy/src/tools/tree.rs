//! Commands of git that write files of the working tree which no word names.

use super::operands::Place;
use super::{Part, Taker, Target};
use crate::command::{Command, Word};
use crate::file_use::FileUses;
use crate::kinds::Kind;
use crate::programs::first_operand;

impl Taker<'_> {
    /// Adds the files that a command of git writes because another commit has them. Only a rule that names a file is about them.
    pub(super) fn add_tree(&mut self, command: &Command, files: &FileUses, place: &Place) {
        let folder = self.work_dir.join(place.base_dir());
        let is_file = |name: &str| !place.moves && folder.join(name).exists();
        if !files.is_git || !rewrites_tree(command.words(), is_file) {
            return;
        }
        let why = "it writes files of the working tree that no word names".to_owned();
        let mut part = Part::new(Some(Kind::Edit), Target::opaque(command.text(), why));
        (part.shadow, part.hides, part.is_text) = (true, true, true);
        part.spelled = Some(self.whole(command));
        self.parts.push(part);
    }
}

/// Whether a command of git replaces files of the working tree by those of another commit.
fn rewrites_tree(words: &[Word], is_file: impl Fn(&str) -> bool) -> bool {
    let Some(first) = first_operand(words) else { return false };
    let rest: Vec<&str> = words[first + 1..].iter().map(Word::text).collect();
    let has = |options: &[&str]| rest.iter().any(|text| options.iter().any(|option| text.starts_with(option)));
    let operands: Vec<&str> = rest.iter().copied().filter(|text| !text.starts_with('-') || *text == "-").collect();
    match words[first].text() {
        "reset" => has(&["--h", "--m", "--k"]),
        "checkout" | "switch" => {
            // Behind `--`, and if they exist, the words are files.
            let are_files = rest.iter().position(|text| *text == "--").is_some_and(|at| at + 1 < rest.len());
            let is_new = has(&["-b", "-B", "-c", "-C", "--c", "--o"]);
            let is_forced = has(&["-f", "--f", "-m", "--m", "--di", "-d", "--de"]);
            let is_other = operands.len() > usize::from(is_new) && !operands.iter().all(|name| is_file(name));
            !are_files && (is_forced || is_other)
        }
        "merge" | "pull" | "rebase" | "cherry-pick" | "revert" | "am" | "checkout-index" => true,
        "read-tree" => has(&["-u", "-m", "--r"]),
        "stash" => !matches!(operands.first(), Some(&("list" | "show" | "create" | "store" | "drop" | "clear"))),
        "bisect" => !matches!(operands.first(), None | Some(&("log" | "view" | "visualize" | "terms" | "help"))),
        "clean" => !has(&["-n", "--d"]),
        "subtree" => matches!(operands.first(), Some(&("add" | "pull" | "merge"))),
        "worktree" => operands.first() == Some(&"add"),
        "submodule" => matches!(operands.first(), Some(&("add" | "update" | "deinit"))),
        "sparse-checkout" => !matches!(operands.first(), None | Some(&"list")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_is_rewritten_by_another_commit() {
        let rewrites = |command: &str| {
            let words: Vec<Word> = command.split(' ').map(|word| Word::Literal(word.to_owned())).collect();
            rewrites_tree(&words, |name| name == "README.md")
        };
        for command in [
            "git reset --hard",
            "git -C . reset --har HEAD~1",
            "git checkout -f",
            "git checkout main",
            "git checkout -",
            "git checkout -b x origin/main",
            "git switch x",
            "git switch -c x y",
            "git merge x",
            "git pull",
            "git cherry-pick x",
            "git checkout-index -a -f",
            "git worktree add ../x",
            "git stash pop",
            "git clean -fd",
            "git subtree pull -P x y",
        ] {
            assert!(rewrites(command), "{command}");
        }
        for command in [
            "git status",
            "git reset HEAD",
            "git reset --soft HEAD~1",
            "git checkout -- README.md",
            "git checkout README.md",
            "git checkout -b x",
            "git switch -c x",
            "git stash list",
            "git clean -n",
            "git worktree list",
            "git log main",
        ] {
            assert!(!rewrites(command), "{command}");
        }
    }
}
