//! Checks regular expressions in the syntax of Python's module `re`, which kimi-cli uses for matchers. It accepts what
//! Python 3.12 and later accept. It also accepts what only Python's tables decide, such as the names of characters.

use std::collections::HashMap;

mod group;

/// The reason why Python would refuse a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) reason: String,
    /// The position in characters, from 0.
    pub(super) position: usize,
}

/// The number of characters that a part of a pattern can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Width {
    least: u64,
    most: u64,
}

/// Widths are only compared. Larger ones count as equal.
const WIDEST: u64 = 1 << 32;
/// How often a part may be repeated.
const MOST_REPEATS: u64 = u32::MAX as u64 - 1;

const NOTHING: Width = Width { least: 0, most: 0 };
const ONE: Width = Width { least: 1, most: 1 };

impl Width {
    fn then(self, next: Self) -> Self {
        Self { least: (self.least + next.least).min(WIDEST), most: (self.most + next.most).min(WIDEST) }
    }

    fn or(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    fn times(self, least: u64, most: u64) -> Self {
        let multiply = |width: u64, count: u64| width.saturating_mul(count).min(WIDEST);
        Self { least: multiply(self.least, least), most: multiply(self.most, most) }
    }
}

/// A group of the pattern.
#[derive(Clone, Copy)]
struct Group {
    /// `None` while it is open.
    width: Option<Width>,
}

struct Parser {
    text: Vec<char>,
    at: usize,
    groups: Vec<Group>,
    names: HashMap<String, usize>,
    verbose: bool,
    depth: usize,
    /// Groups from this one on belong to the current look-behind.
    look_behind: Option<usize>,
    /// References by number in conditions. They may point to later groups.
    conditions: Vec<(usize, usize)>,
    /// Whether a flag at the beginning makes the whole pattern verbose.
    turned_verbose: bool,
    /// Whether the pattern cannot be checked here, and so is accepted.
    gave_up: bool,
    /// Whether the current item of a set is a character by its name.
    by_name: bool,
}

type Parsed<T> = Result<T, Problem>;

/// Returns the reason why Python refuses this pattern.
pub(super) fn check(pattern: &str) -> Parsed<()> {
    // The flag for it is found during the parsing.
    let verbose = parse(pattern, false)?;
    if verbose { parse(pattern, true).map(drop) } else { Ok(()) }
}

/// Whether the pattern is verbose, which is known only after a first pass.
fn parse(pattern: &str, verbose: bool) -> Parsed<bool> {
    let mut parser = Parser {
        text: pattern.chars().collect(),
        at: 0,
        groups: vec![Group { width: None }],
        names: HashMap::new(),
        verbose,
        depth: 0,
        look_behind: None,
        conditions: Vec::new(),
        turned_verbose: false,
        gave_up: false,
        by_name: false,
    };
    let found = parser.alternatives(true);
    if parser.gave_up {
        return Ok(false);
    }
    if !verbose && parser.turned_verbose {
        return Ok(true);
    }
    found?;
    if parser.at < parser.text.len() {
        return Err(parser.problem("unbalanced parenthesis", parser.at));
    }
    for (group, position) in &parser.conditions {
        if *group >= parser.groups.len() {
            return Err(parser.problem(format!("invalid group reference {group}"), *position));
        }
    }
    Ok(false)
}

impl Parser {
    fn problem(&self, reason: impl Into<String>, position: usize) -> Problem {
        Problem { reason: reason.into(), position }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn takes(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn alternatives(&mut self, outermost: bool) -> Parsed<Width> {
        let mut width = self.sequence(outermost)?;
        while self.takes('|') {
            width = width.or(self.sequence(false)?);
        }
        Ok(width)
    }

    fn sequence(&mut self, mut at_start: bool) -> Parsed<Width> {
        let mut width = NOTHING;
        // The item to which a repetition would apply.
        let mut last: Option<(Width, bool)> = None;
        while let Some(char) = self.peek() {
            let start = self.at;
            if matches!(char, '|' | ')') {
                break;
            }
            self.at += 1;
            if self.verbose {
                if char.is_ascii_whitespace() || char == '\x0b' {
                    continue;
                }
                if char == '#' {
                    while self.peek().is_some_and(|char| char != '\n') {
                        self.at += 1;
                    }
                    self.takes('\n');
                    continue;
                }
            }
            let repeats = match char {
                '*' => Some((0, u64::MAX)),
                '+' => Some((1, u64::MAX)),
                '?' => Some((0, 1)),
                '{' => match self.braces(start)? {
                    Some(repeats) => Some(repeats),
                    None => {
                        width = width.then(ONE);
                        last = Some((ONE, false));
                        at_start = false;
                        continue;
                    }
                },
                _ => None,
            };
            if let Some((least, most)) = repeats {
                let Some((item, repeated)) = last else {
                    return Err(self.problem("nothing to repeat", start));
                };
                if repeated {
                    return Err(self.problem("multiple repeat", start));
                }
                // A lazy or possessive repetition.
                let _ = self.takes('?') || self.takes('+');
                // The width of the item has been counted once.
                let rest = item.times(least, most);
                width = Width {
                    least: (width.least - item.least.min(width.least) + rest.least).min(WIDEST),
                    most: (width.most - item.most.min(width.most) + rest.most).min(WIDEST),
                };
                last = Some((rest, true));
                continue;
            }
            let item = match char {
                '[' => {
                    self.set(start)?;
                    Some(ONE)
                }
                '.' => Some(ONE),
                '^' | '$' => {
                    last = None;
                    at_start = false;
                    // An anchor cannot be repeated, and it is not an item for a later `*` either.
                    continue;
                }
                '(' => {
                    let before = self.at;
                    match self.group(start, at_start)? {
                        Some(width) => Some(width),
                        None => {
                            // A comment, or flags for the whole pattern, which cannot be repeated.
                            debug_assert!(self.at > before);
                            continue;
                        }
                    }
                }
                '\\' => self.escape(start)?,
                _ => Some(ONE),
            };
            at_start = false;
            match item {
                Some(item) => {
                    width = width.then(item);
                    last = Some((item, false));
                }
                None => last = None,
            }
        }
        Ok(width)
    }

    /// Reads the content of braces that are a repetition. `None`: the brace is a character.
    fn braces(&mut self, start: usize) -> Parsed<Option<(u64, u64)>> {
        if self.peek() == Some('}') {
            return Ok(None);
        }
        let least = self.digits();
        let most = if self.takes(',') { self.digits() } else { least.clone() };
        if !self.takes('}') {
            self.at = start + 1;
            return Ok(None);
        }
        let count = |text: &str, absent: u64| match text {
            "" => Ok(absent),
            text => match text.parse::<u64>() {
                Ok(count) if count <= MOST_REPEATS => Ok(count),
                _ => Err(self.problem("the repetition number is too large", start)),
            },
        };
        let (low, high) = (count(&least, 0)?, count(&most, u64::MAX)?);
        if high < low {
            return Err(self.problem("min repeat greater than max repeat", start + 1));
        }
        Ok(Some((low, high)))
    }

    fn digits(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|char| char.is_ascii_digit()) {
            self.at += 1;
        }
        self.text[start..self.at].iter().collect()
    }

    fn set(&mut self, start: usize) -> Parsed<()> {
        self.takes('^');
        let first = self.at;
        loop {
            let from = self.at;
            let Some(char) = self.peek() else {
                return Err(self.problem("unterminated character set", start));
            };
            self.at += 1;
            if char == ']' && from != first {
                return Ok(());
            }
            self.by_name = false;
            let low = if char == '\\' { self.set_escape(from)? } else { Some(u32::from(char)) };
            if self.peek() != Some('-') {
                continue;
            }
            self.at += 1;
            let to = self.at;
            let Some(end) = self.peek() else {
                return Err(self.problem("unterminated character set", start));
            };
            self.at += 1;
            if end == ']' {
                return Ok(());
            }
            let high = if end == '\\' { self.set_escape(to)? } else { Some(u32::from(end)) };
            if low.is_none() || high.is_none() || low > high && !self.by_name {
                let shown: String = self.text[from..self.at].iter().collect();
                return Err(self.problem(format!("bad character range {shown}"), from));
            }
        }
    }

    /// Returns the character of an escape in a set. `None` for a class of characters.
    fn set_escape(&mut self, start: usize) -> Parsed<Option<u32>> {
        let Some(char) = self.peek() else {
            return Err(self.problem("bad escape (end of pattern)", start));
        };
        self.at += 1;
        match char {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Ok(None),
            'x' | 'u' | 'U' | 'N' => self.code(char, start),
            'a' => Ok(Some(0x07)),
            'b' => Ok(Some(0x08)),
            'f' => Ok(Some(0x0c)),
            'n' => Ok(Some(0x0a)),
            'r' => Ok(Some(0x0d)),
            't' => Ok(Some(0x09)),
            'v' => Ok(Some(0x0b)),
            '0'..='7' => self.octal(start),
            char if char.is_ascii_alphanumeric() => Err(self.problem(format!("bad escape \\{char}"), start)),
            char => Ok(Some(u32::from(char))),
        }
    }

    /// Reads up to three octal digits after a backslash. The first has been read.
    fn octal(&mut self, start: usize) -> Parsed<Option<u32>> {
        while self.at - start < 4 && self.peek().is_some_and(|char| ('0'..='7').contains(&char)) {
            self.at += 1;
        }
        let digits: String = self.text[start + 1..self.at].iter().collect();
        let code = u32::from_str_radix(&digits, 8).unwrap_or(u32::MAX);
        if code > 0o377 {
            return Err(self.problem(format!("octal escape value \\{digits} outside of range 0-0o377"), start));
        }
        Ok(Some(code))
    }

    /// Reads the character after `\x`, `\u`, `\U` or `\N`.
    fn code(&mut self, kind: char, start: usize) -> Parsed<Option<u32>> {
        if kind == 'N' {
            if !self.takes('{') {
                return Err(self.problem("missing {", self.at));
            }
            let from = self.at;
            while self.peek().is_some_and(|char| char != '}') {
                self.at += 1;
            }
            if self.at == from {
                return Err(self.problem("missing character name", from));
            }
            if !self.takes('}') {
                return Err(self.problem("missing }, unterminated name", from));
            }
            // The names of characters are not known here.
            self.by_name = true;
            return Ok(Some(0));
        }
        let length = match kind {
            'x' => 2,
            'u' => 4,
            _ => 8,
        };
        let from = self.at;
        while self.at - from < length && self.peek().is_some_and(|char| char.is_ascii_hexdigit()) {
            self.at += 1;
        }
        let digits: String = self.text[from..self.at].iter().collect();
        if digits.len() < length {
            return Err(self.problem(format!("incomplete escape \\{kind}{digits}"), start));
        }
        match u32::from_str_radix(&digits, 16) {
            Ok(code) if code <= 0x10_ffff => Ok(Some(code)),
            _ => Err(self.problem(format!("bad escape \\{kind}{digits}"), start)),
        }
    }

    /// Reads an escape outside of sets. `None` for an escape that stands for a position and cannot be repeated.
    fn escape(&mut self, start: usize) -> Parsed<Option<Width>> {
        let Some(char) = self.peek() else {
            return Err(self.problem("bad escape (end of pattern)", start));
        };
        self.at += 1;
        match char {
            'A' | 'b' | 'B' | 'Z' => Ok(None),
            'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' => Ok(Some(ONE)),
            'x' | 'u' | 'U' | 'N' => self.code(char, start).map(|_| Some(ONE)),
            '0' => self.octal_after_zero(),
            '1'..='9' => self.number(char, start).map(Some),
            char if char.is_ascii_alphabetic() => Err(self.problem(format!("bad escape \\{char}"), start)),
            _ => Ok(Some(ONE)),
        }
    }

    fn octal_after_zero(&mut self) -> Parsed<Option<Width>> {
        let start = self.at;
        while self.at - start < 2 && self.peek().is_some_and(|char| ('0'..='7').contains(&char)) {
            self.at += 1;
        }
        Ok(Some(ONE))
    }

    /// Reads a reference to a group, or three octal digits.
    fn number(&mut self, first: char, start: usize) -> Parsed<Width> {
        let mut digits = first.to_string();
        if let Some(second) = self.peek().filter(char::is_ascii_digit) {
            self.at += 1;
            digits.push(second);
            let octal = |char: char| ('0'..='7').contains(&char);
            if let Some(third) = self.peek().filter(|third| octal(first) && octal(second) && octal(*third)) {
                self.at += 1;
                digits.push(third);
                let code = u32::from_str_radix(&digits, 8).unwrap_or(u32::MAX);
                if code > 0o377 {
                    return Err(self.problem(format!("octal escape value \\{digits} outside of range 0-0o377"), start));
                }
                return Ok(ONE);
            }
        }
        let group: usize = digits.parse().unwrap_or(usize::MAX);
        if group >= self.groups.len() {
            return Err(self.problem(format!("invalid group reference {digits}"), start + 1));
        }
        self.reference(group, start)
    }

    fn reference(&self, group: usize, start: usize) -> Parsed<Width> {
        let Some(width) = self.groups[group].width else {
            return Err(self.problem("cannot refer to an open group", start));
        };
        if self.look_behind.is_some_and(|first| group >= first) {
            let reason = "cannot refer to group defined in the same lookbehind subpattern";
            return Err(self.problem(reason, self.at));
        }
        Ok(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: a pattern, and the error of Python 3.12 with its position if Python refuses it. Some errors have no position.
    const TABLE: &str = include_str!("pattern_table.json");

    type Row = (String, Option<(String, Option<usize>)>);

    #[test]
    fn patterns_are_validated_like_python() {
        let table: Vec<Row> = serde_json::from_str(TABLE).unwrap();
        assert!(table.len() > 200);
        for (pattern, expected) in table {
            let found = check(&pattern).err();
            let reason = |reason: &str| reason.replace('\'', "\"");
            let (found_reason, wanted) = (
                found.as_ref().map(|problem| reason(&problem.reason)),
                expected.as_ref().map(|(wanted, _)| reason(wanted)),
            );
            assert_eq!(found_reason, wanted, "{pattern:?}");
            let place = expected.and_then(|(_, place)| place);
            assert!(place.is_none() || place == found.map(|problem| problem.position), "{pattern:?}: {place:?}");
        }
    }

    #[test]
    fn unparsable_pattern_is_accepted() {
        assert_eq!(check(&"(".repeat(100_000)), Ok(()));
        assert_eq!(check("[a-\\N{A NAME THAT IS NOT KNOWN}]"), Ok(()));
    }
}
