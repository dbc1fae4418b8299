//! Types and decoders as TypeScript.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::catalogue::Entry;
use super::model::{self, Field, Model, Type};
use super::tree::HEADER;
use super::{GenerateError, GeneratedTree};

const RUNTIME: &str = include_str!("runtime.ts");
pub(super) fn tree<'a>(entries: impl Iterator<Item = &'a Entry>) -> Result<GeneratedTree, GenerateError> {
    let mut files = BTreeMap::from([("runtime.ts".to_owned(), format!("{HEADER}{RUNTIME}"))]);
    let mut index = format!("{HEADER}export type * from \"./runtime.js\";\n");
    for entry in entries {
        let name = Name::of(&entry.operation_type)?;
        let file = format!("{}.ts", name.file);
        let text = module(entry, &name)?;
        if files.insert(file, text).is_some() {
            return Err(GenerateError::Name(entry.operation_type.clone()));
        }
        _ = writeln!(index, "export * as {} from \"./{}.js\";", name.module, name.file);
        _ = writeln!(index, "export {{ {} }} from \"./{}.js\";", name.value, name.file);
    }
    if files.insert("index.ts".to_owned(), index).is_some() {
        return Err(GenerateError::Name("index".to_owned()));
    }
    Ok(GeneratedTree::new(files))
}

/// An operation type's names in TypeScript: `GenerateReport`, `generate-report`, `generateReportModule`.
struct Name {
    value: String,
    file: String,
    module: String,
}

impl Name {
    fn of(operation_type: &str) -> Result<Self, GenerateError> {
        let mut value = String::new();
        for word in operation_type.split(['.', '_', '-']) {
            let mut letters = word.chars();
            value.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            value.extend(letters);
        }
        let plain = value.bytes().all(|c| c.is_ascii_alphanumeric());
        if !plain || !value.starts_with(|first: char| first.is_ascii_uppercase()) {
            return Err(GenerateError::Name(operation_type.to_owned()));
        }
        let mut file = String::new();
        let mut before = None::<char>;
        for letter in value.chars() {
            if letter.is_ascii_uppercase() && before.is_some_and(|before| !before.is_ascii_uppercase()) {
                file.push('-');
            }
            file.push(letter.to_ascii_lowercase());
            before = Some(letter);
        }
        let module = format!("{}{}Module", value[..1].to_ascii_lowercase(), &value[1..]);
        Ok(Self { value, file, module })
    }
}

fn module(entry: &Entry, name: &Name) -> Result<String, GenerateError> {
    let operation_type = &entry.operation_type;
    let Some(schema) = &entry.outcome else {
        return Ok(format!(
            "{HEADER}/** Its outcome is shown once, so it has neither `status` nor `wait`. */\n\
             export const {} = Object.freeze({{ operationType: \"{operation_type}\" }} as const);\n",
            name.value
        ));
    };
    let model = model::read(schema).map_err(|found| GenerateError::Schema {
        operation: operation_type.clone(),
        pointer: found.pointer,
        allowed: found.allowed,
    })?;
    let names = definition_names(&model, name, operation_type)?;
    let mut body = String::new();
    for (definition, definition_type) in &model.definitions {
        let declared = &names[definition];
        _ = writeln!(body, "\nexport type {declared} = {};", type_text(definition_type, &names, 0));
        _ = writeln!(
            body,
            "const decode{declared}: read.Decoder<{declared}> = {};",
            decoder_text(definition_type, &names, 0)
        );
    }
    let value = &name.value;
    _ = writeln!(body, "\nexport type {value}Outcome = {};", type_text(&model.root, &names, 0));
    _ = writeln!(
        body,
        "\nexport const {value}: read.OperationClient<{value}Outcome> = read.operation<{value}Outcome>(\n  \"{operation_type}\",\n  {},\n);",
        decoder_text(&model.root, &names, 1)
    );
    Ok(format!("{HEADER}import * as read from \"./runtime.js\";\n{body}"))
}

