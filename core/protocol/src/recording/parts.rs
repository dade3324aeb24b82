//! The secrets in values of options: the values themselves, and the parts of them that are secret by themselves, such as
//! the token in a header or the password in a URL.

use std::borrow::Cow;

use serde_json::Value;

use super::keys::{DIGEST, is_of_name, name_with_password};
use super::redact::{MASK, SHORTEST};
use crate::json::of_text;

/// Parts of the name of an argument, a variable or a parameter whose value is a secret.
const SECRET_PARTS: [&str; 5] = ["credential", "passphrase", "passwd", "password", "secret"];
/// The ends of words in such a name.
const SECRET_ENDS: [&str; 3] = ["key", "token", "pwd"];
/// The last words of names whose value says where the secret is.
const PLACES: [&str; 7] = ["dir", "directory", "env", "file", "name", "path", "url"];
/// The words in front of `key` if the key is not a secret.
const ORDINARY_KEYS: [&str; 9] =
    ["cache", "foreign", "group", "hot", "order", "partition", "primary", "public", "sort"];
/// The words in the names of numbers that are not secrets.
const COUNTS: [&str; 9] = ["budget", "count", "length", "limit", "max", "min", "num", "size", "tokens"];
/// The ends of words in the name of a member with headers of HTTP.
const HEADER_ENDS: [&str; 4] = ["auth", "authentication", "authorization", "header"];
/// The words in front of a token in a header.
const SCHEMES: [&str; 9] = ["api-key", "apikey", "basic", "bearer", "bot", "digest", "key", "negotiate", "token"];
/// Values that are common in ordinary text, although their names are those of secrets.
const ORDINARY: [&str; 12] = [
    "bearer", "changeme", "default", "digest", "disabled", "enabled", "optional", "password", "postgres", "private",
    "required", "secret",
];
const QUOTES: [char; 2] = ['"', '\''];
/// The characters around a token that are not a part of it.
const AROUND_TOKENS: [char; 15] = ['"', '\'', '`', ',', ';', '.', ':', '!', '?', '(', ')', '[', ']', '{', '}'];
/// The shortest value with letters and digits that is a secret under any name.
const SHORTEST_RANDOM: usize = 16;
/// The shortest part of the path of a URL, and the shortest name in a URL, that can be a token.
const SHORTEST_IN_URL: usize = 20;

/// The texts of options that must not be in a recording.
#[derive(Debug, Default)]
pub struct SecretTexts(Vec<String>);

