//! Leases: what is ready first, then what the window lets off the log, to whoever has the most free credit.
//!
//! One question reads the subscription's row with everything that decides, and writes all its leases by one text.

use std::collections::HashMap;
use std::fmt::Write as _;

use perilune_proto::dispatch::Credits;
use perilune_proto::lease::{Moment, window_room};
use perilune_proto::scalar::{DeliveryId, EventId, Generation, SessionId};

use super::super::choice::{Candidate, Choice, Origin, supply};
use super::super::{Lease, LeaseRequest, Leases, SecretHash, StoreError, Supply, fresh};
use super::row::{Columns, micros, stored};
use super::take::Reader;
use super::writer::Unit;

pub(super) const SUBSCRIPTION: &str =
    "SELECT s.subscription_no, s.enabled, s.statuses, s.operations, s.room, s.budget, s.cursor,
        s.open, s.expired,
        EXISTS (SELECT 1 FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no AND q.forgotten_head > max(s.cursor, sq.origin)),
        (SELECT group_concat(q.queue_id) FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no AND q.head > s.cursor),
        (SELECT coalesce(max(q.head), 0) FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no),
        (SELECT min(d.due_at) FROM delivery d INDEXED BY delivery_open
            WHERE d.subscription_no = s.subscription_no AND d.state = 1 AND d.state < 3),
        (SELECT min(d.due_at) FROM delivery d INDEXED BY delivery_open
            WHERE d.subscription_no = s.subscription_no AND d.state = 0 AND d.state < 3),
        EXISTS (SELECT 1 FROM credential c WHERE c.credential_id = s.credential_id
            AND (c.revoked_at IS NOT NULL OR c.expires_at <= ?2))
    FROM subscription s WHERE s.subscription_id = ?1";
pub(super) const HELD: &str = "SELECT session_id, count(*), min(due_at) FROM delivery INDEXED BY delivery_open
    WHERE subscription_no = ?1 AND state = 1 AND state < 3 GROUP BY session_id";
pub(super) const READY: &str = "SELECT d.delivery_id, d.sequence, d.event_id, d.generation,
        coalesce(octet_length(d.body), octet_length(e.body)), d.due_at
    FROM delivery d INDEXED BY delivery_open LEFT JOIN event e ON e.sequence = d.sequence
    WHERE d.subscription_no = ?1 AND d.state = 0 AND d.state < 3
    ORDER BY d.due_at, d.sequence LIMIT ?2";
// ?1: the sequences and deliveries that are wanted, each as [sequence, "delivery in hex"].
pub(super) const TEXTS: &str = "SELECT v.value ->> 0, coalesce(e.body, d.body)
    FROM json_each(?1) v
    LEFT JOIN event e ON e.sequence = v.value ->> 0
    LEFT JOIN delivery d ON e.sequence IS NULL AND d.delivery_id = unhex(v.value ->> 1)";
// ?2: leases of ready deliveries, ?3: of new ones; each as ["delivery", "session", "secret's hash", sequence, "event"],
// in hex.
pub(super) const GRANT: &str = "SAVEPOINT question;
    UPDATE delivery SET state = 1, due_at = ?4, generation = generation + 1,
            session_id = unhex(v.value ->> 1), secret_sha256 = unhex(v.value ->> 2)
        FROM json_each(?2) v WHERE delivery.delivery_id = unhex(v.value ->> 0);
    INSERT INTO delivery (delivery_id, subscription_no, sequence, state, due_at, generation, budget, event_id,
            session_id, secret_sha256)
        SELECT unhex(v.value ->> 0), ?1, v.value ->> 3, 1, ?4, 1, ?5, unhex(v.value ->> 4), unhex(v.value ->> 1),
            unhex(v.value ->> 2)
        FROM json_each(?3) v;
    UPDATE subscription SET cursor = ?6, open = open + ?7 WHERE subscription_no = ?1;
    RELEASE question";

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
}

