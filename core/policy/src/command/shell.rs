//! Recognises the shell text that means the same in sh, dash, bash, zsh, ksh and busybox: words, quotes, lists, pipelines, groups,
//! `if`, `while`, plain substitutions, plain redirections and quoted here-documents.
//!
//! One pass over the text with a stack of its own, so the time is linear and nothing recurses. All other text is an error, with
//! the reason: the caller must not guess what it runs.

use super::Word;

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

/// Words that mean something else than a command, at least in some shells.
const RESERVED: &[&str] = &[
    "if",
    "then",
    "elif",
    "else",
    "fi",
    "while",
    "until",
    "do",
    "done",
    "!",
    "{",
    "}",
    "for",
    "case",
    "esac",
    "select",
    "function",
    "coproc",
    "in",
    "[[",
    "]]",
    "repeat",
    "foreach",
    "end",
    "nocorrect",
    "noglob",
    "always",
    "namespace",
    "-",
    "time",
];

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

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(is_name_byte)
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

    /// Reads on in a word, until it ends or a substitution begins.
    fn word(&mut self) -> Result<(), Reason> {
        let Some(mut word) = self.top().word.take() else { return Ok(()) };
        loop {
            let Some(c) = self.text[self.at..].chars().next() else {
                if word.in_double {
                    return Err("a quote is not closed".to_owned());
                }
                return self.end_word(word);
            };
            let is_first = self.at == word.start;
            match c {
                '"' => {
                    word.in_double = !word.in_double;
                    word.is_quoted = true;
                    self.at += 1;
                }
                '`' => return Err("it has backquotes".to_owned()),
                '$' => {
                    word.is_quoted = true;
                    if self.dollar(&mut word)? {
                        self.top().word = Some(word);
                        self.substitutions += 1;
                        return self.push(Group::Substitution);
                    }
                }
                '\\' => {
                    if self.peek(1) == Some(b'\n') {
                        if word.in_double {
                            self.at += 2;
                        } else {
                            self.continuation()?;
                        }
                        word.is_continued = true;
                        continue;
                    }
                    let next = self.text[self.at + 1..].chars().next().ok_or("it ends with `\\`")?;
                    word.is_quoted = true;
                    if word.in_double && !matches!(next, '"' | '\\' | '$' | '`') {
                        word.value.push('\\');
                        // Interactive shells read `!` in quotes.
                        word.is_dynamic |= next == '!';
                    }
                    word.value.push(next);
                    self.at += 1 + next.len_utf8();
                }
                c if word.in_double => {
                    word.is_dynamic |= c == '!';
                    word.value.push(c);
                    self.at += c.len_utf8();
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | ')' => return self.end_word(word),
                '(' => return Err("it has a parenthesis inside of a word".to_owned()),
                '\'' => {
                    let rest = &self.text[self.at + 1..];
                    let end = rest.find('\'').ok_or("a quote is not closed")?;
                    if rest[..end].ends_with('\\') {
                        return Err("a quoted text ends with `\\`, which fish reads differently".to_owned());
                    }
                    word.value.push_str(&rest[..end]);
                    word.is_quoted = true;
                    self.at += end + 2;
                }
                c => {
                    let before = word.value.chars().next_back();
                    match c {
                        '*' | '?' => word.is_dynamic = true,
                        '[' | ']' => (word.is_dynamic, word.has_bracket) = (true, true),
                        '{' => (word.is_dynamic, word.has_brace, word.braces) = (true, true, word.braces + 1),
                        '}' => {
                            (word.is_dynamic, word.has_brace, word.braces) = (true, true, word.braces - 1);
                            if word.braces < 0 && !is_first {
                                return Err("it has a `}` inside of a word".to_owned());
                            }
                        }
                        '!' => {
                            let is_plain = is_first && matches!(self.peek(1), None | Some(b' ' | b'\t' | b'\n' | b'='));
                            word.is_dynamic |= !is_plain;
                        }
                        '~' if is_first || matches!(before, Some('=' | ':')) => word.is_dynamic = true,
                        '=' if is_first => {
                            word.is_dynamic |= self.peek(1).is_some_and(|byte| !b" \t\n;|&)".contains(&byte));
                            word.equals = word.equals.or(Some(0));
                        }
                        '=' if word.equals.is_none() => {
                            word.equals = Some(if word.is_quoted { 0 } else { word.value.len() });
                        }
                        '^' if is_first => word.is_dynamic = true,
                        _ => {}
                    }
                    word.value.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// Reads a variable, or says that a substitution begins.
    fn dollar(&mut self, word: &mut Open) -> Result<bool, Reason> {
        word.is_dynamic = true;
        let start = self.at;
        self.at += 1;
        match self.peek(0) {
            Some(b'(') => {
                if self.peek(1) == Some(b'(') {
                    return Err("it has arithmetic".to_owned());
                }
                self.at += 1;
                word.value.push_str("$(…)");
                return Ok(true);
            }
            Some(b'{') => {
                let rest = &self.text[self.at + 1..];
                let end = rest.bytes().take_while(|byte| is_name_byte(*byte)).count();
                if end == 0 || rest.as_bytes().get(end) != Some(&b'}') {
                    return Err("it has an expansion such as `${…}` that can do more than read a variable".to_owned());
                }
                self.at += end + 2;
            }
            Some(byte) if is_name_byte(byte) => {
                if byte.is_ascii_digit() {
                    self.at += 1;
                } else {
                    self.at += self.bytes[self.at..].iter().take_while(|byte| is_name_byte(**byte)).count();
                }
            }
            Some(b'?' | b'$' | b'#' | b'@' | b'*' | b'!' | b'-') => self.at += 1,
            Some(b'"' | b' ') if word.in_double => {}
            _ => return Err("it has a `$` that shells read differently".to_owned()),
        }
        if self.peek(0) == Some(b'[') {
            return Err("it has a subscript, which some shells evaluate".to_owned());
        }
        word.value.push_str(&self.text[start..self.at]);
        Ok(false)
    }

    fn end_word(&mut self, word: Open) -> Result<(), Reason> {
        let raw = &self.text[word.start..self.at];
        let next = self.peek(0);
        let is_before_redirection = matches!(next, Some(b'<' | b'>'));
        if is_before_redirection && self.top().redirection.is_none() {
            if raw.len() == 1 && raw.as_bytes()[0].is_ascii_digit() {
                // The number of a descriptor.
                return Ok(());
            }
            if raw.ends_with(|c: char| c.is_ascii_digit()) && raw.bytes().all(|byte| byte.is_ascii_digit())
                || raw.ends_with('}')
            {
                return Err("the descriptor of a redirection means different things in different shells".to_owned());
            }
        }
        if word.has_brace && word.braces != 0 && !matches!(raw, "{" | "}") {
            return Err("it has a brace inside of a word".to_owned());
        }
        let made = |word: Open| if word.is_dynamic { Word::Dynamic(word.value) } else { Word::Literal(word.value) };
        if let Some((reads, writes)) = self.top().redirection.take() {
            if matches!(raw, "{" | "}") {
                return Err("it has a brace inside of a word".to_owned());
            }
            let target = made(word);
            let redirection = Redirection { writes, reads, target };
            // Behind a group, a redirection is for the group: it is kept with the last command of it.
            let frame = self.top();
            if frame.expect == Expect::AfterGroup {
                if let Some(last) = self.found.last_mut() {
                    last.files.push(redirection);
                }
            } else {
                frame.simple.files.push(redirection);
            }
            return Ok(());
        }
        let is_plain = !word.is_quoted;
        let frame = self.top();
        if frame.is_start() && is_plain && (RESERVED.contains(&raw) && raw != "time") {
            let raw = raw.to_owned();
            return self.reserved(&raw);
        }
        let is_name_position = frame.simple.words.is_empty();
        if is_name_position {
            if word.is_continued {
                return Err("the name of a command is continued on another line".to_owned());
            }
            if is_plain && RESERVED.contains(&raw) && raw != "time" {
                return Err(format!("`{raw}` stands where shells read it differently"));
            }
            if let Some(at) = word.equals {
                if !is_name(&word.value[..at]) {
                    return Err("it may set a variable".to_owned());
                }
                frame.simple.assigns = true;
                frame.simple.sets_program |= super::variables::is_program_variable(&word.value[..at]);
                (frame.expect, frame.is_negated) = (Expect::Words, false);
                return Ok(());
            }
            if word.has_bracket && raw != "[" {
                return Err("the name of a command has a bracket".to_owned());
            }
            if is_plain && raw.starts_with(['%', '^', '=', '+', '@']) {
                return Err("the name of a command is unusual".to_owned());
            }
        } else {
            let is_time = matches!(&*frame.simple.words, [Word::Literal(name)] if name == "time");
            if is_time && is_plain && RESERVED.contains(&raw) {
                return Err("`time` is a part of the language in some shells".to_owned());
            }
            if matches!(raw, "{" | "}") {
                return Err("it has a brace behind a word".to_owned());
            }
        }
        (frame.expect, frame.is_negated) = (Expect::Words, false);
        let word = if matches!(raw, "[" | "]") { Word::Literal(raw.to_owned()) } else { made(word) };
        self.top().simple.words.push(word);
        Ok(())
    }

    /// A word of the language, where a command may begin.
    fn reserved(&mut self, raw: &str) -> Result<(), Reason> {
        let next = self.peek(0);
        let is_separate = next.is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\n'));
        let frame = self.top();
        let (group, is_filled, expect) = (frame.group, frame.is_filled, frame.expect);
        let wrong = || Err(format!("`{raw}` stands where it does not belong"));
        match raw {
            "!" => {
                if frame.in_pipeline || !is_separate {
                    return wrong();
                }
                (frame.in_pipeline, frame.is_negated, frame.expect) = (true, true, Expect::Command);
                return Ok(());
            }
            "for" | "case" | "select" | "function" | "coproc" | "[[" => return Err(format!("it has `{raw}`")),
            "{" if is_separate => return self.push(Group::Braces),
            "if" => return self.push(Group::Condition),
            "while" | "until" => return self.push(Group::LoopCondition),
            _ => {}
        }
        if !is_filled || expect != Expect::CommandOrEnd {
            return wrong();
        }
        let follows = match (raw, group) {
            ("then", Group::Condition) => Some(Group::Then),
            ("elif", Group::Then) => Some(Group::Condition),
            ("else", Group::Then) => Some(Group::Else),
            ("do", Group::LoopCondition) => Some(Group::LoopBody),
            ("fi", Group::Then | Group::Else) | ("done", Group::LoopBody) | ("}", Group::Braces) => None,
            _ => return wrong(),
        };
        match follows {
            Some(next) => {
                (frame.group, frame.expect, frame.is_filled) = (next, Expect::Command, false);
                frame.in_pipeline = false;
            }
            None => self.pop(),
        }
        Ok(())
    }
}
