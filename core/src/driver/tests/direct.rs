//! Drivers that a thread of the host's runs.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

use super::super::direct::{directly, is_here, spawn};
use super::*;

/// What a future does now, without its being awaited.
fn now<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Where a driver was polled, and by what it is woken.
#[derive(Clone, Default)]
struct Polls(Arc<Mutex<(Vec<ThreadId>, Option<Waker>)>>);

impl Polls {
    /// A driver that waits for ever, and does something each time that it is polled.
    fn driver(&self, mut each: impl FnMut(usize) + Send + 'static) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let polls = Arc::clone(&self.0);
        Box::pin(poll_fn(move |cx: &mut Context<'_>| {
            let count = {
                let mut polls = polls.lock().unwrap();
                polls.0.push(std::thread::current().id());
                polls.1 = Some(cx.waker().clone());
                polls.0.len()
            };
            each(count);
            Poll::Pending
        }))
    }

    fn wake(&self) {
        let waker = self.0.lock().unwrap().1.clone();
        waker.expect("it was polled").wake();
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().0.len()
    }
}

#[tokio::test]
async fn who_wakes_it_directly_runs_it_once() {
    let polls = Polls::default();
    let here = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&here);
    spawn(polls.driver(move |_| {
        seen.fetch_add(usize::from(is_here()), Ordering::Relaxed);
    }));
    tokio::task::yield_now().await;
    assert_eq!((polls.count(), here.load(Ordering::Relaxed)), (1, 0), "its task runs it first");
    let host = std::thread::spawn({
        let polls = polls.clone();
        move || {
            directly(|| {
                polls.wake();
                directly(|| polls.wake());
                assert_eq!(polls.count(), 1, "only after what is done");
            });
            assert_eq!(polls.0.lock().unwrap().0[1..], [std::thread::current().id()]);
            assert!(!is_here());
        }
    });
    host.join().expect("the host's thread");
    assert_eq!((polls.count(), here.load(Ordering::Relaxed)), (2, 1));
    tokio::task::yield_now().await;
    assert_eq!(polls.count(), 2, "its task has nothing to do");
    polls.wake();
    tokio::task::yield_now().await;
    assert_eq!((polls.count(), here.load(Ordering::Relaxed)), (3, 1), "any other wake is for its task");
}

#[tokio::test]
async fn one_that_runs_is_left_to_its_task() {
    let polls = Polls::default();
    let inner = polls.clone();
    spawn(polls.driver(move |count| {
        if count == 1 {
            directly(|| inner.wake());
            assert_eq!(inner.count(), 1);
        }
    }));
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert_eq!(polls.count(), 2, "once more, by the task");
}

#[tokio::test]
async fn one_that_panics_ends_and_the_host_does_not() {
    let (dropped, was_dropped) = Dropped::new();
    let polls = Polls::default();
    let driver = polls.driver(|count| assert_eq!(count, 1, "on purpose"));
    spawn(async move {
        let _dropped = dropped;
        driver.await;
    });
    tokio::task::yield_now().await;
    directly(|| polls.wake());
    was_dropped.await.expect("it is dropped");
    polls.wake();
    tokio::task::yield_now().await;
    assert_eq!(polls.count(), 2, "nobody polls it again");
}

#[test]
fn one_goes_with_its_runtime() {
    let (dropped, mut was_dropped) = Dropped::new();
    let polls = Polls::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let driver = polls.driver(|_| ());
        spawn(async move {
            let _dropped = dropped;
            driver.await;
        });
        tokio::task::yield_now().await;
    });
    assert_eq!(polls.count(), 1);
    drop(runtime);
    was_dropped.try_recv().expect("it is dropped, though its waker is not");
    directly(|| polls.wake());
    assert_eq!(polls.count(), 1);
}

/// A session with a function of a host's that waits for an answer, which the sender is for.
async fn asked() -> (Session, Agent, Turn, tokio::sync::oneshot::Sender<crate::Approval>) {
    let (sender, answer) = tokio::sync::oneshot::channel();
    let answer = Arc::new(Mutex::new(Some(answer)));
    let mut options = SessionOptions::new().on_approval(move |_: crate::wire::ApprovalRequest| {
        let answer = answer.lock().unwrap().take().expect("one question");
        async move { Ok(answer.await?) }
    });
    options.hosted = true;
    let (session, mut agent, turn) = in_turn(options).await;
    agent.ask_approval("a").await;
    idle().await;
    (session, agent, turn, sender)
}

#[tokio::test(start_paused = true)]
async fn whoever_answers_has_written_the_answer() {
    let (_session, mut agent, _turn, answer) = asked().await;
    directly(|| answer.send(crate::Approval::Approve)).expect("somebody waits");
    // Without giving way to any task.
    let Poll::Ready(line) = now(agent.read()) else { panic!("nothing was written") };
    assert_eq!(line["result"], json!({"request_id": "a", "response": "approve"}));
}

#[tokio::test(start_paused = true)]
async fn what_came_meanwhile_is_decoded_by_the_task() {
    let (_session, mut agent, mut turn, answer) = asked().await;
    while now(turn.next()).is_ready() {}
    agent.text("hi").await;
    directly(|| answer.send(crate::Approval::Approve)).expect("somebody waits");
    assert!(now(turn.next()).is_pending());
    let event = turn.next().await.expect("an event").expect("no error");
    assert_eq!(text_of(&event).as_deref(), Some("hi"));
    assert_eq!(agent.read().await["result"]["response"], "approve");
}

#[tokio::test(start_paused = true)]
async fn commands_keep_their_order_whoever_runs_the_driver() {
    let (session, mut agent, _turn, _answer) = asked().await;
    let mut calls: Vec<_> = [true, false, true].map(|on| Box::pin(session.set_plan_mode(on))).into();
    directly(|| assert!(now(&mut calls[0]).is_pending()));
    assert!(calls[1..].iter_mut().all(|call| now(call).is_pending()));
    let Poll::Ready(line) = now(agent.read()) else { panic!("the first was written at once") };
    let mut seen = vec![line["params"]["enabled"].as_bool()];
    for _ in 0..2 {
        seen.push(agent.read().await["params"]["enabled"].as_bool());
    }
    assert_eq!(seen, [Some(true), Some(false), Some(true)]);
}
