//! Where a credential comes from: `PERILUNE_CREDENTIAL`, or a file that is read anew at each dial.
//!
//! Never a flag's value: those are seen by every user of the machine.

use std::path::PathBuf;

use perilune_client::Credential;
use zeroize::Zeroizing;

use super::exit::{Failure, Outcome};

/// The variable that holds the credential itself.
pub(crate) const CREDENTIAL_VARIABLE: &str = "PERILUNE_CREDENTIAL";

/// Where a credential is read from.
#[derive(Debug, Clone)]
pub(crate) enum CredentialSource {
    /// The variable, as it was when the process began.
    Variable(Credential),
    /// A file; white space around the credential is not part of it.
    File(PathBuf),
}

impl CredentialSource {
    /// The file where one is given, else the variable.
    ///
    /// # Errors
    /// A usage error where it holds no credential. It names the source and never shows what it holds.
    pub(crate) fn find(file: Option<&PathBuf>) -> Outcome<Self> {
        if let Some(path) = file {
            let name = format!("the credential file {}", path.display());
            let text = std::fs::read_to_string(path).map(Zeroizing::new);
            let text = text.map_err(|error| Failure::usage(format!("{name} can't be read: {error}")))?;
            check(&text, &name)?;
            return Ok(Self::File(path.clone()));
        }
        match std::env::var(CREDENTIAL_VARIABLE).map(Zeroizing::new) {
            Ok(text) => check(&text, CREDENTIAL_VARIABLE).map(Self::Variable),
            Err(std::env::VarError::NotPresent) => {
                Err(Failure::usage(format!("no credential: set {CREDENTIAL_VARIABLE} or give --credential-file")))
            }
            Err(std::env::VarError::NotUnicode(_)) => Err(malformed(CREDENTIAL_VARIABLE)),
        }
    }
}

fn check(text: &str, name: &str) -> Outcome<Credential> {
    Credential::new(text.trim()).map_err(|_| malformed(name))
}

fn malformed(name: &str) -> Failure {
    Failure::usage(format!("{name} must hold a credential: one line of printable ASCII without spaces"))
}
