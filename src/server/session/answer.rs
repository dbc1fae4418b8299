//! What a session asks the store, and the store's answers as the machine's.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use perilune_proto::limits::HANDSHAKE_TIMEOUT;
use perilune_proto::scalar::{DeliveryId, MessageId, SessionId, Timestamp};
use perilune_proto::session::ServerSession;
use perilune_proto::session::server::{AckVerdict, Admission, Effect, Refusal};
use perilune_proto::wire::{ErrorCode, Register};
use tokio::time::timeout;

use super::Session;
use super::seat::Seat;
use crate::server::dispatcher::{dispatch, history_gap, not_found};
use crate::server::keep::keep;
use crate::server::lanes::Lane;
use crate::server::metrics::AckOutcome;
use crate::server::state::State;
use crate::server::store::{
    Cause, Confirmation, Confirmed, SecretHash, SessionCredit, SessionRequest, Standing, StoreError, Subscription,
};

/// When a client that met a limit is to come again, in milliseconds.
const LIMITED_RETRY_MS: u32 = 5_000;
/// When a client is to come again while the store does not answer, in milliseconds.
const UNAVAILABLE_RETRY_MS: u32 = 1_000;

/// An answer of the store.
pub(super) enum Answered {
    Register(Register, Result<Standing, StoreError>),
    Ack { message_id: MessageId, delivery_id: DeliveryId, asked: Instant, verdict: Result<Confirmed, StoreError> },
    Ping { message_id: MessageId, standing: Result<Standing, StoreError> },
}

/// Asks the store what an effect wants to know. `None` for an effect that is no question.
pub(super) fn ask(
    state: &Arc<State>,
    presented: SecretHash,
    machine: &ServerSession,
    effect: Effect,
) -> Option<LocalBoxFuture<'static, Answered>> {
    let store = Arc::clone(&state.store);
    if let Effect::Register(register) = effect {
        let session = SessionRequest { presented, subscription_id: register.subscription_id };
        let question = async move {
            // The client gives up after 8 s, and so must we: nobody else watches this one.
            let late = |_| Err(StoreError::Unavailable(Cause::new("no answer in time")));
            let standing = timeout(HANDSHAKE_TIMEOUT, store.standing(session)).await.unwrap_or_else(late);
            Answered::Register(register, standing)
        };
        return Some(question.boxed_local());
    }
    let session = SessionRequest { presented, subscription_id: machine.open()?.1 };
    match effect {
        Effect::Confirm(ack) => {
            let (message_id, delivery_id, asked) = (ack.message_id, ack.delivery_id, Instant::now());
            let confirmation = Confirmation { session, delivery_id, generation: ack.generation, secret: ack.secret };
            let question = async move {
                let verdict = store.confirm(confirmation).await;
                Answered::Ack { message_id, delivery_id, asked, verdict }
            };
            Some(question.boxed_local())
        }
        Effect::Check { message_id } => {
            let question = async move { Answered::Ping { message_id, standing: store.standing(session).await } };
            Some(question.boxed_local())
        }
        _ => None,
    }
}

impl Session {
    /// Tells the machine what the store said.
    pub(super) fn take(&mut self, answered: Answered, now: Instant) {
        match answered {
            Answered::Register(register, standing) => match self.judge(standing) {
                Ok(subscription) => self.admit(&register, *subscription, now),
                Err(refusal) => self.machine.refuse(refusal),
            },
            Answered::Ping { message_id, standing } => match self.judge(standing) {
                Ok(subscription) => self.machine.answer_ping(message_id, Ok(subscription.enabled)),
                Err(refusal) if is_about_the_session(&refusal) => self.machine.end(refusal),
                Err(refusal) => self.machine.answer_ping(message_id, Err(refusal)),
            },
            Answered::Ack { message_id, delivery_id, asked, verdict } => {
                let (verdict, outcome) = self.verdict(verdict);
                self.state.metrics.acked(outcome, asked.elapsed());
                if let (Some(seat), AckOutcome::Acked | AckOutcome::Replayed | AckOutcome::Lost) =
                    (&mut self.seat, outcome)
                {
                    seat.settle(delivery_id);
                }
                match verdict {
                    AckVerdict::Refused(refusal) if is_about_the_session(&refusal) => self.machine.end(refusal),
                    verdict => self.machine.answer_ack(message_id, verdict),
                }
            }
        }
    }

