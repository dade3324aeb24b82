//! Words: quotes, escapes and expansions, and words that are reserved.

use super::{Expect, Group, Open, Reader, Reason, Redirection};
use crate::command::Word;

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

pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(is_name_byte)
}

impl Reader<'_> {
    /// Reads on in a word, until it ends or a substitution begins.
    pub(super) fn word(&mut self) -> Result<(), Reason> {
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
                frame.simple.sets_program |= crate::command::variables::is_program_variable(&word.value[..at]);
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
