//! Paths: resolving those of a tool call, and the globs of rules.

use std::cell::Cell;
use std::ops::Deref;
use std::path::{Component, Path, PathBuf, Prefix, PrefixComponent};

use crate::glob::{Ends, EndsAt, is_glob, may_overlap};
use crate::rule::Certainty;

/// Longer paths are not read.
const MAX_TEXT: usize = 4096;
/// Paths with more parts are not followed.
const MAX_PARTS: usize = 128;
/// How many paths of a call are looked at. The system looks at each part of a path.
const MAX_PATHS: usize = 1000;
/// Endings of sources. A search for them does not look for hidden files such as `.env.py`.
const SOURCES: &[&str] = &[
    "py", "pyi", "rs", "js", "mjs", "cjs", "ts", "tsx", "jsx", "go", "java", "kt", "c", "h", "cc", "cpp", "hpp", "cs",
    "rb", "php", "swift", "scala", "sh", "md", "rst", "txt", "html", "css", "scss", "vue", "svelte", "sql", "proto",
    "lua", "ex", "hs",
];

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
    /// The path as the call gives it.
    pub(crate) text: String,
    /// It is a glob: its forms are globs, too.
    glob: Option<GlobUse>,
    /// What is below the path is meant, too.
    whole: bool,
}

/// How a glob of a call treats names that begin with `.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GlobUse {
    /// As a shell: its wildcards do not match them.
    Shell,
    /// As tools that search: they may.
    Search,
}

/// The working directory of a call, and how many of its paths may still be looked at.
#[derive(Debug)]
pub(crate) struct WorkDir {
    given: PathBuf,
    absolute: PathBuf,
    /// As written and with links followed.
    spellings: [PathBuf; 2],
    left: Cell<usize>,
}

impl WorkDir {
    pub(crate) fn new(given: &Path) -> Self {
        let absolute = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
        let known = absolute.canonicalize().unwrap_or_else(|_| absolute.clone());
        let spellings = [normalized(&absolute), known];
        Self { given: given.to_owned(), absolute, spellings, left: Cell::new(MAX_PATHS) }
    }
}

impl Deref for WorkDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.given
    }
}

/// Resolves a path of a tool call relative to `base`.
pub(crate) fn resolve(text: &str, base: &Path, dir: &WorkDir) -> FilePath {
    let left = dir.left.get();
    if left == 0 || text.len() > MAX_TEXT || text.split(['/', '\\']).count() > MAX_PARTS {
        return FilePath::unreadable(text);
    }
    dir.left.set(left - 1);
    let work_dir = &dir.absolute;
    let base = work_dir.join(base);
    let path = expand_home(text).unwrap_or_else(|| PathBuf::from(text));
    let has_parent = path.components().any(|component| component == Component::ParentDir);
    let lexical = normalized(&base.join(&path));
    // The check itself must not reach for other machines, which would get the password hash of this user.
    let followed = if is_remote(&lexical, work_dir) { None } else { follow(&base.join(&path)) };
    let process = of_process(&lexical, work_dir);
    let certain = !is_strange(text) && followed.is_some() && process.is_none() && !is_descriptor(&lexical);
    let resolved = followed.unwrap_or_else(|| lexical.clone());
    let mut forms = vec![text.to_owned(), text.replace('\\', "/")];
    let work_dirs = dir.spellings.clone();
    for absolute in [Some(&lexical), Some(&resolved), process.as_ref()].into_iter().flatten() {
        forms.push(slashed(absolute));
        forms.extend(work_dirs.iter().filter_map(|dir| absolute.strip_prefix(dir).ok()).map(slashed));
    }
    // The path of an address, such as `file:///etc/passwd`.
    if let Some((_, path)) = text.split_once("://") {
        forms.push(path.to_owned());
    }
    // Some agents mark a file with `@`.
    forms.extend(text.strip_prefix('@').map(str::to_owned));
    forms = forms.iter().map(|form| folded(form)).collect();
    forms.sort_unstable();
    forms.dedup();
    let allowable = certain && !has_parent && !text.is_empty();
    let text = text.to_owned();
    FilePath { forms, lexical, resolved, work_dirs, certain, allowable, text, glob: None, whole: false }
}

/// The path that `/proc/…/cwd` and `/proc/…/root` lead to, for the process that is meant.
fn of_process(path: &Path, work_dir: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix("/proc").ok()?;
    let parts: Vec<Component<'_>> = rest.components().collect();
    let place = parts.iter().position(|part| matches!(part.as_os_str().to_str(), Some("cwd" | "root" | "fd")))?;
    let below: PathBuf = parts[place + 1..].iter().collect();
    match parts[place].as_os_str().to_str() {
        Some("cwd") => Some(normalized(&work_dir.join(below))),
        _ => Some(normalized(&Path::new("/").join(below))),
    }
}