impl SecretTexts {
    /// Returns the texts. Some can be there twice.
    pub fn into_texts(self) -> impl Iterator<Item = Cow<'static, str>> {
        self.0.into_iter().map(Cow::from)
    }

    /// Adds all texts and numbers of a value, with their parts.
    pub fn add_value(&mut self, value: &Value) {
        self.add_member(value, false);
    }

    fn add_member(&mut self, value: &Value, is_header: bool) {
        match value {
            Value::String(text) => self.add_with(text, is_header),
            Value::Number(number) => self.0.push(number.to_string()),
            Value::Array(list) => list.iter().for_each(|value| self.add_member(value, is_header)),
            Value::Object(map) => {
                for (name, value) in map {
                    self.add_member(value, is_header || is_header_name(name));
                }
            }
            _ => {}
        }
    }

    /// Adds a text that is a secret, with its parts.
    pub fn add(&mut self, text: &str) {
        self.add_with(text, false);
    }

    fn add_with(&mut self, text: &str, is_header: bool) {
        self.0.push(text.to_owned());
        let trimmed = text.trim();
        if trimmed.len() < text.len() {
            self.0.push(trimmed.to_owned());
        }
        self.add_parts(trimmed, is_header, is_random);
        if let Some(value) = json_of(trimmed) {
            self.add_member(&value, is_header);
        }
    }

    /// Adds the secrets in the arguments of a program. The other arguments are not secret.
    pub fn add_arguments(&mut self, arguments: &[String]) {
        for (at, argument) in arguments.iter().enumerate() {
            self.add_parts(argument, false, |_| false);
            if let Some(value) = json_of(argument) {
                self.add_named("", &value, false);
            }
            // A command for a shell is one argument.
            let words: Vec<String> =
                argument.split_whitespace().map(|word| word.trim_matches(QUOTES).to_owned()).collect();
            for (words, at) in [(arguments, Some(at)), (&words[..], None)] {
                let places = at.map_or(0..words.len(), |at| at..at + 1);
                let secrets =
                    places.filter_map(|at| secret_of(words, at).map(|secret| words[at][secret].trim_matches(QUOTES)));
                self.0.extend(secrets.filter(|secret| is_long(secret) && !is_ordinary(secret)).map(str::to_owned));
            }
        }
    }

    /// Adds the texts and numbers of an argument in JSON whose names are those of secrets.
    fn add_named(&mut self, name: &str, value: &Value, is_header: bool) {
        match value {
            Value::String(text) if is_secret_value(name, text) => self.add_with(text, is_header),
            Value::String(text) => self.add_parts(text, is_header, |_| false),
            Value::Number(number) if is_secret_value(name, &number.to_string()) => self.0.push(number.to_string()),
            Value::Array(list) => list.iter().for_each(|value| self.add_named(name, value, is_header)),
            Value::Object(map) => {
                for (name, value) in map {
                    self.add_named(name, value, is_header || is_header_name(name));
                }
            }
            _ => {}
        }
    }

    /// Adds the parts of a text that are secrets by themselves. `is_secret` decides about values with other names.
    fn add_parts(&mut self, text: &str, is_header: bool, is_secret: fn(&str) -> bool) {
        self.add_tokens(text, is_header);
        self.add_assigned(text, is_secret);
        for (at, _) in text.match_indices("://") {
            let url = text[at + 3..].split(|letter: char| letter.is_whitespace() || "\"'<>`".contains(letter)).next();
            self.add_parts_of_url(url.unwrap_or_default());
        }
    }

    /// Adds the tokens after schemes of authentication, and after the names of headers.
    fn add_tokens(&mut self, text: &str, is_header: bool) {
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2) {
            let scheme = pair[0].rsplit([':', '"', '\'', '=']).next().unwrap_or_default().to_ascii_lowercase();
            let token = pair[1].trim_matches(AROUND_TOKENS);
            let name = pair[0].trim_matches(QUOTES).strip_suffix(':').filter(|name| name.bytes().all(is_of_name));
            let is_named = name.is_some_and(|name| is_secret_value(name, token)) && !is_ordinary(token);
            let is_token = match (SCHEMES.contains(&&*scheme), is_header) {
                // Words of a language can follow the name, too.
                _ if is_named && (words.len() == 2 || has_letters_and_digits(token)) => true,
                (true, true) => true,
                (true, false) => has_letters_and_digits(token),
                (false, true) => words.len() == 2 && !is_word(token) && scheme.bytes().all(is_of_name),
                (false, false) => false,
            };
            if !is_token || !is_long(token) {
                continue;
            }
            self.0.push(token.to_owned());
            if scheme == "basic"
                && let Some(decoded) = name_with_password(token.as_bytes())
            {
                let password = decoded.split_once(':').map(|(_, password)| password).filter(|text| is_long(text));
                self.0.extend(password.map(str::to_owned));
                self.0.push(decoded);
            }
        }
    }

    /// Adds the values after `=` whose names or forms are those of secrets.
    fn add_assigned(&mut self, text: &str, is_secret: fn(&str) -> bool) {
        let whole = text.split_once('=').filter(|(name, _)| name.bytes().all(is_of_name)).into_iter();
        let parts = text.split(|letter: char| letter.is_whitespace() || ";&,?#".contains(letter));
        for (name, value) in whole.chain(parts.filter_map(|part| part.split_once('='))) {
            let value = value.trim_matches(QUOTES);
            if is_long(value) && !is_ordinary(value) && (is_secret_value(name, value) || is_secret(value)) {
                self.0.push(value.to_owned());
            }
        }
    }

    /// Adds the password of a URL, and the values of its query and the parts of its path that are secrets. `url` is without
    /// its scheme.
    fn add_parts_of_url(&mut self, url: &str) {
        let (url, query) = url.split('#').next().and_then(|url| url.split_once('?')).unwrap_or((url, ""));
        let (authority, path) = url.split_once('/').unwrap_or((url, ""));
        let user =
            authority.rsplit_once('@').filter(|(_, host)| !host.starts_with(DIGEST)).map_or("", |(user, _)| user);
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        if password != name && is_long(password) && !is_ordinary(password) {
            self.add_decoded(password);
        }
        for part in path.split('/').chain([name]).filter(|part| part.len() >= SHORTEST_IN_URL && is_random(part)) {
            self.add_decoded(part);
        }
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let is_secret = is_secret_value(name, value) || is_random(value);
            if is_secret && is_long(value) && !is_ordinary(value) {
                self.add_decoded(value);
            }
        }
    }

    /// Adds a part of a URL, also without its percent-encoding.
    fn add_decoded(&mut self, text: &str) {
        self.0.push(text.to_owned());
        let mut decoded = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let [first, after @ ..] = rest {
            let digits = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            decoded.push(byte.unwrap_or(*first));
            rest = if byte.is_some() { &after[2..] } else { after };
        }
        if decoded != text.as_bytes() {
            self.0.extend(String::from_utf8(decoded).ok());
        }
    }
}

