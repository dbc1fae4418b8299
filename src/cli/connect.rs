//! How the platform is reached: the options that every command which calls it shares.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use perilune_client::{Client, ClientBuilder, Credential, CredentialFile};

use super::blame::setting;
use super::credential_source::CredentialSource;
use super::discreet::Discreet;
use super::exit::{Failure, Outcome};

/// Where the platform is, and how it is spoken to.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectArgs {
    /// The platform's base URL: http, https, ws or wss
    #[arg(
        long,
        value_name = "URL",
        env = "PERILUNE_URL",
        default_value = "http://127.0.0.1:7878",
        value_parser = Discreet::<BaseUrl>::new()
    )]
    pub(crate) url: BaseUrl,
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
    #[arg(long, value_name = "PATH", env = "PERILUNE_CERT")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert, a PEM file
    #[arg(long, value_name = "PATH", env = "PERILUNE_KEY")]
    pub(crate) key: Option<PathBuf>,
    /// Read the credential from this file each time it is needed, instead of from PERILUNE_CREDENTIAL
    #[arg(long, value_name = "PATH", env = "PERILUNE_CREDENTIAL_FILE")]
    pub(crate) credential_file: Option<PathBuf>,
}

/// A base URL that the client can use. Whether it may be plaintext is judged when it is used.
#[derive(Debug, Clone)]
pub(crate) struct BaseUrl(String);

impl FromStr for BaseUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let credential = Credential::new("none").map_err(|_| "can't be judged")?;
        let client = Client::builder(text).allow_plaintext().credential(credential).build();
        client.map(|_| Self(text.to_owned())).map_err(|error| error.problem)
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ConnectArgs {
    /// A client with the credential that these options name.
    ///
    /// # Errors
    /// A usage error: no credential, plaintext beyond loopback, a file that is not there.
    pub(crate) fn client(&self) -> Outcome<Client> {
        let source = CredentialSource::find(self.credential_file.as_ref())?;
        let builder = match source {
            CredentialSource::Variable(credential) => self.builder()?.credential(credential),
            CredentialSource::File(path) => self.builder()?.credential(CredentialFile(path)),
        };
        self.build(builder)
    }

    fn builder(&self) -> Outcome<ClientBuilder> {
        let mut builder = Client::builder(&self.url.0);
        if self.allow_plaintext {
            builder = builder.allow_plaintext();
        }
        if let Some(path) = &self.ca_file {
            readable("--ca-file", path)?;
            builder = builder.ca_file(path);
        }
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                readable("--cert", cert)?;
                readable("--key", key)?;
                Ok(builder.client_certificate(cert, key))
            }
            (None, None) => Ok(builder),
            (Some(_), None) => Err(Failure::usage("--cert needs --key")),
            (None, Some(_)) => Err(Failure::usage("--key needs --cert")),
        }
    }

    fn build(&self, builder: ClientBuilder) -> Outcome<Client> {
        builder.build().map_err(|error| {
            // The URL itself was judged when it was read, so this is about plaintext.
            Failure::usage(format!(
                "{} {} {}: use https or wss, or give --allow-plaintext",
                setting("--url"),
                self.url,
                error.problem
            ))
        })
    }
}

/// Refuses a file that can't be opened now, before anything is begun.
fn readable(flag: &str, path: &PathBuf) -> Outcome {
    match std::fs::File::open(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage(format!("{} {} can't be read: {error}", setting(flag), path.display()))),
    }
}
