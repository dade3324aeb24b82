//! Paths: resolving those of a tool call, and the globs of rules.

use std::path::{Component, Path, PathBuf, Prefix, PrefixComponent};

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
    // The check itself must not reach for other machines, which would get the password hash of this user.
    let followed = if is_remote(&lexical, &work_dir) { None } else { follow(&base.join(&path)) };
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
        if cfg!(windows) && text.contains('\\') {
            return Err("a path pattern has `/` between its parts, not `\\`".to_owned());
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
    if !cfg!(windows) {
        return text.into_owned();
    }
    let plain = text.strip_prefix(r"\\?\UNC\").map(|share| format!(r"\\{share}"));
    plain.unwrap_or_else(|| text.trim_start_matches(r"\\?\").to_owned()).replace('\\', "/")
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
    text.trim() != text
        || (text.starts_with('~') && expand_home(text).is_none())
        || text.contains(['$', '`', '*', '?', '%', '"', '\''])
        || (cfg!(unix) && text.contains([':', '\\']))
        || (cfg!(windows) && is_strange_on_windows(text))
        || text.chars().any(is_invisible)
}

/// Whether Windows opens another file than the text names: streams of a file, paths relative to a drive, devices, and
/// names that end with dots or spaces.
fn is_strange_on_windows(text: &str) -> bool {
    let (drive, rest) = match text.split_once(':') {
        Some((drive, rest)) if drive.len() == 1 && drive.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            (drive, rest)
        }
        _ => ("", text),
    };
    rest.contains([':', '<', '>', '|'])
        || (!drive.is_empty() && !rest.starts_with(['/', '\\']))
        || rest.split(['/', '\\']).any(|name| {
            let is_dots = matches!(name, "." | "..");
            (!is_dots && name.ends_with(['.', ' '])) || is_device(name)
        })
}

/// Whether Windows takes a name for a device, in any folder and with any extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let port = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    matches!(&*stem, "CON" | "PRN" | "AUX" | "NUL")
        || port.is_some_and(|port| {
            matches!(port, "¹" | "²" | "³") || (port.len() == 1 && port.as_bytes()[0].is_ascii_digit())
        })
}

/// Whether the path leads to a share or a device, unless the working directory is there, too.
fn is_remote(path: &Path, work_dir: &Path) -> bool {
    prefix(path).is_some_and(|own| {
        !matches!(own.kind(), Prefix::Disk(_) | Prefix::VerbatimDisk(_)) && prefix(work_dir) != Some(own)
    })
}

fn prefix(path: &Path) -> Option<PrefixComponent<'_>> {
    match path.components().next() {
        Some(Component::Prefix(prefix)) => Some(prefix),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_special_on_windows_is_strange() {
        for text in [
            "C:notes.txt",
            "c:",
            "notes.txt:stream",
            r"C:\work\notes.txt:stream",
            "notes.txt::$DATA",
            ".git::$INDEX_ALLOCATION/config",
            "notes.txt.",
            "notes.txt ",
            "src./a.py",
            r"src \a.py",
            "...",
            "NUL",
            "nul.txt",
            "src/Com1",
            r"src\lpt9.log",
            "con .txt",
            "COM²",
            r"\\.\C:\work\notes.txt",
            r"\\?\C:\work\notes.txt",
            "a|b",
            "ab:/notes.txt",
            "ü:/notes.txt",
        ] {
            assert!(is_strange_on_windows(text) || is_strange(text), "{text}");
        }
        for text in [
            r"C:\work\notes.txt",
            "c:/work/notes.txt",
            r"src\a.py",
            "../a",
            "./a/.",
            ".env",
            "a b.txt",
            "console.rs",
            "com10",
            "nullable.rs",
            r"\\server\share\a",
            "PROGRA~1",
            "",
        ] {
            assert!(!is_strange_on_windows(text), "{text}");
        }
    }
}
