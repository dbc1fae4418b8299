//! Reports in PostgreSQL: one question and one statement of writes each, under the log's lock.

use perilune_proto::lease::Moment;
use perilune_proto::limits::IDEMPOTENCY_RETENTION;
use perilune_proto::scalar::{EventId, Sequence, TaskId, TaskVersion};
use perilune_proto::task::{Refusal, TaskStanding, admit};

use super::super::frozen::{Place, freeze, snapshot_of};
use super::super::{
    Answer, IdempotencyKey, Report, StoreError, TaskLog, TaskRecord, Verdict, Wake, WrittenEvent, batch, fresh,
};
use super::PostgresStore;
use super::lanes::Unit;
use super::row::{Columns, code, micros, stored};

const KNOWN: &str = "SELECT k.body_sha256, k.kept_since, k.sequence, k.event_id, k.task_version,
        coalesce(k.body, e.body), t.status, t.version, t.created_at, q.name, clock_us()
    FROM (SELECT 1) one
    LEFT JOIN idempotency k ON k.credential_id = $1 AND k.task_id = $2 AND k.key = $3
    LEFT JOIN event e ON e.sequence = k.sequence
    LEFT JOIN task t ON t.task_id = $2
    LEFT JOIN queue q ON q.queue_id = t.queue_id";

/// The place, the key and the texts of one event.
macro_rules! append {
    ($key:literal) => {
        concat!(
            "WITH q AS (UPDATE queue SET head = $1, events = events + 1 WHERE queue_id = $2 RETURNING events),
            e AS (INSERT INTO event (sequence, queue_id, ordinal, status, task_version, written_at, event_id, task_id,
                    operation, body)
                SELECT $1, $2, q.events, $3, $4, $5, $6, $7, $8, $9 FROM q),
            t AS (INSERT INTO task (task_id, queue_id, status, version, created_at, sequence)
                VALUES ($7, $2, $3, $4, $10, $1)
                ON CONFLICT (task_id) DO UPDATE SET status = excluded.status, version = excluded.version,
                    sequence = excluded.sequence, body = NULL)",
            $key,
            " UPDATE log SET head = $1"
        )
    };
}

const APPEND: &str = append!("");
const APPEND_KEYED: &str = append!(
    ", k AS (INSERT INTO idempotency (credential_id, task_id, key, body_sha256, kept_since, sequence, event_id,
            task_version)
        VALUES ($11, $7, $12, $13, $14, $1, $6, $4)
        ON CONFLICT (credential_id, task_id, key) DO UPDATE SET body_sha256 = excluded.body_sha256,
            kept_since = excluded.kept_since, sequence = excluded.sequence, event_id = excluded.event_id,
            task_version = excluded.task_version, body = NULL) "
);

const TASK: &str = "SELECT q.name, coalesce(t.body, e.body)
    FROM task t JOIN queue q ON q.queue_id = t.queue_id LEFT JOIN event e ON e.sequence = t.sequence
    WHERE t.task_id = $1";

impl TaskLog for PostgresStore {
    fn report(&self, report: Report) -> Answer<'_, Verdict> {
        self.append(move |unit| Box::pin(write(unit, report)))
    }

    fn report_batch(&self, reports: Vec<Report>) -> Answer<'_, Vec<Verdict>> {
        Box::pin(async move {
            let mut verdicts = Vec::with_capacity(reports.len());
            for part in batch::parts(reports) {
                verdicts.extend(self.append(move |unit| Box::pin(write_all(unit, part))).await?);
            }
            Ok(verdicts)
        })
    }

    fn task(&self, task_id: TaskId) -> Answer<'_, Option<TaskRecord>> {
        self.read(move |pool| async move {
            let found = sqlx::query(TASK).bind(task_id.as_bytes().to_vec()).fetch_optional(&pool).await?;
            let Some(row) = found else { return Ok(None) };
            let event = Columns(&row).text_if_any(1)?.ok_or(StoreError::Damaged("a task's event is gone"))?;
            let snapshot = snapshot_of(&event).ok_or(StoreError::Damaged("an event has no snapshot"))?;
            Ok(Some(TaskRecord { queue: Columns(&row).name(0)?, snapshot_json: snapshot.into() }))
        })
    }
}

