//! Where a script cuts its agent short: after so many lines or bytes, or when a certain call comes.

use serde_json::Value;

use super::fields::{Fields, Wrong};
use super::script::{Action, actions};

/// What is done when a point is reached, wherever the script's turns have got to by then.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) at: At,
    pub(crate) actions: Vec<Action>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum At {
    /// So many lines have been written.
    Lines(usize),
    /// So many bytes have been written.
    Bytes(usize),
    /// A call of this method has been read, and is not answered yet.
    Call(String),
}

impl Cut {
    pub(crate) fn parse(fields: &Fields<'_>) -> Result<Option<Self>, Wrong> {
        let Some(cut) = fields.object("cut")? else { return Ok(None) };
        let count = |name| match cut.whole(name)? {
            None => Ok(None),
            Some(n) => usize::try_from(n).map(Some).map_err(|_| cut.wrong(name, "must not be negative")),
        };
        let at = match (count("lines")?, count("bytes")?, cut.text("call")?) {
            (Some(lines), None, None) => At::Lines(lines),
            (None, Some(bytes), None) => At::Bytes(bytes),
            (None, None, Some(method)) => At::Call(method),
            _ => return Err(fields.wrong("cut", "needs one of \"lines\", \"bytes\" and \"call\"")),
        };
        let list = cut.required("actions", cut.get("actions"))?;
        let actions = actions("cut", list, &mut false)?;
        cut.finish()?;
        Ok(Some(Self { at, actions }))
    }

    /// How much of what is about to be written still is before the cut, if it comes with that.
    pub(crate) fn place(&mut self, output: &[u8]) -> Option<usize> {
        match &mut self.at {
            At::Call(_) => None,
            At::Bytes(left) if *left <= output.len() => Some(*left),
            At::Bytes(left) => {
                *left -= output.len();
                None
            }
            At::Lines(0) => Some(0),
            At::Lines(left) => {
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

/// The method and the id of a call of the client's. Those of the Agent Client Protocol go by the same names, as far as
/// there are such: `prompt`, `cancel`, which is a notification there.
pub(crate) fn call(line: &[u8]) -> Option<(String, String)> {
    let message: Value = serde_json::from_slice(line).ok()?;
    let method = message.get("method")?.as_str()?;
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

    fn places(at: At, chunks: &[&[u8]]) -> Vec<Option<usize>> {
        let mut cut = Cut { at, actions: Vec::new() };
        chunks.iter().map(|chunk| cut.place(chunk)).collect()
    }

    #[test]
    fn the_place_is_found_across_what_is_written_at_once() {
        assert_eq!(places(At::Lines(3), &[b"a\nb\n", b"cc", b"\ndd\n"]), [None, None, Some(1)]);
        assert_eq!(places(At::Lines(2), &[b"a\nb\n"]), [Some(4)]);
        assert_eq!(places(At::Lines(0), &[b"a\n"]), [Some(0)]);
        assert_eq!(places(At::Bytes(5), &[b"abc", b"de", b"f"])[..2], [None, Some(2)]);
        assert_eq!(places(At::Bytes(0), &[b"abc"]), [Some(0)]);
        assert_eq!(places(At::Call("steer".to_owned()), &[b"a\n"]), [None]);
    }

    #[test]
    fn a_call_is_told_from_an_answer() {
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
