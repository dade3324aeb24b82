//! Shell commands, taken apart into simple commands and redirections with the parser of a shell.
//!
//! Everything that the parser or this module does not understand becomes [`Item::Opaque`], which no allow rule with a pattern
//! matches.

pub(crate) mod pattern;
mod word;
mod wrappers;

use brush_parser::ast::{
    AndOr, Command, CommandPrefixOrSuffixItem, CompoundCommand, CompoundList, IoFileRedirectKind, IoFileRedirectTarget,
    IoRedirect, Pipeline, SimpleCommand, Word as ShellWord,
};
use brush_parser::word::{WordPiece, WordPieceWithSource};
use brush_parser::{ParserOptions, SourceInfo};

pub(crate) use word::Word;
use wrappers::Hidden;
pub(crate) use wrappers::changes_directory;

/// Longer texts are not parsed.
const MAX_TEXT: usize = 16 << 10;
/// The parser recurses: texts with more constructs that nest are not parsed.
const MAX_NESTED: usize = 40;
/// The parser tries parentheses and braces in several ways, so its time doubles with each of them.
const MAX_BRACKETS: usize = 14;
/// How deep commands in texts of commands are followed.
const MAX_DEPTH: u32 = 4;
/// How many words of a command are compared one by one.
const MAX_WORDS: usize = 200;
/// How many items a call may have.
const MAX_ITEMS: usize = 2000;

/// A part of a shell text.
#[derive(Debug)]
pub(crate) enum Item {
    Command {
        words: Vec<Word>,
        /// Variables are set for it.
        altered: bool,
        /// It may run, as a part of another command: only rules that deny or ask look at it.
        shadow: bool,
    },
    /// A file is written.
    Write(Word),
    /// A file is read.
    Read(Word),
    /// A text that cannot be decided.
    Opaque(String),
}

/// Takes a text for a shell apart.
pub(crate) fn take_text(text: &str, items: &mut Vec<Item>) {
    let mut walker = Walker { text, items, depth: 0, shadow: false };
    walker.take();
}

/// Takes a command apart whose words are known.
pub(crate) fn take_words(words: Vec<&str>, items: &mut Vec<Item>) {
    let literal: Vec<Word> = words.iter().map(|word| Word::Literal((*word).to_owned())).collect();
    let text = words.join(" ");
    let mut walker = Walker { text: &text, items, depth: 0, shadow: false };
    if let [_, flag, script] = &*words
        && wrappers::is_posix_shell(&literal[0])
        && matches!(*flag, "-c" | "-lc")
    {
        // Some agents pass every text in this form.
        walker.items.push(Item::Command { words: literal.clone(), altered: false, shadow: true });
        return walker.nested(script, false);
    }
    walker.command(literal, false, &[]);
}

struct Walker<'a> {
    /// The whole text, which is searched if a part of it cannot be decided.
    text: &'a str,
    items: &'a mut Vec<Item>,
    depth: u32,
    shadow: bool,
}

fn is_too_complex(text: &str) -> bool {
    const WORDS: [&str; 9] = ["if", "while", "until", "for", "case", "select", "function", "coproc", "!"];
    let count = |signs: &[u8]| text.bytes().filter(|byte| signs.contains(byte)).count();
    let is_any = |word: &&str| WORDS.contains(&word.trim_matches(|c: char| matches!(c, ';' | '&' | '|')));
    // A `case` counts as two brackets, as it takes the parser as long.
    let brackets = count(b"({") + 2 * text.matches("case").count();
    let nested = count(b"({`[") + text.split_whitespace().filter(is_any).count();
    text.len() > MAX_TEXT || text.contains('\0') || brackets > MAX_BRACKETS || nested > MAX_NESTED
}

/// Whether the text has a here-document. Its body is not in the tokens.
fn has_document(text: &str) -> bool {
    text.replace("<<<", "").contains("<<")
}

/// Whether the tokens are the whole text, except for comments: what the parser loses must not be allowed.
fn covers<'a>(tokens: impl Iterator<Item = &'a str>, text: &str) -> bool {
    let plain = |text: &str| text.replace("\\\n", "").split_whitespace().collect::<String>();
    let text = plain(text);
    let mut rest = &*text;
    for token in tokens.map(plain) {
        rest = match (rest.strip_prefix(&*token), rest.starts_with('#')) {
            (Some(more), _) => more,
            (None, true) => match rest.split_once(&*token) {
                Some((_, more)) => more,
                None => return false,
            },
            (None, false) => return false,
        };
    }
    rest.is_empty() || rest.starts_with('#')
}

