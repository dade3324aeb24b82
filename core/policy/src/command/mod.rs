//! Shell commands, taken apart into simple commands and redirections.
//!
//! Everything that the recogniser or this module does not understand becomes [`Item::Opaque`], which no allow rule with a pattern
//! matches.

pub(crate) mod pattern;
mod redirections;
mod shell;
mod variables;
mod word;
mod wrappers;

use std::cell::OnceCell;
use std::rc::Rc;

use crate::kinds::Kind;
use crate::programs::{self, Danger};
pub(crate) use variables::is_program_variable;
pub(crate) use word::Word;
use wrappers::Hidden;
pub(crate) use wrappers::{base_name, changes_directory};

/// How deep commands in texts of commands are followed.
const MAX_DEPTH: u32 = 4;
/// How many commands may follow each other as `env nice timeout …`.
const MAX_CHAIN: u32 = 8;
/// How many words of a command can begin a command inside of it.
const MAX_INNER: usize = 64;
/// How many words a command may have.
const MAX_WORDS: usize = 2000;
/// How many pieces of a text are looked at that is not recognised.
const MAX_SEGMENTS: usize = 300;
/// How many items a call may have.
const MAX_ITEMS: usize = 3000;

/// A simple command.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    all: Rc<[Word]>,
    from: usize,
    /// It runs with another environment or elsewhere, so that an allow rule cannot speak about it: why.
    pub(crate) altered: Option<&'static str>,
    /// Its words that an allow rule has to spell.
    pub(crate) dangers: Vec<Danger>,
    /// The words that name a file outside of the working directory, or through a link.
    pub(crate) outside: Vec<usize>,
    /// Its words in lower case, made for the first rule that needs them. Nothing stands for a word that is not known.
    lower: OnceCell<Vec<Option<LowerWord>>>,
}

/// A word as rules that deny or ask compare it.
#[derive(Clone, Debug)]
pub(crate) struct LowerWord {
    pub(crate) text: String,
    /// The path without `.`, `..` and empty parts, if the word is one.
    pub(crate) path: Option<String>,
}

impl LowerWord {
    pub(crate) fn new(word: &str) -> Self {
        let text = word.to_lowercase();
        let path = text.contains('/').then(|| pattern::plain_path(&text));
        Self { text, path }
    }
}

impl Command {
    pub(crate) fn words(&self) -> &[Word] {
        &self.all[self.from..]
    }

    pub(crate) fn lower_words(&self) -> &[Option<LowerWord>] {
        let lower = |word: &Word| word.literal().map(LowerWord::new);
        self.lower.get_or_init(|| self.words().iter().map(lower).collect())
    }

    /// The command as people read it.
    pub(crate) fn text(&self) -> String {
        let words: Vec<String> = self.words().iter().map(quoted).collect();
        words.join(" ")
    }
}

fn quoted(word: &Word) -> String {
    match word {
        Word::Literal(text)
            if text.is_empty() || text.contains(|c: char| c.is_whitespace() || ";&|<>'\"()".contains(c)) =>
        {
            format!("'{text}'")
        }
        word => word.text().to_owned(),
    }
}

/// A part of a shell text.
#[derive(Debug)]
pub(crate) enum Item {
    Command {
        command: Command,
        /// It may run, as a part of another command: only rules that deny or ask look at it.
        shadow: bool,
    },
    /// A file is written.
    Write(Word),
    /// A file is read.
    Read(Word),
    /// A text that cannot be decided may do this to a file.
    MaybeFile { text: String, kind: Kind, sign: char },
    /// A text that cannot be decided.
    Opaque {
        text: String,
        reason: String,
        /// A command runs it that has to be allowed as a whole: only rules that deny or ask look at it.
        shadow: bool,
        /// It is the command before it: an allow rule that spells the command is enough.
        of_command: bool,
    },
}

