//! A handler whose calls are recorded.

use std::fmt;
use std::sync::Arc;

use perilune_actors::{EventContext, EventHandler, HandlerResult};
use perilune_proto::ResultEvent;
use perilune_proto::scalar::{EventId, Generation};

use super::journal::{Journal, Outcome, Record};

/// A handler whose calls a journal records. Made by [`Journal::watch`].
pub struct Watched<H> {
    handler: H,
    journal: Journal,
}

impl Journal {
    /// Records the calls of this handler. It is called as before.
    #[must_use]
    pub fn watch<H: EventHandler>(&self, handler: H) -> Watched<H> {
        Watched { handler, journal: self.clone() }
    }
}

impl<H: EventHandler> EventHandler for Watched<H> {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        let (event_id, generation) = (event.event_id, context.generation());
        self.journal.write(Record::HandlerCalled { event_id, generation });
        let mut call = Call { journal: &self.journal, event_id, generation, outcome: Outcome::Dropped };
        let result = self.handler.handle(event, context).await;
        call.outcome = if result.is_ok() { Outcome::Ok } else { Outcome::Error };
        result
    }
}

/// Records a call's end, however it ends.
struct Call<'a> {
    journal: &'a Journal,
    event_id: EventId,
    generation: Generation,
    outcome: Outcome,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let Self { event_id, generation, outcome, .. } = *self;
        self.journal.write(Record::HandlerEnded { event_id, generation, outcome });
    }
}

impl<H> fmt::Debug for Watched<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}
