//! `Event`: all events and requests in one type.

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::types::*;
use super::value::{Field, RequestOrigin, keeping_unreadable};
use super::{Json, Node, Reflect, TypeRef};
use crate::json::scan::plain_text_part;
use crate::json::{Key, borrowed, exact, read};

macro_rules! events {
    ({ $($(#[doc = $doc:expr])* $name:ident,)* } requests { $($(#[doc = $rdoc:expr])* $request:ident,)* }) => {
        /// An event of a session: a message of the agent, or a request of the agent that awaits an answer.
        ///
        /// Its JSON is that of Wire: `{"type": …, "payload": …}`.
        ///
        /// ```
        /// # use kimi_agent_protocol as kimi_agent;
        /// use kimi_agent::wire::{ContentPart, Event};
        /// let event: Event = serde_json::from_str(
        ///     r#"{"type":"ContentPart","payload":{"type":"text","text":"hi"}}"#,
        /// )?;
        /// match event {
        ///     Event::ContentPart(ContentPart::Text(part)) => assert_eq!(part.text, "hi"),
        ///     other => panic!("{other:?}"),
        /// }
        /// # Ok::<(), serde_json::Error>(())
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Event {
            $($(#[doc = $doc])* $name($name),)*
            $($(#[doc = $rdoc])* $request($request),)*
            /// An event of an unknown type, or an event that could not be read. It has all that the agent sent.
            Unknown(UnknownEvent),
        }

        impl Event {
            /// The names of events in Wire.
            pub const EVENT_TYPES: &'static [&'static str] = &[$(stringify!($name)),*];
            /// The names of requests in Wire.
            pub const REQUEST_TYPES: &'static [&'static str] = &[$(stringify!($request)),*];

            /// Returns the name of the type in Wire. An unknown event has the name that the agent sent.
            pub fn type_name(&self) -> &str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                    $(Self::$request(_) => stringify!($request),)*
                    Self::Unknown(event) => &event.kind,
                }
            }

            /// Decodes a payload by the name of its type. Never fails: an unreadable payload becomes
            /// [`Event::Unknown`], with the reason if the type is known.
            pub fn decode(kind: &str, payload: &str) -> Self {
                // Pieces of the answer's text are by far the most frequent events.
                if kind == "ContentPart" && let Some(text) = plain_text_part(payload) {
                    return Self::ContentPart(ContentPart::text(text));
                }
                let decoded = match kind {
                    $(stringify!($name) => decode_body(payload).map(Self::$name),)*
                    $(stringify!($request) => decode_request(payload).map(Self::$request),)*
                    _ => return Self::unknown(kind, Json::from_text(payload), None),
                };
                decoded.unwrap_or_else(|error| Self::unknown(kind, Json::from_text(payload), Some(error)))
            }

            fn inner(&self) -> Node<'_> {
                match self {
                    $(Self::$name(inner) => inner.node(),)*
                    $(Self::$request(inner) => inner.node(),)*
                    Self::Unknown(inner) => Node::Message(inner),
                }
            }
        }

        $(impl From<$name> for Event {
            fn from(inner: $name) -> Self {
                Self::$name(inner)
            }
        })*
        $(impl From<$request> for Event {
            fn from(inner: $request) -> Self {
                Self::$request(inner)
            }
        })*

        impl Serialize for Event {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(2))?;
                match self {
                    $(Self::$name(inner) => {
                        map.serialize_entry("type", stringify!($name))?;
                        map.serialize_entry("payload", inner)?;
                    })*
                    $(Self::$request(inner) => {
                        map.serialize_entry("type", stringify!($request))?;
                        map.serialize_entry("payload", inner)?;
                    })*
                    Self::Unknown(inner) => {
                        map.serialize_entry("type", "UnknownEvent")?;
                        map.serialize_entry("payload", inner)?;
                    }
                }
                map.end()
            }
        }
    };
}

events! {{
    /// A turn began.
    TurnBegin,
    /// A turn ended.
    TurnEnd,
    /// A steer has reached the model.
    SteerInput,
    /// A step began.
    StepBegin,
    /// A step was interrupted.
    StepInterrupted,
    /// A step's call of the model is retried.
    StepRetry,
    /// The context is being compacted.
    CompactionBegin,
    /// The context has been compacted.
    CompactionEnd,
    /// MCP servers are being connected.
    MCPLoadingBegin,
    /// MCP servers have been connected.
    MCPLoadingEnd,
    /// The agent's status has changed: context, plan mode, tokens and others.
    StatusUpdate,
    /// A notice for the user.
    Notification,
    /// A plan for the user.
    PlanDisplay,
    /// The agent's plan, as a list of entries.
    Plan,
    /// Hooks are running.
    HookTriggered,
    /// Hooks have run.
    HookResolved,
    /// A side question is being answered.
    BtwBegin,
    /// A side question has been answered.
    BtwEnd,
    /// A part of the model's answer.
    ContentPart,
    /// The model calls a tool.
    ToolCall,
    /// A further piece of a tool call's arguments.
    ToolCallPart,
    /// A tool call has ended.
    ToolResult,
    /// An approval request has been resolved.
    ApprovalResponse,
    /// An event of a subagent.
    SubagentEvent,
    /// A policy decided about a tool call.
    PolicyDecision,
    /// A handler of the program failed.
    HandlerFailed,
} requests {
    /// The agent requests an approval for an action.
    ApprovalRequest,
    /// The model calls one of the program's tools.
    ToolCallRequest,
    /// The agent asks the user questions.
    QuestionRequest,
    /// The agent calls a hook of the program.
    HookRequest,
    /// The agent reads a file through the program.
    ReadFileRequest,
    /// The agent writes a file through the program.
    WriteFileRequest,
    /// The agent runs a command through the program.
    TerminalRequest,
}}

