//! The hosts that the words of a command may name.

use std::collections::HashSet;

use super::operands::{MAX_NAME, value_of};
use super::{MAX_OPERANDS, Part, Taker, Target};
use crate::command::{Command, Word, base_name, is_unknown_program};
use crate::glob::braced_words;
use crate::host;
use crate::kinds::Kind;
use crate::programs::{Danger, is_network};

impl Taker<'_> {
    /// Adds the host that a word may name.
    pub(super) fn add_host(&mut self, word: &Word, is_network: bool) {
        let text = word.text();
        // An address can be the value of an option.
        let value = value_of(text);
        let text_of_host = if is_network { value } else { text };
        let is_host = text.contains("://") || (is_network && !text_of_host.starts_with('-'));
        if !is_host || self.operands >= MAX_OPERANDS || host::is_plain_number(text_of_host) {
            return;
        }
        self.operands += 1;
        let is_dynamic = word.literal().is_none();
        let start = text_of_host.find("http").filter(|at| text_of_host.contains("://") && (*at == 0 || !is_dynamic));
        let address = &text_of_host[start.unwrap_or(0)..];
        let mut part = Part::new(Some(Kind::Fetch), Target::Host(host::parse(address)));
        // The shell expands braces and variables of an address, and curl its braces and ranges.
        part.hides = is_dynamic || host::may_be_another(address);
        part.shadow = true;
        self.parts.push(part);
        if !is_network {
            return;
        }
        match host::inner(address) {
            Some(inner) => inner.into_iter().for_each(|name| self.add_named_host(name, false)),
            None => self.add_many_hosts(address),
        }
    }

    /// Adds the hosts that a word may name although it has no scheme: only a rule that names one is about them.
    pub(super) fn add_named_hosts(&mut self, text: &str, is_network: bool) {
        let value = value_of(text);
        let is_whole = |value: &&str| !is_network && !value.starts_with('-') && !value.contains("://");
        if let Some(whole) = Some(value).filter(is_whole) {
            self.add_named_host(whole, false);
        }
        self.add_joined_hosts(text, is_network);
        if value != text {
            self.add_joined_hosts(value, is_network);
        }
        // A shell makes several addresses of one with braces.
        if value.contains('{') {
            match braced_words(value) {
                Some(names) => names.iter().for_each(|name| self.add_named_host(name, true)),
                None if is_network => self.add_many_hosts(value),
                None => {}
            }
        }
        // Settings such as `host=HOST user=NAME`.
        settings(value).for_each(|name| self.add_named_host(name, false));
    }

    /// Adds the hosts that can be joined with short options: behind the first letter, and, if it can be joined with others, behind
    /// each further one.
    fn add_joined_hosts(&mut self, text: &str, is_network: bool) {
        if !text.starts_with('-') || text.starts_with("--") {
            return;
        }
        let Some(values) = joined_values(text) else { return self.add_many_hosts(text) };
        values.into_iter().for_each(|(value, is_certain)| self.add_named_host(value, !is_certain));
        if is_network {
            match host::inner(text) {
                Some(inner) => inner.into_iter().skip(1).for_each(|name| self.add_named_host(name, false)),
                None => self.add_many_hosts(text),
            }
        }
    }

    /// Adds the hosts that code in a word of an interpreter can name.
    pub(super) fn add_hosts_of_code(&mut self, text: &str) {
        match hosts_of_code(text) {
            Some(names) => names.into_iter().for_each(|name| self.add_named_host(name, true)),
            None => self.add_many_hosts(text),
        }
    }

    /// Adds the addresses that a command takes from its input or from a file.
    pub(super) fn add_hosts_from_elsewhere(&mut self, command: &Command) {
        let reads = |danger: &&Danger| danger.is_from_elsewhere() && !danger.effect.starts_with("writes");
        let Some(danger) = command.dangers.iter().find(reads) else { return };
        let is_network = command.words()[0].literal().is_some_and(is_network);
        if !is_network {
            return;
        }
        let reason = format!("`{}` takes addresses from elsewhere", danger.option);
        let mut part = Part::new(Some(Kind::Fetch), Target::opaque(command.text(), reason));
        (part.shadow, part.hides) = (true, true);
        (part.spelled, part.is_name) = (Some(self.whole(command)), true);
        self.parts.push(part);
    }

    fn add_many_hosts(&mut self, text: &str) {
        let reason = "it has more addresses than are looked at".to_owned();
        let mut part = Part::new(Some(Kind::Fetch), Target::opaque(text.to_owned(), reason));
        (part.shadow, part.hides) = (true, true);
        self.parts.push(part);
    }

    fn add_named_host(&mut self, name: &str, is_vague: bool) {
        if name.len() <= MAX_NAME && !host::is_plain_number(name) {
            let mut part = Part::new(Some(Kind::Fetch), Target::Host(host::parse(name)));
            (part.shadow, part.is_text, part.vague) = (true, true, is_vague);
            self.parts.push(part);
        }
    }
}

