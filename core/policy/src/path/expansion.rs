//! Globs of a call as the files that they match now: patterns alone do not say which names are links.

use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use super::words::folded;
use super::{FilePath, WorkDir, resolve_name};
use crate::glob::{alternatives, is_glob};
use crate::links::{expand_home, is_remote, normalized, slashed};

/// How many places a glob may lead to.
const MAX_PLACES: usize = 1000;
/// How many places behind links are compared.
const MAX_LINKED: usize = 64;
/// The parts of a glob that are compared with those of the working directory.
const MAX_STEPS: usize = 2000;

/// The files that a glob matches.
#[derive(Debug, Default)]
pub(crate) struct Expansion {
    /// The paths that lead through a link, or to a folder above.
    pub(super) linked: Vec<PathBuf>,
    /// Those whose links stand for `**`: shells follow them, and searches do not.
    pub(super) deep: Vec<PathBuf>,
    pub(super) is_deep_cut: bool,
    /// There are more files than are looked at.
    pub(super) is_cut: bool,
}

/// The path below `.git`, if it is in a directory of git with another name. Rules for `.git` are about each of them.
pub(super) fn git_form(path: &Path, dir: &WorkDir) -> Option<String> {
    /// Paths with more folders are not looked at.
    const MAX_FOLDERS: usize = 32;
    let is_meant = |folder: &&Path| dir.is_git_directory(folder);
    let folder = path.ancestors().take(MAX_FOLDERS).filter(|_| !is_remote(path, &dir.absolute)).find(is_meant)?;
    Some(slashed(&Path::new(".git").join(path.strip_prefix(folder).ok()?)))
}

impl FilePath {
    /// Adds what the glob can stand for: files below the working directory if it begins above, and what is behind links.
    pub(super) fn expand(&mut self, base: &Path, dir: &WorkDir) {
        let path = expand_home(&self.text).unwrap_or_else(|| PathBuf::from(&self.text));
        // The folders before the first wildcard can be links, too.
        let is_plain = |part: &Component<'_>| !is_glob(&part.as_os_str().to_string_lossy());
        let folder: PathBuf = path.components().take_while(is_plain).collect();
        if !folder.as_os_str().is_empty() {
            let [from, folder] =
                [Path::new("."), &folder].map(|place| resolve_name(&place.to_string_lossy(), base, dir));
            let stays = [&from.resolved, &dir.spellings[1]].into_iter().any(|place| folder.resolved.starts_with(place));
            self.leads_out |= folder.is_any || !stays;
        }
        let expansion = dir.expansion(&path, &dir.absolute.join(base));
        for place in &expansion.linked {
            let found = resolve_name(&place.to_string_lossy(), base, dir);
            self.leads_out |= found.is_any || !found.resolved.starts_with(&dir.spellings[1]);
            self.expanded.extend(found.forms);
        }
        let deep = expansion.deep.iter().flat_map(|place| resolve_name(&place.to_string_lossy(), base, dir).forms);
        self.expanded_by_shell.extend(deep);
        self.is_unknown_to_shell = expansion.is_deep_cut;
        let absolute: Vec<String> =
            [&self.lexical, &self.resolved].into_iter().map(|path| folded(&slashed(path))).collect();
        for (glob, work_dir) in absolute.iter().flat_map(|glob| dir.spellings.iter().map(move |dir| (glob, dir))) {
            match relative(glob, &folded(&slashed(work_dir)), dir) {
                Some(found) => {
                    self.is_around_dir |= found.iter().any(String::is_empty);
                    self.expanded.extend(found.into_iter().filter(|form| !form.is_empty()));
                }
                None => self.is_unknown = true,
            }
        }
        self.is_unknown |= expansion.is_cut;
        self.leads_out |= self.is_unknown;
        self.expanded.sort_unstable();
        self.expanded.dedup();
    }

    /// Whether the glob leads through a link out of the working directory, or to too many files.
    pub(crate) fn leads_out(&self) -> bool {
        self.leads_out
    }
}

