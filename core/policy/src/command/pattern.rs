//! Command patterns of rules: words, in which `*` stands for any characters.

use super::wrappers::names_folder;
use super::{Command, LowerWord, Word, base_name, changes_directory};
use crate::pieces::longest_piece;
use crate::programs::first_operand;
use crate::rule::Certainty;

/// The words of a command pattern.
#[derive(Clone, Debug)]
pub(crate) struct CommandPattern {
    words: Vec<String>,
    /// The words in lower case, as liberal rules compare them.
    lower: Vec<String>,
    end: End,
    /// The first sign that no simple command contains outside of quotes.
    impossible: Option<char>,
}

/// What may follow the words of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Nothing,
    /// `*`: any further words.
    Any,
    /// `./**`: any further words that name no path outside of the working directory.
    Inside,
}

impl CommandPattern {
    /// Whether it spells each word of a command.
    pub(crate) fn spells_all(&self) -> bool {
        self.end == End::Nothing && !self.words.iter().any(|word| word.contains('*'))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let (mut words, impossible) = unquoted(text);
        let end = match words.last().map(|word| &**word) {
            Some("*") => End::Any,
            Some("./**") if words.len() > 1 => End::Inside,
            _ => End::Nothing,
        };
        if end != End::Nothing {
            words.pop();
        }
        let lower = words.iter().map(|word| word.to_lowercase()).collect();
        Self { words, lower, end, impossible }
    }

    /// The name of the command, if every command that matches has it.
    pub(crate) fn name(&self) -> Option<String> {
        self.lower.first().filter(|name| !name.contains('*')).map(|name| base_name(name))
    }

    /// The words that every command that matches has, in lower case.
    pub(crate) fn key_words(&self) -> impl Iterator<Item = &str> {
        let is_key =
            |word: &&str| !word.starts_with('-') && !word.contains(|c: char| "*/".contains(c) || c.is_whitespace());
        self.lower.iter().skip(1).map(|word| &**word).filter(is_key)
    }

    /// The name of a long option that every command that matches has in some spelling, in lower case.
    pub(crate) fn key_option(&self) -> Option<&str> {
        self.lower
            .iter()
            .skip(1)
            .filter_map(|word| long_option(word))
            .find(|name| !name.is_empty() && !name.contains('*'))
    }

    /// A text that the name of every command that matches has, in lower case.
    pub(crate) fn name_piece(&self) -> Option<&str> {
        let name = self.lower.first()?;
        longest_piece(name.rsplit(['/', '\\']).next().unwrap_or(name))
    }

