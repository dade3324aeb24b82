//! The table of common programs, `programs.toml`: options that do more than a careless rule says.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::command::{Word, base_name, runs_another};
use crate::scripts::{is_plain_awk, is_plain_jq, is_plain_sed, sed_scripts};

static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

#[derive(Default, Deserialize)]
struct Source {
    program: Vec<Row>,
    network: Vec<Names>,
}

#[derive(Clone, Debug, Deserialize)]
struct Row {
    names: Vec<String>,
    effect: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    words: Vec<String>,
    /// The language of the first word that is no option.
    scripts: Option<String>,
    /// From how many words on that are no options.
    operands: Option<usize>,
    /// The only words that may come first. Options before them are to be among `options_first`.
    #[serde(default)]
    subcommands: Vec<String>,
    #[serde(default)]
    options_first: Vec<String>,
    /// Texts that a word must not contain.
    #[serde(default)]
    containing: Vec<String>,
    /// The first word can be joined short options without `-`.
    #[serde(default)]
    cluster: bool,
    /// Words such as `NAME=value` change what runs.
    #[serde(default)]
    assignments: bool,
    /// Any use: the first argument has to be spelled, and each option.
    #[serde(default)]
    always: bool,
    /// The use without arguments.
    #[serde(default)]
    bare: bool,
    /// The row is about these subcommands alone.
    #[serde(default)]
    of: Vec<String>,
    /// The only options that need not be spelled. `=` stands for a value, `~` for one in the same word, `*` for any characters.
    #[serde(default)]
    harmless: Vec<String>,
    /// Long options have one `-`, and short ones are not joined.
    #[serde(default)]
    single_dash: bool,
    /// What other words than options begin with that have to be spelled.
    #[serde(default)]
    starts: Vec<String>,
    /// How many words that are no options have to be spelled, unless the command has an option of `unless`.
    spelled: Option<usize>,
    #[serde(default)]
    unless: Vec<String>,
    /// The first word that is no option is a script or a program, which has to be spelled, and what follows is for it.
    #[serde(default)]
    script: bool,
    /// Options that have no value, so that the script follows.
    #[serde(default)]
    flags: Vec<String>,
    /// Behind these words a program begins, which is judged as if it stood alone.
    #[serde(default)]
    runs: Vec<String>,
    /// Such a program begins behind the name.
    #[serde(default)]
    prefix: bool,
    /// The words of `runs` can be repeated.
    #[serde(default)]
    repeats: bool,
    /// Options are not abbreviated.
    #[serde(default)]
    exact: bool,
    /// Words that begin with `+` are no operands.
    #[serde(default)]
    formats: bool,
    /// With these options, each word behind is a script.
    #[serde(default)]
    every: Vec<String>,
    /// The words that name a file outside of the working directory.
    #[serde(default)]
    inside: bool,
    /// The program that gets the words behind `--`.
    rest: Option<String>,
}

#[derive(Deserialize)]
struct Names {
    names: Vec<String>,
}

#[derive(Default)]
struct Table {
    rows: HashMap<String, Vec<Row>>,
    network: HashSet<String>,
}

impl Table {
    fn read() -> Self {
        let source: Source = toml::from_str(include_str!("programs.toml")).unwrap_or_default();
        let mut table = Self::default();
        for row in source.program {
            for name in &row.names {
                table.rows.entry(name.to_lowercase()).or_default().push(row.clone());
            }
        }
        table.network.extend(source.network.into_iter().flat_map(|row| row.names));
        table
    }
}

/// A word of a command that a pattern has to spell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Danger {
    /// The place of the word.
    pub(crate) at: usize,
    /// The word is the name of a program of which any use is meant: the next word has to be spelled.
    pub(crate) is_program: bool,
    /// It counts only if the word names a file outside of the working directory.
    pub(crate) is_outside: bool,
    /// The option without its value.
    pub(crate) option: String,
    pub(crate) effect: &'static str,
}

impl Danger {
    pub(crate) fn new(at: usize, option: &str, effect: &'static str) -> Self {
        Self { at, is_program: false, is_outside: false, option: option.to_owned(), effect }
    }

    /// A word with further ones behind: any use is meant, and the next word has to be spelled.
    fn any_use(at: usize, option: &str, effect: &'static str) -> Self {
        Self { is_program: true, ..Self::new(at, option, effect) }
    }

    /// Whether the program takes names of files, commits or commands from its input or from a file.
    pub(crate) fn is_from_elsewhere(&self) -> bool {
        self.effect.contains("from elsewhere") || (self.option.starts_with('@') && self.option.len() > 1)
    }

    /// Whether the program opens files that only links below a folder lead to.
    pub(crate) fn follows_links(&self) -> bool {
        self.effect.contains("links below")
    }
}

