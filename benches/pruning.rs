//! What pruning does to the handlers: their p99 alone, and while `ROWS` old rows are deleted.
//!
//! `ROWS=10000000 cargo bench --bench pruning --all-features`. PostgreSQL and MySQL where `PERILUNE_TEST_POSTGRES_URL` and
//! `PERILUNE_TEST_MYSQL_URL` name them, SQLite in a fresh file; `ENGINES` (all) names some of `SQLite,PostgreSQL,MySQL`.
//! `ROWS` (20,000) settled rows are older than the retention. Eight handlers apply an event every few milliseconds, for
//! `SECONDS` (5) alone and then until the pruner has ended, `BATCH` (the policy's own) rows at a time, or `LIMIT` (600)
//! seconds are over. The aim is a ratio below 2.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use perilune::inbox::{Applied, Inbox, OpenTransaction, Pruned, PruningPolicy, Store};
use perilune::sql::{PoolSettings, TablePrefix};
use perilune::testkit::sample_event;

const HANDLERS: usize = 8;
/// A handler's rest between two events, drawn below this.
const REST_MAX: Duration = Duration::from_millis(10);

trait Bench: Store {
    /// Inserts rows `from` to `to` that were settled long ago, in the order of their ids: in a random one the fill takes
    /// many times as long.
    const OLD_ROWS: &'static str;
    /// Has the engine finish what the fill left for later, which would else fall into the first measurement alone.
    const COME_TO_REST: &'static [&'static str];
    fn run(on: &mut Self::Connection, sql: String) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

macro_rules! bench {
    ($Db:ty, $old_rows:literal, $come_to_rest:expr) => {
        impl Bench for $Db {
            const OLD_ROWS: &'static str = $old_rows;
            const COME_TO_REST: &'static [&'static str] = $come_to_rest;

            async fn run(on: &mut Self::Connection, sql: String) -> Result<(), sqlx::Error> {
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(on).await.map(drop)
            }
        }
    };
}

// Ids are spread over the key's whole range, as random ones are.
bench!(
    sqlx::Sqlite,
    "WITH RECURSIVE n(n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM n WHERE n < {to})
     INSERT INTO {p}inbox SELECT 'bench', lower(hex(randomblob(16))), 'task.succeeded', '0', 1, n, n FROM n ORDER BY 2",
    &["PRAGMA wal_checkpoint(TRUNCATE)"]
);
bench!(
    sqlx::Postgres,
    "INSERT INTO {p}inbox SELECT 'bench', md5(n::text), 'task.succeeded', '0', 1, n, n
     FROM generate_series({from}, {to}) AS n ORDER BY 2",
    &["VACUUM ANALYZE {p}inbox", "CHECKPOINT"]
);
bench!(
    sqlx::MySql,
    "INSERT INTO {p}inbox SELECT 'bench', md5(seq), 'task.succeeded', '0', 1, seq, seq FROM seq_{from}_to_{to}
     ORDER BY 2",
    &[]
);

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let file = format!("sqlite:{}", folder.path().join("bench.db").display());
        engine::<sqlx::Sqlite>("SQLite", Some(file)).await;
        engine::<sqlx::Postgres>("PostgreSQL", std::env::var("PERILUNE_TEST_POSTGRES_URL").ok()).await;
        engine::<sqlx::MySql>("MySQL", std::env::var("PERILUNE_TEST_MYSQL_URL").ok()).await;
    });
}

