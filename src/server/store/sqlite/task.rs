//! Reports in SQLite: one question and one text of writes each.

use perilune_proto::lease::Moment;
use perilune_proto::limits::IDEMPOTENCY_RETENTION;
use perilune_proto::scalar::{EventId, Sequence, TaskId, TaskVersion};
use perilune_proto::task::{Refusal, TaskStanding, admit};

use super::super::frozen::{Place, freeze, snapshot_of};
use super::super::{
    Answer, IdempotencyKey, Report, StoreError, TaskLog, TaskRecord, Verdict, Wake, WrittenEvent, batch, fresh,
};
use super::SqliteStore;
use super::row::{Columns, code, micros, stored};
use super::writer::Unit;

pub(super) const KNOWN: &str = "SELECT k.body_sha256, k.kept_since, k.sequence, k.event_id, k.task_version,
        coalesce(k.body, e.body), t.status, t.version, t.created_at, q.name
    FROM (SELECT 1)
    LEFT JOIN idempotency k ON k.credential_id = ?1 AND k.task_id = ?2 AND k.key = ?3
    LEFT JOIN event e ON e.sequence = k.sequence
    LEFT JOIN task t ON t.task_id = ?2
    LEFT JOIN queue q ON q.queue_id = t.queue_id";

/// The place, the key and the texts of one event.
macro_rules! append {
    ($key:literal) => {
        concat!(
            "SAVEPOINT question;
            INSERT INTO event (sequence, queue_id, ordinal, status, task_version, written_at, event_id, task_id,
                    operation, body)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);
            INSERT INTO task (task_id, queue_id, status, version, created_at, sequence)
                VALUES (?8, ?2, ?4, ?5, ?11, ?1)
                ON CONFLICT (task_id) DO UPDATE SET status = ?4, version = ?5, sequence = ?1, body = NULL;
            UPDATE queue SET head = ?1, events = ?3 WHERE queue_id = ?2;",
            $key,
            "RELEASE question"
        )
    };
}

pub(super) const APPEND: &str = append!("");
pub(super) const APPEND_KEYED: &str = append!(
    "INSERT OR REPLACE INTO idempotency (credential_id, task_id, key, body_sha256, kept_since, sequence, event_id,
            task_version)
        VALUES (?12, ?8, ?13, ?14, ?15, ?1, ?7, ?5);"
);

pub(super) const TASK: &str = "SELECT q.name, coalesce(t.body, e.body)
    FROM task t JOIN queue q ON q.queue_id = t.queue_id LEFT JOIN event e ON e.sequence = t.sequence
    WHERE t.task_id = ?1";

impl TaskLog for SqliteStore {
    fn report(&self, report: Report) -> Answer<'_, Verdict> {
        self.write(move |unit| Box::pin(write(unit, report)))
    }

    fn report_batch(&self, reports: Vec<Report>) -> Answer<'_, Vec<Verdict>> {
        Box::pin(async move {
            let mut verdicts = Vec::with_capacity(reports.len());
            for part in batch::parts(reports) {
                verdicts.extend(self.write(move |unit| Box::pin(write_all(unit, part))).await?);
            }
            Ok(verdicts)
        })
    }

    fn task(&self, task_id: TaskId) -> Answer<'_, Option<TaskRecord>> {
        Box::pin(async move {
            let (pool, _) = self.reader()?;
            let found = sqlx::query(TASK).bind(&task_id.as_bytes()[..]).fetch_optional(pool).await?;
            let Some(row) = found else { return Ok(None) };
            let event = Columns(&row).text_if_any(1)?.ok_or(StoreError::Damaged("a task's event is gone"))?;
            let snapshot = snapshot_of(&event).ok_or(StoreError::Damaged("an event has no snapshot"))?;
            Ok(Some(TaskRecord { queue: Columns(&row).name(0)?, snapshot_json: snapshot.into() }))
        })
    }
}

/// One question, so one savepoint: a failure of the store takes back all of the part.
async fn write_all(unit: &mut Unit, reports: Vec<Report>) -> Result<Vec<Verdict>, StoreError> {
    unit.guard().await?;
    let mut verdicts = Vec::with_capacity(reports.len());
    for report in reports {
        verdicts.push(write(unit, report).await?);
    }
    Ok(verdicts)
}

async fn write(unit: &mut Unit, report: Report) -> Result<Verdict, StoreError> {
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
    let created = known.created.unwrap_or(unit.times.wall);
    append(unit, report, version, created).await.map(Verdict::Written)
}

/// What the store knows before a report is written.
struct Known {
    seen: Option<Seen>,
    task: Option<TaskStanding>,
    created: Option<Moment>,
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
    let mut known = Known { seen: None, task: None, created: None };
    if let Some(body_sha256) = row.hash_if_any(0)?
        && unit.times.now.since(row.moment(1)?) < IDEMPOTENCY_RETENTION
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
) -> Result<WrittenEvent, StoreError> {
    let queue = unit.queue(&report.queue).await?;
    let (sequence, ordinal) = unit.log().await?.advance(&report.queue);
    let (queue_name, operation) = (report.queue.clone(), report.operation.clone());
    let (task_id, status, credential_id) = (report.task_id, report.status, report.credential_id);
    let idempotency = report.idempotency.clone();
    let place = Place {
        event_id: EventId::from_u128(fresh::id()),
        sequence: Sequence(sequence),
        version,
        created,
        written: unit.times.wall,
    };
    let event = freeze(report, place);
    let mut text = sqlx::query(if idempotency.is_some() { APPEND_KEYED } else { APPEND })
        .bind(stored(sequence))
        .bind(queue.id)
        .bind(stored(ordinal))
        .bind(code(status))
        .bind(stored(version.0))
        .bind(micros(place.written))
        .bind(event.event_id.as_bytes().to_vec())
        .bind(task_id.as_bytes().to_vec())
        .bind(operation.as_str().to_owned())
        .bind(String::from(event.json.clone()))
        .bind(micros(created));
    if let Some(IdempotencyKey { key, body_sha256 }) = idempotency {
        let kept_since = micros(unit.times.now);
        text = text.bind(credential_id.to_bytes().to_vec()).bind(key).bind(body_sha256.to_vec()).bind(kept_since);
    }
    unit.write(text).await?;
    unit.wakes.insert(Wake::Queue(queue_name));
    Ok(event)
}
