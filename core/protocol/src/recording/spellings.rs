//! The forms in which a secret is sent or shown besides its own text: percent-encoded, also as forms of HTML are, and in
//! Base64.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// The sets of characters that percent-encoding keeps, besides letters, digits and `-._~`: none, those of JavaScript's
/// `URLSearchParams` and `encodeURIComponent`, that of Python's `quote`, and those of whole URLs.
const KEPT: [&str; 5] = ["", "*", "!'()*", "/", "/?:@!$&'()*+,;="];

/// Returns the encoded forms of a secret, without the secret itself, that are found in pieces of a text, too. Numbers have none.
pub(super) fn encoded(secret: &str) -> Vec<String> {
    let is_of_number = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
    if secret.bytes().all(is_of_number) {
        return Vec::new();
    }
    // Shells add a line feed: `echo "$TOKEN" | base64`.
    let line = format!("{secret}\n");
    let padded = [STANDARD.encode(secret), URL_SAFE.encode(secret), STANDARD.encode(line)];
    let bare = padded.clone().map(|form| form.trim_end_matches('=').to_owned());
    let mut forms: Vec<String> = padded.into_iter().chain(bare).collect();
    let all = |form: fn(u8) -> String| secret.bytes().map(form).collect();
    forms.extend([all(|byte| format!("%{byte:02X}")), all(|byte| format!("%{byte:02x}"))]);
    for kept in KEPT {
        let form = percent_encoded(secret, kept);
        // Forms of HTML have `+` for a space. JavaScript's `URLSearchParams` encodes `~`, too.
        let of_html = form.replace("%20", "+");
        for form in [of_html.replace('~', "%7E"), of_html, form] {
            if form != secret {
                forms.push(form.replace('%', "%25"));
                forms.push(with_small_digits(&form));
                forms.push(form);
            }
        }
    }
    forms.sort();
    forms.dedup();
    forms
}

/// Returns a text with percent-encoding. Letters, digits, `-._~` and the characters in `kept` are not encoded.
pub(super) fn percent_encoded(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_kept = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        match is_kept || kept.as_bytes().contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Returns a percent-encoded text with small hexadecimal digits.
fn with_small_digits(text: &str) -> String {
    let mut digits = 0;
    let small = |letter: char| {
        let is_digit = digits > 0;
        digits = if letter == '%' { 2_u8 } else { digits.saturating_sub(1) };
        if is_digit { letter.to_ascii_lowercase() } else { letter }
    };
    text.chars().map(small).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_those_of_common_encoders() {
        let forms = encoded("pä/ss wörd?>");
        for form in [
            "p%C3%A4%2Fss%20w%C3%B6rd%3F%3E",
            "p%c3%a4%2fss%20w%c3%b6rd%3f%3e",
            "p%C3%A4/ss%20w%C3%B6rd%3F%3E",
            "p%C3%A4%2Fss+w%C3%B6rd%3F%3E",
            "p%c3%a4%2fss+w%c3%b6rd%3f%3e",
            "cMOkL3NzIHfDtnJkPz4=",
            "cMOkL3NzIHfDtnJkPz4",
            "cMOkL3NzIHfDtnJkPz4K",
        ] {
            assert!(forms.iter().any(|one| one == form), "{form}: {forms:?}");
        }
        assert!(encoded("a b*c~").contains(&"a+b*c%7E".to_owned()));
        let all = ["%63%61%6E%61%72%79", "%63%61%6e%61%72%79"];
        assert_eq!(encoded("canary"), [&all[..], &["Y2FuYXJ5", "Y2FuYXJ5Cg", "Y2FuYXJ5Cg=="]].concat());
        assert!(encoded("131072").is_empty());
    }
}
