//! An answer that is shown: as it came in JSON, and read for a table.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A resource as it came, and what this version reads of it.
#[derive(Debug)]
pub(crate) struct Shown<T> {
    raw: Box<RawValue>,
    /// The fields that are shown in a table.
    pub(crate) read: T,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Shown<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        let read = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        Ok(Self { raw, read })
    }
}

impl<T> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(to)
    }
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(super) struct Page<T> {
    pub(super) items: Vec<Shown<T>>,
    pub(super) next: Option<String>,
}
