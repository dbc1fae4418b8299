//! The example `reports`, run in this process: its service, worker and platform with plain HTTP in place of a browser.

#[path = "../../examples/reports/service/mod.rs"]
mod service;

use std::path::Path;
use std::time::Duration;

use awc::http::Method;
use futures_util::FutureExt as _;
use perilune::typescript::TreeState;
use serde_json::{Value, json};

use super::http_harness::{Answer, Request};
use service::{Options, Service, operation};

/// The running example, and the folder that it keeps its databases in.
struct Example {
    service: Service,
    folder: tempfile::TempDir,
}

impl Example {
    async fn start(folder: tempfile::TempDir) -> Self {
        let options = Options {
            folder: folder.path().to_owned(),
            listen: "127.0.0.1:0".parse().expect("an address"),
            platform_listen: "127.0.0.1:0".parse().expect("an address"),
            pace: Duration::from_millis(10),
        };
        Self { service: Service::start(options).await.expect("the example starts"), folder }
    }

    async fn restart(self) -> Self {
        assert_eq!(self.service.ended().now_or_never(), None, "all of it runs still");
        self.service.stop().await.expect("the example stops");
        Self::start(self.folder).await
    }

    fn request(&self, method: Method, path: &str, person: &str) -> Request {
        Request::new(method, &format!("http://{}{path}", self.service.addr()))
            .header("cookie", &format!("other=1; person={person}"))
    }

    async fn get(&self, path: &str, person: &str) -> Answer {
        self.request(Method::GET, path, person).send().await
    }

    async fn order(&self, person: &str, subject: &str, year: u16) -> Answer {
        let wanted = json!({"subject": subject, "year": year, "quarter": 3});
        self.request(Method::POST, "/api/reports", person).json(Some(wanted)).send().await
    }

    /// Asks with `Prefer: wait` until the operation at this place has ended.
    async fn ended(&self, location: &str, person: &str) -> Value {
        loop {
            let request = self.request(Method::GET, location, person).header("prefer", "wait=20");
            let status = request.send().await.expect(200).json();
            let state = status["state"].as_str().expect("a state");
            if !["accepted", "running", "retry_scheduled"].contains(&state) {
                return status;
            }
        }
    }
}

fn location(accepted: &Answer) -> String {
    accepted.header("location").expect("a location").to_owned()
}

#[actix_rt::test]
async fn a_report_is_ordered_made_and_read_by_whoever_ordered_it_alone() {
    let example = Example::start(tempfile::tempdir().expect("a folder")).await;
    let accepted = example.order("ada", "returns", 2025).await.expect(202);
    let status = location(&accepted);
    let ended = example.ended(&status, "ada").await;
    assert_eq!(ended["state"], "completed", "{ended}");
    let outcome = &ended["outcome"];
    assert_eq!((&outcome["kind"], &outcome["fileName"]), (&json!("ready"), &json!("returns-2025-q3.csv")));

    let file = format!("/api/reports/{}/file", status.rsplit('/').next().expect("an id"));
    let csv = example.get(&file, "ada").await.expect(200).text;
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let unknown = example.get(&format!("/api/operations/{}", "0".repeat(32)), "ada").await.expect(404);
    for other in ["ben", "cleo"] {
        assert_eq!(example.get(&status, other).await.expect(404).text, unknown.text);
        example.get(&file, other).await.expect(404);
        assert_eq!(example.get("/api/reports", other).await.expect(200).json(), json!({"items": []}));
    }
    example.get(&status, "nobody").await.expect(401);
    example.get(&file, "nobody").await.expect(401);

    // The secrets and the databases outlive the process, and so does the report.
    let example = example.restart().await;
    assert_eq!(example.ended(&status, "ada").await, ended);
    let list = example.get("/api/reports", "ada").await.expect(200).json();
    assert_eq!(list["items"][0]["ended"], "succeeded", "{list}");
    example.service.stop().await.expect("the example stops");
}

#[actix_rt::test]
async fn a_report_may_fail_be_refused_or_find_nothing() {
    let example = Example::start(tempfile::tempdir().expect("a folder")).await;
    let mut ends = Vec::new();
    for (subject, year) in [("stock", 2025), ("sales", 2030), ("sales", 1999)] {
        let accepted = example.order("cleo", subject, year).await.expect(202);
        ends.push(example.ended(&location(&accepted), "cleo").await);
    }
    assert_eq!(ends[0]["error"], json!({"code": "operation_failed"}));
    assert_eq!(ends[1]["error"], json!({"category": "validation", "code": "quarter_not_closed"}));
    assert_eq!(ends[2]["outcome"], json!({"kind": "nothing_booked", "firstYear": 2020}));

    let malformed = json!({"subject": "sales", "year": 2025, "quarter": 5});
    let refused = example.request(Method::POST, "/api/reports", "cleo").json(Some(malformed)).send().await.expect(400);
    assert!(refused.text.contains("quarter must be 1 to 4"), "{refused:?}");
    example.service.stop().await.expect("the example stops");
}

#[actix_rt::test]
async fn the_page_takes_nothing_from_elsewhere_and_the_platform_stands_beside_it() {
    let example = Example::start(tempfile::tempdir().expect("a folder")).await;
    for path in ["/", "/reports/x", "/style.css", "/app.js", "/operations/index.js", "/api/session"] {
        let answer = example.get(path, "ada").await.expect(200);
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(!answer.text.contains("https://"), "{path} names another place");
    }
    let healthy = format!("{}/healthz", example.service.platform_url());
    Request::new(Method::GET, &healthy).send().await.expect(200);
    example.service.stop().await.expect("the example stops");
}

#[test]
fn the_committed_client_is_what_the_operations_give() {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/reports/page/src/operations");
    let fresh = operation::catalogue().generate().expect("generated").check(&client).expect("read");
    assert_eq!(fresh, TreeState::Fresh, "run `cargo run --example reports -- generate`");
}
