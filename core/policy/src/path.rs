//! Paths: resolving those of a tool call, and the globs of rules.

mod expansion;
mod words;
mod work_dir;

use std::cell::OnceCell;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;

use kimi_agent_protocol::place::Resolved;

use crate::glob::{Ends, EndsAt, Globs, is_glob};
use crate::links::{expand_home, file_of_address, follow, is_remote, is_strange, normalized, of_process, slashed};
use crate::rule::Certainty;
use crate::work::Budget;
use expansion::git_form;
use words::{SOURCES, folded, rough};
pub(crate) use work_dir::WorkDir;

/// Longer paths are not read.
const MAX_TEXT: usize = 4096;
/// Paths with more parts are not followed.
const MAX_PARTS: usize = 128;

/// The path of a tool call, with the forms that rules compare.
#[derive(Clone, Debug)]
pub(crate) struct FilePath {
    /// Every form that the path may have, for rules that deny: as written, and absolute and relative with and without links.
    forms: Vec<String>,
    /// Further files that the glob can match: below the working directory, or behind links. A shell also follows links for `**`.
    expanded: Vec<String>,
    expanded_by_shell: Vec<String>,
    /// The absolute paths as written and with links followed. Both have to match an allow rule.
    lexical: PathBuf,
    resolved: PathBuf,
    /// Further paths that tools may open: they shorten `..` before they follow links, or take an `@` off.
    others: Vec<PathBuf>,
    /// The working directory, as written and with links followed.
    work_dirs: [PathBuf; 2],
    /// Whether the path of the file that a tool would open is known.
    certain: bool,
    /// It leads through links of a process, so it may be any path.
    is_any: bool,
    /// Whether an allow rule may speak about it. It may not if the path has `..`.
    allowable: bool,
    /// The path as the call gives it.
    pub(crate) text: String,
    /// It is a glob: its forms are globs, too.
    glob: Option<GlobUse>,
    /// What is below the path is meant, too.
    whole: bool,
    /// It may mean no file: it is a word of a command that does not look like a path, or the folder of a command.
    is_word: bool,
    /// It may be any file.
    is_any_glob: bool,
    /// It is a glob that leads through a link out of the working directory, or may.
    leads_out: bool,
    /// It is a glob whose files are too many to know.
    is_unknown: bool,
    is_unknown_to_shell: bool,
    /// It is a glob that can be the working directory, or one that this is in.
    is_around_dir: bool,
    /// Only the agent has it, because it runs in another place than the program.
    is_foreign: bool,
    other_forms: OnceCell<Vec<String>>,
    /// The forms as globs, and what is below them if that is meant.
    globs: OnceCell<Vec<[Option<Globs>; 2]>>,
    budget: Rc<Budget>,
}

/// How a glob of a call treats names that begin with `.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GlobUse {
    /// As a shell: its wildcards do not match them.
    Shell,
    /// As tools that search: they may.
    Search,
    /// As tools that read the files which they find: as a search, but a rule for a folder is about what is in it.
    Contents,
    /// As git: its wildcards match any characters.
    Wide,
}

/// Resolves a path of a tool call relative to `base`.
pub(crate) fn resolve(text: &str, base: &Path, dir: &WorkDir) -> FilePath {
    let known = dir.resolved(text);
    let text = match &known {
        Resolved::Known(text) => &**text,
        Resolved::Foreign | Resolved::Unknown => return FilePath::foreign(text, &known, dir),
    };
    let mut path = resolve_name(text, base, dir);
    if is_glob(text) && !path.work_dirs[0].as_os_str().is_empty() {
        path.expand(base, dir);
    }
    path
}