/// Whether the path names something of the process that opens it.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/fd", "/dev/stdin", "/proc"].iter().any(|folder| path.starts_with(folder))
}

impl FilePath {
    /// A path that is too long to be read.
    fn unreadable(text: &str) -> Self {
        let forms = vec![text.chars().take(200).collect::<String>().to_lowercase()];
        let text = format!("{}…", text.chars().take(80).collect::<String>());
        Self {
            forms,
            lexical: PathBuf::new(),
            resolved: PathBuf::new(),
            work_dirs: Default::default(),
            certain: false,
            allowable: false,
            text,
            glob: None,
            whole: false,
        }
    }

    /// Reads the path as a glob, if it is one. A glob of a search names files at any depth.
    pub(crate) fn into_glob(mut self, glob: GlobUse) -> Self {
        if is_glob(&self.text) {
            self.glob = Some(glob);
            self.certain = false;
            self.allowable = false;
        }
        // A glob with a folder begins at the directory; a name alone is found in every folder.
        if glob == GlobUse::Search && !self.text.trim_start_matches("./").trim_end_matches('/').contains('/') {
            self.forms.push(format!("**/{}", self.text.trim_start_matches("./").to_lowercase()));
        }
        self
    }

    /// What is below the path is meant, too: it is deleted or moved.
    pub(crate) fn with_content(mut self) -> Self {
        self.whole = !self.resolved.is_file();
        self
    }

    /// Whether it is a path outside of the working directory, or one that a link leads to.
    pub(crate) fn is_outside(&self) -> bool {
        !self.is_below()
            || self.lexical.strip_prefix(&self.work_dirs[0]).ok() != self.resolved.strip_prefix(&self.work_dirs[1]).ok()
    }

    /// The pattern that allows this path alone.
    pub(crate) fn pattern(&self) -> Option<String> {
        if !self.allowable || is_glob(&self.text) {
            return None;
        }
        let relative = self.work_dirs.iter().find_map(|dir| self.resolved.strip_prefix(dir).ok());
        Some(relative.map_or_else(|| slashed(&self.resolved), slashed)).filter(|path| !path.is_empty())
    }

