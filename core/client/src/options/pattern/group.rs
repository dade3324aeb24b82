//! Groups of a pattern: their kinds, names, conditions and flags.

use super::{Group, NOTHING, Parsed, Parser, Width};

/// A pattern with deeper groups is accepted unchecked, because Python's own limit depends on its stack.
const DEEPEST: usize = 200;

impl Parser {
    /// Reads a group; its parenthesis has been read. `None` for a group that matches nothing and cannot be repeated.
    pub(super) fn group(&mut self, start: usize, at_start: bool) -> Parsed<Option<Width>> {
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
