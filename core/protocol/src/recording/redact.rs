//! The replacement of secrets and of the machine's directories in lines of a recording.

use std::borrow::Cow;
use std::fmt;

use regex_lite::Regex;

use super::keys;

/// Shorter secrets, such as `true` or `kimi`, are too common.
const SHORTEST: usize = 6;
/// The replacement for a secret.
pub const MASK: &str = "***";

/// A directory of the machine that a recording does not name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the placeholder: `work_dir`, `home` or `temp`.
    pub name: &'static str,
    /// The absolute path.
    pub path: String,
}

/// A literal begins with the byte.
const LITERAL: u8 = 1;
/// A key begins with the byte.
const KEY: u8 = 2;

struct Literal {
    text: Box<[u8]>,
    replacement: Box<str>,
    is_path: bool,
}

/// Replaces secrets and directories in lines of JSON.
pub struct Redactor {
    /// The longest first.
    literals: Vec<Literal>,
    /// Whether something begins with this byte: [`LITERAL`], [`KEY`], or both.
    begins: [u8; 256],
    patterns: Vec<Regex>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} literals, {} patterns)", self.literals.len(), self.patterns.len())
    }
}

impl Redactor {
    /// Makes a redactor for these directories, these values that are secret, and these regular expressions.
    ///
    /// # Errors
    /// Returns the index of a pattern that is not a regular expression, and the problem.
    pub fn new<'a>(
        places: &[Place],
        secrets: impl IntoIterator<Item = Cow<'a, str>>,
        patterns: &[String],
    ) -> Result<Self, (usize, String)> {
        let compile = |(at, pattern): (usize, &String)| Regex::new(pattern).map_err(|error| (at, error.to_string()));
        let patterns = patterns.iter().enumerate().map(compile).collect::<Result<_, _>>()?;
        Ok(Self::made(places, secrets, patterns))
    }

    /// Makes a redactor for these directories, and for texts that look like keys.
    pub fn of_places(places: &[Place]) -> Self {
        Self::made(places, [], Vec::new())
    }

    fn made<'a>(places: &[Place], secrets: impl IntoIterator<Item = Cow<'a, str>>, patterns: Vec<Regex>) -> Self {
        let mut redactor = Self { literals: Vec::new(), begins: [0; 256], patterns };
        // Directories first: one that is a secret, too, such as a value of `env`, becomes a placeholder.
        for Place { name, path } in places {
            redactor.add_place(name, path);
        }
        for secret in secrets {
            if secret.len() >= SHORTEST {
                redactor.add(&secret, MASK, false);
            }
        }
        redactor.literals.sort_by_key(|literal| std::cmp::Reverse(literal.text.len()));
        for first in redactor.literals.iter().filter_map(|literal| literal.text.first()) {
            redactor.begins[usize::from(*first)] |= LITERAL;
        }
        for first in keys::first_bytes() {
            redactor.begins[usize::from(first)] |= KEY;
        }
        redactor
    }

    fn add_place(&mut self, name: &str, path: &str) {
        let path = path.trim_end_matches(['/', '\\']);
        if path.len() < 2 {
            return;
        }
        let placeholder = format!("{{{{{name}}}}}");
        self.add(path, &placeholder, true);
        if path.contains('\\') {
            self.add(&path.replace('\\', "/"), &placeholder, true);
        }
        let slug = slug(path);
        if slug.matches('-').count() >= 2 {
            self.add(&slug, &format!("{{{{{name}:slug}}}}"), true);
        }
    }

    /// Adds a text in the ways in which JSON spells it: also as text in a text, and with escapes for what is not ASCII.
    fn add(&mut self, text: &str, replacement: &str, is_path: bool) {
        let once = escaped(text);
        let mut forms = vec![text.to_owned(), escaped(&once), escaped_ascii(&once), once];
        forms.sort();
        forms.dedup();
        for form in forms {
            let (text, replacement) = (form.into_bytes().into(), replacement.into());
            self.literals.push(Literal { text, replacement, is_path });
        }
    }

    /// Returns a line with the secrets and directories replaced. Only text changes in a line of JSON, so that it stays
    /// JSON.
    pub fn redacted<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.may_match(line) {
            return Cow::Borrowed(line);
        }
        if !line.trim_ascii_start().starts_with(b"{") && !line.trim_ascii_start().starts_with(b"[") {
            return self.text(line);
        }
        let mut out = Vec::new();
        let (mut copied, mut rest) = (0, 0);
        while let Some(open) = memchr::memchr(b'"', &line[rest..]) {
            self.numbers(line, rest..rest + open, &mut copied, &mut out);
            let start = rest + open + 1;
            let end = end_of_text(line, start);
            if let Cow::Owned(replaced) = self.text(&line[start..end]) {
                out.extend_from_slice(&line[copied..start]);
                out.extend_from_slice(&replaced);
                copied = end;
            }
            rest = (end + 1).min(line.len());
        }
        self.numbers(line, rest..line.len(), &mut copied, &mut out);
        if copied == 0 {
            return Cow::Borrowed(line);
        }
        out.extend_from_slice(&line[copied..]);
        Cow::Owned(out)
    }

    /// Returns whether something may have to be replaced: `false` for most lines, in one pass.
    fn may_match(&self, line: &[u8]) -> bool {
        let begins_something = |(at, byte): (usize, &u8)| {
            let begins = self.begins[usize::from(*byte)];
            begins & LITERAL != 0 && self.literals.iter().any(|literal| line[at..].starts_with(&literal.text))
                || begins & KEY != 0 && keys::find(before(line, at), &line[at..]).is_some()
        };
        !self.patterns.is_empty() || line.iter().enumerate().any(begins_something)
    }

    /// Replaces numbers that are secrets by texts.
    fn numbers(&self, line: &[u8], range: std::ops::Range<usize>, copied: &mut usize, out: &mut Vec<u8>) {
        let is_of_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
        let mut at = range.start;
        while let Some(start) = line[at..range.end].iter().position(u8::is_ascii_digit).map(|found| at + found) {
            let end =
                line[start..range.end].iter().position(|byte| !is_of_number(byte)).map_or(range.end, |n| start + n);
            if self.literals.iter().any(|literal| !literal.is_path && *literal.text == line[start..end]) {
                out.extend_from_slice(&line[*copied..start]);
                out.extend_from_slice(b"\"***\"");
                *copied = end;
            }
            at = end;
        }
    }

    /// Returns a text with the secrets and directories replaced.
    fn text<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(matched) = self.without_patterns(text) else { return self.without_literals(text) };
        match self.without_literals(matched.as_bytes()) {
            Cow::Borrowed(_) => Cow::Owned(matched.into_bytes()),
            Cow::Owned(replaced) => Cow::Owned(replaced),
        }
    }

    /// Returns `None` if no pattern matches.
    fn without_patterns(&self, text: &[u8]) -> Option<String> {
        let mut matched: Option<String> = None;
        for pattern in &self.patterns {
            let current = matched.as_deref().map_or_else(|| String::from_utf8_lossy(text), Cow::Borrowed);
            if let Cow::Owned(replaced) = pattern.replace_all(&current, regex_lite::NoExpand(MASK)) {
                matched = Some(replaced);
            }
        }
        matched
    }

    fn without_literals<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let mut out = Vec::new();
        let (mut copied, mut at) = (0, 0);
        while at < text.len() {
            if self.begins[usize::from(text[at])] != 0
                && let Some((range, replacement)) = self.match_at(text, at)
            {
                out.extend_from_slice(&text[copied..range.start]);
                out.extend_from_slice(replacement.as_bytes());
                copied = range.end;
                at = range.end;
            } else {
                at += 1;
            }
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.extend_from_slice(&text[copied..]);
        Cow::Owned(out)
    }

    fn match_at(&self, text: &[u8], at: usize) -> Option<(std::ops::Range<usize>, &str)> {
        let (before, rest) = (before(text, at), &text[at..]);
        let fits = |literal: &&Literal| {
            rest.starts_with(&literal.text)
                && (!literal.is_path || is_whole(before, &rest[literal.text.len()..], literal.text[0]))
        };
        if let Some(literal) = self.literals.iter().find(fits) {
            return Some((at..at + literal.text.len(), &literal.replacement));
        }
        let key = keys::find(before, rest).filter(|key| !key.is_empty())?;
        Some((at + key.start..at + key.end, MASK))
    }
}

