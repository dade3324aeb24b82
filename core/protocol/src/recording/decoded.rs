//! Secrets in other spellings: a line is decoded as the usual encoders would have written it, and searched for the decoded secrets.
//!
//! The decoder knows escapes of JSON, JavaScript, Python and git behind any number of backslashes, percent-encoding that was
//! repeated any number of times, and entities of HTML. It reads each byte once, and holds a part of the line at a time.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem::Finder;

use super::literals::Literals;
use super::redact::{MASK, SHORTEST, SHORTEST_PART};

/// The bytes that are decoded at a time, besides those of the longest secret.
const CHUNK: usize = 64 << 10;
/// The longest beginning of a secret that is found at the end of a text, in bytes.
const LONGEST_BEGINNING: usize = 1 << 10;
/// The longest escape that a text can end within, in bytes.
const LONGEST_TOKEN: usize = 16;
/// Stands for the end of a text of JSON. No text in UTF-8 has this byte.
const BARRIER: u8 = 0xff;
/// The entities of HTML with names.
const ENTITIES: [(&[u8], u8); 5] =
    [(b"amp;", b'&'), (b"lt;", b'<'), (b"gt;", b'>'), (b"quot;", b'"'), (b"apos;", b'\'')];

/// The decoded secrets.
#[derive(Default)]
pub(super) struct Decoded {
    secrets: Vec<Finder<'static>>,
    longest: usize,
    /// Whether a secret has a character that each level of JSON escapes again.
    has_escaped: bool,
}

impl Decoded {
    /// Adds a secret. Python writes characters of Latin-1 as single bytes.
    pub(super) fn add(&mut self, secret: &str) {
        self.has_escaped |= secret.contains(['"', '\\']) || secret.contains(char::is_control);
        let latin = secret.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect::<Option<Vec<u8>>>();
        for form in [Some(secret.as_bytes().to_vec()), latin].into_iter().flatten() {
            let (bytes, _) = decoded(&form, false);
            // A secret that looks encoded itself is decoded to its own text if an encoder has spelled all of it.
            self.add_bytes(&bytes);
            self.add_bytes(&form);
        }
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        if bytes.len() >= SHORTEST && self.secrets.iter().all(|known| known.needle() != bytes) {
            self.longest = self.longest.max(bytes.len());
            self.secrets.push(Finder::new(bytes).into_owned());
        }
    }

