//! What the core says through `tracing`, on its way to the host's own log.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_core::LevelFilter;
use tracing_core::span::Current;

use super::Mailbox;
use crate::connection::WIRE;
use crate::printable::printable_line;

/// How grave a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogLevel {
    /// Something failed.
    Error = 1,
    /// Something is odd.
    Warn,
    /// Something happened.
    Info,
    /// For who looks closely.
    Debug,
    /// For who looks very closely.
    Trace,
}

impl From<&Level> for LogLevel {
    fn from(level: &Level) -> Self {
        match *level {
            Level::ERROR => Self::Error,
            Level::WARN => Self::Warn,
            Level::INFO => Self::Info,
            Level::DEBUG => Self::Debug,
            Level::TRACE => Self::Trace,
        }
    }
}

/// Nothing above this is delivered; 0 for nothing at all.
static MAX_LEVEL: AtomicU8 = AtomicU8::new(LogLevel::Warn as u8);

/// By session: which mailbox hears of it, and the number of the route that says so.
type Routes = HashMap<String, (u64, Weak<Mailbox>)>;

static ROUTES: LazyLock<Mutex<Routes>> = LazyLock::new(Mutex::default);

thread_local! {
    /// The sessions whose spans are entered on this thread, innermost last.
    static CURRENT: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether records of the target [`WIRE`] are delivered, whatever the level.
static SHOWS_WIRE: AtomicBool = AtomicBool::new(false);

/// Delivers a record for each message between the SDK and the agent, or none.
pub fn set_wire_log(on: bool) {
    if SHOWS_WIRE.swap(on, Ordering::Relaxed) != on {
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Delivers records up to this level; `None` for none.
pub fn install_log(level: Option<LogLevel>) {
    MAX_LEVEL.store(level.map_or(0, |level| level as u8), Ordering::Relaxed);
    // A host that has a subscriber of its own keeps it.
    drop(tracing::subscriber::set_global_default(ToMailboxes::default()));
    tracing::callsite::rebuild_interest_cache();
}

/// Records of this session go to this mailbox for as long as this is kept.
#[derive(Debug)]
pub(super) struct Route {
    session: String,
    number: u64,
}

impl Route {
    pub(super) fn new(session: &str, mailbox: &Arc<Mailbox>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        lock(&ROUTES).insert(session.to_owned(), (number, Arc::downgrade(mailbox)));
        Self { session: session.to_owned(), number }
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        let mut routes = lock(&ROUTES);
        // The session may have been resumed meanwhile, which is a route of its own.
        if routes.get(&self.session).is_some_and(|(number, _)| *number == self.number) {
            routes.remove(&self.session);
        }
    }
}

#[derive(Default)]
struct ToMailboxes {
    next: AtomicU64,
    spans: Mutex<HashMap<u64, OpenSpan>>,
}

struct OpenSpan {
    session: String,
    metadata: &'static Metadata<'static>,
    /// How often it is held.
    held: usize,
}

/// The target for the host: all crates of the core log below `kimi_agent`, which documents promise.
fn host_target(target: &str) -> Cow<'_, str> {
    let (crate_name, rest) = target.split_at(target.find("::").unwrap_or(target.len()));
    if crate_name.starts_with("kimi_agent_") { format!("kimi_agent{rest}").into() } else { target.into() }
}

impl Subscriber for ToMailboxes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let wanted = MAX_LEVEL.load(Ordering::Relaxed);
        let is_wanted = LogLevel::from(metadata.level()) as u8 <= wanted;
        metadata.target().starts_with("kimi_agent")
            && (metadata.is_span() || is_wanted || (metadata.target() == WIRE && SHOWS_WIRE.load(Ordering::Relaxed)))
    }

    /// What is above this costs no more than a look at one number. Spans are always wanted.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        let wanted = MAX_LEVEL.load(Ordering::Relaxed);
        Some(if SHOWS_WIRE.load(Ordering::Relaxed) || wanted >= LogLevel::Trace as u8 {
            LevelFilter::TRACE
        } else if wanted >= LogLevel::Debug as u8 {
            LevelFilter::DEBUG
        } else {
            LevelFilter::INFO
        })
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        // The level may change at any time.
        tracing::subscriber::Interest::sometimes()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut text = Text::default();
        span.record(&mut text);
        lock(&self.spans).insert(id, OpenSpan { session: text.session, metadata: span.metadata(), held: 1 });
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let session = CURRENT.with_borrow(|current| current.last().copied());
        let session = session.and_then(|id| lock(&self.spans).get(&id).map(|span| span.session.clone()));
        let mailbox = {
            let routes = lock(&ROUTES);
            let own = session.and_then(|session| routes.get(&session).and_then(|(_, mailbox)| mailbox.upgrade()));
            own.or_else(|| routes.values().find_map(|(_, mailbox)| mailbox.upgrade()))
        };
        if let Some(mailbox) = mailbox {
            let metadata = event.metadata();
            // Handlers of the host's print records as they are, to a terminal perhaps, and a record is one line.
            let text = text.message + &text.fields;
            mailbox.post_log(
                metadata.level().into(),
                &host_target(metadata.target()),
                printable_line(&text).into_owned(),
            );
        }
    }

    fn enter(&self, span: &Id) {
        CURRENT.with_borrow_mut(|current| current.push(span.into_u64()));
    }

    fn exit(&self, _: &Id) {
        CURRENT.with_borrow_mut(|current| {
            current.pop();
        });
    }

    /// So that what goes on in another thread can be told to belong to the same session.
    fn current_span(&self) -> Current {
        let current = CURRENT.with_borrow(|current| current.last().copied());
        let span = current.and_then(|id| Some((id, lock(&self.spans).get(&id)?.metadata)));
        span.map_or_else(Current::none, |(id, metadata)| Current::new(Id::from_u64(id), metadata))
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = lock(&self.spans).get_mut(&id.into_u64()) {
            span.held += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = lock(&self.spans);
        let Some(span) = spans.get_mut(&id.into_u64()) else { return true };
        span.held -= 1;
        if span.held > 0 {
            return false;
        }
        spans.remove(&id.into_u64());
        true
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
    session: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "session" => value.clone_into(&mut self.session),
            "message" => value.clone_into(&mut self.message),
            name => {
                let _ = write!(self.fields, " {name}={value:?}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_route(session: &str) -> bool {
        lock(&ROUTES).contains_key(session)
    }

    #[test]
    fn target_for_the_host_names_the_package_and_not_the_crate() {
        assert_eq!(host_target("kimi_agent_protocol::connection"), "kimi_agent::connection");
        assert_eq!(host_target("kimi_agent_client"), "kimi_agent");
        assert_eq!(host_target("kimi_agent::wire"), "kimi_agent::wire");
    }

    #[test]
    fn a_route_goes_with_its_session() {
        let mailbox = Mailbox::new(|| ());
        let route = Route::new("a route that goes", &mailbox);
        assert!(has_route("a route that goes"));
        drop(route);
        assert!(!has_route("a route that goes"));
    }

    #[test]
    fn a_session_that_is_resumed_keeps_its_route() {
        let mailbox = Mailbox::new(|| ());
        let former = Route::new("a route that stays", &mailbox);
        let route = Route::new("a route that stays", &mailbox);
        drop(former);
        assert!(has_route("a route that stays"));
        drop(route);
        assert!(!has_route("a route that stays"));
    }
}
