//! The replacement of secrets and of the machine's directories in lines of a recording.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use regex_lite::Regex;
use serde::de::IgnoredAny;
use serde_json::Value;

use self::bounds::{before, end_of_escape, with_whole_escapes};
pub(super) use self::bounds::{end_of_text, escape_around, is_boundary};
use super::decoded::Decoded;
use super::escapes::{Level, plain};
use super::keys::{self, is_of_name};
use super::literals::{Kind, Literal, Literals};
use super::names::{
    FOLDER_PLACEHOLDER, KEPT_IN_URLS, LITERAL_PLACEHOLDER, SLASH, ascii_slug, drive_forms, folder_name, path_in_url,
    slug,
};
use super::pairs::Pairs;
use super::spellings::encoded;

mod bounds;

/// Shorter secrets, such as `true` or `kimi`, are too common.
pub(super) const SHORTEST: usize = 6;
/// Shorter beginnings of secrets are not replaced by themselves.
pub(super) const SHORTEST_PART: usize = 4;
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

/// The name of the placeholder for the working directory.
const WORK_DIR: &str = "work_dir";
/// The digits at the end of the names that Kimi Code gives the folders of a working directory.
const DIGEST_DIGITS: usize = 12;

/// Members whose values are words of the protocols: without them, a recording cannot be played.
const WORDS: &[&[u8]] = &[
    b"decision",
    b"kind",
    b"method",
    b"outcome",
    b"reason",
    b"response",
    b"role",
    b"sessionUpdate",
    b"state",
    b"status",
    b"stopReason",
    b"type",
];

/// Members with numbers of the protocols. These numbers stay, because reports of the agent contain limits of `config`, too.
const NUMBERS: &[&[u8]] = &[
    b"cachedReadTokens",
    b"cachedWriteTokens",
    b"code",
    b"contextTokens",
    b"context_tokens",
    b"exitCode",
    b"exit_code",
    b"id",
    b"inputCacheCreation",
    b"inputCacheRead",
    b"inputOther",
    b"inputTokens",
    b"input_cache_creation",
    b"input_cache_read",
    b"input_other",
    b"maxContextTokens",
    b"max_context_tokens",
    b"output",
    b"outputTokens",
    b"seq",
    b"size",
    b"thoughtTokens",
    b"totalTokens",
    b"used",
];

/// A literal or the name of a folder begins with the byte.
const LITERAL: u8 = 1;
/// A key begins with the byte.
const KEY: u8 = 2;

/// A place in a text where something is replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Match<'a> {
    /// The offset of the text that identifies the match, for example of the word `Bearer` in front of a token.
    pub(super) begin: usize,
    pub(super) range: Range<usize>,
    pub(super) replacement: &'a str,
}

/// The places in a text where something is replaced, and what the end of the text may be the beginning of.
#[derive(Debug, Default)]
pub(super) struct Scan<'a> {
    pub(super) matches: Vec<Match<'a>>,
    /// The beginning of something that more text can complete or extend.
    pub(super) growing: Option<usize>,
    /// The same, for secrets only.
    pub(super) growing_secret: Option<usize>,
    /// The beginning of a part of a secret that is long enough to be replaced by itself.
    pub(super) partial: Option<usize>,
}