/// Takes a text for a shell apart.
pub(crate) fn take_text(text: &str, items: &mut Vec<Item>) {
    Walker { items, whole: None }.take(text, 0, false);
}

/// The files that a text may write or read, of which nothing else is known.
pub(crate) fn maybe_files(text: &str) -> impl Iterator<Item = Item> {
    redirections::uses_of_files(text).map(|(kind, sign)| Item::MaybeFile { text: text.to_owned(), kind, sign })
}

/// Takes a command apart whose words are known.
pub(crate) fn take_words(words: &[&str], items: &mut Vec<Item>) {
    let literal: Rc<[Word]> = words.iter().map(|word| Word::Literal((*word).to_owned())).collect();
    let mut walker = Walker { items, whole: None };
    if let [shell, flag, script] = words
        && wrappers::is_system_shell(shell)
        && matches!(*flag, "-c" | "-lc")
    {
        // Some agents pass every text in this form.
        walker.push_command(&literal, 0, None, true);
        return walker.take(script, 1, false);
    }
    walker.command(&literal, 0, None, &[], 0, 0, false);
}

struct Walker<'a> {
    items: &'a mut Vec<Item>,
    /// The text that is being read, until a command that runs an unknown one has taken it: the command can come from another part.
    whole: Option<String>,
}

