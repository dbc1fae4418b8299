//! The way to use a [`Supervisor`] from anywhere in an application.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use actix::prelude::*;

use super::crew::{Crew, arbiter};
use super::{ConsumerId, List, Listed, Stop, StopAll, Supervisor};
use crate::consumer::Consumer;
use crate::error::{RunError, RunErrorKind};
use crate::handle::ConsumerHandle;

/// Starts, stops and lists consumers at run time. Clones are the same supervisor; usable from any thread.
///
/// Its consumers' sockets are spread over arbiters of its own, so nothing that the application does on its threads
/// delays a heartbeat. One consumer that ends or crashes leaves the others alone. When the last handle is dropped, the
/// consumers that still run are stopped in an orderly way, unwatched.
#[derive(Clone)]
pub struct SupervisorHandle(Arc<Hold>);

struct Hold(Addr<Supervisor>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.do_send(StopAll);
    }
}

impl Supervisor {
    /// Starts a supervisor whose consumers share up to `arbiters` threads for their sockets. Handlers have threads of
    /// their own beside these. One is enough for dozens of subscriptions.
    ///
    /// # Errors
    /// [`RunErrorKind::NoArbiter`] without an actix system on this thread, or without a thread to be had.
    pub fn start(arbiters: NonZeroUsize) -> Result<SupervisorHandle, RunError> {
        supervisor(arbiters.get()).map(|supervisor| SupervisorHandle(Arc::new(Hold(supervisor))))
    }
}

fn supervisor(arbiters_max: usize) -> Result<Addr<Supervisor>, RunError> {
    let first = arbiter().map_err(|error| RunError::new(RunErrorKind::NoArbiter).with_source(Some(Arc::new(error))))?;
    let crew = Crew::new(first.clone(), arbiters_max);
    Ok(Supervisor::start_in_arbiter(&first, move |_| Supervisor::new(crew)))
}

/// Starts a consumer under a supervisor of its own, which ends with it.
pub(crate) fn start_alone(consumer: &Consumer) -> Result<ConsumerHandle, RunError> {
    consumer.start_under(&supervisor(1)?)
}

impl SupervisorHandle {
    /// Starts a consumer.
    ///
    /// # Errors
    /// [`RunErrorKind::AlreadyRan`]: a consumer runs once.
    pub fn add(&self, consumer: &Consumer) -> Result<ConsumerHandle, RunError> {
        consumer.start_under(&self.0.0)
    }

    /// Asks a consumer to stop, as its own handle does.
    pub fn stop(&self, id: ConsumerId) {
        self.0.0.do_send(Stop { id });
    }

    /// Asks every consumer to stop. Await their handles for how it went.
    pub fn stop_all(&self) {
        self.0.0.do_send(StopAll);
    }

    /// How every consumer does, in the order of their starts: for a readiness route. Ended ones (the last 64) are
    /// among them, with their error.
    ///
    /// # Errors
    /// [`RunErrorKind::Aborted`] when the actix system was stopped.
    pub async fn list(&self) -> Result<Vec<Listed>, RunError> {
        self.0.0.send(List).await.map_err(|_| RunError::new(RunErrorKind::Aborted))
    }

    /// The actor, for an application that speaks to it with messages: [`Stop`], [`StopAll`], [`List`].
    #[must_use]
    pub fn actor(&self) -> Addr<Supervisor> {
        self.0.0.clone()
    }
}

impl fmt::Debug for SupervisorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisorHandle").field("connected", &self.0.0.connected()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use actix_rt::Arbiter;
    use perilune_client::{Client, Credential};
    use perilune_proto::limits::CHILD_LOSSES_MAX;
    use perilune_proto::scalar::SubscriptionId;
    use tokio::sync::oneshot;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::support::{Peer, client, soon, subscription_id};

    /// An actor looks at its mailbox, then runs what it has spawned, then asks whether anybody still has its address.
    /// What it spawns here sends the start in between and lets go of the address, as another thread may at any time.
    #[actix::test]
    async fn a_start_is_handled_although_its_sender_lets_go_at_once() {
        // Nobody listens there; the run tries until it is stopped.
        let credential = Credential::new("of-the-tests").expect("visible ASCII");
        let client = Client::builder("http://127.0.0.1:9").credential(credential).build().expect("a loopback address");
        let consumer = Consumer::builder(client, SubscriptionId::from_u128(1))
            .handler(|_event, _context| async { Ok(()) })
            .build()
            .expect("in range");
        let crew = Crew::new(arbiter().expect("an actix system"), 1);
        let (tell, started) = oneshot::channel();
        drop(Supervisor::create(|ctx| {
            let start = move |(), _: &mut Supervisor, ctx: &mut Context<Supervisor>| {
                drop(tell.send(consumer.start_under(&ctx.address())));
            };
            ctx.spawn(fut::wrap_future(async {}).map(start));
            Supervisor::new(crew)
        }));
        let run = started.await.expect("the actor ran").expect("it had not run before");
        run.stop();
        assert!(run.ended().await.is_ok(), "the start was lost");
    }

    /// Panics whenever it is told that a run has failed, as a layer of an application may.
    struct Touchy(Arc<AtomicUsize>);

    struct Failed(bool);

    impl Visit for Failed {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0 |= field.name() == "message" && format!("{value:?}") == "perilune.run_failed";
        }
    }

    impl Subscriber for Touchy {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut failed = Failed(false);
            event.record(&mut failed);
            if failed.0 {
                self.0.fetch_add(1, Ordering::Relaxed);
                panic!("touchy");
            }
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[actix::test]
    async fn a_run_whose_end_can_not_be_told_ends_all_the_same() {
        let told = Arc::new(AtomicUsize::new(0));
        let _listening = tracing::subscriber::set_default(Touchy(Arc::clone(&told)));
        let mut peer = Peer::start().await;
        let consumer = Consumer::builder(client(&peer), subscription_id())
            .handler(|_event, _context| async { Ok(()) })
            .build()
            .expect("in range");
        // On this thread, where the subscriber listens.
        let supervisor = Supervisor::new(Crew::new(Arbiter::current(), 1)).start();
        let run = consumer.start_under(&supervisor).expect("it had not run before");
        peer.refuse(401).await;
        let error = soon("the end", run.ended()).await.expect_err("its end could not be told");
        assert!(error.is_crash(), "{error}");
        // The machine ends by its own count; one loss more, and nobody tries again.
        assert_eq!(told.load(Ordering::Relaxed), CHILD_LOSSES_MAX + 2);
    }
}
