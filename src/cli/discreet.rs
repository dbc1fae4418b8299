//! Reads values that may hold a password: unlike clap's own, its errors never repeat the value.

use std::ffi::OsStr;
use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};

use super::blame;

/// A parser for values that must not be shown.
#[derive(Debug)]
pub(crate) struct Discreet<T>(PhantomData<fn() -> T>);

impl<T> Discreet<T> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for Discreet<T> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<T> TypedValueParser for Discreet<T>
where
    T: FromStr<Err: Display> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let refuse = |why: &dyn Display| {
            let name = arg.map(name_of).unwrap_or_default();
            clap::Error::raw(ErrorKind::ValueValidation, format!("invalid value for '{name}': {why}\n"))
                .with_cmd(command)
        };
        let text = value.to_str().ok_or_else(|| refuse(&"must be UTF-8"))?;
        text.parse().map_err(|error: T::Err| refuse(&error))
    }
}

/// The variable where the value came from one, else the flag as it is shown.
fn name_of(arg: &Arg) -> String {
    blame::variable_of(arg, &std::env::args_os().collect::<Vec<_>>()).unwrap_or_else(|| arg.to_string())
}