    /// Returns the line with the mask in place of secrets that are spelled in another way, and of beginnings of such secrets
    /// at the ends of texts: an agent can send a text again with more. The main search finds the spellings of `known`, also
    /// if a text ends within one, so that they stay.
    pub(super) fn masked<'a>(&self, line: &'a [u8], known: &Literals) -> Cow<'a, [u8]> {
        if self.secrets.is_empty() || !self.may_hide(line) {
            return Cow::Borrowed(line);
        }
        let mut found = self.found(line, known);
        if found.is_empty() {
            return Cow::Borrowed(line);
        }
        found.sort_by_key(|range| range.start);
        let (mut out, mut copied) = (Vec::with_capacity(line.len()), 0);
        for range in found {
            if range.start >= copied {
                out.extend_from_slice(&line[copied..range.start]);
                out.extend_from_slice(MASK.as_bytes());
            }
            copied = copied.max(range.end);
        }
        out.extend_from_slice(&line[copied..]);
        Cow::Owned(out)
    }

    /// Returns whether something is encoded that more than the next level of JSON decodes.
    fn may_hide(&self, line: &[u8]) -> bool {
        memchr::memchr3_iter(b'\\', b'%', b'&', line).any(|at| match (line[at], line.get(at + 1)) {
            (b'%', next) => next.is_some_and(u8::is_ascii_hexdigit),
            (b'&', next) => next.is_some_and(|next| matches!(next, b'#' | b'a' | b'l' | b'g' | b'q')),
            (_, Some(b'u' | b'U' | b'x' | b'0'..=b'3')) => true,
            _ => self.has_escaped,
        })
    }

    /// Returns the places of secrets in the line, except those in known spellings.
    fn found(&self, line: &[u8], known: &Literals) -> Vec<Range<usize>> {
        let is_json = line.trim_ascii_start().starts_with(b"{") || line.trim_ascii_start().starts_with(b"[");
        let mut found = Vec::new();
        // Each decoded byte, and where its token begins.
        let (mut bytes, mut starts): (Vec<u8>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < line.len() {
            while at < line.len() && bytes.len() < CHUNK + self.longest {
                let (token, next) = token(line, at, is_json);
                for byte in token.bytes() {
                    bytes.push(*byte);
                    starts.push(at);
                }
                at = next;
            }
            starts.push(at);
            for secret in &self.secrets {
                for begin in secret.find_iter(&bytes) {
                    let last = begin + secret.needle().len() - 1;
                    let end = starts[last..].iter().find(|start| **start > starts[last]).copied().unwrap_or(at);
                    let range = starts[begin]..end;
                    let spelled = &line[range.clone()];
                    if spelled != secret.needle() && !known.has_secret(spelled) {
                        found.push(range);
                    }
                }
            }
            if is_json {
                let mut start = 0;
                for end in memchr::memchr_iter(BARRIER, &bytes) {
                    found.extend(self.beginning(line, &bytes[start..end], &starts[start..=end], known));
                    start = end + 1;
                }
            }
            starts.pop();
            // A secret can continue.
            let done = bytes.len().saturating_sub(self.longest);
            bytes.drain(..done);
            starts.drain(..done);
        }
        found
    }
}

impl Decoded {
    /// Returns the place of the beginning of a secret with which a text ends, if it is spelled in another way. The text may end
    /// within an escape. `starts` has one more place than the text has bytes.
    fn beginning(&self, line: &[u8], text: &[u8], starts: &[usize], known: &Literals) -> Option<Range<usize>> {
        let end = *starts.last()?;
        let reach = text.len().saturating_sub(LONGEST_BEGINNING);
        let begins = |begin: usize, last: usize| {
            let part = &text[begin..last];
            let range = starts[begin]..end;
            // Each byte that is spelled as itself is one byte of the line.
            let is_encoded = end - starts[begin] > part.len();
            let is_beginning =
                |secret: &Finder<'_>| secret.needle().len() > part.len() && secret.needle().starts_with(part);
            let is_found =
                is_encoded && self.secrets.iter().any(is_beginning) && !known.may_begin(&line[range.clone()]);
            is_found.then_some(range)
        };
        // An escape that is not complete is decoded to other characters.
        let near = (reach..text.len()).rev().take_while(|at| end - starts[*at] <= LONGEST_TOKEN);
        let cuts = near.filter(|at| may_continue(&line[starts[*at]..end]));
        let lasts = std::iter::once(text.len()).chain(cuts);
        let found = lasts
            .filter_map(|last| (reach..(last + 1).saturating_sub(SHORTEST_PART)).find_map(|begin| begins(begin, last)));
        found.min_by_key(|range| range.start)
    }
}

/// Returns whether a text is an escape that is not complete.
fn may_continue(text: &[u8]) -> bool {
    let is_hex = |digits: &[u8], length: usize| digits.len() < length && digits.iter().all(u8::is_ascii_hexdigit);
    match text {
        [b'%', rest @ ..] => {
            let mut rest = rest;
            while let Some(inner) = rest.strip_prefix(b"25") {
                rest = inner;
            }
            is_hex(rest, 2)
        }
        [b'&', name @ ..] => {
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
            name.strip_suffix(b"amp;").unwrap_or(name).iter().all(is_name)
        }
        // The escapes of the line are complete.
        [b'\\', b'\\', rest @ ..] => match &rest[rest.iter().take_while(|byte| **byte == b'\\').count()..] {
            [b'u', b'{', digits @ ..] => is_hex(digits, 7),
            [b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', _, _, low @ ..] => {
                let low = &low[low.iter().take_while(|byte| **byte == b'\\').count()..];
                low.strip_prefix(b"u").map_or(low.is_empty(), |digits| is_hex(digits, 4))
            }
            [b'u', digits @ ..] => is_hex(digits, 4),
            [b'U', digits @ ..] => is_hex(digits, 8),
            [b'x', digits @ ..] => is_hex(digits, 2),
            octal => octal.len() < 3 && octal.iter().all(|digit| matches!(digit, b'0'..=b'7')),
        },
        _ => false,
    }
}

