//! Addresses of requests, and the hosts of rules.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Longer addresses are not read.
const MAX_TEXT: usize = 4096;

/// The address of a tool call.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) text: String,
    /// Every host that a program could read in the address, for rules that deny.
    names: Vec<String>,
    port: Option<u16>,
    /// The usual port of the scheme.
    usual: Option<u16>,
    /// The host and the port, if the address is of a form that every tool understands in the same way.
    known: Option<(String, Option<u16>)>,
}

/// Reads an address.
pub(crate) fn parse(text: &str) -> Host {
    let known = if text.len() > MAX_TEXT { None } else { known(text) };
    let names = if text.len() > MAX_TEXT { Vec::new() } else { names(text) };
    let port = known.as_ref().and_then(|(_, port)| *port);
    let scheme = text.split_once("://").map(|(scheme, _)| scheme).filter(|_| known.is_some());
    let usual = scheme.map(|scheme| if scheme.eq_ignore_ascii_case("http") { 80 } else { 443 });
    let text = text.chars().take(200).collect();
    Host { text, names, port, usual, known }
}

impl Host {
    /// The names of the host, and of the hosts above it.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        let above = |name: &'_ String| name.match_indices('.').map(|(at, _)| at + 1).collect::<Vec<_>>();
        self.names.iter().flat_map(move |name| std::iter::once(0).chain(above(name)).map(|at| &name[at..]))
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// The pattern that allows this host.
    pub(crate) fn pattern(&self) -> Option<String> {
        let (name, port) = self.known.as_ref()?;
        Some(port.map_or_else(|| name.clone(), |port| format!("{name}:{port}")))
    }
}

/// Whether the host of an address has braces or a range, which stand for several hosts, or letters that programs can replace by
/// others: `\u{2460}27.0.0.1`.
pub(crate) fn may_be_another(text: &str) -> bool {
    let plain = unescaped(text);
    let text = plain.as_deref().unwrap_or(text);
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let is_range = |(at, _): (usize, &str)| {
        let inner = authority[at + 1..].split(']').next().unwrap_or_default();
        inner.split('%').next().is_none_or(|address| address.parse::<Ipv6Addr>().is_err())
    };
    let is_of_host = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || ".-_:@[]".contains(c);
    let is_replaced = !authority.is_ascii() && authority.chars().all(is_of_host);
    authority.contains('{') || authority.match_indices('[').any(is_range) || text.starts_with('{') || is_replaced
}

/// Whether a text is a number such as a port or a number of seconds, which names no host that can be reached.
pub(crate) fn is_plain_number(text: &str) -> bool {
    let text = text.split('/').next().unwrap_or_default().trim();
    !text.starts_with('0') && text.parse::<u16>().is_ok()
}

/// The hosts that can be in the parts of a word between `:` and `,`: `name:80:HOST:80`, `HOST::module`, `TCP4:HOST:80,bind=HOST`.
/// Returns nothing if there are more than are looked at.
pub(crate) fn inner(text: &str) -> Option<Vec<&str>> {
    /// Words of programs have a few parts.
    const MAX_PARTS: usize = 32;
    if !text.contains([':', ',']) {
        return Some(Vec::new());
    }
    let (mut found, mut start, mut is_bracketed) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        is_bracketed = c == '[' || (is_bracketed && c != ']');
        if matches!(c, ':' | ',' | '=') && !is_bracketed {
            found.push(&text[start..at]);
            start = at + c.len_utf8();
            if found.len() > MAX_PARTS {
                return None;
            }
        }
    }
    found.push(&text[start..]);
    found.retain(|part| !part.is_empty() && *part != text && !is_plain_number(part));
    Some(found)
}

/// `http` or `https`, a host of letters, digits, `-` and `.`, and a port; nothing that could be read in two ways.
fn known(text: &str) -> Option<(String, Option<u16>)> {
    let (scheme, rest) = text.split_once("://")?;
    let usual = match &*scheme.to_ascii_lowercase() {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    if text.contains('\\') || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, Some(port.parse::<u16>().ok()?))
        }
        Some(_) => return None,
        None => (authority, None),
    };
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_name = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let is_readable = host.len() < 254 && host.split('.').all(is_name);
    // A number is an address in many spellings; only the usual one is known. Programs differ in what a larger number means.
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with(|c: char| c.is_ascii_digit())
        && last.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'x');
    let is_usual = match number(&host) {
        Some(address) => address.to_string() == host,
        None => !is_number,
    };
    (is_readable && is_usual).then_some((host, port.filter(|port| *port != usual)))
}

