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

use crate::file_use;
use crate::kinds::Kind;
use crate::programs::{self, Danger, is_network};
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
/// How many bytes of texts a call may have, with those inside of others and the ones that cannot be decided.
const MAX_BYTES: usize = 6 * shell::MAX_TEXT;

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
    /// The words that are globs of known files in the working directory.
    pub(crate) globs: Vec<usize>,
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
        /// It is among the words of a command of which nothing is known.
        may_run: bool,
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

impl Item {
    /// The item for rules that deny or ask alone.
    pub(crate) fn into_shadow(mut self) -> Self {
        if let Self::Command { shadow, .. } | Self::Opaque { shadow, .. } = &mut self {
            *shadow = true;
        }
        self
    }

    /// Notes that the command is a word which a program may run.
    fn set_may_run(&mut self) {
        if let Self::Command { may_run, .. } = self {
            *may_run = true;
        }
    }
}

/// Takes a text for a shell apart.
pub(crate) fn take_text(text: &str, items: &mut Vec<Item>) {
    Walker::new(items).take(text, 0, false);
}

/// The files that a text may write or read, of which nothing else is known.
pub(crate) fn maybe_files(text: &str) -> impl Iterator<Item = Item> {
    redirections::uses_of_files(text).map(|(kind, sign)| Item::MaybeFile { text: text.to_owned(), kind, sign })
}

/// Takes a command apart whose words are known.
pub(crate) fn take_words(words: &[&str], items: &mut Vec<Item>) {
    Walker::new(items).command(&literal(words), 0, None, &[], 0, 0, false);
}

/// Takes a command apart that the agent itself may have put into a shell, as some do with every text: only rules that deny or ask look
/// at the shell.
pub(crate) fn take_wrapped(words: &[&str], items: &mut Vec<Item>) {
    match words {
        [shell, flag, script] if wrappers::is_system_shell(shell) && matches!(*flag, "-c" | "-lc") => {
            let mut walker = Walker::new(items);
            walker.push_command(&literal(words), 0, None, true);
            walker.take(script, 1, false);
        }
        _ => take_words(words, items),
    }
}

fn literal(words: &[&str]) -> Rc<[Word]> {
    words.iter().map(|word| Word::Literal((*word).to_owned())).collect()
}

struct Walker<'a> {
    items: &'a mut Vec<Item>,
    /// The text that is being read, until a command that runs an unknown one has taken it: the command can come from another part.
    whole: Option<String>,
    /// How many bytes may still be looked at.
    bytes_left: usize,
    /// A word of a command of which nothing is known is being read.
    is_in_words: bool,
}

impl<'a> Walker<'a> {
    fn new(items: &'a mut Vec<Item>) -> Self {
        Self { items, whole: None, bytes_left: MAX_BYTES, is_in_words: false }
    }

    /// Takes bytes off the limit of the call. Behind it, nothing is looked at, and the call cannot be decided.
    fn spend(&mut self, bytes: usize) -> bool {
        let had_bytes = self.bytes_left > 0;
        // The rest of a longer text is not looked at in any case.
        self.bytes_left = self.bytes_left.saturating_sub(bytes.min(shell::MAX_TEXT));
        if had_bytes && self.bytes_left == 0 {
            self.add_rest("it has too many texts inside of others");
        }
        self.bytes_left > 0
    }

    /// Adds what was not looked at.
    fn add_rest(&mut self, reason: &str) {
        self.items.push(Item::Opaque {
            text: String::new(),
            reason: reason.to_owned(),
            shadow: false,
            of_command: false,
        });
        self.items.extend(maybe_files("><"));
    }

