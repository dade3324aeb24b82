//! Passes the log records of the core to the mailboxes of the host, which adds them to its own log.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError, Weak};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::{Mailbox, Naming};
use crate::connection::WIRE;
use crate::printable::printable_line;

/// The level of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogLevel {
    /// Something failed.
    Error = 1,
    /// Something needs attention.
    Warn,
    /// Something happened.
    Info,
    /// For debugging.
    Debug,
    /// For debugging in detail.
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

/// Records above this level are not delivered. 0: no record is delivered.
static MAX_LEVEL: AtomicU8 = AtomicU8::new(LogLevel::Warn as u8);

/// The mailbox of each session's records, and the number of its route.
type Routes = HashMap<String, (u64, Weak<Mailbox>)>;

static ROUTES: LazyLock<Mutex<Routes>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether records of the target [`WIRE`] are delivered at any level.
static SHOWS_WIRE: AtomicBool = AtomicBool::new(false);

/// Sets whether a record for each message between the SDK and the agent is delivered.
pub fn set_wire_log(on: bool) {
    if SHOWS_WIRE.swap(on, Ordering::Relaxed) != on {
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Starts to deliver records up to the level that was set last; initially up to [`LogLevel::Warn`]. If the host has
/// installed a subscriber itself, that one gets the records instead.
pub fn install_log(naming: Naming) {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(ToMailboxes { naming });
        drop(tracing::subscriber::set_global_default(subscriber));
    });
}

/// Sets the level up to which records are delivered. `None`: no record is delivered.
pub fn set_log_level(level: Option<LogLevel>) {
    let level = level.map_or(0, |level| level as u8);
    if MAX_LEVEL.swap(level, Ordering::Relaxed) != level {
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Sends the records of this session to this mailbox until it is dropped.
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
        // The session may have been resumed meanwhile, with a new route.
        if routes.get(&self.session).is_some_and(|(number, _)| *number == self.number) {
            routes.remove(&self.session);
        }
    }
}

/// The id of the session to which a span belongs.
struct SessionName(String);

/// Returns the target for the host. All crates of the core log below `kimi_agent`, as documented.
fn host_target(target: &str) -> Cow<'_, str> {
    let (crate_name, rest) = target.split_at(target.find("::").unwrap_or(target.len()));
    if crate_name.starts_with("kimi_agent_") { format!("kimi_agent{rest}").into() } else { target.into() }
}

/// The layer that delivers records to mailboxes.
struct ToMailboxes {
    naming: Naming,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ToMailboxes {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The level may change at any time.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let wanted = MAX_LEVEL.load(Ordering::Relaxed);
        let is_wanted = LogLevel::from(metadata.level()) as u8 <= wanted;
        metadata.target().starts_with("kimi_agent")
            && (metadata.is_span() || is_wanted || (metadata.target() == WIRE && SHOWS_WIRE.load(Ordering::Relaxed)))
    }

    /// Returns a level so that other records cost only a comparison. Spans are always needed.
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

    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = Text::default();
        span.record(&mut text);
        if let Some(span) = context.span(id).filter(|_| !text.session.is_empty()) {
            span.extensions_mut().insert(SessionName(text.session));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let spans = context.event_scope(event).into_iter().flatten();
        // The sessions of a batch have no routes of their own, but the batch has one.
        let mut names = spans.filter_map(|span| Some(span.extensions().get::<SessionName>()?.0.clone()));
        let mailbox = {
            let routes = lock(&ROUTES);
            let own = names.find_map(|name| routes.get(&name).and_then(|(_, mailbox)| mailbox.upgrade()));
            own.or_else(|| routes.values().find_map(|(_, mailbox)| mailbox.upgrade()))
        };
        if let Some(mailbox) = mailbox {
            let metadata = event.metadata();
            // The host may print records to a terminal, and a record is one line.
            let mut text = text.message + &text.fields;
            if metadata.target() != WIRE {
                text = self.naming.spell(&text);
            }
            mailbox.post_log(
                metadata.level().into(),
                &host_target(metadata.target()),
                printable_line(&text).into_owned(),
            );
        }
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
    fn log_target_names_package_not_crate() {
        assert_eq!(host_target("kimi_agent_protocol::connection"), "kimi_agent::connection");
        assert_eq!(host_target("kimi_agent_client"), "kimi_agent");
        assert_eq!(host_target("kimi_agent::wire"), "kimi_agent::wire");
    }

    #[test]
    fn route_is_removed_with_its_session() {
        let mailbox = Mailbox::new(|| ());
        let route = Route::new("a route that goes", &mailbox);
        assert!(has_route("a route that goes"));
        drop(route);
        assert!(!has_route("a route that goes"));
    }

    #[test]
    fn resumed_session_keeps_its_route() {
        let mailbox = Mailbox::new(|| ());
        let former = Route::new("a route that stays", &mailbox);
        let route = Route::new("a route that stays", &mailbox);
        drop(former);
        assert!(has_route("a route that stays"));
        drop(route);
        assert!(!has_route("a route that stays"));
    }
}
