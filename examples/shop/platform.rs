//! Where results come from: the platform that the environment names, or one of the example's own on an embedded database.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use perilune::client::{Client, Credential, SubscriptionId};
use perilune::proto::lease::BACKOFF_DEFAULT;
use perilune::proto::limits::{BUDGET_DEFAULT, WINDOW_DEFAULT};
use perilune::proto::scalar::Name;
use perilune::server::store::{self, CredentialSecret, NewCredential, NewSubscription, Role, Scope, Start, Store};
use perilune::server::{RunningServer, Server, ServerConfig};

/// The queue of the shop's payments.
pub(crate) const QUEUE: &str = "payments";

/// A platform, and the subscription that the shop consumes.
pub(crate) struct Platform {
    pub(crate) url: String,
    pub(crate) credential: String,
    pub(crate) subscription: SubscriptionId,
    // Serves until it is dropped.
    _server: RunningServer,
}

impl Platform {
    /// Starts a platform that keeps its log in `file`, so that a restarted shop goes on where it was.
    pub(crate) async fn start(file: &str) -> Result<Self, Box<dyn Error>> {
        let fresh = !std::path::Path::new(file).exists();
        let store = store::open(&format!("sqlite:{file}").parse()?, Role::Server).await?;
        // An embedded platform keeps its secret beside its log. A real one shows it once and keeps a hash.
        let kept = format!("{file}.credential");
        let (credential, subscription) = match fresh {
            true => {
                let created = create(&*store).await?;
                std::fs::write(&kept, format!("{}\n{}", created.0, created.1))?;
                created
            }
            false => {
                let text = std::fs::read_to_string(&kept)?;
                let (credential, subscription) = text.split_once('\n').ok_or("the kept credential is damaged")?;
                (credential.to_owned(), subscription.parse()?)
            }
        };
        let config = ServerConfig::builder().listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).build()?;
        let server = Server::start(config, Arc::clone(&store)).await?;
        Ok(Self { url: format!("http://{}", server.addr()), credential, subscription, _server: server })
    }

    /// A client of this platform.
    pub(crate) fn client(&self) -> Result<Client, Box<dyn Error>> {
        Ok(Client::builder(self.url.clone()).credential(Credential::new(self.credential.clone())?).build()?)
    }
}

async fn create(store: &dyn Store) -> Result<(String, SubscriptionId), Box<dyn Error>> {
    let secret = CredentialSecret::generate();
    let queue: Name = QUEUE.parse()?;
    let credential = store
        .create_credential(NewCredential {
            name: "shop".parse()?,
            queues: [queue.clone()].into(),
            scopes: Scope::ALL.into_iter().collect(),
            secret: secret.hash(),
            expires_in: None,
        })
        .await?;
    let subscription = store
        .create_subscription(NewSubscription {
            credential_id: credential.credential_id,
            name: "shop".to_owned(),
            queues: [queue].into(),
            statuses: [].into(),
            operations: [].into(),
            start: Start::Earliest,
            window: WINDOW_DEFAULT,
            budget: BUDGET_DEFAULT,
            backoff: BACKOFF_DEFAULT,
        })
        .await?;
    Ok((secret.expose().to_owned(), subscription.subscription.subscription_id))
}
