//! Where a credential comes from: `PERILUNE_CREDENTIAL`, or a file that is read anew each time.
//!
//! Never a flag's value: those are seen by every user of the machine.

use std::path::PathBuf;

use zeroize::Zeroizing;

use super::exit::{Failure, Outcome};

/// The variable that holds the credential itself.
pub(crate) const CREDENTIAL_VARIABLE: &str = "PERILUNE_CREDENTIAL";

/// Where a credential is read from.
#[derive(Debug, Clone)]
pub(crate) enum CredentialSource {
    /// The variable.
    Variable,
    /// A file; white space around the credential is not part of it.
    File(PathBuf),
}

impl CredentialSource {
    /// The file where one is given, else the variable.
    ///
    /// # Errors
    /// A usage error where neither holds a credential.
    pub(crate) fn find(file: Option<&PathBuf>) -> Outcome<Self> {
        let source = file.map_or(Self::Variable, |path| Self::File(path.clone()));
        source.read().map_err(Failure::Usage)?;
        Ok(source)
    }

    /// Reads the credential as it is now.
    ///
    /// # Errors
    /// One sentence that names the source and never shows the credential.
    pub(crate) fn read(&self) -> Result<Zeroizing<String>, String> {
        let (text, name) = match self {
            Self::Variable => {
                let text = std::env::var(CREDENTIAL_VARIABLE).map_err(|error| match error {
                    std::env::VarError::NotPresent => {
                        format!("no credential: set {CREDENTIAL_VARIABLE} or give --credential-file")
                    }
                    std::env::VarError::NotUnicode(_) => malformed(CREDENTIAL_VARIABLE),
                })?;
                (Zeroizing::new(text), CREDENTIAL_VARIABLE.to_owned())
            }
            Self::File(path) => {
                let name = format!("the credential file {}", path.display());
                let text = std::fs::read_to_string(path).map_err(|error| format!("{name} can't be read: {error}"))?;
                (Zeroizing::new(text), name)
            }
        };
        let credential = text.trim();
        // What an Authorization header can carry; a line break in it would be a header of its own.
        if credential.is_empty() || !credential.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(malformed(&name));
        }
        Ok(Zeroizing::new(credential.to_owned()))
    }
}

fn malformed(name: &str) -> String {
    format!("{name} must hold a credential: one line of printable ASCII without spaces")
}
