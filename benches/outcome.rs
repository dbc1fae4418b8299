//! Status reads and purging, each beside the bare statements in the same run. On PostgreSQL:
//! `PERILUNE_TEST_POSTGRES_URL=postgres://… cargo bench --all-features --bench outcome` (OPERATIONS=1000000 by default).

use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use futures_util::future::join_all;
use perilune::outcome::protect::{Key, KeyId, KeyRing};
use perilune::outcome::retention::{PurgeOrder, RetentionPolicy};
use perilune::outcome::status::StatusResource;
use perilune::outcome::{AuthoriseBy, Caller, Decision, EmptyOutcome, Operation, Operations, OutcomeQuery};
use perilune::sql::{DatabaseUrl, PoolSettings, TablePrefix, pool};
use sqlx::PgPool;

struct CloseAccount;

impl Operation for CloseAccount {
    const TYPE: &'static str = "CloseAccount";
    type Input = ();
    type Outcome = EmptyOutcome;
}

const CLIENTS: usize = 8;
const ROUND: Duration = Duration::from_secs(3);
const ROUNDS: usize = 5;

fn main() {
    let Ok(url) = std::env::var("PERILUNE_TEST_POSTGRES_URL") else {
        println!("skipped: PERILUNE_TEST_POSTGRES_URL is not set");
        return;
    };
    let operations = std::env::var("OPERATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    actix_rt::System::new().block_on(run(&url, operations));
}

async fn run(url: &str, count: i64) {
    let DatabaseUrl::Postgres(options) = url.parse().expect("a PostgreSQL URL") else { panic!("not PostgreSQL") };
    let settings = PoolSettings { statement_timeout: Duration::from_secs(600), ..PoolSettings::default() };
    let pool = pool::connect_postgres(&options, &settings).await.expect("connected");
    let prefix: TablePrefix = "bench_".parse().expect("a prefix");
    drop_tables(&pool).await;
    let operations = Operations::builder(pool.clone(), KeyRing::new(Key::new(KeyId(1), [1; 32])))
        .table_prefix(prefix)
        .operation::<CloseAccount>()
        .build();
    operations.migrate().await.expect("migrated");
    fill(&pool, count).await;
    compare_status(&pool, &operations, count).await;
    compare_purge(&pool, &operations, count).await;
    drop_tables(&pool).await;
}

async fn execute(pool: &PgPool, sql: &'static str) {
    sqlx::raw_sql(sql).execute(pool).await.expect(sql);
}

async fn drop_tables(pool: &PgPool) {
    execute(
        pool,
        "DROP TABLE IF EXISTS bench_operations, bench_operation_inputs, bench_outcomes, bench_dead_letters, bench_operation_journal, \
         bench_operation_holds, bench_retention_audit, bench_retention_head, bench_migrations, bench_bare, bench_bare_audit",
    )
    .await;
}

/// Half of the operations run, half have completed with an outcome row.
async fn fill(pool: &PgPool, count: i64) {
    let begun = Instant::now();
    let insert = "INSERT INTO bench_operations SELECT lpad(to_hex(n), 32, '0'), 'CloseAccount', NULL, NULL, 'deferred', \
         CASE WHEN n % 2 = 0 THEN 'running' ELSE 'completed' END, 1, 1, 0, NULL, NULL, NULL, 1, 1, CASE WHEN n % 2 = 0 THEN NULL ELSE 1 END \
         FROM generate_series(1, $1) n";
    sqlx::query(insert).bind(count).execute(pool).await.expect("filled");
    let outcomes = "INSERT INTO bench_outcomes SELECT lpad(to_hex(n), 32, '0'), 'Empty', 1, 1, decode(repeat('00', 200), 'hex'), 1 \
         FROM generate_series(1, $1, 2) n";
    sqlx::query(outcomes).bind(count).execute(pool).await.expect("filled");
    execute(pool, "CREATE TABLE bench_bare AS SELECT * FROM bench_outcomes").await;
    execute(pool, "ALTER TABLE bench_bare ADD PRIMARY KEY (operation_id)").await;
    execute(pool, "CREATE INDEX ON bench_bare (key_id, operation_id)").await;
    execute(pool, "CREATE TABLE bench_bare_audit (LIKE bench_retention_audit INCLUDING ALL)").await;
    execute(pool, "ANALYZE").await;
    println!("filled {count} operations in {:.1?}", begun.elapsed());
}

async fn compare_status(pool: &PgPool, operations: &Operations<sqlx::Postgres>, count: i64) {
    let query = OutcomeQuery::new(operations).with_authoriser(AuthoriseBy::new(|_| Decision::Allow));
    let resource = StatusResource::new(query, |_| Ok(Caller { actor: None, tenant: None }));
    let bare = pool.clone();
    let server = HttpServer::new(move || {
        App::new()
            .service(resource.scope())
            .app_data(web::Data::new(bare.clone()))
            .route("/bare/{id}", web::get().to(read_bare))
    });
    let server = server.workers(1).disable_signals().bind("127.0.0.1:0").expect("bound");
    let base = format!("http://{}", server.addrs()[0]);
    let server = server.run();
    let handle = server.handle();
    actix_rt::spawn(server);
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let (floor, floor_p99) = load(&format!("{base}/bare"), count).await;
        let (ours, ours_p99) = load(&format!("{base}/operations"), count).await;
        println!(
            "status: {ours:.0}/s, p99 {ours_p99:.1?}; bare SELECT: {floor:.0}/s, p99 {floor_p99:.1?}; ratio {:.2}",
            ours / floor
        );
        ratios.push(ours / floor);
    }
    ratios.sort_by(f64::total_cmp);
    println!("status: median ratio {:.2} (at least 0.7 is the aim)", ratios[ratios.len() / 2]);
    handle.stop(false).await;
}

