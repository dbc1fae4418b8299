//! What the strict reader must say, told slowly and independently on top of `serde_json`.

use std::collections::BTreeSet;
use std::fmt;

use perilune_proto::json::Flaw;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// `Ok` for a strict JSON value of at most `depth` levels. `Err(None)` for a text that is no JSON, or
/// an own flaw of the strictness.
pub(crate) fn judge(text: &str, depth: usize) -> Result<(), Option<Flaw>> {
    let value: &RawValue = serde_json::from_str(text).map_err(|_| None)?;
    let flaws = collect(value.get(), depth);
    // Which of several flaws is told first is the reader's own affair.
    flaws.into_iter().next().map_or(Ok(()), |flaw| Err(Some(flaw)))
}

/// Every flaw that a syntactically valid value has.
pub(crate) fn collect(value: &str, depth: usize) -> BTreeSet<Flaw> {
    let mut flaws = BTreeSet::new();
    walk(value, depth, &mut flaws);
    flaws
}

fn walk(value: &str, depth: usize, flaws: &mut BTreeSet<Flaw>) {
    match value.trim_start().as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => {
            flaws.insert(Flaw::TooDeep);
        }
        Some(b'{') => match serde_json::from_str::<Members<'_>>(value) {
            Ok(Members(members)) => {
                let names: BTreeSet<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
                if names.len() < members.len() {
                    flaws.insert(Flaw::DuplicateKey);
                }
                members.iter().for_each(|(_, member)| walk(member, depth - 1, flaws));
            }
            // The syntax is known to be valid: what is left to fail is a key that is no text.
            Err(_) => {
                flaws.insert(Flaw::LoneSurrogate);
            }
        },
        Some(b'[') => {
            let Elements(elements) = serde_json::from_str(value).expect("valid syntax");
            elements.iter().for_each(|element| walk(element, depth - 1, flaws));
        }
        _ => {}
    }
}

/// The members of an object in their order, duplicates kept.
pub(crate) struct Members<'a>(pub(crate) Vec<(String, &'a str)>);

struct Elements<'a>(Vec<&'a str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    members.push((name, value.get()));
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Walk)
    }
}

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Elements<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(value) = seq.next_element::<&RawValue>()? {
                    elements.push(value.get());
                }
                Ok(Elements(elements))
            }
        }
        from.deserialize_seq(Walk)
    }
}
