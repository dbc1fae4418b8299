//! The inbox as a consumer's handler.

use std::sync::Arc;
use std::time::Duration;

use perilune::inbox::{ApplyErrorKind, OpenTransaction};
use perilune_actors::proto::consumer::Replay;
use perilune_actors::{CancelReason, EventContext, EventHandler as _, Receipt};
use perilune_proto::scalar::{Generation, SubscriptionId};

use crate::engines::{Site, TestEngine, on_every_engine};
use crate::events::event;

on_every_engine! {
    a_handler_applies_once_and_settles_on_its_receipt,
    a_stopping_consumer_s_handler_rolls_back,
    a_handler_s_thread_may_end_while_the_inbox_lives_on,
}

fn context() -> EventContext {
    EventContext::new(SubscriptionId::from_u128(7), Generation(1), Duration::from_secs(30))
}

async fn a_handler_applies_once_and_settles_on_its_receipt<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let effect: Arc<str> = site.effect("x").into();
    let handler = inbox.handler(move |given, mut tx: OpenTransaction<DB>| {
        let effect = Arc::clone(&effect);
        async move {
            assert_eq!(*given, event(1));
            DB::run(&mut tx, &effect).await.map(drop)
        }
    });
    for _ in 0..2 {
        handler.handle(Arc::new(event(1)), context()).await.expect("acknowledgeable");
    }
    assert_eq!(site.effects("x").await, 1);
    let receipt = Receipt {
        subscription_id: SubscriptionId::from_u128(7),
        event_id: event(1).event_id,
        generation: Generation(1),
        replayed: Replay::First,
    };
    inbox.on_settled()(vec![receipt]).await;
    assert_eq!(site.number("SELECT COUNT(settled_at) FROM {p}inbox").await, 1);
    site.close().await;
}

async fn a_stopping_consumer_s_handler_rolls_back<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let context = context();
    let (effect, token) = (Arc::<str>::from(site.effect("x")), context.cancellation().clone());
    let handler = inbox.handler(move |_, mut tx: OpenTransaction<DB>| {
        let (effect, token) = (Arc::clone(&effect), token.clone());
        async move {
            DB::run(&mut tx, &effect).await?;
            token.cancel(CancelReason::Stopping);
            std::future::pending::<Result<(), sqlx::Error>>().await
        }
    });
    let refused = handler.handle(Arc::new(event(1)), context).await.expect_err("never acknowledged");
    let error = refused.into_inner();
    let error = error.downcast_ref::<perilune::inbox::ApplyError>().expect("ours");
    assert_eq!(error.kind(), ApplyErrorKind::Cancelled);
    assert_eq!(site.effects("x").await, 0);
    site.close().await;
}

/// Handler threads come and go with their runtimes; the pool's connections live where the inbox was made.
async fn a_handler_s_thread_may_end_while_the_inbox_lives_on<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    for n in 0..3 {
        let (inbox, effect) = (inbox.clone(), Arc::<str>::from(site.effect("x")));
        let (done, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let handler = inbox.handler(move |_, mut tx: OpenTransaction<DB>| {
                let effect = Arc::clone(&effect);
                async move { DB::run(&mut tx, &effect).await.map(drop) }
            });
            let handled = runtime.block_on(handler.handle(Arc::new(event(n)), context()));
            drop(runtime);
            done.send(handled.is_ok()).expect("somebody waits");
        });
        assert!(ended.await.expect("the thread tells"));
    }
    assert_eq!(site.effects("x").await, 3);
    site.close().await;
}
