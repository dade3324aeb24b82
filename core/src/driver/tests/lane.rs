//! The lane by itself.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use crate::connection::StepTag;
use crate::driver::lane::{Lane, OVERHEAD, Room};
use crate::wire::ContentPart;

#[test]
fn room_is_told_of_once_and_only_when_there_is_plenty() {
    let room = Arc::new(Notify::new());
    let lane = Lane::new(1000, Arc::clone(&room));
    let read = || {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(lane.poll_next(&mut cx), Poll::Ready(Some(Ok(_)))));
    };
    let rung = || {
        let notified = std::pin::pin!(room.notified());
        notified.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    for _ in 0..4 {
        lane.push(ContentPart::text("x").into(), StepTag::default(), 300 - OVERHEAD);
    }
    assert_eq!(lane.room(), Room::Full);
    read();
    read();
    // 600 of 1000: room, but the driver has not been rung, and must not begin to count on it.
    assert!(!rung());
    assert_eq!(lane.room(), Room::Full);
    read();
    assert!(rung());
    assert_eq!(lane.room(), Room::Free);
    read();
    assert!(!rung());
}
