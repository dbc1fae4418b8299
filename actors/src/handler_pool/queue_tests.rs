//! Which thread is woken for what.

use std::sync::Arc;
use std::time::Duration;

use perilune_proto::consumer::{HandlerOutcome, RunId};
use perilune_proto::scalar::{Generation, SubscriptionId};

use super::queue::{Job, LINGER, Pace, Queue};
use super::run::{Report, Run, RunEnded};
use super::seat::{Hire, Seat};
use super::worker::hire;
use super::{Cancellation, EventContext, Handlers, handler_fn, shared};
use crate::clock::now;
use crate::support::event;

fn run(queue: &Arc<Queue>, n: u64) -> Run {
    let context = EventContext::until(
        SubscriptionId::from_u128(1),
        Generation(1),
        now() + Duration::from_secs(30),
        Cancellation::default(),
    );
    let event = Arc::new(event(n));
    let report = Report::new(RunId(n), &event, queue, now());
    Run { event, context, report }
}

/// How a run ended, as its thread reports it.
fn ended(n: u64, outcome: HandlerOutcome, took: Duration) -> RunEnded {
    let elsewhere = Arc::new(Queue::new(1));
    let Run { report, .. } = run(&elsewhere, n);
    RunEnded { outcome, took, ..report.unsent() }
}

async fn next(queue: &Queue, seat: &Arc<Seat>, hired: &std::cell::Cell<usize>) -> u64 {
    match queue.next(seat, || hired.set(hired.get() + 1)).await {
        Some(Job::Handle(run)) => run.event.sequence.0,
        _ => 0,
    }
}

/// One thread is made at a time; it has the next one made before it works, as long as there is more.
#[actix::test]
async fn a_burst_makes_threads_one_after_the_other() {
    let queue = Arc::new(Queue::new(3));
    assert_eq!(queue.push([run(&queue, 1)]), Hire::Thread);
    assert_eq!(queue.push([run(&queue, 2)]), Hire::Nobody, "one is on its way");
    assert_eq!(queue.push([run(&queue, 3)]), Hire::Nobody);
    let hired = std::cell::Cell::new(0);
    assert_eq!(next(&queue, &Seat::hired(), &hired).await, 1);
    assert_eq!(hired.get(), 1, "for the second");
    assert_eq!(next(&queue, &Seat::hired(), &hired).await, 2);
    assert_eq!(next(&queue, &Seat::hired(), &hired).await, 3);
    assert_eq!(hired.get(), 2, "nobody for the rest, which is empty");
    assert_eq!(queue.threads(), 3);
}

/// A thread that rests is woken rather than another one made.
#[actix::test]
async fn a_resting_thread_is_woken_first() {
    let queue = Arc::new(Queue::new(3));
    assert_eq!(queue.push([run(&queue, 1)]), Hire::Thread);
    let (seat, hired) = (Seat::hired(), std::cell::Cell::new(0));
    assert_eq!(next(&queue, &seat, &hired).await, 1);
    let waits = next(&queue, &seat, &hired);
    let pushes = async {
        tokio::task::yield_now().await;
        assert_eq!(queue.push([run(&queue, 2)]), Hire::Nobody);
    };
    let (n, ()) = futures_util::future::join(waits, pushes).await;
    assert_eq!((n, hired.get(), queue.threads()), (2, 0, 1));
}

/// A thread that was woken and does not come is not waited for.
#[actix::test]
async fn a_thread_that_is_held_up_is_replaced_by_the_next() {
    let queue = Arc::new(Queue::new(2));
    assert_eq!(queue.push([run(&queue, 1)]), Hire::Thread);
    let (taken, need) = queue.nudge(u64::MAX);
    assert_eq!((taken, need), (Some(0), Hire::Nobody), "a first look");
    assert_eq!(queue.nudge(0), (Some(0), Hire::Thread), "nothing has moved since");
    assert_eq!(next(&queue, &Seat::hired(), &std::cell::Cell::new(0)).await, 1);
    assert_eq!(queue.nudge(0), (None, Hire::Nobody), "nothing is queued");
}

/// However often a thread can't be had, the pool has all of its threads once there are some again. Only the nudge tries
/// again, since every tick would be too often.
#[actix::test]
async fn threads_that_can_not_be_made_take_no_place_from_those_that_can() {
    let queue = Arc::new(Queue::new(2));
    let handlers = Arc::new(Handlers { factory: shared(handler_fn(|_, _| async { Ok(()) })), settled: None });
    let mut need = queue.push([run(&queue, 1)]);
    for _ in 0..10 {
        assert_eq!(need, Hire::Thread);
        // That thread has no actix system, so no arbiter can be made there.
        std::thread::scope(|scope| scope.spawn(|| hire(&queue, &handlers)).join()).expect("no panic");
        assert_eq!(queue.threads(), 0);
        assert_eq!(queue.tick().2, Hire::Nobody, "not before the nudge");
        need = queue.nudge(0).1;
    }
    assert_eq!(need, Hire::Thread);
    hire(&queue, &handlers);
    let ended: Vec<_> = queue.results().await.iter().map(|ended| (ended.run, ended.outcome)).collect();
    assert_eq!(ended, [(RunId(1), HandlerOutcome::Ok)]);
    assert_eq!(queue.threads(), 1);
    queue.close();
}

/// What is dropped unreported, wherever, has failed.
#[test]
fn a_run_that_is_dropped_says_that_its_handler_is_gone() {
    let queue = Arc::new(Queue::new(2));
    drop(run(&queue, 1));
    let _ = queue.push([run(&queue, 2)]);
    queue.close();
    let (ended, _) = queue.collect(Pace::Hurried);
    let ended: Vec<_> = ended.iter().map(|ended| (ended.run, ended.outcome)).collect();
    assert_eq!(ended, [(RunId(1), HandlerOutcome::Gone), (RunId(2), HandlerOutcome::Gone)]);
}