impl Walker<'_> {
    fn take(&mut self, text: &str, depth: u32, shadow: bool) {
        if depth > MAX_DEPTH {
            return self.unread(text, "it nests too deep".to_owned(), shadow);
        }
        match shell::recognise(text) {
            Err(reason) => {
                self.unread(text, reason, shadow);
                if depth == 0 {
                    self.segments(text);
                }
            }
            Ok(read) => {
                self.whole = Some(text.to_owned()).filter(|_| read.simple.len() > 1);
                for simple in read.simple {
                    let altered = simple.assigns.then_some("variables are set for it");
                    let words: Rc<[Word]> = simple.words.into();
                    if simple.sets_program {
                        self.opaque(text, "a variable is set that can name another command".to_owned(), true);
                    }
                    self.command(&words, 0, altered, &read.documents, depth, 0, shadow);
                    if !shadow {
                        simple.files.into_iter().for_each(|file| self.redirection(file));
                    }
                }
            }
        }
    }

    /// Takes the pieces of a text apart that is not recognised as a whole: rules that deny or ask look at them.
    fn segments(&mut self, text: &str) {
        const KEYWORDS: [&str; 9] = ["if", "then", "elif", "else", "while", "until", "do", "{", "!"];
        let start: String = text.chars().take(shell::MAX_TEXT / 4).collect();
        for segment in start.split([';', '&', '|', '\n', '(', ')', '`']).take(MAX_SEGMENTS) {
            let mut segment = segment.trim();
            while let Some((_, rest)) = segment.split_once(' ').filter(|(word, _)| KEYWORDS.contains(word)) {
                segment = rest.trim_start();
            }
            if !segment.is_empty() && shell::recognise(segment).is_ok() {
                self.take(segment, 1, true);
            }
        }
    }

    fn push(&mut self, item: Item) {
        if self.items.len() < MAX_ITEMS {
            self.items.push(item);
        } else if self.items.len() == MAX_ITEMS {
            self.items.push(Item::Opaque {
                text: String::new(),
                reason: "it has too many parts".to_owned(),
                shadow: false,
                of_command: false,
            });
            self.items.extend(maybe_files("><"));
        }
    }

    /// Adds a text of which not even the redirections are known.
    fn unread(&mut self, text: &str, reason: String, shadow: bool) {
        self.opaque(text, reason, shadow);
        if !shadow {
            maybe_files(text).for_each(|item| self.push(item));
        }
    }

    fn opaque(&mut self, text: &str, reason: String, shadow: bool) {
        self.push(Item::Opaque { text: text.to_owned(), reason, shadow, of_command: false });
    }

    fn push_command(&mut self, all: &Rc<[Word]>, from: usize, altered: Option<&'static str>, shadow: bool) {
        let dangers = if shadow { Vec::new() } else { programs::dangers(&all[from..]) };
        let command =
            Command { all: Rc::clone(all), from, altered, dangers, outside: Vec::new(), lower: OnceCell::new() };
        self.push(Item::Command { command, shadow });
    }

    /// Adds a simple command, and what it runs in turn.
    #[allow(clippy::too_many_arguments, reason = "the state of one walk")]
    fn command(
        &mut self,
        all: &Rc<[Word]>,
        from: usize,
        altered: Option<&'static str>,
        documents: &[String],
        depth: u32,
        chain: u32,
        shadow: bool,
    ) {
        let words = &all[from..];
        let text = || words.iter().take(MAX_WORDS).map(Word::text).collect::<Vec<_>>().join(" ");
        if words.len() > MAX_WORDS || chain > MAX_CHAIN {
            return self.opaque(&text(), "it has too many words".to_owned(), shadow);
        }
        self.push_command(all, from, altered, shadow);
        let runs = self.has_danger("run") && !shadow;
        let starts = self.has_danger("starts a program") && !shadow;
        if let Some(reason) = wrappers::changes_shell(words) {
            self.opaque(&text(), reason, shadow);
        }
        let hidden = wrappers::hidden(words);
        if hidden != Hidden::Nothing || runs || starts {
            let budget = words.len().min(MAX_INNER);
            if words.len() > MAX_INNER {
                self.opaque(&text(), "it has too many words for a command that runs another one".to_owned(), true);
            }
            for (at, word) in words.iter().enumerate().take(budget).skip(1) {
                self.push_command(all, from + at, None, true);
                if let Word::Literal(inner) = word
                    && chain == 0
                    && inner.contains(|c: char| c.is_whitespace() || ";&|$`(".contains(c))
                {
                    self.take(inner, depth + 1, true);
                }
            }
            documents.iter().for_each(|document| self.take(document, depth + 1, true));
        }
        match hidden {
            Hidden::Nothing if runs => self.push(Item::Opaque {
                text: text(),
                reason: "one of its words can run another command".to_owned(),
                shadow: true,
                of_command: true,
            }),
            Hidden::Nothing => {}
            Hidden::From(at) => self.command(all, from + at, altered, &[], depth, chain + 1, shadow),
            Hidden::Text(inner) => self.take(&inner, depth + 1, shadow),
            Hidden::Unknown => {
                let name = words.first().map_or("it", Word::text);
                let reason = format!("`{name}` runs another command that is not known");
                let text = self.whole.take().unwrap_or_else(text);
                self.opaque(&text, reason, shadow);
            }
        }
    }

    /// Whether the last command has words with this effect.
    fn has_danger(&self, effect: &str) -> bool {
        let runs = |danger: &Danger| danger.effect.contains(effect);
        matches!(self.items.last(), Some(Item::Command { command, .. }) if command.dangers.iter().any(runs))
    }

    fn redirection(&mut self, file: shell::Redirection) {
        if let Word::Literal(text) = &file.target {
            if matches!(&**text, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty") {
                return;
            }
            if text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/") {
                return self.opaque(text, "bash makes a connection of it".to_owned(), false);
            }
        }
        if file.reads {
            self.push(Item::Read(file.target.clone()));
        }
        if file.writes {
            self.push(Item::Write(file.target));
        }
    }
}

/// Whether a command runs another one, as far as is known here.
pub(crate) fn runs_another(words: &[Word]) -> bool {
    wrappers::hidden(words) != Hidden::Nothing || wrappers::is_shell(words)
}

/// The names of the commands of a text, if it is recognised and all names are known.
pub(crate) fn names(text: &str) -> Option<Vec<String>> {
    let read = shell::recognise(text).ok()?;
    read.simple.iter().map(|simple| simple.words.first()?.literal().map(str::to_owned)).collect()
}
