//! A handler thread: an arbiter of its own that runs one event at a time and ends by itself.

use std::sync::Arc;

use actix_rt::{Arbiter, System};

use super::queue::{Job, Queue};
use super::run::{ThreadHandler, run};
use super::seat::{Hire, Seat};
use super::{Handlers, settle};
use crate::contain::contain;

/// Makes one more handler thread for the queue. The queue has counted it already.
///
/// Needs an actix system on the calling thread, which every arbiter has.
pub(super) fn hire(queue: &Arc<Queue>, handlers: &Arc<Handlers>) {
    // Without a system there is nothing to make an arbiter in, and actix panics.
    let made = contain(|| System::try_current().map(|_| Arbiter::try_new()));
    let Ok(Some(Ok(arbiter))) = made else {
        // Threads that exist go on, and the pool's next nudge tries again.
        queue.not_made();
        tracing::error!("a handler thread could not be made");
        return;
    };
    let desk = Desk { queue: Arc::clone(queue), handlers: Arc::clone(handlers), seat: Seat::hired() };
    // The arbiter's thread outlives its handle and ends when its work does.
    arbiter.spawn_fn(move || {
        actix_rt::spawn(work(desk));
    });
}

/// A thread's place in the queue; gives it back however the thread ends.
struct Desk {
    queue: Arc<Queue>,
    handlers: Arc<Handlers>,
    seat: Arc<Seat>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        // A thread that ends on the way to a job (user code stopped its arbiter) sends another one.
        if self.queue.leave(&self.seat) == Hire::Thread {
            hire(&self.queue, &self.handlers);
        }
    }
}

async fn work(desk: Desk) {
    let mut handler = ThreadHandler::new(Arc::clone(&desk.handlers.factory));
    while let Some(job) = desk.queue.next(&desk.seat, || hire(&desk.queue, &desk.handlers)).await {
        match job {
            Job::Handle(event) => run(event, &mut handler).await,
            Job::Settle(receipts) => {
                settle(&desk.handlers, receipts).await;
                desk.queue.settled();
            }
        }
    }
    drop(handler);
    drop(desk);
    if let Some(arbiter) = Arbiter::try_current() {
        arbiter.stop();
    }
}
