//! Reads the table `files.toml`: how programs use the files that their words name.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::command::{Command, Word, base_name, changes_directory};
use crate::kinds::Kind;
use crate::programs::{Danger, counts_operands, dangers, first_operand, known};
use crate::scripts::plain_sed_words;

static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

#[derive(Default, Deserialize)]
struct Source {
    files: Vec<Files>,
    subcommands: Vec<Names>,
    texts: Vec<Texts>,
    patterns: Vec<Patterns>,
}

#[derive(Deserialize)]
struct Files {
    effect: Effect,
    /// The names are subcommands of this program.
    of: Option<String>,
    names: Vec<String>,
}

#[derive(Deserialize)]
struct Names {
    names: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Texts {
    names: Vec<String>,
    of: Vec<String>,
    options: Vec<String>,
}

/// Words that are patterns for names of files.
#[derive(Debug, Deserialize)]
struct Patterns {
    names: Vec<String>,
    /// The pattern is the value of one of these options.
    #[serde(default)]
    options: Vec<String>,
    /// The words that are no options are patterns, too.
    #[serde(default)]
    operands: bool,
}

/// Options of programs whose value is a regular expression for paths.
const REGEX: [&str; 6] = ["-regex", "-iregex", "-G", "--file-search-regex", "-p", "--full-path"];

/// Whether the pattern at a place is a regular expression for paths.
pub(crate) fn is_regex(words: &[Word], at: usize) -> bool {
    let name = words.first().and_then(Word::literal).map(base_name).unwrap_or_default();
    let is_option = |word: &Word| REGEX.contains(&word.text());
    match &*name {
        "find" | "ag" => is_option(&words[at - 1]) || (name == "ag" && words[at].text().starts_with('-')),
        "fd" | "fdfind" => {
            let is_full = |text: &str| text.starts_with("--fu") || (!text.starts_with("--") && text.contains('p'));
            words[at].text().contains(['*', '[', '(', '|', '?', '+', '{', '\\'])
                && words.iter().skip(1).any(|word| word.text().starts_with('-') && is_full(word.text()))
        }
        _ => false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Effect {
    None,
    Read,
    Write,
    Delete,
    Move,
}

#[derive(Default)]
struct Table {
    files: HashMap<String, Effect>,
    of_git: HashMap<String, Effect>,
    with_subcommands: HashSet<String>,
    texts: Vec<Texts>,
    patterns: Vec<Patterns>,
}

impl Table {
    fn read() -> Self {
        let source: Source = toml::from_str(include_str!("files.toml")).unwrap_or_default();
        let mut table = Self { texts: source.texts, patterns: source.patterns, ..Self::default() };
        for files in source.files {
            let map = if files.of.is_some() { &mut table.of_git } else { &mut table.files };
            map.extend(files.names.into_iter().map(|name| (name, files.effect)));
        }
        table.with_subcommands.extend(source.subcommands.into_iter().flat_map(|row| row.names));
        table
    }
}

/// Whether the words of the program are files, and not subcommands.
pub(crate) fn is_of_files(name: &str) -> bool {
    known(&TABLE.files, name).is_some() && !TABLE.with_subcommands.contains(&base_name(name))
}

/// What a program does with files, if it does more than to read them.
pub(crate) fn kind_of_program(name: &str) -> Option<Kind> {
    match known(&TABLE.files, name)? {
        Effect::Write => Some(Kind::Edit),
        Effect::Delete => Some(Kind::Delete),
        Effect::Move => Some(Kind::Move),
        Effect::None | Effect::Read => None,
    }
}

/// Whether a program does no more with files than to read them.
pub(crate) fn is_reading(name: &str) -> bool {
    matches!(known(&TABLE.files, name), Some(Effect::None | Effect::Read))
}

/// Whether a command surely does no more than to read files.
pub(crate) fn is_harmless(command: &Command) -> bool {
    let reads = |name: &str| is_reading(name) && !matches!(name, "source" | ".") || matches!(name, "sed" | "gsed");
    command.dangers.is_empty() && command.words().first().and_then(Word::literal).is_some_and(reads)
}

/// Whether the table has the program.
pub(crate) fn is_known(name: &str) -> bool {
    known(&TABLE.files, name).is_some() || TABLE.with_subcommands.contains(&base_name(name))
}

/// The words that a use of files is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    All,
    /// The folders in which `find` starts.
    Starts,
    /// The files that `find` writes.
    Outputs,
}

/// How a command uses a file that a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// Unknown for a program that is not in the table.
    pub(crate) kind: Option<Kind>,
    /// It is not certain that the command does it.
    pub(crate) is_vague: bool,
    /// The command also uses all files in a folder that the word names.
    pub(crate) has_content: bool,
    words: Words,
}

/// How a command uses the files that its words name.
#[derive(Debug)]
pub(crate) struct FileUses {
    /// Nothing, if its words are no files.
    pub(crate) uses: Vec<Use>,
    pub(crate) is_git: bool,
    /// The place of the subcommand.
    subcommand: Option<usize>,
    /// From this place on, words that are no options are files.
    files_from: usize,
    /// The words that are the values of options for texts, and what such a word begins with.
    texts: Option<&'static Texts>,
    /// The places of the folders in which `find` starts. Without a folder, it starts in the working directory.
    starts: Range<usize>,
    /// The places of scripts, which name no file.
    scripts: Vec<usize>,
}

impl FileUses {
    /// Returns nothing if the name of the program is not known.
    pub(crate) fn of(command: &Command) -> Option<Self> {
        let words = command.words();
        let name = words.first()?.literal()?;
        let base = base_name(name);
        let is_git = base == "git";
        // Commands in a folder have a part for the folder.
        let has_subcommand = TABLE.with_subcommands.contains(&base) || changes_directory(words);
        let is_name = |text: &str| !text.starts_with(['-', '.', '/', '~']);
        let subcommand = if is_git {
            first_operand(words)
        } else {
            (has_subcommand && words.get(1).is_some_and(|word| is_name(word.text()))).then_some(1)
        };
        let first = subcommand.and_then(|at| words[at].literal());
        let effect = if is_git {
            match subcommand {
                Some(_) => first.and_then(|first| TABLE.of_git.get(first).copied()),
                None => Some(Effect::Read),
            }
        } else {
            known(&TABLE.files, name).copied()
        };
        // Without an option or a script that the table of programs knows, sed only reads.
        let reads = matches!(&*base, "sed" | "gsed") && dangers(words).is_empty();
        let effect = if reads { Some(Effect::Read) } else { effect };
        let scripts = if reads { plain_sed_words(words) } else { Vec::new() };
        let is_any = |is: fn(&Danger) -> bool| command.dangers.iter().any(is);
        let writes = is_any(|danger| danger.effect.starts_with("write"));
        let of = |kind: Kind, is_vague: bool, has_content: bool| Use {
            kind: Some(kind),
            is_vague,
            has_content,
            words: Words::All,
        };
        let mut uses = match effect {
            None => vec![Use { kind: None, is_vague: true, has_content: false, words: Words::All }],
            Some(Effect::None) => Vec::new(),
            Some(Effect::Read) => vec![of(Kind::Read, false, false)],
            // It may also copy a file, and all that is in it.
            Some(Effect::Write) => vec![of(Kind::Read, true, true), of(Kind::Edit, false, is_git)],
            Some(Effect::Delete) => vec![of(Kind::Delete, false, true)],
            Some(Effect::Move) => vec![of(Kind::Move, false, true), of(Kind::Delete, false, true)],
        };
        if effect == Some(Effect::Read) && writes {
            uses.push(of(Kind::Edit, is_git, false));
        }
        if is_any(|danger| danger.option == "-delete") {
            uses.push(Use { words: Words::Starts, ..of(Kind::Delete, true, true) });
        }
        if is_any(|danger| OUTPUTS.contains(&&*danger.option)) {
            uses.push(Use { words: Words::Outputs, ..of(Kind::Edit, true, false) });
        }
        let takes_files_alone = matches!(effect, Some(Effect::Delete | Effect::Move));
        let files_from = match effect {
            None => usize::MAX,
            Some(_) if is_git && !takes_files_alone => {
                words.iter().position(|word| word.text() == "--").unwrap_or(usize::MAX)
            }
            Some(_) => subcommand.unwrap_or(0),
        };
        let texts = first.and_then(|first| {
            let is_meant = |row: &&Texts| row.names.contains(&base) && row.of.iter().any(|known| known == first);
            TABLE.texts.iter().find(is_meant)
        });
        Some(Self { uses, is_git, subcommand, files_from, texts, starts: starts(words), scripts })
    }

