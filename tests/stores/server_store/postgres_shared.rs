//! What holds where several servers share one PostgreSQL database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use perilune::server::store::{
    Confirmed, LeaseRequest, OpenError, PastCursors, PostgresStore, Retention, Role, StoreError, Switch, Verdict, Wake,
    Wakes,
};
use perilune_proto::event::Status;
use perilune_proto::wire::decode_event;

use super::postgres::Schema;
use super::world::{LEASE, Reader, World, acked, confirmation, key, keyed, name, new_task, random, session, written};

/// Two servers on one schema; the clock goes on by itself.
async fn two() -> Option<(World, World, Arc<Schema>)> {
    let schema = Schema::fresh().await?;
    let (one, other) = (schema.world().await, schema.world().await);
    Some((one, other, schema))
}

#[tokio::test]
async fn servers_that_start_at_once_make_one_schema() {
    let Some(schema) = Schema::fresh().await else { return };
    let worlds = futures_util::future::join_all((0..6).map(|_| schema.world())).await;
    let (first, last) = (&worlds[0], &worlds[5]);
    first.write("q", 1).await;
    assert_eq!(last.store.figures().await.expect("figures").events, 1);
    schema.drop().await;
}

#[tokio::test]
async fn an_event_reported_here_wakes_there_within_a_second() {
    let Some((one, other, schema)) = two().await else { return };
    let reader = one.reader().await;
    let mut wakes = other.store.wakes();
    // Until it listens, which takes a moment; what it hears then came by notice, since nobody sweeps.
    let queue = Wake::Queue(name("q"));
    while within(&mut wakes, &queue, Duration::from_millis(100)).await.is_none() {
        one.write("q", 1).await;
    }
    for _ in 0..5 {
        one.write("q", 1).await;
        assert!(within(&mut wakes, &queue, Duration::from_secs(1)).await.is_some());
    }
    one.store.switch_subscription(key(&reader), Switch::Pause).await.expect("paused");
    assert!(within(&mut wakes, &Wake::Stopped(reader.id), Duration::from_secs(1)).await.is_some());
    schema.drop().await;
}

/// How long a wake took to come, where it came in time.
async fn within(wakes: &mut Wakes, wanted: &Wake, limit: Duration) -> Option<Duration> {
    let begun = Instant::now();
    let heard = async { while wakes.next().await.expect("open") != *wanted {} };
    tokio::time::timeout(limit, heard).await.ok().map(|()| begun.elapsed())
}

#[tokio::test]
async fn a_lost_notice_is_made_good_by_the_sweeper() {
    let Some((one, other, schema)) = two().await else { return };
    other.store.sweep().await.expect("a sweep");
    // As a server that dies between its commit and its notice would leave it.
    one.write("q", 1).await;
    one.store.close().await.expect("closed");
    let mut wakes = other.store.wakes();
    other.store.sweep().await.expect("a sweep");
    assert!(within(&mut wakes, &Wake::Queue(name("q")), Duration::from_secs(1)).await.is_some());
    schema.drop().await;
}

#[tokio::test]
async fn every_event_goes_to_one_session_of_one_server() {
    let Some((one, other, schema)) = two().await else { return };
    let reader = one.reader_with(|new| new.window = 64).await;
    let reports = async {
        for _ in 0..20 {
            tokio::join!(one.write("q", 5), other.write("q", 5), one.write("r", 3));
        }
    };
    let consumers = (0..4_u128).map(|n| consume(if n % 2 == 0 { &one } else { &other }, &reader, n, 200));
    let (_, shares) = tokio::join!(reports, futures_util::future::join_all(consumers));
    let mut seen = BTreeMap::new();
    for sequence in shares.into_iter().flatten() {
        *seen.entry(sequence).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 200);
    assert!(seen.values().all(|count| *count == 1), "delivered twice within their leases: {seen:?}");
    let figures = one.show(&reader).await.figures;
    assert_eq!((figures.acknowledged, figures.leased, figures.ready, figures.lag), (200, 0, 0, 0));
    schema.drop().await;
}

/// Leases and confirms until the subscription has confirmed `count` events; what this one got.
async fn consume(world: &World, reader: &Reader, n: u128, count: u64) -> Vec<u64> {
    let mut got = Vec::new();
    while world.show(reader).await.figures.acknowledged < count {
        let leases = world.lease(reader, &[session(n + 1, 4)]).await.granted;
        assert!(leases.len() <= 4);
        for lease in leases {
            got.push(decode_event(&lease.event_json).expect("an event").sequence.0);
            assert!(matches!(world.confirm(reader, &lease).await, Confirmed::Acked { replayed: false, .. }));
        }
    }
    got
}

#[tokio::test]
async fn a_window_is_one_for_all_servers() {
    let Some((one, other, schema)) = two().await else { return };
    let reader = one.reader_with(|new| new.window = 10).await;
    one.write("q", 40).await;
    let sessions: Vec<_> = (0..8).map(|_| [session(random(), 4)]).collect();
    let leases = sessions.iter().enumerate().map(|(n, session)| {
        let world = if n % 2 == 0 { &one } else { &other };
        world.lease(&reader, session)
    });
    let leases = futures_util::future::join_all(leases).await;
    let granted: Vec<_> = leases.into_iter().flat_map(|leases| leases.granted).collect();
    let distinct: BTreeSet<_> = granted.iter().map(|lease| lease.delivery_id).collect();
    assert_eq!((granted.len(), distinct.len()), (10, 10));
    schema.drop().await;
}