/// Resolves a path that is not taken for a glob.
fn resolve_name(text: &str, base: &Path, dir: &WorkDir) -> FilePath {
    let left = dir.left.get();
    if left == 0 || text.len() > MAX_TEXT || text.split(['/', '\\']).count() > MAX_PARTS {
        return FilePath::unreadable(text, dir);
    }
    let work_dir = &dir.absolute;
    let base = work_dir.join(base);
    let path = expand_home(text).unwrap_or_else(|| PathBuf::from(text));
    let has_parent = path.components().any(|component| component == Component::ParentDir);
    dir.left.set(left.saturating_sub(if has_parent { 3 } else { 1 }));
    let place = base.join(&path);
    let lexical = normalized(&place);
    // The check itself must not reach for other machines, which would get the password hash of this user.
    let follow = |path: &Path| if is_remote(&normalized(path), work_dir) { None } else { follow(path) };
    let followed = follow(&place);
    let mut others = Vec::new();
    if has_parent {
        others.extend([follow(&lexical), followed.as_deref().and_then(follow)]);
    }
    // Some agents mark a file with `@`, or send its address.
    let address = file_of_address(text);
    let marked = text.strip_prefix('@').or(address.as_deref()).map(|text| base.join(text));
    others.extend(marked.as_deref().map(follow));
    others.extend(marked.as_deref().filter(|_| address.is_some()).map(|path| Some(normalized(path))));
    // Without a link on the way, only the parts of the path itself can lead to files of processes.
    let [work, known_work] = &dir.spellings;
    let below = followed.as_ref().and_then(|path| path.strip_prefix(known_work).ok());
    let has_links = has_parent || below.is_none() || below != lexical.strip_prefix(work).ok();
    let places = [Some(&place).filter(|_| has_links), Some(&lexical).filter(|_| has_parent), marked.as_ref()];
    let processes: Vec<_> = places.into_iter().flatten().filter_map(|path| of_process(path, work_dir)).collect();
    let is_any = processes.iter().any(|process| process.is_any);
    let is_followed = followed.is_some() && others.iter().all(Option::is_some);
    let certain = !is_strange(text) && is_followed && processes.is_empty();
    let processes = processes.iter().map(|process| normalized(&process.path));
    let others: Vec<PathBuf> = others.into_iter().flatten().chain(processes).collect();
    let resolved = followed.unwrap_or_else(|| lexical.clone());
    let mut forms = vec![text.to_owned(), text.replace('\\', "/")];
    let work_dirs = dir.spellings.clone();
    for absolute in [&lexical, &resolved].into_iter().chain(&others) {
        forms.push(slashed(absolute));
        forms.extend(work_dirs.iter().filter_map(|dir| absolute.strip_prefix(dir).ok()).map(slashed));
        forms.extend(git_form(absolute, dir));
    }
    // The path of an address, such as `file:///etc/passwd`.
    if let Some((_, path)) = text.split_once("://") {
        forms.push(path.to_owned());
    }
    forms.extend(text.strip_prefix('@').map(str::to_owned));
    forms = forms.iter().map(|form| folded(form)).collect();
    forms.sort_unstable();
    forms.dedup();
    let allowable = certain && !has_parent && !text.is_empty();
    let text = text.to_owned();
    FilePath {
        forms,
        expanded: Vec::new(),
        expanded_by_shell: Vec::new(),
        lexical,
        resolved,
        others,
        work_dirs,
        certain,
        is_any,
        allowable,
        text,
        glob: None,
        whole: false,
        is_word: false,
        is_any_glob: false,
        leads_out: false,
        is_unknown: false,
        is_unknown_to_shell: false,
        is_around_dir: false,
        is_foreign: false,
        other_forms: OnceCell::new(),
        globs: OnceCell::new(),
        budget: Rc::clone(&dir.budget),
    }
}

impl FilePath {
    /// A path that is too long to be read.
    fn unreadable(text: &str, dir: &WorkDir) -> Self {
        let forms = vec![text.chars().take(200).collect::<String>().to_lowercase()];
        let text = format!("{}…", text.chars().take(80).collect::<String>());
        Self {
            forms,
            expanded: Vec::new(),
            expanded_by_shell: Vec::new(),
            lexical: PathBuf::new(),
            resolved: PathBuf::new(),
            others: Vec::new(),
            work_dirs: Default::default(),
            certain: false,
            is_any: true,
            allowable: false,
            text,
            glob: None,
            whole: false,
            is_word: false,
            is_any_glob: false,
            leads_out: false,
            is_unknown: false,
            is_unknown_to_shell: false,
            is_around_dir: false,
            is_foreign: false,
            other_forms: OnceCell::new(),
            globs: OnceCell::new(),
            budget: Rc::clone(&dir.budget),
        }
    }

    /// Reads the path as a glob, if it is one. A glob of a search names files at any depth.
    pub(crate) fn into_glob(mut self, glob: GlobUse) -> Self {
        if glob == GlobUse::Shell {
            self.expanded.append(&mut self.expanded_by_shell);
            self.is_unknown |= self.is_unknown_to_shell;
        }
        if is_glob(&self.text) {
            self.glob = Some(glob);
            self.certain = false;
            self.allowable = false;
        }
        // A glob with a folder begins at the directory; a name alone is found in every folder.
        if matches!(glob, GlobUse::Search | GlobUse::Contents)
            && !self.text.trim_start_matches("./").trim_end_matches('/').contains('/')
        {
            self.forms.push(format!("**/{}", self.text.trim_start_matches("./").to_lowercase()));
        }
        self
    }