pub(super) async fn lease(unit: &mut Unit, request: LeaseRequest) -> Result<Leases, StoreError> {
    let began = unit.began;
    let nothing = |supply| Leases { granted: Vec::new(), began, again_in: None, supply };
    let Some(mut standing) = standing(unit, &request).await? else { return Ok(nothing(Supply::Gone)) };
    if standing.revoked {
        return Ok(nothing(Supply::Unauthenticated));
    }
    if !standing.enabled {
        return Ok(nothing(Supply::Paused));
    }
    if standing.gap {
        return Ok(nothing(Supply::HistoryGap));
    }
    let now = unit.times.now;
    if standing.next_lapse.is_some_and(|lapse| lapse <= now) {
        // What comes after the lapse may fail, and takes it with it.
        unit.guard().await?;
        lapse(unit, &mut standing).await?;
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

async fn standing(unit: &mut Unit, request: &LeaseRequest) -> Result<Option<Standing>, StoreError> {
    let found = sqlx::query(SUBSCRIPTION).bind(request.subscription_id.as_bytes().to_vec());
    let found = found.bind(micros(unit.times.wall));
    let Some(row) = found.fetch_optional(&mut unit.connection).await? else { return Ok(None) };
    let row = Columns(&row);
    Ok(Some(Standing {
        reader: Reader {
            number: row.integer(0)?,
            statuses: row.integer(2)?,
            operations: row.text(3)?,
            cursor: row.count(6)?,
            behind: numbers(row.text_if_any(10)?.as_deref())?,
            head: row.count(11)?,
        },
        enabled: row.flag(1)?,
        revoked: row.flag(14)?,
        gap: row.flag(9)?,
        window: row.small(4)?,
        budget: row.integer(5)?,
        open: row.small(7)?,
        expired: row.small(8)?,
        next_lapse: row.moment_if_any(12)?,
        next_ready: row.moment_if_any(13)?,
    }))
}

/// Reads numbers with commas between them.
pub(super) fn numbers(text: Option<&str>) -> Result<Vec<i64>, StoreError> {
    let numbers = text.into_iter().flat_map(|text| text.split(',')).map(str::parse);
    numbers.collect::<Result<_, _>>().map_err(|_| StoreError::Damaged("a number is none"))
}

async fn lapse(unit: &mut Unit, standing: &mut Standing) -> Result<(), StoreError> {
    if let Some(ended) = unit.lapse_one(standing.reader.number).await? {
        standing.expired += u32::try_from(ended.expired).unwrap_or(u32::MAX);
        standing.next_ready = [standing.next_ready, ended.next].into_iter().flatten().min();
    }
    Ok(())
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
    if choice.room() > 0 && standing.next_ready.is_some_and(|ready| ready <= unit.times.now) {
        standing.next_ready = ready(unit, standing.reader.number, &mut choice).await?;
    }
    let room = usize::try_from(window_room(standing.window, standing.open)).unwrap_or(usize::MAX);
    let wanted = room.min(choice.room());
    if wanted > 0 && !standing.reader.behind.is_empty() {
        choice.extend(unit.take(&standing.reader, wanted).await?, room, wanted);
    }
    Ok(choice)
}

/// Adds what is due; returns when the next is that isn't among them.
async fn ready(unit: &mut Unit, number: i64, choice: &mut Choice) -> Result<Option<Moment>, StoreError> {
    // One more than wanted tells when to come back.
    let limit = stored(u64::try_from(choice.room()).unwrap_or(u64::MAX)) + 1;
    let query = sqlx::query(READY).bind(number).bind(limit);
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
        if due > unit.times.now || !choice.push(candidate) {
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
    let (mut again, mut new) = (List::new(), List::new());
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
    let until = micros(unit.times.now.plus(request.lease));
    let text = sqlx::query(GRANT).bind(standing.reader.number).bind(again.text).bind(new.text).bind(until);
    unit.write(text.bind(standing.budget).bind(stored(choice.cursor)).bind(new.count)).await?;
    Ok(granted)
}

async fn texts(unit: &mut Unit, candidates: &[Candidate]) -> Result<HashMap<u64, Box<str>>, StoreError> {
    let mut wanted = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        wanted.push(format!("[{},\"{}\"]", candidate.sequence, candidate.delivery_id));
    }
    let query = sqlx::query(TEXTS).bind(format!("[{}]", wanted.join(",")));
    let mut texts = HashMap::with_capacity(candidates.len());
    for row in query.fetch_all(&mut unit.connection).await? {
        let row = Columns(&row);
        let text = row.text_if_any(1)?.ok_or(StoreError::Damaged("an event's text is gone"))?;
        texts.insert(row.count(0)?, text.into_boxed_str());
    }
    Ok(texts)
}

/// A JSON list of leases; everything in it is hex or a number.
struct List {
    text: String,
    count: i64,
}

impl List {
    fn new() -> Self {
        Self { text: "[]".to_owned(), count: 0 }
    }

    fn push(&mut self, candidate: &Candidate, session_id: SessionId, secret: SecretHash) {
        self.text.pop();
        let comma = if self.count > 0 { "," } else { "" };
        let (delivery_id, sequence, event_id) = (candidate.delivery_id, candidate.sequence, candidate.event_id);
        // Writing to a string can't fail.
        let _ = write!(self.text, "{comma}[\"{delivery_id}\",\"{session_id}\",\"");
        for byte in secret.as_bytes() {
            let _ = write!(self.text, "{byte:02x}");
        }
        let _ = write!(self.text, "\",{sequence},\"{event_id}\"]]");
        self.count += 1;
    }
}
