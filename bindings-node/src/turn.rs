//! A turn, or a replay.

use kimi_agent::Error;
use kimi_agent::bridge::{Batch, BridgeTurn, Drained, RequestOrigin, origin_of};
use kimi_agent::wire::Event;
use napi_derive::napi;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::deliveries::text;
use crate::session::content;
use crate::{error_json, parse, thrown};

/// A turn, or a replay. Collected, it is cancelled in the background.
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

/// What JavaScript was told of a request's origin, and gives back.
pub(crate) fn request_origin(numbers: Option<Vec<f64>>) -> Option<RequestOrigin> {
    match numbers?[..] {
        [session, request] => Some(RequestOrigin { session: session as u64, request: request as u64 }),
        _ => None,
    }
}

/// Texts up to this length come as one string: a longer one, cut out of it, would keep all of it in memory.
const LONGEST: usize = 256;

/// An event as it stands in a batch: a short piece of text as its length, in JavaScript's units, and a long one as null;
/// the texts come apart. To read the same out of JSON costs JavaScript several times as much, and a second copy.
enum Packed {
    Short(usize),
    Long,
    Event(Box<Event>),
}

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Short(length) => serializer.serialize_u64(*length as u64),
            Self::Long => serializer.serialize_unit(),
            Self::Event(event) => event.serialize(serializer),
        }
    }
}

/// The longest text that a string of V8's can hold, in units of UTF-16.
const LONGEST_STRING: usize = 0x1fff_ffe8;

/// The error for a text that is too long for a string. Texts that may be are counted; no other has that many bytes.
pub(crate) fn check_length(what: &str, text: &str) -> Result<(), Error> {
    if text.len() <= LONGEST_STRING || text.encode_utf16().count() <= LONGEST_STRING {
        return Ok(());
    }
    Err(Error::Protocol(format!(
        "{what} of {} bytes is longer than a JavaScript string can be ({LONGEST_STRING} characters); lower maxLineBytes",
        text.len()
    )))
}

/// A batch: JSON, its short texts, one after the other, and each of the long ones.
fn packed(batch: Batch) -> Vec<String> {
    #[derive(Serialize)]
    struct Head {
        events: Vec<Packed>,
        /// Of the requests among them: the place in the batch, the session and the request.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        origins: Vec<(usize, u64, u64)>,
        next: Option<(u32, i64)>,
        ended: bool,
    }
    let mut texts = vec![String::new(), String::new()];
    let mut origins = Vec::new();
    let events = batch.events.into_iter().enumerate().map(|(place, event)| match event {
        Drained::Text(text) if text.len() <= LONGEST => {
            texts[1].push_str(&text);
            Packed::Short(if text.is_ascii() { text.len() } else { text.encode_utf16().count() })
        }
        Drained::Text(text) => {
            texts.push(text);
            Packed::Long
        }
        Drained::Other(event) => {
            origins.extend(origin_of(&event).map(|origin| (place, origin.session, origin.request)));
            Packed::Event(event)
        }
    });
    let events = events.collect();
    let head = Head { events, origins, next: batch.next.map(|tag| (tag.index, tag.n)), ended: batch.ended };
    // Without a copy: it may be large.
    texts[0] = Box::<str>::from(text(&head)).into_string();
    texts
}

#[napi]
impl NativeTurn {
    /// By this deliveries name it.
    #[napi(getter)]
    pub fn key(&self) -> f64 {
        self.turn.key as f64
    }

    /// Its name within the session.
    #[napi(getter)]
    pub fn id(&self) -> String {
        self.turn.id().to_owned()
    }

    /// A batch of events: JSON, `{events, origins, next, ended}`, `origins` being `[place, session, request]` of the
    /// requests among them, if there are any, and `next` being `[index, number]` of the step of the next unread
    /// event; then the short texts as one, and each of the long ones. A short piece of text, as most events are, is a
    /// number in the JSON: its length; a long one is null. Nothing where nothing is there yet; then a `readable` follows.
    /// The program has got `got` of the events that it drained before.
    #[napi]
    pub fn drain(&self, max: u32, step: Option<u32>, got: u32) -> napi::Result<Option<Vec<String>>> {
        self.turn.acknowledge(got as usize);
        loop {
            let batch = self.turn.drain(max as usize, step);
            if !batch.events.is_empty() || batch.next.is_some() || batch.ended {
                let texts = packed(batch);
                if let Err(error) = texts.iter().try_for_each(|text| check_length("an event", text)) {
                    // Its text can't be told, so the rest of the turn is not, either.
                    self.turn.abandon();
                    return Err(thrown(&error));
                }
                return Ok(Some(texts));
            }
            if !self.turn.wait() {
                return Ok(None);
            }
        }
    }

    /// The program has got so many of the drained events.
    #[napi]
    pub fn acknowledge(&self, count: u32) {
        self.turn.acknowledge(count as usize);
    }

    /// The outcome as JSON, if there is one.
    #[napi]
    pub fn outcome(&self) -> Option<String> {
        self.turn.outcome().map(|outcome| match outcome {
            Ok(result) => json!({"result": result}).to_string(),
            Err(error) => json!({"error": error_json(&error)}).to_string(),
        })
    }

    /// A ticket for the outcome; `within` is the job that the caller runs in.
    #[napi]
    pub fn result(&self, within: Option<f64>) -> napi::Result<f64> {
        let ticket = self.turn.result(within.map(|job| job as u64)).map_err(|error| thrown(&error))?;
        Ok(ticket as f64)
    }

    /// Somebody reads, by event or by step.
    #[napi]
    pub fn reader_started(&self, by_step: bool) -> napi::Result<()> {
        self.turn.reader_started(by_step).map_err(|error| thrown(&error))
    }

    /// Nobody reads any more; the turn goes on.
    #[napi]
    pub fn reader_left(&self) {
        self.turn.reader_left();
    }

    /// Cancels.
    #[napi]
    pub fn cancel(&self) -> napi::Result<f64> {
        self.turn.cancel().map(|ticket| ticket as f64).map_err(|error| thrown(&error))
    }

    /// Steers.
    #[napi]
    pub fn steer(&self, content_json: String) -> napi::Result<f64> {
        let ticket = self.turn.steer(content(&content_json)?);
        ticket.map(|ticket| ticket as f64).map_err(|error| thrown(&error))
    }

    /// Answers a request by hand.
    #[napi]
    pub fn respond(&self, request_id: String, origin: Option<Vec<f64>>, answer_json: String) -> napi::Result<f64> {
        let ticket = self.turn.respond(request_id, request_origin(origin), parse("answer", &answer_json)?);
        ticket.map(|ticket| ticket as f64).map_err(|error| thrown(&error))
    }

    /// The tokens so far.
    #[napi]
    pub fn usage(&self) -> String {
        json!(self.turn.usage()).to_string()
    }

    /// How many events nobody got.
    #[napi(getter)]
    pub fn discarded(&self) -> f64 {
        self.turn.discarded() as f64
    }

    /// The program has left it: it is cancelled in the background.
    #[napi]
    pub fn abandon(&self) {
        self.turn.abandon();
    }
}
