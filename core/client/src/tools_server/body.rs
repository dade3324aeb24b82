//! The bodies of requests: their sizes, and the reading of large ones on a thread of their own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::Value;

use crate::jsonrpc::framing::{MAX_VALUES, decoded_size, decoded_size_within_limit};

/// Larger bodies are read on a thread of their own, in bytes. Only the arguments of a tool call can be larger: the server of MCP
/// does not read them.
pub(super) const LONG: usize = 64 << 10;

/// The bodies of all connections.
pub(super) struct Bodies {
    pub(super) size: AtomicUsize,
    pub(super) limit: usize,
}

/// The size of one body, counted while it exists.
pub(super) struct Counted {
    bodies: Arc<Bodies>,
    size: usize,
}

impl Counted {
    pub(super) fn new(bodies: &Arc<Bodies>) -> Self {
        Self { bodies: Arc::clone(bodies), size: 0 }
    }

    /// Counts more of the body.
    ///
    /// # Errors
    /// Fails if all bodies exceed the limit together.
    pub(super) fn add(&mut self, more: usize) -> Result<(), Refusal> {
        self.size += more;
        if self.bodies.size.fetch_add(more, Ordering::Relaxed) + more <= self.bodies.limit {
            return Ok(());
        }
        tracing::warn!(limit = self.bodies.limit, "too many large requests to the tools at a time; one is refused");
        Err((StatusCode::SERVICE_UNAVAILABLE, "too many large requests at a time".to_owned()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.bodies.size.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// The status and the text of the answer to a request that is not read.
pub(super) type Refusal = (StatusCode, String);

/// A body as the server of MCP reads it.
pub(super) struct Prepared {
    pub(super) body: Bytes,
    pub(super) is_changed: bool,
    /// The arguments of a large tool call, which the body lacks.
    pub(super) arguments: Option<Arguments>,
    /// The size of a body that has its arguments.
    pub(super) counted: Option<Counted>,
}

/// The arguments of a large tool call as JSON, which the call takes. They count as a part of the bodies until the call ends.
#[derive(Clone)]
pub(super) struct Arguments(Arc<Mutex<Option<(String, Counted)>>>);

impl Arguments {
    fn new(text: String, counted: Counted) -> Self {
        Self(Arc::new(Mutex::new(Some((text, counted)))))
    }

    pub(super) fn take(&self) -> Option<(String, Counted)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Reads a body as all messages of agents are read: it may be nearly JSON.
///
/// # Errors
/// Fails if the body has too many values or takes too much memory.
pub(super) async fn prepared(whole: Vec<u8>, counted: Counted) -> Result<Prepared, Refusal> {
    if whole.len() <= LONG {
        return short(whole, counted);
    }
    tokio::task::spawn_blocking(move || long(whole, counted))
        .await
        .unwrap_or_else(|error| Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())))
}

fn short(whole: Vec<u8>, mut counted: Counted) -> Result<Prepared, Refusal> {
    // Many small values take more memory than their text.
    counted.add(decoded_size(&whole) - whole.len())?;
    let mut prepared =
        Prepared { body: Bytes::from(whole), is_changed: false, arguments: None, counted: Some(counted) };
    if serde_json::from_slice::<Value>(&prepared.body).is_err()
        && let Some(json) = kimi_agent_protocol::json::rewritten(&prepared.body)
    {
        prepared.body = json.into();
        prepared.is_changed = true;
    }
    Ok(prepared)
}

fn long(whole: Vec<u8>, mut counted: Counted) -> Result<Prepared, Refusal> {
    let Some(decoded) = decoded_size_within_limit(&whole) else {
        tracing::warn!(limit = MAX_VALUES, "a request to the tools with too many JSON values refused");
        return Err((StatusCode::PAYLOAD_TOO_LARGE, format!("the request has more than {MAX_VALUES} values")));
    };
    counted.add(decoded - whole.len())?;
    let message = serde_json::from_slice::<Value>(&whole).ok().or_else(|| {
        let json = kimi_agent_protocol::json::rewritten(&whole)?;
        serde_json::from_str(&json).ok()
    });
    drop(whole);
    let Some(mut message) = message else {
        return Err((StatusCode::BAD_REQUEST, "the request is not JSON".to_owned()));
    };
    let is_call = message["method"] == "tools/call";
    let arguments = message.get_mut("params").and_then(|params| params.get_mut("arguments"));
    let arguments = arguments.filter(|arguments| is_call && arguments.is_object());
    let arguments = arguments.map(|arguments| std::mem::take(arguments).to_string());
    let body = serde_json::to_vec(&message).unwrap_or_default();
    if body.len() > LONG {
        tracing::warn!(limit = LONG, "a large request to the tools that is not a tool call refused");
        let reason = format!("without the arguments of a tool call, the request exceeds {LONG} bytes");
        return Err((StatusCode::PAYLOAD_TOO_LARGE, reason));
    }
    let (arguments, counted) = match arguments {
        Some(text) => (Some(Arguments::new(text, counted)), None),
        None => (None, Some(counted)),
    };
    Ok(Prepared { body: body.into(), is_changed: true, arguments, counted })
}
