//! How the platform is reached: the options that every command which calls it shares.

use std::path::PathBuf;

use super::credential_source::CredentialSource;
use super::exit::{Failure, Outcome};
use super::platform_url::PlatformUrl;

/// Where the platform is, and how it is spoken to.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectArgs {
    /// The platform's base URL: http, https, ws or wss
    #[arg(long, value_name = "URL", env = "PERILUNE_URL", default_value = "http://127.0.0.1:7878")]
    pub(crate) url: PlatformUrl,
    /// Allow plain http and ws beyond this machine
    #[arg(
        long,
        env = "PERILUNE_ALLOW_PLAINTEXT",
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    pub(crate) allow_plaintext: bool,
    /// Trust the authorities in this PEM file instead of the system's
    #[arg(long, value_name = "PATH", env = "PERILUNE_CA_FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Present the certificate chain in this PEM file
    #[arg(long, value_name = "PATH", env = "PERILUNE_CERT", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert, a PEM file
    #[arg(long, value_name = "PATH", env = "PERILUNE_KEY", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Read the credential from this file each time it is needed, instead of from PERILUNE_CREDENTIAL
    #[arg(long, value_name = "PATH", env = "PERILUNE_CREDENTIAL_FILE")]
    pub(crate) credential_file: Option<PathBuf>,
}

impl ConnectArgs {
    /// The credential's source, once it holds one and the URL may carry it.
    ///
    /// # Errors
    /// A usage error for plaintext beyond loopback, or where there is no credential.
    pub(crate) fn credential(&self) -> Outcome<CredentialSource> {
        self.refuse_plaintext()?;
        CredentialSource::find(self.credential_file.as_ref())
    }

    /// Refuses to send what others could read on the way.
    ///
    /// # Errors
    /// A usage error, unless the user allows it.
    pub(crate) fn refuse_plaintext(&self) -> Outcome {
        if self.url.is_plaintext_beyond_loopback() && !self.allow_plaintext {
            return Err(Failure::usage(format!(
                "{} sends the credential in plaintext beyond this machine; use https or wss, or give --allow-plaintext",
                self.url.as_text()
            )));
        }
        Ok(())
    }
}
