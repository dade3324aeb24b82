//! Globs of sources as the files that exist: a rule for `secrets.*` is about `src/*.py` only if such a file is there.

use std::path::Path;

use super::words::{SOURCES, folded};
use super::{FilePath, WorkDir};
use crate::links::{normalized, slashed};

/// A glob with more files is compared as a glob.
const MAX_FILES: usize = 500;

/// The parts of a glob for the sources in a folder, such as `src/*.py` and `src/**/a*.py`.
#[derive(Debug, PartialEq, Eq)]
struct Sources<'a> {
    folder: &'a str,
    is_deep: bool,
    /// The beginning and the end of the names.
    start: &'a str,
    end: &'a str,
}

impl<'a> Sources<'a> {
    /// Returns nothing for any other glob. All programs read these in the same way.
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix("./").unwrap_or(text);
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/*._-".contains(c));
        let (folder, name) = text.rsplit_once('/').unwrap_or(("", text));
        let (start, end) = name.split_at(name.find('*').filter(|_| is_plain)?);
        let end = end.strip_prefix('*')?;
        let (folder, is_deep) = match folder.strip_suffix("**") {
            Some(folder) if folder.is_empty() || folder.ends_with('/') => (folder.trim_end_matches('/'), true),
            _ => (folder, false),
        };
        let is_source = end.strip_prefix('.').is_some_and(|extension| SOURCES.contains(&extension));
        let is_hidden = |name: &str| name.starts_with(['.', '-']);
        let is_inside = !text.starts_with('/') && !folder.contains('*') && !folder.split('/').any(is_hidden);
        (is_source && is_inside && !is_hidden(start)).then_some(Self { folder, is_deep, start, end })
    }
}

impl FilePath {
    /// Compares the path with rules as the files that it matches now, if it is a glob for sources. A search looks for a name alone in
    /// each folder.
    pub(crate) fn into_existing(mut self, base: &Path, dir: &WorkDir, is_search: bool) -> Self {
        self.existing = Sources::parse(&self.text).and_then(|sources| dir.existing(&sources, base, is_search));
        self
    }

    /// Whether the files that the glob matches are known.
    pub(crate) fn is_existing(&self) -> bool {
        self.existing.is_some()
    }
}

impl WorkDir {
    /// The files that the glob matches, in each form that rules compare. Returns nothing if there are many, or if links may lead elsewhere.
    fn existing(&self, sources: &Sources<'_>, base: &Path, is_search: bool) -> Option<Vec<String>> {
        let place = self.absolute.join(base).join(sources.folder);
        let known = place.canonicalize().ok().filter(|_| self.is_here())?;
        let below = known.strip_prefix(&self.spellings[1]).ok()?;
        if normalized(&place).strip_prefix(&self.spellings[0]).ok()? != below {
            return None;
        }
        // Shells read `**` in several ways.
        if sources.is_deep && !is_search {
            return None;
        }
        let is_deep = sources.is_deep || (is_search && sources.folder.is_empty());
        let (start, end) = (sources.start.to_lowercase(), sources.end);
        // A rule for the folder is one for its files, also if none is there.
        let mut found = if sources.folder.is_empty() { Vec::new() } else { vec![folded(&slashed(below))] };
        let (mut open, mut count) = (vec![known.clone()], 0);
        while let Some(folder) = open.pop() {
            for entry in folder.read_dir().ok()? {
                let entry = entry.ok().filter(|_| self.counts_file())?;
                let (kind, path) = (entry.file_type().ok()?, entry.path());
                let name = entry.file_name().to_str()?.to_lowercase();
                if name.starts_with(&start) && name.ends_with(end) && name.len() >= start.len() + end.len() {
                    count += 1;
                    // A program can take such a name for an option.
                    if kind.is_symlink() || name.starts_with('-') || count > MAX_FILES {
                        return None;
                    }
                    let below = path.strip_prefix(&self.spellings[1]).ok()?;
                    found.extend([folded(&slashed(below)), folded(&slashed(&path))]);
                    found.push(folded(&slashed(&self.spellings[0].join(below))));
                }
                // Git has many entries there, and no sources.
                let is_of_objects = path.ends_with(".git/objects");
                if is_deep && kind.is_dir() && !is_of_objects {
                    open.push(path);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::path::resolve;
    use crate::work::Budget;

    #[test]
    fn only_plain_globs_for_sources_are_read() {
        for (text, folder, is_deep, start) in [
            ("*.py", "", false, ""),
            ("./src/*.py", "src", false, ""),
            ("src/**/a*.py", "src", true, "a"),
            ("**/*.py", "", true, ""),
        ] {
            assert_eq!(Sources::parse(text), Some(Sources { folder, is_deep, start, end: ".py" }), "{text}");
        }
        for text in [
            "*.key",
            "*",
            "*.*",
            ".*.py",
            "-*.py",
            "/src/*.py",
            "../*.py",
            "s*/a.py",
            "s*/*.py",
            "a?.py",
            "{a,b}*.py",
            "*.py*",
            "[a]*.py",
            "$x/*.py",
            "~/*.py",
            "a**.py",
            "src**/*.py",
            ".ssh/*.py",
            "*.pem.py",
            "src/a.py",
        ] {
            assert_eq!(Sources::parse(text), None, "{text}");
        }
    }

    #[test]
    fn existing_files_of_glob_are_found() -> std::io::Result<()> {
        let root = tempfile::tempdir()?;
        let dir = root.path();
        std::fs::create_dir_all(dir.join("src/.x"))?;
        for name in ["src/a.py", "src/.x/secrets.py", "src/B.PY", "src/a.rs", "top.py"] {
            std::fs::write(dir.join(name), "")?;
        }
        let work_dir = WorkDir::new(dir, &Rc::new(Budget::new(1_000_000)));
        let find = |glob: &str, is_search: bool| {
            let files =
                resolve(glob, Path::new("."), &work_dir).into_existing(Path::new("."), &work_dir, is_search).existing;
            files.map(|files| files.into_iter().filter(|file| !file.starts_with('/')).collect::<Vec<_>>())
        };
        if cfg!(unix) {
            assert_eq!(
                find("src/*.py", false),
                Some(vec!["src".to_owned(), "src/a.py".to_owned(), "src/b.py".to_owned()])
            );
            assert_eq!(find("*.py", false), Some(vec!["top.py".to_owned()]));
            assert_eq!(find("*.py", true).map(|files| files.len()), Some(4));
            assert_eq!(find("src/**/s*.py", true), Some(vec!["src".to_owned(), "src/.x/secrets.py".to_owned()]));
            assert_eq!(find("src/**/s*.py", false), None);
            assert_eq!(find("none/*.py", false), None);
            std::fs::write(dir.join("-x.py"), "")?;
            assert_eq!(find("*.py", false), None);
        }
        Ok(())
    }
}
