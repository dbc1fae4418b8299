//! A store whose answers to some questions wait until a test lets them come.

use std::sync::Arc;
use std::time::Duration;

use perilune::server::ServerConfigBuilder;
use perilune::server::store::{
    AddBudget, Answer, Confirmation, Confirmed, CredentialRecord, Credentials, Deliveries, DeliveryRecord,
    LeaseRequest, Leases, ListDeliveries, ListSubscriptions, NewCredential, NewSubscription, Page, Principal, Report,
    Retained, Retention, Rotation, SecretHash, SessionRequest, Standing, Start, Store, StoreFigures, SubscriptionKey,
    SubscriptionRecord, Subscriptions, Swept, Switch, TaskLog, TaskRecord, Upkeep, Verdict, Wakes,
};
use perilune_proto::scalar::{DeliveryId, Name, SubscriptionId, TaskId};
use tokio::sync::watch;

use crate::http_harness::{PATIENCE, TestServer};

/// Holds the questions of reports and of sessions' standing while it is told to.
#[derive(Debug)]
pub(crate) struct HeldStore {
    inner: Arc<dyn Store>,
    held: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
}

impl HeldStore {
    /// A server on such a store, which answers at once as yet.
    pub(crate) async fn serve(set: impl FnOnce(ServerConfigBuilder) -> ServerConfigBuilder) -> (TestServer, Arc<Self>) {
        let mut made = None;
        let wrap = |inner| {
            let store = Arc::new(Self { inner, held: watch::Sender::new(false), waiting: watch::Sender::new(0) });
            made = Some(Arc::clone(&store));
            store as Arc<dyn Store>
        };
        let server = TestServer::start_on(wrap, set).await;
        (server, made.expect("the server has a store"))
    }

    /// From now on questions wait.
    pub(crate) fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Those that wait are asked, and later ones at once.
    pub(crate) fn release(&self) {
        self.held.send_replace(false);
    }

    /// Until so many questions wait.
    pub(crate) async fn holds(&self, questions: usize) {
        let mut waiting = self.waiting.subscribe();
        let held = tokio::time::timeout(PATIENCE, waiting.wait_for(|waiting| *waiting == questions)).await;
        held.expect("the questions come in time").expect("the store lives");
    }

    async fn turn(&self) {
        let mut held = self.held.subscribe();
        self.waiting.send_modify(|waiting| *waiting += 1);
        held.wait_for(|held| !held).await.expect("the store lives");
        self.waiting.send_modify(|waiting| *waiting -= 1);
    }
}

/// Methods that ask the inner store at once.
macro_rules! asks {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> Answer<'_, $answer> {
            self.inner.$name($($argument),*)
        })*
    };
}

impl Credentials for HeldStore {
    asks! {
        create_credential(new: NewCredential) -> CredentialRecord;
        credentials() -> Vec<CredentialRecord>;
        rotate_credential(rotation: Rotation) -> CredentialRecord;
        revoke_credential(name: Name) -> CredentialRecord;
        authenticate(presented: SecretHash) -> Option<Principal>;
    }
}

impl TaskLog for HeldStore {
    fn report(&self, report: Report) -> Answer<'_, Verdict> {
        Box::pin(async move {
            self.turn().await;
            self.inner.report(report).await
        })
    }

    asks! {
        report_batch(reports: Vec<Report>) -> Vec<Verdict>;
        task(task_id: TaskId) -> Option<TaskRecord>;
    }
}

impl Subscriptions for HeldStore {
    asks! {
        create_subscription(new: NewSubscription) -> SubscriptionRecord;
        subscriptions(list: ListSubscriptions) -> Page<SubscriptionRecord, SubscriptionId>;
        subscription(key: SubscriptionKey) -> SubscriptionRecord;
        switch_subscription(key: SubscriptionKey, to: Switch) -> SubscriptionRecord;
        seek_subscription(key: SubscriptionKey, to: Start) -> SubscriptionRecord;
        delete_subscription(key: SubscriptionKey) -> ();
    }
}

impl Deliveries for HeldStore {
    fn standing(&self, request: SessionRequest) -> Answer<'_, Standing> {
        Box::pin(async move {
            self.turn().await;
            self.inner.standing(request).await
        })
    }

    asks! {
        lease(request: LeaseRequest) -> Leases;
        confirm(confirmation: Confirmation) -> Confirmed;
        deliveries(list: ListDeliveries) -> Page<DeliveryRecord, DeliveryId>;
        add_budget(add: AddBudget) -> DeliveryRecord;
        add_budget_to_expired(key: SubscriptionKey, add: u32) -> u64;
    }
}

impl Upkeep for HeldStore {
    asks! {
        sweep() -> Swept;
        next_wakeup() -> Option<Duration>;
        retain(retention: Retention) -> Retained;
        probe() -> ();
        figures() -> StoreFigures;
        close() -> ();
    }

    fn wakes(&self) -> Wakes {
        self.inner.wakes()
    }
}
