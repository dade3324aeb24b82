//! The files and hosts that the words of a command may name.

use std::path::{Path, PathBuf};

use super::hosts::takes_code;
use super::{MAX_OPERANDS, Part, Taker, Target, comparisons};
use crate::command::{self, Command, Item, Word, base_name};
use crate::file_use::{self, FileUses, Use};
use crate::glob::is_glob;
use crate::kinds::Kind;
use crate::path::{FilePath, WorkDir, resolve};
use crate::programs;

/// Longer names of files are not looked for inside of words.
pub(super) const MAX_NAME: usize = 255;

/// The folders in which the commands of a text run.
pub(super) struct Place {
    /// The folder in which they begin.
    base: FilePath,
    base_dir: PathBuf,
    /// The one folder in which they run from then on, if it is known.
    folder: Option<FilePath>,
    /// This folder, if it is in the working directory.
    inside: Option<PathBuf>,
    /// A command changes the folder.
    pub(super) moves: bool,
    /// No command makes another file before a further one reads it.
    pub(super) only_reads: bool,
}

impl Place {
    pub(super) fn of(items: &[Item], base: FilePath, work_dir: &WorkDir) -> Self {
        let base_dir = base.directory(work_dir);
        let moves: Vec<&[Word]> = items
            .iter()
            .filter_map(|item| match item {
                Item::Command { command, shadow: false, .. } if command::changes_directory(command.words()) => {
                    Some(command.words())
                }
                _ => None,
            })
            .collect();
        let folder = match &*moves {
            [[Word::Literal(name)]] if matches!(&**name, "cd" | "chdir") => Some(resolve("~", work_dir, work_dir)),
            [[Word::Literal(_), Word::Literal(folder)]] if !folder.starts_with('-') && !folder.is_empty() => {
                Some(resolve(folder, &base_dir, work_dir))
            }
            _ => None,
        };
        let folder = folder.filter(FilePath::is_certain);
        let inside = folder.as_ref().filter(|folder| !folder.is_outside());
        let inside = inside.map(|folder| folder.directory(work_dir));
        let reads = |item: &Item| match item {
            Item::Command { command, shadow, .. } => *shadow || file_use::is_harmless(command),
            Item::Read(_) => true,
            _ => false,
        };
        Self { base, base_dir, folder, inside, moves: !moves.is_empty(), only_reads: items.iter().all(reads) }
    }

    /// Whether the commands may run outside of the working directory.
    pub(super) fn leaves(&self) -> bool {
        self.moves && self.inside.is_none()
    }

    pub(super) fn base_dir(&self) -> &Path {
        &self.base_dir
    }

    /// Whether one of the folders in which the commands may run is in a repository of its own.
    pub(super) fn has_own_repository(&self, work_dir: &WorkDir) -> bool {
        work_dir.has_own_repository(&self.base_dir)
            || self.inside.as_ref().is_some_and(|folder| work_dir.has_own_repository(folder))
    }

    fn is_known(&self) -> bool {
        !self.moves || self.folder.is_some()
    }

    /// The folders that a relative path can be in, if they are known.
    fn folders(&self) -> Vec<&FilePath> {
        [Some(&self.base), self.folder.as_ref()].into_iter().flatten().collect()
    }

    /// The path that a text names.
    pub(super) fn resolve(&self, text: &str, work_dir: &WorkDir) -> FilePath {
        let path = resolve(text, &self.base_dir, work_dir);
        if !self.moves || is_absolute(text) {
            return path;
        }
        match &self.folder {
            Some(folder) => {
                let moved = resolve(text, &folder.directory(work_dir), work_dir);
                // A folder around the other one would hide which of its files are meant.
                let path = if path.is_around(folder) { moved } else { moved.or(path) };
                if self.inside.is_some() { path } else { path.into_doubt() }
            }
            None => path.into_doubt(),
        }
    }
}

fn is_absolute(text: &str) -> bool {
    Path::new(text).is_absolute() || text.starts_with('~')
}

