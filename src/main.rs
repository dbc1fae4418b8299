//! The `perilune` binary: see `perilune --help`.

fn main() {
    // One provider for the whole process; a second one can't be there yet.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let code = perilune::cli::run();
    // Not a return: a thread that never ends, such as a blocked handler's, must not hold the process.
    std::process::exit(i32::from(code));
}
