//! The generated TypeScript client: the same bytes each time, compiled by `tsc --strict`, run under Node.

use std::collections::BTreeMap;

use perilune::outcome::{EmptyOutcome, Operation, Outcome};
use perilune::typescript::{Catalogue, GenerateError, TreeState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod compiled;
mod served;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ReportGenerated {
    download_url: String,
    pages: u32,
    size_ratio: f64,
    warnings: Vec<Warning>,
    note: Option<String>,
    format: Format,
    labels: BTreeMap<String, String>,
    corner: (u32, String),
    delivered: Delivered,
    nested: Option<Box<Section>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Section {
    title: String,
    parts: Vec<Self>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Warning {
    code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    Pdf,
    Csv,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Delivered {
    ByMail { address: String },
    Kept,
}

impl Outcome for ReportGenerated {
    const TYPE: &'static str = "ReportGenerated";
    const SCHEMA_VERSION: u32 = 1;
}

struct GenerateReport;

impl Operation for GenerateReport {
    const TYPE: &'static str = "GenerateReport";
    type Input = String;
    type Outcome = ReportGenerated;
}

struct CloseAccount;

impl Operation for CloseAccount {
    const TYPE: &'static str = "close.account-v2";
    type Input = ();
    type Outcome = EmptyOutcome;
}

fn catalogue() -> Catalogue {
    Catalogue::new().operation::<GenerateReport>().operation::<CloseAccount>().ephemeral_operation("IssueCredential")
}

#[test]
fn the_same_operations_give_the_same_bytes_in_any_order() {
    let other_order = Catalogue::new()
        .ephemeral_operation("IssueCredential")
        .operation::<CloseAccount>()
        .operation::<GenerateReport>();
    let tree = catalogue().generate().expect("generated");
    assert_eq!(tree, other_order.generate().expect("generated"));
    let names: Vec<_> = tree.files().keys().map(String::as_str).collect();
    assert_eq!(names, ["close-account-v2.ts", "generate-report.ts", "index.ts", "issue-credential.ts", "runtime.ts"]);
    let written = serde_json::to_string(&catalogue()).expect("written");
    assert_eq!(tree, Catalogue::from_json(&written).expect("read").generate().expect("generated"));
}

#[test]
fn a_tree_on_disk_is_fresh_until_a_file_differs_is_missing_or_left_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = catalogue().generate().expect("generated");
    assert_eq!(tree.check(folder.path()).expect("read"), TreeState::Stale);
    assert_eq!(tree.check(&folder.path().join("not-there")).expect("read"), TreeState::Stale, "no folder yet");
    tree.write(folder.path()).expect("written");
    assert_eq!(tree.check(folder.path()).expect("read"), TreeState::Fresh);

    let fewer = Catalogue::new().operation::<GenerateReport>().generate().expect("generated");
    assert_eq!(fewer.check(folder.path()).expect("read"), TreeState::Stale, "left over");
    fewer.write(folder.path()).expect("written");
    assert!(!folder.path().join("close-account-v2.ts").exists());
    assert_eq!(fewer.check(folder.path()).expect("read"), TreeState::Fresh);

    std::fs::remove_file(folder.path().join("index.ts")).expect("removed");
    assert_eq!(fewer.check(folder.path()).expect("read"), TreeState::Stale, "missing");
}

#[test]
fn a_file_of_another_origin_is_neither_overwritten_nor_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = catalogue().generate().expect("generated");
    let own = folder.path().join("runtime.ts");
    std::fs::write(&own, "export const mine = 1;\n").expect("written");
    let refused = tree.write(folder.path()).expect_err("refused");
    assert!(matches!(&refused, GenerateError::Io { path, .. } if path.ends_with("runtime.ts")), "{refused}");
    assert_eq!(std::fs::read_to_string(&own).expect("read"), "export const mine = 1;\n");
}

#[test]
fn a_name_that_typescript_can_not_have_is_refused() {
    for name in ["1st", "...", "é", ""] {
        let refused = Catalogue::new().ephemeral_operation(name).generate().expect_err("refused");
        assert!(matches!(refused, GenerateError::Name(_)), "{name}: {refused}");
    }
    let twice = Catalogue::new().ephemeral_operation("A").ephemeral_operation("A").generate();
    assert!(matches!(twice, Err(GenerateError::Twice(_))));
    let alike = Catalogue::new().ephemeral_operation("a_b").ephemeral_operation("a.b").generate();
    assert!(matches!(alike, Err(GenerateError::Name(_))));
}

#[test]
fn a_schema_without_a_strict_type_is_refused_with_its_place() {
    let text = r#"{"operations":[{"type":"Odd","outcome":{"type":"object","properties":{"a":{"not":{}}}}}]}"#;
    let refused = Catalogue::from_json(text).expect("read").generate().expect_err("refused");
    assert!(matches!(&refused, GenerateError::Schema { pointer, .. } if pointer == "/properties/a"), "{refused}");
}
