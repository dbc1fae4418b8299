//! Settling, pruning and what an operator sees.

use std::time::Duration;

use futures_util::future::join_all;
use perilune::inbox::inspect::{self, Delivered, DeliveryState, Finding, Mend, Summary};
use perilune::inbox::{Applied, Fingerprint, Pruned, PruningPolicy};
use perilune_proto::scalar::TaskVersion;

use super::apply;
use crate::engines::{Site, TestEngine, on_every_engine};
use crate::events::event;

on_every_engine! {
    only_settled_rows_older_than_the_retention_are_pruned,
    rows_that_were_settled_in_one_moment_are_pruned_across_batches,
    pruning_and_events_go_on_together,
    one_pruner_works_at_a_time,
    an_inbox_over_a_caller_s_pool_can_be_kept_pruned,
    rows_are_shown_in_pages,
    reconciling_names_each_contradiction,
    settling_is_idempotent_and_per_consumer,
}

/// Makes settled rows look that many days older.
async fn age<DB: TestEngine>(site: &Site<DB>, days: u64) {
    let us = days * 86_400_000_000;
    site.run(&format!("UPDATE {{p}}inbox SET settled_at = settled_at - {us}")).await;
}

async fn rows<DB: TestEngine>(site: &Site<DB>) -> i64 {
    site.number("SELECT COUNT(*) FROM {p}inbox").await
}

async fn only_settled_rows_older_than_the_retention_are_pruned<DB: TestEngine>(site: Site<DB>) {
    let (inbox, other) = (site.inbox("billing"), site.inbox("shipping"));
    for n in 0..5 {
        apply(&site, &inbox, &event(n), "x").await.expect("applied");
        apply(&site, &other, &event(n), "y").await.expect("applied");
    }
    let settled: Vec<_> = (0..3).map(|n| event(n).event_id).collect();
    assert_eq!(inbox.settle(&settled).await.expect("settled"), 3);
    assert_eq!(other.settle(&settled).await.expect("settled"), 3);
    age(&site, 31).await;
    assert_eq!(inbox.settle(&[event(3).event_id]).await.expect("settled"), 1);
    let policy = PruningPolicy::default();
    let figures = inspect::summary(&inbox, &policy).await.expect("counted");
    assert_eq!(figures, Summary { rows: 5, settled: 4, prunable: 3 });
    assert_eq!(inbox.prune(&policy).await.expect("pruned"), Pruned::Rows(3));
    assert_eq!(inbox.prune(&policy).await.expect("pruned"), Pruned::Rows(0));
    // The young settled row and the unsettled one are known as before, whatever their age.
    for n in 3..5 {
        assert_eq!(apply(&site, &inbox, &event(n), "x").await.expect("known"), Applied::Duplicate);
    }
    // Another consumer's rows are its own business.
    assert_eq!(rows(&site).await, 2 + 5);
    site.close().await;
}

/// A batch begins at the moment where the last one ended, and not behind it.
async fn rows_that_were_settled_in_one_moment_are_pruned_across_batches<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let ids: Vec<_> = (0..5).map(|n| event(n).event_id).collect();
    for n in 0..5 {
        apply(&site, &inbox, &event(n), "x").await.expect("applied");
    }
    inbox.settle(&ids).await.expect("settled");
    site.run("UPDATE {p}inbox SET settled_at = 1").await;
    let policy = PruningPolicy::default().batch(2).expect("a batch");
    assert_eq!(inbox.prune(&policy).await.expect("pruned"), Pruned::Rows(5));
    site.close().await;
}

async fn pruning_and_events_go_on_together<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let old: Vec<_> = (0..300).map(event).collect();
    for event in &old {
        apply(&site, &inbox, event, "old").await.expect("applied");
    }
    inbox.settle(&old.iter().map(|event| event.event_id).collect::<Vec<_>>()).await.expect("settled");
    age(&site, 31).await;
    let policy = PruningPolicy::default().batch(7).expect("a batch");
    let fresh = async {
        join_all((0..8_u128).map(|lane| {
            let (site, inbox) = (&site, &inbox);
            async move {
                for n in 0..25 {
                    let event = event(1_000 + lane * 100 + n);
                    assert_eq!(apply(site, inbox, &event, "new").await.expect("applied"), Applied::Fresh(()));
                    inbox.settle(&[event.event_id]).await.expect("settled");
                }
            }
        }))
        .await
    };
    let (pruned, _) = futures_util::future::join(inbox.prune(&policy), fresh).await;
    assert_eq!(pruned.expect("pruned"), Pruned::Rows(300));
    assert_eq!((rows(&site).await, site.effects("new").await), (200, 200));
    site.close().await;
}

