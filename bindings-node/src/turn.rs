//! A turn, or a replay.

use std::task::Poll;

use kimi_agent::wire::Event;
use kimi_agent_bridge::{BridgeTurn, QueuedEvents, Tag, origin_of};
use napi::Env;
use napi_derive::napi;
use serde::{Serialize, Serializer};

use crate::delivery::{RequestOrigin, checked, to_json};
use crate::error::OrThrow;
use crate::{content, parse};

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

/// A batch of events. A request is a batch of its own.
///
/// A text part that has nothing but its text, as most events are, is a number in `eventsJson`: the length of its text in
/// `texts`. A long text is null there and an item of `longTexts`. JavaScript would take several times as long to read the
/// same from JSON, with a second copy of each text.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct EventBatch {
    /// A JSON array of events, of lengths of texts, and of null for long texts.
    pub events_json: String,
    /// The short texts, one after the other.
    pub texts: String,
    /// The long texts. Absent if there is none.
    pub long_texts: Option<Vec<String>>,
    /// The request that the only event is. Absent if it is not a request.
    pub request: Option<RequestOrigin>,
    /// Whether this is the end of the turn, or of the requested step. It has no event then.
    pub ended: bool,
}

/// A step of a turn, or the end of the turn.
#[napi(object, object_from_js = false)]
pub struct NextStep {
    /// The step. Absent at the end of the turn.
    pub step: Option<StepTag>,
}

/// A step of a turn.
#[napi(object, object_from_js = false)]
pub struct StepTag {
    /// The place in the turn, from 0.
    pub index: u32,
    /// The agent's number.
    pub n: i64,
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

fn pack(batch: Vec<QueuedEvents>) -> Result<EventBatch, kimi_agent::Error> {
    let (mut texts, mut long_texts, mut request) = (String::new(), Vec::new(), None);
    let mut packed = Vec::new();
    for events in batch {
        match events {
            QueuedEvents::Texts(mut run) => {
                let has_long = run.texts().any(|text| text.len() > LONGEST_SHORT);
                for text in run.texts() {
                    packed.push(if text.len() <= LONGEST_SHORT {
                        texts.push_str(text);
                        // Lengths are in units of UTF-16, as in JavaScript.
                        Packed::Length(if text.is_ascii() { text.len() } else { text.encode_utf16().count() })
                    } else {
                        Packed::Long
                    });
                }
                // Taken out, because a text that is alone is not copied then.
                while has_long && let Some((text, _)) = run.pop() {
                    if text.len() > LONGEST_SHORT {
                        long_texts.push(checked("an event", text)?);
                    }
                }
            }
            QueuedEvents::Event(event) => {
                request = origin_of(&event).map(RequestOrigin::from);
                packed.push(Packed::Event(event));
            }
        }
    }
    Ok(EventBatch {
        events_json: checked("a batch of events", to_json(&packed))?,
        texts,
        long_texts: (!long_texts.is_empty()).then_some(long_texts),
        request,
        ended: false,
    })
}

#[napi]
impl NativeTurn {
    /// Deliveries name the turn by this number.
    #[napi(catch_unwind, getter)]
    pub fn key(&self) -> f64 {
        self.turn.key as f64
    }

    /// The name within the session.
    #[napi(catch_unwind, getter)]
    pub fn id(&self) -> String {
        self.turn.id().to_owned()
    }

    /// Begins a loop. Refused if the turn is read in the other mode or by another loop.
    #[napi(catch_unwind)]
    pub fn start_loop(&self, env: &Env, by_step: bool) -> napi::Result<()> {
        self.turn.start_loop(by_step).or_throw(env)
    }

    /// Returns the next events, at most `max`; with `step`, events of that step. Null if there is none yet; a delivery
    /// `readable` then follows. Throws the error that ended the turn. The program has got the batch before it.
    #[napi(catch_unwind)]
    pub fn fetch(&self, env: &Env, max: u32, step: Option<u32>) -> napi::Result<Option<EventBatch>> {
        match self.turn.poll_batch(max as usize, step) {
            Poll::Pending => Ok(None),
            Poll::Ready(None) => Ok(Some(EventBatch { ended: true, ..EventBatch::default() })),
            Poll::Ready(Some(events)) => {
                // An event that JavaScript can't hold ends the turn.
                pack(events.or_throw(env)?).inspect_err(|_| self.turn.abandon()).or_throw(env).map(Some)
            }
        }
    }

    /// The program has got the first `count` events of the batch.
    #[napi(catch_unwind)]
    pub fn took(&self, count: u32) {
        self.turn.take_batch(count as usize);
    }

    /// Skips the rest of the step that is being read, and returns the next one. Null if there is none yet; a delivery
    /// `readable` then follows. Throws the error that ended the turn.
    #[napi(catch_unwind)]
    pub fn next_step(&self, env: &Env) -> napi::Result<Option<NextStep>> {
        match self.turn.poll_step() {
            Poll::Pending => Ok(None),
            Poll::Ready(None) => Ok(Some(NextStep { step: None })),
            Poll::Ready(Some(step)) => {
                let Tag { index, n } = step.or_throw(env)?;
                Ok(Some(NextStep { step: Some(StepTag { index, n }) }))
            }
        }
    }

    /// Whether the turn has an outcome.
    #[napi(catch_unwind, getter)]
    pub fn is_settled(&self) -> bool {
        self.turn.is_settled()
    }

    /// A ticket for the result as JSON. Refused in the handler `within` if the turn waits for it.
    #[napi(catch_unwind)]
    pub fn result(&self, env: &Env, within: Option<f64>) -> napi::Result<f64> {
        self.turn.result(within.map(|job| job as u64)).map(|ticket| ticket as f64).or_throw(env)
    }

    /// Refused if the turn waits for the handler `within`, which wants to wait for the next event.
    #[napi(catch_unwind)]
    pub fn check_wait(&self, env: &Env, within: f64) -> napi::Result<()> {
        self.turn.check_wait(within as u64).or_throw(env)
    }

    /// The program leaves the turn on purpose: no warning is logged.
    #[napi(catch_unwind)]
    pub fn note_used(&self) {
        self.turn.note_used();
    }

    /// A ticket for the end of the turn, which is cancelled.
    #[napi(catch_unwind)]
    pub fn cancel(&self, env: &Env) -> napi::Result<f64> {
        self.turn.cancel().map(|ticket| ticket as f64).or_throw(env)
    }

    /// A ticket for the agent's answer to the steering.
    #[napi(catch_unwind)]
    pub fn steer(&self, env: &Env, content_json: String) -> napi::Result<f64> {
        self.turn.steer(content(env, &content_json)?).map(|ticket| ticket as f64).or_throw(env)
    }

    /// A ticket for the cancel of a subagent.
    #[napi(catch_unwind)]
    pub fn cancel_subagent(&self, env: &Env, session_id: String) -> napi::Result<f64> {
        self.turn.cancel_subagent(session_id).map(|ticket| ticket as f64).or_throw(env)
    }

    /// A ticket for a manual answer to a request; without `origin`, only its id says which one.
    #[napi(catch_unwind)]
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
    #[napi(catch_unwind)]
    pub fn usage_json(&self) -> String {
        to_json(&self.turn.usage())
    }

    /// How many events were dropped.
    #[napi(catch_unwind, getter)]
    pub fn discarded(&self) -> f64 {
        self.turn.discarded() as f64
    }

    /// The program has left the turn: unread events are dropped, and it is cancelled in the background.
    #[napi(catch_unwind)]
    pub fn abandon(&self) {
        self.turn.abandon();
    }
}
