//! The envelope of a frame: its place in the journal, its session, and its payload.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{Key, borrowed, whole_number};

/// A frame without its type.
#[derive(Deserialize)]
pub(super) struct Frame<'a> {
    pub(super) seq: Option<u64>,
    #[serde(borrow)]
    session_id: Option<Key<'a>>,
    #[serde(borrow)]
    pub(super) epoch: Option<Key<'a>>,
    #[serde(default)]
    pub(super) volatile: Option<bool>,
    pub(super) offset: Option<u64>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    /// The optional members that cannot be read.
    #[serde(skip)]
    left_out: Vec<&'static str>,
}

impl<'a> Frame<'a> {
    /// Reads a frame. An optional member that cannot be read is left out, because the frame has the agent's text.
    pub(super) fn read(text: &'a str) -> Result<Self, String> {
        let read = borrowed(text).or_else(|_| borrowed(text).map(Self::of_members));
        read.map_err(|error: serde_json::Error| error.to_string())
    }

    fn of_members(members: BTreeMap<String, &'a RawValue>) -> Self {
        let mut left_out = Vec::new();
        Self {
            seq: optional(&members, "seq", whole, &mut left_out),
            session_id: optional(&members, "session_id", word, &mut left_out),
            epoch: optional(&members, "epoch", word, &mut left_out),
            volatile: optional(&members, "volatile", |text| serde_json::from_str(text).ok(), &mut left_out),
            offset: optional(&members, "offset", whole, &mut left_out),
            payload: members.get("payload").copied(),
            left_out,
        }
    }

    /// Logs the members that were left out.
    pub(super) fn log_left_out(&self) {
        for field in &self.left_out {
            tracing::debug!(field, "unreadable optional field left out");
        }
    }

    /// Returns the session of the frame. A frame that does not name it can name it in its payload.
    pub(super) fn session(&self) -> Option<Cow<'_, str>> {
        #[derive(Deserialize)]
        struct Payload<'a> {
            #[serde(borrow, rename = "sessionId")]
            session: Option<Key<'a>>,
            #[serde(borrow)]
            session_id: Option<Key<'a>>,
        }
        match &self.session_id {
            Some(session) => Some(Cow::Borrowed(&*session.0)),
            None => {
                let payload: Payload<'_> = borrowed(self.payload()).ok()?;
                payload.session.or(payload.session_id).map(|session| session.0)
            }
        }
    }

    pub(super) fn payload(&self) -> &'a str {
        self.payload.map_or("null", RawValue::get)
    }
}

fn optional<'a, T>(
    members: &BTreeMap<String, &'a RawValue>,
    name: &'static str,
    read: impl Fn(&'a str) -> Option<T>,
    left_out: &mut Vec<&'static str>,
) -> Option<T> {
    let given = members.get(name).map(|member| member.get()).filter(|text| *text != "null")?;
    let value = read(given);
    if value.is_none() {
        left_out.push(name);
    }
    value
}

fn whole(text: &str) -> Option<u64> {
    whole_number(&serde_json::from_str::<Value>(text).ok()?)
}

fn word(text: &str) -> Option<Key<'_>> {
    serde_json::from_str(text).ok()
}
