//! The generated client against the real status resource: under Node, and in a page of a headless browser.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use actix_web::{App, HttpResponse, HttpServer, web};
use perilune::outcome::protect::{Key, KeyId, KeyRing};
use perilune::outcome::retention::{PurgeOrder, RetentionPolicy};
use perilune::outcome::status::{StatusResource, Unauthenticated};
use perilune::outcome::{AuthoriseBy, Caller, Decision, Operations, OutcomeQuery};
use perilune::sql::{Engine as _, PoolSettings};
use perilune_proto::scalar::{EventId, Sequence, TaskId, TaskVersion};
use perilune_proto::{RawJson, ResultEvent, Snapshot, Status};
use sqlx::Sqlite;

use super::compiled::{compiled, compiler};
use super::{CloseAccount, GenerateReport};

/// Longer than a browser takes to start on a busy machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

const OUTCOME: &str = r#"{"downloadUrl":"https://files.example/1","pages":3,"sizeRatio":0.5,"warnings":[],"note":null,
    "format":"pdf","labels":{},"corner":[1,"x"],"delivered":{"kind":"kept"},"nested":null}"#;

const PAGE: &str = r#"<!doctype html><script type="module">
    import { failures } from "/built/served.js";
    const failed = await failures(location.origin).catch((error) => [String(error)]);
    await fetch("/told", { method: "POST", body: JSON.stringify(failed) });
</script>"#;

fn event(n: u128, version: u64, operation: &str, status: Status, result: &str) -> ResultEvent {
    let at = "2026-01-02T03:04:05Z".parse().expect("a time");
    ResultEvent {
        event_id: EventId::from_u128(n * 100 + u128::from(version)),
        sequence: Sequence(1),
        occurred_at: at,
        snapshot: Snapshot {
            task_id: TaskId::from_u128(n),
            queue: "reports".parse().expect("a name"),
            operation: operation.parse().expect("a name"),
            status,
            version: TaskVersion(version),
            created_at: at,
            updated_at: at,
            payload: RawJson::null(),
            result: RawJson::parse(result, 61).expect("JSON"),
            error: None,
        },
    }
}

async fn apply(operations: &Operations<Sqlite>, pool: &sqlx::SqlitePool, event: &ResultEvent) {
    let mut transaction = pool.begin_with(Sqlite::BEGIN_WRITE).await.expect("begun");
    operations.apply(&mut transaction, event).await.expect("applied");
    transaction.commit().await.expect("committed");
}

/// Operations 1 to 7 in every state, 8 completed empty, 9 purged, 10 with its outcome lost.
async fn fill(operations: &Operations<Sqlite>, pool: &sqlx::SqlitePool) {
    operations.migrate().await.expect("migrated");
    apply(operations, pool, &event(9, 1, "GenerateReport", Status::Succeeded, OUTCOME)).await;
    let day = Duration::from_secs(86_400);
    let policy = RetentionPolicy::builder().input(day).journal(day).outcome(day).dead_letter(day);
    let now = "2199-01-01T00:00:00Z".parse().expect("a time");
    let order = PurgeOrder { policy_ref: "p".to_owned(), actor: "ops".to_owned(), now };
    operations.purge(&policy.build().expect("a policy"), &order).await.expect("purged");
    for (n, status) in (1..).zip([
        Status::Accepted,
        Status::Started,
        Status::RetryScheduled,
        Status::Succeeded,
        Status::Rejected,
        Status::Failed,
        Status::DeadLettered,
    ]) {
        let result = if status == Status::Succeeded { OUTCOME } else { "null" };
        apply(operations, pool, &event(n, 1, "GenerateReport", status, result)).await;
    }
    apply(operations, pool, &event(8, 1, "close.account-v2", Status::Succeeded, "{}")).await;
    apply(operations, pool, &event(10, 1, "GenerateReport", Status::Succeeded, OUTCOME)).await;
    let lost = format!("DELETE FROM perilune_outcomes WHERE operation_id = '{:032x}'", 10);
    sqlx::raw_sql(sqlx::AssertSqlSafe(lost)).execute(pool).await.expect("lost");
}

