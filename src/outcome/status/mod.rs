//! The status resource: `GET /operations/{id}`, to be mounted into an application.
//!
//! Source: outcome.md section 4.
//!
//! Every 404 is one and the same, byte for byte and header for header, and takes the same steps: an id that is
//! malformed or unknown is looked up and put before the authoriser like any other.

mod acceptance;
mod answer;
mod document;
mod preference;
mod resource;

pub use acceptance::acceptance_response;
pub use document::{merge_openapi, openapi_document};
pub use resource::{Identify, StatusResource, Unauthenticated};
