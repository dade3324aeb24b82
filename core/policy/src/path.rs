//! Paths: resolving those of a tool call, and the globs of rules.

use std::path::{Component, Path, PathBuf};

/// The path of a tool call, with the forms that rules compare.
#[derive(Debug)]
pub(crate) struct FilePath {
    /// Every form that the path may have, for rules that deny: as written, and absolute and relative with and without links.
    forms: Vec<String>,
    /// The absolute paths as written and with links followed. Both have to match an allow rule.
    lexical: PathBuf,
    resolved: PathBuf,
    /// The working directory, as written and with links followed.
    work_dirs: [PathBuf; 2],
    /// Whether the path of the file that a tool would open is known.
    certain: bool,
    /// Whether an allow rule may speak about it. It may not if the path has `..`.
    allowable: bool,
}

/// Resolves a path of a tool call relative to `base`.
pub(crate) fn resolve(text: &str, base: &Path, work_dir: &Path) -> FilePath {
    let work_dir = std::path::absolute(work_dir).unwrap_or_else(|_| work_dir.to_owned());
    let base = work_dir.join(base);
    let known_work_dir = work_dir.canonicalize().unwrap_or_else(|_| work_dir.clone());
    let path = expand_home(text).unwrap_or_else(|| PathBuf::from(text));
    let has_parent = path.components().any(|component| component == Component::ParentDir);
    let lexical = normalized(&base.join(&path));
    let followed = follow(&base.join(&path));
    let certain = !is_strange(text) && followed.is_some();
    let resolved = followed.unwrap_or_else(|| lexical.clone());
    let mut forms = vec![text.to_owned(), text.replace('\\', "/")];
    let work_dirs = [normalized(&work_dir), known_work_dir];
    for absolute in [&lexical, &resolved] {
        forms.push(slashed(absolute));
        forms.extend(work_dirs.iter().filter_map(|dir| absolute.strip_prefix(dir).ok()).map(slashed));
    }
    forms.sort_unstable();
    forms.dedup();
    FilePath { forms, lexical, resolved, work_dirs, certain, allowable: certain && !has_parent && !text.is_empty() }
}

impl FilePath {
    /// Whether it is the working directory or below it.
    pub(crate) fn is_below(&self) -> bool {
        self.allowable && self.resolved.starts_with(&self.work_dirs[1])
    }

    pub(crate) fn directory(&self, work_dir: &Path) -> PathBuf {
        if self.certain { self.lexical.clone() } else { work_dir.to_owned() }
    }

    pub(crate) fn make_undecidable(&mut self) {
        (self.certain, self.allowable) = (false, false);
    }

    pub(crate) fn is_certain(&self) -> bool {
        self.certain
    }
}

/// A glob of a rule: relative to the working directory, or absolute.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    glob: String,
    is_absolute: bool,
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
        let mut glob = match expand_home(text) {
            Some(path) => slashed(&path),
            None => text.strip_prefix("./").unwrap_or(text).to_owned(),
        };
        if glob.ends_with('/') {
            glob.push_str("**");
        }
        let is_absolute = glob.starts_with('/') || glob.get(1..3) == Some(":/");
        Ok(Self { glob, is_absolute })
    }

    /// Whether a form of the path matches, without regard to case.
    pub(crate) fn matches_liberally(&self, path: &FilePath) -> bool {
        let glob = self.glob.to_lowercase();
        path.forms.iter().any(|form| {
            let form = form.to_lowercase();
            fast_glob::glob_match(&glob, &form)
                || glob.strip_suffix("/**").is_some_and(|parent| fast_glob::glob_match(parent, &form))
        })
    }

    /// Whether the path matches, as written and with links followed.
    pub(crate) fn matches_strictly(&self, path: &FilePath) -> bool {
        path.allowable
            && [&path.lexical, &path.resolved].into_iter().all(|absolute| self.matches(absolute, &path.work_dirs))
    }

    fn matches(&self, absolute: &Path, work_dirs: &[PathBuf; 2]) -> bool {
        if self.is_absolute {
            return fast_glob::glob_match(&self.glob, slashed(absolute));
        }
        let relative = work_dirs.iter().find_map(|dir| absolute.strip_prefix(dir).ok());
        relative.is_some_and(|relative| fast_glob::glob_match(&self.glob, slashed(relative)))
    }
}

fn slashed(path: &Path) -> String {
    let text = path.to_string_lossy();
    if cfg!(windows) { text.trim_start_matches(r"\\?\").replace('\\', "/") } else { text.into_owned() }
}

/// The path below the home directory that `~` or `~/…` names.
fn expand_home(text: &str) -> Option<PathBuf> {
    let rest = text.strip_prefix('~')?;
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
    let home = std::env::var_os(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).filter(|home| !home.is_empty())?;
    Some(Path::new(&home).join(rest))
}

/// Whether tools could understand the text as another path: variables, globs, addresses, other systems' separators.
fn is_strange(text: &str) -> bool {
    let is_windows_path = cfg!(windows) && text.get(1..2) == Some(":");
    text.trim() != text
        || (text.starts_with('~') && expand_home(text).is_none())
        || text.contains(['$', '`', '*', '?', '%', '"', '\''])
        || (!is_windows_path && text.contains(':'))
        || (cfg!(unix) && text.contains('\\'))
        || text.chars().any(is_invisible)
}

fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Removes `.` and `..` without looking at the files.
fn normalized(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Follows the links of the part that exists. Returns nothing if a link leads nowhere, or if the path cannot be read.
fn follow(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match existing.canonicalize() {
            Ok(found) => return Some(normalized(&missing.iter().rev().fold(found, |path, name| path.join(name)))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if existing.symlink_metadata().is_ok() {
                    return None;
                }
                missing.push(existing.components().next_back()?.as_os_str());
                existing = existing.parent()?;
            }
            Err(_) => return None,
        }
    }
}
