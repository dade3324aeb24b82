//! The lane between a driver and whoever reads the turn.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use loom::future::block_on;
use loom::thread;

use super::lane::{Lane, Reader, Room, replayed};
use super::model;
use super::sync::Notify;
use crate::connection::StepTag;
use crate::wire::{ContentPart, Event};

/// Room for two events: the third one has to wait.
const LIMIT: usize = 300;

fn lane() -> (Arc<Lane>, Arc<Notify>) {
    let room = Arc::new(Notify::new());
    (Arc::new(Lane::new(LIMIT, Arc::clone(&room))), room)
}

fn text(n: usize) -> Event {
    ContentPart::text(n.to_string()).into()
}

/// What a driver does with a turn: it reads on while there is room, wakes the reader, and waits for room.
fn drive(lane: &Lane, room: &Notify, events: Vec<Event>) -> Vec<String> {
    let mut unseen = Vec::new();
    let mut events = events.into_iter().peekable();
    while events.peek().is_some() {
        while matches!(lane.room(false), Room::Free { .. })
            && let Some(event) = events.next()
        {
            lane.push(event.into(), StepTag::default(), 0);
        }
        unseen.extend(lane.take_unseen());
        lane.wake();
        if events.peek().is_some() {
            // Asked once more, for whether to read from the pipe meanwhile: that must not take back the first answer.
            lane.room(false);
            block_on(room.notified());
        }
    }
    lane.finish(Ok(replayed()));
    unseen
}

fn driver(lane: &Arc<Lane>, room: &Arc<Notify>, events: Vec<Event>) -> thread::JoinHandle<Vec<String>> {
    let (lane, room) = (Arc::clone(lane), Arc::clone(room));
    thread::spawn(move || drive(&lane, &room, events))
}

fn reader(lane: &Arc<Lane>) -> Reader {
    Reader::new(Arc::clone(lane))
}

fn next(reader: &mut Reader) -> Option<Event> {
    block_on(poll_fn(|cx| reader.poll_next(cx))).map(|event| event.expect("no failure"))
}

#[test]
fn a_slow_reader_gets_every_event_in_order_and_nobody_waits_in_vain() {
    model(3, || {
        let (lane, room) = lane();
        let driver = driver(&lane, &room, (0..4).map(text).collect());
        let mut reader = reader(&lane);
        for n in 0..4 {
            assert_eq!(next(&mut reader), Some(text(n)));
        }
        assert_eq!(next(&mut reader), None);
        driver.join().expect("the driver");
    });
}

#[test]
fn a_binding_gets_every_event_in_order_and_nobody_waits_in_vain() {
    model(3, || {
        let (lane, room) = lane();
        let driver = driver(&lane, &room, (0..4).map(text).collect());
        let mut seen = Vec::new();
        loop {
            block_on(poll_fn(|cx| if lane.poll_ready(cx.waker()) { Poll::Ready(()) } else { Poll::Pending }));
            let (events, _, ended) = lane.drain(64, None);
            lane.acknowledge(events.iter().map(super::lane::Delivery::size).sum(), events.len());
            seen.extend(events.into_iter().map(|delivery| *delivery.event));
            if ended {
                break;
            }
        }
        assert_eq!(seen, (0..4).map(text).collect::<Vec<_>>());
        driver.join().expect("the driver");
    });
}

#[test]
fn the_outcome_without_a_reader_sets_a_stalled_driver_going() {
    model(3, || {
        let (lane, room) = lane();
        let driver = driver(&lane, &room, (0..4).map(text).collect());
        assert_eq!(block_on(lane.result()), Ok(replayed()));
        driver.join().expect("the driver");
        // Three fill the buffer.
        let mut reader = reader(&lane);
        for n in 0..3 {
            assert_eq!(next(&mut reader), Some(text(n)));
        }
        assert_eq!((next(&mut reader), lane.discarded()), (None, 1));
    });
}

#[test]
fn who_waits_for_the_end_hears_of_it_whenever_it_comes() {
    model(3, || {
        let (lane, room) = lane();
        let driver = driver(&lane, &room, vec![text(0)]);
        block_on(lane.settled());
        assert!(lane.is_settled());
        driver.join().expect("the driver");
    });
}

#[test]
fn a_binding_hears_of_the_end_whenever_it_comes() {
    model(3, || {
        let (lane, room) = lane();
        let driver = driver(&lane, &room, vec![text(0)]);
        let mut asked = false;
        block_on(poll_fn(|cx| {
            if lane.is_settled() {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut asked, true) {
                lane.wake_when_settled(cx.waker().clone());
            }
            Poll::Pending
        }));
        driver.join().expect("the driver");
    });
}

#[test]
fn a_cancel_sets_a_stalled_driver_going_and_keeps_what_fits() {
    model(3, || {
        let (lane, room) = lane();
        let driver = driver(&lane, &room, (0..4).map(text).collect());
        lane.stop_holding_up();
        driver.join().expect("the driver");
        let mut reader = reader(&lane);
        assert_eq!(next(&mut reader), Some(text(0)));
        assert_eq!(next(&mut reader), Some(text(1)));
        let kept = std::iter::from_fn(|| next(&mut reader)).count() as u64;
        assert_eq!(kept + lane.discarded(), 2);
    });
}

#[test]
fn a_request_is_either_read_or_told_as_unseen_when_the_reader_leaves() {
    let request = |id: &str| {
        let json = format!(r#"{{"type":"QuestionRequest","payload":{{"id":"{id}","tool_call_id":"t"}}}}"#);
        serde_json::from_str::<Event>(&json).expect("a request")
    };
    let requests = [request("a"), request("b"), request("c"), request("d")];
    model(3, move || {
        let (lane, room) = lane();
        let driver = driver(&lane, &room, requests.to_vec());
        let mut reader = reader(&lane);
        let read = next(&mut reader).and_then(|event| event.request_id().map(str::to_owned));
        drop(reader);
        lane.discard();
        let mut told = driver.join().expect("the driver");
        told.extend(lane.take_unseen());
        told.extend(read);
        told.sort_unstable();
        assert_eq!(told, ["a", "b", "c", "d"]);
    });
}

#[test]
fn a_reader_and_the_outcome_wait_side_by_side() {
    model(2, || {
        let (lane, room) = lane();
        lane.set_reader_present(true);
        let driver = driver(&lane, &room, (0..2).map(text).collect());
        let waiting = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || block_on(lane.result()))
        };
        let mut reader = reader(&lane);
        assert_eq!(next(&mut reader), Some(text(0)));
        assert_eq!(next(&mut reader), Some(text(1)));
        assert_eq!(next(&mut reader), None);
        assert_eq!(waiting.join().expect("a waiter"), Ok(replayed()));
        driver.join().expect("the driver");
        assert_eq!(lane.discarded(), 0);
    });
}