/// Returns the decoded text, with the place in the text that each byte of it comes from, and the end of the text.
pub(crate) fn decoded(text: &[u8], is_json: bool) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut starts, mut at) = (Vec::new(), Vec::new(), 0);
    while at < text.len() {
        let (token, next) = token(text, at, is_json);
        bytes.extend_from_slice(token.bytes());
        starts.resize(bytes.len(), at);
        at = next;
    }
    starts.push(at);
    (bytes, starts)
}

/// What a part of a text is decoded to: at most one character.
struct Token {
    bytes: [u8; 4],
    length: usize,
}

impl Token {
    const NOTHING: Self = Self { bytes: [0; 4], length: 0 };

    fn byte(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], length: 1 }
    }

    fn character(number: u32) -> Self {
        let mut bytes = [0; 4];
        let length = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut bytes).len();
        Self { bytes, length }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Decodes what begins here. Returns its end, too.
fn token(text: &[u8], at: usize, is_json: bool) -> (Token, usize) {
    match text[at] {
        b'\\' => escape(text, at, is_json),
        b'"' if is_json => (Token::byte(BARRIER), at + 1),
        b'%' => percent(text, at),
        b'&' => entity(text, at),
        // Forms of HTML have it for a space.
        b'+' => (Token::byte(b' '), at + 1),
        other => (Token::byte(other), at + 1),
    }
}

/// Reads backslashes and what they escape.
fn escape(text: &[u8], at: usize, is_json: bool) -> (Token, usize) {
    let run = text[at..].iter().take_while(|byte| **byte == b'\\').count();
    let after = at + run;
    let Some(letter) = text.get(after) else { return (Token::NOTHING, after) };
    let next = after + 1;
    match letter {
        // The quotation mark ends a text of JSON.
        b'"' if is_json && run % 2 == 0 => (Token::NOTHING, after),
        b'u' if text.get(next) == Some(&b'{') => {
            let digits = text[next + 1..].iter().take(6).take_while(|byte| byte.is_ascii_hexdigit()).count();
            let end = next + 1 + digits;
            match hex(text, next + 1, digits) {
                Some(number) if text.get(end) == Some(&b'}') => (Token::character(number), end + 1),
                _ => (Token::byte(b'u'), next),
            }
        }
        b'u' => match hex(text, next, 4) {
            Some(high @ 0xd800..0xdc00) => match low_half(text, next + 4) {
                Some((low, end)) => (Token::character(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)), end),
                None => (Token::character(high), next + 4),
            },
            Some(number) => (Token::character(number), next + 4),
            None => (Token::byte(b'u'), next),
        },
        b'U' => hex(text, next, 8).map_or((Token::byte(b'U'), next), |number| (Token::character(number), next + 8)),
        b'x' => hex(text, next, 2).map_or((Token::byte(b'x'), next), |number| (Token::byte(number as u8), next + 2)),
        b'0'..=b'3' => match text.get(after..after + 3) {
            Some(octal) if octal.iter().all(|digit| matches!(digit, b'0'..=b'7')) => {
                let number = octal.iter().fold(0, |number, digit| number * 8 + (digit - b'0'));
                (Token::byte(number), after + 3)
            }
            _ => (Token::byte(*letter), next),
        },
        b'n' => (Token::byte(b'\n'), next),
        b't' => (Token::byte(b'\t'), next),
        b'r' => (Token::byte(b'\r'), next),
        b'b' => (Token::byte(8), next),
        b'f' => (Token::byte(12), next),
        other => (Token::byte(*other), next),
    }
}

