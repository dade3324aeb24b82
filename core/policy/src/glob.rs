//! Whether two globs can match the same path, for searches whose targets are globs themselves.

use crate::work::Budget;

/// Longer globs are not compared.
const MAX_LENGTH: usize = 400;
/// How many globs the braces of one may make.
const MAX_ALTERNATIVES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    /// One character of a name.
    Any,
    /// Characters of a name.
    Star,
    /// Characters of a path.
    Deep,
    /// Folders: nothing, or characters before the `/` that follows.
    Folders,
}

/// Whether a text has signs of a glob.
pub(crate) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// The globs without braces that a glob stands for. Nothing, if they are too complex: then they may match any path.
#[derive(Clone, Debug)]
pub(crate) struct Globs {
    ends: (String, EndsAt),
    alternatives: Option<Vec<Alternative>>,
}

#[derive(Clone, Debug)]
struct Alternative {
    text: String,
    ends: EndsAt,
    tokens: Vec<Token>,
}

impl Alternative {
    fn may_overlap(&self, other: &Self, hides_dots: bool, budget: &Budget) -> bool {
        if self.text.contains(['*', '?', '[', ']', '{', '}', '\\']) {
            return overlap(&self.tokens, &other.tokens, hides_dots, budget);
        }
        budget.take(self.text.len() + other.text.len()).is_none() || fast_glob::glob_match(&other.text, &self.text)
    }
}

/// The work of a comparison at two places of globs.
const PLACE: usize = 40;
/// The work of a byte of a glob whose braces are expanded.
const EXPANDED: usize = 2;
/// The bytes of a table that are filled in one unit.
const FILLED: usize = 64;

impl Globs {
    pub(crate) fn new(glob: &str, budget: &Budget) -> Self {
        let new = |text: String| Alternative { ends: EndsAt::new(&text), tokens: tokens(&text), text };
        let alternatives = alternatives(glob.to_lowercase(), budget).map(|texts| texts.into_iter().map(new).collect());
        Self { ends: (glob.to_owned(), EndsAt::new(glob)), alternatives }
    }

    /// Whether a path exists that both globs, which are in lower case, match. With `hides_dots`, the wildcards of this one do not
    /// match a `.` at the beginning of a name. Too complex globs may match, and all do if the work is spent.
    pub(crate) fn may_overlap(&self, other: &Self, hides_dots: bool, budget: &Budget) -> bool {
        let ((own, own_ends), (their, their_ends)) = (&self.ends, &other.ends);
        if !own_ends.of(own).agree(their_ends.of(their)) {
            return false;
        }
        let (Some(own), Some(their)) = (&self.alternatives, &other.alternatives) else { return true };
        own.iter().any(|first| {
            their.iter().any(|second| {
                budget.take(1).is_none()
                    || (first.ends.of(&first.text).agree(second.ends.of(&second.text))
                        && first.may_overlap(second, hides_dots, budget))
            })
        })
    }
}

/// The texts of a glob before its first wildcard and behind its last one. Nothing, if not all of its letters are those of ASCII.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends<'a>(Option<(&'a str, &'a str)>);

/// The places of the ends of a glob.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndsAt(Option<(usize, usize)>);

impl EndsAt {
    pub(crate) fn new(glob: &str) -> Self {
        const WILD: [char; 8] = ['*', '?', '[', ']', '{', '}', ',', '\\'];
        if !glob.is_ascii() {
            return Self(None);
        }
        let start = glob.find(WILD).unwrap_or(glob.len());
        let end = match glob.rfind(WILD) {
            // `**/` stands for nothing, too.
            Some(at) if glob[at + 1..].starts_with('/') => at + 2,
            Some(at) => at + 1,
            None => 0,
        };
        Self(Some((start, end)))
    }

    /// The ends of the glob that they were made for.
    pub(crate) fn of(self, glob: &str) -> Ends<'_> {
        Ends(self.0.map(|(start, end)| (&glob[..start], &glob[end..])))
    }
}

impl<'a> Ends<'a> {
    pub(crate) fn of(glob: &'a str) -> Self {
        EndsAt::new(glob).of(glob)
    }

    /// The text before the first wildcard alone.
    pub(crate) fn beginning(self) -> Self {
        Self(self.0.map(|(start, _)| (start, "")))
    }

    /// The folder that every path is in, without the last `/`.
    pub(crate) fn folder(self) -> Option<&'a str> {
        self.0
            .and_then(|(start, _)| start.rsplit_once('/'))
            .map(|(folder, _)| folder)
            .filter(|folder| !folder.is_empty())
    }

    /// Whether the texts, which are in lower case, can belong to one path.
    pub(crate) fn agree(self, other: Ends<'_>) -> bool {
        let (Some((a, c)), Some((b, d))) = (self.0, other.0) else { return true };
        let (a, b, c, d) = (a.as_bytes(), b.as_bytes(), c.as_bytes(), d.as_bytes());
        let (shorter, tail) = (a.len().min(b.len()), c.len().min(d.len()));
        a[..shorter] == b[..shorter] && c[c.len() - tail..] == d[d.len() - tail..]
    }
}

/// The words that a shell makes of the braces in one. `None` if these are more than are looked at.
pub(crate) fn braced_words(word: &str) -> Option<Vec<String>> {
    /// The limit of work for one word.
    const MAX_BRACES: usize = 16 << 10;
    alternatives(word.to_owned(), &Budget::new(MAX_BRACES))
}