    fn take(&mut self, text: &str, depth: u32, shadow: bool) {
        if !self.spend(text.len()) {
            return;
        }
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

    /// Takes the commands that can begin behind signs in a word, such as `start:execute(rm x)`: rules that deny or ask look at them.
    fn take_pieces(&mut self, text: &str, depth: u32) {
        let is_sign = |c: char| c.is_ascii_punctuation() && !"-_./~*?\\$".contains(c);
        let start = self.items.len();
        for piece in text.split(is_sign).skip(1).take(MAX_SEGMENTS).map(str::trim) {
            if piece.contains(char::is_whitespace) && shell::recognise(piece).is_ok() {
                self.take(piece, depth, true);
            }
        }
        self.items[start..].iter_mut().for_each(Item::set_may_run);
    }

    fn push(&mut self, item: Item) {
        if self.items.len() < MAX_ITEMS {
            self.items.push(item);
        } else if self.items.len() == MAX_ITEMS {
            self.add_rest("it has too many parts");
        }
    }

    /// Adds a text of which not even the redirections are known.
    fn unread(&mut self, text: &str, reason: String, shadow: bool) {
        self.opaque(text, reason, shadow);
        if !shadow && self.spend(text.len()) && self.spend(text.len()) {
            maybe_files(text).for_each(|item| self.push(item));
        }
    }

    fn opaque(&mut self, text: &str, reason: String, shadow: bool) {
        // The words of the text are compared, too.
        if !self.spend(text.len()) {
            return;
        }
        self.push(Item::Opaque { text: text.to_owned(), reason, shadow, of_command: false });
    }

    fn push_command(&mut self, all: &Rc<[Word]>, from: usize, altered: Option<&'static str>, shadow: bool) {
        let dangers = if shadow { Vec::new() } else { programs::dangers(&all[from..]) };
        let command = Command {
            all: Rc::clone(all),
            from,
            altered,
            dangers,
            outside: Vec::new(),
            globs: Vec::new(),
            lower: OnceCell::new(),
        };
        self.push(Item::Command { command, shadow, may_run: false });
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
        // `git-push` is `git push`.
        if let Some(name) = words.first().and_then(Word::literal).map(base_name)
            && let Some(subcommand) = name.strip_prefix("git-").filter(|name| !name.is_empty())
        {
            let git = ["git", subcommand].map(|word| Word::Literal(word.to_owned()));
            let command: Rc<[Word]> = git.into_iter().chain(words[1..].iter().cloned()).collect();
            self.push_command(&command, 0, None, true);
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
            let mut bytes = weight(words);
            for (at, word) in words.iter().enumerate().take(budget).skip(1) {
                bytes -= weight(&words[at - 1..at]);
                if !self.spend(bytes) {
                    break;
                }
                let start = self.items.len();
                self.push_command(all, from + at, None, true);
                if let Word::Literal(inner) = word
                    && chain == 0
                    && inner.contains(|c: char| c.is_whitespace() || ";&|$`(".contains(c))
                {
                    self.take(inner, depth + 1, true);
                    self.take_pieces(inner, depth + 1);
                }
                self.push_value(all, from + at, depth);
                let begins = begins_command(words, at);
                for item in &mut self.items[start..] {
                    if let Item::Command { command, may_run, .. } = item {
                        let is_inside = command.all.len() != all.len();
                        *may_run |= (begins || is_inside) && matches!(command.words().first(), Some(Word::Dynamic(_)));
                    }
                }
            }
            documents.iter().for_each(|document| self.take(document, depth + 1, true));
        }
        if hidden == Hidden::Nothing && !runs && !starts && !shadow && is_unknown(words) {
            self.add_words_that_may_run(all, from);
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

    /// Adds the commands that can begin in the words of a program that is not known, which may run them.
    fn add_words_that_may_run(&mut self, all: &Rc<[Word]>, from: usize) {
        let end = all.len().min(from + MAX_INNER / 2);
        for at in from + 1..end {
            if !self.spend(weight(&all[at..])) {
                return;
            }
            let start = self.items.len();
            let Word::Literal(inner) = &all[at] else {
                if begins_command(&all[from..], at - from) {
                    self.push_command(all, at, None, true);
                }
                self.items[start..].iter_mut().for_each(Item::set_may_run);
                continue;
            };
            self.push_value(all, at, 0);
            let is_word = !inner.is_empty() && !inner.starts_with(['-', '+']);
            if is_word {
                self.push_command(all, at, None, true);
            }
            if is_word && inner.contains(char::is_whitespace) && !self.is_in_words {
                self.is_in_words = true;
                self.take(inner, 1, true);
                self.take_pieces(inner, 1);
                self.is_in_words = false;
            }
            for mut item in self.items.split_off(start) {
                // The word can be any text.
                if !matches!(item, Item::Opaque { shadow: true, .. }) {
                    item.set_may_run();
                    self.items.push(item);
                }
            }
        }
    }

    /// Adds the command that can begin in the value of an option, such as `--exec=rm`.
    fn push_value(&mut self, all: &Rc<[Word]>, at: usize, depth: u32) {
        let Some(value) = all[at].literal().and_then(joined_value) else { return };
        if value.contains(|c: char| c.is_whitespace() || ";&|$`(".contains(c)) {
            if !self.is_in_words {
                self.is_in_words = true;
                self.take(value, depth + 1, true);
                self.take_pieces(value, depth + 1);
                self.is_in_words = false;
            }
            return;
        }
        if self.spend(weight(&all[at..])) {
            let words = std::iter::once(Word::Literal(value.to_owned())).chain(all[at + 1..].iter().cloned());
            self.push_command(&words.collect(), 0, None, true);
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

/// Whether a word that only the shell knows can be the command that a program runs: it comes first, behind `--`, or behind words
/// such as `run`. A word with `/` or `.` is rather a file.
fn begins_command(words: &[Word], at: usize) -> bool {
    const BEFORE: [&str; 3] = ["run", "exec", "shell"];
    let Word::Dynamic(text) = &words[at] else { return false };
    let is_before = |word: &Word| word.text().starts_with('-') || BEFORE.contains(&word.text());
    let is_file = text.contains(['/', '.']) && !text.starts_with("$(");
    !is_file && (words[at - 1].text() == "--" || words[1..at].iter().all(is_before))
}

/// The value that is joined to the name of an option or of a setting: `--name=value`, `-nvalue`, `name=value`.
fn joined_value(word: &str) -> Option<&str> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.+".contains(c));
    let value = match word.split_once('=') {
        Some((name, value)) if is_name(name) => value,
        _ if word.starts_with('-') && !word.starts_with("--") => {
            word.char_indices().nth(2).map_or("", |(at, _)| &word[at..])
        }
        _ => "",
    };
    Some(value).filter(|value| !value.is_empty())
}

/// The cost of comparisons with words, in bytes.
fn weight(words: &[Word]) -> usize {
    words.iter().map(|word| word.text().len() + 8).sum()
}

/// Whether this is the name of a shell, or of a program that runs others.
pub(crate) fn is_program_of_shell(name: &str) -> bool {
    runs_another(&[Word::Literal(name.to_owned()), Word::Literal("x".to_owned())])
}

/// Whether this is the name of a program that is known.
pub(crate) fn is_program(name: &str) -> bool {
    programs::is_known(name) || file_use::is_known(name) || is_network(name) || is_program_of_shell(name)
}

/// Whether nothing is known of a program with this name.
pub(crate) fn is_unknown_program(name: &str) -> bool {
    is_unknown(&[Word::Literal(name.to_owned())])
}

/// Whether nothing is known of what a program does with its words.
fn is_unknown(words: &[Word]) -> bool {
    let Some(name) = words.first().and_then(Word::literal) else { return false };
    !(programs::is_known(name) || file_use::is_known(name) || wrappers::is_of_shell(name) || is_network(name))
}

/// The names of the commands of a text, if it is recognised and all names are known.
pub(crate) fn names(text: &str) -> Option<Vec<String>> {
    let read = shell::recognise(text).ok()?;
    read.simple.iter().map(|simple| simple.words.first()?.literal().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_texts_share_the_limit() {
        let pieces = [
            "eval \"",
            "sh -c \"",
            "bash -lc \"",
            "git bisect run \"",
            "env sh -c \"",
            "xargs sh -c \"",
            "find . -exec sh -c \"",
            "eval \"$(",
            "su -c '",
            "wrapper 'a b' ",
        ];
        for piece in pieces {
            for size in [2000, 12_000, 24_000, shell::MAX_TEXT, 1 << 20] {
                let text = piece.repeat(size / piece.len());
                let mut items = Vec::new();
                take_text(&text, &mut items);
                let bytes = |item: &Item| match item {
                    Item::Command { command, .. } => command.words().iter().map(|word| word.text().len()).sum(),
                    Item::MaybeFile { text, .. } | Item::Opaque { text, .. } => text.len().min(shell::MAX_TEXT),
                    Item::Write(word) | Item::Read(word) => word.text().len(),
                };
                let all: usize = items.iter().map(bytes).sum();
                // The last text can be longer than what is left.
                assert!(all <= MAX_BYTES + 4 * shell::MAX_TEXT, "{piece} {size}: {all} bytes");
            }
        }
    }

    #[test]
    fn text_beyond_the_limit_cannot_be_decided() {
        let mut items = Vec::new();
        let mut walker = Walker::new(&mut items);
        walker.bytes_left = 10;
        walker.take("sh -c 'git status'; ls", 0, false);
        let is_rest = |item: &Item| matches!(item, Item::Opaque { shadow: false, .. });
        assert!(items.iter().any(is_rest), "{items:?}");
    }
}
