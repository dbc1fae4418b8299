//! The demo's platform: a server on an embedded database, a credential, a subscription.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use perilune_client::{Client, Credential};
use perilune_proto::scalar::{Name, SubscriptionId};
use serde::{Deserialize, Serialize};

use super::super::api::Api;
use super::super::database;
use super::super::exit::{Failure, Outcome};
use super::super::stderr::tell;
use crate::server::store::{CredentialSecret, NewCredential, Role, Scope, Store};
use crate::server::{RunningServer, Server, ServerConfig};

/// The queue of the demo's results.
pub(super) const QUEUE: &str = "reports";

/// A running server, and the subscription that the demo consumes.
pub(super) struct Platform {
    server: RunningServer,
    store: Arc<dyn Store>,
    secret: CredentialSecret,
    api: Api,
    subscription: SubscriptionId,
}

#[derive(Serialize)]
struct CreateBody {
    name: &'static str,
    queues: [&'static str; 1],
    start: &'static str,
    budget: u32,
    backoff: BackoffBody,
}

#[derive(Serialize)]
struct BackoffBody {
    min_ms: u32,
    max_ms: u32,
}

#[derive(Deserialize)]
struct Figures {
    subscription_id: SubscriptionId,
    acknowledged: u64,
}

impl Platform {
    /// Starts everything on files in `folder`. With faults, leases are short, so that what was lost comes again soon.
    pub(super) async fn start(folder: &Path, faults: bool) -> Outcome<Self> {
        let url = format!("sqlite:{}", folder.join("platform.db").display());
        let store = database::open(&url.parse().map_err(failed)?, Role::Server).await?;
        let secret = CredentialSecret::generate();
        store.create_credential(credential(&secret)?).await.map_err(failed)?;
        let mut config = ServerConfig::builder().listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        if faults {
            config = config.lease_ms(1_000).heartbeat_ms(1_000);
        }
        let server = Server::start(config.build().map_err(failed)?, Arc::clone(&store)).await.map_err(failed)?;
        let address = server.addr();
        let api = Api::with(client(address, &secret)?, format!("http://{address}")).await?;
        let body = CreateBody {
            name: "demo",
            queues: [QUEUE],
            start: "earliest",
            budget: 1_000,
            backoff: BackoffBody { min_ms: 50, max_ms: 500 },
        };
        let created: Figures = api.post("/v1/subscriptions", Some(&body)).await?;
        Ok(Self { server, store, secret, api, subscription: created.subscription_id })
    }

    /// Where the server listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.server.addr()
    }

    /// The demo's subscription.
    pub(super) const fn subscription(&self) -> SubscriptionId {
        self.subscription
    }

    /// A client of this platform that reaches it by `address`.
    pub(super) fn client(&self, address: SocketAddr) -> Outcome<Client> {
        client(address, &self.secret)
    }

    /// Access to the HTTP API.
    pub(super) async fn api(&self) -> Outcome<Api> {
        Api::with(self.client(self.address())?, format!("http://{}", self.address())).await
    }

    /// How many deliveries the platform counts as confirmed.
    pub(super) async fn acknowledged(&self) -> Outcome<u64> {
        let figures: Figures = self.api.get(&format!("/v1/subscriptions/{}", self.subscription)).await?;
        Ok(figures.acknowledged)
    }

    /// Tells how to look around while it goes on serving.
    pub(super) fn invite(&self) {
        tell(format_args!("Serving on http://{} until a signal. To look around:", self.address()));
        tell(format_args!(
            "  export PERILUNE_URL=http://{} PERILUNE_CREDENTIAL={}",
            self.address(),
            self.secret.expose()
        ));
        tell(format_args!("  perilune subscription show {}", self.subscription));
    }

    /// Stops the server and closes its database.
    pub(super) async fn stop(self) -> Outcome {
        self.server.stop().await;
        self.store.close().await.map_err(failed)
    }
}

fn credential(secret: &CredentialSecret) -> Outcome<NewCredential> {
    Ok(NewCredential {
        name: "demo".parse::<Name>().map_err(failed)?,
        queues: [QUEUE.parse::<Name>().map_err(failed)?].into(),
        scopes: Scope::ALL.into_iter().collect(),
        secret: secret.hash(),
        expires_in: None,
    })
}

fn client(address: SocketAddr, secret: &CredentialSecret) -> Outcome<Client> {
    let credential = Credential::new(secret.expose()).map_err(failed)?;
    Client::builder(format!("http://{address}")).credential(credential).build().map_err(failed)
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Failed(error.into())
}
