//! A consumer and its options, every range checked when it is built.

use std::fmt;
use std::future::Future;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use actix::{Addr, Recipient};
use perilune_client::Client;
use perilune_proto::ResultEvent;
use perilune_proto::consumer::{ConfigError, ConsumerConfig, Options, Stats};
use perilune_proto::scalar::SubscriptionId;
use tokio::sync::Semaphore;

use crate::error::{RunError, RunErrorKind};
use crate::handle::ConsumerHandle;
use crate::handler_pool::{
    ActorHandler, EventContext, EventHandler, HandleEvent, HandlerFactory, HandlerResult, Handlers, Receipt,
    SettledCallback, handler_fn, per_thread, settled_callback, shared,
};
use crate::notice::Notices;
use crate::run_state::RunState;
use crate::spec::Spec;
use crate::supervisor::{ConsumerId, Start, Supervisor, start_alone};

/// Consumes one subscription: connects, reconnects, hands events to the handler, acknowledges what it has done.
///
/// It runs once. Run it with [`Self::run`], or [`Self::start`] it and keep the handle, or give it to a
/// [`Supervisor`](crate::Supervisor) with others.
///
/// ```no_run
/// # async fn example(client: perilune_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use perilune_actors::Consumer;
///
/// Consumer::builder(client, "00000000000000000000000000000001".parse()?)
///     .capacity(8)
///     .handler(|event, context| async move {
///         println!("{} is {}", event.task_id(), event.snapshot.status);
///         println!("{:?} left", context.lease_left());
///         Ok(())
///     })
///     .build()?
///     .run()
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct Consumer {
    id: ConsumerId,
    config: ConsumerConfig,
    client: Client,
    handlers: Arc<Handlers>,
    run: Arc<RunState>,
    ran: AtomicBool,
}

impl Consumer {
    /// Begins with the two options that have no default beside the handler.
    pub const fn builder(client: Client, subscription_id: SubscriptionId) -> ConsumerBuilder {
        ConsumerBuilder { client, options: Options::new(subscription_id), factory: None, settled: None }
    }

    /// Runs until it is stopped or a permanent cause ends it. Dropping the future stops it in an orderly way,
    /// unwatched.
    ///
    /// Needs an actix system (`#[actix_rt::main]`, `#[actix_web::main]`), on whose threads nothing of it runs: the
    /// socket and the handlers have arbiters of their own.
    ///
    /// # Errors
    /// [`RunErrorKind::AlreadyRan`] the second time; else see [`RunErrorKind`].
    pub async fn run(&self) -> Result<(), RunError> {
        self.start()?.ended().await
    }

    /// Starts running and returns at once.
    ///
    /// # Errors
    /// [`RunErrorKind::AlreadyRan`] the second time, [`RunErrorKind::NoArbiter`] without an actix system.
    pub fn start(&self) -> Result<ConsumerHandle, RunError> {
        start_alone(self)
    }

    /// The run's figures: zero before it.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.run.seen().stats
    }

    /// What the run tells while it goes on. See [`Notices`].
    #[must_use]
    pub fn notices(&self) -> Notices {
        Notices { run: Arc::clone(&self.run) }
    }

    /// The options, checked.
    #[must_use]
    pub const fn config(&self) -> &ConsumerConfig {
        &self.config
    }

    pub(crate) fn start_under(&self, supervisor: &Addr<Supervisor>) -> Result<ConsumerHandle, RunError> {
        if self.ran.swap(true, Ordering::Relaxed) {
            return Err(RunError::new(RunErrorKind::AlreadyRan));
        }
        let spec = Spec {
            config: self.config.clone(),
            client: self.client.clone(),
            handlers: Arc::clone(&self.handlers),
            reader: Arc::new(Semaphore::new(1)),
            run: Arc::clone(&self.run),
        };
        let _to = supervisor.clone();
        supervisor.do_send(Start { id: self.id, spec: Arc::new(spec), seed: rand::random(), _to });
        Ok(ConsumerHandle::new(self.id, Arc::clone(&self.run), supervisor.downgrade()))
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("id", &self.id).field("config", &self.config).finish_non_exhaustive()
    }
}