/// Returns the arguments of a program with the mask instead of values whose names are those of secrets, also if they are
/// short.
pub fn masked_arguments(arguments: &[String]) -> Vec<String> {
    let masked = |at: usize| {
        let argument = &arguments[at];
        if let Some(secret) = secret_of(arguments, at) {
            return format!("{}{MASK}", &argument[..secret.start]);
        }
        if let Some(mut value) = json_of(argument)
            && mask_named("", &mut value) > 0
        {
            return value.to_string();
        }
        argument.clone()
    };
    (0..arguments.len()).map(masked).collect()
}

/// Masks the texts and numbers whose names are those of secrets. Returns their number.
fn mask_named(name: &str, value: &mut Value) -> usize {
    let is_secret = match value {
        Value::Array(list) => return list.iter_mut().map(|value| mask_named(name, value)).sum(),
        Value::Object(map) => return map.iter_mut().map(|(name, value)| mask_named(name, value)).sum(),
        Value::String(text) => !text.is_empty() && is_secret_value(name, text),
        Value::Number(number) => is_secret_value(name, &number.to_string()),
        _ => false,
    };
    if is_secret {
        *value = MASK.into();
    }
    usize::from(is_secret)
}

/// Returns the value of a text that is a list or an object in JSON.
fn json_of(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['{', '[']).then(|| of_text(text)).flatten()
}

/// Returns the part of an argument that is a secret according to its name: after `=`, after `:`, or after the argument
/// before.
fn secret_of(arguments: &[String], at: usize) -> Option<std::ops::Range<usize>> {
    let argument = arguments.get(at)?;
    if let Some((name, value)) = argument.split_once('=').filter(|(name, _)| name.bytes().all(is_of_name)) {
        let is_secret = !value.is_empty() && is_secret_value(name, value);
        return is_secret.then_some(name.len() + 1..argument.len());
    }
    if let Some((name, value)) = argument.split_once(':').filter(|(name, _)| name.bytes().all(is_of_name)) {
        let token = value.trim_start();
        let is_token = !token.is_empty() && !token.contains(char::is_whitespace);
        // `Name: value` is a header. `secrets:read` is not a secret.
        let is_header = token.len() < value.len() || has_letters_and_digits(token);
        let is_secret = is_token && is_header && is_secret_value(name, token);
        return is_secret.then_some(argument.len() - token.len()..argument.len());
    }
    let name = at.checked_sub(1).and_then(|before| arguments.get(before))?;
    let is_name = name.starts_with('-') && name.bytes().all(is_of_name) && is_secret_value(name, argument);
    (is_name && !argument.is_empty() && !argument.starts_with('-')).then_some(0..argument.len())
}

/// Returns whether the value of this name is a secret. The place of a secret is not, nor is a number with the name of a
/// count.
fn is_secret_value(name: &str, value: &str) -> bool {
    let words = words_of(name);
    let is_place = words.last().is_some_and(|word| PLACES.contains(&&**word));
    let is_count =
        || value.bytes().all(|byte| byte.is_ascii_digit()) && words.iter().any(|word| COUNTS.contains(&&**word));
    has_secret_word(&words) && !is_place && !is_count()
}

