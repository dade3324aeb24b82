//! A turn, or a replay.

use kimi_agent::bridge::{BridgeTurn, Drained};
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
        Self { turn }
    }
}

/// An event; a piece of text as a mere string, from which JavaScript makes the event: to read the names of its fields out
/// of JSON again and again costs it three times as much.
struct Short(Drained);

impl Serialize for Short {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Drained::Text(text) => serializer.serialize_str(text),
            Drained::Other(event) => event.serialize(serializer),
        }
    }
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

    /// A batch of events as JSON: `{events, next, ended}`, `next` being `[index, number]` of the step of the next
    /// unread event. A piece of text, as most events are, is its text alone.
    #[napi]
    pub fn drain(&self, max: u32, step: Option<u32>) -> String {
        let batch = self.turn.drain(max as usize, step);
        let next = batch.next.map(|tag| (i64::from(tag.index), tag.n));
        #[derive(Serialize)]
        struct Drained {
            events: Vec<Short>,
            next: Option<(i64, i64)>,
            ended: bool,
        }
        // Without a copy: it may be large.
        Box::<str>::from(text(&Drained {
            events: batch.events.into_iter().map(Short).collect(),
            next,
            ended: batch.ended,
        }))
        .into_string()
    }

    /// The program has got so many of the drained events.
    #[napi]
    pub fn acknowledge(&self, count: u32) {
        self.turn.acknowledge(count as usize);
    }

    /// Whether there is something to drain; if not, a `readable` follows.
    #[napi]
    pub fn wait(&self) -> bool {
        self.turn.wait()
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
    pub fn respond(&self, request_id: String, answer_json: String) -> napi::Result<f64> {
        let ticket = self.turn.respond(request_id, parse("answer", &answer_json)?);
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