/// Every host that could be meant.
fn names(text: &str) -> Vec<String> {
    let text = decoded(text);
    let is_scheme =
        |text: &str| ["http", "https", "ws", "wss", "ftp"].iter().any(|scheme| scheme.eq_ignore_ascii_case(text));
    let rest = match text.split_once("://") {
        Some((_, rest)) => rest,
        None => text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).map_or(&*text, |(_, rest)| rest),
    };
    let rest = rest.trim_start_matches(['/', '\\', ':']);
    let mut names = Vec::new();
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    // With `@` and `\`, programs differ in where the host begins and ends.
    let mut pieces: Vec<&str> = rest[..end].split('@').collect();
    if text.contains(['\\', '@']) {
        pieces.extend(rest.split(['/', '?', '#', '\\', '@']).take(16));
    }
    for piece in pieces {
        let host = match piece.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None if piece.matches(':').count() > 1 => piece,
            None => piece.split(':').next().unwrap_or(piece),
        };
        add_names(host, &mut names);
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn add_names(host: &str, names: &mut Vec<String>) {
    let host = host.trim_end_matches('.').to_lowercase();
    if host.is_empty() {
        return;
    }
    if let Some(canonical) = canonical(&host) {
        names.push(canonical);
    }
    if let Some(ascii) = to_ascii(&host) {
        names.push(ascii);
    }
    // Older programs write these letters differently before they look a name up.
    let labels =
        host.split('.').map(|label| label.strip_prefix("xn--").and_then(of_punycode).unwrap_or(label.to_owned()));
    let former = labels.collect::<Vec<_>>().join(".").replace(['\u{200c}', '\u{200d}'], "");
    if former.contains(['ß', 'ς']) {
        let former = former.replace('ß', "ss").replace('ς', "σ");
        names.extend(to_ascii(&former));
        names.push(former);
    }
    names.push(host);
}

/// The name in the form in which it is looked up, if it has other letters than those of ASCII.
fn to_ascii(host: &str) -> Option<String> {
    if host.is_ascii() {
        return None;
    }
    let labels: Option<Vec<String>> = host
        .split('.')
        .map(|label| if label.is_ascii() { Some(label.to_owned()) } else { Some(format!("xn--{}", punycode(label)?)) })
        .collect();
    Some(labels?.join("."))
}

/// Encodes a label, as RFC 3492 says.
fn punycode(label: &str) -> Option<String> {
    const BASE: u32 = 36;
    /// Longer labels are no names of hosts.
    const MAX_LABEL: usize = 63;
    let digit = |value: u32| char::from_digit((value + 10) % BASE, BASE);
    let chars: Vec<u32> = label.chars().map(u32::from).collect();
    let mut encoded: String = label.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(encoded.len()).ok()?;
    if chars.len() > MAX_LABEL {
        return None;
    }
    if basic > 0 {
        encoded.push('-');
    }
    let (mut next, mut delta, mut bias, mut handled) = (128, 0_u32, 72, basic);
    while (handled as usize) < chars.len() {
        let least = chars.iter().copied().filter(|c| *c >= next).min()?;
        delta = delta.checked_add((least - next).checked_mul(handled + 1)?)?;
        next = least;
        for c in &chars {
            if *c < next {
                delta += 1;
            } else if *c == next {
                let (mut rest, mut at) = (delta, BASE);
                loop {
                    let limit = at.saturating_sub(bias).clamp(1, 26);
                    if rest < limit {
                        break;
                    }
                    encoded.push(digit(limit + (rest - limit) % (BASE - limit))?);
                    rest = (rest - limit) / (BASE - limit);
                    at += BASE;
                }
                encoded.push(digit(rest)?);
                delta /= if handled == basic { 700 } else { 2 };
                delta += delta / (handled + 1);
                bias = 0;
                while delta > 455 {
                    delta /= 35;
                    bias += BASE;
                }
                bias += BASE * delta / (delta + 38);
                (delta, handled) = (0, handled + 1);
            }
        }
        (delta, next) = (delta + 1, next + 1);
    }
    Some(encoded)
}

/// Decodes a label, as RFC 3492 says.
fn of_punycode(label: &str) -> Option<String> {
    const BASE: u32 = 36;
    const MAX_LABEL: usize = 63;
    let (basic, encoded) = label.rsplit_once('-').unwrap_or(("", label));
    let mut chars: Vec<char> = basic.chars().collect();
    let (mut next, mut at, mut bias) = (128_u32, 0_u32, 72_u32);
    let mut digits = encoded.chars().map(|c| c.to_digit(BASE).map(|digit| (digit + 26) % BASE)).peekable();
    while digits.peek().is_some() {
        let (before, mut weight, mut place) = (at, 1_u32, BASE);
        loop {
            let digit = digits.next()??;
            at = at.checked_add(digit.checked_mul(weight)?)?;
            let limit = place.saturating_sub(bias).clamp(1, 26);
            if digit < limit {
                break;
            }
            weight = weight.checked_mul(BASE - limit)?;
            place += BASE;
        }
        let count = u32::try_from(chars.len()).ok()? + 1;
        let mut delta = (at - before) / if before == 0 { 700 } else { 2 };
        delta += delta / count;
        bias = 0;
        while delta > 455 {
            delta /= 35;
            bias += BASE;
        }
        bias += BASE * delta / (delta + 38);
        next = next.checked_add(at / count)?;
        at %= count;
        if chars.len() >= MAX_LABEL {
            return None;
        }
        chars.insert(at as usize, char::from_u32(next)?);
        at += 1;
    }
    Some(chars.into_iter().collect())
}

