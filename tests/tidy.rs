//! House rules and layer rules, as tests. Each message says what to do instead.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines a source file may have. A second concept gets a file of its own.
const FILE_LINES_MAX: usize = 400;

/// Names that say nothing about what a file holds.
const EMPTY_NAMES: [&str; 5] = ["utils", "util", "common", "helpers", "manager"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file of the project below `folder` whose name ends in `.extension`.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && !matches!(&*name, "target" | "node_modules" | "corpus") {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no .{extension} file below {}", folder.display());
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned()
}

#[test]
fn a_source_file_holds_one_concept() {
    let long: Vec<_> = files(&root(), "rs")
        .iter()
        .map(|path| (relative(path), read(path).lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .collect();
    assert!(long.is_empty(), "over {FILE_LINES_MAX} lines, so split by concept: {long:?}");
}

#[test]
fn a_name_says_what_a_file_holds() {
    let empty: Vec<_> = files(&root(), "rs")
        .iter()
        .filter(|path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            EMPTY_NAMES.contains(&&*stem) || EMPTY_NAMES.contains(&&*folder)
        })
        .map(|path| relative(path))
        .collect();
    assert!(empty.is_empty(), "named after nothing; use the concept's own name: {empty:?}");
}

#[test]
fn no_test_is_switched_off() {
    let attribute = ["#[", "ignore"].concat();
    let sources = files(&root(), "rs");
    let off: Vec<_> = sources.iter().filter(|path| read(path).contains(&attribute)).map(|p| relative(p)).collect();
    assert!(off.is_empty(), "mend or delete instead of ignoring: {off:?}");
}

/// A module of the facade, and its siblings that it may name.
const MAY_IMPORT: [(&str, &[&str]); 7] = [
    ("sql", &[]),
    ("inbox", &["sql"]),
    ("outbox", &["sql", "inbox"]),
    ("outcome", &["sql", "inbox", "outbox"]),
    ("server", &["sql"]),
    ("testkit", &["sql", "inbox"]),
    ("cli", &["sql", "inbox", "outbox", "outcome", "server", "testkit"]),
];

#[test]
fn a_module_names_only_the_layers_below_it() {
    let mut wrong = Vec::new();
    for (module, allowed) in MAY_IMPORT {
        let folder = root().join("src").join(module);
        if !folder.exists() {
            continue;
        }
        for path in files(&folder, "rs") {
            let text = read(&path);
            for (sibling, _) in MAY_IMPORT.iter().filter(|(other, _)| *other != module && !allowed.contains(other)) {
                if text.contains(&format!("crate::{sibling}::")) || text.contains(&format!("crate::{sibling};")) {
                    wrong.push(format!("{} names crate::{sibling}", relative(&path)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "see docs/architecture.md, \"Who may import whom\": {wrong:#?}");
}

#[test]
fn the_server_does_not_know_its_receivers() {
    for path in files(&root().join("src/server"), "rs") {
        let text = read(&path);
        for receiver in ["perilune_client", "perilune_actors"] {
            assert!(!text.contains(receiver), "{} names {receiver}", relative(&path));
        }
    }
}

/// The normal dependencies of a package, all levels, as `name version` lines.
fn tree(package: &str) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--prefix", "none", "--edges", "normal", "--package", package])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

fn depends(tree: &str, name: &str) -> bool {
    tree.lines().any(|line| line.split(' ').next() == Some(name))
}

#[test]
fn the_core_has_no_runtime_no_clock_and_no_randomness() {
    let tree = tree("perilune-proto");
    assert!(depends(&tree, "zeroize"), "the tree was read");
    for name in ["tokio", "futures-util", "actix", "actix-rt", "awc", "sqlx", "rand", "getrandom", "tracing"] {
        assert!(!depends(&tree, name), "perilune-proto depends on {name}");
    }
    let banned =
        ["async fn", "async move", "Instant::now", "SystemTime::now", "HashMap", "HashSet", "std::net", "println!"];
    for path in files(&root().join("actors/proto/src"), "rs") {
        // A test needs some instant to begin from.
        if relative(&path).contains("/tests") {
            continue;
        }
        let text = read(&path);
        let code = || text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for word in banned {
            assert!(!code().any(|line| line.contains(word)), "{} has {word}, which it is given", relative(&path));
        }
    }
}

#[test]
fn the_consumer_crates_know_no_sql_and_no_server() {
    for package in ["perilune-client", "perilune-actors"] {
        let tree = tree(package);
        assert!(depends(&tree, "perilune-proto"), "the tree was read");
        for name in ["sqlx", "sqlx-core", "actix-web", "actix-ws", "perilune"] {
            assert!(!depends(&tree, name), "{package} depends on {name}");
        }
    }
    assert!(!depends(&tree("perilune-client"), "actix"), "the connection has no actors");
}

#[test]
fn the_exception_for_h2_in_deny_toml_is_still_needed() {
    let excepted = read(&root().join("deny.toml")).contains("RUSTSEC-2026-0258");
    let needed = tree("perilune-client").lines().any(|line| line.starts_with("h2 v0.3."));
    assert_eq!(excepted, needed, "awc's h2 and the exception in deny.toml go together");
}

#[test]
fn numbers_in_opaque_json_keep_their_digits() {
    // serde_json's `arbitrary_precision` would change how every crate of the build reads numbers.
    let refused = serde_json::from_str::<serde_json::Value>("1e400").is_err();
    assert!(refused, "a dependency switched on serde_json/arbitrary_precision");
}
