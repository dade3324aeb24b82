//! An event on its way from a line to whoever reads it.

use super::{ContentPart, Event, TextPart};

/// An event, packed small. An [`Event`] is as large as the largest of its kinds, some 280 bytes, and its way has many
/// stations; what comes most by far is a piece of text. So a text travels by itself, everything else in a box.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parcel {
    /// A piece of the answer's text, and nothing else.
    Text(String),
    Other(Box<Event>),
}

impl Parcel {
    /// The event itself.
    pub(crate) fn open(self) -> Event {
        match self {
            Self::Text(text) => Event::ContentPart(ContentPart::Text(TextPart { text, extra: Default::default() })),
            Self::Other(event) => *event,
        }
    }

    /// The request's id, if this is a request.
    pub(crate) fn request_id(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Other(event) => event.request_id(),
        }
    }

    /// The name of its type.
    pub(crate) fn type_name(&self) -> &str {
        match self {
            Self::Text(_) => "ContentPart",
            Self::Other(event) => event.type_name(),
        }
    }
}

impl<E: Into<Event>> From<E> for Parcel {
    fn from(event: E) -> Self {
        match event.into() {
            Event::ContentPart(ContentPart::Text(TextPart { text, extra })) if extra.is_empty() => Self::Text(text),
            other => Self::Other(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_as_it_was() {
        for json in [
            r#"{"type":"ContentPart","payload":{"type":"text","text":"hi"}}"#,
            r#"{"type":"ContentPart","payload":{"type":"text","text":"hi","more":1}}"#,
            r#"{"type":"StepBegin","payload":{"n":1}}"#,
            r#"{"type":"QuestionRequest","payload":{"id":"q","tool_call_id":"t","questions":[]}}"#,
        ] {
            let event: Event = serde_json::from_str(json).expect("an event");
            let parcel = Parcel::from(event.clone());
            assert_eq!((parcel.type_name(), parcel.request_id()), (event.type_name(), event.request_id()));
            assert_eq!(format!("{:?}", parcel.open()), format!("{event:?}"));
        }
        assert!(std::mem::size_of::<Parcel>() <= 32);
    }
}
