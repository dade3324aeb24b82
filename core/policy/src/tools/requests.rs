//! The addresses of requests, also those inside of other texts.

use serde_json::Value;

use super::operands::is_like_path;
use super::{Part, Taker, Target};
use crate::arguments::{all_texts, key, texts};
use crate::host;
use crate::kinds::Kind;

/// How many addresses are looked for in the texts of a call.
const MAX_ADDRESSES: usize = 100;
/// How many proxies of a text, and of a variable, are looked at.
const MAX_PROXIES: usize = 64;

/// Finds the addresses with a scheme in a text, also those that are escaped. Returns whether there are more.
pub(super) fn find_addresses(text: &str, found: &mut Vec<String>) -> bool {
    /// Longer addresses in a text are cut.
    const MAX_ADDRESS: usize = 2048;
    /// How often an address can be escaped.
    const MAX_ESCAPES: usize = 3;
    /// Escapes in longer texts are not read.
    const MAX_ESCAPED: usize = 64 << 10;
    let mut unescaped = None;
    for _ in 0..=MAX_ESCAPES {
        let text = unescaped.as_deref().unwrap_or(text);
        for (count, (at, _)) in text.match_indices("://").enumerate() {
            if count.max(found.len()) >= MAX_ADDRESSES {
                return true;
            }
            let scheme = text[..at].bytes().rev().take(16).take_while(u8::is_ascii_alphanumeric).count();
            let rest = &text[at..];
            let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>');
            let end = rest.char_indices().take(MAX_ADDRESS).find(|(_, c)| is_end(*c)).map(|(at, _)| at);
            let end = end.unwrap_or_else(|| rest.char_indices().nth(MAX_ADDRESS).map_or(rest.len(), |(at, _)| at));
            let address = &text[at - scheme..at + end];
            if !found.iter().any(|known| known == address) {
                found.push(address.to_owned());
            }
        }
        if text.len() > MAX_ESCAPED {
            return ["%3a", "%3A", "%25"].iter().any(|escape| text.contains(escape));
        }
        match host::unescaped(text) {
            Some(plain) => unescaped = Some(plain),
            None => return false,
        }
    }
    false
}

/// Whether a variable can name a host that a program reaches, such as `GOPROXY` and `PIP_INDEX_URL`.
fn names_host(name: &str, value: &str) -> bool {
    name.to_ascii_lowercase().ends_with("proxy") || value.contains("://")
}

/// The hosts in the values of such a variable, which can be a list.
fn hosts_of(value: &str) -> impl Iterator<Item = &str> {
    value.split([',', '|', ' ']).filter(|host| !host.is_empty())
}

/// The hosts in the assignments of a shell text, such as `https_proxy=proxy.example:80`. Returns nothing if there are more than are
/// looked at.
fn assigned_hosts(text: &str) -> Option<Vec<&str>> {
    /// Longer values are cut.
    const MAX_VALUE: usize = 1024;
    /// Longer texts cannot be decided in any case.
    const MAX_TEXT: usize = 64 << 10;
    if text.len() > MAX_TEXT {
        return None;
    }
    let is_space = |c: char| c.is_whitespace() || matches!(c, ';' | '&' | '(' | ')');
    let lower = text.to_ascii_lowercase();
    let names = lower.match_indices("proxy=").map(|(at, name)| at + name.len());
    // The value begins behind the first `=` of the word.
    let addresses = lower.match_indices("://").filter_map(|(at, _)| {
        let from = (0..=at.saturating_sub(MAX_VALUE)).rev().find(|from| lower.is_char_boundary(*from))?;
        let word = &lower[lower[from..at].rfind(is_space).map_or(from, |space| from + space)..at];
        let name =
            word.split('=').next().unwrap_or(word).trim_start_matches(|c| is_space(c) || matches!(c, '"' | '\''));
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        word.find('=').filter(|_| is_name).map(|sign| at - word.len() + sign + 1)
    });
    let mut starts: Vec<usize> = names.chain(addresses).take(MAX_PROXIES + 1).collect();
    if starts.len() > MAX_PROXIES {
        return None;
    }
    starts.sort_unstable();
    starts.dedup();
    let mut found = Vec::new();
    for start in starts {
        let rest = &text[start..];
        let end = (MAX_VALUE.min(rest.len())..=rest.len()).find(|end| rest.is_char_boundary(*end))?;
        let rest = rest[..end].trim_start_matches(['"', '\'']);
        let is_end = |c: char| is_space(c) || matches!(c, '"' | '\'');
        found.extend(rest.split(is_end).next().into_iter().flat_map(hosts_of));
    }
    Some(found)
}