    /// Seats the session in its lane and welcomes it.
    fn admit(&mut self, register: &Register, subscription: Subscription, now: Instant) {
        let session_id = SessionId::from_u128(rand::random());
        let credit = SessionCredit { session_id, capacity: register.capacity };
        let state = Arc::clone(&self.state);
        let open = |lane: Arc<Lane>| {
            let dispatched = Arc::clone(&state);
            let start = move || dispatch(Arc::clone(&dispatched), Arc::clone(&lane));
            let _dispatcher = state.runtime.spawn(keep("dispatcher", start));
        };
        match self.state.lanes.join(register.subscription_id, &subscription.queues, credit, open) {
            Ok(seated) => self.seat = Some(Seat::new(Arc::clone(&self.state), seated)),
            Err(_) => {
                self.state.metrics.limited.increment(1);
                let mut refusal = Refusal::new(ErrorCode::RateLimited, "the subscription has too many sessions");
                refusal.retry_after_ms = Some(LIMITED_RETRY_MS);
                return self.machine.refuse(refusal);
            }
        }
        tracing::debug!(session = %session_id, subscription = %register.subscription_id, "a session registered");
        let admission = Admission {
            session_id,
            subscription_name: subscription.name,
            enabled: subscription.enabled,
            server_time: wall_clock(),
        };
        self.machine.accept(admission, now);
    }

    fn judge(&self, standing: Result<Standing, StoreError>) -> Result<Box<Subscription>, Refusal> {
        match standing {
            Ok(Standing::Active(subscription)) => Ok(subscription),
            Ok(Standing::Unauthenticated) => Err(unauthenticated()),
            Ok(Standing::PermissionDenied) => Err(permission_denied()),
            Ok(Standing::NotFound) => Err(not_found()),
            Ok(Standing::HistoryGap) => Err(history_gap()),
            Err(error) => Err(self.unavailable(&error)),
        }
    }

    fn verdict(&self, verdict: Result<Confirmed, StoreError>) -> (AckVerdict, AckOutcome) {
        let refused = |refusal| (AckVerdict::Refused(refusal), AckOutcome::Refused);
        match verdict {
            Ok(Confirmed::Acked { event_id, replayed }) => {
                let outcome = if replayed { AckOutcome::Replayed } else { AckOutcome::Acked };
                (AckVerdict::Confirmed { event_id, replayed }, outcome)
            }
            Ok(Confirmed::Lost) => (AckVerdict::Lost, AckOutcome::Lost),
            Ok(Confirmed::Invalid) => {
                if let Some((session, subscription)) = self.machine.open() {
                    tracing::warn!(%session, %subscription, "an invalid proof was presented");
                }
                (AckVerdict::Invalid, AckOutcome::Invalid)
            }
            Ok(Confirmed::Unauthenticated) => refused(unauthenticated()),
            Ok(Confirmed::PermissionDenied) => refused(permission_denied()),
            Ok(Confirmed::NotFound) => refused(not_found()),
            Err(error) => refused(self.unavailable(&error)),
        }
    }

    fn unavailable(&self, error: &StoreError) -> Refusal {
        self.state.note(error);
        let mut refusal = Refusal::new(ErrorCode::Unavailable, "the store does not answer");
        refusal.retry_after_ms = Some(UNAVAILABLE_RETRY_MS);
        refusal
    }
}

fn unauthenticated() -> Refusal {
    Refusal::new(ErrorCode::Unauthenticated, "the credential is not valid any more")
}

fn permission_denied() -> Refusal {
    Refusal::new(ErrorCode::PermissionDenied, "the credential may not consume this subscription")
}

/// Codes that never answer a request (events-v1.md section 6).
fn is_about_the_session(refusal: &Refusal) -> bool {
    matches!(refusal.code, ErrorCode::SubscriptionNotFound | ErrorCode::HistoryGap)
}

fn wall_clock() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let micros = i64::try_from(since_epoch.as_micros()).unwrap_or_default();
    let moment = Timestamp::from_unix_micros(micros).or_else(|| Timestamp::from_unix_micros(0));
    moment.expect("1970 is between the years 0 and 9999")
}
