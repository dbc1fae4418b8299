//! Deleting rows whose events can't come again.
//!
//! Only a *settled* row goes: its event was confirmed. An event that was never confirmed may be delivered after a year,
//! when an operator adds budget, and its row is what keeps it from running twice. A settled row must outlive the
//! platform's *redelivery horizon*: how long after its confirmation an event may still come again.
//!
//! One pruner works at a time for each consumer, across processes, by a turn in the database that ends by itself when
//! its holder dies. A run deletes small batches, each in a transaction of its own, on a connection of its own (on
//! SQLite on the one writer, in turn with the events), and rests as long as it worked.

use std::sync::{Arc, Weak};
use std::time::Duration;

use perilune_proto::limits::REPLAY_RETENTION;
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::time::{Instant, sleep};

use super::error::OpenError;
use super::open::{out_of_range, spelled};
use super::store::Store;
use super::{Inbox, Inner};
use crate::sql::engine::Writers;
use crate::sql::{SqlError, SqlErrorKind};

/// How long a turn lasts without being renewed; it is renewed with each batch.
const TURN: Duration = Duration::from_secs(60);
/// Failed batches after which a run ends; the next run goes on.
const FAILURES_MAX: u32 = 5;

/// When settled rows are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruningPolicy {
    retention: Duration,
    horizon: Duration,
    batch: u32,
    every: Duration,
}

impl Default for PruningPolicy {
    /// Thirty days after settling, where the platform can't deliver again after one day; 100 rows a batch; a run
    /// every ten minutes.
    fn default() -> Self {
        Self {
            retention: Duration::from_secs(30 * 24 * 3_600),
            horizon: REPLAY_RETENTION,
            batch: 100,
            every: Duration::from_secs(600),
        }
    }
}

impl PruningPolicy {
    /// Deletes rows `retention` after they were settled, where the platform may deliver a confirmed event again for
    /// `horizon` after its confirmation.
    ///
    /// A lease never comes again once its proof is confirmed, and the platform knows a confirmed proof for 24 hours, so
    /// no horizon is shorter. Where operators `seek` a subscription back, confirmed events come again as far as the
    /// platform's log reaches: then the horizon is the log's retention (`perilune serve --retain-age`).
    ///
    /// # Errors
    /// [`OpenError::Setting`]: the horizon is under 24 hours, or the retention does not exceed the horizon.
    pub fn new(retention: Duration, horizon: Duration) -> Result<Self, OpenError> {
        if horizon < REPLAY_RETENTION {
            let least = spelled(REPLAY_RETENTION);
            return Err(out_of_range("horizon", format!("at least {least}, for which the platform knows a proof")));
        }
        if retention <= horizon {
            let horizon = spelled(horizon);
            return Err(out_of_range(
                "retention",
                format!("longer than the platform's redelivery horizon of {horizon}"),
            ));
        }
        if i64::try_from(retention.as_micros()).is_err() {
            return Err(out_of_range("retention", "less than 292,000 years"));
        }
        Ok(Self { retention, horizon, ..Self::default() })
    }

    /// Most rows a batch deletes; 100 by default. Events wait longer beside larger ones: beside 500 rows their p99 doubles.
    ///
    /// # Errors
    /// [`OpenError::Setting`]: it is not 1 to 10,000.
    pub fn batch(mut self, rows: u32) -> Result<Self, OpenError> {
        if !(1..=10_000).contains(&rows) {
            return Err(out_of_range("batch", "1 to 10,000 rows"));
        }
        self.batch = rows;
        Ok(self)
    }

    /// How long a pruner rests between runs; 10 minutes by default.
    ///
    /// # Errors
    /// [`OpenError::Setting`]: it is not 1 s to 1 d.
    pub fn every(mut self, rest: Duration) -> Result<Self, OpenError> {
        if !(Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&rest) {
            return Err(out_of_range("every", "1 s to 1 d"));
        }
        self.every = rest;
        Ok(self)
    }

    /// How long a settled row is kept.
    #[must_use]
    pub const fn retention(&self) -> Duration {
        self.retention
    }

    /// How long after its confirmation an event may come again.
    #[must_use]
    pub const fn horizon(&self) -> Duration {
        self.horizon
    }

    fn age_us(&self) -> i64 {
        i64::try_from(self.retention.as_micros()).unwrap_or(i64::MAX)
    }
}

/// What a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pruned {
    /// This run had the turn and deleted this many rows.
    Rows(u64),
    /// Another process is pruning for this consumer.
    ElsewhereNow,
}

impl<DB: Store> Inbox<DB> {
    /// Deletes what the policy allows, batch by batch, and returns when nothing is left to delete. A row that somebody
    /// else has locked meanwhile is left to the next run.
    ///
    /// # Errors
    /// [`SqlError`]; what earlier batches deleted stays deleted.
    pub async fn prune(&self, policy: &PruningPolicy) -> Result<Pruned, SqlError> {
        let policy = *policy;
        self.in_task(move |inner| async move { run(&inner, &policy).await }).await
    }

    /// Prunes now and then, on the inbox's runtime, until the last clone of the inbox is dropped.
    ///
    /// [`Inbox::connect`](Inbox::connect) and [`InboxOptions`](super::InboxOptions) do this by themselves; it is for an
    /// inbox over a pool of the caller's. Failures are logged, and the next run goes on. Where several processes or calls
    /// do it for one consumer, one prunes at a time.
    pub fn keep_pruned(&self, policy: PruningPolicy) {
        self.0.writer.runtime().spawn(prune_now_and_then(Arc::downgrade(&self.0), policy));
    }
}

