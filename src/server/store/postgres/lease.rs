//! Leases in PostgreSQL: what is ready first, then what the window lets off the log, to whoever has the most free
//! credit. The subscription's row is locked, so that several servers never share a window's last place.

use std::collections::HashMap;

use perilune_proto::dispatch::Credits;
use perilune_proto::lease::{Moment, window_room};
use perilune_proto::scalar::{DeliveryId, EventId, Generation, SessionId};

use super::super::choice::{Candidate, Choice, Origin, supply};
use super::super::{Lease, LeaseRequest, Leases, SecretHash, StoreError, Supply, fresh};
use super::lanes::Unit;
use super::row::{Columns, micros, stored};
use super::take::Reader;

const LOCK: &str = "SELECT subscription_no FROM subscription WHERE subscription_id = $1 FOR UPDATE";
const SUBSCRIPTION: &str = "SELECT s.subscription_no, s.enabled, s.statuses, s.operations, s.room, s.budget, s.cursor,
        s.open, s.expired,
        EXISTS (SELECT 1 FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no AND q.forgotten_head > greatest(s.cursor, sq.origin)),
        ARRAY(SELECT q.queue_id FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no AND q.head > s.cursor),
        (SELECT coalesce(max(q.head), 0) FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no),
        (SELECT min(d.due_at) FROM delivery d WHERE d.subscription_no = s.subscription_no AND d.state = 1),
        (SELECT min(d.due_at) FROM delivery d WHERE d.subscription_no = s.subscription_no AND d.state = 0),
        clock_us(),
        EXISTS (SELECT 1 FROM credential c WHERE c.credential_id = s.credential_id
            AND (c.revoked_at IS NOT NULL OR c.expires_at <= clock_us()))
    FROM subscription s WHERE s.subscription_no = $1";
const HELD: &str = "SELECT session_id, count(*), min(due_at) FROM delivery
    WHERE subscription_no = $1 AND state = 1 GROUP BY session_id";
const READY: &str = "SELECT d.delivery_id, d.sequence, d.event_id, d.generation,
        coalesce(octet_length(d.body), octet_length(e.body))::bigint, d.due_at
    FROM delivery d LEFT JOIN event e ON e.sequence = d.sequence
    WHERE d.subscription_no = $1 AND d.state = 0
    ORDER BY d.due_at, d.sequence LIMIT $2";
const TEXTS: &str = "SELECT v.sequence, coalesce(e.body, d.body)
    FROM unnest($1::bigint[], $2::bytea[]) v (sequence, delivery)
    LEFT JOIN event e ON e.sequence = v.sequence
    LEFT JOIN delivery d ON e.sequence IS NULL AND d.delivery_id = v.delivery";
// $5 to $7: leases of ready deliveries; $8 to $12: of new ones.
const GRANT: &str = "WITH again AS (
        UPDATE delivery d SET state = 1, due_at = $4, generation = generation + 1, session_id = v.session,
                secret_sha256 = v.secret
            FROM unnest($5::bytea[], $6::bytea[], $7::bytea[]) v (delivery, session, secret)
            WHERE d.delivery_id = v.delivery),
    new AS (
        INSERT INTO delivery (delivery_id, subscription_no, sequence, state, due_at, generation, budget, event_id,
                session_id, secret_sha256)
            SELECT v.delivery, $1, v.sequence, 1, $4, 1, $2, v.event, v.session, v.secret
            FROM unnest($8::bytea[], $9::bytea[], $10::bytea[], $11::bigint[], $12::bytea[])
                v (delivery, session, secret, sequence, event))
    UPDATE subscription SET cursor = $3, open = open + cardinality($8) WHERE subscription_no = $1";

/// A subscription as it stands before a lease.
struct Standing {
    reader: Reader,
    enabled: bool,
    /// Its credential is nobody's any more.
    revoked: bool,
    gap: bool,
    window: u32,
    budget: i64,
    open: u32,
    expired: u32,
    next_lapse: Option<Moment>,
    next_ready: Option<Moment>,
    now: Moment,
}

