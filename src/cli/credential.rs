//! `credential`: made, rotated and revoked on the server's host, in its database.

use std::time::Duration;

use perilune_proto::scalar::Name;
use serde::Serialize;

use super::database::{DatabaseArgs, Operator};
use super::duration;
use super::exit::{Failure, Outcome};
use super::output::OutputArgs;
use crate::server::store::{CredentialRecord, CredentialSecret, NewCredential, Rotation, Scope, StoreError};

/// Make and end credentials, on the server's host
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune credential create --name billing --queues reports --scopes consume,manage"
)]
pub(crate) struct CredentialArgs {
    #[command(subcommand)]
    command: CredentialCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CredentialCommand {
    Create(CreateArgs),
    List(ListArgs),
    Rotate(RotateArgs),
    Revoke(RevokeArgs),
}

/// Make a credential and show it, once
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune credential create --name billing --queues reports,invoices --scopes consume,manage --expires-in 90d"
)]
struct CreateArgs {
    /// What to call it: 1 to 128 of A-Z a-z 0-9 . _ -
    #[arg(long)]
    name: Name,
    /// The queues it reaches, for good
    #[arg(long, value_name = "QUEUE,…", value_delimiter = ',', required = true)]
    queues: Vec<Name>,
    /// What it may do: report, consume, manage
    #[arg(long, value_name = "SCOPE,…", value_delimiter = ',', required = true)]
    scopes: Vec<Scope>,
    /// When it ends by itself; never if left out
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// List credentials, never their secrets
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune credential list --json")]
struct ListArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Give a credential a new secret; the old one works until the overlap ends
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune credential rotate --name billing --overlap 1h")]
struct RotateArgs {
    /// The credential's name
    #[arg(long)]
    name: Name,
    /// How long the old secret goes on to work
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration::parse)]
    overlap: Duration,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// End a credential at once and for good
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune credential revoke --name billing")]
struct RevokeArgs {
    /// The credential's name
    #[arg(long)]
    name: Name,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// A credential as it is shown. The secret is there once, when it is made.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<&'a str>,
    credential_id: String,
    queues: Vec<&'a str>,
    scopes: Vec<&'static str>,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    overlap_until: Option<String>,
}

impl<'a> Shown<'a> {
    fn new(record: &'a CredentialRecord, secret: Option<&'a CredentialSecret>) -> Self {
        Self {
            name: record.name.as_str(),
            credential: secret.map(CredentialSecret::expose),
            credential_id: record.credential_id.to_string(),
            queues: record.queues.iter().map(Name::as_str).collect(),
            scopes: record.scopes.iter().map(Scope::as_str).collect(),
            created_at: record.created_at.to_string(),
            expires_at: record.expires_at.map(|time| time.to_string()),
            revoked_at: record.revoked_at.map(|time| time.to_string()),
            overlap_until: record.overlap_until.map(|time| time.to_string()),
        }
    }

    fn cells(&self) -> Vec<String> {
        let or_never = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
        vec![
            self.name.to_owned(),
            self.queues.join(","),
            self.scopes.join(","),
            self.created_at.clone(),
            or_never(&self.expires_at),
            or_never(&self.revoked_at),
            or_never(&self.overlap_until),
        ]
    }
}

const COLUMNS: [&str; 7] = ["name", "queues", "scopes", "created_at", "expires_at", "revoked_at", "overlap_until"];

pub(crate) async fn run(args: CredentialArgs) -> Outcome {
    match args.command {
        CredentialCommand::Create(args) => create(args).await,
        CredentialCommand::List(args) => {
            let store = Operator::open_existing(&args.database).await?;
            let records = store.credentials().await.map_err(failed)?;
            let shown = records.iter().map(|record| Shown::new(record, None)).collect::<Vec<_>>();
            args.output.list(&COLUMNS, &shown, Shown::cells)
        }
        CredentialCommand::Rotate(args) => {
            let store = Operator::open_existing(&args.database).await?;
            let secret = CredentialSecret::generate();
            let rotation = Rotation { name: args.name, secret: secret.hash(), overlap: args.overlap };
            let record = store.rotate_credential(rotation).await.map_err(failed)?;
            show(args.output, &record, Some(&secret))
        }
        CredentialCommand::Revoke(args) => {
            let store = Operator::open_existing(&args.database).await?;
            let record = store.revoke_credential(args.name).await.map_err(failed)?;
            show(args.output, &record, None)
        }
    }
}

async fn create(args: CreateArgs) -> Outcome {
    let store = Operator::open(&args.database).await?;
    let secret = CredentialSecret::generate();
    let new = NewCredential {
        name: args.name,
        queues: args.queues.into_iter().collect(),
        scopes: args.scopes.into_iter().collect(),
        secret: secret.hash(),
        expires_in: args.expires_in,
    };
    let record = store.create_credential(new).await.map_err(failed)?;
    show(args.output, &record, Some(&secret))
}

fn show(output: OutputArgs, record: &CredentialRecord, secret: Option<&CredentialSecret>) -> Outcome {
    let shown = Shown::new(record, secret);
    let secret = secret.map(|secret| ("credential", secret.expose().to_owned()));
    let fields = secret.into_iter().chain(COLUMNS.into_iter().zip(shown.cells())).collect::<Vec<_>>();
    output.object(&shown, &fields)?;
    if shown.credential.is_some() {
        super::stderr::tell("The credential is shown this once: keep it where only its user can read it.");
    }
    Ok(())
}

fn failed(error: StoreError) -> Failure {
    Failure::Failed(error.into())
}