async fn read_bare(pool: web::Data<PgPool>, id: web::Path<String>) -> HttpResponse {
    let row: Option<(String, i64)> =
        sqlx::query_as("SELECT state, attempt FROM bench_operations WHERE operation_id = $1")
            .bind(&*id)
            .fetch_optional(&**pool)
            .await
            .expect("read");
    match row {
        Some((state, attempt)) => {
            HttpResponse::Ok().json(serde_json::json!({ "id": *id, "state": state, "attempt": attempt }))
        }
        None => HttpResponse::NotFound().finish(),
    }
}

/// Reads running operations from several clients at once: reads a second, and the 99th percentile.
async fn load(base: &str, count: i64) -> (f64, Duration) {
    let client = awc::Client::default();
    let begun = Instant::now();
    let readers = (0..CLIENTS as u64).map(|reader| {
        let client = client.clone();
        async move {
            let (mut times, mut state) = (Vec::new(), reader.wrapping_mul(0x9e37_79b9).wrapping_add(1));
            while begun.elapsed() < ROUND {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let n = ((state >> 33) % (count.unsigned_abs() / 2) + 1) * 2;
                let asked = Instant::now();
                let mut response = client.get(format!("{base}/{n:032x}")).send().await.expect("answered");
                assert!(response.status().is_success());
                response.body().await.expect("a body");
                times.push(asked.elapsed());
            }
            times
        }
    });
    let mut times: Vec<_> = join_all(readers).await.into_iter().flatten().collect();
    times.sort();
    (times.len() as f64 / begun.elapsed().as_secs_f64(), times[times.len() * 99 / 100])
}

async fn compare_purge(pool: &PgPool, operations: &Operations<sqlx::Postgres>, count: i64) {
    let rows = (count / 2) as f64;
    let begun = Instant::now();
    let mut after = String::new();
    loop {
        let mut transaction = pool.begin().await.expect("begun");
        let deleted: Vec<(String,)> = sqlx::query_as(
            "DELETE FROM bench_bare WHERE operation_id IN (SELECT operation_id FROM bench_bare WHERE operation_id > $1 ORDER BY operation_id LIMIT 1000) RETURNING operation_id",
        )
        .bind(&after)
        .fetch_all(&mut *transaction)
        .await
        .expect("deleted");
        let Some(last) = deleted.iter().map(|(id,)| id).max() else { break };
        after.clone_from(last);
        let ids: Vec<_> = deleted.iter().map(|(id,)| id.clone()).collect();
        sqlx::query(
            "INSERT INTO bench_bare_audit SELECT ('x' || right(id, 15))::bit(60)::bigint, id, 'CloseAccount', NULL, 'outcome', 1, 'p', 'a', 1, \
             repeat('0', 64) FROM unnest($1::text[]) id",
        )
        .bind(&ids)
        .execute(&mut *transaction)
        .await
        .expect("inserted");
        transaction.commit().await.expect("committed");
    }
    let floor = rows / begun.elapsed().as_secs_f64();
    let day = Duration::from_secs(1);
    let policy =
        RetentionPolicy::builder().input(day).journal(day).outcome(day).dead_letter(day).build().expect("a policy");
    let now = "2090-01-01T00:00:00Z".parse().expect("a time");
    let order = PurgeOrder { policy_ref: "p".to_owned(), actor: "a".to_owned(), now };
    let begun = Instant::now();
    let purged = operations.purge(&policy, &order).await.expect("purged");
    let ours = purged.outcomes_deleted as f64 / begun.elapsed().as_secs_f64();
    println!(
        "purge: {ours:.0} outcomes/s; bare DELETE and INSERT: {floor:.0}/s; ratio {:.2} (at least 0.7 is the aim)",
        ours / floor
    );
}
