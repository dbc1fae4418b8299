//! What every store of the server guarantees, one function a guarantee, run for each engine.
//!
//! A guarantee takes a [`World`](world::World): an empty store and a way to let its clock go on. It never sleeps.

mod credentials;
mod differential;
mod engines;
mod leases;
mod log;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_shared;
mod proofs;
mod retention;
mod sqlite_crash;
mod sqlite_file;
mod subscriptions;
mod upkeep;
mod world;