/// A TypeScript name for each definition, unlike the operation's own names and the runtime's.
fn definition_names(
    model: &Model,
    name: &Name,
    operation_type: &str,
) -> Result<BTreeMap<String, String>, GenerateError> {
    let mut taken = BTreeSet::from([name.value.clone(), format!("{}Outcome", name.value), "Object".to_owned()]);
    let mut names = BTreeMap::new();
    for definition in model.definitions.keys() {
        let mut declared = Name::of(definition).map_err(|_| GenerateError::Name(operation_type.to_owned()))?.value;
        while !taken.insert(declared.clone()) {
            declared.push_str("Value");
        }
        names.insert(definition.clone(), declared);
    }
    Ok(names)
}

type Names = BTreeMap<String, String>;

fn type_text(value: &Type, names: &Names, depth: usize) -> String {
    let inner = |value| type_text(value, names, depth);
    match value {
        Type::Text => "string".to_owned(),
        Type::Flag => "boolean".to_owned(),
        Type::Number | Type::Integer => "number".to_owned(),
        Type::Null => "null".to_owned(),
        Type::Anything => "unknown".to_owned(),
        Type::Literal(text) => text.clone(),
        Type::List(item) => format!("readonly ({})[]", inner(item)),
        Type::Tuple(items) => {
            format!("readonly [{}]", items.iter().map(inner).collect::<Vec<_>>().join(", "))
        }
        Type::Record(item) => format!("{{ readonly [key: string]: {} }}", inner(item)),
        // `object` with no named key is anything; an empty outcome has no key at all.
        Type::Object(fields) if fields.is_empty() => "{ readonly [key: string]: never }".to_owned(),
        Type::Object(fields) => {
            let line = |field: &Field| {
                let mark = if field.required { "" } else { "?" };
                let value = type_text(&field.value, names, depth + 1);
                format!("{}readonly {}{mark}: {value};\n", indent(depth + 1), key(&field.name))
            };
            format!("{{\n{}{}}}", fields.iter().map(line).collect::<String>(), indent(depth))
        }
        Type::OneOf(types) => types.iter().map(inner).collect::<Vec<_>>().join(" | "),
        Type::Named(name) => names.get(name).cloned().unwrap_or_else(|| "unknown".to_owned()),
    }
}

fn decoder_text(value: &Type, names: &Names, depth: usize) -> String {
    let inner = |value| decoder_text(value, names, depth);
    match value {
        Type::Text => "read.text".to_owned(),
        Type::Flag => "read.flag".to_owned(),
        Type::Number => "read.number".to_owned(),
        Type::Integer => "read.integer".to_owned(),
        Type::Null => "read.nothing".to_owned(),
        Type::Anything => "read.anything".to_owned(),
        Type::Literal(text) => format!("read.literal({text})"),
        Type::List(item) => format!("read.list({})", inner(item)),
        Type::Tuple(items) => {
            let types = type_text(value, names, depth);
            format!("read.tuple<{types}>({})", items.iter().map(inner).collect::<Vec<_>>().join(", "))
        }
        Type::Record(item) => format!("read.record({})", inner(item)),
        Type::Object(fields) if fields.is_empty() => "read.object({})".to_owned(),
        Type::Object(fields) => {
            let line = |field: &Field| {
                let value = decoder_text(&field.value, names, depth + 1);
                let value = if field.required { value } else { format!("read.optional({value})") };
                format!("{}{}: {value},\n", indent(depth + 1), key(&field.name))
            };
            format!("read.object({{\n{}{}}})", fields.iter().map(line).collect::<String>(), indent(depth))
        }
        Type::OneOf(types) => {
            let alternatives = types.iter().map(inner).collect::<Vec<_>>().join(", ");
            format!("read.oneOf<{}>({alternatives})", type_text(value, names, depth))
        }
        Type::Named(name) => match names.get(name) {
            Some(declared) => format!("read.lazy(() => decode{declared})"),
            None => "read.anything".to_owned(),
        },
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

/// A property's key, quoted as JSON quotes it where it is no identifier.
fn key(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let identifier =
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && name.chars().all(plain);
    if identifier { name.to_owned() } else { serde_json::Value::from(name).to_string() }
}