impl WorkDir {
    /// Expands a glob that begins in `base`, as far as it leads through links.
    pub(super) fn expansion(&self, glob: &Path, base: &Path) -> Rc<Expansion> {
        let place = base.join(glob);
        if let Some(known) = self.expansions.borrow().get(&place) {
            return Rc::clone(known);
        }
        let mut found = Expansion::default();
        if !is_remote(&normalized(&place), &self.absolute) {
            match glob.to_str().and_then(|text| alternatives(text.to_owned(), &self.budget)) {
                Some(globs) => {
                    let has_braces = globs.len() > 1;
                    globs.iter().for_each(|glob| self.expand(Path::new(glob), base, has_braces, &mut found));
                }
                None => found.is_cut = true,
            }
        }
        found.is_cut |= found.linked.len() > MAX_LINKED;
        found.is_deep_cut |= found.is_cut || found.deep.len() > MAX_LINKED;
        found.linked.truncate(MAX_LINKED);
        found.deep.truncate(MAX_LINKED);
        let found = Rc::new(found);
        self.expansions.borrow_mut().insert(place, Rc::clone(&found));
        found
    }

    fn expand(&self, glob: &Path, base: &Path, has_braces: bool, found: &mut Expansion) {
        // Each place, whether it is behind a link, and whether this link stands for `**`.
        let mut places = vec![(base.to_owned(), false, false)];
        let parts: Vec<Component<'_>> = glob.components().collect();
        let mut is_behind_wildcard = has_braces;
        for (at, part) in parts.iter().enumerate() {
            let name = part.as_os_str().to_string_lossy();
            let is_wild = matches!(part, Component::Normal(_)) && name.contains(['*', '?', '[', '(']);
            is_behind_wildcard |= is_wild;
            if !is_wild {
                for (place, is_linked, _) in &mut places {
                    place.push(part);
                    *is_linked |= is_behind_wildcard && self.counts() && place.is_symlink();
                }
                continue;
            }
            let mut next = Vec::new();
            let pattern = plain_pattern(&name);
            let is_last = at + 1 == parts.len();
            for (place, is_linked, is_deep) in places {
                if is_of_processes(&place) {
                    // The links there belong to the process that opens them.
                    *(if is_deep { &mut found.is_deep_cut } else { &mut found.is_cut }) = true;
                    continue;
                }
                let dots = [".", ".."]
                    .into_iter()
                    .filter(|dots| name.starts_with('.') && fast_glob::glob_match(&pattern, dots));
                next.extend(dots.map(|dots| (place.join(dots), true, is_deep)));
                let is_any_depth = &*name == "**";
                if is_any_depth {
                    next.push((place.clone(), is_linked, is_deep));
                }
                for entry in place.read_dir().into_iter().flatten().flatten() {
                    if !self.counts() || next.len() > MAX_PLACES {
                        *(if is_deep { &mut found.is_deep_cut } else { &mut found.is_cut }) = true;
                        break;
                    }
                    let kind = entry.file_type();
                    let is_link = kind.as_ref().is_ok_and(|kind| kind.is_symlink());
                    let leads_on = !is_last && kind.is_ok_and(|kind| kind.is_dir());
                    let is_meant = is_link || leads_on || (is_last && is_linked);
                    if is_meant && fast_glob::glob_match(&pattern, entry.file_name().to_string_lossy().as_bytes()) {
                        next.push((entry.path(), is_linked || is_link, is_deep || (is_link && is_any_depth)));
                    }
                }
            }
            places = next;
        }
        for (place, _, is_deep) in places.into_iter().filter(|(_, is_linked, _)| *is_linked) {
            if is_deep { &mut found.deep } else { &mut found.linked }.push(place);
        }
    }
}

fn is_of_processes(place: &Path) -> bool {
    let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    place.starts_with("/proc") || place.starts_with("/dev/fd")
}

