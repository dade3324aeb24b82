//! Paths that words of commands may mean although they do not look like paths, patterns of git, and texts as they are compared.

use std::path::PathBuf;

use kimi_agent_protocol::place::Resolved;

use super::{FilePath, GlobUse, MAX_TEXT, PathPattern, WorkDir, resolve_name};
use crate::glob::is_glob;
use crate::links::{expand_home, normalized, slashed};

/// Endings of sources. A search for them does not look for hidden files such as `.env.py`.
pub(super) const SOURCES: &[&str] = &[
    "py", "pyi", "rs", "js", "mjs", "cjs", "ts", "tsx", "jsx", "go", "java", "kt", "c", "h", "cc", "cpp", "hpp", "cs",
    "rb", "php", "swift", "scala", "sh", "md", "rst", "txt", "html", "css", "scss", "vue", "svelte", "sql", "proto",
    "lua", "ex", "hs",
];
/// A name that no rule is about.
const OTHER: &str = "\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}";

impl FilePath {
    /// The names of files that texts in a word can be, in some folders, or else in any. The files are not looked at.
    pub(crate) fn of_names(text: &str, names: &[&str], folders: &[&FilePath], dir: &WorkDir) -> Self {
        let work_dirs = dir.spellings.clone();
        let mut forms = Vec::new();
        let mut lexical = PathBuf::new();
        let mut is_unknown = false;
        for name in names {
            let known = dir.resolved(name);
            is_unknown |= known == Resolved::Unknown;
            let name = match &known {
                Resolved::Known(name) => &**name,
                Resolved::Foreign | Resolved::Unknown => *name,
            };
            forms.push(if folders.is_empty() { format!("**/{name}") } else { name.to_owned() });
            let path = expand_home(name).unwrap_or_else(|| PathBuf::from(name));
            for folder in folders.iter().flat_map(|folder| [&folder.lexical, &folder.resolved]) {
                let absolute = normalized(&folder.join(&path));
                forms.extend(work_dirs.iter().filter_map(|dir| absolute.strip_prefix(dir).ok()).map(slashed));
                forms.push(slashed(&absolute));
                lexical = absolute;
                if is_glob(name) {
                    let found = dir.expansion(&path, folder);
                    is_unknown |= found.is_deep_cut;
                    let places = found.linked.iter().chain(&found.deep).map(|place| place.to_string_lossy());
                    forms.extend(places.flat_map(|place| resolve_name(&place, folder, dir).forms));
                }
            }
        }
        forms = forms.iter().map(|form| folded(form)).collect();
        forms.sort_unstable();
        forms.dedup();
        let mut path = Self::unreadable("", dir);
        (path.forms, path.work_dirs, path.text) = (forms, work_dirs, text.to_owned());
        (path.resolved, path.lexical) = (lexical.clone(), lexical);
        (path.certain, path.is_any, path.is_word, path.is_unknown) = (true, false, true, is_unknown);
        if folders.is_empty() {
            let is_any = text.contains(['$', '`']);
            return path.into_wide(is_any);
        }
        path
    }

    /// A path of the agent that is no path of this machine, or may be any. Rules that deny compare it as it is written.
    pub(super) fn foreign(text: &str, known: &Resolved<'_>, dir: &WorkDir) -> Self {
        let mut path = Self::unreadable(text, dir);
        if text.len() <= MAX_TEXT {
            path.is_any = *known == Resolved::Unknown;
            path.forms = vec![folded(text)];
            text.clone_into(&mut path.text);
        }
        path.is_foreign = true;
        path
    }

    /// Only the shell knows the word.
    pub(crate) fn into_dynamic(mut self) -> Self {
        self.certain &= !self.text.contains(['$', '`']);
        self.into_glob(GlobUse::Shell)
    }

    /// Any file: a command runs in a folder that is not known.
    pub(crate) fn anything(text: &str, dir: &WorkDir) -> Self {
        let mut path = Self::unreadable("", dir);
        path.text = text.to_owned();
        path.into_wide(true).into_word()
    }

    /// It may mean no file: rules about all files of the working directory are not about it.
    pub(crate) fn into_word(mut self) -> Self {
        self.is_word = true;
        self
    }

    /// Whether it may mean no file.
    pub(crate) fn is_word(&self) -> bool {
        self.is_word
    }

    /// Adds the forms of the path in another folder.
    pub(crate) fn or(mut self, other: Self) -> Self {
        self.certain &= other.certain;
        self.forms.extend(other.forms);
        self.expanded.extend(other.expanded);
        self.expanded_by_shell.extend(other.expanded_by_shell);
        self.is_unknown |= other.is_unknown;
        self.forms.sort_unstable();
        self.forms.dedup();
        self
    }

