//! The consumer's actors against a scripted platform on a real socket.

#[path = "../support/mod.rs"]
mod support;

mod alone;
mod handlers;
mod handling;
mod layers;
mod many;
mod observing;
mod reconnecting;
mod redaction;
mod stopping;
