//! Recognises the shell text that means the same in sh, dash, bash, zsh, ksh and busybox: words, quotes, lists, pipelines, groups,
//! `if`, `while`, plain substitutions, plain redirections and quoted here-documents.
//!
//! One pass over the text with a stack of its own, so the time is linear and nothing recurses. All other text is an error, with
//! the reason: the caller must not guess what it runs.
use self::words::is_name_byte;

use super::Word;

mod words;

/// Longer texts are not read.
pub(super) const MAX_TEXT: usize = 64 << 10;
/// How deep groups and substitutions may nest.
const MAX_DEPTH: usize = 32;
/// How many commands a text may have.
const MAX_COMMANDS: usize = 1000;

/// A simple command.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    /// Variables are set for it.
    pub(super) assigns: bool,
    /// One of them can name a program that the command runs, or code.
    pub(super) sets_program: bool,
    pub(super) files: Vec<Redirection>,
}

/// The commands of a text, in the order in which they end, and its here-documents.
#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) simple: Vec<Simple>,
    pub(super) documents: Vec<String>,
}

/// A file that the shell opens.
#[derive(Debug)]
pub(super) struct Redirection {
    pub(super) writes: bool,
    pub(super) reads: bool,
    pub(super) target: Word,
}

/// Why a text was not recognised, for people.
pub(super) type Reason = String;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Text,
    Subshell,
    Braces,
    Condition,
    Then,
    Else,
    LoopCondition,
    LoopBody,
    Substitution,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A command has to come.
    Command,
    /// A command or the end of the group may come.
    CommandOrEnd,
    /// A simple command goes on.
    Words,
    /// A group was closed.
    AfterGroup,
}

/// A word that is being read.
#[derive(Default)]
struct Open {
    start: usize,
    value: String,
    /// Its value is known only to the shell.
    is_dynamic: bool,
    /// It has quotes, escapes or expansions.
    is_quoted: bool,
    is_continued: bool,
    in_double: bool,
    has_bracket: bool,
    braces: i32,
    has_brace: bool,
    /// The length of the value at the first `=` outside of quotes, if everything before it is outside of quotes, too.
    equals: Option<usize>,
}

struct Frame {
    group: Group,
    expect: Expect,
    /// The group has a command.
    is_filled: bool,
    /// The last operator was `|`, or `!` was read.
    in_pipeline: bool,
    /// A command has to follow a `!` on the same line.
    is_negated: bool,
    simple: Simple,
    word: Option<Open>,
    /// The kind of the redirection that the next word is for: it reads, it writes.
    redirection: Option<(bool, bool)>,
}

impl Frame {
    fn new(group: Group) -> Self {
        Self {
            group,
            expect: Expect::Command,
            is_filled: false,
            in_pipeline: false,
            is_negated: false,
            simple: Simple::default(),
            word: None,
            redirection: None,
        }
    }

    fn is_start(&self) -> bool {
        matches!(self.expect, Expect::Command | Expect::CommandOrEnd)
    }
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Frame>,
    found: Vec<Simple>,
    /// Here-documents that begin behind the line: the delimiter, and whether it has quotes.
    documents: Vec<(String, bool)>,
    read_documents: Vec<String>,
    substitutions: usize,
}

/// Returns the simple commands of a text.
///
/// # Errors
/// Why the text means different things in different shells, or is not known here.
pub(super) fn recognise(text: &str) -> Result<Commands, Reason> {
    if text.len() > MAX_TEXT {
        return Err(format!("it is longer than {} KiB", MAX_TEXT >> 10));
    }
    if let Some(c) = text.chars().find(|c| is_unusual(*c)) {
        return Err(format!("it has the character U+{:04X}", u32::from(c)));
    }
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        at: 0,
        stack: vec![Frame::new(Group::Text)],
        found: Vec::new(),
        documents: Vec::new(),
        read_documents: Vec::new(),
        substitutions: 0,
    };
    reader.read()?;
    Ok(Commands { simple: reader.found, documents: reader.read_documents })
}