fn setting(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn engine<DB: Bench>(name: &str, url: Option<String>) {
    if std::env::var("ENGINES").is_ok_and(|engines| !engines.split(',').any(|engine| engine == name)) {
        return;
    }
    let Some(url) = url else {
        println!("{name}: skipped, no URL in the environment");
        return;
    };
    let prefix: TablePrefix = format!("p{}_", std::process::id()).parse().expect("a prefix");
    let sql = |template: &str| template.replace("{p}", prefix.as_str());
    let url = url.parse().expect("a URL");
    let pool = DB::open(&url, &PoolSettings::default()).await.expect("the database answers");
    let inbox = Inbox::with_prefix(pool.clone(), "bench", &prefix).expect("a name");
    inbox.migrate().await.expect("migrated");
    let patient =
        PoolSettings { max_connections: 1, statement_timeout: Duration::from_secs(3_600), ..PoolSettings::default() };
    let filler = DB::open(&url, &patient).await.expect("the database answers");
    let mut on = filler.acquire().await.expect("a connection");
    DB::run(&mut on, sql("CREATE TABLE {p}account (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL)"))
        .await
        .expect("made");
    DB::run(&mut on, sql("INSERT INTO {p}account VALUES (0, 0), (1, 0), (2, 0), (3, 0)")).await.expect("made");
    let rows = setting("ROWS", 20_000);
    for from in (1..=rows).step_by(1_000_000) {
        let to = (from + 999_999).min(rows);
        let fill = sql(DB::OLD_ROWS).replace("{from}", &from.to_string()).replace("{to}", &to.to_string());
        DB::run(&mut on, fill).await.expect("filled");
    }
    for statement in DB::COME_TO_REST {
        DB::run(&mut on, sql(statement)).await.expect("at rest");
    }
    drop(on);

    let load = Load::<DB> { inbox: inbox.clone(), update: sql("UPDATE {p}account SET n = n + 1 WHERE id = ") };
    let alone = load.p99_until(tokio::time::sleep(Duration::from_secs(setting("SECONDS", 5)))).await;
    let began = Instant::now();
    let limit = Duration::from_secs(setting("LIMIT", 600));
    let pruned = Cell::new(None);
    let policy = match setting("BATCH", 0) {
        0 => PruningPolicy::default(),
        batch => PruningPolicy::default().batch(u32::try_from(batch).unwrap_or(u32::MAX)).expect("in range"),
    };
    let pruning = async {
        if let Ok(ended) = tokio::time::timeout(limit, inbox.prune(&policy)).await {
            pruned.set(Some(ended.expect("pruned")));
        }
    };
    let beside = load.p99_until(pruning).await;
    let done = match pruned.get() {
        Some(Pruned::Rows(deleted)) => format!("all {deleted} rows in {:.0?}", began.elapsed()),
        Some(Pruned::ElsewhereNow) => "nothing: somebody else has the turn".to_owned(),
        None => format!("a part of {rows} rows in {:.0?}", began.elapsed()),
    };
    println!(
        "{name:10} p99 alone {:.1?} of {} events, beside the pruner {:.1?} of {}: ratio {:.2}; pruned {done}",
        alone.p99,
        alone.events,
        beside.p99,
        beside.events,
        beside.p99.as_secs_f64() / alone.p99.as_secs_f64(),
    );
    // A run that was not waited for goes on until its tables are gone.
    let mut on = filler.acquire().await.expect("a connection");
    for table in ["account", "inbox", "inbox_pruner", "migrations"] {
        DB::run(&mut on, sql(&format!("DROP TABLE {{p}}{table}"))).await.expect("dropped");
    }
}

struct Measured {
    p99: Duration,
    events: usize,
}

struct Load<DB: Bench> {
    inbox: Inbox<DB>,
    update: String,
}

impl<DB: Bench> Load<DB> {
    /// Handles events until something has ended.
    async fn p99_until(&self, end: impl Future<Output = ()>) -> Measured {
        let over = Cell::new(false);
        let handlers = join_all((0..HANDLERS).map(async |_| {
            let mut took = Vec::new();
            while !over.get() {
                tokio::time::sleep(REST_MAX.mul_f64(rand::random_range(0.0..1.0))).await;
                let began = Instant::now();
                self.apply().await;
                took.push(began.elapsed());
            }
            took
        }));
        let watch = async {
            end.await;
            over.set(true);
        };
        let (took, ()) = futures_util::future::join(handlers, watch).await;
        let mut took = took.concat();
        took.sort_unstable();
        Measured { p99: took[took.len() * 99 / 100], events: took.len() }
    }

    async fn apply(&self) {
        let update = format!("{}{}", self.update, rand::random_range(0..4));
        let work = move |mut tx: OpenTransaction<DB>| {
            let update = update.clone();
            async move { DB::run(&mut tx, update).await }
        };
        let applied = self.inbox.apply_once(&sample_event(), work).await.expect("applied");
        assert_eq!(applied, Applied::Fresh(()));
    }
}
