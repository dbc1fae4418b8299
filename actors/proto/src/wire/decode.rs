//! From text to frames.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::decode_event::event;
use super::{
    Ack, Acked, ClientFrame, Delivery, ErrorCode, ErrorFrame, FrameError, Ping, Pong, Register, ServerFrame, Welcome,
};
use super::{shape, verbatim};
use crate::json::{Document, Field, FieldError, Limits, Object, Shape, leading_string};
use crate::limits::{
    CAPACITY, FRAME_BYTES_MAX, HEARTBEAT_MS, LEASE_LEFT_MS, LEASE_MS, RETRY_AFTER_MS, SUBSCRIPTION_NAME_CHARS,
};
use crate::proof::EventProof;
use crate::scalar::Generation;

/// The text of a message whose bytes are not known to be UTF-8.
///
/// # Errors
/// [`FrameError::TooLong`] and [`FrameError::NotUtf8`].
pub fn message_text(bytes: &[u8]) -> Result<&str, FrameError> {
    if bytes.len() > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong);
    }
    std::str::from_utf8(bytes).map_err(|_| FrameError::NotUtf8)
}

/// Reads a frame that a client may get.
///
/// # Errors
/// [`FrameError`] for whatever is not exactly one frame of the contract that a server sends.
pub fn decode_server(text: &str) -> Result<ServerFrame, FrameError> {
    verbatim::server_frame(text).map_or_else(|| read_server(text), Ok)
}

/// Reads a frame of any order and spacing.
pub(super) fn read_server(text: &str) -> Result<ServerFrame, FrameError> {
    const EXPECTED: &str = "one of welcome, delivery, acked, pong, error";
    let shape_of = |kind: &str| match kind {
        "welcome" => Some((ServerKind::Welcome, &shape::WELCOME)),
        "delivery" => Some((ServerKind::Delivery, &shape::DELIVERY)),
        "acked" => Some((ServerKind::Acked, &shape::ACKED)),
        "pong" => Some((ServerKind::Pong, &shape::PONG)),
        "error" => Some((ServerKind::Error, &shape::ERROR)),
        _ => None,
    };
    let (kind, document) = typed(text, shape_of, EXPECTED)?;
    let frame = document.root();
    Ok(match kind {
        ServerKind::Welcome => ServerFrame::Welcome(welcome(frame)?),
        ServerKind::Delivery => ServerFrame::Delivery(delivery(frame)?),
        ServerKind::Acked => ServerFrame::Acked(acked(frame)?),
        ServerKind::Pong => ServerFrame::Pong(pong(frame)?),
        ServerKind::Error => ServerFrame::Error(error(frame)?),
    })
}

/// Reads a frame that a server may get.
///
/// # Errors
/// [`FrameError`] for whatever is not exactly one frame of the contract that a client sends.
pub fn decode_client(text: &str) -> Result<ClientFrame, FrameError> {
    const EXPECTED: &str = "one of register, ack, ping";
    let shape_of = |kind: &str| match kind {
        "register" => Some((ClientKind::Register, &shape::REGISTER)),
        "ack" => Some((ClientKind::Ack, &shape::ACK)),
        "ping" => Some((ClientKind::Ping, &shape::PING)),
        _ => None,
    };
    let (kind, document) = typed(text, shape_of, EXPECTED)?;
    let frame = document.root();
    Ok(match kind {
        ClientKind::Register => ClientFrame::Register(register(frame)?),
        ClientKind::Ack => ClientFrame::Ack(ack(frame)?),
        ClientKind::Ping => ClientFrame::Ping(ping(frame)?),
    })
}

#[derive(Clone, Copy)]
enum ServerKind {
    Welcome,
    Delivery,
    Acked,
    Pong,
    Error,
}

#[derive(Clone, Copy)]
enum ClientKind {
    Register,
    Ack,
    Ping,
}

/// Reads a frame with the keys of its own type.
///
/// Every writer known puts the type first, which costs one pass. Where it does not come first, a pass
/// that looks for nothing else finds it.
fn typed<'a, K>(
    text: &'a str,
    shape_of: impl Fn(&str) -> Option<(K, &'static Shape)>,
    expected: &'static str,
) -> Result<(K, Document<'a>), FrameError> {
    let found = match leading_string(text, "type").and_then(&shape_of) {
        Some(found) => found,
        None => {
            let document = Document::parse(text, &shape::TYPE, Limits::FRAME)?;
            no_twins(&document)?;
            let kind = document.root().field("type");
            shape_of(&kind.text(expected)?).ok_or_else(|| kind.must_be(expected))?
        }
    };
    let document = Document::parse(text, found.1, Limits::FRAME)?;
    no_twins(&document)?;
    Ok((found.0, document))
}

pub(super) fn no_twins(document: &Document<'_>) -> Result<(), FieldError> {
    document.case_twins().into_iter().next().map_or(Ok(()), Err)
}