/// The one spelling of an address. All names of this machine are one.
fn canonical(host: &str) -> Option<String> {
    const LOOPBACK: &str = "localhost";
    if host == LOOPBACK || host.ends_with(".localhost") || host == "localhost.localdomain" || host == "ip6-localhost" {
        return Some(LOOPBACK.to_owned());
    }
    let v4 = match host.split('%').next().unwrap_or(host).parse::<Ipv6Addr>() {
        Ok(address) => match embedded(address) {
            Some(v4) => v4,
            None if address.is_loopback() || address.is_unspecified() => return Some(LOOPBACK.to_owned()),
            None => return Some(address.to_string()),
        },
        Err(_) => number(host)?,
    };
    Some(if v4.is_loopback() || v4.octets()[0] == 0 { LOOPBACK.to_owned() } else { v4.to_string() })
}

/// The IPv4 address inside of an IPv6 one: mapped, compatible, translated or tunnelled.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match parts {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(of(high, low)),
        [0x64, 0xff9b, .., high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(of(high, low)),
        _ => None,
    }
}

/// An IPv4 address as programs read numbers: one to four parts, each decimal, octal or hexadecimal.
fn number(host: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = host.split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    let mut values = Vec::new();
    for part in &parts {
        let lower = part.to_ascii_lowercase();
        let (digits, radix) = match lower.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
            None => (&*lower, 10),
        };
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) || part.is_empty() {
            return None;
        }
        let digits = digits.trim_start_matches('0');
        let value = if digits.is_empty() { 0 } else { u64::from_str_radix(digits, radix).ok()? };
        values.push(value);
    }
    let (last, first) = values.split_last()?;
    let room = 32 - 8 * first.len();
    if first.iter().any(|value| *value > 255) || (room < 64 && *last >= 1 << room) {
        return None;
    }
    let head = first.iter().enumerate().map(|(at, value)| value << (24 - 8 * at)).sum::<u64>();
    u32::try_from(head + last).ok().map(Ipv4Addr::from)
}

/// The text without its escapes, if it has some.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    text.contains('%').then(|| decoded(text)).filter(|plain| plain != text)
}

/// Removes what programs remove from an address: escapes, wide forms, invisible characters.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, more @ ..] = rest {
        let hex = more.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| *byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &more[2..];
            }
            None => {
                bytes.push(*byte);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes)
        .chars()
        .filter(|c| !matches!(c, '\t' | '\n' | '\r' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}'))
        .map(|c| match c {
            '\u{3002}' | '\u{ff0e}' | '\u{ff61}' => '.',
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
            '\u{24d0}'..='\u{24e9}' => char::from_u32(u32::from(c) - 0x24d0 + u32::from('a')).unwrap_or(c),
            '\u{24b6}'..='\u{24cf}' => char::from_u32(u32::from(c) - 0x24b6 + u32::from('a')).unwrap_or(c),
            c => c,
        })
        .collect::<String>()
        .trim()
        .to_owned()
}

/// The host of a rule: a name, `*.name` for the names below it, or `*`; and a port.
#[derive(Clone, Debug)]
pub(crate) struct HostPattern {
    name: String,
    /// The one spelling of the address, for rules that deny.
    canonical: Option<String>,
    port: Option<u16>,
}