    /// The uses that a word is about.
    pub(crate) fn of_word(&self, words: &[Word], at: usize) -> impl Iterator<Item = Use> {
        let is_output = at > 0 && OUTPUTS.contains(&words[at - 1].text());
        self.uses.iter().copied().filter(move |of| match of.words {
            Words::All => true,
            Words::Starts => self.starts.contains(&at),
            Words::Outputs => is_output,
        })
    }

    /// The uses of the working directory by a program that names no folder.
    pub(crate) fn of_folder(&self) -> impl Iterator<Item = Use> {
        let is_meant = |of: &Use| of.words == Words::Starts && self.starts.is_empty();
        self.uses.iter().copied().filter(is_meant)
    }

    /// Whether nothing is known of what the program does with files.
    pub(crate) fn is_unknown(&self) -> bool {
        self.uses.iter().any(|of| of.kind.is_none())
    }

    /// The kinds of its uses.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let further = [Some(Kind::Read), self.is_unknown().then_some(Kind::Edit)].into_iter().flatten();
        let mut kinds: Vec<Kind> = self.uses.iter().filter_map(|of| of.kind).collect();
        for kind in further {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// The patterns for names of files in the words, and their places.
    pub(crate) fn patterns<'w>(&self, words: &'w [Word]) -> impl Iterator<Item = (usize, &'w str)> {
        let name = words.first().and_then(Word::literal).map(base_name).unwrap_or_default();
        let rows: Vec<&Patterns> = TABLE.patterns.iter().filter(|row| row.names.contains(&name)).collect();
        let end = if rows.is_empty() { 1 } else { words.len() };
        (1..end).filter_map(move |at| {
            let text = words[at].text();
            rows.iter().find_map(|row| row.pattern(words[at - 1].text(), text)).map(|pattern| (at, pattern))
        })
    }