    /// The text of a command that matches.
    pub(crate) fn witness(&self) -> String {
        let spelled = |word: &String| {
            let word = word.replace('*', "x");
            let is_plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || SIGNS.contains(c));
            if is_plain || self.impossible.is_some() { word } else { format!("'{word}'") }
        };
        let words: Vec<String> = self.words.iter().map(spelled).collect();
        if words.is_empty() { "x".to_owned() } else { words.join(" ") }
    }

    /// The first sign that no simple command contains outside of quotes.
    pub(crate) fn impossible(&self) -> Option<char> {
        self.impossible
    }

    /// Whether the command has exactly these words.
    pub(crate) fn matches_strictly(&self, command: &Command) -> bool {
        let words = command.words();
        let fits =
            if self.end == End::Nothing { words.len() == self.words.len() } else { words.len() >= self.words.len() };
        // Words behind the pattern are anything, but they have to be known.
        // Only the words behind `./**` can be globs.
        let is_glob = |at: usize| self.end == End::Inside && at >= self.words.len() && command.globs.contains(&at);
        let is_known = |(at, word): (usize, &Word)| word.literal().is_some() || is_glob(at);
        if !fits || command.altered.is_some() || !words.iter().enumerate().all(is_known) {
            return false;
        }
        let is_spelled = self.words.iter().zip(words).enumerate().all(|(at, (pattern, word))| {
            let word = word.text();
            // What `*` stands for must not lead out of a directory.
            pattern == word
                || (wildcard(pattern, word)
                    && (pattern.len() == 1 || !(word.contains("..") || command.outside.contains(&at))))
        });
        let stays = |words: &[Word]| !changes_directory(words) || names_folder(words);
        let is_inside =
            self.end != End::Inside || stays(words) && command.outside.iter().all(|at| *at < self.words.len());
        is_spelled && is_inside && command.dangers.iter().all(|danger| self.spells(danger)) && !self.is_undone(words)
    }

    /// Whether a word behind the pattern can take back an option that the pattern spells: `--no-x`, `--x=false`, `--x` again, or
    /// `false` behind it.
    fn is_undone(&self, words: &[Word]) -> bool {
        const OFF: [&str; 8] = ["false", "0", "no", "off", "null", "undefined", "never", "none"];
        let option = |text: &'_ str| -> Option<String> {
            let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-').filter(|name| name.len() > 2))?;
            let name = name.split(['=', ':']).next().unwrap_or(name).to_lowercase();
            Some(name.strip_prefix("no-").map_or(name.clone(), str::to_owned)).filter(|name| !name.is_empty())
        };
        let is_short =
            |text: &str, letters: &[char]| text.starts_with('-') && !text.starts_with("--") && text.contains(letters);
        let rest = words.get(self.words.len()..).unwrap_or_default();
        // `rm -i -f` does not ask, and `mv -n -f` replaces files.
        let is_careful = |word: &String| is_short(word, &['i', 'I', 'n']) || word.starts_with("--interactive");
        let forces = |word: &Word| is_short(word.text(), &['f', 'i']) || word.text().starts_with("--f");
        if matches!(&*words.first().map(|word| base_name(word.text())).unwrap_or_default(), "rm" | "mv" | "cp" | "ln")
            && self.words.iter().any(is_careful)
            && rest.iter().any(forces)
        {
            return true;
        }
        let spelled: Vec<String> = self.words.iter().skip(1).filter_map(|word| option(word)).collect();
        let Some(last) = self.words.last().filter(|_| !spelled.is_empty()) else { return false };
        let is_off = |word: &Word| OFF.contains(&&*word.text().to_lowercase());
        let is_switched_off = option(last).is_some() && !last.contains('=') && rest.first().is_some_and(is_off);
        let is_again = |word: &Word| {
            let text = word.text();
            let is_long = text.starts_with("--");
            // Long options can be abbreviated.
            option(text).is_some_and(|given| {
                spelled.iter().any(|known| *known == given || is_long && known.starts_with(&given))
            })
        };
        is_switched_off || rest.iter().take_while(|word| word.text() != "--").any(is_again)
    }

    /// Whether the pattern spells an option that does more than a careless rule says.
    fn spells(&self, danger: &crate::programs::Danger) -> bool {
        let at = danger.at + usize::from(danger.is_program);
        match self.words.get(at) {
            None => danger.is_program && self.end == End::Nothing && self.words.len() == at,
            Some(pattern) => {
                let known = pattern.split('*').next().unwrap_or_default();
                if danger.is_program { !known.is_empty() } else { known.len() >= danger.option.len() }
            }
        }
    }

    /// Whether the command may be one that is meant: with other options, in another directory, in another case.
    pub(crate) fn matches_liberally(&self, command: &Command) -> Certainty {
        let Some((name, arguments)) = self.lower.split_first() else { return Certainty::Yes };
        let Some((first, given)) = command.lower_words().split_first() else { return Certainty::No };
        let mut certainty = match first {
            None => Certainty::Maybe,
            Some(LowerWord { text, .. }) if !wildcard(name, text) && !wildcard(&base_name(name), &base_name(text)) => {
                return Certainty::No;
            }
            Some(_) => Certainty::Yes,
        };
        let is_unknown = |at: &usize| given[*at].is_none();
        let has_unknown = (0..given.len()).any(|at| is_unknown(&at));
        // No option is among the files of a glob that are known.
        let may_have_option = (0..given.len()).filter(is_unknown).any(|at| !command.globs.contains(&(at + 1)));
        let mut from = 0;
        for pattern in arguments.iter().filter(|pattern| *pattern != "*") {
            let pattern: &str = pattern;
            let is_meant = |word: &Option<LowerWord>| word.as_ref().is_some_and(|word| is_same_word(pattern, word));
            if let Some(at) = given[from..].iter().position(is_meant) {
                from += at + 1;
            } else if pattern.starts_with('-') {
                if pattern == "--no-verify" && skips_hooks(command) {
                    continue;
                }
                // Options may stand anywhere, joined, abbreviated or in their other spelling.
                let given = given.iter().filter(|word| !is_other_option(first, pattern, word.as_ref()));
                match has_option(pattern, given.flatten().map(|word| &*word.text)) {
                    Certainty::No if may_have_option => certainty = Certainty::Maybe,
                    Certainty::No => return Certainty::No,
                    Certainty::Maybe => certainty = Certainty::Maybe,
                    Certainty::Yes => {}
                }
            } else if has_unknown || given.iter().any(is_meant) {
                certainty = Certainty::Maybe;
            } else {
                return Certainty::No;
            }
        }
        certainty
    }

    /// Whether the words occur in a text, in this order. For texts that cannot be parsed.
    pub(crate) fn occurs_in(&self, words: &[String]) -> bool {
        // The text has been split at blanks, in quotes as well.
        let pieces = self.lower.iter().flat_map(|word| word.split_whitespace());
        let mut patterns = pieces.filter(|pattern| *pattern != "*").peekable();
        if self.lower.first().is_none_or(|name| name == "*") {
            return true;
        }
        for word in words {
            let is_meant = |pattern: &&str| {
                wildcard(pattern, word)
                    || wildcard(pattern, &base_name(word))
                    || (pattern.starts_with('-') && has_option(pattern, [&**word]) == Certainty::Yes)
            };
            if patterns.peek().is_some_and(is_meant) {
                patterns.next();
            }
        }
        patterns.peek().is_none()
    }
}

