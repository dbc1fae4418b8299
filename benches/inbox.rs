//! What the inbox costs: `apply_once` with one business update, beside a bare sqlx loop that sends the same statements
//! over the same pool, and beside `pgbench` on PostgreSQL. 1, 8 and 32 in flight.
//!
//! `cargo bench --bench inbox --all-features`. SQLite always; PostgreSQL and MySQL where `PERILUNE_TEST_POSTGRES_URL` and
//! `PERILUNE_TEST_MYSQL_URL` name them; `ENGINES` (all) names some of
//! `SQLite,PostgreSQL,MySQL`. `ROUNDS` (6) rounds of `SECONDS` (1) each: bare and inbox take turns within a
//! round, so that a slow moment of the machine meets both; the ratio is of all rounds together, with the middle one of
//! the single ratios behind it.

use std::cell::Cell;
use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use perilune::inbox::{Applied, Inbox, OpenTransaction, Store};
use perilune::sql::{PoolSettings, TablePrefix};
use perilune_proto::scalar::{EventId, Sequence, TaskId, TaskVersion};
use perilune_proto::{RawJson, ResultEvent, Snapshot, Status};
use sqlx::Pool;

/// Rows of the business table; which one is updated is drawn.
const ACCOUNTS: u64 = 1_000;

trait Bare: Store {
    const BARE_BEGIN: &'static str;
    async fn run(on: &mut Self::Connection, sql: &str) -> Result<(), sqlx::Error>;
    fn update(
        on: &mut Self::Connection,
        sql: String,
        account: i64,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    async fn insert_bare(on: &mut Self::Connection, sql: String, event: &ResultEvent) -> Result<(), sqlx::Error>;
}

macro_rules! bare {
    ($Db:ty, $begin:literal) => {
        impl Bare for $Db {
            const BARE_BEGIN: &'static str = $begin;

            async fn run(on: &mut Self::Connection, sql: &str) -> Result<(), sqlx::Error> {
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(on).await.map(drop)
            }

            async fn update(on: &mut Self::Connection, sql: String, account: i64) -> Result<(), sqlx::Error> {
                sqlx::query(sqlx::AssertSqlSafe(sql)).bind(account).execute(on).await.map(drop)
            }

            async fn insert_bare(
                on: &mut Self::Connection,
                sql: String,
                event: &ResultEvent,
            ) -> Result<(), sqlx::Error> {
                sqlx::query(sqlx::AssertSqlSafe(sql))
                    .bind("bare")
                    .bind(event.event_id.to_string())
                    .bind(event.event_type())
                    .bind(event.task_id().to_string())
                    .bind(event.task_version().0.cast_signed())
                    .execute(on)
                    .await
                    .map(drop)
            }
        }
    };
}

bare!(sqlx::Sqlite, "BEGIN IMMEDIATE");
bare!(sqlx::Postgres, "BEGIN");
bare!(sqlx::MySql, "BEGIN");

/// The statements of one engine.
struct Sql {
    insert: &'static str,
    update: &'static str,
}

const SQLITE: Sql = Sql {
    insert: "INSERT INTO {p}inbox (consumer_name, event_id, event_type, task_id, task_version, received_at)
        VALUES (?, ?, ?, ?, ?, CAST(unixepoch('subsec') * 1000000 AS INTEGER))
        ON CONFLICT (consumer_name, event_id) DO NOTHING",
    update: "UPDATE {p}account SET n = n + 1 WHERE id = ?",
};
const POSTGRES: Sql = Sql {
    insert: "INSERT INTO {p}inbox (consumer_name, event_id, event_type, task_id, task_version, received_at)
        VALUES ($1, $2, $3, $4, $5, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        ON CONFLICT (consumer_name, event_id) DO NOTHING",
    update: "UPDATE {p}account SET n = n + 1 WHERE id = $1",
};
const MYSQL: Sql = Sql {
    insert: "INSERT INTO {p}inbox (consumer_name, event_id, event_type, task_id, task_version, received_at)
        VALUES (?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))",
    update: "UPDATE {p}account SET n = n + 1 WHERE id = ?",
};

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let file = format!("sqlite:{}", folder.path().join("bench.db").display());
        engine::<sqlx::Sqlite>("SQLite", Some(file), &SQLITE).await;
        engine::<sqlx::Postgres>("PostgreSQL", std::env::var("PERILUNE_TEST_POSTGRES_URL").ok(), &POSTGRES).await;
        engine::<sqlx::MySql>("MySQL", std::env::var("PERILUNE_TEST_MYSQL_URL").ok(), &MYSQL).await;
    });
}

fn setting(variable: &str, default: u32) -> u32 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// One engine's tables and both ways of writing to them.
struct Bench<DB: Bare> {
    inbox: Inbox<DB>,
    pool: Pool<DB>,
    insert: String,
    update: String,
    next: Cell<u128>,
}

