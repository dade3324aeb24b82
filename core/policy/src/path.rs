//! Paths: resolving those of a tool call, and the globs of rules.

mod existing;
mod expansion;
mod pattern;
mod words;
mod work_dir;

use std::cell::OnceCell;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use kimi_agent_protocol::place::Resolved;

use crate::glob::{Globs, braced_words, is_glob};
use crate::links::{
    expand_home, file_of_address, follow, is_remote, is_strange, normalized, of_process, paths_of_address, slashed,
};
use crate::work::Budget;
use expansion::git_form;
pub(crate) use pattern::PathPattern;
use words::folded;
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
    /// All files that the glob matches, if they are known.
    existing: Option<Vec<String>>,
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
    // Others send lines of a file, as in `notes.txt#L1`.
    let signs = [text.find('#'), text.rfind('#')].into_iter().flatten();
    let files: Vec<&str> =
        signs.map(|at| &text[..at]).filter(|file| !file.is_empty() && !file.ends_with('/')).collect();
    others.extend(files.iter().map(|file| follow(&base.join(file))));
    others.extend(marked.as_deref().filter(|_| address.is_some()).map(|path| Some(normalized(path))));
    // In an address of another scheme, the path can begin at the root or at the working directory.
    let addressed = paths_of_address(text);
    others.extend(addressed.iter().map(|path| follow(&base.join(path))));
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
    forms.extend(addressed.iter().map(|path| slashed(&normalized(Path::new(path)))));
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
        existing: None,
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

/// Whether braces make a folder above, or an absolute path, of a text that is neither: `src/{,.}./x` and `{a,/etc}/x`.
pub(crate) fn leaves_by_braces(text: &str) -> bool {
    let leaves = |path: &String| {
        path.starts_with(['/', '~']) && !text.starts_with(['/', '~']) || path.split('/').any(|folder| folder == "..")
    };
    text.contains('{') && braced_words(text).is_none_or(|words| words.iter().any(leaves))
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
            existing: None,
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
        has_sequence || self.text.contains(['$', '`', '~']) || leaves_by_braces(&self.text)
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
