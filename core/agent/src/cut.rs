//! The place at which a script stops its agent early: after a number of lines or bytes, or at a call.

use serde_json::Value;

use super::fields::{Fields, Wrong};
use super::server::web::Route;

/// The place at which the agent stops.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum At {
    /// After this many lines.
    Lines(usize),
    /// After this many bytes.
    Bytes(usize),
    /// When a call of this method has been read and not answered.
    Call(String),
}

impl At {
    /// Reads the script's `cut`.
    pub(crate) fn parse(script: &Fields<'_>, cut: &Fields<'_>) -> Result<Self, Wrong> {
        let count = |name| match cut.whole(name)? {
            None => Ok(None),
            Some(n) => usize::try_from(n).map(Some).map_err(|_| cut.wrong(name, "must not be negative")),
        };
        match (count("lines")?, count("bytes")?, cut.text("call")?) {
            (Some(lines), None, None) => Ok(Self::Lines(lines)),
            (None, Some(bytes), None) => Ok(Self::Bytes(bytes)),
            (None, None, Some(method)) => Ok(Self::Call(method)),
            _ => Err(script.wrong("cut", "needs one of \"lines\", \"bytes\" and \"call\"")),
        }
    }

    /// Returns how much of this pending output comes before the cut, if the cut lies in it.
    pub(crate) fn place(&mut self, output: &[u8]) -> Option<usize> {
        match self {
            Self::Call(_) => None,
            Self::Bytes(left) if *left <= output.len() => Some(*left),
            Self::Bytes(left) => {
                *left -= output.len();
                None
            }
            Self::Lines(0) => Some(0),
            Self::Lines(left) => {
                let mut ends = output.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
                let place = ends.nth(*left - 1);
                if place.is_none() {
                    *left -= output.iter().filter(|byte| **byte == b'\n').count();
                }
                place
            }
        }
    }
}

/// Returns the method and the id of a call of the client. Calls of ACP have the same names here, for example `prompt`
/// and `cancel`, which is a notification in ACP.
pub(crate) fn call(line: &[u8]) -> Option<(String, String)> {
    let message: Value = serde_json::from_slice(line).ok()?;
    let method = message.get("method")?.as_str()?;
    if let Some(route) = Route::parse(method) {
        return Some((route.name.to_owned(), message.get("id")?.to_string()));
    }
    let acp = method.strip_prefix("session/");
    let id = match message.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(id @ Value::Number(_)) => id.to_string(),
        _ => acp.map(|_| String::new())?,
    };
    Some((acp.unwrap_or(method).to_owned(), id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(mut at: At, chunks: &[&[u8]]) -> Vec<Option<usize>> {
        chunks.iter().map(|chunk| at.place(chunk)).collect()
    }

    #[test]
    fn cut_place_is_found_across_writes() {
        assert_eq!(places(At::Lines(3), &[b"a\nb\n", b"cc", b"\ndd\n"]), [None, None, Some(1)]);
        assert_eq!(places(At::Lines(2), &[b"a\nb\n"]), [Some(4)]);
        assert_eq!(places(At::Lines(0), &[b"a\n"]), [Some(0)]);
        assert_eq!(places(At::Bytes(5), &[b"abc", b"de", b"f"])[..2], [None, Some(2)]);
        assert_eq!(places(At::Bytes(0), &[b"abc"]), [Some(0)]);
        assert_eq!(places(At::Call("steer".to_owned()), &[b"a\n"]), [None]);
    }

    #[test]
    fn call_differs_from_answer() {
        let found = call(br#"{"jsonrpc":"2.0","id":"p","method":"prompt","params":{}}"#);
        assert_eq!(found, Some(("prompt".to_owned(), "p".to_owned())));
        assert_eq!(call(br#"{"jsonrpc":"2.0","id":"p","result":{}}"#), None);
        let acp = [
            (&br#"{"jsonrpc":"2.0","id":7,"method":"session/prompt"}"#[..], ("prompt", "7")),
            (br#"{"jsonrpc":"2.0","method":"session/cancel"}"#, ("cancel", "")),
        ];
        for (line, (method, id)) in acp {
            assert_eq!(call(line), Some((method.to_owned(), id.to_owned())));
        }
        assert_eq!(call(br#"{"jsonrpc":"2.0","method":"interrupt"}"#), None);
    }
}
