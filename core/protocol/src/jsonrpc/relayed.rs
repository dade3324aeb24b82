//! Lines that pass between two other programs. Their parsers are not known, so a line that two parsers could read differently is
//! refused: a member that occurs twice, a name in another case, a request without a usable id.

use std::borrow::Cow;
use std::collections::HashSet;

use super::{Members, Message, message};
use crate::json::scan::{NotJson, Scanner, text_of};

/// The members of a message, which parsers look for.
const KNOWN: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
/// The limit of an id, in bytes.
const MAX_ID: usize = 4 << 10;
/// The limit of nesting in a text whose names are checked.
const MAX_DEPTH: usize = 64;

/// A line that all parsers read alike.
#[derive(Debug)]
pub struct Relayed<'a> {
    /// The message.
    pub message: Message<'a>,
    /// The id, as JSON text. `None` if there is no id, or if it is null.
    pub id: Option<&'a str>,
    /// Whether only some parsers accept the line: it has half of a surrogate pair, or deep nesting.
    pub is_odd: bool,
}

/// The reason why a line is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What is wrong with the line.
    pub reason: String,
    /// The id of the request or of the answer, as JSON text, if it is usable.
    pub id: Option<String>,
    /// Whether the line is an answer.
    pub is_answer: bool,
}

/// Reads a line that one program wrote for another one.
///
/// # Errors
/// Returns the reason if two parsers could read the line differently, or if it is not a message.
pub fn read(line: &[u8]) -> Result<Relayed<'_>, Refused> {
    let refused = |reason: String| Refused { reason, id: None, is_answer: false };
    let text =
        std::str::from_utf8(line).map_err(|error| refused(format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    match Scanner::new(text).peek() {
        Some(b'{') => {}
        Some(b'[') => return Err(refused("a batch".to_owned())),
        _ => return Err(refused("not a JSON object".to_owned())),
    }
    let (mut seen, mut ambiguity, mut is_id_clear) = ([false; KNOWN.len()], None, true);
    let members = Members::scan_named(text, |name| {
        let folded = folded(name);
        let Some(place) = KNOWN.iter().position(|known| *known == folded) else { return };
        let problem = match (name == KNOWN[place], std::mem::replace(&mut seen[place], true)) {
            (true, false) => return,
            (true, true) => format!("two members `{name}`"),
            (false, _) => format!("a member `{}` in another spelling", KNOWN[place]),
        };
        is_id_clear &= folded != "id";
        ambiguity.get_or_insert(problem);
    })
    .map_err(|_| refused("not JSON".to_owned()))?;
    let id = members.id.filter(|id| *id != "null");
    let is_usable = id.is_some_and(|id| id_key(id).is_some());
    let (has_result, has_error) = (members.result.is_some(), members.error.is_some_and(|error| error != "null"));
    let is_request = members.method.is_some();
    let is_answer = !is_request && (has_result || members.error.is_some());
    let usable = id.filter(|_| (is_request || is_answer) && is_usable && is_id_clear).map(str::to_owned);
    let problem = if is_request && (has_result || members.error.is_some()) {
        Some("a request with an answer")
    } else if has_error && members.result.is_some_and(|result| result != "null") {
        Some("an answer with both a result and an error")
    } else if !is_request && !has_result && (!has_error || members.error == Some("false")) {
        Some("neither method, result nor error")
    } else if !is_usable && (id.is_some() || is_request && members.id.is_some()) {
        Some("an id that is no text and no number")
    } else {
        None
    };
    if let Some(reason) = ambiguity.or_else(|| problem.map(str::to_owned)) {
        return Err(Refused { reason, id: usable, is_answer });
    }
    let is_odd = members.is_odd;
    match message(members) {
        Message::Invalid(reason) => Err(Refused { reason, id: usable, is_answer }),
        message => Ok(Relayed { message, id, is_odd }),
    }
}

/// Returns a key of an id, which is equal for all spellings of it. Numbers are those of JavaScript. `None` if the id is neither a
/// text nor a number, or too long.
pub fn id_key(id: &str) -> Option<String> {
    if id.len() > MAX_ID {
        return None;
    }
    if id.starts_with('"') {
        return text_of(id).map(|text| format!("\"{text}"));
    }
    let number: f64 = id.parse().ok().filter(|number: &f64| number.is_finite())?;
    // Negative zero is the same number.
    Some(format!("{}", number + 0.0))
}

/// Returns whether two parsers could read the members of a text differently: a name occurs twice in an object, or in two
/// spellings. The names of arguments are free, so only equal ones count there. The text must be JSON.
pub fn has_ambiguous_names(text: &str) -> bool {
    !is_unambiguous(&mut Scanner::new(text), 0, true)
}

/// Returns whether an object in JSON text has two members with one name, which parsers read differently.
pub fn has_repeated_names(text: &str) -> bool {
    fn is_clear(scanner: &mut Scanner<'_>, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return true;
        }
        let mut is_clear_below = true;
        let mut go_on = |is_clear: bool| {
            is_clear_below &= is_clear;
            if is_clear { Ok(()) } else { Err(NotJson) }
        };
        // Text that is not JSON has no arguments.
        let _read = match scanner.peek() {
            Some(b'{') => {
                let mut names = Names::default();
                scanner.object(|name, scanner| {
                    let Some(name) = name.decode() else { return Err(NotJson) };
                    go_on(names.add(name, false) && is_clear(scanner, depth + 1))
                })
            }
            Some(b'[') => scanner.items(|scanner| go_on(is_clear(scanner, depth + 1))),
            _ => scanner.value().map(drop),
        };
        is_clear_below
    }
    !is_clear(&mut Scanner::new(text), 0)
}

