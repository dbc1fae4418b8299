//! The configuration file: its values become the defaults of the flags.
//!
//! Flags go first, then `PERILUNE_*` variables, then this file. What has a variable may stand in the
//! file, under the variable's name in lower case without its prefix (`PERILUNE_LISTEN` is `listen`): at
//! the top for every command that knows it, or in a command's own table (`[serve]`), which goes first.

use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use toml::{Table, Value};

use super::credential_source::CREDENTIAL_VARIABLE;
use super::exit::{Failure, Outcome};

const PREFIX: &str = "PERILUNE_";
/// The one setting that a file can't hold: where the file is.
const OWN_KEY: &str = "config";

/// Where the configuration file is, if there is one: `--config`, else `PERILUNE_CONFIG`.
///
/// The arguments are looked through by hand, since they can't be parsed before the file is known.
pub(crate) fn path(arguments: &[std::ffi::OsString]) -> Option<PathBuf> {
    let mut arguments = arguments.iter().skip(1).take_while(|argument| *argument != "--");
    let mut found = None;
    while let Some(argument) = arguments.next() {
        if argument == "--config" {
            found = arguments.next().map(PathBuf::from);
        } else if let Some(path) = argument.to_str().and_then(|argument| argument.strip_prefix("--config=")) {
            found = Some(PathBuf::from(path));
        }
    }
    found.or_else(|| std::env::var_os("PERILUNE_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from))
}

/// Puts the values of the file at `path` below the flags and variables of `command`.
///
/// # Errors
/// A usage error for a file that can't be read, is not TOML, has an unknown key or a bad value: it
/// names the key and what is allowed.
pub(crate) fn apply(command: Command, path: &Path) -> Outcome<Command> {
    let refuse = |what: String| Failure::usage(format!("configuration file {}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(format!("can't be read: {error}")))?;
    let table =
        text.parse::<Table>().map_err(|error| refuse(format!("is not TOML: {}", one_line(&error.to_string()))))?;
    check_keys(&command, &table, "").map_err(refuse)?;
    set_defaults(command, &[&table], "").map_err(refuse)
}

/// Forgets the credential file of variables and configuration where the credential itself is a variable.
///
/// A flag goes before the variable, and the variable before everything else.
pub(crate) fn prefer_credential_variable(command: Command) -> Command {
    if std::env::var_os(CREDENTIAL_VARIABLE).is_none() {
        return command;
    }
    map_args(command, &|arg| {
        if key(&arg).as_deref() == Some("credential_file") {
            arg.env(clap::builder::Resettable::Reset).default_value(clap::builder::Resettable::Reset)
        } else {
            arg
        }
    })
}

fn map_args(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    command.mut_args(change).mut_subcommands(|sub| map_args(sub, change))
}

/// The key of an argument in the file; `None` for one that can't stand there.
fn key(arg: &Arg) -> Option<String> {
    let variable = arg.get_env()?.to_str()?;
    let key = variable.strip_prefix(PREFIX)?.to_ascii_lowercase();
    (key != OWN_KEY).then_some(key)
}

/// Whether `command` or one below it has a setting of that name.
fn knows(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|arg| key(arg).as_deref() == Some(name))
        || command.get_subcommands().any(|sub| knows(sub, name))
}

fn check_keys(command: &Command, table: &Table, prefix: &str) -> Result<(), String> {
    for (name, value) in table {
        let sub = command.get_subcommands().find(|sub| sub.get_name() == name);
        match (sub, value) {
            (Some(sub), Value::Table(table)) => check_keys(sub, table, &format!("{prefix}{name}."))?,
            (Some(_), _) => return Err(format!("`{prefix}{name}` must be a table")),
            (None, _) if knows(command, name) => {}
            (None, _) => return Err(format!("unknown key `{prefix}{name}`; allowed are {}", allowed(command))),
        }
    }
    Ok(())
}

/// The keys that may stand in a command's table, in order.
fn allowed(command: &Command) -> String {
    let mut keys = std::collections::BTreeSet::new();
    collect_keys(command, &mut keys);
    // Here that name is the command's table, and no setting's.
    keys.retain(|key| command.find_subcommand(key).is_none());
    let tables = command.get_subcommands().filter(|sub| has_keys(sub)).map(|sub| format!("[{}]", sub.get_name()));
    keys.into_iter().chain(tables).collect::<Vec<_>>().join(", ")
}

fn collect_keys(command: &Command, keys: &mut std::collections::BTreeSet<String>) {
    keys.extend(command.get_arguments().filter_map(key));
    command.get_subcommands().for_each(|sub| collect_keys(sub, keys));
}

fn has_keys(command: &Command) -> bool {
    command.get_arguments().any(|arg| key(arg).is_some()) || command.get_subcommands().any(has_keys)
}

/// Gives each argument its value from the innermost table that has one.
fn set_defaults(command: Command, tables: &[&Table], prefix: &str) -> Result<Command, String> {
    let mut failure = None;
    let mut command = command.mut_args(|arg| match value_of(&arg, tables, prefix) {
        Ok(Some(value)) => {
            // What may hold a password is not shown by --help either.
            let hide = arg.is_hide_env_values_set();
            arg.default_value(value).hide_default_value(hide).required(false)
        }
        Ok(None) => arg,
        Err(error) => {
            failure.get_or_insert(error);
            arg
        }
    });
    let names = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect::<Vec<_>>();
    for name in names {
        let own = tables.last().and_then(|table| table.get(&name)).and_then(Value::as_table);
        // A command's own table goes before those above it; without one it has an empty one, so that
        // a sibling's table is never taken for its own.
        let empty = Table::new();
        let tables = [tables, &[own.unwrap_or(&empty)]].concat();
        let prefix = format!("{prefix}{name}.");
        command = command.mut_subcommand(name, |sub| {
            set_defaults(sub, &tables, &prefix).unwrap_or_else(|error| {
                failure.get_or_insert(error);
                Command::new("refused")
            })
        });
    }
    failure.map_or(Ok(command), Err)
}

fn value_of(arg: &Arg, tables: &[&Table], prefix: &str) -> Result<Option<String>, String> {
    let Some(key) = key(arg) else { return Ok(None) };
    let found = tables.iter().enumerate().rev().find_map(|(depth, table)| Some((depth, table.get(&key)?)));
    // A table is a command's, such as `[subscription]`, which is a setting's name, too.
    let Some((depth, value)) = found.filter(|(_, value)| !value.is_table()) else { return Ok(None) };
    let table = prefix.split_inclusive('.').take(depth).collect::<String>();
    let name = format!("`{table}{key}`");
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        _ => return Err(format!("{name} must be a string, an integer, true or false")),
    };
    check_value(arg, &text).map_err(|why| format!("{name} {why}"))?;
    Ok(Some(text))
}

/// Lets the argument's own parser read the value, so that file and flag are judged alike.
fn check_value(arg: &Arg, text: &str) -> Result<(), String> {
    let probe = Arg::new("value").long("value").value_parser(arg.get_value_parser().clone());
    let command = Command::new("probe").no_binary_name(true).arg(probe);
    let Err(error) = command.try_get_matches_from([format!("--value={text}")]) else { return Ok(()) };
    if let Some(clap::error::ContextValue::Strings(values)) = error.get(clap::error::ContextKind::ValidValue) {
        return Err(format!("must be one of {}", values.join(", ")));
    }
    // A parser's own clause where it left one, else the end of clap's sentence.
    let clause = std::error::Error::source(&error).map(ToString::to_string);
    Err(clause.unwrap_or_else(|| {
        let said = error.to_string();
        let first = said.lines().next().unwrap_or_default();
        first.rsplit_once("': ").map_or("has a value that is not allowed", |(_, clause)| clause).to_owned()
    }))
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
