//! The parts of a call that runs a command: simple commands, and the files and hosts that their words name.

use std::path::Path;

use serde_json::Value;

use super::{MAX_OPERANDS, OTHER_SHELLS, Part, Taker, Target, comparisons};
use crate::arguments::plain;
use crate::command::{self, Command, Item, Word};
use crate::host;
use crate::kinds::Kind;
use crate::path::{FilePath, GlobUse, resolve};
use crate::programs::{self, FileUse};

impl Taker<'_> {
    pub(super) fn take_command(&mut self, kind: Option<Kind>) {
        let name = plain(self.call.name);
        let mut base = resolve(".", self.work_dir, self.work_dir);
        for directory in self.known.directories.clone() {
            match directory {
                Value::Null => {}
                Value::String(text) if text.is_empty() => {}
                Value::String(text) => {
                    // A rule for the files of a folder is also about a command in it.
                    base = resolve(text, self.work_dir, self.work_dir);
                    if self.needs.paths {
                        let mut part = Part::new(Some(Kind::Read), self.path_target(text, self.work_dir));
                        (part.shadow, part.vague) = (true, true);
                        self.parts.push(part);
                    }
                }
                _ => return self.opaque(kind, "the working directory is no text"),
            }
        }
        let mut altered = if self.known.environment {
            Some("the call sets its environment")
        } else if base.is_outside() {
            Some("it runs outside of the working directory, or the directory is a link")
        } else {
            None
        };
        let base_dir = base.directory(self.work_dir);
        let other_shell = OTHER_SHELLS.contains(&&*name) || (cfg!(windows) && name != "bash");
        let mut items = Vec::new();
        let words_of =
            |words: &'_ [Value]| words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        match (&*self.known.commands, &*self.known.more) {
            ([Value::String(text)], []) if other_shell => {
                items.push(Item::Opaque {
                    text: text.clone(),
                    reason: format!("text for `{}` is not read", self.call.name),
                    shadow: false,
                    of_command: false,
                });
                items.extend(command::maybe_files(text));
            }
            ([Value::String(text)], []) => command::take_text(text, &mut items),
            ([Value::Array(words)], []) => match words_of(words) {
                Some(words) if !other_shell && !words.is_empty() => {
                    command::take_words(&words.iter().map(|word| &**word).collect::<Vec<_>>(), &mut items);
                }
                _ => return self.opaque(kind, "the words of the command are no texts"),
            },
            ([Value::String(program)], [Value::Array(words)])
                if !program.contains(char::is_whitespace) && !other_shell =>
            {
                match words_of(words) {
                    Some(words) => {
                        let words: Vec<&str> =
                            std::iter::once(&**program).chain(words.iter().map(|word| &**word)).collect();
                        command::take_words(&words, &mut items);
                        // Some tools join them for a shell.
                        if words
                            .iter()
                            .any(|word| word.contains(|c: char| c.is_control() || ";&|<>()$`'\"\\#".contains(c)))
                        {
                            command::take_text(&words.join(" "), &mut items);
                        }
                    }
                    None => return self.opaque(kind, "the words of the command are no texts"),
                }
            }
            ([], []) => return self.opaque(kind, "the arguments name no command"),
            _ => return self.opaque(kind, "the arguments have several commands"),
        }
        if items.is_empty() {
            return self.opaque(kind, "the arguments name no command");
        }
        let moves: Vec<&[Word]> = items
            .iter()
            .filter_map(|item| match item {
                Item::Command { command, shadow: false } if command::changes_directory(command.words()) => {
                    Some(command.words())
                }
                _ => None,
            })
            .collect();
        // The one folder in which the commands run from then on.
        let folder = match &*moves {
            [] => None,
            [[_, Word::Literal(folder)]] if !folder.starts_with('-') => Some(resolve(folder, &base_dir, self.work_dir)),
            _ => Some(resolve("", self.work_dir, self.work_dir)),
        };
        if folder.as_ref().is_some_and(FilePath::is_outside) {
            altered = altered.or(Some("it runs outside of the working directory, or in a folder that is not known"));
        }
        let moves = folder.is_some();
        let folder = folder.filter(|folder| !folder.is_outside()).map(|folder| folder.directory(self.work_dir));
        for item in items {
            match item {
                Item::Command { mut command, shadow } => {
                    let is_move = command::changes_directory(command.words());
                    command.altered = command.altered.or(altered.filter(|_| !is_move || !moves));
                    self.add_operands(&mut command, shadow, &base_dir, folder.as_deref(), moves);
                    self.add(kind, Target::Command(command));
                    if let Some(part) = self.parts.last_mut() {
                        part.shadow = shadow;
                    }
                }
                Item::Opaque { text, reason, shadow, of_command } => {
                    let command =
                        self.parts.iter().rev().find(|part| !part.shadow && matches!(part.target, Target::Command(_)));
                    let spelled = command.filter(|_| of_command).map(Part::of_command);
                    self.add(kind, Target::opaque(text, reason));
                    if let Some(part) = self.parts.last_mut() {
                        (part.shadow, part.hides, part.spelled) = (shadow, shadow, spelled);
                    }
                }
                Item::MaybeFile { text, kind, sign } => {
                    let use_of_file = if kind == Kind::Edit { "write" } else { "read" };
                    let reason = format!("behind its `{sign}` may be a file that it {use_of_file}s");
                    let mut part = Part::new(Some(kind), Target::opaque(text, reason));
                    (part.vague, part.redirection) = (true, true);
                    self.parts.push(part);
                }
                Item::Write(word) => self.add_redirection(Kind::Edit, &word, moves, &base_dir, false),
                Item::Read(word) => {
                    // Reading a file of the project needs no rule of its own.
                    let is_inside =
                        matches!(&word, Word::Literal(text) if !resolve(text, &base_dir, self.work_dir).is_outside());
                    self.add_redirection(Kind::Read, &word, moves, &base_dir, is_inside && !moves);
                }
            }
        }
    }

    /// Adds the files and hosts that the words of a command may name.
    fn add_operands(&mut self, command: &mut Command, shadow: bool, base: &Path, folder: Option<&Path>, moves: bool) {
        if shadow && !self.needs.paths && !self.needs.hosts {
            return;
        }
        let words = command.words().to_vec();
        let Some(name) = words.first().and_then(Word::literal) else { return };
        let usage = programs::file_use(name);
        let is_network = programs::is_network(name);
        let writes =
            usage == Some(FileUse::Write) || command.dangers.iter().any(|danger| danger.effect.starts_with("write"));
        let mut outside = Vec::new();
        let folders: Vec<&Path> = [Some(base), folder].into_iter().flatten().collect();
        for (at, word) in words.iter().enumerate().skip(1) {
            let text = word.text();
            // A word alone is a file, too, if it is a link: rules that allow look at it.
            let is_link = |name: &str| folders.iter().any(|folder| self.work_dir.is_link(name, folder));
            if !shadow && names(text).any(is_link) {
                outside.push(at);
            }
            // An address can be the value of an option.
            let value = text.split_once('=').filter(|_| text.starts_with('-')).map_or(text, |(_, value)| value);
            let text_of_host = if is_network { value } else { text };
            if self.needs.hosts
                && (text.contains("://") || (is_network && !text_of_host.starts_with('-')))
                && self.operands < MAX_OPERANDS
            {
                self.operands += 1;
                let text = text_of_host;
                let is_dynamic = word.literal().is_none();
                let start = text.find("http").filter(|at| text.contains("://") && (*at == 0 || !is_dynamic));
                let address = &text[start.unwrap_or(0)..];
                let mut part = Part::new(Some(Kind::Fetch), Target::Host(host::parse(address)));
                // The shell expands braces and variables of an address, and curl its braces and ranges.
                part.hides = is_dynamic || host::may_be_several(address);
                part.shadow = true;
                self.parts.push(part);
            }
            for (piece, is_whole) in pieces(text) {
                let is_like_path = is_like_path(piece);
                let is_option = text.starts_with('-') && is_whole;
                if self.operands >= MAX_OPERANDS {
                    if self.operands == MAX_OPERANDS && (self.needs.paths || self.needs.hosts) {
                        let mut part = Part::new(
                            Some(Kind::Execute),
                            Target::opaque(command.text(), "it names more files than are looked at".to_owned()),
                        );
                        (part.shadow, part.hides) = (true, true);
                        self.parts.push(part);
                        self.operands += 1;
                    }
                    outside.push(at);
                    break;
                }
                if is_option || (!shadow && !self.needs.paths && !is_like_path) {
                    continue;
                }
                self.operands += 1;
                let path = resolve(piece, folder.unwrap_or(base), self.work_dir);
                // The command can also run before the one that changes the directory.
                let is_outside = |path: &FilePath| {
                    path.is_outside() || (folder.is_some() && resolve(piece, base, self.work_dir).is_outside())
                };
                if !shadow && is_like_path && is_outside(&path) {
                    outside.push(at);
                }
                if !self.needs.paths || usage == Some(FileUse::None) {
                    continue;
                }
                let kind = match usage {
                    Some(FileUse::Read) if !writes => Some(Kind::Read),
                    Some(FileUse::Delete) => Some(Kind::Delete),
                    Some(_) => Some(Kind::Edit),
                    None => None,
                };
                // The words of an unknown program are files only if they look like files.
                if (kind.is_none() || !is_whole) && !is_like_path {
                    continue;
                }
                if usage == Some(FileUse::Write) {
                    // It may also copy the file, and all that is in it.
                    let path = resolve(piece, folder.unwrap_or(base), self.work_dir).with_content();
                    let mut part = Part::new(Some(Kind::Read), Target::Path(path));
                    (part.shadow, part.vague) = (true, true);
                    self.parts.push(part);
                }
                let path =
                    if moves && folder.is_none() && !Path::new(piece).is_absolute() { path.into_doubt() } else { path };
                let path = if kind == Some(Kind::Delete) { path.with_content() } else { path };
                let is_dynamic = word.literal().is_none();
                let mut part =
                    Part::new(kind, Target::Path(if is_dynamic { path.into_glob(GlobUse::Shell) } else { path }));
                (part.shadow, part.hides, part.vague) = (true, is_dynamic || moves, kind.is_none() || !is_whole);
                self.parts.push(part);
            }
        }
        command.outside = outside;
        if !shadow {
            comparisons::mark(command, self.work_dir, &folders);
        }
    }

    fn add_redirection(&mut self, kind: Kind, word: &Word, moves: bool, base: &Path, shadow: bool) {
        let target = match word {
            Word::Literal(text) => {
                let mut path = resolve(text, base, self.work_dir);
                if moves && !Path::new(text).is_absolute() {
                    path = path.into_doubt();
                }
                Target::Path(path)
            }
            Word::Dynamic(text) => {
                Target::opaque(text.clone(), "only the shell knows the file of the redirection".to_owned())
            }
        };
        let mut part = Part::new(Some(kind), target);
        (part.shadow, part.hides, part.redirection) = (shadow, shadow, true);
        self.parts.push(part);
    }
}

