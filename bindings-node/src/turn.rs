//! A turn, or a replay.

use kimi_agent::wire::Event;
use kimi_agent_bridge::{Batch, BridgeTurn, Drained, Tag, origin_of};
use napi::Env;
use napi_derive::napi;
use serde::{Serialize, Serializer};

use crate::delivery::{RequestOrigin, checked, to_json};
use crate::error::{NativeError, OrThrow};
use crate::parse;
use crate::session::content;

/// A turn, or a replay. If it is garbage collected, it is cancelled in the background.
#[napi]
pub struct NativeTurn {
    turn: BridgeTurn,
}

impl NativeTurn {
    pub(crate) fn new(turn: BridgeTurn) -> Self {
        turn.announce_end();
        Self { turn }
    }
}

/// A batch of events.
///
/// A text part that has nothing but its text, as most events are, is a number in `eventsJson`: the length of its text in
/// `texts`. A long text is null there and an item of `longTexts`. JavaScript would take several times as long to read the
/// same from JSON, with a second copy of each text.
#[napi(object, object_from_js = false)]
pub struct EventBatch {
    /// A JSON array of events, of lengths of texts, and of null for long texts.
    pub events_json: String,
    /// The short texts, one after the other.
    pub texts: String,
    /// The long texts. Absent if there is none.
    pub long_texts: Option<Vec<String>>,
    /// The requests among the events. Absent if there is none.
    pub requests: Option<Vec<RequestPlace>>,
    /// The step of the next unread event. Absent while there is no event.
    pub next: Option<StepTag>,
    /// Whether nothing follows in the turn, or in the step that was asked for.
    pub ended: bool,
}

/// A request in a batch.
#[napi(object, object_from_js = false)]
pub struct RequestPlace {
    /// The place among the events.
    pub place: u32,
    /// The request.
    pub origin: RequestOrigin,
}

/// A step of a turn.
#[napi(object, object_from_js = false)]
pub struct StepTag {
    /// The place in the turn, from 0.
    pub index: u32,
    /// The agent's number.
    pub n: i64,
}

impl From<Tag> for StepTag {
    fn from(Tag { index, n }: Tag) -> Self {
        Self { index, n }
    }
}

/// The longest text, in bytes, that is cut out of `texts`: the cut text keeps all of `texts` in memory.
const LONGEST_SHORT: usize = 256;

/// An event in `events_json`.
enum Packed {
    Length(usize),
    Long,
    Event(Box<Event>),
}

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Length(length) => serializer.serialize_u64(*length as u64),
            Self::Long => serializer.serialize_unit(),
            Self::Event(event) => event.serialize(serializer),
        }
    }
}

fn pack(batch: Batch) -> Result<EventBatch, kimi_agent::Error> {
    let (mut texts, mut long_texts, mut requests) = (String::new(), Vec::new(), Vec::new());
    let mut events = Vec::with_capacity(batch.events.len());
    for (place, event) in (0..).zip(batch.events) {
        events.push(match event {
            Drained::Text(text) if text.len() <= LONGEST_SHORT => {
                texts.push_str(&text);
                // Lengths are in units of UTF-16, as in JavaScript.
                Packed::Length(if text.is_ascii() { text.len() } else { text.encode_utf16().count() })
            }
            Drained::Text(text) => {
                long_texts.push(checked("an event", text)?);
                Packed::Long
            }
            Drained::Other(event) => {
                requests.extend(origin_of(&event).map(|origin| RequestPlace { place, origin: origin.into() }));
                Packed::Event(event)
            }
        });
    }
    Ok(EventBatch {
        events_json: checked("a batch of events", to_json(&events))?,
        texts,
        long_texts: (!long_texts.is_empty()).then_some(long_texts),
        requests: (!requests.is_empty()).then_some(requests),
        next: batch.next.map(StepTag::from),
        ended: batch.ended,
    })
}

#[napi]
impl NativeTurn {
    /// Deliveries name the turn by this number.
    #[napi(getter)]
    pub fn key(&self) -> f64 {
        self.turn.key as f64
    }

    /// The name within the session.
    #[napi(getter)]
    pub fn id(&self) -> String {
        self.turn.id().to_owned()
    }

    /// Returns up to `max` events that are there, with `step` only events of that step. Returns null if there is nothing
    /// to say; a delivery `readable` then follows. The program has got `got` more of the events drained before.
    #[napi]
    pub fn drain(&self, env: &Env, max: u32, step: Option<u32>, got: u32) -> napi::Result<Option<EventBatch>> {
        self.turn.acknowledge(got as usize);
        loop {
            let batch = self.turn.drain(max as usize, step);
            if !batch.events.is_empty() || batch.next.is_some() || batch.ended {
                // An event that JavaScript can't hold ends the turn.
                return pack(batch).inspect_err(|_| self.turn.abandon()).or_throw(env).map(Some);
            }
            if !self.turn.wait() {
                return Ok(None);
            }
        }
    }

    /// The program has got `count` more of the drained events.
    #[napi]
    pub fn acknowledge(&self, count: u32) {
        self.turn.acknowledge(count as usize);
    }

    /// Whether the turn has an outcome.
    #[napi(getter)]
    pub fn is_settled(&self) -> bool {
        self.turn.outcome().is_some()
    }

    /// The error that ended the turn; null if it has not ended, or ended without an error.
    #[napi]
    pub fn error(&self) -> Option<NativeError> {
        self.turn.outcome()?.err().map(|error| NativeError::from(&error))
    }

    /// A ticket for the result as JSON. Refused in the handler `within` if the turn waits for it.
    #[napi]
    pub fn result(&self, env: &Env, within: Option<f64>) -> napi::Result<f64> {
        self.turn.result(within.map(|job| job as u64)).map(|ticket| ticket as f64).or_throw(env)
    }

    /// A loop begins to read. Refused if the turn is read in the other mode or by another loop.
    #[napi]
    pub fn reader_started(&self, env: &Env, by_step: bool) -> napi::Result<()> {
        self.turn.start_loop(by_step).or_throw(env)
    }

    /// A ticket for the end of the turn, which is cancelled.
    #[napi]
    pub fn cancel(&self, env: &Env) -> napi::Result<f64> {
        self.turn.cancel().map(|ticket| ticket as f64).or_throw(env)
    }

    /// A ticket for the agent's answer to the steering.
    #[napi]
    pub fn steer(&self, env: &Env, content_json: String) -> napi::Result<f64> {
        self.turn.steer(content(env, &content_json)?).map(|ticket| ticket as f64).or_throw(env)
    }

    /// A ticket for a manual answer to a request; without `origin`, only its id says which one.
    #[napi]
    pub fn respond(
        &self,
        env: &Env,
        request_id: String,
        origin: Option<RequestOrigin>,
        answer_json: String,
    ) -> napi::Result<f64> {
        let answer = parse(env, "answer", &answer_json)?;
        self.turn.respond(request_id, origin.map(Into::into), answer).map(|ticket| ticket as f64).or_throw(env)
    }

    /// The tokens so far as JSON.
    #[napi]
    pub fn usage_json(&self) -> String {
        to_json(&self.turn.usage())
    }

    /// How many events were dropped.
    #[napi(getter)]
    pub fn discarded(&self) -> f64 {
        self.turn.discarded() as f64
    }

    /// The program has left the turn: unread events are dropped, and it is cancelled in the background.
    #[napi]
    pub fn abandon(&self) {
        self.turn.abandon();
    }
}
