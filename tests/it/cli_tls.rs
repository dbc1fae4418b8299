//! TLS from one end to the other: the server's certificate, the client's own authority.

use super::cli_platform::{Platform, field};
use super::cli_process::run;

/// Writes a certificate for this machine and its key, signed by itself.
fn certificate(platform: &Platform, name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("made");
    let (cert, key) = (platform.path(&format!("{name}.pem")), platform.path(&format!("{name}.key")));
    std::fs::write(&cert, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    (cert, key)
}

#[test]
fn everything_goes_over_tls_to_whoever_trusts_the_authority() {
    let mut platform = Platform::start();
    let (cert, key) = certificate(&platform, "server");
    platform.stop("TERM").expect_code(0);
    platform.serve_with(&["--tls-cert", &cert, "--tls-key", &key]);
    assert!(platform.url.starts_with("https://127.0.0.1:"), "{}", platform.url);

    let trusting = |arguments: &[&str]| {
        let mut command = platform.command(arguments);
        command.env("PERILUNE_CA_FILE", &cert);
        command
    };
    let create = ["subscription", "create", "--name", "a", "--queues", "reports", "--start", "earliest", "--json"];
    let subscription = field(&run(&mut trusting(&create)).expect_code(0).stdout, "subscription_id");
    let publish = ["publish", "--queue", "reports", "--operation", "Op", "--status", "succeeded"];
    run(&mut trusting(&publish)).expect_code(0);
    let consume = ["consume", "--subscription", &subscription, "--print", "--max-events", "1"];
    run(&mut trusting(&consume)).expect_code(0);
    let doctor = run(&mut trusting(&["doctor"])).expect_code(0);
    assert!(doctor.stdout.contains("\ntls\tok\t"), "{doctor:?}");

    // Nobody else's word is taken for it, and no credential is sent.
    let (other, _) = certificate(&platform, "other");
    let distrusting = |arguments: &[&str]| {
        let mut command = platform.command(arguments);
        command.env("PERILUNE_CA_FILE", &other);
        command
    };
    run(&mut distrusting(&["subscription", "list"])).expect_code(1).expect_stderr(&["certificate"]);
    run(&mut distrusting(&consume)).expect_code(1).expect_stderr(&["error: "]);
    let doctor = run(&mut distrusting(&["doctor"])).expect_code(1);
    assert!(doctor.stdout.contains("--ca-file"), "{doctor:?}");
}

#[test]
fn files_that_are_not_there_or_hold_no_certificate_are_named() {
    let platform = Platform::start();
    let list = |flag: &str, path: &str| run(platform.command(&["subscription", "list"]).args([flag, path]));
    list("--ca-file", "/nowhere.pem").expect_code(2).expect_stderr(&["--ca-file /nowhere.pem can't be read"]);
    let empty = platform.path("empty.pem");
    std::fs::write(&empty, "").expect("written");
    let mut command = platform.command(&["subscription", "list", "--url", "https://127.0.0.1:1"]);
    run(command.args(["--ca-file", &empty])).expect_code(1).expect_stderr(&["error: "]);
}