/// The globs that the braces of a glob stand for.
pub(crate) fn alternatives(glob: String, budget: &Budget) -> Option<Vec<String>> {
    let mut open = vec![glob];
    let mut done = Vec::new();
    while let Some(text) = open.pop() {
        if text.len() > MAX_LENGTH || open.len() + done.len() > MAX_ALTERNATIVES {
            return None;
        }
        // The first closing brace and the last opening one before it have no braces in between.
        let Some(end) = text.find('}') else {
            done.push(text);
            continue;
        };
        let start = text[..end].rfind('{')?;
        for choice in text[start + 1..end].split(',') {
            budget.take(EXPANDED * (8 + text.len()))?;
            open.push(format!("{}{choice}{}", &text[..start], &text[end + 1..]));
        }
    }
    Some(done)
}

fn tokens(glob: &str) -> Vec<Token> {
    let chars: Vec<char> = glob.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        at += 1;
        match c {
            '*' if chars.get(at) == Some(&'*') => {
                while chars.get(at) == Some(&'*') {
                    at += 1;
                }
                tokens.push(if chars.get(at) == Some(&'/') { Token::Folders } else { Token::Deep });
            }
            '*' => tokens.push(Token::Star),
            '?' => tokens.push(Token::Any),
            '[' => match chars[at..].iter().skip(1).position(|c| *c == ']') {
                Some(length) => {
                    at += length + 2;
                    tokens.push(Token::Any);
                }
                None => tokens.push(Token::Char('[')),
            },
            '\\' => {
                tokens.push(Token::Char(chars.get(at).copied().unwrap_or('\\')));
                at += 1;
            }
            c => tokens.push(Token::Char(*c)),
        }
    }
    tokens
}

/// The places behind which a token can go on after a character. `None` stands for any character but `/` and `.`.
fn steps(tokens: &[Token], at: usize, c: Option<char>, is_hidden: bool) -> Option<usize> {
    match tokens.get(at)? {
        Token::Char(own) => (c.is_none_or(|c| c == *own)).then_some(at + 1),
        Token::Any => (c != Some('/') && !is_hidden).then_some(at + 1),
        Token::Star => (c != Some('/') && !is_hidden).then_some(at),
        Token::Deep | Token::Folders => (!is_hidden).then_some(at),
    }
}

fn overlap(first: &[Token], second: &[Token], hides_dots: bool, budget: &Budget) -> bool {
    let width = second.len() + 1;
    if budget.take((first.len() + 1) * width * 2 / FILLED).is_none() {
        return true;
    }
    let mut seen = vec![false; (first.len() + 1) * width * 2];
    let mut open = vec![(0, 0, true)];
    while let Some((i, j, is_start)) = open.pop() {
        let place = (i * width + j) * 2 + usize::from(is_start);
        if std::mem::replace(&mut seen[place], true) {
            continue;
        }
        if budget.take(PLACE).is_none() || (i == first.len() && j == second.len()) {
            return true;
        }
        let skips = |tokens: &[Token], at: usize| match tokens.get(at) {
            Some(Token::Star | Token::Deep) => [Some(at + 1), None],
            // `**/` stands for nothing, or ends before its `/`.
            Some(Token::Folders) => [Some(at + 1), Some(at + 2).filter(|_| is_start)],
            _ => [None, None],
        };
        open.extend(skips(first, i).into_iter().flatten().map(|next| (next, j, is_start)));
        open.extend(skips(second, j).into_iter().flatten().map(|next| (i, next, is_start)));
        let chars = [first.get(i), second.get(j)].into_iter().flatten().filter_map(|token| match token {
            Token::Char(c) => Some(*c),
            _ => None,
        });
        // A character that no glob names stands for all others.
        for c in chars.chain(['\u{1}', '/']) {
            let is_hidden = hides_dots && is_start && c == '.';
            if let (Some(next), Some(other)) = (steps(first, i, Some(c), is_hidden), steps(second, j, Some(c), false)) {
                open.push((next, other, c == '/'));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_overlap(first: &str, second: &str, hides_dots: bool) -> bool {
        let budget = Budget::new(1_000_000);
        Globs::new(first, &budget).may_overlap(&Globs::new(second, &budget), hides_dots, &budget)
    }

    #[test]
    fn globs_overlap_if_a_path_matches_both() {
        for (first, second) in [
            ("**/.env", "**/.env*"),
            (".e*", "**/.env*"),
            ("*env", ".env"),
            ("[.]env", ".env"),
            (".en?", "**/.env*"),
            ("{a,.env}", ".env*"),
            ("secrets/*", "secrets/**"),
            ("**", "a/b/c"),
            ("**/c", "a/b/*"),
            ("src/**/a.py", "src/a.py"),
        ] {
            assert!(may_overlap(first, second, false), "{first} {second}");
        }
        for (first, second) in
            [("*.py", "secrets/**"), ("src/**", "lib/**"), ("*.py", "*.rs"), ("a?", "abc"), ("a/*", "a/b/c")]
        {
            assert!(!may_overlap(first, second, false), "{first} {second}");
        }
        assert!(!may_overlap("**/*.py", "**/.env*", true) && may_overlap("**/*.py", "**/.env*", false));
        assert!(may_overlap(&"{a,b}".repeat(10), "c", false));
    }
}
