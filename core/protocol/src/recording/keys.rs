//! Texts that look like keys, tokens, passwords in URLs, and private keys.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The beginnings of keys, by the services that issue them and say so in their documentation.
const PREFIXES: &[&str] = &[
    // OpenAI, Anthropic, Moonshot AI and others.
    "sk-",
    // GitHub: personal, OAuth, user, installation and refresh tokens, and fine-grained personal ones.
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    // GitLab.
    "glpat-",
    // Slack: of bots, people, workspaces, and refresh tokens.
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxr-",
    // AWS: lasting and temporary access keys.
    "AKIA",
    "ASIA",
    // Google.
    "AIza",
    // Groq.
    "gsk_",
    // Hugging Face.
    "hf_",
    "npm_",
    "pypi-",
    // Stripe: secret and restricted keys.
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
];
/// The shortest key, with its beginning.
const SHORTEST_KEY: usize = 16;
/// The shortest token after `Bearer` or `Basic`.
const SHORTEST_TOKEN: usize = 8;
const JWT: &[u8] = b"eyJ";
const BEARER: &[u8] = b"bearer ";
/// The scheme in front of a name and a password in Base64.
const BASIC: &[u8] = b"basic ";
/// The beginning of the part of a URL with a name and a password, in both spellings of JSON.
const AUTHORITY: [&[u8]; 2] = [b"//", b"\\/\\/"];
/// The longest name and the longest password that are searched for in a URL.
const LONGEST_OF_URL: usize = 256;
/// The text after the `@` in the name of an image of a container: the text in front of it is a tag, not a password.
pub(super) const DIGEST: &str = "sha256:";
const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const PEM_END: &[u8] = b"-----END ";
const PEM_KEY: &[u8] = b"PRIVATE KEY-----";

/// Returns the beginnings of all that [`find`] finds: of each two bytes, in all their spellings.
pub(super) fn beginnings() -> impl Iterator<Item = [u8; 2]> {
    let prefixes = PREFIXES.iter().map(|prefix| prefix.as_bytes()).chain([JWT, PEM_BEGIN]);
    let schemes = [*b"be", *b"bE", *b"Be", *b"BE", *b"ba", *b"bA", *b"Ba", *b"BA"];
    prefixes.chain(AUTHORITY).map(|prefix| [prefix[0], prefix[1]]).chain(schemes)
}

/// Returns the range of a secret in a text that begins with one. `before` is the byte in front of the text.
pub(super) fn find(before: Option<u8>, text: &[u8]) -> Option<Range<usize>> {
    if !may_follow(before) {
        return None;
    }
    if let Some(Password::Whole(password)) = password_of_url(before, text) {
        return Some(password);
    }
    if let Some(token) = token_after(BASIC, text, is_of_base64) {
        let (start, end) = (token.start, token.end);
        return (token.len() >= SHORTEST_TOKEN && is_name_with_password(&text[start..end])).then_some(token);
    }
    if text.starts_with(PEM_BEGIN) {
        return private_key(text);
    }
    if let Some(token) = token_after(BEARER, text, is_of_token) {
        return (token.len() >= SHORTEST_TOKEN).then_some(token);
    }
    if text.starts_with(JWT) {
        let end = text.iter().position(|byte| !is_of_jwt(*byte)).unwrap_or(text.len());
        let dots = text[..end].iter().filter(|byte| **byte == b'.').count();
        return (dots >= 2 && end >= SHORTEST_KEY).then_some(0..end);
    }
    PREFIXES.iter().find(|prefix| text.starts_with(prefix.as_bytes()))?;
    let end = text.iter().position(|byte| !is_of_name(*byte)).unwrap_or(text.len());
    (end >= SHORTEST_KEY).then_some(0..end)
}

/// Returns whether a secret may follow this byte: it is not a part of a longer word.
pub(super) fn may_follow(before: Option<u8>) -> bool {
    !before.is_some_and(is_of_name)
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
    if password_of_url(before, rest).is_some() {
        return true;
    }
    [PEM_BEGIN, BEARER, BASIC, JWT].into_iter().chain(PREFIXES.iter().map(|prefix| prefix.as_bytes())).any(begins)
}

/// Returns `Some` if a text is the beginning of a secret, or a secret that may go on: with the offset of the secret if a
/// part of the secret itself is there.
pub(super) fn growing(before: Option<u8>, text: &[u8]) -> Option<Option<usize>> {
    if !may_follow(before) {
        return None;
    }
    let is_begun = |beginning: &[u8]| beginning.starts_with(text);
    let goes_on = |rest: &[u8], is_of: fn(u8) -> bool| rest.iter().all(|byte| is_of(*byte));
    let is_scheme = |scheme: &[u8]| scheme.get(..text.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(text));
    if is_begun(PEM_BEGIN) || is_scheme(BEARER) || is_scheme(BASIC) {
        return Some(None);
    }
    match password_of_url(before, text) {
        Some(Password::Begun(password)) => return Some(password),
        // Another `@` can follow.
        Some(Password::Whole(password))
            if text.len() - password.start < LONGEST_OF_URL && end_of_authority(text, password.start).is_none() =>
        {
            return Some(Some(password.start));
        }
        _ => {}
    }
    if let Some(rest) = text.strip_prefix(PEM_BEGIN) {
        let Some(end) = memchr::memmem::find(rest, b"-----") else { return Some(None) };
        let is_key = rest[..end + 5].ends_with(PEM_KEY);
        return (is_key && memchr::memmem::find(&rest[end + 5..], PEM_END).is_none()).then_some(None);
    }
    if let Some(token) = token_after(BEARER, text, is_of_token) {
        return (token.end == text.len()).then_some(Some(token.start));
    }
    if let Some(token) = token_after(BASIC, text, is_of_base64) {
        // Words can follow `basic`, too.
        let is_token = is_name_with_password(&text[token.clone()]);
        return (token.end == text.len()).then_some(is_token.then_some(token.start));
    }
    let tokens = [(JWT, is_of_jwt as fn(u8) -> bool)];
    let words = PREFIXES.iter().map(|prefix| (prefix.as_bytes(), is_of_name as fn(u8) -> bool));
    let state = |(prefix, is_of): (&[u8], fn(u8) -> bool)| match text.strip_prefix(prefix) {
        Some([]) => Some(None),
        Some(rest) => goes_on(rest, is_of).then_some(Some(0)),
        None => prefix.starts_with(text).then_some(None),
    };
    tokens.into_iter().chain(words).find_map(state)
}

