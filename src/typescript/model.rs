//! A JSON Schema as the strict type that it describes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A type that both a TypeScript type and a decoder can be written for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    Text,
    Flag,
    Number,
    Integer,
    Null,
    Anything,
    /// A string, number or boolean, as JSON writes it.
    Literal(String),
    List(Box<Self>),
    Tuple(Vec<Self>),
    Record(Box<Self>),
    Object(Vec<Field>),
    OneOf(Vec<Self>),
    /// A definition, by its name.
    Named(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) value: Type,
}

/// An outcome's type and the definitions that it names.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) root: Type,
    pub(super) definitions: BTreeMap<String, Type>,
}

/// Where a schema has no strict type, and what is allowed there.
#[derive(Debug, PartialEq)]
pub(super) struct Unsupported {
    pub(super) pointer: String,
    pub(super) allowed: &'static str,
}

/// Deeper schemas are refused rather than recursed into.
const DEPTH_MAX: usize = 64;

pub(super) fn read(schema: &Value) -> Result<Model, Unsupported> {
    let root = read_type(schema, "", 0)?;
    let mut definitions = BTreeMap::new();
    if let Some(Value::Object(found)) = schema.get("$defs") {
        for (name, definition) in found {
            definitions.insert(name.clone(), read_type(definition, &format!("/$defs/{name}"), 0)?);
        }
    }
    Ok(Model { root, definitions })
}

fn unsupported<T>(pointer: &str, allowed: &'static str) -> Result<T, Unsupported> {
    Err(Unsupported { pointer: pointer.to_owned(), allowed })
}

fn read_type(schema: &Value, pointer: &str, depth: usize) -> Result<Type, Unsupported> {
    if depth > DEPTH_MAX {
        return unsupported(pointer, "nest at most 64 deep");
    }
    let schema = match schema {
        Value::Bool(true) => return Ok(Type::Anything),
        Value::Object(schema) => schema,
        _ => return unsupported(pointer, "a schema is true or an object"),
    };
    if let Some(reference) = schema.get("$ref") {
        return match reference.as_str().and_then(|reference| reference.strip_prefix("#/$defs/")) {
            Some(name) => Ok(Type::Named(name.to_owned())),
            None => unsupported(pointer, "a $ref names one of $defs"),
        };
    }
    if let Some(value) = schema.get("const") {
        return literal(value, pointer);
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        let literals = values.iter().map(|value| literal(value, pointer)).collect::<Result<_, _>>()?;
        return Ok(one_of(literals));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(Value::Array(alternatives)) = schema.get(key) {
            return read_alternatives(schema, alternatives, &format!("{pointer}/{key}"), depth);
        }
    }
    match schema.get("type") {
        Some(Value::String(name)) => read_named(schema, name, pointer, depth),
        Some(Value::Array(names)) => {
            let read = |name: &Value| match name.as_str() {
                Some(name) => read_named(schema, name, pointer, depth),
                None => unsupported(pointer, "a type is named by a string"),
            };
            Ok(one_of(names.iter().map(read).collect::<Result<_, _>>()?))
        }
        // Titles and descriptions alone describe any value.
        None if !schema.contains_key("allOf") && !schema.contains_key("not") => Ok(Type::Anything),
        _ => unsupported(pointer, "use type, enum, const, anyOf, oneOf or $ref"),
    }
}

/// Alternatives; properties beside them (serde's internally tagged or flattened enums) belong to each.
fn read_alternatives(
    schema: &Map<String, Value>,
    alternatives: &[Value],
    pointer: &str,
    depth: usize,
) -> Result<Type, Unsupported> {
    let shared = if schema.contains_key("properties") { fields(schema, pointer, depth)? } else { Vec::new() };
    let mut types = Vec::new();
    for (at, alternative) in alternatives.iter().enumerate() {
        let read = read_type(alternative, &format!("{pointer}/{at}"), depth + 1)?;
        types.push(match read {
            Type::Object(own) if !shared.is_empty() => Type::Object([shared.clone(), own].concat()),
            other if shared.is_empty() => other,
            _ => return unsupported(pointer, "alternatives beside properties are objects"),
        });
    }
    Ok(one_of(types))
}

fn read_named(schema: &Map<String, Value>, name: &str, pointer: &str, depth: usize) -> Result<Type, Unsupported> {
    Ok(match name {
        "string" => Type::Text,
        "boolean" => Type::Flag,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "null" => Type::Null,
        "array" => match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(items)), None | Some(Value::Bool(false))) => {
                let read = |(at, item)| read_type(item, &format!("{pointer}/prefixItems/{at}"), depth + 1);
                Type::Tuple(items.iter().enumerate().map(read).collect::<Result<_, _>>()?)
            }
            (Some(Value::Array(items)), Some(_)) if schema.get("maxItems") == Some(&items.len().into()) => {
                let read = |(at, item)| read_type(item, &format!("{pointer}/prefixItems/{at}"), depth + 1);
                Type::Tuple(items.iter().enumerate().map(read).collect::<Result<_, _>>()?)
            }
            (None, items) => {
                let items = items.unwrap_or(&Value::Bool(true));
                Type::List(Box::new(read_type(items, &format!("{pointer}/items"), depth + 1)?))
            }
            _ => return unsupported(pointer, "an array has items of one type, or a fixed list of them"),
        },
        "object" if schema.contains_key("properties") => Type::Object(fields(schema, pointer, depth)?),
        "object" => match schema.get("additionalProperties") {
            // What serde writes for an empty struct.
            None | Some(Value::Bool(false)) => Type::Object(Vec::new()),
            Some(value) => {
                Type::Record(Box::new(read_type(value, &format!("{pointer}/additionalProperties"), depth + 1)?))
            }
        },
        _ => return unsupported(pointer, "a type is string, boolean, integer, number, null, array or object"),
    })
}

fn fields(schema: &Map<String, Value>, pointer: &str, depth: usize) -> Result<Vec<Field>, Unsupported> {
    if schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false)) {
        return unsupported(pointer, "an object has named fields or a map's, not both");
    }
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return unsupported(pointer, "properties are an object");
    };
    let required = |name: &str| {
        let names = schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let read = |(name, property): (&String, &Value)| {
        let value = read_type(property, &format!("{pointer}/properties/{name}"), depth + 1)?;
        Ok(Field { name: name.clone(), required: required(name), value })
    };
    properties.iter().map(read).collect()
}

fn literal(value: &Value, pointer: &str) -> Result<Type, Unsupported> {
    match value {
        Value::Null => Ok(Type::Null),
        Value::String(_) | Value::Bool(_) | Value::Number(_) => Ok(Type::Literal(value.to_string())),
        _ => unsupported(pointer, "a constant is a string, number, boolean or null"),
    }
}

fn one_of(mut types: Vec<Type>) -> Type {
    if types.len() == 1 { types.remove(0) } else { Type::OneOf(types) }
}
