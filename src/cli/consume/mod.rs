//! `consume`: events from the platform to a handler outside this process.

mod event_json;
mod exec;
mod print;
mod sink;
mod webhook;