    /// Why no allow rule with a pattern matches the path, for people.
    pub(crate) fn doubt(&self) -> Option<&'static str> {
        match (self.text.is_empty(), self.certain, self.allowable) {
            (true, ..) => Some("the path is empty"),
            (_, false, _) => Some("the path can mean different files"),
            (_, _, false) => Some("the path has `..`"),
            _ => None,
        }
    }

    /// The names of folders and files in the path, in lower case.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.forms.iter().flat_map(|form| form.split(['/', '\\'])).filter(|name| !name.is_empty())
    }

    /// What a comparison with a rule takes, in bytes that are compared.
    pub(crate) fn weight(&self) -> usize {
        /// A glob is compared with that of the rule, place by place.
        const OF_GLOB: usize = 200;
        let parts = |form: &str| 1 + form.bytes().filter(|byte| *byte == b'/').count();
        let weight = |form: &String| form.len() * if self.glob.is_some() { OF_GLOB } else { parts(form) };
        self.forms.iter().map(weight).sum()
    }

    /// The forms that rules which deny compare.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &str> {
        self.forms.iter().map(|form| &**form)
    }

    /// Whether it is compared with the globs of rules as a glob, too.
    pub(crate) fn is_glob_like(&self) -> bool {
        self.glob.is_some() || is_glob(&self.text)
    }

    /// Whether what is below the path is meant, too.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether the shell or a program decides what the glob stands for.
    pub(crate) fn may_be_any(&self) -> bool {
        self.text.contains(['$', '`', '~'])
    }

    /// Whether it is the glob of a search that begins at the working directory. It finds what is in the folders there: a rule for
    /// one of these is not about the search.
    pub(crate) fn skips_folders(&self) -> bool {
        let folder = self.text.rsplit_once('/').map_or("", |(folder, _)| folder);
        matches!(folder, "" | "**" | ".") && self.glob != Some(GlobUse::Shell)
    }

    /// Whether the call names files by a glob.
    pub(crate) fn is_glob_of_call(&self) -> bool {
        self.glob.is_some()
    }

    /// Whether the path of the file is known.
    pub(crate) fn is_certain(&self) -> bool {
        self.certain
    }

    /// Whether it is the working directory or below it.
    pub(crate) fn is_below(&self) -> bool {
        self.allowable && self.resolved.starts_with(&self.work_dirs[1])
    }

    pub(crate) fn directory(&self, work_dir: &Path) -> PathBuf {
        if self.certain { self.lexical.clone() } else { work_dir.to_owned() }
    }

    /// The path cannot be decided.
    pub(crate) fn into_doubt(mut self) -> Self {
        (self.certain, self.allowable) = (false, false);
        self
    }

    /// Whether a link leads out of the working directory.
    pub(crate) fn is_link(&self) -> bool {
        self.resolved != self.lexical && self.is_outside()
    }
}

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
    /// The ends of `lower` and of `folder`.
    ends: EndsAt,
    folder_ends: Option<EndsAt>,
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
        if glob.len() > MAX_TEXT || glob.matches('{').count() > 8 || glob.matches('*').count() > 64 {
            return Err("a path pattern has at most 4096 bytes, 64 `*` and 8 `{`".to_owned());
        }
        let is_absolute = glob.starts_with('/') || glob.get(1..3) == Some(":/");
        let lower = folded(&glob);
        let folder = lower.strip_suffix("/**").map(str::to_owned);
        let start = lower.split(['*', '?', '[', '{']).next().unwrap_or_default();
        let start =
            if start.len() < lower.len() { start.rsplit_once('/').map_or("", |(start, _)| start) } else { start };
        let ends = EndsAt::new(&lower);
        let folder_ends = folder.as_deref().map(EndsAt::new);
        Ok(Self { start: start.to_owned(), glob, lower, folder, is_absolute, ends, folder_ends })
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
        if let Some(glob) = path.glob {
            return self.overlaps(path, glob);
        }
        let is_meant = |form: &String| {
            self.matches_form(form)
                // A rule for a folder is a rule for what is in it.
                || form.match_indices('/').filter(|(at, _)| *at > 0).any(|(at, _)| self.matches_form(&form[..at]))
                || (path.whole && self.is_below(form))
        };
        if path.forms.iter().any(is_meant) {
            Certainty::Yes
        } else if !path.certain || self.may_be_same(path) || (path.whole && self.is_deep() && path.resolved.is_dir()) {
            Certainty::Maybe
        } else {
            Certainty::No
        }
    }

    /// Whether some systems or tools take the path for one that matches: accents are written in two ways, and a name with braces or
    /// brackets can be a glob.
    fn may_be_same(&self, path: &FilePath) -> bool {
        if is_glob(&path.text) && self.overlaps(path, GlobUse::Search) != Certainty::No {
            return true;
        }
        if self.lower.is_ascii() {
            return false;
        }
        let glob = rough(&self.lower);
        path.forms.iter().any(|form| !form.is_ascii() && fast_glob::glob_match(&glob, rough(form)))
    }

    fn matches_form(&self, form: &str) -> bool {
        fast_glob::glob_match(&self.lower, form)
            || self.folder.as_ref().is_some_and(|folder| fast_glob::glob_match(folder, form))
    }

    /// Whether the paths that match are below this one.
    fn is_below(&self, form: &str) -> bool {
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
        let hides_dots = glob == GlobUse::Shell || extension.is_some_and(|extension| SOURCES.contains(&extension));
        if path.may_be_any() {
            return Certainty::Maybe;
        }
        if path.skips_folders() && self.is_folder_of_one_place() {
            return Certainty::No;
        }
        let may = path.forms.iter().any(|form| {
            may_overlap(form, &self.lower, hides_dots)
                || self.folder.as_ref().is_some_and(|folder| may_overlap(form, folder, hides_dots))
                || (path.whole && may_overlap(&format!("{form}/**"), &self.lower, hides_dots))
        });
        if may { Certainty::Maybe } else { Certainty::No }
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

/// A text without case, as systems compare names.
fn folded(text: &str) -> String {
    text.to_lowercase().replace('\u{17f}', "s")
}

/// A text with one sign for each run of letters with accents and other letters: it is the same in each normal form of Unicode.
fn rough(text: &str) -> String {
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
    let is_missing = |error: std::io::Error| (error.kind() == std::io::ErrorKind::NotFound).then_some(());
    if let Some(found) =
        path.canonicalize().map_or_else(|error| is_missing(error).map(|()| None), |found| Some(Some(found)))?
    {
        return Some(normalized(&found));
    }
    let parts: Vec<Component<'_>> = path.components().collect();
    let beginning = |length: usize| parts[..length].iter().collect::<PathBuf>();
    // Between these lengths, the first part is missing: a search by halves looks at few of them.
    let (mut known, mut missing) = (1, parts.len());
    let mut found = beginning(known).canonicalize().ok()?;
    while missing - known > 1 {
        let middle = known.midpoint(missing);
        match beginning(middle).canonicalize() {
            Ok(place) => (known, found) = (middle, place),
            Err(error) => {
                is_missing(error)?;
                missing = middle;
            }
        }
    }
    if beginning(missing).symlink_metadata().is_ok() {
        return None;
    }
    Some(normalized(&parts[known..].iter().fold(found, |path, part| path.join(part))))
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