async fn engine<DB: Bare>(name: &str, url: Option<String>, sql: &Sql) {
    if std::env::var("ENGINES").is_ok_and(|engines| !engines.split(',').any(|engine| engine == name)) {
        return;
    }
    let Some(url) = url else {
        println!("{name}: skipped, no URL in the environment");
        return;
    };
    let prefix: TablePrefix = format!("b{}_", std::process::id()).parse().expect("a prefix");
    let with_prefix = |sql: &str| sql.replace("{p}", prefix.as_str());
    let settings = PoolSettings { max_connections: 34, ..PoolSettings::default() };
    let pool = DB::open(&url.parse().expect("a URL"), &settings).await.expect("the database answers");
    let inbox = Inbox::with_prefix(pool.clone(), "bench", &prefix).expect("a name");
    inbox.migrate().await.expect("migrated");
    let mut on = pool.acquire().await.expect("a connection");
    let accounts = (0..ACCOUNTS).fold(with_prefix("INSERT INTO {p}account VALUES "), |mut sql, id| {
        let _infallible = write!(sql, "{}({id}, 0)", if id == 0 { "" } else { ", " });
        sql
    });
    let create = with_prefix("CREATE TABLE {p}account (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL)");
    for sql in [create, accounts] {
        DB::run(&mut on, &sql).await.expect("made");
    }
    drop(on);
    let next = Cell::new(0);
    let (insert, update) = (with_prefix(sql.insert), with_prefix(sql.update));
    let bench = Bench { inbox, pool, insert, update, next };
    for in_flight in [1, 8, 32] {
        bench.compare(name, in_flight).await;
        if name == "PostgreSQL" {
            pgbench(&url, &prefix, in_flight);
        }
    }
    let mut on = bench.pool.acquire().await.expect("a connection");
    for table in ["account", "inbox", "inbox_pruner", "migrations"] {
        DB::run(&mut on, &with_prefix(&format!("DROP TABLE {{p}}{table}"))).await.expect("dropped");
    }
}

impl<DB: Bare> Bench<DB> {
    async fn compare(&self, name: &str, in_flight: u32) {
        let length = Duration::from_secs(setting("SECONDS", 1).into());
        let (mut bare, mut inbox, mut ratios) = (0.0, 0.0, Vec::new());
        // The first round warms both up.
        for round in 0..=setting("ROUNDS", 6) {
            let bare_rate = self.rate(in_flight, length, async |event| self.bare(event).await).await;
            let inbox_rate = self.rate(in_flight, length, async |event| self.applied(event).await).await;
            if round > 0 {
                bare += bare_rate;
                inbox += inbox_rate;
                ratios.push(inbox_rate / bare_rate);
            }
        }
        ratios.sort_by(f64::total_cmp);
        let rounds = ratios.len() as f64;
        println!(
            "{name:10} {in_flight:>2} in flight: bare {:>6.0}/s, inbox {:>6.0}/s, ratio {:.2} (middle {:.2})",
            bare / rounds,
            inbox / rounds,
            inbox / bare,
            ratios[ratios.len() / 2],
        );
    }

    /// Events per second of that many loops.
    async fn rate(&self, in_flight: u32, length: Duration, apply: impl AsyncFn(ResultEvent)) -> f64 {
        let (began, done) = (Instant::now(), Cell::new(0_u32));
        join_all((0..in_flight).map(async |_| {
            while began.elapsed() < length {
                self.next.set(self.next.get() + 1);
                apply(event(self.next.get())).await;
                done.set(done.get() + 1);
            }
        }))
        .await;
        f64::from(done.get()) / began.elapsed().as_secs_f64()
    }

    async fn bare(&self, event: ResultEvent) {
        let mut tx = self.pool.begin_with(DB::BARE_BEGIN).await.expect("a transaction");
        DB::insert_bare(&mut tx, self.insert.clone(), &event).await.expect("inserted");
        DB::update(&mut tx, self.update.clone(), account()).await.expect("updated");
        tx.commit().await.expect("committed");
    }

    async fn applied(&self, event: ResultEvent) {
        let update = self.update.clone();
        let account = account();
        let work = move |mut tx: OpenTransaction<DB>| {
            let update = update.clone();
            async move { DB::update(&mut tx, update, account).await }
        };
        let applied = self.inbox.apply_once(&event, work).await.expect("applied");
        assert_eq!(applied, Applied::Fresh(()));
    }
}

fn account() -> i64 {
    rand::random_range(0..ACCOUNTS).cast_signed()
}

fn event(n: u128) -> ResultEvent {
    let at = "2026-01-02T03:04:05Z".parse().expect("a time");
    ResultEvent {
        // Ids are random in life: they come from no sequence that an index could lean on.
        event_id: EventId::from_u128(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
        sequence: Sequence(1),
        occurred_at: at,
        snapshot: Snapshot {
            task_id: TaskId::from_u128(n),
            queue: "reports".parse().expect("a name"),
            operation: "GenerateReport".parse().expect("a name"),
            status: Status::Succeeded,
            version: TaskVersion(1),
            created_at: at,
            updated_at: at,
            payload: RawJson::null(),
            result: RawJson::null(),
            error: None,
        },
    }
}

/// The same statements by PostgreSQL's own tool, on connections of its own.
fn pgbench(url: &str, prefix: &TablePrefix, in_flight: u32) {
    let script = tempfile::NamedTempFile::new().expect("a file");
    let sql = format!(
        "\\set account random(0, {last})\n\
         BEGIN;\n\
         INSERT INTO {prefix}inbox (consumer_name, event_id, event_type, task_id, task_version, received_at) \
         VALUES ('pgbench', md5(random()::text || clock_timestamp()::text), 'task.succeeded', \
         '00000000000000000000000000000001', 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) \
         ON CONFLICT (consumer_name, event_id) DO NOTHING;\n\
         UPDATE {prefix}account SET n = n + 1 WHERE id = :account;\n\
         COMMIT;\n",
        last = ACCOUNTS - 1,
    );
    std::fs::write(script.path(), sql).expect("written");
    let (clients, seconds) = (in_flight.to_string(), (setting("ROUNDS", 6) * setting("SECONDS", 1)).to_string());
    let output = Command::new("pgbench")
        .args(["-n", "-M", "prepared", "-j", "1", "-c", &clients, "-T", &seconds, "-f"])
        .arg(script.path())
        .arg(url)
        .output();
    match output {
        Err(_) => println!("pgbench is not installed"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let line = text.lines().find(|line| line.starts_with("tps")).unwrap_or("no answer");
            println!("pgbench    {in_flight:>2} clients:   {line}");
        }
    }
}
