//! Status reads, purging, and how long a 404 takes, each beside bare statements or another 404 in the same run.
//!
//! `PERILUNE_TEST_POSTGRES_URL=postgres://… cargo bench --all-features --bench outcome -- operations=1000000`. Everything is
//! an argument, `name=value`:
//!
//! | argument | by default | is |
//! | --- | --- | --- |
//! | `only` | `status,timing,purge` | what is measured |
//! | `operations` | 20000 | operations in the tables; outcomes that are purged |
//! | `rounds` | 3 | bare and ours take turns that often; the ratio is the middle one of the rounds' |
//! | `seconds` | 2 | how long each side of a round reads statuses |
//! | `clients` | 8 | requests in flight |
//! | `samples` | 2000 | 404s of each kind |

use std::collections::BTreeMap;
use std::time::Duration;

use perilune::outcome::protect::{Key, KeyId, KeyRing};
use perilune::outcome::{EmptyOutcome, Operation, Operations};
use perilune::sql::{DatabaseUrl, PoolSettings, TablePrefix, pool};
use sqlx::PgPool;

mod purge;
mod status;
mod timing;

struct CloseAccount;

impl Operation for CloseAccount {
    const TYPE: &'static str = "CloseAccount";
    type Input = ();
    type Outcome = EmptyOutcome;
}

/// What is measured, and how much of it.
struct Size {
    only: String,
    operations: i64,
    rounds: usize,
    round: Duration,
    clients: u64,
    samples: usize,
}

impl Size {
    /// Reads the arguments; `--bench` is cargo's own.
    fn of(arguments: impl Iterator<Item = String>) -> Self {
        let mut given: BTreeMap<String, String> = BTreeMap::new();
        for argument in arguments.filter(|argument| argument != "--bench") {
            let (name, value) = argument.split_once('=').unwrap_or_else(|| panic!("{argument}: must be name=value"));
            given.insert(name.to_owned(), value.to_owned());
        }
        let only = given.remove("only").unwrap_or_else(|| "status,timing,purge".to_owned());
        let mut number = |name: &str, default: i64| {
            let value = given.remove(name).map_or(Ok(default), |value| value.parse());
            value.ok().filter(|value| *value > 0).unwrap_or_else(|| panic!("{name} must be a number from 1"))
        };
        let size = Self {
            only,
            operations: number("operations", 20_000),
            rounds: number("rounds", 3).try_into().expect("few"),
            round: Duration::from_secs(number("seconds", 2).unsigned_abs()),
            clients: number("clients", 8).unsigned_abs(),
            samples: number("samples", 2_000).try_into().expect("few"),
        };
        assert!(given.is_empty(), "no such argument: {given:?}");
        size
    }

    fn includes(&self, part: &str) -> bool {
        self.only.split(',').any(|only| only == part)
    }
}

fn main() {
    let Ok(url) = std::env::var("PERILUNE_TEST_POSTGRES_URL") else {
        println!("skipped: PERILUNE_TEST_POSTGRES_URL is not set");
        return;
    };
    let size = Size::of(std::env::args().skip(1));
    actix_rt::System::new().block_on(run(&url, &size));
}

/// A pool of its own for each part: a connection lives on the thread that opened it, and a server's threads end with it.
async fn open(url: &str) -> (PgPool, Operations<sqlx::Postgres>) {
    let DatabaseUrl::Postgres(options) = url.parse().expect("a PostgreSQL URL") else { panic!("not PostgreSQL") };
    let settings = PoolSettings { statement_timeout: Duration::from_secs(600), ..PoolSettings::default() };
    let pool = pool::connect_postgres(&options, &settings).await.expect("connected");
    let prefix: TablePrefix = "bench_".parse().expect("a prefix");
    let operations = Operations::builder(pool.clone(), KeyRing::new(Key::new(KeyId(1), [1; 32])))
        .table_prefix(prefix)
        .operation::<CloseAccount>()
        .build();
    (pool, operations)
}

async fn run(url: &str, size: &Size) {
    let (pool, operations) = open(url).await;
    drop_tables(&pool).await;
    operations.migrate().await.expect("migrated");
    // Half of them somebody else's, for the 404s of another tenant.
    let running = "INSERT INTO bench_operations SELECT lpad(to_hex(n), 32, '0'), 'CloseAccount', CASE WHEN n % 2 = 0 THEN NULL ELSE 'other' END, \
         NULL, 'deferred', 'running', 1, 1, 0, NULL, NULL, NULL, 1, 1, NULL FROM generate_series(1, $1) n";
    sqlx::query(running).bind(size.operations).execute(&pool).await.expect("filled");
    execute(&pool, "ANALYZE bench_operations").await;
    println!("{} operations on PostgreSQL", size.operations);
    if size.includes("status") {
        let (pool, operations) = open(url).await;
        status::compare(&pool, &operations, size).await;
    }
    if size.includes("timing") {
        timing::compare(&open(url).await.1, size).await;
    }
    if size.includes("purge") {
        purge::compare(&pool, &operations, size).await;
    }
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

/// The middle one.
fn median(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}