fn register(frame: Object<'_, '_>) -> Result<Register, FieldError> {
    Ok(Register {
        message_id: frame.field("message_id").parse()?,
        subscription_id: frame.field("subscription_id").parse()?,
        capacity: capacity(frame.field("capacity"))?,
    })
}

fn ack(frame: Object<'_, '_>) -> Result<Ack, FieldError> {
    Ok(Ack {
        session_id: frame.field("session_id").parse()?,
        message_id: frame.field("message_id").parse()?,
        delivery_id: frame.field("delivery_id").parse()?,
        generation: frame.field("generation").parse()?,
        secret: frame.field("secret").parse()?,
    })
}

fn ping(frame: Object<'_, '_>) -> Result<Ping, FieldError> {
    Ok(Ping { session_id: frame.field("session_id").parse()?, message_id: frame.field("message_id").parse()? })
}

fn welcome(frame: Object<'_, '_>) -> Result<Welcome, FieldError> {
    let subscription = frame.field("subscription").object()?;
    Ok(Welcome {
        reply_to: frame.field("reply_to").parse()?,
        session_id: frame.field("session_id").parse()?,
        subscription_id: subscription.field("subscription_id").parse()?,
        subscription_name: subscription.field("name").string(SUBSCRIPTION_NAME_CHARS)?,
        enabled: subscription.field("enabled").boolean()?,
        capacity: capacity(frame.field("capacity"))?,
        heartbeat_interval_ms: milliseconds(frame.field("heartbeat_interval_ms"), HEARTBEAT_MS)?,
        lease_ms: milliseconds(frame.field("lease_ms"), LEASE_MS)?,
        server_time: frame.field("server_time").parse()?,
    })
}

#[inline]
fn delivery(frame: Object<'_, '_>) -> Result<Delivery, FieldError> {
    let session_id = frame.field("session_id").parse()?;
    let leased = frame.field("delivery").object()?;
    let delivery_id = leased.field("delivery_id").parse()?;
    let subscription_id = leased.field("subscription_id").parse()?;
    let event_id = leased.field("event_id").parse()?;
    let generation = leased_generation(leased.field("generation"))?;
    let secret = leased.field("secret").parse()?;
    let lease_ms = milliseconds(leased.field("lease_ms"), LEASE_LEFT_MS)?;
    let event = event(frame.field("event").object()?)?;
    if event.event_id != event_id {
        return Err(frame.field("event").object()?.field("event_id").must_be("the same as the delivery's event_id"));
    }
    let proof = EventProof { subscription_id, delivery_id, event_id, generation, secret };
    Ok(Delivery { session_id, proof, lease_ms, event: Arc::new(event) })
}

fn acked(frame: Object<'_, '_>) -> Result<Acked, FieldError> {
    Ok(Acked {
        session_id: frame.field("session_id").parse()?,
        reply_to: frame.field("reply_to").parse()?,
        delivery_id: frame.field("delivery_id").parse()?,
        event_id: frame.field("event_id").parse()?,
        generation: leased_generation(frame.field("generation"))?,
        replayed: frame.field("replayed").boolean()?,
    })
}

fn pong(frame: Object<'_, '_>) -> Result<Pong, FieldError> {
    Ok(Pong {
        session_id: frame.field("session_id").parse()?,
        reply_to: frame.field("reply_to").parse()?,
        enabled: frame.field("enabled").boolean()?,
    })
}

fn error(frame: Object<'_, '_>) -> Result<ErrorFrame, FieldError> {
    let retry_after = frame.field("retry_after_ms").if_present();
    Ok(ErrorFrame {
        session_id: frame.field("session_id").if_present().map(Field::parse).transpose()?,
        reply_to: frame.field("reply_to").if_present().map(Field::parse).transpose()?,
        code: ErrorCode::from_wire(&frame.field("code").text("a string")?),
        message: frame.field("message").string(0..=usize::MAX)?,
        retry_after_ms: retry_after.map(|field| milliseconds(field, RETRY_AFTER_MS)).transpose()?,
    })
}

fn capacity(field: Field<'_, '_>) -> Result<u8, FieldError> {
    let range = u64::from(*CAPACITY.start())..=u64::from(*CAPACITY.end());
    // The range ends below 256.
    field.integer(range).map(|capacity| capacity as u8)
}

fn milliseconds(field: Field<'_, '_>, range: RangeInclusive<u32>) -> Result<u32, FieldError> {
    let wide = u64::from(*range.start())..=u64::from(*range.end());
    // The range is one of u32.
    field.integer(wide).map(|ms| ms as u32)
}

/// The generation of a delivery that was leased, so at least 1. An `ack` may state 0: it names a
/// generation that was never leased, which is the store's to answer.
fn leased_generation(field: Field<'_, '_>) -> Result<Generation, FieldError> {
    match field.parse()? {
        Generation(0) => Err(field.must_be("a string with a canonical decimal from 1 to 18446744073709551615")),
        generation => Ok(generation),
    }
}