async fn one_pruner_works_at_a_time<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    apply(&site, &inbox, &event(1), "x").await.expect("applied");
    inbox.settle(&[event(1).event_id]).await.expect("settled");
    age(&site, 31).await;
    let policy = PruningPolicy::default();
    let turn = |until: &str| format!("UPDATE {{p}}inbox_pruner SET holder = 'somebody', held_until = {until}");
    assert_eq!(inbox.prune(&policy).await.expect("pruned"), Pruned::Rows(1));
    site.run(&turn("9000000000000000")).await;
    assert_eq!(inbox.prune(&policy).await.expect("looked"), Pruned::ElsewhereNow);
    // A holder that died loses its turn by time alone.
    site.run(&turn("1000000")).await;
    assert_eq!(inbox.prune(&policy).await.expect("pruned"), Pruned::Rows(0));
    site.close().await;
}

async fn an_inbox_over_a_caller_s_pool_can_be_kept_pruned<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    inbox.keep_pruned(PruningPolicy::default().every(Duration::from_secs(1)).expect("a rest"));
    // More than one run's worth: it goes on.
    for n in 0..2 {
        apply(&site, &inbox, &event(n), "x").await.expect("applied");
        inbox.settle(&[event(n).event_id]).await.expect("settled");
        age(&site, 31).await;
        let gone = async {
            while rows(&site).await > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), gone).await.expect("pruned by itself");
    }
    site.close().await;
}

async fn rows_are_shown_in_pages<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    for n in 0..5 {
        apply(&site, &inbox, &event(n), "x").await.expect("applied");
    }
    inbox.settle(&[event(2).event_id]).await.expect("settled");
    let first = inspect::page(&inbox, None, 3).await.expect("read");
    let second = inspect::page(&inbox, Some(first[2].event_id), 3).await.expect("read");
    let seen: Vec<_> = first.iter().chain(&second).map(|row| row.event_id).collect();
    assert_eq!(seen, (0..5).map(|n| event(n).event_id).collect::<Vec<_>>());
    assert_eq!(first[0].fingerprint, Some(Fingerprint::of(&event(0))));
    let now = std::time::SystemTime::now();
    let off = |at: std::time::SystemTime| now.duration_since(at).unwrap_or_else(|early| early.duration());
    assert!(off(first[0].received_at) < Duration::from_secs(600), "the database's clock is the world's");
    assert!(first[2].settled_at.is_some() && first[1].settled_at.is_none());
    let open = inspect::unsettled(&inbox, None, 10).await.expect("read");
    assert_eq!(open.len(), 4);
    site.close().await;
}

async fn reconciling_names_each_contradiction<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    for n in 0..4 {
        apply(&site, &inbox, &event(n), "x").await.expect("applied");
    }
    inbox.settle(&[event(0).event_id]).await.expect("settled");
    let delivered =
        |n, state| Delivered { event_id: event(n).event_id, fingerprint: Some(Fingerprint::of(&event(n))), state };
    let mut changed = delivered(3, DeliveryState::Acknowledged);
    let other = Fingerprint { task_version: TaskVersion(9), ..Fingerprint::of(&event(3)) };
    changed.fingerprint = Some(other.clone());
    let server = [
        delivered(0, DeliveryState::Acknowledged),
        delivered(1, DeliveryState::Acknowledged),
        delivered(2, DeliveryState::Open),
        changed,
        delivered(50, DeliveryState::Acknowledged),
        delivered(51, DeliveryState::Open),
    ];
    let expected = [
        Finding::Unsettled(event(1).event_id),
        Finding::Unacknowledged(event(2).event_id),
        Finding::Different { event_id: event(3).event_id, stored: Some(Fingerprint::of(&event(3))), served: other },
        Finding::Absent(event(50).event_id),
    ];
    assert_eq!(inspect::reconcile(&inbox, &server, Mend::Nothing).await.expect("compared"), expected);
    assert_eq!(inspect::reconcile(&inbox, &server, Mend::Settled).await.expect("compared"), expected);
    // What was mended is no finding any more.
    assert_eq!(inspect::reconcile(&inbox, &server, Mend::Nothing).await.expect("compared"), expected[1..]);
    site.close().await;
}

async fn settling_is_idempotent_and_per_consumer<DB: TestEngine>(site: Site<DB>) {
    let (inbox, other) = (site.inbox("billing"), site.inbox("shipping"));
    let events: Vec<_> = (0..70).map(event).collect();
    for event in &events {
        apply(&site, &inbox, event, "x").await.expect("applied");
    }
    apply(&site, &other, &event(0), "y").await.expect("applied");
    let ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
    assert_eq!(inbox.settle(&ids).await.expect("settled"), 70);
    assert_eq!(inbox.settle(&ids).await.expect("settled"), 0);
    assert_eq!(inbox.settle(&[event(999).event_id]).await.expect("no row"), 0);
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}inbox WHERE settled_at IS NULL").await, 1);
    site.close().await;
}