/// The application: its status resource below `/api`, the compiled client, a page that uses it, what the page tells.
async fn serve(folder: Arc<Path>, ready: Sender<(String, actix_web::dev::ServerHandle)>, told: Sender<String>) {
    let url = format!("sqlite:{}", folder.join("shop.db").display());
    let pool = Sqlite::open(&url.parse().expect("a URL"), &PoolSettings::default()).await.expect("opened");
    let operations = Operations::builder(pool.clone(), KeyRing::new(Key::new(KeyId(1), [1; 32])))
        .operation::<GenerateReport>()
        .operation::<CloseAccount>()
        .build();
    fill(&operations, &pool).await;
    let authoriser = AuthoriseBy::new(|subject| match subject.current_actor {
        Some("ann") => Decision::Allow,
        _ => Decision::Deny,
    });
    let query = OutcomeQuery::new(&operations).with_authoriser(authoriser);
    let resource = StatusResource::new(query, |request| {
        let header = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        let actor = header.and_then(|value| value.strip_prefix("Bearer ")).ok_or(Unauthenticated)?;
        Ok(Caller { actor: Some(actor.to_owned()), tenant: None })
    });
    let server = HttpServer::new(move || {
        let (operations, pool, told, folder) = (operations.clone(), pool.clone(), told.clone(), Arc::clone(&folder));
        let finish = move || {
            let (operations, pool) = (operations.clone(), pool.clone());
            async move {
                apply(&operations, &pool, &event(2, 2, "GenerateReport", Status::Succeeded, OUTCOME)).await;
                HttpResponse::NoContent().finish()
            }
        };
        let tell = move |body: String| {
            told.send(body).expect("awaited");
            async { HttpResponse::NoContent().finish() }
        };
        let file = move |name: web::Path<String>| {
            let text = std::fs::read(folder.join("built").join(&*name));
            async move {
                match text {
                    Ok(text) => HttpResponse::Ok().content_type("text/javascript").body(text),
                    Err(_) => HttpResponse::NotFound().finish(),
                }
            }
        };
        App::new()
            .service(web::scope("/api").service(resource.scope()))
            .route("/", web::get().to(|| async { HttpResponse::Ok().content_type("text/html").body(PAGE) }))
            .route("/finish", web::post().to(finish))
            .route("/told", web::post().to(tell))
            .route("/built/{name:.*}", web::get().to(file))
    });
    let server = server.workers(1).disable_signals().bind("127.0.0.1:0").expect("bound");
    let origin = format!("http://{}", server.addrs()[0]);
    let running = server.run();
    ready.send((origin, running.handle())).expect("awaited");
    running.await.expect("ran");
}

/// A server for the length of `work`, which is given its origin and hears what a page tells.
fn with_server(folder: &Path, work: impl FnOnce(&str, &Receiver<String>)) {
    let (ready, started) = channel();
    let (told, hears) = channel();
    let folder = Arc::from(folder);
    let thread = std::thread::spawn(move || actix_rt::System::new().block_on(serve(folder, ready, told)));
    let (origin, handle) = started.recv().expect("started");
    work(&origin, &hears);
    // The command is sent when `stop` is called; the thread's end is what is waited for.
    drop(handle.stop(false));
    thread.join().expect("the server ran");
}

#[test]
fn the_client_reads_the_real_resource_under_node() {
    let Some(compiler) = compiler() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    compiled(&compiler, folder.path(), "served.ts", include_str!("served.ts"));
    with_server(folder.path(), |origin, _| {
        let script = format!(
            "import {{ failures }} from './built/served.js'; const failed = await failures('{origin}'); \
             if (failed.length > 0) {{ console.error(failed.join('\\n')); process.exitCode = 1; }}"
        );
        let run =
            Command::new("node").args(["--input-type=module", "--eval", &script]).current_dir(folder.path()).output();
        let run = run.expect("Node starts");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    });
}

#[test]
fn the_client_reads_the_real_resource_in_a_page() {
    let Some(compiler) = compiler() else { return };
    let Some(browser) = std::env::var_os("PERILUNE_TEST_CHROMIUM") else {
        println!("skipped: PERILUNE_TEST_CHROMIUM names no Chromium (`.ci/typescript` finds one and runs this)");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    compiled(&compiler, folder.path(), "served.ts", include_str!("served.ts"));
    with_server(folder.path(), |origin, told| {
        let mut page = Command::new(browser)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg(origin)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Chromium starts");
        let failed = told.recv_timeout(PATIENCE);
        page.kill().expect("it runs");
        page.wait().expect("it ends");
        assert_eq!(failed.as_deref(), Ok("[]"), "what did not hold in the page");
    });
}