/// The name by which the table knows a program: `python3.11` is `python`.
pub(crate) fn known<'a, T>(map: &'a HashMap<String, T>, name: &str) -> Option<&'a T> {
    let name = base_name(name);
    map.get(&name).or_else(|| map.get(name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'))))
}

/// Whether the table has the program.
pub(crate) fn is_known(name: &str) -> bool {
    known(&TABLE.rows, name).is_some()
}

/// Whether a further word that is not an option means something else to the program than the first ones.
pub(crate) fn counts_operands(name: &str) -> bool {
    let is_counted = |row: &Row| row.operands.is_some() || row.spelled.is_some() || row.always || row.scripts.is_some();
    known(&TABLE.rows, name).is_some_and(|rows| rows.iter().any(is_counted))
}

/// Whether the words of the program are addresses.
pub(crate) fn is_network(name: &str) -> bool {
    TABLE.network.contains(&base_name(name))
}

/// Returns the words of a command that write files, run programs or reach the network.
pub(crate) fn dangers(words: &[Word]) -> Vec<Danger> {
    let mut found = Vec::new();
    if let Some(name) = words.first().and_then(Word::literal) {
        let rows = [known(&TABLE.rows, name), TABLE.rows.get(ANY)];
        rows.into_iter().flatten().flatten().for_each(|row| row.find(words, 0, &mut found));
    }
    found
}

/// With these options, a program needs no script.
const ALONE: [&str; 5] = ["--version", "-version", "-V", "--help", "-h"];

/// The name of the rows that are about each program.
const ANY: &str = "*";

/// Programs in commands of programs are judged on their own up to this depth. Behind it, all words have to be spelled.
const MAX_DEPTH: u32 = 3;

impl Row {
    fn find(&'static self, words: &[Word], depth: u32, found: &mut Vec<Danger>) {
        let first = first_operand(words);
        // A toolchain such as `+nightly` comes before the subcommand.
        let is_toolchain = first.is_some_and(|at| words[at].text().starts_with('+'));
        let of = first.and_then(|at| words.get(at + usize::from(is_toolchain))).map(Word::text);
        if !self.of.is_empty() && !of.is_some_and(|of| self.of.iter().any(|known| known == of)) {
            return;
        }
        if self.always || (self.bare && words.len() == 1) {
            found.push(Danger::any_use(0, words[0].text(), &self.effect));
        }
        if self.script || self.prefix || !self.runs.is_empty() {
            return self.find_programs(words, depth, found);
        }
        if let Some(program) = &self.rest {
            return self.find_rest(words, program, depth, found);
        }
        if self.inside {
            let words = words.iter().enumerate().skip(1);
            let dangers = words.map(|(at, word)| Danger::new(at, option_name(word.text()), &self.effect));
            return found.extend(dangers.map(|danger| Danger { is_outside: true, ..danger }));
        }
        let mut add = |at: usize, option: &str| found.push(Danger::new(at, option, &self.effect));
        let from = if self.of.is_empty() && self.subcommands.is_empty() { 1 } else { first.unwrap_or(1) };
        let (mut operands, mut is_value) = (0, false);
        let is_end = |word: &&Word| word.text() != "--";
        let mut options = words.iter().take_while(is_end);
        let is_released = options.any(|word| self.unless.iter().any(|known| known == word.text()));
        let scripts: Vec<(usize, &str)> = match self.scripts.as_deref() {
            Some("sed") => sed_scripts(words),
            _ => Vec::new(),
        };
        // Its options have several values, so each word can be the script.
        let is_jq = self.scripts.as_deref() == Some("jq");
        for (at, script) in &scripts {
            if !is_plain_sed(script) {
                add(*at, words[*at].text());
            }
        }
        for (at, word) in words.iter().enumerate().skip(1) {
            let text = word.text();
            let is_option = is_option(text);
            let was_value = std::mem::take(&mut is_value);
            let is_cluster = self.cluster && at == 1 && !is_option;
            // Behind `--`, a script can begin with `-`.
            if is_option && self.scripts.is_some() && words[at - 1].text() == "--" {
                add(at, text);
            }
            if let Some(option) = self.option(text, at) {
                add(at, &option);
            } else if self.contains(text) || (is_jq && !is_plain_jq(text)) {
                add(at, text);
            } else if self.starts_like_option(text) || ((is_option || is_cluster) && self.is_unknown(text, is_cluster))
            {
                add(at, option_name(text));
            } else if is_option {
                let is_first = at < from && !self.subcommands.is_empty();
                if is_first && !self.options_first.iter().any(|known| known == text) {
                    add(at, text);
                }
            } else if at < from || was_value || (self.formats && text.starts_with('+')) {
            } else {
                // Behind an option of a program whose options are not known, the word can be its value.
                let may_be_value = self.always && self.spelled.is_some() && self.may_have_value(words[at - 1].text());
                operands += usize::from(!may_be_value);
                let is_unknown = operands == 1
                    && !self.subcommands.is_empty()
                    && !self.subcommands.iter().any(|known| known == text);
                let is_script = operands == 1
                    && match self.scripts.as_deref() {
                        Some("sed") => scripts.is_empty() && !is_plain_sed(text),
                        Some("awk") => !is_plain_awk(text),
                        _ => false,
                    };
                let is_before = |limit| operands < limit + usize::from(!may_be_value);
                let is_spelled = !is_released && self.spelled.is_some_and(is_before);
                let is_assignment = self.assignments && text.contains('=');
                let is_word = self.words.iter().any(|known| known == text);
                let is_more = self.operands.is_some_and(|limit| operands >= limit);
                if is_unknown || is_script || is_spelled || is_assignment || is_word || is_more {
                    add(at, text);
                }
            }
            is_value = is_option && !was_value && self.has_value(text);
        }
    }

    /// Finds what another program does with the words behind `--`.
    fn find_rest(&'static self, words: &[Word], program: &str, depth: u32, found: &mut Vec<Danger>) {
        let Some(at) = words.iter().position(|word| word.text() == "--").filter(|_| depth < MAX_DEPTH) else { return };
        let mut inner = words[at..].to_vec();
        inner[0] = Word::Literal(program.to_owned());
        let start = found.len();
        known(&TABLE.rows, program).into_iter().flatten().for_each(|row| row.find(&inner, depth + 1, found));
        found[start..].iter_mut().for_each(|danger| danger.at += at);
    }

    /// Finds the programs and scripts that the command runs, and the words before them.
    fn find_programs(&'static self, words: &[Word], depth: u32, found: &mut Vec<Danger>) {
        // Short options can be joined.
        let is_start = |at: &usize| {
            let text = words[*at].text();
            let is_joined = |known: &str| {
                known.len() == 2 && is_option(text) && !text.starts_with("--") && text.contains(&known[1..])
            };
            self.runs.iter().any(|known| known == text || (known.starts_with('-') && is_joined(known)))
        };
        if self.script || self.prefix {
            return self.find_program(words, 1, words.len(), depth, found);
        }
        let mut starts = (1..words.len()).filter(is_start).peekable();
        while let Some(start) = starts.next() {
            let is_end = |at: &usize| self.repeats && words[*at].text() == ";";
            let end = (start + 1..words.len()).find(is_end).unwrap_or(words.len());
            let end = starts.peek().filter(|_| self.repeats).map_or(end, |next| end.min(*next));
            self.find_program(words, start + 1, end, depth, found);
            if !self.repeats {
                break;
            }
        }
    }

    /// Finds the program or script that begins behind options.
    fn find_program(&'static self, words: &[Word], from: usize, end: usize, depth: u32, found: &mut Vec<Danger>) {
        let is_any = |list: &[String], text: &str| list.iter().any(|known| known == text);
        let (mut may_be_value, mut is_open, mut is_released) = (false, false, false);
        let (mut is_program, mut has_script) = (!self.script, false);
        for at in from..end {
            let text = words[at].text();
            let mut add = |option: &str| found.push(Danger::new(at, option, &self.effect));
            if is_option(text) || text.starts_with('+') || self.starts_like_option(text) {
                add(option_name(text));
                is_program |= self.script && is_any(&self.runs, text);
                is_released |= is_any(&self.unless, text);
                has_script |= ALONE.contains(&text) || is_any(&self.every, text);
                is_open |= is_any(&self.every, text);
                may_be_value = self.may_have_value(text);
                // Joined with others, the option can name a program, too.
                is_open |= !text.starts_with("--")
                    && self.runs.iter().any(|known| text.len() > 2 && text.contains(known.trim_start_matches('-')));
                continue;
            }
            if !is_released {
                add(text);
            }
            has_script = true;
            if is_program && !may_be_value {
                return self.judge(words, at, end, depth, found);
            }
            if !may_be_value && !is_open {
                return;
            }
            may_be_value = false;
        }
        // The script comes from the input.
        if self.script && !has_script && from < end {
            found.push(Danger::any_use(end - 1, words[end - 1].text(), &self.effect));
        }
    }

    /// Finds what the program that begins at a word does with the words behind it.
    fn judge(&'static self, words: &[Word], at: usize, end: usize, depth: u32, found: &mut Vec<Danger>) {
        let inner = &words[at..end];
        let Some(name) = inner.first().and_then(Word::literal) else { return };
        if depth >= MAX_DEPTH || runs_another(inner) {
            let words = inner.iter().enumerate();
            found.extend(words.map(|(place, word)| Danger::new(at + place, word.text(), &self.effect)));
            return;
        }
        let start = found.len();
        known(&TABLE.rows, name).into_iter().flatten().for_each(|row| row.find(inner, depth + 1, found));
        found[start..].iter_mut().for_each(|danger| danger.at += at);
    }

    fn contains(&self, text: &str) -> bool {
        let is_in = |text: &str| self.containing.iter().any(|known| text.contains(&**known));
        is_in(text) || (self.always && !self.containing.is_empty() && is_in(&text.to_lowercase()))
    }

    /// Whether the word can be an option of a program whose options are not known.
    fn starts_like_option(&self, text: &str) -> bool {
        self.always && (is_option(text) || text.starts_with('+'))
            || self.starts.iter().any(|start| text.trim_start().starts_with(&**start))
    }

    /// Whether an option is not one of those that are known to be harmless.
    fn is_unknown(&self, text: &str, is_cluster: bool) -> bool {
        !self.harmless.is_empty() && !self.is_harmless(text, is_cluster)
    }

    /// Whether an option only changes what a program reads and shows.
    fn is_harmless(&self, text: &str, is_cluster: bool) -> bool {
        if text == "--" {
            return true;
        }
        let name = option_name(text);
        let is_same = |known: &String| {
            let known = known.trim_end_matches(['=', '~']);
            match known.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None if self.single_dash => known.trim_start_matches('-') == name.trim_start_matches('-'),
                None => known == name,
            }
        };
        if self.single_dash || text.starts_with("--") {
            return self.harmless.iter().any(is_same);
        }
        for c in text.trim_start_matches('-').chars() {
            let mut known = self.harmless.iter().filter(|known| !known.starts_with("--"));
            match known.find_map(|known| known.strip_prefix('-')?.strip_prefix(c)) {
                Some("") => {}
                // What follows is the value, if the letters begin with `-`.
                Some("=" | "~") if is_cluster => {}
                Some("=" | "~") => return true,
                _ => return false,
            }
        }
        true
    }

    /// Whether the word behind can be the value of an option.
    fn may_have_value(&self, text: &str) -> bool {
        is_option(text) && text != "--" && !text.contains('=') && !self.flags.iter().any(|known| known == text)
    }

    /// Whether the next word is the value of an option.
    fn has_value(&self, text: &str) -> bool {
        let is_known = |name: &str| self.harmless.iter().any(|known| known.strip_suffix('=') == Some(name));
        if self.single_dash || text.starts_with("--") {
            return is_known(text);
        }
        // The first letter with a value takes the rest of the word.
        let with_value = |c: &char| ['=', '~'].iter().any(|sign| self.harmless.contains(&format!("-{c}{sign}")));
        let mut letters = text.chars().skip(1);
        letters.find(with_value).is_some_and(|c| letters.next().is_none() && is_known(&format!("-{c}")))
    }

    /// The option that the word is, spelled in full, abbreviated or joined with others.
    fn option(&self, text: &str, at: usize) -> Option<String> {
        let name = text.split('=').next().unwrap_or(text);
        let is_any = |known: &&String| {
            let known = &***known;
            if self.exact {
                return name == known;
            }
            if known == "+" {
                return text.starts_with('+');
            }
            if let Some(long) = known.strip_prefix("--") {
                return name.strip_prefix("--").is_some_and(|given| !given.is_empty() && long.starts_with(given));
            }
            let letters = known.trim_start_matches('-');
            if letters.chars().count() > 1 {
                return name.trim_start_matches('-') == letters && name.starts_with('-');
            }
            let is_cluster = text.starts_with('-') && !text.starts_with("--");
            (is_cluster || (self.cluster && at == 1 && !text.starts_with('-'))) && text.contains(letters)
        };
        self.options.iter().find(is_any).map(|_| name.to_owned())
    }
}

fn is_option(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-')
}

/// The option without its value.
fn option_name(text: &str) -> &str {
    if is_option(text) { text.split('=').next().unwrap_or(text) } else { text }
}

/// The place of the first word that is no option and not the value of one. The options are those of git.
pub(crate) fn first_operand(words: &[Word]) -> Option<usize> {
    const VALUES: [&str; 8] =
        ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix", "--attr-source"];
    let mut at = 1;
    loop {
        let text = words.get(at)?.text();
        if !text.starts_with('-') {
            return Some(at);
        }
        at += if VALUES.contains(&text) { 2 } else { 1 };
    }
}

#[cfg(test)]
mod tests;
