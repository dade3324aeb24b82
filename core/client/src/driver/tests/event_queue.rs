//! The event queue without a driver.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use crate::connection::StepTag;
use crate::driver::event_channel::EventChannel;
use crate::driver::event_queue::{Capacity, OVERHEAD, QueuedEvents};
use crate::driver::turn_reader::TurnReader;
use crate::messages::{ContentPart, Event};

#[test]
fn half_empty_queue_notifies_driver_once() {
    let driver = Arc::new(Notify::new());
    let channel = Arc::new(EventChannel::new(1000, Arc::clone(&driver)));
    let queue = &channel.events;
    let mut reader = TurnReader::new(Arc::clone(&channel));
    let mut read = || {
        let cx = Context::from_waker(Waker::noop());
        assert!(matches!(reader.poll_event(None, &cx), Poll::Ready(Some(Ok(_)))));
    };
    let notified = || {
        let notice = std::pin::pin!(driver.notified());
        notice.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    for _ in 0..4 {
        queue.push(Box::new(ContentPart::text("x").into()), StepTag::default(), 300 - OVERHEAD);
    }
    assert_eq!(queue.capacity(false), Capacity::Full);
    read();
    read();
    // 600 of 1000 bytes: the driver has not been notified, so the answer stays the same.
    assert!(!notified());
    assert_eq!(queue.capacity(false), Capacity::Full);
    read();
    assert!(notified());
    assert!(matches!(queue.capacity(false), Capacity::Free { .. }));
    read();
    assert!(!notified());
}

#[test]
fn cancel_keeps_events_within_capacity() {
    let channel = Arc::new(EventChannel::new(1000, Arc::default()));
    let push_three = || {
        for _ in 0..3 {
            channel.events.push(Box::new(ContentPart::text("x").into()), StepTag::default(), 300 - OVERHEAD);
        }
    };
    let mut reader = TurnReader::new(Arc::clone(&channel));
    push_three();
    for _ in 0..3 {
        let next = reader.poll_event(None, &Context::from_waker(Waker::noop()));
        assert!(matches!(next, Poll::Ready(Some(Ok(_)))));
    }
    channel.events.discard_overflow();
    push_three();
    assert_eq!(channel.discarded(), 0);
    push_three();
    assert_eq!(channel.discarded(), 3);
}

mod reading {
    //! How a host language reads.

    use super::*;
    use crate::connection::PromptResult;

    fn text(text: &str) -> Event {
        ContentPart::text(text).into()
    }

    fn request(id: &str) -> Event {
        let json = format!(r#"{{"type":"QuestionRequest","payload":{{"id":"{id}","tool_call_id":"t"}}}}"#);
        serde_json::from_str(&json).expect("a request")
    }

    fn step(index: u32) -> StepTag {
        StepTag { index, n: i64::from(index) + 1 }
    }

    fn channel(events: impl IntoIterator<Item = (Event, u32)>) -> Arc<EventChannel> {
        let channel = Arc::new(EventChannel::new(100_000, Arc::default()));
        for (event, index) in events {
            channel.events.push(Box::new(event), step(index), 10);
        }
        channel
    }

    fn batch(reader: &mut TurnReader, step: Option<u32>) -> Option<Vec<Event>> {
        match reader.poll_batch(3, step, &Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(events))) => Some(events.into_iter().flat_map(QueuedEvents::into_events).collect()),
            Poll::Ready(None) => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn batch_with_request_has_no_other_event() {
        let channel = channel([(text("a"), 0), (text("b"), 0), (request("q"), 0), (text("c"), 0)]);
        channel.finish(Ok(PromptResult::empty(crate::connection::TurnStatus::Finished)));
        let mut reader = TurnReader::new(Arc::clone(&channel));
        assert_eq!(batch(&mut reader, None), Some(vec![text("a"), text("b")]));
        assert!(matches!(&batch(&mut reader, None).expect("a request")[..], [Event::QuestionRequest(_)]));
        assert_eq!(batch(&mut reader, None), Some(vec![text("c")]));
        assert_eq!(batch(&mut reader, None), None);
        assert_eq!(channel.events.delivered(), 4);
    }

    #[test]
    fn partly_taken_batch_belongs_to_program() {
        let channel = channel([(text("a"), 0), (text("b"), 0), (text("c"), 0), (text("d"), 0)]);
        let mut reader = TurnReader::new(Arc::clone(&channel));
        reader.start_loop(false).expect("the only loop");
        assert_eq!(batch(&mut reader, None).expect("events").len(), 3);
        reader.take_batch(1);
        assert_eq!(channel.events.delivered(), 1);
        reader.leave();
        assert_eq!((channel.events.delivered(), channel.events.discarded()), (1, 0));
        reader.discard_batch();
        assert_eq!((channel.events.delivered(), channel.events.discarded()), (3, 2));
        // The fourth event was not fetched with the batch: the next loop gets it.
        reader.start_loop(false).expect("the only loop");
        assert_eq!(batch(&mut reader, None), Some(vec![text("d")]));
    }

    #[test]
    fn untaken_request_is_reported_as_discarded() {
        let channel = channel([(request("q"), 0)]);
        let mut reader = TurnReader::new(Arc::clone(&channel));
        assert_eq!(batch(&mut reader, None).expect("a request").len(), 1);
        assert!(channel.events.take_discarded_requests().is_empty());
        reader.discard_batch();
        assert_eq!(channel.events.take_discarded_requests(), ["q"]);
    }

    #[test]
    fn next_step_skips_rest_of_previous_step() {
        let channel = channel([(text("a"), 0), (text("b"), 0), (text("c"), 1), (text("d"), 2)]);
        channel.finish(Ok(PromptResult::empty(crate::connection::TurnStatus::Finished)));
        let mut reader = TurnReader::new(channel);
        let cx = Context::from_waker(Waker::noop());
        let next_step = |reader: &mut TurnReader| match reader.poll_step(&cx) {
            Poll::Ready(Some(Ok(step))) => Some(step),
            Poll::Ready(None) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(next_step(&mut reader), Some(step(0)));
        assert!(matches!(reader.poll_event(Some(0), &cx), Poll::Ready(Some(Ok(_)))));
        assert_eq!(next_step(&mut reader), Some(step(1)));
        // A step that is no longer read has no events.
        assert!(matches!(reader.poll_event(Some(0), &cx), Poll::Ready(None)));
        assert_eq!(batch(&mut reader, Some(1)), Some(vec![text("c")]));
        assert_eq!(batch(&mut reader, Some(1)), None);
        assert_eq!(next_step(&mut reader), Some(step(2)));
        assert_eq!(next_step(&mut reader), None);
    }

    #[test]
    fn second_loop_is_refused_during_first() {
        let mut reader = TurnReader::new(channel([]));
        reader.start_loop(false).expect("the only loop");
        assert!(reader.start_loop(false).unwrap_err().to_string().contains("another loop"));
        reader.leave();
        reader.start_loop(false).expect("the only loop");
        assert!(reader.start_loop(true).unwrap_err().to_string().contains("has been read by event"));
    }
}
