//! Files that a command reads although no word is their path: names from its input, what links lead to, objects of git, and
//! patterns.

use super::operands::Place;
use super::{MAX_OPERANDS, Part, Taker, Target};
use crate::command::{Command, Word, base_name};
use crate::file_use::{FileUses, is_name_of_find, is_regex};
use crate::kinds::Kind;
use crate::path::GlobUse;
use crate::programs::{Danger, first_operand};

impl Taker<'_> {
    /// Adds the files that a command takes from elsewhere.
    pub(super) fn add_elsewhere(&mut self, command: &Command, files: &FileUses, shadow: bool, place: &Place) {
        let words = command.words();
        let patterns: Vec<(usize, &str)> = files.patterns(words).collect();
        for (at, pattern) in &patterns {
            // A pattern that begins with `/` begins at the folder that is searched.
            let name = pattern.trim_start_matches('/');
            if self.operands >= MAX_OPERANDS {
                self.add_rest(command);
                break;
            }
            self.operands += 1;
            if !pattern.starts_with('!') && !name.is_empty() {
                let mut path = place.resolve(name, self.work_dir).into_glob(GlobUse::Search);
                let stays = !shadow && place.only_reads && !place.moves && command.outside.is_empty();
                let is_known = stays && words.iter().all(|word| word.literal().is_some()) && !name.contains('/');
                if is_known && is_name_on_disk(words, *at) {
                    path = path.into_existing(place.base_dir(), self.work_dir, true);
                }
                self.add_file(files, files.of_word(words, *at), path, &words[*at], true, place);
                for folder in self.searched_folders(words, place) {
                    self.add_sought(Some(Kind::Read), name, &folder);
                }
            }
        }
        self.add_extracted(command, shadow, place);
        self.add_downloads(command, files, place);
        if !shadow {
            self.add_tree(command, files, place);
        }
        let only_writes = |danger: &&&Danger| danger.effect.starts_with("writes");
        let from_elsewhere: Vec<&Danger> = command.dangers.iter().filter(|danger| danger.is_from_elsewhere()).collect();
        let from_elsewhere = from_elsewhere.iter().find(|danger| !only_writes(danger)).or(from_elsewhere.first());
        let only_writes = from_elsewhere.as_ref().is_some_and(only_writes);
        let why = if let Some(danger) = from_elsewhere {
            format!("`{}` {}", danger.option, danger.effect)
        } else if let Some(danger) = command.dangers.iter().find(|danger| danger.follows_links()) {
            format!("`{}` follows links, and what they lead to is not known", danger.option)
        } else if let Some(at) = unknown_object(words).filter(|_| files.is_git) {
            format!("`{}` may be any file of the repository", words[at].text())
        } else if let Some((_, pattern)) = patterns.iter().find(|(at, _)| is_regex(words, *at)) {
            format!("`{pattern}` is a regular expression for names of files")
        } else {
            return;
        };
        for kind in files.kinds().into_iter().filter(|kind| !only_writes || *kind != Kind::Read) {
            let mut part = Part::new(Some(kind), Target::opaque(command.text(), why.clone()));
            (part.shadow, part.hides) = (true, true);
            if !shadow {
                (part.spelled, part.is_name) = (Some(self.whole(command)), true);
            }
            self.parts.push(part);
        }
    }
}

/// Whether the pattern at a place is one for the names of files on the disk, as shells read them.
fn is_name_on_disk(words: &[Word], at: usize) -> bool {
    let name = words.first().and_then(Word::literal).map(base_name).unwrap_or_default();
    is_name_of_find(words, at) || matches!(&*name, "rg" | "grep" | "egrep" | "fgrep")
}

/// Whether an option of `tar` extracts files.
fn extracts(option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) => !long.is_empty() && ("extract".starts_with(long) || "get".starts_with(long)),
        None => option.trim_start_matches('-').contains('x'),
    }
}

/// The folder that `tar` extracts to, if a word names one.
fn extracted_to(words: &[Word]) -> Option<&str> {
    words.iter().enumerate().skip(1).find_map(|(at, word)| match word.literal()? {
        "-C" | "--directory" => words.get(at + 1)?.literal(),
        text => text.strip_prefix("--directory=").filter(|folder| !folder.is_empty()),
    })
}

/// Whether an option of `curl` names a file like the address.
fn names_file(option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) => long.starts_with("remote-"),
        None => option.contains(['O', 'J']),
    }
}

