//! The table of common programs, `programs.toml`: options that do more than a careless rule says, and what programs do with files.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::command::{Word, base_name};

static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

#[derive(Default, Deserialize)]
struct Source {
    program: Vec<Row>,
    files: Vec<Files>,
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
    /// Any use: the first argument has to be spelled.
    #[serde(default)]
    always: bool,
}

#[derive(Deserialize)]
struct Files {
    effect: FileUse,
    names: Vec<String>,
}

#[derive(Deserialize)]
struct Names {
    names: Vec<String>,
}

/// What a program does with the files that its words name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileUse {
    None,
    Read,
    Write,
    Delete,
}

#[derive(Default)]
struct Table {
    rows: HashMap<String, Vec<Row>>,
    files: HashMap<String, FileUse>,
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
        for files in source.files {
            table.files.extend(files.names.into_iter().map(|name| (name, files.effect)));
        }
        table.network.extend(source.network.into_iter().flat_map(|row| row.names));
        table
    }
}

/// A word of a command that a pattern has to spell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Danger {
    /// The place of the word. The name of the program, if any use of it is meant.
    pub(crate) at: usize,
    /// The option without its value.
    pub(crate) option: String,
    pub(crate) effect: &'static str,
}

/// The name by which the table knows a program: `python3.11` is `python`.
fn known<'a, T>(map: &'a HashMap<String, T>, name: &str) -> Option<&'a T> {
    let name = base_name(name);
    map.get(&name).or_else(|| map.get(name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'))))
}

/// What the program does with files, if the table knows it.
pub(crate) fn file_use(name: &str) -> Option<FileUse> {
    known(&TABLE.files, name).copied()
}

/// Whether the words of the program are addresses.
pub(crate) fn is_network(name: &str) -> bool {
    TABLE.network.contains(&base_name(name))
}

/// Returns the words of a command that write files, run programs or reach the network.
pub(crate) fn dangers(words: &[Word]) -> Vec<Danger> {
    let mut found = Vec::new();
    let Some(Word::Literal(name)) = words.first() else { return found };
    let Some(rows) = known(&TABLE.rows, name) else { return found };
    for row in rows {
        row.find(words, &mut found);
    }
    found
}

impl Row {
    fn find(&'static self, words: &[Word], found: &mut Vec<Danger>) {
        let mut add = |at: usize, option: &str| {
            found.push(Danger { at, option: option.to_owned(), effect: &self.effect });
        };
        if self.always {
            add(0, words[0].text());
        }
        let mut operands = 0;
        let scripts: Vec<(usize, &str)> = match self.scripts.as_deref() {
            Some("sed") => sed_scripts(words),
            _ => Vec::new(),
        };
        for (at, script) in &scripts {
            if !is_plain_sed(script) {
                add(*at, words[*at].text());
            }
        }
        for (at, word) in words.iter().enumerate().skip(1) {
            let text = word.text();
            let is_option = text.len() > 1 && text.starts_with('-');
            if let Some(option) = self.option(text, at) {
                add(at, &option);
            } else if self.containing.iter().any(|known| text.contains(&**known)) {
                add(at, text);
            } else if is_option {
                let is_first = operands == 0 && !self.subcommands.is_empty();
                if is_first && !self.options_first.iter().any(|known| known == text) {
                    add(at, text);
                }
            } else {
                operands += 1;
                let is_unknown = operands == 1
                    && !self.subcommands.is_empty()
                    && !self.subcommands.iter().any(|known| known == text);
                if is_unknown {
                    add(at, text);
                    continue;
                }
                let is_script = operands == 1
                    && match self.scripts.as_deref() {
                        Some("sed") => scripts.is_empty() && !is_plain_sed(text),
                        Some("awk") => !is_plain_awk(text),
                        _ => false,
                    };
                let is_assignment = self.assignments && text.contains('=');
                let is_word = self.words.iter().any(|known| known == text);
                if is_script || is_assignment || is_word || self.operands.is_some_and(|limit| operands >= limit) {
                    add(at, text);
                }
            }
        }
    }

    /// The option that the word is, spelled in full, abbreviated or joined with others.
    fn option(&self, text: &str, at: usize) -> Option<String> {
        let name = text.split('=').next().unwrap_or(text);
        let is_any = |known: &&String| {
            let known = &***known;
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

/// The scripts of sed that options name, and the words that they are in.
fn sed_scripts(words: &[Word]) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 1;
    while let Some(text) = words.get(at).map(Word::text) {
        let value = match text.strip_prefix("--") {
            Some(long) => {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                (!name.is_empty() && "expression".starts_with(name)).then_some(value)
            }
            // Behind other short options, which can have a value of their own, any `e` may begin a script.
            None if text.starts_with('-') => {
                text.split_once('e').map(|(_, value)| Some(value).filter(|value| !value.is_empty()))
            }
            None => None,
        };
        match value {
            Some(Some(value)) => found.push((at, value)),
            Some(None) => {
                at += 1;
                found.extend(words.get(at).map(|word| (at, word.text())));
            }
            None => {}
        }
        at += 1;
    }
    found
}

/// Whether a script of sed only prints, deletes or replaces: one command, without files and programs.
fn is_plain_sed(script: &str) -> bool {
    if script.contains(['\n', '\\', ';', '{', '}']) {
        return false;
    }
    let command = script.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '$' | ','));
    let command = match command.strip_prefix('/') {
        Some(rest) => rest.split_once('/').map_or("?", |(_, command)| command),
        None => command,
    };
    match command.strip_prefix('s') {
        Some(rest) => {
            let Some(delimiter) = rest.chars().next().filter(char::is_ascii_punctuation) else { return false };
            let parts: Vec<&str> = rest.split(delimiter).collect();
            parts.len() == 4 && parts[3].chars().all(|flag| flag.is_ascii_digit() || "gpiI".contains(flag))
        }
        None => matches!(command.trim_start_matches('!'), "p" | "d" | "q" | "="),
    }
}

/// Whether a script of awk runs nothing and writes nothing.
fn is_plain_awk(script: &str) -> bool {
    !script.contains(['|', '>', '@', '<'])
        && !["system", "getline", "close", "fflush", "ARGV", "ARGC", "ENVIRON", "PROCINFO"]
            .iter()
            .any(|word| script.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_dangerous(command: &str) -> bool {
        let words: Vec<Word> = command.split(' ').map(|word| Word::Literal(word.to_owned())).collect();
        !dangers(&words).is_empty()
    }

    #[test]
    fn table_has_a_source_for_each_row() {
        let source: toml::Table = toml::from_str(include_str!("programs.toml")).unwrap_or_default();
        let rows = source["program"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(rows.len() > 30 && TABLE.rows.len() > 100);
        for row in rows {
            assert!(row["source"].as_str().is_some_and(|source| source.starts_with("https://")), "{row:?}");
        }
    }

    #[test]
    fn option_is_found_in_every_spelling() {
        for command in [
            "git -c a=b log",
            "git log --output=x",
            "git --bare status",
            "git -p log",
            "git st",
            "git checkout -- x",
            "git log --format=%G?",
            "git log --help",
            "tar -tf host:x",
            "tar -T x -tf y",
            "curl -H @x y",
            "sed -e p -e 1e y",
            "sed -ep -ew y",
            "sed -n p --expr 1e y",
            "awk -We x",
            "git log --outp x",
            "git diff --ext-diff",
            "git grep -O./evil",
            "git grep -nO./evil x",
            "git --exec-path=/tmp status",
            "find . -exec x ;",
            "find . -delete",
            "fd -Hx rm",
            "rg --pre x",
            "rg --pr=x y",
            "rg --hostname-bin x",
            "sort -o x",
            "sort -uo x",
            "sort --compress-program=x",
            "sort --comp=x",
            "sed -i s/a/b/ x",
            "sed -ni p x",
            "sed w/etc/x",
            "sed s/a/b/w x",
            "sed s/a/b/e x",
            "sed 1e",
            "tar --checkpoint-act=exec=x",
            "tar --to-comm=x",
            "tar -xIf ./evil",
            "tar xIf ./evil",
            "tar -F x",
            "awk BEGIN{system(1)}",
            "less +!id",
            "man -P x",
            "curl -ox y",
            "curl -sSo x y",
            "wget x",
            "make SHELL=./x",
            "python3.11 x",
        ] {
            assert!(is_dangerous(command), "{command}");
        }
        for command in [
            "git status",
            "git log --oneline -5",
            "git --no-pager log",
            "git commit -m x",
            "sed -e p x.txt",
            "sed -n -e 1,5p -e /a/d x.txt",
            "sed --expression=p x.txt",
            "curl -H a:b https://a.example",
            "git diff --stat HEAD~1",
            "find . -name x",
            "rg -n --hidden x",
            "sort -u x",
            "sed -n 1,5p x",
            "sed s/a/b/g x",
            "tar -tf x",
            "awk {print$1} x",
            "curl -sS https://a.example",
            "ls -la",
        ] {
            assert!(!is_dangerous(command), "{command}");
        }
    }
}
