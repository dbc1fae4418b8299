//! The operations that an application has registered.

use std::collections::BTreeMap;

use super::{Operation, Outcome};

/// What is known of an operation's type once its Rust types are gone.
#[derive(Debug, Clone, Copy)]
pub(super) struct RegisteredOperation {
    pub(super) outcome_type: &'static str,
    pub(super) schema_version: u32,
    /// Whether a result decodes as the outcome's type.
    pub(super) decodes: fn(&str) -> bool,
    /// The outcome's JSON Schema.
    pub(super) schema: fn() -> serde_json::Value,
}

/// Operation types by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Registry(BTreeMap<&'static str, RegisteredOperation>);

impl Registry {
    pub(super) fn add<O: Operation>(&mut self) {
        let registered = RegisteredOperation {
            outcome_type: O::Outcome::TYPE,
            schema_version: O::Outcome::SCHEMA_VERSION,
            decodes: decodes::<O::Outcome>,
            schema: || schemars::schema_for!(O::Outcome).to_value(),
        };
        self.0.insert(O::TYPE, registered);
    }

    /// Each type's name with its outcome's JSON Schema.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (&'static str, serde_json::Value)> {
        self.0.iter().map(|(name, registered)| (*name, (registered.schema)()))
    }

    pub(super) fn find(&self, operation_type: &str) -> Option<&RegisteredOperation> {
        self.0.get(operation_type)
    }
}

/// Whether a result decodes as the type, in the shape that the type is written in: serde would take an array for a
/// struct, too, which no other reader does.
fn decodes<O: Outcome>(result: &str) -> bool {
    let Ok(outcome) = serde_json::from_str::<O>(result) else { return false };
    let written = serde_json::to_string(&outcome).unwrap_or_default();
    written.chars().next() == result.trim_start().chars().next()
}