async fn write_all(unit: &mut Unit, reports: Vec<Report>) -> Result<Vec<Verdict>, StoreError> {
    let mut verdicts = Vec::with_capacity(reports.len());
    for report in reports {
        verdicts.push(write(unit, report).await?);
    }
    Ok(verdicts)
}

async fn write(unit: &mut Unit, report: Report) -> Result<Verdict, StoreError> {
    unit.locked_head().await?;
    let known = known(unit, &report).await?;
    if let (Some(given), Some(seen)) = (&report.idempotency, known.seen) {
        let same = seen.body_sha256 == given.body_sha256;
        return if same { seen.event.map(Verdict::Seen) } else { Ok(Verdict::KeyReused) };
    }
    let version = match admit(known.task.as_ref(), &report.queue) {
        Ok(version) => version,
        Err(Refusal::OtherQueue) => return Ok(Verdict::OtherQueue),
        Err(_) => return Ok(Verdict::Terminal),
    };
    append(unit, report, version, known.created.unwrap_or(known.now), known.now).await.map(Verdict::Written)
}

/// What the store knows before a report is written.
struct Known {
    seen: Option<Seen>,
    task: Option<TaskStanding>,
    created: Option<Moment>,
    now: Moment,
}

/// What was written under the report's idempotency key.
struct Seen {
    body_sha256: [u8; 32],
    event: Result<WrittenEvent, StoreError>,
}

async fn known(unit: &mut Unit, report: &Report) -> Result<Known, StoreError> {
    let row = sqlx::query(KNOWN)
        .bind(report.credential_id.to_bytes().to_vec())
        .bind(report.task_id.as_bytes().to_vec())
        .bind(report.idempotency.as_ref().map(|given| given.key.clone()))
        .fetch_one(&mut unit.connection)
        .await?;
    let row = Columns(&row);
    let mut known = Known { seen: None, task: None, created: None, now: row.moment(10)? };
    if let Some(body_sha256) = row.hash_if_any(0)?
        && known.now.since(row.moment(1)?) < IDEMPOTENCY_RETENTION
    {
        known.seen = Some(Seen { body_sha256, event: seen_event(row) });
    }
    if !row.is_null(6)? {
        let version = TaskVersion(row.count(7)?);
        known.task = Some(TaskStanding { queue: row.name(9)?, status: row.status(6)?, version });
        known.created = Some(row.moment(8)?);
    }
    Ok(known)
}

fn seen_event(row: Columns<'_>) -> Result<WrittenEvent, StoreError> {
    Ok(WrittenEvent {
        sequence: Sequence(row.count(2)?),
        event_id: EventId::from_bytes(row.id(3)?),
        task_version: TaskVersion(row.count(4)?),
        json: row.text_if_any(5)?.ok_or(StoreError::Damaged("a key's event is gone"))?.into(),
    })
}

async fn append(
    unit: &mut Unit,
    report: Report,
    version: TaskVersion,
    created: Moment,
    now: Moment,
) -> Result<WrittenEvent, StoreError> {
    let queue = unit.queue(&report.queue).await?;
    let sequence = unit.locked_head().await? + 1;
    let (queue_name, operation) = (report.queue.clone(), report.operation.clone());
    let (task_id, status, credential_id) = (report.task_id, report.status, report.credential_id);
    let idempotency = report.idempotency.clone();
    let event_id = EventId::from_u128(fresh::id());
    let event = freeze(report, Place { event_id, sequence: Sequence(sequence), version, created, written: now });
    let mut statement = sqlx::query(if idempotency.is_some() { APPEND_KEYED } else { APPEND })
        .bind(stored(sequence))
        .bind(queue)
        .bind(code(status))
        .bind(stored(version.0))
        .bind(micros(now))
        .bind(event_id.as_bytes().to_vec())
        .bind(task_id.as_bytes().to_vec())
        .bind(operation.as_str().to_owned())
        .bind(event.json.as_bytes().to_vec())
        .bind(micros(created));
    if let Some(IdempotencyKey { key, body_sha256 }) = idempotency {
        let owner = credential_id.to_bytes().to_vec();
        statement = statement.bind(owner).bind(key).bind(body_sha256.to_vec()).bind(micros(now));
    }
    statement.execute(&mut unit.connection).await?;
    unit.head = Some(sequence);
    unit.wakes.insert(Wake::Queue(queue_name));
    Ok(event)
}