/// Reads the second half of a character, with its backslashes. Returns its end, too.
fn low_half(text: &[u8], at: usize) -> Option<(u32, usize)> {
    let run = text.get(at..)?.iter().take_while(|byte| **byte == b'\\').count();
    let digits = at + run + 1;
    let is_escape = run > 0 && text.get(at + run) == Some(&b'u');
    let low = hex(text, digits, 4).filter(|low| is_escape && (0xdc00..0xe000).contains(low))?;
    Some((low, digits + 4))
}

/// Reads a percent-encoded byte. The percent sign can be encoded itself.
fn percent(text: &[u8], at: usize) -> (Token, usize) {
    let mut digits = at + 1;
    while text[digits..].starts_with(b"25") && hex(text, digits + 2, 2).is_some() {
        digits += 2;
    }
    match hex(text, digits, 2) {
        Some(byte) => (Token::byte(byte as u8), digits + 2),
        None => (Token::byte(b'%'), at + 1),
    }
}

/// Reads an entity of HTML. The ampersand can be one itself.
fn entity(text: &[u8], at: usize) -> (Token, usize) {
    let mut name = at + 1;
    let mut read = one_entity(text, name);
    while text[name..].starts_with(b"amp;")
        && let Some(inner) = one_entity(text, name + 4)
    {
        name += 4;
        read = Some(inner);
    }
    read.unwrap_or((Token::byte(b'&'), at + 1))
}

fn one_entity(text: &[u8], name: usize) -> Option<(Token, usize)> {
    let rest = &text[name..];
    if let Some((word, byte)) = ENTITIES.iter().find(|(word, _)| rest.starts_with(word)) {
        return Some((Token::byte(*byte), name + word.len()));
    }
    let number = rest.strip_prefix(b"#")?;
    let (number, radix) = match number.first()? {
        b'x' | b'X' => (&number[1..], 16),
        _ => (number, 10),
    };
    let length = number.iter().take(8).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let value = u32::from_str_radix(std::str::from_utf8(&number[..length]).ok()?, radix).ok()?;
    let end = text.len() - number.len() + length;
    (text.get(end) == Some(&b';')).then(|| (Token::character(value), end + 1))
}

