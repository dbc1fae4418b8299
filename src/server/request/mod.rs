//! What a request brings: its query, its headers, its body. Each is read strictly or refused.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod lines;
pub(crate) mod query;
