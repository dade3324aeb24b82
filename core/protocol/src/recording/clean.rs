//! The search for secrets in lines that begin alike.
//!
//! The messages of an agent differ in a few words: what is the same as in the line before need not be looked at again.

use super::redact::Redactor;

/// Longer beginnings are not compared.
const LONGEST: usize = 256;
/// The number of bytes that are compared at once.
const STEP: usize = 32;

/// The beginning of the last line in which nothing had to be replaced.
#[derive(Debug, Default)]
pub(super) struct CleanLine {
    beginning: Vec<u8>,
    /// The first place where something could begin with other bytes behind it. Lines that begin like this one need no
    /// search up to there.
    clean: usize,
    /// The length that was the same in the two lines before.
    same: usize,
}

impl CleanLine {
    /// Returns whether something in a line may have to be replaced, or may begin at the end of a text.
    pub(super) fn may_match(&mut self, redactor: &Redactor, line: &[u8], is_json: bool) -> bool {
        let known = if line.starts_with(&self.beginning[..self.same]) { self.same } else { 0 };
        let same = (known + common_length(&self.beginning[known..], &line[known..])).min(self.clean);
        // The last byte that is the same can begin something with the next one.
        let Some(clean) = redactor.clean_from(line, same.saturating_sub(1), is_json) else { return true };
        (self.clean, self.same) = (clean, same);
        self.beginning.truncate(same);
        self.beginning.extend_from_slice(&line[same..line.len().min(LONGEST)]);
        false
    }
}

/// Returns the number of bytes with which both texts begin.
fn common_length(one: &[u8], other: &[u8]) -> usize {
    let steps = one.chunks_exact(STEP).zip(other.chunks_exact(STEP));
    let same = steps.take_while(|(one, other)| one == other).count() * STEP;
    same + one[same..].iter().zip(&other[same..]).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::super::Place;
    use super::*;

    /// Words that begin like secrets and directories, or are some.
    const WORDS: &[&str] = &[
        "s",
        "sk",
        "sk-",
        "sk-0123456789abcdef",
        "k-",
        "Bea",
        "Bearer 01234567",
        "beARER 01234567",
        "eyJ",
        "ghp_0",
        "-",
        "-----BEGIN ",
        "/",
        "/t",
        "/tmp",
        "/tmp/x",
        "tmp",
        "-home-ada-src",
        "canary",
        "nary-1",
        "canary-1",
        "wd_",
        "Basic YWRhOmNhbmFyeQ==",
        "://",
        "@",
        "Y2FuYXJ5",
        "x",
        " ",
        "\"",
        ",",
        ":",
        "\\n",
        "\\",
    ];

    fn redactor() -> Redactor {
        let place = |name, path: &str| Place { name, path: path.to_owned() };
        let places = [place("work_dir", "/home/ada/src"), place("temp", "/tmp")];
        Redactor::new(&places, [Cow::Borrowed("canary-1")], &[]).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]
        #[test]
        fn line_is_searched_as_if_it_were_the_first(
            beginning in prop::collection::vec(prop::sample::select(WORDS), 0..8),
            ends in prop::collection::vec(prop::collection::vec(prop::sample::select(WORDS), 0..4), 1..6),
            is_json in any::<bool>(),
        ) {
            let redactor = redactor();
            let mut clean = CleanLine::default();
            for end in ends {
                let line = format!("{}{}", beginning.concat(), end.concat());
                let may_match = CleanLine::default().may_match(&redactor, line.as_bytes(), is_json);
                prop_assert_eq!(clean.may_match(&redactor, line.as_bytes(), is_json), may_match, "{}", line);
                let is_replaced = matches!(redactor.redacted_match(line.as_bytes()), Cow::Owned(_));
                prop_assert!(may_match || is_json || !is_replaced, "{}", line);
            }
        }
    }

    #[test]
    fn escaped_quotation_mark_does_not_end_text() {
        let place = Place { name: "temp", path: "/tmp".to_owned() };
        let redactor = Redactor::new(&[place], [Cow::Borrowed("canary\\1")], &[]).unwrap();
        // With `\/`, which is also `/`, directories begin with a backslash.
        for (line, expected) in [
            (r#"{"a":"{\"b\":\"\"}"}"#, false),
            (r#"{"a":"\/"}"#, true),
            (r#"{"a":"canary"}"#, true),
            (r#"{"a":"canary\" z"}"#, false),
            (r#"{"a":"canary\\"}"#, true),
        ] {
            assert_eq!(CleanLine::default().may_match(&redactor, line.as_bytes(), true), expected, "{line}");
        }
    }

    #[test]
    fn end_of_long_line() {
        let redactor = redactor();
        let mut clean = CleanLine::default();
        let beginning = "x".repeat(LONGEST - 1);
        assert!(!clean.may_match(&redactor, format!("{beginning} is clean").as_bytes(), true));
        for end in [" canary-1", "  canary-1", "/tmp", " s"] {
            assert!(clean.may_match(&redactor, format!("{beginning}{end}").as_bytes(), true), "{end}");
        }
        assert!(!clean.may_match(&redactor, beginning.as_bytes(), true));
    }
}