pub(super) async fn lease(unit: &mut Unit, request: LeaseRequest) -> Result<Leases, StoreError> {
    let lock = sqlx::query_as(LOCK).bind(request.subscription_id.as_bytes().to_vec());
    let number: Option<(i64,)> = lock.fetch_optional(&mut unit.connection).await?;
    // The wait for the lock is over; only from here on does a lease's time run.
    unit.began = std::time::Instant::now();
    let began = unit.began;
    let nothing = |supply| Leases { granted: Vec::new(), began, again_in: None, supply };
    let Some((number,)) = number else { return Ok(nothing(Supply::Gone)) };
    let mut standing = standing(unit, number).await?;
    if standing.revoked {
        return Ok(nothing(Supply::Unauthenticated));
    }
    if !standing.enabled {
        return Ok(nothing(Supply::Paused));
    }
    if standing.gap {
        return Ok(nothing(Supply::HistoryGap));
    }
    let now = standing.now;
    if standing.next_lapse.is_some_and(|lapse| lapse <= now) {
        let ended = unit.lapse(number, now).await?;
        standing.expired += u32::try_from(ended.expired).unwrap_or(u32::MAX);
        standing.next_ready = [standing.next_ready, ended.next].into_iter().flatten().min();
    }
    let mut credits = credits(unit, &mut standing, &request).await?;
    let choice = choose(unit, &mut standing, credits.total()).await?;
    let granted = grant(unit, &standing, &request, &mut credits, &choice).await?;

    let until = (!granted.is_empty()).then(|| now.plus(request.lease));
    let ready = standing.next_ready.filter(|_| credits.total() > 0);
    let next = [until, standing.next_lapse, ready].into_iter().flatten().min();
    let again_in = choice.again_in(credits.total(), next, now);
    Ok(Leases { granted, began, again_in, supply: supply(standing.window, standing.expired) })
}

async fn standing(unit: &mut Unit, number: i64) -> Result<Standing, StoreError> {
    let row = sqlx::query(SUBSCRIPTION).bind(number).fetch_one(&mut unit.connection).await?;
    let row = Columns(&row);
    Ok(Standing {
        reader: Reader {
            number,
            statuses: row.integer(2)?,
            operations: row.texts(3)?,
            cursor: row.count(6)?,
            behind: row.numbers(10)?,
            head: row.count(11)?,
        },
        enabled: row.flag(1)?,
        revoked: row.flag(15)?,
        gap: row.flag(9)?,
        window: row.small(4)?,
        budget: row.integer(5)?,
        open: row.small(7)?,
        expired: row.small(8)?,
        next_lapse: row.moment_if_any(12)?,
        next_ready: row.moment_if_any(13)?,
        now: row.moment(14)?,
    })
}

/// Each session's capacity less its live leases. What has lapsed was ended before.
async fn credits(unit: &mut Unit, standing: &mut Standing, request: &LeaseRequest) -> Result<Credits, StoreError> {
    let mut held = HashMap::new();
    if standing.next_lapse.is_some() {
        standing.next_lapse = None;
        for row in sqlx::query(HELD).bind(standing.reader.number).fetch_all(&mut unit.connection).await? {
            let row = Columns(&row);
            held.insert(SessionId::from_bytes(row.id(0)?), row.small(1)?);
            let lapse = row.moment(2)?;
            standing.next_lapse = Some(standing.next_lapse.map_or(lapse, |next| next.min(lapse)));
        }
    }
    let free = request.sessions.iter().map(|session| {
        let held = held.get(&session.session_id).copied().unwrap_or(0);
        u32::from(session.capacity).saturating_sub(held)
    });
    Ok(Credits::new(free))
}

/// What can be leased within the bounds of one call.
async fn choose(unit: &mut Unit, standing: &mut Standing, credit: u64) -> Result<Choice, StoreError> {
    let mut choice = Choice::new(credit, standing.reader.cursor);
    if choice.room() > 0 && standing.next_ready.is_some_and(|ready| ready <= standing.now) {
        standing.next_ready = ready(unit, standing, &mut choice).await?;
    }
    let room = usize::try_from(window_room(standing.window, standing.open)).unwrap_or(usize::MAX);
    let wanted = room.min(choice.room());
    if wanted > 0 && !standing.reader.behind.is_empty() {
        choice.extend(unit.take(&standing.reader, wanted).await?, room, wanted);
    }
    Ok(choice)
}

