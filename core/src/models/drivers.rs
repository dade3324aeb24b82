//! A driver that its task, and threads of the host's, run.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use loom::future::block_on;
use loom::thread;

use super::direct::{Direct, Task};
use super::model;
use super::sync::Mutex;

/// What a driver waits for: so many things to do.
#[derive(Default)]
struct Inbox(Mutex<(usize, Option<Waker>)>);

impl Inbox {
    /// Leaves something; gives whoever is to be woken for it.
    fn send(&self) -> Option<Waker> {
        let mut inbox = self.0.lock().expect("a lock");
        inbox.0 += 1;
        inbox.1.take()
    }
}

/// A driver that ends when it has found so many things to do, and its inbox.
fn driver(things: usize) -> (Arc<Direct>, Arc<Inbox>) {
    let inbox = Arc::new(Inbox::default());
    let own = Arc::clone(&inbox);
    let body = poll_fn(move |cx| {
        let mut inbox = own.0.lock().expect("a lock");
        inbox.1 = Some(cx.waker().clone());
        if inbox.0 < things { Poll::Pending } else { Poll::Ready(()) }
    });
    (Direct::new(Box::pin(body), None), inbox)
}

#[test]
fn no_wake_is_lost_between_a_thread_that_runs_it_and_its_task() {
    model(3, || {
        let (driver, inbox) = driver(2);
        let host = thread::spawn({
            let (driver, inbox) = (Arc::clone(&driver), Arc::clone(&inbox));
            move || {
                if inbox.send().is_some() {
                    driver.run_here();
                }
            }
        });
        let system = thread::spawn(move || {
            if let Some(waker) = inbox.send() {
                waker.wake();
            }
        });
        // Ends only if it is told that the driver has.
        block_on(Task(driver));
        host.join().expect("the host's thread");
        system.join().expect("the system's thread");
    });
}

#[test]
fn two_threads_that_want_to_run_it_leave_nothing_undone() {
    model(3, || {
        let (driver, inbox) = driver(2);
        let hosts = [0, 1].map(|_| {
            let (driver, inbox) = (Arc::clone(&driver), Arc::clone(&inbox));
            thread::spawn(move || {
                if inbox.send().is_some() {
                    driver.run_here();
                }
            })
        });
        block_on(Task(driver));
        hosts.into_iter().for_each(|host| host.join().expect("a host's thread"));
    });
}