/// Whether words of the command can be code, or it is a program of which nothing is known.
pub(super) fn takes_code(command: &Command) -> bool {
    const AWK: [&str; 6] = ["awk", "gawk", "mawk", "nawk", "original-awk", "bwk"];
    let Some(name) = command.words().first().and_then(Word::literal) else { return false };
    let is_code = |danger: &Danger| danger.effect.contains("code");
    command.dangers.iter().any(is_code) || AWK.contains(&&*base_name(name)) || is_unknown_program(name)
}

/// The values that can be joined with the options of a word, and whether the value begins behind the first letter. Returns nothing if
/// these are more than are looked at.
fn joined_values(text: &str) -> Option<Vec<(&str, bool)>> {
    /// No program has more short options in one word.
    const MAX_OPTIONS: usize = 64;
    let is_option = |c: char| c.is_alphanumeric() || "#:?!%+,".contains(c);
    let mut found = Vec::new();
    let mut before = None;
    for (count, (at, c)) in text.char_indices().skip(1).enumerate() {
        if let Some(before) = before {
            let is_split_number = c.is_ascii_digit() && char::is_ascii_digit(&before);
            if count > MAX_OPTIONS {
                return None;
            }
            if count == 1 || !is_split_number {
                found.push((&text[at..], count == 1));
            }
        }
        if count > 0 && !is_option(c) {
            break;
        }
        before = Some(c);
    }
    Some(found)
}

/// The texts in code that can be hosts. Returns nothing if these are more than are looked at.
fn hosts_of_code(text: &str) -> Option<Vec<&str>> {
    /// Code with more texts is not read.
    const MAX_HOSTS: usize = 600;
    let is_of_host = |c: char| c.is_alphanumeric() || ".-_:%[]".contains(c) || !c.is_ascii();
    if text.chars().all(is_of_host) {
        return Some(Vec::new());
    }
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut from = 0;
    let ends = text.char_indices().filter(|(_, c)| !is_of_host(*c)).map(|(at, c)| (at, c.len_utf8()));
    for (at, length) in ends.chain([(text.len(), 0)]) {
        let name = &text[from..at];
        // A number is an address only behind a sign that texts and addresses have.
        let is_number = name.starts_with(|c: char| c.is_ascii_digit()) && name.matches('.').count() < 3;
        let is_quoted = text[..from].ends_with(['"', '\'', '/', '@', '`']);
        if !name.is_empty() && name.len() <= MAX_NAME && (!is_number || is_quoted) && seen.insert(name) {
            found.push(name);
        }
        if found.len() > MAX_HOSTS {
            return None;
        }
        from = at + length;
    }
    Some(found)
}

/// The values of `name=value` in a word, also of several.
fn settings(text: &str) -> impl Iterator<Item = &str> {
    /// Further ones are not looked at.
    const MAX_SETTINGS: usize = 16;
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
    let words = text.split([' ', '\t', '\n', ';', ',']).filter_map(|word| word.split_once('='));
    let is_number = |(name, value): &(&str, &str)| value.parse::<u16>().is_ok() && !name.contains("host");
    let values = words.filter(move |setting| is_name(setting.0) && !is_number(setting));
    values.map(|(_, value)| value.trim_matches(['"', '\''])).filter(|value| !value.is_empty()).take(MAX_SETTINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_begins_behind_each_joined_option() {
        let found =
            |text| joined_values(text).unwrap_or_default().into_iter().map(|(value, _)| value).collect::<Vec<_>>();
        assert!(found("-sxevil.example").contains(&"evil.example"));
        assert!(found("-xevil.example").contains(&"evil.example"));
        assert!(!found("-xgood.evil.example").contains(&"evil.example"));
        assert_eq!(found("-sm10"), ["m10", "10"]);
        assert!(found("-x").is_empty());
        assert!(joined_values(&format!("-{}", "s".repeat(80))).is_none());
    }

    #[test]
    fn hosts_of_code_are_found_without_their_signs() {
        for code in
            ["fetch(\"http://evil.example\")", "connect(('evil.example', 80))", "a\"/inet/tcp/0/evil.example/80\""]
        {
            assert!(hosts_of_code(code).is_some_and(|hosts| hosts.contains(&"evil.example")), "{code}");
        }
        assert_eq!(hosts_of_code("print(0.5, 'a')").unwrap_or_default(), ["print", "a"]);
        assert!(hosts_of_code("evil.example").is_some_and(|hosts| hosts.is_empty()));
    }
}