/// Blanks and controls that shells treat differently, and characters that people cannot see.
fn is_unusual(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || (c.is_whitespace() && !c.is_ascii())
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffd}')
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn top(&mut self) -> &mut Frame {
        // The frame of the text is never removed.
        let last = self.stack.len() - 1;
        &mut self.stack[last]
    }

    fn read(&mut self) -> Result<(), Reason> {
        loop {
            if self.top().word.is_some() {
                self.word()?;
                continue;
            }
            let Some(byte) = self.peek(0) else { break };
            match byte {
                b' ' | b'\t' => self.at += 1,
                b'\\' if self.peek(1) == Some(b'\n') => self.continuation()?,
                b'\n' => self.newline()?,
                b'#' => self.comment()?,
                b';' => self.semicolon()?,
                b'&' => self.ampersand()?,
                b'|' => self.pipe()?,
                b'(' => self.open_subshell()?,
                b')' => self.close_parenthesis()?,
                b'<' | b'>' => self.redirect()?,
                _ => {
                    if self.top().expect == Expect::AfterGroup && self.top().redirection.is_none() {
                        if byte.is_ascii_digit() && matches!(self.peek(1), Some(b'<' | b'>')) {
                            self.at += 1;
                            continue;
                        }
                        return Err("a word follows a group".to_owned());
                    }
                    let start = self.at;
                    self.top().word = Some(Open { start, ..Open::default() });
                }
            }
        }
        if !self.documents.is_empty() {
            return Err("a here-document has no end".to_owned());
        }
        if self.stack.len() > 1 {
            return Err("a group or a substitution is not closed".to_owned());
        }
        self.end_list()
    }

    /// A `\` before a line end, which shells remove. Next to operators they differ.
    fn continuation(&mut self) -> Result<(), Reason> {
        let is_plain = |byte: Option<u8>| {
            byte.is_none_or(|byte| {
                matches!(byte, b' ' | b'\t' | b'/' | b'.' | b'-' | b'"' | b'\'') || is_name_byte(byte)
            })
        };
        let before = self.at.checked_sub(1).map(|at| self.bytes[at]);
        if !is_plain(before) || !is_plain(self.peek(2)) {
            return Err("a line is continued next to an operator".to_owned());
        }
        self.at += 2;
        Ok(())
    }

    fn comment(&mut self) -> Result<(), Reason> {
        let line = self.text[self.at..].split('\n').next().unwrap_or_default();
        let is_plain = |c: char| c.is_alphanumeric() || c == ' ' || "#.,:_/-+=%@".contains(c);
        if self.substitutions > 0
            || self.top().redirection.is_some()
            || !line.chars().all(is_plain)
            || line.contains(" -")
        {
            return Err("it has a comment that some shells read as words".to_owned());
        }
        self.at += line.len();
        Ok(())
    }

    fn newline(&mut self) -> Result<(), Reason> {
        self.end_command()?;
        let frame = self.top();
        if frame.is_negated {
            return Err("a line ends behind `!`".to_owned());
        }
        if frame.expect != Expect::Command {
            frame.expect = Expect::CommandOrEnd;
            frame.in_pipeline = false;
        }
        self.at += 1;
        for (delimiter, is_quoted) in std::mem::take(&mut self.documents) {
            let mut end = None;
            let mut at = self.at;
            for line in self.text[self.at..].split_inclusive('\n') {
                if line.trim_end_matches('\n') == delimiter {
                    end = Some((at, at + line.len()));
                    break;
                }
                at += line.len();
            }
            let (end, next) = end.ok_or("a here-document has no end")?;
            let document = &self.text[self.at..end];
            if !is_quoted && document.contains(['$', '`', '\\']) {
                return Err("a here-document has expansions".to_owned());
            }
            self.read_documents.push(document.to_owned());
            self.at = next;
        }
        Ok(())
    }

    /// Ends the simple command that is being read.
    fn end_command(&mut self) -> Result<(), Reason> {
        let frame = self.top();
        if frame.redirection.is_some() {
            return Err("a redirection has no file".to_owned());
        }
        if frame.expect != Expect::Words {
            return Ok(());
        }
        let simple = std::mem::take(&mut frame.simple);
        (frame.expect, frame.is_filled) = (Expect::AfterGroup, true);
        if simple.words.is_empty() {
            return Err(if simple.assigns {
                "it sets a variable, which can change what later commands do".to_owned()
            } else {
                "a redirection has no command".to_owned()
            });
        }
        if self.found.len() >= MAX_COMMANDS {
            return Err(format!("it has more than {MAX_COMMANDS} commands"));
        }
        self.found.push(simple);
        Ok(())
    }

    /// Ends the commands of a group.
    fn end_list(&mut self) -> Result<(), Reason> {
        self.end_command()?;
        let frame = self.top();
        if !frame.is_filled || frame.expect == Expect::Command {
            return Err("a command is missing".to_owned());
        }
        Ok(())
    }

    fn semicolon(&mut self) -> Result<(), Reason> {
        self.end_command()?;
        if self.top().expect != Expect::AfterGroup || matches!(self.peek(1), Some(b';' | b'&' | b'|')) {
            return Err("a command is missing before `;`".to_owned());
        }
        self.at += 1;
        let frame = self.top();
        (frame.expect, frame.in_pipeline) = (Expect::CommandOrEnd, false);
        Ok(())
    }

    fn ampersand(&mut self) -> Result<(), Reason> {
        self.end_command()?;
        if self.top().expect != Expect::AfterGroup {
            return Err("a command is missing before `&`".to_owned());
        }
        let expect = match self.peek(1) {
            Some(b'&') => Expect::Command,
            Some(c @ (b'>' | b'|' | b'!' | b';')) => {
                return Err(format!("`&{}` means different things in different shells", char::from(c)));
            }
            _ => Expect::CommandOrEnd,
        };
        self.at += if expect == Expect::Command { 2 } else { 1 };
        let frame = self.top();
        (frame.expect, frame.in_pipeline) = (expect, false);
        Ok(())
    }

    fn pipe(&mut self) -> Result<(), Reason> {
        self.end_command()?;
        if self.top().expect != Expect::AfterGroup {
            return Err("a command is missing before `|`".to_owned());
        }
        if self.peek(1) == Some(b'&') {
            return Err("`|&` means different things in different shells".to_owned());
        }
        let is_or = self.peek(1) == Some(b'|');
        self.at += if is_or { 2 } else { 1 };
        let frame = self.top();
        (frame.expect, frame.in_pipeline) = (Expect::Command, !is_or);
        Ok(())
    }

    fn push(&mut self, group: Group) -> Result<(), Reason> {
        if self.stack.len() >= MAX_DEPTH {
            return Err("it nests too deep".to_owned());
        }
        self.top().is_negated = false;
        self.stack.push(Frame::new(group));
        Ok(())
    }

    /// Removes a group that ended. The frame around it goes on behind it.
    fn pop(&mut self) {
        self.stack.pop();
        let frame = self.top();
        (frame.expect, frame.is_filled) = (Expect::AfterGroup, true);
    }

    fn open_subshell(&mut self) -> Result<(), Reason> {
        let frame = self.top();
        if !frame.is_start() || frame.redirection.is_some() {
            return Err("it has a parenthesis behind a word".to_owned());
        }
        if self.peek(1) == Some(b'(') {
            return Err("it has arithmetic".to_owned());
        }
        self.at += 1;
        self.push(Group::Subshell)
    }

    fn close_parenthesis(&mut self) -> Result<(), Reason> {
        self.end_list()?;
        match self.top().group {
            Group::Subshell => {
                self.at += 1;
                self.pop();
            }
            Group::Substitution => {
                self.at += 1;
                self.substitutions -= 1;
                // The word around it goes on.
                self.stack.pop();
            }
            _ => return Err("`)` has no `(`".to_owned()),
        }
        Ok(())
    }

    fn redirect(&mut self) -> Result<(), Reason> {
        if self.top().redirection.is_some() {
            return Err("a redirection has no file".to_owned());
        }
        let differs = |text: &str| Err(format!("`{text}` means different things in different shells"));
        let (first, next) = (self.bytes[self.at], self.peek(1));
        let (kind, length) = match (first, next) {
            (_, Some(b'(')) => return Err("it has a process substitution".to_owned()),
            (b'<', Some(b'<')) => return self.document(),
            (b'<' | b'>', Some(b'&')) => {
                let is_end = |byte: Option<u8>| byte.is_none_or(|byte| b" \t\n;&|)".contains(&byte));
                if !matches!(self.peek(2), Some(b'-' | b'0'..=b'9'))
                    || !is_end(self.peek(3))
                    || self.peek(3) == Some(b'&')
                {
                    return differs(if first == b'<' { "<&" } else { ">&" });
                }
                self.at += 3;
                return self.begin_words();
            }
            (b'<', Some(b'>')) => ((true, true), 2),
            (b'<', _) => ((true, false), 1),
            (_, Some(b'>' | b'|')) => ((false, true), 2),
            _ => ((false, true), 1),
        };
        self.at += length;
        match self.peek(0) {
            Some(b'!' | b'|' | b'>' | b'<' | b'&' | b'(') => return differs("a redirection such as `>!`"),
            // A glob for numbers in zsh.
            Some(b'0'..=b'9' | b'-') if first == b'<' && length == 1 => {
                let rest = self.bytes[self.at..].iter().find(|byte| !matches!(byte, b'0'..=b'9' | b'-'));
                if rest == Some(&b'>') {
                    return differs("<1-2>");
                }
            }
            _ => {}
        }
        self.begin_words()?;
        self.top().redirection = Some(kind);
        Ok(())
    }

    /// A simple command begins or goes on.
    fn begin_words(&mut self) -> Result<(), Reason> {
        let frame = self.top();
        frame.is_negated = false;
        if frame.is_start() {
            frame.expect = Expect::Words;
        }
        Ok(())
    }

    fn document(&mut self) -> Result<(), Reason> {
        if self.substitutions > 0
            || matches!(self.peek(2), Some(b'<' | b'-'))
            || self.top().expect == Expect::AfterGroup
        {
            return Err("it has a here-document that shells read differently".to_owned());
        }
        let rest = self.text[self.at + 2..].trim_start_matches([' ', '\t']);
        let start = self.text.len() - rest.len();
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let skipped = usize::from(quote.is_some());
        let length = rest.as_bytes()[skipped..].iter().take_while(|byte| is_name_byte(**byte)).count();
        let delimiter = &rest[skipped..skipped + length];
        let mut end = start + skipped + length;
        if let Some(quote) = quote {
            if self.bytes.get(end) != Some(&(quote as u8)) {
                return Err("the end of a here-document is unusual".to_owned());
            }
            end += 1;
        }
        let is_end = self.bytes.get(end).is_none_or(|byte| b" \t\n;&|)<>".contains(byte));
        if delimiter.is_empty() || !is_end {
            return Err("the end of a here-document is unusual".to_owned());
        }
        self.documents.push((delimiter.to_owned(), quote.is_some()));
        self.at = end;
        self.begin_words()
    }
}
