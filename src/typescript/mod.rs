//! The generated TypeScript client: one module per operation, strict types, a small runtime without
//! dependencies. The same operations always give the same bytes.
//!
//! Source: outcome.md section 5.
//!
//! ```
//! use perilune::outcome::{EmptyOutcome, Operation};
//! use perilune::typescript::Catalogue;
//!
//! struct CloseAccount;
//! impl Operation for CloseAccount {
//!     const TYPE: &'static str = "CloseAccount";
//!     type Input = ();
//!     type Outcome = EmptyOutcome;
//! }
//!
//! let tree = Catalogue::new().operation::<CloseAccount>().generate()?;
//! assert!(tree.files().contains_key("close-account.ts"));
//! # Ok::<(), perilune::typescript::GenerateError>(())
//! ```

mod catalogue;
mod model;
mod render;
mod tree;

pub use catalogue::Catalogue;
pub use tree::{GeneratedTree, TreeState};

/// Why no client can be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// An operation's type has no name in TypeScript, or two have the same.
    #[error("operation type {0:?} must give a TypeScript name of its own: letters and digits, a letter first")]
    Name(String),
    /// The catalogue has the operation twice.
    #[error("operation {0} is in the catalogue twice")]
    Twice(String),
    /// A part of an outcome's schema has no strict type in TypeScript.
    #[error("outcome of {operation}: schema at {pointer:?} has no strict TypeScript type; {allowed}")]
    Schema {
        /// The operation.
        operation: String,
        /// Where in its schema, as a JSON pointer.
        pointer: String,
        /// What is allowed there.
        allowed: &'static str,
    },
    /// A catalogue file is no catalogue.
    #[error("the catalogue must be {{\"operations\":[{{\"type\",\"outcome\"}}]}}: {0}")]
    Catalogue(#[source] serde_json::Error),
    /// The tree can't be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which file or folder.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
}
