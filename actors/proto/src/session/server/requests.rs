//! The control requests of a session that have no reply yet.

use crate::limits::CONTROL_REQUESTS_MAX;
use crate::scalar::{DeliveryId, Generation, MessageId};

/// A control request without a reply, with what its reply repeats.
#[derive(Debug)]
pub(super) enum Request {
    Ack { message_id: MessageId, delivery_id: DeliveryId, generation: Generation },
    Ping { message_id: MessageId },
}

impl Request {
    const fn message_id(&self) -> MessageId {
        match self {
            Self::Ack { message_id, .. } | Self::Ping { message_id } => *message_id,
        }
    }
}

/// At most 32 of them.
#[derive(Debug, Default)]
pub(super) struct Requests(Vec<Request>);

impl Requests {
    /// Takes a request in, or says which rule it breaks.
    pub(super) fn admit(&mut self, request: Request) -> Result<(), &'static str> {
        if self.0.iter().any(|other| other.message_id() == request.message_id()) {
            return Err("/message_id must not be in flight");
        }
        if self.0.len() >= CONTROL_REQUESTS_MAX {
            return Err("at most 32 control requests may be unanswered");
        }
        self.0.push(request);
        Ok(())
    }

    /// Takes the `ack` out that is being answered.
    pub(super) fn take_ack(&mut self, message_id: MessageId) -> Option<(DeliveryId, Generation)> {
        let is_this = |request: &Request| matches!(request, Request::Ack { message_id: id, .. } if *id == message_id);
        match self.take(is_this)? {
            Request::Ack { delivery_id, generation, .. } => Some((delivery_id, generation)),
            Request::Ping { .. } => None,
        }
    }

    /// Takes the `ping` out that is being answered. False if there is none.
    pub(super) fn take_ping(&mut self, message_id: MessageId) -> bool {
        self.take(|request| matches!(request, Request::Ping { message_id: id } if *id == message_id)).is_some()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn take(&mut self, wanted: impl Fn(&Request) -> bool) -> Option<Request> {
        let at = self.0.iter().position(wanted)?;
        Some(self.0.swap_remove(at))
    }
}
