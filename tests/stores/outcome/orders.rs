//! Whatever order the events of an operation come in, it ends the same.

use perilune::outcome::{Decision, OutcomeEngine, OutcomeQuery};
use perilune_proto::{ResultEvent, Status};

use super::status::{ask, resource};
use super::{Counting, apply, event, json, operation_id, operations, with_error};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! { the_same_events_in_any_order_end_the_same }

/// Draws from a seed (an LCG's upper bits), so that a failure can be run again.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }

    fn shuffle(&mut self, events: &mut [ResultEvent]) {
        for at in (1..events.len()).rev() {
            events.swap(at, self.below(at + 1));
        }
    }
}

/// A life that the platform could have written: pending statuses, then perhaps an end.
fn life(draw: &mut Draw, n: u128) -> Vec<ResultEvent> {
    const PENDING: [Status; 4] = [Status::Accepted, Status::Started, Status::RetryScheduled, Status::NeedsReview];
    const ENDS: [Status; 4] = [Status::Succeeded, Status::Rejected, Status::Failed, Status::DeadLettered];
    let length = 1 + draw.below(6);
    let mut events: Vec<_> = (1..).take(length).map(|version| event(n, version, PENDING[draw.below(4)])).collect();
    for event in events.iter_mut().filter(|event| event.snapshot.status == Status::RetryScheduled) {
        let second = draw.below(60);
        event.snapshot.result = json(&format!(r#"{{"retryAt":"2026-08-01T10:00:{second:02}Z"}}"#));
    }
    if draw.below(3) > 0 {
        let end = event(n, u64::try_from(length).expect("short") + 1, ENDS[draw.below(4)]);
        events.push(with_error(end, ["validation/too_large", "too_late", "a person's words"][draw.below(3)]));
    }
    events
}

async fn the_same_events_in_any_order_end_the_same<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let lives: u128 = if DB::VARIABLE.is_none() { 60 } else { 25 };
    let mut draw = Draw(0x5eed);
    let resource = resource(&operations, &Counting::new(Some(Decision::Allow)));
    for n in 0..lives {
        let in_order = life(&mut draw, n * 2 + 1);
        // The same life of a second operation, shuffled, with repetitions.
        let mut shuffled: Vec<_> = in_order.clone();
        shuffled.extend((0..draw.below(4)).map(|_| in_order[draw.below(in_order.len())].clone()).collect::<Vec<_>>());
        for event in &mut shuffled {
            event.snapshot.task_id = operation_id(n * 2 + 2).task_id();
        }
        draw.shuffle(&mut shuffled);
        for event in in_order.iter().chain(&shuffled) {
            apply(&site, &operations, event).await.expect("applied");
        }
        let same = |column: &str| {
            format!(
                "SELECT COUNT(DISTINCT {column}) FROM {{p}}operations WHERE operation_id IN ('{}', '{}')",
                operation_id(n * 2 + 1),
                operation_id(n * 2 + 2)
            )
        };
        for column in ["state", "task_version", "review_required"] {
            assert_eq!(site.number(&same(column)).await, 1, "{column} of life {n}: {shuffled:?}");
        }
        let ended = in_order.last().is_some_and(|last| last.snapshot.status.is_terminal());
        if !ended {
            assert_eq!(site.number(&same("attempt")).await, 1, "attempt of life {n}: {shuffled:?}");
        }
        let shown = |n| {
            let (id, resource) = (operation_id(n).to_string(), &resource);
            async move {
                let answer = ask(resource, &id, &[]).await;
                assert_eq!(answer.status, 200, "{}", answer.body);
                answer.body.replace(&id, "ID")
            }
        };
        assert_eq!(shown(n * 2 + 1).await, shown(n * 2 + 2).await, "what is shown of life {n}: {shuffled:?}");
        let query = OutcomeQuery::new(&operations).with_authoriser(Counting::new(Some(Decision::Allow)));
        for id in [operation_id(n * 2 + 1), operation_id(n * 2 + 2)] {
            query.find(id, &super::caller(None)).await.expect("no contradiction");
        }
    }
    site.close().await;
}
