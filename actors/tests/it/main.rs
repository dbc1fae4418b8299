//! The consumer's actors against a scripted platform on a real socket.

#[path = "../support/mod.rs"]
mod support;

mod handling;