/// The members whose own members have names that no parser knows.
const FREE: [&str; 3] = ["rawInput", "rawOutput", "_meta"];

fn is_unambiguous(scanner: &mut Scanner<'_>, depth: usize, folds: bool) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    let mut is_clear = true;
    let read = match scanner.peek() {
        Some(b'{') => {
            let mut names = Names::default();
            scanner.object(|name, scanner| {
                let Some(name) = name.decode() else { return Err(NotJson) };
                let folds_below = folds && !FREE.contains(&&*name);
                is_clear = names.add(name, folds) && is_unambiguous(scanner, depth + 1, folds_below);
                if is_clear { Ok(()) } else { Err(NotJson) }
            })
        }
        Some(b'[') => scanner.items(|scanner| {
            is_clear = is_unambiguous(scanner, depth + 1, folds);
            if is_clear { Ok(()) } else { Err(NotJson) }
        }),
        _ => scanner.value().map(drop),
    };
    is_clear && read.is_ok() && !scanner.is_odd
}

/// The names of an object so far.
#[derive(Default)]
struct Names<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<String>,
}

impl<'a> Names<'a> {
    /// The number of names that are compared one by one.
    const FEW: usize = 16;

    /// Adds a name. Returns whether it is new.
    fn add(&mut self, name: Cow<'a, str>, folds: bool) -> bool {
        let key = |name: &str| if folds { folded(name) } else { name.to_owned() };
        if self.many.is_empty() && self.few.len() < Self::FEW {
            let is_same = |known: &Cow<'a, str>| match folds {
                true if known.is_ascii() && name.is_ascii() => known.eq_ignore_ascii_case(&name),
                true => folded(known) == folded(&name),
                false => *known == name,
            };
            let is_new = !self.few.iter().any(is_same);
            self.few.push(name);
            return is_new;
        }
        self.many.extend(self.few.drain(..).map(|name| key(&name)));
        self.many.insert(key(&name))
    }
}

