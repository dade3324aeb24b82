//! The addresses of requests, also those inside of other texts.

use super::{Taker, Target};
use crate::arguments::{all_texts, texts};
use crate::host;
use crate::kinds::Kind;

/// How many addresses are looked for in the texts of a call.
const MAX_ADDRESSES: usize = 100;

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

/// The hosts of proxies in the assignments of a shell text, such as `https_proxy=proxy.example:80`.
fn proxies(text: &str) -> Vec<&str> {
    /// Further ones are not looked at.
    const MAX_PROXIES: usize = 16;
    let lower = text.to_ascii_lowercase();
    let starts = lower.match_indices("_proxy=").map(|(at, name)| at + name.len()).take(MAX_PROXIES);
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '&' | '|' | ')');
    let values = starts.filter_map(|at| text[at..].trim_start_matches(['"', '\'']).split(is_end).next());
    values.filter(|value| !value.is_empty()).collect()
}

impl Taker<'_> {
    /// Adds the proxies that variables set for a command: only a rule that names one is about them.
    pub(super) fn add_proxies(&mut self) {
        if !self.needs.hosts {
            return;
        }
        let mut commands = Vec::new();
        self.known.commands.iter().for_each(|command| texts(command, &mut commands));
        let is_proxy = |(name, _): &&(&str, &str)| name.to_ascii_lowercase().ends_with("_proxy");
        let variables = self.known.variables.iter().filter(is_proxy).map(|(_, value)| *value);
        let hosts: Vec<host::Host> =
            commands.iter().flat_map(|text| proxies(text)).chain(variables).map(host::parse).collect();
        for host in hosts {
            self.add_shadow(Some(Kind::Fetch), Target::Host(host));
            if let Some(part) = self.parts.last_mut() {
                part.is_text = true;
            }
        }
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