/// Replaces secrets and directories in lines of JSON.
pub struct Redactor {
    literals: Literals,
    decoded: Decoded,
    /// Whether something begins with this byte: [`LITERAL`], [`KEY`], or both.
    begins: [u8; 256],
    pairs: Pairs,
    /// The beginnings of the names that Kimi Code gives the folders of the working directory.
    folder_names: Vec<Box<[u8]>>,
    patterns: Vec<Regex>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} literals, {} patterns)", self.literals.iter().len(), self.patterns.len())
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
        let mut redactor = Self {
            literals: Literals::default(),
            decoded: Decoded::default(),
            begins: [0; 256],
            pairs: Pairs::NONE,
            folder_names: Vec::new(),
            patterns,
        };
        // Directories first: one that is a secret, too, such as a value of `env`, becomes a placeholder.
        for Place { name, path } in places {
            redactor.add_place(name, path);
        }
        if !places.is_empty() {
            for name in places.iter().map(|place| place.name).chain(["literal"]) {
                let replacement = format!("{LITERAL_PLACEHOLDER}{name}");
                redactor.literals.add(&format!("{{{{{name}"), &replacement, Kind::Placeholder);
            }
        }
        for secret in secrets {
            if secret.len() >= SHORTEST {
                redactor.literals.add(&secret, MASK, Kind::Secret);
                redactor.decoded.add(&secret);
                encoded(&secret).iter().for_each(|form| redactor.literals.add(form, MASK, Kind::Secret));
            }
        }
        redactor.literals.sort();
        let texts = redactor.literals.iter().map(|literal| (&literal.text, literal.kind));
        for (text, kind) in texts.chain(redactor.folder_names.iter().map(|name| (name, Kind::Folder))) {
            if let Some(first) = text.first() {
                redactor.begins[usize::from(*first)] |= LITERAL;
            }
            match kind {
                Kind::Placeholder => redactor.pairs.add_whole(text),
                _ => redactor.pairs.add(text),
            }
        }
        for beginning in keys::beginnings() {
            redactor.begins[usize::from(beginning[0])] |= KEY;
            redactor.pairs.add(&beginning);
        }
        redactor
    }

    fn add_place(&mut self, name: &str, path: &str) {
        let path = path.trim_end_matches(['/', '\\']);
        if path.len() < 2 {
            return;
        }
        let placeholder = |form: &str| format!("{{{{{name}{form}}}}}");
        for (text, form) in drive_forms(path) {
            self.literals.add(&text, &placeholder(form), Kind::Path);
        }
        self.literals.add(path, &placeholder(""), Kind::Path);
        if path.contains('\\') {
            self.literals.add(&path.replace('\\', "/"), &placeholder(""), Kind::Path);
        }
        for encoded in [path_in_url(path, SLASH), path_in_url(path, KEPT_IN_URLS)] {
            if encoded.contains('%') {
                self.literals.add(&encoded, &placeholder(":url"), Kind::Path);
            }
        }
        let (slug, ascii) = (slug(path), ascii_slug(path));
        // `-tmp` is also an argument, and the end of other names.
        let kind = if slug.matches('-').count() >= 2 { Kind::Path } else { Kind::Folder };
        if ascii != slug {
            self.literals.add(&ascii, &placeholder(":ascii-slug"), kind);
        }
        self.literals.add(&slug, &placeholder(":slug"), kind);
        if name == WORK_DIR {
            self.folder_names.push(folder_name(path).into_bytes().into());
        }
    }

    /// Returns a line with the secrets and directories replaced. Only text changes in a line of JSON, so that it stays
    /// JSON.
    pub fn redacted<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        match self.readable(line) {
            Cow::Borrowed(line) => self.redacted_readable(line),
            Cow::Owned(line) => Cow::Owned(self.redacted_readable(&line).into_owned()),
        }
    }

    fn redacted_readable<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        if self.clean_from(line, 0, false).is_some() { Cow::Borrowed(line) } else { self.redacted_match(line) }
    }

    /// Returns the line without escapes that could hide a secret, and without secrets in another spelling. Text that only looks
    /// like an escape stays, unless a secret is in it.
    pub(super) fn readable<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        let line = match plain(line, Level::Line) {
            Cow::Borrowed(line) => self.decoded.masked(line, &self.literals),
            Cow::Owned(line) => Cow::Owned(self.decoded.masked(&line, &self.literals).into_owned()),
        };
        let Cow::Owned(deep) = plain(&line, Level::Text) else { return line };
        let masks = |line: &[u8]| memchr::memmem::find_iter(&self.redacted_readable(line), MASK).count();
        if masks(&deep) > masks(&line) { Cow::Owned(deep) } else { line }
    }

    /// Returns a value with the secrets and directories replaced, also in names and numbers.
    pub fn redacted_value(&self, value: &Value) -> Value {
        // Lines have a list or an object.
        let line = Value::from(vec![value.clone()]).to_string();
        match serde_json::from_slice::<[Value; 1]>(&self.redacted(line.as_bytes())) {
            Ok([value]) => value,
            Err(_) => MASK.into(),
        }
    }

    /// Does the same for a line in which something may match.
    pub(super) fn redacted_match<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        // A line of a log can begin like JSON.
        if serde_json::from_slice::<IgnoredAny>(line).is_err() {
            return self.replaced_in(line, false);
        }
        self.redacted_json(line)
    }

    /// Does the same for a value of JSON.
    pub(super) fn redacted_json<'a>(&self, value: &'a [u8]) -> Cow<'a, [u8]> {
        self.json(value, |range| self.text(&value[range]))
    }

    /// Returns a line of JSON with its texts as `text` has them, and with numbers that are secrets replaced. `text` gets
    /// the place of each text in the line, except of the words of the protocols.
    pub(super) fn json<'a>(
        &self,
        line: &'a [u8],
        mut text: impl FnMut(Range<usize>) -> Cow<'a, [u8]>,
    ) -> Cow<'a, [u8]> {
        let mut out = Vec::new();
        let (mut copied, mut rest) = (0, 0);
        let mut name: &[u8] = &[];
        while let Some(open) = memchr::memchr(b'"', &line[rest..]) {
            self.numbers(line, rest..rest + open, name, &mut copied, &mut out);
            // Between a name and its value is nothing else.
            let is_value = line[rest..rest + open].iter().all(|byte| matches!(byte, b':' | b' ' | b'\t'));
            let start = rest + open + 1;
            let end = end_of_text(line, start);
            let found = &line[start..end];
            let is_name = line[end..].iter().skip(1).find(|byte| !matches!(byte, b' ' | b'\t')) == Some(&b':');
            let is_word = is_plain_word(found) && (is_name || is_value && WORDS.contains(&name));
            name = if is_name { found } else { &[] };
            if !is_word && let Cow::Owned(replaced) = text(start..end) {
                out.extend_from_slice(&line[copied..start]);
                out.extend_from_slice(&replaced);
                copied = end;
            }
            rest = (end + 1).min(line.len());
        }
        self.numbers(line, rest..line.len(), name, &mut copied, &mut out);
        if copied == 0 {
            return Cow::Borrowed(line);
        }
        out.extend_from_slice(&line[copied..]);
        Cow::Owned(out)
    }

    /// Searches a line from `start` on. Returns `None` if something may have to be replaced, or may begin at the end of a
    /// text, which is rare. Otherwise it returns the first place where something could begin with other bytes behind it.
    pub(super) fn clean_from(&self, line: &[u8], start: usize, is_json: bool) -> Option<usize> {
        // A quotation mark ends the text, unless it is escaped.
        let begins = |text: &[u8], rest: &[u8]| {
            let same = text.iter().zip(rest).take_while(|(one, other)| one == other).count();
            let is_escaped = || text[..same].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
            same == text.len() || rest.get(same).is_none_or(|byte| *byte == b'"' && !is_escaped())
        };
        let mut first = line.len();
        let begins_something = |at: usize| {
            let (known, before) = (self.begins[usize::from(line[at])], before(line, at));
            if known & LITERAL == 0 && !keys::may_follow(before) {
                return false;
            }
            first = first.min(at);
            let rest = &line[at..];
            let is_beginning = known & LITERAL != 0
                && (self.literals.of(line[at]).iter().any(|literal| match literal.kind {
                    Kind::Placeholder => rest.starts_with(&literal.text),
                    _ => begins(&literal.text, rest),
                }) || self.folder_names.iter().any(|name| begins(name, rest)))
                || known & KEY != 0 && keys::may_begin(before, rest);
            is_beginning && !(is_json && escape_around(line, at).is_some())
        };
        let may_match = self.has_patterns() || self.pairs.any(line, start, begins_something);
        (!may_match).then_some(first)
    }

    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Replaces numbers that are secrets by texts. `name` is that of the member whose value begins with the range.
    fn numbers(&self, line: &[u8], range: Range<usize>, name: &[u8], copied: &mut usize, out: &mut Vec<u8>) {
        let is_value = |start: usize| line[range.start..start].iter().all(|byte| matches!(byte, b':' | b' ' | b'\t'));
        let is_of_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
        let mut at = range.start;
        while let Some(digit) = line[at..range.end].iter().position(u8::is_ascii_digit).map(|found| at + found) {
            let end =
                line[digit..range.end].iter().position(|byte| !is_of_number(byte)).map_or(range.end, |n| digit + n);
            let start = if line[at..digit].ends_with(b"-") { digit - 1 } else { digit };
            let is_number = |text: &[u8]| {
                let mut literals = self.literals.of(text[0]).iter();
                literals.any(|literal| literal.kind == Kind::Secret && *literal.text == *text)
            };
            let is_secret = is_number(&line[start..end]) || is_number(&line[digit..end]);
            if is_secret && !(is_value(start) && NUMBERS.contains(&name)) {
                out.extend_from_slice(&line[*copied..start]);
                out.extend_from_slice(b"\"***\"");
                *copied = end;
            }
            at = end;
        }
    }

    /// Returns a text of JSON with the secrets and directories replaced.
    pub(super) fn text<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.replaced_in(text, true)
    }

    fn replaced_in<'a>(&self, text: &'a [u8], is_json: bool) -> Cow<'a, [u8]> {
        // Patterns are for characters.
        let readable = match self.has_patterns().then(|| String::from_utf8_lossy(text)) {
            Some(Cow::Owned(readable)) => Cow::Owned(readable.into_bytes()),
            _ => Cow::Borrowed(text),
        };
        let matches = self.search(&readable, 0, None, is_json).matches;
        if matches.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(replaced(&readable, &matches)) }
    }

    /// Finds what is replaced in a text of JSON from `start` on. With the ends of the `pieces` that make a streamed text,
    /// finds also what its end may be the beginning of, except of a pattern. A path may end with a piece: the next one
    /// can be the beginning of another text.
    pub(super) fn scan<'a>(&'a self, text: &[u8], start: usize, pieces: Option<&[usize]>) -> Scan<'a> {
        self.search(text, start, pieces, true)
    }

    fn search<'a>(&'a self, text: &[u8], start: usize, pieces: Option<&[usize]>, is_json: bool) -> Scan<'a> {
        let mut scan = Scan { matches: self.pattern_matches(text, start), ..Scan::default() };
        if is_json {
            scan.matches.iter_mut().for_each(|one| with_whole_escapes(one, text));
        }
        let has_patterns_matched = !scan.matches.is_empty();
        let mut at = start;
        // No match begins within an escape. To search for its beginning at each place would read many backslashes again.
        let mut escape_end = match escape_around(text, start) {
            Some(begin) if is_json => end_of_escape(text, begin),
            _ => start,
        };
        while at < text.len() {
            let is_in_escape = at < escape_end;
            if is_json && !is_in_escape && text[at] == b'\\' {
                escape_end = end_of_escape(text, at);
            }
            if is_in_escape || !self.pairs.may_be_at(text, at) {
                at += 1;
                continue;
            }
            let growth = pieces.and_then(|_| self.growth(before(text, at), &text[at..]));
            if let Some(growth) = &growth {
                scan.growing.get_or_insert(at);
                if growth.is_secret {
                    scan.growing_secret.get_or_insert(at);
                }
            }
            let ends = pieces.unwrap_or_default();
            if let Some((range, replacement)) = self.match_at(text, at, ends, is_json) {
                let found = Match { begin: at, range, replacement };
                at = self.push_with_earlier(&mut scan.matches, found, text, ends, is_json);
                escape_end = at;
                continue;
            }
            if let Some(part) = growth.and_then(|growth| growth.part) {
                scan.partial.get_or_insert(at + part);
            }
            at += 1;
        }
        if has_patterns_matched {
            scan.matches = united(scan.matches);
        }
        scan
    }

    /// Adds a match, after those between its beginning and its range, for example of the name in front of the password of
    /// a URL. Returns the end of the last one.
    fn push_with_earlier<'a>(
        &'a self,
        matches: &mut Vec<Match<'a>>,
        mut found: Match<'a>,
        text: &[u8],
        ends: &[usize],
        is_json: bool,
    ) -> usize {
        let mut at = found.begin + 1;
        while at < found.range.start {
            let may_match = self.pairs.may_be_at(text, at) && !(is_json && escape_around(text, at).is_some());
            match may_match.then(|| self.match_at(text, at, ends, is_json)).flatten() {
                Some((range, _)) if range.end > found.range.start => {
                    found.range = range.start..range.end.max(found.range.end);
                    break;
                }
                Some((range, replacement)) => {
                    let begin = std::mem::replace(&mut at, range.end);
                    matches.push(Match { begin, range, replacement });
                }
                None => at += 1,
            }
        }
        let end = found.range.end;
        matches.push(found);
        end
    }

    fn pattern_matches<'a>(&'a self, text: &[u8], start: usize) -> Vec<Match<'a>> {
        let start = (start..text.len()).find(|at| is_boundary(text, *at)).unwrap_or(text.len());
        let Ok(text) = std::str::from_utf8(&text[start..]) else { return Vec::new() };
        let found = self.patterns.iter().flat_map(|pattern| pattern.find_iter(text)).filter(|found| !found.is_empty());
        let matched = |found: regex_lite::Match<'_>| {
            let range = start + found.start()..start + found.end();
            Match { begin: range.start, range, replacement: MASK }
        };
        found.map(matched).collect()
    }

    fn match_at(&self, text: &[u8], at: usize, ends: &[usize], is_json: bool) -> Option<(Range<usize>, &str)> {
        let (before, rest) = (before(text, at), &text[at..]);
        let fits = |literal: &&Literal| {
            let end = literal.text.len();
            rest.starts_with(&literal.text)
                && literal.may_follow(before)
                && (literal.may_end(&rest[end..]) || ends.binary_search(&(at + end)).is_ok())
                && !(is_json && escape_around(text, at + end).is_some())
        };
        let key = keys::find(before, rest).filter(|key| !key.is_empty());
        if let Some(literal) = self.literals.of(text[at]).iter().find(fits) {
            let length = literal.text.len();
            // The secret can be the beginning of a key.
            let longer = key.filter(|key| key.end > length);
            return Some(longer.map_or((at..at + length, &literal.replacement), |key| (at..at + key.end, MASK)));
        }
        if let Some(name) = self.folder_names.iter().find(|name| rest.starts_with(name))
            && !before.is_some_and(is_of_name)
            && digits(&rest[name.len()..]) == DIGEST_DIGITS
        {
            return Some((at..at + name.len() + DIGEST_DIGITS, FOLDER_PLACEHOLDER));
        }
        key.map(|key| (at + key.start..at + key.end, MASK))
    }

    /// Returns what a text is the beginning of. More text can complete it, extend it, or show that it is something else.
    fn growth(&self, before: Option<u8>, text: &[u8]) -> Option<Growth> {
        if let Some(key) = keys::growing(before, text) {
            return Some(Growth { is_secret: true, part: key });
        }
        let is_of_secret = |literal: &Literal| {
            literal.kind == Kind::Secret && text.len() < literal.text.len() && literal.text.starts_with(text)
        };
        let literals = text.first().map_or(&[][..], |first| self.literals.of(*first));
        if literals.iter().any(is_of_secret) {
            return Some(Growth { is_secret: true, part: (text.len() >= SHORTEST_PART).then_some(0) });
        }
        let is_of_path = |literal: &Literal| {
            let whole = text.strip_suffix(b".").unwrap_or(text);
            !matches!(literal.kind, Kind::Secret | Kind::Placeholder)
                && (literal.text.starts_with(text) || *literal.text == *whole)
                && literal.may_follow(before)
        };
        let is_of_folder = |name: &[u8]| {
            name.starts_with(text)
                || text.strip_prefix(name).is_some_and(|rest| rest.len() <= DIGEST_DIGITS && digits(rest) == rest.len())
        };
        let is_place = literals.iter().any(is_of_path) || self.folder_names.iter().any(|name| is_of_folder(name));
        is_place.then_some(Growth { is_secret: false, part: None })
    }
}

