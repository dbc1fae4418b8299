//! Options, notices, figures.

use std::time::Duration;

use perilune_actors::proto::consumer::{CauseCode, Replay};
use perilune_actors::{Consumer, HANDLER_FAILED, HandlerError, Notice, Stats};

use crate::support::{Peer, client, soon, subscription_id, until};

#[actix::test]
async fn an_option_out_of_range_is_named() {
    let peer = Peer::start().await;
    let builder = || Consumer::builder(client(&peer), subscription_id()).handler(|_, _| async { Ok(()) });
    let field = |result: Result<Consumer, perilune_actors::ConfigError>| result.expect_err("out of range").field;
    assert_eq!(field(builder().capacity(0).build()), "capacity");
    assert_eq!(field(builder().capacity(33).build()), "capacity");
    assert_eq!(field(builder().shutdown_timeout(Duration::ZERO).build()), "shutdown_timeout");
    assert_eq!(field(builder().reconnect_min_delay(Duration::from_millis(9)).build()), "reconnect_min_delay");
    assert_eq!(field(builder().reconnect_max_delay(Duration::from_secs(31)).build()), "reconnect_max_delay");
    assert_eq!(field(Consumer::builder(client(&peer), subscription_id()).build()), "handler");
    let consumer = builder().build().expect("the defaults");
    assert_eq!(consumer.config().capacity(), 4);
    assert_eq!(consumer.stats(), Stats::default());
}

#[actix::test]
async fn notices_tell_the_run_and_end_with_it() {
    let mut peer = Peer::start().await;
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .reconnect_min_delay(Duration::from_millis(10))
        .handler(
            |event, _context| async move { if event.sequence.0 == 1 { Err(HandlerError::msg("no")) } else { Ok(()) } },
        )
        .build()
        .expect("in range");
    let mut notices = consumer.notices();
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    assert_eq!(soon("a notice", notices.next()).await, Some(Notice::Connected));
    let failed = session.deliver(1, 1).await.proof();
    assert_eq!(
        soon("a notice", notices.next()).await,
        Some(Notice::HandlerFailed { event_id: failed.event_id, generation: failed.generation, code: HANDLER_FAILED })
    );
    session.close(1001).await;
    match soon("a notice", notices.next()).await {
        Some(Notice::Disconnected { cause }) => assert!(matches!(cause.code, CauseCode::Close(code) if code.0 == 1001)),
        notice => panic!("expected a disconnect, got {notice:?}"),
    }
    let mut session = peer.session().await;
    assert_eq!(soon("a notice", notices.next()).await, Some(Notice::Connected));
    let sent = session.deliver(2, 1).await;
    session.settle(sent).await;
    assert_eq!(
        soon("a notice", notices.next()).await,
        Some(Notice::Acknowledged {
            event_id: sent.proof().event_id,
            generation: sent.proof().generation,
            replayed: Replay::First
        })
    );
    handle.stop();
    session.closed().await;
    // A clean stop is no disconnect.
    assert_eq!(soon("a notice", notices.next()).await, Some(Notice::Stopped));
    assert_eq!(soon("the end", notices.next()).await, None);
}

#[actix::test]
async fn unread_notices_are_dropped_and_counted_and_hold_up_nothing() {
    let mut peer = Peer::start().await;
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .handler(|_event, _context| async { Ok(()) })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    for n in 1..=150 {
        let sent = session.deliver(n, 1).await;
        session.settle(sent).await;
    }
    until("the receipts", || handle.stats().acknowledged == 150).await;
    // Connected and 150 receipts, of which 128 wait.
    until("the count", || handle.stats().dropped_notices == 23).await;
    let mut notices = handle.notices();
    let mut kept = 0;
    while notices.try_next().is_some() {
        kept += 1;
    }
    assert_eq!(kept, 128);
}