/// Decodes a payload. After a failure it decodes again, for the path to the problem.
///
/// # Errors
/// Returns the problem of the payload, and its path.
pub fn decode_body<T: for<'de> Deserialize<'de>>(payload: &str) -> Result<T, String> {
    // Messages without fields may also lack the payload object.
    let payload = if payload == "null" { "{}" } else { payload };
    serde_json::from_str(payload).or_else(|_| keeping_unreadable(|| read(payload)))
}

/// Decodes a request, which must be read in full: a decision must not miss a part of it.
fn decode_request<T: for<'de> Deserialize<'de>>(payload: &str) -> Result<T, String> {
    // Messages without fields may also lack the payload object.
    exact(if payload == "null" { "{}" } else { payload })
}

impl Event {
    /// Makes the event for a payload of a known type that cannot be read.
    pub fn undecoded(kind: &str, payload: &str, error: String) -> Self {
        Self::unknown(kind, Json::from_text(payload), Some(error))
    }

    fn unknown(kind: &str, payload: Json, error: Option<String>) -> Self {
        Self::Unknown(UnknownEvent { kind: kind.to_owned(), payload, error, extra: Default::default() })
    }

    /// Returns the text if this is a part of the answer's text.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::{ContentPart, Event};
    /// assert_eq!(Event::from(ContentPart::text("hi")).text(), Some("hi"));
    /// ```
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::ContentPart(ContentPart::Text(part)) => Some(&part.text),
            _ => None,
        }
    }

    /// Returns the text if this is a piece of a text: of the answer, of the thinking, or of a call's arguments.
    pub(crate) fn piece_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::ContentPart(ContentPart::Text(part)) => Some(&mut part.text),
            Self::ContentPart(ContentPart::Think(part)) => Some(&mut part.think),
            Self::ToolCallPart(part) => part.arguments_part.as_mut(),
            // The first piece of a call's arguments comes with the call.
            Self::ToolCall(call) => call.function.arguments.as_mut(),
            Self::SubagentEvent(subagent) => subagent.event.piece_mut(),
            _ => None,
        }
    }

    /// Returns the origin of a request that can be answered manually, if it came from a session of this process.
    pub fn origin(&self) -> Option<RequestOrigin> {
        match self {
            Self::ApprovalRequest(request) => request.extra.origin(),
            Self::QuestionRequest(request) => request.extra.origin(),
            _ => None,
        }
    }

    #[doc(hidden)]
    pub fn set_origin(&mut self, origin: RequestOrigin) {
        match self {
            Self::ApprovalRequest(request) => request.extra.set_origin(origin),
            Self::QuestionRequest(request) => request.extra.set_origin(origin),
            _ => {}
        }
    }

    /// Returns the request's id if this is a request.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::ApprovalRequest(request) => Some(&request.id),
            Self::ToolCallRequest(request) => Some(&request.id),
            Self::QuestionRequest(request) => Some(&request.id),
            Self::HookRequest(request) => Some(&request.id),
            Self::ReadFileRequest(request) => Some(&request.id),
            Self::WriteFileRequest(request) => Some(&request.id),
            Self::TerminalRequest(request) => Some(&request.id),
            _ => None,
        }
    }

    /// Returns the message in the event, for code that does not know its type.
    pub fn node(&self) -> Node<'_> {
        self.inner()
    }
}

/// The limit of nested events. Each level is a recursion, and an agent's line must not overflow the stack.
struct Depth;

thread_local! {
    static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl Depth {
    const MAX: u32 = 32;

    fn enter() -> Option<Self> {
        let depth = DEPTH.get();
        (depth < Self::MAX).then(|| {
            DEPTH.set(depth + 1);
            Self
        })
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Tagged<'a> {
            #[serde(borrow, rename = "type")]
            kind: Key<'a>,
            #[serde(borrow)]
            payload: Option<&'a RawValue>,
        }
        let json = Json::deserialize(deserializer)?;
        let _depth = Depth::enter().ok_or_else(|| D::Error::custom("events are nested too deeply"))?;
        let tagged: Tagged<'_> = borrowed(json.get()).map_err(D::Error::custom)?;
        if &*tagged.kind.0 == "UnknownEvent"
            && let Some(unknown) = tagged.payload.and_then(|payload| serde_json::from_str(payload.get()).ok())
        {
            // The form that this SDK writes.
            return Ok(Self::Unknown(unknown));
        }
        Ok(Self::decode(&tagged.kind.0, tagged.payload.map_or("null", RawValue::get)))
    }
}

impl Field for Event {
    fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
    fn node(&self) -> Node<'_> {
        self.inner()
    }
    fn type_ref() -> TypeRef {
        TypeRef::Ref("Event")
    }
}

/// A message by reference is as good as the message.
impl Reflect for Event {
    fn type_name(&self) -> &'static str {
        match self.inner() {
            Node::Message(message) => message.type_name(),
            _ => "Event",
        }
    }
    fn for_each_field<'a>(&'a self, visit: &mut dyn FnMut(&'static str, Node<'a>)) {
        if let Node::Message(message) = self.inner() {
            message.for_each_field(visit);
        }
    }
    fn extra(&self) -> &super::Extra {
        match self.inner() {
            Node::Message(message) => message.extra(),
            _ => super::value::NO_EXTRA,
        }
    }
}