    /// What is below the path is meant, too: it is deleted or moved.
    pub(crate) fn with_content(mut self) -> Self {
        self.whole = !self.resolved.is_file();
        if self.whole && self.is_around_dir {
            self.expanded.push("**".to_owned());
        }
        self
    }

    /// Whether it is a path outside of the working directory, or one that a link leads to.
    pub(crate) fn is_outside(&self) -> bool {
        !self.is_below()
            || self.lexical.strip_prefix(&self.work_dirs[0]).ok() != self.resolved.strip_prefix(&self.work_dirs[1]).ok()
    }

    /// Whether a link leads it out of a folder and out of the working directory.
    pub(crate) fn is_behind_link(&self, folder: &Self) -> bool {
        ![&folder.resolved, &self.work_dirs[1]].into_iter().any(|place| self.resolved.starts_with(place))
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
            _ if self.is_word => Some("it may name a file or a folder"),
            (true, ..) => Some("the path is empty"),
            _ if self.is_foreign && !self.is_any => Some("the path is in the place of the agent, not on this machine"),
            (_, false, _) => Some("the path can mean different files"),
            (_, _, false) => Some("the path has `..`"),
            _ => None,
        }
    }

    /// The names of folders and files in the path, in lower case.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.forms().flat_map(|form| form.split(['/', '\\'])).filter(|name| !name.is_empty())
    }

    /// What a comparison with a rule takes, in bytes that are compared. If both are globs, the comparison takes further work.
    pub(crate) fn weight(&self) -> usize {
        let parts = |form: &str| 1 + form.bytes().filter(|byte| *byte == b'/').count();
        self.forms().map(|form| form.len() * parts(form)).sum()
    }

    /// The forms as globs, and what is below them if that is meant.
    fn globs(&self) -> &[[Option<Globs>; 2]] {
        let below = |form: &str| self.whole.then(|| Globs::new(&format!("{form}/**"), &self.budget));
        let globs = |form: &str| [Some(Globs::new(form, &self.budget)), below(form)];
        self.globs.get_or_init(|| self.forms().map(globs).collect())
    }

    /// The forms that rules which deny compare.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &str> {
        self.forms.iter().chain(&self.expanded).map(|form| &**form)
    }

    /// Whether it is compared with the globs of rules as a glob, too.
    pub(crate) fn is_glob_like(&self) -> bool {
        self.glob.is_some() || (!self.is_word && is_glob(&self.text))
    }

    /// Whether what is below the path is meant, too.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether the shell or a program decides what the glob stands for.
    pub(crate) fn may_be_any(&self) -> bool {
        if self.is_unknown {
            return true;
        }
        if self.glob == Some(GlobUse::Wide) {
            return self.is_any_glob;
        }
        // Braces with `..` are a sequence, or a folder above of one of the alternatives alone.
        let has_sequence = self.text.contains('{') && self.text.contains("..");
        has_sequence || self.text.contains(['$', '`', '~'])
    }

    /// Whether it is the glob of a search that begins at the working directory. It finds what is in the folders there: a rule for
    /// one of these is not about the search.
    pub(crate) fn skips_folders(&self) -> bool {
        let folder = self.text.rsplit_once('/').map_or("", |(folder, _)| folder);
        matches!(folder, "" | "**" | ".")
            && !matches!(self.glob, Some(GlobUse::Shell | GlobUse::Wide | GlobUse::Contents))
    }

    /// Whether the call names files by a glob.
    pub(crate) fn is_glob_of_call(&self) -> bool {
        self.glob.is_some()
    }

    /// Whether the path of the file is known.
    pub(crate) fn is_certain(&self) -> bool {
        self.certain
    }

    /// The absolute paths as written and with links followed.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Path> {
        [&*self.lexical, &*self.resolved].into_iter()
    }

    /// Whether it may be any path.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any
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
    /// It has more than wildcards.
    names_something: bool,
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
    fn is_meant(&self, form: &str) -> bool {
        self.matches_form(form)
            || form.match_indices('/').filter(|(at, _)| *at > 0).any(|(at, _)| self.matches_form(&form[..at]))
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
        if may { Certainty::Maybe } else { Certainty::No }
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