/// Returns a name as parsers that ignore its case compare it.
fn folded(name: &str) -> String {
    let plain = |letter: char| match letter {
        'ſ' => 's',
        'K' => 'k',
        other => other,
    };
    name.chars().map(plain).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_messages_are_read() {
        let request = read(br#" {"jsonrpc":"2.0","id":1e0,"method":"m","params":{"a":1}} "#).unwrap();
        assert!(matches!(request.message, Message::Request { .. }));
        assert_eq!(request.id, Some("1e0"));
        assert!(matches!(read(br#"{"method":"m"}"#).unwrap().message, Message::Notification { .. }));
        assert!(matches!(read(br#"{"id":"a","result":null}"#).unwrap().message, Message::Response { .. }));
        assert!(matches!(
            read(br#"{"id":null,"error":{"code":1,"message":""}}"#).unwrap().message,
            Message::Response { .. }
        ));
        assert!(read(br#"{"method":"m","params":"\ud800"}"#).unwrap().is_odd);
    }

    #[test]
    fn ambiguous_lines_are_refused() {
        for (line, id) in [
            (r#"{"id":1,"method":"a","method":"b"}"#, Some("1")),
            (r#"{"id":1,"method":"a","\u006dethod":"b"}"#, Some("1")),
            (r#"{"id":1,"method":"a","Method":"b"}"#, Some("1")),
            (r#"{"id":1,"method":"a","paramſ":{}}"#, Some("1")),
            (r#"{"id":1,"id":2,"method":"a"}"#, None),
            (r#"{"ID":1,"method":"a"}"#, None),
            (r#"{"id":null,"method":"a"}"#, None),
            (r#"{"id":[1],"method":"a"}"#, None),
            (r#"{"id":true,"method":"a"}"#, None),
            (r#"{"id":1,"method":"a","result":{}}"#, Some("1")),
            (r#"{"id":1,"method":null,"result":{}}"#, Some("1")),
            (r#"{"id":1,"method":2}"#, Some("1")),
            (r#"{"id":1,"result":{},"error":{"code":1,"message":""}}"#, Some("1")),
            (r#"{"id":1,"id":2,"result":{}}"#, None),
            (r#"{"id":1}"#, None),
            (r#"[{"id":1,"method":"a"}]"#, None),
            (r#"{"id":1,"method":"a"} {}"#, None),
            ("\u{feff}{\"method\":\"a\"}", None),
            ("", None),
            ("text", None),
        ] {
            let refused = read(line.as_bytes()).expect_err(line);
            assert_eq!(refused.id.as_deref(), id, "{line}");
            assert_eq!(refused.is_answer, line.contains("result") && !line.contains("method"), "{line}");
        }
        assert!(read(b"{\"method\":\"\xff\"}").is_err());
    }

    #[test]
    fn spellings_of_an_id_have_one_key() {
        for (one, other) in [("1", "1.0"), ("1", "1e0"), ("0", "-0"), (r#""a""#, r#""\u0061""#), ("1e2", "100")] {
            assert_eq!(id_key(one), id_key(other), "{one} {other}");
        }
        assert_ne!(id_key("1"), id_key(r#""1""#));
        for id in ["null", "true", "[1]", "{}", "1e999", r#""\ud800""#] {
            assert_eq!(id_key(id), None, "{id}");
        }
        assert_eq!(id_key(&format!("{:?}", "x".repeat(MAX_ID))), None);
    }

    #[test]
    fn names_are_ambiguous_at_any_depth() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"A":2}"#,
            r#"{"b":[{"c":{"a":1,"\u0061":2}}]}"#,
            r#"{"\ud800":1}"#,
            r#"{"a":"\ud800"}"#,
        ] {
            assert!(has_ambiguous_names(text), "{text}");
        }
        assert!(has_ambiguous_names(&format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100))));
        let many: Vec<_> = (0..40).map(|n| format!("\"k{n}\":{n}")).collect();
        assert!(!has_ambiguous_names(&format!("{{{}}}", many.join(","))));
        assert!(has_ambiguous_names(&format!("{{{},\"K3\":0}}", many.join(","))));
        for text in
            [r#"{"a":1,"b":{"a":[{"a":1},{"a":2}]}}"#, r#"{"rawInput":{"a":1,"A":2}}"#, "[]", "{}", "1", r#""text""#]
        {
            assert!(!has_ambiguous_names(text), "{text}");
        }
    }
}