#[tokio::test]
async fn the_same_proof_on_two_servers_confirms_once() {
    let Some((one, other, schema)) = two().await else { return };
    let reader = one.reader().await;
    one.write("q", 10).await;
    for lease in one.lease(&reader, &[session(1, 10)]).await.granted {
        let proofs = [&one, &other, &one, &other].map(|world| world.store.confirm(confirmation(&reader, &lease)));
        let answers = futures_util::future::join_all(proofs).await;
        let fresh = answers.iter().filter(|answer| matches!(answer, Ok(Confirmed::Acked { replayed: false, .. })));
        assert_eq!(fresh.count(), 1, "{answers:?}");
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Confirmed::Acked { .. }))), "{answers:?}");
    }
    assert_eq!(other.show(&reader).await.figures.acknowledged, 10);
    schema.drop().await;
}

#[tokio::test]
async fn the_same_key_on_two_servers_is_written_once() {
    let Some((one, other, schema)) = two().await else { return };
    for _ in 0..10 {
        let task_id = new_task();
        let sent = [&one, &other].map(|world| world.store.report(keyed(task_id, Status::Succeeded, "k", "body")));
        let verdicts = futures_util::future::join_all(sent).await;
        let mut written = verdicts.iter().filter(|verdict| matches!(verdict, Ok(Verdict::Written(_))));
        assert!(written.next().is_some() && written.next().is_none(), "{verdicts:?}");
        assert!(verdicts.iter().any(|verdict| matches!(verdict, Ok(Verdict::Seen(_)))), "{verdicts:?}");
    }
    schema.drop().await;
}

#[tokio::test]
async fn everything_at_once_ends_and_leaves_the_counters_true() {
    let Some((one, other, schema)) = two().await else { return };
    let mut readers = Vec::new();
    for _ in 0..6 {
        readers.push(one.reader_with(|new| new.window = 16).await);
    }
    let worlds = [&one, &other];
    let readers = &readers;
    let work = (0..8_usize).map(|n| async move {
        let world = worlds[n % 2];
        for round in 0..12_usize {
            let reader = &readers[(n + round) % readers.len()];
            world.write("q", 2).await;
            for lease in world.lease(reader, &[session(random(), 8)]).await.granted {
                assert!(matches!(world.confirm(reader, &lease).await, Confirmed::Acked { .. }));
            }
            match n {
                0 => drop(world.store.sweep().await.expect("a sweep")),
                1 => drop(world.store.retain(RETENTION).await.expect("retained")),
                2 => drop(world.store.add_budget_to_expired(key(reader), 1).await.expect("given")),
                3 => drop(world.bearer(&format!("worker-{round}"), &["q"]).await),
                _ => {}
            }
        }
    });
    let all = futures_util::future::join_all(work);
    tokio::time::timeout(Duration::from_secs(300), all).await.expect("nobody waits for ever");
    for reader in readers {
        let shown = one.show(reader).await.figures;
        assert_eq!((shown.leased, shown.expired), (0, 0));
        assert_eq!(shown.acknowledged + u64::from(shown.ready) + shown.lag, 8 * 12 * 2);
    }
    schema.drop().await;
}

const RETENTION: Retention = Retention { max_age: None, max_events: Some(20), past_cursors: PastCursors::Keep };

#[tokio::test]
async fn a_lost_connection_is_made_anew() {
    let Some(schema) = Schema::fresh().await else { return };
    let line = schema.line().await;
    let world = schema.world_of(schema.open_behind(&line).await);
    let reader = world.reader().await;
    for round in 1..=5 {
        let mut wakes = world.store.wakes();
        line.cut();
        // Whoever asks first may learn that nobody knows; then it is as before.
        let event = loop {
            match world.store.report(keyed(new_task(), Status::Succeeded, "k", "body")).await {
                Ok(verdict) => break written(verdict),
                Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}"),
            }
        };
        let lease = loop {
            match world.store.lease(request(&reader, round)).await {
                Ok(mut leases) => break leases.granted.remove(0),
                Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}"),
            }
        };
        assert_eq!(lease.event_id, event.event_id);
        assert_eq!(world.confirm(&reader, &lease).await, acked(&lease));
        // What others told meanwhile is lost, so everybody looks at everything.
        assert!(within(&mut wakes, &Wake::Everything, Duration::from_secs(10)).await.is_some());
    }
    schema.drop().await;
}

fn request(reader: &Reader, n: u128) -> LeaseRequest {
    LeaseRequest { subscription_id: reader.id, lease: LEASE, sessions: vec![session(n, 1)] }
}

#[tokio::test]
async fn an_operator_makes_a_schema_but_leaves_an_old_one_to_the_servers() {
    let Some(schema) = Schema::fresh().await else { return };
    let examined = schema.examine().await;
    assert!(matches!(examined, Err(OpenError::Older { found: 0, .. })), "{examined:?}");
    let operator = schema.open_as(Role::Operator).await.expect("made");
    schema.examine().await.expect("up to date");
    perilune::server::store::Upkeep::close(&operator).await.expect("closed");
    schema.run_in("UPDATE {s}.perilune_migrations SET version = 99 WHERE component = 'server'").await;
    for role in [Role::Operator, Role::Server] {
        let refused: Result<PostgresStore, _> = schema.open_as(role).await;
        assert!(matches!(refused, Err(OpenError::Newer { found: 99, .. })), "{refused:?}");
    }
    schema.drop().await;
}
