//! The strict JSON reader and opaque JSON.

mod raw;

pub use raw::RawJson;