    /// Whether it is a folder that the other one is in, or this folder.
    pub(crate) fn is_around(&self, other: &Self) -> bool {
        other.lexical.starts_with(&self.lexical)
    }

    /// It is relative to a folder that is not known.
    pub(crate) fn in_any_folder(mut self) -> Self {
        let is_any = self.text.contains(['$', '`']);
        self.forms = vec![format!("**/{}", folded(self.text.trim_start_matches("./")))];
        self.into_wide(is_any)
    }

    /// A glob whose wildcards match any characters.
    fn into_wide(mut self, is_any: bool) -> Self {
        (self.certain, self.allowable, self.is_any_glob) = (false, false, is_any);
        self.is_any = false;
        self.glob = Some(GlobUse::Wide);
        self
    }

    /// Reads the path as a pattern of git, if it is one.
    pub(crate) fn into_pathspec(mut self) -> Self {
        let text = self.text.clone();
        if let Some(magic) = text.strip_prefix(':') {
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
            return if magic.starts_with(is_name) { self } else { self.into_wide(true) };
        }
        if !text.contains(['*', '?', '[', '\\', '$', '`']) {
            return self;
        }
        let extension = text.strip_prefix("**/").unwrap_or(&text).strip_prefix("*.");
        if extension.is_some_and(|extension| SOURCES.contains(&extension)) {
            return self.into_glob(GlobUse::Search);
        }
        self.forms.iter_mut().for_each(|form| *form = widened(form));
        self.into_wide(text.contains(['$', '`']))
    }

    /// Whether nothing is known of the files that are meant.
    pub(crate) fn is_any_file(&self) -> bool {
        if self.glob.is_some() { self.may_be_any() } else { !self.certain }
    }

    /// A path in the working directory that no rule names.
    fn others(&self) -> &[String] {
        self.other_forms.get_or_init(|| {
            let absolute = |dir: &PathBuf| folded(&slashed(&dir.join(OTHER)));
            let mut forms: Vec<String> = self.work_dirs.iter().map(absolute).collect();
            forms.push(OTHER.to_owned());
            forms.dedup();
            forms
        })
    }
}

/// The wildcards of git match `/`, too.
fn widened(form: &str) -> String {
    let mut wide = String::with_capacity(form.len() + 8);
    let mut rest = form.chars();
    while let Some(c) = rest.next() {
        let is_wild = match c {
            '*' | '?' => true,
            '[' => {
                let after = rest.as_str();
                if let Some(end) = after.char_indices().skip(1).find(|(_, c)| *c == ']').map(|(at, _)| at) {
                    rest = after[end + 1..].chars();
                }
                true
            }
            '\\' => {
                rest.next();
                true
            }
            _ => false,
        };
        if !is_wild {
            wide.push(c);
        } else if !wide.ends_with("**") {
            wide.push_str("**");
        }
    }
    wide
}

impl PathPattern {
    /// Whether it is about all files of the working directory, so that it does not name the file that a word may mean.
    pub(super) fn is_about_all(&self, path: &FilePath) -> bool {
        let is_inside = path.lexical.starts_with(&path.work_dirs[0]);
        !self.names_something()
            || (is_inside && !path.is_any_file() && path.others().iter().any(|form| self.is_meant(form)))
    }

    /// Whether it has more than wildcards.
    pub(crate) fn names_something(&self) -> bool {
        self.names_something
    }
}

/// A text without case, as systems compare names.
pub(super) fn folded(text: &str) -> String {
    text.to_lowercase().replace('\u{17f}', "s")
}

/// A text with one sign for each run of letters with accents and other letters: it is the same in each normal form of Unicode.
pub(super) fn rough(text: &str) -> String {
    let mut rough = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let has_accent = chars.peek().is_some_and(|next| matches!(next, '\u{300}'..='\u{36f}'));
        if c.is_ascii() && !has_accent {
            rough.push(c);
        } else if !rough.ends_with('\u{1}') {
            rough.push('\u{1}');
        }
    }
    rough
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_of_git_match_separators() {
        for (text, wide) in [
            ("*env", "**env"),
            ("s*env", "s**env"),
            ("?env", "**env"),
            ("secrets[/]k", "secrets**k"),
            ("a[]]b", "a**b"),
            ("a\\*b", "a**b"),
            ("a/**/b", "a/**/b"),
            ("a.py", "a.py"),
        ] {
            assert_eq!(widened(text), wide, "{text}");
        }
    }
}
