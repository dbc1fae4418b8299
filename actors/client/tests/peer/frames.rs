//! The server's frames, with fixed ids: event, delivery and task number `n` belong together.

use std::sync::Arc;

use perilune_proto::event::{ResultEvent, Snapshot, Status};
use perilune_proto::json::RawJson;
use perilune_proto::proof::EventProof;
use perilune_proto::scalar::{
    DeliveryId, EventId, Generation, MessageId, Secret, Sequence, SessionId, SubscriptionId, TaskId, TaskVersion,
};
use perilune_proto::wire::{Ack, Acked, Delivery, ErrorCode, ErrorFrame, Pong, Register, ServerFrame, Welcome};

/// The subscription that the tests register.
pub const SUBSCRIPTION: SubscriptionId = SubscriptionId::from_u128(0x5b);
/// The session that the peer opens.
pub const SESSION: SessionId = SessionId::from_u128(0x5e);

pub fn welcome(register: &Register) -> Welcome {
    Welcome {
        reply_to: register.message_id,
        session_id: SESSION,
        subscription_id: register.subscription_id,
        subscription_name: "invoices".to_owned(),
        enabled: true,
        capacity: register.capacity,
        heartbeat_interval_ms: 15_000,
        lease_ms: 30_000,
        server_time: time(),
    }
}

fn time() -> perilune_proto::scalar::Timestamp {
    "2026-01-02T03:04:05Z".parse().expect("a time")
}

/// The proof of delivery number `n`, as [`delivery`] sends it.
pub fn proof(n: u128) -> EventProof {
    EventProof {
        subscription_id: SUBSCRIPTION,
        delivery_id: DeliveryId::from_u128(n),
        event_id: EventId::from_u128(n),
        generation: Generation(1),
        secret: Secret::from_bytes([7; 32]),
    }
}

pub fn delivery(n: u128) -> ServerFrame {
    delivery_with(n, RawJson::null())
}

pub fn delivery_with(n: u128, payload: RawJson) -> ServerFrame {
    let snapshot = Snapshot {
        task_id: TaskId::from_u128(n),
        queue: "reports".parse().expect("a name"),
        operation: "GenerateReport".parse().expect("a name"),
        status: Status::Succeeded,
        version: TaskVersion(1),
        created_at: time(),
        updated_at: time(),
        payload,
        result: RawJson::null(),
        error: None,
    };
    let event = ResultEvent { event_id: EventId::from_u128(n), sequence: Sequence(1), occurred_at: time(), snapshot };
    ServerFrame::Delivery(Delivery { session_id: SESSION, proof: proof(n), lease_ms: 30_000, event: Arc::new(event) })
}

/// The receipt for the `ack` of [`proof`]: its event has the delivery's number.
pub fn acked(ack: &Ack) -> ServerFrame {
    ServerFrame::Acked(Acked {
        session_id: SESSION,
        reply_to: ack.message_id,
        delivery_id: ack.delivery_id,
        event_id: EventId::from_bytes(*ack.delivery_id.as_bytes()),
        generation: ack.generation,
        replayed: false,
    })
}

pub fn pong(reply_to: MessageId) -> ServerFrame {
    ServerFrame::Pong(Pong { session_id: SESSION, reply_to, enabled: true })
}

/// An `error` of the open session.
pub fn error(code: &str, reply_to: Option<MessageId>) -> ServerFrame {
    ServerFrame::Error(ErrorFrame { session_id: Some(SESSION), ..early_error(code, reply_to) })
}

/// An `error` before the `welcome`.
pub fn early_error(code: &str, reply_to: Option<MessageId>) -> ErrorFrame {
    ErrorFrame {
        session_id: None,
        reply_to,
        code: ErrorCode::from_wire(code),
        message: "remote detail".to_owned(),
        retry_after_ms: Some(1_500),
    }
}
