//! The tool call that the SDK adds to a message.

use std::cell::Cell;
use std::sync::Arc;

use super::ToolCallInfo;

/// A tool call that the SDK has added to a message. It is not part of the wire form. All values are equal, so that a
/// message is equal to the same message from the wire.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::wire::ApprovalRequest;
/// fn describe(request: &ApprovalRequest) -> String {
///     match request.tool_call.get() {
///         Some(call) => format!("{} {:?}", call.name, call.arguments),
///         None => request.description.clone(),
///     }
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Added(Option<Arc<ToolCallInfo>>);

impl Added {
    /// Returns the tool call; `None` if the agent never named it.
    pub fn get(&self) -> Option<&ToolCallInfo> {
        self.0.as_deref()
    }
}

impl From<Option<Arc<ToolCallInfo>>> for Added {
    fn from(call: Option<Arc<ToolCallInfo>>) -> Self {
        Self(call)
    }
}

impl From<ToolCallInfo> for Added {
    fn from(call: ToolCallInfo) -> Self {
        Self(Some(Arc::new(call)))
    }
}

impl PartialEq for Added {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The field with the tool call, for a host that gets messages as JSON.
pub const KEY: &str = "$tool_call";

thread_local! {
    static FOR_HOST: Cell<bool> = const { Cell::new(false) };
}

/// Whether messages are being written for a host.
pub fn for_host() -> bool {
    FOR_HOST.get()
}

/// Makes `write` write messages for a host that gets them as JSON: with the tool call that the SDK has added, as
/// `$tool_call`, and with the values that could not be read, as `$unreadable`.
#[doc(hidden)]
pub fn written_for_host<T>(write: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            FOR_HOST.set(self.0);
        }
    }
    let _reset = Reset(FOR_HOST.replace(true));
    write()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{ToolResult, ToolReturnValue};

    fn result() -> ToolResult {
        let json = r#"{"tool_call_id":"a","return_value":{"is_error":false,"output":"","message":"","display":[]},"$tool_call":"forged"}"#;
        serde_json::from_str(json).expect("a tool's result")
    }

    #[test]
    fn unreadable_field_is_apart_for_host() {
        let own = r#"{"is_error":false,"output":"","message":"","display":"one","mood":"good","$unreadable":"forged"}"#;
        let read = || serde_json::from_str::<ToolReturnValue>(own);
        let value = crate::messages::value::keeping_unreadable(read).expect("a result");
        assert!(value.display.is_empty());
        let for_host = written_for_host(|| serde_json::to_value(&value)).expect("JSON");
        let expected =
            r#"{"is_error":false,"output":"","message":"","display":[],"mood":"good","$unreadable":{"display":"one"}}"#;
        assert_eq!(for_host.to_string(), expected);
        // The agent's own form is unchanged.
        assert_eq!(serde_json::to_string(&value).expect("JSON"), own);
    }

    #[test]
    fn added_call_is_not_serialized_or_compared() {
        let mut with = result();
        let call = ToolCallInfo { id: "a".into(), name: "Shell".into(), ..ToolCallInfo::default() };
        with.tool_call = call.into();
        assert_eq!(with, result());
        assert_eq!(serde_json::to_string(&with).unwrap(), serde_json::to_string(&result()).unwrap());
    }

    #[test]
    fn agent_field_is_not_added_call() {
        let text = written_for_host(|| serde_json::to_string(&result()).unwrap());
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read[KEY], serde_json::Value::Null, "the last of two fields counts");
    }
}
