//! The server that speaks the contract.

pub mod store;
