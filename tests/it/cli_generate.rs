//! `generate typescript`: a tree that is written, checked, stale, refused.

use std::fs;
use std::path::Path;

use perilune::typescript::Catalogue;

use super::application::{Application, CloseAccount, GenerateReport};
use super::cli_process::{Finished, perilune, run};

fn generate(out: &Path, more: &[&str]) -> Finished {
    let out = out.display().to_string();
    run(&mut perilune([&["generate", "typescript", "--out", &out], more].concat()))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_tree_is_written_and_says_whether_it_is_fresh() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("web/operations");
    generate(&out, &["--check"]).expect_code(1).expect_stderr(&["operations is stale"]);
    assert!(!out.exists(), "a check writes nothing");
    let written = generate(&out, &[]).expect_code(0);
    assert_eq!((&*written.stdout, &*written.stderr), ("", ""));
    assert_eq!(names(&out), ["generate-report.ts", "index.ts", "runtime.ts"], "the demo's operation");
    generate(&out, &["--check"]).expect_code(0);
    let path = out.join("generate-report.ts");
    let text = fs::read_to_string(&path).expect("read");
    fs::write(&path, text.clone() + "// by hand\n").expect("written");
    let stale = generate(&out, &["--check"]).expect_code(1);
    stale.expect_stderr(&[&format!("error: {} is stale", out.display())]);
    generate(&out, &[]).expect_code(0);
    assert_eq!(fs::read_to_string(&path).expect("read"), text);
}

#[test]
fn a_catalogue_gives_its_own_operations() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, file) = (folder.path().join("out"), folder.path().join("operations.json"));
    let application = Application::embedded();
    // What an application's own binary writes over its registered operations.
    let catalogue = application.with(async |operations, _| Catalogue::of(operations));
    assert_eq!(
        catalogue.generate().expect("generated"),
        Catalogue::new().operation::<GenerateReport>().operation::<CloseAccount>().generate().expect("generated")
    );
    let catalogue = catalogue.ephemeral_operation("IssueCredential");
    fs::write(&file, serde_json::to_string(&catalogue).expect("JSON")).expect("written");
    let named = ["--catalogue", &file.display().to_string()];
    generate(&out, &named).expect_code(0);
    assert_eq!(
        names(&out),
        ["close-account.ts", "generate-report.ts", "index.ts", "issue-credential.ts", "runtime.ts"]
    );
    generate(&out, &[&named[..], &["--check"]].concat()).expect_code(0);
    generate(&out, &["--check"]).expect_code(1).expect_stderr(&["stale"]);
    // Another catalogue takes what is left over away, and nothing that it did not write.
    fs::write(out.join("mine.ts"), "export {};\n").expect("written");
    generate(&out, &[]).expect_code(0);
    assert_eq!(names(&out), ["generate-report.ts", "index.ts", "mine.ts", "runtime.ts"]);
}

#[test]
fn a_catalogue_that_is_none_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, file) = (folder.path().join("out"), folder.path().join("operations.json"));
    let named = ["--catalogue", &file.display().to_string()];
    let with = |text: &str, code: i32, more: &[&str]| {
        fs::write(&file, text).expect("written");
        generate(&out, &[&named[..], more].concat()).expect_code(code)
    };
    for (text, says) in [
        ("[]", "the catalogue must be"),
        ("{\"operations\":[{\"type\":\"A\"}]} more", "the catalogue must be"),
        (r#"{"operations":[{"type":"1st","outcome":null}]}"#, "letters and digits, a letter first"),
        (
            r#"{"operations":[{"type":"A","outcome":null},{"type":"A","outcome":null}]}"#,
            "operation A is in the catalogue twice",
        ),
        (r#"{"operations":[{"type":"A","outcome":{"type":"object","properties":{"a":{"not":{}}}}}]}"#, "/properties/a"),
    ] {
        with(text, 1, &[]).expect_stderr(&[says]);
        with(text, 2, &["--check"]).expect_stderr(&[says]);
        assert!(!out.exists(), "nothing is half done: {text}");
    }
    fs::remove_file(&file).expect("removed");
    generate(&out, &named).expect_code(1).expect_stderr(&["operations.json"]);
    generate(&out, &[&named[..], &["--check"]].concat()).expect_code(2).expect_stderr(&["operations.json"]);
    run(&mut perilune(["generate", "typescript"])).expect_code(2).expect_stderr(&["--out"]);
    // A file of another origin is not overwritten.
    fs::create_dir(&out).expect("made");
    fs::write(out.join("index.ts"), "export {};\n").expect("written");
    generate(&out, &[]).expect_code(1).expect_stderr(&["index.ts", "is not a generated file"]);
    assert_eq!(names(&out), ["index.ts"], "nothing is half done");
}
