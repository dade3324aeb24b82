//! Redirections of a text that cannot be decided. The limits of its words are not known, so each `<` and `>` counts.

use crate::kinds::Kind;

/// Returns how the redirections of a text may use files, each with its sign.
pub(super) fn uses_of_files(text: &str) -> impl Iterator<Item = (Kind, char)> {
    [(Kind::Edit, '>'), (Kind::Read, '<')].into_iter().filter(|(_, sign)| names_file(text, *sign))
}

/// Whether a sign may open a file. `/dev/null`, copies of a descriptor, here-documents and commands in parentheses are not files.
fn names_file(text: &str, sign: char) -> bool {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(sign) {
        let doubled = after.strip_prefix(sign);
        rest = match doubled {
            Some(after) if sign == '<' => after.trim_start_matches(sign),
            _ => {
                let Some(after) = harmless(doubled.unwrap_or(after)) else { return true };
                after
            }
        };
    }
    false
}

/// Returns the text after the target of a redirection if the target is not a file.
fn harmless(after: &str) -> Option<&str> {
    let is_end =
        |rest: &str| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_whitespace() || ";|&)".contains(c));
    if after.starts_with('(') {
        return Some(after);
    }
    let rest = match after.strip_prefix('&') {
        Some(copy) => copy.strip_prefix('-').unwrap_or_else(|| copy.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => after.trim_start_matches([' ', '\t']).strip_prefix("/dev/null")?,
    };
    (is_end(rest) && rest.len() < after.len().saturating_sub(1)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sign_counts() {
        let writes = ["for x in a; do :; done > f", "a>f", "a >> f", "a >| f", "a &> f", "a >& f", "a <> f", "a >&$x"];
        let more = [
            "a >&2x",
            "a > /dev/nullx",
            "a > /dev/null/x",
            "a 2>&1>f",
            "a > /dev/null; b > f",
            "[[ a > b ]]",
            "a >",
            "a >&",
        ];
        for text in writes.into_iter().chain(more) {
            assert!(uses_of_files(text).any(|(kind, _)| kind == Kind::Edit), "{text}");
        }
        for text in ["while read x; do :; done < f", "a <f", "a << E\nE\nb < f", "a <&$x", "a < /dev/nullx"] {
            assert_eq!(uses_of_files(text).next(), Some((Kind::Read, '<')), "{text}");
        }
    }

    #[test]
    fn descriptors_null_and_documents_are_no_files() {
        for text in [
            "for x in a; do b; done",
            "a 2>&1",
            "a >&2; b",
            "(a >&-)",
            "a 2>/dev/null | b",
            "a > /dev/null 2>&1",
            "a >> /dev/null",
            "a &>/dev/null",
            "cat <<E\nx\nE",
            "cat <<< x",
            "diff <(a) <(b)",
            "a < /dev/null",
        ] {
            assert_eq!(uses_of_files(text).next(), None, "{text}");
        }
    }
}
