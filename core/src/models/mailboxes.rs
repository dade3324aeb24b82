//! The mailbox between the core and an event loop of the host's.

use std::collections::BTreeSet;
use std::sync::Arc;

use loom::future::block_on;
use loom::thread;
use serde_json::json;

use super::mailbox::{Delivery, JobKind, Mailbox, Payload};
use super::model;
use super::sync::Notify;

fn mailbox() -> (Arc<Mailbox>, Arc<Notify>) {
    let bell = Arc::new(Notify::new());
    let ringing = Arc::clone(&bell);
    (Mailbox::new(move || ringing.notify_one()), bell)
}

fn poster(mailbox: &Arc<Mailbox>, turns: std::ops::Range<u64>) -> thread::JoinHandle<()> {
    let mailbox = Arc::clone(mailbox);
    thread::spawn(move || turns.for_each(|turn| mailbox.post(Delivery::Readable { turn })))
}

fn turn(delivery: &Delivery) -> u64 {
    match delivery {
        Delivery::Readable { turn } => *turn,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_bell_rings_for_everything_that_is_left_and_each_thread_keeps_its_order() {
    // With three switches this one alone would take longer than all others together.
    model(2, || {
        let (mailbox, bell) = mailbox();
        let posters = [poster(&mailbox, 0..2), poster(&mailbox, 10..11)];
        let mut seen = Vec::new();
        while seen.len() < 3 {
            block_on(bell.notified());
            seen.extend(mailbox.drain().iter().map(turn));
        }
        let of = |tens| seen.iter().copied().filter(|turn| turn / 10 == tens).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![0, 1], vec![10]));
        posters.into_iter().for_each(|poster| poster.join().expect("a poster"));
    });
}

#[test]
fn nothing_is_left_in_a_mailbox_that_is_closed() {
    model(3, || {
        let (mailbox, _bell) = mailbox();
        let poster = poster(&mailbox, 0..2);
        mailbox.close();
        poster.join().expect("a poster");
        assert!(mailbox.drain().is_empty());
    });
}

#[test]
fn a_call_ends_however_it_meets_the_close() {
    model(3, || {
        let (mailbox, _bell) = mailbox();
        let calling = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                block_on(mailbox.call(1, JobKind::Tool, Some(0), Payload::Arguments(json!({})))).is_err()
            })
        };
        mailbox.close();
        assert!(calling.join().expect("a caller"), "nobody answered");
    });
}

#[test]
fn a_call_gets_what_the_host_returns() {
    model(3, || {
        let (mailbox, bell) = mailbox();
        let calling = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                block_on(mailbox.call(1, JobKind::Tool, Some(0), Payload::Arguments(json!({})))).expect("an answer")
            })
        };
        let mut jobs = Vec::new();
        while jobs.is_empty() {
            block_on(bell.notified());
            jobs.extend(mailbox.drain());
        }
        let [Delivery::Job { id, .. }] = jobs[..] else { panic!("{jobs:?}") };
        mailbox.finish_job(id, Ok(json!(3)));
        assert_eq!(calling.join().expect("a caller"), json!(3));
    });
}

#[test]
fn a_call_that_is_dropped_is_taken_back_unless_it_was_answered() {
    model(3, || {
        let (mailbox, _bell) = mailbox();
        let call = mailbox.call(1, JobKind::Tool, Some(0), Payload::Arguments(json!({})));
        let jobs = mailbox.drain();
        let Some(Delivery::Job { id, .. }) = jobs.front() else { panic!("{jobs:?}") };
        let dropping = thread::spawn(move || drop(call));
        mailbox.finish_job(*id, Ok(json!(3)));
        dropping.join().expect("a caller");
        let taken_back: BTreeSet<_> = mailbox
            .drain()
            .iter()
            .map(|delivery| match delivery {
                Delivery::CancelJob { id } => *id,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(taken_back.is_empty() || taken_back == BTreeSet::from([*id]), "{taken_back:?}");
    });
}
