//! Layers around a handler, and the router. Handlers are called by hand, under a paused clock.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perilune_actors::proto::Status;
use perilune_actors::proto::scalar::Generation;
use perilune_actors::proto::wire::decode_event;
use perilune_actors::{
    CancelReason, EventContext, EventHandler, EventHandlerExt as _, HandlerError, ResultEvent, RouteError, Router,
    Typed, handler_fn,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::support::{event, subscription_id};

fn context() -> EventContext {
    EventContext::new(subscription_id(), Generation(1), Duration::from_secs(30))
}

async fn handle(handler: &impl EventHandler, n: u64) -> bool {
    handler.handle(Arc::new(event(n)), context()).await.is_ok()
}

#[actix::test]
async fn a_handler_that_takes_too_long_has_failed() {
    tokio::time::pause();
    let handler = handler_fn(|event: Arc<ResultEvent>, _context| async move {
        tokio::time::sleep(Duration::from_secs(event.sequence.0)).await;
        Ok(())
    })
    .timeout(Duration::from_secs(5));
    assert!(handle(&handler, 4).await);
    assert!(!handle(&handler, 6).await);
}

#[actix::test]
async fn events_of_one_key_take_turns_and_others_do_not_wait() {
    tokio::time::pause();
    let at_once = Arc::new(AtomicU64::new(0));
    let most = Arc::new(AtomicU64::new(0));
    let handler = {
        let (at_once, most) = (Arc::clone(&at_once), Arc::clone(&most));
        handler_fn(move |_event, _context| {
            let (at_once, most) = (Arc::clone(&at_once), Arc::clone(&most));
            async move {
                most.fetch_max(at_once.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                at_once.fetch_sub(1, Ordering::Relaxed);
                Ok(())
            }
        })
        .one_at_a_time_per(|event| event.sequence.0 % 2)
    };
    let began = tokio::time::Instant::now();
    let all = futures_util::future::join_all((1..=6).map(|n| handle(&handler, n))).await;
    assert!(all.into_iter().all(|ok| ok));
    assert_eq!(most.load(Ordering::Relaxed), 2, "one a key");
    assert_eq!(began.elapsed().as_millis() / 100, 30);
}

#[actix::test]
async fn an_event_that_gets_no_turn_fails_unhandled() {
    tokio::time::pause();
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let handler = handler_fn(move |_event, _context| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::pending()
    })
    .one_at_a_time_per(|_| ());
    let lapses = context();
    let waits = async {
        tokio::task::yield_now().await;
        lapses.cancellation().cancel(CancelReason::LeaseLapsed);
    };
    tokio::select! {
        biased;
        _ = handle(&handler, 1) => panic!("it never ends"),
        (result, ()) = futures_util::future::join(handler.handle(Arc::new(event(2)), lapses.clone()), waits) => {
            assert!(result.is_err());
        }
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[actix::test]
async fn an_open_breaker_tries_one_event_at_a_time() {
    tokio::time::pause();
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let handler = handler_fn(move |_event, _context| {
        let run = counted.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            // Down for the first five tries; each takes a while.
            tokio::time::sleep(Duration::from_millis(100)).await;
            if run <= 5 { Err(HandlerError::msg("down")) } else { Ok(()) }
        }
    })
    .circuit_breaker(NonZeroU32::new(3).expect("three"), Duration::from_secs(1));
    for n in 1..=3 {
        assert!(!handle(&handler, n).await);
    }
    let began = tokio::time::Instant::now();
    let all = futures_util::future::join_all((4..=13).map(|n| handle(&handler, n))).await;
    assert_eq!(all.iter().filter(|ok| !**ok).count(), 2, "only tries fail, the others wait");
    // Three tries, a second after the failure before each; then all at once.
    assert_eq!(began.elapsed().as_millis() / 100, 34);
}

#[derive(Deserialize)]
struct Order {
    id: u64,
}

fn routed(operation: &str, payload: &str) -> Arc<ResultEvent> {
    let text = format!(
        r#"{{"event_id":"{n:032x}","sequence":"1","type":"task.succeeded","queue":"q","task_id":"{n:032x}","task_version":"1","occurred_at":"2026-01-01T00:00:00Z","snapshot":{{"task_id":"{n:032x}","queue":"q","operation":"{operation}","status":"succeeded","version":"1","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","payload":{payload},"result":null,"error":null}}}}"#,
        n = 1
    );
    Arc::new(decode_event(&text).expect("an event"))
}

#[actix::test]
async fn an_event_goes_to_the_handler_of_its_operation_and_status() {
    let seen = Arc::new(AtomicU64::new(0));
    let (ordered, other, rest) = (Arc::clone(&seen), Arc::clone(&seen), Arc::clone(&seen));
    let router = Router::with_fallback(move |_event, _context| {
        rest.store(3, Ordering::Relaxed);
        async { Ok(()) }
    })
    .on("Order", Status::Succeeded, move |typed: Typed<Order, IgnoredAny>| {
        ordered.store(typed.payload.id, Ordering::Relaxed);
        async { Ok(()) }
    })
    .on_any_status("Other", move |_: Typed<IgnoredAny, Option<Order>>| {
        other.store(2, Ordering::Relaxed);
        async { Ok(()) }
    })
    .build()
    .expect("distinct routes");
    for (operation, payload, expected) in [("Order", r#"{"id":77}"#, 77), ("Other", "[]", 2), ("Unknown", "1e400", 3)] {
        router.handle(routed(operation, payload), context()).await.expect("routed");
        assert_eq!(seen.load(Ordering::Relaxed), expected, "{operation}");
    }
    assert!(router.handle(routed("Order", r#"{"id":"x"}"#), context()).await.is_err(), "not an order");
}

#[test]
fn a_route_that_can_not_be_is_named() {
    let builder = || Router::with_fallback(|_, _| async { Ok(()) });
    let on = |_: Typed<IgnoredAny, IgnoredAny>| async { Ok(()) };
    let error = builder().on("two words", Status::Failed, on).build().expect_err("no name");
    assert_eq!(error, RouteError::Operation("two words".to_owned()));
    let error = builder().on("A", Status::Failed, on).on("A", Status::Failed, on).build().expect_err("twice");
    assert_eq!(error, RouteError::Twice("A".to_owned()));
}