impl Taker<'_> {
    /// Adds the files and hosts that the words of a command may name.
    pub(super) fn add_operands(&mut self, command: &mut Command, shadow: bool, place: &Place) {
        if shadow && !self.needs.paths && !self.needs.hosts {
            return;
        }
        let Some(files) = FileUses::of(command) else {
            command.dangers.retain(|danger| !danger.is_outside);
            return;
        };
        let words = command.words().to_vec();
        let is_network = words[0].literal().is_some_and(programs::is_network);
        let is_of_files = !is_network && words[0].literal().is_some_and(file_use::is_of_files);
        let has_code = takes_code(command);
        if self.needs.hosts && !shadow {
            self.add_hosts_from_elsewhere(command);
        }
        let (mut outside, mut globs) = (Vec::new(), Vec::new());
        let folders = [Some(&*place.base_dir), place.inside.as_deref()];
        for (at, word) in words.iter().enumerate().skip(1) {
            let text = word.text();
            // A pattern of names is compared as a pattern.
            let is_name = is_glob(text) && !text.contains('/') && file_use::is_name_of_find(&words, at);
            if word.literal().is_some() && (files.is_script(at) || is_name) {
                continue;
            }
            // A word alone is a file, too, if it is a link: rules that allow look at it.
            let is_link = |name: &&str| folders.iter().flatten().any(|folder| self.work_dir.is_link(name, folder));
            let link = if shadow { None } else { names(text).find(is_link) };
            if link.is_some() {
                outside.push(at);
            }
            if self.needs.hosts {
                self.add_host(word, is_network);
                if !is_of_files && at <= MAX_OPERANDS {
                    self.add_named_hosts(text, is_network);
                }
                if has_code {
                    self.add_hosts_of_code(text);
                }
            }
            for (piece, is_whole) in pieces(text) {
                let is_like_path = is_like_path(piece);
                let is_option = text.starts_with('-') && is_whole;
                if self.operands >= MAX_OPERANDS {
                    self.add_rest(command);
                    outside.push(at);
                    break;
                }
                if is_option || (!shadow && !self.needs.paths && !is_like_path) {
                    continue;
                }
                self.operands += 1;
                let mut path = resolve(piece, place.inside.as_deref().unwrap_or(&place.base_dir), self.work_dir);
                let is_of_shell = is_whole && !shadow && word.literal().is_none();
                if is_of_shell && place.only_reads && !place.moves && files.only_reads(&words) {
                    path = path.into_existing(&place.base_dir, self.work_dir, false);
                    globs.extend(Some(at).filter(|_| path.is_existing()));
                }
                // The command can also run before the one that changes the directory.
                let is_outside = |path: &FilePath| {
                    path.is_outside()
                        || (place.inside.is_some() && resolve(piece, &place.base_dir, self.work_dir).is_outside())
                };
                let is_file = is_whole && files.is_file(at);
                let in_commit =
                    if is_whole && !is_file && files.is_git { self.is_in_commit(&words, at, place) } else { None };
                let is_known = in_commit == Some(true) || path.is_existing();
                let leaves = is_like_path && !is_known && is_outside(&path);
                if !shadow && (leaves || in_commit == Some(false)) {
                    outside.push(at);
                }
                // The file of a commit is another piece.
                let is_commit = |name: &str| cfg!(unix) && !name.is_empty() && !name.contains('/');
                let is_of_commit = files.is_git
                    && is_whole
                    && !is_file
                    && text.split_once(':').is_some_and(|(commit, _)| is_commit(commit));
                // Other words are files only if they look like files, or are compared with rules that name them.
                if self.needs.paths && (is_file || is_like_path) && !is_of_commit {
                    let path = if place.moves { place.resolve(piece, self.work_dir) } else { path };
                    self.add_file(&files, files.of_word(&words, at), path, word, !is_file, place);
                }
            }
            // Of more files, nothing is known in any case.
            let is_cut = self.operands > MAX_OPERANDS;
            if self.needs.paths && !shadow && !is_cut && files.may_name_file(&words, at) {
                let is_word = !files.is_file(at) && !text.starts_with('-') && !is_like_path(text);
                let mut found = hidden_names(text);
                if files.is_unknown() {
                    found.extend(parts_of_word(text));
                }
                found.extend(Some(text).filter(|_| is_word));
                // Half a set in braces is not a glob.
                let is_half = |name: &str| name.matches('{').count() != name.matches('}').count();
                found.retain(|name| word.literal().is_some() || !is_half(name));
                if let Some(link) = link.filter(|_| is_word || link != Some(text)) {
                    let path = place.resolve(link, self.work_dir).into_word();
                    self.add_file(&files, files.of_word(&words, at), path, word, true, place);
                }
                if !found.is_empty() && !files.uses.is_empty() {
                    let folders = if place.is_known() { place.folders() } else { Vec::new() };
                    let path = FilePath::of_names(text, &found, &folders, self.work_dir);
                    let before = self.parts.len();
                    self.add_file(&files, files.of_word(&words, at), path, word, true, place);
                    let names = self.parts[before..].iter_mut().filter(|part| part.kind.is_none());
                    for part in names {
                        // A rule that spells the whole command allows what its program does with such a name.
                        let mut whole = Part::new(Some(Kind::Execute), Target::Command(command.clone()));
                        whole.doubt = self.known.doubt.clone();
                        (part.spelled, part.is_name) = (Some(Box::new(whole)), true);
                    }
                }
            }
        }
        if self.needs.paths && !shadow {
            let uses: Vec<Use> = files.of_folder().collect();
            if !uses.is_empty() {
                let path = place.resolve(".", self.work_dir);
                self.add_file(&files, uses.into_iter(), path, &Word::Literal(".".to_owned()), true, place);
            }
        }
        // A test in a file is named as `file::test` or `file:line`.
        let is_test_inside = |at: usize| {
            let is_test = |name: &str| name.starts_with(':') || name.bytes().all(|byte| byte.is_ascii_digit());
            let file = words[at].text().split_once(':').filter(|(_, name)| is_test(name)).map(|(file, _)| file);
            let base = place.inside.as_deref().unwrap_or(&place.base_dir);
            file.is_some_and(|file| !resolve(value_of(file), base, self.work_dir).is_outside())
        };
        let is_outside = |at: usize| outside.contains(&at) && !is_test_inside(at);
        command.dangers.retain(|danger| !danger.is_outside || is_outside(danger.at));
        (command.outside, command.globs) = (outside, globs);
        if self.needs.paths {
            self.add_link_targets(&words, &files, place);
            self.add_elsewhere(command, &files, shadow, place);
        }
        if !shadow {
            let folders: Vec<&Path> = folders.into_iter().flatten().collect();
            comparisons::mark(command, self.work_dir, &folders);
        }
    }

    /// Whether a word of git is a file of a commit, such as `HEAD:src/a.py`, and whether its name surely begins at the working
    /// directory. The name is looked at, too.
    fn is_in_commit(&self, words: &[Word], at: usize, place: &Place) -> Option<bool> {
        let subcommand = programs::first_operand(words).map(|at| words[at].text());
        let (commit, file) = words[at].text().split_once(':').filter(|_| cfg!(unix))?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_.~^-".contains(c);
        if !matches!(subcommand, Some("show" | "grep")) || !commit.chars().all(is_part) || commit.is_empty() {
            return None;
        }
        let is_top = !place.moves && self.work_dir.is_top_of_repository(&place.base_dir);
        let is_plain = subcommand == Some("show") && !commit.starts_with('-') && !file.contains(':');
        if is_top { is_plain.then_some(true) } else { self.work_dir.is_in_repository(&place.base_dir).then_some(false) }
    }

    /// Adds the rest of the words, which is not looked at.
    pub(super) fn add_rest(&mut self, command: &Command) {
        if self.operands <= MAX_OPERANDS && (self.needs.paths || self.needs.hosts) {
            let reason = "it names more files than are looked at".to_owned();
            let mut part = Part::new(Some(Kind::Execute), Target::opaque(command.text(), reason));
            (part.shadow, part.hides) = (true, true);
            self.parts.push(part);
            self.operands = MAX_OPERANDS + 1;
        }
    }

    /// Adds the files that new links may lead to: the target of a link is relative to the folder of the link.
    fn add_link_targets(&mut self, words: &[Word], files: &FileUses, place: &Place) {
        /// Further words are not looked at.
        const MAX_NAMES: usize = 8;
        if !words[0].literal().is_some_and(|name| matches!(&*base_name(name), "ln" | "gln")) {
            return;
        }
        let names = words.iter().enumerate().skip(1).map(|(at, word)| (at, value_of(word.text())));
        let names: Vec<(usize, &str)> = names.filter(|(_, name)| !name.starts_with('-')).take(MAX_NAMES).collect();
        for (at, target) in names.iter().filter(|(_, name)| !is_absolute(name)) {
            for (_, link) in names.iter().filter(|(other, _)| other != at) {
                let parent = Path::new(link).parent().and_then(Path::to_str).unwrap_or_default();
                for folder in [*link, parent] {
                    let folder = place.resolve(folder, self.work_dir).directory(self.work_dir);
                    let path = resolve(target, &folder, self.work_dir);
                    self.add_file(files, files.of_word(words, *at), path, &words[*at], true, place);
                }
            }
        }
    }

    /// Adds what a command does with a file that a word may name.
    pub(super) fn add_file(
        &mut self,
        files: &FileUses,
        uses: impl Iterator<Item = Use>,
        path: FilePath,
        word: &Word,
        is_vague: bool,
        place: &Place,
    ) {
        let is_dynamic = word.literal().is_none();
        let is_option = word.text().starts_with('-');
        for of in uses {
            let mut path = path.clone();
            if of.has_content {
                path = path.with_content();
            }
            if files.is_git && !is_option {
                path = path.into_pathspec();
            }
            if is_dynamic && !path.is_glob_of_call() {
                path = path.into_dynamic();
            }
            let is_glob = path.is_glob_of_call();
            if is_glob && !path.is_word() && !place.is_known() && !is_absolute(word.text()) {
                path = path.in_any_folder();
            }
            let mut part = Part::new(of.kind, Target::Path(path));
            part.shadow = true;
            part.hides = is_dynamic || is_glob || place.moves;
            part.vague = is_vague || of.is_vague;
            self.parts.push(part);
        }
    }

    /// Adds the folder in which a command runs: a rule for the files in it is also about the command.
    pub(super) fn add_folder(&mut self, command: &Command, place: &Place, seen: &mut Vec<Use>) {
        let Some(files) = FileUses::of(command).filter(|_| self.needs.paths) else { return };
        for of in files.uses {
            if seen.contains(&of) {
                continue;
            }
            seen.push(of);
            let text = match &place.folder {
                Some(folder) => &folder.text,
                None => &place.base.text,
            };
            let path = match (&place.folder, place.moves) {
                (None, true) => FilePath::anything("cd", self.work_dir),
                _ => resolve(text, if place.folder.is_some() { &place.base_dir } else { self.work_dir }, self.work_dir),
            };
            let mut part = Part::new(of.kind, Target::Path(path.into_word()));
            (part.shadow, part.hides, part.vague) = (true, true, true);
            self.parts.push(part);
        }
    }
}

