//! Files that a search for a name finds in any folder, and paths that a title names.

use std::path::{Path, PathBuf};

use super::{MAX_OPERANDS, Part, Taker, Target};
use crate::command::Word;
use crate::glob::is_glob;
use crate::kinds::{Kind, is_name};
use crate::path::resolve;
use crate::tools::operands::{Place, is_like_path};

/// The limits of one search: entries of folders that are looked at, and files that are compared.
const MAX_ENTRIES: usize = 2000;
const MAX_FOUND: usize = 32;
/// The limit of searches of a call: each looks at folders of the disk.
const MAX_SEARCHES: usize = 16;

/// The name that a glob looks for in any folder: `key`, `**/key`.
fn sought_name(glob: &str) -> Option<&str> {
    let glob = glob.trim_start_matches(['/', '!']).trim_start_matches("./");
    let (folder, name) = glob.rsplit_once('/').unwrap_or(("", glob));
    (matches!(folder, "" | "**" | "*" | "*/**" | "**/*") && !name.is_empty() && !is_glob(name)).then_some(name)
}

/// The files below a folder with this name, as far as they are found soon.
fn files_named(name: &str, folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut open, mut left) = (Vec::new(), vec![folder.to_owned()], MAX_ENTRIES);
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            left -= 1;
            if left == 0 || found.len() == MAX_FOUND {
                return found;
            }
            let entry_name = entry.file_name();
            if entry_name.to_string_lossy().eq_ignore_ascii_case(name) {
                found.push(entry.path());
            }
            let is_large = entry_name == "node_modules" || entry_name == "objects";
            if !is_large && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    found
}

impl Taker<'_> {
    /// Adds the files that a search for a name finds: a rule that denies one of them may be about the search.
    pub(super) fn add_sought(&mut self, kind: Option<Kind>, glob: &str, base: &Path) {
        let Some(name) = sought_name(glob).filter(|_| self.needs.paths && self.call.place.is_none()) else { return };
        self.searches += 1;
        if self.searches > MAX_SEARCHES {
            if self.searches == MAX_SEARCHES + 1 {
                self.opaque(kind, "the call searches for too many names to look for all of them");
            }
            return;
        }
        for file in files_named(name, &self.work_dir.join(base)) {
            let work_dir: &Path = self.work_dir;
            let name = file.strip_prefix(work_dir).unwrap_or(&file).to_string_lossy();
            let target = self.path_target(&name, work_dir);
            let mut part = Part::new(kind, target);
            (part.shadow, part.hides, part.vague) = (true, true, true);
            self.parts.push(part);
        }
    }

    /// The folders that the words of a search name, or else the one in which it runs.
    pub(super) fn searched_folders(&self, words: &[Word], place: &Place) -> Vec<PathBuf> {
        let base = self.work_dir.join(place.base_dir());
        let named = words.iter().skip(1).take(MAX_FOUND).map(Word::text).filter(|text| !text.starts_with('-'));
        let folders: Vec<PathBuf> = named.map(|text| base.join(text)).filter(|folder| folder.is_dir()).collect();
        if folders.is_empty() || place.moves { vec![base] } else { folders }
    }

    /// Adds the paths that a title names, for a call that touches files: the arguments may name others.
    pub(super) fn add_titled_paths(&mut self, kind: Kind) {
        if !self.needs.paths || !matches!(kind, Kind::Read | Kind::Edit | Kind::Delete | Kind::Move) {
            return;
        }
        let name = Some(self.call.name).filter(|name| !is_name(name));
        let about = self.call.about.and_then(|about| about.lines().next());
        for text in [name, about].into_iter().flatten() {
            for word in text.split_whitespace().take(MAX_OPERANDS / 10) {
                let word = word.trim_matches(|c: char| "`'\"()[]<>,:;".contains(c)).trim_end_matches('.');
                if word.len() < 2 || !is_like_path(word) || self.known.paths.contains(&word) {
                    continue;
                }
                let mut part = Part::new(Some(kind), Target::Path(resolve(word, self.work_dir, self.work_dir)));
                (part.shadow, part.hides, part.vague) = (true, true, true);
                self.parts.push(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_in_any_folder_is_sought() {
        for glob in ["key", "**/key", "*/key", "./key", "/key"] {
            assert_eq!(sought_name(glob), Some("key"), "{glob}");
        }
        for glob in ["*.py", "src/key", "**/k*", "", "**", "src/**"] {
            assert_eq!(sought_name(glob), None, "{glob}");
        }
    }
}
