//! The platform: a server of Perilune's own on an embedded database. Credentials and subscriptions are made once and found
//! again by their names, so that a restarted example goes on where it was.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use perilune::client::{Client, Credential, SubscriptionId};
use perilune::proto::Status;
use perilune::proto::lease::BACKOFF_DEFAULT;
use perilune::proto::limits::{BUDGET_DEFAULT, WINDOW_DEFAULT};
use perilune::proto::scalar::Name;
use perilune::server::store::{
    self, CredentialId, CredentialSecret, ListSubscriptions, NewCredential, NewSubscription, Role, Scope, SecretHash,
    Start, Store,
};
use perilune::server::{RunningServer, Server, ServerConfig};

/// The queue of the reports.
pub(crate) const QUEUE: &str = "reports";

pub(crate) struct Platform {
    folder: PathBuf,
    store: Arc<dyn Store>,
    server: RunningServer,
}

/// Somebody whom the platform knows.
pub(crate) struct Known {
    id: CredentialId,
    name: Name,
    secret: String,
}

impl Platform {
    pub(crate) async fn start(folder: &Path, listen: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let url = format!("sqlite:{}", folder.join("platform.db").display());
        let store = store::open(&url.parse()?, Role::Server).await?;
        let server = Server::start(ServerConfig::builder().listen(listen).build()?, Arc::clone(&store)).await?;
        Ok(Self { folder: folder.to_owned(), store, server })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.server.addr())
    }

    /// The credential of that name. `perilune credential create` makes one where the platform is a server of its own.
    pub(crate) async fn credential(&self, name: &str, scopes: &[Scope]) -> Result<Known, Box<dyn Error>> {
        let file = self.folder.join(format!("{name}.credential"));
        let secret = super::kept::text(&file, || CredentialSecret::generate().expose().to_owned())?;
        let name: Name = name.parse()?;
        let live = self.store.credentials().await?.into_iter().find(|one| one.name == name && one.revoked_at.is_none());
        let record = match live {
            Some(record) => record,
            None => {
                self.store
                    .create_credential(NewCredential {
                        name: name.clone(),
                        queues: [QUEUE.parse()?].into(),
                        scopes: scopes.iter().copied().collect(),
                        secret: SecretHash::of(&secret),
                        expires_in: None,
                    })
                    .await?
            }
        };
        Ok(Known { id: record.credential_id, name, secret })
    }

    /// The one subscription of a credential, to the queue's events with these statuses; to all where none are given.
    pub(crate) async fn subscription(
        &self,
        known: &Known,
        statuses: &[&str],
    ) -> Result<SubscriptionId, Box<dyn Error>> {
        let list = ListSubscriptions { credential_id: known.id, after: None, limit: 1 };
        if let Some(found) = self.store.subscriptions(list).await?.items.first() {
            return Ok(found.subscription.subscription_id);
        }
        let statuses = statuses.iter().map(|status| status.parse::<Status>()).collect::<Result<_, _>>()?;
        let created = self
            .store
            .create_subscription(NewSubscription {
                credential_id: known.id,
                name: known.name.to_string(),
                queues: [QUEUE.parse()?].into(),
                statuses,
                operations: [].into(),
                start: Start::Earliest,
                window: WINDOW_DEFAULT,
                budget: BUDGET_DEFAULT,
                backoff: BACKOFF_DEFAULT,
            })
            .await?;
        Ok(created.subscription.subscription_id)
    }

    /// A client of this platform.
    pub(crate) fn client(&self, known: &Known) -> Result<Client, Box<dyn Error>> {
        Ok(Client::builder(self.url()).credential(Credential::new(known.secret.clone())?).build()?)
    }

    pub(crate) async fn stop(self) -> Result<(), Box<dyn Error>> {
        self.server.stop().await;
        Ok(self.store.close().await?)
    }
}
