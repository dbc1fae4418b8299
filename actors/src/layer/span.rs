//! A span of the caller's own around the handler.

use std::fmt;
use std::sync::Arc;

use perilune_proto::ResultEvent;
use tracing::{Instrument as _, Span};

use crate::handler_pool::{EventContext, EventHandler, HandlerResult};

/// See [`in_span`](super::EventHandlerExt::in_span).
#[derive(Clone)]
pub struct InSpan<H, F> {
    inner: H,
    span: F,
}

impl<H, F> InSpan<H, F> {
    pub(super) const fn new(inner: H, span: F) -> Self {
        Self { inner, span }
    }
}

impl<H, F> EventHandler for InSpan<H, F>
where
    H: EventHandler,
    F: Fn(&ResultEvent, &EventContext) -> Span + 'static,
{
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        let span = (self.span)(&event, &context);
        self.inner.handle(event, context).instrument(span).await
    }
}

impl<H: fmt::Debug, F> fmt::Debug for InSpan<H, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InSpan").field("inner", &self.inner).finish_non_exhaustive()
    }
}