/// The value of an option, or else the word.
pub(super) fn value_of(text: &str) -> &str {
    text.split_once('=').filter(|_| text.starts_with('-')).map_or(text, |(_, value)| value)
}

/// The texts inside of a word of a program of which nothing is known that can be paths: those of a command in one word, and those
/// before and behind signs.
fn parts_of_word(text: &str) -> impl Iterator<Item = &str> {
    /// Further ones are not looked at.
    const MAX_PARTS: usize = 32;
    let is_end = |c: char| c.is_whitespace() || "<>|;&()\"'`,#?".contains(c);
    let parts = text.split(is_end).filter(|part| !part.is_empty()).take(MAX_PARTS);
    parts.filter(move |part| is_like_path(part) && *part != text && part.len() <= MAX_NAME)
}

pub(super) fn is_like_path(text: &str) -> bool {
    text.contains(['/', '.', '~']) || (cfg!(windows) && text.contains('\\'))
}

/// The texts inside of a word that can be the name of a file, without those that look like a path.
fn names(text: &str) -> impl Iterator<Item = &str> {
    /// No program has more short options in one word.
    const MAX_OPTIONS: usize = 64;
    let mut names = pieces(text);
    if text.starts_with('-') && !text.starts_with("--") {
        // Behind joined options, a name begins anywhere.
        names.extend(text.char_indices().skip(2).take(MAX_OPTIONS).map(|(at, _)| (&text[at..], false)));
    }
    names.retain(|(name, is_whole)| !(is_like_path(name) || *is_whole && text.starts_with('-')));
    names.into_iter().map(|(name, _)| name)
}

