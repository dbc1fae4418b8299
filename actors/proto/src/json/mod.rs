//! The strict JSON reader and opaque JSON.
//!
//! One pass over the text checks syntax, duplicate keys at any depth (after unescaping, inside opaque
//! values too), nesting, case twins and trailing bytes, and finds the fields that a [`Shape`] names.
//! Nothing is copied and no tree is built: a [`Document`] keeps slices of the text. Frames and HTTP
//! bodies are read by the same code (events-v1.md section 2, http-api.md).
//!
//! ```
//! use perilune_proto::json::{Document, Faults, Key, Limits, Shape};
//! use perilune_proto::limits::OPAQUE_DEPTH_MAX;
//! use perilune_proto::scalar::Name;
//!
//! static ERROR: Shape = Shape::new(&[Key::new("code"), Key::new("message")]);
//! static REPORT: Shape =
//!     Shape::new(&[Key::new("operation"), Key::new("payload"), Key::object("error", &ERROR)]);
//!
//! let text = r#"{"operation":"GenerateReport","payload":{"n":1e400},"later":"ignored"}"#;
//! // `Err` here: not one strict JSON object (400).
//! let document = Document::parse(text, &REPORT, Limits::FRAME)?;
//! let body = document.root();
//! // What lands in `faults`: bad fields, each with its JSON pointer (422).
//! let mut faults = Faults::of(&document);
//! let operation = faults.keep(body.field("operation").parse::<Name>());
//! let payload = faults.keep(body.field("payload").if_present().map(|f| f.opaque(OPAQUE_DEPTH_MAX)).transpose());
//! let error = faults.keep(body.field("error").unless_null().map(|f| f.object()).transpose());
//! assert!(faults.is_empty());
//! assert_eq!(payload.flatten().expect("was there").as_str(), r#"{"n":1e400}"#);
//! # assert!(operation.is_some() && error.is_some());
//! # Ok::<(), perilune_proto::json::Malformed>(())
//! ```

mod document;
mod error;
mod field;
mod keys;
mod raw;
mod scan;
mod shape;
mod text;
mod value;

pub(crate) use document::leading_string;
pub use document::{Document, Limits, Object};
pub use error::{Faults, FieldError, FieldFault, Flaw, Malformed};
pub use field::Field;
pub use raw::RawJson;
pub use shape::{Key, Shape};
pub(crate) use text::next_special;
pub use text::push_string;
pub use value::Kind;
