//! The pure ends of one session: what may be sent, what may come, which reply belongs to which request.

pub mod server;

pub use server::ServerSession;