    /// Whether the program does no more than to read its operands, however many these are.
    pub(crate) fn only_reads(&self, words: &[Word]) -> bool {
        let reads = |of: &Use| of.kind == Some(Kind::Read) && of.words == Words::All;
        let counts = words.first().and_then(Word::literal).is_none_or(counts_operands);
        !self.is_git && !self.uses.is_empty() && self.uses.iter().all(reads) && !counts
    }

    /// Whether the word is a script that names no file.
    pub(crate) fn is_script(&self, at: usize) -> bool {
        self.scripts.contains(&at)
    }

    /// Whether the word is certainly a file, unless it is an option.
    pub(crate) fn is_file(&self, at: usize) -> bool {
        at > self.files_from
    }

    /// Whether a word, or a text in it, may be the name of a file although it does not look like a path.
    pub(crate) fn may_name_file(&self, words: &[Word], at: usize) -> bool {
        let text = words[at].text();
        let is_text = |row: &Texts| {
            let is_option = |text: &str| row.options.iter().any(|known| known == text);
            is_option(words[at - 1].text()) || text.split_once('=').is_some_and(|(option, _)| is_option(option))
        };
        // Git takes `HEAD` for a commit, not for a file.
        let is_commit = self.is_git && text == "HEAD" && !self.is_file(at);
        self.subcommand != Some(at) && !is_commit && !self.texts.is_some_and(is_text)
    }
}

impl Patterns {
    /// The pattern in a word, or in the value that it has as an option.
    fn pattern<'w>(&self, before: &str, text: &'w str) -> Option<&'w str> {
        if !text.starts_with('-') {
            return (self.operands || self.options.iter().any(|option| option_fits(option, before))).then_some(text);
        }
        self.options.iter().find_map(|option| {
            if option.starts_with("--") {
                return text.split_once('=').filter(|(name, _)| option_fits(option, name)).map(|(_, value)| value);
            }
            // A value behind a short option, which others can be joined with.
            let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1 && !text.starts_with("--"))?;
            text.split_once(letter).map(|(_, value)| value.strip_prefix('=').unwrap_or(value))
        })
    }
}

/// Whether a word of `find` is a pattern for the names of files.
pub(crate) fn is_name_of_find(words: &[Word], at: usize) -> bool {
    let is_find = words.first().and_then(Word::literal).is_some_and(|name| base_name(name) == "find");
    is_find && at > 1 && matches!(words[at - 1].text(), "-name" | "-iname")
}

/// Whether a word is an option of the table: as it is, abbreviated, or joined with others before it.
fn option_fits(option: &str, word: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) => word.strip_prefix("--").is_some_and(|given| !given.is_empty() && long.starts_with(given)),
        None if option.len() == 2 => {
            word.starts_with('-') && !word.starts_with("--") && word.len() > 1 && word.ends_with(&option[1..])
        }
        None => word == option,
    }
}

/// Options of `find` that name a file which it writes.
const OUTPUTS: [&str; 4] = ["-fprint", "-fprint0", "-fprintf", "-fls"];

/// The places of the folders in which `find` starts.
fn starts(words: &[Word]) -> Range<usize> {
    let mut from = 1;
    while let Some(text) = words.get(from).map(Word::text) {
        from += match text {
            "-D" => 2,
            "-H" | "-L" | "-P" | "--" => 1,
            text if text.starts_with("-O") => 1,
            _ => break,
        };
    }
    let from = from.min(words.len());
    let is_expression = |word: &Word| word.text().starts_with(['-', '(', '!']);
    let end = words[from..].iter().position(is_expression).map_or(words.len(), |at| from + at);
    from..end
}