impl Taker<'_> {
    /// Adds the proxies that variables set for a command: only a rule that names one is about them.
    pub(super) fn add_proxies(&mut self) {
        if !self.needs.hosts {
            return;
        }
        let mut commands = Vec::new();
        self.known.commands.iter().for_each(|command| texts(command, &mut commands));
        let variables = self.known.variables.iter().filter(|(name, value)| names_host(name, value));
        let mut hosts: Vec<host::Host> = variables.flat_map(|(_, value)| hosts_of(value)).map(host::parse).collect();
        let assigned: Option<Vec<Vec<&str>>> = commands.iter().map(|text| assigned_hosts(text)).collect();
        if assigned.is_none() {
            self.opaque(Some(Kind::Fetch), "it has more addresses than are looked at");
            if let Some(part) = self.parts.last_mut() {
                (part.shadow, part.hides) = (true, true);
            }
        }
        hosts.extend(assigned.unwrap_or_default().into_iter().flatten().map(host::parse));
        for host in hosts {
            self.add_shadow(Some(Kind::Fetch), Target::Host(host));
            if let Some(part) = self.parts.last_mut() {
                part.is_text = true;
            }
        }
    }

    /// Adds the files that a request sends: `@file` and `name=@file`, as curl reads them, and addresses of files.
    pub(super) fn add_sent_files(&mut self, by_name: Option<Kind>, by_agent: Option<Kind>) {
        /// Further texts are not looked at, and longer ones name no file.
        const MAX_TEXTS: usize = 200;
        const MAX_TEXT: usize = 1024;
        /// Arguments for a search or a model.
        const ASKED: [&str; 6] = ["query", "queries", "q", "prompt", "question", "description"];
        if ![by_name, by_agent].contains(&Some(Kind::Fetch)) {
            return;
        }
        let Some(arguments) = self.call.arguments else { return };
        let (found, _) = all_texts(arguments);
        let mut asked = Vec::new();
        let is_asked = |(name, _): &(&String, &Value)| ASKED.contains(&&*key(name));
        arguments.iter().filter(is_asked).for_each(|(_, value)| texts(value, &mut asked));
        // The same text can be that of another argument, too.
        let is_sent = |text: &&str| !text.contains('\n') && !asked.iter().any(|asked| std::ptr::eq(*asked, *text));
        let mut is_cut = false;
        for (count, text) in found.into_iter().filter(is_sent).enumerate() {
            is_cut |= count >= MAX_TEXTS;
            if text.len() > MAX_TEXT || is_cut {
                continue;
            }
            let begins = |text: &'_ str| text.starts_with(['@', '<']) && text.len() > 1;
            // `name=@file;type=text/plain`, also behind `&`.
            let is_address = text.starts_with("http");
            let values = text.split('&').filter(|_| !is_address).filter_map(|field| field.split_once('='));
            let values = values.map(|(_, value)| value.trim_matches('"')).filter(|value| begins(value));
            let whole = Some(text).filter(|text| begins(text));
            for marked in whole.into_iter().chain(values).take(8) {
                let path = marked[1..].trim_start_matches('"');
                let path = path.split([';', ',', '"']).next().unwrap_or(path);
                // Some services use `@` for names of people.
                let is_file = is_like_path(path) && !path.contains(char::is_whitespace);
                self.add_sent_file(path, is_file);
            }
            if let Some(path) = text.get(..5).filter(|start| start.eq_ignore_ascii_case("file:")).map(|_| text) {
                self.add_sent_file(path, true);
            } else if is_like_path(text) && !text.contains("://") && !text.contains(char::is_whitespace) {
                self.add_sent_file(text, false);
            }
        }
        if is_cut {
            self.opaque(Some(Kind::Read), "it has more texts than are looked at");
            self.parts.last_mut().into_iter().for_each(|part| (part.shadow, part.hides) = (true, true));
        }
    }

    fn add_sent_file(&mut self, path: &str, is_certain: bool) {
        let target = self.file_target(Some(Kind::Read), path);
        let mut part = Part::new(Some(Kind::Read), target);
        (part.shadow, part.is_text) = (!is_certain, !is_certain);
        self.parts.push(part);
    }

    pub(super) fn take_hosts(&mut self, kind: Option<Kind>) {
        let mut hosts: Vec<host::Host> = self.known.urls.iter().map(|text| host::parse(text)).collect();
        // Some tools take the address inside of a text for the model.
        let (texts, mut is_cut) = self.call.arguments.map(all_texts).unwrap_or_default();
        let mut found = Vec::new();
        is_cut |= texts.into_iter().any(|text| find_addresses(text, &mut found));
        hosts.extend(found.iter().map(|text| host::parse(text)));
        if hosts.is_empty() || is_cut {
            self.opaque(
                kind,
                if is_cut { "it has more addresses than are looked at" } else { "the arguments name no address" },
            );
        }
        for host in hosts {
            self.add(kind, Target::Host(host));
        }
    }
}
