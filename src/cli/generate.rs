//! `generate`: the typed client of an application's operations.

use std::path::{Path, PathBuf};

use super::exit::{Failure, Outcome};
use crate::typescript::{Catalogue, GenerateError, TreeState};

/// Generate typed clients
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune generate typescript --catalogue operations.json --out web/operations")]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    command: GenerateCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GenerateCommand {
    Typescript(TypescriptArgs),
}

/// Generate a TypeScript client: one module an operation, strict types, no dependency
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --check the exit code is 0 where the files are up to date, 1 where they are stale, 2 where they can't be judged.\n\n\
                  Example:\n  perilune generate typescript --catalogue operations.json --out web/operations"
)]
struct TypescriptArgs {
    /// The folder of the generated files
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The application's operations, as `serde_json::to_string(&Catalogue)` wrote them; the demo's where none are given
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
    /// Write nothing; say whether the files are up to date
    #[arg(long)]
    check: bool,
}

/// Runs the command.
///
/// # Errors
/// One sentence: the catalogue can't be read, has no strict type in TypeScript, or the files can't be written. Of a
/// check: 1 where the files are stale, 2 where they can't be judged.
pub(crate) fn run(args: &GenerateArgs) -> Outcome {
    let GenerateCommand::Typescript(args) = &args.command;
    let failed = |error: GenerateError| match args.check {
        true => Failure::usage(error.to_string()),
        false => Failure::Failed(anyhow::Error::new(error)),
    };
    let catalogue = match &args.catalogue {
        Some(path) => read(path).map_err(failed)?,
        None => super::demo_operation::catalogue(),
    };
    let tree = catalogue.generate().map_err(failed)?;
    if !args.check {
        return tree.write(&args.out).map_err(failed);
    }
    match tree.check(&args.out).map_err(failed)? {
        TreeState::Fresh => Ok(()),
        TreeState::Stale => Err(Failure::failed(format!("{} is stale", args.out.display()))),
    }
}

fn read(path: &Path) -> Result<Catalogue, GenerateError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| GenerateError::Io { path: path.display().to_string(), source })?;
    Catalogue::from_json(&text)
}
