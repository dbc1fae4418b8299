//! `completions`: a script that completes this command in a shell.

use super::exit::Outcome;
use super::output::print_text;

/// Print a shell's completion script
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune completions bash > ~/.local/share/bash-completion/completions/perilune")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::args::command(), "perilune", &mut script);
    print_text(String::from_utf8_lossy(&script).trim_end())
}