fn is_like_path(text: &str) -> bool {
    text.contains(['/', '.', '~']) || (cfg!(windows) && text.contains('\\'))
}

/// The texts inside of a word that can be the name of a file, without those that look like a path.
fn names(text: &str) -> impl Iterator<Item = &str> {
    /// No program has more short options in one word.
    const MAX_OPTIONS: usize = 64;
    let mut names = pieces(text);
    if text.starts_with('-') && !text.starts_with("--") {
        // Behind joined options, a name begins anywhere.
        names.extend(text.char_indices().skip(2).take(MAX_OPTIONS).map(|(at, _)| (&text[at..], false)));
    }
    names.retain(|(name, is_whole)| !(is_like_path(name) || *is_whole && text.starts_with('-')));
    names.into_iter().map(|(name, _)| name)
}

/// The texts inside of a word that can be a path, and whether it is the word itself: values of options, `of=…`, `HEAD:…`, `@…`.
fn pieces(text: &str) -> Vec<(&str, bool)> {
    let mut pieces = vec![(text, true)];
    let is_option = text.starts_with('-');
    for sign in ['=', ':', '@'] {
        if let Some((_, rest)) = text.split_once(sign) {
            pieces.push((rest, false));
        }
    }
    if is_option && !text.starts_with("--") {
        let value = text.char_indices().nth(2).map_or("", |(at, _)| &text[at..]);
        // Behind joined options, a path begins anywhere.
        let path = text.find(['/', '.', '~']).map_or("", |at| &text[at..]);
        pieces.extend([(value, false), (path, false)]);
    }
    pieces.retain(|(piece, _)| !piece.is_empty());
    pieces
}
