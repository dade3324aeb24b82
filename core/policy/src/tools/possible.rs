//! Texts that a tool can take for the name of a file although their arguments usually say something else: names, IDs, patterns.

use serde_json::Value;

use super::operands::is_like_path;
use super::{GLOBS, Part, Taker, Target};
use crate::arguments::{key, plain, texts};
use crate::glob::is_glob;
use crate::kinds::{Kind, kind_of_tool};
use crate::mcp::words_of;
use crate::path::{GlobUse, leaves_by_braces, resolve};

/// Arguments that can be the name of a file.
const NAMES: &[&str] = &["name", "names", "id", "ids", "input", "inputs", "data", "value", "values"];
/// Arguments that are a text to search for, in tools that search.
const SOUGHT: &[&str] = &["pattern", "patterns", "query", "queries", "regex", "regexp", "search", "text", "texts"];
/// Words in the name of a tool that searches for a text.
const SEARCHES: &[&str] =
    &["search", "searches", "grep", "rg", "ripgrep", "find", "lookup", "query", "symbol", "symbols", "retrieval"];
/// How many texts are looked at, and how long they are.
const MAX_TEXTS: usize = 64;
const MAX_TEXT: usize = 1024;

/// A text that may be the name of a file.
struct Possible<'a> {
    text: &'a str,
    /// It may be a pattern for names of files in any folder.
    is_pattern: bool,
}

impl<'a> Taker<'a> {
    /// Adds the files that texts of a call may name beside its paths.
    pub(super) fn add_possible_files(&mut self, kind: Option<Kind>) {
        if matches!(kind, Some(Kind::Execute | Kind::Fetch | Kind::Think)) {
            return;
        }
        let (found, is_cut) = self.possible_files(kind);
        if is_cut {
            self.opaque(kind, "it has more texts than are looked at");
        }
        let is_of_agent = matches!(kind, Some(Kind::Mcp));
        // A name beside a file is one in the folder of the file.
        let folder_of = |path: &'a str| {
            let is_file = self.work_dir.join(path).is_file();
            if is_file { path.rsplit_once('/').map_or(".", |(folder, _)| folder) } else { path }
        };
        let folders = self.known.paths.iter().copied().map(folder_of).filter(|path| !matches!(*path, "." | ""));
        let folders: Vec<&str> = folders.take(8).collect();
        for Possible { text, is_pattern } in found {
            let is_file = is_like_path(text) && !text.contains(char::is_whitespace);
            if is_of_agent && !is_file {
                continue;
            }
            // A name alone is one in the folder that the call names. Other paths may begin at the working directory, too.
            let is_name_alone = !text.contains(['/', '\\', '~']) && !folders.is_empty();
            let is_joined = is_name_alone && matches!(kind, Some(Kind::Edit | Kind::Delete | Kind::Move));
            for folder in folders.iter().map(Some).chain((!is_joined).then_some(None)) {
                let is_meant = is_file && !is_of_agent && kind.is_some() && !(folder.is_none() && is_name_alone);
                self.add_possible_file(kind, text, folder.copied(), is_pattern, is_meant);
            }
        }
    }

    fn add_possible_file(
        &mut self,
        kind: Option<Kind>,
        text: &str,
        folder: Option<&str>,
        is_pattern: bool,
        is_meant: bool,
    ) {
        let base = resolve(folder.unwrap_or("."), self.work_dir, self.work_dir).directory(self.work_dir);
        let is_of_server = kind == Some(Kind::Mcp);
        let kind = kind.filter(|_| !is_of_server);
        // The text alone is another file than the one in the folder.
        let joined = folder.filter(|_| !is_glob(text) && !text.starts_with(['/', '\\', '~']));
        let path = match joined {
            Some(folder) => resolve(&format!("{folder}/{text}"), self.work_dir, self.work_dir),
            None => resolve(text, &base, self.work_dir),
        };
        let is_sentence = text.contains(char::is_whitespace) && !text.contains('/');
        let is_glob = is_glob(text) && is_pattern && kind.is_some() && !is_sentence;
        if is_glob || !is_meant {
            let mut path = if is_glob { path.into_glob(GlobUse::Contents) } else { path };
            if is_glob && matches!(kind, Some(Kind::Read | Kind::Search)) {
                path = path.into_existing(&base, self.work_dir, true);
            }
            self.add_shadow(kind, Target::Path(path));
            if let Some(part) = self.parts.last_mut() {
                (part.hides, part.is_text) = (is_glob, is_of_server);
            }
            if is_pattern {
                self.add_sought(kind, text, &base);
            }
            if is_glob && is_meant {
                // Allow rules look at the folder in which the pattern begins.
                let mut folder = Part::new(kind, self.path_target(folder.unwrap_or("."), self.work_dir));
                folder.doubt = self.known.doubt.clone();
                self.parts.push(folder);
                if text.contains("..") || text.starts_with(['/', '~']) || leaves_by_braces(text) {
                    self.opaque(kind, "its pattern can lead out of the working directory");
                }
            }
            return;
        }
        self.add(kind, Target::Path(path));
    }

    /// The texts that may be names of files, and whether there are more.
    fn possible_files(&self, kind: Option<Kind>) -> (Vec<Possible<'a>>, bool) {
        let searches = kind == Some(Kind::Search) || self.searches_text();
        let changes = matches!(kind, Some(Kind::Edit | Kind::Delete | Kind::Move));
        // Their patterns are globs in any case.
        let name = plain(self.call.name);
        let has_globs =
            GLOBS.contains(&&*name) || matches!(&*name, "listdirectory" | "ls" | "list" | "listdir" | "listfiles");
        let mut open = vec![];
        open.extend(self.call.arguments);
        let (mut found, mut seen) = (Vec::new(), 0);
        // A text beside another one to search for is not the one that is searched for.
        let is_beside = |fields: &serde_json::Map<String, Value>| {
            fields.keys().any(|name| SOUGHT.contains(&&*key(name)) && !matches!(&*key(name), "text" | "texts"))
        };
        while let Some(fields) = open.pop() {
            for (name, value) in fields {
                seen += 1;
                if seen > MAX_TEXTS * 8 || found.len() > MAX_TEXTS {
                    return (found, true);
                }
                let key = key(name);
                let is_sought = SOUGHT.contains(&&*key);
                let is_free_text = matches!(&*key, "text" | "texts") && is_beside(fields);
                let is_name = if changes { matches!(&*key, "name" | "names") } else { NAMES.contains(&&*key) };
                if is_name || is_free_text || (is_sought && !searches && !changes && !has_globs) {
                    let is_pattern = is_sought && !matches!(&*key, "text" | "texts" | "search");
                    let mut list = Vec::new();
                    texts(value, &mut list);
                    list.retain(|text| !text.is_empty() && text.len() <= MAX_TEXT && !text.contains('\n'));
                    found.extend(list.into_iter().map(|text| Possible { text, is_pattern }));
                }
                match value {
                    Value::Object(fields) => open.push(fields),
                    Value::Array(items) => open.extend(items.iter().take(MAX_TEXTS).filter_map(Value::as_object)),
                    _ => {}
                }
            }
        }
        (found, false)
    }

    /// Whether the name of the tool says that it searches for a text.
    fn searches_text(&self) -> bool {
        let words = words_of(self.call.name);
        kind_of_tool(self.call.name) == Some(Kind::Search) || words.split('_').any(|word| SEARCHES.contains(&word))
    }
}