impl HostPattern {
    /// Reads a host.
    ///
    /// # Errors
    /// Why the pattern is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.to_lowercase();
        let wrong = || {
            format!(
                "expected a host such as `example.com`, `*.example.com`, `example.com:8080` or `[::1]`, got `{text}`"
            )
        };
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (name, port) = match bracketed {
            Some((name, rest)) => (name, rest.strip_prefix(':')),
            None if text.parse::<Ipv6Addr>().is_ok() => (&*text, None),
            None => match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (&*text, None),
            },
        };
        let port = port.map(|port| port.parse().map_err(|_| wrong())).transpose()?;
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_v6 = name.parse::<Ipv6Addr>().is_ok();
        let labels = name.strip_prefix("*.").unwrap_or(name);
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        // `.example.com` would match nothing.
        let is_name = !labels.is_empty() && !labels.starts_with('.') && labels.chars().all(is_plain);
        if name != "*" && !is_v6 && !is_name {
            return Err(wrong());
        }
        let name = to_ascii(name).unwrap_or_else(|| name.to_owned());
        Ok(Self { canonical: canonical(&name), name, port })
    }

    /// The names by which a host that matches can be found: its own, or that of the hosts above it.
    pub(crate) fn keys(&self) -> Option<impl Iterator<Item = &str>> {
        let name = self.name.strip_prefix("*.").unwrap_or(&self.name);
        (!name.contains('*')).then(|| std::iter::once(name).chain(self.canonical.as_deref()))
    }

    /// An address that matches.
    pub(crate) fn witness(&self) -> String {
        let name = self.name.replace('*', "host");
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        if name.contains(':') { format!("http://[{name}]{port}/") } else { format!("https://{name}{port}/") }
    }

    /// Whether a request for the host uses the port. A rule can spell the usual port.
    fn matches_port(&self, host: &Host) -> bool {
        self.port == host.port || (host.port.is_none() && self.port == host.usual)
    }

    fn matches_name(&self, host: &str) -> bool {
        match self.name.strip_prefix("*.") {
            Some(parent) => host.strip_suffix(parent).is_some_and(|below| below.len() > 1 && below.ends_with('.')),
            None => self.name == "*" || self.name == host,
        }
    }

    /// Whether the host matches; nothing if it cannot be decided. A rule without a port denies every port.
    pub(crate) fn matches_liberally(&self, host: &Host) -> Option<bool> {
        if self.name == "*" && self.port.is_none() {
            return Some(true);
        }
        let is_named = host.names.iter().any(|name| {
            self.matches_name(name)
                || self.name.strip_prefix("*.") == Some(name)
                || self.canonical.as_ref() == Some(name)
        });
        match host.known {
            Some(_) => Some(is_named && (self.port.is_none() || self.matches_port(host))),
            None => is_named.then_some(true),
        }
    }

    /// Whether the host matches for certain. A rule without a port allows the usual port only.
    pub(crate) fn matches_strictly(&self, host: &Host) -> bool {
        host.known.as_ref().is_some_and(|(name, _)| self.matches_name(name) && self.matches_port(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_denied_in_every_spelling() {
        let denied = |rule: &str, url: &str| {
            HostPattern::parse(rule).is_ok_and(|rule| rule.matches_liberally(&parse(url)) == Some(true))
        };
        for url in [
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://0xA9.0xFE.0xA9.0xFE/",
            "http://169.254.43518/",
            "http://169.16689662/",
            "http://0251.0376.0251.0376/",
            "http://025177524776/",
            "http://169.254.169.254./",
            "http://[::ffff:169.254.169.254]/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://[::169.254.169.254]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[2002:a9fe:a9fe::]/",
            "http://user:pw@169.254.169.254/",
            "http://a@b@169.254.169.254:80/",
            "http://169.254.169.254\\@docs.example/",
            "http://１６９.254.169.254/",
            "http://169。254。169。254/",
            "http://%31%36%39.254.169.254/",
            "169.254.169.254/latest",
            "//169.254.169.254/",
            "ftp://169.254.169.254/",
            "http:169.254.169.254",
        ] {
            assert!(denied("169.254.169.254", url), "{url} {:?}", parse(url));
        }
        for url in [
            "http://127.1/",
            "http://0/",
            "http://0x7f000001/",
            "http://[::1]/",
            "http://[::]/",
            "http://localhost/",
            "http://a.localhost/",
            "http://127.0.0.2/",
        ] {
            assert!(denied("127.0.0.1", url) && denied("localhost", url) && denied("[::1]", url), "{url}");
        }
        assert!(!denied("169.254.169.254", "http://169.254.169.253/"));
        for url in ["http://faß.de/", "http://xn--fa-hia.de/x", "http://FAẞ.de/"] {
            assert!(denied("fass.de", url), "{url}");
        }
        for (name, ascii) in [
            ("bücher.example", "xn--bcher-kva.example"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
            ("παράδειγμα.δοκιμή", "xn--hxajbheg2az3al.xn--jxalpdlp"),
        ] {
            let decoded = ascii.split('.').map(|label| label.strip_prefix("xn--").and_then(of_punycode));
            let decoded = decoded
                .zip(name.split('.'))
                .all(|(decoded, label)| label.is_ascii() || decoded.as_deref() == Some(label));
            assert!(decoded, "{name}");
            let (plain, encoded) = (format!("http://{name}/"), format!("https://{ascii}/x"));
            assert!(denied(name, &plain) && denied(name, &encoded) && denied(ascii, &plain), "{name}");
            assert!(HostPattern::parse(name).is_ok_and(|rule| rule.matches_strictly(&parse(&encoded))), "{name}");
        }
        assert_eq!(
            HostPattern::parse("a.example").map(|rule| rule.matches_liberally(&parse("http://d\u{43e}cs.example/"))),
            Ok(None)
        );
    }
}
