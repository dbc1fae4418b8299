//! Supervised actix actors that consume durable result events and acknowledge them with proofs.
//!
//! Build a [`Consumer`] and run it, or give several to a [`Supervisor`]. What it guarantees stands in
//! `docs/consumer.md`; what it decides, and when, is the pure machine [`perilune_proto::consumer`]. The actors carry
//! its actions out.
//!
//! | actor | owns | receives | sends |
//! | --- | --- | --- | --- |
//! | [`Supervisor`] | the running subscriptions | `Start`, [`Stop`], [`StopAll`], [`List`], `Exited` | `Drain` |
//! | `Subscription` | the machine in custody, four children, one timer | `Drain`, `Connected`, `DeliveriesArrived`, `ConnectionEnded`, `PingAnswered`, `AcksAnswered`, `HandlersEnded`, `ChildExited` | everything the four receive; notices |
//! | `Connection` | one socket | `Dial`, `CloseConnection`, `SendAcks`, `SendPing` | `Connected`, `DeliveriesArrived`, `ConnectionEnded`, `AcksAnswered` |
//! | `Heartbeat` | one interval | `StartBeat`, `StopBeat` | `SendPing`, `PingAnswered` |
//! | `Acknowledger` | the queue of committed proofs | `Attach`, `Detach`, `Commit`, `AcksAnswered` | `SendAcks`, `AcksAnswered` |
//! | `HandlerPool` | running handlers, their tokens and threads | `Runs`, `Collect`, `Cancel`, `Settle`, `DrainReceipts` | `HandlersEnded`; to a user's actor [`HandleEvent`] |
//!
//! Each message stands beside the actor that receives it, with its fields and its answer; news for the subscription
//! stands beside the actor that sends it.

mod acknowledger;
mod cause;
mod clock;
mod connection;
mod consumer;
mod contain;
#[cfg(test)]
mod crash;
mod custody;
mod error;
mod handle;
mod handler_pool;
mod health;
mod heartbeat;
mod layer;
mod notice;
mod router;
mod run_state;
#[cfg(test)]
mod shells;
mod spec;
mod subscription;
mod supervisor;
mod telemetry;
mod timer;

pub use consumer::{Consumer, ConsumerBuilder};
pub use error::{RunError, RunErrorKind};
pub use handle::ConsumerHandle;
pub use handler_pool::{
    ActorHandler, CancelReason, Cancellation, EventContext, EventHandler, HandleEvent, HandlerError, HandlerFn,
    HandlerResult, Receipt, handler_fn,
};
pub use health::{Health, HealthState};
pub use layer::{CircuitBreaker, EventHandlerExt, InSpan, LayerError, PerKey, Timeout};
pub use notice::Notices;
pub use router::{RouteError, Router, RouterBuilder, Typed};
pub use supervisor::{ConsumerId, List, Listed, Stop, StopAll, Supervisor, SupervisorHandle};

pub use perilune_client as client;
pub use perilune_proto as proto;
pub use perilune_proto::ResultEvent;
pub use perilune_proto::consumer::{ConfigError, HANDLER_FAILED, Notice, Stats};

// The integration tests' scripted platform names this crate from outside; the crash tests use it from inside.
#[cfg(test)]
extern crate self as perilune_actors;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
