//! Where a bad value came from: an error names the flag that was given, else the variable that was set.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};

/// Lets clap's error name the variable where the value it refuses came from one.
pub(crate) fn name_variable(mut error: clap::Error, command: &Command, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    // As it is shown: `--capacity <N>`.
    let Some(long) = flag.strip_prefix("--").and_then(|flag| flag.split([' ', '=', '[']).next()) else { return error };
    let variable = path(command, arguments).into_iter().rev().find_map(|command| {
        command.get_arguments().find(|arg| arg.get_long() == Some(long)).and_then(|arg| variable_of(arg, arguments))
    });
    if let Some(variable) = variable {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
    }
    error
}

/// The variable that an argument's value came from, where it came from one.
pub(crate) fn variable_of(arg: &Arg, arguments: &[OsString]) -> Option<String> {
    let (long, variable) = (arg.get_long()?, arg.get_env()?);
    let is_set = std::env::var_os(variable).is_some() && !is_given(long, arguments);
    is_set.then(|| variable.to_string_lossy().into_owned())
}

/// The name of a setting whose value is refused after the arguments were read: the flag, or its variable where
/// that was set and the flag was not given.
pub(crate) fn setting(flag: &str) -> String {
    let long = flag.trim_start_matches("--");
    let variable = format!("PERILUNE_{}", long.replace('-', "_").to_ascii_uppercase());
    let arguments = std::env::args_os().collect::<Vec<_>>();
    let from_variable = std::env::var_os(&variable).is_some() && !is_given(long, &arguments);
    if from_variable { variable } else { format!("--{long}") }
}

fn is_given(long: &str, arguments: &[OsString]) -> bool {
    arguments.iter().skip(1).any(|argument| {
        let argument = argument.to_string_lossy();
        argument
            .strip_prefix("--")
            .and_then(|rest| rest.strip_prefix(long))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })
}

/// The command and those below it that the arguments go through.
fn path<'a>(command: &'a Command, arguments: &[OsString]) -> Vec<&'a Command> {
    let mut path = vec![command];
    for argument in arguments.iter().skip(1) {
        let below = path.last().and_then(|command| command.find_subcommand(argument));
        path.extend(below);
    }
    path
}
