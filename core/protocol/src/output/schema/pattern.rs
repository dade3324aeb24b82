//! Regular expressions of schemas, in the notation of ECMA-262. They are translated for `regex-lite`. An expression that has no
//! translation is refused, because it must not mean something else.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use regex_lite::{Regex, RegexBuilder};

/// The white space of ECMA-262, as ranges of a class.
const SPACE: &str = r"\x{9}-\x{d}\x{20}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";
/// All other characters.
const NO_SPACE: &str = r"\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}";
/// The characters that end lines, which the point does not match.
const NO_LINE_END: &str = r"[^\n\r\x{2028}\x{2029}]";
const ANY: &str = r"[\x{0}-\x{10ffff}]";
const NOTHING: &str = r"[^\x{0}-\x{10ffff}]";

const LOOK_AROUND: &str = "look-around, including look-ahead and look-behind, is not supported";

/// The smallest size of a compiled expression that is distinguished, in bytes.
const SMALL: usize = 4 << 10;
/// The largest size of a compiled expression, in bytes.
const LARGE: usize = 4 << 20;

/// A compiled expression.
pub(super) struct Pattern {
    /// Nothing if the validator does not read the expression, and leaves it to the program.
    regex: Option<Regex>,
    pub(super) source: String,
    /// The work for each byte of a text.
    pub(super) weight: usize,
}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Returns the reason if it is wrong, or has no translation.
    pub(super) fn new(source: &str) -> Result<Self, String> {
        let translated = translate(source)?;
        let mut size = SMALL;
        loop {
            match RegexBuilder::new(&translated).size_limit(size).build() {
                Ok(regex) => {
                    return Ok(Self { regex: Some(regex), source: source.to_owned(), weight: size / SMALL });
                }
                Err(_) if size < LARGE => size *= 4,
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    pub(super) fn unread() -> Self {
        Self { regex: None, source: String::new(), weight: 1 }
    }

    /// Returns whether a text matches; nothing if the program has to check this.
    pub(super) fn matches(&self, text: &str) -> Option<bool> {
        self.regex.as_ref().map(|regex| regex.is_match(text))
    }
}

/// An escape sequence, or a character of a class.
enum Item {
    Character(char),
    /// The content of a class.
    Class(&'static str),
    /// Something for `regex-lite`, outside of classes.
    Other(&'static str),
}

struct Translator<'s> {
    rest: Peekable<Chars<'s>>,
    out: String,
    ignores_case: bool,
    is_ascii: bool,
}

fn translate(source: &str) -> Result<String, String> {
    let mut translator =
        Translator { rest: source.chars().peekable(), out: String::new(), ignores_case: false, is_ascii: true };
    while let Some(next) = translator.rest.next() {
        translator.part(next)?;
    }
    if translator.ignores_case && !translator.is_ascii {
        return Err("ignoring the case is supported for ASCII only".to_owned());
    }
    Ok(translator.out)
}

impl Translator<'_> {
    fn part(&mut self, next: char) -> Result<(), String> {
        match next {
            '\\' => match self.escape(false)? {
                Item::Character(literal) => self.literal(literal),
                Item::Class(ranges) => write!(self.out, "[{ranges}]").unwrap_or_default(),
                Item::Other(text) => self.out.push_str(text),
            },
            '[' => self.class()?,
            '.' => self.out.push_str(NO_LINE_END),
            '(' => self.group()?,
            '*' | '+' | '?' => {
                self.out.push(next);
                self.end_repetition()?;
            }
            '{' => self.brace()?,
            '^' | '$' | '|' | ')' => self.out.push(next),
            literal => self.literal(literal),
        }
        Ok(())
    }

    fn literal(&mut self, literal: char) {
        self.is_ascii &= literal.is_ascii();
        if literal.is_ascii_alphanumeric() {
            self.out.push(literal);
        } else {
            write!(self.out, "\\x{{{:x}}}", u32::from(literal)).unwrap_or_default();
        }
    }

    fn follows(&self, text: &str) -> bool {
        let mut rest = self.rest.clone();
        text.chars().all(|own| rest.next() == Some(own))
    }

    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        if !self.follows("?") {
            return Ok(());
        }
        if ["?=", "?!", "?<=", "?<!"].into_iter().any(|look| self.follows(look)) {
            return Err(LOOK_AROUND.to_owned());
        }
        if self.follows("?i)") || self.follows("?i:") {
            self.ignores_case = true;
        } else if !["?:", "?<", "?P<"].into_iter().any(|known| self.follows(known)) {
            return Err("flags other than (?i) are not supported".to_owned());
        }
        // The question mark, the flag, and the name of a group mean the same.
        for next in self.rest.by_ref() {
            self.out.push(next);
            if [':', '>', ')'].contains(&next) {
                return Ok(());
            }
        }
        Err("a group has no end".to_owned())
    }

    /// Reads a brace, which is a repetition or a literal.
    fn brace(&mut self) -> Result<(), String> {
        let mut ahead = self.rest.clone();
        let is_inside = |next: &char| next.is_ascii_digit() || *next == ',';
        let body: String = std::iter::from_fn(|| ahead.next_if(is_inside)).collect();
        let (min, max) = body.split_once(',').unwrap_or((&body, ""));
        if ahead.next() != Some('}') || body.is_empty() || max.contains(',') {
            self.literal('{');
            return Ok(());
        }
        if min.is_empty() {
            return Err("a repetition without a minimum is not supported".to_owned());
        }
        write!(self.out, "{{{body}}}").unwrap_or_default();
        self.rest = ahead;
        self.end_repetition()
    }

    /// Reads the mark of a repetition that prefers the shorter match. A second repetition means nothing.
    fn end_repetition(&mut self) -> Result<(), String> {
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        if self.rest.peek().is_some_and(|next| ['*', '+', '?'].contains(next)) {
            return Err("a repetition of a repetition is not supported".to_owned());
        }
        Ok(())
    }

    fn class(&mut self) -> Result<(), String> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        if self.rest.next_if_eq(&']').is_some() {
            self.out.push_str(if is_negated { ANY } else { NOTHING });
            return Ok(());
        }
        self.out.push_str(if is_negated { "[^" } else { "[" });
        loop {
            match self.class_item()? {
                None => break,
                Some(Item::Character(first)) => self.range(first)?,
                Some(Item::Class(text) | Item::Other(text)) => self.out.push_str(text),
            }
        }
        self.out.push(']');
        Ok(())
    }

    /// Writes a character, or a range that begins with it.
    fn range(&mut self, first: char) -> Result<(), String> {
        self.literal(first);
        let is_range = self.follows("-") && !self.follows("-]");
        if !is_range {
            return Ok(());
        }
        self.rest.next();
        match self.class_item()? {
            Some(Item::Character(last)) => {
                self.out.push('-');
                self.literal(last);
            }
            Some(Item::Class(text) | Item::Other(text)) => {
                self.literal('-');
                self.out.push_str(text);
            }
            None => return Err("a character class has no end".to_owned()),
        }
        Ok(())
    }

    /// Reads the next item of a class; nothing at its end.
    fn class_item(&mut self) -> Result<Option<Item>, String> {
        match self.rest.next() {
            None => Err("a character class has no end".to_owned()),
            Some(']') => Ok(None),
            Some('\\') => self.escape(true).map(Some),
            Some(literal) => Ok(Some(Item::Character(literal))),
        }
    }

    fn escape(&mut self, is_in_class: bool) -> Result<Item, String> {
        let Some(next) = self.rest.next() else { return Err("an escape sequence has no end".to_owned()) };
        Ok(match next {
            'd' => Item::Class("0-9"),
            'D' => Item::Class(r"\x{0}-\x{2f}\x{3a}-\x{10ffff}"),
            'w' => Item::Class("0-9A-Za-z_"),
            'W' => Item::Class(r"\x{0}-\x{2f}\x{3a}-\x{40}\x{5b}-\x{5e}\x{60}\x{7b}-\x{10ffff}"),
            's' => Item::Class(SPACE),
            'S' => Item::Class(NO_SPACE),
            'f' => Item::Character('\x0c'),
            'n' => Item::Character('\n'),
            'r' => Item::Character('\r'),
            't' => Item::Character('\t'),
            'v' => Item::Character('\x0b'),
            'b' if is_in_class => Item::Character('\x08'),
            'b' if !self.follows("{") => Item::Other(r"\b"),
            'B' if !is_in_class && !self.follows("{") => Item::Other(r"\B"),
            '0' if !self.rest.peek().is_some_and(char::is_ascii_digit) => Item::Character('\0'),
            '0'..='9' | 'k' => return Err("backreferences are not supported".to_owned()),
            'p' | 'P' => return Err("Unicode character classes are not supported".to_owned()),
            'x' => Item::Character(self.hexadecimal(2).and_then(char::from_u32).ok_or("`\\x` needs two digits")?),
            'u' => Item::Character(self.unicode().ok_or("`\\u` needs four digits, or a character in braces")?),
            'c' => match self.rest.next() {
                Some(letter) if letter.is_ascii_alphabetic() => Item::Character(char::from(letter as u8 % 32)),
                _ => return Err("`\\c` needs a letter".to_owned()),
            },
            other if other.is_alphanumeric() || other == 'b' => {
                return Err(format!("the escape sequence `\\{other}` is not supported"));
            }
            literal => Item::Character(literal),
        })
    }

    fn hexadecimal(&mut self, length: usize) -> Option<u32> {
        (0..length).try_fold(0, |number, _| Some(number * 16 + self.rest.next()?.to_digit(16)?))
    }

    /// Reads a character after `\u`; two of them if they are a pair of UTF-16.
    fn unicode(&mut self) -> Option<char> {
        if self.rest.next_if_eq(&'{').is_some() {
            let digits: String = self.rest.by_ref().take_while(|&next| next != '}').collect();
            return u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
        }
        let first = self.hexadecimal(4)?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        self.rest.next_if_eq(&'\\')?;
        self.rest.next_if_eq(&'u')?;
        let second = u16::try_from(self.hexadecimal(4)?).ok()?;
        char::decode_utf16([first as u16, second]).next()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap_or_else(|reason| panic!("{pattern}: {reason}")).matches(text) == Some(true)
    }

    #[test]
    fn notation_of_ecma_is_translated() {
        for (pattern, yes, no) in [
            (r"^\d+$", "12", "١٢"),
            (r"^\w+$", "a_1", "é"),
            (r"^[^\W_]+$", "a1", "a_"),
            (r"^\s$", "\u{feff}", "\u{200b}"),
            (r"^\S+$", "a\u{200b}", "a\u{3000}"),
            (r"^[\S]$", "a", " "),
            (r"^[\s\S]$", "\n", ""),
            (r"^a\/b\-c\@d\_$", "a/b-c@d_", "a"),
            (r"^[a\-z]+$", "-", "b"),
            (r"^[\w-.]+$", "a-.", "+"),
            (r"^[+--]+$", "+,-", "."),
            (r"^[a&&b[~~]+$", "a&[~", "]"),
            (r"^\u00e9\x41\cJ\0$", "éA\n\0", "e"),
            (r"^\uD83D\uDE00$", "😀", "x"),
            (r"^\u{1F600}+$", "😀😀", "u"),
            (r"^[\u0400-\u04FF]+$", "ж", "z"),
            (r"^.$", "é", "\r"),
            (r"a$", "a", "a\n"),
            (r"^{a}]$", "{a}]", "a"),
            (r"^a{2}b{1,}c{0,1}?$", "aab", "ab"),
            (r"^(?<year>\d{4})-(?:0|1)$", "2020-1", "2020-2"),
            (r"^(?i)abc$", "aBC", "abd"),
            (r"^[^]$", "]", "ab"),
            (r"[]|x", "x", "y"),
            (r"^[\b]\b?$", "\x08", "b"),
            (r"^\$\.\*\+\?\(\)\[\]\{\}\|\\\^$", r"$.*+?()[]{}|\^", ""),
            (r"^#\s x$", "#\n x", "#"),
        ] {
            assert!(matches(pattern, yes) && !matches(pattern, no), "{pattern}");
        }
    }

    #[test]
    fn other_notation_is_refused() {
        for pattern in [
            "(?=a)",
            "(?!a)",
            "(?<=a)b",
            "(?<!a)b",
            r"(a)\1",
            r"\p{L}",
            r"\k<a>",
            r"\Aa\z",
            "(?m)^a",
            "(?s).",
            "(?x)a b",
            "a++",
            "a{,3}",
            "(",
            ")",
            "[a",
            "[b-a]",
            r"\",
            r"\u12",
            r"\ud800",
            r"\x4",
            r"\c1",
            r"\b{start}",
            "*",
            "a{3,2}",
            "(?i)é",
            "a{1000}{1000}",
            "(?<a",
        ] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
        assert!(Pattern::new(&"(".repeat(100_000)).is_err());
        assert!(Pattern::new(&"{1".repeat(5_000)).is_ok());
        assert!(Pattern::new("((a{1,1000}){1,1000}){1,1000}").is_err());
    }
}
