//! The `settled` callback: user code that is told what was confirmed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use perilune_proto::consumer::Replay;
use perilune_proto::scalar::{EventId, Generation, SubscriptionId};

use super::Handlers;
use crate::contain::{Contained, contain};

/// What the `settled` callback is told: the platform has confirmed this event and will not deliver it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The subscription.
    pub subscription_id: SubscriptionId,
    /// The event.
    pub event_id: EventId,
    /// The confirmed generation.
    pub generation: Generation,
    /// Whether it had been confirmed before, and an earlier receipt was lost.
    pub replayed: Replay,
}

/// The callback, its types forgotten.
pub(crate) type SettledCallback = Arc<dyn Fn(Vec<Receipt>) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;

/// Forgets a callback's types.
pub(crate) fn settled_callback<F, Fut>(callback: F) -> SettledCallback
where
    F: Fn(Vec<Receipt>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    Arc::new(move |receipts| Box::pin(callback(receipts)))
}

/// Tells the callback; a panic there changes nothing.
pub(super) async fn settle(handlers: &Handlers, receipts: Vec<Receipt>) {
    let Some(callback) = &handlers.settled else {
        return;
    };
    let told = match contain(|| callback(receipts)) {
        Ok(future) => Contained::new(future).await,
        Err(panicked) => Err(panicked),
    };
    if told.is_err() {
        metrics::counter!("perilune_consumer_callback_panics_total").increment(1);
        tracing::error!("the settled callback panicked");
    }
}
