//! The fault script: what goes wrong, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use perilune_proto::wire::ErrorCode;

/// What goes wrong with a dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialFault {
    /// The handshake is refused with this HTTP status, 400 to 599. 408, 429 and 5xx make a consumer come back, every
    /// other one stops it.
    Refuse(u16),
    /// The connection is accepted and nothing is ever said on it.
    Hang,
    /// The connection is cut once the platform has written so many bytes on it, the handshake's answer included. In
    /// memory, where there is no handshake on a wire, frames alone count.
    CutAfter(usize),
}

/// What goes wrong with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryFault {
    /// It is leased and never arrives: it comes again when its lease has lapsed.
    Lose,
    /// It, and whatever follows on its connection, arrives so much later. Its lease runs meanwhile.
    Delay(Duration),
    /// It arrives twice, byte for byte.
    Duplicate,
    /// Its lease lapses at once, so that it comes again under a new generation. A proof of this one still confirms
    /// until then.
    Lapse,
    /// Its next generation follows at once. A proof of this one is lost.
    Replace,
    /// So many bytes of its frame arrive, then the connection is cut.
    CutAfter(usize),
    /// It does not arrive, and nothing else is said on its connection.
    GoSilent,
    /// It arrives, then the platform reads nothing from its connection for so long.
    StallReads(Duration),
}

/// What goes wrong with a request of the consumer and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestFault {
    /// It never arrives: the connection is cut in its place.
    LoseRequest,
    /// It counts, and the connection is cut in place of its answer.
    DropAnswer,
    /// It counts; its answer, and whatever follows on its connection, arrives so much later.
    Delay(Duration),
    /// It counts; so many bytes of its answer arrive, then the connection is cut.
    CutAfter(usize),
    /// It counts, and nothing else is said on its connection.
    GoSilent,
    /// It is answered, then the platform reads nothing from its connection for so long.
    StallReads(Duration),
    /// It does not count and is answered with this error.
    Fail(ErrorCode),
}

/// Which faults happen when. Dials, deliveries and requests are counted from 1 over the platform's whole life.
///
/// ```
/// use std::time::Duration;
/// use perilune::testkit::{DeliveryFault, DialFault, RequestFault, Script};
///
/// let script = Script::new()
///     .dial(1, DialFault::Refuse(503))
///     .delivery(2, DeliveryFault::Delay(Duration::from_millis(50)))
///     .ack(1, RequestFault::DropAnswer);
/// assert_eq!(script.unplayed(), 3);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Script {
    dials: BTreeMap<u32, DialFault>,
    deliveries: BTreeMap<u32, DeliveryFault>,
    requests: BTreeMap<(Request, u32), RequestFault>,
    counted: BTreeMap<Counter, u32>,
}

/// What the script counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Counter {
    Dial,
    Delivery,
    Request(Request),
}

/// A request of the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Request {
    Register,
    Ack,
    Ping,
}

/// A script that can't be played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// A fault stands at number 0.
    #[error("a fault of the script stands at number 0; dials, deliveries and requests are counted from 1")]
    Zero,
    /// A handshake is refused with what is no refusal.
    #[error("a handshake can't be refused with status {0}; a refusal is 400 to 599")]
    Status(u16),
}

impl Script {
    /// Nothing goes wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// Something goes wrong with the nth dial. A second fault at the same place replaces the first.
    pub fn dial(mut self, nth: u32, fault: DialFault) -> Self {
        self.dials.insert(nth, fault);
        self
    }

    /// Something goes wrong with the nth delivery; each lease counts.
    pub fn delivery(mut self, nth: u32, fault: DeliveryFault) -> Self {
        self.deliveries.insert(nth, fault);
        self
    }

    /// Something goes wrong with the nth `register` and its `welcome`.
    pub fn register(self, nth: u32, fault: RequestFault) -> Self {
        self.request(Request::Register, nth, fault)
    }

    /// Something goes wrong with the nth `ack`.
    pub fn ack(self, nth: u32, fault: RequestFault) -> Self {
        self.request(Request::Ack, nth, fault)
    }

    /// Something goes wrong with the nth `ping` of the heartbeat.
    pub fn ping(self, nth: u32, fault: RequestFault) -> Self {
        self.request(Request::Ping, nth, fault)
    }

    fn request(mut self, request: Request, nth: u32, fault: RequestFault) -> Self {
        self.requests.insert((request, nth), fault);
        self
    }

    /// How many faults are still to come.
    #[must_use]
    pub fn unplayed(&self) -> usize {
        self.dials.len() + self.deliveries.len() + self.requests.len()
    }

    pub(crate) fn check(&self) -> Result<(), ScriptError> {
        let requests = self.requests.keys().map(|(_, nth)| nth);
        if self.dials.keys().chain(self.deliveries.keys()).chain(requests).any(|nth| *nth == 0) {
            return Err(ScriptError::Zero);
        }
        let refusals = self.dials.values().filter_map(|fault| match fault {
            DialFault::Refuse(status) => Some(*status),
            _ => None,
        });
        match refusals.into_iter().find(|status| !(400..=599).contains(status)) {
            Some(status) => Err(ScriptError::Status(status)),
            None => Ok(()),
        }
    }

    pub(crate) fn next_dial(&mut self) -> Option<DialFault> {
        let nth = self.count(Counter::Dial);
        self.dials.remove(&nth)
    }

    pub(crate) fn next_delivery(&mut self) -> Option<DeliveryFault> {
        let nth = self.count(Counter::Delivery);
        self.deliveries.remove(&nth)
    }

    pub(crate) fn next_request(&mut self, request: Request) -> Option<RequestFault> {
        let nth = self.count(Counter::Request(request));
        self.requests.remove(&(request, nth))
    }

    fn count(&mut self, what: Counter) -> u32 {
        let count = self.counted.entry(what).or_default();
        *count = count.saturating_add(1);
        *count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_played_at_its_number_and_once() {
        let mut script = Script::new().ack(2, RequestFault::DropAnswer).ping(1, RequestFault::GoSilent);
        assert_eq!(script.next_request(Request::Ack), None);
        assert_eq!(script.next_request(Request::Ack), Some(RequestFault::DropAnswer));
        assert_eq!(script.next_request(Request::Ack), None);
        assert_eq!(script.unplayed(), 1);
        assert_eq!(script.next_request(Request::Ping), Some(RequestFault::GoSilent));
        assert_eq!(script.unplayed(), 0);
    }

    #[test]
    fn a_script_that_can_never_be_played_is_refused() {
        assert_eq!(Script::new().dial(0, DialFault::Hang).check(), Err(ScriptError::Zero));
        assert_eq!(Script::new().ack(0, RequestFault::DropAnswer).check(), Err(ScriptError::Zero));
        for status in [0, 101, 200, 302, 399, 600] {
            assert_eq!(Script::new().dial(1, DialFault::Refuse(status)).check(), Err(ScriptError::Status(status)));
        }
        assert_eq!(Script::new().dial(1, DialFault::Refuse(400)).check(), Ok(()));
        assert_eq!(Script::new().dial(1, DialFault::Refuse(599)).check(), Ok(()));
    }
}
