//! The lane by itself.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use crate::connection::StepTag;
use crate::driver::lane::{Lane, OVERHEAD, Reader, Room};
use crate::wire::{ContentPart, Event};

#[test]
fn room_is_told_of_once_and_only_when_there_is_plenty() {
    let room = Arc::new(Notify::new());
    let lane = Arc::new(Lane::new(1000, Arc::clone(&room)));
    let mut reader = Reader::new(Arc::clone(&lane));
    let mut read = || {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(reader.poll_next(&mut cx), Poll::Ready(Some(Ok(_)))));
    };
    let rung = || {
        let notified = std::pin::pin!(room.notified());
        notified.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    for _ in 0..4 {
        lane.push(Event::from(ContentPart::text("x")).into(), StepTag::default(), 300 - OVERHEAD);
    }
    assert_eq!(lane.room(false), Room::Full);
    read();
    read();
    // 600 of 1000: room, but the driver has not been rung, and must not begin to count on it.
    assert!(!rung());
    assert_eq!(lane.room(false), Room::Full);
    read();
    assert!(rung());
    assert!(matches!(lane.room(false), Room::Free { .. }));
    read();
    assert!(!rung());
}

#[test]
fn the_end_is_told_once_however_late_one_asks_for_it() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use crate::driver::lane::replayed;

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let told = |count: &Arc<Count>| count.0.load(Ordering::Relaxed);
    let lane = Lane::new(1000, Arc::default());
    let early = Arc::new(Count::default());
    lane.wake_when_settled(Waker::from(Arc::clone(&early)));
    lane.push(Event::from(ContentPart::text("x")).into(), StepTag::default(), 10);
    lane.wake();
    assert_eq!(told(&early), 0);
    lane.finish(Ok(replayed()));
    lane.finish(Ok(replayed()));
    assert_eq!(told(&early), 1);
    let late = Arc::new(Count::default());
    lane.wake_when_settled(Waker::from(Arc::clone(&late)));
    assert_eq!(told(&late), 1);
    assert_eq!(told(&early), 1);
}