/// While a proof is in flight nobody is woken for an `Ok`; for everything else, and for a late one, somebody is.
#[actix::test]
async fn an_ok_waits_for_the_next_receipt_and_nothing_else_does() {
    let queue = Arc::new(Queue::new(2));
    let ended = |outcome| ended(1, outcome, Duration::ZERO);
    let woken = async |queue: &Queue| {
        tokio::select! {
            biased;
            results = queue.results() => !results.is_empty(),
            () = tokio::task::yield_now() => false,
        }
    };
    let _ = woken(&queue).await;
    let (_, _) = queue.collect(Pace::Busy(1));
    queue.report(ended(HandlerOutcome::Ok), now(), now);
    assert!(!woken(&queue).await);
    assert_eq!(queue.collect(Pace::Busy(1)).0.len(), 1, "with the receipt");
    queue.report(ended(HandlerOutcome::Ok), now(), || now() + LINGER);
    assert!(woken(&queue).await, "a late one");
    queue.report(ended(HandlerOutcome::Error), now(), now);
    assert!(woken(&queue).await, "a failure");
    let _ = queue.collect(Pace::Hurried);
    queue.report(ended(HandlerOutcome::Ok), now(), now);
    assert!(woken(&queue).await, "nothing in flight");
}

/// With many proofs queued, starts linger until there are a few, or until the tick.
#[actix::test]
async fn starts_linger_while_many_proofs_queue() {
    let queue = Arc::new(Queue::new(32));
    let _ = queue.collect(Pace::Busy(8));
    for n in 1..=3 {
        assert_eq!(queue.push([run(&queue, n)]), Hire::Nobody);
    }
    assert_eq!(queue.push([run(&queue, 4)]), Hire::Thread);
    assert_eq!(queue.push((5..=12).map(|n| run(&queue, n))), Hire::Nobody);
    let hired = std::cell::Cell::new(0);
    assert_eq!(next(&queue, &Seat::hired(), &hired).await, 1);
    assert_eq!(hired.get(), 0, "the one at work does it all");
    assert_eq!(queue.tick().2, Hire::Thread, "unless it takes too long");
    let queue = Arc::new(Queue::new(32));
    let _ = queue.collect(Pace::Busy(8));
    assert_eq!(queue.push([run(&queue, 1)]), Hire::Nobody);
    assert_eq!(queue.tick().2, Hire::Thread);
    let queue = Arc::new(Queue::new(32));
    let _ = queue.collect(Pace::Busy(8));
    assert_eq!(queue.push([run(&queue, 1)]), Hire::Nobody);
    assert_eq!(queue.collect(Pace::Busy(7)).1, Hire::Thread, "no longer many");
}

/// While handlers are quick, whoever works does the rest; the tick sends another one if that takes too long.
#[actix::test]
async fn one_thread_does_the_work_of_several_while_handlers_are_quick() {
    let queue = Arc::new(Queue::new(8));
    let finish = |took| queue.report(ended(1, HandlerOutcome::Ok, took), now(), now);
    let hired = std::cell::Cell::new(0);
    let seat = Seat::hired();
    assert_eq!(queue.push([run(&queue, 1)]), Hire::Thread);
    assert_eq!(next(&queue, &seat, &hired).await, 1);
    finish(Duration::from_micros(10));
    assert_eq!(queue.push((2..=4).map(|n| run(&queue, n))), Hire::Nobody);
    assert_eq!(next(&queue, &seat, &hired).await, 2);
    assert_eq!(hired.get(), 0, "the one at work does it all");
    assert_eq!(queue.tick().2, Hire::Thread, "unless it takes too long");
    finish(Duration::from_micros(10));
    assert_eq!(next(&queue, &Seat::hired(), &hired).await, 3);
    assert_eq!(hired.get(), 1, "the rest is overdue, so one thread wakes the other");
    assert_eq!(next(&queue, &seat, &hired).await, 4);
    finish(Duration::from_millis(10));
    assert_eq!(queue.push([run(&queue, 5)]), Hire::Nobody, "one is on its way");
    assert_eq!(queue.push([run(&queue, 6)]), Hire::Nobody);
    assert_eq!(next(&queue, &Seat::hired(), &hired).await, 5);
    assert_eq!(hired.get(), 2, "handlers are slow now");
}

/// Whoever has been away since the last tick is not waited for, however quick the others are.
#[actix::test]
async fn a_handler_that_blocks_delays_no_other_while_the_others_are_quick() {
    let queue = Arc::new(Queue::new(4));
    let hired = std::cell::Cell::new(0);
    assert_eq!(queue.push([run(&queue, 1)]), Hire::Thread);
    let (blocked, other) = (Seat::hired(), Seat::hired());
    assert_eq!(next(&queue, &blocked, &hired).await, 1);
    let _ = queue.tick();
    assert_eq!(queue.push([run(&queue, 2)]), Hire::Thread);
    assert_eq!(next(&queue, &other, &hired).await, 2);
    queue.report(ended(2, HandlerOutcome::Ok, Duration::from_micros(10)), now(), now);
    let waits = next(&queue, &other, &hired);
    let pushes = async {
        tokio::task::yield_now().await;
        assert_eq!(queue.push([run(&queue, 3)]), Hire::Nobody);
    };
    let (n, ()) = tokio::time::timeout(Duration::from_secs(5), futures_util::future::join(waits, pushes))
        .await
        .expect("the thread that rests is woken");
    assert_eq!(n, 3);
}
