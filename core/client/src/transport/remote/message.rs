//! The parts of a message that the transport over HTTP reads.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Default, PartialEq)]
pub(super) struct Message {
    /// As JSON text.
    pub(super) id: Option<String>,
    pub(super) is_answer: bool,
    pub(super) is_error: bool,
    /// The session of the parameters, or of the result.
    pub(super) session: Option<String>,
}

impl Message {
    /// Reads a message. The result is empty if it is not JSON-RPC.
    pub(super) fn read(text: &str) -> Self {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow, default)]
            id: Option<&'a RawValue>,
            #[serde(borrow, default)]
            method: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            params: Option<&'a RawValue>,
            #[serde(borrow, default)]
            result: Option<&'a RawValue>,
            #[serde(borrow, default)]
            error: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Scope {
            #[serde(rename = "sessionId")]
            session: Option<String>,
        }
        let Ok(Envelope { id, method, params, result, error }) = serde_json::from_str(text) else {
            return Self::default();
        };
        let is_answer = method.is_none() && (result.is_some() || error.is_some());
        // Messages of the protocol itself have no session.
        let is_scoped = method.is_none_or(|method| !method.starts_with("$/"));
        let scope = params.or(result).filter(|_| is_scoped);
        let session = scope.and_then(|scope| serde_json::from_str::<Scope>(scope.get()).ok()?.session);
        let id = id.filter(|id| id.get() != "null").map(|id| id.get().to_owned());
        Self { id, is_answer, is_error: error.is_some(), session }
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    #[test]
    fn session_is_that_of_parameters_or_result() {
        let read = |text: &str| {
            let Message { id, is_answer, is_error, session } = Message::read(text);
            (id.unwrap_or_default(), is_answer, is_error, session.unwrap_or_default())
        };
        let seen =
            |id: &str, is_answer, is_error, session: &str| (id.to_owned(), is_answer, is_error, session.to_owned());
        for (text, expected) in [
            (r#"{"id":1,"method":"session/new","params":{"cwd":"/"}}"#, seen("1", false, false, "")),
            (r#"{"id":"a","method":"m","params":{"sessionId":"s\u0031"}}"#, seen("\"a\"", false, false, "s1")),
            (r#"{"method":"$/cancel_request","params":{"sessionId":"s"}}"#, seen("", false, false, "")),
            (r#"{"id":1,"result":{"sessionId":"s"}}"#, seen("1", true, false, "s")),
            (r#"{"id":1,"result":null}"#, seen("1", false, false, "")),
            (r#"{"id":1,"error":{"code":1,"message":""}}"#, seen("1", true, true, "")),
            (r#"{"id":null,"method":"m","params":[{"sessionId":"s"}]}"#, seen("", false, false, "")),
            ("[]", seen("", false, false, "")),
            ("x", seen("", false, false, "")),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