/// Returns the number that so many hexadecimal digits are.
fn hex(text: &[u8], at: usize, digits: usize) -> Option<u32> {
    let digits =
        text.get(at..at + digits).filter(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::literals::Kind;
    use super::super::spellings::percent_encoded;
    use super::*;

    fn shown(secret: &str, line: &str) -> String {
        let mut decoded = Decoded::default();
        decoded.add(secret);
        let mut known = Literals::default();
        known.add(secret, MASK, Kind::Secret);
        known.sort();
        String::from_utf8(decoded.masked(line.as_bytes(), &known).into_owned()).unwrap()
    }

    fn json(text: &str) -> String {
        serde_json::to_string(text).unwrap()
    }

    fn each(text: &str, form: impl Fn(u8) -> String) -> String {
        text.bytes().map(form).collect()
    }

    fn units(text: &str) -> String {
        text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
    }

    /// A secret in the spellings of many encoders.
    fn spellings(secret: &str) -> Vec<String> {
        let percent = percent_encoded(secret, "");
        let html = |form: fn(char) -> String| secret.chars().map(form).collect::<String>();
        let ascii = |text: &str| -> String {
            text.chars()
                .map(|letter| if letter.is_ascii() { letter.to_string() } else { units(&letter.to_string()) })
                .collect()
        };
        let mut all = vec![
            units(secret),
            units(secret).to_uppercase().replace("\\U", "\\u"),
            each(secret, |byte| format!("%{byte:02X}")),
            each(secret, |byte| format!("%{byte:02x}")),
            each(secret, |byte| format!("\\x{byte:02x}")),
            each(secret, |byte| format!("\\{byte:03o}")),
            percent.replace('%', "%25"),
            percent.replace('%', "%2525"),
            html(|letter| format!("&#{};", u32::from(letter))),
            html(|letter| format!("&#x{:x};", u32::from(letter))),
            html(|letter| format!("\\u{{{:x}}}", u32::from(letter))),
            html(|letter| format!("\\U{:08x}", u32::from(letter))),
            secret.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;"),
            secret.replace('&', "&amp;amp;").replace('"', "&amp;quot;").replace('<', "&amp;lt;"),
        ];
        let mut nested = secret.to_owned();
        for _ in 0..4 {
            nested = json(&nested);
            all.push(nested.clone());
            all.push(ascii(&nested));
        }
        all
    }

    #[test]
    fn each_spelling_is_masked_in_text_and_in_json() {
        for secret in [
            "zq9-Hidden-77x",
            "zq9/Hid\"den &77x",
            "zqé9/Hidden-77x",
            "C:\\new\\u0041\\x",
            "100% a+b<c>&d",
            "𝄞 one\ntwo\\",
        ] {
            for spelled in spellings(secret) {
                let inner = spelled.trim_matches('"');
                // The main search finds the spellings of JSON.
                let mut known = Literals::default();
                known.add(secret, MASK, Kind::Secret);
                let spelled = json(inner);
                if known.iter().any(|known| Finder::new(&known.text).find(spelled.as_bytes()).is_some()) {
                    continue;
                }
                let line = format!("{{\"a\":{},\"b\":\"c\\\\\"}}", json(&format!("before {inner} after")));
                let masked = shown(secret, &line);
                let value: Value = serde_json::from_str(&masked).unwrap();
                let shown = value["a"].as_str().unwrap().replace(['\\', '"'], "");
                assert_eq!(shown, "before *** after", "{secret:?} as {spelled}: {masked}");
                assert_eq!(value["b"], "c\\");
            }
        }
        assert_eq!(shown("zqé9/Hidden", r"'zq\xe99/Hidden'"), "'***'");
        assert_eq!(shown("zqé9/Hidden", "zq%E99/Hidden"), "***");
    }

    #[test]
    fn secret_is_found_across_chunks() {
        let secret = "zq9-Hidden-77x";
        for length in [CHUNK - 7, CHUNK, CHUNK + 3, CHUNK + 20, 3 * CHUNK - 5] {
            let line =
                format!("{}{}{}", "x".repeat(length), each(secret, |byte| format!("%{byte:02X}")), "y".repeat(CHUNK));
            assert_eq!(shown(secret, &line), format!("{}***{}", "x".repeat(length), "y".repeat(CHUNK)));
        }
    }

    #[test]
    fn other_text_stays() {
        for line in [
            r#"{"a":"zq9-Hidden-77x"}"#,
            r#"{"a":"zq9","b":"-Hidden-77x \u0041"}"#,
            r#"["\\u00", "%2", "%", "&", "&#;", "&#x;", "&amp", "\\x4", "\\18", "\\u{}"]"#,
            "%zq9-Hidden-77x\\",
        ] {
            assert_eq!(shown("zq9-Hidden-77x", line), line);
        }
    }

    proptest! {
        #[test]
        fn json_stays_json(text in "[\\\\u\"%&#x;0-9a-fzq{}é]{0,80}", deep in 0..3) {
            let line = format!("[{},\"x\"]", (0..deep).fold(json(&text), |text, _| json(&text)));
            let masked = shown("00%41\"az", &line);
            let value: Value = serde_json::from_str(&masked).unwrap();
            prop_assert_eq!(&value[1], "x");
        }
    }
}
