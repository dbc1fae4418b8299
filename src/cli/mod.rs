//! The command line: one file a command, thin over the libraries.
//!
//! | file | what |
//! | --- | --- |
//! | `args`, `config`, `blame` | flags, then variables, then the configuration file |
//! | `exit` | exit codes and the one sentence of a failure |
//! | `output`, `progress`, `stderr`, `logging` | stdout; stderr |
//! | `signals` | the first signal, and the second |
//!
//! Nobody imports this module but the binary.

mod api;
mod application_database;
mod args;
mod blame;
mod completions;
mod config;
mod connect;
mod consume;
mod credential;
mod credential_source;
mod database;
mod delivery;
mod demo;
mod demo_operation;
mod discreet;
mod doctor;
mod duration;
mod exit;
mod generate;
mod hold;
mod inbox;
mod logging;
mod operation;
mod output;
mod progress;
mod publish;
mod retention;
mod retry;
mod serve;
mod signals;
mod start;
mod stderr;
mod subscription;
mod wall_clock;

use args::{Cli, CliCommand};
use exit::{DONE, Outcome, USAGE};

/// Runs the command that the process was called with, and gives back the exit code.
///
/// Errors have been reported on stderr when it returns. A process-wide rustls provider must be installed.
#[must_use]
pub fn run() -> u8 {
    stderr::report_panics();
    let code = run_command();
    stderr::flush();
    code
}

fn run_command() -> u8 {
    let arguments = std::env::args_os().collect::<Vec<_>>();
    let cli = match configure(&arguments) {
        Ok(Ok(cli)) => cli,
        Ok(Err(said)) => {
            // Help goes to stdout, errors to stderr; a closed stream changes nothing about the code.
            let _ = said.print();
            return if said.use_stderr() { USAGE } else { DONE };
        }
        Err(failure) => {
            failure.report();
            return failure.code();
        }
    };
    match start(cli) {
        Ok(()) => DONE,
        Err(failure) => {
            failure.report();
            failure.code()
        }
    }
}

fn configure(arguments: &[std::ffi::OsString]) -> Outcome<Result<Cli, clap::Error>> {
    let mut command = args::command();
    if let Some(path) = config::path(arguments) {
        command = config::apply(command, &path)?;
    }
    let command = config::prefer_credential_variable(command);
    Ok(args::parse(command.clone(), arguments).map_err(|error| blame::name_variable(error, &command, arguments)))
}

fn start(cli: Cli) -> Outcome {
    logging::start(cli.log.as_deref().unwrap_or(cli.command.default_log()), cli.log_format)?;
    actix_rt::System::new().block_on(execute(cli.command))
}

async fn execute(command: CliCommand) -> Outcome {
    match command {
        CliCommand::Demo(args) => demo::run(args).await,
        CliCommand::Serve(args) => serve::run(*args).await,
        CliCommand::Credential(args) => credential::run(args).await,
        CliCommand::Subscription(args) => subscription::run(args).await,
        CliCommand::Operation(args) => operation::run(*args).await,
        CliCommand::Hold(args) => hold::run(args).await,
        CliCommand::Retention(args) => retention::run(args).await,
        CliCommand::Inbox(args) => inbox::run(*args).await,
        CliCommand::Generate(args) => generate::run(&args),
        CliCommand::Delivery(args) => delivery::run(args).await,
        CliCommand::Consume(args) => consume::run(*args).await,
        CliCommand::Publish(args) => publish::run(*args).await,
        CliCommand::Doctor(args) => doctor::run(*args).await,
        CliCommand::Completions(args) => completions::run(&args),
    }
}
