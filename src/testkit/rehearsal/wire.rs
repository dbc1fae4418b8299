//! One connection in memory: messages on their way, and the script's faults on them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use perilune_proto::consumer::{AckQueue, Epoch};
use perilune_proto::instant::later;
use perilune_proto::scalar::MessageId;
use perilune_proto::session::ClientSession;
use perilune_proto::wire::CloseCode;

use crate::testkit::rules::{ConnectionId, Output};

/// How long a message is under way.
pub(super) const LATENCY: Duration = Duration::from_millis(1);

/// What arrives at the client.
#[derive(Debug)]
pub(super) enum Arrival {
    Text(String),
    /// A close, or the connection's loss (1006).
    Closed(CloseCode),
}

/// One connection.
pub(super) struct Wire {
    pub(super) epoch: Epoch,
    pub(super) id: ConnectionId,
    pub(super) client: ClientSession,
    pub(super) welcomed: bool,
    /// The proofs to be reported.
    pub(super) proofs: AckQueue,
    /// The request that carries the proof in flight.
    pub(super) ack: Option<MessageId>,
    /// The heartbeat's interval, and when it beats next.
    pub(super) beat: Option<(Duration, Instant)>,
    /// Bytes that may still arrive at the client, where the script limits them.
    budget: Option<usize>,
    down: VecDeque<(Instant, Arrival)>,
    up: VecDeque<(Instant, String)>,
    /// Until when the platform reads nothing.
    stalled: Option<Instant>,
}

impl Wire {
    pub(super) fn new(epoch: Epoch, id: ConnectionId, client: ClientSession, budget: Option<usize>) -> Self {
        Self {
            epoch,
            id,
            client,
            welcomed: false,
            proofs: AckQueue::default(),
            ack: None,
            beat: None,
            budget,
            down: VecDeque::new(),
            up: VecDeque::new(),
            stalled: None,
        }
    }

    /// Reports the next proof, if none is in flight.
    pub(super) fn report_next(&mut self, message_id: MessageId, now: Instant) {
        if let Some(proof) = self.proofs.send_next() {
            self.ack = Some(message_id);
            // One in flight, on an open session of the machine's own subscription.
            let _ = self.client.ack(message_id, &proof, now);
        }
    }

    /// Takes a message of the client on its way.
    pub(super) fn send(&mut self, text: String, now: Instant) {
        self.up.push_back((now + LATENCY, text));
    }

    /// Takes what the platform does on its way.
    pub(super) fn take(&mut self, output: Output, now: Instant) {
        // In order: nothing arrives before what was sent before it.
        let last = self.down.back().map_or(now, |(due, _)| *due);
        let due = last.max(now + LATENCY);
        match output {
            Output::Send { text, after, cut_after } => {
                let due = due.max(later(now, after.saturating_add(LATENCY)));
                let limit = self.budget.into_iter().chain(cut_after).min();
                let fits = limit.is_none_or(|limit| text.len() <= limit);
                if fits {
                    self.budget = self.budget.map(|budget| budget - text.len());
                    self.down.push_back((due, Arrival::Text(text)));
                }
                if !fits || cut_after.is_some() {
                    self.down.push_back((due, Arrival::Closed(CloseCode(1006))));
                    self.budget = Some(0);
                }
            }
            Output::Stall(time) => self.stalled = Some(later(now, time)),
            Output::Close(code) => self.down.push_back((due, Arrival::Closed(code))),
            Output::Cut => self.down.push_back((due, Arrival::Closed(CloseCode(1006)))),
        }
    }

    /// What has arrived at the client.
    pub(super) fn arrived(&mut self, now: Instant) -> Option<Arrival> {
        self.down.pop_front_if(|(due, _)| *due <= now).map(|(_, arrival)| arrival)
    }

    /// What has arrived at the platform and is read there.
    pub(super) fn heard(&mut self, now: Instant) -> Option<String> {
        if self.stalled.is_some_and(|until| until > now) {
            return None;
        }
        self.stalled = None;
        self.up.pop_front_if(|(due, _)| *due <= now).map(|(_, text)| text)
    }

    /// When to look here again.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let up = self.up.front().map(|(due, _)| self.stalled.map_or(*due, |until| until.max(*due)));
        let down = self.down.front().map(|(due, _)| *due);
        let session = self.client.poll_timeout().map(|(due, _)| due);
        up.into_iter().chain(down).chain(session).chain(self.beat.map(|(_, due)| due)).min()
    }
}