impl Walker<'_> {
    fn take(&mut self) {
        if self.depth > MAX_DEPTH || is_too_complex(self.text) {
            return self.opaque();
        }
        let options = ParserOptions::default();
        let Ok(tokens) = brush_parser::uncached_tokenize_str(self.text, &options.tokenizer_options()) else {
            return self.opaque();
        };
        let tokens_cover_text = if has_document(self.text) {
            // The parser loses a here-document that ends with the substitution around it.
            !self.text.contains(['`', '('])
        } else {
            covers(tokens.iter().map(brush_parser::Token::to_str), self.text)
        };
        if !tokens_cover_text {
            return self.opaque();
        }
        match brush_parser::parse_tokens(&tokens, &options, &SourceInfo::default()) {
            Ok(program) => program.complete_commands.iter().for_each(|list| self.list(list)),
            Err(_) => self.opaque(),
        }
    }

    fn push(&mut self, item: Item) {
        if self.items.len() < MAX_ITEMS {
            self.items.push(item);
        } else if !matches!(self.items.last(), Some(Item::Opaque(_))) {
            self.items.push(Item::Opaque(self.text.to_owned()));
        }
    }

    /// Some of the text cannot be decided.
    fn opaque(&mut self) {
        if self.shadow {
            let words = vec![Word::Dynamic(self.text.to_owned())];
            return self.push(Item::Command { words, altered: true, shadow: true });
        }
        self.push(Item::Opaque(self.text.to_owned()));
    }

    /// Takes a text apart that is inside of this one.
    fn nested(&mut self, text: &str, shadow: bool) {
        let shadow = self.shadow || shadow;
        let mut walker = Walker { text, items: self.items, depth: self.depth + 1, shadow };
        walker.take();
    }

    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            self.pipeline(&item.0.first);
            for more in &item.0.additional {
                match more {
                    AndOr::And(pipeline) | AndOr::Or(pipeline) => self.pipeline(pipeline),
                }
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        for command in &pipeline.seq {
            match command {
                Command::Simple(simple) => self.simple(simple),
                Command::Compound(compound, redirections) => {
                    self.compound(compound);
                    redirections.iter().flat_map(|list| &list.0).for_each(|redirection| self.redirection(redirection));
                }
                Command::Function(function) => {
                    // From here on a name can mean this function.
                    self.opaque();
                    self.compound(&function.body.0);
                    let redirections = function.body.1.iter().flat_map(|list| &list.0);
                    redirections.for_each(|redirection| self.redirection(redirection));
                }
                Command::ExtendedTest(_) => self.opaque(),
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            CompoundCommand::ForClause(clause) => {
                clause.values.iter().flatten().for_each(|value| drop(self.word(value)));
                self.list(&clause.body.list);
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for branch in clause.elses.iter().flatten() {
                    branch.condition.iter().for_each(|condition| self.list(condition));
                    self.list(&branch.body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value);
                for case in &clause.cases {
                    case.patterns.iter().for_each(|pattern| drop(self.word(pattern)));
                    case.cmd.iter().for_each(|list| self.list(list));
                }
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                self.opaque();
                self.list(&clause.body.list);
            }
            CompoundCommand::Arithmetic(_) => self.opaque(),
        }
    }

    fn simple(&mut self, simple: &SimpleCommand) {
        let (mut words, mut altered, mut documents) = (Vec::new(), false, Vec::new());
        let before = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        let after = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        let mut take = |walker: &mut Self, item: &CommandPrefixOrSuffixItem, is_prefix: bool| match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirection) => {
                match redirection {
                    IoRedirect::HereDocument(_, document) => documents.push(document.doc.value.clone()),
                    IoRedirect::HereString(_, text) => documents.push(Word::of_shell(&text.value).into_text()),
                    _ => {}
                }
                walker.redirection(redirection);
                None
            }
            CommandPrefixOrSuffixItem::Word(word) => Some(walker.word(word)),
            CommandPrefixOrSuffixItem::AssignmentWord(_, word) if is_prefix => {
                altered = true;
                walker.word(word);
                None
            }
            CommandPrefixOrSuffixItem::AssignmentWord(_, word) => Some(walker.word(word)),
            CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                walker.list(&subshell.list);
                Some(Word::Dynamic("<(…)".to_owned()))
            }
        };
        for item in before {
            words.extend(take(self, item, true));
        }
        if let Some(name) = &simple.word_or_name {
            let name = self.word(name);
            words.push(name);
        }
        for item in after {
            words.extend(take(self, item, false));
        }
        if !words.is_empty() {
            self.command(words, altered, &documents);
        } else if altered {
            // The variable can change what later commands do.
            self.opaque();
        }
    }

    /// Adds a simple command, and what it runs in turn.
    fn command(&mut self, words: Vec<Word>, altered: bool, documents: &[String]) {
        if words.len() > MAX_WORDS {
            self.opaque();
        }
        let shadow = self.shadow;
        let hidden = wrappers::hidden(&words);
        if hidden != Hidden::Nothing {
            for at in 1..words.len().min(MAX_WORDS) {
                let rest = words[at..].to_vec();
                self.push(Item::Command { words: rest, altered: true, shadow: true });
                if let Word::Literal(text) = &words[at]
                    && text.contains(|c: char| c.is_whitespace() || ";&|$`(".contains(c))
                {
                    self.nested(text, true);
                }
            }
            documents.iter().for_each(|document| self.nested(document, true));
        }
        match hidden {
            Hidden::Nothing => {}
            Hidden::From(at) => {
                let mut rest = words[at..].to_vec();
                rest.truncate(MAX_WORDS);
                self.command(rest, altered, &[]);
            }
            Hidden::Text(text) => self.nested(&text, false),
            Hidden::Unknown => self.opaque(),
        }
        self.push(Item::Command { words, altered, shadow });
    }

    fn redirection(&mut self, redirection: &IoRedirect) {
        match redirection {
            IoRedirect::File(_, kind, target) => match target {
                IoFileRedirectTarget::Filename(word) => {
                    let word = self.word(word);
                    let writes = !matches!(kind, IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput);
                    self.file(word, writes);
                }
                IoFileRedirectTarget::Fd(_) => {}
                IoFileRedirectTarget::ProcessSubstitution(_, subshell) => self.list(&subshell.list),
                IoFileRedirectTarget::Duplicate(word) => {
                    let word = self.word(word);
                    let is_descriptor = matches!(&word, Word::Literal(text) if text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit()));
                    if !is_descriptor {
                        self.file(word, true);
                    }
                }
            },
            IoRedirect::OutputAndError(word, _) => {
                let word = self.word(word);
                self.file(word, true);
            }
            IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    self.substitutions(&document.doc.value);
                }
            }
            IoRedirect::HereString(_, word) => drop(self.word(word)),
        }
    }

    fn file(&mut self, word: Word, writes: bool) {
        if let Word::Literal(text) = &word {
            if matches!(&**text, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty") {
                return;
            }
            if text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/") {
                // A connection, in bash.
                return self.opaque();
            }
        }
        if self.shadow {
            return;
        }
        self.push(if writes { Item::Write(word) } else { Item::Read(word) });
    }

    /// The value of a word, and the commands of its substitutions.
    fn word(&mut self, word: &ShellWord) -> Word {
        self.substitutions(&word.value);
        Word::of_shell(&word.value)
    }

    fn substitutions(&mut self, text: &str) {
        if !text.contains(['$', '`']) {
            return;
        }
        if self.depth >= MAX_DEPTH {
            return self.opaque();
        }
        match brush_parser::word::parse(text, &ParserOptions::default()) {
            Ok(pieces) => self.pieces(text, &pieces),
            Err(_) => self.opaque(),
        }
    }

    fn pieces(&mut self, text: &str, pieces: &[WordPieceWithSource]) {
        for piece in pieces {
            match &piece.piece {
                WordPiece::CommandSubstitution(command) | WordPiece::BackquotedCommandSubstitution(command) => {
                    self.nested(command, false);
                }
                WordPiece::DoubleQuotedSequence(pieces) | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                    self.pieces(text, pieces);
                }
                WordPiece::ParameterExpansion(_) | WordPiece::ArithmeticExpression(_) => {
                    // Both can hold further substitutions.
                    let source = text.get(piece.start_index..piece.end_index).unwrap_or(text);
                    if source.contains("$(") || source.contains('`') {
                        self.opaque();
                    }
                }
                WordPiece::Text(_)
                | WordPiece::SingleQuotedText(_)
                | WordPiece::AnsiCQuotedText(_)
                | WordPiece::TildePrefix(_)
                | WordPiece::EscapeSequence(_) => {}
            }
        }
    }
}