/// A private key in PEM, up to its end or the end of the text.
fn private_key(text: &[u8]) -> Option<Range<usize>> {
    let line_end = memchr::memmem::find(&text[PEM_BEGIN.len()..], b"-----")? + PEM_BEGIN.len() + 5;
    if !text[..line_end].ends_with(PEM_KEY) {
        return None;
    }
    let end = memchr::memmem::find(&text[line_end..], PEM_END).map_or(text.len(), |at| line_end + at);
    Some(line_end..end)
}

/// Returns whether a byte is a part of names: a letter, a digit, `_` or `-`.
pub(super) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// A run of these bytes has few places where a token can begin, so that each byte is read once.
fn is_of_jwt(byte: u8) -> bool {
    is_of_name(byte) || byte == b'.'
}

fn is_of_token(byte: u8) -> bool {
    is_of_name(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
}

fn is_of_base64(byte: u8) -> bool {
    is_of_name(byte) || matches!(byte, b'+' | b'/' | b'=')
}

/// Returns the range of the token in a text that begins with this scheme.
fn token_after(scheme: &[u8], text: &[u8], is_of: fn(u8) -> bool) -> Option<Range<usize>> {
    // The scheme first: a long text has many places where one may be, and few where one is.
    let is_after = |(begin, token): &(&[u8], &[u8])| begin.eq_ignore_ascii_case(scheme) && !token.is_empty();
    let (_, token) = text.split_at_checked(scheme.len()).filter(is_after)?;
    let length = token.iter().position(|byte| !is_of(*byte)).unwrap_or(token.len());
    Some(scheme.len()..scheme.len() + length)
}

/// Returns the name and the password of a text in Base64, as HTTP sends them.
pub(super) fn name_with_password(token: &[u8]) -> Option<String> {
    let any = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let any = any.with_decode_allow_trailing_bits(true);
    let decode = |alphabet| GeneralPurpose::new(alphabet, any).decode(token).ok();
    let text = String::from_utf8(decode(&STANDARD).or_else(|| decode(&URL_SAFE))?).ok()?;
    (text.contains(':') && !text.contains(char::is_control)).then_some(text)
}

fn is_name_with_password(token: &[u8]) -> bool {
    // The end can be a part of four characters.
    name_with_password(token).is_some() || name_with_password(&token[..token.len() / 4 * 4]).is_some()
}

/// The password of a URL, after the name and a colon.
enum Password {
    Whole(Range<usize>),
    /// The end of the text may be a part of it: with its beginning, if the text cannot be the port of a host.
    Begun(Option<usize>),
}

/// Finds the password in a text that begins with the slashes of a URL.
fn password_of_url(before: Option<u8>, text: &[u8]) -> Option<Password> {
    if !matches!(text.first(), Some(b'/' | b'\\')) || !matches!(before, None | Some(b':' | b'"')) {
        return None;
    }
    let begun = AUTHORITY.iter().find(|slashes| text.starts_with(slashes));
    // A quotation mark ends the text in a line of JSON.
    let Some(slashes) = begun else {
        let end = text.iter().take(AUTHORITY[1].len()).position(|byte| *byte == b'"').unwrap_or(text.len());
        let is_begun = AUTHORITY.iter().any(|slashes| slashes.starts_with(&text[..end]));
        return is_begun.then_some(Password::Begun(None));
    };
    let is_at_end = |start: usize| text.len() - start < LONGEST_OF_URL;
    let start = slashes.len();
    let is_end_of_name = |byte: &u8| matches!(byte, b':' | b'@') || ends_authority(byte);
    let Some(length) = text[start..].iter().take(LONGEST_OF_URL).position(is_end_of_name) else {
        return is_at_end(start).then_some(Password::Begun(None));
    };
    match text[start + length] {
        b':' => {}
        b'"' => return Some(Password::Begun(None)),
        _ => return None,
    }
    let start = start + length + 1;
    let end = end_of_authority(text, start);
    let authority = &text[start..end.unwrap_or(text.len().min(start + LONGEST_OF_URL))];
    // A password can contain `@`. The name of a host cannot.
    if let Some(length) = memchr::memrchr(b'@', authority) {
        let is_tag = authority[length + 1..].starts_with(DIGEST.as_bytes());
        return (length > 0 && !is_tag).then_some(Password::Whole(start..start + length));
    }
    match end {
        None if !is_at_end(start) => None,
        Some(end) if text[end] != b'"' => None,
        _ => {
            let is_port = authority.iter().all(u8::is_ascii_digit);
            Some(Password::Begun((!is_port).then_some(start)))
        }
    }
}

/// Returns the index of the byte that ends the name, password and host of a URL. `None` if the text ends before it, or if it is
/// too far away.
fn end_of_authority(text: &[u8], start: usize) -> Option<usize> {
    text[start..].iter().take(LONGEST_OF_URL).position(ends_authority).map(|length| start + length)
}

fn ends_authority(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || b"/?#\\\"'<>`".contains(byte)
}