async fn prune_now_and_then<DB: Store>(inner: Weak<Inner<DB>>, policy: PruningPolicy) {
    loop {
        // Processes that start together part here.
        sleep(policy.every.mul_f64(rand::random_range(0.5..=1.0))).await;
        let Some(inner) = inner.upgrade() else { return };
        match run(&inner, &policy).await {
            Ok(Pruned::Rows(rows)) if rows > 0 => tracing::info!(consumer = %inner.consumer, rows, "pruned the inbox"),
            Ok(_) => {}
            Err(error) => tracing::warn!(consumer = %inner.consumer, %error, "the inbox was not pruned"),
        }
    }
}

async fn run<DB: Store>(inner: &Inner<DB>, policy: &PruningPolicy) -> Result<Pruned, SqlError> {
    let holder = format!("{:032x}", rand::random::<u128>());
    let mut line = Line::open(inner).await?;
    if !line.take_turn(&holder).await? {
        return Ok(Pruned::ElsewhereNow);
    }
    let done = batches(&mut line, policy, &holder).await;
    // A turn that is not given back ends by itself.
    let _turn_ends_anyway = line.end_turn(&holder).await;
    line.close().await;
    done.map(Pruned::Rows)
}

async fn batches<DB: Store>(line: &mut Line<'_, DB>, policy: &PruningPolicy, holder: &str) -> Result<u64, SqlError> {
    let (mut rows, mut failures, mut since) = (0, 0, i64::MIN);
    loop {
        let began = Instant::now();
        match line.prune(policy, &mut since).await {
            Ok(0) => return Ok(rows),
            Ok(deleted) => {
                rows += deleted;
                failures = 0;
                let consumer = line.inner.consumer.to_string();
                metrics::counter!("perilune_inbox_pruned_total", "consumer" => consumer).increment(deleted);
                if deleted < u64::from(policy.batch) {
                    return Ok(rows);
                }
            }
            Err(error) if error.kind().is_contention() && failures < FAILURES_MAX => failures += 1,
            Err(error) => return Err(error),
        }
        // As long as it worked, so that events have at least half of the disk.
        sleep(began.elapsed()).await;
        if !line.take_turn(holder).await? {
            return Ok(rows);
        }
    }
}

/// The connection that prunes: of its own, or the one writer in turn.
struct Line<'a, DB: Store> {
    inner: &'a Inner<DB>,
    own: Option<DB::Connection>,
}

/// Runs a statement in a transaction of its own: with a batch's worth of locks and no more.
macro_rules! on_line {
    ($line:expr, $on:ident, $work:expr) => {{
        let inner = $line.inner;
        match &mut $line.own {
            None => inner.writer.transaction(async |$on: &mut DB::Connection| Ok($work.await?)).await,
            // One statement is one transaction.
            Some($on) => $work.await.map_err(SqlError::from),
        }
    }};
}

impl<'a, DB: Store> Line<'a, DB> {
    async fn open(inner: &'a Inner<DB>) -> Result<Self, SqlError> {
        let own = match DB::WRITERS {
            Writers::One => None,
            Writers::Many => Some(inner.writer.pool().connect_options().connect().await?),
        };
        Ok(Self { inner, own })
    }

    async fn take_turn(&mut self, holder: &str) -> Result<bool, SqlError> {
        let (sql, consumer) = (&self.inner.sql, self.inner.consumer.as_str());
        let ttl_us = i64::try_from(TURN.as_micros()).unwrap_or(i64::MAX);
        on_line!(self, on, DB::take_turn(on, sql, consumer, holder, ttl_us))
    }

    async fn end_turn(&mut self, holder: &str) -> Result<(), SqlError> {
        let (sql, consumer) = (&self.inner.sql, self.inner.consumer.as_str());
        on_line!(self, on, DB::end_turn(on, sql, consumer, holder))
    }

    async fn prune(&mut self, policy: &PruningPolicy, since: &mut i64) -> Result<u64, SqlError> {
        let (sql, consumer) = (&self.inner.sql, self.inner.consumer.as_str());
        let (age_us, batch) = (policy.age_us(), policy.batch);
        on_line!(self, on, DB::prune(on, sql, consumer, age_us, batch, since))
    }

    async fn close(self) {
        if let Some(own) = self.own
            && own.close().await.is_err()
        {
            tracing::debug!(kind = ?SqlErrorKind::Unavailable, "the pruner's connection was gone already");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_retention_within_the_horizon_is_refused_and_the_horizon_named() {
        let error = PruningPolicy::new(2 * DAY, 7 * DAY).expect_err("too short");
        assert_eq!(error.to_string(), "retention must be longer than the platform's redelivery horizon of 7 d");
        let error = PruningPolicy::new(DAY, DAY).expect_err("not longer");
        assert_eq!(error.to_string(), "retention must be longer than the platform's redelivery horizon of 1 d");
        assert!(PruningPolicy::new(DAY + Duration::from_secs(1), DAY).is_ok());
    }

    #[test]
    fn no_horizon_is_shorter_than_the_platform_knows_a_proof() {
        let error = PruningPolicy::new(2 * DAY, DAY / 2).expect_err("too short");
        assert_eq!(error.to_string(), "horizon must be at least 1 d, for which the platform knows a proof");
    }

    #[test]
    fn batches_and_rests_are_bounded() {
        let policy = PruningPolicy::default();
        assert!(policy.batch(0).is_err() && policy.batch(10_001).is_err() && policy.batch(10_000).is_ok());
        assert!(policy.every(Duration::ZERO).is_err() && policy.every(2 * DAY).is_err() && policy.every(DAY).is_ok());
        assert!(policy.retention() > policy.horizon());
    }
}
