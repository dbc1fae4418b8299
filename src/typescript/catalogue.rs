//! The operations that a client is generated for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GenerateError, GeneratedTree, render};
use crate::outcome::{Operation, Operations, OutcomeEngine};

/// An application's operations with the schema of each outcome.
///
/// It can be written to a file by the application (`serde_json::to_string(&catalogue)`), from which
/// `perilune generate typescript --catalogue FILE` makes the client.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    operations: Vec<Entry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    #[serde(rename = "type")]
    pub(super) operation_type: String,
    /// `None` for an ephemeral operation, which has neither `status` nor `wait`.
    pub(super) outcome: Option<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    operations: Vec<Entry>,
}

impl Catalogue {
    /// A catalogue without operations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The operations that an application has registered; ephemeral ones are registered nowhere, so add those.
    #[must_use]
    pub fn of<DB: OutcomeEngine>(operations: &Operations<DB>) -> Self {
        let entry = |(name, schema): (&str, Value)| Entry { operation_type: name.to_owned(), outcome: Some(schema) };
        Self { operations: operations.schemas().map(entry).collect() }
    }

    /// Adds an operation whose outcome is kept.
    #[must_use]
    pub fn operation<O: Operation>(mut self) -> Self {
        let outcome = Some(schemars::schema_for!(O::Outcome).to_value());
        self.operations.push(Entry { operation_type: O::TYPE.to_owned(), outcome });
        self
    }

    /// Adds an operation whose outcome is shown once: its client has neither `status` nor `wait`.
    #[must_use]
    pub fn ephemeral_operation(mut self, operation_type: &str) -> Self {
        self.operations.push(Entry { operation_type: operation_type.to_owned(), outcome: None });
        self
    }

    /// Reads a catalogue that an application has written.
    ///
    /// # Errors
    /// [`GenerateError::Catalogue`].
    pub fn from_json(text: &str) -> Result<Self, GenerateError> {
        let file: File = serde_json::from_str(text).map_err(GenerateError::Catalogue)?;
        Ok(Self { operations: file.operations })
    }

    /// Makes the client's files. Order of addition does not matter.
    ///
    /// # Errors
    /// [`GenerateError::Name`], [`GenerateError::Twice`] and [`GenerateError::Schema`].
    pub fn generate(&self) -> Result<GeneratedTree, GenerateError> {
        let mut sorted = BTreeMap::new();
        for entry in &self.operations {
            if sorted.insert(&*entry.operation_type, entry).is_some() {
                return Err(GenerateError::Twice(entry.operation_type.clone()));
            }
        }
        render::tree(sorted.into_values())
    }
}

impl Serialize for Catalogue {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        File { operations: self.operations.clone() }.serialize(to)
    }
}