/// Returns the words of a pattern, without the quotes that a shell needs around blanks and signs, and the first sign that no
/// simple command contains outside of quotes. A word keeps its quotes if they are not closed, or if `*` is in them: there it
/// would be no wildcard.
fn unquoted(text: &str) -> (Vec<String>, Option<char>) {
    let (mut words, mut impossible) = (Vec::new(), None);
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after, sign) = quoted_word(rest).unwrap_or_else(|| {
            let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            (word.to_owned(), after, word.chars().find(|c| SIGNS.contains(*c)))
        });
        words.push(word);
        impossible = impossible.or(sign);
        rest = after.trim_start();
    }
    (words, impossible)
}

/// The quote that a pattern opens and does not close.
pub(crate) fn open_quote(text: &str) -> Option<char> {
    text.chars().fold(None, |open, c| match open {
        None if c == '\'' || c == '"' => Some(c),
        Some(quote) if c == quote => None,
        open => open,
    })
}

/// What ends a simple command, or what only the shell knows.
const SIGNS: &str = ";|&<>$`";

/// The first word of a text without its quotes, what follows it, and its first sign outside of quotes.
fn quoted_word(text: &str) -> Option<(String, &str, Option<char>)> {
    let (mut word, mut quote, mut sign) = (String::new(), None, None);
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some('"') if "$`\\".contains(c) => return None,
            Some(_) if c == '*' => return None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c.is_whitespace() => return Some((word, &text[at..], sign)),
            _ => {
                sign = sign.or((quote.is_none() && SIGNS.contains(c)).then_some(c));
                word.push(c);
            }
        }
    }
    quote.is_none().then_some((word, "", sign))
}

