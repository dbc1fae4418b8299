//! Purging outcomes beside a bare batched DELETE with an INSERT, 1,000 rows in a transaction on both sides.

use std::time::{Duration, Instant};

use perilune::outcome::Operations;
use perilune::outcome::retention::{AuditVerification, PurgeOrder, RetentionPolicy};
use sqlx::PgPool;

use super::{Size, execute, median};

pub(super) async fn compare(pool: &PgPool, operations: &Operations<sqlx::Postgres>, size: &Size) {
    execute(pool, "UPDATE bench_operations SET state = 'completed', completed_at = 1").await;
    execute(pool, "VACUUM ANALYZE bench_operations").await;
    let mut ratios = Vec::new();
    for _ in 0..size.rounds {
        fill(pool, size.operations).await;
        let rows = size.operations as f64;
        let begun = Instant::now();
        purge_bare(pool).await;
        let floor = rows / begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        purge(operations, size.operations).await;
        let ours = rows / begun.elapsed().as_secs_f64();
        println!("purge: {ours:.0} outcomes/s; bare DELETE and INSERT: {floor:.0}/s; ratio {:.2}", ours / floor);
        ratios.push(ours / floor);
    }
    println!("purge: median ratio {:.2} (at least 0.7 is the aim)", median(ratios));
    let verified = operations.verify_audit().await.expect("verified");
    let records = size.operations.unsigned_abs() * size.rounds as u64;
    assert_eq!(verified, AuditVerification::Intact { records });
}

/// An outcome for each operation, and the same rows for the bare statements.
async fn fill(pool: &PgPool, count: i64) {
    let outcomes = "INSERT INTO bench_outcomes SELECT lpad(to_hex(n), 32, '0'), 'Empty', 1, 1, decode(repeat('00', 200), 'hex'), 1 \
         FROM generate_series(1, $1) n";
    sqlx::query(outcomes).bind(count).execute(pool).await.expect("filled");
    execute(pool, "DROP TABLE IF EXISTS bench_bare, bench_bare_audit").await;
    execute(pool, "CREATE TABLE bench_bare AS SELECT * FROM bench_outcomes").await;
    execute(pool, "ALTER TABLE bench_bare ADD PRIMARY KEY (operation_id)").await;
    execute(pool, "CREATE INDEX ON bench_bare (key_id, operation_id)").await;
    execute(pool, "CREATE TABLE bench_bare_audit (LIKE bench_retention_audit INCLUDING ALL)").await;
    execute(pool, "VACUUM ANALYZE bench_outcomes").await;
    execute(pool, "VACUUM ANALYZE bench_bare").await;
}

/// What somebody would write who wants neither holds nor proof.
async fn purge_bare(pool: &PgPool) {
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
}

async fn purge(operations: &Operations<sqlx::Postgres>, count: i64) {
    let day = Duration::from_secs(24 * 60 * 60);
    let policy =
        RetentionPolicy::builder().input(day).journal(day).outcome(day).dead_letter(day).build().expect("a policy");
    let now = "2090-01-01T00:00:00Z".parse().expect("a time");
    let order = PurgeOrder { policy_ref: "p".to_owned(), actor: "a".to_owned(), now };
    let purged = operations.purge(&policy, &order).await.expect("purged");
    assert_eq!(purged.outcomes_deleted, count.unsigned_abs());
}
