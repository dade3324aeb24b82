//! Checks regular expressions in the syntax of Python's module `re`, which kimi-cli uses for matchers. It accepts what
//! Python 3.12 and later accept. It also accepts what only Python's tables decide, such as the names of characters.

use std::collections::HashMap;

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
/// A pattern with deeper groups is accepted unchecked, because Python's own limit depends on its stack.
const DEEPEST: usize = 200;

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

    /// Reads a group; its parenthesis has been read. `None` for a group that matches nothing and cannot be repeated.
    fn group(&mut self, start: usize, at_start: bool) -> Parsed<Option<Width>> {
        let mut captures = true;
        let mut name = None;
        let verbose = self.verbose;
        if self.takes('?') {
            let Some(char) = self.peek() else {
                return Err(self.problem("unexpected end of pattern", self.at));
            };
            self.at += 1;
            captures = false;
            match char {
                'P' => match self.peek() {
                    Some('<') => {
                        self.at += 1;
                        name = Some(self.name('>', start)?);
                        captures = true;
                    }
                    Some('=') => {
                        self.at += 1;
                        let from = self.at;
                        let name = self.name(')', start)?;
                        let Some(group) = self.names.get(&name).copied() else {
                            return Err(self.problem(format!("unknown group name {name:?}"), from));
                        };
                        return self.reference(group, from).map(Some);
                    }
                    Some(other) => {
                        return Err(self.problem(format!("unknown extension ?P{other}"), start + 1));
                    }
                    None => return Err(self.problem("unexpected end of pattern", self.at)),
                },
                ':' | '>' => {}
                '#' => {
                    while self.peek().is_some_and(|char| char != ')') {
                        self.at += 1;
                    }
                    if !self.takes(')') {
                        return Err(self.problem("missing ), unterminated comment", start));
                    }
                    return Ok(None);
                }
                '=' | '!' => {
                    self.inside(start)?;
                    return Ok(Some(NOTHING));
                }
                '<' => {
                    match self.peek() {
                        Some('=' | '!') => self.at += 1,
                        Some(other) => {
                            return Err(self.problem(format!("unknown extension ?<{other}"), start + 1));
                        }
                        None => return Err(self.problem("unexpected end of pattern", self.at)),
                    }
                    let outer = self.look_behind;
                    self.look_behind = outer.or(Some(self.groups.len()));
                    let width = self.inside(start)?;
                    self.look_behind = outer;
                    if width.least != width.most {
                        return Err(self.problem("look-behind requires fixed-width pattern", start));
                    }
                    return Ok(Some(NOTHING));
                }
                '(' => return self.condition(start).map(Some),
                char if char == '-' || "aiLmsux".contains(char) => {
                    if !self.flags(char, start, at_start)? {
                        return Ok(None);
                    }
                }
                other => return Err(self.problem(format!("unknown extension ?{other}"), start + 1)),
            }
        }
        let group = captures.then(|| {
            self.groups.push(Group { width: None });
            self.groups.len() - 1
        });
        if let (Some(name), Some(group)) = (name, group)
            && let Some(former) = self.names.insert(name.clone(), group)
        {
            let reason = format!("redefinition of group name {name:?} as group {group}; was group {former}");
            return Err(self.problem(reason, start + 4));
        }
        let width = self.inside(start)?;
        self.verbose = verbose;
        if let Some(group) = group {
            self.groups[group].width = Some(width);
        }
        Ok(Some(width))
    }

    /// Reads the content of a group, and its end.
    fn inside(&mut self, start: usize) -> Parsed<Width> {
        self.depth += 1;
        if self.depth > DEEPEST {
            self.gave_up = true;
            return Err(self.problem("groups nest too deeply", start));
        }
        let width = self.alternatives(false)?;
        self.depth -= 1;
        if !self.takes(')') {
            return Err(self.problem("missing ), unterminated subpattern", start));
        }
        Ok(width)
    }

    /// Reads a group's name, up to its end.
    fn name(&mut self, end: char, start: usize) -> Parsed<String> {
        let from = self.at;
        while self.peek().is_some_and(|char| char != end) {
            self.at += 1;
        }
        let name: String = self.text[from..self.at].iter().collect();
        if name.is_empty() {
            return Err(self.problem("missing group name", from));
        }
        if !self.takes(end) {
            return Err(self.problem(format!("missing {end}, unterminated name"), from));
        }
        let first = name.chars().next().unwrap_or_default();
        // Python's tables decide about other characters of a name: all non-ASCII characters are accepted.
        let fits = |char: char| char == '_' || char.is_ascii_alphanumeric() || !char.is_ascii();
        if first.is_ascii_digit() || !name.chars().all(fits) {
            return Err(self.problem(format!("bad character in group name {name:?}"), start + 4));
        }
        Ok(name)
    }

    /// Reads `(?(group)yes|no)`; the second parenthesis has been read.
    fn condition(&mut self, start: usize) -> Parsed<Width> {
        let from = self.at;
        while self.peek().is_some_and(|char| char != ')') {
            self.at += 1;
        }
        let name: String = self.text[from..self.at].iter().collect();
        if name.is_empty() {
            return Err(self.problem("missing group name", from));
        }
        if !self.takes(')') {
            return Err(self.problem("missing ), unterminated name", from));
        }
        if name.chars().all(|char| char.is_ascii_digit()) {
            match name.parse::<usize>() {
                Ok(0) => return Err(self.problem("bad group number", from)),
                Ok(group) => self.conditions.push((group, from)),
                Err(_) => return Err(self.problem(format!("invalid group reference {name}"), from)),
            }
        } else if !self.names.contains_key(&name) {
            return Err(self.problem(format!("unknown group name {name:?}"), from));
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            self.gave_up = true;
            return Err(self.problem("groups nest too deeply", start));
        }
        let mut width = self.sequence(false)?;
        width = if self.takes('|') { width.or(self.sequence(false)?) } else { width.or(NOTHING) };
        self.depth -= 1;
        if self.peek() == Some('|') {
            return Err(self.problem("conditional backref with more than two branches", self.at));
        }
        if !self.takes(')') {
            return Err(self.problem("missing ), unterminated subpattern", start));
        }
        Ok(width)
    }

    /// Reads flags. Returns whether they belong to a group; otherwise they apply to the whole pattern.
    fn flags(&mut self, first: char, start: usize, at_start: bool) -> Parsed<bool> {
        let mut char = first;
        let (mut seen, mut verbose) = (String::new(), self.verbose);
        if char != '-' {
            loop {
                if char == 'L' {
                    return Err(self.problem("bad inline flags: cannot use 'L' flag with a str pattern", self.at));
                }
                if matches!(char, 'a' | 'u') && seen.chars().any(|other| matches!(other, 'a' | 'u') && other != char) {
                    let reason = "bad inline flags: flags 'a', 'u' and 'L' are incompatible";
                    return Err(self.problem(reason, self.at));
                }
                seen.push(char);
                verbose |= char == 'x';
                char = self.next_flag("missing -, : or )")?;
                if matches!(char, ')' | '-' | ':') {
                    break;
                }
                if !"aiLmsux".contains(char) {
                    let reason = if char.is_alphabetic() { "unknown flag" } else { "missing -, : or )" };
                    return Err(self.problem(reason, self.at - 1));
                }
            }
        }
        if char == ')' {
            if !at_start {
                return Err(self.problem("global flags not at the start of the expression", start));
            }
            self.turned_verbose |= verbose;
            return Ok(false);
        }
        if char == '-' {
            char = self.next_flag("missing flag")?;
            if !"aiLmsux".contains(char) {
                let reason = if char.is_alphabetic() { "unknown flag" } else { "missing flag" };
                return Err(self.problem(reason, self.at - 1));
            }
            loop {
                if matches!(char, 'a' | 'u' | 'L') {
                    let reason = "bad inline flags: cannot turn off flags 'a', 'u' and 'L'";
                    return Err(self.problem(reason, self.at));
                }
                if seen.contains(char) {
                    return Err(self.problem("bad inline flags: flag turned on and off", self.at));
                }
                verbose &= char != 'x';
                char = self.next_flag("missing :")?;
                if char == ':' {
                    break;
                }
                if !"aiLmsux".contains(char) {
                    let reason = if char.is_alphabetic() { "unknown flag" } else { "missing :" };
                    return Err(self.problem(reason, self.at - 1));
                }
            }
        }
        self.verbose = verbose;
        Ok(true)
    }

    fn next_flag(&mut self, missing: &str) -> Parsed<char> {
        let Some(char) = self.peek() else { return Err(self.problem(missing, self.at)) };
        self.at += 1;
        Ok(char)
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
