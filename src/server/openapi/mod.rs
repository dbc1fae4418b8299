//! The OpenAPI 3.1 document, as data.

use serde_json::{Value, json};

use super::config::ServerConfig;

/// The document of a server that is set up like this.
pub(crate) fn document(_config: &ServerConfig) -> Value {
    json!({})
}