/// A part of a glob without what programs read differently: it matches more.
fn plain_pattern(part: &str) -> String {
    if part.contains(['(', '\\']) {
        return "*".to_owned();
    }
    let mut plain = String::new();
    let mut rest = part;
    while let Some(start) = rest.find('[') {
        let Some(length) = rest[start + 1..].char_indices().skip(1).find(|(_, c)| *c == ']').map(|(at, _)| at) else {
            break;
        };
        plain.push_str(&rest[..start]);
        // A class such as `[[:alpha:]]` has several closing brackets.
        let has_class = rest[start + 1..].starts_with('[') || rest[start..].contains("[:");
        plain.push(if has_class { '*' } else { '?' });
        rest = &rest[start + 1 + length + 1..];
    }
    plain + rest
}

/// The globs relative to a directory that an absolute one stands for, if it leads into this directory, in lower case. An empty one
/// stands for the directory, or for one that it is in.
pub(super) fn relative(glob: &str, directory: &str, work_dir: &WorkDir) -> Option<Vec<String>> {
    let directory: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    let globs = alternatives(glob.to_owned(), &work_dir.budget)?;
    let mut found = Vec::new();
    let mut left = MAX_STEPS;
    for glob in &globs {
        let parts: Vec<&str> = glob.split('/').filter(|part| !part.is_empty()).collect();
        let mut open = vec![(&*parts, &*directory)];
        while let Some((parts, directory)) = open.pop() {
            left = left.checked_sub(1)?;
            let (Some((part, rest)), Some((name, inner))) = (parts.split_first(), directory.split_first()) else {
                found.push(parts.join("/"));
                continue;
            };
            if *part == "**" {
                open.extend([(rest, directory), (parts, inner)]);
            }
            if fast_glob::glob_match(plain_pattern(part), name) {
                open.push((rest, inner));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Budget;

    #[test]
    fn absolute_glob_is_compared_part_by_part() {
        let budget = Rc::new(Budget::new(1_000_000));
        let dir = WorkDir::new(Path::new("/a/b/c"), &budget);
        for (glob, expected) in [
            ("/a/b/c?/k", &[][..]),
            ("/a/b/?/k", &["k"]),
            ("/a/[b]/c/s*/k", &["s*/k"]),
            ("/*/{b,x}/c/k", &["k"]),
            ("/a/**/k", &["**/k", "k"]),
            ("/**/c/k", &["**/c/k", "c/k", "k"]),
            ("/a/?", &[""]),
            ("/x/?/c/k", &[]),
        ] {
            assert_eq!(relative(glob, "/a/b/c", &dir).unwrap_or_default(), expected, "{glob}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn glob_leads_through_links() -> std::io::Result<()> {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir()?;
        let dir = root.path();
        std::fs::create_dir_all(dir.join("secrets"))?;
        std::fs::create_dir_all(dir.join("src"))?;
        std::fs::write(dir.join("secrets/key"), "")?;
        std::fs::write(dir.join("src/a.py"), "")?;
        symlink("secrets", dir.join("ln"))?;
        symlink("..", dir.join("src/up"))?;
        symlink("secrets/key", dir.join("lf"))?;
        let work_dir = WorkDir::new(dir, &Rc::new(Budget::new(1_000_000)));
        let expand = |glob: &str| work_dir.expansion(Path::new(glob), dir);
        for (glob, expected) in [
            ("l?/key", &["lf/key", "ln/key"][..]),
            ("l?", &["lf", "ln"]),
            ("src/u?/secrets/key", &["src/up/secrets/key"]),
            ("src/{up,x}/secrets/k*", &["src/up/secrets/key"]),
            ("s*/up/secrets/key", &["src/up/secrets/key"]),
            ("src/*.py", &[]),
            ("s*/key", &[]),
        ] {
            let mut found: Vec<PathBuf> = expand(glob).linked.clone();
            found.sort();
            assert_eq!(found, expected.iter().map(|path| dir.join(path)).collect::<Vec<_>>(), "{glob}");
        }
        assert_eq!((expand("**/key").linked.len(), expand("**/key").deep.len()), (0, 2));
        assert!(cfg!(not(target_os = "linux")) || expand("/proc/*/cwd/key").is_cut);
        Ok(())
    }
}