fn has_secret_word(words: &[String]) -> bool {
    let is_secret = |(at, word): (usize, &String)| {
        let singular = word.strip_suffix('s').unwrap_or(word);
        let Some(front) = SECRET_ENDS.iter().find_map(|end| singular.strip_suffix(end)) else {
            return SECRET_PARTS.iter().any(|part| word.contains(part));
        };
        // `sort-key` and `sortkey`.
        let before = if front.is_empty() { at.checked_sub(1).map_or("", |before| &words[before]) } else { front };
        !singular.ends_with("key") || !ORDINARY_KEYS.contains(&before)
    };
    words.iter().enumerate().any(is_secret)
}

/// Returns whether a member of this name has headers of HTTP.
fn is_header_name(name: &str) -> bool {
    let is_header = |word: &String| {
        let singular = word.strip_suffix('s').unwrap_or(word);
        HEADER_ENDS.iter().any(|end| singular.ends_with(end))
    };
    words_of(name).iter().any(is_header)
}

/// Returns the words of a name in small letters, without numbers at their ends: `api` and `key` for `API_KEY_2` and `apiKey2`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let is_after_small = at > 0 && !letters[at - 1].is_uppercase();
        let is_before_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if !letter.is_alphanumeric() || letter.is_uppercase() && (is_after_small || is_before_small) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    let words = words.iter().map(|word| word.trim_end_matches(|letter: char| letter.is_ascii_digit()));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn is_long(text: &str) -> bool {
    text.len() >= SHORTEST
}

fn is_ordinary(text: &str) -> bool {
    ORDINARY.iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic()
}

/// Returns whether a text is like a word of a language, or a name: it has only letters, at most the first of them capital.
fn is_word(text: &str) -> bool {
    text.bytes().all(is_letter) && !text.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
}

/// Returns whether a text is like a token: letters and digits without spaces, slashes and dots.
fn is_random(text: &str) -> bool {
    let is_of_token = |byte: u8| is_of_name(byte) || matches!(byte, b'+' | b'%' | b'=' | b'~');
    text.len() >= SHORTEST_RANDOM && text.bytes().all(is_of_token) && has_letters_and_digits(text)
}

