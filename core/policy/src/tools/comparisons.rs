//! Commands that compare files: with a folder, they show files that no word names.

use std::path::{Component, Path};

use crate::command::{Command, Word, base_name};
use crate::path::WorkDir;
use crate::programs::{Danger, first_operand};

/// Marks the words of a comparison that name more than a file of the project.
pub(super) fn mark(command: &mut Command, work_dir: &WorkDir, folders: &[&Path]) {
    let words = command.words();
    let name = words.first().and_then(Word::literal).map(base_name).unwrap_or_default();
    let is_git = name == "git";
    let from = match &*name {
        "diff" | "colordiff" | "sdiff" | "diff3" => 0,
        "git" => match first_operand(words).filter(|at| words[*at].text() == "diff") {
            Some(at) => at,
            None => return,
        },
        _ => return,
    };
    let operands = || words.iter().enumerate().skip(from + 1).filter(|(_, word)| !word.text().starts_with('-'));
    let is_folder = |name: &str| folders.iter().any(|folder| work_dir.is_folder(name, folder));
    // Outside of a repository, and with a path outside of it, git compares any files.
    let is_in_repository = is_git && folders.iter().all(|folder| work_dir.is_in_repository(folder));
    let is_comparison = !is_in_repository && (!is_git || operands().count() > 1);
    let named = operands().filter(|(_, word)| is_comparison && is_folder(word.text()));
    let mut outside: Vec<usize> = named.map(|(at, _)| at).collect();
    let leaves = |text: &str| {
        let path = Path::new(text);
        path.is_absolute() || text.starts_with('~') || path.components().any(|part| part == Component::ParentDir)
    };
    let mut dangers: Vec<Danger> = operands()
        .filter(|(_, word)| is_git && leaves(word.text()))
        .map(|(at, word)| Danger::new(at, word.text(), "can name a file outside of the repository"))
        .collect();
    command.outside.append(&mut outside);
    command.dangers.append(&mut dangers);
}
