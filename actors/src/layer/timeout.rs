//! A time limit for the handler.

use std::sync::Arc;
use std::time::Duration;

use perilune_proto::ResultEvent;

use super::LayerError;
use crate::handler_pool::{EventContext, EventHandler, HandlerResult};

/// See [`timeout`](super::EventHandlerExt::timeout).
#[derive(Debug, Clone)]
pub struct Timeout<H> {
    inner: H,
    limit: Duration,
}

impl<H> Timeout<H> {
    pub(super) const fn new(inner: H, limit: Duration) -> Self {
        Self { inner, limit }
    }
}

impl<H: EventHandler> EventHandler for Timeout<H> {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        match tokio::time::timeout(self.limit, self.inner.handle(event, context)).await {
            Ok(result) => result,
            Err(_) => Err(LayerError::TimedOut.into()),
        }
    }
}
