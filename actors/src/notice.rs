//! The bounded stream of notices: offered to whoever listens, never waited for.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::{Stream, StreamExt};
use perilune_proto::consumer::Notice;
use perilune_proto::limits::NOTICES_MAX;

/// Whether a notice was kept for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It waits for the reader.
    Kept,
    /// 128 wait already; this one is lost, to be counted.
    Dropped,
}

/// Both ends' queue.
#[derive(Default)]
pub(crate) struct NoticeQueue(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Notice>,
    reader: Option<Waker>,
    closed: bool,
}

impl NoticeQueue {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers a notice. Never blocks: the lock is held for a few instructions on either side.
    pub(crate) fn offer(&self, notice: Notice) -> Offered {
        let reader = {
            let mut queue = self.queue();
            if queue.closed || queue.waiting.len() >= NOTICES_MAX {
                return Offered::Dropped;
            }
            queue.waiting.push_back(notice);
            queue.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
        Offered::Kept
    }

    /// No more notices: the reader's stream ends behind what waits.
    pub(crate) fn close(&self) {
        let reader = {
            let mut queue = self.queue();
            queue.closed = true;
            queue.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// What a consumer tells while it runs: a stream that ends with the run.
///
/// At most 128 notices wait for the reader; further ones are dropped and counted in
/// [`Stats::dropped_notices`](crate::Stats). Reading slowly, or not at all, holds up nothing. Notices that came before
/// the first reader are kept within the same bound. Two readers share one stream: each notice goes to one of them.
pub struct Notices {
    pub(crate) run: Arc<crate::run_state::RunState>,
}

impl Notices {
    /// The next notice; none once the run has ended and all were read.
    pub async fn next(&mut self) -> Option<Notice> {
        StreamExt::next(self).await
    }

    /// The next notice if one waits already.
    pub fn try_next(&mut self) -> Option<Notice> {
        self.run.notices.queue().waiting.pop_front()
    }
}

impl Stream for Notices {
    type Item = Notice;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        let mut queue = self.run.notices.queue();
        if let Some(notice) = queue.waiting.pop_front() {
            return Poll::Ready(Some(notice));
        }
        if queue.closed {
            return Poll::Ready(None);
        }
        // A second reader takes over; the first is woken so that it comes back for its turn.
        let before = queue.reader.replace(cx.waker().clone());
        drop(queue);
        if let Some(before) = before.filter(|before| !before.will_wake(cx.waker())) {
            before.wake();
        }
        Poll::Pending
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notices").finish_non_exhaustive()
    }
}