/// Collects a consumer's options.
#[must_use]
pub struct ConsumerBuilder {
    client: Client,
    options: Options,
    factory: Option<HandlerFactory>,
    settled: Option<SettledCallback>,
}

impl ConsumerBuilder {
    /// Events held locally, and handlers at once: 1 to 32, 4 by default. Each handler has a thread of its own, made
    /// when it is first needed.
    pub const fn capacity(mut self, capacity: u8) -> Self {
        self.options.capacity = capacity;
        self
    }

    /// How long a stop may take: 1 ms to 5 min, 30 s by default.
    pub const fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.options.shutdown_timeout = timeout;
        self
    }

    /// The wait before the first attempt to reconnect, before jitter: at least 10 ms, 200 ms by default.
    pub const fn reconnect_min_delay(mut self, delay: Duration) -> Self {
        self.options.reconnect_min_delay = delay;
        self
    }

    /// The longest wait between attempts, before jitter: at least the shortest and at most 30 s, 5 s by default.
    pub const fn reconnect_max_delay(mut self, delay: Duration) -> Self {
        self.options.reconnect_max_delay = delay;
        self
    }

    /// Stops by itself once so many proofs were confirmed. Never by default.
    pub const fn max_events(mut self, events: NonZeroU64) -> Self {
        self.options.max_events = Some(events);
        self
    }

    /// Handles events with a closure that returns a future. The future need not be `Send`.
    pub fn handler<F, Fut>(self, handler: F) -> Self
    where
        F: Fn(Arc<ResultEvent>, EventContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + 'static,
    {
        self.event_handler(handler_fn(handler))
    }

    /// Handles events with an [`EventHandler`] that all handler threads share.
    pub fn event_handler(mut self, handler: impl EventHandler + Send + Sync) -> Self {
        self.factory = Some(shared(handler));
        self
    }

    /// Handles events with an [`EventHandler`] that each handler thread makes for itself, when it first gets an event.
    /// It need not be `Send`. A panic while it is made fails the event.
    pub fn handler_factory<H: EventHandler>(mut self, factory: impl Fn() -> H + Send + Sync + 'static) -> Self {
        self.factory = Some(per_thread(factory));
        self
    }

    /// Handles events by asking an actor of the application, a `SyncArbiter`'s too. The lease is its time limit; an
    /// actor that drops its answer or has stopped has failed the event.
    pub fn actor(self, actor: Recipient<HandleEvent>) -> Self {
        self.event_handler(ActorHandler::new(actor))
    }

    /// Is told what the platform has confirmed, in batches, on a handler thread, one call at a time.
    ///
    /// Nothing waits for it but the end of a clean stop. It is told at most once, and not at all what was confirmed
    /// when it was 1,024 receipts behind, or what a crash took: let it speed things up, never make them right.
    pub fn on_settled<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(Vec<Receipt>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.settled = Some(settled_callback(callback));
        self
    }

    /// Checks every option.
    ///
    /// # Errors
    /// [`ConfigError`] names the field, its value and its range. Without a handler the field is `handler`.
    pub fn build(self) -> Result<Consumer, ConfigError> {
        let config = ConsumerConfig::check(&self.options)?;
        let factory = self.factory.ok_or_else(|| ConfigError {
            field: "handler",
            value: "missing".to_owned(),
            range: "a closure, an EventHandler or an actor's recipient".to_owned(),
        })?;
        Ok(Consumer {
            id: next_id(),
            run: Arc::new(RunState::new(config.subscription_id(), config.capacity())),
            config,
            client: self.client,
            handlers: Arc::new(Handlers { factory, settled: self.settled }),
            ran: AtomicBool::new(false),
        })
    }
}

fn next_id() -> ConsumerId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    ConsumerId(NEXT.fetch_add(1, Ordering::Relaxed))
}

impl fmt::Debug for ConsumerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
