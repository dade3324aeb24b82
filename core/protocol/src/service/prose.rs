//! Texts without paths, names of files and names in code. Their words say nothing about an error: a file `rate_limit.py` that is
//! missing is not a limit.

/// The ends of names of errors, such as `overloaded_error`.
const ERRORS: [&str; 9] = ["error", "err", "exceeded", "exception", "failed", "failure", "limit", "limited", "reached"];
/// The beginnings of such names.
const WORDS: [&str; 2] = ["overloaded_", "rate_limit_"];

/// Returns a text in which paths, names of files and names in code are left out.
pub(super) fn prose(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_separator).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        if !is_path(token) && !is_name(token) {
            kept.push_str(token);
        }
        let next = after.find(|c| !is_separator(c)).unwrap_or(after.len());
        kept.push_str(&after[..next]);
        rest = &after[next..];
    }
    kept
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | ',' | ';' | '=')
}

/// Whether a token is a path or the name of a file, with or without a line number.
fn is_path(token: &str) -> bool {
    let path = token.trim_end_matches(|c: char| c == ':' || c == '.' || c == '!' || c == '?' || c.is_ascii_digit());
    let slashes = path.matches('/').count();
    let is_drive = path.len() > 2 && path.as_bytes()[1] == b':' && path.as_bytes()[2] == b'\\';
    slashes >= 2 || is_drive || has_extension(path)
}

/// Whether a token ends like the name of a file: `.py`, `.json`.
fn has_extension(token: &str) -> bool {
    let Some((name, extension)) = token.rsplit_once('.') else { return false };
    let is_short = (1..=4).contains(&extension.len());
    let is_plain = extension.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let begins = extension.starts_with(|c: char| c.is_ascii_lowercase());
    name.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && is_short && is_plain && begins
}

/// Whether a token is a name in code that only begins like the name of an error: `rate_limit_handler`.
fn is_name(token: &str) -> bool {
    let name = token.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_').to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !ERRORS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn paths_and_names_are_left_out() {
        for (text, kept) in [
            ("file not found: overloaded_functions.py", "file not found: "),
            ("cannot read /srv/rate_limit.py:12:5", "cannot read "),
            ("open '/x/429/unauthorized.txt'", "open ''"),
            (r"C:\x\overloaded is missing", " is missing"),
            ("at rate_limit_handler (a.js:1)", "at  ()"),
            ("see https://api.example/v1/overloaded now", "see  now"),
        ] {
            assert_eq!(prose(text), kept, "{text}");
        }
    }

    #[test]
    fn texts_of_services_are_kept() {
        for text in [
            "Please run /login · 401",
            "dial tcp: i/o timeout",
            "upstream connect error or disconnect/reset before headers",
            r#"API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            r#"{\"error\":{\"code\":429}}\nOverloaded\nagain"#,
            "HTTP/1.1 503 Service Unavailable",
            "httpx.ReadTimeout: The read operation timed out",
            "provider.auth_error: 401 Invalid Authentication",
            "rate_limit_exceeded rate_limit rate_limit_reached",
            "The model is overloaded. Try again.",
        ] {
            assert_eq!(prose(text), text);
        }
    }
}
