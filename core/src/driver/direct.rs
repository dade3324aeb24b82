//! Lets a thread of the host's run a driver to which it has just given something to do. Otherwise it would wake the
//! runtime's worker, and that the agent, each by way of the system.
//!
//! A driver is polled by one thread at a time, under a lock: by its task of the runtime's, or by such a thread, which tries
//! the lock only and leaves the driver to its task if somebody has it. Every wake is followed by a poll, of one or the other.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;

use super::sync::{Mutex, MutexGuard};

pub(crate) type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    /// The drivers that this thread has woken since it began to do something directly.
    static WOKEN: RefCell<Option<Vec<Arc<Direct>>>> = const { RefCell::new(None) };
    /// Whether this thread runs a driver in place of the runtime's.
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// Spawns a driver.
pub(crate) fn spawn(driver: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(Task(Direct::new(Box::pin(driver), Some(Handle::current()))));
}

/// Does something that may wake drivers, and then runs them on this thread, until they wait for something.
pub(crate) fn directly<R>(deed: impl FnOnce() -> R) -> R {
    struct Scope;
    impl Drop for Scope {
        fn drop(&mut self) {
            for driver in WOKEN.take().into_iter().flatten() {
                if std::thread::panicking() { driver.wake_task() } else { driver.run_here() }
            }
        }
    }
    if is_here() || WOKEN.with_borrow(Option::is_some) {
        return deed();
    }
    WOKEN.set(Some(Vec::new()));
    let _scope = Scope;
    deed()
}

/// Whether the calling thread runs a driver in place of the runtime's, and should not do so for long.
pub(super) fn is_here() -> bool {
    HERE.try_with(Cell::get).unwrap_or(false)
}

pub(crate) struct Direct {
    /// None once it has come to its end.
    body: Mutex<Option<Body>>,
    /// Wakes the task.
    task: Mutex<Option<Waker>>,
    /// What it runs in; none in models.
    runtime: Option<Handle>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Direct {
    pub(crate) fn new(body: Body, runtime: Option<Handle>) -> Arc<Self> {
        Arc::new(Self { body: Mutex::new(Some(body)), task: Mutex::new(None), runtime })
    }

    /// Polls the driver, whose lock the caller has.
    fn poll(self: &Arc<Self>, body: &mut Option<Body>) -> Poll<()> {
        let Some(driver) = body else { return Poll::Ready(()) };
        driver.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
    }

    /// For the task.
    fn poll_in_task(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut task = lock(&self.task);
            // Before the poll: whoever wakes the driver from now on finds whom to wake.
            match &mut *task {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
        }
        let mut body = lock(&self.body);
        let polled = self.poll(&mut body);
        if polled.is_ready() {
            let ended = body.take();
            drop(body);
            drop(ended);
        }
        polled
    }

    /// For a thread of the host's, which does not wait for the driver where another has it.
    pub(crate) fn run_here(self: &Arc<Self>) {
        struct Here;
        impl Drop for Here {
            fn drop(&mut self) {
                HERE.set(false);
            }
        }
        let Ok(mut body) = self.body.try_lock() else { return self.wake_task() };
        let entered = self.runtime.as_ref().map(Handle::enter);
        HERE.set(true);
        let here = Here;
        // What panics has ended the driver, which tells everybody; its task has nothing more to poll.
        let polled = catch_unwind(AssertUnwindSafe(|| self.poll(&mut body))).unwrap_or(Poll::Ready(()));
        drop((here, entered));
        if polled.is_ready() {
            let ended = body.take();
            drop(body);
            drop(ended);
            self.wake_task();
        }
    }

    fn wake_task(&self) {
        let task = lock(&self.task).clone();
        // None before its first poll, which is to come.
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Whether this thread runs it by itself, soon.
    fn is_collected(self: &Arc<Self>) -> bool {
        let collect = |woken: &RefCell<Option<Vec<Arc<Self>>>>| {
            let mut woken = woken.borrow_mut();
            let Some(woken) = &mut *woken else { return false };
            if !woken.iter().any(|known| Arc::ptr_eq(known, self)) {
                woken.push(Arc::clone(self));
            }
            true
        };
        // Where the thread ends, nothing is collected any more.
        WOKEN.try_with(collect).unwrap_or(false)
    }
}

impl Wake for Direct {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_collected() {
            self.wake_task();
        }
    }
}

/// The runtime's task of a driver. Where the runtime ends before, the driver goes with it: the wakers that it has left
/// would keep it.
pub(crate) struct Task(pub(crate) Arc<Direct>);

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_in_task(cx)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let left = lock(&self.0.body).take();
        drop(left);
    }
}