/// Adds what is due; returns when the next is that isn't among them.
async fn ready(unit: &mut Unit, standing: &Standing, choice: &mut Choice) -> Result<Option<Moment>, StoreError> {
    // One more than wanted tells when to come back.
    let limit = stored(u64::try_from(choice.room()).unwrap_or(u64::MAX)) + 1;
    let query = sqlx::query(READY).bind(standing.reader.number).bind(limit);
    for row in query.fetch_all(&mut unit.connection).await? {
        let row = Columns(&row);
        let due = row.moment(5)?;
        let candidate = Candidate {
            delivery_id: DeliveryId::from_bytes(row.id(0)?),
            sequence: row.count(1)?,
            event_id: EventId::from_bytes(row.id(2)?),
            generation: row.count(3)?,
            bytes: usize::try_from(row.count(4)?).unwrap_or(usize::MAX),
            origin: Origin::Window,
        };
        if due > standing.now || !choice.push(candidate) {
            return Ok(Some(due));
        }
    }
    Ok(None)
}

async fn grant(
    unit: &mut Unit,
    standing: &Standing,
    request: &LeaseRequest,
    credits: &mut Credits,
    choice: &Choice,
) -> Result<Vec<Lease>, StoreError> {
    let candidates = &choice.candidates;
    if candidates.is_empty() && choice.cursor == standing.reader.cursor {
        return Ok(Vec::new());
    }
    let mut texts = texts(unit, candidates).await?;
    let mut granted = Vec::with_capacity(candidates.len());
    let (mut again, mut new) = (List::default(), List::default());
    for candidate in candidates {
        let session = credits.spend().and_then(|place| request.sessions.get(place));
        let session = session.ok_or(StoreError::Damaged("more deliveries than credit"))?;
        let secret = fresh::secret();
        let list = if candidate.origin == Origin::Log { &mut new } else { &mut again };
        list.push(candidate, session.session_id, SecretHash::of(secret.expose_bytes()));
        granted.push(Lease {
            session_id: session.session_id,
            delivery_id: candidate.delivery_id,
            event_id: candidate.event_id,
            generation: Generation(candidate.generation + 1),
            secret,
            event_json: texts.remove(&candidate.sequence).ok_or(StoreError::Damaged("an event's text is gone"))?,
        });
    }
    sqlx::query(GRANT)
        .bind(standing.reader.number)
        .bind(standing.budget)
        .bind(stored(choice.cursor))
        .bind(micros(standing.now.plus(request.lease)))
        .bind(again.deliveries)
        .bind(again.sessions)
        .bind(again.secrets)
        .bind(new.deliveries)
        .bind(new.sessions)
        .bind(new.secrets)
        .bind(new.sequences)
        .bind(new.events)
        .execute(&mut unit.connection)
        .await?;
    Ok(granted)
}

async fn texts(unit: &mut Unit, candidates: &[Candidate]) -> Result<HashMap<u64, Box<str>>, StoreError> {
    let sequences: Vec<_> = candidates.iter().map(|candidate| stored(candidate.sequence)).collect();
    let deliveries: Vec<_> = candidates.iter().map(|candidate| candidate.delivery_id.as_bytes().to_vec()).collect();
    let query = sqlx::query(TEXTS).bind(sequences).bind(deliveries);
    let mut texts = HashMap::with_capacity(candidates.len());
    for row in query.fetch_all(&mut unit.connection).await? {
        let row = Columns(&row);
        let text = row.text_if_any(1)?.ok_or(StoreError::Damaged("an event's text is gone"))?;
        texts.insert(row.count(0)?, text.into_boxed_str());
    }
    Ok(texts)
}

/// Leases as columns.
#[derive(Default)]
struct List {
    deliveries: Vec<Vec<u8>>,
    sessions: Vec<Vec<u8>>,
    secrets: Vec<Vec<u8>>,
    sequences: Vec<i64>,
    events: Vec<Vec<u8>>,
}

impl List {
    fn push(&mut self, candidate: &Candidate, session_id: SessionId, secret: SecretHash) {
        self.deliveries.push(candidate.delivery_id.as_bytes().to_vec());
        self.sessions.push(session_id.as_bytes().to_vec());
        self.secrets.push(secret.as_bytes().to_vec());
        self.sequences.push(stored(candidate.sequence));
        self.events.push(candidate.event_id.as_bytes().to_vec());
    }
}
