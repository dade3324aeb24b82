//! Texts that look like keys, tokens and private keys.

/// The beginnings of keys, by the services that issue them.
const PREFIXES: &[&str] = &[
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "AKIA",
    "ASIA",
    "AIza",
    "hf_",
    "npm_",
    "pypi-",
];
/// The shortest key, with its beginning.
const SHORTEST_KEY: usize = 16;
/// The shortest token after `Bearer`.
const SHORTEST_TOKEN: usize = 8;
const JWT: &[u8] = b"eyJ";
const BEARER: &[u8] = b"bearer ";
const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const PEM_END: &[u8] = b"-----END ";
const PEM_KEY: &[u8] = b"PRIVATE KEY-----";

/// Returns the beginnings of all that [`find`] finds: of each two bytes, in all their spellings.
pub(super) fn beginnings() -> impl Iterator<Item = [u8; 2]> {
    let prefixes = PREFIXES.iter().map(|prefix| prefix.as_bytes()).chain([JWT, PEM_BEGIN]);
    prefixes.map(|prefix| [prefix[0], prefix[1]]).chain([*b"be", *b"bE", *b"Be", *b"BE"])
}

/// Returns the range of a secret in a text that begins with one. `before` is the byte in front of the text.
pub(super) fn find(before: Option<u8>, text: &[u8]) -> Option<std::ops::Range<usize>> {
    if !may_follow(before) {
        return None;
    }
    if text.starts_with(PEM_BEGIN) {
        return private_key(text);
    }
    if text.len() > BEARER.len() && text[..BEARER.len()].eq_ignore_ascii_case(BEARER) {
        let token = &text[BEARER.len()..];
        let end = token.iter().position(|byte| !is_of_token(*byte)).unwrap_or(token.len());
        return (end >= SHORTEST_TOKEN).then(|| BEARER.len()..BEARER.len() + end);
    }
    if text.starts_with(JWT) {
        let end = text.iter().position(|byte| !is_of_token(*byte)).unwrap_or(text.len());
        let dots = text[..end].iter().filter(|byte| **byte == b'.').count();
        return (dots >= 2 && end >= SHORTEST_KEY).then_some(0..end);
    }
    PREFIXES.iter().find(|prefix| text.starts_with(prefix.as_bytes()))?;
    let end = text.iter().position(|byte| !is_of_word(*byte)).unwrap_or(text.len());
    (end >= SHORTEST_KEY).then_some(0..end)
}

/// Returns whether a secret may follow this byte: it is not a part of a longer word.
pub(super) fn may_follow(before: Option<u8>) -> bool {
    !before.is_some_and(is_of_word)
}

/// Returns whether a line may have a secret here, or the beginning of one at the end of a text.
pub(super) fn may_begin(before: Option<u8>, rest: &[u8]) -> bool {
    if !may_follow(before) {
        return false;
    }
    let begins = |text: &[u8]| {
        let same = text.iter().zip(rest).take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count();
        same == text.len() || rest.get(same).is_none_or(|byte| *byte == b'"')
    };
    [PEM_BEGIN, BEARER, JWT].into_iter().chain(PREFIXES.iter().map(|prefix| prefix.as_bytes())).any(begins)
}

/// Returns `Some` if a text is the beginning of a secret, or a secret that may go on: with the offset of the secret if a
/// part of the secret itself is there.
pub(super) fn growing(before: Option<u8>, text: &[u8]) -> Option<Option<usize>> {
    if !may_follow(before) {
        return None;
    }
    let is_begun = |beginning: &[u8]| beginning.starts_with(text);
    let goes_on = |rest: &[u8], is_of: fn(u8) -> bool| rest.iter().all(|byte| is_of(*byte));
    if is_begun(PEM_BEGIN) || text.len() <= BEARER.len() && BEARER[..text.len()].eq_ignore_ascii_case(text) {
        return Some(None);
    }
    if let Some(rest) = text.strip_prefix(PEM_BEGIN) {
        let Some(end) = memchr::memmem::find(rest, b"-----") else { return Some(None) };
        let is_key = rest[..end + 5].ends_with(PEM_KEY);
        return (is_key && memchr::memmem::find(&rest[end + 5..], PEM_END).is_none()).then_some(None);
    }
    if text.len() > BEARER.len() && text[..BEARER.len()].eq_ignore_ascii_case(BEARER) {
        return goes_on(&text[BEARER.len()..], is_of_token).then_some(Some(BEARER.len()));
    }
    let tokens = [(JWT, is_of_token as fn(u8) -> bool)];
    let words = PREFIXES.iter().map(|prefix| (prefix.as_bytes(), is_of_word as fn(u8) -> bool));
    let state = |(prefix, is_of): (&[u8], fn(u8) -> bool)| match text.strip_prefix(prefix) {
        Some([]) => Some(None),
        Some(rest) => goes_on(rest, is_of).then_some(Some(0)),
        None => prefix.starts_with(text).then_some(None),
    };
    tokens.into_iter().chain(words).find_map(state)
}

/// A private key in PEM, up to its end or the end of the text.
fn private_key(text: &[u8]) -> Option<std::ops::Range<usize>> {
    let line_end = memchr::memmem::find(&text[PEM_BEGIN.len()..], b"-----")? + PEM_BEGIN.len() + 5;
    if !text[..line_end].ends_with(PEM_KEY) {
        return None;
    }
    let end = memchr::memmem::find(&text[line_end..], PEM_END).map_or(text.len(), |at| line_end + at);
    Some(line_end..end)
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_of_token(byte: u8) -> bool {
    is_of_word(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
}
