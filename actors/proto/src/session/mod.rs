//! The pure ends of one session: what may be sent, what may come, which reply belongs to which request.
//!
//! Neither end reads a clock or a socket: a driver hands in frames and `now`, and carries out what the
//! end asks for.

pub mod client;
pub mod server;

pub use client::{Answer, Breach, ClientSession, Effect, EndCause, Refusal, RequestRefused};
pub use server::ServerSession;
