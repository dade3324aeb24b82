//! Patterns of paths in rules, and how they are compared with the paths of a call.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::words::{SOURCES, folded, rough};
use super::{FilePath, GlobUse, MAX_TEXT};
use crate::glob::{Ends, EndsAt, Globs, is_glob};
use crate::links::{expand_home, slashed};
use crate::rule::Certainty;
use crate::work::Budget;

/// A glob of a rule: relative to the working directory, or absolute.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    glob: String,
    lower: String,
    /// The glob without `/**` at its end.
    folder: Option<String>,
    /// What the glob begins with, up to its first wildcard, without the last `/`.
    start: String,
    is_absolute: bool,
    /// It has more than wildcards.
    pub(super) names_something: bool,
    /// The ends of `lower` and of `folder`.
    ends: EndsAt,
    folder_ends: Option<EndsAt>,
    /// `lower` and `folder` for comparisons with other globs.
    globs: OnceLock<[Option<Globs>; 2]>,
}

impl PathPattern {
    /// Reads a glob.
    ///
    /// # Errors
    /// Why the pattern is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('!') {
            return Err("a path pattern cannot begin with `!`".to_owned());
        }
        if text.split('/').any(|part| part == "..") {
            return Err("a path pattern cannot contain `..`".to_owned());
        }
        for (open, close) in [('[', ']'), ('{', '}')] {
            if text.matches(open).count() != text.matches(close).count() {
                return Err(format!("`{open}` without `{close}` in a path pattern"));
            }
        }
        if cfg!(windows) && text.contains('\\') {
            return Err("a path pattern has `/` between its parts, not `\\`".to_owned());
        }
        let mut glob = match expand_home(text) {
            Some(path) => slashed(&path),
            None => text.strip_prefix("./").unwrap_or(text).to_owned(),
        };
        // Systems take several `/` for one, except for the beginning of a share on Windows.
        while let Some(at) = glob.rfind("//").filter(|at| !glob.contains("://") && (*at > 0 || cfg!(not(windows)))) {
            glob.remove(at);
        }
        if glob.ends_with('/') {
            glob.push_str("**");
        }
        if glob.len() > MAX_TEXT || glob.matches('{').count() > 8 || glob.matches('*').count() > 64 {
            return Err("a path pattern has at most 4096 bytes, 64 `*` and 8 `{`".to_owned());
        }
        let is_absolute = glob.starts_with('/') || glob.get(1..3) == Some(":/");
        // The working directory: a rule that denies is about what is in it.
        let is_here = matches!(&*glob, "" | ".");
        let lower = if is_here { "**".to_owned() } else { folded(&glob) };
        if is_here {
            glob.clear();
        }
        let folder = lower.strip_suffix("/**").map(str::to_owned);
        let start = lower.split(['*', '?', '[', '{']).next().unwrap_or_default();
        let start =
            if start.len() < lower.len() { start.rsplit_once('/').map_or("", |(start, _)| start) } else { start };
        let ends = EndsAt::new(&lower);
        let folder_ends = folder.as_deref().map(EndsAt::new);
        let start = start.to_owned();
        let names_something = lower.contains(char::is_alphanumeric);
        Ok(Self { start, names_something, glob, lower, folder, is_absolute, ends, folder_ends, globs: OnceLock::new() })
    }

    /// The names of folders and files that every path which matches has, in lower case.
    pub(crate) fn literal_parts(&self) -> impl Iterator<Item = &str> {
        self.plain_parts().filter(|part| !part.contains(['*', '?']))
    }

    /// Texts in further names that every path which matches has, in lower case.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        let parts = self.plain_parts().filter(|part| part.contains(['*', '?']) && self.lower.is_ascii());
        parts
            .filter_map(|part| part.split(['*', '?']).max_by_key(|piece| piece.len()))
            .filter(|piece| !piece.is_empty())
    }

    /// The parts of the glob that are in no braces or brackets.
    fn plain_parts(&self) -> impl Iterator<Item = &str> {
        let mut depth = 0_usize;
        let parts = self.lower.split('/').filter(move |part| {
            let is_outside = depth == 0;
            depth = (depth + part.matches(['{', '[']).count()).saturating_sub(part.matches(['}', ']']).count());
            is_outside && part.is_ascii() && !part.contains(['[', ']', '{', '}', ',']) && !part.is_empty()
        });
        parts.filter(|_| !self.has_escape())
    }

    /// The text before the first wildcard, without the last `/`.
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    /// Whether `\\` changes what a sign means.
    pub(crate) fn has_escape(&self) -> bool {
        self.lower.contains('\\')
    }

    /// Whether it is about files in any folder.
    pub(crate) fn is_deep(&self) -> bool {
        self.lower.starts_with("**/")
    }

    /// Whether it is `*`.
    pub(crate) fn is_any_name(&self) -> bool {
        self.lower == "*"
    }

    /// Whether it is about all files of a folder that is in no other.
    pub(crate) fn is_folder_of_one_place(&self) -> bool {
        self.folder.is_some() && !self.lower.starts_with("**/.")
    }

    /// The ends of the globs that a path has to match.
    pub(crate) fn ends(&self) -> impl Iterator<Item = Ends<'_>> {
        let folder = self.folder.as_ref().zip(self.folder_ends);
        [self.ends.of(&self.lower)].into_iter().chain(folder.map(|(folder, ends)| ends.of(folder)))
    }

    /// A path that matches.
    pub(crate) fn witness(&self) -> Option<String> {
        if self.glob.is_empty() {
            return Some(".".to_owned());
        }
        let mut text = self.glob.replace("**/", "").replace("**", "x").replace(['*', '?'], "x");
        while let (Some(start), Some(end)) = (text.find('{'), text.find('}')) {
            let choice = text.get(start + 1..end)?.split(',').next()?.to_owned();
            text.replace_range(start..=end, &choice);
        }
        (!text.contains(['[', ']', '\\', '{', '}'])).then_some(text)
    }

    /// Whether it names only paths that no usual call of an agent has: absolute ones outside of the directory.
    pub(crate) fn is_outside(&self, work_dir: &Path) -> bool {
        let place = slashed(work_dir).to_lowercase();
        self.is_absolute
            && !self.start.is_empty()
            && !place.starts_with(&*self.start)
            && !self.start.starts_with(&*place)
    }

    /// Whether the path matches, without regard to case.
    pub(crate) fn matches_liberally(&self, path: &FilePath) -> Certainty {
        if path.is_word && self.is_about_all(path) {
            return Certainty::No;
        }
        if let Some(glob) = path.glob {
            return self.overlaps(path, glob);
        }
        let is_meant = |form: &String| self.is_meant(form) || (path.whole && self.is_below(form));
        if path.forms.iter().any(is_meant) {
            Certainty::Yes
        } else if !path.certain
            || self.may_be_same(path)
            || (path.whole && !path.is_word && self.is_deep() && path.resolved.is_dir())
        {
            Certainty::Maybe
        } else {
            Certainty::No
        }
    }

    /// Whether some systems or tools take the path for one that matches: accents are written in two ways, and a name with braces or
    /// brackets can be a glob.
    fn may_be_same(&self, path: &FilePath) -> bool {
        if !path.is_word && is_glob(&path.text) && self.overlaps(path, GlobUse::Search) != Certainty::No {
            return true;
        }
        if self.lower.is_ascii() {
            return false;
        }
        let glob = rough(&self.lower);
        path.forms.iter().any(|form| !form.is_ascii() && fast_glob::glob_match(&glob, rough(form)))
    }

    /// Whether the form matches, or a folder that it is in: a rule for a folder is a rule for what is in it.
    pub(super) fn is_meant(&self, form: &str) -> bool {
        self.matches_form(form)
            || form.match_indices('/').filter(|(at, _)| *at > 0).any(|(at, _)| self.matches_form(&form[..at]))
    }

    fn matches_form(&self, form: &str) -> bool {
        fast_glob::glob_match(&self.lower, form)
            || self.folder.as_ref().is_some_and(|folder| fast_glob::glob_match(folder, form))
    }

    /// Whether the paths that match are below this one.
    pub(super) fn is_below(&self, form: &str) -> bool {
        if form.starts_with('/') || form.get(1..3) == Some(":/") {
            return self.is_absolute
                && (form == "/" || self.start.strip_prefix(form).is_some_and(|rest| rest.starts_with('/')));
        }
        let is_root = matches!(form, "" | ".");
        !self.is_absolute
            && !self.start.is_empty()
            && (is_root
                || self.start == form
                || self.start.strip_prefix(form).is_some_and(|rest| rest.starts_with('/')))
    }

    fn overlaps(&self, path: &FilePath, glob: GlobUse) -> Certainty {
        let text = &path.text;
        let extension = text.rsplit_once("*.").map(|(_, extension)| extension);
        let is_source = glob == GlobUse::Search && extension.is_some_and(|extension| SOURCES.contains(&extension));
        let hides_dots = glob == GlobUse::Shell || is_source;
        if path.may_be_any() {
            return Certainty::Maybe;
        }
        if path.skips_folders() && self.is_folder_of_one_place() {
            return Certainty::No;
        }
        let own = self.globs.get_or_init(|| {
            let globs = |glob: &str| Globs::new(glob, &Budget::new(usize::MAX));
            [Some(globs(&self.lower)), self.folder.as_deref().map(globs)]
        });
        let may_overlap = |form: &Option<Globs>, own: &Option<Globs>| {
            form.as_ref().zip(own.as_ref()).is_some_and(|(form, own)| form.may_overlap(own, hides_dots, &path.budget))
        };
        let [whole, folder] = own;
        let may = path
            .globs()
            .iter()
            .any(|[form, below]| may_overlap(form, whole) || may_overlap(form, folder) || may_overlap(below, whole));
        if may && self.may_be_there(path) { Certainty::Maybe } else { Certainty::No }
    }

    /// Whether one of the files that a glob for sources matches is meant, as far as these are known.
    fn may_be_there(&self, path: &FilePath) -> bool {
        /// The work of a comparison with a file.
        const FILE: usize = 20;
        let Some(files) = &path.existing else { return true };
        path.budget.take(files.len() * FILE).is_none() || files.iter().any(|file| self.is_meant(file))
    }

    /// Whether the path matches, as written and with links followed.
    pub(crate) fn matches_strictly(&self, path: &FilePath) -> bool {
        path.allowable
            && [&path.lexical, &path.resolved]
                .into_iter()
                .chain(&path.others)
                .all(|absolute| self.matches(absolute, &path.work_dirs))
    }

    fn matches(&self, absolute: &Path, work_dirs: &[PathBuf; 2]) -> bool {
        if self.is_absolute {
            return fast_glob::glob_match(&self.glob, slashed(absolute));
        }
        let relative = work_dirs.iter().find_map(|dir| absolute.strip_prefix(dir).ok());
        relative.is_some_and(|relative| fast_glob::glob_match(&self.glob, slashed(relative)))
    }
}
