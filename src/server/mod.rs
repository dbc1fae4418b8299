//! The server that speaks the contract.
