//! The log in memory.

use std::sync::Arc;

use perilune_proto::lease::Moment;
use perilune_proto::limits::IDEMPOTENCY_RETENTION;
use perilune_proto::scalar::{EventId, Sequence, TaskId, TaskVersion};
use perilune_proto::task::{Refusal, TaskStanding, admit};

use super::super::frozen::{Place, freeze, snapshot_of};
use super::super::{Answer, Report, StoreError, TaskLog, TaskRecord, Verdict, Wake, WrittenEvent, fresh};
use super::state::{Event, Key, State, Task};
use super::{MemoryStore, Times};

impl TaskLog for MemoryStore {
    fn report(&self, report: Report) -> Answer<'_, Verdict> {
        self.ask(|state, times| Ok(state.report(report, times)))
    }

    fn report_batch(&self, reports: Vec<Report>) -> Answer<'_, Vec<Verdict>> {
        self.ask(|state, times| Ok(reports.into_iter().map(|report| state.report(report, times)).collect()))
    }

    fn task(&self, task_id: TaskId) -> Answer<'_, Option<TaskRecord>> {
        self.ask(move |state, _| {
            let Some(task) = state.tasks.get(&task_id) else { return Ok(None) };
            let snapshot = snapshot_of(&task.latest.json).ok_or(StoreError::Damaged("an event has no snapshot"))?;
            Ok(Some(TaskRecord { queue: task.standing.queue.clone(), snapshot_json: snapshot.into() }))
        })
    }
}

impl State {
    fn report(&mut self, mut report: Report, times: Times) -> Verdict {
        let idempotency = report.idempotency.take();
        let scope = idempotency.as_ref().map(|given| (report.credential_id, report.task_id, given.key.clone()));
        if let (Some(scope), Some(given)) = (&scope, &idempotency)
            && let Some(seen) = self.keys.get(scope).filter(|seen| is_kept(seen, times.now))
        {
            let same = seen.body_sha256 == given.body_sha256;
            return if same { Verdict::Seen(written(&seen.event)) } else { Verdict::KeyReused };
        }
        let known = self.tasks.get(&report.task_id);
        let version = match admit(known.map(|task| &task.standing), &report.queue) {
            Ok(version) => version,
            Err(Refusal::OtherQueue) => return Verdict::OtherQueue,
            Err(_) => return Verdict::Terminal,
        };
        let created = known.map_or(times.wall, |task| task.created);
        let event = self.append(report, version, created, times.wall);
        if let (Some(scope), Some(given)) = (scope, idempotency) {
            let key = Key { body_sha256: given.body_sha256, written: times.now, event: Arc::clone(&event) };
            self.keys.insert(scope, key);
        }
        Verdict::Written(written(&event))
    }

    fn append(&mut self, report: Report, version: TaskVersion, created: Moment, wall: Moment) -> Arc<Event> {
        self.head += 1;
        let (task_id, queue) = (report.task_id, report.queue.clone());
        let (status, operation) = (report.status, report.operation.clone());
        let event_id = EventId::from_u128(fresh::id());
        let place = Place { event_id, sequence: Sequence(self.head), version, created, written: wall };
        let json = freeze(report, place).json;
        let event = Arc::new(Event {
            event_id,
            sequence: self.head,
            queue: queue.clone(),
            status,
            operation,
            task_id,
            version: version.0,
            written: wall,
            json,
        });
        self.events.insert(self.head, Arc::clone(&event));
        self.queues.entry(queue.clone()).or_default();
        let standing = TaskStanding { queue: queue.clone(), status, version };
        self.tasks.insert(task_id, Task { standing, created, latest: Arc::clone(&event) });
        self.wakes.push(Wake::Queue(queue));
        event
    }
}

pub(super) fn is_kept(key: &Key, now: Moment) -> bool {
    now.since(key.written) < IDEMPOTENCY_RETENTION
}

fn written(event: &Event) -> WrittenEvent {
    WrittenEvent {
        event_id: event.event_id,
        sequence: Sequence(event.sequence),
        task_version: TaskVersion(event.version),
        json: event.json.clone(),
    }
}
