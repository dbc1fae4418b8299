//! Prove a handler of your own: a scripted platform, assertions, and an explorer of crash points.
//!
//! | you want to know | use |
//! | --- | --- |
//! | whether a handler has one effect, wherever its process dies or a connection is lost | [`CrashPoints`] |
//! | whether handler and consumer bear what can go wrong on the wire | [`Platform`] with a [`Script`] |
//! | the same in memory, an hour in milliseconds | [`Rehearsal`] |
//! | what happened, and whether it was right | [`Journal`] |
//!
//! For tests: switch the feature `testkit` on under `[dev-dependencies]`. `docs/testkit.md` is the guide.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use perilune::proto::scalar::Generation;
//! use perilune::testkit::{Platform, RequestFault, Script, sample_event};
//!
//! actix_rt::System::new().block_on(async {
//!     // The first acknowledgement counts, and its answer is lost with the connection.
//!     let platform = Platform::start(Script::new().ack(1, RequestFault::DropAnswer))?;
//!     let handler = perilune::consumer::handler_fn(|_event, _context| async { Ok(()) });
//!     let run = platform.consumer().event_handler(platform.watch(handler)).build()?.start()?;
//!
//!     let event = platform.publish(sample_event());
//!     platform.all_confirmed().await?;
//!     run.stop();
//!     run.ended().await?;
//!
//!     platform.journal().handled_once(event)?;
//!     platform.journal().acknowledged(event, Generation(1))?;
//!     platform.journal().every_fault_played()?;
//!     Ok(())
//! })
//! # }
//! ```

#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
    allow(unused, unreachable_pub, reason = "without an engine there are no crash points")
)]

mod assertion;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod explorer;
mod gate;
mod journal;
mod platform;
mod rehearsal;
mod rules;
mod sample;
mod script;
mod socket;
mod watched;

pub use assertion::Unmet;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use explorer::{CrashPoints, CrashReport, Explorable, ExploreError, Point, PointsFailed};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use gate::Harm;
pub use journal::{Journal, Outcome, Record, Verdict};
pub use platform::{Platform, StartError};
pub use rehearsal::{Rehearsal, Rehearsed};
pub use sample::sample_event;
pub use script::{DeliveryFault, DialFault, RequestFault, Script, ScriptError};
pub use watched::Watched;

pub use perilune_proto::session::server::Terms;

// The page's snippets are run.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../docs/testkit.md")]
struct TestkitDocument;
