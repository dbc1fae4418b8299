//! Compiled by `tsc --strict` and run under Node, where both are at hand; else said to be skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::catalogue;

/// The TypeScript compiler, from `PERILUNE_TEST_TSC`, or `None` with the reason printed.
pub(super) fn compiler() -> Option<PathBuf> {
    let named = std::env::var_os("PERILUNE_TEST_TSC").map(PathBuf::from);
    if named.is_none() {
        println!(
            "skipped: PERILUNE_TEST_TSC names no TypeScript compiler (`.ci/typescript` installs one and runs this)"
        );
    }
    named
}

fn run(program: &Path, arguments: &[&str], folder: &Path) {
    let output = Command::new(program).args(arguments).current_dir(folder).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// Writes the generated client and a program that uses it, and compiles both strictly into `built`.
pub(super) fn compiled(compiler: &Path, folder: &Path, name: &str, program: &str) {
    catalogue().generate().expect("generated").write(&folder.join("client")).expect("written");
    std::fs::write(folder.join("package.json"), r#"{"type":"module"}"#).expect("written");
    std::fs::write(folder.join(name), program).expect("written");
    let strict = [
        "--strict",
        "--target",
        "es2022",
        "--lib",
        "es2022,dom",
        "--module",
        "nodenext",
        "--exactOptionalPropertyTypes",
        "--noUncheckedIndexedAccess",
        "--noPropertyAccessFromIndexSignature",
        "--verbatimModuleSyntax",
        "--outDir",
        "built",
        name,
    ];
    run(compiler, &strict, folder);
}

#[test]
fn the_client_compiles_strictly_and_decodes_strictly_under_node() {
    let Some(compiler) = compiler() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    compiled(&compiler, folder.path(), "use.ts", include_str!("use.ts"));
    run(Path::new("node"), &["built/use.js"], folder.path());
}
