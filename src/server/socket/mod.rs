//! The WebSocket of `GET /v1/events`, below the contract's own frames.
//!
//! RFC 6455 as a server keeps it, with the contract's limit enforced at the frame header: actix-ws and
//! its parser wait for a whole frame before they compare its length, so a peer that announces 8 GiB
//! would be buffered for.
//!
//! - [`read`]: bytes of a client to messages, without I/O.
//! - [`inlet`]: the messages of one connection.
//! - [`write`]: messages to bytes.
//! - [`handshake`]: the request that asks for the upgrade.
//! - [`outbox`]: what waits to be sent, bounded by bytes.

pub(crate) mod handshake;
pub(crate) mod inlet;
pub(crate) mod outbox;
pub(crate) mod read;
pub(crate) mod write;