impl Taker<'_> {
    /// Returns the whole command as a part: a rule that spells it allows everything that its program does.
    pub(super) fn whole(&self, command: &Command) -> Box<Part> {
        let mut whole = Part::new(Some(Kind::Execute), Target::Command(command.clone()));
        whole.doubt = self.known.doubt.clone();
        Box::new(whole)
    }

    fn is_of(command: &Command, names: &[&str]) -> bool {
        let name = command.words().first().and_then(Word::literal).map(base_name);
        name.is_some_and(|name| names.contains(&&*name))
    }

    /// Adds the files of an archive, which no word names.
    fn add_extracted(&mut self, command: &Command, shadow: bool, place: &Place) {
        let danger =
            command.dangers.iter().find(|danger| danger.effect.starts_with("write") && extracts(&danger.option));
        let Some(danger) = danger.filter(|_| Self::is_of(command, &["tar", "gtar", "bsdtar"])) else { return };
        let why = format!("`{}` writes files that no word names", danger.option);
        let target = match extracted_to(command.words()) {
            Some(folder) => Target::Path(place.resolve(folder, self.work_dir).with_content()),
            None => Target::opaque(command.text(), why),
        };
        let mut part = Part::new(Some(Kind::Edit), target);
        part.vague = true;
        (part.shadow, part.hides) = (true, true);
        if !shadow {
            (part.spelled, part.is_name) = (Some(self.whole(command)), true);
        }
        self.parts.push(part);
    }

    /// Adds the files that `curl` names like the address.
    fn add_downloads(&mut self, command: &Command, files: &FileUses, place: &Place) {
        if !Self::is_of(command, &["curl"]) {
            return;
        }
        let is_any = |is: fn(&str) -> bool| {
            command.dangers.iter().any(|danger| danger.effect.starts_with("write") && is(&danger.option))
        };
        let words = command.words();
        let has = |is: fn(&str) -> bool| words.iter().skip(1).any(|word| is(word.text()));
        // `#1` in the name of a file stands for a text of the first set in the address.
        if is_any(names_output) && has(has_number) || is_any(names_file) && has(|text| text.contains(['{', '['])) {
            let why = "its sets and ranges make names of files".to_owned();
            let mut part = Part::new(Some(Kind::Edit), Target::opaque(command.text(), why));
            (part.shadow, part.hides) = (true, true);
            (part.spelled, part.is_name) = (Some(self.whole(command)), true);
            self.parts.push(part);
        }
        if !is_any(names_file) {
            return;
        }
        for (at, word) in words.iter().enumerate().skip(1).take(MAX_OPERANDS) {
            let text = word.text().split(['?', '#']).next().unwrap_or_default();
            let Some(name) = text.rsplit('/').next().filter(|name| !name.is_empty() && *name != text) else { continue };
            let path = place.resolve(name, self.work_dir);
            self.add_file(files, files.of_word(words, at), path, word, true, place);
        }
    }
}

/// Whether an option of `curl` names the file that it writes.
fn names_output(option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) => long.starts_with('o'),
        None => option.contains('o'),
    }
}

/// Whether a word has a number behind `#`, and is not an address.
fn has_number(text: &str) -> bool {
    let is_number = |(at, _): (usize, &str)| text[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    !text.contains("://") && text.match_indices('#').any(is_number)
}

/// The word of a command of git that names an object by its hash: it can be a file, or a folder.
fn unknown_object(words: &[Word]) -> Option<usize> {
    let first = first_operand(words)?;
    let operands = || {
        let is_operand = |at: &usize| !words[*at].text().starts_with('-');
        // Elsewhere, `--` can be the value of an option.
        let ends = matches!(words[first].text(), "show" | "diff" | "diff-tree");
        (first + 1..words.len()).take_while(move |at| !ends || words[*at].text() != "--").filter(is_operand)
    };
    let is_alone = operands().count() + words.iter().filter(|word| word.text() == "--").count() == 1;
    match words[first].text() {
        "show" | "grep" | "archive" | "restore" | "read-tree" | "unpack-file" | "merge-tree" | "merge-file" => {}
        // These show the type and the size.
        "cat-file" if matches!(words.get(first + 1).map(Word::text), Some("-t" | "-s" | "-e")) => return None,
        "cat-file" => {}
        // Alone, it has to be a commit.
        "checkout" | "diff" | "difftool" | "diff-tree" | "diff-index" | "diff-files" => {
            return operands().find(|at| {
                let text = words[*at].text();
                is_hash(text) && (!is_alone || text.contains("..") || text.contains(':'))
            });
        }
        // Behind a hash, the name begins at the folder that the hash stands for.
        "blame" | "annotate" | "log" | "whatchanged" | "ls-tree" | "rev-parse" | "rev-list" => return None,
        _ => return operands().find(|at| words[*at].text().contains(':') && is_hash(words[*at].text())),
    }
    operands().find(|at| is_hash(words[*at].text()))
}

/// Whether a word can name an object of git by its hash, also in a range, and as `git describe` names it.
fn is_hash(text: &str) -> bool {
    /// Shorter hashes are not accepted.
    const SHORTEST: usize = 4;
    let begins = |text: &str| {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        text.len() - rest.len() >= SHORTEST && (rest.is_empty() || rest.starts_with(['^', '~', ':', '@']))
    };
    text.split("..").any(|end| {
        let end = end.trim_start_matches(['.', '^']);
        begins(end) || end.match_indices("-g").any(|(at, _)| begins(&end[at + 2..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_found_in_every_form() {
        for text in ["ea3edc8", "EA3E", "ea3e^{blob}", "^ea3e", "HEAD..ea3e", "ea3e...HEAD", "v1-3-gea3e", "ea3e:key"] {
            assert!(is_hash(text), "{text}");
        }
        for text in ["HEAD", "HEAD~1000", "main", "v1.2.2024", "ea3", "feature", "HEAD:ea3e", "ea3edc8x", ":ea3e"] {
            assert!(!is_hash(text), "{text}");
        }
    }

    #[test]
    fn object_is_unknown_if_it_is_named_by_hash() {
        let find = |command: &str| {
            let words: Vec<Word> = command.split(' ').map(|word| Word::Literal(word.to_owned())).collect();
            unknown_object(&words)
        };
        for command in [
            "git show ea3edc8",
            "git --no-pager show -s ea3e",
            "git cat-file -p ea3e",
            "git cat-file blob ea3e",
            "git diff ea3e e69d",
            "git diff ea3e..e69d",
            "git diff ea3e -- a.txt",
            "git grep x ea3e",
            "git grep -e -- ea3e",
            "git stash apply ea3e:x",
            "git checkout ea3e -- key",
        ] {
            assert!(find(command).is_some(), "{command}");
        }
        for command in
            ["git show HEAD", "git diff ea3edc8", "git log -p ea3e", "git cat-file -t ea3e", "git checkout ea3e"]
        {
            assert_eq!(find(command), None, "{command}");
        }
    }
}