/// The texts inside of a word that can be a path, and whether it is the word itself: values of options, `of=…`, `HEAD:…`, `@…`.
fn pieces(text: &str) -> Vec<(&str, bool)> {
    let mut pieces = vec![(text, true)];
    let is_option = text.starts_with('-');
    for sign in ['=', ':', '@'] {
        if let Some((_, rest)) = text.split_once(sign) {
            pieces.push((rest, false));
        }
    }
    if is_option && !text.starts_with("--") {
        let value = text.char_indices().nth(2).map_or("", |(at, _)| &text[at..]);
        // Behind joined options, a path begins anywhere.
        let path = text.find(['/', '.', '~']).map_or("", |at| &text[at..]);
        pieces.extend([(value, false), (path, false)]);
    }
    pieces.retain(|(piece, _)| !piece.is_empty());
    pieces
}

/// Further texts inside of a word that can be the name of a file: values behind options and signs, also of lists, and texts in
/// quotes.
fn hidden_names(text: &str) -> Vec<&str> {
    /// How many short options are joined, and how many values and texts in quotes a word has.
    const MAX_HIDDEN: usize = 16;
    let is_option = text.starts_with('-');
    let pieces = pieces(text).into_iter().filter(|(piece, is_whole)| !is_whole && !is_like_path(piece));
    let mut found: Vec<&str> = pieces.map(|(piece, _)| piece).collect();
    if is_option && !text.starts_with("--") {
        let letters = text.bytes().skip(1).take_while(u8::is_ascii_alphanumeric).count().min(MAX_HIDDEN);
        // Behind joined options, a name begins anywhere.
        found.extend((2..=letters).map(|at| &text[at..]));
    }
    for quote in ['"', '\''] {
        found.extend(text.split(quote).skip(1).step_by(2).take(MAX_HIDDEN));
    }
    found.extend(text.split(['=', ':', '@', ',', '+']).skip(1).take(MAX_HIDDEN));
    found.retain(|name| !name.is_empty() && name.len() <= MAX_NAME && *name != text);
    found.sort_unstable();
    found.dedup();
    found
}