/// The words of a text that cannot be parsed, in lower case and without quotes.
pub(crate) fn loose_words(text: &str) -> Vec<String> {
    /// What follows is not searched.
    const MAX_TEXT: usize = 64 << 10;
    let start: String = text.char_indices().take_while(|(at, _)| *at < MAX_TEXT).map(|(_, c)| c).collect();
    let start = start.replace("\\\n", "");
    let text: String =
        start.chars().flat_map(char::to_lowercase).filter(|c| !matches!(c, '\\' | '\'' | '"' | '^')).collect();
    let is_end = |c: char| c.is_whitespace() || c.is_control() || ";&|()<>{}$`,=".contains(c);
    text.split(is_end).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Whether a word is the one of a pattern, also with other spellings of a path.
fn is_same_word(pattern: &str, word: &LowerWord) -> bool {
    wildcard(pattern, &word.text) || word.path.as_ref().is_some_and(|path| wildcard(pattern, path))
}

/// A path without `.`, `..` and empty parts.
pub(crate) fn plain_path(text: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let root = if text.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// The name of a long option, without its value.
pub(crate) fn long_option(word: &str) -> Option<&str> {
    word.strip_prefix("--").map(|name| name.split('=').next().unwrap_or(name))
}

/// Whether a command is `git commit -n`, which skips hooks like `--no-verify`.
fn skips_hooks(command: &Command) -> bool {
    let words = command.words();
    let Some(at) = first_operand(words).filter(|at| words[*at].text() == "commit") else { return false };
    // Behind these letters, the rest of the word is a value.
    let is_short = |text: &str| text.starts_with('-') && !text.starts_with("--");
    let has_letter = |text: &str| text.chars().skip(1).take_while(|c| !"mFcCtSu".contains(*c)).any(|c| c == 'n');
    let is_value =
        |at: usize| is_short(words[at - 1].text()) && words[at - 1].text().ends_with(['m', 'F', 'c', 'C', 't']);
    base_name(words[0].text()) == "git"
        && (at + 1..words.len())
            .take_while(|at| words[*at].text() != "--")
            .any(|at| is_short(words[at].text()) && has_letter(words[at].text()) && !is_value(at))
}

/// Whether a word is surely another option than the one of a pattern: `rg --files` is not `rg -f`, and the options of `find` are not
/// joined.
fn is_other_option(program: &Option<LowerWord>, pattern: &str, word: Option<&LowerWord>) -> bool {
    let (Some(program), Some(word)) = (program, word) else { return false };
    match &*base_name(&program.text) {
        "rg" => {
            matches!(pattern, "-f" | "--file")
                && matches!(&*word.text, "--files" | "--files-with-matches" | "--files-without-match")
        }
        "find" => pattern.starts_with('-') && pattern.len() == 2 && word.text.len() > 2 && word.text != pattern,
        _ => false,
    }
}

/// Whether an option of a pattern is among the words: joined with others, abbreviated, with a value, or perhaps in its other
/// spelling.
fn has_option<'a>(pattern: &str, given: impl IntoIterator<Item = &'a str, IntoIter: Clone>) -> Certainty {
    let given = given.into_iter();
    let words = || given.clone();
    let is_cluster = |word: &str| word.len() > 1 && word.starts_with('-') && !word.starts_with("--");
    if let Some(name) = long_option(pattern).filter(|name| !name.is_empty()) {
        let is_same = |word: &str| {
            long_option(word).is_some_and(|given| {
                !given.is_empty() && (wildcard(name, given) || name.starts_with(given) || given.starts_with(name))
            })
        };
        if words().any(is_same) {
            return Certainty::Yes;
        }
        let first = name.chars().next().unwrap_or_default();
        let may_be = |word: &str| is_cluster(word) && word.contains(first) && !name.starts_with("no-");
        return if words().any(may_be) { Certainty::Maybe } else { Certainty::No };
    }
    let letters = pattern.trim_start_matches('-');
    let mut certainty = Certainty::Yes;
    for letter in letters.chars().filter(|c| *c != '*') {
        if words().any(|word| is_cluster(word) && word.contains(letter)) {
            continue;
        }
        if words().any(|word| long_option(word).is_some_and(|name| name.starts_with(letter))) {
            certainty = Certainty::Maybe;
            continue;
        }
        return Certainty::No;
    }
    certainty
}

/// Whether the text matches a pattern in which `*` stands for any characters.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    if !pattern.contains('*') {
        return pattern == text;
    }
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pattern.rsplit_once('*').map(|(_, last)| last) else { return rest.is_empty() };
    let middle: Vec<&str> = pieces.collect();
    for piece in &middle[..middle.len() - 1] {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_is_undone_by_later_word() {
        let is_undone = |pattern: &str, command: &str| {
            let words: Vec<Word> = command.split(' ').map(|word| Word::Literal(word.to_owned())).collect();
            CommandPattern::parse(pattern).is_undone(&words)
        };
        for (pattern, command) in [
            ("a --x-y *", "a --x-y --no-x-y"),
            ("a --x-y *", "a --x-y b --x-y=false"),
            ("a --x-y *", "a --x-y b --X-Y"),
            ("a --x-y *", "a --x-y b --x"),
            ("a --no-x *", "a --no-x --x"),
            ("a --x=1 *", "a --x=1 --x=2"),
            ("a --xyz *", "a --xyz -xyz:no"),
            ("a --x *", "a --x FALSE"),
            ("rm -i *", "rm -i -f b"),
            ("mv -n *", "mv -n b c -vf"),
            ("rm --interactive *", "rm --interactive --force b"),
        ] {
            assert!(is_undone(pattern, command), "{pattern}: {command}");
        }
        for (pattern, command) in [
            ("a --x *", "a --x --y"),
            ("a --x b *", "a --x b false"),
            ("a --x *", "a --x -- --no-x"),
            ("a --x", "a --x"),
            ("a *", "a --x --no-x"),
            ("a -x *", "a -x -x"),
            ("rm -i *", "rm -i -v b"),
            ("rm *", "rm -i -f b"),
        ] {
            assert!(!is_undone(pattern, command), "{pattern}: {command}");
        }
    }

    #[test]
    fn quotes_of_pattern_are_those_of_shell() {
        for (text, words, sign) in [
            ("git status", &["git", "status"][..], None),
            ("'/a b/python' -B", &["/a b/python", "-B"], None),
            ("/a\" b\"/x", &["/a b/x"], None),
            ("'' x", &["", "x"], None),
            ("grep ';' a", &["grep", ";", "a"], None),
            ("a;b 'c'", &["a;b", "c"], Some(';')),
            // As they stand: they are no quotes of a shell, or hold a wildcard.
            ("say don't", &["say", "don't"], None),
            ("ls '*.rs'", &["ls", "'*.rs'"], None),
            ("echo \"$x\"", &["echo", "\"$x\""], Some('$')),
        ] {
            assert_eq!(unquoted(text), (words.iter().map(|word| (*word).to_owned()).collect(), sign), "{text}");
        }
    }
}