/// Returns whether a text has letters and digits. Few words of a language have.
fn has_letters_and_digits(text: &str) -> bool {
    text.bytes().any(is_letter) && text.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The parts of a text, without the whole of it.
    fn parts(text: &str, is_header: bool) -> Vec<String> {
        let mut texts = SecretTexts::default();
        texts.add_with(text, is_header);
        let mut parts: Vec<_> = texts.into_texts().map(Cow::into_owned).filter(|part| part != text).collect();
        parts.sort();
        parts.dedup();
        parts
    }

    #[test]
    fn secret_parts_are_found() {
        for (text, expected) in [
            ("Token canary-1", &["canary-1"][..]),
            ("Bearer canary-1", &["canary-1"]),
            ("Authorization: ApiKey canary-1", &["canary-1"]),
            ("Basic YWRhOmNhbmFyeS0x", &["YWRhOmNhbmFyeS0x", "ada:canary-1", "canary-1"]),
            ("canary-1\n", &["canary-1"]),
            ("--password=canary", &["canary"]),
            ("API_KEY=canary==", &["canary=="]),
            ("Server=db;Password=canary;Timeout=300000", &["canary"]),
            ("postgres://ada:canary-1@db/app", &["canary-1"]),
            ("postgres://ada:canary%2F1@db/app", &["canary%2F1", "canary/1"]),
            ("https://a.example/mcp?token=canary&mode=production#x", &["canary"]),
            ("https://a.example/mcp?q=canary-0123456789", &["canary-0123456789"]),
            ("Use the token canary-1.", &["canary-1"]),
            ("X-Api-Key: canary", &["canary"]),
            ("Accept: text/html X-Api-Key: canary-1", &["canary-1"]),
            ("accessToken=canary", &["canary"]),
            ("OPENAI_KEY_2=canary", &["canary"]),
            ("APIKeys=canary", &["canary"]),
            ("PGPASSWORD=canary", &["canary"]),
            ("authtoken=canary", &["canary"]),
            ("--session=0123456789abcdef", &["0123456789abcdef"]),
            ("https://a.example/s/0123456789abcdefghij/mcp", &["0123456789abcdefghij"]),
            (r#"{"a": {"key": "canary"}}"#, &["canary"]),
        ] {
            assert_eq!(parts(text, false), expected, "{text}");
        }
        assert_eq!(parts("Splunk canary-1", true), ["canary-1"]);
        assert_eq!(parts("Token canarytoken", true), ["canarytoken"]);
    }

    #[test]
    fn common_texts_are_no_parts() {
        for text in [
            "the token budget is large",
            "Basic authentication",
            "--log-level=warning",
            "--max-tokens=131072",
            "--password=short",
            "auth_token=required",
            "https://a.example:8080/mcp/server?mode=production&version=2024-11-05",
            "postgres://postgres:postgres@localhost/app",
            "ssh://git@example.com/a.git",
            "Name the key features.",
            "The secret: always listen.",
            "TOKEN_FILE=/run/secrets/token-1",
            "the token limit: 131072",
            "You are a basic assistant.",
            "a token (JavaScript)",
            "https://a.example/mcp?mode=read-only&transport=streamable-http&model=kimi-k2",
            "sort-key=created_at",
            "https://a.example/?sortKey=created_at&primary_key=number",
            "--tokenizer=bert-base",
            "--token-limit=131072",
            "docker://alpine:3.19.20260101@sha256:51b67269",
        ] {
            assert_eq!(parts(text, false), <[&str; 0]>::default(), "{text}");
        }
        for text in ["text/html; charset=utf-8", "my client", "my client."] {
            assert_eq!(parts(text, true), <[&str; 0]>::default(), "{text}");
        }
    }

    #[test]
    fn members_of_headers_are_headers() {
        let mut texts = SecretTexts::default();
        texts.add_value(&json!({"headers": [{"name": "Authorization", "value": "Token canaryword"}], "n": 123456}));
        let texts: Vec<_> = texts.into_texts().collect();
        assert!(texts.contains(&"canaryword".into()) && texts.contains(&"123456".into()), "{texts:?}");
        for (name, is_header) in [
            ("headers", true),
            ("httpHeaders", true),
            ("http_header", true),
            ("Proxy-Authorization", true),
            ("oauth2", true),
            ("author", false),
            ("authors", false),
        ] {
            assert_eq!(is_header_name(name), is_header, "{name}");
        }
    }

    #[test]
    fn arguments_with_secret_names_are_masked() {
        // Each argument, and what the header of a recording has if it differs.
        let arguments = [
            ("agent", ""),
            ("--api-key", ""),
            ("abc", "***"),
            ("--token=canary-1", "--token=***"),
            ("--secret", ""),
            ("--verbose", ""),
            ("PASSWORD=canary-2", "PASSWORD=***"),
            ("--max-tokens", ""),
            ("131072", ""),
            ("--model=kimi-k2-0905-preview", ""),
            ("--tokenizer", ""),
            ("bert-base", ""),
            ("--token-limit", ""),
            ("131072", ""),
            ("--sort-key", ""),
            ("created_at", ""),
            ("--append-system-prompt", ""),
            ("Name the key features.", ""),
            ("--header", ""),
            ("X-Api-Key: canary-5", "X-Api-Key: ***"),
            ("--scope", ""),
            ("secrets:read-all", ""),
            ("--api-key-env", ""),
            ("OPENAI_API_KEY", ""),
            ("--token-file=/run/secrets/token-1", ""),
            ("--mcp-config", ""),
            (
                r#"{"a":{"env":{"API_KEY":"canary-6","MODE":"fast-mode"},"headers":{"Authorization":"Token canary-7"}}}"#,
                r#"{"a":{"env":{"API_KEY":"***","MODE":"fast-mode"},"headers":{"Authorization":"Token canary-7"}}}"#,
            ),
        ];
        let mut given = arguments.map(|(argument, _)| argument.to_owned()).to_vec();
        let expected = arguments.map(|(argument, masked)| if masked.is_empty() { argument } else { masked });
        assert_eq!(masked_arguments(&given), expected);
        given.extend(["-c", "KEY='canary-3' agent --api-key canary-4"].map(str::to_owned));
        given.extend(["-c", "curl -H 'X-Api-Key: canary-8' https://a.example"].map(str::to_owned));
        let mut texts = SecretTexts::default();
        texts.add_arguments(&given);
        let mut found: Vec<_> = texts.into_texts().filter(|text| !text.contains(' ')).collect();
        found.sort();
        found.dedup();
        assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 8].map(|number| format!("canary-{number}")));
    }
}