/// The end of a text, which may be the beginning of something.
struct Growth {
    is_secret: bool,
    /// The offset of a part of the secret that is long enough to be replaced by itself.
    part: Option<usize>,
}

/// Makes one match of matches that overlap.
fn united(mut matches: Vec<Match<'_>>) -> Vec<Match<'_>> {
    matches.sort_by_key(|one| one.range.start);
    let mut all: Vec<Match<'_>> = Vec::with_capacity(matches.len());
    for one in matches {
        match all.last_mut().filter(|last| one.range.start < last.range.end) {
            Some(last) => {
                last.begin = last.begin.min(one.begin);
                last.range.end = last.range.end.max(one.range.end);
                last.replacement = MASK;
            }
            None => all.push(one),
        }
    }
    all
}

/// Returns a text with these places replaced.
fn replaced(text: &[u8], matches: &[Match<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut copied = 0;
    for Match { range, replacement, .. } in matches {
        out.extend_from_slice(&text[copied..range.start]);
        out.extend_from_slice(replacement.as_bytes());
        copied = range.end;
    }
    out.extend_from_slice(&text[copied..]);
    out
}

/// Returns whether a text is like the names of members and methods.
fn is_plain_word(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'/' | b'$'))
}

/// Returns the number of hexadecimal digits at the beginning of a text.
fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count()
}