/// Returns the byte in front of a place in a text of JSON, unless it is the end of an escape such as `\n`.
fn before(text: &[u8], at: usize) -> Option<u8> {
    let byte = text[at.checked_sub(1)?];
    let is_escape = at >= 2 && text[at - 2] == b'\\' && matches!(byte, b'b' | b'f' | b'n' | b'r' | b't');
    Some(byte).filter(|_| !is_escape)
}

/// Returns whether a path is not a part of a longer name, as `/home/u` is of `/home/user`.
fn is_whole(before: Option<u8>, after: &[u8], first: u8) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_slug = first == b'-';
    let begins = is_slug || before.is_none_or(|byte| !is_of_name(byte) && byte != b'.');
    let ends = match after {
        [b'.', next, ..] => !is_of_name(*next),
        [next, ..] => !is_of_name(*next) || is_slug && *next == b'-',
        [] => true,
    };
    begins && ends
}

/// Returns a path as agents put it into names of folders: each character but letters and digits is a `-`.
pub fn slug(path: &str) -> String {
    path.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect()
}

/// Returns the index of the quotation mark that ends a text, or the length of the line.
fn end_of_text(line: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', line.get(at..).unwrap_or_default()) {
        match line[at + found] {
            b'"' => return at + found,
            _ => at += found + 2,
        }
    }
    line.len()
}

fn escaped(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap_or_default();
    json.get(1..json.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// Escapes everything that is not ASCII, as Python does.
fn escaped_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii() {
            out.push(letter);
        } else {
            let mut units = [0; 2];
            letter.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}
